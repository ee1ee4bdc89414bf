/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Late errors across streams: the n-th task of the reference device fails late, for each n. Whoever reads
 * data that another stream contributed to gets the right number or the error, however the streams wait for
 * each other; other readers get the right number.
 */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TASKS 16

typedef enum way { STREAM, EVENT, EVENT_OF_HOST, QUERY_OF_HOST, THIRD_STREAM, WAYS } way;

static world open_failing(int n)
{
    char text[16];
    snprintf(text, sizeof text, "%d", n);
    setenv("TENON_REFERENCE_FAIL", text, 1);
    return open_world();
}

static int is_ours(const tn_error *e)
{
    for (; e; e = e->cause)
        if (e->message && strstr(e->message, "TENON_REFERENCE_FAIL")) return 1;
    return 0;
}

static void end_failing(world *w, tn_stream *more)
{
    tn_stream_set_current(w->ctx, w->home);
    tn_scope_close(w->s);
    tn_stream_release(more);
    tn_stream_release(w->side);
    tn_context_destroy(w->ctx);
}

/* home comes after side. */
static int32_t join(world *w, way how, tn_stream *third, tn_tensor **y)
{
    tn_event *event = NULL;
    int32_t status = TN_OK, done = 0;
    if (how == STREAM) return tn_stream_wait_stream(w->home, w->side);
    if (how == THIRD_STREAM) {
        status = tn_stream_wait_stream(third, w->side);
        on(w, third);
        *y = plus(w, *y, 0);
        return status ? status : tn_stream_wait_stream(w->home, third);
    }
    cr_assert_eq(tn_event_create(w->ctx, w->device, 0, &event), TN_OK);
    cr_assert_eq(tn_event_record(event, w->side), TN_OK);
    if (how == EVENT) status = tn_stream_wait_event(w->home, event);
    if (how == EVENT_OF_HOST) status = tn_event_synchronize(event);
    while (how == QUERY_OF_HOST && (done = tn_event_query(event)) == 0) continue;
    if (done < 0) status = -done;
    tn_event_release(event);
    return status;
}

/* 1: an error was reported. */
static int read_after(way how, int n)
{
    world w = open_failing(n);
    tn_stream *third = NULL;
    double values[COUNT] = {0};
    cr_assert_eq(tn_stream_create(w.ctx, w.device, 0, &third), TN_OK);
    tn_tensor *x = filled(&w, COUNT, 1);
    move_to_side(&w);
    tn_tensor *y = plus(&w, x, 1);
    int32_t status = join(&w, how, third, &y);
    on(&w, w.home);
    if (!status) tn_to_host(w.s, plus(&w, y, 1), values, sizeof values);
    int failed = status || tn_scope_failed(w.s);
    if (failed)
        cr_assert(is_ours(tn_scope_failed(w.s) ? tn_scope_error(w.s) : tn_last_error()), "way %d, n %d", how,
                  n);
    for (int i = 0; i < COUNT && !failed; i++)
        cr_assert_eq(values[i], 3, "way %d, n %d: element %d is %g", how, n, i, values[i]);
    end_failing(&w, third);
    return failed;
}

Test(late, an_error_of_another_stream_reaches_the_reader)
{
    for (int how = 0; how < WAYS; how++) {
        int failures = 0;
        for (int n = 1; n <= MOST_TASKS; n++) failures += read_after((way)how, n);
        /* At least one each for the number, its sum on the side, and the sum on the default stream. */
        cr_assert(failures >= 3 && failures < MOST_TASKS, "way %d: %d failures", how, failures);
    }
}

/* The side stream fails and reports it, too, although the default stream reported it first. */
Test(late, each_of_two_readers_is_told_once)
{
    int told = 0;
    for (int n = 1; n <= MOST_TASKS; n++) {
        world w = open_failing(n);
        double values[COUNT] = {0};
        tn_tensor *x = filled(&w, COUNT, 1);
        cr_assert_eq(tn_stream_synchronize(w.home) == TN_OK, n > 1);
        move_to_side(&w);
        tn_tensor *y = plus(&w, x, 1);
        cr_assert_eq(tn_stream_wait_stream(w.home, w.side), TN_OK);
        on(&w, w.home);
        if (n > 1) {
            int32_t first = tn_stream_synchronize(w.home), second = tn_stream_synchronize(w.side);
            cr_assert_eq(first, second, "n %d: %d, %d", n, first, second);
            if (first) cr_assert_eq(first, TN_E_INTERNAL);
            told += first != TN_OK;
            /* Both streams work again. */
            cr_assert_eq(tn_stream_synchronize(w.home), TN_OK);
            cr_assert_eq(tn_stream_synchronize(w.side), TN_OK);
            if (!first) tn_to_host(w.s, y, values, sizeof values);
            if (!first && !tn_scope_failed(w.s)) cr_assert_eq(values[COUNT - 1], 2);
        }
        end_failing(&w, NULL);
    }
    cr_assert(told >= 1, "%d", told);
}

Test(late, a_stream_that_nobody_waits_for_disturbs_nobody)
{
    int found = 0;
    for (int n = 1; n <= MOST_TASKS; n++) { /* which task is the n-th depends on how the streams take turns */
        world w = open_failing(n);
        double values[COUNT] = {0};
        tn_tensor *x = filled(&w, COUNT, 1);
        int32_t before = tn_stream_synchronize(w.home);
        on(&w, w.side);
        tn_tensor *alone = plus(&w, filled(&w, COUNT, 5), 1);
        cr_assert_not_null(alone);
        on(&w, w.home);
        if (!before) tn_to_host(w.s, x, values, sizeof values);
        if (!before && !tn_scope_failed(w.s)) cr_assert_eq(values[0], 1, "n %d", n);
        int32_t after = tn_stream_synchronize(w.side);
        cr_assert(!after || (!before && !tn_scope_failed(w.s)), "n %d: two errors of one task", n);
        found += before || after || tn_scope_failed(w.s);
        end_failing(&w, NULL);
    }
    cr_assert_eq(found, 4, "%d", found); /* a number and its copy on home, a number and a sum on the side */
}
