/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels, one function for each of the twelve families (nonzero is in reference.h, as it answers at
 * once), and their opcodes, which rows.c puts into the rows.
 */
#ifndef TENON_REFERENCE_KERNELS_H
#define TENON_REFERENCE_KERNELS_H

#include "element.h"

enum {
    /* one operand, one result */
    OP_ABS,
    OP_NEG,
    OP_SGN,
    OP_CEIL,
    OP_FLOOR,
    OP_TRUNC,
    OP_ROUND,
    OP_SQRT,
    OP_RSQRT,
    OP_RECIPROCAL,
    OP_EXP,
    OP_EXP2,
    OP_EXPM1,
    OP_LOG,
    OP_LOG1P,
    OP_LOG2,
    OP_LOG10,
    OP_SIN,
    OP_COS,
    OP_TAN,
    OP_ASIN,
    OP_ACOS,
    OP_ATAN,
    OP_SINH,
    OP_COSH,
    OP_TANH,
    OP_ASINH,
    OP_ACOSH,
    OP_ATANH,
    OP_SIGMOID,
    OP_ERF,
    OP_ERFC,
    OP_ERFINV,
    OP_LGAMMA,
    OP_DIGAMMA,
    OP_POLYGAMMA,
    OP_I0,
    OP_BITWISE_NOT,
    OP_SIGNBIT,
    OP_FREXP,
    OP_CONJ,
    OP_ISNAN,
    OP_ISINF,
    OP_ISFINITE,
    OP_LOGICAL_NOT,
    /* two operands */
    OP_ADD,
    OP_SUB,
    OP_RSUB,
    OP_MUL,
    OP_DIV,
    OP_DIV_MODE,
    OP_FLOOR_DIVIDE,
    OP_REMAINDER,
    OP_FMOD,
    OP_POW,
    OP_ATAN2,
    OP_MAXIMUM,
    OP_MINIMUM,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_BITWISE_AND,
    OP_BITWISE_OR,
    OP_BITWISE_XOR,
    OP_LEFT_SHIFT,
    OP_RIGHT_SHIFT,
    OP_NEXTAFTER,
    OP_GCD,
    OP_IGAMMA,
    OP_IGAMMAC,
    OP_COMPLEX,
    OP_LOGICAL_AND,
    OP_LOGICAL_OR,
    OP_LOGICAL_XOR,
    /* three operands */
    OP_WHERE,
    /* pow with a number on one side */
    OP_POW_NUMBER,
    OP_NUMBER_POW
};
enum { REDUCE_SUM, REDUCE_PROD, REDUCE_MEAN, REDUCE_AMAX, REDUCE_AMIN, REDUCE_ANY, REDUCE_ALL };
enum { POSITION_MAX, POSITION_MIN };
enum { SCAN_SUM, SCAN_PROD, SCAN_MAX, SCAN_MIN };
enum { SCATTER_SOURCE, SCATTER_VALUE, SCATTER_ADD, SCATTER_REDUCE, SCATTER_VALUE_REDUCE, SCATTER_REDUCE_TWO };
enum { SORT_PLAIN, SORT_STABLE };

#define KERNEL(name) int32_t name(const tn_call *call, int32_t opcode, reference_failure *failure)
KERNEL(kernel_fill);
KERNEL(kernel_copy);
KERNEL(kernel_iota);
KERNEL(kernel_pointwise);
KERNEL(kernel_reduce);
KERNEL(kernel_position);
KERNEL(kernel_scan);
KERNEL(kernel_gather);
KERNEL(kernel_scatter);
KERNEL(kernel_matmul);
KERNEL(kernel_sort);
KERNEL(kernel_random);
#undef KERNEL

/* What an opcode needs beside its operands. */
typedef struct pointwise_parameters {
    tn_dtype dtype;   /* of the first operand that is computed with */
    number alpha;     /* add, sub: factor of the second; pow with a scalar: the scalar */
    int64_t integer;  /* polygamma: order; round: decimals */
    int32_t rounding; /* div: 0 none, 't'runc, 'f'loor */
} pointwise_parameters;

/* The result of an opcode on operands of one domain. *out_second is for the exponent of frexp. */
int32_t pointwise_integer(int32_t opcode, const number *in, const pointwise_parameters *p, number *out,
                          reference_failure *failure);
int32_t pointwise_real(int32_t opcode, const number *in, const pointwise_parameters *p, number *out,
                       number *out_second, reference_failure *failure);
int32_t pointwise_complex(int32_t opcode, const number *in, const pointwise_parameters *p, number *out,
                          reference_failure *failure);

/* A case of a switch over opcodes: what *out becomes. */
#define GIVES(opcode, value) \
    case opcode:             \
        *out = value;        \
        break

/* What all domains say alike: equality and logic, from whether the operands are equal and whether each is not 0. 0 for
 * other opcodes. */
int pointwise_truth(int32_t opcode, int are_equal, int a, int b, int *out);

/* special.c: functions that libm lacks, each from its definition or a textbook series. */
double special_erfinv(double y);
double special_lgamma(double x);
double special_digamma(double x);
double special_polygamma(int64_t n, double x);
double special_i0(double x);
double special_igamma(double a, double x);
double special_igammac(double a, double x);

/* Arithmetic that reductions, scans, scatters and products share; in the domain of both. */
number number_add(number a, number b);
number number_multiply(number a, number b);
/* The larger (or smaller); a NaN wins. */
number number_larger(number a, number b);
number number_smaller(number a, number b);

#endif
