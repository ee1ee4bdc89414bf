/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LAPACK as OpenBLAS brings it: one table for each dtype that it computes in, opened at first need. Arguments
 * are Fortran's: everything by address, matrices by columns, the lengths of strings at the end. Elements are
 * void here; the table's dtype says what they are. Call it between tni_openblas_begin and tni_openblas_end.
 */
#ifndef TENON_CPU_LAPACK_H
#define TENON_CPU_LAPACK_H

#include <stddef.h>
#include <stdint.h>

typedef const int *tni_lapack_int; /* a size or leading dimension */
typedef const char *tni_lapack_flag;

/* Routines whose arguments are the same in all dtypes: name of real ones, name of complex ones, arguments. */
#define TNI_LAPACK_ROUTINES(X)                                                                             \
    X(getrf, getrf,                                                                                        \
      (tni_lapack_int m, tni_lapack_int n, void *a, tni_lapack_int lda, int *pivots, int *info))           \
    X(getrs, getrs,                                                                                        \
      (tni_lapack_flag trans, tni_lapack_int n, tni_lapack_int nrhs, const void *a, tni_lapack_int lda,    \
       const int *pivots, void *b, tni_lapack_int ldb, int *info, size_t length))                          \
    X(potrf, potrf,                                                                                        \
      (tni_lapack_flag uplo, tni_lapack_int n, void *a, tni_lapack_int lda, int *info, size_t length))     \
    X(trsm, trsm,                                                                                          \
      (tni_lapack_flag side, tni_lapack_flag uplo, tni_lapack_flag trans, tni_lapack_flag diag,            \
       tni_lapack_int m, tni_lapack_int n, const void *alpha, const void *a, tni_lapack_int lda, void *b,  \
       tni_lapack_int ldb, size_t l1, size_t l2, size_t l3, size_t l4))                                    \
    X(geqrf, geqrf,                                                                                        \
      (tni_lapack_int m, tni_lapack_int n, void *a, tni_lapack_int lda, void *tau, void *work,             \
       tni_lapack_int lwork, int *info))                                                                   \
    X(orgqr, ungqr,                                                                                        \
      (tni_lapack_int m, tni_lapack_int n, tni_lapack_int k, void *a, tni_lapack_int lda, const void *tau, \
       void *work, tni_lapack_int lwork, int *info))                                                       \
    X(ormqr, unmqr,                                                                                        \
      (tni_lapack_flag side, tni_lapack_flag trans, tni_lapack_int m, tni_lapack_int n, tni_lapack_int k,  \
       const void *a, tni_lapack_int lda, const void *tau, void *c, tni_lapack_int ldc, void *work,        \
       tni_lapack_int lwork, int *info, size_t l1, size_t l2))                                             \
    X(sytrf, sytrf,                                                                                        \
      (tni_lapack_flag uplo, tni_lapack_int n, void *a, tni_lapack_int lda, int *pivots, void *work,       \
       tni_lapack_int lwork, int *info, size_t length))                                                    \
    X(hetrf, hetrf,                                                                                        \
      (tni_lapack_flag uplo, tni_lapack_int n, void *a, tni_lapack_int lda, int *pivots, void *work,       \
       tni_lapack_int lwork, int *info, size_t length))                                                    \
    X(sytrs, sytrs,                                                                                        \
      (tni_lapack_flag uplo, tni_lapack_int n, tni_lapack_int nrhs, const void *a, tni_lapack_int lda,     \
       const int *pivots, void *b, tni_lapack_int ldb, int *info, size_t length))                          \
    X(hetrs, hetrs,                                                                                        \
      (tni_lapack_flag uplo, tni_lapack_int n, tni_lapack_int nrhs, const void *a, tni_lapack_int lda,     \
       const int *pivots, void *b, tni_lapack_int ldb, int *info, size_t length))                          \
    X(gels, gels,                                                                                          \
      (tni_lapack_flag trans, tni_lapack_int m, tni_lapack_int n, tni_lapack_int nrhs, void *a,            \
       tni_lapack_int lda, void *b, tni_lapack_int ldb, void *work, tni_lapack_int lwork, int *info,       \
       size_t length))

