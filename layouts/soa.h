/* SPDX-License-Identifier: BSD-3-Clause */

/* soa: one array for each member, all indexed by the session's number. A walk
 * over one member of all sessions is dense; a packet pays a line for each
 * member. The QoS values are a copy of the profile's. */

struct soa_tags {
	uint64_t tags[CB_TAGS];
};

typedef uint32_t layout_slot;

enum {
	SOA_BYTES, /* its pool hands out the session numbers */
	SOA_PACKETS,
	SOA_LAST_SEEN,
	SOA_RATE,
	SOA_BURST,
	SOA_TOKENS,
	SOA_TICK,
	SOA_ADDRESS,
	SOA_NEXT_HOP,
	SOA_PORT,
	SOA_FLAGS,
	SOA_RULE,
	SOA_CREATED,
	SOA_SUBSCRIBER,
	SOA_PROFILE,
	SOA_ZONE,
	SOA_TAGS,
};

static const struct cb_arena_spec layout_arenas[] = {
	[SOA_BYTES] = HEAP_ARENA("stats.bytes", uint64_t, CB_POOL),
	[SOA_PACKETS] = HEAP_ARENA("stats.packets", uint32_t, CB_COLUMN),
	[SOA_LAST_SEEN] = HEAP_ARENA("stats.last_seen", uint32_t, CB_COLUMN),
	[SOA_RATE] = HEAP_ARENA("qos.rate", uint32_t, CB_COLUMN),
	[SOA_BURST] = HEAP_ARENA("qos.burst", uint32_t, CB_COLUMN),
	[SOA_TOKENS] = HEAP_ARENA("policer.tokens", uint32_t, CB_COLUMN),
	[SOA_TICK] = HEAP_ARENA("policer.tick", uint32_t, CB_COLUMN),
	[SOA_ADDRESS] = HEAP_ARENA("action.address", uint32_t, CB_COLUMN),
	[SOA_NEXT_HOP] = HEAP_ARENA("action.next_hop", uint32_t, CB_COLUMN),
	[SOA_PORT] = HEAP_ARENA("action.port", uint16_t, CB_COLUMN),
	[SOA_FLAGS] = HEAP_ARENA("action.flags", uint16_t, CB_COLUMN),
	[SOA_RULE] = HEAP_ARENA("rule", uint32_t, CB_COLUMN),
	[SOA_CREATED] = HEAP_ARENA("cold.created", uint64_t, CB_COLUMN),
	[SOA_SUBSCRIBER] = HEAP_ARENA("cold.subscriber", uint64_t, CB_COLUMN),
	[SOA_PROFILE] = HEAP_ARENA("cold.profile", uint32_t, CB_COLUMN),
	[SOA_ZONE] = HEAP_ARENA("cold.zone", uint32_t, CB_COLUMN),
	[SOA_TAGS] = HEAP_ARENA("cold.tags", struct soa_tags, CB_COLUMN),
};

#define LAYOUT_PREFETCH_STEPS 1
#define LAYOUT_COPIES_QOS 1

/* Member `number` of session i, as an lvalue. */
#define SOA(number, type) (*HEAP_AT(heap, number, type, i))

static inline void layout_prefetch1(const struct cb_heap *heap, const layout_slot *slot)
{
	uint32_t i = *slot;

	for (int a = SOA_BYTES; a <= SOA_RULE; a++)
		touch_prefetch(heap->arena[a].base + (uint64_t)i * layout_arenas[a].stride);
}

static inline uint64_t layout_process(const struct cb_heap *heap, layout_slot *slot, uint32_t entry,
				      struct cb_packet packet)
{
	uint32_t i = *slot;
	struct cb_policer policer = {SOA(SOA_TOKENS, uint32_t), SOA(SOA_TICK, uint32_t)};
	struct cb_qos qos = {SOA(SOA_RATE, uint32_t), SOA(SOA_BURST, uint32_t)};
	struct cb_stats stats = {SOA(SOA_BYTES, uint64_t), SOA(SOA_PACKETS, uint32_t),
				 SOA(SOA_LAST_SEEN, uint32_t)};
	struct cb_action action = {SOA(SOA_ADDRESS, uint32_t), SOA(SOA_NEXT_HOP, uint32_t),
				   SOA(SOA_PORT, uint16_t), SOA(SOA_FLAGS, uint16_t)};
	bool conforms = cb_police(&policer, qos, packet);

