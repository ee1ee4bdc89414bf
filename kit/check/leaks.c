/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaks of host memory: what a slot, a kernel or a graph leaves each time. The heap of the process is measured before
 * and behind rounds of equal calls, each twice as long as the one before. A cache stops growing, also where threads that
 * come by chance have caches of their own; a leak grows in each round.
 */
#include "leaks.h"
#include "hand.h"
#include "small_calls.h"
#include "sources.h"
#include "words.h"

#include <malloc.h>

/* Calls of the first round; DOUBLINGS: of the last one, as a power of two of them. */
enum { CALLS = 128, KERNELS = 24, OPENINGS = 6, DOUBLINGS = 5 };
/* Bytes of a whole plugin that count as a leak: drivers leave some. */
#define DRIVER 1024

/* Bytes of the heap that are in use; -1 where the C library does not say. */
static int64_t heap_bytes(void)
{
#if defined(__GLIBC__) && (__GLIBC__ > 2 || (__GLIBC__ == 2 && __GLIBC_MINOR__ >= 33))
    struct mallinfo2 m = mallinfo2();
    return (int64_t)(m.uordblks + m.hblkhd);
#else
    return -1;
#endif
}

void leaks_measure(check_result *out, leaks_once_fn once, void *data, int calls, int64_t limit,
                   const char *what)
{
    int64_t grown = 0;
    int n = calls;
    if (heap_bytes() < 0) {
        check_skip(out, "the C library does not say how large the heap is");
        return;
    }
    for (int i = 0; i < calls; i++) /* fills caches */
        if (!once(data)) return;
    for (int round = 0; round <= DOUBLINGS; round++) {
        int64_t before = heap_bytes();
        n = calls << round;
        for (int i = 0; i < n; i++)
            if (!once(data)) return;
        grown = heap_bytes() - before;
        if (grown < n * limit) return;
    }
    check_fail(
        out,
        "%s: the heap of the process grew by %lld bytes in %d calls, and as fast in each of %d rounds before",
        what, (long long)grown, n, DOUBLINGS);
}

/* ---- Slots --------------------------------------------------------------------------------------------- */

#define BYTES 256

typedef struct slots {
    hand h;
    check_result *out;
    void *x, *y, *event;
    uint8_t host[BYTES];
} slots;

static int ok(slots *s, int32_t status, const char *what)
{
    return hand_ok(&s->h, s->out, status, what);
}

static int synchronize(slots *s)
{
    return ok(s, s->h.stream->synchronize(s->h.self, s->h.devices[0], s->h.streams[0]), "stream.synchronize");
}

static int use_stream(void *data)
{
    slots *s = data;
    void *stream = NULL;
    if (!ok(s, hand_stream(&s->h, s->h.devices[0], &stream), "stream.create")) return 0;
    s->h.stream->destroy(s->h.self, s->h.devices[0], stream);
    return 1;
}

static int use_event(void *data)
{
    slots *s = data;
    void *device = s->h.devices[0], *event = NULL;
    if (!ok(s, s->h.event->create(s->h.self, device, 0, &event), "event.create")) return 0;
    int good = ok(s, s->h.event->record(s->h.self, device, event, s->h.streams[0]), "event.record") &&
               ok(s, s->h.event->synchronize(s->h.self, device, event), "event.synchronize");
    s->h.event->destroy(s->h.self, device, event);
    return good;
}

static int use_memory(void *data)
{
    slots *s = data;
    void *x = hand_alloc(&s->h, 0, BYTES, NULL, s->out);
    hand_free(&s->h, 0, x, BYTES);
    return x != NULL;
}

static int use_work(void *data)
{
    slots *s = data;
    hand *h = &s->h;
    void *device = h->devices[0], *stream = h->streams[0];
    return ok(s, h->memory->fill(h->self, device, s->x, 0, BYTES, 7, stream), "memory.fill") &&
           ok(s, h->copy->device_to_device(h->self, device, s->y, 0, s->x, 0, BYTES, stream),
              "copy.device_to_device") &&
           ok(s, h->copy->host_to_device(h->self, device, s->x, 0, s->host, NULL, BYTES, stream),
              "copy.host_to_device") &&
           ok(s, h->copy->device_to_host(h->self, device, s->host, NULL, s->y, 0, BYTES, stream),
              "copy.device_to_host") &&
           synchronize(s);
}

