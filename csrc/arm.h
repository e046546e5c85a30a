/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_ARM_H
#define CB_ARM_H

#include <stddef.h>
#include <stdint.h>

#include "cb.h"
#include "memory.h"

/* Order in which the pools hand out their elements. */
enum cb_heap_order {
	CB_HEAP_FRESH,    /* ascending addresses, as after start-up */
	CB_HEAP_SHUFFLED, /* each pool permuted on its own */
	CB_HEAP_AGED,     /* fresh, then half the sessions erased and created anew, twice */
};

struct cb_config {
	uint64_t sessions; /* that the table must hold: also its key entries */
	double max_load;   /* 0 < max_load <= 1 */
	uint32_t profile_count;
	uint32_t rule_count;
	enum cb_pages pages;
	enum cb_heap_order heap;
	int node;           /* NUMA node, or -1 */
	uint64_t seed;      /* of the sessions' values */
	uint64_t heap_seed; /* of the order of the pools */
};

/* Bytes that an arm will take, computed. */
struct cb_footprint {
	uint64_t buckets;           /* number of buckets: a power of two */
	uint64_t table;             /* bucket and key arenas, stack of free entries */
	uint64_t sessions;          /* arenas of the layout that grow with the sessions */
	uint64_t shared;            /* profiles and rules */
	uint64_t free_lists;        /* of the pools */
	uint64_t mapped;            /* all of it in whole pages */
	uint64_t free_lists_mapped; /* of it, the stacks in ordinary pages */
};

/* Buckets for `sessions` at a load of at most `max_load`. */
uint64_t cb_bucket_count(uint64_t sessions, double max_load);

struct cb_footprint cb_footprint(const struct cb_ops *ops, const struct cb_config *config);

/* Maps all arenas and empties the table. NULL with a line in `why` on failure. */
struct cb_arm *cb_arm_open(const struct cb_ops *ops, const struct cb_config *config, char *why,
			   size_t why_size);

void cb_arm_close(struct cb_arm *arm);

/* Changes a QoS profile for its sessions and for those to come. Returns the
 * number of objects written. */
uint64_t cb_arm_reprofile(struct cb_arm *arm, uint32_t profile, struct cb_qos qos);

/* One array whose elements lookups may touch. */
struct cb_elements {
	const struct cb_arena_spec *spec;
	const char *base;
	uint64_t count;
};

/* The arrays by number from 0: buckets, key entries, the layout's own in the order
 * of their declaration, rules. Returns 0 when there is no more. */
int cb_arm_elements(const struct cb_arm *arm, uint32_t number, struct cb_elements *elements);

/* Mapped arenas, for /proc/PID/smaps: `index` from 0; 0 when there is no more.
 * `name` is valid as long as the arm's kernel is. */
int cb_arm_arena(const struct cb_arm *arm, uint32_t index, const char **name, uint64_t *start,
		 uint64_t *bytes);

#endif
