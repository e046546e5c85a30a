/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_SCRIPT_H
#define CB_SCRIPT_H

/* The script of the proof: lookups, erasures, creations, a profile change. */

#include <stddef.h>
#include <stdint.h>

#include "cb.h"
#include "traffic.h"

enum {
	SCRIPT_ROUNDS = 4,
	SCRIPT_LOOKUPS = 16384,       /* in each round */
	SCRIPT_ERASED_AT_MOST = 4096, /* sessions */
};

/* What the script is run on: the arm, or the reference. */
struct target {
	void (*lookup)(void *self, const struct cb_stream *stream, const uint64_t *ids);
	uint64_t (*create)(void *self, const char *keys, const uint64_t *ids, uint64_t count,
			   uint32_t now);
	uint64_t (*erase)(void *self, const char *keys, const uint64_t *ids, uint64_t count);
	void (*reprofile)(void *self, uint32_t profile, struct cb_qos qos);
	void *self;
};

struct script {
	struct cb_traffic *traffic;
	uint32_t key_size;
	char *keys;
	uint16_t *lengths;
	uint64_t *ids;
	uint64_t packets; /* so far */
};

int script_open(struct script *s, struct cb_traffic *traffic, uint32_t key_size, char *why,
		size_t why_size);
void script_close(struct script *s);

/* Runs the script on a target that holds all `sessions` sessions, and leaves the
 * same ones in it. `before`: the values of profile 0. Returns 0 if every erasure
 * found its session and every creation its room. */
int script_run(struct script *s, const struct target *target, uint64_t sessions,
	       struct cb_qos before);

#endif
