/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives by an NCCL for tests (libnccl.c), over two devices of one process and over several processes: values, the order of
 * streams, failures of each function, late errors, and what is said without the library. RCCL with the HIP plugin runs the same.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dlfcn.h>
#include <string.h>
#include "../../../behaviour/partner.h"

#ifndef DEVICE
#define DEVICE      "cuda"
#define LIBRARY     "libcuda.so.1"
#define COLLECTIVES "libnccl.so.2"
#define NCCL_NAME   "NCCL"
#endif

enum { LIVE, QUEUED, WRONG, ABORTS };
#define RANKS 2u

static tn_context *ctx;
static tn_device devices[RANKS];
static tn_scope *s;
static tn_communicator *all;
static int has_lost; /* a device, of which HIP gives nothing back before the process ends */

/* What a library for tests counts, or -1: it is not loaded. */
static int count_of(const char *library, const char *function, int what)
{
    void *loaded = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    int (*counter)(int);
    if (!loaded) return -1;
    *(void **)(void *)&counter = dlsym(loaded, function);
    return counter ? counter(what) : -1;
}

static int count(int what)
{
    return count_of(COLLECTIVES, "nccl_test_count", what);
}

static void open_devices(void)
{
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    for (uint32_t i = 0; i < RANKS; i++) {
        devices[i] = tn_device_parse(ctx, i ? DEVICE ":1" : DEVICE ":0");
        if (!devices[i]) cr_skip_test("no OpenCL device for the twins (Debian: pocl-opencl-icd)");
    }
    s = tn_scope_open(ctx);
}

static void open_all(void)
{
    open_devices();
    cr_assert_eq(tn_communicator_create(ctx, devices, RANKS, &all), TN_OK, "%s", tn_last_error()->message);
}

/* What each test ends with: nothing is left, and nothing was used wrongly. */
static void finish(void)
{
    if (s) tn_scope_close(s);
    tn_communicator_release(all);
    tn_context_destroy(ctx);
    cr_assert_leq(count(LIVE), 0, "%d communicators are left", count(LIVE));
    cr_assert_leq(count(WRONG), 0, "%d wrong uses", count(WRONG));
    const int live = count_of(LIBRARY, "cuda_test_live", 0);
    cr_assert(live <= 0 || has_lost, "%d objects are left", live);
}
TestSuite(collectives, .init = open_all, .timeout = 60);
TestSuite(processes, .init = open_devices, .timeout = 120);
TestSuite(failures, .init = open_devices, .timeout = 60);
TestSuite(no_collectives, .init = open_devices, .timeout = 60);

/* ---- Tensors ------------------------------------------------------------------------------------------------ */

/* On each device `n` elements from `first` on, behind three others of their storage. */
static void make(tn_dtype dtype, int64_t n, const double first[RANKS], tn_tensor *out[RANKS])
{
    for (uint32_t r = 0; r < RANKS; r++) {
        double values[64] = {0};
        for (int64_t i = 0; i < n; i++) values[3 + i] = first[r] + (double)i;
        tn_tensor *t = tn_from_data(s, TN_FLOAT64, TN_INTS(3 + n), values, TN_CPU);
        t = tn__to_copy(s, tn__to_copy(s, t, .dtype = dtype), .device = devices[r]);
        out[r] = t ? tn_narrow(s, t, 0, 3, n) : NULL;
    }
    cr_assert_not(tn_scope_failed(s), "%s", tn_scope_error(s) ? tn_scope_error(s)->message : "");
}

static void expect_values(tn_tensor *t, const double *want, int64_t n)
{
    double got[64];
    cr_assert_eq(tn_tensor_numel(t), n);
    tn_to_host(s, tn__to_copy(s, t, .dtype = TN_FLOAT64, .device = TN_CPU), got, (uint64_t)n * 8);
    cr_assert_not(tn_scope_failed(s), "%s", tn_scope_error(s) ? tn_scope_error(s)->message : "");
    for (int64_t i = 0; i < n; i++)
        cr_assert(got[i] == want[i], "element %lld is %g instead of %g", (long long)i, got[i], want[i]);
}

