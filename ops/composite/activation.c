/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: powers, conditions, activations. */
#include <math.h>
#include "ops/composite/compute_dtype.h"

void composite_square(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_pow_tensor_scalar(s, arg_tensor(args, 0), 2));
}

/* ---- float_power: float64 or complex128, for inputs of any dtype ---- */

static tn_dtype power_dtype(const tn_value *args)
{
    for (uint32_t i = 0; i < 2; i++) {
        const tn_tensor *t = arg_tensor(args, i);
        if (t ? is_complex(dtype_of(t)) : args[i].tag == TN_TAG_COMPLEX) return TN_COMPLEX128;
    }
    return TN_FLOAT64;
}

static tn_value float_number(tn_value v)
{
    return v.tag == TN_TAG_COMPLEX ? v : tn_value_float(tn_value_as_float(v));
}

void composite_float_power(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_dtype dtype = power_dtype(args);
    give(outs, 0,
         tn_pow(s, tni_cast(s, arg_tensor(args, 0), dtype), tni_cast(s, arg_tensor(args, 1), dtype)));
}

void composite_float_power_scalar(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *exponent = tni_cast(s, arg_tensor(args, 1), power_dtype(args));
    give(outs, 0, tn_pow_scalar(s, float_number(args[0]), exponent));
}

void composite_float_power_tensor_scalar(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *base = tni_cast(s, arg_tensor(args, 0), power_dtype(args));
    give(outs, 0, tn_pow_tensor_scalar(s, base, float_number(args[1])));
}

/* An integer `other` is not cast to a half type: the product may fit where the power alone does not. */
void composite_ldexp(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *other = arg_tensor(args, 1);
    tn_dtype dtype = tn_result_type(s, self, other);
    if (dtype && !is_float(dtype) && !is_complex(dtype)) dtype = tni_default_dtype(s->ctx);
    if (is_float(dtype_of(other))) other = tni_cast(s, other, dtype);
    give(outs, 0, tni_cast(s, tn_mul(s, self, tn_pow_scalar(s, 2.0, other)), dtype));
}

/* ---- conditions ---- */

/* The scalars are passed for tensors: the dispatcher wraps them. */
void composite_where_scalar(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_scope_call(s, TN_OP_WHERE, args, 3, outs, 1);
}

void composite_where_nonzero(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_list(outs, 0, tn_nonzero_numpy(s, arg_tensor(args, 0)));
}

/* ---- activations ---- */

void composite_relu6(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_hardtanh(s, arg_tensor(args, 0), .min_val = TN_SCALAR(0), .max_val = TN_SCALAR(6)));
}

/* Klambauer et al., "Self-Normalizing Neural Networks": the fixed point of mean 0 and variance 1. */
void composite_selu(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         tn_elu(s, arg_tensor(args, 0), .alpha = TN_SCALAR(1.6732632423543772848170429916717),
                .scale = TN_SCALAR(1.0507009873554804934193349852946), .input_scale = TN_SCALAR(1.0)));
}

void composite_celu(tn_scope *s, const tn_value *args, tn_value *outs)
{
    double alpha = arg_float(args, 1);
    if (alpha == 0) {
        tn_scope_fail(s, TN_E_ARGUMENT, "ZeroDivisionError: alpha cannot be 0 for CELU");
        return;
    }
    give(outs, 0,
         tn_elu(s, arg_tensor(args, 0), .alpha = args[1], .scale = TN_SCALAR(1.0),
                .input_scale = TN_SCALAR(1.0 / alpha)));
}

void composite_log_sigmoid(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_log_sigmoid_forward(s, arg_tensor(args, 0)).output);
}

