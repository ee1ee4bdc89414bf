/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products of all families: C = alpha * A * B + beta * C for every dtype. Only gemm.c calls libraries
 * for them.
 */
#ifndef TENON_CPU_NN_GEMM_H
#define TENON_CPU_NN_GEMM_H

#include "support/kernel_table.h"

/* Strides in elements. Rows of C have adjacent elements. With beta 0 the old C is not read. */
typedef struct cpu_gemm {
    int64_t m, n, k;
    const void *a;
    int64_t a_row, a_col;
    const void *b;
    int64_t b_row, b_col;
    void *c;
    int64_t c_row;
    double alpha[2]; /* real and imaginary part */
    double beta[2];
    const void
        *bias;     /* NULL, or n adjacent elements that are added to each row; then alpha is 1 and beta 0 */
    int64_t count; /* 0 or 1: one product; else so many, whose matrices lie one behind the other (no bias) */
} cpu_gemm;

/* Strided vectors and a strided matrix: y = alpha * A * x + beta * y. */
typedef struct cpu_gemv {
    int64_t m, k;
    const void *a;
    int64_t a_row, a_col;
    const void *x;
    int64_t x_step;
    void *y;
    double alpha[2];
    double beta[2];
} cpu_gemv;

/* Over the threads of the call; in deterministic mode, in tiles that depend on the sizes alone. */
int32_t cpu_gemm_run(const tn_call *call, tn_dtype dtype, const cpu_gemm *g);
/* On the calling thread; may be called inside a parallel loop. g->count is taken by cpu_gemm_serial alone. */
int32_t cpu_gemm_serial(const tn_call *call, tn_dtype dtype, const cpu_gemm *g);

/* The kernels of gemm_dtype.c. */
typedef struct cpu_gemm_kernels {
    int64_t acc_bytes; /* of an accumulator */
    /* Any strides, this thread. */
    void (*gemm)(const cpu_gemm *g);
    /* Rows [begin, end) of g->m. */
    void (*gemv)(const cpu_gemv *g, int64_t begin, int64_t end);
    /* Writes the sum of products of elements [begin, end) to partial (one acc). */
    void (*dot)(const void *x, int64_t x_step, const void *y, int64_t y_step, int32_t conjugate,
                int64_t begin, int64_t end, void *partial);
    void (*dot_finish)(const void *partials, int64_t count, void *out);
    /* Rows [begin, end) of C = beta * C + alpha * a b^T for two vectors (steps a_row and b_col). */
    void (*outer)(const cpu_gemm *g, int64_t begin, int64_t end);
    /* Columns [begin, end) of a product with few rows, which reads B once: A by rows; B by rows or by columns.
     * NULL: none for this dtype. */
    void (*thin)(const cpu_gemm *g, int64_t begin, int64_t end);
    /* to[i * columns + j] = from[i * row + j * col]. */
    void (*gather)(void *to, const void *from, int64_t row, int64_t col, int64_t rows, int64_t columns);
    /* to[i] += from[i]. */
    void (*add)(void *to, const void *from, int64_t count);
    /* Half types only: to and from float32, row by row. */
    void (*widen)(float *to, const void *from, int64_t row, int64_t col, int64_t rows, int64_t columns);
    void (*narrow)(void *to, const float *from, int64_t count, const double beta[2]);
} cpu_gemm_kernels;

extern cpu_kernel_table cpu_gemm_table;

static inline const cpu_gemm_kernels *cpu_gemm_kernels_of(tn_dtype dtype)
{
    return cpu_kernels_of(cpu_gemm_table, dtype);
}

#endif
