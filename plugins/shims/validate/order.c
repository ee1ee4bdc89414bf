/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The race detector. Each stream has a clock: of every stream the number of its tasks that surely lie before
 * the next task here. Recording an event copies the clock of the stream, waiting for it takes the greater of
 * both, and what the host has seen finish lies before all that it queues afterwards (L. Lamport, "Time,
 * clocks, and the ordering of events in a distributed system", 1978; C. Fidge, "Timestamps in message-passing
 * systems that preserve the partial ordering", 1988). An access is compared with the earlier ones to the same
 * bytes.
 *
 * The host counts as one: two threads of a program that share a tensor without a lock are not found. No order
 * is assumed that is not there, so what is found is wrong on some run; accesses with gaps between their
 * elements are compared only where they surely meet.
 */
#include "validate.h"

static void join(validate_clock *a, const validate_clock *b)
{
    for (uint32_t i = 0; i < VALIDATE_CLOCKS; i++) a->at[i] = a->at[i] > b->at[i] ? a->at[i] : b->at[i];
}

/* ---- Streams and events ------------------------------------------------------------------------------ */

void validate_stream_made(validate_state *v, validate_object *stream)
{
    if (stream->known || stream->device->in_order) return;
    for (uint32_t i = 0; i < VALIDATE_CLOCKS; i++) {
        if (v->clock_used[i]) continue;
        stream->known = malloc(sizeof(*stream->known));
        if (!stream->known) return;
        *stream->known = v->host_known;
        stream->clock = i; /* counts on where an earlier stream ended */
        v->clock_used[i] = 1;
        return;
    }
}

uint64_t validate_last_task(const validate_object *stream)
{
    return stream->known ? stream->known->at[stream->clock] : 0;
}

void validate_stream_ended(validate_state *v, const shim_call *c, validate_object *stream)
{
    if (!stream->known || stream->alive > 1) return;
    if (v->host_known.at[stream->clock] < validate_last_task(stream)) {
        validate_say_on(c, "destroyed-in-use", stream->id, NULL,
                        "the host destroys stream %llu, which it has not seen finish its work",
                        (unsigned long long)stream->id);
        v->host_known.at[stream->clock] = validate_last_task(stream);
    }
    v->clock_used[stream->clock] = 0;
}

uint64_t validate_task(validate_state *v, validate_object *stream)
{
    if (!stream->known || stream->work) return 0; /* captured work is not a task yet */
    join(stream->known, &v->host_known);
    return ++stream->known->at[stream->clock];
}

void validate_recorded(validate_state *v, validate_object *event, validate_object *stream)
{
    event->is_recorded = 1;
    validate_drop_work(event);
    event->work = stream->work;
    if (event->work) event->work->references++;
    if (!stream->known || event->work) return;
    if (!event->known) event->known = malloc(sizeof(*event->known));
    if (!event->known) return;
    join(stream->known, &v->host_known);
    *event->known = *stream->known;
}

void validate_waits(validate_object *stream, const validate_object *event)
{
    if (event->work && !event->work->is_over && !stream->work) { /* it joins the capture */
        stream->work = event->work;
        stream->work->references++;
    }
    if (!event->work && stream->known && event->known) join(stream->known, event->known);
}

void validate_waits_for(validate_object *stream, const validate_clock *known)
{
    if (stream->known && known) join(stream->known, known);
}

void validate_seen_stream(validate_state *v, const validate_object *stream, uint64_t task)
{
    if (!stream->known) return;
    validate_clock seen = *stream->known;
    if (task < seen.at[stream->clock]) seen.at[stream->clock] = task;
    join(&v->host_known, &seen);
}

void validate_seen_event(validate_state *v, const validate_object *event)
{
    if (event->known) join(&v->host_known, event->known);
}

void validate_seen_device(validate_state *v, const validate_object *device)
{
    for (uint32_t i = 0; i < VALIDATE_BUCKETS; i++) {
        for (const validate_object *o = v->buckets[i]; o; o = o->next) {
            if (o->kind == SHIM_STREAM && o->alive && o->device == device)
                validate_seen_stream(v, o, validate_last_task(o));
        }
    }
}

/* ---- Accesses ---------------------------------------------------------------------------------------- */

void validate_drop_accesses(validate_object *o)
{
    while (o->accesses) {
        validate_access *a = o->accesses;
        o->accesses = a->next;
        free(a);
    }
}

/* Whether two accesses certainly share a byte. */
static int32_t meet(const validate_access *a, const validate_access *b)
{
    uint64_t from = a->from > b->from ? a->from : b->from, to = a->to < b->to ? a->to : b->to;
    if (from >= to) return 0;
    if (a->gap && b->gap) return a->from == b->from && a->to == b->to && a->gap == b->gap;
    return to - from >= (a->gap > b->gap ? a->gap : b->gap);
}

static void say_race(const shim_call *c, const validate_access *now, const validate_access *before)
{
    validate_say_on(c, "race", now->stream, &before->place,
                    "%s on stream %llu %s bytes %llu to %llu of an allocation that %s on stream %llu %s, and "
                    "no event or wait "
                    "puts one before the other",
                    now->place.op ? now->place.op : now->place.slot, (unsigned long long)now->stream,
                    now->writes ? "writes" : "reads", (unsigned long long)now->from,
                    (unsigned long long)now->to - 1, before->place.op ? before->place.op : before->place.slot,
                    (unsigned long long)before->stream, before->writes ? "writes" : "reads");
}

/* Stores the access in place of one that it covers, or as a new one. */
static void keep(validate_object *o, const validate_access *now)
{
    for (validate_access *a = o->accesses; a; a = a->next) {
        if (a->clock != now->clock || a->writes != now->writes || a->from != now->from || a->to != now->to ||
            a->gap != now->gap)
            continue;
        a->task = now->task;
        a->place = now->place;
        return;
    }
    validate_access *copy = malloc(sizeof(*copy));
    if (!copy) return;
    *copy = *now;
    copy->next = o->accesses;
    o->accesses = copy;
}

void validate_access_range(validate_state *v, const shim_call *c, validate_object *allocation,
                           validate_object *stream, uint64_t from, uint64_t to, uint64_t gap, uint32_t writes)
{
    if (!stream->known || from >= to) return;
    const validate_access now = {.from = from,
                                 .to = to,
                                 .gap = gap,
                                 .task = validate_last_task(stream),
                                 .stream = stream->id,
                                 .clock = stream->clock,
                                 .writes = writes,
                                 .place = validate_here(c)};
    int32_t said = 0;
    if (stream->work) {
        validate_capture(c, allocation, stream, &now);
        return;
    }
    for (validate_access **at = &allocation->accesses; *at;) {
        validate_access *a = *at;
        int32_t ordered = a->task <= stream->known->at[a->clock];
        if (!ordered && !said && (a->writes || writes) && meet(&now, a)) {
            said = 1;
            say_race(c, &now, a);
        }
        /* The host has seen it finish: nothing that comes can run beside it. Nor is a dense write of what
         * was ordered before it of use any longer. */
        if (a->task <= v->host_known.at[a->clock] ||
            (ordered && writes && !gap && from <= a->from && a->to <= to)) {
            *at = a->next;
            free(a);
        } else {
            at = &a->next;
        }
    }
    keep(allocation, &now);
}

void validate_unused(validate_state *v, const shim_call *c, validate_object *allocation)
{
    for (const validate_access *a = allocation->accesses; a; a = a->next) {
        if (a->task <= v->host_known.at[a->clock]) continue;
        validate_say_on(c, "freed-in-use", a->stream, &a->place,
                        "memory is given back that %s on stream %llu %s; the host has not seen that finish",
                        a->place.op ? a->place.op : a->place.slot, (unsigned long long)a->stream,
                        a->writes ? "writes" : "reads");
        return;
    }
}
