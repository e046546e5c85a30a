/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_CUCKOO_H
#define CB_CUCKOO_H

/* A hash table of the shape of DPDK's rte_hash: one cache line a bucket with
 * eight 16-bit signatures and eight key entry numbers; key entries apart from
 * them, each holding the slot and the full key; the alternate bucket by XOR of
 * the signature (partial-key cuckoo hashing: Fan, Andersen, Kaminsky, MemC3,
 * NSDI 2013), so that a move needs no key.
 *
 * Left out, since one core reads and writes: locks, the change counter, the
 * per-core slot caches, RCU and extendable buckets. Free key entries are a
 * stack instead of a ring.
 *
 * The including unit gives `cb_key`, KEY(name) and `layout_slot`. */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "cb.h"
#include "match.h"
#include "touch.h"

#define CUCKOO_EMPTY_SLOT 0
#define CUCKOO_NULL_SIGNATURE 0

struct cuckoo_bucket {
	uint16_t sig_current[CB_BUCKET_ENTRIES];
	uint32_t key_idx[CB_BUCKET_ENTRIES];
	uint8_t flag[CB_BUCKET_ENTRIES]; /* of use to transactional writers only */
	uint64_t next;                   /* of use to extendable buckets only */
} __attribute__((aligned(CB_CACHE_LINE)));

_Static_assert(sizeof(struct cuckoo_bucket) == CB_CACHE_LINE, "a bucket is one line");

/* The slot takes at least the eight bytes that rte_hash gives to user data. */
union cuckoo_data {
	layout_slot slot;
	uint64_t pdata;
};

/* As in rte_hash, an entry is a multiple of 16 bytes; one that is larger than a
 * line takes whole lines. */
#define CUCKOO_ENTRY_ALIGN \
	(sizeof(union cuckoo_data) + sizeof(cb_key) > CB_CACHE_LINE ? CB_CACHE_LINE : 16)

struct cuckoo_key {
	union cuckoo_data data;
	cb_key key;
} __attribute__((aligned(CUCKOO_ENTRY_ALIGN)));

static const struct cb_arena_spec cuckoo_arenas[] = {
	{"bucket", "struct cuckoo_bucket", sizeof(struct cuckoo_bucket), CB_BUCKETS},
	{"key", "struct cuckoo_key", sizeof(struct cuckoo_key), CB_ENTRIES},
};

/* A lookup between its steps. */
struct cb_look {
	const struct cuckoo_bucket *primary;
	const struct cuckoo_bucket *secondary;
	struct cuckoo_key *entry; /* first candidate, then the hit; NULL: miss */
	uint32_t candidates;      /* bit i: primary entry i; bit 8 + i: secondary */
	uint16_t sig;
};

static inline struct cuckoo_bucket *cuckoo_bucket(const struct cb_table *t, uint32_t index)
{
	return (struct cuckoo_bucket *)t->buckets + index;
}

static inline struct cuckoo_key *cuckoo_key(const struct cb_table *t, uint32_t index)
{
	return (struct cuckoo_key *)t->key_store + index;
}

static inline uint32_t cuckoo_index(const struct cb_table *t, const struct cuckoo_key *entry)
{
	return (uint32_t)(entry - (const struct cuckoo_key *)t->key_store);
}

static inline uint16_t cuckoo_sig(uint32_t hash)
{
	return (uint16_t)(hash >> 16);
}

static inline uint32_t cuckoo_primary(const struct cb_table *t, uint32_t hash)
{
	return hash & t->bucket_bitmask;
}

static inline uint32_t cuckoo_alternate(const struct cb_table *t, uint32_t bucket, uint16_t sig)
{
	return (bucket ^ sig) & t->bucket_bitmask;
}

/* The steps of a lookup. Each ends in the prefetch that the next one needs. */

static inline void look_hash(const struct cb_table *t, struct cb_look *look, const cb_key *key)
{
	uint32_t hash = KEY(hash)(key);
	uint32_t primary = cuckoo_primary(t, hash);

	look->sig = cuckoo_sig(hash);
	look->primary = cuckoo_bucket(t, primary);
	look->secondary = cuckoo_bucket(t, cuckoo_alternate(t, primary, look->sig));
	touch_prefetch(look->primary);
	touch_prefetch(look->secondary);
}

static inline uint32_t look_key_idx(const struct cb_look *look, uint32_t candidate)
{
	const struct cuckoo_bucket *bucket =
		candidate < CB_BUCKET_ENTRIES ? look->primary : look->secondary;

	return bucket->key_idx[candidate % CB_BUCKET_ENTRIES];
}

