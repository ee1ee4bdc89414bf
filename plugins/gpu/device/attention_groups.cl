/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention for GPUs, without the matrix of weights: T. Dao et al., "FlashAttention", 2022. A group has a block of neighbouring
 * queries (or keys) of a head and goes along the other side in blocks of GPU_BLOCK. Pieces of GPU_BLOCK features of both sides
 * are read once for the group, into its memory, as T. Of the block's results an item has neighbouring rows, `own` of them, and
 * every GPU_ACROSS-th column. GPU_GROUP says for how many features a program has registers. Tensors have the dtype GPU_DTYPE
 * and contiguous features.
 */
#define GPU_GROUPS_AT_ONCE (GPU_TYPE == 64 ? 2 : GPU_GROUP == 0 ? 4 : 3) /* leaves CUDA 255, 168 and 128 registers */
#include "attention.h"

#define GPU_WIDTH  (64 << GPU_GROUP) /* most features */
#define GPU_BLOCK  32
#define GPU_PITCH  (GPU_BLOCK + 1) /* between rows of a piece: neighbouring rows begin in different banks */
#define GPU_ACROSS 16
#define GPU_DOWN   (GPU_GROUP_ITEMS / GPU_ACROSS)

/* Rows of a block of queries and of keys. An item has sums of GPU_WIDTH / GPU_ACROSS features for each of its rows. */
#define GPU_QUERIES     (GPU_GROUP < 2 ? 32 : 16)
#define GPU_KEYS        (32 >> GPU_GROUP)
#define GPU_OWN_QUERIES (GPU_QUERIES / GPU_DOWN)
#define GPU_OWN_KEYS    (GPU_KEYS / GPU_DOWN)
#define GPU_FEATURES    (GPU_WIDTH / GPU_ACROSS)

/* The first row of an item, and its first column. */
#define GPU_MY_ROW(own) (gpu_group_item() / GPU_ACROSS * (own))
#define GPU_MY_COLUMN   (gpu_group_item() % GPU_ACROSS)

/*
 * Rows from `begin` on, `count` of them, and GPU_BLOCK features from `feature` on, times `factor`. `in` is where the head begins;
 * rows from `end` on and features from `width` on are 0.
 */
GPU_FUNCTION void gpu_take_piece(GPU_LOCAL_ARGUMENT T *to, GPU_GLOBAL const uint8_t *in, int64_t stride, uint32_t begin,
                                 uint32_t end, uint32_t count, uint32_t feature, uint32_t width, T factor)
{
    uint32_t e = gpu_group_item() % GPU_BLOCK;
    GPU_UNROLL_LITTLE
    for (uint32_t r = gpu_group_item() / GPU_BLOCK; r < count; r += GPU_GROUP_ITEMS / GPU_BLOCK) {
        int is_there = begin + r < end && feature + e < width;
        GPU_GLOBAL const uint8_t *from = in + (int64_t)(begin + r) * stride + (int64_t)(feature + e) * GPU_STEP;
        to[r * GPU_PITCH + e] = is_there ? gpu_load(from, GPU_DTYPE) * factor : (T)0;
    }
}

/* Adds to `sums` the products of the item's rows of `left` and its two columns, which are rows of `right`, over a piece. */
GPU_FUNCTION void gpu_add_dots(T sums[2 * GPU_OWN_QUERIES], GPU_LOCAL_ARGUMENT const T *left, GPU_LOCAL_ARGUMENT const T *right,
                               const uint32_t own)
{
    left += GPU_MY_ROW(own) * GPU_PITCH;
    right += GPU_MY_COLUMN * GPU_PITCH;
    GPU_UNROLL_LITTLE
    for (uint32_t e = 0; e < GPU_BLOCK; e++) {
        T first = right[e], second = right[GPU_ACROSS * GPU_PITCH + e];
        for (uint32_t i = 0; i < own; i++) {
            sums[2 * i] = FN(fma)(left[i * GPU_PITCH + e], first, sums[2 * i]);
            sums[2 * i + 1] = FN(fma)(left[i * GPU_PITCH + e], second, sums[2 * i + 1]);
        }
    }
}

