/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products by a cuBLASLt or hipBLASLt for tests (libcublaslt.c) and by the plugin's own kernels: the same values, plans that are kept, TF32,
 * deterministic sums, and what happens when the library is absent or fails.
 */
#define LIBRARY FIRST_OF(VENDOR_BLAS_FILES)
#include <library_names.h>
#include "session.h"
#include "../../gpu/product_forms.h"

enum { PRODUCTS, CHOICES, LIVE };

TestSuite(products, .init = open_device, .fini = close_device, .timeout = 120);
TestSuite(absent, .init = open_device, .fini = close_device, .timeout = 60);
TestSuite(kept, .init = open_device, .fini = close_device, .timeout = 300);

/* ---- Values --------------------------------------------------------------------------------------------- */

#ifdef HIP
enum { HAS_CONVOLUTIONS = 1 };
#else
enum { HAS_CONVOLUTIONS = 0 };
#endif

Test(products, the_library_computes_what_the_kernels_compute)
{
    static const struct {
        tn_dtype dtype;
        double tolerance;
    } dtypes[] = {{TN_FLOAT16, 8e-3}, {TN_BFLOAT16, 7e-2}, {TN_FLOAT32, 1e-5}, {TN_FLOAT64, 1e-12}};
    for (int i = 0; i < 4; i++) {
        for (int form = 0; form < FORMS; form++) {
            /* a scaled bias, columns apart from each other, a bias of float64, and windows that are not
             * float32 are the kernels'; MIOpen, which lies beside hipBLASLt, takes all windows */
            int is_left = form == ADDMM_HALF_BIAS || form == EVERY_EIGHTH ||
                          (dtypes[i].dtype == TN_FLOAT64 && (form == ADDMM_BIAS || form == LINEAR)) ||
                          (form == CONVOLUTION && (HAS_CONVOLUTIONS || i != 2));
            int did = compare_products(form, dtypes[i].dtype, dtypes[i].tolerance, PRODUCTS);
            cr_assert(is_left ? did == 0 : did >= 1, "form %d, dtype %d: %d products by the library", form, i,
                      did);
        }
    }
    expect_in(said, "2 " DEVICE ":0: " VENDOR_BLAS " %d computes products", LT_KEEPS_ORDER ? 130000 : 100000);
}

Test(products, integers_and_mixed_forms_are_left_to_the_kernels)
{
    tn_tensor *a = tn_full(s, TN_INTS(3, 4), tn_value_int(2), .dtype = TN_INT64);
    cr_assert_eq(tn_item_double(s, tn_max(s, tn_mm(s, a, tn_t(s, a)))), 16);
    tn_tensor *spread = tn_select(s, numbers(TN_FLOAT32, TN_INTS(4, 4, 2)), 2, 0); /* nothing is contiguous */
    use_library(1);
    tn_tensor *got = tn_mm(s, spread, spread);
    cr_assert_lt(difference(got, tn_mm(s, tn_contiguous(s, spread), tn_contiguous(s, spread))), 1e-6);
    cr_assert_eq(count(PRODUCTS), 1, "only the contiguous one: %d", count(PRODUCTS));
}

/* ---- Plans ---------------------------------------------------------------------------------------------- */

Test(products, a_plan_is_made_once_for_each_kind_of_product)
{
    tn_tensor *a = numbers(TN_FLOAT32, TN_INTS(8, 16)), *b = numbers(TN_FLOAT32, TN_INTS(16, 8));
    for (int i = 0; i < 5; i++) tn_mm(s, a, b);
    cr_assert_eq(count(CHOICES), 1);
    tn_mm(s, a, tn_contiguous(s, b));
    cr_assert_eq(count(CHOICES), 1, "other memory, the same alignment");
    tn_mm(s, b, a);
    cr_assert_eq(count(CHOICES), 2, "other sizes");
    tn_tensor *odd =
        tn_reshape(s, tn_narrow(s, numbers(TN_FLOAT32, TN_INTS(129)), 0, 1, 128), TN_INTS(8, 16));
    tn_mm(s, odd, b);
    cr_assert_eq(count(CHOICES), 3, "another alignment");
    cr_assert_eq(count(PRODUCTS), 8);
    expect_objects_until_the_end(LIVE);
}

