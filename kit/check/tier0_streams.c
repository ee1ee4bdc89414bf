/* SPDX-License-Identifier: Apache-2.0 */
/* Tier 0, streams and events: order within a stream, order between two, threads. */
#include "sources.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define BYTES (1 << 16)

/* Fails with the thread's error unless status is 0. */
static int ok(check_result *out, int32_t status, const char *what)
{
    if (status) check_fail_with_error(out, NULL, what);
    return status == 0;
}

static void run_create(check_target *t, const check_case *c, check_result *out)
{
    for (int32_t priority = t->facts.priority_high; priority <= t->facts.priority_low; priority++) {
        tn_stream *streams[4] = {NULL};
        for (int i = 0;
             i < 4 && ok(out, tn_stream_create(t->ctx, t->device, priority, &streams[i]), "create"); i++) {
            ok(out, tn_stream_synchronize(streams[i]), "synchronize of an empty stream");
            int32_t done = tn_stream_query(streams[i]);
            check_that(out, done == 1, "query of an empty stream: %d, expected 1", done);
        }
        for (int i = 0; i < 4; i++) tn_stream_release(streams[i]);
        if (priority - t->facts.priority_high > 8) break;
    }
    ok(out, tn_device_synchronize(t->ctx, t->device), "synchronize of the device");
}

/* The last of 50 queued fills must remain. */
static void run_order(check_target *t, const check_case *c, check_result *out)
{
    tn_scope *s = tn_scope_open(t->ctx);
    static const float zero[BYTES / 4];
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(BYTES / 4), zero, t->device);
    for (int i = 1; i <= 50; i++) tn_fill_scalar_(s, x, i);
    float *got = tn_scope_memory(s, BYTES);
    if (!x || tn_to_host(s, x, got, BYTES)) {
        check_fail_with_error(out, s, "50 fills in a row");
    } else {
        for (int i = 0; i < BYTES / 4; i++) {
            if (!check_that(out, got[i] == 50.0f, "element %d is %g after 50 fills, expected 50", i,
                            (double)got[i]))
                break;
        }
    }
    tn_scope_close(s);
}

typedef struct pair {
    tn_stream *a, *b;
    tn_event *event;
} pair;

static int open_pair(check_target *t, pair *p, check_result *out)
{
    memset(p, 0, sizeof *p);
    return ok(out, tn_stream_create(t->ctx, t->device, t->facts.priority_low, &p->a), "create") &&
           ok(out, tn_stream_create(t->ctx, t->device, t->facts.priority_low, &p->b), "create") &&
           ok(out, tn_event_create(t->ctx, t->device, 0, &p->event), "event create");
}

static void close_pair(check_target *t, pair *p)
{
    tn_stream_set_current(t->ctx, tn_stream_default(t->ctx, t->device));
    tn_stream_release(p->a);
    tn_stream_release(p->b);
    tn_event_release(p->event);
}

/* Stream b waits for what stream a wrote, without the host. */
static void run_two_streams(check_target *t, const check_case *c, check_result *out)
{
    tn_scope *s = tn_scope_open(t->ctx);
    static const float zero[BYTES / 4];
    pair p;
    float *got = tn_scope_memory(s, BYTES);
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(BYTES / 4), zero, t->device);
    ok(out, tn_device_synchronize(t->ctx, t->device), "synchronize");
    if (open_pair(t, &p, out)) {
        for (int round = 1; round <= 20 && out->outcome == CHECK_PASSED; round++) {
            tn_stream_set_current(t->ctx, p.a);
            for (int i = 0; i < 4; i++) tn_fill_scalar_(s, x, i == 3 ? round : -1);
            ok(out, tn_event_record(p.event, p.a), "record");
            ok(out, tn_stream_wait_event(p.b, p.event), "wait_event");
            tn_stream_set_current(t->ctx, p.b);
            tn_tensor *y = tn_clone(s, x);
            ok(out, tn_stream_wait_stream(p.a, p.b), "wait_stream");
            if (!y || tn_to_host(s, y, got, BYTES))
                check_fail_with_error(out, s, "copy on the second stream");
            else
                check_that(out, got[0] == (float)round && got[BYTES / 4 - 1] == (float)round,
                           "round %d: the second stream read %g and %g, expected %d", round, (double)got[0],
                           (double)got[BYTES / 4 - 1], round);
            tn_drop(s, y);
        }
    }
    close_pair(t, &p);
    tn_scope_close(s);
}

