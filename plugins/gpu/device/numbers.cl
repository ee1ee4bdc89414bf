/* SPDX-License-Identifier: Apache-2.0 */
/* What computes a little on elements of type T: copies that convert, iota, scatter that combines, products. */
#include "dialect.h"
#include "scatter.h"

GPU_KERNEL void convert(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in, gpu_nest nest)
{
    uint32_t i = gpu_item(), rest = i;
    int64_t at[2] = {nest.offsets[0], nest.offsets[1]};
    if (i >= nest.numel) return;
    GPU_WALK(nest, 0, nest.rank, rest, at, 2)
    gpu_store(out + at[0], nest.dtypes[0], gpu_load(in + at[1], nest.dtypes[1]));
}

/* scalars: start, step. */
GPU_KERNEL void iota(GPU_GLOBAL uint8_t *out, gpu_nest nest)
{
    uint32_t i = gpu_item(), rest = i;
    int64_t at[1] = {nest.offsets[0]};
    if (i >= nest.numel) return;
    GPU_WALK(nest, 0, nest.rank, rest, at, 1)
    gpu_store(out + at[0], nest.dtypes[0], gpu_value(nest.scalars[0]) + (T)i * gpu_value(nest.scalars[1]));
}

#if GPU_PROCESSOR
#define GPU_OWN_DTYPE (GPU_TYPE == 32 ? GPU_F32 : GPU_TYPE == 64 ? GPU_F64 : GPU_I64)

/* Adds a line of elements of the dtype `code` to the places of an int64 index. */
#define GPU_ADD_LINE(label, code)                                                                            \
    label:                                                                                                   \
    for (uint32_t k = 0; k < nest.sizes[0]; k++) {                                                           \
        int64_t position = *(GPU_GLOBAL const int64_t *)(index + at[1] + (int64_t)k * nest.strides[1][0]);   \
        GPU_GLOBAL uint8_t *to = out + at[0] + position * (int64_t)nest.scalars[0];                          \
        if (position < 0 || position >= size)                                                                \
            gpu_fault(fault, GPU_FAULT_INDEX, (int32_t)nest.scalars[2], position, size);                     \
        else                                                                                                 \
            gpu_store(to, code, gpu_load(to, code) + gpu_load(source + at[2] + (int64_t)k * nest.strides[2][0], code)); \
    }                                                                                                        \
    return;

/*
 * scatter_combine of sums, where all elements of a row have one index: an item adds scalars[3] neighbouring columns, or what is
 * left of them, of all rows. Dimension 0 of the nest counts rows, dimension 1 columns, which are contiguous, of type T.
 */
GPU_KERNEL void scatter_add_rows(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *index, GPU_GLOBAL const uint8_t *source,
                                 GPU_GLOBAL int32_t *fault, gpu_nest nest)
{
    uint32_t width = nest.sizes[1], run = (uint32_t)nest.scalars[3], pieces = (width + run - 1) / run;
    uint32_t begin = gpu_item() % pieces * run, count = width - begin < run ? width - begin : run, rest = gpu_item() / pieces;
    int64_t at[3] = {nest.offsets[0], nest.offsets[1], nest.offsets[2]}, size = (int64_t)nest.scalars[1];
    if (rest >= nest.numel / nest.sizes[0] / width) return;
    GPU_WALK(nest, 2, nest.rank, rest, at, 3)
    for (uint32_t k = 0; k < nest.sizes[0]; k++) {
        int64_t position = gpu_load(index + at[1] + (int64_t)k * nest.strides[1][0], nest.dtypes[1]);
        if (position < 0 || position >= size) {
            gpu_fault(fault, GPU_FAULT_INDEX, (int32_t)nest.scalars[2], position, size);
            continue;
        }
        GPU_GLOBAL T *to = (GPU_GLOBAL T *)(out + at[0] + position * (int64_t)nest.scalars[0]) + begin;
        GPU_GLOBAL const T *from = (GPU_GLOBAL const T *)(source + at[2] + (int64_t)k * nest.strides[2][0]) + begin;
        GPU_INDEPENDENT
        for (uint32_t i = 0; i < count; i++) to[i] += from[i];
    }
}
#endif

