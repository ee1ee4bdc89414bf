/* SPDX-License-Identifier: Apache-2.0 */
/* Late errors: who learns of the failure of queued work, and how often. tests/chaos has them with a real queue. */
#include "core/late_error.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include "core/graph.h"
#include "core/transfer.h"
#include "fixture.h"

static tn_device id;
static tni_device *d;
static tn_stream *a, *b, *c;

static void open_streams(void)
{
    open_full_fakes();
    id = tn_device_parse(ctx, "gpu:0");
    d = tni_device_get(ctx, id);
    cr_assert_eq(tn_stream_create(ctx, id, 0, &a), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, id, 0, &b), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, id, 0, &c), TN_OK);
}

static void close_streams(void)
{
    tn_stream_release(a);
    tn_stream_release(b);
    tn_stream_release(c);
    close_fakes();
}

TestSuite(late_error, .init = open_streams, .fini = close_streams);

/* The stream's next call to the driver fails, which somebody is told. */
static void fail(tn_stream *stream)
{
    gpu.fail_slot = 1;
    cr_assert_eq(tn_stream_synchronize(stream), TN_E_INTERNAL);
    tn_clear_error();
}

/* Of errors that nobody could be told the first is kept, for the next wait. */
Test(late_error, errors_without_a_caller)
{
    tni_late_keep(d, TN_OK, "nothing");
    cr_assert_eq(tn_stream_synchronize(a), TN_OK);
    tni_late_keep(d, TN_E_IO, "the first thing");
    tni_late_keep(d, TN_E_SHAPE, "the second thing");
    cr_assert_eq(tn_device_synchronize(ctx, id), TN_E_IO);
    cr_assert_not_null(strstr(tn_last_error()->message, "the first thing"), "%s", tn_last_error()->message);
    cr_assert_str_eq(tn_last_error()->plugin, "fake");
    cr_assert_eq(tn_device_synchronize(ctx, id), TN_OK, "it is told once");
    tni_late_keep(d, TN_E_IO, "a query");
    cr_assert_eq(tn_stream_query(a), -TN_E_IO);
    tni_device *host = tni_device_get(ctx, TN_CPU);
    const float one = 1;
    tni_late_keep(host, TN_E_IO, "on the host");
    tn_tensor *t = tn_from_data(s, TN_FLOAT32, TN_INTS(1), &one, TN_CPU);
    cr_assert_eq(tni_copy_to_device(host, t->desc.allocation, t->desc.byte_offset, &one, sizeof one),
                 TN_E_IO);
    tn_clear_error();
}

/* A stream learns of errors on streams that it waited for, also of those that they had waited for, once. */
Test(late_error, of_streams_that_were_waited_for)
{
    cr_assert_eq(tn_stream_wait_stream(b, a), TN_OK);
    cr_assert_eq(tn_stream_wait_stream(c, b), TN_OK);
    fail(a);
    cr_assert_eq(tn_stream_synchronize(c), TN_E_INTERNAL);
    tn_clear_error();
    cr_assert_eq(tn_stream_synchronize(c), TN_OK);
    cr_assert_eq(tn_stream_synchronize(b), TN_E_INTERNAL);
    tn_clear_error();
    cr_assert_eq(tn_stream_synchronize(b), TN_OK);
}

