/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention by a cuDNN for tests, which computes the plugin's graphs operation by operation (graph.h), against the formula in float64:
 * forward and the gradients, plans that are kept, which engine is chosen, order on streams, what is left to the kernels, and what
 * happens when the library is absent, old or fails.
 */
#define LIBRARY FIRST_OF(VENDOR_DNN_FILES)
#include <library_names.h>
#include "session.h"
#include "../../../gpu/attention_check.h"

enum { CHOICES = 1, LIVE, ENGINE, ATTENTIONS };     /* what the library counts */
enum { REDUCED, ROUNDED, UNORDERED, LARGE, PLAIN }; /* its engines */

TestSuite(dnn_attention, .init = open_device, .fini = close_device, .timeout = 120);
TestSuite(absent, .init = open_device, .fini = close_device, .timeout = 60);

/* Passes of attention by the library so far. */
static int passes(void)
{
    const int n = count(ATTENTIONS);
    return n < 0 ? 0 : n;
}

/* ---- Values --------------------------------------------------------------------------------------------- */

static const tn_dtype half_types[] = {TN_FLOAT16, TN_BFLOAT16};

static const struct {
    const char *name;
    problem problem;
} forms[] = {
    {"plain", {2, 3, 3, 24, 40, 16, 16, .causal = false}},
    {"causal", {2, 2, 2, 33, 33, 8, 8, .causal = true}},
    {"causal, more queries than keys", {1, 2, 2, 40, 19, 24, 24, .causal = true}},
    {"causal, more keys than queries", {1, 2, 2, 17, 45, 32, 32, .causal = true}},
    {"shared keys", {2, 6, 2, 16, 20, 16, 16, .causal = false}},
    {"one key head, causal", {1, 4, 1, 21, 21, 8, 8, .causal = true}},
    {"one batch, one head", {1, 1, 1, 65, 63, 64, 64, .causal = false}},
};
enum { FORMS = sizeof forms / sizeof *forms };

Test(dnn_attention, the_library_computes_the_formula)
{
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < FORMS; k++) {
            problem p = forms[k].problem;
            const int before = passes();
            p.dtype = half_types[i];
            check(p);
            cr_assert_eq(passes(), before + 2, "%s, dtype %d: %d passes by the library", forms[k].name, i,
                         passes() - before);
        }
    }
    expect_in(said, "2 " DEVICE ":0: " VENDOR_DNN " 92800 computes attention");
}

/* Powers of two are exact: a scale of twice the default is twice the queries. */
Test(dnn_attention, the_scale_of_a_call_is_the_scale_of_the_scores)
{
    for (int i = 0; i < 2; i++) {
        tn_tensor *q = numbers(half_types[i], TN_INTS(1, 2, 20, 16)),
                  *k = numbers(half_types[i], TN_INTS(1, 2, 24, 16));
        tn_tensor *twice = tn_scaled_dot_product_attention(s, q, k, k, .scale = 0.5),
                  *want = tn_scaled_dot_product_attention(s, tn_mul_scalar(s, q, 2), k, k, .scale = 0.25);
        cr_assert(tn_equal(s, twice, want));
        cr_assert_gt(difference(twice, tn_scaled_dot_product_attention(s, q, k, k)), 0.01);
        cr_assert_eq(passes(), 3 * (i + 1));
    }
}

/* The sum of all results: gradients of values are the sums of the weights of their keys, all together a 1 for each query. */
Test(dnn_attention, autograd_comes_to_the_library)
{
    tn_tensor *q = numbers(TN_FLOAT16, TN_INTS(2, 4, 20, 16)),
              *k = numbers(TN_FLOAT16, TN_INTS(2, 2, 24, 16)),
              *v = numbers(TN_FLOAT16, TN_INTS(2, 2, 24, 16));
    cr_assert_eq(tn_set_requires_grad(v, 1), TN_OK);
    tn_tensor *out = tn_scaled_dot_product_attention(s, q, k, v, .is_causal = 1, .enable_gqa = 1);
    cr_assert_eq(tn_backward(s, tn_sum(s, tn_to(s, out, TN_FLOAT32))), TN_OK);
    tn_tensor *of_features = tn_sum_dim(s, tn_to(s, tn_grad_of(s, v), TN_FLOAT32), TN_INTS(0, 1, 2));
    cr_assert_float_eq(tn_item_double(s, tn_max(s, of_features)), 2 * 4 * 20, 0.2);
    cr_assert_float_eq(tn_item_double(s, tn_min(s, of_features)), 2 * 4 * 20, 0.2);
    cr_assert_eq(passes(), 2);
}

