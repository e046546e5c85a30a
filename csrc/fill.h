/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_FILL_H
#define CB_FILL_H

#include <stdint.h>

#include "cb.h"
#include "traffic.h"

/* Creates sessions 0 … count-1 at tick 0, in that order, and for CB_HEAP_AGED
 * churns half of them twice. Returns how many it created. `cpu_ns`: time in
 * the create calls alone, the keys already made. */
uint64_t cb_fill(struct cb_arm *arm, const struct cb_traffic *traffic, uint64_t count, int aged,
		 uint64_t seed, uint64_t *cpu_ns);

#endif
