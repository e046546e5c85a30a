/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_TRAFFIC_H
#define CB_TRAFFIC_H

#include <stddef.h>
#include <stdint.h>

#include "capture.h"
#include "tuple.h"

/* Which session the next packet belongs to. */
enum cb_popularity {
	CB_UNIFORM,
	CB_ZIPF,    /* rank r with a probability proportional to r^-exponent */
	CB_CAMPUS,  /* proportional to a flow length drawn from a measured mixture */
	CB_CAPTURE, /* the packet order of a file */
};

struct cb_traffic_config {
	uint64_t seed;
	uint64_t sessions; /* CB_CAPTURE: the file's flows times clones */
	uint32_t key_size; /* 16 or 40 */
	enum cb_popularity popularity;
	double exponent;  /* CB_ZIPF: 0 … 4 */
	double hit_ratio; /* share of packets whose session is in the table */
	/* CB_CAPTURE: read by cb_capture_read, outlives the traffic. */
	const struct cb_capture *capture;
	uint32_t clones; /* of each flow, with addresses of their own; 1: the file as it is */
};

/* The id of a packet that belongs to no session. */
#define CB_NO_SESSION UINT64_MAX

struct cb_traffic;

/* NULL with a line in `why` on failure. */
struct cb_traffic *cb_traffic_open(const struct cb_traffic_config *config, char *why,
				   size_t why_size);
void cb_traffic_close(struct cb_traffic *traffic);

/* Bytes that cb_traffic_open will take. */
uint64_t cb_traffic_bytes(const struct cb_traffic_config *config);

/* Restarts the draws: the same number gives the same packets. */
void cb_traffic_restart(struct cb_traffic *traffic, uint64_t stream);

/* The keys of sessions ids[0 … count), key_size bytes each. */
void cb_traffic_keys(const struct cb_traffic *traffic, const uint64_t *ids, uint64_t count,
		     char *keys);

/* The next `count` packets: keys, lengths in bytes, and, unless `ids` is NULL,
 * the session of each or CB_NO_SESSION. */
void cb_traffic_draw(struct cb_traffic *traffic, uint64_t count, char *keys, uint16_t *lengths,
		     uint64_t *ids);

#endif
