/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_CHASE_H
#define CB_CHASE_H

/* What the memory itself can do: the time of a load that depends on the one
 * before it, and of a line when several loads are under way at once.
 *
 * The lines of a region are linked to one cycle in the order of a pseudo-random
 * permutation. Two lines that follow each other on it have no constant
 * distance, so a stride prefetcher finds nothing to follow; the neighbour that
 * an adjacent-line prefetcher brings along is wanted at a random later time, as
 * any other line is. Each line is visited once before any is visited again. */

#include <stddef.h>
#include <stdint.h>

#include "memory.h"
#include "permute.h"

enum { CB_LINE = 64, CB_MAX_CHAINS = 32 };

/* Memory for cycles, and the cycle that its first lines are linked to. */
struct cb_cycle {
	struct cb_mapping mapping;
	char *base;
	uint64_t bytes; /* mapped */
	uint64_t lines; /* in the cycle; 0 before it is built */
	struct cb_permutation order;
	uint64_t position; /* lines passed since it was built, modulo lines */
};

/* Maps `bytes` bytes as cb_map does. Returns NULL with a line in `why`. */
struct cb_cycle *cb_cycle_open(uint64_t bytes, enum cb_pages pages, int node, char *why,
			       size_t why_size);
void cb_cycle_close(struct cb_cycle *cycle);

/* Links the first `bytes` bytes of the region to a new cycle: a working set of
 * that size. Returns 0, or -1 if they hold no line or are not in the region. */
int cb_cycle_build(struct cb_cycle *cycle, uint64_t bytes, uint64_t seed);

/* Follows the cycle from where the last call stopped, `steps` dependent loads.
 * Returns 0 with the thread's CPU time in `cpu_ns`, or -1 if it did not arrive
 * where it must. */
int cb_chase(struct cb_cycle *cycle, uint64_t steps, uint64_t *cpu_ns);

/* The same on `chains` (1, 2, 4, 8, 16 or 32) places of the cycle at once, at
 * equal distances: steps x chains loads, of which `chains` are independent of
 * each other. Also -1 for another number of chains. */
int cb_random_lines(struct cb_cycle *cycle, uint32_t chains, uint64_t steps, uint64_t *cpu_ns);

#endif
