/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions and scans: which dimensions of argument 0 are reduced, the dtypes. Reducing a dimension of size
 * 0 is refused if the operation has no identity.
 */
#include <math.h>
#include <tenon/ops.h>
#include "ops/infer/infer.h"

static uint64_t all_dims(int64_t rank)
{
    return rank >= 64 ? UINT64_MAX : (UINT64_C(1) << rank) - 1;
}

/* The dims in argument i: an int, a list, or none, which means all. */
static int32_t read_dims(tni_frame *f, uint32_t i)
{
    int64_t rank = rank_of(tni_arg_tensor(f, 0)), dim;
    if (f->args[i].tag == TN_TAG_INT) {
        TNI_TRY(tni_wrap_dim(f->args[i].as.i, rank, &dim));
        f->reduced = UINT64_C(1) << dim;
    } else {
        TNI_TRY(tni_dim_mask(f->args[i], rank, 1, &f->reduced));
    }
    f->reduced &= all_dims(rank);
    return TN_OK;
}

/* Output i without the reduced dimensions, or with ones for them. */
static int32_t out_reduced(tni_frame *f, uint32_t i, tn_dtype dtype)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t sizes[TN_MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t d = 0; d < self->desc.rank; d++) {
        if (!(f->reduced >> d & 1))
            sizes[rank++] = sizes_of(self)[d];
        else if (f->keepdim)
            sizes[rank++] = 1;
    }
    return tni_out(f, i, dtype, rank, sizes);
}

static void reduce_all(tni_frame *f)
{
    f->reduced = all_dims(rank_of(tni_arg_tensor(f, 0)));
}

static int32_t is_base(const tni_frame *f, uint32_t number)
{
    return f->op->base->number == number;
}

/* The operator's name in ATen's errors. */
static int32_t name_length(const tni_frame *f, const char **name)
{
    const char *full = f->op->base->name, *start = full;
    for (const char *p = full; *p; p++) {
        if (p[0] == ':' && p[1] == ':') start = p + 2;
    }
    int32_t n = 0;
    while (start[n] && start[n] != '.') n++;
    *name = start;
    return n;
}

/* Refuses reduced dimensions of size 0; `listed`: the call has a list of dims. */
static int32_t check_not_empty(tni_frame *f, int32_t listed, int32_t hint)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    const char *name;
    int32_t length = name_length(f, &name);
    if (self->numel) return TN_OK;
    if (!listed)
        return tni_fail(f, TN_E_INDEX,
                        "%.*s(): Expected reduction dim to be specified for input.numel() == 0.%s",
                        (int)length, name, hint ? " Specify the reduction dim with the 'dim' argument." : "");
    for (uint32_t d = 0; d < self->desc.rank; d++) {
        if ((f->reduced >> d & 1) && sizes_of(self)[d] == 0)
            return tni_fail(f, TN_E_INDEX, "%.*s(): Expected reduction dim %u to have non-zero size.",
                            (int)length, name, d);
    }
    return TN_OK;
}

/* amax, amin (self, dims, keepdim); max, min (self). */
int32_t infer_reduction(tni_frame *f)
{
    int32_t listed = f->n_args > 1 && tni_arg_ints(f, 1).count > 0;
    if (f->n_args > 1) {
        TNI_TRY(read_dims(f, 1));
        f->keepdim = tni_arg_bool(f, 2);
    } else {
        reduce_all(f);
    }
    TNI_TRY(check_not_empty(f, listed, 1));
    f->call_dtype = dtype_of(tni_arg_tensor(f, 0));
    return out_reduced(f, 0, f->call_dtype);
}

/* sum, nansum, prod: (self, dtype), or (self, dims, keepdim, dtype). */
int32_t infer_reduction_sum(tni_frame *f)
{
    tn_dtype dtype = tni_arg_dtype(f, f->n_args - 1), own = dtype_of(tni_arg_tensor(f, 0));
    if (f->n_args > 2) {
        TNI_TRY(read_dims(f, 1));
        f->keepdim = tni_arg_bool(f, 2);
    } else {
        reduce_all(f);
    }
    if (!dtype && f->given[0]) dtype = dtype_of(f->given[0]);
    if (is_base(f, TN_OP_NANSUM) && is_complex(own))
        return tni_fail(f, TN_E_DTYPE, "nansum does not support complex inputs");
    f->call_dtype = dtype ? dtype : is_integer(own) ? TN_INT64 : own;
    f->identity = is_base(f, TN_OP_PROD) || is_base(f, TN_OP_PROD_DIM);
    return out_reduced(f, 0, f->call_dtype);
}

