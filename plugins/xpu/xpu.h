/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the Level Zero driver share. xpu.c has the loader, devices and the table of the driver; memory.c memory;
 * context.c contexts and their events; queue.c queues; commands.c what is queued, and callbacks; program.c modules and
 * launches; dnn.c, product.c and convolution.c oneDNN.
 */
#ifndef TENON_XPU_XPU_H
#define TENON_XPU_XPU_H

#include "gpu.h"
#include "symbols.h"

typedef struct xpu_context xpu_context;
typedef struct xpu_device xpu_device;
typedef struct xpu_pool xpu_pool;
typedef struct xpu_events xpu_events;

/* What signals an event. The driver is asked about those that are appended only: Intel's says of an event that a list in order has
 * signalled before, and that was reset, that it has come, and lets no host signal it. */
enum {
    XPU_EVENT_UNUSED, /* nothing does, or its command could not be appended: nobody waits for it */
    XPU_EVENT_HELD,   /* what is held back (commands.c) */
    XPU_EVENT_APPENDED,
};

/* An event of a pool. It is given back when nobody refers to it, and used again when it has been signalled. */
typedef struct xpu_event {
    struct xpu_event *next; /* in the list of those given back */
    xpu_context *context;
    xpu_device *device; /* that records it */
    xpu_events *of;
    ze_event_handle_t handle;
    uint32_t references;
    int32_t state; /* XPU_EVENT_...; atomic */
    /* Nanoseconds of the host's clock, from which elapsed times know how often the timestamps have wrapped. */
    uint64_t recorded; /* when it was recorded */
    uint64_t reached;  /* when a wait of the host for it ended; 0: it was never waited for; atomic */
} xpu_event;

typedef struct xpu_dnn xpu_dnn; /* dnn.h */
typedef struct xpu_queue xpu_queue;
typedef struct xpu_command xpu_command; /* commands.c */

/* Events of one kind. */
struct xpu_events {
    int32_t has_times; /* timestamps, which make the driver slow to say that an event has not come */
    xpu_pool *pools;
    xpu_event *given_back, **end; /* the oldest first; where the next one goes */
};

/* A context that open devices of one driver share, and its events. */
struct xpu_context {
    xpu_context *next;
    ze_driver_handle_t driver;
    ze_context_handle_t handle;
    uint32_t devices; /* that have it open */
    int32_t is_lost; /* a device of it was lost: those that are opened from then on get another one; atomic */
    pthread_mutex_t lock; /* of the events */
    xpu_events plain, timed;
    pthread_cond_t went_on;   /* an event is no longer held */
    pthread_mutex_t going_on; /* of the list below; one thread at a time appends what was held back */
    xpu_queue *queues;
};

/* All contexts of a plugin. */
typedef struct xpu_contexts {
    pthread_mutex_t lock;
    xpu_context *first;
} xpu_contexts;

struct xpu_device {
    gpu_plugin *plugin;
    const xpu_symbols *ze;
    uint32_t index;
    ze_driver_handle_t driver;
    ze_device_handle_t handle;
    xpu_context *shared;
    ze_context_handle_t context; /* that of `shared` */
    uint32_t ordinal;            /* of the group of queues that computes and copies */
    uint32_t engines;            /* in this group */
    uint32_t queues;             /* made so far, which the engines share in turn; atomic */
    int32_t has_double;
    char build_flags[128]; /* of modules */
    uint64_t memory_bytes; /* of the device alone, if it is a tile of a card */
    uint64_t plain_bytes;  /* larger allocations ask the driver to lift its limit; UINT64_MAX: it cannot */
    uint32_t tile;         /* the number of the tile that the device is, or XPU_NO_TILE */
    int32_t has_address;   /* of its card: */
    ze_pci_address_ext_t address;
    double nanoseconds;        /* of a tick of timestamps */
    uint64_t valid_ticks;      /* the bits of timestamps that count */
    ze_result_t lost;          /* the result with which the device was lost, else 0; atomic */
    uint64_t looked;           /* when it was last asked whether the device hangs; atomic */
    int32_t keeps_order;       /* the driver makes lists in order; atomic */
    pthread_mutex_t launching; /* of the arguments that kernels keep until they are appended */
    pthread_mutex_t lock;      /* of the rest */
    gpu_callbacks callbacks;
    xpu_dnn *dnn;    /* oneDNN, once it is needed; atomic, too */
    void **borrowed; /* memory of other libraries, once for each time it was taken */
    uint32_t n_borrowed, most_borrowed;
};

