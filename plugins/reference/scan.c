/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans: cumsum and cumprod in the dtype of the result, cummax and cummin with positions. They go by the
 * tensors themselves, line after line along the dimension.
 */
#include "kernels.h"

/* The extremum and its position move to every equal or better element, and to every NaN. */
static int moves_on(int32_t opcode, number best, number next)
{
    if (number_is_nan(next)) return 1;
    if (number_is_nan(best)) return 0;
    int order = number_compare(next, best);
    return opcode == SCAN_MAX ? order >= 0 : order <= 0;
}

static void scan_sum(int32_t opcode, const tn_tensor_desc *t, const tn_tensor_desc *out, int64_t size,
                     int64_t *along, const int64_t *index)
{
    number total = number_in(domain_of(out->dtype), number_int(opcode == SCAN_PROD));
    for (*along = 0; *along < size; ++*along) {
        number next = number_rounded(out->dtype, tensor_load(t, index));
        total = opcode == SCAN_SUM ? number_add(total, next) : number_multiply(total, next);
        tensor_store(out, index, total);
    }
}

static void scan_extremum(int32_t opcode, const tn_tensor_desc *t, const tn_tensor_desc *values,
                          const tn_tensor_desc *positions, int64_t size, int64_t *along, const int64_t *index)
{
    number best = tensor_load(t, index);
    int64_t position = 0;
    for (*along = 0; *along < size; ++*along) {
        number next = tensor_load(t, index);
        if (moves_on(opcode, best, next)) {
            best = next;
            position = *along;
        }
        tensor_store(values, index, best);
        tensor_store(positions, index, number_int(position));
    }
}

int32_t kernel_scan(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_tensor_desc *t = tensor_argument(call, 0), *out = tensor_output(call, 0);
    int64_t dim = tensor_dim(t, tn_value_as_int(call->args[1]));
    int64_t index[TN_MAX_RANK] = {0}, sizes[TN_MAX_RANK] = {0}, size = tensor_size(t, dim);
    if (tensor_numel(t) == 0) return TN_OK;
    for (uint32_t d = 0; d < t->rank; d++) sizes[d] = (int64_t)d == dim ? 1 : t->sizes[d];
    do {
        if (opcode == SCAN_SUM || opcode == SCAN_PROD)
            scan_sum(opcode, t, out, size, &index[dim], index);
        else
            scan_extremum(opcode, t, out, tensor_output(call, 1), size, &index[dim], index);
        index[dim] = 0;
    } while (tensor_next(t->rank, sizes, index));
    return TN_OK;
}
