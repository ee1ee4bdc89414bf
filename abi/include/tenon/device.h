/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices, streams, events and device memory, as a program sees them. The same functions serve every device,
 * the CPU included.
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
#define TN_DEVICE_VIRTUAL     4u /* for tests, and processors under OpenCL or Vulkan; used only when named */

/* Kinds of memory. */
#define TN_MEMORY_DEVICE  1u /* only the device accesses it */
#define TN_MEMORY_HOST    2u /* in host memory; the device accesses it too */
#define TN_MEMORY_UNIFIED 4u /* one memory, which host and device access */

/* Handles of a vendor's own API. */
#define TN_NATIVE_DEVICE     1u
#define TN_NATIVE_CONTEXT    2u
#define TN_NATIVE_STREAM     3u
#define TN_NATIVE_ALLOCATION 4u

/* Flags of events. */
#define TN_EVENT_TIMING       1u
#define TN_EVENT_INTERPROCESS 2u /* other processes may wait for it (tn_event_export) */

/* What a device can do; a bit that is not set is not known or not there. */
#define TN_FEATURE_FLOAT16    1u   /* computes in float16 */
#define TN_FEATURE_BFLOAT16   2u   /* computes in bfloat16 */
#define TN_FEATURE_FLOAT64    4u   /* computes in float64 */
#define TN_FEATURE_INT64      8u   /* computes in int64 */
#define TN_FEATURE_MATRIX     16u  /* has units for products of matrices */
#define TN_FEATURE_ADDRESSES  32u  /* allocations have addresses that kernels compute with */
#define TN_FEATURE_PAGED      64u  /* host and device share one page table */
#define TN_FEATURE_CONCURRENT 128u /* streams run beside each other */

/* What a plugin says of a device. A number that is not known is 0. */
typedef struct tn_device_facts {
    uint32_t size;
    uint32_t device_class; /* TN_DEVICE_... */
    uint32_t memory_kinds; /* TN_MEMORY_... */
    uint32_t compute_units;
    uint64_t total_memory;  /* bytes */
    uint64_t bandwidth;     /* of device memory, bytes per second */
    uint64_t flops_f32;     /* per second */
    int32_t priority_low;   /* the least urgent priority of a stream; lower numbers are more urgent */
    int32_t priority_high;  /* the most urgent one */
    uint32_t power_class;   /* 0 unknown, 1 low ... 4 high */
    uint32_t alignment;     /* of allocations, in bytes: a power of two; 0 is 1 */
    const tn_dtype *dtypes; /* dtypes it computes in, zero-terminated, static */
    char name[64];
    char architecture[32];
    uint32_t features; /* TN_FEATURE_... */
    uint32_t reserved;
    uint64_t max_allocation;    /* bytes of the largest allocation; 0: all memory */
    uint64_t max_binding_range; /* bytes that a kernel reaches through one argument; 0: all of it */
    uint64_t peers;             /* bit i: copy.peer copies from and to device i of the plugin */
    uint8_t uuid[16];           /* of the hardware, the same under every plugin; zeros: not known */
    char pci_address[16];       /* "0000:65:00.0"; "" if it has none */
} tn_device_facts;

/*
 * A setting of a device. The tag of `default_value` is its type: TN_TAG_BOOL, _INT, _FLOAT or _STRING. A text has
 * one of the `choices`, "fast,exact", or anything without ';' if that is NULL.
 */
#define TN_SETTING_READ_ONLY 1u
typedef struct tn_setting {
    uint32_t size;
    uint32_t flags;      /* TN_SETTING_... */
    const char *name;    /* of lower-case letters, digits and '_'; static, as the next two */
    const char *meaning; /* one line, without a period */
    const char *choices;
    tn_value default_value;
    tn_value minimum; /* of a number; NONE: no limit */
    tn_value maximum;
} tn_setting;

/* What another process needs to open memory or an event. It travels with its file (see tn_share_send). */
typedef struct tn_process_handle {
    uint32_t size;
    int32_t file; /* a file descriptor, -1: none. The caller of an export owns it; an import borrows it */
    uint64_t bytes;
    uint8_t id[64]; /* private to the plugin */
} tn_process_handle;

/* Set in the result of tn_device_choose if the device cannot be used, of tn_device_parse if the text is not the name of
 * a device. Creating a tensor on such a device is an error that has the name that was asked for. */
#define TN_DEVICE_MISSING (1ull << 63)

