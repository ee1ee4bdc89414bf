/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core with system calls and allocations of the C library that fail: errors that there is no memory for, threads
 * without memory of their own, files that cannot be read or written to the end.
 */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <tenon/interop.h>
#include <tenon/io.h>
#include <tenon/plugin.h>
#include <unistd.h>
#include "core/error.h"
#include "core/graph.h"
#include "core/log.h"
#include "core/scope.h"
#include "fake_driver.h"
#include "system_calls.h"
#include "at_end.h"

/* ---- Allocations of the C library ------------------------------------------------------------------------ */

static _Atomic int32_t allocations_left; /* until the one that fails; 0: none fails */
static _Atomic int32_t all_fail;
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
int __real_posix_memalign(void **out, size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes);

static int32_t allocation_fails(void)
{
    return all_fail || (allocations_left > 0 && --allocations_left == 0);
}

void *__wrap_malloc(size_t bytes)
{
    return allocation_fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return allocation_fails() ? NULL : __real_calloc(count, bytes);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes)
{
    return allocation_fails() ? ENOMEM : __real_posix_memalign(out, alignment, bytes);
}

/* ---- Errors ------------------------------------------------------------------------------------------------ */

static const char no_memory[] = "out of memory, also for the error itself";

/* The function returns its argument, on a thread of its own. */
static void expect_of_a_thread(void *(*function)(void *user))
{
    pthread_t thread;
    void *result = NULL;
    int token;
    cr_assert_eq(pthread_create(&thread, NULL, function, &token), 0);
    pthread_join(thread, &result);
    cr_assert_eq(result, &token);
}

static void *error_without_a_slot(void *user)
{
    all_fail = 1;
    const tn_error *none = tn_last_error();
    int32_t first = tni_error(TN_E_SHAPE, "one"), wrapped = tni_error_wrap(TN_E_DTYPE, "two");
    const tn_error *last = tn_last_error();
    tni_error_operator("aten::add"); /* nothing to name */
    tni_error_plugin("acme");
    tni_error_native(3, "text");
    tn_error *copy = tni_error_copy(), *placed = tni_error_extended(copy, "model.c", 3, "");
    int32_t good = !none && first == TN_E_SHAPE && wrapped == TN_E_DTYPE &&
                   last->code == TN_E_OUT_OF_MEMORY && !strcmp(last->message, no_memory) &&
                   !strcmp(copy->message, no_memory) && placed == copy;
    tn_error_release(copy);
    tni_error_restore(copy);
    tn_clear_error();
    good = good && !tn_last_error();
    all_fail = 0;
    tni_error(TN_E_SHAPE, "now %d", 1);
    return good && !strcmp(tn_last_error()->message, "now 1") ? user : NULL;
}

Test(failing_calls, errors_of_a_thread_without_memory)
{
    expect_of_a_thread(error_without_a_slot);
}

static void *error_of_a_thread_without_a_key(void *user)
{
    fail_system_call(1, ENOMEM); /* pthread_setspecific */
    tni_error(TN_E_SHAPE, "one");
    int32_t good = system_call_failed() && !strcmp(tn_last_error()->message, no_memory);
    tn_clear_error();
    return good ? user : NULL;
}

Test(failing_calls, a_thread_whose_memory_cannot_be_kept)
{
    expect_of_a_thread(error_of_a_thread_without_a_key);
}

Test(failing_calls, copies_of_errors)
{
    tn_clear_error();
    tn_error *copy = tni_error_copy();
    cr_assert_str_eq(copy->message, "unknown error");
    cr_assert_eq(copy->code, TN_E_INTERNAL);
    tn_error_release(copy);
    tni_error(TN_E_SHAPE, "sizes");
    all_fail = 1;
    copy = tni_error_copy();
    all_fail = 0;
    cr_assert_str_eq(copy->message, no_memory);
    tn_error_release(copy);
    copy = tni_error_copy();
    all_fail = 1;
    tn_error *placed = tni_error_extended(copy, "model.c", 7, ""); /* keeps what there is */
    all_fail = 0;
    cr_assert_eq(placed, copy);
    cr_assert_str_eq(placed->message, "sizes");
    placed = tni_error_extended(copy, "model.c", 7, "");
    cr_assert_str_eq(placed->message, "model.c:7: sizes");
    tn_clear_error();
    tni_error_restore(NULL);
    cr_assert_null(tn_last_error());
    tni_error_restore(placed);
    cr_assert_str_eq(tn_last_error()->message, "sizes");
    tni_error_restore(tn_last_error()); /* it is there already */
    cr_assert_str_eq(tn_last_error()->message, "sizes");
    tn_error_release(placed);
}

