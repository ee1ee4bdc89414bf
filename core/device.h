/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices as the library sees them: the driver tables of a plugin, copied into structs of the host's own
 * size, the open device with its streams, its caching allocator and its default generator.
 */
#ifndef TNI_CORE_DEVICE_H
#define TNI_CORE_DEVICE_H

#include <tenon/activity.h>
#include <tenon/graph.h>
#include "core/handle.h"
#include "core/context.h"
#include "core/error.h"
#include "core/late_error.h"
#include "core/thread.h"

/* What a loaded plugin hands over to register its device type; tables are complete, absent slots NULL. */
typedef struct tni_driver {
    const char *plugin; /* name, for errors */
    void *self;
    tn_device_interface device;
    tn_memory_interface memory;
    tn_copy_interface copy;
    tn_stream_interface stream;
    tn_event_interface event;             /* size 0: absent */
    tn_allocator_interface allocator;     /* size 0: absent */
    tn_autocast_interface autocast;       /* size 0: absent */
    tn_graph_interface graph;             /* size 0: absent */
    tn_collectives_interface collectives; /* size 0: absent */
    tn_settings_interface settings;       /* size 0: absent */
    tn_interop_interface interop;         /* size 0: absent */
    tn_x_activity_interface activity;     /* size 0: absent */
} tni_driver;

struct tni_allocator;

typedef struct tni_device_type {
    tn_context *ctx;
    uint32_t type; /* interned */
    uint32_t slot; /* index in ctx->types: kernel tables are indexed by it */
    tni_driver driver;
    pthread_mutex_t lock;        /* held while the plugin counts its devices */
    atomic_int state;            /* TNI_TYPE_... */
    _Atomic(uint32_t) count;     /* 0 until the type is known; `devices` is set before */
    const char *reason;          /* why count is 0 */
    tn_error *failure;           /* of the enumeration, told to everyone who asks; NULL: it succeeded */
    tni_device *devices;         /* [count] */
    pthread_mutex_t collectives; /* calls of tenon.collectives and tenon.settings come one at a time */
} tni_device_type;

#define TNI_TYPE_UNKNOWN     0 /* the plugin has not been asked for its devices */
#define TNI_TYPE_ENUMERATING 1
#define TNI_TYPE_KNOWN       2

#define TNI_DEVICE_CLOSED 0
#define TNI_DEVICE_OPEN   1
#define TNI_DEVICE_LOST   2 /* open for the plugin; programs are refused */

struct tni_release_queue; /* release_queue.c */

struct tni_device {
    tn_device id;
    tn_context *ctx;
    tni_device_type *type;
    void *handle;    /* from open; NULL until first use */
    atomic_int open; /* TNI_DEVICE_... */
    pthread_mutex_t lock;
    uint32_t waiters;        /* threads that wait or ask without the lock; under the lock */
    pthread_cond_t unwaited; /* there are none */
    int32_t host_access; /* memory has addresses of the host, but for some of other libraries and processes */
    int32_t synchronous; /* work is done when a call returns: nothing ever waits for a stream */
    uint32_t memory_kind; /* TN_MEMORY_... that tensors use */
    tn_device_facts facts;
    tn_stream *default_stream;
    tn_stream *streams; /* all that were made; the memory of released ones is used again */
    uint64_t last_stream_id;
    struct tni_allocator *allocator;
    struct tni_allocator *pinned; /* of memory of the host; NULL until it is used; made under the lock */
    tn_generator *generator;
    struct tni_release_queue *releases; /* NULL until something was kept alive; under the lock */
    char lost_text[256];                /* why the device is lost; written once, before `open` says so */
    atomic_uint captures;               /* graphs that are being captured; see graph.h */
    tn_graph *capturing;                /* the list of them, under the lock */
    uint64_t last_capture;
    struct {               /* the late error that no caller could be told yet, see late_error.h */
        atomic_int status; /* 0: none */
        pthread_mutex_t lock;
        char text[256];
    } late;
};

/* Makes a failure of a plugin's slot a full error: names the plugin and what was asked. */
int32_t tni_driver_error(const tni_device_type *type, int32_t status, const char *what);
/* A slot or kernel returned TN_E_DEVICE_LOST: asks the plugin which of its devices are lost and notes them. Keeps
 * this thread's last error. */