/* Not a loop: compilers know `own` late, and `sums` would then lie in memory. */
#define GPU_ADD_ROW(i)                                                                                \
    if ((i) < own) {                                                                                  \
        T weight = weights[(i) * GPU_PITCH + k];                                                      \
        sums[(i) * GPU_FEATURES + f] = FN(fma)(weight, first, sums[(i) * GPU_FEATURES + f]);          \
        sums[(i) * GPU_FEATURES + f + 1] = FN(fma)(weight, second, sums[(i) * GPU_FEATURES + f + 1]); \
    }

/*
 * Adds to `sums` the product of `weights`, GPU_PITCH apart, and the block of rows of `in` from `begin` on, of which `piece` gets a
 * few features at a time. The first barrier of all items is also that behind the weights.
 */
GPU_FUNCTION void gpu_add_block(T sums[GPU_OWN_QUERIES * GPU_FEATURES], GPU_LOCAL_ARGUMENT const T *weights, GPU_LOCAL_ARGUMENT T *piece,
                                GPU_GLOBAL const uint8_t *in, int64_t stride, uint32_t begin, uint32_t end,
                                uint32_t width, const uint32_t own)
{
    weights += GPU_MY_ROW(own) * GPU_PITCH;
    GPU_UNROLL
    for (uint32_t f = 0; f < GPU_FEATURES; f += 2) {
        GPU_BARRIER();
        gpu_take_piece(piece, in, stride, begin, end, GPU_BLOCK, f * GPU_ACROSS, width, 1);
        GPU_BARRIER();
        GPU_UNROLL_LITTLE
        for (uint32_t k = 0; k < GPU_BLOCK; k++) {
            T first = piece[k * GPU_PITCH + GPU_MY_COLUMN], second = piece[k * GPU_PITCH + GPU_ACROSS + GPU_MY_COLUMN];
            GPU_ADD_ROW(0)
            GPU_ADD_ROW(1)
            GPU_ADD_ROW(2)
            GPU_ADD_ROW(3)
        }
    }
}

/* Writes the item's rows, from row `begin` of the head at `out` on, times `factors`. */
GPU_FUNCTION void gpu_put_block(GPU_GLOBAL uint8_t *out, int64_t stride, uint32_t begin, uint32_t end, uint32_t width,
                                const T sums[GPU_OWN_QUERIES * GPU_FEATURES], const T factors[GPU_OWN_QUERIES],
                                const uint32_t own)
{
    GPU_UNROLL
    for (uint32_t i = 0; i < own; i++) {
        uint32_t row = begin + GPU_MY_ROW(own) + i;
        GPU_UNROLL
        for (uint32_t f = 0; f < GPU_FEATURES; f++) {
            uint32_t e = f * GPU_ACROSS + GPU_MY_COLUMN;
            if (row < end && e < width)
                gpu_store(out + (int64_t)row * stride + (int64_t)e * GPU_STEP, GPU_DTYPE,
                          sums[i * GPU_FEATURES + f] * factors[i]);
        }
    }
}

/* Each value becomes the sum of those of the items with the same rows. */
GPU_FUNCTION void gpu_add_across(T values[GPU_OWN_QUERIES], GPU_LOCAL_ARGUMENT T *shared)
{
    uint32_t row = GPU_MY_ROW(GPU_OWN_QUERIES);
    GPU_BARRIER();
    for (uint32_t i = 0; i < GPU_OWN_QUERIES; i++) shared[(row + i) * GPU_ACROSS + GPU_MY_COLUMN] = values[i];
    GPU_BARRIER();
    for (uint32_t i = 0; i < GPU_OWN_QUERIES; i++) {
        values[i] = 0;
        for (uint32_t x = 0; x < GPU_ACROSS; x++) values[i] += shared[(row + i) * GPU_ACROSS + x];
    }
}

/* The larger one, or NaN. */
GPU_FUNCTION T gpu_larger(T a, T b)
{
    return a > b || is_nan(a) ? a : b;
}