/* Every matrix but the first begins at an odd element. */
Test(products, the_library_is_told_of_the_least_alignment_of_a_batch)
{
    tn_tensor *all = numbers(TN_FLOAT16, TN_INTS(256)),
              *a = tn_as_strided(s, all, TN_INTS(3, 8, 8), TN_INTS(65, 8, 1)), *b = tn_contiguous(s, a);
    tn_tensor *product = tn_bmm(s, a, b);
    cr_assert_eq(count(PRODUCTS), 1);
    use_library(0);
    cr_assert_lt(difference(product, tn_bmm(s, b, b)), 8e-3);
}

Test(products, each_call_has_its_own_bias)
{
    tn_tensor *x = tn_ones(s, TN_INTS(2, 3), .dtype = TN_FLOAT32),
              *w = tn_ones(s, TN_INTS(2, 3), .dtype = TN_FLOAT32);
    for (int i = 1; i < 4; i++) {
        tn_tensor *bias = tn_full(s, TN_INTS(2), tn_value_float(i), .dtype = TN_FLOAT32);
        cr_assert_eq(tn_item_double(s, tn_max(s, tn_linear(s, x, w, .bias = bias))), 3 + i);
    }
    cr_assert_eq(count(PRODUCTS), 3);
    cr_assert_eq(count(CHOICES), 1);
}

/* The choice has looked at the alignment of the bias. */
Test(products, a_bias_of_another_alignment_has_a_plan_of_its_own)
{
    tn_tensor *x = tn_ones(s, TN_INTS(2, 3), .dtype = TN_FLOAT32),
              *w = tn_ones(s, TN_INTS(2, 3), .dtype = TN_FLOAT32),
              *all = tn_full(s, TN_INTS(6), tn_value_float(4), .dtype = TN_FLOAT32);
    for (int i = 0; i < 2; i++) {
        tn_tensor *bias = tn_narrow(s, all, 0, 4 * i, 2); /* 16 bytes apart */
        cr_assert_eq(tn_item_double(s, tn_max(s, tn_linear(s, x, w, .bias = bias))), 7);
        cr_assert_eq(count(CHOICES), 1 + i);
    }
    cr_assert_eq(count(PRODUCTS), 2);
}

/* ---- How exact ------------------------------------------------------------------------------------------ */

Test(products, tf32_is_a_switch)
{
    tn_tensor *a = tn_full(s, TN_INTS(2, 2), tn_value_float(1 + 0x1p-12), .dtype = TN_FLOAT32);
    tn_tensor *b = tn_eye(s, 2, .dtype = TN_FLOAT32);
    cr_assert_eq(tn_item_double(s, tn_max(s, tn_mm(s, a, b))), 1 + 0x1p-12);
    tn_set_call_flags(ctx, TN_CALL_ALLOW_TF32, TN_CALL_ALLOW_TF32);
    cr_assert_eq(tn_item_double(s, tn_max(s, tn_mm(s, a, b))), 1);
    tn_set_call_flags(ctx, 0, TN_CALL_ALLOW_TF32);
    cr_assert_eq(tn_item_double(s, tn_max(s, tn_mm(s, a, b))), 1 + 0x1p-12);
    cr_assert_eq(count(PRODUCTS), 3);
}

#ifdef HIP
/* TF32 is allowed, and the GPU has none: the library computes in float32. */
Test(products, a_gpu_without_tf32_still_has_the_library)
{
    tn_tensor *a = tn_full(s, TN_INTS(2, 2), tn_value_float(1 + 0x1p-12), .dtype = TN_FLOAT32);
    tn_tensor *b = tn_eye(s, 2, .dtype = TN_FLOAT32);
    setenv("HIPBLASLT_NO_TF32", "1", 1);
    tn_set_call_flags(ctx, TN_CALL_ALLOW_TF32, TN_CALL_ALLOW_TF32);
    for (int i = 1; i < 3; i++) {
        cr_assert_eq(tn_item_double(s, tn_max(s, tn_mm(s, a, b))), 1 + 0x1p-12);
        cr_assert_eq(count(PRODUCTS), i);
    }
    cr_assert_eq(count(CHOICES), 2, "one in TF32, one in float32");
    expect_objects_until_the_end(LIVE);
}
#endif

