/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax, gates and normalisation, with their gradients. */
#include <string.h>
#include <tenon/ops.h>
#include "ops/infer/infer.h"

static int32_t out_row_major(tni_frame *f, uint32_t i, const tn_tensor *t, tn_dtype dtype)
{
    return tni_out(f, i, dtype, t->desc.rank, sizes_of(t));
}

/* ---- softmax ---- */

/* _softmax, _log_softmax (self, dim, half_to_float). */
int32_t infer_softmax(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int32_t log = f->op->base->number == TN_OP__LOG_SOFTMAX;
    tn_dtype dtype = dtype_of(self);
    int64_t dim;
    TNI_TRY(tni_arg_dim(f, 1, rank_of(self), &dim));
    if (!is_float(dtype) && self->numel)
        return tni_fail(f, TN_E_UNSUPPORTED, "\"%s%s\" not implemented for '%s'", log ? "log_" : "",
                        dim + 1 >= rank_of(self) ? "softmax_lastdim_kernel_impl" : "softmax_kernel_impl",
                        tni_dtype_error_name(dtype));
    if (tni_arg_bool(f, 2) && TN_DTYPE_BITS(dtype) == 16) dtype = TN_FLOAT32;
    f->call_dtype = dtype;
    return out_row_major(f, 0, self, dtype);
}

/* (grad_output, output, dim, input_dtype). */
int32_t infer_softmax_backward(tni_frame *f)
{
    const tn_tensor *grad = tni_arg_tensor(f, 0), *output = tni_arg_tensor(f, 1);
    tn_dtype dtype = tni_arg_dtype(f, 3);
    int64_t dim;
    tni_text a, b;
    if (!same_sizes(grad, output))
        return tni_fail(f, TN_E_SHAPE,
                        "Expected tensor for argument #1 'grad' to have same size as tensor for argument #2 "
                        "'output'; but %s does not equal %s",
                        tni_sizes_text(grad, &a), tni_sizes_text(output, &b));
    TNI_TRY(tni_check_dtype_like(f, 1, grad));
    TNI_TRY(tni_arg_dim(f, 2, rank_of(grad), &dim));
    if (dtype && dtype != dtype_of(grad) &&
        (dtype_of(grad) != TN_FLOAT32 || !is_float(dtype) || TN_DTYPE_BITS(dtype) != 16))
        return tni_fail(
            f, TN_E_DTYPE,
            "expected input and grad types to match, or input to be at::Half and grad to be at::Float");
    return out_row_major(f, 0, grad, dtype ? dtype : dtype_of(grad));
}

/* The sizes of glu's result: half of self's in the dimension in argument i. */
static int32_t glu_sizes(tni_frame *f, const tn_tensor *self, uint32_t i, int64_t *sizes)
{
    int64_t dim;
    if (rank_of(self) == 0) return tni_fail(f, TN_E_SHAPE, "glu does not support 0-dimensional tensors");
    TNI_TRY(tni_arg_dim(f, i, rank_of(self), &dim));
    memcpy(sizes, sizes_of(self), self->desc.rank * sizeof(int64_t));
    if (sizes[dim] % 2)
        return tni_fail(f, TN_E_SHAPE, "Halving dimension must be even, but dimension %lld is size %lld",
                        (long long)dim, (long long)sizes[dim]);
    sizes[dim] /= 2;
    return TN_OK;
}

int32_t infer_glu(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t sizes[TN_MAX_RANK];
    TNI_TRY(glu_sizes(f, self, 1, sizes));
    return tni_out(f, 0, dtype_of(self), self->desc.rank, sizes);
}

/* (grad_output, self, dim). */
int32_t infer_glu_backward(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 1);
    int64_t sizes[TN_MAX_RANK];
    TNI_TRY(glu_sizes(f, self, 2, sizes));
    TNI_TRY(tni_check_dtype_like(f, 0, self));
    TNI_TRY(tni_check_sizes(f, 0, rank_of(self), sizes));
    return tni_out_gradient(f, 1, 1);
}

