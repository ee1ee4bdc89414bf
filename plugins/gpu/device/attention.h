/* SPDX-License-Identifier: Apache-2.0 */
/* What both forms of attention share: where rows are, what masks make of a score, and weights. */
#ifndef TENON_GPU_ATTENTION_H
#define TENON_GPU_ATTENTION_H

#include "dialect.h"

#define GPU_STEP GPU_BYTES(GPU_DTYPE)

/* What scores are computed in. Of GPUs only few are fast in double. */
#if GPU_TYPE == 64 || (GPU_PROCESSOR && GPU_DTYPE == GPU_F32 && GPU_HAS_DOUBLE)
typedef double gpu_score;
#else
typedef float gpu_score;
#endif

/* Where row `row` of a head of an operand begins, in bytes. */
GPU_FUNCTION int64_t gpu_row_at(const gpu_attention *a, uint32_t operand, uint32_t batch, uint32_t head,
                                uint32_t row)
{
    return a->offsets[operand] + (int64_t)batch * a->strides[operand][0] +
           (int64_t)head * a->strides[operand][1] + (int64_t)row * a->strides[operand][2];
}

/* What the masks make of a score: -inf if the query must not see the key, which may be beyond the last one. */
GPU_FUNCTION gpu_score gpu_masked(gpu_score score, GPU_GLOBAL const uint8_t *mask, const gpu_attention *a,
                                  uint32_t batch, uint32_t head, uint32_t query, uint32_t key)
{
    if (key >= a->keys || query >= a->queries || (a->flags & GPU_ATTENTION_CAUSAL && key > query))
        return -INFINITY;
    if (!(a->flags & GPU_ATTENTION_MASKED)) return score;
    T m =
        gpu_load(mask + a->offsets[GPU_ATTENTION_MASK] + (int64_t)batch * a->strides[GPU_ATTENTION_MASK][0] +
                     (int64_t)head * a->strides[GPU_ATTENTION_MASK][1] +
                     (int64_t)query * a->strides[GPU_ATTENTION_MASK][2] + (int64_t)key * a->mask_step,
                 a->mask_dtype);
    return a->mask_dtype != GPU_BOOL ? score + m : m != 0 ? score : (gpu_score)-INFINITY;
}

/* Keys that the queries before `query` see at most. */
GPU_FUNCTION uint32_t gpu_keys_before(const gpu_attention *a, uint32_t query)
{
    return a->flags & GPU_ATTENTION_CAUSAL && query < a->keys ? query : a->keys;
}

/* The logarithm of the sum of the exponentials of a query's scores. */
GPU_FUNCTION T gpu_stat(GPU_GLOBAL const uint8_t *stats, const gpu_attention *a, uint32_t batch,
                        uint32_t head, uint32_t query)
{
    return gpu_load(stats + gpu_row_at(a, GPU_ATTENTION_STATS, batch, head, query), a->stats_dtype);
}

/* The weight of a key, from its score. */
GPU_FUNCTION T gpu_weight(gpu_score score, T stat)
{
    return score == -INFINITY || stat == -INFINITY ? (T)0 : FN(exp)((T)(score - (gpu_score)stat));
}

#endif
