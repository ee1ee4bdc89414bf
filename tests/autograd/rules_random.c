/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient rules of operators that draw random numbers. Each evaluation starts from the same seed. */
#include "rules.h"

static int32_t dropped(void *user, tn_scope *s, tn_tensors in, tn_tensor **out)
{
    (void)user;
    tn_manual_seed(tn_scope_context(s), 7);
    out[0] = tn_native_dropout(s, in.data[0], 0.4, 1).result0;
    return tn_scope_failed(s);
}

static int32_t kept(void *user, tn_scope *s, tn_tensors in, tn_tensor **out)
{
    (void)user;
    out[0] = tn_native_dropout(s, in.data[0], 0.4, 0).result0;
    return tn_scope_failed(s);
}

Test(rules_random, dropout)
{
    tn_scope *s = rules_begin();
    check_function(s, "dropout", dropped, TN_TENSORS(leaf(s, -2, 2, TN_INTS(3, 4))));
    check_function(s, "dropout outside of training", kept, TN_TENSORS(leaf(s, -2, 2, TN_INTS(3))));
    rules_end(s);
}

/* The gradient that one operator with random results has at one point. */
static void gradient_at(tn_scope *s, uint32_t op, tn_tensor *x, double *grad, int64_t n)
{
    tn_value args[2] = {of(x), none()}, out;
    tn_manual_seed(tn_scope_context(s), 7);
    tn_scope_call(s, op, args, 2, &out, 1);
    expect_sound(s);
    tn_tensor *v = constant(s, 1, 1, TN_INTS(n));
    cr_assert_eq(tn_backward(s, tn_sum(s, tn_mul(s, out.as.tensor, v))), 0);
    cr_assert_eq(tn_to_host(s, tn_grad_of(s, x), grad, (uint64_t)n * sizeof *grad), 0);
}

Test(rules_random, draws_have_no_gradient)
{
    tn_scope *s = rules_begin();
    double grad[3];
    gradient_at(s, TN_OP_BERNOULLI, leaf(s, 0.1, 0.9, TN_INTS(3)), grad, 3);
    for (int i = 0; i < 3; i++) cr_expect_eq(grad[i], 0);
    rules_end(s);
}
