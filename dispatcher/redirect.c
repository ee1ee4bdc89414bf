/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites that only call another operator with the same arguments: `.Scalar` overloads (the dispatcher
 * wraps a scalar where the other schema says Tensor) and the `_copy` forms of views.
 */
#include <tenon/ops.h>
#include "dispatcher/backend.h"

static tn_value copy_of(tn_scope *s, tn_value v)
{
    tn_tensor **list;
    if (v.tag == TN_TAG_TENSOR)
        return tn_value_tensor(tn_clone(s, v.as.tensor, .memory_format = TN_CONTIGUOUS_FORMAT));
    if (v.tag != TN_TAG_TENSORS) return v;
    list = tn_scope_memory(s, (v.count + 1ull) * sizeof *list);
    for (uint32_t i = 0; list && i < v.count; i++)
        list[i] = tn_clone(s, v.as.tensors[i], .memory_format = TN_CONTIGUOUS_FORMAT);
    return tn_value_tensors(list, v.count);
}

void tni_composite_redirect(tn_scope *s, const tni_op *op, const tn_value *args, tn_value *outs)
{
    uint32_t n = op->n_returns;
    if (tn_scope_call(s, op->entry->calls, args, op->n_args, outs, n)) return;
    if (!(op->tags & TNI_TAG_VIEW_COPY)) return;
    for (uint32_t i = 0; i < n; i++) outs[i] = copy_of(s, outs[i]);
}
