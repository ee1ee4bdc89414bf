/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the plugin share: the state of a context, one element on its way through a kernel, and
 * arrays, which are operands of a loop nest or tensors seen alike.
 */
#ifndef PLUGIN_H
#define PLUGIN_H

#define TN_PLUGIN
#include <tenon/plugin.h>

/* All that the plugin knows in one context hangs from here; there are no globals. */
typedef struct state {
    const tn_host *host;
    int32_t device; /* its address is the handle of the one device */
    int32_t stream; /* its address is the handle of the one stream, which does everything at once */
} state;

/* An element apart from its dtype. Whole numbers stay whole: an int64 does not fit into a double. */
typedef struct number {
    int32_t is_real;
    int32_t reserved;
    int64_t i; /* when it is whole; bool is 0 or 1 */
    double f;  /* when it is real */
} number;

/* Elements in memory. Strides count in `unit` bytes: 1 for operands of a nest, the dtype's for tensors. */
typedef struct array {
    char *data;
    const int64_t *sizes;
    const int64_t *strides;
    int64_t unit;
    tn_dtype dtype;
    uint32_t rank;
} array;

/* array.c */
array array_of_operand(const tn_nest *nest, uint32_t i);
array array_of_tensor(tn_value v);
number array_get(const array *a, const int64_t *index);
void array_put(const array *a, const int64_t *index, number n); /* rounds to the dtype */
number number_of_value(tn_value v);
number number_rounded(tn_dtype dtype, number n);
number number_whole(int64_t i);
number number_real(double f);
double as_real(number n);
int64_t as_whole(number n);
int is_true(number n);
int is_nan(number n);
int is_real_dtype(tn_dtype dtype);
/* Both step `index` through `sizes` and answer 0 when it has come round: dimension 0 fastest, as nests have
 * it, or the last dimension fastest, which is the row-major order of tensors. */
int next_in_nest(uint32_t rank, const int64_t *sizes, int64_t *index);
int next_in_tensor(uint32_t rank, const int64_t *sizes, int64_t *index);
int has_elements(const array *a);

/* pointwise.c. What a pointwise row computes: a function of libm, or an opcode. */
typedef struct computation {
    int32_t opcode;
    double (*one)(double);
    double (*two)(double, double);
} computation;
enum { ABS = 1, NEG, SGN, RSQRT, RECIPROCAL, SIGMOID, ADD, SUB, MUL, DIV, MAXIMUM, MINIMUM, WHERE };
enum { BITWISE_NOT = 20, BITWISE_AND, BITWISE_OR, BITWISE_XOR, EQ, NE, LT, LE, GT, GE, LOGICAL_NOT, ISNAN };
/* Applies an opcode to numbers that are all whole or all real. `in` has three, the unused ones zero. */
number compute(int32_t opcode, const number *in);
int32_t pointwise(void *self, const tn_call *call);

/* reduce.c */
enum { SUM, PROD, MEAN, AMAX, AMIN, ANY, ALL, ARGMAX, ARGMIN };
int32_t reduce(void *self, const tn_call *call);
int32_t scan(void *self, const tn_call *call);

/* index.c */
int32_t gather(void *self, const tn_call *call);
int32_t scatter(void *self, const tn_call *call);
const char *scatter_can_run(void *self, const tn_call *call);
int32_t sort(void *self, const tn_call *call);
int32_t nonzero(void *self, const tn_call *call);

/* basic.c */
int32_t fill(void *self, const tn_call *call);
int32_t copy(void *self, const tn_call *call);
int32_t iota(void *self, const tn_call *call);
int32_t random_numbers(void *self, const tn_call *call);
int32_t product(void *self, const tn_call *call);

/* rows.c */
extern const tn_kernels_interface kernels_interface;
extern const tn_dtype all_dtypes[]; /* those it computes in; 0 ends */
/* can_run of every row: NULL, or why the call is not for this device. */
const char *dtypes_are_known(void *self, const tn_call *call);

/* `return fail(host, TN_E_..., "...")` from any slot or kernel. */
static inline int32_t fail(const tn_host *host, int32_t code, const char *message)
{
    return host->error(host->context, code, message);
}

#endif
