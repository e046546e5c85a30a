/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_HOOKS_H
#define CB_HOOKS_H

/* Our own end of the compiler's ThreadSanitizer instrumentation: the kernel is
 * compiled with -fsanitize=thread and linked without its runtime, and these
 * functions, which the instrumentation calls before every load and store of
 * memory, write into the tracer's buffer. */

#include <stddef.h>
#include <stdint.h>

#include "trace.h"

/* Itself not instrumented; `noinline` keeps a hook one call. */
#define HOOK __attribute__((no_sanitize_thread, noinline))
#define HOOK_CALLED HOOK __attribute__((visibility("hidden")))

static struct cb_tracer *hooks_tracer;

__attribute__((no_sanitize_thread)) static inline void hook_event(const void *address, size_t bytes,
								  uint32_t kind)
{
	struct cb_tracer *t = hooks_tracer;

	if (t == NULL)
		return;
	t->events[t->count] = (struct cb_trace_event){.address = (uint64_t)(uintptr_t)address,
						      .bytes = (uint16_t)bytes,
						      .kind = (uint8_t)kind,
						      .stage = (uint8_t)t->stage,
						      .lookup = t->lookup};
	if (++t->count == t->capacity)
		t->flush(t);
}

__attribute__((no_sanitize_thread)) static inline void hook_mark(uint32_t stage, uint32_t lookup)
{
	if (hooks_tracer != NULL) {
		hooks_tracer->stage = stage;
		hooks_tracer->lookup = lookup;
	}
}

HOOK static void hook_prefetch(const void *address)
{
	hook_event(address, 1, CB_TRACE_PREFETCH);
}

HOOK static void hook_end(uint32_t lookup)
{
	hook_mark(CB_STAGE_NONE, lookup);
	hook_event(NULL, 0, CB_TRACE_END);
}

__attribute__((no_sanitize_thread)) static void hooks_trace(struct cb_tracer *tracer)
{
	hooks_tracer = tracer;
}

/* The names that the compilers call, for every width and flavour. */
#define HOOK_ACCESS(name, bytes, kind) \
	HOOK_CALLED void __tsan_##name(void *address); \
	HOOK_CALLED void __tsan_##name(void *address) \
	{ \
		hook_event(address, bytes, kind); \
	}

#define HOOK_WIDTH(bytes) \
	HOOK_ACCESS(read##bytes, bytes, CB_TRACE_READ) \
	HOOK_ACCESS(write##bytes, bytes, CB_TRACE_WRITE) \
	HOOK_ACCESS(volatile_read##bytes, bytes, CB_TRACE_READ) \
	HOOK_ACCESS(volatile_write##bytes, bytes, CB_TRACE_WRITE)

#define HOOK_UNALIGNED(bytes) \
	HOOK_ACCESS(unaligned_read##bytes, bytes, CB_TRACE_READ) \
	HOOK_ACCESS(unaligned_write##bytes, bytes, CB_TRACE_WRITE) \
	HOOK_ACCESS(unaligned_volatile_read##bytes, bytes, CB_TRACE_READ) \
	HOOK_ACCESS(unaligned_volatile_write##bytes, bytes, CB_TRACE_WRITE)

HOOK_WIDTH(1)
HOOK_WIDTH(2)
HOOK_WIDTH(4)
HOOK_WIDTH(8)
HOOK_WIDTH(16)
HOOK_UNALIGNED(2)
HOOK_UNALIGNED(4)
HOOK_UNALIGNED(8)
HOOK_UNALIGNED(16)

HOOK_CALLED void __tsan_read_range(void *address, long bytes);
HOOK_CALLED void __tsan_read_range(void *address, long bytes)
{
	hook_event(address, (size_t)bytes, CB_TRACE_READ);
}

HOOK_CALLED void __tsan_write_range(void *address, long bytes);
HOOK_CALLED void __tsan_write_range(void *address, long bytes)
{
	hook_event(address, bytes, CB_TRACE_WRITE);
}

HOOK_CALLED void __tsan_init(void);
HOOK_CALLED void __tsan_init(void)
{
}

#endif
