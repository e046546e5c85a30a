/* SPDX-License-Identifier: BSD-3-Clause */

/* hotcold: the hot state in one cache line with a pointer to the cold state,
 * which lives in a pool of its own. The QoS values are a copy of the profile's. */

struct hotcold_session {
	struct cb_stats stats;
	struct cb_qos qos;
	struct cb_policer policer;
	struct cb_action action;
	uint32_t rule;
	struct cb_cold *cold;
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct hotcold_session) == 64, "the hot state is one line");

typedef struct hotcold_session *layout_slot;

enum { HOTCOLD_SESSION, HOTCOLD_COLD };

static const struct cb_arena_spec layout_arenas[] = {
	[HOTCOLD_SESSION] = HEAP_ARENA("session", struct hotcold_session, CB_POOL),
	[HOTCOLD_COLD] = HEAP_ARENA("cold", struct cb_cold, CB_POOL),
};

#define LAYOUT_PREFETCH_STEPS 1
#define LAYOUT_COPIES_QOS 1

static inline void layout_prefetch1(const struct cb_heap *heap, const layout_slot *slot)
{
	touch_prefetch(*slot);
}

static inline uint64_t layout_process(const struct cb_heap *heap, layout_slot *slot, uint32_t entry,
				      struct cb_packet packet)
{
	struct hotcold_session *s = *slot;
	bool conforms = cb_police(&s->policer, s->qos, packet);

	cb_count(&s->stats, packet);
	return cb_rewrite(s->action, heap->rules[s->rule].mark, conforms);
}

static inline void layout_create(struct cb_heap *heap, layout_slot *slot, uint32_t entry,
				 const struct cb_session *from)
{
	struct hotcold_session *s = HEAP_TAKE(heap, HOTCOLD_SESSION, struct hotcold_session);

	*slot = s;
	s->stats = from->stats;
	s->qos = from->qos;
	s->policer = from->policer;
	s->action = from->action;
	s->rule = from->rule;
	s->cold = HEAP_TAKE(heap, HOTCOLD_COLD, struct cb_cold);
	*s->cold = from->cold;
}

static inline void layout_destroy(struct cb_heap *heap, layout_slot *slot, uint32_t entry)
{
	HEAP_GIVE(heap, HOTCOLD_COLD, struct cb_cold, (*slot)->cold);
	HEAP_GIVE(heap, HOTCOLD_SESSION, struct hotcold_session, *slot);
}

static inline bool layout_expired(const struct cb_heap *heap, const layout_slot *slot,
				  uint32_t entry, uint32_t cutoff)
{
	return (*slot)->stats.last_seen < cutoff;
}

static inline void layout_read(const struct cb_heap *heap, const layout_slot *slot, uint32_t entry,
			       struct cb_session *out)
{
	const struct hotcold_session *s = *slot;

	out->stats = s->stats;
	out->qos = s->qos;
	out->policer = s->policer;
	out->action = s->action;
	out->rule = s->rule;
	out->cold = *s->cold;
}

static inline bool layout_reprofile(struct cb_heap *heap, layout_slot *slot, uint32_t entry,
				    uint32_t profile, struct cb_qos qos)
{
	struct hotcold_session *s = *slot;

	if (s->cold->profile != profile)
		return false;
	s->qos = qos;
	return true;
}
