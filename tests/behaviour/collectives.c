/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives over four reference devices: results against arithmetic written here, order on streams,
 * refusals and their texts.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/ops.h>
#include <tenon/tenon.h>
#include "reference.h"

#define RANKS 4u
#define COUNT 6

typedef struct world {
    tn_context *ctx;
    tn_scope *s;
    tn_device devices[RANKS];
    tn_communicator *all;
} world;

static world open_world(void)
{
    tn_device first;
    setenv("TENON_REFERENCE_DEVICES", "4", 1);
    world w = {.ctx = open_reference(&first)};
    for (uint32_t i = 0; i < RANKS; i++) w.devices[i] = TN_DEVICE(TN_DEVICE_TYPE(first), i);
    cr_assert_eq(tn_communicator_create(w.ctx, w.devices, RANKS, &w.all), TN_OK);
    w.s = tn_scope_open(w.ctx);
    return w;
}

static void close_world(world *w)
{
    cr_assert_not(tn_scope_failed(w->s), "%s",
                  tn_scope_error(w->s) ? tn_scope_error(w->s)->message : "failed");
    tn_scope_close(w->s);
    tn_communicator_release(w->all);
    tn_context_destroy(w->ctx);
}

/* Element i of rank r is first[r] + i, as `dtype`. */
static void make(const world *w, tn_dtype dtype, int64_t count, const double *first, tn_tensor **out)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        double values[64];
        for (int64_t i = 0; i < count; i++) values[i] = first[r] + (double)i;
        tn_tensor *t = tn_from_data(w->s, TN_FLOAT64, TN_INTS(count), values, TN_CPU);
        out[r] = tn__to_copy(w->s, t, .dtype = dtype, .device = w->devices[r]);
        cr_assert_not_null(out[r], "%s", tn_scope_error(w->s)->message);
    }
}

/* A float32 1 on each device. */
static void make_ones(const world *w, tn_tensor **out)
{
    for (uint32_t r = 0; r < RANKS; r++)
        out[r] = tn_full(w->s, TN_INTS(1), 1, .dtype = TN_FLOAT32, .device = w->devices[r]);
}

static void expect_values(const world *w, tn_tensor *t, const double *want, int64_t count)
{
    double got[64];
    cr_assert_eq(tn_tensor_numel(t), count);
    tn_to_host(w->s, tn__to_copy(w->s, t, .dtype = TN_FLOAT64, .device = TN_CPU), got, (uint64_t)count * 8);
    cr_assert_not(tn_scope_failed(w->s));
    for (int64_t i = 0; i < count; i++)
        cr_assert(got[i] == want[i], "element %lld is %g instead of %g", (long long)i, got[i], want[i]);
}

/* Every rank has one element of this value. */
static void expect_each(const world *w, tn_tensor *const *t, double want)
{
    for (uint32_t r = 0; r < RANKS; r++) expect_values(w, t[r], &want, 1);
}

static void expect_error(int32_t status, int32_t want, const char *words)
{
    cr_assert_eq(status, want, "%d: %s", status, tn_last_error() ? tn_last_error()->message : "");
    cr_assert(strstr(tn_last_error()->message, words), "%s", tn_last_error()->message);
}

/* ---- Numbers ----------------------------------------------------------------------------------------- */

Test(collectives, all_reduce_of_every_kind)
{
    static const double first[RANKS] = {1, 2, 5, 4};
    static const tn_dtype dtypes[] = {TN_FLOAT64, TN_FLOAT32, TN_BFLOAT16, TN_INT64, TN_INT32, TN_UINT8};
    world w = open_world();
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
        for (uint32_t reduction = TN_REDUCE_SUM; reduction <= TN_REDUCE_MAX; reduction++) {
            tn_tensor *t[RANKS];
            double want[3];
            make(&w, dtypes[k], 3, first, t);
            cr_assert_eq(tn_communicator_all_reduce(w.all, t, RANKS, reduction), TN_OK);
            for (int i = 0; i < 3; i++) {
                double a = 1 + i, b = 2 + i, c = 5 + i, d = 4 + i;
                want[i] = reduction == TN_REDUCE_SUM       ? a + b + c + d
                          : reduction == TN_REDUCE_PRODUCT ? a * b * c * d
                          : reduction == TN_REDUCE_MIN     ? a
                                                           : c;
                if (dtypes[k] == TN_UINT8 && want[i] > 255) want[i] = (double)((int)want[i] % 256);
            }
            for (uint32_t r = 0; r < RANKS; r++) expect_values(&w, t[r], want, 3);
        }
    }
    close_world(&w);
}

