/* SPDX-License-Identifier: Apache-2.0 */
/* The caching allocator: sizes, splitting and merging, streams, running out of memory, statistics, threads.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/allocator.h"
#include "fake_driver.h"

#define KIB 1024ull
#define MIB (1024ull * 1024)

/* Most tests have one device; before it is opened they set what it has besides. */
static fake gpu = {.type = "gpu", .count = 1, .device_class = TN_DEVICE_DISCRETE};
static tn_context *ctx;
static tni_device *d;

static void open_gpu(void)
{
    ctx = fake_context(NULL, &gpu);
    d = tni_device_get(ctx, tn_device_parse(ctx, "gpu:0"));
}

static void open_host(fake *cpu)
{
    ctx = fake_context(cpu, NULL);
    d = tni_device_get(ctx, TN_CPU);
}

static void close_gpu(void)
{
    tn_context_destroy(ctx);
    cr_assert_eq(gpu.breaches, 0);
}

static tni_block *get(tni_device *device, uint64_t bytes)
{
    tni_block *b = NULL;
    cr_assert_eq(tni_block_alloc(device, bytes, tni_current_stream(device), &b), TN_OK);
    return b;
}

static tn_memory_stats stats(tni_device *device)
{
    tn_memory_stats s = {.size = sizeof s};
    cr_assert_eq(tn_memory_get_stats(device->ctx, device->id, &s), TN_OK);
    return s;
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
        blocks[i] = get(d, cases[i].asked);
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
    tni_block *a = get(d, 512 * KIB), *b = get(d, 512 * KIB), *c = get(d, MIB);
    cr_assert_eq(gpu.allocations, 1); /* all three fill one small segment */
    cr_assert_eq(a->allocation, c->allocation);
    cr_assert_eq(b->offset, a->offset + 512 * KIB);
    uint64_t at = a->offset;
    tni_block_free(a);
    tni_block_free(b);
    tni_block *ab = get(d, MIB);
    cr_assert_eq(gpu.allocations, 1);
    cr_assert_eq(ab->offset, at);
    tni_block_free(c);
    tni_block_free(ab);
    for (int i = 0; i < 4; i++) tni_block_free(get(d, MIB)); /* the whole segment is one piece again */
    cr_assert_eq(gpu.allocations, 1);
    close_gpu();
}

Test(allocator, takes_the_piece_that_fits_best)
{
    open_gpu();
    tni_block *big = get(d, 64 * KIB), *wall1 = get(d, 512), *mid = get(d, 40 * KIB), *wall2 = get(d, 512);
    tni_block *little = get(d, 36 * KIB), *wall3 = get(d, 512);
    uint64_t at = mid->offset;
    tni_block_free(big);
    tni_block_free(mid);
    tni_block_free(little);
    tni_block *b = get(d, 38 * KIB);
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
    tni_block *b = get(d, 0);
    cr_assert_eq(b->bytes, 0);
    cr_assert_null(b->host);
    cr_assert_eq(tni_block_record(b, d->default_stream), TN_OK);
    tni_block_free(b);
    tni_block_free(NULL);
    cr_assert_eq(gpu.allocations, 0);
    tn_context_destroy(ctx);
}

Test(allocator, streams_do_not_share_what_is_free)
{
    open_gpu();
    tn_stream *s = NULL;
    tni_block *a = get(d, 1000), *b = NULL;
    cr_assert_eq(tn_stream_create(ctx, d->id, 0, &s), TN_OK);
    tni_block_free(a);
    cr_assert_eq(tni_block_alloc(d, 1000, s, &b), TN_OK);
    cr_assert_eq(gpu.allocations, 2);
    tni_block *c = get(d, 1000);
    cr_assert_eq(gpu.allocations, 2);
    tni_block_free(c);
    tni_block *keep = b;
    tn_stream_release(s); /* what it had goes to the default stream, used blocks too */
    for (int i = 0; i < 3; i++) {
        a = get(d, MIB);
        b = get(d, MIB);
        cr_assert_eq(gpu.allocations, 2 + (i > 0), "round %d", i);
        if (!i) tni_block_free(keep);
        if (!i) continue;
        tni_block_free(a);
        tni_block_free(b);
    }
    close_gpu();
}

