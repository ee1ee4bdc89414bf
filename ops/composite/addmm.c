/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: products of matrices and vectors, the fused forms (addmm and the like) and those of equal
 * shapes.
 */
#include "ops/composite/contraction.h"

/* A factor for the dtype: integer dtypes take its integer part. */
static tn_value factor_of(tn_value number, tn_dtype dtype)
{
    return is_integer(dtype) ? tn_value_int(tn_value_as_int(number)) : number;
}

/* beta * self + alpha * product. self is not read if beta is 0, so NaN there does not spread. */
static tn_tensor *blend(tn_scope *s, tn_tensor *self, tn_tensor *product, tn_value beta, tn_value alpha)
{
    if (!self || !product) return NULL;
    beta = factor_of(beta, dtype_of(self));
    alpha = factor_of(alpha, dtype_of(self));
    if (!scalar_is(alpha, 1)) product = tn_mul_scalar(s, product, alpha);
    if (scalar_is(beta, 0)) return product;
    if (!scalar_is(beta, 1)) self = tn_mul_scalar(s, self, beta);
    return tn_add(s, product, self);
}

/* The fused forms: args are self, two factors, beta, alpha; half types are rounded once. */
static void give_blend(tn_scope *s, const tn_value *args, tn_tensor *product, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    give(outs, 0, tni_cast(s, blend(s, wide(s, self), product, args[3], args[4]), dtype_of(self)));
}

void composite_addmm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_blend(s, args, tn_mm(s, wide(s, arg_tensor(args, 1)), wide(s, arg_tensor(args, 2))), outs);
}

/* (self, mat1, mat2, beta, alpha, use_gelu) */
void composite_addmm_activation(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *sum = tn_addmm(s, arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 2),
                              .beta = args[3], .alpha = args[4]);
    give(outs, 0, arg_bool(args, 5) ? tn_gelu(s, sum) : tn_relu(s, sum));
}

void composite_baddbmm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_blend(s, args, tn_bmm(s, wide(s, arg_tensor(args, 1)), wide(s, arg_tensor(args, 2))), outs);
}

void composite_addmv(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_blend(s, args, tn_mv(s, wide(s, arg_tensor(args, 1)), wide(s, arg_tensor(args, 2))), outs);
}

static int32_t check_batches(tn_scope *s, tn_ints a, tn_ints b)
{
    if (a.count != 3) return tn_scope_fail(s, TN_E_SHAPE, "batch1 must be a 3D tensor");
    if (b.count != 3) return tn_scope_fail(s, TN_E_SHAPE, "batch2 must be a 3D tensor");
    if (a.data[0] != b.data[0])
        return tni_scope_failf(s, TN_E_SHAPE,
                               "batch1 and batch2 must have same number of batches, got %lld and %lld",
                               (long long)a.data[0], (long long)b.data[0]);
    if (a.data[2] != b.data[1])
        return tni_scope_failf(s, TN_E_SHAPE, "Incompatible matrix sizes for bmm (%lldx%lld and %lldx%lld)",
                               (long long)a.data[1], (long long)a.data[2], (long long)b.data[1],
                               (long long)b.data[2]);
    return TN_OK;
}

/* Half types are rounded after each batch, as ATen does. */
static tn_tensor *add_each_batch(tn_scope *s, tn_tensor *out, tn_tensor *a, tn_tensor *b, int64_t batches,
                                 const tn_value *args)
{
    for (int64_t i = 0; i < batches && !tn_scope_failed(s); i++) {
        tn_value beta = i ? tn_value_int(1) : args[3];
        out = tn_addmm(s, out, tn_select(s, a, 0, i), tn_select(s, b, 0, i), .beta = beta, .alpha = args[4]);
    }
    return out;
}

/* The sum of the batches' products is one product: the batch joins the inner dimension. */
void composite_addbmm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *a = arg_tensor(args, 1), *b = arg_tensor(args, 2);
    tn_ints size_a = sizes_of(a), size_b = sizes_of(b), size;
    int64_t inner;
    if (check_batches(s, size_a, size_b)) return;
    inner = size_a.data[0] * size_a.data[2];
    size = TN_INTS(size_a.data[1], size_b.data[2]);
    self = tn_expand(s, self, size);
    if (wide_dtype(dtype_of(a)) != dtype_of(a) && size_a.data[0]) {
        give(outs, 0, add_each_batch(s, self, a, b, size_a.data[0], args));
        return;
    }
    a = tn_reshape(s, tn_permute(s, a, TN_INTS(1, 0, 2)), TN_INTS(size.data[0], inner));
    b = tn_reshape(s, b, TN_INTS(inner, size.data[1]));
    give(outs, 0, tn_addmm(s, self, a, b, .beta = args[3], .alpha = args[4]));
}

