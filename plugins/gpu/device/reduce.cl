/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions and scans in passes. A line has the elements that become one result (a scan: that follow each
 * other); it is cut into parts, so that few long lines keep a device busy too. Item i works on part i % parts
 * of line i / parts and keeps a state of two words, value and position, in `states`. nest.opcode is the
 * operation. The first `kept` dimensions of the nest count the lines:
 *
 *   scalars[0]  kept            scalars[2]  parts of a line
 *   scalars[1]  lines           scalars[3]  elements of a part
 *
 * Operands: out, in, and of cummax and cummin the positions.
 *
 * On a GPU reductions are done by groups: `width` items take a part of a line together, so that neighbouring items
 * read neighbouring elements (reduce_group, merge_group). What is in front of a part of a scan is found likewise (scan_group).
 */
#include "dialect.h"

typedef struct gpu_state {
    T value;
    T rest; /* of a sum of floats: what rounding has lost */
    int64_t position;
} gpu_state;

GPU_FUNCTION gpu_state gpu_start(uint32_t opcode)
{
    gpu_state s;
    s.value = opcode == GPU_PROD || opcode == GPU_ALL ? (T)1 : (T)0;
    s.rest = 0;
    s.position = -1; /* nothing seen */
    return s;
}

/* 1 if x, which comes later, takes the place of the best element so far. The first NaN stays. */
GPU_FUNCTION int gpu_replaces(uint32_t opcode, T x, T best)
{
    switch (opcode) {
    case GPU_MAX:
    case GPU_ARGMAX:
        return x > best || (is_nan(x) && !is_nan(best));
    case GPU_MIN:
    case GPU_ARGMIN:
        return x < best || (is_nan(x) && !is_nan(best));
    case GPU_LAST_MAX:
        return x >= best || is_nan(x);
    default:
        return x <= best || is_nan(x);
    }
}

GPU_FUNCTION gpu_state gpu_take(uint32_t opcode, gpu_state s, T x, int64_t position)
{
    switch (opcode) {
    case GPU_SUM:
    case GPU_MEAN: {
#if GPU_IS_FLOAT
        /* Neumaier 1974: the rounding error of each addition is kept. */
        T sum = s.value + x;
        s.rest += FN(fabs)(s.value) >= FN(fabs)(x) ? (s.value - sum) + x : (x - sum) + s.value;
        s.value = sum;
#else
        s.value += x;
#endif
        break;
    }
    case GPU_PROD:
        s.value *= x;
        break;
    case GPU_ANY:
        s.value = s.value != 0 || x != 0;
        break;
    case GPU_ALL:
        s.value = s.value != 0 && x != 0;
        break;
    case GPU_COUNT:
        s.value += x != 0;
        break;
#if GPU_IS_FLOAT
    case GPU_LOG_SUM: {
        /* The rounding error is kept: where terms differ much, the gradient is their tiny difference. */
        int is_infinite = x == s.value && (x == INFINITY || x == -INFINITY);
        T apart = (x - s.value) - s.rest, most = apart > 0 ? x : s.value, rest = apart > 0 ? (T)0 : s.rest;
        T more = FN(log1p)(FN(exp)(-FN(fabs)(apart))) + rest, sum = most + more;
        if (s.position < 0 || is_nan(x)) {
            s.value = x;
        } else if (!is_infinite) {
            s.rest = sum - sum == 0 ? (most - sum) + more : (T)0;
            s.value = sum;
        }
        break;
    }
#endif
    default:
        if (s.position < 0 || gpu_replaces(opcode, x, s.value)) {
            s.value = x;
            s.position = position;
        }
        return s;
    }
    s.position = position;
    return s;
}

GPU_FUNCTION T gpu_total(gpu_state s)
{
#if GPU_IS_FLOAT
    return s.rest - s.rest == 0 ? s.value + s.rest : s.value; /* infinite sums have no error */
#else
    return s.value;
#endif
}

GPU_FUNCTION void gpu_keep(GPU_GLOBAL int64_t *states, uint32_t i, gpu_state s)
{
    states[2u * i] = (int64_t)gpu_bits(gpu_total(s));
    states[2u * i + 1u] = s.position;
}

/* Merges a state that was kept; those of no elements change nothing. */
GPU_FUNCTION gpu_state gpu_merge(uint32_t opcode, gpu_state s, GPU_GLOBAL const int64_t *states, uint32_t i)
{
    T x = gpu_value((uint64_t)states[2u * i]);
    if (states[2u * i + 1u] < 0) return s;
    if (opcode == GPU_COUNT) opcode = GPU_SUM;
    return gpu_take(opcode, s, x, states[2u * i + 1u]);
}

GPU_FUNCTION void gpu_finish(GPU_GLOBAL uint8_t *out, uint32_t dtype, uint32_t opcode, gpu_state s, int64_t count)
{
    T value = gpu_total(s);
    if (opcode == GPU_ARGMAX || opcode == GPU_ARGMIN) {
        *(GPU_GLOBAL int64_t *)out = s.position;
        return;
    }
#if GPU_IS_FLOAT
    if (opcode == GPU_MEAN) value /= (T)count;
#endif
    gpu_store(out, dtype, value);
}

