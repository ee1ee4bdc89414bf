/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations that grow (expandable_segments): one range per pool, what happens at its end, and failures. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "allocator_suite.h"
#include "at_end.h"

static void open_growing_gpu(void)
{
    gpu.memory = 1024 * MIB;
    gpu.grows = 1;
    gpu.has_graphs = 1;
    open_gpu();
    cr_assert_eq(tn_memory_configure(ctx, d->id, "expandable_segments:True"), TN_OK);
    gpu.forbidden = &d->allocator->lock;
}

static void end_gpu(void)
{
    gpu.forbidden = NULL;
    tn_context_destroy(ctx);
    MUST_HOLD(gpu.live_allocations == 0);
    MUST_HOLD(gpu.used == 0);
    MUST_HOLD(gpu.breaches == 0);
    MUST_HOLD(gpu.under_lock == 0);
}

TestSuite(allocator_expandable, .init = open_growing_gpu, .fini = end_gpu);

static uint64_t reserved(void)
{
    tn_memory_stats stats = {.size = sizeof stats};
    cr_assert_eq(tn_memory_get_stats(ctx, d->id, &stats), TN_OK);
    cr_assert_eq(stats.reserved_bytes, gpu.used, "%llu are counted, %llu in use",
                 (unsigned long long)stats.reserved_bytes, (unsigned long long)gpu.used);
    return stats.reserved_bytes;
}

Test(allocator_expandable, blocks_follow_each_other_in_one_allocation)
{
    tni_block *a = get(30 * MIB), *b = get(40 * MIB), *c = get(21 * MIB);
    cr_assert_eq(gpu.live_allocations, 1);
    cr_assert_eq(gpu.resizes, 3);
    cr_assert_eq(reserved(), 92 * MIB, "the unit is 2 MiB");
    cr_assert_eq(b->allocation, a->allocation);
    cr_assert_eq(b->offset, a->offset + 30 * MIB);
    cr_assert_eq(c->offset, a->offset + 70 * MIB);
    tni_block_free(a);
    tni_block_free(b);
    cr_assert_eq(get(70 * MIB)->offset, 0, "the two are one free block");
    cr_assert_eq(gpu.resizes, 3);
}

Test(allocator_expandable, growing_counts_what_is_free_at_the_end)
{
    tni_block *a = get(30 * MIB), *b = get(30 * MIB);
    tni_block_free(b);
    b = get(50 * MIB);
    cr_assert_eq(reserved(), 80 * MIB);
    cr_assert_eq(b->offset, a->offset + 30 * MIB);
}

Test(allocator_expandable, small_blocks_have_their_own_and_share_it)
{
    tni_block *first = get(512), *large = get(30 * MIB), *next;
    cr_assert_eq(gpu.live_allocations, 2);
    cr_assert_neq(first->allocation, large->allocation);
    for (int i = 1; i < 5; i++) {
        next = get(1 * MIB);
        cr_assert_eq(next->allocation, first->allocation);
    }
    cr_assert_eq(gpu.live_allocations, 2);
    cr_assert_eq(reserved(), 36 * MIB, "3 times 2 MiB for the small ones");
}

/* What is free at the end goes back, in whole units, and the range stays. */
Test(allocator_expandable, an_empty_cache_cuts_the_end)
{
    tni_block *a = get(31 * MIB), *b = get(30 * MIB), *c;
    uint64_t offset = b->offset;
    tni_block_free(b);
    cr_assert_eq(tn_memory_empty_cache(ctx, d->id), TN_OK);
    cr_assert_eq(reserved(), 32 * MIB);
    cr_assert_eq(gpu.live_allocations, 1);
    c = get(20 * MIB);
    cr_assert_eq(c->offset, offset);
    cr_assert_eq(reserved(), 52 * MIB, "one MiB was left of 32");
    tni_block_free(a);
    cr_assert_eq(tn_memory_empty_cache(ctx, d->id), TN_OK);
    cr_assert_eq(reserved(), 52 * MIB, "a hole stays");
    tni_block_free(c);
    cr_assert_eq(tn_memory_empty_cache(ctx, d->id), TN_OK);
    cr_assert_eq(reserved(), 0);
    cr_assert_eq(gpu.live_allocations, 0);
}

