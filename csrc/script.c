/* SPDX-License-Identifier: BSD-3-Clause */

#include "script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "permute.h"

/* Number of the traffic's stream that the script draws from. */
#define SCRIPT_STREAM UINT64_C(0x70726f6f66)

static void script_lookups(struct script *s, const struct target *target)
{
	struct cb_stream stream = {.keys = s->keys, .lengths = s->lengths, .count = SCRIPT_LOOKUPS};

	cb_traffic_draw(s->traffic, SCRIPT_LOOKUPS, s->keys, s->lengths, s->ids);
	target->lookup(target->self, &stream, s->ids);
	s->packets += SCRIPT_LOOKUPS;
}

/* Sessions from … to of the permuted order: erased, or created anew. */
static uint64_t script_change(struct script *s, const struct target *target,
			      const struct cb_permutation *order, uint64_t from, uint64_t to,
			      int create)
{
	uint64_t n = to - from;

	for (uint64_t i = 0; i < n; i++)
		s->ids[i] = cb_permute(order, from + i);
	cb_traffic_keys(s->traffic, s->ids, n, s->keys);
	return create ? target->create(target->self, s->keys, s->ids, n, cb_tick(s->packets))
		      : target->erase(target->self, s->keys, s->ids, n);
}

int script_run(struct script *s, const struct target *target, uint64_t sessions,
	       struct cb_qos before)
{
	struct cb_permutation order = cb_permutation(sessions, 0);
	uint64_t erased =
		sessions < SCRIPT_ERASED_AT_MOST * 2 ? sessions / 2 : SCRIPT_ERASED_AT_MOST;
	uint64_t half = erased / 2, done = 0;
	struct cb_qos changed = {.rate = before.rate + 1, .burst = before.burst / 2 + 64};

	cb_traffic_restart(s->traffic, SCRIPT_STREAM);
	script_lookups(s, target);
	done += script_change(s, target, &order, 0, erased, 0);
	script_lookups(s, target);
	done += script_change(s, target, &order, 0, half, 1);
	target->reprofile(target->self, 0, changed);
	script_lookups(s, target);
	done += script_change(s, target, &order, half, erased, 1);
	script_lookups(s, target);
	target->reprofile(target->self, 0, before);
	return done == 2 * erased ? 0 : -1;
}

int script_open(struct script *s, struct cb_traffic *traffic, uint32_t key_size, char *why,
		size_t why_size)
{
	memset(s, 0, sizeof *s);
	s->traffic = traffic;
	s->key_size = key_size;
	s->keys = malloc((size_t)SCRIPT_LOOKUPS * key_size);
	s->lengths = malloc(SCRIPT_LOOKUPS * sizeof *s->lengths);
	s->ids = malloc(SCRIPT_LOOKUPS * sizeof *s->ids);
	if (s->keys != NULL && s->lengths != NULL && s->ids != NULL)
		return 0;
	snprintf(why, why_size, "no memory for the proof");
	return -1;
}

void script_close(struct script *s)
{
	free(s->keys);
	free(s->lengths);
	free(s->ids);
}
