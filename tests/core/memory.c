/* SPDX-License-Identifier: Apache-2.0 */
#include "core/memory.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "core/context.h"

/* An allocator that counts, checks sizes and fails on demand. The size stands in front of each block. */
typedef struct counter {
    atomic_int live, calls, wrong;
    int fail_at; /* this call fails; 0: none */
} counter;

static void *count_alloc(void *user, uint64_t bytes)
{
    counter *c = user;
    if (atomic_fetch_add(&c->calls, 1) + 1 == c->fail_at) return NULL;
    char *memory = aligned_alloc(64, (bytes + 127) & ~63ull);
    memcpy(memory, &bytes, sizeof(bytes));
    atomic_fetch_add(&c->live, 1);
    return memory + 64;
}

static void count_free(void *user, void *memory, uint64_t bytes)
{
    counter *c = user;
    uint64_t given;
    if (!memory) return;
    memcpy(&given, (char *)memory - 64, sizeof(given));
    if (given != bytes) atomic_fetch_add(&c->wrong, 1);
    atomic_fetch_sub(&c->live, 1);
    free((char *)memory - 64);
}

static tn_context *open_counted(counter *c, uint32_t flags)
{
    tn_context *ctx = NULL;
    tn_context_options o = {.size = sizeof(o), .flags = flags, .allocator = {c, count_alloc, count_free}};
    cr_assert_eq(tn_context_create(&o, &ctx), TN_OK);
    return ctx;
}

static void close_counted(tn_context *ctx, counter *c)
{
    tn_context_destroy(ctx);
    cr_assert_eq(c->live, 0);
    cr_assert_eq(c->wrong, 0);
}

Test(memory, all_sizes_are_aligned_and_given_back)
{
    counter c = {0};
    tn_context *ctx = open_counted(&c, 0);
    for (uint64_t bytes = 0; bytes < 1500; bytes += 7) {
        void *a = tni_alloc(ctx, bytes), *b = tni_alloc_zeroed(ctx, bytes);
        cr_assert_eq((uintptr_t)a % 64, 0);
        cr_assert_neq(a, b);
        for (uint64_t i = 0; i < bytes; i++) cr_assert_eq(((char *)b)[i], 0);
        memset(a, 0xff, bytes);
        memset(b, 0xff, bytes);
        tni_free(ctx, a, bytes);
        tni_free(ctx, b, bytes);
    }
    tni_free(ctx, NULL, 10);
    close_counted(ctx, &c);
}

Test(memory, small_blocks_are_used_again)
{
    counter c = {0};
    tn_context *ctx = open_counted(&c, 0);
    void *a = tni_alloc(ctx, 100);
    tni_free(ctx, a, 100);
    int calls = c.calls;
    for (int i = 0; i < 1000; i++) tni_free(ctx, tni_alloc(ctx, 65 + i % 64), 65 + i % 64);
    cr_assert(c.calls == calls || c.calls == calls + 1000); /* + 1000: sanitizers bypass the cache */
    close_counted(ctx, &c);
}

Test(memory, debug_handles_bypass_the_cache)
{
    counter c = {0};
    tn_context *ctx = open_counted(&c, TN_CONTEXT_DEBUG_HANDLES);
    int calls = c.calls;
    for (int i = 0; i < 10; i++) tni_free(ctx, tni_alloc(ctx, 64), 64);
    cr_assert_eq(c.calls, calls + 10);
    close_counted(ctx, &c);
}

Test(memory, more_blocks_than_a_magazine_holds)
{
    counter c = {0};
    void *blocks[500];
    tn_context *ctx = open_counted(&c, 0);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 500; i++) memset(blocks[i] = tni_alloc(ctx, 200), i, 200);
        for (int i = 0; i < 500; i++) cr_assert_eq(((unsigned char *)blocks[i])[199], i & 0xff);
        for (int i = 0; i < 500; i++) tni_free(ctx, blocks[i], 200);
    }
    close_counted(ctx, &c);
}

