/* SPDX-License-Identifier: Apache-2.0 */
/* The caching allocator when memory runs out: retries, limits, thresholds, what a history says. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "allocator_suite.h"

Test(allocator_shortage, out_of_memory_frees_caches_and_tries_again)
{
    gpu.memory = 64 * MIB;
    open_gpu();
    tni_block *a = get(30 * MIB), *b = get(30 * MIB), *c = NULL;
    tni_block_free(a);
    a = get(34 * MIB); /* only with the cached 30 given back */
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
    c = get(MIB);
    tni_block_free(c);
    tni_block_free(a);
    close_gpu();
}

Test(allocator_shortage, a_segment_may_be_as_small_as_its_block)
{
    gpu.memory = 5 * MIB;
    open_gpu();
    tni_block *a = get(4 * MIB), *b = get(512 * KIB); /* where 20 and 2 MiB would be asked for */
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

Test(allocator_shortage, out_of_memory_waits_for_recorded_streams)
{
    tn_stream *s = open_with_stream(32 * MIB);
    tni_block *a = get(30 * MIB);
    tni_block_record(a, s);
    fake_work(s);
    tni_block_free(a);
    a = get(30 * MIB);
    cr_assert_eq(stats(d).retries, 1);
    tni_block_free(a);
    tn_stream_release(s);
    close_gpu();
}

Test(allocator_shortage, limit)
{
    open_gpu();
    tni_block *b = NULL;
    cr_assert_eq(tn_memory_set_limit(ctx, d->id, 24 * MIB), TN_OK);
    tni_block *a = get(20 * MIB);
    cr_assert_eq(tni_block_alloc(d, 6 * MIB, d->default_stream, &b), TN_E_OUT_OF_MEMORY);
    cr_assert_eq(tni_block_alloc(d, 4 * MIB, d->default_stream, &b), TN_OK);
    cr_assert_eq(tni_block_alloc(d, UINT64_MAX - 5, d->default_stream, &b), TN_E_OUT_OF_MEMORY);
    tni_block_free(a);
    tni_block_free(b);
    close_gpu();
}

/* What waited for a stream is free after the wait: no second request is needed. */
Test(allocator_shortage, out_of_memory_finds_what_waited)
{
    tn_stream *s = open_with_stream(24 * MIB);
    tni_block *kept = get(2 * MIB), *waits = get(18 * MIB);
    cr_assert_eq(tni_block_record(waits, s), TN_OK);
    fake_work(s);
    tni_block_free(waits);
    int32_t allocations = gpu.allocations;
    tni_block *b = get(17 * MIB);
    cr_assert_eq(gpu.allocations, allocations);
    cr_assert_eq(stats(d).retries, 1);
    tni_block_free(b);
    tni_block_free(kept);
    tn_stream_release(s);
    close_gpu();
}

/* A history has an event for each request that failed, and its size is limited by the host's memory. */
Test(allocator_shortage, history_of_a_shortage)
{
    char path[] = "/tmp/tenon_oom_XXXXXX", text[16384] = "";
    gpu.memory = 8 * MIB;
    open_gpu();
    int fd = mkstemp(path);
    tni_block *b = NULL, *odd;
    cr_assert_eq(tn_memory_record_history(ctx, d->id, UINT32_MAX, 0), TN_E_OUT_OF_MEMORY);
    cr_assert_eq(tn_memory_record_history(ctx, d->id, 16, 0), TN_OK);
    tni_block *kept = get(2 * MIB);
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
Test(allocator_shortage, a_threshold_of_unknown_memory)
{
    open_gpu();
    cr_assert_eq(tn_memory_configure(ctx, d->id, "garbage_collection_threshold:0.5"), TN_OK);
    tni_block_free(get(30 * MIB));
    tni_block *b = get(40 * MIB);
    cr_assert_eq(gpu.live_allocations, 2, "nothing went back");
    tni_block_free(b);
    close_gpu();
}
