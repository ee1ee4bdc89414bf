/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of pointwise operators' arguments beyond promotion. */
#include <math.h>
#include <string.h>
#include "ops/infer/infer.h"

static int32_t is_bool(const tn_tensor *t)
{
    return t->desc.dtype == TN_BOOL;
}

static __attribute__((noinline)) int32_t check_alpha(tni_frame *f)
{
    const tn_tensor *a = f->args[0].as.tensor, *b = f->args[1].as.tensor;
    uint32_t tag = f->args[2].tag;
    int32_t category = tni_dtype_category(f->call_dtype);
    if (strcmp(f->op->base->schema->name, "add") != 0) {
        if (is_bool(a) && is_bool(b))
            return tni_error(TN_E_DTYPE,
                             "Subtraction, the `-` operator, with two bool tensors is not supported. Use "
                             "the `^` or `logical_xor()` operator instead.");
        if (is_bool(a) || is_bool(b))
            return tni_error(TN_E_DTYPE,
                             "Subtraction, the `-` operator, with a bool tensor is not supported. If you are "
                             "trying to invert a mask, use the `~` or `logical_not()` operator instead.");
    }
    if (tag == TN_TAG_BOOL && f->call_dtype != TN_BOOL)
        return tni_error(TN_E_DTYPE, "Boolean alpha only supported for Boolean results.");
    if (category <= TNI_CATEGORY_INT && (tag == TN_TAG_FLOAT || tag == TN_TAG_COMPLEX))
        return tni_error(TN_E_DTYPE,
                         "For integral input tensors, argument alpha must not be a floating point number.");
    if (category != TNI_CATEGORY_COMPLEX && tag == TN_TAG_COMPLEX)
        return tni_error(TN_E_DTYPE,
                         "For non-complex input tensors, argument alpha must not be a complex number.");
    return tni_check_fits(f, f->args[2], f->call_dtype);
}

int32_t infer_alpha(tni_frame *f)
{
    const tn_value *v = f->args; /* a small integer fits all dtypes but bool */
    if (v[2].tag == TN_TAG_INT && v[2].as.i >= -128 && v[2].as.i < 128 && !is_bool(v[0].as.tensor) &&
        !is_bool(v[1].as.tensor))
        return TN_OK;
    return check_alpha(f);
}

/* The scalars fit the dtype of the computation. */
int32_t infer_scalars(tni_frame *f)
{
    return tni_check_scalars(f, wide_dtype(f->call_dtype));
}

/* The scalars fit the dtype of the elements. */
int32_t infer_element_scalars(tni_frame *f)
{
    return tni_check_scalars(f, f->call_dtype);
}

/* hardtanh (self, min_val, max_val): unsigned elements have no negative limits. */
int32_t infer_hardtanh(tni_frame *f)
{
    if (f->call_dtype == TN_UINT8 && (tn_value_as_int(f->args[1]) < 0 || tn_value_as_int(f->args[2]) < 0))
        return tni_error(TN_E_ARGUMENT, "cannot do hardtanh on an unsigned type with negative limits");
    return infer_element_scalars(f);
}

/* Whether argument i has the dtype of self. A number in the place of a tensor takes it. */
static int32_t is_like_self(const tni_frame *f, uint32_t i)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *t = tni_arg_tensor(f, i);
    return dtype_of(self) == dtype_of(t) || (self->desc.flags | t->desc.flags) & TN_DESC_WRAPPED;
}

/* heaviside (self, values): no promotion. */
int32_t infer_heaviside(tni_frame *f)
{
    if (is_like_self(f, 1)) return TN_OK;
    return tni_fail(f, TN_E_DTYPE, "heaviside is not yet implemented for tensors with different dtypes.");
}

/* lerp takes no other dtype than self's for the argument `name`. */
static int32_t check_lerp(tni_frame *f, uint32_t i, const char *name)
{
    if (is_like_self(f, i)) return TN_OK;
    return tni_fail(f, TN_E_DTYPE, "expected dtype %s for `%s` but got dtype %s",
                    tni_dtype_cpp_name(dtype_of(tni_arg_tensor(f, 0))), name,
                    tni_dtype_cpp_name(dtype_of(tni_arg_tensor(f, i))));
}

