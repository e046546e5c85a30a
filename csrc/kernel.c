/* SPDX-License-Identifier: BSD-3-Clause */

/* One kernel: the layout CB_LAYOUT_HEADER, one table, one key type.
 *
 *   CB_LAYOUT         name of the layout, an identifier
 *   CB_LAYOUT_NAME    the same in quotes: the identifier may be a macro
 *   CB_LAYOUT_HEADER  its header, in quotes
 *   CB_KEY            16 or 40: bytes of a key
 *   CB_STAGE          HASH, BUCKET, KEY or SESSION: see drive.h
 *   CB_TRACE          defined: report every access, see hooks.h
 *   CB_TRACE_STACK    defined too: also those to the lookups of a burst, which are
 *                     on the stack
 *   CB_PLUGIN         defined: export the symbol of a plug-in, else one that is
 *                     named after the layout
 */

#ifndef CB_KEY
#define CB_KEY 16
#endif
#ifndef CB_STAGE
#define CB_STAGE SESSION
#endif

#include "cb.h"

#if CB_KEY == 16
#include "key16.h"
typedef struct key16 cb_key;
#define KEY(name) key16_##name
#elif CB_KEY == 40
#include "key40.h"
typedef struct key40 cb_key;
#define KEY(name) key40_##name
#else
#error "CB_KEY is 16 or 40"
#endif

#include "heap.h"
#include "touch.h"

#include CB_LAYOUT_HEADER

#include "cuckoo.h"
#include "drive.h"
#include "slowpath.h"

#define KERNEL_STRING_OF(x) #x
#define KERNEL_STRING(x) KERNEL_STRING_OF(x)
#define KERNEL_JOIN_OF(a, b) a##b
#define KERNEL_JOIN(a, b) KERNEL_JOIN_OF(a, b)

#define KERNEL_BULK(steps) \
	static void bulk_##steps(struct cb_arm *arm, const struct cb_stream *stream, \
				 uint32_t burst) \
	{ \
		drive_bulk(arm, stream, burst, steps); \
	}

KERNEL_BULK(0)
KERNEL_BULK(1)
KERNEL_BULK(2)

static void single(struct cb_arm *arm, const struct cb_stream *stream, uint32_t burst)
{
	(void)burst;
	drive_single(arm, stream, false);
}

static void serial(struct cb_arm *arm, const struct cb_stream *stream, uint32_t burst)
{
	(void)burst;
	drive_single(arm, stream, true);
}

#define KERNEL_COUNT(array) (sizeof(array) / sizeof *(array))

_Static_assert(KERNEL_COUNT(layout_arenas) <= CB_MAX_ARENAS, "a layout has too many arenas");
_Static_assert(LAYOUT_PREFETCH_STEPS < CB_PREFETCH_POLICIES, "a layout has too many steps");

#ifdef CB_PLUGIN
#define KERNEL_OPS cachebench_ops
#else
#define KERNEL_OPS KERNEL_JOIN(cb_ops_, CB_LAYOUT)
#endif

extern const struct cb_ops KERNEL_OPS;

__attribute__((visibility("default"))) const struct cb_ops KERNEL_OPS = {
	.abi = CB_ABI,
	.size = CB_ABI_SIZE,
	.layout = CB_LAYOUT_NAME,
	.table = "cuckoo",
	.stage = KERNEL_STRING(CB_STAGE),
	.key_size = sizeof(cb_key),
	.prefetch_steps = LAYOUT_PREFETCH_STEPS,
	.copies_qos = LAYOUT_COPIES_QOS,
	.table_arena_count = KERNEL_COUNT(cuckoo_arenas),
	.layout_arena_count = KERNEL_COUNT(layout_arenas),
	.table_arenas = cuckoo_arenas,
	.layout_arenas = layout_arenas,
	.reset = drive_reset,
	.create = drive_create,
	.erase = drive_erase,
	.expire = drive_expire,
	.reprofile = drive_reprofile,
	.digest = drive_digest,
	.read = drive_read,
	.lookup = {[CB_BULK] = {bulk_0, bulk_1, bulk_2},
		   [CB_SINGLE] = {single, single, single},
		   [CB_SERIAL] = {serial, serial, serial}},
	.count = drive_count,
	.trace = TOUCH_TRACE,
};