static int32_t check_addr(tn_scope *s, tn_dtype dtype, tn_value number, const char *name)
{
    if (number.tag == TN_TAG_BOOL && dtype != TN_BOOL)
        return tni_scope_failf(s, TN_E_DTYPE, "Boolean %s only supported for Boolean results.", name);
    if ((number.tag == TN_TAG_FLOAT || number.tag == TN_TAG_COMPLEX) && is_integer(dtype))
        return tni_scope_failf(s, TN_E_DTYPE,
                               "For integral input tensors, argument %s must not be a floating point number.",
                               name);
    if (number.tag == TN_TAG_COMPLEX && !is_complex(dtype))
        return tni_scope_failf(
            s, TN_E_DTYPE, "For non-complex input tensors, argument %s must not be a complex number.", name);
    const char *overflowing = tni_overflowing(number, dtype);
    if (overflowing) return tni_scope_failf(s, TN_E_DTYPE, TNI_OVERFLOW, overflowing);
    return TN_OK;
}

/* A scalar rounded to the half type, as in ATen's loop. */
static tn_value as_element(tn_value number, tn_dtype dtype)
{
    if (number.tag == TN_TAG_COMPLEX) return number;
    double x = tn_value_as_float(number);
    if (dtype == TN_FLOAT16) return tn_value_float(tni_half_to_float(tni_double_to_half(x)));
    return dtype == TN_BFLOAT16 ? tn_value_float(tni_bfloat_to_float(tni_float_to_bfloat((float)x))) : number;
}

static tn_tensor *addr_of_bools(tn_scope *s, tn_tensor *self, tn_tensor *outer, const tn_value *args)
{
    if (!tn_value_as_bool(args[4])) outer = tn_logical_and(s, outer, tn_zeros_like(s, outer));
    return tn_value_as_bool(args[3]) ? tn_logical_or(s, self, outer) : outer;
}

void composite_addr(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *a = arg_tensor(args, 1), *b = arg_tensor(args, 2), *outer, *out;
    tn_dtype dtype = tn_promote_types(dtype_of(self), tn_promote_types(dtype_of(a), dtype_of(b)));
    if (rank_of(a) != 1 || rank_of(b) != 1) {
        const tn_tensor *bad = rank_of(a) != 1 ? a : b;
        tni_scope_failf(s, TN_E_SHAPE, "addr: Expected 1-D argument %s, but got %lld-D",
                        bad == a ? "vec1" : "vec2", (long long)rank_of(bad));
        return;
    }
    if (check_addr(s, dtype, args[3], "beta") || check_addr(s, dtype, args[4], "alpha")) return;
    self = tn_expand(s, tni_cast(s, self, dtype), TN_INTS(tn_tensor_numel(a), tn_tensor_numel(b)));
    a = tn_unsqueeze(s, tni_cast(s, a, dtype), 1);
    b = tni_cast(s, b, dtype);
    if (dtype != TN_BOOL && !scalar_is(args[4], 1)) a = tn_mul_scalar(s, a, as_element(args[4], dtype));
    outer = dtype == TN_BOOL ? tn_logical_and(s, a, b) : tn_mul(s, a, b);
    out = dtype == TN_BOOL ? addr_of_bools(s, self, outer, args)
                           : blend(s, self, outer, as_element(args[3], dtype), tn_value_int(1));
    give(outs, 0, out ? tni_cast(s, out, dtype) : NULL);
}

/* ---- equal shapes ---- */

void composite_mv(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         tn_squeeze_dim(s, tn_mm(s, arg_tensor(args, 0), tn_unsqueeze(s, arg_tensor(args, 1), 1)), 1));
}

static tn_tensor *dot(tn_scope *s, tn_tensor *a, tn_tensor *b)
{
    return tn_reshape(s, tn_mm(s, tn_unsqueeze(s, a, 0), tn_unsqueeze(s, b, 1)), TN_NO_INTS);
}

void composite_dot(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, dot(s, arg_tensor(args, 0), arg_tensor(args, 1)));
}

void composite_vdot(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0);
    give(outs, 0, dot(s, is_complex(dtype_of(a)) ? tn_conj(s, a) : a, arg_tensor(args, 1)));
}

void composite_linear(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *input = arg_tensor(args, 0), *weight = arg_tensor(args, 1), *bias = arg_tensor(args, 2), *out;
    tn_dtype dtype = dtype_of(input);
    if (rank_of(input) == 2 && rank_of(weight) == 2 && bias && rank_of(bias) == 1) {
        give(outs, 0, tn_addmm(s, bias, input, tn_t(s, weight)));
        return;
    }
    out = tn_matmul(s, bias ? wide(s, input) : input, tn_t(s, bias ? wide(s, weight) : weight));
    if (bias) out = tn_add(s, out, bias);
    give(outs, 0, out ? tni_cast(s, out, dtype) : NULL);
}

