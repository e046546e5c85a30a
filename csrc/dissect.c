/* SPDX-License-Identifier: BSD-3-Clause */
#include "dissect.h"

#include <string.h>

enum link_type {
	LINK_NULL = 0,
	LINK_ETHERNET = 1,
	LINK_RAW_BSD = 12, /* raw IP under the numbers that systems gave it first */
	LINK_RAW_OPENBSD = 14,
	LINK_RAW = 101,
	LINK_LOOP = 108,
	LINK_SLL = 113,
	LINK_IPV4 = 228,
	LINK_IPV6 = 229,
	LINK_SLL2 = 276,
};

enum ethertype {
	ETHERTYPE_IPV4 = 0x0800,
	ETHERTYPE_VLAN = 0x8100,
	ETHERTYPE_IPV6 = 0x86dd,
	ETHERTYPE_MPLS = 0x8847,
	ETHERTYPE_MPLS_MULTICAST = 0x8848,
	ETHERTYPE_PPPOE_SESSION = 0x8864,
	ETHERTYPE_QINQ = 0x88a8,
	ETHERTYPE_QINQ_OLD = 0x9100,
};

enum protocol {
	PROTOCOL_HOP_BY_HOP = 0,
	PROTOCOL_TCP = 6,
	PROTOCOL_UDP = 17,
	PROTOCOL_ROUTING = 43,
	PROTOCOL_FRAGMENT = 44,
	PROTOCOL_AH = 51,
	PROTOCOL_DESTINATION = 60,
	PROTOCOL_SCTP = 132,
};

/* The bytes not yet taken. Every read goes through take(), the one place where
 * bounds are checked. */
struct cursor {
	const uint8_t *at;
	size_t left;
};

/* The next `count` bytes, or NULL where fewer are left. */
static const uint8_t *take(struct cursor *cursor, size_t count)
{
	const uint8_t *bytes = cursor->at;

	if (count > cursor->left)
		return NULL;
	cursor->at += count;
	cursor->left -= count;
	return bytes;
}

/* Drops what lies behind a payload of the given length: padding, checksums. */
static void limit(struct cursor *cursor, size_t length)
{
	if (length < cursor->left)
		cursor->left = length;
}

