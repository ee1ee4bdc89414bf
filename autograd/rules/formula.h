/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vocabulary of gradient rules. A rule is a few lines of these functions and the typed calls of ops.h. It
 * is itself recorded when the backward run is, so it may use operators only. On a failed scope all calls do
 * nothing and return NULL, so only code that reads a tensor's fields has to check.
 */
#ifndef TNI_AUTOGRAD_FORMULA_H
#define TNI_AUTOGRAD_FORMULA_H

#include "ops_calls.h" /* generated: the calls of tenon/ops.h, out of line; included first, in its place */

#include "autograd/op_node.h"
#include "core/scope.h"
#include "gradient_rules.h"

#include <math.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"

static inline tn_tensor *mul(tn_scope *s, tn_tensor *a, tn_tensor *b)
{
    return tn_mul(s, a, b);
}
static inline tn_tensor *divide(tn_scope *s, tn_tensor *a, tn_tensor *b)
{
    return tn_div(s, a, b);
}
static inline tn_tensor *add(tn_scope *s, tn_tensor *a, tn_tensor *b)
{
    return tn_add(s, a, b);
}
static inline tn_tensor *sub(tn_scope *s, tn_tensor *a, tn_tensor *b)
{
    return tn_sub(s, a, b);
}
static inline tn_tensor *neg(tn_scope *s, tn_tensor *a)
{
    return tn_neg(s, a);
}
static inline tn_tensor *square(tn_scope *s, tn_tensor *a)
{
    return tn_mul(s, a, a);
}
/* a * x, a + x, x - a for scalars x */
static inline tn_tensor *scale(tn_scope *s, tn_tensor *a, double x)
{
    return tn_mul_scalar(s, a, x);
}
static inline tn_tensor *plus(tn_scope *s, tn_tensor *a, double x)
{
    return tn_add_scalar(s, a, x);
}
static inline tn_tensor *minus_from(tn_scope *s, double x, tn_tensor *a)
{
    return tn_rsub_scalar(s, a, x);
}
static inline int32_t is_complex(const tn_tensor *t)
{
    return t && tn_dtype_is_complex(t->desc.dtype);
}
/* The conjugate of complex tensors; real tensors as they are. */
static inline tn_tensor *conj_of(tn_scope *s, tn_tensor *t)
{
    return is_complex(t) ? tn_conj(s, t) : t;
}
/* Conjugate transpose of the last two dimensions. */
static inline tn_tensor *adjoint(tn_scope *s, tn_tensor *m)
{
    return conj_of(s, tn_transpose(s, m, -2, -1));
}
static inline tn_value conj_scalar(tn_scope *s, tn_value v)
{
    if (v.tag != TN_TAG_COMPLEX) return v;
    double *pair = tn_scope_memory(s, 2 * sizeof *pair);
    if (!pair) return v;
    pair[0] = v.as.floats[0];
    pair[1] = -v.as.floats[1];
    return tn_value_complex(pair);
}
static inline int32_t is_one(tn_value v)
{
    return v.tag == TN_TAG_INT || v.tag == TN_TAG_BOOL ? v.as.i == 1 : v.tag == TN_TAG_FLOAT && v.as.f == 1;
}
/* t * conj(alpha) for a scalar argument alpha */
static inline tn_tensor *times(tn_scope *s, tn_tensor *t, tn_value alpha)
{
    return is_one(alpha) ? t : tn_mul_scalar(s, t, conj_scalar(s, alpha));
}
/* t where the mask is true, else 0; t where the mask is false, else 0 */
static inline tn_tensor *keep_where(tn_scope *s, tn_tensor *mask, tn_tensor *t)
{
    return tn_masked_fill_scalar(s, t, tn_logical_not(s, mask), 0);
}
static inline tn_tensor *drop_where(tn_scope *s, tn_tensor *mask, tn_tensor *t)
{
    return tn_masked_fill_scalar(s, t, mask, 0);
}