int32_t infer_log_sigmoid_forward(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    TNI_TRY(tni_out_like(f, 0, self, 0));
    return tni_out_like(f, 1, self, 0);
}

/* (grad_output, self, weight): both gradients before they are summed to the weight's size. */
int32_t infer_prelu_kernel_backward(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 1);
    TNI_TRY(tni_out_like(f, 0, self, 0));
    return tni_out_like(f, 1, self, 0);
}

/* ---- normalisation ---- */

/* Parameters and statistics, arguments `first` to `last`, have the input's dtype, or are float32 beside half types. */
static int32_t check_parameters(tni_frame *f, const tn_tensor *input, uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i <= last; i++) {
        const tn_tensor *t = tni_arg_tensor(f, i);
        int32_t half = TN_DTYPE_BITS(dtype_of(input)) == 16;
        if (!t || dtype_of(t) == dtype_of(input) || (half && dtype_of(t) == TN_FLOAT32)) continue;
        if (half)
            return tni_fail(
                f, TN_E_DTYPE,
                "mixed dtype (CPU): expect parameter to have scalar type of Float (got '%s' of %s)",
                f->op->base->schema->args[i].name, tni_dtype_error_name(dtype_of(t)));
        return tni_fail(f, TN_E_DTYPE, "expected scalar type %s but found %s (argument '%s')",
                        tni_dtype_error_name(dtype_of(input)), tni_dtype_error_name(dtype_of(t)),
                        f->op->base->schema->args[i].name);
    }
    return TN_OK;
}

/* Statistics of half types with float32 parameters are float32. */
static tn_dtype statistics_dtype(const tn_tensor *input, const tn_tensor *parameter)
{
    return parameter && TN_DTYPE_BITS(dtype_of(input)) == 16 && dtype_of(parameter) == TN_FLOAT32
               ? TN_FLOAT32
               : dtype_of(input);
}

static int32_t same_as_list(const tn_tensor *t, tn_ints list)
{
    return rank_of(t) == list.count && !memcmp(sizes_of(t), list.data, (size_t)list.count * sizeof(int64_t));
}

static int32_t check_layer_norm(tni_frame *f, const tn_tensor *input, tn_ints shape, const tn_tensor *weight,
                                const tn_tensor *bias)
{
    tni_text a, b;
    int64_t first = rank_of(input) - shape.count;
    if (!shape.count)
        return tni_fail(f, TN_E_SHAPE,
                        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least "
                        "one element, but got normalized_shape = []");
    if (weight && !same_as_list(weight, shape))
        return tni_fail(f, TN_E_SHAPE,
                        "Expected weight to be of same shape as normalized_shape, but got weight of shape %s "
                        "and normalized_shape = %s",
                        tni_sizes_text(weight, &a), tni_list_text(shape, &b));
    if (bias && !same_as_list(bias, shape))
        return tni_fail(f, TN_E_SHAPE,
                        "Expected bias to be of same shape as normalized_shape, but got bias of shape %s and "
                        "normalized_shape = %s",
                        tni_sizes_text(bias, &a), tni_list_text(shape, &b));
    if (first < 0 || memcmp(sizes_of(input) + first, shape.data, (size_t)shape.count * sizeof(int64_t))) {
        const char *list = tni_list_text(
            shape, &a); /* "[2, 2]"; ATen's text has the second list without its first bracket */
        return tni_fail(
            f, TN_E_SHAPE,
            "Given normalized_shape=%s, expected input with shape [*, %s, but got input of size%s", list,
            list + 1, tni_sizes_text(input, &b));
    }
    return TN_OK;
}

/* The gradient is argument 0, the input argument 1; statistic i has an element for each row of the input. */
static int32_t check_layer_norm_gradient(tni_frame *f, uint32_t i, tn_ints shape)
{
    const tn_tensor *input = tni_arg_tensor(f, 1);
    TNI_TRY(tni_check_dtype_like(f, 0, input));
    TNI_TRY(tni_check_sizes_like(f, 0, input));
    return tni_check_count(f, i, tni_product(sizes_of(input), 0, rank_of(input) - shape.count));
}

