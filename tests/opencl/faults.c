/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program sees when the driver fails: on PoCL with the faults of faulty_icd.c, which each test asks for before
 * the driver is loaded. There are two devices.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/inspect.h>
#include <tenon/tenon.h>

static tn_context *ctx;
static tn_device device, other;
static tn_scope *s;

static void begin(const char *name, const char *value)
{
    if (name) setenv(name, value, 1);
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    device = tn_device_parse(ctx, "opencl:0");
    if (!tn_device_count(ctx, "opencl")) cr_skip_test("no OpenCL device (Debian: pocl-opencl-icd)");
    other = tn_device_parse(ctx, "opencl:1");
    tn_scope_options options = {.size = sizeof options, .device = device};
    s = tn_scope_open_with(ctx, &options);
}

static void end(void)
{
    tn_scope_close(s);
    tn_context_destroy(ctx);
}

static tn_tensor *pair(tn_device on, float a, float b)
{
    return tn_from_data(s, TN_FLOAT32, TN_INTS(2), (float[]){a, b}, on);
}

/* The first error of the scope or of the device has this status and these words. */
static void expect_error(int32_t status, const char *words)
{
    int32_t got = tn_scope_failed(s) ? tn_scope_failed(s) : tn_device_synchronize(ctx, device);
    const tn_error *error = tn_scope_failed(s) ? tn_scope_error(s) : tn_last_error();
    cr_assert_eq(got, status, "status %d, %s", got, error ? error->message : "no error");
    cr_assert_not_null(strstr(error->message, words), "%s", error->message);
    tn_scope_clear(s);
}

static void expect_pair(tn_device on, float a, float b)
{
    float values[2] = {0};
    tn_tensor *sum = tn_add(s, pair(on, a - 1, b - 1), pair(on, 1, 1));
    cr_assert_eq(tn_to_host(s, sum, values, sizeof values), TN_OK, "%s", tn_scope_error(s)->message);
    cr_assert(values[0] == a && values[1] == b);
}

/* ---- Lost contexts ------------------------------------------------------------------------------------------ */

static void expect_lost(const char *fault)
{
    begin("FAULTY_FAIL", fault);
    tn_tensor *x = pair(device, 1, 2);
    float values[2];
    for (int i = 0; i < 20 && !tn_scope_failed(s) && !tn_device_status(ctx, device); i++) {
        x = tn_add(s, x, x);
        tn_to_host(s, x, values, sizeof values);
    }
    cr_assert_eq(tn_scope_failed(s), TN_E_DEVICE_LOST, "%s: %d", fault, tn_scope_failed(s));
    tn_scope_clear(s);
    cr_assert_eq(tn_device_status(ctx, device), TN_E_DEVICE_LOST);
    cr_assert_null(tn_ones(s, TN_INTS(2), .device = device));
    expect_error(TN_E_DEVICE_LOST, "device opencl:0 is lost, and its tensors with it: opencl: ");
    cr_assert_eq(tn_device_status(ctx, other), TN_OK);
    expect_pair(other, 5, 7);
    expect_pair(TN_CPU, 5, 7);
    end();
}

Test(faults, a_wait_that_fails_loses_the_device)
{
    expect_lost("clFinish:3:-5:lost");
}
Test(faults, a_context_that_is_lost_at_a_kernel)
{
    expect_lost("clEnqueueNDRangeKernel:2:-34:lost");
}
Test(faults, a_queue_that_is_lost_at_a_copy)
{
    expect_lost("clEnqueueReadBuffer:2:-36:lost");
}
Test(faults, a_device_that_is_no_longer_available)
{
    expect_lost("clEnqueueWriteBuffer:2:-2:lost");
}

/* ---- Resources and memory ----------------------------------------------------------------------------------- */

Test(faults, a_kernel_without_resources_is_tried_once_more)
{
    begin("FAULTY_FAIL", "clEnqueueNDRangeKernel:1:-5");
    expect_pair(device, 3, 4);
    end();
}

Test(faults, a_kernel_that_never_finds_resources)
{
    begin("FAULTY_FAIL", "clEnqueueNDRangeKernel:1:-5:always");
    cr_assert_null(tn_add(s, pair(device, 1, 2), pair(device, 1, 2)));
    expect_error(TN_E_OUT_OF_MEMORY, "opencl: a kernel failed: CL_OUT_OF_RESOURCES");
    cr_assert_eq(tn_device_status(ctx, device), TN_OK);
    expect_pair(TN_CPU, 3, 4);
    end();
}

static void expect_summary(const char *limit)
{
    begin(limit, "16777216");
    tn_tensor *small = tn_ones(s, TN_INTS(1024), .dtype = TN_FLOAT32);
    cr_assert_not_null(small);
    cr_assert_null(tn_empty(s, TN_INTS(32 << 20), .dtype = TN_FLOAT32));
    cr_assert_eq(tn_scope_failed(s), TN_E_OUT_OF_MEMORY);
    const char *text = tn_scope_error(s)->message;
    cr_assert_not_null(strstr(text, "opencl:0 is out of memory. Tried to allocate 128.00 MiB."), "%s", text);
    cr_assert_not_null(strstr(text, " The largest allocation is 4.00 KiB"), "%s", text);
    tn_scope_clear(s);
    expect_pair(device, 3, 4);
    end();
}

Test(faults, out_of_device_memory_has_the_summary)
{
    expect_summary("FAULTY_LARGEST");
}

