/* SPDX-License-Identifier: Apache-2.0 */
/* Scalars where a schema says Tensor: 0-dim host tensors that promote like scalars. */
#include "dispatcher/call.h"

/* The widest dtype of its kind: a scalar is rounded once, to the dtype of the call. */
static tn_dtype dtype_of(tn_value scalar)
{
    switch (scalar.tag) {
    case TN_TAG_BOOL:
        return TN_BOOL;
    case TN_TAG_INT:
        return TN_INT64;
    case TN_TAG_COMPLEX:
        return TN_COMPLEX128;
    default:
        return TN_FLOAT64;
    }
}

int32_t tni_wrap_scalar(tn_context *ctx, tn_value scalar, tn_tensor **out)
{
    tn_dtype dtype = dtype_of(scalar);
    int32_t status = tni_tensor_create(ctx, TN_CPU, dtype, 0, NULL, NULL, out);
    if (status) return status;
    tni_scalar_store((*out)->desc.host, dtype, scalar);
    (*out)->desc.flags |= TN_DESC_WRAPPED;
    return TN_OK;
}

tn_tensor *tni_wrapped_scalar_init(tni_wrapped_scalar *w, tni_device *cpu, tn_value scalar)
{
    tn_dtype dtype = dtype_of(scalar);
    w->storage = (tni_storage){.refs = 1,
                               .ctx = cpu->ctx,
                               .device = cpu,
                               .allocation = w->bytes,
                               .host = w->bytes,
                               .bytes = sizeof w->bytes};
    w->tensor.desc = (tn_tensor_desc){.size = sizeof w->tensor.desc,
                                      .flags = TN_DESC_WRAPPED,
                                      .dtype = dtype,
                                      .layout = TN_INTERNED_STRIDED,
                                      .device = cpu->id,
                                      .sizes = w->tensor.inline_dims,
                                      .strides = w->tensor.inline_dims,
                                      .allocation = w->bytes,
                                      .host = w->bytes};
    atomic_init(&w->tensor.refs, 1);
    w->tensor.state = TNI_CONTIGUOUS | TNI_DENSE;
    w->tensor.numel = 1;
    w->tensor.offset = 0;
    w->tensor.storage = &w->storage;
    w->tensor.ctx = cpu->ctx;
    w->tensor.autograd = NULL;
    w->tensor.base = NULL;
    w->tensor.dims = w->tensor.inline_dims;
    tni_scalar_store(w->bytes, dtype, scalar);
    return &w->tensor;
}
