/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 4, graphs: a captured and replayed graph does what the work would have done, any number of times;
 * streams that join, memory that belongs to the graph, refusals after which the stream works, updates.
 */
#include "gate.h"
#include "sources.h"

#include <stdio.h>
#include <string.h>

#define COUNT 1000

/* What a case works with; `graph` is NULL if the plugin has no graphs, which was then reported. */
typedef struct graph_desk {
    check_target *t;
    check_result *out;
    tn_scope *s;
    tn_graph *graph;
    tn_stream *home, *side, *other;
} graph_desk;

static int ok(check_result *out, int32_t status, const char *what)
{
    if (status) check_fail_with_error(out, NULL, what);
    return status == 0;
}

static int open_desk(check_target *t, check_result *out, graph_desk *d)
{
    *d = (graph_desk){.t = t, .out = out};
    int32_t status = tn_graph_create(t->ctx, t->device, &d->graph);
    if (status == TN_E_UNSUPPORTED)
        check_absent(out, "the plugin offers no graphs: %s", tn_last_error()->message);
    else if (!check_has_dtype(t, TN_FLOAT32))
        check_skip(out, "the device has no float32");
    else if (ok(out, status, "making a graph") &&
             ok(out, tn_stream_create(t->ctx, t->device, t->facts.priority_low, &d->side), "create") &&
             ok(out, tn_stream_create(t->ctx, t->device, t->facts.priority_low, &d->other), "create")) {
        d->home = tn_stream_default(t->ctx, t->device);
        d->s = tn_scope_open(t->ctx);
        return d->s != NULL;
    }
    return 0;
}

static void close_desk(graph_desk *d)
{
    if (d->s && tn_scope_failed(d->s)) check_fail_with_error(d->out, d->s, "the calls of the case");
    if (d->home) tn_stream_set_current(d->t->ctx, d->home);
    tn_scope_close(d->s);
    tn_graph_release(d->graph);
    tn_stream_release(d->side);
    tn_stream_release(d->other);
}

static tn_tensor *filled(const graph_desk *d, double value)
{
    return tn_full(d->s, TN_INTS(COUNT), value, .dtype = TN_FLOAT32, .device = d->t->device);
}

static int holds(const graph_desk *d, const char *what, const tn_tensor *x, double want)
{
    const double *got = x ? check_doubles(d->s, x) : NULL;
    if (!got) {
        check_fail_with_error(d->out, d->s, what);
        return 0;
    }
    for (int64_t i = 0; i < tn_tensor_numel(x); i++) {
        if (got[i] != want)
            return check_that(d->out, 0, "%s: element %lld is %g, expected %g", what, (long long)i, got[i],
                              want);
    }
    return 1;
}

/* A plugin may learn only here that the vendor's version cannot capture. */
static int begin(const graph_desk *d, tn_graph *graph)
{
    if (!ok(d->out, tn_stream_wait_stream(d->side, d->home), "wait_stream") ||
        !ok(d->out, tn_stream_set_current(d->t->ctx, d->side), "set_current"))
        return 0;
    int32_t status = tn_graph_capture_begin(graph, d->side);
    if (status != TN_E_UNSUPPORTED) return ok(d->out, status, "capture_begin");
    check_absent(d->out, "the device captures no graphs: %s", tn_last_error()->message);
    tn_stream_set_current(d->t->ctx, d->home);
    return 0;
}

static int end(const graph_desk *d, tn_graph *graph)
{
    int32_t status = tn_graph_capture_end(graph);
    tn_stream_set_current(d->t->ctx, d->home);
    return ok(d->out, status, "capture_end");
}

static void replay(const graph_desk *d, tn_graph *graph)
{
    ok(d->out, tn_graph_replay(graph), "replay");
}

