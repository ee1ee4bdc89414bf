/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every wait that the library must make, on a device whose streams do nothing before somebody waits for them
 * (TENON_REFERENCE_LAZY). Each test needs one wait: without it the result has the old contents of memory.
 * mutants.py takes the waits out of the library one by one to show that. The library under test is the
 * libtenon.so that the loader finds.
 */
#include "fixture.h"

#include <dlfcn.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <tenon/plugin.h>

/* ---- host and device --------------------------------------------------------------------------------- */

Test(waits, a_read_waits_for_the_copy)
{
    world w = open_world();
    expect_all(&w, plus(&w, filled(&w, COUNT, 1), 2), 3);
    close_world(&w);
}

Test(waits, a_read_of_a_view_waits_for_the_copy)
{
    world w = open_world();
    tn_tensor *t = tn_reshape(w.s, plus(&w, filled(&w, COUNT, 1), 2), TN_INTS(8, 8));
    expect_all(&w, tn_select(w.s, tn_t(w.s, t), 0, 3), 3);
    close_world(&w);
}

/* The caller may reuse its memory when the call returns. */
Test(waits, a_write_waits_for_the_copy)
{
    world w = open_world();
    double values[COUNT];
    for (int i = 0; i < COUNT; i++) values[i] = 5;
    tn_tensor *t = tn_from_data(w.s, TN_FLOAT64, TN_INTS(COUNT), values, w.device);
    for (int i = 0; i < COUNT; i++) values[i] = -1;
    expect_all(&w, t, 5);
    close_world(&w);
}

Test(waits, a_copy_to_another_device_and_back)
{
    world w = open_world();
    tn_tensor *t = plus(&w, filled(&w, COUNT, 1), 2);
    tn_tensor *cpu = tn_to_dtype_layout(w.s, t, .device = TN_CPU);
    cpu = tn_add_scalar(w.s, cpu, 1.0);
    tn_device other = tn_device_choose(w.ctx, "reference:1", NULL);
    cr_assert_neq(other, 0);
    tn_tensor *there = tn_to_dtype_layout(w.s, cpu, .device = other);
    tn_tensor *back = tn_to_dtype_layout(w.s, tn_add_scalar(w.s, there, 1.0), .device = w.device);
    expect_all(&w, plus(&w, back, 1), 6);
    close_world(&w);
}

/* ---- streams and events ------------------------------------------------------------------------------ */

Test(waits, a_stream_waits_for_a_stream)
{
    world w = open_world();
    tn_tensor *x = plus(&w, filled(&w, COUNT, 1), 2);
    move_to_side(&w);
    expect_all(&w, plus(&w, x, 1), 4);
    tn_record_stream(x, w.side);
    close_world(&w);
}

Test(waits, a_stream_waits_for_what_an_event_recorded_then)
{
    world w = open_world();
    tn_event *event = NULL;
    tn_stream *third = NULL;
    cr_assert_eq(tn_event_create(w.ctx, w.device, 0, &event), TN_OK);
    cr_assert_eq(tn_stream_create(w.ctx, w.device, 0, &third), TN_OK);
    tn_tensor *x = plus(&w, filled(&w, COUNT, 1), 2);
    cr_assert_eq(tn_event_record(event, w.home), TN_OK);
    cr_assert_eq(tn_stream_wait_event(w.side, event), TN_OK);
    cr_assert_eq(tn_event_record(event, third), TN_OK); /* does not move the wait above */
    on(&w, w.side);
    expect_all(&w, plus(&w, x, 1), 4);
    on(&w, w.home);
    cr_assert_eq(tn_event_synchronize(event), TN_OK);
    tn_event_release(event);
    tn_stream_release(third);
    close_world(&w);
}

/* ---- memory ------------------------------------------------------------------------------------------ */

/* The block of x is freed before the other stream has read it; the next allocation must not get it. */
Test(waits, a_block_used_on_another_stream_is_not_given_out)
{
    world w = open_world();
    tn_tensor *x = plus(&w, filled(&w, COUNT, 1), 2);
    move_to_side(&w);
    tn_tensor *y = plus(&w, x, 10);
    cr_assert_eq(tn_record_stream(x, w.side), TN_OK);
    on(&w, w.home);
    tn_drop(w.s, x);
    for (int i = 0; i < 4; i++) expect_all(&w, plus(&w, filled(&w, COUNT, 7), 1), 8);
    on(&w, w.side);
    expect_all(&w, y, 13);
    close_world(&w);
}