static uint16_t get16(const uint8_t *bytes)
{
	return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

/* A packet whose lower layer says no more than that it is IP. */
static uint8_t family_by_version(const struct cursor *cursor)
{
	unsigned version = cursor->left ? cursor->at[0] >> 4 : 0;

	return version == 4 || version == 6 ? (uint8_t)version : 0;
}

static uint8_t family_behind_pppoe(struct cursor *cursor)
{
	const uint8_t *header = take(cursor, 6);
	const uint8_t *protocol;
	unsigned number;

	if (!header)
		return 0;
	limit(cursor, get16(header + 4));
	protocol = take(cursor, 1);
	if (!protocol)
		return 0;
	number = protocol[0];
	/* PPP numbers end in an odd byte; one that is odd already is a number
	 * compressed to that byte. */
	if (!(number & 1)) {
		protocol = take(cursor, 1);
		if (!protocol)
			return 0;
		number = number << 8 | protocol[0];
	}
	return number == 0x0021 ? 4 : number == 0x0057 ? 6 : 0;
}

static uint8_t family_behind_mpls(struct cursor *cursor)
{
	const uint8_t *label;

	do {
		label = take(cursor, 4);
		if (!label)
			return 0;
	} while (!(label[2] & 1)); /* bottom of stack */
	return family_by_version(cursor);
}

static uint8_t family_by_ethertype(struct cursor *cursor, uint16_t ethertype)
{
	const uint8_t *tag;

	for (;;) {
		switch (ethertype) {
		case ETHERTYPE_IPV4:
			return 4;
		case ETHERTYPE_IPV6:
			return 6;
		case ETHERTYPE_VLAN:
		case ETHERTYPE_QINQ:
		case ETHERTYPE_QINQ_OLD:
			tag = take(cursor, 4);
			if (!tag)
				return 0;
			ethertype = get16(tag + 2);
			break;
		case ETHERTYPE_PPPOE_SESSION:
			return family_behind_pppoe(cursor);
		case ETHERTYPE_MPLS:
		case ETHERTYPE_MPLS_MULTICAST:
			return family_behind_mpls(cursor);
		default:
			return 0;
		}
	}
}

/* The address family of a BSD loopback header is in the byte order of the host
 * that wrote it, and each system has its own number for IPv6. */
static uint8_t family_by_loopback(const uint8_t *header)
{
	unsigned high = get16(header);
	unsigned low = get16(header + 2);
	unsigned number;

	if (!high)
		number = low;
	else if (!low && !(high & 0xff))
		number = high >> 8;
	else
		return 0;
	switch (number) {
	case 2:
		return 4;
	case 10: /* Linux */
	case 24: /* NetBSD, OpenBSD */
	case 28: /* FreeBSD */
	case 30: /* macOS */
		return 6;
	default:
		return 0;
	}
}

/* A link header of fixed size that holds an ethertype somewhere. */
static uint8_t family_behind_link(struct cursor *cursor, size_t size, size_t ethertype_at)
{
	const uint8_t *header = take(cursor, size);

	return header ? family_by_ethertype(cursor, get16(header + ethertype_at)) : 0;
}

static uint8_t reach_ip(struct cursor *cursor, uint16_t link_type)
{
	const uint8_t *header;

	switch (link_type) {
	case LINK_ETHERNET:
		return family_behind_link(cursor, 14, 12);
	case LINK_SLL:
		return family_behind_link(cursor, 16, 14);
	case LINK_SLL2:
		return family_behind_link(cursor, 20, 0);
	case LINK_NULL:
	case LINK_LOOP:
		header = take(cursor, 4);
		return header ? family_by_loopback(header) : 0;
	case LINK_RAW:
	case LINK_RAW_BSD:
	case LINK_RAW_OPENBSD:
		return family_by_version(cursor);
	case LINK_IPV4:
		return 4;
	case LINK_IPV6:
		return 6;
	default:
		return 0;
	}
}

/* The two IP headers: each leaves the cursor at the payload and returns its
 * protocol, or -1 where there is none to go on with. */
static int open_ipv4(struct cursor *cursor, struct cb_dissection *out)
{
	const uint8_t *header = take(cursor, 20);
	size_t header_length, total_length;

	if (!header || header[0] >> 4 != 4)
		return -1;
	header_length = (size_t)(header[0] & 0xf) * 4;
	if (header_length < 20 || !take(cursor, header_length - 20))
		return -1;
	total_length = get16(header + 2);
	/* Captured before segmentation offload filled it in: all is payload. */
	if (total_length) {
		if (total_length < header_length)
			return -1;
		limit(cursor, total_length - header_length);
	}
	out->fragment = (get16(header + 6) & 0x1fff) != 0;
	memcpy(out->tuple.source, header + 12, 4);
	memcpy(out->tuple.destination, header + 16, 4);
	return header[9];
}

static int open_ipv6(struct cursor *cursor, struct cb_dissection *out)
{
	const uint8_t *header = take(cursor, 40);
	size_t payload_length;

	if (!header || header[0] >> 4 != 6)
		return -1;
	payload_length = get16(header + 4);
	/* Zero stands for a jumbogram, or for segmentation offload. */
	if (payload_length)
		limit(cursor, payload_length);
	memcpy(out->tuple.source, header + 8, 16);
	memcpy(out->tuple.destination, header + 24, 16);
	return header[6];
}

/* Steps over AH, and in IPv6 over the extension headers; what comes behind, or
 * -1 where a header is cut. */
static int skip_extensions(struct cursor *cursor, int protocol, struct cb_dissection *out)
{
	const uint8_t *header;
	size_t length;

	while (!out->fragment) {
		/* In IPv4 these numbers are protocols like any other. */
		if (out->family == 4 && protocol != PROTOCOL_AH)
			return protocol;
		switch (protocol) {
		case PROTOCOL_HOP_BY_HOP:
		case PROTOCOL_DESTINATION:
		case PROTOCOL_ROUTING:
		case PROTOCOL_FRAGMENT:
		case PROTOCOL_AH:
			break;
		default:
			return protocol;
		}
		header = take(cursor, 8);
		if (!header)
			return -1;
		if (protocol == PROTOCOL_FRAGMENT) {
			length = 8;
			out->fragment = (get16(header + 2) & 0xfff8) != 0;
		} else if (protocol == PROTOCOL_AH) {
			length = ((size_t)header[1] + 2) * 4;
		} else {
			length = ((size_t)header[1] + 1) * 8;
		}
		if (length < 8 || !take(cursor, length - 8))
			return -1;
		protocol = header[0];
	}
	return protocol;
}

void cb_dissect(uint16_t link_type, const uint8_t *frame, size_t length, struct cb_dissection *out)
{
	struct cursor cursor = {frame, length};
	const uint8_t *ports;
	int protocol;

	memset(out, 0, sizeof(*out));
	out->family = reach_ip(&cursor, link_type);
	if (!out->family)
		return;
	protocol = out->family == 4 ? open_ipv4(&cursor, out) : open_ipv6(&cursor, out);
	protocol = skip_extensions(&cursor, protocol, out);
	if (out->fragment)
		return;
	if (protocol != PROTOCOL_TCP && protocol != PROTOCOL_UDP && protocol != PROTOCOL_SCTP)
		return;
	ports = take(&cursor, 4);
	if (!ports)
		return;
	out->tuple.source_port = get16(ports);
	out->tuple.destination_port = get16(ports + 2);
	out->tuple.protocol = (uint8_t)protocol;
	out->tuple.family = out->family;
	out->keyed = true;
}
