/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between tensors of any strides, and the row-major stand-ins of contiguous.h. It looks at bytes, not at
 * dtypes. */
#include "contiguous.h"
#include "copy/copy.h"
#include <string.h>

void tni_copy(const tn_call *call, const tensor *from, const tensor *to)
{
    tensor source = *from;
    source.dtype = to->dtype;
    source.flags = to->flags;
    (void)cpu_copy_tensor(call, to,
                          &source); /* elements that are as wide as each other always can be copied */
}

/* A row-major description of the stand-in. */
static tensor stand_in(const tni_dense *d, int64_t strides[TN_MAX_RANK])
{
    tensor t = *d->tensor;
    int64_t stride = 1;
    for (uint32_t i = t.rank; i-- > 0;) {
        strides[i] = stride;
        stride *= t.sizes[i];
    }
    t.strides = strides;
    t.host = d->memory;
    return t;
}

int32_t tni_dense_write(const tn_call *call, const tensor *t, tni_dense *out)
{
    *out = (tni_dense){.call = call, .tensor = t, .data = t ? t->host : NULL};
    if (!t || tensor_is_contiguous(t)) return TN_OK;
    out->bytes = tensor_numel(t) * tn_dtype_bytes(t->dtype);
    out->data = out->memory = tni_scratch(call, out->bytes);
    return out->memory ? TN_OK : TN_E_OUT_OF_MEMORY;
}

int32_t tni_dense_read(const tn_call *call, const tensor *t, tni_dense *out)
{
    int64_t strides[TN_MAX_RANK];
    int32_t status = tni_dense_write(call, t, out);
    if (status == TN_OK && out->memory) {
        tensor copy = stand_in(out, strides);
        tni_copy(call, t, &copy);
    }
    return status;
}

void tni_dense_finish(tni_dense *d, bool written)
{
    int64_t strides[TN_MAX_RANK];
    if (d->memory && written) {
        tensor copy = stand_in(d, strides);
        tni_copy(d->call, &copy, d->tensor);
    }
    if (d->memory) tni_scratch_free(d->call, d->memory, d->bytes);
    *d = (tni_dense){0};
}
