/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and events of CUDA that two processes share; the second one is ../behaviour/partner.c, which uses cuda:0, too. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "../behaviour/partner.h"
#include "../gpu/device_suite.h"
#include "../gpu/gate_file.h"

static int ours; /* the end of the socket */
static pid_t child;

static void open_device(void)
{
    open_first(NULL, "cuda", NO_TWINS);
    s = tn_scope_open(ctx);
}
TestSuite(sharing, .init = open_device, .timeout = 120);

/* What each test ends with. */
static void finish(void)
{
    int (*live)(void);
    cr_assert_not(tn_scope_failed(s), "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    tn_scope_close(s);
    tn_context_destroy(ctx);
    *(void **)(void *)&live = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "cuda_test_live");
    cr_assert_eq(live(), 0, "%d objects are left", live());
}

static void start(const char *what, const char *more)
{
    child = start_with_socket(what, more, &ours);
}

static void good(int32_t status)
{
    cr_assert_eq(status, TN_OK, "%d: %s", status, tn_last_error() ? tn_last_error()->message : "");
}

static void expect_floats(tn_tensor *t, const float *want, int n)
{
    float got[16];
    good(tn_to_host(s, t, got, (uint64_t)n * sizeof *got));
    for (int i = 0; i < n; i++)
        cr_assert_eq(got[i], want[i], "element %d is %g instead of %g", i, (double)got[i], (double)want[i]);
}

/* ---- Memory ------------------------------------------------------------------------------------------------- */

Test(sharing, another_process_writes_to_our_tensors)
{
    start("double", NULL);
    const tn_device devices[] = {TN_CPU, device};
    for (int i = 0; i < 2; i++) {
        char byte = 0;
        tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(2, 3), ((float[]){1, 2, 3, 4, 5, 6}), devices[i]);
        tn_tensor *whole = tn_share(s, x);
        cr_assert_not_null(whole, "%s", tn_scope_error(s)->message);
        good(tn_share_send(ours, tn_select(s, whole, 1, 1), NULL));
        cr_assert_eq(read(ours, &byte, 1), 1);
        expect_floats(whole, (const float[]){1, 4, 3, 4, 10, 6}, 6);
        expect_floats(x, (const float[]){1, 2, 3, 4, 5, 6}, 6);
    }
    close(ours);
    expect_good(child);
    finish();
}

static uint64_t free_bytes(void)
{
    uint64_t available = 0, total = 0;
    good(tn_device_memory(ctx, device, &available, &total));
    return available;
}

Test(sharing, memory_is_the_devices_again_when_it_is_released)
{
    tn_tensor *x = tn_zeros(s, TN_INTS(1 << 20), .dtype = TN_FLOAT32, .device = device);
    const uint64_t before = free_bytes();
    tn_scope *inner = tn_scope_open(ctx);
    tn_tensor *whole = tn_share(inner, x);
    cr_assert_not_null(whole, "%s", tn_scope_error(inner)->message);
    cr_assert_leq(free_bytes(), before - (4 << 20));
    tn_scope_close(inner);
    good(tn_device_synchronize(ctx, device));
    good(tn_memory_empty_cache(ctx, device));
    cr_assert_geq(free_bytes(), before);
    finish();
}

/* The other device may read it, as memory of cuMemAlloc. */
Test(sharing, the_other_device_copies_it)
{
    tn_device other = tn_device_parse(ctx, "cuda:1");
    tn_tensor *first = tn_share(s, tn_full(s, TN_INTS(4), 3.0, .dtype = TN_FLOAT32, .device = device));
    expect_floats(tn_to_device(s, first, other, TN_FLOAT32), (const float[]){3, 3, 3, 3}, 4);
    tn_tensor *later = tn_share(s, tn_full(s, TN_INTS(4), 5.0, .dtype = TN_FLOAT32, .device = device));
    expect_floats(tn_to_device(s, later, other, TN_FLOAT32), (const float[]){5, 5, 5, 5}, 4);
    finish();
}

/* The contract: memory outlives the process that made it. */
Test(sharing, memory_of_a_process_that_has_ended)
{
    start("send", "cuda:0");
    tn_tensor *t = tn_share_receive(s, ours, NULL);
    cr_assert_not_null(t, "%s", tn_scope_error(s)->message);
    expect_good(child);
    expect_floats(t, (const float[]){1, 2, 3, 4}, 4);
    tn_add_scalar_(s, t, 1);
    expect_floats(tn_mul_scalar(s, t, 2), (const float[]){4, 6, 8, 10}, 4);
    close(ours);
    finish();
}

static void expect_no_import(const tn_shared_tensor *t, int32_t status, const char *words)
{
    tn_scope *inner = tn_scope_open(ctx);
    cr_assert_null(tn_share_import(inner, t));
    cr_assert_eq(tn_scope_failed(inner), status, "%s", tn_scope_error(inner)->message);
    cr_assert(strstr(tn_scope_error(inner)->message, words), "%s", tn_scope_error(inner)->message);
    tn_scope_close(inner);
}