void tni_device_check_lost(tni_device_type *type);
/* The vendor's own handle of a kind (TN_NATIVE_...). */
int32_t tni_native(const tni_device *device, uint32_t kind, void *handle, uint64_t *out);
/* A slot that makes something returned TN_OK and NULL. */
int32_t tni_no_handle(const tni_device_type *type, const char *slot);
/* Registers a device type. Type names are unique; "cpu" is the host's. */
int32_t tni_device_type_add(tn_context *ctx, const tni_driver *driver);
void tni_device_type_destroy(tni_device_type *type);
/* Asks the plugin for the devices of the type, once; see tni_device_type_enumerate. */
int32_t tni_device_type_ask(tni_device_type *type);
/* To be called before `count`, `devices` or `reason` are used for a program that asks for devices of the type. An
 * error is that of the enumeration; the type then has no devices. */
static inline int32_t tni_device_type_enumerate(tni_device_type *type)
{
    return TNI_LIKELY(atomic_load_explicit(&type->state, memory_order_acquire) == TNI_TYPE_KNOWN &&
                      !type->failure)
               ? TN_OK
               : tni_device_type_ask(type);
}
/* All types. Errors are kept, see tni_device_type.reason. */
void tni_device_types_enumerate(tn_context *ctx);
/* The program lets go of the context: storages that the devices' caches have given out become its owners. */
void tni_devices_count_storages(tn_context *ctx);
/* Closes all devices. */
void tni_devices_finish(tn_context *ctx);
/* Sets what TENON_SETTINGS has for a device that is being opened. */
int32_t tni_settings_apply(const tni_device *device);
/* The open device of an id (index -1: current); NULL and an error when there is none. Fast. */
tni_device *tni_device_get(tn_context *ctx, tn_device id);
tni_device_type *tni_device_type_find(tn_context *ctx, uint32_t type);
/* Current stream of this thread for a device; never NULL for an open device. */
tn_stream *tni_chosen_stream(tni_device *device);
static inline tn_stream *tni_current_stream(tni_device *device)
{
    return TNI_LIKELY(!tni_tls.current) ? device->default_stream : tni_chosen_stream(device);
}

/*
 * Streams. The struct outlives its last reference until the device closes (`id` is then TNI_DEAD_STREAM), so
 * a thread may still point to one that others have released.
 */
#define TNI_DEAD_STREAM UINT64_MAX
struct tn_stream {
    atomic_uint refs;
    tni_device *device;
    void *handle;            /* the plugin's */
    atomic_uint_fast64_t id; /* 0: the default stream; never used again in a device */
    tn_stream *next;
    _Atomic(tn_graph *) capture;          /* the graph it captures, or NULL */
    _Atomic(const void *) user;           /* the thread, its tni_tls, for which it was current last */
    struct {                              /* late errors, see late_error.h; under device->late.lock */
        atomic_uint_fast64_t found;       /* errors of this stream so far */
        atomic_uint_fast64_t told;        /* those that a wait for this stream has reported */
        atomic_uint_fast64_t device_told; /* those that a wait for the device has reported */
        int32_t status;                   /* of the last one */
        char text[192];
        atomic_uint n_waited; /* waited.count, to be read without the lock */
        tni_vector waited;    /* tni_late_mark: streams that it waited for since it was last waited for */
    } late;
};

/* One more reference. */
tn_stream *tni_stream_retain(tn_stream *stream);
/* A reference to the stream that had number `id`, from a thread that holds none. */
#define TNI_STREAM_GONE   0 /* released; its work was waited for */
#define TNI_STREAM_LIVE   1 /* the caller has a reference */
#define TNI_STREAM_ENDING 2 /* another thread is releasing it: work may still be under way */
int32_t tni_stream_retain_live(tn_stream *stream, uint64_t id);
/* TN_OK, or the error of a stream that is missing, was released, or was made before a fork. */
int32_t tni_stream_check(const tn_stream *stream);
/* Makes the default stream of a device that is being opened, and ends all streams of one that is closed. */
int32_t tni_streams_init(tni_device *device);
void tni_streams_finish(tni_device *device);
/* Waits for all streams but those that capture, which keep their late errors. The status of the device itself. */
int32_t tni_device_wait(tni_device *device);
/* With the device's lock held, before a stream is destroyed or captures: until there are no `waiters`. */
void tni_device_unwaited(tni_device *device);
/* Without it: there is one less. */
void tni_device_waited(tni_device *device);

