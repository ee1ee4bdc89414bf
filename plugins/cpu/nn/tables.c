/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of everything that is compiled once for each dtype and level, and the choice among it: the level
 * is read once, at load; the dtype is that of the call. Rows are collected here for plugin.c.
 */
#include "tables.h"
#include "support/cpu.h"
#include "nn/conv/conv_columns.h"
#include "nn/conv/conv_direct.h"
#include "nn/embedding/embedding.h"
#include "nn/resample/resample.h"
#include "nn/resample/grid_sample.h"
#include "nn/loss/margin_loss.h"
#include "nn/distance/distance.h"
#include "nn/rnn/gate.h"
#include "nn/conv/conv_depthwise.h"
#include "nn/product/gemm.h"
#include "nn/loss/nll_loss.h"
#include "nn/norm/norm.h"
#include "nn/pool/pool.h"
#include "nn/norm/softmax.h"
#include <string.h>

/* One slot of each table below for a dtype. */
enum {
    SLOT_f32,
    SLOT_f64,
    SLOT_f16,
    SLOT_bf16,
    SLOT_c64,
    SLOT_c128,
    SLOT_i64,
    SLOT_i32,
    SLOT_i16,
    SLOT_i8,
    SLOT_u8,
    SLOT_b8,
    SLOTS
};
static int slot_of(tn_dtype dtype)
{
    switch (dtype) {
    case TN_FLOAT32:
        return SLOT_f32;
    case TN_FLOAT64:
        return SLOT_f64;
    case TN_FLOAT16:
        return SLOT_f16;
    case TN_BFLOAT16:
        return SLOT_bf16;
    case TN_COMPLEX64:
        return SLOT_c64;
    case TN_COMPLEX128:
        return SLOT_c128;
    case TN_INT64:
        return SLOT_i64;
    case TN_INT32:
        return SLOT_i32;
    case TN_INT16:
        return SLOT_i16;
    case TN_INT8:
        return SLOT_i8;
    case TN_UINT8:
        return SLOT_u8;
    case TN_BOOL:
        return SLOT_b8;
    default:
        return -1;
    }
}

#define FOR_FULL(X, name, level) \
    X(name, f32, level)          \
    X(name, f64, level)
#define FOR_FLOATS(X, name, level) \
    X(name, f16, level)            \
    X(name, bf16, level)           \
    FOR_FULL(X, name, level)
#define FOR_INTEGERS(X, name, level) \
    X(name, i64, level)              \
    X(name, i32, level)              \
    X(name, i16, level)              \
    X(name, i8, level)               \
    X(name, u8, level)
#define FOR_REALS(X, name, level) FOR_FLOATS(X, name, level) FOR_INTEGERS(X, name, level)
#define FOR_ALL(X, name, level) \
    X(name, c64, level)         \
    X(name, c128, level)        \
    X(name, b8, level)          \
    FOR_REALS(X, name, level)

/* Levels that the build leaves out have no names. */
#ifdef CPU_HAVE_AVX2
#define IF_AVX2(...) __VA_ARGS__
#else
#define IF_AVX2(...)
#endif
#ifdef CPU_HAVE_AVX512
#define IF_AVX512(...) __VA_ARGS__
#else
#define IF_AVX512(...)
#endif
#define FOR_LEVELS(FOR, X, name) \
    FOR(X, name, base) IF_AVX2(FOR(X, name, avx2)) IF_AVX512(FOR(X, name, avx512))

/* A table type##s[level][slot] of addresses. */
#define ADDRESS(name, dtype, level) [SLOT_##dtype] = &name##_##dtype##_##level,
#define LEVEL_ADDRESSES(FOR, name, level) \
    {                                     \
        FOR(ADDRESS, name, level)         \
    }
#define ADDRESSES(FOR, name)                                                         \
    {                                                                                \
        LEVEL_ADDRESSES(FOR, name, base),                                            \
            IF_AVX2([CPU_LEVEL_AVX2] = LEVEL_ADDRESSES(FOR, name, avx2), )           \
                IF_AVX512([CPU_LEVEL_AVX512] = LEVEL_ADDRESSES(FOR, name, avx512), ) \
    }

#define DECLARE_PRODUCTS(name, dtype, level) extern const tni_product_kernels name##_##dtype##_##level;
FOR_LEVELS(FOR_ALL, DECLARE_PRODUCTS, tni_product_kernels)
static const tni_product_kernels *const products[CPU_LEVEL_COUNT][SLOTS] =
    ADDRESSES(FOR_ALL, tni_product_kernels);

#define DECLARE_COLUMNS(name, dtype, level) extern const tni_column_kernels name##_##dtype##_##level;
FOR_LEVELS(FOR_ALL, DECLARE_COLUMNS, tni_column_kernels)
static const tni_column_kernels *const columns[CPU_LEVEL_COUNT][SLOTS] =
    ADDRESSES(FOR_ALL, tni_column_kernels);

