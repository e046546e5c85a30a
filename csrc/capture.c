/* SPDX-License-Identifier: BSD-3-Clause */
#define _POSIX_C_SOURCE 200809L

#include "capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dissect.h"
#include "savefile.h"

_Static_assert(sizeof(struct cb_tuple) == 40, "tuples are hashed and compared as five words");

/* The flows of one capture: an open-addressing table of flow numbers, counted
 * from 1 so that 0 marks a free slot. The tuples lie in the capture. */
struct flow_table {
	uint32_t *slots;
	size_t slot_count; /* a power of two, at least twice the flows */
	size_t flow_room;
	size_t packet_room;
};

static uint64_t hash_tuple(const struct cb_tuple *tuple)
{
	uint64_t words[5];
	uint64_t hash = 0;
	size_t i;

	memcpy(words, tuple, sizeof(words));
	for (i = 0; i < 5; i++) {
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 32;
	}
	return hash;
}

/* The slot of the tuple, or the free one where it belongs. */
static uint32_t *find_slot(const struct flow_table *table, const struct cb_tuple *flows,
			   const struct cb_tuple *tuple)
{
	size_t mask = table->slot_count - 1;
	size_t at = (size_t)hash_tuple(tuple) & mask;

	while (table->slots[at] && memcmp(&flows[table->slots[at] - 1], tuple, sizeof(*tuple)) != 0)
		at = (at + 1) & mask;
	return &table->slots[at];
}

/* Makes room for one more flow. */
static bool reserve_flow(struct flow_table *table, struct cb_capture *out)
{
	size_t room = table->flow_room ? table->flow_room * 2 : 512;
	struct cb_tuple *flows;
	uint32_t *slots;
	uint32_t i;

	if (out->flow_count == UINT32_MAX)
		return false;
	if (out->flow_count < table->flow_room)
		return true;
	flows = realloc(out->flows, room * sizeof(*flows));
	if (!flows)
		return false;
	out->flows = flows;
	slots = calloc(room * 2, sizeof(*slots));
	if (!slots)
		return false;
	free(table->slots);
	table->slots = slots;
	table->slot_count = room * 2;
	table->flow_room = room;
	for (i = 0; i < out->flow_count; i++)
		*find_slot(table, flows, &flows[i]) = i + 1;
	return true;
}

/* Makes room for one more keyed packet. */
static bool reserve_packet(struct flow_table *table, struct cb_capture *out)
{
	size_t room = table->packet_room ? table->packet_room * 2 : 4096;
	uint32_t *packet_flow;
	uint16_t *packet_length;

	if (out->keyed < table->packet_room)
		return true;
	packet_flow = realloc(out->packet_flow, room * sizeof(*packet_flow));
	if (!packet_flow)
		return false;
	out->packet_flow = packet_flow;
	packet_length = realloc(out->packet_length, room * sizeof(*packet_length));
	if (!packet_length)
		return false;
	out->packet_length = packet_length;
	table->packet_room = room;
	return true;
}

static bool add_keyed(struct flow_table *table, struct cb_capture *out,
		      const struct cb_tuple *tuple, uint32_t length)
{
	uint32_t *slot;

	if (!reserve_packet(table, out) || !reserve_flow(table, out))
		return false;
	slot = find_slot(table, out->flows, tuple);
	if (!*slot) {
		out->flows[out->flow_count++] = *tuple;
		*slot = out->flow_count;
	}
	out->packet_flow[out->keyed] = *slot - 1;
	out->packet_length[out->keyed] = (uint16_t)(length < UINT16_MAX ? length : UINT16_MAX);
	out->keyed++;
	return true;
}

static bool add_record(struct flow_table *table, struct cb_capture *out,
		       const struct cb_record *record)
{
	struct cb_dissection dissection;

	cb_dissect(record->link_type, record->frame, record->captured, &dissection);
	out->packets++;
	out->wire_bytes += record->length;
	if (dissection.family == 4)
		out->ip4++;
	else if (dissection.family == 6)
		out->ip6++;
	else
		out->non_ip++;
	out->fragments += dissection.fragment;
	return !dissection.keyed || add_keyed(table, out, &dissection.tuple, record->length);
}

static int read_bytes(const uint8_t *bytes, size_t size, struct cb_capture *out, char *why,
		      size_t why_size)
{
	struct flow_table table = {0};
	struct cb_savefile file;
	struct cb_record record;
	bool stored = true;

	if (cb_savefile_open(&file, bytes, size, why, why_size) < 0)
		return -1;
	while (stored && cb_savefile_next(&file, &record))
		stored = add_record(&table, out, &record);
	out->fault = file.fault;
	out->fault_offset = file.offset;
	free(table.slots);
	cb_savefile_close(&file);
	if (!stored) {
		snprintf(why, why_size, "out of memory after %llu packets",
			 (unsigned long long)out->packets);
		return -1;
	}
	return 0;
}

/* Maps a regular file to be read from start to end. NULL with the reason in
 * `why` where that cannot be done. */
static void *map_file(const char *path, size_t *size, char *why, size_t why_size)
{
	/* O_NONBLOCK: a FIFO is refused below, not waited for. */
	int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const char *reason = NULL;
	void *mapped = MAP_FAILED;
	struct stat status;

	if (descriptor < 0 || fstat(descriptor, &status) < 0)
		reason = strerror(errno);
	else if (S_ISDIR(status.st_mode))
		reason = "is a directory";
	else if (!S_ISREG(status.st_mode))
		reason = "is not a regular file";
	else if (!status.st_size)
		reason = "is empty";
	else if ((uintmax_t)status.st_size > SIZE_MAX)
		reason = strerror(EFBIG);
	if (!reason) {
		*size = (size_t)status.st_size;
		mapped = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, descriptor, 0);
		if (mapped == MAP_FAILED)
			reason = strerror(errno);
	}
	if (descriptor >= 0)
		close(descriptor);
	if (reason) {
		snprintf(why, why_size, "%s", reason);
		return NULL;
	}
	/* Advice, which may fail without harm. */
	(void)posix_madvise(mapped, *size, POSIX_MADV_SEQUENTIAL);
	return mapped;
}

int cb_capture_read(const char *path, struct cb_capture *out, char *why, size_t why_size)
{
	size_t size;
	void *bytes;
	int result;

	memset(out, 0, sizeof(*out));
	bytes = map_file(path, &size, why, why_size);
	if (!bytes)
		return -1;
	result = read_bytes(bytes, size, out, why, why_size);
	munmap(bytes, size);
	if (result < 0)
		cb_capture_free(out);
	return result;
}

void cb_capture_free(struct cb_capture *capture)
{
	free(capture->flows);
	free(capture->packet_flow);
	free(capture->packet_length);
	memset(capture, 0, sizeof(*capture));
}
