/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fused optimisers: a step for lists of tensors, in one pass over memory and one parallel loop. Pieces have a fixed
 * size, so no result depends on the number of threads.
 */
#include "kernel_lists.h"
#include "fused.h"
#include "nn/contiguous.h"
#include "support/kernel_table.h"
#include <math.h>
#include <stdatomic.h>
#include <tenon/kernel.h>

CPU_KERNEL_TABLE(static cpu_kernel_table fused_table, CPU_FUSED_LISTS, cpu_fused_kernels);

enum { PIECE = 16384 }; /* elements */

typedef struct fused_job {
    const cpu_fused_kernels *kernels;
    cpu_fused_fn *run; /* NULL: unscale */
    cpu_fused common;
    cpu_fused_item *items;
    int64_t *pieces; /* of the items before */
    uint32_t count;
    int64_t *numels;
    double factor;
    atomic_int found;
} fused_job;

static const tn_tensor_desc *item_arg(const tn_call *call, uint32_t list, uint32_t i)
{
    const tn_value *v = &call->args[list];
    return v->tag == TN_TAG_TENSORS && i < v->count && v->as.tensors[i] ? tn_desc(v->as.tensors[i]) : NULL;
}

/* A tensor of one element, or a number, as a double; `otherwise` if it is absent. */
static double number_arg(const tn_call *call, uint32_t i, double otherwise)
{
    const tn_tensor_desc *t = tensor_arg(call, i);
    if (!t) return call->args[i].tag == TN_TAG_NONE ? otherwise : float_arg(call, i);
    return tn_number_load(t->dtype, t->host).f;
}

static void run_pieces(void *user, int64_t begin, int64_t end, int32_t thread)
{
    fused_job *job = user;
    uint32_t i = 0;
    for (int64_t piece = begin; piece < end; piece++) {
        while (i + 1 < job->count && job->pieces[i + 1] <= piece) i++;
        int64_t from = (piece - job->pieces[i]) * PIECE, to = min_i64(from + PIECE, job->numels[i]);
        if (job->run)
            job->run(&job->common, &job->items[i], from, to);
        else if (job->kernels->unscale(job->items[i].data[0], job->factor, from, to))
            atomic_store_explicit(&job->found, 1, memory_order_relaxed);
    }
}

/*
 * Runs the job on the tensors of arguments `lists[0]`, `lists[1]`, ..., one for each place of cpu_fused_item (-1: none).
 * `steps`: the argument with the numbers of steps, or -1.
 */
static int32_t run_lists(const tn_call *call, fused_job *job, const int32_t *lists, int32_t n_lists,
                         int32_t steps)
{
    uint32_t count = call->args[0].count;
    int64_t total = 0;
    int32_t status = TN_OK;
    const tn_tensor_desc *first = item_arg(call, 0, 0);
    if (!first) return TN_OK;
    job->kernels = cpu_kernels_of(fused_table, first->dtype);
    job->count = count;
    job->items = cpu_scratch(call, count * sizeof *job->items);
    job->pieces = cpu_scratch(call, count * sizeof *job->pieces);
    job->numels = cpu_scratch(call, count * sizeof *job->numels);
    if (!job->items || !job->pieces || !job->numels) return TN_E_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count && status == TN_OK; i++) {
        cpu_fused_item *item = &job->items[i];
        *item = (cpu_fused_item){.step = 1};
        job->numels[i] = cpu_numel(item_arg(call, 0, i));
        job->pieces[i] = total;
        total += ceil_div(job->numels[i], PIECE);
        for (int32_t k = 0; k < n_lists && status == TN_OK; k++) {
            const tn_tensor_desc *t = lists[k] < 0 ? NULL : item_arg(call, (uint32_t)lists[k], i);
            if (t) status = cpu_contiguous_read(call, t, &item->data[k]);
        }
        if (steps >= 0) {
            const tn_tensor_desc *t = item_arg(call, (uint32_t)steps, i);
            if (t) item->step = tn_number_load(t->dtype, t->host).f;
        }
    }
    if (status != TN_OK) return status;
    cpu_parallel_ranges(call, total, 1, run_pieces, job);
    for (uint32_t i = 0; i < count; i++) {
        for (int32_t k = 0; k < n_lists; k++)
            if (job->items[i].data[k])
                cpu_contiguous_finish(call, item_arg(call, (uint32_t)lists[k], i), job->items[i].data[k]);
    }
    return TN_OK;
}

