/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ../cuda/blas.c, fft.c and solver.c are compiled with in the HIP plugin, and dnn.c: the names that NVIDIA's functions have in AMD's
 * libraries, files, numbers and what else differs, after AMD's documentation of hipBLASLt (0.6 to 1.2), hipFFT (1.0) and hipSOLVER
 * (2.0 to 3.0), in ROCm 6 and 7.
 */
#ifndef TENON_HIP_LIBRARY_NAMES_H
#define TENON_HIP_LIBRARY_NAMES_H

/* Statuses have the same numbers in hipBLASLt and hipSOLVER, as have operations and triangles. */
#define HIP_LIBRARY_STATUSES(prefix)                                                                        \
    prefix "SUCCESS", prefix "NOT_INITIALIZED", prefix "ALLOC_FAILED", prefix "INVALID_VALUE",              \
        prefix "MAPPING_ERROR", prefix "EXECUTION_FAILED", prefix "INTERNAL_ERROR", prefix "NOT_SUPPORTED", \
        prefix "ARCH_MISMATCH", prefix "HANDLE_IS_NULLPTR", prefix "INVALID_ENUM", prefix "UNKNOWN"

/* Handles of hipBLASLt and hipSOLVER own device memory, which all of their work uses: flags of sums, workspaces. That of MIOpen owns
 * handles of rocBLAS and hipBLASLt. */
enum { VENDOR_HANDLE_HAS_ONE_STREAM = 1 };

/* ---- Products ----------------------------------------------------------------------------------------------- */

#define cublasLtCreate                       hipblasLtCreate
#define cublasLtDestroy                      hipblasLtDestroy
#define cublasLtMatmulDescCreate             hipblasLtMatmulDescCreate
#define cublasLtMatmulDescDestroy            hipblasLtMatmulDescDestroy
#define cublasLtMatmulDescSetAttribute       hipblasLtMatmulDescSetAttribute
#define cublasLtMatrixLayoutCreate           hipblasLtMatrixLayoutCreate
#define cublasLtMatrixLayoutDestroy          hipblasLtMatrixLayoutDestroy
#define cublasLtMatrixLayoutSetAttribute     hipblasLtMatrixLayoutSetAttribute
#define cublasLtMatmulPreferenceCreate       hipblasLtMatmulPreferenceCreate
#define cublasLtMatmulPreferenceDestroy      hipblasLtMatmulPreferenceDestroy
#define cublasLtMatmulPreferenceSetAttribute hipblasLtMatmulPreferenceSetAttribute
#define cublasLtMatmulAlgoGetHeuristic       hipblasLtMatmulAlgoGetHeuristic
#define cublasLtMatmul                       hipblasLtMatmul

enum { /* statuses */
       CUBLAS_SUCCESS = 0,
       CUBLAS_NOT_INITIALIZED = 1,
       CUBLAS_ALLOC_FAILED = 2,
       CUBLAS_INVALID_VALUE = 3,
       CUBLAS_EXECUTION_FAILED = 5,
       CUBLAS_INTERNAL_ERROR = 6,
       CUBLAS_NOT_SUPPORTED = 7,
       CUBLAS_ARCH_MISMATCH = 8,
       CUBLAS_INVALID_ENUM = 10
};
enum { CUBLAS_R_32F = 0, CUBLAS_R_64F = 1, CUBLAS_R_16F = 2, CUBLAS_R_16BF = 14 }; /* types of elements */
enum { CUBLAS_BY_32F = 2, CUBLAS_BY_64F = 7, CUBLAS_BY_TF32 = 6 };                 /* types of sums */
enum { LT_DESC_TRANSA = 0, LT_DESC_TRANSB = 1, LT_DESC_EPILOGUE = 2, LT_DESC_BIAS = 3 }; /* attributes */
enum { LT_PLAIN = 111, LT_TRANSPOSED = 112 };
enum { LT_LAYOUT_BATCH_COUNT = 0, LT_LAYOUT_BATCH_OFFSET = 1 };
enum {
    LT_PREFER_WORKSPACE = 1,
    LT_PREFER_REDUCTIONS = 0, /* the library has no preference for them, nor for alignment */
    LT_PREFER_ALIGNMENT = 0,
    LT_ALIGNMENTS = 0
};
enum { LT_EPILOGUE_NONE = 1, LT_EPILOGUE_BIAS = 4 };
enum { LT_ALGORITHM_WORDS = 3 };
enum { LT_KEEPS_ORDER = 0 }; /* the library does not say in which order it adds */

