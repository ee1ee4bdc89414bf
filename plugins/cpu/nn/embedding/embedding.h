/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of embedding_dtype.c, and what embedding.c and embedding_bag.c share. */
#ifndef TENON_CPU_NN_EMBEDDING_H
#define TENON_CPU_NN_EMBEDDING_H

#include "support/kernel_table.h"

enum { CPU_BAG_SUM, CPU_BAG_MEAN, CPU_BAG_MAX };

/* Rows of `width` elements in a table, gathered by index into bags. All row-major; indices are int64. */
typedef struct cpu_bags {
    int64_t rows, width, count; /* of the table; number of indices */
    const int64_t *indices;
    const int64_t *starts;    /* bag b holds the indices [starts[b], starts[b + 1]) */
    const int64_t *bag_of;    /* backward: of each index */
    const int64_t *sizes;     /* backward of means: of each bag, without padding */
    const int64_t *largest;   /* max: row that gave each element */
    const int64_t *frequency; /* of each row, or NULL */
    /* Backward: the indices that name row r are row_order[row_starts[r]] to row_order[row_starts[r + 1] - 1].
     */
    const int64_t *row_starts, *row_order;
    int64_t padding; /* index that is skipped, or -1 */
    int32_t mode;
    const void *table, *weights; /* weights: one per index, or NULL */
    const void *grad;            /* [bags, width], or [count, width] where each index is its own bag */
    void *out;
    int64_t *out_sizes, *out_largest; /* forward; may be NULL */
} cpu_bags;

typedef struct cpu_embedding_kernels {
    int64_t acc_bytes;
    /* Bags [begin, end). */
    void (*forward)(const cpu_bags *b, int64_t begin, int64_t end);
    /* Rows [begin, end) of the table's gradient. */
    void (*backward)(const cpu_bags *b, int64_t begin, int64_t end);
    /* The same for maxima, summed in `sums`, which has a row of accumulators for each row. */
    void (*backward_max)(const cpu_bags *b, int64_t begin, int64_t end, void *sums);
    /* Gradient of the weights of indices [begin, end). */
    void (*backward_weights)(const cpu_bags *b, int64_t begin, int64_t end);
    /* Scales a row whose norm is above the limit. */
    void (*renorm)(void *row, int64_t width, int64_t step, double max_norm, double p);
} cpu_embedding_kernels;

extern cpu_kernel_table cpu_embedding_table;

/* A tensor of indices as row-major int64, checked against [0, limit) when limit is not negative. */
typedef struct cpu_indices {
    const int64_t *data;
    int64_t count;
} cpu_indices;
int32_t cpu_indices_open(const tn_call *call, const tn_tensor_desc *t, int64_t limit, cpu_indices *out);
/* How often each row occurs; NULL with an error if out of memory. */
int64_t *cpu_frequencies(const tn_call *call, const cpu_indices *indices, int64_t rows);
/* The gradient of the table; threads take ranges of rows. */
int32_t cpu_table_gradient(const tn_call *call, tn_dtype dtype, cpu_bags *bags);

#endif
