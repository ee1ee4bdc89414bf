/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: reductions over segments of an axis, given by lengths or offsets, through scatter_reduce: each
 * element gets the number of its segment. Elements outside all segments go to an extra one, which is dropped.
 * Gradients read back by segment number.
 */
#include <math.h>
#include <string.h>
#include "ops/composite/composite.h"

typedef struct segments {
    tn_tensor *place;   /* segment of each element of data, `count` if none; int64 */
    tn_tensor *lengths; /* leading dimensions and count, int64 */
    int64_t axis, count;
} segments;

/* 1s after the dimensions up to the axis, so that it broadcasts along the inner dimensions of data. */
static tn_tensor *with_inner(tn_scope *s, tn_tensor *t, const tn_tensor *data)
{
    int64_t size[TN_MAX_RANK], rank = rank_of(data);
    if (!t) return NULL;
    for (int64_t d = 0; d < rank; d++) size[d] = d < rank_of(t) ? tn_tensor_size(t, d) : 1;
    return tni_reshape(s, t, (tn_ints){size, rank});
}

static segments read_segments(tn_scope *s, tn_tensor *data, tn_tensor *lengths, tn_tensor *offsets,
                              int64_t axis)
{
    segments g = {.axis = tni_dim(s, axis, rank_of(data))};
    tn_tensor *given = tni_cast(s, offsets ? offsets : lengths, TN_INT64), *ends, *before = NULL;
    if (tn_scope_failed(s)) return g;
    g.count = tn_tensor_size(given, g.axis) - (offsets ? 1 : 0);
    tn_ints sizes = tni_sizes_with(s, sizes_of(given), g.axis, tn_tensor_size(data, g.axis));
    tn_tensor *at = tn_expand(s, tni_range_on(s, data, 0, tn_tensor_size(data, g.axis)), sizes);
    if (offsets) {
        ends = tni_narrow(s, given, g.axis, 1, g.count);
        g.lengths = tn_sub(s, ends, tni_narrow(s, given, g.axis, 0, g.count));
        before = tn_lt(s, at, tni_narrow(s, given, g.axis, 0, 1));
    } else {
        ends = tn_cumsum(s, given, g.axis);
        g.lengths = given;
    }
    g.place = tn_searchsorted(s, tn_contiguous(s, ends), tn_contiguous(s, at), .right = 1);
    if (before) g.place = tn_masked_fill_scalar(s, g.place, before, g.count);
    g.place = with_inner(s, g.place, data);
    if (g.place) g.place = tn_expand(s, g.place, sizes_of(data));
    return g;
}

/* A sum (or amax, ...) over each segment, from `initial`. */
static tn_tensor *reduce_segments(tn_scope *s, const segments *g, tn_tensor *data, const char *how,
                                  tn_value initial)
{
    if (tn_scope_failed(s)) return NULL;
    tn_ints sizes = tni_sizes_with(s, sizes_of(data), g->axis, g->count + 1);
    tn_tensor *start = tni_full_on(s, data, 0, sizes, initial);
    tn_tensor *all = tn_scatter_reduce(s, start, g->axis, g->place, data, how);
    return tni_narrow(s, all, g->axis, 0, g->count);
}

/* A value of each segment, at each of its elements. */
static tn_tensor *spread(tn_scope *s, const segments *g, tn_tensor *of_segments)
{
    return tn_gather(s, of_segments, g->axis, tn_clamp_max(s, g->place, g->count - 1));
}

static tn_dtype wide_of(const tn_tensor *t)
{
    return TN_DTYPE_BITS(dtype_of(t)) == 16 ? TN_FLOAT32 : dtype_of(t);
}

static int32_t check_lengths(tn_scope *s, const tn_tensor *data, tn_tensor *lengths, int64_t axis)
{
    tn_tensor *bad = tn_any(s, tn_lt_scalar(s, lengths, 0));
    if (bad && tn_item_bool(s, bad))
        return tn_scope_fail(s, TN_E_ARGUMENT, "lengths contains negative value!");
    tn_tensor *total = tn_sum_dim(s, lengths, TN_INTS(-1));
    bad = tn_any(s, tn_ne_scalar(s, total, tn_tensor_size(data, axis)));
    if (bad && tn_item_bool(s, bad))
        return tn_scope_fail(s, TN_E_SHAPE,
                             "segment_reduce(): Expected all rows of lengths along axis to sum to "
                             "data.size(lengths.dim()-1) when !unsafe.");
    return tn_scope_failed(s);
}

static int32_t check_offsets(tn_scope *s, const segments *g)
{
    tn_tensor *bad = tn_any(s, tn_lt_scalar(s, g->lengths, 0));
    if (bad && tn_item_bool(s, bad))
        return tn_scope_fail(s, TN_E_ARGUMENT, "argument 'offsets': must not decrease");
    return tn_scope_failed(s);
}

