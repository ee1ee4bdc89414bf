/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of layers, for the reference plugin that mutants.py makes: relu, gelu, native_layer_norm and softmax,
 * from their definitions. The reference plugin itself has none, so that the library's composites run on it.
 */
#include "kernels.h"

#include <math.h>
#include <string.h>

int32_t kernel_gelu(const tn_call *call, int32_t opcode, reference_failure *failure);
int32_t kernel_layer_norm(const tn_call *call, int32_t opcode, reference_failure *failure);
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
