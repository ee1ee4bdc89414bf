/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <stdlib.h>

world open_world(void)
{
    world w = {.ctx = NULL};
    cr_assert_eq(tn_context_create(NULL, &w.ctx), TN_OK);
    w.device = tn_device_choose(w.ctx, "reference:0", NULL);
    cr_assert_neq(w.device, 0, "the reference plugin is not there");
    w.home = tn_stream_default(w.ctx, w.device);
    cr_assert_eq(tn_stream_create(w.ctx, w.device, 0, &w.side), TN_OK);
    w.s = tn_scope_open(w.ctx);
    return w;
}

void expect_sound(tn_scope *s)
{
    cr_assert_not(tn_scope_failed(s), "%s", tn_scope_error(s) ? tn_scope_error(s)->message : "failed");
}

void close_world(world *w)
{
    expect_sound(w->s);
    tn_stream_set_current(w->ctx, w->home);
    tn_scope_close(w->s);
    tn_stream_release(w->side);
    tn_context_destroy(w->ctx);
}

void on(world *w, tn_stream *stream)
{
    cr_assert_eq(tn_stream_set_current(w->ctx, stream), TN_OK);
}

void move_to_side(world *w)
{
    cr_assert_eq(tn_stream_wait_stream(w->side, w->home), TN_OK);
    on(w, w->side);
}

tn_tensor *filled(world *w, int64_t count, double value)
{
    return tn_full(w->s, TN_INTS(count), value, .dtype = TN_FLOAT64, .device = w->device);
}

tn_tensor *plus(world *w, tn_tensor *t, double value)
{
    return tn_add_scalar(w->s, t, value);
}

tn_tensor *leaf(world *w, double value)
{
    tn_tensor *t = filled(w, COUNT, value);
    cr_assert_eq(tn_set_requires_grad(t, 1), TN_OK);
    return t;
}

void expect_all(world *w, const tn_tensor *t, double want)
{
    int64_t count = t ? tn_tensor_numel(t) : 0;
    double *values = malloc((size_t)(count + 1) * sizeof *values);
    cr_assert_neq(count, 0, "there is no tensor");
    for (int64_t i = 0; i < count; i++) values[i] = -12345;
    tn_to_host(w->s, t, values, (uint64_t)count * sizeof *values);
    expect_sound(w->s);
    for (int64_t i = 0; i < count; i++)
        cr_assert(values[i] == want, "element %lld is %g instead of %g", (long long)i, values[i], want);
    free(values);
}
