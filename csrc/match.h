/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_MATCH_H
#define CB_MATCH_H

/* Which of a bucket's eight signatures equal `sig`: bit i for entry i. One
 * function name, one body for each instruction set, plain C otherwise. */

#include <stdint.h>

#if defined(__SSE2__)
#include <emmintrin.h>
static inline uint32_t match8(const uint16_t *sigs, uint16_t sig)
{
	__m128i equal =
		_mm_cmpeq_epi16(_mm_load_si128((const __m128i *)sigs), _mm_set1_epi16((short)sig));

	return (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128()));
}
#elif defined(__ARM_NEON)
#include <arm_neon.h>
static inline uint32_t match8(const uint16_t *sigs, uint16_t sig)
{
	static const uint16_t bit[8] = {1, 2, 4, 8, 16, 32, 64, 128};

	return vaddvq_u16(vandq_u16(vceqq_u16(vld1q_u16(sigs), vdupq_n_u16(sig)), vld1q_u16(bit)));
}
#else
static inline uint32_t match8(const uint16_t *sigs, uint16_t sig)
{
	uint32_t mask = 0;

	for (int i = 0; i < 8; i++)
		mask |= (uint32_t)(sigs[i] == sig) << i;
	return mask;
}
#endif

#endif
