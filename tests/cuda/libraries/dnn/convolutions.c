/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions by a cuDNN or MIOpen for tests (libcudnn.c, libmiopen.c) and by the plugin's own kernels: the same values of all passes, plans that are
 * kept, which engine is chosen, order on streams, and what happens when the library is absent or fails.
 */
#define LIBRARY FIRST_OF(VENDOR_DNN_FILES)
#include <library_names.h>
#include "session.h"
#include "../../../gpu/convolution_forms.h"

enum { CONVOLUTIONS, CHOICES, LIVE, ENGINE, STREAMS };
#ifdef HIP
enum { UNORDERED = 70, LARGE, PLAIN }; /* solutions of the library */
enum { DTYPES = 3, VERSION = 30401 };  /* not float64 */
enum { TAKES_DILATED_GROUPS = 0 };
#else
enum { REDUCED, ROUNDED, UNORDERED, LARGE, PLAIN }; /* engines of the library */
enum { DTYPES = 4, VERSION = 92800 };
enum { TAKES_DILATED_GROUPS = 1 };
#endif

TestSuite(convolutions, .init = open_device, .fini = close_device, .timeout = 120);
TestSuite(absent, .init = open_device, .fini = close_device, .timeout = 60);

/* ---- Values --------------------------------------------------------------------------------------------- */

static int has_dilated_groups(const convolution_form *f)
{
    int is_dilated = 0;
    for (int i = 0; i < f->axes; i++) is_dilated |= f->dilation[i] > 1;
    return is_dilated && f->groups > 1;
}

Test(convolutions, the_library_computes_what_the_kernels_compute)
{
    static const struct {
        tn_dtype dtype;
        double tolerance; /* of sums of up to 170 products */
    } dtypes[] = {{TN_FLOAT16, 2e-2}, {TN_BFLOAT16, 0.13}, {TN_FLOAT32, 2e-5}, {TN_FLOAT64, 1e-12}};
    tn_set_call_flags(ctx, 0, TN_CALL_ALLOW_HALF_ACCUMULATION);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < FORMS_OF_CONVOLUTIONS; k++) {
            int did = compare_convolutions(&forms[k], dtypes[i].dtype, dtypes[i].tolerance, CONVOLUTIONS);
            const int is_left = i >= DTYPES || (!TAKES_DILATED_GROUPS && has_dilated_groups(&forms[k]));
            cr_assert_eq(did, is_left ? 0 : 3, "%s, dtype %d: %d passes by the library", forms[k].name, i,
                         did);
        }
    }
    expect_in(said, "2 " DEVICE ":0: " VENDOR_DNN " %d computes convolutions", VERSION);
}

/* 1 + 2^-10 is no bfloat16. */
Test(convolutions, gradients_of_float16_keep_its_digits)
{
    const uint8_t all[] = {1, 1, 0};
    tn_tensor *x = tn_full(s, TN_INTS(1, 1, 1, 1), tn_value_float(1 + 0x1p-10), .dtype = TN_FLOAT16);
    tn_tensor *g = tn_ones(s, TN_INTS(1, 1, 1, 1), .dtype = TN_FLOAT16);
    tn_convolution_backward_result r =
        tn_convolution_backward(s, g, x, x, (tn_ints){0}, TN_INTS(1, 1), TN_INTS(0, 0), TN_INTS(1, 1), 0,
                                TN_INTS(0, 0), 1, (tn_bools){all, 3});
    cr_assert_eq(tn_item_double(s, tn_max(s, r.result0)), 1 + 0x1p-10);
    cr_assert_eq(tn_item_double(s, tn_max(s, r.result1)), 1 + 0x1p-10);
    cr_assert_eq(count(CONVOLUTIONS), 2);
}

