/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the CUDA driver share: devices, queues, and calls of CUDA in a device's context. The HIP plugin takes this
 * file and driver.c with its own symbols.h, which gives each name of CUDA here its name in HIP.
 */
#ifndef TENON_CUDA_DRIVER_H
#define TENON_CUDA_DRIVER_H

#include <symbols.h>

typedef struct cuda_event cuda_event;
typedef struct borrowed borrowed;
typedef struct cuda_share cuda_share;
typedef struct cuda_segment cuda_segment;
typedef struct cuda_callback cuda_callback;
typedef struct cuda_library cuda_library; /* libraries.h */

/* callbacks.c: callbacks that have not run yet, and those that were called in the driver's place. */
typedef struct cuda_callbacks {
    pthread_mutex_t lock;
    pthread_cond_t ended; /* one has run */
    cuda_callback *first, *dead;
} cuda_callbacks;

enum { CUDA_EVENTS_OF_CAPTURES = 2 }; /* in the pool */

enum { CUDA_LIBRARIES = 6 }; /* of the vendor, at most; cuDNN is two, of convolutions and of attention */

typedef struct cuda_device {
    gpu_plugin *plugin;
    const cuda_symbols *cu;
    uint32_t index;
    CUdevice id;
    CUcontext context;
    CUresult lost;    /* the result with which the context was lost, else 0; atomic */
    uint64_t peers;   /* bit i: access to the memory of device i is on; under the lock, as the rest */
    uint64_t readers; /* bit i: device i may use the mapped memory of this one; under `mapping` */
    pthread_mutex_t lock;
    pthread_mutex_t mapping; /* of what is mapped, which may take seconds: nothing else waits for it */
    cuda_event *pool[3]; /* events without and with time, and those of captures, which are not used again */
    borrowed *borrowed;  /* atomic, too: most devices have none */
    cuda_share *shares;  /* so is this */
    cuda_segment *segments; /* and this */
    cuda_callbacks callbacks;
    void *fill_program, *fill_kernel;
    cuda_library *libraries[CUDA_LIBRARIES]; /* in the order in which they were first needed; atomic */
    const void *starved; /* the kind of a library that has just lacked memory to start, else NULL; atomic */
    /* Of ../hip/captures.c; both atomic. */
    uint32_t *captures; /* under way, on all devices of the context */
    int32_t kernels_in_captures;
} cuda_device;

struct cuda_event {
    CUevent event;
    cuda_event *next; /* in the pool */
    CUstream stream;  /* of the record */
    uint32_t has_time;
    uint32_t is_captured; /* it was recorded in a capture, of which VENDOR_CAPTURES knows */
    uint32_t is_shared;   /* with other processes: it is not of the pool */
};

typedef struct cuda_queue {
    CUstream stream; /* NULL is one: the default stream of the program */
    int32_t is_wrapped;
} cuda_queue;

static inline CUstream cuda_stream_of(const void *queue)
{
    return ((const cuda_queue *)queue)->stream;
}

#define NAME(x)    NAME_OF(x) /* the symbol behind a macro of the vendor's header */
#define NAME_OF(x) #x

/* The status of a result; records the error of one that is not CUDA_SUCCESS, and whether the context is lost. */
int32_t cuda_check(cuda_device *d, CUresult result, const char *what);

/* Calls a function of CUDA with the device's context: CALL gives its result, CHECKED our status and its error. */
#define CALL(d, function, ...)                                                             \
    ({                                                                                     \
        int32_t was_entered = cuda_enter(d);                                               \
        CUresult call_result =                                                             \
            was_entered < 0 ? CUDA_ERROR_INVALID_CONTEXT : (d)->cu->function(__VA_ARGS__); \
        VENDOR_FORGET_ERROR(d, call_result);                                               \
        cuda_leave(d, was_entered);                                                        \
        call_result;                                                                       \
    })
#define CHECKED(d, function, ...) cuda_check(d, CALL(d, function, __VA_ARGS__), NAME(function))

/* An attribute of a device, or 0. */
int32_t cuda_number_of(const cuda_symbols *cu, CUdevice id, CUdevice_attribute what);

/* The device of an index of the plugin. */
CUdevice cuda_device_id(const gpu_plugin *plugin, uint32_t index);

/* Lets a device use all memory of the other one, now and later: before the first copy between them, and for collectives. */
int32_t cuda_open_peer(cuda_device *d, cuda_device *other);

