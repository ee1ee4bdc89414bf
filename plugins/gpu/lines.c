/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax, layer normalisation, normalisation by the root mean square, and their gradients. On processors an item is a line along
 * the last dimension; on GPUs a group takes a line, along any dimension for softmax (device/lines.cl).
 */
#include "gpu.h"

#include <float.h>

#define LANES 64 /* columns that an item takes; see device/lines.cl */

#define FEW_LINES   32    /* neighbouring lines that fill a read of memory */
#define LONG_LINE   65536 /* elements of a line that is worth more than a group, unless there are many */
#define LONG_COLUMN 1024  /* the same where lines lie beside each other, and an item takes each */

static int32_t is_processor(const tn_call *call)
{
    return (int32_t)gpu_device_of(call)->properties.is_processor;
}

/* One kernel for each dtype. */
static gpu_job line_job(const tn_call *call, const gpu_nest *nest, uint32_t operand, const char *kernel)
{
    gpu_job job = gpu_job_of(call, GPU_FILE_LINES, nest->dtypes[operand] == GPU_F64 ? 64 : 32, kernel);
    job.program.dtypes[0] = (uint8_t)nest->dtypes[operand];
    return job;
}

/* How many items of a GPU take a line: one where lines lie beside each other, else as many as have work. */
static uint32_t width_of(const tn_call *call, uint64_t size, uint64_t inner)
{
    if (is_processor(call) || inner >= FEW_LINES) return 1;
    return gpu_width_for(size > 128 ? size / 4 : size);
}

/* The kernel for processors or that for GPUs, which takes the nest last and before it the width of a line. */
static int32_t launch_lines(gpu_job *job, const gpu_nest *nest, uint64_t inner)
{
    uint32_t width = width_of(job->call, nest->scalars[0], inner);
    if (!is_processor(job->call)) gpu_give(job, &width, sizeof width);
    gpu_give(job, nest, sizeof *nest);
    return gpu_launch(job, nest->scalars[1] * width, GPU_HEAVY);
}

/* Elements between neighbours along a dimension of a contiguous tensor. */
static uint64_t inner_of(const tn_tensor_desc *t, int64_t dim)
{
    uint64_t inner = 1;
    for (int64_t d = dim < 0 ? dim + t->rank + 1 : dim + 1; d < (int64_t)t->rank; d++)
        inner *= (uint64_t)t->sizes[d];
    return inner;
}

/* Softmax of `in` along `dim`, or with `grad` its gradient from the result `in`; `data` is set for the logarithm. */
static int32_t run_softmax(const tn_call *call, const char *kernel, int64_t dim, const tn_tensor_desc *in,
                           const tn_tensor_desc *grad)
{
    const tn_tensor_desc *out = gpu_tensor(call->outs[0]);
    gpu_nest nest;
    gpu_nest_of_tensor(&nest, out);
    gpu_nest_add(&nest, 1, in);
    if (grad) gpu_nest_add(&nest, 2, grad);
    if (!nest.numel) return TN_OK;
    uint64_t inner = inner_of(out, dim);
    nest.scalars[0] = nest.rank ? (uint64_t)out->sizes[dim < 0 ? dim + out->rank : dim] : 1;
    nest.scalars[1] = nest.numel / nest.scalars[0];
    nest.scalars[2] = call->data != NULL;
    nest.scalars[3] = inner;
    gpu_job job = line_job(call, &nest, 0, kernel);
    gpu_give_memory(&job, out->allocation);
    gpu_give_memory(&job, in->allocation);
    if (grad) gpu_give_memory(&job, grad->allocation);
    return launch_lines(&job, &nest, inner);
}

/* _softmax and _log_softmax(Tensor self, int dim, bool half_to_float) */
static int32_t softmax(void *self, const tn_call *call)
{
    return run_softmax(call, is_processor(call) ? "softmax_lines" : "softmax_group",
                       tn_value_as_int(call->args[1]), gpu_tensor(call->args[0]), NULL);
}

