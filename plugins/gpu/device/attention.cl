/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention for processors, without the matrix of weights: T. Dao et al., "FlashAttention", 2022. An item has GPU_ROWS
 * neighbouring queries (or keys) of a head and goes along the other side in blocks of GPU_COLUMNS. For products with rows,
 * `attention_pack` has put those blocks into a workspace: all features of a block follow each other, GPU_COLUMNS elements
 * each. Tensors have the dtype GPU_DTYPE and contiguous features. Computed in T, but scores of float32 in double: an
 * exponential makes a relative error of their rounding errors.
 */
#include "attention.h"

#define GPU_ROWS       8
#define GPU_COLUMNS    16
#define GPU_MOST_WIDTH 256 /* features */

/* An item is a block of rows of `operand`, which has `heads` heads of `rows` rows. Rows beyond the last one are 0. */
GPU_KERNEL void attention_pack(GPU_GLOBAL T *packed, GPU_GLOBAL const uint8_t *in, int64_t first, uint32_t operand,
                               uint32_t heads, uint32_t rows, gpu_attention a)
{
    uint32_t blocks = (rows + GPU_COLUMNS - 1) / GPU_COLUMNS, item = gpu_item();
    uint32_t head = item / blocks % heads, batch = item / blocks / heads, begin = item % blocks * GPU_COLUMNS;
    if (batch >= a.batches) return;
    packed += first + (int64_t)item * a.width * GPU_COLUMNS;
    for (uint32_t j = 0; j < GPU_COLUMNS; j++) {
        GPU_GLOBAL const uint8_t *row = in + gpu_row_at(&a, operand, batch, head, begin + j);
        for (uint32_t e = 0; e < a.width; e++)
            packed[e * GPU_COLUMNS + j] = begin + j < rows ? gpu_load(row + (int64_t)e * GPU_STEP, GPU_DTYPE) : (T)0;
    }
}

/*
 * `work` has three numbers for each query, from a.delta on: the sum over features of the gradient times the result, its
 * rounding error, and what `attention_query` adds, a factor of the weights. An item is a query.
 */
GPU_KERNEL void attention_delta(GPU_GLOBAL T *work, GPU_GLOBAL const uint8_t *grad, GPU_GLOBAL const uint8_t *out,
                                gpu_attention a)
{
    uint32_t item = gpu_item(), row = item % a.queries, head = item / a.queries % a.heads;
    uint32_t batch = item / a.queries / a.heads;
    gpu_score sum = 0;
    if (batch >= a.batches) return;
    grad += gpu_row_at(&a, GPU_ATTENTION_GRAD, batch, head, row);
    out += gpu_row_at(&a, GPU_ATTENTION_OUT, batch, head, row);
    for (uint32_t e = 0; e < a.width; e++)
        sum += (gpu_score)gpu_load(grad + (int64_t)e * GPU_STEP, GPU_DTYPE) *
               (gpu_score)gpu_load(out + (int64_t)e * GPU_STEP, GPU_DTYPE);
    work[a.delta + 3 * (int64_t)item] = (T)sum;
    work[a.delta + 3 * (int64_t)item + 1] = (T)(sum - (gpu_score)(T)sum);
}

#if GPU_PROCESSOR && (defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__))
#if GPU_TYPE == 64
typedef double16 gpu_lanes;
#else
typedef float16 gpu_lanes;
#endif
#if GPU_TYPE == 64 || (GPU_DTYPE == GPU_F32 && GPU_HAS_DOUBLE)
typedef double16 gpu_scores;
#define GPU_SCORES_OF convert_double16
#else
typedef float16 gpu_scores;
#define GPU_SCORES_OF convert_float16
#endif
#define GPU_EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

/* Rows from `begin` on as [width][GPU_ROWS], times `factor`. Those beyond the last one are 0. */
GPU_FUNCTION void gpu_take_rows(gpu_score *to, GPU_GLOBAL const uint8_t *in, const gpu_attention *a, uint32_t operand,
                                uint32_t batch, uint32_t head, uint32_t begin, uint32_t rows, T factor)
{
    for (uint32_t r = 0; r < GPU_ROWS; r++) {
        GPU_GLOBAL const uint8_t *row = in + gpu_row_at(a, operand, batch, head, begin + r);
        for (uint32_t e = 0; e < a->width; e++)
            to[e * GPU_ROWS + r] =
                begin + r < rows ? (gpu_score)gpu_load(row + (int64_t)e * GPU_STEP, GPU_DTYPE) * factor : (gpu_score)0;
    }
}

