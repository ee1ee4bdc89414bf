/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program sees when Level Zero fails: on the test driver with the fault of each row, which is asked for before the
 * driver is loaded. The program goes on, the error names the call that failed, and the CPU works as before.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#define OUT_OF_MEMORY "0x70000003" /* ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY */
#define LOST          "0x70000001"
#define UNKNOWN       "0x7ffffffe"

typedef struct fault_row {
    char fault[64]; /* FUNCTION:N:RESULT */
    int32_t status; /* of the first error; TN_OK: the program does not notice */
    char words[64]; /* of its text */
} fault_row;

static void nothing(void *user) {}

/* Everything that the driver is for, once. Gives the status of the first call that fails, and its text. */
static int32_t work(tn_context *ctx, tn_device device, char *message, size_t bytes)
{
    const tn_scope_options options = {.size = sizeof options, .device = device};
    tn_scope *s = tn_scope_open_with(ctx, &options);
    tn_stream *side = NULL;
    tn_event *start = NULL, *stop = NULL;
    float values[4] = {0};
    double ms;
    int32_t status;
#define TRY(call) \
    if ((status = (call)) != TN_OK) goto end
    TRY(tn_stream_create(ctx, device, 0, &side));
    TRY(tn_event_create(ctx, device, TN_EVENT_TIMING, &start));
    TRY(tn_event_create(ctx, device, TN_EVENT_TIMING, &stop));
    TRY(tn_event_record(start, side));
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(2, 2), (float[]){1, 2, 3, 4}, device);
    tn_tensor *y = tn_mul_scalar(s, tn_mm(s, x, tn_full(s, TN_INTS(2, 2), 1, .dtype = TN_FLOAT32)), 2);
    TRY(tn_scope_failed(s));
    TRY(tn_stream_wait_stream(side, tn_stream_current(ctx, device)));
    TRY(tn_stream_add_callback(side, nothing, NULL));
    TRY(tn_event_record(stop, side));
    TRY(tn_event_synchronize(stop));
    TRY(tn_event_elapsed(start, stop, &ms));
    while ((status = tn_stream_query(side)) == 0) continue;
    if (status != 1) goto end;
    TRY(tn_to_host(s, y, values, sizeof values));
    TRY(tn_device_synchronize(ctx, device));
    cr_assert(values[0] == 6 && values[1] == 6 && values[2] == 14 && values[3] == 14);
end:;
    const tn_error *error = tn_scope_failed(s) ? tn_scope_error(s) : tn_last_error();
    snprintf(message, bytes, "%s", status && error ? error->message : "");
    tn_event_release(start);
    tn_event_release(stop);
    tn_stream_release(side);
    tn_scope_close(s);
    return status;
}

ParameterizedTestParameters(faults, each_function)
{
    static fault_row rows[] = {
        {"none:1:0", TN_OK, ""},
        {"zeDeviceGetModuleProperties:4:" UNKNOWN, TN_E_INTERNAL, "zeDeviceGetModuleProperties failed"},
        {"zeDeviceGetCommandQueueGroupProperties:1:" UNKNOWN, TN_E_INTERNAL, "GroupProperties failed"},
        {"zeContextCreate:1:" UNKNOWN, TN_E_INTERNAL, "zeContextCreate failed"},
        {"zeMemAllocDevice:1:" OUT_OF_MEMORY, TN_E_OUT_OF_MEMORY, "allocating"},
        {"zeMemAllocDevice:3:" OUT_OF_MEMORY, TN_OK,
         ""}, /* after giving back what is kept, it is tried once more */
        {"zeCommandListCreateImmediate:1:" UNKNOWN, TN_E_INTERNAL, "zeCommandListCreateImmediate failed"},
        {"zeEventPoolCreate:1:" OUT_OF_MEMORY, TN_E_OUT_OF_MEMORY, "zeEventPoolCreate failed"},
        {"zeEventCreate:2:" UNKNOWN, TN_E_INTERNAL, "zeEventCreate failed"},
        {"zeEventHostReset:1:" UNKNOWN, TN_E_INTERNAL, "zeEventHostReset failed"},
        {"zeEventHostSynchronize:2:" LOST, TN_E_DEVICE_LOST, "queued work failed"},
        {"zeEventQueryKernelTimestamp:1:" UNKNOWN, TN_E_INTERNAL, "the time of an event failed"},
        {"zeCommandListAppendBarrier:3:" UNKNOWN, TN_E_INTERNAL, "a barrier failed"},
        {"zeCommandListAppendMemoryCopy:3:" UNKNOWN, TN_E_INTERNAL, "a copy"},
        {"zeCommandListAppendMemoryCopy:2:" LOST, TN_E_DEVICE_LOST, "a copy"},
        {"zeCommandListAppendLaunchKernel:1:" UNKNOWN, TN_E_INTERNAL, "a kernel failed"},
        {"zeCommandListAppendLaunchKernel:2:" LOST, TN_E_DEVICE_LOST, "a kernel failed"},
        {"zeModuleCreate:1:0x70000004", TN_E_INTERNAL, "the device code does not compile"},
        {"zeModuleCreate:1:" OUT_OF_MEMORY, TN_OK, ""},
        {"zeModuleGetNativeBinary:1:" UNKNOWN, TN_OK, ""}, /* it is compiled each time, then */
        {"zeKernelCreate:1:0x78000011", TN_E_INTERNAL, "failed: ZE_RESULT_ERROR_INVALID_KERNEL_NAME"},
        {"zeKernelSetGroupSize:1:" UNKNOWN, TN_E_INTERNAL, "zeKernelSetGroupSize failed"},
        {"zeKernelSetArgumentValue:2:" UNKNOWN, TN_E_INTERNAL, "zeKernelSetArgumentValue failed"},
        {"work:1:" LOST, TN_E_DEVICE_LOST, "ZE_RESULT_ERROR_DEVICE_LOST"},
        {"work:3:" LOST, TN_E_DEVICE_LOST, "ZE_RESULT_ERROR_DEVICE_LOST"},
    };
    return cr_make_param_array(fault_row, rows, sizeof rows / sizeof *rows);
}

