/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events, with and without a plugin's event interface. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <unistd.h>
#include "core/graph.h"
#include "fake_driver.h"
#include "gate.h"

static fake gpu = {.type = "gpu", .count = 2, .device_class = TN_DEVICE_DISCRETE};
static tn_context *ctx;
static tn_device id; /* of gpu:0 */

static void open_gpu(void)
{
    ctx = fake_context(NULL, &gpu);
    id = tn_device_parse(ctx, "gpu:0");
}

static void close_gpu(void)
{
    tn_context_destroy(ctx);
    cr_assert_eq(gpu.breaches, 0);
}

Test(stream, current_and_default)
{
    open_gpu();
    tn_stream *s = NULL, *standard = tn_stream_default(ctx, id);
    cr_assert_eq(tn_stream_current(ctx, id), standard);
    cr_assert_eq(tn_stream_id(standard), 0);
    cr_assert_eq(tn_stream_create(ctx, id, -1, &s), TN_OK);
    cr_assert_eq(tn_stream_id(s), 1);
    cr_assert_eq(tn_stream_device(s), id);
    uint64_t native = 0;
    cr_assert_eq(tn_stream_native(s, &native), TN_OK);
    cr_assert_eq(native, (uint64_t)(uintptr_t)s->handle);
    cr_assert_eq(tn_stream_set_current(ctx, s), TN_OK);
    cr_assert_eq(tn_stream_current(ctx, id), s);
    cr_assert_neq(tn_stream_current(ctx, tn_device_parse(ctx, "gpu:1")), s);
    cr_assert_eq(tn_stream_set_current(ctx, standard), TN_OK);
    cr_assert_eq(tn_stream_current(ctx, id), standard);
    cr_assert_eq(tn_stream_create(ctx, id, 1, &s), TN_E_ARGUMENT);
    cr_assert_eq(tn_stream_create(ctx, id, -3, &s), TN_E_ARGUMENT);
    tn_stream_release(s);
    close_gpu();
    cr_assert_eq(gpu.live_streams, 0);
}

Test(stream, a_released_stream_is_current_no_more)
{
    open_gpu();
    tn_stream *s = NULL, *again = NULL;
    cr_assert_eq(tn_stream_create(ctx, id, 0, &s), TN_OK);
    tn_stream_set_current(ctx, s);
    fake_work(s);
    tn_stream_release(s); /* waits for its work */
    cr_assert_eq(tn_stream_current(ctx, id), tn_stream_default(ctx, id));
    cr_assert_eq(tn_stream_create(ctx, id, 0, &again), TN_OK);
    cr_assert_eq(tn_stream_id(again), 2);
    cr_assert_eq(tn_stream_current(ctx, id), tn_stream_default(ctx, id));
    tn_stream_release(again);
    close_gpu();
}

Test(stream, keeps_its_context)
{
    open_gpu();
    tn_stream *s = NULL;
    tn_event *e = NULL;
    cr_assert_eq(tn_stream_create(ctx, id, 0, &s), TN_OK);
    cr_assert_eq(tn_event_create(ctx, id, 0, &e), TN_OK);
    tn_context_destroy(ctx);
    cr_assert_eq(gpu.closed, 0);
    tn_stream_release(s);
    cr_assert_eq(gpu.closed, 0);
    tn_event_release(e);
    cr_assert_eq(gpu.closed, 1);
    cr_assert_eq(gpu.breaches, 0);
}

static void *read_current(void *user)
{
    tn_stream **pair = user;
    pair[1] = tn_stream_current(pair[0]->device->ctx, pair[0]->device->id);
    return NULL;
}

Test(stream, current_is_per_thread)
{
    open_gpu();
    tn_stream *pair[2] = {0};
    pthread_t thread;
    cr_assert_eq(tn_stream_create(ctx, id, 0, &pair[0]), TN_OK);
    tn_stream_set_current(ctx, pair[0]);
    pthread_create(&thread, NULL, read_current, pair);
    pthread_join(thread, NULL);
    cr_assert_eq(pair[1], tn_stream_default(ctx, id));
    tn_stream_release(pair[0]);
    close_gpu();
}

static void check_event(int32_t no_events)
{
    gpu.no_events = no_events;
    open_gpu();
    tn_stream *a = NULL, *b = NULL, *far = tn_stream_default(ctx, tn_device_parse(ctx, "gpu:1"));
    tn_event *e = NULL;
    cr_assert_eq(tn_stream_create(ctx, id, 0, &a), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, id, 0, &b), TN_OK);
    cr_assert_eq(tn_event_create(ctx, id, 0, &e), TN_OK);
    cr_assert_eq(tn_event_query(e), 1); /* nothing recorded */
    cr_assert_eq(tn_event_synchronize(e), TN_OK);
    fake_work(a);
    cr_assert_eq(tn_stream_query(a), 0);
    cr_assert_eq(tn_event_record(e, a), TN_OK);
    cr_assert_eq(tn_event_record(e, far), TN_E_DEVICE);
    cr_assert_eq(tn_event_query(e), 0);
    cr_assert_eq(tn_stream_wait_event(b, e), TN_OK);
    cr_assert_eq(gpu.waits, no_events ? 0 : 1);
    if (!no_events) cr_assert_eq(tn_event_query(e), 0, "the host did not wait");
    cr_assert_eq(tn_event_synchronize(e), TN_OK);
    cr_assert_eq(tn_event_query(e), 1);
    cr_assert_eq(tn_stream_query(a), 1);
    fake_work(a);
    cr_assert_eq(tn_stream_wait_stream(b, a), TN_OK);
    cr_assert_eq(tn_stream_query(a), no_events);
    fake_work(a);
    cr_assert_eq(tn_stream_wait_stream(far, a), TN_OK); /* another device of the plugin */
    cr_assert_eq(tn_stream_query(a), no_events);
    cr_assert_eq(gpu.waits, no_events ? 0 : 3);
    tn_event_release(e);
    tn_stream_release(a);
    tn_stream_release(b);
    close_gpu();
    cr_assert_eq(gpu.live_events, 0);
}