/* How many of ten calls differ from the first one. */
static int different_calls(tn_dtype dtype)
{
    tn_tensor *a = numbers(dtype, TN_INTS(8, 300)), *b = numbers(dtype, TN_INTS(300, 8));
    tn_tensor *first = tn_mm(s, a, b);
    int n = 0;
    for (int i = 0; i < 10; i++) n += !tn_equal(s, tn_mm(s, a, b), first);
    return n;
}

Test(products, deterministic_calls_give_the_same_bits)
{
    cr_assert_gt(different_calls(TN_FLOAT32), 0, "the library for tests changes its order");
    const int before = count(PRODUCTS);
    tn_set_deterministic(ctx, 1);
    cr_assert_eq(different_calls(TN_FLOAT32), 0);
    cr_assert_eq(count(PRODUCTS) > before, LT_KEEPS_ORDER, "products by the library");
}

#ifndef HIP
/* Parts of sums in half types are put together in float32, unless the program allows less. */
Test(products, sums_of_half_types_are_float32)
{
    tn_set_call_flags(ctx, 0, TN_CALL_ALLOW_HALF_ACCUMULATION);
    cr_assert_eq(different_calls(TN_FLOAT16), 0);
    tn_set_call_flags(ctx, TN_CALL_ALLOW_HALF_ACCUMULATION, TN_CALL_ALLOW_HALF_ACCUMULATION);
    cr_assert_gt(different_calls(TN_FLOAT16), 0);
}
#endif

/* ---- Streams and graphs --------------------------------------------------------------------------------------------- */

static tn_tensor *multiply_alike(double x)
{
    return tn_mm(s, tn_full(s, TN_INTS(4, 4), tn_value_float(x), .dtype = TN_FLOAT32),
                 tn_ones(s, TN_INTS(4, 4), .dtype = TN_FLOAT32));
}

static double four_times(double x)
{
    return 4 * x;
}

Test(products, work_is_in_the_order_of_its_stream)
{
    expect_in_order(multiply_alike, four_times);
#ifdef HIP
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    int (*live)(void);
    *(void **)(void *)&live = dlsym(library, "cuda_test_live");
    close_device();
    cr_assert_eq(live(), 0, "the event is left");
#endif
}

#ifdef HIP
static tn_tensor *multiply_without_event(double x)
{
    tn_tensor *a = tn_full(s, TN_INTS(4, 4), tn_value_float(x), .dtype = TN_FLOAT32),
              *b = tn_ones(s, TN_INTS(4, 4), .dtype = TN_FLOAT32);
    setenv("HIP_TEST_NO_RECORDS", "1", 1);
    tn_tensor *out = tn_mm(s, a, b);
    unsetenv("HIP_TEST_NO_RECORDS");
    return out;
}

/* Work on the other stream would not wait for the product. */
Test(products, without_an_event_the_host_waits)
{
    expect_in_order_from(1, multiply_without_event, four_times);
    cr_assert_eq(count(PRODUCTS), 2);
}
#endif

static tn_tensor *square(tn_tensor *a)
{
    return tn_mm(s, a, a);
}

static double square_of_four(double x)
{
    return 4 * x * x;
}

#ifdef HIP
Test(products, captures_have_the_kernels)
{
    tn_tensor *a = tn_ones(s, TN_INTS(4, 4), .dtype = TN_FLOAT32);
    cr_assert_eq(calls_for_replays(a, tn_zeros_like(s, a), square, square_of_four, PRODUCTS), 0);
}

/* A stream that captures until end_capture, beside the current one. */
typedef struct captured {
    tn_stream *stream;
    tn_graph *graph;
} captured;

static captured begin_capture(tn_stream *stream)
{
    captured c = {.stream = stream};
    cr_assert_eq(tn_graph_create(ctx, device, &c.graph), TN_OK);
    cr_assert_eq(tn_graph_capture_begin(c.graph, stream), TN_OK, "%s",
                 tn_last_error() ? tn_last_error()->message : "");
    return c;
}

static void end_capture(captured c)
{
    cr_assert_eq(tn_graph_capture_end(c.graph), TN_OK, "%s", tn_last_error() ? tn_last_error()->message : "");
    tn_graph_release(c.graph);
    tn_stream_release(c.stream);
}

