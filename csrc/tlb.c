/* SPDX-License-Identifier: BSD-3-Clause */

#include "tlb.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* ---- Intel */

enum {
	INTEL_LEAF = 0x18,
	MAX_SUBLEAVES = 64,
};

/* What a structure translates: EDX bits 4 to 0. */
enum {
	INTEL_DATA = 1,
	INTEL_UNIFIED = 3,
	INTEL_LOADS = 4,
};

static uint64_t entries(struct cb_cache_shape shape)
{
	return (uint64_t)shape.ways * shape.sets;
}

static void join(struct cb_cache_shape *level, struct cb_cache_shape more)
{
	if (level->ways != 0 && level->sets == more.sets)
		level->ways += more.ways;
	else if (entries(more) > entries(*level))
		*level = more;
}

struct cb_tlbs cb_tlbs_intel(const struct cb_cpuid *leaf, uint32_t count)
{
	/* EBX bits 0 to 3: 4K, 2M, 4M and 1G; 4M pages are of 32-bit page tables. */
	static const uint32_t page_bit[CB_TLB_PAGES] = {1u << 0, 1u << 1, 1u << 3};
	struct cb_tlbs found = {0};

	for (uint32_t i = 0; i < count; i++) {
		const uint32_t type = leaf[i].edx & 0x1f, level = leaf[i].edx >> 5 & 0x7;
		struct cb_cache_shape shape = {.ways = leaf[i].ebx >> 16, .sets = leaf[i].ecx};

		if (type != INTEL_DATA && type != INTEL_UNIFIED && type != INTEL_LOADS)
			continue;
		if (level < 1 || level > CB_TLB_LEVELS || entries(shape) == 0)
			continue;
		for (int page = 0; page < CB_TLB_PAGES; page++)
			if (leaf[i].ebx & page_bit[page])
				join(&found.level[page][level - 1], shape);
	}
	return found;
}

/* ---- AMD */

static struct cb_cache_shape of_ways(uint32_t count, uint32_t ways)
{
	if (ways == 0 || count == 0 || count % ways != 0)
		return (struct cb_cache_shape){0};
	return (struct cb_cache_shape){.ways = ways, .sets = count / ways};
}

/* First level of 4K and 2M pages: 8 bits of ways, all set for fully associative,
 * above 8 bits of entries. */
static struct cb_cache_shape amd_first(uint32_t half)
{
	const uint32_t count = half & 0xff, ways = half >> 8 & 0xff;

	return of_ways(count, ways == 0xff ? count : ways);
}

/* All others: 4 bits of a code for the ways above 12 bits of entries. Codes that
 * stand for a range of ways give the least; 0, 7 and 9 name none. */
static struct cb_cache_shape amd_coded(uint32_t half)
{
	static const uint32_t ways_of[16] = {0, 1, 2, 3, 4, 6, 8, 0, 16, 0, 32, 48, 64, 96, 128, 0};
	const uint32_t count = half & 0xfff, code = half >> 12 & 0xf;

	return of_ways(count, code == 0xf ? count : ways_of[code]);
}

/* The upper half is for data, the lower for instructions. */
static struct cb_cache_shape amd_data(uint32_t both)
{
	/* Without an upper half the second level is one for both, in the lower. */
	return amd_coded(both >> 16 != 0 ? both >> 16 : both);
}

struct cb_tlbs cb_tlbs_amd(struct cb_cpuid first, struct cb_cpuid second, struct cb_cpuid huge)
{
	return (struct cb_tlbs){
		.level = {
			[CB_TLB_4K] = {amd_first(first.ebx >> 16), amd_data(second.ebx)},
			[CB_TLB_2M] = {amd_first(first.eax >> 16), amd_data(second.eax)},
			[CB_TLB_1G] = {amd_coded(huge.eax >> 16), amd_data(huge.ebx)},
		}};
}

/* ---- This machine */

#if defined(__x86_64__)

static struct cb_cpuid ask(uint32_t leaf, uint32_t subleaf)
{
	struct cb_cpuid found = {0};

	/* Zero where there is no such leaf. */
	__get_cpuid_count(leaf, subleaf, &found.eax, &found.ebx, &found.ecx, &found.edx);
	return found;
}

static int is_vendor(const char *name)
{
	const struct cb_cpuid leaf = ask(0, 0);

	return memcmp(&leaf.ebx, name, 4) == 0 && memcmp(&leaf.edx, name + 4, 4) == 0 &&
	       memcmp(&leaf.ecx, name + 8, 4) == 0;
}

const char *cb_tlbs_host(struct cb_tlbs *out)
{
	*out = (struct cb_tlbs){0};
	if (is_vendor("GenuineIntel") && ask(0, 0).eax >= INTEL_LEAF) {
		struct cb_cpuid leaf[MAX_SUBLEAVES];
		uint32_t last = ask(INTEL_LEAF, 0).eax, count = 0;

		while (count < MAX_SUBLEAVES && count <= last) {
			leaf[count] = ask(INTEL_LEAF, count);
			count++;
		}
		*out = cb_tlbs_intel(leaf, count);
		return "CPUID leaf 0x18";
	}
	/* Hygon's cores are AMD's. */
	if (is_vendor("AuthenticAMD") || is_vendor("HygonGenuine")) {
		*out = cb_tlbs_amd(ask(0x80000005, 0), ask(0x80000006, 0), ask(0x80000019, 0));
		return "CPUID leaves 0x80000005, 6 and 19";
	}
	return NULL;
}

#else

const char *cb_tlbs_host(struct cb_tlbs *out)
{
	memset(out, 0, sizeof *out);
	return NULL;
}

#endif