/* native_layer_norm (input, normalized_shape, weight, bias, eps). */
int32_t infer_layer_norm(tni_frame *f)
{
    const tn_tensor *input = tni_arg_tensor(f, 0), *weight = tni_arg_tensor(f, 2);
    tn_ints shape = tni_arg_ints(f, 1);
    int64_t sizes[TN_MAX_RANK];
    TNI_TRY(check_layer_norm(f, input, shape, weight, tni_arg_tensor(f, 3)));
    TNI_TRY(check_parameters(f, input, 2, 3));
    for (int64_t d = 0; d < rank_of(input); d++)
        sizes[d] = d < rank_of(input) - shape.count ? sizes_of(input)[d] : 1;
    tn_dtype dtype = statistics_dtype(input, weight ? weight : tni_arg_tensor(f, 3));
    f->keep_dtype = ~TNI_KEEP(0);
    TNI_TRY(out_row_major(f, 0, input, dtype_of(input)));
    TNI_TRY(tni_out(f, 1, dtype, input->desc.rank, sizes));
    return tni_out(f, 2, dtype, input->desc.rank, sizes);
}

/* _fused_rms_norm (input, normalized_shape, weight, eps). The sums of half types are float32. */
int32_t infer_fused_rms_norm(tni_frame *f)
{
    const tn_tensor *input = tni_arg_tensor(f, 0);
    tn_ints shape = tni_arg_ints(f, 1);
    int64_t sizes[TN_MAX_RANK];
    TNI_TRY(check_layer_norm(f, input, shape, tni_arg_tensor(f, 2), NULL));
    if (!is_float(dtype_of(input)) && !is_complex(dtype_of(input)))
        return tni_fail(f, TN_E_DTYPE, "\"rms_norm\" not implemented for '%s'",
                        tni_dtype_error_name(dtype_of(input)));
    for (int64_t d = 0; d < rank_of(input); d++)
        sizes[d] = d < rank_of(input) - shape.count ? sizes_of(input)[d] : 1;
    f->keep_dtype = UINT32_MAX;
    TNI_TRY(out_row_major(f, 0, input, dtype_of(input)));
    return tni_out(f, 1, TN_DTYPE_BITS(dtype_of(input)) == 16 ? TN_FLOAT32 : dtype_of(input),
                   input->desc.rank, sizes);
}

/* (grad_out, input, normalized_shape, rstd, weight, output_mask). */
int32_t infer_fused_rms_norm_backward(tni_frame *f)
{
    const tn_tensor *input = tni_arg_tensor(f, 1), *weight = tni_arg_tensor(f, 4);
    tn_ints shape = tni_arg_ints(f, 2);
    TNI_TRY(check_layer_norm(f, input, shape, weight, NULL));
    TNI_TRY(check_layer_norm_gradient(f, 3, shape));
    TNI_TRY(check_parameters(f, input, 3, 4));
    f->keep_dtype = UINT32_MAX;
    if (tni_arg_wants(f, 5, 0)) TNI_TRY(out_row_major(f, 0, input, dtype_of(input)));
    if (!tni_arg_wants(f, 5, 1) || !weight) return TN_OK;
    return tni_out(f, 1, dtype_of(weight), weight->desc.rank, sizes_of(weight));
}

