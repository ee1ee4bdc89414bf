/* SPDX-License-Identifier: Apache-2.0 */
/* The caching allocator: sizes, splitting and merging, pools, memory of the host, threads, failures. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include "allocator_suite.h"

static void open_host(fake *cpu)
{
    ctx = fake_context(cpu, NULL);
    d = tni_device_get(ctx, TN_CPU);
}

Test(allocator, segments_by_size)
{
    open_gpu();
    const struct {
        uint64_t asked, given, segment;
    } cases[] = {{1, 512, 2 * MIB},
                 {513, 1024, 0},
                 {MIB, MIB, 0},
                 {MIB + 1, MIB + 512, 20 * MIB},
                 {9 * MIB, 9 * MIB, 0},
                 {10 * MIB, 10 * MIB, 10 * MIB},
                 {21 * MIB + 1, 22 * MIB, 22 * MIB}};
    tni_block *blocks[7];
    uint64_t reserved = 0;
    for (int i = 0; i < 7; i++) {
        blocks[i] = get(cases[i].asked);
        reserved += cases[i].segment;
        cr_assert_eq(stats(d).reserved_bytes, reserved, "case %d", i);
        cr_assert_eq(blocks[i]->bytes, cases[i].given, "case %d: %d", i, (int)blocks[i]->bytes);
        cr_assert_eq(blocks[i]->offset % 512, 0);
        cr_assert_null(blocks[i]->host);
    }
    cr_assert_eq(stats(d).active_blocks, 7);
    for (int i = 0; i < 7; i++) tni_block_free(blocks[i]);
    cr_assert_eq(stats(d).allocated_bytes, 0);
    cr_assert_eq(stats(d).reserved_bytes, reserved);
    cr_assert_eq(tn_memory_empty_cache(ctx, d->id), TN_OK);
    cr_assert_eq(stats(d).reserved_bytes, 0);
    cr_assert_eq(gpu.used, 0);
    cr_assert_eq(stats(d).reserved_peak, reserved);
    cr_assert_eq(tn_memory_reset_peak(ctx, d->id), TN_OK);
    cr_assert_eq(stats(d).reserved_peak, 0);
    close_gpu();
}

Test(allocator, freed_memory_is_used_again_and_merges)
{
    open_gpu();
    tni_block *a = get(512 * KIB), *b = get(512 * KIB), *c = get(MIB);
    cr_assert_eq(gpu.allocations, 1); /* all three fill one small segment */
    cr_assert_eq(a->allocation, c->allocation);
    cr_assert_eq(b->offset, a->offset + 512 * KIB);
    uint64_t at = a->offset;
    tni_block_free(a);
    tni_block_free(b);
    tni_block *ab = get(MIB);
    cr_assert_eq(gpu.allocations, 1);
    cr_assert_eq(ab->offset, at);
    tni_block_free(c);
    tni_block_free(ab);
    for (int i = 0; i < 4; i++) tni_block_free(get(MIB)); /* the whole segment is one piece again */
    cr_assert_eq(gpu.allocations, 1);
    close_gpu();
}

Test(allocator, takes_the_piece_that_fits_best)
{
    open_gpu();
    tni_block *big = get(64 * KIB), *wall1 = get(512), *mid = get(40 * KIB), *wall2 = get(512);
    tni_block *little = get(36 * KIB), *wall3 = get(512);
    uint64_t at = mid->offset;
    tni_block_free(big);
    tni_block_free(mid);
    tni_block_free(little);
    tni_block *b = get(38 * KIB);
    cr_assert_eq(b->offset, at);
    tni_block_free(b);
    tni_block_free(wall1);
    tni_block_free(wall2);
    tni_block_free(wall3);
    tn_context_destroy(ctx);
}

Test(allocator, zero_bytes_take_nothing)
{
    open_gpu();
    tni_block *b = get(0);
    cr_assert_eq(b->bytes, 0);
    cr_assert_null(b->host);
    cr_assert_eq(tni_block_record(b, d->default_stream), TN_OK);
    tni_block_free(b);
    tni_block_free(NULL);
    cr_assert_eq(gpu.allocations, 0);
    tn_context_destroy(ctx);
}

