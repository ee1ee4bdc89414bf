/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the CUDA driver share: devices, queues, and calls of CUDA in a device's context. */
#ifndef TENON_CUDA_DRIVER_H
#define TENON_CUDA_DRIVER_H

#include "symbols.h"

typedef struct cuda_event cuda_event;
typedef struct borrowed borrowed;
typedef struct cuda_blas cuda_blas;

typedef struct cuda_device {
    gpu_plugin *plugin;
    const cuda_symbols *cu;
    uint32_t index;
    CUdevice id;
    CUcontext context;
    CUresult lost;  /* the result with which the context was lost, else 0; atomic */
    uint64_t peers; /* bit i: access to the memory of device i is on; under the lock, as the rest */
    pthread_mutex_t lock;
    cuda_event *pool[2]; /* events without and with time */
    borrowed *borrowed;  /* atomic, too: most devices have none */
    void *fill_program, *fill_kernel;
    cuda_blas *blas; /* NULL: no product was computed yet; atomic */
} cuda_device;

typedef struct cuda_queue {
    CUstream stream; /* NULL is one: the default stream of the program */
    int32_t is_wrapped;
} cuda_queue;

static inline CUstream cuda_stream_of(const void *queue)
{
    return ((const cuda_queue *)queue)->stream;
}

/* Makes the device's context current on this thread; 1 if it was not, for cuda_leave. */
int32_t cuda_enter(const cuda_device *d);
void cuda_leave(const cuda_device *d, int32_t was_entered);
/* The status of a result; records the error of one that is not CUDA_SUCCESS, and whether the context is lost. */
int32_t cuda_check(cuda_device *d, CUresult result, const char *what);

/* Calls a function of CUDA with the device's context: CALL gives its result, CHECKED our status and its error. */
#define CALL(d, function, ...)                                 \
    ({                                                         \
        int32_t was_entered = cuda_enter(d);                   \
        CUresult call_result = (d)->cu->function(__VA_ARGS__); \
        cuda_leave(d, was_entered);                            \
        call_result;                                           \
    })
#define CHECKED(d, function, ...) cuda_check(d, CALL(d, function, __VA_ARGS__), #function)

extern const gpu_graph_driver cuda_graphs; /* graph.c */
/* blas.c */
extern const gpu_library_driver cuda_libraries;
void cuda_blas_destroy(cuda_device *d);

#endif
