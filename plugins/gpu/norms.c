/* SPDX-License-Identifier: Apache-2.0 */
/* Batch normalisation and sums over channels (device/norms.cl). */
#include "gpu.h"

/* Memory of the passes: states of the parts, then four coefficients for each channel. */
typedef struct channel_job {
    const tn_call *call;
    gpu_channels c;
    tn_dtype dtype;
    void *workspace;
    uint32_t width; /* items of a GPU that take a part */
} channel_job;

#define LEAST_PART 2048 /* elements that repay an item of a processor or a group of a GPU */
#define FEW        32   /* neighbours that fill a read of a GPU's memory */

static int32_t begin(channel_job *job, const tn_call *call, const tn_tensor_desc *x)
{
    const gpu_device *device = gpu_device_of(call);
    uint64_t offset, wanted = gpu_items_wanted(device), bytes = gpu_type(x->dtype) == 64 ? 8 : 4,
                     least = LEAST_PART;
    gpu_channels *c = &job->c;
    job->call = call;
    job->dtype = x->dtype;
    c->images = (uint32_t)x->sizes[0];
    c->channels = (uint32_t)x->sizes[1];
    c->inner = 1;
    for (uint32_t d = 2; d < x->rank; d++) c->inner *= (uint32_t)x->sizes[d];
    if (!device->properties.is_processor) {
        int32_t lie_beside = c->inner < FEW && c->channels >= FEW;
        job->width = lie_beside ? 1 : gpu_width_for((uint64_t)c->images * c->inner);
        wanted = (wanted + job->width - 1) / job->width;
        if (lie_beside) least = 64;
    }
    c->parts = (uint32_t)((wanted + c->channels - 1) / c->channels);
    c->length = (c->images + c->parts - 1) / c->parts;
    if ((uint64_t)c->length * c->inner < least) c->length = (uint32_t)((least + c->inner - 1) / c->inner);
    c->parts = (c->images + c->length - 1) / c->length;
    int32_t status =
        gpu_workspace(call, (uint64_t)c->channels * (2 * c->parts + 4) * bytes, &job->workspace, &offset);
    c->offsets[GPU_CHANNEL_STATES] = (int64_t)(offset / bytes);
    c->offsets[GPU_CHANNEL_COEFFICIENTS] = (int64_t)(offset / bytes + 2ull * c->parts * c->channels);
    c->offsets[GPU_CHANNEL_X] = (int64_t)x->byte_offset;
    return status;
}

static gpu_job kernel_of(const channel_job *job, const char *kernel)
{
    gpu_job k = gpu_job_of(job->call, GPU_FILE_NORMS, gpu_type(job->dtype), kernel);
    k.program.dtypes[0] = (uint8_t)gpu_dtype(job->dtype);
    return k;
}

static int32_t run_parts(const channel_job *job, const tn_tensor_desc *x, const tn_tensor_desc *g)
{
    gpu_job k = kernel_of(job, "channel_parts");
    gpu_give_memory(&k, job->workspace);
    gpu_give_memory(&k, x->allocation);
    gpu_give_memory(&k, g ? g->allocation : NULL);
    gpu_give_memory(&k, job->workspace);
    if (job->width) gpu_give(&k, &job->width, sizeof job->width);
    gpu_give(&k, &job->c, sizeof job->c);
    return gpu_launch(&k, (uint64_t)job->c.channels * job->c.parts * (job->width ? job->width : 1),
                      GPU_HEAVY);
}

static int32_t run_apply(channel_job *job, void *out, int64_t offset, const tn_tensor_desc *x,
                         const tn_tensor_desc *g)
{
    const gpu_channels *c = &job->c;
    uint32_t run = gpu_device_of(job->call)->properties.is_processor && c->inner >= 64 ? c->inner : 1;
    gpu_job k = kernel_of(job, "channel_apply");
    job->c.offsets[GPU_CHANNEL_OUT] = offset;
    gpu_give_memory(&k, out);
    gpu_give_memory(&k, x->allocation);
    gpu_give_memory(&k, g ? g->allocation : NULL);
    gpu_give_memory(&k, job->workspace);
    gpu_give(&k, &run, sizeof run);
    gpu_give(&k, &job->c, sizeof job->c);
    return gpu_launch(&k, (uint64_t)c->images * c->channels * (c->inner / run),
                      run > 1 ? GPU_HEAVY : GPU_LIGHT);
}

