/* SPDX-License-Identifier: BSD-3-Clause */

#include <stdio.h>
#include <stdlib.h>

#include "key16.h"
#include "key40.h"
#include "script.h"
#include "session.h"
#include "verify.h"

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
