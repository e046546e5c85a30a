/* SPDX-License-Identifier: BSD-3-Clause */

/* index32: the objects of `pointer`, named by 32-bit pool indices as VPP's
 * pools do: half the bytes, and one addition before each access. */

struct index32_qos {
	struct cb_qos qos;
} __attribute__((aligned(64)));

struct index32_policer {
	struct cb_policer policer;
} __attribute__((aligned(64)));

struct index32_stats {
	struct cb_stats stats;
} __attribute__((aligned(64)));

struct index32_action {
	struct cb_action action;
} __attribute__((aligned(64)));

struct index32_session {
	uint32_t qos;
	uint32_t policer;
	uint32_t stats;
	uint32_t action;
	uint32_t rule;
	struct cb_cold cold __attribute__((aligned(64)));
} __attribute__((aligned(64)));

typedef uint32_t layout_slot;

enum { INDEX32_SESSION, INDEX32_POLICER, INDEX32_STATS, INDEX32_ACTION, INDEX32_QOS };

static const struct cb_arena_spec layout_arenas[] = {
	[INDEX32_SESSION] = HEAP_ARENA("session", struct index32_session, CB_POOL),
	[INDEX32_POLICER] = HEAP_ARENA("policer", struct index32_policer, CB_POOL),
	[INDEX32_STATS] = HEAP_ARENA("stats", struct index32_stats, CB_POOL),
	[INDEX32_ACTION] = HEAP_ARENA("action", struct index32_action, CB_POOL),
	[INDEX32_QOS] = HEAP_ARENA("qos", struct index32_qos, CB_PROFILES),
};

#define LAYOUT_PREFETCH_STEPS 2
#define LAYOUT_COPIES_QOS 0

static inline struct index32_session *index32_session(const struct cb_heap *heap, uint32_t index)
{
	return HEAP_AT(heap, INDEX32_SESSION, struct index32_session, index);
}

static inline struct index32_qos *index32_qos(const struct cb_heap *heap, uint32_t index)
{
	return HEAP_AT(heap, INDEX32_QOS, struct index32_qos, index);
}

static inline struct index32_policer *index32_policer(const struct cb_heap *heap, uint32_t index)
{
	return HEAP_AT(heap, INDEX32_POLICER, struct index32_policer, index);
}

static inline struct index32_stats *index32_stats(const struct cb_heap *heap, uint32_t index)
{
	return HEAP_AT(heap, INDEX32_STATS, struct index32_stats, index);
}

static inline struct index32_action *index32_action(const struct cb_heap *heap, uint32_t index)
{
	return HEAP_AT(heap, INDEX32_ACTION, struct index32_action, index);
}

static inline void layout_prefetch1(const struct cb_heap *heap, const layout_slot *slot)
{
	touch_prefetch(index32_session(heap, *slot));
}

static inline void layout_prefetch2(const struct cb_heap *heap, const layout_slot *slot)
{
	const struct index32_session *s = index32_session(heap, *slot);

	touch_prefetch(index32_policer(heap, s->policer));
	touch_prefetch(index32_qos(heap, s->qos));
	touch_prefetch(index32_stats(heap, s->stats));
	touch_prefetch(index32_action(heap, s->action));
}

static inline uint64_t layout_process(const struct cb_heap *heap, layout_slot *slot, uint32_t entry,
				      struct cb_packet packet)
{
	const struct index32_session *s = index32_session(heap, *slot);
	bool conforms = cb_police(&index32_policer(heap, s->policer)->policer,
				  index32_qos(heap, s->qos)->qos, packet);

	cb_count(&index32_stats(heap, s->stats)->stats, packet);
	return cb_rewrite(index32_action(heap, s->action)->action, heap->rules[s->rule].mark,
			  conforms);
}

static inline void layout_create(struct cb_heap *heap, layout_slot *slot, uint32_t entry,
				 const struct cb_session *from)
{
	struct index32_session *s;

	*slot = heap_take(&heap->arena[INDEX32_SESSION]);
	s = index32_session(heap, *slot);
	s->qos = from->cold.profile;
	s->policer = heap_take(&heap->arena[INDEX32_POLICER]);
	s->stats = heap_take(&heap->arena[INDEX32_STATS]);
	s->action = heap_take(&heap->arena[INDEX32_ACTION]);
	index32_policer(heap, s->policer)->policer = from->policer;
	index32_stats(heap, s->stats)->stats = from->stats;
	index32_action(heap, s->action)->action = from->action;
	s->rule = from->rule;
	s->cold = from->cold;
}

static inline void layout_destroy(struct cb_heap *heap, layout_slot *slot, uint32_t entry)
{
	const struct index32_session *s = index32_session(heap, *slot);

	heap_give(&heap->arena[INDEX32_ACTION], s->action);
	heap_give(&heap->arena[INDEX32_STATS], s->stats);
	heap_give(&heap->arena[INDEX32_POLICER], s->policer);
	heap_give(&heap->arena[INDEX32_SESSION], *slot);
}

static inline bool layout_expired(const struct cb_heap *heap, const layout_slot *slot,
				  uint32_t entry, uint32_t cutoff)
{
	return index32_stats(heap, index32_session(heap, *slot)->stats)->stats.last_seen < cutoff;
}

static inline void layout_read(const struct cb_heap *heap, const layout_slot *slot, uint32_t entry,
			       struct cb_session *out)
{
	const struct index32_session *s = index32_session(heap, *slot);

	out->qos = index32_qos(heap, s->qos)->qos;
	out->policer = index32_policer(heap, s->policer)->policer;
	out->stats = index32_stats(heap, s->stats)->stats;
	out->action = index32_action(heap, s->action)->action;
	out->rule = s->rule;
	out->cold = s->cold;
}

static inline void layout_publish(struct cb_heap *heap, uint32_t profile, struct cb_qos qos)
{
	index32_qos(heap, profile)->qos = qos;
}
