/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the vendor's libraries share: how they are found and opened, one of each for a device, and the plans that they keep
 * (plans.h of the family).
 */
#ifndef TENON_CUDA_LIBRARIES_H
#define TENON_CUDA_LIBRARIES_H

#include "cuda_driver.h"
#include "plans.h"

typedef struct cuda_library_kind cuda_library_kind;

/* A library of one device; what a kind adds follows. Its functions and plans are used with the lock held. */
struct cuda_library {
    const cuda_library_kind *kind;
    void *library, *handle; /* handle NULL: the library is not there, or it has failed */
    pthread_mutex_t lock;
    gpu_plans plans;
    CUevent event; /* behind the last work of a kind with one stream; NULL: there was none */
    CUstream last; /* of that work */
};

struct cuda_library_kind {
    const char *name, *work; /* "cuBLASLt", "products": for the log */
    const char *otherwise;   /* who does the work without the library; NULL: the plugin's own kernels */
    const char *files[3];    /* in the order in which they are tried; NULL ends them */
    /* Its functions, which follow cuda_library in its structure. The first ones: int create(void **out_handle), destroy(handle),
     * size_t version(void), const char *status_name(int); a kind that has the slots of these names lacks the last two. */
    const char *const *symbols;
    uint32_t n_symbols;
    size_t size; /* of the structure */
    size_t key_bytes, plan_bytes;
    int32_t has_no_handle;  /* its first functions are others */
    int32_t has_one_stream; /* work on two streams at once would use the same memory of the handle */
    /* Device memory of a handle, if the library ends the process when it cannot allocate or free it; else 0. */
    size_t handle_bytes;
    size_t (*version)(const cuda_library *l); /* 0: it does not tell */
    size_t least;                             /* older versions are not used */
    const char *(*status_name)(const cuda_library *l, int status);
    /* What a failure means: TN_E_UNSUPPORTED, the library does not do such work at all; TN_E_OUT_OF_MEMORY; TN_E_INTERNAL,
     * anything else, which another call may not meet. */
    int32_t (*meaning)(int result);
    void (*destroy_plan)(const cuda_library *l,
                         gpu_plan *p); /* what the library has made of it, which may be a part */
};

/* Parts of a kind: its symbols, from a list of functions X(result, name, arguments). */
#define CUDA_NAME_OF_SYMBOL(result, name, arguments) NAME(name),
#define CUDA_LIBRARY_SYMBOLS(FUNCTIONS)                               \
    .symbols = (const char *const[]){FUNCTIONS(CUDA_NAME_OF_SYMBOL)}, \
    .n_symbols = sizeof((const char *const[]){FUNCTIONS(CUDA_NAME_OF_SYMBOL)}) / sizeof(const char *)
/* Of one that keeps plans: the types of a key and of what follows it, and what ends a plan. */
#define CUDA_LIBRARY_PLANS(key, plan, destroy) \
    .key_bytes = sizeof(key), .plan_bytes = sizeof(plan), .destroy_plan = destroy

/* The device's library, opened by its first call that `may_open` it; NULL if the device has none, or it is not open. */
cuda_library *cuda_library_of(cuda_device *d, const cuda_library_kind *kind, int32_t may_open);

/* Whether the call's stream captures. */
static inline int32_t cuda_captures(const tn_call *call)
{
    return gpu_stream_capture(gpu_stream_of(call)) != NULL;
}

/* Whether a library may be opened and a plan made. Both may allocate, wait and launch: not if the call's stream captures, nor with
 * HIP if any stream does. */
static inline int32_t cuda_may_prepare(const cuda_device *d, const tn_call *call)
{
    return !cuda_captures(call) && !VENDOR_ANY_CAPTURE(d);
}

/* What a library does for a call: with its lock held and the device current. `work` is what the slot was given. */
typedef int32_t cuda_library_work(cuda_device *d, cuda_library *l, void *queue, const tn_call *call,
                                  const void *work);
/*
 * TN_E_UNSUPPORTED if the device has no such library, or it would be opened during a capture. If it has one stream, the queue waits for
 * its last work; captures do not have it then, because nothing orders replays with other work. Work that queues nothing passes NULL
 * as the queue. TN_E_OUT_OF_MEMORY: the library lacks memory to start.
 */
int32_t cuda_library_run(cuda_device *d, const cuda_library_kind *kind, cuda_library_work *run, void *queue,
                         const tn_call *call, const void *work);

/* Asks for the plan of a key (key_bytes, without gaps). `make` fills in a new plan and gives a status of the library. */
typedef struct cuda_plan_request {
    const tn_call *call;
    const void *key;
    int (*make)(cuda_library *l, gpu_plan *p, const void *user);
    const void *user;
} cuda_plan_request;
/*
 * TN_E_UNSUPPORTED, without an error: the plugin's own kernels do the work. That is remembered if the library does not do such work
 * at all, or has failed three times; after another failure, and in a capture, the next call asks again. TN_E_OUT_OF_MEMORY: the library
 * lacks memory.
 */
int32_t cuda_plan_find(const cuda_device *d, cuda_library *l, const cuda_plan_request *r, gpu_plan **out);

/* A line for the program's log, about a device. */
void cuda_tell(const cuda_device *d, const char *text);

/*
 * The status of work that has failed in a function of the library; records its error. The driver is asked, too: a fault that stays
 * with the context is TN_E_DEVICE_LOST, whatever the library calls it.
 */
int32_t cuda_library_error(cuda_device *d, const cuda_library *l, const tn_call *call, int result,
                           const char *function);

/* TN_E_DEVICE_LOST, with its error, if the driver says so of the call's stream; else TN_OK. */
int32_t cuda_library_check_device(cuda_device *d, const tn_call *call, const char *function);

enum {
    CUDA_DNN_WORKSPACE = 256 << 20
}; /* bytes that an engine of MIOpen may ask for; of cuDNN for small operands */

/* An address for the library, and the largest power of two, up to 256, of which it is a multiple. */
static inline void *cuda_place(void *memory, uint64_t offset)
{
    return (char *)memory + offset;
}
static inline uint32_t cuda_alignment(const void *place)
{
    uintptr_t address = (uintptr_t)place | 256;
    return (uint32_t)(address & -address);
}

/* Products, convolutions, factors, transforms: cuBLASLt, cuDNN, cuSOLVER and cuFFT, or AMD's libraries. In blas.c, dnn_convolution.c
 * (of MIOpen dnn.c), solver.c and fft.c. */
int32_t cuda_blas_product(void *device, void *queue, const tn_call *call, const gpu_matrices *m);
int32_t cuda_dnn_convolve(void *device, void *queue, const tn_call *call, const gpu_convolution *c);
/* Attention, which only cuDNN has: dnn_attention.c. */
int32_t cuda_dnn_can_attend(void *device, const tn_call *call, const gpu_attend *a);
int32_t cuda_dnn_attend(void *device, void *queue, const tn_call *call, const gpu_attend *a);
const char *cuda_solver_can_factor(void *device, const tn_call *call, const gpu_factors *f);
int32_t cuda_solver_factor(void *device, void *queue, const tn_call *call, const gpu_factors *f);
int32_t cuda_fft_transform(void *device, void *queue, const tn_call *call, const gpu_transform *t);

#endif
