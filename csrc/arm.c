/* SPDX-License-Identifier: BSD-3-Clause */

#include "arm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "permute.h"

enum { MAX_MAPPINGS = 2 * CB_MAX_ARENAS };

/* What is mapped, beside the arm that uses it. */
struct opened_arm {
	struct cb_arm arm; /* first: an arm is its opened_arm */
	struct {
		const char *name;
		struct cb_mapping mapping;
	} mapped[MAX_MAPPINGS];
	uint32_t mapped_count;
};

uint64_t cb_bucket_count(uint64_t sessions, double max_load)
{
	uint64_t buckets = 1;

	while ((double)sessions > max_load * (double)(buckets * CB_BUCKET_ENTRIES))
		buckets *= 2;
	return buckets;
}

static uint64_t arena_count(enum cb_arena_kind kind, const struct cb_config *config)
{
	switch (kind) {
	case CB_BUCKETS:
		return cb_bucket_count(config->sessions, config->max_load);
	case CB_ENTRIES:
	case CB_COLUMN:
		return config->sessions + 1;
	case CB_POOL:
		return config->sessions;
	case CB_PROFILES:
		return config->profile_count;
	case CB_RULES:
	default:
		return config->rule_count;
	}
}

static uint64_t arena_bytes(const struct cb_arena_spec *spec, const struct cb_config *config)
{
	return arena_count(spec->kind, config) * spec->stride;
}

static const struct cb_arena_spec rule_arena = {"rules", "struct cb_rule", sizeof(struct cb_rule),
						CB_RULES};
static const struct cb_arena_spec slot_arena = {"free_slots", "uint32_t", sizeof(uint32_t),
						CB_ENTRIES};
static const struct cb_arena_spec free_arena = {"free_list", "uint32_t", sizeof(uint32_t), CB_POOL};

struct cb_footprint cb_footprint(const struct cb_ops *ops, const struct cb_config *config)
{
	struct cb_footprint f = {.buckets = cb_bucket_count(config->sessions, config->max_load)};
	/* Free lists are in ordinary pages: nothing that is measured reads them. */
	uint64_t slots = arena_bytes(&slot_arena, config);

	f.table = slots;
	f.free_lists_mapped = cb_page_round(slots, CB_PAGES_4K);
	for (uint32_t i = 0; i < ops->table_arena_count; i++) {
		uint64_t bytes = arena_bytes(&ops->table_arenas[i], config);

		f.table += bytes;
		f.mapped += cb_page_round(bytes, config->pages);
	}
	f.shared = arena_bytes(&rule_arena, config);
	f.mapped += cb_page_round(f.shared, config->pages);
	for (uint32_t i = 0; i < ops->layout_arena_count; i++) {
		const struct cb_arena_spec *spec = &ops->layout_arenas[i];
		uint64_t bytes = arena_bytes(spec, config);

		*(spec->kind == CB_PROFILES || spec->kind == CB_RULES ? &f.shared : &f.sessions) +=
			bytes;
		f.mapped += cb_page_round(bytes, config->pages);
		if (spec->kind == CB_POOL) {
			uint64_t list = arena_bytes(&free_arena, config);

			f.free_lists += list;
			f.free_lists_mapped += cb_page_round(list, CB_PAGES_4K);
		}
	}
	f.mapped += f.free_lists_mapped;
	return f;
}

static int map_arena(struct opened_arm *opened, struct cb_arena *arena,
		     const struct cb_arena_spec *spec, const struct cb_config *config,
		     enum cb_pages pages, char *why, size_t why_size)
{
	struct cb_mapping *mapping = &opened->mapped[opened->mapped_count].mapping;

	if (cb_map(mapping, arena_bytes(spec, config), pages, config->node, why, why_size) != 0)
		return -1;
	opened->mapped[opened->mapped_count++].name = spec->name;
	arena->base = mapping->base;
	arena->count = arena_count(spec->kind, config);
	return 0;
}

/* Fills a pool's stack: what is popped first is pushed last. */
static void order_pool(struct cb_arena *pool, const struct cb_config *config, uint32_t number)
{
	uint32_t n = (uint32_t)pool->count;
	struct cb_permutation p = cb_permutation(n, config->heap_seed * 64 + number);

	for (uint32_t i = 0; i < n; i++)
		pool->free[i] =
			config->heap == CB_HEAP_SHUFFLED ? (uint32_t)cb_permute(&p, i) : n - 1 - i;
	pool->free_count = n;
}

static int open_layout(struct opened_arm *opened, const struct cb_config *config, char *why,
		       size_t why_size)
{
	const struct cb_ops *ops = opened->arm.ops;

	for (uint32_t i = 0; i < ops->layout_arena_count; i++) {
		struct cb_arena *arena = &opened->arm.heap.arena[i];
		struct cb_arena list;

		if (map_arena(opened, arena, &ops->layout_arenas[i], config, config->pages, why,
			      why_size) != 0)
			return -1;
		if (ops->layout_arenas[i].kind != CB_POOL)
			continue;
		if (map_arena(opened, &list, &free_arena, config, CB_PAGES_4K, why, why_size) != 0)
			return -1;
		arena->free = (uint32_t *)(void *)list.base;
		order_pool(arena, config, i);
	}
	return 0;
}

