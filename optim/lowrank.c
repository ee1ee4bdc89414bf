/* SPDX-License-Identifier: Apache-2.0 */
/* Approximate factors of matrices and extreme eigenvalues; see lowrank.h. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tenon/lowrank.h>

static int64_t size_of(const tn_tensor *t, int64_t back)
{
    int64_t dim = tn_tensor_rank(t) - back;
    return dim >= 0 ? tn_tensor_sizes(t)[dim] : 1;
}

static tn_tensor *adjoint(tn_scope *s, tn_tensor *t)
{
    return tn_adjoint(s, t);
}

static int32_t fail(tn_scope *s, const char *format, long long a, long long b)
{
    char text[256];
    snprintf(text, sizeof text, format, a, b);
    return tn_scope_fail(s, TN_E_ARGUMENT, text);
}

/* Options of a program that was built with other fields than these. */
static int32_t read_options(tn_scope *s, void *to, uint32_t size, const void *options)
{
    uint32_t given = 0;
    if (options) memcpy(&given, options, sizeof given);
    if (given < 16 || given > size)
        return fail(s, "options: size %lld is unknown (expected at most %lld)", given, size);
    memset(to, 0, size);
    memcpy(to, options, given);
    return TN_OK;
}

static int32_t is_matrix(tn_scope *s, const tn_tensor *a, const char *who)
{
    char text[128];
    if (a && tn_tensor_rank(a) >= 2 &&
        (tn_dtype_is_floating(tn_tensor_dtype(a)) || tn_dtype_is_complex(tn_tensor_dtype(a))))
        return 1;
    snprintf(text, sizeof text, "%s: expected a matrix of a floating or complex dtype", who);
    if (!tn_scope_failed(s)) tn_scope_fail(s, TN_E_ARGUMENT, text);
    return 0;
}

/* ---- Low rank ---------------------------------------------------------------------------------------------- */

static tn_tensor *orthonormal(tn_scope *s, tn_tensor *t)
{
    return tn_linalg_qr(s, t).Q;
}

/* An orthonormal basis of about the range of a. */
static tn_tensor *range_of(tn_scope *s, tn_tensor *a, int64_t q, int64_t niter)
{
    tn_tensor *basis =
        tn_randn(s, TN_INTS(size_of(a, 1), q), .dtype = tn_tensor_dtype(a), .device = tn_tensor_device(a));
    basis = orthonormal(s, tn_matmul(s, a, basis));
    for (int64_t i = 0; i < niter && !tn_scope_failed(s); i++) {
        basis = orthonormal(s, tn_matmul(s, adjoint(s, a), basis));
        basis = orthonormal(s, tn_matmul(s, a, basis));
    }
    return basis;
}

static tn_low_rank factors(tn_scope *s, tn_tensor *a, int64_t q, int64_t niter)
{
    int32_t is_wide = size_of(a, 2) < size_of(a, 1);
    if (is_wide) a = adjoint(s, a);
    tn_tensor *basis = range_of(s, a, q, niter);
    tn_linalg_svd_result r = tn_linalg_svd(s, tn_matmul(s, adjoint(s, basis), a), .full_matrices = 0);
    tn_tensor *u = tn_matmul(s, basis, r.U), *v = adjoint(s, r.Vh);
    if (tn_scope_failed(s)) return (tn_low_rank){0};
    return (tn_low_rank){is_wide ? v : u, r.S, is_wide ? u : v};
}

/* Checks q and niter; q without a value becomes the smaller of `otherwise` and the sizes. */
static int32_t check_low_rank(tn_scope *s, const tn_tensor *a, tn_low_rank_options *o, int64_t otherwise)
{
    int64_t rows = size_of(a, 2), columns = size_of(a, 1), least = rows < columns ? rows : columns;
    if (o->q == TN_NONE) o->q = otherwise < least ? otherwise : least;
    if (o->q < 0 || o->q > least)
        return fail(s, "q(=%lld) must be non-negative integer and not greater than min(m, n)=%lld", o->q,
                    least);
    if (o->niter < 0) return fail(s, "niter(=%lld) must be non-negative integer", o->niter, 0);
    return TN_OK;
}

tn_low_rank tn_svd_lowrank_with(tn_scope *s, tn_tensor *a, const tn_low_rank_options *options)
{
    tn_low_rank_options o;
    if (!is_matrix(s, a, "svd_lowrank") || read_options(s, &o, sizeof o, options) ||
        check_low_rank(s, a, &o, 6))
        return (tn_low_rank){0};
    if (o.mean) a = tn_sub(s, a, o.mean);
    return a ? factors(s, a, o.q, o.niter) : (tn_low_rank){0};
}