Test(sharing, wrong_descriptors_are_refused)
{
    tn_shared_tensor t = {.size = sizeof t}, changed;
    tn_tensor *x = tn_share(s, tn_ones(s, TN_INTS(4), .dtype = TN_FLOAT32, .device = device));
    good(tn_share_export(x, &t));
    cr_assert_eq(t.memory.bytes, 64 << 10);
    tn_tensor *again = tn_share_import(s, &t); /* this process may open it, too */
    cr_assert_not_null(again, "%s", tn_scope_error(s)->message);
    tn_add_scalar_(s, x, 1);
    good(tn_device_synchronize(ctx, device));
    expect_floats(again, (const float[]){2, 2, 2, 2}, 4);
    changed = t;
    changed.memory.file = 1000;
    expect_no_import(&changed, TN_E_ARGUMENT, "the file descriptor 1000 is not open");
    changed.memory.file = memfd_create("something-else", MFD_CLOEXEC);
    expect_no_import(&changed, TN_E_ARGUMENT, "is not of memory of CUDA (CUDA_ERROR_INVALID_VALUE)");
    close(changed.memory.file);
    changed = t;
    changed.memory.bytes = 100;
    expect_no_import(&changed, TN_E_ARGUMENT, "memory of another process cannot have 100 bytes");
    changed.memory.bytes = 128 << 10;
    expect_no_import(&changed, TN_E_ARGUMENT, "the memory of another process has less than 131072 bytes");
    close(t.memory.file);
    finish();
}

/* ---- Events ------------------------------------------------------------------------------------------------- */

static int gate[2]; /* a pipe */

static void hold(void *user)
{
    char byte;
    if (read(gate[0], &byte, 1) != 1) abort();
}

/* Held work, and an event behind it: the other process waits for it on its stream. */
Test(sharing, another_process_waits_for_our_event)
{
    tn_event *event = NULL;
    char byte, gate_file[GATE_NAME], reached[GATE_NAME + 8];
    name_gate(gate_file);
    snprintf(reached, sizeof reached, "%s.reached", gate_file);
    /* It stays open: the driver of the other process says that it waits. */
    setenv("FAULTY_GATE", gate_file, 1);
    cr_assert_eq(pipe2(gate, O_CLOEXEC), 0);
    start("follow", NULL);
    tn_tensor *x = tn_share(s, tn_zeros(s, TN_INTS(2), .dtype = TN_FLOAT32, .device = device));
    tn_stream *stream = tn_stream_current(ctx, device);
    good(tn_device_synchronize(ctx, device));
    good(tn_event_create(ctx, device, TN_EVENT_INTERPROCESS, &event));
    cr_assert_eq(tn_event_query(event), 1);
    cr_assert_eq(read(ours, &byte, 1), 1); /* the other process is ready */
    for (int i = 0; i < 2; i++) {
        good(tn_stream_add_callback(stream, hold, NULL));
        tn_fill_scalar_(s, x, 7 + i);
        good(tn_event_record(event, stream));
        if (i) /* the second record of the event */
            cr_assert_eq(write(ours, "w", 1), 1);
        else
            good(tn_share_send(ours, x, event));
        struct pollfd answer = {.fd = ours, .events = POLLIN};
        while (access(reached, F_OK) != 0 && !poll(&answer, 1, 1)) continue;
        cr_assert_eq(unlink(reached), 0, "the other process has not waited");
        cr_assert_eq(tn_event_query(event), 0);
        cr_assert_eq(write(gate[1], "g", 1), 1);
        cr_assert_eq(read(ours, &byte, 1), 1);
        cr_assert_eq(tn_event_query(event), 1);
        expect_floats(x, i ? (const float[]){16, 16} : (const float[]){14, 14}, 2);
    }
    tn_event_release(event);
    close(ours);
    expect_good(child);
    finish();
}

/* In one process such an event does what others do. */
Test(sharing, events_order_streams_of_this_process)
{
    tn_event *event = NULL, *none = NULL;
    tn_stream *side = NULL, *home = tn_stream_current(ctx, device);
    tn_process_handle handle = {.size = sizeof handle};
    tn_tensor *x = tn_zeros(s, TN_INTS(2), .dtype = TN_FLOAT32, .device = device);
    cr_assert_eq(tn_event_create(ctx, device, TN_EVENT_INTERPROCESS | TN_EVENT_TIMING, &none),
                 TN_E_UNSUPPORTED);
    good(tn_event_create(ctx, device, TN_EVENT_INTERPROCESS, &event));
    good(tn_stream_create(ctx, device, 0, &side));
    good(tn_device_synchronize(ctx, device));
    setenv("FAULTY_UNASKED", "1", 1);
    for (int i = 0; i < 3; i++) {
        tn_add_scalar_(s, x, 1);
        good(tn_event_record(event, home));
        good(tn_stream_wait_event(side, event));
        tn_stream_set_current(ctx, side);
        tn_mul_scalar_(s, x, 2);
        good(tn_event_record(event, side));
        good(tn_stream_wait_event(home, event));
        tn_stream_set_current(ctx, home);
    }
    good(tn_event_synchronize(event));
    expect_floats(x, (const float[]){14, 14}, 2);
    memset(handle.id, 'x', sizeof handle.id);
    cr_assert_eq(tn_event_import(ctx, device, &handle, &none), TN_E_ARGUMENT);
    tn_stream_release(side);
    good(tn_event_export(event, &handle));
    tn_event_release(event);
    cr_assert_eq(tn_event_import(ctx, device, &handle, &none), TN_E_ARGUMENT);
    cr_assert(strstr(tn_last_error()->message, "the handle is not of an event of another process that lives"),
              "%s", tn_last_error()->message);
    finish();
}
