/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One training step of the network of examples/fashion_mnist on a batch of 128 synthetic images. With AdamW, in mixed
 * precision too; with SGD, whose steps are all alike, also as a graph that is captured once and replayed.
 */
#include "bench.h"
#include "demo.h"
#include "training.h"

#define BATCH 128

typedef struct form {
    tn_dtype dtype;
    uint32_t optimizer;
    int32_t is_graph;
} form;

typedef struct training {
    tn_scope *s; /* owns the batch */
    tn_tensor *images, *labels;
    const form *form;
    tn_module *net;
    tn_optimizer *optimizer;
    tn_graph *graph; /* NULL: the calls are made in each step */
    tn_stream *side; /* on which it was captured */
} training;

static int step(bench *b, const training *t)
{
    tn_scope *s = tn_scope_open(b->ctx);
    tn_tensor *y = model_forward(t->net, s, t->images, t->form->dtype);
    tn_backward(s, tn_cross_entropy_loss(s, y, t->labels));
    tn_optimizer_step(s, t->optimizer);
    tn_optimizer_zero_grad(t->optimizer);
    int status = tn_scope_failed(s) ? bench_failed(b, s) : 0;
    tn_scope_close(s);
    return status;
}

/* Captures a step, after some that make what stays: buffers of the optimiser, plans of libraries. */
static int capture(bench *b, training *t)
{
    int status = 0, made = 0;
    if (tn_graph_create(b->ctx, b->device, &t->graph) || tn_stream_create(b->ctx, b->device, 0, &t->side) ||
        tn_stream_wait_stream(t->side, tn_stream_default(b->ctx, b->device)) ||
        tn_stream_set_current(b->ctx, t->side))
        return bench_failed(b, NULL);
    for (int i = 0; i < 3 && !status; i++) status = step(b, t);
    if (!status && tn_graph_capture_begin(t->graph, t->side)) status = bench_failed(b, NULL);
    if (!status) {
        made = !step(b, t);
        status = tn_graph_capture_end(t->graph) && made ? bench_failed(b, NULL) : !made;
    }
    tn_stream_set_current(b->ctx, tn_stream_default(b->ctx, b->device));
    return status;
}

static int step_open(bench *b)
{
    static float images[BATCH * 28 * 28];
    static int64_t labels[BATCH];
    training *t = bench_state(b, sizeof *t);
    if (!t) return 1;
    for (int i = 0; i < BATCH * 28 * 28; i++) images[i] = (float)(i * 7919 % 1000) / 500.0f - 1.0f;
    for (int i = 0; i < BATCH; i++) labels[i] = i % CLASSES;
    t->s = tn_scope_open(b->ctx);
    t->images = tn_from_data(t->s, TN_FLOAT32, TN_INTS(BATCH, 1, 28, 28), images, b->device);
    t->labels = tn_from_data(t->s, TN_INT64, TN_INTS(BATCH), labels, b->device);
    if (tn_scope_failed(t->s)) return bench_failed(b, t->s);
    t->form = b->current->data;
    t->net = model_create(b->ctx, b->device);
    if (t->form->optimizer == TN_SGD)
        t->optimizer = tn_sgd_create(t->net, .lr = 1e-3, .momentum = 0.9);
    else
        t->optimizer = tn_adamw_create(t->net, .lr = 4e-3, .weight_decay = 1e-2);
    if (!t->optimizer) return bench_failed(b, NULL);
    return t->form->is_graph ? capture(b, t) : 0;
}

static void step_close(bench *b)
{
    training *t = b->state;
    tn_graph_release(t->graph);
    tn_stream_release(t->side);
    training_close(t->optimizer, t->net, t->s);
}

static int step_run(bench *b, int64_t n)
{
    const training *t = b->state;
    int status = 0;
    for (int64_t i = 0; i < n && !status; i++) {
        if (t->graph)
            status = tn_graph_replay(t->graph) ? bench_failed(b, NULL) : 0;
        else
            status = step(b, t);
    }
    return status;
}

int main(int argc, char **argv)
{
    static const form single = {TN_FLOAT32, TN_ADAMW, 0}, low = {TN_BFLOAT16, TN_ADAMW, 0},
                      sgd = {TN_FLOAT32, TN_SGD, 0}, graph = {TN_FLOAT32, TN_SGD, 1};
    static const bench_case cases[] = {{"step", step_open, step_run, step_close, &single},
                                       {"step_bfloat16", step_open, step_run, step_close, &low},
                                       {"step_sgd", step_open, step_run, step_close, &sgd},
                                       {"step_graph", step_open, step_run, step_close, &graph}};
    return bench_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
