/* SPDX-License-Identifier: Apache-2.0 */
/* The states of graphs and what is refused in each; tests/behaviour has what captured work computes. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include "core/capture.h"
#include "fixture.h"
#include "at_end.h"

static tn_device first, second;
static tn_graph *g;
static tn_stream *stream, *other, *elsewhere;

static void open_graph(void)
{
    open_full_fakes();
    first = tn_device_parse(ctx, "gpu:0");
    second = tn_device_parse(ctx, "gpu:1");
    cr_assert_eq(tn_graph_create(ctx, first, &g), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, first, 0, &stream), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, first, 0, &other), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, second, 0, &elsewhere), TN_OK);
}

/* After all refusals the graph still captures and replays. */
static void close_graph(void)
{
    int32_t launches = gpu.launches;
    MUST_HOLD(tn_graph_reset(g) == TN_OK);
    MUST_HOLD(tn_graph_capture_begin(g, stream) == TN_OK);
    MUST_HOLD(tn_graph_capture_end(g) == TN_OK);
    MUST_HOLD(tn_graph_replay(g) == TN_OK);
    MUST_HOLD(gpu.launches == launches + 1);
    tn_graph_release(g);
    tn_stream_release(stream);
    tn_stream_release(other);
    tn_stream_release(elsewhere);
    close_fakes();
    MUST_HOLD(gpu.live_graphs + gpu.live_executables == 0);
}

TestSuite(graph, .init = open_graph, .fini = close_graph);

Test(graph, devices_without_graphs)
{
    tn_graph *made = NULL;
    static fake host = {.type = "host", .count = 1, .has_graphs = 1};
    static fake own = {
        .type = "own", .count = 1, .device_class = TN_DEVICE_DISCRETE, .has_graphs = 1, .own_allocator = 1};
    tni_driver driver = fake_driver(&host);
    cr_assert_eq(tni_device_type_add(ctx, &driver), TN_OK);
    driver = fake_driver(&own);
    cr_assert_eq(tni_device_type_add(ctx, &driver), TN_OK);
    REFUSED(tn_graph_create(ctx, TN_CPU, &made), TN_E_UNSUPPORTED,
            "plugin fake has no graphs (no interface tenon.graph)");
    REFUSED(tn_graph_create(ctx, tn_device_parse(ctx, "host:0"), &made), TN_E_UNSUPPORTED,
            "plugin fake: a device that works at once in the host's memory has no graphs");
    REFUSED(tn_graph_create(ctx, tn_device_parse(ctx, "own:0"), &made), TN_E_UNSUPPORTED,
            "plugin fake has an allocator of its own: its devices have no memory that stays for graphs");
    cr_assert_eq(tn_graph_create(ctx, tn_device_parse(ctx, "gpu:5"), &made), TN_E_DEVICE);
    cr_assert_null(made);
}

Test(graph, pools_that_a_graph_does_not_take)
{
    tn_memory_pool *pool = NULL, *far = NULL;
    cr_assert_eq(tn_memory_pool_create(ctx, first, &pool), TN_OK);
    cr_assert_eq(tn_memory_pool_create(ctx, second, &far), TN_OK);
    REFUSED(tn_graph_set_pool(NULL, pool), TN_E_ARGUMENT, "a graph is missing");
    REFUSED(tn_graph_set_pool(g, far), TN_E_DEVICE,
            "tn_graph_set_pool: the pool and the graph are of different devices");
    cr_assert_eq(tn_graph_set_pool(g, pool), TN_OK);
    cr_assert_eq(tn_graph_capture_begin(g, stream), TN_OK);
    REFUSED(tn_graph_set_pool(g, NULL), TN_E_STATE, "tn_graph_set_pool: the graph is being captured");
    cr_assert_eq(tn_graph_capture_end(g), TN_OK);
    REFUSED(tn_graph_set_pool(g, NULL), TN_E_STATE,
            "tn_graph_set_pool: the graph has been captured; reset it first");
    cr_assert_eq(tn_graph_reset(g), TN_OK);
    cr_assert_eq(tn_graph_set_pool(g, NULL), TN_OK);
    tn_memory_pool_release(pool);
    tn_memory_pool_release(far);
}

