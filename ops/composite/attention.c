/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: scaled dot product attention. The fused operator is used if its conditions hold; else two
 * products with a softmax between them, in float32 for half types.
 */
#include <math.h>
#include "ops/composite/compute_dtype.h"

typedef struct attention {
    tn_tensor *query, *key, *value, *mask, *dropout_mask;
    double dropout, scale; /* scale NaN: 1 / sqrt(features) */
    int32_t causal, grouped;
} attention;

/* The mask that is added to the scores: a bool mask becomes 0 and -inf. */
static tn_tensor *added_mask(tn_scope *s, tn_tensor *mask, tn_dtype dtype)
{
    tn_tensor *zeros;
    if (!mask || dtype_of(mask) != TN_BOOL) return mask;
    zeros = tni_zeros_on(s, mask, dtype, sizes_of(mask));
    return tn_masked_fill_scalar(s, zeros, tn_logical_not(s, mask), -(double)INFINITY);
}

static tn_tensor *causal_mask(tn_scope *s, const attention *a)
{
    int64_t rows = tni_sizes(a->query)[rank_of(a->query) - 2];
    int64_t columns = tni_sizes(a->key)[rank_of(a->key) - 2];
    tn_tensor *ones = tni_full_on(s, a->query, TN_BOOL, TN_INTS(rows, columns), tn_value_bool(1));
    return tn_tril(s, ones);
}

static int32_t check(tn_scope *s, const attention *a)
{
    tn_dtype q = dtype_of(a->query), k = dtype_of(a->key), v = dtype_of(a->value);
    if (q != k || q != v)
        return tni_scope_failf(
            s, TN_E_DTYPE,
            "Expected query, key, and value to have the same dtype, but got query.dtype: %s "
            "key.dtype: %s and value.dtype: %s instead.",
            tn_dtype_name(q), tn_dtype_name(k), tn_dtype_name(v));
    if (rank_of(a->query) < 2 || rank_of(a->key) < 2 || rank_of(a->value) < 2)
        return tni_scope_failf(s, TN_E_SHAPE,
                               "Expected query, key, and value to all be  at least 2 dimensional, but got "
                               "query.dim(): %lld, key.dim(): %lld and value.dim(): %lld instead.",
                               (long long)rank_of(a->query), (long long)rank_of(a->key),
                               (long long)rank_of(a->value));
    if (a->mask && dtype_of(a->mask) != TN_BOOL && dtype_of(a->mask) != q && dtype_of(a->mask) != TN_FLOAT32)
        return tni_scope_failf(
            s, TN_E_DTYPE,
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            "attn_mask.dtype: %s and  query.dtype: %s instead.",
            tn_dtype_name(dtype_of(a->mask)), tn_dtype_name(q));
    if (a->mask && a->causal)
        return tn_scope_fail(s, TN_E_ARGUMENT,
                             "_scaled_dot_product_attention: Explicit attn_mask should not be set "
                             "when is_causal=True");
    return TN_OK;
}

/* Key or value with as many heads as the query. */
static tn_tensor *with_heads(tn_scope *s, const attention *a, tn_tensor *t)
{
    int64_t heads, own;
    if (!a->grouped) return t;
    if (rank_of(a->query) < 3 || rank_of(t) < 3) {
        tn_scope_fail(s, TN_E_SHAPE, "enable_gqa requires tensors of at least 3 dimensions");
        return NULL;
    }
    heads = tni_sizes(a->query)[rank_of(a->query) - 3], own = tni_sizes(t)[rank_of(t) - 3];
    if (own == 0 || heads % own) {
        tn_scope_fail(s, TN_E_SHAPE,
                      "Number of heads in key and value must divide the number of heads in query");
        return NULL;
    }
    return own == heads ? t : tn_repeat_interleave_self_int(s, t, heads / own, .dim = -3);
}

static tn_tensor *drop(tn_scope *s, const attention *a, tn_tensor *weights, tn_tensor **value)
{
    if (a->dropout <= 0) return weights;
    if (!a->dropout_mask) return tn_dropout(s, weights, a->dropout, 1);
    *value = tn_mul_scalar(s, *value, 1 / (1 - a->dropout));
    return tn_masked_fill_scalar(s, weights, tn_logical_not(s, a->dropout_mask), 0.0);
}