tn_low_rank tn_pca_lowrank_with(tn_scope *s, tn_tensor *a, const tn_low_rank_options *options)
{
    tn_low_rank_options o;
    if (!is_matrix(s, a, "pca_lowrank") || read_options(s, &o, sizeof o, options) ||
        check_low_rank(s, a, &o, 6))
        return (tn_low_rank){0};
    if (o.center) a = tn_sub(s, a, tn_mean_dim(s, a, TN_INTS(-2), .keepdim = 1));
    return a ? factors(s, a, o.q, o.niter) : (tn_low_rank){0};
}

/* ---- Eigenvalues -------------------------------------------------------------------------------------------- */

/* One matrix. Tensors belong to the scope. */
typedef struct problem {
    tn_scope *s;
    tn_tensor *a, *b, *ik;
    int64_t k;
    int32_t largest;
    double tol, norm_a, norm_b;
    tn_tensor *values, *x, *p; /* the approximation, and the last direction or NULL */
} problem;

static tn_tensor *times_b(const problem *p, tn_tensor *t)
{
    return p->b ? tn_mm(p->s, p->b, t) : t;
}

/* An orthonormal basis of the columns in the product of b. The columns may be nearly dependent: the first factorization
 * replaces them by any orthonormal ones. */
static tn_tensor *basis_of(const problem *p, tn_tensor *columns)
{
    tn_tensor *q = orthonormal(p->s, columns);
    if (!p->b) return q;
    tn_tensor *gram = tn_mm(p->s, adjoint(p->s, q), times_b(p, q));
    return tn_linalg_solve_triangular(p->s, adjoint(p->s, tn_linalg_cholesky(p->s, gram)), q, 1, .left = 0);
}

/* The best approximation within the range of an orthonormal basis (Rayleigh and Ritz). */
static void approximate(problem *p, tn_tensor *basis, int64_t columns)
{
    tn_scope *s = p->s;
    tn_linalg_eigh_result r = tn_linalg_eigh(s, tn_mm(s, adjoint(s, basis), tn_mm(s, p->a, basis)));
    if (!r.eigenvalues) return;
    tn_tensor *values = r.eigenvalues, *vectors = r.eigenvectors;
    if (p->largest) {
        values = tn_flip(s, values, TN_INTS(0));
        vectors = tn_flip(s, vectors, TN_INTS(1));
    }
    tn_tensor *before = p->x;
    p->values = tn_narrow(s, values, 0, 0, columns);
    p->x = tn_mm(s, basis, tn_narrow(s, vectors, 1, 0, columns));
    /* the new direction is what the old approximation lacks */
    p->p = before ? tn_sub(s, p->x, tn_mm(s, before, tn_mm(s, adjoint(s, before), times_b(p, p->x)))) : NULL;
}

static int32_t has_converged(const problem *p, tn_tensor *residual)
{
    tn_scope *s = p->s;
    tn_tensor *norms = tn_linalg_vector_norm(s, tn_narrow(s, residual, 1, 0, p->k), .dim = TN_INTS(0));
    tn_tensor *scale = tn_add_scalar(
        s, tn_mul_scalar(s, tn_abs(s, tn_narrow(s, p->values, 0, 0, p->k)), p->norm_b), p->norm_a);
    return tn_item_double(s, tn_max(s, tn_div(s, norms, scale))) <= p->tol;
}

/* Returns the number of iterations. */
static int64_t iterate(problem *p, tn_tensor *x, int64_t niter)
{
    tn_scope *s = p->s;
    int64_t columns = size_of(x, 1), i = 0;
    approximate(p, basis_of(p, x), columns);
    for (; (niter < 0 || i < niter) && !tn_scope_failed(s); i++) {
        tn_tensor *residual = tn_sub(s, tn_mm(s, p->a, p->x), tn_mul(s, times_b(p, p->x), p->values));
        if (has_converged(p, residual)) break;
        tn_tensor *parts[3] = {p->x, p->ik ? tn_mm(s, p->ik, residual) : residual, p->p};
        approximate(p, basis_of(p, tn_cat(s, (tn_tensors){parts, p->p ? 3 : 2}, .dim = 1)), columns);
    }
    return i;
}

static double norm_of(tn_scope *s, tn_tensor *t)
{
    return tn_item_double(s, tn_linalg_vector_norm(s, t));
}

static double epsilon_of(tn_dtype dtype)
{
    return dtype == TN_FLOAT64 || dtype == TN_COMPLEX128 ? DBL_EPSILON : FLT_EPSILON;
}

/* Matrix i of a batch, or the only one. */
static tn_tensor *matrix_at(tn_scope *s, tn_tensor *t, int64_t i)
{
    if (!t || tn_tensor_rank(t) == 2) return t;
    return tn_select(s, tn_reshape(s, t, TN_INTS(-1, size_of(t, 2), size_of(t, 1))), 0, i);
}

