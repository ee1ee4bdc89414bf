/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each scenario once more with the n-th call to a plugin failing (the shim `inject`), for n = 1
 * and on until nothing fails any more, on the CPU and on the reference device: no crash, an error whenever the
 * result is missing or wrong, no leak, and the context works afterwards. Calls are counted from the making of
 * the context on, so plugins that fail to come up are among the cases. Short form: every n to 60, then every
 * 5th; TENON_TEST_LONG=1: all.
 */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>
#include "counting.h"
#include "scenarios.h"

static const char *const statuses[] = {"TN_E_INTERNAL", "TN_E_OUT_OF_MEMORY", "TN_E_DEVICE_LOST"};

/* The shim says in the log when it lets a call fail. */
static void watch(void *user, int32_t level, const char *text)
{
    if (strncmp(text, "inject: ", 8) == 0) ++*(int *)user;
}

/* 1: a missing result without an error, a wrong one, a leak, or a spoilt context. *out_done: nothing failed any more. */
static int attempt(const scenario *which, const char *device, long n, const char *status, int *out_done)
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

static int run(const scenario *which, const char *device)
{
    int all = getenv("TENON_TEST_LONG") != NULL, done = 0, bad = 0;
    long count = 0;
    for (long n = 1; !done && n < 100000; n += all || n < 60 ? 1 : 5, count++)
        bad += attempt(which, device, n, statuses[count % 3], &done);
    return bad + (count < 8); /* even the making of the context has more calls */
}

int main(void)
{
    return run_scenarios(run);
}
