/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_SESSION_H
#define CB_SESSION_H

/* The session, the packet and the packet's work on values.
 *
 * Nothing here follows a pointer to a session: a layout loads the values, calls
 * these functions and stores the results, so that all layouts do the same
 * arithmetic whatever their memory looks like. */

#include <stdbool.h>
#include <stdint.h>

/* Hot state: 48 bytes, read or written by each packet. */
struct cb_qos {
	uint32_t rate;  /* tokens (bytes) added per tick */
	uint32_t burst; /* depth of the token bucket in bytes */
};

struct cb_policer {
	uint32_t tokens; /* bytes that may pass now */
	uint32_t tick;   /* when the tokens were last topped up */
};

struct cb_stats {
	uint64_t bytes;
	uint32_t packets;
	uint32_t last_seen; /* tick */
};

struct cb_action {
	uint32_t address; /* translated source address */
	uint32_t next_hop;
	uint16_t port; /* translated source port */
	uint16_t flags;
};

/* Cold state: 96 bytes, written when the session is created and read when it
 * expires; no packet touches it. */
enum { CB_TAGS = 9 };

struct cb_cold {
	uint64_t created; /* tick */
	uint64_t subscriber;
	uint32_t profile; /* QoS profile number */
	uint32_t zone;
	uint64_t tags[CB_TAGS]; /* for the log */
};

/* The whole state as values; no layout stores it like this. */
struct cb_session {
	struct cb_qos qos;
	struct cb_policer policer;
	struct cb_stats stats;
	struct cb_action action;
	uint32_t rule; /* rule number */
	struct cb_cold cold;
};

_Static_assert(sizeof(struct cb_qos) + sizeof(struct cb_policer) + sizeof(struct cb_stats) +
			       sizeof(struct cb_action) + sizeof(uint32_t) ==
		       48,
	       "the hot state is 48 bytes in every layout");
_Static_assert(sizeof(struct cb_cold) == 96, "the cold state is 96 bytes in every layout");

/* A rule of the shared rule table; one line each, so that the number of rules
 * alone decides whether it is cached. */
struct cb_rule {
	uint32_t mark;
	uint32_t reserved[15];
};

_Static_assert(sizeof(struct cb_rule) == 64, "a rule is one cache line");

struct cb_packet {
	uint32_t length; /* bytes */
	uint32_t now;    /* tick */
};

/* What decides the values of new sessions. */
struct cb_sessions {
	uint64_t seed;
	uint32_t profile_count;
	uint32_t rule_count;
	struct cb_qos *profiles; /* profile_count current values */
};

/* Packets per tick of virtual time. Time is a function of the packet's number,
 * so that results do not depend on how fast they were computed. */
#define CB_PACKETS_PER_TICK 16

static inline uint32_t cb_tick(uint64_t packet_number)
{
	return (uint32_t)(packet_number / CB_PACKETS_PER_TICK);
}

/* What a packet that finds no session leaves as its output word. */
#define CB_MISS_WORD UINT64_C(0x6d697373)

/* Multiplier of the ordered sum of output words: sum = sum * this + word. */
#define CB_ORDER_PRIME UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t cb_ordered(uint64_t sum, uint64_t word)
{
	return sum * CB_ORDER_PRIME + word;
}

/* Finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection on 64 bits. */
static inline uint64_t cb_mix(uint64_t x)
{
	x ^= x >> 30;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 27;
	x *= UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* Token bucket. Tops the bucket up for the ticks since the last packet, takes
 * the packet's length if that much is there, and says whether it was. */
static inline bool cb_police(struct cb_policer *policer, struct cb_qos qos, struct cb_packet packet)
{
	uint64_t filled =
		policer->tokens + (uint64_t)qos.rate * (uint32_t)(packet.now - policer->tick);
	uint32_t tokens = filled < qos.burst ? (uint32_t)filled : qos.burst;
	bool conforms = tokens >= packet.length;

	/* A mask, not a branch: what the traffic looks like must not decide how
	 * often the branch predictor fails. */
	policer->tokens = tokens - (packet.length & (0U - (uint32_t)conforms));
	policer->tick = packet.now;
	return conforms;
}

/* Counts the packet, dropped or not. */
static inline void cb_count(struct cb_stats *stats, struct cb_packet packet)
{
	stats->bytes += packet.length;
	stats->packets += 1;
	stats->last_seen = packet.now;
}

/* The output word: what the packet is rewritten to and where it goes. Every bit
 * of the action, the rule's mark and the policer's verdict take part. */
static inline uint64_t cb_rewrite(struct cb_action action, uint32_t mark, bool conforms)
{
	uint64_t word;

#ifdef CB_TRACE
	/* Else gcc makes one load of the two neighbours before it instruments, and leaves
	 * the loads that it replaced, which nothing needs any more, to be reported. */
	__asm__("" : "+r"(action.next_hop));
#endif
	word = (uint64_t)action.next_hop << 32 | action.address;
	word ^= (uint64_t)action.port << 40 | (uint64_t)action.flags << 8;
	word += (uint64_t)mark << 16;
	return word ^ (uint64_t)conforms << 63;
}

/* Values of profile `number` before anybody changes them. */
static inline struct cb_qos cb_profile(uint64_t seed, uint32_t number)
{
	uint64_t h = cb_mix(seed ^ UINT64_C(0x716f73) ^ (uint64_t)number << 32);

	return (struct cb_qos){.rate = 1 + (uint32_t)(h & 63),
			       .burst = 2048 + (uint32_t)(h >> 8 & 0xffff)};
}

static inline uint32_t cb_rule_mark(uint64_t seed, uint32_t number)
{
	return (uint32_t)cb_mix(seed ^ UINT64_C(0x72756c65) ^ (uint64_t)number << 32);
}

/* A number below `bound`, as good as uniform, from the low 32 bits of h. */
static inline uint32_t cb_below(uint64_t h, uint32_t bound)
{
	return (uint32_t)((h & 0xffffffff) * bound >> 32);
}

/* The state of session `id` at the tick of its creation. */
static inline void cb_session_make(struct cb_session *s, const struct cb_sessions *all, uint64_t id,
				   uint32_t now)
{
	uint64_t h = cb_mix(all->seed + id * CB_ORDER_PRIME);
	uint64_t g = cb_mix(h + 1);
	uint32_t profile = cb_below(h, all->profile_count);

	s->qos = all->profiles[profile];
	s->policer = (struct cb_policer){.tokens = s->qos.burst, .tick = now};
	s->stats = (struct cb_stats){.bytes = 0, .packets = 0, .last_seen = now};
	s->action = (struct cb_action){.address = (uint32_t)g,
				       .next_hop = (uint32_t)(g >> 32),
				       .port = (uint16_t)(h >> 32),
				       .flags = (uint16_t)(h >> 48)};
	s->rule = cb_below(g, all->rule_count);
	s->cold = (struct cb_cold){
		.created = now, .subscriber = id, .profile = profile, .zone = (uint32_t)(h >> 40)};
	for (int i = 0; i < CB_TAGS; i++)
		s->cold.tags[i] = h ^ (g << (i + 1));
}

/* Digest of cold state alone, as the expiry log holds it. */
static inline uint64_t cb_cold_digest(const struct cb_cold *cold)
{
	uint64_t sum = cold->created;

	sum = cb_ordered(sum, cold->subscriber);
	sum = cb_ordered(sum, (uint64_t)cold->profile << 32 | cold->zone);
	for (int i = 0; i < CB_TAGS; i++)
		sum = cb_ordered(sum, cold->tags[i]);
	return cb_mix(sum);
}

/* Digest of the full state. `key_digest` ties it to the key it was found under. */
static inline uint64_t cb_session_digest(const struct cb_session *s, uint64_t key_digest)
{
	uint64_t sum = key_digest;

	sum = cb_ordered(sum, (uint64_t)s->qos.rate << 32 | s->qos.burst);
	sum = cb_ordered(sum, (uint64_t)s->policer.tokens << 32 | s->policer.tick);
	sum = cb_ordered(sum, s->stats.bytes);
	sum = cb_ordered(sum, (uint64_t)s->stats.packets << 32 | s->stats.last_seen);
	sum = cb_ordered(sum, (uint64_t)s->action.address << 32 | s->action.next_hop);
	sum = cb_ordered(sum, (uint64_t)s->action.port << 48 | (uint64_t)s->action.flags << 32 |
				      s->rule);
	return cb_mix(cb_ordered(sum, cb_cold_digest(&s->cold)));
}

#endif
