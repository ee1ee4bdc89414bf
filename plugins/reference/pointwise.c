/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise operators: the nest is walked element by element; operands are brought to the domain that holds
 * them all, and the opcode is applied there. Also the arithmetic that other kernels share.
 */
#include "kernels.h"

#include <string.h>

#define MAX_INPUTS 3

/* ---- Shared arithmetic ------------------------------------------------------------------------------- */

static number apply(int32_t opcode, number a, number b)
{
    domain d = domain_of_both(a.domain, b.domain);
    number in[] = {number_in(d, a), number_in(d, b)}, out = in[0];
    pointwise_parameters p = {.alpha = number_int(1)};
    reference_failure failure;
    if (d == DOMAIN_COMPLEX)
        pointwise_complex(opcode, in, &p, &out, &failure);
    else if (d == DOMAIN_REAL)
        pointwise_real(opcode, in, &p, &out, &(number){0}, &failure);
    else
        pointwise_integer(opcode, in, &p, &out, &failure);
    return out;
}

number number_add(number a, number b)
{
    return apply(OP_ADD, a, b);
}

number number_multiply(number a, number b)
{
    return apply(OP_MUL, a, b);
}

number number_larger(number a, number b)
{
    return apply(OP_MAXIMUM, a, b);
}

number number_smaller(number a, number b)
{
    return apply(OP_MINIMUM, a, b);
}

int pointwise_truth(int32_t opcode, int are_equal, int a, int b, int *out)
{
    switch (opcode) {
        GIVES(OP_EQ, are_equal);
        GIVES(OP_NE, !are_equal);
        GIVES(OP_LOGICAL_NOT, !a);
        GIVES(OP_LOGICAL_AND, a && b);
        GIVES(OP_LOGICAL_OR, a || b);
        GIVES(OP_LOGICAL_XOR, a != b);
    default:
        return 0;
    }
    return 1;
}

/* ---- The kernel -------------------------------------------------------------------------------------- */

static pointwise_parameters read_parameters(const tn_call *call, int32_t opcode, tn_dtype dtype)
{
    pointwise_parameters p = {.dtype = dtype, .alpha = number_int(1)};
    switch (opcode) {
    case OP_ADD:
    case OP_SUB:
    case OP_RSUB:
        p.alpha = call->n_args > 2 ? number_of_value(call->args[2]) : p.alpha;
        break;
    case OP_POW_NUMBER:
        p.alpha = number_of_value(call->args[1]);
        break;
    case OP_NUMBER_POW:
        p.alpha = number_of_value(call->args[0]);
        break;
    case OP_POLYGAMMA:
        p.integer = tn_value_as_int(call->args[0]);
        break;
    case OP_ROUND:
        p.integer = call->n_args > 1 ? tn_value_as_int(call->args[1]) : 0;
        break;
    case OP_DIV_MODE:
        if (call->n_args > 2 && call->args[2].tag == TN_TAG_STRING) p.rounding = call->args[2].as.string[0];
        break;
    default:
        break;
    }
    return p;
}

/* The domain of all inputs except the condition of where; pow with a scalar includes the scalar. */
static domain domain_of_inputs(const tn_nest *nest, int32_t opcode, const pointwise_parameters *p)
{
    domain d = DOMAIN_UNSIGNED;
    for (uint32_t i = nest->n_outputs + (opcode == OP_WHERE); i < nest->n_operands; i++)
        d = domain_of_both(d, domain_of(nest->operands[i].dtype));
    if ((opcode == OP_POW_NUMBER || opcode == OP_NUMBER_POW) && p->alpha.domain >= DOMAIN_REAL)
        d = domain_of_both(d, p->alpha.domain);
    return d;
}

static int32_t compute(int32_t opcode, domain d, const number *in, const pointwise_parameters *p, number *out,
                       number *out_second, reference_failure *failure)
{
    if (opcode == OP_WHERE) {
        *out = number_is_zero(in[0]) ? in[2] : in[1];
        return TN_OK;
    }
    if (opcode == OP_POW_NUMBER || opcode == OP_NUMBER_POW) {
        number scalar = number_in(d, p->alpha);
        number both[] = {opcode == OP_POW_NUMBER ? in[0] : scalar, opcode == OP_POW_NUMBER ? scalar : in[0]};
        return compute(OP_POW, d, both, p, out, out_second, failure);
    }
    if (d == DOMAIN_COMPLEX) return pointwise_complex(opcode, in, p, out, failure);
    if (d == DOMAIN_REAL) return pointwise_real(opcode, in, p, out, out_second, failure);
    return pointwise_integer(opcode, in, p, out, failure);
}

int32_t kernel_pointwise(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_nest *nest = call->nest;
    uint32_t n_inputs = nest->n_operands - nest->n_outputs;
    if (n_inputs == 0 || n_inputs > MAX_INPUTS)
        return reference_fail(failure, TN_E_CONTRACT, "came with %u inputs", n_inputs);
    tn_dtype dtype = nest->operands[nest->n_outputs + (opcode == OP_WHERE)].dtype;
    pointwise_parameters p = read_parameters(call, opcode, dtype);
    domain d = domain_of_inputs(nest, opcode, &p);
    int64_t index[TN_MAX_RANK] = {0};
    int32_t status = TN_OK;
    do {
        number in[MAX_INPUTS], out = number_int(0), second = number_int(0);
        memset(in, 0, sizeof(in));
        for (uint32_t i = 0; i < n_inputs; i++)
            in[i] = number_in(d, nest_load(nest, nest->n_outputs + i, index));
        status = compute(opcode, d, in, &p, &out, &second, failure);
        if (status) break;
        nest_store(nest, 0, index, out);
        if (nest->n_outputs > 1) nest_store(nest, 1, index, second);
    } while (nest_next(nest->rank, nest->sizes, index));
    return status;
}
