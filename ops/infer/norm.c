/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax, normalisation, losses, and gradients that have the shape of an argument. */
#include <string.h>
#include <tenon/ops.h>
#include "ops/infer/infer.h"

/* Tensors of indices or flags keep their dtype. */
static void keep_integers(tni_frame *f)
{
    for (uint32_t i = 0; i < f->n_args && i < 32; i++) {
        const tn_tensor *t = tni_arg_tensor(f, i);
        if (t && is_integer(dtype_of(t))) f->keep_dtype |= TNI_KEEP(i);
    }
}

static int32_t out_row_major(tni_frame *f, uint32_t i, const tn_tensor *t, tn_dtype dtype)
{
    return tni_out(f, i, dtype, t->desc.rank, sizes_of(t));
}

static int32_t out_like_argument(tni_frame *f, uint32_t argument)
{
    const tn_tensor *t = tni_arg_tensor(f, argument);
    keep_integers(f);
    return tni_out_channels(f, 0, t, dtype_of(t), rank_of(t), sizes_of(t));
}

static int32_t check_gradient_dtype(const tni_frame *f)
{
    tn_dtype grad = dtype_of(tni_arg_tensor(f, 0)), self = dtype_of(tni_arg_tensor(f, 1));
    if (grad == self) return TN_OK;
    return tni_fail(f, TN_E_DTYPE, "expected dtype %s for `grad_output` but got dtype %s",
                    tni_dtype_error_name(self), tni_dtype_error_name(grad));
}

/* Gradients (grad_output, self, ...). */
int32_t infer_like_argument_self(tni_frame *f)
{
    TNI_TRY(check_gradient_dtype(f));
    return out_like_argument(f, 1);
}

/* The same, row-major whatever the strides of self. */
int32_t infer_row_major_like_self(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 1);
    TNI_TRY(check_gradient_dtype(f));
    keep_integers(f);
    return out_row_major(f, 0, self, dtype_of(self));
}

/* _segment_reduce_backward (grad, output, data, ...). */
int32_t infer_like_argument_data(tni_frame *f)
{
    return out_like_argument(f, 2);
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
    const tn_tensor *grad = tni_arg_tensor(f, 0);
    tn_dtype dtype = tni_arg_dtype(f, 3);
    int64_t dim;
    TNI_TRY(tni_arg_dim(f, 2, rank_of(grad), &dim));
    if (dtype && dtype != dtype_of(grad) && (dtype_of(grad) != TN_FLOAT32 || TN_DTYPE_BITS(dtype) != 16))
        return tni_fail(
            f, TN_E_DTYPE,
            "expected input and grad types to match, or input to be at::Half and grad to be at::Float");
    return out_row_major(f, 0, grad, dtype ? dtype : dtype_of(grad));
}