/* Of two waits for one stream the earlier place counts: an error between the two is behind it. */
Test(late_error, the_earlier_of_two_places)
{
    tn_event *before = NULL, *after = NULL;
    cr_assert_eq(tn_event_create(ctx, id, 0, &before), TN_OK);
    cr_assert_eq(tn_event_create(ctx, id, 0, &after), TN_OK);
    cr_assert_eq(tn_event_record(before, a), TN_OK);
    fail(a);
    cr_assert_eq(tn_event_record(after, a), TN_OK);
    cr_assert_eq(tn_stream_wait_event(b, after), TN_OK);
    cr_assert_eq(tn_stream_wait_event(c, after), TN_OK);
    cr_assert_eq(tn_stream_wait_event(c, before), TN_OK);
    cr_assert_eq(tn_stream_wait_event(c, after), TN_OK);
    cr_assert_eq(tn_stream_wait_event(a, before), TN_OK, "its own");
    cr_assert_eq(tn_stream_synchronize(b), TN_OK, "the error was before its place");
    cr_assert_eq(tn_stream_synchronize(c), TN_E_INTERNAL);
    cr_assert_eq(tn_event_synchronize(before), TN_E_INTERNAL);
    cr_assert_eq(tn_event_query(before), -TN_E_INTERNAL, "every later one learns of it");
    cr_assert_eq(tn_event_query(after), 1);
    tn_clear_error();
    tn_event_release(before);
    tn_event_release(after);
}

/* Several streams with errors: one is told. One that captures has no work under way and is not asked. */
Test(late_error, of_several_streams)
{
    tn_graph *g = NULL;
    cr_assert_eq(tn_stream_wait_stream(c, a), TN_OK);
    cr_assert_eq(tn_stream_wait_stream(c, b), TN_OK);
    fail(a);
    fail(b);
    cr_assert_eq(tn_stream_synchronize(c), TN_E_INTERNAL);
    cr_assert_eq(tn_stream_synchronize(c), TN_OK);
    tn_clear_error();
    cr_assert_eq(tn_stream_wait_stream(c, a), TN_OK);
    cr_assert_eq(tn_graph_create(ctx, id, &g), TN_OK);
    cr_assert_eq(tn_graph_capture_begin(g, a), TN_OK);
    gpu.fail_slot = 2; /* the one after c's synchronize: a query of the stream that captures */
    cr_assert_eq(tn_stream_synchronize(c), TN_OK);
    cr_assert_eq(gpu.fail_slot, 1, "it was not asked");
    gpu.fail_slot = 0;
    cr_assert_eq(tn_graph_capture_end(g), TN_OK);
    tn_graph_release(g);
}

static int32_t status_elsewhere;
static void *wait_for_device(void *user)
{
    status_elsewhere = user ? tn_memory_empty_cache(ctx, id) : tn_device_synchronize(ctx, id);
    return NULL;
}

/* A thread that waits for the device is told, and so is the one whose stream it is. */
Test(late_error, of_a_stream_of_another_thread)
{
    pthread_t thread;
    for (int way = 0; way < 2; way++) {
        cr_assert_eq(tn_stream_set_current(ctx, a), TN_OK);
        tni_late_note(a, TN_E_INDEX, "a kernel");
        cr_assert_eq(pthread_create(&thread, NULL, wait_for_device, way ? &way : NULL), 0);
        pthread_join(thread, NULL);
        cr_assert_eq(status_elsewhere, TN_E_INDEX);
        cr_assert_eq(tn_device_synchronize(ctx, id), TN_OK, "a wait for the device told it");
        tni_late_note(a, TN_E_INDEX, "a kernel");
        pthread_create(&thread, NULL, wait_for_device, way ? &way : NULL);
        pthread_join(thread, NULL);
        cr_assert_eq(tn_stream_synchronize(b), TN_OK);
        cr_assert_eq(tn_stream_synchronize(a), TN_E_INDEX);
        cr_assert_eq(tn_stream_synchronize(a), TN_OK, "it is told once");
        tn_clear_error();
    }
    tn_stream_set_current(ctx, tn_stream_default(ctx, id));
}