static int open_table(struct opened_arm *opened, const struct cb_config *config, char *why,
		      size_t why_size)
{
	const struct cb_ops *ops = opened->arm.ops;
	struct cb_table *table = &opened->arm.table;
	struct cb_arena buckets, keys, slots;

	if (map_arena(opened, &buckets, &ops->table_arenas[0], config, config->pages, why,
		      why_size) != 0 ||
	    map_arena(opened, &keys, &ops->table_arenas[1], config, config->pages, why, why_size) !=
		    0 ||
	    map_arena(opened, &slots, &slot_arena, config, CB_PAGES_4K, why, why_size) != 0)
		return -1;
	table->buckets = buckets.base;
	table->key_store = keys.base;
	table->bucket_bitmask = (uint32_t)(buckets.count - 1);
	table->free_slots = (uint32_t *)(void *)slots.base;
	table->capacity = (uint32_t)config->sessions;
	return 0;
}

static int open_shared(struct opened_arm *opened, const struct cb_config *config, char *why,
		       size_t why_size)
{
	struct cb_sessions *sessions = &opened->arm.sessions;
	struct cb_arena arena;
	struct cb_rule *rules;

	*sessions = (struct cb_sessions){.seed = config->seed,
					 .profile_count = config->profile_count,
					 .rule_count = config->rule_count};
	sessions->profiles = malloc(config->profile_count * sizeof *sessions->profiles);
	if (sessions->profiles == NULL) {
		snprintf(why, why_size, "no memory for %u profiles", config->profile_count);
		return -1;
	}
	for (uint32_t i = 0; i < config->profile_count; i++)
		sessions->profiles[i] = cb_profile(config->seed, i);
	if (map_arena(opened, &arena, &rule_arena, config, config->pages, why, why_size) != 0)
		return -1;
	rules = (struct cb_rule *)(void *)arena.base;
	for (uint32_t i = 0; i < config->rule_count; i++)
		rules[i].mark = cb_rule_mark(config->seed, i);
	opened->arm.heap.rules = rules;
	return 0;
}

struct cb_arm *cb_arm_open(const struct cb_ops *ops, const struct cb_config *config, char *why,
			   size_t why_size)
{
	/* A member of the table that lookups read is in its first line. */
	struct opened_arm *opened =
		aligned_alloc(CB_CACHE_LINE,
			      (sizeof *opened + CB_CACHE_LINE - 1) / CB_CACHE_LINE * CB_CACHE_LINE);

	if (opened == NULL) {
		snprintf(why, why_size, "no memory for an arm");
		return NULL;
	}
	memset(opened, 0, sizeof *opened);
	opened->arm.ops = ops;
	if (open_table(opened, config, why, why_size) != 0 ||
	    open_shared(opened, config, why, why_size) != 0 ||
	    open_layout(opened, config, why, why_size) != 0) {
		cb_arm_close(&opened->arm);
		return NULL;
	}
	ops->reset(&opened->arm);
	return &opened->arm;
}

void cb_arm_close(struct cb_arm *arm)
{
	struct opened_arm *opened = (struct opened_arm *)arm;

	if (arm == NULL)
		return;
	for (uint32_t i = 0; i < opened->mapped_count; i++)
		cb_unmap(&opened->mapped[i].mapping);
	free(arm->sessions.profiles);
	free(opened);
}

uint64_t cb_arm_reprofile(struct cb_arm *arm, uint32_t profile, struct cb_qos qos)
{
	arm->sessions.profiles[profile] = qos;
	return arm->ops->reprofile(arm, profile, qos);
}

int cb_arm_elements(const struct cb_arm *arm, uint32_t number, struct cb_elements *elements)
{
	const struct cb_ops *ops = arm->ops;
	const struct cb_table *table = &arm->table;
	uint32_t own = number - 2; /* wraps for the table's arrays, which come first */

	if (number == 0)
		*elements = (struct cb_elements){&ops->table_arenas[0], table->buckets,
						 (uint64_t)table->bucket_bitmask + 1};
	else if (number == 1)
		*elements = (struct cb_elements){&ops->table_arenas[1], table->key_store,
						 (uint64_t)table->capacity + 1};
	else if (own < ops->layout_arena_count)
		*elements =
			(struct cb_elements){&ops->layout_arenas[own], arm->heap.arena[own].base,
					     arm->heap.arena[own].count};
	else if (own == ops->layout_arena_count)
		*elements = (struct cb_elements){&rule_arena, (const char *)arm->heap.rules,
						 arm->sessions.rule_count};
	else
		return 0;
	return 1;
}

int cb_arm_arena(const struct cb_arm *arm, uint32_t index, const char **name, uint64_t *start,
		 uint64_t *bytes)
{
	const struct opened_arm *opened = (const struct opened_arm *)arm;

	if (index >= opened->mapped_count)
		return 0;
	*name = opened->mapped[index].name;
	*start = (uint64_t)(uintptr_t)opened->mapped[index].mapping.base;
	*bytes = opened->mapped[index].mapping.bytes;
	return 1;
}
