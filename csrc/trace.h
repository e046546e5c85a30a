/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_TRACE_H
#define CB_TRACE_H

/* The line trace: what a traced kernel reports, access by access, and what the
 * simulated memory makes of it. */

#include <stddef.h>
#include <stdint.h>

#include "cache.h"
#include "cb.h"
#include "stackdist.h"

/* What a lookup is doing when it touches memory. */
enum cb_trace_stage {
	CB_STAGE_NONE, /* outside a lookup */
	CB_STAGE_HASH,
	CB_STAGE_BUCKET,
	CB_STAGE_KEY,
	CB_STAGE_PREFETCH, /* reads that only serve to name what to prefetch */
	CB_STAGE_SESSION,
	CB_STAGE_COUNT
};

enum cb_trace_kind { CB_TRACE_READ, CB_TRACE_WRITE, CB_TRACE_PREFETCH, CB_TRACE_END };

/* One access, or the end of a lookup. */
struct cb_trace_event {
	uint64_t address;
	uint16_t bytes;
	uint8_t kind;
	uint8_t stage;
	uint32_t lookup; /* number in its burst */
};

/* The buffer that a traced kernel fills. It calls `flush` when it is full, and
 * whoever reads it sets `count` back to 0. */
struct cb_tracer {
	struct cb_trace_event *events;
	uint32_t count;
	uint32_t capacity;
	uint32_t lookup;
	uint32_t stage;
	void (*flush)(struct cb_tracer *tracer);
};

/* Accesses of one kind at one place, and the lines of them that missed. */
struct cb_trace_count {
	uint64_t accesses;
	uint64_t missed[CB_CACHE_LEVELS]; /* lines that missed L1d, L2, LLC */
	uint64_t tlb_missed[CB_TLB_LEVELS];
};

/* Counts of an arena by offset in its element, stage and kind:
 * count[(offset * CB_STAGE_COUNT + stage) * CB_TRACE_END + kind]. */
struct cb_trace_arena {
	const char *name;
	const char *type;
	uint32_t stride;
	uint64_t elements;
	uint64_t lines; /* distinct lines demanded, summed over lookups */
	struct cb_trace_count *count;
	/* LRU stack distances of the counted demand accesses, CB_STACKDIST_BUCKETS of
	 * them as stackdist.h explains; NULL if cb_trace_curve was not asked. */
	const double *distances;
};

struct cb_trace;

/* A trace of the lookups of `arm` through a simulated memory. If `prefetch` is 0
 * software prefetches are counted and change nothing. NULL with a line in `why`
 * on failure. */
struct cb_trace *cb_trace_open(const struct cb_arm *arm, const struct cb_cache_geometry *geometry,
			       int prefetch, char *why, size_t why_size);
void cb_trace_close(struct cb_trace *trace);

/* Also records stack distances, of a share `rate` of the lines. Returns 0, or -1
 * with a line in `why`. */
int cb_trace_curve(struct cb_trace *trace, double rate, char *why, size_t why_size);

/* From now on the trace sees and counts what callgrind would. An access to several
 * lines is one miss of a level at most, as cb_cache_access_span has it; otherwise it
 * is one for each line that missed. And the stream, the arm and, with a kernel of
 * CB_TRACE_STACK, the lookups of a burst take their place in the caches. */
void cb_trace_like_callgrind(struct cb_trace *trace);

/* What was counted of these. */
const struct cb_trace_count *cb_trace_surroundings(const struct cb_trace *trace);

/* Looks the stream up with a traced kernel (`ops` with a `trace` function) on the
 * arm's table. With `counted` 0 it is the warm-up. Returns 0, or -1 with a line. */
int cb_trace_run(struct cb_trace *trace, struct cb_arm *arm, const struct cb_ops *ops,
		 const struct cb_stream *stream, enum cb_mode mode, uint32_t policy, uint32_t burst,
		 int counted, char *why, size_t why_size);

/* Brings in all lines that lookups touch: of every element, those that the lookups
 * so far have demanded of any, in ascending order, all arenas side by side. Without
 * it the first use of a line would count as a miss of caches that hold them all.
 * More warm-up should follow, which gives them the order of use. Returns 0, or -1
 * with a line in `why`. */
int cb_trace_prime(struct cb_trace *trace, char *why, size_t why_size);

/* Lookups counted so far. */
uint64_t cb_trace_lookups(const struct cb_trace *trace);

/* Arenas by number; NULL after the last one. */
const struct cb_trace_arena *cb_trace_arena_at(const struct cb_trace *trace, uint32_t number);

#endif