static void check_private_pool(tni_device *device)
{
    tn_memory_pool *pool, *second;
    tni_block *before = get(device, 4 * KIB);
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
    tni_block *b = get(device, 4 * KIB), *kept = get(device, 4 * KIB);
    const void *inside = (char *)b->allocation + b->offset, *allocation = b->allocation;
    cr_assert_neq(inside, outside);
    tni_block_free(b);
    cr_assert_eq(tn_memory_pool_end(pool), TN_OK);
    tni_block *other = get(device, 4 * KIB);
    cr_assert_neq(other->allocation, allocation, "the pool's memory serves nothing else");
    tni_block_free(other);
    cr_assert_eq(tn_memory_pool_begin(pool), TN_OK);
    b = get(device, 4 * KIB);
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
#if !defined(__SANITIZE_ADDRESS__) && !TN_HAS_FEATURE(address_sanitizer)
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

static void check_record(int32_t no_events)
{
    gpu.no_events = no_events;
    open_gpu();
    tn_stream *s = NULL;
    cr_assert_eq(tn_stream_create(ctx, d->id, 0, &s), TN_OK);
    tni_block *wall = get(d, MIB), *a = get(d, MIB); /* one small segment, full */
    cr_assert_eq(tni_block_record(a, s), TN_OK);
    cr_assert_eq(tni_block_record(a, s), TN_OK);
    cr_assert_eq(tni_block_record(a, d->default_stream), TN_OK);
    fake_work(s);
    uint64_t at = a->offset;
    tni_block_free(a);
    tni_block *b = get(d, MIB);
    cr_assert_eq(gpu.allocations, 2, "it waits for the other stream");
    fake_finish(s);
    tni_block *c = get(d, MIB), *e = get(d, MIB);
    cr_assert_eq(gpu.allocations, 2);
    cr_assert(c->offset == at || e->offset == at);
    tn_stream *other = s;
    tn_stream_release(s);
    cr_assert_eq(gpu.live_streams, 1, "the allocator has let go of it: %p", (void *)other);
    tni_block_free(wall);
    tni_block_free(b);
    tni_block_free(c);
    tni_block_free(e);
    cr_assert_eq(gpu.live_events, 0);
    close_gpu();
}

Test(allocator, recorded_blocks_wait_for_their_streams)
{
    check_record(0);
}

Test(allocator, recorded_blocks_wait_without_events)
{
    check_record(1);
}

Test(allocator, a_stream_that_ends_is_forgotten)
{
    open_gpu();
    tn_stream *s = NULL;
    cr_assert_eq(tn_stream_create(ctx, d->id, 0, &s), TN_OK);
    tni_block *a = get(d, MIB), *b = get(d, MIB);
    tni_block_record(a, s);
    tni_block_record(b, s);
    fake_work(s);
    tni_block_free(a); /* waits for the stream; b is still in use */
    tn_stream_release(s);
    cr_assert_eq(gpu.live_streams, 1);
    cr_assert_eq(gpu.live_events, 0);
    tni_block_free(b);
    cr_assert_eq(gpu.live_events, 0);
    a = get(d, MIB);
    cr_assert_eq(gpu.allocations, 1);
    tni_block_free(a);
    close_gpu();
    cr_assert_eq(gpu.closed, 1);
}

Test(allocator, out_of_memory_frees_caches_and_tries_again)
{
    gpu.memory = 64 * MIB;
    open_gpu();
    tni_block *a = get(d, 30 * MIB), *b = get(d, 30 * MIB), *c = NULL;
    tni_block_free(a);
    a = get(d, 34 * MIB); /* only with the cached 30 given back */
    cr_assert_eq(stats(d).retries, 1);
    cr_assert_eq(gpu.trims, 1);
    cr_assert(gpu.synchronizes > 0);
    cr_assert_eq(tni_block_alloc(d, MIB, d->default_stream, &c), TN_E_OUT_OF_MEMORY);
    cr_assert_null(c);
    const char *m = tn_last_error()->message;
    cr_assert(strstr(m, "Tried to allocate 1.00 MiB.") && strstr(m, " 64.00 MiB is allocated by tensors"),
              "%s", m);
    cr_assert_eq(tn_last_error()->error_class, TN_CLASS_OUT_OF_MEMORY);
    cr_assert_eq(stats(d).out_of_memory, 1);
    tni_block_free(b);
    c = get(d, MIB);
    tni_block_free(c);
    tni_block_free(a);
    close_gpu();
}

Test(allocator, a_segment_may_be_as_small_as_its_block)
{
    gpu.memory = 5 * MIB;
    open_gpu();
    tni_block *a = get(d, 4 * MIB), *b = get(d, 512 * KIB); /* where 20 and 2 MiB would be asked for */
    cr_assert_eq(gpu.used, 4 * MIB + 512 * KIB);
    tni_block_free(a);
    tni_block_free(b);
    close_gpu();
}

/* A device of so much memory, and a stream on it. */
static tn_stream *open_with_stream(uint64_t memory)
{
    tn_stream *s = NULL;
    gpu.memory = memory;
    open_gpu();
    cr_assert_eq(tn_stream_create(ctx, d->id, 0, &s), TN_OK);
    return s;
}

Test(allocator, out_of_memory_waits_for_recorded_streams)
{
    tn_stream *s = open_with_stream(32 * MIB);
    tni_block *a = get(d, 30 * MIB);
    tni_block_record(a, s);
    fake_work(s);
    tni_block_free(a);
    a = get(d, 30 * MIB);
    cr_assert_eq(stats(d).retries, 1);
    tni_block_free(a);
    tn_stream_release(s);
    close_gpu();
}

Test(allocator, limit)
{
    open_gpu();
    tni_block *b = NULL;
    cr_assert_eq(tn_memory_set_limit(ctx, d->id, 24 * MIB), TN_OK);
    tni_block *a = get(d, 20 * MIB);
    cr_assert_eq(tni_block_alloc(d, 6 * MIB, d->default_stream, &b), TN_E_OUT_OF_MEMORY);
    cr_assert_eq(tni_block_alloc(d, 4 * MIB, d->default_stream, &b), TN_OK);
    cr_assert_eq(tni_block_alloc(d, UINT64_MAX - 5, d->default_stream, &b), TN_E_OUT_OF_MEMORY);
    tni_block_free(a);
    tni_block_free(b);
    close_gpu();
}

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
    tni_block *a = get(d, 100);
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
#if !defined(__SANITIZE_ADDRESS__) && !TN_HAS_FEATURE(address_sanitizer)
Test(allocator, host_blocks_are_aligned_and_small_ones_cached)
{
    fake cpu = {0};
    open_host(&cpu);
    for (uint64_t bytes = 1; bytes < 3 * MIB; bytes += bytes / 7 + 1) {
        tni_block *b = get(d, bytes);
        cr_assert_not_null(b->host);
        cr_assert_eq((uintptr_t)b->host % 64, 0);
        cr_assert_geq(b->bytes, bytes);
        cr_assert_leq(b->bytes, bytes < 1024 ? bytes + 63 : bytes + bytes / 4 + 64);
        memset(b->host, 1, bytes);
        tni_block_free(b);
    }
    tni_block *a = get(d, 100);
    void *host = a->host;
    cr_assert_eq(stats(d).allocated_bytes, 128);
    tni_block_free(a);
    a = get(d, 70);
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
    tni_block *a = get(d, 60 * MIB), *b = get(d, 60 * MIB);
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

/* One thread releases a stream while another frees a block that the stream uses. */
typedef struct race {
    tni_device *device;
    pthread_barrier_t *start, *end;
    tn_stream *stream;
    tni_block *block;
} race;

#define ROUNDS 300

static void *free_blocks(void *user)
{
    race *r = user;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(r->start);
        tni_block_free(r->block);
        tni_block_free(get(r->device, 1000)); /* settles */
        pthread_barrier_wait(r->end);
    }
    return NULL;
}

static void release_streams_while_blocks_are_freed(int32_t own_allocator)
{
    gpu.own_allocator = own_allocator;
    open_gpu();
    pthread_barrier_t start, end;
    pthread_barrier_init(&start, NULL, 2);
    pthread_barrier_init(&end, NULL, 2);
    race r = {.device = d, .start = &start, .end = &end};
    pthread_t thread;
    pthread_create(&thread, NULL, free_blocks, &r);
    for (int i = 0; i < ROUNDS; i++) {
        cr_assert_eq(tn_stream_create(ctx, r.device->id, 0, &r.stream), TN_OK);
        r.block = get(r.device, 2000);
        cr_assert_eq(tni_block_record(r.block, r.stream), TN_OK);
        fake_work(r.stream);
        pthread_barrier_wait(&start);
        tn_stream_release(r.stream);
        pthread_barrier_wait(&end);
    }
    pthread_join(thread, NULL);
    cr_assert_eq(gpu.live_streams, 1);
    cr_assert_eq(gpu.live_events, 0);
    cr_assert_eq(stats(r.device).allocated_bytes, 0);
    close_gpu();
}

Test(allocator, stream_is_released_while_its_blocks_are_freed)
{
    release_streams_while_blocks_are_freed(0);
    release_streams_while_blocks_are_freed(1);
}

/* Events, waits and requests for memory take long, and a driver may call back. */
Test(allocator, driver_is_never_called_under_the_lock)
{
    gpu.memory = 64 * MIB;
    open_gpu();
    tn_stream *other = NULL;
    tni_block *b = NULL, *blocks[2];
    cr_assert_eq(tn_stream_create(ctx, d->id, 0, &other), TN_OK);
    gpu.forbidden = &d->allocator->lock;
    for (int i = 0; i < 2; i++) {
        blocks[i] = get(d, 20 * MIB);
        cr_assert_eq(tni_block_record(blocks[i], other), TN_OK);
        fake_work(other);
        tni_block_free(blocks[i]); /* an event is recorded */
    }
    tni_block_free(get(d, 1000));                                             /* the events are asked */
    cr_assert_eq(tni_block_alloc(d, 60 * MIB, d->default_stream, &b), TN_OK); /* waits, frees, trims */
    cr_assert_eq(stats(d).retries, 1);
    tni_block_free(b);
    cr_assert_eq(tni_block_alloc(d, 80 * MIB, d->default_stream, &b), TN_E_OUT_OF_MEMORY);
    b = get(d, MIB);
    cr_assert_eq(tni_block_record(b, other), TN_OK);
    tni_block_free(b);
    tn_stream_release(other); /* its blocks go to another pool */
    cr_assert_eq(tn_memory_empty_cache(ctx, d->id), TN_OK);
    cr_assert_eq(gpu.under_lock, 0, "%d calls", (int)gpu.under_lock);
    cr_assert_eq(gpu.live_allocations, 0);
    cr_assert_eq(gpu.live_events, 0);
    gpu.forbidden = NULL;
    close_gpu();
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

/* ---- Streams that end, and streams that capture ------------------------------------------------------------ */

/* The struct of a released stream serves a later one, which is another user of the block. */
Test(allocator, a_use_by_a_stream_whose_struct_serves_another)
{
    open_gpu();
    tn_stream *s = NULL, *again = NULL, *other = NULL;
    tni_block *b = get(d, 4 * KIB);
    cr_assert_eq(tn_stream_create(ctx, d->id, 0, &s), TN_OK);
    cr_assert_eq(tni_block_record(b, s), TN_OK);
    cr_assert_eq(tni_block_record(b, s), TN_OK, "known already");
    tn_stream_release(s);
    cr_assert_eq(tn_stream_create(ctx, d->id, 0, &again), TN_OK);
    cr_assert_eq(again, s);
    cr_assert_eq(tni_block_record(b, again), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, d->id, 0, &other), TN_OK);
    cr_assert_eq(tni_block_record(b, other), TN_OK);
    fake_work(again);
    int32_t events = gpu.events;
    tni_block_free(b);
    cr_assert_eq(gpu.events, events + 2, "one for each stream that is alive");
    tn_stream_release(again);
    tn_stream_release(other);
    close_gpu();
}

/* A stream that another thread is releasing is waited for with its device. Its last reference is gone, its number is not. */
Test(allocator, a_use_by_a_stream_that_is_being_released)
{
    for (int own = 0; own < 2; own++) {
        gpu = (fake){.type = "gpu", .count = 1, .device_class = TN_DEVICE_DISCRETE, .own_allocator = own};
        open_gpu();
        tn_stream *s = NULL;
        cr_assert_eq(tn_stream_create(ctx, d->id, 0, &s), TN_OK);
        tni_block *b = get(d, 4 * KIB);
        cr_assert_eq(tni_block_record(b, s), TN_OK);
        fake_work(s);
        atomic_store(&s->refs, 0);
        int32_t waited = gpu.synchronizes;
        tni_block_free(b);
        cr_assert_eq(gpu.synchronizes, waited + 2, "the default stream and this one");
        atomic_store(&s->refs, 1);
        tn_stream_release(s);
        close_gpu();
    }
}

Test(allocator, memory_of_another_device)
{
    gpu.count = 2;
    open_gpu();
    tni_device *second = tni_device_get(ctx, tn_device_parse(ctx, "gpu:1"));
    tni_block *b = get(d, 4 * KIB);
    cr_assert_eq(tni_block_record(b, second->default_stream), TN_E_DEVICE);
    cr_assert_str_eq(tn_last_error()->message,
                     "memory of one device cannot be recorded on a stream of another");
    tni_block_free(b);
    close_gpu();
}

static tn_graph *open_with_graph(void)
{
    tn_graph *g = NULL;
    gpu.has_graphs = 1;
    open_gpu();
    cr_assert_eq(tn_graph_create(ctx, d->id, &g), TN_OK);
    return g;
}

/* A capture waits for its streams when it begins, so a block that one of them used is free at once. */
Test(allocator, a_use_by_a_stream_that_captures)
{
    tn_stream *s = NULL;
    tn_graph *g = open_with_graph();
    cr_assert_eq(tn_stream_create(ctx, d->id, 0, &s), TN_OK);
    tni_block *before = get(d, 4 * KIB), *later = get(d, 8 * KIB);
    cr_assert_eq(tni_block_record(before, s), TN_OK);
    cr_assert_eq(tni_block_record(later, s), TN_OK);
    fake_work(s);
    tni_block_free(later); /* waits for an event */
    cr_assert_eq(tn_graph_capture_begin(g, s), TN_OK);
    int32_t events = gpu.events;
    tni_block_free(before);
    cr_assert_eq(gpu.events, events, "nothing is under way");
    tni_block *b = get(d, MIB);
    cr_assert_eq(b->offset, 0, "both are free, and one with what lies between");
    tni_block_free(b);
    cr_assert_eq(tn_graph_capture_end(g), TN_OK);
    tn_graph_release(g);
    tn_stream_release(s);
    close_gpu();
}

/* What a stream leaves goes to the default stream's pool of the same kind, not to that of a capture on it. */
Test(allocator, the_heir_of_a_streams_memory)
{
    tn_stream *s = NULL;
    tn_graph *g = open_with_graph();
    tni_block *small = NULL, *large = NULL, *captured = NULL;
    tni_block_free(get(d, 4 * KIB));
    tni_block_free(get(d, 4 * MIB));
    cr_assert_eq(tn_graph_capture_begin(g, d->default_stream), TN_OK);
    cr_assert_eq(tni_block_alloc(d, 4 * KIB, d->default_stream, &captured), TN_OK);
    tni_block_free(captured);
    cr_assert_eq(tn_graph_capture_end(g), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, d->id, 0, &s), TN_OK);
    cr_assert_eq(tni_block_alloc(d, 4 * KIB, s, &small), TN_OK);
    cr_assert_eq(tni_block_alloc(d, 4 * MIB, s, &large), TN_OK);
    tni_block_free(small);
    tni_block_free(large);
    int32_t allocations = gpu.allocations;
    tn_stream_release(s);
    tni_block *blocks[3];
    blocks[0] = get(d, 20 * MIB);
    blocks[1] = get(d, 20 * MIB); /* one of the two was the stream's */
    blocks[2] = get(d, 1 * MIB);
    cr_assert_eq(gpu.allocations, allocations);
    for (int i = 0; i < 3; i++) tni_block_free(blocks[i]);
    cr_assert_eq(tn_memory_empty_cache(ctx, d->id), TN_OK);
    cr_assert_eq(gpu.live_allocations, 1, "the graph's");
    tn_graph_release(g);
    cr_assert_eq(gpu.live_allocations, 0);
    close_gpu();
}

