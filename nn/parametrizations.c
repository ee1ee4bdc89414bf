/* SPDX-License-Identifier: Apache-2.0 */
/* The parametrisations of torch.nn.utils.parametrizations: weight norm, spectral norm, orthogonal
 * matrices. */
#include "computed.h"

#include <math.h>
#include <string.h>

/* Of a parameter, parametrised or not. */
typedef struct shape {
    int64_t rank, rows, columns; /* rank -1: there is no such parameter */
    tn_dtype dtype;
} shape;

static shape shape_of(tn_module *m, const char *parameter)
{
    shape found = {.rank = -1};
    if (!m || m->tree->status || !parameter) return found;
    tn_scope *s = nn_scope(m);
    const int32_t is_there = nn_computed_find(m, parameter) || tn_module_tensor(m, parameter);
    const tn_tensor *t = is_there ? tn_module_compute(s, m, parameter) : NULL;
    if (t) found = (shape){.rank = tn_tensor_rank(t), .dtype = tn_tensor_dtype(t)};
    if (t && found.rank > 0) found.rows = tn_tensor_size(t, 0);
    if (t && found.rank > 1) found.columns = tn_tensor_size(t, 1);
    tn_scope_close(s);
    return found;
}

/* ---- Weight norm: original0 are the lengths, original1 the direction ---------------------------------- */

static tn_tensor *weight_norm_forward(tn_scope *s, tn_module *zero, tn_tensors originals)
{
    return tn__weight_norm(s, originals.data[1], originals.data[0], .dim = *(const int64_t *)zero->state);
}

static int32_t weight_norm_inverse(tn_scope *s, tn_module *zero, tn_tensor *value, tn_tensor **out)
{
    out[0] = tn_norm_except_dim(s, value, .pow = 2, .dim = *(const int64_t *)zero->state);
    out[1] = value;
    return tn_scope_failed(s);
}

int32_t tn_weight_norm(tn_module *m, const char *parameter, int64_t dim)
{
    static const tn_module_class kind = {
        .size = sizeof kind, .name = "_WeightNorm", .state_bytes = sizeof dim};
    static const tn_parametrization how = {.size = sizeof how,
                                           .class_ = &kind,
                                           .forward = weight_norm_forward,
                                           .right_inverse = weight_norm_inverse};
    return tn_module_parametrize(m, parameter, &how, &dim);
}

/* ---- Spectral norm ------------------------------------------------------------------------------------ */

typedef struct spectral {
    int64_t iterations, dim;
} spectral;

#define SPECTRAL_EPS 1e-12

static tn_tensor *unit(tn_scope *s, tn_tensor *v)
{
    return tn_div(s, v, tn_clamp(s, tn_linalg_vector_norm(s, v), .min = TN_SCALAR(SPECTRAL_EPS)));
}

/* The weight as a matrix, a row for each output. */
static tn_tensor *matrix_of(tn_scope *s, tn_tensor *t, int64_t dim)
{
    if (dim) t = tn_movedim(s, t, dim, 0);
    return tn_flatten(s, t, 1);
}

static void power_method(tn_scope *s, tn_tensor *matrix, tn_tensor *u, tn_tensor *v, int64_t iterations)
{
    for (int64_t i = 0; i < iterations; i++) {
        tn_copy_(s, u, unit(s, tn_mv(s, matrix, v)));
        tn_copy_(s, v, unit(s, tn_mv(s, tn_t(s, matrix), u)));
    }
}

static tn_tensor *spectral_forward(tn_scope *s, tn_module *zero, tn_tensors originals)
{
    const spectral *o = zero->state;
    tn_tensor *weight = originals.data[0];
    if (tn_tensor_rank(weight) == 1) return unit(s, weight);
    tn_tensor *matrix = matrix_of(s, weight, o->dim), *u = tn_module_tensor(zero, "_u"),
              *v = tn_module_tensor(zero, "_v");
    if (zero->is_training) {
        tn_scope *own = nn_without_recording(s);
        power_method(own, tn_detach(own, matrix), u, v, o->iterations);
        tn_scope_close(own);
    }
    /* Copies: the next call changes the buffers before a backward may have read them. */
    tn_tensor *sigma = tn_vdot(s, tn_clone(s, u), tn_mv(s, matrix, tn_clone(s, v)));
    return tn_div(s, weight, sigma);
}

