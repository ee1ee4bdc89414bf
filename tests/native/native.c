/* SPDX-License-Identifier: Apache-2.0 */
/* A library that has rows for the reference device and calls that device by native handles; see library.c. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/ops.h>
#include <tenon/tenon.h>
#include "../core/bare_message.h"

typedef struct world {
    tn_context *ctx;
    tn_scope *s;
    tn_device device;
} world;

static world begin(void)
{
    world w = {.ctx = NULL};
    cr_assert_eq(tn_context_create(NULL, &w.ctx), TN_OK);
    w.device = tn_device_parse(w.ctx, "reference:0");
    w.s = tn_scope_open(w.ctx);
    cr_assert_eq(tn_library_open(w.ctx, getenv("TENON_TEST_LIBRARY"), NULL), TN_OK, "%s",
                 tn_last_error() ? tn_last_error()->message : "");
    return w;
}

static void end(world *w)
{
    cr_assert_eq(tn_scope_failed(w->s), TN_OK, "%s", tn_scope_error(w->s)->message);
    tn_scope_close(w->s);
    tn_context_destroy(w->ctx);
}

static tn_tensor *call(world *w, const char *name, tn_value a, tn_value b, uint32_t n)
{
    tn_value args[] = {a, b}, out = tn_value_none();
    uint32_t op = tn_operator_find(w->ctx, name);
    cr_assert_neq(op, 0);
    tn_scope_call(w->s, op, args, n, &out, 1);
    cr_assert_eq(tn_scope_failed(w->s), TN_OK, "%s", tn_scope_error(w->s)->message);
    return out.as.tensor;
}

static void expect(world *w, const tn_tensor *t, const float *want, uint64_t count)
{
    float got[8] = {0};
    cr_assert_eq(tn_to_host(w->s, t, got, count * sizeof *got), TN_OK, "%s", tn_scope_error(w->s)->message);
    for (uint64_t i = 0; i < count; i++) cr_assert_float_eq(got[i], want[i], 1e-6f, "%f", (double)got[i]);
}

Test(native, a_row_runs_by_native_handles)
{
    world w = begin();
    tn_tensor *x = tn_from_data(w.s, TN_FLOAT32, TN_INTS(4), (float[]){1, 2, 3, 4}, w.device);
    expect(&w, call(&w, "native::scale", tn_value_tensor(x), tn_value_float(3), 2), (float[]){3, 6, 9, 12},
           4);
    /* A part of a tensor, in order with the work before it on the stream. */
    tn_tensor *y = tn_add_(w.s, x, x);
    tn_tensor *part = tn_narrow(w.s, y, 0, 1, 2);
    expect(&w, call(&w, "native::scale", tn_value_tensor(part), tn_value_float(0.5), 2), (float[]){2, 3}, 2);
    end(&w);
}

Test(native, a_kernel_calls_operators_and_takes_an_argument_on_the_host)
{
    world w = begin();
    tn_tensor *x = tn_from_data(w.s, TN_FLOAT32, TN_INTS(3), (float[]){1, 2, 3}, w.device);
    tn_tensor *offset = tn_from_data(w.s, TN_FLOAT32, TN_INTS(1), (float[]){10}, w.device);
    tn_tensor *y = call(&w, "native::pair", tn_value_tensor(x), tn_value_tensor(offset), 2);
    expect(&w, y, (float[]){11, 14, 19}, 3);
    end(&w);
}

Test(native, rows_can_be_taken_back)
{
    world w = begin();
    tn_tensor *x = tn_from_data(w.s, TN_FLOAT32, TN_INTS(2), (float[]){0, 1}, w.device);
    expect(&w, tn_cosh(w.s, x), (float[]){-1, -1}, 2);
    call(&w, "native::remove", tn_value_tensor(x), tn_value_none(), 1);
    expect(&w, tn_cosh(w.s, x), (float[]){1, coshf(1)}, 2);
    tn_value arg = tn_value_tensor(x), out = tn_value_none();
    tn_error *error = NULL;
    int32_t status =
        tn_call_operator(w.ctx, tn_operator_find(w.ctx, "native::remove"), &arg, 1, &out, 1, &error);
    cr_assert_eq(status, TN_E_NOT_FOUND);
    cr_assert_not_null(strstr(error->message, "no such rows are registered for device type \"reference\""),
                       "%s", error->message);
    tn_error_release(error);
    end(&w);
}

