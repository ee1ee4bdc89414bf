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

#endif
