/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_CLOCK_H
#define CB_CLOCK_H

#include <stdint.h>
#include <time.h>

/* A clock in ns: CLOCK_MONOTONIC, or CLOCK_THREAD_CPUTIME_ID for this thread. */
static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

#endif
