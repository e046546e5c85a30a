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

	TOUCH_ARRAY(look);
	for (uint64_t base = 0; base < stream->count; base += burst) {
		uint32_t n =
			stream->count - base < burst ? (uint32_t)(stream->count - base) : burst;

		for (uint32_t i = 0; i < n; i++) {
			TOUCH_STAGE(HASH, i);
			look_hash(t, &look[i], drive_key(stream->keys, base + i));
		}
		if (DRIVE_RUNS(BUCKET))
			for (uint32_t i = 0; i < n; i++) {
				TOUCH_STAGE(BUCKET, i);
				look_bucket(t, &look[i]);
			}
		if (DRIVE_RUNS(KEY))
			for (uint32_t i = 0; i < n; i++) {
				TOUCH_STAGE(KEY, i);
				look_key(t, &look[i], drive_key(stream->keys, base + i));
				TOUCH_STAGE(PREFETCH, i);
				if (DRIVE_RUNS(SESSION) && steps > 0 && look[i].entry)
					layout_prefetch1(&arm->heap, &look[i].entry->data.slot);
			}
		if (DRIVE_RUNS(SESSION) && steps > 1)
			for (uint32_t i = 0; i < n; i++) {
				TOUCH_STAGE(PREFETCH, i);
				if (look[i].entry)
					layout_prefetch2(&arm->heap, &look[i].entry->data.slot);
			}
		for (uint32_t i = 0; i < n; i++) {
			uint64_t word;

			TOUCH_STAGE(SESSION, i);
			if (DRIVE_RUNS(KEY)) {
				word = drive_process(arm, look[i].entry,
						     drive_packet(arm, stream, base + i));
				hits += look[i].entry != NULL;
			} else if (DRIVE_RUNS(BUCKET)) {
				word = look[i].candidates;
			} else {
				word = look[i].sig;
			}
			TOUCH_END(i);
			checksum = cb_ordered(checksum, word);
		}
	}
	arm->packets += stream->count;
	arm->checksum = checksum;
	arm->hits = hits;
}

/* Zero, but known only when both buckets of the key have arrived. A core that
 * predicts a miss, as it does before it has a bucket, has the miss's word at once,
 * and would run ahead to the next key's bucket: seen to hide one of two dependent
 * loads of a hit (150 instead of 270 ns, embedded, 1M sessions). */
static inline uint64_t drive_wait(const struct cb_table *t, const cb_key *key, uint64_t zero)
{
	uint32_t hash = KEY(hash)(key);
	uint32_t primary = cuckoo_primary(t, hash);
	uint32_t alternate = cuckoo_alternate(t, primary, cuckoo_sig(hash));

	return (*(volatile uint16_t *)cuckoo_bucket(t, primary)->sig_current |
		*(volatile uint16_t *)cuckoo_bucket(t, alternate)->sig_current) &
	       zero;
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

			TOUCH_STAGE(SESSION, 0);
			word = drive_process(arm, entry, drive_packet(arm, stream, i));
			if (serial && entry == NULL)
				word |= drive_wait(t, key, zero);
			hits += entry != NULL;
		} else {
			uint32_t hash = KEY(hash)(key);

			word = cuckoo_sig(hash);
			if (DRIVE_RUNS(BUCKET))
				word = match8(
					cuckoo_bucket(t, cuckoo_primary(t, hash))->sig_current,
					(uint16_t)word);
		}
		TOUCH_END(0);
		checksum = cb_ordered(checksum, word);
	}
	arm->packets += stream->count;
	arm->checksum = checksum;
	arm->hits = hits;
}

#endif
