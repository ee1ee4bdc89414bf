/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device work in a profile. Each piece of work stands between two events with timing. The time of an event is
 * known relative to the first event of its device, and that one's time on the host's clock when the profile ends:
 * the device has then been waited for, so that its last event and the host's clock are read at the same moment.
 */
#include "core/graph.h"
#include "core/profile.h"

#define MOST_ENTRIES 16u  /* calls around a piece of work that its time is counted for */
#define MOST_PENDING 256u /* pieces of work that are not asked for yet */

/* Work that was queued. */
typedef struct pending {
    struct pending *next;
    tn_event *start, *end;
    tni_profile_span span;
    uint32_t count;
    tni_profile_entry *entries[MOST_ENTRIES];
} pending;

struct tni_profile_device {
    struct tni_profile_device *next;
    tni_device *device;
    tn_event *base; /* the first event */
    int64_t begin;  /* when it was recorded: before it happened */
    pending *first, **last;
    uint32_t count;
    tni_vector spare; /* tn_event *: events to be used again */
};

/* ---- Events -------------------------------------------------------------------------------------------- */

static tn_event *take_event(tni_profile_device *d)
{
    tn_event *e = NULL;
    if (d->spare.count) return ((tn_event **)d->spare.data)[--d->spare.count];
    return tni_event_create(d->device, TN_EVENT_TIMING, &e) ? NULL : e;
}

static void give_event(tni_profile_device *d, tn_event *e)
{
    tn_event **place = e ? tni_vector_push(d->device->ctx, &d->spare, sizeof *place) : NULL;
    if (place)
        *place = e;
    else
        tn_event_release(e);
}

/* An event at the end of the stream, or NULL. */
static tn_event *record(tni_profile_device *d, tn_stream *stream)
{
    tn_event *e = take_event(d);
    if (!e || !tn_event_record(e, stream)) return e;
    give_event(d, e);
    return NULL;
}

static int32_t can_measure(const tni_device *device)
{
    const tn_event_interface *events = &device->type->driver.event;
    return events->size && events->create && events->elapsed;
}

/* What is known of a device, made if it is new; NULL without memory. */
static tni_profile_device *find(tni_profiler *p, tni_device *device, tn_stream *stream)
{
    tni_profile_device *d = p->devices;
    while (d && d->device != device) d = d->next;
    if (d || !(d = tni_alloc_zeroed(p->ctx, sizeof *d))) return d;
    d->device = device;
    d->last = &d->first;
    if (p->ctx->profile_path) tni_profile_close_at_exit(); /* before the driver ends */
    d->begin = tni_profile_now();
    d->base = record(d, stream);
    d->next = p->devices;
    p->devices = d;
    return d;
}

/* ---- Work that has finished ---------------------------------------------------------------------------- */

static int32_t measure(const tni_profile_device *d, pending *w)
{
    double start, end;
    if (!d->base || tn_event_elapsed(d->base, w->start, &start) || tn_event_elapsed(w->start, w->end, &end))
        return 0;
    w->span.start = (int64_t)(start * 1e6);
    w->span.end = w->span.start + (int64_t)(end * 1e6);
    return 1;
}

static void count(tni_profiler *p, const pending *w)
{
    uint64_t took = (uint64_t)(w->span.end - w->span.start);
    for (uint32_t i = 0; i < w->count; i++) {
        w->entries[i]->row.device_total += took;
        if (!i) w->entries[i]->row.device_self += took;
    }
    tni_profile_span *span =
        p->spans.count < p->max_events ? tni_vector_push(p->ctx, &p->spans, sizeof *span) : NULL;
    if (span)
        *span = w->span;
    else
        p->dropped++;
}

/* Takes the work that is done off the list; all of it once the device was waited for. */
static void drain(tni_profiler *p, tni_profile_device *d, int32_t waited)
{
    pending *w;
    while ((w = d->first) && (waited || tn_event_query(w->end) != 0)) {
        d->first = w->next;
        if (!d->first) d->last = &d->first;
        d->count--;
        if (measure(d, w))
            count(p, w);
        else
            p->unmeasured++;
        give_event(d, w->start);
        give_event(d, w->end);
        tni_free(p->ctx, w, sizeof *w);
    }
}

/* ---- Queueing ------------------------------------------------------------------------------------------ */