/* The place of element `k` of a line whose first element is at `line`, and of those after it. */
#define GPU_LINE(at, nest, kept, operand, line, k)                                       \
    int64_t at = (line);                                                                 \
    {                                                                                    \
        uint32_t line_rest = (k);                                                        \
        GPU_EACH_INDEX(line_d, kept, (nest).rank,                                        \
                       at += (int64_t)(line_rest % (nest).sizes[line_d]) * (nest).strides[operand][line_d]; \
                       line_rest /= (nest).sizes[line_d];)                               \
    }

#if GPU_PROCESSOR
/* The lanes of a processor's vectors; a run is summed in as many chains as hide the latency of an addition. */
#define GPU_LANES 64
#define GPU_BLOCK 1024 /* elements that are summed without keeping rounding errors */

/* GPU_LANES neighbouring elements. The dtype is looked at once. */
#define GPU_LANES_OF(code)                                                                           \
    case code:                                                                                       \
        for (int j = 0; j < GPU_LANES; j++) to[j] = gpu_load(p + j * (int)GPU_BYTES(code), code);    \
        break;
GPU_FUNCTION void gpu_load_lanes(T *to, GPU_GLOBAL const uint8_t *p, uint32_t dtype)
{
    switch (dtype) {
#if GPU_TYPE == 32
    case GPU_F16:
        for (int j = 0; j < GPU_LANES; j += 16) gpu_half_load16(to + j, p + 2 * j);
        break;
        GPU_LANES_OF(GPU_BF16)
#endif
#if GPU_TYPE == 64
        GPU_LANES_OF(GPU_F64)
#endif
        GPU_LANES_OF(GPU_F32)
        GPU_LANES_OF(GPU_I8)
        GPU_LANES_OF(GPU_I16)
        GPU_LANES_OF(GPU_I32)
        GPU_LANES_OF(GPU_I64)
    default:
        for (int j = 0; j < GPU_LANES; j++) to[j] = gpu_load(p + j * (int)GPU_BYTES(dtype), dtype);
    }
}
#define GPU_LARGER(a, b)  ((((b) > (a)) | is_nan(b)) ? (b) : (a))
#define GPU_SMALLER(a, b) ((((b) < (a)) | is_nan(b)) ? (b) : (a))
#define GPU_ADDED(a, b)   ((a) + (b))

/* The best element of `whole` contiguous ones and its position, which begins at k. Each lane keeps its own first one. */
GPU_FUNCTION gpu_state gpu_best_of_run(uint32_t opcode, gpu_state s, GPU_GLOBAL const uint8_t *p, uint32_t dtype,
                                       uint32_t whole, int64_t k)
{
    uint32_t bytes = GPU_BYTES(dtype);
    T best[GPU_LANES], x[GPU_LANES];
    int32_t at[GPU_LANES];
    if (!whole) return s;
    gpu_load_lanes(best, p, dtype);
    for (int j = 0; j < GPU_LANES; j++) at[j] = j;
    for (uint32_t i = GPU_LANES; i < whole; i += GPU_LANES) {
        gpu_load_lanes(x, p + i * bytes, dtype);
        for (int j = 0; j < GPU_LANES; j++) {
            int is_better = opcode == GPU_ARGMAX ? x[j] > best[j] : x[j] < best[j];
            is_better |= is_nan(x[j]) & !is_nan(best[j]);
            best[j] = is_better ? x[j] : best[j];
            at[j] = is_better ? (int32_t)i + j : at[j];
        }
    }
    int found = 0;
    for (int j = 1; j < GPU_LANES; j++) {
        int is_same = best[j] == best[found] || (is_nan(best[j]) && is_nan(best[found]));
        if (gpu_replaces(opcode, best[j], best[found]) || (is_same && at[j] < at[found])) found = j;
    }
    return gpu_take(opcode, s, best[found], k + at[found]);
}

#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)
#if GPU_TYPE == 32
typedef float16 gpu_vector;
#define GPU_WIDTH           16
#define GPU_LOAD_VECTOR(p)  vload16(0, p)
#define GPU_STORE_VECTOR(v, p) vstore16(v, 0, p)
#else
#if GPU_TYPE == 64
typedef double8 gpu_vector;
#else
typedef long8 gpu_vector;
#endif
#define GPU_WIDTH           8
#define GPU_LOAD_VECTOR(p)  vload8(0, p)
#define GPU_STORE_VECTOR(v, p) vstore8(v, 0, p)
#endif
#define GPU_OWN_DTYPE (GPU_TYPE == 32 ? GPU_F32 : GPU_TYPE == 64 ? GPU_F64 : GPU_I64)

/* How two elements, or the lanes of two vectors, become one. Of ANY and ALL one stays that decides. */
#define GPU_MULTIPLIED(a, b) ((a) * (b))
#define GPU_ANY_OF(a, b)     ((b) != 0 ? (b) : (a))
#define GPU_ALL_OF(a, b)     ((a) == 0 ? (a) : (b))

