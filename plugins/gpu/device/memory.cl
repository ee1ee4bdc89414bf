/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What moves elements of any dtype as bits: fill, copy, gather, scatter that overwrites, and the passes of
 * nonzero. An element an item unless a kernel says more. nest.opcode is the size of an element in bytes.
 */
#include "dialect.h"
#include "scatter.h"

/* values[0], values[1]: the element. */
GPU_KERNEL void fill(GPU_GLOBAL uint8_t *out, gpu_nest nest)
{
    uint32_t i = gpu_item(), rest = i;
    int64_t at[1] = {nest.offsets[0]};
    if (i >= nest.numel) return;
    GPU_WALK(nest, 0, nest.rank, rest, at, 1)
    switch (nest.opcode) {
    case 1:
        out[at[0]] = (uint8_t)nest.values[0];
        break;
    case 2:
        *(GPU_GLOBAL uint16_t *)(out + at[0]) = (uint16_t)nest.values[0];
        break;
    case 4:
        *(GPU_GLOBAL uint32_t *)(out + at[0]) = (uint32_t)nest.values[0];
        break;
    case 16:
        *(GPU_GLOBAL uint64_t *)(out + at[0] + 8) = nest.values[1];
        /* fall through */
    default:
        *(GPU_GLOBAL uint64_t *)(out + at[0]) = nest.values[0];
    }
}

GPU_KERNEL void copy(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in, gpu_nest nest)
{
    uint32_t i = gpu_item(), rest = i;
    int64_t at[2] = {nest.offsets[0], nest.offsets[1]};
    if (i >= nest.numel) return;
    GPU_WALK(nest, 0, nest.rank, rest, at, 2)
    gpu_move(out + at[0], in + at[1], nest.opcode);
}

#define GPU_MOVE_ROW(type)                                                                                 \
    if (nest.strides[0][0] == (int64_t)sizeof(type) && nest.strides[1][0] == -(int64_t)sizeof(type)) {     \
        GPU_INDEPENDENT                                                                                    \
        for (uint32_t i = 0; i < nest.sizes[0]; i++)                                                       \
            ((GPU_GLOBAL type *)to)[i] = ((GPU_GLOBAL const type *)from)[-(int64_t)i];                     \
    } else {                                                                                               \
        for (uint32_t i = 0; i < nest.sizes[0]; i++, to += nest.strides[0][0], from += nest.strides[1][0]) \
            *(GPU_GLOBAL type *)to = *(GPU_GLOBAL const type *)from;                                       \
    }

/* As `copy`, for processors: an item is scalars[0] rows of dimension 0, along which it only adds strides. */
GPU_KERNEL void copy_rows(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in, gpu_nest nest)
{
    uint32_t rows = nest.numel / nest.sizes[0], each = (uint32_t)nest.scalars[0], row = gpu_item() * each;
    uint32_t last = row < rows && rows - row < each ? rows : row + each;
    if (row >= rows) return;
    for (; row < last; row++) {
        uint32_t rest = row;
        int64_t at[2] = {nest.offsets[0], nest.offsets[1]};
        GPU_WALK(nest, 1, nest.rank, rest, at, 2)
        GPU_GLOBAL uint8_t *to = out + at[0];
        GPU_GLOBAL const uint8_t *from = in + at[1];
        switch (nest.opcode) {
        case 1:
            GPU_MOVE_ROW(uint8_t)
            break;
        case 2:
            GPU_MOVE_ROW(uint16_t)
            break;
        case 4:
            GPU_MOVE_ROW(uint32_t)
            break;
        default:
            GPU_MOVE_ROW(uint64_t)
        }
    }
}

#define GPU_TILE 16

/* Through a block of its own, so that rows of both sides are read and written at once, whatever their distance. */
#define GPU_MOVE_TILE(type)                                                                                    \
    {                                                                                                          \
        type block[GPU_TILE * GPU_TILE];                                                                       \
        for (uint32_t i = row; i < last_row; i++)                                                              \
            for (uint32_t j = column; j < last_column; j++)                                                    \
                block[(i - row) * GPU_TILE + j - column] =                                                     \
                    *(GPU_GLOBAL const type *)(in + at[1] + (int64_t)i * nest.strides[1][0] + j * sizeof(type)); \
        for (uint32_t j = column; j < last_column; j++)                                                        \
            for (uint32_t i = row; i < last_row; i++)                                                          \
                *(GPU_GLOBAL type *)(out + at[0] + (int64_t)j * nest.strides[0][1] + i * sizeof(type)) =       \
                    block[(i - row) * GPU_TILE + j - column];                                                  \
    }

