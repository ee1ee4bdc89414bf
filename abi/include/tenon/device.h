/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices as a program sees them: which there are, which is best and why, streams, events, memory. The same
 * calls answer for every device, the CPU included.
 */
#ifndef TENON_DEVICE_H
#define TENON_DEVICE_H

#include <tenon/tensor.h>

TN_BEGIN_DECLS

/* Classes of devices. */
#define TN_DEVICE_HOST        0u
#define TN_DEVICE_INTEGRATED  1u
#define TN_DEVICE_DISCRETE    2u
#define TN_DEVICE_ACCELERATOR 3u
#define TN_DEVICE_VIRTUAL     4u /* for tests; never chosen by itself */

#define TN_MEMORY_DEVICE  1u /* only the device reads it */
#define TN_MEMORY_HOST    2u /* the host reads it, the device too */
#define TN_MEMORY_UNIFIED 4u

/* Flags of events. */
#define TN_EVENT_TIMING 1u

/* What a device says of itself. Unknown numbers are 0. */
typedef struct tn_device_facts {
    uint32_t size;
    uint32_t device_class; /* TN_DEVICE_... */
    uint32_t memory_kinds; /* TN_MEMORY_... */
    uint32_t compute_units;
    uint64_t total_memory; /* bytes */
    uint64_t bandwidth;    /* bytes a second */
    uint64_t flops_f32;    /* a second */
    int32_t priority_low;  /* of streams; lower numbers are more urgent */
    int32_t priority_high;
    uint32_t power_class;   /* 0 unknown, 1 low ... 4 high */
    uint32_t alignment;     /* bytes that allocations are aligned to */
    const tn_dtype *dtypes; /* zero-terminated, static: those it computes in */
    char name[64];
    char architecture[32];
} tn_device_facts;

#ifndef TN_PLUGIN
/* Number of devices of a type ("cpu", "cuda"), or of all when type is NULL. */
TN_API int32_t tn_device_count(tn_context *ctx, TN_NULLABLE const char *type) TN_ANY_THREAD;
/* The i-th device of all, in rank order; 0 when there are not so many. */
TN_API tn_device tn_device_at(tn_context *ctx, int32_t i) TN_ANY_THREAD;
TN_API int32_t tn_device_get_facts(tn_context *ctx, tn_device device,
                                   TN_OUT tn_device_facts *out) TN_ANY_THREAD;
/*
 * The device to use: the one that `wish` names ("cuda:1", "cpu", ...), or the best by class and facts when
 * wish is NULL or "best" and TENON_DEVICE is not set. `reason` (may be NULL) receives a text that lives as
 * long as the context.
 */
TN_API tn_device tn_device_choose(tn_context *ctx, TN_NULLABLE const char *wish,
                                  TN_OUT TN_NULLABLE const char **reason) TN_ANY_THREAD;
/* Waits for all streams of the device. Late errors are reported here. */
TN_API int32_t tn_device_synchronize(tn_context *ctx, tn_device device) TN_ANY_THREAD;
TN_API int32_t tn_device_memory(tn_context *ctx, tn_device device, TN_OUT uint64_t *out_free,
                                TN_OUT uint64_t *out_total) TN_ANY_THREAD;
/* Current index of a device type on this thread. */
TN_API int32_t tn_device_current(tn_context *ctx, const char *type);
TN_API int32_t tn_device_set_current(tn_context *ctx, tn_device device);

/* Streams: first-in-first-out queues of work. Every device has a default one (the current one at first). */
TN_API int32_t tn_stream_create(tn_context *ctx, tn_device device, int32_t priority,
                                TN_OUT TN_GIVES tn_stream **out) TN_ANY_THREAD;
TN_API void tn_stream_release(TN_TAKES TN_NULLABLE tn_stream *stream) TN_ANY_THREAD;
/* Borrowed; of this thread. */
TN_API tn_stream *tn_stream_current(tn_context *ctx, tn_device device);
TN_API tn_stream *tn_stream_default(tn_context *ctx, tn_device device);
/* Makes it current on this thread; NULL with a device resets to the default. */
TN_API int32_t tn_stream_set_current(tn_context *ctx, tn_stream *stream);
TN_API int32_t tn_stream_synchronize(tn_stream *stream) TN_ANY_THREAD;
/* 1: all work has finished, 0: not yet, negative status: error. */
TN_API int32_t tn_stream_query(tn_stream *stream) TN_ANY_THREAD;
TN_API int32_t tn_stream_wait_event(tn_stream *stream, tn_event *event) TN_ANY_THREAD;
/* `stream` waits for all that is now in `other`. */
TN_API int32_t tn_stream_wait_stream(tn_stream *stream, tn_stream *other) TN_ANY_THREAD;
TN_API tn_device tn_stream_device(const tn_stream *stream) TN_ANY_THREAD;
TN_API uint64_t tn_stream_id(const tn_stream *stream) TN_ANY_THREAD;
TN_API void *tn_stream_native(tn_stream *stream) TN_ANY_THREAD;
/* The tensor is used on that stream, too: its memory is not given to others before the stream has passed. */
TN_API int32_t tn_record_stream(tn_tensor *t, tn_stream *stream) TN_ANY_THREAD;

TN_API int32_t tn_event_create(tn_context *ctx, tn_device device, uint32_t flags,
                               TN_OUT TN_GIVES tn_event **out) TN_ANY_THREAD;
TN_API void tn_event_release(TN_TAKES TN_NULLABLE tn_event *event) TN_ANY_THREAD;
TN_API int32_t tn_event_record(tn_event *event, tn_stream *stream) TN_ANY_THREAD;
TN_API int32_t tn_event_query(tn_event *event) TN_ANY_THREAD;
TN_API int32_t tn_event_synchronize(tn_event *event) TN_ANY_THREAD;
/* Milliseconds between two recorded events with timing. */
TN_API int32_t tn_event_elapsed(tn_event *start, tn_event *end, TN_OUT double *out_ms) TN_ANY_THREAD;

/* The caching allocator of a device. */
typedef struct tn_memory_stats {
    uint32_t size;
    uint32_t reserved;
    uint64_t allocated_bytes; /* in tensors now */
    uint64_t allocated_peak;
    uint64_t reserved_bytes; /* taken from the device now */
    uint64_t reserved_peak;
    uint64_t active_blocks;
    uint64_t segments;
    uint64_t allocations; /* since the beginning */
    uint64_t device_allocations;
    uint64_t retries; /* out of memory, then found after the caches were freed */
    uint64_t out_of_memory;
} tn_memory_stats;
TN_API int32_t tn_memory_get_stats(tn_context *ctx, tn_device device,
                                   TN_OUT tn_memory_stats *out) TN_ANY_THREAD;
TN_API int32_t tn_memory_reset_peak(tn_context *ctx, tn_device device) TN_ANY_THREAD;
/* Gives cached blocks that nobody uses back to the device. */
TN_API int32_t tn_memory_empty_cache(tn_context *ctx, tn_device device) TN_ANY_THREAD;
/* Most bytes the allocator may reserve, 0: no limit. */
TN_API int32_t tn_memory_set_limit(tn_context *ctx, tn_device device, uint64_t bytes) TN_ANY_THREAD;
#endif

TN_END_DECLS
#endif
