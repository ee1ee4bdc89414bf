/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin that `tenon new-plugin --memory opaque` writes, in what makes it opaque and asynchronous. A host
 * callback that waits for the test holds a stream back, so what must be unfinished is. Its arithmetic is tested
 * by acme.c.
 */
#include "fixture.h"
#include "slots.h"
#include "../core/gate.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <string.h>

/* Holds the stream back until the gate opens. */
static void close_gate(fixture *f, gate *g)
{
    gate_init(g);
    cr_assert_eq(f->streams->host_callback(f->self, f->device, f->stream, gate_wait, g), TN_OK);
}

static int is_done(fixture *f, void *stream)
{
    int32_t done = -1;
    cr_assert_eq(f->streams->query(f->self, f->device, stream, &done), TN_OK);
    return done;
}

static int32_t synchronize(fixture *f, void *stream)
{
    return f->streams->synchronize(f->self, f->device, stream);
}

Test(acme_opaque, memory_has_no_address_for_the_host)
{
    fixture f;
    void *allocation = NULL, *host = &f;
    fixture_open(&f);
    cr_assert_eq(slot_alloc(f.memory, f.self, f.device, 64, TN_MEMORY_DEVICE, &allocation, &host), TN_OK);
    cr_assert_not_null(allocation);
    cr_assert_null(host);
    slot_free(f.memory, f.self, f.device, allocation, 64);
    fixture_close(&f);
}

Test(acme_opaque, work_is_later_in_order_and_on_another_thread)
{
    const int64_t sizes[] = {2};
    float back[2] = {7, 7};
    fixture f;
    gate g;
    fixture_open(&f);
    fixture_tensor t = fixture_tensor_make(&f, TN_FLOAT32, 1, sizes, (float[]){1, 2});
    cr_assert_eq(synchronize(&f, f.stream), TN_OK);
    close_gate(&f, &g);
    tn_value out = fixture_value(&t), args[] = {out, tn_value_float(5)};
    cr_assert_eq(fixture_run(&f, "prim::fill", args, 2, &out, 1, NULL), TN_OK);
    args[1] = tn_value_float(-1); /* the call was borrowed until the kernel returned: a copy is queued */
    cr_assert_eq(f.copy->device_to_host(f.self, f.device, back, NULL, t.desc.allocation, 0, 8, f.stream),
                 TN_OK);
    cr_assert_eq(is_done(&f, f.stream), 0);
    cr_assert_eq(back[0], 7);
    gate_open(&g);
    cr_assert_eq(synchronize(&f, f.stream), TN_OK);
    cr_assert_eq(is_done(&f, f.stream), 1);
    cr_assert_arr_eq(back, ((float[]){5, 5}), 8);
    cr_assert(!pthread_equal(g.passed_by, pthread_self()));
    fixture_close(&f);
}

Test(acme_opaque, an_error_is_late_drops_what_is_behind_it_and_is_reported_once)
{
    const int64_t sizes[] = {2}, outside[] = {0, 9};
    float back[2];
    fixture f;
    gate g, behind;
    fixture_open(&f);
    fixture_tensor t = fixture_tensor_make(&f, TN_FLOAT32, 1, sizes, (float[]){1, 2});
    fixture_tensor index = fixture_tensor_make(&f, TN_INT64, 1, sizes, outside);
    cr_assert_eq(synchronize(&f, f.stream), TN_OK);
    close_gate(&f, &g);
    tn_value out = fixture_value(&t), fill[] = {out, tn_value_float(5)};
    tn_value scatter[] = {out, tn_value_int(0), fixture_value(&index), tn_value_float(3)};
    cr_assert_eq(fixture_run(&f, "aten::scatter_.value", scatter, 4, &out, 1, NULL), TN_OK);
    cr_assert_eq(fixture_run(&f, "prim::fill", fill, 2, &out, 1, NULL), TN_OK);
    close_gate(&f, &behind); /* callbacks run after an error, too */
    gate_open(&behind);
    gate_open(&g);
    f.error_message[0] = 0;
    cr_assert_eq(synchronize(&f, f.stream), TN_E_INDEX);
    cr_assert_str_eq(f.error_message, "scatter: argument 'index' is out of bounds");
    cr_assert_eq(behind.calls, 1);
    cr_assert_eq(synchronize(&f, f.stream), TN_OK);
    cr_assert_eq(fixture_read(&f, &t, back), TN_OK);
    cr_assert_neq(back[1], 5, "the fill behind the error was dropped");
    cr_assert_eq(fixture_run(&f, "prim::fill", fill, 2, &out, 1, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &t, back), TN_OK);
    cr_assert_arr_eq(back, ((float[]){5, 5}), 8);
    fixture_close(&f);
}

