/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs on the reference device: results of replays, ownership of memory, what is refused while a stream
 * captures, and that everything is usable after a refusal. Expected values are written here or computed on
 * the host.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/ops.h>
#include <tenon/tenon.h>
#include "reference.h"

#define COUNT 64

typedef struct world {
    tn_context *ctx;
    tn_scope *s;
    tn_device device;
    tn_stream *home, *side, *other;
    tn_graph *graph;
} world;

static world open_world(void)
{
    world w;
    w.ctx = open_reference(&w.device);
    w.home = tn_stream_default(w.ctx, w.device);
    cr_assert_eq(tn_stream_create(w.ctx, w.device, 0, &w.side), TN_OK);
    cr_assert_eq(tn_stream_create(w.ctx, w.device, 0, &w.other), TN_OK);
    cr_assert_eq(tn_graph_create(w.ctx, w.device, &w.graph), TN_OK);
    w.s = tn_scope_open(w.ctx);
    return w;
}

static void expect_sound(const world *w)
{
    cr_assert_not(tn_scope_failed(w->s), "%s",
                  tn_scope_error(w->s) ? tn_scope_error(w->s)->message : "failed");
}

static void close_world(world *w)
{
    expect_sound(w);
    tn_stream_set_current(w->ctx, w->home);
    tn_scope_close(w->s);
    tn_graph_release(w->graph);
    tn_stream_release(w->side);
    tn_stream_release(w->other);
    tn_context_destroy(w->ctx);
}

static tn_tensor *filled(const world *w, double value)
{
    return tn_full(w->s, TN_INTS(COUNT), value, .dtype = TN_FLOAT64, .device = w->device);
}

static void expect_all(const world *w, const tn_tensor *t, double want)
{
    double got[COUNT];
    cr_assert_not_null(t);
    for (int i = 0; i < COUNT; i++) got[i] = -12345;
    tn_to_host(w->s, t, got, sizeof got);
    expect_sound(w);
    for (int i = 0; i < COUNT; i++)
        cr_assert(got[i] == want, "element %d is %g instead of %g", i, got[i], want);
}

/* The side stream becomes current, after the default one, and captures. */
static void begin(world *w, tn_graph *graph)
{
    cr_assert_eq(tn_stream_wait_stream(w->side, w->home), TN_OK);
    cr_assert_eq(tn_stream_set_current(w->ctx, w->side), TN_OK);
    cr_assert_eq(tn_graph_capture_begin(graph, w->side), TN_OK, "%s", tn_last_error()->message);
    cr_assert(tn_stream_is_capturing(w->side));
}

static void end(world *w, tn_graph *graph)
{
    cr_assert_eq(tn_graph_capture_end(graph), TN_OK, "%s", tn_last_error()->message);
    cr_assert_not(tn_stream_is_capturing(w->side));
    cr_assert_eq(tn_stream_set_current(w->ctx, w->home), TN_OK);
}

static void replay(const world *w, tn_graph *graph)
{
    (void)w;
    cr_assert_eq(tn_graph_replay(graph), TN_OK, "%s", tn_last_error()->message);
}

/* ---- Replaying --------------------------------------------------------------------------------------- */

Test(capture, what_is_captured_runs_at_each_replay_and_not_before)
{
    world w = open_world();
    tn_tensor *x = filled(&w, 1);
    begin(&w, w.graph);
    tn_add_scalar_(w.s, x, 2.0);
    end(&w, w.graph);
    expect_all(&w, x, 1);
    for (int i = 1; i <= 5; i++) {
        replay(&w, w.graph);
        expect_all(&w, x, 1 + 2 * i);
    }
    close_world(&w);
}

Test(capture, a_replay_reads_what_lies_in_its_inputs_now)
{
    world w = open_world();
    tn_tensor *x = filled(&w, 3);
    begin(&w, w.graph);
    tn_tensor *y = tn_mul(w.s, tn_add_scalar(w.s, x, 1.0), x);
    end(&w, w.graph);
    replay(&w, w.graph);
    expect_all(&w, y, 12);
    tn_fill_scalar_(w.s, x, 5);
    replay(&w, w.graph);
    tn_tensor *z = tn_add_scalar(w.s, y, 0.5); /* on the stream of the replay: in order */
    tn_fill_scalar_(w.s, x, 7);
    expect_all(&w, z, 30.5);
    close_world(&w);
}