/* ---- Memory ------------------------------------------------------------------------------------------------ */

/* AddressSanitizer gives blocks no magazine, and ThreadSanitizer sets keys of its own. */
#if !TN_SANITIZER
static void *allocate_without_a_magazine(void *user)
{
    tn_context *ctx = user;
    void *blocks[8];
    int32_t good = 1;
    for (int n = 0; n < 8; n++) {
        if (n == 0) allocations_left = 1;        /* the magazine's */
        if (n == 1) fail_system_call(1, ENOMEM); /* pthread_setspecific */
        blocks[n] = tni_alloc(ctx, 48);
        good = good && blocks[n] && !allocations_left && (n != 1 || system_call_failed());
        if (blocks[n]) memset(blocks[n], n, 48);
    }
    for (int n = 0; n < 8; n++) {
        good = good && blocks[n] && ((char *)blocks[n])[47] == n;
        tni_free(ctx, blocks[n], 48);
    }
    return good ? user : NULL;
}

Test(failing_calls, a_thread_without_a_magazine_allocates_all_the_same)
{
    counting c = {0};
    tn_context_options options = {.size = sizeof options, .flags = TN_CONTEXT_NO_DISCOVERY};
    tn_context *ctx = NULL;
    pthread_t thread;
    void *result = NULL;
    options.allocator = counting_allocator(&c);
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
    cr_assert_eq(pthread_create(&thread, NULL, allocate_without_a_magazine, ctx), 0);
    pthread_join(thread, &result);
    cr_assert_eq(result, ctx);
    tn_context_destroy(ctx);
    cr_assert_eq(c.live, 0);
}
#endif

/* Current devices and streams are kept by the thread. */
static void *choose_without_memory(void *user)
{
    tn_context *ctx = user;
    tn_device device = tn_device_parse(ctx, "gpu:1");
    tn_stream *stream = NULL;
    int32_t good = tn_stream_create(ctx, device, 0, &stream) == TN_OK;
    tn_clear_error();
    all_fail = 1;
    good = good && tn_device_set_current(ctx, device) == TN_E_OUT_OF_MEMORY;
    good = good && tn_stream_set_current(ctx, stream) == TN_E_OUT_OF_MEMORY;
    all_fail = 0;
    good = good && tn_stream_current(ctx, device) == tn_stream_default(ctx, device);
    good = good && tn_device_set_current(ctx, device) == TN_OK && tn_device_current(ctx, "gpu") == 1;
    tn_stream_release(stream);
    return good ? user : NULL;
}

Test(failing_calls, a_thread_without_memory_for_its_current_device)
{
    fake gpu = {.type = "gpu", .count = 2, .device_class = TN_DEVICE_DISCRETE};
    tn_context *ctx = fake_context(NULL, &gpu);
    pthread_t thread;
    void *result = NULL;
    cr_assert_eq(pthread_create(&thread, NULL, choose_without_memory, ctx), 0);
    pthread_join(thread, &result);
    cr_assert_eq(result, ctx);
    tn_context_destroy(ctx);
}

static void count_release(void *pointer)
{
    ++*(int *)pointer;
}

/* Without a thread to wait on, the call itself waits and releases. */
Test(failing_calls, no_thread_for_releases)
{
    int released = 0;
    fake gpu = {.type = "gpu", .count = 1, .device_class = TN_DEVICE_DISCRETE};
    tn_context *ctx = fake_context(NULL, &gpu);
    tn_stream *stream = tn_stream_current(ctx, tn_device_parse(ctx, "gpu:0"));
    for (int i = 1; i < 3; i++) {
        tni_kept *kept = tni_alloc(ctx, sizeof *kept);
        *kept = (tni_kept){.pointer = &released, .release = count_release};
        fake_work(stream);
        if (i == 1) fail_system_call(1, EAGAIN);
        tni_release_later(stream, kept);
        cr_assert(i == 2 || system_call_failed());
        if (i == 2) fake_finish(stream);
        cr_assert_eq(tn_device_synchronize(ctx, tn_stream_device(stream)), TN_OK);
        cr_assert_eq(released, i);
    }
    tn_context_destroy(ctx);
}