/* The library would wait for the device, which breaks all captures of the process. */
Test(products, a_capture_of_another_stream_opens_no_library_and_makes_no_plan)
{
    tn_stream *side[2] = {NULL};
    tn_tensor *a = tn_ones(s, TN_INTS(4, 4), .dtype = TN_FLOAT32),
              *b = tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32);
    for (int i = 0; i < 2; i++) cr_assert_eq(tn_stream_create(ctx, device, 0, &side[i]), TN_OK);
    captured c = begin_capture(side[0]);
    cr_assert_eq(tn_item_double(s, tn_max(s, square(a))), 4);
    cr_assert_eq(count(PRODUCTS), -1, "the library was opened");
    end_capture(c);
    square(a);
    cr_assert_eq(count(PRODUCTS), 1);
    c = begin_capture(side[1]);
    cr_assert_eq(tn_item_double(s, tn_max(s, square(b))), 2);
    cr_assert_eq(count(CHOICES), 1, "a plan was made");
    square(a);
    cr_assert_eq(count(PRODUCTS), 2, "there is a plan");
    end_capture(c);
    square(b);
    cr_assert_eq(count(CHOICES), 2, "nothing was remembered");
}

Test(products, the_stream_of_the_last_work_may_capture)
{
    tn_stream *home = tn_stream_current(ctx, device), *side = NULL;
    tn_tensor *a = tn_ones(s, TN_INTS(4, 4), .dtype = TN_FLOAT32);
    cr_assert_eq(tn_stream_create(ctx, device, 0, &side), TN_OK);
    tn_stream_wait_stream(side, home);
    tn_stream_set_current(ctx, side);
    square(a);
    tn_stream_set_current(ctx, home);
    captured c = begin_capture(side);
    cr_assert_eq(tn_item_double(s, tn_max(s, square(a))), 4);
    cr_assert_eq(count(PRODUCTS), 2);
    end_capture(c);
}
#else
Test(products, products_of_the_library_are_captured)
{
    tn_tensor *a = tn_ones(s, TN_INTS(4, 4), .dtype = TN_FLOAT32);
    cr_assert_eq(calls_for_replays(a, tn_zeros_like(s, a), square, square_of_four, PRODUCTS), 1);
}
#endif

Test(products, a_capture_does_not_open_the_library)
{
    tn_tensor *a = tn_ones(s, TN_INTS(4, 4), .dtype = TN_FLOAT32);
    expect_kernels_in_captures(a, tn_zeros_like(s, a), square, square_of_four, PRODUCTS);
}

Test(products, a_capture_makes_no_plan)
{
    tn_tensor *a = tn_ones(s, TN_INTS(4, 4), .dtype = TN_FLOAT32);
    square(tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32));
    capture_and_replay(a, tn_zeros_like(s, a), square, square_of_four);
    cr_assert_eq(count(PRODUCTS), 1);
    cr_assert_eq(count(CHOICES), 1);
    square(a);
    cr_assert_eq(count(CHOICES), 2, "nothing was remembered");
    cr_assert_eq(count(PRODUCTS), 2);
}

/* ---- Failures ------------------------------------------------------------------------------------------- */

/*
 * Whichever function fails while a plan is made, or if the product is refused, the kernels compute it, unless it was for memory: then
 * the call is made once more. How many of two products with a bias and two without the library does: what it refuses as such is
 * remembered, and other failures are not.
 */
