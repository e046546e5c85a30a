/* SPDX-License-Identifier: BSD-3-Clause */

#include "popularity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

#define CB_PI 3.14159265358979323846

uint64_t cb_random_word(struct cb_random *random)
{
	random->state += CB_ORDER_PRIME;
	return cb_mix(random->state);
}

double cb_random_unit(struct cb_random *random)
{
	return (double)(cb_random_word(random) >> 11) * 0x1p-53;
}

/* expm1(x) / x and log1p(x) / x, continuous at 0. */
static double expm1_ratio(double x)
{
	return fabs(x) > 1e-8 ? expm1(x) / x : 1 + x / 2;
}

static double log1p_ratio(double x)
{
	return fabs(x) > 1e-8 ? log1p(x) / x : 1 - x / 2;
}

/* Integral of x^-s from 1, and its inverse; s = 1 is the limit of both. */
static double zipf_integral(double s, double x)
{
	double l = log(x);

	return expm1_ratio((1 - s) * l) * l;
}

static double zipf_inverse(double s, double h)
{
	double t = h * (1 - s);

	if (t < -1)
		t = -1; /* rounding at the end of the range */
	return exp(log1p_ratio(t) * h);
}

struct cb_zipf cb_zipf(uint64_t n, double exponent)
{
	struct cb_zipf z = {.exponent = exponent, .n = (double)n};

	z.low = zipf_integral(exponent, 1.5) - 1;
	z.range = zipf_integral(exponent, z.n + 0.5);
	z.accept = 2 - zipf_inverse(exponent, zipf_integral(exponent, 2.5) - pow(2, -exponent));
	return z;
}

uint64_t cb_zipf_rank(const struct cb_zipf *z, struct cb_random *random)
{
	for (;;) {
		double u = z->range + cb_random_unit(random) * (z->low - z->range);
		double x = zipf_inverse(z->exponent, u);
		double k = floor(x + 0.5);

		if (k < 1)
			k = 1;
		else if (k > z->n)
			k = z->n;
		if (k - x <= z->accept ||
		    u >= zipf_integral(z->exponent, k + 0.5) - pow(k, -z->exponent))
			return (uint64_t)k;
	}
}

int cb_alias_open(struct cb_alias *alias, double *weights, uint64_t n)
{
	/* Columns that are too small grow from the front of the stack, those
	 * that are too large from its back. */
	uint32_t *stack = malloc(n * sizeof *stack);
	uint64_t small = 0, large = n;
	double sum = 0;

	alias->n = n;
	alias->other = malloc(n * sizeof *alias->other);
	alias->keep = malloc(n * sizeof *alias->keep);
	if (stack == NULL || alias->other == NULL || alias->keep == NULL) {
		free(stack);
		cb_alias_close(alias);
		return -1;
	}
	for (uint64_t i = 0; i < n; i++)
		sum += weights[i];
	for (uint64_t i = 0; i < n; i++) {
		weights[i] *= (double)n / sum;
		stack[weights[i] < 1 ? small++ : --large] = (uint32_t)i;
		alias->other[i] = (uint32_t)i;
		alias->keep[i] = UINT32_MAX;
	}
	while (small > 0 && large < n) {
		uint32_t s = stack[--small];
		uint32_t l = stack[large];

		alias->keep[s] = (uint32_t)(weights[s] * 0x1p32);
		alias->other[s] = l;
		weights[l] -= 1 - weights[s];
		if (weights[l] < 1) {
			large++;
			stack[small++] = l;
		}
	}
	free(stack);
	return 0;
}

void cb_alias_close(struct cb_alias *alias)
{
	free(alias->other);
	free(alias->keep);
	memset(alias, 0, sizeof *alias);
}

uint64_t cb_alias_draw(const struct cb_alias *alias, struct cb_random *random)
{
	uint64_t column = (uint64_t)(cb_random_unit(random) * (double)alias->n);

	return (uint32_t)cb_random_word(random) < alias->keep[column] ? column
								      : alias->other[column];
}

/* Weights, and the parameters: uniform on [0, high], or lognormal. */
static const struct {
	double weight, high;
} campus_uniform[] = {{.305, 1}, {.248, 2}, {.064, 3}, {.049, 4}, {.009, 5}, {.082, 6}};

static const struct {
	double weight, sigma, scale;
} campus_lognormal[] = {
	{.131, .521, 7.81}, {.073, .770, 22.1}, {.029, 1.125, 128.6}, {.0083, 1.984, 1084.5}};

#define COUNT(array) (sizeof(array) / sizeof *(array))

double cb_campus_length(struct cb_random *random)
{
	double total = 0, pick, x = 0;
	size_t i;

	for (i = 0; i < COUNT(campus_uniform); i++)
		total += campus_uniform[i].weight;
	for (i = 0; i < COUNT(campus_lognormal); i++)
		total += campus_lognormal[i].weight;
	pick = cb_random_unit(random) * total; /* the published weights add up to 0.998 */
	for (i = 0; i < COUNT(campus_uniform); i++) {
		if (pick < campus_uniform[i].weight) {
			x = ceil(cb_random_unit(random) * campus_uniform[i].high);
			return x < 1 ? 1 : x;
		}
		pick -= campus_uniform[i].weight;
	}
	for (i = 0; i + 1 < COUNT(campus_lognormal) && pick >= campus_lognormal[i].weight; i++)
		pick -= campus_lognormal[i].weight;
	{
		/* Box and Muller 1958; 1 - u is never 0. */
		double radius = sqrt(-2 * log(1 - cb_random_unit(random)));
		double normal = radius * cos(2 * CB_PI * cb_random_unit(random));

		x = ceil(campus_lognormal[i].scale * exp(campus_lognormal[i].sigma * normal));
	}
	return x < 1 ? 1 : x;
}
