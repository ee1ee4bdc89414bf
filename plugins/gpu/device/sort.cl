/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stable sorts of lines, and the first elements of sorted lines. Elements become unsigned keys in their order, of 32 or
 * (GPU_WIDE) 64 bits; beside each stands its position in the line.
 *
 * On processors long lines are sorted by their digits of 8 bits, the lowest first: each part of a line counts its digits,
 * the counts become places, and the part moves its elements there. Else short runs are sorted by insertion, then pairs of
 * runs are merged: every element finds its place by a binary search in the other run.
 *
 * Operands of the nest, whose dimension 0 is the sorted one: in, values, positions. scalars: elements of a line, lines, 1
 * for descending, and what the kernel says. Keys are those of line 0, then those of line 1 and so on, from `first` on.
 */
#include "dialect.h"

#define GPU_WIDE (GPU_GROUP == 1)
#if GPU_WIDE
typedef uint64_t K;
#else
typedef uint32_t K;
#endif

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
/* In as many bits as the element has. */
GPU_FUNCTION K gpu_key(GPU_GLOBAL const uint8_t *p, uint32_t dtype, uint64_t is_descending)
{
    uint32_t width = 8u * GPU_BYTES(dtype);
    uint64_t key;
    switch (dtype) {
    case GPU_F16:
        key = gpu_ordered(*(GPU_GLOBAL const uint16_t *)p, 16, 0x7c00u);
        break;
    case GPU_BF16:
        key = gpu_ordered(*(GPU_GLOBAL const uint16_t *)p, 16, 0x7f80u);
        break;
    case GPU_F32:
        key = gpu_ordered(*(GPU_GLOBAL const uint32_t *)p, 32, 0x7f800000u);
        break;
    case GPU_F64:
        key = gpu_ordered(*(GPU_GLOBAL const uint64_t *)p, 64, (uint64_t)0x7ff << 52);
        break;
    default:
        key = (uint64_t)gpu_load(p, dtype);
        if (dtype != GPU_BOOL && dtype != GPU_U8) key ^= (uint64_t)1 << (width - 1u);
    }
    if (is_descending) key = ~key;
    return (K)(width == 64 ? key : key & (((uint64_t)1 << width) - 1u));
}

/* Where line `line` of the first `count` operands begins: at[0] and so on, which hold their offsets. A function would get the
 * nest as a copy, in memory of each item. */
#define GPU_FIND_LINE(at, count)                      \
    {                                                 \
        uint32_t walked = line;                       \
        GPU_WALK(nest, 1, nest.rank, walked, at, count) \
    }

/* ---- By digits --------------------------------------------------------------------------------------------- */

/* scalars[3]: elements of a part; an item is a part of a line. */
#define GPU_BEGIN_PART                                                                                            \
    uint32_t size = (uint32_t)nest.scalars[0], lines = (uint32_t)nest.scalars[1], length = (uint32_t)nest.scalars[3]; \
    uint32_t parts = (size + length - 1) / length, line = gpu_item() / parts, part = gpu_item() % parts;         \
    uint32_t begin = part * length, end = size - begin < length ? size : begin + length;                         \
    if (line >= lines) return;

/* Reads keys of a line. They are sorted by insertion if `is_sorted`, a constant; else they stay in their order. */
GPU_FUNCTION void gpu_read_keys(GPU_GLOBAL const uint8_t *in, GPU_GLOBAL K *keys, GPU_GLOBAL uint32_t *places, uint32_t begin,
                                uint32_t end, int64_t stride, uint32_t dtype, uint64_t is_descending, int is_sorted)
{
    for (uint32_t i = begin; i < end; i++) {
        K key = gpu_key(in + (int64_t)i * stride, dtype, is_descending);
        uint32_t to = i;
        for (; is_sorted && to > begin && keys[to - 1] > key; to--) {
            keys[to] = keys[to - 1];
            places[to] = places[to - 1];
        }
        keys[to] = key;
        places[to] = i;
    }
}