/* min(x, 0) - log(1 + e^-|x|), which neither overflows nor cancels. The buffer is e^-|x|. */
void composite_log_sigmoid_forward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *x = wide(s, self);
    tn_tensor *buffer = tn_exp(s, tn_neg(s, tn_abs(s, x)));
    tn_tensor *out = tn_sub(s, tn_clamp_max(s, x, 0), tn_log1p(s, buffer));
    give(outs, 0, tni_cast(s, out, dtype_of(self)));
    give(outs, 1, tni_cast(s, buffer, dtype_of(self)));
}

static int32_t check_prelu(tn_scope *s, const tn_tensor *self, const tn_tensor *weight)
{
    int64_t channels = rank_of(self) > 1 ? tni_sizes(self)[1] : 1;
    if (dtype_of(self) != dtype_of(weight))
        return tni_scope_failf(s, TN_E_DTYPE, "prelu: Type promoting not supported. Got %s and %s",
                               tni_dtype_error_name(dtype_of(self)), tni_dtype_error_name(dtype_of(weight)));
    if (tn_tensor_numel(weight) != 1 && rank_of(self) == 0)
        return tn_scope_fail(s, TN_E_SHAPE, "Not allow zero-dim input tensor.");
    if (tn_tensor_numel(weight) != 1 && channels != tn_tensor_numel(weight))
        return tni_scope_failf(
            s, TN_E_SHAPE,
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
            "%lld and channel size = %lld.",
            (long long)tn_tensor_numel(weight), (long long)channels);
    if (rank_of(weight) > 1)
        return tni_scope_failf(s, TN_E_SHAPE,
                               "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = %lld",
                               (long long)rank_of(weight));
    return TN_OK;
}

void composite_prelu(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *weight = arg_tensor(args, 1);
    if (check_prelu(s, self, weight)) return;
    if (rank_of(self) != rank_of(weight))
        weight = tn_reshape(
            s, weight, tni_ones_but(s, rank_of(self), rank_of(self) > 1 ? 1 : -1, tn_tensor_numel(weight)));
    give(outs, 0, tn__prelu_kernel(s, self, weight));
}

void composite_prelu_kernel_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = arg_tensor(args, 0), *self = arg_tensor(args, 1), *weight = arg_tensor(args, 2);
    tn_tensor *positive = tn_gt_scalar(s, self, 0);
    give(outs, 0, tn_where(s, positive, grad, tn_mul(s, weight, grad)));
    give(outs, 1, tn_where_scalarself(s, positive, 0, tn_mul(s, self, grad)));
}

void composite_rrelu(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    give(outs, 0,
         tn_rrelu_with_noise(s, self, tn_empty_like(s, self), .lower = args[1], .upper = args[2],
                             .training = arg_bool(args, 3), .generator = arg_generator(args, 4)));
}

/* The slopes are written to noise: random ones in training where the element is not positive, else 1. */
void composite_rrelu_with_noise(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *noise = arg_tensor(args, 1), *slope;
    double lower = arg_float(args, 2), upper = arg_float(args, 3);
    if (!arg_bool(args, 4)) {
        give(outs, 0, tn_leaky_relu(s, self, .negative_slope = TN_SCALAR((lower + upper) / 2)));
        return;
    }
    slope = tni_empty_on(s, self, 0, sizes_of(self));
    slope = tni_fill_random(s, slope, TN_RANDOM_UNIFORM, tn_value_float(lower), tn_value_float(upper),
                            arg_generator(args, 5));
    slope = tn_where_scalarother(s, tn_le_scalar(s, self, 0), slope, 1.0);
    tn_copy_(s, noise, slope);
    give(outs, 0, tn_mul(s, self, slope));
}

void composite_rrelu_with_noise_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = arg_tensor(args, 0);
    double lower = arg_float(args, 3), upper = arg_float(args, 4);
    if (arg_bool(args, 5))
        give(outs, 0, tn_mul(s, grad, arg_tensor(args, 2)));
    else
        give(outs, 0,
             tn_leaky_relu_backward(s, grad, arg_tensor(args, 1), (lower + upper) / 2, arg_bool(args, 6)));
}