static inline void look_bucket(const struct cb_table *t, struct cb_look *look)
{
	look->candidates = match8(look->primary->sig_current, look->sig) |
			   match8(look->secondary->sig_current, look->sig) << CB_BUCKET_ENTRIES;
	look->entry = NULL;
	if (look->candidates != 0) {
		uint32_t first = (uint32_t)__builtin_ctz(look->candidates);

		look->entry = cuckoo_key(t, look_key_idx(look, first));
		touch_prefetch(look->entry);
		if (sizeof(struct cuckoo_key) % CB_CACHE_LINE != 0 &&
		    CB_CACHE_LINE % sizeof(struct cuckoo_key) != 0)
			touch_prefetch((const char *)(look->entry + 1) - 1);
		else if (sizeof(struct cuckoo_key) > CB_CACHE_LINE)
			touch_prefetch_range(look->entry, sizeof(struct cuckoo_key));
	}
}

static inline void look_key(const struct cb_table *t, struct cb_look *look, const cb_key *key)
{
	/* A free place has signature 0 and entry number 0, whose key is never
	 * set: it is no hit even if the looked up signature is 0 and the key too. */
	while (look->entry != NULL) {
		if (KEY(equal)(&look->entry->key, key) && look->entry != cuckoo_key(t, 0))
			return;
		look->candidates &= look->candidates - 1;
		if (look->candidates == 0)
			look->entry = NULL;
		else
			look->entry = cuckoo_key(
				t, look_key_idx(look, (uint32_t)__builtin_ctz(look->candidates)));
	}
}

/* Where a key is: bucket and place, or no bucket. */
struct cuckoo_place {
	struct cuckoo_bucket *bucket;
	uint32_t i;
};

static inline struct cuckoo_place cuckoo_search(const struct cb_table *t, uint32_t bucket,
						uint16_t sig, const cb_key *key)
{
	struct cuckoo_bucket *b = cuckoo_bucket(t, bucket);

	for (uint32_t i = 0; i < CB_BUCKET_ENTRIES; i++) {
		if (b->sig_current[i] != sig || b->key_idx[i] == CUCKOO_EMPTY_SLOT)
			continue;
		TOUCH_STAGE(KEY, 0);
		if (KEY(equal)(&cuckoo_key(t, b->key_idx[i])->key, key))
			return (struct cuckoo_place){b, i};
		TOUCH_STAGE(BUCKET, 0);
	}
	return (struct cuckoo_place){NULL, 0};
}

static inline struct cuckoo_place cuckoo_find(const struct cb_table *t, uint32_t hash,
					      const cb_key *key)
{
	uint32_t primary = cuckoo_primary(t, hash);
	uint16_t sig = cuckoo_sig(hash);
	struct cuckoo_place place = cuckoo_search(t, primary, sig, key);

	if (place.bucket == NULL)
		place = cuckoo_search(t, cuckoo_alternate(t, primary, sig), sig, key);
	return place;
}

/* Scalar single lookup: nothing is prefetched, and the secondary bucket is
 * read only if the key is not in the primary one. */
static inline struct cuckoo_key *cuckoo_lookup(const struct cb_table *t, const cb_key *key)
{
	struct cuckoo_place place;
	uint32_t hash;

	TOUCH_STAGE(HASH, 0);
	hash = KEY(hash)(key);
	TOUCH_STAGE(BUCKET, 0);
	place = cuckoo_find(t, hash, key);

	return place.bucket ? cuckoo_key(t, place.bucket->key_idx[place.i]) : NULL;
}

static inline bool cuckoo_put(struct cuckoo_bucket *bucket, uint16_t sig, uint32_t index)
{
	for (uint32_t i = 0; i < CB_BUCKET_ENTRIES; i++)
		if (bucket->key_idx[i] == CUCKOO_EMPTY_SLOT) {
			bucket->sig_current[i] = sig;
			bucket->key_idx[i] = index;
			return true;
		}
	return false;
}

/* Length of the queue: when it is full, after about 125 buckets whose entries are
 * in it, the insertion gives up. */
#define CUCKOO_BFS_QUEUE_MAX_LEN 1000

struct cuckoo_node {
	uint32_t bucket;
	uint16_t parent; /* node whose entry `i` would move here */
	uint16_t i;
};

/* Puts (sig, index) into bucket `root`, moving entries to their alternate
 * buckets along the shortest path to a free place, found breadth first. The
 * first path found is a shortest one, so no bucket is on it twice and the moves
 * from its end to its start cannot meet. */
