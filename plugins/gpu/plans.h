/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of the vendor's libraries. A plan is what a library has chosen for one kind of work (sizes, strides, dtype, flags); it is
 * kept under its key, since choosing is slow. Callers have a lock of their own.
 */
#ifndef TENON_GPU_PLANS_H
#define TENON_GPU_PLANS_H

#include "gpu.h"

typedef struct gpu_plan {
    struct gpu_plan *next;
    int32_t is_supported; /* 0: the plugin's own kernels do this work */
    int32_t is_pinned;    /* a graph may have code or memory of it: it stays until the library closes */
    int32_t failures;     /* how often the library failed to make it, as it did the last time */
} gpu_plan;               /* the key follows, then what the library needs */

enum {
    GPU_PLAN_BUCKETS = 256,
    GPU_PLANS = 4096 /* as many are kept; then all are made anew */
};

typedef struct gpu_plans {
    gpu_plan *buckets[GPU_PLAN_BUCKETS];
    uint32_t count, pinned;
} gpu_plans;

/* The plan of a key, which has no gaps, or NULL: there is none yet. */
gpu_plan *gpu_plan_find(const gpu_plans *plans, const void *key, size_t key_bytes);
/* A new plan of so many bytes with the key, otherwise zero; NULL without host memory. */
gpu_plan *gpu_plan_add(gpu_plans *plans, const void *key, size_t key_bytes, size_t plan_bytes);
/* A captured call uses the plan. */
void gpu_plan_pin(gpu_plans *plans, gpu_plan *p);
/* Whether there are GPU_PLANS plans or more, not counting pinned ones. */
int32_t gpu_plans_are_full(const gpu_plans *plans);
/* Forgets all plans that are not pinned; `destroy` ends what the library has made of one. */
void gpu_plans_make_room(gpu_plans *plans, void (*destroy)(const void *library, gpu_plan *p),
                         const void *library);
/* Forgets all plans. */
void gpu_plans_clear(gpu_plans *plans, void (*destroy)(const void *library, gpu_plan *p),
                     const void *library);

/* A convolution but for its memory, without gaps. A library needs the last `axes` of the window, 2 or 3. */
typedef struct gpu_window_key {
    uint32_t pass, dtype, axes, images, groups, in_channels, out_channels;
    uint32_t in[3], out[3], kernel_size[3];
    int32_t stride[3], padding[3], dilation[3];
} gpu_window_key;
gpu_window_key gpu_window_key_of(const gpu_convolution *c);
/* The sizes of the input (0), the weight (1) or the output (2); returns how many there are. */
uint32_t gpu_window_sizes(const gpu_window_key *k, uint32_t which, int64_t sizes[5]);

#endif
