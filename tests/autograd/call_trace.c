/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of calls, run again on other tensors: the same results as the program's. */
#include "suite.h"

#include <string.h>

TestSuite(call_trace, .init = begin, .fini = end);

#define LIST(...) \
    ((tn_tensors){(tn_tensor *[]){__VA_ARGS__}, sizeof((tn_tensor *[]){__VA_ARGS__}) / sizeof(void *)})

static tn_call_trace *start(tn_tensors inputs)
{
    tn_call_trace *trace = tn_call_trace_begin(ctx, inputs);
    cr_assert_not_null(trace, "%s", tn_last_error() ? tn_last_error()->message : "");
    return trace;
}

static void finish(tn_call_trace *trace, tn_tensors outputs)
{
    expect_sound(s);
    cr_assert_eq(tn_call_trace_end(trace, outputs), TN_OK, "%s", tn_last_error()->message);
}

static void expect_text(const tn_call_trace *trace, const char *want)
{
    char text[2000];
    uint64_t length = tn_call_trace_text(trace, text, sizeof text);
    cr_assert_str_eq(text, want);
    cr_assert_eq(length, strlen(want));
    cr_assert_eq(tn_call_trace_text(trace, text, 5), length);
    cr_assert_eq(strlen(text), 4);
}

Test(call_trace, other_inputs)
{
    tn_tensor *x = VECTOR(s, 0, 1, 2, 3), *w = VECTOR(s, 0, 10, 20, 30), *out;
    tn_call_trace *trace = start(LIST(x));
    tn_tensor *y = tn_mul(s, x, w);
    tn_tensor *z = tn_add_scalar(s, y, 0.5, .alpha = TN_SCALAR(2));
    finish(trace, LIST(z, x));
    expect_text(trace, "%2 = aten::mul.Tensor(%0, %1)\n%3 = aten::add.Scalar(%2, 0.5, 2)\n");
    tn_tensor *both[2];
    cr_assert_eq(tn_call_trace_run(s, trace, LIST(VECTOR(s, 0, 4, 5, 6)), both), TN_OK);
    EXPECT(s, both[0], 41, 101, 181);
    EXPECT(s, both[1], 4, 5, 6);
    /* Constants are the program's tensors; later writes to them are seen. */
    tn_fill_scalar_(s, w, 1);
    cr_assert_eq(tn_call_trace_run(s, trace, LIST(VECTOR(s, 0, 4, 5, 6)), both), TN_OK);
    EXPECT(s, both[0], 5, 6, 7);
    tn_call_trace_release(trace);
    (void)out;
}

Test(call_trace, views_writes_and_lists)
{
    tn_tensor *x = make(s, TN_INTS(2, 2), VALUES(1, 2, 3, 4), 0), *out;
    tn_call_trace *trace = start(LIST(x));
    tn_tensor *y = tn_clone(s, x);
    tn_tensor *row = tn_select(s, y, 0, 1);
    tn_mul_scalar_(s, row, 10);
    tn_tensors parts = tn_split(s, y, 1, .dim = 1);
    tn_tensor *joined = tn_cat(s, parts, .dim = 0);
    tn_tensor *detached = tn_detach(s, joined);
    finish(trace, LIST(tn_add(s, detached, joined)));
    cr_assert_eq(tn_call_trace_run(s, trace, LIST(make(s, TN_INTS(2, 2), VALUES(5, 6, 7, 8), 0)), &out),
                 TN_OK);
    EXPECT(s, out, 10, 140, 12, 160);
    cr_assert_eq(tn_call_trace_count(trace), 7);
    tn_call_trace_step step = {.size = sizeof step};
    cr_assert_eq(tn_call_trace_get(trace, 3, &step), TN_OK);
    cr_assert_str_eq(step.name, "aten::split.Tensor");
    cr_assert_eq(step.n_made, 2);
    cr_assert_eq(tn_call_trace_get(trace, 4, &step), TN_OK);
    cr_assert_eq(step.n_used, 2);
    cr_assert_eq(tn_call_trace_get(trace, 7, &step), TN_E_INDEX);
    tn_call_trace_release(trace);
}

