/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oneDNN through a table of its functions, opened at first need; machines without it use the plugin's own
 * kernels. The types are those of its header; the library is not linked.
 */
#ifndef TENON_CPU_ONEDNN_H
#define TENON_CPU_ONEDNN_H

#include "support/cpu.h"
#include <dnnl.h>

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
    X(primitive_attr_set_output_scales)            \
    X(primitive_attr_set_post_ops)                 \
    X(post_ops_create)                             \
    X(post_ops_destroy)                            \
    X(post_ops_append_sum)                         \
    X(matmul_desc_init)                            \
    X(sgemm)                                       \
    X(get_effective_cpu_isa)                       \
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
    bool has_bfloat16;          /* the processor has instructions for products of bfloat16 */
} cpu_onednn;

/* The table, or NULL if the library is missing, has failed or the process ends. From any thread. */
const cpu_onednn *cpu_onednn_get(void);
/* The status of a call. If the library failed for a reason of its own (the system forbids generated code), it is not
 * used any more, and the log has a warning. */
void cpu_onednn_check(const tn_call *call, dnnl_status_t status);
bool cpu_onednn_was_given_up(void);

/* Version, instruction set and file of the library in use, or why it is not; a static text. Opens it. */
const char *cpu_onednn_describe(void);

/* Between begin and end, calls from this thread use this many threads. -1: the process ends, oneDNN's objects are gone;
 * nothing may be called, `end` neither. */
int cpu_onednn_begin(const cpu_onednn *dnn, int32_t threads);
void cpu_onednn_end(const cpu_onednn *dnn, int token);

/* A primitive with what it needs to run; any number of threads may run it at once. */
typedef struct cpu_onednn_step {
    dnnl_primitive_t primitive; /* NULL: nothing to do */
    dnnl_memory_desc_t scratch;
    int64_t scratch_bytes;
    enum {
        CPU_ONEDNN_NO_SIGNALS_BLOCKED,
        CPU_ONEDNN_SIGNALS_BLOCKED,
        CPU_ONEDNN_ALL_SIGNALS_BLOCKED
    } signals;
} cpu_onednn_step;

typedef struct cpu_onednn_operand {
    int name; /* DNNL_ARG_... */
    const dnnl_memory_desc_t *layout;
    void *data;
} cpu_onednn_operand;

#define CPU_ONEDNN_OPERANDS 5

/* Makes the step of a descriptor, which it destroys. */
bool cpu_onednn_step_make(const cpu_onednn *dnn, dnnl_primitive_desc_t d, cpu_onednn_step *out);
/* Runs a step and waits for it. TN_E_UNSUPPORTED: oneDNN failed. `operands` has room for CPU_ONEDNN_OPERANDS, the last for the scratch memory,
 * step->scratch_bytes at `scratch`. */
int32_t cpu_onednn_step_run(const tn_call *call, const cpu_onednn *dnn, const cpu_onednn_step *step,
                            cpu_onednn_operand *operands, int count, void *scratch);
/* Whether a descriptor has an implementation that is not oneDNN's slow reference code. */
bool cpu_onednn_is_fast(const cpu_onednn *dnn, const_dnnl_primitive_desc_t d);

#endif
