/* SPDX-License-Identifier: Apache-2.0 */
/* prim::fill, prim::copy and prim::iota: any strides, any dtypes, lazily conjugated and negated tensors. */
#include "kernels.h"

int32_t kernel_fill(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_tensor_desc *out = tensor_output(call, 0);
    number value = number_of_value(call->args[1]);
    int64_t index[TN_MAX_RANK] = {0};
    if (tensor_numel(out) == 0) return TN_OK;
    do tensor_store(out, index, value);
    while (tensor_next(out->rank, out->sizes, index));
    return TN_OK;
}

/* The index into a source that is broadcast: aligned to the right, 0 where its size is 1. */
static void broadcast_index(const tn_tensor_desc *out, const int64_t *index, const tn_tensor_desc *source,
                            int64_t *out_index)
{
    for (uint32_t d = 0; d < source->rank; d++)
        out_index[d] = source->sizes[d] == 1 ? 0 : index[out->rank - source->rank + d];
}

/* Loading and storing keeps a number of one dtype without lazy bits, but perhaps not a NaN's payload. */
int32_t kernel_copy(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_tensor_desc *out = tensor_output(call, 0), *source = tensor_argument(call, 1);
    int64_t index[TN_MAX_RANK] = {0}, from[TN_MAX_RANK] = {0};
    if (source->rank > out->rank)
        return reference_fail(failure, TN_E_SHAPE, "the source has more dimensions than the target");
    if (tensor_numel(out) == 0) return TN_OK;
    do {
        broadcast_index(out, index, source, from);
        tensor_move(out, index, source, from);
    } while (tensor_next(out->rank, out->sizes, index));
    return TN_OK;
}

/* Integers stay integers; otherwise the types of start and step decide how the sum is computed. */
int32_t kernel_iota(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_tensor_desc *out = tensor_output(call, 0);
    number start = number_of_value(call->args[1]), step = number_of_value(call->args[2]);
    int64_t index[TN_MAX_RANK] = {0}, i = 0;
    if (tensor_numel(out) == 0) return TN_OK;
    do tensor_store(out, index, number_add(start, number_multiply(number_int(i++), step)));
    while (tensor_next(out->rank, out->sizes, index));
    return TN_OK;
}
