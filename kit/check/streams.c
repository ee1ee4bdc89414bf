/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 1, one kernel on two streams with numbers of their own. First both streams are held by gates (gate.h) until
 * calls are queued on each: whatever calls share while they are queued is overwritten by then, and the streams begin
 * together. Then two threads, each with a stream, call the operator at the same time. Scratch memory that all calls
 * share mixes their numbers.
 */
#include "gate.h"
#include "small_calls.h"
#include "sources.h"
#include "words.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 2, ROUNDS = 40, QUEUED = 4, HELD_ROUNDS = 6 };

typedef struct user {
    check_target *t;
    call_plan plan;
    words words; /* what the plan points to */
    tn_value want[CALL_MAX_OUTS];
    uint32_t n_outs;
    check_result result;
} user;

static int call_on(tn_scope *s, const user *u, tn_device device, tn_value *outs)
{
    tn_value args[CALL_MAX_ARGS];
    return call_arguments(s, &u->plan, device, args) ||
           tn_scope_call(s, u->plan.op, args, u->plan.n_args, outs, u->n_outs);
}

static void compare_with_want(user *u, tn_scope *s, const tn_value *outs, int round)
{
    char what[128];
    snprintf(what, sizeof what, "%s, round %d, while another stream runs it on other numbers", u->plan.name,
             round);
    for (uint32_t i = 0; i < u->n_outs && u->result.outcome == CHECK_PASSED; i++) {
        tn_tensor *want = tn_value_as_tensor(u->want[i]);
        check_same(&u->result, s, what, tn_value_as_tensor(outs[i]), want,
                   check_tolerance_of(tn_tensor_dtype(want)));
    }
}

static void call_once(user *u, int round)
{
    tn_value outs[CALL_MAX_OUTS];
    tn_scope *s = tn_scope_open(u->t->ctx);
    if (call_on(s, u, u->t->device, outs)) check_fail_with_error(&u->result, s, u->plan.name);
    compare_with_want(u, s, outs, round);
    tn_scope_close(s);
}

/* ---- Behind gates -------------------------------------------------------------------------------------- */

/* A stream that is held, and the calls queued behind its gate. */
typedef struct lane {
    user *u;
    tn_stream *stream;
    gate g;
    tn_value args[QUEUED][CALL_MAX_ARGS], outs[QUEUED][CALL_MAX_OUTS];
} lane;

/* Arguments are made before the stream is held: copies from the host would wait for the gate. */
static int prepare_lane(lane *l, tn_scope *s)
{
    int failed = 0;
    for (int i = 0; i < QUEUED && !failed; i++)
        failed = call_arguments(s, &l->u->plan, l->u->t->device, l->args[i]);
    return failed;
}

static int queue_behind_gate(lane *l, tn_scope *s)
{
    const user *u = l->u;
    int failed =
        tn_stream_add_callback(l->stream, gate_hold, &l->g) || tn_stream_set_current(u->t->ctx, l->stream);
    for (int i = 0; i < QUEUED && !failed; i++)
        failed = tn_scope_call(s, u->plan.op, l->args[i], u->plan.n_args, l->outs[i], u->n_outs);
    tn_stream_set_current(u->t->ctx, tn_stream_default(u->t->ctx, u->t->device));
    return failed;
}

/* 0: the case has ended, or a kernel has waited for its stream, which it may: then nothing can be held. */
static int call_together(lane *lanes, int round, check_result *out)
{
    check_target *t = lanes[0].u->t;
    tn_scope *s = tn_scope_open(t->ctx);
    int failed = 0;
    for (int i = 0; i < THREADS && !failed; i++) failed = prepare_lane(&lanes[i], s);
    if (!failed) failed = tn_device_synchronize(t->ctx, t->device) != TN_OK;
    for (int i = 0; i < THREADS && !failed; i++) failed = queue_behind_gate(&lanes[i], s);
    for (int i = 0; i < THREADS; i++) gate_open(&lanes[i].g);
    for (int i = 0; i < THREADS; i++) failed |= tn_stream_synchronize(lanes[i].stream) != TN_OK;
    if (failed) check_fail_with_error(out, s, lanes[0].u->plan.name);
    int gave_up = 0;
    for (int i = 0; i < THREADS; i++) {
        for (int k = 0; k < QUEUED && !failed; k++) compare_with_want(lanes[i].u, s, lanes[i].outs[k], round);
        gave_up |= gate_read(&lanes[i].g, &lanes[i].g.gave_up);
        gate_close(&lanes[i].g);
    }
    tn_scope_close(s);
    return !failed && !gave_up;
}