Test(capture, replays_on_two_streams_run_one_after_the_other)
{
    world w = open_world();
    tn_tensor *x = filled(&w, 0);
    begin(&w, w.graph);
    tn_add_scalar_(w.s, x, 1.0);
    tn_mul_scalar_(w.s, x, 2.0);
    end(&w, w.graph);
    double want = 0;
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(tn_stream_set_current(w.ctx, i % 2 ? w.other : w.home), TN_OK);
        replay(&w, w.graph);
        want = (want + 1) * 2;
    }
    cr_assert_eq(tn_stream_synchronize(w.home), TN_OK);
    expect_all(&w, x, want);
    close_world(&w);
}

/* A step of training: loss, gradient, update, all captured. */
Test(capture, a_training_step_learns_as_it_does_without_a_graph)
{
    world w = open_world();
    double want = 3;
    tn_tensor *weight = filled(&w, 3), *x = filled(&w, 0.5);
    cr_assert_eq(tn_set_requires_grad(weight, 1), TN_OK);
    begin(&w, w.graph);
    tn_tensor *loss = tn_sum(w.s, tn_mul(w.s, tn_mul(w.s, weight, weight), x)), *grad = NULL;
    cr_assert_eq(tn_grad(w.s, (tn_tensors){&loss, 1}, (tn_tensors){&weight, 1}, NULL, &grad), TN_OK);
    tn_scope *off = tn_scope_open_child(
        w.s, &(tn_scope_options){.size = sizeof(tn_scope_options), .grad_mode = TN_GRAD_OFF});
    tn_sub_(off, weight, tn_mul_scalar(off, grad, 0.25));
    tn_scope_close(off);
    end(&w, w.graph);
    expect_all(&w, weight, 3);
    for (int i = 0; i < 6; i++) {
        replay(&w, w.graph);
        want -= 0.25 * (2 * want * 0.5);
    }
    expect_all(&w, weight, want);
    close_world(&w);
}

/* ---- Streams ----------------------------------------------------------------------------------------- */

/* a * factor on the other stream, which joins the capture; the side stream is current again. */
static tn_tensor *times_elsewhere(world *w, tn_tensor *a, double factor)
{
    cr_assert_eq(tn_stream_wait_stream(w->other, w->side), TN_OK);
    cr_assert_eq(tn_stream_set_current(w->ctx, w->other), TN_OK);
    tn_tensor *b = tn_mul_scalar(w->s, a, TN_SCALAR(factor));
    cr_assert_eq(tn_stream_set_current(w->ctx, w->side), TN_OK);
    return b;
}

/* Begins a capture of a = x + 1 and returns a * factor, which the other stream computes. */
static tn_tensor *begin_on_two_streams(world *w, tn_tensor *x, double factor, tn_tensor **out_a)
{
    begin(w, w->graph);
    *out_a = tn_add_scalar(w->s, x, 1.0);
    return times_elsewhere(w, *out_a, factor);
}

Test(capture, another_stream_takes_part_through_events)
{
    world w = open_world();
    tn_tensor *x = filled(&w, 2), *a, *b = begin_on_two_streams(&w, x, 10, &a);
    cr_assert(tn_stream_is_capturing(w.other));
    tn_tensor *c = tn_mul_scalar(w.s, a, 100.0);
    cr_assert_eq(tn_stream_wait_stream(w.side, w.other), TN_OK);
    tn_tensor *d = tn_add(w.s, b, c);
    end(&w, w.graph);
    cr_assert_not(tn_stream_is_capturing(w.other));
    for (int i = 0; i < 3; i++) {
        tn_fill_scalar_(w.s, x, i);
        replay(&w, w.graph);
        expect_all(&w, d, 110.0 * (i + 1));
    }
    close_world(&w);
}

Test(capture, a_stream_that_is_not_waited_for_fails_the_end)
{
    world w = open_world();
    tn_tensor *x = filled(&w, 2);
    begin(&w, w.graph);
    cr_assert_eq(tn_stream_wait_stream(w.other, w.side), TN_OK);
    cr_assert_eq(tn_stream_set_current(w.ctx, w.other), TN_OK);
    tn_add_scalar_(w.s, x, 1.0);
    cr_assert_eq(tn_graph_capture_end(w.graph), TN_E_STATE);
    cr_assert(strstr(tn_last_error()->message, "never waited for"), "%s", tn_last_error()->message);
    cr_assert_not(tn_stream_is_capturing(w.other));
    cr_assert_eq(tn_graph_replay(w.graph), TN_E_STATE);
    expect_all(&w, x, 2);
    close_world(&w);
}

