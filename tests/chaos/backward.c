/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams of a backward pass: each node works on the stream of its forward call, and for the program the
 * pass is one call on its own current streams. As in waits.c each test is one wait.
 */
#include "fixture.h"

/* x * factor on the side stream; the home stream is current again. */
static tn_tensor *times_on_side(world *w, tn_tensor *x, double factor)
{
    move_to_side(w);
    tn_tensor *y = tn_mul_scalar(w->s, x, TN_SCALAR(factor));
    on(w, w->home);
    return y;
}

/* The forward pass on the side stream, then at once backward from the default one. */
Test(backward, of_a_forward_pass_on_another_stream)
{
    world w = open_world();
    tn_tensor *x = leaf(&w, 3);
    move_to_side(&w);
    tn_tensor *y = tn_sum(w.s, tn_mul(w.s, x, x));
    on(&w, w.home);
    cr_assert_eq(tn_backward(w.s, y), TN_OK);
    expect_all(&w, tn_grad_of(w.s, x), 6);
    close_world(&w);
}

/* A gradient that the caller has just queued on its stream. */
Test(backward, waits_for_a_gradient_that_is_given)
{
    world w = open_world();
    tn_tensor *x = leaf(&w, 3);
    tn_tensor *y = times_on_side(&w, x, 2);
    tn_tensor *given = plus(&w, filled(&w, COUNT, 1), 4);
    tn_backward_options options = {.size = sizeof options, .grad_outputs = TN_TENSORS(given)};
    cr_assert_eq(tn_backward_with(w.s, TN_TENSORS(y), &options), TN_OK);
    on(&w, w.side); /* on the stream that made it: only the wait asks the caller's stream */
    expect_all(&w, tn_grad_of(w.s, x), 10);
    close_world(&w);
}

/* Two branches on two streams meet: the sum needs both. */
Test(backward, adds_gradients_of_two_streams_after_both)
{
    world w = open_world();
    tn_stream *third = NULL;
    cr_assert_eq(tn_stream_create(w.ctx, w.device, 0, &third), TN_OK);
    tn_tensor *x = leaf(&w, 3), *base = tn_mul_scalar(w.s, x, 1.0);
    move_to_side(&w);
    tn_tensor *a = tn_mul_scalar(w.s, base, 10.0);
    cr_assert_eq(tn_stream_wait_stream(third, w.home), TN_OK);
    on(&w, third);
    tn_tensor *b = tn_mul_scalar(w.s, base, 100.0);
    on(&w, w.home);
    cr_assert_eq(tn_stream_wait_stream(w.home, w.side), TN_OK);
    cr_assert_eq(tn_stream_wait_stream(w.home, third), TN_OK);
    cr_assert_eq(tn_backward(w.s, tn_sum(w.s, tn_add(w.s, a, b))), TN_OK);
    expect_all(&w, tn_grad_of(w.s, x), 110);
    on(&w, w.home);
    tn_stream_release(third);
    close_world(&w);
}

/* A leaf used on two streams accumulates on the caller's. */
Test(backward, accumulates_in_a_leaf_after_both)
{
    world w = open_world();
    tn_tensor *x = leaf(&w, 3);
    tn_tensor *a = times_on_side(&w, x, 10);
    tn_tensor *b = tn_mul_scalar(w.s, x, 100.0);
    cr_assert_eq(tn_stream_wait_stream(w.home, w.side), TN_OK);
    for (int i = 1; i <= 2; i++) {
        tn_backward_options options = {
            .size = sizeof options, .retain_graph = 1, .grad_outputs = TN_TENSORS(filled(&w, COUNT, 1))};
        tn_tensor *sum = tn_add(w.s, a, b);
        cr_assert_eq(tn_backward_with(w.s, TN_TENSORS(sum), &options), TN_OK);
        expect_all(&w, tn_grad_of(w.s, x), 110.0 * i);
    }
    close_world(&w);
}

/* A gradient passed to the side stream is freed before that stream has read it, and the next node
 * allocates such a block on the stream it came from. */
Test(backward, keeps_a_handed_over_gradient_until_it_is_read)
{
    world w = open_world();
    tn_tensor *x = leaf(&w, 3), *other = leaf(&w, 2);
    tn_tensor *last = tn_mul_scalar(w.s, other, 3.0);
    tn_tensor *a = times_on_side(&w, x, 10);
    cr_assert_eq(tn_stream_wait_stream(w.home, w.side), TN_OK);
    tn_tensor *y = tn_add(w.s, tn_mul_scalar(w.s, a, 2.0), last);
    tn_backward_options options = {.size = sizeof options, .grad_outputs = TN_TENSORS(filled(&w, COUNT, 1))};
    cr_assert_eq(tn_backward_with(w.s, TN_TENSORS(y), &options), TN_OK);
    expect_all(&w, tn_grad_of(w.s, x), 20);
    expect_all(&w, tn_grad_of(w.s, other), 3);
    close_world(&w);
}