/* The dtype that a floating output is computed in: its own where it is wider than that of the elements. */
static tn_dtype wider_float(tn_dtype own, tn_dtype given)
{
    return is_float(own) && is_float(given) && tn_promote_types(own, given) == given ? given : own;
}

/* mean: (self, dtype), or (self, dims, keepdim, dtype). */
int32_t infer_reduction_mean(tni_frame *f)
{
    tn_dtype given = tni_arg_dtype(f, f->n_args - 1), dtype = given ? given : dtype_of(tni_arg_tensor(f, 0));
    if (f->n_args > 2) {
        TNI_TRY(read_dims(f, 1));
        f->keepdim = tni_arg_bool(f, 2);
    } else {
        reduce_all(f);
    }
    if (is_integer(dtype))
        return tni_fail(f, TN_E_DTYPE,
                        "mean(): could not infer output dtype. %s dtype must be either a floating point or "
                        "complex dtype. "
                        "Got: %s",
                        given ? "Optional" : "Input", tni_dtype_error_name(dtype));
    if (!given && f->given[0]) dtype = wider_float(dtype, dtype_of(f->given[0]));
    f->call_dtype = dtype;
    f->identity = NAN;
    return out_reduced(f, 0, dtype);
}

/* any, all: (self), (self, dim, keepdim), (self, dims, keepdim) where an empty list reduces nothing. */
int32_t infer_reduction_bool(tni_frame *f)
{
    tn_dtype own = dtype_of(tni_arg_tensor(f, 0)), given = f->given[0] ? dtype_of(f->given[0]) : 0;
    if (f->n_args > 1) {
        f->keepdim = tni_arg_bool(f, 2);
        if (f->args[1].tag != TN_TAG_INTS || f->args[1].count) TNI_TRY(read_dims(f, 1));
    } else {
        reduce_all(f);
    }
    if (given && given != TN_BOOL && given != TN_UINT8)
        return tni_fail(f, TN_E_DTYPE,
                        "Expected out tensor to have dtype bool or unsigned char, but got %s instead",
                        tni_dtype_cpp_name(given));
    if (own == TN_UINT8 && given == TN_BOOL) own = TN_BOOL;
    f->call_dtype = own;
    f->identity = is_base(f, TN_OP_ALL) || is_base(f, TN_OP_ALL_DIM) || is_base(f, TN_OP_ALL_DIMS);
    return out_reduced(f, 0, own == TN_UINT8 ? TN_UINT8 : TN_BOOL);
}

/* argmax, argmin (self, dim, keepdim); count_nonzero (self, dims). */
int32_t infer_reduction_index(tni_frame *f)
{
    TNI_TRY(read_dims(f, 1));
    f->call_dtype = dtype_of(tni_arg_tensor(f, 0));
    if (!is_base(f, TN_OP_COUNT_NONZERO_DIM)) {
        if (f->call_dtype == TN_BOOL)
            return tni_fail(f, TN_E_DTYPE, "%s(): does not support bool input",
                            is_base(f, TN_OP_ARGMAX) ? "argmax" : "argmin");
        f->keepdim = tni_arg_bool(f, 2);
        f->positions = 1;
        TNI_TRY(check_not_empty(f, tni_arg_given(f, 1), 0));
    }
    return out_reduced(f, 0, TN_INT64);
}

