/* SPDX-License-Identifier: Apache-2.0 */
/* One training step of the network of examples/fashion_mnist on a batch of 128 synthetic images. */
#include <stdlib.h>
#include "bench.h"
#include "demo.h"

#define BATCH 128

typedef struct training {
    tn_scope *s; /* owns the batch */
    tn_tensor *images, *labels;
    model m;
    optim_adamw optimiser;
    tn_tensor *trained[NN_MAX_TENSORS];
} training;

static int make_optimiser(training *t)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->m.store.count; i++) {
        if (t->m.store.trained[i]) t->trained[n++] = t->m.store.tensors[i];
    }
    return optim_adamw_init(&t->optimiser, t->trained, n, 4e-3, 1e-2);
}

static int step_open(bench *b)
{
    static float images[BATCH * 28 * 28];
    static int64_t labels[BATCH];
    training *t = calloc(1, sizeof *t);
    if (!t) return bench_absent(b, "no memory");
    b->state = t;
    for (int i = 0; i < BATCH * 28 * 28; i++) images[i] = (float)(i * 7919 % 1000) / 500.0f - 1.0f;
    for (int i = 0; i < BATCH; i++) labels[i] = i % CLASSES;
    t->s = tn_scope_open(b->ctx);
    t->images = tn_from_data(t->s, TN_FLOAT32, TN_INTS(BATCH, 1, 28, 28), images, TN_CPU);
    t->labels = tn_from_data(t->s, TN_INT64, TN_INTS(BATCH), labels, TN_CPU);
    model_init(&t->m, t->s, b->ctx, TN_CPU, *(const tn_dtype *)b->current->data);
    if (tn_scope_failed(t->s)) return bench_failed(b, t->s);
    return make_optimiser(t) ? bench_absent(b, "no memory") : 0;
}

static void step_close(bench *b)
{
    training *t = b->state;
    if (!t) return;
    optim_adamw_finish(&t->optimiser);
    nn_store_finish(&t->m.store);
    tn_scope_close(t->s);
    free(t);
}

static int step_run(bench *b, int64_t n)
{
    training *t = b->state;
    int status = 0;
    for (int64_t i = 0; i < n && !status; i++) {
        tn_scope *s = tn_scope_open(b->ctx);
        tn_tensor *loss = tn_cross_entropy_loss(s, model_forward(&t->m, s, t->images, 1), t->labels);
        tn_backward(s, loss);
        optim_adamw_step(&t->optimiser, s);
        nn_zero_grad(&t->m.store);
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
