/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and events that two processes share; the second one is partner.c. */
#include "partner.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <tenon/ops.h>
#include "reference.h"

typedef struct pair {
    side own;
    int socket;
    pid_t child;
} pair;

static pair open_pair(const char *what, const char *more)
{
    pair p;
    p.child = start_with_socket(what, more, &p.socket);
    p.own = open_side();
    return p;
}

static void close_pair(pair *p)
{
    close(p->socket);
    expect_good(p->child);
    close_side(&p->own);
}

/* ---- Both sides ---------------------------------------------------------------------------------------- */

Test(sharing, another_process_writes_to_our_tensors)
{
    pair p = open_pair("double", NULL);
    const tn_device devices[] = {TN_CPU, p.own.device};
    for (int i = 0; i < 2; i++) {
        char byte = 0;
        tn_tensor *x =
            tn_from_data(p.own.s, TN_FLOAT32, TN_INTS(2, 3), (float[]){1, 2, 3, 4, 5, 6}, devices[i]);
        tn_tensor *whole = tn_share(p.own.s, x);
        cr_assert_not_null(whole, "%s", tn_scope_error(p.own.s)->message);
        cr_assert_not(tn_tensor_is_alias(x, whole));
        cr_assert_eq(tn_share(p.own.s, whole), whole);
        tn_tensor *column = tn_select(p.own.s, whole, 1, 1);
        cr_assert_eq(tn_share_send(p.socket, column, NULL), TN_OK, "%s", tn_last_error()->message);
        cr_assert_eq(read(p.socket, &byte, 1), 1);
        expect_floats(p.own.s, whole, (float[]){1, 4, 3, 4, 10, 6}, 6);
        expect_floats(p.own.s, x, (float[]){1, 2, 3, 4, 5, 6}, 6);
    }
    close_pair(&p);
}

static void expect_sent(const char *device)
{
    pair p = open_pair("send", device);
    tn_tensor *t = tn_share_receive(p.own.s, p.socket, NULL);
    cr_assert_not_null(t, "%s", tn_scope_error(p.own.s)->message);
    int status;
    cr_assert_eq(waitpid(p.child, &status, 0), p.child); /* the exporter is gone */
    cr_assert_eq(status, 0);
    char name[32];
    cr_assert_str_eq(tn_device_format(p.own.ctx, tn_tensor_device(t), name, sizeof name), device);
    expect_floats(p.own.s, t, (float[]){1, 2, 3, 4}, 4);
    tn_add_scalar_(p.own.s, t, 1);
    expect_floats(p.own.s, t, (float[]){2, 3, 4, 5}, 4);
    cr_assert_null(tn_share_receive(p.own.s, p.socket, NULL));
    cr_assert_str_eq(tn_scope_error(p.own.s)->message,
                     "tn_share_receive: the other side has closed the socket");
    tn_scope_close(p.own.s);
    tn_context_destroy(p.own.ctx);
}

Test(sharing, memory_outlives_the_process_that_made_it)
{
    expect_sent("cpu");
    expect_sent("reference:0");
}

/* ---- Events -------------------------------------------------------------------------------------------- */

Test(sharing, a_stream_waits_for_an_event_of_another_process)
{
    pair p = open_pair("event", NULL);
    tn_event *event = NULL;
    tn_tensor *t = tn_share_receive(p.own.s, p.socket, &event);
    cr_assert_not_null(event);
    cr_assert_eq(tn_event_query(event), 0, "%s", tn_last_error() ? tn_last_error()->message : "");
    cr_assert_eq(write(p.socket, "r", 1), 1);
    cr_assert_eq(tn_stream_wait_event(tn_stream_current(p.own.ctx, p.own.device), event), TN_OK);
    expect_floats(p.own.s, tn_add_scalar(p.own.s, t, 1), (float[]){8, 8}, 2);
    cr_assert_eq(tn_event_query(event), 1);
    cr_assert_eq(tn_event_synchronize(event), TN_OK);
    cr_assert_eq(tn_event_record(event, tn_stream_current(p.own.ctx, p.own.device)), TN_E_STATE);
    cr_assert_eq(write(p.socket, "d", 1), 1);
    tn_event_release(event);
    close_pair(&p);
}

