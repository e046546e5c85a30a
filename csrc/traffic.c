/* SPDX-License-Identifier: BSD-3-Clause */

#include "traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "key16.h"
#include "key40.h"
#include "permute.h"
#include "popularity.h"
#include "session.h"

typedef void key_from_tuple_fn(void *key, const struct cb_tuple *tuple);

struct cb_traffic {
	struct cb_traffic_config config;
	key_from_tuple_fn *key_from_tuple;
	uint64_t miss_below; /* a word below it makes a packet a miss */
	struct cb_random random;
	struct cb_permutation rank_to_session;
	struct cb_zipf zipf;
	struct cb_alias alias;
	uint64_t *position; /* CB_CAPTURE: the next packet of each clone */
};

/* Packet sizes 60, 590 and 1,514 bytes in the ratio 7:4:1 (IMIX). */
static uint16_t imix_length(uint64_t word)
{
	static const uint16_t lengths[12] = {60, 60, 60, 60, 60, 60, 60, 590, 590, 590, 590, 1514};

	return lengths[cb_below(word, 12)];
}

/* Addresses and ports of synthetic session `id`; ids that differ give addresses
 * that differ, since cb_mix is a bijection. */
static void synthetic_tuple(uint64_t seed, uint64_t id, struct cb_tuple *tuple)
{
	uint64_t addresses = cb_mix(id + cb_mix(seed));
	uint64_t rest = cb_mix(addresses + 1);

	memset(tuple, 0, sizeof *tuple);
	memcpy(tuple->source, &addresses, 4);
	memcpy(tuple->destination, (const char *)&addresses + 4, 4);
	tuple->source_port = (uint16_t)rest;
	tuple->destination_port = (uint16_t)(rest >> 16);
	tuple->protocol = rest >> 32 & 1 ? 6 : 17;
	tuple->family = 4;
}

/* Flow of a capture with the addresses of clone `id / flows`: the low 32 bits
 * of both go through a bijection that each clone has for itself. Clone 0 is the
 * flow as captured. */
static void cloned_tuple(const struct cb_capture *capture, uint64_t seed, uint64_t id,
			 struct cb_tuple *tuple)
{
	uint64_t clone = id / capture->flow_count;
	size_t at;
	uint64_t addresses;

	*tuple = capture->flows[id % capture->flow_count];
	if (clone == 0)
		return;
	at = tuple->family == 6 ? 12 : 0;
	memcpy(&addresses, tuple->source + at, 4);
	memcpy((char *)&addresses + 4, tuple->destination + at, 4);
	addresses = cb_mix(addresses ^ cb_mix(seed + clone));
	memcpy(tuple->source + at, &addresses, 4);
	memcpy(tuple->destination + at, (const char *)&addresses + 4, 4);
}

static void key_of(const struct cb_traffic *t, uint64_t id, char *key)
{
	struct cb_tuple tuple;

	if (t->config.popularity == CB_CAPTURE)
		cloned_tuple(t->config.capture, t->config.seed, id, &tuple);
	else
		synthetic_tuple(t->config.seed, id, &tuple);
	t->key_from_tuple(key, &tuple);
}

static int open_campus(struct cb_traffic *t)
{
	struct cb_random random = {.state = cb_mix(t->config.seed ^ UINT64_C(0x63616d707573))};
	double *weights = malloc(t->config.sessions * sizeof *weights);
	int failed;

	if (weights == NULL)
		return -1;
	for (uint64_t i = 0; i < t->config.sessions; i++)
		weights[i] = cb_campus_length(&random);
	failed = cb_alias_open(&t->alias, weights, t->config.sessions);
	free(weights);
	return failed;
}

uint64_t cb_traffic_bytes(const struct cb_traffic_config *config)
{
	switch (config->popularity) {
	case CB_CAMPUS: /* alias table, and weights and a stack while it is built */
		return config->sessions *
		       (2 * sizeof(uint32_t) + sizeof(double) + sizeof(uint32_t));
	case CB_CAPTURE:
		return config->clones * sizeof(uint64_t);
	case CB_UNIFORM:
	case CB_ZIPF:
	default:
		return 0;
	}
}

/* An IPv6 address does not fit into a 16-byte key: flows would share keys. */
static bool fits(const struct cb_traffic_config *config)
{
	if (config->popularity != CB_CAPTURE || config->key_size != 16)
		return true;
	for (uint32_t i = 0; i < config->capture->flow_count; i++)
		if (config->capture->flows[i].family != 4)
			return false;
	return true;
}

