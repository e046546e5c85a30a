/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_PERMUTE_H
#define CB_PERMUTE_H

/* A pseudo-random permutation of 0 … n-1 that needs no memory. */

#include <stdint.h>

#include "session.h"

struct cb_permutation {
	uint64_t n;
	uint64_t mask; /* 2^b - 1, the smallest with n <= 2^b */
	uint32_t shift;
	uint64_t multiplier[3];
	uint64_t addend[3];
};

static inline struct cb_permutation cb_permutation(uint64_t n, uint64_t seed)
{
	struct cb_permutation p = {.n = n};
	uint32_t bits = 1;

	while (bits < 63 && ((uint64_t)1 << bits) < n)
		bits++;
	p.mask = ((uint64_t)1 << bits) - 1;
	p.shift = (bits + 1) / 2;
	seed = cb_mix(seed); /* or seeds that follow each other would share constants */
	for (int i = 0; i < 3; i++) {
		p.multiplier[i] = cb_mix(seed + 2 * (uint64_t)i + 1) | 1;
		p.addend[i] = cb_mix(seed + 2 * (uint64_t)i + 2);
	}
	return p;
}

/* Each round is a bijection on b bits (xor-shift, odd factor, addend); results
 * of n and more are put in again until one is below n (cycle walking: Black,
 * Rogaway, CT-RSA 2002), fewer than twice on average. */
static inline uint64_t cb_permute(const struct cb_permutation *p, uint64_t x)
{
	do {
		for (int i = 0; i < 3; i++) {
			x ^= x >> p->shift;
			x = (x * p->multiplier[i] + p->addend[i]) & p->mask;
		}
		x ^= x >> p->shift;
	} while (x >= p->n);
	return x;
}

#endif