int32_t tni_profile_work_begin(tni_device *device, tn_stream *stream, tni_profile_work *work)
{
    tni_profiler *p = atomic_load_explicit(&device->ctx->profiler, memory_order_acquire);
    if (!p || device->synchronous || tni_stream_captures(stream)) return 0;
    *work = (tni_profile_work){.queued = tni_profile_now()};
    pthread_mutex_lock(&p->work_lock);
    if (!atomic_load(&p->generation)) {
        pthread_mutex_unlock(&p->work_lock);
        return 0;
    }
    tni_profile_device *d = can_measure(device) ? find(p, device, stream) : NULL;
    work->start = d ? record(d, stream) : NULL;
    if (!work->start) p->unmeasured++;
    pthread_mutex_unlock(&p->work_lock);
    return work->start != NULL;
}

/* With the lock held. */
static void queue(tni_profiler *p, tni_profile_device *d, tn_stream *stream, const char *name,
                  const tni_profile_work *work)
{
    tn_event *end = record(d, stream);
    pending *w = end ? tni_alloc_zeroed(p->ctx, sizeof *w) : NULL;
    if (w) w->count = tni_profile_open_entries(p, name, w->entries, MOST_ENTRIES, &w->span.thread);
    if (!w || !w->count) {
        p->unmeasured++;
        give_event(d, work->start);
        give_event(d, end);
        tni_free(p->ctx, w, sizeof *w);
        return;
    }
    w->start = work->start;
    w->end = end;
    w->span.queued = work->queued;
    w->span.stream = tn_stream_id(stream);
    w->span.device = d->device->id;
    w->span.name = name;
    *d->last = w;
    d->last = &w->next;
    if (++d->count > MOST_PENDING) drain(p, d, 0);
}

void tni_profile_work_end(tni_device *device, tn_stream *stream, const char *name, tni_profile_work *work)
{
    tni_profiler *p = atomic_load_explicit(&device->ctx->profiler, memory_order_acquire);
    pthread_mutex_lock(&p->work_lock);
    tni_profile_device *d = p->devices;
    while (d && d->device != device) d = d->next;
    if (d && atomic_load(&p->generation))
        queue(p, d, stream, name, work);
    else
        tn_event_release(work->start); /* the profile has ended meanwhile */
    pthread_mutex_unlock(&p->work_lock);
}

/* ---- The end ------------------------------------------------------------------------------------------- */

/* What to add to times of the device's first event to have the host's. The device has finished its work. */
static int64_t offset_of(tni_profile_device *d)
{
    double elapsed;
    tn_event *last =
        tni_stream_captures(d->device->default_stream) ? NULL : record(d, d->device->default_stream);
    int64_t offset = d->begin;
    if (last && d->base && !tn_event_synchronize(last)) {
        int64_t now = tni_profile_now();
        if (!tn_event_elapsed(d->base, last, &elapsed)) offset = now - (int64_t)(elapsed * 1e6);
    }
    give_event(d, last);
    return offset;
}

/* The device's spans get the host's time. Work begins after it was queued, whatever the two clocks say. */
static void shift(tni_profiler *p, const tni_profile_device *d, int64_t offset)
{
    tni_profile_span *spans = p->spans.data;
    int64_t late = 0;
    for (uint32_t i = 0; i < p->spans.count; i++) {
        if (spans[i].device == d->device->id && spans[i].queued - (spans[i].start + offset) > late)
            late = spans[i].queued - (spans[i].start + offset);
    }
    for (uint32_t i = 0; i < p->spans.count; i++) {
        if (spans[i].device != d->device->id) continue;
        spans[i].start += offset + late;
        spans[i].end += offset + late;
    }
}

static void finish_device(tni_profile_device *d)
{
    tn_context *ctx = d->device->ctx;
    tn_event_release(d->base);
    for (uint32_t i = 0; i < d->spare.count; i++) tn_event_release(((tn_event **)d->spare.data)[i]);
    tni_vector_finish(ctx, &d->spare, sizeof(tn_event *));
    tni_free(ctx, d, sizeof *d);
}

void tni_profile_work_collect(tni_profiler *p, tn_profile *to)
{
    pthread_mutex_lock(&p->work_lock);
    while (p->devices) {
        tni_profile_device *d = p->devices;
        tni_late_keep(d->device, tni_device_wait(d->device), "waiting for a device whose profile ends");
        drain(p, d, 1);
        shift(p, d, offset_of(d));
        p->devices = d->next;
        finish_device(d);
    }
    to->spans = p->spans;
    to->dropped = p->dropped;
    to->unmeasured = p->unmeasured;
    p->spans = (tni_vector){0};
    p->dropped = p->unmeasured = 0;
    pthread_mutex_unlock(&p->work_lock);
}