#define XPU_NO_TILE   UINT32_MAX
#define XPU_ALIGNMENT 64 /* of memory, in bytes */

/* An event that a queue waits for, until the queue has passed the wait. */
typedef struct xpu_wait {
    xpu_event *event;
    uint64_t position;
} xpu_wait;

struct xpu_queue {
    xpu_device *device;
    ze_command_list_handle_t list;
    pthread_mutex_t lock;      /* of the list and the rest */
    int32_t is_wrapped;        /* the list is the program's */
    int32_t is_shared;         /* others have the list, and may append, too */
    int32_t is_ordered;        /* the driver keeps the commands of other libraries in order */
    int32_t is_open;           /* there may be a command behind the last barrier */
    uint64_t queued;           /* pieces of work so far */
    uint64_t finished;         /* of these, the first ones that are known to have finished */
    uint64_t marked;           /* of these, the first ones that the marker stands behind */
    xpu_event *marker;         /* for queries, or NULL */
    xpu_event *reached;        /* for finish, which has to work when there is no memory for an event */
    int32_t is_awaited;        /* a wait for it has failed, so that it may still come */
    pthread_mutex_t finishing; /* one at a time uses the two */
    xpu_event *recorded;       /* the event that was recorded last, or NULL */
    uint64_t recorded_at;      /* its position */
    xpu_wait *waits;
    uint32_t n_waits, most_waits;
    xpu_command *held, **held_end; /* a callback, and what is held back behind it; where the next one goes */
    pthread_cond_t went_on;        /* `held` has changed */
    int32_t failed;                /* the status of a command that was held back and could not be appended */
    xpu_queue *beside;             /* in the list of the context */
    void *dnn_stream;              /* oneDNN's, once it is needed; under the lock of the library */
    xpu_queue *next;               /* that has such a stream */
};

/* A launch of so many groups of so many items. */
typedef struct xpu_launch_of {
    ze_kernel_handle_t kernel;
    uint32_t groups, group, n_arguments;
    const gpu_argument *arguments;
} xpu_launch_of;

/* The status of a call; records its error, in which `what` failed. */
int32_t xpu_check(xpu_device *d, ze_result_t result, const char *what);
/* The name of a result, for errors. */
const char *xpu_result_name(ze_result_t result);
/* Records that there is no memory of the host. */
int32_t xpu_no_memory(const xpu_device *d);

/* Nanoseconds of the host's clock. */
uint64_t xpu_now(void);

/* context.c. Gives the device the context of its driver's open devices, or a new one. */
int32_t xpu_context_open(xpu_device *d, xpu_contexts *of, ze_driver_handle_t driver);
/* The queues of the device are gone. */
void xpu_context_close(xpu_device *d, xpu_contexts *of);
/* An event that is not signalled, with one reference. */
int32_t xpu_event_take(xpu_device *d, int32_t has_times, xpu_event **out);
void xpu_event_retain(xpu_event *e);
int32_t xpu_event_state(const xpu_event *e);
void xpu_event_set_state(xpu_event *e, int32_t state);
/* Waits until the event is not held, and gives its state. */
int32_t xpu_event_settle(xpu_event *e);
void xpu_event_release(void *device, void *event);

/* memory.c */
int32_t xpu_alloc(void *device, uint64_t bytes, void **out_memory);
int32_t xpu_unified_alloc(void *device, uint64_t bytes, void **out_memory, void **out_host);
void xpu_free(void *device, void *memory);
int32_t xpu_retain(void *device, void *memory, uint64_t *out_bytes);
int32_t xpu_host_alloc(void *device, uint64_t bytes, void **out_memory, void **out_host);
void xpu_host_free(void *device, void *memory, void *host);
int32_t xpu_memory_info(void *device, uint64_t *out_free, uint64_t *out_total);

