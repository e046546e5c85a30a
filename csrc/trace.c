/* SPDX-License-Identifier: BSD-3-Clause */

#include "trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arm.h"
#include "surround.h"

enum {
	LINE_BITS = 6,
	BUFFER_EVENTS = 4096,
	LINE = 1 << LINE_BITS,
	/* Parts of each arena that are primed side by side. */
	PRIME_SLICES = 256,
	/* Distinct lines that one lookup may demand; more are an error. */
	LOOKUP_LINES = 128,
	ARENAS = CB_MAX_ARENAS + 3, /* of the layout; buckets, keys and rules */
	ARENAS_APART = 1 << 21,
};

_Static_assert(ARENAS <= CB_STACKDIST_OBJECTS, "each arena has stack distances of its own");

/* Where an arena is, and where the simulated memory has it: arenas follow each
 * other there in the order of their declaration, each at a multiple of 2 MiB, so
 * that the same experiment has the same addresses in every process. */
struct range {
	uint64_t start;
	uint64_t end;
	uint64_t canonical;
	struct cb_trace_arena *arena;
	uint8_t *demanded; /* by line of an element, if elements are whole lines */
};

/* Lines that one lookup of the burst has demanded so far. */
struct demand {
	uint32_t count;
	uint64_t line[LOOKUP_LINES];
	struct cb_trace_arena *arena[LOOKUP_LINES];
};

struct cb_trace {
	struct cb_tracer tracer; /* first: flush is given this */
	struct cb_cache *cache;
	/* Which levels there are: a miss is of the first, the second … of them. */
	uint8_t cache_level[CB_CACHE_LEVELS];
	uint8_t tlb_level[CB_TLB_LEVELS];
	struct cb_stackdist *distances; /* or NULL */
	int prefetch;
	int like_callgrind;
	struct cb_surroundings around;       /* like callgrind: of this call */
	struct cb_trace_count around_counts; /* and what they missed */
	int counted;
	const char *fault;
	uint64_t lookups;
	uint32_t arena_count;
	struct cb_trace_arena arena[ARENAS];
	struct range range[ARENAS]; /* ascending addresses */
	uint64_t end;               /* of the arenas in the simulated memory */
	struct cb_trace_event events[BUFFER_EVENTS];
	struct demand demand[CB_MAX_BURST];
};

static const struct range *find_range(const struct cb_trace *t, uint64_t address)
{
	uint32_t low = 0, high = t->arena_count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (address >= t->range[middle].end)
			low = middle + 1;
		else
			high = middle;
	}
	return low < t->arena_count && address >= t->range[low].start ? &t->range[low] : NULL;
}

static void demand_line(struct cb_trace *t, uint32_t lookup, uint64_t line,
			struct cb_trace_arena *arena)
{
	struct demand *d = &t->demand[lookup];

	for (uint32_t i = 0; i < d->count; i++)
		if (d->line[i] == line)
			return;
	if (d->count == LOOKUP_LINES) {
		t->fault = "a lookup touches more than 128 lines";
		return;
	}
	d->line[d->count] = line;
	d->arena[d->count++] = arena;
}

static uint64_t lines_of(const struct range *range)
{
	return range->arena->stride >> LINE_BITS;
}

static void record_distance(struct cb_trace *t, const struct range *range, uint64_t line)
{
	if (t->distances != NULL &&
	    cb_stackdist_access(t->distances, line, (uint32_t)(range->arena - t->arena),
				t->counted) != 0)
		t->fault = "no memory for stack distances";
}

static void add_miss(const struct cb_trace *t, struct cb_trace_count *count,
		     struct cb_cache_miss miss)
{
	for (int level = 0; level < miss.levels; level++)
		count->missed[t->cache_level[level]]++;
	for (int level = 0; level < miss.tlb; level++)
		count->tlb_missed[t->tlb_level[level]]++;
}

static void access_lines(struct cb_trace *t, uint64_t first, uint64_t last,
			 struct cb_trace_count *count)
{
	if (t->like_callgrind)
		add_miss(t, count, cb_cache_access_span(t->cache, first, last));
	else
		for (uint64_t line = first; line <= last; line++)
			add_miss(t, count, cb_cache_access(t->cache, line));
}

