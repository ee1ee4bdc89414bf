/* SPDX-License-Identifier: Apache-2.0 */
/* Sums, means, products, extrema, norms and moments. */
#include "autograd/rules/formula.h"

#include <stdbool.h>
#include <string.h>

uint64_t tni_rule_dims(tn_value dims, int64_t rank)
{
    uint64_t all = rank >= 64 ? ~0ull : (1ull << rank) - 1, mask = 0;
    if (dims.tag == TN_TAG_INT) return rank ? 1ull << wrap_dim(dims.as.i, rank) : 0;
    if (dims.tag != TN_TAG_INTS || dims.count == 0) return all;
    for (uint32_t i = 0; i < dims.count; i++) mask |= 1ull << wrap_dim(dims.as.ints[i], rank);
    return mask & all;
}

tn_ints tni_rule_dim_list(tn_scope *s, uint64_t dims)
{
    int64_t *list = tn_scope_memory(s, 64 * sizeof *list), n = 0;
    for (int64_t i = 0; list && i < 64; i++) {
        if (dims >> i & 1) list[n++] = i;
    }
    return (tn_ints){list, n};
}

tn_tensor *tni_rule_restore(tn_scope *s, tn_tensor *t, uint64_t dims, int64_t rank, int32_t keepdim)
{
    if (keepdim || !t) return t;
    for (int64_t i = 0; i < rank; i++) {
        if (dims >> i & 1) t = tn_unsqueeze(s, t, i);
    }
    return t;
}

static int64_t reduced_count(const tni_meta *m, uint64_t dims)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < m->rank; i++) {
        if (dims >> i & 1) n *= m->sizes[i];
    }
    return n;
}

static tn_tensor *spread(tn_scope *s, tn_tensor *t, const tni_meta *m)
{
    return tn_expand(s, t, sizes_of(m));
}

/* The arguments of a reduction's rule. */
typedef struct reduction {
    tni_meta self;
    uint64_t dims;
    int32_t keepdim;
    int32_t whole;   /* no list of dimensions: all */
    tn_tensor *grad; /* sizes before the reduction */
} reduction;

static reduction reduction_of(tn_scope *s, tni_grad *g, tn_tensor *grad, tn_value dims, int32_t keepdim)
{
    reduction r = {.self = tni_grad_meta(g, 0, 0), .keepdim = keepdim};
    r.whole = dims.tag != TN_TAG_INTS || r.self.rank == 0;
    r.dims = tni_rule_dims(dims, r.self.rank);
    r.grad = tni_rule_restore(s, grad, r.dims, r.self.rank, keepdim);
    return r;
}

/* ---- sums and means ---- */

void grad_sum(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 0, 0);
    tni_grad_set(g, 0, spread(s, tni_grad_out(g, 0), &m));
}

void grad_sum_dim(tn_scope *s, tni_grad *g)
{
    reduction r = reduction_of(s, g, tni_grad_out(g, 0), tni_grad_arg(g, 1), bool_arg(g, 2));
    tni_grad_set(g, 0, spread(s, r.grad, &r.self));
}

void grad_nansum(tn_scope *s, tni_grad *g)
{
    reduction r = reduction_of(s, g, tni_grad_out(g, 0), tni_grad_arg(g, 1), bool_arg(g, 2));
    tni_grad_set(g, 0, drop_where(s, tn_isnan(s, tni_grad_saved(g, 0)), spread(s, r.grad, &r.self)));
}

static tn_tensor *mean_gradient(tn_scope *s, const reduction *r)
{
    int64_t n = reduced_count(&r->self, r->dims);
    return tn_div_scalar(s, spread(s, r->grad, &r->self), n);
}

void grad_mean(tn_scope *s, tni_grad *g)
{
    reduction r = reduction_of(s, g, tni_grad_out(g, 0), tn_value_none(), 0);
    tni_grad_set(g, 0, mean_gradient(s, &r));
}

void grad_mean_dim(tn_scope *s, tni_grad *g)
{
    reduction r = reduction_of(s, g, tni_grad_out(g, 0), tni_grad_arg(g, 1), bool_arg(g, 2));
    tni_grad_set(g, 0, mean_gradient(s, &r));
}

