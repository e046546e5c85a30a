/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_H
#define CB_H

/* The interface between a kernel (one layout, one table, one key type, compiled
 * as a unit of its own) and everything that does not depend on a layout. */

#include <stddef.h>
#include <stdint.h>

#include "session.h"

/* Counts up with every change of a structure in this file: a plug-in that was
 * built against another number is refused. */
#define CB_ABI 2

enum {
	CB_MAX_ARENAS = 24,
	CB_MAX_BURST = 256,
	CB_BUCKET_ENTRIES = 8,
	CB_CACHE_LINE = 64,
};

/* How many elements an arena has, and who chooses which one a session gets. */
enum cb_arena_kind {
	CB_BUCKETS,  /* one per bucket of the table */
	CB_ENTRIES,  /* one per key entry, and entry 0, which is never used */
	CB_POOL,     /* one per session, handed out in the order of the heap policy */
	CB_COLUMN,   /* one per session, placed by an index that the layout has already */
	CB_PROFILES, /* one per QoS profile, shared by its sessions */
	CB_RULES,    /* one per rule, shared */
	CB_KIND_COUNT
};

struct cb_arena_spec {
	const char *name; /* "policer" */
	const char *type; /* C type of an element: "struct policer" */
	uint32_t stride;  /* bytes from one element to the next */
	enum cb_arena_kind kind;
};

/* One mapped array. Only the free list of a pool is used after the set-up. */
struct cb_arena {
	char *base;
	uint64_t count; /* elements */
	uint32_t free_count;
	uint32_t *free; /* CB_POOL: stack of free element numbers, else NULL */
};

/* What a layout sees: its own arenas, in the order in which it declared them. */
struct cb_heap {
	struct cb_arena arena[CB_MAX_ARENAS];
	const struct cb_rule *rules;
};

/* What a table sees. All members that a lookup reads are in the first line. */
struct cb_table {
	char *buckets;
	char *key_store;
	uint32_t bucket_bitmask;
	uint32_t *free_slots; /* stack of unused key entry numbers */
	uint32_t free_count;
	uint32_t capacity;  /* key entries; entry 0 is not one of them */
	uint32_t entries;   /* sessions held */
	uint64_t displaced; /* entries moved by insertions since the set-up */
};

/* One side of a comparison: a kernel with a table and sessions of its own. */
struct cb_arm {
	struct cb_table table;
	struct cb_heap heap;
	const struct cb_ops *ops;
	struct cb_sessions sessions;
	uint64_t packets;     /* processed so far: the number of the next packet */
	uint64_t checksum;    /* ordered sum of all output words so far */
	uint64_t hits;        /* of `packets` */
	uint64_t opaque_zero; /* 0, but no compiler or CPU knows: orders serial lookups */
};

/* Packets in the order of their arrival. */
struct cb_stream {
	const char *keys;        /* `count` keys, key_size bytes each */
	const uint16_t *lengths; /* `count` lengths in bytes */
	uint64_t count;
};

enum cb_mode { CB_BULK, CB_SINGLE, CB_SERIAL, CB_MODE_COUNT };

/* What a table's entries and one stream of lookups say about the table. */
struct cb_table_stats {
	uint64_t entries;
	uint64_t primary; /* entries that are in their primary bucket */
	uint64_t lookups;
	uint64_t hits;
	uint64_t bucket_probes; /* buckets whose signatures were compared */
	uint64_t key_compares;
	uint64_t false_hits; /* signature equal, key not */
};

struct cb_expiry {
	uint64_t expired;
	uint64_t log; /* sum of the expired sessions' cold state, in no order */
};

/* The policy of a lookup function: how many of the layout's prefetch steps it
 * uses at most. Compiled once for each value, so that nothing is tested in the
 * hot path. */
enum { CB_PREFETCH_POLICIES = 3 };

struct cb_tracer; /* trace.h */

typedef void cb_lookup_fn(struct cb_arm *arm, const struct cb_stream *stream, uint32_t burst);

struct cb_ops {
	uint32_t abi;
	uint32_t size; /* CB_ABI_SIZE: a second check of the ABI */
	const char *layout;
	const char *table;
	const char *stage; /* last stage that the lookups execute; "SESSION" is all of it */
	uint32_t key_size;
	uint32_t prefetch_steps; /* of the layout: 0, 1 or 2 */
	uint32_t copies_qos;     /* 1: each session holds a copy of its profile's values */
	uint32_t table_arena_count;
	uint32_t layout_arena_count;
	const struct cb_arena_spec *table_arenas; /* buckets, then key entries */
	const struct cb_arena_spec *layout_arenas;

	/* Empties the table; the arenas are mapped and the pools full. */
	void (*reset)(struct cb_arm *arm);
	/* Creates the sessions ids[0 … count) under the given keys; a key that is
	 * there already is updated in place. Returns how many it took before the
	 * table was full: `count` if all. */
	uint64_t (*create)(struct cb_arm *arm, const char *keys, const uint64_t *ids,
			   uint64_t count, uint32_t now);
	/* Returns how many of the keys were there. */
	uint64_t (*erase)(struct cb_arm *arm, const char *keys, uint64_t count);
	/* Erases the sessions last seen before `cutoff`. */
	struct cb_expiry (*expire)(struct cb_arm *arm, uint32_t cutoff);
	/* Changes one profile; returns the number of objects written. */
	uint64_t (*reprofile)(struct cb_arm *arm, uint32_t profile, struct cb_qos qos);
	/* Sum over all sessions of a digest of key and full state. */
	uint64_t (*digest)(struct cb_arm *arm);
	/* Reads the session under a key; 0 if there is none. */
	int (*read)(struct cb_arm *arm, const char *key, struct cb_session *out);
	cb_lookup_fn *lookup[CB_MODE_COUNT][CB_PREFETCH_POLICIES];
	/* Looks the stream up once more, counting; touches no session. */
	void (*count)(struct cb_arm *arm, const struct cb_stream *stream,
		      struct cb_table_stats *stats);
	/* In a trace build: where to report accesses from now on, or NULL. */
	void (*trace)(struct cb_tracer *tracer);
};

/* Changes with the size of what a kernel and the rest share. */
#define CB_ABI_SIZE \
	((uint32_t)(sizeof(struct cb_ops) + 1024 * sizeof(struct cb_table) + \
		    sizeof(struct cb_arm) + 1024 * sizeof(struct cb_arena) + \
		    sizeof(struct cb_session)))

/* The one symbol that a plug-in exports. */
#define CB_PLUGIN_SYMBOL "cachebench_ops"

#endif
