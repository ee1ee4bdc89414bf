/* SPDX-License-Identifier: Apache-2.0 */
/* Literal values that the reference documents print, or that follow from an operator's definition. */
#include "fixture.h"

#include <math.h>

ON_EACH_DEVICE(literal, ranges)
{
    tn_scope *s = p->s;
    EXPECT(p, tn_linspace(s, 3, 10, 5), 3, 4.75, 6.5, 8.25, 10);
    EXPECT(p, tn_linspace(s, -10, 10, 5), -10, -5, 0, 5, 10);
    EXPECT(p, tn_linspace(s, -10, 10, 1), -10);
    EXPECT_NEAR(p, tn_logspace(s, -10, 10, 5), 1e-5, 1e-10, 1e-5, 1, 1e5, 1e10);
    EXPECT_NEAR(p, tn_logspace(s, 0.1, 1.0, 5), 1e-4, 1.2589, 2.1135, 3.5481, 5.9566, 10);
    EXPECT_NEAR(p, tn_logspace(s, 0.1, 1.0, 1), 1e-4, 1.2589);
    EXPECT(p, tn_logspace(s, 2, 2, 1, .base = 2), 4);
    /* Of one step the end is not read, and the start is no element of logspace. */
    EXPECT(p, tn_linspace(s, 7, 300, 1, .dtype = TN_UINT8), 7);
    EXPECT(p, tn_linspace(s, TN_SCALAR(1e6), 1, 1, .dtype = TN_FLOAT16), (double)INFINITY);
    EXPECT(p, tn_logspace(s, TN_SCALAR(-4.0), 300, 1, .dtype = TN_UINT8), 0);
}

ON_EACH_DEVICE(literal, pointwise)
{
    tn_scope *s = p->s;
    tn_tensor *x = VECTOR(p, TN_FLOAT32, -1.5, 0, 2);
    EXPECT(p, tn_heaviside(s, x, VECTOR(p, TN_FLOAT32, 0.5)), 0, 0.5, 1);
    EXPECT(p, tn_heaviside(s, x, VECTOR(p, TN_FLOAT32, 1.2, -2, 3.5)), 0, -2, 1);
    EXPECT(p, tn_div(s, VECTOR(p, TN_INT64, 5), VECTOR(p, TN_INT64, 3)), 5.0 / 3);
    tn_tensor *a = MAKE(p, TN_FLOAT32, TN_INTS(2, 2), 0, 1, 2, 3);
    tn_tensor *adjoint = tn_adjoint(s, tn_complex(s, a, a));
    EXPECT(p, tn_contiguous(s, tn_real(s, adjoint)), 0, 2, 1, 3);
    EXPECT(p, tn_contiguous(s, tn_imag(s, adjoint)), 0, -2, -1, -3);
}

ON_EACH_DEVICE(literal, selection)
{
    tn_scope *s = p->s;
    EXPECT(p, tn_argwhere(s, VECTOR(p, TN_INT64, 1, 0, 1)), 0, 2);
    EXPECT(p, tn_argwhere(s, MAKE(p, TN_INT64, TN_INTS(2, 3), 1, 0, 1, 0, 1, 1)), 0, 0, 0, 2, 1, 1, 1, 2);
    tn_tensor *t = MAKE(p, TN_INT64, TN_INTS(2, 2), 1, 2, 3, 4);
    EXPECT(p, tn_gather(s, t, 1, MAKE(p, TN_INT64, TN_INTS(2, 2), 0, 0, 1, 0)), 1, 1, 4, 3);
    t = MAKE(p, TN_INT64, TN_INTS(2, 3), 4, 3, 5, 6, 7, 8);
    EXPECT(p, tn_take(s, t, VECTOR(p, TN_INT64, 0, 2, 5)), 4, 5, 8);
    tn_put_(s, t, VECTOR(p, TN_INT64, 1, 3), VECTOR(p, TN_INT64, 9, 10));
    EXPECT(p, t, 4, 9, 5, 10, 7, 8);
}