/* Lines of `size` elements of a tensor. */
static const char *can_line(void *self, const tn_call *call, const tn_tensor_desc *t, uint64_t size)
{
    if (is_processor(call) && t->dtype == TN_FLOAT64) return "the composite computes in float64";
    if (!is_processor(call) && size > LONG_LINE && gpu_numel(t) / size < FEW_LINES)
        return "the composite cuts long lines, so that few of them keep the device busy";
    return gpu_can_run(self, call);
}

/* Lines along a dimension. */
static const char *can_line_of(void *self, const tn_call *call, const tn_tensor_desc *t, int64_t dim)
{
    uint64_t inner = inner_of(t, dim), size = t->rank ? (uint64_t)t->sizes[dim < 0 ? dim + t->rank : dim] : 1;
    if (is_processor(call) && inner != 1) return "the dimension is not the last one";
    if (!is_processor(call) && inner >= FEW_LINES && size > LONG_COLUMN &&
        gpu_numel(t) / size < gpu_items_wanted(gpu_device_of(call)) / 4)
        return "the composite cuts long lines, so that few of them keep the device busy";
    return can_line(self, call, t, size);
}

static const char *can_softmax(void *self, const tn_call *call)
{
    if (tn_value_as_bool(call->args[2])) return "the result has another dtype";
    return can_line_of(self, call, gpu_tensor(call->args[0]), tn_value_as_int(call->args[1]));
}

/* The number of elements of normalized_shape, argument i. */
static uint64_t shape_of(const tn_call *call, uint32_t i)
{
    uint64_t size = 1;
    for (uint32_t d = 0; d < call->args[i].count; d++) size *= (uint64_t)call->args[i].as.ints[d];
    return size;
}

/* A normalisation of lines, around their mean or, where it is not asked for, around 0. */
typedef struct normalization {
    const tn_tensor_desc *weight, *bias, *mean, *rstd;
    tn_number eps;
    uint64_t size; /* of a line */
    uint64_t groups, channels,
        inner; /* of an image, of a group, of a channel; 0 where each element has a weight */
} normalization;

static int32_t normalize(const tn_call *call, const normalization *n)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]), *out = gpu_tensor(call->outs[0]);
    int64_t first_weight = n->weight ? (int64_t)n->weight->byte_offset : 0;
    int64_t first_bias = n->bias ? (int64_t)n->bias->byte_offset : 0;
    gpu_nest nest;
    gpu_nest_of_tensor(&nest, out);
    if (!nest.numel) return TN_OK;
    if (n->mean) gpu_nest_add(&nest, 1, n->mean);
    gpu_nest_add(&nest, 2, n->rstd);
    gpu_nest_add(&nest, 3, in);
    nest.scalars[0] = n->size;
    nest.scalars[1] = nest.numel / n->size;
    nest.scalars[2] = gpu_number_bits(gpu_type(in->dtype), n->eps);
    nest.scalars[3] = (n->weight ? 1u : 0u) | (n->bias ? 2u : 0u) | (n->mean ? 0u : 4u);
    nest.values[0] = n->groups;
    nest.values[1] = n->channels;
    nest.values[2] = n->inner;
    gpu_job job = line_job(call, &nest, 3,
                           n->groups            ? "normalize_channels"
                           : is_processor(call) ? "normalize_lines"
                                                : "normalize_group");
    gpu_give_memory(&job, out->allocation);
    gpu_give_memory(&job, n->mean ? n->mean->allocation : NULL);
    gpu_give_memory(&job, n->rstd->allocation);
    gpu_give_memory(&job, in->allocation);
    gpu_give_memory(&job, n->weight ? n->weight->allocation : NULL);
    gpu_give_memory(&job, n->bias ? n->bias->allocation : NULL);
    gpu_give(&job, &first_weight, sizeof first_weight);
    gpu_give(&job, &first_bias, sizeof first_bias);
    return launch_lines(&job, &nest, 1);
}