/* aminmax (self, dim, keepdim). */
int32_t infer_reduction_pair(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    TNI_TRY(read_dims(f, 1));
    f->keepdim = tni_arg_bool(f, 2);
    f->call_dtype = dtype_of(self);
    if (!tni_arg_given(f, 1) && self->numel == 0)
        return tni_fail(
            f, TN_E_SHAPE,
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.");
    for (uint32_t d = 0; d < self->desc.rank && self->numel == 0; d++) {
        if ((f->reduced >> d & 1) && sizes_of(self)[d] == 0)
            return tni_fail(f, TN_E_INDEX, "Expected reduction dim %u to have non-zero size.", d);
    }
    TNI_TRY(out_reduced(f, 0, f->call_dtype));
    return out_reduced(f, 1, f->call_dtype);
}

/* Refuses empty dimensions for an order without identity. */
static int32_t check_norm_order(tni_frame *f, int32_t listed)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    double order = tni_arg_float(f, 1);
    if (self->numel || (order >= 0 && order != INFINITY)) return TN_OK;
    if (!listed)
        return tni_fail(
            f, TN_E_SHAPE,
            "linalg.vector_norm cannot compute the %g norm on an empty tensor because the operation does not "
            "have an identity",
            order);
    for (uint32_t d = 0; d < self->desc.rank; d++) {
        if ((f->reduced >> d & 1) && sizes_of(self)[d] == 0)
            return tni_fail(
                f, TN_E_SHAPE,
                "linalg.vector_norm cannot compute the %g norm on the dimension %u because this dimension is "
                "empty and the operation does not have an identity",
                order, d);
    }
    return TN_OK;
}

/* linalg_vector_norm (self, ord, dims, keepdim, dtype). */
int32_t infer_reduction_norm(tni_frame *f)
{
    tn_dtype own = dtype_of(tni_arg_tensor(f, 0)), dtype = tni_arg_dtype(f, 4);
    if (is_integer(own))
        return tni_fail(f, TN_E_DTYPE,
                        "linalg.vector_norm: Expected a floating point or complex tensor as input. Got %s",
                        tni_dtype_error_name(own));
    if (f->args[1].tag == TN_TAG_COMPLEX)
        return tni_fail(f, TN_E_ARGUMENT,
                        "linalg.vector_norm: Expected a non-complex scalar as the order of norm.");
    if (dtype && is_complex(own) != is_complex(dtype) && is_complex(own))
        return tni_fail(
            f, TN_E_DTYPE,
            "linalg.vector_norm: the dtype of the input is complex, so the given dtype must be complex, but "
            "got %s",
            tni_dtype_error_name(dtype));
    if (dtype && !is_complex(own) && is_complex(dtype))
        return tni_fail(f, TN_E_DTYPE, "linalg.vector_norm: dtype should be real for real inputs, but got %s",
                        tni_dtype_error_name(dtype));
    if (dtype && tn_promote_types(own, dtype) != dtype)
        return tni_fail(f, TN_E_DTYPE,
                        "linalg.vector_norm: the dtype of the input (%s) should be convertible without "
                        "narrowing to the specified dtype (%s)",
                        tni_dtype_error_name(own), tni_dtype_error_name(dtype));
    TNI_TRY(read_dims(f, 2));
    f->keepdim = tni_arg_bool(f, 3);
    TNI_TRY(check_norm_order(f, tni_arg_ints(f, 2).count > 0));
    f->call_dtype = dtype ? dtype : own;
    return out_reduced(f, 0, tni_dtype_to_real(f->call_dtype));
}

static int32_t start_moments(tni_frame *f)
{
    tn_dtype own = dtype_of(tni_arg_tensor(f, 0));
    const char *name;
    int32_t length = name_length(f, &name);
    if (is_integer(own))
        return tni_fail(
            f, TN_E_DTYPE, "%.*s only support floating point and complex dtypes",
            is_base(f, TN_OP_VAR_CORRECTION) || is_base(f, TN_OP_STD_CORRECTION) ? 11 : (int)length,
            is_base(f, TN_OP_VAR_CORRECTION) || is_base(f, TN_OP_STD_CORRECTION) ? "std and var" : name);
    TNI_TRY(read_dims(f, 1));
    f->keepdim = tni_arg_bool(f, 3);
    f->call_dtype = f->given[0] ? wider_float(own, dtype_of(f->given[0])) : own;
    f->identity = NAN;
    return tni_check_scalars(f, TN_FLOAT64); /* the correction */
}

/* var, std (self, dims, correction, keepdim): real. */
int32_t infer_reduction_real(tni_frame *f)
{
    TNI_TRY(start_moments(f));
    return out_reduced(f, 0, tni_dtype_to_real(f->call_dtype));
}

