/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: quantiles, interpolated between sorted elements. nanquantile ignores NaN, so each row has its
 * own number of elements.
 */
#include <math.h>
#include <string.h>
#include "ops/composite/composite.h"

enum { LINEAR, LOWER, HIGHER, MIDPOINT, NEAREST, MODE_COUNT };

static int32_t mode_of(tn_scope *s, const char *name, const char *what)
{
    static const char *const names[] = {"linear", "lower", "higher", "midpoint", "nearest"};
    for (int32_t i = 0; name && i < MODE_COUNT; i++) {
        if (!strcmp(name, names[i])) return i;
    }
    tni_scope_failf(
        s, TN_E_ARGUMENT,
        "%s() interpolation must be one of linear, lower, higher, midpoint or nearest, but got %s", what,
        name ? name : "None");
    return LINEAR;
}

static int32_t check_quantile(tn_scope *s, const tn_tensor *self, tn_tensor *q, const char *what)
{
    if (tn_tensor_numel(self) == 0)
        return tni_scope_failf(s, TN_E_SHAPE, "%s() input tensor must be non-empty", what);
    if (rank_of(q) > 1) return tni_scope_failf(s, TN_E_SHAPE, "%s() q must be a scalar or 1D tensor", what);
    if (dtype_of(self) != TN_FLOAT32 && dtype_of(self) != TN_FLOAT64)
        return tni_scope_failf(s, TN_E_DTYPE, "%s() input tensor must be either float or double dtype", what);
    if (dtype_of(q) != dtype_of(self))
        return tni_scope_failf(s, TN_E_DTYPE, "%s() q tensor must be same dtype as the input tensor", what);
    tn_tensor *legal = tn_all(s, tn_logical_and(s, tn_ge_scalar(s, q, 0), tn_le_scalar(s, q, 1)));
    if (legal && !tn_item_bool(s, legal))
        return tni_scope_failf(s, TN_E_ARGUMENT, "%s() q values must be in the range [0, 1]", what);
    return tn_scope_failed(s);
}

/* Positions of the quantiles in sorted rows: (..., number of q). */
static tn_tensor *places(tn_scope *s, tn_tensor *sorted, tn_tensor *q, int32_t skip_nan,
                         tn_tensor **io_sorted)
{
    tn_tensor *bad = tn_isnan(s, sorted);
    if (skip_nan) {
        tn_tensor *count = tn_sum_dim(s, tn_logical_not(s, bad), TN_INTS(-1), .keepdim = 1);
        tn_tensor *last = tn_clamp(s, tn_sub_scalar(s, count, 1), .min = TN_SCALAR(0));
        return tn_mul(s, q, tni_cast(s, last, dtype_of(q)));
    }
    tn_tensor *any = tn_any_dim(s, bad, -1, .keepdim = 1);
    *io_sorted = tn_masked_fill_scalar(s, sorted, any, NAN);
    int64_t n = tn_tensor_size(sorted, -1);
    tn_tensor *row = tn_mul_scalar(s, q, n - 1);
    return row ? tn_expand(s, row,
                           tni_sizes_with(s, sizes_of(sorted), rank_of(sorted) - 1, tn_tensor_numel(q)))
               : NULL;
}

static tn_tensor *read_places(tn_scope *s, tn_tensor *sorted, tn_tensor *ranks, int32_t mode)
{
    if (mode == LOWER) ranks = tn_floor(s, ranks);
    if (mode == HIGHER) ranks = tn_ceil(s, ranks);
    if (mode == NEAREST) ranks = tn_round(s, ranks);
    tn_tensor *below = tn_to(s, ranks, TN_INT64), *low = tn_gather(s, sorted, -1, below);
    if (mode != LINEAR && mode != MIDPOINT) return low;
    tn_tensor *high = tn_gather(s, sorted, -1, tn_to(s, tn_ceil(s, ranks), TN_INT64));
    if (mode == MIDPOINT) return tn_lerp_scalar(s, low, high, 0.5);
    return tn_lerp(s, low, high, tn_sub(s, ranks, below));
}

static void quantile(tn_scope *s, tn_tensor *self, tn_tensor *q, const tn_value *args, int32_t skip_nan,
                     tn_value *outs)
{
    const char *what = skip_nan ? "nanquantile" : "quantile";
    int32_t mode = mode_of(s, arg_string(args, 4), what), keepdim = arg_bool(args, 3),
            whole = !arg_given(args, 2);
    if (!q || tn_scope_failed(s) || check_quantile(s, self, q, what)) return;
    int64_t rank = rank_of(self), dim = whole ? 0 : tni_dim(s, arg_int(args, 2), rank),
            shape[TN_MAX_RANK + 1], n = 0;
    tn_tensor *rows = whole || rank == 0 ? tni_reshape(s, self, TN_INTS(-1)) : tn_movedim(s, self, dim, -1);
    tn_tensor *sorted = tn_sort(s, rows).values, *ranks = NULL;
    if (sorted) ranks = places(s, sorted, tni_reshape(s, q, TN_INTS(-1)), skip_nan, &sorted);
    tn_tensor *values = read_places(s, sorted, ranks, mode);
    if (!values) return;
    values = tn_movedim(s, values, -1, 0); /* (number of q, kept dimensions...) */
    if (rank_of(q)) shape[n++] = tn_tensor_numel(q);
    for (int64_t d = 0; d < rank; d++) {
        if (whole || d == dim) {
            if (keepdim) shape[n++] = 1;
        } else {
            shape[n++] = tn_tensor_size(self, d);
        }
    }
    give(outs, 0, tni_reshape(s, values, (tn_ints){shape, n}));
}

static tn_tensor *q_of_number(tn_scope *s, const tn_value *args, const char *what)
{
    double q = arg_float(args, 1);
    if (!(q >= 0 && q <= 1))
        return tni_scope_failf(s, TN_E_ARGUMENT, "%s() q must be in the range [0, 1] but got %g", what, q),
               NULL;
    return tni_number_like(s, arg_tensor(args, 0), args[1]);
}

void composite_quantile(tn_scope *s, const tn_value *args, tn_value *outs)
{
    quantile(s, arg_tensor(args, 0), arg_tensor(args, 1), args, 0, outs);
}

void composite_quantile_scalar(tn_scope *s, const tn_value *args, tn_value *outs)
{
    quantile(s, arg_tensor(args, 0), q_of_number(s, args, "quantile"), args, 0, outs);
}

void composite_nanquantile(tn_scope *s, const tn_value *args, tn_value *outs)
{
    quantile(s, arg_tensor(args, 0), arg_tensor(args, 1), args, 1, outs);
}

void composite_nanquantile_scalar(tn_scope *s, const tn_value *args, tn_value *outs)
{
    quantile(s, arg_tensor(args, 0), q_of_number(s, args, "nanquantile"), args, 1, outs);
}
