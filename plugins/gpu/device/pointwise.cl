/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise operators. `pointwise` runs every operator of its group, every mix of dtypes and any strides, an
 * element an item: it needs one compilation for all small calls. `dense` is compiled for one operator and its
 * dtypes (GPU_OPCODE, GPU_OUT, GPU_IN_0, ...) and runs contiguous operands; GPU_RUN elements an item,
 * neighbouring ones where GPU_CONTIGUOUS_RUNS is 1 (processors), else a group's width apart (GPUs).
 */
#include "formulas.h"

#if !defined(GPU_OPCODE)
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
#endif
