/* SPDX-License-Identifier: Apache-2.0 */
/* Strided copies between tensors, and the row-major stand-ins of dense.h. It looks at bytes, not at dtypes.
 */
#include "dense.h"
#include <string.h>

typedef struct copy_job {
    const tensor *from, *to;
    int64_t bytes;
} copy_job;

#define COPY_LINE(type) \
    for (int64_t i = 0; i < count; i++) ((type *)to)[i * to_step] = ((const type *)from)[i * from_step]

static void copy_line(const char *from, int64_t from_step, char *to, int64_t to_step, int64_t count,
                      int64_t bytes)
{
    if (from_step == 1 && to_step == 1) {
        memcpy(to, from, (size_t)(count * bytes));
        return;
    }
    switch (bytes) {
    case 1:
        COPY_LINE(uint8_t);
        return;
    case 2:
        COPY_LINE(uint16_t);
        return;
    case 4:
        COPY_LINE(uint32_t);
        return;
    case 8:
        COPY_LINE(uint64_t);
        return;
    default:
        for (int64_t i = 0; i < count; i++)
            memcpy(to + i * to_step * bytes, from + i * from_step * bytes, (size_t)bytes);
    }
}

/* Lines are runs along the last dimension. */
static void copy_lines(void *context, int64_t begin, int64_t end)
{
    const copy_job *job = context;
    const tensor *from = job->from, *to = job->to;
    uint32_t last = to->rank - 1;
    for (int64_t line = begin; line < end; line++) {
        int64_t rest = line, from_at = 0, to_at = 0;
        for (uint32_t i = last; i-- > 0;) {
            int64_t at = rest % to->sizes[i];
            rest /= to->sizes[i];
            from_at += at * from->strides[i];
            to_at += at * to->strides[i];
        }
        copy_line((const char *)from->host + from_at * job->bytes, from->strides[last],
                  (char *)to->host + to_at * job->bytes, to->strides[last], to->sizes[last], job->bytes);
    }
}

void tni_copy(const tn_call *call, const tensor *from, const tensor *to)
{
    copy_job job = {from, to, tn_dtype_bytes(to->dtype)};
    int64_t count = tensor_numel(to);
    if (count == 0) return;
    if (to->rank == 0) {
        memcpy(to->host, from->host, (size_t)job.bytes);
        return;
    }
    tni_for_ranges(call, count / to->sizes[to->rank - 1], grain_for(32768, to->sizes[to->rank - 1]),
                   copy_lines, &job);
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