static void check_private_pool(tni_device *device)
{
    tn_memory_pool *pool, *second;
    tni_block *before = get_on(device, 4 * KIB);
    const void *outside = (char *)before->allocation + before->offset;
    tni_block_free(before);
    cr_assert_eq(tn_memory_pool_create(ctx, device->id, &pool), TN_OK);
    cr_assert_eq(tn_memory_pool_create(ctx, device->id, &second), TN_OK);
    cr_assert_eq(tn_memory_pool_begin(pool), TN_OK);
    cr_assert_eq(tn_memory_pool_begin(pool), TN_E_STATE);
    cr_assert_str_eq(tn_last_error()->message,
                     "tn_memory_pool_begin: the thread uses this pool on this device already");
    cr_assert_eq(tn_memory_pool_begin(second), TN_E_STATE);
    cr_assert_eq(tn_memory_pool_end(second), TN_E_STATE);
    tni_block *b = get_on(device, 4 * KIB), *kept = get_on(device, 4 * KIB);
    const void *inside = (char *)b->allocation + b->offset, *allocation = b->allocation;
    cr_assert_neq(inside, outside);
    tni_block_free(b);
    cr_assert_eq(tn_memory_pool_end(pool), TN_OK);
    tni_block *other = get_on(device, 4 * KIB);
    cr_assert_neq(other->allocation, allocation, "the pool's memory serves nothing else");
    tni_block_free(other);
    cr_assert_eq(tn_memory_pool_begin(pool), TN_OK);
    b = get_on(device, 4 * KIB);
    cr_assert_eq((char *)b->allocation + b->offset, inside, "it serves the pool again");
    tni_block_free(b);
    cr_assert_eq(tn_memory_pool_end(pool), TN_OK);
    tn_memory_pool_release(pool);
    tni_block_free(kept); /* outlives the pool */
    cr_assert_eq(stats(device).allocated_bytes, 0);
    tn_memory_pool_release(second);
    tn_memory_pool_release(NULL);
    cr_assert_eq(tn_memory_pool_begin(NULL), TN_E_ARGUMENT);
    /* Both allocations are of the general pool now: they serve, then go back. */
    cr_assert_eq(tn_memory_empty_cache(ctx, device->id), TN_OK);
    cr_assert_eq(stats(device).reserved_bytes, 0);
}

Test(allocator, a_private_pool_keeps_its_memory_apart)
{
    open_gpu();
    check_private_pool(d);
    close_gpu();
}

/* Under AddressSanitizer every block of host memory is a request of its own. */
#if TN_SANITIZER != TN_SANITIZER_ADDRESS
Test(allocator, a_private_pool_of_the_host)
{
    fake cpu = {.type = "cpu", .count = 1};
    open_host(&cpu);
    check_private_pool(d);
    tn_context_destroy(ctx);
    cr_assert_eq(cpu.breaches, 0);
    cr_assert_eq(cpu.live_allocations, 0);
}
#endif

Test(allocator, an_error_of_the_plugin_is_passed_on)
{
    open_gpu();
    tni_block *b = NULL;
    gpu.fail_slot = 1;
    cr_assert_eq(tni_block_alloc(d, 100, d->default_stream, &b), TN_E_INTERNAL);
    cr_assert_str_eq(tn_last_error()->plugin, "fake");
    cr_assert_eq(stats(d).retries, 0);
    tn_context_destroy(ctx);
}

Test(allocator, the_plugins_own_serves_instead)
{
    gpu.own_allocator = 1;
    open_gpu();
    tn_stream *s = NULL;
    cr_assert_eq(tn_stream_create(ctx, d->id, 0, &s), TN_OK);
    tni_block *a = get(100);
    cr_assert_eq(gpu.used, 100);
    cr_assert_eq(stats(d).allocated_bytes, 100);
    tni_block_record(a, s);
    tni_block_free(a);
    cr_assert_eq(gpu.waits, 1); /* its stream waits for the other one */
    cr_assert_eq(gpu.used, 0);
    tn_stream_release(s);
    close_gpu();
}

