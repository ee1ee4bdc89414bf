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
#include <stdlib.h>
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

/* Memory that was free for longest goes back to the device before another request, while queued work still reads it. */
Test(waits, collected_memory_is_waited_for)
{
    world w = open_world();
    int64_t count = 300000;
    cr_assert_eq(tn_memory_set_limit(w.ctx, w.device, 1 << 30), TN_OK);
    cr_assert_eq(tn_memory_configure(w.ctx, w.device, "garbage_collection_threshold:0.001"), TN_OK);
    tn_tensor *x = filled(&w, count, 1);
    cr_assert_eq(tn_stream_synchronize(w.home), TN_OK);
    tn_tensor *sum = tn_sum(w.s, x);
    tn_drop(w.s, x);
    tn_empty(w.s, TN_INTS(10 * count), .dtype = TN_FLOAT64, .device = w.device);
    expect_all(&w, sum, (double)count);
    close_world(&w);
}

/* ---- gates -------------------------------------------------------------------------------------------- */

/* A host callback that waits for the test: what is queued behind it is unfinished, however fast the device
 * is. */
static sem_t gate;

static void hold(void *user)
{
    sem_wait(user);
}

static void close_gate(tn_stream *stream)
{
    sem_init(&gate, 0, 0);
    cr_assert_eq(tn_stream_add_callback(stream, hold, &gate), TN_OK);
}

/* ---- pinned memory ------------------------------------------------------------------------------------ */

/* float64 on the CPU, in memory that a device pinned. */
static tn_tensor *pinned_by(world *w, tn_device device, int64_t count, double value)
{
    tn_tensor *t =
        tn_pin_memory(w->s, tn_full(w->s, TN_INTS(count), TN_SCALAR(value), .dtype = TN_FLOAT64), device);
    cr_assert(tn_is_pinned(t));
    return t;
}
static tn_tensor *pinned(world *w, int64_t count, double value)
{
    return pinned_by(w, w->device, count, value);
}

static void set_all(const tn_tensor *t, double value)
{
    double *data = tn_tensor_data(t);
    for (int64_t i = 0; i < tn_tensor_numel(t); i++) data[i] = value;
}

/* The source is dropped while the copy waits: its block may not serve the next one. */
Test(waits, a_copy_from_pinned_memory_returns_and_keeps_its_source)
{
    world w = open_world();
    tn_tensor *there = filled(&w, COUNT, 1), *here = pinned(&w, COUNT, 5);
    const void *data = tn_tensor_data(here);
    close_gate(w.home);
    tn_copy_(w.s, there, here, .non_blocking = 1);
    cr_assert_eq(tn_stream_query(w.home), 0, "the copy returned before it was done");
    tn_drop(w.s, here);
    tn_tensor *next = pinned(&w, COUNT, 7);
    cr_assert_neq(tn_tensor_data(next), data);
    sem_post(&gate);
    expect_all(&w, there, 5);
    tn_drop(w.s, next);
    /* Nothing uses the first block any more. */
    tn_tensor *a = pinned(&w, COUNT, 7), *b = pinned(&w, COUNT, 7);
    cr_assert(tn_tensor_data(a) == data || tn_tensor_data(b) == data, "the block is used again");
    close_world(&w);
}

Test(waits, a_copy_to_pinned_memory_returns_and_keeps_its_target)
{
    world w = open_world();
    tn_tensor *there = plus(&w, filled(&w, COUNT, 1), 2);
    close_gate(w.home);
    tn_tensor *here = tn_to_dtype_layout(w.s, there, .device = TN_CPU, .non_blocking = 1);
    cr_assert(tn_is_pinned(here));
    cr_assert_eq(tn_stream_query(w.home), 0, "the copy returned before it was done");
    tn_drop(w.s, here);
    tn_tensor *next = pinned(&w, COUNT, 7), *again = pinned(&w, COUNT, 8);
    sem_post(&gate);
    cr_assert_eq(tn_stream_synchronize(w.home), TN_OK);
    expect_all(&w, next, 7);
    expect_all(&w, again, 8);
    here = tn_to_dtype_layout(w.s, there, .device = TN_CPU, .non_blocking = 1);
    cr_assert_eq(tn_stream_synchronize(w.home), TN_OK);
    expect_all(&w, here, 3);
    close_world(&w);
}