/* Rows of a block as [GPU_COLUMNS][GPU_MOST_WIDTH], up to whole vectors. */
GPU_FUNCTION void gpu_take_block(T *to, GPU_GLOBAL const uint8_t *in, const gpu_attention *a, uint32_t operand,
                                 uint32_t batch, uint32_t head, uint32_t begin, uint32_t rows)
{
    uint32_t whole = (a->width + GPU_COLUMNS - 1) / GPU_COLUMNS * GPU_COLUMNS;
    for (uint32_t j = 0; j < GPU_COLUMNS; j++) {
        GPU_GLOBAL const uint8_t *row = in + gpu_row_at(a, operand, batch, head, begin + j);
        uint32_t width = begin + j < rows ? a->width : 0;
        for (uint32_t e = 0; e < width; e++)
            to[j * GPU_MOST_WIDTH + e] = gpu_load(row + (int64_t)e * GPU_STEP, GPU_DTYPE);
        for (uint32_t e = width; e < whole; e++) to[j * GPU_MOST_WIDTH + e] = 0;
    }
}

/* out[r][j] = the product of row r and column j of a packed block. */
GPU_FUNCTION void gpu_dots(gpu_score *out, const gpu_score *rows, GPU_GLOBAL const T *block, uint32_t width)
{
#define GPU_CLEAR(r) gpu_scores s##r = (gpu_scores)((gpu_score)0);
#define GPU_ADD(r)   s##r = fma((gpu_scores)(rows[e * GPU_ROWS + r]), b, s##r);
#define GPU_KEEP(r)  vstore16(s##r, r, out);
    GPU_EACH_ROW(GPU_CLEAR)
    for (uint32_t e = 0; e < width; e++) {
        gpu_scores b = GPU_SCORES_OF(vload16(e, block));
        GPU_EACH_ROW(GPU_ADD)
    }
    GPU_EACH_ROW(GPU_KEEP)
}

/* sums[r] = factors[r] * sums[r] + the sum over j of weights[r][j] times row j of the block. */
GPU_FUNCTION void gpu_add_rows(T *sums, const T *factors, const T *weights, const T *block, uint32_t width)
{
#define GPU_FETCH(r)    gpu_lanes t##r = vload16(0, sums + r * GPU_MOST_WIDTH + e) * factors[r];
#define GPU_ADD_TO(r)   t##r = fma((gpu_lanes)(weights[r * GPU_COLUMNS + j]), b, t##r);
#define GPU_RETURN(r)   vstore16(t##r, 0, sums + r * GPU_MOST_WIDTH + e);
    for (uint32_t e = 0; e < width; e += GPU_COLUMNS) {
        GPU_EACH_ROW(GPU_FETCH)
        for (uint32_t j = 0; j < GPU_COLUMNS; j++) {
            gpu_lanes b = vload16(0, block + j * GPU_MOST_WIDTH + e);
            GPU_EACH_ROW(GPU_ADD_TO)
        }
        GPU_EACH_ROW(GPU_RETURN)
    }
}

GPU_FUNCTION void gpu_put_rows(GPU_GLOBAL uint8_t *out, const T *sums, const gpu_attention *a, uint32_t operand,
                               uint32_t batch, uint32_t head, uint32_t begin, uint32_t rows, const T *factors)
{
    for (uint32_t r = 0; r < GPU_ROWS && begin + r < rows; r++) {
        GPU_GLOBAL uint8_t *row = out + gpu_row_at(a, operand, batch, head, begin + r);
        for (uint32_t e = 0; e < a->width; e++)
            gpu_store(row + (int64_t)e * GPU_STEP, GPU_DTYPE, sums[r * GPU_MOST_WIDTH + e] * factors[r]);
    }
}