/* All of the `n` elements at `from` as one vector; n is a multiple of 4 vectors. Four chains hide latencies. */
#define GPU_FOLD_BLOCK(label, result, from, n, F)                                   \
    label: {                                                                        \
        gpu_vector a = GPU_LOAD_VECTOR(from), b = GPU_LOAD_VECTOR((from) + GPU_WIDTH); \
        gpu_vector c = GPU_LOAD_VECTOR((from) + 2 * GPU_WIDTH), d = GPU_LOAD_VECTOR((from) + 3 * GPU_WIDTH); \
        for (uint32_t i = 4 * GPU_WIDTH; i < (n); i += 4 * GPU_WIDTH) {             \
            gpu_vector w = GPU_LOAD_VECTOR((from) + i), x = GPU_LOAD_VECTOR((from) + i + GPU_WIDTH); \
            gpu_vector y = GPU_LOAD_VECTOR((from) + i + 2 * GPU_WIDTH);             \
            gpu_vector z = GPU_LOAD_VECTOR((from) + i + 3 * GPU_WIDTH);             \
            a = F(a, w);                                                            \
            b = F(b, x);                                                            \
            c = F(c, y);                                                            \
            d = F(d, z);                                                            \
        }                                                                           \
        a = F(a, b);                                                                \
        c = F(c, d);                                                                \
        result = F(a, c);                                                           \
        break;                                                                      \
    }
#define GPU_FOLD_BLOCKS(opcode, result, from, n)                       \
    switch (opcode) {                                                  \
        GPU_FOLD_BLOCK(case GPU_PROD, result, from, n, GPU_MULTIPLIED) \
        GPU_FOLD_BLOCK(case GPU_MAX, result, from, n, GPU_LARGER)      \
        GPU_FOLD_BLOCK(case GPU_MIN, result, from, n, GPU_SMALLER)     \
        GPU_FOLD_BLOCK(case GPU_ANY, result, from, n, GPU_ANY_OF)      \
        GPU_FOLD_BLOCK(case GPU_ALL, result, from, n, GPU_ALL_OF)      \
        GPU_FOLD_BLOCK(default, result, from, n, GPU_ADDED)            \
    }

/* The `n` elements of a block as one vector, whatever their dtype. */
GPU_FUNCTION gpu_vector gpu_fold_block(uint32_t opcode, GPU_GLOBAL const uint8_t *p, uint32_t dtype, uint32_t n)
{
    gpu_vector result;
    if (dtype == GPU_OWN_DTYPE) {
        GPU_FOLD_BLOCKS(opcode, result, (GPU_GLOBAL const T *)p, n)
    } else {
        T block[GPU_BLOCK];
        for (uint32_t i = 0; i < n; i += GPU_LANES) gpu_load_lanes(block + i, p + i * GPU_BYTES(dtype), dtype);
        GPU_FOLD_BLOCKS(opcode, result, block, n)
    }
    return result;
}

#define GPU_LEAST_TAIL 4 /* elements for which a vector is worth it */
#define GPU_PIECE      16
#define GPU_TAIL_OF(label, code)                                                                                  \
    label:                                                                                                        \
    for (; i + GPU_PIECE <= n; i += GPU_PIECE)                                                                    \
        for (uint32_t j = 0; j < GPU_PIECE; j++)                                                                  \
            block[i + j] = gpu_load(p + (int64_t)(i + j) * (int64_t)GPU_BYTES(code), code);                       \
    if (begin + i >= GPU_PIECE && i < n) {                                                                        \
        for (uint32_t j = 0; j < GPU_PIECE; j++) {                                                                \
            T x = gpu_load(p + ((int64_t)n - GPU_PIECE + j) * (int64_t)GPU_BYTES(code), code);                    \
            block[i + j] = n + j >= i + GPU_PIECE ? x : neutral;                                                  \
        }                                                                                                         \
    } else {                                                                                                      \
        for (; i < n; i++) block[i] = gpu_load(p + (int64_t)i * (int64_t)GPU_BYTES(code), code);                  \
    }                                                                                                             \
    break;

/*
 * The same for fewer than GPU_LANES elements: the other lanes have what changes nothing. The last piece begins before its
 * first element where it can, among the `begin` elements before `p`, so that all pieces are vectors.
 */
GPU_FUNCTION gpu_vector gpu_fold_tail(uint32_t opcode, GPU_GLOBAL const uint8_t *p, uint32_t dtype, uint32_t begin,
                                      uint32_t n)
{
    T block[GPU_LANES], neutral = opcode == GPU_PROD || opcode == GPU_ALL ? (T)1 : (T)0;
    gpu_vector result;
    uint32_t i = 0;
    if (opcode == GPU_MAX || opcode == GPU_MIN) neutral = gpu_load(p, dtype);
    for (int j = 0; j < GPU_LANES; j++) block[j] = neutral;
    switch (dtype) {
#if GPU_TYPE == 32
        GPU_TAIL_OF(case GPU_F16, GPU_F16)
        GPU_TAIL_OF(case GPU_BF16, GPU_BF16)
#endif
        GPU_TAIL_OF(case GPU_OWN_DTYPE, GPU_OWN_DTYPE)
        GPU_TAIL_OF(default, dtype)
    }
    GPU_FOLD_BLOCKS(opcode, result, block, GPU_LANES)
    return result;
}

