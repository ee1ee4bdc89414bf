/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 1, one kernel on two streams: two threads, each with a stream and numbers of its own, call the same operator at
 * the same time. A kernel with scratch memory that all calls share mixes their numbers.
 */
#include "sources.h"
#include "words.h"

#include <pthread.h>
#include <stdio.h>

enum { THREADS = 2, ROUNDS = 40 };

static const struct {
    const char *op, *arguments;
} calls[] = {
    {"aten::add.Tensor", "q64,512 q64,512 s1"},
    {"aten::exp", "x64,512"},
    {"aten::sum", "q64,512 -"},
    {"aten::sum.dim_IntList", "q64,512 i1 b0 -"},
    {"aten::cumsum", "q64,512 n1 -"},
    {"aten::gather", "q64,512 n1 z64,512 b0"},
    {"aten::scatter_add_", "q64,512 n1 z64,512 q64,512"},
    {"aten::mm", "q64,96 q96,64"},
    {"aten::bmm", "q4,32,64 q4,64,32"},
    {"prim::copy", "q64,512 q64,512"},
    {"aten::sort.stable", "q32,256 b1 n1 b0"},
    {"aten::nonzero", "q64,128"},
    {"aten::_softmax", "x64,128 n1 b0"},
    {"aten::native_layer_norm", "x64,128 i128 x128 x128 f.001"},
    {"aten::native_batch_norm", "x4,8,100 x8 x8 x8 p8 b0 f.1 f.001"},
    {"aten::scaled_dot_product_attention", "x2,33,16 x2,40,16 x2,40,16 - f0 b0 f.1"},
};

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

static void call_once(user *u, int round)
{
    tn_value outs[CALL_MAX_OUTS];
    char what[128];
    tn_scope *s = tn_scope_open(u->t->ctx);
    snprintf(what, sizeof what, "%s, round %d, while another stream runs it on other numbers", u->plan.name,
             round);
    if (call_on(s, u, u->t->device, outs)) check_fail_with_error(&u->result, s, u->plan.name);
    for (uint32_t i = 0; i < u->n_outs && u->result.outcome == CHECK_PASSED; i++) {
        tn_tensor *want = tn_value_as_tensor(u->want[i]);
        check_same(&u->result, s, what, tn_value_as_tensor(outs[i]), want,
                   check_tolerance_of(tn_tensor_dtype(want)));
    }
    tn_scope_close(s);
}

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
    u->plan = (call_plan){.op = tn_operator_find(t->ctx, calls[c->number].op),
                          .name = calls[c->number].op,
                          .seed = check_seed(t, c) + number * 1000003u};
    u->n_outs = tn_inspect_argument_count(t->ctx, u->plan.op, 1);
    words_write(&u->words, &u->plan, calls[c->number].arguments);
    if (!call_on(s, u, t->other, u->want)) return 1;
    check_fail_with_error(out, s, t->other_name);
    return 0;
}

static void run(check_target *t, const check_case *c, check_result *out)
{
    static user users[THREADS]; /* cases of a process run one after another */
    pthread_t threads[THREADS];
    int started = 0, ready = t->other != 0;
    tn_scope *s = tn_scope_open(t->ctx);
    if (!ready) check_skip(out, "there is no other device to compare with");
    for (uint64_t i = 0; i < THREADS && ready; i++) ready = prepare(&users[i], t, c, i, s, out);
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
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        uint32_t op = tn_operator_find(t->ctx, calls[i].op);
        if (!op || !check_has_kernel(t, op, t->type, TN_FLOAT32)) continue;
        check_add(list,
                  &(check_case){.tier = 1, .tags = CHECK_TAG_OPTIONAL, .run = run, .number = (int64_t)i},
                  "1/streams/%s", calls[i].op);
    }
}