/* 1 if an operator of the case runs on the CPU, which a graph cannot hold. */
static int is_absent(const graph_desk *d, void (*step)(const graph_desk *d, tn_tensor *const *leaves),
                     tn_tensor *const *leaves)
{
    check_watch watch;
    check_watch_begin(d->t, &watch);
    step(d, leaves);
    if (check_watch_end(d->t, &watch) == CHECK_WAY_CPU)
        check_absent(d->out, "the CPU answers for %s", watch.fallbacks);
    return d->out->outcome != CHECK_PASSED || tn_scope_failed(d->s);
}

/* ---- A step of training -------------------------------------------------------------------------------- */

enum { X, TARGET, W1, W2, LEAVES };

static void make_leaves(const graph_desk *d, tn_tensor **leaves)
{
    static const int64_t shapes[LEAVES][2] = {{32, 8}, {32, 4}, {8, 16}, {16, 4}};
    for (int k = 0; k < LEAVES; k++) {
        float values[32 * 16];
        int64_t n = shapes[k][0] * shapes[k][1];
        for (int64_t i = 0; i < n; i++) values[i] = (float)((i * 37 + k * 11) % 17 - 8) / 16.0f;
        leaves[k] = tn_from_data(d->s, TN_FLOAT32, TN_INTS(shapes[k][0], shapes[k][1]), values, d->t->device);
        if (k >= W1 && leaves[k]) tn_set_requires_grad(leaves[k], 1);
    }
}

/* Written in primitives, so that tier 1 is enough: two products, a logistic function, a squared error. */
static void train(const graph_desk *d, tn_tensor *const *leaves)
{
    tn_tensor *weights[] = {leaves[W1], leaves[W2]}, *grads[2] = {NULL};
    tn_tensor *h = tn_mm(d->s, leaves[X], leaves[W1]);
    h = tn_reciprocal(d->s, tn_add_scalar(d->s, tn_exp(d->s, tn_neg(d->s, h)), 1.0));
    tn_tensor *error = tn_sub(d->s, tn_mm(d->s, h, leaves[W2]), leaves[TARGET]);
    tn_tensor *loss = tn_sum(d->s, tn_mul(d->s, error, error));
    if (!loss || tn_grad(d->s, (tn_tensors){&loss, 1}, (tn_tensors){weights, 2}, NULL, grads)) return;
    tn_scope *quiet = tn_scope_open_child(
        d->s, &(tn_scope_options){.size = sizeof(tn_scope_options), .grad_mode = TN_GRAD_OFF});
    for (int i = 0; i < 2; i++) tn_sub_(quiet, weights[i], tn_mul_scalar(quiet, grads[i], 0.01));
    tn_scope_close(quiet);
}

static void compare_training(const graph_desk *d)
{
    tn_tensor *eager[LEAVES], *captured[LEAVES], *warm[LEAVES];
    make_leaves(d, eager);
    make_leaves(d, captured);
    make_leaves(d, warm);
    if (is_absent(d, train, warm) || !begin(d, d->graph)) return;
    train(d, captured);
    if (!end(d, d->graph)) return;
    check_same(d->out, d->s, "a weight after the capture, before any replay", captured[W1], eager[W1],
               (check_tolerance){0});
    for (int i = 0; i < 5; i++) {
        train(d, eager);
        replay(d, d->graph);
    }
    for (int k = W1; k < LEAVES; k++)
        check_same(d->out, d->s, k == W1 ? "the first weight after 5 replays" : "the second weight",
                   captured[k], eager[k], check_tolerance_of(TN_FLOAT32));
}

/* ---- Small ones ---------------------------------------------------------------------------------------- */

static void add_and_double(const graph_desk *d, tn_tensor *const *leaves)
{
    tn_mul_scalar_(d->s, tn_add_(d->s, leaves[0], leaves[1]), 2.0);
}

