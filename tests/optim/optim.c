/* SPDX-License-Identifier: Apache-2.0 */
/* Optimisers against their formulas, computed here number by number. */
#include <math.h>
#include "suite.h"
#include "optim.h"

TestSuite(optim, .init = begin);

static const double gradients[3][4] = {{0.5, -0.25, 0, 2}, {-1, 0.75, 1e-3, 2}, {0.125, 4, -3, 0}};

/* AdamW of one real number after `steps` gradients, gradients[k][column]. */
static double adamw_number(double p, uint32_t column, uint32_t steps, double lr, double decay)
{
    double mean = 0, square = 0;
    for (uint32_t k = 1; k <= steps; k++) {
        double g = gradients[k - 1][column];
        p *= 1 - lr * decay;
        mean = 0.9 * mean + 0.1 * g;
        square = 0.999 * square + 0.001 * g * g;
        p -= lr * (mean / (1 - pow(0.9, k))) / (sqrt(square / (1 - pow(0.999, k))) + 1e-8);
    }
    return p;
}

static void follow_adamw(tn_tensor *p, const double *start)
{
    optim_adamw o;
    int32_t complex = tn_dtype_is_complex(tn_tensor_dtype(p));
    tn_set_requires_grad(p, 1);
    cr_assert_eq(optim_adamw_init(&o, &p, 1, 0.1, 0.05), TN_OK);
    for (uint32_t k = 0; k < 3; k++) {
        tn_tensor *g = make(s, complex ? TN_INTS(2, 2) : TN_INTS(4), gradients[k], 0);
        cr_assert_eq(tn_set_grad(p, complex ? tn_view_as_complex(s, g) : g), TN_OK);
        cr_assert_eq(optim_adamw_step(&o, s), TN_OK);
        double want[4];
        for (uint32_t i = 0; i < 4; i++) want[i] = adamw_number(start[i], i, k + 1, 0.1, 0.05);
        tn_tensor *now = tn_detach(s, p);
        expect_values(s, complex ? tn_view_as_real(s, now) : now, 4, want, 1e-12);
    }
    optim_adamw_finish(&o);
}

Test(optim, adamw_follows_its_formula)
{
    const double start[] = {1, -2, 0.5, 3};
    follow_adamw(make(s, TN_INTS(4), start, 0), start);
    end();
}

/* PyTorch views a complex parameter as real: both parts have a mean and a square of their own. */
Test(optim, adamw_treats_complex_numbers_as_pairs)
{
    const double start[] = {1, -2, 0.5, 3};
    follow_adamw(tn_clone(s, tn_view_as_complex(s, make(s, TN_INTS(2, 2), start, 0))), start);
    end();
}

Test(optim, sgd_follows_its_formula)
{
    tn_tensor *p = make(s, TN_INTS(4), VALUES(1, -2, 0.5, 3), 1), *untouched = VECTOR(s, 1, 7);
    tn_tensor *parameters[] = {p, untouched};
    double want[] = {1, -2, 0.5, 3}, velocity[4] = {0};
    optim_sgd o;
    cr_assert_eq(optim_sgd_init(&o, parameters, 2, 0.1, 0.9, 0.01), TN_OK);
    for (uint32_t k = 0; k < 3; k++) {
        tn_set_grad(p, make(s, TN_INTS(4), gradients[k], 0));
        cr_assert_eq(optim_sgd_step(&o, s), TN_OK);
        for (uint32_t i = 0; i < 4; i++) {
            double g = gradients[k][i] + 0.01 * want[i];
            velocity[i] = k ? 0.9 * velocity[i] + g : g;
            want[i] -= 0.1 * velocity[i];
        }
        expect_values(s, tn_detach(s, p), 4, want, 1e-12);
    }
    EXPECT(s, tn_detach(s, untouched), 7); /* it has no gradient */
    optim_sgd_finish(&o);
    end();
}

Test(optim, warm_up_and_cosine)
{
    cr_assert_float_eq(optim_warm_up_cosine(2, 0, 100, 0.1), 0.2, 1e-15);
    cr_assert_float_eq(optim_warm_up_cosine(2, 9, 100, 0.1), 2, 1e-15);
    cr_assert_float_eq(optim_warm_up_cosine(2, 10, 100, 0.1), 2, 1e-15);
    cr_assert_float_eq(optim_warm_up_cosine(2, 55, 100, 0.1), 1, 1e-15); /* half way down */
    cr_assert_float_eq(optim_warm_up_cosine(2, 100, 100, 0.1), 0, 1e-15);
    end();
}
