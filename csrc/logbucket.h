/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_LOGBUCKET_H
#define CB_LOGBUCKET_H

/* Buckets whose width grows with the value: 2^step_bits of them for each power of
 * two. Values below 2^step_bits have a bucket each. */

#include <stdint.h>

static inline uint32_t logbucket_of(uint64_t value, uint32_t step_bits)
{
	const uint64_t steps = (uint64_t)1 << step_bits;
	uint32_t exponent;

	if (value < steps)
		return (uint32_t)value;
	exponent = 63 - (uint32_t)__builtin_clzll(value);
	return (exponent - step_bits + 1) * (uint32_t)steps +
	       (uint32_t)(value >> (exponent - step_bits) & (steps - 1));
}

/* Smallest value of a bucket. */
static inline uint64_t logbucket_floor(uint32_t bucket, uint32_t step_bits)
{
	const uint64_t steps = (uint64_t)1 << step_bits;
	uint64_t power = bucket >> step_bits, step = bucket & (steps - 1);

	return power == 0 ? step : (steps + step) << (power - 1);
}

#endif
