/* SPDX-License-Identifier: BSD-3-Clause */

#define _GNU_SOURCE /* RUSAGE_THREAD */

#include "measure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "logbucket.h"

#if defined(__x86_64__)
#include <x86intrin.h>
static inline uint64_t tsc_now(void)
{
	return __rdtsc();
}
#elif defined(__aarch64__)
static inline uint64_t tsc_now(void)
{
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
}
#else
#error "x86-64 or aarch64"
#endif

/* log2(CB_HISTOGRAM_STEPS) */
enum { STEP_BITS = 5 };

static uint32_t histogram_bucket(uint64_t value)
{
	uint32_t bucket = logbucket_of(value, STEP_BITS);

	return bucket < CB_HISTOGRAM_BUCKETS ? bucket : CB_HISTOGRAM_BUCKETS - 1;
}

uint64_t cb_histogram_floor(uint32_t bucket)
{
	return logbucket_floor(bucket, STEP_BITS);
}

/* One command, then its acknowledgement of five bytes: "ack\n" and a zero. */
static int control_send(struct cb_control control, const char *command)
{
	char answer[5];
	size_t length = strlen(command), got = 0;
	ssize_t n;

	if (control.control < 0)
		return 0;
	do
		n = write(control.control, command, length);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)length)
		return -1;
	while (got < sizeof answer) {
		n = read(control.acknowledge, answer + got, sizeof answer - got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		got += (size_t)n;
	}
	return memcmp(answer, "ack\n", 4) == 0 ? 0 : -1;
}

static struct cb_stream stream_slice(const struct cb_stream *stream, uint64_t from, uint64_t count,
				     uint32_t key_size)
{
	return (struct cb_stream){.keys = stream->keys + from * key_size,
				  .lengths = stream->lengths + from,
				  .count = count};
}

static void run_bursts(struct cb_arm *arm, cb_lookup_fn *lookup, const struct cb_stream *stream,
		       uint32_t burst, uint32_t key_size, struct cb_histogram *histogram)
{
	uint64_t before = tsc_now();

	for (uint64_t i = 0; i + burst <= stream->count; i += burst) {
		struct cb_stream slice = stream_slice(stream, i, burst, key_size);
		uint64_t now;

		lookup(arm, &slice, burst);
		now = tsc_now();
		histogram->count[histogram_bucket(now - before)]++;
		before = now;
	}
}

static int run_step(struct cb_arm *arm, const struct cb_step *step, const struct cb_stream *drawn,
		    uint32_t key_size, struct cb_sample *sample, struct cb_histogram *histogram,
		    struct cb_control control)
{
	cb_lookup_fn *lookup = arm->ops->lookup[step->mode][step->policy];
	struct cb_stream lead_in = stream_slice(drawn, 0, step->lead_in, key_size);
	struct cb_stream timed = stream_slice(drawn, step->lead_in, step->count, key_size);
	struct rusage before, after;
	uint64_t hits, packets, cpu, wall, tsc;

	lookup(arm, &lead_in, step->burst);
	if (control_send(control, "enable\n") != 0)
		return -1;
	hits = arm->hits;
	packets = arm->packets;
	getrusage(RUSAGE_THREAD, &before);
	wall = clock_ns(CLOCK_MONOTONIC);
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	tsc = tsc_now();
	if (step->latency)
		run_bursts(arm, lookup, &timed, step->burst, key_size, histogram);
	else
		lookup(arm, &timed, step->burst);
	tsc = tsc_now() - tsc;
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	wall = clock_ns(CLOCK_MONOTONIC) - wall;
	getrusage(RUSAGE_THREAD, &after);
	if (control_send(control, "disable\n") != 0)
		return -1;
	*sample = (struct cb_sample){
		.arm = step->arm,
		.lookups = arm->packets - packets,
		.hits = arm->hits - hits,
		.cpu_ns = cpu,
		.wall_ns = wall,
		.tsc = tsc,
		.minor_faults = (uint64_t)(after.ru_minflt - before.ru_minflt),
		.major_faults = (uint64_t)(after.ru_majflt - before.ru_majflt),
		.voluntary_switches = (uint64_t)(after.ru_nvcsw - before.ru_nvcsw),
		.involuntary_switches = (uint64_t)(after.ru_nivcsw - before.ru_nivcsw),
	};
	return 0;
}

int cb_measure(struct cb_arm *const *arms, struct cb_traffic *traffic, uint32_t key_size,
	       const struct cb_step *steps, uint32_t count, struct cb_sample *samples,
	       struct cb_histogram *histogram, struct cb_control control, char *why,
	       size_t why_size)
{
	uint64_t most = 1;
	struct cb_stream stream;
	char *keys;
	uint16_t *lengths;
	int status = 0;

	for (uint32_t i = 0; i < count; i++)
		if (steps[i].count + steps[i].lead_in > most)
			most = steps[i].count + steps[i].lead_in;
	keys = malloc(most * key_size);
	lengths = malloc(most * sizeof *lengths);
	if (keys == NULL || lengths == NULL) {
		snprintf(why, why_size, "no memory for a stream of %llu packets",
			 (unsigned long long)most);
		status = -1;
	}
	for (uint32_t i = 0; i < count && status == 0; i++) {
		uint64_t packets = steps[i].lead_in + steps[i].count;

		cb_traffic_draw(traffic, packets, keys, lengths, NULL);
		stream = (struct cb_stream){.keys = keys, .lengths = lengths, .count = packets};
		if (run_step(arms[steps[i].arm], &steps[i], &stream, key_size, &samples[i],
			     histogram, control) != 0) {
			snprintf(why, why_size, "perf did not acknowledge a command");
			status = -1;
		}
	}
	free(keys);
	free(lengths);
	return status;
}