/* Routines whose complex form takes real scratch memory, too: those for real and for complex elements. */
#define TNI_LAPACK_REAL_ROUTINES(X)                                                                          \
    X(gesdd, (tni_lapack_flag job, tni_lapack_int m, tni_lapack_int n, void *a, tni_lapack_int lda, void *s, \
              void *u, tni_lapack_int ldu, void *vt, tni_lapack_int ldvt, void *work, tni_lapack_int lwork,  \
              int *iwork, int *info, size_t length))                                                         \
    X(syevd, (tni_lapack_flag job, tni_lapack_flag uplo, tni_lapack_int n, void *a, tni_lapack_int lda,      \
              void *w, void *work, tni_lapack_int lwork, int *iwork, tni_lapack_int liwork, int *info,       \
              size_t l1, size_t l2))                                                                         \
    X(geev, (tni_lapack_flag job_left, tni_lapack_flag job_right, tni_lapack_int n, void *a,                 \
             tni_lapack_int lda, void *wr, void *wi, void *vl, tni_lapack_int ldvl, void *vr,                \
             tni_lapack_int ldvr, void *work, tni_lapack_int lwork, int *info, size_t l1, size_t l2))        \
    X(gelsy, (tni_lapack_int m, tni_lapack_int n, tni_lapack_int nrhs, void *a, tni_lapack_int lda, void *b, \
              tni_lapack_int ldb, int *pivots, const void *rcond, int *rank, void *work,                     \
              tni_lapack_int lwork, int *info))                                                              \
    X(gelsd, (tni_lapack_int m, tni_lapack_int n, tni_lapack_int nrhs, void *a, tni_lapack_int lda, void *b, \
              tni_lapack_int ldb, void *s, const void *rcond, int *rank, void *work, tni_lapack_int lwork,   \
              int *iwork, int *info))                                                                        \
    X(gelss, (tni_lapack_int m, tni_lapack_int n, tni_lapack_int nrhs, void *a, tni_lapack_int lda, void *b, \
              tni_lapack_int ldb, void *s, const void *rcond, int *rank, void *work, tni_lapack_int lwork,   \
              int *info))
#define TNI_LAPACK_COMPLEX_ROUTINES(X)                                                                       \
    X(gesdd, (tni_lapack_flag job, tni_lapack_int m, tni_lapack_int n, void *a, tni_lapack_int lda, void *s, \
              void *u, tni_lapack_int ldu, void *vt, tni_lapack_int ldvt, void *work, tni_lapack_int lwork,  \
              void *rwork, int *iwork, int *info, size_t length))                                            \
    X(heevd, (tni_lapack_flag job, tni_lapack_flag uplo, tni_lapack_int n, void *a, tni_lapack_int lda,      \
              void *w, void *work, tni_lapack_int lwork, void *rwork, tni_lapack_int lrwork, int *iwork,     \
              tni_lapack_int liwork, int *info, size_t l1, size_t l2))                                       \
    X(geev, (tni_lapack_flag job_left, tni_lapack_flag job_right, tni_lapack_int n, void *a,                 \
             tni_lapack_int lda, void *w, void *vl, tni_lapack_int ldvl, void *vr, tni_lapack_int ldvr,      \
             void *work, tni_lapack_int lwork, void *rwork, int *info, size_t l1, size_t l2))                \
    X(gelsy, (tni_lapack_int m, tni_lapack_int n, tni_lapack_int nrhs, void *a, tni_lapack_int lda, void *b, \
              tni_lapack_int ldb, int *pivots, const void *rcond, int *rank, void *work,                     \
              tni_lapack_int lwork, void *rwork, int *info))                                                 \
    X(gelsd, (tni_lapack_int m, tni_lapack_int n, tni_lapack_int nrhs, void *a, tni_lapack_int lda, void *b, \
              tni_lapack_int ldb, void *s, const void *rcond, int *rank, void *work, tni_lapack_int lwork,   \
              void *rwork, int *iwork, int *info))                                                           \
    X(gelss, (tni_lapack_int m, tni_lapack_int n, tni_lapack_int nrhs, void *a, tni_lapack_int lda, void *b, \
              tni_lapack_int ldb, void *s, const void *rcond, int *rank, void *work, tni_lapack_int lwork,   \
              void *rwork, int *info))

typedef struct tni_lapack {
#define TNI_LAPACK_POINTER(real_name, complex_name, arguments) void(*real_name) arguments;
    TNI_LAPACK_ROUTINES(TNI_LAPACK_POINTER)
#undef TNI_LAPACK_POINTER
#define TNI_LAPACK_POINTER(name, arguments) void(*name) arguments;
    struct {
        TNI_LAPACK_REAL_ROUTINES(TNI_LAPACK_POINTER)
    } for_real; /* NULL in tables of complex dtypes */
    struct {
        TNI_LAPACK_COMPLEX_ROUTINES(TNI_LAPACK_POINTER)
    } for_complex; /* NULL in tables of real dtypes */
#undef TNI_LAPACK_POINTER
} tni_lapack;

/* For float32, float64, complex64, complex128 (0 to 3); NULL when OpenBLAS is not there, or without LAPACK.
 * From any thread. */
const tni_lapack *tni_lapack_get(int which);

#endif
