/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_MEASURE_H
#define CB_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#include "cb.h"
#include "traffic.h"

/* Time per burst, in ticks of the time-stamp counter: buckets whose width grows
 * with the value, CB_HISTOGRAM_STEPS for each power of two, so that a value is
 * known to within 1 / CB_HISTOGRAM_STEPS; values below CB_HISTOGRAM_STEPS are
 * exact. The last bucket takes all that is larger. */
enum { CB_HISTOGRAM_STEPS = 32, CB_HISTOGRAM_BUCKETS = 32 * 40 };

struct cb_histogram {
	uint64_t count[CB_HISTOGRAM_BUCKETS];
};

/* Smallest value of a bucket; the bucket ends where the next one starts. */
uint64_t cb_histogram_floor(uint32_t bucket);

/* One region of a plan: `count` new packets looked up by one arm. */
struct cb_step {
	uint32_t arm;
	enum cb_mode mode;
	uint32_t policy;  /* prefetch steps at most: 0, 1 or 2 */
	uint32_t burst;   /* 1 … CB_MAX_BURST */
	uint64_t count;   /* lookups that are timed */
	uint64_t lead_in; /* lookups before them that are not */
	uint32_t latency; /* 1: time each whole burst into the histogram */
};

struct cb_sample {
	uint32_t arm;
	uint64_t lookups;
	uint64_t hits;
	uint64_t cpu_ns;  /* CLOCK_THREAD_CPUTIME_ID */
	uint64_t wall_ns; /* CLOCK_MONOTONIC */
	uint64_t tsc;     /* ticks of the time-stamp counter */
	uint64_t minor_faults;
	uint64_t major_faults;
	uint64_t voluntary_switches;
	uint64_t involuntary_switches;
};

/* Ends of the pipes of `perf stat --control fd:…`; control < 0: nobody listens. */
struct cb_control {
	int control;
	int acknowledge;
};

/* Executes the steps in order, each with a newly drawn key sequence, into
 * samples[0 … count). `histogram` may be NULL if no step asks for latency.
 * Counters are enabled around the timed part of each step alone. Nothing is
 * allocated while a region runs. Returns 0, or -1 with a line in `why`. */
int cb_measure(struct cb_arm *const *arms, struct cb_traffic *traffic, uint32_t key_size,
	       const struct cb_step *steps, uint32_t count, struct cb_sample *samples,
	       struct cb_histogram *histogram, struct cb_control control, char *why,
	       size_t why_size);

#endif
