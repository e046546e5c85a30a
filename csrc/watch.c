/* SPDX-License-Identifier: BSD-3-Clause */

#include "watch.h"

#include <stdio.h>
#include <stdlib.h>

volatile uint64_t cb_watch_marker;

/* Not inlined, so that the tool finds it by this name. */
__attribute__((noinline, visibility("default"))) void cb_watched(cb_lookup_fn *lookup,
								 struct cb_arm *arm,
								 const struct cb_stream *stream,
								 uint32_t burst)
{
	lookup(arm, stream, burst);
	/* Keeps the call from becoming a jump, which is no return from here. */
	__asm__ volatile("");
}

static void call(struct cb_arm *arm, const struct cb_watch *watch, const struct cb_stream *stream,
		 int watched)
{
	cb_lookup_fn *lookup = arm->ops->lookup[watch->mode][watch->policy];
	uint32_t key_size = arm->ops->key_size;

	for (uint64_t i = 0; i < stream->count; i += watch->slice) {
		uint64_t left = stream->count - i;
		struct cb_stream slice = {.keys = stream->keys + i * key_size,
					  .lengths = stream->lengths + i,
					  .count = left < watch->slice ? left : watch->slice};

		if (!watched) {
			lookup(arm, &slice, watch->burst);
			continue;
		}
		cb_watch_marker = 1;
		cb_watched(lookup, arm, &slice, watch->burst);
		cb_watch_marker = 0;
	}
}

static void run(struct cb_arm *arm, struct cb_traffic *traffic, const struct cb_watch *watch,
		uint64_t lookups, int watched, char *keys, uint16_t *lengths)
{
	for (uint64_t done = 0, n; done < lookups; done += n) {
		uint64_t block = CB_WATCH_BLOCK - done % CB_WATCH_BLOCK;
		struct cb_stream stream = {.keys = keys, .lengths = lengths};

		n = watch->drawn < block ? watch->drawn : block;
		if (n > lookups - done)
			n = lookups - done;
		cb_traffic_draw(traffic, n, keys, lengths, NULL);
		stream.count = n;
		call(arm, watch, &stream, watched);
	}
}

int cb_watch_run(struct cb_arm *arm, struct cb_traffic *traffic, const struct cb_watch *watch,
		 char *why, size_t why_size)
{
	char *keys = malloc((size_t)watch->drawn * arm->ops->key_size);
	uint16_t *lengths = malloc(watch->drawn * sizeof *lengths);
	int status = 0;

	if (keys == NULL || lengths == NULL) {
		snprintf(why, why_size, "no memory for %u packets", watch->drawn);
		status = -1;
	} else {
		run(arm, traffic, watch, watch->warm_up, 0, keys, lengths);
		run(arm, traffic, watch, watch->lookups, 1, keys, lengths);
	}
	free(keys);
	free(lengths);
	return status;
}
