/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes run on the streams of their forward calls. The reference device begins no work before somebody waits for it
 * (TENON_REFERENCE_LAZY), so that each wait that is missing gives a wrong value.
 */
#include "suite.h"

#include <stdlib.h>
#include <tenon/device.h>

static tn_device device;

static void begin_lazily(void)
{
    setenv("TENON_REFERENCE_LAZY", "3000", 1);
    begin();
    device = tn_device_parse(ctx, "reference:0");
    cr_assert_not(device & TN_DEVICE_MISSING);
}

TestSuite(streams, .init = begin_lazily, .timeout = 60);

static tn_tensor *leaf(double value)
{
    tn_tensor *t = tn_full(s, TN_INTS(1000), value, .dtype = TN_FLOAT32, .device = device);
    cr_assert_eq(tn_set_requires_grad(t, 1), TN_OK);
    return t;
}

/* Every element of the gradient of x. */
static void expect_gradient(tn_tensor *x, float want)
{
    float got[1000];
    tn_tensor *grad = tn_grad_of(s, x);
    cr_assert_not_null(grad);
    cr_assert_eq(tn_to_host(s, grad, got, sizeof got), TN_OK);
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(got[i], want, "%d: %g, not %g", i, (double)got[i], (double)want);
}

/* A chain over so many streams; its gradient arrives on the stream that is current when backward returns. */
static void run_over(int count)
{
    tn_stream *streams[24], *home = tn_stream_default(ctx, device);
    tn_tensor *x = leaf(2), *y = x;
    tn_stream *before = home;
    float want = 1;
    for (int i = 0; i < count; i++) {
        cr_assert_eq(tn_stream_create(ctx, device, 0, &streams[i]), TN_OK);
        cr_assert_eq(tn_stream_wait_stream(streams[i], before), TN_OK);
        cr_assert_eq(tn_stream_set_current(ctx, streams[i]), TN_OK);
        y = tn_mul_scalar(s, y, i % 2 ? 0.5 : 4);
        y = tn_add(s, y, x); /* x is used on every stream */
        want = want * (i % 2 ? 0.5f : 4) + 1;
        before = streams[i];
    }
    cr_assert_eq(tn_stream_wait_stream(home, before), TN_OK);
    cr_assert_eq(tn_stream_set_current(ctx, home), TN_OK);
    tn_backward(s, tn_sum(s, y));
    expect_sound(s);
    cr_assert_eq(tn_stream_current(ctx, device), home);
    expect_gradient(x, want);
    for (int i = 0; i < count; i++) tn_stream_release(streams[i]);
}

Test(streams, a_chain_over_two_streams)
{
    run_over(2);
    end();
}

/* More streams than a run notes: it waits for the others at once. */
Test(streams, a_chain_over_many_streams)
{
    run_over(24);
    end();
}

/*
 * Each run adds to the gradient on the caller's stream, after what the run before has added on another one. Asking the
 * events of freed memory starts work, too, so the last but one has much to do before its sum.
 */
Test(streams, runs_on_two_streams_add_to_one_gradient)
{
    tn_stream *home = tn_stream_default(ctx, device), *streams[2];
    tn_tensor *x = leaf(2), *y = tn_mul_scalar(s, x, 3), *kept = tn_mul_scalar(s, y, 1);
    const tn_backward_options keep = {
        .size = sizeof keep, .retain_graph = 1, .grad_outputs = TN_TENSORS(tn_ones_like(s, kept))};
    cr_assert_eq(tn_retain_grad(y), TN_OK);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(tn_stream_create(ctx, device, 0, &streams[i]), TN_OK);
        cr_assert_eq(tn_stream_wait_stream(streams[i], home), TN_OK);
    }
    for (int i = 0; i < 5; i++) {
        tn_tensor *much = NULL;
        cr_assert_eq(tn_stream_set_current(ctx, streams[i % 2]), TN_OK);
        if (i == 3) much = tn_full(s, TN_INTS(1 << 20), 1, .dtype = TN_FLOAT32, .device = device);
        for (int k = 0; much && k < 20; k++) tn_mul_scalar_(s, much, 1);
        cr_assert_eq(tn_backward_with(s, TN_TENSORS(kept), &keep), TN_OK);
    }
    expect_gradient(x, 15);
    expect_gradient(y, 5);
    cr_assert_eq(tn_stream_set_current(ctx, home), TN_OK);
    for (int i = 0; i < 2; i++) tn_stream_release(streams[i]);
    end();
}