Test(capture, two_captures_at_once_and_work_beside_them)
{
    world w = open_world();
    tn_graph *second = NULL;
    tn_tensor *x = filled(&w, 1), *y = filled(&w, 1);
    cr_assert_eq(tn_graph_create(w.ctx, w.device, &second), TN_OK);
    begin(&w, w.graph);
    cr_assert_eq(tn_stream_wait_stream(w.side, w.home), TN_E_STATE, "order from outside");
    cr_assert_eq(tn_graph_capture_end(w.graph), TN_E_STATE);
    begin(&w, w.graph);
    cr_assert_eq(tn_graph_capture_begin(second, w.side), TN_E_STATE);
    cr_assert_eq(tn_graph_capture_begin(second, w.other), TN_OK);
    tn_add_scalar_(w.s, x, 1.0);
    cr_assert_eq(tn_stream_set_current(w.ctx, w.other), TN_OK);
    tn_mul_scalar_(w.s, y, 3.0);
    cr_assert_eq(tn_stream_set_current(w.ctx, w.home), TN_OK);
    expect_all(&w, filled(&w, 9), 9);
    cr_assert_eq(tn_graph_capture_end(second), TN_OK);
    end(&w, w.graph);
    replay(&w, second);
    replay(&w, second);
    replay(&w, w.graph);
    expect_all(&w, x, 2);
    expect_all(&w, y, 9);
    tn_graph_release(second);
    close_world(&w);
}

/* ---- Refusals ---------------------------------------------------------------------------------------- */

/* A call within a capture failed and named `word`; the capture ends as invalid, with the same text. */
static void expect_refusal(world *w, const char *word)
{
    const tn_error *error = tn_scope_error(w->s);
    cr_assert_not_null(error, "%s is not refused", word);
    cr_assert_eq(error->code, TN_E_STATE, "%s: %s", word, error->message);
    cr_assert(strstr(error->message, word) || (error->op && strstr(error->op, word)), "%s: %s (%s)", word,
              error->message, error->op ? error->op : "");
    cr_assert(strstr(error->message, "cannot be captured in a graph"), "%s", error->message);
    tn_scope_clear(w->s);
    cr_assert_eq(tn_graph_capture_end(w->graph), TN_E_STATE);
    cr_assert(strstr(tn_last_error()->message, "the capture is invalid"), "%s", tn_last_error()->message);
    cr_assert(strstr(tn_last_error()->message, word), "%s", tn_last_error()->message);
    cr_assert_eq(tn_stream_set_current(w->ctx, w->home), TN_OK);
}

/* One step of stochastic descent with dropout: weights move by what dropout lets through. */
static void dropout_step(const world *w, tn_tensor *weights)
{
    tn_tensor *mask = tn_dropout(w->s, filled(w, 1), 0.5, 1);
    tn_sub_(w->s, weights, tn_mul_scalar(w->s, mask, 0.125));
}

#define STEPS 5

Test(capture, random_numbers_of_each_replay_are_those_of_the_next_step)
{
    world w = open_world();
    double want[STEPS][COUNT], got[COUNT];
    tn_tensor *weights = filled(&w, 0);
    tn_manual_seed(w.ctx, 11);
    for (int i = 0; i < STEPS; i++) {
        dropout_step(&w, weights);
        cr_assert_eq(tn_to_host(w.s, weights, want[i], sizeof want[i]), TN_OK);
    }
    cr_assert(memcmp(want[0], want[1], sizeof got), "dropout draws");
    tn_zero_(w.s, weights);
    tn_manual_seed(w.ctx, 11);
    begin(&w, w.graph);
    dropout_step(&w, weights);
    end(&w, w.graph);
    tn_generator_state before = {.size = sizeof before}, after = before;
    tn_generator_get_state(tn_default_generator(w.ctx, w.device), &before);
    cr_assert_eq(before.offset, 0, "a capture takes no counters");
    for (int i = 0; i < STEPS; i++) { /* on two streams, without a wait of the host in between */
        cr_assert_eq(tn_stream_set_current(w.ctx, i % 2 ? w.other : w.home), TN_OK);
        replay(&w, w.graph);
        if (i == 1) continue;
        cr_assert_eq(tn_to_host(w.s, weights, got, sizeof got), TN_OK);
        cr_assert_arr_eq(got, want[i], sizeof got, "step %d", i);
    }
    tn_generator_get_state(tn_default_generator(w.ctx, w.device), &after);
    cr_assert_eq(after.offset, STEPS * (COUNT / 2), "64-bit numbers, two to a counter");
    close_world(&w);
}

