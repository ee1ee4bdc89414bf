/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products and convolutions by a oneDNN for tests (libdnnl.c) and by the plugin's own kernels: the same values, plans that are kept,
 * flags of calls, order on streams, and what happens when the library is too old, for another runtime, or fails.
 */
#include "dnn.h"
#include <pthread.h>
#include "../../core/gate.h"
#include "../../gpu/convolution_forms.h"
#include "../../gpu/product_forms.h"

enum { DNNL_OUT_OF_MEMORY = 1, DNNL_INVALID_ARGUMENTS, DNNL_UNIMPLEMENTED, DNNL_RUNTIME_ERROR = 5 };

TestSuite(products, .init = open_device, .fini = close_device, .timeout = 120);
TestSuite(convolutions, .init = open_device, .fini = close_device, .timeout = 120);
TestSuite(refused, .timeout = 60);

/* ---- Values --------------------------------------------------------------------------------------------- */

static const struct {
    tn_dtype dtype;
    double product, convolution; /* tolerances of sums of 33 and of up to 170 products */
} dtypes[] = {{TN_FLOAT16, 8e-3, 2e-2},
              {TN_BFLOAT16, 7e-2, 0.13},
              {TN_FLOAT32, 1e-5, 2e-5},
              {TN_FLOAT64, 1e-12, 1e-12}};

/* A scaled bias, a slice that is not aligned, and columns apart from each other are the kernels'. */
static int is_by_kernels(int form)
{
    return form == ADDMM_HALF_BIAS || form == SLICE || form == EVERY_EIGHTH;
}

Test(products, the_library_computes_what_the_kernels_compute)
{
    for (int i = 0; i < 4; i++) {
        for (int form = 0; form < CONVOLUTION; form++) {
            int did = compare_products(form, dtypes[i].dtype, dtypes[i].product, PRODUCTS);
            cr_assert_eq(did, !is_by_kernels(form), "form %d, dtype %d: %d products by the library", form, i,
                         did);
        }
    }
    expect_in(said, "2 xpu:0: oneDNN 3.12.1 computes products and convolutions");
}

Test(convolutions, the_library_computes_what_the_kernels_compute)
{
    tn_set_call_flags(ctx, 0, TN_CALL_ALLOW_HALF_ACCUMULATION);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < FORMS_OF_CONVOLUTIONS; k++) {
            int did = compare_convolutions(&forms[k], dtypes[i].dtype, dtypes[i].convolution, CONVOLUTIONS);
            /* of float64 the library has its plain implementation only, which is slower than the kernels */
            cr_assert_eq(did, dtypes[i].dtype == TN_FLOAT64 ? 0 : 3, "%s, dtype %d: %d passes by the library",
                         forms[k].name, i, did);
        }
    }
}

