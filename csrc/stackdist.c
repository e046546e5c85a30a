/* SPDX-License-Identifier: BSD-3-Clause */

#include "stackdist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "logbucket.h"
#include "session.h"

/* Every followed access takes the next stamp. A bitmap marks the stamps that
 * are the last of their line, so the distance of an access is the number of
 * marks behind its line's stamp. Marks are counted by blocks in a Fenwick tree
 * (Fenwick, Software: Practice and Experience 24, 1994) and inside a block bit
 * by bit. The block of the newest stamp, where most changes are, enters the tree
 * only when it is full. When no stamps are left, the marked ones are numbered
 * anew from 0. */

enum {
	WORD_BITS = 64,
	BLOCK_WORDS = 8,
	BLOCK_BITS = BLOCK_WORDS * WORD_BITS,
	MIN_BLOCKS = 2,
	MIN_SLOTS = 16,
	/* log2(CB_STACKDIST_STEPS) */
	STEP_BITS = 2,
	NEVER = CB_STACKDIST_BUCKETS - 1,
};

#define MAX_LINES (UINT64_C(1) << 31)
#define MIN_RATE 1e-6

struct slot {
	uint64_t line;
	uint64_t stamp; /* plus one; 0: an empty slot */
};

struct cb_stackdist {
	double scale;
	uint64_t highest; /* the highest hash of a line that is followed */
	uint64_t lines;   /* that have a stamp */
	uint64_t next;    /* stamp */

	struct slot *slots; /* open addressing, linear probes */
	uint64_t slot_mask;

	uint64_t *marks;
	uint32_t *tree; /* entry i is about the blocks before i; entry 0 is not used */
	uint64_t blocks;

	double histogram[CB_STACKDIST_OBJECTS][CB_STACKDIST_BUCKETS];
};

static uint32_t bucket_of(uint64_t distance)
{
	uint32_t bucket = logbucket_of(distance, STEP_BITS);

	return bucket < NEVER ? bucket : NEVER - 1;
}

uint64_t cb_stackdist_floor(uint32_t bucket)
{
	return bucket >= NEVER ? UINT64_MAX : logbucket_floor(bucket, STEP_BITS);
}

static inline uint64_t ones(uint64_t word)
{
	return (uint64_t)__builtin_popcountll(word);
}

static uint64_t block_marks(const struct cb_stackdist *s, uint64_t block)
{
	const uint64_t *words = s->marks + block * BLOCK_WORDS;
	uint64_t sum = 0;

	for (int i = 0; i < BLOCK_WORDS; i++)
		sum += ones(words[i]);
	return sum;
}

/* Marks of the stamp's block up to the stamp itself. */
static uint64_t marks_up_to(const struct cb_stackdist *s, uint64_t stamp)
{
	uint64_t word = stamp / WORD_BITS;
	uint64_t sum = ones(s->marks[word] << (WORD_BITS - 1 - stamp % WORD_BITS));

	for (uint64_t i = word - word % BLOCK_WORDS; i < word; i++)
		sum += ones(s->marks[i]);
	return sum;
}

/* Marks behind the stamp, if that is in the newest block. */
static uint64_t newest_marks_after(const struct cb_stackdist *s, uint64_t stamp)
{
	uint64_t word = stamp / WORD_BITS;
	uint64_t last = (s->next - 1) / WORD_BITS;
	uint64_t sum = ones(s->marks[word] >> stamp % WORD_BITS) - 1;

	while (word < last)
		sum += ones(s->marks[++word]);
	return sum;
}

static void tree_add(struct cb_stackdist *s, uint64_t block, uint32_t change)
{
	for (uint64_t i = block + 1; i <= s->blocks; i += i & -i)
		s->tree[i] += change;
}

/* Marks in the blocks before this one, which is not behind the newest. */
static uint64_t tree_sum(const struct cb_stackdist *s, uint64_t block)
{
	uint64_t sum = 0;

	for (uint64_t i = block; i > 0; i &= i - 1)
		sum += s->tree[i];
	return sum;
}

static uint64_t newest_block(const struct cb_stackdist *s)
{
	return s->next == 0 ? 0 : (s->next - 1) / BLOCK_BITS;
}

/* Takes the mark of a stamp away. Returns how many there are behind it. */
static uint64_t unmark(struct cb_stackdist *s, uint64_t stamp)
{
	uint64_t block = stamp / BLOCK_BITS;
	uint64_t behind;

	if (block == newest_block(s)) {
		behind = newest_marks_after(s, stamp);
	} else {
		behind = s->lines - tree_sum(s, block) - marks_up_to(s, stamp);
		tree_add(s, block, UINT32_MAX);
	}
	s->marks[stamp / WORD_BITS] &= ~(UINT64_C(1) << stamp % WORD_BITS);
	return behind;
}

/* Marks the next stamp, which is there, and returns it. */
static uint64_t mark_next(struct cb_stackdist *s)
{
	uint64_t stamp = s->next;

	if (stamp > 0 && stamp % BLOCK_BITS == 0) {
		uint64_t full = newest_block(s);

		tree_add(s, full, (uint32_t)block_marks(s, full));
	}
	s->marks[stamp / WORD_BITS] |= UINT64_C(1) << stamp % WORD_BITS;
	s->next++;
	return stamp;
}