Test(graph, states)
{
    tn_graph *another = NULL, *far = NULL;
    cr_assert_eq(tn_graph_create(ctx, first, &another), TN_OK);
    cr_assert_eq(tn_graph_create(ctx, second, &far), TN_OK);
    REFUSED(tn_graph_capture_begin(NULL, stream), TN_E_ARGUMENT, "a graph is missing");
    REFUSED(tn_graph_capture_begin(g, NULL), TN_E_ARGUMENT, "a stream is missing");
    REFUSED(tn_graph_capture_end(NULL), TN_E_ARGUMENT, "a graph is missing");
    REFUSED(tn_graph_replay(NULL), TN_E_ARGUMENT, "a graph is missing");
    REFUSED(tn_graph_reset(NULL), TN_E_ARGUMENT, "a graph is missing");
    REFUSED(tn_graph_update(g, NULL), TN_E_ARGUMENT, "a graph is missing");
    REFUSED(tn_graph_update(g, g), TN_E_ARGUMENT, "tn_graph_update: a graph cannot update itself");
    REFUSED(tn_graph_update(g, far), TN_E_ARGUMENT, "tn_graph_update: the graphs are of different devices");
    REFUSED(tn_graph_update(g, another), TN_E_STATE, "tn_graph_update: the graph is empty; capture it first");
    REFUSED(tn_graph_capture_end(g), TN_E_STATE, "tn_graph_capture_end: no capture has begun");
    REFUSED(tn_graph_replay(g), TN_E_STATE, "tn_graph_replay: the graph is empty; capture it first");
    REFUSED(tn_graph_capture_begin(g, elsewhere), TN_E_DEVICE,
            "tn_graph_capture_begin: graph and stream are of different devices");
    cr_assert_eq(tn_graph_capture_begin(g, stream), TN_OK);
    REFUSED(tn_graph_capture_begin(g, other), TN_E_STATE,
            "tn_graph_capture_begin: the graph is being captured");
    REFUSED(tn_graph_capture_begin(another, stream), TN_E_STATE,
            "tn_graph_capture_begin: the stream captures another graph");
    REFUSED(tn_graph_replay(g), TN_E_STATE, "tn_graph_replay: the graph is being captured");
    REFUSED(tn_device_synchronize(ctx, first), TN_E_STATE,
            "tn_device_synchronize: a stream of the device captures a graph");
    cr_assert_eq(tn_graph_capture_end(g), TN_OK);
    REFUSED(tn_graph_capture_begin(g, stream), TN_E_STATE,
            "tn_graph_capture_begin: the graph has been captured; tn_graph_reset empties it");
    REFUSED(tn_graph_update(g, another), TN_E_STATE,
            "tn_graph_update, from: the graph is empty; capture it first");
    cr_assert_eq(tn_graph_capture_begin(another, stream), TN_OK);
    tn_stream_set_current(ctx, stream);
    REFUSED(tn_graph_replay(g), TN_E_STATE, "replaying a graph cannot be captured in a graph");
    tn_stream_set_current(ctx, tn_stream_default(ctx, first));
    tn_graph_release(another); /* while it is being captured */
    tn_graph_release(far);
    tn_graph_release(NULL);
    cr_assert_not(tn_stream_is_capturing(stream));
    cr_assert_not(tn_stream_is_capturing(NULL));
}