ON_EACH_DEVICE(literal, masked_scatter)
{
    tn_tensor *x = tn_zeros(p->s, TN_INTS(2, 5), .dtype = TN_INT64);
    tn_tensor *mask = MAKE(p, TN_BOOL, TN_INTS(2, 5), 0, 0, 0, 1, 1, 1, 1, 0, 1, 1);
    tn_masked_scatter_(p->s, x, mask, MAKE(p, TN_INT64, TN_INTS(2, 5), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    EXPECT(p, x, 0, 0, 0, 0, 1, 2, 3, 0, 4, 5);
}

ON_EACH_DEVICE(literal, index_add)
{
    tn_tensor *x = tn_ones(p->s, TN_INTS(5, 3)), *rows = VECTOR(p, TN_INT64, 0, 4, 2);
    tn_tensor *t = MAKE(p, TN_FLOAT32, TN_INTS(3, 3), 1, 2, 3, 4, 5, 6, 7, 8, 9);
    tn_index_add_(p->s, x, 0, rows, t);
    EXPECT(p, x, 2, 3, 4, 1, 1, 1, 8, 9, 10, 1, 1, 1, 5, 6, 7);
    tn_index_add_(p->s, x, 0, rows, t, .alpha = TN_SCALAR(-1));
    EXPECT(p, x, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1);
}

ON_EACH_DEVICE(literal, scatter)
{
    tn_scope *s = p->s;
    tn_tensor *source = MAKE(p, TN_INT64, TN_INTS(2, 5), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
    tn_tensor *x = tn_zeros(s, TN_INTS(3, 5), .dtype = TN_INT64);
    tn_scatter_(s, x, 0, MAKE(p, TN_INT64, TN_INTS(1, 4), 0, 1, 2, 0), source);
    EXPECT(p, x, 1, 0, 0, 4, 0, 0, 2, 0, 0, 0, 0, 0, 3, 0, 0);
    x = tn_zeros(s, TN_INTS(3, 5), .dtype = TN_INT64);
    tn_scatter_(s, x, 1, MAKE(p, TN_INT64, TN_INTS(2, 3), 0, 1, 2, 0, 1, 4), source);
    EXPECT(p, x, 1, 2, 3, 0, 0, 6, 7, 0, 0, 8, 0, 0, 0, 0, 0);
    x = tn_zeros(s, TN_INTS(3, 5));
    tn_scatter_add_(s, x, 0, MAKE(p, TN_INT64, TN_INTS(2, 5), 0, 1, 2, 0, 0, 0, 1, 2, 2, 2),
                    tn_ones(s, TN_INTS(2, 5)));
    EXPECT(p, x, 2, 0, 0, 1, 1, 0, 2, 0, 0, 0, 0, 0, 2, 1, 1);
}

ON_EACH_DEVICE(literal, scatter_reduce)
{
    tn_scope *s = p->s;
    tn_tensor *source = VECTOR(p, TN_FLOAT32, 1, 2, 3, 4, 5, 6);
    tn_tensor *index = VECTOR(p, TN_INT64, 0, 1, 0, 1, 2, 1);
    tn_tensor *x = VECTOR(p, TN_FLOAT32, 1, 2, 3, 4), *y = VECTOR(p, TN_FLOAT32, 5, 4, 3, 2);
    EXPECT(p, tn_scatter_reduce(s, x, 0, index, source, "sum"), 5, 14, 8, 4);
    EXPECT(p, tn_scatter_reduce(s, x, 0, index, source, "sum", .include_self = 0), 4, 12, 5, 4);
    EXPECT(p, tn_scatter_reduce(s, y, 0, index, source, "amax"), 5, 6, 5, 2);
    EXPECT(p, tn_scatter_reduce(s, y, 0, index, source, "amax", .include_self = 0), 3, 6, 5, 2);
}

ON_EACH_DEVICE(literal, layers)
{
    tn_scope *s = p->s;
    tn_tensor *x = MAKE(p, TN_FLOAT32, TN_INTS(1, 1, 7), 1, 2, 3, 4, 5, 6, 7);
    EXPECT(p, tn_avg_pool1d(s, x, TN_INTS(3), .stride = TN_INTS(2)), 2, 4, 6);
    x = MAKE(p, TN_FLOAT32, TN_INTS(1, 2, 4), 0, 1, 2, 3, 4, 5, 6, 7);
    EXPECT(p, tn_reflection_pad1d(s, x, TN_INTS(2, 2)), 2, 1, 0, 1, 2, 3, 2, 1, 6, 5, 4, 5, 6, 7, 6, 5);
    EXPECT(p, tn_reflection_pad1d(s, x, TN_INTS(3, 1)), 3, 2, 1, 0, 1, 2, 3, 2, 7, 6, 5, 4, 5, 6, 7, 6);
    x = MAKE(p, TN_FLOAT32, TN_INTS(1, 4), 0.1, 0.2, 0.4, 0.8);
    EXPECT(p, tn_multilabel_margin_loss(s, x, MAKE(p, TN_INT64, TN_INTS(1, 4), 3, 0, -1, 1)), 0.85);
    EXPECT(p, tn_multi_margin_loss(s, x, VECTOR(p, TN_INT64, 3)), 0.325);
}

ON_EACH_DEVICE(literal, norm)
{
    tn_scope *s = p->s;
    EXPECT(p, tn_norm(s, VECTOR(p, TN_FLOAT64, 1e20, 1e20)), 1.4142135623730951e20);
    EXPECT(p, tn_isinf(s, tn_norm(s, VECTOR(p, TN_FLOAT32, 1e20, 1e20))), 1);
}

ON_EACH_DEVICE(literal, fourier_transforms)
{
    tn_scope *s = p->s;
    tn_tensor *f = tn_fft_fft(s, tn_to(s, VECTOR(p, TN_FLOAT32, 0, 1, 2, 3), TN_COMPLEX64));
    EXPECT(p, tn_view_as_real(s, f), 6, 0, -2, 2, -2, 0, -2, -2);
    EXPECT(p, tn_view_as_real(s, tn_fft_ifft(s, f)), 0, 0, 1, 0, 2, 0, 3, 0);
}
