/* SPDX-License-Identifier: BSD-3-Clause */

#include "chase.h"

#include <stdio.h>
#include <stdlib.h>

#include "clock.h"

struct cb_cycle *cb_cycle_open(uint64_t bytes, enum cb_pages pages, int node, char *why,
			       size_t why_size)
{
	struct cb_cycle *cycle = calloc(1, sizeof *cycle);

	if (cycle == NULL) {
		snprintf(why, why_size, "no memory for a cycle");
		return NULL;
	}
	if (cb_map(&cycle->mapping, bytes, pages, node, why, why_size) != 0) {
		free(cycle);
		return NULL;
	}
	cycle->base = cycle->mapping.base;
	cycle->bytes = cycle->mapping.bytes;
	return cycle;
}

void cb_cycle_close(struct cb_cycle *cycle)
{
	if (cycle == NULL)
		return;
	cb_unmap(&cycle->mapping);
	free(cycle);
}

/* The line at a position of the cycle, which may be past its end. */
static char *line_at(const struct cb_cycle *cycle, uint64_t position)
{
	return cycle->base + CB_LINE * cb_permute(&cycle->order, position % cycle->lines);
}

int cb_cycle_build(struct cb_cycle *cycle, uint64_t bytes, uint64_t seed)
{
	char *line;

	if (bytes < CB_LINE || bytes > cycle->bytes)
		return -1;
	cycle->lines = bytes / CB_LINE;
	cycle->order = cb_permutation(cycle->lines, seed);
	cycle->position = 0;
	/* Position i points to position i + 1, the last one to the first: one
	 * cycle whatever the permutation is. */
	line = line_at(cycle, 0);
	for (uint64_t i = 1; i <= cycle->lines; i++) {
		char *next = line_at(cycle, i);

		*(char **)line = next;
		line = next;
	}
	return 0;
}

/* Nothing but loads: `chains` is a constant where this is inlined, and the inner
 * loop is unrolled. Places beyond what the registers hold are on the stack, in
 * lines that never leave the first-level cache. */
static inline __attribute__((always_inline)) void follow(char **at, const uint32_t chains,
							 uint64_t steps)
{
	char *place[CB_MAX_CHAINS];

#pragma GCC unroll 32
	for (uint32_t j = 0; j < chains; j++)
		place[j] = at[j];
	for (uint64_t i = 0; i < steps; i++)
#pragma GCC unroll 32
		for (uint32_t j = 0; j < chains; j++)
			place[j] = *(char **)place[j];
#pragma GCC unroll 32
	for (uint32_t j = 0; j < chains; j++)
		at[j] = place[j];
}

static int follow_chains(char **at, uint32_t chains, uint64_t steps)
{
	switch (chains) {
	case 1:
		follow(at, 1, steps);
		return 0;
	case 2:
		follow(at, 2, steps);
		return 0;
	case 4:
		follow(at, 4, steps);
		return 0;
	case 8:
		follow(at, 8, steps);
		return 0;
	case 16:
		follow(at, 16, steps);
		return 0;
	case 32:
		follow(at, 32, steps);
		return 0;
	default:
		return -1;
	}
}

int cb_random_lines(struct cb_cycle *cycle, uint32_t chains, uint64_t steps, uint64_t *cpu_ns)
{
	char *at[CB_MAX_CHAINS];
	uint64_t start;

	if (cycle->lines == 0 || chains == 0 || chains > CB_MAX_CHAINS)
		return -1;
	for (uint32_t j = 0; j < chains; j++)
		at[j] = line_at(cycle, cycle->position + j * cycle->lines / chains);
	start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (follow_chains(at, chains, steps) != 0)
		return -1;
	*cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
	cycle->position = (cycle->position + steps) % cycle->lines;
	/* The places are used, so that no load can be left out, and they prove
	 * that the loads were those that were asked for. */
	for (uint32_t j = 0; j < chains; j++)
		if (at[j] != line_at(cycle, cycle->position + j * cycle->lines / chains))
			return -1;
	return 0;
}

int cb_chase(struct cb_cycle *cycle, uint64_t steps, uint64_t *cpu_ns)
{
	return cb_random_lines(cycle, 1, steps, cpu_ns);
}
