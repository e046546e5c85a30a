/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_CAPTURE_H
#define CB_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

#include "tuple.h"

/* What a capture file holds: its flows and the order of their packets.
 *
 * The key of a packet is the outermost IP pair, the protocol (TCP, UDP, SCTP)
 * and the ports, found behind VLAN tags, PPPoE, MPLS, IPv6 extension headers
 * and AH. A non-first fragment, another protocol, or fewer than the four port
 * bytes give no key. Flows are one-way and numbered by first appearance. */
struct cb_capture {
	uint64_t packets;      /* complete records */
	uint64_t ip4;          /* frames that reach IPv4, good header or not */
	uint64_t ip6;          /* the same for IPv6 */
	uint64_t non_ip;       /* all other frames */
	uint64_t fragments;    /* non-first fragments */
	uint64_t keyed;        /* packets with a key */
	uint64_t wire_bytes;   /* sum of the records' original lengths */
	uint64_t fault_offset; /* byte in the file where reading stopped */
	const char *fault;     /* why it stopped before the end, or NULL */

	uint32_t flow_count;
	struct cb_tuple *flows;  /* flow_count */
	uint32_t *packet_flow;   /* keyed: flow of each keyed packet, in file order */
	uint16_t *packet_length; /* keyed: length on the wire in bytes, at most 65535 */
};

/* Reads a pcap or pcapng file. Returns 0, also for a file with a fault after
 * its start: the packets before it are in `out` and `fault` says what it is.
 * Returns -1 if nothing can be read, with one line (no newline, no file name)
 * in `why`. Nothing is allocated on the word of a length field. */
int cb_capture_read(const char *path, struct cb_capture *out, char *why, size_t why_size);

/* Frees what cb_capture_read allocated; `capture` itself belongs to the caller. */
void cb_capture_free(struct cb_capture *capture);

#endif