Test(collectives, averages_booleans_and_complex_numbers)
{
    static const double first[RANKS] = {1, 2, 5, 4};
    static const double want[] = {3, 4};
    world w = open_world();
    tn_tensor *t[RANKS];
    make(&w, TN_FLOAT32, 2, first, t);
    cr_assert_eq(tn_communicator_all_reduce(w.all, t, RANKS, TN_REDUCE_AVERAGE), TN_OK);
    expect_values(&w, t[3], want, 2);
    for (uint32_t any = 0; any < 2; any++) {
        static const uint8_t bits[RANKS][4] = {{0, 1, 1, 0}, {0, 0, 1, 1}, {0, 1, 1, 1}, {0, 1, 1, 1}};
        const double wanted[2][4] = {{0, 0, 1, 0}, {0, 1, 1, 1}};
        for (uint32_t r = 0; r < RANKS; r++)
            t[r] = tn_from_data(w.s, TN_BOOL, TN_INTS(4), bits[r], w.devices[r]);
        cr_assert_eq(tn_communicator_all_reduce(w.all, t, RANKS, any ? TN_REDUCE_SUM : TN_REDUCE_MIN), TN_OK);
        for (uint32_t r = 0; r < RANKS; r++) expect_values(&w, t[r], wanted[any], 4);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        const float pair[2] = {(float)r, 1};
        t[r] = tn_from_data(w.s, TN_COMPLEX64, TN_INTS(1), pair, w.devices[r]);
    }
    cr_assert_eq(tn_communicator_all_reduce(w.all, t, RANKS, TN_REDUCE_PRODUCT), TN_OK);
    double product[2]; /* i (1 + i) (2 + i) (3 + i) = (i - 1) (5 + 5i) = -10 */
    cr_assert_eq(tn_item_complex(w.s, t[2], product), TN_OK);
    cr_assert(product[0] == -10 && product[1] == 0, "%g %g", product[0], product[1]);
    close_world(&w);
}

Test(collectives, broadcast_gather_and_scatter)
{
    static const double first[RANKS] = {100, 200, 300, 400};
    static const double whole[] = {100, 101, 200, 201, 300, 301, 400, 401};
    world w = open_world();
    tn_tensor *t[RANKS], *large[RANKS];
    const double zero[RANKS] = {0};
    make(&w, TN_INT16, 2, first, t);
    make(&w, TN_INT16, 8, zero, large);
    cr_assert_eq(tn_communicator_all_gather(w.all, large, t, RANKS), TN_OK);
    for (uint32_t r = 0; r < RANKS; r++) expect_values(&w, large[r], whole, 8);
    cr_assert_eq(tn_communicator_broadcast(w.all, t, RANKS, 2), TN_OK);
    for (uint32_t r = 0; r < RANKS; r++) expect_values(&w, t[r], &whole[4], 2);
    cr_assert_eq(tn_communicator_reduce_scatter(w.all, t, large, RANKS, TN_REDUCE_SUM), TN_OK);
    for (uint32_t r = 0; r < RANKS; r++) {
        const double sums[] = {4 * whole[2 * r], 4 * whole[2 * r + 1]};
        expect_values(&w, t[r], sums, 2);
    }
    /* In place: an input is its own part of the large one. */
    for (uint32_t r = 0; r < RANKS; r++) {
        large[r] = tn_zeros(w.s, TN_INTS(8), .dtype = TN_FLOAT32, .device = w.devices[r]);
        t[r] = tn_narrow(w.s, large[r], 0, 2 * r, 2);
        tn_fill_scalar_(w.s, t[r], r + 1);
    }
    cr_assert_eq(tn_communicator_all_gather(w.all, large, t, RANKS), TN_OK);
    const double ones[] = {1, 1, 2, 2, 3, 3, 4, 4};
    for (uint32_t r = 0; r < RANKS; r++) expect_values(&w, large[r], ones, 8);
    close_world(&w);
}

