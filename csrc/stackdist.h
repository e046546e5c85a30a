/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_STACKDIST_H
#define CB_STACKDIST_H

/* LRU stack distances (Mattson, Gecsei, Slutz, Traiger, IBM Systems Journal 9,
 * 1970): an access whose line was last used with D other lines in between hits
 * in every fully associative LRU cache of more than D lines and misses in every
 * smaller one. One pass gives the misses of all sizes.
 *
 * Sampled as SHARDS does (Waldspurger, Park, Garthwaite, Ahmad, FAST 2015): only
 * lines whose hash is below rate are followed, and distances are scaled by
 * 1/rate. A rate of 1 follows all. */

#include <stddef.h>
#include <stdint.h>

enum {
	CB_STACKDIST_OBJECTS = 32,
	/* Buckets of the histogram: four for each power of two of the distance,
	 * then one for lines that were never used before. */
	CB_STACKDIST_STEPS = 4,
	CB_STACKDIST_BUCKETS = CB_STACKDIST_STEPS * 40 + 1,
};

struct cb_stackdist;

/* `lines`: an upper bound of the distinct lines that will be followed, for the
 * first allocation. NULL with a line in `why` on failure. */
struct cb_stackdist *cb_stackdist_open(double rate, uint64_t lines, char *why, size_t why_size);
void cb_stackdist_close(struct cb_stackdist *s);

/* Accesses `line` on behalf of `object` (below CB_STACKDIST_OBJECTS). Accesses
 * with `counted` 0 move the stack and are not counted: the warm-up. Returns 0,
 * or -1 if there is no memory. */
int cb_stackdist_access(struct cb_stackdist *s, uint64_t line, uint32_t object, int counted);

/* Counted accesses of an object by bucket of distance, scaled by 1/rate. */
const double *cb_stackdist_histogram(const struct cb_stackdist *s, uint32_t object);

/* Smallest distance of a bucket; the last bucket has none (UINT64_MAX). */
uint64_t cb_stackdist_floor(uint32_t bucket);

#endif