/* (self, end, weight): a weight without dimensions may have any dtype. */
int32_t infer_lerp(tni_frame *f)
{
    TNI_TRY(check_lerp(f, 1, "end"));
    return rank_of(tni_arg_tensor(f, 2)) ? check_lerp(f, 2, "weight") : TN_OK;
}

int32_t infer_lerp_scalar(tni_frame *f)
{
    TNI_TRY(check_lerp(f, 1, "end"));
    return infer_scalars(f);
}

/* gelu (self, approximate) and gelu_backward (grad_output, self, approximate). */
int32_t infer_gelu(tni_frame *f)
{
    const char *approximate = tni_arg_string(f, f->op->base->n_args - 1);
    if (!strcmp(approximate, "none") || !strcmp(approximate, "tanh")) return TN_OK;
    return tni_fail(f, TN_E_ARGUMENT, "approximate argument must be either none or tanh, got %s",
                    approximate);
}

static int32_t check_slope_of_result(tni_frame *f, const char *name, double slope, uint32_t is_result)
{
    if (slope >= 0 || !tni_arg_bool(f, is_result)) return infer_scalars(f);
    return tni_fail(f, TN_E_ARGUMENT,
                    "In-place %s backward calculation is triggered with a negative slope which is not "
                    "supported. This is caused by calling in-place forward function with a negative slope, "
                    "please call out-of-place version instead.",
                    name);
}

/* (grad_output, self, negative_slope, self_is_result): a result does not tell on which side of 0 its input was. */
int32_t infer_leaky_relu_backward(tni_frame *f)
{
    return check_slope_of_result(f, "leakyReLu", tn_value_as_float(f->args[2]), 3);
}

/* (grad_output, alpha, scale, input_scale, is_result, self_or_result). */
int32_t infer_elu_backward(tni_frame *f)
{
    return check_slope_of_result(f, "elu", tn_value_as_float(f->args[1]), 4);
}

/* _prelu_kernel (self, weight): no promotion. */
int32_t infer_prelu_kernel(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *weight = tni_arg_tensor(f, 1);
    if (dtype_of(self) == dtype_of(weight)) return TN_OK;
    return tni_error(TN_E_DTYPE, "Found dtype %s but expected %s", tni_dtype_error_name(dtype_of(weight)),
                     tni_dtype_error_name(dtype_of(self)));
}

int32_t infer_no_bool_negation(tni_frame *f)
{
    if (f->call_dtype != TN_BOOL) return TN_OK;
    return tni_error(TN_E_DTYPE,
                     "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
                     "invert a mask, use the `~` or `logical_not()` operator instead.");
}

/* softshrink (self, lambd): lambd is a finite value of the dtype, not negative. */
int32_t infer_softshrink(tni_frame *f)
{
    double lambd = tn_value_as_float(f->args[1]), most = tni_largest(f->call_dtype);
    TNI_TRY(tni_check_fits(f, f->args[1], TN_FLOAT64));
    if (lambd >= 0 && lambd <= most && isfinite(lambd)) return TN_OK;
    return tni_fail(f, TN_E_ARGUMENT, "lambda must be in range [0, %g] for input dtype %s, but found %g",
                    most, tni_dtype_error_name(f->call_dtype), lambd);
}

/* rrelu (self, lower, upper, ...): the bounds of the slopes in training are finite, and in order. */
int32_t infer_rrelu(tni_frame *f)
{
    double lower = tn_value_as_float(f->args[1]), upper = tn_value_as_float(f->args[2]);
    TNI_TRY(tni_check_scalars(f, wide_dtype(dtype_of(tni_arg_tensor(f, 0)))));
    if (!isfinite(lower))
        return tni_fail(f, TN_E_ARGUMENT, "rrelu: lower bound must be finite, got %g", lower);
    if (!isfinite(upper))
        return tni_fail(f, TN_E_ARGUMENT, "rrelu: upper bound must be finite, got %g", upper);
    if (lower <= upper) return TN_OK;
    return tni_fail(f, TN_E_ARGUMENT, "Lower bound should be less than or equal to the upper bound");
}

