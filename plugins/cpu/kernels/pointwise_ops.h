/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pointwise operators as pointwise.c runs them: a number for each of the shared list, the scalar
 * arguments, and the signature of a kernel. Where a dtype has no kernel of its own, pointwise.c picks the
 * type T; bool is then computed in int32 and stored as 0 or 1.
 */
#ifndef TENON_CPU_POINTWISE_OPS_H
#define TENON_CPU_POINTWISE_OPS_H

#include <stdint.h>

#include "pointwise_list.h"

#define CPU_OP_NUMBER(name, types, dtypes, grain, schema) CPU_OP_##name,
enum { POINTWISE_OPS(CPU_OP_NUMBER) CPU_OP_COUNT };
#undef CPU_OP_NUMBER

/* The arguments of a call that are neither tensors nor strings, in the order of the schema. */
#define CPU_MAX_SCALARS 4
typedef struct cpu_scalars {
    double f[CPU_MAX_SCALARS];         /* as float; the real part */
    double imaginary[CPU_MAX_SCALARS]; /* 0 unless complex */
    int64_t i[CPU_MAX_SCALARS];        /* as int */
    uint8_t absent[CPU_MAX_SCALARS];   /* None */
    uint32_t slot;                     /* dtype of the operands in memory */
    uint32_t count;                    /* of scalars, absent optional tensors among them */
    uint32_t absent_first;             /* the second argument of the call is None */
} cpu_scalars;

/*
 * A kernel: n elements (at most CPU_CHUNK) of contiguous operands, outputs first. An output may share its
 * memory with an input.
 */
typedef void (*cpu_pointwise_fn)(void *const *p, int64_t n, const cpu_scalars *s);

/* An entry of a file's list of kernels, which ends with a NULL function. */
typedef struct cpu_pointwise_entry {
    uint32_t op;
    int32_t slot; /* of the dtype that T stands for in the operator's types */
    cpu_pointwise_fn fn;
} cpu_pointwise_entry;

#endif
