/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_TOUCH_H
#define CB_TOUCH_H

/* Memory traffic that the compiler does not show to instrumentation. */

#include <stddef.h>
#include <stdint.h>

#include "cb.h"

/* Prefetch to L1. A read prefetch also for lines that will be written: asking
 * for ownership early was seen to cost more than it saves when most lines are
 * private to the core anyway. */
static inline void touch_prefetch(const void *address)
{
	__builtin_prefetch(address, 0, 3);
}

/* Prefetches every line of [address, address + bytes). */
static inline void touch_prefetch_range(const void *address, size_t bytes)
{
	uintptr_t line = (uintptr_t)address & ~(uintptr_t)(CB_CACHE_LINE - 1);

	for (; line < (uintptr_t)address + bytes; line += CB_CACHE_LINE)
		touch_prefetch((const void *)line);
}

#endif
