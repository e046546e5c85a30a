/* SPDX-License-Identifier: BSD-3-Clause */

/* Runs one plan without Python: for valgrind, perf record and sanitizers.
 *
 *   cachebench-driver key=value …
 *
 * Prints one JSON object per region on standard output, or, with watched=N, where
 * the arenas are and how many lookups were watched. Exit code 0, or 2 with one line
 * on standard error. */

#include <stdio.h>

#include "arm.h"
#include "capture.h"
#include "fill.h"
#include "measure.h"
#include "memory.h"
#include "plan.h"
#include "plugin.h"
#include "traffic.h"
#include "verify.h"
#include "watch.h"

static int fail(const char *why)
{
	fprintf(stderr, "cachebench-driver: %s\n", why);
	return 2;
}

static void print_sample(const struct cb_sample *s)
{
	printf("{\"lookups\": %llu, \"hits\": %llu, \"cpu_ns\": %llu, \"wall_ns\": %llu, "
	       "\"tsc\": %llu}\n",
	       (unsigned long long)s->lookups, (unsigned long long)s->hits,
	       (unsigned long long)s->cpu_ns, (unsigned long long)s->wall_ns,
	       (unsigned long long)s->tsc);
}

/* Timed regions. */
static int measure(const struct plan *plan, struct cb_traffic *traffic, struct cb_arm *arm)
{
	static const struct cb_control nobody = {-1, -1};
	const struct cb_step step = {.mode = (enum cb_mode)plan->mode,
				     .policy = (uint32_t)plan->policy,
				     .burst = (uint32_t)plan->burst,
				     .count = plan->count,
				     .lead_in = plan->lead_in};
	char why[400];

	for (uint64_t i = 0; i < plan->regions; i++) {
		struct cb_sample sample;

		if (cb_measure(&arm, traffic, arm->ops->key_size, &step, 1, &sample, NULL, nobody,
			       why, sizeof why) != 0)
			return fail(why);
		print_sample(&sample);
	}
	return 0;
}

/* Lookups for a tool that must be told where they are in memory. */
static int watch(const struct plan *plan, struct cb_traffic *traffic, struct cb_arm *arm)
{
	const struct cb_watch watch = {.mode = (enum cb_mode)plan->mode,
				       .policy = (uint32_t)plan->policy,
				       .burst = (uint32_t)plan->burst,
				       .read = (uint32_t)plan->read,
				       .slice = (uint32_t)plan->slice,
				       .warm_up = plan->lead_in,
				       .lookups = plan->watched};
	uint64_t packets = arm->packets + watch.warm_up;
	struct cb_elements elements;
	char why[400];

	printf("{\"marker\": %llu, \"arenas\": [", (unsigned long long)(uintptr_t)&cb_watch_marker);
	for (uint32_t i = 0; cb_arm_elements(arm, i, &elements); i++)
		printf("%s{\"start\": %llu, \"bytes\": %llu}", i ? ", " : "",
		       (unsigned long long)(uintptr_t)elements.base,
		       (unsigned long long)(elements.count * elements.spec->stride));
	printf("]}\n");
	fflush(stdout);
	if (cb_watch_run(arm, traffic, &watch, why, sizeof why) != 0)
		return fail(why);
	printf("{\"watched\": %llu}\n", (unsigned long long)(arm->packets - packets));
	return 0;
}

static int run(const struct plan *plan, const struct cb_ops *ops, struct cb_traffic *traffic,
	       struct cb_arm *arm, const struct cb_config *config)
{
	char why[400];
	uint64_t fill_ns = 0, expected;
	struct cb_proof proof;

	if (cb_fill(arm, traffic, config->sessions, plan->heap == CB_HEAP_AGED, plan->heap_seed,
		    &fill_ns) != config->sessions)
		return fail("the table is full: use a smaller max-load");
	if (arm->table.entries != config->sessions)
		return fail("two sessions share a key: use another seed");
	if (plan->verify) {
		if (cb_prove(arm, traffic, config->sessions, (enum cb_mode)plan->mode,
			     (uint32_t)plan->policy, (uint32_t)plan->burst, &proof, why,
			     sizeof why) != 0 ||
		    cb_reference(traffic, config, ops->key_size, &expected, why, sizeof why) != 0)
			return fail(why);
		if (proof.checksum != expected)
			return fail("the layout's checksum is not the reference's");
		printf("{\"layout\": \"%s\", \"sessions\": %llu, \"fill_ns\": %llu, "
		       "\"checksum\": \"%016llx\"}\n",
		       ops->layout, (unsigned long long)config->sessions,
		       (unsigned long long)fill_ns, (unsigned long long)proof.checksum);
	}
	cb_traffic_restart(traffic, plan->stream);
	return plan->watched ? watch(plan, traffic, arm) : measure(plan, traffic, arm);
}

int main(int argc, char **argv)
{
	char why[400];
	struct cb_capture capture = {0};
	const struct cb_ops *ops;
	struct cb_traffic *traffic;
	struct cb_arm *arm;
	const struct plan *plan = cb_plan_read(argc, argv, why, sizeof why);
	enum cb_popularity popularity;
	uint64_t sessions;
	int status;

	if (plan == NULL)
		return fail(why);
	if (plan->watched)
		cb_die_with_parent(); /* which watches: nobody else ends valgrind */
	popularity = (enum cb_popularity)plan->popularity;
	sessions = plan->sessions;
	ops = plan->plugin ? cb_plugin_open(plan->plugin, why, sizeof why)
			   : cb_builtin(plan->layout);
	if (ops == NULL)
		return fail(plan->plugin ? why : "no built-in layout of that name");
	if (plan->capture != NULL) {
		if (cb_capture_read(plan->capture, &capture, why, sizeof why) != 0)
			return fail(why);
		if (capture.keyed == 0)
			return fail("no packet of the capture has a 5-tuple");
		popularity = CB_CAPTURE;
		sessions = capture.flow_count * plan->clones;
		if (sessions > CB_MOST_SESSIONS)
			return fail("more than 2^30 sessions: use a smaller scale-flows");
	} else if (popularity == CB_CAPTURE) {
		return fail("popularity=capture needs traffic=FILE");
	}

	struct cb_traffic_config traffic_config = {
		.seed = plan->seed,
		.sessions = sessions,
		.key_size = ops->key_size,
		.popularity = popularity,
		.exponent = plan->exponent,
		.hit_ratio = plan->hit_ratio,
		.capture = &capture,
		.clones = (uint32_t)plan->clones,
	};
	struct cb_config config = {
		.sessions = sessions,
		.max_load = plan->max_load,
		.profile_count = (uint32_t)plan->profiles,
		.rule_count = (uint32_t)plan->rules,
		.pages = (enum cb_pages)plan->pages,
		.heap = (enum cb_heap_order)plan->heap,
		.node = -1,
		.seed = plan->seed,
		.heap_seed = plan->heap_seed,
	};

	traffic = cb_traffic_open(&traffic_config, why, sizeof why);
	if (traffic == NULL)
		return fail(why);
	arm = cb_arm_open(ops, &config, why, sizeof why);
	status = arm == NULL ? fail(why) : run(plan, ops, traffic, arm, &config);
	cb_arm_close(arm);
	cb_traffic_close(traffic);
	cb_capture_free(&capture);
	return status;
}