/* (data, reduce, lengths, indices, offsets, axis, unsafe, initial). */
void composite_segment_reduce(tn_scope *s, const tn_value *args, tn_value *outs)
{
    static const struct {
        const char *name, *how;
        double initial;
    } kinds[] = {{"max", "amax", -INFINITY},
                 {"mean", "sum", 0},
                 {"min", "amin", INFINITY},
                 {"sum", "sum", 0},
                 {"prod", "prod", 1}};
    tn_tensor *data = arg_tensor(args, 0), *lengths = arg_tensor(args, 2), *offsets = arg_tensor(args, 4);
    const char *name = arg_string(args, 1);
    uint32_t k = 0;
    while (k < 5 && (!name || strcmp(name, kinds[k].name))) k++;
    if (k == 5)
        return (void)tni_scope_failf(s, TN_E_ARGUMENT,
                                     "reduce argument must be either sum, prod, mean, amax or amin, got %s",
                                     name ? name : "None");
    if (arg_given(args, 3))
        return (void)tn_scope_fail(s, TN_E_UNSUPPORTED,
                                   "segment_reduce(): indices based reduction is not supported yet.");
    segments g = read_segments(s, data, lengths, offsets, arg_int(args, 5));
    if (!arg_bool(args, 6) && (offsets ? check_offsets(s, &g) : check_lengths(s, data, lengths, g.axis)))
        return;
    tn_tensor *wide = tni_cast(s, data, wide_of(data));
    tn_tensor *result = reduce_segments(s, &g, wide, kinds[k].how,
                                        arg_given(args, 7) ? args[7] : tn_value_float(kinds[k].initial));
    if (!strcmp(name, "mean")) {
        tn_tensor *count = with_inner(s, tni_cast(s, g.lengths, dtype_of(wide)), data);
        if (arg_given(args, 7))
            count = tn_clamp_min(s, count, 1); /* an empty segment keeps the initial value */
        result = tn_div(s, result, count);
    }
    give(outs, 0, tni_cast(s, result, dtype_of(data)));
}

/* Gradient of extremes: shared by the elements that equal the result; NaN counts as equal. */
static tn_tensor *extreme_gradient(tn_scope *s, const segments *g, tn_tensor *grad, tn_tensor *output,
                                   tn_tensor *data)
{
    tn_tensor *hit = tn_logical_or(s, tn_eq(s, data, spread(s, g, output)), tn_isnan(s, data));
    tn_tensor *ones = tni_cast(s, hit, dtype_of(data));
    tn_tensor *ties = reduce_segments(s, g, ones, "sum", tn_value_float(0));
    return tn_where(s, hit, spread(s, g, tn_div(s, grad, ties)), tn_zeros_like(s, data));
}

/* Gradient of products: the product of the other elements, which is output / data unless data is 0 or NaN. */
static tn_tensor *product_gradient(tn_scope *s, const segments *g, tn_tensor *grad, tn_tensor *output,
                                   tn_tensor *data, tn_value initial)
{
    tn_tensor *nan = tn_isnan(s, data), *zero = tn_eq_scalar(s, data, 0), *odd = tn_logical_or(s, nan, zero);
    tn_tensor *rest = reduce_segments(s, g, tn_masked_fill_scalar(s, data, odd, 1), "prod", initial);
    tn_tensor *nans = tni_cast(s, nan, dtype_of(data)), *zeros = tni_cast(s, zero, dtype_of(data));
    tn_tensor *other_nans =
        tn_sub(s, spread(s, g, reduce_segments(s, g, nans, "sum", tn_value_float(0))), nans);
    tn_tensor *other_zeros =
        tn_sub(s, spread(s, g, reduce_segments(s, g, zeros, "sum", tn_value_float(0))), zeros);
    tn_tensor *others = tn_masked_fill_scalar(s, spread(s, g, rest), tn_gt_scalar(s, other_zeros, 0), 0);
    others = tn_masked_fill_scalar(s, others, tn_gt_scalar(s, other_nans, 0), NAN);
    tn_tensor *plain = tn_div(s, spread(s, g, tn_mul(s, grad, output)), data);
    return tn_where(s, odd, tn_mul(s, spread(s, g, grad), others), plain);
}

/* (grad, output, data, reduce, lengths, offsets, axis, initial). */
void composite_segment_reduce_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *data = arg_tensor(args, 2), *result = NULL;
    const char *name = arg_string(args, 3);
    segments g = read_segments(s, data, arg_tensor(args, 4), arg_tensor(args, 5), arg_int(args, 6));
    if (tn_scope_failed(s)) return;
    if (!g.count) return give(outs, 0, tn_zeros_like(s, data));
    tn_tensor *grad = tni_cast(s, arg_tensor(args, 0), wide_of(data));
    tn_tensor *output = tni_cast(s, arg_tensor(args, 1), wide_of(data)),
              *wide = tni_cast(s, data, wide_of(data));
    if (!strcmp(name, "sum"))
        result = spread(s, &g, grad);
    else if (!strcmp(name, "mean"))
        result = spread(s, &g, tn_div(s, grad, with_inner(s, tni_cast(s, g.lengths, dtype_of(wide)), data)));
    else if (!strcmp(name, "prod"))
        result =
            product_gradient(s, &g, grad, output, wide, arg_given(args, 7) ? args[7] : tn_value_float(1));
    else
        result = extreme_gradient(s, &g, grad, output, wide);
    result = tn_masked_fill_scalar(s, result, tn_ge_scalar(s, g.place, g.count), 0);
    give(outs, 0, tni_cast(s, result, dtype_of(data)));
}
