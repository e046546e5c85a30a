/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_HEAP_H
#define CB_HEAP_H

/* Elements of a pool: taken and given back on a stack, as a memory pool with a
 * per-core cache does. A pool has one element for each key entry, so that it
 * cannot be empty when the table has accepted a key. */

#include <stdint.h>

#include "cb.h"

/* An arena of a layout, in its table `layout_arenas`. */
#define HEAP_ARENA(name, type, kind) {name, #type, sizeof(type), kind}

/* Element `index` of an arena of a layout, as a pointer to its type. */
#define HEAP_AT(heap, number, type, index) ((type *)(heap)->arena[number].base + (index))

static inline uint32_t heap_take(struct cb_arena *pool)
{
	return pool->free[--pool->free_count];
}

static inline void heap_give(struct cb_arena *pool, uint32_t element)
{
	pool->free[pool->free_count++] = element;
}

/* Takes an element of a pool, or gives it back, as a pointer to its type. */
#define HEAP_TAKE(heap, number, type) HEAP_AT(heap, number, type, heap_take(&(heap)->arena[number]))
#define HEAP_GIVE(heap, number, type, element) \
	heap_give(&(heap)->arena[number], (uint32_t)((element) - HEAP_AT(heap, number, type, 0)))

#endif