/* 2 times 3 x 4 ones by 4 x 5 ones, and what is added. */
Test(products, scales_and_what_is_added)
{
    tn_value two = tn_value_float(2), half = tn_value_float(0.5);
    tn_tensor *a = tn_ones(s, TN_INTS(3, 4), .dtype = TN_FLOAT32),
              *b = tn_ones(s, TN_INTS(4, 5), .dtype = TN_FLOAT32);
    tn_tensor *seven = tn_full(s, TN_INTS(3, 5), tn_value_float(7), .dtype = TN_FLOAT32);
    tn_tensor *bias = tn_full(s, TN_INTS(5), tn_value_float(7), .dtype = TN_FLOAT32);
    expect_scaled(tn_addmm(s, seven, a, b, .alpha = two), 15);
    expect_scaled(tn_addmm(s, bias, a, b, .alpha = two), 15);
    expect_scaled(tn_addmm(s, bias, a, b), 11);
    expect_scaled(tn_addmm(s, seven, a, b), 11);
    expect_scaled(seven, 7);
    expect_scaled(tn_addmm_(s, seven, a, b, .beta = half, .alpha = two), 11.5);
    expect_scaled(seven, 11.5);
    cr_assert_eq(count(PRODUCTS), 5);
    tn_tensor *gaps =
        tn_narrow(s, tn_full(s, TN_INTS(3, 21), tn_value_float(7), .dtype = TN_FLOAT32), 1, 16, 5);
    expect_scaled(tn_addmm(s, gaps, a, b), 11);
    cr_assert_eq(count(PRODUCTS), 6);
    expect_scaled(tn_addmm(s, gaps, a, b, .beta = two), 18);
    cr_assert_eq(count(PRODUCTS), 6, "one copy does not move it into the result");
    expect_scaled(tn_mm(s, gaps, tn_ones(s, TN_INTS(5, 2), .dtype = TN_FLOAT32)), 35);
    cr_assert_eq(count(PRODUCTS), 7);
    tn_tensor *batches = tn_ones(s, TN_INTS(2, 3, 4), .dtype = TN_FLOAT32);
    expect_scaled(tn_baddbmm(s, seven, batches, tn_expand(s, b, TN_INTS(2, 4, 5))), 15.5);
    cr_assert_eq(count(PRODUCTS), 8, "one matrix for all batches");
    expect_scaled(tn_baddbmm(s, tn_expand(s, seven, TN_INTS(2, 3, 5)), batches,
                             tn_ones(s, TN_INTS(2, 4, 5), .dtype = TN_FLOAT32), .beta = two),
                  27);
    cr_assert_eq(count(PRODUCTS), 8, "a shared matrix is not copied");
    tn_tensor *all = tn_full(s, TN_INTS(2, 3, 5), tn_value_float(7), .dtype = TN_FLOAT32);
    expect_scaled(tn_baddbmm(s, all, batches, tn_ones(s, TN_INTS(2, 4, 5), .dtype = TN_FLOAT32), .beta = two),
                  18);
    cr_assert_eq(count(PRODUCTS), 9);
}

/* ---- Plans ---------------------------------------------------------------------------------------------- */

Test(products, a_plan_is_made_once_for_each_kind_of_product)
{
    tn_tensor *a = numbers(TN_FLOAT32, TN_INTS(8, 16)), *b = numbers(TN_FLOAT32, TN_INTS(16, 8));
    for (int i = 0; i < 5; i++) tn_mm(s, a, b);
    cr_assert_eq(count(CHOICES), 1);
    tn_mm(s, tn_clone(s, a), b);
    cr_assert_eq(count(CHOICES), 1, "other memory");
    tn_mm(s, b, a);
    cr_assert_eq(count(CHOICES), 2, "other sizes");
    tn_mm(s, a, tn_t(s, tn_contiguous(s, tn_t(s, b))));
    cr_assert_eq(count(CHOICES), 3, "other strides");
    tn_set_deterministic(ctx, 1);
    tn_mm(s, a, b);
    cr_assert_eq(count(CHOICES), 4, "another rule");
    cr_assert_eq(count(PRODUCTS), 9);
    expect_objects_until_the_end(LIVE);
}

Test(products, tensors_that_are_not_aligned_are_the_kernels)
{
    tn_tensor *b = numbers(TN_FLOAT32, TN_INTS(16, 8)), *all = numbers(TN_FLOAT32, TN_INTS(144));
    for (int first = 1; first <= 16; first += 15) { /* 4 and 64 bytes */
        tn_tensor *a = tn_reshape(s, tn_narrow(s, all, 0, first, 128), TN_INTS(8, 16));
        tn_tensor *got = tn_mm(s, a, b);
        use_library(0);
        cr_assert_lt(difference(got, tn_mm(s, a, b)), 1e-5);
        use_library(1);
    }
    cr_assert_eq(count(PRODUCTS), 1, "the second one");
}

