/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise operators. `pointwise` runs every operator of its group, every mix of dtypes and any strides, an
 * element an item: it needs one compilation for all small calls. `dense` is compiled for one operator and its
 * dtypes (GPU_OPCODE, GPU_DTYPE_0, ...). On processors (GPU_PROCESSOR is 1) an item has a run of a row, whose
 * operands are contiguous or, in GPU_SPLAT, one value; on GPUs an item has GPU_RUN elements of contiguous
 * operands, a part of the launch apart, so that neighbouring items take neighbouring elements. With GPU_DENSE
 * instead of GPU_OPCODE `dense` runs every operator of its group for operands of the dtype GPU_DTYPE: what drivers
 * with programs from the build have.
 */
#include "exponential.h"
#include "formulas.h"

#if !defined(GPU_OPCODE) && !defined(GPU_DENSE)
GPU_KERNEL void pointwise(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in0, GPU_GLOBAL const uint8_t *in1,
                          GPU_GLOBAL const uint8_t *in2, GPU_GLOBAL int32_t *fault, gpu_nest nest)
{
    uint32_t i = gpu_item(), rest = i;
    int64_t at[GPU_OPERANDS] = {nest.offsets[0], nest.offsets[1], nest.offsets[2], nest.offsets[3]};
    if (i >= nest.numel) return;
    GPU_WALK(nest, 0, nest.rank, rest, at, GPU_OPERANDS)
    T a = nest.immediate & 2u ? gpu_value(nest.values[1]) : gpu_load(in0 + at[1], nest.dtypes[1]);
    T b = nest.immediate & 4u ? gpu_value(nest.values[2]) : gpu_load(in1 + at[2], nest.dtypes[2]);
    T c = nest.immediate & 8u ? gpu_value(nest.values[3]) : gpu_load(in2 + at[3], nest.dtypes[3]);
#if GPU_GROUP == GPU_GROUP_ARITHMETIC && !GPU_IS_FLOAT
    if (b == 0 && (nest.opcode == GPU_OP_div_trunc || nest.opcode == GPU_OP_floor_divide ||
                   nest.opcode == GPU_OP_remainder || nest.opcode == GPU_OP_fmod))
        gpu_fault(fault, GPU_FAULT_DIVISION, 0, 0, 0);
#endif
    gpu_store(out + at[0], nest.dtypes[0],
              gpu_compute(nest.opcode, a, b, c, gpu_value(nest.scalars[0]), gpu_value(nest.scalars[1]),
                          gpu_value(nest.scalars[2])));
}
#else