/* Both factors are scaled by the square root, so that neither product overflows. */
static tn_tensor *attend(tn_scope *s, const attention *a, tn_tensor **weights)
{
    tn_dtype dtype = dtype_of(a->query);
    int64_t features = tni_sizes(a->query)[rank_of(a->query) - 1];
    double scale = isnan(a->scale) ? 1 / sqrt((double)features) : a->scale, root = sqrt(fabs(scale));
    tn_tensor *mask = added_mask(s, a->causal ? causal_mask(s, a) : a->mask, wide_dtype(dtype));
    tn_tensor *query = tn_mul_scalar(s, wide(s, a->query), scale < 0 ? -root : root);
    tn_tensor *key = tn_mul_scalar(s, with_heads(s, a, wide(s, a->key)), root);
    tn_tensor *value = with_heads(s, a, wide(s, a->value)), *scores, *out;
    if (tn_scope_failed(s)) return NULL;
    scores = tn_matmul(s, query, tn_transpose(s, key, -2, -1));
    if (mask) scores = tn_add(s, scores, mask);
    scores = drop(s, a, tn__safe_softmax(s, scores, -1), &value);
    out = tn_matmul(s, scores, value);
    if (tn_scope_failed(s)) return NULL;
    *weights = tni_cast(s, scores, dtype);
    return tni_cast(s, out, dtype);
}

/*
 * Conditions: four dimensions, as many heads (or a divisor of them, for grouped queries) and features, no
 * dropout, no gradient of the mask.
 */
static int32_t fused(const attention *a)
{
    const tn_tensor *t[] = {a->query, a->key, a->value};
    const int64_t *q = tni_sizes(a->query), *k = tni_sizes(a->key), *v = tni_sizes(a->value);
    for (int i = 0; i < 3; i++) {
        if (rank_of(t[i]) != 4 || tn_tensor_numel(t[i]) == 0) return 0;
    }
    if (!is_float(dtype_of(a->query)) || a->dropout != 0 || a->scale < 0) return 0;
    if (a->mask && (tni_wants_grad(a->mask) || (rank_of(a->mask) != 2 && rank_of(a->mask) != 4))) return 0;
    if (q[0] != k[0] || q[0] != v[0] || k[1] != v[1]) return 0;
    if (q[1] != k[1] && !(a->grouped && q[1] % k[1] == 0)) return 0;
    return q[3] == k[3] && q[3] == v[3] && k[2] == v[2];
}

void composite_scaled_dot_product_attention(tn_scope *s, const tn_value *args, tn_value *outs)
{
    attention a = {arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 2), arg_tensor(args, 3), NULL,
                   arg_float(args, 4),  arg_float(args, 6),  arg_bool(args, 5),   arg_bool(args, 7)};
    tn_tensor *weights, *mask;
    if (check(s, &a)) return;
    if (!fused(&a)) {
        give(outs, 0, attend(s, &a, &weights));
        return;
    }
    mask = added_mask(s, a.mask, dtype_of(a.query));
    if (tn_scope_failed(s)) return;
    give(outs, 0,
         tn__scaled_dot_product_flash_attention_for_cpu(s, a.query, a.key, a.value, .is_causal = a.causal,
                                                        .attn_mask = mask,
                                                        .scale = arg_float_or(args, 6, (double)TN_NONE))
             .output);
}

/* (query, key, value, attn_mask, dropout_p, is_causal, dropout_mask, scale, enable_gqa) */
void composite_scaled_dot_product_attention_math(tn_scope *s, const tn_value *args, tn_value *outs)
{
    attention a = {arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 2),
                   arg_tensor(args, 3), arg_tensor(args, 6), arg_float(args, 4),
                   arg_float(args, 7),  arg_bool(args, 5),   arg_bool(args, 8)};
    tn_tensor *weights = NULL;
    if (check(s, &a)) return;
    give(outs, 0, attend(s, &a, &weights));
    give(outs, 1, weights);
}

/* ---- the fused operator and its gradient ---- */

