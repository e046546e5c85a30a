/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_TOUCH_H
#define CB_TOUCH_H

/* What a trace build must be told: memory traffic that the compiler does not
 * show to instrumentation, and which stage of which lookup is at work. In other
 * builds a touch is the plain thing, and a mark is nothing. */

#include <stddef.h>
#include <stdint.h>

#include "cb.h"

#ifdef CB_TRACE
#include "hooks.h"
#define TOUCH_STAGE(stage, lookup) hook_mark(CB_STAGE_##stage, lookup)
#define TOUCH_END(lookup) hook_end(lookup)
#define TOUCH_TRACE hooks_trace
#ifdef CB_TRACE_STACK
/* Accesses to an array are instrumented if its address is known outside. */
#define TOUCH_ARRAY(array) __asm__ volatile("" : : "r"(array) : "memory")
#endif
#else
#define TOUCH_STAGE(stage, lookup) ((void)0)
#define TOUCH_END(lookup) ((void)0)
#define TOUCH_TRACE NULL
#endif
#ifndef TOUCH_ARRAY
#define TOUCH_ARRAY(array) ((void)0)
#endif

/* Prefetch to L1. A read prefetch also for lines that will be written: asking
 * for ownership early was seen to cost more than it saves when most lines are
 * private to the core anyway. */
static inline void touch_prefetch(const void *address)
{
#ifdef CB_TRACE
	hook_prefetch(address);
#else
	__builtin_prefetch(address, 0, 3);
#endif
}

/* Prefetches every line of [address, address + bytes). */
static inline void touch_prefetch_range(const void *address, size_t bytes)
{
	uintptr_t line = (uintptr_t)address & ~(uintptr_t)(CB_CACHE_LINE - 1);

	for (; line < (uintptr_t)address + bytes; line += CB_CACHE_LINE)
		touch_prefetch((const void *)line);
}

#endif