static const struct {
    const char *function;
    int call, status, by_library;
} failures[] = {
    {NAME(cublasLtCreate), 1, CUBLAS_NOT_INITIALIZED, 0},
    {NAME(cublasLtMatmulDescCreate), 1, CUBLAS_ALLOC_FAILED, 4},
    {NAME(cublasLtMatmulDescSetAttribute), 1, CUBLAS_INVALID_VALUE, 2},
    {NAME(cublasLtMatmulDescSetAttribute), 2, CUBLAS_INVALID_VALUE, 2},
    {NAME(cublasLtMatmulDescSetAttribute), 3, CUBLAS_INVALID_VALUE, 2},
    {NAME(cublasLtMatmulDescSetAttribute), 4, CUBLAS_INVALID_VALUE, 2},
    {NAME(cublasLtMatrixLayoutCreate), 1, CUBLAS_ALLOC_FAILED, 4},
    {NAME(cublasLtMatrixLayoutCreate), 4, CUBLAS_ALLOC_FAILED, 4},
    {NAME(cublasLtMatrixLayoutSetAttribute), 1, CUBLAS_INVALID_VALUE, 2},
    {NAME(cublasLtMatrixLayoutSetAttribute), 2, CUBLAS_INVALID_VALUE, 2},
    {NAME(cublasLtMatmulPreferenceCreate), 1, CUBLAS_ALLOC_FAILED, 4},
    {NAME(cublasLtMatmulPreferenceSetAttribute), 1, CUBLAS_INVALID_VALUE, 2},
    {NAME(cublasLtMatmulAlgoGetHeuristic), 1, CUBLAS_NOT_SUPPORTED, 2},
    {NAME(cublasLtMatmulAlgoGetHeuristic), 1, CUBLAS_ARCH_MISMATCH, 2},
    {NAME(cublasLtMatmulAlgoGetHeuristic), 1, CUBLAS_EXECUTION_FAILED, 3},
    {NAME(cublasLtMatmul), 1, CUBLAS_NOT_SUPPORTED, 2},
    {NAME(cublasLtMatmul), 1, CUBLAS_INVALID_VALUE, 2},
#ifdef HIP
    {NAME(cublasLtMatmulDescSetAttribute), 1, CUBLAS_INVALID_ENUM, 2},
    {NAME(cublasLtMatmulAlgoGetHeuristic), 1, CUBLAS_INTERNAL_ERROR, 2},
    {NAME(cublasLtMatmul), 1, CUBLAS_INTERNAL_ERROR, 2},
#else /* hipBLASLt has one preference */
    {NAME(cublasLtMatmulPreferenceSetAttribute), 2, CUBLAS_INVALID_VALUE, 2},
    {NAME(cublasLtMatmulPreferenceSetAttribute), 6, CUBLAS_INVALID_VALUE, 2},
#endif
};

TEST_OF_ROWS(products, a_failure_before_the_work_is_left_to_the_kernels, failures)
{
    const char *failure = failures[*row].function;
    let_fail(failure, failures[*row].call, failures[*row].status);
    tn_tensor *want = (use_library(0), multiply(BMM, TN_FLOAT32)), *biased = multiply(LINEAR, TN_FLOAT32);
    use_library(1);
    for (int i = 0; i < 2; i++) { /* with the bias first: it has the most attributes */
        cr_assert_lt(difference(multiply(LINEAR, TN_FLOAT32), biased), 1e-5);
        cr_assert_lt(difference(multiply(BMM, TN_FLOAT32), want), 1e-5);
    }
    cr_assert_eq(count(PRODUCTS), failures[*row].by_library, "%s: %d products by the library", failure,
                 count(PRODUCTS));
    if (*row == 0) expect_in(said, NAME(cublasLtCreate) " failed");
    close_device();
    cr_assert_eq(count(LIVE), 0, "%s: objects are left", failure);
}

Test(products, a_product_that_fails_is_an_error_with_its_name)
{
    let_fail(NAME(cublasLtMatmul), 1, CUBLAS_EXECUTION_FAILED);
    tn_tensor *a = tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32);
    tn_mm(s, a, a);
    cr_assert_eq(tn_scope_failed(s), TN_E_INTERNAL);
    expect_in(tn_scope_error(s)->message, NAME(cublasLtMatmul) " failed: ");
    expect_in(tn_scope_error(s)->message, "BLAS_STATUS_EXECUTION_FAILED");
    tn_scope_clear(s);
    cr_assert_eq(tn_item_double(s, tn_max(s, tn_mm(s, a, a))), 2);
}

/* Out of memory: the call is made once more. */
Test(products, a_product_without_memory_is_tried_again)
{
    let_fail(NAME(cublasLtMatmul), 1, CUBLAS_ALLOC_FAILED);
    tn_tensor *a = tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32);
    cr_assert_eq(tn_item_double(s, tn_max(s, tn_mm(s, a, a))), 2);
    cr_assert_eq(count(PRODUCTS), 1);
}

#ifndef HIP
/* A tensor of all memory but 32 MiB, with which no library starts. */
static tn_tensor *take_memory(void)
{
    uint64_t available = 0, total = 0;
    cr_assert_eq(tn_device_memory(ctx, device, &available, &total), TN_OK);
    tn_tensor *t = tn_empty(s, TN_INTS((int64_t)available - (32 << 20)), .dtype = TN_UINT8);
    cr_assert(t, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    return t;
}

Test(products, a_library_starts_when_the_caches_were_emptied)
{
    tn_tensor *a = tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32);
    tn_drop(s, take_memory());
    cr_assert_eq(tn_item_double(s, tn_max(s, tn_mm(s, a, a))), 2);
    cr_assert_eq(count(PRODUCTS), 1);
}