void grad_logsumexp(tn_scope *s, tni_grad *g)
{
    int32_t keepdim = bool_arg(g, 2);
    reduction r = reduction_of(s, g, tni_grad_out(g, 0), tni_grad_arg(g, 1), keepdim);
    tn_tensor *result = tni_rule_restore(s, tni_grad_result(g, 0), r.dims, r.self.rank, keepdim);
    tn_tensor *weight = tn_exp(s, sub(s, tni_grad_saved(g, 0), result));
    tni_grad_set(g, 0, mul(s, r.grad, conj_of(s, weight)));
}

/* ---- products: without dividing, so that zeros do no harm ---- */

/* For each element the product of all elements before it along `dim`. */
static tn_tensor *product_before(tn_scope *s, tn_tensor *x, int64_t dim, int64_t n)
{
    tn_tensor *one = tn_ones_like(s, tn_narrow(s, x, dim, 0, 1));
    if (n == 1) return one;
    return tn_cumprod(s, tn_cat(s, TN_TENSORS(one, tn_narrow(s, x, dim, 0, n - 1)), .dim = dim), dim);
}

tn_tensor *tni_rule_product_of_others(tn_scope *s, tn_tensor *x, int64_t dim)
{
    if (!x) return NULL;
    int64_t n = x->desc.sizes[dim];
    if (n == 0) return tn_zeros_like(s, x);
    tn_ints dims = TN_INTS(dim);
    tn_tensor *before = product_before(s, x, dim, n);
    tn_tensor *after = tn_flip(s, product_before(s, tn_flip(s, x, dims), dim, n), dims);
    return mul(s, before, after);
}

static tn_tensor *in_dtype(tn_scope *s, tn_tensor *x, const tn_tensor *like)
{
    return x && like && x->desc.dtype != like->desc.dtype ? tn__to_copy(s, x, .dtype = like->desc.dtype) : x;
}

void grad_prod(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 0, 0);
    tn_tensor *grad = tni_grad_out(g, 0), *x = in_dtype(s, tni_grad_saved(g, 0), grad);
    if (m.rank == 0) {
        tni_grad_set(g, 0, grad);
        return;
    }
    tn_tensor *others = tni_rule_product_of_others(s, tn_reshape(s, x, TN_INTS(-1)), 0);
    tni_grad_set(g, 0, mul(s, grad, conj_of(s, tn_reshape(s, others, sizes_of(&m)))));
}

void grad_prod_dim(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0), *x = in_dtype(s, tni_grad_saved(g, 0), grad);
    reduction r = reduction_of(s, g, grad, tni_grad_arg(g, 1), bool_arg(g, 2));
    if (r.self.rank == 0)
        tni_grad_set(g, 0, grad);
    else
        tni_grad_set(g, 0,
                     mul(s, r.grad,
                         conj_of(s, tni_rule_product_of_others(s, x, wrap_dim(int_arg(g, 1), r.self.rank)))));
}

/* ---- extrema: elements that tie share the gradient ---- */

/*
 * Of max, min, median and norms NaN is a value like others. Of amax, amin and aminmax nothing equals it, and
 * the gradient is 0 / 0.
 */
static tn_tensor *matches(tn_scope *s, tn_tensor *self, tn_tensor *value, bool nan)
{
    tn_tensor *same = tn_eq(s, self, value);
    if (!nan) return same;
    return tn_logical_or(s, same, tn_logical_and(s, tn_isnan(s, self), tn_isnan(s, value)));
}

static tn_tensor *share(tn_scope *s, tn_tensor *grad, tn_tensor *mask, uint64_t dims)
{
    if (!grad) return NULL;
    tn_tensor *marks = tn__to_copy(s, mask, .dtype = grad->desc.dtype), *count = marks;
    if (dims) count = tn_sum_dim(s, marks, tni_rule_dim_list(s, dims), .keepdim = 1);
    return mul(s, marks, divide(s, grad, count));
}

static tn_tensor *extremum_gradient(tn_scope *s, tni_grad *g, uint32_t which, tn_value dims, int32_t keepdim,
                                    bool nan)
{
    if (!tni_grad_out(g, which)) return NULL;
    reduction r = reduction_of(s, g, tni_grad_out(g, which), dims, keepdim);
    tn_tensor *value = tni_rule_restore(s, tni_grad_result(g, which), r.dims, r.self.rank, keepdim);
    return share(s, r.grad, matches(s, tni_grad_saved(g, 0), value, nan), r.dims);
}