#define VENDOR_BLAS "hipBLASLt"
#define VENDOR_BLAS_FILES                        \
    {                                            \
        "libhipblaslt.so.1", "libhipblaslt.so.0" \
    }
#define VENDOR_BLAS_LEAST        600 /* 0.6 of ROCm 6: before, types had other numbers */
#define VENDOR_BLAS_HANDLE_BYTES ((size_t)32 << 20)
/* What the library says of most work that it does not do, and of numbers that it does not know. */
#define VENDOR_BLAS_REFUSES(result) ((result) == CUBLAS_INTERNAL_ERROR || (result) == CUBLAS_INVALID_ENUM)
#define VENDOR_BLAS_FUNCTIONS(X)    X(int, hipblasLtGetVersion, (void *handle, int *out))
#define VENDOR_BLAS_VERSION(b)                                     \
    ({                                                             \
        int blas_version = 0;                                      \
        (b)->hipblasLtGetVersion((b)->base.handle, &blas_version); \
        (size_t) blas_version;                                     \
    })
#define VENDOR_BLAS_STATUS_NAME(b, status)                                                 \
    ({                                                                                     \
        static const char *const blas_names[] = {HIP_LIBRARY_STATUSES("HIPBLAS_STATUS_")}; \
        (status) >= 0 && (status) < 12 ? blas_names[status] : "unknown status";            \
    })

/* ---- Convolutions ------------------------------------------------------------------------------------------- */

#define VENDOR_DNN "MIOpen"
#define VENDOR_DNN_FILES \
    {                    \
        "libMIOpen.so.1" \
    }
#define VENDOR_CAN_ATTEND NULL /* MIOpen has no attention of this form */
#define VENDOR_ATTEND     NULL

/* ---- Fourier transforms ------------------------------------------------------------------------------------- */

#define cufftGetVersion        hipfftGetVersion
#define cufftCreate            hipfftCreate
#define cufftDestroy           hipfftDestroy
#define cufftSetAutoAllocation hipfftSetAutoAllocation
#define cufftMakePlanMany64    hipfftMakePlanMany64
#define cufftSetStream         hipfftSetStream
#define cufftSetWorkArea       hipfftSetWorkArea
#define cufftExec              hipfftExec
#define cufftExecC2C           hipfftExecC2C
#define cufftExecZ2Z           hipfftExecZ2Z
#define cufftExecR2C           hipfftExecR2C
#define cufftExecD2Z           hipfftExecD2Z

typedef void *fft_handle; /* of a plan */

enum { FFT_PARSE_ERROR = 12 };

#define VENDOR_FFT "hipFFT"
#define VENDOR_FFT_FILES \
    {                    \
        "libhipfft.so.0" \
    }
#define VENDOR_FFT_STATUS(end) "HIPFFT_" end
/* No plan of rocFFT fits: the status is PARSE_ERROR when it is made, or INVALID_PLAN when it is used. */
#define VENDOR_FFT_REFUSES(result)      ((result) == FFT_PARSE_ERROR)
#define VENDOR_FFT_EXEC_REFUSES(result) ((result) == FFT_INVALID_PLAN)

/* ---- Factors of matrices ------------------------------------------------------------------------------------ */