/* Arguments of the call */
static inline int64_t int_arg(const tni_grad *g, uint32_t i)
{
    return tn_value_as_int(tni_grad_arg(g, i));
}
static inline double float_arg(const tni_grad *g, uint32_t i)
{
    return tn_value_as_float(tni_grad_arg(g, i));
}
static inline int32_t bool_arg(const tni_grad *g, uint32_t i)
{
    return tn_value_as_bool(tni_grad_arg(g, i));
}
static inline int64_t opt_int_arg(const tni_grad *g, uint32_t i)
{
    tn_value v = tni_grad_arg(g, i);
    return v.tag == TN_TAG_NONE ? TN_NONE : tn_value_as_int(v);
}
static inline double opt_float_arg(const tni_grad *g, uint32_t i)
{
    tn_value v = tni_grad_arg(g, i);
    return v.tag == TN_TAG_NONE ? (double)TN_NONE : tn_value_as_float(v);
}
static inline tn_ints ints_arg(const tni_grad *g, uint32_t i)
{
    tn_value v = tni_grad_arg(g, i);
    return v.tag == TN_TAG_INTS ? (tn_ints){v.as.ints, v.count} : (tn_ints){NULL, 0};
}
static inline const char *string_arg(const tni_grad *g, uint32_t i)
{
    tn_value v = tni_grad_arg(g, i);
    return v.tag == TN_TAG_STRING ? v.as.string : NULL;
}
/* A dimension counted from the front; 0 for a 0-dim tensor. */
static inline int64_t wrap_dim(int64_t dim, int64_t rank)
{
    return dim < 0 ? dim + (rank ? rank : 1) : dim;
}
static inline tn_ints sizes_of(const tni_meta *m)
{
    static const int64_t none[1] = {0};
    return (tn_ints){m->rank ? m->sizes : none, m->rank};
}
/* The sizes of the last `n` dimensions. */
static inline tn_ints last_sizes(const tni_meta *m, uint32_t n)
{
    return (tn_ints){m->sizes + m->rank - n, n};
}
static inline tn_ints tensor_sizes(const tn_tensor *t)
{
    tni_meta m = t ? tni_note(t) : (tni_meta){0};
    return sizes_of(&m);
}
static inline int64_t numel_of(const tni_meta *m)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < m->rank; i++) n *= m->sizes[i];
    return n;
}
static inline tn_tensor *zeros_as(tn_scope *s, const tni_meta *m, tn_dtype dtype)
{
    return tn_zeros(s, sizes_of(m), .dtype = dtype, .device = m->device);
}
/* Zeros with the sizes of an argument and the dtype of t */
static inline tn_tensor *zeros_arg(tn_scope *s, const tni_grad *g, uint32_t arg, const tn_tensor *t)
{
    tni_meta m = tni_grad_meta(g, arg, 0);
    return t ? zeros_as(s, &m, t->desc.dtype) : NULL;
}
static inline void set_zero(tn_scope *s, tni_grad *g, uint32_t arg)
{
    tni_meta m = tni_grad_meta(g, arg, 0);
    if (tni_grad_needs(g, arg)) tni_grad_set(g, arg, zeros_as(s, &m, m.dtype));
}
/* Fails if the gradient of an argument without a derivative is needed. */
static inline void set_unknown(tn_scope *s, tni_grad *g, uint32_t arg)
{
    if (!tni_grad_needs(g, arg)) return;
    const tni_op *op = tni_grad_op(g);
    tni_scope_record(s, tni_error(TN_E_AUTOGRAD, "%s: the derivative for '%s' is not implemented",
                                  op->schema->name, op->schema->args[arg].name));
}

/* The output_mask of a backward operator: which gradients it computes. */
#define MASK_1(g, a)    TN_BOOLS((uint8_t)tni_grad_needs(g, a))
#define MASK_2(g, a, b) TN_BOOLS((uint8_t)tni_grad_needs(g, a), (uint8_t)tni_grad_needs(g, b))
#define MASK_3(g, a, b, c) \
    TN_BOOLS((uint8_t)tni_grad_needs(g, a), (uint8_t)tni_grad_needs(g, b), (uint8_t)tni_grad_needs(g, c))

/* ---- reductions, see reduce.c ---- */
/* A bit for each reduced dimension; without a list all. */
uint64_t tni_rule_dims(tn_value dims, int64_t rank);
/* Puts reduced dimensions back with size 1. */
tn_tensor *tni_rule_restore(tn_scope *s, tn_tensor *t, uint64_t dims, int64_t rank, int32_t keepdim);
tn_tensor *tni_rule_norm(tn_scope *s, tn_tensor *grad, tn_tensor *self, double p, tn_tensor *norm,
                         uint64_t dims);
/* For each element the product of the other elements along `dim`. */
tn_tensor *tni_rule_product_of_others(tn_scope *s, tn_tensor *x, int64_t dim);
/* The positions of set bits as a list in the scope. */
tn_ints tni_rule_dim_list(tn_scope *s, uint64_t dims);

/* ---- vjp.c ---- */
/*
 * t (NULL: NULL) as an input of tn_grad: what is recorded begins with it. While recording it is an alias of t, else a new leaf. With
 * t itself the gradient would have that of all paths to t, also of those by which the other inputs came from it.
 */
tn_tensor *tni_rule_input(tn_scope *s, tn_tensor *t);

/*
 * Gradients of a function of several operators: f computes `n_outs` results from the inputs; `grads` are
 * their gradients (NULL where undefined); `out` receives those of the inputs (NULL where `wanted` is 0).
 * Differentiable again.
 */
typedef void tni_formula(tn_scope *s, const void *data, tn_tensor *const *in, tn_tensor **out);
int32_t tni_rule_vjp(tn_scope *s, tni_formula *f, const void *data, tn_tensor *const *in,
                     const int32_t *wanted, uint32_t n_in, tn_tensor *const *grads, uint32_t n_outs,
                     tn_tensor **out);

#pragma GCC diagnostic pop

#endif
