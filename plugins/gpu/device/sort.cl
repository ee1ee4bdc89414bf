/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stable sort of lines by merging. Keys are 64-bit numbers in the order of the elements, so one kernel serves
 * all dtypes; beside each stands its position in the line. Short runs are sorted by insertion, then pairs of
 * runs are merged: every element finds its place by a binary search in the other run.
 *
 * Operands of the nest, whose dimension 0 is the sorted one: in, values, positions. scalars: elements of a
 * line, lines, 1 for descending, elements of a run.
 */
#include "dialect.h"

/*
 * Unsigned keys in the order of the elements: NaN is the largest, zeros are equal. Bits of floats are in order
 * once negative ones are turned over.
 */
GPU_FUNCTION uint64_t gpu_ordered(uint64_t bits, uint32_t width, uint64_t infinity)
{
    uint64_t sign = (uint64_t)1 << (width - 1u), magnitude = bits & (sign - 1u);
    if (magnitude > infinity) return ~(uint64_t)0;
    if (magnitude == 0) return sign;
    return bits & sign ? sign - magnitude : sign + magnitude;
}
GPU_FUNCTION uint64_t gpu_key(GPU_GLOBAL const uint8_t *p, uint32_t dtype)
{
    switch (dtype) {
    case GPU_F16:
        return gpu_ordered(*(GPU_GLOBAL const uint16_t *)p, 16, 0x7c00u);
    case GPU_BF16:
        return gpu_ordered(*(GPU_GLOBAL const uint16_t *)p, 16, 0x7f80u);
    case GPU_F32:
        return gpu_ordered(*(GPU_GLOBAL const uint32_t *)p, 32, 0x7f800000u);
    case GPU_F64:
        return gpu_ordered(*(GPU_GLOBAL const uint64_t *)p, 64, (uint64_t)0x7ff << 52);
    default:
        return (uint64_t)gpu_load(p, dtype) ^ (uint64_t)1 << 63;
    }
}

/* An item is a run: reads its keys and sorts them by insertion. */
GPU_KERNEL void sort_runs(GPU_GLOBAL const uint8_t *in, GPU_GLOBAL uint64_t *keys, GPU_GLOBAL int64_t *places,
                          int64_t first_key, int64_t first_place, gpu_nest nest)
{
    uint32_t size = (uint32_t)nest.scalars[0], lines = (uint32_t)nest.scalars[1], run = (uint32_t)nest.scalars[3];
    uint32_t runs = (size + run - 1) / run, item = gpu_item(), line = item / runs, begin = item % runs * run;
    uint32_t end = size - begin < run ? size : begin + run, rest = line;
    int64_t at[1] = {nest.offsets[0]};
    if (item >= runs * lines) return;
    GPU_WALK(nest, 1, nest.rank, rest, at, 1)
    keys += first_key + (int64_t)line * size;
    places += first_place + (int64_t)line * size;
    for (uint32_t i = begin; i < end; i++) {
        uint64_t key = gpu_key(in + at[0] + (int64_t)i * nest.strides[0][0], nest.dtypes[0]);
        uint32_t to = i;
        if (nest.scalars[2]) key = ~key;
        for (; to > begin && keys[to - 1] > key; to--) {
            keys[to] = keys[to - 1];
            places[to] = places[to - 1];
        }
        keys[to] = key;
        places[to] = i;
    }
}

/* An item is an element: the runs of scalars[3] elements are merged in pairs. */
GPU_KERNEL void sort_merge(GPU_GLOBAL uint64_t *to_keys, GPU_GLOBAL int64_t *to_places,
                           GPU_GLOBAL const uint64_t *keys, GPU_GLOBAL const int64_t *places, int64_t first_to_key,
                           int64_t first_to_place, int64_t first_key, int64_t first_place, gpu_nest nest)
{
    uint32_t size = (uint32_t)nest.scalars[0], run = (uint32_t)nest.scalars[3], item = gpu_item();
    uint32_t i = item % size, begin = i / run * run, is_second = i / run % 2u;
    if (item >= nest.numel) return;
    int64_t line = (int64_t)(item / size) * size;
    uint64_t key = keys[first_key + line + i];
    uint32_t other = is_second ? begin - run : begin + run;
    uint32_t low = other < size ? other : size, high = other + run < size && other < size ? other + run : size;
    uint32_t start = low;
    if (low > high) low = high;
    /* Of equal keys those of the first run come first. */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2u;
        uint64_t there = keys[first_key + line + middle];
        if (there < key || (is_second && there == key))
            low = middle + 1u;
        else
            high = middle;
    }
    uint32_t to = (is_second ? begin - run : begin) + (i - begin) + (low - start);
    to_keys[first_to_key + line + to] = key;
    to_places[first_to_place + line + to] = places[first_place + line + i];
}

/* An item is an element: writes values and positions. nest.opcode is the size of an element. */
GPU_KERNEL void sort_write(GPU_GLOBAL const uint8_t *in, GPU_GLOBAL uint8_t *values, GPU_GLOBAL uint8_t *positions,
                           GPU_GLOBAL const int64_t *places, int64_t first_place, gpu_nest nest)
{
    uint32_t size = (uint32_t)nest.scalars[0], item = gpu_item(), i = item % size, rest = item / size;
    int64_t at[3] = {nest.offsets[0], nest.offsets[1], nest.offsets[2]};
    if (item >= nest.numel) return;
    int64_t place = places[first_place + item];
    GPU_WALK(nest, 1, nest.rank, rest, at, 3)
    gpu_move(values + at[1] + (int64_t)i * nest.strides[1][0], in + at[0] + place * nest.strides[0][0], nest.opcode);
    *(GPU_GLOBAL int64_t *)(positions + at[2] + (int64_t)i * nest.strides[2][0]) = place;
}