#ifdef HIP
static double convolve_one(void)
{
    tn_tensor *x = tn_full(s, TN_INTS(1, 1, 1, 1), tn_value_float(1 + 0x1p-12), .dtype = TN_FLOAT32);
    return tn_item_double(s, tn_conv2d(s, x, tn_ones(s, TN_INTS(1, 1, 1, 1), .dtype = TN_FLOAT32)));
}

Test(convolutions, tf32_is_a_switch)
{
    tn_set_call_flags(ctx, 0, TN_CALL_ALLOW_TF32);
    cr_assert_eq(convolve_one(), 1 + 0x1p-12);
    tn_set_call_flags(ctx, TN_CALL_ALLOW_TF32, TN_CALL_ALLOW_TF32);
    cr_assert_eq(convolve_one(), 1);
    tn_set_call_flags(ctx, 0, TN_CALL_ALLOW_TF32);
    cr_assert_eq(convolve_one(), 1 + 0x1p-12);
    cr_assert_eq(count(CONVOLUTIONS), 3);
}

/* It does not know the attribute, and needs none. */
Test(convolutions, an_older_version_has_no_tf32)
{
    setenv("MIOPEN_TEST_OLD", "1", 1);
    tn_set_call_flags(ctx, 0, TN_CALL_ALLOW_TF32);
    cr_assert_eq(convolve_one(), 1 + 0x1p-12);
    cr_assert_eq(count(CONVOLUTIONS), 1);
}
#endif

/* ---- Plans ---------------------------------------------------------------------------------------------- */

static tn_tensor *images, *kernels;

static void make_tensors(tn_dtype dtype)
{
    images = numbers(dtype, TN_INTS(1, 8, 9, 9));
    kernels = numbers(dtype, TN_INTS(4, 8, 5, 5));
}

static tn_tensor *convolve_simply(void)
{
    return tn_conv2d(s, images, kernels);
}

Test(convolutions, a_plan_is_made_once_for_each_kind_of_convolution)
{
    make_tensors(TN_FLOAT32);
    for (int i = 0; i < 5; i++) convolve_simply();
    cr_assert_eq(count(CHOICES), 1);
    tn_conv2d(s, tn_clone(s, images), kernels);
    cr_assert_eq(count(CHOICES), 1, "other memory, the same alignment");
    tn_conv2d(s, images, kernels, .padding = TN_INTS(1, 1));
    cr_assert_eq(count(CHOICES), 2, "another padding");
    tn_conv2d(s, images, kernels, .dilation = TN_INTS(2, 1));
    cr_assert_eq(count(CHOICES), 3, "another dilation");
    tn_tensor *odd =
        tn_reshape(s, tn_narrow(s, numbers(TN_FLOAT32, TN_INTS(649)), 0, 1, 648), TN_INTS(1, 8, 9, 9));
    tn_conv2d(s, odd, kernels);
#ifdef HIP
    cr_assert_eq(count(CHOICES), 3, "MIOpen is not told of alignment");
#else
    cr_assert_eq(count(CHOICES), 4, "another alignment");
#endif
    cr_assert_eq(count(CONVOLUTIONS), 9);
    expect_objects_until_the_end(LIVE);
}

/* ---- Engines -------------------------------------------------------------------------------------------- */

