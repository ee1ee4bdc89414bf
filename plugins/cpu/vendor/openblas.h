/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenBLAS, opened at first need, because starting it takes tens of milliseconds. All calls through the
 * table run on the calling thread alone; callers split products over threads themselves, so that results do
 * not depend on the number of threads.
 */
#ifndef TENON_CPU_OPENBLAS_H
#define TENON_CPU_OPENBLAS_H

#include <stdbool.h>
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
    /* from the OpenMP runtime that this OpenBLAS uses; NULL in builds with their own threads */
    void (*omp_set_num_threads)(int threads);
    int (*omp_get_max_threads)(void);
    bool is_narrow; /* the processor has AVX-512, and the library no kernels for it */
} cpu_openblas;

/* The table, or NULL if the library is missing, lacks memory or the process ends. From any thread. */
const cpu_openblas *cpu_openblas_get(void);

/* Version, core type, threads and file of the library in use, or why it is not; a static text. Opens it. */
const char *cpu_openblas_describe(void);

/* Opens the library with the kernels of a core type ("SKYLAKEX"), if it is not loaded yet, and leaves the
 * environment as it was. For openblas.c and its test. */
void *cpu_openblas_open_as(const char *core);

/* Between begin and end, OpenBLAS uses the calling thread only. -1: the process ends, nothing may be called, `end` neither. */
int cpu_openblas_begin(const cpu_openblas *blas);
void cpu_openblas_end(const cpu_openblas *blas, int token);

#endif
