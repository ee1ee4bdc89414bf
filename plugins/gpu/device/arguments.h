/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What host code and device code share: codes of dtypes, and the struct that kernels get by value. Every
 * member has one size and place on both sides, and no member is a pointer.
 */
#ifndef TENON_GPU_ARGUMENTS_H
#define TENON_GPU_ARGUMENTS_H

/* Macros, because device code tests them. */
#define GPU_BOOL   0
#define GPU_U8     1
#define GPU_I8     2
#define GPU_I16    3
#define GPU_I32    4
#define GPU_I64    5
#define GPU_F16    6
#define GPU_BF16   7
#define GPU_F32    8
#define GPU_F64    9
#define GPU_U16    10
#define GPU_U32    11
#define GPU_DTYPES 12
/* Only device/complex.cl computes with these. */
#define GPU_C64  12
#define GPU_C128 13

#define GPU_RANK     12
#define GPU_OPERANDS 4

/*
 * A loop nest over at most 2^32 - 1 elements, dimension 0 the innermost; strides and offsets are in bytes. The
 * members after `offsets` mean what the kernel says. 560 bytes: every device takes 1024.
 */
typedef struct gpu_nest {
    uint32_t numel;
    uint32_t rank;
    uint32_t opcode;
    uint32_t immediate; /* bit k: operand k is values[k], in no memory */
    uint32_t dtypes[GPU_OPERANDS];
    uint32_t sizes[GPU_RANK];
    int64_t strides[GPU_OPERANDS][GPU_RANK];
    int64_t offsets[GPU_OPERANDS];
    uint64_t values[GPU_OPERANDS]; /* the bits of a T */
    uint64_t scalars[4];           /* the bits of a T, or numbers */
} gpu_nest;

/*
 * Windows that slide over images: the geometry of pooling and convolution. Images are contiguous, [images, channels,
 * depth, height, width]; `in` is the side that the windows lie on, `out` has one position for each window. Images with
 * fewer dimensions have sizes 1 in front. Convolutions have `groups` groups of in_channels and out_channels each;
 * poolings have in_channels == out_channels == 1 and count all channels as images.
 */
typedef struct gpu_window {
    uint32_t images, groups, in_channels, out_channels;
    uint32_t in[3], out[3], kernel_size[3];
    int32_t stride[3], padding[3], dilation[3];
    uint32_t dtype;
    uint32_t flags;     /* GPU_WINDOW_... */
    int64_t divisor;    /* of averages; 0: the elements of the window */
    int64_t offsets[4]; /* of the operands, in bytes */
} gpu_window;
#define GPU_WINDOW_COUNT_PADDING 1u
#define GPU_WINDOW_TRANSPOSED    2u /* of packing: columns are elements of the kernel, rows are positions */

/* Data with channels, [images, channels, inner]: what device/norms.cl works on. */
enum { GPU_CHANNEL_SUMS, GPU_CHANNEL_MOMENTS, GPU_CHANNEL_GRADIENTS };
enum {
    GPU_CHANNEL_OUT, /* places in `offsets`: in bytes, but the next two in elements of T */
    GPU_CHANNEL_STATES,
    GPU_CHANNEL_COEFFICIENTS,
    GPU_CHANNEL_X,
    GPU_CHANNEL_G,
    GPU_CHANNEL_WEIGHT,
    GPU_CHANNEL_BIAS,
    GPU_CHANNEL_RUNNING_MEAN,
    GPU_CHANNEL_RUNNING_VAR,
    GPU_CHANNEL_SAVE_MEAN,
    GPU_CHANNEL_SAVE_INVSTD,
    GPU_CHANNEL_GRAD_WEIGHT,
    GPU_CHANNEL_GRAD_BIAS,
    GPU_CHANNEL_OFFSETS
};
#define GPU_CHANNEL_EVAL         1u
#define GPU_CHANNEL_SAVES        2u
#define GPU_CHANNEL_HAS_WEIGHT   4u
#define GPU_CHANNEL_HAS_BIAS     8u
#define GPU_CHANNEL_HAS_RUNNING  16u
#define GPU_CHANNEL_WANTS_WEIGHT 32u
#define GPU_CHANNEL_WANTS_BIAS   64u
typedef struct gpu_channels {
    uint32_t images, channels, inner;
    uint32_t parts, length; /* of a channel; images of a part */
    uint32_t mode, flags;
    uint32_t weight_dtype, running_dtype, save_dtype;
    uint64_t eps, momentum; /* the bits of a T */
    int64_t offsets[GPU_CHANNEL_OFFSETS];
} gpu_channels;

