/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs of CUDA and of HIP: a captured step of training does what the same calls do one by one, dropout included; faults of captured
 * kernels belong to the stream of the launch; what cannot be captured says so. Tier 4 of the kit has the rest.
 */
#ifdef HIP
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>
#define VENDOR "HIP"
#else
#include <cuda.h>
#define DEVICE  "cuda"
#define VENDOR  "CUDA"
#define LIBRARY "libcuda.so.1"
#endif

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "demo.h"
#include "../gpu/device_suite.h"

#define BATCH 4
#define STEPS 4

/* A function of the driver's library, by the name that its header gives it. */
#define NAME(x)  NAME_(x)
#define NAME_(x) #x
#define OF_LIBRARY(function) \
    ((__typeof__(&function))(uintptr_t)dlsym(dlopen(LIBRARY, RTLD_NOW), NAME(function)))

static tn_stream *home, *side;
static tn_graph *graph;

static void open_device(void)
{
    open_first(NULL, DEVICE, NO_TWINS);
    s = scope_on_device();
    home = tn_stream_current(ctx, device);
    cr_assert_eq(tn_stream_create(ctx, device, 0, &side), TN_OK);
    cr_assert_eq(tn_graph_create(ctx, device, &graph), TN_OK, "%s", tn_last_error()->message);
}

static void close_graph(void)
{
    tn_graph_release(graph);
    tn_stream_release(side);
    close_device();
}
TestSuite(graphs, .init = open_device, .fini = close_graph, .timeout = 300);

static void begin(void)
{
    cr_assert_eq(tn_stream_wait_stream(side, home), TN_OK);
    tn_stream_set_current(ctx, side);
    cr_assert_eq(tn_graph_capture_begin(graph, side), TN_OK, "%s", tn_last_error()->message);
}

static void end(void)
{
    cr_assert_not(tn_scope_failed(s), "%s", tn_scope_error(s) ? tn_scope_error(s)->message : "");
    cr_assert_eq(tn_graph_capture_end(graph), TN_OK, "%s", tn_last_error()->message);
    tn_stream_set_current(ctx, home);
}

/* ---- Training ------------------------------------------------------------------------------------------- */

/* The net of the demo with dropout in front. A batch is copied into `images` and `labels` before each step. */
typedef struct trainer {
    tn_module *net;
    tn_tensors parameters;
    tn_tensor *images, *labels, *loss;
} trainer;

static trainer make_trainer(void)
{
    trainer t = {0};
    tn_manual_seed(ctx, 5);
    t.net = model_create(ctx, device);
    cr_assert_not(tn_module_failed(t.net), "%s", tn_module_error(t.net));
    t.parameters = tn_module_parameters(s, t.net);
    t.images = tn_zeros(s, TN_INTS(BATCH, 1, 28, 28), .dtype = TN_FLOAT32);
    t.labels = tn_zeros(s, TN_INTS(BATCH), .dtype = TN_INT64);
    t.loss = tn_zeros(s, TN_INTS(1), .dtype = TN_FLOAT32);
    return t;
}

static void step(const trainer *t)
{
    tn_tensor *grads[16] = {NULL};
    cr_assert_leq(t->parameters.count, 16u);
    tn_tensor *logits = tn_module_forward(s, t->net, tn_dropout(s, t->images, 0.25, 1));
    tn_tensor *loss = tn_cross_entropy_loss(s, logits, t->labels);
    cr_assert_eq(tn_grad(s, (tn_tensors){&loss, 1}, t->parameters, NULL, grads), TN_OK, "%s",
                 tn_last_error() ? tn_last_error()->message : "");
    tn_scope *quiet = tn_scope_open_child(
        s, &(tn_scope_options){.size = sizeof(tn_scope_options), .grad_mode = TN_GRAD_OFF});
    for (uint32_t i = 0; i < t->parameters.count; i++)
        tn_sub_(quiet, t->parameters.data[i], tn_mul_scalar(quiet, grads[i], 0.05));
    tn_copy_(quiet, t->loss, tn_reshape(quiet, loss, TN_INTS(1)));
    cr_assert_eq(tn_scope_close(quiet), TN_OK);
}