/* What a reduction makes of what is there and x. */
GPU_FUNCTION T gpu_combined(uint32_t reduction, T old, T x)
{
    if (reduction == GPU_SUM || reduction == GPU_MEAN) return old + x;
    if (reduction == GPU_PROD) return old * x;
    if (reduction == GPU_MAX) return is_nan(old) || old > x ? old : x;
    return is_nan(old) || old < x ? old : x; /* GPU_MIN */
}

/* Integers are rounded down. */
GPU_FUNCTION T gpu_mean_of(T sum, T count)
{
#if GPU_IS_FLOAT
    return sum / count;
#else
    return sum / count - (sum % count < 0 ? 1 : 0);
#endif
}

/*
 * As `scatter` of memory.cl, but the source is combined with what is there; nest.opcode is a reduction. For means
 * `counts`, from element `first` on, counts what each position has got.
 */
GPU_KERNEL void scatter_combine(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *index,
                                GPU_GLOBAL const uint8_t *source, GPU_GLOBAL int32_t *fault,
                                GPU_GLOBAL int32_t *counts, int64_t first, gpu_nest nest)
{
    uint32_t i = gpu_item(), rest = i;
    int64_t at[3] = {nest.offsets[0], nest.offsets[1], nest.offsets[2]}, size = (int64_t)nest.scalars[1];
    if (i >= nest.numel / nest.sizes[0]) return;
    GPU_WALK(nest, 1, nest.rank, rest, at, 3)
#if GPU_PROCESSOR
    if (nest.opcode == GPU_SUM && nest.dtypes[0] == nest.dtypes[2] && nest.dtypes[1] == GPU_I64 && !(nest.immediate & 4u)) {
        switch (nest.dtypes[0]) {
#if GPU_TYPE == 32
            GPU_ADD_LINE(case GPU_F16, GPU_F16)
            GPU_ADD_LINE(case GPU_BF16, GPU_BF16)
#endif
            GPU_ADD_LINE(case GPU_OWN_DTYPE, GPU_OWN_DTYPE)
        default:
            break;
        }
    }
#endif
    for (uint32_t k = 0; k < nest.sizes[0]; k++) {
        int64_t position = nest.dtypes[1] == GPU_I32 ? (int64_t)*(GPU_GLOBAL const int32_t *)(index + at[1])
                                                     : *(GPU_GLOBAL const int64_t *)(index + at[1]);
        GPU_GLOBAL uint8_t *to = out + at[0] + position * (int64_t)nest.scalars[0];
        T x = nest.immediate & 4u ? gpu_value(nest.values[2]) : gpu_load(source + at[2], nest.dtypes[2]);
        at[1] += nest.strides[1][0];
        at[2] += nest.strides[2][0];
        if (position < 0 || position >= size) {
            gpu_fault(fault, GPU_FAULT_INDEX, (int32_t)nest.scalars[2], position, size);
            continue;
        }
        if (nest.opcode == GPU_MEAN) counts[first + (int64_t)i * size + position]++;
        gpu_store(to, nest.dtypes[0], gpu_combined(nest.opcode, gpu_load(to, nest.dtypes[0]), x));
    }
}

#if !GPU_PROCESSOR
/*
 * As `scatter_combine` in the order of an index (scatter.h): an item is an element, and the first one of a position combines
 * all of them, in the order of the source. So one position for a whole line is as slow as there. Floats are rounded to the
 * dtype of the result at the end. Means are complete: values[1] is added to their counts.
 */
