/* SPDX-License-Identifier: BSD-3-Clause */

#include "watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

/* Where packets are read to, some at a time: keys, then lengths. */
struct packets {
	FILE *store;
	char *bytes;
	size_t key_size;
};

static size_t bytes_of(const struct packets *packets, uint64_t count)
{
	return count * (packets->key_size + sizeof(uint16_t));
}

static struct cb_stream stream_of(const struct packets *packets, uint64_t count)
{
	return (struct cb_stream){
		.keys = packets->bytes,
		.lengths = (uint16_t *)(void *)(packets->bytes + count * packets->key_size),
		.count = count};
}

/* How many packets are drawn, and read, together. */
static uint64_t next_packets(const struct cb_watch *watch, uint64_t done, uint64_t lookups)
{
	uint64_t block = CB_WATCH_BLOCK - done % CB_WATCH_BLOCK;
	uint64_t most = watch->read < block ? watch->read : block;

	return most < lookups - done ? most : lookups - done;
}

static int store_packets(struct cb_traffic *traffic, const struct cb_watch *watch, uint64_t lookups,
			 const struct packets *packets)
{
	for (uint64_t done = 0, n; done < lookups; done += n) {
		n = next_packets(watch, done, lookups);
		cb_traffic_draw(traffic, n, packets->bytes,
				(uint16_t *)(void *)(packets->bytes + n * packets->key_size), NULL);
		if (fwrite(packets->bytes, bytes_of(packets, n), 1, packets->store) != 1)
			return -1;
	}
	return 0;
}

static int read_packets(const struct packets *packets, uint64_t count)
{
	size_t wanted = bytes_of(packets, count), got = 0;

	while (got < wanted) {
		ssize_t n = read(fileno(packets->store), packets->bytes + got, wanted - got);

		if (n == 0 || (n < 0 && errno != EINTR))
			return -1;
		got += n < 0 ? 0 : (size_t)n;
	}
	return 0;
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

static int run(struct cb_arm *arm, const struct cb_watch *watch, uint64_t lookups, int watched,
	       const struct packets *packets)
{
	for (uint64_t done = 0, n; done < lookups; done += n) {
		struct cb_stream stream;

		n = next_packets(watch, done, lookups);
		if (read_packets(packets, n) != 0)
			return -1;
		stream = stream_of(packets, n);
		call(arm, watch, &stream, watched);
	}
	return 0;
}

int cb_watch_run(struct cb_arm *arm, struct cb_traffic *traffic, const struct cb_watch *watch,
		 char *why, size_t why_size)
{
	struct packets packets = {.store = tmpfile(), .key_size = arm->ops->key_size};
	int status = -1;

	packets.bytes = malloc(bytes_of(&packets, watch->read));
	if (packets.store == NULL || packets.bytes == NULL ||
	    store_packets(traffic, watch, watch->warm_up, &packets) != 0 ||
	    store_packets(traffic, watch, watch->lookups, &packets) != 0 ||
	    fflush(packets.store) != 0 || lseek(fileno(packets.store), 0, SEEK_SET) != 0)
		snprintf(why, why_size, "no room in /tmp for the packets of %llu lookups",
			 (unsigned long long)(watch->warm_up + watch->lookups));
	else if (run(arm, watch, watch->warm_up, 0, &packets) != 0 ||
		 run(arm, watch, watch->lookups, 1, &packets) != 0)
		snprintf(why, why_size, "the file of packets in /tmp cannot be read");
	else
		status = 0;
	free(packets.bytes);
	if (packets.store != NULL)
		fclose(packets.store);
	return status;
}
