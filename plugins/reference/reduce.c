/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions to a value walk the nest: its first dimensions are those of the result, the others are reduced.
 * Reductions to a position (argmax, argmin) walk the tensor itself in row-major order.
 */
#include "kernels.h"

static number first_value(int32_t opcode, domain d, number first)
{
    switch (opcode) {
    case REDUCE_PROD:
        return number_in(d, number_int(1));
    case REDUCE_ANY:
        return number_bool(0);
    case REDUCE_ALL:
        return number_bool(1);
    case REDUCE_AMAX:
    case REDUCE_AMIN:
        return first;
    default:
        return number_in(d, number_int(0));
    }
}

static number combine(int32_t opcode, number so_far, number next)
{
    switch (opcode) {
    case REDUCE_PROD:
        return number_multiply(so_far, next);
    case REDUCE_AMAX:
        return number_larger(so_far, next);
    case REDUCE_AMIN:
        return number_smaller(so_far, next);
    case REDUCE_ANY:
        return number_bool(so_far.i || !number_is_zero(next));
    case REDUCE_ALL:
        return number_bool(so_far.i && !number_is_zero(next));
    default:
        return number_add(so_far, next);
    }
}

/* Sums and products are taken of elements cast to the dtype of the result. */
static number load_for(int32_t opcode, const tn_nest *nest, const int64_t *index)
{
    number value = nest_load(nest, 1, index);
    int casts = opcode == REDUCE_SUM || opcode == REDUCE_PROD || opcode == REDUCE_MEAN;
    return casts ? number_rounded(nest->operands[0].dtype, value) : value;
}

int32_t kernel_reduce(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_nest *nest = call->nest;
    uint32_t kept = nest->kept, reduced = nest->rank - kept;
    domain d = domain_of(nest->operands[0].dtype);
    int64_t index[TN_MAX_RANK] = {0};
    do {
        number total = first_value(opcode, d, nest_load(nest, 1, index));
        double count = 0;
        do {
            total = combine(opcode, total, load_for(opcode, nest, index));
            count += 1;
        } while (nest_next(reduced, nest->sizes + kept, index + kept));
        if (opcode == REDUCE_MEAN) {
            total.re /= count;
            total.im /= count;
        }
        nest_store(nest, 0, index, total);
    } while (nest_next(kept, nest->sizes, index));
    return TN_OK;
}

/* 1 when `next` takes the place of `best`: strictly better, or the first NaN. */
static int is_better(int32_t opcode, number best, number next)
{
    if (number_is_nan(best)) return 0;
    if (number_is_nan(next)) return 1;
    int order = number_compare(next, best);
    return opcode == POSITION_MAX ? order > 0 : order < 0;
}

/* Position of the best element along `dim` from `index` on, in which that dimension is 0; all of it for dim
 * -1. */
static int64_t best_position(int32_t opcode, const tn_tensor_desc *t, int64_t dim, int64_t *index)
{
    number best = tensor_load(t, index);
    int64_t position = 0, at = 0;
    for (;;) {
        number next = tensor_load(t, index);
        if (is_better(opcode, best, next)) {
            best = next;
            position = at;
        }
        at++;
        if (dim < 0 ? !tensor_next(t->rank, t->sizes, index) : ++index[dim] == t->sizes[dim]) break;
    }
    if (dim >= 0) index[dim] = 0;
    return position;
}

/* argmax(Tensor self, int? dim=None, bool keepdim=False) and argmin. */
int32_t kernel_position(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_tensor_desc *t = tensor_argument(call, 0), *out = tensor_output(call, 0);
    int64_t index[TN_MAX_RANK] = {0}, target[TN_MAX_RANK] = {0}, sizes[TN_MAX_RANK];
    if (call->args[1].tag == TN_TAG_NONE || t->rank == 0) {
        tensor_store(out, target, number_int(best_position(opcode, t, -1, index)));
        return TN_OK;
    }
    int64_t dim = tensor_dim(t, tn_value_as_int(call->args[1]));
    for (uint32_t d = 0; d < t->rank; d++) sizes[d] = (int64_t)d == dim ? 1 : t->sizes[d];
    do {
        for (uint32_t d = 0, to = 0; d < t->rank; d++)
            if ((int64_t)d != dim || out->rank == t->rank) target[to++] = index[d];
        tensor_store(out, target, number_int(best_position(opcode, t, dim, index)));
    } while (tensor_next(t->rank, sizes, index));
    return TN_OK;
}
