/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batch normalisation: arguments, parameters as arrays of T, layouts. Channels-last data is used in place if
 * input, output and gradient are channels-last; all other data is made contiguous.
 */
#include "kernel_lists.h"
#include "nn/contiguous.h"
#include "norm.h"
#include "support/kernel_table.h"

CPU_KERNEL_TABLE(static cpu_kernel_table batch_norm_table, CPU_BATCH_NORM_LISTS, cpu_batch_norm_kernels);

/* The positions of the arguments in a schema; -1 if it lacks one. */
typedef struct norm_form {
    int weight, bias, running_mean, running_var, training, momentum, eps;
} norm_form;

static const tn_tensor_desc *at(const tn_call *call, int i)
{
    return i < 0 ? NULL : tensor_arg(call, (uint32_t)i);
}

static bool is_channels_last(const tn_tensor_desc *t)
{
    int64_t expected;
    if (t->rank < 3 || t->sizes[1] == 1) return false;
    if (t->strides[1] != 1) return false;
    expected = t->sizes[1];
    for (uint32_t i = t->rank; i-- > 2;) {
        if (t->sizes[i] != 1 && t->strides[i] != expected) return false;
        expected *= t->sizes[i];
    }
    return t->sizes[0] == 1 || t->strides[0] == expected;
}

static cpu_channels channels_of(const tn_call *call, const tn_tensor_desc *x)
{
    return (cpu_channels){
        .call = call, .batch = x->sizes[0], .channels = x->sizes[1], .inner = cpu_span(x, 2, x->rank)};
}

/* Memory for `count` arrays of T with one element per channel. */
typedef struct parameters {
    char *memory;
    int64_t step;
} parameters;
static int32_t open_parameters(const tn_call *call, const cpu_batch_norm_kernels *k, int64_t channels,
                               int64_t count, parameters *out)
{
    out->step = round_up(channels * k->acc_bytes, 64);
    out->memory = cpu_scratch(call, (uint64_t)(out->step * count));
    return out->memory ? TN_OK : TN_E_OUT_OF_MEMORY;
}
static void *parameter(const parameters *p, int64_t i)
{
    return p->memory + i * p->step;
}

enum { MEAN, VAR, WEIGHT, BIAS, INVSTD, SCALE, SHIFT, SUM, DOT, PARAMETERS };

/* Sets the data of a call: in place, or contiguous copies. */
static int32_t open_data(cpu_channels *d, const tn_tensor_desc *x, const tn_tensor_desc *grad,
                         const tn_tensor_desc *out)
{
    void *data[3] = {x->host, grad ? grad->host : NULL, out ? out->host : NULL};
    int32_t status = TN_OK;
    d->channels_last =
        is_channels_last(x) && (!grad || is_channels_last(grad)) && (!out || is_channels_last(out));
    if (!d->channels_last)
        status = cpu_contiguous_all(d->call, (const tn_tensor_desc *const[3]){x, grad, out}, 3, 2, data);
    d->x = data[0];
    d->grad = data[1];
    d->out = data[2];
    return status;
}
static void close_data(const cpu_channels *d, const tn_tensor_desc *out)
{
    cpu_contiguous_finish(d->call, out, d->out);
}

static void save(const cpu_batch_norm_kernels *k, const void *from, int64_t channels,
                 const tn_tensor_desc *out)
{
    if (out && cpu_numel(out) == channels) k->write(from, channels, out);
}

static int32_t normalise(const cpu_channels *d, const cpu_batch_norm_kernels *k, const norm_form *form,
                         const parameters *p)
{
    const tn_call *call = d->call;
    const tn_tensor_desc *running_mean = at(call, form->running_mean),
                         *running_var = at(call, form->running_var);
    bool training = form->training < 0 || int_arg(call, (uint32_t)form->training);
    double eps = float_arg(call, (uint32_t)form->eps);
    const tn_tensor_desc *kept = tensor_out(call, 1);
    int32_t status = TN_OK;
    k->read(at(call, form->weight), d->channels, 1, parameter(p, WEIGHT));
    k->read(at(call, form->bias), d->channels, 0, parameter(p, BIAS));
    if (training) {
        status = k->moments(d, parameter(p, MEAN), parameter(p, VAR));
        if (status != TN_OK) return status;
        if (kept) {
            k->round(parameter(p, MEAN), d->channels, kept->dtype, 1);
            k->round(parameter(p, VAR), d->channels, kept->dtype, (double)(d->batch * d->inner));
        }
        k->update(parameter(p, MEAN), parameter(p, VAR), d->channels, d->batch * d->inner,
                  float_arg(call, (uint32_t)form->momentum), running_mean, running_var);
    } else {
        k->read(running_mean, d->channels, 0, parameter(p, MEAN));
        k->read(running_var, d->channels, 1, parameter(p, VAR));
    }
    k->inverse(parameter(p, VAR), d->channels, eps, parameter(p, INVSTD));
    if (training && kept) k->round(parameter(p, INVSTD), d->channels, kept->dtype, 1);
    k->coefficients(d->channels, parameter(p, MEAN), parameter(p, INVSTD), parameter(p, WEIGHT),
                    parameter(p, BIAS), parameter(p, SCALE), parameter(p, SHIFT));
    k->affine(d, parameter(p, SCALE), parameter(p, SHIFT));
    if (training) {
        save(k, parameter(p, MEAN), d->channels, tensor_out(call, 1));
        save(k, parameter(p, INVSTD), d->channels, tensor_out(call, 2));
    }
    return TN_OK;
}