static void load_batch(const trainer *t, int number)
{
    float images[BATCH * 28 * 28];
    int64_t labels[BATCH];
    for (int i = 0; i < BATCH * 28 * 28; i++)
        images[i] = (float)((i * 37 + number * 11) % 101) / 50.0f - 1.0f;
    for (int i = 0; i < BATCH; i++) labels[i] = (i + number) % CLASSES;
    tn_copy_(s, t->images, tn_from_data(s, TN_FLOAT32, TN_INTS(BATCH, 1, 28, 28), images, TN_CPU));
    tn_copy_(s, t->labels, tn_from_data(s, TN_INT64, TN_INTS(BATCH), labels, TN_CPU));
}

Test(graphs, a_captured_step_with_dropout_trains_as_the_calls_do)
{
    float eager[STEPS], replayed[STEPS];
    trainer a = make_trainer(), b = make_trainer();
    tn_manual_seed(ctx, 9);
    for (int i = 0; i < STEPS; i++) {
        load_batch(&a, i);
        step(&a);
        cr_assert_eq(tn_to_host(s, a.loss, &eager[i], sizeof *eager), TN_OK);
    }
    cr_assert(eager[0] != eager[1] && eager[0] > 0.5f, "%g, %g", (double)eager[0], (double)eager[1]);
    load_batch(&b, 0);
    begin();
    step(&b);
    end();
    tn_manual_seed(ctx, 9);
    for (int i = 0; i < STEPS; i++) {
        load_batch(&b, i);
        cr_assert_eq(tn_graph_replay(graph), TN_OK, "%s", tn_last_error()->message);
        cr_assert_eq(tn_to_host(s, b.loss, &replayed[i], sizeof *replayed), TN_OK);
        cr_assert_eq(replayed[i], eager[i], "step %d: the loss is %.9g, by single calls %.9g", i,
                     (double)replayed[i], (double)eager[i]);
    }
    for (uint32_t k = 0; k < a.parameters.count; k++)
        cr_assert(tn_equal(s, a.parameters.data[k], b.parameters.data[k]), "parameter %u", k);
    tn_module_destroy(a.net);
    tn_module_destroy(b.net);
}

/* An update to other tensors and scalars changes the executable, one to other operations makes a new one. */
Test(graphs, an_update_does_the_work_of_the_other_graph)
{
    tn_graph *next = NULL, *first = graph;
    tn_tensor *x = tn_ones(s, TN_INTS(3), .dtype = TN_FLOAT32),
              *y = tn_ones(s, TN_INTS(3), .dtype = TN_FLOAT32);
    cr_assert_eq(tn_graph_create(ctx, device, &next), TN_OK);
    begin();
    tn_add_scalar_(s, x, 1.0);
    end();
    cr_assert_eq(tn_graph_replay(first), TN_OK);
    for (int calls = 1; calls <= 2; calls++) {
        graph = next;
        begin();
        for (int i = 0; i < calls; i++) tn_add_scalar_(s, y, 10.0);
        end();
        graph = first;
        cr_assert_eq(tn_graph_update(first, next), TN_OK, "%s", tn_last_error()->message);
        cr_assert_eq(tn_graph_replay(first), TN_OK);
        cr_assert_eq(tn_item_double(s, tn_select(s, x, 0, 0)), 2);
        cr_assert_eq(tn_item_double(s, tn_select(s, y, 0, 0)), calls == 1 ? 11 : 31);
    }
    tn_graph_release(next);
}

/* What x held goes to y, and what y held to z, by copies: kernels that look for faults are in order anyhow. Work of the other
 * stream does not begin before somebody waits for it. */
Test(graphs, launches_on_two_streams_run_one_after_the_other)
{
    float got = 0;
    tn_tensor *x = tn_ones(s, TN_INTS(1), .dtype = TN_FLOAT32), *y = tn_zeros_like(s, x),
              *z = tn_zeros_like(s, x);
    begin();
    tn_copy_(s, z, y);
    tn_copy_(s, y, x);
    end();
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    setenv("FAULTY_UNASKED", "1", 1);
    tn_fill_scalar_(s, x, 3);
    cr_assert_eq(tn_graph_replay(graph), TN_OK);
    tn_stream_set_current(ctx, side);
    cr_assert_eq(tn_graph_replay(graph), TN_OK);
    cr_assert_eq(tn_stream_synchronize(side), TN_OK);
    unsetenv("FAULTY_UNASKED");
    tn_stream_set_current(ctx, home);
    cr_assert_eq(tn_to_host(s, z, &got, sizeof got), TN_OK);
    cr_assert_eq(got, 3, "%g", (double)got);
}

