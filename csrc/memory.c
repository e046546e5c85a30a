/* SPDX-License-Identifier: BSD-3-Clause */

#include "memory.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif

#define HUGE_2M ((uint64_t)1 << 21)
#define HUGE_1G ((uint64_t)1 << 30)

struct page_size {
	const char *name;
	uint64_t bytes;
	int map_flags;
	int advice;
	const char *remedy;
};

static const struct page_size page_sizes[] = {
	[CB_PAGES_4K] = {"4k", 4096, 0, MADV_NOHUGEPAGE, "use fewer sessions"},
	[CB_PAGES_THP] = {"thp", HUGE_2M, 0, MADV_HUGEPAGE, "use fewer sessions, or --pages 4k"},
	[CB_PAGES_2M] = {"2m", HUGE_2M, MAP_HUGETLB | 21 << MAP_HUGE_SHIFT, 0,
			 "sysctl -w vm.nr_hugepages=N gives N pages of 2 MiB"},
	[CB_PAGES_1G] = {"1g", HUGE_1G, MAP_HUGETLB | 30 << MAP_HUGE_SHIFT, 0,
			 "N pages of 1 GiB: write N to "
			 "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages, or boot with "
			 "hugepagesz=1G hugepages=N"},
};

/* Some aarch64 kernels have base pages of 16 or 64 KiB. */
static uint64_t page_bytes(enum cb_pages pages)
{
	uint64_t base = (uint64_t)sysconf(_SC_PAGESIZE);

	return page_sizes[pages].bytes > base ? page_sizes[pages].bytes : base;
}

uint64_t cb_page_round(uint64_t bytes, enum cb_pages pages)
{
	uint64_t page = page_bytes(pages);

	return (bytes + page - 1) / page * page;
}

static int fail(char *why, size_t why_size, const struct page_size *size, uint64_t bytes)
{
	snprintf(why, why_size, "no memory: %llu MiB in %s pages: %s; %s",
		 (unsigned long long)(bytes >> 20), size->name, strerror(errno), size->remedy);
	return -1;
}

/* The kernel's node mask is an array of long; 1,024 nodes are its own limit. */
static int bind_to_node(void *base, uint64_t bytes, int node)
{
	enum { MPOL_BIND_MODE = 2, NODES = 1024 };
	unsigned long mask[NODES / (8 * sizeof(unsigned long))] = {0};

	if (node < 0 || node >= NODES) {
		errno = EINVAL;
		return -1;
	}
	mask[(size_t)node / (8 * sizeof *mask)] = 1UL << ((size_t)node % (8 * sizeof *mask));
	return (int)syscall(SYS_mbind, base, bytes, MPOL_BIND_MODE, mask, NODES, 0);
}

/* Faults every page in. Huge pages are zeroed by the kernel in one go. */
static int populate(char *base, uint64_t bytes)
{
	if (madvise(base, bytes, MADV_POPULATE_WRITE) == 0)
		return 0;
	if (errno != EINVAL)
		return -1;
	for (uint64_t offset = 0; offset < bytes; offset += 4096)
		*(volatile char *)(base + offset) = 0;
	return 0;
}

int cb_map(struct cb_mapping *mapping, uint64_t bytes, enum cb_pages pages, int node, char *why,
	   size_t why_size)
{
	const struct page_size *size = &page_sizes[pages];
	uint64_t page = page_bytes(pages);
	uint64_t mapped = cb_page_round(bytes ? bytes : 1, pages);
	uint64_t reserved = size->map_flags ? mapped : mapped + 2 * page;
	char *start;

	memset(mapping, 0, sizeof *mapping);
	start = mmap(NULL, reserved, size->map_flags ? PROT_READ | PROT_WRITE : PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | size->map_flags, -1, 0);
	if (start == MAP_FAILED)
		return fail(why, why_size, size, bytes);
	mapping->reserved = start;
	mapping->reserved_bytes = reserved;
	mapping->bytes = mapped;
	mapping->base = start;
	if (!size->map_flags) {
		/* The page before the first whole one, and what is left behind the
		 * last, are the guards. */
		mapping->base = (char *)(((uintptr_t)start + page) / page * page);
		if (mprotect(mapping->base, mapped, PROT_READ | PROT_WRITE) != 0 ||
		    (madvise(mapping->base, mapped, size->advice) != 0 && pages != CB_PAGES_4K)) {
			fail(why, why_size, size, bytes);
			cb_unmap(mapping);
			return -1;
		}
	}
	if (node >= 0 && bind_to_node(mapping->base, mapped, node) != 0) {
		snprintf(why, why_size, "cannot bind memory to NUMA node %d: %s; see numactl -H",
			 node, strerror(errno));
		cb_unmap(mapping);
		return -1;
	}
	if (populate(mapping->base, mapped) != 0) {
		fail(why, why_size, size, bytes);
		cb_unmap(mapping);
		return -1;
	}
	return 0;
}

void cb_die_with_parent(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

void cb_unmap(struct cb_mapping *mapping)
{
	if (mapping->reserved != NULL)
		munmap(mapping->reserved, mapping->reserved_bytes);
	memset(mapping, 0, sizeof *mapping);
}
