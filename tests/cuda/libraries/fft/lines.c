/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fourier transforms by a cuFFT or hipFFT for tests (libcufft.c) beside those of the plugin's kernels: layouts, scales, plans that are kept,
 * the order of streams, and what happens when the library is absent or fails.
 */
#define LIBRARY FIRST_OF(VENDOR_FFT_FILES)
#include <library_names.h>
#include "session.h"
#include "../../../behaviour/dlpack.h"

enum { LINES, LIVE, PLANS };

TestSuite(lines, .init = open_device, .fini = close_device, .timeout = 120);
TestSuite(absent, .init = open_device, .fini = close_device, .timeout = 60);

static int counted(int what)
{
    const int n = count(what);
    return n < 0 ? 0 : n;
}

static tn_tensor *pairs_of(tn_dtype dtype, tn_ints sizes)
{
    return tn_complex(s, numbers(dtype, sizes), numbers(dtype, sizes));
}

/* Both parts of two complex tensors. */
static double apart(tn_tensor *a, tn_tensor *b)
{
    return difference(tn_view_as_real(s, a), tn_view_as_real(s, b));
}

/* A transform by the library, which takes that many lines, is that of the kernels. */
#define EXPECT_SAME(lines, tolerance, call)                                                \
    {                                                                                      \
        const int before = counted(LINES);                                                 \
        tn_tensor *by_library = (call);                                                    \
        cr_assert_eq(counted(LINES) - before, lines, "%d lines", counted(LINES) - before); \
        use_library(0);                                                                    \
        cr_assert_lt(apart(by_library, (call)), tolerance);                                \
        use_library(1);                                                                    \
    }

Test(lines, of_all_dtypes_and_layouts)
{
    static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT64};
    static const double tolerances[] = {2e-5, 1e-13};
    for (int i = 0; i < 2; i++) {
        tn_tensor *x = pairs_of(dtypes[i], TN_INTS(4, 6, 5)), *real = numbers(dtypes[i], TN_INTS(4, 6, 5));
        tn_tensor *one = pairs_of(dtypes[i], TN_INTS(7));
        for (int forward = 0; forward < 2; forward++) {
            EXPECT_SAME(24, tolerances[i], tn__fft_c2c(s, x, TN_INTS(2), 0, forward))
            EXPECT_SAME(30, tolerances[i], tn__fft_c2c(s, x, TN_INTS(0), 0, forward))
            EXPECT_SAME(1, tolerances[i], tn__fft_c2c(s, one, TN_INTS(0), 0, forward))
        }
        EXPECT_SAME(0, tolerances[i],
                    tn__fft_c2c(s, x, TN_INTS(1), 0, 1)) /* lines between two other dimensions */
        EXPECT_SAME(24, tolerances[i], tn__fft_c2c(s, tn_permute(s, x, TN_INTS(2, 0, 1)), TN_INTS(0), 0, 1))
        EXPECT_SAME(24, tolerances[i], tn__fft_r2c(s, real, TN_INTS(2), 0, 1))
        EXPECT_SAME(0, tolerances[i], tn__fft_r2c(s, real, TN_INTS(2), 0, 0)) /* a whole spectrum */
        EXPECT_SAME(0, tolerances[i], tn__fft_c2c(s, tn_expand(s, one, TN_INTS(3, 7)), TN_INTS(1), 0, 1))
    }
    expect_in(said, "2 " DEVICE ":0: " VENDOR_FFT " 12000 computes Fourier transforms");
}

/* Scales and several dimensions, of which the last is transformed first; back again the input comes out. */
Test(lines, dimensions_and_normalizations)
{
    tn_tensor *x = pairs_of(TN_FLOAT64, TN_INTS(6, 10)), *real = numbers(TN_FLOAT64, TN_INTS(8, 9));
    for (int n = 0; n < 3; n++) {
        EXPECT_SAME(16, 1e-12, tn__fft_c2c(s, x, TN_INTS(0, 1), n, 1))
        EXPECT_SAME(13, 1e-12, tn__fft_r2c(s, real, TN_INTS(0, 1), n, 1))
        EXPECT_SAME(8, 1e-12, tn__fft_r2c(s, real, TN_INTS(1), n, 1))
    }
    cr_assert_lt(apart(tn_fft_ifft2(s, tn_fft_fft2(s, x)), x), 1e-14);
    cr_assert_lt(difference(tn_fft_irfft2(s, tn_fft_rfft2(s, real), .s_ = TN_INTS(8, 9)), real), 1e-14);
}

