/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions and numbers of cuBLASLt (12 and 13) that the plugin uses, after NVIDIA's documentation of the library: its
 * headers are not needed. Handles, descriptions, layouts and preferences are opaque.
 */
#ifndef TENON_CUDA_CUBLASLT_H
#define TENON_CUDA_CUBLASLT_H

#include <stddef.h>
#include <stdint.h>

enum { /* statuses */
       CUBLAS_SUCCESS = 0,
       CUBLAS_ALLOC_FAILED = 3,
       CUBLAS_INVALID_VALUE = 7,
       CUBLAS_ARCH_MISMATCH = 8,
       CUBLAS_EXECUTION_FAILED = 13,
       CUBLAS_NOT_SUPPORTED = 15
};
enum { CUBLAS_R_32F = 0, CUBLAS_R_64F = 1, CUBLAS_R_16F = 2, CUBLAS_R_16BF = 14 }; /* types of elements */
enum { CUBLAS_BY_32F = 68, CUBLAS_BY_64F = 70, CUBLAS_BY_TF32 = 77 };              /* types of sums */
enum { LT_DESC_TRANSA = 3, LT_DESC_TRANSB = 4, LT_DESC_EPILOGUE = 7, LT_DESC_BIAS = 8 }; /* attributes */
enum { LT_LAYOUT_BATCH_COUNT = 5, LT_LAYOUT_BATCH_OFFSET = 6 };
enum {
    LT_PREFER_WORKSPACE = 1,
    LT_PREFER_REDUCTIONS = 3,
    LT_PREFER_ALIGNMENT = 5 /* of a; those of b, c and d follow */
};
enum { LT_EPILOGUE_NONE = 1, LT_EPILOGUE_BIAS = 4 };
/* How the parts of a long sum are put together: in place, in the type of sums, in that of elements. */
enum { LT_REDUCE_IN_PLACE = 1, LT_REDUCE_COMPUTE = 2, LT_REDUCE_OUTPUT = 4 };

typedef struct lt_algorithm {
    uint64_t words[8];
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
    X(size_t, cublasLtGetVersion, (void))                                                                    \
    X(const char *, cublasLtGetStatusName, (int status))                                                     \
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
