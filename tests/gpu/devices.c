/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two devices of a plugin of the GPU family: copies and events between them. The driver for tests begins work late, and not
 * before the gate is open (late.h).
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include "../core/at_end.h"
#include "device_suite.h"
#include "gate_file.h"

static tn_device other;
static char gate_file[GATE_NAME];

static void open_devices(void)
{
    open_first(NULL, DEVICE, NO_TWINS);
    other = tn_device_parse(ctx, DEVICE ":1");
    s = tn_scope_open(ctx);
    expect_pair(tn_add_scalar(s, pair(device, 1, 2), 1), 2, 3); /* programs are compiled */
    expect_pair(tn_add_scalar(s, pair(other, 1, 2), 1), 2, 3);
    name_gate(gate_file);
    setenv("FAULTY_GATE", gate_file, 1);
    setenv("FAULTY_DELAY", "1", 1);
}

static void open_gate(void)
{
    unlink(gate_file);
}

static void close_gate(void)
{
    int file = open(gate_file, O_CREAT | O_WRONLY, 0600);
    cr_assert_geq(file, 0);
    close(file);
}

static void close_devices(void)
{
    open_gate();
    MUST_HOLD(!tn_scope_failed(s));
    close_device();
}
TestSuite(devices, .init = open_devices, .fini = close_devices,
          .timeout = 120); /* kernels are compiled, too */

static void good(int32_t status)
{
    cr_assert_eq(status, TN_OK, "%d: %s", status, tn_last_error() ? tn_last_error()->message : "");
}

static void expect_unfinished(tn_device on)
{
    cr_assert_eq(tn_stream_query(tn_stream_current(ctx, on)), 0, "the work should wait for the gate");
}

static uint64_t peers_of(tn_device d)
{
    tn_device_facts facts = {.size = sizeof facts};
    good(tn_device_get_facts(ctx, d, &facts));
    return facts.peers;
}

Test(devices, are_peers)
{
    cr_assert_eq(peers_of(device), 2);
    cr_assert_eq(peers_of(other), 1);
    expect_pair(tn_to_device(s, pair(device, 1, 2), other, TN_FLOAT32), 1, 2);
    expect_pair(tn_to_device(s, pair(other, 3, 4), device, TN_FLOAT32), 3, 4);
    tn_tensor *x = tn_arange(s, 1000, .dtype = TN_FLOAT32, .device = device);
    tn_tensor *part = tn_to_device(s, tn_slice(s, x, .start = 997, .end = 999), other, TN_FLOAT32);
    expect_pair(part, 997, 998);
}

/* The host does not wait: the copy comes after the work on the source, and what uses it after the copy. */
Test(devices, a_copy_comes_after_the_work_on_the_source)
{
    tn_tensor *x = pair(device, 1, 2);
    good(tn_device_synchronize(ctx, device));
    close_gate();
    tn_tensor *there = tn_to_device(s, tn_add_scalar(s, x, 1), other, TN_FLOAT32);
    tn_tensor *y = tn_mul_scalar(s, there, 10);
    expect_unfinished(device);
    expect_unfinished(other);
    open_gate();
    expect_pair(y, 20, 30);
}

/* The copy runs on the target's stream, and the source is written anew on its own. */
Test(devices, the_source_keeps_its_values_until_it_is_copied)
{
    tn_tensor *x = pair(device, 1, 2);
    good(tn_device_synchronize(ctx, device));
    setenv("FAULTY_DELAY", "40", 1); /* each command: the copy and, if it does not wait, the fill beside it */
    close_gate();
    tn_tensor *y = tn_to_device(s, x, other, TN_FLOAT32);
    tn_fill_scalar_(s, x, 7);
    open_gate();
    setenv("FAULTY_DELAY", "1", 1);
    expect_pair(x, 7, 7);
    expect_pair(y, 1, 2);
}

Test(devices, a_stream_waits_for_an_event_of_the_other_device)
{
    tn_event *event;
    tn_tensor *x = pair(device, 1, 2), *y = pair(other, 5, 6);
    tn_stream *target = tn_stream_current(ctx, other);
    good(tn_device_synchronize(ctx, device));
    good(tn_device_synchronize(ctx, other));
    good(tn_event_create(ctx, device, 0, &event));
    close_gate();
    tn_fill_scalar_(s, x, 3);
    good(tn_event_record(event, tn_stream_current(ctx, device)));
    good(tn_stream_wait_event(target, event));
    expect_unfinished(other); /* it has nothing to do but wait */
    open_gate();
    good(tn_stream_synchronize(target));
    cr_assert_eq(tn_event_query(event), 1, "the stream has not waited");
    tn_event_release(event);
    expect_pair(x, 3, 3);
    expect_pair(y, 5, 6);
}

/* Without peer access the copy goes through the host. */
Test(devices, that_are_no_peers)
{
    tn_scope_close(s);
    tn_context_destroy(ctx);
    setenv("FAULTY_NO_PEERS", "1", 1);
    open_first(NULL, DEVICE, NO_TWINS);
    other = tn_device_parse(ctx, DEVICE ":1");
    s = tn_scope_open(ctx);
    cr_assert_eq(peers_of(device), 0);
    cr_assert_eq(peers_of(other), 0);
    expect_pair(tn_to_device(s, tn_add_scalar(s, pair(device, 1, 2), 1), other, TN_FLOAT32), 2, 3);
}
