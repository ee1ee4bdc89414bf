/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each scenario and two training steps once more with the n-th call to a plugin failing (the shim `inject`), for n = 1
 * and on until nothing fails any more, on the CPU and on the reference device: no crash, an error whenever the
 * result is missing or wrong, no leak, and the context works afterwards. Calls are counted from the making of
 * the context on, so plugins that fail to come up are among the cases. Short form: every n to 40, then every
 * 7th; TENON_TEST_LONG=1: all.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>
#include "counting.h"
#include "scenarios.h"

static const char *const statuses[] = {"TN_E_INTERNAL", "TN_E_OUT_OF_MEMORY", "TN_E_DEVICE_LOST"};

/* Two steps of a perceptron with one hidden layer; the loss after them, or NaN and a failed scope. */
static double train(tn_context *ctx, tn_scope *s, const char *device)
{
    tn_device d = tn_device_parse(ctx, device);
    tn_scope_options options = {.size = sizeof options, .device = d};
    tn_scope_options update = {.size = sizeof update, .device = d, .grad_mode = TN_GRAD_OFF};
    tn_scope *inner = s && !(d & TN_DEVICE_MISSING) ? tn_scope_open_child(s, &options) : NULL;
    if (!inner) return NAN;
    tn_tensor *x = tn_reshape(inner, tn_arange(inner, 8, .dtype = TN_FLOAT32), TN_INTS(4, 2));
    tn_tensor *w[2] = {tn_full(inner, TN_INTS(3, 2), 0.125, .dtype = TN_FLOAT32),
                       tn_full(inner, TN_INTS(1, 3), 0.5, .dtype = TN_FLOAT32)};
    tn_tensor *y = tn_select(inner, x, 1, 1), *loss = NULL;
    for (int i = 0; i < 2 && w[i]; i++) tn_set_requires_grad(w[i], 1);
    for (int step = 0; step < 3; step++) {
        tn_tensor *h = tn_linear(inner, tn_tanh(inner, tn_linear(inner, x, w[0])), w[1]);
        loss = tn_mse_loss(inner, tn_squeeze_dim(inner, h, 1), y);
        if (step == 2 || tn_backward(inner, loss)) break;
        for (int i = 0; i < 2; i++) {
            tn_scope *u = tn_scope_open_child(inner, &update);
            tn_sub_(u, w[i], tn_mul_scalar(u, tn_grad_of(u, w[i]), 0.01));
            tn_scope_close(u);
            tn_set_grad(w[i], NULL);
        }
    }
    double value = tn_item_double(inner, loss);
    return tn_scope_close(inner) ? NAN : value;
}

/* The shim says in the log when it lets a call fail. */
static void watch(void *user, int32_t level, const char *text)
{
    if (strncmp(text, "inject: ", 8) == 0) ++*(int *)user;
}

static int is_right(double value, double right)
{
    return fabs(value - right) <= 1e-5;
}

/* 1: a wrong number without an error, a leak, or a spoilt context. *out_done: nothing failed any more. */
static int attempt(const char *device, long n, const char *status, double right, int *out_done)
{
    int bad = 0, injected = 0;
    char shims[96];
    counting c = {.fail_at = 0};
    tn_context_options options = {.size = sizeof options,
                                  .allocator = {&c, take, give_back},
                                  .log = watch,
                                  .log_user = &injected,
                                  .shims = shims};
    tn_context *ctx = NULL;
    snprintf(shims, sizeof shims, "inject=any:%ld:%s", n, status);
    if (tn_context_create(&options, &ctx)) {
        printf("%s: call %ld failing with %s: no context\n", device, n, status);
        return 1;
    }
    int there = tn_device_count(ctx, NULL) == 3; /* neither plugin was refused */
    tn_clear_error();
    tn_scope *s = tn_scope_open(ctx);
    double first = train(ctx, s, device), second = right;
    if (isnan(first) ? !tn_last_error() && !tn_scope_failed(s) : !is_right(first, right)) bad = 1;
    tn_scope_close(s);
    *out_done = !injected;
    if (injected && there) {
        s = tn_scope_open(ctx);
        second = train(ctx, s, device);
        if (!is_right(second, right)) bad = 1;
        tn_scope_close(s);
    }
    tn_context_destroy(ctx);
    if (atomic_load(&c.live) != 0) bad = 1;
    if (bad)
        printf("%s: call %ld failing with %s: %.9g, then %.9g instead of %.9g; %lld blocks left\n", device, n,
               status, first, second, right, (long long)atomic_load(&c.live));
    return bad;
}