static void expect_error(int32_t status, int32_t want, const char *words)
{
    const char *said = tn_last_error() ? tn_last_error()->message : "";
    cr_assert_eq(status, want, "%d: %s", status, said);
    cr_assert(strstr(said, words), "%s", said);
    tn_clear_error();
}

static void good(int32_t status)
{
    cr_assert_eq(status, TN_OK, "%d: %s", status, tn_last_error() ? tn_last_error()->message : "");
}

/* Sums over the devices, which only a whole communicator makes. */
static void expect_sums(void)
{
    tn_tensor *t[RANKS];
    make(TN_FLOAT32, 4, (const double[]){1, 10}, t);
    good(tn_communicator_all_reduce(all, t, RANKS, TN_REDUCE_SUM));
    for (uint32_t r = 0; r < RANKS; r++) expect_values(t[r], (const double[]){11, 13, 15, 17}, 4);
}

static void make_anew(void)
{
    tn_communicator_release(all);
    all = NULL;
    good(tn_communicator_create(ctx, devices, RANKS, &all));
    expect_sums();
}

/* ---- Values ------------------------------------------------------------------------------------------------- */

Test(collectives, all_reduce_of_every_kind)
{
    static const tn_dtype dtypes[] = {TN_FLOAT64, TN_FLOAT32, TN_FLOAT16, TN_BFLOAT16,
                                      TN_INT64,   TN_INT32,   TN_INT8,    TN_UINT8};
    static const double want[][3] = {{9, 11, 13}, {14, 24, 36}, {2, 3, 4}, {7, 8, 9}, {4.5, 5.5, 6.5}};
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
        for (uint32_t reduction = TN_REDUCE_SUM; reduction <= TN_REDUCE_AVERAGE; reduction++) {
            tn_tensor *t[RANKS];
            if (reduction == TN_REDUCE_AVERAGE && !tn_dtype_is_floating(dtypes[k])) continue;
            make(dtypes[k], 3, (const double[]){2, 7}, t);
            good(tn_communicator_all_reduce(all, t, RANKS, reduction));
            for (uint32_t r = 0; r < RANKS; r++) expect_values(t[r], want[reduction], 3);
        }
    }
    finish();
}

#ifndef HIP /* which has no memory that grows */
/* The other device uses it in place. */
Test(collectives, memory_that_grows_is_open_to_other_ranks)
{
    for (uint32_t r = 0; r < RANKS; r++)
        good(tn_memory_configure(ctx, devices[r], "expandable_segments:True"));
    expect_sums();
    make_anew();
    finish();
}
#endif

Test(collectives, bools_are_any_and_all_and_complex_numbers_are_pairs)
{
    static const uint8_t bits[RANKS][3] = {{0, 1, 1}, {0, 0, 1}};
    static const uint8_t any[] = {0, 1, 1}, both[] = {0, 0, 1};
    tn_tensor *t[RANKS];
    for (uint32_t reduction = TN_REDUCE_SUM; reduction <= TN_REDUCE_MAX; reduction++) {
        for (uint32_t r = 0; r < RANKS; r++) t[r] = tn_from_data(s, TN_BOOL, TN_INTS(3), bits[r], devices[r]);
        good(tn_communicator_all_reduce(all, t, RANKS, reduction));
        for (uint32_t r = 0; r < RANKS; r++) {
            uint8_t got[3];
            good(tn_to_host(s, t[r], got, sizeof got));
            cr_assert_eq(
                memcmp(got, reduction == TN_REDUCE_SUM || reduction == TN_REDUCE_MAX ? any : both, 3), 0);
        }
    }
    for (uint32_t reduction = TN_REDUCE_SUM; reduction <= TN_REDUCE_AVERAGE; reduction += TN_REDUCE_AVERAGE) {
        for (uint32_t r = 0; r < RANKS; r++) {
            const float pairs[] = {1, 2, 3, (float)r};
            t[r] = tn_from_data(s, TN_COMPLEX64, TN_INTS(2), pairs, devices[r]);
        }
        good(tn_communicator_all_reduce(all, t, RANKS, reduction));
        float got[4];
        good(tn_to_host(s, t[1], got, sizeof got));
        const float by = reduction == TN_REDUCE_SUM ? 1 : 2;
        cr_assert(got[0] == 2 / by && got[1] == 4 / by && got[2] == 6 / by && got[3] == 1 / by, "%g %g %g %g",
                  (double)got[0], (double)got[1], (double)got[2], (double)got[3]);
    }
    finish();
}

