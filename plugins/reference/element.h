/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One element of any dtype as a number wide enough for all: a 64-bit integer or a complex number of doubles.
 * Kernels load, compute in one of four domains, and store with one rounding (half types and eight-bit floats
 * are rounded from float32, as in other plugins).
 */
#ifndef TENON_REFERENCE_ELEMENT_H
#define TENON_REFERENCE_ELEMENT_H

#include "reference.h"

/* Ordered: the later of two domains holds both. bool counts as unsigned. */
typedef enum domain { DOMAIN_UNSIGNED, DOMAIN_SIGNED, DOMAIN_REAL, DOMAIN_COMPLEX } domain;

/* `i` holds the bits of an integer (unsigned ones by their two's complement), `re` and `im` the others. */
typedef struct number {
    domain domain;
    int64_t i;
    double re;
    double im;
} number;

static inline number number_int(int64_t i)
{
    return (number){DOMAIN_SIGNED, i, 0, 0};
}
static inline number number_bool(int b)
{
    return (number){DOMAIN_UNSIGNED, b != 0, 0, 0};
}
static inline number number_real(double re)
{
    return (number){DOMAIN_REAL, 0, re, 0};
}
static inline number number_complex(double re, double im)
{
    return (number){DOMAIN_COMPLEX, 0, re, im};
}

domain domain_of(tn_dtype dtype);
static inline domain domain_of_both(domain a, domain b)
{
    return a > b ? a : b;
}

number element_load(tn_dtype dtype, const void *from);
void element_store(tn_dtype dtype, void *to, number value);
/* The same number in another domain; a complex one loses its imaginary part. */
number number_in(domain d, number value);
/* The number after it was stored as `dtype` and read again. */
number number_rounded(tn_dtype dtype, number value);
/* INT, FLOAT, BOOL or COMPLEX; anything else is 0. */
number number_of_value(tn_value v);
int number_is_nan(number value);
int number_is_zero(number value);
/* Real numbers only: -1, 0 or 1; a NaN is neither less nor greater. */
int number_compare(number a, number b);

/* The next representable number of a float dtype from `from` towards `to`. */
double element_next_after(tn_dtype dtype, double from, double to);

/* ---- Tensors and nests ------------------------------------------------------------------------------- */

/* Descriptor of the i-th argument or output; NULL where there is no tensor. */
static inline const tn_tensor_desc *tensor_argument(const tn_call *call, uint32_t i)
{
    tn_tensor *t = i < call->n_args ? tn_value_as_tensor(call->args[i]) : NULL;
    return t ? tn_desc(t) : NULL;
}
static inline const tn_tensor_desc *tensor_output(const tn_call *call, uint32_t i)
{
    tn_tensor *t = i < call->n_outs ? tn_value_as_tensor(call->outs[i]) : NULL;
    return t ? tn_desc(t) : NULL;
}

int64_t tensor_numel(const tn_tensor_desc *t);
/* Steps a row-major index, last dimension fastest; 0 when it has come round. */
int tensor_next(uint32_t rank, const int64_t *sizes, int64_t *index);
/* Reads an element, conjugated and negated as the descriptor says. */
number tensor_load(const tn_tensor_desc *t, const int64_t *index);
void tensor_store(const tn_tensor_desc *t, const int64_t *index, number value);
/* Copies one element: bit for bit within a dtype (a NaN keeps its payload), else by its value. */
void tensor_move(const tn_tensor_desc *to, const int64_t *index, const tn_tensor_desc *from,
                 const int64_t *from_index);
/* Makes a dimension counted from the end positive; tensors of rank 0 have one dimension of size 1. */
int64_t tensor_dim(const tn_tensor_desc *t, int64_t dim);
static inline int64_t tensor_size(const tn_tensor_desc *t, int64_t dim)
{
    return t->rank ? t->sizes[dim] : 1;
}

/* Steps an index of a nest, dimension 0 fastest; 0 when it has come round. */
int nest_next(uint32_t rank, const int64_t *sizes, int64_t *index);
number nest_load(const tn_nest *nest, uint32_t operand, const int64_t *index);
void nest_store(const tn_nest *nest, uint32_t operand, const int64_t *index, number value);

#endif