typedef tn__scaled_dot_product_flash_attention_for_cpu_result attended;

static attended attend_simply(tn_tensor *q, tn_tensor *k)
{
    return tn__scaled_dot_product_flash_attention_for_cpu(s, q, k, k);
}

/* ---- What is left to the kernels ------------------------------------------------------------------------ */

static const struct {
    const char *name;
    problem problem;
    int by_library; /* of two passes */
} left[] = {
    {"float32", {1, 2, 2, 20, 20, 16, 16, .dtype = TN_FLOAT32}, 0},
    {"float64", {1, 2, 2, 20, 20, 16, 16, .dtype = TN_FLOAT64}, 0},
    {"a mask that hides all keys from a query", {1, 2, 2, 20, 20, 16, 16, .mask = 1, .dtype = TN_FLOAT16}, 0},
    {"a mask for each head", {1, 2, 2, 20, 20, 16, 16, .mask = 2, .dtype = TN_FLOAT16}, 0},
    {"rows that are no multiple of 16 bytes", {1, 2, 2, 20, 20, 12, 12, .dtype = TN_BFLOAT16}, 0},
    {"products for which there is no engine", {1, 2, 2, 20, 4, 16, 16, .dtype = TN_FLOAT16}, 0},
    {"gradients of many features", {1, 1, 1, 17, 18, 136, 136, .dtype = TN_FLOAT16}, 1},
    {"gradients of half a block of keys", {1, 2, 1, 17, 64, 16, 16, .dtype = TN_FLOAT16}, 1},
    {"gradients of one and a half", {1, 1, 1, 17, 192, 8, 8, .causal = true, .dtype = TN_BFLOAT16}, 1},
    {"gradients of a block of keys and a part of one of queries",
     {1, 1, 1, 17, 128, 8, 8, .dtype = TN_FLOAT16},
     1},
    {"gradients of whole blocks", {1, 1, 1, 64, 128, 8, 8, .dtype = TN_FLOAT16}, 2},
};

Test(dnn_attention, the_kernels_compute_what_the_library_does_not_take)
{
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        const int before = passes();
        check(left[i].problem);
        cr_assert_eq(passes(), before + left[i].by_library, "%s: %d passes by the library", left[i].name,
                     passes() - before);
    }
}

/* Those of compute capability 9 lose the other half, and hide no queries beyond the last one. */
Test(dnn_attention, gradients_of_parts_of_blocks_on_other_gpus)
{
    setenv("CUDA_TEST_COMPUTE", "8", 1);
    check((problem){1, 2, 1, 17, 64, 16, 16, .dtype = TN_FLOAT16});
    check((problem){1, 1, 1, 17, 128, 8, 8, .dtype = TN_FLOAT16});
    cr_assert_eq(passes(), 4);
}

/* One that hides all keys but the first: the result is its value. */
Test(dnn_attention, masks_are_left_to_the_kernels)
{
    tn_tensor *q = numbers(TN_FLOAT16, TN_INTS(1, 2, 20, 16)),
              *k = numbers(TN_FLOAT16, TN_INTS(1, 2, 24, 16)),
              *mask = tn_full(s, TN_INTS(1, 2, 20, 24), tn_value_float(-INFINITY), .dtype = TN_FLOAT16);
    tn_fill_scalar_(s, tn_narrow(s, mask, 3, 0, 1), 0);
    tn_tensor *out = tn_scaled_dot_product_attention(s, q, k, k, .attn_mask = mask);
    cr_assert_eq(difference(out, tn_expand(s, tn_narrow(s, k, 2, 0, 1), TN_INTS(1, 2, 20, 16))), 0);
    cr_assert_eq(passes(), 0);
}

