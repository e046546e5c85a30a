/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_TLB_H
#define CB_TLB_H

/* The TLBs for data that an x86 CPU tells of in CPUID. What it does not tell stays
 * zero; nothing is assumed here. */

#include <stdint.h>

#include "cache.h"

struct cb_cpuid {
	uint32_t eax, ebx, ecx, edx;
};

enum cb_tlb_page { CB_TLB_4K, CB_TLB_2M, CB_TLB_1G, CB_TLB_PAGES };

struct cb_tlbs {
	struct cb_cache_shape level[CB_TLB_PAGES][CB_TLB_LEVELS]; /* 0 ways: none told */
};

/* Intel's deterministic address translation parameters: leaf 0x18, sub-leaf i in
 * leaf[i].
 *
 * A level may have several structures for one page size. For loads and for stores
 * apart, the one for loads is taken. Two with as many sets are one with the ways of
 * both, as the halves of the second level since Sunny Cove; of others the larger one
 * is taken. */
struct cb_tlbs cb_tlbs_intel(const struct cb_cpuid *leaf, uint32_t count);

/* AMD's leaves 0x80000005, 0x80000006 and 0x80000019. */
struct cb_tlbs cb_tlbs_amd(struct cb_cpuid first, struct cb_cpuid second, struct cb_cpuid huge);

/* Asks the CPU that this runs on. Returns the name of what told, or NULL if the
 * vendor's leaves are not there; a hypervisor may leave them empty. */
const char *cb_tlbs_host(struct cb_tlbs *out);

#endif
