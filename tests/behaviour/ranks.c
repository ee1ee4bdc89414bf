/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives over ranks in several processes, each of them partner.c, and what one rank sends to another. */
#include "../core/bare_message.h"
#include "partner.h"

#include <stdio.h>
#include <string.h>
#include <tenon/ops.h>
#include "reference.h"

/* An id from a context that ends. */
static void make_reference_id(char text[ID_TEXT])
{
    tn_device device;
    tn_context *ctx = open_reference(&device);
    make_id(ctx, device, text);
    tn_context_destroy(ctx);
}

static void run_reference_world(uint32_t processes, uint32_t count)
{
    char id[ID_TEXT], devices[12];
    make_reference_id(id);
    snprintf(devices, sizeof devices, "%u", count);
    setenv("TENON_REFERENCE_DEVICES", devices, 1);
    run_world(id, processes, count);
}

Test(ranks, two_processes)
{
    run_reference_world(2, 1);
}

Test(ranks, four_processes)
{
    run_reference_world(4, 1);
}

Test(ranks, two_processes_with_two_devices_each)
{
    run_reference_world(2, 2);
}

Test(ranks, a_process_that_is_killed_is_reported_to_the_others)
{
    char id[ID_TEXT];
    make_reference_id(id);
    pid_t first = start_rank("stay", id, 3, 0, 1), second = start_rank("stay", id, 3, 1, 1);
    pid_t killed = start_rank("leave", id, 3, 2, 1);
    int status;
    expect_good(first);
    expect_good(second);
    cr_assert_eq(waitpid(killed, &status, 0), killed);
    cr_assert(WIFSIGNALED(status));
}

/* A rank that others see has its lock by then: they look at it while they wait for the last one. */
Test(ranks, one_that_is_slow_to_lock_is_not_taken_for_ended)
{
    setenv("PARTNER_SLOW_LOCKS", "1", 1);
    run_reference_world(3, 1);
}

/* ---- Joining ------------------------------------------------------------------------------------------- */

static int32_t join(tn_context *ctx, tn_device device, const void *id, uint64_t bytes, tn_communicator **out)
{
    const tn_communicator_group group = {
        .size = sizeof group, .count = 1, .world = 2, .devices = &device, .id = id, .id_bytes = bytes};
    return tn_communicator_join(ctx, &group, out);
}

Test(ranks, one_that_never_comes_is_waited_for_as_long_as_the_setting_says)
{
    tn_device device;
    unsigned char id[64];
    uint64_t bytes;
    tn_communicator *c = NULL;
    tn_context *ctx = open_reference(&device);
    cr_assert_eq(tn_communicator_unique_id(ctx, device, id, sizeof id, &bytes), TN_OK);
    cr_assert_eq(tn_device_set_setting(ctx, device, "timeout", tn_value_int(100)), TN_OK);
    cr_assert_eq(join(ctx, device, id, bytes, &c), TN_E_STATE);
    cr_assert_str_eq(bare_message(tn_last_error()), "reference: 1 of 2 ranks came within 100 ms");
    cr_assert_eq(join(ctx, device, id, bytes - 1, &c), TN_E_ARGUMENT);
    tn_context_destroy(ctx);
}

/* ---- In one process ------------------------------------------------------------------------------------ */

typedef struct world {
    tn_context *ctx;
    tn_scope *s;
    tn_device devices[3];
    tn_communicator *all;
} world;

static world open_world(void)
{
    world w;
    setenv("TENON_REFERENCE_DEVICES", "3", 1);
    w.ctx = open_reference(&w.devices[0]);
    for (uint32_t i = 1; i < 3; i++) w.devices[i] = TN_DEVICE(TN_DEVICE_TYPE(w.devices[0]), i);
    cr_assert_eq(tn_communicator_create(w.ctx, w.devices, 3, &w.all), TN_OK);
    w.s = tn_scope_open(w.ctx);
    return w;
}

static void close_world(world *w)
{
    tn_scope_close(w->s);
    tn_communicator_release(w->all);
    tn_context_destroy(w->ctx);
}

static tn_tensor *full(world *w, int i, int64_t count, double value)
{
    return tn_full(w->s, TN_INTS(count), value, .dtype = TN_FLOAT32, .device = w->devices[i]);
}

static float last_of(world *w, tn_tensor *t)
{
    static float values[40000];
    cr_assert_eq(tn_to_host(w->s, t, values, (uint64_t)tn_tensor_numel(t) * 4), TN_OK);
    return values[tn_tensor_numel(t) - 1];
}

/* The n-th that is sent is the n-th that is received, whatever their sizes and the order of the calls. */
Test(ranks, messages_between_two_ranks_keep_their_order)
{
    world w = open_world();
    tn_tensor *a = full(&w, 0, 40000, 1), *b = full(&w, 0, 1, 2), *c = full(&w, 2, 1, 3);
    tn_tensor *x = full(&w, 1, 40000, 0), *y = full(&w, 1, 1, 0), *z = full(&w, 1, 1, 0);
    cr_assert_eq(tn_communicator_send(w.all, a, 1), TN_OK, "%s", tn_last_error()->message);
    cr_assert_eq(tn_communicator_send(w.all, b, 1), TN_OK);
    cr_assert_eq(tn_communicator_send(w.all, c, 1), TN_OK);
    cr_assert_eq(tn_communicator_receive(w.all, z, 2), TN_OK);
    uint64_t version = tn_tensor_version(x);
    cr_assert_eq(tn_communicator_receive(w.all, x, 0), TN_OK);
    cr_assert_gt(tn_tensor_version(x), version);
    cr_assert_eq(tn_communicator_receive(w.all, y, 0), TN_OK);
    cr_assert_eq(last_of(&w, x), 1);
    cr_assert_eq(last_of(&w, y), 2);
    cr_assert_eq(last_of(&w, z), 3);
    close_world(&w);
}

static void expect_refusal(int32_t status, int32_t want, const char *part)
{
    cr_assert_eq(status, want, "%d", status);
    cr_assert(strstr(tn_last_error()->message, part), "%s", tn_last_error()->message);
}

Test(ranks, wrong_ranks_and_tensors_are_refused)
{
    world w = open_world();
    tn_tensor *t = full(&w, 0, 4, 1);
    expect_refusal(tn_communicator_send(w.all, t, 0), TN_E_ARGUMENT,
                   "rank 0 (expected another rank than 0, below 3)");
    expect_refusal(tn_communicator_receive(w.all, t, 3), TN_E_ARGUMENT, "rank 3");
    expect_refusal(tn_communicator_send(w.all, NULL, 1), TN_E_ARGUMENT, "the tensor is missing");
    expect_refusal(tn_communicator_send(NULL, t, 1), TN_E_ARGUMENT, "no communicator");
    expect_refusal(tn_communicator_send(w.all, tn_ones(w.s, TN_INTS(2), .device = TN_CPU), 1), TN_E_DEVICE,
                   "the tensor is on cpu");
    tn_tensor *column = tn_select(w.s, tn_view(w.s, t, TN_INTS(2, 2)), 1, 0);
    expect_refusal(tn_communicator_send(w.all, column, 1), TN_E_ARGUMENT, "must be contiguous");
    tn_set_requires_grad(t, 1);
    expect_refusal(tn_communicator_receive(w.all, t, 1), TN_E_AUTOGRAD, "requires a gradient");
    close_world(&w);
}