/* The result of a scale below 0 is that of the negative queries. */
Test(dnn_attention, scales_below_0_are_left_to_the_kernels)
{
    tn_tensor *q = numbers(TN_FLOAT16, TN_INTS(1, 2, 20, 16)),
              *k = numbers(TN_FLOAT16, TN_INTS(1, 2, 24, 16));
    tn_tensor *out = tn__scaled_dot_product_flash_attention_for_cpu(s, q, k, k, .scale = -0.25).output;
    cr_assert_eq(passes(), 0);
    cr_assert_lt(difference(out, attend_simply(tn_neg(s, q), k).output), 2e-3);
    cr_assert_eq(passes(), 1);
}

/* Its engines do not say which ones add in any order. */
Test(dnn_attention, deterministic_calls_are_left_to_the_kernels)
{
    problem p = forms[0].problem;
    p.dtype = TN_FLOAT16;
    tn_set_deterministic(ctx, 1);
    check(p);
    cr_assert_eq(passes(), 0);
    tn_set_deterministic(ctx, 0);
    check(p);
    cr_assert_eq(passes(), 2);
}

/* Views that begin, or whose rows begin, at no multiple of 16 bytes, and keys that all heads share by a stride of 0. */
Test(dnn_attention, the_library_gets_aligned_rows)
{
    tn_tensor *wide = numbers(TN_FLOAT16, TN_INTS(1, 2, 20, 20)),
              *k = numbers(TN_FLOAT16, TN_INTS(1, 2, 24, 16));
    tn_tensor *all = numbers(TN_FLOAT16, TN_INTS(1 + 2 * 20 * 16)), *head = tn_narrow(s, k, 1, 0, 1);
    tn_tensor *q[] = {tn_narrow(s, wide, 3, 0, 16),
                      tn_view(s, tn_narrow(s, all, 0, 1, 2 * 20 * 16), TN_INTS(1, 2, 20, 16)),
                      tn_contiguous(s, tn_narrow(s, wide, 3, 0, 16))};
    tn_tensor *keys[] = {k, k, tn_expand(s, head, TN_INTS(1, 2, 24, 16))};
    for (int i = 0; i < 3; i++) {
        tn_tensor *got = tn_scaled_dot_product_attention(s, q[i], keys[i], keys[i]);
        cr_assert_eq(passes(), i, "form %d", i);
        tn_tensor *want = tn_scaled_dot_product_attention(
            s, tn_clone(s, tn_contiguous(s, q[i])), tn_contiguous(s, keys[i]), tn_contiguous(s, keys[i]));
        cr_assert_eq(passes(), i + 1, "form %d, aligned", i);
        cr_assert_lt(difference(got, want), 2e-3, "form %d", i);
    }
}

/* ---- Plans and engines ----------------------------------------------------------------------------------- */

/* Forward and backward; the gradient of the queries. */
static tn_tensor *train_simply(tn_tensor *q, tn_tensor *k)
{
    attended f = attend_simply(q, k);
    return tn__scaled_dot_product_flash_attention_for_cpu_backward(s, q, q, k, k, f.output, f.logsumexp, 0, 0)
        .grad_query;
}

Test(dnn_attention, a_plan_is_made_once_for_each_kind_of_attention)
{
    tn_tensor *q = numbers(TN_FLOAT16, TN_INTS(1, 2, 20, 16)),
              *k = numbers(TN_FLOAT16, TN_INTS(1, 2, 24, 16));
    for (int i = 0; i < 5; i++) train_simply(q, k);
    cr_assert_eq(count(CHOICES), 2, "one of each pass");
    train_simply(tn_clone(s, q), tn_clone(s, k));
    cr_assert_eq(count(CHOICES), 2, "other memory");
    tn__scaled_dot_product_flash_attention_for_cpu(s, q, k, k, .scale = 0.5);
    cr_assert_eq(count(CHOICES), 2, "another scale");
    attend_simply(heads_inside(q), k);
    cr_assert_eq(count(CHOICES), 3, "other strides");
    tn__scaled_dot_product_flash_attention_for_cpu(s, q, k, k, .is_causal = 1);
    cr_assert_eq(count(CHOICES), 4, "causal");
    attend_simply(q, tn_narrow(s, k, 1, 1, 1));
    cr_assert_eq(count(CHOICES), 5, "shared keys");
    attend_simply(tn_to(s, q, TN_BFLOAT16), tn_to(s, k, TN_BFLOAT16));
    cr_assert_eq(count(CHOICES), 6, "another dtype");
    cr_assert_eq(passes(), 2 * 6 + 5);
    expect_objects_until_the_end(LIVE);
}