GPU_KERNEL void scatter_combine_sorted(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *index,
                                       GPU_GLOBAL const uint8_t *source, GPU_GLOBAL int32_t *fault,
                                       GPU_GLOBAL const uint32_t *sorted, int64_t first_key, int64_t first_place,
                                       gpu_nest nest)
{
    GPU_BEGIN_SORTED
    uint32_t key = keys[i], begin = i;
    GPU_GLOBAL uint8_t *to = out + at[0] + position * (int64_t)nest.scalars[0];
    if (i > 0 && keys[i - 1u] == key) return;
    T result = gpu_load(to, nest.dtypes[0]);
    for (; i < length && keys[i] == key; i++) {
        GPU_GLOBAL const uint8_t *from = source + at[2] + (int64_t)places[i] * nest.strides[2][0];
        result = gpu_combined(nest.opcode, result,
                              nest.immediate & 4u ? gpu_value(nest.values[2]) : gpu_load(from, nest.dtypes[2]));
    }
    if (nest.opcode == GPU_MEAN) {
#if !GPU_IS_FLOAT /* the sum wraps around in its dtype */
        gpu_store(to, nest.dtypes[0], result);
        result = gpu_load(to, nest.dtypes[0]);
#endif
        result = gpu_mean_of(result, (T)(i - begin + (uint32_t)nest.values[1]));
    }
    gpu_store(to, nest.dtypes[0], result);
}
#endif

/* Sums become means: an item is a position of a line. scalars as above, but scalars[2] is added to the counts. */
GPU_KERNEL void scatter_mean(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const int32_t *counts, int64_t first, gpu_nest nest)
{
    uint32_t i = gpu_item(), size = (uint32_t)nest.scalars[1], rest = i / size;
    int64_t at[1] = {nest.offsets[0]};
    if (i >= nest.numel / nest.sizes[0] * size || !counts[first + i]) return;
    GPU_WALK(nest, 1, nest.rank, rest, at, 1)
    GPU_GLOBAL uint8_t *to = out + at[0] + (int64_t)(i % size) * (int64_t)nest.scalars[0];
    T count = (T)(counts[first + i] + (int32_t)nest.scalars[2]);
    gpu_store(to, nest.dtypes[0], gpu_mean_of(gpu_load(to, nest.dtypes[0]), count));
}

#define GPU_ADD_PIECE(label, code)                                                                        \
    label:                                                                                                \
    GPU_INDEPENDENT                                                                                       \
    for (uint32_t i = begin; i < end; i++) row_sums[i] += gpu_load(from + (int64_t)i * GPU_BYTES(code), code); \
    break;

/*
 * The gradient of a table whose rows an index has chosen, as gather_rows of memory.cl does: an item adds scalars[1] columns
 * of all rows, one after the other. Operands: sums of the table's gradient, which are 0 before, the rows' gradients, index.
 * scalars[3]: a row whose gradient stays 0.
 */
GPU_KERNEL void scatter_rows(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *grad, GPU_GLOBAL const uint8_t *index,
                             GPU_GLOBAL int32_t *fault, gpu_nest nest)
{
    uint32_t width = nest.sizes[0], run = (uint32_t)nest.scalars[1], begin = gpu_item() * run, rows = nest.numel / width;
    uint32_t end = width - begin < run ? width : begin + run;
    int64_t size = (int64_t)nest.scalars[0], bytes = GPU_BYTES(nest.dtypes[1]);
    if (begin >= width) return;
    index += nest.offsets[2];
    for (uint32_t row = 0; row < rows; row++) {
        int64_t at = nest.dtypes[2] == GPU_I32 ? (int64_t)((GPU_GLOBAL const int32_t *)index)[row]
                                               : ((GPU_GLOBAL const int64_t *)index)[row];
        if (at == (int64_t)nest.scalars[3]) continue;
        if (at < 0 || at >= size) {
            gpu_fault(fault, GPU_FAULT_INDEX, (int32_t)nest.scalars[2], at, size);
            continue;
        }
        GPU_GLOBAL T *row_sums = (GPU_GLOBAL T *)(out + nest.offsets[0]) + at * width;
        GPU_GLOBAL const uint8_t *from = grad + nest.offsets[1] + (int64_t)row * width * bytes;
        switch (nest.dtypes[1]) {
#if GPU_TYPE == 32
            GPU_ADD_PIECE(case GPU_F16, GPU_F16)
            GPU_ADD_PIECE(case GPU_BF16, GPU_BF16)
            GPU_ADD_PIECE(default, GPU_F32)
#else
            GPU_ADD_PIECE(default, GPU_F64)
#endif
        }
    }
}