/* Under AddressSanitizer every block of host memory is a request of its own. */
#if TN_SANITIZER != TN_SANITIZER_ADDRESS
Test(allocator, host_blocks_are_aligned_and_small_ones_cached)
{
    fake cpu = {0};
    open_host(&cpu);
    for (uint64_t bytes = 1; bytes < 3 * MIB; bytes += bytes / 7 + 1) {
        tni_block *b = get(bytes);
        cr_assert_not_null(b->host);
        cr_assert_eq((uintptr_t)b->host % 64, 0);
        cr_assert_geq(b->bytes, bytes);
        cr_assert_leq(b->bytes, bytes < 1024 ? bytes + 63 : bytes + bytes / 4 + 64);
        memset(b->host, 1, bytes);
        tni_block_free(b);
    }
    tni_block *a = get(100);
    void *host = a->host;
    cr_assert_eq(stats(d).allocated_bytes, 128);
    tni_block_free(a);
    a = get(70);
    cr_assert_eq(a->host, host);
    tni_block_free(a);
    cr_assert_eq(stats(d).allocated_bytes, 0);
    cr_assert_eq(stats(d).active_blocks, 0);
    cr_assert_eq(tn_memory_empty_cache(ctx, TN_CPU), TN_OK);
    cr_assert_eq(cpu.used, 0);
    tn_context_destroy(ctx);
    cr_assert_eq(cpu.breaches, 0);
}

Test(allocator, host_memory_goes_back_to_the_system)
{
    fake cpu = {.type = "cpu", .count = 1, .memory = 1024 * MIB};
    open_host(&cpu);
    tni_block *a = get(60 * MIB), *b = get(60 * MIB);
    tni_block_free(a);
    cr_assert_eq(cpu.used, 120 * MIB);
    tni_block_free(b); /* more than a sixteenth of the memory would be idle */
    cr_assert_leq(cpu.used, 64 * MIB);
    tn_context_destroy(ctx);
}
#endif

#define BLOCKS 64
typedef struct worker {
    uint32_t seed;
    int32_t failed;
} worker;

static void *work(void *user)
{
    worker *w = user;
    tni_block *blocks[BLOCKS] = {0};
    for (int i = 0; i < 20000; i++) {
        w->seed = w->seed * 1664525u + 1013904223u;
        uint32_t k = w->seed >> 26;
        if (blocks[k]) {
            if (*(uint32_t *)blocks[k]->host != (uint32_t)(uintptr_t)blocks[k]) w->failed = 1;
            tni_block_free(blocks[k]);
            blocks[k] = NULL;
        } else {
            uint64_t bytes = 4 + ((w->seed >> 8 & 0xff) << (w->seed >> 4 & 15));
            if (tni_block_alloc(d, bytes, d->default_stream, &blocks[k])) w->failed = 1;
            *(uint32_t *)blocks[k]->host = (uint32_t)(uintptr_t)blocks[k];
        }
    }
    for (int k = 0; k < BLOCKS; k++) tni_block_free(blocks[k]);
    return NULL;
}

Test(allocator, many_threads)
{
    fake cpu = {0};
    open_host(&cpu);
    pthread_t threads[8];
    worker workers[8];
    for (uint32_t i = 0; i < 8; i++) {
        workers[i] = (worker){i, 0};
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 8; i++) cr_assert_eq(workers[i].failed, 0);
    cr_assert_eq(stats(d).allocated_bytes, 0);
    cr_assert_eq(stats(d).active_blocks, 0);
    tn_memory_empty_cache(ctx, TN_CPU);
    cr_assert_eq(cpu.used, 0);
    tn_context_destroy(ctx);
    cr_assert_eq(cpu.breaches, 0);
}

static int32_t exercise(tni_device *device)
{
    tni_block *blocks[6] = {0};
    const uint64_t sizes[6] = {100, 3000, MIB, 3 * MIB, 40 * MIB, 700};
    tn_stream *s = NULL;
    int32_t code = tn_stream_create(device->ctx, device->id, 0, &s);
    for (int i = 0; i < 6 && !code; i++) {
        code = tni_block_alloc(device, sizes[i], i % 2 ? s : device->default_stream, &blocks[i]);
        if (!code && i % 3 == 0) code = tni_block_record(blocks[i], i % 2 ? device->default_stream : s);
        if (!code) fake_work(s);
    }
    for (int i = 0; i < 6; i++) tni_block_free(blocks[i]);
    tn_stream_release(s);
    return code;
}