/* The engine that computes a convolution, with these flags of calls. */
static int engine_of(tn_dtype dtype, uint32_t flags)
{
    make_tensors(dtype);
    tn_set_call_flags(ctx, flags, TN_CALL_ALLOW_TF32 | TN_CALL_ALLOW_HALF_ACCUMULATION);
    convolve_simply();
    cr_assert_not(tn_scope_failed(s), "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    return count(ENGINE);
}

Test(convolutions, the_flags_of_a_call_choose_the_engine)
{
#ifdef HIP
    cr_assert_eq(engine_of(TN_FLOAT32, 0), UNORDERED);
    cr_assert_eq(engine_of(TN_BFLOAT16, TN_CALL_ALLOW_TF32), UNORDERED);
    tn_set_deterministic(ctx, 1);
    cr_assert_eq(engine_of(TN_FLOAT32, 0), PLAIN, "not the one whose workspace is too large");
#else
    cr_assert_eq(engine_of(TN_FLOAT32, 0), UNORDERED, "neither TF32 nor sums of less than float32");
    cr_assert_eq(engine_of(TN_FLOAT32, TN_CALL_ALLOW_HALF_ACCUMULATION), UNORDERED,
                 "sums of float32 stay float32");
    cr_assert_eq(engine_of(TN_FLOAT32, TN_CALL_ALLOW_TF32), ROUNDED);
    cr_assert_eq(engine_of(TN_FLOAT64, TN_CALL_ALLOW_TF32), ROUNDED, "tensor cores compute float64, too");
    cr_assert_eq(engine_of(TN_FLOAT16, TN_CALL_ALLOW_HALF_ACCUMULATION), REDUCED);
    cr_assert_eq(engine_of(TN_BFLOAT16, TN_CALL_ALLOW_TF32), ROUNDED);
    tn_set_deterministic(ctx, 1);
    cr_assert_eq(engine_of(TN_FLOAT32, 0), PLAIN, "not the one whose workspace is too large");
    cr_assert_eq(engine_of(TN_FLOAT32, TN_CALL_ALLOW_TF32), ROUNDED);
#endif
}

#ifndef HIP
/* Most engines for float32 round it, and they may come first. */
Test(convolutions, many_engines_are_looked_at_for_float32)
{
    setenv("CUDNN_TEST_CROWD", "20", 1);
    cr_assert_eq(engine_of(TN_FLOAT32, 0), UNORDERED);
    cr_assert_eq(engine_of(TN_FLOAT32, TN_CALL_ALLOW_TF32), ROUNDED);
}

/* Four times the bytes of the operands, at least 256 MiB. */
static const struct {
    int64_t size;
    const char *workspace;
    int engine;
} large[] = {{9, "268435456", LARGE},
             {9, "268435457", PLAIN},
             {2950, "278480016", LARGE}, /* 4 * 4 * (2 * 2950 * 2950 + 1) */
             {2950, "278480017", PLAIN}};

TEST_OF_ROWS(convolutions, large_operands_may_have_a_large_workspace, large)
{
    setenv("CUDNN_TEST_LARGE", large[*row].workspace, 1);
    tn_set_deterministic(ctx, 1);
    tn_set_call_flags(ctx, 0, TN_CALL_ALLOW_TF32);
    tn_tensor *x = tn_ones(s, TN_INTS(1, 1, large[*row].size, large[*row].size), .dtype = TN_FLOAT32);
    tn_tensor *y = tn_conv2d(s, x, tn_full(s, TN_INTS(1, 1, 1, 1), 2, .dtype = TN_FLOAT32));
    cr_assert_eq(tn_item_double(s, tn_min(s, y)), 2);
    cr_assert_eq(count(ENGINE), large[*row].engine);
}

static const convolution_form *form_of(const char *name)
{
    for (int k = 0; k < FORMS_OF_CONVOLUTIONS; k++)
        if (!strcmp(forms[k].name, name)) return &forms[k];
    return NULL;
}

/* Convolutions by some versions are wrong, and left to the kernels: those of three axes of half types, or by TF32, and depthwise ones. */
static const struct {
    const char *version;
    int halves, of_one_element, depthwise, engine_of_float32; /* passes by the library, of three */
} versions[] = {{"90701", 3, 3, 3, ROUNDED},   {"90800", 0, 3, 3, ROUNDED},   {"91001", 0, 3, 3, ROUNDED},
                {"91002", 0, 3, 3, UNORDERED}, {"91499", 0, 3, 3, UNORDERED}, {"91500", 3, 3, 3, UNORDERED},
                {"91501", 3, 3, 3, ROUNDED},   {"92099", 3, 3, 3, ROUNDED},   {"92100", 3, 3, 0, ROUNDED},
                {"92399", 3, 3, 0, ROUNDED},   {"92400", 3, 3, 3, ROUNDED}};

TEST_OF_ROWS(convolutions, versions_that_are_wrong_are_not_asked, versions)
{
    const convolution_form *form = form_of("three axes"), *flat = form_of("plain");
    convolution_form one = *form;
    for (int i = 0; i < 3; i++) one.kernel[i] = one.dilation[i] = 1, one.padding[i] = 0;
    setenv("CUDNN_VERSION", versions[*row].version, 1);
    tn_set_call_flags(ctx, TN_CALL_ALLOW_TF32, TN_CALL_ALLOW_TF32 | TN_CALL_ALLOW_HALF_ACCUMULATION);
    cr_assert_eq(compare_convolutions(form, TN_FLOAT16, 2e-2, CONVOLUTIONS), versions[*row].halves);
    cr_assert_eq(compare_convolutions(&one, TN_BFLOAT16, 0.13, CONVOLUTIONS), versions[*row].of_one_element);
    cr_assert_eq(compare_convolutions(flat, TN_FLOAT16, 2e-2, CONVOLUTIONS), 3);
    cr_assert_eq(compare_convolutions(form_of("grouped"), TN_FLOAT16, 2e-2, CONVOLUTIONS), 3);
    cr_assert_eq(compare_convolutions(form_of("depthwise"), TN_FLOAT16, 2e-2, CONVOLUTIONS),
                 versions[*row].depthwise);
    cr_assert_eq(compare_convolutions(form, TN_FLOAT32, 2e-2, CONVOLUTIONS), 3);
    cr_assert_eq(count(ENGINE), versions[*row].engine_of_float32);
    cr_assert_eq(compare_convolutions(form, TN_FLOAT64, 1e-12, CONVOLUTIONS), 3);
}

/* Engines for them that add in any order do not all say so. */
Test(convolutions, dilated_windows_in_deterministic_mode_are_left_to_the_kernels)
{
    tn_set_deterministic(ctx, 1);
    cr_assert_eq(compare_convolutions(form_of("dilated"), TN_FLOAT32, 2e-5, CONVOLUTIONS), 0);
    cr_assert_eq(compare_convolutions(form_of("plain"), TN_FLOAT32, 2e-5, CONVOLUTIONS), 3);
    cr_assert_eq(compare_convolutions(form_of("one axis"), TN_FLOAT32, 2e-5, CONVOLUTIONS), 3);
}
#endif

/* A sum of 200 products in another order has other bits. */
Test(convolutions, deterministic_calls_give_the_same_bits)
{
    for (int is_deterministic = 0; is_deterministic < 2; is_deterministic++) {
        int n = 0;
        tn_set_deterministic(ctx, is_deterministic);
        make_tensors(TN_FLOAT32);
        tn_tensor *first = convolve_simply();
        for (int i = 0; i < 10; i++) n += !tn_equal(s, convolve_simply(), first);
        cr_assert(is_deterministic ? n == 0 : n > 0, "%d of 10 calls differ", n);
    }
}

/* ---- Streams and graphs --------------------------------------------------------------------------------- */

static tn_tensor *convolve_alike(double x)
{
    return tn_conv2d(s, tn_full(s, TN_INTS(1, 8, 6, 6), tn_value_float(x), .dtype = TN_FLOAT32),
                     tn_ones(s, TN_INTS(4, 8, 2, 2), .dtype = TN_FLOAT32));
}

static double sum_of_32(double x)
{
    return 32 * x;
}

Test(convolutions, work_is_in_the_order_of_its_stream)
{
    expect_in_order(convolve_alike, sum_of_32);
}

static tn_tensor *convolve_ones(tn_tensor *x)
{
    return tn_conv2d(s, x, tn_ones(s, TN_INTS(3, 2, 2, 2), .dtype = TN_FLOAT32));
}

static double sum_of_8(double x)
{
    return 8 * x;
}

/* Convolutions of the library in two replays. */
static int calls_in_captures(void)
{
    return calls_for_replays(tn_ones(s, TN_INTS(1, 2, 4, 4), .dtype = TN_FLOAT32),
                             tn_zeros(s, TN_INTS(1, 3, 3, 3), .dtype = TN_FLOAT32), convolve_ones, sum_of_8,
                             CONVOLUTIONS);
}

#ifdef HIP
/* Telling the library of a stream takes long. */
Test(convolutions, the_library_is_told_of_a_stream_when_it_changes)
{
    tn_stream *home = tn_stream_current(ctx, device), *side = NULL;
    make_tensors(TN_FLOAT32);
    for (int i = 0; i < 3; i++) convolve_simply();
    cr_assert_eq(count(STREAMS), 1);
    cr_assert_eq(tn_stream_create(ctx, device, 0, &side), TN_OK);
    tn_stream_wait_stream(side, home);
    tn_stream_set_current(ctx, side);
    for (int i = 0; i < 3; i++) convolve_simply();
    cr_assert_eq(count(STREAMS), 2);
    cr_assert_eq(count(CONVOLUTIONS), 6);
    tn_stream_wait_stream(home, side);
    tn_stream_set_current(ctx, home);
    setenv("LIBRARY_FAIL", "miopenSetStream:1:5", 1);
    convolve_simply();
    cr_assert_eq(count(CONVOLUTIONS), 6, "the kernels compute what the library is not told of");
    convolve_simply();
    cr_assert_eq(count(CONVOLUTIONS), 7, "it is told again");
    cr_assert_eq(count(STREAMS), 3);
    tn_stream_release(side);
}

Test(convolutions, captures_have_the_kernels)
{
    cr_assert_eq(calls_in_captures(), 0);
}
#else
Test(convolutions, convolutions_of_the_library_are_captured)
{
    cr_assert_eq(calls_in_captures(), 1);
}
#endif

Test(convolutions, a_capture_does_not_open_the_library)
{
    expect_kernels_in_captures(tn_ones(s, TN_INTS(1, 2, 4, 4), .dtype = TN_FLOAT32),
                               tn_zeros(s, TN_INTS(1, 3, 3, 3), .dtype = TN_FLOAT32), convolve_ones, sum_of_8,
                               CONVOLUTIONS);
}

/* ---- Failures ------------------------------------------------------------------------------------------- */

/*
 * Whichever function fails before the work: another engine or the kernels compute it, or the call is made once more if it was
 * for memory. How many of two calls the library does: what it refuses as such is remembered, and other failures are not.
 */
static const struct {
    const char *failure;
    int by_library, engine;
} failures[] = {
#ifdef HIP
    {"miopenCreate:1:1", 0, -1},
    {"miopenSetStream:1:5", 1, UNORDERED},
    {"miopenCreateTensorDescriptor:1:4", 2, UNORDERED},
    {"miopenCreateTensorDescriptor:3:4", 2, UNORDERED},
    {"miopenSetTensorDescriptor:2:3", 0, -1},
    {"miopenCreateConvolutionDescriptor:1:4", 2, UNORDERED},
    {"miopenInitConvolutionNdDescriptor:1:3", 0, -1},
    {"miopenSetConvolutionGroupCount:1:3", 0, -1},
    {"miopenConvolutionForwardGetSolution:1:7", 1, UNORDERED},
    {"miopenConvolutionForwardGetSolution:1:8", 0, -1},
    {"miopenConvolutionForwardCompileSolution:1:4", 2, UNORDERED},
    {"miopenConvolutionForwardCompileSolution:1:5", 2, PLAIN},
    {"miopenConvolutionForwardCompileSolution:1:6", 2, PLAIN}, /* the next one that is small enough */
    {"miopenConvolutionForwardImmediate:1:2", 0, -1},
    {"miopenConvolutionForwardImmediate:1:8", 0, -1},
};
#define CREATION_FAILED NAME(miopenCreate) " failed (miopenStatusNotInitialized)"
#define WORK            "miopenConvolutionForwardImmediate"
#define WORK_FAILED     "miopenConvolution failed: miopenStatusInternalError"
enum { INTERNAL = 5, NO_MEMORY = 4 };
#else
    {"cudnnCreate:1:1001", 0, -1},
    {"cudnnBackendCreateDescriptor:1:4003", 2, UNORDERED}, /* a tensor */
    {"cudnnBackendCreateDescriptor:4:4003", 2, UNORDERED}, /* the convolution */
    {"cudnnBackendCreateDescriptor:5:4003", 2, UNORDERED}, /* the operation */
    {"cudnnBackendCreateDescriptor:6:4003", 2, UNORDERED}, /* the graph */
    {"cudnnBackendCreateDescriptor:7:4003", 2, UNORDERED}, /* the choice */
    {"cudnnBackendCreateDescriptor:9:4003", 2, UNORDERED}, /* a configuration */
    {"cudnnBackendSetAttribute:1:2000", 0, -1},            /* of a tensor */
    {"cudnnBackendSetAttribute:16:2000", 0, -1},           /* of the convolution */
    {"cudnnBackendSetAttribute:23:2000", 0, -1},           /* of the operation */
    {"cudnnBackendSetAttribute:29:2000", 0, -1},           /* of the graph */
    {"cudnnBackendSetAttribute:31:2000", 2, PLAIN},        /* of the choice */
    {"cudnnBackendFinalize:1:2000", 0, -1},                /* a tensor */
    {"cudnnBackendFinalize:1:4000", 1, UNORDERED},         /* the same, for a reason of its own */
    {"cudnnBackendFinalize:4:2000", 0, -1},                /* the convolution */
    {"cudnnBackendFinalize:5:3000", 0, -1},                /* the operation */
    {"cudnnBackendFinalize:6:3000", 0, -1},                /* the graph */
    {"cudnnBackendFinalize:7:3000", 2, PLAIN},             /* the choice */
    {"cudnnBackendFinalize:8:3000", 2, PLAIN},             /* the plan of the first engine */
    {"cudnnBackendFinalize:8:4001", 2, PLAIN},             /* the same: it does not compile */
    {"cudnnBackendFinalize:8:4004", 2, UNORDERED},         /* the same: there is no memory for it */
    {"cudnnBackendFinalize:9:2000", 1, UNORDERED},         /* what the first call works with */
    {"cudnnBackendGetAttribute:1:3000", 2, PLAIN},         /* the engines */
    {"cudnnBackendGetAttribute:7:3000", 2, PLAIN},         /* the notes of the third one */
    {"cudnnSetStream:1:4000", 1, UNORDERED},
    {"cudnnBackendExecute:1:3000", 0, -1},
    {"cudnnBackendExecute:1:2000", 0, -1},
};
#define CREATION_FAILED "cudnnCreate failed (CUDNN_STATUS_NOT_SUPPORTED)"
#define WORK            "cudnnBackendExecute"
#define WORK_FAILED     "cudnnBackendExecute failed: CUDNN_STATUS_EXECUTION_FAILED"
enum { INTERNAL = 5000, NO_MEMORY = 4004 };
#endif