/*
 * Makes the device current on this thread, and lets the thread call what a capture that another library made forbids: without
 * that, an allocation here would fail, and invalidate the capture there. Gives less than 0 if the device cannot be current; cuda_leave
 * takes what it gave.
 */
int32_t cuda_enter(const cuda_device *d);
void cuda_leave(const cuda_device *d, int32_t was_entered);

/* What each vendor does in its own way: cuda.c, or hip.c of the HIP plugin. */
/* Makes the device current on this thread. Gives 0 if it was current, less if it cannot be; cuda_reset_current takes what it gave. */
int32_t cuda_set_current(const cuda_device *d);
void cuda_reset_current(const cuda_device *d, int32_t was_set);
/* Sets the device's context. */
int32_t cuda_open(cuda_device *d);
void cuda_close(cuda_device *d);
/* The context of a stream that the plugin has not made. */
int32_t cuda_stream_context(cuda_device *d, CUstream stream, CUcontext *out);
const char *cuda_result_name(const cuda_symbols *cu, CUresult result);
int32_t cuda_status_of(CUresult result);
/* A result that a lost context has, and a wrong argument, too. */
int32_t cuda_is_doubtful(CUresult result);
/* Whether the installed driver runs the plugin's programs; else writes the reason. */
int32_t cuda_driver_fits(const cuda_symbols *cu, char *reason, size_t size);
int32_t cuda_device_fits(const cuda_symbols *cu, CUdevice id);
void cuda_write_architecture(const cuda_symbols *cu, CUdevice id, char *out, size_t size);

/* The driver calls cuda_callback_run when the stream comes to it. */
int32_t cuda_host_function(cuda_device *d, CUstream stream, cuda_callback *one);

/* callbacks.c */
void cuda_callback_run(cuda_callback *one);
void cuda_callbacks_init(cuda_callbacks *c);
void cuda_callbacks_finish(cuda_callbacks *c);
int32_t cuda_queue_callback(void *device, void *queue, void (*callback)(void *user), void *user);
/* Before a queue is destroyed: calls what the driver has not called and, behind a fault, never will. */
void cuda_callbacks_end(cuda_device *d, const void *queue);

/* driver.c: destroys a list of events; launches a kernel of which no item does anything. */
void cuda_events_destroy(cuda_device *d, cuda_event *first);
int32_t cuda_launch_nothing(cuda_device *d, CUstream stream);

/* hip.c: waits for an event, which other threads may ask meanwhile. */
CUresult hip_wait(cuda_device *d, CUevent event);
/* captures.c of the HIP plugin, by the macros of its symbols.h. */
/* Before a capture begins: TN_E_UNSUPPORTED if the runtime does not capture kernels. */
int32_t hip_capture_begins(cuda_device *d);
/* Behind it. If its end has failed, its streams run work again. */
void hip_capture_ended(cuda_device *d, CUstream stream, CUresult result);
/* Whether any stream of the context captures, and whether this one does. Captures of the program's own are not counted. */
int32_t hip_any_capture(const cuda_device *d);
int32_t hip_captures(cuda_device *d, CUstream stream);

extern const gpu_graph_driver cuda_graphs;              /* graph.c */
extern const tn_collectives_interface cuda_collectives; /* nccl.c */
extern const tn_x_activity_interface cuda_activities;   /* activity.c */
/* ranges.c */
int32_t cuda_range_begin(const char *name);
void cuda_range_end(void);
/* cuda.c: the slot of graphs. */
int32_t cuda_graph_update(void *device, void *executable, void *graph);
/* managed.c */
uint32_t cuda_has_managed(const cuda_symbols *cu, CUdevice id);
int32_t cuda_managed_alloc(void *device, uint64_t bytes, void **out_memory, void **out_host);
/* mapped.c: allows another device to use all mapped memory of this one, now and later. */
int32_t cuda_mapped_admit(cuda_device *d, const cuda_device *reader);
/* share.c */
extern const gpu_share_driver cuda_shares;
/* Frees memory that processes share; 0 if it is other memory. */
int32_t cuda_share_free(cuda_device *d, const void *memory);
/* segments.c: memory that grows. */
int32_t cuda_segment_reserve(void *device, uint64_t bytes, void **out_memory);
int32_t cuda_segment_resize(void *device, void *memory, uint64_t bytes);
/* Frees it with what is mapped; 0 if it is other memory. */
int32_t cuda_segment_free(cuda_device *d, const void *memory);
extern const gpu_library_driver cuda_libraries;
void cuda_libraries_close(cuda_device *d);

#endif