/* A step of an optimiser on one parameter: device/steps.cl. */
enum {
    GPU_STEP_PARAM, /* places in `offsets` */
    GPU_STEP_GRAD,
    GPU_STEP_FIRST, /* the momentum or the first moment */
    GPU_STEP_SECOND,
    GPU_STEP_MOST,
    GPU_STEP_COUNT,
    GPU_STEP_SCALE,
    GPU_STEP_FOUND,
    GPU_STEP_OFFSETS
};
#define GPU_STEP_MAXIMIZE   1u
#define GPU_STEP_NESTEROV   2u
#define GPU_STEP_FIRST_TIME 4u
#define GPU_STEP_LARGEST    8u
#define GPU_STEP_DECOUPLED  16u
#define GPU_STEP_SCALED     32u
#define GPU_STEP_CHECKED    64u
typedef struct gpu_step {
    uint32_t numel, run, flags, step_dtype;
    uint64_t numbers[6]; /* the bits of a T; the kernel says which */
    int64_t offsets[GPU_STEP_OFFSETS];
} gpu_step;

/*
 * Attention: device/attention.cl. Queries, and all that is like them, have `heads` heads; keys and values have heads / shared.
 * Strides are those of batch, head and row, and like the offsets in bytes.
 */
enum {
    GPU_ATTENTION_QUERY,
    GPU_ATTENTION_KEY,
    GPU_ATTENTION_VALUE,
    GPU_ATTENTION_OUT,
    GPU_ATTENTION_STATS, /* logarithms of sums of exponentials */
    GPU_ATTENTION_MASK,
    GPU_ATTENTION_GRAD,
    GPU_ATTENTION_GRAD_QUERY,
    GPU_ATTENTION_GRAD_KEY,
    GPU_ATTENTION_GRAD_VALUE,
    GPU_ATTENTION_OPERANDS
};
#define GPU_ATTENTION_CAUSAL 1u
#define GPU_ATTENTION_MASKED 2u
typedef struct gpu_attention {
    uint32_t batches, heads, shared, queries, keys, width, flags;
    uint32_t mask_dtype, stats_dtype, reserved;
    uint64_t scale; /* the bits of a T */
    int64_t mask_step;
    int64_t packed[2], delta; /* places in the workspace, in elements of T */
    int64_t strides[GPU_ATTENTION_OPERANDS][3], offsets[GPU_ATTENTION_OPERANDS];
} gpu_attention;

/* Reductions and scans. */
enum {
    GPU_SUM,
    GPU_MEAN,
    GPU_PROD,
    GPU_MAX,
    GPU_MIN,
    GPU_ARGMAX,
    GPU_ARGMIN,
    GPU_ANY,
    GPU_ALL,
    GPU_LAST_MAX, /* of cummax and cummin: of equals the last one counts */
    GPU_LAST_MIN,
    GPU_COUNT,
    GPU_LOG_SUM /* of exponentials; floats only */
};

/* Groups of pointwise operators; each is a program. Macros, because device code tests them. */
#define GPU_GROUP_ARITHMETIC 1
#define GPU_GROUP_ACTIVATION 2
#define GPU_GROUP_FUNCTION   3
#define GPU_GROUP_RARE       4
#define GPU_GROUP_SPECIAL    5
#define GPU_GROUP_GAMMA      6

/* Codes of faults, and the operations that they name. */
enum { GPU_FAULT_NONE, GPU_FAULT_INDEX, GPU_FAULT_DIVISION };
#define GPU_FAULT_WORDS 6 /* code, operation, index, size */

#endif
