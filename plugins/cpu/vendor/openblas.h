/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenBLAS, opened at first need: starting it takes tens of milliseconds, which programs without products
 * need not pay. All calls made through the table run on the calling thread alone; splitting a product over
 * threads is the caller's business, because only the caller can do it in a way that never changes the result.
 */
#ifndef TENON_CPU_OPENBLAS_H
#define TENON_CPU_OPENBLAS_H

#include <stdint.h>

#define CPU_BLAS_ROW_MAJOR 101
#define CPU_BLAS_NO_TRANS  111
#define CPU_BLAS_TRANS     112

typedef struct cpu_openblas {
    void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*dgemm)(int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const double *a,
                  int lda, const double *b, int ldb, double beta, double *c, int ldc);
    void (*cgemm)(int order, int trans_a, int trans_b, int m, int n, int k, const void *alpha, const void *a,
                  int lda, const void *b, int ldb, const void *beta, void *c, int ldc);
    void (*zgemm)(int order, int trans_a, int trans_b, int m, int n, int k, const void *alpha, const void *a,
                  int lda, const void *b, int ldb, const void *beta, void *c, int ldc);
    /* Of the OpenMP runtime that this OpenBLAS uses; NULL in builds with threads of their own. */
    void (*omp_set_num_threads)(int threads);
    int (*omp_get_max_threads)(void);
} cpu_openblas;

/* The table, or NULL when the library is not there. From any thread. */
const cpu_openblas *cpu_openblas_get(void);

/* Version, core type, threads and file of the library in use, or why it is not; a static text. Opens it. */
const char *cpu_openblas_describe(void);

/* Between these two the calling thread uses no other thread in OpenBLAS. */
int cpu_openblas_begin(const cpu_openblas *blas);
void cpu_openblas_end(const cpu_openblas *blas, int token);

#endif