/* From init to shutdown, with memory and a stream. */
static int use_plugin(void *data)
{
    slots *s = data;
    hand h;
    int good = hand_open(&h, s->h.target, 1, s->out) && h.count;
    void *x = good ? hand_alloc(&h, 0, BYTES, NULL, s->out) : NULL;
    good =
        x &&
        hand_ok(&h, s->out, h.memory->fill(h.self, h.devices[0], x, 0, BYTES, 7, h.streams[0]),
                "memory.fill") &&
        hand_ok(&h, s->out, h.stream->synchronize(h.self, h.devices[0], h.streams[0]), "stream.synchronize");
    hand_free(&h, 0, x, BYTES);
    hand_close(&h);
    return good;
}

static const struct {
    const char *name;
    leaks_once_fn once;
    int of_events, calls, limit;
} slot_cases[] = {{"stream", use_stream, 0, CALLS, LEAKS_LEAST},
                  {"event", use_event, 1, CALLS, LEAKS_LEAST},
                  {"memory", use_memory, 0, CALLS, LEAKS_LEAST},
                  {"work", use_work, 0, CALLS, LEAKS_LEAST},
                  {"plugin", use_plugin, 0, OPENINGS, DRIVER}};
#define SLOT_CASES (sizeof slot_cases / sizeof *slot_cases)

static void run_slots(check_target *t, const check_case *c, check_result *out)
{
    static slots s; /* cases of a process run one after another */
    s = (slots){.out = out};
    if (hand_open(&s.h, t, 1, out) && s.h.count) {
        s.x = hand_alloc(&s.h, 0, BYTES, NULL, out);
        s.y = s.x ? hand_alloc(&s.h, 0, BYTES, NULL, out) : NULL;
        if (slot_cases[c->number].of_events && !s.h.event)
            check_skip(out, "the plugin has no events");
        else if (s.y)
            leaks_measure(out, slot_cases[c->number].once, &s, slot_cases[c->number].calls,
                          slot_cases[c->number].limit, slot_cases[c->number].name);
    }
    hand_free(&s.h, 0, s.x, BYTES);
    hand_free(&s.h, 0, s.y, BYTES);
    hand_close(&s.h);
}

/* ---- Kernels ------------------------------------------------------------------------------------------- */

typedef struct kernel {
    check_target *t;
    check_result *out;
    call_plan plan;
    words words;
    tn_value args[CALL_MAX_ARGS];
    uint32_t n_outs;
} kernel;

static int use_kernel(void *data)
{
    kernel *k = data;
    tn_value outs[CALL_MAX_OUTS];
    tn_scope *s = tn_scope_open(k->t->ctx);
    int good = !tn_scope_call(s, k->plan.op, k->args, k->plan.n_args, outs, k->n_outs) &&
               !tn_device_synchronize(k->t->ctx, k->t->device);
    if (!good) check_fail_with_error(k->out, s, k->plan.name);
    tn_scope_close(s);
    return good;
}

static void run_kernel(check_target *t, const check_case *c, check_result *out)
{
    const char *op = check_small_calls[c->number].op;
    kernel k = {.t = t, .out = out, .words = {.dtype = TN_FLOAT32}};
    tn_scope *s = tn_scope_open(t->ctx);
    k.plan = (call_plan){.op = tn_operator_find(t->ctx, op), .name = op, .seed = check_seed(t, c)};
    k.n_outs = tn_inspect_argument_count(t->ctx, k.plan.op, 1);
    words_write(&k.words, &k.plan, check_small_calls[c->number].arguments);
    if (call_arguments(s, &k.plan, t->device, k.args))
        check_fail_with_error(out, s, op);
    else
        leaks_measure(out, use_kernel, &k, KERNELS, LEAKS_LEAST, op);
    tn_scope_close(s);
}

/* ---- Graphs -------------------------------------------------------------------------------------------- */

typedef struct graphs {
    check_target *t;
    check_result *out;
    tn_scope *s;
    tn_tensor *x;
    tn_stream *stream;
    tn_graph *graph; /* of run_replays: captured */
} graphs;