static void replay_often(const graph_desk *d)
{
    tn_tensor *leaves[] = {filled(d, 0), filled(d, 0)};
    if (is_absent(d, add_and_double, leaves) || !begin(d, d->graph)) return;
    add_and_double(d, leaves);
    if (!end(d, d->graph)) return;
    holds(d, "before any replay", leaves[0], 0);
    for (int i = 0; i < 30; i++) { /* work queued between replays keeps its place */
        tn_fill_scalar_(d->s, leaves[0], i);
        tn_fill_scalar_(d->s, leaves[1], 1);
        replay(d, d->graph);
        tn_tensor *after = tn_add(d->s, leaves[0], leaves[1]);
        if (!holds(d, "a replay between two operators", after, 2.0 * (i + 1) + 1)) return;
        tn_drop(d->s, after);
    }
    tn_fill_scalar_(d->s, leaves[0], 0);
    ok(d->out, tn_stream_wait_stream(d->other, d->home), "wait_stream");
    double want = 0;
    for (int i = 0; i < 12; i++) { /* launches on two streams still run one after the other */
        tn_stream_set_current(d->t->ctx, i % 2 ? d->other : d->home);
        replay(d, d->graph);
        want = (want + 1) * 2;
    }
    tn_stream_set_current(d->t->ctx, d->home);
    ok(d->out, tn_stream_wait_stream(d->home, d->other), "wait_stream");
    holds(d, "12 replays on two streams", leaves[0], want);
}

static void join_streams(const graph_desk *d)
{
    tn_tensor *x = filled(d, 0), *leaves[] = {filled(d, 0), x};
    if (is_absent(d, add_and_double, leaves) || !begin(d, d->graph)) return;
    tn_tensor *a = tn_add(d->s, x, x);
    ok(d->out, tn_stream_wait_stream(d->other, d->side), "another stream joins");
    check_that(d->out, tn_stream_is_capturing(d->other), "the stream that joined does not capture");
    tn_stream_set_current(d->t->ctx, d->other);
    tn_tensor *b = tn_mul_scalar(d->s, a, 3.0);
    tn_stream_set_current(d->t->ctx, d->side);
    tn_tensor *c = tn_mul_scalar(d->s, a, 50.0);
    ok(d->out, tn_stream_wait_stream(d->side, d->other), "the first stream waits for it");
    tn_tensor *sum = tn_add(d->s, b, c);
    if (!end(d, d->graph)) return;
    for (int i = 1; i < 20 && d->out->outcome == CHECK_PASSED; i++) {
        tn_fill_scalar_(d->s, x, i);
        replay(d, d->graph);
        holds(d, "work of two captured streams", sum, 106.0 * i);
    }
    tn_graph_reset(d->graph);
    if (!begin(d, d->graph)) return;
    tn_stream_wait_stream(d->other, d->side);
    tn_stream_set_current(d->t->ctx, d->other);
    tn_mul_scalar_(d->s, x, 2.0);
    int32_t status = tn_graph_capture_end(d->graph);
    tn_stream_set_current(d->t->ctx, d->home);
    check_that(d->out, status == TN_E_STATE,
               "a capture whose second stream was never waited for ended with %d, expected TN_E_STATE",
               status);
    holds(d, "after that", x, 19);
}

static void capture_two(const graph_desk *d)
{
    tn_graph *second = NULL;
    tn_tensor *leaves[] = {filled(d, 0), filled(d, 0)}, *x = filled(d, 1), *y = filled(d, 1);
    if (is_absent(d, add_and_double, leaves)) return;
    if (ok(d->out, tn_graph_create(d->t->ctx, d->t->device, &second), "a second graph") &&
        begin(d, d->graph) && ok(d->out, tn_graph_capture_begin(second, d->other), "a second capture")) {
        tn_mul_scalar_(d->s, x, 2.0);
        tn_stream_set_current(d->t->ctx, d->other);
        tn_mul_scalar_(d->s, y, 3.0);
        tn_stream_set_current(d->t->ctx, d->home);
        holds(d, "work beside two captures", filled(d, 7), 7);
        ok(d->out, tn_graph_capture_end(second), "capture_end");
        if (end(d, d->graph)) {
            for (int i = 0; i < 3; i++) replay(d, second);
            replay(d, d->graph);
            holds(d, "the first graph", x, 2);
            holds(d, "the second graph", y, 27);
        }
    }
    tn_graph_release(second);
}

