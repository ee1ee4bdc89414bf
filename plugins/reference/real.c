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

/* A truncated quotient is rounded to the dtype before it is cut, as ATen has it: 1 / 0.1 is 10, not 9. */
static double divide(double a, double b, const pointwise_parameters *p)
{
    if (p->rounding == 'f') return floor_divide(a, b);
    return p->rounding == 't' ? trunc(number_rounded(p->dtype, number_real(a / b)).re) : a / b;
}

/* Half to even; with decimals in the precision of the dtype, as scaling rounds there. */
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

/* One operand. 0 when the opcode is none of these. */
static int unary(int32_t opcode, double x, const pointwise_parameters *p, double *out)
{
    switch (opcode) {
    case OP_ABS:
        *out = fabs(x);
        break;
    case OP_NEG:
        *out = -x;
        break;
    case OP_SGN:
        *out = (double)((x > 0) - (x < 0));
        break;
    case OP_CEIL:
        *out = ceil(x);
        break;
    case OP_FLOOR:
        *out = floor(x);
        break;
    case OP_TRUNC:
        *out = trunc(x);
        break;
    case OP_ROUND:
        *out = round_to(x, p);
        break;
    case OP_SQRT:
        *out = sqrt(x);
        break;
    case OP_RSQRT:
        *out = 1 / sqrt(x);
        break;
    case OP_RECIPROCAL:
        *out = 1 / x;
        break;
    case OP_EXP:
        *out = exp(x);
        break;
    case OP_EXP2:
        *out = exp2(x);
        break;
    case OP_EXPM1:
        *out = expm1(x);
        break;
    case OP_LOG:
        *out = log(x);
        break;
    case OP_LOG1P:
        *out = log1p(x);
        break;
    case OP_LOG2:
        *out = log2(x);
        break;
    case OP_LOG10:
        *out = log10(x);
        break;
    case OP_SIN:
        *out = sin(x);
        break;
    case OP_COS:
        *out = cos(x);
        break;
    case OP_TAN:
        *out = tan(x);
        break;
    case OP_ASIN:
        *out = asin(x);
        break;
    case OP_ACOS:
        *out = acos(x);
        break;
    case OP_ATAN:
        *out = atan(x);
        break;
    case OP_SINH:
        *out = sinh(x);
        break;
    case OP_COSH:
        *out = cosh(x);
        break;
    case OP_TANH:
        *out = tanh(x);
        break;
    case OP_ASINH:
        *out = asinh(x);
        break;
    case OP_ACOSH:
        *out = acosh(x);
        break;
    case OP_ATANH:
        *out = atanh(x);
        break;
    case OP_SIGMOID:
        *out = 1 / (1 + exp(-x));
        break;
    case OP_ERF:
        *out = erf(x);
        break;
    case OP_ERFC:
        *out = erfc(x);
        break;
    case OP_ERFINV:
        *out = special_erfinv(x);
        break;
    case OP_LGAMMA:
        *out = special_lgamma(x);
        break;
    case OP_DIGAMMA:
        *out = special_digamma(x);
        break;
    case OP_POLYGAMMA:
        *out = special_polygamma(p->integer, x);
        break;
    case OP_I0:
        *out = special_i0(x);
        break;
    case OP_CONJ:
        *out = x;
        break;
    default:
        return 0;
    }
    return 1;
}

static int binary(int32_t opcode, double a, double b, const pointwise_parameters *p, double *out)
{
    double alpha = number_in(DOMAIN_REAL, p->alpha).re;
    switch (opcode) {
    case OP_ADD:
        *out = a + alpha * b;
        break;
    case OP_SUB:
        *out = a - alpha * b;
        break;
    case OP_RSUB:
        *out = b - alpha * a;
        break;
    case OP_MUL:
        *out = a * b;
        break;
    case OP_DIV:
    case OP_DIV_MODE:
        *out = divide(a, b, p);
        break;
    case OP_FLOOR_DIVIDE:
        *out = floor_divide(a, b);
        break;
    case OP_REMAINDER:
        *out = modulo(a, b);
        break;
    case OP_FMOD:
        *out = fmod(a, b);
        break;
    case OP_POW:
        *out = pow(a, b);
        break;
    case OP_POW_NUMBER:
        *out = pow(a, alpha);
        break;
    case OP_NUMBER_POW:
        *out = pow(alpha, a);
        break;
    case OP_ATAN2:
        *out = atan2(a, b);
        break;
    case OP_MAXIMUM:
        *out = larger(a, b);
        break;
    case OP_MINIMUM:
        *out = smaller(a, b);
        break;
    case OP_NEXTAFTER:
        *out = element_next_after(p->dtype, a, b);
        break;
    case OP_IGAMMA:
        *out = special_igamma(a, b);
        break;
    case OP_IGAMMAC:
        *out = special_igammac(a, b);
        break;
    default:
        return 0;
    }
    return 1;
}

static int truth(int32_t opcode, double a, double b, int *out)
{
    switch (opcode) {
    case OP_EQ:
        *out = a == b;
        break;
    case OP_NE:
        *out = a != b;
        break;
    case OP_LT:
        *out = a < b;
        break;
    case OP_LE:
        *out = a <= b;
        break;
    case OP_GT:
        *out = a > b;
        break;
    case OP_GE:
        *out = a >= b;
        break;
    case OP_SIGNBIT:
        *out = signbit(a) != 0;
        break;
    case OP_ISNAN:
        *out = isnan(a);
        break;
    case OP_ISINF:
        *out = isinf(a) != 0;
        break;
    case OP_ISFINITE:
        *out = isfinite(a);
        break;
    case OP_LOGICAL_NOT:
        *out = a == 0;
        break;
    case OP_LOGICAL_AND:
        *out = a != 0 && b != 0;
        break;
    case OP_LOGICAL_OR:
        *out = a != 0 || b != 0;
        break;
    case OP_LOGICAL_XOR:
        *out = (a != 0) != (b != 0);
        break;
    default:
        return 0;
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