ParameterizedTest(fault_row *row, faults, each_function, .timeout = 60)
{
    tn_context *ctx;
    char message[2048] = "";
    setenv("FAULTY_FAIL", row->fault, 1);
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1); /* programs are compiled */
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    tn_device device = tn_device_parse(ctx, "xpu:0");
    if (!tn_device_count(ctx, "xpu")) cr_skip_test("no test driver of Level Zero");
    int32_t status = work(ctx, device, message, sizeof message);
    cr_assert_eq(status, row->status, "%s: status %d, %s", row->fault, status, message);
    cr_assert_not_null(strstr(message, row->words), "%s: %s", row->fault, message);
    if (status == TN_E_DEVICE_LOST) {
        cr_assert_eq(tn_device_status(ctx, device), TN_E_DEVICE_LOST);
    } else { /* the fault was a single one */
        status = work(ctx, device, message, sizeof message);
        int32_t stays = strstr(row->fault, "zeModuleCreate:1:0x70000004") != NULL;
        cr_assert(stays || status == TN_OK, "%s, again: status %d, %s", row->fault, status, message);
    }
    cr_assert_eq(work(ctx, TN_CPU, message, sizeof message), TN_OK, "%s", message);
    tn_context_destroy(ctx);
}

/* Work fails with the fault, and works again afterwards. */
static void fail_once(const char *fault, const char *words)
{
    tn_context *ctx;
    char message[2048] = "";
    setenv("FAULTY_FAIL", fault, 1);
    setenv("FAULTY_DELAY", "50", 1);
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    tn_device device = tn_device_parse(ctx, "xpu:0");
    cr_assert_eq(work(ctx, device, message, sizeof message), TN_E_INTERNAL, "%s", message);
    cr_expect_not_null(strstr(message, words), "%s", message);
    cr_expect_eq(work(ctx, device, message, sizeof message), TN_OK, "%s", message);
    tn_context_destroy(ctx);
}

/* The driver would report memory that is freed while the first write of a stream still uses it. */
Test(faults, a_stream_that_cannot_be_made_leaves_no_work, .timeout = 60)
{
    fail_once("zeCommandListAppendBarrier:1:" UNKNOWN, "a barrier failed");
}

/* The driver would report that queued commands use the event that is reset. */
Test(faults, the_event_of_a_wait_that_failed_is_not_reset_too_early, .timeout = 60)
{
    fail_once("zeEventHostSynchronize:1:" UNKNOWN, "queued work failed");
}

Test(faults, a_device_that_does_not_tell_its_kind_keeps_its_number, .timeout = 60)
{
    tn_context *ctx;
    const char *reason;
    char message[2048] = "";
    setenv("FAULTY_FAIL", "zeDeviceGetProperties:1:" UNKNOWN, 1);
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    cr_assert_eq(tn_device_count(ctx, "xpu"), 2);
    tn_device first = tn_device_parse(ctx, "xpu:0"), second = tn_device_parse(ctx, "xpu:1");
    cr_expect_eq(tn_device_choose(ctx, "best", &reason), second, "%s", reason);
    cr_expect_eq(work(ctx, first, message, sizeof message), TN_E_INTERNAL);
    cr_expect_not_null(strstr(message, "zeDeviceGetProperties failed: ZE_RESULT_ERROR_UNKNOWN"), "%s",
                       message);
    cr_expect_eq(work(ctx, second, message, sizeof message), TN_OK, "%s", message);
    tn_context_destroy(ctx);
}

Test(faults, a_device_without_float64_leaves_it_to_the_cpu, .timeout = 60)
{
    tn_context *ctx;
    double values[2] = {0};
    setenv("FAULTY_NO_DOUBLE", "1", 1);
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    tn_device device = tn_device_parse(ctx, "xpu:0");
    if (!tn_device_count(ctx, "xpu")) cr_skip_test("no test driver of Level Zero");
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *x = tn_from_data(s, TN_FLOAT64, TN_INTS(2), (double[]){1.5, 1e-300}, device);
    cr_assert_eq(tn_to_host(s, tn_add(s, x, x), values, sizeof values), TN_OK);
    cr_assert(values[0] == 3 && values[1] == 2e-300);
    tn_scope_close(s);
    tn_context_destroy(ctx);
}
