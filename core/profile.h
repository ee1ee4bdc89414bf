/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles (tenon/profile.h) inside the library. An observer (dispatcher/profile.c) tells profile.c of calls, the engine
 * of nodes of a backward pass, whoever queues device work of that, and the allocator of changes of memory. All of them
 * look at tni_is_profiled first, which is one flag.
 *
 * Each thread writes to a struct of its own, under that struct's lock, which is free except when a profile ends.
 * These structs stay until the context ends, so that a thread may keep a pointer to its own. tn_profile_end takes
 * what they hold.
 *
 * profile.c has the life of a profile and what threads do, profile_work.c the work of devices, profile_activity.c what
 * vendors recorded of it, profile_table.c the table, profile_file.c the file.
 */
#ifndef TNI_CORE_PROFILE_H
#define TNI_CORE_PROFILE_H

#include <tenon/profile.h>
#include "core/handle.h"
#include "core/device.h"

/* In ctx->call_flags; kernels do not see them. */
#define TNI_CALL_PROFILED (1u << 15)
#define TNI_CALL_BLOCKING (1u << 14) /* TENON_BLOCKING: the host waits for each kernel */
#define TNI_CALL_INTERNAL (TNI_CALL_PROFILED | TNI_CALL_BLOCKING)

static inline int32_t tni_is_profiled(const tn_context *ctx)
{
    return (atomic_load_explicit(&ctx->call_flags, memory_order_relaxed) & TNI_CALL_PROFILED) != 0;
}

/* ---- What is told to the profiler ---------------------------------------------------------------------- */

/* Something that begins on this thread. */
typedef struct tni_profile_site {
    uint32_t kind;      /* TN_PROFILE_... */
    uint32_t number;    /* of the operator; 0: `name` tells it apart */
    const char *name;   /* copied */
    const char *shapes; /* from tni_profile_shapes, copied */
    uint32_t shapes_bytes;
} tni_profile_site;

/* Writes what tells the sizes and dtypes of a call's tensors apart. Returns its length, at most TNI_PROFILE_SHAPES. */
#define TNI_PROFILE_SHAPES 1024u
uint32_t tni_profile_shapes(const tn_value *args, uint32_t count, char out[TNI_PROFILE_SHAPES]);
/* The flags of the profile that runs, or 0. */
uint32_t tni_profile_flags(const tn_context *ctx);
/* Returns what tni_profile_leave wants; 0: nothing was noted. */
uint64_t tni_profile_enter(tn_context *ctx, const tni_profile_site *site);
void tni_profile_leave(tn_context *ctx, uint64_t token);

/* A piece of work that is being queued on a stream. `name` must live as long as the context. */
typedef struct tni_profile_work {
    tn_event *start;
    int64_t queued;      /* ns */
    uint64_t number;     /* by which the vendor's records name it; 0: none */
    uint32_t generation; /* of the profile in which it began */
} tni_profile_work;
/* 1 if the work is to be measured: the caller queues it and then calls tni_profile_work_end. The thread's last
 * error may be replaced. */
int32_t tni_profile_work_begin(tni_device *device, tn_stream *stream, tni_profile_work *work);
static inline int32_t tni_profile_measures(tni_device *device, tn_stream *stream, tni_profile_work *work)
{
    return TNI_UNLIKELY(tni_is_profiled(device->ctx)) && tni_profile_work_begin(device, stream, work);
}
void tni_profile_work_end(tni_device *device, tn_stream *stream, const char *name, tni_profile_work *work);

/* Memory of a device was handed out (change > 0) or taken back. Called under the allocator's lock. */
void tni_profile_memory(tni_device *device, int64_t change, uint64_t allocated, uint64_t reserved);

/* tn_profile_begin and tn_profile_end without the observer of calls. */
int32_t tni_profile_start(tn_context *ctx, const tn_profile_options *options);
int32_t tni_profile_stop(tn_context *ctx, tn_profile **out);
/* What TENON_PROFILE asks for; ctx->profile_path is NULL if that is nothing. An error if the file cannot be
 * written. */
int32_t tni_profile_wish(tn_context *ctx, tn_profile_options *out);
/* The program lets go of the context: a profile that runs ends, that of TENON_PROFILE is written. */
void tni_profile_close(tn_context *ctx);
/* The same for every context that the program has not destroyed when it exits (context.c). */
void tni_profiles_close(void);
/* Profiles are written before the handlers of libraries that were loaded until now have run. */
void tni_profile_close_at_exit(void);
/* The context ends. */
void tni_profile_finish(tn_context *ctx);

/* ---- The parts of a profile ---------------------------------------------------------------------------- */

/* A row of a thread's table, or of the whole one. `data` has the name with a zero, the shapes as they tell calls
 * apart, and in the whole table the shapes as text with a zero. */
typedef struct tni_profile_entry {
    struct tni_profile_entry *next; /* in its bucket */
    tn_profile_row row;
    uint64_t hash;
    uint32_t number; /* of the operator, or 0 */
    uint32_t open;   /* calls in progress: of nested ones only the outermost counts for the totals */
    uint32_t name_bytes;
    uint32_t shapes_bytes;
    uint64_t bytes; /* of the struct */
    char data[];
} tni_profile_entry;

#define TNI_PROFILE_BUCKETS 256u
typedef struct tni_profile_table {
    tni_profile_entry *buckets[TNI_PROFILE_BUCKETS];
    uint32_t count;
} tni_profile_table;

