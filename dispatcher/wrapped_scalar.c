/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers where a schema says Tensor: 0-dim tensors of the host that promote like numbers. */
#include "dispatcher/call.h"

/* Numbers keep all their digits until the dtype of the call is known. */
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

tn_tensor *tni_wrapped_scalar_init(tni_wrapped_scalar *n, tni_device *cpu, tn_value scalar)
{
    tn_dtype dtype = dtype_of(scalar);
    n->storage = (tni_storage){.refs = 1,
                               .ctx = cpu->ctx,
                               .device = cpu,
                               .allocation = n->bytes,
                               .host = n->bytes,
                               .bytes = sizeof n->bytes};
    n->tensor.desc = (tn_tensor_desc){.size = sizeof n->tensor.desc,
                                      .flags = TN_DESC_WRAPPED,
                                      .dtype = dtype,
                                      .layout = TN_INTERNED_STRIDED,
                                      .device = cpu->id,
                                      .sizes = n->tensor.inline_dims,
                                      .strides = n->tensor.inline_dims,
                                      .allocation = n->bytes,
                                      .host = n->bytes};
    atomic_init(&n->tensor.refs, 1);
    n->tensor.state = TNI_CONTIGUOUS | TNI_DENSE;
    n->tensor.numel = 1;
    n->tensor.offset = 0;
    n->tensor.storage = &n->storage;
    n->tensor.ctx = cpu->ctx;
    n->tensor.autograd = NULL;
    n->tensor.base = NULL;
    n->tensor.dims = n->tensor.inline_dims;
    tni_scalar_store(n->bytes, dtype, scalar);
    return &n->tensor;
}
