/* SPDX-License-Identifier: BSD-3-Clause */
#include "savefile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	PCAP_HEADER = 24,
	PCAP_RECORD_HEADER = 16,
	/* The most that tcpdump and Wireshark accept in one packet: a length
	 * above it is damage, and what it points over is not a packet. */
	MAX_CAPTURED = 262144,
};

enum {
	BLOCK_FRAME = 12, /* type and length in front, length again behind */
	BLOCK_SECTION = 0x0a0d0d0a,
	BLOCK_INTERFACE = 1,
	BLOCK_PACKET_OLD = 2,
	BLOCK_PACKET_SIMPLE = 3,
	BLOCK_PACKET = 6,
	SECTION_BODY = 16,
	INTERFACE_BODY = 8,
	PACKET_BODY = 20,
	PACKET_SIMPLE_BODY = 4,
};

static const uint8_t pcapng_magic[4] = {0x0a, 0x0d, 0x0d, 0x0a};

/* The body of a block, without its frame. */
struct block {
	uint32_t type;
	const uint8_t *body;
	size_t size;
};

static uint16_t get16(const struct cb_savefile *file, const uint8_t *at)
{
	return (uint16_t)(file->big_endian ? at[0] << 8 | at[1] : at[1] << 8 | at[0]);
}

static uint32_t get32(const struct cb_savefile *file, const uint8_t *at)
{
	uint32_t first = get16(file, at);
	uint32_t second = get16(file, at + 2);

	return file->big_endian ? first << 16 | second : second << 16 | first;
}

static bool stop(struct cb_savefile *file, const char *fault)
{
	file->fault = fault;
	return false;
}

/* The byte order in which the four bytes read as `magic`; false if in none. */
static bool order_of(struct cb_savefile *file, const uint8_t *at, uint32_t magic)
{
	file->big_endian = false;
	if (get32(file, at) == magic)
		return true;
	file->big_endian = true;
	return get32(file, at) == magic;
}

static int open_pcap(struct cb_savefile *file, char *why, size_t why_size)
{
	unsigned major;

	if (file->size < PCAP_HEADER) {
		snprintf(why, why_size, "ends inside the pcap header: %zu of %d bytes", file->size,
			 PCAP_HEADER);
		return -1;
	}
	major = get16(file, file->bytes + 4);
	file->minor = get16(file, file->bytes + 6);
	if (major != 2 || file->minor > 4) {
		snprintf(why, why_size, "pcap version %u.%u is not supported (2.0 to 2.4 are)",
			 major, file->minor);
		return -1;
	}
	/* The upper half says how long the frame check sequence is. */
	file->link_type = (uint16_t)(get32(file, file->bytes + 20) & 0xffff);
	file->offset = PCAP_HEADER;
	return 0;
}

static bool next_in_pcap(struct cb_savefile *file, struct cb_record *record)
{
	const uint8_t *header = file->bytes + file->offset;
	size_t left = file->size - file->offset;
	uint32_t captured, length;

	if (!left)
		return false;
	if (left < PCAP_RECORD_HEADER)
		return stop(file, "the file ends inside a record header");
	left -= PCAP_RECORD_HEADER;
	captured = get32(file, header + 8);
	length = get32(file, header + 12);
	/* The two lengths changed places in version 2.3, where some programs
	 * wrote the new number and the old order. */
	if (file->minor < 3 || (file->minor == 3 && captured > length)) {
		uint32_t swap = captured;

		captured = length;
		length = swap;
	}
	if (captured > MAX_CAPTURED)
		return stop(file, "a record claims more than 262144 bytes");
	if (captured > left)
		return stop(file, "the file ends inside a record");
	record->frame = header + PCAP_RECORD_HEADER;
	record->captured = captured;
	record->length = length;
	record->link_type = file->link_type;
	file->offset += PCAP_RECORD_HEADER + captured;
	return true;
}

/* Finds the bounds of the block at the offset, and the byte order too where a
 * section begins. NULL, or what is wrong with the block. */
static const char *read_block(struct cb_savefile *file, struct block *block)
{
	const uint8_t *at = file->bytes + file->offset;
	size_t left = file->size - file->offset;
	uint32_t length;

	if (left < BLOCK_FRAME)
		return "the file ends inside a block";
	/* The length of a section header can be read only when the byte order
	 * is known, which stands behind it. */
	if (!memcmp(at, pcapng_magic, 4) && !order_of(file, at + 8, 0x1a2b3c4d))
		return "a section header has no byte-order magic";
	block->type = get32(file, at);
	length = get32(file, at + 4);
	if (length < BLOCK_FRAME || length % 4)
		return "a block has an impossible length";
	if (length > left)
		return "the file ends inside a block";
	if (get32(file, at + length - 4) != length)
		return "the two lengths of a block differ";
	block->body = at + 8;
	block->size = length - BLOCK_FRAME;
	return NULL;
}

static const char *begin_section(struct cb_savefile *file, const struct block *block)
{
	if (block->size < SECTION_BODY)
		return "a section header is too short";
	if (get16(file, block->body + 4) != 1)
		return "a section has a pcapng version that is not supported";
	file->interface_count = 0;
	return NULL;
}