Test(lines, plans_are_kept_by_their_layout)
{
    tn_tensor *x = pairs_of(TN_FLOAT32, TN_INTS(4, 6));
    for (int i = 0; i < 3; i++) tn__fft_c2c(s, x, TN_INTS(1), 0, i % 2);
    cr_assert_eq(count(PLANS), 1);
    tn__fft_c2c(s, x, TN_INTS(0), 0, 1);
    tn__fft_c2c(s, pairs_of(TN_FLOAT64, TN_INTS(4, 6)), TN_INTS(1), 0, 1);
    tn__fft_c2c(s, pairs_of(TN_FLOAT32, TN_INTS(5, 6)), TN_INTS(1), 0, 1);
    cr_assert_eq(count(PLANS), 4);
    cr_assert_eq(count(LIVE), 4);
    close_device();
    cr_assert_eq(count(LIVE), 0);
}

static tn_tensor *sum_by_fft(double x)
{
    tn_tensor *line = tn_full(s, TN_INTS(4), tn_value_float(x), .dtype = TN_FLOAT32);
    return tn_narrow(s, tn_real(s, tn__fft_r2c(s, line, TN_INTS(0), 0, 1)), 0, 0, 1);
}

static double sum_of_four(double x)
{
    return 4 * x;
}

Test(lines, work_is_in_the_order_of_its_stream)
{
    expect_in_order(sum_by_fft, sum_of_four);
}

/* A capture does not ask the library: a plan could be made in it. */
Test(lines, captures_have_the_kernels)
{
    tn_stream *home = tn_stream_current(ctx, device), *side = NULL;
    tn_graph *graph = NULL;
    tn_tensor *x = tn_ones(s, TN_INTS(4), .dtype = TN_FLOAT32), *out = tn__fft_r2c(s, x, TN_INTS(0), 0, 1);
    const int before = count(LINES);
    cr_assert_eq(tn_stream_create(ctx, device, 0, &side), TN_OK);
    cr_assert_eq(tn_graph_create(ctx, device, &graph), TN_OK);
    tn_stream_wait_stream(side, home);
    tn_stream_set_current(ctx, side);
    cr_assert_eq(tn_graph_capture_begin(graph, side), TN_OK);
    tn_copy_(s, out, tn__fft_r2c(s, x, TN_INTS(0), 0, 1));
    cr_assert_eq(tn_graph_capture_end(graph), TN_OK, "%s", tn_last_error()->message);
    tn_stream_set_current(ctx, home);
    for (int i = 1; i < 4; i++) {
        tn_fill_scalar_(s, x, i);
        cr_assert_eq(tn_graph_replay(graph), TN_OK);
        cr_assert_eq(tn_item_double(s, tn_max(s, tn_view_as_real(s, out))), 4.0 * i);
    }
    cr_assert_eq(count(LINES), before);
    tn_graph_release(graph);
    tn_stream_release(side);
}

/* Memory of another library that begins in the middle of a pair: its offset of 0 says nothing. */
Test(lines, pairs_that_are_not_aligned_are_left_to_the_kernels)
{
    struct DLManagedTensorVersioned *c = NULL;
    tn_tensor *all = numbers(TN_FLOAT64, TN_INTS(9)), *rest = tn_narrow(s, all, 0, 1, 8);
    cr_assert_eq(tn_to_dlpack(all, &c), TN_OK, "%s", tn_last_error()->message);
    c->tensor.data = (char *)c->tensor.data + c->tensor.byte_offset + sizeof(double);
    c->tensor.byte_offset = 0;
    c->tensor.shape[0] = 4;
    c->tensor.dtype.code = 5; /* complex */
    c->tensor.dtype.bits = 128;
    tn_tensor *odd = tn_from_dlpack(s, c);
    cr_assert_not_null(odd, "%s", tn_scope_error(s)->message);
    tn_tensor *even = tn_view_as_complex(s, tn_clone(s, tn_view(s, rest, TN_INTS(4, 2))));
    EXPECT_SAME(0, 1e-13, tn__fft_c2c(s, odd, TN_INTS(0), 0, 1))
    EXPECT_SAME(1, 1e-13, tn__fft_c2c(s, even, TN_INTS(0), 0, 1))
    cr_assert_lt(apart(tn__fft_c2c(s, odd, TN_INTS(0), 0, 1), tn__fft_c2c(s, even, TN_INTS(0), 0, 1)), 1e-13);
}

/* ---- Failures ------------------------------------------------------------------------------------------- */