Test(collectives, all_to_all_exchanges_parts)
{
    static const double first[RANKS] = {0, 100, 200, 300};
    static const double zero[RANKS] = {0};
    world w = open_world();
    tn_tensor *in[RANKS], *out[RANKS];
    make(&w, TN_FLOAT32, 8, first, in);
    make(&w, TN_FLOAT32, 8, zero, out);
    cr_assert_eq(tn_communicator_all_to_all(w.all, out, in, RANKS), TN_OK);
    for (uint32_t r = 0; r < RANKS; r++) {
        double want[8];
        for (uint32_t from = 0; from < RANKS; from++)
            for (uint32_t i = 0; i < 2; i++) want[2 * from + i] = first[from] + 2 * r + i;
        expect_values(&w, out[r], want, 8);
    }
    close_world(&w);
}

Test(collectives, a_communicator_that_was_aborted_refuses)
{
    world w = open_world();
    tn_tensor *t[RANKS];
    make_ones(&w, t);
    cr_assert_eq(tn_communicator_status(w.all), TN_OK);
    cr_assert_eq(tn_communicator_abort(w.all), TN_OK);
    cr_assert_eq(tn_communicator_abort(w.all), TN_OK);
    expect_error(tn_communicator_status(w.all), TN_E_STATE, "aborted");
    expect_error(tn_communicator_all_reduce(w.all, t, RANKS, TN_REDUCE_SUM), TN_E_STATE, "aborted");
    expect_error(tn_communicator_unique_id(w.ctx, TN_CPU, NULL, 0, NULL), TN_E_UNSUPPORTED, "collectives");
    close_world(&w);
}

Test(collectives, a_communicator_of_some_devices_in_another_order)
{
    static const double first[RANKS] = {1, 2, 3, 4};
    world w = open_world();
    tn_communicator *two = NULL;
    tn_tensor *t[RANKS];
    const tn_device devices[2] = {w.devices[3], w.devices[1]};
    cr_assert_eq(tn_communicator_create(w.ctx, devices, 2, &two), TN_OK);
    cr_assert_eq(tn_communicator_size(two), 2);
    cr_assert_eq(tn_communicator_device(two, 0), w.devices[3]);
    cr_assert_eq(tn_communicator_device(two, 2), 0);
    make(&w, TN_FLOAT32, 1, first, t);
    tn_tensor *pair[2] = {t[3], t[1]};
    cr_assert_eq(tn_communicator_broadcast(two, pair, 2, 0), TN_OK);
    expect_values(&w, t[1], &first[3], 1);
    expect_values(&w, t[0], &first[0], 1);
    tn_communicator_release(two);
    close_world(&w);
}

/* ---- Order ------------------------------------------------------------------------------------------- */

/* Work before and after on each stream, many calls in a row, nobody waits in between. */
Test(collectives, calls_are_in_the_order_of_the_streams)
{
    static const double first[RANKS] = {1, 2, 3, 4};
    world w = open_world();
    tn_tensor *t[RANKS];
    make(&w, TN_FLOAT64, 1, first, t);
    double value[RANKS] = {1, 2, 3, 4};
    for (int round = 0; round < 12; round++) {
        double sum = 0;
        for (uint32_t r = 0; r < RANKS; r++) {
            tn_add_scalar_(w.s, t[r], (double)r);
            sum += value[r] + r;
        }
        cr_assert_eq(tn_communicator_all_reduce(w.all, t, RANKS, TN_REDUCE_SUM), TN_OK);
        for (uint32_t r = 0; r < RANKS; r++) {
            tn_mul_scalar_(w.s, t[r], 0.25);
            value[r] = sum * 0.25;
        }
    }
    for (uint32_t r = 0; r < RANKS; r++) expect_values(&w, t[r], &value[r], 1);
    close_world(&w);
}

