/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DLPack, both ways, for memory that the host reads. An exported capsule keeps the storage, not the tensor.
 * An imported tensor shares the other side's memory until its last view ends. Memory that is read-only or
 * misaligned is copied on import, because tensors can be neither.
 */
#include "core/dlpack.h"
#include <string.h>
#include "core/debug.h"
#include "core/dtype.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/transfer.h"

/* ---- Export -------------------------------------------------------------------------------------------- */

typedef struct exported {
    DLManagedTensorVersioned managed; /* first */
    tni_storage *storage;
    uint64_t bytes; /* of this struct */
    int64_t dims[]; /* sizes, then strides */
} exported;

static void delete_exported(DLManagedTensorVersioned *managed)
{
    exported *e = (exported *)managed;
    if (!e) return;
    tni_storage *storage = e->storage;
    tni_free(storage->ctx, e, e->bytes);
    tni_storage_release(storage);
}

static int32_t check_exportable(const tn_tensor *t)
{
    char name[80];
    int32_t status = tni_tensor_check(t);
    if (!status) status = tni_context_check(t->ctx);
    if (status) return status;
    if (!t->storage->device || !t->storage->device->synchronous || t->desc.layout != TN_INTERNED_STRIDED)
        return tni_error(TN_E_UNSUPPORTED,
                         "tn_to_dlpack: memory of %s has no DLPack identity; copy it to the CPU",
                         tn_device_format(t->ctx, t->desc.device, name, sizeof name));
    if (t->desc.flags & TN_DESC_CONJ)
        return tni_error(TN_E_UNSUPPORTED, "Can't export tensors with the conjugate bit set");
    if (t->desc.flags & TN_DESC_NEG)
        return tni_error(TN_E_UNSUPPORTED, "Can't export tensors with the negative bit set");
    if (tni_autograd_state_of(t) & TNI_WANTS_GRAD)
        return tni_error(TN_E_AUTOGRAD, "Can't export tensors that require gradient, use tensor.detach()");
    if (TN_DTYPE_CODE(t->desc.dtype) >= 128)
        return tni_error(TN_E_DTYPE, "tn_to_dlpack: DLPack has no dtype %s",
                         tn_dtype_name(t->desc.dtype) ? tn_dtype_name(t->desc.dtype) : "?");
    return TN_OK;
}

int32_t tn_to_dlpack(tn_tensor *t, DLManagedTensorVersioned **out)
{
    int32_t status = check_exportable(t);
    if (status) return status;
    uint32_t rank = t->desc.rank;
    uint64_t bytes = sizeof(exported) + 2 * rank * sizeof(int64_t);
    exported *e = tni_alloc(t->ctx, bytes);
    if (!e) return TN_E_OUT_OF_MEMORY;
    tni_storage_retain(t->storage);
    e->storage = t->storage;
    e->bytes = bytes;
    memcpy(e->dims, t->dims, 2 * rank * sizeof(int64_t));
    e->managed = (DLManagedTensorVersioned){
        .version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
        .manager_ctx = e,
        .deleter = delete_exported,
        .dl_tensor = {.data = t->numel ? t->desc.host : NULL,
                      .device = {DLPACK_CPU, 0},
                      .ndim = (int32_t)rank,
                      .dtype = {(uint8_t)TN_DTYPE_CODE(t->desc.dtype), (uint8_t)TN_DTYPE_BITS(t->desc.dtype),
                                1},
                      .shape = e->dims,
                      .strides = e->dims + rank},
    };
    *out = &e->managed;
    return TN_OK;
}

/* ---- Import -------------------------------------------------------------------------------------------- */

static void delete_imported(void *user)
{
    DLManagedTensorVersioned *m = user;
    if (m->deleter) m->deleter(m);
}

static int32_t check_importable(const DLManagedTensorVersioned *m)
{
    const DLTensor *d = &m->dl_tensor;
    if (m->version.major != DLPACK_MAJOR_VERSION)
        return tni_error(TN_E_VERSION, "tn_from_dlpack: version %u.%u of DLPack; this library knows 1.x",
                         m->version.major, m->version.minor);
    int32_t type = d->device.device_type;
    if (type != DLPACK_CPU && type != DLPACK_CUDA_HOST && type != DLPACK_ROCM_HOST)
        return tni_error(TN_E_UNSUPPORTED,
                         "tn_from_dlpack: memory of DLPack's device type %d cannot be read here", type);
    if (d->dtype.lanes != 1 || tni_dtype_index(TN_DTYPE(d->dtype.code, d->dtype.bits)) < 0)
        return tni_error(TN_E_DTYPE, "tn_from_dlpack: no dtype for code %u of %u bits in %u lanes",
                         d->dtype.code, d->dtype.bits, d->dtype.lanes);
    if (d->ndim < 0 || d->ndim > TN_MAX_RANK || (d->ndim && !d->shape))
        return tni_error(TN_E_SHAPE, "tn_from_dlpack: %d dimensions", d->ndim);
    return TN_OK;
}

