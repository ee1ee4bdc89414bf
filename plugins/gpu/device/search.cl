/* SPDX-License-Identifier: Apache-2.0 */
/* Places in sorted lines. */
#include "dialect.h"

#define GPU_SEARCH_RIGHT  1u
#define GPU_SEARCH_INT32  2u /* the results are int32 */
#define GPU_SEARCH_SORTER 4u /* the lines are in order if they are read by the sorter */

/*
 * An item is a value: the first place of its line whose element is not below it or, GPU_SEARCH_RIGHT, is above it. Operands: out,
 * sorted lines, sorter, values; all are contiguous. scalars: elements of a line, values that belong to a line (0: there is one
 * line), flags.
 */
GPU_KERNEL void search_sorted(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *sorted, GPU_GLOBAL const uint8_t *sorter,
                              GPU_GLOBAL const uint8_t *values, GPU_GLOBAL int32_t *fault, gpu_nest nest)
{
    uint32_t i = gpu_item(), size = (uint32_t)nest.scalars[0], each = (uint32_t)nest.scalars[1];
    uint32_t flags = (uint32_t)nest.scalars[2], low = 0, high = size;
    if (i >= nest.numel) return;
    int64_t line = each ? (int64_t)(i / each) * size : 0;
    T x = gpu_load(values + nest.offsets[3] + (int64_t)i * GPU_BYTES(nest.dtypes[3]), nest.dtypes[3]);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2u;
        int64_t place = middle;
        if (flags & GPU_SEARCH_SORTER)
            place = *(GPU_GLOBAL const int64_t *)(sorter + nest.offsets[2] + (line + middle) * 8);
        if (place < 0 || place >= (int64_t)size) {
            gpu_fault(fault, GPU_FAULT_INDEX, (int32_t)nest.opcode, place, size);
            return;
        }
        T y = gpu_load(sorted + nest.offsets[1] + (line + place) * GPU_BYTES(nest.dtypes[1]), nest.dtypes[1]);
        /* Where NaN is compared, the search goes to the right, as on the CPU. */
        if (flags & GPU_SEARCH_RIGHT ? !(y > x) : !(y >= x))
            low = middle + 1u;
        else
            high = middle;
    }
    if (flags & GPU_SEARCH_INT32)
        *(GPU_GLOBAL int32_t *)(out + nest.offsets[0] + (int64_t)i * 4) = (int32_t)low;
    else
        *(GPU_GLOBAL int64_t *)(out + nest.offsets[0] + (int64_t)i * 8) = (int64_t)low;
}