/* Where a head begins, as row 0 of it. */
#define GPU_HEAD(p, operand, head) ((p) + gpu_row_at(&a, operand, batch, head, 0))
#define GPU_STRIDE(operand)        a.strides[operand][2]

/* The products of two operands over all features: `left` and `right` get a piece of each at a time. */
#define GPU_DOTS(sums, own, p, operand, begin, end, factor, q, other, other_begin, other_end)                        \
    for (uint32_t i = 0; i < 2 * (own); i++) sums[i] = 0;                                                            \
    for (uint32_t feature = 0; feature < a.width; feature += GPU_BLOCK) {                                            \
        GPU_BARRIER();                                                                                               \
        gpu_take_piece(left, p, GPU_STRIDE(operand), begin, end, (own) * GPU_DOWN, feature, a.width, factor);        \
        gpu_take_piece(right, q, GPU_STRIDE(other), other_begin, other_end, GPU_BLOCK, feature, a.width, 1);         \
        GPU_BARRIER();                                                                                               \
        gpu_add_dots(sums, left, right, own);                                                                        \
    }

/* A group is a block of queries of a head. */
#define GPU_BEGIN_QUERIES                                                                            \
    uint32_t tasks = (a.queries + GPU_QUERIES - 1) / GPU_QUERIES, task = gpu_item() / GPU_GROUP_ITEMS; \
    uint32_t begin = task % tasks * GPU_QUERIES, head = task / tasks % a.heads;                      \
    uint32_t batch = task / tasks / a.heads, from = head / a.shared;                                 \
    uint32_t row = GPU_MY_ROW(GPU_OWN_QUERIES), column = GPU_MY_COLUMN;

GPU_KERNEL void attention_forward_group(GPU_GLOBAL uint8_t *out, GPU_GLOBAL uint8_t *stats, GPU_GLOBAL const uint8_t *q,
                                        GPU_GLOBAL const uint8_t *k, GPU_GLOBAL const uint8_t *v,
                                        GPU_GLOBAL const uint8_t *mask, gpu_attention a)
{
    GPU_LOCAL T left[GPU_QUERIES * GPU_PITCH], right[GPU_BLOCK * GPU_PITCH], weights[GPU_QUERIES * GPU_PITCH];
    GPU_LOCAL T shared[GPU_QUERIES * GPU_ACROSS];
    T sums[GPU_OWN_QUERIES * GPU_FEATURES], scores[2 * GPU_OWN_QUERIES], most[GPU_OWN_QUERIES], total[GPU_OWN_QUERIES];
    GPU_BEGIN_QUERIES
    GPU_GLOBAL const uint8_t *of_q = GPU_HEAD(q, GPU_ATTENTION_QUERY, head);
    GPU_GLOBAL const uint8_t *of_k = GPU_HEAD(k, GPU_ATTENTION_KEY, from), *of_v = GPU_HEAD(v, GPU_ATTENTION_VALUE, from);
    for (uint32_t i = 0; i < GPU_OWN_QUERIES * GPU_FEATURES; i++) sums[i] = 0;
    for (uint32_t i = 0; i < GPU_OWN_QUERIES; i++) {
        most[i] = -INFINITY;
        total[i] = 0;
    }
    for (uint32_t key = 0; key < gpu_keys_before(&a, begin + GPU_QUERIES); key += GPU_BLOCK) {
        GPU_DOTS(scores, GPU_OWN_QUERIES, of_q, GPU_ATTENTION_QUERY, begin, a.queries, gpu_value(a.scale), of_k,
                 GPU_ATTENTION_KEY, key, a.keys)
        for (uint32_t i = 0; i < GPU_OWN_QUERIES; i++) {
            for (uint32_t j = 0; j < 2; j++)
                scores[2 * i + j] = gpu_masked(scores[2 * i + j], mask, &a, batch, head, begin + row + i,
                                               key + column + j * GPU_ACROSS);
            shared[(row + i) * GPU_ACROSS + column] = gpu_larger(scores[2 * i], scores[2 * i + 1]);
        }
        GPU_BARRIER();
        GPU_UNROLL
        for (uint32_t i = 0; i < GPU_OWN_QUERIES; i++) {
            T next = most[i];
            GPU_UNROLL_LITTLE
            for (uint32_t x = 0; x < GPU_ACROSS; x++) next = gpu_larger(next, shared[(row + i) * GPU_ACROSS + x]);
            T factor = next == most[i] ? (T)1 : FN(exp)(most[i] - next);
            most[i] = next;
            total[i] *= factor;
            GPU_UNROLL
            for (uint32_t f = 0; f < GPU_FEATURES; f++) sums[i * GPU_FEATURES + f] *= factor;
            for (uint32_t j = 0; j < 2; j++) {
                T weight = next == -INFINITY ? (T)0 : FN(exp)(scores[2 * i + j] - next);
                weights[(row + i) * GPU_PITCH + column + j * GPU_ACROSS] = weight;
                total[i] += weight;
            }
        }
        gpu_add_block(sums, weights, right, of_v, GPU_STRIDE(GPU_ATTENTION_VALUE), key, a.keys, a.width,
                      GPU_OWN_QUERIES);
    }
    gpu_add_across(total, shared);
    for (uint32_t i = 0; i < GPU_OWN_QUERIES; i++) {
        uint32_t query = begin + row + i;
        if (column == 0 && query < a.queries)
            gpu_store(stats + gpu_row_at(&a, GPU_ATTENTION_STATS, batch, head, query), a.stats_dtype,
                      most[i] == -INFINITY ? most[i] : most[i] + FN(log)(total[i]));
        total[i] = most[i] == -INFINITY ? (T)0 : 1 / total[i];
    }
    gpu_put_block(GPU_HEAD(out, GPU_ATTENTION_OUT, head), GPU_STRIDE(GPU_ATTENTION_OUT), begin, a.queries, a.width, sums,
                  total, GPU_OWN_QUERIES);
}