int32_t gpu_channel_sums(const tn_call *call, const tn_tensor_desc *x, const tn_tensor_desc *out)
{
    channel_job job = {.c.mode = GPU_CHANNEL_SUMS};
    int32_t status = begin(&job, call, x);
    if (!status) status = run_parts(&job, x, NULL);
    gpu_job k = kernel_of(&job, "channel_sums");
    job.c.offsets[GPU_CHANNEL_X] = (int64_t)out->byte_offset;
    gpu_give_memory(&k, out->allocation);
    gpu_give_memory(&k, job.workspace);
    gpu_give(&k, &job.c, sizeof job.c);
    return status ? status : gpu_launch(&k, job.c.channels, GPU_LIGHT);
}

/* Notes where a vector of one number for each channel is; gives its memory. An absent or empty one is not noted. */
static void *vector(gpu_channels *c, const tn_tensor_desc *t, uint32_t place, uint32_t flag, uint32_t *dtype)
{
    if (!t || (t->rank && !t->sizes[0])) return NULL;
    c->offsets[place] = (int64_t)t->byte_offset;
    c->flags |= flag;
    *dtype = (uint32_t)gpu_dtype(t->dtype);
    return t->allocation;
}

/* Which arguments of the forward forms are which. */
typedef struct forward_form {
    int32_t running; /* running_mean, with running_var behind it; -1: the form has none */
    uint32_t training, momentum;
} forward_form;

/* native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps) and forms of it */
static int32_t forward(void *self, const tn_call *call)
{
    const forward_form *form = call->data;
    const tn_tensor_desc *x = gpu_argument_tensor(call, 0), *out = gpu_result(call, 0);
    channel_job job = {.c.mode = GPU_CHANNEL_MOMENTS};
    gpu_channels *c = &job.c;
    gpu_contiguous result;
    if (gpu_numel(x) == 0) return TN_OK;
    uint8_t type = gpu_type(x->dtype);
    int32_t is_eval = !tn_value_as_bool(call->args[form->training]);
    int32_t status = begin(&job, call, x);
    if (!status) status = gpu_contiguous_begin(call, out, &result);
    if (!status && !is_eval) status = run_parts(&job, x, NULL);
    if (status) return status;
    if (is_eval) c->flags |= GPU_CHANNEL_EVAL;
    c->momentum = gpu_number_bits(type, tn_number_of(call->args[form->momentum]));
    c->eps = gpu_number_bits(type, tn_number_of(call->args[form->momentum + 1]));
    gpu_job k = kernel_of(&job, "channel_statistics");
    const tn_tensor_desc *mean =
        form->running < 0 ? NULL : gpu_argument_tensor(call, (uint32_t)form->running);
    const tn_tensor_desc *var =
        form->running < 0 ? NULL : gpu_argument_tensor(call, (uint32_t)form->running + 1);
    gpu_give_memory(&k, job.workspace);
    gpu_give_memory(&k, job.workspace);
    gpu_give_memory(&k, vector(c, gpu_argument_tensor(call, 1), GPU_CHANNEL_WEIGHT, GPU_CHANNEL_HAS_WEIGHT,
                               &c->weight_dtype));
    gpu_give_memory(&k, vector(c, gpu_argument_tensor(call, 2), GPU_CHANNEL_BIAS, GPU_CHANNEL_HAS_BIAS,
                               &c->weight_dtype));
    gpu_give_memory(&k,
                    vector(c, mean, GPU_CHANNEL_RUNNING_MEAN, GPU_CHANNEL_HAS_RUNNING, &c->running_dtype));
    gpu_give_memory(&k, vector(c, var, GPU_CHANNEL_RUNNING_VAR, 0, &c->running_dtype));
    gpu_give_memory(&k,
                    vector(c, gpu_result(call, 1), GPU_CHANNEL_SAVE_MEAN, GPU_CHANNEL_SAVES, &c->save_dtype));
    gpu_give_memory(&k, vector(c, gpu_result(call, 2), GPU_CHANNEL_SAVE_INVSTD, 0, &c->save_dtype));
    gpu_give(&k, c, sizeof *c);
    status = gpu_launch(&k, c->channels, GPU_LIGHT);
    if (!status) status = run_apply(&job, result.memory, result.offset, x, NULL);
    return status ? status : gpu_contiguous_end(call, &result);
}

/*
 * native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps,
 * output_mask)
 */