/* An item is GPU_ROWS queries. `work` has the packed keys at packed[0]. */
GPU_KERNEL void attention_forward(GPU_GLOBAL uint8_t *out, GPU_GLOBAL uint8_t *stats, GPU_GLOBAL const uint8_t *q,
                                  GPU_GLOBAL const uint8_t *v, GPU_GLOBAL const uint8_t *mask, GPU_GLOBAL const T *work,
                                  gpu_attention a)
{
    gpu_score rows[GPU_MOST_WIDTH * GPU_ROWS], scores[GPU_ROWS * GPU_COLUMNS];
    T sums[GPU_ROWS * GPU_MOST_WIDTH], block[GPU_COLUMNS * GPU_MOST_WIDTH];
    T weights[GPU_ROWS * GPU_COLUMNS], most[GPU_ROWS], total[GPU_ROWS], factors[GPU_ROWS];
    uint32_t tasks = (a.queries + GPU_ROWS - 1) / GPU_ROWS, blocks = (a.keys + GPU_COLUMNS - 1) / GPU_COLUMNS;
    uint32_t item = gpu_item(), query = item % tasks * GPU_ROWS, head = item / tasks % a.heads;
    uint32_t batch = item / tasks / a.heads, from = head / a.shared, kept = a.heads / a.shared;
    if (batch >= a.batches) return;
    work += a.packed[0] + ((int64_t)batch * kept + from) * blocks * a.width * GPU_COLUMNS;
    gpu_take_rows(rows, q, &a, GPU_ATTENTION_QUERY, batch, head, query, a.queries, gpu_value(a.scale));
    for (uint32_t i = 0; i < GPU_ROWS * GPU_MOST_WIDTH; i++) sums[i] = 0;
    for (uint32_t r = 0; r < GPU_ROWS; r++) {
        most[r] = -INFINITY;
        total[r] = 0;
    }
    for (uint32_t key = 0; key < gpu_keys_before(&a, query + GPU_ROWS); key += GPU_COLUMNS) {
        gpu_dots(scores, rows, work + (int64_t)key * a.width, a.width);
        for (uint32_t r = 0; r < GPU_ROWS; r++) {
            gpu_score *row = scores + r * GPU_COLUMNS;
            T *to = weights + r * GPU_COLUMNS, next = most[r], sum = 0;
            for (uint32_t j = 0; j < GPU_COLUMNS; j++) {
                row[j] = gpu_masked(row[j], mask, &a, batch, head, query + r, key + j);
                next = row[j] > next || row[j] != row[j] ? (T)row[j] : next;
            }
            factors[r] = next == most[r] ? (T)1 : exp(most[r] - next);
            for (uint32_t j = 0; j < GPU_COLUMNS; j++)
                to[j] = next == -INFINITY ? (T)-INFINITY : (T)(row[j] - (gpu_score)next);
            vstore16(exp(vload16(0, to)), 0, to);
            for (uint32_t j = 0; j < GPU_COLUMNS; j++) sum += to[j];
            total[r] = total[r] * factors[r] + sum;
            most[r] = next;
        }
        gpu_take_block(block, v, &a, GPU_ATTENTION_VALUE, batch, from, key, a.keys);
        gpu_add_rows(sums, factors, weights, block, a.width);
    }
    for (uint32_t r = 0; r < GPU_ROWS; r++) {
        factors[r] = most[r] == -INFINITY ? (T)0 : 1 / total[r];
        if (query + r < a.queries)
            gpu_store(stats + gpu_row_at(&a, GPU_ATTENTION_STATS, batch, head, query + r), a.stats_dtype,
                      most[r] == -INFINITY ? most[r] : most[r] + log(total[r]));
    }
    gpu_put_rows(out, sums, &a, GPU_ATTENTION_OUT, batch, head, query, a.queries, factors);
}

/* Where the numbers of a query are. */
GPU_FUNCTION int64_t gpu_delta_at(const gpu_attention *a, uint32_t batch, uint32_t head, uint32_t query)
{
    return a->delta + 3 * (((int64_t)batch * a->heads + head) * a->queries + query);
}

/*
 * The gradient of the queries: an item is GPU_ROWS of them. `work` has packed keys, packed values and delta. The weights of a
 * query do not quite add up to 1, because `stats` are rounded: the factor that mends it is kept for `attention_key`.
 */
