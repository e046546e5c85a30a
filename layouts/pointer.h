/* SPDX-License-Identifier: BSD-3-Clause */

/* pointer: QoS, policer, stats and action each behind a pointer, in pools of
 * their own with one cache line for each object. The QoS profile is shared. */

struct pointer_qos {
	struct cb_qos qos;
} __attribute__((aligned(64)));

struct pointer_policer {
	struct cb_policer policer;
} __attribute__((aligned(64)));

struct pointer_stats {
	struct cb_stats stats;
} __attribute__((aligned(64)));

struct pointer_action {
	struct cb_action action;
} __attribute__((aligned(64)));

struct pointer_session {
	struct pointer_qos *qos;
	struct pointer_policer *policer;
	struct pointer_stats *stats;
	struct pointer_action *action;
	uint32_t rule;
	struct cb_cold cold __attribute__((aligned(64)));
} __attribute__((aligned(64)));

typedef struct pointer_session *layout_slot;

enum { POINTER_SESSION, POINTER_POLICER, POINTER_STATS, POINTER_ACTION, POINTER_QOS };

static const struct cb_arena_spec layout_arenas[] = {
	[POINTER_SESSION] = HEAP_ARENA("session", struct pointer_session, CB_POOL),
	[POINTER_POLICER] = HEAP_ARENA("policer", struct pointer_policer, CB_POOL),
	[POINTER_STATS] = HEAP_ARENA("stats", struct pointer_stats, CB_POOL),
	[POINTER_ACTION] = HEAP_ARENA("action", struct pointer_action, CB_POOL),
	[POINTER_QOS] = HEAP_ARENA("qos", struct pointer_qos, CB_PROFILES),
};

#define LAYOUT_PREFETCH_STEPS 2
#define LAYOUT_COPIES_QOS 0

static inline void layout_prefetch1(const struct cb_heap *heap, const layout_slot *slot)
{
	touch_prefetch(*slot);
}

static inline void layout_prefetch2(const struct cb_heap *heap, const layout_slot *slot)
{
	const struct pointer_session *s = *slot;

	touch_prefetch(s->policer);
	touch_prefetch(s->qos);
	touch_prefetch(s->stats);
	touch_prefetch(s->action);
}

static inline uint64_t layout_process(const struct cb_heap *heap, layout_slot *slot, uint32_t entry,
				      struct cb_packet packet)
{
	struct pointer_session *s = *slot;
	bool conforms = cb_police(&s->policer->policer, s->qos->qos, packet);

	cb_count(&s->stats->stats, packet);
	return cb_rewrite(s->action->action, heap->rules[s->rule].mark, conforms);
}

static inline void layout_create(struct cb_heap *heap, layout_slot *slot, uint32_t entry,
				 const struct cb_session *from)
{
	struct pointer_session *s = HEAP_TAKE(heap, POINTER_SESSION, struct pointer_session);

	*slot = s;
	s->qos = HEAP_AT(heap, POINTER_QOS, struct pointer_qos, from->cold.profile);
	s->policer = HEAP_TAKE(heap, POINTER_POLICER, struct pointer_policer);
	s->stats = HEAP_TAKE(heap, POINTER_STATS, struct pointer_stats);
	s->action = HEAP_TAKE(heap, POINTER_ACTION, struct pointer_action);
	s->policer->policer = from->policer;
	s->stats->stats = from->stats;
	s->action->action = from->action;
	s->rule = from->rule;
	s->cold = from->cold;
}

static inline void layout_destroy(struct cb_heap *heap, layout_slot *slot, uint32_t entry)
{
	struct pointer_session *s = *slot;

	HEAP_GIVE(heap, POINTER_ACTION, struct pointer_action, s->action);
	HEAP_GIVE(heap, POINTER_STATS, struct pointer_stats, s->stats);
	HEAP_GIVE(heap, POINTER_POLICER, struct pointer_policer, s->policer);
	HEAP_GIVE(heap, POINTER_SESSION, struct pointer_session, s);
}

static inline bool layout_expired(const struct cb_heap *heap, const layout_slot *slot,
				  uint32_t entry, uint32_t cutoff)
{
	return (*slot)->stats->stats.last_seen < cutoff;
}

static inline void layout_read(const struct cb_heap *heap, const layout_slot *slot, uint32_t entry,
			       struct cb_session *out)
{
	const struct pointer_session *s = *slot;

	out->qos = s->qos->qos;
	out->policer = s->policer->policer;
	out->stats = s->stats->stats;
	out->action = s->action->action;
	out->rule = s->rule;
	out->cold = s->cold;
}

static inline void layout_publish(struct cb_heap *heap, uint32_t profile, struct cb_qos qos)
{
	HEAP_AT(heap, POINTER_QOS, struct pointer_qos, profile)->qos = qos;
}
