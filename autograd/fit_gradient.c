/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts a gradient to the sizes, kind, dtype and device of the tensor that it belongs to: it sums broadcast
 * dimensions, takes the real part for real tensors and casts. So a rule needs no more than its formula.
 */
#include "autograd/graph.h"

#include "core/scope.h"
#include "core/shape.h"

#include <string.h>

#include <tenon/ops.h>

static int32_t can_sum(const tn_tensor *grad, const tni_meta *note)
{
    if (grad->desc.rank < note->rank) return 0;
    uint32_t lead = grad->desc.rank - note->rank;
    for (uint32_t i = 0; i < note->rank; i++) {
        if (note->sizes[i] != 1 && grad->desc.sizes[lead + i] != note->sizes[i]) return 0;
    }
    return 1;
}

static tn_tensor *sum_to_size(tn_scope *s, tn_tensor *grad, const tni_meta *note)
{
    int64_t dims[TN_MAX_RANK], n = 0;
    uint32_t lead = grad->desc.rank - note->rank;
    for (uint32_t i = 0; i < grad->desc.rank; i++) {
        if (i < lead || (note->sizes[i - lead] == 1 && grad->desc.sizes[i] != 1)) dims[n++] = i;
    }
    tn_ints which = {dims, n};
    if (n) grad = tn_sum_dim(s, grad, which, .keepdim = 1);
    return lead ? tn_reshape(s, grad, ((tn_ints){note->sizes ? note->sizes : dims, note->rank})) : grad;
}

/* Numbers without dimensions may be beside tensors of other devices: so may their gradients. */
static tn_tensor *to_device(tn_scope *s, tn_tensor *grad, const tni_meta *note, const tn_node *from,
                            uint32_t i)
{
    char have[64], want[64];
    if (!grad->desc.rank) return tn__to_copy(s, grad, .device = note->device);
    tni_scope_record(s, tni_error(TN_E_AUTOGRAD,
                                  "Function %s returned an invalid gradient at index %u - expected device %s "
                                  "but got %s",
                                  tn_node_name(from), i,
                                  tn_device_format(grad->ctx, note->device, want, sizeof want),
                                  tn_device_format(grad->ctx, grad->desc.device, have, sizeof have)));
    return NULL;
}

tn_tensor *tni_change_gradient(tn_scope *s, tn_tensor *grad, const tni_meta *note, const tn_node *from,
                               uint32_t i)
{
    if (!tni_has_sizes(grad, note)) {
        if (!can_sum(grad, note)) {
            char have[256], want[256];
            tni_scope_record(
                s, tni_error(TN_E_AUTOGRAD,
                             "Function %s returned an invalid gradient at index %u - got %s but expected "
                             "shape compatible with %s",
                             tn_node_name(from), i,
                             tni_shape_text(grad->desc.rank, grad->desc.sizes, have, sizeof have),
                             tni_shape_text(note->rank, note->sizes, want, sizeof want)));
            return NULL;
        }
        grad = sum_to_size(s, grad, note);
        if (tn_scope_failed(s)) return NULL;
    }
    if (tn_dtype_is_complex(grad->desc.dtype) && !tn_dtype_is_complex(note->dtype)) grad = tn_real(s, grad);
    if (grad && grad->desc.dtype != note->dtype) grad = tn__to_copy(s, grad, .dtype = note->dtype);
    if (grad && grad->desc.device != note->device) grad = to_device(s, grad, note, from, i);
    return tn_scope_failed(s) ? NULL : grad;
}
