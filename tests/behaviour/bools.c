/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of bool tensors are the bytes 0 and 1, whatever operator wrote them. */
#include <math.h>
#include <stdlib.h>
#include "fixture.h"

/* Reads the bytes themselves: a comparison of bools would take 2 for true. */
static void expect_bytes(place *p, tn_tensor *t, int64_t count, const uint8_t *want, int32_t line)
{
    uint8_t have[64];
    cr_assert_not_null(t, "line %d: %s", (int)line,
                       tn_scope_error(p->s) ? tn_scope_error(p->s)->message : "no tensor");
    cr_assert_eq(tn_tensor_dtype(t), TN_BOOL, "line %d", (int)line);
    cr_assert_eq(tn_tensor_numel(t), count, "line %d", (int)line);
    cr_assert_eq(tn_to_host(p->s, t, have, (uint64_t)count), TN_OK);
    for (int64_t i = 0; i < count; i++)
        cr_expect_eq(have[i], want[i], "line %d, element %lld: %d", (int)line, (long long)i, have[i]);
}
#define BYTES(t, ...)                                                                                   \
    expect_bytes(p, t, (int64_t)sizeof((const uint8_t[]){__VA_ARGS__}), (const uint8_t[]){__VA_ARGS__}, \
                 __LINE__)

ON_EACH_DEVICE(bools, of_casts)
{
    static const tn_dtype dtypes[] = {TN_UINT8, TN_INT8, TN_INT16, TN_INT32, TN_INT64};
    for (uint32_t i = 0; i < 5; i++)
        BYTES(tn__to_copy(p->s, VECTOR(p, dtypes[i], 0, 1, 2, 3, 64, 127), .dtype = TN_BOOL), 0, 1, 1, 1, 1,
              1);
    tn_tensor *wide = tn_full(p->s, TN_INTS(2), TN_SCALAR(INT64_C(1) << 40), .dtype = TN_INT64);
    BYTES(tn__to_copy(p->s, wide, .dtype = TN_BOOL), 1, 1); /* the low bytes are 0 */
    static const tn_dtype floats[] = {TN_FLOAT16, TN_BFLOAT16, TN_FLOAT32, TN_FLOAT64};
    for (uint32_t i = 0; i < 4; i++)
        BYTES(tn__to_copy(p->s, VECTOR(p, floats[i], 0, -0.0, 0.5, -3, NAN, INFINITY), .dtype = TN_BOOL), 0,
              0, 1, 1, 1, 1);
    tn_tensor *numbers = tn_complex(p->s, VECTOR(p, TN_FLOAT32, 0, 0, 2), VECTOR(p, TN_FLOAT32, 0, 0.5, 0));
    BYTES(tn__to_copy(p->s, numbers, .dtype = TN_BOOL), 0, 1, 1);
    BYTES(tn_copy_(p->s, tn_zeros(p->s, TN_INTS(3), .dtype = TN_BOOL), VECTOR(p, TN_FLOAT32, 2, 0, 0.25)), 1,
          0, 1);
}

ON_EACH_DEVICE(bools, of_factories)
{
    BYTES(tn_full(p->s, TN_INTS(2), TN_SCALAR(7), .dtype = TN_BOOL), 1, 1);
    BYTES(tn_full(p->s, TN_INTS(2), TN_SCALAR(0.25), .dtype = TN_BOOL), 1, 1);
    BYTES(tn_ones(p->s, TN_INTS(2), .dtype = TN_BOOL), 1, 1);
    BYTES(tn_fill_scalar_(p->s, tn_empty(p->s, TN_INTS(2), .dtype = TN_BOOL), 256), 1, 1);
    BYTES(tn_masked_fill_scalar(p->s, tn_zeros(p->s, TN_INTS(2), .dtype = TN_BOOL),
                                tn_ones(p->s, TN_INTS(2), .dtype = TN_BOOL), 2),
          1, 1);
    BYTES(tn_eye(p->s, 2, .dtype = TN_BOOL), 1, 0, 0, 1);
    BYTES(tn_constant_pad_nd(p->s, tn_ones(p->s, TN_INTS(1), .dtype = TN_BOOL), TN_INTS(1, 1),
                             .value = TN_SCALAR(3)),
          1, 1, 1);
    tn_tensor *drawn = tn_random_(p->s, tn_empty(p->s, TN_INTS(64), .dtype = TN_BOOL));
    uint8_t have[64];
    cr_assert_eq(tn_to_host(p->s, drawn, have, 64), TN_OK);
    for (int32_t i = 0; i < 64; i++) cr_assert_leq(have[i], 1);
}

