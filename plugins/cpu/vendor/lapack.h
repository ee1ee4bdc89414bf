/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LAPACK from OpenBLAS, opened at first need: one table for each dtype. Arguments follow Fortran: all by
 * address, matrices by columns, the lengths of strings at the end. Elements are `void`, of the table's
 * dtype. Call the functions between cpu_openblas_begin and cpu_openblas_end.
 */
#ifndef TENON_CPU_LAPACK_H
#define TENON_CPU_LAPACK_H

#include <stddef.h>
#include <stdint.h>

typedef const int *cpu_lapack_int; /* a size or leading dimension */
typedef const char *cpu_lapack_flag;

/* Routines with the same arguments in all dtypes: name for real dtypes, name for complex ones, arguments. */
#define CPU_LAPACK_ROUTINES(X)                                                                             \
    X(getrf, getrf,                                                                                        \
      (cpu_lapack_int m, cpu_lapack_int n, void *a, cpu_lapack_int lda, int *pivots, int *info))           \
    X(getrs, getrs,                                                                                        \
      (cpu_lapack_flag trans, cpu_lapack_int n, cpu_lapack_int nrhs, const void *a, cpu_lapack_int lda,    \
       const int *pivots, void *b, cpu_lapack_int ldb, int *info, size_t length))                          \
    X(potrf, potrf,                                                                                        \
      (cpu_lapack_flag uplo, cpu_lapack_int n, void *a, cpu_lapack_int lda, int *info, size_t length))     \
    X(trsm, trsm,                                                                                          \
      (cpu_lapack_flag side, cpu_lapack_flag uplo, cpu_lapack_flag trans, cpu_lapack_flag diag,            \
       cpu_lapack_int m, cpu_lapack_int n, const void *alpha, const void *a, cpu_lapack_int lda, void *b,  \
       cpu_lapack_int ldb, size_t l1, size_t l2, size_t l3, size_t l4))                                    \
    X(geqrf, geqrf,                                                                                        \
      (cpu_lapack_int m, cpu_lapack_int n, void *a, cpu_lapack_int lda, void *tau, void *work,             \
       cpu_lapack_int lwork, int *info))                                                                   \
    X(orgqr, ungqr,                                                                                        \
      (cpu_lapack_int m, cpu_lapack_int n, cpu_lapack_int k, void *a, cpu_lapack_int lda, const void *tau, \
       void *work, cpu_lapack_int lwork, int *info))                                                       \
    X(ormqr, unmqr,                                                                                        \
      (cpu_lapack_flag side, cpu_lapack_flag trans, cpu_lapack_int m, cpu_lapack_int n, cpu_lapack_int k,  \
       const void *a, cpu_lapack_int lda, const void *tau, void *c, cpu_lapack_int ldc, void *work,        \
       cpu_lapack_int lwork, int *info, size_t l1, size_t l2))                                             \
    X(sytrf, sytrf,                                                                                        \
      (cpu_lapack_flag uplo, cpu_lapack_int n, void *a, cpu_lapack_int lda, int *pivots, void *work,       \
       cpu_lapack_int lwork, int *info, size_t length))                                                    \
    X(hetrf, hetrf,                                                                                        \
      (cpu_lapack_flag uplo, cpu_lapack_int n, void *a, cpu_lapack_int lda, int *pivots, void *work,       \
       cpu_lapack_int lwork, int *info, size_t length))                                                    \
    X(sytrs, sytrs,                                                                                        \
      (cpu_lapack_flag uplo, cpu_lapack_int n, cpu_lapack_int nrhs, const void *a, cpu_lapack_int lda,     \
       const int *pivots, void *b, cpu_lapack_int ldb, int *info, size_t length))                          \
    X(hetrs, hetrs,                                                                                        \
      (cpu_lapack_flag uplo, cpu_lapack_int n, cpu_lapack_int nrhs, const void *a, cpu_lapack_int lda,     \
       const int *pivots, void *b, cpu_lapack_int ldb, int *info, size_t length))                          \
    X(gels, gels,                                                                                          \
      (cpu_lapack_flag trans, cpu_lapack_int m, cpu_lapack_int n, cpu_lapack_int nrhs, void *a,            \
       cpu_lapack_int lda, void *b, cpu_lapack_int ldb, void *work, cpu_lapack_int lwork, int *info,       \
       size_t length))

