/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What products and convolutions by oneDNN share: the library of a device, and primitives that plans keep. The library appends
 * the kernels of a primitive to the command list of a queue without barriers, so it works on lists that are in order only.
 */
#ifndef TENON_XPU_DNN_H
#define TENON_XPU_DNN_H

#include "dnnl.h"
#include "plans.h"
#include "xpu.h"

/* The library of one device. Its functions and plans are used with the lock held. */
struct xpu_dnn {
    void *library, *engine; /* engine NULL: the library is not there, or it is not used */
    pthread_mutex_t lock;
    gpu_plans products, windows;
    xpu_queue *queues; /* that have a stream of the library */
#define DNN_DECLARE(result, name, arguments) result(*name) arguments;
    DNNL_VERSION_FUNCTION(DNN_DECLARE)
    DNNL_FUNCTIONS(DNN_DECLARE)
#undef DNN_DECLARE
};

/* How exact the work has to be: a part of keys, without gaps. */
typedef struct xpu_dnn_rules {
    uint32_t by_tf32;   /* float32 may be rounded to TF32 */
    uint32_t adds_half; /* parts of sums of half types may be rounded to these */
    uint32_t is_deterministic;
} xpu_dnn_rules;
xpu_dnn_rules xpu_dnn_rules_of(const tn_call *call, uint32_t dtype);

enum {
    XPU_DNN_OPERANDS = 4,
    XPU_DNN_ALIGNMENT = 64,        /* bytes: its kernels read blocks of that many */
    XPU_DNN_WORKSPACE = 256 << 20, /* bytes that a plan may ask for */
};

/* A primitive and its memory objects, which get their places when it is executed. */
typedef struct xpu_dnn_work {
    void *primitive;
    dnnl_argument arguments[XPU_DNN_OPERANDS + 1]; /* a scratchpad is the last one */
    uint32_t n_operands;
    size_t scratchpad; /* bytes */
} xpu_dnn_work;

/* The device's library with its lock held, for work on the queue; NULL: there is none, or it cannot work there. */
xpu_dnn *xpu_dnn_begin(xpu_device *d, const xpu_queue *q);
void xpu_dnn_end(xpu_dnn *n);

/* A description of a tensor; sizes and strides are in elements. */
int xpu_dnn_describe(const xpu_dnn *n, uint32_t dtype, uint32_t rank, const int64_t *sizes,
                     const int64_t *strides, void **out);
/* Adds an operand to the work; `execute` takes their places in the same order. */
int xpu_dnn_add(const xpu_dnn *n, xpu_dnn_work *w, int argument, const void *description);

/* Makes a descriptor of a primitive with these attributes. */
typedef int xpu_dnn_create(const xpu_dnn *n, const void *user, void *attributes, void **out);
/* Makes the primitive of the work with the attributes that the rules want. */
int xpu_dnn_make(const xpu_dnn *n, xpu_dnn_work *w, xpu_dnn_rules rules, xpu_dnn_create *create,
                 const void *user);
void xpu_dnn_work_finish(const xpu_dnn *n, const xpu_dnn_work *w);

/* A kind of plans: how one is made, which returns a status of the library, and ended. */
typedef struct xpu_dnn_plan_kind {
    size_t key_bytes, plan_bytes;
    int (*make)(const xpu_dnn *n, gpu_plan *p);
    void (*destroy)(const void *library, gpu_plan *p);
} xpu_dnn_plan_kind;
/* The plan of the key, which is made if there is none; NULL: the plugin's own kernels do this work. */
gpu_plan *xpu_dnn_plan(xpu_device *d, xpu_dnn *n, gpu_plans *plans, const xpu_dnn_plan_kind *kind,
                       const void *key);
/* Queues the work. TN_E_UNSUPPORTED: nothing was queued. */
int32_t xpu_dnn_execute(xpu_device *d, xpu_dnn *n, gpu_plan *p, const xpu_dnn_work *w, xpu_queue *q,
                        const tn_call *call, void *const *places);

static inline void *xpu_place(void *memory, uint64_t offset)
{
    return (char *)memory + offset;
}

/* In product.c and convolution.c. */
int32_t xpu_dnn_product(void *device, void *queue, const tn_call *call, const gpu_matrices *m);
int32_t xpu_dnn_convolve(void *device, void *queue, const tn_call *call, const gpu_convolution *c);
void xpu_dnn_destroy_product(const void *library, gpu_plan *p);
void xpu_dnn_destroy_window(const void *library, gpu_plan *p);

#endif
