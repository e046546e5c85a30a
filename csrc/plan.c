/* SPDX-License-Identifier: BSD-3-Clause */

#include "plan.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arm.h"
#include "cb.h"
#include "watch.h"

static const char *const mode_names[] = {"bulk", "single", "serial", NULL};
static const char *const page_names[] = {"4k", "thp", "2m", "1g", NULL};
static const char *const heap_names[] = {"fresh", "shuffled", "aged", NULL};
static const char *const popularity_names[] = {"uniform", "zipf", "campus", "capture", NULL};

/* What options change: their values are addresses in here. */
static struct plan plan = {
	.layout = "flat",
	.sessions = 1000000,
	.seed = 1,
	.heap_seed = 1,
	.count = 500000,
	.lead_in = 150000,
	.regions = 3,
	.burst = 32,
	.read = CB_WATCH_BLOCK,
	.slice = CB_WATCH_BLOCK,
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
	{"sessions", WHOLE, &plan.sessions, NULL, 1, CB_MOST_SESSIONS},
	{"seed", WHOLE, &plan.seed, NULL, 0, UINT64_MAX},
	{"heap-seed", WHOLE, &plan.heap_seed, NULL, 0, UINT64_MAX},
	{"count", WHOLE, &plan.count, NULL, 1, (uint64_t)1 << 32},
	{"lead-in", WHOLE, &plan.lead_in, NULL, 0, (uint64_t)1 << 32},
	{"regions", WHOLE, &plan.regions, NULL, 1, 10000},
	{"watched", WHOLE, &plan.watched, NULL, 0, (uint64_t)1 << 32},
	{"read", WHOLE, &plan.read, NULL, 1, CB_WATCH_BLOCK},
	{"slice", WHOLE, &plan.slice, NULL, 1, CB_WATCH_BLOCK},
	{"stream", WHOLE, &plan.stream, NULL, 0, UINT64_MAX},
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

const struct plan *cb_plan_read(int argc, char **argv, char *why, size_t why_size)
{
	bool stream_given = false;

	for (int a = 1; a < argc; a++) {
		const char *equals = strchr(argv[a], '=');
		size_t i = 0, n = sizeof options / sizeof *options;

		while (i < n &&
		       (equals == NULL || strlen(options[i].key) != (size_t)(equals - argv[a]) ||
			strncmp(options[i].key, argv[a], (size_t)(equals - argv[a])) != 0))
			i++;
		if (i == n || option_set(&options[i], equals + 1) != 0) {
			snprintf(why, why_size, "%.100s: not an option with a value it takes",
				 argv[a]);
			return NULL;
		}
		stream_given |= options[i].value == &plan.stream;
	}
	if (plan.max_load < 0.01 || plan.max_load > 1 || plan.hit_ratio > 1) {
		snprintf(why, why_size, "max-load is from 0.01 to 1, hit-ratio at most 1");
		return NULL;
	}
	if (!stream_given)
		plan.stream = plan.seed;
	return &plan;
}