/* The thread that waits for the device used all these streams: it is told once. */
Test(late_error, of_the_threads_own_streams)
{
    cr_assert_eq(tn_stream_set_current(ctx, a), TN_OK);
    cr_assert_eq(tn_stream_set_current(ctx, b), TN_OK);
    gpu.fail_slot = 1; /* a wait for the first stream */
    cr_assert_eq(tn_device_synchronize(ctx, id), TN_E_INTERNAL);
    tn_clear_error();
    tni_late_note(a, TN_E_INDEX, "a kernel");
    cr_assert_eq(tn_device_synchronize(ctx, id), TN_E_INDEX);
    cr_assert_not_null(strstr(tn_last_error()->message, "a kernel"), "%s", tn_last_error()->message);
    tn_clear_error();
    cr_assert_eq(tn_stream_synchronize(a), TN_OK);
    cr_assert_eq(tn_device_synchronize(ctx, id), TN_OK);
    tn_stream_set_current(ctx, tn_stream_default(ctx, id));
}

/* Its error was found by a wait that could tell nobody. */
Test(late_error, of_a_stream_that_is_released_untold)
{
    tn_stream *gone = NULL;
    cr_assert_eq(tn_stream_create(ctx, id, 0, &gone), TN_OK);
    tni_late_note(gone, TN_E_INDEX, "a kernel");
    tn_stream_release(gone);
    cr_assert_eq(tn_device_synchronize(ctx, id), TN_E_INDEX);
    tn_clear_error();
    cr_assert_eq(tn_device_synchronize(ctx, id), TN_OK);
}

/* A released stream's error was kept for the device. */
Test(late_error, of_a_stream_that_is_released)
{
    tn_stream *gone = NULL;
    cr_assert_eq(tn_stream_create(ctx, id, 0, &gone), TN_OK);
    cr_assert_eq(tn_stream_wait_stream(b, gone), TN_OK);
    gpu.fail_slot = 1;
    tn_stream_release(gone);
    cr_assert_eq(tn_stream_synchronize(b), TN_E_INTERNAL);
    cr_assert_not_null(strstr(tn_last_error()->message, "waiting for a stream that is released"));
    tn_clear_error();
    cr_assert_eq(tn_stream_synchronize(b), TN_OK);
}

/* Streams of the host are done when a call returns: nothing is late. */
Test(late_error, on_the_host)
{
    tn_stream *x = NULL;
    tn_event *e = NULL;
    cr_assert_eq(tn_stream_create(ctx, TN_CPU, 0, &x), TN_OK);
    cr_assert_eq(tn_event_create(ctx, TN_CPU, TN_EVENT_TIMING, &e), TN_OK);
    cr_assert_eq(tn_event_record(e, x), TN_OK);
    cr_assert_eq(tn_stream_wait_event(tn_stream_default(ctx, TN_CPU), e), TN_OK);
    cr_assert_eq(tn_event_synchronize(e), TN_OK);
    cr_assert_eq(tn_event_query(e), 1);
    tn_event_release(e);
    tn_stream_release(x);
}

/* A release may wait for the device that it is called by: then it must not wait for itself. */
static void synchronize(void *user)
{
    *(int32_t *)user = tn_device_synchronize(ctx, id);
}

Test(late_error, a_release_that_waits_for_its_device)
{
    int32_t status = -1;
    tni_kept *kept = tni_alloc(ctx, sizeof *kept);
    *kept = (tni_kept){.pointer = &status, .release = synchronize};
    tni_release_later(a, kept);
    cr_assert_eq(tn_device_synchronize(ctx, id), TN_OK);
    cr_assert_eq(status, TN_OK);
}

/* A stream for each step: what the others waited for does not grow with the steps. */
Test(late_error, streams_that_are_gone_are_not_remembered)
{
    for (int i = 0; i < 100; i++) {
        tn_stream *of_step = NULL;
        cr_assert_eq(tn_stream_create(ctx, id, 0, &of_step), TN_OK);
        cr_assert_eq(tn_stream_wait_stream(b, of_step), TN_OK);
        cr_assert_leq(b->late.waited.count, 1, "step %d", i);
        tn_stream_release(of_step);
    }
    cr_assert_eq(tn_stream_wait_stream(b, a), TN_OK);
    cr_assert_eq(b->late.waited.count, 1);
    cr_assert_eq(b->late.n_waited, 1);
}
