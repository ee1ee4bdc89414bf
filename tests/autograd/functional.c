/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives of functions: Jacobians, Hessians and their products with vectors. */
#include "suite.h"

#include <math.h>
#include <string.h>

TestSuite(functional, .init = begin);

static tn_functional_options options(uint32_t n_outs, int32_t create_graph, int32_t strict)
{
    return (tn_functional_options){.size = sizeof(tn_functional_options),
                                   .n_outs = n_outs,
                                   .create_graph = create_graph,
                                   .strict = strict};
}

static void expect_sizes(const tn_tensor *t, tn_ints sizes)
{
    cr_assert_not_null(t);
    cr_assert_eq(tn_tensor_rank(t), (uint32_t)sizes.count);
    for (int64_t i = 0; i < sizes.count; i++) cr_expect_eq(tn_tensor_size(t, i), sizes.data[i]);
}

/* (x, y) -> (x_i x_1, sin(y) as a matrix) */
static int32_t two_outs(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)user;
    out[0] = tn_mul(scope, in.data[0], tn_select(scope, in.data[0], 0, 1));
    out[1] = tn_reshape(scope, tn_sin(scope, in.data[1]), TN_INTS(1, -1));
    return TN_OK;
}

Test(functional, jacobian)
{
    tn_functional_options o = options(2, 0, 0);
    tn_tensor *value[2], *x = VECTOR(s, 0, 2, 3), *y = VECTOR(s, 1, 0.5, 1, 1.5), *out[4];
    o.value = value;
    cr_assert_eq(tn_jacobian(s, two_outs, NULL, TN_TENSORS(x, y), &o, out), TN_OK);
    expect_sizes(out[0], TN_INTS(2, 2));
    EXPECT(s, out[0], 3, 2, 0, 6);
    expect_sizes(out[1], TN_INTS(2, 3));
    EXPECT(s, out[1], 0, 0, 0, 0, 0, 0);
    expect_sizes(out[2], TN_INTS(1, 3, 2));
    EXPECT(s, out[2], 0, 0, 0, 0, 0, 0);
    expect_sizes(out[3], TN_INTS(1, 3, 3));
    EXPECT(s, out[3], cos(0.5), 0, 0, 0, cos(1), 0, 0, 0, cos(1.5));
    EXPECT(s, value[0], 6, 9);
    for (int i = 0; i < 4; i++) cr_expect_not(tn_requires_grad(out[i]));
    cr_expect_not(tn_requires_grad(value[1]));
    cr_assert_null(tn_grad_of(s, y)); /* nothing is accumulated */
    end();
}

/* x_0^2 x_1 and sin(x_0): the Jacobian at (2, 3) is (12 4; cos 2, 0). */
static int32_t pair(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)user;
    tn_tensor *a = tn_select(scope, in.data[0], 0, 0), *b = tn_select(scope, in.data[0], 0, 1);
    out[0] = tn_stack(scope, TN_TENSORS(tn_mul(scope, tn_mul(scope, a, a), b), tn_sin(scope, a)), .dim = 0);
    return TN_OK;
}

/* A function of one output: an expression of the tensors `in`. */
#define OF_ONE(name, expression)                                                     \
    static int32_t name(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out) \
    {                                                                                \
        (void)user;                                                                  \
        out[0] = expression;                                                         \
        return TN_OK;                                                                \
    }
OF_ONE(nothing_of_it, tn_ones_like(scope, in.data[0]))
OF_ONE(no_elements, tn_narrow(scope, in.data[0], 0, 0, 0))
OF_ONE(sine, tn_sin(scope, in.data[0]))
OF_ONE(product, tn_mul(scope, in.data[0], in.data[1]))

