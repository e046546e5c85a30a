/* SPDX-License-Identifier: BSD-3-Clause */

#include "surround.h"

/* More than the lookups of the longest burst and all frames take. */
enum { STACK_BYTES = 1 << 15 };

struct cb_surroundings cb_surround(const struct cb_arm *arm, const struct cb_stream *stream,
				   const void *frame, uint64_t canonical)
{
	struct cb_surroundings s = {{
		{(uint64_t)(uintptr_t)stream->keys, stream->count * arm->ops->key_size, 0},
		{(uint64_t)(uintptr_t)stream->lengths, stream->count * sizeof *stream->lengths, 0},
		{(uint64_t)(uintptr_t)arm, sizeof *arm, 0},
		{(uint64_t)(uintptr_t)frame - STACK_BYTES, STACK_BYTES, 0},
	}};

	for (int i = 0; i < CB_SURROUNDINGS; i++) {
		s.part[i].canonical = canonical;
		canonical += (s.part[i].bytes + CB_CACHE_LINE - 1) / CB_CACHE_LINE * CB_CACHE_LINE;
	}
	return s;
}

uint64_t cb_surround_find(const struct cb_surroundings *s, uint64_t address)
{
	for (int i = 0; i < CB_SURROUNDINGS; i++)
		if (address >= s->part[i].start && address - s->part[i].start < s->part[i].bytes)
			return s->part[i].canonical + (address - s->part[i].start);
	return 0;
}