/* native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) */
static int32_t layer_norm(void *self, const tn_call *call)
{
    const normalization n = {.weight = gpu_argument_tensor(call, 2),
                             .bias = gpu_argument_tensor(call, 3),
                             .mean = gpu_tensor(call->outs[1]),
                             .rstd = gpu_tensor(call->outs[2]),
                             .eps = tn_number_of(call->args[4]),
                             .size = shape_of(call, 1)};
    return normalize(call, &n);
}

/* _fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps): by default that of the computation. */
static int32_t rms_norm(void *self, const tn_call *call)
{
    double smallest = gpu_tensor(call->args[0])->dtype == TN_FLOAT64 ? DBL_EPSILON : (double)FLT_EPSILON;
    int32_t has_eps = call->args[3].tag != TN_TAG_NONE;
    const normalization n = {.weight = gpu_argument_tensor(call, 2),
                             .rstd = gpu_tensor(call->outs[1]),
                             .eps = has_eps ? tn_number_of(call->args[3]) : tn_number_real(smallest),
                             .size = shape_of(call, 1)};
    return normalize(call, &n);
}

/* native_group_norm(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, int group, float eps) */
static int32_t group_norm(void *self, const tn_call *call)
{
    uint64_t groups = (uint64_t)call->args[6].as.i, inner = (uint64_t)call->args[5].as.i;
    uint64_t channels = (uint64_t)call->args[4].as.i / groups;
    const normalization n = {.weight = gpu_argument_tensor(call, 1),
                             .bias = gpu_argument_tensor(call, 2),
                             .mean = gpu_tensor(call->outs[1]),
                             .rstd = gpu_tensor(call->outs[2]),
                             .eps = tn_number_of(call->args[7]),
                             .size = channels * inner,
                             .groups = groups,
                             .channels = channels,
                             .inner = inner};
    return normalize(call, &n);
}

/* Whether weight and bias, arguments `first` and the next, have the dtype of the input. */
static int32_t has_one_dtype(const tn_call *call, uint32_t first)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]);
    for (uint32_t i = first; i < first + 2 && i < call->n_args; i++)
        if (gpu_argument_tensor(call, i) && gpu_argument_tensor(call, i)->dtype != in->dtype) return 0;
    return 1;
}

static const char *can_layer_norm(void *self, const tn_call *call)
{
    if (!has_one_dtype(call, 2)) return "weight and bias have another dtype";
    return can_line(self, call, gpu_tensor(call->args[0]), shape_of(call, 1));
}

static const char *can_group_norm(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]);
    if (!is_processor(call)) return "the composite keeps the device busy";
    if (!has_one_dtype(call, 1)) return "weight and bias have another dtype";
    if (!gpu_numel(in)) return "the input is empty";
    return can_line(self, call, in, 1);
}

/* _softmax_backward_data and _log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType) */
static int32_t softmax_backward(void *self, const tn_call *call)
{
    return run_softmax(call, is_processor(call) ? "softmax_lines_backward" : "softmax_group_backward",
                       tn_value_as_int(call->args[2]), gpu_tensor(call->args[1]), gpu_tensor(call->args[0]));
}

static const char *can_softmax_backward(void *self, const tn_call *call)
{
    const tn_tensor_desc *grad = gpu_tensor(call->args[0]), *result = gpu_tensor(call->args[1]);
    if (grad->dtype != result->dtype || (tn_dtype)call->args[3].as.i != grad->dtype)
        return "the input has another dtype";
    return can_line_of(self, call, result, tn_value_as_int(call->args[2]));
}

