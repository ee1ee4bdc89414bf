/* SPDX-License-Identifier: Apache-2.0 */
/* Fourier transforms: the gradient of a transform is the transform back, without a change of scale. */
#include "autograd/rules/formula.h"

void grad_fft_c2c(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, tn__fft_c2c(s, tni_grad_out(g, 0), ints_arg(g, 1), int_arg(g, 2), !bool_arg(g, 3)));
}

/*
 * Multiplies by `factor` what stands for two elements of a whole spectrum of n: in the last of the dims all elements of
 * half a spectrum but the first and, if n is even, the last.
 */
static tn_tensor *scale_doubled(tn_scope *s, tn_tensor *t, tn_ints dims, int64_t n, double factor)
{
    if (!t) return NULL;
    int64_t rank = t->desc.rank, dim = wrap_dim(dims.data[dims.count - 1], rank), sizes[TN_MAX_RANK];
    tn_dtype real = tni_dtype_to_real(t->desc.dtype);
    tn_tensor *factors = tn_ones(s, TN_INTS(n / 2 + 1), .dtype = real, .device = t->desc.device);
    tn_fill_scalar_(s, tn_slice(s, factors, .start = 1, .end = (n + 1) / 2), tn_value_float(factor));
    for (int64_t d = 0; d < rank; d++) sizes[d] = d == dim ? n / 2 + 1 : 1;
    return mul(s, t, tn_view(s, factors, (tn_ints){sizes, rank}));
}

void grad_fft_r2c(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    tn_ints dims = ints_arg(g, 1);
    tni_meta self = tni_grad_meta(g, 0, 0);
    if (bool_arg(g, 3)) {
        int64_t n = self.sizes[wrap_dim(dims.data[dims.count - 1], self.rank)];
        tni_grad_set(g, 0, tn__fft_c2r(s, scale_doubled(s, grad, dims, n, 0.5), dims, int_arg(g, 2), n));
    } else {
        tni_grad_set(g, 0, tn_real(s, tn__fft_c2c(s, grad, dims, int_arg(g, 2), 0)));
    }
}

void grad_fft_c2r(tn_scope *s, tni_grad *g)
{
    tn_ints dims = ints_arg(g, 1);
    tn_tensor *spectrum = tn__fft_r2c(s, tni_grad_out(g, 0), dims, int_arg(g, 2), 1);
    tni_grad_set(g, 0, scale_doubled(s, spectrum, dims, int_arg(g, 3), 2));
}