Test(failing_calls, the_allocator_by_default)
{
    tn_context_options options = {.size = sizeof options, .flags = TN_CONTEXT_NO_DISCOVERY};
    tn_context *ctx = NULL;
    all_fail = 1;
    cr_assert_eq(tn_context_create(&options, &ctx), TN_E_OUT_OF_MEMORY);
    all_fail = 0;
    fail_system_call(1, EINVAL); /* sched_getaffinity: more cores than its set has room for */
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
    cr_assert(system_call_failed());
    tn_context_destroy(ctx);
}

/* ---- Files ------------------------------------------------------------------------------------------------- */

static char folder[] = "failing.XXXXXX", path[64];
static fake cpu;
static tn_context *ctx;

static void open_files(void)
{
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    ctx = fake_context(&cpu, NULL);
}

static void close_files(void)
{
    tn_context_destroy(ctx);
    unlink(path);
    MUST_HOLD(rmdir(folder) == 0); /* no file is left */
}

TestSuite(failing_files, .init = open_files, .fini = close_files);

static int32_t save(float value)
{
    const char *metadata[] = {"made by", "a test"};
    tn_scope *s = tn_scope_open(ctx);
    tn_named_tensor one = {"x", tn_from_data(s, TN_FLOAT32, TN_INTS(1), &value, TN_CPU)};
    cr_assert_not_null(one.tensor);
    int32_t status = tn_safetensors_save(s, path, &one, 1, metadata, 1);
    tn_scope_close(s);
    return status;
}

/* The value in the file, or the negative status. */
static double load(void)
{
    tn_safetensors *f = NULL;
    float value = 0;
    tn_scope *s = tn_scope_open(ctx);
    int32_t status = tn_safetensors_open(ctx, path, &f);
    tn_tensor *t = status ? NULL : tn_safetensors_get(s, f, "x", TN_CPU);
    if (!status) status = t ? tn_to_host(s, t, &value, sizeof value) : tn_scope_failed(s);
    tn_safetensors_close(f);
    tn_scope_close(s);
    return status ? -status : (double)value;
}

/* Whichever call fails, the file has the old value or the new one, and nothing lies beside it. */
Test(failing_files, saving)
{
    int32_t n = 1;
    cr_assert_eq(save(1), TN_OK);
    for (int32_t goes_on = 1; goes_on; n++) {
        fail_system_call(n, EIO);
        int32_t status = save(2);
        goes_on = system_call_failed();
        double value = load();
        cr_assert(value == 2 || (status && value == 1), "call %d: status %d, value %g", n, status, value);
        if (status) cr_assert_eq(status, TN_E_IO);
        cr_assert_eq(save(1), TN_OK);
    }
    cr_assert_gt(n, 8);
    for (int32_t k = 1; k < n; k++) { /* what is interrupted is made again, but for opening */
        fail_system_call(k, EINTR);
        int32_t status = save(2);
        (void)system_call_failed();
        cr_assert(load() == 2 || status == TN_E_IO, "call %d", k);
        cr_assert_eq(save(1), TN_OK);
    }
}

Test(failing_files, loading)
{
    int32_t n = 1, refused = 0;
    cr_assert_eq(save(3), TN_OK);
    for (int32_t goes_on = 1; goes_on; n++) {
        fail_system_call(n, EIO);
        double value = load();
        goes_on = system_call_failed();
        cr_assert(value == 3 || (goes_on && value == -TN_E_IO), "call %d: %g", n, value);
        refused += value != 3;
    }
    cr_assert_gt(refused, 3); /* closing may fail unnoticed */
    for (int32_t k = 1; k < n; k++) {
        fail_system_call(k, EINTR);
        double value = load();
        cr_assert(value == 3 || value == -TN_E_IO, "call %d: %g", k, value);
        fail_system_call(k, RETURNS_ZERO); /* the file ends */
        value = load();
        (void)system_call_failed();
        cr_assert(value == 3 || value < 0, "call %d: %g", k, value);
    }
}

/* ---- Memory that processes share ---------------------------------------------------------------------------- */