/* A query reports the error while later work is still held back. That work is dropped, too. */
Test(acme_opaque, work_behind_a_reported_error_is_dropped)
{
    const int64_t sizes[] = {2}, outside[] = {0, 9};
    float back[2];
    int32_t done, status = TN_OK;
    fixture f;
    gate g;
    fixture_open(&f);
    fixture_tensor t = fixture_tensor_make(&f, TN_FLOAT32, 1, sizes, (float[]){1, 2});
    fixture_tensor index = fixture_tensor_make(&f, TN_INT64, 1, sizes, outside);
    tn_value out = fixture_value(&t), fill[] = {out, tn_value_float(5)};
    tn_value scatter[] = {out, tn_value_int(0), fixture_value(&index), tn_value_float(3)};
    cr_assert_eq(fixture_run(&f, "aten::scatter_.value", scatter, 4, &out, 1, NULL), TN_OK);
    close_gate(&f, &g);
    cr_assert_eq(fixture_run(&f, "prim::fill", fill, 2, &out, 1, NULL), TN_OK);
    while (!status) status = f.streams->query(f.self, f.device, f.stream, &done);
    cr_assert_eq(status, TN_E_INDEX);
    gate_open(&g);
    cr_assert_eq(fixture_read(&f, &t, back), TN_OK);
    cr_assert_neq(back[1], 5);
    fixture_close(&f);
}

/* nonzero needs its input when it is called, so it waits and reports an earlier error. */
Test(acme_opaque, nonzero_waits_and_reports)
{
    const int64_t sizes[] = {2}, outside[] = {0, 9};
    fixture f;
    fixture_open(&f);
    fixture_tensor t = fixture_tensor_make(&f, TN_FLOAT32, 1, sizes, (float[]){1, 2});
    fixture_tensor index = fixture_tensor_make(&f, TN_INT64, 1, sizes, outside);
    tn_value out = fixture_value(&t);
    tn_value scatter[] = {out, tn_value_int(0), fixture_value(&index), tn_value_float(3)};
    cr_assert_eq(fixture_run(&f, "aten::scatter_.value", scatter, 4, &out, 1, NULL), TN_OK);
    cr_assert_eq(fixture_run(&f, "aten::nonzero", scatter, 1, &out, 1, NULL), TN_E_INDEX);
    fixture_close(&f);
}

Test(acme_opaque, events_order_streams)
{
    void *event, *other;
    int32_t done = -1;
    fixture f;
    gate g;
    fixture_open(&f);
    cr_assert_eq(slot_stream(f.streams, f.self, f.device, 0, &other), TN_OK);
    cr_assert_eq(f.events->create(f.self, f.device, 0, &event), TN_OK);
    cr_assert_eq(f.events->query(f.self, f.device, event, &done), TN_OK);
    cr_assert_eq(done, 1, "never recorded");
    cr_assert_eq(f.streams->wait_event(f.self, f.device, other, event), TN_OK);
    cr_assert_eq(synchronize(&f, other), TN_OK);
    close_gate(&f, &g);
    cr_assert_eq(f.events->record(f.self, f.device, event, f.stream), TN_OK);
    cr_assert_eq(f.streams->wait_event(f.self, f.device, other, event), TN_OK);
    cr_assert_eq(f.events->query(f.self, f.device, event, &done), TN_OK);
    cr_assert_eq(done, 0);
    for (int i = 0; i < 2000; i++) { /* time for a stream that does not wait */
        cr_assert_eq(is_done(&f, other), 0);
        sched_yield();
    }
    gate_open(&g);
    cr_assert_eq(f.events->synchronize(f.self, f.device, event), TN_OK);
    cr_assert_eq(f.events->query(f.self, f.device, event, &done), TN_OK);
    cr_assert_eq(done, 1);
    f.events->destroy(f.self, f.device, event);
    cr_assert_eq(synchronize(&f, other), TN_OK);
    f.streams->destroy(f.self, f.device, other);
    cr_assert_eq(f.device_interface->synchronize(f.self, f.device), TN_OK);
    fixture_close(&f);
}

Test(acme_opaque, two_contexts_have_streams_of_their_own)
{
    fixture a, b;
    gate g;
    fixture_open(&a);
    fixture_open(&b);
    cr_assert_neq(a.self, b.self);
    close_gate(&a, &g);
    cr_assert_eq(is_done(&a, a.stream), 0);
    cr_assert_eq(b.device_interface->synchronize(b.self, b.device), TN_OK);
    gate_open(&g);
    fixture_close(&b);
    fixture_close(&a);
}
