/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CB_POPULARITY_H
#define CB_POPULARITY_H

#include <stdint.h>

/* Random numbers: splitmix64 over a counter (Steele, Lea, Flood 2014). */
struct cb_random {
	uint64_t state;
};

uint64_t cb_random_word(struct cb_random *random);
double cb_random_unit(struct cb_random *random); /* in [0, 1) */

/* Zipf ranks by rejection-inversion (Hörmann, Derflinger, ACM TOMACS 6, 1996):
 * constant time and memory for any number of ranks. */
struct cb_zipf {
	double exponent;
	double n;
	double low;   /* H(1/2) as the paper's shifted integral */
	double range; /* H(3/2) - 1 down to H(n + 1/2) */
	double accept;
};

struct cb_zipf cb_zipf(uint64_t n, double exponent);
uint64_t cb_zipf_rank(const struct cb_zipf *zipf, struct cb_random *random); /* 1 … n */

/* Weighted draws in constant time by the alias method (Walker 1977; Vose 1991). */
struct cb_alias {
	uint64_t n;
	uint32_t *other;
	uint32_t *keep; /* probability of staying, in 2^-32 */
};

/* Fills `alias` from n positive weights, which it uses up. -1: no memory. */
int cb_alias_open(struct cb_alias *alias, double *weights, uint64_t n);
void cb_alias_close(struct cb_alias *alias);
uint64_t cb_alias_draw(const struct cb_alias *alias, struct cb_random *random);

/* A flow length in packets, at least 1, from the mixture that Jurkiewicz, Rzym
 * and Borylo fitted to 4.03 G flows of a campus network (Computer
 * Communications 167, 2021, arXiv 1809.03486). */
double cb_campus_length(struct cb_random *random);

#endif