Test(convolutions, tensors_that_are_not_aligned_are_the_kernels)
{
    tn_tensor *w = tn_ones(s, TN_INTS(1, 1, 2, 2), .dtype = TN_FLOAT32),
              *all = tn_ones(s, TN_INTS(52), .dtype = TN_FLOAT32);
    for (int first = 1; first <= 16; first += 15) {
        tn_tensor *x = tn_reshape(s, tn_narrow(s, all, 0, first, 36), TN_INTS(1, 1, 6, 6));
        cr_assert_eq(tn_item_double(s, tn_max(s, tn_conv2d(s, x, w))), 4);
    }
    cr_assert_eq(count(CONVOLUTIONS), 1, "the second one");
}

Test(products, a_scratchpad_that_is_too_large_is_refused)
{
    tn_tensor *a = tn_ones(s, TN_INTS(77, 4), .dtype = TN_FLOAT32);
    expect_scaled(tn_mm(s, a, tn_ones(s, TN_INTS(4, 5), .dtype = TN_FLOAT32)), 4);
    cr_assert_eq(count(CHOICES), 1);
    cr_assert_eq(count(PRODUCTS), 0);
}

Test(products, each_call_has_its_own_bias)
{
    tn_tensor *x = tn_ones(s, TN_INTS(2, 3), .dtype = TN_FLOAT32),
              *w = tn_ones(s, TN_INTS(2, 3), .dtype = TN_FLOAT32);
    for (int i = 1; i < 4; i++) {
        tn_tensor *bias = tn_full(s, TN_INTS(2), tn_value_float(i), .dtype = TN_FLOAT32);
        expect_scaled(tn_linear(s, x, w, .bias = bias), 3 + i);
    }
    cr_assert_eq(count(PRODUCTS), 3);
    cr_assert_eq(count(CHOICES), 1);
}

/* The library reports a primitive that is destroyed while its work is queued. */
Test(products, plans_are_forgotten_when_their_work_has_run, .timeout = 300)
{
    enum { PLANS = 4096 };
    tn_tensor *a = tn_ones(s, TN_INTS(1, PLANS + 1), .dtype = TN_FLOAT32);
    tn_tensor *b = tn_ones(s, TN_INTS(PLANS + 1, 2), .dtype = TN_FLOAT32);
    for (int64_t n = 1; n <= PLANS + 1; n++) {
        if (n > PLANS) setenv("FAULTY_UNASKED", "1", 1);
        if (n > PLANS) tn_mm(s, tn_narrow(s, a, 1, 0, 1), tn_narrow(s, b, 0, 0, 1)); /* is late */
        tn_tensor *got = tn_mm(s, tn_narrow(s, a, 1, 0, n), tn_narrow(s, b, 0, 0, n));
        if (n > PLANS) unsetenv("FAULTY_UNASKED");
        if (n % 256 <= 1) expect_scaled(got, (double)n);
    }
    cr_assert_eq(count(CHOICES), PLANS + 1);
    tn_mm(s, tn_narrow(s, a, 1, 0, 1), tn_narrow(s, b, 0, 0, 1));
    cr_assert_eq(count(CHOICES), PLANS + 2, "the first one was forgotten");
}

Test(convolutions, a_plan_is_made_once_for_each_kind_of_convolution)
{
    tn_tensor *x = numbers(TN_FLOAT32, TN_INTS(1, 8, 9, 9)), *w = numbers(TN_FLOAT32, TN_INTS(4, 8, 5, 5));
    for (int i = 0; i < 5; i++) tn_conv2d(s, x, w);
    cr_assert_eq(count(CHOICES), 1);
    tn_conv2d(s, tn_clone(s, x), w);
    cr_assert_eq(count(CHOICES), 1, "other memory");
    tn_conv2d(s, x, w, .padding = TN_INTS(1, 1));
    cr_assert_eq(count(CHOICES), 2, "another padding");
    tn_conv2d(s, x, w, .dilation = TN_INTS(2, 1));
    cr_assert_eq(count(CHOICES), 3, "another dilation");
    tn_set_call_flags(ctx, TN_CALL_ALLOW_TF32, TN_CALL_ALLOW_TF32);
    tn_conv2d(s, x, w);
    cr_assert_eq(count(CHOICES), 4, "another rule");
    cr_assert_eq(count(CONVOLUTIONS), 9);
    expect_objects_until_the_end(LIVE);
}