#define DECLARE_DIRECT(name, dtype, level) extern const tni_direct_kernels name##_##dtype##_##level;
FOR_LEVELS(FOR_FULL, DECLARE_DIRECT, tni_direct_kernels)
static const tni_direct_kernels *const directs[CPU_LEVEL_COUNT][SLOTS] =
    ADDRESSES(FOR_FULL, tni_direct_kernels);

#define DECLARE_BATCH_NORM(name, dtype, level) extern const tni_batch_norm_kernels name##_##dtype##_##level;
FOR_LEVELS(FOR_FLOATS, DECLARE_BATCH_NORM, tni_batch_norm_kernels)
static const tni_batch_norm_kernels *const batch_norms[CPU_LEVEL_COUNT][SLOTS] =
    ADDRESSES(FOR_FLOATS, tni_batch_norm_kernels);

#define DECLARE_LAYER_NORM(name, dtype, level) extern const tni_layer_norm_kernels name##_##dtype##_##level;
FOR_LEVELS(FOR_FLOATS, DECLARE_LAYER_NORM, tni_layer_norm_kernels)
static const tni_layer_norm_kernels *const layer_norms[CPU_LEVEL_COUNT][SLOTS] =
    ADDRESSES(FOR_FLOATS, tni_layer_norm_kernels);

#define DECLARE_SOFTMAX(name, dtype, level) extern const tni_softmax_kernels name##_##dtype##_##level;
FOR_LEVELS(FOR_FLOATS, DECLARE_SOFTMAX, tni_softmax_kernels)
static const tni_softmax_kernels *const softmaxes[CPU_LEVEL_COUNT][SLOTS] =
    ADDRESSES(FOR_FLOATS, tni_softmax_kernels);

#define DECLARE_NLL(name, dtype, level) extern const tni_nll_kernels name##_##dtype##_##level;
FOR_LEVELS(FOR_FLOATS, DECLARE_NLL, tni_nll_kernels)
static const tni_nll_kernels *const nlls[CPU_LEVEL_COUNT][SLOTS] = ADDRESSES(FOR_FLOATS, tni_nll_kernels);

#define DECLARE_POOL(name, dtype, level) extern const tni_pool_kernels name##_##dtype##_##level;
FOR_LEVELS(FOR_REALS, DECLARE_POOL, tni_pool_kernels)
FOR_LEVELS(FOR_REALS, DECLARE_POOL, tni_pool_last_kernels)
static const tni_pool_kernels *const pools[CPU_LEVEL_COUNT][SLOTS] = ADDRESSES(FOR_REALS, tni_pool_kernels);
static const tni_pool_kernels *const last_pools[CPU_LEVEL_COUNT][SLOTS] =
    ADDRESSES(FOR_REALS, tni_pool_last_kernels);

#define DECLARE_EMBEDDING(name, dtype, level) extern const tni_embedding_kernels name##_##dtype##_##level;
FOR_LEVELS(FOR_FLOATS, DECLARE_EMBEDDING, tni_embedding_kernels)
static const tni_embedding_kernels *const embeddings[CPU_LEVEL_COUNT][SLOTS] =
    ADDRESSES(FOR_FLOATS, tni_embedding_kernels);

#define DECLARE_RESAMPLE(name, dtype, level) extern const tni_resample_kernels name##_##dtype##_##level;
FOR_LEVELS(FOR_ALL, DECLARE_RESAMPLE, tni_resample_kernels)
static const tni_resample_kernels *const resamples[CPU_LEVEL_COUNT][SLOTS] =
    ADDRESSES(FOR_ALL, tni_resample_kernels);

#define DECLARE_GRID(name, dtype, level) extern const tni_grid_sample_kernels name##_##dtype##_##level;
FOR_LEVELS(FOR_FLOATS, DECLARE_GRID, tni_grid_sample_kernels)
static const tni_grid_sample_kernels *const grid_samples[CPU_LEVEL_COUNT][SLOTS] =
    ADDRESSES(FOR_FLOATS, tni_grid_sample_kernels);

#define DECLARE_MARGIN(name, dtype, level) extern const tni_margin_kernels name##_##dtype##_##level;
FOR_LEVELS(FOR_FLOATS, DECLARE_MARGIN, tni_margin_kernels)
static const tni_margin_kernels *const margins[CPU_LEVEL_COUNT][SLOTS] =
    ADDRESSES(FOR_FLOATS, tni_margin_kernels);

#define DECLARE_DISTANCE(name, dtype, level) extern const tni_distance_kernels name##_##dtype##_##level;
FOR_LEVELS(FOR_FLOATS, DECLARE_DISTANCE, tni_distance_kernels)
static const tni_distance_kernels *const distances[CPU_LEVEL_COUNT][SLOTS] =
    ADDRESSES(FOR_FLOATS, tni_distance_kernels);

#define DECLARE_GATE(name, dtype, level) extern const tni_gate_kernels name##_##dtype##_##level;
FOR_LEVELS(FOR_FLOATS, DECLARE_GATE, tni_gate_kernels)
static const tni_gate_kernels *const gates[CPU_LEVEL_COUNT][SLOTS] = ADDRESSES(FOR_FLOATS, tni_gate_kernels);

