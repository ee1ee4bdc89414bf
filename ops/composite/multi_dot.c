/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: products of many matrices, powers, Vandermonde matrices, cross products. */
#include "ops/composite/matrix_batch.h"
#include "ops/composite/contraction.h"

/* ---- chains ---- */

/* Matrix i is sizes[i] x sizes[i + 1]. Fills cut[i * n + j] with the best last split of the product i..j. */
static int64_t *best_cuts(tn_scope *s, const int64_t *sizes, int64_t n)
{
    int64_t *cut = tni_scope_ints(s, n * n);
    double *cost = tn_scope_memory(s, (uint64_t)(n * n) * sizeof *cost);
    if (!cut || !cost) return NULL;
    for (int64_t i = 0; i < n; i++) cost[i * n + i] = 0;
    for (int64_t length = 1; length < n; length++) {
        for (int64_t i = 0, j = length; j < n; i++, j++) {
            cut[i * n + j] = -1;
            for (int64_t k = i; k < j; k++) {
                double c = cost[i * n + k] + cost[(k + 1) * n + j] +
                           (double)sizes[i] * (double)sizes[k + 1] * (double)sizes[j + 1];
                if (cut[i * n + j] >= 0 && c >= cost[i * n + j]) continue;
                cut[i * n + j] = k;
                cost[i * n + j] = c;
            }
        }
    }
    return cut;
}

static tn_tensor *chain(tn_scope *s, tn_tensor *const *list, const int64_t *cut, int64_t n, int64_t i,
                        int64_t j)
{
    int64_t k;
    tn_tensor *left;
    if (i == j) return list[i];
    k = cut[i * n + j];
    left = chain(s, list, cut, n, i, k);
    return tn_mm(s, left, chain(s, list, cut, n, k + 1, j));
}

static int32_t check_chain(tn_scope *s, tn_tensors list)
{
    int64_t n = list.count;
    if (n < 2)
        return tni_scope_failf(s, TN_E_ARGUMENT, "multi_dot(): expected at least 2 tensors but got %lld",
                               (long long)n);
    for (int64_t i = 0; i < n; i++) {
        int64_t rank = rank_of(list.data[i]);
        int32_t end = i == 0 || i == n - 1;
        if (end ? rank != 1 && rank != 2 : rank != 2)
            return tni_scope_failf(s, TN_E_SHAPE,
                                   end ? "multi_dot(): the %s tensor must be 1D or 2D but got %lldD"
                                       : "multi_dot(): %s tensor must be 2D but got %lldD",
                                   i == 0 ? "first"
                                   : end  ? "last"
                                          : "a middle",
                                   (long long)rank);
    }
    return TN_OK;
}

static tn_tensor *multi_dot(tn_scope *s, tn_tensors in)
{
    int64_t n = in.count, first, last, *sizes = tni_scope_ints(s, n + 1), *cut;
    tn_tensor **list = tni_scope_tensors(s, n), *out;
    if (check_chain(s, in) || !list || !sizes) return NULL;
    first = rank_of(in.data[0]), last = rank_of(in.data[n - 1]);
    for (int64_t i = 0; i < n; i++) list[i] = in.data[i];
    if (first == 1) list[0] = tn_unsqueeze(s, list[0], 0);
    if (last == 1) list[n - 1] = tn_unsqueeze(s, list[n - 1], -1);
    if (tn_scope_failed(s)) return NULL;
    for (int64_t i = 0; i < n; i++) {
        sizes[i] = tni_sizes(list[i])[0];
        sizes[i + 1] = tni_sizes(list[i])[1];
        if (i && sizes[i] != tni_sizes(list[i - 1])[1]) {
            tni_scope_failf(s, TN_E_SHAPE,
                            "multi_dot(): tensors %lld and %lld with shapes %s and %s cannot be multiplied",
                            (long long)i - 1, (long long)i, sizes_text(s, list[i - 1]),
                            sizes_text(s, list[i]));
            return NULL;
        }
    }
    cut = best_cuts(s, sizes, n);
    if (!cut) return NULL;
    out = chain(s, list, cut, n, 0, n - 1);
    if (first == 1) out = tn_squeeze_dim(s, out, 0);
    return last == 1 ? tn_squeeze_dim(s, out, -1) : out;
}

void composite_linalg_multi_dot(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, multi_dot(s, arg_tensors(args, 0)));
}

void composite_chain_matmul(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensors list = arg_tensors(args, 0);
    for (int64_t i = 0; i < list.count; i++) {
        if (rank_of(list.data[i]) == 2) continue;
        tni_scope_failf(
            s, TN_E_SHAPE,
            "Tensor for argument #%lld 'matrices' is expected to have 2 dimension(s), but it has %lld",
            (long long)i, (long long)rank_of(list.data[i]));
        return;
    }
    if (!list.count)
        tn_scope_fail(s, TN_E_ARGUMENT, "chain_matmul(): Expected one or more matrices");
    else
        give(outs, 0, list.count == 1 ? list.data[0] : multi_dot(s, list));
}