Test(products, the_kernels_compute_as_long_as_a_library_lacks_memory_to_start)
{
    tn_tensor *a = tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32), *most = take_memory();
    for (int i = 0; i < 2; i++) cr_assert_eq(tn_item_double(s, tn_max(s, tn_mm(s, a, a))), 2);
    cr_assert_eq(count(PRODUCTS), 0);
    tn_drop(s, most);
    cr_assert_eq(tn_item_double(s, tn_max(s, tn_mm(s, a, a))), 2);
    cr_assert_eq(count(PRODUCTS), 1);
}

/* It may be for memory: caches are emptied, and the call is made once more. */
Test(products, a_product_that_fails_with_little_memory_is_tried_again)
{
    tn_tensor *a = tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32);
    tn_mm(s, a, a);
    tn_drop(s, take_memory());
    let_fail(NAME(cublasLtMatmul), 1, CUBLAS_EXECUTION_FAILED);
    cr_assert_eq(tn_item_double(s, tn_max(s, tn_mm(s, a, a))), 2);
    cr_assert_eq(count(PRODUCTS), 2);
    take_memory();
    let_fail(NAME(cublasLtMatmul), 0, CUBLAS_EXECUTION_FAILED);
    tn_mm(s, a, a);
    cr_assert_eq(tn_scope_failed(s), TN_E_OUT_OF_MEMORY);
    expect_in(tn_scope_error(s)->message, NAME(cublasLtMatmul) " failed: CUBLAS_STATUS_EXECUTION_FAILED");
}
#endif

#ifdef HIP
/* The library would end the process. */
Test(products, a_library_that_lacks_memory_to_start_is_asked_again)
{
    tn_tensor *a = tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32);
    setenv("HIP_TEST_ROOM", "33554431", 1);
    cr_assert_eq(tn_item_double(s, tn_max(s, tn_mm(s, a, a))), 2);
    cr_assert_eq(count(PRODUCTS), 0);
    unsetenv("HIP_TEST_ROOM");
    cr_assert_eq(tn_item_double(s, tn_max(s, tn_mm(s, a, a))), 2);
    cr_assert_eq(count(PRODUCTS), 1);
    expect_objects_until_the_end(LIVE);
}
#endif

/* The library says that its work has failed. The driver says why: the context is lost. */
Test(products, a_fault_of_a_product_is_a_lost_device)
{
    setenv("LIBRARY_FAULT", "1", 1);
    tn_tensor *a = tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32);
    tn_mm(s, a, a);
    cr_assert_eq(tn_scope_failed(s), TN_E_DEVICE_LOST, "%s", tn_scope_error(s)->message);
    expect_in(tn_scope_error(s)->message, NAME(cublasLtMatmul) " failed: ");
    close_device(); /* hipBLASLt would end the process if it had to free memory now */
}

#ifndef HIP
/* The first one that is good, and the last one that is not. */
Test(products, an_old_library_is_not_used)
{
    tn_tensor *a = tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32);
    for (int is_old = 0; is_old < 2; is_old++) {
        setenv("CUBLASLT_TEST_VERSION", is_old ? "120099" : "120100", 1);
        cr_assert_eq(tn_item_double(s, tn_max(s, tn_mm(s, a, a))), 2);
        cr_assert_eq(count(PRODUCTS), 1);
        close_device();
        cr_assert_eq(count(LIVE), 0);
        open_device();
        a = tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32);
    }
    expect_in(said, "cuBLASLt 120099 is older than 120100: the plugin's own kernels compute products");
}

/* In an environment whose newest library does not start, or cannot be loaded. */
Test(older, the_next_library_computes_products, .init = open_device, .fini = close_device)
{
    tn_tensor *a = tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32);
    void *library;
    int (*counted)(int);
    cr_assert_eq(tn_item_double(s, tn_max(s, tn_mm(s, a, a))), 2);
    expect_in(said, VENDOR_BLAS " 130000 computes products");
    cr_assert_not(strstr(said, "failed"), "%s", said);
    cr_assert_leq(count(PRODUCTS), 0);
    library = dlopen("libcublasLt.so.12", RTLD_NOW | RTLD_NOLOAD);
    *(void **)(void *)&counted = dlsym(library, "stand_in_count");
    cr_assert_eq(counted(PRODUCTS), 1);
}
#endif

