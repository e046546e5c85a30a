/* SPDX-License-Identifier: BSD-3-Clause */

#include "fill.h"

#include <stdlib.h>

#include "clock.h"
#include "permute.h"

/* Keys are made and sessions created a block at a time. */
enum { FILL_BLOCK = 4096 };

struct fill {
	struct cb_arm *arm;
	const struct cb_traffic *traffic;
	char *keys;
	uint64_t cpu_ns;
};

/* Creates or erases the sessions in the given order; returns how many. */
static uint64_t fill_pass(struct fill *fill, uint64_t count, const struct cb_permutation *order,
			  int erase)
{
	uint64_t ids[FILL_BLOCK], done = 0;
	const struct cb_ops *ops = fill->arm->ops;

	for (uint64_t base = 0; base < count; base += FILL_BLOCK) {
		uint64_t n = count - base < FILL_BLOCK ? count - base : FILL_BLOCK;
		uint64_t start;

		for (uint64_t i = 0; i < n; i++)
			ids[i] = order ? cb_permute(order, base + i) : base + i;
		cb_traffic_keys(fill->traffic, ids, n, fill->keys);
		start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		done += erase ? ops->erase(fill->arm, fill->keys, n)
			      : ops->create(fill->arm, fill->keys, ids, n, 0);
		fill->cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
		if (done < base + n)
			break;
	}
	return done;
}

uint64_t cb_fill(struct cb_arm *arm, const struct cb_traffic *traffic, uint64_t count, int aged,
		 uint64_t seed, uint64_t *cpu_ns)
{
	struct fill fill = {.arm = arm, .traffic = traffic};
	uint64_t created;

	fill.keys = malloc((uint64_t)FILL_BLOCK * arm->ops->key_size);
	if (fill.keys == NULL)
		return 0;
	created = fill_pass(&fill, count, NULL, 0);
	*cpu_ns = fill.cpu_ns;
	for (uint64_t round = 0; aged && round < 2 && created == count; round++) {
		/* The same half leaves in one order and comes back in another: the
		 * second permutation maps the first one's half onto itself. */
		struct cb_permutation leave = cb_permutation(count, seed * 4 + 2 * round);
		struct cb_permutation within =
			cb_permutation(count / 2 ? count / 2 : 1, seed * 4 + 2 * round + 1);
		uint64_t ids[FILL_BLOCK];

		fill_pass(&fill, count / 2, &leave, 1);
		for (uint64_t base = 0; base < count / 2; base += FILL_BLOCK) {
			uint64_t n = count / 2 - base < FILL_BLOCK ? count / 2 - base : FILL_BLOCK;

			for (uint64_t i = 0; i < n; i++)
				ids[i] = cb_permute(&leave, cb_permute(&within, base + i));
			cb_traffic_keys(traffic, ids, n, fill.keys);
			created -= n - arm->ops->create(arm, fill.keys, ids, n, 0);
		}
	}
	free(fill.keys);
	return created;
}