/* (grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask). */
int32_t infer_layer_norm_backward(tni_frame *f)
{
    const tn_tensor *input = tni_arg_tensor(f, 1), *weight = tni_arg_tensor(f, 5);
    tn_ints shape = tni_arg_ints(f, 2);
    tn_dtype dtype = weight ? dtype_of(weight) : dtype_of(input);
    TNI_TRY(check_layer_norm(f, input, shape, weight, tni_arg_tensor(f, 6)));
    for (uint32_t i = 3; i < 5; i++) TNI_TRY(check_layer_norm_gradient(f, i, shape));
    TNI_TRY(check_parameters(f, input, 3, 6));
    f->keep_dtype = UINT32_MAX;
    if (tni_arg_wants(f, 7, 0)) TNI_TRY(out_row_major(f, 0, input, dtype_of(input)));
    if (tni_arg_wants(f, 7, 1)) TNI_TRY(tni_out(f, 1, dtype, (uint32_t)shape.count, shape.data));
    if (tni_arg_wants(f, 7, 2)) TNI_TRY(tni_out(f, 2, dtype, (uint32_t)shape.count, shape.data));
    return TN_OK;
}

static int32_t check_vector(tni_frame *f, const tn_tensor *t, const char *name, int64_t channels,
                            const tn_tensor *input)
{
    tni_text a, b;
    if (!t || (rank_of(t) == 1 && t->numel == channels)) return TN_OK;
    return tni_fail(f, TN_E_SHAPE,
                    "Expected %s to be a vector of size equal to the number of channels in input, but got %s "
                    "of shape %s and input of shape %s",
                    name, name, tni_sizes_text(t, &a), tni_sizes_text(input, &b));
}

/* N, C, HxW and group are the arguments from `first` on; `bias` may be NULL. */
static int32_t check_group_norm(tni_frame *f, uint32_t first, const tn_tensor *input, const tn_tensor *weight,
                                const tn_tensor *bias)
{
    const int64_t sizes[] = {tni_arg_int(f, first), tni_arg_int(f, first + 1), tni_arg_int(f, first + 2)};
    int64_t groups = tni_arg_int(f, first + 3), numel;
    tni_text text;
    if (groups <= 0)
        return tni_fail(f, TN_E_ARGUMENT, "Expected num groups to be greater than 0, got %lld",
                        (long long)groups);
    if (sizes[1] % groups)
        return tni_fail(f, TN_E_SHAPE,
                        "Expected number of channels in input to be divisible by num_groups, but got input "
                        "of shape %s and num_groups=%lld",
                        tni_sizes_text(input, &text), (long long)groups);
    TNI_TRY(check_vector(f, weight, "weight", sizes[1], input));
    TNI_TRY(check_vector(f, bias, "bias", sizes[1], input));
    TNI_TRY(tni_numel(3, sizes, &numel));
    if (numel != input->numel)
        return tni_fail(f, TN_E_SHAPE, "the input of shape %s does not have N * C * HxW elements",
                        tni_sizes_text(input, &text));
    return TN_OK;
}

/* native_group_norm (input, weight, bias, N, C, HxW, group, eps). */
int32_t infer_group_norm(tni_frame *f)
{
    const tn_tensor *input = tni_arg_tensor(f, 0), *weight = tni_arg_tensor(f, 1),
                    *bias = tni_arg_tensor(f, 2);
    const int64_t sizes[] = {tni_arg_int(f, 3), tni_arg_int(f, 6)};
    tn_dtype dtype = statistics_dtype(input, weight ? weight : bias);
    TNI_TRY(check_group_norm(f, 3, input, weight, bias));
    TNI_TRY(check_parameters(f, input, 1, 2));
    f->keep_dtype = ~TNI_KEEP(0);
    TNI_TRY(tni_out_channels(f, 0, input, dtype_of(input), rank_of(input), sizes_of(input)));
    TNI_TRY(tni_out(f, 1, dtype, 2, sizes));
    return tni_out(f, 2, dtype, 2, sizes);
}

/* Gradients of the input and of two vectors of channels, as the mask in argument `mask` asks for. */
static int32_t out_gradients(tni_frame *f, uint32_t mask, const tn_tensor *input, const tn_tensor *weight,
                             int64_t channels)
{
    tn_dtype dtype = weight ? dtype_of(weight) : dtype_of(input);
    f->keep_dtype = UINT32_MAX;
    if (tni_arg_wants(f, mask, 0))
        TNI_TRY(tni_out_channels(f, 0, input, dtype_of(input), rank_of(input), sizes_of(input)));
    if (tni_arg_wants(f, mask, 1)) TNI_TRY(tni_out(f, 1, dtype, 1, &channels));
    if (tni_arg_wants(f, mask, 2)) TNI_TRY(tni_out(f, 2, dtype, 1, &channels));
    return TN_OK;
}

