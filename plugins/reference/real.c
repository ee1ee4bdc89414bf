/* SPDX-License-Identifier: Apache-2.0 */
/* Pointwise operators on real numbers, in double. */
#include "kernels.h"

#include <math.h>

/* Like Python's %: the sign of the divisor. */
static double modulo(double a, double b)
{
    double m = fmod(a, b);
    return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

/* The largest integer that is not above a / b, found without the rounding of the quotient. */
static double floor_divide(double a, double b)
{
    double rest = fmod(a, b), quotient = round((a - rest) / b);
    if (b == 0) return a / b;
    if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
    return quotient == 0 ? copysign(0, a / b) : quotient;
}

/* A truncated quotient is first rounded to the dtype, as in ATen: 1 / 0.1 gives 10, not 9. */
static double divide(double a, double b, const pointwise_parameters *p)
{
    if (p->rounding == 'f') return floor_divide(a, b);
    return p->rounding == 't' ? trunc(number_rounded(p->dtype, number_real(a / b)).re) : a / b;
}

/* Half to even; with decimals in the dtype's precision, in which the scaling rounds. */
static double round_to(double x, const pointwise_parameters *p)
{
    if (p->integer == 0) return nearbyint(x);
    double scale = pow(10, fabs((double)p->integer));
    if (p->dtype != TN_FLOAT64) {
        float s = (float)scale, f = (float)x;
        return p->integer > 0 ? (double)(nearbyintf(f * s) / s) : (double)(nearbyintf(f / s) * s);
    }
    return p->integer > 0 ? nearbyint(x * scale) / scale : nearbyint(x / scale) * scale;
}

static double larger(double a, double b)
{
    return isnan(a) || isnan(b) ? NAN : a > b ? a : b;
}

static double smaller(double a, double b)
{
    return isnan(a) || isnan(b) ? NAN : a < b ? a : b;
}

/* Functions of one number. */
static const struct {
    int32_t opcode;
    double (*run)(double x);
} functions[] = {
    {OP_ABS, fabs},
    {OP_CEIL, ceil},
    {OP_FLOOR, floor},
    {OP_TRUNC, trunc},
    {OP_SQRT, sqrt},
    {OP_EXP, exp},
    {OP_EXP2, exp2},
    {OP_EXPM1, expm1},
    {OP_LOG, log},
    {OP_LOG1P, log1p},
    {OP_LOG2, log2},
    {OP_LOG10, log10},
    {OP_SIN, sin},
    {OP_COS, cos},
    {OP_TAN, tan},
    {OP_ASIN, asin},
    {OP_ACOS, acos},
    {OP_ATAN, atan},
    {OP_SINH, sinh},
    {OP_COSH, cosh},
    {OP_TANH, tanh},
    {OP_ASINH, asinh},
    {OP_ACOSH, acosh},
    {OP_ATANH, atanh},
    {OP_ERF, erf},
    {OP_ERFC, erfc},
    {OP_ERFINV, special_erfinv},
    {OP_LGAMMA, special_lgamma},
    {OP_DIGAMMA, special_digamma},
    {OP_I0, special_i0},
};

/* Functions of one operand. 0 for other opcodes. */
static int unary(int32_t opcode, double x, const pointwise_parameters *p, double *out)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (functions[i].opcode != opcode) continue;
        *out = functions[i].run(x);
        return 1;
    }
    switch (opcode) {
        GIVES(OP_NEG, -x);
        GIVES(OP_SGN, (double)((x > 0) - (x < 0)));
        GIVES(OP_ROUND, round_to(x, p));
        GIVES(OP_RSQRT, 1 / sqrt(x));
        GIVES(OP_RECIPROCAL, 1 / x);
        GIVES(OP_SIGMOID, 1 / (1 + exp(-x)));
        GIVES(OP_POLYGAMMA, special_polygamma(p->integer, x));
        GIVES(OP_CONJ, x);
    default:
        return 0;
    }
    return 1;
}

static int binary(int32_t opcode, double a, double b, const pointwise_parameters *p, double *out)
{
    double alpha = number_in(DOMAIN_REAL, p->alpha).re;
    switch (opcode) {
        GIVES(OP_ADD, a + alpha * b);
        GIVES(OP_SUB, a - alpha * b);
        GIVES(OP_RSUB, b - alpha * a);
        GIVES(OP_MUL, a * b);
    case OP_DIV:
        GIVES(OP_DIV_MODE, divide(a, b, p));
        GIVES(OP_FLOOR_DIVIDE, floor_divide(a, b));
        GIVES(OP_REMAINDER, modulo(a, b));
        GIVES(OP_FMOD, fmod(a, b));
        GIVES(OP_POW, pow(a, b));
        GIVES(OP_ATAN2, atan2(a, b));
        GIVES(OP_MAXIMUM, larger(a, b));
        GIVES(OP_MINIMUM, smaller(a, b));
        GIVES(OP_NEXTAFTER, element_next_after(p->dtype, a, b));
        GIVES(OP_IGAMMA, special_igamma(a, b));
        GIVES(OP_IGAMMAC, special_igammac(a, b));
    default:
        return 0;
    }
    return 1;
}

static int truth(int32_t opcode, double a, double b, int *out)
{
    switch (opcode) {
        GIVES(OP_LT, a < b);
        GIVES(OP_LE, a <= b);
        GIVES(OP_GT, a > b);
        GIVES(OP_GE, a >= b);
        GIVES(OP_SIGNBIT, signbit(a) != 0);
        GIVES(OP_ISNAN, isnan(a));
        GIVES(OP_ISINF, isinf(a) != 0);
        GIVES(OP_ISFINITE, isfinite(a));
    default:
        return pointwise_truth(opcode, a == b, a != 0, b != 0, out);
    }
    return 1;
}

int32_t pointwise_real(int32_t opcode, const number *in, const pointwise_parameters *p, number *out,
                       number *out_second, reference_failure *failure)
{
    double value;
    int answer;
    if (opcode == OP_FREXP) {
        int exponent = 0;
        *out = number_real(frexp(in[0].re, &exponent));
        *out_second = number_int(isfinite(in[0].re) ? exponent : 0);
    } else if (opcode == OP_COMPLEX) {
        *out = number_complex(in[0].re, in[1].re);
    } else if (truth(opcode, in[0].re, in[1].re, &answer)) {
        *out = number_bool(answer);
    } else if (unary(opcode, in[0].re, p, &value) || binary(opcode, in[0].re, in[1].re, p, &value)) {
        *out = number_real(value);
    } else {
        return reference_fail(failure, TN_E_DTYPE, "not defined for real numbers");
    }
    return TN_OK;
}
