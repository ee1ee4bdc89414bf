/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of cuSOLVER (11 and 12) that the plugin uses, after NVIDIA's documentation of the library: its headers are not
 * needed. hipSOLVER has the same ones. Handles are opaque; matrices are column-major, in device memory, as are pivots and infos.
 */
#ifndef TENON_CUDA_CUSOLVER_H
#define TENON_CUDA_CUSOLVER_H

#include <library_names.h>
#include <stddef.h>
#include <stdint.h>

/* X(result, name, arguments). `T` is S (float) or D (double); lengths of work are in elements. */
#define CUSOLVER_TYPED(X, T)                                                                                 \
    X(int, cusolverDn##T##potrf_bufferSize,                                                                  \
      (void *handle, int triangle, int n, void *a, int lda, int *out_length))                                \
    X(int, cusolverDn##T##potrf,                                                                             \
      (void *handle, int triangle, int n, void *a, int lda, void *work, int length, int *info))              \
    X(int, cusolverDn##T##getrf_bufferSize, (void *handle, int m, int n, void *a, int lda, int *out_length)) \
    X(int, cusolverDn##T##getrf,                                                                             \
      (void *handle, int m, int n, void *a, int lda, void *work, int *pivots, int *info))                    \
    X(int, cusolverDn##T##getrs,                                                                             \
      (void *handle, int operation, int n, int columns, const void *a, int lda, const int *pivots, void *b,  \
       int ldb, int *info))                                                                                  \
    X(int, cusolverDn##T##geqrf_bufferSize, (void *handle, int m, int n, void *a, int lda, int *out_length)) \
    X(int, cusolverDn##T##geqrf,                                                                             \
      (void *handle, int m, int n, void *a, int lda, void *tau, void *work, int length, int *info))          \
    X(int, cusolverDn##T##orgqr_bufferSize,                                                                  \
      (void *handle, int m, int n, int k, const void *a, int lda, const void *tau, int *out_length))         \
    X(int, cusolverDn##T##orgqr,                                                                             \
      (void *handle, int m, int n, int k, void *a, int lda, const void *tau, void *work, int length,         \
       int *info))                                                                                           \
    X(int, cusolverDn##T##syevd_bufferSize,                                                                  \
      (void *handle, int mode, int triangle, int n, const void *a, int lda, const void *w, int *out_length)) \
    X(int, cusolverDn##T##syevd,                                                                             \
      (void *handle, int mode, int triangle, int n, void *a, int lda, void *w, void *work, int length,       \
       int *info))                                                                                           \
    X(int, cusolverDn##T##gesvd_bufferSize, (void *handle, int m, int n, int *out_length))                   \
    X(int, cusolverDn##T##gesvd,                                                                             \
      (void *handle, signed char left, signed char right, int m, int n, void *a, int lda, void *values,      \
       void *u, int ldu, void *vt, int ldvt, void *work, int length, void *real_work, int *info))

#define CUSOLVER_FUNCTIONS(X)                                 \
    X(int, cusolverDnCreate, (void **out_handle))             \
    X(int, cusolverDnDestroy, (void *handle))                 \
    X(int, cusolverDnSetStream, (void *handle, void *stream)) \
    VENDOR_SOLVER_FUNCTIONS(X)                                \
    CUSOLVER_TYPED(X, S)                                      \
    CUSOLVER_TYPED(X, D)

#endif
