/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_VERIFY_H
#define CB_VERIFY_H

#include <stddef.h>
#include <stdint.h>

#include "arm.h"
#include "cb.h"
#include "traffic.h"

/* The proof that a layout does the work: a fixed script of lookups, hits and
 * misses, erasures, creations and a profile change, run on a filled table, whose
 * checksum is the ordered sum of all output words followed by the digest of the
 * full state of all sessions, read back through the layout. */
struct cb_proof {
	uint64_t checksum;
	uint64_t reprofile_ns;      /* CPU time of one profile change */
	uint64_t reprofile_objects; /* that it wrote */
};

/* Runs the script on an arm that cb_fill has filled with all its sessions.
 * Leaves the same sessions in it. Returns 0, or -1 with a line in `why`. */
int cb_prove(struct cb_arm *arm, struct cb_traffic *traffic, uint64_t sessions, enum cb_mode mode,
	     uint32_t policy, uint32_t burst, struct cb_proof *proof, char *why, size_t why_size);

/* The checksum that every correct layout has, in every mode: the same script on
 * values kept by session number, with no table and no layout. */
int cb_reference(struct cb_traffic *traffic, const struct cb_config *config, uint32_t key_size,
		 uint64_t *checksum, char *why, size_t why_size);

#endif
