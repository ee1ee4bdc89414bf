/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every scenario once more with the n-th allocation of the context's allocator failing, for n = 1 and on
 * until nothing fails any more: no crash, an error each time that a result is missing, no leak, and the
 * context works afterwards. Short form: every n to 64, then every 41st; TENON_TEST_LONG=1: all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <tenon/tenon.h>
#include "counting.h"

/* ---- scenarios: 1 and a right result, or 0 and a failed scope ---- */

static tn_tensor *numbers(tn_scope *s, int64_t rows, int64_t columns)
{
    return tn_reshape(s, tn_arange(s, rows * columns, .dtype = TN_FLOAT32), TN_INTS(rows, columns));
}

static int arithmetic(tn_scope *s)
{
    tn_tensor *a = numbers(s, 3, 4), *b = tn_t(s, numbers(s, 4, 3));
    tn_tensor *c = tn_add(s, tn_mul(s, a, b), tn_select(s, a, 0, 1));
    return tn_item_double(s, tn_sum(s, c)) == 506.0;
}

static int products(tn_scope *s)
{
    tn_tensor *a = numbers(s, 3, 4), *w = numbers(s, 5, 4);
    tn_tensor *y = tn_softmax(s, tn_linear(s, a, w), 1);
    double sum = tn_item_double(s, tn_sum(s, y));
    return sum > 2.999 && sum < 3.001;
}

static int indexing(tn_scope *s)
{
    tn_tensor *a = numbers(s, 4, 4);
    tn_tensor *picked = tn_index(s, a, TN_BY(tn_gt_scalar(s, a, 9)));
    return tn_item_double(s, tn_sum(s, picked)) == 75.0;
}

static int gradient(tn_scope *s)
{
    tn_tensor *x = numbers(s, 2, 2), *g;
    if (!x || tn_set_requires_grad(x, 1)) return 0;
    if (tn_backward(s, tn_sum(s, tn_tanh(s, tn_mm(s, x, x))))) return 0;
    g = tn_grad_of(s, x);
    return g && tn_tensor_numel(g) == 4;
}

static int lists(tn_scope *s)
{
    tn_tensors parts = tn_split(s, numbers(s, 6, 2), 4);
    tn_tensor *joined = parts.count == 2 ? tn_cat(s, parts) : NULL;
    const char *text = joined ? tn_format(s, joined, NULL) : NULL;
    return text && strncmp(text, "tensor([[ 0.,  1.],", 19) == 0;
}

static int file(tn_scope *s)
{
    char path[] = "torture.XXXXXX";
    int fd = mkstemp(path), right = 0;
    tn_named_tensor one = {"x", numbers(s, 2, 3)};
    tn_safetensors *f = NULL;
    if (fd >= 0) close(fd);
    if (one.tensor && !tn_safetensors_save(s, path, &one, 1, NULL, 0) &&
        !tn_safetensors_open(tn_scope_context(s), path, &f)) {
        right = tn_item_double(s, tn_sum(s, tn_safetensors_get(s, f, "x", TN_CPU))) == 15.0;
    }
    tn_safetensors_close(f);
    unlink(path);
    return right;
}

static const struct {
    const char *name;
    int (*run)(tn_scope *s);
} scenarios[] = {{"arithmetic", arithmetic}, {"products", products}, {"indexing", indexing},
                 {"gradient", gradient},     {"lists", lists},       {"file", file}};

/* 1: went wrong without an error, or leaked, or the context is spoilt. *out_done: nothing failed any more. */
static int attempt(uint32_t scenario, long long n, int *out_done)
{
    counting c = {.fail_at = 0};
    tn_context_options o = {.size = sizeof o, .allocator = {&c, take, give_back}};
    tn_context *ctx;
    int bad = 0, right;
    tn_scope *s;
    if (tn_context_create(&o, &ctx)) return 1;
    c.fail_at = atomic_load(&c.count) + n;
    s = tn_scope_open(ctx);
    right = s ? scenarios[scenario].run(s) : 0;
    if (!right && !(s && tn_scope_failed(s)) && !tn_last_error()) bad = 1;
    tn_scope_close(s);
    *out_done = atomic_load(&c.count) < c.fail_at;
    if (*out_done && !right) bad = 1;
    c.fail_at = 0;
    s = tn_scope_open(ctx);
    bad |= !scenarios[scenario].run(s);
    tn_scope_close(s);
    tn_context_destroy(ctx);
    bad |= atomic_load(&c.live) != 0;
    if (bad)
        printf("%s: allocation %lld failing: %lld blocks left\n", scenarios[scenario].name, n,
               (long long)atomic_load(&c.live));
    return bad;
}

int main(void)
{
    int all = getenv("TENON_TEST_LONG") != NULL, passed = 0, failed = 0;
    for (uint32_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        int done = 0, bad = 0;
        for (long long n = 1; !done && n < 100000; n += all || n < 64 ? 1 : 41) bad += attempt(i, n, &done);
        printf("%s: %s\n", scenarios[i].name, bad ? "failed" : "ok");
        if (bad)
            failed++;
        else
            passed++;
    }
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