GPU_KERNEL void attention_query(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *q, GPU_GLOBAL const uint8_t *k,
                                GPU_GLOBAL const uint8_t *grad, GPU_GLOBAL const uint8_t *stats,
                                GPU_GLOBAL const uint8_t *mask, GPU_GLOBAL T *work, gpu_attention a)
{
    gpu_score rows[GPU_MOST_WIDTH * GPU_ROWS], grads[GPU_MOST_WIDTH * GPU_ROWS];
    gpu_score scores[GPU_ROWS * GPU_COLUMNS], inner[GPU_ROWS * GPU_COLUMNS];
    T sums[GPU_ROWS * GPU_MOST_WIDTH], block[GPU_COLUMNS * GPU_MOST_WIDTH], slopes[GPU_ROWS * GPU_COLUMNS];
    T stat[GPU_ROWS], total[GPU_ROWS], factors[GPU_ROWS];
    gpu_score delta[GPU_ROWS];
    uint32_t tasks = (a.queries + GPU_ROWS - 1) / GPU_ROWS, blocks = (a.keys + GPU_COLUMNS - 1) / GPU_COLUMNS;
    uint32_t item = gpu_item(), query = item % tasks * GPU_ROWS, head = item / tasks % a.heads;
    uint32_t batch = item / tasks / a.heads, from = head / a.shared, kept = a.heads / a.shared;
    int64_t skipped = ((int64_t)batch * kept + from) * blocks * a.width * GPU_COLUMNS;
    if (batch >= a.batches) return;
    gpu_take_rows(rows, q, &a, GPU_ATTENTION_QUERY, batch, head, query, a.queries, gpu_value(a.scale));
    gpu_take_rows(grads, grad, &a, GPU_ATTENTION_GRAD, batch, head, query, a.queries, 1);
    for (uint32_t i = 0; i < GPU_ROWS * GPU_MOST_WIDTH; i++) sums[i] = 0;
    for (uint32_t r = 0; r < GPU_ROWS; r++) {
        int is_there = query + r < a.queries;
        factors[r] = 1;
        stat[r] = is_there ? gpu_stat(stats, &a, batch, head, query + r) : (T)0;
        int64_t at = gpu_delta_at(&a, batch, head, query + r);
        total[r] = 0;
        delta[r] = is_there ? (gpu_score)work[at] + (gpu_score)work[at + 1] : (gpu_score)0;
    }
    for (uint32_t key = 0; key < gpu_keys_before(&a, query + GPU_ROWS); key += GPU_COLUMNS) {
        gpu_dots(scores, rows, work + a.packed[0] + skipped + (int64_t)key * a.width, a.width);
        gpu_dots(inner, grads, work + a.packed[1] + skipped + (int64_t)key * a.width, a.width);
        for (uint32_t r = 0; r < GPU_ROWS; r++)
            for (uint32_t j = 0; j < GPU_COLUMNS; j++) {
                uint32_t i = r * GPU_COLUMNS + j;
                gpu_score score = gpu_masked(scores[i], mask, &a, batch, head, query + r, key + j);
                T weight = gpu_weight(score, stat[r]);
                total[r] += weight;
                slopes[i] = weight * (T)(inner[i] - delta[r]);
            }
        gpu_take_block(block, k, &a, GPU_ATTENTION_KEY, batch, from, key, a.keys);
        gpu_add_rows(sums, factors, slopes, block, a.width);
    }
    for (uint32_t r = 0; r < GPU_ROWS; r++) {
        T mend = total[r] == 0 ? (T)1 : 1 / total[r];
        factors[r] = gpu_value(a.scale) * mend;
        if (query + r < a.queries) work[gpu_delta_at(&a, batch, head, query + r) + 2] = mend;
    }
    gpu_put_rows(out, sums, &a, GPU_ATTENTION_GRAD_QUERY, batch, head, query, a.queries, factors);
}