/* The device keeps a list of captures, which end in any order. */
Test(graph, captures_at_the_same_time)
{
    tn_graph *another = NULL;
    tn_event *of_g = NULL, *before = NULL;
    cr_assert_eq(tn_graph_create(ctx, first, &another), TN_OK);
    cr_assert_eq(tn_event_create(ctx, first, 0, &of_g), TN_OK);
    cr_assert_eq(tn_event_create(ctx, first, 0, &before), TN_OK);
    cr_assert_eq(tn_event_record(before, other), TN_OK);
    cr_assert_eq(tn_graph_capture_begin(g, stream), TN_OK);
    cr_assert_eq(tn_graph_capture_begin(another, other), TN_OK);
    cr_assert_eq(tn_event_record(of_g, stream), TN_OK);
    cr_assert_eq(tn_stream_wait_event(stream, of_g), TN_OK, "it takes part already");
    REFUSED(tn_stream_wait_event(other, of_g), TN_E_STATE,
            "waiting for an event of another capture cannot be captured in a graph");
    REFUSED(tn_stream_wait_event(other, before), TN_E_STATE,
            "waiting for an event from outside the capture cannot be captured in a graph");
    cr_assert_eq(tn_graph_capture_end(g), TN_OK, "only the other one is invalid");
    REFUSED(tn_graph_capture_end(another), TN_E_STATE,
            "the capture is invalid: waiting for an event of another capture cannot be captured in a graph");
    REFUSED(tn_stream_wait_event(other, of_g), TN_E_STATE,
            "waiting for an event that was recorded in a capture cannot be captured in a graph, nor done "
            "afterwards: "
            "record the event anew");
    tn_event_release(of_g);
    tn_event_release(before);
    tn_graph_release(another);
}

static void never_called(void *user)
{
    cr_assert_null(user);
}

Test(graph, events_of_a_capture)
{
    tn_event *e = NULL, *far = NULL, *of_capture = NULL;
    double ms;
    cr_assert_eq(tn_event_create(ctx, first, TN_EVENT_TIMING, &e), TN_OK);
    cr_assert_eq(tn_event_create(ctx, first, TN_EVENT_TIMING, &of_capture), TN_OK);
    cr_assert_eq(tn_event_create(ctx, second, TN_EVENT_TIMING, &far), TN_OK);
    cr_assert_eq(tn_event_record(e, other), TN_OK);
    cr_assert_eq(tn_event_record(far, elsewhere), TN_OK);
    cr_assert_eq(tn_graph_capture_begin(g, stream), TN_OK);
    cr_assert_eq(tn_event_record(of_capture, stream), TN_OK);
    cr_assert_eq(tn_event_elapsed(e, of_capture, &ms), TN_E_STATE);
    expect_last(TN_E_STATE,
                "the time of an event that was recorded in a capture cannot be captured in a graph");
    cr_assert_eq(tn_event_query(of_capture), -TN_E_STATE);
    tn_clear_error();
    REFUSED(tn_stream_wait_event(elsewhere, of_capture), TN_E_STATE,
            "waiting on another device for an event that was recorded in a capture cannot be captured in a "
            "graph");
    cr_assert_eq(tn_stream_query(stream), -TN_E_STATE);
    REFUSED(tn_stream_add_callback(stream, never_called, NULL), TN_E_STATE,
            "a callback of the program cannot be captured in a graph");
    REFUSED(
        tn_graph_capture_end(g), TN_E_STATE,
        "the capture is invalid: the time of an event that was recorded in a capture cannot be captured in a "
        "graph");
    REFUSED(tn_event_elapsed(e, far, &ms), TN_E_DEVICE, "the two events are of different devices");
    tn_event_release(e);
    tn_event_release(far);
    tn_event_release(of_capture);
}

/* The first refusal is blamed on the operator in whose call it arose, on the same thread. */
static void *blame_elsewhere(void *text)
{
    tni_error(TN_E_STATE, "%s", (const char *)text);
    tni_capture_blame(ctx, "aten::add");
    return NULL;
}

