/* SPDX-License-Identifier: BSD-3-Clause */

/* Runs one plan without Python: for valgrind, perf record and sanitizers.
 *
 *   cachebench-driver key=value …
 *
 * Prints one JSON object per region on standard output. Exit code 0, or 2 with
 * one line on standard error. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arm.h"
#include "capture.h"
#include "fill.h"
#include "measure.h"
#include "plugin.h"
#include "traffic.h"
#include "verify.h"

static const char *const mode_names[] = {"bulk", "single", "serial", NULL};
static const char *const page_names[] = {"4k", "thp", "2m", "1g", NULL};
static const char *const heap_names[] = {"fresh", "shuffled", "aged", NULL};
static const char *const popularity_names[] = {"uniform", "zipf", "campus", "capture", NULL};

#define MOST_SESSIONS ((uint64_t)1 << 30)

struct plan {
	const char *layout; /* built-in name */
	const char *plugin; /* path, instead of a layout */
	const char *capture;
	uint64_t sessions, seed, heap_seed, count, lead_in, regions, burst, policy, clones;
	uint64_t profiles, rules, verify;
	uint64_t mode, pages, heap, popularity; /* numbers of their names */
	double max_load, hit_ratio, exponent;
};

static struct plan plan = {
	.layout = "flat",
	.sessions = 1000000,
	.seed = 1,
	.heap_seed = 1,
	.count = 500000,
	.lead_in = 150000,
	.regions = 3,
	.burst = 32,
	.policy = 2,
	.clones = 1,
	.profiles = 256,
	.rules = 4096,
	.verify = 1,
	.mode = CB_BULK,
	.pages = CB_PAGES_THP,
	.heap = CB_HEAP_SHUFFLED,
	.popularity = CB_UNIFORM,
	.max_load = 0.96,
	.hit_ratio = 1,
	.exponent = 1,
};

enum option_kind { TEXT, WHOLE, REAL, NAME };

static const struct option {
	const char *key;
	enum option_kind kind;
	void *value;
	const char *const *names; /* NAME */
	uint64_t low, high;       /* WHOLE */
} options[] = {
	{"layout", TEXT, &plan.layout, NULL, 0, 0},
	{"plugin", TEXT, &plan.plugin, NULL, 0, 0},
	{"traffic", TEXT, &plan.capture, NULL, 0, 0},
	{"mode", NAME, &plan.mode, mode_names, 0, 0},
	{"pages", NAME, &plan.pages, page_names, 0, 0},
	{"heap", NAME, &plan.heap, heap_names, 0, 0},
	{"popularity", NAME, &plan.popularity, popularity_names, 0, 0},
	{"sessions", WHOLE, &plan.sessions, NULL, 1, MOST_SESSIONS},
	{"seed", WHOLE, &plan.seed, NULL, 0, UINT64_MAX},
	{"heap-seed", WHOLE, &plan.heap_seed, NULL, 0, UINT64_MAX},
	{"count", WHOLE, &plan.count, NULL, 1, (uint64_t)1 << 32},
	{"lead-in", WHOLE, &plan.lead_in, NULL, 0, (uint64_t)1 << 32},
	{"regions", WHOLE, &plan.regions, NULL, 1, 10000},
	{"burst", WHOLE, &plan.burst, NULL, 1, CB_MAX_BURST},
	{"session-prefetch", WHOLE, &plan.policy, NULL, 0, CB_PREFETCH_POLICIES - 1},
	{"scale-flows", WHOLE, &plan.clones, NULL, 1, 1 << 24},
	{"profiles", WHOLE, &plan.profiles, NULL, 1, 1 << 30},
	{"rules", WHOLE, &plan.rules, NULL, 1, 1 << 30},
	{"verify", WHOLE, &plan.verify, NULL, 0, 1},
	{"max-load", REAL, &plan.max_load, NULL, 0, 0},
	{"hit-ratio", REAL, &plan.hit_ratio, NULL, 0, 0},
	{"exponent", REAL, &plan.exponent, NULL, 0, 0},
};

static int fail(const char *why)
{
	fprintf(stderr, "cachebench-driver: %s\n", why);
	return 2;
}

/* 0 if `text` is a value of that option. */
static int option_set(const struct option *option, const char *text)
{
	char *end = NULL;
	double real;
	uint64_t whole;

	switch (option->kind) {
	case TEXT:
		*(const char **)option->value = text;
		return 0;
	case NAME:
		for (uint64_t i = 0; option->names[i] != NULL; i++)
			if (strcmp(option->names[i], text) == 0) {
				*(uint64_t *)option->value = i;
				return 0;
			}
		return -1;
	case WHOLE:
		errno = 0;
		whole = strtoull(text, &end, 10);
		if (errno != 0 || text[0] < '0' || text[0] > '9' || *end != '\0' ||
		    whole < option->low || whole > option->high)
			return -1;
		*(uint64_t *)option->value = whole;
		return 0;
	case REAL:
	default:
		real = strtod(text, &end);
		if (end == text || *end != '\0' || !(real >= 0 && real <= 4))
			return -1;
		*(double *)option->value = real;
		return 0;
	}
}