Test(collectives, what_the_library_does_not_reduce_is_refused_by_name)
{
    tn_tensor *t[RANKS];
    make(TN_INT16, 2, (const double[]){1, 2}, t);
    expect_error(tn_communicator_all_reduce(all, t, RANKS, TN_REDUCE_SUM), TN_E_DTYPE,
                 "plugin " DEVICE " does not reduce int16 by TN_REDUCE_SUM");
    good(tn_communicator_broadcast(all, t, RANKS, 1)); /* copies take all dtypes */
    expect_values(t[0], (const double[]){2, 3}, 2);
    make(TN_COMPLEX64, 2, (const double[]){1, 2}, t);
    expect_error(tn_communicator_all_reduce(all, t, RANKS, TN_REDUCE_PRODUCT), TN_E_DTYPE,
                 "plugin " DEVICE " does not reduce complex64 by TN_REDUCE_PRODUCT");
    cr_assert_eq(tn_communicator_reduces(all, TN_COMPLEX64, TN_REDUCE_SUM), 1);
    cr_assert_eq(tn_communicator_reduces(all, TN_UINT16, TN_REDUCE_SUM), 0);
    cr_assert_eq(tn_communicator_reduces(all, TN_UINT64, TN_REDUCE_MAX), 1);
    finish();
}

Test(collectives, broadcast_gather_scatter_and_exchange)
{
    tn_tensor *small[RANKS], *large[RANKS], *other[RANKS];
    make(TN_INT32, 2, (const double[]){100, 200}, small);
    make(TN_INT32, 4, (const double[]){0, 0}, large);
    good(tn_communicator_all_gather(all, large, small, RANKS));
    for (uint32_t r = 0; r < RANKS; r++) expect_values(large[r], (const double[]){100, 101, 200, 201}, 4);
    good(tn_communicator_reduce_scatter(all, small, large, RANKS, TN_REDUCE_SUM));
    expect_values(small[0], (const double[]){200, 202}, 2);
    expect_values(small[1], (const double[]){400, 402}, 2);
    for (uint32_t root = 0; root < RANKS; root++) {
        make(TN_FLOAT64, 2, (const double[]){5, 9}, small);
        good(tn_communicator_broadcast(all, small, RANKS, root));
        for (uint32_t r = 0; r < RANKS; r++)
            expect_values(small[r], root ? (const double[]){9, 10} : (const double[]){5, 6}, 2);
    }
    make(TN_INT64, 4, (const double[]){0, 100}, large);
    make(TN_INT64, 4, (const double[]){0, 0}, other);
    good(tn_communicator_all_to_all(all, other, large, RANKS));
    expect_values(other[0], (const double[]){0, 1, 100, 101}, 4);
    expect_values(other[1], (const double[]){2, 3, 102, 103}, 4);
    finish();
}

Test(collectives, one_device_and_devices_in_another_order)
{
    const tn_device turned[RANKS] = {devices[1], devices[0]};
    tn_communicator *one = NULL, *two = NULL;
    tn_tensor *t[RANKS], *swapped[RANKS];
    make(TN_FLOAT32, 1, (const double[]){1, 2}, t);
    good(tn_communicator_create(ctx, &devices[1], 1, &one));
    good(tn_communicator_all_reduce(one, &t[1], 1, TN_REDUCE_SUM));
    expect_values(t[1], (const double[]){2}, 1);
    good(tn_communicator_create(ctx, turned, RANKS, &two));
    swapped[0] = t[1];
    swapped[1] = t[0];
    good(tn_communicator_broadcast(two, swapped, RANKS, 0));
    expect_values(t[0], (const double[]){2}, 1);
    tn_communicator_release(one);
    tn_communicator_release(two);
    finish();
}

/* ---- Order -------------------------------------------------------------------------------------------------- */

