/* SPDX-License-Identifier: Apache-2.0 */
/* mm(Tensor self, Tensor mat2) and bmm: the three loops of the definition, sums in the widest type. */
#include "kernels.h"

/* One element of the product: row and column stand in the last two places of the index into the result. */
static number dot(const tn_tensor_desc *a, const tn_tensor_desc *b, const int64_t *index, domain d)
{
    uint32_t rank = a->rank, batches = rank - 2;
    int64_t left[3] = {0}, right[3] = {0}, size = a->sizes[rank - 1];
    number sum = number_in(d, number_int(0));
    if (batches) left[0] = right[0] = index[0];
    left[rank - 2] = index[rank - 2];
    right[rank - 1] = index[rank - 1];
    for (int64_t k = 0; k < size; k++) {
        left[rank - 1] = right[rank - 2] = k;
        sum = number_add(sum, number_multiply(tensor_load(a, left), tensor_load(b, right)));
    }
    return sum;
}

int32_t kernel_matmul(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_tensor_desc *a = tensor_argument(call, 0), *b = tensor_argument(call, 1);
    const tn_tensor_desc *out = tensor_output(call, 0);
    domain d = domain_of_both(domain_of(a->dtype), domain_of(b->dtype));
    int64_t index[TN_MAX_RANK] = {0};
    if (a->rank != b->rank || a->rank < 2 || a->rank > 3 || out->rank != a->rank)
        return reference_fail(failure, TN_E_CONTRACT, "came with %u and %u dimensions", a->rank, b->rank);
    if (tensor_numel(out) == 0) return TN_OK;
    do tensor_store(out, index, dot(a, b, index, d));
    while (tensor_next(out->rank, out->sizes, index));
    return TN_OK;
}