TEST_OF_ROWS(convolutions, a_failure_before_the_work_is_left_to_the_kernels, failures)
{
    const char *failure = failures[*row].failure;
    setenv("LIBRARY_FAIL", failure, 1);
    make_tensors(TN_FLOAT32);
    use_library(0);
    tn_tensor *want = convolve_simply();
    use_library(1);
    for (int i = 0; i < 2; i++) cr_assert_lt(difference(convolve_simply(), want), 2e-5, "%s", failure);
    cr_assert_eq(count(CONVOLUTIONS), failures[*row].by_library, "%s: %d convolutions by the library",
                 failure, count(CONVOLUTIONS));
    if (failures[*row].engine >= 0) cr_assert_eq(count(ENGINE), failures[*row].engine, "%s", failure);
    if (*row == 0) expect_in(said, CREATION_FAILED ": the plugin's own kernels compute");
    close_device();
    cr_assert_eq(count(LIVE), 0, "%s: %d objects are left", failure, count(LIVE));
}

#ifndef HIP
/* A failure of its own, each time: the library is asked for both lists of engines, three times. */
Test(convolutions, a_plan_that_always_fails_is_given_up)
{
    make_tensors(TN_FLOAT32);
    let_fail("cudnnBackendGetAttribute", 0, 4000);
    for (int i = 0; i < 5; i++) convolve_simply();
    cr_assert_not(tn_scope_failed(s));
    cr_assert_eq(count(CHOICES), 3 * 2);
    unsetenv("LIBRARY_FAIL");
    convolve_simply();
    cr_assert_eq(count(CONVOLUTIONS), 0);
    tn_conv2d(s, images, kernels, .padding = TN_INTS(1, 1));
    cr_assert_eq(count(CONVOLUTIONS), 1, "other work is not given up");
}

