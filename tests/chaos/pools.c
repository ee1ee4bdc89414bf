/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private pools and the memory of graphs, on the device of waits.c: whose memory a tensor gets, when it goes back, and
 * what the statistics say. mutants.py takes each of these rules out of the library.
 */
#include "fixture.h"

#define LARGE (3 << 20) /* elements */

static const void *place_of(const tn_tensor *t)
{
    return (const char *)tn_desc(t)->allocation + tn_desc(t)->byte_offset;
}

static int64_t stat(const world *w, const char *key)
{
    int64_t value = -1;
    cr_assert_eq(tn_memory_get_stat(w->ctx, w->device, key, &value), TN_OK, "%s", key);
    return value;
}

static tn_memory_pool *new_pool(const world *w)
{
    tn_memory_pool *pool;
    cr_assert_eq(tn_memory_pool_create(w->ctx, w->device, &pool), TN_OK);
    return pool;
}

static tn_graph *new_graph(const world *w, tn_memory_pool *pool)
{
    tn_graph *graph;
    cr_assert_eq(tn_graph_create(w->ctx, w->device, &graph), TN_OK);
    if (pool) cr_assert_eq(tn_graph_set_pool(graph, pool), TN_OK);
    return graph;
}

/* y = x + n by a graph on the side stream, through a temporary tensor at *out_place that has an allocation of its own. */
static tn_tensor *capture_plus(world *w, tn_graph *graph, tn_tensor *x, double n, const void **out_place)
{
    move_to_side(w);
    cr_assert_eq(tn_graph_capture_begin(graph, w->side), TN_OK);
    tn_tensor *large = filled(w, LARGE, n), *part = tn_narrow(w->s, large, 0, 0, COUNT);
    tn_tensor *y = tn_add(w->s, x, part);
    expect_sound(w->s);
    *out_place = place_of(large);
    tn_drop(w->s, part);
    tn_drop(w->s, large);
    cr_assert_eq(tn_graph_capture_end(graph), TN_OK);
    on(w, w->home);
    return y;
}

Test(pools, private_memory_serves_its_pool_alone)
{
    world w = open_world();
    tn_memory_pool *pool = new_pool(&w);
    cr_assert_eq(tn_memory_pool_begin(pool), TN_OK);
    tn_tensor *inside = filled(&w, COUNT, 1);
    const void *place = place_of(inside);
    tn_drop(w.s, inside);
    cr_assert_eq(tn_memory_pool_end(pool), TN_OK);
    for (int i = 0; i < 8; i++) cr_expect_neq(place_of(filled(&w, COUNT, i)), place);
    cr_assert_eq(tn_memory_pool_begin(pool), TN_OK);
    cr_expect_eq(place_of(filled(&w, COUNT, 2)), place, "it serves the pool again");
    cr_assert_eq(tn_memory_pool_end(pool), TN_OK);
    tn_memory_pool_release(pool);
    close_world(&w);
}

/* Of a pool, too, memory belongs to the stream it was allocated on: nothing waits when it is used again there. */
Test(pools, a_block_is_given_to_its_own_stream)
{
    world w = open_world();
    tn_tensor *x = plus(&w, filled(&w, COUNT, 1), 2), *sum = tn_sum(w.s, x);
    const void *place = place_of(x);
    tn_drop(w.s, x); /* the sum has not run */
    on(&w, w.side);
    tn_tensor *others[8];
    for (int i = 0; i < 8; i++) {
        others[i] = filled(&w, COUNT, 50);
        cr_expect_neq(place_of(others[i]), place);
    }
    expect_all(&w, others[7], 50);
    on(&w, w.home);
    expect_all(&w, sum, 3 * COUNT);
    close_world(&w);
}

Test(pools, statistics_fall_when_memory_is_freed)
{
    world w = open_world();
    tn_memory_pool *pool = new_pool(&w);
    tn_memory_stats stats = {.size = sizeof stats};
    int64_t before = stat(&w, "allocated_bytes.all.current");
    cr_assert_eq(tn_memory_pool_begin(pool), TN_OK);
    tn_tensor *x = filled(&w, COUNT, 1);
    cr_assert_eq(tn_memory_pool_end(pool), TN_OK);
    int64_t block = stat(&w, "allocated_bytes.private_pools.current");
    cr_expect_geq(block, COUNT * 8);
    cr_expect_eq(stat(&w, "requested_bytes.private_pools.current"), COUNT * 8);
    cr_expect_eq(stat(&w, "allocated_bytes.small_pool.current"), before + block);
    tn_drop(w.s, x);
    cr_expect_eq(stat(&w, "allocated_bytes.private_pools.current"), 0);
    cr_expect_eq(stat(&w, "active_bytes.private_pools.current"), 0);
    cr_expect_eq(stat(&w, "allocated_bytes.all.current"), before);
    cr_assert_eq(tn_memory_pool_get_stats(pool, &stats), TN_OK);
    cr_expect_eq(stats.allocated_bytes, 0);
    cr_expect_eq(stats.allocated_peak, (uint64_t)block);
    cr_expect_gt(stats.reserved_bytes, 0);
    cr_assert_eq(tn_memory_empty_cache(w.ctx, w.device), TN_OK);
    cr_expect_eq(stat(&w, "reserved_bytes.private_pools.current"), 0);
    cr_assert_eq(tn_memory_pool_get_stats(pool, &stats), TN_OK);
    cr_expect_eq(stats.reserved_bytes, 0);
    tn_memory_pool_release(pool);
    close_world(&w);
}