#ifndef TN_PLUGIN
/* Number of devices of a type ("cpu", "cuda"). NULL: of all types, hardware that several plugins offer once. */
TN_API int32_t tn_device_count(tn_context *ctx, TN_NULLABLE const char *type) TN_ANY_THREAD;
/* Device i of all devices, best first; behind those that tn_device_count(ctx, NULL) counts come other devices of the
 * same hardware. If there is none, the result is TN_DEVICE_MISSING and tn_last_error has the number of all. */
TN_API tn_device tn_device_at(tn_context *ctx, int32_t i) TN_ANY_THREAD;
TN_API int32_t tn_device_get_facts(tn_context *ctx, tn_device device,
                                   TN_OUT tn_device_facts *out) TN_ANY_THREAD;
/*
 * The device to use. `wish` is one of these:
 *
 *   "cuda:1", "cpu", ...  the name of a device
 *   "uuid:", "pci:"       the hardware: "uuid:" and the 32 hexadecimal digits of the facts ('-' is ignored), or
 *                         "pci:0000:65:00.0". If several devices are it, the one with most features
 *   "measured"            the fastest by what `tenon bench devices` has measured for this user; "best" if nothing
 *                         was measured
 *   "best" or NULL        the device that TENON_DEVICE names if it is set, else the best by class and facts
 *
 * `reason` (may be NULL) receives why; the text lives as long as the context. If the device is not there, the
 * result has the bit TN_DEVICE_MISSING, and tn_last_error() says why.
 */
TN_API tn_device tn_device_choose(tn_context *ctx, TN_NULLABLE const char *wish,
                                  TN_OUT TN_NULLABLE const char **reason) TN_ANY_THREAD;
/* 1 if both are one piece of hardware: the same device, or two with the same uuid or, if one of them has none, with
 * the same PCI address. */
TN_API int32_t tn_device_is_same(tn_context *ctx, tn_device a, tn_device b) TN_ANY_THREAD;

/*
 * Settings that the plugin of a device offers. TENON_SETTINGS has values that a device gets when it is opened:
 * "reference.poison=1;opencl:1.blocking=1", for all devices of a type or for one.
 */
/* Describes setting i. TN_E_INDEX: there are no more. Texts live as long as the context. */
TN_API int32_t tn_device_setting(tn_context *ctx, tn_device device, uint32_t i,
                                 TN_OUT tn_setting *out) TN_ANY_THREAD;
/* The value of a setting. A text lives as long as the context. The text of TN_E_NOT_FOUND suggests a similar
 * name. */
TN_API int32_t tn_device_get_setting(tn_context *ctx, tn_device device, const char *name,
                                     TN_OUT tn_value *out) TN_ANY_THREAD;
/* Changes it, for work that is queued from now on. TN_E_ARGUMENT for a value of another type or outside the range,
 * and for a setting that is read-only. */
TN_API int32_t tn_device_set_setting(tn_context *ctx, tn_device device, const char *name,
                                     tn_value value) TN_ANY_THREAD;

/* Waits for all streams of the device. Reports late errors: errors found after the call that queued the work
 * had returned. One of a stream that another thread made current is reported there, too. */
TN_API int32_t tn_device_synchronize(tn_context *ctx, tn_device device) TN_ANY_THREAD;
/* Free and total memory of the device in bytes; 0 and 0 if not known. */
TN_API int32_t tn_device_memory(tn_context *ctx, tn_device device, TN_OUT uint64_t *out_free,
                                TN_OUT uint64_t *out_total) TN_ANY_THREAD;
/* TN_OK, or TN_E_DEVICE_LOST for a device that can run no more work: its tensors are lost, too. Does not wait. */
TN_API int32_t tn_device_status(tn_context *ctx, tn_device device) TN_ANY_THREAD;
/* The vendor's own handle of the device (TN_NATIVE_DEVICE) or its context. 0 may be a handle; TN_E_UNSUPPORTED
 * says that there is none. */
TN_API int32_t tn_device_native(tn_context *ctx, tn_device device, uint32_t kind,
                                TN_OUT uint64_t *out) TN_ANY_THREAD;
/* Index of the current device of a type on this thread; negative: the status of a failure. */
TN_API int32_t tn_device_current(tn_context *ctx, const char *type);
TN_API int32_t tn_device_set_current(tn_context *ctx, tn_device device);

/* Streams: first-in-first-out queues of work. Every device has a default stream, which is current at
 * first. tn_stream_release waits for the work, and until no other thread waits for the whole device. */
TN_API int32_t tn_stream_create(tn_context *ctx, tn_device device, int32_t priority,
                                TN_OUT TN_GIVES tn_stream **out) TN_ANY_THREAD;