/* 1000 MiB of blocks, every second of which is free: the device has no 60 MiB in one piece, until the end is cut. */
Test(allocator_expandable, a_full_device_gives_what_is_free_at_the_end)
{
    tni_block *blocks[25], *b;
    for (int i = 0; i < 25; i++) blocks[i] = get(40 * MIB);
    cr_assert_eq(tni_block_alloc(d, 60 * MIB, d->default_stream, &b), TN_E_OUT_OF_MEMORY);
    cr_assert_not_null(strstr(tn_last_error()->message, "Tried to allocate 60.00 MiB"), "%s",
                       tn_last_error()->message);
    tni_block_free(blocks[24]);
    tn_stream *other;
    cr_assert_eq(tn_stream_create(ctx, d->id, 0, &other), TN_OK);
    cr_assert_eq(tni_block_alloc(d, 60 * MIB, other, &b), TN_OK);
    cr_assert_eq(reserved(), 1020 * MIB);
    tni_block_free(b);
    for (int i = 0; i < 24; i++) tni_block_free(blocks[i]);
    tn_stream_release(other);
}

Test(allocator_expandable, a_failure_changes_nothing)
{
    tni_block *a = get(30 * MIB), *b = NULL;
    gpu.failed_with = 0;
    gpu.fail_slot = 1; /* resize */
    cr_assert_eq(tni_block_alloc(d, 30 * MIB, d->default_stream, &b), TN_E_INTERNAL);
    cr_assert_not_null(strstr(tn_last_error()->message, "resizing of device memory"), "%s",
                       tn_last_error()->message);
    cr_assert_eq(reserved(), 30 * MIB);
    for (int slot = 1; slot <= 2; slot++) { /* reserve, then resize, of the pool of small blocks */
        gpu.fail_slot = slot;
        cr_assert_eq(tni_block_alloc(d, 512, d->default_stream, &b), TN_E_INTERNAL);
        cr_assert_eq(gpu.live_allocations, 1);
        cr_assert_eq(reserved(), 30 * MIB);
    }
    gpu.empty_slot = 1;
    cr_assert_eq(tni_block_alloc(d, 512, d->default_stream, &b), TN_E_CONTRACT);
    cr_assert_not_null(strstr(tn_last_error()->message, "memory.reserve"), "%s", tn_last_error()->message);
    cr_assert_eq(tn_memory_set_limit(ctx, d->id, 40 * MIB), TN_OK);
    cr_assert_eq(tni_block_alloc(d, 30 * MIB, d->default_stream, &b), TN_E_OUT_OF_MEMORY);
    cr_assert_eq(tn_memory_set_limit(ctx, d->id, 0), TN_OK);
    b = get(30 * MIB);
    cr_assert_eq(b->offset, a->offset + 30 * MIB);
    cr_assert_eq(reserved(), 60 * MIB);
}

/* Blocks above the limit of splitting are split here, so a request cannot ask for memory for ever. */
Test(allocator_expandable, a_limit_of_splitting_has_no_effect)
{
    cr_assert_eq(tn_memory_configure(ctx, d->id, "max_split_size_mb:64"), TN_OK);
    tni_block *a = get(200 * MIB);
    tni_block_free(a);
    a = get(70 * MIB);
    tni_block *b = get(100 * MIB);
    cr_assert_eq(b->offset, a->offset + 70 * MIB);
    cr_assert_eq(reserved(), 200 * MIB);
}

/* A graph keeps its memory for itself: fixed allocations, as without the option. */
Test(allocator_expandable, memory_of_captures_does_not_grow)
{
    tn_stream *s;
    tn_graph *graph = NULL;
    cr_assert_eq(tn_stream_create(ctx, d->id, 0, &s), TN_OK);
    cr_assert_eq(tn_graph_create(ctx, d->id, &graph), TN_OK);
    cr_assert_eq(tn_graph_capture_begin(graph, s), TN_OK);
    tni_block *b = NULL;
    cr_assert_eq(tni_block_alloc(d, 30 * MIB, s, &b), TN_OK);
    cr_assert_eq(gpu.resizes, 0);
    tni_block_free(b);
    cr_assert_eq(tn_graph_capture_end(graph), TN_OK);
    tn_graph_release(graph);
    tn_stream_release(s);
}

