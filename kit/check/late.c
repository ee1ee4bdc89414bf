/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 1, late work: kernels that are queued behind the gate (gate.h), so that they cannot have run when the
 * slot returns. What goes wrong then is a late error: whoever waits for the stream is told, once, and events
 * and host callbacks behind it complete all the same. Whether other work behind it runs is left open.
 *
 * What a call borrows may change as soon as the kernel has returned, so it must have been copied by then.
 */
#include "gate.h"
#include "hand_call.h"
#include "sources.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PATIENCE 30000   /* questions until a stream or an event counts as stuck */
#define PAUSE_NS 1000000 /* between two of them */

enum { ROWS = 3, COLUMNS = 4, CELLS = ROWS * COLUMNS };

static const int64_t shape[] = {ROWS, COLUMNS}, zeros[CELLS]; /* of any dtype */

typedef struct late {
    desk d;
    hand_call call;
} late;

/* ---- A late error -------------------------------------------------------------------------------------- */

/* Runs the row once before the gate: a driver may load a kernel when it is first launched, and wait for the device then. */
static int find_and_run(late *l, const char *op)
{
    return hand_call_find(&l->call, op, TN_FLOAT32) && desk_ok(&l->d, hand_call_run(&l->call), op) &&
           desk_ok(&l->d, l->d.h.stream->synchronize(l->d.h.self, l->d.device, l->d.stream),
                   "stream.synchronize");
}