Test(dnn_attention, the_flags_of_a_call_choose_the_engine)
{
    tn_tensor *q = numbers(TN_FLOAT16, TN_INTS(1, 2, 20, 16)),
              *k = numbers(TN_FLOAT16, TN_INTS(1, 2, 24, 16));
    tn_set_call_flags(ctx, 0, TN_CALL_ALLOW_HALF_ACCUMULATION);
    tn_tensor *exact = attend_simply(q, k).output;
    cr_assert_eq(count(ENGINE), ROUNDED, "sums are float32");
    tn_set_call_flags(ctx, TN_CALL_ALLOW_HALF_ACCUMULATION, TN_CALL_ALLOW_HALF_ACCUMULATION);
    cr_assert_gt(difference(attend_simply(q, k).output, exact), 1e-5);
    cr_assert_eq(count(ENGINE), REDUCED);
}

/* ---- Streams and graphs --------------------------------------------------------------------------------- */

static tn_tensor *attend_to_itself(tn_tensor *x)
{
    return tn_scaled_dot_product_attention(s, x, x, x);
}

static tn_tensor *attend_alike(double x)
{
    return attend_to_itself(tn_full(s, TN_INTS(1, 2, 16, 16), tn_value_float(x), .dtype = TN_FLOAT16));
}

/* All keys are the same: the result is the value. */
static double itself(double x)
{
    return x;
}

Test(dnn_attention, work_is_in_the_order_of_its_stream)
{
    expect_in_order(attend_alike, itself);
    cr_assert_eq(passes(), 4);
}

Test(dnn_attention, attention_of_the_library_is_captured)
{
    tn_tensor *x = tn_ones(s, TN_INTS(1, 2, 16, 16), .dtype = TN_FLOAT16);
    cr_assert_eq(calls_for_replays(x, tn_zeros_like(s, x), attend_to_itself, itself, ATTENTIONS), 1);
}

Test(dnn_attention, a_capture_does_not_open_the_library)
{
    tn_tensor *x = tn_ones(s, TN_INTS(1, 2, 16, 16), .dtype = TN_FLOAT16);
    expect_kernels_in_captures(x, tn_zeros_like(s, x), attend_to_itself, itself, ATTENTIONS);
}

/* ---- Failures ------------------------------------------------------------------------------------------- */

/*
 * Whichever function fails before the work: another engine or the kernels compute it. How many of four passes the library does, which
 * are two times forward and backward, and by which engine the last one; the workspace of an engine is written over between steps.
 */
static const struct {
    const char *failure;
    int by_library, engine;
} failures[] = {
    {"cudnnCreate:1:1001", 0, -1},
    {"cudnnBackendCreateDescriptor:1:4003", 4, ROUNDED},   /* forward: a tensor; the call is made once more */
    {"cudnnBackendCreateDescriptor:34:4003", 4, ROUNDED},  /* forward: the last operation, the graph */
    {"cudnnBackendCreateDescriptor:80:4003", 3, ROUNDED},  /* backward: the kernels, this once */
    {"cudnnBackendCreateDescriptor:122:4003", 3, ROUNDED}, /* backward: the graph */
    {"cudnnBackendCreateDescriptor:123:4003", 3, ROUNDED}, /* backward: the choice */
    {"cudnnBackendFinalize:80:4000", 3, ROUNDED},          /* backward */
    {"cudnnBackendSetAttribute:1:2000", 2, -1},            /* forward: of a tensor */
    {"cudnnBackendSetAttribute:150:2000", 2, -1},          /* forward: of an operation */
    {"cudnnBackendSetAttribute:300:2000", 2, -1},          /* backward */
    {"cudnnBackendSetAttribute:400:2000", 4, PLAIN},       /* backward: of the choice */
    {"cudnnBackendSetAttribute:410:2000", 3, ROUNDED},     /* backward: what the first call works with */
    {"cudnnBackendFinalize:20:3000", 2, -1},               /* forward */
    {"cudnnBackendFinalize:80:2000", 2, -1},               /* backward */
    {"cudnnBackendFinalize:104:3000", 2, -1},              /* backward: the graph */
    {"cudnnBackendFinalize:106:3000", 4, UNORDERED},       /* backward: the plan of the first engine */
    {"cudnnBackendGetAttribute:7:3000", 4, PLAIN},         /* backward: the engines */
    {"cudnnBackendGetAttribute:11:3000", 4, UNORDERED}, /* backward: the notes of the first one that serves */
    {"cudnnSetStream:1:4000", 3, ROUNDED},
    {"cudnnSetStream:2:4000", 3, ROUNDED},
    {"cudnnBackendExecute:1:3000", 2, -1},
    {"cudnnBackendExecute:2:2000", 2, -1},
};

