/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_TUPLE_H
#define CB_TUPLE_H

#include <stdint.h>

/* A flow as read from the wire, before any table's key is made of it.
 *
 * Addresses are in network byte order; an IPv4 address fills the first four
 * bytes and leaves the rest zero. Ports are in host byte order. Unused bytes
 * are zero, so that two tuples are equal exactly if their bytes are. */
struct cb_tuple {
	uint8_t source[16];
	uint8_t destination[16];
	uint16_t source_port;
	uint16_t destination_port;
	uint8_t protocol; /* IPPROTO_TCP, IPPROTO_UDP or IPPROTO_SCTP */
	uint8_t family;   /* 4 or 6 */
	uint8_t zero[2];
};

#endif