/* The lanes of a vector as one element. */
GPU_FUNCTION T gpu_fold_lanes(uint32_t opcode, gpu_vector v)
{
    T lanes[GPU_WIDTH];
    GPU_STORE_VECTOR(v, lanes);
    for (int pairs = GPU_WIDTH / 2; pairs > 0; pairs /= 2)
        for (int j = 0; j < pairs; j++) {
            T a = lanes[j], b = lanes[j + pairs];
            lanes[j] = opcode == GPU_PROD  ? GPU_MULTIPLIED(a, b)
                       : opcode == GPU_MAX ? GPU_LARGER(a, b)
                       : opcode == GPU_MIN ? GPU_SMALLER(a, b)
                       : opcode == GPU_ANY ? GPU_ANY_OF(a, b)
                       : opcode == GPU_ALL ? GPU_ALL_OF(a, b)
                                           : GPU_ADDED(a, b);
        }
    return lanes[0];
}

/* Takes a run of contiguous elements, and gives how many: all but a tail of a few. */
GPU_FUNCTION uint32_t gpu_take_run(uint32_t opcode, gpu_state *s, GPU_GLOBAL const uint8_t *p, uint32_t dtype,
                                   uint32_t n, int64_t k)
{
    uint32_t whole = n / GPU_LANES * GPU_LANES, bytes = GPU_BYTES(dtype);
    if (opcode == GPU_ARGMAX || opcode == GPU_ARGMIN) {
        *s = gpu_best_of_run(opcode, *s, p, dtype, whole, k);
        return whole;
    }
    if (opcode > GPU_MIN && opcode != GPU_ANY && opcode != GPU_ALL) return 0;
    if (n - whole >= GPU_LEAST_TAIL)
        *s = gpu_take(opcode, *s, gpu_fold_lanes(opcode, gpu_fold_tail(opcode, p + (int64_t)whole * bytes, dtype, whole, n - whole)), k);
    for (uint32_t begin = 0; begin < whole; begin += GPU_BLOCK) {
        uint32_t count = whole - begin < GPU_BLOCK ? whole - begin : GPU_BLOCK;
        *s = gpu_take(opcode, *s, gpu_fold_lanes(opcode, gpu_fold_block(opcode, p + (int64_t)begin * bytes, dtype, count)), k);
    }
    return n - whole >= GPU_LEAST_TAIL ? n : whole;
}
#else
#define gpu_take_run(opcode, s, p, dtype, n, k) 0u /* a check on the host takes elements one by one */
#endif

#define GPU_BESIDE 256 /* lines that an item of reduce_columns takes: LINES_BESIDE of reduce.c */

#define GPU_LARGEST_OF(a, w, x, y, z)  GPU_LARGER(GPU_LARGER(GPU_LARGER(GPU_LARGER(a, w), x), y), z)
#define GPU_SMALLEST_OF(a, w, x, y, z) GPU_SMALLER(GPU_SMALLER(GPU_SMALLER(GPU_SMALLER(a, w), x), y), z)
#define GPU_SUM_OF(a, w, x, y, z)      ((a) + (((w) + (x)) + ((y) + (z))))
/* Rows k + 1 to `stop` are taken into `lanes`, four at once; row k is in them. */
#define GPU_TAKE_ROWS(code, F4, F)                                                                          \
    for (uint32_t i = k + 1; i < stop;) {                                                                   \
        GPU_LINE(w, nest, kept, 1, at[1], i)                                                                \
        if (i + 4 > stop) {                                                                                 \
            for (uint32_t j = 0; j < width; j++) lanes[j] = F(lanes[j], GPU_OF_ROW(w, j, code));            \
            i++;                                                                                            \
            continue;                                                                                       \
        }                                                                                                   \
        GPU_LINE(x, nest, kept, 1, at[1], i + 1)                                                            \
        GPU_LINE(y, nest, kept, 1, at[1], i + 2)                                                            \
        GPU_LINE(z, nest, kept, 1, at[1], i + 3)                                                            \
        for (uint32_t j = 0; j < width; j++)                                                                \
            lanes[j] = F4(lanes[j], GPU_OF_ROW(w, j, code), GPU_OF_ROW(x, j, code), GPU_OF_ROW(y, j, code), \
                          GPU_OF_ROW(z, j, code));                                                          \
        i += 4;                                                                                             \
    }
#define GPU_OF_ROW(row, j, code) gpu_load(in + (row) + (int64_t)(j) * GPU_BYTES(code), code)
/* Rows k to `stop` become `lanes`. */
#define GPU_FOLD_ROWS(label, code)                                                       \
    label:                                                                               \
    for (uint32_t j = 0; j < width; j++) lanes[j] = GPU_OF_ROW(first_row, j, code);      \
    if (opcode == GPU_MAX) {                                                             \
        GPU_TAKE_ROWS(code, GPU_LARGEST_OF, GPU_LARGER)                                  \
    } else if (opcode == GPU_MIN) {                                                      \
        GPU_TAKE_ROWS(code, GPU_SMALLEST_OF, GPU_SMALLER)                                \
    } else {                                                                             \
        GPU_TAKE_ROWS(code, GPU_SUM_OF, GPU_ADDED)                                       \
    }                                                                                    \
    break;

/* Adds the lanes of a block of rows to `total`, and what rounding loses to `lost`. */
GPU_FUNCTION void gpu_add_lanes(uint32_t opcode, T total[GPU_BESIDE], T lost[GPU_BESIDE], const T lanes[GPU_BESIDE],
                                uint32_t width)
{
    for (uint32_t j = 0; j < width; j++) {
        T a = total[j], x = lanes[j], sum = a + x;
#if GPU_IS_FLOAT
        T more = FN(fabs)(a) >= FN(fabs)(x) ? (a - sum) + x : (x - sum) + a;
        lost[j] += opcode == GPU_MAX || opcode == GPU_MIN ? (T)0 : more;
#endif
        sum = opcode == GPU_MAX ? GPU_LARGER(a, x) : sum;
        total[j] = opcode == GPU_MIN ? GPU_SMALLER(a, x) : sum;
    }
}