int32_t infer_glu(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t dim, sizes[TN_MAX_RANK];
    if (rank_of(self) == 0) return tni_fail(f, TN_E_SHAPE, "glu does not support 0-dimensional tensors");
    TNI_TRY(tni_arg_dim(f, 1, rank_of(self), &dim));
    memcpy(sizes, sizes_of(self), self->desc.rank * sizeof(int64_t));
    if (sizes[dim] % 2)
        return tni_fail(f, TN_E_SHAPE, "Halving dimension must be even, but dimension %lld is size %lld",
                        (long long)dim, (long long)sizes[dim]);
    sizes[dim] /= 2;
    return tni_out(f, 0, dtype_of(self), self->desc.rank, sizes);
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

/* native_layer_norm (input, normalized_shape, weight, bias, eps). */
int32_t infer_layer_norm(tni_frame *f)
{
    const tn_tensor *input = tni_arg_tensor(f, 0), *weight = tni_arg_tensor(f, 2);
    tn_ints shape = tni_arg_ints(f, 1);
    int64_t sizes[TN_MAX_RANK];
    TNI_TRY(check_layer_norm(f, input, shape, weight, tni_arg_tensor(f, 3)));
    for (int64_t d = 0; d < rank_of(input); d++)
        sizes[d] = d < rank_of(input) - shape.count ? sizes_of(input)[d] : 1;
    tn_dtype dtype = statistics_dtype(input, weight ? weight : tni_arg_tensor(f, 3));
    f->keep_dtype = ~TNI_KEEP(0);
    TNI_TRY(out_row_major(f, 0, input, dtype_of(input)));
    TNI_TRY(tni_out(f, 1, dtype, input->desc.rank, sizes));
    return tni_out(f, 2, dtype, input->desc.rank, sizes);
}

static int32_t wants(const tni_frame *f, uint32_t mask, uint32_t i)
{
    return f->args[mask].tag == TN_TAG_BOOLS && i < f->args[mask].count && f->args[mask].as.bools[i];
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
    f->keep_dtype = UINT32_MAX;
    if (wants(f, 5, 0)) TNI_TRY(out_row_major(f, 0, input, dtype_of(input)));
    if (!wants(f, 5, 1) || !weight) return TN_OK;
    return tni_out(f, 1, dtype_of(weight), weight->desc.rank, sizes_of(weight));
}

/* (grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask). */
int32_t infer_layer_norm_backward(tni_frame *f)
{
    const tn_tensor *input = tni_arg_tensor(f, 1), *weight = tni_arg_tensor(f, 5);
    tn_ints shape = tni_arg_ints(f, 2);
    tn_dtype dtype = weight ? dtype_of(weight) : dtype_of(input);
    f->keep_dtype = UINT32_MAX;
    if (wants(f, 7, 0)) TNI_TRY(out_row_major(f, 0, input, dtype_of(input)));
    if (wants(f, 7, 1)) TNI_TRY(tni_out(f, 1, dtype, (uint32_t)shape.count, shape.data));
    if (wants(f, 7, 2)) TNI_TRY(tni_out(f, 2, dtype, (uint32_t)shape.count, shape.data));
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

/* native_group_norm (input, weight, bias, N, C, HxW, group, eps). */
int32_t infer_group_norm(tni_frame *f)
{
    const tn_tensor *input = tni_arg_tensor(f, 0), *weight = tni_arg_tensor(f, 1),
                    *bias = tni_arg_tensor(f, 2);
    int64_t n = tni_arg_int(f, 3), channels = tni_arg_int(f, 4), space = tni_arg_int(f, 5),
            groups = tni_arg_int(f, 6);
    const int64_t sizes[] = {n, groups};
    tn_dtype dtype = statistics_dtype(input, weight ? weight : bias);
    tni_text text;
    if (groups <= 0)
        return tni_fail(f, TN_E_ARGUMENT, "Expected num groups to be greater than 0, got %lld",
                        (long long)groups);
    if (channels % groups)
        return tni_fail(f, TN_E_SHAPE,
                        "Expected number of channels in input to be divisible by num_groups, but got input "
                        "of shape %s and num_groups=%lld",
                        tni_sizes_text(input, &text), (long long)groups);
    TNI_TRY(check_vector(f, weight, "weight", channels, input));
    TNI_TRY(check_vector(f, bias, "bias", channels, input));
    if (n * channels * space != input->numel)
        return tni_fail(f, TN_E_SHAPE, "the input of shape %s does not have N * C * HxW elements",
                        tni_sizes_text(input, &text));
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
    if (wants(f, mask, 0))
        TNI_TRY(tni_out_channels(f, 0, input, dtype_of(input), rank_of(input), sizes_of(input)));
    if (wants(f, mask, 1)) TNI_TRY(tni_out(f, 1, dtype, 1, &channels));
    if (wants(f, mask, 2)) TNI_TRY(tni_out(f, 2, dtype, 1, &channels));
    return TN_OK;
}

/* (grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask). */
int32_t infer_group_norm_backward(tni_frame *f)
{
    return out_gradients(f, 9, tni_arg_tensor(f, 1), tni_arg_tensor(f, 4), tni_arg_int(f, 6));
}

static int32_t check_channels(tni_frame *f, uint32_t i, const char *name, int64_t channels)
{
    const tn_tensor *t = tni_arg_tensor(f, i);
    if (!t || t->numel == channels) return TN_OK;
    return tni_fail(f, TN_E_SHAPE, "%s should contain %lld elements not %lld", name, (long long)channels,
                    (long long)t->numel);
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

/* (input, weight, bias, running_mean, running_var, training, ...), or without running statistics. */
int32_t infer_batch_norm(tni_frame *f)
{
    const tn_tensor *input = tni_arg_tensor(f, 0), *weight = tni_arg_tensor(f, 1);
    int32_t has_running = f->n_args == 8, training = tni_arg_bool(f, has_running ? 5 : 3);
    if (rank_of(input) < 2)
        return tni_fail(f, TN_E_SHAPE, "expected at least 2D input (got %uD input)", input->desc.rank);
    int64_t channels = sizes_of(input)[1];
    TNI_TRY(check_channels(f, 1, "weight", channels));
    TNI_TRY(check_channels(f, 2, "bias", channels));
    if (has_running) {
        TNI_TRY(check_channels(f, 3, "running_mean", channels));
        TNI_TRY(check_channels(f, 4, "running_var", channels));
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
    TNI_TRY(check_channels(f, 3, "running_mean", sizes_of(input)[1]));
    TNI_TRY(check_channels(f, 4, "running_var", sizes_of(input)[1]));
    TNI_TRY(out_batch_norm(f, tni_arg_tensor(f, 3), 1));
    return tni_out(f, 3, TN_UINT8, 1, &none);
}

/* (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask, ...).
 */
int32_t infer_batch_norm_backward(tni_frame *f)
{
    const tn_tensor *input = tni_arg_tensor(f, 1);
    if (rank_of(input) < 2)
        return tni_fail(f, TN_E_SHAPE, "expected at least 2D input (got %uD input)", input->desc.rank);
    return out_gradients(f, 9, input, tni_arg_tensor(f, 2), sizes_of(input)[1]);
}

/* _weight_norm_interface (v, g, dim): the result and the norms. */
int32_t infer_weight_norm(tni_frame *f)
{
    const tn_tensor *v = tni_arg_tensor(f, 0), *g = tni_arg_tensor(f, 1);
    TNI_TRY(out_row_major(f, 0, v, dtype_of(v)));
    return out_row_major(f, 1, g, dtype_of(g) == TN_BFLOAT16 ? TN_FLOAT32 : dtype_of(g));
}

/* (grad_w, saved_v, saved_g, saved_norms, dim). */
int32_t infer_weight_norm_backward(tni_frame *f)
{
    const tn_tensor *v = tni_arg_tensor(f, 1), *g = tni_arg_tensor(f, 2);
    f->keep_dtype = TNI_KEEP(3);
    TNI_TRY(out_row_major(f, 0, v, dtype_of(v)));
    return out_row_major(f, 1, g, dtype_of(g));
}

/* ---- losses ---- */

static int32_t check_class_weight(tni_frame *f, const tn_tensor *weight, int64_t classes)
{
    tni_text text;
    if (!weight || (rank_of(weight) == 1 && weight->numel == classes)) return TN_OK;
    return tni_fail(f, TN_E_SHAPE,
                    "weight tensor should be defined either for all %lld classes or no classes but got "
                    "weight tensor of shape: %s",
                    (long long)classes, tni_sizes_text(weight, &text));
}

static int32_t check_nll(tni_frame *f, const tn_tensor *self, const tn_tensor *target, int32_t spatial)
{
    const tn_tensor *weight = tni_arg_tensor(f, 2);
    tni_text a, b;
    int32_t same = 1;
    if (!spatial && (rank_of(self) < 1 || rank_of(self) > 2))
        return tni_fail(f, TN_E_SHAPE, "input tensor should be 1D or 2D");
    if (!spatial && rank_of(target) > 1)
        return tni_fail(f, TN_E_SHAPE, "0D or 1D target tensor expected, multi-target not supported");
    if (spatial && rank_of(target) != 3)
        return tni_fail(
            f, TN_E_SHAPE,
            "only batches of spatial targets supported (3D tensors) but got targets of dimension: %u",
            target->desc.rank);
    if (spatial && rank_of(self) != 4)
        return tni_fail(
            f, TN_E_SHAPE,
            "only batches of spatial inputs supported (4D tensors), but got input of dimension: %u",
            self->desc.rank);
    if (dtype_of(target) != TN_INT64 && dtype_of(target) != TN_UINT8)
        return tni_fail(f, TN_E_DTYPE, "expected target dtype to be Long or Byte, but got %s",
                        tni_dtype_error_name(dtype_of(target)));
    for (int64_t d = 0; d < rank_of(self) && rank_of(self) > 1; d++) {
        if (d != 1) same &= sizes_of(self)[d] == (rank_of(target) ? sizes_of(target)[d ? d - 1 : 0] : 1);
    }
    if (!same)
        return tni_fail(f, TN_E_SHAPE, "size mismatch (got input: %s, target: %s)", tni_sizes_text(self, &a),
                        tni_sizes_text(target, &b));
    TNI_TRY(check_class_weight(f, weight, sizes_of(self)[rank_of(self) == 1 ? 0 : 1]));
    if (weight && dtype_of(weight) != dtype_of(self))
        return tni_fail(f, TN_E_DTYPE, "expected scalar type %s but found %s",
                        tni_dtype_error_name(dtype_of(self)), tni_dtype_error_name(dtype_of(weight)));
    if (!is_float(dtype_of(self)))
        return tni_fail(f, TN_E_UNSUPPORTED, "\"nll_loss\" not implemented for '%s'",
                        tni_dtype_error_name(dtype_of(self)));
    return TN_OK;
}

/* (self, target, weight, reduction, ignore_index): the loss and the sum of the weights used. */
int32_t infer_nll_loss(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *target = tni_arg_tensor(f, 1);
    int32_t each = tni_arg_int(f, 3) == 0 && rank_of(self) > 1;
    TNI_TRY(check_nll(f, self, target, f->op->base->number == TN_OP_NLL_LOSS2D_FORWARD));
    f->keep_dtype = TNI_KEEP(1);
    TNI_TRY(tni_out(f, 0, dtype_of(self), each ? target->desc.rank : 0, sizes_of(target)));
    return tni_out(f, 1, dtype_of(self), 0, NULL);
}

static int32_t check_margin_input(tni_frame *f, const tn_tensor *self)
{
    int64_t rank = rank_of(self);
    tni_text text;
    if (rank <= 2 && (rank == 0 || sizes_of(self)[rank - 1] != 0)) return TN_OK;
    return tni_fail(f, TN_E_SHAPE,
                    "Expected non-empty vector or matrix with optional 0-dim batch size, but got: %s",
                    tni_sizes_text(self, &text));
}

/* multi_margin_loss (self, target, p, margin, weight, reduction). */
int32_t infer_multi_margin_loss(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *target = tni_arg_tensor(f, 1),
                    *weight = tni_arg_tensor(f, 4);
    int64_t rows = rank_of(self) == 2 ? sizes_of(self)[0] : 1, p = tni_arg_int(f, 2);
    tni_text a, b;
    if (p != 1 && p != 2) return tni_fail(f, TN_E_ARGUMENT, "only p == 1 and p == 2 supported");
    TNI_TRY(check_margin_input(f, self));
    if (rank_of(target) > 1 || target->numel != rows)
        return tni_fail(f, TN_E_SHAPE, "inconsistent target size, expected %lld but got %s", (long long)rows,
                        tni_sizes_text(target, &a));
    if (weight && weight->numel != (rank_of(self) ? sizes_of(self)[rank_of(self) - 1] : 1))
        return tni_fail(f, TN_E_SHAPE, "inconsistent weight size, expected %lld but got %s",
                        (long long)(rank_of(self) ? sizes_of(self)[rank_of(self) - 1] : 1),
                        tni_sizes_text(weight, &b));
    f->keep_dtype = TNI_KEEP(1);
    return tni_out(f, 0, dtype_of(self), tni_arg_int(f, 5) == 0 ? target->desc.rank : 0, sizes_of(target));
}

/* multilabel_margin_loss_forward (self, target, reduction). */
int32_t infer_multilabel_margin_loss(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0), *target = tni_arg_tensor(f, 1);
    tni_text a, b;
    TNI_TRY(check_margin_input(f, self));
    if (!same_sizes(target, self))
        return tni_fail(f, TN_E_SHAPE, "inconsistent target size: %s for input of size: %s",
                        tni_sizes_text(target, &a), tni_sizes_text(self, &b));
    f->keep_dtype = TNI_KEEP(1);
    TNI_TRY(
        tni_out(f, 0, dtype_of(self), tni_arg_int(f, 2) == 0 && rank_of(self) == 2 ? 1 : 0, sizes_of(self)));
    return out_row_major(f, 1, target, dtype_of(self));
}
