/* SPDX-License-Identifier: BSD-3-Clause */

#include "verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "key16.h"
#include "key40.h"
#include "permute.h"
#include "session.h"

/* Number of the traffic's stream that the script draws from. */
#define SCRIPT_STREAM UINT64_C(0x70726f6f66)

enum {
	SCRIPT_ROUNDS = 4,
	SCRIPT_LOOKUPS = 16384,       /* in each round */
	SCRIPT_ERASED_AT_MOST = 4096, /* sessions */
};

/* What the script is run on: the arm, or the reference. */
struct target {
	void (*lookup)(void *self, const struct cb_stream *stream, const uint64_t *ids);
	uint64_t (*create)(void *self, const char *keys, const uint64_t *ids, uint64_t count,
			   uint32_t now);
	uint64_t (*erase)(void *self, const char *keys, const uint64_t *ids, uint64_t count);
	void (*reprofile)(void *self, uint32_t profile, struct cb_qos qos);
	void *self;
};

struct script {
	struct cb_traffic *traffic;
	uint32_t key_size;
	char *keys;
	uint16_t *lengths;
	uint64_t *ids;
	uint64_t packets; /* so far */
};

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

/* Returns 0 if every erasure found its session and every creation its room. */
static int script_run(struct script *s, const struct target *target, uint64_t sessions,
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

static int script_open(struct script *s, struct cb_traffic *traffic, uint32_t key_size, char *why,
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

static void script_close(struct script *s)
{
	free(s->keys);
	free(s->lengths);
	free(s->ids);
}

/* The arm. */

struct arm_target {
	struct cb_arm *arm;
	cb_lookup_fn *lookup;
	uint32_t burst;
	struct cb_proof *proof;
};

static void arm_lookup(void *self, const struct cb_stream *stream, const uint64_t *ids)
{
	struct arm_target *t = self;

	(void)ids;
	t->lookup(t->arm, stream, t->burst);
}

static uint64_t arm_create(void *self, const char *keys, const uint64_t *ids, uint64_t count,
			   uint32_t now)
{
	struct arm_target *t = self;

	return t->arm->ops->create(t->arm, keys, ids, count, now);
}

static uint64_t arm_erase(void *self, const char *keys, const uint64_t *ids, uint64_t count)
{
	struct arm_target *t = self;

	(void)ids;
	return t->arm->ops->erase(t->arm, keys, count);
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void arm_reprofile(void *self, uint32_t profile, struct cb_qos qos)
{
	struct arm_target *t = self;
	uint64_t start = cpu_ns();

	t->proof->reprofile_objects = cb_arm_reprofile(t->arm, profile, qos);
	t->proof->reprofile_ns = cpu_ns() - start;
}

int cb_prove(struct cb_arm *arm, struct cb_traffic *traffic, uint64_t sessions, enum cb_mode mode,
	     uint32_t policy, uint32_t burst, struct cb_proof *proof, char *why, size_t why_size)
{
	struct arm_target self = {.arm = arm,
				  .lookup = arm->ops->lookup[mode][policy],
				  .burst = burst,
				  .proof = proof};
	struct target target = {arm_lookup, arm_create, arm_erase, arm_reprofile, &self};
	struct script script;
	int status = script_open(&script, traffic, arm->ops->key_size, why, why_size);

	if (status == 0) {
		arm->packets = 0;
		arm->checksum = 0;
		status = script_run(&script, &target, sessions, arm->sessions.profiles[0]);
		proof->checksum = cb_ordered(arm->checksum, arm->ops->digest(arm));
		if (status != 0)
			snprintf(why, why_size,
				 "an erasure or a creation failed on a table with room");
	}
	script_close(&script);
	return status;
}

/* The reference: a map from session number to values, for the sessions that the
 * script touches; the others are as they were created. */

struct reference_entry {
	uint64_t id;
	uint32_t used;
	uint32_t alive;
	struct cb_session session;
};

struct reference {
	struct cb_sessions all;
	uint64_t mask;
	struct reference_entry *entries;
	uint64_t packets;
	uint64_t checksum;
};

/* The entry of session `id`, or the unused one where it would be. */
static struct reference_entry *reference_find(const struct reference *r, uint64_t id)
{
	uint64_t i = cb_mix(id) & r->mask;

	while (r->entries[i].used && r->entries[i].id != id)
		i = (i + 1) & r->mask;
	return &r->entries[i];
}

static struct reference_entry *reference_at(struct reference *r, uint64_t id)
{
	struct reference_entry *entry = reference_find(r, id);

	if (!entry->used) {
		entry->used = 1;
		entry->alive = 1;
		entry->id = id;
		cb_session_make(&entry->session, &r->all, id, 0);
	}
	return entry;
}

static void reference_lookup(void *self, const struct cb_stream *stream, const uint64_t *ids)
{
	struct reference *r = self;

	for (uint64_t i = 0; i < stream->count; i++) {
		struct cb_packet packet = {.length = stream->lengths[i],
					   .now = cb_tick(r->packets++)};
		uint64_t word = CB_MISS_WORD;
		struct reference_entry *entry =
			ids[i] == CB_NO_SESSION ? NULL : reference_at(r, ids[i]);

		if (entry != NULL && entry->alive) {
			struct cb_session *s = &entry->session;
			bool conforms =
				cb_police(&s->policer, r->all.profiles[s->cold.profile], packet);

			cb_count(&s->stats, packet);
			word = cb_rewrite(s->action, cb_rule_mark(r->all.seed, s->rule), conforms);
		}
		r->checksum = cb_ordered(r->checksum, word);
	}
}

static uint64_t reference_create(void *self, const char *keys, const uint64_t *ids, uint64_t count,
				 uint32_t now)
{
	struct reference *r = self;

	(void)keys;
	for (uint64_t i = 0; i < count; i++) {
		struct reference_entry *entry = reference_at(r, ids[i]);

		entry->alive = 1;
		cb_session_make(&entry->session, &r->all, ids[i], now);
	}
	return count;
}

static uint64_t reference_erase(void *self, const char *keys, const uint64_t *ids, uint64_t count)
{
	struct reference *r = self;

	(void)keys;
	for (uint64_t i = 0; i < count; i++)
		reference_at(r, ids[i])->alive = 0;
	return count;
}

static void reference_reprofile(void *self, uint32_t profile, struct cb_qos qos)
{
	struct reference *r = self;

	r->all.profiles[profile] = qos;
}

static uint64_t reference_digest(struct reference *r, struct script *script, uint64_t sessions)
{
	uint64_t sum = 0;

	for (uint64_t base = 0; base < sessions; base += SCRIPT_LOOKUPS) {
		uint64_t n = sessions - base < SCRIPT_LOOKUPS ? sessions - base : SCRIPT_LOOKUPS;

		for (uint64_t i = 0; i < n; i++)
			script->ids[i] = base + i;
		cb_traffic_keys(script->traffic, script->ids, n, script->keys);
		for (uint64_t i = 0; i < n; i++) {
			const char *key = script->keys + i * script->key_size;
			const struct reference_entry *entry = reference_find(r, base + i);
			struct cb_session session;

			if (!entry->used)
				cb_session_make(&session, &r->all, base + i, 0);
			else if (entry->alive)
				session = entry->session;
			else
				continue;
			session.qos = r->all.profiles[session.cold.profile];
			sum += cb_session_digest(&session,
						 script->key_size == 40
							 ? key40_hash((const struct key40 *)key)
							 : key16_hash((const struct key16 *)key));
		}
	}
	return sum;
}

int cb_reference(struct cb_traffic *traffic, const struct cb_config *config, uint32_t key_size,
		 uint64_t *checksum, char *why, size_t why_size)
{
	struct reference r = {.all = {.seed = config->seed,
				      .profile_count = config->profile_count,
				      .rule_count = config->rule_count}};
	struct target target = {reference_lookup, reference_create, reference_erase,
				reference_reprofile, &r};
	struct script script;
	int status = script_open(&script, traffic, key_size, why, why_size);
	uint64_t size = 1;

	while (size < 2 * (SCRIPT_ROUNDS * SCRIPT_LOOKUPS + SCRIPT_ERASED_AT_MOST))
		size *= 2;
	r.mask = size - 1;
	r.entries = calloc(size, sizeof *r.entries);
	r.all.profiles = malloc(config->profile_count * sizeof *r.all.profiles);
	if (status == 0 && (r.entries == NULL || r.all.profiles == NULL)) {
		snprintf(why, why_size, "no memory for the reference");
		status = -1;
	}
	if (status == 0) {
		for (uint32_t i = 0; i < config->profile_count; i++)
			r.all.profiles[i] = cb_profile(config->seed, i);
		script_run(&script, &target, config->sessions, r.all.profiles[0]);
		*checksum = cb_ordered(r.checksum, reference_digest(&r, &script, config->sessions));
	}
	free(r.entries);
	free(r.all.profiles);
	script_close(&script);
	return status;
}