/* Scores of (query, key) with scale and masks, in float32 for half types. */
static tn_tensor *scores_of(tn_scope *s, const attention *a, double scale)
{
    tn_tensor *mask = added_mask(s, a->mask, wide_dtype(dtype_of(a->query))), *scores;
    scores = tn_matmul(s, tn_mul_scalar(s, wide(s, a->query), scale),
                       tn_transpose(s, with_heads(s, a, wide(s, a->key)), -2, -1));
    if (mask) scores = tn_add(s, scores, mask);
    if (a->causal)
        scores = tn_add(s, scores, added_mask(s, causal_mask(s, a), wide_dtype(dtype_of(a->query))));
    return scores;
}

static double scale_of(const attention *a)
{
    return isnan(a->scale) ? 1 / sqrt((double)tni_sizes(a->query)[rank_of(a->query) - 1]) : a->scale;
}

/* query, key and value from argument `first`; dropout_p, is_causal, attn_mask and scale from `options`. */
static attention attention_at(const tn_value *args, uint32_t first, uint32_t options)
{
    tn_tensor *query = arg_tensor(args, first), *key = arg_tensor(args, first + 1);
    return (attention){.query = query,
                       .key = key,
                       .value = arg_tensor(args, first + 2),
                       .mask = arg_tensor(args, options + 2),
                       .dropout = arg_float(args, options),
                       .scale = arg_float(args, options + 3),
                       .causal = arg_bool(args, options + 1),
                       .grouped = tni_sizes(query)[1] != tni_sizes(key)[1]};
}

/* (query, key, value, dropout_p, is_causal, attn_mask, scale). The second result is [batch, heads, length]. */
void composite_flash_attention(tn_scope *s, const tn_value *args, tn_value *outs)
{
    attention a = attention_at(args, 0, 3);
    tn_tensor *scores = scores_of(s, &a, scale_of(&a)), *out;
    out = tn_matmul(s, tn__safe_softmax(s, scores, -1), with_heads(s, &a, wide(s, a.value)));
    if (tn_scope_failed(s)) return;
    give(outs, 0, tni_cast(s, out, dtype_of(a.query)));
    give(outs, 1, tn_logsumexp(s, scores, TN_INTS(-1)));
}

/* The gradient of keys or values: the sum over the query heads that share them. */
static tn_tensor *of_groups(tn_scope *s, const attention *a, tn_tensor *grad)
{
    const int64_t *sizes = tni_sizes(grad);
    int64_t heads = tni_sizes(a->key)[1];
    if (!a->grouped) return grad;
    return tn_sum_dim(s, tn_reshape(s, grad, TN_INTS(sizes[0], heads, sizes[1] / heads, sizes[2], sizes[3])),
                      TN_INTS(2));
}

/* (grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale) */
void composite_flash_attention_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    attention a = attention_at(args, 1, 6);
    tn_tensor *grad = wide(s, arg_tensor(args, 0)),
              *weights = tn__safe_softmax(s, scores_of(s, &a, scale_of(&a)), -1);
    tn_tensor *value, *inner, *slope;
    value = tn_matmul(s, tn_transpose(s, weights, -2, -1), grad);
    inner = tn_matmul(s, grad, tn_transpose(s, with_heads(s, &a, wide(s, a.value)), -2, -1));
    slope = tn_sub(s, inner, keep_sum(s, tn_mul(s, grad, wide(s, arg_tensor(args, 4))), TN_INTS(-1)));
    slope = tn_mul_scalar(s, tn_mul(s, weights, slope), scale_of(&a));
    if (tn_scope_failed(s)) return;
    tn_tensor *key = tn_matmul(s, tn_transpose(s, slope, -2, -1), wide(s, a.query));
    tn_tensor *query = tn_matmul(s, slope, with_heads(s, &a, wide(s, a.key)));
    if (tn_scope_failed(s)) return;
    give(outs, 0, tni_cast(s, query, dtype_of(a.query)));
    give(outs, 1, tni_cast(s, of_groups(s, &a, key), dtype_of(a.key)));
    give(outs, 2, tni_cast(s, of_groups(s, &a, value), dtype_of(a.value)));
}
