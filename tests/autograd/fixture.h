/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context with the CPU plugin and a counting allocator: each test ends with no memory left. Tests use the
 * public headers and the shared library only.
 */
#ifndef TESTS_AUTOGRAD_FIXTURE_H
#define TESTS_AUTOGRAD_FIXTURE_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <tenon/ops.h>
#include <tenon/tenon.h>

tn_context *open_context(void);
/* The test fails if memory of the context is left, in a fini, too. */
void close_context(tn_context *ctx);
/* The n-th allocation from now on fails; 0: none does. Returns whether one has failed since the last call. */
bool fail_allocation(int64_t n);

/* Runs `once` in a scope inside s, again and again, while the first allocation fails, then the second, ..., until none does. Each run
 * succeeds or is out of memory. Returns how many failed. `behind` is called when the scope of run n has closed. */
int fail_each_allocation(tn_scope *s, void (*once)(tn_scope *own), void (*behind)(int64_t n));

/* The number of the operator that is defined. */
uint32_t define(tn_context *ctx, const tn_operator_def *def);

/* A float64 tensor of one or more dimensions; with `wants` a leaf that requires a gradient. */
tn_tensor *make(tn_scope *s, tn_ints sizes, const double *values, int32_t wants);
#define VALUES(...) ((const double[]){__VA_ARGS__})
#define VECTOR(s, wants, ...)                                                                             \
    make(s, TN_INTS((int64_t)(sizeof((const double[]){__VA_ARGS__}) / 8)), (const double[]){__VA_ARGS__}, \
         wants)

/* Elements of t, row-major, against `want`, within `tolerance`. */
void expect_values(tn_scope *s, tn_tensor *t, int64_t count, const double *want, double tolerance);
#define EXPECT(s, t, ...)                                                                                    \
    expect_values(s, t, (int64_t)(sizeof((const double[]){__VA_ARGS__}) / 8), (const double[]){__VA_ARGS__}, \
                  1e-12)
/* The scope has not failed; is_sound prints the error. */
void expect_sound(tn_scope *s);
bool is_sound(tn_scope *s);
/* The scope has failed with a text that contains `part`; clears it. */
void expect_error(tn_scope *s, const char *part);
/* The thread's last error contains `part`. */
void expect_last_error(const char *part);

#endif