Test(functional, of_outputs_that_do_not_depend)
{
    tn_functional_options strict = options(1, 0, 1);
    tn_tensor *x = VECTOR(s, 0, 2, 3), *out = NULL;
    cr_assert_eq(tn_jacobian(s, nothing_of_it, NULL, TN_TENSORS(x), NULL, &out), TN_OK);
    EXPECT(s, out, 0, 0, 0, 0);
    cr_assert_eq(tn_jvp(s, nothing_of_it, NULL, TN_TENSORS(x), TN_TENSORS(x), NULL, &out), TN_OK);
    EXPECT(s, out, 0, 0);
    cr_assert_eq(tn_jacobian(s, no_elements, NULL, TN_TENSORS(x), NULL, &out), TN_OK);
    expect_sizes(out, TN_INTS(0, 2));
    tn_jacobian(s, nothing_of_it, NULL, TN_TENSORS(x), &strict, &out);
    expect_error(s, "jacobian: strict: result 0 of the function depends on no input");
    tn_tensor *unused = VECTOR(s, 0, 1), *both[2];
    tn_jacobian(s, pair, NULL, TN_TENSORS(x, unused), &strict, both);
    expect_error(s, "jacobian: strict: no result of the function depends on input 1");
    cr_assert_eq(tn_jacobian(s, pair, NULL, TN_TENSORS(x, unused), NULL, both), TN_OK);
    EXPECT(s, both[1], 0, 0);
    end();
}

Test(functional, products_with_the_jacobian)
{
    tn_tensor *x = VECTOR(s, 0, 2, 3), *v = VECTOR(s, 0, 5, 7), *out = NULL, *value = NULL;
    tn_functional_options o = options(0, 0, 0);
    o.value = &value;
    cr_assert_eq(tn_vjp(s, pair, NULL, TN_TENSORS(x), TN_TENSORS(v), &o, &out), TN_OK);
    EXPECT(s, out, 5 * 12 + 7 * cos(2), 5 * 4);
    EXPECT(s, value, 12, sin(2));
    cr_assert_eq(tn_jvp(s, pair, NULL, TN_TENSORS(x), TN_TENSORS(v), &o, &out), TN_OK);
    EXPECT(s, out, 5 * 12 + 7 * 4, 5 * cos(2));
    EXPECT(s, value, 12, sin(2));
    cr_assert_not(tn_requires_grad(out));
    end();
}

/* x_0^3 x_1 + exp(y): Hessian in x at (2, 3): (36 12; 12 0), in y exp(y). */
static int32_t scalar(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)user;
    tn_tensor *a = tn_select(scope, in.data[0], 0, 0), *b = tn_select(scope, in.data[0], 0, 1);
    out[0] = tn_add(scope, tn_mul(scope, tn_pow_tensor_scalar(scope, a, 3), b),
                    tn_sum(scope, tn_exp(scope, in.data[1])));
    return TN_OK;
}

Test(functional, hessian)
{
    tn_tensor *x = VECTOR(s, 0, 2, 3), *y = VECTOR(s, 0, 0.5), *out[4];
    cr_assert_eq(tn_hessian(s, scalar, NULL, TN_TENSORS(x, y), NULL, out), TN_OK);
    expect_sizes(out[0], TN_INTS(2, 2));
    EXPECT(s, out[0], 36, 12, 12, 0);
    expect_sizes(out[1], TN_INTS(2, 1));
    EXPECT(s, out[1], 0, 0);
    expect_sizes(out[2], TN_INTS(1, 2));
    EXPECT(s, out[2], 0, 0);
    EXPECT(s, out[3], exp(0.5));
    end();
}

Test(functional, products_with_the_hessian)
{
    tn_tensor *x = VECTOR(s, 0, 2, 3), *y = VECTOR(s, 0, 0.5), *v = VECTOR(s, 0, 5, 7), *w = VECTOR(s, 0, 2);
    tn_tensor *out[2], *value = NULL;
    tn_functional_options o = options(1, 0, 0);
    o.value = &value;
    cr_assert_eq(tn_hvp(s, scalar, NULL, TN_TENSORS(x, y), TN_TENSORS(v, w), &o, out), TN_OK);
    EXPECT(s, out[0], 36 * 5 + 12 * 7, 12 * 5);
    EXPECT(s, out[1], 2 * exp(0.5));
    EXPECT(s, value, 24 + exp(0.5));
    cr_assert_eq(tn_vhp(s, scalar, NULL, TN_TENSORS(x, y), TN_TENSORS(v, w), NULL, out), TN_OK);
    EXPECT(s, out[0], 36 * 5 + 12 * 7, 12 * 5);
    EXPECT(s, out[1], 2 * exp(0.5));
    end();
}