#if defined(GPU_DENSE)
#define GPU_OPCODE  nest.opcode
#define GPU_SPLAT   nest.immediate
#define GPU_DTYPE_0 GPU_DTYPE
#define GPU_DTYPE_1 GPU_DTYPE
#define GPU_DTYPE_2 GPU_DTYPE
#define GPU_DTYPE_3 GPU_DTYPE
#endif
/* Operand `p` at element i of a row, or the value that is the same for all of it. */
#define GPU_IN(k, p, value, i) \
    (GPU_SPLAT >> (k) & 1 ? (value) : gpu_load((p) + (int64_t)(i) * GPU_BYTES(GPU_DTYPE_##k), GPU_DTYPE_##k))

#if GPU_PROCESSOR
/* A value in no memory, or that of an operand which is broadcast along the row. */
#define GPU_ONE(k, p) \
    (GPU_IMMEDIATE >> (k) & 1 ? gpu_value(nest.values[k]) : GPU_SPLAT >> (k) & 1 ? gpu_load(p, GPU_DTYPE_##k) : 0)
#define GPU_ARE_HALVES (GPU_TYPE == 32 && (GPU_DTYPE_0 == GPU_F16 || GPU_DTYPE_1 == GPU_F16))

/* 16 elements at once, so that conversions are vectors. */
GPU_FUNCTION void gpu_load16(T *to, GPU_GLOBAL const uint8_t *p, uint32_t dtype)
{
#if GPU_ARE_HALVES
    if (dtype == GPU_F16) {
        gpu_half_load16(to, p);
        return;
    }
#endif
    for (int j = 0; j < 16; j++) to[j] = gpu_load(p + j * GPU_BYTES(dtype), dtype);
}
#define GPU_IN16(to, k, p, value, i)                                    \
    if (GPU_SPLAT >> (k) & 1)                                           \
        for (int j = 0; j < 16; j++) (to)[j] = (value);                 \
    else                                                                \
        gpu_load16(to, (p) + (int64_t)(i) * GPU_BYTES(GPU_DTYPE_##k), GPU_DTYPE_##k);

/*
 * Dimension 0 of the nest is a row. An item is one of the scalars[3] pieces of a row, GPU_RUN elements or the rest;
 * or, of rows in one piece, values[0] of them.
 */
GPU_KERNEL void dense(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in0, GPU_GLOBAL const uint8_t *in1,
                      GPU_GLOBAL const uint8_t *in2, gpu_nest nest)
{
    T x = gpu_value(nest.scalars[0]), y = gpu_value(nest.scalars[1]), z = gpu_value(nest.scalars[2]);
    uint32_t pieces = (uint32_t)nest.scalars[3], rows = nest.numel / nest.sizes[0], each = (uint32_t)nest.values[0];
    uint32_t begin = gpu_item() % pieces * GPU_RUN, row = gpu_item() / pieces * each;
    uint32_t end = nest.sizes[0] - begin < GPU_RUN ? nest.sizes[0] : begin + GPU_RUN;
    uint32_t last = rows - row < each ? rows : row + each;
    if (row >= rows) return;
    for (; row < last; row++) {
        uint32_t rest = row, i = begin;
        int64_t at[GPU_OPERANDS] = {nest.offsets[0], nest.offsets[1], nest.offsets[2], nest.offsets[3]};
        GPU_WALK(nest, 1, nest.rank, rest, at, GPU_OPERANDS)
        GPU_GLOBAL uint8_t *o = out + at[0];
        GPU_GLOBAL const uint8_t *p = in0 + at[1], *q = in1 + at[2], *r = in2 + at[3];
        T u = GPU_ONE(1, p), v = GPU_ONE(2, q), w = GPU_ONE(3, r);
#if GPU_ARE_HALVES
        for (; i + 16 <= end; i += 16) {
            T a[16], b[16], c[16];
            GPU_IN16(a, 1, p, u, i)
            GPU_IN16(b, 2, q, v, i)
            GPU_IN16(c, 3, r, w, i)
            for (int j = 0; j < 16; j++) a[j] = gpu_compute(GPU_OPCODE, a[j], b[j], c[j], x, y, z);
#if GPU_DTYPE_0 == GPU_F16
            gpu_half_store16(o + (int64_t)i * 2, a);
#else
            for (int j = 0; j < 16; j++)
                gpu_store(o + (int64_t)(i + j) * GPU_BYTES(GPU_DTYPE_0), GPU_DTYPE_0, a[j]);
#endif
        }
#endif
        GPU_INDEPENDENT
        for (uint32_t k = i; k < end; k++) {
            T a = GPU_IN(1, p, u, k), b = GPU_IN(2, q, v, k), c = GPU_IN(3, r, w, k);
            gpu_store(o + (int64_t)k * GPU_BYTES(GPU_DTYPE_0), GPU_DTYPE_0,
                      gpu_compute(GPU_OPCODE, a, b, c, x, y, z));
        }
    }
}
#else
/* All operands are contiguous, and the number of elements is a multiple of GPU_RUN and the group. */
GPU_KERNEL void dense(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in0, GPU_GLOBAL const uint8_t *in1,
                      GPU_GLOBAL const uint8_t *in2, gpu_nest nest)
{
    T x = gpu_value(nest.scalars[0]), y = gpu_value(nest.scalars[1]), z = gpu_value(nest.scalars[2]);
    T u = gpu_value(nest.values[1]), v = gpu_value(nest.values[2]), w = gpu_value(nest.values[3]);
    uint32_t step = nest.numel / GPU_RUN;
    out += nest.offsets[0];
    in0 += nest.offsets[1];
    in1 += nest.offsets[2];
    in2 += nest.offsets[3];
    for (uint32_t k = 0; k < GPU_RUN; k++) {
        uint32_t i = gpu_item() + k * step;
        T a = GPU_IN(1, in0, u, i), b = GPU_IN(2, in1, v, i), c = GPU_IN(3, in2, w, i);
        gpu_store(out + (int64_t)i * GPU_BYTES(GPU_DTYPE_0), GPU_DTYPE_0, gpu_compute(GPU_OPCODE, a, b, c, x, y, z));
    }
}
#endif
#endif