void grad_amax(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, extremum_gradient(s, g, 0, tni_grad_arg(g, 1), bool_arg(g, 2), false));
}

void grad_amin(tn_scope *s, tni_grad *g)
{
    grad_amax(s, g);
}

void grad_max(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, extremum_gradient(s, g, 0, tn_value_none(), 0, true));
}
void grad_min(tn_scope *s, tni_grad *g)
{
    grad_max(s, g);
}
void grad_median(tn_scope *s, tni_grad *g)
{
    grad_max(s, g);
}

void grad_aminmax(tn_scope *s, tni_grad *g)
{
    tn_value dims = tni_grad_arg(g, 1);
    tn_tensor *low = extremum_gradient(s, g, 0, dims, bool_arg(g, 2), false);
    tn_tensor *high = extremum_gradient(s, g, 1, dims, bool_arg(g, 2), false);
    tni_grad_set(g, 0, low && high ? add(s, low, high) : low ? low : high);
}

/* ---- values picked by position ---- */

static void put_back(tn_scope *s, tni_grad *g, int64_t dim, int32_t keepdim)
{
    tn_tensor *grad = tni_grad_out(g, 0), *index = tni_grad_result(g, 1);
    tni_meta m = tni_grad_meta(g, 0, 0);
    if (m.rank == 0) {
        tni_grad_set(g, 0, grad);
        return;
    }
    if (!keepdim) {
        grad = tn_unsqueeze(s, grad, wrap_dim(dim, m.rank));
        index = tn_unsqueeze(s, index, wrap_dim(dim, m.rank));
    }
    tni_grad_set(g, 0, tn_scatter(s, zeros_arg(s, g, 0, grad), dim, index, grad));
}

void grad_select_values(tn_scope *s, tni_grad *g)
{
    uint32_t at = tni_grad_op(g)->number == TN_OP_KTHVALUE ? 2 : 1;
    put_back(s, g, int_arg(g, at), bool_arg(g, at + 1));
}

void grad_select_values_full(tn_scope *s, tni_grad *g)
{
    put_back(s, g, int_arg(g, tni_grad_op(g)->number == TN_OP_SORT ? 1 : 2), 1);
}

void grad_select_scan_values(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    if (tni_grad_meta(g, 0, 0).rank == 0)
        tni_grad_set(g, 0, grad);
    else
        tni_grad_set(g, 0,
                     tn_scatter_add(s, zeros_arg(s, g, 0, grad), int_arg(g, 1), tni_grad_result(g, 1), grad));
}

/* ---- norms: the subgradient at 0 is 0 ---- */

static tn_tensor *norm_of_small_power(tn_scope *s, tn_tensor *grad, tn_tensor *self, double p,
                                      tn_tensor *norm)
{
    tn_tensor *zero = tn_eq_scalar(s, self, 0), *size = tn_pow_tensor_scalar(s, tn_abs(s, self), p - 1);
    tn_tensor *scaled = mul(s, tn_sgn(s, self), drop_where(s, zero, size));
    if (p < 1) return mul(s, scaled, mul(s, grad, tn_pow_tensor_scalar(s, norm, 1 - p)));
    tn_tensor *factor = divide(s, grad, tn_pow_tensor_scalar(s, norm, p - 1));
    return mul(s, scaled, drop_where(s, tn_eq_scalar(s, norm, 0), factor));
}

static tn_tensor *norm_of_infinity(tn_scope *s, tn_tensor *grad, tn_tensor *self, tn_tensor *norm,
                                   uint64_t dims)
{
    return mul(s, tn_sgn(s, self), share(s, grad, matches(s, tn_abs(s, self), norm, true), dims));
}

tn_tensor *tni_rule_norm(tn_scope *s, tn_tensor *grad, tn_tensor *self, double p, tn_tensor *norm,
                         uint64_t dims)
{
    if (p == 0) return tn_zeros_like(s, self);
    if (p == 1) return mul(s, tn_sgn(s, self), grad);
    if (p == 2) {
        tn_tensor *zero = tn_eq_scalar(s, norm, 0);
        return mul(s, grad, drop_where(s, zero, divide(s, self, norm)));
    }
    if (isinf(p)) return norm_of_infinity(s, grad, self, norm, dims);
    if (p < 2) return norm_of_small_power(s, grad, self, p, norm);
    tn_tensor *scaled = mul(s, self, tn_pow_tensor_scalar(s, tn_abs(s, self), p - 2));
    tn_tensor *factor = divide(s, grad, tn_pow_tensor_scalar(s, norm, p - 1));
    return mul(s, scaled, drop_where(s, tn_eq_scalar(s, norm, 0), factor));
}

