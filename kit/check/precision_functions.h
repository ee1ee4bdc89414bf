/* SPDX-License-Identifier: Apache-2.0 */
/* Exact functions of real numbers, each of type precision_real; see precision.h. */
#ifndef TENON_KIT_PRECISION_FUNCTIONS_H
#define TENON_KIT_PRECISION_FUNCTIONS_H

#include "precision.h"

void exact_exp(mpfr_t out, mpfr_t *x, const double *p);
void exact_exp2(mpfr_t out, mpfr_t *x, const double *p);
void exact_expm1(mpfr_t out, mpfr_t *x, const double *p);
void exact_log(mpfr_t out, mpfr_t *x, const double *p);
void exact_log2(mpfr_t out, mpfr_t *x, const double *p);
void exact_log10(mpfr_t out, mpfr_t *x, const double *p);
void exact_log1p(mpfr_t out, mpfr_t *x, const double *p);
void exact_sin(mpfr_t out, mpfr_t *x, const double *p);
void exact_cos(mpfr_t out, mpfr_t *x, const double *p);
void exact_tan(mpfr_t out, mpfr_t *x, const double *p);
void exact_asin(mpfr_t out, mpfr_t *x, const double *p);
void exact_acos(mpfr_t out, mpfr_t *x, const double *p);
void exact_atan(mpfr_t out, mpfr_t *x, const double *p);
void exact_sinh(mpfr_t out, mpfr_t *x, const double *p);
void exact_cosh(mpfr_t out, mpfr_t *x, const double *p);
void exact_tanh(mpfr_t out, mpfr_t *x, const double *p);
void exact_asinh(mpfr_t out, mpfr_t *x, const double *p);
void exact_acosh(mpfr_t out, mpfr_t *x, const double *p);
void exact_atanh(mpfr_t out, mpfr_t *x, const double *p);
void exact_erf(mpfr_t out, mpfr_t *x, const double *p);
void exact_erfc(mpfr_t out, mpfr_t *x, const double *p);
void exact_digamma(mpfr_t out, mpfr_t *x, const double *p);
void exact_sqrt(mpfr_t out, mpfr_t *x, const double *p);
void exact_j0(mpfr_t out, mpfr_t *x, const double *p);
void exact_j1(mpfr_t out, mpfr_t *x, const double *p);
void exact_y0(mpfr_t out, mpfr_t *x, const double *p);
void exact_y1(mpfr_t out, mpfr_t *x, const double *p);
void exact_abs(mpfr_t out, mpfr_t *x, const double *p);
void exact_neg(mpfr_t out, mpfr_t *x, const double *p);
void exact_sqr(mpfr_t out, mpfr_t *x, const double *p);
void exact_add(mpfr_t out, mpfr_t *x, const double *p);
void exact_sub(mpfr_t out, mpfr_t *x, const double *p);
void exact_mul(mpfr_t out, mpfr_t *x, const double *p);
void exact_div(mpfr_t out, mpfr_t *x, const double *p);
void exact_fmod(mpfr_t out, mpfr_t *x, const double *p);
void exact_atan2(mpfr_t out, mpfr_t *x, const double *p);
void exact_hypot(mpfr_t out, mpfr_t *x, const double *p);
void exact_pow(mpfr_t out, mpfr_t *x, const double *p);
void exact_copysign(mpfr_t out, mpfr_t *x, const double *p);
void exact_ceil(mpfr_t out, mpfr_t *x, const double *p);
void exact_floor(mpfr_t out, mpfr_t *x, const double *p);
void exact_trunc(mpfr_t out, mpfr_t *x, const double *p);
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