TN_API void tn_stream_release(TN_TAKES TN_NULLABLE tn_stream *stream) TN_ANY_THREAD;
/* The current stream of this thread; borrowed. NULL and an error for a bad device. */
TN_API tn_stream *tn_stream_current(tn_context *ctx, tn_device device);
TN_API tn_stream *tn_stream_default(tn_context *ctx, tn_device device);
/* Makes the stream current on this thread; tn_stream_default gives the one to return to. */
TN_API int32_t tn_stream_set_current(tn_context *ctx, tn_stream *stream);
TN_API int32_t tn_stream_synchronize(tn_stream *stream) TN_ANY_THREAD;
/* 1: all work has finished, 0: not yet. An error is returned as its negated status. */
TN_API int32_t tn_stream_query(tn_stream *stream) TN_ANY_THREAD;
/* `stream` waits for what `event` recorded. The host does not wait. */
TN_API int32_t tn_stream_wait_event(tn_stream *stream, tn_event *event) TN_ANY_THREAD;
/* `stream` waits for the work that is in `other` now. The host does not wait. */
TN_API int32_t tn_stream_wait_stream(tn_stream *stream, tn_stream *other) TN_ANY_THREAD;
TN_API tn_device tn_stream_device(const tn_stream *stream) TN_ANY_THREAD;
TN_API uint64_t tn_stream_id(const tn_stream *stream) TN_ANY_THREAD;
/*
 * Calls `callback(user)` once, when the work that is on the stream now has finished, also if it failed. A thread of
 * the plugin does that, or this one before the function returns: on devices that run work at once, and for plugins
 * without callbacks, whose streams this waits for. The callback may not call Tenon or the vendor's API.
 */
TN_API int32_t tn_stream_add_callback(tn_stream *stream, void (*callback)(void *user),
                                      void *user) TN_ANY_THREAD;
/* The vendor's own handle. 0 may be a handle; TN_E_UNSUPPORTED says that there is none. */
TN_API int32_t tn_stream_native(tn_stream *stream, TN_OUT uint64_t *out) TN_ANY_THREAD;
/*
 * A stream of the device over a queue that the program has from the vendor's own API, by its native handle. Work goes
 * into that queue, in order with the program's. The queue must stay until the stream is released, which waits for its
 * work and leaves the queue alone. TN_E_ARGUMENT for a queue of another device; TN_E_UNSUPPORTED if the plugin takes
 * none.
 */
TN_API int32_t tn_stream_wrap(tn_context *ctx, tn_device device, uint64_t native,
                              TN_OUT TN_GIVES tn_stream **out) TN_ANY_THREAD;
/* The vendor's own handle of the memory that the tensor is in, and where its first element begins there, in bytes. 0
 * may be a handle; TN_E_UNSUPPORTED says that there is none. */
TN_API int32_t tn_tensor_native(const tn_tensor *t, TN_OUT uint64_t *out,
                                TN_OUT uint64_t *out_offset) TN_ANY_THREAD;
/* Says that work on `stream` uses the tensor: its memory is reused only after that work. */
TN_API int32_t tn_record_stream(tn_tensor *t, tn_stream *stream) TN_ANY_THREAD;

/* Events mark a point in a stream. `flags`: TN_EVENT_...; TN_E_UNSUPPORTED for what the plugin lacks. */
TN_API int32_t tn_event_create(tn_context *ctx, tn_device device, uint32_t flags,
                               TN_OUT TN_GIVES tn_event **out) TN_ANY_THREAD;
TN_API void tn_event_release(TN_TAKES TN_NULLABLE tn_event *event) TN_ANY_THREAD;
TN_API int32_t tn_event_record(tn_event *event, tn_stream *stream) TN_ANY_THREAD;
/* As tn_stream_query. An event that was never recorded is done. */
TN_API int32_t tn_event_query(tn_event *event) TN_ANY_THREAD;
TN_API int32_t tn_event_synchronize(tn_event *event) TN_ANY_THREAD;
/* Milliseconds between two recorded events with TN_EVENT_TIMING. */
TN_API int32_t tn_event_elapsed(tn_event *start, tn_event *end, TN_OUT double *out_ms) TN_ANY_THREAD;