Test(sharing, waiting_for_a_process_that_is_killed_fails)
{
    pair p = open_pair("orphan", NULL);
    tn_event *event = NULL;
    cr_assert_not_null(tn_share_receive(p.own.s, p.socket, &event));
    cr_assert_eq(tn_stream_wait_event(tn_stream_current(p.own.ctx, p.own.device), event), TN_OK);
    cr_assert_eq(write(p.socket, "r", 1), 1);
    cr_assert_eq(tn_device_synchronize(p.own.ctx, p.own.device), TN_E_STATE);
    cr_assert(strstr(tn_last_error()->message, "the process that records an event has ended"), "%s",
              tn_last_error()->message);
    cr_assert_eq(tn_event_synchronize(event), TN_E_STATE);
    tn_event_release(event);
    int status;
    cr_assert_eq(waitpid(p.child, &status, 0), p.child);
    tn_scope_close(p.own.s);
    tn_context_destroy(p.own.ctx);
}

Test(sharing, events_for_this_process_alone_are_not_exported)
{
    tn_device device;
    tn_event *event, *other;
    tn_context *ctx = open_reference(&device);
    tn_process_handle handle = {.size = sizeof handle};
    cr_assert_eq(tn_event_create(ctx, device, 0, &event), TN_OK);
    cr_assert_eq(tn_event_export(event, &handle), TN_E_STATE);
    tn_event_release(event);
    cr_assert_eq(tn_event_create(ctx, TN_CPU, TN_EVENT_INTERPROCESS, &event), TN_E_UNSUPPORTED);
    handle.file = memfd_create("other", 0);
    cr_assert_eq(tn_event_import(ctx, device, &handle, &other), TN_E_ARGUMENT);
    close(handle.file);
    tn_context_destroy(ctx);
}

/* ---- What is wrong ------------------------------------------------------------------------------------- */

static void expect_no_import(tn_context *ctx, const tn_shared_tensor *t, const char *part)
{
    tn_scope *s = tn_scope_open(ctx);
    cr_assert_null(tn_share_import(s, t));
    cr_assert(strstr(tn_scope_error(s)->message, part), "%s", tn_scope_error(s)->message);
    tn_scope_close(s);
}

static void expect_refusals(tn_context *ctx, const tn_shared_tensor *good)
{
    tn_shared_tensor t = *good;
    int other = memfd_create("other", 0);
    t.memory.file = 1000;
    expect_no_import(ctx, &t, "the file descriptor 1000 is not open");
    t.memory.file = other;
    expect_no_import(ctx, &t, "is of another file");
    close(other);
    t = *good;
    t.memory.bytes = 1 << 20;
    expect_no_import(ctx, &t, "bytes, not 1048576");
    t = *good;
    t.sizes[0] = INT64_MAX / 2;
    expect_no_import(ctx, &t, "");
    t = *good;
    t.strides[0] = (int64_t)t.memory.bytes;
    expect_no_import(ctx, &t, "its elements do not fit");
    t = *good;
    t.storage_offset = UINT64_MAX;
    expect_no_import(ctx, &t, "its elements do not fit");
    t.storage_offset = INT64_MAX;
    expect_no_import(ctx, &t, "its elements do not fit");
    t.storage_offset = INT64_MAX / 2;
    expect_no_import(ctx, &t, "its elements do not fit");
    t = *good;
    t.sizes[1] = -1;
    expect_no_import(ctx, &t, "negative size or stride of dimension 1");
    t = *good;
    t.strides[0] = -4;
    expect_no_import(ctx, &t, "negative size or stride of dimension 0");
    t = *good;
    t.memory.bytes = UINT64_MAX;
    expect_no_import(ctx, &t, "bytes, not 18446744073709551615");
    t = *good;
    memset(t.device_type, 'x', sizeof t.device_type);
    expect_no_import(ctx, &t, "its description is damaged");
    t = *good;
    t.rank = 65;
    expect_no_import(ctx, &t, "its description is damaged");
    t = *good;
    t.dtype = 0x12345;
    expect_no_import(ctx, &t, "there is no dtype 0x12345");
    t = *good;
    strcpy(t.device_type, "nowhere");
    expect_no_import(ctx, &t, "nowhere");
}