/* An item is a tile of dimensions 0 and 1, GPU_TILE elements each way; they are contiguous in out and in. */
GPU_KERNEL void transpose(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in, gpu_nest nest)
{
    uint32_t tile = GPU_TILE, down = (nest.sizes[0] + tile - 1) / tile;
    uint32_t across = (nest.sizes[1] + tile - 1) / tile, row = gpu_item() % down * tile;
    uint32_t column = gpu_item() / down % across * tile, rest = gpu_item() / down / across;
    uint32_t last_row = nest.sizes[0] - row < tile ? nest.sizes[0] : row + tile;
    uint32_t last_column = nest.sizes[1] - column < tile ? nest.sizes[1] : column + tile;
    int64_t at[2] = {nest.offsets[0], nest.offsets[1]};
    if (gpu_item() >= (uint64_t)down * across * (nest.numel / nest.sizes[0] / nest.sizes[1])) return;
    GPU_WALK(nest, 2, nest.rank, rest, at, 2)
    switch (nest.opcode) {
    case 1:
        GPU_MOVE_TILE(uint8_t)
        break;
    case 2:
        GPU_MOVE_TILE(uint16_t)
        break;
    case 4:
        GPU_MOVE_TILE(uint32_t)
        break;
    default:
        GPU_MOVE_TILE(uint64_t)
    }
}

/*
 * Sizes are those of the index. Operands: out, self, index. The stride of self in the dimension of the index
 * is 0 in the nest and scalars[0] here; scalars[1] is its size, scalars[2] names the operation in a fault.
 * An item takes scalars[3] elements along dimension 0, or what is left of it: one on GPUs, many on processors. Of rows in one
 * piece it takes values[0].
 */
GPU_KERNEL void gather(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in, GPU_GLOBAL const uint8_t *index,
                       GPU_GLOBAL int32_t *fault, gpu_nest nest)
{
    uint32_t run = (uint32_t)nest.scalars[3], pieces = (nest.sizes[0] + run - 1) / run, rows = nest.numel / nest.sizes[0];
    uint32_t row = gpu_item() / pieces * (uint32_t)nest.values[0], last = row + (uint32_t)nest.values[0];
    uint32_t begin = gpu_item() % pieces * run, end = nest.sizes[0] - begin < run ? nest.sizes[0] : begin + run;
    if (last > rows) last = rows;
    for (; row < last; row++) {
        int64_t at[3] = {nest.offsets[0], nest.offsets[1], nest.offsets[2]}, size = (int64_t)nest.scalars[1];
        int64_t step = (int64_t)nest.scalars[0];
        uint32_t rest = row;
        GPU_WALK(nest, 1, nest.rank, rest, at, 3)
#if GPU_PROCESSOR
        if (nest.opcode == 4 && nest.dtypes[2] == GPU_I64 && nest.strides[0][0] == 4 && nest.strides[2][0] == 8) {
            GPU_GLOBAL uint32_t *to = (GPU_GLOBAL uint32_t *)(out + at[0]);
            GPU_GLOBAL const int64_t *positions = (GPU_GLOBAL const int64_t *)(index + at[2]);
            uint64_t most = 0; /* of negative positions, too */
            for (uint32_t i = begin; i < end; i++)
                most = (uint64_t)positions[i] > most ? (uint64_t)positions[i] : most;
            if (most < (uint64_t)size) { /* no vectors: their gathers are slower than loads on many processors */
                for (uint32_t i = begin; i < end; i++)
                    to[i] = *(GPU_GLOBAL const uint32_t *)(in + at[1] + (int64_t)i * nest.strides[1][0] + positions[i] * step);
                continue;
            }
        }
#endif
        for (uint32_t i = begin; i < end; i++) {
            GPU_GLOBAL const uint8_t *from = index + at[2] + (int64_t)i * nest.strides[2][0];
            int64_t position = nest.dtypes[2] == GPU_I64   ? *(GPU_GLOBAL const int64_t *)from
                               : nest.dtypes[2] == GPU_I32 ? (int64_t) * (GPU_GLOBAL const int32_t *)from
                                                           : (int64_t)gpu_load(from, nest.dtypes[2]);
            if (position < 0 || position >= size)
                gpu_fault(fault, GPU_FAULT_INDEX, (int32_t)nest.scalars[2], position, size);
            else
                gpu_move(out + at[0] + (int64_t)i * nest.strides[0][0],
                         in + at[1] + (int64_t)i * nest.strides[1][0] + position * step, nest.opcode);
        }
    }
}