/* Work before and after each call on streams of its own, with delays; released memory is reused at once. */
Test(collectives, calls_are_in_the_order_of_the_streams)
{
    tn_stream *side[RANKS];
    tn_tensor *t[RANKS], *gathered[RANKS];
    double value[RANKS] = {1, 2};
    make(TN_FLOAT64, 1, value, t);
    setenv("FAULTY_DELAY", "10", 1);
    for (uint32_t r = 0; r < RANKS; r++) {
        good(tn_stream_create(ctx, devices[r], 0, &side[r]));
        good(tn_stream_wait_stream(side[r], tn_stream_current(ctx, devices[r])));
        tn_stream_set_current(ctx, side[r]);
    }
    for (int round = 0; round < 4; round++) {
        for (uint32_t r = 0; r < RANKS; r++) {
            tn_tensor *before = t[r];
            t[r] = tn_add_scalar(s, before, (double)r + 1);
            tn_drop(s, before);
            gathered[r] = tn_full(s, TN_INTS(RANKS), -1, .dtype = TN_FLOAT64, .device = devices[r]);
        }
        good(tn_communicator_all_gather(all, gathered, t, RANKS));
        good(tn_communicator_all_reduce(all, t, RANKS, TN_REDUCE_SUM));
        for (uint32_t r = 0; r < RANKS; r++) {
            tn_mul_scalar_(s, t[r], 0.5);
            tn_add_(s, t[r], tn_select(s, gathered[r], 0, 0));
            tn_drop(s, gathered[r]);
        }
        value[0] = value[0] + 1 + (value[0] + 1 + value[1] + 2) / 2;
        value[1] = value[0];
    }
    for (uint32_t r = 0; r < RANKS; r++) expect_values(t[r], value, 1);
    for (uint32_t r = 0; r < RANKS; r++) {
        tn_stream_set_current(ctx, tn_stream_default(ctx, devices[r]));
        tn_stream_release(side[r]);
    }
    finish();
}

Test(collectives, a_barrier_orders_what_lies_on_both_sides)
{
    tn_event *event = NULL;
    tn_tensor *x = tn_zeros(s, TN_INTS(4), .device = devices[1]);
    good(tn_device_synchronize(ctx, devices[1]));
    setenv("FAULTY_DELAY", "100", 1);
    good(tn_event_create(ctx, devices[1], 0, &event));
    tn_add_scalar_(s, x, 1.0);
    good(tn_event_record(event, tn_stream_current(ctx, devices[1])));
    good(tn_communicator_barrier(all));
    good(tn_stream_synchronize(tn_stream_current(ctx, devices[0])));
    cr_assert_eq(tn_event_query(event), 1, "device 0 went on before device 1 had come");
    tn_event_release(event);
    finish();
}

/* One thread sends, then receives: messages of several pieces and of one element, both ways. */
Test(collectives, messages_between_two_ranks_keep_their_order)
{
    const int64_t sizes[] = {400000, 1};
    for (uint32_t from = 0; from < RANKS; from++) {
        tn_tensor *sent[2], *got[2];
        for (int k = 0; k < 2; k++) {
            sent[k] = tn_full(s, TN_INTS(sizes[k]), from * 2.0 + k + 1, .dtype = TN_FLOAT32,
                              .device = devices[from]);
            got[k] = tn_zeros(s, TN_INTS(sizes[k]), .dtype = TN_FLOAT32, .device = devices[1 - from]);
            good(tn_communicator_send(all, sent[k], 1 - from));
        }
        for (int k = 0; k < 2; k++) good(tn_communicator_receive(all, got[k], from));
        for (int k = 0; k < 2; k++) {
            cr_assert_eq(tn_item_double(s, tn_sum(s, got[k])), (from * 2.0 + k + 1) * (double)sizes[k]);
            cr_assert_eq(tn_item_double(s, tn_select(s, got[k], 0, -1)), from * 2.0 + k + 1);
        }
    }
    finish();
}

Test(collectives, the_first_message_may_be_received_before_it_is_sent)
{
    tn_tensor *t[RANKS];
    make(TN_FLOAT32, 2, (const double[]){3, 8}, t);
    good(tn_communicator_receive(all, t[0], 1));
    good(tn_communicator_send(all, t[1], 0));
    expect_values(t[0], (const double[]){8, 9}, 2);
    finish();
}