Test(stream, events_of_the_plugin)
{
    check_event(0);
}

Test(stream, events_without_the_plugin)
{
    check_event(1);
}

Test(stream, timing)
{
    fake cpu = {.type = "cpu", .count = 1, .no_events = 1};
    ctx = fake_context(&cpu, &gpu);
    const tn_device ids[2] = {tn_device_parse(ctx, "gpu:0"), TN_CPU};
    for (int i = 0; i < 2; i++) {
        tn_event *start = NULL, *end = NULL, *plain = NULL;
        double ms = -1;
        tn_stream *s = tn_stream_default(ctx, ids[i]);
        cr_assert_eq(tn_event_create(ctx, ids[i], TN_EVENT_TIMING, &start), TN_OK);
        cr_assert_eq(tn_event_create(ctx, ids[i], TN_EVENT_TIMING, &end), TN_OK);
        cr_assert_eq(tn_event_create(ctx, ids[i], 0, &plain), TN_OK);
        cr_assert_eq(tn_event_elapsed(start, end, &ms), TN_E_STATE);
        cr_assert_eq(tn_event_record(start, s), TN_OK);
        if (!i) fake_work(s), fake_work(s);
        cr_assert_eq(tn_event_record(end, s), TN_OK);
        cr_assert_eq(tn_event_record(plain, s), TN_OK);
        cr_assert_eq(tn_event_elapsed(start, end, &ms), TN_OK);
        if (i)
            cr_assert(ms >= 0 && ms < 1000);
        else
            cr_assert_eq(ms, 2.0);
        cr_assert_eq(tn_event_elapsed(start, plain, &ms), TN_E_STATE);
        cr_assert_eq(tn_event_create(ctx, ids[i], 8, &plain), TN_E_ARGUMENT);
        tn_event_release(start);
        tn_event_release(end);
        tn_event_release(plain);
        if (!i) fake_finish(s);
    }
    tn_context_destroy(ctx);
    cr_assert_eq(gpu.breaches + cpu.breaches, 0);
}

static void set(void *user)
{
    ++*(int32_t *)user;
}

/* Without the plugin's callbacks the host waits for the stream; a device that runs work at once has nothing to wait
 * for. */
Test(stream, callback_without_the_plugin)
{
    fake cpu = {0};
    ctx = fake_context(&cpu, &gpu);
    tn_stream *s = tn_stream_default(ctx, tn_device_parse(ctx, "gpu:0"));
    int32_t called = 0;
    fake_work(s);
    cr_assert_eq(tn_stream_query(s), 0);
    cr_assert_eq(tn_stream_add_callback(s, set, &called), TN_OK);
    cr_assert_eq(called, 1);
    cr_assert_eq(tn_stream_query(s), 1);
    cr_assert_eq(tn_stream_add_callback(tn_stream_default(ctx, TN_CPU), set, &called), TN_OK);
    cr_assert_eq(called, 2);
    cr_assert_eq(tn_stream_add_callback(s, NULL, &called), TN_E_ARGUMENT);
    cr_assert_eq(tn_stream_add_callback(NULL, set, &called), TN_E_ARGUMENT);
    cr_assert_eq(called, 2);
    tn_context_destroy(ctx);
}

static gate before_the_last;

static void release_tensor(void *pointer)
{
    gate_wait(&before_the_last);
    tn_release(pointer);
}

static tni_driver driver;
static pthread_t closed_by;

static void close_and_note(void *self, void *device)
{
    closed_by = pthread_self();
    driver.device.close(self, device);
}

/* A kernel keeps a tensor; the program lets go of all else before a thread of the device releases it. */
Test(stream, what_a_device_releases_last_ends_the_context, .timeout = 60)
{
    counting memory = {0};
    ctx = counted_context(&memory, &gpu);
    tni_device *d = tni_device_get(ctx, tn_device_parse(ctx, "gpu:0"));
    const int64_t sizes[] = {3};
    tn_tensor *t = NULL;
    driver = d->type->driver;
    d->type->driver.device.close = close_and_note;
    cr_assert_eq(tni_tensor_create(ctx, d->id, TN_FLOAT32, 1, sizes, NULL, &t), TN_OK);
    tni_kept *kept = tni_alloc(ctx, sizeof *kept);
    *kept = (tni_kept){.pointer = t, .release = release_tensor};
    gate_init(&before_the_last);
    tni_release_later(d->default_stream, kept);
    sem_wait(&before_the_last.reached);
    tn_context_destroy(ctx);
    cr_assert_eq(gpu.closed, 0);
    gate_open(&before_the_last);
    while (atomic_load(&memory.live)) usleep(1000);
    cr_assert_eq(gpu.closed, 1);
    cr_assert_eq(gpu.breaches, 0);
    cr_assert_not(pthread_equal(closed_by, before_the_last.passed_by), "the thread waited for itself");
}
