/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scatters in the order of an index: what their kernels begin with. Where lines are few and long, an item for a line would leave
 * a GPU idle. So the host sorts each line of the index by position (sort.c: gpu_order_index), and an item is an element of a
 * sorted line.
 *
 * The nest is that of `scatter` (memory.cl): dimension 0 is that of the index, operands are out, index, source; scalars[0], [1] and
 * [2] are the stride of out along the index, its size and the operation. `sorted` has the low halves of positions from
 * first_key on and from first_place on which elements of the line they are, line after line; equal ones are in the order of the
 * source. scalars[3] is 1 if all lines have one index, and one order: then neighbouring items are in neighbouring lines.
 * With bit 3 of `immediate` nothing goes to the position values[3].
 */
#ifndef TENON_GPU_SCATTER_H
#define TENON_GPU_SCATTER_H

#include "dialect.h"

/*
 * Element i of line `line` in its order goes to `position`. Each item looks whether its own position is in range: one that is
 * not may stand among others with the same low half, and there is a fault then.
 */
#define GPU_BEGIN_SORTED                                                                                    \
    uint32_t item = gpu_item(), length = nest.sizes[0], lines = nest.numel / length,                        \
             is_shared = (uint32_t)nest.scalars[3];                                                         \
    uint32_t line = is_shared ? item % lines : item / length, i = is_shared ? item / lines : item % length, \
             rest = line;                                                                                   \
    int64_t at[3] = {nest.offsets[0], nest.offsets[1], nest.offsets[2]}, size = (int64_t)nest.scalars[1];   \
    if (item >= nest.numel) return;                                                                         \
    GPU_WALK(nest, 1, nest.rank, rest, at, 3)                                                               \
    GPU_GLOBAL const uint32_t *keys = sorted + first_key + (is_shared ? 0 : (int64_t)line * length);        \
    GPU_GLOBAL const uint32_t *places = sorted + first_place + (is_shared ? 0 : (int64_t)line * length);    \
    GPU_GLOBAL const uint8_t *where = index + at[1] + (int64_t)places[i] * nest.strides[1][0];              \
    int64_t position = nest.dtypes[1] == GPU_I32 ? (int64_t) * (GPU_GLOBAL const int32_t *)where            \
                                                 : *(GPU_GLOBAL const int64_t *)where;                      \
    if ((nest.immediate & 8u) && position == (int64_t)nest.values[3]) return;                               \
    if (position < 0 || position >= size) {                                                                 \
        gpu_fault(fault, GPU_FAULT_INDEX, (int32_t)nest.scalars[2], position, size);                        \
        return;                                                                                             \
    }

#endif