static const char *add_interface(struct cb_savefile *file, const struct block *block)
{
	struct cb_interface *interface;

	if (block->size < INTERFACE_BODY)
		return "an interface block is too short";
	if (file->interface_count == file->interface_room) {
		size_t room = file->interface_room ? file->interface_room * 2 : 8;

		interface = realloc(file->interfaces, room * sizeof(*interface));
		if (!interface)
			return "out of memory for another interface";
		file->interfaces = interface;
		file->interface_room = room;
	}
	interface = &file->interfaces[file->interface_count++];
	interface->link_type = get16(file, block->body);
	interface->snaplen = get32(file, block->body + 4);
	return NULL;
}

/* Reads a packet block of any of the three kinds; NULL, or what is wrong. */
static const char *read_packet(const struct cb_savefile *file, const struct block *block,
			       struct cb_record *record)
{
	bool simple = block->type == BLOCK_PACKET_SIMPLE;
	size_t header = simple ? PACKET_SIMPLE_BODY : PACKET_BODY;
	const struct cb_interface *interface;
	uint32_t number = 0;

	if (block->size < header)
		return "a packet block is too short";
	if (block->type == BLOCK_PACKET)
		number = get32(file, block->body);
	else if (block->type == BLOCK_PACKET_OLD)
		number = get16(file, block->body);
	if (number >= file->interface_count)
		return "a packet names an interface that is not described";
	interface = &file->interfaces[number];

	if (simple) {
		record->length = get32(file, block->body);
		record->captured = record->length;
		if (interface->snaplen && record->captured > interface->snaplen)
			record->captured = interface->snaplen;
	} else {
		record->captured = get32(file, block->body + 12);
		record->length = get32(file, block->body + 16);
	}
	if (record->captured > block->size - header)
		return "a packet is longer than its block";
	record->frame = block->body + header;
	record->link_type = interface->link_type;
	return NULL;
}

static bool next_in_pcapng(struct cb_savefile *file, struct cb_record *record)
{
	while (file->offset < file->size) {
		struct block block;
		const char *fault = read_block(file, &block);
		bool packet = false;

		if (fault)
			return stop(file, fault);
		switch (block.type) {
		case BLOCK_SECTION:
			fault = begin_section(file, &block);
			break;
		case BLOCK_INTERFACE:
			fault = add_interface(file, &block);
			break;
		case BLOCK_PACKET:
		case BLOCK_PACKET_OLD:
		case BLOCK_PACKET_SIMPLE:
			fault = read_packet(file, &block, record);
			packet = true;
			break;
		default: /* statistics, names, secrets, custom blocks */
			break;
		}
		if (fault)
			return stop(file, fault);
		file->offset += BLOCK_FRAME + block.size;
		if (packet)
			return true;
	}
	return false;
}

static int open_pcapng(struct cb_savefile *file, char *why, size_t why_size)
{
	struct block block;
	const char *fault = read_block(file, &block);

	if (!fault)
		fault = begin_section(file, &block);
	if (fault) {
		snprintf(why, why_size, "unreadable as pcapng: %s", fault);
		return -1;
	}
	return 0;
}

/* Formats that people take for a capture, by the bytes they begin with. */
static const struct lookalike {
	uint8_t magic[4];
	uint8_t length;
	const char *advice;
} lookalikes[] = {
	{{0x1f, 0x8b}, 2, "compressed with gzip: unpack it first"},
	{{0x28, 0xb5, 0x2f, 0xfd}, 4, "compressed with zstd: unpack it first"},
	{{0xfd, '7', 'z', 'X'}, 4, "compressed with xz: unpack it first"},
	{{0x04, 0x22, 0x4d, 0x18}, 4, "compressed with lz4: unpack it first"},
	{{'s', 'n', 'o', 'o'}, 4, "a snoop file: convert it to pcap first"},
};

static void explain_magic(const uint8_t *bytes, char *why, size_t why_size)
{
	size_t i;

	for (i = 0; i < sizeof(lookalikes) / sizeof(lookalikes[0]); i++) {
		if (!memcmp(bytes, lookalikes[i].magic, lookalikes[i].length)) {
			snprintf(why, why_size, "%s", lookalikes[i].advice);
			return;
		}
	}
	snprintf(why, why_size, "neither pcap nor pcapng: begins with %02x %02x %02x %02x",
		 bytes[0], bytes[1], bytes[2], bytes[3]);
}

int cb_savefile_open(struct cb_savefile *file, const uint8_t *bytes, size_t size, char *why,
		     size_t why_size)
{
	memset(file, 0, sizeof(*file));
	file->bytes = bytes;
	file->size = size;
	if (size < 4) {
		snprintf(why, why_size, "too short for a capture: %zu bytes", size);
		return -1;
	}
	file->blocks = !memcmp(bytes, pcapng_magic, 4);
	if (file->blocks)
		return open_pcapng(file, why, why_size);
	/* Microsecond and nanosecond timestamps. */
	if (order_of(file, bytes, 0xa1b2c3d4) || order_of(file, bytes, 0xa1b23c4d))
		return open_pcap(file, why, why_size);
	explain_magic(bytes, why, why_size);
	return -1;
}

bool cb_savefile_next(struct cb_savefile *file, struct cb_record *record)
{
	return file->blocks ? next_in_pcapng(file, record) : next_in_pcap(file, record);
}

void cb_savefile_close(struct cb_savefile *file)
{
	free(file->interfaces);
	file->interfaces = NULL;
	file->interface_count = 0;
	file->interface_room = 0;
}