/* Memory that is not pinned is copied first, and may change at once. */
Test(waits, a_staged_copy_returns_and_keeps_its_block)
{
    world w = open_world();
    tn_tensor *there = filled(&w, COUNT, 1), *other = filled(&w, COUNT, 2);
    tn_tensor *here = tn_full(w.s, TN_INTS(COUNT), TN_SCALAR(5.0), .dtype = TN_FLOAT64);
    close_gate(w.home);
    tn_copy_(w.s, there, here, .non_blocking = 1);
    cr_assert_eq(tn_stream_query(w.home), 0, "the copy returned before it was done");
    set_all(here, 6);
    tn_copy_(w.s, other, here, .non_blocking = 1);
    set_all(here, 9);
    sem_post(&gate);
    expect_all(&w, there, 5);
    expect_all(&w, other, 6);
    close_world(&w);
}

/* Without `non_blocking` pinned memory is waited for like any other. */
Test(waits, a_copy_that_may_not_return_early_is_waited_for)
{
    world w = open_world();
    tn_tensor *there = filled(&w, COUNT, 1), *here = pinned(&w, COUNT, 5);
    tn_copy_(w.s, there, here);
    set_all(here, 6);
    expect_all(&w, there, 5);
    tn_copy_(w.s, here, there);
    expect_all(&w, here, 5);
    close_world(&w);
}

/* ---- between devices ---------------------------------------------------------------------------------- */

/* 0, 1, 2, ... of 2.5 pieces on a device. */
static tn_tensor *long_row(world *w, tn_device device)
{
    return tn_arange(w->s, tn_value_int(5 << 18), .dtype = TN_FLOAT64, .device = device);
}

static void expect_row(world *w, const tn_tensor *t)
{
    int64_t count = tn_tensor_numel(t);
    double *got = tn_scope_memory(w->s, (uint64_t)count * sizeof *got);
    cr_assert_eq(tn_to_host(w->s, t, got, (uint64_t)count * sizeof *got), TN_OK);
    for (int64_t i = 0; i < count; i++) cr_assert_eq(got[i], (double)i, "element %lld", (long long)i);
}

/* Through the host in pieces: the target reads the buffers when the call has returned. */
Test(waits, a_copy_between_devices_that_are_no_peers)
{
    setenv("TENON_REFERENCE_PEERS", "0", 1);
    world w = open_world();
    tn_device other = tn_device_parse(w.ctx, "reference:1");
    tn_tensor *here = long_row(&w, w.device);
    cr_assert_eq(tn_device_synchronize(w.ctx, w.device), TN_OK);
    tn_tensor *there = tn_empty(w.s, TN_INTS(5 << 18), .dtype = TN_FLOAT64, .device = other);
    tn_copy_(w.s, there, here);
    for (int i = 0; i < 3; i++) pinned_by(&w, other, 1 << 19, -1);
    expect_row(&w, there);
    tn_tensor *few = filled(&w, COUNT, 4);
    tn_stream *target = tn_stream_default(w.ctx, other);
    close_gate(target);
    there = tn_to_dtype_layout(w.s, few, .device = other);
    cr_assert_eq(tn_stream_query(target), 0, "the copy returned before the target had it");
    for (int i = 0; i < 3; i++) pinned_by(&w, other, COUNT, -1);
    sem_post(&gate);
    expect_all(&w, there, 4);
    close_world(&w);
}

/* The source changes right after the copy, and has not been computed when the copy is queued. */
Test(waits, a_copy_between_peers_is_ordered_on_both_sides)
{
    world w = open_world();
    tn_device other = tn_device_parse(w.ctx, "reference:1");
    tn_tensor *here = plus(&w, filled(&w, COUNT, 1), 2);
    tn_tensor *there = tn_to_dtype_layout(w.s, here, .device = other);
    tn_fill_scalar_(w.s, here, TN_SCALAR(9.0));
    cr_assert_eq(tn_stream_synchronize(w.home), TN_OK);
    expect_all(&w, here, 9);
    expect_all(&w, there, 3);
    close_world(&w);
}

/* ---- kernels that keep something alive ---------------------------------------------------------------- */

static atomic_int released;
static const tn_stream_interface *streams;

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
