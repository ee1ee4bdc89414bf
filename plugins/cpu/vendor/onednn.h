/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oneDNN through a table of its functions, opened at first need; machines without it use the plugin's own
 * kernels. The types are those of its header; the library is not linked.
 */
#ifndef TENON_CPU_ONEDNN_H
#define TENON_CPU_ONEDNN_H

#include <dnnl.h>
#include <stdint.h>

/* The functions in use, without their prefix. */
#define CPU_ONEDNN_FUNCTIONS(X)                    \
    X(engine_create)                               \
    X(stream_create)                               \
    X(stream_destroy)                              \
    X(stream_wait)                                 \
    X(memory_desc_init_by_strides)                 \
    X(memory_desc_init_by_tag)                     \
    X(memory_desc_equal)                           \
    X(memory_desc_get_size)                        \
    X(memory_create)                               \
    X(memory_destroy)                              \
    X(primitive_attr_create)                       \
    X(primitive_attr_destroy)                      \
    X(primitive_attr_set_scratchpad_mode)          \
    X(primitive_desc_create)                       \
    X(primitive_desc_destroy)                      \
    X(primitive_desc_query)                        \
    X(primitive_desc_query_md)                     \
    X(reorder_primitive_desc_create)               \
    X(primitive_create)                            \
    X(primitive_destroy)                           \
    X(primitive_execute)                           \
    X(dilated_convolution_forward_desc_init)       \
    X(dilated_convolution_backward_data_desc_init) \
    X(dilated_convolution_backward_weights_desc_init)

typedef struct cpu_onednn {
#define CPU_ONEDNN_POINTER(name) __typeof__(dnnl_##name) *name;
    CPU_ONEDNN_FUNCTIONS(CPU_ONEDNN_POINTER)
#undef CPU_ONEDNN_POINTER
    /* from the OpenMP runtime that this oneDNN uses */
    void (*omp_set_num_threads)(int threads);
    int (*omp_get_max_threads)(void);
    dnnl_engine_t engine;       /* the CPU engine; lives as long as the process */
    dnnl_primitive_attr_t attr; /* the caller passes scratch memory */
} cpu_onednn;

/* The table, or NULL if the library is missing. From any thread. */
const cpu_onednn *cpu_onednn_get(void);

/* Version, instruction set and file of the library in use, or why it is not; a static text. Opens it. */
const char *cpu_onednn_describe(void);

/* Between begin and end, calls from this thread use this many threads. */
int cpu_onednn_begin(const cpu_onednn *dnn, int32_t threads);
void cpu_onednn_end(const cpu_onednn *dnn, int token);

#endif
