/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data-parallel training: each device has a copy of the network and computes the gradients of its part of every batch; the
 * gradients are averaged over the devices, so that all copies take the same step.
 *
 *     data_parallel [--float64] DEVICE DEVICE...     cuda:0 cuda:1, or cuda:0 cpu
 *
 * The program then trains with the first device alone on whole batches, and compares the losses.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/collectives.h>
#include <tenon/nn.h>
#include <tenon/optim.h>

#define MOST_DEVICES 8
#define STEPS        60
#define BATCH        240 /* rows, which 2, 3, 4, 5, 6 and 8 devices share equally */
#define INPUTS       4

typedef struct replica {
    tn_device device;
    tn_module *net;
    tn_optimizer *optimizer;
    tn_tensor *x, *y; /* its part of the batch */
} replica;

typedef struct run {
    tn_context *ctx;
    tn_dtype dtype;
    uint32_t count;
    replica replicas[MOST_DEVICES];
    tn_communicator
        *all; /* NULL: the devices have no collectives in common, gradients are averaged by copies */
    double losses[STEPS];
} run;

/* ---- Averages over the devices ------------------------------------------------------------------------- */

/* Collectives are for devices of one plugin, which has to have them; any devices can copy. */
static int create_communicator(run *r)
{
    tn_device devices[MOST_DEVICES];
    for (uint32_t i = 0; i < r->count; i++) devices[i] = r->replicas[i].device;
    int32_t status = tn_communicator_create(r->ctx, devices, r->count, &r->all);
    int is_mixed = status == TN_E_UNSUPPORTED || status == TN_E_DEVICE;
    if (is_mixed) r->all = NULL;
    if (r->count > 1) printf("gradients are averaged %s\n", r->all ? "by collectives" : "by copies");
    return status && !is_mixed;
}

/* Each tensor, on its own device, becomes the average of all. */
static void average(run *r, tn_scope *s, tn_tensor **tensors)
{
    if (r->all) {
        int32_t status = tn_communicator_all_reduce(r->all, tensors, r->count, TN_REDUCE_AVERAGE);
        if (status) tn_scope_fail(s, status, tn_last_error()->message);
        return;
    }
    tn_tensor *sum = tensors[0];
    for (uint32_t i = 1; i < r->count; i++)
        sum = tn_add(s, sum,
                     tn_to_dtype_layout(s, tensors[i], .device = r->replicas[0].device, .non_blocking = 1));
    sum = tn_div_scalar(s, sum, r->count);
    for (uint32_t i = 0; i < r->count; i++) tn_copy_(s, tensors[i], sum, .non_blocking = 1);
}

static void average_gradients(run *r, tn_scope *s)
{
    tn_tensors parameters[MOST_DEVICES];
    tn_tensor *gradients[MOST_DEVICES];
    for (uint32_t i = 0; i < r->count; i++) parameters[i] = tn_module_parameters(s, r->replicas[i].net);
    for (int64_t k = 0; k < parameters[0].count && !tn_scope_failed(s); k++) {
        for (uint32_t i = 0; i < r->count; i++) gradients[i] = tn_grad_of(s, parameters[i].data[k]);
        average(r, s, gradients);
    }
}

/* ---- Data and networks --------------------------------------------------------------------------------- */

/* A number in [-1, 1) for each index, always the same. */
static double noise(uint64_t index)
{
    index = (index + 1) * 0x9e3779b97f4a7c15u;
    index = (index ^ index >> 29) * 0xbf58476d1ce4e5b9u;
    return (double)(index >> 11) * 0x1p-52 - 1;
}

static void make_data(run *r, tn_scope *s)
{
    double x[BATCH][INPUTS], y[BATCH];
    for (uint64_t i = 0; i < BATCH; i++) {
        for (uint64_t k = 0; k < INPUTS; k++) x[i][k] = noise(i * INPUTS + k);
        y[i] = sin(3 * x[i][0]) + x[i][1] * x[i][2] - x[i][3];
    }
    const int64_t rows = BATCH / r->count;
    for (uint32_t i = 0; i < r->count; i++) {
        replica *p = &r->replicas[i];
        tn_tensor *here = tn_from_data(s, TN_FLOAT64, TN_INTS(rows, INPUTS), x[i * rows], TN_CPU);
        p->x = tn__to_copy(s, here, .dtype = r->dtype, .device = p->device);
        here = tn_from_data(s, TN_FLOAT64, TN_INTS(rows, 1), &y[i * rows], TN_CPU);
        p->y = tn__to_copy(s, here, .dtype = r->dtype, .device = p->device);
    }
}