/* Gradients of a normalisation: which arguments and results a call has. */
typedef struct norm_gradients {
    const tn_tensor_desc *inputs[4]; /* mean or NULL, rstd, input, gradient */
    const tn_tensor_desc *weight;
    const tn_tensor_desc *outs[3]; /* of input, weight, bias; NULL: not wanted */
} norm_gradients;

static void give_inputs(gpu_job *job, const norm_gradients *g)
{
    for (uint32_t k = 0; k < 4; k++) gpu_give_memory(job, g->inputs[k] ? g->inputs[k]->allocation : NULL);
}

/* The gradients of weight and bias: sums over parts of the lines, then over the parts. */
static int32_t column_gradients(const tn_call *call, gpu_nest nest, const norm_gradients *g)
{
    uint32_t lanes = is_processor(call) ? LANES : 1, bytes = nest.dtypes[3] == GPU_F64 ? 8 : 4;
    uint64_t offset, wanted = gpu_items_wanted(gpu_device_of(call)),
                     blocks = (nest.scalars[0] + lanes - 1) / lanes;
    uint64_t parts = (wanted + blocks - 1) / blocks, each = (nest.scalars[1] + parts - 1) / parts;
    if (lanes == 1 && each < 16) each = 16;
    uint32_t size = (uint32_t)nest.scalars[0], n_parts = (uint32_t)((nest.scalars[1] + each - 1) / each);
    void *sums;
    int32_t status = gpu_workspace(call, 2ull * n_parts * size * bytes, &sums, &offset);
    int64_t first = (int64_t)offset / bytes;
    nest.scalars[3] = each;
    gpu_job job = line_job(call, &nest, 3, lanes == 1 ? "normalize_column" : "normalize_columns");
    gpu_give_memory(&job, sums);
    give_inputs(&job, g);
    gpu_give(&job, &first, sizeof first);
    gpu_give(&job, &nest, sizeof nest);
    if (!status) status = gpu_launch(&job, blocks * n_parts, GPU_HEAVY);
    for (uint32_t k = 1; k < 3 && !status; k++) {
        int64_t from = first + (k == 2 ? (int64_t)n_parts * size : 0);
        if (!g->outs[k]) continue;
        int64_t to = (int64_t)g->outs[k]->byte_offset;
        gpu_job add = line_job(call, &nest, 3, "add_parts");
        gpu_give_memory(&add, g->outs[k]->allocation);
        gpu_give_memory(&add, sums);
        gpu_give(&add, &to, sizeof to);
        gpu_give(&add, &from, sizeof from);
        gpu_give(&add, &size, sizeof size);
        gpu_give(&add, &n_parts, sizeof n_parts);
        status = gpu_launch(&add, size, GPU_LIGHT);
    }
    return status;
}

/* Of lines that were normalised around their mean or, without one, around 0. */
static int32_t normalize_backward(const tn_call *call, const norm_gradients *g)
{
    const tn_tensor_desc *in = g->inputs[2], *weight = g->weight;
    gpu_nest nest;
    gpu_nest_of_tensor(&nest, in);
    if (g->inputs[0]) gpu_nest_add(&nest, 1, g->inputs[0]);
    gpu_nest_add(&nest, 2, g->inputs[1]);
    gpu_nest_add(&nest, 3, in);
    nest.scalars[0] = shape_of(call, 2);
    nest.scalars[1] = nest.numel / nest.scalars[0];
    nest.scalars[2] = g->inputs[3]->byte_offset;
    nest.immediate = (weight ? 1u : 0u) | (g->inputs[0] ? 0u : 2u);
    int32_t status = g->outs[1] || g->outs[2] ? column_gradients(call, nest, g) : TN_OK;
    if (status || !g->outs[0]) return status;
    nest.offsets[0] = (int64_t)g->outs[0]->byte_offset;
    nest.scalars[3] = weight ? weight->byte_offset : 0;
    gpu_job job = line_job(call, &nest, 3,
                           is_processor(call) ? "normalize_lines_backward" : "normalize_group_backward");
    gpu_give_memory(&job, g->outs[0]->allocation);
    give_inputs(&job, g);
    gpu_give_memory(&job, weight ? weight->allocation : NULL);
    return launch_lines(&job, &nest, 1);
}

