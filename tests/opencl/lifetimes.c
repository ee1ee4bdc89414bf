/* SPDX-License-Identifier: Apache-2.0 */
/* Each object of OpenCL that the plugin makes or keeps is released, and once: faulty_icd.c counts those that live. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include "../behaviour/dlpack.h"
#include "../gpu/device_suite.h"

static int (*live)(void);
static atomic_int called;

static void open_device(void)
{
    open_tested_device();
    void *driver = dlopen("libfaulty_icd.so", RTLD_NOW | RTLD_NOLOAD);
    cr_assert_not_null(driver, "the driver of this test is not loaded");
    *(void **)(void *)&live = dlsym(driver, "faulty_live");
    cr_assert_not_null(live);
}

/* What each test ends with. */
static void expect_nothing_left(void)
{
    close_device();
    cr_assert_eq(live(), 0, "%d objects are left", live());
}
TestSuite(lifetimes, .init = open_device, .timeout = 60);

static void note_call(void *user)
{
    atomic_fetch_add(&called, 1);
}

/* A query of a stream that works puts a marker behind its work, in place of the one before. */
Test(lifetimes, markers_go_with_their_stream)
{
    tn_stream *stream;
    cr_assert_eq(tn_stream_create(ctx, device, 0, &stream), TN_OK);
    tn_stream_set_current(ctx, stream);
    tn_tensor *x = tn_ones(s, TN_INTS(1000), .dtype = TN_FLOAT32);
    setenv("FAULTY_UNASKED", "1", 1);
    for (int i = 0; i < 3; i++) {
        tn_add_scalar_(s, x, 1.0);
        cr_assert_geq(tn_stream_query(stream), 0);
    }
    unsetenv("FAULTY_UNASKED");
    cr_assert_eq(tn_stream_synchronize(stream), TN_OK);
    tn_stream_set_current(ctx, tn_stream_default(ctx, device));
    tn_stream_release(stream);
    expect_nothing_left();
}

Test(lifetimes, events_and_those_of_callbacks_go)
{
    tn_event *event;
    tn_stream *stream = tn_stream_current(ctx, device);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(tn_event_create(ctx, device, TN_EVENT_TIMING, &event), TN_OK);
        cr_assert_eq(tn_event_record(event, stream), TN_OK);
        cr_assert_eq(tn_stream_add_callback(stream, note_call, NULL), TN_OK);
        cr_assert_eq(tn_event_synchronize(event), TN_OK);
        tn_event_release(event);
    }
    cr_assert_eq(tn_stream_synchronize(stream), TN_OK);
    cr_assert_eq(atomic_load(&called), 3);
    expect_nothing_left();
}

Test(lifetimes, an_event_that_another_device_waits_for_goes)
{
    tn_event *event;
    tn_stream *there = tn_stream_current(ctx, tn_device_parse(ctx, "opencl:1"));
    cr_assert_not_null(there);
    cr_assert_eq(tn_event_create(ctx, device, 0, &event), TN_OK);
    cr_assert_eq(tn_event_record(event, tn_stream_current(ctx, device)), TN_OK);
    cr_assert_eq(tn_stream_wait_event(there, event), TN_OK);
    tn_event_release(event);
    cr_assert_eq(tn_stream_synchronize(there), TN_OK);
    expect_nothing_left();
}

/* The program's queue is here one of the plugin itself, which another stream has made. */
Test(lifetimes, queues_of_the_program_are_kept_and_left_to_it)
{
    tn_stream *made, *wrapped;
    uint64_t queue;
    cr_assert_eq(tn_stream_create(ctx, device, 0, &made), TN_OK);
    cr_assert_eq(tn_stream_native(made, &queue), TN_OK);
    const int before = live();
    cr_assert_eq(tn_stream_wrap(ctx, device, queue, &wrapped), TN_OK);
    cr_assert_gt(live(), before);
    tn_stream_release(wrapped);
    cr_assert_eq(live(), before);
    tn_stream_release(made);
    expect_nothing_left();
}

Test(lifetimes, buffers_of_others_are_kept_and_left_to_them)
{
    struct DLManagedTensorVersioned *c = NULL;
    tn_tensor *all = tn_from_data(s, TN_FLOAT32, TN_INTS(4), (float[]){1, 2, 3, 4}, device);
    cr_assert_eq(tn_to_dlpack(all, &c), TN_OK, "%s", tn_last_error()->message);
    const int before = live();
    tn_tensor *taken = tn_from_dlpack(s, c);
    cr_assert_not_null(taken);
    cr_assert_eq(live(), before + 1);
    tn_drop(s, taken);
    cr_assert_eq(live(), before);
    expect_nothing_left();
}
