/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of products and convolutions by oneDNN, and by the plugin's own kernels where it is not used. */
#ifndef TESTS_XPU_DNN_H
#define TESTS_XPU_DNN_H
#define DEVICE  "xpu"
#define LIBRARY "libdnnl.so.3"
#include "../../cuda/libraries/session.h"

enum {
    PRODUCTS,
    CONVOLUTIONS,
    CHOICES,
    LIVE,
    MATH,
    SUMS,
    DETERMINISTIC,
    QUEUED
}; /* what the library counts */

/* All elements are `want`. */
static inline void expect_scaled(tn_tensor *got, double want)
{
    cr_assert_eq(tn_item_double(s, tn_max(s, got)), want);
    cr_assert_eq(tn_item_double(s, tn_min(s, got)), want);
}

/* The kernels compute a product and a convolution, and the log has the line once. Of an absent library `count` gives -1. */
static inline void expect_kernels(const char *line)
{
    tn_tensor *a = tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32),
              *x = tn_ones(s, TN_INTS(1, 2, 4, 4), .dtype = TN_FLOAT32);
    expect_scaled(tn_mm(s, a, a), 2);
    expect_scaled(tn_conv2d(s, x, tn_ones(s, TN_INTS(3, 2, 2, 2), .dtype = TN_FLOAT32)), 8);
    cr_assert_leq(count(PRODUCTS), 0);
    cr_assert_leq(count(LIVE), 0, "objects of the library are left");
    expect_in(said, "2 xpu:0: %s: the plugin's own kernels compute products and convolutions\n", line);
    cr_assert_eq(strstr(strstr(said, line) + 1, line), NULL, "the line stands there twice");
}
#endif
