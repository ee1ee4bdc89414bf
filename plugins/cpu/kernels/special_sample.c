/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The derivative of a sample by a parameter of its distribution at a fixed quantile: dx/da = -(dF/da) /
 * (dF/dx), F the distribution function (implicit reparameterisation, Figurnov et al., 2018).
 *
 * dF/da is an integral of the density times (ln t - E ln t), which changes its sign once, at m = exp(E ln t).
 * Of the integrals below and above x the one without that change is taken, so nothing cancels. Both become
 * integrals over (0, inf) that decay, for the exp-sinh rule (Takahasi and Mori, 1974). Below x the power
 * series of F, differentiated term by term, is more exact while all its terms are positive.
 */
#include "special.h"

#define STEP      0.0625
#define FIRST_TAU -3.9 /* z = 1e-17 of the scale */
#define LAST_TAU  3.2  /* z = 2e8 of it */
#define SERIES    1e4  /* parameters from here on would take too many terms */

typedef struct integrand {
    double a, b;     /* parameters */
    double x;        /* where the integral begins */
    double mean_log; /* E ln t */
} integrand;

/* The integral of f over (0, inf). `scale` is where f begins to decay, within some orders of magnitude. */
static double integrate(double (*f)(const integrand *, double), const integrand *p, double scale)
{
    double sum = 0;
    for (double tau = FIRST_TAU; tau <= LAST_TAU; tau += STEP) {
        double z = scale * exp(1.5707963267948966 * sinh(tau));
        double part = f(p, z) * cosh(tau) * z;
        if (part == part) sum += part;
    }
    return sum * 1.5707963267948966 * STEP;
}

/* 1 / (slope + root of the curvature) of the exponent at 0. */
static double scale_of(double slope, double curvature)
{
    double rate = (slope > 0 ? slope : 0) + (curvature > 0 ? sqrt(curvature) : 0);
    return rate > 0 ? 1 / rate : 1;
}

/* ---- Gamma: density t^(a-1) e^-t / Gamma(a) --------------------------------------------------------------
 */

/* t = x e^-y */
static double gamma_below(const integrand *p, double y)
{
    return p->x * exp(-p->a * y - p->x * expm1(-y)) * (p->mean_log - log(p->x) + y);
}

/* t = x + u */
static double gamma_above(const integrand *p, double u)
{
    double grown = log1p(u / p->x);
    return exp((p->a - 1) * grown - u) * (log(p->x) + grown - p->mean_log);
}

/* F = sum over n of x^(a+n) e^-x / Gamma(a+n+1) */
static double gamma_series(double a, double x, double mean)
{
    double sum = 0, term = x / a, log_x = log(x);
    for (double n = 1; n < 1e6; n++) {
        double part = term * (mean - log_x);
        sum += part;
        if (part < sum * 1e-17 && a + n > x) break;
        term *= x / (a + n);
        mean += 1 / (a + n);
    }
    return sum;
}

double special_standard_gamma_grad(double a, double x)
{
    if (!(a > 0) || x != x) return NAN;
    if (x <= 0) return 0;
    integrand p = {.a = a, .x = x, .mean_log = special_digamma(a)};
    if (a < SERIES && log(x) < p.mean_log + 1 / a) return gamma_series(a, x, p.mean_log + 1 / a);
    if (log(x) < p.mean_log) return integrate(gamma_below, &p, scale_of(a - x, x));
    return integrate(gamma_above, &p, scale_of(1 - (a - 1) / x, (a - 1) / (x * x)));
}

/* ---- Beta: density t^(a-1) (1-t)^(b-1) / B(a, b)
 * ----------------------------------------------------------- */

/* t = x e^-y */
static double beta_below(const integrand *p, double y)
{
    double grown = log1p(-p->x * expm1(-y) / (1 - p->x));
    return exp(-p->a * y + (p->b - 1) * grown) * (p->mean_log - log(p->x) + y);
}

/* 1 - t = (1 - x) e^-y */
static double beta_above(const integrand *p, double y)
{
    double grown = log1p(-(1 - p->x) * expm1(-y) / p->x);
    return exp((p->a - 1) * grown - p->b * y) * (log(p->x) + grown - p->mean_log);
}

/* F = sum over n of x^(a+n) (1-x)^b Gamma(a+b+n) / (Gamma(b) Gamma(a+n+1)) */
static double beta_series(double x, double alpha, double total, double mean)
{
    double sum = 0, term = x / alpha, log_x = log(x);
    for (double n = 1; n < 1e6; n++) {
        double part = term * (mean - log_x), ratio = x * (total + n - 1) / (alpha + n);
        sum += part;
        if (part < sum * 1e-17 && ratio < 1) break;
        term *= ratio;
        mean += 1 / (alpha + n) - 1 / (total + n - 1);
    }
    return sum;
}

/*
 * dx/da / (1 - x) for x with the distribution Beta(alpha, total - alpha), of which the gradient of a
 * Dirichlet sample consists.
 */
double special_dirichlet_grad(double x, double alpha, double total)
{
    double beta = total - alpha;
    if (!(alpha > 0) || !(beta > 0) || x != x) return NAN;
    if (x <= 0) return 0;
    integrand p = {
        .a = alpha, .b = beta, .x = x, .mean_log = special_digamma(alpha) - special_digamma(total)};
    double rest = 1 - x, first = p.mean_log + 1 / alpha;
    if (total < SERIES && x < 0.9 && log(x) < first) return beta_series(x, alpha, total, first);
    if (log(x) < p.mean_log) {
        double scale = scale_of(alpha - (beta - 1) * x / rest, (beta - 1) * x / (rest * rest));
        return x / rest * integrate(beta_below, &p, scale);
    }
    return integrate(beta_above, &p, scale_of(beta - (alpha - 1) * rest / x, (alpha - 1) * rest / (x * x)));
}