static void run_events(check_target *t, const check_case *c, check_result *out)
{
    pair p;
    if (open_pair(t, &p, out)) {
        int32_t done = tn_event_query(p.event);
        check_that(out, done == 1, "query of an event that was never recorded: %d, expected 1", done);
        ok(out, tn_stream_wait_event(p.b, p.event), "waiting for an event that was never recorded");
        ok(out, tn_event_synchronize(p.event), "synchronize of an event that was never recorded");
        ok(out, tn_event_record(p.event, p.a), "record");
        ok(out, tn_event_synchronize(p.event), "synchronize");
        done = tn_event_query(p.event);
        check_that(out, done == 1, "query after synchronize: %d, expected 1", done);
    }
    close_pair(t, &p);
}

static double clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* Records, and waits until the event is done. */
static int record_and_wait(tn_event *event, tn_stream *stream, check_result *out)
{
    return ok(out, tn_event_record(event, stream), "record") &&
           ok(out, tn_event_synchronize(event), "synchronize");
}

/* The first event is done before the pause, the second is recorded after it. Clocks may differ: a wrong unit is off by
 * more than twice. */
static void compare_with_clock(tn_event *start, tn_event *end, tn_stream *stream, check_result *out)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    double ms = -1, before = clock_ms();
    if (!record_and_wait(start, stream, out)) return;
    double least = clock_ms();
    nanosleep(&pause, NULL);
    least = clock_ms() - least;
    if (!record_and_wait(end, stream, out)) return;
    double most = clock_ms() - before;
    if (ok(out, tn_event_elapsed(start, end, &ms), "elapsed"))
        check_that(out, ms >= least / 2 && ms <= most * 2,
                   "%g ms between two events, which the host's clock has %g to %g ms apart", ms, least, most);
}

static void run_timing(check_target *t, const check_case *c, check_result *out)
{
    tn_event *start = NULL, *end = NULL;
    if (tn_event_create(t->ctx, t->device, TN_EVENT_TIMING, &start) ||
        tn_event_create(t->ctx, t->device, TN_EVENT_TIMING, &end))
        check_skip(out, "the plugin has no events with timing");
    else
        compare_with_clock(start, end, tn_stream_current(t->ctx, t->device), out);
    tn_event_release(start);
    tn_event_release(end);
}

/* ---- Threads ------------------------------------------------------------------------------------------- */

typedef struct thread_work {
    check_target *t;
    int number;
    check_result result;
} thread_work;

/* Each thread has its own stream and tensors; only the device is shared. */
static void *copy_in_thread(void *user)
{
    thread_work *w = user;
    check_target *t = w->t;
    tn_stream *stream = NULL;
    if (!ok(&w->result, tn_stream_create(t->ctx, t->device, t->facts.priority_low, &stream), "create"))
        return NULL;
    tn_stream_set_current(t->ctx, stream);
    for (int round = 0; round < 25 && w->result.outcome == CHECK_PASSED; round++) {
        tn_scope *s = tn_scope_open(t->ctx);
        int32_t *data = tn_scope_memory(s, BYTES), *got = tn_scope_memory(s, BYTES);
        for (int i = 0; i < BYTES / 4; i++) data[i] = i * 7 + w->number * 1000003 + round;
        tn_tensor *x = tn_clone(s, tn_from_data(s, TN_INT32, TN_INTS(BYTES / 4), data, t->device));
        if (!x || tn_to_host(s, x, got, BYTES))
            check_fail_with_error(&w->result, s, "copy in a thread");
        else
            check_that(&w->result, memcmp(data, got, BYTES) == 0,
                       "thread %d, round %d: other bytes came back", w->number, round);
        tn_scope_close(s);
    }
    tn_stream_set_current(t->ctx, tn_stream_default(t->ctx, t->device));
    tn_stream_release(stream);
    return NULL;
}

static void run_threads(check_target *t, const check_case *c, check_result *out)
{
    pthread_t threads[4];
    thread_work work[4];
    int started = 0;
    memset(work, 0, sizeof work);
    for (; started < 4; started++) {
        work[started].t = t;
        work[started].number = started;
        if (pthread_create(&threads[started], NULL, copy_in_thread, &work[started])) break;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        if (work[i].result.outcome != CHECK_PASSED) check_fail(out, "%s", work[i].result.reason);
    }
}

void check_tier0_streams(check_target *t, check_list *list)
{
    static const struct {
        const char *name;
        void (*run)(check_target *t, const check_case *c, check_result *out);
    } cases[] = {{"0/stream/create", run_create},    {"0/stream/order", run_order},
                 {"0/stream/wait", run_two_streams}, {"0/event/states", run_events},
                 {"0/event/timing", run_timing},     {"0/stream/threads", run_threads}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_add(list, &(check_case){.run = cases[i].run}, "%s", cases[i].name);
}