/* ---- Launches ------------------------------------------------------------------------------------------ */

/* A launch on a free stream waits for an earlier one of the same graph, whose stream is held. */
static void launch_behind_gate(const graph_desk *d, gate *g)
{
    enum { LOOKS = 30, LOOK_NS = 500000 };
    tn_tensor *leaves[] = {filled(d, 1), filled(d, 1)};
    if (is_absent(d, add_and_double, leaves) || !begin(d, d->graph)) return;
    add_and_double(d, leaves);
    if (!end(d, d->graph) || !ok(d->out, tn_device_synchronize(d->t->ctx, d->t->device), "synchronize") ||
        !ok(d->out, tn_stream_add_callback(d->home, gate_hold, g), "add_callback"))
        return;
    replay(d, d->graph);
    tn_stream_set_current(d->t->ctx, d->other);
    replay(d, d->graph);
    for (int i = 0; i < LOOKS && d->out->outcome == CHECK_PASSED && !gate_read(g, &g->at_once); i++) {
        check_that(d->out, tn_stream_query(d->other) == 0 || gate_read(g, &g->gave_up),
                   "a launch on one stream is done while an earlier launch of the graph is held on another");
        gate_pause(LOOK_NS);
    }
    gate_open(g);
    tn_stream_set_current(d->t->ctx, d->home);
    ok(d->out, tn_stream_wait_stream(d->home, d->other), "wait_stream");
    /* From 1, once before the capture. */
    holds(d, "two launches on two streams", leaves[0], ((4 + 1) * 2 + 1) * 2);
}

static void launch_in_turn(const graph_desk *d)
{
    gate g;
    gate_init(&g);
    launch_behind_gate(d, &g);
    gate_open(&g);
    tn_device_synchronize(d->t->ctx, d->t->device);
    gate_finish(&g);
}

static void gather_leaf(const graph_desk *d, tn_tensor *const *leaves)
{
    tn_copy_(d->s, leaves[2], tn_gather(d->s, leaves[0], 0, leaves[1]));
}

/* An error of a launch is reported, and the next launch works. Another wait may report it later: no case of this process
 * must follow. */
static void fail_late(const graph_desk *d)
{
    tn_tensor *zeros = tn_zeros(d->s, TN_INTS(COUNT), .dtype = TN_INT64, .device = d->t->device);
    tn_tensor *leaves[] = {filled(d, 5), zeros, filled(d, 0)};
    if (!check_has_dtype(d->t, TN_INT64)) {
        check_skip(d->out, "the device has no int64");
        return;
    }
    if (!zeros || is_absent(d, gather_leaf, leaves) || !begin(d, d->graph)) return;
    gather_leaf(d, leaves);
    if (!end(d, d->graph)) return;
    tn_fill_scalar_(d->s, zeros, COUNT);
    int32_t status = tn_graph_replay(d->graph);
    if (!status) status = tn_stream_synchronize(d->home);
    if (!check_that(d->out, status == TN_E_INDEX || status == TN_E_DEVICE_LOST,
                    "an index out of range in a launch: status %d, expected %d (TN_E_INDEX)", status,
                    TN_E_INDEX) ||
        status == TN_E_DEVICE_LOST)
        return;
    tn_scope_clear(d->s);
    tn_fill_scalar_(d->s, zeros, 1);
    tn_fill_scalar_(d->s, leaves[2], 0);
    replay(d, d->graph);
    holds(d, "a launch after one that failed", leaves[2], 5);
}

/* ---- Refusals ------------------------------------------------------------------------------------------ */