#define GPU_READ_PART(is_sorted)                                                                                     \
    GPU_BEGIN_PART                                                                                                 \
    int64_t at[1] = {nest.offsets[0]}, before = (int64_t)line * size;                                              \
    GPU_FIND_LINE(at, 1)                                                                                           \
    gpu_read_keys(in + at[0], keys + first + before, places + first_place + before, begin, end, nest.strides[0][0], \
                  nest.dtypes[0], nest.scalars[2], is_sorted);

GPU_KERNEL void radix_keys(GPU_GLOBAL const uint8_t *in, GPU_GLOBAL K *keys, GPU_GLOBAL uint32_t *places, int64_t first,
                           int64_t first_place, gpu_nest nest)
{
    GPU_READ_PART(0)
}

/* counts: [line, digit, part]. */
GPU_KERNEL void radix_count(GPU_GLOBAL uint32_t *counts, GPU_GLOBAL const K *keys, int64_t first_count, int64_t first,
                            uint32_t shift, gpu_nest nest)
{
    uint32_t digits[256];
    GPU_BEGIN_PART
    keys += first + (int64_t)line * size;
    counts += first_count + (int64_t)line * 256 * parts + part;
    for (int d = 0; d < 256; d++) digits[d] = 0;
    for (uint32_t i = begin; i < end; i++) digits[keys[i] >> shift & 255u]++;
    for (int d = 0; d < 256; d++) counts[(uint32_t)d * parts] = digits[d];
}

/* An item is a line: counts become the places of the first elements. */
GPU_KERNEL void radix_places(GPU_GLOBAL uint32_t *counts, int64_t first_count, uint32_t parts, uint32_t lines)
{
    uint32_t line = gpu_item(), sum = 0;
    if (line >= lines) return;
    counts += first_count + (int64_t)line * 256 * parts;
    for (uint32_t i = 0; i < 256 * parts; i++) {
        uint32_t count = counts[i];
        counts[i] = sum;
        sum += count;
    }
}

GPU_KERNEL void radix_move(GPU_GLOBAL K *to_keys, GPU_GLOBAL uint32_t *to_places, GPU_GLOBAL const K *keys,
                           GPU_GLOBAL const uint32_t *places, GPU_GLOBAL const uint32_t *counts, int64_t first_to,
                           int64_t first_to_place, int64_t first, int64_t first_place, int64_t first_count,
                           uint32_t shift, gpu_nest nest)
{
    uint32_t next[256];
    GPU_BEGIN_PART
    int64_t before = (int64_t)line * size;
    counts += first_count + (int64_t)line * 256 * parts + part;
    for (int d = 0; d < 256; d++) next[d] = counts[(uint32_t)d * parts];
    to_keys += first_to + before;
    to_places += first_to_place + before;
    keys += first + before;
    places += first_place + before;
    for (uint32_t i = begin; i < end; i++) {
        K key = keys[i];
        uint32_t to = next[key >> shift & 255u]++;
        to_keys[to] = key;
        to_places[to] = places[i];
    }
}

/* ---- By merging -------------------------------------------------------------------------------------------- */

/* An item is a run of scalars[3] elements: reads its keys and sorts them by insertion. */
GPU_KERNEL void sort_runs(GPU_GLOBAL const uint8_t *in, GPU_GLOBAL K *keys, GPU_GLOBAL uint32_t *places, int64_t first,
                          int64_t first_place, gpu_nest nest)
{
    GPU_READ_PART(1)
}