/* A training step with its backward: gradients for other inputs equal those of autograd. */
Test(call_trace, backward_is_calls)
{
    tn_tensor *w = make(s, TN_INTS(2, 1), VALUES(0.5, -1), 1), *x = make(s, TN_INTS(1, 2), VALUES(1, 2), 0),
              *out;
    tn_call_trace *trace = start(LIST(x, w));
    tn_tensor *loss = tn_sum(s, tn_tanh(s, tn_mm(s, x, w))), *grad = NULL;
    cr_assert_eq(tn_grad(s, LIST(loss), LIST(w), NULL, &grad), TN_OK);
    finish(trace, LIST(grad));
    tn_tensor *other = make(s, TN_INTS(1, 2), VALUES(-0.25, 0.5), 0), *want;
    cr_assert_eq(tn_call_trace_run(s, trace, LIST(other, w), &out), TN_OK);
    cr_assert_eq(tn_grad(s, LIST(tn_sum(s, tn_tanh(s, tn_mm(s, other, w)))), LIST(w), NULL, &want), TN_OK);
    /* 1 - tanh(-0.625)^2 = 0.692419..., times x */
    EXPECT(s, tn_sub(s, out, want), 0, 0);
    expect_values(s, out, 2, VALUES(-0.25 * 0.6924191, 0.5 * 0.6924191), 1e-6);
    tn_call_trace_release(trace);
}

/* A run records and casts by the modes of its own scope. */
Test(call_trace, layers_are_the_runs)
{
    tn_tensor *w = VECTOR(s, 1, 2, 3), *x = VECTOR(s, 0, 1, 1), *out, *grad;
    tn_call_trace *trace = start(LIST(x));
    tn_scope_options off = {.size = sizeof off, .grad_mode = TN_GRAD_OFF};
    tn_scope *quiet = tn_scope_open_child(s, &off);
    tn_tensor *y = tn_scope_return(quiet, tn_mul(quiet, x, w));
    tn_scope_close(quiet);
    finish(trace, LIST(y));
    cr_assert_eq(tn_call_trace_run(s, trace, LIST(VECTOR(s, 0, 7, 8)), &out), TN_OK);
    cr_assert_eq(tn_grad(s, LIST(tn_sum(s, out)), LIST(w), NULL, &grad), TN_OK);
    EXPECT(s, grad, 7, 8);
    tn_call_trace_release(trace);
}

/* A detached tensor is a value of its own: a run has the program's gradient, x and not 2 x. */
Test(call_trace, detached_is_another_value)
{
    tn_tensor *x = VECTOR(s, 1, 3, 4), *out, *grad;
    tn_call_trace *trace = start(LIST(x));
    tn_tensor *y = tn_mul(s, x, tn_detach(s, x));
    finish(trace, LIST(y));
    tn_tensor *other = VECTOR(s, 1, 5, 6);
    cr_assert_eq(tn_call_trace_run(s, trace, LIST(other), &out), TN_OK);
    cr_assert_eq(tn_grad(s, LIST(tn_sum(s, out)), LIST(other), NULL, &grad), TN_OK);
    EXPECT(s, grad, 5, 6);
    tn_call_trace_release(trace);
}

/* The out form of a factory changes its arguments inside; the trace has the program's. */
Test(call_trace, out_forms_of_factories)
{
    tn_tensor *x = VECTOR(s, 0, 1, 2), *out;
    tn_call_trace *trace = start(LIST(x));
    tn_zeros_out(s, TN_INTS(2), x);
    finish(trace, LIST(x));
    expect_text(trace, "%0 = aten::zeros.out([2], %0)\n");
    cr_assert_eq(tn_call_trace_run(s, trace, LIST(VECTOR(s, 0, 8, 9)), &out), TN_OK);
    EXPECT(s, out, 0, 0);
    tn_call_trace_release(trace);
}

Test(call_trace, refusals)
{
    tn_tensor *x = VECTOR(s, 0, 1, 2), *out;
    cr_assert_null(tn_call_trace_begin(ctx, LIST(x, x)));
    expect_last_error("input 1 is given twice");
    tn_call_trace *trace = start(LIST(x));
    cr_assert_null(tn_call_trace_begin(ctx, LIST(x)));
    expect_last_error("this thread already records a trace");
    cr_assert_eq(tn_call_trace_run(s, trace, LIST(x), &out), TN_E_STATE);
    expect_error(s, "the trace is NULL or not ended");
    tn_mul(s, x, tn_mul(s, tn_ones(s, TN_INTS(3)), x)); /* fails, so it is not traced */
    expect_error(s, "size of tensor");
    finish(trace, LIST(x));
    cr_assert_eq(tn_call_trace_count(trace), 1);
    cr_assert_eq(tn_call_trace_run(s, trace, LIST(x, x), &out), TN_E_ARGUMENT);
    expect_error(s, "got 2 inputs, expected 1");
    cr_assert_eq(tn_call_trace_end(trace, LIST(x)), TN_E_STATE);
    tn_call_trace_release(trace);
    trace = start(LIST(x));
    tn_call_trace_release(trace); /* given up */
    trace = start(LIST(x));
    tn_call_trace_release(trace);
}