/* x^H (A - value B) x changes as the value does, to the first order: this is where eigenvalues get their gradient. */
static tn_tensor *with_gradient(tn_scope *s, tn_tensor *a, tn_tensor *b, tn_tensor *values, tn_tensor *x)
{
    tn_tensor *form = tn_mul(s, tn_conj(s, x), tn_matmul(s, a, x));
    if (b)
        form = tn_sub(s, form,
                      tn_mul(s, tn_mul(s, tn_conj(s, x), tn_matmul(s, b, x)), tn_unsqueeze(s, values, -2)));
    form = tn_sum_dim(s, form, TN_INTS(-2));
    if (tn_dtype_is_complex(tn_tensor_dtype(a))) form = tn_real(s, form);
    return form ? tn_add(s, values, tn_sub(s, form, tn_detach(s, form))) : NULL;
}

static int32_t check_lobpcg(tn_scope *s, const tn_tensor *a, tn_lobpcg_options *o)
{
    int64_t rows = size_of(a, 2), columns = o->x ? size_of(o->x, 1) : o->n;
    if (size_of(a, 1) != rows)
        return fail(s, "lobpcg: expected a square matrix (got %lldx%lld)", rows, size_of(a, 1));
    if (!o->k) o->k = columns ? columns : 1;
    o->n = columns ? columns : o->k;
    if (o->k < 1 || o->k > o->n)
        return fail(s, "lobpcg: option 'k': expected 1 to %lld (got %lld)", o->n, o->k);
    if (rows < 3 * o->n)
        return fail(
            s,
            "LPBPCG algorithm is not applicable when the number of A rows (=%lld) is smaller than 3 x the "
            "number of requested eigenpairs (=%lld)",
            rows, o->n);
    if (o->tol == 0) o->tol = epsilon_of(tn_tensor_dtype(a));
    return TN_OK;
}

/* The pairs of all matrices, without gradients. */
static tn_eigenpairs solve(tn_scope *s, tn_tensor *a, const tn_lobpcg_options *o)
{
    int64_t rows = size_of(a, 2), count = tn_tensor_numel(a) / (rows * rows), most = 0;
    tn_tensor **values = tn_scope_memory(s, 2 * (uint64_t)(count + 1) * sizeof *values),
              **vectors = values + count;
    for (int64_t i = 0; i < count && values && !tn_scope_failed(s); i++) {
        problem p = {.s = s,
                     .a = matrix_at(s, a, i),
                     .b = matrix_at(s, o->b, i),
                     .ik = matrix_at(s, o->ik, i),
                     .k = o->k,
                     .largest = o->largest,
                     .tol = o->tol};
        tn_tensor *x = matrix_at(s, o->x, i);
        if (!x)
            x = tn_randn(s, TN_INTS(rows, o->n), .dtype = tn_tensor_dtype(a), .device = tn_tensor_device(a));
        p.norm_a = norm_of(s, p.a);
        p.norm_b = p.b ? norm_of(s, p.b) : sqrt((double)rows);
        int64_t iterations = iterate(&p, x, o->niter);
        if (iterations > most) most = iterations;
        values[i] = tn_narrow(s, p.values, 0, 0, o->k);
        vectors[i] = tn_narrow(s, p.x, 1, 0, o->k);
    }
    if (tn_scope_failed(s)) return (tn_eigenpairs){0};
    if (o->out_iterations) *o->out_iterations = most;
    if (tn_tensor_rank(a) == 2) return (tn_eigenpairs){values[0], vectors[0]};
    int64_t size[TN_MAX_RANK], rank = tn_tensor_rank(a);
    memcpy(size, tn_tensor_sizes(a), (size_t)rank * sizeof *size);
    size[rank - 1] = o->k;
    tn_tensor *all = tn_reshape(s, tn_stack(s, (tn_tensors){vectors, count}), (tn_ints){size, rank});
    size[rank - 2] = o->k;
    return (tn_eigenpairs){tn_reshape(s, tn_stack(s, (tn_tensors){values, count}), (tn_ints){size, rank - 1}),
                           all};
}

tn_eigenpairs tn_lobpcg_with(tn_scope *s, tn_tensor *a, const tn_lobpcg_options *options)
{
    tn_lobpcg_options o;
    if (!is_matrix(s, a, "lobpcg") || read_options(s, &o, sizeof o, options) || check_lobpcg(s, a, &o))
        return (tn_eigenpairs){0};
    uint32_t mode = tn_set_grad_mode(TN_GRAD_OFF);
    tn_eigenpairs e = solve(s, a, &o);
    tn_set_grad_mode(mode);
    if (e.values && mode == TN_GRAD_ON) e.values = with_gradient(s, a, o.b, e.values, e.vectors);
    return e.values ? e : (tn_eigenpairs){0};
}
