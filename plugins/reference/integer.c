/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise operators on integers and bool: 64 bits, which wrap; storing keeps the low bits. Operators that
 * have no integer result are computed as real numbers.
 */
#include "kernels.h"

static int64_t add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t subtract(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t multiply(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* Quotient and remainder, towards zero or (floored) towards minus infinity. b is not 0. */
static void divide(domain d, int64_t a, int64_t b, int floored, int64_t *out_quotient, int64_t *out_rest)
{
    if (d == DOMAIN_UNSIGNED) {
        *out_quotient = (int64_t)((uint64_t)a / (uint64_t)b);
        *out_rest = (int64_t)((uint64_t)a % (uint64_t)b);
        return;
    }
    *out_quotient = b == -1 ? subtract(0, a) : a / b; /* the least integer divided by -1 wraps */
    *out_rest = b == -1 ? 0 : a % b;
    if (floored && *out_rest != 0 && (*out_rest < 0) != (b < 0)) {
        *out_quotient -= 1;
        *out_rest += b;
    }
}

/* By squaring. A negative exponent gives 0, except for 1 and -1. */
static int64_t power(domain d, int64_t a, int64_t b)
{
    if (d == DOMAIN_SIGNED && b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    int64_t result = 1;
    for (uint64_t n = (uint64_t)b; n; n >>= 1, a = multiply(a, a))
        if (n & 1) result = multiply(result, a);
    return result;
}

static int64_t greatest_divisor(domain d, int64_t a, int64_t b)
{
    uint64_t x = d == DOMAIN_SIGNED && a < 0 ? 0 - (uint64_t)a : (uint64_t)a;
    uint64_t y = d == DOMAIN_SIGNED && b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return (int64_t)x;
}

/* A shift by the width or more, or by a negative number, shifts out all bits. */
static int64_t shift(domain d, int32_t opcode, int64_t a, int64_t b, uint32_t width)
{
    int out = b < 0 || b >= (int64_t)width;
    if (opcode == OP_LEFT_SHIFT) return out ? 0 : (int64_t)((uint64_t)a << b);
    if (d == DOMAIN_UNSIGNED) return out ? 0 : (int64_t)((uint64_t)a >> b);
    return out ? (a < 0 ? -1 : 0) : a >> b;
}

static int unary(int32_t opcode, domain d, int64_t a, const pointwise_parameters *p, int64_t *out)
{
    int is_bool = TN_DTYPE_CODE(p->dtype) == TN_CODE_BOOL, negative = d == DOMAIN_SIGNED && a < 0;
    switch (opcode) {
        GIVES(OP_ABS, negative ? subtract(0, a) : a);
        GIVES(OP_NEG, subtract(0, a));
        GIVES(OP_SGN, negative ? -1 : a != 0);
    case OP_CEIL:
    case OP_FLOOR:
    case OP_TRUNC:
    case OP_ROUND:
        GIVES(OP_CONJ, a);
        GIVES(OP_BITWISE_NOT, is_bool ? a == 0 : ~a);
        GIVES(OP_SIGNBIT, negative);
    case OP_ISNAN:
        GIVES(OP_ISINF, 0);
        GIVES(OP_ISFINITE, 1);
    default:
        return 0;
    }
    return 1;
}

static int compare(int32_t opcode, domain d, int64_t a, int64_t b, int64_t *out)
{
    int order = number_compare((number){d, a, 0, 0}, (number){d, b, 0, 0});
    switch (opcode) {
        GIVES(OP_MAXIMUM, order > 0 ? a : b);
        GIVES(OP_MINIMUM, order < 0 ? a : b);
        GIVES(OP_LT, order < 0);
        GIVES(OP_LE, order <= 0);
        GIVES(OP_GT, order > 0);
        GIVES(OP_GE, order >= 0);
    default:
        return 0;
    }
    return 1;
}

static int binary(int32_t opcode, domain d, int64_t a, int64_t b, const pointwise_parameters *p, int64_t *out)
{
    int64_t alpha = number_in(DOMAIN_SIGNED, p->alpha).i;
    switch (opcode) {
        GIVES(OP_ADD, add(a, multiply(alpha, b)));
        GIVES(OP_SUB, subtract(a, multiply(alpha, b)));
        GIVES(OP_RSUB, subtract(b, multiply(alpha, a)));
        GIVES(OP_MUL, multiply(a, b));
        GIVES(OP_POW, power(d, a, b));
        GIVES(OP_BITWISE_AND, a & b);
        GIVES(OP_BITWISE_OR, a | b);
        GIVES(OP_BITWISE_XOR, a ^ b);
    case OP_LEFT_SHIFT:
        GIVES(OP_RIGHT_SHIFT, shift(d, opcode, a, b, TN_DTYPE_BITS(p->dtype)));
        GIVES(OP_GCD, greatest_divisor(d, a, b));
    default:
        return compare(opcode, d, a, b, out);
    }
    return 1;
}

/* Which result of a division an opcode needs; 0 for other opcodes. */
static int division(int32_t opcode, const pointwise_parameters *p, int *out_floored, int *out_rest)
{
    int rounded = opcode == OP_DIV_MODE && p->rounding;
    *out_floored = opcode == OP_REMAINDER || opcode == OP_FLOOR_DIVIDE || (rounded && p->rounding == 'f');
    *out_rest = opcode == OP_REMAINDER || opcode == OP_FMOD;
    return rounded || opcode == OP_FLOOR_DIVIDE || *out_rest;
}

int32_t pointwise_integer(int32_t opcode, const number *in, const pointwise_parameters *p, number *out,
                          reference_failure *failure)
{
    domain d = in[0].domain;
    int64_t a = in[0].i, b = in[1].i, value, quotient, rest;
    int floored, wants_rest, truth;
    if (division(opcode, p, &floored, &wants_rest)) {
        if (b == 0) return reference_fail(failure, TN_E_ARGUMENT, "ZeroDivisionError");
        divide(d, a, b, floored, &quotient, &rest);
        *out = (number){d, wants_rest ? rest : quotient, 0, 0};
        return TN_OK;
    }
    if (unary(opcode, d, a, p, &value) || binary(opcode, d, a, b, p, &value)) {
        *out = (number){d, value, 0, 0};
        return TN_OK;
    }
    if (pointwise_truth(opcode, a == b, a != 0, b != 0, &truth)) {
        *out = (number){d, truth, 0, 0};
        return TN_OK;
    }
    number real[] = {number_in(DOMAIN_REAL, in[0]), number_in(DOMAIN_REAL, in[1])};
    return pointwise_real(opcode, real, p, out, &(number){0}, failure);
}
