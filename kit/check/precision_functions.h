/* SPDX-License-Identifier: Apache-2.0 */
/* Exact functions of real numbers, each of type precision_real; see precision.h. */
#ifndef TENON_KIT_PRECISION_FUNCTIONS_H
#define TENON_KIT_PRECISION_FUNCTIONS_H

#include "precision.h"

/* What MPFR has under the same name: functions of one number and of two, and those whose results are whole. */
#define MPFR_OF_ONE(X) \
    X(exp)             \
    X(exp2)            \
    X(expm1)           \
    X(log)             \
    X(log2)            \
    X(log10)           \
    X(log1p)           \
    X(sin)             \
    X(cos)             \
    X(tan)             \
    X(asin)            \
    X(acos)            \
    X(atan)            \
    X(sinh)            \
    X(cosh)            \
    X(tanh)            \
    X(asinh)           \
    X(acosh)           \
    X(atanh)           \
    X(erf)             \
    X(erfc)            \
    X(digamma)         \
    X(sqrt)            \
    X(j0)              \
    X(j1)              \
    X(y0)              \
    X(y1)              \
    X(abs)             \
    X(neg)             \
    X(sqr)
#define MPFR_OF_TWO(X) \
    X(add)             \
    X(sub)             \
    X(mul)             \
    X(div)             \
    X(fmod)            \
    X(atan2)           \
    X(hypot)           \
    X(pow)             \
    X(copysign)
#define MPFR_WHOLE(X) \
    X(ceil)           \
    X(floor)          \
    X(trunc)
#define DECLARE_EXACT(name) void exact_##name(mpfr_t out, mpfr_t *x, const double *p);
MPFR_OF_ONE(DECLARE_EXACT)
MPFR_OF_TWO(DECLARE_EXACT)
MPFR_WHOLE(DECLARE_EXACT)

/* precision_reference.c: formulas. */
void exact_round(mpfr_t out, mpfr_t *x, const double *p);
void exact_reciprocal(mpfr_t out, mpfr_t *x, const double *p);
void exact_rsqrt(mpfr_t out, mpfr_t *x, const double *p);
void exact_frac(mpfr_t out, mpfr_t *x, const double *p);
void exact_sign(mpfr_t out, mpfr_t *x, const double *p);
void exact_remainder(mpfr_t out, mpfr_t *x, const double *p);
void exact_maximum(mpfr_t out, mpfr_t *x, const double *p);
void exact_minimum(mpfr_t out, mpfr_t *x, const double *p);
void exact_fmax(mpfr_t out, mpfr_t *x, const double *p);
void exact_fmin(mpfr_t out, mpfr_t *x, const double *p);
void exact_addcmul(mpfr_t out, mpfr_t *x, const double *p);
void exact_addcdiv(mpfr_t out, mpfr_t *x, const double *p);
void exact_lerp(mpfr_t out, mpfr_t *x, const double *p);
void exact_deg2rad(mpfr_t out, mpfr_t *x, const double *p);
void exact_rad2deg(mpfr_t out, mpfr_t *x, const double *p);
void exact_relu(mpfr_t out, mpfr_t *x, const double *p);
void exact_sigmoid(mpfr_t out, mpfr_t *x, const double *p);
void exact_silu(mpfr_t out, mpfr_t *x, const double *p);
void exact_log_sigmoid(mpfr_t out, mpfr_t *x, const double *p);
void exact_softplus(mpfr_t out, mpfr_t *x, const double *p);
void exact_gelu(mpfr_t out, mpfr_t *x, const double *p);
void exact_gelu_tanh(mpfr_t out, mpfr_t *x, const double *p);
void exact_mish(mpfr_t out, mpfr_t *x, const double *p);
void exact_elu(mpfr_t out, mpfr_t *x, const double *p);
void exact_selu(mpfr_t out, mpfr_t *x, const double *p);
void exact_hardsigmoid(mpfr_t out, mpfr_t *x, const double *p);
void exact_hardswish(mpfr_t out, mpfr_t *x, const double *p);
void exact_leaky_relu(mpfr_t out, mpfr_t *x, const double *p);
void exact_softshrink(mpfr_t out, mpfr_t *x, const double *p);
void exact_logit(mpfr_t out, mpfr_t *x, const double *p);
void exact_logaddexp(mpfr_t out, mpfr_t *x, const double *p);
void exact_logaddexp2(mpfr_t out, mpfr_t *x, const double *p);
void exact_xlogy(mpfr_t out, mpfr_t *x, const double *p);
void exact_xlog1py(mpfr_t out, mpfr_t *x, const double *p);
void exact_entr(mpfr_t out, mpfr_t *x, const double *p);
void exact_sinc(mpfr_t out, mpfr_t *x, const double *p);
void exact_spherical_j0(mpfr_t out, mpfr_t *x, const double *p);
void exact_ndtr(mpfr_t out, mpfr_t *x, const double *p);
void exact_chebyshev_t(mpfr_t out, mpfr_t *x, const double *p);
void exact_chebyshev_u(mpfr_t out, mpfr_t *x, const double *p);
void exact_chebyshev_v(mpfr_t out, mpfr_t *x, const double *p);
void exact_chebyshev_w(mpfr_t out, mpfr_t *x, const double *p);
void exact_hermite_h(mpfr_t out, mpfr_t *x, const double *p);
void exact_hermite_he(mpfr_t out, mpfr_t *x, const double *p);
void exact_laguerre(mpfr_t out, mpfr_t *x, const double *p);
void exact_legendre(mpfr_t out, mpfr_t *x, const double *p);

/* precision_special.c: series and iterations. */
void exact_lgamma(mpfr_t out, mpfr_t *x, const double *p);
void exact_polygamma(mpfr_t out, mpfr_t *x, const double *p);
void exact_zeta(mpfr_t out, mpfr_t *x, const double *p);
void exact_igamma(mpfr_t out, mpfr_t *x, const double *p);
void exact_igammac(mpfr_t out, mpfr_t *x, const double *p);
void exact_erfcx(mpfr_t out, mpfr_t *x, const double *p);
void exact_erfinv(mpfr_t out, mpfr_t *x, const double *p);
void exact_ndtri(mpfr_t out, mpfr_t *x, const double *p);
void exact_log_ndtr(mpfr_t out, mpfr_t *x, const double *p);
void exact_i0(mpfr_t out, mpfr_t *x, const double *p);
void exact_i1(mpfr_t out, mpfr_t *x, const double *p);
void exact_i0e(mpfr_t out, mpfr_t *x, const double *p);
void exact_i1e(mpfr_t out, mpfr_t *x, const double *p);
void exact_k0(mpfr_t out, mpfr_t *x, const double *p);
void exact_k1(mpfr_t out, mpfr_t *x, const double *p);
void exact_k0e(mpfr_t out, mpfr_t *x, const double *p);
void exact_k1e(mpfr_t out, mpfr_t *x, const double *p);
void exact_airy(mpfr_t out, mpfr_t *x, const double *p);

#endif
