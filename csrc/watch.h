/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_WATCH_H
#define CB_WATCH_H

/* Lookups for a tool that watches the whole process and must tell them from the
 * rest: the warm-up is done outside of a function of a known name, and a store to a
 * known place stands before and after each call.
 *
 * All packets are drawn first, into a file, and read from it as they are looked up.
 * Drawing reads tables of its own, which would take the place of the lookups' lines in
 * simulated caches; what the kernel copies out of the file does not go through them. */

#include <stddef.h>
#include <stdint.h>

#include "cb.h"
#include "traffic.h"

/* Packets that begin with a new burst, as the line trace draws them: the same
 * packets are in the same bursts here and there. */
enum { CB_WATCH_BLOCK = 65536 };

struct cb_watch {
	enum cb_mode mode;
	uint32_t policy;
	uint32_t burst;
	/* Packets read at a time, at most CB_WATCH_BLOCK: few of them stay in the
	 * first-level cache. */
	uint32_t read;
	/* Lookups in one call. What is less than a burst, or no multiple of it, cuts
	 * bursts. */
	uint32_t slice;
	uint64_t warm_up;
	uint64_t lookups;
};

/* Written once before each watched call and once after it. */
extern volatile uint64_t cb_watch_marker;

/* What is watched: `lookup` and all that it calls. */
void cb_watched(cb_lookup_fn *lookup, struct cb_arm *arm, const struct cb_stream *stream,
		uint32_t burst);

/* Looks up the traffic's next packets: `warm_up` of them, then `lookups` that are
 * watched. Returns 0, or -1 with a line in `why`. */
int cb_watch_run(struct cb_arm *arm, struct cb_traffic *traffic, const struct cb_watch *watch,
		 char *why, size_t why_size);

#endif