#ifndef HIP
/* The library makes devices current; the program's thread keeps its own context. */
Test(collectives, the_thread_keeps_its_context)
{
    int (*get)(void **), (*set)(void *), (*pop)(void **);
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD), *context = &context, *before;
    uint64_t second = 0;
    *(void **)(void *)&get = dlsym(library, "cuCtxGetCurrent");
    *(void **)(void *)&set = dlsym(library, "cuCtxPushCurrent_v2");
    *(void **)(void *)&pop = dlsym(library, "cuCtxPopCurrent_v2");
    expect_sums();
    cr_assert_eq(get(&context), 0);
    cr_assert_null(context);
    good(tn_device_native(ctx, devices[1], TN_NATIVE_CONTEXT, &second));
    cr_assert_eq(set((void *)(uintptr_t)second), 0);
    expect_sums();
    make_anew();
    cr_assert_eq(get(&context), 0);
    cr_assert_eq(context, (void *)(uintptr_t)second);
    cr_assert_eq(pop(&before), 0);
    finish();
}
#endif

/* ---- Failures ----------------------------------------------------------------------------------------------- */

static const char *const functions[] = {"ncclGetUniqueId", "ncclCommInitRank",     "ncclGroupStart",
                                        "ncclGroupEnd",    "ncclAllReduce",        "ncclBroadcast",
                                        "ncclAllGather",   "ncclReduceScatter",    "ncclSend",
                                        "ncclRecv",        "ncclCommDestroy",      "ncclCommAbort",
                                        "ncclGetVersion",  "ncclCommGetAsyncError"};

typedef struct failure {
    int function, call;
} failure;

ParameterizedTestParameters(failures, a_failure)
{
    static failure failures[2 * sizeof functions / sizeof *functions];
    size_t n = sizeof failures / sizeof *failures;
    for (size_t i = 0; i < n; i++) failures[i] = (failure){(int)(i / 2), (int)(i % 2) + 1};
    return cr_make_param_array(failure, failures, n);
}

/* Every call; the first error is written down. */
static int32_t use_all(char *error, size_t size)
{
    tn_tensor *a[RANKS], *b[RANKS];
    make(TN_FLOAT32, 2, (const double[]){1, 2}, a);
    make(TN_FLOAT32, 4, (const double[]){1, 2}, b);
    int32_t status = tn_communicator_all_reduce(all, a, RANKS, TN_REDUCE_SUM);
    if (!status) status = tn_communicator_broadcast(all, a, RANKS, 1);
    if (!status) status = tn_communicator_all_gather(all, b, a, RANKS);
    if (!status) status = tn_communicator_reduce_scatter(all, a, b, RANKS, TN_REDUCE_SUM);
    if (!status) status = tn_communicator_all_reduce(all, a, RANKS, TN_REDUCE_SUM);
    if (!status) status = tn_communicator_send(all, a[0], 1);
    if (!status) status = tn_communicator_receive(all, a[1], 0);
    if (status) snprintf(error, size, "%s", tn_last_error()->message);
    return status;
}

/* The function fails once: an error by name, and a communicator that can be made anew. finish looks at what is left. */
ParameterizedTest(failure *f, failures, a_failure)
{
    char fault[64], error[512] = "", expected[128];
    const char *name = functions[f->function];
    snprintf(fault, sizeof fault, "%s:%d:%d", name, f->call, f->call == 1 ? 1 : 3);
    setenv("LIBRARY_FAIL", fault, 1);
    int32_t status = tn_communicator_create(ctx, devices, RANKS, &all);
    if (status) snprintf(error, sizeof error, "%s", tn_last_error()->message);
    if (!status) status = use_all(error, sizeof error);
    const int gives_back = strstr(name, "Destroy") || strstr(name, "Abort"),
              asks_once = strstr(name, "Version") != NULL;
    snprintf(expected, sizeof expected, "%s%s failed: %s (", name, asks_once ? " of " COLLECTIVES : "",
             f->call == 1 ? "ncclUnhandledCudaError" : "ncclInternalError");
    if (asks_once) *strrchr(expected, ':') = 0;
    if (!gives_back && !(f->call == 2 && (asks_once || strstr(name, "UniqueId")))) {
        cr_assert_neq(status, TN_OK, "no error");
        cr_assert(strstr(error, expected), "%s", error);
    } else {
        cr_assert_eq(status, TN_OK, "%s", error);
    }
    if (all && status && !strstr(name, "AsyncError") &&
        !strstr(name, "GroupStart")) /* those have begun nothing */
        cr_assert_neq(tn_communicator_status(all), TN_OK,
                      "the communicator does not know that it has failed");
    tn_clear_error();
    for (int second = 0; all && second < 2; second++) { /* of two, the second may be what fails */
        const int32_t ended = tn_communicator_abort(all);
        if (ended)
            cr_assert(strstr(tn_last_error()->message, "ncclCommAbort failed"), "%s",
                      tn_last_error()->message);
    }
    tn_clear_error();
    for (uint32_t r = 0; r < RANKS; r++) good(tn_device_synchronize(ctx, devices[r]));
    unsetenv("LIBRARY_FAIL");
    if (!asks_once || f->call == 2) make_anew(); /* the library is not asked again */
    finish();
}