/* ---- Faults --------------------------------------------------------------------------------------------- */

Test(graphs, a_fault_of_a_captured_kernel_is_a_late_error_of_the_stream_that_launched)
{
    int64_t index = 0;
    float got = 0;
    tn_tensor *x = tn_full(s, TN_INTS(3), tn_value_float(7), .dtype = TN_FLOAT32);
    tn_tensor *at = tn_from_data(s, TN_INT64, TN_INTS(1), &index, device);
    tn_tensor *out = tn_zeros(s, TN_INTS(1), .dtype = TN_FLOAT32);
    begin();
    tn_copy_(s, out, tn_gather(s, x, 0, at));
    end();
    tn_fill_scalar_(s, at, 8);
    cr_assert_eq(tn_graph_replay(graph), TN_OK);
    cr_assert_eq(tn_stream_synchronize(home), TN_E_INDEX);
    cr_assert(strstr(tn_last_error()->message, "index 8 is out of bounds for dimension with size 3"), "%s",
              tn_last_error()->message);
    tn_clear_error();
    cr_assert_eq(tn_stream_synchronize(side), TN_OK, "the stream that captured has no error");
    tn_fill_scalar_(s, at, 1);
    cr_assert_eq(tn_graph_replay(graph), TN_OK);
    cr_assert_eq(tn_to_host(s, out, &got, sizeof got), TN_OK, "%s", tn_last_error()->message);
    cr_assert_eq(got, 7);
}

/* Work of a stream that joined, too. */
Test(graphs, a_stream_that_joined_has_the_faults_of_the_graph)
{
    int64_t index = 0;
    tn_stream *other = NULL;
    cr_assert_eq(tn_stream_create(ctx, device, 0, &other), TN_OK);
    tn_tensor *x = tn_ones(s, TN_INTS(3), .dtype = TN_FLOAT32);
    tn_tensor *at = tn_from_data(s, TN_INT64, TN_INTS(1), &index, device);
    begin();
    cr_assert_eq(tn_stream_wait_stream(other, side), TN_OK);
    tn_stream_set_current(ctx, other);
    tn_gather(s, x, 0, at);
    cr_assert_eq(tn_stream_wait_stream(side, other), TN_OK);
    end();
    tn_fill_scalar_(s, at, 4);
    cr_assert_eq(tn_graph_replay(graph), TN_OK);
    cr_assert_eq(tn_stream_synchronize(other), TN_OK);
    cr_assert_eq(tn_stream_synchronize(home), TN_E_INDEX);
    tn_clear_error();
    tn_stream_release(other);
}

/* A fault that the stream has found before a launch is not lost by it. */
Test(graphs, a_launch_keeps_the_faults_of_its_stream)
{
    int64_t index = 5, inside = 0;
    tn_tensor *x = tn_ones(s, TN_INTS(3), .dtype = TN_FLOAT32);
    tn_tensor *at = tn_from_data(s, TN_INT64, TN_INTS(1), &index, device);
    tn_tensor *good = tn_from_data(s, TN_INT64, TN_INTS(1), &inside, device);
    begin();
    tn_gather(s, x, 0, good);
    end();
    tn_gather(s, x, 0, at);
    cr_assert_eq(tn_graph_replay(graph), TN_OK);
    cr_assert_eq(tn_stream_synchronize(home), TN_E_INDEX);
    cr_assert(strstr(tn_last_error()->message, "index 5"), "%s", tn_last_error()->message);
    tn_clear_error();
}

/* ---- Refusals ------------------------------------------------------------------------------------------- */

