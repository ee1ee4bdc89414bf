/* SPDX-License-Identifier: Apache-2.0 */
/* The caching allocator and streams: whose blocks are whose, uses by other streams, streams that end, graphs. */
#include <criterion/criterion.h>
#include <pthread.h>
#include "allocator_suite.h"

Test(allocator_streams, streams_do_not_share_what_is_free)
{
    open_gpu();
    tn_stream *s = NULL;
    tni_block *a = get(1000), *b = NULL;
    cr_assert_eq(tn_stream_create(ctx, d->id, 0, &s), TN_OK);
    tni_block_free(a);
    cr_assert_eq(tni_block_alloc(d, 1000, s, &b), TN_OK);
    cr_assert_eq(gpu.allocations, 2);
    tni_block *c = get(1000);
    cr_assert_eq(gpu.allocations, 2);
    tni_block_free(c);
    tni_block *keep = b;
    tn_stream_release(s); /* what it had goes to the default stream, used blocks too */
    for (int i = 0; i < 3; i++) {
        a = get(MIB);
        b = get(MIB);
        cr_assert_eq(gpu.allocations, 2 + (i > 0), "round %d", i);
        if (!i) tni_block_free(keep);
        if (!i) continue;
        tni_block_free(a);
        tni_block_free(b);
    }
    close_gpu();
}

