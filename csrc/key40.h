/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_KEY40_H
#define CB_KEY40_H

/* The 5-tuple of either family: 38 bytes, padded to 40 so that it compares in
 * five words. IPv4 addresses fill the first four bytes of their field; the
 * family keeps them apart from IPv6 addresses that end in zeros. */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "crc32c.h"
#include "tuple.h"

struct key40 {
	struct cb_tuple tuple;
} __attribute__((aligned(8)));

_Static_assert(sizeof(struct key40) == 40, "five words");

static inline uint64_t key40_word(const struct key40 *key, int i)
{
	uint64_t word;

	memcpy(&word, (const char *)key + 8 * i, sizeof word);
	return word;
}

static inline uint32_t key40_hash(const struct key40 *key)
{
	uint32_t crc = 0;

	for (int i = 0; i < 5; i++)
		crc = crc32c_word(crc, key40_word(key, i));
	return crc;
}

static inline bool key40_equal(const struct key40 *a, const struct key40 *b)
{
	uint64_t difference = 0;

	for (int i = 0; i < 5; i++)
		difference |= key40_word(a, i) ^ key40_word(b, i);
	return difference == 0;
}

static inline void key40_copy(struct key40 *to, const struct key40 *from)
{
	*to = *from;
}

static inline void key40_from_tuple(void *out, const struct cb_tuple *tuple)
{
	memcpy(out, tuple, sizeof *tuple);
}

#endif