/* `work` has two numbers for each query, from a.delta on, which attention_query_group leaves for attention_key_group. */
GPU_FUNCTION int64_t gpu_delta_at(const gpu_attention *a, uint32_t batch, uint32_t head, uint32_t query)
{
    return a->delta + 2 * (((int64_t)batch * a->heads + head) * a->queries + query);
}

/*
 * The gradient of the queries. The numbers in `work` are the sum over features of the gradient times the result, and a factor of
 * the weights: they do not quite add up to 1, because `stats` are rounded.
 */
GPU_KERNEL void attention_query_group(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *q, GPU_GLOBAL const uint8_t *k,
                                      GPU_GLOBAL const uint8_t *v, GPU_GLOBAL const uint8_t *grad,
                                      GPU_GLOBAL const uint8_t *result, GPU_GLOBAL const uint8_t *stats,
                                      GPU_GLOBAL const uint8_t *mask, GPU_GLOBAL T *work, gpu_attention a)
{
    GPU_LOCAL T left[GPU_QUERIES * GPU_PITCH], right[GPU_BLOCK * GPU_PITCH], weights[GPU_QUERIES * GPU_PITCH];
    GPU_LOCAL T shared[GPU_QUERIES * GPU_ACROSS];
    T sums[GPU_OWN_QUERIES * GPU_FEATURES], scores[2 * GPU_OWN_QUERIES], inner[2 * GPU_OWN_QUERIES];
    T stat[GPU_OWN_QUERIES], delta[GPU_OWN_QUERIES], total[GPU_OWN_QUERIES];
    GPU_BEGIN_QUERIES
    GPU_GLOBAL const uint8_t *of_q = GPU_HEAD(q, GPU_ATTENTION_QUERY, head), *of_g = GPU_HEAD(grad, GPU_ATTENTION_GRAD, head);
    GPU_GLOBAL const uint8_t *of_k = GPU_HEAD(k, GPU_ATTENTION_KEY, from), *of_v = GPU_HEAD(v, GPU_ATTENTION_VALUE, from);
    for (uint32_t i = 0; i < GPU_OWN_QUERIES * GPU_FEATURES; i++) sums[i] = 0;
    for (uint32_t i = 0; i < GPU_OWN_QUERIES; i++) {
        uint32_t query = begin + row + i < a.queries ? begin + row + i : a.queries - 1;
        GPU_GLOBAL const uint8_t *p = of_g + (int64_t)query * GPU_STRIDE(GPU_ATTENTION_GRAD);
        GPU_GLOBAL const uint8_t *y = result + gpu_row_at(&a, GPU_ATTENTION_OUT, batch, head, query);
        delta[i] = total[i] = 0;
        stat[i] = gpu_stat(stats, &a, batch, head, query);
        for (uint32_t e = column; e < a.width; e += GPU_ACROSS)
            delta[i] = FN(fma)(gpu_load(p + (int64_t)e * GPU_STEP, GPU_DTYPE), gpu_load(y + (int64_t)e * GPU_STEP, GPU_DTYPE),
                               delta[i]);
    }
    gpu_add_across(delta, shared);
    for (uint32_t key = 0; key < gpu_keys_before(&a, begin + GPU_QUERIES); key += GPU_BLOCK) {
        GPU_DOTS(scores, GPU_OWN_QUERIES, of_q, GPU_ATTENTION_QUERY, begin, a.queries, gpu_value(a.scale), of_k,
                 GPU_ATTENTION_KEY, key, a.keys)
        GPU_DOTS(inner, GPU_OWN_QUERIES, of_g, GPU_ATTENTION_GRAD, begin, a.queries, 1, of_v, GPU_ATTENTION_VALUE, key,
                 a.keys)
        for (uint32_t i = 0; i < GPU_OWN_QUERIES; i++)
            for (uint32_t j = 0; j < 2; j++) {
                gpu_score score = gpu_masked(scores[2 * i + j], mask, &a, batch, head, begin + row + i,
                                             key + column + j * GPU_ACROSS);
                T weight = gpu_weight(score, stat[i]);
                total[i] += weight;
                weights[(row + i) * GPU_PITCH + column + j * GPU_ACROSS] = weight * (inner[2 * i + j] - delta[i]);
            }
        gpu_add_block(sums, weights, right, of_k, GPU_STRIDE(GPU_ATTENTION_KEY), key, a.keys, a.width, GPU_OWN_QUERIES);
    }
    gpu_add_across(total, shared);
    for (uint32_t i = 0; i < GPU_OWN_QUERIES; i++) {
        T mend = total[i] == 0 ? (T)1 : 1 / total[i];
        int64_t at = gpu_delta_at(&a, batch, head, begin + row + i);
        total[i] = gpu_value(a.scale) * mend;
        if (column || begin + row + i >= a.queries) continue;
        work[at] = delta[i];
        work[at + 1] = mend;
    }
    gpu_put_block(GPU_HEAD(out, GPU_ATTENTION_GRAD_QUERY, head), GPU_STRIDE(GPU_ATTENTION_GRAD_QUERY), begin, a.queries,
                  a.width, sums, total, GPU_OWN_QUERIES);
}

