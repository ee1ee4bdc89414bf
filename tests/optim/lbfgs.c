/* SPDX-License-Identifier: Apache-2.0 */
/* LBFGS on Rosenbrock's function, against steps of PyTorch's. */
#include <stdio.h>
#include "recorded.h"

TestSuite(lbfgs, .init = open_file, .fini = close_file);

static tn_tensor *rosenbrock(void *user, tn_scope *scope)
{
    tn_module *m = user;
    tn_module_zero_grad(m);
    tn_tensor *p = tn_module_tensor(m, "p"), *x = tn_select(scope, p, 0, 0), *y = tn_select(scope, p, 0, 1);
    tn_tensor *a = tn_rsub_scalar(scope, x, 1.0), *b = tn_sub(scope, y, tn_mul(scope, x, x));
    tn_tensor *loss = tn_add(scope, tn_mul(scope, a, a), tn_mul(scope, b, b), .alpha = TN_SCALAR(100.0));
    tn_backward(scope, loss);
    return loss;
}

static void follow_lbfgs(const char *name, double lr, const char *search)
{
    tn_module *m = tn_module_create(ctx, "m", NULL);
    tn_module_add_parameter(m, "p", VECTOR(s, 0, -1.2, 1));
    tn_optimizer *o = tn_lbfgs_create(m, .lr = lr, .max_iter = 5, .history_size = 3, .line_search = search);
    for (int64_t k = 0; k < 4; k++) {
        char key[64];
        snprintf(key, sizeof key, "%s.%lld.0", name, (long long)k);
        double x[2];
        tn_to_host(s, tn_detach(s, tn_module_tensor(m, "p")), x, sizeof x);
        tn_tensor *loss = tn_optimizer_step_closure(s, o, rosenbrock, m);
        cr_assert_not_null(loss, "%s", tn_scope_error(s) ? tn_scope_error(s)->message : "");
        double first = (1 - x[0]) * (1 - x[0]) + 100 * (x[1] - x[0] * x[0]) * (x[1] - x[0] * x[0]);
        cr_assert_float_eq(tn_item_double(s, loss), first, 1e-9 * first);
        tn_tensor *want = recorded(key), *got = tn_detach(s, tn_module_tensor(m, "p"));
        cr_assert(tn_allclose(s, got, want, .rtol = 1e-9, .atol = 1e-12), "%s is %s, expected %s", key,
                  tn_format(s, got, NULL), tn_format(s, want, NULL));
    }
    tn_optimizer_destroy(o);
    tn_module_destroy(m);
}

typedef struct counted {
    tn_module *m;
    int evaluations;
} counted;

static tn_tensor *count_evaluations(void *user, tn_scope *scope)
{
    counted *c = user;
    c->evaluations++;
    return rosenbrock(c->m, scope);
}

/* The line search stops where max_eval says, and whatever tolerance_change is: what PyTorch 2.13 does. */
Test(lbfgs, searches_within_its_evaluations)
{
    static const struct {
        double lr, change;
        int64_t most;
        int evaluations[3];
        double p[3][2];
    } runs[] = {
        {30,
         1e-9,
         0,
         {6, 12, 18},
         {{-0.8829981212826222, 1.1293885219254602},
          {-1.0211795214210206, 1.0543694538028847},
          {-0.802182045171737, 0.6039951839375471}}},
        {1e-4,
         1e-9,
         3,
         {4, 8, 12},
         {{-1.1928985507246377, 1.0028985507246377},
          {-1.1915446895925723, 1.0035070627070188},
          {-1.190208752649748, 1.0041606645926402}}},
        {30,
         5,
         100,
         {6, 10, 11},
         {{-0.8829981212826222, 1.1293885219254602},
          {-1.025683490037029, 1.0556820972406782},
          {-1.025683490037029, 1.0556820972406782}}},
    };
    for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
        counted c = {.m = tn_module_create(ctx, "m", NULL)};
        tn_tensor *p = tn_module_add_parameter(c.m, "p", VECTOR(s, 0, -1.2, 1));
        tn_optimizer *o = tn_lbfgs_create(c.m, .lr = runs[k].lr, .max_iter = 4, .max_eval = runs[k].most,
                                          .tolerance_change = runs[k].change, .line_search = "strong_wolfe");
        for (int i = 0; i < 3; i++) {
            cr_assert_not_null(tn_optimizer_step_closure(s, o, count_evaluations, &c));
            cr_assert_eq(c.evaluations, runs[k].evaluations[i], "run %zu, step %d: %d", k, i, c.evaluations);
            expect_values(s, tn_detach(s, p), 2, runs[k].p[i], 1e-9);
        }
        tn_optimizer_destroy(o);
        tn_module_destroy(c.m);
    }
}

static tn_tensor *product(void *user, tn_scope *scope)
{
    tn_tensor *p = user;
    tn_set_grad(p, NULL);
    tn_tensor *y = tn_mm(scope, p, p);
    cr_assert_eq(tn_tensor_dtype(y), TN_BFLOAT16);
    tn_tensor *loss = tn_sum(scope, tn_mul(scope, y, y));
    tn_backward(scope, loss);
    return loss;
}

/* The closure runs as the program has it; what LBFGS computes does not lose digits. */
Test(lbfgs, closure_under_autocast)
{
    tn_tensor *p = tn_full(s, TN_INTS(2, 2), 1.0 + 0x1p-20, .dtype = TN_FLOAT32);
    tn_set_requires_grad(p, 1);
    tn_optimizer *o = tn_lbfgs_create_of(ctx, TN_TENSORS(p), .lr = 0.5, .max_iter = 1);
    tn_scope *step = tn_scope_open_child(s, &(tn_scope_options){.size = sizeof(tn_scope_options),
                                                                .autocast = TN_SCOPE_AUTOCAST_ON,
                                                                .autocast_dtype = TN_BFLOAT16});
    tn_tensor *loss = tn_optimizer_step_closure(step, o, product, p);
    cr_assert_not_null(loss, "%s", tn_scope_error(step) ? tn_scope_error(step)->message : "");
    cr_assert_eq(tn_item_double(step, loss),
                 16); /* y is all 2: the loss is 4 * 4, and each gradient 2 * 2 * 2 * 2 */
    cr_assert_eq(tn_scope_close(step), TN_OK);
    /* The first step is lr / |g| = 0.5 / 64 times the gradient. */
    const double want = 1.0 + 0x1p-20 - 0.5 / 64 * 16;
    EXPECT(s, tn_detach(s, p), want, want, want, want);
    tn_optimizer_destroy(o);
}

Test(lbfgs, without_a_search)
{
    follow_lbfgs("lbfgs", 1e-3, NULL);
}
Test(lbfgs, strong_wolfe)
{
    follow_lbfgs("lbfgs_wolfe", 1, "strong_wolfe");
}