#define DECLARE_DEPTHWISE(name, dtype, level) extern const tni_depthwise_kernels name##_##dtype##_##level;
FOR_LEVELS(FOR_FULL, DECLARE_DEPTHWISE, tni_depthwise_kernels)
static const tni_depthwise_kernels *const depthwises[CPU_LEVEL_COUNT][SLOTS] =
    ADDRESSES(FOR_FULL, tni_depthwise_kernels);

const tni_product_kernels *tni_products_of(tn_dtype dtype)
{
    int slot = slot_of(dtype);
    return slot < 0 ? NULL : products[cpu_level()][slot];
}

const tni_column_kernels *tni_columns_of(tn_dtype dtype)
{
    int slot = slot_of(dtype);
    return slot < 0 ? NULL : columns[cpu_level()][slot];
}

const tni_direct_kernels *tni_direct_of(tn_dtype dtype)
{
    int slot = slot_of(dtype);
    return slot < 0 ? NULL : directs[cpu_level()][slot];
}

const tni_batch_norm_kernels *tni_batch_norm_of(tn_dtype dtype)
{
    int slot = slot_of(dtype);
    return slot < 0 ? NULL : batch_norms[cpu_level()][slot];
}

const tni_layer_norm_kernels *tni_layer_norm_of(tn_dtype dtype)
{
    int slot = slot_of(dtype);
    return slot < 0 ? NULL : layer_norms[cpu_level()][slot];
}

const tni_softmax_kernels *tni_softmax_of(tn_dtype dtype)
{
    int slot = slot_of(dtype);
    return slot < 0 ? NULL : softmaxes[cpu_level()][slot];
}

const tni_nll_kernels *tni_nll_of(tn_dtype dtype)
{
    int slot = slot_of(dtype);
    return slot < 0 ? NULL : nlls[cpu_level()][slot];
}

const tni_pool_kernels *tni_pools_of(tn_dtype dtype)
{
    int slot = slot_of(dtype);
    return slot < 0 ? NULL : pools[cpu_level()][slot];
}
const tni_pool_kernels *tni_pools_last_of(tn_dtype dtype)
{
    int slot = slot_of(dtype);
    return slot < 0 ? NULL : last_pools[cpu_level()][slot];
}

const tni_embedding_kernels *tni_embeddings_of(tn_dtype dtype)
{
    int slot = slot_of(dtype);
    return slot < 0 ? NULL : embeddings[cpu_level()][slot];
}

const tni_resample_kernels *tni_resamples_of(tn_dtype dtype)
{
    int slot = slot_of(dtype);
    return slot < 0 ? NULL : resamples[cpu_level()][slot];
}

const tni_grid_sample_kernels *tni_grid_samples_of(tn_dtype dtype)
{
    int slot = slot_of(dtype);
    return slot < 0 ? NULL : grid_samples[cpu_level()][slot];
}

const tni_margin_kernels *tni_margins_of(tn_dtype dtype)
{
    int slot = slot_of(dtype);
    return slot < 0 ? NULL : margins[cpu_level()][slot];
}

const tni_distance_kernels *tni_distances_of(tn_dtype dtype)
{
    int slot = slot_of(dtype);
    return slot < 0 ? NULL : distances[cpu_level()][slot];
}

const tni_gate_kernels *tni_gates_of(tn_dtype dtype)
{
    int slot = slot_of(dtype);
    return slot < 0 ? NULL : gates[cpu_level()][slot];
}

const tni_depthwise_kernels *tni_depthwise_of(tn_dtype dtype)
{
    int slot = slot_of(dtype);
    return slot < 0 ? NULL : depthwises[cpu_level()][slot];
}

/* ---- Rows -------------------------------------------------------------------------------------------- */

#define ROW_LIST(name)                              \
    extern const tn_kernel_row cpu_##name##_rows[]; \
    extern const uint32_t cpu_##name##_row_count;
/* Rows of libraries follow those they stand above. */
#ifdef CPU_HAVE_ONEDNN
#define IF_ONEDNN(...) __VA_ARGS__
#else
#define IF_ONEDNN(...)
#endif
#define ROW_LISTS(X)          \
    X(matmul)                 \
    X(conv)                   \
    IF_ONEDNN(X(conv_onednn)) \
    X(batch_norm)             \
    X(layer_norm)             \
    X(softmax)                \
    X(nll_loss)               \
    X(pool)                   \
    X(embedding)              \
    X(embedding_bag)          \
    X(upsample)               \
    X(pad)                    \
    X(grid_sample)            \
    X(im2col)                 \
    X(margin_loss)            \
    X(distance)               \
    X(gate)
ROW_LISTS(ROW_LIST)

static uint32_t append(tn_kernel_row *to, uint32_t at, const tn_kernel_row *rows, uint32_t count)
{
    if (to) memcpy(to + at, rows, count * sizeof(tn_kernel_row));
    return at + count;
}

uint32_t cpu_nn_rows(tn_kernel_row *to)
{
    uint32_t n = 0;
#define APPEND(name) n = append(to, n, cpu_##name##_rows, cpu_##name##_row_count);
    ROW_LISTS(APPEND)
    return n;
}
