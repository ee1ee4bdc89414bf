/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between tensors of any strides, and the row-major stand-ins of contiguous.h. It looks at bytes, not at
 * dtypes. */
#include "contiguous.h"
#include "copy/copy.h"
#include <string.h>

void cpu_copy(const tn_call *call, const tn_tensor_desc *from, const tn_tensor_desc *to)
{
    tn_tensor_desc source = *from;
    source.dtype = to->dtype;
    source.flags = to->flags;
    (void)cpu_copy_tensor(call, to,
                          &source); /* elements that are as wide as each other always can be copied */
}

/* A row-major description of the stand-in. */
static tn_tensor_desc stand_in(const cpu_contiguous *d, int64_t strides[TN_MAX_RANK])
{
    tn_tensor_desc t = *d->tensor;
    int64_t stride = 1;
    for (uint32_t i = t.rank; i-- > 0;) {
        strides[i] = stride;
        stride *= t.sizes[i];
    }
    t.strides = strides;
    t.host = d->memory;
    return t;
}

int32_t cpu_contiguous_write(const tn_call *call, const tn_tensor_desc *t, cpu_contiguous *out)
{
    *out = (cpu_contiguous){.call = call, .tensor = t, .data = t ? t->host : NULL};
    if (!t || cpu_is_contiguous(t)) return TN_OK;
    out->bytes = cpu_numel(t) * tn_dtype_bytes(t->dtype);
    out->data = out->memory = cpu_alloc(call, out->bytes);
    return out->memory ? TN_OK : TN_E_OUT_OF_MEMORY;
}

int32_t cpu_contiguous_read(const tn_call *call, const tn_tensor_desc *t, cpu_contiguous *out)
{
    int64_t strides[TN_MAX_RANK];
    int32_t status = cpu_contiguous_write(call, t, out);
    if (status == TN_OK && out->memory) {
        tn_tensor_desc copy = stand_in(out, strides);
        cpu_copy(call, t, &copy);
    }
    return status;
}

void cpu_contiguous_finish(cpu_contiguous *d, bool written)
{
    int64_t strides[TN_MAX_RANK];
    if (d->memory && written) {
        tn_tensor_desc copy = stand_in(d, strides);
        cpu_copy(d->call, &copy, d->tensor);
    }
    if (d->memory) cpu_free(d->call, d->memory, d->bytes);
    *d = (cpu_contiguous){0};
}