/* Doubles x in a graph. 0: it failed, or the plugin has no graphs. */
static int capture(graphs *g, tn_graph **out_graph)
{
    check_target *t = g->t;
    int32_t status = tn_graph_create(t->ctx, t->device, out_graph);
    if (status == TN_E_UNSUPPORTED) check_skip(g->out, "the plugin offers no graphs");
    if (status) return 0;
    tn_scope *s = tn_scope_open(t->ctx); /* one that stays open would grow by each result */
    tn_stream_set_current(t->ctx, g->stream);
    status = tn_graph_capture_begin(*out_graph, g->stream);
    if (!status) tn_mul_scalar_(s, g->x, 2.0);
    if (!status) status = tn_graph_capture_end(*out_graph);
    tn_stream_set_current(t->ctx, tn_stream_default(t->ctx, t->device));
    tn_scope_close(s);
    return !status;
}

static int use_replay(void *data)
{
    graphs *g = data;
    int good = !tn_graph_replay(g->graph) && !tn_device_synchronize(g->t->ctx, g->t->device);
    if (!good) check_fail_with_error(g->out, NULL, "replay");
    return good;
}

static int use_graph(void *data)
{
    graphs *g = data;
    tn_graph *graph = NULL;
    int good =
        capture(g, &graph) && !tn_graph_replay(graph) && !tn_device_synchronize(g->t->ctx, g->t->device);
    if (!good && g->out->outcome == CHECK_PASSED) check_fail_with_error(g->out, NULL, "a graph");
    tn_graph_release(graph);
    return good;
}

static void run_graphs(check_target *t, const check_case *c, check_result *out)
{
    graphs g = {.t = t, .out = out, .s = tn_scope_open(t->ctx)};
    g.x = tn_zeros(g.s, TN_INTS(64), .dtype = TN_FLOAT32, .device = t->device);
    if (!g.x || tn_stream_create(t->ctx, t->device, t->facts.priority_low, &g.stream) ||
        tn_device_synchronize(t->ctx, t->device)) {
        check_fail_with_error(out, g.s, "a stream");
    } else if (c->number) {
        leaks_measure(out, use_graph, &g, KERNELS, LEAKS_LEAST,
                      "a graph that is made, replayed and released");
    } else if (capture(&g, &g.graph)) {
        leaks_measure(out, use_replay, &g, CALLS, LEAKS_LEAST, "replay");
    } else if (out->outcome == CHECK_PASSED) {
        check_fail_with_error(out, NULL, "a graph");
    }
    tn_graph_release(g.graph);
    tn_scope_close(g.s);
    tn_stream_release(g.stream);
}

void check_leak_graphs(check_target *t, check_list *list)
{
    static const char *const names[] = {"replay", "graph"};
    uint32_t op = tn_operator_find(t->ctx, "aten::mul.Tensor");
    if (!check_has_dtype(t, TN_FLOAT32) || !check_has_kernel(t, op, t->type, TN_FLOAT32)) return;
    for (int64_t i = 0; i < 2; i++)
        check_add(list, &(check_case){.tier = 4, .tags = CHECK_TAG_OPTIONAL, .run = run_graphs, .number = i},
                  "4/leaks/%s", names[i]);
}

/* ---- The lists ----------------------------------------------------------------------------------------- */

void check_leak_slots(check_target *t, check_list *list)
{
    for (size_t i = 0; i < SLOT_CASES; i++)
        check_add(list, &(check_case){.run = run_slots, .tags = CHECK_TAG_OPTIONAL, .number = (int64_t)i},
                  "0/leaks/%s", slot_cases[i].name);
}

void check_leak_kernels(check_target *t, check_list *list)
{
    for (size_t i = 0; i < CHECK_SMALL_CALLS; i++) {
        uint32_t op = tn_operator_find(t->ctx, check_small_calls[i].op);
        if (!op || !check_has_kernel(t, op, t->type, TN_FLOAT32)) continue;
        check_add(
            list,
            &(check_case){.tier = 1, .tags = CHECK_TAG_OPTIONAL, .run = run_kernel, .number = (int64_t)i},
            "1/leaks/%s", check_small_calls[i].op);
    }
}