/* Each has a history that leads to the inputs where that is asked for. */
Test(functional, are_differentiable_themselves)
{
    tn_functional_options o = options(1, 1, 0);
    tn_tensor *x = VECTOR(s, 1, 2, 3), *y = VECTOR(s, 1, 0.5), *v = VECTOR(s, 0, 5, 7), *w = VECTOR(s, 0, 2);
    tn_tensor *out[4], *grad = NULL;
    cr_assert_eq(tn_jacobian(s, pair, NULL, TN_TENSORS(x), &o, out), TN_OK);
    tn_grad(s, TN_TENSORS(tn_sum(s, out[0])), TN_TENSORS(x), NULL, &grad); /* 2ab + a^2 + cos a */
    EXPECT(s, grad, 6 + 4 - sin(2), 4);
    cr_assert_eq(tn_jvp(s, pair, NULL, TN_TENSORS(x), TN_TENSORS(v), &o, out), TN_OK);
    tn_grad(s, TN_TENSORS(tn_sum(s, out[0])), TN_TENSORS(x), NULL, &grad); /* 10ab + 7a^2 + 5 cos a */
    EXPECT(s, grad, 30 + 28 - 5 * sin(2), 20);
    cr_assert_eq(tn_vjp(s, pair, NULL, TN_TENSORS(x), TN_TENSORS(v), &o, out), TN_OK);
    tn_grad(s, TN_TENSORS(tn_sum(s, out[0])), TN_TENSORS(x), NULL, &grad); /* 10ab + 5a^2 + 7 cos a */
    EXPECT(s, grad, 30 + 20 - 7 * sin(2), 20);
    cr_assert_eq(tn_hessian(s, scalar, NULL, TN_TENSORS(x, y), &o, out), TN_OK);
    tn_grad(s, TN_TENSORS(tn_sum(s, out[0])), TN_TENSORS(x), NULL, &grad); /* 6ab + 6a^2 */
    EXPECT(s, grad, 18 + 24, 12);
    for (int right = 0; right < 2; right++) {
        cr_assert_eq(
            (right ? (tn_hvp) : (tn_vhp))(s, scalar, NULL, TN_TENSORS(x, y), TN_TENSORS(v, w), &o, out),
            TN_OK);
        tn_grad(s, TN_TENSORS(tn_sum(s, out[0])), TN_TENSORS(x), NULL, &grad); /* 30ab + 21a^2 + 15a^2 */
        EXPECT(s, grad, 90 + 42 * 2 + 30 * 2, 60);
    }
    end();
}

/* x -> linear(x, w), whose Jacobian is w */
static int32_t linear(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    out[0] = tn_linear(scope, in.data[0], user);
    return TN_OK;
}

/* The examples of the documents: they compare with these formulas. */
Test(functional, examples)
{
    tn_tensor *x = VECTOR(s, 0, 0.5, 1, 2), *y = VECTOR(s, 0, 3, 5, 7), *ones = VECTOR(s, 0, 1, 1, 1);
    tn_tensor *w = make(s, TN_INTS(3, 3), VALUES(1, 2, 3, 4, 5, 6, 7, 8, 10), 1), *out[4];
    cr_assert_eq(tn_jacobian(s, sine, NULL, TN_TENSORS(x), NULL, out), TN_OK);
    EXPECT(s, out[0], cos(0.5), 0, 0, 0, cos(1), 0, 0, 0, cos(2));
    cr_assert_eq(tn_jvp(s, product, NULL, TN_TENSORS(x, y), TN_TENSORS(ones, ones), NULL, out), TN_OK);
    EXPECT(s, out[0], 3.5, 6, 9); /* x + y */
    cr_assert_eq(tn_jacobian(s, linear, w, TN_TENSORS(x), NULL, out), TN_OK);
    EXPECT(s, out[0], 1, 2, 3, 4, 5, 6, 7, 8, 10);
    end();
}

static int32_t fails(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)user, (void)in, (void)out;
    return tn_scope_fail(scope, TN_E_STATE, "no function today");
}

static int32_t sets_nothing(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)user, (void)scope, (void)in, (void)out;
    return TN_OK;
}