/* The result k, if the mask that is argument i asks for it. */
static const tn_tensor_desc *wanted_result(const tn_call *call, uint32_t i, uint32_t k)
{
    return call->args[i].as.bools[k] ? gpu_result(call, k) : NULL;
}

/* native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask) */
static int32_t layer_norm_backward(void *self, const tn_call *call)
{
    const norm_gradients g = {
        {gpu_tensor(call->args[3]), gpu_tensor(call->args[4]), gpu_tensor(call->args[1]),
         gpu_tensor(call->args[0])},
        gpu_argument_tensor(call, 5),
        {wanted_result(call, 7, 0), wanted_result(call, 7, 1), wanted_result(call, 7, 2)}};
    return normalize_backward(call, &g);
}

/* _fused_rms_norm_backward(grad_out, input, normalized_shape, rstd, weight, output_mask) */
static int32_t rms_norm_backward(void *self, const tn_call *call)
{
    const norm_gradients g = {
        {NULL, gpu_tensor(call->args[3]), gpu_tensor(call->args[1]), gpu_tensor(call->args[0])},
        gpu_argument_tensor(call, 4),
        {wanted_result(call, 5, 0), gpu_argument_tensor(call, 4) ? wanted_result(call, 5, 1) : NULL, NULL}};
    return normalize_backward(call, &g);
}

/* weight and bias: the arguments from `first` up to the mask. */
static const char *can_normalize_backward(void *self, const tn_call *call, uint32_t first)
{
    const tn_tensor_desc *grad = gpu_tensor(call->args[0]), *in = gpu_tensor(call->args[1]);
    int32_t differs = grad->dtype != in->dtype;
    for (uint32_t i = first; i + 1 < call->n_args; i++)
        differs |= gpu_argument_tensor(call, i) && gpu_argument_tensor(call, i)->dtype != in->dtype;
    if (differs) return "weight, bias or gradient have another dtype";
    if (!gpu_numel(in)) return "the input is empty";
    return can_line(self, call, in, shape_of(call, 2));
}

static const char *can_layer_norm_backward(void *self, const tn_call *call)
{
    return can_normalize_backward(self, call, 5);
}

static const char *can_rms_norm_backward(void *self, const tn_call *call)
{
    return can_normalize_backward(self, call, 4);
}

static const int32_t logarithm = 1;

#define ROW(text, function, can, extra) \
    GPU_ROW(CONTIGUOUS, text, gpu_float_dtypes, .run = function, .can_run = can, .data = extra)
static const tn_kernel_row rows[] = {
    ROW("_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", softmax, can_softmax, NULL),
    ROW("_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", softmax, can_softmax, &logarithm),
    ROW("native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) "
        "-> "
        "(Tensor, Tensor, Tensor)",
        layer_norm, can_layer_norm, NULL),
    ROW("native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int "
        "group, "
        "float eps) -> (Tensor, Tensor, Tensor)",
        group_norm, can_group_norm, NULL),
    ROW("_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> "
        "Tensor",
        softmax_backward, can_softmax_backward, NULL),
    ROW("_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> "
        "Tensor",
        softmax_backward, can_softmax_backward, &logarithm),
    ROW("native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, "
        "Tensor rstd, "
        "Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
        layer_norm_backward, can_layer_norm_backward, NULL),
    ROW("_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, "
        "Tensor)",
        rms_norm, can_layer_norm, NULL),
    ROW("_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, "
        "Tensor? "
        "weight, "
        "bool[2] output_mask) -> (Tensor, Tensor)",
        rms_norm_backward, can_rms_norm_backward, NULL),
};
const gpu_rows gpu_line_rows = GPU_ROW_LIST(rows);