/* A result of tn_grad is made on the side stream, then used and freed on the caller's. */
Test(backward, keeps_a_captured_gradient_until_the_caller_has_read_it)
{
    world w = open_world();
    tn_tensor *x = leaf(&w, 3), *grad = NULL;
    move_to_side(&w);
    tn_tensor *a = tn_mul_scalar(w.s, x, 10.0), *b = tn_mul_scalar(w.s, a, 5.0);
    on(&w, w.home);
    tn_backward_options options = {.size = sizeof options, .grad_outputs = TN_TENSORS(filled(&w, COUNT, 1))};
    cr_assert_eq(tn_grad(w.s, TN_TENSORS(b), TN_TENSORS(a), &options, &grad), TN_OK);
    tn_tensor *result = plus(&w, grad, 1);
    tn_drop(w.s, grad);
    on(&w, w.side);
    for (int i = 0; i < 4; i++) expect_all(&w, filled(&w, COUNT, 7), 7);
    on(&w, w.home);
    expect_all(&w, result, 6);
    close_world(&w);
}

/* A retained gradient is ready for the caller's stream when backward returns. */
Test(backward, leaves_a_retained_gradient_for_the_caller)
{
    world w = open_world();
    tn_tensor *x = leaf(&w, 3), *other = leaf(&w, 1);
    move_to_side(&w);
    tn_tensor *a = tn_mul_scalar(w.s, x, 10.0);
    cr_assert_eq(tn_retain_grad(a), TN_OK);
    tn_tensor *b = tn_mul(w.s, tn_mul_scalar(w.s, a, 5.0), other);
    tn_tensor *y = tn_sum(w.s, b);
    on(&w, w.home);
    tn_backward_options options = {.size = sizeof options, .inputs = TN_TENSORS(a)};
    cr_assert_eq(tn_backward_with(w.s, TN_TENSORS(y), &options), TN_OK);
    expect_all(&w, tn_grad_of(w.s, a), 5);
    close_world(&w);
}

/* The stream of the forward pass was released: it was waited for, and the caller's stream does the work. */
Test(backward, of_a_forward_pass_whose_stream_is_gone)
{
    world w = open_world();
    tn_stream *third = NULL;
    tn_tensor *x = leaf(&w, 3);
    cr_assert_eq(tn_stream_create(w.ctx, w.device, 0, &third), TN_OK);
    cr_assert_eq(tn_stream_wait_stream(third, w.home), TN_OK);
    on(&w, third);
    tn_tensor *y = tn_sum(w.s, tn_mul(w.s, x, x));
    on(&w, w.home);
    tn_stream_release(third);
    cr_assert_eq(tn_backward(w.s, y), TN_OK);
    expect_all(&w, tn_grad_of(w.s, x), 6);
    close_world(&w);
}

/* Two devices, each with a stream of its own: gradients cross through the host. */
Test(backward, across_two_devices_and_four_streams)
{
    world w = open_world();
    tn_device other = tn_device_choose(w.ctx, "reference:1", NULL);
    tn_stream *there = NULL, *there_home = tn_stream_default(w.ctx, other);
    cr_assert_eq(tn_stream_create(w.ctx, other, 0, &there), TN_OK);
    tn_tensor *x = leaf(&w, 3);
    tn_tensor *v = tn_full(w.s, TN_INTS(COUNT), 4.0, .dtype = TN_FLOAT64, .device = other);
    cr_assert_eq(tn_set_requires_grad(v, 1), TN_OK);
    cr_assert_eq(tn_stream_wait_stream(there, there_home), TN_OK);
    move_to_side(&w);
    on(&w, there);
    tn_tensor *a = tn_mul_scalar(w.s, x, 2.0);
    tn_tensor *b = tn_mul(w.s, tn_to_dtype_layout(w.s, a, .device = other), v);
    tn_tensor *y = tn_sum(w.s, tn_mul_scalar(w.s, b, 5.0));
    on(&w, w.home);
    on(&w, there_home);
    cr_assert_eq(tn_backward(w.s, y), TN_OK);
    expect_all(&w, tn_grad_of(w.s, x), 40);
    expect_all(&w, tn_grad_of(w.s, v), 30);
    tn_stream_release(there);
    close_world(&w);
}

/* ---- functions of the program ------------------------------------------------------------------------ */

static int32_t square_forward(tn_function_call *call, tn_scope *s, tn_tensors inputs, tn_tensor **out)
{
    out[0] = tn_mul(s, inputs.data[0], inputs.data[0]);
    tn_tensor *twice = tn_mul_scalar(s, inputs.data[0], 2.0);
    return tn_scope_failed(s) ? tn_scope_failed(s) : tn_function_save(call, TN_TENSORS(twice));
}

static int32_t square_backward(tn_function_call *call, tn_scope *s, tn_tensors grads, tn_tensor **out)
{
    out[0] = tn_mul(s, grads.data[0], tn_function_saved(call, s, 0));
    return tn_scope_failed(s);
}

Test(backward, of_a_function_works_on_the_stream_of_its_forward)
{
    world w = open_world();
    tn_function function = {
        .size = sizeof function, .name = "Square", .forward = square_forward, .backward = square_backward};
    tn_tensor *x = leaf(&w, 3), *y = NULL;
    move_to_side(&w);
    cr_assert_eq(tn_function_apply(w.s, &function, NULL, TN_TENSORS(x), &y, 1), TN_OK);
    on(&w, w.home);
    tn_backward_options options = {.size = sizeof options, .grad_outputs = TN_TENSORS(filled(&w, COUNT, 1))};
    cr_assert_eq(tn_backward_with(w.s, TN_TENSORS(y), &options), TN_OK);
    expect_all(&w, tn_grad_of(w.s, x), 6);
    close_world(&w);
}