#define cusolverDnCreate            hipsolverDnCreate
#define cusolverDnDestroy           hipsolverDnDestroy
#define cusolverDnSetStream         hipsolverDnSetStream
#define cusolverDnSpotrf_bufferSize hipsolverDnSpotrf_bufferSize
#define cusolverDnDpotrf_bufferSize hipsolverDnDpotrf_bufferSize
#define cusolverDnSpotrf            hipsolverDnSpotrf
#define cusolverDnDpotrf            hipsolverDnDpotrf
#define cusolverDnSgetrf_bufferSize hipsolverDnSgetrf_bufferSize
#define cusolverDnDgetrf_bufferSize hipsolverDnDgetrf_bufferSize
#define cusolverDnSgetrf            hipsolverDnSgetrf
#define cusolverDnDgetrf            hipsolverDnDgetrf
#define cusolverDnSgetrs            hipsolverDnSgetrs
#define cusolverDnDgetrs            hipsolverDnDgetrs
#define cusolverDnSgeqrf_bufferSize hipsolverDnSgeqrf_bufferSize
#define cusolverDnDgeqrf_bufferSize hipsolverDnDgeqrf_bufferSize
#define cusolverDnSgeqrf            hipsolverDnSgeqrf
#define cusolverDnDgeqrf            hipsolverDnDgeqrf
#define cusolverDnSorgqr_bufferSize hipsolverDnSorgqr_bufferSize
#define cusolverDnDorgqr_bufferSize hipsolverDnDorgqr_bufferSize
#define cusolverDnSorgqr            hipsolverDnSorgqr
#define cusolverDnDorgqr            hipsolverDnDorgqr
#define cusolverDnSsyevd_bufferSize hipsolverDnSsyevd_bufferSize
#define cusolverDnDsyevd_bufferSize hipsolverDnDsyevd_bufferSize
#define cusolverDnSsyevd            hipsolverDnSsyevd
#define cusolverDnDsyevd            hipsolverDnDsyevd
#define cusolverDnSgesvd_bufferSize hipsolverDnSgesvd_bufferSize
#define cusolverDnDgesvd_bufferSize hipsolverDnDgesvd_bufferSize
#define cusolverDnSgesvd            hipsolverDnSgesvd
#define cusolverDnDgesvd            hipsolverDnDgesvd

enum { /* statuses */
       SOLVER_SUCCESS = 0,
       SOLVER_NOT_INITIALIZED = 1,
       SOLVER_ALLOC_FAILED = 2,
       SOLVER_INVALID_VALUE = 3,
       SOLVER_EXECUTION_FAILED = 5,
       SOLVER_INTERNAL_ERROR = 6,
       SOLVER_NOT_SUPPORTED = 7,
       SOLVER_ARCH_MISMATCH = 8
};
enum { SOLVER_LOWER = 122, SOLVER_UPPER = 121 };               /* triangles */
enum { SOLVER_PLAIN = 111, SOLVER_TRANSPOSED = 112 };          /* operations on a matrix */
enum { SOLVER_VALUES = 201, SOLVER_VALUES_AND_VECTORS = 202 }; /* of symmetric matrices */

/* Lengths of work are bytes in older versions and elements in newer ones: as elements they suffice for both. */
#define VENDOR_SOLVER "hipSOLVER"
#define VENDOR_SOLVER_FILES                      \
    {                                            \
        "libhipsolver.so.1", "libhipsolver.so.0" \
    }
#define VENDOR_SOLVER_LEAST          0
#define VENDOR_SOLVER_FUNCTIONS(X)                 /* it does not tell its version */
#define VENDOR_SOLVER_TYPED          "hipsolverDn" /* S or D and the name follow */
#define VENDOR_SOLVER_VERSION(s, to) ((void)(s))
#define VENDOR_SOLVER_STATUSES                                                    \
    {                                                                             \
        HIP_LIBRARY_STATUSES("HIPSOLVER_STATUS_"), "HIPSOLVER_STATUS_ZERO_PIVOT", \
            "HIPSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED"                          \
    }
#define VENDOR_SOLVER_KEEPS_STREAM 1 /* it asks the stream when it is told of it */
enum { VENDOR_SOLVER_WRAPS = 0 };
/* A length of work that does not fit an int: more than 2 GiB. */
#define VENDOR_SOLVER_IS_TOO_LONG(result) ((result) == SOLVER_INTERNAL_ERROR)

#endif