static int32_t times_random(void *user, tn_scope *s, tn_tensors in, tn_tensor **out)
{
    ++*(int *)user;
    *out = tn_mul(s, in.data[0], tn_rand_like(s, in.data[0]));
    return TN_OK;
}

/* x r at x = 1: the gradient is the result, in each replay with other numbers, which both runs of the function have. */
Test(capture, a_checkpoint_has_its_random_numbers_twice)
{
    world w = open_world();
    double y[2][COUNT], grads[2][COUNT];
    int runs = 0;
    tn_tensor *x = filled(&w, 1), *result = NULL, *grad = NULL;
    cr_assert_eq(tn_set_requires_grad(x, 1), TN_OK);
    begin(&w, w.graph);
    tn_checkpoint(w.s, times_random, &runs, TN_TENSORS(x), NULL, &result);
    tn_tensor *sum = tn_sum(w.s, result);
    tn_grad(w.s, TN_TENSORS(sum), TN_TENSORS(x), NULL, &grad);
    end(&w, w.graph);
    cr_assert_eq(runs, 2);
    for (int i = 0; i < 2; i++) {
        replay(&w, w.graph);
        tn_to_host(w.s, result, y[i], sizeof y[i]);
        tn_to_host(w.s, grad, grads[i], sizeof grads[i]);
        cr_assert_arr_eq(grads[i], y[i], sizeof y[i]);
    }
    cr_assert(memcmp(y[0], y[1], sizeof y[0]));
    /* Forward before the capture: its numbers stay. */
    tn_checkpoint(w.s, times_random, &runs, TN_TENSORS(x), NULL, &result);
    tn_graph *second = NULL;
    cr_assert_eq(tn_graph_create(w.ctx, w.device, &second), TN_OK);
    begin(&w, second);
    tn_grad(w.s, TN_TENSORS(tn_sum(w.s, result)), TN_TENSORS(x), NULL, &grad);
    end(&w, second);
    tn_to_host(w.s, result, y[0], sizeof y[0]);
    for (int i = 0; i < 2; i++) {
        replay(&w, second);
        tn_to_host(w.s, grad, grads[i], sizeof grads[i]);
        cr_assert_arr_eq(grads[i], y[0], sizeof y[0]);
    }
    tn_graph_release(second);
    close_world(&w);
}

/* A generator that goes while a graph draws from it. */
Test(capture, a_graph_keeps_its_generator)
{
    world w = open_world();
    tn_generator *g = NULL;
    double first[COUNT], second[COUNT];
    tn_tensor *x = filled(&w, 0);
    cr_assert_eq(tn_generator_create(w.ctx, 3, &g), TN_OK);
    begin(&w, w.graph);
    tn_uniform_(w.s, x, .generator = g);
    end(&w, w.graph);
    tn_generator_release(g);
    replay(&w, w.graph);
    tn_to_host(w.s, x, first, sizeof first);
    replay(&w, w.graph);
    tn_to_host(w.s, x, second, sizeof second);
    cr_assert(memcmp(first, second, sizeof first));
    close_world(&w);
}

Test(capture, operators_that_need_the_host_are_refused_by_name)
{
    world w = open_world();
    tn_tensor *x = filled(&w, 1), *one = tn_sum(w.s, x);
    begin(&w, w.graph);
    tn_nonzero(w.s, x);
    expect_refusal(&w, "aten::nonzero");
    begin(&w, w.graph);
    tn_item_double(w.s, one);
    expect_refusal(&w, "item");
    begin(&w, w.graph);
    tn_to_device(w.s, x, TN_CPU, TN_FLOAT64);
    expect_refusal(&w, "from the device to the host");
    begin(&w, w.graph);
    tn_from_data(w.s, TN_FLOAT64, TN_INTS(1), &(double){1}, w.device);
    expect_refusal(&w, "from the host to the device");
    begin(&w, w.graph);
    tn_poisson(w.s, x);
    expect_refusal(&w, "aten::poisson");
    begin(&w, w.graph); /* and the graph can be captured after all that */
    tn_add_scalar_(w.s, x, 1.0);
    end(&w, w.graph);
    replay(&w, w.graph);
    expect_all(&w, x, 2);
    close_world(&w);
}

