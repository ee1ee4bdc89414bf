/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What blas.c, fft.c and solver.c are compiled with in the CUDA plugin: files, numbers and what else AMD's libraries have in another
 * way, after NVIDIA's documentation of cuBLASLt (12 and 13), cuFFT (11 and 12) and cuSOLVER (11 and 12). The HIP plugin has a file
 * of this name, too.
 */
#ifndef TENON_CUDA_LIBRARY_NAMES_H
#define TENON_CUDA_LIBRARY_NAMES_H

enum { VENDOR_HANDLE_HAS_ONE_STREAM = 0 }; /* work on several streams may use a handle at once */

/* ---- Products ----------------------------------------------------------------------------------------------- */

enum { /* statuses */
       CUBLAS_SUCCESS = 0,
       CUBLAS_NOT_INITIALIZED = 1,
       CUBLAS_ALLOC_FAILED = 3,
       CUBLAS_INVALID_VALUE = 7,
       CUBLAS_ARCH_MISMATCH = 8,
       CUBLAS_EXECUTION_FAILED = 13,
       CUBLAS_NOT_SUPPORTED = 15
};
enum { CUBLAS_R_32F = 0, CUBLAS_R_64F = 1, CUBLAS_R_16F = 2, CUBLAS_R_16BF = 14 }; /* types of elements */
enum { CUBLAS_BY_32F = 68, CUBLAS_BY_64F = 70, CUBLAS_BY_TF32 = 77 };              /* types of sums */
enum { LT_DESC_TRANSA = 3, LT_DESC_TRANSB = 4, LT_DESC_EPILOGUE = 7, LT_DESC_BIAS = 8 }; /* attributes */
enum { LT_PLAIN = 0, LT_TRANSPOSED = 1 };
enum { LT_LAYOUT_BATCH_COUNT = 5, LT_LAYOUT_BATCH_OFFSET = 6 };
enum {
    LT_PREFER_WORKSPACE = 1,
    LT_PREFER_REDUCTIONS = 3,
    LT_PREFER_ALIGNMENT = 5, /* of a; those of b, c and d follow */
    LT_ALIGNMENTS = 4
};
enum { LT_EPILOGUE_NONE = 1, LT_EPILOGUE_BIAS = 4 };
enum { LT_ALGORITHM_WORDS = 8 };
enum { LT_KEEPS_ORDER = 1 }; /* the library can be told to add in one order */

#define VENDOR_BLAS "cuBLASLt"
#define VENDOR_BLAS_FILES                        \
    {                                            \
        "libcublasLt.so.13", "libcublasLt.so.12" \
    }
#define VENDOR_BLAS_LEAST           120100 /* 12.1: before, some products are wrong that have gaps between their rows */
#define VENDOR_BLAS_HANDLE_BYTES    0
#define VENDOR_BLAS_REFUSES(result) 0
#define VENDOR_BLAS_FUNCTIONS(X)          \
    X(size_t, cublasLtGetVersion, (void)) \
    X(const char *, cublasLtGetStatusName, (int status))
#define VENDOR_BLAS_VERSION(b)             ((b)->cublasLtGetVersion())
#define VENDOR_BLAS_STATUS_NAME(b, status) ((b)->cublasLtGetStatusName(status))

/* ---- Convolutions ------------------------------------------------------------------------------------------- */

#define VENDOR_DNN "cuDNN"
#define VENDOR_DNN_FILES \
    {                    \
        "libcudnn.so.9"  \
    }
#define VENDOR_CAN_ATTEND cuda_dnn_can_attend
#define VENDOR_ATTEND     cuda_dnn_attend

/* ---- Fourier transforms ------------------------------------------------------------------------------------- */

typedef int fft_handle; /* of a plan */

#define VENDOR_FFT "cuFFT"
#define VENDOR_FFT_FILES                   \
    {                                      \
        "libcufft.so.12", "libcufft.so.11" \
    }
#define VENDOR_FFT_STATUS(end)          "CUFFT_" end
#define VENDOR_FFT_REFUSES(result)      0
#define VENDOR_FFT_EXEC_REFUSES(result) ((result) == FFT_NO_WORKSPACE)

/* ---- Factors of matrices ------------------------------------------------------------------------------------ */

enum { /* statuses */
       SOLVER_SUCCESS = 0,
       SOLVER_NOT_INITIALIZED = 1,
       SOLVER_ALLOC_FAILED = 2,
       SOLVER_INVALID_VALUE = 3,
       SOLVER_ARCH_MISMATCH = 4,
       SOLVER_EXECUTION_FAILED = 6,
       SOLVER_INTERNAL_ERROR = 7,
       SOLVER_NOT_SUPPORTED = 9
};
enum { SOLVER_LOWER = 0, SOLVER_UPPER = 1 };               /* triangles */
enum { SOLVER_PLAIN = 0, SOLVER_TRANSPOSED = 1 };          /* operations on a matrix */
enum { SOLVER_VALUES = 0, SOLVER_VALUES_AND_VECTORS = 1 }; /* of symmetric matrices */

#define VENDOR_SOLVER "cuSOLVER"
#define VENDOR_SOLVER_FILES                      \
    {                                            \
        "libcusolver.so.12", "libcusolver.so.11" \
    }
#define VENDOR_SOLVER_LEAST          11402 /* of CUDA 12.0: much older ones fail for singular values of NaN */
#define VENDOR_SOLVER_FUNCTIONS(X)   X(int, cusolverGetVersion, (int *out_version))
#define VENDOR_SOLVER_TYPED          "cusolverDn" /* S or D and the name follow */
#define VENDOR_SOLVER_VERSION(s, to) ((s)->cusolverGetVersion(to))
#define VENDOR_SOLVER_KEEPS_STREAM   0
enum { VENDOR_SOLVER_WRAPS = 1 }; /* lengths beyond an int may have any value */
/* A length of work that does not fit an int: matrices of eigenvectors from about 25,000 rows on. */
#define VENDOR_SOLVER_IS_TOO_LONG(result) ((result) == SOLVER_INVALID_VALUE)
#define VENDOR_SOLVER_STATUSES                                                                        \
    {                                                                                                 \
        "CUSOLVER_STATUS_SUCCESS", "CUSOLVER_STATUS_NOT_INITIALIZED", "CUSOLVER_STATUS_ALLOC_FAILED", \
            "CUSOLVER_STATUS_INVALID_VALUE", "CUSOLVER_STATUS_ARCH_MISMATCH",                         \
            "CUSOLVER_STATUS_MAPPING_ERROR", "CUSOLVER_STATUS_EXECUTION_FAILED",                      \
            "CUSOLVER_STATUS_INTERNAL_ERROR", "CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED",            \
            "CUSOLVER_STATUS_NOT_SUPPORTED"                                                           \
    }

#endif
