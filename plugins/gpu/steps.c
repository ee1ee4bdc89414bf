/* SPDX-License-Identifier: Apache-2.0 */
/* Fused steps of optimisers: a launch for each parameter (device/steps.cl). */
#include "gpu.h"

/* What a kind of step takes. The lists are those of parameters, gradients and so on, in the kernel's order. */
typedef struct step_form {
    const char *kernel;
    uint32_t n_lists; /* of tensors like the parameter */
    int32_t steps;    /* the list of step numbers, or -1 */
    uint32_t scale;   /* the argument grad_scale, with found_inf behind it */
    uint32_t flags;
} step_form;

static const tn_tensor_desc *item_of(const tn_call *call, uint32_t list, uint32_t i)
{
    tn_value v = call->args[list];
    return i < v.count && v.as.tensors[i] ? tn_desc(v.as.tensors[i]) : NULL;
}

/* The arguments `at` and so on as numbers; bool arguments behind them set flags. */
static void read_settings(const tn_call *call, const step_form *form, uint8_t type, gpu_step *s)
{
    static const struct {
        uint32_t argument, flag;
    } sgd_flags[] = {{7, GPU_STEP_NESTEROV}, {8, GPU_STEP_MAXIMIZE}, {9, GPU_STEP_FIRST_TIME}},
      adam_flags[] = {{11, GPU_STEP_LARGEST}, {12, GPU_STEP_MAXIMIZE}};
    int32_t is_sgd = form->steps < 0;
    uint32_t first = is_sgd ? 3 : 6, n = is_sgd ? 4 : 5, n_flags = is_sgd ? 3 : 2;
    for (uint32_t k = 0; k < n; k++) {
        tn_number x = tn_number_of(call->args[first + k]);
        if (is_sgd && k == 3) x = tn_number_real(1 - x.f);
        s->numbers[k] = gpu_number_bits(type, x);
    }
    s->flags = form->flags;
    for (uint32_t k = 0; k < n_flags; k++)
        if (tn_value_as_bool(call->args[(is_sgd ? sgd_flags : adam_flags)[k].argument]))
            s->flags |= (is_sgd ? sgd_flags : adam_flags)[k].flag;
}

/* Gives the memory of a tensor, which may be absent, and notes its offset. */
static void give(gpu_job *job, gpu_step *s, uint32_t place, const tn_tensor_desc *t, uint32_t flag)
{
    gpu_give_memory(job, t ? t->allocation : NULL);
    if (!t) return;
    s->offsets[place] = (int64_t)t->byte_offset;
    s->flags |= flag;
}

static int32_t step(void *self, const tn_call *call)
{
    const step_form *form = call->data;
    int32_t status = TN_OK;
    for (uint32_t i = 0; i < call->args[0].count && !status; i++) {
        const tn_tensor_desc *param = item_of(call, 0, i);
        gpu_step s = {.numel = (uint32_t)gpu_numel(param), .run = gpu_dense_run(gpu_device_of(call))};
        if (!s.numel) continue;
        if (!gpu_device_of(call)->properties.is_processor)
            s.run = 1; /* neighbours take neighbouring elements */
        gpu_job job = gpu_job_of(call, GPU_FILE_STEPS, gpu_type(param->dtype), form->kernel);
        job.program.dtypes[0] = (uint8_t)gpu_dtype(param->dtype);
        read_settings(call, form, gpu_type(param->dtype), &s);
        for (uint32_t list = 0; list < form->n_lists; list++) give(&job, &s, list, item_of(call, list, i), 0);
        if (form->steps >= 0) {
            const tn_tensor_desc *count = item_of(call, (uint32_t)form->steps, i);
            give(&job, &s, GPU_STEP_COUNT, count, 0);
            s.step_dtype = (uint32_t)gpu_dtype(count->dtype);
        }
        give(&job, &s, GPU_STEP_SCALE, gpu_argument_tensor(call, form->scale), GPU_STEP_SCALED);
        give(&job, &s, GPU_STEP_FOUND, gpu_argument_tensor(call, form->scale + 1), GPU_STEP_CHECKED);
        gpu_give(&job, &s, sizeof s);
        status = gpu_launch(&job, (s.numel + s.run - 1) / s.run, s.run > 1 ? GPU_HEAVY : GPU_LIGHT);
    }
    return status;
}

/* Whether the elements of both lie in memory in the same order, without gaps. What a call writes overlaps nowhere. */
static int32_t is_laid_out_as(const tn_tensor_desc *t, const tn_tensor_desc *param)
{
    int64_t extent = 1;
    for (uint32_t d = 0; d < param->rank; d++) {
        if (param->sizes[d] != 1 && t->strides[d] != param->strides[d]) return 0;
        extent += (param->sizes[d] - 1) * param->strides[d];
    }
    return extent == (int64_t)gpu_numel(param) || !gpu_numel(param);
}

static const char *can_step(void *self, const tn_call *call)
{
    const step_form *form = call->data;
    for (uint32_t k = 0; k < 2; k++) {
        const tn_tensor_desc *t = gpu_argument_tensor(call, form->scale + k);
        if (t && t->dtype != TN_FLOAT32) return "grad_scale or found_inf is not float32";
    }
    for (uint32_t i = 0; i < call->args[0].count; i++)
        for (uint32_t list = 0; list < form->n_lists; list++) {
            const tn_tensor_desc *t = item_of(call, list, i), *param = item_of(call, 0, i);
            if (!t) continue;
            if (t->dtype != param->dtype) return "the tensors have different dtypes";
            if (!is_laid_out_as(t, param)) return "the tensors are not dense, or laid out differently";
            if (gpu_numel(t) > INT32_MAX) return "the device takes tensors of at most 2^31 - 1 elements";
            if (t->dtype == TN_FLOAT64 && !gpu_device_of(call)->properties.has_double)
                return "the device has no float64";
        }
    return NULL;
}

static const step_form sgd_form = {.kernel = "sgd_step", .n_lists = 3, .steps = -1, .scale = 10},
                       adam_form = {.kernel = "adam_step", .n_lists = 5, .steps = 5, .scale = 13},
                       adamw_form = {.kernel = "adam_step",
                                     .n_lists = 5,
                                     .steps = 5,
                                     .scale = 13,
                                     .flags = GPU_STEP_DECOUPLED};

#define SCALED "Tensor? grad_scale=None, Tensor? found_inf=None) -> ()"
#define SGD                                                                                              \
    "(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] momentum_buffer_list, *, float weight_decay, " \
    "float momentum, float lr, float dampening, bool nesterov, bool maximize, bool is_first_step, " SCALED
#define ADAM                                                                                                 \
    "(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] " \
    "max_exp_avg_sqs, Tensor[] state_steps, *, float lr, float beta1, float beta2, float weight_decay, "     \
    "float eps, bool amsgrad, bool maximize, " SCALED
#define ROW(text, form) GPU_ROW(ANY, text, gpu_float_dtypes, .run = step, .can_run = can_step, .data = form)
static const tn_kernel_row rows[] = {
    ROW("_fused_sgd_" SGD, &sgd_form),
    ROW("_fused_adam_" ADAM, &adam_form),
    ROW("_fused_adamw_" ADAM, &adamw_form),
};
const gpu_rows gpu_step_rows = GPU_ROW_LIST(rows);