/* The call is refused, the capture ends as invalid, and the stream works again. */
static void expect_refusal(const graph_desk *d, const char *what, int32_t status)
{
    if (!status && tn_scope_failed(d->s)) status = tn_scope_error(d->s)->code;
    tn_scope_clear(d->s);
    check_that(d->out, status == TN_E_STATE, "%s while a stream captures: status %d, expected TN_E_STATE",
               what, status);
    status = tn_graph_capture_end(d->graph);
    check_that(d->out, status == TN_E_STATE, "%s: the capture ended with %d, expected TN_E_STATE", what,
               status);
    tn_tensor *x = filled(d, 4); /* on the stream that captured */
    tn_mul_scalar_(d->s, x, 2.0);
    holds(d, "work on the stream after an invalid capture", x, 8);
    tn_stream_set_current(d->t->ctx, d->home);
}

static void refuse(const graph_desk *d)
{
    tn_tensor *leaves[] = {filled(d, 0), filled(d, 0)}, *x = filled(d, 1), *one = tn_sum(d->s, x);
    if (is_absent(d, add_and_double, leaves)) return;
    if (begin(d, d->graph)) {
        tn_item_double(d->s, one);
        expect_refusal(d, "item", 0);
    }
    if (begin(d, d->graph)) {
        tn_nonzero(d->s, x);
        expect_refusal(d, "nonzero", 0);
    }
    if (begin(d, d->graph)) {
        tn_mul_scalar_(d->s, x, 2.0);
        expect_refusal(d, "synchronize", tn_stream_synchronize(d->side));
    }
    if (begin(d, d->graph)) expect_refusal(d, "query", -tn_stream_query(d->side));
    holds(d, "what was to be doubled", x, 1);
    if (!begin(d, d->graph)) return;
    tn_mul_scalar_(d->s, x, 2.0);
    if (!end(d, d->graph)) return;
    replay(d, d->graph);
    holds(d, "a capture after all of that", x, 2);
}

/* ---- Memory -------------------------------------------------------------------------------------------- */

static void keep_memory(const graph_desk *d)
{
    tn_tensor *leaves[] = {filled(d, 0), filled(d, 0)}, *x = filled(d, 1), *out = filled(d, 0), *others[32];
    if (is_absent(d, add_and_double, leaves) || !begin(d, d->graph)) return;
    tn_tensor *a = tn_add(d->s, x, x), *b = tn_mul_scalar(d->s, a, 3.0);
    tn_copy_(d->s, out, tn_add(d->s, a, b));
    if (!end(d, d->graph) || !a || !b) return;
    tn_drop(d->s, a);
    tn_drop(d->s, b);
    ok(d->out, tn_memory_empty_cache(d->t->ctx, d->t->device), "empty_cache");
    for (int i = 0; i < 32; i++) {
        if (i == 16) tn_stream_set_current(d->t->ctx, d->side);
        others[i] = filled(d, 100 + i);
    }
    tn_stream_set_current(d->t->ctx, d->home);
    ok(d->out, tn_stream_wait_stream(d->home, d->side), "wait_stream");
    for (int i = 0; i < 3; i++) replay(d, d->graph);
    holds(d, "the result of the replays", out, 8);
    for (int i = 0; i < 32; i++) {
        if (!holds(d, "a tensor that was made while the graph is there", others[i], 100 + i)) return;
    }
    replay(d, d->graph); /* and the graph is reset while it runs */
    tn_graph_reset(d->graph);
    for (int i = 0; i < 32; i++) others[i] = filled(d, 200 + i);
    for (int i = 0; i < 32; i++) {
        if (!holds(d, "a tensor that was made after the graph", others[i], 200 + i)) return;
    }
    holds(d, "the result, afterwards", out, 8);
}

/* ---- Updates ------------------------------------------------------------------------------------------- */

static int capture_sum(const graph_desk *d, tn_graph *graph, tn_tensor *x, double factor, tn_tensor *out)
{
    if (!begin(d, graph)) return 0;
    tn_copy_(d->s, out, tn_mul_scalar(d->s, tn_add(d->s, x, x), factor));
    return end(d, graph);
}

