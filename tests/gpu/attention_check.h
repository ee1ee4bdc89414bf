/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of a device and its gradients, compared with the plain formula in float64. For tests that have device_suite.h. */
#ifndef TENON_TESTS_GPU_ATTENTION_CHECK_H
#define TENON_TESTS_GPU_ATTENTION_CHECK_H

#include "../plugins/attention_formula.h"

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
    attention_numbers n;
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

#endif