/* An access outside of the arenas, where it counts. */
static void trace_around(struct cb_trace *t, const struct cb_trace_event *event)
{
	uint64_t address = cb_surround_find(&t->around, event->address);
	struct cb_trace_count none = {0}, *count = t->counted ? &t->around_counts : &none;

	if (address == 0)
		return; /* the record of the stream, read once in a call */
	count->accesses++;
	access_lines(t, address >> LINE_BITS, (address + event->bytes - 1) >> LINE_BITS, count);
}

static void trace_access(struct cb_trace *t, const struct cb_trace_event *event)
{
	const struct range *range = find_range(t, event->address);
	struct cb_trace_count none = {0}, *count = &none;
	uint64_t offset, first, last;

	if (range == NULL) { /* the stack, the key stream, control data */
		if (t->like_callgrind)
			trace_around(t, event);
		return;
	}
	offset = event->address - range->start;
	if (t->counted) {
		uint64_t in_element = offset % range->arena->stride;

		count = &range->arena->count[(in_element * CB_STAGE_COUNT + event->stage) *
						     CB_TRACE_END +
					     event->kind];
	}
	count->accesses++;
	if (event->kind == CB_TRACE_PREFETCH && !t->prefetch)
		return;
	first = (range->canonical + offset) >> LINE_BITS;
	last = (range->canonical + offset + event->bytes - 1) >> LINE_BITS;
	access_lines(t, first, last, count);
	if (event->kind == CB_TRACE_PREFETCH)
		return;
	for (uint64_t line = first; line <= last; line++) {
		demand_line(t, event->lookup, line, range->arena);
		record_distance(t, range, line);
		if (range->demanded != NULL)
			range->demanded[(line - (range->canonical >> LINE_BITS)) %
					lines_of(range)] = 1;
	}
}

static void prime_slice(struct cb_trace *t, const struct range *range, uint64_t slice)
{
	uint64_t lines = (range->end - range->start + LINE - 1) >> LINE_BITS;
	uint64_t element = range->demanded ? lines_of(range) : 1;
	uint64_t first = lines / element * slice / PRIME_SLICES * element;
	uint64_t after = slice + 1 == PRIME_SLICES
				 ? lines
				 : lines / element * (slice + 1) / PRIME_SLICES * element;

	for (uint64_t i = first; i < after; i++) {
		uint64_t line = (range->canonical >> LINE_BITS) + i;

		if (range->demanded != NULL && !range->demanded[i % element])
			continue;
		cb_cache_access(t->cache, line);
		record_distance(t, range, line);
	}
}

static void trace_end(struct cb_trace *t, uint32_t lookup)
{
	struct demand *d = &t->demand[lookup];

	if (t->counted) {
		for (uint32_t i = 0; i < d->count; i++)
			d->arena[i]->lines++;
		t->lookups++;
	}
	d->count = 0;
}

static void flush(struct cb_tracer *tracer)
{
	struct cb_trace *t = (struct cb_trace *)tracer;

	for (uint32_t i = 0; i < tracer->count; i++) {
		if (tracer->events[i].kind == CB_TRACE_END)
			trace_end(t, tracer->events[i].lookup);
		else
			trace_access(t, &tracer->events[i]);
	}
	tracer->count = 0;
}

static int add_arena(struct cb_trace *t, const char *name, const char *type, uint32_t stride,
		     const void *base, uint64_t count)
{
	struct cb_trace_arena *arena = &t->arena[t->arena_count];
	struct range *range = &t->range[t->arena_count++];

	range->start = (uint64_t)(uintptr_t)base;
	range->end = range->start + count * stride;
	range->canonical = t->end;
	t->end += (count * stride + ARENAS_APART - 1) / ARENAS_APART * ARENAS_APART;
	range->arena = arena;
	arena->name = name;
	arena->type = type;
	arena->stride = stride;
	arena->elements = count;
	arena->count = calloc((size_t)stride * CB_STAGE_COUNT * CB_TRACE_END, sizeof *arena->count);
	range->demanded = NULL;
	if (stride % LINE == 0) {
		range->demanded = calloc(stride / LINE, sizeof *range->demanded);
		if (range->demanded == NULL)
			return -1;
	}
	return arena->count == NULL ? -1 : 0;
}

static int by_address(const void *a, const void *b)
{
	const struct range *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
}

