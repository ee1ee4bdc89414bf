/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions and numbers of cuDNN 9's graph API that the plugin uses, after NVIDIA's documentation of the library: its
 * headers are not needed. Handles and descriptors are opaque.
 */
#ifndef TENON_CUDA_CUDNN_H
#define TENON_CUDA_CUDNN_H

#include <stddef.h>
#include <stdint.h>

/* Statuses; thousands are their kind. */
enum {
    DNN_SUCCESS = 0,
    DNN_BAD_PARAMETER = 2000,
    DNN_NOT_SUPPORTED = 3000,
    DNN_HOST_ALLOCATION_FAILED = 4003,
    DNN_DEVICE_ALLOCATION_FAILED = 4004,
    DNN_EXECUTION_FAILED = 5000
};
enum {
    DNN_F32 = 0,
    DNN_F64 = 1,
    DNN_F16 = 2,
    DNN_I32 = 4,
    DNN_BF16 = 9,
    DNN_BOOL = 11
};                                                  /* types of elements and of sums */
enum { DNN_CROSS_CORRELATION = 1 };                 /* a convolution as ATen has it */
enum { DNN_CHOOSE_FALLBACK = 2, DNN_CHOOSE_A = 3 }; /* how engines are chosen */
enum { DNN_REDUCE_ADD = 0, DNN_REDUCE_MAX = 3 };
enum { /* pointwise operations */
       DNN_ADD = 0,
       DNN_MUL = 1,
       DNN_DIV = 6,
       DNN_SUB = 9,
       DNN_EXP = 13,
       DNN_LOG = 15,
       DNN_IDENTITY = 21,
       DNN_GREATER_OR_EQUAL = 303,
       DNN_INDEX = 501, /* of an element, along an axis */
       DNN_SELECT = 601 /* x where t holds, else b */
};

