/* SPDX-License-Identifier: Apache-2.0 */
/* ctc_loss: a thread takes whole sequences. The shape rule has checked all lengths. */
#include "kernel_lists.h"
#include "ctc_loss.h"
#include "nn/contiguous.h"
#include "support/kernel_table.h"
#include <math.h>
#include <stdatomic.h>
#include <tenon/kernel.h>

CPU_KERNEL_TABLE(static cpu_kernel_table ctc_loss_table, CPU_CTC_LOSS_LISTS, cpu_ctc_loss_kernels);

typedef struct ctc_job {
    const tn_call *call;
    const cpu_ctc_loss_kernels *kernels;
    const tn_tensor_desc *log_probs,
        *targets; /* [row, batch, class]; [batch, label], or all labels in one row */
    const int64_t *lengths, *target_lengths;
    int64_t blank, most;      /* labels of the longest target */
    void *log_alpha, *losses; /* [batch, row, state], [batch] */
    const tn_tensor_desc *loss_grad;
    char *grad; /* contiguous, like log_probs; NULL: forward */
    bool zero_infinity;
    atomic_int status;
} ctc_job;

static double get_real(tn_dtype dtype, const void *data, int64_t i)
{
    return dtype == TN_FLOAT32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}

/* The labels of a sequence with blanks between, before and behind them. */
static bool read_labels(const ctc_job *job, int64_t batch, int64_t *labels)
{
    const tn_tensor_desc *t = job->targets;
    int64_t bytes = tn_dtype_bytes(t->dtype), step = t->strides[t->rank - 1], start = 0;
    int64_t classes = job->log_probs->sizes[2];
    for (int64_t b = 0; t->rank == 1 && b < batch; b++) start += job->target_lengths[b];
    start = t->rank == 1 ? start * step : batch * t->strides[0];
    labels[0] = job->blank;
    for (int64_t i = 0; i < job->target_lengths[batch]; i++) {
        int64_t label = tn_number_load(t->dtype, (const char *)t->host + (start + i * step) * bytes).i;
        if (label < 0 || label >= classes) return false;
        labels[2 * i + 1] = label;
        labels[2 * i + 2] = job->blank;
    }
    return true;
}

static void run_sequence(ctc_job *job, int64_t b, int64_t *labels, void *scratch)
{
    const tn_tensor_desc *p = job->log_probs;
    int64_t bytes = tn_dtype_bytes(p->dtype), states = 2 * job->most + 1, rows = p->sizes[0];
    cpu_ctc c = {.log_probs = (const char *)p->host + b * p->strides[1] * bytes,
                 .row = p->strides[0],
                 .column = p->strides[2],
                 .rows = rows,
                 .length = job->lengths[b],
                 .classes = p->sizes[2],
                 .states = 2 * job->target_lengths[b] + 1,
                 .labels = labels,
                 .log_alpha = (char *)job->log_alpha + b * rows * states * bytes,
                 .alpha_row = states,
                 .scratch = scratch};
    if (!read_labels(job, b, labels)) {
        atomic_store(&job->status, TN_E_INDEX);
        return;
    }
    if (!job->grad) {
        double loss = job->kernels->forward(&c);
        if (p->dtype == TN_FLOAT32)
            ((float *)job->losses)[b] = (float)loss;
        else
            ((double *)job->losses)[b] = loss;
        return;
    }
    c.grad = job->grad + b * c.classes * bytes;
    c.grad_row = p->sizes[1] * c.classes;
    c.loss = get_real(p->dtype, job->losses, b);
    c.loss_grad =
        get_real(p->dtype, job->loss_grad->host, job->loss_grad->rank ? b * job->loss_grad->strides[0] : 0);
    if (job->zero_infinity && isinf(c.loss)) c.loss_grad = 0;
    job->kernels->backward(&c);
}

static void run_sequences(void *user, int64_t begin, int64_t end, int32_t thread)
{
    ctc_job *job = user;
    int64_t states = 2 * job->most + 1;
    int64_t bytes = (states + CPU_CTC_SCRATCH(states, job->log_probs->sizes[2])) * 8;
    int64_t *labels = cpu_alloc(job->call, bytes);
    if (!labels) {
        atomic_store(&job->status, TN_E_OUT_OF_MEMORY);
        return;
    }
    for (int64_t b = begin; b < end; b++) run_sequence(job, b, labels, labels + states);
    cpu_free(job->call, labels, bytes);
}

/* Lengths are at `at` and behind it, then blank and zero_infinity at `blank`. */
static ctc_job job_of(const tn_call *call, uint32_t first, uint32_t at, uint32_t blank)
{
    ctc_job job = {.call = call,
                   .log_probs = tensor_arg(call, first),
                   .targets = tensor_arg(call, first + 1),
                   .lengths = call->args[at].as.ints,
                   .target_lengths = call->args[at + 1].as.ints,
                   .blank = int_arg(call, blank),
                   .zero_infinity = bool_arg(call, blank + 1)};
    job.kernels = cpu_kernels_of(ctc_loss_table, job.log_probs->dtype);
    for (uint32_t b = 0; b < call->args[at + 1].count; b++)
        job.most = max_i64(job.most, job.target_lengths[b]);
    return job;
}

static int32_t run(ctc_job *job)
{
    const tn_tensor_desc *p = job->log_probs;
    cpu_parallel_ranges(job->call, p->sizes[1], grain_for(4096, p->sizes[0] * (2 * job->most + 1)),
                        run_sequences, job);
    if (atomic_load(&job->status) == TN_E_INDEX)
        return cpu_error(job->call, TN_E_INDEX,
                         "ctc_loss: argument 'targets': a label is out of range (expected 0 to %lld)",
                         (long long)p->sizes[2] - 1);
    return atomic_load(&job->status);
}

static int32_t run_forward(void *self, const tn_call *call)
{
    const tn_tensor_desc *loss = tensor_out(call, 0), *alpha = tensor_out(call, 1);
    ctc_job job = job_of(call, 0, 2, 4);
    job.losses = loss->host;
    job.log_alpha = alpha->host;
    return run(&job);
}

static int32_t run_backward(void *self, const tn_call *call)
{
    const tn_tensor_desc *out = tensor_out(call, 0);
    ctc_job job = job_of(call, 1, 3, 7);
    void *data[3];
    const tn_tensor_desc *operands[3] = {tensor_arg(call, 5), tensor_arg(call, 6), out};
    int32_t status = cpu_contiguous_all(call, operands, 3, 2, data);
    if (status != TN_OK) return status;
    job.loss_grad = tensor_arg(call, 0);
    job.losses = data[0];
    job.log_alpha = data[1];
    job.grad = data[2];
    status = run(&job);
    if (status == TN_OK) cpu_contiguous_finish(call, out, data[2]);
    return status;
}

const tn_kernel_row cpu_ctc_loss_rows[] = {
    CPU_ROW("aten::_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, "
            "int blank=0, "
            "bool zero_infinity=False) -> (Tensor, Tensor)",
            cpu_full_float_dtypes, run_forward),
    CPU_ROW(
        "aten::_ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, int[] input_lengths, int[] "
        "target_lengths, Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool zero_infinity=False) "
        "-> Tensor",
        cpu_full_float_dtypes, run_backward),
};
const uint32_t cpu_ctc_loss_row_count = CPU_ROW_COUNT(cpu_ctc_loss_rows);
