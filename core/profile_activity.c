/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the vendor's profiler recorded of a device's work, where its plugin offers that (tenon/activity.h). Each piece of work has
 * a number, under which the vendor records the kernels and copies that it queued. When the profile ends, the time of such work
 * is the time in which at least one of them ran, in place of the time between its two events.
 */
#include "core/profile.h"

#include <stdlib.h>
#include <string.h>

/* Says what went wrong, which the profile outlives. */
static void warn(tni_device *device, int32_t status, const char *what)
{
    (void)tni_driver_error(device->type, status, what);
    tni_log(device->ctx, TN_LOG_WARN, "profile: %s", tn_last_error()->message);
    tn_clear_error();
}

void tni_profile_record_begin(tni_profile_recording *r, tni_device *device)
{
    const tni_driver *driver = &device->type->driver;
    const tn_x_activity_interface *slots = &driver->activity;
    void *handle = NULL;
    if (!slots->size) return;
    const int32_t status = slots->begin(driver->self, device->handle, &handle);
    if (!status && !handle)
        warn(device, tni_no_handle(device->type, "activity.begin"), "beginning to record kernels");
    if (status && status != TN_E_UNSUPPORTED) warn(device, status, "beginning to record kernels");
    if (status) tn_clear_error();
    r->handle = status ? NULL : handle;
}

uint64_t tni_profile_record_push(tni_profile_recording *r, tni_device *device)
{
    const tni_driver *driver = &device->type->driver;
    if (!r->handle || !tni_vector_push(device->ctx, &r->works, sizeof(tni_profile_pending *))) return 0;
    const uint64_t number = r->works.count;
    ((tni_profile_pending **)r->works.data)[number - 1] = NULL;
    if (!driver->activity.push(driver->self, r->handle, number)) return number;
    r->works.count--;
    return 0;
}

void tni_profile_record_pop(tni_device *device)
{
    const tni_driver *driver = &device->type->driver;
    driver->activity.pop(driver->self, device->handle);
}

/* ---- What was recorded --------------------------------------------------------------------------------- */

typedef struct taking {
    tn_profile *profile;
    const tni_profile_recording *recording;
    tn_device device;
    tni_vector all; /* tni_profile_activity */
    uint64_t lost;
} taking;

static const tni_profile_pending *work_of(const tni_profile_recording *r, uint64_t number)
{
    return number && number <= r->works.count ? ((tni_profile_pending **)r->works.data)[number - 1] : NULL;
}

/* One more in the row of its name. */
static void take(void *user, const tn_x_activity *a)
{
    taking *t = user;
    tn_context *ctx = t->profile->ctx;
    const tni_profile_site site = {.kind = TN_PROFILE_KERNEL, .name = a->name};
    tni_profile_entry *entry = tni_profile_entry_find(ctx, &t->profile->table, &site);
    tni_profile_activity *place = entry ? tni_vector_push(ctx, &t->all, sizeof *place) : NULL;
    if (!place) {
        t->lost++;
        return;
    }
    const tni_profile_pending *w = work_of(t->recording, a->work);
    entry->row.calls++;
    entry->row.device_total += (uint64_t)(a->end - a->start);
    entry->row.device_self += (uint64_t)(a->end - a->start);
    *place = (tni_profile_activity){.start = a->start,
                                    .end = a->end,
                                    .number = w ? a->work : 0,
                                    .stream = w ? w->span.stream : TNI_PROFILE_OTHERS | a->stream,
                                    .device = t->device,
                                    .work = w ? w->span.name : NULL,
                                    .entry = entry};
}

static int compare(const void *x, const void *y)
{
    const tni_profile_activity *a = x, *b = y;
    if (a->number != b->number) return a->number < b->number ? -1 : 1;
    return a->start < b->start ? -1 : a->start > b->start;
}

/* The work of a run of activities, which are in the order in which they began. Kernels of one work may overlap. */
static void give_time(tni_profile_pending *w, const tni_profile_activity *a, uint32_t count)
{
    w->span.start = w->span.end = a[0].start;
    w->span.busy = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (a[i].end <= w->span.end) continue;
        w->span.busy += a[i].end - (a[i].start > w->span.end ? a[i].start : w->span.end);
        w->span.end = a[i].end;
    }
    w->span.is_recorded = 1;
    w->is_measured = 1;
}

static void give_times(const tni_profile_recording *r, const tni_vector *all)
{
    const tni_profile_activity *a = all->data;
    for (uint32_t i = 0, n; i < all->count; i += n) {
        for (n = 1; i + n < all->count && a[i + n].number == a[i].number;) n++;
        if (a[i].number) give_time(((tni_profile_pending **)r->works.data)[a[i].number - 1], a + i, n);
    }
}

/* The first of them, as many as have room. */
static void keep(tn_profile *to, const tni_vector *all, uint64_t max_events)
{
    for (uint32_t i = 0; i < all->count; i++) {
        tni_profile_activity *place = to->activities.count < max_events
                                          ? tni_vector_push(to->ctx, &to->activities, sizeof *place)
                                          : NULL;
        if (place)
            *place = ((const tni_profile_activity *)all->data)[i];
        else
            to->dropped++;
    }
}

void tni_profile_record_end(tni_profile_recording *r, tni_device *device, uint64_t max_events, tn_profile *to)
{
    const tni_driver *driver = &device->type->driver;
    taking t = {.profile = to, .recording = r, .device = device->id};
    uint64_t lost = 0;
    if (!r->handle) return;
    const int32_t status = driver->activity.end(driver->self, r->handle, take, &t, &lost);
    if (status) warn(device, status, "reading the records of kernels");
    if (t.all.count) qsort(t.all.data, t.all.count, sizeof(tni_profile_activity), compare);
    give_times(r, &t.all);
    keep(to, &t.all, max_events);
    to->lost += lost + t.lost;
    tni_vector_finish(to->ctx, &t.all, sizeof(tni_profile_activity));
    r->handle = NULL;
}