	cb_count(&stats, packet);
	SOA(SOA_TOKENS, uint32_t) = policer.tokens;
	SOA(SOA_TICK, uint32_t) = policer.tick;
	SOA(SOA_BYTES, uint64_t) = stats.bytes;
	SOA(SOA_PACKETS, uint32_t) = stats.packets;
	SOA(SOA_LAST_SEEN, uint32_t) = stats.last_seen;
	return cb_rewrite(action, heap->rules[SOA(SOA_RULE, uint32_t)].mark, conforms);
}

static inline void layout_create(struct cb_heap *heap, layout_slot *slot, uint32_t entry,
				 const struct cb_session *from)
{
	uint32_t i = heap_take(&heap->arena[SOA_BYTES]);

	*slot = i;
	SOA(SOA_BYTES, uint64_t) = from->stats.bytes;
	SOA(SOA_PACKETS, uint32_t) = from->stats.packets;
	SOA(SOA_LAST_SEEN, uint32_t) = from->stats.last_seen;
	SOA(SOA_RATE, uint32_t) = from->qos.rate;
	SOA(SOA_BURST, uint32_t) = from->qos.burst;
	SOA(SOA_TOKENS, uint32_t) = from->policer.tokens;
	SOA(SOA_TICK, uint32_t) = from->policer.tick;
	SOA(SOA_ADDRESS, uint32_t) = from->action.address;
	SOA(SOA_NEXT_HOP, uint32_t) = from->action.next_hop;
	SOA(SOA_PORT, uint16_t) = from->action.port;
	SOA(SOA_FLAGS, uint16_t) = from->action.flags;
	SOA(SOA_RULE, uint32_t) = from->rule;
	SOA(SOA_CREATED, uint64_t) = from->cold.created;
	SOA(SOA_SUBSCRIBER, uint64_t) = from->cold.subscriber;
	SOA(SOA_PROFILE, uint32_t) = from->cold.profile;
	SOA(SOA_ZONE, uint32_t) = from->cold.zone;
	memcpy(SOA(SOA_TAGS, struct soa_tags).tags, from->cold.tags, sizeof from->cold.tags);
}

static inline void layout_destroy(struct cb_heap *heap, layout_slot *slot, uint32_t entry)
{
	heap_give(&heap->arena[SOA_BYTES], *slot);
}

static inline bool layout_expired(const struct cb_heap *heap, const layout_slot *slot,
				  uint32_t entry, uint32_t cutoff)
{
	uint32_t i = *slot;

	return SOA(SOA_LAST_SEEN, uint32_t) < cutoff;
}

static inline void layout_read(const struct cb_heap *heap, const layout_slot *slot, uint32_t entry,
			       struct cb_session *out)
{
	uint32_t i = *slot;

	out->stats = (struct cb_stats){SOA(SOA_BYTES, uint64_t), SOA(SOA_PACKETS, uint32_t),
				       SOA(SOA_LAST_SEEN, uint32_t)};
	out->qos = (struct cb_qos){SOA(SOA_RATE, uint32_t), SOA(SOA_BURST, uint32_t)};
	out->policer = (struct cb_policer){SOA(SOA_TOKENS, uint32_t), SOA(SOA_TICK, uint32_t)};
	out->action = (struct cb_action){SOA(SOA_ADDRESS, uint32_t), SOA(SOA_NEXT_HOP, uint32_t),
					 SOA(SOA_PORT, uint16_t), SOA(SOA_FLAGS, uint16_t)};
	out->rule = SOA(SOA_RULE, uint32_t);
	out->cold.created = SOA(SOA_CREATED, uint64_t);
	out->cold.subscriber = SOA(SOA_SUBSCRIBER, uint64_t);
	out->cold.profile = SOA(SOA_PROFILE, uint32_t);
	out->cold.zone = SOA(SOA_ZONE, uint32_t);
	memcpy(out->cold.tags, SOA(SOA_TAGS, struct soa_tags).tags, sizeof out->cold.tags);
}

static inline bool layout_reprofile(struct cb_heap *heap, layout_slot *slot, uint32_t entry,
				    uint32_t profile, struct cb_qos qos)
{
	uint32_t i = *slot;

	if (SOA(SOA_PROFILE, uint32_t) != profile)
		return false;
	SOA(SOA_RATE, uint32_t) = qos.rate;
	SOA(SOA_BURST, uint32_t) = qos.burst;
	return true;
}