/* Tensors that are released at once: their memory is not reused before every rank has read it. */
Test(collectives, memory_that_is_let_go_of_is_still_read)
{
    static const double first[RANKS] = {1, 2, 3, 4};
    static const double want[] = {1, 2, 3, 4};
    world w = open_world();
    tn_tensor *t[RANKS], *out[RANKS];
    const double zero[RANKS] = {0};
    for (int round = 0; round < 10; round++) {
        make(&w, TN_FLOAT32, 1, first, t);
        make(&w, TN_FLOAT32, 4, zero, out);
        cr_assert_eq(tn_communicator_all_gather(w.all, out, t, RANKS), TN_OK);
        for (uint32_t r = 0; r < RANKS; r++) {
            tn_drop(w.s, t[r]);
            tn_full(w.s, TN_INTS(1), -1, .dtype = TN_FLOAT32, .device = w.devices[r]);
        }
        for (uint32_t r = 0; r < RANKS; r++) expect_values(&w, out[r], want, 4);
    }
    close_world(&w);
}

Test(collectives, a_barrier_orders_what_lies_on_both_sides)
{
    world w = open_world();
    tn_event *event = NULL;
    cr_assert_eq(tn_event_create(w.ctx, w.devices[2], 0, &event), TN_OK);
    tn_tensor *x = tn_zeros(w.s, TN_INTS(COUNT), .device = w.devices[2]);
    for (int i = 0; i < 20; i++) tn_add_scalar_(w.s, x, 1.0);
    cr_assert_eq(tn_event_record(event, tn_stream_current(w.ctx, w.devices[2])), TN_OK);
    cr_assert_eq(tn_communicator_barrier(w.all), TN_OK);
    cr_assert_eq(tn_stream_synchronize(tn_stream_current(w.ctx, w.devices[0])), TN_OK);
    cr_assert_eq(tn_event_query(event), 1, "stream 0 went on before stream 2 had come");
    tn_event_release(event);
    close_world(&w);
}

/* ---- Errors that come late, and at once ---------------------------------------------------------------- */

/* A world whose device fails as this variable says, with a float32 1 on each device. */
static world open_failing_world(const char *variable, const char *value, tn_tensor **out)
{
    setenv(variable, value, 1);
    world w = open_world();
    make_ones(&w, out);
    return w;
}

/* Of device 1 the call is the third task, of the others the second. */
Test(collectives, a_late_error_of_one_rank_is_late_on_all)
{
    tn_tensor *t[RANKS];
    world w = open_failing_world("TENON_REFERENCE_FAIL", "3", t);
    tn_mul_scalar_(w.s, t[1], 1.0);
    cr_assert_eq(tn_communicator_all_reduce(w.all, t, RANKS, TN_REDUCE_SUM), TN_OK);
    for (uint32_t r = 0; r < RANKS; r++)
        cr_assert_eq(tn_device_synchronize(w.ctx, w.devices[r]), TN_E_INTERNAL, "rank %u", r);
    for (uint32_t r = 0; r < RANKS; r += 1) {
        tn_tensor *spare =
            tn_zeros(w.s, TN_INTS(1), .device = w.devices[r]); /* the third task of the others */
        (void)spare;
        (void)tn_device_synchronize(w.ctx, w.devices[r]);
    }
    expect_each(&w, t, 1);
    expect_error(tn_communicator_all_reduce(w.all, t, RANKS, TN_REDUCE_SUM), TN_E_INTERNAL, "reference: ");
    cr_assert_eq(tn_communicator_abort(w.all), TN_OK);
    tn_communicator_release(w.all);
    cr_assert_eq(tn_communicator_create(w.ctx, w.devices, RANKS, &w.all), TN_OK);
    cr_assert_eq(tn_communicator_all_reduce(w.all, t, RANKS, TN_REDUCE_SUM), TN_OK);
    expect_each(&w, t, 4);
    close_world(&w);
}

/* The fifth call that queues work is refused; the four before are the tensors. */
Test(collectives, a_call_that_is_refused_does_nothing_on_any_rank)
{
    tn_tensor *t[RANKS];
    world w = open_failing_world("TENON_REFERENCE_REFUSE", "5", t);
    expect_error(tn_communicator_all_reduce(w.all, t, RANKS, TN_REDUCE_SUM), TN_E_INTERNAL,
                 "this call fails");
    expect_each(&w, t, 1);
    cr_assert_eq(tn_communicator_all_reduce(w.all, t, RANKS, TN_REDUCE_SUM), TN_OK);
    expect_each(&w, t, 4);
    close_world(&w);
}