static int32_t spectral_inverse(tn_scope *s, tn_module *zero, tn_tensor *value, tn_tensor **out)
{
    const spectral *o = zero->state;
    out[0] = value;
    if (tn_tensor_rank(value) == 1) return tn_scope_failed(s);
    tn_tensor *matrix = matrix_of(s, value, o->dim);
    tn_tensor *u =
        unit(s, tn_init_normal(s, tn_new_empty(s, matrix, TN_INTS(tn_tensor_size(matrix, 0))), 0, 1, NULL));
    tn_tensor *v =
        unit(s, tn_init_normal(s, tn_new_empty(s, matrix, TN_INTS(tn_tensor_size(matrix, 1))), 0, 1, NULL));
    if (u && v) power_method(s, matrix, u, v, 15);
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    tn_module_add_buffer(zero, "_u", u, 0);
    tn_module_add_buffer(zero, "_v", v, 0);
    return tn_module_failed(zero);
}

int32_t tn_spectral_norm(tn_module *m, const char *parameter, int64_t iterations, int64_t dim)
{
    static const tn_module_class kind = {
        .size = sizeof kind, .name = "_SpectralNorm", .state_bytes = sizeof(spectral)};
    static const tn_parametrization how = {
        .size = sizeof how, .class_ = &kind, .forward = spectral_forward, .right_inverse = spectral_inverse};
    const shape t = shape_of(m, parameter);
    if (m && (iterations < 0 || (t.rank >= 0 && (dim < 0 || dim >= t.rank))))
        return nn_fail(m, TN_E_ARGUMENT,
                       "tn_spectral_norm: argument 'iterations' or 'dim': got %lld and %lld",
                       (long long)iterations, (long long)dim);
    return tn_module_parametrize(m, parameter, &how, &(spectral){iterations ? iterations : 1, dim});
}

/* ---- Orthogonal matrices ------------------------------------------------------------------------------ */

enum { MATRIX_EXP, CAYLEY, HOUSEHOLDER };

static tn_tensor *eye(tn_scope *s, tn_tensor *like, int64_t n)
{
    return tn_eye(s, n, .dtype = tn_tensor_dtype(like), .device = tn_tensor_device(like));
}

/* From n x k numbers, n >= k, an n x k matrix with orthogonal columns. */
static tn_tensor *orthogonal_of(tn_scope *s, tn_tensor *x, int32_t map)
{
    const int64_t n = tn_tensor_size(x, -2), k = tn_tensor_size(x, -1);
    if (map == HOUSEHOLDER) {
        tn_tensor *a = tn_tril(s, x, .diagonal = -1);
        tn_tensor *tau = tn_mul_scalar(
            s, tn_reciprocal(s, tn_add_scalar(s, tn_sum_dim(s, tn_mul(s, a, a), TN_INTS(-2)), TN_SCALAR(1))),
            2);
        tn_tensor *signs = tn_unsqueeze(s, tn_diagonal(s, tn_detach(s, x), .dim1 = -2, .dim2 = -1), -2);
        return tn_mul(s, tn_linalg_householder_product(s, a, tau), tn_trunc(s, signs));
    }
    x = tn_tril(s, x);
    if (n != k) x = tn_cat(s, TN_TENSORS(x, tn_new_zeros(s, x, TN_INTS(n, n - k))), .dim = -1);
    tn_tensor *a = tn_sub(s, x, tn_mh(s, x)), *identity = eye(s, a, n);
    tn_tensor *q = map == MATRIX_EXP ? tn_matrix_exp(s, a)
                                     : tn_linalg_solve(s, tn_add(s, identity, a, .alpha = TN_SCALAR(-0.5)),
                                                       tn_add(s, identity, a, .alpha = TN_SCALAR(0.5)));
    return n != k ? tn_narrow(s, q, -1, 0, k) : q;
}

