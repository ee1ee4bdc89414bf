/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: hashes of elements, the exclusive or of their 64-bit patterns, by halving, on any device that
 * has bitwise_xor. Floating elements count as float64, all others as int64.
 */
#include "ops/composite/composite.h"

/* The patterns as a matrix: kept dimensions as rows, reduced ones as columns. */
static tn_tensor *patterns(tn_scope *s, tn_tensor *self, uint64_t mask)
{
    int64_t order[TN_MAX_RANK], n = 0, rank = rank_of(self), columns = tni_numel_of(sizes_of(self), mask);
    tn_tensor *bits = is_float(dtype_of(self))
                          ? tn_view_dtype(s, tn_contiguous(s, tni_cast(s, self, TN_FLOAT64)), TN_INT64)
                          : tni_cast(s, self, TN_INT64);
    if (!rank) return tni_reshape(s, bits, TN_INTS(1, 1));
    for (int64_t d = 0; d < rank; d++) {
        if (!(mask >> d & 1)) order[n++] = d;
    }
    int64_t rows = columns ? tn_tensor_numel(self) / columns : 0;
    for (int64_t d = 0; d < rank; d++) {
        if (mask >> d & 1) order[n++] = d;
    }
    return tni_reshape(s, tn_permute(s, bits, (tn_ints){order, rank}), TN_INTS(rows, columns));
}

/*
 * Reduces to one column: each step combines the right half with the left one, an odd column with the first.
 */
static tn_tensor *fold(tn_scope *s, tn_tensor *rows)
{
    tn_tensor *odd = NULL;
    int64_t n = rows ? tn_tensor_size(rows, 1) : 0;
    for (; n > 1 && !tn_scope_failed(s); n /= 2) {
        if (n % 2) {
            tn_tensor *last = tni_narrow(s, rows, 1, n - 1, 1);
            odd = odd ? tn_bitwise_xor(s, odd, last) : last;
        }
        rows = tn_bitwise_xor(s, tni_narrow(s, rows, 1, 0, n / 2), tni_narrow(s, rows, 1, n / 2, n / 2));
    }
    return odd ? tn_bitwise_xor(s, rows, odd) : rows;
}

/* (self, dim, keepdim, mode); mode is 0. */
void composite_hash_tensor(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    tn_ints dims = arg_ints(args, 1), sizes = sizes_of(self);
    int64_t rank = rank_of(self), out[TN_MAX_RANK], n = 0;
    uint64_t mask = tni_dims(s, dims, rank);
    if (is_complex(dtype_of(self)))
        return (void)tni_scope_failf(s, TN_E_UNSUPPORTED, "\"xor_sum\" not implemented for '%s'",
                                     tni_dtype_error_name(dtype_of(self)));
    for (int64_t d = 0; d < rank; d++) {
        if (!(mask >> d & 1))
            out[n++] = sizes.data[d];
        else if (arg_bool(args, 2))
            out[n++] = 1;
    }
    if (!tn_tensor_numel(self)) return give(outs, 0, tni_zeros_on(s, self, TN_UINT64, (tn_ints){out, n}));
    tn_tensor *hash = tni_reshape(s, fold(s, patterns(s, self, mask)), (tn_ints){out, n});
    give(outs, 0, tni_cast(s, hash, TN_UINT64));
}
