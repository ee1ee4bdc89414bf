/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of a device, forward and backward, against the plain formula in float64. No call runs on the CPU. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <tenon/tenon.h>
#include "../gpu/device_suite.h"
#include "../plugins/attention_formula.h"

TestSuite(attention, .init = open_without_fallback, .fini = close_device);

/* A tensor of these numbers. */
static tn_tensor *tensor_of(const double *values, tn_ints sizes, tn_dtype dtype)
{
    return tn__to_copy(s, tn_from_data(s, TN_FLOAT64, sizes, values, device), .dtype = dtype);
}

/* The same numbers with heads and rows exchanged in memory, as a model has them that splits features into heads. */
static tn_tensor *heads_inside(tn_tensor *t)
{
    return tn_transpose(s, tn_contiguous(s, tn_transpose(s, t, 1, 2)), 1, 2);
}

static void expect(tn_tensor *t, const double *want, int64_t count, double tolerance, const char *what)
{
    double *got = calloc((size_t)count, sizeof *got);
    tn_tensor *wide = t ? tn_contiguous(s, tn__to_copy(s, t, .dtype = TN_FLOAT64)) : NULL;
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s: %s", what,
                 tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_assert_eq(tn_tensor_numel(wide), count, "%s", what);
    cr_assert_eq(tn_to_host(s, wide, got, (uint64_t)count * 8), TN_OK);
    for (int64_t i = 0; i < count; i++) {
        bool near = got[i] == want[i] || fabs(got[i] - want[i]) <= tolerance * (1 + fabs(want[i]));
        cr_assert(near, "%s: element %lld is %.9g, not %.9g", what, (long long)i, got[i], want[i]);
    }
    free(got);
}

static double tolerance_of(tn_dtype dtype)
{
    return dtype == TN_FLOAT64 ? 1e-12 : dtype == TN_FLOAT32 ? 8e-6 : dtype == TN_FLOAT16 ? 2e-3 : 2e-2;
}

/* Logarithms of sums are float32 for half types. */
static void check(problem p)
{
    numbers n;
    make_numbers(&p, &n);
    const tn_ints of_q = TN_INTS(p.batch, p.heads, p.queries, p.width),
                  of_k = TN_INTS(p.batch, p.key_heads, p.keys, p.width);
    tn_tensor *q = heads_inside(tensor_of(n.in[QUERY], of_q, p.dtype)),
              *k = tensor_of(n.in[KEY], of_k, p.dtype),
              *v = heads_inside(tensor_of(n.in[VALUE], of_k, p.dtype)),
              *g = heads_inside(tensor_of(n.in[GRAD], of_q, p.dtype)), *mask = NULL;
    if (p.mask == 1) mask = tensor_of(n.in[MASK], TN_INTS(p.queries, p.keys), p.dtype);
    if (p.mask == 2) mask = tensor_of(n.in[MASK], TN_INTS(1, p.heads, 1, p.keys), p.dtype);
    tn__scaled_dot_product_flash_attention_for_cpu_result f =
        tn__scaled_dot_product_flash_attention_for_cpu(s, q, k, v, .is_causal = p.causal, .attn_mask = mask);
    tn__scaled_dot_product_flash_attention_for_cpu_backward_result b =
        tn__scaled_dot_product_flash_attention_for_cpu_backward(s, g, q, k, v, f.output, f.logsumexp, 0,
                                                                p.causal, .attn_mask = mask);
    double tolerance = tolerance_of(p.dtype);
    expect(f.output, n.out[OUT], n.out_count[OUT], tolerance, "out");
    expect(f.logsumexp, n.out[LOG_SUM], n.out_count[LOG_SUM], tolerance, "logsumexp");
    expect(b.grad_query, n.out[GRAD_QUERY], n.out_count[GRAD_QUERY], 4 * tolerance, "grad_query");
    expect(b.grad_key, n.out[GRAD_KEY], n.out_count[GRAD_KEY], 4 * tolerance, "grad_key");
    expect(b.grad_value, n.out[GRAD_VALUE], n.out_count[GRAD_VALUE], 4 * tolerance, "grad_value");
    free_numbers(&n);
}

static int32_t computes_in(tn_dtype dtype)
{
    tn_tensor *t = tn_ones(s, TN_INTS(2), .dtype = dtype);
    int32_t can = tn_add(s, t, t) != NULL;
    tn_scope_clear(s);
    return can;
}

Test(attention, is_the_formula_in_every_dtype)
{
    static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT64, TN_FLOAT16, TN_BFLOAT16};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (computes_in(dtypes[i])) check((problem){2, 3, 3, 37, 41, 24, 24, .dtype = dtypes[i]});
}

/* Programs for GPUs have registers for 64, 128 or 256 features. */
Test(attention, takes_up_to_256_features)
{
    static const int64_t widths[] = {64, 65, 128, 129, 256};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        check((problem){1, 2, 2, 40, 50, widths[i], widths[i], .causal = i % 2 == 1, .dtype = TN_FLOAT32});
    if (computes_in(TN_FLOAT64))
        check((problem){1, 1, 1, 20, 50, 100, 100, .causal = true, .dtype = TN_FLOAT64});
    if (computes_in(TN_FLOAT64)) check((problem){1, 1, 1, 20, 50, 200, 200, .dtype = TN_FLOAT64});
}

Test(attention, covers_several_blocks)
{
    check((problem){1, 1, 1, 130, 170, 16, 16, .dtype = TN_FLOAT32});
    check((problem){1, 1, 1, 170, 100, 16, 16, .causal = true, .dtype = TN_FLOAT32});
}

/* A row or a head that sees no key is 0, and so are its gradients. */
Test(attention, masks_leave_scores_out)
{
    check((problem){1, 3, 3, 40, 45, 20, 20, .mask = 1, .dtype = TN_FLOAT32});
    check((problem){2, 3, 3, 40, 45, 20, 20, .mask = 2, .dtype = TN_FLOAT32});
}

Test(attention, several_heads_share_keys_and_values)
{
    check((problem){2, 6, 2, 33, 35, 40, 40, .causal = true, .dtype = TN_FLOAT32});
    check((problem){1, 4, 1, 33, 35, 40, 40, .mask = 1, .dtype = TN_FLOAT32});
}

/* The scores of 2048 queries and keys would take 16 MiB, and an operand takes 128 KiB. */
Test(attention, needs_no_memory_for_the_scores)
{
    tn_memory_stats before = {.size = sizeof before}, after = before;
    tn_tensor *x = tn_ones(s, TN_INTS(1, 1, 2048, 16), .dtype = TN_FLOAT32);
    cr_assert_eq(tn_memory_reset_peak(ctx, device), TN_OK);
    cr_assert_eq(tn_memory_get_stats(ctx, device, &before), TN_OK);
    tn__scaled_dot_product_flash_attention_for_cpu_result f =
        tn__scaled_dot_product_flash_attention_for_cpu(s, x, x, x, .is_causal = 1);
    tn__scaled_dot_product_flash_attention_for_cpu_backward_result b =
        tn__scaled_dot_product_flash_attention_for_cpu_backward(s, x, x, x, x, f.output, f.logsumexp, 0, 1);
    cr_assert_not_null(b.grad_query);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    cr_assert_eq(tn_memory_get_stats(ctx, device, &after), TN_OK);
    cr_assert_gt(after.allocated_peak, before.allocated_bytes);
    cr_assert_lt(after.allocated_peak - before.allocated_bytes, 2u << 20, "%llu bytes",
                 (unsigned long long)(after.allocated_peak - before.allocated_bytes));
}
