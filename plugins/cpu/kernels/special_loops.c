/* SPDX-License-Identifier: Apache-2.0 */
/* Loops over the functions of special*.c: pointwise kernels of float64. */
#include "pointwise_ops.h"
#include "special.h"
#include "vocabulary.h"

ALWAYS_INLINE void each(void *const *p, int64_t n, double (*f)(double))
{
    double *o = p[0];
    const double *a = p[1];
    for (int64_t i = 0; i < n; i++) o[i] = f(a[i]);
}
ALWAYS_INLINE void each_two(void *const *p, int64_t n, double (*f)(double, double))
{
    double *o = p[0];
    const double *a = p[1], *b = p[2];
    for (int64_t i = 0; i < n; i++) o[i] = f(a[i], b[i]);
}
static void polygamma(void *const *p, int64_t n, const cpu_scalars *s)
{
    double *o = p[0];
    const double *a = p[1];
    for (int64_t i = 0; i < n; i++) o[i] = special_polygamma(s->f[0], a[i]);
}
static void erfinv(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_erfinv);
}
static void digamma(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_digamma);
}
static void igamma(void *const *p, int64_t n, const cpu_scalars *s)
{
    each_two(p, n, special_igamma);
}
static void igammac(void *const *p, int64_t n, const cpu_scalars *s)
{
    each_two(p, n, special_igammac);
}
static void standard_gamma_grad(void *const *p, int64_t n, const cpu_scalars *s)
{
    each_two(p, n, special_standard_gamma_grad);
}
static void dirichlet_grad(void *const *p, int64_t n, const cpu_scalars *s)
{
    double *o = p[0];
    const double *x = p[1], *alpha = p[2], *total = p[3];
    for (int64_t i = 0; i < n; i++) o[i] = special_dirichlet_grad(x[i], alpha[i], total[i]);
}
static void i0(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_i0);
}
static void i0e(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_i0e);
}
static void i1(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_i1);
}
static void i1e(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_i1e);
}
static void erfcx(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_erfcx);
}
static void ndtr(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_ndtr);
}
static void log_ndtr(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_log_ndtr);
}
static void ndtri(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_ndtri);
}
static void zeta(void *const *p, int64_t n, const cpu_scalars *s)
{
    each_two(p, n, special_zeta);
}
static void airy_ai(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_airy_ai);
}
static void bessel_j0(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_j0);
}
static void bessel_j1(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_j1);
}
static void bessel_y0(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_y0);
}
static void bessel_y1(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_y1);
}
static void modified_bessel_i0(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_i0);
}
static void modified_bessel_i1(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_i1);
}
static void modified_bessel_k0(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_k0);
}
static void modified_bessel_k1(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_k1);
}
static void scaled_modified_bessel_k0(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_scaled_k0);
}
static void scaled_modified_bessel_k1(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_scaled_k1);
}
static void spherical_bessel_j0(void *const *p, int64_t n, const cpu_scalars *s)
{
    each(p, n, special_spherical_j0);
}

extern const cpu_pointwise_entry CPU_NAME(cpu_special_loops)[];
const cpu_pointwise_entry CPU_NAME(cpu_special_loops)[] = {
    {CPU_OP_erfinv, erfinv},
    {CPU_OP_digamma, digamma},
    {CPU_OP_polygamma, polygamma},
    {CPU_OP_igamma, igamma},
    {CPU_OP_igammac, igammac},
    {CPU_OP_standard_gamma_grad, standard_gamma_grad},
    {CPU_OP_dirichlet_grad, dirichlet_grad},
    {CPU_OP_i0, i0},
    {CPU_OP_i0e, i0e},
    {CPU_OP_i1, i1},
    {CPU_OP_i1e, i1e},
    {CPU_OP_erfcx, erfcx},
    {CPU_OP_ndtr, ndtr},
    {CPU_OP_log_ndtr, log_ndtr},
    {CPU_OP_ndtri, ndtri},
    {CPU_OP_zeta, zeta},
    {CPU_OP_airy_ai, airy_ai},
    {CPU_OP_bessel_j0, bessel_j0},
    {CPU_OP_bessel_j1, bessel_j1},
    {CPU_OP_bessel_y0, bessel_y0},
    {CPU_OP_bessel_y1, bessel_y1},
    {CPU_OP_modified_bessel_i0, modified_bessel_i0},
    {CPU_OP_modified_bessel_i1, modified_bessel_i1},
    {CPU_OP_modified_bessel_k0, modified_bessel_k0},
    {CPU_OP_modified_bessel_k1, modified_bessel_k1},
    {CPU_OP_scaled_modified_bessel_k0, scaled_modified_bessel_k0},
    {CPU_OP_scaled_modified_bessel_k1, scaled_modified_bessel_k1},
    {CPU_OP_spherical_bessel_j0, spherical_bessel_j0},
    {0, NULL},
};
