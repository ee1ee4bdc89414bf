/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of layers, for the reference plugin that mutants.py makes: relu, gelu, native_layer_norm, native_group_norm,
 * softmax, linear, convolution, a part of its gradient, and attention, from their definitions. The reference plugin
 * itself has none, so that the library's composites run on it.
 */
#include "kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int32_t kernel_attention(const tn_call *call, int32_t opcode, reference_failure *failure);
int32_t kernel_convolution(const tn_call *call, int32_t opcode, reference_failure *failure);
int32_t kernel_convolution_backward(const tn_call *call, int32_t opcode, reference_failure *failure);
int32_t kernel_gelu(const tn_call *call, int32_t opcode, reference_failure *failure);
int32_t kernel_group_norm(const tn_call *call, int32_t opcode, reference_failure *failure);
int32_t kernel_layer_norm(const tn_call *call, int32_t opcode, reference_failure *failure);
int32_t kernel_linear(const tn_call *call, int32_t opcode, reference_failure *failure);
int32_t kernel_relu(const tn_call *call, int32_t opcode, reference_failure *failure);
int32_t kernel_softmax(const tn_call *call, int32_t is_log, reference_failure *failure);

int32_t kernel_relu(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_nest *nest = call->nest;
    int64_t index[TN_MAX_RANK] = {0};
    do {
        double x = number_in(DOMAIN_REAL, nest_load(nest, 1, index)).re;
        nest_store(nest, 0, index, number_real(x < 0 ? 0 : x));
    } while (nest_next(nest->rank, nest->sizes, index));
    return TN_OK;
}

int32_t kernel_gelu(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_nest *nest = call->nest;
    int64_t index[TN_MAX_RANK] = {0};
    int tanh_form =
        call->n_args > 1 && call->args[1].tag == TN_TAG_STRING && !strcmp(call->args[1].as.string, "tanh");
    do {
        double x = number_in(DOMAIN_REAL, nest_load(nest, 1, index)).re;
        double y = tanh_form ? 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)))
                             : 0.5 * x * (1 + erf(x / sqrt(2)));
        nest_store(nest, 0, index, number_real(y));
    } while (nest_next(nest->rank, nest->sizes, index));
    return TN_OK;
}

static double load(const tn_tensor_desc *t, const int64_t *index)
{
    return number_in(DOMAIN_REAL, tensor_load(t, index)).re;
}

/* (input, normalized_shape, weight, bias, eps) -> (out, mean, rstd); `index` stands at the first element
 * of a row. */
static void normalise_row(const tn_call *call, int64_t *index, uint32_t outer)
{
    const tn_tensor_desc *x = tensor_argument(call, 0), *weight = tensor_argument(call, 2),
                         *bias = tensor_argument(call, 3);
    uint32_t inner = x->rank - outer;
    double sum = 0, squares = 0, n = 0, eps = tn_value_as_float(call->args[4]);
    int64_t *tail = index + outer;
    do {
        sum += load(x, index);
        n++;
    } while (tensor_next(inner, x->sizes + outer, tail));
    do squares += pow(load(x, index) - sum / n, 2);
    while (tensor_next(inner, x->sizes + outer, tail));
    double rstd = 1 / sqrt(squares / n + eps);
    do {
        double y = (load(x, index) - sum / n) * rstd;
        if (weight) y *= load(weight, tail);
        if (bias) y += load(bias, tail);
        tensor_store(tensor_output(call, 0), index, number_real(y));
    } while (tensor_next(inner, x->sizes + outer, tail));
    tensor_store(tensor_output(call, 1), index, number_real(sum / n));
    tensor_store(tensor_output(call, 2), index, number_real(rstd));
}

int32_t kernel_layer_norm(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_tensor_desc *x = tensor_argument(call, 0);
    int64_t index[TN_MAX_RANK] = {0};
    uint32_t outer = x->rank - call->args[1].count;
    if (tensor_numel(x) == 0) return TN_OK;
    do normalise_row(call, index, outer);
    while (tensor_next(outer, x->sizes, index));
    return TN_OK;
}

/* To the next of the elements of some channels; from the last one back to the first, with 0. */
static int next_of_group(const tn_tensor_desc *x, int64_t channels, int64_t *index)
{
    if (tensor_next(x->rank - 2, x->sizes + 2, index + 2)) return 1;
    if (++index[1] % channels != 0) return 1;
    index[1] -= channels;
    return 0;
}

