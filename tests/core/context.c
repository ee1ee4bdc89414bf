/* SPDX-License-Identifier: Apache-2.0 */
#include "core/context.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "child.h"

static tn_context *open_plain(void)
{
    tn_context *ctx = NULL;
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    return ctx;
}

Test(context, fixed_interned_numbers)
{
    tn_context *ctx = open_plain();
    cr_assert_str_eq(tn_interned(ctx, 1), "cpu");
    cr_assert_str_eq(tn_interned(ctx, 2), "meta");
    cr_assert_str_eq(tn_interned(ctx, 3), "strided");
    uint32_t acme = tn_intern(ctx, "acme");
    cr_assert_gt(acme, 3);
    cr_assert_eq(tn_intern(ctx, "acme"), acme);
    cr_assert_eq(tn_intern(ctx, "cpu"), 1);
    cr_assert_str_eq(tn_interned(ctx, acme), "acme");
    cr_assert_null(tn_interned(ctx, 0));
    cr_assert_null(tn_interned(ctx, 100000));
    cr_assert_eq(tn_intern(ctx, NULL), 0);
    for (int i = 0; i < 200; i++) {
        char text[16];
        snprintf(text, sizeof(text), "t%d", i);
        tn_intern(ctx, text);
    }
    cr_assert_str_eq(tn_interned(ctx, acme), "acme");
    tn_context_destroy(ctx);
    tn_context_destroy(NULL);
}

Test(context, ids_are_not_used_again)
{
    tn_context *a = open_plain();
    uint64_t id = a->id;
    tn_context_destroy(a);
    tn_context *b = open_plain();
    cr_assert_neq(b->id, id);
    tn_context_destroy(b);
}

Test(context, option_structs_of_other_ages)
{
    tn_context *ctx = NULL;
    struct {
        tn_context_options o;
        uint64_t later;
    } longer = {.o = {.size = sizeof(longer)}};
    cr_assert_eq(tn_context_create(&longer.o, &ctx), TN_OK);
    tn_context_destroy(ctx);
    longer.later = 1;
    ctx = NULL;
    cr_assert_eq(tn_context_create(&longer.o, &ctx), TN_E_UNKNOWN_FIELD);
    cr_assert_null(ctx);
    tn_context_options shorter = {.size = 8, .flags = TN_CONTEXT_NO_DISCOVERY};
    memset((char *)&shorter + 8, 0xff, sizeof(shorter) - 8);
    cr_assert_eq(tn_context_create(&shorter, &ctx), TN_OK);
    cr_assert_eq(ctx->flags, TN_CONTEXT_NO_DISCOVERY);
    tn_context_destroy(ctx);
    tn_context_options flags = {.size = sizeof(flags), .flags = 1u << 30};
    cr_assert_eq(tn_context_create(&flags, &ctx), TN_E_UNKNOWN_FIELD);
    tn_context_options none = {0};
    cr_assert_eq(tn_context_create(&none, &ctx), TN_E_ARGUMENT);
    cr_assert_eq(tn_context_create(NULL, NULL), TN_E_ARGUMENT);
}

Test(context, settings)
{
    tn_context *ctx = open_plain();
    cr_assert_eq(tn_get_default_dtype(ctx), TN_FLOAT32);
    cr_assert_eq(tn_set_default_dtype(ctx, TN_FLOAT64), TN_OK);
    cr_assert_eq(tn_get_default_dtype(ctx), TN_FLOAT64);
    cr_assert_eq(tn_set_default_dtype(ctx, TN_INT32), TN_E_DTYPE);
    cr_assert_eq(tn_get_default_dtype(ctx), TN_FLOAT64);
    cr_assert_eq(tn_get_deterministic(ctx), 0);
    tn_set_deterministic(ctx, 7);
    cr_assert_eq(tn_get_deterministic(ctx), 1);
    cpu_set_t set;
    sched_getaffinity(0, sizeof(set), &set);
    tn_set_num_threads(ctx, 5);
    cr_assert_eq(tn_get_num_threads(ctx), 5);
    tn_set_num_threads(ctx, 0);
    cr_assert_eq(tn_get_num_threads(ctx), CPU_COUNT(&set));
    tn_context_destroy(ctx);
}

Test(context, threads_of_the_environment)
{
    const struct {
        const char *text;
        int32_t threads; /* 0: the cores */
    } cases[] = {{"3", 3}, {"4,2", 4}, {"0", 0}, {"-2", 0}, {"many", 0}, {"99999999999", 0}};
    cpu_set_t set;
    sched_getaffinity(0, sizeof(set), &set);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tn_context *ctx = NULL;
        setenv("OMP_NUM_THREADS", cases[i].text, 1);
        cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
        cr_assert_eq(tn_get_num_threads(ctx), cases[i].threads ? cases[i].threads : CPU_COUNT(&set), "%s",
                     cases[i].text);
        tn_context_destroy(ctx);
    }
}

