/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What host code and device code share: codes of dtypes, and the struct that kernels get by value. Every
 * member has one size and place on both sides, and no member is a pointer.
 */
#ifndef TENON_GPU_ARGUMENTS_H
#define TENON_GPU_ARGUMENTS_H

/* Macros, because device code tests them. */
#define GPU_BOOL   0
#define GPU_U8     1
#define GPU_I8     2
#define GPU_I16    3
#define GPU_I32    4
#define GPU_I64    5
#define GPU_F16    6
#define GPU_BF16   7
#define GPU_F32    8
#define GPU_F64    9
#define GPU_U16    10
#define GPU_U32    11
#define GPU_DTYPES 12

#define GPU_RANK     12
#define GPU_OPERANDS 4

/*
 * A loop nest over at most 2^32 - 1 elements, dimension 0 the innermost; strides and offsets are in bytes. The
 * members after `offsets` mean what the kernel says. 560 bytes: every device takes 1024.
 */
typedef struct gpu_nest {
    uint32_t numel;
    uint32_t rank;
    uint32_t opcode;
    uint32_t immediate; /* bit k: operand k is values[k], in no memory */
    uint32_t dtypes[GPU_OPERANDS];
    uint32_t sizes[GPU_RANK];
    int64_t strides[GPU_OPERANDS][GPU_RANK];
    int64_t offsets[GPU_OPERANDS];
    uint64_t values[GPU_OPERANDS]; /* the bits of a T */
    uint64_t scalars[4];           /* the bits of a T, or numbers */
} gpu_nest;

/* Reductions and scans. */
enum {
    GPU_SUM,
    GPU_MEAN,
    GPU_PROD,
    GPU_MAX,
    GPU_MIN,
    GPU_ARGMAX,
    GPU_ARGMIN,
    GPU_ANY,
    GPU_ALL,
    GPU_LAST_MAX, /* of cummax and cummin: of equals the last one counts */
    GPU_LAST_MIN,
    GPU_COUNT
};

/* Groups of pointwise operators; each is a program. Macros, because device code tests them. */
#define GPU_GROUP_ARITHMETIC 1
#define GPU_GROUP_ACTIVATION 2
#define GPU_GROUP_FUNCTION   3
#define GPU_GROUP_RARE       4

/* Codes of faults, and the operations that they name. */
enum { GPU_FAULT_NONE, GPU_FAULT_INDEX, GPU_FAULT_DIVISION };
#define GPU_FAULT_WORDS 6 /* code, operation, index, size */

#endif
