/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_DISSECT_H
#define CB_DISSECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tuple.h"

/* What one frame says about its flow. */
struct cb_dissection {
	uint8_t family; /* 4 or 6 where the frame reaches IP, good header or not; else 0 */
	bool fragment;  /* a non-first fragment */
	bool keyed;     /* `tuple` is set */
	struct cb_tuple tuple;
};

/* Takes a frame apart down to the ports of its outermost IP header. `length` is
 * what was captured; a header that does not fit gives no key. A link type
 * (LINKTYPE_ number) that is not known gives family 0. */
void cb_dissect(uint16_t link_type, const uint8_t *frame, size_t length, struct cb_dissection *out);

#endif