static int32_t run_forward(void *self, const tn_call *call)
{
    const tn_tensor_desc *x = tensor_arg(call, 0), *out = tensor_out(call, 0);
    const cpu_batch_norm_kernels *k = cpu_kernels_of(batch_norm_table, x->dtype);
    cpu_channels d = channels_of(call, x);
    parameters p = {0};
    int32_t status = open_data(&d, x, NULL, out);
    if (status == TN_OK) status = open_parameters(call, k, d.channels, PARAMETERS, &p);
    if (status == TN_OK && cpu_numel(x) > 0) status = normalise(&d, k, call->data, &p);
    if (status == TN_OK) close_data(&d, out);
    return status;
}

/* ---- Backward ---------------------------------------------------------------------------------------- */

/* The mean and inverse deviation that the forward pass used. */
static void read_statistics(const cpu_channels *d, const cpu_batch_norm_kernels *k, const parameters *p,
                            bool train)
{
    const tn_call *call = d->call;
    if (train) {
        k->read(tensor_arg(call, 5), d->channels, 0, parameter(p, MEAN));
        k->read(tensor_arg(call, 6), d->channels, 1, parameter(p, INVSTD));
        return;
    }
    k->read(tensor_arg(call, 3), d->channels, 0, parameter(p, MEAN));
    k->read(tensor_arg(call, 4), d->channels, 1, parameter(p, VAR));
    k->inverse(parameter(p, VAR), d->channels, float_arg(call, 8), parameter(p, INVSTD));
}

static int32_t differentiate(const cpu_channels *d, const cpu_batch_norm_kernels *k, const parameters *p)
{
    const tn_call *call = d->call;
    bool train = int_arg(call, 7);
    const tn_tensor_desc *weight = mask_arg(call, 9, 1) ? tensor_out(call, 1) : NULL;
    const tn_tensor_desc *bias = mask_arg(call, 9, 2) ? tensor_out(call, 2) : NULL;
    int32_t status = TN_OK;
    k->read(tensor_arg(call, 2), d->channels, 1, parameter(p, WEIGHT));
    read_statistics(d, k, p, train);
    if (train || weight || bias)
        status = k->backward_sums(d, parameter(p, MEAN), parameter(p, SUM), parameter(p, DOT));
    if (status == TN_OK && d->out)
        status = k->backward(d, parameter(p, MEAN), parameter(p, INVSTD), parameter(p, WEIGHT),
                             parameter(p, SUM), parameter(p, DOT), train);
    if (status != TN_OK) return status;
    if (weight) {
        k->scale(parameter(p, INVSTD), d->channels, parameter(p, DOT));
        k->write(parameter(p, DOT), d->channels, weight);
    }
    if (bias) k->write(parameter(p, SUM), d->channels, bias);
    return TN_OK;
}

static int32_t run_backward(void *self, const tn_call *call)
{
    const tn_tensor_desc *grad = tensor_arg(call, 0), *x = tensor_arg(call, 1);
    const tn_tensor_desc *out = mask_arg(call, 9, 0) ? tensor_out(call, 0) : NULL;
    const cpu_batch_norm_kernels *k = cpu_kernels_of(batch_norm_table, x->dtype);
    cpu_channels d = channels_of(call, x);
    parameters p = {0};
    int32_t status = open_data(&d, x, grad, out);
    if (status == TN_OK) status = open_parameters(call, k, d.channels, PARAMETERS, &p);
    if (status == TN_OK) status = differentiate(&d, k, &p);
    if (status == TN_OK) close_data(&d, out);
    return status;
}

static const norm_form full_form = {1, 2, 3, 4, 5, 6, 7}, no_stats_form = {1, 2, -1, -1, 3, 4, 5},
                       update_form = {1, 2, 3, 4, -1, 5, 6};

const tn_kernel_row cpu_batch_norm_rows[] = {
    CPU_ROW("aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
            "Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
            cpu_float_dtypes, run_forward, .data = &full_form),
    CPU_ROW(
        "aten::_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, "
        "Tensor(b!) running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
        cpu_float_dtypes, run_forward, .data = &full_form),
    CPU_ROW("aten::_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool "
            "training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
            cpu_float_dtypes, run_forward, .data = &no_stats_form),
    CPU_ROW(
        "aten::_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean, "
        "Tensor(b!) running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
        cpu_float_dtypes, run_forward, .data = &update_form),
    CPU_ROW("aten::native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? "
            "running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float "
            "eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
            cpu_float_dtypes, run_backward),
    CPU_ROW("aten::batch_norm_backward(Tensor grad_out, Tensor input, Tensor weight, Tensor? running_mean, "
            "Tensor? running_var, Tensor? save_mean, Tensor? save_var, bool update, float eps, bool[3] "
            "output_mask, Tensor reserve) -> (Tensor, Tensor, Tensor)",
            cpu_float_dtypes, run_backward),
};
const uint32_t cpu_batch_norm_row_count = CPU_ROW_COUNT(cpu_batch_norm_rows);