/* Whether the step is left out because a gradient was not finite; reads grad_scale at `at` and found_inf behind it. */
static bool is_left_out(const tn_call *call, uint32_t at, cpu_fused *f)
{
    f->is_scaled = !is_none_arg(call, at);
    f->grad_scale = number_arg(call, at, 1);
    return number_arg(call, at + 1, 0) == 1;
}

/* (self, grads, momentum_buffers, weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step,
 * grad_scale, found_inf) */
static int32_t run_sgd(void *self, const tn_call *call)
{
    fused_job job = {.common = {.weight_decay = float_arg(call, 3),
                                .momentum = float_arg(call, 4),
                                .lr = number_arg(call, 5, 0),
                                .dampening = float_arg(call, 6),
                                .nesterov = bool_arg(call, 7),
                                .maximize = bool_arg(call, 8),
                                .is_first_step = bool_arg(call, 9)}};
    const int32_t lists[] = {0, 1, job.common.momentum != 0 ? 2 : -1};
    const tn_tensor_desc *first = item_arg(call, 0, 0);
    if (!first || is_left_out(call, 10, &job.common)) return TN_OK;
    job.run = ((const cpu_fused_kernels *)cpu_kernels_of(fused_table, first->dtype))->sgd;
    return run_lists(call, &job, lists, 3, -1);
}

/* (self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr, beta1, beta2, weight_decay, eps, amsgrad,
 * maximize, grad_scale, found_inf) */
static int32_t run_adam_of(const tn_call *call, bool is_decoupled)
{
    fused_job job = {.common = {.lr = number_arg(call, 6, 0),
                                .beta1 = float_arg(call, 7),
                                .beta2 = float_arg(call, 8),
                                .weight_decay = float_arg(call, 9),
                                .eps = float_arg(call, 10),
                                .keeps_largest = bool_arg(call, 11),
                                .maximize = bool_arg(call, 12),
                                .is_decoupled = is_decoupled}};
    const int32_t lists[] = {0, 1, 2, 3, job.common.keeps_largest ? 4 : -1};
    const tn_tensor_desc *first = item_arg(call, 0, 0);
    if (!first || is_left_out(call, 13, &job.common)) return TN_OK;
    job.run = ((const cpu_fused_kernels *)cpu_kernels_of(fused_table, first->dtype))->adam;
    return run_lists(call, &job, lists, 5, 5);
}

static int32_t run_adam(void *self, const tn_call *call)
{
    return run_adam_of(call, false);
}
static int32_t run_adamw(void *self, const tn_call *call)
{
    return run_adam_of(call, true);
}

/* (self, grads, state_sums, state_steps, lr, lr_decay, weight_decay, eps, maximize, grad_scale, found_inf) */
static int32_t run_adagrad(void *self, const tn_call *call)
{
    fused_job job = {.common = {.lr = number_arg(call, 4, 0),
                                .lr_decay = float_arg(call, 5),
                                .weight_decay = float_arg(call, 6),
                                .eps = float_arg(call, 7),
                                .maximize = bool_arg(call, 8)}};
    const int32_t lists[] = {0, 1, 2};
    const tn_tensor_desc *first = item_arg(call, 0, 0);
    if (!first || is_left_out(call, 9, &job.common)) return TN_OK;
    job.run = ((const cpu_fused_kernels *)cpu_kernels_of(fused_table, first->dtype))->adagrad;
    return run_lists(call, &job, lists, 3, 3);
}

