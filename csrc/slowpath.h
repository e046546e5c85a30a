/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_SLOWPATH_H
#define CB_SLOWPATH_H

/* What is done to sessions outside the lookups: creation, erasure, expiry, a
 * change of their profile, and walks over all of them. */

#include "cb.h"
#include "cuckoo.h"
#include "drive.h"
#include "heap.h"

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