/*
 * An item is a line along the dimension of the index, which is dimension 0 of the nest, so equal positions
 * have an order: the last one counts. Operands: out, index, source, as above; with bit 2 of `immediate` the
 * element is values[0], values[1].
 */
GPU_KERNEL void scatter(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *index, GPU_GLOBAL const uint8_t *source,
                        GPU_GLOBAL int32_t *fault, gpu_nest nest)
{
    uint32_t i = gpu_item(), rest = i;
    int64_t at[3] = {nest.offsets[0], nest.offsets[1], nest.offsets[2]}, size = (int64_t)nest.scalars[1];
    if (i >= nest.numel / nest.sizes[0]) return;
    GPU_WALK(nest, 1, nest.rank, rest, at, 3)
    for (uint32_t k = 0; k < nest.sizes[0]; k++) {
        int64_t position = gpu_load(index + at[1], nest.dtypes[1]);
        if (position < 0 || position >= size)
            gpu_fault(fault, GPU_FAULT_INDEX, (int32_t)nest.scalars[2], position, size);
        else
            gpu_move(out + at[0] + position * (int64_t)nest.scalars[0], source + at[2], nest.opcode);
        at[1] += nest.strides[1][0];
        at[2] += nest.strides[2][0];
    }
}

#if !GPU_PROCESSOR
/* As `scatter` in the order of an index (scatter.h): an item is an element, and the last one of a position writes. */
GPU_KERNEL void scatter_sorted(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *index, GPU_GLOBAL const uint8_t *source,
                               GPU_GLOBAL int32_t *fault, GPU_GLOBAL const uint32_t *sorted, int64_t first_key,
                               int64_t first_place, gpu_nest nest)
{
    GPU_BEGIN_SORTED
    if (i + 1u < length && keys[i + 1u] == keys[i]) return;
    gpu_move(out + at[0] + position * (int64_t)nest.scalars[0], source + at[2] + (int64_t)places[i] * nest.strides[2][0],
             nest.opcode);
}
#endif

/*
 * Rows of tables, chosen by an index: an item copies scalars[1] elements of a row, or what is left of it; of rows in one piece
 * values[0] of them. sizes[0] is the width of a row, sizes[1] counts the rows that the index chooses of each table; scalars[0]
 * counts the rows of a table. Operands: out, tables, index; all are contiguous.
 */
GPU_KERNEL void gather_rows(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *table, GPU_GLOBAL const uint8_t *index,
                            GPU_GLOBAL int32_t *fault, gpu_nest nest)
{
    uint32_t width = nest.sizes[0], run = (uint32_t)nest.scalars[1], pieces = (width + run - 1) / run;
    uint32_t row = gpu_item() / pieces * (uint32_t)nest.values[0], last = row + (uint32_t)nest.values[0];
    uint32_t begin = gpu_item() % pieces * run, end = width - begin < run ? width : begin + run, rows = nest.numel / width;
    int64_t size = (int64_t)nest.scalars[0];
    if (last > rows) last = rows;
    for (; row < last; row++) {
        uint32_t chosen = row % nest.sizes[1];
        int64_t at = gpu_load(index + nest.offsets[2] + (int64_t)chosen * GPU_BYTES(nest.dtypes[2]), nest.dtypes[2]);
        if (at < 0 || at >= size) {
            if (begin == 0) gpu_fault(fault, GPU_FAULT_INDEX, (int32_t)nest.scalars[2], at, size);
            continue;
        }
        GPU_GLOBAL uint8_t *to = out + nest.offsets[0] + (int64_t)row * width * nest.opcode;
        GPU_GLOBAL const uint8_t *from = table + nest.offsets[1] + (row / nest.sizes[1] * size + at) * width * nest.opcode;
        switch (nest.opcode) {
        case 4:
            GPU_INDEPENDENT
            for (uint32_t i = begin; i < end; i++)
                ((GPU_GLOBAL uint32_t *)to)[i] = ((GPU_GLOBAL const uint32_t *)from)[i];
            break;
        case 2:
            GPU_INDEPENDENT
            for (uint32_t i = begin; i < end; i++)
                ((GPU_GLOBAL uint16_t *)to)[i] = ((GPU_GLOBAL const uint16_t *)from)[i];
            break;
        default:
            for (uint32_t i = begin; i < end; i++)
                gpu_move(to + (int64_t)i * nest.opcode, from + (int64_t)i * nest.opcode, nest.opcode);
        }
    }
}

/* ---- nonzero: an item is a part of the row-major elements, scalars[0] of them ---------------------------- */

