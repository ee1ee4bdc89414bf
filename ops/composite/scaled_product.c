/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: products of float8 matrices with scales, and of groups of rows, columns or inner elements. */
#include "ops/composite/compute_dtype.h"

static int64_t size_at(const tn_tensor *t, int64_t dim)
{
    return sizes_of(t).data[dim];
}

static int32_t is_float8(tn_dtype dtype)
{
    return dtype == TN_FLOAT8_E4M3FN || dtype == TN_FLOAT8_E5M2;
}

/* ---- _scaled_mm (self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum) ---- */

/* One scale for the matrix, or one for each row of the first or column of the second matrix. */
static int32_t is_scale(const tn_tensor *t, int64_t rows, int64_t columns)
{
    tn_ints size = sizes_of(t);
    if (dtype_of(t) != TN_FLOAT32) return 0;
    if (tn_tensor_numel(t) == 1) return 1;
    return size.count == 2 && size.data[0] == rows && size.data[1] == columns;
}

static int32_t check_scaled(tn_scope *s, const tn_value *args)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1), *scale_a = arg_tensor(args, 2),
              *scale_b = arg_tensor(args, 3), *bias = arg_tensor(args, 4);
    if (rank_of(a) != 2) return tn_scope_fail(s, TN_E_SHAPE, "mat1 must be a matrix");
    if (rank_of(b) != 2) return tn_scope_fail(s, TN_E_SHAPE, "mat2 must be a matrix");
    tn_ints size_a = sizes_of(a), size_b = sizes_of(b);
    if (size_a.data[1] != size_b.data[0])
        return tni_scope_failf(s, TN_E_SHAPE,
                               "mat_a and mat_b shapes cannot be multiplied (%lldx%lld and %lldx%lld)",
                               (long long)size_a.data[0], (long long)size_a.data[1],
                               (long long)size_b.data[0], (long long)size_b.data[1]);
    int32_t one_each = (tn_tensor_numel(scale_a) == 1) == (tn_tensor_numel(scale_b) == 1) ||
                       size_a.data[0] == 1 || size_b.data[1] == 1;
    if (!is_float8(dtype_of(a)) || !is_float8(dtype_of(b)) || !is_scale(scale_a, size_a.data[0], 1) ||
        !is_scale(scale_b, 1, size_b.data[1]) || !one_each)
        return tn_scope_fail(s, TN_E_ARGUMENT, "Invalid scaling configuration.");
    if (bias && tn_tensor_numel(bias) != size_b.data[1])
        return tni_scope_failf(s, TN_E_SHAPE, "Bias must be size %lld but got %lld",
                               (long long)size_b.data[1], (long long)tn_tensor_numel(bias));
    return TN_OK;
}

/* Float8 results are finite: larger values become the largest. */
static double largest_float8(tn_dtype dtype)
{
    return dtype == TN_FLOAT8_E4M3FN ? 448 : 57344;
}

void composite_scaled_mm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1), *bias = arg_tensor(args, 4), *product;
    if (check_scaled(s, args)) return;
    tn_dtype dtype = arg_given(args, 6) ? arg_dtype(args, 6) : dtype_of(a);
    a = tn_mul(s, tni_cast(s, a, TN_FLOAT32), arg_tensor(args, 2));
    b = tn_mul(s, tni_cast(s, b, TN_FLOAT32), arg_tensor(args, 3));
    product = tn_mm(s, a, b);
    if (bias) product = tn_add(s, product, tni_cast(s, bias, TN_FLOAT32));
    if (is_float8(dtype)) {
        double most = largest_float8(dtype);
        product = tn_clamp(s, product, .min = TN_SCALAR(-most), .max = TN_SCALAR(most));
    }
    give(outs, 0, tni_cast(s, product, dtype));
}

/* ---- _grouped_mm (self, mat2, offs, bias, out_dtype) ---- */

