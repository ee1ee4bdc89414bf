/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How kernels get contiguous runs. Arithmetic kernels know one loop: contiguous operands of the type they
 * compute in, at most CPU_CHUNK elements. Operands that are strided, broadcast or of another dtype are
 * brought into a small buffer that stays in the first-level cache, and results are brought back. So one loop
 * per operation serves all strides and dtypes.
 */
#ifndef TENON_CPU_STAGING_H
#define TENON_CPU_STAGING_H

#include "support/cpu.h"
#include "chunk.h"
#include "kernels/convert.h"

/* More operands than any pointwise operator has. */
#define CPU_MAX_OPERANDS 6

extern const uint8_t cpu_slot_bytes[CPU_SLOT_COUNT];
/* The hub that a dtype is computed in where it has no kernel; see kernels/dtypes.h. */
extern const int8_t cpu_slot_hubs[CPU_SLOT_COUNT];
/* The smallest hub of the same kind that keeps every value: int64 for all integers. */
static inline int32_t cpu_exact_hub(int32_t slot)
{
    return cpu_slot_is_integer(slot) ? CPU_I64 : cpu_slot_hubs[slot];
}

/* Converts n contiguous elements between any two dtypes. The runs do not overlap. */
void cpu_convert(void *to, int32_t to_slot, const void *from, int32_t from_slot, int64_t n);
/* The direct conversion, or NULL where the dtypes are equal or it takes two steps. */
cpu_convert_fn cpu_converter(int32_t to_slot, int32_t from_slot);

/* Moves n elements of `bytes` (1, 2, 4, 8, 16) between two strided runs (strides in bytes). */
void cpu_move(void *to, int64_t to_stride, const void *from, int64_t from_stride, int64_t n, int64_t bytes);
/*
 * Whether an output of so many bytes is written past the caches, so that its lines are not read before they are overwritten.
 * On Zen 5 with a last-level cache of 32 MB this is faster where output and inputs have 24 MB together. Outputs that are
 * much larger than the inputs are slower so at any size.
 */
#define CPU_STREAM_OUT   ((int64_t)8 << 20)
#define CPU_STREAM_BYTES ((int64_t)24 << 20)
static inline bool cpu_streams(int64_t out, int64_t in)
{
    return out >= CPU_STREAM_OUT && out + in >= CPU_STREAM_BYTES && 2 * in >= out;
}
/* Moves a contiguous run past the caches; cpu_stream_end orders it before later stores. */
void cpu_stream(void *to, const void *from, int64_t bytes);
void cpu_stream_end(void);

/* ---- Walking a nest ---------------------------------------------------------------------------------- */

/*
 * Room for one run of one operand; the widest element is 16 bytes. Neighbouring buffers are not a multiple of
 * 4 KiB apart, so their elements do not compete for the same cache sets.
 */
typedef struct cpu_buffer {
    _Alignas(64) char bytes[CPU_CHUNK * 16 + 320];
} cpu_buffer;

typedef struct cpu_plan_operand {
    char *base;
    const int64_t *strides;
    int64_t stride;   /* between elements in linear order if `linear`, else the stride of dimension 0 */
    int32_t slot;     /* dtype in memory */
    int32_t want;     /* dtype that the kernel computes in */
    int32_t bytes;    /* of an element in memory */
    uint8_t linear;   /* the offset is stride * linear position */
    uint8_t streamed; /* output written past the caches */
    uint8_t reserved[2];
} cpu_plan_operand;

/* A loop nest as a kernel sees it: made once for a call, read by all its threads. */
typedef struct cpu_plan {
    uint32_t rank;
    uint32_t n_operands;
    uint32_t n_outputs;
    uint32_t by_rows; /* runs end with dimension 0 */
    uint32_t uniform; /* all inputs of a run are one element, and so are the outputs */
    int64_t numel;
    const int64_t *sizes;
    cpu_plan_operand operands[CPU_MAX_OPERANDS];
} cpu_plan;

/*
 * `want` is the slot that the kernel computes in, for each operand. TN_E_UNSUPPORTED for a dtype without a
 * slot. Dimensions from `rank` on are left out (a reduction walks only the kept ones).
 */
int32_t cpu_plan_make(cpu_plan *plan, const tn_nest *nest, uint32_t rank, const int32_t *want);

/*
 * The same from descriptors of equal shape, outputs first. `axes` is what cpu_axes_make gave: sizes and
 * strides by dimension, innermost first.
 */
typedef struct cpu_axes cpu_axes;
int32_t cpu_plan_axes(cpu_plan *plan, const cpu_axes *axes, const tn_tensor_desc *const *tensors,
                      uint32_t n_outputs, const int32_t *want);

/* Determines how a plan is walked; its rank, sizes and operands are set. */
void cpu_plan_finish(cpu_plan *plan);
/* Declares that each result depends only on the inputs at the same position. */
void cpu_plan_elementwise(cpu_plan *plan);

/* One run of contiguous operands; `position` is that of its first element in the nest. */
typedef void (*cpu_run_fn)(void *user, void *const *pointers, int64_t n, int64_t position);
/* Walks positions [begin, end) of the plan, run by run. */
void cpu_plan_walk(const cpu_plan *plan, int64_t begin, int64_t end, cpu_run_fn fn, void *user);

/* ---- Shapes without a nest --------------------------------------------------------------------------- */

/*
 * Sizes and byte strides of tensors that are walked together, dimension 0 innermost; neighbouring dimensions
 * are joined where possible.
 */
#define CPU_MAX_AXES_TENSORS 3
struct cpu_axes {
    uint32_t rank;
    uint32_t n_tensors;
    int64_t numel;
    int64_t sizes[TN_MAX_RANK];
    int64_t strides[CPU_MAX_AXES_TENSORS][TN_MAX_RANK];
};
/*
 * Tensors are broadcast to the shape of the first one. With `sort` the dimensions are in the order of the
 * first one's strides, else in row-major order, so that positions count as in the tensor.
 */
void cpu_axes_make(cpu_axes *axes, const tn_tensor_desc *const *tensors, uint32_t n, int32_t sort);

/* Converts n strided elements of a dtype into a contiguous run of another; `raw` has room for n
 * elements of from_slot. */
void cpu_gather(void *to, int32_t to_slot, const void *from, int32_t from_slot, int64_t stride, int64_t n,
                char *raw);

#endif
