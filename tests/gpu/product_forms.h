/* SPDX-License-Identifier: Apache-2.0 */
/* Forms of products that libraries of vendors compute, for tests that have session.h. */
#ifndef TENON_TESTS_GPU_PRODUCT_FORMS_H
#define TENON_TESTS_GPU_PRODUCT_FORMS_H

enum {
    MM,
    MM_TRANSPOSED,
    MM_LEFT_TRANSPOSED,
    BMM,
    BMM_SHARED,
    ADDMM,
    ADDMM_BIAS,
    ADDMM_HALF_BIAS,
    LINEAR,
    ROW,
    SLICE,
    EVERY_EIGHTH,
    CONVOLUTION,
    FORMS
};

static tn_tensor *multiply(int form, tn_dtype t)
{
    tn_manual_seed(ctx, 3);
    tn_tensor *a = numbers(t, TN_INTS(7, 33)), *b = numbers(t, TN_INTS(33, 20));
    switch (form) {
    case MM:
        return tn_mm(s, a, b);
    case MM_TRANSPOSED:
        return tn_mm(s, a, tn_t(s, numbers(t, TN_INTS(20, 33))));
    case MM_LEFT_TRANSPOSED:
        return tn_mm(s, tn_t(s, numbers(t, TN_INTS(33, 7))), b);
    case BMM:
        return tn_bmm(s, numbers(t, TN_INTS(3, 7, 33)), numbers(t, TN_INTS(3, 33, 20)));
    case BMM_SHARED:
        return tn_bmm(s, tn_expand(s, tn_unsqueeze(s, a, 0), TN_INTS(3, 7, 33)),
                      numbers(t, TN_INTS(3, 33, 20)));
    case ADDMM:
        return tn_addmm(s, numbers(t, TN_INTS(7, 20)), a, b, .beta = tn_value_float(0.5),
                        .alpha = tn_value_float(2));
    case ADDMM_BIAS:
        return tn_addmm(s, numbers(t, TN_INTS(20)), a, b);
    case ADDMM_HALF_BIAS:
        return tn_addmm(s, numbers(t, TN_INTS(20)), a, b, .beta = tn_value_float(0.5));
    case LINEAR:
        return tn_linear(s, numbers(t, TN_INTS(2, 5, 33)), numbers(t, TN_INTS(20, 33)),
                         .bias = numbers(t, TN_INTS(20)));
    case ROW:
        return tn_mm(s, numbers(t, TN_INTS(1, 33)), b);
    case SLICE: /* rows that are further apart than they are long */
        return tn_mm(s, tn_narrow(s, numbers(t, TN_INTS(7, 40)), 1, 5, 33), b);
    case EVERY_EIGHTH: /* neither rows nor columns are contiguous */
        return tn_mm(s, tn_slice(s, numbers(t, TN_INTS(7, 264)), .dim = 1, .step = 8), b);
    default:
        return tn_conv2d(s, numbers(t, TN_INTS(2, 3, 8, 8)), numbers(t, TN_INTS(4, 3, 3, 3)));
    }
}

/* A form by the kernels and by the library, at most so far apart. How many products the library did, of which it counts `what`. */
static int compare_products(int form, tn_dtype dtype, double tolerance, int what)
{
    int before = count(what);
    use_library(0);
    tn_tensor *want = multiply(form, dtype);
    cr_assert_eq(count(what), before, "the library was off");
    use_library(1);
    double most = difference(multiply(form, dtype), want);
    cr_assert_leq(most, tolerance, "form %d, dtype %d: the difference is %g", form, (int)dtype, most);
    return count(what) - (before < 0 ? 0 : before);
}

#endif
