/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: dropout (N. Srivastava et al., 2014) of elements or of whole channels. Alpha dropout (G.
 * Klambauer et al., "Self-normalizing neural networks", 2017) keeps mean and variance of selu's outputs.
 */
#include <math.h>
#include <tenon/random.h>
#include "ops/composite/composite.h"

/* Ones with probability 1 - p, one draw for each element or for each channel. */
static tn_tensor *make_noise(tn_scope *s, tn_tensor *input, double p, int32_t channels)
{
    int64_t *sizes = tni_scope_ints_copy(s, sizes_of(input));
    if (!sizes) return NULL;
    for (int64_t d = 2; channels && d < rank_of(input); d++) sizes[d] = 1;
    tn_tensor *noise = tni_empty_on(s, input, 0, (tn_ints){sizes, rank_of(input)});
    return tni_fill_random(s, noise, TN_RANDOM_BERNOULLI, tn_value_float(1 - p), tn_value_float(0), NULL)
               ? noise
               : NULL;
}

static void dropout(tn_scope *s, const tn_value *args, int32_t channels, int32_t alpha, tn_value *outs)
{
    tn_tensor *input = arg_tensor(args, 0);
    double p = arg_float(args, 1), negative = 1.7580993408473766; /* minus the limit of selu: scale * alpha */
    if (p == 0 || !arg_bool(args, 2) || tn_tensor_numel(input) == 0) return give(outs, 0, input);
    if (p == 1) return give(outs, 0, tn_mul(s, input, tni_zeros_on(s, input, 0, sizes_of(input))));
    if (channels && rank_of(input) < 2)
        return (void)tn_scope_fail(s, TN_E_SHAPE,
                                   "Feature dropout requires at least 2 dimensions in the input");
    if (!is_float(dtype_of(input)) && !is_complex(dtype_of(input)))
        return (void)tni_scope_failf(s, TN_E_DTYPE,
                                     "result type Float can't be cast to the desired output type %s",
                                     tni_dtype_error_name(dtype_of(input)));
    tn_tensor *noise = make_noise(s, input, p, channels);
    if (!alpha) return give(outs, 0, tn_mul(s, input, tn_div_scalar(s, noise, 1 - p)));
    double a = 1 / sqrt((negative * negative * p + 1) * (1 - p));
    tn_tensor *shift =
        tn_add_scalar(s, tn_mul_scalar(s, tn_sub_scalar(s, noise, 1), negative * a), negative * a * p);
    give(outs, 0, tn_add(s, tn_mul(s, input, tn_mul_scalar(s, noise, a)), shift));
}

void composite_dropout(tn_scope *s, const tn_value *args, tn_value *outs)
{
    dropout(s, args, 0, 0, outs);
}

void composite_alpha_dropout(tn_scope *s, const tn_value *args, tn_value *outs)
{
    dropout(s, args, 0, 1, outs);
}

void composite_feature_dropout(tn_scope *s, const tn_value *args, tn_value *outs)
{
    dropout(s, args, 1, 0, outs);
}

void composite_feature_alpha_dropout(tn_scope *s, const tn_value *args, tn_value *outs)
{
    dropout(s, args, 1, 1, outs);
}

/* (input, p, train): absent `train` means training. */
void composite_native_dropout(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *input = arg_tensor(args, 0), *mask = tni_empty_on(s, input, TN_BOOL, sizes_of(input));
    double keep = 1 - arg_float(args, 1);
    if (arg_given(args, 2) && !arg_bool(args, 2)) {
        give(outs, 0, tn_clone(s, input));
        return give(outs, 1, mask ? tn_prim_fill(s, mask, 1) : NULL);
    }
    tni_fill_random(s, mask, TN_RANDOM_BERNOULLI, tn_value_float(keep), tn_value_float(0), NULL);
    give(outs, 0, tn_mul_scalar(s, tn_mul(s, input, mask), keep == 0 ? 0.0 : 1 / keep));
    give(outs, 1, mask);
}

/* (grad_output, mask, scale), for dtypes without a kernel: integers become the default dtype. */
void composite_native_dropout_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *kept = tn_mul(s, arg_tensor(args, 0), arg_tensor(args, 1));
    give(outs, 0, tn_mul_scalar(s, kept, arg_float(args, 2)));
}