/* (grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask). */
int32_t infer_group_norm_backward(tni_frame *f)
{
    const tn_tensor *input = tni_arg_tensor(f, 1), *weight = tni_arg_tensor(f, 4);
    TNI_TRY(check_group_norm(f, 5, input, weight, NULL));
    TNI_TRY(tni_check_dtype_like(f, 0, input));
    TNI_TRY(tni_check_sizes_like(f, 0, input));
    TNI_TRY(check_parameters(f, input, 2, 4));
    for (uint32_t i = 2; i < 4; i++) TNI_TRY(tni_check_count(f, i, tni_arg_int(f, 5) * tni_arg_int(f, 8)));
    return out_gradients(f, 9, input, weight, tni_arg_int(f, 6));
}

/* Refuses what is not a vector with an element for each channel; an absent one passes. */
static int32_t check_channels(tni_frame *f, uint32_t i, int64_t channels)
{
    TNI_TRY(tni_check_count(f, i, channels));
    return tni_check_sizes(f, i, 1, &channels);
}

/* Outputs of batch_norm; statistics that are not computed are empty. */
static int32_t out_batch_norm(tni_frame *f, const tn_tensor *parameter, int32_t training)
{
    const tn_tensor *input = tni_arg_tensor(f, 0);
    tn_dtype dtype = statistics_dtype(input, parameter);
    int64_t channels = training ? sizes_of(input)[1] : 0;
    f->keep_dtype = ~TNI_KEEP(0);
    TNI_TRY(tni_out_channels(f, 0, input, dtype_of(input), rank_of(input), sizes_of(input)));
    TNI_TRY(tni_out(f, 1, dtype, 1, &channels));
    return tni_out(f, 2, dtype, 1, &channels);
}

/* An empty batch has no statistics. */
static int32_t check_not_empty(tni_frame *f, const tn_tensor *input)
{
    tni_text text;
    if (input->numel) return TN_OK;
    return tni_fail(f, TN_E_SHAPE, "input tensor must have at least one element, but got input_sizes = %s",
                    tni_sizes_text(input, &text));
}

/* (input, weight, bias, running_mean, running_var, training, ...), or without running statistics. */
int32_t infer_batch_norm(tni_frame *f)
{
    const tn_tensor *input = tni_arg_tensor(f, 0), *weight = tni_arg_tensor(f, 1);
    int32_t has_running = f->n_args == 8, training = tni_arg_bool(f, has_running ? 5 : 3);
    if (rank_of(input) < 2)
        return tni_fail(f, TN_E_SHAPE, "expected at least 2D input (got %uD input)", input->desc.rank);
    if (training) TNI_TRY(check_not_empty(f, input));
    int64_t channels = sizes_of(input)[1];
    TNI_TRY(check_channels(f, 1, channels));
    TNI_TRY(check_channels(f, 2, channels));
    TNI_TRY(check_parameters(f, input, 1, has_running ? 4 : 2));
    if (has_running) {
        TNI_TRY(check_channels(f, 3, channels));
        TNI_TRY(check_channels(f, 4, channels));
        if (!tni_arg_tensor(f, 3) != !tni_arg_tensor(f, 4))
            return tni_fail(f, TN_E_ARGUMENT,
                            "running_mean and running_var must either both be None or neither be None");
        if (!training && (!tni_arg_tensor(f, 3) || !tni_arg_tensor(f, 4)))
            return tni_fail(f, TN_E_ARGUMENT,
                            "running_mean and running_var must be defined in evaluation mode");
        if (!weight) weight = tni_arg_tensor(f, 3);
    }
    return out_batch_norm(f, weight, training || !has_running);
}