Test(capture, waiting_for_what_is_captured_is_refused)
{
    world w = open_world();
    tn_event *event = NULL, *before = NULL;
    cr_assert_eq(tn_event_create(w.ctx, w.device, 0, &event), TN_OK);
    cr_assert_eq(tn_event_create(w.ctx, w.device, 0, &before), TN_OK);
    cr_assert_eq(tn_event_record(before, w.home), TN_OK);
    begin(&w, w.graph);
    cr_assert_eq(tn_device_synchronize(w.ctx, w.device), TN_E_STATE);
    cr_assert_eq(tn_stream_synchronize(w.home), TN_OK, "a stream beside the capture");
    cr_assert_eq(tn_event_synchronize(before), TN_OK);
    cr_assert_eq(tn_event_record(event, w.side), TN_OK);
    cr_assert_eq(tn_event_query(event), -TN_E_STATE);
    cr_assert_eq(tn_graph_capture_end(w.graph), TN_E_STATE);
    begin(&w, w.graph);
    cr_assert_eq(tn_stream_synchronize(w.side), TN_E_STATE);
    cr_assert_eq(tn_graph_capture_end(w.graph), TN_E_STATE);
    begin(&w, w.graph);
    cr_assert_eq(tn_stream_wait_event(w.side, before), TN_E_STATE);
    cr_assert_eq(tn_graph_capture_end(w.graph), TN_E_STATE);
    cr_assert_eq(tn_stream_wait_event(w.home, event), TN_E_STATE, "the capture it was recorded in is over");
    cr_assert_eq(tn_event_record(event, w.home), TN_OK);
    cr_assert_eq(tn_event_synchronize(event), TN_OK);
    tn_event_release(event);
    tn_event_release(before);
    close_world(&w);
}

Test(capture, graphs_in_the_wrong_state_say_so)
{
    world w = open_world();
    cr_assert_eq(tn_graph_replay(w.graph), TN_E_STATE);
    cr_assert_eq(tn_graph_capture_end(w.graph), TN_E_STATE);
    begin(&w, w.graph);
    cr_assert_eq(tn_graph_replay(w.graph), TN_E_STATE);
    end(&w, w.graph);
    cr_assert_eq(tn_graph_capture_begin(w.graph, w.side), TN_E_STATE);
    replay(&w, w.graph); /* an empty graph does nothing */
    cr_assert_eq(tn_graph_update(w.graph, w.graph), TN_E_ARGUMENT);
    cr_assert_eq(tn_graph_reset(w.graph), TN_OK);
    cr_assert_eq(tn_graph_replay(w.graph), TN_E_STATE);
    tn_graph *none = NULL;
    cr_assert_eq(tn_graph_create(w.ctx, TN_CPU, &none), TN_E_UNSUPPORTED);
    cr_assert(strstr(tn_last_error()->message, "plugin cpu has no graphs"), "%s", tn_last_error()->message);
    close_world(&w);
}

Test(capture, a_graph_may_go_while_it_is_captured)
{
    world w = open_world();
    begin(&w, w.graph);
    tn_tensor *x = filled(&w, 1);
    tn_graph_release(w.graph);
    w.graph = NULL;
    cr_assert_not(tn_stream_is_capturing(w.side));
    tn_fill_scalar_(w.s, x, 4);
    expect_all(&w, x, 4);
    close_world(&w);
}

/* ---- Memory ------------------------------------------------------------------------------------------ */

static uint64_t reserved_bytes(const world *w)
{
    tn_memory_stats stats = {.size = sizeof stats};
    cr_assert_eq(tn_memory_get_stats(w->ctx, w->device, &stats), TN_OK);
    return stats.reserved_bytes;
}