/* The gradients of keys and values: an item is GPU_ROWS of them. `work` has packed queries, packed gradients and delta. */
GPU_KERNEL void attention_key(GPU_GLOBAL uint8_t *grad_k, GPU_GLOBAL uint8_t *grad_v, GPU_GLOBAL const uint8_t *q,
                              GPU_GLOBAL const uint8_t *k, GPU_GLOBAL const uint8_t *v, GPU_GLOBAL const uint8_t *grad,
                              GPU_GLOBAL const uint8_t *stats, GPU_GLOBAL const uint8_t *mask, GPU_GLOBAL const T *work,
                              gpu_attention a)
{
    gpu_score rows[GPU_MOST_WIDTH * GPU_ROWS], values[GPU_MOST_WIDTH * GPU_ROWS];
    gpu_score scores[GPU_ROWS * GPU_COLUMNS], inner[GPU_ROWS * GPU_COLUMNS];
    T of_keys[GPU_ROWS * GPU_MOST_WIDTH], of_values[GPU_ROWS * GPU_MOST_WIDTH], block[GPU_COLUMNS * GPU_MOST_WIDTH];
    T weights[GPU_ROWS * GPU_COLUMNS], slopes[GPU_ROWS * GPU_COLUMNS], factors[GPU_ROWS];
    uint32_t kept = a.heads / a.shared, tasks = (a.keys + GPU_ROWS - 1) / GPU_ROWS;
    uint32_t blocks = (a.queries + GPU_COLUMNS - 1) / GPU_COLUMNS, item = gpu_item(), key = item % tasks * GPU_ROWS;
    uint32_t own = item / tasks % kept, batch = item / tasks / kept;
    uint32_t first = a.flags & GPU_ATTENTION_CAUSAL ? key / GPU_COLUMNS * GPU_COLUMNS : 0;
    if (batch >= a.batches) return;
    gpu_take_rows(rows, k, &a, GPU_ATTENTION_KEY, batch, own, key, a.keys, gpu_value(a.scale));
    gpu_take_rows(values, v, &a, GPU_ATTENTION_VALUE, batch, own, key, a.keys, 1);
    for (uint32_t i = 0; i < GPU_ROWS * GPU_MOST_WIDTH; i++) of_keys[i] = of_values[i] = 0;
    for (uint32_t r = 0; r < GPU_ROWS; r++) factors[r] = 1;
    for (uint32_t head = own * a.shared; head < (own + 1) * a.shared; head++) {
        int64_t skipped = ((int64_t)batch * a.heads + head) * blocks * a.width * GPU_COLUMNS;
        for (uint32_t query = first; query < a.queries; query += GPU_COLUMNS) {
            gpu_dots(scores, rows, work + a.packed[0] + skipped + (int64_t)query * a.width, a.width);
            gpu_dots(inner, values, work + a.packed[1] + skipped + (int64_t)query * a.width, a.width);
            for (uint32_t j = 0; j < GPU_COLUMNS; j++) {
                int is_there = query + j < a.queries;
                T stat = is_there ? gpu_stat(stats, &a, batch, head, query + j) : (T)0;
                int64_t at = gpu_delta_at(&a, batch, head, query + j);
                gpu_score delta = is_there ? (gpu_score)work[at] + (gpu_score)work[at + 1] : (gpu_score)0;
                T mend = is_there ? work[at + 2] : (T)0;
                for (uint32_t r = 0; r < GPU_ROWS; r++) {
                    uint32_t i = r * GPU_COLUMNS + j;
                    gpu_score score = gpu_masked(scores[i], mask, &a, batch, head, query + j, key + r);
                    weights[i] = gpu_weight(score, stat) * mend;
                    slopes[i] = weights[i] * (T)(inner[i] - delta);
                }
            }
            gpu_take_block(block, grad, &a, GPU_ATTENTION_GRAD, batch, head, query, a.queries);
            gpu_add_rows(of_values, factors, weights, block, a.width);
            gpu_take_block(block, q, &a, GPU_ATTENTION_QUERY, batch, head, query, a.queries);
            gpu_add_rows(of_keys, factors, slopes, block, a.width);
        }
    }
    gpu_put_rows(grad_v, of_values, &a, GPU_ATTENTION_GRAD_VALUE, batch, own, key, a.keys, factors);
    for (uint32_t r = 0; r < GPU_ROWS; r++) factors[r] = gpu_value(a.scale);
    gpu_put_rows(grad_k, of_keys, &a, GPU_ATTENTION_GRAD_KEY, batch, own, key, a.keys, factors);
}
#endif
