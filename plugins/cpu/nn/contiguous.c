/* SPDX-License-Identifier: Apache-2.0 */
/* Contiguous copies of tensors and results. Elements are moved as bytes, whatever their dtype. */
#include "contiguous.h"
#include "copy/copy.h"

void cpu_copy(const tn_call *call, const tn_tensor_desc *from, const tn_tensor_desc *to)
{
    tn_tensor_desc source = *from;
    source.dtype = to->dtype;
    source.flags = to->flags;
    (void)cpu_copy_tensor(call, to, &source); /* copies without conversion cannot fail */
}

/* The tensor with its elements at `data`, contiguous. */
static tn_tensor_desc contiguous_at(const tn_tensor_desc *t, void *data, int64_t strides[TN_MAX_RANK])
{
    tn_tensor_desc copy = *t;
    int64_t stride = 1;
    for (uint32_t i = t->rank; i-- > 0;) {
        strides[i] = stride;
        stride *= t->sizes[i];
    }
    copy.strides = strides;
    copy.host = data;
    return copy;
}

int32_t cpu_contiguous_write(const tn_call *call, const tn_tensor_desc *t, void **out)
{
    *out = t ? t->host : NULL;
    if (!t || cpu_is_contiguous(t)) return TN_OK;
    *out = cpu_scratch(call, (uint64_t)(cpu_numel(t) * tn_dtype_bytes(t->dtype)));
    return *out ? TN_OK : TN_E_OUT_OF_MEMORY;
}

int32_t cpu_contiguous_read(const tn_call *call, const tn_tensor_desc *t, void **out)
{
    int64_t strides[TN_MAX_RANK];
    int32_t status = cpu_contiguous_write(call, t, out);
    if (!status && t && *out != t->host) {
        tn_tensor_desc copy = contiguous_at(t, *out, strides);
        cpu_copy(call, t, &copy);
    }
    return status;
}

int32_t cpu_contiguous_all(const tn_call *call, const tn_tensor_desc *const *tensors, int count,
                           int first_out, void **out)
{
    int32_t status = TN_OK;
    for (int i = 0; i < count && !status; i++)
        status = i < first_out ? cpu_contiguous_read(call, tensors[i], &out[i])
                               : cpu_contiguous_write(call, tensors[i], &out[i]);
    return status;
}

void cpu_contiguous_finish(const tn_call *call, const tn_tensor_desc *t, void *data)
{
    int64_t strides[TN_MAX_RANK];
    if (!t || data == t->host) return;
    tn_tensor_desc copy = contiguous_at(t, data, strides);
    cpu_copy(call, &copy, t);
}
