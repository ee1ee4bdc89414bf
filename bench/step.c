/* SPDX-License-Identifier: Apache-2.0 */
/* One training step of the network of examples/fashion_mnist on a batch of 128 synthetic images. */
#include "bench.h"
#include "demo.h"
#include "training.h"

#define BATCH 128

typedef struct training {
    tn_scope *s; /* owns the batch */
    tn_tensor *images, *labels;
    tn_dtype dtype;
    tn_module *net;
    tn_optimizer *optimizer;
} training;

static int step_open(bench *b)
{
    static float images[BATCH * 28 * 28];
    static int64_t labels[BATCH];
    training *t = bench_state(b, sizeof *t);
    if (!t) return 1;
    for (int i = 0; i < BATCH * 28 * 28; i++) images[i] = (float)(i * 7919 % 1000) / 500.0f - 1.0f;
    for (int i = 0; i < BATCH; i++) labels[i] = i % CLASSES;
    t->s = tn_scope_open(b->ctx);
    t->images = tn_from_data(t->s, TN_FLOAT32, TN_INTS(BATCH, 1, 28, 28), images, TN_CPU);
    t->labels = tn_from_data(t->s, TN_INT64, TN_INTS(BATCH), labels, TN_CPU);
    if (tn_scope_failed(t->s)) return bench_failed(b, t->s);
    t->dtype = *(const tn_dtype *)b->current->data;
    t->net = model_create(b->ctx, TN_CPU);
    t->optimizer = tn_adamw_create(t->net, .lr = 4e-3, .weight_decay = 1e-2);
    return t->optimizer ? 0 : bench_absent(b, "no memory");
}

static void step_close(bench *b)
{
    training *t = b->state;
    training_close(t->optimizer, t->net, t->s);
}

static int step_run(bench *b, int64_t n)
{
    training *t = b->state;
    int status = 0;
    for (int64_t i = 0; i < n && !status; i++) {
        tn_scope *s = tn_scope_open(b->ctx);
        tn_tensor *loss = tn_cross_entropy_loss(s, model_forward(t->net, s, t->images, t->dtype), t->labels);
        tn_backward(s, loss);
        tn_optimizer_step(s, t->optimizer);
        tn_optimizer_zero_grad(t->optimizer);
        if (tn_scope_failed(s)) status = bench_failed(b, s);
        tn_scope_close(s);
    }
    return status;
}

int main(int argc, char **argv)
{
    static const tn_dtype single = TN_FLOAT32, low = TN_BFLOAT16;
    static const bench_case cases[] = {{"step", step_open, step_run, step_close, &single},
                                       {"step_bfloat16", step_open, step_run, step_close, &low}};
    return bench_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
