/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the CPU plugin's neural-network rows share: calls with threads and flags, noise,
 * comparison. */
#ifndef TENON_TESTS_PLUGINS_CPU_NN_H
#define TENON_TESTS_PLUGINS_CPU_NN_H

#include "fixture.h"

#define COUNT(list) ((uint32_t)(sizeof(list) / sizeof((list)[0])))
#define SIZES(...)  ((const int64_t[]){__VA_ARGS__})

/* Calls a row with so many threads and flags. */
int32_t nn_run(fixture *f, const char *name, const tn_value *args, uint32_t n_args, tn_value *outs,
               uint32_t n_outs, int32_t threads, uint32_t flags);

/* The same numbers in [-1, 1) for the same seed. */
void nn_noise(float *to, int64_t count, uint32_t seed);

/* A contiguous float32 tensor: noise for a seed, zeros for 0. */
fixture_tensor nn_tensor(fixture *f, uint32_t rank, const int64_t *sizes, uint32_t seed);

/* Fails unless every element of a float32 tensor is within `tolerance` of the expected one. */
void nn_expect(fixture *f, const fixture_tensor *t, const double *expected, double tolerance,
               const char *what);

/* A view with two dimensions exchanged. */
fixture_tensor nn_transposed(const fixture_tensor *t, uint32_t a, uint32_t b);

#endif
