/* SPDX-License-Identifier: BSD-3-Clause */

#include "cache.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	MAX_WAYS = 4096,
	/* Of one level: 64 GiB of cache. */
	MAX_LINES = 1 << 30,
	LINE_BITS = 6,
	MIN_PAGE_BITS = 12,
	MAX_PAGE_BITS = 30,
	/* Sets start at cache lines of the host where their size allows. */
	ALIGNMENT = 64,
};

/* A cache or a TLB. A way holds the number of a line (or page) plus one; 0 is an
 * empty way. Only the line UINT64_MAX cannot be held, and lines end at 2^58. */
struct level {
	uint64_t *ways;      /* by set, most recently used first */
	uint64_t reciprocal; /* floor((2^64 - 1) / sets) */
	uint32_t sets;
	uint32_t associativity;
	void *memory;
};

struct cb_cache {
	struct level cache[CB_CACHE_LEVELS];
	struct level tlb[CB_TLB_LEVELS];
	uint32_t cache_count;
	uint32_t tlb_count;
	uint32_t page_shift; /* from a line to its page */
};

/* number % sets without a division. The reciprocal is less than 1 below 2^64 /
 * sets, so the quotient is right or one too small for every 64-bit number. */
static inline uint64_t set_of(const struct level *level, uint64_t number)
{
	uint64_t quotient = (uint64_t)((unsigned __int128)number * level->reciprocal >> 64);
	uint64_t rest = number - quotient * level->sets;

	return rest >= level->sets ? rest - level->sets : rest;
}

static inline uint64_t *ways_of(const struct level *level, uint64_t number)
{
	return level->ways + set_of(level, number) * level->associativity;
}

/* Makes `number` the most recently used of its set. Returns 1 if it was there. */
static inline int touch(uint64_t *ways, uint32_t associativity, uint64_t number)
{
	uint64_t tag = number + 1;
	uint64_t carried = ways[0];

	if (carried == tag)
		return 1;
	ways[0] = tag;
	for (uint32_t i = 1; i < associativity; i++) {
		uint64_t here = ways[i];

		ways[i] = carried;
		if (here == tag)
			return 1;
		carried = here;
	}
	return 0;
}

/* Returns how many of the levels missed. Their sets come from memory while the
 * ones before them are searched: of a large cache, they are in no cache of ours. */
static inline uint32_t touch_levels(const struct level *levels, uint32_t count, uint64_t number)
{
	uint64_t *ways[CB_CACHE_LEVELS > CB_TLB_LEVELS ? CB_CACHE_LEVELS : CB_TLB_LEVELS];
	uint32_t missed = 1;

	if (count == 0 || touch(ways_of(&levels[0], number), levels[0].associativity, number))
		return 0;
	for (uint32_t i = 1; i < count; i++) {
		ways[i] = ways_of(&levels[i], number);
		__builtin_prefetch(ways[i], 1);
		__builtin_prefetch(ways[i] + levels[i].associativity - 1, 1);
	}
	while (missed < count && !touch(ways[missed], levels[missed].associativity, number))
		missed++;
	return missed;
}

struct cb_cache_miss cb_cache_access(struct cb_cache *cache, uint64_t line)
{
	return (struct cb_cache_miss){
		.levels = (uint8_t)touch_levels(cache->cache, cache->cache_count, line),
		.tlb = (uint8_t)touch_levels(cache->tlb, cache->tlb_count,
					     line >> cache->page_shift),
	};
}

/* The same for several numbers: a level has missed if it lacked any. */
static uint32_t touch_levels_span(const struct level *levels, uint32_t count, uint64_t first,
				  uint64_t last)
{
	uint32_t missed = 0;

	for (; missed < count; missed++) {
		const struct level *level = &levels[missed];
		int all = 1;

		for (uint64_t number = first; number <= last; number++)
			all &= touch(ways_of(level, number), level->associativity, number);
		if (all)
			break;
	}
	return missed;
}

