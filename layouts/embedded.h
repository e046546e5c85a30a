/* SPDX-License-Identifier: BSD-3-Clause */

/* embedded: the hot state is the slot itself, so that a 16-byte key and the
 * session share one 64-byte key entry. The cold state is an array beside the
 * key entries, one element for each. The QoS values are a copy of the profile's. */

struct embedded_session {
	struct cb_stats stats;
	struct cb_qos qos;
	struct cb_policer policer;
	struct cb_action action;
	uint32_t rule;
};

_Static_assert(sizeof(struct embedded_session) == 48, "with a 16-byte key, one line");

typedef struct embedded_session layout_slot;

enum { EMBEDDED_COLD };

static const struct cb_arena_spec layout_arenas[] = {
	[EMBEDDED_COLD] = HEAP_ARENA("cold", struct cb_cold, CB_COLUMN),
};

#define LAYOUT_PREFETCH_STEPS 0
#define LAYOUT_COPIES_QOS 1

static inline struct cb_cold *embedded_cold(const struct cb_heap *heap, uint32_t entry)
{
	return HEAP_AT(heap, EMBEDDED_COLD, struct cb_cold, entry);
}

static inline uint64_t layout_process(const struct cb_heap *heap, layout_slot *slot, uint32_t entry,
				      struct cb_packet packet)
{
	bool conforms = cb_police(&slot->policer, slot->qos, packet);

	cb_count(&slot->stats, packet);
	return cb_rewrite(slot->action, heap->rules[slot->rule].mark, conforms);
}

static inline void layout_create(struct cb_heap *heap, layout_slot *slot, uint32_t entry,
				 const struct cb_session *from)
{
	slot->stats = from->stats;
	slot->qos = from->qos;
	slot->policer = from->policer;
	slot->action = from->action;
	slot->rule = from->rule;
	*embedded_cold(heap, entry) = from->cold;
}

static inline void layout_destroy(struct cb_heap *heap, layout_slot *slot, uint32_t entry)
{
}

static inline bool layout_expired(const struct cb_heap *heap, const layout_slot *slot,
				  uint32_t entry, uint32_t cutoff)
{
	return slot->stats.last_seen < cutoff;
}

static inline void layout_read(const struct cb_heap *heap, const layout_slot *slot, uint32_t entry,
			       struct cb_session *out)
{
	out->stats = slot->stats;
	out->qos = slot->qos;
	out->policer = slot->policer;
	out->action = slot->action;
	out->rule = slot->rule;
	out->cold = *embedded_cold(heap, entry);
}

static inline bool layout_reprofile(struct cb_heap *heap, layout_slot *slot, uint32_t entry,
				    uint32_t profile, struct cb_qos qos)
{
	if (embedded_cold(heap, entry)->profile != profile)
		return false;
	slot->qos = qos;
	return true;
}