/* (input, weight, bias, N, C, HxW, group, eps) -> (out, mean, rstd); `index` stands at the first element of a group. */
static void normalise_group(const tn_call *call, int64_t channels, int64_t *index)
{
    const tn_tensor_desc *x = tensor_argument(call, 0), *weight = tensor_argument(call, 1),
                         *bias = tensor_argument(call, 2);
    const int64_t group[2] = {index[0], index[1] / channels};
    double sum = 0, squares = 0, n = 0;
    do {
        sum += load(x, index);
        n++;
    } while (next_of_group(x, channels, index));
    do squares += pow(load(x, index) - sum / n, 2);
    while (next_of_group(x, channels, index));
    double rstd = 1 / sqrt(squares / n + tn_value_as_float(call->args[7]));
    do {
        double y = (load(x, index) - sum / n) * rstd;
        if (weight) y *= load(weight, index + 1);
        if (bias) y += load(bias, index + 1);
        tensor_store(tensor_output(call, 0), index, number_real(y));
    } while (next_of_group(x, channels, index));
    tensor_store(tensor_output(call, 1), group, number_real(sum / n));
    tensor_store(tensor_output(call, 2), group, number_real(rstd));
}

int32_t kernel_group_norm(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_tensor_desc *x = tensor_argument(call, 0);
    const int64_t channels = x->sizes[1] / call->args[6].as.i;
    if (tensor_numel(x) == 0) return TN_OK;
    for (int64_t n = 0; n < x->sizes[0]; n++)
        for (int64_t c = 0; c < x->sizes[1]; c += channels)
            normalise_group(call, channels, (int64_t[TN_MAX_RANK]){n, c});
    return TN_OK;
}

/* (self, dim, half_to_float); `index` stands at the first element of a line along `dim`. */
static void softmax_line(const tn_call *call, int64_t *index, int64_t dim, int is_log)
{
    const tn_tensor_desc *x = tensor_argument(call, 0);
    double greatest = -INFINITY, sum = 0;
    int64_t size = tensor_size(x, dim), *at = &index[dim];
    for (*at = 0; *at < size; ++*at) greatest = fmax(greatest, load(x, index));
    for (*at = 0; *at < size; ++*at) sum += exp(load(x, index) - greatest);
    for (*at = 0; *at < size; ++*at) {
        double shifted = load(x, index) - greatest;
        tensor_store(tensor_output(call, 0), index,
                     number_real(is_log ? shifted - log(sum) : exp(shifted) / sum));
    }
    *at = 0;
}

int32_t kernel_softmax(const tn_call *call, int32_t is_log, reference_failure *failure)
{
    const tn_tensor_desc *x = tensor_argument(call, 0);
    int64_t index[TN_MAX_RANK] = {0}, sizes[TN_MAX_RANK] = {0},
            dim = tensor_dim(x, tn_value_as_int(call->args[1]));
    for (uint32_t d = 0; d < x->rank; d++) sizes[d] = (int64_t)d == dim ? 1 : x->sizes[d];
    if (tensor_numel(x) == 0) return TN_OK;
    do softmax_line(call, index, dim, is_log);
    while (tensor_next(x->rank, sizes, index));
    return TN_OK;
}

/* (input, weight, bias) */
int32_t kernel_linear(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_tensor_desc *x = tensor_argument(call, 0), *weight = tensor_argument(call, 1),
                         *bias = tensor_argument(call, 2), *out = tensor_output(call, 0);
    int64_t index[TN_MAX_RANK] = {0}, at[TN_MAX_RANK];
    uint32_t last = x->rank - 1;
    do {
        int64_t column = index[last], from[2] = {column, 0};
        double sum = 0;
        memcpy(at, index, sizeof(at));
        for (int64_t k = 0; k < x->sizes[last]; k++) {
            at[last] = from[1] = k;
            sum += load(x, at) * load(weight, from);
        }
        if (bias) sum += load(bias, &column);
        tensor_store(out, index, number_real(sum));
    } while (tensor_next(out->rank, out->sizes, index));
    return TN_OK;
}

/* (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups); not transposed. The element of the
 * result at `index`. */
static double convolve(const tn_call *call, const int64_t *index)
{
    const tn_tensor_desc *x = tensor_argument(call, 0), *weight = tensor_argument(call, 1),
                         *bias = tensor_argument(call, 2);
    const int64_t *stride = call->args[3].as.ints, *padding = call->args[4].as.ints,
                  *dilation = call->args[5].as.ints;
    int64_t of_group = weight->sizes[0] / tn_value_as_int(call->args[8]), at[TN_MAX_RANK] = {index[0]},
            tap[TN_MAX_RANK] = {index[1]};
    double sum = bias ? load(bias, &index[1]) : 0;
    do {
        int inside = 1;
        at[1] = index[1] / of_group * weight->sizes[1] + tap[1];
        for (uint32_t d = 2; d < x->rank; d++) {
            at[d] = index[d] * stride[d - 2] - padding[d - 2] + tap[d] * dilation[d - 2];
            inside &= at[d] >= 0 && at[d] < x->sizes[d];
        }
        if (inside) sum += load(x, at) * load(weight, tap);
    } while (tensor_next(weight->rank - 1, weight->sizes + 1, tap + 1));
    return sum;
}