#define GPU_STORE_ROW(label, code)                                                                          \
    label:                                                                                                  \
    for (uint32_t j = 0; j < width; j++) gpu_store(out + (int64_t)j * GPU_BYTES(code), code, total[j]);      \
    break;
/* The results of `width` lines, `step` bytes apart. */
GPU_FUNCTION void gpu_finish_lanes(GPU_GLOBAL uint8_t *out, int64_t step, uint32_t dtype, T total[GPU_BESIDE],
                                   uint32_t width)
{
    if (step != (int64_t)GPU_BYTES(dtype)) {
        for (uint32_t j = 0; j < width; j++) gpu_store(out + (int64_t)j * step, dtype, total[j]);
        return;
    }
    switch (dtype) {
#if GPU_TYPE == 32
        GPU_STORE_ROW(case GPU_F16, GPU_F16)
        GPU_STORE_ROW(case GPU_BF16, GPU_BF16)
        GPU_STORE_ROW(case GPU_F32, GPU_F32)
#endif
        GPU_STORE_ROW(default, dtype)
    }
}

/*
 * As `reduce`, for neighbouring lines that lie beside each other in memory, along dimension 0: an item takes GPU_BESIDE of
 * them at once, row by row. Item i works on part i % parts of block i / parts of lines, of which each run of dimension 0 has
 * scalars[1]. Sums and extremes.
 */
GPU_KERNEL void reduce_columns(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in, GPU_GLOBAL int64_t *states,
                               int64_t first, gpu_nest nest)
{
    uint32_t item = gpu_item(), parts = (uint32_t)nest.scalars[2], length = (uint32_t)nest.scalars[3];
    uint32_t kept = (uint32_t)nest.scalars[0], blocks = (uint32_t)nest.scalars[1], across = nest.sizes[0];
    uint32_t line = item / parts % blocks * GPU_BESIDE, outer = item / parts / blocks, rest = outer, lines = 1;
    uint32_t width = across - line < GPU_BESIDE ? across - line : GPU_BESIDE, opcode = nest.opcode;
    T total[GPU_BESIDE], lost[GPU_BESIDE], lanes[GPU_BESIDE];
    int64_t at[2] = {nest.offsets[0] + line * nest.strides[0][0], nest.offsets[1] + line * nest.strides[1][0]};
    for (uint32_t d = 0; d < kept; d++) lines *= nest.sizes[d];
    if (outer >= lines / across) return;
    GPU_WALK(nest, 1, kept, rest, at, 2)
    uint32_t size = nest.numel / lines, begin = item % parts * length;
    uint32_t end = size - begin < length ? size : begin + length;
    for (uint32_t k = begin; k < end;) {
        /* Rounding errors are kept between blocks of 64 rows. */
        uint32_t stop = end - k < 64 ? end : k + 64;
        GPU_LINE(first_row, nest, kept, 1, at[1], k)
        switch (nest.dtypes[1]) {
#if GPU_TYPE == 32
            GPU_FOLD_ROWS(case GPU_F16, GPU_F16)
            GPU_FOLD_ROWS(case GPU_BF16, GPU_BF16)
            GPU_FOLD_ROWS(case GPU_F32, GPU_F32)
#elif GPU_TYPE == 64
            GPU_FOLD_ROWS(case GPU_F64, GPU_F64)
#else
            GPU_FOLD_ROWS(case GPU_I64, GPU_I64)
#endif
            GPU_FOLD_ROWS(default, nest.dtypes[1])
        }
        if (parts == 1 && stop == size && k == 0 && opcode != GPU_MEAN) {
            gpu_finish_lanes(out + at[0], nest.strides[0][0], nest.dtypes[0], lanes, width);
            return;
        }
        if (k == begin) {
            for (uint32_t j = 0; j < width; j++) {
                total[j] = lanes[j];
                lost[j] = 0;
            }
        } else {
            gpu_add_lanes(opcode, total, lost, lanes, width);
        }
        k = stop;
    }
#if GPU_IS_FLOAT
    for (uint32_t j = 0; j < width; j++) total[j] = lost[j] - lost[j] == 0 ? total[j] + lost[j] : total[j];
#endif
    if (parts == 1) {
#if GPU_IS_FLOAT
        if (opcode == GPU_MEAN)
            for (uint32_t j = 0; j < width; j++) total[j] /= (T)size;
#endif
        gpu_finish_lanes(out + at[0], nest.strides[0][0], nest.dtypes[0], total, width);
        return;
    }
    for (uint32_t j = 0; j < width; j++) {
        gpu_state s = gpu_start(opcode);
        s.value = total[j];
        s.position = begin;
        gpu_keep(states + first, (outer * across + line + j) * parts + item % parts, s);
    }
}

