/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaks of custom operators: what a call, its backward, or a library that is loaded and closed leaves each time. Kernels
 * and libraries allocate with malloc or with host->alloc; what a context gives with host->alloc is counted.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "custom.h"
#include "leaks.h"

/* The C library counts some freed blocks of each size as used: a few calls might show no leak. */
enum { CALLS = 32, OPENINGS = 24 };

/* ---- Calls --------------------------------------------------------------------------------------------- */

typedef struct repeated {
    check_target *t;
    const custom_call *call;
    check_result *out;
} repeated;

static int call_once(void *data)
{
    const repeated *c = data;
    custom_run r;
    custom_open(&r, c->t, c->call, c->t->device, TN_GRAD_OFF);
    const int failed = custom_do(&r, c->call) || tn_device_synchronize(c->t->ctx, c->t->device);
    if (failed) check_fail_with_error(c->out, r.s, "the call");
    custom_close(&r);
    return !failed;
}

static int backward_once(void *data)
{
    const repeated *c = data;
    custom_backward(c->t, c->call, c->out);
    return c->out->outcome == CHECK_PASSED && !tn_device_synchronize(c->t->ctx, c->t->device);
}

void custom_leaks(check_target *t, const check_case *c, check_result *out)
{
    repeated r = {.t = t, .call = c->data, .out = out};
    leaks_measure(out, call_once, &r, CALLS, LEAKS_LEAST, "the call");
    if (out->outcome != CHECK_PASSED) return;
    leaks_measure(out, backward_once, &r, CALLS, LEAKS_LEAST, "the call and its backward");
    /* Other parts say why a call has no gradient. */
    if (out->outcome == CHECK_SKIPPED) {
        out->outcome = CHECK_PASSED;
        out->reason[0] = 0;
    }
}

/* ---- The library --------------------------------------------------------------------------------------- */

static _Atomic int64_t given; /* bytes that a context has from its allocator */

static void *count_alloc(void *user, uint64_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (memory) atomic_fetch_add(&given, (int64_t)bytes);
    return memory;
}

static void count_free(void *user, void *memory, uint64_t bytes)
{
    if (memory) atomic_fetch_sub(&given, (int64_t)bytes);
    free(memory);
}

static int open_once(void *data)
{
    const repeated *c = data;
    const tn_context_options options = {.size = sizeof options, .allocator = {NULL, count_alloc, count_free}};
    tn_context *ctx = NULL;
    const int64_t before = atomic_load(&given);
    int32_t status = tn_context_create(&options, &ctx);
    if (!status) status = tn_library_open(ctx, c->t->library, NULL);
    if (status)
        check_skip(c->out, "the library cannot be loaded a second time in a process: %s",
                   tn_last_error() ? tn_last_error()->message : "no error was recorded");
    tn_context_destroy(ctx);
    if (!status)
        check_that(c->out, atomic_load(&given) == before,
                   "loading and closing the library: %lld bytes of host->alloc were not freed",
                   (long long)(atomic_load(&given) - before));
    return c->out->outcome == CHECK_PASSED;
}

void custom_library_leaks(check_target *t, const check_case *c, check_result *out)
{
    repeated r = {.t = t, .out = out};
    leaks_measure(out, open_once, &r, OPENINGS, LEAKS_LEAST, "loading and closing the library");
}