/* commands.c. `begin` takes the queue's lock and puts a barrier before the next command, `end` counts the command and lets go of
 * the lock. Only for a queue that holds nothing back. */
int32_t xpu_begin(xpu_device *d, xpu_queue *q);
int32_t xpu_end(xpu_device *d, xpu_queue *q, ze_result_t result, const char *what);
/* A barrier behind all work, which waits for `wait` and then signals `signal` (each may be NULL); under the lock. */
int32_t xpu_append_barrier(xpu_device *d, xpu_queue *q, xpu_event *signal, const xpu_event *wait);
/* The event comes when all work of the queue has run; under the lock. */
int32_t xpu_queue_signal(xpu_device *d, xpu_queue *q, xpu_event *event);
int32_t xpu_queue_is_held(const xpu_queue *q);
/* Waits until the queue holds nothing back. */
void xpu_queue_settle(xpu_queue *q);
int32_t xpu_queue_wait(void *device, void *queue, void *event);
int32_t xpu_queue_launch(xpu_device *d, xpu_queue *q, const xpu_launch_of *launch);
int32_t xpu_queue_callback(void *device, void *queue, void (*callback)(void *user), void *user);
int32_t xpu_event_record(void *device, void *queue, void **out_event);
int32_t xpu_event_record_as(void *device, void *queue, uint32_t flags, void **out_event);
int32_t xpu_write(void *device, void *queue, void *memory, uint64_t offset, const void *host, uint64_t bytes);
int32_t xpu_read(void *device, void *queue, void *host, void *memory, uint64_t offset, uint64_t bytes);
int32_t xpu_copy(void *device, void *queue, void *to, uint64_t to_offset, void *from, uint64_t from_offset,
                 uint64_t bytes);
int32_t xpu_peer_copy(void *to_device, void *queue, void *to, uint64_t to_offset, void *from_device,
                      void *from, uint64_t from_offset, uint64_t bytes);
int32_t xpu_fill(void *device, void *queue, void *memory, uint64_t offset, uint64_t bytes,
                 const void *pattern, uint32_t pattern_bytes);

/* queue.c */
int32_t xpu_queue_create(void *device, int32_t priority, void **out_queue);
int32_t xpu_queue_wrap(void *device, uint64_t native, void **out_queue);
void xpu_queue_destroy(void *device, void *queue);
/* Gives back events whose waits have passed, without waiting; all that is appended are the first pieces of work up to `position`.
 * Under the lock. */
int32_t xpu_queue_drop_waits(xpu_device *d, xpu_queue *q, uint64_t position);
int32_t xpu_queue_query(void *device, void *queue, int32_t *out_done);
int32_t xpu_queue_finish(void *device, void *queue);
int32_t xpu_native_wait(void *device, uint64_t native_queue, void *event);
int32_t xpu_event_query(void *device, void *event, int32_t *out_done);
int32_t xpu_event_wait(void *device, void *event);
int32_t xpu_event_elapsed(void *device, void *start, void *stop, double *out_ms);

/* dnn.c */
extern const gpu_library_driver xpu_libraries;
/* Before the queue is destroyed. */
void xpu_dnn_forget(xpu_device *d, xpu_queue *q);
/* When the device's queues are gone. */
void xpu_dnn_close(xpu_device *d);

/* program.c */
int32_t xpu_program_create(void *device, const char *source, const char *options, const gpu_binary *binary,
                           void **out_program, gpu_binary *out_binary);
void xpu_program_destroy(void *device, void *program);
int32_t xpu_kernel_create(void *device, void *program, const char *name, void **out_kernel);
void xpu_kernel_destroy(void *device, void *kernel);
/* Gives the kernel its group size and arguments; *what becomes the function that fails. Under `launching`. */
ze_result_t xpu_set_arguments(const xpu_device *d, const xpu_launch_of *launch, const char **what);
int32_t xpu_launch(void *device, void *queue, void *kernel, const gpu_argument *arguments,
                   uint32_t n_arguments, uint64_t items, uint32_t group);

#endif