static int32_t check_grouped(tn_scope *s, const tn_value *args)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1), *offs = arg_tensor(args, 2);
    tn_dtype dtype = dtype_of(a);
    int64_t rank_a = rank_of(a), rank_b = rank_of(b);
    if (dtype != TN_FLOAT32 && dtype != TN_BFLOAT16 && dtype != TN_FLOAT16)
        return tni_scope_failf(s, TN_E_DTYPE,
                               "Expected mat_a to be Float32, BFloat16 or Float16 matrix, got %s",
                               tni_dtype_error_name(dtype));
    if (dtype_of(b) != dtype)
        return tni_scope_failf(s, TN_E_DTYPE,
                               "_grouped_mm: expected mat_a and mat_b of the same dtype (got %s and %s)",
                               tni_dtype_error_name(dtype), tni_dtype_error_name(dtype_of(b)));
    if (rank_a != 2 && rank_a != 3) return tn_scope_fail(s, TN_E_SHAPE, "mat_a has to be 2 or 3d");
    if (rank_b != 2 && rank_b != 3) return tn_scope_fail(s, TN_E_SHAPE, "mat_b has to be 2 or 3d");
    if (size_at(a, rank_a - 1) != size_at(b, rank_b - 2))
        return tn_scope_fail(s, TN_E_SHAPE, "contraction dimension of mat_a and mat_b must match");
    if (!offs != (rank_a == 3 && rank_b == 3))
        return tn_scope_fail(
            s, TN_E_ARGUMENT,
            "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d");
    if (offs && rank_of(offs) != 1) return tn_scope_fail(s, TN_E_SHAPE, "offs has to be 1D");
    if (offs && dtype_of(offs) != TN_INT32) return tn_scope_fail(s, TN_E_DTYPE, "Offsets have to be int32");
    if (!offs && size_at(a, 0) != size_at(b, 0))
        return tn_scope_fail(s, TN_E_SHAPE, "batched dimension has to match");
    if (offs && rank_a != rank_b && size_at(rank_a == 3 ? a : b, 0) != size_at(offs, 0))
        return tn_scope_fail(s, TN_E_SHAPE, "matrix batch sizes have to match");
    if (arg_given(args, 3)) return tn_scope_fail(s, TN_E_UNSUPPORTED, "Bias not supported yet");
    if (arg_given(args, 4) && arg_dtype(args, 4) != dtype)
        return tn_scope_fail(s, TN_E_DTYPE, "Grouped gemm output dtype must match `mat_a` dtype");
    return TN_OK;
}

/* Ends of groups must rise and stay in [0, size]. */
static int32_t check_offsets(tn_scope *s, const int64_t *ends, int64_t count, int64_t size)
{
    for (int64_t g = 0; g < count; g++) {
        int64_t begin = g ? ends[g - 1] : 0;
        if (ends[g] < begin || ends[g] > size)
            return tni_scope_failf(s, TN_E_INDEX, "_grouped_mm: offs[%lld] is %lld (expected %lld to %lld)",
                                   (long long)g, (long long)ends[g], (long long)begin, (long long)size);
    }
    return TN_OK;
}

static tn_tensor *part(tn_scope *s, tn_tensor *t, int64_t dim, int64_t begin, int64_t end)
{
    return tn_slice(s, t, .dim = dim, .start = begin, .end = end);
}

/* Zeros behind the last offset, along dim. */
static tn_tensor *rest(tn_scope *s, tn_tensor *like, int64_t rows, int64_t columns)
{
    return tn_new_zeros(s, like, TN_INTS(rows, columns));
}

void composite_grouped_mm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1);
    if (check_grouped(s, args)) return;
    if (!arg_given(args, 2)) return give(outs, 0, tn_bmm(s, a, b));
    tn_ints ends = tni_integers_of(s, arg_tensor(args, 2), "offs");
    int64_t count = ends.count;
    int64_t rows = size_at(a, rank_of(a) - 2), columns = size_at(b, rank_of(b) - 1);
    int32_t rows_cut = rank_of(b) == 3, columns_cut = rank_of(a) == 3;
    int64_t cut = rows_cut ? rows : columns_cut ? columns : size_at(a, 1);
    tn_tensor **list = tn_scope_memory(s, ((uint64_t)count + 1) * sizeof *list);
    if (!list || tn_scope_failed(s) || check_offsets(s, ends.data, count, cut)) return;
    for (int64_t g = 0; g < count; g++) {
        int64_t begin = g ? ends.data[g - 1] : 0, end = ends.data[g];
        tn_tensor *x = rows_cut      ? part(s, a, 0, begin, end)
                       : columns_cut ? tn_select(s, a, 0, g)
                                     : part(s, a, 1, begin, end);
        tn_tensor *y = rows_cut ? tn_select(s, b, 0, g) : part(s, b, columns_cut ? 1 : 0, begin, end);
        list[g] = tn_mm(s, x, y);
    }
    if (!rows_cut && !columns_cut) return give(outs, 0, tn_stack(s, (tn_tensors){list, count}));
    int64_t done = count ? ends.data[count - 1] : 0;
    list[count] = rows_cut ? rest(s, a, rows - done, columns) : rest(s, a, rows, columns - done);
    give(outs, 0, tn_cat(s, (tn_tensors){list, count + 1}, .dim = rows_cut ? 0 : 1));
}
