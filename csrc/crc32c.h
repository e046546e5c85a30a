/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_CRC32C_H
#define CB_CRC32C_H

/* CRC32C (Castagnoli) of 64-bit words by the CPU's own instruction: SSE4.2 on
 * x86-64, the CRC extension on aarch64. Both are in the baseline. */

#include <stdint.h>

#if defined(__SSE4_2__)
#include <nmmintrin.h>
static inline uint32_t crc32c_word(uint32_t crc, uint64_t word)
{
	return (uint32_t)_mm_crc32_u64(crc, word);
}
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
static inline uint32_t crc32c_word(uint32_t crc, uint64_t word)
{
	return __crc32cd(crc, word);
}
#else
#error "build with -march=x86-64-v2 or -march=armv8-a+crc: the hash needs CRC32C"
#endif

#endif