static void update(const graph_desk *d)
{
    tn_graph *second = NULL;
    tn_tensor *leaves[] = {filled(d, 0), filled(d, 0)}, *x = filled(d, 1), *y = filled(d, 5),
              *first = filled(d, 0), *last = filled(d, 0);
    if (is_absent(d, add_and_double, leaves) ||
        !ok(d->out, tn_graph_create(d->t->ctx, d->t->device, &second), "a second graph"))
        return;
    if (capture_sum(d, d->graph, x, 2, first)) {
        replay(d, d->graph);
        if (capture_sum(d, second, y, 7, last) && ok(d->out, tn_graph_update(d->graph, second), "update")) {
            tn_fill_scalar_(d->s, x, 1000);
            replay(d, d->graph);
            holds(d, "the result of before the update", first, 4);
            holds(d, "other tensors and another number", last, 70);
        }
    }
    if (d->out->outcome == CHECK_PASSED && begin(d, second)) { /* other operations */
        tn_add_(d->s, last, y);
        tn_add_(d->s, last, y);
        if (end(d, second) && ok(d->out, tn_graph_update(d->graph, second), "update to other operations")) {
            replay(d, d->graph);
            holds(d, "other operations", last, 80);
        }
    }
    tn_graph_release(second);
}

/* ---- Random numbers: each replay draws what the same calls would have drawn ------------------------------- */

#define DRAWS 3

static void draw(const graph_desk *d)
{
    tn_generator *g = tn_default_generator(d->t->ctx, d->t->device);
    tn_tensor *x = filled(d, 0);
    const double *want[DRAWS];
    tn_generator_seed(g, 7);
    for (int i = 0; i < DRAWS; i++) {
        tn_add_(d->s, tn_uniform_(d->s, x), tn_rand_like(d->s, x));
        want[i] = x ? check_doubles(d->s, x) : NULL;
    }
    if (tn_scope_failed(d->s) || !begin(d, d->graph)) return;
    tn_add_(d->s, tn_uniform_(d->s, x), tn_rand_like(d->s, x));
    int32_t status = tn_graph_capture_end(d->graph);
    tn_stream_set_current(d->t->ctx, d->home);
    if (status == TN_E_STATE) {
        check_skip(d->out, "random numbers cannot be captured: the row of prim::random lacks 'state'");
        tn_scope_clear(d->s);
        return;
    }
    if (!ok(d->out, status, "capture_end")) return;
    tn_generator_seed(g, 7);
    for (int i = 0; i < DRAWS && want[i]; i++) {
        char what[32];
        replay(d, d->graph);
        const double *got = check_doubles(d->s, x);
        snprintf(what, sizeof what, "replay %d", i);
        for (int64_t k = 0; got && k < COUNT; k++) {
            if (!check_that(d->out, got[k] == want[i][k], "%s: element %lld is %g, expected %g", what,
                            (long long)k, got[k], want[i][k]))
                return;
        }
    }
}

static const struct {
    const char *name;
    void (*run)(const graph_desk *d);
} cases[] = {{"training-step", compare_training},
             {"replays", replay_often},
             {"streams", join_streams},
             {"two-captures", capture_two},
             {"launches", launch_in_turn},
             {"late-error", fail_late},
             {"refusals", refuse},
             {"memory", keep_memory},
             {"update", update},
             {"random", draw}};

static void run(check_target *t, const check_case *c, check_result *out)
{
    graph_desk d;
    if (open_desk(t, out, &d)) cases[c->number].run(&d);
    close_desk(&d);
    t->error_line[0] = 0; /* some cases cause refusals, which are logged */
}

void check_tier4_graph(check_target *t, check_list *list)
{
    (void)t;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_add(
            list,
            &(check_case){.tier = 4,
                          .tags = CHECK_TAG_OPTIONAL | (cases[i].run == fail_late ? CHECK_TAG_ALONE : 0),
                          .run = run,
                          .number = (int64_t)i},
            "4/graph/%s", cases[i].name);
}