TEST_OF_ROWS(dnn_attention, a_failure_before_the_work_is_left_to_the_kernels, failures)
{
    const char *failure = failures[*row].failure;
    tn_tensor *q = numbers(TN_FLOAT16, TN_INTS(1, 2, 20, 16)),
              *k = numbers(TN_FLOAT16, TN_INTS(1, 1, 24, 16));
    use_library(0);
    tn_tensor *want = train_simply(q, k);
    use_library(1);
    setenv("LIBRARY_FAIL", failure, 1);
    for (int i = 0; i < 2; i++) cr_assert_lt(difference(train_simply(q, k), want), 4e-3, "%s", failure);
    cr_assert_eq(passes(), failures[*row].by_library, "%s: %d passes by the library", failure, passes());
    if (failures[*row].engine >= 0) cr_assert_eq(count(ENGINE), failures[*row].engine, "%s", failure);
    if (*row == 0)
        expect_in(said, "cudnnCreate failed (CUDNN_STATUS_NOT_SUPPORTED): the plugin's own kernels");
    close_device();
    cr_assert_eq(count(LIVE), 0, "%s: %d objects are left", failure, count(LIVE));
}

Test(dnn_attention, work_that_fails_is_an_error_with_its_name)
{
    tn_tensor *x = tn_ones(s, TN_INTS(1, 2, 16, 16), .dtype = TN_FLOAT16);
    let_fail("cudnnBackendExecute", 1, 5000);
    tn_scaled_dot_product_attention(s, x, x, x);
    cr_assert_eq(tn_scope_failed(s), TN_E_INTERNAL);
    expect_in(tn_scope_error(s)->message, "cudnnBackendExecute failed: CUDNN_STATUS_EXECUTION_FAILED");
    tn_scope_clear(s);
    tn_scaled_dot_product_attention(s, x, x, x);
    cr_assert_eq(passes(), 1);
}

/* Out of memory: the call is made once more. */
Test(dnn_attention, work_without_memory_is_tried_again)
{
    tn_tensor *x = tn_ones(s, TN_INTS(1, 2, 16, 16), .dtype = TN_FLOAT16);
    let_fail("cudnnBackendExecute", 1, 4004);
    cr_assert_eq(tn_item_double(s, tn_max(s, tn_scaled_dot_product_attention(s, x, x, x))), 1);
    cr_assert_eq(passes(), 1);
}

Test(dnn_attention, an_old_library_is_not_used)
{
    problem p = forms[0].problem;
    p.dtype = TN_FLOAT16;
    setenv("CUDNN_VERSION", "91500", 1);
    check(p);
    cr_assert_eq(passes(), 0);
    expect_in(said, VENDOR_DNN " 91500 is older than 91501: the plugin's own kernels compute attention");
    close_device();
    cr_assert_eq(count(LIVE), 0);
}

/* In an environment without the library. */
Test(absent, the_kernels_compute_and_the_log_says_so)
{
    problem p = forms[0].problem;
    p.dtype = TN_FLOAT16;
    check(p);
    cr_assert_eq(count(ATTENTIONS), -1);
    expect_in(said, "%s not found: the plugin's own kernels compute attention", LIBRARY);
}