Test(graph, blame)
{
    static char text[] = "one cannot be captured in a graph";
    pthread_t thread;
    tni_capture_blame(ctx, "aten::add"); /* no error */
    tni_error(TN_E_SHAPE, "sizes");
    tni_capture_blame(ctx, "aten::add");
    cr_assert_eq(tn_graph_capture_begin(g, stream), TN_OK);
    tni_error(TN_E_STATE, "another state");
    tni_capture_blame(ctx, "aten::add");
    cr_assert_eq(tni_capture_refuse(stream, "one"), TN_E_STATE);
    cr_assert_eq(pthread_create(&thread, NULL, blame_elsewhere, text), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(tni_capture_refuse(stream, "two"), TN_E_STATE);
    tni_capture_blame(ctx, "aten::sub"); /* the second one */
    tni_error(TN_E_STATE, "%s", text);
    tni_capture_blame(ctx, "aten::mul");
    tni_capture_blame(ctx, "aten::div"); /* the first blame stays */
    REFUSED(tn_graph_capture_end(g), TN_E_STATE,
            "the capture is invalid: aten::mul: one cannot be captured in a graph");
}

Test(graph, copies_between_devices)
{
    const float data[2] = {1, 2};
    tn_tensor *a = tn_from_data(s, TN_FLOAT32, TN_INTS(2), data, first);
    tn_tensor *b = tn_from_data(s, TN_FLOAT32, TN_INTS(2), data, second);
    tni_place from = {a->storage->device, a->desc.allocation, a->desc.byte_offset};
    tni_place to = {b->storage->device, b->desc.allocation, b->desc.byte_offset};
    const char *const text = "a copy between devices cannot be captured in a graph";
    cr_assert_eq(tn_graph_capture_begin(g, stream), TN_OK);
    tn_stream_set_current(ctx, stream);
    REFUSED(tni_copy_peer(&to, &from, sizeof data), TN_E_STATE, text);
    REFUSED(tni_copy_peer(&from, &to, sizeof data), TN_E_STATE, text);
    tn_stream_set_current(ctx, tn_stream_default(ctx, first));
    cr_assert_eq(tn_graph_capture_end(g), TN_E_STATE);
    cr_assert_eq(gpu.peer_copies, 0);
    cr_assert(tni_are_peers(to.device, from.device));
    cr_assert_not(tni_are_peers(to.device, to.device));
    cr_assert_not(tni_are_peers(to.device, tni_device_get(ctx, TN_CPU)));
}

/* Nothing is left of a capture whose end the plugin refuses, and of one whose work was refused. */
Test(graph, captures_that_fail)
{
    gpu.empty_slot = 1;
    cr_assert_eq(tn_graph_capture_begin(g, stream), TN_OK);
    REFUSED(tn_graph_capture_end(g), TN_E_CONTRACT,
            "plugin fake: graph.end said it is done, but gave no handle");
    cr_assert_eq(tn_graph_capture_begin(g, stream), TN_OK);
    cr_assert_eq(tni_capture_refuse(stream, "one"), TN_E_STATE);
    gpu.fail_slot = 1;
    REFUSED(tn_graph_capture_end(g), TN_E_STATE, "the capture is invalid: one cannot be captured in a graph");
    cr_assert_eq(gpu.live_graphs, 0);
}

/* Two generators: each has its own counter in a graph, the second one comes last. */
Test(graph, random_numbers_of_two_generators)
{
    tn_generator *mine = NULL;
    uint64_t offset = 9;
    tn_tensor *a = NULL, *b = NULL, *again = NULL;
    cr_assert_eq(tn_generator_create(ctx, 77, &mine), TN_OK);
    cr_assert_eq(tni_capture_random(stream, mine, 4, &offset, &a), TN_OK);
    cr_assert_null(a, "the stream does not capture");
    cr_assert_eq(tn_graph_capture_begin(g, stream), TN_OK);
    tn_generator *own = stream->device->generator;
    cr_assert_eq(tni_capture_random(stream, own, 4, &offset, &a), TN_OK);
    cr_assert_eq(offset, 0);
    cr_assert_eq(tni_capture_random(stream, mine, 4, &offset, &b), TN_OK);
    cr_assert_eq(offset, 0);
    cr_assert_eq(tni_capture_random(stream, own, 4, &offset, &again), TN_OK);
    cr_assert_eq(offset, 4);
    cr_assert_eq(again, a);
    cr_assert_neq(a, b);
    tn_generator_release(mine); /* the graph keeps it */
    cr_assert_eq(tn_graph_capture_end(g), TN_OK);
    cr_assert_eq(tn_graph_replay(g), TN_OK);
    const uint64_t *words = fake_address(a), *mine_words = fake_address(b);
    cr_assert_eq(words[1], 0);
    cr_assert_eq(mine_words[0], 77, "the seed");
    cr_assert_eq(tn_graph_replay(g), TN_OK);
    cr_assert_eq(words[1], 8, "each replay takes others");
    cr_assert_eq(mine_words[1], 4);
}