struct tn_event {
    atomic_uint refs;
    uint32_t flags;
    tni_device *device;
    void *handle;
    tn_stream *stream;  /* last recorded on, when the plugin has no events */
    tni_late_mark mark; /* of the recording */
    tni_handle_mark life;
    int32_t recorded;
    uint64_t capture;    /* number of the capture it was recorded in, 0: none */
    int32_t imported;    /* of another process: recorded there */
    int32_t internal;    /* keeps neither context nor stream: whoever made it sees to that */
    int32_t orders_only; /* who waits for it reads nothing of what comes before: late errors do not follow */
    int64_t nanoseconds; /* of the recording, on synchronous devices without events */
};
/* The vendor's stream `native` waits for the work that is on `stream` now; the host does so if the plugin cannot. */
int32_t tni_native_wait(tn_stream *stream, uint64_t native);
/* An event for the allocator's own use, with `internal` set. */
int32_t tni_event_create(tni_device *device, uint32_t flags, tn_event **out);
/* Later work of `stream` comes after that of `other`, but does not use its results. */
int32_t tni_stream_order(tn_stream *stream, tn_stream *other);

/*
 * The caching allocator: aware of streams, one per device. A block belongs to the stream on which it was
 * asked for. Once freed it can be handed out again on that stream at once. A block that other streams use
 * (tni_block_record) waits for those streams first.
 */
typedef struct tni_block tni_block; /* see block.h */
int32_t tni_allocator_create(tni_device *device, int32_t is_pinned, struct tni_allocator **out);
void tni_allocator_destroy(struct tni_allocator *allocator);
/* Reads TENON_ALLOC_CONF. */
int32_t tni_memory_options_init(tn_context *ctx);
void tni_memory_options_finish(tn_context *ctx);
/* The profiler is told of each block of every open device, or no longer. */
void tni_allocators_watch(tn_context *ctx, int32_t on);
tni_device *tni_allocator_device(const struct tni_allocator *allocator);
/* Makes each storage that is out, and each that will be, an owner of the context. */
void tni_allocator_count_storages(struct tni_allocator *allocator);
/* bytes 0 gives a block without memory. If the device is out of memory, free memory goes back to it, the
 * plugin's caches are trimmed, and it is asked once more. */
int32_t tni_block_alloc(tni_device *device, uint64_t bytes, tn_stream *stream, tni_block **out);
/* From the allocator of a device's pinned memory, for instance. `stream` is NULL for pinned memory. */
int32_t tni_block_alloc_of(struct tni_allocator *allocator, uint64_t bytes, tn_stream *stream,
                           tni_block **out);
/* Memory that other processes may open, in an allocation of its own, within the allocator's limit. *out_memory shows it
 * as the plugin gave it. */
int32_t tni_block_alloc_shareable(tni_device *device, uint64_t bytes, tni_block **out, tn_memory *out_memory);
void tni_block_free(tni_block *block);
int32_t tni_block_record(tni_block *block, tn_stream *stream);
/*
 * The memory that was allocated on streams of capture `pool` is no longer kept for its graph: what is free
 * goes back to the device, the rest when it is freed.
 */
void tni_pool_end(struct tni_allocator *allocator, uint64_t pool);
/* A private pool (private_pool.c) is gone: its memory, and that of its captures, serves everything else. */
void tni_pool_dissolve(struct tni_allocator *allocator, const tn_memory_pool *pool);
/* tn_memory_pool_begin and _end of this thread. */
int32_t tni_pool_begin(struct tni_allocator *allocator, tn_memory_pool *pool);
int32_t tni_pool_leave(struct tni_allocator *allocator, tn_memory_pool *pool);
/* A pool of memory for threads and graphs. `number` is that of its captures, too: never used again in a device. */
struct tn_memory_pool {
    atomic_uint refs; /* the program's, and one for each graph and each thread that uses it */
    tni_device *device;
    uint64_t number;
    tni_handle_mark life;
    tn_memory_pool *next;  /* of the allocator; under its lock, as `stats` */
    tn_memory_stats stats; /* of its threads and its graphs together */
};
/* A pool is there from now on: memory with its number is counted in it. */
void tni_pool_register(struct tni_allocator *allocator, tn_memory_pool *pool);
tn_memory_pool *tni_memory_pool_retain(tn_memory_pool *pool);
/* The stream is about to be destroyed and has no work left: its blocks go to the default stream. */
void tni_allocator_forget_stream(struct tni_allocator *allocator, tn_stream *stream);

