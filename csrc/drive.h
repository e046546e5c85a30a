/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_DRIVE_H
#define CB_DRIVE_H

/* Drivers: they order the steps of the table and of the layout, nothing else.
 *
 * CB_STAGE names the last stage that the lookups of this unit execute: HASH,
 * BUCKET, KEY or SESSION (all). What a cut leaves out is not compiled; its
 * output word is a value that the last stage loaded, so that the compiler keeps
 * the stage and serial lookups still wait for it. */

#include "cb.h"
#include "cuckoo.h"
#include "heap.h"

#if LAYOUT_PREFETCH_STEPS < 1
static inline void layout_prefetch1(const struct cb_heap *heap, const layout_slot *slot)
{
	(void)heap;
	(void)slot;
}
#endif
#if LAYOUT_PREFETCH_STEPS < 2
static inline void layout_prefetch2(const struct cb_heap *heap, const layout_slot *slot)
{
	(void)heap;
	(void)slot;
}
#endif

enum { STAGE_HASH, STAGE_BUCKET, STAGE_KEY, STAGE_SESSION };

#define DRIVE_JOIN(a, b) a##b
#define DRIVE_STAGE(name) DRIVE_JOIN(STAGE_, name)
#define DRIVE_RUNS(stage) (DRIVE_STAGE(CB_STAGE) >= STAGE_##stage)

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Keys ahead in the driver's own stream; the hardware prefetcher has them. */
static inline const cb_key *drive_key(const char *keys, uint64_t i)
{
	return (const cb_key *)keys + i;
}

static inline struct cb_packet drive_packet(const struct cb_arm *arm,
					    const struct cb_stream *stream, uint64_t i)
{
	return (struct cb_packet){.length = stream->lengths[i], .now = cb_tick(arm->packets + i)};
}

static inline uint64_t drive_process(struct cb_arm *arm, struct cuckoo_key *entry,
				     struct cb_packet packet)
{
	uint64_t word;

	if (entry == NULL)
		return CB_MISS_WORD;
	if (DRIVE_RUNS(SESSION))
		return layout_process(&arm->heap, &entry->data.slot,
				      cuckoo_index(&arm->table, entry), packet);
	memcpy(&word, entry, sizeof word);
	return word;
}

/* A burst: each step over all its lookups before the next step. `steps` of the
 * layout's prefetch steps are used. */
ALWAYS_INLINE void drive_bulk(struct cb_arm *arm, const struct cb_stream *stream, uint32_t burst,
			      int steps)
{
	const struct cb_table *t = &arm->table;
	struct cb_look look[CB_MAX_BURST];
	uint64_t checksum = arm->checksum, hits = arm->hits;

	for (uint64_t base = 0; base < stream->count; base += burst) {
		uint32_t n =
			stream->count - base < burst ? (uint32_t)(stream->count - base) : burst;

		for (uint32_t i = 0; i < n; i++)
			look_hash(t, &look[i], drive_key(stream->keys, base + i));
		if (DRIVE_RUNS(BUCKET))
			for (uint32_t i = 0; i < n; i++)
				look_bucket(t, &look[i]);
		if (DRIVE_RUNS(KEY))
			for (uint32_t i = 0; i < n; i++) {
				look_key(t, &look[i], drive_key(stream->keys, base + i));
				if (DRIVE_RUNS(SESSION) && steps > 0 && look[i].entry)
					layout_prefetch1(&arm->heap, &look[i].entry->data.slot);
			}
		if (DRIVE_RUNS(SESSION) && steps > 1)
			for (uint32_t i = 0; i < n; i++)
				if (look[i].entry)
					layout_prefetch2(&arm->heap, &look[i].entry->data.slot);
		for (uint32_t i = 0; i < n; i++) {
			uint64_t word;

			if (DRIVE_RUNS(KEY)) {
				word = drive_process(arm, look[i].entry,
						     drive_packet(arm, stream, base + i));
				hits += look[i].entry != NULL;
			} else if (DRIVE_RUNS(BUCKET)) {
				word = look[i].candidates;
			} else {
				word = look[i].sig;
			}
			checksum = cb_ordered(checksum, word);
		}
	}
	arm->packets += stream->count;
	arm->checksum = checksum;
	arm->hits = hits;
}

/* One lookup after the other; if `serial`, the address of the next key depends
 * on the output word of this one. */
ALWAYS_INLINE void drive_single(struct cb_arm *arm, const struct cb_stream *stream, bool serial)
{
	const struct cb_table *t = &arm->table;
	uint64_t checksum = arm->checksum, hits = arm->hits;
	uint64_t zero = serial ? *(volatile uint64_t *)&arm->opaque_zero : 0;
	uint64_t word = 0;

	for (uint64_t i = 0; i < stream->count; i++) {
		const cb_key *key = drive_key(stream->keys + (word & zero), i);

		if (DRIVE_RUNS(KEY)) {
			struct cuckoo_key *entry = cuckoo_lookup(t, key);

			word = drive_process(arm, entry, drive_packet(arm, stream, i));
			hits += entry != NULL;
		} else {
			uint32_t hash = KEY(hash)(key);

			word = cuckoo_sig(hash);
			if (DRIVE_RUNS(BUCKET))
				word = match8(
					cuckoo_bucket(t, cuckoo_primary(t, hash))->sig_current,
					(uint16_t)word);
		}
		checksum = cb_ordered(checksum, word);
	}
	arm->packets += stream->count;
	arm->checksum = checksum;
	arm->hits = hits;
}