/* In an environment without the library. */
Test(absent, the_kernels_compute_products_and_the_log_says_so)
{
    tn_tensor *a = tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32);
    cr_assert_eq(tn_item_double(s, tn_max(s, tn_mm(s, a, a))), 2);
    cr_assert_eq(count(PRODUCTS), -1);
    expect_in(said, "%s not found: the plugin's own kernels compute products", LIBRARY);
}

#ifndef HIP
/* In an environment whose newest library cannot be loaded, and which has no other. */
Test(unloadable, the_kernels_compute_products_and_the_log_says_so, .init = open_device, .fini = close_device)
{
    tn_tensor *a = tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32);
    cr_assert_eq(tn_item_double(s, tn_max(s, tn_mm(s, a, a))), 2);
    expect_in(said,
              "%s cannot be loaded: %s/%s: invalid ELF header: the plugin's own kernels compute products",
              LIBRARY, getenv("UNLOADABLE"), LIBRARY);
}
#else
/* In an environment whose library is older than the numbers that the plugin has of it. */
Test(old, the_kernels_compute_products_and_the_log_says_so, .init = open_device, .fini = close_device)
{
    tn_tensor *a = tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32);
    cr_assert_eq(tn_item_double(s, tn_max(s, tn_mm(s, a, a))), 2);
    cr_assert_eq(count(PRODUCTS), 0);
    cr_assert_eq(count(LIVE), 0, "the library's handle is left");
    expect_in(said, "hipBLASLt 500 is older than 600: the plugin's own kernels compute products");
}
#endif

/* ---- Many plans ----------------------------------------------------------------------------------------- */

#ifndef HIP /* hipBLASLt is not captured */
/* As many kinds of products as plans are kept, and one more: `shift` makes them others. */
static void fill_the_table(int64_t shift)
{
    enum { PLANS = 4096 };
    tn_tensor *row = tn_ones(s, TN_INTS(1, 2 * PLANS + 2), .dtype = TN_FLOAT32), *column = tn_t(s, row);
    for (int64_t i = 1; i <= PLANS + 1; i++) {
        tn_scope *own = scope_on_device();
        tn_mm(own, tn_narrow(own, row, 1, 0, i + shift), tn_narrow(own, column, 0, 0, i + shift));
        cr_assert_eq(tn_scope_close(own), TN_OK);
    }
}

Test(kept, the_plan_of_a_graph_stays_and_others_are_forgotten)
{
    tn_tensor *a = tn_ones(s, TN_INTS(3, 3), .dtype = TN_FLOAT32), *out = tn_zeros_like(s, a);
    tn_stream *home = tn_stream_current(ctx, device), *side = NULL;
    tn_graph *graph = NULL;
    tn_mm_out(s, a, a, out);
    cr_assert_eq(tn_stream_create(ctx, device, 0, &side), TN_OK);
    cr_assert_eq(tn_graph_create(ctx, device, &graph), TN_OK);
    tn_stream_wait_stream(side, home);
    tn_stream_set_current(ctx, side);
    cr_assert_eq(tn_graph_capture_begin(graph, side), TN_OK);
    tn_mm_out(s, a, a, out);
    cr_assert_eq(tn_graph_capture_end(graph), TN_OK);
    tn_stream_set_current(ctx, home);
    cr_assert_eq(count(CHOICES), 1);
    for (int round = 0; round < 2; round++) {
        fill_the_table(round);
        const int before = count(CHOICES);
        tn_mm_out(s, a, a, out);
        cr_assert_eq(count(CHOICES), before, "the plan of the graph is gone");
        tn_mm(s, tn_ones(s, TN_INTS(1, 1 + round), .dtype = TN_FLOAT32),
              tn_ones(s, TN_INTS(1 + round, 1), .dtype = TN_FLOAT32));
        cr_assert_eq(count(CHOICES), before + 1, "the first of the others is still there");
    }
    tn_fill_scalar_(s, a, 2);
    cr_assert_eq(tn_graph_replay(graph), TN_OK);
    cr_assert_eq(tn_item_double(s, tn_min(s, out)), 12);
    tn_graph_release(graph);
    tn_stream_release(side);
    expect_objects_until_the_end(LIVE);
}
#endif