/* Waits for the device and gives all cached memory back to it. */
int32_t tni_memory_reclaim(tni_device *device, uint64_t *out_bytes);
/* TN_OK, or TN_E_UNSUPPORTED where a plugin's or user's allocator serves instead, which has none of `what`. */
int32_t tni_allocator_check_caching(const struct tni_allocator *allocator, const char *what);
/* Blocks begin at multiples of it. */
uint64_t tni_allocator_granule(const struct tni_allocator *allocator);

/* Calls that are due when a stream has finished its work, on a thread of the device's (release_queue.c). */
struct tni_kept;
void tni_release_later(tn_stream *stream, struct tni_kept *kept);
/* Waits until nothing is left to release; does nothing on the thread that releases. */
void tni_release_wait(tni_device *device);
/* Releases what is left and ends the thread. The device has been waited for. */
void tni_release_finish(tni_device *device);

/*
 * Pinned memory of the host (pinned.c): the device copies from and to it without the host.
 */
/* 1 if the plugin allocates such memory itself (memory.alloc), which it is then asked for; else memory.pin may pin
 * pages of the host. */
int32_t tni_gives_pinned(const tni_device *device);
int32_t tni_pins_memory(const tni_device *device);
/* Pages of the host that memory.pin has pinned. */
int32_t tni_pages_pin(const tni_device *device, uint64_t bytes, tn_memory *out);
void tni_pages_unpin(const tni_device *device, const tn_memory *memory);
/* TN_E_UNSUPPORTED and an error if the device does not pin. */
int32_t tni_pinned_alloc(tni_device *device, uint64_t bytes, tni_block **out);
/* The device that pins where a program names none, or NULL and an error; see tn_pin_memory. */
tni_device *tni_pinning_device(tn_context *ctx);

/* Copies between host memory and devices, after all work of the current stream; done when they return. */
int32_t tni_copy_to_device(tni_device *device, void *allocation, uint64_t offset, const void *host,
                           uint64_t bytes);
int32_t tni_copy_to_host(tni_device *device, void *host, void *allocation, uint64_t offset, uint64_t bytes);
/* A range of memory on a device. */
typedef struct tni_place {
    tni_device *device;
    void *allocation;
    uint64_t offset;
} tni_place;
/* 1 if copy.peer copies from one of the devices to the other. */
int32_t tni_are_peers(const tni_device *to, const tni_device *from);
/* Copies between peers, after the work of both current streams and before what comes on them. The host does not
 * wait. */
int32_t tni_copy_peer(const tni_place *to, const tni_place *from, uint64_t bytes);
/* The same between any two devices, through memory of the host: waits until the source has been read. */
int32_t tni_copy_through_host(const tni_place *to, const tni_place *from, uint64_t bytes);
/* Sets bytes to 0, as work of the current stream. */
int32_t tni_fill_zeros(tni_device *device, void *allocation, uint64_t offset, uint64_t bytes);

/* Generators. */
struct tn_generator {
    atomic_uint refs;
    int32_t owns_context;
    tn_context *ctx;
    pthread_mutex_t lock;
    uint64_t seed;
    uint64_t offset;
    tni_handle_mark life;
};
/*
 * The random numbers that a function drew, which are to be the same when it runs again. It hangs from tni_tls.saved_hooks. While
 * it `replays` the numbers come from it in their order, and no generator moves; else what is drawn is noted.
 */
typedef struct tni_random_draw {
    uint64_t count, seed, offset;
    int32_t is_captured; /* `offset` counts from the state of a graph */
} tni_random_draw;
typedef struct tni_random_log {
    tn_context *ctx;
    tni_vector draws; /* tni_random_draw */
    uint32_t next;    /* the one that is replayed next */
    int32_t replays;
    int32_t is_short; /* one could not be noted, or others were drawn the second time */
} tni_random_log;
/* 1: a log has given the numbers. -1: it would give such that were not captured. */
int32_t tni_random_again(uint64_t count, int32_t is_captured, uint64_t *out_seed, uint64_t *out_offset);
void tni_random_note(const tni_random_draw *draw);
/* Takes `count` counters. */
void tni_generator_reserve(tn_generator *generator, uint64_t count, uint64_t *out_seed, uint64_t *out_offset);
/* The device's own; while the CPU stands in for a device, that of the device: a seed decides the numbers
 * wherever they are drawn. */
tn_generator *tni_default_generator(tni_device *device);
/* TN_OK, or the error of a generator that is NULL, was released, or is used after a fork. */
int32_t tni_generator_check(const tn_generator *generator);
/* A generator that does not keep its context: a device's own. */
int32_t tni_generator_create(tn_context *ctx, uint64_t seed, tn_generator **out);

#endif