/* Memory that a capture allocated and freed is written again by each replay: nobody else may have it. */
Test(capture, memory_of_a_capture_is_given_to_nothing_else)
{
    world w = open_world();
    tn_tensor *x = filled(&w, 1), *out = filled(&w, 0), *others[40];
    begin(&w, w.graph);
    tn_tensor *a = tn_add_scalar(w.s, x, 1.0), *b = tn_mul_scalar(w.s, a, 2.0);
    tn_copy_(w.s, out, b);
    end(&w, w.graph);
    expect_sound(&w);
    const void *allocation = tn_desc(a)->allocation;
    uint64_t offset_a = tn_desc(a)->byte_offset, offset_b = tn_desc(b)->byte_offset;
    tn_drop(w.s, a);
    tn_drop(w.s, b);
    cr_assert_eq(tn_memory_empty_cache(w.ctx, w.device), TN_OK);
    for (int i = 0; i < 40; i++) {
        if (i == 20) cr_assert_eq(tn_stream_set_current(w.ctx, w.side), TN_OK);
        others[i] = filled(&w, 1000 + i);
        expect_sound(&w);
        const tn_tensor_desc *d = tn_desc(others[i]);
        cr_assert(d->allocation != allocation || (d->byte_offset != offset_a && d->byte_offset != offset_b),
                  "memory of the graph was given to another tensor");
    }
    cr_assert_eq(tn_stream_wait_stream(w.home, w.side), TN_OK);
    cr_assert_eq(tn_stream_set_current(w.ctx, w.home), TN_OK);
    replay(&w, w.graph);
    expect_all(&w, out, 4);
    for (int i = 0; i < 40; i++) expect_all(&w, others[i], 1000 + i);
    close_world(&w);
}

Test(capture, memory_goes_back_with_the_graph_and_its_tensors)
{
    world w = open_world();
    tn_tensor *x = filled(&w, 1);
    cr_assert_eq(tn_device_synchronize(w.ctx, w.device), TN_OK);
    uint64_t before = reserved_bytes(&w);
    begin(&w, w.graph);
    tn_tensor *y = tn_add_scalar(w.s, x, 1.0), *z = tn_add_scalar(w.s, y, 1.0);
    end(&w, w.graph);
    cr_assert_gt(reserved_bytes(&w), before);
    tn_drop(w.s, y);
    replay(&w, w.graph);
    cr_assert_eq(tn_graph_reset(w.graph), TN_OK);
    expect_all(&w, z, 3); /* it outlives the graph */
    cr_assert_gt(reserved_bytes(&w), before);
    tn_drop(w.s, z);
    cr_assert_eq(reserved_bytes(&w), before, "%llu bytes, before the capture %llu",
                 (unsigned long long)reserved_bytes(&w), (unsigned long long)before);
    close_world(&w);
}

/* x + n by a graph, with a temporary tensor of 24 MB. */
static tn_tensor *capture_plus(world *w, tn_graph *graph, tn_tensor *x, double n)
{
    begin(w, graph);
    tn_tensor *large =
        tn_full(w->s, TN_INTS(3 << 20), TN_SCALAR(n), .dtype = TN_FLOAT64, .device = w->device);
    tn_tensor *part = tn_narrow(w->s, large, 0, 0, COUNT), *y = tn_add(w->s, x, part);
    tn_drop(w->s, part);
    tn_drop(w->s, large);
    end(w, graph);
    return y;
}

/* Two parts of a step are graphs, with work between them that is not captured. */
Test(capture, parts_of_a_step_share_a_pool)
{
    world w = open_world();
    tn_graph *second;
    tn_memory_pool *pool;
    cr_assert_eq(tn_graph_create(w.ctx, w.device, &second), TN_OK);
    cr_assert_eq(tn_memory_pool_create(w.ctx, w.device, &pool), TN_OK);
    cr_assert_eq(tn_graph_set_pool(w.graph, pool), TN_OK);
    cr_assert_eq(tn_graph_set_pool(second, pool), TN_OK);
    tn_tensor *x = filled(&w, 1), *middle = filled(&w, 0);
    tn_tensor *y = capture_plus(&w, w.graph, x, 10);
    uint64_t one = reserved_bytes(&w);
    tn_tensor *z = capture_plus(&w, second, middle, 100);
    cr_assert_eq(reserved_bytes(&w), one, "the second graph uses the first one's temporary memory");
    cr_assert_eq(tn_graph_set_pool(second, NULL), TN_E_STATE);
    for (int step = 0; step < 3; step++) {
        tn_fill_scalar_(w.s, x, TN_SCALAR((double)step));
        cr_assert_eq(tn_graph_replay(w.graph), TN_OK);
        tn_copy_(w.s, middle, tn_mul_scalar(w.s, y, 2.0)); /* not captured */
        cr_assert_eq(tn_graph_replay(second), TN_OK);
        expect_all(&w, z, (step + 10) * 2 + 100);
    }
    /* The pool goes with the last of those that use it. */
    tn_memory_pool_release(pool);
    cr_assert_eq(tn_graph_reset(w.graph), TN_OK);
    cr_assert_eq(tn_graph_replay(second), TN_OK);
    expect_all(&w, z, 124);
    tn_graph_release(second);
    cr_assert_eq(tn_graph_set_pool(w.graph, NULL), TN_OK);
    expect_all(&w, z, 124);
    tn_drop(w.s, y);
    tn_drop(w.s, z);
    cr_assert_eq(tn_memory_empty_cache(w.ctx, w.device), TN_OK);
    cr_assert_lt(reserved_bytes(&w), one, "the memory went back");
    close_world(&w);
}