static bool cuckoo_make_space(struct cb_table *t, uint32_t root, uint16_t sig, uint32_t index)
{
	struct cuckoo_node queue[CUCKOO_BFS_QUEUE_MAX_LEN];
	uint32_t tail = 1;

	queue[0] = (struct cuckoo_node){.bucket = root};
	for (uint32_t head = 0; head < tail; head++) {
		struct cuckoo_bucket *bucket = cuckoo_bucket(t, queue[head].bucket);

		for (uint32_t i = 0; i < CB_BUCKET_ENTRIES; i++) {
			if (bucket->key_idx[i] == CUCKOO_EMPTY_SLOT) {
				uint32_t node = head, hole = i;

				while (node != 0) {
					struct cuckoo_bucket *to =
						cuckoo_bucket(t, queue[node].bucket);
					struct cuckoo_bucket *from =
						cuckoo_bucket(t, queue[queue[node].parent].bucket);
					uint32_t j = queue[node].i;

					to->sig_current[hole] = from->sig_current[j];
					to->key_idx[hole] = from->key_idx[j];
					hole = j;
					node = queue[node].parent;
					t->displaced++;
				}
				cuckoo_bucket(t, root)->sig_current[hole] = sig;
				cuckoo_bucket(t, root)->key_idx[hole] = index;
				return true;
			}
		}
		if (tail + CB_BUCKET_ENTRIES > CUCKOO_BFS_QUEUE_MAX_LEN)
			break;
		for (uint32_t i = 0; i < CB_BUCKET_ENTRIES; i++) {
			uint32_t alternate =
				cuckoo_alternate(t, queue[head].bucket, bucket->sig_current[i]);

			touch_prefetch(cuckoo_bucket(t, alternate));
			queue[tail++] = (struct cuckoo_node){
				.bucket = alternate, .parent = (uint16_t)head, .i = (uint16_t)i};
		}
	}
	return false;
}

static inline void cuckoo_insert_prefetch(const struct cb_table *t, uint32_t hash)
{
	uint32_t primary = cuckoo_primary(t, hash);

	touch_prefetch(cuckoo_bucket(t, primary));
	touch_prefetch(cuckoo_bucket(t, cuckoo_alternate(t, primary, cuckoo_sig(hash))));
}

/* Finds the key or inserts it: first the primary bucket, then room made in the
 * primary, then in the secondary one. NULL if the table is full. */
static inline struct cuckoo_key *cuckoo_insert(struct cb_table *t, uint32_t hash, const cb_key *key,
					       bool *created)
{
	struct cuckoo_place place = cuckoo_find(t, hash, key);
	uint32_t primary = cuckoo_primary(t, hash);
	uint16_t sig = cuckoo_sig(hash);
	struct cuckoo_key *entry;
	uint32_t index;

	*created = false;
	if (place.bucket != NULL)
		return cuckoo_key(t, place.bucket->key_idx[place.i]);
	if (t->free_count == 0)
		return NULL;
	index = t->free_slots[t->free_count - 1];
	if (!cuckoo_put(cuckoo_bucket(t, primary), sig, index) &&
	    !cuckoo_make_space(t, primary, sig, index) &&
	    !cuckoo_make_space(t, cuckoo_alternate(t, primary, sig), sig, index))
		return NULL;
	t->free_count--;
	t->entries++;
	entry = cuckoo_key(t, index);
	KEY(copy)(&entry->key, key);
	*created = true;
	return entry;
}

/* Takes the key out; the caller has done with its slot. */
static inline void cuckoo_erase(struct cb_table *t, struct cuckoo_place place)
{
	t->free_slots[t->free_count++] = place.bucket->key_idx[place.i];
	t->entries--;
	place.bucket->sig_current[place.i] = CUCKOO_NULL_SIGNATURE;
	place.bucket->key_idx[place.i] = CUCKOO_EMPTY_SLOT;
}

static void cuckoo_reset(struct cb_table *t)
{
	memset(t->buckets, 0, ((size_t)t->bucket_bitmask + 1) * sizeof(struct cuckoo_bucket));
	/* Handed out in ascending order, as a new rte_hash does. */
	for (uint32_t i = 0; i < t->capacity; i++)
		t->free_slots[i] = t->capacity - i;
	t->free_count = t->capacity;
	t->entries = 0;
	t->displaced = 0;
}

/* Looks a key up as a single lookup does and counts what it costs. */
static void cuckoo_count(const struct cb_table *t, const cb_key *key, struct cb_table_stats *stats)
{
	uint32_t hash = KEY(hash)(key);
	uint32_t bucket = cuckoo_primary(t, hash);
	uint16_t sig = cuckoo_sig(hash);

	stats->lookups++;
	for (int probe = 0; probe < 2; probe++) {
		const struct cuckoo_bucket *b = cuckoo_bucket(t, bucket);

		stats->bucket_probes++;
		for (uint32_t i = 0; i < CB_BUCKET_ENTRIES; i++) {
			if (b->sig_current[i] != sig || b->key_idx[i] == CUCKOO_EMPTY_SLOT)
				continue;
			stats->key_compares++;
			if (KEY(equal)(&cuckoo_key(t, b->key_idx[i])->key, key)) {
				stats->hits++;
				return;
			}
			stats->false_hits++;
		}
		bucket = cuckoo_alternate(t, bucket, sig);
	}
}

#endif