/* The networks begin with the weights of the first one: generators of different devices give different numbers. */
static int create_replicas(run *r, tn_scope *s)
{
    tn_manual_seed(r->ctx, 1);
    for (uint32_t i = 0; i < r->count; i++) {
        replica *p = &r->replicas[i];
        p->net = tn_module_create(r->ctx, "net", NULL);
        tn_module_to(p->net, TN_CPU, r->dtype);
        tn_linear_create(p->net, "fc1", INPUTS, 32);
        tn_tanh_create(p->net, "act");
        tn_linear_create(p->net, "fc2", 32, 1);
        if (i)
            tn_vector_to_parameters(s,
                                    tn_parameters_to_vector(s, tn_module_parameters(s, r->replicas[0].net)),
                                    tn_module_parameters(s, p->net));
        p->optimizer = tn_sgd_create(p->net, .lr = 0.1, .momentum = 0.9);
        if (!p->optimizer) return 1;
    }
    for (uint32_t i = 0; i < r->count; i++)
        if (tn_module_to(r->replicas[i].net, r->replicas[i].device, 0)) return 1;
    return 0;
}

/* ---- Training ------------------------------------------------------------------------------------------ */

/* All devices work at once: the host waits for none of them before it reads the losses. */
static void train_step(run *r, tn_scope *s, double *out_loss)
{
    tn_tensor *loss[MOST_DEVICES];
    for (uint32_t i = 0; i < r->count; i++) {
        replica *p = &r->replicas[i];
        loss[i] = tn_mse_loss(s, tn_module_forward(s, p->net, p->x), p->y);
        tn_backward(s, loss[i]);
    }
    if (r->count > 1) average_gradients(r, s);
    for (uint32_t i = 0; i < r->count; i++) {
        tn_optimizer_step(s, r->replicas[i].optimizer, .lr = 0.1);
        tn_optimizer_zero_grad(r->replicas[i].optimizer);
    }
    *out_loss = 0;
    for (uint32_t i = 0; i < r->count; i++) *out_loss += tn_item_double(s, loss[i]) / r->count;
}

static int train(run *r)
{
    tn_scope *s = tn_scope_open(r->ctx); /* owns the data */
    int failed = create_communicator(r) || create_replicas(r, s);
    if (!failed) make_data(r, s);
    for (int i = 0; i < STEPS && !failed && !tn_scope_failed(s); i++) {
        tn_scope *step = tn_scope_open_child(s, NULL);
        train_step(r, step, &r->losses[i]);
        tn_scope_close(step); /* an error in it is now one of s */
    }
    if (failed || tn_scope_failed(s))
        fprintf(stderr, "data_parallel: %s\n", (failed ? tn_last_error() : tn_scope_error(s))->message);
    failed |= tn_scope_failed(s) != TN_OK;
    for (uint32_t i = 0; i < r->count; i++) {
        tn_optimizer_destroy(r->replicas[i].optimizer);
        tn_module_destroy(r->replicas[i].net);
    }
    tn_communicator_release(r->all);
    tn_scope_close(s);
    return failed;
}

static int choose_devices(run *r, char **names)
{
    for (; *names && r->count < MOST_DEVICES; names++) {
        tn_device device = tn_device_choose(r->ctx, *names, NULL);
        if (device & TN_DEVICE_MISSING) {
            fprintf(stderr, "data_parallel: %s\n", tn_last_error()->message);
            return 1;
        }
        r->replicas[r->count++].device = device;
    }
    if (r->count && !*names && BATCH % r->count == 0) return 0;
    fprintf(stderr,
            "usage: data_parallel [--float64] DEVICE DEVICE...\n"
            "up to %d devices, which share %d rows equally\n",
            MOST_DEVICES, BATCH);
    return 1;
}

/* Largest difference of the losses, relative to the loss. */
static double distance(const run *a, const run *b)
{
    double most = 0;
    for (int i = 0; i < STEPS; i++) most = fmax(most, fabs(a->losses[i] - b->losses[i]) / fabs(b->losses[i]));
    return most;
}

int main(int argc, char **argv)
{
    int is_double = argc > 1 && strcmp(argv[1], "--float64") == 0;
    run many = {.dtype = is_double ? TN_FLOAT64 : TN_FLOAT32}, one;
    if (tn_context_create(NULL, &many.ctx)) return puts(tn_last_error()->message), 1;
    int failed = choose_devices(&many, argv + 1 + is_double);
    one = many;
    one.count = 1;
    if (!failed) failed = train(&many) || train(&one);
    if (!failed) {
        double apart = distance(&many, &one);
        printf("loss %.6f to %.6f on %u device(s), to %.6f on one: relative difference %.1e\n",
               many.losses[0], many.losses[STEPS - 1], many.count, one.losses[STEPS - 1], apart);
        /* Sums of another order: all digits but the last ones agree. */
        failed = !(apart < (is_double ? 1e-10 : 1e-3)) || !(many.losses[STEPS - 1] < many.losses[0] / 4);
        if (failed) fprintf(stderr, "data_parallel: the runs differ, or have not learnt\n");
    }
    tn_context_destroy(many.ctx);
    return failed;
}