struct cb_cache_miss cb_cache_access_span(struct cb_cache *cache, uint64_t first, uint64_t last)
{
	return (struct cb_cache_miss){
		.levels = (uint8_t)touch_levels_span(cache->cache, cache->cache_count, first, last),
		.tlb = (uint8_t)touch_levels_span(cache->tlb, cache->tlb_count,
						  first >> cache->page_shift,
						  last >> cache->page_shift),
	};
}

static int level_open(struct level *level, const char *name, struct cb_cache_shape shape, char *why,
		      size_t why_size)
{
	uint64_t lines = (uint64_t)shape.sets * shape.ways;

	if (shape.sets == 0) {
		snprintf(why, why_size, "%s has %u ways and no sets", name, shape.ways);
		return -1;
	}
	if (shape.ways > MAX_WAYS) {
		snprintf(why, why_size, "%s has %u ways; at most %d can be simulated", name,
			 shape.ways, MAX_WAYS);
		return -1;
	}
	if (lines > MAX_LINES) {
		snprintf(why, why_size, "%s has %llu entries; at most %d can be simulated", name,
			 (unsigned long long)lines, MAX_LINES);
		return -1;
	}
	level->memory = calloc(lines * sizeof *level->ways + ALIGNMENT, 1);
	if (level->memory == NULL) {
		snprintf(why, why_size, "no memory to simulate the %llu entries of %s",
			 (unsigned long long)lines, name);
		return -1;
	}
	level->ways = (uint64_t *)(((uintptr_t)level->memory + ALIGNMENT - 1) &
				   ~(uintptr_t)(ALIGNMENT - 1));
	level->reciprocal = UINT64_MAX / shape.sets;
	level->sets = shape.sets;
	level->associativity = shape.ways;
	return 0;
}

/* Opens the levels that exist. Returns how many, or -1. */
static int levels_open(struct level *levels, const char *const *names,
		       const struct cb_cache_shape *shapes, int count, char *why, size_t why_size)
{
	int opened = 0;

	for (int i = 0; i < count; i++) {
		if (shapes[i].ways == 0)
			continue;
		if (level_open(&levels[opened], names[i], shapes[i], why, why_size) != 0)
			return -1;
		opened++;
	}
	return opened;
}

struct cb_cache *cb_cache_open(const struct cb_cache_geometry *geometry, char *why, size_t why_size)
{
	static const char *const cache_names[CB_CACHE_LEVELS] = {"L1d", "L2", "LLC"};
	static const char *const tlb_names[CB_TLB_LEVELS] = {"the first TLB", "the second TLB"};
	struct cb_cache *cache;
	int caches, tlbs;

	if (geometry->page_bits < MIN_PAGE_BITS || geometry->page_bits > MAX_PAGE_BITS) {
		snprintf(why, why_size, "pages of 2^%u bytes; from 2^%d to 2^%d can be simulated",
			 geometry->page_bits, MIN_PAGE_BITS, MAX_PAGE_BITS);
		return NULL;
	}
	cache = calloc(1, sizeof *cache);
	if (cache == NULL) {
		snprintf(why, why_size, "no memory to simulate a cache");
		return NULL;
	}
	caches = levels_open(cache->cache, cache_names, geometry->cache, CB_CACHE_LEVELS, why,
			     why_size);
	tlbs = caches < 0 ? -1
			  : levels_open(cache->tlb, tlb_names, geometry->tlb, CB_TLB_LEVELS, why,
					why_size);
	if (tlbs < 0) {
		cb_cache_close(cache);
		return NULL;
	}
	cache->cache_count = (uint32_t)caches;
	cache->tlb_count = (uint32_t)tlbs;
	cache->page_shift = geometry->page_bits - LINE_BITS;
	return cache;
}

void cb_cache_close(struct cb_cache *cache)
{
	if (cache == NULL)
		return;
	for (int i = 0; i < CB_CACHE_LEVELS; i++)
		free(cache->cache[i].memory);
	for (int i = 0; i < CB_TLB_LEVELS; i++)
		free(cache->tlb[i].memory);
	free(cache);
}