Test(faults, out_of_device_memory_that_drivers_take_late)
{
    expect_summary("FAULTY_LAZY");
}

/* ---- Misuse ------------------------------------------------------------------------------------------------- */

Test(faults, a_queue_of_another_device_is_refused)
{
    uint64_t native = 0;
    tn_stream *wrapped = NULL, *theirs = NULL;
    begin(NULL, NULL);
    cr_assert_eq(tn_stream_create(ctx, other, 0, &theirs), TN_OK);
    cr_assert_eq(tn_stream_native(theirs, &native), TN_OK);
    cr_assert_eq(tn_stream_wrap(ctx, device, native, &wrapped), TN_E_ARGUMENT);
    cr_assert_not_null(strstr(tn_last_error()->message, "the queue is of another device"), "%s",
                       tn_last_error()->message);
    cr_assert_null(wrapped);
    cr_assert_eq(tn_stream_wrap(ctx, other, native, &wrapped), TN_OK);
    tn_stream_release(wrapped);
    tn_stream_release(theirs);
    expect_pair(device, 3, 4);
    expect_pair(other, 3, 4);
    end();
}

Test(faults, a_capture_is_refused)
{
    tn_graph *graph = NULL;
    begin(NULL, NULL);
    int32_t status = tn_graph_create(ctx, device, &graph);
    cr_assert_eq(status, TN_E_UNSUPPORTED, "status %d", status);
    cr_assert_not_null(strstr(tn_last_error()->message, "opencl"), "%s", tn_last_error()->message);
    cr_assert_null(graph);
    expect_pair(device, 3, 4);
    end();
}

/* ---- Which devices there are --------------------------------------------------------------------------------- */

Test(faults, processors_are_the_last_devices)
{
    tn_device_facts first = {.size = sizeof first}, last = {.size = sizeof last};
    begin("FAULTY_GPU", "2");
    cr_assert_eq(tn_device_get_facts(ctx, device, &first), TN_OK);
    cr_assert_eq(tn_device_get_facts(ctx, other, &last), TN_OK);
    cr_expect(first.device_class == TN_DEVICE_DISCRETE || first.device_class == TN_DEVICE_INTEGRATED);
    cr_expect_eq(last.device_class, TN_DEVICE_VIRTUAL);
    end();
}

static const char *reason_of_plugin(void)
{
    static tn_candidate_info info;
    for (uint32_t i = 0; i < tn_inspect_candidate_count(ctx); i++) {
        info = (tn_candidate_info){.size = sizeof info};
        cr_assert_eq(tn_inspect_candidate(ctx, i, &info), TN_OK);
        if (info.device_type && strcmp(info.device_type, "opencl") == 0) return info.reason;
    }
    return "";
}

/* A call of a function that a device lacks would crash. */
Test(faults, devices_that_cannot_run_the_kernels_are_left_out)
{
    static const char *const rows[][2] = {{"version", "lacks OpenCL 1.2"},
                                          {"profile", "lacks the full profile"},
                                          {"power", "is not available"},
                                          {"compiler", "lacks a compiler"},
                                          {"groups", "lacks groups of 128 items"}};
    setenv("FAULTY_GPU", "1", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        setenv("FAULTY_LACKS", rows[i][0], 1);
        cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
        cr_expect_eq(tn_device_count(ctx, "opencl"), 0, "%s", rows[i][0]);
        cr_expect_not_null(strstr(reason_of_plugin(), rows[i][1]), "%s: %s", rows[i][0], reason_of_plugin());
        tn_context_destroy(ctx);
    }
}

/* ---- The compiler, and what a device lacks ------------------------------------------------------------------ */

Test(faults, the_compilers_log_is_in_the_error_of_the_call)
{
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1); /* a compiled program would need no compiler */
    begin("FAULTY_SOURCE", "the compiler has a bad day");
    cr_assert_null(tn_add(s, pair(device, 1, 2), pair(device, 1, 2)));
    expect_error(TN_E_INTERNAL, "the compiler has a bad day");
    cr_assert_null(tn_add(s, pair(device, 1, 2), pair(device, 1, 2)));
    expect_error(TN_E_INTERNAL, "does not compile for this device: the error of the first call has the log");
    expect_pair(TN_CPU, 3, 4);
    end();
}

/* PoCL compiles all kernels of a program to give it in compiled form. */
Test(faults, compiled_programs_are_not_asked_for_without_a_cache)
{
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    begin("FAULTY_FAIL", "clGetProgramInfo:1:-5:lost");
    expect_pair(device, 3, 4);
    end();
}

Test(faults, a_device_without_float64_leaves_it_to_the_cpu)
{
    double values[2] = {0};
    begin("FAULTY_NO_DOUBLE", "1");
    tn_device_facts facts = {.size = sizeof facts};
    cr_assert_eq(tn_device_get_facts(ctx, device, &facts), TN_OK);
    cr_assert_eq(facts.features & TN_FEATURE_FLOAT64, 0);
    for (const tn_dtype *d = facts.dtypes; *d; d++) cr_assert_neq(*d, TN_FLOAT64);
    tn_tensor *x = tn_from_data(s, TN_FLOAT64, TN_INTS(2), (double[]){1.5, 1e-300}, device);
    x = tn_add(s, x, x);
    cr_assert_eq(tn_tensor_device(x), device);
    cr_assert_eq(tn_to_host(s, x, values, sizeof values), TN_OK);
    cr_assert(values[0] == 3 && values[1] == 2e-300);
    expect_pair(device, 3, 4);
    end();
}
