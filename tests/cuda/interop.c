/* SPDX-License-Identifier: Apache-2.0 */
/* What the plugin shares with CUDA's other users: identity of devices, streams, addresses, the current context, processes. */
#include <criterion/criterion.h>
#include <cuda.h>
#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>
#include "../behaviour/dlpack.h"
#include "second_device.h"

#define DL_CUDA  2
#define NAME(x)  NAME_(x)
#define NAME_(x) #x

typedef struct DLManagedTensorVersioned capsule;

/* A function of libcuda.so.1, by the name that cuda.h gives it. */
#define CU(function) \
    ((__typeof__(&function))(uintptr_t)dlsym(dlopen("libcuda.so.1", RTLD_NOW), NAME(function)))

static void open_device(void)
{
    open_both("cuda");
}

TestSuite(interop, .init = open_device, .fini = close_device, .timeout = 60);

Test(interop, a_device_says_who_it_is)
{
    const tn_device_facts facts = expect_facts("sm_90");
    cr_assert(facts.priority_high < 0 && facts.priority_low == 0);
    cr_assert(facts.features & TN_FEATURE_FLOAT64);
}

Test(interop, the_default_stream_of_the_program_is_a_stream)
{
    expect_default_stream(0);
}

Test(interop, a_stream_of_another_device_is_refused_and_the_programs_own_stays)
{
    uint64_t context;
    CUstream made;
    CUcontext before;
    tn_stream *stream;
    pair(device, 1, 2);
    cr_assert_eq(tn_device_native(ctx, device, TN_NATIVE_CONTEXT, &context), TN_OK);
    CU(cuCtxPushCurrent)((CUcontext)(uintptr_t)context);
    cr_assert_eq(CU(cuStreamCreateWithPriority)(&made, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
    CU(cuCtxPopCurrent)(&before);
    cr_assert_eq(tn_stream_wrap(ctx, other, (uintptr_t)made, &stream), TN_E_ARGUMENT);
    cr_assert_eq(tn_stream_wrap(ctx, device, (uintptr_t)made, &stream), TN_OK);
    tn_stream_release(stream);
    cr_assert_eq(CU(cuStreamDestroy)(made), CUDA_SUCCESS);
}

Test(interop, the_programs_context_stays_current)
{
    uint64_t context;
    CUcontext now = NULL;
    expect_pair(pair(other, 1, 2), 1, 2);
    cr_assert_eq(CU(cuCtxGetCurrent)(&now), CUDA_SUCCESS);
    cr_assert_null(now, "the plugin left a context");
    cr_assert_eq(tn_device_native(ctx, other, TN_NATIVE_CONTEXT, &context), TN_OK);
    CU(cuCtxPushCurrent)((CUcontext)(uintptr_t)context);
    expect_pair(tn_mul_scalar(s, pair(device, 3, 4), 2), 6, 8);
    cr_assert_eq(CU(cuCtxGetCurrent)(&now), CUDA_SUCCESS);
    cr_assert_eq(now, (CUcontext)(uintptr_t)context);
    CU(cuCtxPopCurrent)(&now);
}

Test(interop, dlpack_has_addresses_and_takes_one_inside_an_allocation)
{
    capsule *c = NULL;
    tn_tensor *all = tn_from_data(s, TN_FLOAT32, TN_INTS(4), (float[]){1, 2, 3, 4}, device);
    cr_assert_eq(tn_to_dlpack(all, &c), TN_OK, "%s", tn_last_error()->message);
    cr_assert_eq(c->tensor.device.type, DL_CUDA);
    c->tensor.data =
        (char *)c->tensor.data + c->tensor.byte_offset + 2 * sizeof(float); /* as other libraries do */
    c->tensor.byte_offset = 0;
    c->tensor.shape[0] = 2;
    tn_tensor *half = tn_from_dlpack(s, c);
    cr_assert_not_null(half, "%s", tn_scope_error(s)->message);
    tn_mul_scalar_(s, half, 10);
    expect_pair(half, 30, 40);
    expect_pair(tn_narrow(s, all, 0, 2, 2), 30, 40);
}

/* How many allocations, streams, events and modules there are. */
static int live(void)
{
    int (*counter)(void);
    *(void **)(void *)&counter = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuda_test_live");
    return counter();
}

static void use_events(void)
{
    tn_event *event;
    for (uint32_t i = 0; i < 8; i++) {
        cr_assert_eq(tn_event_create(ctx, device, i % 2 ? TN_EVENT_TIMING : 0, &event), TN_OK);
        cr_assert_eq(tn_event_record(event, tn_stream_current(ctx, device)), TN_OK);
        cr_assert_eq(tn_event_synchronize(event), TN_OK);
        tn_event_release(event);
    }
}

Test(interop, events_are_used_again_and_streams_go)
{
    tn_stream *stream;
    use_events();
    const int before = live();
    use_events();
    cr_assert_eq(live(), before);
    cr_assert_eq(tn_stream_create(ctx, device, 0, &stream), TN_OK);
    cr_assert_gt(live(), before);
    tn_stream_release(stream);
    cr_assert_eq(live(), before);
    close_device();
    cr_assert_eq(live(), 0, "%d objects are left", live());
}

/* Memory of another library, which is here the plugin's own, at the same address, taken twice. */
Test(interop, what_others_lent_is_not_freed)
{
    tn_tensor *taken[2], *all = pair(device, 1, 2);
    const int before = live();
    for (int i = 0; i < 2; i++) {
        capsule *c = NULL;
        cr_assert_eq(tn_to_dlpack(all, &c), TN_OK, "%s", tn_last_error()->message);
        taken[i] = tn_from_dlpack(s, c);
        cr_assert_not_null(taken[i], "%s", tn_scope_error(s)->message);
    }
    for (int i = 0; i < 2; i++) {
        tn_drop(s, taken[i]);
        cr_assert_eq(live(), before);
    }
    expect_pair(all, 1, 2);
}

/* Such an address is a fault in a kernel, and ends the context. */
Test(interop, dlpack_refuses_addresses_that_are_not_aligned_to_elements)
{
    static const struct {
        uint8_t code, bits;
        uint64_t offset;
        const char *says;
    } wrong[] = {{2, 32, 2, "elements of float32"}, /* kDLFloat */
                 {2, 64, 4, "elements of float64"},
                 {2, 16, 1, "elements of float16"},
                 {5, 64, 4, "elements of complex64"}, /* kDLComplex */
                 {5, 128, 4, "elements of complex128"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        capsule *c = NULL;
        cr_assert_eq(tn_to_dlpack(tn_zeros(s, TN_INTS(8), .dtype = TN_FLOAT64, .device = device), &c), TN_OK);
        c->tensor.dtype.code = wrong[i].code;
        c->tensor.dtype.bits = wrong[i].bits;
        c->tensor.data = (char *)c->tensor.data + c->tensor.byte_offset;
        c->tensor.byte_offset = wrong[i].offset;
        c->tensor.shape[0] = 2;
        cr_assert_null(tn_from_dlpack(s, c));
        cr_assert_eq(tn_scope_failed(s), TN_E_UNSUPPORTED, "%s", tn_scope_error(s)->message);
        cr_assert(strstr(tn_scope_error(s)->message, wrong[i].says), "%s", tn_scope_error(s)->message);
        tn_scope_clear(s);
    }
    capsule *c = NULL; /* parts of 8 bytes: kernels load each by itself */
    cr_assert_eq(tn_to_dlpack(tn_zeros(s, TN_INTS(8), .dtype = TN_FLOAT64, .device = device), &c), TN_OK);
    c->tensor.dtype.code = 5;
    c->tensor.dtype.bits = 128;
    c->tensor.byte_offset += 8;
    c->tensor.shape[0] = 2;
    cr_assert_not_null(tn_from_dlpack(s, c), "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
}

Test(interop, the_host_cannot_touch_device_memory)
{
    capsule *c = NULL;
    cr_assert_eq(tn_to_dlpack(pair(device, 1, 2), &c), TN_OK);
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    /* The kernel refuses to read from it. */
    cr_assert_eq(write(ends[1], (char *)c->tensor.data + c->tensor.byte_offset, 4), -1);
    c->deleter(c);
}

Test(interop, a_child_of_a_process_that_uses_cuda_is_told)
{
    pair(device, 1, 2);
    pid_t child = fork();
    if (!child) {
        tn_context *own;
        int status = tn_context_create(NULL, &own);
        if (!status && !(tn_device_choose(own, "cuda:0", NULL) & TN_DEVICE_MISSING)) status = 1;
        _exit(status);
    }
    int status = -1;
    waitpid(child, &status, 0);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d", status);
}