/* What the communicator says when it knows; the limit is the test's. */
static int32_t late_status(void)
{
    int32_t status;
    while (!(status = tn_communicator_status(all))) usleep(1000);
    return status;
}

static void expect_late(const char *late, int32_t status, const char *words)
{
    tn_tensor *t[RANKS];
    make(TN_FLOAT32, 2, (const double[]){1, 2}, t);
    setenv("NCCL_TEST_LATE", late, 1);
    good(tn_communicator_all_reduce(all, t, RANKS, TN_REDUCE_SUM));
    const int32_t is = late_status();
    expect_error(is, status, words);
    expect_error(tn_communicator_all_reduce(all, t, RANKS, TN_REDUCE_SUM), status, words);
    good(tn_communicator_abort(all));
    expect_error(tn_communicator_status(all), TN_E_STATE, "aborted");
    cr_assert_eq(count(ABORTS), 2);
}

/* The library says late that a call has failed; streams wait until the communicator is aborted, and go on with another one. */
Test(collectives, a_late_error_ends_the_communicator_and_not_the_devices)
{
    expect_late("1:6", TN_E_STATE, "a call that was queued before failed: ncclRemoteError");
    for (uint32_t r = 0; r < RANKS; r++) good(tn_device_synchronize(ctx, devices[r]));
    make_anew();
    finish();
}

/* A fault of one device: the other one goes on. */
Test(collectives, a_device_that_is_lost_leaves_the_others)
{
    tn_tensor *t[RANKS];
    make(TN_FLOAT32, 2, (const double[]){1, 2}, t);
    for (uint32_t r = 0; r < RANKS; r++) good(tn_device_synchronize(ctx, devices[r]));
    setenv("NCCL_TEST_LATE", "1:700", 1);
    good(tn_communicator_all_reduce(all, t, RANKS, TN_REDUCE_SUM));
    uint32_t lost = 0, is_lost = 0;
    while (!is_lost) {
        usleep(1000);
        for (lost = 0; lost < RANKS && !is_lost; lost++) {
            tn_stream *stream = tn_stream_current(ctx, devices[lost]);
            is_lost = -tn_stream_query(stream) == TN_E_DEVICE_LOST;
        }
    }
#ifdef HIP
    has_lost = 1;
#endif
    const tn_device other = devices[lost - 1 ? 0 : 1];
    cr_assert_neq(tn_communicator_status(all), TN_OK);
    good(tn_communicator_abort(all));
    good(tn_device_synchronize(ctx, other));
    tn_tensor *x = tn_full(s, TN_INTS(3), 2, .dtype = TN_FLOAT32, .device = other);
    expect_values(tn_add(s, x, x), (const double[]){4, 4, 4}, 3);
    tn_communicator_release(all);
    all = NULL;
    good(tn_communicator_create(ctx, &other, 1, &all));
    good(tn_communicator_all_reduce(all, &x, 1, TN_REDUCE_SUM));
    expect_values(x, (const double[]){2, 2, 2}, 3);
    finish();
}

