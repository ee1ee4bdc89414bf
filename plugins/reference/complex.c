/* SPDX-License-Identifier: Apache-2.0 */
/* Pointwise operators on complex numbers, in double complex. */
#include "kernels.h"

#include <complex.h>
#include <math.h>
#include <string.h>

/* x + y * I would lose signed zeros and infinities, so parts are set. */
static double complex make(double re, double im)
{
    double parts[2] = {re, im};
    double complex z;
    memcpy(&z, parts, sizeof(z));
    return z;
}

/* The schoolbook product: what ATen computes, infinities included. */
static double complex multiply(double complex a, double complex b)
{
    return make(creal(a) * creal(b) - cimag(a) * cimag(b), creal(a) * cimag(b) + cimag(a) * creal(b));
}

/* Near 0 the real part is expm1(x) cos(y) - 2 sin^2(y / 2), which does not cancel. */
static double complex exponential_minus_one(double complex z)
{
    double x = creal(z), y = cimag(z), s = sin(y / 2);
    return make(expm1(x) * cos(y) - 2 * s * s, exp(x) * sin(y));
}

static double complex logarithm_of_one_plus(double complex z)
{
    double x = creal(z), y = cimag(z);
    if (isnan(x) || isnan(y)) return make(NAN, NAN);
    double square = x * (x + 2) + y * y; /* |1 + z|^2 - 1 */
    return make(fabs(square) < 0.5 ? 0.5 * log1p(square) : log(hypot(1 + x, y)), atan2(y, 1 + x));
}

static double complex power(double complex a, double complex b)
{
    if (b == 0) return 1;
    if (a == 0 && cimag(b) == 0 && creal(b) > 0) return 0;
    if (b == 2) return multiply(a, a);
    return cpow(a, b);
}

/* Functions of one number. */
static const struct {
    int32_t opcode;
    double complex (*run)(double complex z);
} functions[] = {
    {OP_SQRT, csqrt},
    {OP_EXP, cexp},
    {OP_EXPM1, exponential_minus_one},
    {OP_LOG, clog},
    {OP_LOG1P, logarithm_of_one_plus},
    {OP_SIN, csin},
    {OP_COS, ccos},
    {OP_TAN, ctan},
    {OP_ASIN, casin},
    {OP_ACOS, cacos},
    {OP_ATAN, catan},
    {OP_SINH, csinh},
    {OP_COSH, ccosh},
    {OP_TANH, ctanh},
    {OP_ASINH, casinh},
    {OP_ACOSH, cacosh},
    {OP_ATANH, catanh},
    {OP_CONJ, conj},
};

static int unary(int32_t opcode, double complex z, double complex *out)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (functions[i].opcode != opcode) continue;
        *out = functions[i].run(z);
        return 1;
    }
    switch (opcode) {
        GIVES(OP_ABS, cabs(z));
        GIVES(OP_NEG, -z);
        GIVES(OP_SGN, z == 0 ? 0 : z / cabs(z));
        GIVES(OP_RSQRT, 1 / csqrt(z));
        GIVES(OP_RECIPROCAL, 1 / z);
        GIVES(OP_EXP2, cexp(z * M_LN2));
        GIVES(OP_LOG2, clog(z) / M_LN2);
        GIVES(OP_LOG10, clog(z) / M_LN10);
        GIVES(OP_SIGMOID, 1 / (1 + cexp(-z)));
    default:
        return 0;
    }
    return 1;
}

static int binary(int32_t opcode, double complex a, double complex b, const pointwise_parameters *p,
                  double complex *out)
{
    number n = number_in(DOMAIN_COMPLEX, p->alpha);
    double complex alpha = make(n.re, n.im);
    switch (opcode) {
        GIVES(OP_ADD, a + (alpha == 1 ? b : multiply(alpha, b)));
        GIVES(OP_SUB, a - (alpha == 1 ? b : multiply(alpha, b)));
        GIVES(OP_RSUB, b - (alpha == 1 ? a : multiply(alpha, a)));
        GIVES(OP_MUL, multiply(a, b));
    case OP_DIV:
        GIVES(OP_DIV_MODE, a / b);
        GIVES(OP_POW, power(a, b));
    default:
        return 0;
    }
    return 1;
}

static int truth(int32_t opcode, double complex a, double complex b, int *out)
{
    int has_nan = isnan(creal(a)) || isnan(cimag(a)), has_infinity = isinf(creal(a)) || isinf(cimag(a));
    switch (opcode) {
        GIVES(OP_ISNAN, has_nan);
        GIVES(OP_ISINF, has_infinity);
        GIVES(OP_ISFINITE, !has_nan && !has_infinity);
    default:
        return pointwise_truth(opcode, a == b, a != 0, b != 0, out);
    }
    return 1;
}

int32_t pointwise_complex(int32_t opcode, const number *in, const pointwise_parameters *p, number *out,
                          reference_failure *failure)
{
    double complex a = make(in[0].re, in[0].im), b = make(in[1].re, in[1].im), value;
    int answer;
    if (opcode == OP_DIV_MODE && p->rounding)
        return reference_fail(failure, TN_E_DTYPE, "complex numbers have no rounded quotient");
    if (truth(opcode, a, b, &answer))
        *out = number_bool(answer);
    else if (unary(opcode, a, &value) || binary(opcode, a, b, p, &value))
        *out = number_complex(creal(value), cimag(value));
    else
        return reference_fail(failure, TN_E_DTYPE, "not defined for complex numbers");
    return TN_OK;
}
