/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_MEMORY_H
#define CB_MEMORY_H

#include <stddef.h>
#include <stdint.h>

enum cb_pages { CB_PAGES_4K, CB_PAGES_THP, CB_PAGES_2M, CB_PAGES_1G };

/* Zeroed memory of one page size, present when cb_map returns. Guard pages on
 * both sides keep it a mapping of its own in /proc/PID/smaps (hugetlb mappings
 * are that anyway). */
struct cb_mapping {
	char *base;
	uint64_t bytes; /* asked for, rounded up to whole pages */
	void *reserved; /* with the guards */
	uint64_t reserved_bytes;
};

/* `bytes` rounded up to whole pages; transparent huge pages count as 2 MiB. */
uint64_t cb_page_round(uint64_t bytes, enum cb_pages pages);

/* Maps `bytes` bytes, on NUMA node `node` unless that is -1. Returns 0, or -1
 * with one line in `why` that names what to change. */
int cb_map(struct cb_mapping *mapping, uint64_t bytes, enum cb_pages pages, int node, char *why,
	   size_t why_size);

/* Ends this process when its parent ends. */
void cb_die_with_parent(void);

void cb_unmap(struct cb_mapping *mapping);

#endif
