/* SPDX-License-Identifier: Apache-2.0 */
/* Rules against finite differences, first and second derivatives. */
#include "suite.h"

#include <math.h>

TestSuite(gradcheck, .init = begin);

typedef tn_tensor *(*unary)(tn_scope *scope, tn_tensor *x);

static int32_t call_unary(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    out[0] = (*(unary *)user)(scope, in.data[0]);
    return TN_OK;
}

static void check(tn_check_fn f, void *user, tn_tensors in, int32_t second, const char *name)
{
    tn_gradcheck_options options = {.size = sizeof options, .second = second, .atol = 1e-4};
    int32_t status = tn_gradcheck(s, f, user, in, &options);
    cr_assert_eq(status, TN_OK, "%s: %s", name, tn_scope_error(s) ? tn_scope_error(s)->message : "?");
}

/* Functions on (0.2, 0.9), away from their kinks. */
Test(gradcheck, unary_functions)
{
    const struct {
        const char *name;
        unary f;
    } functions[] = {
        {"exp", tn_exp},     {"log", tn_log},
        {"sqrt", tn_sqrt},   {"rsqrt", tn_rsqrt},
        {"sin", tn_sin},     {"cos", tn_cos},
        {"tan", tn_tan},     {"asin", tn_asin},
        {"acos", tn_acos},   {"atan", tn_atan},
        {"sinh", tn_sinh},   {"cosh", tn_cosh},
        {"tanh", tn_tanh},   {"asinh", tn_asinh},
        {"atanh", tn_atanh}, {"sigmoid", tn_sigmoid},
        {"silu", tn_silu},   {"mish", tn_mish},
        {"erf", tn_erf},     {"erfc", tn_erfc},
        {"abs", tn_abs},     {"log1p", tn_log1p},
        {"expm1", tn_expm1}, {"log2", tn_log2},
        {"log10", tn_log10}, {"reciprocal", tn_reciprocal},
        {"exp2", tn_exp2},   {"hardswish", tn_hardswish},
        {"relu", tn_relu},
    };
    for (uint32_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        tn_tensor *x = VECTOR(s, 1, 0.2, 0.35, 0.61, 0.9);
        unary f = functions[i].f;
        check(call_unary, &f, TN_TENSORS(x), 1, functions[i].name);
    }
    end();
}

static int32_t product(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)user;
    out[0] = tn_mul(scope, in.data[0], in.data[1]);
    return TN_OK;
}

static int32_t complex_product(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)user;
    tn_tensor *z = tn_mul(scope, in.data[0], tn_conj(scope, in.data[1]));
    out[0] = tn_mul(scope, tn_exp(scope, z), in.data[0]);
    return TN_OK;
}

/* A tensor that is given twice moves in both places at once; its gradient is that of both together. */
Test(gradcheck, one_tensor_in_two_places)
{
    const double a[] = {0.3, -0.5, 0.7, 0.2};
    tn_tensor *q = VECTOR(s, 1, 0.2, 0.35, 0.9), *z = tn_from_data(s, TN_COMPLEX128, TN_INTS(2), a, 0);
    tn_set_requires_grad(z, 1);
    check(product, NULL, TN_TENSORS(q, q), 1, "q * q");
    check(product, NULL, TN_TENSORS(q, VECTOR(s, 1, 0.7, 0.1, 0.4)), 1, "q * r");
    check(complex_product, NULL, TN_TENSORS(z, z), 1, "complex product of one tensor");
    end();
}

Test(gradcheck, complex_functions)
{
    const double a[] = {0.3, -0.5, 0.7, 0.2}, b[] = {-0.4, 0.1, 0.6, 0.9};
    tn_tensor *x = tn_from_data(s, TN_COMPLEX128, TN_INTS(2), a, 0),
              *y = tn_from_data(s, TN_COMPLEX128, TN_INTS(2), b, 0);
    tn_set_requires_grad(x, 1);
    tn_set_requires_grad(y, 1);
    check(complex_product, NULL, TN_TENSORS(x, y), 1, "complex product");
    const struct {
        const char *name;
        unary f;
    } functions[] = {{"abs", tn_abs},
                     {"angle", tn_angle},
                     {"log", tn_log},
                     {"sqrt", tn_sqrt},
                     {"sin", tn_sin},
                     {"tanh", tn_tanh},
                     {"reciprocal", tn_reciprocal},
                     {"real", tn_real},
                     {"sgn", tn_sgn}};
    for (uint32_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        unary f = functions[i].f;
        check(call_unary, &f, TN_TENSORS(x), 1, functions[i].name);
    }
    end();
}

