/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The overhead of a call: all tensors have one element. And of recording: chains of 100 products, forward
 * only, recorded, and with backward.
 */
#include "bench.h"

#define CHAIN 100

typedef struct calls {
    tn_scope *s; /* owns the inputs */
    tn_tensor *a, *b, *out;
    tn_tensor *rows; /* [4, 4], for views */
} calls;

static int calls_open(bench *b)
{
    static const float one = 1.0f, rows[16];
    calls *c = bench_state(b, sizeof *c);
    if (!c) return 1;
    b->runs_ahead = 256;
    c->s = tn_scope_open(b->ctx);
    c->a = tn_from_data(c->s, TN_FLOAT32, TN_INTS(1), &one, b->device);
    c->b = tn_from_data(c->s, TN_FLOAT32, TN_INTS(1), &one, b->device);
    c->out = tn_from_data(c->s, TN_FLOAT32, TN_INTS(1), &one, b->device);
    c->rows = tn_from_data(c->s, TN_FLOAT32, TN_INTS(4, 4), rows, b->device);
    return tn_scope_failed(c->s) ? bench_failed(b, c->s) : 0;
}

static int chain_open(bench *b)
{
    int status = calls_open(b);
    b->runs_ahead = 256 / CHAIN;
    return status;
}

static int recorded_open(bench *b)
{
    calls *c;
    if (chain_open(b)) return 1;
    c = b->state;
    return tn_set_requires_grad(c->a, 1) || tn_set_requires_grad(c->b, 1) ? bench_failed(b, NULL) : 0;
}

static void calls_close(bench *b)
{
    calls *c = b->state;
    tn_scope_close(c->s);
}

static int end(bench *b, tn_scope *s)
{
    int status = tn_scope_failed(s) ? bench_failed(b, s) : 0;
    tn_scope_close(s);
    return status;
}

static int run_add(bench *b, int64_t n)
{
    calls *c = b->state;
    tn_scope *s = tn_scope_open(b->ctx);
    for (int64_t i = 0; i < n; i++) tn_drop(s, tn_add(s, c->a, c->b));
    return end(b, s);
}

/* As in a training step: nothing is released before the scope closes. */
static int run_add_kept(bench *b, int64_t n)
{
    calls *c = b->state;
    int status = 0;
    while (n > 0 && !status) {
        tn_scope *s = tn_scope_open(b->ctx);
        for (int64_t i = 0; i < CHAIN && n > 0; i++, n--) tn_add(s, c->a, c->b);
        status = end(b, s);
    }
    return status;
}

static int run_add_out(bench *b, int64_t n)
{
    calls *c = b->state;
    tn_scope *s = tn_scope_open(b->ctx);
    for (int64_t i = 0; i < n; i++) tn_add_out(s, c->a, c->b, c->out);
    return end(b, s);
}

static int run_add_inplace(bench *b, int64_t n)
{
    calls *c = b->state;
    tn_scope *s = tn_scope_open(b->ctx);
    for (int64_t i = 0; i < n; i++) tn_add_(s, c->out, c->b);
    return end(b, s);
}

static int run_mul_scalar(bench *b, int64_t n)
{
    calls *c = b->state;
    tn_scope *s = tn_scope_open(b->ctx);
    for (int64_t i = 0; i < n; i++) tn_drop(s, tn_mul_scalar(s, c->a, 2.0));
    return end(b, s);
}

static int run_unsqueeze(bench *b, int64_t n)
{
    calls *c = b->state;
    tn_scope *s = tn_scope_open(b->ctx);
    for (int64_t i = 0; i < n; i++) tn_drop(s, tn_unsqueeze(s, c->rows, 0));
    return end(b, s);
}

static int run_select(bench *b, int64_t n)
{
    calls *c = b->state;
    tn_scope *s = tn_scope_open(b->ctx);
    for (int64_t i = 0; i < n; i++) tn_drop(s, tn_select(s, c->rows, 0, 1));
    return end(b, s);
}

static int run_transpose(bench *b, int64_t n)
{
    calls *c = b->state;
    tn_scope *s = tn_scope_open(b->ctx);
    for (int64_t i = 0; i < n; i++) tn_drop(s, tn_transpose(s, c->rows, 0, 1));
    return end(b, s);
}

static int run_empty(bench *b, int64_t n)
{
    tn_scope *s = tn_scope_open(b->ctx);
    for (int64_t i = 0; i < n; i++)
        tn_drop(s, tn_empty(s, TN_INTS(1), .dtype = TN_FLOAT32, .device = b->device));
    return end(b, s);
}

static int run_item(bench *b, int64_t n)
{
    calls *c = b->state;
    tn_scope *s = tn_scope_open(b->ctx);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += tn_item_double(s, c->a);
    if (sum != (double)n && !tn_scope_failed(s)) tn_scope_fail(s, TN_E_INTERNAL, "item: a wrong value");
    return end(b, s);
}

static int run_scope(bench *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) tn_scope_close(tn_scope_open(b->ctx));
    return 0;
}

static int run_products(bench *b, int64_t n, int backward)
{
    calls *c = b->state;
    int status = 0;
    for (int64_t i = 0; i < n && !status; i++) {
        tn_scope *s = tn_scope_open(b->ctx);
        tn_tensor *y = c->a;
        for (int k = 0; k < CHAIN; k++) y = tn_mul(s, y, c->b);
        if (backward) {
            tn_backward(s, y);
            tn_set_grad(c->a, NULL);
            tn_set_grad(c->b, NULL);
        }
        status = end(b, s);
    }
    return status;
}

static int run_chain(bench *b, int64_t n)
{
    return run_products(b, n, 0);
}

static int run_chain_backward(bench *b, int64_t n)
{
    return run_products(b, n, 1);
}

int main(int argc, char **argv)
{
    static const bench_case cases[] = {
        {"add", calls_open, run_add, calls_close, NULL},
        {"add_kept", calls_open, run_add_kept, calls_close, NULL},
        {"add_out", calls_open, run_add_out, calls_close, NULL},
        {"add_", calls_open, run_add_inplace, calls_close, NULL},
        {"mul_scalar", calls_open, run_mul_scalar, calls_close, NULL},
        {"unsqueeze", calls_open, run_unsqueeze, calls_close, NULL},
        {"select", calls_open, run_select, calls_close, NULL},
        {"transpose", calls_open, run_transpose, calls_close, NULL},
        {"empty", calls_open, run_empty, calls_close, NULL},
        {"item", calls_open, run_item, calls_close, NULL},
        {"scope", calls_open, run_scope, calls_close, NULL},
        {"chain", chain_open, run_chain, calls_close, NULL},
        {"chain_recorded", recorded_open, run_chain, calls_close, NULL},
        {"chain_backward", recorded_open, run_chain_backward, calls_close, NULL},
    };
    return bench_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
