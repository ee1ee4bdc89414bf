/* SPDX-License-Identifier: Apache-2.0 */
/* What is refused of memory, events and queues that other processes and libraries have; pinned memory. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <tenon/interop.h>
#include <unistd.h>
#include "core/scope.h"
#include "fixture.h"

TestSuite(share, .init = open_fakes, .fini = close_fakes);

static tn_tensor *empty(tn_device device, tn_dtype dtype)
{
    const int64_t none = 0;
    tn_tensor *t = NULL;
    cr_assert_eq(tni_tensor_create(ctx, device, dtype, 1, &none, NULL, &t), TN_OK);
    return tni_scope_own(s, t);
}

static tn_device device(int index)
{
    return TN_DEVICE(tn_intern(ctx, "gpu"), index);
}

/* The same fixture, with devices that have all of it. */
static void open_sharing(void)
{
    gpu = (fake){
        .type = "gpu", .count = 2, .device_class = TN_DEVICE_DISCRETE, .has_interop = 1, .pins_pages = 1};
    ctx = fake_context(&cpu, &gpu);
    s = tn_scope_open(ctx);
}

TestSuite(sharing, .init = open_sharing, .fini = close_fakes);

/* ---- Devices that have none of it ------------------------------------------------------------------------ */

Test(share, a_device_without_the_interface)
{
    tn_process_handle handle = {.size = sizeof handle, .file = -1};
    tn_event *event = NULL;
    tn_stream *stream = NULL;
    cr_expect_null(tn_share(s, empty(device(0), TN_FLOAT32)));
    expect_scope(TN_E_UNSUPPORTED, "plugin fake has no memory that processes can share");
    REFUSED(tn_event_create(ctx, device(0), TN_EVENT_INTERPROCESS, &event), TN_E_UNSUPPORTED,
            "plugin fake has no events that other processes can wait for");
    REFUSED(tn_event_import(ctx, device(0), &handle, &event), TN_E_UNSUPPORTED,
            "plugin fake has no events of other processes");
    REFUSED(tn_stream_wrap(ctx, device(0), 7, &stream), TN_E_UNSUPPORTED,
            "tn_stream_wrap: plugin fake takes no queues of the program");
    cr_expect_null(tn_pin_memory(s, empty(TN_CPU, TN_FLOAT32), device(1)));
    expect_scope(TN_E_UNSUPPORTED, "gpu:1 pins no memory of the host");
    cr_expect_null(tn_pin_memory(s, empty(TN_CPU, TN_FLOAT32), 0));
    expect_scope(TN_E_DEVICE, "argument 'pin_memory': there is no device that pins memory of the host");
    cr_expect_null(tn_pin_memory(s, empty(device(0), TN_FLOAT32), 0));
    expect_scope(TN_E_ARGUMENT, "cannot pin a tensor of gpu:0: only dense CPU tensors can be pinned");
}

/* The first device cannot be opened, the second pins nothing. */
Test(share, the_error_of_a_device_that_would_pin)
{
    gpu.fail_slot = 1;
    cr_expect_null(tn_pin_memory(s, empty(TN_CPU, TN_FLOAT32), 0));
    expect_scope(TN_E_DEVICE,
                 "argument 'pin_memory': there is no device that pins memory of the host: opening a "
                 "device failed: internal error");
}

Test(share, tensors_without_a_meaning_elsewhere)
{
    tn_shared_tensor out = {.size = sizeof out};
    cr_expect_null(tn_share(s, empty(TN_DEVICE(TN_INTERNED_META, 0), TN_FLOAT32)));
    expect_scope(TN_E_DEVICE, "tn_share: a meta tensor has no memory");
    tn_tensor *own = empty(TN_CPU, TN_FLOAT32);
    own->desc.dtype |= 0x7000;
    cr_expect_null(tn_share(s, own));
    cr_expect_not_null(strstr(tn_scope_error(s)->message, "has no meaning in another process"), "%s",
                       tn_scope_error(s)->message);
    tn_scope_clear(s);
    own->desc.dtype = TN_FLOAT32;
    cr_expect_null(tn_share(s, NULL));
    expect_scope(TN_E_ARGUMENT, "a tensor is missing");
    REFUSED(tn_share_export(own, &out), TN_E_STATE,
            "tn_share_export: the tensor's memory cannot be shared; tn_share makes a copy");
    REFUSED(tn_share_export(NULL, &out), TN_E_ARGUMENT, "a tensor is missing");
}

/* ---- Memory ---------------------------------------------------------------------------------------------- */

Test(sharing, memory_of_another_process_is_not_given_on)
{
    tn_shared_tensor shared = {.size = sizeof shared};
    tn_tensor *ours = tn_share(s, empty(device(0), TN_FLOAT32));
    cr_assert_eq(tn_share_export(ours, &shared), TN_OK);
    tn_tensor *theirs = tn_share_import(s, &shared);
    cr_assert_eq(fake_address(theirs), fake_address(ours));
    REFUSED(tn_share_export(theirs, &shared), TN_E_STATE,
            "tn_share_export: the memory is of another process, which exports it");
    shared.memory.bytes = 1 << 20; /* more than there is */
    cr_expect_null(tn_share_import(s, &shared));
    expect_scope(TN_E_CONTRACT, "plugin fake: interop.import_memory gave 1 bytes (asked for 1048576)");
}