/* Bytes from the first element to the end of the last. */
static int32_t extent_bytes(const DLTensor *d, tn_dtype dtype, uint64_t *out)
{
    int64_t extent, bytes = 0;
    uint32_t rank = (uint32_t)d->ndim;
    int32_t status = tni_numel(rank, d->shape, &extent);
    for (uint32_t i = 0; i < rank && !status && d->strides; i++) {
        if (d->strides[i] < 0)
            status = tni_error(TN_E_UNSUPPORTED, "tn_from_dlpack: negative strides are not supported");
    }
    if (!status && d->strides) status = tni_storage_extent(rank, d->shape, d->strides, &extent);
    if (!status && __builtin_mul_overflow(extent, tn_dtype_bytes(dtype), &bytes))
        status = tni_error(TN_E_SHAPE, "tn_from_dlpack: the sizes are too large");
    if (!status && bytes && !d->data) status = tni_error(TN_E_ARGUMENT, "tn_from_dlpack: data is NULL");
    *out = (uint64_t)bytes;
    return status;
}

static int32_t import_shared(tni_device *device, DLManagedTensorVersioned *m, tn_dtype dtype, uint64_t bytes,
                             void (*deleter)(void *user), tn_tensor **out)
{
    const DLTensor *d = &m->dl_tensor;
    tni_storage *storage;
    char *data = bytes ? (char *)d->data + d->byte_offset : NULL;
    int32_t status = tni_storage_wrap(device, data, bytes, deleter, m, &storage);
    if (status) return status;
    status = tni_tensor_on(storage, dtype, (uint32_t)d->ndim, d->shape, d->strides, 0, out);
    if (status) tni_storage_release(storage);
    return status;
}

static int32_t import_copy(tni_device *device, DLManagedTensorVersioned *m, tn_dtype dtype, uint64_t bytes,
                           tn_tensor **out)
{
    const DLTensor *d = &m->dl_tensor;
    tn_tensor *shared = NULL, *copy = NULL;
    int32_t status = import_shared(device, m, dtype, bytes, NULL, &shared);
    if (!status)
        status = tni_tensor_create(device->ctx, TN_CPU, dtype, (uint32_t)d->ndim, d->shape, NULL, &copy);
    if (!status)
        status = tni_tensor_read(shared, copy->desc.host, (uint64_t)(copy->numel * tn_dtype_bytes(dtype)));
    tn_release(shared);
    if (status) {
        tn_release(copy);
        return status;
    }
    delete_imported(m);
    *out = copy;
    return TN_OK;
}

static int32_t import(tn_context *ctx, DLManagedTensorVersioned *m, tn_tensor **out)
{
    uint64_t bytes = 0;
    tn_dtype dtype = 0;
    int32_t status = check_importable(m);
    if (!status) {
        dtype = TN_DTYPE(m->dl_tensor.dtype.code, m->dl_tensor.dtype.bits);
        status = extent_bytes(&m->dl_tensor, dtype, &bytes);
    }
    tni_device *device = status ? NULL : tni_device_get(ctx, TN_CPU);
    if (!status && !device) status = tn_last_error()->code;
    if (status) {
        delete_imported(m);
        return status;
    }
    uint64_t item = (uint64_t)tn_dtype_bytes(dtype), alignment = tn_dtype_is_complex(dtype) ? item / 2 : item;
    uint64_t address = (uint64_t)(uintptr_t)m->dl_tensor.data + m->dl_tensor.byte_offset;
    if (!(m->flags & DLPACK_FLAG_READ_ONLY) && address % alignment == 0)
        return import_shared(device, m, dtype, bytes, delete_imported, out);
    status = import_copy(device, m, dtype, bytes, out);
    if (status) delete_imported(m);
    return status;
}

tn_tensor *tn_from_dlpack(tn_scope *s, DLManagedTensorVersioned *managed)
{
    tn_tensor *t = NULL;
    if (tn_scope_failed(s)) {
        if (managed) delete_imported(managed);
        return NULL;
    }
    int32_t status =
        managed ? import(s->ctx, managed, &t) : tni_error(TN_E_ARGUMENT, "tn_from_dlpack: no capsule");
    if (!status && s->ctx->flags & TNI_CONTEXT_LEAKS) tni_debug_made(t, "tn_from_dlpack");
    if (!status) return tni_scope_own(s, t);
    tni_scope_record(s, status);
    return NULL;
}