/* ---- How exact ------------------------------------------------------------------------------------------ */

/* The attributes of a product and of a convolution with these flags, as the digits of a number. */
static void expect_attributes(tn_dtype dtype, uint32_t flags, int product, int convolution)
{
    tn_tensor *x = numbers(dtype, TN_INTS(1, 2, 4, 4)), *w = numbers(dtype, TN_INTS(3, 2, 2, 2)),
              *m = numbers(dtype, TN_INTS(4, 4));
    tn_set_call_flags(ctx, flags, TN_CALL_ALLOW_TF32 | TN_CALL_ALLOW_HALF_ACCUMULATION);
    for (int i = 0; i < 2; i++) {
        if (i)
            tn_conv2d(s, x, w);
        else
            tn_mm(s, m, m);
        int got = count(MATH) * 100 + count(SUMS) * 10 + count(DETERMINISTIC);
        cr_assert_eq(got, i ? convolution : product, "%s: %03d", i ? "convolution" : "product", got);
    }
}

/* Whatever the environment of the library says, what the call does not allow is switched off. */
Test(products, the_flags_of_a_call_choose_the_attributes)
{
    expect_attributes(TN_FLOAT32, 0, 0, 0);
    expect_attributes(TN_FLOAT32, TN_CALL_ALLOW_TF32, 400, 400);
    expect_attributes(TN_FLOAT32, TN_CALL_ALLOW_HALF_ACCUMULATION, 0, 0);
    expect_attributes(TN_FLOAT16, TN_CALL_ALLOW_TF32, 0, 0);
    expect_attributes(TN_FLOAT16, TN_CALL_ALLOW_HALF_ACCUMULATION, 10, 10);
    /* there is no convolution that adds bfloat16 in bfloat16: the one that adds in float32 is taken */
    expect_attributes(TN_BFLOAT16, TN_CALL_ALLOW_HALF_ACCUMULATION, 10, 0);
    tn_set_deterministic(ctx, 1);
    expect_attributes(TN_FLOAT16, TN_CALL_ALLOW_HALF_ACCUMULATION, 1, 1);
    expect_attributes(TN_FLOAT32, TN_CALL_ALLOW_TF32, 401, 401);
}

Test(products, tf32_is_a_switch)
{
    tn_tensor *a = tn_full(s, TN_INTS(2, 2), tn_value_float(1 + 0x1p-12), .dtype = TN_FLOAT32);
    tn_tensor *b = tn_eye(s, 2, .dtype = TN_FLOAT32);
    expect_scaled(tn_mm(s, a, b), 1 + 0x1p-12);
    tn_set_call_flags(ctx, TN_CALL_ALLOW_TF32, TN_CALL_ALLOW_TF32);
    expect_scaled(tn_mm(s, a, b), 1);
    cr_assert_eq(count(PRODUCTS), 2);
}

Test(products, deterministic_calls_give_the_same_bits)
{
    tn_tensor *a = numbers(TN_FLOAT32, TN_INTS(8, 300)), *b = numbers(TN_FLOAT32, TN_INTS(300, 8));
    for (int is_deterministic = 0; is_deterministic < 2; is_deterministic++) {
        int n = 0;
        tn_set_deterministic(ctx, is_deterministic);
        tn_tensor *first = tn_mm(s, a, b);
        for (int i = 0; i < 10; i++) n += !tn_equal(s, tn_mm(s, a, b), first);
        cr_assert(is_deterministic ? n == 0 : n > 0, "%d of 10 calls differ", n);
    }
    cr_assert_eq(count(PRODUCTS), 22);
}