int32_t kernel_convolution(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_tensor_desc *out = tensor_output(call, 0);
    int64_t index[TN_MAX_RANK] = {0};
    do tensor_store(out, index, number_real(convolve(call, index)));
    while (tensor_next(out->rank, out->sizes, index));
    return TN_OK;
}

/* (grad_output, input, weight, bias_sizes, stride, padding, dilation, ...) of one group: the gradient of an element of the
 * weight, or with `tap` NULL that of `channel` of the bias. */
static double slope(const tn_call *call, int64_t channel, const int64_t *tap)
{
    const tn_tensor_desc *grad = tensor_argument(call, 0), *x = tensor_argument(call, 1);
    const int64_t *stride = call->args[4].as.ints, *padding = call->args[5].as.ints,
                  *dilation = call->args[6].as.ints;
    int64_t index[TN_MAX_RANK] = {0}, at[TN_MAX_RANK] = {0}, sizes[TN_MAX_RANK];
    double sum = 0;
    memcpy(sizes, grad->sizes, grad->rank * sizeof(*sizes));
    sizes[1] = 1;
    do {
        int inside = 1;
        at[0] = index[0];
        at[1] = tap ? tap[1] : 0;
        for (uint32_t d = 2; tap && d < x->rank; d++) {
            at[d] = index[d] * stride[d - 2] - padding[d - 2] + tap[d] * dilation[d - 2];
            inside &= at[d] >= 0 && at[d] < x->sizes[d];
        }
        index[1] = channel;
        if (inside) sum += load(grad, index) * (tap ? load(x, at) : 1);
        index[1] = 0;
    } while (tensor_next(grad->rank, sizes, index));
    return sum;
}

/* The gradients of weight and bias alone. */
int32_t kernel_convolution_backward(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_tensor_desc *weight = tensor_argument(call, 2);
    int64_t tap[TN_MAX_RANK] = {0};
    do tensor_store(tensor_output(call, 1), tap, number_real(slope(call, tap[0], tap)));
    while (tensor_next(weight->rank, weight->sizes, tap));
    for (int64_t c = 0; c < weight->sizes[0]; c++)
        tensor_store(tensor_output(call, 2), &c, number_real(slope(call, c, NULL)));
    return TN_OK;
}

/* (query, key, value, dropout_p, is_causal, attn_mask, scale), without dropout and mask: the score of the row of the query at
 * `index` and row k of the key. */
static double score(const tn_call *call, const int64_t *index, int64_t k)
{
    const tn_tensor_desc *query = tensor_argument(call, 0), *key = tensor_argument(call, 1);
    int64_t left[4] = {index[0], index[1], index[2], 0}, right[4] = {index[0], index[1], k, 0};
    double sum = 0, scale = tn_value_as_float(call->args[6]);
    if (tn_value_as_bool(call->args[4]) && k > index[2]) return -INFINITY;
    for (int64_t d = 0; d < query->sizes[3]; d++) {
        left[3] = right[3] = d;
        sum += load(query, left) * load(key, right);
    }
    return sum * scale;
}

/* A row of the result, and the logarithm of its sum of exponentials. */
static void attend(const tn_call *call, const int64_t *index, double *weights)
{
    const tn_tensor_desc *value = tensor_argument(call, 2);
    int64_t keys = value->sizes[2], from[4] = {index[0], index[1], 0, 0},
            to[4] = {index[0], index[1], index[2], 0};
    double greatest = -INFINITY, sum = 0;
    for (int64_t k = 0; k < keys; k++) {
        weights[k] = score(call, index, k);
        greatest = fmax(weights[k], greatest);
    }
    for (int64_t k = 0; k < keys; k++) sum += weights[k] = exp(weights[k] - greatest);
    for (to[3] = 0; to[3] < value->sizes[3]; to[3]++) {
        double total = 0;
        from[3] = to[3];
        for (from[2] = 0; from[2] < keys; from[2]++) total += weights[from[2]] / sum * load(value, from);
        tensor_store(tensor_output(call, 0), to, number_real(total));
    }
    tensor_store(tensor_output(call, 1), index, number_real(greatest + log(sum)));
}

int32_t kernel_attention(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_tensor_desc *query = tensor_argument(call, 0);
    int64_t index[TN_MAX_RANK] = {0};
    double *weights = malloc((size_t)tensor_argument(call, 1)->sizes[2] * sizeof(*weights));
    if (!weights) return reference_fail(failure, TN_E_OUT_OF_MEMORY, "no host memory for a row of weights");
    do attend(call, index, weights);
    while (tensor_next(3, query->sizes, index));
    free(weights);
    return TN_OK;
}
