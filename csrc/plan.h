/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_PLAN_H
#define CB_PLAN_H

/* What the driver is told to do: its command line. */

#include <stddef.h>
#include <stdint.h>

#define CB_MOST_SESSIONS ((uint64_t)1 << 30)

struct plan {
	const char *layout; /* built-in name */
	const char *plugin; /* path, instead of a layout */
	const char *capture;
	uint64_t sessions, seed, heap_seed;
	uint64_t stream; /* number of the packets' sequence; the seed if not given */
	uint64_t count, lead_in, regions;
	uint64_t watched; /* lookups of cb_watch_run; 0: timed regions instead */
	uint64_t read, slice;
	uint64_t burst, policy, clones, profiles, rules, verify;
	uint64_t mode, pages, heap, popularity; /* numbers of their names */
	double max_load, hit_ratio, exponent;
};

/* The plan of a command line of key=value words; NULL with a line in `why` if one
 * of them is wrong. */
const struct plan *cb_plan_read(int argc, char **argv, char *why, size_t why_size);

#endif
