/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_CACHE_H
#define CB_CACHE_H

/* A simulated memory hierarchy: up to three levels of cache and two of TLB.
 *
 * Each level is set-associative with true LRU and allocates on reads and writes
 * alike; a level is asked only if the one before it missed, and a line that is
 * fetched is put into every level that missed. Levels do not invalidate each
 * other. There is no hardware prefetcher and no time. The number of sets need
 * not be a power of two: the set of a line is its number modulo the sets. */

#include <stddef.h>
#include <stdint.h>

enum { CB_CACHE_LEVELS = 3, CB_TLB_LEVELS = 2 };

struct cb_cache_shape {
	uint32_t ways; /* 0: there is no such level */
	uint32_t sets;
};

struct cb_cache_geometry {
	struct cb_cache_shape cache[CB_CACHE_LEVELS]; /* L1d, L2, LLC; 64-byte lines */
	struct cb_cache_shape tlb[CB_TLB_LEVELS];     /* for the pages in use */
	uint32_t page_bits;                           /* 12, 21 or 30 */
};

struct cb_cache;

/* NULL with a line in `why` on failure. */
struct cb_cache *cb_cache_open(const struct cb_cache_geometry *geometry, char *why,
			       size_t why_size);
void cb_cache_close(struct cb_cache *cache);

/* What one access to one line missed. */
struct cb_cache_miss {
	uint8_t levels; /* number of cache levels that missed: 0 is an L1d hit */
	uint8_t tlb;    /* number of TLB levels that missed */
};

/* Accesses the lines from `first` to `last` as one, the way callgrind does: a level
 * misses, and the next one is asked for all of them, if it lacks any. */
struct cb_cache_miss cb_cache_access_span(struct cb_cache *cache, uint64_t first, uint64_t last);

/* Accesses the 64-byte line `line` (an address divided by 64). */
struct cb_cache_miss cb_cache_access(struct cb_cache *cache, uint64_t line);

#endif
