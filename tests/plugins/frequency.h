/* SPDX-License-Identifier: Apache-2.0 */
/* The sum that defines a Fourier transform, in long double, for tests of transforms. */
#ifndef TESTS_PLUGINS_FREQUENCY_H
#define TESTS_PLUGINS_FREQUENCY_H

#include <complex.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define PI 3.14159265358979323846264338327950288L

typedef long double _Complex number;

/* Noise in [-1, 1) that float32 holds exactly. */
static inline double noise(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (double)((int32_t)*state >> 8) / 8388608.0;
}

/* Frequency k of a line of n pairs, `step` pairs apart. */
static inline number frequency(const double *line, int64_t n, int64_t step, int64_t k, int sign)
{
    number sum = 0;
    for (int64_t j = 0; j < n; j++) {
        long double angle = sign * 2 * PI * (long double)(j * k % n) / (long double)n;
        sum +=
            (line[2 * j * step] + I * (long double)line[2 * j * step + 1]) * (cosl(angle) + I * sinl(angle));
    }
    return sum;
}

/* Errors grow as the root of log n; the sums have the size of sqrt(n). */
static inline void expect_near(number got, number expected, int64_t n, bool is_double, const char *what)
{
    long double bound =
        (is_double ? 4e-16L : 2e-7L) * sqrtl((long double)n) * (1 + sqrtl(log2l((long double)n)));
    cr_assert(cabsl(got - expected) <= bound, "%s of %lld: error %Lg, allowed %Lg", what, (long long)n,
              cabsl(got - expected), bound);
}

#endif