static void check_record(int32_t no_events)
{
    gpu.no_events = no_events;
    open_gpu();
    tn_stream *s = NULL;
    cr_assert_eq(tn_stream_create(ctx, d->id, 0, &s), TN_OK);
    tni_block *wall = get(MIB), *a = get(MIB); /* one small segment, full */
    cr_assert_eq(tni_block_record(a, s), TN_OK);
    cr_assert_eq(tni_block_record(a, s), TN_OK);
    cr_assert_eq(tni_block_record(a, d->default_stream), TN_OK);
    fake_work(s);
    uint64_t at = a->offset;
    tni_block_free(a);
    tni_block *b = get(MIB);
    cr_assert_eq(gpu.allocations, 2, "it waits for the other stream");
    fake_finish(s);
    tni_block *c = get(MIB), *e = get(MIB);
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

Test(allocator_streams, recorded_blocks_wait_for_their_streams)
{
    check_record(0);
}

Test(allocator_streams, recorded_blocks_wait_without_events)
{
    check_record(1);
}

Test(allocator_streams, a_stream_that_ends_is_forgotten)
{
    open_gpu();
    tn_stream *s = NULL;
    cr_assert_eq(tn_stream_create(ctx, d->id, 0, &s), TN_OK);
    tni_block *a = get(MIB), *b = get(MIB);
    tni_block_record(a, s);
    tni_block_record(b, s);
    fake_work(s);
    tni_block_free(a); /* waits for the stream; b is still in use */
    tn_stream_release(s);
    cr_assert_eq(gpu.live_streams, 1);
    cr_assert_eq(gpu.live_events, 0);
    tni_block_free(b);
    cr_assert_eq(gpu.live_events, 0);
    a = get(MIB);
    cr_assert_eq(gpu.allocations, 1);
    tni_block_free(a);
    close_gpu();
    cr_assert_eq(gpu.closed, 1);
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
        tni_block_free(get_on(r->device, 1000)); /* settles */
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
        r.block = get_on(r.device, 2000);
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

Test(allocator_streams, stream_is_released_while_its_blocks_are_freed)
{
    release_streams_while_blocks_are_freed(0);
    release_streams_while_blocks_are_freed(1);
}

/* Events, waits and requests for memory take long, and a driver may call back. */
Test(allocator_streams, driver_is_never_called_under_the_lock)
{
    gpu.memory = 64 * MIB;
    open_gpu();
    tn_stream *other = NULL;
    tni_block *b = NULL, *blocks[2];
    cr_assert_eq(tn_stream_create(ctx, d->id, 0, &other), TN_OK);
    gpu.forbidden = &d->allocator->lock;
    for (int i = 0; i < 2; i++) {
        blocks[i] = get(20 * MIB);
        cr_assert_eq(tni_block_record(blocks[i], other), TN_OK);
        fake_work(other);
        tni_block_free(blocks[i]); /* an event is recorded */
    }
    tni_block_free(get(1000));                                                /* the events are asked */
    cr_assert_eq(tni_block_alloc(d, 60 * MIB, d->default_stream, &b), TN_OK); /* waits, frees, trims */
    cr_assert_eq(stats(d).retries, 1);
    tni_block_free(b);
    cr_assert_eq(tni_block_alloc(d, 80 * MIB, d->default_stream, &b), TN_E_OUT_OF_MEMORY);
    b = get(MIB);
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

/* The struct of a released stream serves a later one, which is another user of the block. */
Test(allocator_streams, a_use_by_a_stream_whose_struct_serves_another)
{
    open_gpu();
    tn_stream *s = NULL, *again = NULL, *other = NULL;
    tni_block *b = get(4 * KIB);
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
Test(allocator_streams, a_use_by_a_stream_that_is_being_released)
{
    for (int own = 0; own < 2; own++) {
        gpu = (fake){.type = "gpu", .count = 1, .device_class = TN_DEVICE_DISCRETE, .own_allocator = own};
        open_gpu();
        tn_stream *s = NULL;
        cr_assert_eq(tn_stream_create(ctx, d->id, 0, &s), TN_OK);
        tni_block *b = get(4 * KIB);
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

Test(allocator_streams, memory_of_another_device)
{
    gpu.count = 2;
    open_gpu();
    tni_device *second = tni_device_get(ctx, tn_device_parse(ctx, "gpu:1"));
    tni_block *b = get(4 * KIB);
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
Test(allocator_streams, a_use_by_a_stream_that_captures)
{
    tn_stream *s = NULL;
    tn_graph *g = open_with_graph();
    cr_assert_eq(tn_stream_create(ctx, d->id, 0, &s), TN_OK);
    tni_block *before = get(4 * KIB), *later = get(8 * KIB);
    cr_assert_eq(tni_block_record(before, s), TN_OK);
    cr_assert_eq(tni_block_record(later, s), TN_OK);
    fake_work(s);
    tni_block_free(later); /* waits for an event */
    cr_assert_eq(tn_graph_capture_begin(g, s), TN_OK);
    int32_t events = gpu.events;
    tni_block_free(before);
    cr_assert_eq(gpu.events, events, "nothing is under way");
    tni_block *b = get(MIB);
    cr_assert_eq(b->offset, 0, "both are free, and one with what lies between");
    tni_block_free(b);
    cr_assert_eq(tn_graph_capture_end(g), TN_OK);
    tn_graph_release(g);
    tn_stream_release(s);
    close_gpu();
}

/* What a stream leaves goes to the default stream's pool of the same kind, not to that of a capture on it. */
Test(allocator_streams, the_heir_of_a_streams_memory)
{
    tn_stream *s = NULL;
    tn_graph *g = open_with_graph();
    tni_block *small = NULL, *large = NULL, *captured = NULL;
    tni_block_free(get(4 * KIB));
    tni_block_free(get(4 * MIB));
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
    blocks[0] = get(20 * MIB);
    blocks[1] = get(20 * MIB); /* one of the two was the stream's */
    blocks[2] = get(1 * MIB);
    cr_assert_eq(gpu.allocations, allocations);
    for (int i = 0; i < 3; i++) tni_block_free(blocks[i]);
    cr_assert_eq(tn_memory_empty_cache(ctx, d->id), TN_OK);
    cr_assert_eq(gpu.live_allocations, 1, "the graph's");
    tn_graph_release(g);
    cr_assert_eq(gpu.live_allocations, 0);
    close_gpu();
}

/* ---- Work that another thread queues while memory goes back to the device ---- */

static tni_driver original;
static tni_block *freed_meanwhile;
static int given_early;

/* What another thread does between the wait and the lock: it queues work on a block, and frees the block. */
static int32_t synchronize_and_go_on(void *self, void *device)
{
    int32_t status = original.stream.synchronize(self, device, d->default_stream->handle);
    if (!freed_meanwhile) return status;
    fake_work(d->default_stream);
    tni_block_free(freed_meanwhile);
    freed_meanwhile = NULL;
    return status;
}

static void note_work(void *self, void *device)
{
    int32_t done = 0;
    (void)original.stream.query(self, device, d->default_stream->handle, &done);
    given_early += !done;
}

static void free_at_rest(void *self, void *device, const tn_memory *memory)
{
    note_work(self, device);
    original.memory.free(self, device, memory);
}

static int32_t resize_at_rest(void *self, void *device, void *allocation, uint64_t bytes)
{
    note_work(self, device);
    return original.memory.resize(self, device, allocation, bytes);
}

static void watch_what_goes_back(void)
{
    open_gpu();
    original = d->type->driver;
    d->type->driver.device.synchronize = synchronize_and_go_on;
    d->type->driver.memory.free = free_at_rest;
    given_early = 0;
}

/* "Called when no unfinished work uses the memory." */
Test(allocator_streams, memory_goes_back_after_the_work_that_other_threads_queue)
{
    watch_what_goes_back();
    freed_meanwhile = get(30 * MIB);
    cr_assert_eq(tn_memory_empty_cache(ctx, d->id), TN_OK);
    cr_assert_null(freed_meanwhile);
    cr_assert_eq(gpu.live_allocations, 0);
    cr_assert_eq(given_early, 0);
    close_gpu();
}

Test(allocator_streams, memory_is_cut_off_after_the_work_that_other_threads_queue)
{
    gpu.memory = 1024 * MIB;
    gpu.grows = 1;
    watch_what_goes_back();
    cr_assert_eq(tn_memory_configure(ctx, d->id, "expandable_segments:True"), TN_OK);
    tni_block *first = get(30 * MIB);
    freed_meanwhile = get(30 * MIB);
    d->type->driver.memory.resize = resize_at_rest;
    cr_assert_eq(tn_memory_empty_cache(ctx, d->id), TN_OK);
    cr_assert_eq(gpu.used, 30 * MIB);
    cr_assert_eq(given_early, 0);
    tni_block_free(first);
    close_gpu();
}

/* ---- Threads that end in a private pool ---- */

static void *begin_and_end(void *pool)
{
    cr_assert_eq(tn_memory_pool_begin(pool), TN_OK);
    tni_block_free(get(KIB));
    return NULL;
}

static void *take_a_block(void *out)
{
    *(tni_block **)out = get(KIB);
    return NULL;
}

/* The system gives a thread the identity of one that has ended. */
Test(allocator_streams, a_thread_that_ends_leaves_its_pool_to_no_other)
{
    open_gpu();
    tn_memory_pool *pool = NULL;
    pthread_t first, second;
    tni_block *b = NULL;
    tn_memory_stats of_pool = {.size = sizeof of_pool};
    cr_assert_eq(tn_memory_pool_create(ctx, d->id, &pool), TN_OK);
    for (int i = 0; i < 20; i++) {
        pthread_create(&first, NULL, begin_and_end, pool);
        pthread_join(first, NULL);
        pthread_create(&second, NULL, take_a_block, &b);
        pthread_join(second, NULL);
        cr_assert_eq(tn_memory_pool_get_stats(pool, &of_pool), TN_OK);
        cr_assert_eq(of_pool.active_blocks, 0, "round %d", i);
        tni_block_free(b);
    }
}
