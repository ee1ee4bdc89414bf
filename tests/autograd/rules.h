/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradient rules against finite differences. A test names an operator and its arguments. Tensors that require
 * a gradient are varied: first derivatives are compared with differences of the results, second ones with
 * differences of the first.
 */
#ifndef TENON_TESTS_AUTOGRAD_RULES_H
#define TENON_TESTS_AUTOGRAD_RULES_H

#include "fixture.h"

#define COUNT_OF(a) ((uint32_t)(sizeof(a) / sizeof(a)[0]))

/* A scope of a context that lives until rules_end. */
tn_scope *rules_begin(void);
void rules_end(tn_scope *s);

/* Leaves of float64 or complex128 with numbers between low and high that differ by far more than the step. */
tn_tensor *leaf(tn_scope *s, double low, double high, tn_ints sizes);
tn_tensor *complex_leaf(tn_scope *s, double low, double high, tn_ints sizes);
/* The same numbers without a gradient. */
tn_tensor *constant(tn_scope *s, double low, double high, tn_ints sizes);
tn_tensor *longs(tn_scope *s, tn_ints sizes, const int64_t *data);

/* One call of an operator: `n_outs` results, of which the first `n_checked` are compared. */
typedef struct rule_call {
    const char *name;
    uint32_t op;
    uint32_t n_outs;
    uint32_t n_checked;
    int32_t first_only; /* no second derivative */
} rule_call;
void check_call(tn_scope *s, const rule_call *call, const tn_value *args, uint32_t n_args);
/* The same of any function. */
void check_function(tn_scope *s, const char *name, tn_check_fn f, tn_tensors inputs);

#define CHECK_NAMED(s, name_, op_, outs, checked, once, ...)                                                 \
    check_call(                                                                                              \
        s, &(rule_call){.name = name_, .op = op_, .n_outs = outs, .n_checked = checked, .first_only = once}, \
        (const tn_value[]){__VA_ARGS__}, COUNT_OF(((const tn_value[]){__VA_ARGS__})))
#define CHECK_CALL(s, op, outs, checked, once, ...) CHECK_NAMED(s, #op, op, outs, checked, once, __VA_ARGS__)
/* An operator with one result, first and second derivatives. */
#define CHECK(s, op, ...) CHECK_NAMED(s, #op, op, 1, 1, 0, __VA_ARGS__)
/* First derivatives only. */
#define CHECK_ONCE(s, op, ...) CHECK_NAMED(s, #op, op, 1, 1, 1, __VA_ARGS__)

static inline tn_value of(tn_tensor *t)
{
    return tn_value_tensor(t);
}
static inline tn_value list(tn_ints v)
{
    return tn_value_ints(v.data, v.count);
}
static inline tn_value bools(tn_bools v)
{
    return tn_value_bools(v.data, v.count);
}
static inline tn_value whole(int64_t i)
{
    return tn_value_int(i);
}
static inline tn_value real(double x)
{
    return tn_value_float(x);
}
static inline tn_value truth(int32_t b)
{
    return tn_value_bool(b);
}
static inline tn_value none(void)
{
    return tn_value_none();
}

#endif