static int32_t backward(void *self, const tn_call *call)
{
    const tn_tensor_desc *g = gpu_argument_tensor(call, 0), *x = gpu_argument_tensor(call, 1);
    const tn_tensor_desc *outs[3];
    channel_job job = {.c.mode = GPU_CHANNEL_GRADIENTS};
    gpu_channels *c = &job.c;
    gpu_contiguous result = {0};
    if (gpu_numel(x) == 0) return TN_OK;
    int32_t is_eval = !tn_value_as_bool(call->args[7]), status = begin(&job, call, x);
    if (status) return status;
    for (uint32_t i = 0; i < 3; i++) outs[i] = call->args[9].as.bools[i] ? gpu_result(call, i) : NULL;
    c->offsets[GPU_CHANNEL_G] = (int64_t)g->byte_offset;
    c->eps = gpu_number_bits(gpu_type(x->dtype), tn_number_of(call->args[8]));
    if (is_eval) c->flags |= GPU_CHANNEL_EVAL;
    uint32_t at = is_eval ? 3 : 5, *dtype = is_eval ? &c->running_dtype : &c->save_dtype;
    gpu_job recall = kernel_of(&job, "channel_recall");
    gpu_give_memory(&recall, job.workspace);
    gpu_give_memory(&recall, vector(c, gpu_argument_tensor(call, at), GPU_CHANNEL_SAVE_MEAN, 0, dtype));
    gpu_give_memory(&recall, vector(c, gpu_argument_tensor(call, at + 1), GPU_CHANNEL_SAVE_INVSTD, 0, dtype));
    gpu_give(&recall, c, sizeof *c);
    status = gpu_launch(&recall, c->channels, GPU_LIGHT);
    if (!status) status = run_parts(&job, x, g);
    gpu_job k = kernel_of(&job, "channel_gradients");
    gpu_give_memory(&k, job.workspace);
    gpu_give_memory(&k, job.workspace);
    gpu_give_memory(&k, vector(c, gpu_argument_tensor(call, 2), GPU_CHANNEL_WEIGHT, GPU_CHANNEL_HAS_WEIGHT,
                               &c->weight_dtype));
    gpu_give_memory(&k,
                    vector(c, outs[1], GPU_CHANNEL_GRAD_WEIGHT, GPU_CHANNEL_WANTS_WEIGHT, &c->weight_dtype));
    gpu_give_memory(&k, vector(c, outs[2], GPU_CHANNEL_GRAD_BIAS, GPU_CHANNEL_WANTS_BIAS, &c->weight_dtype));
    gpu_give(&k, c, sizeof *c);
    if (!status) status = gpu_launch(&k, c->channels, GPU_LIGHT);
    if (status || !outs[0]) return status;
    status = gpu_contiguous_begin(call, outs[0], &result);
    if (!status) status = run_apply(&job, result.memory, result.offset, x, g);
    return status ? status : gpu_contiguous_end(call, &result);
}

static const char *can_forward(void *self, const tn_call *call)
{
    const tn_tensor_desc *x = gpu_argument_tensor(call, 0), *weight = gpu_argument_tensor(call, 1);
    const tn_tensor_desc *bias = gpu_argument_tensor(call, 2);
    const forward_form *form = call->data;
    for (int32_t i = form->running; form->running >= 0 && i < form->running + 2; i++) {
        const tn_tensor_desc *t = gpu_argument_tensor(call, (uint32_t)i);
        if (t && t->strides[0] != 1) return "the running statistics are not contiguous";
    }
    if (x->rank < 2) return "the input has no channels";
    if (weight && bias && weight->dtype != bias->dtype) return "weight and bias have different dtypes";
    return gpu_can_run(self, call);
}

static const char *can_backward(void *self, const tn_call *call)
{
    const tn_tensor_desc *g = gpu_argument_tensor(call, 0), *x = gpu_argument_tensor(call, 1);
    if (x->rank < 2) return "the input has no channels";
    if (g->dtype != x->dtype) return "the gradient has another dtype";
    return gpu_can_run(self, call);
}

static const forward_form full_form = {.running = 3, .training = 5, .momentum = 6},
                          plain_form = {.running = -1, .training = 3, .momentum = 4};
#define BATCH_NORM "Tensor input, Tensor? weight, Tensor? bias, "
#define ROW(text, function, can, form) \
    GPU_ROW(CONTIGUOUS, text, gpu_float_dtypes, .run = function, .can_run = can, .data = form)
static const tn_kernel_row rows[] = {
    ROW("native_batch_norm(" BATCH_NORM
        "Tensor? running_mean, Tensor? running_var, bool training, float momentum, "
        "float eps) -> (Tensor, Tensor, Tensor)",
        forward, can_forward, &full_form),
    ROW("_native_batch_norm_legit(" BATCH_NORM
        "Tensor(a!) running_mean, Tensor(b!) running_var, bool training, "
        "float momentum, float eps) -> (Tensor, Tensor, Tensor)",
        forward, can_forward, &full_form),
    ROW("_native_batch_norm_legit.no_stats(" BATCH_NORM "bool training, float momentum, float eps) -> "
        "(Tensor, Tensor, Tensor)",
        forward, can_forward, &plain_form),
    ROW("native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, "
        "Tensor? "
        "running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> "
        "(Tensor, Tensor, Tensor)",
        backward, can_backward, NULL),
};
const gpu_rows gpu_norm_rows = GPU_ROW_LIST(rows);