/* What the caching allocator of a device has done. */
typedef struct tn_memory_stats {
    uint32_t size;
    uint32_t reserved;
    uint64_t allocated_bytes; /* in tensors now */
    uint64_t allocated_peak;
    uint64_t reserved_bytes; /* taken from the device now */
    uint64_t reserved_peak;
    uint64_t active_blocks;
    uint64_t segments;           /* allocations of the device that are held now */
    uint64_t allocations;        /* blocks handed out since the start */
    uint64_t device_allocations; /* calls of the device's allocator since the start */
    uint64_t retries;            /* requests that succeeded only after the caches were freed */
    uint64_t out_of_memory;      /* requests that failed */
} tn_memory_stats;
TN_API int32_t tn_memory_get_stats(tn_context *ctx, tn_device device,
                                   TN_OUT tn_memory_stats *out) TN_ANY_THREAD;
TN_API int32_t tn_memory_reset_peak(tn_context *ctx, tn_device device) TN_ANY_THREAD;
/* Gives unused cached blocks back to the device. Waits for it, and reports late errors, as tn_device_synchronize. */
TN_API int32_t tn_memory_empty_cache(tn_context *ctx, tn_device device) TN_ANY_THREAD;
/* The most bytes that the allocator may reserve; 0: no limit. */
TN_API int32_t tn_memory_set_limit(tn_context *ctx, tn_device device, uint64_t bytes) TN_ANY_THREAD;
/* The same as a part of the device's memory, above 0 and at most 1. TN_E_UNSUPPORTED if the plugin does not say how
 * much that is. */
TN_API int32_t tn_memory_set_fraction(tn_context *ctx, tn_device device, double fraction) TN_ANY_THREAD;
/*
 * Options of the device's allocator, "key:value,..."; those that are not named keep their values. The variable
 * TENON_ALLOC_CONF has the same for all devices. Names and meaning are PyTorch's:
 *
 *   max_split_size_mb:N             blocks of N MiB and more (N above 20) are not split, and serve only requests of
 *                                   that size that leave less than 20 MiB unused
 *   roundup_power2_divisions:N      requests are rounded up to a multiple of 1/N of their power of two; or a list by
 *                                   size in MiB, [256:1,512:2,>:4]
 *   garbage_collection_threshold:X  before the device is asked for more, the memory that was free for longest goes
 *                                   back to it while more than this part of the limit (0 < X < 1) is reserved
 *   per_process_memory_fraction:X   tn_memory_set_fraction
 *   no_cache:True                   every tensor is a request to the device, and freeing waits for it: slow, for
 *                                   tools that look for misuse of memory
 *   expandable_segments:True        a stream's memory is one range of addresses that grows, instead of many allocations
 *                                   with gaps between them; max_split_size_mb has no effect on it. TN_E_UNSUPPORTED
 *                                   if the plugin lacks memory.reserve; TENON_ALLOC_CONF leaves such devices as they are
 *   pluggable_allocator:L:A:F       tn_memory_set_allocator with the library L and the functions A and F; with
 *                                   cuda=L only for devices of the type "cuda"
 *
 * TN_E_ARGUMENT names an option or value that is wrong; then nothing changes. On the CPU, blocks up to 1 MiB have
 * sizes of their own, which the first two options do not change.
 */
TN_API int32_t tn_memory_configure(tn_context *ctx, tn_device device, const char *options) TN_ANY_THREAD;
/*
 * Replaces the device's caching allocator by two functions of a library, with the signatures of PyTorch's pluggable
 * allocator:
 *
 *     void *alloc(ssize_t bytes, int device_index, void *stream);
 *     void free(void *memory, ssize_t bytes, int device_index, void *stream);
 *
 * `stream` is the vendor's handle (tn_stream_native), NULL on devices without one. `alloc` returns an address of the
 * device, on the CPU a multiple of 64; NULL: out of memory. `free` is called when later work on that stream may reuse
 * the memory. Both are called on any thread, several at once, and call nothing of Tenon. The library stays loaded.
 *
 * TN_E_STATE after the device's first allocation. TN_E_IO and TN_E_NOT_FOUND if the library or a function is not
 * there. TN_E_UNSUPPORTED if the plugin takes no addresses (interop.import_pointer) or has an allocator of its own.
 * A device with such functions has no cache, no private pools and no graphs.
 */
TN_API int32_t tn_memory_set_allocator(tn_context *ctx, tn_device device, const char *library,
                                       const char *alloc_name, const char *free_name) TN_ANY_THREAD;