static int parse(int argc, char **argv)
{
	char why[200];

	for (int a = 1; a < argc; a++) {
		const char *equals = strchr(argv[a], '=');
		size_t i = 0, n = sizeof options / sizeof *options;

		while (i < n &&
		       (equals == NULL || strlen(options[i].key) != (size_t)(equals - argv[a]) ||
			strncmp(options[i].key, argv[a], (size_t)(equals - argv[a])) != 0))
			i++;
		if (i == n || option_set(&options[i], equals + 1) != 0) {
			snprintf(why, sizeof why, "%.100s: not an option with a value it takes",
				 argv[a]);
			return fail(why);
		}
	}
	if (plan.max_load < 0.01 || plan.max_load > 1 || plan.hit_ratio > 1)
		return fail("max-load is from 0.01 to 1, hit-ratio at most 1");
	return 0;
}

static void print_sample(const struct cb_sample *s)
{
	printf("{\"lookups\": %llu, \"hits\": %llu, \"cpu_ns\": %llu, \"wall_ns\": %llu, "
	       "\"tsc\": %llu}\n",
	       (unsigned long long)s->lookups, (unsigned long long)s->hits,
	       (unsigned long long)s->cpu_ns, (unsigned long long)s->wall_ns,
	       (unsigned long long)s->tsc);
}

static int run(const struct cb_ops *ops, struct cb_traffic *traffic, struct cb_arm *arm,
	       const struct cb_config *config)
{
	static const struct cb_control nobody = {-1, -1};
	char why[400];
	uint64_t fill_ns = 0, expected;
	struct cb_proof proof;

	if (cb_fill(arm, traffic, plan.sessions, plan.heap == CB_HEAP_AGED, plan.heap_seed,
		    &fill_ns) != plan.sessions)
		return fail("the table is full: use a smaller max-load");
	if (arm->table.entries != plan.sessions)
		return fail("two sessions share a key: use another seed");
	if (plan.verify) {
		if (cb_prove(arm, traffic, plan.sessions, (enum cb_mode)plan.mode,
			     (uint32_t)plan.policy, (uint32_t)plan.burst, &proof, why,
			     sizeof why) != 0 ||
		    cb_reference(traffic, config, ops->key_size, &expected, why, sizeof why) != 0)
			return fail(why);
		if (proof.checksum != expected)
			return fail("the layout's checksum is not the reference's");
		printf("{\"layout\": \"%s\", \"sessions\": %llu, \"fill_ns\": %llu, "
		       "\"checksum\": \"%016llx\"}\n",
		       ops->layout, (unsigned long long)plan.sessions, (unsigned long long)fill_ns,
		       (unsigned long long)proof.checksum);
	}
	cb_traffic_restart(traffic, plan.seed);
	for (uint64_t i = 0; i < plan.regions; i++) {
		struct cb_step step = {.mode = (enum cb_mode)plan.mode,
				       .policy = (uint32_t)plan.policy,
				       .burst = (uint32_t)plan.burst,
				       .count = plan.count,
				       .lead_in = plan.lead_in};
		struct cb_sample sample;

		if (cb_measure(&arm, traffic, ops->key_size, &step, 1, &sample, NULL, nobody, why,
			       sizeof why) != 0)
			return fail(why);
		print_sample(&sample);
	}
	return 0;
}

int main(int argc, char **argv)
{
	char why[400];
	struct cb_capture capture = {0};
	const struct cb_ops *ops;
	struct cb_traffic *traffic;
	struct cb_arm *arm;
	int status = parse(argc, argv);

	if (status != 0)
		return status;
	ops = plan.plugin ? cb_plugin_open(plan.plugin, why, sizeof why) : cb_builtin(plan.layout);
	if (ops == NULL)
		return fail(plan.plugin ? why : "no built-in layout of that name");
	if (plan.capture != NULL) {
		if (cb_capture_read(plan.capture, &capture, why, sizeof why) != 0)
			return fail(why);
		if (capture.keyed == 0)
			return fail("no packet of the capture has a 5-tuple");
		plan.popularity = CB_CAPTURE;
		plan.sessions = capture.flow_count * plan.clones;
		if (plan.sessions > MOST_SESSIONS)
			return fail("more than 2^30 sessions: use a smaller scale-flows");
	} else if (plan.popularity == CB_CAPTURE) {
		return fail("popularity=capture needs traffic=FILE");
	}

	struct cb_traffic_config traffic_config = {
		.seed = plan.seed,
		.sessions = plan.sessions,
		.key_size = ops->key_size,
		.popularity = (enum cb_popularity)plan.popularity,
		.exponent = plan.exponent,
		.hit_ratio = plan.hit_ratio,
		.capture = &capture,
		.clones = (uint32_t)plan.clones,
	};
	struct cb_config config = {
		.sessions = plan.sessions,
		.max_load = plan.max_load,
		.profile_count = (uint32_t)plan.profiles,
		.rule_count = (uint32_t)plan.rules,
		.pages = (enum cb_pages)plan.pages,
		.heap = (enum cb_heap_order)plan.heap,
		.node = -1,
		.seed = plan.seed,
		.heap_seed = plan.heap_seed,
	};

	traffic = cb_traffic_open(&traffic_config, why, sizeof why);
	if (traffic == NULL)
		return fail(why);
	arm = cb_arm_open(ops, &config, why, sizeof why);
	status = arm == NULL ? fail(why) : run(ops, traffic, arm, &config);
	cb_arm_close(arm);
	cb_traffic_close(traffic);
	cb_capture_free(&capture);
	return status;
}