Test(sharing, pages_are_pinned_once)
{
    tn_tensor *t = empty(TN_CPU, TN_FLOAT32), *pinned = tn_pin_memory(s, t, 0);
    cr_assert_not_null(pinned);
    cr_expect_eq(tn_is_pinned(t), 0);
    cr_expect_eq(tn_is_pinned(pinned), 1);
    cr_expect_eq(tn_pin_memory(s, pinned, device(0)), pinned);
    cr_expect_eq(tn_is_pinned(NULL), 0);
}

/* ---- Events and queues ------------------------------------------------------------------------------------ */

Test(sharing, events_and_queues)
{
    tn_process_handle handle = {.size = sizeof handle};
    tn_event *event = NULL, *plain = NULL, *theirs = NULL;
    tn_stream *stream = NULL, *current = tn_stream_current(ctx, device(0));
    int ends[2];
    const char *not_ours = "tn_event_export: the event was not made here with TN_EVENT_INTERPROCESS";
    REFUSED(
        tn_stream_wrap(ctx, device(1), 0, &stream), TN_E_ARGUMENT,
        "tn_stream_wrap: argument 'native': not a queue of gpu:1: wrapping a stream failed: bad argument");
    cr_assert_eq(tn_event_create(ctx, device(0), 0, &plain), TN_OK);
    REFUSED(tn_event_export(plain, &handle), TN_E_STATE, not_ours);
    REFUSED(tn_event_export(NULL, &handle), TN_E_ARGUMENT, "an event is missing");
    cr_assert_eq(tn_event_create(ctx, device(0), TN_EVENT_INTERPROCESS, &event), TN_OK);
    cr_assert_eq(tn_event_record(event, current), TN_OK);
    cr_assert_eq(tn_event_export(event, &handle), TN_OK);
    cr_assert_eq(tn_event_import(ctx, device(0), &handle, &theirs), TN_OK);
    REFUSED(tn_event_export(theirs, &handle), TN_E_STATE, not_ours);
    REFUSED(tn_event_record(theirs, current), TN_E_STATE,
            "an event of another process is recorded there (tn_event_import)");
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    REFUSED(tn_share_send(ends[0], tn_share(s, empty(device(1), TN_FLOAT32)), event), TN_E_DEVICE,
            "tn_share_send: the event is of another device than the tensor");
    close(ends[0]);
    close(ends[1]);
    tn_event_release(event);
    tn_event_release(plain);
    tn_event_release(theirs);
}

/* ---- Sockets ------------------------------------------------------------------------------------------------ */

/* Sends bytes with so many files. */
static void send_raw(int socket, const void *bytes, size_t count, int n_files)
{
    const int files[4] = {0, 0, 0, 0};
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof files)] = {0};
    struct iovec part = {(void *)(uintptr_t)bytes, count};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (n_files) {
        header.msg_control = room;
        header.msg_controllen = CMSG_SPACE((size_t)n_files * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&header);
        *c = (struct cmsghdr){.cmsg_len = CMSG_LEN((size_t)n_files * sizeof(int)),
                              .cmsg_level = SOL_SOCKET,
                              .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(c), files, (size_t)n_files * sizeof(int));
    }
    cr_assert_eq(sendmsg(socket, &header, 0), (ssize_t)count);
}

static int free_file(void)
{
    int file = dup(0);
    close(file);
    return file;
}

Test(share, files_that_are_too_many_or_too_few)
{
    char message[4096];
    int ends[2], between[2], file = free_file();
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, between), 0);
    tn_tensor *t = tn_share(s, empty(TN_CPU, TN_FLOAT32));
    for (int n_files = 0; n_files < 4; n_files++) {
        char expected[128];
        if (n_files == 1) continue; /* as it should be, but for the file itself */
        cr_assert_eq(tn_share_send(between[0], t, NULL), TN_OK);
        ssize_t bytes = read(between[1], message, sizeof message); /* the file that came along is closed */
        cr_assert_gt(bytes, 100);
        send_raw(ends[0], message, (size_t)bytes, n_files);
        cr_expect_null(tn_share_receive(s, ends[1], NULL));
        if (n_files)
            snprintf(expected, sizeof expected, "tn_share_receive: %d files came, not 1",
                     n_files > 2 ? 2 : n_files);
        else
            strcpy(expected, "memory of another process: the file descriptor -1 is not open");
        expect_scope(n_files ? TN_E_IO : TN_E_ARGUMENT, expected);
    }
    memset(message + 8, 1, 4); /* of another length: another version */
    send_raw(ends[0], message, 12, 0);
    cr_expect_null(tn_share_receive(s, ends[1], NULL));
    expect_scope(TN_E_VERSION, "tn_share_receive: what came is not a tensor of this version of the library");
    close(ends[1]);
    REFUSED(tn_share_send(ends[0], t, NULL), TN_E_IO, "tn_share_send: the socket: Broken pipe");
    close(ends[0]);
    close(between[0]);
    close(between[1]);
    cr_expect_eq(free_file(), file, "a file is left open");
}