/* Routines whose complex form also takes real scratch memory: for real and for complex elements. */
#define CPU_LAPACK_REAL_ROUTINES(X)                                                                          \
    X(gesdd, (cpu_lapack_flag job, cpu_lapack_int m, cpu_lapack_int n, void *a, cpu_lapack_int lda, void *s, \
              void *u, cpu_lapack_int ldu, void *vt, cpu_lapack_int ldvt, void *work, cpu_lapack_int lwork,  \
              int *iwork, int *info, size_t length))                                                         \
    X(syevd, (cpu_lapack_flag job, cpu_lapack_flag uplo, cpu_lapack_int n, void *a, cpu_lapack_int lda,      \
              void *w, void *work, cpu_lapack_int lwork, int *iwork, cpu_lapack_int liwork, int *info,       \
              size_t l1, size_t l2))                                                                         \
    X(geev, (cpu_lapack_flag job_left, cpu_lapack_flag job_right, cpu_lapack_int n, void *a,                 \
             cpu_lapack_int lda, void *wr, void *wi, void *vl, cpu_lapack_int ldvl, void *vr,                \
             cpu_lapack_int ldvr, void *work, cpu_lapack_int lwork, int *info, size_t l1, size_t l2))        \
    X(gelsy, (cpu_lapack_int m, cpu_lapack_int n, cpu_lapack_int nrhs, void *a, cpu_lapack_int lda, void *b, \
              cpu_lapack_int ldb, int *pivots, const void *rcond, int *rank, void *work,                     \
              cpu_lapack_int lwork, int *info))                                                              \
    X(gelsd, (cpu_lapack_int m, cpu_lapack_int n, cpu_lapack_int nrhs, void *a, cpu_lapack_int lda, void *b, \
              cpu_lapack_int ldb, void *s, const void *rcond, int *rank, void *work, cpu_lapack_int lwork,   \
              int *iwork, int *info))                                                                        \
    X(gelss, (cpu_lapack_int m, cpu_lapack_int n, cpu_lapack_int nrhs, void *a, cpu_lapack_int lda, void *b, \
              cpu_lapack_int ldb, void *s, const void *rcond, int *rank, void *work, cpu_lapack_int lwork,   \
              int *info))
#define CPU_LAPACK_COMPLEX_ROUTINES(X)                                                                       \
    X(gesdd, (cpu_lapack_flag job, cpu_lapack_int m, cpu_lapack_int n, void *a, cpu_lapack_int lda, void *s, \
              void *u, cpu_lapack_int ldu, void *vt, cpu_lapack_int ldvt, void *work, cpu_lapack_int lwork,  \
              void *rwork, int *iwork, int *info, size_t length))                                            \
    X(heevd, (cpu_lapack_flag job, cpu_lapack_flag uplo, cpu_lapack_int n, void *a, cpu_lapack_int lda,      \
              void *w, void *work, cpu_lapack_int lwork, void *rwork, cpu_lapack_int lrwork, int *iwork,     \
              cpu_lapack_int liwork, int *info, size_t l1, size_t l2))                                       \
    X(geev, (cpu_lapack_flag job_left, cpu_lapack_flag job_right, cpu_lapack_int n, void *a,                 \
             cpu_lapack_int lda, void *w, void *vl, cpu_lapack_int ldvl, void *vr, cpu_lapack_int ldvr,      \
             void *work, cpu_lapack_int lwork, void *rwork, int *info, size_t l1, size_t l2))                \
    X(gelsy, (cpu_lapack_int m, cpu_lapack_int n, cpu_lapack_int nrhs, void *a, cpu_lapack_int lda, void *b, \
              cpu_lapack_int ldb, int *pivots, const void *rcond, int *rank, void *work,                     \
              cpu_lapack_int lwork, void *rwork, int *info))                                                 \
    X(gelsd, (cpu_lapack_int m, cpu_lapack_int n, cpu_lapack_int nrhs, void *a, cpu_lapack_int lda, void *b, \
              cpu_lapack_int ldb, void *s, const void *rcond, int *rank, void *work, cpu_lapack_int lwork,   \
              void *rwork, int *iwork, int *info))                                                           \
    X(gelss, (cpu_lapack_int m, cpu_lapack_int n, cpu_lapack_int nrhs, void *a, cpu_lapack_int lda, void *b, \
              cpu_lapack_int ldb, void *s, const void *rcond, int *rank, void *work, cpu_lapack_int lwork,   \
              void *rwork, int *info))

typedef struct cpu_lapack {
#define CPU_LAPACK_POINTER(real_name, complex_name, arguments) void(*real_name) arguments;
    CPU_LAPACK_ROUTINES(CPU_LAPACK_POINTER)
#undef CPU_LAPACK_POINTER
#define CPU_LAPACK_POINTER(name, arguments) void(*name) arguments;
    struct {
        CPU_LAPACK_REAL_ROUTINES(CPU_LAPACK_POINTER)
    } for_real; /* NULL in tables of complex dtypes */
    struct {
        CPU_LAPACK_COMPLEX_ROUTINES(CPU_LAPACK_POINTER)
    } for_complex; /* NULL in tables of real dtypes */
#undef CPU_LAPACK_POINTER
} cpu_lapack;

/* The table for float32, float64, complex64 or complex128 (0 to 3); NULL if OpenBLAS is missing or lacks
 * LAPACK. From any thread. */
const cpu_lapack *cpu_lapack_get(int which);

#endif