/* ---- Threads -------------------------------------------------------------------------------------------- */

enum { TURNS = 20 };

/* Products of one plan; gives how many are wrong. */
static void *multiply_often(void *data)
{
    const double value = *(const double *)data;
    intptr_t wrong = 0;
    tn_scope *own = scope_on_device();
    tn_tensor *a = tn_full(own, TN_INTS(4, 4), tn_value_float(value), .dtype = TN_FLOAT32);
    for (int i = 0; i < TURNS; i++)
        wrong += tn_item_double(own, tn_max(own, tn_mm(own, a, a))) != 4 * value * value;
    tn_scope_close(own);
    return (void *)wrong;
}

Test(products, threads_do_not_mix_their_tensors)
{
    double values[] = {1, 2};
    pthread_t threads[2];
    setenv("DNNL_TEST_SLOW", "1", 1);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, multiply_often, &values[i]), 0);
    for (int i = 0; i < 2; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        cr_assert_null(wrong, "%d of %d products", (int)(intptr_t)wrong, TURNS);
    }
    cr_assert_eq(count(PRODUCTS), 2 * TURNS);
    cr_assert_eq(count(CHOICES), 1);
}

/* ---- Streams -------------------------------------------------------------------------------------------- */

static tn_tensor *compute_alike(double x)
{
    tn_tensor *t = tn_full(s, TN_INTS(1, 8, 6, 6), tn_value_float(x), .dtype = TN_FLOAT32);
    t = tn_conv2d(s, t, tn_ones(s, TN_INTS(4, 8, 2, 2), .dtype = TN_FLOAT32)); /* 32 x */
    t = tn_reshape(s, tn_add_scalar(s, t, tn_value_float(1)), TN_INTS(10, 10));
    return tn_mul(s, tn_mm(s, t, t), t);
}

static double of_compute_alike(double x)
{
    const double t = 32 * x + 1;
    return 10 * t * t * t;
}

/* Work of the kernels before and behind that of the library. */
Test(products, work_is_in_the_order_of_its_stream)
{
    expect_in_order(compute_alike, of_compute_alike);
    cr_assert_eq(count(PRODUCTS), 4);
    cr_assert_eq(count(CONVOLUTIONS), 4);
}

Test(products, the_host_waits_for_the_library)
{
    tn_tensor *a = tn_ones(s, TN_INTS(3, 3), .dtype = TN_FLOAT32);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    setenv("FAULTY_UNASKED", "1", 1);
    tn_mm(s, a, a);
    cr_assert_eq(count(QUEUED), 1);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    cr_assert_eq(count(QUEUED), 0);
    unsetenv("FAULTY_UNASKED");
}

/* A list of the program may be out of order, and the library relies on order. */
Test(products, lists_of_the_program_are_the_kernels)
{
    tn_stream *home = tn_stream_current(ctx, device), *other = NULL, *wrapped = NULL;
    uint64_t list = 0;
    cr_assert_eq(tn_stream_create(ctx, device, 0, &other), TN_OK);
    cr_assert_eq(tn_stream_native(other, &list), TN_OK);
    cr_assert_eq(tn_stream_wrap(ctx, device, list, &wrapped), TN_OK);
    tn_tensor *a = tn_ones(s, TN_INTS(3, 3), .dtype = TN_FLOAT32);
    tn_mm(s, a, a);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    tn_stream_set_current(ctx, wrapped);
    expect_scaled(tn_mm(s, a, a), 3);
    cr_assert_eq(count(PRODUCTS), 1);
    cr_assert_eq(tn_stream_synchronize(wrapped), TN_OK);
    tn_stream_set_current(ctx, home);
    tn_stream_release(wrapped);
    tn_stream_release(other);
}

