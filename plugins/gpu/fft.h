/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of Fourier transforms: how a length is divided, and its tables in the device's memory. */
#ifndef TENON_GPU_FFT_H
#define TENON_GPU_FFT_H

#include "gpu.h"

#include "device/transform.h"

enum { GPU_FFT_PASSES = 4 };
#define GPU_FFT_LONGEST (1u << 26) /* of a line; then its padded length has at most GPU_FFT_PASSES factors */

/* A transform by passes of so many points each. Places of tables are in pairs. */
typedef struct gpu_fft_passes {
    uint32_t size, count;
    uint32_t points[GPU_FFT_PASSES], n_radices[GPU_FFT_PASSES];
    uint32_t radices[GPU_FFT_PASSES][GPU_FFT_RADICES];
    int64_t roots[GPU_FFT_PASSES], fine_at, coarse_at;
    uint32_t fine; /* entries of that table */
} gpu_fft_passes;

struct gpu_fft_plan {
    gpu_fft_plan *next;
    uint32_t size;
    uint8_t type;       /* 32, 64 */
    uint32_t is_padded; /* the passes are of a longer line, with which a chirp is convolved */
    gpu_fft_passes passes;
    int64_t chirp, spectrum; /* the spectrum's factors undo the scale of the two transforms */
    void *memory;
    uint64_t bytes;
    uint32_t users;     /* calls that prepare launches; under the lock, as the next */
    uint32_t is_pinned; /* a graph has its tables */
};

/* The device's plan for lines of `size`; give_back when the call's last launch is queued. */
int32_t gpu_fft_plan_take(const tn_call *call, uint32_t size, uint8_t type, gpu_fft_plan **out);
void gpu_fft_plan_give_back(const tn_call *call, gpu_fft_plan *plan);

#endif