struct cb_traffic *cb_traffic_open(const struct cb_traffic_config *config, char *why,
				   size_t why_size)
{
	struct cb_traffic *t = calloc(1, sizeof *t);

	if (t == NULL)
		goto no_memory;
	if (!fits(config)) {
		snprintf(why, why_size, "the capture has IPv6 flows: they need keys of 40 bytes");
		cb_traffic_close(t);
		return NULL;
	}
	t->config = *config;
	t->key_from_tuple = config->key_size == 40 ? key40_from_tuple : key16_from_tuple;
	/* 2^64 does not fit: a hit ratio of 0 needs the clamp. */
	t->miss_below = config->hit_ratio < 0x1p-50 ? UINT64_MAX
						    : (uint64_t)((1 - config->hit_ratio) * 0x1p64);
	t->rank_to_session = cb_permutation(config->sessions, config->seed + 1);
	if (config->popularity == CB_ZIPF)
		t->zipf = cb_zipf(config->sessions, config->exponent);
	if (config->popularity == CB_CAMPUS && open_campus(t) != 0)
		goto no_memory;
	if (config->popularity == CB_CAPTURE) {
		t->position = malloc(config->clones * sizeof *t->position);
		if (t->position == NULL)
			goto no_memory;
	}
	cb_traffic_restart(t, 0);
	return t;
no_memory:
	snprintf(why, why_size, "no memory for the traffic of %llu sessions",
		 (unsigned long long)config->sessions);
	cb_traffic_close(t);
	return NULL;
}

void cb_traffic_close(struct cb_traffic *t)
{
	if (t == NULL)
		return;
	cb_alias_close(&t->alias);
	free(t->position);
	free(t);
}

void cb_traffic_restart(struct cb_traffic *t, uint64_t stream)
{
	t->random.state = cb_mix(t->config.seed + cb_mix(stream + UINT64_C(0x7061636b6574)));
	if (t->position == NULL)
		return;
	/* Clone 0 begins with the file; the others anywhere in it, as the same
	 * network observed at other times. */
	t->position[0] = 0;
	for (uint32_t c = 1; c < t->config.clones; c++)
		t->position[c] = cb_random_word(&t->random) % t->config.capture->keyed;
}

void cb_traffic_keys(const struct cb_traffic *t, const uint64_t *ids, uint64_t count, char *keys)
{
	for (uint64_t i = 0; i < count; i++)
		key_of(t, ids[i], keys + i * t->config.key_size);
}

static uint64_t draw_session(struct cb_traffic *t, uint16_t *length)
{
	const struct cb_capture *capture = t->config.capture;
	uint64_t word, clone, packet;

	switch (t->config.popularity) {
	case CB_ZIPF:
		*length = imix_length(cb_random_word(&t->random));
		return cb_permute(&t->rank_to_session, cb_zipf_rank(&t->zipf, &t->random) - 1);
	case CB_CAMPUS:
		*length = imix_length(cb_random_word(&t->random));
		return cb_alias_draw(&t->alias, &t->random);
	case CB_CAPTURE:
		clone = t->config.clones == 1
				? 0
				: cb_below(cb_random_word(&t->random), t->config.clones);
		packet = t->position[clone];
		t->position[clone] = packet + 1 == capture->keyed ? 0 : packet + 1;
		*length = capture->packet_length[packet];
		return clone * capture->flow_count + capture->packet_flow[packet];
	case CB_UNIFORM:
	default:
		word = cb_random_word(&t->random);
		*length = imix_length(word);
		return cb_below(word >> 32, (uint32_t)t->config.sessions);
	}
}

void cb_traffic_draw(struct cb_traffic *t, uint64_t count, char *keys, uint16_t *lengths,
		     uint64_t *ids)
{
	for (uint64_t i = 0; i < count; i++) {
		uint64_t id = draw_session(t, &lengths[i]);
		bool miss = t->miss_below != 0 && cb_random_word(&t->random) < t->miss_below;

		/* The same session a table's size away is not in the table. A
		 * capture's clones are whole multiples of its flows, so that the
		 * flow stays the same. */
		key_of(t, miss ? id + t->config.sessions : id, keys + i * t->config.key_size);
		if (ids != NULL)
			ids[i] = miss ? CB_NO_SESSION : id;
	}
}
