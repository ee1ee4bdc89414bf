/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of cuBLASLt (12 and 13) that the plugin uses, after NVIDIA's documentation of the library: its headers are not
 * needed. hipBLASLt has the same ones. Handles, descriptions, layouts and preferences are opaque.
 */
#ifndef TENON_CUDA_CUBLASLT_H
#define TENON_CUDA_CUBLASLT_H

#include <library_names.h>
#include <stddef.h>
#include <stdint.h>

/* How the parts of a long sum are put together: in place, in the type of sums, in that of elements. */
enum { LT_REDUCE_IN_PLACE = 1, LT_REDUCE_COMPUTE = 2, LT_REDUCE_OUTPUT = 4 };

typedef struct lt_algorithm {
    uint64_t words[LT_ALGORITHM_WORDS];
} lt_algorithm;

typedef struct lt_choice {
    lt_algorithm algorithm;
    size_t workspace; /* bytes */
    int status;
    float waves;
    int reserved[4];
} lt_choice;

/* X(result, name, arguments) */
#define CUBLASLT_FUNCTIONS(X)                                                                                \
    X(int, cublasLtCreate, (void **out_handle))                                                              \
    X(int, cublasLtDestroy, (void *handle))                                                                  \
    VENDOR_BLAS_FUNCTIONS(X)                                                                                 \
    X(int, cublasLtMatmulDescCreate, (void **out, int sums, int scalars))                                    \
    X(int, cublasLtMatmulDescDestroy, (void *description))                                                   \
    X(int, cublasLtMatmulDescSetAttribute,                                                                   \
      (void *description, int attribute, const void *value, size_t bytes))                                   \
    X(int, cublasLtMatrixLayoutCreate,                                                                       \
      (void **out, int type, uint64_t rows, uint64_t columns, int64_t leading))                              \
    X(int, cublasLtMatrixLayoutDestroy, (void *layout))                                                      \
    X(int, cublasLtMatrixLayoutSetAttribute, (void *layout, int attribute, const void *value, size_t bytes)) \
    X(int, cublasLtMatmulPreferenceCreate, (void **out))                                                     \
    X(int, cublasLtMatmulPreferenceDestroy, (void *preference))                                              \
    X(int, cublasLtMatmulPreferenceSetAttribute,                                                             \
      (void *preference, int attribute, const void *value, size_t bytes))                                    \
    X(int, cublasLtMatmulAlgoGetHeuristic,                                                                   \
      (void *handle, void *description, void *a, void *b, void *c, void *d, void *preference, int wanted,    \
       lt_choice *out, int *out_count))                                                                      \
    X(int, cublasLtMatmul,                                                                                   \
      (void *handle, void *description, const void *alpha, const void *a, void *a_layout, const void *b,     \
       void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,             \
       const lt_algorithm *algorithm, void *workspace, size_t workspace_bytes, void *stream))

#endif
