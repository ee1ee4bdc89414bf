/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: memory, descriptions of outputs, errors with the operator's name, the check of devices. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "core/number_text.h"
#include "dispatcher/frame.h"

void *tni_frame_memory(tni_frame *f, uint64_t bytes)
{
    uint64_t words = (bytes + 7) / 8;
    int64_t *memory = f->arena + f->arena_used;
    if (f->arena_used + words > sizeof f->arena / 8) {
        tni_fail(f, TN_E_INTERNAL, "the call needs more than %zu bytes of shapes", sizeof f->arena);
        return NULL;
    }
    f->arena_used += (uint32_t)words;
    return memory;
}

int32_t tni_out_strided(tni_frame *f, uint32_t i, tn_dtype dtype, uint32_t rank, const int64_t *sizes,
                        const int64_t *strides)
{
    tni_out_meta *m = &f->meta[i];
    int64_t numel;
    int32_t status = tni_numel(rank, sizes, &numel);
    if (status) return status;
    m->defined = 1;
    m->rank = rank;
    m->dtype = dtype;
    m->has_strides = strides != NULL;
    m->sizes = tni_frame_memory(f, rank * 16ull);
    if (!m->sizes) return TN_E_INTERNAL;
    m->strides = m->sizes + rank;
    if (rank) memcpy(m->sizes, sizes, rank * 8ull);
    if (rank && strides) memcpy(m->strides, strides, rank * 8ull);
    return TN_OK;
}

int32_t tni_out(tni_frame *f, uint32_t i, tn_dtype dtype, uint32_t rank, const int64_t *sizes)
{
    return tni_out_strided(f, i, dtype, rank, sizes, NULL);
}

int32_t tni_out_like(tni_frame *f, uint32_t i, const tn_tensor *t, tn_dtype dtype)
{
    int64_t strides[TN_MAX_RANK];
    if (!dtype) dtype = t->desc.dtype;
    if (tni_is_contiguous(t)) return tni_out(f, i, dtype, t->desc.rank, t->desc.sizes);
    tni_preserve_strides(t, t->desc.rank, t->desc.sizes, strides);
    return tni_out_strided(f, i, dtype, t->desc.rank, t->desc.sizes, strides);
}

int32_t tni_fail(const tni_frame *f, int32_t status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    char text[1024];
    tni_vsnprintf(text, sizeof text, format, list);
    va_end(list);
    status = tni_error(status, "%s", text);
    tni_error_operator(tni_op_name(f->op));
    return status;
}

static int32_t check_tensor_device(tni_frame *f, const tn_tensor *t, const tn_tensor **first)
{
    char a[64], b[64];
    if (!*first || ((*first)->desc.rank == 0 && (*first)->desc.device == TN_CPU && t->desc.rank > 0)) {
        *first = t;
        return TN_OK;
    }
    if (t->desc.device == (*first)->desc.device) return TN_OK;
    if (t->desc.rank == 0 && t->desc.device == TN_CPU) return TN_OK;
    if ((*first)->desc.rank == 0 && (*first)->desc.device == TN_CPU) {
        *first = t;
        return TN_OK;
    }
    tn_device_format(f->ctx, (*first)->desc.device, a, sizeof a);
    tn_device_format(f->ctx, t->desc.device, b, sizeof b);
    return tni_fail(
        f, TN_E_DEVICE,
        "Expected all tensors to be on the same device, but found at least two devices, %s and %s!", a, b);
}

int32_t tni_check_devices(tni_frame *f)
{
    const tn_tensor *first = NULL;
    for (uint32_t i = 0; i < f->n_args; i++) {
        const tn_value *v = &f->args[i];
        int32_t status = TN_OK;
        if (v->tag == TN_TAG_TENSOR) {
            status = check_tensor_device(f, v->as.tensor, &first);
        } else if (v->tag == TN_TAG_TENSORS) {
            for (uint32_t k = 0; k < v->count && !status; k++) {
                if (v->as.tensors[k]) status = check_tensor_device(f, v->as.tensors[k], &first);
            }
        }
        if (status) return status;
    }
    f->device = first ? first->desc.device : 0;
    return TN_OK;
}