static void run_behind_gates(user *users, check_target *t, check_result *out)
{
    static lane lanes[THREADS]; /* too large for a stack */
    int ready = 1;
    for (int i = 0; i < THREADS; i++) {
        lanes[i].u = &users[i];
        lanes[i].stream = NULL;
        gate_init(&lanes[i].g);
        if (tn_stream_create(t->ctx, t->device, t->facts.priority_low, &lanes[i].stream)) ready = 0;
    }
    if (!ready) check_fail_with_error(out, NULL, "a stream");
    for (int round = 0; round < HELD_ROUNDS && ready; round++)
        ready = call_together(lanes, round, out) && users[0].result.outcome == CHECK_PASSED;
    for (int i = 0; i < THREADS; i++) {
        tn_stream_release(lanes[i].stream);
        gate_finish(&lanes[i].g);
    }
}

/* ---- In two threads ------------------------------------------------------------------------------------ */

static void *call_in_thread(void *data)
{
    user *u = data;
    tn_stream *stream = NULL;
    if (tn_stream_create(u->t->ctx, u->t->device, u->t->facts.priority_low, &stream)) {
        check_fail_with_error(&u->result, NULL, "a stream");
        return NULL;
    }
    tn_stream_set_current(u->t->ctx, stream);
    for (int round = 0; round < ROUNDS && u->result.outcome == CHECK_PASSED; round++) call_once(u, round);
    tn_stream_set_current(u->t->ctx, tn_stream_default(u->t->ctx, u->t->device));
    tn_stream_release(stream);
    return NULL;
}

/* The results of the other device, in memory of the scope. */
static int prepare(user *u, check_target *t, const check_case *c, uint64_t number, tn_scope *s,
                   check_result *out)
{
    *u = (user){.t = t, .words = {.dtype = TN_FLOAT32}};
    u->plan = (call_plan){.op = tn_operator_find(t->ctx, check_small_calls[c->number].op),
                          .name = check_small_calls[c->number].op,
                          .seed = check_seed(t, c) + number * 1000003u};
    u->n_outs = tn_inspect_argument_count(t->ctx, u->plan.op, 1);
    words_write(&u->words, &u->plan, check_small_calls[c->number].arguments);
    if (!call_on(s, u, t->other, u->want)) return 1;
    check_fail_with_error(out, s, t->other_name);
    return 0;
}

/* Whether a kernel of the operator takes the call, which then may run behind a gate: a composite, or the CPU, may copy to the
 * device, and wait for that. */
static int try_once(const user *u, tn_scope *s, check_result *out)
{
    tn_value outs[CALL_MAX_OUTS];
    check_watch watch;
    check_watch_begin(u->t, &watch);
    int failed = call_on(s, u, u->t->device, outs);
    out->way = check_watch_end(u->t, &watch);
    if (failed)
        check_fail_with_error(out, s, u->plan.name);
    else if (out->way == CHECK_WAY_CPU)
        check_absent(out, "the CPU answers for %s", watch.fallbacks);
    return out->way == CHECK_WAY_NATIVE;
}

static void run(check_target *t, const check_case *c, check_result *out)
{
    static user users[THREADS]; /* cases of a process run one after another */
    pthread_t threads[THREADS];
    int started = 0, ready = t->other != 0;
    tn_scope *s = tn_scope_open(t->ctx);
    if (!ready) check_skip(out, "there is no other device to compare with");
    for (uint64_t i = 0; i < THREADS && ready; i++) ready = prepare(&users[i], t, c, i, s, out);
    int has_kernel = ready && try_once(&users[0], s, out);
    if (out->outcome != CHECK_PASSED) ready = 0;
    /* nonzero waits for its stream. */
    if (ready && has_kernel && strcmp(check_small_calls[c->number].op, "aten::nonzero") != 0)
        run_behind_gates(users, t, out);
    if (out->outcome != CHECK_PASSED) ready = 0;
    while (ready && started < THREADS &&
           !pthread_create(&threads[started], NULL, call_in_thread, &users[started]))
        started++;
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        if (users[i].result.outcome != CHECK_PASSED) check_fail(out, "%s", users[i].result.reason);
    }
    if (ready && started < THREADS) check_skip(out, "no thread");
    tn_scope_close(s);
}

void check_stream_cases(check_target *t, check_list *list)
{
    for (size_t i = 0; i < CHECK_SMALL_CALLS; i++) {
        uint32_t op = tn_operator_find(t->ctx, check_small_calls[i].op);
        if (!op || !check_has_kernel(t, op, t->type, TN_FLOAT32)) continue;
        check_add(list,
                  &(check_case){.tier = 1, .tags = CHECK_TAG_OPTIONAL, .run = run, .number = (int64_t)i},
                  "1/streams/%s", check_small_calls[i].op);
    }
}
