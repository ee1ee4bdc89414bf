/* SPDX-License-Identifier: Apache-2.0 */
/* Promotion of pointwise operators with a rule of their own. */
#include <string.h>
#include <tenon/ops.h>
#include "ops/infer/infer.h"

static void add_argument(const tni_frame *f, tni_promotion *p, uint32_t i)
{
    const tn_value *v = &f->args[i];
    if (v->tag == TN_TAG_TENSOR)
        tni_promotion_add(p, dtype_of(v->as.tensor), rank_of(v->as.tensor) == 0,
                          (v->as.tensor->desc.flags & TN_DESC_WRAPPED) != 0);
    else if (v->tag != TN_TAG_NONE)
        tni_promotion_add(p, tni_dtype_of_scalar(*v, tni_default_dtype(f->ctx)), 1, 1);
}

/* Result type of arguments `first` to `end` - 1, scalars included. */
static tn_dtype common_of(const tni_frame *f, uint32_t first, uint32_t end)
{
    tni_promotion p = {0};
    for (uint32_t i = first; i < end; i++) add_argument(f, &p, i);
    return tni_promotion_result(&p, tni_default_dtype(f->ctx));
}

static int32_t set_dtypes(tni_frame *f, tn_dtype call, tn_dtype out)
{
    f->call_dtype = call;
    for (uint32_t i = 0; i < f->op->base->n_returns; i++) f->meta[i].dtype = out;
    return TN_OK;
}

/* pow with a scalar, clamp: scalars take part in promotion. */
int32_t promote_scalars(tni_frame *f)
{
    tn_dtype dtype = common_of(f, 0, f->n_args);
    if (f->op->base->number == TN_OP_POW_TENSOR_SCALAR) {
        if (is_integer(dtype) && dtype != TN_BOOL && tni_arg_int(f, 1) < 0)
            return tni_fail(f, TN_E_ARGUMENT, "Integers to negative integer powers are not allowed.");
        return set_dtypes(f, dtype, dtype);
    }
    if (is_complex(dtype)) return tni_fail(f, TN_E_DTYPE, "clamp is not supported for complex types");
    uint32_t number = f->op->base->number;
    if ((number == TN_OP_CLAMP || number == TN_OP_CLAMP_TENSOR) && !tni_arg_given(f, 1) &&
        !tni_arg_given(f, 2))
        return tni_fail(f, TN_E_ARGUMENT, "torch.clamp: At least one of 'min' or 'max' must not be None");
    return set_dtypes(f, dtype, dtype);
}

/* The number that a tensor argument was made of. */
static tn_value wrapped_number(const tn_tensor *t)
{
    const void *at = t->desc.host;
    switch (dtype_of(t)) {
    case TN_BOOL:
        return tn_value_bool(*(const uint8_t *)at);
    case TN_INT64:
        return tn_value_int(*(const int64_t *)at);
    case TN_COMPLEX128:
        return tn_value_complex(at);
    default:
        return tn_value_float(*(const double *)at);
    }
}

/* A number given as self or other has to fit the dtype; half types take a larger one as infinite, as in ATen. */
static int32_t check_where_numbers(const tni_frame *f, tn_dtype dtype)
{
    if (dtype == TN_FLOAT16 || dtype == TN_BFLOAT16) return TN_OK;
    for (uint32_t i = 1; i < 3; i++) {
        const tn_tensor *t = tni_arg_tensor(f, i);
        if (t->desc.flags & TN_DESC_WRAPPED && t->desc.host)
            TNI_TRY(tni_check_fits(f, wrapped_number(t), dtype));
    }
    return TN_OK;
}

int32_t promote_where(tni_frame *f)
{
    tn_dtype condition = dtype_of(tni_arg_tensor(f, 0)), dtype = common_of(f, 1, 3);
    if (condition != TN_BOOL && condition != TN_UINT8)
        return tni_fail(f, TN_E_DTYPE,
                        "where expected condition to be a boolean tensor, but got a tensor with dtype %s",
                        tni_dtype_error_name(condition));
    f->keep_dtype = TNI_KEEP(0);
    TNI_TRY(check_where_numbers(f, dtype));
    return set_dtypes(f, dtype, dtype);
}

/* Without a rounding mode integers promote to float. */
int32_t promote_div_mode(tni_frame *f)
{
    const char *mode = tni_arg_string(f, 2);
    tn_dtype dtype = common_of(f, 0, 2);
    if (mode && strcmp(mode, "trunc") && strcmp(mode, "floor"))
        return tni_fail(f, TN_E_ARGUMENT,
                        "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '%s'",
                        mode);
    if (mode && (is_complex(dtype) || dtype == TN_BOOL))
        return tni_fail(f, TN_E_UNSUPPORTED, "\"div_%s\" not implemented for '%s'", mode,
                        tni_dtype_error_name(dtype));
    if (!mode && is_integer(dtype)) dtype = tni_default_dtype(f->ctx);
    return set_dtypes(f, dtype, dtype);
}

int32_t promote_angle(tni_frame *f)
{
    tn_dtype dtype = dtype_of(tni_arg_tensor(f, 0));
    if (is_integer(dtype)) dtype = tni_default_dtype(f->ctx);
    return set_dtypes(f, dtype, tni_dtype_to_real(dtype));
}

/* complex (real, imag), polar (abs, angle). */
int32_t promote_complex(tni_frame *f)
{
    tn_dtype a = dtype_of(tni_arg_tensor(f, 0)), b = dtype_of(tni_arg_tensor(f, 1));
    int32_t legal = (a == TN_FLOAT16 || a == TN_FLOAT32 || a == TN_FLOAT64) &&
                    (b == TN_FLOAT16 || b == TN_FLOAT32 || b == TN_FLOAT64);
    if (!legal)
        return tni_fail(f, TN_E_DTYPE,
                        "Expected both inputs to be Half, Float or Double tensors but got %s and %s",
                        tni_dtype_error_name(a), tni_dtype_error_name(b));
    if (a != b)
        return tni_fail(f, TN_E_DTYPE,
                        "Expected object of scalar type %s but got scalar type %s for second argument",
                        tni_dtype_error_name(a), tni_dtype_error_name(b));
    return set_dtypes(f, a, tni_dtype_to_complex(a));
}

int32_t promote_frexp(tni_frame *f)
{
    tn_dtype dtype = dtype_of(tni_arg_tensor(f, 0));
    if (!is_float(dtype)) return tni_fail(f, TN_E_DTYPE, "torch.frexp() only supports floating-point dtypes");
    f->call_dtype = dtype;
    f->meta[0].dtype = dtype;
    f->meta[1].dtype = TN_INT32;
    return TN_OK;
}