/* An item is an element: the runs of scalars[3] elements are merged in pairs. */
GPU_KERNEL void sort_merge(GPU_GLOBAL K *to_keys, GPU_GLOBAL uint32_t *to_places, GPU_GLOBAL const K *keys,
                           GPU_GLOBAL const uint32_t *places, int64_t first_to, int64_t first_to_place, int64_t first,
                           int64_t first_place, gpu_nest nest)
{
    uint32_t size = (uint32_t)nest.scalars[0], run = (uint32_t)nest.scalars[3], item = gpu_item();
    uint32_t i = item % size, begin = i / run * run, is_second = i / run % 2u;
    if (item >= nest.numel) return;
    int64_t line = (int64_t)(item / size) * size;
    keys += first + line;
    K key = keys[i];
    uint32_t other = is_second ? begin - run : begin + run;
    uint32_t low = other < size ? other : size, high = other + run < size && other < size ? other + run : size;
    uint32_t start = low;
    if (low > high) low = high;
    /* Of equal keys those of the first run come first. */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2u;
        K there = keys[middle];
        if (there < key || (is_second && there == key))
            low = middle + 1u;
        else
            high = middle;
    }
    uint32_t to = (is_second ? begin - run : begin) + (i - begin) + (low - start);
    to_keys[first_to + line + to] = key;
    to_places[first_to_place + line + to] = places[first_place + line + i];
}

/* ---- Results ----------------------------------------------------------------------------------------------- */

/* Where the lines of the three operands begin, and what writes element i of a result's line: the element at `place` of the
 * line, and the place. nest.opcode is its size. */
#define GPU_BEGIN_LINES                                                       \
    int64_t at[3] = {nest.offsets[0], nest.offsets[1], nest.offsets[2]};      \
    GPU_FIND_LINE(at, 3)
#define GPU_PUT_SORTED(i, place)                                                                                          \
    gpu_move(values + at[1] + (int64_t)(i)*nest.strides[1][0], in + at[0] + (int64_t)(place)*nest.strides[0][0], nest.opcode); \
    *(GPU_GLOBAL int64_t *)(positions + at[2] + (int64_t)(i)*nest.strides[2][0]) = (int64_t)(place);

/* The first scalars[3] elements of each line. An item is one of them. */
GPU_KERNEL void sort_write(GPU_GLOBAL const uint8_t *in, GPU_GLOBAL uint8_t *values, GPU_GLOBAL uint8_t *positions,
                           GPU_GLOBAL const uint32_t *places, int64_t first_place, gpu_nest nest)
{
    uint32_t size = (uint32_t)nest.scalars[0], kept = (uint32_t)nest.scalars[3], line = gpu_item() / kept;
    if (line >= (uint32_t)nest.scalars[1]) return;
    uint32_t i = gpu_item() % kept, place = places[first_place + (int64_t)line * size + i];
    GPU_BEGIN_LINES
    GPU_PUT_SORTED(i, place)
}

/* The first scalars[3] elements of each line, without a sort: an item is a line, and keeps the best ones so far in order. */
#define GPU_MOST_SELECTED 64
GPU_KERNEL void select_first(GPU_GLOBAL const uint8_t *in, GPU_GLOBAL uint8_t *values, GPU_GLOBAL uint8_t *positions,
                             gpu_nest nest)
{
    uint32_t size = (uint32_t)nest.scalars[0], kept = (uint32_t)nest.scalars[3], line = gpu_item(), have = 0;
    K best[GPU_MOST_SELECTED];
    uint32_t places[GPU_MOST_SELECTED];
    if (line >= (uint32_t)nest.scalars[1]) return;
    GPU_BEGIN_LINES
    GPU_GLOBAL const uint8_t *from = in + at[0];
    for (uint32_t i = 0; i < size; i++, from += nest.strides[0][0]) {
        K key = gpu_key(from, nest.dtypes[0], nest.scalars[2]);
        if (have == kept && key >= best[kept - 1]) continue;
        uint32_t to = have < kept ? have++ : kept - 1;
        for (; to > 0 && best[to - 1] > key; to--) {
            best[to] = best[to - 1];
            places[to] = places[to - 1];
        }
        best[to] = key;
        places[to] = i;
    }
    for (uint32_t i = 0; i < have; i++) {
        GPU_PUT_SORTED(i, places[i])
    }
}
