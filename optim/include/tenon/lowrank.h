/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Approximate factors of large matrices by random projections, and the extreme eigenvalues of symmetric matrices. The
 * functions have the names, options and defaults of PyTorch's. Random numbers come from the default generator.
 *
 *     tn_low_rank usv = tn_svd_lowrank(s, a, .q = 8);
 *     tn_eigenpairs e = tn_lobpcg(s, a, .k = 3, .largest = 0);
 */
#ifndef TENON_LOWRANK_H
#define TENON_LOWRANK_H

#include <tenon/program.h>

#ifndef TN_PLUGIN
TN_BEGIN_DECLS

/* a is about u diag(s) v^H, with q columns in u and v. All are NULL on failure. */
typedef struct tn_low_rank {
    tn_tensor *u, *s, *v;
} tn_low_rank;

typedef struct tn_low_rank_options {
    uint32_t options_size TN_OPTION(sizeof(struct tn_low_rank_options));
    int32_t center TN_OPTION(); /* tn_pca_lowrank: subtract the mean of each column */
    const struct tn_options_have_names *options_have_names
    TN_OPTION();                /* unused: `.q = 8`; one without its name does not compile */
    int64_t q TN_OPTION(6);     /* the rank of the result; TN_NONE: 6, or the smaller size of the matrix */
    int64_t niter TN_OPTION(2); /* iterations, of two products with the matrix each */
    TN_NULLABLE tn_tensor *mean TN_OPTION(); /* tn_svd_lowrank: is subtracted from the matrix; PyTorch's M */
} tn_low_rank_options;

/* The factors of a matrix, or of each of a batch, by N. Halko, P. G. Martinsson and J. A. Tropp, "Finding structure with
 * randomness" (2009). They have gradients. */
TN_API tn_low_rank tn_svd_lowrank_with(tn_scope *s, tn_tensor *a, const tn_low_rank_options *options);
#ifdef __cplusplus
/* tn_svd_lowrank(s, a, {.q = 8}) from C++20 on. */
static inline tn_low_rank tn_svd_lowrank(tn_scope *s, tn_tensor *a, const tn_low_rank_options &o = {})
{
    return tn_svd_lowrank_with(s, a, &o);
}
#else
#define tn_svd_lowrank(s, a, ...)                                                                 \
    TN_OPTIONS_LISTS_ARE_TN_INTS_SCALARS_ARE_TN_SCALAR(TN_OPTIONS_HAVE_NAMES(tn_svd_lowrank_with( \
        s, a,                                                                                     \
        &(tn_low_rank_options){                                                                   \
            .options_size = sizeof(tn_low_rank_options), .q = 6, .niter = 2, __VA_ARGS__})))
#endif
/* Principal components: the same of a matrix whose rows are samples. */
TN_API tn_low_rank tn_pca_lowrank_with(tn_scope *s, tn_tensor *a, const tn_low_rank_options *options);
#ifdef __cplusplus
static inline tn_low_rank_options tn_pca_lowrank_defaults()
{
    tn_low_rank_options o;
    o.center = 1;
    o.q = TN_NONE;
    return o;
}
/* The options of tn_pca_lowrank are changes of tn_pca_lowrank_defaults(). */
static inline tn_low_rank tn_pca_lowrank(tn_scope *s, tn_tensor *a,
                                         const tn_low_rank_options &o = tn_pca_lowrank_defaults())
{
    return tn_pca_lowrank_with(s, a, &o);
}
#else
#define tn_pca_lowrank(s, a, ...)                                                               \
    TN_OPTIONS_LISTS_ARE_TN_INTS_SCALARS_ARE_TN_SCALAR(TN_OPTIONS_HAVE_NAMES(                   \
        tn_pca_lowrank_with(s, a,                                                               \
                            &(tn_low_rank_options){.options_size = sizeof(tn_low_rank_options), \
                                                   .center = 1,                                 \
                                                   .q = TN_NONE,                                \
                                                   .niter = 2,                                  \
                                                   __VA_ARGS__})))
#endif

/* A x = x diag(values), or A x = B x diag(values). Both are NULL on failure. */
typedef struct tn_eigenpairs {
    tn_tensor *values;  /* [..., k], from the largest down, or from the smallest up */
    tn_tensor *vectors; /* [..., n, k], orthonormal (with b: x^H b x is the identity) */
} tn_eigenpairs;

typedef struct tn_lobpcg_options {
    uint32_t options_size TN_OPTION(sizeof(struct tn_lobpcg_options));
    int32_t largest TN_OPTION(1);                                       /* 0: the smallest eigenvalues */
    const struct tn_options_have_names *options_have_names TN_OPTION(); /* unused */
    int64_t k TN_OPTION();                /* number of pairs; 0: the columns of x, or 1 */
    int64_t n TN_OPTION();                /* columns of the iteration, at least k; 0: k */
    int64_t niter TN_OPTION(1000);        /* at most so many iterations; -1: until they converge */
    double tol TN_OPTION();               /* of residuals, relative to A and B; 0: the epsilon of the dtype */
    TN_NULLABLE tn_tensor *b TN_OPTION(); /* positive definite; NULL: the identity */
    TN_NULLABLE tn_tensor *x TN_OPTION(); /* where to begin; NULL: random */
    TN_NULLABLE tn_tensor *ik
    TN_OPTION(); /* an approximate inverse of A, which preconditions; NULL: the identity */
    int64_t *out_iterations
    TN_OPTION(); /* receives the number of iterations (of a batch, the most); NULL: not wanted */
} tn_lobpcg_options;

/*
 * The k largest or smallest eigenvalues of a symmetric or Hermitian matrix, or of each of a batch, by A. V. Knyazev,
 * "Toward the optimal preconditioned eigensolver" (2001). The matrix has at least 3 n rows. Eigenvalues have a gradient
 * for A and B, vectors have none.
 */
TN_API tn_eigenpairs tn_lobpcg_with(tn_scope *s, tn_tensor *a, const tn_lobpcg_options *options);
#ifdef __cplusplus
static inline tn_eigenpairs tn_lobpcg(tn_scope *s, tn_tensor *a, const tn_lobpcg_options &o = {})
{
    return tn_lobpcg_with(s, a, &o);
}
#else
#define tn_lobpcg(s, a, ...)                                                                 \
    TN_OPTIONS_LISTS_ARE_TN_INTS_SCALARS_ARE_TN_SCALAR(TN_OPTIONS_HAVE_NAMES(tn_lobpcg_with( \
        s, a,                                                                                \
        &(tn_lobpcg_options){                                                                \
            .options_size = sizeof(tn_lobpcg_options), .largest = 1, .niter = 1000, __VA_ARGS__})))
#endif

/* The error of a failed call says where the program made it, as place.h does it. */
#if !defined(TN_NO_PLACES) && !defined(__cplusplus)
#define tn_svd_lowrank_with(...) TN_PLACED_IN(tn_svd_lowrank_with, __VA_ARGS__)
#define tn_pca_lowrank_with(...) TN_PLACED_IN(tn_pca_lowrank_with, __VA_ARGS__)
#define tn_lobpcg_with(...)      TN_PLACED_IN(tn_lobpcg_with, __VA_ARGS__)
#endif

TN_END_DECLS
#endif
#endif