Test(allocator_expandable, snapshots_say_so)
{
    char path[] = "/tmp/tenon_grow_XXXXXX", text[16384] = "";
    int fd = mkstemp(path);
    cr_assert_eq(tn_memory_record_history(ctx, d->id, 16, 0), TN_OK);
    tni_block *a = get(30 * MIB), *b = get(30 * MIB);
    tni_block_free(b);
    cr_assert_eq(tn_memory_empty_cache(ctx, d->id), TN_OK);
    cr_assert_eq(tn_memory_write_snapshot(ctx, path), TN_OK);
    cr_assert_gt(read(fd, text, sizeof text - 1), 100);
    cr_assert_not_null(strstr(text, "\"total_size\":31457280"), "%s", text);
    cr_assert_not_null(strstr(text, "\"is_expandable\":true"), "%s", text);
    const char *map = strstr(text, "\"action\":\"segment_map\""),
               *cut = strstr(text, "\"action\":\"segment_unmap\"");
    cr_assert(map && cut && map < cut, "%s", text);
    cr_assert_not_null(strstr(map, "\"size\":31457280"));
    close(fd);
    unlink(path);
    tni_block_free(a);
}

/* Devices whose plugin has no such memory ignore the variable; those that have it do not. */
Test(allocator_expandable, the_variable_is_for_all_devices)
{
    fake host = {.type = "cpu", .count = 1, .device_class = TN_DEVICE_HOST};
    fake other = {
        .type = "gpu", .count = 1, .device_class = TN_DEVICE_DISCRETE, .memory = 256 * MIB, .grows = 1};
    setenv("TENON_ALLOC_CONF", "expandable_segments:True", 1);
    tn_context *own = fake_context(&host, &other);
    unsetenv("TENON_ALLOC_CONF");
    tni_block *a, *b;
    tni_device *cpu = tni_device_get(own, TN_CPU),
               *device = tni_device_get(own, tn_device_parse(own, "gpu:0"));
    cr_assert_eq(tni_block_alloc(cpu, 30 * MIB, NULL, &a), TN_OK);
    tni_block_free(a);
    cr_assert_eq(tni_block_alloc(device, 30 * MIB, device->default_stream, &b), TN_OK);
    cr_assert_eq(other.resizes, 1);
    tni_block_free(b);
    cr_assert_eq(tn_memory_configure(own, TN_CPU, "expandable_segments:True"), TN_E_UNSUPPORTED);
    tn_context_destroy(own);
    cr_assert_eq(host.breaches + other.breaches, 0);
}

/* A plugin has the slots for all its devices, and learns from its driver which of them can. */
Test(allocator_expandable, devices_without_such_memory_have_separate_allocations)
{
    gpu.grows = 2;
    tni_block *a = get(30 * MIB), *b = get(30 * MIB), *c = get(512);
    cr_assert_eq(gpu.live_allocations, 3);
    cr_assert_eq(gpu.resizes, 0);
    cr_assert_neq(a->allocation, b->allocation);
    tni_block_free(a);
    tni_block_free(b);
    tni_block_free(c);
    cr_assert_eq(tn_memory_empty_cache(ctx, d->id), TN_OK);
    cr_assert_eq(reserved(), 0);
}

/* ---- Threads ------------------------------------------------------------------------------------------- */

#define THREADS 4
#define ROUNDS  300

static void *churn(void *argument)
{
    uint64_t seed = (uintptr_t)argument * 2654435761u + 1;
    tni_block *held[8] = {NULL};
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        tni_block **slot = &held[seed >> 60 & 7];
        if (*slot) {
            tni_block_free(*slot);
            *slot = NULL;
        } else if (tni_block_alloc(d, ((seed >> 33) % 24 + 1) * MIB, d->default_stream, slot) != TN_OK) {
            return "no memory";
        }
        if (i % 50 == 49 && tn_memory_empty_cache(ctx, d->id) != TN_OK) return "empty_cache failed";
    }
    for (int i = 0; i < 8; i++) tni_block_free(held[i]);
    return NULL;
}

/* They grow and cut the same allocation. */
Test(allocator_expandable, threads_share_a_range)
{
    pthread_t threads[THREADS];
    gpu.forbidden = NULL; /* other threads hold the lock */
    for (uintptr_t i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++) {
        void *trouble;
        pthread_join(threads[i], &trouble);
        cr_assert_null(trouble, "%s", (const char *)trouble);
    }
    cr_assert_eq(tn_memory_empty_cache(ctx, d->id), TN_OK);
    cr_assert_eq(reserved(), 0);
    cr_assert_eq(gpu.live_allocations, 0);
    cr_assert_gt(gpu.resizes, 20);
}
