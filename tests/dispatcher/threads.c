/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may happen on one thread while another one calls operators: fallbacks are counted, rows and observers
 * are added and removed, operators are removed. ThreadSanitizer sees the races; the values hold without it.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include "support.h"

#define CALLS 200

static atomic_int stopped;

TestSuite(threads, .init = open_context, .fini = close_context, .timeout = 60);

static const char *refuse(void *self, const tn_call *call)
{
    return "refused for this test";
}

/* One thread of a test: calls `op` on a tensor of `device`, at least CALLS times and until `stopped`. */
typedef struct caller {
    pthread_t thread;
    uint32_t op;
    const char *device;
    atomic_int calls;
    int worked;
    int not_found;
} caller;

static void *call_many_times(void *argument)
{
    caller *c = argument;
    tn_scope *own = tn_scope_open(ctx);
    tn_tensor *x = tn_ones(own, TN_INTS(4), .device = tn_device_parse(ctx, c->device));
    while (atomic_load(&c->calls) < CALLS || !atomic_load(&stopped)) {
        tn_value out, args[] = {tn_value_tensor(x)};
        int32_t status = tn_scope_call(own, c->op, args, 1, &out, 1);
        c->worked += status == TN_OK;
        c->not_found += status == TN_E_NOT_FOUND;
        tn_scope_clear(own);
        atomic_fetch_add(&c->calls, 1);
    }
    tn_scope_close(own);
    return NULL;
}