ON_EACH_DEVICE(bools, of_arithmetic)
{
    tn_tensor *a = tn_gt_scalar(p->s, VECTOR(p, TN_FLOAT32, 1, 1, -1, -1), 0);
    tn_tensor *b = tn_gt_scalar(p->s, VECTOR(p, TN_FLOAT32, 1, -1, 1, -1), 0);
    BYTES(tn_add(p->s, a, b), 1, 1, 1, 0);
    BYTES(tn_mul(p->s, a, b), 1, 0, 0, 0);
    BYTES(tn_bitwise_not(p->s, a), 0, 0, 1, 1);
    BYTES(tn_bitwise_xor(p->s, a, b), 0, 1, 1, 0);
    BYTES(tn_bitwise_or(p->s, a, b), 1, 1, 1, 0);
    BYTES(tn_maximum(p->s, a, b), 1, 1, 1, 0);
    BYTES(tn_where(p->s, a, b, a), 1, 0, 0, 0);
    tn_tensor *small = VECTOR(p, TN_UINT8, 0, 2, 255, 4);
    BYTES(tn_logical_not(p->s, small), 1, 0, 0, 0);
    BYTES(tn_logical_and(p->s, small, small), 0, 1, 1, 1);
    BYTES(tn_logical_xor(p->s, small, VECTOR(p, TN_UINT8, 3, 3, 0, 0)), 1, 0, 1, 1);
    BYTES(tn_ne_scalar(p->s, small, 0), 0, 1, 1, 1);
    BYTES(tn_isnan(p->s, VECTOR(p, TN_FLOAT32, NAN, 1)), 1, 0);
    BYTES(tn_isfinite(p->s, VECTOR(p, TN_FLOAT64, INFINITY, 1)), 0, 1);
    BYTES(tn_any_dim(p->s, tn_reshape(p->s, b, TN_INTS(2, 2)), 1), 1, 1);
    BYTES(tn_all_dim(p->s, tn_reshape(p->s, a, TN_INTS(2, 2)), 1), 1, 0);
    BYTES(tn_signbit(p->s, VECTOR(p, TN_FLOAT32, -1, 1)), 1, 0);
}

/* Sums of several true elements at one place. */
ON_EACH_DEVICE(bools, of_accumulations)
{
    tn_tensor *yes = tn_ones(p->s, TN_INTS(3), .dtype = TN_BOOL), *none = tn_zeros_like(p->s, yes);
    tn_tensor *at = VECTOR(p, TN_INT64, 0, 0, 2);
    BYTES(tn_scatter_add(p->s, none, 0, at, yes), 1, 0, 1);
    BYTES(tn_index_add(p->s, none, 0, at, yes), 1, 0, 1);
    BYTES(tn_index_put_default(p->s, none, TN_TENSORS(at), yes, .accumulate = 1), 1, 0, 1);
    BYTES(tn_scatter_reduce(p->s, none, 0, at, yes, "sum"), 1, 0, 1);
    BYTES(tn_scatter_reduce(p->s, none, 0, at, yes, "amax"), 1, 0, 1);
    BYTES(tn_scatter_reduce(p->s, yes, 0, at, yes, "prod"), 1, 1, 1);
    BYTES(tn_cat(p->s, TN_TENSORS(yes, none)), 1, 1, 1, 0, 0, 0);
    BYTES(tn_sort(p->s, tn_cat(p->s, TN_TENSORS(yes, none))).values, 0, 0, 0, 1, 1, 1);
    BYTES(tn_cummax(p->s, tn_cat(p->s, TN_TENSORS(none, yes)), 0).values, 0, 0, 0, 1, 1, 1);
}

/* A number that is not 0 is true. */
ON_EACH_DEVICE(bools, of_numbers)
{
    tn_tensor *none = tn_zeros(p->s, TN_INTS(2), .dtype = TN_BOOL);
    BYTES(tn_constant_pad_nd(p->s, none, TN_INTS(1, 1), .value = TN_SCALAR(0.5)), 1, 0, 0, 1);
    BYTES(tn_constant_pad_nd(p->s, none, TN_INTS(-1, 1), .value = TN_SCALAR(-3)), 0, 1);
    BYTES(tn_full(p->s, TN_INTS(2), TN_SCALAR(0.25), .dtype = TN_BOOL), 1, 1);
    BYTES(tn_fill_scalar(p->s, none, TN_SCALAR(NAN)), 1, 1);
}
