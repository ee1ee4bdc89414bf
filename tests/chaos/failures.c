/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small training step on the reference device with its n-th task failing late, its n-th call refused, or
 * the device lost at its n-th task, for n = 1 and on until nothing fails any more. Each time: the right
 * numbers or an error that names the cause, never a wrong number; nothing is left; and after a failure that
 * is not a loss the same context does the same step right. Short form: every n to 24, then every 7th;
 * TENON_TEST_LONG=1: all.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include "../torture/counting.h"

static counting memory;

/* ---- the step ------------------------------------------------------------------------------------------ */

/* Sum of the gradient of a two-layer network, partly computed on a second stream. */
static double step(tn_scope *s, tn_context *ctx, tn_device device)
{
    tn_stream *home = tn_stream_default(ctx, device), *side = NULL;
    double result = NAN;
    tn_tensor *x = tn_reshape(s, tn_arange(s, 12, .dtype = TN_FLOAT32, .device = device), TN_INTS(3, 4));
    tn_tensor *w = tn_full(s, TN_INTS(2, 4), 0.25, .dtype = TN_FLOAT32, .device = device);
    if (!w || tn_set_requires_grad(w, 1)) return NAN;
    if (tn_stream_create(ctx, device, 0, &side)) return NAN;
    int32_t status = tn_stream_wait_stream(side, home);
    tn_stream_set_current(ctx, side);
    tn_tensor *hidden = tn_relu(s, tn_linear(s, x, w));
    tn_tensor *loss = tn_sum(s, tn_mul(s, hidden, hidden));
    tn_stream_set_current(ctx, home);
    if (!status) status = tn_backward(s, loss);
    if (!status) status = tn_memory_empty_cache(ctx, device);
    tn_tensor *grad = status ? NULL : tn_grad_of(s, w);
    if (grad) result = tn_item_double(s, tn_sum(s, grad));
    tn_stream_release(side);
    return status || tn_scope_failed(s) ? NAN : result;
}

/* Two columns of weights; hidden[i] = sum of row i / 4: 1.5, 5.5, 9.5; d loss / d w = 2 hidden x. */
#define RIGHT_SUM (2.0 * 2.0 * (1.5 * 6 + 5.5 * 22 + 9.5 * 38))

/* ---- one run ------------------------------------------------------------------------------------------- */

typedef struct outcome {
    int failed;      /* an error was reported */
    const char *bad; /* what is wrong, or NULL */
} outcome;

static int names_the_cause(const tn_error *e)
{
    for (; e; e = e->cause) {
        if (e->message && strstr(e->message, "reference: ")) return 1;
    }
    return 0;
}

/* Releases what a failed step left, collects unreported late errors, and runs the step again. */
static const char *try_again(tn_context *ctx, tn_device device, int lost)
{
    (void)tn_device_synchronize(ctx, device);
    tn_scope *s = tn_scope_open(ctx);
    double sum = step(s, ctx, device);
    tn_scope_close(s);
    if (lost) return isnan(sum) ? NULL : "a lost device computed";
    return sum == RIGHT_SUM ? NULL : "the context does not work any more";
}

static outcome run_once(int lost)
{
    tn_context *ctx = NULL;
    outcome o = {0, NULL};
    tn_context_options options = {.size = sizeof options, .allocator = {&memory, take, give_back}};
    if (tn_context_create(&options, &ctx)) return (outcome){0, "no context"};
    tn_device device = tn_device_choose(ctx, "reference:0", NULL);
    tn_scope *s = tn_scope_open(ctx);
    double sum = step(s, ctx, device);
    o.failed = isnan(sum);
    const tn_error *e = tn_scope_failed(s) ? tn_scope_error(s) : tn_last_error();
    if (!o.failed && sum != RIGHT_SUM) o.bad = "a wrong number";
    if (o.failed && (!e || !names_the_cause(e))) o.bad = e ? e->message : "an error without a cause";
    if (o.bad) printf("  %s\n", o.bad);
    tn_scope_close(s);
    if (o.failed && !o.bad) o.bad = try_again(ctx, device, lost);
    tn_context_destroy(ctx);
    if (!o.bad && atomic_load(&memory.live)) o.bad = "memory is left";
    return o;
}

/* ---- all ----------------------------------------------------------------------------------------------- */

static int sweep(const char *variable, int lost)
{
    int full = getenv("TENON_TEST_LONG") != NULL, failures = 0, bad = 0, quiet = 0, n;
    for (n = 1; quiet < 12 && n < 2000; n += full || n < 24 ? 1 : 7) {
        char number[16];
        snprintf(number, sizeof number, "%d", n);
        setenv(variable, number, 1);
        outcome o = run_once(lost);
        failures += o.failed;
        quiet = o.failed ? 0 : quiet + 1;
        if (!o.bad) continue;
        bad++;
        printf("FAIL %s=%d: %s\n", variable, n, o.bad);
    }
    unsetenv(variable);
    printf("%s %s: %d failures met until n = %d\n", bad || !failures ? "FAIL" : "ok  ", variable, failures,
           n);
    return bad || !failures;
}

int main(void)
{
    static const struct {
        const char *variable;
        int lost;
    } kinds[] = {{"TENON_REFERENCE_FAIL", 0}, {"TENON_REFERENCE_REFUSE", 0}, {"TENON_REFERENCE_LOSE", 1}};
    int failed = 0, count = (int)(sizeof kinds / sizeof *kinds);
    for (int i = 0; i < count; i++) failed += sweep(kinds[i].variable, kinds[i].lost);
    outcome sound = run_once(0);
    if (sound.failed || sound.bad) {
        printf("FAIL without failures: %s\n", sound.bad ? sound.bad : "failed");
        failed++;
        count++;
    }
    printf("%d passed, %d failed, 0 skipped\n", count - failed, failed);
    return failed != 0;
}