static int add_arenas(struct cb_trace *t, const struct cb_arm *arm)
{
	struct cb_elements e;
	int failed = 0;

	t->end = ARENAS_APART; /* no address is 0 */
	for (uint32_t i = 0; cb_arm_elements(arm, i, &e); i++)
		failed |= add_arena(t, e.spec->name, e.spec->type, e.spec->stride, e.base, e.count);
	qsort(t->range, t->arena_count, sizeof *t->range, by_address);
	return failed;
}

static void number_levels(uint8_t *levels, const struct cb_cache_shape *shapes, int count)
{
	int found = 0;

	for (int i = 0; i < count; i++)
		if (shapes[i].ways != 0)
			levels[found++] = (uint8_t)i;
}

struct cb_trace *cb_trace_open(const struct cb_arm *arm, const struct cb_cache_geometry *geometry,
			       int prefetch, char *why, size_t why_size)
{
	struct cb_trace *t = calloc(1, sizeof *t);

	if (t == NULL || add_arenas(t, arm) != 0) {
		snprintf(why, why_size, "no memory for a trace");
		cb_trace_close(t);
		return NULL;
	}
	t->cache = cb_cache_open(geometry, why, why_size);
	if (t->cache == NULL) {
		cb_trace_close(t);
		return NULL;
	}
	number_levels(t->cache_level, geometry->cache, CB_CACHE_LEVELS);
	number_levels(t->tlb_level, geometry->tlb, CB_TLB_LEVELS);
	t->prefetch = prefetch;
	t->tracer =
		(struct cb_tracer){.events = t->events, .capacity = BUFFER_EVENTS, .flush = flush};
	return t;
}

void cb_trace_close(struct cb_trace *t)
{
	if (t == NULL)
		return;
	for (uint32_t i = 0; i < t->arena_count; i++) {
		free(t->arena[i].count);
		free(t->range[i].demanded);
	}
	cb_cache_close(t->cache);
	cb_stackdist_close(t->distances);
	free(t);
}

int cb_trace_curve(struct cb_trace *t, double rate, char *why, size_t why_size)
{
	t->distances = cb_stackdist_open(rate, 0, why, why_size);
	if (t->distances == NULL)
		return -1;
	for (uint32_t i = 0; i < t->arena_count; i++)
		t->arena[i].distances = cb_stackdist_histogram(t->distances, i);
	return 0;
}

void cb_trace_like_callgrind(struct cb_trace *t)
{
	t->like_callgrind = 1;
}

const struct cb_trace_count *cb_trace_surroundings(const struct cb_trace *t)
{
	return &t->around_counts;
}

int cb_trace_run(struct cb_trace *t, struct cb_arm *arm, const struct cb_ops *ops,
		 const struct cb_stream *stream, enum cb_mode mode, uint32_t policy, uint32_t burst,
		 int counted, char *why, size_t why_size)
{
	if (ops->trace == NULL) {
		snprintf(why, why_size, "the kernel of %s is no trace build", ops->layout);
		return -1;
	}
	t->counted = counted;
	t->around = cb_surround(arm, stream, __builtin_frame_address(0), t->end);
	ops->trace(&t->tracer);
	ops->lookup[mode][policy](arm, stream, burst);
	ops->trace(NULL);
	flush(&t->tracer);
	if (t->fault != NULL) {
		snprintf(why, why_size, "%s", t->fault);
		return -1;
	}
	return 0;
}

int cb_trace_prime(struct cb_trace *t, char *why, size_t why_size)
{
	const struct range *declared[ARENAS];

	/* In the order of declaration: that of addresses is another in each process. */
	for (uint32_t i = 0; i < t->arena_count; i++)
		declared[t->range[i].arena - t->arena] = &t->range[i];
	t->counted = 0;
	for (uint64_t slice = 0; slice < PRIME_SLICES; slice++)
		for (uint32_t i = 0; i < t->arena_count; i++)
			prime_slice(t, declared[i], slice);
	if (t->fault != NULL) {
		snprintf(why, why_size, "%s", t->fault);
		return -1;
	}
	return 0;
}

uint64_t cb_trace_lookups(const struct cb_trace *t)
{
	return t->lookups;
}

const struct cb_trace_arena *cb_trace_arena_at(const struct cb_trace *t, uint32_t number)
{
	return number < t->arena_count ? &t->arena[number] : NULL;
}
