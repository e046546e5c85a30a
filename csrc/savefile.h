/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_SAVEFILE_H
#define CB_SAVEFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A walk over the packet records of a pcap or pcapng file that lies in memory.
 * Timestamps and options are stepped over, never read. */
struct cb_savefile {
	const uint8_t *bytes;
	size_t size;
	size_t offset;      /* of the record or block to be read next */
	bool blocks;        /* pcapng */
	bool big_endian;    /* of the file, or of the pcapng section */
	uint16_t minor;     /* pcap: version 2.minor */
	uint16_t link_type; /* pcap: of all records */
	const char *fault;  /* why the walk stopped before the end, or NULL */

	struct cb_interface {     /* pcapng: of this section */
		uint32_t snaplen; /* 0: not limited */
		uint16_t link_type;
	} *interfaces;
	size_t interface_count;
	size_t interface_room;
};

struct cb_record {
	const uint8_t *frame;
	size_t captured;
	uint32_t length; /* on the wire */
	uint16_t link_type;
};

/* Starts a walk. Returns -1 with one line in `why` if the bytes do not begin as
 * a capture file does. */
int cb_savefile_open(struct cb_savefile *file, const uint8_t *bytes, size_t size, char *why,
		     size_t why_size);

/* The next record, or false at the end of the file or of what can be read of it:
 * `fault` tells the two apart. */
bool cb_savefile_next(struct cb_savefile *file, struct cb_record *record);

/* Frees what the walk allocated; the bytes belong to the caller. */
void cb_savefile_close(struct cb_savefile *file);

#endif