/* Starts two threads; both have made a call when this returns. */
static void start(caller callers[2], uint32_t op, const char *device)
{
    for (int i = 0; i < 2; i++) {
        callers[i] = (caller){.op = op, .device = device};
        cr_assert_eq(pthread_create(&callers[i].thread, NULL, call_many_times, &callers[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        while (!atomic_load(&callers[i].calls)) sched_yield();
    }
}

static void stop(caller callers[2])
{
    atomic_store(&stopped, 1);
    for (int i = 0; i < 2; i++) {
        pthread_join(callers[i].thread, NULL);
        cr_expect_eq(callers[i].worked + callers[i].not_found, callers[i].calls);
    }
}

Test(threads, fallbacks_are_counted_on_two_threads)
{
    uint32_t op = define("test::only_on_the_cpu(Tensor self) -> Tensor");
    tn_fallback_info info = {.size = sizeof info};
    caller callers[2];
    uint64_t calls;
    add_row("cpu", "test::only_on_the_cpu(Tensor self) -> Tensor", 0, do_nothing, NULL);
    start(callers, op, "reference:0");
    stop(callers);
    cr_expect_eq(callers[0].not_found + callers[1].not_found, 0);
    calls = (uint64_t)(callers[0].calls + callers[1].calls);
    cr_assert_eq(tn_inspect_fallback_count(ctx), 1);
    cr_assert_eq(tn_inspect_fallback(ctx, 0, &info), TN_OK);
    cr_expect_eq(info.op, op);
    cr_expect_eq(info.count, calls);
    cr_expect_eq(info.bytes, calls * 2 * 4 * sizeof(float)); /* four floats there and back */
    cr_expect_str_eq(info.device_type, "reference");
    cr_expect_str_eq(info.reason, "no kernel");
    tn_inspect_fallback_reset(ctx);
    cr_expect_eq(tn_inspect_fallback_count(ctx), 0);
}

Test(threads, rows_are_added_while_calls_look_for_one)
{
    const char *schema = "test::with_rows(Tensor self) -> Tensor";
    uint32_t op = define(schema);
    caller callers[2];
    add_row("cpu", schema, 1000, do_nothing, refuse);
    add_row("cpu", schema, 0, do_nothing, NULL);
    start(callers, op, "cpu");
    for (int32_t i = 1; i <= CALLS; i++) add_row("cpu", schema, i, do_nothing, i % 2 ? refuse : NULL);
    stop(callers);
    cr_expect_eq(callers[0].not_found + callers[1].not_found, 0);
    cr_expect_eq(tn_inspect_kernel_count(ctx, op), CALLS + 2);
}

static void count_enter(void *user, const tn_call_info *info, uint64_t *token)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

Test(threads, observers_come_and_go_while_calls_run)
{
    const char *schema = "test::observed(Tensor self) -> Tensor";
    uint32_t op = define(schema);
    atomic_int seen = 0;
    const tn_observer observer = {.size = sizeof observer, .user = &seen, .enter = count_enter};
    caller callers[2];
    uint64_t handle, first;
    add_row("cpu", schema, 0, do_nothing, NULL);
    cr_assert_eq(tn_observer_add(ctx, &observer, &first), TN_OK);
    start(callers, op, "cpu");
    for (int i = 0; i < CALLS; i++) {
        cr_assert_eq(tn_observer_add(ctx, &observer, &handle), TN_OK);
        tn_observer_remove(ctx, handle);
    }
    stop(callers);
    cr_expect_eq(callers[0].not_found + callers[1].not_found, 0);
    cr_expect_geq(atomic_load(&seen), 2 * CALLS);
    tn_observer_remove(ctx, first);
}

Test(threads, an_operator_is_removed_while_calls_run)
{
    const char *schema = "test::removed(Tensor self) -> Tensor";
    uint32_t op = define(schema);
    caller callers[2];
    add_row("cpu", schema, 0, do_nothing, NULL);
    start(callers, op, "cpu");
    cr_assert_eq(tn_namespace_remove(ctx, "test"), TN_OK);
    stop(callers);
    cr_expect_gt(callers[0].worked, 0);
}

static void *define_many(void *unused)
{
    static char schemas[600][64];
    for (int i = 0; i < 600; i++) {
        snprintf(schemas[i], sizeof schemas[i], "test::number%d(Tensor self) -> Tensor", i);
        define(schemas[i]);
    }
    atomic_store(&stopped, 1);
    return NULL;
}

/* 600 operators take three pages of the registry that were not there. */
Test(threads, operators_are_defined_while_others_are_looked_up)
{
    pthread_t thread;
    uint32_t known = tn_inspect_operator_count(ctx);
    cr_assert_eq(pthread_create(&thread, NULL, define_many, NULL), 0);
    do {
        tn_operator_info info = {.size = sizeof info};
        tn_inspect_operator_by_number(ctx, known + 500, &info);
    } while (!atomic_load(&stopped));
    pthread_join(thread, NULL);
    cr_expect_eq(tn_inspect_operator_count(ctx), known + 600);
}

static void count(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

/* The device begins no work before somebody waits for it, so the callback comes with the wait. */
Test(streams, callback_after_the_work)
{
    static atomic_int called;
    setenv("TENON_REFERENCE_LAZY", "60000", 1);
    open_context();
    tn_device d = tn_device_choose(ctx, "reference:0", NULL);
    tn_stream *stream = tn_stream_default(ctx, d);
    tn_exp(s, tn_ones(s, TN_INTS(4), .device = d));
    cr_assert_eq(tn_stream_add_callback(stream, count, &called), TN_OK);
    cr_expect_eq(atomic_load(&called), 0);
    cr_assert_eq(tn_stream_synchronize(stream), TN_OK);
    cr_expect_eq(atomic_load(&called), 1);
    tn_graph *graph;
    tn_stream *other;
    cr_assert_eq(tn_stream_create(ctx, d, 0, &other), TN_OK);
    cr_assert_eq(tn_graph_create(ctx, d, &graph), TN_OK);
    cr_assert_eq(tn_graph_capture_begin(graph, other), TN_OK);
    cr_expect_eq(tn_stream_add_callback(other, count, &called), TN_E_STATE);
    expect_last_error(TN_E_STATE, "a callback of the program cannot be captured in a graph");
    cr_expect_eq(tn_graph_capture_end(graph), TN_E_STATE);
    tn_graph_release(graph);
    tn_stream_release(other);
    cr_expect_eq(atomic_load(&called), 1);
    close_context();
}