Test(native, programs_get_the_handles_too)
{
    world w = begin();
    uint64_t native = 77;
    cr_assert_eq(tn_device_native(w.ctx, w.device, TN_NATIVE_DEVICE, &native), TN_OK);
    cr_assert_eq(native, 0); /* a handle that is 0 */
    cr_assert_eq(tn_device_native(w.ctx, w.device, TN_NATIVE_CONTEXT, &native), TN_OK);
    cr_assert_neq(native, 0);
    cr_assert_eq(tn_device_native(w.ctx, w.device, TN_NATIVE_STREAM, &native), TN_E_ARGUMENT);
    cr_assert_eq(tn_stream_native(tn_stream_default(w.ctx, w.device), &native), TN_OK);
    cr_assert_neq(native, 0);
    cr_assert_eq(tn_device_native(w.ctx, TN_CPU, TN_NATIVE_DEVICE, &native), TN_E_UNSUPPORTED);
    cr_assert_not_null(strstr(tn_last_error()->message, "plugin cpu gives no native device handle"));
    end(&w);
}

Test(native, programs_get_the_handle_of_a_tensor)
{
    world w = begin();
    uint64_t native = 0, part_native = 0, offset = 77;
    tn_tensor *x = tn_from_data(w.s, TN_FLOAT32, TN_INTS(4), (float[]){1, 2, 3, 4}, w.device);
    cr_assert_eq(tn_tensor_native(x, &native, &offset), TN_OK);
    cr_assert_eq(((float *)(uintptr_t)(native + offset))[2],
                 3); /* the reference device's own address of it */
    cr_assert_eq(tn_tensor_native(tn_narrow(w.s, x, 0, 2, 1), &part_native, &native), TN_OK);
    cr_assert_eq(native, offset + 8);
    cr_assert_eq(
        tn_tensor_native(tn_empty(w.s, TN_INTS(2), .device = tn_device_parse(w.ctx, "meta")), &native, NULL),
        TN_E_DEVICE);
    cr_assert_eq(tn_tensor_native(NULL, &native, NULL), TN_E_ARGUMENT);
    end(&w);
}

/* The program's queue is the native handle of another stream. */
Test(native, a_queue_of_the_program_becomes_a_stream)
{
    world w = begin();
    tn_stream *own, *wrapped = NULL;
    uint64_t native = 0;
    tn_device other = tn_device_parse(w.ctx, "reference:1");
    cr_assert_eq(tn_stream_create(w.ctx, w.device, 0, &own), TN_OK);
    cr_assert_eq(tn_stream_native(own, &native), TN_OK);
    cr_assert_eq(tn_stream_wrap(w.ctx, w.device, native, &wrapped), TN_OK, "%s", tn_last_error()->message);
    cr_assert_eq(tn_stream_device(wrapped), w.device);
    uint64_t again = 0;
    cr_assert_eq(tn_stream_native(wrapped, &again), TN_OK);
    cr_assert_eq(again, native);
    /* One queue: work on both is in order without an event. */
    tn_stream_set_current(w.ctx, own);
    tn_tensor *x = tn_from_data(w.s, TN_FLOAT32, TN_INTS(2), (float[]){1, 2}, w.device);
    tn_tensor *y = tn_add(w.s, x, x);
    tn_stream_set_current(w.ctx, wrapped);
    expect(&w, tn_add(w.s, y, x), (float[]){3, 6}, 2);
    tn_stream_set_current(w.ctx, tn_stream_default(w.ctx, w.device));
    tn_stream_release(wrapped);
    tn_stream_set_current(w.ctx, own); /* the queue goes on */
    expect(&w, tn_mul(w.s, y, x), (float[]){2, 8}, 2);
    tn_stream_set_current(w.ctx, tn_stream_default(w.ctx, w.device));
    cr_assert_eq(tn_stream_wrap(w.ctx, other, native, &wrapped), TN_E_ARGUMENT);
    cr_assert_not_null(strstr(tn_last_error()->message, "not a queue of reference:1"), "%s",
                       tn_last_error()->message);
    cr_assert_not_null(strstr(tn_last_error()->message, "the stream is of reference:0"), "%s",
                       tn_last_error()->message);
    cr_assert_eq(tn_stream_wrap(w.ctx, w.device, native + 1, &wrapped), TN_E_ARGUMENT);
    cr_assert_eq(tn_stream_wrap(w.ctx, TN_CPU, native, &wrapped), TN_E_UNSUPPORTED);
    cr_assert_str_eq(bare_message(tn_last_error()),
                     "tn_stream_wrap: plugin cpu takes no queues of the program");
    tn_stream_release(own);
    end(&w);
}
