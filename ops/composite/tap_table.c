/* SPDX-License-Identifier: Apache-2.0 */
/* Resampling by tables of taps; see tap_table.h. */
#include <math.h>
#include "core/shape.h"
#include "ops/composite/tap_table.h"

int32_t tni_taps_make(tn_scope *s, int64_t in, int64_t out, int64_t count, int32_t weighted, tni_taps *t)
{
    if (count && out > INT64_MAX / 16 / count) {
        tni_scope_failf(s, TN_E_OUT_OF_MEMORY, "out of memory: a table of %lld outputs, each of %lld inputs",
                        (long long)out, (long long)count);
        return -1;
    }
    uint64_t n = (uint64_t)(out * count);
    *t = (tni_taps){.in = in, .out = out, .count = count, .at = tni_scope_ints(s, out * count)};
    if (weighted) t->weight = tn_scope_memory(s, (n ? n : 1) * sizeof *t->weight);
    return t->at && (t->weight || !weighted) ? 0 : -1;
}

static tn_tensor *index_of(tn_scope *s, const tn_tensor *t, const tni_taps *p)
{
    return tn_from_data(s, TN_INT64, TN_INTS(p->out * p->count), p->at, tn_tensor_device(t));
}

/* [out, count] with a dimension of size 1 for each dimension of t after `dim`. */
static tn_tensor *shaped(tn_scope *s, tn_tensor *weights, const tn_tensor *t, int64_t dim, const tni_taps *p)
{
    int64_t shape[TN_MAX_RANK], n = 0;
    shape[n++] = p->out;
    shape[n++] = p->count;
    for (int64_t d = dim + 1; d < rank_of(t); d++) shape[n++] = 1;
    return tni_reshape(s, weights, (tn_ints){shape, n});
}

static tn_tensor *weights_of(tn_scope *s, const tn_tensor *t, int64_t dim, const tni_taps *p,
                             tn_dtype rounded)
{
    int64_t n = p->out * p->count;
    tn_dtype dtype = tni_dtype_to_real(dtype_of(t));
    const void *data = p->weight;
    tn_tensor *weights;
    if (dtype == TN_FLOAT32) {
        float *narrow = tn_scope_memory(s, (uint64_t)(n ? n : 1) * sizeof *narrow);
        for (int64_t i = 0; narrow && i < n; i++) narrow[i] = (float)p->weight[i];
        data = narrow;
    }
    if (!data) return NULL;
    weights = tn_from_data(s, dtype, TN_INTS(n), data, tn_tensor_device(t));
    if (rounded && weights) weights = tni_cast(s, tni_cast(s, weights, rounded), dtype);
    return shaped(s, weights, t, dim, p);
}

tn_tensor *tni_taps_inputs(tn_scope *s, tn_tensor *t, int64_t dim, const tni_taps *p)
{
    tn_tensor *all = tn_index_select(s, t, dim, index_of(s, t, p));
    if (!all) return NULL;
    tn_ints size = tni_sizes_insert(s, sizes_of(all), dim + 1, p->count);
    return tni_reshape(s, all, tni_sizes_with(s, size, dim, p->out));
}

tn_tensor *tni_taps_gather(tn_scope *s, tn_tensor *t, int64_t dim, const tni_taps *p, tn_dtype rounded)
{
    if (tn_scope_failed(s)) return NULL;
    if (!p->weight) return tn_index_select(s, t, dim, index_of(s, t, p));
    tn_tensor *weights = weights_of(s, t, dim, p, rounded);
    tn_tensor *all = tn_mul(s, tni_taps_inputs(s, t, dim, p), weights);
    if (p->skips) all = zero_where(s, tn_eq_scalar(s, weights, 0), all);
    return tn_sum_dim(s, all, TN_INTS(dim + 1));
}

tn_tensor *tni_taps_spread(tn_scope *s, tn_tensor *t, int64_t dim, const tni_taps *p, tn_dtype rounded)
{
    if (tn_scope_failed(s)) return NULL;
    tn_tensor *zeros = tni_zeros_on(s, t, 0, tni_sizes_with(s, sizes_of(t), dim, p->in)), *all = t;
    if (p->weight) {
        tn_ints size = tni_sizes_with(s, sizes_of(t), dim, p->out * p->count);
        all = tn_mul(s, tn_unsqueeze(s, t, dim + 1), weights_of(s, t, dim, p, rounded));
        all = tni_reshape(s, all, size);
    }
    return tn_index_add(s, zeros, dim, index_of(s, t, p), all);
}

/* ---- bytes ---- */

/* The greatest precision at which the largest weight plus one half fits in 16 bits. */
static int64_t fixed_point(const tni_taps *p, int64_t n)
{
    double largest = 0;
    int64_t precision = 0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, p->weight[i]);
    while (precision < 22 && 0.5 + largest * (double)(1 << (precision + 1)) < (double)(1 << 15)) precision++;
    return precision;
}

tn_tensor *tni_taps_gather_bytes(tn_scope *s, tn_tensor *t, int64_t dim, const tni_taps *p)
{
    int64_t n = p->out * p->count, precision = fixed_point(p, n);
    int32_t *whole = tn_scope_memory(s, (uint64_t)(n ? n : 1) * sizeof *whole);
    if (!whole || tn_scope_failed(s)) return NULL;
    for (int64_t i = 0; i < n; i++) whole[i] = (int32_t)round(p->weight[i] * (double)(1 << precision));
    tn_tensor *weights = tn_from_data(s, TN_INT32, TN_INTS(n), whole, tn_tensor_device(t)), *sum;
    sum = tn_mul(s, tni_taps_inputs(s, t, dim, p), shaped(s, weights, t, dim, p));
    sum = tn_sum_dim(s, sum, TN_INTS(dim + 1), .dtype = TN_INT32);
    sum = tn_add_scalar(s, sum, 1 << (precision - 1));
    sum = tn_bitwise_right_shift_tensor_scalar(s, sum, precision);
    sum = tn_clamp(s, sum, .min = TN_SCALAR(0), .max = TN_SCALAR(255));
    return sum ? tni_cast(s, sum, TN_UINT8) : NULL;
}

void tni_give_resampled(tn_scope *s, tn_value *outs, uint32_t i, tn_tensor *t, const tn_tensor *like,
                        tn_dtype dtype)
{
    if (!t) return;
    t = tni_cast(s, t, dtype);
    give(outs, i,
         tn_contiguous(s, t,
                       .memory_format = tni_stride_format((uint32_t)rank_of(like), tni_sizes(like),
                                                          tn_tensor_strides(like))));
}
