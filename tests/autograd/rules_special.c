/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient rules of special functions. */
#include "rules.h"

static void check_between(tn_scope *s, const char *name, uint32_t op, double low, double high)
{
    tn_value x = of(leaf(s, low, high, TN_INTS(2, 3)));
    check_call(s, &(rule_call){.name = name, .op = op, .n_outs = 1, .n_checked = 1}, &x, 1);
}

Test(rules_special, of_one_argument)
{
    static const struct {
        const char *name;
        uint32_t op;
        double low, high;
    } functions[] = {
        {"erf", TN_OP_ERF, -2, 2},
        {"erfc", TN_OP_ERFC, -2, 2},
        {"erfinv", TN_OP_ERFINV, -0.8, 0.8},
        {"erfcx", TN_OP_SPECIAL_ERFCX, -1.5, 2},
        {"log_ndtr", TN_OP_SPECIAL_LOG_NDTR, -3, 2},
        {"ndtr", TN_OP_SPECIAL_NDTR, -3, 2},
        {"ndtri", TN_OP_SPECIAL_NDTRI, 0.1, 0.9},
        {"lgamma", TN_OP_LGAMMA, 0.5, 4},
        {"lgamma below zero", TN_OP_LGAMMA, -1.8, -1.2},
        {"digamma", TN_OP_DIGAMMA, 0.5, 4},
        {"digamma below zero", TN_OP_DIGAMMA, -1.8, -1.2},
        {"i0", TN_OP_I0, -3, 3},
        {"i0e", TN_OP_SPECIAL_I0E, 0.3, 3},
        {"i0e below zero", TN_OP_SPECIAL_I0E, -3, -0.3},
        {"i1", TN_OP_SPECIAL_I1, 0.3, 3},
        {"i1 below zero", TN_OP_SPECIAL_I1, -3, -0.3},
        {"i1e", TN_OP_SPECIAL_I1E, 0.3, 3},
        {"i1e below zero", TN_OP_SPECIAL_I1E, -3, -0.3},
        {"sinc", TN_OP_SINC, 0.2, 2.5},
        {"sinc below zero", TN_OP_SINC, -2.5, -0.2},
        {"entr", TN_OP_SPECIAL_ENTR, 0.2, 2},
    };
    tn_scope *s = rules_begin();
    for (uint32_t i = 0; i < COUNT_OF(functions); i++)
        check_between(s, functions[i].name, functions[i].op, functions[i].low, functions[i].high);
    rules_end(s);
}

Test(rules_special, with_an_order)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_POLYGAMMA, whole(0), of(leaf(s, 0.7, 3, TN_INTS(4))));
    CHECK(s, TN_OP_POLYGAMMA, whole(1), of(leaf(s, 0.7, 3, TN_INTS(4))));
    CHECK(s, TN_OP_POLYGAMMA, whole(3), of(leaf(s, 0.9, 3, TN_INTS(4))));
    CHECK(s, TN_OP_MVLGAMMA, of(leaf(s, 1.7, 4, TN_INTS(3))), whole(3));
    CHECK(s, TN_OP_MVLGAMMA, of(leaf(s, 0.7, 4, TN_INTS(3))), whole(1));
    rules_end(s);
}

Test(rules_special, of_two_arguments)
{
    tn_scope *s = rules_begin();
    CHECK(s, TN_OP_IGAMMA, of(constant(s, 0.5, 3, TN_INTS(3))), of(leaf(s, 0.3, 3, TN_INTS(2, 3))));
    CHECK(s, TN_OP_IGAMMAC, of(constant(s, 0.5, 3, TN_INTS(3))), of(leaf(s, 0.3, 3, TN_INTS(2, 3))));
    CHECK(s, TN_OP_SPECIAL_ZETA, of(constant(s, 2, 4, TN_INTS(2, 1))), of(leaf(s, 0.5, 3, TN_INTS(2, 3))));
    CHECK(s, TN_OP_XLOGY, of(leaf(s, -2, 2, TN_INTS(2, 3))), of(leaf(s, 0.3, 3, TN_INTS(3))));
    CHECK(s, TN_OP_XLOGY, of(leaf(s, -2, 2, TN_INTS(1, 3))), of(leaf(s, 0.3, 3, TN_INTS(2, 1))));
    CHECK(s, TN_OP_SPECIAL_XLOG1PY, of(leaf(s, -2, 2, TN_INTS(2, 3))), of(leaf(s, -0.7, 3, TN_INTS(3))));
    rules_end(s);
}

/* Gradient at one point of the sum of a function of one argument. */
static double slope_at(tn_scope *s, uint32_t op, double x)
{
    tn_tensor *t = tn_from_data(s, TN_FLOAT64, TN_INTS(1), &x, 0);
    tn_value v = tn_value_tensor(t), out;
    cr_assert_eq(tn_set_requires_grad(t, 1), 0);
    cr_assert_eq(tn_scope_call(s, op, &v, 1, &out, 1), 0);
    cr_assert_eq(tn_backward(s, out.as.tensor), 0);
    double slope = -1;
    cr_assert_eq(tn_to_host(s, tn_grad_of(s, t), &slope, sizeof slope), 0);
    return slope;
}

Test(rules_special, where_a_formula_divides_by_zero)
{
    tn_scope *s = rules_begin();
    cr_expect_float_eq(slope_at(s, TN_OP_SINC, 0), 0, 1e-15);
    cr_expect_float_eq(slope_at(s, TN_OP_SPECIAL_I1, 0), 0.5, 1e-15);
    cr_expect_float_eq(slope_at(s, TN_OP_SPECIAL_I1E, 0), 0.5, 1e-15);
    cr_expect_float_eq(slope_at(s, TN_OP_SPECIAL_I0E, 0), 0, 1e-15);
    rules_end(s);
}

static int32_t xlogy_of_itself(void *user, tn_scope *s, tn_tensors in, tn_tensor **out)
{
    (void)user;
    out[0] = tn_xlogy(s, in.data[0], in.data[0]);
    return tn_scope_failed(s);
}

Test(rules_special, of_an_argument_used_twice)
{
    tn_scope *s = rules_begin();
    check_function(s, "xlogy(x, x)", xlogy_of_itself, TN_TENSORS(leaf(s, 0.3, 3, TN_INTS(4))));
    rules_end(s);
}

Test(rules_special, unknown_derivatives_are_refused)
{
    static const uint32_t ops[] = {TN_OP_IGAMMA, TN_OP_IGAMMAC, TN_OP_SPECIAL_ZETA};
    tn_scope *s = rules_begin();
    for (uint32_t i = 0; i < COUNT_OF(ops); i++) {
        tn_value v[2] = {of(leaf(s, 2, 3, TN_INTS(1))), of(constant(s, 2, 3, TN_INTS(1)))}, out;
        int32_t status = tn_scope_call(s, ops[i], v, 2, &out, 1);
        if (!status) status = tn_backward(s, out.as.tensor);
        cr_expect_eq(status, TN_E_AUTOGRAD);
        tn_scope_clear(s);
    }
    rules_end(s);
}