/* What is behind a callback is held back, and the library would append its work at once. */
Test(products, work_behind_a_callback_is_the_kernels)
{
    gate in_callback;
    tn_tensor *a = tn_ones(s, TN_INTS(3, 3), .dtype = TN_FLOAT32);
    tn_mm(s, a, a);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    gate_init(&in_callback);
    cr_assert_eq(tn_stream_add_callback(tn_stream_current(ctx, device), gate_wait, &in_callback), TN_OK);
    tn_add_scalar_(s, a, 1);
    tn_tensor *product = tn_mm(s, a, a);
    cr_expect_eq(count(PRODUCTS), 1);
    gate_open(&in_callback);
    expect_scaled(product, 12);
}

/* ---- Failures ------------------------------------------------------------------------------------------- */

/* Whichever function fails before the work: the kernels compute it. How many of four calls the library does. */
static const struct {
    const char *failure;
    int by_library;
} failures[] = {
    {"dnnl_ze_interop_engine_create:1:5", 0},
    {"dnnl_ze_interop_stream_create:1:5", 3}, /* of the first call */
    {"dnnl_memory_desc_create_with_strides:1:2", 2},
    {"dnnl_memory_desc_create_with_strides:4:2", 2},
    {"dnnl_ze_interop_memory_create:1:2", 2},
    {"dnnl_ze_interop_memory_create:4:1", 2},
    {"dnnl_ze_interop_memory_create:5:1", 2}, /* the scratchpad */
    {"dnnl_memory_set_data_handle:1:2", 3},
    {"dnnl_memory_set_data_handle:5:2", 3},
    {"dnnl_primitive_attr_create:1:1", 2},
    {"dnnl_primitive_attr_set_fpmath_mode:1:2", 2},
    {"dnnl_primitive_attr_set_accumulation_mode:1:2", 2},
    {"dnnl_primitive_attr_set_deterministic:1:2", 2},
    {"dnnl_primitive_attr_set_scratchpad_mode:1:2", 2},
    {"dnnl_primitive_attr_set_post_ops:1:3", 2},
    {"dnnl_post_ops_create:1:1", 2},
    {"dnnl_post_ops_append_eltwise:1:3", 2},
    {"dnnl_post_ops_append_binary:1:3", 2},
    {"dnnl_matmul_primitive_desc_create:1:3", 2},
    {"dnnl_primitive_desc_query:1:2", 2},
    {"dnnl_primitive_create:1:5", 2},
    {"dnnl_ze_interop_primitive_execute:1:2", 2},
    {"dnnl_ze_interop_primitive_execute:1:3", 2},
    {"dnnl_convolution_forward_primitive_desc_create:1:3", 2},
};

TEST_OF_ROWS(products, a_failure_before_the_work_is_left_to_the_kernels, failures)
{
    const char *failure = failures[*row].failure;
    tn_tensor *m = numbers(TN_FLOAT32, TN_INTS(6, 6)), *bias = numbers(TN_FLOAT32, TN_INTS(6)), *want[2];
    tn_tensor *x = tn_reshape(s, m, TN_INTS(1, 1, 6, 6)), *w = numbers(TN_FLOAT32, TN_INTS(2, 1, 3, 3));
    setenv("LIBRARY_FAIL", failure, 1);
    for (int i = 0; i < 3; i++) { /* the first round is without the library */
        use_library(i > 0);
        tn_tensor *got[] = {tn_addmm(s, bias, m, m, .alpha = tn_value_float(2)), tn_conv2d(s, x, w)};
        for (int k = 0; k < 2 && i > 0; k++) cr_assert_lt(difference(got[k], want[k]), 2e-5, "%s", failure);
        if (!i) memcpy(want, got, sizeof want);
    }
    const int did = count(PRODUCTS) + count(CONVOLUTIONS);
    cr_assert_eq(did, failures[*row].by_library, "%s: %d calls by the library", failure, did);
    if (*row == 0)
        expect_in(said,
                  "oneDNN 3.12.1 makes no engine (dnnl_runtime_error): the plugin's own kernels compute");
    close_device();
    cr_assert_eq(count(LIVE), 0, "%s: %d objects are left", failure, count(LIVE));
}