/* Shared memory is the device's memory as any other: within the limit, and in the statistics. */
Test(sharing, shared_memory_counts)
{
    tn_device device;
    tn_context *ctx = open_reference(&device);
    tn_scope *s = tn_scope_open(ctx);
    tn_memory_stats before = {.size = sizeof before}, after = before;
    tn_tensor *t = tn_full(s, TN_INTS(1 << 20), 2, .dtype = TN_FLOAT32, .device = device);
    cr_assert_eq(tn_memory_get_stats(ctx, device, &before), TN_OK);
    tn_scope *inner = tn_scope_open_child(s, NULL);
    cr_assert_not_null(tn_share(inner, t));
    cr_assert_eq(tn_memory_get_stats(ctx, device, &after), TN_OK);
    cr_expect_eq(after.allocated_bytes, before.allocated_bytes + (4 << 20));
    cr_expect_eq(after.reserved_bytes, before.reserved_bytes + (4 << 20));
    tn_scope_close(inner);
    cr_assert_eq(tn_memory_get_stats(ctx, device, &after), TN_OK);
    cr_expect_eq(after.allocated_bytes, before.allocated_bytes);
    cr_expect_eq(after.reserved_bytes, before.reserved_bytes);
    cr_assert_eq(tn_memory_set_limit(ctx, device, before.reserved_bytes + (1 << 20)), TN_OK);
    cr_expect_null(tn_share(s, t));
    cr_expect_eq(tn_scope_error(s)->code, TN_E_OUT_OF_MEMORY);
    cr_expect_not_null(strstr(tn_scope_error(s)->message, "Tried to allocate 4.00 MiB."), "%s",
                       tn_scope_error(s)->message);
    tn_scope_close(s);
    tn_context_destroy(ctx);
}

Test(sharing, wrong_descriptions_are_refused)
{
    side a = open_side();
    const tn_device devices[] = {TN_CPU, a.device};
    for (int i = 0; i < 2; i++) {
        tn_shared_tensor good = {.size = sizeof good};
        tn_tensor *plain = tn_ones(a.s, TN_INTS(4, 4), .dtype = TN_FLOAT32, .device = devices[i]);
        cr_assert_eq(tn_share_export(plain, &good), TN_E_STATE);
        cr_assert_eq(tn_share_export(tn_share(a.s, plain), &good), TN_OK, "%s", tn_last_error()->message);
        cr_assert_eq(good.sizes[1], 4);
        cr_assert_not_null(tn_share_import(a.s, &good));
        expect_refusals(a.ctx, &good);
        close(good.memory.file);
    }
    close_side(&a);
}

/* A file that its owner could cut would end this process with a signal. */
Test(sharing, a_file_that_may_shrink_is_refused)
{
    side a = open_side();
    tn_shared_tensor t = {.size = sizeof t};
    struct {
        uint64_t device, inode;
    } id;
    struct stat facts;
    cr_assert_eq(
        tn_share_export(tn_share(a.s, tn_ones(a.s, TN_INTS(4), .dtype = TN_FLOAT32, .device = TN_CPU)), &t),
        TN_OK);
    close(t.memory.file);
    t.memory.file = memfd_create("loose", MFD_ALLOW_SEALING);
    cr_assert_eq(ftruncate(t.memory.file, 4096), 0);
    cr_assert_eq(fstat(t.memory.file, &facts), 0);
    id.device = facts.st_dev;
    id.inode = facts.st_ino;
    memcpy(t.memory.id, &id, sizeof id);
    expect_no_import(a.ctx, &t, "it lacks F_SEAL_SHRINK");
    close(t.memory.file);
    close_side(&a);
}

Test(sharing, what_is_not_a_tensor_is_refused_on_a_socket)
{
    tn_device device;
    int ends[2];
    tn_context *ctx = open_reference(&device);
    tn_scope *s = tn_scope_open(ctx);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    cr_assert_eq(write(ends[1], "GET / HTTP/1.1\r\n", 16), 16);
    cr_assert_null(tn_share_receive(s, ends[0], NULL));
    cr_assert_eq(tn_scope_error(s)->code, TN_E_VERSION);
    tn_scope_close(s);
    s = tn_scope_open(ctx);
    cr_assert_null(tn_share_receive(s, 1000, NULL));
    cr_assert_eq(tn_scope_error(s)->code, TN_E_IO);
    close(ends[0]);
    close(ends[1]);
    tn_scope_close(s);
    tn_context_destroy(ctx);
}