void grad_linalg_vector_norm(tn_scope *s, tni_grad *g)
{
    int32_t keepdim = bool_arg(g, 3);
    reduction r = reduction_of(s, g, tni_grad_out(g, 0), tni_grad_arg(g, 2), keepdim);
    tn_tensor *norm = tni_rule_restore(s, tni_grad_result(g, 0), r.dims, r.self.rank, keepdim);
    tn_tensor *self = tni_grad_saved(g, 0);
    tn_value dtype = tni_grad_arg(g, 4);
    if (dtype.tag == TN_TAG_DTYPE) self = tn__to_copy(s, self, .dtype = (tn_dtype)dtype.as.i);
    tni_grad_set(g, 0, tni_rule_norm(s, r.grad, self, tn_value_as_float(tni_grad_arg(g, 1)), norm, r.dims));
}

/* ---- moments ---- */

static tn_tensor *var_gradient(tn_scope *s, const reduction *r, tn_tensor *grad, tn_tensor *self,
                               double correction)
{
    tn_tensor *mean = r->self.rank ? tn_mean_dim(s, self, tni_rule_dim_list(s, r->dims), .keepdim = 1) : self;
    double freedom = (double)reduced_count(&r->self, r->dims) - correction;
    tn_tensor *deviation = sub(s, self, mean);
    if (freedom > 0 || !r->whole) return mul(s, scale(s, grad, 2 / freedom), deviation);
    tn_tensor *same = tn_eq_scalar(s, deviation, 0);
    tn_tensor *factor = tn_where_scalar(s, same, (double)NAN, (double)INFINITY);
    return mul(s, grad, in_dtype(s, factor, grad));
}

static double correction_of(const tni_grad *g)
{
    tn_value v = tni_grad_arg(g, 2);
    return v.tag == TN_TAG_NONE ? 1 : tn_value_as_float(v);
}

/* grad / (2 std), with 0 where the deviation is 0 */
static tn_tensor *std_to_var(tn_scope *s, tn_tensor *grad, tn_tensor *std)
{
    return drop_where(s, tn_eq_scalar(s, std, 0), divide(s, grad, scale(s, std, 2)));
}

void grad_var(tn_scope *s, tni_grad *g)
{
    reduction r = reduction_of(s, g, tni_grad_out(g, 0), tni_grad_arg(g, 1), bool_arg(g, 3));
    tni_grad_set(g, 0, var_gradient(s, &r, r.grad, tni_grad_saved(g, 0), correction_of(g)));
}

void grad_std(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = std_to_var(s, tni_grad_out(g, 0), tni_grad_result(g, 0));
    reduction r = reduction_of(s, g, grad, tni_grad_arg(g, 1), bool_arg(g, 3));
    tni_grad_set(g, 0, var_gradient(s, &r, r.grad, tni_grad_saved(g, 0), correction_of(g)));
}

static void moments(tn_scope *s, tni_grad *g, tn_tensor *grad_var)
{
    tn_tensor *of_var = NULL, *of_mean = NULL;
    if (grad_var) {
        reduction r = reduction_of(s, g, grad_var, tni_grad_arg(g, 1), bool_arg(g, 3));
        of_var = var_gradient(s, &r, r.grad, tni_grad_saved(g, 0), correction_of(g));
    }
    if (tni_grad_out(g, 1)) {
        reduction r = reduction_of(s, g, tni_grad_out(g, 1), tni_grad_arg(g, 1), bool_arg(g, 3));
        of_mean = mean_gradient(s, &r);
    }
    tni_grad_set(g, 0, of_var && of_mean ? add(s, of_var, of_mean) : of_var ? of_var : of_mean);
}

void grad_var_mean(tn_scope *s, tni_grad *g)
{
    moments(s, g, tni_grad_out(g, 0));
}

void grad_std_mean(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    moments(s, g, grad ? std_to_var(s, grad, tni_grad_result(g, 0)) : NULL);
}