#if GPU_TYPE == 32
/* As `scan`, for running sums of lines that lie beside each other: an item takes GPU_LANES of them at once. float32. */
GPU_KERNEL void scan_columns(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in, gpu_nest nest)
{
    uint32_t lines = (uint32_t)nest.scalars[1], size = nest.numel / lines, line = gpu_item() * GPU_LANES;
    float total[GPU_LANES], lost[GPU_LANES];
    if (line >= lines) return;
    uint32_t width = lines - line < GPU_LANES ? lines - line : GPU_LANES;
    for (int j = 0; j < GPU_LANES; j++) total[j] = lost[j] = 0;
    in += nest.offsets[1] + (int64_t)line * 4;
    out += nest.offsets[0] + (int64_t)line * 4;
    for (uint32_t k = 0; k < size; k++, in += nest.strides[1][1], out += nest.strides[0][1]) {
        GPU_INDEPENDENT
        for (uint32_t j = 0; j < width; j++) {
            float a = total[j], x = ((GPU_GLOBAL const float *)in)[j], sum = a + x;
            float more = lost[j] + (fabs(a) >= fabs(x) ? (a - sum) + x : (x - sum) + a);
            lost[j] = more;
            total[j] = sum;
            ((GPU_GLOBAL float *)out)[j] = more - more == 0 ? sum + more : sum;
        }
    }
}
#endif
#endif

/* Adds up one part. With one part in a line that is the result. */
GPU_KERNEL void reduce(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in, GPU_GLOBAL int64_t *states, int64_t first,
                       gpu_nest nest)
{
    uint32_t item = gpu_item(), parts = (uint32_t)nest.scalars[2], kept = (uint32_t)nest.scalars[0];
    uint32_t lines = (uint32_t)nest.scalars[1], size = nest.numel / lines, length = (uint32_t)nest.scalars[3];
    uint32_t rest = item / parts, begin = item % parts * length, end = size - begin < length ? size : begin + length;
    int64_t at[2] = {nest.offsets[0], nest.offsets[1]};
    if (item >= lines * parts) return;
    GPU_WALK(nest, 0, kept, rest, at, 2)
    gpu_state s = gpu_start(nest.opcode);
    uint32_t run = 1;
    int64_t step = 0;
    if (kept < nest.rank) {
        run = GPU_OF_INDEX(nest.sizes, kept);
        step = GPU_OF_INDEX(nest.strides[1], kept);
    }
    for (uint32_t k = begin; k < end;) {
        GPU_LINE(from, nest, kept, 1, at[1], k)
        uint32_t stop = k + (run - k % run) < end ? k + (run - k % run) : end;
#if GPU_PROCESSOR
        uint32_t dtype = nest.dtypes[1];
        if (step == GPU_BYTES(dtype)) {
            uint32_t taken = gpu_take_run(nest.opcode, &s, in + from, dtype, stop - k, k);
            k += taken;
            from += (int64_t)taken * step;
        }
#endif
        for (; k < stop; k++, from += step) s = gpu_take(nest.opcode, s, gpu_load(in + from, nest.dtypes[1]), k);
    }
    if (parts == 1)
        gpu_finish(out + at[0], nest.dtypes[0], nest.opcode, s, size);
    else
        gpu_keep(states + first, item, s);
}

#if GPU_PROCESSOR
/* An item a line: merges its parts, which are in order. */
GPU_KERNEL void reduce_parts(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const int64_t *states, int64_t first, gpu_nest nest)
{
    uint32_t line = gpu_item(), parts = (uint32_t)nest.scalars[2], kept = (uint32_t)nest.scalars[0];
    uint32_t lines = (uint32_t)nest.scalars[1], rest = line;
    int64_t at[1] = {nest.offsets[0]};
    if (line >= lines) return;
    GPU_WALK(nest, 0, kept, rest, at, 1)
    gpu_state s = gpu_start(nest.opcode);
    for (uint32_t p = 0; p < parts; p++) s = gpu_merge(nest.opcode, s, states + first, line * parts + p);
    gpu_finish(out + at[0], nest.dtypes[0], nest.opcode, s, nest.numel / lines);
}

/* An item a line: the state of each part becomes that of all before it. */
GPU_KERNEL void scan_parts(GPU_GLOBAL int64_t *states, int64_t first, gpu_nest nest)
{
    uint32_t line = gpu_item(), parts = (uint32_t)nest.scalars[2];
    if (line >= (uint32_t)nest.scalars[1]) return;
    gpu_state s = gpu_start(nest.opcode);
    for (uint32_t p = 0; p < parts; p++) {
        gpu_state before = s;
        s = gpu_merge(nest.opcode, s, states + first, line * parts + p);
        gpu_keep(states + first, line * parts + p, before);
    }
}
#else
/* Both states in one. Of equal elements the one with the lower position counts. */
GPU_FUNCTION gpu_state gpu_join(uint32_t opcode, gpu_state s, gpu_state t)
{
    if (t.position < 0) return s;
    if (s.position < 0) return t;
    if (opcode == GPU_ARGMAX || opcode == GPU_ARGMIN) {
        int is_same = t.value == s.value || (is_nan(t.value) && is_nan(s.value));
        if (gpu_replaces(opcode, t.value, s.value) || (is_same && t.position < s.position)) return t;
        return s;
    }
    s = gpu_take(opcode == GPU_COUNT ? GPU_SUM : opcode, s, t.value, t.position);
    if (opcode != GPU_LOG_SUM) s.rest += t.rest; /* of a logarithm it may be larger than the other state */
    return s;
}