/* Sessions that are created or erased together: the lines that the table and
 * the pools will hand out next are prefetched for all of them. */
enum { DRIVE_BLOCK = 32 };

static inline void drive_prefetch_pools(const struct cb_heap *heap, uint32_t n)
{
	for (uint32_t a = 0; a < sizeof layout_arenas / sizeof *layout_arenas; a++) {
		const struct cb_arena *pool = &heap->arena[a];

		if (layout_arenas[a].kind != CB_POOL)
			continue;
		for (uint32_t i = 1; i <= n && i <= pool->free_count; i++)
			touch_prefetch_range(pool->base +
						     (uint64_t)pool->free[pool->free_count - i] *
							     layout_arenas[a].stride,
					     layout_arenas[a].stride);
	}
}

static uint64_t drive_create(struct cb_arm *arm, const char *keys, const uint64_t *ids,
			     uint64_t count, uint32_t now)
{
	for (uint64_t base = 0; base < count; base += DRIVE_BLOCK) {
		uint32_t n = count - base < DRIVE_BLOCK ? (uint32_t)(count - base) : DRIVE_BLOCK;
		uint32_t hash[DRIVE_BLOCK];

		for (uint32_t i = 0; i < n; i++) {
			hash[i] = KEY(hash)(drive_key(keys, base + i));
			cuckoo_insert_prefetch(&arm->table, hash[i]);
		}
		drive_prefetch_pools(&arm->heap, n);
		for (uint32_t i = 0; i < n; i++) {
			struct cb_session session;
			struct cuckoo_key *entry;
			uint32_t index;
			bool created;

			entry = cuckoo_insert(&arm->table, hash[i], drive_key(keys, base + i),
					      &created);
			if (entry == NULL)
				return base + i;
			index = cuckoo_index(&arm->table, entry);
			if (!created)
				layout_destroy(&arm->heap, &entry->data.slot, index);
			cb_session_make(&session, &arm->sessions, ids[base + i], now);
			layout_create(&arm->heap, &entry->data.slot, index, &session);
		}
	}
	return count;
}

static inline struct cuckoo_key *drive_entry(const struct cb_arm *arm, struct cuckoo_place place)
{
	return cuckoo_key(&arm->table, place.bucket->key_idx[place.i]);
}

static void drive_remove(struct cb_arm *arm, struct cuckoo_place place)
{
	struct cuckoo_key *entry = drive_entry(arm, place);

	layout_destroy(&arm->heap, &entry->data.slot, cuckoo_index(&arm->table, entry));
	cuckoo_erase(&arm->table, place);
}

static uint64_t drive_erase(struct cb_arm *arm, const char *keys, uint64_t count)
{
	uint64_t erased = 0;

	for (uint64_t base = 0; base < count; base += DRIVE_BLOCK) {
		uint32_t n = count - base < DRIVE_BLOCK ? (uint32_t)(count - base) : DRIVE_BLOCK;
		uint32_t hash[DRIVE_BLOCK];

		for (uint32_t i = 0; i < n; i++) {
			hash[i] = KEY(hash)(drive_key(keys, base + i));
			cuckoo_insert_prefetch(&arm->table, hash[i]);
		}
		for (uint32_t i = 0; i < n; i++) {
			struct cuckoo_place place =
				cuckoo_find(&arm->table, hash[i], drive_key(keys, base + i));

			if (place.bucket == NULL)
				continue;
			drive_remove(arm, place);
			erased++;
		}
	}
	return erased;
}

/* Calls visit(arm, place, context) for every session, in table order, a few
 * buckets at a time so that their entries and sessions are prefetched. */
typedef void drive_visit_fn(struct cb_arm *arm, struct cuckoo_place place, void *context);

ALWAYS_INLINE void drive_walk(struct cb_arm *arm, drive_visit_fn *visit, void *context)
{
	const struct cb_table *t = &arm->table;
	uint64_t buckets = (uint64_t)t->bucket_bitmask + 1;

	for (uint64_t base = 0; base < buckets; base += 4) {
		struct cuckoo_place found[4 * CB_BUCKET_ENTRIES];
		uint32_t n = 0;

		for (uint64_t b = base; b < base + 4 && b < buckets; b++) {
			struct cuckoo_bucket *bucket = cuckoo_bucket(t, (uint32_t)b);

			for (uint32_t i = 0; i < CB_BUCKET_ENTRIES; i++)
				if (bucket->key_idx[i] != CUCKOO_EMPTY_SLOT) {
					touch_prefetch(cuckoo_key(t, bucket->key_idx[i]));
					found[n++] = (struct cuckoo_place){bucket, i};
				}
		}
		for (uint32_t i = 0; i < n; i++)
			layout_prefetch1(&arm->heap, &drive_entry(arm, found[i])->data.slot);
		for (uint32_t i = 0; i < n; i++)
			layout_prefetch2(&arm->heap, &drive_entry(arm, found[i])->data.slot);
		for (uint32_t i = 0; i < n; i++)
			visit(arm, found[i], context);
	}
}

