/* SPDX-License-Identifier: Apache-2.0 */
/* What other threads may do while one waits for a device, or asks for late errors: streams stay as long, and no capture begins. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <unistd.h>
#include "core/capture.h"
#include "fixture.h"
#include "gate.h"
#include "at_end.h"

static tn_device id;
static tni_device *d;
static tn_stream *a, *b;
static tn_graph *g;
static gate wait_gate;

static int32_t wait_at_the_gate(void *self, void *device)
{
    gate_wait(&wait_gate);
    return TN_OK;
}

static int32_t ask_at_the_gate(void *self, void *device, void *stream, int32_t *out_done)
{
    gate_wait(&wait_gate);
    *out_done = 1;
    return TN_OK;
}

static void open_device(void)
{
    open_full_fakes();
    gate_init(&wait_gate);
    id = tn_device_parse(ctx, "gpu:0");
    d = tni_device_get(ctx, id);
    cr_assert_eq(tn_stream_create(ctx, id, 0, &a), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, id, 0, &b), TN_OK);
    cr_assert_eq(tn_graph_create(ctx, id, &g), TN_OK);
}

static void close_device(void)
{
    d->type->driver.device.synchronize = NULL;
    tn_graph_release(g);
    tn_stream_release(a);
    tn_stream_release(b);
    close_fakes();
    MUST_HOLD(gpu.live_streams == 0);
}

TestSuite(device_wait, .init = open_device, .fini = close_device);

/* ---- Threads that have to wait for the one that waits ---------------------------------------------------- */

static void *wait_for_device(void *unused)
{
    cr_expect_eq(tn_device_synchronize(ctx, id), TN_OK);
    return NULL;
}

/* An event of the stream that is released: a wait for it asks the stream for errors. */
static void *wait_for_event(void *event)
{
    cr_expect_eq(tn_event_synchronize(event), TN_OK);
    return NULL;
}

static void *release_stream(void *unused)
{
    tn_stream_release(b);
    b = NULL;
    return NULL;
}

static void *begin_capture(void *unused)
{
    cr_expect_eq(tn_graph_capture_begin(g, a), TN_OK);
    return NULL;
}

static _Atomic int32_t calls; /* of the slot that must come later */

/* The thread's slot is called when the wait is over, which comes to the gate. */
static void expect_later_than(void *(*wait)(void *), void *of, void *(*work)(void *))
{
    pthread_t waiter, worker;
    tn_stream *another = NULL;
    pthread_create(&waiter, NULL, wait, of);
    sem_wait(&wait_gate.reached);
    pthread_create(&worker, NULL, work, NULL);
    usleep(50000); /* time to do wrong */
    cr_expect_eq(calls, 0);
    cr_expect_eq(tn_stream_create(ctx, id, 0, &another), TN_OK, "the wait holds no lock");
    gate_open(&wait_gate);
    pthread_join(waiter, NULL);
    pthread_join(worker, NULL);
    cr_expect_eq(calls, 1);
    tn_stream_release(another);
}

static void expect_later(void *(*work)(void *))
{
    d->type->driver.device.synchronize = wait_at_the_gate;
    expect_later_than(wait_for_device, NULL, work);
    d->type->driver.device.synchronize = NULL;
}

static void (*destroy_slot)(void *self, void *device, void *stream);
static void count_destroy(void *self, void *device, void *stream)
{
    calls++;
    destroy_slot(self, device, stream);
}

Test(device_wait, a_stream_is_destroyed_after_the_wait)
{
    destroy_slot = d->type->driver.stream.destroy;
    d->type->driver.stream.destroy = count_destroy;
    expect_later(release_stream);
}

/* A plugin may have to read the errors from the device: other threads are not stopped by that. */
Test(device_wait, a_stream_is_destroyed_after_the_question)
{
    tn_event *e = NULL;
    destroy_slot = d->type->driver.stream.destroy;
    d->type->driver.stream.destroy = count_destroy;
    d->type->driver.stream.query = ask_at_the_gate;
    cr_assert_eq(tn_event_create(ctx, id, 0, &e), TN_OK);
    cr_assert_eq(tn_event_record(e, b), TN_OK);
    expect_later_than(wait_for_event, e, release_stream);
    tn_event_release(e);
}

static int32_t (*begin_slot)(void *self, void *device, void *stream);
static int32_t count_begin(void *self, void *device, void *stream)
{
    calls++;
    return begin_slot(self, device, stream);
}

Test(device_wait, a_capture_begins_after_the_wait)
{
    begin_slot = d->type->driver.graph.begin;
    d->type->driver.graph.begin = count_begin;
    expect_later(begin_capture);
    cr_expect_eq(tn_graph_capture_end(g), TN_OK);
}

/* ---- Waits while a capture begins: a breach if the fake's stream captures and is waited for -------------- */

static int32_t begin_and_wait(void *self, void *device, void *stream)
{
    int32_t status = begin_slot(self, device, stream);
    cr_expect_eq(tni_device_wait(d), TN_OK);
    return status;
}

static int32_t (*event_slot)(void *self, void *device, void *stream, void *event);
static int32_t join_and_wait(void *self, void *device, void *stream, void *event)
{
    const int32_t before = gpu.synchronizes;
    int32_t status = event_slot(self, device, stream, event);
    cr_expect_eq(tni_device_wait(d), TN_OK);
    cr_expect_eq(gpu.synchronizes, before + 1, "the default stream is the only one that runs work");
    return status;
}

Test(device_wait, a_stream_that_begins_to_capture_is_not_waited_for)
{
    tn_event *e = NULL;
    tni_driver *driver = &d->type->driver;
    begin_slot = driver->graph.begin;
    event_slot = driver->stream.wait_event;
    driver->graph.begin = begin_and_wait;
    driver->stream.wait_event = join_and_wait;
    cr_assert_eq(tn_graph_capture_begin(g, a), TN_OK);
    cr_assert_eq(tn_event_create(ctx, id, 0, &e), TN_OK);
    cr_assert_eq(tn_event_record(e, a), TN_OK);
    cr_assert_eq(tn_stream_wait_event(b, e), TN_OK);
    cr_expect(tn_stream_is_capturing(b));
    cr_expect_eq(tn_graph_capture_end(g), TN_OK);
    cr_expect_not(tn_stream_is_capturing(b));
    tn_event_release(e);
    cr_expect_eq(gpu.breaches, 0);
}

Test(device_wait, captures_that_the_plugin_refuses)
{
    tn_event *e = NULL;
    gpu.fail_slot = 2; /* behind the wait for the stream */
    cr_assert_eq(tn_graph_capture_begin(g, a), TN_E_INTERNAL);
    cr_expect_not(tn_stream_is_capturing(a));
    cr_expect_eq(tn_device_synchronize(ctx, id), TN_OK);
    cr_assert_eq(tn_graph_capture_begin(g, a), TN_OK);
    cr_assert_eq(tn_event_create(ctx, id, 0, &e), TN_OK);
    cr_assert_eq(tn_event_record(e, a), TN_OK);
    gpu.fail_slot = 2;
    cr_assert_eq(tn_stream_wait_event(b, e), TN_E_INTERNAL);
    cr_expect_not(tn_stream_is_capturing(b));
    cr_expect_eq(tn_stream_synchronize(b), TN_OK, "it runs work");
    cr_assert_eq(tn_stream_wait_event(b, e), TN_OK, "it may join later");
    cr_expect(tn_stream_is_capturing(b));
    cr_expect_eq(tn_graph_capture_end(g), TN_OK);
    tn_event_release(e);
}
