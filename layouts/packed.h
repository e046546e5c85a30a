/* SPDX-License-Identifier: BSD-3-Clause */

/* packed: one packed struct of 227 bytes in a pool with that stride, so that
 * sessions begin anywhere in a line and members straddle lines. Size and places
 * follow the NAT44-ed session of VPP: rewrite near the start, times and counters
 * near the end, what the fast path does not need in between. The QoS values are
 * a copy of the profile's. */

struct packed_session {
	uint64_t created;
	uint64_t subscriber;
	uint32_t profile;
	uint32_t zone;
	uint8_t protocol; /* where NAT44-ed keeps it; the key has it here */
	struct cb_action action;
	uint64_t tags_first[6];
	uint8_t rewrite_rest[4];
	struct cb_qos qos;
	uint64_t tags_last[3];
	uint8_t lists[28];
	uint32_t rule;
	uint8_t state[4];
	struct cb_policer policer;
	uint8_t last_lru_update[8];
	uint32_t last_seen;
	uint8_t fragments[12];
	uint64_t bytes;
	uint32_t packets;
	uint8_t rest[26];
} __attribute__((packed));

_Static_assert(sizeof(struct packed_session) == 227, "the stride of NAT44-ed");
_Static_assert(offsetof(struct packed_session, action) == 25, "rewrite");
_Static_assert(offsetof(struct packed_session, policer) == 157, "recently used list");
_Static_assert(offsetof(struct packed_session, last_seen) == 173, "last heard");
_Static_assert(offsetof(struct packed_session, bytes) == 189, "counters");

typedef struct packed_session *layout_slot;

enum { PACKED_SESSION };

static const struct cb_arena_spec layout_arenas[] = {
	[PACKED_SESSION] = HEAP_ARENA("session", struct packed_session, CB_POOL),
};

#define LAYOUT_PREFETCH_STEPS 1
#define LAYOUT_COPIES_QOS 1

static inline void layout_prefetch1(const struct cb_heap *heap, const layout_slot *slot)
{
	touch_prefetch_range(&(*slot)->action, offsetof(struct packed_session, rest) -
						       offsetof(struct packed_session, action));
}

static inline uint64_t layout_process(const struct cb_heap *heap, layout_slot *slot, uint32_t entry,
				      struct cb_packet packet)
{
	struct packed_session *s = *slot;
	/* Copies: a pointer to a packed member would promise an alignment. */
	struct cb_policer policer = s->policer;
	struct cb_stats stats = {s->bytes, s->packets, s->last_seen};
	bool conforms = cb_police(&policer, s->qos, packet);

	cb_count(&stats, packet);
	s->policer = policer;
	s->bytes = stats.bytes;
	s->packets = stats.packets;
	s->last_seen = stats.last_seen;
	return cb_rewrite(s->action, heap->rules[s->rule].mark, conforms);
}

static inline void layout_create(struct cb_heap *heap, layout_slot *slot, uint32_t entry,
				 const struct cb_session *from)
{
	struct packed_session *s = HEAP_TAKE(heap, PACKED_SESSION, struct packed_session);

	*slot = s;
	s->qos = from->qos;
	s->policer = from->policer;
	s->bytes = from->stats.bytes;
	s->packets = from->stats.packets;
	s->last_seen = from->stats.last_seen;
	s->action = from->action;
	s->rule = from->rule;
	s->created = from->cold.created;
	s->subscriber = from->cold.subscriber;
	s->profile = from->cold.profile;
	s->zone = from->cold.zone;
	memcpy(s->tags_first, from->cold.tags, sizeof s->tags_first);
	memcpy(s->tags_last, from->cold.tags + 6, sizeof s->tags_last);
}

static inline void layout_destroy(struct cb_heap *heap, layout_slot *slot, uint32_t entry)
{
	HEAP_GIVE(heap, PACKED_SESSION, struct packed_session, *slot);
}

static inline bool layout_expired(const struct cb_heap *heap, const layout_slot *slot,
				  uint32_t entry, uint32_t cutoff)
{
	return (*slot)->last_seen < cutoff;
}

static inline void layout_read(const struct cb_heap *heap, const layout_slot *slot, uint32_t entry,
			       struct cb_session *out)
{
	const struct packed_session *s = *slot;

	out->qos = s->qos;
	out->policer = s->policer;
	out->stats = (struct cb_stats){s->bytes, s->packets, s->last_seen};
	out->action = s->action;
	out->rule = s->rule;
	out->cold.created = s->created;
	out->cold.subscriber = s->subscriber;
	out->cold.profile = s->profile;
	out->cold.zone = s->zone;
	memcpy(out->cold.tags, s->tags_first, sizeof s->tags_first);
	memcpy(out->cold.tags + 6, s->tags_last, sizeof s->tags_last);
}

static inline bool layout_reprofile(struct cb_heap *heap, layout_slot *slot, uint32_t entry,
				    uint32_t profile, struct cb_qos qos)
{
	struct packed_session *s = *slot;

	if (s->profile != profile)
		return false;
	s->qos = qos;
	return true;
}