/*
 * Products of matrices, batched: out = alpha * sum of left * right + beta * added. Dimensions of the nest are column,
 * row, batches; operands out, left, right, added (none if bit 3 of `immediate` is set).
 *
 *   scalars[0]  the inner size            values[2]  alpha
 *   scalars[1]  left's stride along it    values[3]  beta
 *   scalars[2]  right's stride along it
 */
GPU_KERNEL void product(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *left, GPU_GLOBAL const uint8_t *right,
                        GPU_GLOBAL const uint8_t *added, gpu_nest nest)
{
    uint32_t i = gpu_item(), rest = i;
    int64_t at[4] = {nest.offsets[0], nest.offsets[1], nest.offsets[2], nest.offsets[3]};
    if (i >= nest.numel) return;
    GPU_WALK(nest, 0, nest.rank, rest, at, 4)
    T sum = 0;
    for (uint64_t k = 0; k < nest.scalars[0]; k++) {
        T x = gpu_load(left + at[1], nest.dtypes[1]), y = gpu_load(right + at[2], nest.dtypes[2]);
#if GPU_IS_FLOAT
        sum = FN(fma)(x, y, sum);
#else
        sum += x * y;
#endif
        at[1] += (int64_t)nest.scalars[1];
        at[2] += (int64_t)nest.scalars[2];
    }
    sum *= gpu_value(nest.values[2]);
    if (!(nest.immediate & 8u)) sum += gpu_value(nest.values[3]) * gpu_load(added + at[3], nest.dtypes[3]);
    gpu_store(out + at[0], nest.dtypes[0], sum);
}

#if GPU_IS_FLOAT
#if GPU_TYPE == 64
#define GPU_FRACTION 52 /* bits */
#define GPU_EXPONENT 2047u
#define GPU_LIFT     54 /* a power of 2 that makes the smallest number one with a leading 1 */
#else
#define GPU_FRACTION 23
#define GPU_EXPONENT 255u
#define GPU_LIFT     24
#endif

/* An element is its mantissa, from 1/2 on below 1, times a power of 2, whose exponent is int32. Operands: mantissa, exponent, in. */
GPU_KERNEL void split_number(GPU_GLOBAL uint8_t *mantissas, GPU_GLOBAL uint8_t *exponents, GPU_GLOBAL const uint8_t *in,
                             gpu_nest nest)
{
    uint32_t i = gpu_item(), rest = i;
    int64_t at[3] = {nest.offsets[0], nest.offsets[1], nest.offsets[2]};
    int32_t exponent = 0;
    if (i >= nest.numel) return;
    GPU_WALK(nest, 0, nest.rank, rest, at, 3)
    T x = gpu_load(in + at[2], nest.dtypes[2]);
    uint64_t bits = gpu_bits(x), field = (uint64_t)GPU_EXPONENT << GPU_FRACTION;
    if ((bits & field) == 0) { /* 0, or too small for a leading 1 */
        x *= (T)((uint64_t)1 << GPU_LIFT);
        bits = gpu_bits(x);
        exponent = -GPU_LIFT;
    }
    if ((bits & field) == 0 || (bits & field) == field) {
        exponent = 0;
    } else {
        exponent += (int32_t)(bits >> GPU_FRACTION & GPU_EXPONENT) - (int32_t)(GPU_EXPONENT / 2u - 1u);
        x = gpu_value((bits & ~field) | (uint64_t)(GPU_EXPONENT / 2u - 1u) << GPU_FRACTION);
    }
    gpu_store(mantissas + at[0], nest.dtypes[0], x);
    *(GPU_GLOBAL int32_t *)(exponents + at[1]) = exponent;
}
#endif
