/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: the matrix exponential by scaling, a Taylor polynomial of degree 19, and squaring. It needs
 * products only: the polynomial is split into four blocks of powers (Paterson and Stockmeyer 1973), seven
 * products in all.
 */
#include "ops/composite/matrix_batch.h"

/* Up to this 1-norm the polynomial of degree 18 is exact in the dtype (Bader, Blanes, Casas 2019, table 2). */
static double limit_of(tn_dtype dtype)
{
    return dtype == TN_FLOAT64 || dtype == TN_COMPLEX128 ? 1.09 : 3.01;
}

/* The sum of powers[k] / (first + k)! over the four powers 1, A, A^2, A^3. */
static tn_tensor *four_terms(tn_scope *s, tn_tensor *const *powers, int64_t first)
{
    tn_tensor *sum = NULL;
    for (int64_t k = 0; k < 4; k++) {
        tn_tensor *term = tn_mul_scalar(s, powers[k], 1 / tgamma((double)(first + k + 1)));
        sum = sum ? tn_add(s, sum, term) : term;
    }
    return sum;
}

static tn_tensor *polynomial(tn_scope *s, tn_tensor *a)
{
    tn_tensor *powers[5] = {tni_units_like(s, a), a}, *sum;
    for (int64_t k = 2; k < 5; k++) powers[k] = tn_matmul(s, powers[k - 1], a);
    sum = four_terms(s, powers, 16);
    for (int64_t first = 12; first >= 0; first -= 4)
        sum = tn_add(s, tn_matmul(s, sum, powers[4]), four_terms(s, powers, first));
    return sum;
}

/*
 * Each matrix is scaled by its own power of 2; all are squared as often as the one that needs it most, and a
 * finished matrix keeps its value.
 */
static tn_tensor *matrix_exp(tn_scope *s, tn_tensor *a)
{
    tn_tensor *norm = tn_linalg_matrix_norm(s, a, 1), *halvings, *out;
    norm = tn_unsqueeze(s, tn_unsqueeze(s, norm, -1), -1);
    halvings = tn_ceil(s, tn_log2(s, tn_mul_scalar(s, norm, 1 / limit_of(dtype_of(a)))));
    halvings = tn_nan_to_num(s, tn_clamp_min(s, halvings, 0), .nan = 0, .posinf = 0);
    double most = tn_item_double(s, tn_max(s, halvings));
    if (tn_scope_failed(s)) return NULL;
    out = polynomial(s, tn_mul(s, a, tni_cast(s, tn_exp2(s, tn_neg(s, halvings)), dtype_of(a))));
    for (double i = 0; i < most; i++)
        out = tn_where(s, tn_gt_scalar(s, halvings, i), tn_matmul(s, out, out), out);
    return out;
}

void composite_linalg_matrix_exp(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *out;
    if (tni_check_matrices(s, self, "linalg.matrix_exp", 1)) return;
    if (tn_tensor_numel(self) == 0) {
        give(outs, 0, tni_empty_on(s, self, 0, sizes_of(self)));
        return;
    }
    if (tni_sizes(self)[rank_of(self) - 1] == 1) {
        give(outs, 0, tn_exp(s, self));
        return;
    }
    out = matrix_exp(s, wide(s, self));
    give(outs, 0, out ? tni_cast(s, out, dtype_of(self)) : NULL);
}

/* (self, grad): the upper right block of the exponential of [[self^H, grad], [0, self^H]]. */
void composite_matrix_exp_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *grad = arg_tensor(args, 1);
    int64_t n = tn_tensor_size(self, -1);
    tn_tensor *adjoint = tn_mh(s, self), *zeros = tn_zeros_like(s, self);
    tn_tensor *upper = tn_cat(s, TN_TENSORS(adjoint, grad), .dim = -1);
    tn_tensor *lower = tn_cat(s, TN_TENSORS(zeros, adjoint), .dim = -1);
    tn_tensor *e = tn_linalg_matrix_exp(s, tn_cat(s, TN_TENSORS(upper, lower), .dim = -2));
    give(outs, 0, tni_narrow(s, tni_narrow(s, e, -2, 0, n), -1, n, n));
}