/*
 * Before the work is queued: the kernels do it, unless it was for memory: then the call is made once more. What the library refuses as
 * such is remembered, and other failures are not: how many of two lines it does in the first call and in the second.
 */
static const struct {
    const char *failure;
    int first, second;
} failures[] = {
    {NAME(cufftCreate) ":1:2", 2, 2},          {NAME(cufftSetAutoAllocation) ":1:4", 0, 0},
    {NAME(cufftMakePlanMany64) ":1:5", 0, 2},  {NAME(cufftMakePlanMany64) ":1:8", 0, 0},
    {NAME(cufftMakePlanMany64) ":1:2", 2, 2},  {NAME(cufftMakePlanMany64) ":1:16", 0, 0},
    {NAME(cufftSetStream) ":1:1", 0, 2},       {NAME(cufftSetWorkArea) ":1:1", 0, 2},
    {NAME(cufftSetWorkArea) ":1:4", 0, 0},
#ifdef HIP
    {NAME(cufftMakePlanMany64) ":1:12", 0, 0}, {NAME(cufftExecC2C) ":1:1", 0, 0}, /* no plan fits */
#else
    {NAME(cufftExecC2C) ":1:13", 0, 0},
#endif
};

TEST_OF_ROWS(lines, a_failure_before_the_work_is_left_to_the_kernels, failures)
{
    setenv("LIBRARY_FAIL", failures[*row].failure, 1);
    tn_tensor *x = pairs_of(TN_FLOAT32, TN_INTS(2, 5)), *other = pairs_of(TN_FLOAT32, TN_INTS(3, 5));
    EXPECT_SAME(failures[*row].first, 1e-5, tn__fft_c2c(s, x, TN_INTS(1), 0, 1))
    EXPECT_SAME(failures[*row].second, 1e-5, tn__fft_c2c(s, x, TN_INTS(1), 0, 1))
    EXPECT_SAME(3, 1e-5, tn__fft_c2c(s, other, TN_INTS(1), 0, 1))
    close_device();
    cr_assert_eq(count(LIVE), 0);
}

static const struct {
    int status;
    const char *name;
} names[] = {{6, VENDOR_FFT_STATUS("EXEC_FAILED")},      {9, VENDOR_FFT_STATUS("UNALIGNED_DATA")},
             {11, VENDOR_FFT_STATUS("INVALID_DEVICE")},  {12, VENDOR_FFT_STATUS("PARSE_ERROR")},
             {14, VENDOR_FFT_STATUS("NOT_IMPLEMENTED")}, {15, "unknown status"},
             {16, VENDOR_FFT_STATUS("NOT_SUPPORTED")},   {17, "unknown status"}};

TEST_OF_ROWS(lines, a_failure_of_the_work_is_an_error_with_its_name, names)
{
    let_fail(NAME(cufftExecC2C), 1, names[*row].status);
    tn_tensor *x = pairs_of(TN_FLOAT32, TN_INTS(2, 5));
    tn__fft_c2c(s, x, TN_INTS(1), 0, 1);
    cr_assert_eq(tn_scope_failed(s), TN_E_INTERNAL);
    expect_in(tn_scope_error(s)->message, NAME(cufftExec) " failed: %s", names[*row].name);
    tn_scope_clear(s);
    EXPECT_SAME(2, 1e-5, tn__fft_c2c(s, x, TN_INTS(1), 0, 1))
}

/* In an environment without the library. */
Test(absent, the_kernels_transform_and_the_log_says_so)
{
    float got[4];
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(2), (float[]){3, 1}, device);
    cr_assert_eq(tn_to_host(s, tn__fft_r2c(s, x, TN_INTS(0), 0, 1), got, sizeof got), TN_OK);
    cr_assert(got[0] == 4 && got[1] == 0 && got[2] == 2 && got[3] == 0);
    cr_assert_eq(tn_inspect_fallback_count(ctx), 0);
    cr_assert_eq(count(LINES), -1);
    expect_in(said, "%s not found: the plugin's own kernels compute Fourier transforms", LIBRARY);
}

/* In an environment whose library is linked with another generation of the runtime. */
Test(foreign, the_kernels_transform_and_the_log_says_so, .init = open_device, .fini = close_device)
{
    tn_tensor *sum =
        tn_view_as_real(s, tn__fft_r2c(s, tn_ones(s, TN_INTS(4), .dtype = TN_FLOAT32), TN_INTS(0), 0, 1));
    cr_assert_eq(tn_item_double(s, tn_max(s, sum)), 4);
    cr_assert_eq(count(LINES), 0);
    expect_in(said, VENDOR_FFT " is for another generation of ");
}