Test(capture, a_block_that_two_captured_streams_use_is_not_used_again_within)
{
    world w = open_world();
    tn_tensor *x = filled(&w, 1), *a, *b = begin_on_two_streams(&w, x, 5, &a);
    cr_assert_eq(tn_record_stream(a, w.other), TN_OK);
    expect_sound(&w);
    uint64_t offset = tn_desc(a)->byte_offset;
    tn_drop(w.s, a);
    tn_tensor *c = tn_mul_scalar(w.s, x, 7.0);
    cr_assert_neq(tn_desc(c)->byte_offset, offset);
    cr_assert_eq(tn_stream_wait_stream(w.side, w.other), TN_OK);
    tn_tensor *d = tn_add(w.s, b, c);
    end(&w, w.graph);
    replay(&w, w.graph);
    expect_all(&w, d, 17);
    close_world(&w);
}

/* ---- Updating ---------------------------------------------------------------------------------------- */

static void capture_sum(world *w, tn_graph *graph, tn_tensor *x, double value, tn_tensor *out)
{
    begin(w, graph);
    tn_copy_(w->s, out, tn_add_scalar(w->s, x, value));
    end(w, graph);
}

Test(capture, an_update_brings_other_tensors_and_numbers)
{
    world w = open_world();
    tn_graph *second = NULL;
    tn_tensor *x = filled(&w, 1), *y = filled(&w, 20), *out = filled(&w, 0), *there = filled(&w, 0);
    cr_assert_eq(tn_graph_create(w.ctx, w.device, &second), TN_OK);
    capture_sum(&w, w.graph, x, 1, out);
    replay(&w, w.graph);
    capture_sum(&w, second, y, 2, there);
    cr_assert_eq(tn_graph_update(w.graph, second), TN_OK, "%s", tn_last_error()->message);
    cr_assert_eq(tn_graph_replay(second), TN_E_STATE, "it is empty");
    tn_fill_scalar_(w.s, x, 1000);
    replay(&w, w.graph);
    expect_all(&w, out, 2);
    expect_all(&w, there, 22);
    begin(&w, second); /* other operations */
    tn_mul_scalar_(w.s, there, 0.5);
    tn_mul_scalar_(w.s, there, 0.5);
    end(&w, second);
    cr_assert_eq(tn_graph_update(w.graph, second), TN_OK);
    replay(&w, w.graph);
    expect_all(&w, there, 5.5);
    tn_graph_release(second);
    close_world(&w);
}

/* ---- Late errors ------------------------------------------------------------------------------------- */

/* The fill of x is a task, the launch one, and so is each operator in it: the second one fails. */
Test(capture, a_late_error_drops_the_rest_of_a_launch_once)
{
    setenv("TENON_REFERENCE_FAIL", "4", 1);
    world w = open_world();
    tn_tensor *x = filled(&w, 1);
    begin(&w, w.graph);
    tn_add_scalar_(w.s, x, 1.0);
    tn_mul_scalar_(w.s, x, 10.0);
    tn_add_scalar_(w.s, x, 1.0);
    end(&w, w.graph);
    replay(&w, w.graph);
    cr_assert_eq(tn_stream_synchronize(w.home), TN_E_INTERNAL);
    expect_all(&w, x, 2);
    replay(&w, w.graph);
    expect_all(&w, x, 31);
    close_world(&w);
}
