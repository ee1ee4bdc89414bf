/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions and numbers of MIOpen (2.19 to 3.5) that the plugin uses, after AMD's documentation of the library: its headers are
 * not needed. Handles and descriptors are opaque.
 */
#ifndef TENON_HIP_MIOPEN_H
#define TENON_HIP_MIOPEN_H

#include <stddef.h>
#include <stdint.h>

enum { /* statuses */
       MIO_SUCCESS = 0,
       MIO_NOT_INITIALIZED = 1,
       MIO_INVALID_VALUE = 2,
       MIO_BAD_PARAMETER = 3,
       MIO_ALLOC_FAILED = 4,
       MIO_INTERNAL_ERROR = 5,
       MIO_NOT_IMPLEMENTED = 6,
       MIO_UNKNOWN_ERROR = 7,
       MIO_UNSUPPORTED = 8
};
enum { MIO_F16 = 0, MIO_F32 = 1, MIO_BF16 = 5 }; /* types of elements */
enum { MIO_CROSS_CORRELATION = 0 };              /* a convolution as ATen has it */
enum {
    MIO_FLOAT16_BY_BFLOAT16 = 0, /* float16 may be rounded to bfloat16; without a value it is in gradients */
    MIO_DETERMINISTIC = 1,
    MIO_MATH_TYPE = 3 /* of float32: 1 is pedantic, without TF32; older versions do not know the attribute */
};

typedef struct mio_solution {
    float ms;         /* that it may take */
    size_t workspace; /* bytes */
    uint64_t id;
    int algorithm;
} mio_solution;

/* X(result, name, arguments). The operands of forward are weight, in; of the gradients out, weight and out, in. */
#define MIOPEN_PASS(X, PASS)                                                                         \
    X(int, miopenConvolution##PASS##GetSolution,                                                     \
      (void *handle, void *first, void *second, void *convolution, void *result, size_t most,        \
       size_t *out_count, mio_solution *out))                                                        \
    X(int, miopenConvolution##PASS##CompileSolution,                                                 \
      (void *handle, void *first, void *second, void *convolution, void *result, uint64_t id))       \
    X(int, miopenConvolution##PASS##Immediate,                                                       \
      (void *handle, void *first, const void *first_memory, void *second, const void *second_memory, \
       void *convolution, void *result, void *memory, void *workspace, size_t bytes, uint64_t id))

#define MIOPEN_FUNCTIONS(X)                                                                        \
    X(int, miopenCreate, (void **out_handle))                                                      \
    X(int, miopenDestroy, (void *handle))                                                          \
    X(int, miopenGetVersion, (size_t * major, size_t * minor, size_t * patch))                     \
    X(const char *, miopenGetErrorString, (int status))                                            \
    X(int, miopenSetStream, (void *handle, void *stream))                                          \
    X(int, miopenCreateTensorDescriptor, (void **out))                                             \
    X(int, miopenSetTensorDescriptor,                                                              \
      (void *tensor, int type, int rank, const int *sizes, const int *strides))                    \
    X(int, miopenDestroyTensorDescriptor, (void *tensor))                                          \
    X(int, miopenCreateConvolutionDescriptor, (void **out))                                        \
    X(int, miopenInitConvolutionNdDescriptor,                                                      \
      (void *convolution, int axes, const int *paddings, const int *strides, const int *dilations, \
       int mode))                                                                                  \
    X(int, miopenSetConvolutionGroupCount, (void *convolution, int groups))                        \
    X(int, miopenSetConvolutionAttribute, (void *convolution, int attribute, int value))           \
    X(int, miopenDestroyConvolutionDescriptor, (void *convolution))                                \
    MIOPEN_PASS(X, Forward)                                                                        \
    MIOPEN_PASS(X, BackwardData)                                                                   \
    MIOPEN_PASS(X, BackwardWeights)

#endif