/* With little memory it may be for that. */
Test(convolutions, plans_are_not_given_up_for_lack_of_memory)
{
    uint64_t available = 0, total = 0;
    make_tensors(TN_FLOAT32);
    convolve_simply(); /* the library starts */
    cr_assert_eq(tn_device_memory(ctx, device, &available, &total), TN_OK);
    tn_tensor *most = tn_empty(s, TN_INTS((int64_t)available - (64 << 20)), .dtype = TN_UINT8);
    let_fail("cudnnBackendGetAttribute", 0, 4000);
    for (int i = 0; i < 5; i++) tn_conv2d(s, images, kernels, .padding = TN_INTS(1, 1));
    cr_assert_not(tn_scope_failed(s));
    cr_assert_eq(count(CONVOLUTIONS), 1);
    tn_drop(s, most);
    unsetenv("LIBRARY_FAIL");
    tn_conv2d(s, images, kernels, .padding = TN_INTS(1, 1));
    cr_assert_eq(count(CONVOLUTIONS), 2);
}
#endif

Test(convolutions, a_convolution_that_fails_is_an_error_with_its_name)
{
    let_fail(WORK, 1, INTERNAL);
    make_tensors(TN_FLOAT32);
    convolve_simply();
    cr_assert_eq(tn_scope_failed(s), TN_E_INTERNAL);
    expect_in(tn_scope_error(s)->message, WORK_FAILED);
    tn_scope_clear(s);
    convolve_simply();
    cr_assert_eq(count(CONVOLUTIONS), 1);
}

/* Out of memory: the call is made once more. */
Test(convolutions, a_convolution_without_memory_is_tried_again)
{
    let_fail(WORK, 1, NO_MEMORY);
    make_tensors(TN_FLOAT32);
    convolve_simply();
    cr_assert_not(tn_scope_failed(s));
    cr_assert_eq(count(CONVOLUTIONS), 1);
}

/* In an environment without the library. */
Test(absent, the_kernels_compute_convolutions_and_the_log_says_so)
{
    tn_tensor *x = tn_ones(s, TN_INTS(1, 2, 4, 4), .dtype = TN_FLOAT32);
    cr_assert_eq(
        tn_item_double(s, tn_max(s, tn_conv2d(s, x, tn_ones(s, TN_INTS(3, 2, 2, 2), .dtype = TN_FLOAT32)))),
        8);
    cr_assert_eq(count(CONVOLUTIONS), -1);
    expect_in(said, "%s not found: the plugin's own kernels compute convolutions", LIBRARY);
}