Test(allocator, every_failure_is_an_error_without_leak)
{
    for (int kind = 0; kind < 3; kind++) {
        for (int64_t n = 1; n < 500; n++) {
            fake f = gpu;
            counting c = {0};
            if (kind == 2) f.device_class = TN_DEVICE_HOST;
            ctx = counted_context(&c, &f);
            d = tni_device_get(ctx, tn_device_parse(ctx, "gpu:0"));
            if (kind == 1)
                f.fail_slot = (int32_t)n;
            else
                c.fail_at = c.calls + n;
            int32_t code = exercise(d);
            int32_t reached = kind == 1 ? f.fail_slot <= 0 : c.calls >= c.fail_at;
            tn_context_destroy(ctx);
            cr_assert_eq(c.live, 0, "kind %d, n %d: %d live, status %d, closed %d", kind, (int)n, (int)c.live,
                         code, f.closed);
            cr_assert_eq(f.breaches, 0, "kind %d, n %d", kind, (int)n);
            cr_assert_eq(f.closed, 1);
            cr_assert_eq(f.live_allocations, 0);
            if (!reached) {
                cr_assert_eq(code, TN_OK);
                break;
            }
        }
    }
}

/* Names in a snapshot are text, whatever they contain. */
Test(allocator, snapshots_of_odd_names)
{
    char path[] = "/tmp/tenon_name_XXXXXX", text[4096] = "", short_path[] = "/tmp/x";
    static fake odd = {.type = "a\"b\\c\nd", .count = 1, .device_class = TN_DEVICE_DISCRETE};
    tn_context *own = fake_context(NULL, &odd);
    tni_device *device = tni_device_get(own, TN_DEVICE(tn_intern(own, odd.type), 0));
    cr_assert_not_null(device);
    int fd = mkstemp(path);
    cr_assert_eq(tn_memory_write_snapshot(own, path), TN_OK);
    cr_assert_gt(read(fd, text, sizeof text - 1), 20);
    cr_assert_not_null(strstr(text, "\"device\":\"a\\\"b\\\\c\\u000ad:0\""), "%s", text);
    close(fd);
    unlink(path);
    cr_assert_eq(tn_memory_write_snapshot(own, short_path), TN_OK);
    unlink(short_path);
    tn_context_destroy(own);
}

static void never_told(void *user, const tn_memory_shortage *shortage)
{
    cr_assert_fail();
}

Test(allocator, questions_without_an_answer)
{
    int64_t value;
    uint64_t handle = 0;
    open_gpu();
    tn_device missing = tn_device_parse(ctx, "gpu:9");
    cr_assert_eq(tn_memory_get_stat(ctx, d->id, NULL, &value), TN_E_ARGUMENT);
    cr_assert_str_eq(tn_last_error()->message, "memory_get_stat: key is NULL");
    cr_assert_eq(tn_memory_get_stat(ctx, d->id, "num_ooms", NULL), TN_E_ARGUMENT);
    cr_assert_str_eq(tn_last_error()->message, "memory_get_stat: out is NULL");
    cr_assert_eq(tn_memory_get_stat(ctx, missing, "num_ooms", &value), TN_E_DEVICE);
    cr_assert_eq(tn_memory_observer_add(ctx, NULL, NULL, &handle), TN_E_ARGUMENT);
    cr_assert_str_eq(tn_last_error()->message, "memory_observer_add: observer is NULL");
    cr_assert_eq(tn_memory_observer_add(ctx, never_told, NULL, NULL), TN_E_ARGUMENT);
    cr_assert_str_eq(tn_last_error()->message, "memory_observer_add: out_handle is NULL");
    tn_memory_observer_remove(ctx, 0);
    tn_memory_observer_remove(NULL, 1);
    cr_assert_eq(tn_memory_configure(ctx, missing, "no_cache:True"), TN_E_DEVICE);
    cr_assert_eq(tn_memory_write_snapshot(NULL, "/tmp/x"), TN_E_ARGUMENT);
    tni_block_free(NULL);
    close_gpu();
}
