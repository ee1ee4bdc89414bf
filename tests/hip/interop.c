/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugin shares with HIP's other users: identity of devices, streams, addresses, the current device of a thread. */
#define __HIP_PLATFORM_AMD__ 1
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <hip/hip_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <tenon/tenon.h>
#include "../behaviour/dlpack.h"
#include "../cuda/second_device.h"
#include "../gpu/gate_file.h"

#define DL_ROCM 10

#define HIP(function) ((__typeof__(&function))(uintptr_t)dlsym(dlopen(LIBRARY, RTLD_NOW), #function))

static void open_device(void)
{
    open_both("hip");
}
TestSuite(interop, .init = open_device, .fini = close_device, .timeout = 60);

Test(interop, a_device_says_who_it_is)
{
    const tn_device_facts facts = expect_facts("gfx90a");
    cr_assert(facts.priority_high == -1 && facts.priority_low == 0);
}

Test(interop, the_current_device_of_the_program_stays)
{
    int now = -1;
    cr_assert_eq(HIP(hipSetDevice)(0), hipSuccess);
    expect_pair(tn_mul_scalar(s, pair(other, 3, 4), 2), 6, 8);
    cr_assert_eq(HIP(hipGetDevice)(&now), hipSuccess);
    cr_assert_eq(now, 0, "%d", now);
    cr_assert_eq(HIP(hipSetDevice)(1), hipSuccess);
    expect_pair(tn_mul_scalar(s, pair(device, 3, 4), 2), 6, 8);
    cr_assert_eq(HIP(hipGetDevice)(&now), hipSuccess);
    cr_assert_eq(now, 1, "%d", now);
}

Test(interop, memory_is_of_the_device_that_was_asked_for)
{
    struct DLManagedTensorVersioned *c = NULL;
    tn_tensor *t = pair(other, 1, 2);
    int ordinal = -1;
    cr_assert_eq(HIP(hipSetDevice)(0), hipSuccess);
    cr_assert_eq(tn_to_dlpack(t, &c), TN_OK, "%s", tn_last_error()->message);
    cr_assert_eq(c->tensor.device.type, DL_ROCM);
    cr_assert_eq(c->tensor.device.id, 1);
    cr_assert_eq(HIP(hipPointerGetAttribute)(&ordinal, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                             (char *)c->tensor.data + c->tensor.byte_offset),
                 hipSuccess);
    cr_assert_eq(ordinal, 1, "%d", ordinal);
    c->deleter(c);
}

Test(interop, a_stream_of_another_device_is_refused_and_the_programs_own_stays)
{
    hipStream_t made;
    tn_stream *stream;
    expect_pair(pair(device, 1, 2), 1, 2);
    cr_assert_eq(HIP(hipSetDevice)(0), hipSuccess);
    cr_assert_eq(HIP(hipStreamCreateWithPriority)(&made, hipStreamNonBlocking, 0), hipSuccess);
    cr_assert_eq(tn_stream_wrap(ctx, other, (uintptr_t)made, &stream), TN_E_ARGUMENT);
    cr_assert_eq(tn_stream_wrap(ctx, device, (uintptr_t)made, &stream), TN_OK, "%s",
                 tn_last_error()->message);
    cr_assert_eq(tn_stream_set_current(ctx, stream), TN_OK);
    expect_pair(tn_add(s, pair(device, 1, 2), pair(device, 3, 4)), 4, 6);
    tn_stream_set_current(ctx, tn_stream_default(ctx, device));
    tn_stream_release(stream);
    cr_assert_eq(HIP(hipStreamDestroy)(made), hipSuccess);
}

/* Newer programs call the default stream number 1, hipStreamLegacy. */
Test(interop, the_default_stream_has_two_numbers)
{
    for (uint64_t number = 0; number < 2; number++) expect_default_stream(number);
}

/* Another library on the same thread does not see an error that Tenon has handled. */
Test(interop, the_errors_of_the_plugin_are_its_own)
{
    setenv("HIP_TEST_ROOM", "1048576", 1);
    tn_zeros(s, TN_INTS(64 << 20), .dtype = TN_FLOAT32, .device = device);
    cr_assert_eq(tn_scope_failed(s), TN_E_OUT_OF_MEMORY);
    tn_scope_clear(s);
    unsetenv("HIP_TEST_ROOM");
    cr_assert_eq(HIP(hipGetLastError)(), hipSuccess);
    void *memory = NULL;
    cr_assert_neq(HIP(hipMalloc)(&memory, (size_t)1 << 50), hipSuccess);
    expect_pair(tn_mul_scalar(s, pair(device, 3, 4), 2), 6, 8);
    cr_assert_eq(HIP(hipGetLastError)(), hipErrorOutOfMemory, "an error of the program stays");
}

static atomic_int waits;

static void *wait_for_event(void *event)
{
    atomic_store(&waits, 1);
    return (void *)(intptr_t)tn_event_synchronize(event);
}

/* The work is behind a gate. The thread is given time to wait; whoever asks too early has the same answer. */
Test(interop, an_event_is_asked_while_another_thread_waits_for_it)
{
    char gate[GATE_NAME];
    tn_event *event = NULL;
    pthread_t thread;
    void *status = NULL;
    tn_tensor *x = pair(device, 1, 2);
    name_gate(gate);
    setenv("FAULTY_GATE", gate, 1);
    cr_assert_eq(tn_event_create(ctx, device, 0, &event), TN_OK);
    expect_pair(x, 1, 2);
    close(open(gate, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    tn_mul_scalar_(s, x, 2);
    cr_assert_eq(tn_event_record(event, tn_stream_current(ctx, device)), TN_OK);
    cr_assert_eq(pthread_create(&thread, NULL, wait_for_event, event), 0);
    while (!atomic_load(&waits)) usleep(100);
    for (int i = 0; i < 50; i++) {
        usleep(1000);
        cr_assert_eq(tn_event_query(event), 0);
    }
    unlink(gate);
    pthread_join(thread, &status);
    cr_assert_eq((intptr_t)status, TN_OK);
    cr_assert_eq(tn_event_query(event), 1);
    expect_pair(x, 2, 4);
    tn_event_release(event);
}

static void count(void *user)
{
    ++*(int *)user;
}

Test(interop, a_callback_runs_once)
{
    int calls = 0;
    tn_stream *stream = tn_stream_current(ctx, device);
    cr_assert_eq(tn_stream_add_callback(stream, count, &calls), TN_OK, "%s", tn_last_error()->message);
    cr_assert_eq(tn_stream_synchronize(stream), TN_OK);
    cr_assert_eq(calls, 1);
}