#define GPU_LOCAL_STATES                      \
    GPU_LOCAL T values[GPU_GROUP_ITEMS];      \
    GPU_LOCAL T rests[GPU_GROUP_ITEMS];       \
    GPU_LOCAL int64_t positions[GPU_GROUP_ITEMS];
#define GPU_SHARE(s, me)           \
    values[me] = (s).value;        \
    rests[me] = (s).rest;          \
    positions[me] = (s).position;
/* The first of each `width` items, a power of two, gets the states of all of them in its s. All items of a group do this. */
#define GPU_TREE(s, me, width, opcode)                                            \
    GPU_SHARE(s, me)                                                              \
    for (uint32_t half_way = (width) / 2; half_way > 0; half_way /= 2) {          \
        GPU_BARRIER();                                                            \
        if ((me) % (width) < half_way) {                                          \
            gpu_state other;                                                      \
            other.value = values[(me) + half_way];                                \
            other.rest = rests[(me) + half_way];                                  \
            other.position = positions[(me) + half_way];                          \
            s = gpu_join(opcode, s, other);                                       \
            GPU_SHARE(s, me)                                                      \
        }                                                                         \
    }

#define GPU_READ_AHEAD(code)                                                               \
    case code:                                                                             \
        for (uint32_t j = 0; j < GPU_AHEAD; j++) x[j] = gpu_load(in + from[j], code);       \
        break;

/*
 * Adds up one part by `width` items, a power of two that divides a group. Neighbouring tasks have the same part of
 * neighbouring lines, so that memory is read in its order also where lines lie beside each other and width is 1.
 */
GPU_KERNEL void reduce_group(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in, GPU_GLOBAL int64_t *states,
                             int64_t first, uint32_t width, gpu_nest nest)
{
    GPU_LOCAL_STATES
    uint32_t me = gpu_group_item(), task = gpu_item() / width, kept = (uint32_t)nest.scalars[0];
    uint32_t lines = (uint32_t)nest.scalars[1], parts = (uint32_t)nest.scalars[2], length = (uint32_t)nest.scalars[3];
    uint32_t size = nest.numel / lines, line = task % lines, part = task / lines, rest = line;
    uint32_t is_run = kept + 1 == nest.rank, dtype = nest.dtypes[1];
    int64_t at[2] = {nest.offsets[0], nest.offsets[1]}, step = is_run ? GPU_OF_INDEX(nest.strides[1], kept) : 0;
    GPU_WALK(nest, 0, kept, rest, at, 2)
    gpu_state s = gpu_start(nest.opcode), t = gpu_start(nest.opcode);
    if (part < parts) {
        uint32_t k = part * length, end = size - k < length ? size : k + length;
        for (k += me % width; k + (GPU_AHEAD - 1) * width < end; k += GPU_AHEAD * width) {
            int64_t from[GPU_AHEAD];
            T x[GPU_AHEAD];
            for (uint32_t j = 0; j < GPU_AHEAD; j++) {
                if (is_run) {
                    from[j] = at[1] + (int64_t)(k + j * width) * step;
                } else {
                    GPU_LINE(place, nest, kept, 1, at[1], k + j * width)
                    from[j] = place;
                }
            }
            switch (dtype) {
#if GPU_TYPE == 32
                GPU_READ_AHEAD(GPU_F16)
                GPU_READ_AHEAD(GPU_BF16)
                GPU_READ_AHEAD(GPU_F32)
#endif
#if GPU_TYPE == 64
                GPU_READ_AHEAD(GPU_F64)
#endif
#if GPU_TYPE == 1
                GPU_READ_AHEAD(GPU_I64)
#endif
            default:
                for (uint32_t j = 0; j < GPU_AHEAD; j++) x[j] = gpu_load(in + from[j], dtype);
                break;
            }
            for (uint32_t j = 0; j < GPU_AHEAD; j += 2) {
                s = gpu_take(nest.opcode, s, x[j], k + j * width);
                t = gpu_take(nest.opcode, t, x[j + 1], k + (j + 1) * width);
            }
        }
        for (; k < end; k += width) {
            GPU_LINE(place, nest, kept, 1, at[1], k)
            s = gpu_take(nest.opcode, s, gpu_load(in + place, dtype), k);
        }
    }
    s = gpu_join(nest.opcode, s, t);
    GPU_TREE(s, me, width, nest.opcode)
    if (me % width == 0 && part < parts) {
        if (parts == 1)
            gpu_finish(out + at[0], nest.dtypes[0], nest.opcode, s, size);
        else
            gpu_keep(states + first, line * parts + part, s);
    }
}

/* `width` items merge the parts of a line. */
GPU_KERNEL void merge_group(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const int64_t *states, int64_t first, uint32_t width,
                            gpu_nest nest)
{
    GPU_LOCAL_STATES
    uint32_t me = gpu_group_item(), line = gpu_item() / width, parts = (uint32_t)nest.scalars[2];
    uint32_t kept = (uint32_t)nest.scalars[0], lines = (uint32_t)nest.scalars[1], rest = line;
    int64_t at[1] = {nest.offsets[0]};
    GPU_WALK(nest, 0, kept, rest, at, 1)
    gpu_state s = gpu_start(nest.opcode);
    if (line < lines) {
        for (uint32_t p = me % width; p < parts; p += width) {
            gpu_state other;
            other.value = gpu_value((uint64_t)states[first + 2 * (int64_t)(line * parts + p)]);
            other.rest = 0;
            other.position = states[first + 2 * (int64_t)(line * parts + p) + 1];
            s = gpu_join(nest.opcode, s, other);
        }
    }
    GPU_TREE(s, me, width, nest.opcode)
    if (me % width == 0 && line < lines)
        gpu_finish(out + at[0], nest.dtypes[0], nest.opcode, s, nest.numel / lines);
}

