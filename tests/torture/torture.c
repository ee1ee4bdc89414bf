/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every scenario once more with the n-th allocation of the context's allocator failing, on the CPU and on the
 * reference device, for n = 1 and on until nothing fails any more: no crash, an error each time that a result is
 * missing, no wrong result, no leak, and the context works afterwards. With TN_CONTEXT_DEBUG_HANDLES small blocks are
 * not kept for reuse, so that every allocation can fail. Short form: every n to 30, then steps that grow;
 * TENON_TEST_LONG=1: all.
 */
#include <stdio.h>
#include <stdlib.h>
#include "counting.h"
#include "scenarios.h"

/* 1: went wrong without an error, or leaked, or the context is spoilt. *out_done: nothing failed any more. */
static int attempt(const scenario *c, const char *device, uint32_t flags, long long n, int *out_done)
{
    counting memory = {.fail_at = 0};
    tn_context_options o = {.size = sizeof o, .allocator = {&memory, take, give_back}, .flags = flags};
    tn_context *ctx;
    if (tn_context_create(&o, &ctx)) return 1;
    tn_device d = tn_device_parse(ctx, device);
    tn_set_fallback_policy(ctx, TN_FALLBACK_SILENT);
    tn_clear_error();
    memory.fail_at = atomic_load(&memory.count) + n;
    tn_scope *s = tn_scope_open(ctx);
    int first = s ? c->run(s, d) : 0, silent = first == 0 && !(s && tn_scope_failed(s)) && !tn_last_error();
    tn_scope_close(s);
    *out_done = atomic_load(&memory.count) < memory.fail_at;
    memory.fail_at = 0;
    s = tn_scope_open(ctx);
    int second = c->run(s, d);
    tn_scope_close(s);
    tn_context_destroy(ctx);
    long long left = atomic_load(&memory.live);
    if (!silent && first >= 0 && (first || !*out_done) && second == 1 && !left) return 0;
    printf("%s on %s: allocation %lld failing: result %d%s, then %d; %lld blocks left\n", c->name, device, n,
           first, silent ? " without an error" : "", second, left);
    return 1;
}

static int run(const scenario *c, const char *device, uint32_t flags)
{
    int all = getenv("TENON_TEST_LONG") != NULL, done = 0, bad = 0;
    for (long long n = 1; !done && n < 100000; n += all || n < 30 ? 1 : n / 8)
        bad += attempt(c, device, flags, n, &done);
    return bad;
}

static int run_both(const scenario *c, const char *device)
{
    return run(c, device, 0) + run(c, device, TN_CONTEXT_DEBUG_HANDLES);
}

int main(void)
{
    return run_scenarios(run_both);
}
