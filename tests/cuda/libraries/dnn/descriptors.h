/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of the graph API for tests: attributes by name, and which ones each descriptor has. */
#ifndef TESTS_CUDA_LIBRARIES_DNN_DESCRIPTORS_H
#define TESTS_CUDA_LIBRARIES_DNN_DESCRIPTORS_H

#include "cudnn.h"
#include "stand_in.h"

enum { ATTRIBUTES = 8, VALUES = 32 };

typedef struct attribute {
    int name, type;
    int64_t count;
    int64_t values[VALUES]; /* as they were given, whatever their size */
} attribute;

typedef struct object {
    int type, is_final, n, engine;
    attribute attributes[ATTRIBUTES];
    CUstream stream;          /* of a handle */
    struct graph_work *works; /* of a handle: all that it has queued, as captures run them again */
} object;

/* The attributes of each descriptor but those of a convolution's passes, which begin at a number of their own. */
static const struct {
    int type, name, attribute_type, is_optional;
} known[] = {{DNN_CONVOLUTION, DNN_CONVOLUTION_SUMS, DNN_DATA_TYPE, 0},
             {DNN_CONVOLUTION, DNN_CONVOLUTION_KIND, DNN_CONVOLUTION_MODE, 0},
             {DNN_CONVOLUTION, DNN_CONVOLUTION_DILATIONS, DNN_INT64, 0},
             {DNN_CONVOLUTION, DNN_CONVOLUTION_STRIDES, DNN_INT64, 0},
             {DNN_CONVOLUTION, DNN_CONVOLUTION_POST_PADDINGS, DNN_INT64, 0},
             {DNN_CONVOLUTION, DNN_CONVOLUTION_PRE_PADDINGS, DNN_INT64, 0},
             {DNN_CONVOLUTION, DNN_CONVOLUTION_DIMENSIONS, DNN_INT64, 0},
             {DNN_CHOICE, DNN_CHOICE_HOW, DNN_CHOICE_MODE, 0},
             {DNN_CHOICE, DNN_CHOICE_GRAPH, DNN_DESCRIPTOR, 0},
             {DNN_PLAN, DNN_PLAN_HANDLE, DNN_HANDLE, 0},
             {DNN_PLAN, DNN_PLAN_CONFIG, DNN_DESCRIPTOR, 0},
             {DNN_GRAPH, DNN_GRAPH_HANDLE, DNN_HANDLE, 0},
             {DNN_GRAPH, DNN_GRAPH_OPERATIONS, DNN_DESCRIPTOR, 0},
             {DNN_TENSOR, DNN_TENSOR_ALIGNMENT, DNN_INT64, 0},
             {DNN_TENSOR, DNN_TENSOR_DATA_TYPE, DNN_DATA_TYPE, 0},
             {DNN_TENSOR, DNN_TENSOR_SIZES, DNN_INT64, 0},
             {DNN_TENSOR, DNN_TENSOR_STRIDES, DNN_INT64, 0},
             {DNN_TENSOR, DNN_TENSOR_ID, DNN_INT64, 0},
             {DNN_TENSOR, DNN_TENSOR_IS_VIRTUAL, DNN_BOOLEAN, 1},
             {DNN_TENSOR, DNN_TENSOR_IS_BY_VALUE, DNN_BOOLEAN, 1},
             {DNN_POINTWISE, DNN_POINTWISE_KIND, DNN_POINTWISE_MODE, 0},
             {DNN_POINTWISE, DNN_POINTWISE_TYPE, DNN_DATA_TYPE, 0},
             {DNN_POINTWISE, DNN_POINTWISE_AXIS, DNN_INT64, 1},
             {DNN_POINTWISE_OPERATION, DNN_POINTWISE_HOW, DNN_DESCRIPTOR, 0},
             {DNN_POINTWISE_OPERATION, DNN_POINTWISE_X, DNN_DESCRIPTOR, 0},
             {DNN_POINTWISE_OPERATION, DNN_POINTWISE_B, DNN_DESCRIPTOR, 1},
             {DNN_POINTWISE_OPERATION, DNN_POINTWISE_T, DNN_DESCRIPTOR, 1},
             {DNN_POINTWISE_OPERATION, DNN_POINTWISE_Y, DNN_DESCRIPTOR, 0},
             {DNN_PRODUCT, DNN_PRODUCT_TYPE, DNN_DATA_TYPE, 0},
             {DNN_PRODUCT_OPERATION, DNN_PRODUCT_HOW, DNN_DESCRIPTOR, 0},
             {DNN_PRODUCT_OPERATION, DNN_PRODUCT_A, DNN_DESCRIPTOR, 0},
             {DNN_PRODUCT_OPERATION, DNN_PRODUCT_B, DNN_DESCRIPTOR, 0},
             {DNN_PRODUCT_OPERATION, DNN_PRODUCT_OUT, DNN_DESCRIPTOR, 0},
             {DNN_REDUCTION, DNN_REDUCTION_KIND, DNN_REDUCTION_MODE, 0},
             {DNN_REDUCTION, DNN_REDUCTION_TYPE, DNN_DATA_TYPE, 0},
             {DNN_REDUCTION_OPERATION, DNN_REDUCTION_HOW, DNN_DESCRIPTOR, 0},
             {DNN_REDUCTION_OPERATION, DNN_REDUCTION_X, DNN_DESCRIPTOR, 0},
             {DNN_REDUCTION_OPERATION, DNN_REDUCTION_Y, DNN_DESCRIPTOR, 0},
             {DNN_VIEW_OPERATION, DNN_VIEW_X, DNN_DESCRIPTOR, 0},
             {DNN_VIEW_OPERATION, DNN_VIEW_Y, DNN_DESCRIPTOR, 0},
             {DNN_PACK, DNN_PACK_IDS, DNN_INT64, 0},
             {DNN_PACK, DNN_PACK_POINTERS, DNN_POINTER, 0},
             {DNN_PACK, DNN_PACK_WORKSPACE, DNN_POINTER, 0}};