/* As scan_parts, but `width` items take a line: each of them a run of its parts, in order. */
GPU_KERNEL void scan_group(GPU_GLOBAL int64_t *states, int64_t first, uint32_t width, gpu_nest nest)
{
    GPU_LOCAL_STATES
    uint32_t me = gpu_group_item(), line = gpu_item() / width, parts = (uint32_t)nest.scalars[2];
    uint32_t each = (parts + width - 1) / width, begin = me % width * each, end = begin + each < parts ? begin + each : parts;
    gpu_state s = gpu_start(nest.opcode), before = s;
    if (line >= (uint32_t)nest.scalars[1]) end = 0;
    for (uint32_t p = begin; p < end; p++) s = gpu_merge(nest.opcode, s, states + first, line * parts + p);
    GPU_SHARE(s, me)
    GPU_BARRIER();
    for (uint32_t i = me - me % width; i < me; i++) {
        gpu_state other;
        other.value = values[i];
        other.rest = rests[i];
        other.position = positions[i];
        before = gpu_join(nest.opcode, before, other);
    }
    for (uint32_t p = begin; p < end; p++) {
        s = gpu_merge(nest.opcode, before, states + first, line * parts + p);
        gpu_keep(states + first, line * parts + p, before);
        before = s;
    }
}
#endif

#if GPU_PROCESSOR && GPU_TYPE == 32 && (defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__))
/* Running sums of whole vectors of contiguous float32, from s on; gives how many elements. Rounding errors of s are kept. */
GPU_FUNCTION uint32_t gpu_scan_run(gpu_state *s, GPU_GLOBAL float *out, GPU_GLOBAL const float *in, uint32_t n)
{
    uint32_t whole = n / 16 * 16;
    for (uint32_t i = 0; i < whole; i += 16) {
        float16 x = vload16(0, in + i);
        float rest = s->rest - s->rest == 0 ? s->rest : 0.0f;
        x += (float16)(0.0f, x.s01234567, x.s89ab, x.scd, x.se);
        x += (float16)((float2)(0.0f), x.s01234567, x.s89ab, x.scd);
        x += (float16)((float4)(0.0f), x.s01234567, x.s89ab);
        x += (float16)((float8)(0.0f), x.s01234567);
        vstore16((float16)(s->value) + ((float16)(rest) + x), 0, out + i);
        *s = gpu_take(GPU_SUM, *s, x.sf, 0);
    }
    return whole;
}
#endif

/* Writes the running results of one part, from the state before it. */
GPU_KERNEL void scan(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in, GPU_GLOBAL uint8_t *positions,
                     GPU_GLOBAL const int64_t *states, int64_t first, gpu_nest nest)
{
    uint32_t item = gpu_item(), parts = (uint32_t)nest.scalars[2], kept = nest.rank - 1;
    uint32_t lines = (uint32_t)nest.scalars[1], size = nest.numel / lines, length = (uint32_t)nest.scalars[3];
    uint32_t rest = item / parts, begin = item % parts * length, end = size - begin < length ? size : begin + length;
    int64_t at[3] = {nest.offsets[0], nest.offsets[1], nest.offsets[2]};
    if (item >= lines * parts) return;
    GPU_WALK(nest, 0, kept, rest, at, 3)
    const int64_t steps[3] = {GPU_OF_INDEX(nest.strides[0], kept), GPU_OF_INDEX(nest.strides[1], kept),
                              GPU_OF_INDEX(nest.strides[2], kept)};
    for (uint32_t k = 0; k < 3; k++) at[k] += (int64_t)begin * steps[k];
    gpu_state s = gpu_start(nest.opcode);
    if (parts > 1) s = gpu_merge(nest.opcode, s, states + first, item);
#if GPU_PROCESSOR && GPU_TYPE == 32 && (defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__))
    if (nest.opcode == GPU_SUM && nest.dtypes[0] == GPU_F32 && nest.dtypes[1] == GPU_F32 &&
        steps[0] == 4 && steps[1] == 4) {
        uint32_t taken = gpu_scan_run(&s, (GPU_GLOBAL float *)(out + at[0]), (GPU_GLOBAL const float *)(in + at[1]), end - begin);
        begin += taken;
        for (uint32_t k = 0; k < 2; k++) at[k] += (int64_t)taken * 4;
    }
#endif
    for (uint32_t k = begin; k < end; k++) {
        s = gpu_take(nest.opcode, s, gpu_load(in + at[1], nest.dtypes[1]), k);
        gpu_store(out + at[0], nest.dtypes[0], gpu_total(s));
        if (nest.opcode == GPU_LAST_MAX || nest.opcode == GPU_LAST_MIN)
            *(GPU_GLOBAL int64_t *)(positions + at[2]) = s.position;
        for (uint32_t o = 0; o < 3; o++) at[o] += steps[o];
    }
}
