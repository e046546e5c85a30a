/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_SURROUND_H
#define CB_SURROUND_H

/* What lookups use beside the arenas: the stream's keys and lengths, the arm, and the
 * stack below the frame that called them. */

#include <stdint.h>

#include "cb.h"

enum { CB_SURROUNDINGS = 4 };

struct cb_surroundings {
	struct {
		uint64_t start; /* in this process and call */
		uint64_t bytes;
		uint64_t canonical; /* in the simulated memory */
	} part[CB_SURROUNDINGS];
};

/* Those of one call of a lookup function from `frame`. In the simulated memory they
 * follow each other from `canonical` on, so that they are at the same addresses in
 * every process. */
struct cb_surroundings cb_surround(const struct cb_arm *arm, const struct cb_stream *stream,
				   const void *frame, uint64_t canonical);

/* The simulated address of one of them; 0 if it is none. */
uint64_t cb_surround_find(const struct cb_surroundings *surroundings, uint64_t address);

#endif