enum { KNOWN = sizeof known / sizeof *known };

static int first_attribute(int type)
{
    const int pass = type == DNN_FORWARD           ? 0
                     : type == DNN_BACKWARD_DATA   ? 1
                     : type == DNN_BACKWARD_WEIGHT ? 2
                                                   : -1;
    return pass < 0 ? -1 : DNN_OPERATION + DNN_OPERATION_ATTRIBUTES * pass;
}

static const attribute *find(const object *o, int name)
{
    for (int i = 0; i < o->n; i++)
        if (o->attributes[i].name == name) return &o->attributes[i];
    return NULL;
}

static int number_of(const object *o, int name)
{
    int number;
    memcpy(&number, find(o, name)->values, sizeof number);
    return number;
}

/* NULL: the attribute was not set. */
static const object *descriptor_of(const object *o, int name)
{
    const attribute *a = find(o, name);
    return a ? (const object *)(uintptr_t)a->values[0] : NULL;
}

/* Whether the attribute has this type; scalars of an operation are float, or double for sums of double. */
static int is_known(const object *o, int name, int type)
{
    const int first = first_attribute(o->type);
    if (first >= 0) {
        if (name < first || name >= first + DNN_OPERATION_ATTRIBUTES) return 0;
        return name - first <= DNN_OPERATION_BETA ? type == DNN_FLOAT || type == DNN_DOUBLE
                                                  : type == DNN_DESCRIPTOR;
    }
    for (int i = 0; i < KNOWN; i++)
        if (known[i].type == o->type && known[i].name == name) return known[i].attribute_type == type;
    return 0;
}

static size_t size_of(int type)
{
    if (type == DNN_BOOLEAN) return 1;
    return type == DNN_DATA_TYPE || type == DNN_CONVOLUTION_MODE || type == DNN_CHOICE_MODE ||
                   type == DNN_POINTWISE_MODE || type == DNN_REDUCTION_MODE || type == DNN_FLOAT
               ? 4
               : 8;
}

/* All attributes that the descriptor needs are there. */
static int is_complete(const object *o)
{
    const int first = first_attribute(o->type);
    for (int i = 0; i < KNOWN; i++)
        if (known[i].type == o->type && !known[i].is_optional && !find(o, known[i].name)) return 0;
    for (int i = 0; first >= 0 && i < DNN_OPERATION_ATTRIBUTES; i++)
        if (!find(o, first + i)) return 0;
    return 1;
}

static tn_dtype dtype_of(int type)
{
    return type == DNN_F64    ? TN_FLOAT64
           : type == DNN_F16  ? TN_FLOAT16
           : type == DNN_BF16 ? TN_BFLOAT16
                              : TN_FLOAT32;
}

#endif