/* Queues gather with a position outside, behind the gate. 0: the case has ended. */
static int queue_failure(late *l)
{
    static const float values[CELLS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    static const int64_t positions[CELLS] = {0, 1, 2, 3, 0, COLUMNS, 2, 3, 0, 1, 2, 3};
    hand_call *k = &l->call;
    hand_tensor *self = hand_call_tensor(k, TN_FLOAT32, 2, shape, values),
                *result = self ? hand_call_tensor(k, TN_FLOAT32, 2, shape, NULL) : NULL;
    /* The positions arrive behind the gate, too: a kernel that looks at once cannot see the wrong one. A copy from the host
     * might wait for the gate. */
    hand_tensor *index = result ? hand_call_tensor(k, TN_INT64, 2, shape, zeros) : NULL,
                *wrong = index ? hand_call_tensor(k, TN_INT64, 2, shape, positions) : NULL;
    if (!wrong) return 0;
    hand_call_give(k, hand_call_value(self));
    hand_call_give(k, tn_value_int(1));
    hand_call_give(k, hand_call_value(index));
    hand_call_give(k, tn_value_bool(0));
    k->outs[0] = hand_call_value(result);
    if (!find_and_run(l, "aten::gather") || !desk_hold(&l->d)) return 0;
    hand_call_move(k, index, wrong);
    return desk_ok(&l->d, hand_call_run(k), "gather, queued behind a host callback");
}

/* A host callback and an event behind the error. */
static int queue_behind(late *l)
{
    desk *d = &l->d;
    const tn_stream_interface *s = d->h.stream;
    return desk_ok(d, s->host_callback(d->h.self, d->device, d->stream, gate_mark, &d->g),
                   "stream.host_callback behind work that will fail") &&
           (!d->event || desk_ok(d, d->h.event->record(d->h.self, d->device, d->event, d->stream),
                                 "event.record behind work that will fail"));
}

static int is_expected(desk *d, int32_t status, const char *what)
{
    return check_that(
               d->out, !status || mini_host_error[0],
               "%s after an index out of range that was found late: status %d without a text (host->error)",
               what, status) &&
           check_that(d->out, status == TN_E_INDEX || status == TN_E_DEVICE_LOST,
                      "%s after an index out of range that was found late: status %d, expected %d "
                      "(TN_E_INDEX)%s%s",
                      what, status, TN_E_INDEX, status ? ": " : "", status ? mini_host_error : "");
}

/* The error has been reported: callback and event are done, it is not reported again, and the stream works. */
static void look_behind(late *l)
{
    static const float again[CELLS] = {-1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11, -12};
    static float got[CELLS];
    desk *d = &l->d;
    int32_t done = 1;
    check_that(d->out, gate_read(&d->g, &d->g.passed) == 1,
               "the host callback behind a late error ran %d times, expected 1",
               gate_read(&d->g, &d->g.passed));
    if (d->event && desk_ok(d, d->h.event->query(d->h.self, d->device, d->event, &done), "event.query"))
        check_that(d->out, done == 1, "the event behind a late error is not done: event.query gave %d", done);
    if (!desk_ok(d, d->h.stream->synchronize(d->h.self, d->device, d->stream),
                 "stream.synchronize, after the late error was reported"))
        return;
    hand_call_write(&l->call, &l->call.tensors[0], again, sizeof again);
    if (hand_call_read(&l->call, &l->call.tensors[0], got, sizeof got))
        check_that(d->out, !memcmp(got, again, sizeof got),
                   "work that was queued after the late error was reported has not run");
}

/* Returns the late error, or TN_OK if there was none. */
typedef int32_t wait_fn(desk *d);

static int32_t synchronize_stream(desk *d)
{
    return d->h.stream->synchronize(d->h.self, d->device, d->stream);
}

static int32_t synchronize_device(desk *d)
{
    return d->h.device->synchronize(d->h.self, d->device);
}

/* Asks until the stream is done or says what went wrong. */
static int32_t ask_stream(desk *d)
{
    int32_t done = 0, status = TN_OK;
    for (int i = 0; i < PATIENCE && !done && !status; i++) {
        status = d->h.stream->query(d->h.self, d->device, d->stream, &done);
        if (!done && !status) gate_pause(PAUSE_NS);
    }
    /* A query may find the stream done before the error has reached it: the next one must report it. */
    return status ? status : d->h.stream->query(d->h.self, d->device, d->stream, &done);
}

static void report_once(late *l, wait_fn *wait, const char *what)
{
    if (!queue_failure(l) || !queue_behind(l)) return;
    gate_open(&l->d.g);
    mini_host_error[0] = 0;
    int32_t status = wait(&l->d);
    if (!is_expected(&l->d, status, what) || status == TN_E_DEVICE_LOST) return;
    /* A query may report the error before the work behind it has been passed over. */
    if (wait == ask_stream &&
        !desk_ok(&l->d, synchronize_stream(&l->d), "stream.synchronize after the error"))
        return;
    look_behind(l);
}

/* Twice: a process may meet more than one. */
static void report(late *l, wait_fn *wait, const char *what)
{
    report_once(l, wait, what);
    gate_close(&l->d.g);
    l->call.call.n_args = 0;
    l->call.row = NULL;
    if (l->d.out->outcome == CHECK_PASSED) report_once(l, wait, what);
}

static void report_by_stream(late *l)
{
    report(l, synchronize_stream, "stream.synchronize");
}

static void report_by_device(late *l)
{
    report(l, synchronize_device, "device.synchronize");
}

/* The stream that fails is not the first one of the device. */
static void report_of_other(late *l)
{
    desk *d = &l->d;
    void *first = d->stream;
    d->stream = d->h.streams[0] = d->other;
    d->other = first;
    report(l, synchronize_device, "device.synchronize");
}

static void report_by_query(late *l)
{
    report(l, ask_stream, "stream.query");
}

/* Queries of streams and waits for streams and the device report errors: an event that sees one leaves it to them. */
static void keep_error(late *l, int32_t (*ask)(late *l), const char *slot)
{
    desk *d = &l->d;
    char what[80];
    if (!d->event) {
        check_skip(d->out, "the plugin has no events");
        return;
    }
    if (!queue_failure(l) || !queue_behind(l)) return;
    gate_open(&d->g);
    if (!desk_ok(d, ask(l), slot)) return;
    snprintf(what, sizeof what, "stream.synchronize, after %s,", slot);
    mini_host_error[0] = 0;
    is_expected(d, synchronize_stream(d), what);
}

static int32_t ask_event(late *l)
{
    desk *d = &l->d;
    int32_t done = 0, status = TN_OK;
    for (int i = 0; i < PATIENCE && !done && !status; i++) {
        status = d->h.event->query(d->h.self, d->device, d->event, &done);
        if (!done && !status) gate_pause(PAUSE_NS);
    }
    return status;
}

static int32_t wait_event(late *l)
{
    return l->d.h.event->synchronize(l->d.h.self, l->d.device, l->d.event);
}

/* What may wait for the stream and has a status: it returns the error, or leaves it to whoever asks. */
static void returns_or_leaves(desk *d, int32_t status, const char *what)
{
    char after[80];
    snprintf(after, sizeof after, "stream.synchronize, after %s,", what);
    if (status)
        is_expected(d, status, what);
    else
        is_expected(d, synchronize_stream(d), after);
}

/* Memory that is not pinned: the copy may wait. */
static void copy_behind(late *l, int to_host)
{
    static float host[CELLS];
    desk *d = &l->d;
    const tn_copy_interface *c = d->h.copy;
    if (!queue_failure(l)) return;
    void *x = l->call.tensors[0].desc.allocation;
    gate_open(&d->g);
    mini_host_error[0] = 0;
    if (to_host)
        returns_or_leaves(d,
                          c->device_to_host(d->h.self, d->device, host, NULL, x, 0, sizeof host, d->stream),
                          "copy.device_to_host");
    else
        returns_or_leaves(d,
                          c->host_to_device(d->h.self, d->device, x, 0, host, NULL, sizeof host, d->stream),
                          "copy.host_to_device");
}

static void keep_by_download(late *l)
{
    copy_behind(l, 1);
}

static void keep_by_upload(late *l)
{
    copy_behind(l, 0);
}

/* A driver may wait for all work there, and has no status to return. */
static void keep_by_free(late *l)
{
    desk *d = &l->d;
    void *x = hand_alloc(&d->h, 0, sizeof zeros, NULL, d->out);
    if (!x || !queue_failure(l)) return;
    gate_open(&d->g);
    hand_free(&d->h, 0, x, sizeof zeros);
    mini_host_error[0] = 0;
    is_expected(d, synchronize_stream(d), "stream.synchronize, after memory.free,");
}

static void keep_by_event_query(late *l)
{
    keep_error(l, ask_event, "event.query");
}

static void keep_by_event_wait(late *l)
{
    keep_error(l, wait_event, "event.synchronize");
}

/* ---- What a call borrows -------------------------------------------------------------------------------- */

/* Overwrites all that the call borrowed, as a host does that uses the memory again. */
static void overwrite(hand_call *k)
{
    for (uint32_t i = 0; i < k->n_tensors; i++) {
        hand_tensor *t = &k->tensors[i];
        memset(t->sizes, 0, sizeof t->sizes);
        memset(t->strides, 0, sizeof t->strides);
        t->desc.rank = 0;
        t->desc.byte_offset = 4;
    }
    k->nest.numel = k->nest_sizes[0] = 1;
    k->nest_strides[0] = 0;
    for (uint32_t i = 0; i < HAND_TENSORS; i++) k->operands[i].byte_offset = 4;
    for (uint32_t i = 0; i < HAND_ARGUMENTS; i++) k->args[i] = tn_value_none();
    k->outs[0] = tn_value_none();
    k->call.n_args = k->call.n_outs = 0;
    k->call.args = NULL;
    k->call.outs = NULL;
    k->call.nest = NULL;
}

/* Runs the call behind the gate, with `text` as the contents of its text argument; before its work begins, text
 * and call are overwritten. `start` is what the result must hold before it, or NULL. */
static void borrow(late *l, const char *op, hand_tensor *result, const float *start, char *text,
                   const char *other_text, const float *want)
{
    static float got[CELLS];
    hand_call *k = &l->call;
    if (!find_and_run(l, op)) return;
    if (start) hand_call_write(k, result, start, CELLS * sizeof *start);
    if (!desk_ok(&l->d, synchronize_stream(&l->d), "stream.synchronize") || !desk_hold(&l->d)) return;
    int32_t status = hand_call_run(k);
    overwrite(k);
    strcpy(text, other_text);
    gate_open(&l->d.g);
    if (!desk_ok(&l->d, status, op) || !hand_call_read(k, result, got, sizeof got)) return;
    for (int i = 0; i < CELLS; i++)
        if (!check_that(l->d.out, fabsf(got[i] - want[i]) <= 2e-5f * fabsf(want[i]),
                        "%s: element %d is %.7g, expected %.7g; the call, its text and its shapes were "
                        "overwritten after the kernel had returned and before its work began",
                        op, i, (double)got[i], (double)want[i]))
            return;
}

static void borrow_scatter(late *l)
{
    static const float source[CELLS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    static const float start[CELLS] = {10, 10, 10, 10, 20, 20, 20, 20, 30, 30, 30, 30};
    static const int64_t positions[CELLS] = {0, 0, 1, 3, 0, 0, 1, 3, 0, 0, 1, 3};
    static const float want[CELLS] = {13, 13, 10, 14, 31, 27, 20, 28, 49, 41, 30, 42}; /* sums */
    char text[8] = "sum";
    hand_call *k = &l->call;
    hand_tensor *self = hand_call_tensor(k, TN_FLOAT32, 2, shape, start),
                *index = self ? hand_call_tensor(k, TN_INT64, 2, shape, positions) : NULL,
                *from = index ? hand_call_tensor(k, TN_FLOAT32, 2, shape, source) : NULL;
    if (!from) return;
    hand_call_give(k, hand_call_value(self));
    hand_call_give(k, tn_value_int(1));
    hand_call_give(k, hand_call_value(index));
    hand_call_give(k, hand_call_value(from));
    hand_call_give(k, tn_value_string(text));
    hand_call_give(k, tn_value_bool(1));
    k->outs[0] = hand_call_value(self);
    borrow(l, "aten::scatter_reduce_.two", self, start, text, "prod", want);
}

/* Pointwise: the operands of the loop nest are borrowed, too. */
static void borrow_pointwise(late *l, const char *op, const float *a, const float *b, char *text,
                             const char *other_text, const float *want)
{
    hand_call *k = &l->call;
    hand_tensor *result = hand_call_tensor(k, TN_FLOAT32, 2, shape, NULL);
    for (int i = 0; i < 2 && result && (i ? b : a); i++) {
        hand_tensor *x = hand_call_tensor(k, TN_FLOAT32, 2, shape, i ? b : a);
        if (!x) return;
        hand_call_give(k, hand_call_value(x));
    }
    if (!result) return;
    hand_call_give(k, tn_value_string(text));
    k->outs[0] = hand_call_value(result);
    hand_call_nest(k);
    borrow(l, op, result, NULL, text, other_text, want);
}

static void borrow_div(late *l)
{
    static const float a[CELLS] = {7, -7, 5, -5, 9, -9, 1, -1, 8, -8, 11, -11},
                       b[CELLS] = {2, 2, 2, 2, 4, 4, 4, 4, 3, 3, 4, 4};
    static const float want[CELLS] = {3, -3, 2, -2, 2, -2, 0, 0, 2, -2, 2, -2}; /* rounded towards zero */
    char text[8] = "trunc";
    borrow_pointwise(l, "aten::div.Tensor_mode", a, b, text, "floor", want);
}

static void borrow_gelu(late *l)
{
    static const float a[CELLS] = {1, 1.5f, 2, 2.5f, 1, 1.5f, 2, 2.5f, 1, 1.5f, 2, 2.5f};
    static float want[CELLS]; /* the form by tanh differs in the fourth digit */
    char text[8] = "none";
    for (int i = 0; i < CELLS; i++) want[i] = (float)((double)a[i] * 0.5 * erfc((double)-a[i] / sqrt(2)));
    borrow_pointwise(l, "aten::gelu", a, NULL, text, "tanh", want);
}

/* ---- Results of a size that depends on data -------------------------------------------------------------- */

/* The elements arrive behind the gate, which is opened while the kernel counts them. */
static void count(late *l)
{
    static const float values[CELLS] = {0, 1, 0, 0, 0, 0, 2, 0, 3, 0, 0, 0};
    static const int64_t want[] = {0, 1, 1, 2, 2, 0}, none[] = {0, 2};
    int64_t got[6] = {0};
    pthread_t thread;
    hand_call *k = &l->call;
    hand_tensor *self = hand_call_tensor(k, TN_FLOAT32, 2, shape, zeros),
                *later = self ? hand_call_tensor(k, TN_FLOAT32, 2, shape, values) : NULL,
                *result = later ? hand_call_tensor(k, TN_INT64, 2, none, NULL) : NULL;
    if (!result) return;
    hand_call_give(k, hand_call_value(self));
    k->outs[0] = hand_call_value(result);
    if (!find_and_run(l, "aten::nonzero") || !desk_hold(&l->d)) return;
    hand_call_move(k, self, later);
    if (!desk_open_later(&l->d, &thread)) return;
    int32_t status = hand_call_run(k);
    pthread_join(thread, NULL);
    if (!desk_ok(&l->d, status, "nonzero")) return;
    if (check_that(
            l->d.out, result->desc.rank == 2 && result->sizes[0] == 3 && result->sizes[1] == 2,
            "nonzero of a tensor whose contents were still being copied: %lld rows, expected 3; it must "
            "wait for its stream before it counts",
            result->desc.rank == 2 ? (long long)result->sizes[0] : -1LL) &&
        hand_call_read(k, result, got, sizeof got))
        check_that(l->d.out, !memcmp(got, want, sizeof got), "nonzero: positions of other elements");
}

/* A kernel that waits for its stream returns the error of other work itself, or leaves it to whoever asks. */
static void count_behind(late *l)
{
    static const int64_t none[] = {0, 2};
    hand_call *k = &l->call;
    hand_tensor *result;
    if (!queue_failure(l)) return;
    result = hand_call_tensor(k, TN_INT64, 2, none, NULL);
    gate_open(&l->d.g);
    k->call.n_args = 0;
    if (!result) return;
    hand_call_give(k, hand_call_value(&k->tensors[0]));
    k->outs[0] = hand_call_value(result);
    if (!hand_call_find(k, "aten::nonzero", TN_FLOAT32)) return;
    mini_host_error[0] = 0;
    returns_or_leaves(&l->d, hand_call_run(k), "nonzero");
}

/* ---- The list ------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    void (*run)(late *l);
} cases[] = {
    {"error/stream.synchronize", report_by_stream},
    {"error/stream.query", report_by_query},
    {"error/device.synchronize", report_by_device},
    {"error/device.synchronize-of-other-stream", report_of_other},
    {"error/copy.device_to_host", keep_by_download},
    {"error/copy.host_to_device", keep_by_upload},
    {"error/memory.free", keep_by_free},
    {"error/event.query", keep_by_event_query},
    {"error/event.synchronize", keep_by_event_wait},
    {"error/nonzero", count_behind},
    {"borrowed/scatter_reduce_", borrow_scatter},
    {"borrowed/div", borrow_div},
    {"borrowed/gelu", borrow_gelu},
    {"waits/nonzero", count},
};

static void run(check_target *t, const check_case *c, check_result *out)
{
    late l = {.call = {.h = &l.d.h, .out = out}};
    if (desk_open(&l.d, t, 1, out)) cases[c->number].run(&l);
    gate_open(&l.d.g);
    if (l.d.stream) synchronize_stream(&l.d);
    hand_call_finish(&l.call);
    desk_close(&l.d);
}

void check_late_cases(check_target *t, check_list *list)
{
    if (!check_has_dtype(t, TN_FLOAT32) || !check_has_dtype(t, TN_INT64)) return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_add(list,
                  &(check_case){.tier = 1,
                                .tags = CHECK_TAG_OPTIONAL | CHECK_TAG_ALONE, /* it may write anywhere */
                                .run = run,
                                .number = (int64_t)i},
                  "1/late/%s", cases[i].name);
}