/*
 * One statistic of the device's allocator under PyTorch's name, such as "allocated_bytes.all.current",
 * "segment.large_pool.peak" or "num_ooms"; tn_memory_stats_text lists them. TN_E_NOT_FOUND for another name. Beside
 * all, small_pool and large_pool there is private_pools: what private pools and graphs have of them. Blocks up to 1 MiB
 * of the CPU are counted in groups: their "allocated" and "freed" are sums of changes.
 */
TN_API int32_t tn_memory_get_stat(tn_context *ctx, tn_device device, const char *key,
                                  TN_OUT int64_t *out) TN_ANY_THREAD;
/* Writes all of them, one line "name value" each, truncated to `bytes` with the terminating zero. Returns the
 * length of the whole text. */
TN_API uint64_t tn_memory_stats_text(tn_context *ctx, tn_device device, TN_OUT char *text,
                                     uint64_t bytes) TN_ANY_THREAD;
/* Sets what is "allocated" and "freed", retries and failed requests back to 0. */
TN_API int32_t tn_memory_reset_accumulated(tn_context *ctx, tn_device device) TN_ANY_THREAD;

/*
 * Keeps the last `entries` events of the device's allocator for snapshots, each with up to `frames` (at most 32)
 * callers. 0 entries: stops and forgets. Meanwhile small blocks of the CPU come from a slower path.
 */
TN_API int32_t tn_memory_record_history(tn_context *ctx, tn_device device, uint32_t entries,
                                        uint32_t frames) TN_ANY_THREAD;
/*
 * Writes what the allocators of all devices hold, with the recorded history. A path that ends in ".pickle" gets
 * PyTorch's memory snapshot (pytorch.org/memory_viz shows it), any other JSON with the same contents. TN_E_IO with the
 * path and the reason if the file cannot be written.
 */
TN_API int32_t tn_memory_write_snapshot(tn_context *ctx, const char *path) TN_ANY_THREAD;

/*
 * A private pool of the device's memory: what it serves is kept apart from the memory of everything else. Between begin
 * and end all tensors that this thread makes on the device come from it; their memory serves the pool again. Several
 * threads may use one pool; a thread uses one at a time (TN_E_STATE). Graphs share memory through a pool, see
 * tn_graph_set_pool. Free memory of pools, too, goes back to the device when the cache is emptied or memory runs
 * out.
 */
typedef struct tn_memory_pool tn_memory_pool;
TN_API int32_t tn_memory_pool_create(tn_context *ctx, tn_device device,
                                     TN_OUT TN_GIVES tn_memory_pool **out) TN_ANY_THREAD;
/* Tensors in the pool stay valid. Its memory serves everything else afterwards. NULL is ignored. */
TN_API void tn_memory_pool_release(TN_TAKES TN_NULLABLE tn_memory_pool *pool) TN_ANY_THREAD;
TN_API int32_t tn_memory_pool_begin(tn_memory_pool *pool);
TN_API int32_t tn_memory_pool_end(tn_memory_pool *pool);
/* What the pool has now and had at most, that of the graphs which share it included. `retries` and `out_of_memory` are
 * 0: they are counted for the device. */
TN_API int32_t tn_memory_pool_get_stats(tn_memory_pool *pool, TN_OUT tn_memory_stats *out) TN_ANY_THREAD;

/* A request that failed: bytes in all. */
typedef struct tn_memory_shortage {
    uint32_t size;
    uint32_t reserved;
    tn_device device;
    uint64_t asked_bytes;
    uint64_t free_bytes;      /* on the device; 0: not known */
    uint64_t total_bytes;     /* of the device; 0: not known */
    uint64_t allocated_bytes; /* in tensors */
    uint64_t reserved_bytes;  /* taken from the device */
    uint64_t limit;           /* 0: none */
    uint64_t private_bytes;   /* in tensors of private pools and graphs */
    uint64_t largest_free;    /* the largest block that is free; 0: none is */
    uint64_t largest_bytes;   /* of the largest block in use */
    /* The operator that made that block, or "": known while tn_memory_record_history is on. Valid as long as the
     * context. */
    const char *largest_operator;
} tn_memory_shortage;
/* `observer` is called on the thread whose request failed, before it gets the error. It may write a snapshot; it may
 * not ask for memory of a device. TN_E_STATE: the context has 8 already. */
TN_API int32_t tn_memory_observer_add(tn_context *ctx,
                                      void (*observer)(void *user, const tn_memory_shortage *shortage),
                                      void *user, TN_OUT uint64_t *out_handle) TN_ANY_THREAD;
TN_API void tn_memory_observer_remove(tn_context *ctx, uint64_t handle) TN_ANY_THREAD;
#endif

TN_END_DECLS
#endif
