/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device work in a profile. Each piece of work stands between two events with timing. The time of an event is
 * known relative to the first event of its device, and that one's time on the host's clock when the profile ends.
 * The device has then been waited for, so its last event and the host's clock are read at the same moment. Of
 * devices whose vendor records what runs (profile_activity.c), all work is kept until then.
 */
#include "core/graph.h"
#include "core/profile.h"

#include <string.h>

#define MOST_ENTRIES 16u  /* calls around a piece of work that its time is counted for */
#define MOST_PENDING 256u /* pieces of work that are not asked for yet */

typedef tni_profile_pending pending;

struct tni_profile_device {
    struct tni_profile_device *next;
    tni_device *device;
    tn_event *base; /* the first event */
    int64_t begin;  /* when it was recorded: before it happened */
    pending *first, **last;
    uint32_t count;
    tni_vector spare; /* tn_event *: events to be used again */
    tni_profile_recording recording;
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
    tni_profile_record_begin(&d->recording, device);
    return d;
}

/* A profiler of a vendor takes long to start: not in the first operator. */
void tni_profile_work_open(tni_profiler *p)
{
    const tn_context *ctx = p->ctx;
    pthread_mutex_lock(&p->work_lock);
    const uint32_t types = atomic_load(&p->generation) ? atomic_load(&ctx->type_count) : 0;
    for (uint32_t k = 0; k < types; k++)
        for (uint32_t i = 0; i < ctx->types[k]->count; i++) {
            tni_device *d = &ctx->types[k]->devices[i];
            if (d->type->driver.activity.size && atomic_load(&d->open) == TNI_DEVICE_OPEN && can_measure(d) &&
                !tni_stream_captures(d->default_stream))
                (void)find(p, d, d->default_stream);
        }
    pthread_mutex_unlock(&p->work_lock);
}

/* ---- Work that has finished ---------------------------------------------------------------------------- */

static void free_pending(tni_profiler *p, pending *w)
{
    if (w) tni_free(p->ctx, w, sizeof *w + w->count * sizeof *w->entries);
}

static void measure(const tni_profile_device *d, pending *w)
{
    double start, end;
    if (!d->base || tn_event_elapsed(d->base, w->start, &start) || tn_event_elapsed(w->start, w->end, &end))
        return;
    w->span.start = (int64_t)(start * 1e6);
    w->span.busy = (int64_t)(end * 1e6);
    w->span.end = w->span.start + w->span.busy;
    w->is_measured = 1;
}

/* Adds its time to the calls around it, and ends it. */
static void count(tni_profiler *p, pending *w)
{
    uint64_t took = (uint64_t)w->span.busy;
    if (!w->is_measured) {
        p->unmeasured++;
        free_pending(p, w);
        return;
    }
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
    free_pending(p, w);
}

/* Takes the work that is done off the list; all of it once the device was waited for. */
static void drain(tni_profiler *p, tni_profile_device *d, int32_t waited)
{
    pending *w;
    while ((w = d->first) && (waited || tn_event_query(w->end) != 0)) {
        d->first = w->next;
        if (!d->first) d->last = &d->first;
        d->count--;
        measure(d, w);
        give_event(d, w->start);
        give_event(d, w->end);
        if (!w->number) count(p, w);
    }
}

/* What was kept until the vendor's records are there. */
static void count_recorded(tni_profiler *p, tni_profile_device *d)
{
    tni_vector *works = &d->recording.works;
    for (uint32_t i = 0; i < works->count; i++) {
        pending *w = ((pending **)works->data)[i];
        if (w) count(p, w);
    }
    tni_vector_finish(p->ctx, works, sizeof(pending *));
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
    if (!work->start)
        p->unmeasured++;
    else
        work->number = tni_profile_record_push(&d->recording, device);
    work->generation = atomic_load(&p->generation);
    pthread_mutex_unlock(&p->work_lock);
    return work->start != NULL;
}

/* With the lock held. */
static void queue(tni_profiler *p, tni_profile_device *d, tn_stream *stream, const char *name,
                  const tni_profile_work *work)
{
    tni_profile_entry *entries[MOST_ENTRIES];
    uint32_t thread = 0, n = 0;
    tn_event *end = record(d, stream);
    if (end) n = tni_profile_open_entries(p, name, entries, MOST_ENTRIES, &thread);
    pending *w = n ? tni_alloc_zeroed(p->ctx, sizeof *w + n * sizeof *entries) : NULL;
    if (!w) {
        p->unmeasured++;
        give_event(d, work->start);
        give_event(d, end);
        return;
    }
    w->count = n;
    memcpy(w->entries, entries, n * sizeof *entries);
    w->number = work->generation == atomic_load(&p->generation) ? work->number : 0;
    if (w->number) ((pending **)d->recording.works.data)[w->number - 1] = w;
    w->span.thread = thread;
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
    if (work->number) tni_profile_record_pop(device);
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

static int32_t is_by_events(const tni_profile_span *span, const tni_profile_device *d)
{
    return span->device == d->device->id && !span->is_recorded;
}

/* The device's spans by events get the host's time. Work begins after it was queued, whatever the two clocks say. */
static void shift(tni_profiler *p, const tni_profile_device *d, int64_t offset)
{
    tni_profile_span *spans = p->spans.data;
    int64_t late = 0;
    for (uint32_t i = 0; i < p->spans.count; i++) {
        if (is_by_events(&spans[i], d) && spans[i].queued - (spans[i].start + offset) > late)
            late = spans[i].queued - (spans[i].start + offset);
    }
    for (uint32_t i = 0; i < p->spans.count; i++) {
        if (!is_by_events(&spans[i], d)) continue;
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
        tni_profile_record_end(&d->recording, d->device, p->max_events, to);
        count_recorded(p, d);
        shift(p, d, offset_of(d));
        p->devices = d->next;
        finish_device(d);
    }
    to->spans = p->spans;
    to->dropped += p->dropped;
    to->unmeasured = p->unmeasured;
    p->spans = (tni_vector){0};
    p->dropped = p->unmeasured = 0;
    pthread_mutex_unlock(&p->work_lock);
}
