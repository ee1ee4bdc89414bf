/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions and numbers of cuFFT (11 and 12) that the plugin uses, after NVIDIA's documentation of the library: its headers
 * are not needed. hipFFT has the same ones. Elements are counted in those of their own side, real or complex.
 */
#ifndef TENON_CUDA_CUFFT_H
#define TENON_CUDA_CUFFT_H

#include <library_names.h>
#include <stddef.h>

enum {
    FFT_SUCCESS = 0,
    FFT_INVALID_PLAN = 1,
    FFT_ALLOC_FAILED = 2,
    FFT_INVALID_TYPE = 3,
    FFT_INVALID_VALUE = 4,
    FFT_INTERNAL_ERROR = 5,
    FFT_EXEC_FAILED = 6,
    FFT_SETUP_FAILED = 7,
    FFT_INVALID_SIZE = 8,
    FFT_NO_WORKSPACE = 13,
    FFT_NOT_IMPLEMENTED = 14,
    FFT_NOT_SUPPORTED = 16
};
enum { FFT_R2C = 0x2a, FFT_C2C = 0x29, FFT_D2Z = 0x6a, FFT_Z2Z = 0x69 };
enum { FFT_FORWARD = -1, FFT_INVERSE = 1 };

/* X(result, name, arguments). */
#define CUFFT_FUNCTIONS(X)                                                                          \
    X(int, cufftGetVersion, (int *out_version))                                                     \
    X(int, cufftCreate, (fft_handle * out_plan))                                                    \
    X(int, cufftDestroy, (fft_handle plan))                                                         \
    X(int, cufftSetAutoAllocation, (fft_handle plan, int is_on))                                    \
    X(int, cufftMakePlanMany64,                                                                     \
      (fft_handle plan, int rank, long long *sizes, long long *in_sizes, long long in_step,         \
       long long in_apart, long long *out_sizes, long long out_step, long long out_apart, int type, \
       long long batch, size_t *out_bytes))                                                         \
    X(int, cufftSetStream, (fft_handle plan, void *stream))                                         \
    X(int, cufftSetWorkArea, (fft_handle plan, void *work))                                         \
    X(int, cufftExecC2C, (fft_handle plan, void *in, void *out, int direction))                     \
    X(int, cufftExecZ2Z, (fft_handle plan, void *in, void *out, int direction))                     \
    X(int, cufftExecR2C, (fft_handle plan, void *in, void *out))                                    \
    X(int, cufftExecD2Z, (fft_handle plan, void *in, void *out))

#endif