/* (self, found_inf, inv_scale) */
static int32_t run_unscale(void *self, const tn_call *call)
{
    const int32_t lists[] = {0};
    const tn_tensor_desc *found = tensor_arg(call, 1);
    fused_job job = {.factor = number_arg(call, 2, 1)};
    int32_t status = run_lists(call, &job, lists, 1, -1);
    if (status == TN_OK && atomic_load(&job.found))
        tn_number_store(found->dtype, found->host, tn_number_real(1));
    return status;
}

/* (self, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval): self is the scale. */
static int32_t run_update_scale(void *self, const tn_call *call)
{
    const tn_tensor_desc *scale = tensor_arg(call, 0), *tracker = tensor_arg(call, 1);
    double old = tn_number_load(scale->dtype, scale->host).f, grown = old * float_arg(call, 3);
    int64_t successes = tn_number_load(tracker->dtype, tracker->host).i + 1;
    if (number_arg(call, 2, 0) != 0) {
        tn_number_store(scale->dtype, scale->host, tn_number_real(old * float_arg(call, 4)));
        successes = 0;
    } else if (successes == int_arg(call, 5)) {
        if (isfinite((float)grown)) tn_number_store(scale->dtype, scale->host, tn_number_real(grown));
        successes = 0;
    }
    tn_number_store(tracker->dtype, tracker->host, tn_number_whole(successes));
    return TN_OK;
}

#define SGD(lr)                                                                                          \
    "(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] momentum_buffer_list, *, float weight_decay, " \
    "float "                                                                                             \
    "momentum, " lr " lr, float dampening, bool nesterov, bool maximize, bool is_first_step, Tensor? "   \
    "grad_scale=None, Tensor? found_inf=None) -> ()"
#define ADAM(lr)                                                                                             \
    "(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] " \
    "max_exp_avg_sqs, Tensor[] state_steps, *, " lr                                                          \
    " lr, float beta1, float beta2, float weight_decay, float "                                              \
    "eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()"
#define ADAGRAD(steps, lr)                                                                                 \
    "(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] state_sums, " steps "[] state_steps, *, " lr     \
    " lr, float lr_decay, float weight_decay, float eps, bool maximize, Tensor? grad_scale=None, Tensor? " \
    "found_inf=None) -> ()"

const tn_kernel_row cpu_fused_rows[] = {
    CPU_ROW("aten::_fused_sgd_" SGD("float"), cpu_float_dtypes, run_sgd),
    CPU_ROW("aten::_fused_sgd_.tensor_lr" SGD("Tensor"), cpu_float_dtypes, run_sgd),
    CPU_ROW("aten::_fused_adam_" ADAM("float"), cpu_float_dtypes, run_adam),
    CPU_ROW("aten::_fused_adam_.tensor_lr" ADAM("Tensor"), cpu_float_dtypes, run_adam),
    CPU_ROW("aten::_fused_adamw_" ADAM("float"), cpu_float_dtypes, run_adamw),
    CPU_ROW("aten::_fused_adamw_.tensor_lr" ADAM("Tensor"), cpu_float_dtypes, run_adamw),
    CPU_ROW("aten::_fused_adagrad_" ADAGRAD("Tensor(d!)", "float"), cpu_float_dtypes, run_adagrad),
    CPU_ROW("aten::_fused_adagrad_.tensor_lr" ADAGRAD("Tensor", "Tensor"), cpu_float_dtypes, run_adagrad),
    CPU_ROW(
        "aten::_amp_foreach_non_finite_check_and_unscale_(Tensor(a!)[] self, Tensor(b!) found_inf, Tensor "
        "inv_scale) -> ()",
        cpu_float_dtypes, run_unscale),
    CPU_ROW("aten::_amp_update_scale_(Tensor(a!) self, Tensor(b!) growth_tracker, Tensor found_inf, float "
            "scale_growth_factor, float scale_backoff_factor, int growth_interval) -> Tensor(a!)",
            cpu_float32_dtypes, run_update_scale),
};
const uint32_t cpu_fused_row_count = CPU_ROW_COUNT(cpu_fused_rows);