/* The loss in plain arithmetic, in double. */
static double expected(void)
{
    double w0[3][2], w1[3], loss = 0;
    for (int j = 0; j < 3; j++) w0[j][0] = w0[j][1] = 0.125, w1[j] = 0.5;
    for (int step = 0; step < 3; step++) {
        double g0[3][2] = {{0}}, g1[3] = {0};
        loss = 0;
        for (int i = 0; i < 4; i++) {
            double x[2] = {2 * i, 2 * i + 1}, h[3], y = 0;
            for (int j = 0; j < 3; j++) y += w1[j] * (h[j] = tanh(w0[j][0] * x[0] + w0[j][1] * x[1]));
            double e = y - x[1];
            loss += e * e / 4;
            for (int j = 0; j < 3; j++) {
                double g = e / 2 * w1[j] * (1 - h[j] * h[j]);
                g1[j] += e / 2 * h[j];
                g0[j][0] += g * x[0];
                g0[j][1] += g * x[1];
            }
        }
        for (int j = 0; j < 3 && step < 2; j++) {
            w1[j] -= 0.01 * g1[j];
            w0[j][0] -= 0.01 * g0[j][0];
            w0[j][1] -= 0.01 * g0[j][1];
        }
    }
    return loss;
}

/* A scenario in place of the training: a missing result needs an error, a wrong one is a failure. */
static int attempt_scenario(const scenario *which, const char *device, long n, const char *status,
                            int *out_done)
{
    int injected = 0;
    char shims[96];
    counting c = {.fail_at = 0};
    tn_context_options options = {.size = sizeof options,
                                  .allocator = {&c, take, give_back},
                                  .log = watch,
                                  .log_user = &injected,
                                  .shims = shims};
    tn_context *ctx = NULL;
    snprintf(shims, sizeof shims, "inject=any:%ld:%s", n, status);
    if (tn_context_create(&options, &ctx)) return 1;
    int there = tn_device_count(ctx, "cpu") == 1 && tn_device_count(ctx, "reference") == 2, second = 1;
    tn_set_fallback_policy(ctx, TN_FALLBACK_SILENT);
    tn_clear_error();
    tn_scope *s = tn_scope_open(ctx);
    tn_device d = tn_device_parse(ctx, device);
    int first = which->run(s, d), silent = !first && !tn_scope_failed(s) && !tn_last_error();
    tn_scope_close(s);
    *out_done = !injected;
    /* An error that a call without a status met (a release) is kept for the next call that has one. */
    for (int tries = 0; injected && there && tries < 2 && (!tries || !second); tries++) {
        tn_clear_error();
        s = tn_scope_open(ctx);
        second = which->run(s, d);
        const tn_error *error = tn_scope_failed(s) ? tn_scope_error(s) : tn_last_error();
        if (!second && (!error || !strstr(error->message, "inject"))) second = -1;
        tn_scope_close(s);
    }
    tn_context_destroy(ctx);
    long long left = atomic_load(&c.live);
    if (!silent && first >= 0 && (injected || first) && second == 1 && !left) return 0;
    printf("%s on %s: call %ld failing with %s: result %d%s, then %d; %lld blocks left\n", which->name,
           device, n, status, first, silent ? " without an error" : "", second, left);
    return 1;
}

static int run_scenario(const scenario *which, const char *device)
{
    int all = getenv("TENON_TEST_LONG") != NULL, done = 0, bad = 0;
    long count = 0;
    for (long n = 1; !done && n < 100000; n += all || n < 60 ? 1 : 5, count++)
        bad += attempt_scenario(which, device, n, statuses[count % 3], &done);
    return bad;
}

int main(void)
{
    static const char *const devices[] = {"cpu", "reference:0"};
    int all = getenv("TENON_TEST_LONG") != NULL, passed = 0, failed = 0;
    setenv("TENON_REFERENCE_DEVICES", "2", 1);
    for (uint32_t i = 0; i < scenario_count; i++) {
        for (uint32_t k = scenarios[i].asynchronous_only ? 1 : 0; k < 2; k++) {
            int bad = run_scenario(&scenarios[i], devices[k]);
            printf("%s on %s: %s\n", scenarios[i].name, devices[k], bad ? "failed" : "ok");
            bad ? failed++ : passed++;
        }
    }
    for (uint32_t i = 0; i < 2; i++) {
        int done = 0, bad = 0;
        long n = 1, count = 0;
        for (; !done && n < 100000; n += all || n < 40 ? 1 : 7, count++)
            bad += attempt(devices[i], n, statuses[count % 3], expected(), &done);
        printf("%s: %s, %ld calls let fail\n", devices[i], bad ? "failed" : "ok", count - 1);
        bad || count < 40 ? failed++ : passed++;
    }
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