/* A call, node or range that has ended. */
typedef struct tni_profile_call {
    int64_t start, end; /* ns, of the host's monotonic clock */
    const tni_profile_entry *entry;
} tni_profile_call;

typedef struct tni_profile_change {
    int64_t at;
    tn_device device;
    uint64_t allocated, reserved;
} tni_profile_change;

/* Device work whose time is known. */
typedef struct tni_profile_span {
    int64_t start, end; /* ns, of the device's clock until the profile ends, then of the host's */
    int64_t busy;       /* ns in which something ran */
    int64_t queued;
    uint64_t stream;
    tn_device device;
    const char *name;
    uint32_t thread;
    int32_t is_recorded; /* by the vendor: the times are of the host's clock */
} tni_profile_span;

/* Work that was queued. */
typedef struct tni_profile_pending {
    struct tni_profile_pending *next;
    tn_event *start, *end;
    tni_profile_span span;
    uint64_t number;     /* of the vendor's records, or 0 */
    int32_t is_measured; /* the span has times */
    uint32_t count;
    tni_profile_entry *entries[]; /* the calls around it, innermost first */
} tni_profile_pending;

/* A kernel or copy that the vendor recorded. */
typedef struct tni_profile_activity {
    int64_t start, end; /* ns, of the host's clock */
    uint64_t number;    /* of its work, or 0 */
    uint64_t stream;    /* that of its work, or TNI_PROFILE_OTHERS and the vendor's */
    tn_device device;
    const char *work;               /* its name, or NULL */
    const tni_profile_entry *entry; /* of the profile's table */
} tni_profile_activity;
#define TNI_PROFILE_OTHERS ((uint64_t)1 << 40)

/* The vendor's records of one device. */
typedef struct tni_profile_recording {
    void *handle;     /* the plugin's; NULL: it records nothing */
    tni_vector works; /* tni_profile_pending * of number i + 1; NULL while it is being queued */
} tni_profile_recording;

/* What one thread did. */
typedef struct tni_profile_log {
    uint32_t number;
    int32_t tid;
    tni_profile_table table;
    tni_vector calls;   /* tni_profile_call */
    tni_vector changes; /* tni_profile_change */
    uint64_t dropped;
} tni_profile_log;

struct tn_profile {
    tn_context *ctx;
    tni_handle_mark life;
    uint32_t flags;
    int64_t begin, end;
    tni_vector logs;       /* tni_profile_log * of threads that did something */
    tni_vector spans;      /* tni_profile_span */
    tni_vector activities; /* tni_profile_activity */
    uint64_t dropped;
    uint64_t unmeasured;
    uint64_t lost;
    tni_profile_table table; /* of all threads */
    tn_profile_row *rows;    /* sorted */
    uint32_t row_count;
};

int64_t tni_profile_now(void);
void tni_profile_log_finish(tn_context *ctx, tni_profile_log *log);
/* The entry of a site, made if it is new; NULL without memory. */
tni_profile_entry *tni_profile_entry_find(tn_context *ctx, tni_profile_table *table,
                                          const tni_profile_site *site);
void tni_profile_table_finish(tn_context *ctx, tni_profile_table *table);
/* Makes the table of the whole profile from those of its threads. */
int32_t tni_profile_tabulate(tn_profile *profile);

/* Of one context, from its first profile on. */
typedef struct tni_profile_device tni_profile_device;
typedef struct tni_profiler {
    tn_context *ctx;
    pthread_mutex_t lock;         /* of begin and end, of `threads` */
    _Atomic(uint32_t) generation; /* of the profile that runs; 0: none */
    uint32_t last_generation;
    _Atomic(uint32_t) flags;
    _Atomic(uint64_t) max_events;
    _Atomic(uint64_t) lost;    /* what threads did that there was no memory for a struct of */
    _Atomic(int32_t) is_alone; /* the profile is the only observer of calls */
    int64_t begin;
    struct tni_profile_thread *threads;
    uint32_t thread_count;
    pthread_mutex_t work_lock; /* of what follows; taken after a thread's own */
    tni_profile_device *devices;
    tni_vector spans;
    uint64_t dropped, unmeasured;
} tni_profiler;

/* The thread's entries that are in progress, each once, innermost first; at most `most`. Returns their number, and
 * the thread's number; an entry for work outside all calls if there is none. */
uint32_t tni_profile_open_entries(tni_profiler *p, const char *work, tni_profile_entry **out, uint32_t most,
                                  uint32_t *out_thread);
/* Begins to record on the devices that are open, before their next work. */
void tni_profile_work_open(tni_profiler *p);
/* Waits for all devices with measured work, and moves their spans to the host's clock and to the profile. */
void tni_profile_work_collect(tni_profiler *p, tn_profile *to);

/* profile_activity.c. Under the lock of works, except pop. */
void tni_profile_record_begin(tni_profile_recording *r, tni_device *device);
/* Work that this thread queues from now on, until pop, has the number that it returns; 0: nothing is recorded. */
uint64_t tni_profile_record_push(tni_profile_recording *r, tni_device *device);
void tni_profile_record_pop(tni_device *device);
/* Gives the works that the vendor recorded their times, and the profile what was recorded. The device has been waited for. */
void tni_profile_record_end(tni_profile_recording *r, tni_device *device, uint64_t max_events,
                            tn_profile *to);

#endif