Test(context, lives_until_the_last_owner)
{
    tn_context *ctx = open_plain();
    tni_context_own(ctx);
    tn_context_destroy(ctx);
    cr_assert_str_eq(tn_interned(ctx, 1), "cpu");
    tni_context_unown(ctx);
}

static void keep_line(void *user, int32_t level, const char *text)
{
    snprintf(user, 64, "%d %s", level, text);
}

Test(context, log)
{
    char line[64] = "";
    tn_context *ctx = NULL;
    tn_context_options o = {.size = sizeof(o), .log = keep_line, .log_user = line};
    cr_assert_eq(tn_context_create(&o, &ctx), TN_OK);
    tni_log(ctx, TN_LOG_WARN, "%s %d", "found", 3);
    cr_assert_str_eq(line, "1 found 3");
    ctx->host.log(ctx->host.context, TN_LOG_INFO, "100%");
    cr_assert_str_eq(line, "2 100%");
    tn_context_destroy(ctx);
}

Test(context, host_table)
{
    tn_context *ctx = open_plain();
    const tn_host *h = &ctx->host;
    cr_assert_eq(h->error_native(h->context, TN_E_IO, "text", 5, "five"), TN_E_IO);
    cr_assert_eq(tn_last_error()->native_code, 5);
    cr_assert_eq(h->intern(h->context, "meta"), 2);
    cr_assert_str_eq(h->interned(h->context, 3), "strided");
    void *memory = h->alloc(h->context, 100);
    cr_assert_not_null(memory);
    h->free(h->context, memory, 100);
    tn_context_destroy(ctx);
}

Test(context, is_refused_after_fork)
{
    tn_context *ctx = open_plain();
    cr_assert_eq(tni_context_check(ctx), TN_OK);
    pid_t child = fork();
    if (child == 0) {
        int ok = tni_context_check(ctx) == TN_E_FORKED && !tn_scope_open(ctx) &&
                 tn_last_error()->code == TN_E_FORKED;
        tn_context_destroy(ctx);
        tn_context *own = NULL;
        ok = ok && tn_context_create(NULL, &own) == TN_OK && tni_context_check(own) == TN_OK;
        tn_context_destroy(own);
        _exit(ok ? 0 : 1);
    }
    expect_success_of(child);
    cr_assert_eq(tni_context_check(ctx), TN_OK);
    tn_context_destroy(ctx);
}

/* Only the parent frees what a scope owns; in the child every call reports the fork. */
Test(context, scope_is_refused_after_fork)
{
    tn_context *ctx = open_plain();
    tn_scope *s = tn_scope_open(ctx);
    pid_t child = fork();
    if (child == 0) {
        int ok = tn_scope_failed(s) == TN_E_FORKED && strstr(tn_scope_error(s)->message, "after fork") &&
                 !tn_scope_memory(s, 8) && !tn_scope_open_child(s, NULL) &&
                 tn_last_error()->code == TN_E_FORKED && tn_scope_close(s) == TN_E_FORKED;
        _exit(ok ? 0 : 1);
    }
    expect_success_of(child);
    cr_assert_not_null(tn_scope_memory(s, 8));
    cr_assert_eq(tn_scope_close(s), TN_OK);
    tn_context_destroy(ctx);
}

Test(context, device_text)
{
    tn_context *ctx = open_plain();
    char buffer[32];
    uint32_t cuda = tn_intern(ctx, "cuda");
    cr_assert_eq(tn_device_parse(ctx, "cpu"), TN_CPU);
    cr_assert_eq(tn_device_parse(ctx, "cpu:0"), TN_CPU);
    cr_assert_eq(tn_device_parse(ctx, "cuda:1"), TN_DEVICE(cuda, 1));
    cr_assert_eq(tn_device_parse(ctx, "cuda"), TN_DEVICE(cuda, -1));
    cr_assert_eq(TN_DEVICE_INDEX(tn_device_parse(ctx, "cuda:2147483647")), INT32_MAX);
    static const char *const bad[] = {"",
                                      ":0",
                                      "cuda:",
                                      "cuda:x",
                                      "cuda:01",
                                      "cuda:1x",
                                      "cuda:-1",
                                      "cuda:2147483648",
                                      "1cuda",
                                      "cu da",
                                      "cuda:99999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        cr_assert(tn_device_parse(ctx, bad[i]) & TN_DEVICE_MISSING, "%s", bad[i]);
        cr_assert_eq(tn_last_error()->code, TN_E_DEVICE);
    }
    cr_assert_str_eq(tn_device_format(ctx, TN_CPU, buffer, sizeof(buffer)), "cpu");
    cr_assert_str_eq(tn_device_format(ctx, TN_DEVICE(cuda, 1), buffer, sizeof(buffer)), "cuda:1");
    cr_assert_str_eq(tn_device_format(ctx, TN_DEVICE(cuda, -1), buffer, sizeof(buffer)), "cuda");
    cr_assert_str_eq(tn_device_format(ctx, TN_DEVICE(cuda, 10), buffer, 6), "cuda:");
    tn_context_destroy(ctx);
}
