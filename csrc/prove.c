/* SPDX-License-Identifier: BSD-3-Clause */

#include <stdio.h>

#include "clock.h"
#include "script.h"
#include "verify.h"

struct arm_target {
	struct cb_arm *arm;
	cb_lookup_fn *lookup;
	uint32_t burst;
	struct cb_proof *proof;
};

static void arm_lookup(void *self, const struct cb_stream *stream, const uint64_t *ids)
{
	struct arm_target *t = self;

	(void)ids;
	t->lookup(t->arm, stream, t->burst);
}

static uint64_t arm_create(void *self, const char *keys, const uint64_t *ids, uint64_t count,
			   uint32_t now)
{
	struct arm_target *t = self;

	return t->arm->ops->create(t->arm, keys, ids, count, now);
}

static uint64_t arm_erase(void *self, const char *keys, const uint64_t *ids, uint64_t count)
{
	struct arm_target *t = self;

	(void)ids;
	return t->arm->ops->erase(t->arm, keys, count);
}

static void arm_reprofile(void *self, uint32_t profile, struct cb_qos qos)
{
	struct arm_target *t = self;
	uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	t->proof->reprofile_objects = cb_arm_reprofile(t->arm, profile, qos);
	t->proof->reprofile_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
}

int cb_prove(struct cb_arm *arm, struct cb_traffic *traffic, uint64_t sessions, enum cb_mode mode,
	     uint32_t policy, uint32_t burst, struct cb_proof *proof, char *why, size_t why_size)
{
	struct arm_target self = {.arm = arm,
				  .lookup = arm->ops->lookup[mode][policy],
				  .burst = burst,
				  .proof = proof};
	struct target target = {arm_lookup, arm_create, arm_erase, arm_reprofile, &self};
	struct script script;
	int status = script_open(&script, traffic, arm->ops->key_size, why, why_size);

	if (status == 0) {
		arm->packets = 0;
		arm->checksum = 0;
		status = script_run(&script, &target, sessions, arm->sessions.profiles[0]);
		proof->checksum = cb_ordered(arm->checksum, arm->ops->digest(arm));
		if (status != 0)
			snprintf(why, why_size,
				 "an erasure or a creation failed on a table with room");
	}
	script_close(&script);
	return status;
}