/* ---- Out of memory ------------------------------------------------------------------------------------------- */

/* What waited for a stream is free after the wait: no second request is needed. */
Test(allocator, out_of_memory_finds_what_waited)
{
    tn_stream *s = open_with_stream(24 * MIB);
    tni_block *kept = get(d, 2 * MIB), *waits = get(d, 18 * MIB);
    cr_assert_eq(tni_block_record(waits, s), TN_OK);
    fake_work(s);
    tni_block_free(waits);
    int32_t allocations = gpu.allocations;
    tni_block *b = get(d, 17 * MIB);
    cr_assert_eq(gpu.allocations, allocations);
    cr_assert_eq(stats(d).retries, 1);
    tni_block_free(b);
    tni_block_free(kept);
    tn_stream_release(s);
    close_gpu();
}

/* A history has an event for each request that failed, and its size is limited by the host's memory. */
Test(allocator, history_of_a_shortage)
{
    char path[] = "/tmp/tenon_oom_XXXXXX", text[16384] = "";
    gpu.memory = 8 * MIB;
    open_gpu();
    int fd = mkstemp(path);
    tni_block *b = NULL, *odd;
    cr_assert_eq(tn_memory_record_history(ctx, d->id, UINT32_MAX, 0), TN_E_OUT_OF_MEMORY);
    cr_assert_eq(tn_memory_record_history(ctx, d->id, 16, 0), TN_OK);
    tni_block *kept = get(d, 2 * MIB);
    cr_assert_eq(tni_block_alloc(d, 30 * MIB, d->default_stream, &b), TN_E_OUT_OF_MEMORY);
    /* A block of which nobody said how much was asked for, as internal ones are. */
    const tni_request internal = {.stream = d->default_stream, .bytes = 512};
    cr_assert_eq(tni_central_alloc(d->allocator, &internal, &odd), TN_OK);
    cr_assert_eq(tn_memory_write_snapshot(ctx, path), TN_OK);
    cr_assert_gt(read(fd, text, sizeof text - 1), 100);
    cr_assert_not_null(strstr(text, "\"action\":\"oom\",\n\"device_free\":6291456,\n\"size\":31457280"), "%s",
                       text);
    cr_assert_not_null(strstr(text, "\"size\":512,\n\"requested_size\":512"), "%s", text);
    odd->next = NULL;
    tni_central_free_list(d->allocator, odd);
    tni_block_free(kept);
    close(fd);
    unlink(path);
    close_gpu();
}

/* Without a known size of the device there is nothing that a threshold is a part of. */
Test(allocator, a_threshold_of_unknown_memory)
{
    open_gpu();
    cr_assert_eq(tn_memory_configure(ctx, d->id, "garbage_collection_threshold:0.5"), TN_OK);
    tni_block_free(get(d, 30 * MIB));
    tni_block *b = get(d, 40 * MIB);
    cr_assert_eq(gpu.live_allocations, 2, "nothing went back");
    tni_block_free(b);
    close_gpu();
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