/* Replays write to memory that the capture freed: others must not get it, nor may it go back to the device. */
Test(pools, memory_of_a_graph_stays_while_it_can_be_replayed)
{
    world w = open_world();
    const void *place;
    tn_graph *graph = new_graph(&w, NULL);
    tn_tensor *older = filled(&w, LARGE, 1);
    tn_tensor *x = filled(&w, COUNT, 1), *y = capture_plus(&w, graph, x, 10, &place);
    tn_drop(w.s, older);
    int64_t reserved = stat(&w, "reserved_bytes.private_pools.current");
    cr_assert_eq(tn_memory_empty_cache(w.ctx, w.device), TN_OK); /* gives that back alone */
    cr_expect_eq(stat(&w, "reserved_bytes.private_pools.current"), reserved);
    move_to_side(&w);
    tn_tensor *others[8];
    for (int i = 0; i < 8; i++) {
        others[i] = filled(&w, LARGE / 8, 100 + i);
        cr_expect_neq(place_of(others[i]), place);
    }
    cr_assert_eq(tn_graph_replay(graph), TN_OK);
    expect_all(&w, y, 11);
    for (int i = 0; i < 8; i++) expect_all(&w, others[i], 100 + i);
    tn_graph_release(graph);
    close_world(&w);
}

/* A block of a capture that another captured stream read is not used again within the capture: nothing orders the two. */
Test(pools, a_block_that_another_captured_stream_reads)
{
    world w = open_world();
    tn_stream *third;
    tn_graph *graph = new_graph(&w, NULL);
    cr_assert_eq(tn_stream_create(w.ctx, w.device, 0, &third), TN_OK);
    tn_tensor *x = filled(&w, COUNT, 1);
    move_to_side(&w);
    cr_assert_eq(tn_graph_capture_begin(graph, w.side), TN_OK);
    tn_tensor *a = plus(&w, x, 1);
    cr_assert_eq(tn_stream_wait_stream(third, w.side), TN_OK);
    on(&w, third);
    tn_tensor *b = plus(&w, a, 5);
    cr_assert_eq(tn_record_stream(a, third), TN_OK);
    on(&w, w.side);
    const void *place = place_of(a);
    tn_drop(w.s, a);
    cr_expect_neq(place_of(plus(&w, x, 7)), place);
    cr_assert_eq(tn_stream_wait_stream(w.side, third), TN_OK);
    cr_assert_eq(tn_graph_capture_end(graph), TN_OK);
    cr_assert_eq(tn_graph_replay(graph), TN_OK);
    expect_all(&w, b, 7);
    on(&w, w.home);
    tn_graph_release(graph);
    tn_stream_release(third);
    close_world(&w);
}

/* Another stream still reads memory of a graph when the last of those goes that kept it. */
Test(pools, a_pool_that_ends_waits_for_the_device)
{
    world w = open_world();
    const void *place;
    tn_memory_pool *pool = new_pool(&w);
    tn_graph *graph = new_graph(&w, pool);
    tn_tensor *x = filled(&w, COUNT, 1), *y = capture_plus(&w, graph, x, 10, &place);
    move_to_side(&w);
    cr_assert_eq(tn_graph_replay(graph), TN_OK);
    tn_graph_release(graph); /* waits */
    on(&w, w.home);
    tn_tensor *sum = tn_sum(w.s, y);
    tn_drop(w.s, y);
    tn_memory_pool_release(pool);
    expect_all(&w, sum, 11 * COUNT);
    close_world(&w);
}

/* What a pool leaves behind serves everything else, and is private no longer. */
Test(pools, a_pool_that_ends_leaves_its_memory)
{
    world w = open_world();
    tn_memory_pool *pool = new_pool(&w);
    cr_assert_eq(tn_memory_pool_begin(pool), TN_OK);
    tn_tensor *kept = filled(&w, COUNT, 4), *gone = filled(&w, COUNT, 1);
    const void *place = place_of(gone);
    tn_drop(w.s, gone);
    cr_assert_eq(tn_memory_pool_end(pool), TN_OK);
    tn_memory_pool_release(pool);
    cr_expect_eq(stat(&w, "reserved_bytes.private_pools.current"), 0);
    cr_expect_eq(stat(&w, "allocated_bytes.private_pools.current"), 0);
    int found = 0;
    for (int i = 0; i < 64; i++) found += place_of(filled(&w, COUNT, i)) == place;
    cr_expect_gt(found, 0, "the memory serves other tensors");
    expect_all(&w, kept, 4);
    close_world(&w);
}