/* A tensor of one stream grows on another: the old block is freed while its bytes are still to be copied. */
Test(waits, a_storage_that_grows_keeps_the_old_block_until_it_is_copied)
{
    world w = open_world();
    tn_tensor *x = plus(&w, filled(&w, COUNT, 1), 2);
    move_to_side(&w);
    tn_resize_(w.s, x, TN_INTS(1024));
    tn_tensor *y = tn_slice(w.s, x, .dim = 0, .start = 0, .end = COUNT);
    on(&w, w.home);
    for (int i = 0; i < 4; i++) expect_all(&w, filled(&w, COUNT, 7), 7);
    on(&w, w.side);
    expect_all(&w, plus(&w, y, 0), 3);
    close_world(&w);
}

/* Emptying the cache frees memory that queued work still reads. */
Test(waits, an_emptied_cache_waits_for_the_device)
{
    world w = open_world();
    int64_t count = 300000; /* more than a small block: a segment without the result */
    tn_tensor *x = filled(&w, count, 1);
    cr_assert_eq(tn_stream_synchronize(w.home), TN_OK);
    tn_tensor *sum = tn_sum(w.s, x);
    tn_drop(w.s, x);
    cr_assert_eq(tn_memory_empty_cache(w.ctx, w.device), TN_OK);
    expect_all(&w, sum, (double)count);
    close_world(&w);
}

/* ---- kernels that keep something alive ---------------------------------------------------------------- */

static atomic_int released;

/* A host callback that waits for the test: what is queued behind it is unfinished, however fast the device
 * is. */
static sem_t gate;
static const tn_stream_interface *streams;

static void hold(void *user)
{
    sem_wait(user);
}

/* The reference plugin's own stream interface: no function of the library calls host_callback. */
static const tn_stream_interface *stream_interface(tn_context *ctx)
{
    tn_host_offer offer = {.size = sizeof offer, .abi_min = TN_ABI_GENERATION, .abi_max = TN_ABI_GENERATION};
    tn_plugin_table table = {.size = sizeof table};
    const tn_plugin_info *info = NULL;
    for (uint32_t i = 0; i < tn_inspect_candidate_count(ctx) && !info; i++) {
        tn_candidate_info c = {.size = sizeof c};
        if (tn_inspect_candidate(ctx, i, &c) || strcmp(c.name, "reference") || c.state != TN_CANDIDATE_LOADED)
            continue;
        void *library = dlopen(c.library, RTLD_NOW | RTLD_NOLOAD);
        info = library ? dlsym(library, TN_PLUGIN_SYMBOL) : NULL;
    }
    cr_assert_not_null(info, "the library of the reference plugin is not loaded");
    cr_assert_eq(info->entry(&offer, &table), TN_OK);
    return table.get_interface(NULL, "tenon.stream", 1);
}

static void release(void *pointer)
{
    (void)pointer;
    atomic_store(&released, 1);
}

static int32_t keep_run(void *self, const tn_call *call);
static const tn_kernel_row keep_rows[] = {{.size = sizeof(tn_kernel_row),
                                           .strides = TN_STRIDES_ANY,
                                           .schema = "test::keep(Tensor self) -> Tensor",
                                           .run = keep_run}};

static int32_t keep_run(void *self, const tn_call *call)
{
    int32_t status = streams->host_callback(self, call->device, call->stream, hold, &gate);
    return status ? status : call->host->keep_alive(call, &released, release);
}

Test(waits, what_a_kernel_keeps_alive_stays_until_the_stream_has_passed)
{
    world w = open_world();
    tn_operator_def def = {.size = sizeof def, .schema = "test::keep(Tensor self) -> Tensor"};
    uint32_t op = 0;
    cr_assert_eq(tn_operator_define(w.ctx, &def, &op), TN_OK);
    cr_assert_eq(tn_kernels_add(w.ctx, "reference", NULL, keep_rows, 1), TN_OK);
    tn_value in = tn_value_tensor(filled(&w, COUNT, 1)), out;
    streams = stream_interface(w.ctx);
    sem_init(&gate, 0, 0);
    cr_assert_eq(tn_scope_call(w.s, op, &in, 1, &out, 1), TN_OK, "%s", tn_scope_error(w.s)->message);
    cr_assert_eq(atomic_load(&released), 0, "released while the stream had not passed");
    sem_post(&gate);
    /* A thread of the host releases; waiting for the device waits for it too. */
    cr_assert_eq(tn_device_synchronize(w.ctx, tn_stream_device(w.home)), TN_OK);
    cr_assert_eq(atomic_load(&released), 1);
    close_world(&w);
}