/* ---- Refusals ---------------------------------------------------------------------------------------- */

Test(collectives, wrong_arguments_are_named)
{
    static const double first[RANKS] = {1, 2, 3, 4};
    world w = open_world();
    tn_tensor *t[RANKS], *u[RANKS], *keep;
    make(&w, TN_FLOAT32, 4, first, t);
    make(&w, TN_INT32, 4, first, u);
    expect_error(tn_communicator_all_reduce(w.all, t, 3, TN_REDUCE_SUM), TN_E_ARGUMENT,
                 "3 tensors for 4 ranks");
    expect_error(tn_communicator_all_reduce(w.all, t, RANKS, 9), TN_E_ARGUMENT, "no reduction 9");
    expect_error(tn_communicator_broadcast(w.all, t, RANKS, 4), TN_E_ARGUMENT, "root 4");
    expect_error(tn_communicator_all_reduce(w.all, u, RANKS, TN_REDUCE_AVERAGE), TN_E_DTYPE,
                 "TN_REDUCE_AVERAGE is not for int32");
    keep = t[1];
    t[1] = u[1];
    expect_error(tn_communicator_all_reduce(w.all, t, RANKS, TN_REDUCE_SUM), TN_E_DTYPE,
                 "tensors[1] is int32, but tensors[0] is float32");
    t[1] = t[2];
    expect_error(tn_communicator_all_reduce(w.all, t, RANKS, TN_REDUCE_SUM), TN_E_DEVICE,
                 "tensors[1] is on reference:2; rank 1 is reference:1");
    t[1] = NULL;
    expect_error(tn_communicator_all_reduce(w.all, t, RANKS, TN_REDUCE_SUM), TN_E_ARGUMENT,
                 "tensors[1] is missing");
    t[1] = tn_reshape(w.s, keep, TN_INTS(2, 2));
    expect_error(tn_communicator_all_reduce(w.all, t, RANKS, TN_REDUCE_SUM), TN_E_SHAPE,
                 "tensors[1] has the shape");
    t[1] = tn_slice(w.s, tn_zeros(w.s, TN_INTS(8), .device = w.devices[1]), .step = 2);
    expect_error(tn_communicator_all_reduce(w.all, t, RANKS, TN_REDUCE_SUM), TN_E_ARGUMENT,
                 "must be contiguous");
    t[1] = keep;
    expect_error(tn_communicator_all_gather(w.all, t, t, RANKS), TN_E_SHAPE, "have 4 elements; 4 ranks");
    for (uint32_t r = 0; r < RANKS; r++) u[r] = tn_narrow(w.s, t[r], 0, (r + 1) % RANKS, 1);
    expect_error(tn_communicator_all_gather(w.all, t, u, RANKS), TN_E_ARGUMENT, "overlap");
    cr_assert_eq(tn_set_requires_grad(t[0], 1), TN_OK);
    expect_error(tn_communicator_all_reduce(w.all, t, RANKS, TN_REDUCE_SUM), TN_E_AUTOGRAD,
                 "requires a gradient");
    close_world(&w);
}

Test(collectives, wrong_lists_are_named)
{
    static const double first[RANKS] = {1, 2, 3, 4};
    world w = open_world();
    tn_tensor *t[RANKS], *u[RANKS], *z[RANKS];
    make(&w, TN_FLOAT32, 4, first, t);
    make(&w, TN_INT32, 1, first, u);
    make(&w, TN_COMPLEX64, 2, first, z);
    expect_error(tn_communicator_all_reduce(w.all, NULL, RANKS, TN_REDUCE_SUM), TN_E_ARGUMENT,
                 "'tensors' is missing");
    expect_error(tn_communicator_all_gather(w.all, t, NULL, RANKS), TN_E_ARGUMENT, "'inputs' is missing");
    expect_error(tn_communicator_all_gather(w.all, t, u, RANKS), TN_E_DTYPE,
                 "outs are float32, but inputs int32");
    expect_error(tn_communicator_reduce_scatter(w.all, u, u, RANKS, TN_REDUCE_SUM), TN_E_SHAPE,
                 "have 1 elements; 4 ranks");
    expect_error(tn_communicator_all_reduce(w.all, z, RANKS, TN_REDUCE_MAX), TN_E_DTYPE,
                 "TN_REDUCE_MAX is not for complex64");
    cr_assert_eq(tn_communicator_all_reduce(w.all, z, RANKS, TN_REDUCE_AVERAGE), TN_OK);
    z[2] = tn_conj(w.s, z[2]);
    expect_error(tn_communicator_all_reduce(w.all, z, RANKS, TN_REDUCE_SUM), TN_E_ARGUMENT,
                 "must be contiguous (and not lazily conjugated or negated)");
    expect_error(tn_communicator_barrier(NULL), TN_E_ARGUMENT, "no communicator");
    close_world(&w);
}

