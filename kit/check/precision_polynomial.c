/* SPDX-License-Identifier: Apache-2.0 */
/* The exact orthogonal polynomials, by their recurrences; see precision_functions.h. */
#include "precision_functions.h"

#define SPARE 384 /* bits for what cancels around roots */

/* next = (a x + b) second - c first, where the numbers depend on k. */
typedef void (*recurrence)(long k, mpfr_srcptr x, mpfr_t a, mpfr_t b, long *divisor);

static void run_recurrence(mpfr_t out, mpfr_t *x, mpfr_srcptr second, recurrence step)
{
    long degree = mpfr_nan_p(x[1]) ? 0 : mpfr_get_si(x[1], MPFR_RNDZ), divisor;
    mpfr_t a, b, first, now, t;
    mpfr_inits2(mpfr_get_prec(out) + SPARE, a, b, first, now, t, (mpfr_ptr)0);
    mpfr_set_ui(first, 1, MPFR_RNDN);
    mpfr_set(now, degree == 0 ? first : second, MPFR_RNDN);
    for (long k = 1; k < degree; k++) {
        step(k, x[0], a, b, &divisor);
        mpfr_mul(a, a, now, MPFR_RNDN);
        mpfr_mul(b, b, first, MPFR_RNDN);
        mpfr_swap(first, now);
        mpfr_sub(now, a, b, MPFR_RNDN);
        mpfr_div_si(now, now, divisor, MPFR_RNDN);
    }
    mpfr_set(out, now, MPFR_RNDN);
    mpfr_clears(a, b, first, now, t, (mpfr_ptr)0);
}
static void chebyshev_step(long k, mpfr_srcptr x, mpfr_t a, mpfr_t b, long *divisor)
{
    mpfr_mul_ui(a, x, 2, MPFR_RNDN);
    mpfr_set_ui(b, 1, MPFR_RNDN);
    *divisor = 1;
}
static void hermite_step(long k, mpfr_srcptr x, mpfr_t a, mpfr_t b, long *divisor)
{
    mpfr_mul_ui(a, x, 2, MPFR_RNDN);
    mpfr_set_si(b, 2 * k, MPFR_RNDN);
    *divisor = 1;
}
static void hermite_he_step(long k, mpfr_srcptr x, mpfr_t a, mpfr_t b, long *divisor)
{
    mpfr_set(a, x, MPFR_RNDN);
    mpfr_set_si(b, k, MPFR_RNDN);
    *divisor = 1;
}
static void laguerre_step(long k, mpfr_srcptr x, mpfr_t a, mpfr_t b, long *divisor)
{
    mpfr_si_sub(a, 2 * k + 1, x, MPFR_RNDN);
    mpfr_set_si(b, k, MPFR_RNDN);
    *divisor = k + 1;
}
static void legendre_step(long k, mpfr_srcptr x, mpfr_t a, mpfr_t b, long *divisor)
{
    mpfr_mul_si(a, x, 2 * k + 1, MPFR_RNDN);
    mpfr_set_si(b, k, MPFR_RNDN);
    *divisor = k + 1;
}
/* The polynomial of degree 1 is scale x + shift. */
static void polynomial(mpfr_t out, mpfr_t *x, long scale, long shift, recurrence step)
{
    mpfr_t second;
    mpfr_init2(second, mpfr_get_prec(out) + SPARE);
    mpfr_mul_si(second, x[0], scale, MPFR_RNDN);
    mpfr_add_si(second, second, shift, MPFR_RNDN);
    run_recurrence(out, x, second, step);
    mpfr_clear(second);
}
void exact_chebyshev_t(mpfr_t out, mpfr_t *x, const double *p)
{
    polynomial(out, x, 1, 0, chebyshev_step);
}
void exact_chebyshev_u(mpfr_t out, mpfr_t *x, const double *p)
{
    polynomial(out, x, 2, 0, chebyshev_step);
}
void exact_chebyshev_v(mpfr_t out, mpfr_t *x, const double *p)
{
    polynomial(out, x, 2, -1, chebyshev_step);
}
void exact_chebyshev_w(mpfr_t out, mpfr_t *x, const double *p)
{
    polynomial(out, x, 2, 1, chebyshev_step);
}
void exact_hermite_h(mpfr_t out, mpfr_t *x, const double *p)
{
    polynomial(out, x, 2, 0, hermite_step);
}
void exact_hermite_he(mpfr_t out, mpfr_t *x, const double *p)
{
    polynomial(out, x, 1, 0, hermite_he_step);
}
void exact_laguerre(mpfr_t out, mpfr_t *x, const double *p)
{
    polynomial(out, x, -1, 1, laguerre_step);
}
void exact_legendre(mpfr_t out, mpfr_t *x, const double *p)
{
    polynomial(out, x, 1, 0, legendre_step);
}