Test(graphs, the_default_stream_cannot_be_captured)
{
    tn_stream *wrapped = NULL;
    cr_assert_eq(tn_stream_wrap(ctx, device, 0, &wrapped), TN_OK, "%s", tn_last_error()->message);
    cr_assert_eq(tn_graph_capture_begin(graph, wrapped), TN_E_STATE);
    cr_assert(strstr(tn_last_error()->message, "the default stream of " VENDOR " cannot be captured"), "%s",
              tn_last_error()->message);
    tn_tensor *x = tn_ones(s, TN_INTS(1), .dtype = TN_FLOAT32);
    cr_assert_eq(tn_item_double(s, x), 1);
    tn_stream_release(wrapped);
}

/* Another library synchronises a stream that captures. */
static void break_capture(uint64_t native)
{
#ifdef HIP
    cr_assert_eq(OF_LIBRARY(hipStreamSynchronize)((hipStream_t)(uintptr_t)native),
                 hipErrorStreamCaptureUnsupported);
#else
    uint64_t context = 0;
    CUcontext before;
    cr_assert_eq(tn_device_native(ctx, device, TN_NATIVE_CONTEXT, &context), TN_OK);
    OF_LIBRARY(cuCtxPushCurrent)((CUcontext)(uintptr_t)context);
    cr_assert_eq(OF_LIBRARY(cuStreamSynchronize)((CUstream)(uintptr_t)native),
                 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OF_LIBRARY(cuCtxPopCurrent)(&before);
#endif
}

Test(graphs, a_capture_that_another_library_breaks_says_so)
{
    uint64_t native = 0;
    cr_assert_eq(tn_stream_native(side, &native), TN_OK);
    tn_tensor *x = tn_ones(s, TN_INTS(1), .dtype = TN_FLOAT32);
    begin();
    tn_add_scalar_(s, x, 1.0);
    break_capture(native);
    tn_stream_set_current(ctx, home);
    cr_assert_eq(tn_graph_capture_end(graph), TN_E_STATE);
    cr_assert(strstr(tn_last_error()->message, "a call that cannot be captured broke the capture"), "%s",
              tn_last_error()->message);
#ifdef HIP
    cr_assert(strstr(tn_last_error()->message, "hipErrorStreamCaptureInvalidated"));
#else
    cr_assert(strstr(tn_last_error()->message, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"));
#endif
    cr_assert_eq(tn_item_double(s, x), 1);
}

/* ---- Captures that fail, and events ---------------------------------------------------------------------- */

static void expect_all(const tn_tensor *x, double value)
{
    cr_assert_not(tn_scope_failed(s), "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_assert_eq(tn_item_double(s, tn_select(s, (tn_tensor *)x, 0, 0)), value, "%s",
                 tn_last_error() ? tn_last_error()->message : "");
}

/* Both streams of a capture that is broken, or whose streams have not joined, run work again, and capture again. */
Test(graphs, streams_run_work_again_behind_a_capture_that_fails)
{
    uint64_t native = 0;
    tn_stream *other = NULL;
    tn_tensor *x = tn_zeros(s, TN_INTS(1), .dtype = TN_FLOAT32);
    cr_assert_eq(tn_stream_native(side, &native), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, device, 0, &other), TN_OK);
    for (int is_broken = 0; is_broken < 2; is_broken++) {
        begin();
        tn_add_scalar_(s, x, 100.0);
        cr_assert_eq(tn_stream_wait_stream(other, side), TN_OK);
        tn_stream_set_current(ctx, other);
        tn_add_scalar_(s, x, 100.0);
        if (is_broken) break_capture(native);
        cr_assert_eq(tn_graph_capture_end(graph), TN_E_STATE);
        tn_clear_error();
        tn_scope_clear(s);
        tn_add_scalar_(s, x, 1.0);
        cr_assert_eq(tn_stream_synchronize(other), TN_OK, "%s", tn_last_error()->message);
        tn_stream_set_current(ctx, side);
        tn_add_scalar_(s, x, 1.0);
        cr_assert_eq(tn_stream_synchronize(side), TN_OK, "%s", tn_last_error()->message);
        expect_all(x, 2 + 5 * is_broken);
        begin();
        tn_add_scalar_(s, x, 3.0);
        end();
        cr_assert_eq(tn_graph_replay(graph), TN_OK, "%s", tn_last_error()->message);
        expect_all(x, 5 + 5 * is_broken);
        tn_graph_reset(graph);
    }
    tn_stream_release(other);
}

static tn_stream *another_stream(void)
{
    tn_stream *stream = NULL;
    cr_assert_eq(tn_stream_create(ctx, device, 0, &stream), TN_OK);
    return stream;
}

/* A stream joins the second capture before there is any work in it: the event has the nodes of no other capture. */
Test(graphs, events_of_an_earlier_capture_leave_nothing_behind)
{
    tn_stream *other = another_stream();
    tn_tensor *x = tn_zeros(s, TN_INTS(1), .dtype = TN_FLOAT32);
    for (int i = 0; i < 2; i++) {
        begin();
        if (i == 0) tn_add_scalar_(s, x, 1.0);
        cr_assert_eq(tn_stream_wait_stream(other, side), TN_OK, "%s", tn_last_error()->message);
        tn_stream_set_current(ctx, other);
        tn_add_scalar_(s, x, 10.0);
        cr_assert_eq(tn_stream_wait_stream(side, other), TN_OK);
        end();
        cr_assert_eq(tn_graph_replay(graph), TN_OK, "%s", tn_last_error()->message);
        expect_all(x, i == 0 ? 11 : 21);
        tn_graph_reset(graph);
    }
    tn_stream_release(other);
}

/* What a capture has released meanwhile is not recorded outside of it. */
Test(graphs, events_outside_of_a_capture_are_as_ever)
{
    tn_stream *other = another_stream();
    tn_event *outside = NULL;
    tn_tensor *x = tn_zeros(s, TN_INTS(1), .dtype = TN_FLOAT32);
    cr_assert_eq(tn_event_create(ctx, device, 0, &outside), TN_OK);
    begin();
    tn_add_scalar_(s, x, 1.0);
    cr_assert_eq(tn_stream_wait_stream(other, side), TN_OK);
    cr_assert_eq(tn_stream_wait_stream(side, other), TN_OK);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(tn_event_record(outside, home), TN_OK, "%s", tn_last_error()->message);
        cr_assert_eq(tn_event_synchronize(outside), TN_OK, "%s", tn_last_error()->message);
    }
    end();
    cr_assert_eq(tn_graph_replay(graph), TN_OK);
    expect_all(x, 1);
    tn_event_release(outside);
    tn_stream_release(other);
}

/* The last event of the stream that captures, and the launch of a graph there, were before the capture. */
Test(graphs, events_from_before_a_capture_are_done)
{
    tn_event *before = NULL;
    tn_graph *earlier = NULL;
    tn_tensor *x = tn_zeros(s, TN_INTS(1), .dtype = TN_FLOAT32);
    cr_assert_eq(tn_event_create(ctx, device, TN_EVENT_TIMING, &before), TN_OK);
    cr_assert_eq(tn_graph_create(ctx, device, &earlier), TN_OK);
    tn_stream_wait_stream(side, home);
    tn_stream_set_current(ctx, side);
    cr_assert_eq(tn_graph_capture_begin(earlier, side), TN_OK);
    tn_add_scalar_(s, x, 1.0);
    cr_assert_eq(tn_graph_capture_end(earlier), TN_OK);
    cr_assert_eq(tn_graph_replay(earlier), TN_OK);
    cr_assert_eq(tn_event_record(before, side), TN_OK);
    begin();
    tn_add_scalar_(s, x, 10.0);
    cr_assert_eq(tn_event_query(before), 1, "%s", tn_last_error() ? tn_last_error()->message : "");
    cr_assert_eq(tn_event_synchronize(before), TN_OK, "%s", tn_last_error()->message);
    cr_assert_eq(tn_stream_wait_event(home, before), TN_OK, "%s", tn_last_error()->message);
    tn_stream_set_current(ctx, home);
    cr_assert_eq(tn_graph_replay(earlier), TN_OK, "%s", tn_last_error()->message);
    expect_all(x, 2);
    end();
    cr_assert_eq(tn_graph_replay(graph), TN_OK);
    expect_all(x, 12);
    tn_graph_release(earlier);
    tn_event_release(before);
}

#ifdef HIP
/* Of HIP 5.2, which runs the kernel: a capture of it ends without nodes, or not at all. */
Test(graphs, a_runtime_that_captures_no_kernels_has_no_graphs)
{
    tn_tensor *x = tn_zeros(s, TN_INTS(1), .dtype = TN_FLOAT32);
    tn_stream_wait_stream(side, home);
    for (int i = 1; i <= 2; i++) {
        setenv("HIP_TEST_OLD_CAPTURES", i == 1 ? "2" : "1", 1);
        cr_assert_eq(tn_graph_capture_begin(graph, side), TN_E_UNSUPPORTED);
        cr_assert(strstr(tn_last_error()->message, "this HIP runtime does not capture kernels"), "%s",
                  tn_last_error()->message);
        tn_clear_error();
        tn_stream_set_current(ctx, side);
        tn_add_scalar_(s, x, 1.0);
        expect_all(x, i);
        tn_stream_set_current(ctx, home);
        cr_assert_eq(tn_stream_wait_stream(home, side), TN_OK);
        close_graph();
        open_device();
        x = tn_ones(s, TN_INTS(1), .dtype = TN_FLOAT32);
        tn_stream_wait_stream(side, home);
    }
    unsetenv("HIP_TEST_OLD_CAPTURES");
    begin();
    tn_add_scalar_(s, x, 1.0);
    end();
}
#endif

/* ---- Other libraries ------------------------------------------------------------------------------------ */

#ifdef HIP
typedef hipStream_t raw_stream;
typedef hipGraph_t raw_graph;
typedef hipDeviceptr_t raw_memory;
#define RAW_CALL(cuda, hip) OF_LIBRARY(hip)
#define RAW_GLOBAL          hipStreamCaptureModeGlobal
#define RAW_NON_BLOCKING    hipStreamNonBlocking
#define RAW_FORBIDDEN       hipErrorStreamCaptureUnsupported
#else
typedef CUstream raw_stream;
typedef CUgraph raw_graph;
typedef CUdeviceptr raw_memory;
#define RAW_CALL(cuda, hip) OF_LIBRARY(cuda)
#define RAW_GLOBAL          CU_STREAM_CAPTURE_MODE_GLOBAL
#define RAW_NON_BLOCKING    CU_STREAM_NON_BLOCKING
#define RAW_FORBIDDEN       CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
#endif

/* The device is current on this thread, as in a program that uses it without Tenon. */
static void make_current(void)
{
#ifdef HIP
    cr_assert_eq(OF_LIBRARY(hipSetDevice)(0), hipSuccess);
#else
    uint64_t context = 0;
    cr_assert_eq(tn_device_native(ctx, device, TN_NATIVE_CONTEXT, &context), TN_OK);
    cr_assert_eq(OF_LIBRARY(cuCtxPushCurrent)((CUcontext)(uintptr_t)context), CUDA_SUCCESS);
#endif
}

/* A library that captures a stream of its own in global mode. */
typedef struct library {
    raw_stream stream;
    int has_begun, may_end, result;
    pthread_mutex_t lock;
    pthread_cond_t changed;
} library;

static void begin_global(library *l)
{
    make_current();
    cr_assert_eq(
        RAW_CALL(cuStreamCreateWithPriority, hipStreamCreateWithPriority)(&l->stream, RAW_NON_BLOCKING, 0),
        0);
    cr_assert_eq(RAW_CALL(cuStreamBeginCapture, hipStreamBeginCapture)(l->stream, RAW_GLOBAL), 0);
}

static void end_global(library *l)
{
    raw_graph captured = NULL;
    l->result = (int)RAW_CALL(cuStreamEndCapture, hipStreamEndCapture)(l->stream, &captured);
    if (captured) RAW_CALL(cuGraphDestroy, hipGraphDestroy)(captured);
    RAW_CALL(cuStreamDestroy, hipStreamDestroy)(l->stream);
}

static void *capture_on_a_thread(void *data)
{
    library *l = data;
    begin_global(l);
    pthread_mutex_lock(&l->lock);
    l->has_begun = 1;
    pthread_cond_broadcast(&l->changed);
    while (!l->may_end) pthread_cond_wait(&l->changed, &l->lock);
    pthread_mutex_unlock(&l->lock);
    end_global(l);
    return NULL;
}

/* Allocates, loads programs, makes, asks, waits for and destroys streams and events, pins memory and gives all back. */
static void use_the_device(void)
{
    tn_stream *made = NULL;
    tn_event *from = NULL, *to = NULL;
    double ms = -1;
    tn_scope *own = scope_on_device();
    cr_assert_eq(tn_stream_create(ctx, device, 0, &made), TN_OK, "%s", tn_last_error()->message);
    cr_assert_eq(tn_event_create(ctx, device, TN_EVENT_TIMING, &from), TN_OK);
    cr_assert_eq(tn_event_create(ctx, device, TN_EVENT_TIMING, &to), TN_OK);
    cr_assert_eq(tn_event_record(from, home), TN_OK, "%s", tn_last_error()->message);
    tn_tensor *x = tn_full(own, TN_INTS(3, 1 << 20), tn_value_float(2), .dtype = TN_FLOAT32);
    cr_assert_eq(tn_item_double(own, tn_amax(own, tn_cumsum(own, x, 0), TN_INTS(0, 1), 0)), 6, "%s",
                 tn_last_error() ? tn_last_error()->message : "");
    cr_assert_eq(tn_event_record(to, home), TN_OK);
    (void)tn_event_query(to);
    cr_assert_eq(tn_event_synchronize(to), TN_OK, "%s", tn_last_error()->message);
    cr_assert_eq(tn_event_elapsed(from, to, &ms), TN_OK, "%s", tn_last_error()->message);
    (void)tn_stream_query(made);
    cr_assert_eq(tn_stream_synchronize(made), TN_OK, "%s", tn_last_error()->message);
    tn_event_release(from);
    tn_event_release(to);
    tn_stream_release(made);
    cr_assert_eq(tn_scope_close(own), TN_OK, "%s", tn_last_error() ? tn_last_error()->message : "");
    cr_assert_eq(tn_memory_empty_cache(ctx, device), TN_OK);
}

/* What captures forbid is forbidden to the library again when Tenon has returned: here it breaks its own capture. */
Test(graphs, a_global_capture_of_this_thread_lives)
{
    library l = {0};
    raw_memory memory = 0;
    begin_global(&l);
    use_the_device();
    end_global(&l);
    cr_assert_eq(l.result, 0, "the capture of the other library: %d", l.result);
    begin_global(&l);
    use_the_device();
    cr_assert_eq(RAW_CALL(cuMemAlloc, hipMalloc)(&memory, 256), RAW_FORBIDDEN);
    end_global(&l);
    cr_assert_neq(l.result, 0);
}

Test(graphs, a_global_capture_of_another_thread_lives)
{
    library l = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, capture_on_a_thread, &l), 0);
    pthread_mutex_lock(&l.lock);
    while (!l.has_begun) pthread_cond_wait(&l.changed, &l.lock);
    pthread_mutex_unlock(&l.lock);
    use_the_device();
    pthread_mutex_lock(&l.lock);
    l.may_end = 1;
    pthread_cond_broadcast(&l.changed);
    pthread_mutex_unlock(&l.lock);
    pthread_join(thread, NULL);
    cr_assert_eq(l.result, 0, "the capture of the other library: %d", l.result);
}

/* The other way round: captures of Tenon do not forbid other libraries anything. */
Test(graphs, another_library_may_allocate_during_a_capture)
{
    raw_memory memory = 0;
    tn_tensor *x = tn_ones(s, TN_INTS(1), .dtype = TN_FLOAT32);
    begin();
    tn_add_scalar_(s, x, 1.0);
    make_current();
    cr_assert_eq(RAW_CALL(cuMemAlloc, hipMalloc)(&memory, 256), 0);
    cr_assert_eq(RAW_CALL(cuMemFree, hipFree)(memory), 0);
    end();
    cr_assert_eq(tn_graph_replay(graph), TN_OK);
    cr_assert_eq(tn_item_double(s, x), 2);
}