Test(convolutions, a_failure_of_a_gradient_is_left_to_the_kernels)
{
    static const char *const names[] = {"dnnl_convolution_backward_data_primitive_desc_create",
                                        "dnnl_convolution_backward_weights_primitive_desc_create"};
    for (int i = 0; i < 2; i++) {
        tn_tensor *want[RESULTS], *got[RESULTS];
        use_library(0);
        convolve(&forms[i], TN_FLOAT32, want);
        let_fail(names[i], i ? 2 : 1, DNNL_UNIMPLEMENTED); /* calls of both are counted together */
        use_library(1);
        const int before = count(CONVOLUTIONS) < 0 ? 0 : count(CONVOLUTIONS);
        convolve(&forms[i], TN_FLOAT32, got);
        for (int r = 0; r < RESULTS; r++) cr_assert_leq(difference(got[r], want[r]), 2e-5);
        cr_assert_eq(count(CONVOLUTIONS) - before, 2, "%s", names[i]);
    }
}

Test(products, a_failure_of_a_sum_is_left_to_the_kernels)
{
    tn_tensor *a = tn_ones(s, TN_INTS(3, 3), .dtype = TN_FLOAT32),
              *sum = tn_ones(s, TN_INTS(3, 3), .dtype = TN_FLOAT32);
    let_fail("dnnl_post_ops_append_sum", 1, DNNL_UNIMPLEMENTED);
    tn_value two = tn_value_float(2);
    expect_scaled(tn_addmm(s, sum, a, a, .beta = two), 5);
    expect_scaled(tn_addmm(s, sum, a, a, .beta = two), 5);
    cr_assert_eq(count(PRODUCTS), 0, "a plan that is not supported stays so");
    expect_scaled(tn_addmm(s, sum, a, a, .beta = tn_value_float(3)), 6);
    cr_assert_eq(count(PRODUCTS), 1);
}

Test(products, a_product_that_fails_is_an_error_with_its_name)
{
    let_fail("dnnl_ze_interop_primitive_execute", 1, DNNL_RUNTIME_ERROR);
    tn_tensor *a = tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32);
    tn_mm(s, a, a);
    cr_assert_eq(tn_scope_failed(s), TN_E_INTERNAL);
    expect_in(tn_scope_error(s)->message, "dnnl_ze_interop_primitive_execute failed: dnnl_runtime_error");
    tn_scope_clear(s);
    expect_scaled(tn_mm(s, a, a), 2);
    cr_assert_eq(count(PRODUCTS), 1);
}

/* Out of memory: the call is made once more. */
Test(products, a_product_without_memory_is_tried_again)
{
    let_fail("dnnl_ze_interop_primitive_execute", 1, DNNL_OUT_OF_MEMORY);
    tn_tensor *a = tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32);
    expect_scaled(tn_mm(s, a, a), 2);
    cr_assert_eq(count(PRODUCTS), 1);
}

/* ---- Libraries that are not used -------------------------------------------------------------------------- */

Test(refused, an_older_library, .fini = close_device)
{
    setenv("DNNL_TEST_VERSION", "3.11", 1);
    open_device();
    expect_kernels("oneDNN 3.11.1 is not 3.12 or a later 3");
}

Test(refused, another_generation_of_the_library, .fini = close_device)
{
    setenv("DNNL_TEST_VERSION", "4.20", 1);
    open_device();
    expect_kernels("oneDNN 4.20.1 is not 3.12 or a later 3");
}

Test(refused, a_library_for_sycl, .fini = close_device)
{
    setenv("DNNL_TEST_RUNTIME", "512", 1);
    open_device();
    expect_kernels("oneDNN 3.12.1 is not built for Level Zero");
}