/* ---- powers ---- */

/* By squaring; negative powers are powers of the inverse. */
void composite_matrix_power(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *out = NULL;
    int64_t n = arg_int(args, 1), rank = rank_of(self);
    const int64_t *sizes = tni_sizes(self);
    if (rank < 2) {
        tni_scope_failf(s, TN_E_SHAPE,
                        "linalg.matrix_power: The input tensor A must have at least 2 dimensions.");
    } else if (sizes[rank - 1] != sizes[rank - 2]) {
        tni_scope_failf(
            s, TN_E_SHAPE,
            "linalg.matrix_power: A must be batches of square matrices, but they are %lld by %lld matrices",
            (long long)sizes[rank - 2], (long long)sizes[rank - 1]);
    } else if (n == 0) {
        out = tn_clone(s, tni_units_like(s, self), .memory_format = TN_CONTIGUOUS_FORMAT);
    } else if (n == 1) {
        out = tn_clone(s, self);
    } else {
        uint64_t left = n < 0 ? -(uint64_t)n : (uint64_t)n;
        for (tn_tensor *z = n < 0 ? tn_linalg_inv(s, self) : self; left > 0 && !tn_scope_failed(s);
             left >>= 1) {
            if (left & 1) out = out ? tn_matmul(s, out, z) : z;
            if (left > 1) z = tn_matmul(s, z, z);
        }
    }
    give(outs, 0, out);
}

/* ---- made of a vector ---- */

/* 1, x, x^2, ... along a new last dimension. */
static tn_tensor *powers(tn_scope *s, tn_tensor *x, int64_t n)
{
    tn_ints size = tni_sizes_insert(s, sizes_of(x), rank_of(x), 1), wide_size;
    tn_tensor *ones = tni_full_on(s, x, 0, size, tn_value_int(1)), *rest;
    if (n <= 1) return n == 1 ? ones : tni_empty_on(s, x, 0, tni_sizes_with(s, size, rank_of(x), 0));
    wide_size = tni_sizes_with(s, size, rank_of(x), n - 1);
    rest = tn_cumprod(s, tn_expand(s, tn_unsqueeze(s, x, -1), wide_size), -1);
    return tn_cat(s, TN_TENSORS(tni_cast(s, ones, rest ? dtype_of(rest) : dtype_of(x)), rest), .dim = -1);
}

void composite_linalg_vander(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x = arg_tensor(args, 0);
    int64_t rank = rank_of(x), n;
    if (dtype_of(x) == TN_BOOL) {
        tn_scope_fail(s, TN_E_DTYPE,
                      "linalg.vander supports floating point, complex, and integer tensors, but got Bool");
        return;
    }
    if (rank == 0) x = tn_unsqueeze(s, x, -1);
    if (!x) return;
    n = arg_int_or(args, 1, rank ? tni_sizes(x)[rank - 1] : 1);
    if (n < 2) {
        tn_scope_fail(s, TN_E_ARGUMENT, "N must be greater than 1.");
        return;
    }
    give(outs, 0, powers(s, x, n));
}

void composite_vander(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x = arg_tensor(args, 0), *out;
    int64_t n;
    if (rank_of(x) != 1) {
        tn_scope_fail(s, TN_E_SHAPE, "x must be a one-dimensional tensor.");
        return;
    }
    n = arg_int_or(args, 1, tn_tensor_numel(x));
    if (n < 0) {
        tn_scope_fail(s, TN_E_ARGUMENT, "N must be non-negative.");
        return;
    }
    if (dtype_of(x) == TN_BOOL) x = tni_cast(s, x, TN_INT64);
    out = powers(s, x, n);
    give(outs, 0, arg_bool(args, 2) ? out : tn_flip(s, out, TN_INTS(1)));
}

/* ---- cross products ---- */

/* a1 b2 - a2 b1 and its cyclic permutations: both operands are rolled along the dimension of size 3. */
void composite_linalg_cross(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1), *left, *right;
    tn_ints dims = TN_INTS(arg_int(args, 2));
    left = tn_mul(s, tn_roll(s, a, TN_INTS(-1), .dims = dims), tn_roll(s, b, TN_INTS(-2), .dims = dims));
    right = tn_mul(s, tn_roll(s, a, TN_INTS(-2), .dims = dims), tn_roll(s, b, TN_INTS(-1), .dims = dims));
    give(outs, 0, tn_sub(s, left, right));
}

void composite_cross(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1);
    int64_t dim = arg_int(args, 2);
    if (!arg_given(args, 2)) {
        tn_ints size = rank_of(a) == rank_of(b) ? sizes_of(a) : (tn_ints){NULL, 0};
        for (dim = 0; dim < size.count && (size.data[dim] != 3 || tni_sizes(b)[dim] != 3);) dim++;
        if (dim == size.count) {
            tn_scope_fail(s, TN_E_SHAPE, "no dimension of size 3 in input");
            return;
        }
    }
    give(outs, 0, tn_linalg_cross(s, a, b, .dim = dim));
}