/* Descriptors. */
enum {
    DNN_POINTWISE = 0,
    DNN_CONVOLUTION = 1,
    DNN_ENGINE = 2,
    DNN_CONFIG = 3,
    DNN_CHOICE = 4,
    DNN_PLAN = 5,
    DNN_FORWARD = 10,
    DNN_BACKWARD_WEIGHT = 11,
    DNN_BACKWARD_DATA = 12,
    DNN_POINTWISE_OPERATION = 13,
    DNN_GRAPH = 15,
    DNN_PACK = 16,
    DNN_TENSOR = 17,
    DNN_PRODUCT = 18,
    DNN_PRODUCT_OPERATION = 19,
    DNN_REDUCTION = 21,
    DNN_REDUCTION_OPERATION = 22,
    DNN_VIEW_OPERATION = 31 /* the elements of x by other sizes and strides */
};
/* Types of attributes. */
enum {
    DNN_HANDLE = 0,
    DNN_DATA_TYPE = 1,
    DNN_BOOLEAN = 2,
    DNN_INT64 = 3,
    DNN_FLOAT = 4,
    DNN_DOUBLE = 5,
    DNN_POINTER = 6,
    DNN_CONVOLUTION_MODE = 7,
    DNN_CHOICE_MODE = 8,
    DNN_NUMERICAL_NOTE = 11,
    DNN_POINTWISE_MODE = 14,
    DNN_DESCRIPTOR = 15,
    DNN_REDUCTION_MODE = 18
};
/* Attributes. */
enum {
    DNN_POINTWISE_KIND = 0,
    DNN_POINTWISE_TYPE = 1,
    DNN_POINTWISE_AXIS = 9,
    DNN_CONVOLUTION_SUMS = 100,
    DNN_CONVOLUTION_KIND = 101,
    DNN_CONVOLUTION_DILATIONS = 102,
    DNN_CONVOLUTION_STRIDES = 103,
    DNN_CONVOLUTION_POST_PADDINGS = 104,
    DNN_CONVOLUTION_PRE_PADDINGS = 105,
    DNN_CONVOLUTION_DIMENSIONS = 106,
    DNN_CHOICE_HOW = 200,
    DNN_CHOICE_GRAPH = 201,
    DNN_CHOICE_RESULTS = 202,
    DNN_CONFIG_ENGINE = 300,
    DNN_PLAN_HANDLE = 400,
    DNN_PLAN_CONFIG = 401,
    DNN_PLAN_WORKSPACE = 402,
    DNN_OPERATION = 700, /* six of each operation: of forward, backward data, backward weight */
    DNN_POINTWISE_HOW = 750,
    DNN_POINTWISE_X = 751,
    DNN_POINTWISE_B = 752,
    DNN_POINTWISE_Y = 753,
    DNN_POINTWISE_T = 758,
    DNN_GRAPH_HANDLE = 800,
    DNN_GRAPH_OPERATIONS = 801,
    DNN_TENSOR_ALIGNMENT = 900,
    DNN_TENSOR_DATA_TYPE = 901,
    DNN_TENSOR_SIZES = 902,
    DNN_TENSOR_STRIDES = 903,
    DNN_TENSOR_ID = 906,
    DNN_TENSOR_IS_VIRTUAL = 907,
    DNN_TENSOR_IS_BY_VALUE = 908,
    DNN_PACK_IDS = 1000,
    DNN_PACK_POINTERS = 1001,
    DNN_PACK_WORKSPACE = 1003,
    DNN_ENGINE_NOTES = 1303,
    DNN_PRODUCT_TYPE = 1500,
    DNN_PRODUCT_A = 1520,
    DNN_PRODUCT_B = 1521,
    DNN_PRODUCT_OUT = 1522,
    DNN_PRODUCT_HOW = 1523,
    DNN_REDUCTION_KIND = 1600,
    DNN_REDUCTION_TYPE = 1601,
    DNN_REDUCTION_X = 1610,
    DNN_REDUCTION_Y = 1611,
    DNN_REDUCTION_HOW = 1612,
    DNN_VIEW_X = 2200,
    DNN_VIEW_Y = 2201
};
/* Of the attributes of an operation; of the tensors the first is x or its gradient, the last y or its gradient. */
enum {
    DNN_OPERATION_ALPHA,
    DNN_OPERATION_BETA,
    DNN_OPERATION_CONVOLUTION,
    DNN_OPERATION_WEIGHT,
    DNN_OPERATION_IN,
    DNN_OPERATION_OUT,
    DNN_OPERATION_ATTRIBUTES
};
/* What an engine says of its numbers. */
enum {
    DNN_NOTE_TENSOR_CORE = 0, /* float32 is rounded to TF32 */
    DNN_NOTE_DOWN_CONVERT = 1,
    DNN_NOTE_REDUCED_SUMS = 2, /* parts of sums are added in half types */
    DNN_NOTE_NONDETERMINISTIC = 4,
    DNN_NOTES = 32 /* at most */
};

/* X(result, name, arguments) */
#define CUDNN_FUNCTIONS(X)                                                                           \
    X(int, cudnnCreate, (void **out_handle))                                                         \
    X(int, cudnnDestroy, (void *handle))                                                             \
    X(size_t, cudnnGetVersion, (void))                                                               \
    X(const char *, cudnnGetErrorString, (int status))                                               \
    X(int, cudnnSetStream, (void *handle, void *stream))                                             \
    X(int, cudnnBackendCreateDescriptor, (int type, void **out))                                     \
    X(int, cudnnBackendDestroyDescriptor, (void *descriptor))                                        \
    X(int, cudnnBackendSetAttribute,                                                                 \
      (void *descriptor, int attribute, int type, int64_t count, const void *values))                \
    X(int, cudnnBackendGetAttribute,                                                                 \
      (void *descriptor, int attribute, int type, int64_t wanted, int64_t *out_count, void *values)) \
    X(int, cudnnBackendFinalize, (void *descriptor))                                                 \
    X(int, cudnnBackendExecute, (void *handle, void *plan, void *pack))

#endif