/* Whatever the library calls it, the driver knows what it is. */
Test(collectives, a_call_on_a_lost_device_says_so)
{
    tn_tensor *t[RANKS];
    int32_t status = TN_OK;
    make(TN_FLOAT32, 2, (const double[]){1, 2}, t);
    for (uint32_t r = 0; r < RANKS; r++) good(tn_device_synchronize(ctx, devices[r]));
    setenv("NCCL_TEST_LATE", "1:700", 1);
    while (!status) {
        status = tn_communicator_all_reduce(all, t, RANKS, TN_REDUCE_SUM);
        usleep(1000);
    }
    cr_assert_eq(status, TN_E_DEVICE_LOST, "%s", tn_last_error() ? tn_last_error()->message : "");
#ifdef HIP
    has_lost = 1;
#endif
    good(tn_communicator_abort(all));
    finish();
}

/* ---- Several processes -------------------------------------------------------------------------------------- */

static void run_two_processes(int devices_each)
{
    char id[ID_TEXT];
    make_id(ctx, devices[0], id);
    run_world(id, 2, devices_each);
    finish();
}

Test(processes, two_with_a_device_each)
{
    run_two_processes(1);
}

Test(processes, two_with_two_devices_each)
{
    run_two_processes(2);
}

static int32_t join(const unsigned char *id, uint64_t bytes)
{
    const tn_communicator_group group = {
        .size = sizeof group, .count = 1, .world = 2, .devices = devices, .id = id, .id_bytes = bytes};
    return tn_communicator_join(ctx, &group, &all);
}

Test(processes, a_rank_that_never_comes_and_an_id_of_another_size)
{
    unsigned char id[128];
    uint64_t bytes = 0;
    good(tn_communicator_unique_id(ctx, devices[0], id, sizeof id, &bytes));
    cr_assert_eq(bytes, sizeof id);
    expect_error(join(id, 100), TN_E_ARGUMENT, "the id has 100 bytes; an id of " NCCL_NAME " has 128");
    setenv("NCCL_TEST_WAIT", "100", 1);
    expect_error(join(id, bytes), TN_E_INTERNAL,
                 "ncclGroupEnd failed: ncclSystemError (an error for tests): the last warning");
    finish();
}

/* The other process is killed: a call fails late, and abort lets the stream go on. */
Test(processes, one_that_is_killed_is_a_late_error_of_the_other)
{
    char text[ID_TEXT];
    unsigned char id[128];
    make_id(ctx, devices[0], text);
    for (int i = 0; i < 128; i++) {
        unsigned byte;
        cr_assert_eq(sscanf(text + 2 * i, "%2x", &byte), 1);
        id[i] = (unsigned char)byte;
    }
    pid_t child = start_rank("leave", text, 2, 1, 1);
    good(join(id, sizeof id));
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status));
    tn_tensor *x = tn_ones(s, TN_INTS(3), .dtype = TN_FLOAT32, .device = devices[0]);
    good(tn_communicator_all_reduce(all, &x, 1, TN_REDUCE_SUM));
    const int32_t is = late_status();
    expect_error(is, TN_E_STATE, "ncclRemoteError (remote process exited or there was a network error)");
    good(tn_communicator_abort(all));
    good(tn_device_synchronize(ctx, devices[0]));
    make_anew();
    finish();
}

/* ---- Without the library ------------------------------------------------------------------------------------ */

/* The library is absent, old or cannot be loaded: the reason says which. */
Test(no_collectives, the_reason_is_said)
{
    unsigned char id[128];
    uint64_t bytes = 0;
    const char *folder = getenv("UNLOADABLE");
    char why[300] = "not found", reason[400];
    if (getenv("NCCL_TEST_VERSION")) snprintf(why, sizeof why, "has version 20906, the plugin needs 21000");
    if (folder) snprintf(why, sizeof why, "cannot be loaded: %s/" COLLECTIVES ": invalid ELF header", folder);
    snprintf(reason, sizeof reason, DEVICE ": " COLLECTIVES " %s: there are no collectives", why);
    for (int i = 0; i < 2; i++) {
        expect_error(tn_communicator_create(ctx, devices, RANKS, &all), TN_E_UNSUPPORTED, reason);
        expect_error(tn_communicator_unique_id(ctx, devices[0], id, sizeof id, &bytes), TN_E_UNSUPPORTED,
                     reason);
    }
    tn_tensor *x = tn_ones(s, TN_INTS(2), .device = devices[1]);
    expect_values(tn_add(s, x, x), (const double[]){2, 2}, 2);
    finish();
}
