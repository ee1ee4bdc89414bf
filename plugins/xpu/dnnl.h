/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions and numbers of oneDNN (3.12 and 3.13) that the plugin uses, after its documentation: its headers are not needed.
 * Engines, streams, descriptors, attributes, memory objects and primitives are opaque.
 */
#ifndef TENON_XPU_DNNL_H
#define TENON_XPU_DNNL_H

#include <level_zero/ze_api.h>
#include <stddef.h>
#include <stdint.h>

enum { DNNL_MAJOR = 3, DNNL_LEAST_MINOR = 12 }; /* version */
enum { DNNL_RUNTIME_LEVEL_ZERO = 1024 };

/* Statuses by number. */
#define DNNL_STATUSES                                                                                  \
    {                                                                                                  \
        "dnnl_success", "dnnl_out_of_memory", "dnnl_invalid_arguments", "dnnl_unimplemented",          \
            "dnnl_last_impl_reached", "dnnl_runtime_error", "dnnl_not_required", "dnnl_invalid_graph", \
            "dnnl_invalid_graph_op", "dnnl_invalid_shape", "dnnl_invalid_data_type"                    \
    }
enum {
    DNNL_SUCCESS = 0,
    DNNL_OUT_OF_MEMORY = 1,
    DNNL_INVALID_ARGUMENTS = 2,
    DNNL_UNIMPLEMENTED = 3,
    DNNL_RUNTIME_ERROR = 5
};
enum { DNNL_ANY_TYPE = 0, DNNL_F16 = 1, DNNL_BF16 = 2, DNNL_F32 = 3, DNNL_F64 = 7 }; /* types of elements */
enum { DNNL_MATH_STRICT = 0, DNNL_MATH_TF32 = 4 };    /* what float32 may be rounded to */
enum { DNNL_SUMS_STRICT = 0, DNNL_SUMS_RELAXED = 1 }; /* whether parts of sums may have the elements' type */
enum { DNNL_SCRATCHPAD_USER = 1 };
enum { DNNL_FORWARD_INFERENCE = 96 };
enum { DNNL_DIRECT = 1, DNNL_LINEAR = 0x26, DNNL_ADD = 0x1fff0 }; /* algorithms */
enum { DNNL_QUERY_IMPLEMENTATION = 8, DNNL_QUERY_SCRATCHPAD = 136 };
enum { /* arguments of primitives */
       DNNL_SRC = 1,
       DNNL_SRC_1 = 2,
       DNNL_DST = 17,
       DNNL_WEIGHTS = 33,
       DNNL_BIAS = 41,
       DNNL_SCRATCHPAD = 80,
       DNNL_DIFF_SRC = 129,
       DNNL_DIFF_DST = 145,
       DNNL_DIFF_WEIGHTS = 161
};
#define DNNL_OF_POST_OPERATION(i) (32768 * ((i) + 1)) /* with DNNL_SRC_1: its second operand */

typedef int64_t dnnl_dims[12];
typedef struct dnnl_version_numbers {
    int major, minor, patch;
    const char *hash;
    unsigned cpu_runtime, gpu_runtime;
} dnnl_version_numbers;
typedef struct dnnl_argument {
    int argument;
    void *memory;
} dnnl_argument;