static int32_t arithmetic(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)user;
    tn_tensor *a = in.data[0], *b = in.data[1];
    out[0] = tn_div(scope, tn_pow(scope, a, b), tn_add(scope, a, b, .alpha = TN_SCALAR(3)));
    out[1] = tn_atan2(scope, tn_sub(scope, a, b), tn_hypot(scope, a, b));
    return TN_OK;
}

Test(gradcheck, broadcast_arithmetic)
{
    tn_tensor *a = make(s, TN_INTS(2, 3), VALUES(0.5, 0.7, 1.1, 1.3, 0.4, 0.9), 1),
              *b = VECTOR(s, 1, 0.6, 1.2, 0.8);
    tn_gradcheck_options options = {.size = sizeof options, .second = 1, .n_outs = 2, .atol = 1e-4};
    tn_gradcheck(s, arithmetic, NULL, TN_TENSORS(a, b), &options);
    expect_sound(s);
    end();
}

static int32_t products(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)user;
    tn_tensor *m = tn_mm(scope, in.data[0], in.data[1]);
    out[0] = tn_addmm(scope, m, in.data[0], in.data[1], .beta = TN_SCALAR(0.5), .alpha = TN_SCALAR(2));
    return TN_OK;
}

Test(gradcheck, matrix_products)
{
    tn_tensor *a = make(s, TN_INTS(2, 3), VALUES(1, 2, 3, 4, 5, 6), 1);
    tn_tensor *b = make(s, TN_INTS(3, 2), VALUES(0.5, 1, 1.5, 2, 2.5, 3), 1);
    check(products, NULL, TN_TENSORS(a, b), 1, "products");
    end();
}

static int32_t reductions(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)user;
    tn_tensor *x = in.data[0];
    out[0] = tn_var_correction(scope, x, TN_INTS(1), .correction = TN_SCALAR(1));
    out[1] = tn_std_correction(scope, x, TN_INTS(0), .correction = TN_SCALAR(0), .keepdim = 1);
    out[2] = tn_mean_dim(scope, tn_mul(scope, x, x), TN_INTS(0));
    out[3] = tn_linalg_vector_norm(scope, x, .ord = TN_SCALAR(3));
    return TN_OK;
}

Test(gradcheck, reductions)
{
    tn_tensor *x = make(s, TN_INTS(2, 3), VALUES(1, -2, 3, 0.4, 5, -1.6), 1);
    tn_gradcheck_options options = {.size = sizeof options, .second = 1, .n_outs = 4, .atol = 1e-4};
    tn_gradcheck(s, reductions, NULL, TN_TENSORS(x), &options);
    expect_sound(s);
    end();
}

static int32_t views(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)user;
    tn_tensor *x = tn_mul_scalar(scope, in.data[0], 1.5);
    tn_tensor *row = tn_select(scope, x, 0, 1),
              *block = tn_slice(scope, x, .dim = 1, .start = 0, .end = 3, .step = 2);
    tn_mul_(scope, row, in.data[1]);
    out[0] = tn_mul(scope, tn_permute(scope, block, TN_INTS(1, 0)),
                    tn_unsqueeze(scope, tn_select(scope, x, 1, 2), 0));
    return TN_OK;
}

Test(gradcheck, views_and_writes)
{
    tn_tensor *x = make(s, TN_INTS(2, 3), VALUES(1, -2, 3, 0.4, 5, -1.6), 1), *w = VECTOR(s, 1, 0.5, 2, 1.5);
    check(views, NULL, TN_TENSORS(x, w), 1, "views");
    end();
}

static int32_t wrong_forward(tn_function_call *call, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)call;
    out[0] = tn_mul_scalar(scope, in.data[0], 2);
    return TN_OK;
}

static int32_t wrong_backward(tn_function_call *call, tn_scope *scope, tn_tensors grads, tn_tensor **out)
{
    (void)call;
    out[0] = tn_mul_scalar(scope, grads.data[0], 3);
    return TN_OK;
}

static int32_t wrong(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)user;
    tn_function f = {.size = sizeof f, .name = "Wrong", .forward = wrong_forward, .backward = wrong_backward};
    return tn_function_apply(scope, &f, NULL, in, out, 1);
}

Test(gradcheck, finds_a_wrong_gradient)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2);
    cr_assert_eq(tn_gradcheck(s, wrong, NULL, TN_TENSORS(x), NULL), TN_E_AUTOGRAD);
    expect_error(s, "Jacobian mismatch for output 0 with respect to input 0");
    float f = 1;
    tn_tensor *narrow = tn_from_data(s, TN_FLOAT32, TN_INTS(1), &f, 0);
    tn_set_requires_grad(narrow, 1);
    unary e = tn_exp;
    tn_gradcheck(s, call_unary, &e, TN_TENSORS(narrow), NULL);
    expect_error(s, "expected float64 or complex128, got float32");
    end();
}