Test(memory, alternating_contexts_keep_their_blocks)
{
    counter a = {0}, b = {0};
    tn_context *x = open_counted(&a, 0), *y = open_counted(&b, 0);
    for (int i = 0; i < 100; i++) {
        void *p = tni_alloc(x, 64), *q = tni_alloc(y, 64);
        tni_free(y, q, 64);
        tni_free(x, p, 64);
    }
    close_counted(x, &a);
    x = open_counted(&a, 0); /* may lie where the last one lay */
    tni_free(x, tni_alloc(x, 64), 64);
    close_counted(y, &b);
    close_counted(x, &a);
}

static void *use_blocks(void *ctx)
{
    void *blocks[100];
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 100; i++) blocks[i] = tni_alloc(ctx, 64u * (uint32_t)(i % 16 + 1));
        for (int i = 0; i < 100; i++) tni_free(ctx, blocks[i], 64u * (uint32_t)(i % 16 + 1));
    }
    return NULL;
}

Test(memory, a_dying_thread_gives_its_blocks_back)
{
    counter c = {0};
    tn_context *ctx = open_counted(&c, 0);
    int live = c.live;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, use_blocks, ctx);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    cr_assert_eq(c.live, live);
    close_counted(ctx, &c);
}

typedef struct waiting {
    tn_context *ctx;
    pthread_barrier_t ready, ended;
} waiting;

static void *outlive(void *argument)
{
    waiting *w = argument;
    use_blocks(w->ctx);
    pthread_barrier_wait(&w->ready);
    pthread_barrier_wait(&w->ended);
    counter c = {0};
    tn_context *ctx = open_counted(&c, 0);
    use_blocks(ctx);
    close_counted(ctx, &c);
    return NULL;
}

Test(memory, a_thread_may_outlive_the_context)
{
    counter c = {0};
    waiting w = {.ctx = open_counted(&c, 0)};
    pthread_t thread;
    pthread_barrier_init(&w.ready, NULL, 2);
    pthread_barrier_init(&w.ended, NULL, 2);
    pthread_create(&thread, NULL, outlive, &w);
    pthread_barrier_wait(&w.ready);
    close_counted(w.ctx, &c);
    pthread_barrier_wait(&w.ended);
    pthread_join(thread, NULL);
}

Test(memory, out_of_memory_is_an_error)
{
    counter c = {0};
    tn_context *ctx = open_counted(&c, 0);
    c.fail_at = c.calls + 1;
    cr_assert_null(tni_alloc(ctx, 5000));
    cr_assert_eq(tn_last_error()->code, TN_E_OUT_OF_MEMORY);
    close_counted(ctx, &c);
}

Test(memory, creation_survives_each_failing_allocation)
{
    for (int n = 1; n < 12; n++) {
        counter c = {.fail_at = n};
        tn_context *ctx = NULL;
        tn_context_options o = {.size = sizeof(o), .allocator = {&c, count_alloc, count_free}};
        int32_t status = tn_context_create(&o, &ctx);
        cr_assert(status == TN_OK || (status == TN_E_OUT_OF_MEMORY && !ctx));
        tn_context_destroy(ctx);
        cr_assert_eq(c.live, 0);
    }
}

Test(memory, vectors_and_texts)
{
    counter c = {0};
    tn_context *ctx = open_counted(&c, 0);
    tni_vector v = {0};
    for (int64_t i = 0; i < 1000; i++) *(int64_t *)tni_vector_push(ctx, &v, 8) = i * i;
    cr_assert_eq(v.count, 1000);
    for (int64_t i = 0; i < 1000; i++) cr_assert_eq(((int64_t *)v.data)[i], i * i);
    tni_vector_finish(ctx, &v, 8);
    cr_assert_eq(v.count, 0);
    char *text = tni_strdup(ctx, "tenon");
    cr_assert_str_eq(text, "tenon");
    tni_free(ctx, text, 6);
    close_counted(ctx, &c);
}