/* _batch_norm_with_update (input, weight, bias, running_mean, running_var, momentum, eps). */
int32_t infer_batch_norm_reserve(tni_frame *f)
{
    const tn_tensor *input = tni_arg_tensor(f, 0);
    const int64_t none = 0;
    if (rank_of(input) < 2)
        return tni_fail(f, TN_E_SHAPE, "expected at least 2D input (got %uD input)", input->desc.rank);
    TNI_TRY(check_not_empty(f, input));
    for (uint32_t i = 1; i < 5; i++) TNI_TRY(check_channels(f, i, sizes_of(input)[1]));
    TNI_TRY(check_parameters(f, input, 1, 4));
    TNI_TRY(out_batch_norm(f, tni_arg_tensor(f, 3), 1));
    return tni_out(f, 3, TN_UINT8, 1, &none);
}

/* (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask, ...). */
int32_t infer_batch_norm_backward(tni_frame *f)
{
    const tn_tensor *input = tni_arg_tensor(f, 1);
    if (rank_of(input) < 2)
        return tni_fail(f, TN_E_SHAPE, "expected at least 2D input (got %uD input)", input->desc.rank);
    TNI_TRY(tni_check_dtype_like(f, 0, input));
    TNI_TRY(tni_check_sizes_like(f, 0, input));
    TNI_TRY(check_parameters(f, input, 2, 6));
    for (uint32_t i = 2; i < 7; i++) {
        const tn_tensor *t = tni_arg_tensor(f, i);
        int32_t unused =
            i > 4 && t && !t->numel && !tni_arg_bool(f, 7); /* statistics that evaluation does not save */
        if (!unused) TNI_TRY(check_channels(f, i, sizes_of(input)[1]));
    }
    return out_gradients(f, 9, input, tni_arg_tensor(f, 2), sizes_of(input)[1]);
}

/* v and g are the arguments from `first` on: g has an element for each slice of v along the dimension in argument `at`. */
static int32_t check_weight_norm(tni_frame *f, uint32_t first, uint32_t at)
{
    const tn_tensor *v = tni_arg_tensor(f, first);
    int64_t dim;
    TNI_TRY(tni_arg_dim(f, at, rank_of(v), &dim));
    if (!rank_of(v))
        return tni_fail(f, TN_E_SHAPE, "argument 'v': must have a dimension (got a tensor without any)");
    return tni_check_count(f, first + 1, sizes_of(v)[dim]);
}

/* _weight_norm_interface (v, g, dim): the result and the norms. */
int32_t infer_weight_norm(tni_frame *f)
{
    const tn_tensor *v = tni_arg_tensor(f, 0), *g = tni_arg_tensor(f, 1);
    TNI_TRY(check_weight_norm(f, 0, 2));
    TNI_TRY(tni_check_dtype_like(f, 1, v));
    TNI_TRY(out_row_major(f, 0, v, dtype_of(v)));
    int32_t is_half = dtype_of(g) == TN_BFLOAT16 || dtype_of(g) == TN_FLOAT16;
    return out_row_major(f, 1, g, is_half ? TN_FLOAT32 : dtype_of(g));
}

/* (grad_w, saved_v, saved_g, saved_norms, dim). */
int32_t infer_weight_norm_backward(tni_frame *f)
{
    const tn_tensor *v = tni_arg_tensor(f, 1), *g = tni_arg_tensor(f, 2);
    TNI_TRY(check_weight_norm(f, 1, 4));
    TNI_TRY(tni_check_dtype_like(f, 0, v));
    TNI_TRY(tni_check_dtype_like(f, 2, v));
    TNI_TRY(tni_check_sizes_like(f, 0, v));
    TNI_TRY(tni_check_sizes_like(f, 3, g));
    f->keep_dtype = TNI_KEEP(3);
    TNI_TRY(out_row_major(f, 0, v, dtype_of(v)));
    return out_row_major(f, 1, g, dtype_of(g));
}
