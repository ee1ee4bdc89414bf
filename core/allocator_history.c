/* SPDX-License-Identifier: Apache-2.0 */
/* The events that snapshots show: see allocator_history.h. */
#include "core/allocator_history.h"

#include <execinfo.h>
#include <string.h>
#include <time.h>
#include "core/current.h"

#define OWN_FRAMES 1 /* that of tni_history_note */

uint64_t tni_place_of(const tni_block *b)
{
    if (b->host) return (uint64_t)(uintptr_t)b->host;
    return b->part_of ? b->part_of->place + (b->offset - b->part_of->first->offset)
                      : (uint64_t)(uintptr_t)b->allocation;
}

/* A block that is free at once has two events with the same callers. */
static int32_t copy_frames(const struct tni_history *h, tni_history_event *e)
{
    if (e->action != TNI_HISTORY_FREE_COMPLETED || h->count < 2 || h->capacity < 2) return 0;
    const tni_history_event *last = &h->events[(h->count - 2) % h->capacity];
    if (last->action != TNI_HISTORY_FREE_REQUESTED || last->place != e->place) return 0;
    e->frame_count = last->frame_count;
    memcpy(e->frames, last->frames, last->frame_count * sizeof *last->frames);
    return 1;
}

void tni_history_note(struct tni_allocator *a, uint32_t action, uint64_t place, uint64_t bytes,
                      const tn_stream *stream)
{
    struct tni_history *h = a->history;
    tni_history_event *e = &h->events[h->count++ % h->capacity];
    void *frames[TNI_FRAMES + OWN_FRAMES];
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    *e = (tni_history_event){.action = action,
                             .place = place,
                             .bytes = bytes,
                             .stream = stream ? tn_stream_id(stream) : 0,
                             .time_us = (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000,
                             .operator_name = tni_current_operator()};
    if (copy_frames(h, e)) return;
    int n = h->depth ? backtrace(frames, (int)h->depth + OWN_FRAMES) - OWN_FRAMES : 0;
    e->frame_count = n > 0 ? (uint32_t)n : 0;
    for (uint32_t i = 0; i < e->frame_count; i++) e->frames[i] = frames[i + OWN_FRAMES];
}

const tni_history_event *tni_history_origin(const struct tni_allocator *a, uint64_t place, uint32_t action)
{
    const struct tni_history *h = a->history;
    uint64_t kept = !h ? 0 : h->count < h->capacity ? h->count : h->capacity;
    for (uint64_t i = 1; i <= kept; i++) {
        const tni_history_event *e = &h->events[(h->count - i) % h->capacity];
        if (e->place == place && e->action == action) return e;
    }
    return NULL;
}

static uint64_t bytes_of(uint32_t capacity)
{
    return sizeof(struct tni_history) + capacity * sizeof(tni_history_event);
}

/* Calls tell which operator runs while any device records. */
static void set_history(struct tni_allocator *a, struct tni_history *history)
{
    tn_context *ctx = a->device->ctx;
    tni_allocator_enter(a);
    struct tni_history *before = a->history;
    a->history = history;
    tni_allocator_leave(a);
    if (ctx->tell_operators && !before != !history) ctx->tell_operators(ctx, history != NULL);
    if (before) tni_free(ctx, before, bytes_of(before->capacity));
}

void tni_history_destroy(struct tni_allocator *a)
{
    if (a->history) tni_free(a->device->ctx, a->history, bytes_of(a->history->capacity));
    a->history = NULL;
}

int32_t tn_memory_record_history(tn_context *ctx, tn_device device, uint32_t entries, uint32_t frames)
{
    tni_device *d = tni_device_get(ctx, device);
    if (!d) return tn_last_error()->code;
    if (frames > TNI_FRAMES)
        return tni_error(TN_E_ARGUMENT,
                         "memory_record_history: argument 'frames': got %u, expected at most %u", frames,
                         TNI_FRAMES);
    struct tni_allocator *a = d->allocator;
    if (!entries) {
        tni_allocator_watch(a, TNI_WATCH_HISTORY, 0);
        set_history(a, NULL);
        return TN_OK;
    }
    struct tni_history *h = tni_alloc_zeroed(ctx, bytes_of(entries));
    if (!h) return TN_E_OUT_OF_MEMORY;
    h->capacity = entries;
    h->depth = frames;
    void *unused[1];
    (void)backtrace(unused, 1); /* its first call loads a library, so not under the lock */
    if (a->shards) tni_cache_flush(a);
    tni_allocator_watch(a, TNI_WATCH_HISTORY, 1);
    set_history(a, h);
    return TN_OK;
}
