/* SPDX-License-Identifier: Apache-2.0 */
/* What host code and device code share for upsampling and padding: see arguments.h. */
#ifndef TENON_GPU_RESAMPLE_H
#define TENON_GPU_RESAMPLE_H

/* Which elements of an axis a result reads. */
enum {
    GPU_TAPS_SAME,      /* the one at its own place */
    GPU_TAPS_HALF,      /* the one at half its place */
    GPU_TAPS_NEAREST,   /* the one at its place times the step */
    GPU_TAPS_EXACT,     /* the one at the place of its centre */
    GPU_TAPS_LINEAR,    /* both neighbours of its place */
    GPU_TAPS_CUBIC,     /* four neighbours, by the convolution of Keys (1981) */
    GPU_TAPS_REFLECT,   /* the one at its place, mirrored at the borders */
    GPU_TAPS_REPLICATE, /* the one at its place, or that at the border */
};

#define GPU_RESAMPLE_ALIGN   1u /* the first and the last elements of both sides lie on each other */
#define GPU_RESAMPLE_ROUNDED 2u /* weights are rounded to the dtype */

/* Images are contiguous, [images, depth, height, width]; `in` is the side that taps lie on. */
typedef struct gpu_resample {
    uint32_t images, flags;
    uint32_t in[3], out[3];
    uint32_t kind[3];
    int32_t before[3]; /* padding in front of an axis */
    uint32_t run;      /* results of a row that are computed at once, at most GPU_RESAMPLE_RUN */
    uint32_t reserved;
    uint64_t step[3];   /* the bits of a T: elements of `in` for each of `out` */
    int64_t offsets[2]; /* of the operands, in bytes */
} gpu_resample;
#define GPU_RESAMPLE_RUN  256
#define GPU_RESAMPLE_LINE 1024 /* elements of a row that a run may read */

#endif