void composite_outer(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1);
    if (rank_of(a) != 1 || rank_of(b) != 1) {
        tni_scope_failf(s, TN_E_SHAPE, "outer: Expected 1-D argument %s, but got %lld-D",
                        rank_of(a) != 1 ? "self" : "vec2",
                        (long long)(rank_of(a) != 1 ? rank_of(a) : rank_of(b)));
        return;
    }
    give(outs, 0, tn_mul(s, tn_unsqueeze(s, a, 1), b));
}

void composite_inner(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1);
    int64_t ra = rank_of(a), rb = rank_of(b);
    if (ra == 0 || rb == 0) {
        give(outs, 0, tn_mul(s, a, b));
        return;
    }
    if (tni_sizes(a)[ra - 1] != tni_sizes(b)[rb - 1]) {
        tni_scope_failf(
            s, TN_E_SHAPE,
            "inner() the last dimension must match on both input tensors but got shapes %s and %s",
            sizes_text(s, a), sizes_text(s, b));
        return;
    }
    give(outs, 0, tn_tensordot(s, a, b, TN_INTS(-1), TN_INTS(-1)));
}

void composite_linalg_vecdot(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *x = arg_tensor(args, 0), *y = arg_tensor(args, 1);
    tn_dtype dtype = dtype_of(x);
    if (is_integer(dtype)) {
        tni_scope_failf(s, TN_E_DTYPE,
                        "linalg.vecdot: Expected a floating point or complex tensor as input. Got %s",
                        tni_dtype_error_name(dtype));
        return;
    }
    if (rank_of(x) == 1 && rank_of(y) == 1) {
        give(outs, 0, tn_vdot(s, x, y));
        return;
    }
    if (is_complex(dtype)) x = tn_conj(s, x);
    give(outs, 0, tn_sum_dim(s, tn_mul(s, x, y), TN_INTS(arg_int(args, 2))));
}

/* ---- blocks ---- */

/* Sizes [1, ..., a0, 1, a1, 1] or [1, ..., 1, a0, 1, a1]: `first` says which of each pair is a's size. */
static tn_ints interleaved(tn_scope *s, tn_ints size, int64_t rank, int64_t first)
{
    int64_t *to = tni_scope_ints(s, 2 * rank);
    for (int64_t i = 0; to && i < rank; i++) {
        int64_t at = i - (rank - size.count);
        to[2 * i + first] = at < 0 ? 1 : size.data[at];
        to[2 * i + 1 - first] = 1;
    }
    return (tn_ints){to, to ? 2 * rank : 0};
}

void composite_kron(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1);
    int64_t rank = rank_of(a) > rank_of(b) ? rank_of(a) : rank_of(b), *size = tni_scope_ints(s, rank);
    tn_ints in_a = interleaved(s, sizes_of(a), rank, 0), in_b = interleaved(s, sizes_of(b), rank, 1);
    if (tn_scope_failed(s)) return;
    for (int64_t i = 0; i < rank; i++) size[i] = in_a.data[2 * i] * in_b.data[2 * i + 1];
    give(outs, 0,
         tn_reshape(s, tn_mul(s, tn_reshape(s, a, in_a), tn_reshape(s, b, in_b)), (tn_ints){size, rank}));
}

/* Each matrix is padded to the full width; then they are stacked. */
void composite_block_diag(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensors list = arg_tensors(args, 0);
    tn_tensor **rows = tni_scope_tensors(s, list.count);
    int64_t width = 0, left = 0;
    tn_dtype dtype = 0;
    if (!rows) return;
    for (int64_t i = 0; i < list.count; i++) {
        tn_tensor *t = list.data[i];
        if (rank_of(t) > 2) {
            tni_scope_failf(
                s, TN_E_SHAPE,
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input %lld has %lld "
                "dimensions",
                (long long)i, (long long)rank_of(t));
            return;
        }
        width += rank_of(t) ? tni_sizes(t)[rank_of(t) - 1] : 1;
        dtype = i ? tn_promote_types(dtype, dtype_of(t)) : dtype_of(t);
    }
    for (int64_t i = 0; i < list.count; i++) {
        tn_tensor *t = list.data[i];
        int64_t columns = rank_of(t) ? tni_sizes(t)[rank_of(t) - 1] : 1;
        int64_t height = rank_of(t) == 2 ? tni_sizes(t)[0] : 1;
        t = tn_reshape(s, tni_cast(s, t, dtype), TN_INTS(height, columns));
        rows[i] = tn_constant_pad_nd(s, t, TN_INTS(left, width - left - columns));
        left += columns;
    }
    if (list.count)
        give(outs, 0, tn_cat(s, (tn_tensors){rows, list.count}));
    else
        give(outs, 0, tn_empty(s, TN_INTS(1, 0)));
}