static inline void drive_read_entry(struct cb_arm *arm, struct cuckoo_key *entry,
				    struct cb_session *out)
{
	layout_read(&arm->heap, &entry->data.slot, cuckoo_index(&arm->table, entry), out);
}

struct drive_expiry {
	uint32_t cutoff;
	struct cb_expiry result;
};

static inline void drive_expire_one(struct cb_arm *arm, struct cuckoo_place place, void *context)
{
	struct drive_expiry *expiry = context;
	struct cuckoo_key *entry = drive_entry(arm, place);
	struct cb_session session;

	if (!layout_expired(&arm->heap, &entry->data.slot, cuckoo_index(&arm->table, entry),
			    expiry->cutoff))
		return;
	drive_read_entry(arm, entry, &session);
	expiry->result.log += cb_cold_digest(&session.cold);
	expiry->result.expired++;
	drive_remove(arm, place);
}

static struct cb_expiry drive_expire(struct cb_arm *arm, uint32_t cutoff)
{
	struct drive_expiry expiry = {.cutoff = cutoff};

	drive_walk(arm, drive_expire_one, &expiry);
	return expiry.result;
}

static inline void drive_digest_one(struct cb_arm *arm, struct cuckoo_place place, void *context)
{
	struct cuckoo_key *entry = drive_entry(arm, place);
	struct cb_session session;

	drive_read_entry(arm, entry, &session);
	*(uint64_t *)context += cb_session_digest(&session, KEY(hash)(&entry->key));
}

static uint64_t drive_digest(struct cb_arm *arm)
{
	uint64_t sum = 0;

	drive_walk(arm, drive_digest_one, &sum);
	return sum;
}

static int drive_read(struct cb_arm *arm, const char *key, struct cb_session *out)
{
	struct cuckoo_key *entry = cuckoo_lookup(&arm->table, drive_key(key, 0));

	if (entry == NULL)
		return 0;
	drive_read_entry(arm, entry, out);
	return 1;
}

#if LAYOUT_COPIES_QOS
struct drive_reprofile {
	uint32_t profile;
	struct cb_qos qos;
	uint64_t written;
};

static inline void drive_reprofile_one(struct cb_arm *arm, struct cuckoo_place place, void *context)
{
	struct drive_reprofile *change = context;
	struct cuckoo_key *entry = drive_entry(arm, place);

	change->written +=
		layout_reprofile(&arm->heap, &entry->data.slot, cuckoo_index(&arm->table, entry),
				 change->profile, change->qos);
}

static uint64_t drive_reprofile(struct cb_arm *arm, uint32_t profile, struct cb_qos qos)
{
	struct drive_reprofile change = {.profile = profile, .qos = qos};

	drive_walk(arm, drive_reprofile_one, &change);
	return change.written;
}
#else
static uint64_t drive_reprofile(struct cb_arm *arm, uint32_t profile, struct cb_qos qos)
{
	layout_publish(&arm->heap, profile, qos);
	return 1;
}
#endif

static void drive_reset(struct cb_arm *arm)
{
	cuckoo_reset(&arm->table);
	arm->packets = 0;
	arm->checksum = 0;
	arm->hits = 0;
#if !LAYOUT_COPIES_QOS
	for (uint32_t i = 0; i < arm->sessions.profile_count; i++)
		layout_publish(&arm->heap, i, arm->sessions.profiles[i]);
#endif
}

static void drive_count(struct cb_arm *arm, const struct cb_stream *stream,
			struct cb_table_stats *stats)
{
	const struct cb_table *t = &arm->table;

	for (uint64_t b = 0; b <= t->bucket_bitmask; b++) {
		const struct cuckoo_bucket *bucket = cuckoo_bucket(t, (uint32_t)b);

		for (uint32_t i = 0; i < CB_BUCKET_ENTRIES; i++) {
			uint32_t hash;

			if (bucket->key_idx[i] == CUCKOO_EMPTY_SLOT)
				continue;
			hash = KEY(hash)(&cuckoo_key(t, bucket->key_idx[i])->key);
			stats->entries++;
			stats->primary += cuckoo_primary(t, hash) == b;
		}
	}
	for (uint64_t i = 0; i < stream->count; i++)
		cuckoo_count(t, drive_key(stream->keys, i), stats);
}

#endif