/* 1: an empty tensor went through the socket and came back. */
static int32_t send_and_receive(tn_scope *s, const int ends[2])
{
    const int64_t none = 0;
    tn_tensor *t = NULL;
    cr_assert_eq(tni_tensor_create(ctx, TN_CPU, TN_FLOAT32, 1, &none, NULL, &t), TN_OK);
    tn_tensor *ours = tn_share(s, tni_scope_own(s, t));
    if (!ours) return 0;
    if (tn_share_send(ends[0], ours, NULL)) {
        tni_scope_record(s, tn_last_error()->code);
        return 0;
    }
    tn_tensor *theirs = tn_share_receive(s, ends[1], NULL);
    if (theirs) *(char *)ours->desc.host = 5;
    return theirs && theirs->numel == 0 && *(char *)theirs->desc.host == 5;
}

/* Whichever call fails, the tensor arrives or the error names the call, and no file is left open. */
Test(failing_calls, shared_memory)
{
    static const char *const texts[] = {
        "memory of several processes: memfd_create: Input/output error",
        "memory of several processes: ftruncate: Input/output error",
        "memory of several processes: sealing the file: Input/output error",
        "memory of several processes: mmap: Input/output error",
        "memory of several processes: fstat: Input/output error",
        "memory of several processes: a second file descriptor: Input/output error",
        "tn_share_send: the socket: Input/output error",
        "tn_share_receive: the socket: Input/output error",
        "memory of another process: the file may be cut (it lacks F_SEAL_SHRINK)"};
    uint32_t seen = 0;
    ctx = fake_context(&cpu, NULL);
    int first = dup(0);
    close(first);
    for (int32_t n = 1, goes_on = 1; goes_on; n++) {
        int ends[2];
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        tn_scope *s = tn_scope_open(ctx);
        fail_system_call(n, EIO);
        int32_t arrived = send_and_receive(s, ends);
        goes_on = system_call_failed();
        if (!arrived) {
            cr_assert(tn_scope_failed(s), "call %d: no error", n);
            for (uint32_t i = 0; i < sizeof texts / sizeof *texts; i++)
                seen |= (uint32_t)!strcmp(tn_scope_error(s)->message, texts[i]) << i;
        }
        tn_scope_close(s);
        close(ends[0]);
        close(ends[1]);
        int next = dup(0);
        close(next);
        cr_expect_eq(next, first, "call %d: a file is left open", n);
    }
    cr_expect_eq(seen, (1u << sizeof texts / sizeof *texts) - 1, "not seen: 0x%x", seen);
    /* What is interrupted is made again. */
    for (int32_t n = 1, goes_on = 1, passed = 0; goes_on || !passed; n++) {
        int ends[2];
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        tn_scope *s = tn_scope_open(ctx);
        fail_system_call(n, EINTR);
        passed = send_and_receive(s, ends);
        goes_on = system_call_failed();
        const char *text = passed ? "" : tn_scope_error(s)->message;
        cr_expect_null(strstr(text, "the socket"), "%s", text);
        tn_scope_close(s);
        close(ends[0]);
        close(ends[1]);
    }
    tn_context_destroy(ctx);
}

static void *json_memory(size_t bytes)
{
    return allocation_fails() ? NULL : __real_malloc(bytes);
}

/* The JSON library allocates for itself: a file that cannot be described is not written. */
Test(failing_files, without_memory_for_the_header)
{
    cJSON_Hooks hooks = {json_memory, free};
    cr_assert_eq(save(4), TN_OK);
    cJSON_InitHooks(&hooks);
    int32_t status = TN_E_OUT_OF_MEMORY, n = 1;
    for (; status; n++) {
        tn_scope *s = tn_scope_open(ctx);
        float five = 5;
        const char *metadata[] = {"made by", "a test"};
        tn_named_tensor one = {"x", tn_from_data(s, TN_FLOAT32, TN_INTS(1), &five, TN_CPU)};
        allocations_left = n;
        status = tn_safetensors_save(s, path, &one, 1, metadata, 1);
        allocations_left = 0;
        tn_scope_close(s);
        cr_assert(status == TN_OK || status == TN_E_OUT_OF_MEMORY, "%d", status);
        cr_assert_eq(load(), status ? 4 : 5);
        cr_assert_lt(n, 200);
    }
    cr_assert_gt(n, 10);
    for (n = 1;; n++) {
        tn_safetensors *f = NULL;
        allocations_left = n;
        status = tn_safetensors_open(ctx, path, &f);
        int32_t all_were_made = allocations_left > 0;
        allocations_left = 0;
        tn_safetensors_close(f);
        if (all_were_made) break;
        cr_assert_neq(status, TN_OK);
    }
    cr_assert_eq(status, TN_OK);
    cJSON_InitHooks(NULL);
}