Test(functional, refusals)
{
    tn_tensor *x = VECTOR(s, 0, 2, 3), *none = NULL, *long_one = VECTOR(s, 0, 1, 2, 3), *out[4];
    tn_tensor *whole = tn_ones(s, TN_INTS(2), .dtype = TN_INT64);
    tn_functional_options wrong = {.size = 1};
    tn_jacobian(s, NULL, NULL, TN_TENSORS(x), NULL, out);
    expect_error(s, "jacobian: argument 'f' is NULL");
    tn_hessian(s, pair, NULL, (tn_tensors){NULL, 0}, NULL, out);
    expect_error(s, "hessian: argument 'inputs' has 0 tensors and no list");
    int32_t (*const plain[])(tn_scope *, tn_tensors_fn, void *, tn_tensors, const tn_functional_options *,
                             tn_tensor **) = {(tn_jacobian), (tn_hessian)};
    int32_t (*const with_v[])(tn_scope *, tn_tensors_fn, void *, tn_tensors, tn_tensors,
                              const tn_functional_options *,
                              tn_tensor **) = {(tn_vjp), (tn_jvp), (tn_vhp), (tn_hvp)};
    for (int i = 0; i < 6; i++) {
        if (i < 2)
            plain[i](s, scalar, NULL, TN_TENSORS(x, x), NULL, NULL);
        else
            with_v[i - 2](s, scalar, NULL, TN_TENSORS(x, x), TN_TENSORS(x, x), NULL, NULL);
        expect_error(s, "argument 'out' is NULL");
    }
    tn_vjp(s, pair, NULL, TN_TENSORS(none), TN_TENSORS(x), NULL, out);
    expect_error(s, "vjp: input 0 is NULL");
    tn_jacobian(s, pair, NULL, TN_TENSORS(whole), NULL, out);
    expect_error(s, "floating point");
    tn_jacobian(s, pair, NULL, TN_TENSORS(x), &wrong, out);
    expect_error(s, "tn_functional_options");
    tn_hvp(s, fails, NULL, TN_TENSORS(x), TN_TENSORS(x), NULL, out);
    expect_error(s, "no function today");
    tn_jacobian(s, sets_nothing, NULL, TN_TENSORS(x), NULL, out);
    expect_error(s, "jacobian: the function did not set output 0");
    tn_hessian(s, pair, NULL, TN_TENSORS(x), NULL, out);
    expect_error(s, "hessian: expected a function of one output with one element, got 1 of which the first "
                    "is float64 [2]");
    tn_vjp(s, pair, NULL, TN_TENSORS(x), (tn_tensors){NULL, 0}, NULL, out);
    expect_error(s, "vjp: the vector v can only be left out where the output is one tensor with one element");
    tn_jvp(s, pair, NULL, TN_TENSORS(x), TN_TENSORS(x, x), NULL, out);
    expect_error(s, "jvp: v has 2 tensors, expected one for each input (1)");
    tn_jvp(s, pair, NULL, TN_TENSORS(x), TN_TENSORS(long_one), NULL, out);
    expect_error(s, "jvp: tensor 0 of v is float64 [3], expected one like input 0, float64 [2]");
    tn_vjp(s, pair, NULL, TN_TENSORS(x), TN_TENSORS(tn_to(s, x, TN_COMPLEX128)), NULL, out);
    expect_error(s, "vjp: tensor 0 of v is complex128 [2], expected one like output 0, float64 [2]");
    tn_jacobian(s, sine, NULL, TN_TENSORS(tn_to(s, x, TN_COMPLEX128)), NULL, out);
    expect_error(s, "jacobian: a result of the function is complex128, expected a real dtype");
    tn_vhp(s, scalar, NULL, TN_TENSORS(x, x), TN_TENSORS(x, none), NULL, out);
    expect_error(s, "vhp: tensor 1 of v is NULL");
    end();
}

static tn_tensor *point, *direction;

static void differentiate(tn_scope *own)
{
    tn_tensor *out[2];
    tn_jacobian(own, pair, NULL, TN_TENSORS(point), NULL, out);
    tn_jvp(own, pair, NULL, TN_TENSORS(point), TN_TENSORS(direction), NULL, out);
}

Test(functional, survive_a_lack_of_memory)
{
    point = VECTOR(s, 1, 2, 3);
    direction = VECTOR(s, 0, 5, 7);
    cr_assert_gt(fail_each_allocation(s, differentiate, NULL), 5);
    end();
}