GPU_FUNCTION int gpu_is_nonzero(GPU_GLOBAL const uint8_t *p, uint32_t dtype, uint32_t bytes)
{
    uint64_t bits = 0;
    switch (bytes) {
    case 1:
        return *p != 0;
    case 2:
        bits = *(GPU_GLOBAL const uint16_t *)p;
        return (dtype == GPU_F16 || dtype == GPU_BF16 ? bits & 0x7fffu : bits) != 0;
    case 4:
        bits = *(GPU_GLOBAL const uint32_t *)p;
        return (dtype == GPU_F32 ? bits & 0x7fffffffu : bits) != 0;
    default:
        bits = *(GPU_GLOBAL const uint64_t *)p;
        return (dtype == GPU_F64 ? bits << 1 : bits) != 0;
    }
}

GPU_KERNEL void nonzero_count(GPU_GLOBAL const uint8_t *in, GPU_GLOBAL int64_t *counts, int64_t first, gpu_nest nest)
{
    uint32_t part = gpu_item(), length = (uint32_t)nest.scalars[0], begin = part * length, count = 0;
    uint32_t end = nest.numel - begin < length ? nest.numel : begin + length;
    if (part >= (uint32_t)nest.scalars[1]) return;
    for (uint32_t i = begin; i < end; i++) {
        uint32_t rest = i;
        int64_t at[1] = {nest.offsets[0]};
        GPU_WALK(nest, 0, nest.rank, rest, at, 1)
        count += gpu_is_nonzero(in + at[0], nest.dtypes[0], nest.opcode) ? 1u : 0u;
    }
    counts[first + part] = count;
}

#define GPU_COUNTS 8 /* neighbouring ones that an item reads at once */

/* One item, or a group of a GPU: counts become the positions of the parts, and the total follows them. */
GPU_KERNEL void nonzero_sum(GPU_GLOBAL int64_t *counts, int64_t first, int64_t parts)
{
#if GPU_PROCESSOR
    int64_t total = 0;
    if (gpu_item() != 0) return;
    for (int64_t i = 0; i < parts; i++) {
        int64_t count = counts[first + i];
        counts[first + i] = total;
        total += count;
    }
    counts[first + parts] = total;
#else
    GPU_LOCAL int64_t sums[GPU_GROUP_ITEMS];
    uint32_t me = gpu_group_item();
    int64_t total = 0;
    for (int64_t begin = 0; begin < parts; begin += GPU_GROUP_ITEMS * GPU_COUNTS) {
        int64_t own[GPU_COUNTS], sum = 0, at = begin + me * GPU_COUNTS, before = total;
        GPU_UNROLL
        for (uint32_t k = 0; k < GPU_COUNTS; k++) {
            own[k] = at + k < parts ? counts[first + at + k] : 0;
            sum += own[k];
        }
        sums[me] = sum;
        GPU_BARRIER();
        for (uint32_t i = 0; i < GPU_GROUP_ITEMS; i++) {
            before += i < me ? sums[i] : 0;
            total += sums[i];
        }
        GPU_UNROLL
        for (uint32_t k = 0; k < GPU_COUNTS; k++) {
            if (at + k < parts) counts[first + at + k] = before;
            before += own[k];
        }
        GPU_BARRIER();
    }
    if (me == 0) counts[first + parts] = total;
#endif
}

/* Row p of the result has nest.rank coordinates, the outermost dimension first. */
GPU_KERNEL void nonzero_write(GPU_GLOBAL const uint8_t *in, GPU_GLOBAL const int64_t *counts, int64_t first,
                              GPU_GLOBAL uint8_t *out, gpu_nest nest)
{
    uint32_t part = gpu_item(), length = (uint32_t)nest.scalars[0], begin = part * length;
    uint32_t end = nest.numel - begin < length ? nest.numel : begin + length;
    if (part >= (uint32_t)nest.scalars[1]) return;
    int64_t row = counts[first + part];
    for (uint32_t i = begin; i < end; i++) {
        uint32_t rest = i;
        int64_t at[1] = {nest.offsets[0]};
        GPU_WALK(nest, 0, nest.rank, rest, at, 1)
        if (!gpu_is_nonzero(in + at[0], nest.dtypes[0], nest.opcode)) continue;
        rest = i;
        GPU_EACH_INDEX(d, 0, nest.rank,
                       int64_t place = row * (int64_t)nest.scalars[2] + (int64_t)(nest.rank - 1 - d) * (int64_t)nest.scalars[3];
                       *(GPU_GLOBAL int64_t *)(out + nest.offsets[1] + place) = (int64_t)(rest % nest.sizes[d]);
                       rest /= nest.sizes[d];)
        row++;
    }
}