static tn_tensor *orthogonal_forward(tn_scope *s, tn_module *zero, tn_tensors originals)
{
    const int32_t map = *(const int32_t *)zero->state;
    tn_tensor *x = originals.data[0];
    const int32_t is_wide = tn_tensor_size(x, 0) < tn_tensor_size(x, 1);
    tn_tensor *q = orthogonal_of(s, is_wide ? tn_t(s, x) : x, map), *base = tn_module_tensor(zero, "base");
    if (base) q = tn_mm(s, base, q);
    return is_wide ? tn_t(s, q) : q;
}

/* An orthogonal matrix by QR, with the signs that make the diagonal of R positive. */
static tn_tensor *made_orthogonal(tn_scope *s, tn_tensor *a)
{
    const tn_geqrf_result qr = tn_geqrf(s, a);
    tn_tensor *q = tn_linalg_householder_product(s, qr.a, qr.tau);
    return tn_mul(s, q, tn_unsqueeze(s, tn_sgn(s, tn_diagonal(s, qr.a, .dim1 = -2, .dim2 = -1)), -2));
}

static int32_t is_orthogonal(tn_scope *s, tn_tensor *q)
{
    const int64_t n = tn_tensor_size(q, 0);
    tn_tensor *off = tn_max(s, tn_abs(s, tn_sub(s, tn_mm(s, tn_mh(s, q), q), eye(s, q, n))));
    const double eps =
        tn_tensor_dtype(q) == TN_FLOAT64 || tn_tensor_dtype(q) == TN_COMPLEX128 ? 0x1p-52 : 0x1p-23;
    return tn_item_double(s, off) < 10 * (double)n * eps;
}

/* The orthogonal matrix near the value is the base, an n x n buffer; the originals begin as those of the
 * identity. */
static int32_t orthogonal_inverse(tn_scope *s, tn_module *zero, tn_tensor *value, tn_tensor **out)
{
    const int32_t is_wide = tn_tensor_size(value, 0) < tn_tensor_size(value, 1);
    if (nn_is_chained(zero)) return TN_OK; /* of the value of the one before, without a base */
    tn_tensor *q = is_wide ? tn_t(s, value) : value;
    const int64_t n = tn_tensor_size(q, 0), k = tn_tensor_size(q, 1);
    if (n != k) {
        tn_tensor *rest = tn_init_normal(s, tn_new_empty(s, q, TN_INTS(n, n - k)), 0, 1, NULL);
        q = made_orthogonal(s, tn_cat(s, TN_TENSORS(q, rest), .dim = -1));
    } else {
        q = is_orthogonal(s, q) ? tn_clone(s, q) : made_orthogonal(s, q);
    }
    out[0] = tn_zeros_like(s, value);
    tn_fill_scalar_(s, tn_diagonal(s, out[0]), -1);
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    tn_module_add_buffer(zero, "base", q, 0);
    return tn_module_failed(zero);
}

int32_t tn_orthogonal(tn_module *m, const char *parameter, const char *map)
{
    static const tn_module_class kind = {
        .size = sizeof kind, .name = "_Orthogonal", .state_bytes = sizeof(int32_t)};
    static const tn_parametrization how = {.size = sizeof how,
                                           .class_ = &kind,
                                           .forward = orthogonal_forward,
                                           .right_inverse = orthogonal_inverse};
    static const char *const names[] = {"matrix_exp", "cayley", "householder"};
    const shape t = shape_of(m, parameter);
    const int32_t is_complex = t.rank >= 0 && tn_dtype_is_complex(t.dtype);
    int32_t number = t.rows == t.columns || is_complex ? MATRIX_EXP : HOUSEHOLDER;
    if (map)
        for (number = 0; number < 3 && strcmp(map, names[number]); number++) continue;
    if (m && t.rank >= 0 && t.rank != 2)
        return nn_fail(m, TN_E_SHAPE, "tn_orthogonal: '%s': it must have 2 dimensions", parameter);
    if (m && (number == 3 || (number == HOUSEHOLDER && is_complex)))
        return nn_fail(m, TN_E_ARGUMENT, "tn_orthogonal: argument 'map': got '%s', expected %s", map,
                       is_complex ? "'matrix_exp' or 'cayley' (a complex parameter)"
                                  : "'matrix_exp', 'cayley' or 'householder'");
    return tn_module_parametrize(m, parameter, &how, &number);
}