/* The gradients of keys and values: a group is a block of them, and adds up what all heads of queries that share them make of it. */
GPU_KERNEL void attention_key_group(GPU_GLOBAL uint8_t *grad_k, GPU_GLOBAL uint8_t *grad_v, GPU_GLOBAL const uint8_t *q,
                                    GPU_GLOBAL const uint8_t *k, GPU_GLOBAL const uint8_t *v, GPU_GLOBAL const uint8_t *grad,
                                    GPU_GLOBAL const uint8_t *stats, GPU_GLOBAL const uint8_t *mask,
                                    GPU_GLOBAL const T *work, gpu_attention a)
{
    GPU_LOCAL T left[GPU_KEYS * GPU_PITCH], right[GPU_BLOCK * GPU_PITCH], weights[GPU_KEYS * GPU_PITCH];
    T of_keys[GPU_OWN_KEYS * GPU_FEATURES], of_values[GPU_OWN_KEYS * GPU_FEATURES];
    T scores[2 * GPU_OWN_KEYS], inner[2 * GPU_OWN_KEYS], factors[GPU_OWN_KEYS];
    uint32_t kept = a.heads / a.shared, tasks = (a.keys + GPU_KEYS - 1) / GPU_KEYS, task = gpu_item() / GPU_GROUP_ITEMS;
    uint32_t begin = task % tasks * GPU_KEYS, own = task / tasks % kept, batch = task / tasks / kept;
    uint32_t row = GPU_MY_ROW(GPU_OWN_KEYS), column = GPU_MY_COLUMN;
    uint32_t first = a.flags & GPU_ATTENTION_CAUSAL ? begin / GPU_BLOCK * GPU_BLOCK : 0;
    GPU_GLOBAL const uint8_t *of_k = GPU_HEAD(k, GPU_ATTENTION_KEY, own), *of_v = GPU_HEAD(v, GPU_ATTENTION_VALUE, own);
    for (uint32_t i = 0; i < GPU_OWN_KEYS * GPU_FEATURES; i++) of_keys[i] = of_values[i] = 0;
    for (uint32_t head = own * a.shared; head < (own + 1) * a.shared; head++) {
        GPU_GLOBAL const uint8_t *of_q = GPU_HEAD(q, GPU_ATTENTION_QUERY, head);
        GPU_GLOBAL const uint8_t *of_g = GPU_HEAD(grad, GPU_ATTENTION_GRAD, head);
        for (uint32_t query = first; query < a.queries; query += GPU_BLOCK) {
            GPU_DOTS(scores, GPU_OWN_KEYS, of_k, GPU_ATTENTION_KEY, begin, a.keys, gpu_value(a.scale), of_q,
                     GPU_ATTENTION_QUERY, query, a.queries)
            GPU_DOTS(inner, GPU_OWN_KEYS, of_v, GPU_ATTENTION_VALUE, begin, a.keys, 1, of_g, GPU_ATTENTION_GRAD, query,
                     a.queries)
            GPU_BARRIER(); /* `left` becomes the gradients of the scores */
            for (uint32_t j = 0; j < 2; j++) {
                uint32_t x = column + j * GPU_ACROSS, at_query = query + x < a.queries ? query + x : a.queries - 1;
                int64_t at = gpu_delta_at(&a, batch, head, at_query);
                T stat = gpu_stat(stats, &a, batch, head, at_query), delta = work[at], mend = work[at + 1];
                for (uint32_t i = 0; i < GPU_OWN_KEYS; i++) {
                    gpu_score score = gpu_masked(scores[2 * i + j], mask, &a, batch, head, query + x, begin + row + i);
                    T weight = gpu_weight(score, stat) * mend;
                    weights[(row + i) * GPU_PITCH + x] = weight;
                    left[(row + i) * GPU_PITCH + x] = weight * (inner[2 * i + j] - delta);
                }
            }
            gpu_add_block(of_values, weights, right, of_g, GPU_STRIDE(GPU_ATTENTION_GRAD), query, a.queries, a.width,
                          GPU_OWN_KEYS);
            gpu_add_block(of_keys, left, right, of_q, GPU_STRIDE(GPU_ATTENTION_QUERY), query, a.queries, a.width,
                          GPU_OWN_KEYS);
        }
    }
    for (uint32_t i = 0; i < GPU_OWN_KEYS; i++) factors[i] = 1;
    gpu_put_block(GPU_HEAD(grad_v, GPU_ATTENTION_GRAD_VALUE, own), GPU_STRIDE(GPU_ATTENTION_GRAD_VALUE), begin, a.keys,
                  a.width, of_values, factors, GPU_OWN_KEYS);
    for (uint32_t i = 0; i < GPU_OWN_KEYS; i++) factors[i] = gpu_value(a.scale);
    gpu_put_block(GPU_HEAD(grad_k, GPU_ATTENTION_GRAD_KEY, own), GPU_STRIDE(GPU_ATTENTION_GRAD_KEY), begin, a.keys, a.width,
                  of_keys, factors, GPU_OWN_KEYS);
}