/* Numbers the marked stamps anew, in twice the blocks if few would be left. */
static int renumber(struct cb_stackdist *s)
{
	uint64_t blocks = s->lines > s->blocks * BLOCK_BITS / 4 ? s->blocks * 2 : s->blocks;
	uint64_t *marks = calloc(blocks * BLOCK_WORDS, sizeof *marks);
	uint32_t *tree = calloc(blocks + 1, sizeof *tree);
	uint32_t sum = 0;

	if (marks == NULL || tree == NULL) {
		free(marks);
		free(tree);
		return -1;
	}
	/* The old tree is needed no more: its place takes plain sums. */
	for (uint64_t i = 0; i < s->blocks; i++) {
		s->tree[i] = sum;
		sum += (uint32_t)block_marks(s, i);
	}
	for (uint64_t i = 0; i <= s->slot_mask; i++) {
		if (s->slots[i].stamp != 0) {
			uint64_t stamp = s->slots[i].stamp - 1;

			s->slots[i].stamp = s->tree[stamp / BLOCK_BITS] + marks_up_to(s, stamp);
		}
	}
	free(s->marks);
	free(s->tree);
	s->marks = marks;
	s->tree = tree;
	s->blocks = blocks;
	s->next = 0;
	while (s->next < s->lines)
		mark_next(s);
	return 0;
}

static struct slot *find(struct slot *slots, uint64_t mask, uint64_t line, uint64_t hash)
{
	uint64_t i = hash & mask;

	while (slots[i].stamp != 0 && slots[i].line != line)
		i = (i + 1) & mask;
	return &slots[i];
}

static int more_slots(struct cb_stackdist *s)
{
	uint64_t mask = s->slot_mask * 2 + 1;
	struct slot *slots = s->lines < MAX_LINES ? calloc(mask + 1, sizeof *slots) : NULL;

	if (slots == NULL)
		return -1;
	for (uint64_t i = 0; i <= s->slot_mask; i++) {
		const struct slot *old = &s->slots[i];

		if (old->stamp != 0)
			*find(slots, mask, old->line, cb_mix(old->line)) = *old;
	}
	free(s->slots);
	s->slots = slots;
	s->slot_mask = mask;
	return 0;
}

static int follow(struct cb_stackdist *s, uint64_t line, uint64_t hash, double *histogram)
{
	uint32_t bucket = NEVER;
	struct slot *slot;

	if (s->next == s->blocks * BLOCK_BITS && renumber(s) != 0)
		return -1;
	slot = find(s->slots, s->slot_mask, line, hash);
	if (slot->stamp == 0) {
		if (s->lines >= s->slot_mask - s->slot_mask / 4) {
			if (more_slots(s) != 0)
				return -1;
			slot = find(s->slots, s->slot_mask, line, hash);
		}
		slot->line = line;
		s->lines++;
		slot->stamp = mark_next(s) + 1;
	} else if (slot->stamp == s->next) {
		bucket = 0; /* it is the newest already */
	} else {
		bucket = bucket_of((uint64_t)((double)unmark(s, slot->stamp - 1) * s->scale));
		slot->stamp = mark_next(s) + 1;
	}
	if (histogram != NULL)
		histogram[bucket] += s->scale;
	return 0;
}

int cb_stackdist_access(struct cb_stackdist *s, uint64_t line, uint32_t object, int counted)
{
	/* The low bits of the hash find the slot: they say nothing about the
	 * high bits, which all followed lines have in common. */
	uint64_t hash = cb_mix(line);

	if (hash > s->highest)
		return 0;
	return follow(s, line, hash, counted ? s->histogram[object] : NULL);
}

const double *cb_stackdist_histogram(const struct cb_stackdist *s, uint32_t object)
{
	return s->histogram[object];
}

struct cb_stackdist *cb_stackdist_open(double rate, uint64_t lines, char *why, size_t why_size)
{
	struct cb_stackdist *s;
	uint64_t slots = MIN_SLOTS;

	if (!(rate >= MIN_RATE && rate <= 1)) {
		snprintf(why, why_size, "a sampling rate of %g; it is from %g to 1", rate,
			 MIN_RATE);
		return NULL;
	}
	if (lines > MAX_LINES) {
		snprintf(why, why_size, "%llu lines; stack distances follow at most %llu",
			 (unsigned long long)lines, (unsigned long long)MAX_LINES);
		return NULL;
	}
	s = calloc(1, sizeof *s);
	if (s != NULL) {
		s->scale = 1 / rate;
		s->highest = rate < 1 ? (uint64_t)(rate * 0x1p64) - 1 : UINT64_MAX;
		while (slots - slots / 4 <= lines)
			slots *= 2;
		s->slot_mask = slots - 1;
		s->blocks = MIN_BLOCKS + lines * 4 / BLOCK_BITS;
		s->slots = calloc(slots, sizeof *s->slots);
		s->marks = calloc(s->blocks * BLOCK_WORDS, sizeof *s->marks);
		s->tree = calloc(s->blocks + 1, sizeof *s->tree);
	}
	if (s == NULL || s->slots == NULL || s->marks == NULL || s->tree == NULL) {
		cb_stackdist_close(s);
		snprintf(why, why_size, "no memory for the stack distances of %llu lines",
			 (unsigned long long)lines);
		return NULL;
	}
	return s;
}

void cb_stackdist_close(struct cb_stackdist *s)
{
	if (s == NULL)
		return;
	free(s->slots);
	free(s->marks);
	free(s->tree);
	free(s);
}