/* rrelu_with_noise (self, noise, lower, upper, ...). */
int32_t infer_rrelu_with_noise(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    const tn_tensor *noise = tni_arg_tensor(f, 1);
    tni_text a, b;
    TNI_TRY(tni_check_scalars(f, wide_dtype(dtype_of(self))));
    if (!same_sizes(self, noise))
        return tni_fail(
            f, TN_E_SHAPE,
            "noise tensor shape must match self tensor shape. Got self.shape = %s noise.shape = %s",
            tni_sizes_text(self, &a), tni_sizes_text(noise, &b));
    return tni_out_like(f, 0, self, 0);
}

int32_t infer_polygamma(tni_frame *f)
{
    if (tni_arg_int(f, 0) >= 0) return TN_OK;
    return tni_fail(f, TN_E_ARGUMENT, "polygamma(n, x) does not support negative n.");
}

/* float_power (self, exponent) of scalars or tensors is a composite: its rule checks the dtype of a given output. */
int32_t infer_float_power(tni_frame *f)
{
    tn_dtype dtype = TN_FLOAT64;
    for (uint32_t i = 0; i < 2; i++) {
        const tn_tensor *t = tni_arg_tensor(f, i);
        if (t ? is_complex(dtype_of(t)) : f->args[i].tag == TN_TAG_COMPLEX) dtype = TN_COMPLEX128;
    }
    int32_t inplace = f->op->form == TNI_FORM_INPLACE;
    const tn_tensor *out = inplace ? tni_arg_tensor(f, 0) : f->given[0];
    if (!out || dtype_of(out) == dtype) return TN_OK;
    return tni_error(TN_E_DTYPE,
                     "the %s given to %s has dtype %s but the operation's result requires dtype %s",
                     inplace ? "base" : "output", inplace ? "float_power_" : "float_power",
                     tni_dtype_error_name(dtype_of(out)), tni_dtype_error_name(dtype));
}

/* pow: bool has the powers 0 and 1; integers and half types have exponents of their dtype. */
int32_t infer_pow(tni_frame *f)
{
    int32_t is_number = f->args[1].tag != TN_TAG_TENSOR;
    if (f->call_dtype == TN_BOOL && !(is_number && (uint64_t)tn_value_as_int(f->args[1]) <= 1))
        return tni_error(TN_E_DTYPE, "\"%s\" not implemented for 'Bool'", f->op->base->schema->name);
    if (is_number && (is_integer(f->call_dtype) || wide_dtype(f->call_dtype) != f->call_dtype))
        return tni_check_fits(f, f->args[1], f->call_dtype);
    return TN_OK;
}

int32_t infer_sign(tni_frame *f)
{
    if (!is_complex(f->call_dtype)) return TN_OK;
    return tni_fail(
        f, TN_E_DTYPE,
        "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn "
        "instead.");
}

int32_t infer_abs(tni_frame *f)
{
    tn_dtype dtype = dtype_of(tni_arg_tensor(f, 0));
    if (f->given[0] && !is_complex(dtype) && dtype_of(f->given[0]) != dtype)
        return tni_error(TN_E_DTYPE, "Found dtype %s but expected %s",
                         tni_dtype_error_name(dtype_of(f->given[0])), tni_dtype_error_name(dtype));
    if (!is_inplace(f) || !is_complex(dtype)) return TN_OK;
    return tni_fail(f, TN_E_DTYPE, "In-place abs is not supported for complex tensors.");
}

int32_t infer_addcdiv(tni_frame *f)
{
    if (!is_integer(dtype_of(tni_arg_tensor(f, 1))) || !is_integer(dtype_of(tni_arg_tensor(f, 2))))
        return infer_scalars(f);
    return tni_fail(
        f, TN_E_DTYPE,
        "Integer division with addcdiv is no longer supported, and in a future  release addcdiv "
        "will perform a true division of tensor1 and tensor2. The historic addcdiv behavior can "
        "be implemented as (input + value * torch.trunc(tensor1 / tensor2)).to(input.dtype) for "
        "integer inputs and as (input + value * tensor1 / tensor2) for float inputs. The future addcdiv "
        "behavior is just the latter implementation: (input + value * tensor1 / tensor2), for all dtypes.");
}
