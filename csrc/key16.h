/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_KEY16_H
#define CB_KEY16_H

/* The IPv4 5-tuple: 13 bytes, padded to 16 so that it compares in two words. */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "crc32c.h"
#include "tuple.h"

struct key16 {
	uint8_t source[4];
	uint8_t destination[4];
	uint16_t source_port;
	uint16_t destination_port;
	uint8_t protocol;
	uint8_t zero[3];
} __attribute__((aligned(8)));

_Static_assert(sizeof(struct key16) == 16, "two words");

static inline uint64_t key16_word(const struct key16 *key, int i)
{
	uint64_t word;

	memcpy(&word, (const char *)key + 8 * i, sizeof word);
	return word;
}

static inline uint32_t key16_hash(const struct key16 *key)
{
	return crc32c_word(crc32c_word(0, key16_word(key, 0)), key16_word(key, 1));
}

static inline bool key16_equal(const struct key16 *a, const struct key16 *b)
{
	return ((key16_word(a, 0) ^ key16_word(b, 0)) | (key16_word(a, 1) ^ key16_word(b, 1))) == 0;
}

static inline void key16_copy(struct key16 *to, const struct key16 *from)
{
	*to = *from;
}

/* Only IPv4 tuples fit. */
static inline void key16_from_tuple(void *out, const struct cb_tuple *tuple)
{
	struct key16 *key = out;

	memcpy(key->source, tuple->source, sizeof key->source);
	memcpy(key->destination, tuple->destination, sizeof key->destination);
	key->source_port = tuple->source_port;
	key->destination_port = tuple->destination_port;
	key->protocol = tuple->protocol;
	memset(key->zero, 0, sizeof key->zero);
}

#endif