int32_t infer_reduction_var_mean(tni_frame *f)
{
    TNI_TRY(start_moments(f));
    TNI_TRY(out_reduced(f, 0, tni_dtype_to_real(f->call_dtype)));
    return out_reduced(f, 1, f->call_dtype);
}

/* Values and their indices along one dimension: max.dim, min.dim, median.dim, mode; kthvalue has k before
 * dim. */
int32_t infer_reduction_values(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    uint32_t at = is_base(f, TN_OP_KTHVALUE) ? 2 : 1;
    TNI_TRY(read_dims(f, at));
    f->keepdim = tni_arg_bool(f, at + 1);
    f->call_dtype = dtype_of(self);
    TNI_TRY(check_not_empty(f, 1, 0));
    if (at == 2) {
        int64_t dim, k = tni_arg_int(f, 1);
        TNI_TRY(tni_arg_dim(f, 2, rank_of(self), &dim));
        const int64_t size = rank_of(self) ? sizes_of(self)[dim] : 1;
        if (k < 1 || k > size)
            return tni_fail(
                f, TN_E_INDEX,
                "kthvalue(): selected number k out of range for dimension %lld: got %lld, expected 1 to "
                "%lld",
                (long long)dim, (long long)k, (long long)size);
    }
    TNI_TRY(out_reduced(f, 0, f->call_dtype));
    return out_reduced(f, 1, TN_INT64);
}

int32_t infer_full_reduction(tni_frame *f)
{
    reduce_all(f);
    return out_reduced(f, 0, dtype_of(tni_arg_tensor(f, 0)));
}

/* hash_tensor (self, dims, keepdim, mode). */
int32_t infer_hash_tensor(tni_frame *f)
{
    TNI_TRY(read_dims(f, 1));
    f->keepdim = tni_arg_bool(f, 2);
    if (tni_arg_int(f, 3))
        return tni_fail(f, TN_E_ARGUMENT, "Unknown hash_tensor mode: %lld", (long long)tni_arg_int(f, 3));
    TNI_TRY(check_not_empty(f, tni_arg_ints(f, 1).count > 0, 1));
    f->call_dtype = dtype_of(tni_arg_tensor(f, 0));
    return out_reduced(f, 0, TN_UINT64);
}

/* ---- scans: `reduced` is the dimension of the scan ---- */

static int32_t start_scan(tni_frame *f)
{
    int64_t dim;
    TNI_TRY(tni_arg_dim(f, 1, rank_of(tni_arg_tensor(f, 0)), &dim));
    f->reduced = UINT64_C(1) << dim;
    f->call_dtype = dtype_of(tni_arg_tensor(f, 0));
    return TN_OK;
}

static int32_t out_scan(tni_frame *f, uint32_t i, tn_dtype dtype)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    return tni_out(f, i, dtype, self->desc.rank, sizes_of(self));
}

int32_t infer_scan(tni_frame *f)
{
    TNI_TRY(start_scan(f));
    return out_scan(f, 0, f->call_dtype);
}

/* cumsum, cumprod (self, dim, dtype): integers are computed in int64; a given output keeps its dtype. */
int32_t infer_scan_sum(tni_frame *f)
{
    tn_dtype dtype = tni_arg_dtype(f, 2);
    TNI_TRY(start_scan(f));
    if (dtype && is_inplace(f) && dtype != f->call_dtype)
        return tni_fail(f, TN_E_DTYPE,
                        "Bad in-place call: input tensor dtype %s and output tensor dtype %s should match",
                        tni_dtype_error_name(f->call_dtype), tni_dtype_error_name(dtype));
    if (!dtype && f->given[0]) dtype = dtype_of(f->given[0]);
    if (!dtype) dtype = is_integer(f->call_dtype) ? TN_INT64 : f->call_dtype;
    f->call_dtype = dtype;
    return out_scan(f, 0, dtype);
}

int32_t infer_scan_values(tni_frame *f)
{
    TNI_TRY(start_scan(f));
    TNI_TRY(out_scan(f, 0, f->call_dtype));
    return out_scan(f, 1, TN_INT64);
}