/* X(result, name, arguments). The first one is looked at before the others are looked for. */
#define DNNL_VERSION_FUNCTION(X) X(const dnnl_version_numbers *, dnnl_version, (void))
#define DNNL_FUNCTIONS(X)                                                                                 \
    X(int, dnnl_ze_interop_engine_create,                                                                 \
      (void **out, ze_driver_handle_t driver, ze_device_handle_t device, ze_context_handle_t context))    \
    X(int, dnnl_engine_destroy, (void *engine))                                                           \
    X(int, dnnl_ze_interop_stream_create,                                                                 \
      (void **out, void *engine, ze_command_list_handle_t list, int profiling))                           \
    X(int, dnnl_stream_destroy, (void *stream))                                                           \
    X(int, dnnl_memory_desc_create_with_strides,                                                          \
      (void **out, int rank, const dnnl_dims sizes, int type, const dnnl_dims strides))                   \
    X(int, dnnl_memory_desc_destroy, (void *description))                                                 \
    X(size_t, dnnl_memory_desc_get_size, (const void *description))                                       \
    X(int, dnnl_ze_interop_memory_create,                                                                 \
      (void **out, const void *description, void *engine, int n, void **places))                          \
    X(int, dnnl_memory_set_data_handle, (void *memory, void *place))                                      \
    X(int, dnnl_memory_destroy, (void *memory))                                                           \
    X(int, dnnl_primitive_attr_create, (void **out))                                                      \
    X(int, dnnl_primitive_attr_destroy, (void *attributes))                                               \
    X(int, dnnl_primitive_attr_set_fpmath_mode, (void *attributes, int mode))                             \
    X(int, dnnl_primitive_attr_set_accumulation_mode, (void *attributes, int mode))                       \
    X(int, dnnl_primitive_attr_set_deterministic, (void *attributes, int value))                          \
    X(int, dnnl_primitive_attr_set_scratchpad_mode, (void *attributes, int mode))                         \
    X(int, dnnl_primitive_attr_set_post_ops, (void *attributes, const void *operations))                  \
    X(int, dnnl_post_ops_create, (void **out))                                                            \
    X(int, dnnl_post_ops_destroy, (void *operations))                                                     \
    X(int, dnnl_post_ops_append_eltwise, (void *operations, int algorithm, float alpha, float beta))      \
    X(int, dnnl_post_ops_append_sum, (void *operations, float scale, int32_t zero_point, int type))       \
    X(int, dnnl_post_ops_append_binary, (void *operations, int algorithm, const void *description))       \
    X(int, dnnl_matmul_primitive_desc_create,                                                             \
      (void **out, void *engine, const void *src, const void *weights, const void *bias, const void *dst, \
       const void *attributes))                                                                           \
    X(int, dnnl_convolution_forward_primitive_desc_create,                                                \
      (void **out, void *engine, int propagation, int algorithm, const void *src, const void *weights,    \
       const void *bias, const void *dst, const dnnl_dims strides, const dnnl_dims dilations,             \
       const dnnl_dims padding_before, const dnnl_dims padding_after, const void *attributes))            \
    X(int, dnnl_convolution_backward_data_primitive_desc_create,                                          \
      (void **out, void *engine, int algorithm, const void *diff_src, const void *weights,                \
       const void *diff_dst, const dnnl_dims strides, const dnnl_dims dilations,                          \
       const dnnl_dims padding_before, const dnnl_dims padding_after, const void *hint,                   \
       const void *attributes))                                                                           \
    X(int, dnnl_convolution_backward_weights_primitive_desc_create,                                       \
      (void **out, void *engine, int algorithm, const void *src, const void *diff_weights,                \
       const void *diff_bias, const void *diff_dst, const dnnl_dims strides, const dnnl_dims dilations,   \
       const dnnl_dims padding_before, const dnnl_dims padding_after, const void *hint,                   \
       const void *attributes))                                                                           \
    X(int, dnnl_primitive_desc_query, (const void *description, int what, int index, void *out))          \
    X(const void *, dnnl_primitive_desc_query_md, (const void *description, int what, int index))         \
    X(int, dnnl_primitive_desc_destroy, (void *description))                                              \
    X(int, dnnl_primitive_create, (void **out, const void *description))                                  \
    X(int, dnnl_primitive_destroy, (void *primitive))                                                     \
    X(int, dnnl_ze_interop_primitive_execute,                                                             \
      (const void *primitive, void *stream, int n, const dnnl_argument *arguments, int n_waits,           \
       const ze_event_handle_t *waits, ze_event_handle_t *out_event))

#endif