/* Nothing to exchange: each call is done at once. */
Test(collectives, tensors_without_elements)
{
    world w = open_world();
    tn_tensor *t[RANKS], *u[RANKS];
    for (uint32_t r = 0; r < RANKS; r++) {
        t[r] = tn_zeros(w.s, TN_INTS(0), .device = w.devices[r]);
        u[r] = tn_zeros(w.s, TN_INTS(0, 4), .device = w.devices[r]);
    }
    cr_assert_eq(tn_communicator_all_reduce(w.all, t, RANKS, TN_REDUCE_SUM), TN_OK);
    cr_assert_eq(tn_communicator_broadcast(w.all, t, RANKS, 1), TN_OK);
    cr_assert_eq(tn_communicator_all_gather(w.all, u, t, RANKS), TN_OK);
    cr_assert_eq(tn_communicator_reduce_scatter(w.all, t, u, RANKS, TN_REDUCE_MIN), TN_OK);
    close_world(&w);
}

Test(collectives, communicators_of_wrong_devices)
{
    world w = open_world();
    tn_communicator *c = NULL;
    tn_device devices[2] = {w.devices[0], w.devices[0]};
    expect_error(tn_communicator_create(w.ctx, devices, 2, &c), TN_E_DEVICE, "are the same");
    devices[1] = TN_CPU;
    expect_error(tn_communicator_create(w.ctx, devices, 2, &c), TN_E_DEVICE, "another type");
    expect_error(tn_communicator_create(w.ctx, devices, 0, &c), TN_E_ARGUMENT, "0 devices");
    expect_error(tn_communicator_create(w.ctx, devices, 65, &c), TN_E_ARGUMENT, "65 devices");
    devices[0] = TN_CPU;
    expect_error(tn_communicator_create(w.ctx, devices, 1, &c), TN_E_UNSUPPORTED,
                 "plugin cpu has no collectives");
    devices[0] = TN_DEVICE(TN_DEVICE_TYPE(w.devices[0]), RANKS);
    expect_error(tn_communicator_create(w.ctx, devices, 1, &c), TN_E_DEVICE, "reference:4");
    cr_assert_null(c);
    tn_communicator_release(NULL);
    cr_assert_eq(tn_communicator_size(NULL), 0);
    cr_assert_eq(tn_communicator_device(NULL, 0), 0);
    cr_assert_eq(tn_communicator_reduces(NULL, TN_FLOAT32, TN_REDUCE_SUM), 0);
    close_world(&w);
}

/* A saved tensor that a collective wrote is not used as if nothing had happened. */
Test(collectives, a_write_is_noticed_by_autograd)
{
    static const double first[RANKS] = {1, 2, 3, 4};
    world w = open_world();
    tn_tensor *t[RANKS], *x;
    make(&w, TN_FLOAT32, 1, first, t);
    x = tn_ones(w.s, TN_INTS(1), .device = w.devices[0]);
    cr_assert_eq(tn_set_requires_grad(x, 1), TN_OK);
    tn_tensor *y = tn_sum(w.s, tn_mul(w.s, x, t[0]));
    cr_assert_eq(tn_communicator_all_reduce(w.all, t, RANKS, TN_REDUCE_SUM), TN_OK);
    tn_backward(w.s, y);
    cr_assert(tn_scope_failed(w.s));
    cr_assert(strstr(tn_scope_error(w.s)->message, "modified by an inplace operation"), "%s",
              tn_scope_error(w.s)->message);
    tn_scope_clear(w.s);
    close_world(&w);
}
