/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise kernels. The host has promoted and broadcast: the inputs have one dtype, and the nest says where
 * each element lies. Reals are computed in double and rounded when stored; whole numbers have 64 bits and
 * wrap.
 */
#include <math.h>
#include "plugin.h"

#define MAX_INPUTS 3

static int64_t compute_whole(int32_t opcode, int64_t a, int64_t b, int64_t c)
{
    switch (opcode) {
    case ABS:
        return a < 0 ? (int64_t)(0 - (uint64_t)a) : a;
    case NEG:
        return (int64_t)(0 - (uint64_t)a);
    case SGN:
        return (a > 0) - (a < 0);
    case ADD: /* the third argument is alpha */
        return (int64_t)((uint64_t)a + (uint64_t)b * (uint64_t)c);
    case SUB:
        return (int64_t)((uint64_t)a - (uint64_t)b * (uint64_t)c);
    case MUL:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case MAXIMUM:
        return a > b ? a : b;
    case MINIMUM:
        return a < b ? a : b;
    case BITWISE_NOT:
        return ~a;
    case BITWISE_AND:
        return a & b;
    case BITWISE_OR:
        return a | b;
    default: /* BITWISE_XOR */
        return a ^ b;
    }
}

static double compute_real(int32_t opcode, double a, double b, double c)
{
    switch (opcode) {
    case ABS:
        return fabs(a);
    case NEG:
        return -a;
    case SGN:
        return (a > 0) - (a < 0);
    case RSQRT:
        return 1 / sqrt(a);
    case RECIPROCAL:
        return 1 / a;
    case SIGMOID:
        return 1 / (1 + exp(-a));
    case ADD:
        return a + c * b;
    case SUB:
        return a - c * b;
    case MUL:
        return a * b;
    case DIV:
        return a / b;
    case MAXIMUM: /* a NaN wins */
        return isnan(a) || isnan(b) ? NAN : a > b ? a : b;
    default: /* MINIMUM */
        return isnan(a) || isnan(b) ? NAN : a < b ? a : b;
    }
}

/* Opcodes that answer yes or no, for whole numbers and reals. */
static int answer(int32_t opcode, number a, number b)
{
    int less = a.is_real ? a.f < b.f : a.i < b.i, equal = a.is_real ? a.f == b.f : a.i == b.i;
    int greater = a.is_real ? a.f > b.f : a.i > b.i;
    switch (opcode) {
    case EQ:
        return equal;
    case NE:
        return !equal;
    case LT:
        return less;
    case LE:
        return less || equal;
    case GT:
        return greater;
    case GE:
        return greater || equal;
    case LOGICAL_NOT:
        return !is_true(a);
    default: /* ISNAN */
        return is_nan(a);
    }
}

number compute(int32_t opcode, const number *in)
{
    if (opcode == WHERE) return is_true(in[0]) ? in[1] : in[2];
    if (opcode >= EQ) return number_whole(answer(opcode, in[0], in[1]));
    if (!in[0].is_real) return number_whole(compute_whole(opcode, in[0].i, in[1].i, as_whole(in[2])));
    return number_real(compute_real(opcode, in[0].f, in[1].f, as_real(in[2])));
}

/* Inputs stand in the order of the schema, tensors as operands of the nest and numbers as arguments: add has
 * two tensors and alpha, where has three tensors. */
int32_t pointwise(void *self, const tn_call *call)
{
    const computation *c = call->data;
    const tn_nest *nest = call->nest;
    array out = array_of_operand(nest, 0), from[MAX_INPUTS];
    number in[MAX_INPUTS] = {{0}};
    int64_t index[TN_MAX_RANK] = {0};
    uint32_t operand = nest->n_outputs, count = call->n_args < MAX_INPUTS ? call->n_args : MAX_INPUTS;
    for (uint32_t i = 0; i < count; i++) {
        int is_tensor = call->args[i].tag == TN_TAG_TENSOR;
        from[i] = is_tensor ? array_of_operand(nest, operand++) : (array){0};
        if (!is_tensor) in[i] = number_of_value(call->args[i]);
    }
    do {
        for (uint32_t i = 0; i < count; i++)
            if (from[i].data) in[i] = array_get(&from[i], index);
        array_put(&out, index,
                  c->one   ? number_real(c->one(in[0].f))
                  : c->two ? number_real(c->two(in[0].f, in[1].f))
                           : compute(c->opcode, in));
    } while (next_in_nest(nest->rank, nest->sizes, index));
    return TN_OK;
}
