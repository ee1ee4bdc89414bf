/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DLPack, both ways: for memory that the host reads, and for devices whose plugins have tenon.interop. An exported
 * capsule keeps the storage, not the tensor. An imported tensor shares the other side's memory until its last view
 * ends. Host memory that is read-only or misaligned is copied on import, because tensors can be neither.
 */
#include "core/dlpack.h"
#include <string.h>
#include <tenon/interop.h>
#include "core/debug.h"
#include "core/dtype.h"
#include "core/graph.h"
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

static int32_t has_dlpack(const tni_device *d)
{
    return d && (d->synchronous || d->type->driver.interop.dlpack_device);
}

/* DLPack's type and number of a device that has them. */
static int32_t dlpack_device(const tni_device *d, DLDevice *out)
{
    *out = (DLDevice){DLPACK_CPU, 0};
    if (d->synchronous) return TN_OK;
    const tni_driver *driver = &d->type->driver;
    int32_t status =
        driver->interop.dlpack_device(driver->self, d->handle, &out->device_type, &out->device_id);
    return status ? tni_driver_error(d->type, status, "DLPack's name of a device") : TN_OK;
}

static int32_t refuse_device(tn_context *ctx, tn_device device)
{
    char name[80];
    return tni_error(TN_E_UNSUPPORTED,
                     "tn_to_dlpack: memory of %s has no DLPack identity; copy it to the CPU",
                     tn_device_format(ctx, device, name, sizeof name));
}

int32_t tn_device_dlpack(tn_context *ctx, tn_device device, int32_t *out_type, int32_t *out_id)
{
    const tni_device *d = tni_device_get(ctx, device);
    DLDevice name;
    if (!d) return tn_last_error()->code;
    if (!has_dlpack(d)) return refuse_device(ctx, d->id);
    int32_t status = dlpack_device(d, &name);
    if (status) return status;
    *out_type = name.device_type;
    *out_id = name.device_id;
    return TN_OK;
}

static int32_t check_exportable(const tn_tensor *t)
{
    int32_t status = tni_tensor_check(t);
    if (status) return status;
    if (!has_dlpack(t->storage->device) || t->desc.layout != TN_INTERNED_STRIDED)
        return refuse_device(t->ctx, t->desc.device);
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

/* Where the elements are, for the consumer: an address, or the vendor's handle of the allocation and an offset. */
static int32_t fill_data(const tn_tensor *t, DLTensor *out)
{
    const tni_device *d = t->storage->device;
    uint64_t handle = 0;
    int32_t status = TN_OK;
    if (!t->numel) return TN_OK;
    if (d->synchronous) {
        out->data = t->desc.host;
    } else if (t->desc.address) {
        out->data = (void *)(uintptr_t)t->desc.address;
    } else {
        status = tni_native(d, TN_NATIVE_ALLOCATION, t->desc.allocation, &handle);
        out->data = (void *)(uintptr_t)handle;
        out->byte_offset = t->desc.byte_offset;
    }
    return status;
}

/* The consumer's work comes after the tensor's. */
static int32_t order(const tn_tensor *t, const tn_dlpack_options *options)
{
    tni_device *d = t->storage->device;
    if (d->synchronous || options->flags & TN_DLPACK_NO_WAIT) return TN_OK;
    tn_stream *stream = tni_current_stream(d);
    int32_t status = tni_capture_refuse(stream, "tn_to_dlpack");
    if (status) return status;
    return options->flags & TN_DLPACK_STREAM ? tni_native_wait(stream, options->stream)
                                             : tn_stream_synchronize(stream);
}

static int32_t read_options(tn_dlpack_options *to, const tn_dlpack_options *from)
{
    const uint32_t known = TN_DLPACK_STREAM | TN_DLPACK_NO_WAIT | TN_DLPACK_READ_ONLY;
    *to = (tn_dlpack_options){.size = sizeof *to};
    int32_t status = from ? tni_struct_read(to, sizeof *to, from, "tn_dlpack_options") : TN_OK;
    if (status) return status;
    if (to->flags & ~known)
        return tni_error(TN_E_UNKNOWN_FIELD, "tn_to_dlpack_with: unknown flags 0x%x", to->flags & ~known);
    if (to->flags & TN_DLPACK_STREAM && to->flags & TN_DLPACK_NO_WAIT)
        return tni_error(TN_E_ARGUMENT,
                         "tn_to_dlpack_with: TN_DLPACK_STREAM and TN_DLPACK_NO_WAIT exclude each other");
    return TN_OK;
}

int32_t tn_to_dlpack_with(tn_tensor *t, const tn_dlpack_options *given, DLManagedTensorVersioned **out)
{
    tn_dlpack_options options;
    int32_t status = check_exportable(t);
    if (!status) status = read_options(&options, given);
    if (status) return status;
    uint32_t rank = t->desc.rank;
    uint64_t bytes = sizeof(exported) + 2 * rank * sizeof(int64_t);
    exported *e = tni_alloc(t->ctx, bytes);
    if (!e) return TN_E_OUT_OF_MEMORY;
    e->storage = t->storage;
    e->bytes = bytes;
    memcpy(e->dims, t->dims, 2 * rank * sizeof(int64_t));
    e->managed = (DLManagedTensorVersioned){
        .version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
        .manager_ctx = e,
        .deleter = delete_exported,
        .flags = options.flags & TN_DLPACK_READ_ONLY ? DLPACK_FLAG_READ_ONLY : 0,
        .dl_tensor = {.ndim = (int32_t)rank,
                      .dtype = {(uint8_t)TN_DTYPE_CODE(t->desc.dtype), (uint8_t)TN_DTYPE_BITS(t->desc.dtype),
                                1},
                      .shape = e->dims,
                      .strides = e->dims + rank},
    };
    status = dlpack_device(t->storage->device, &e->managed.dl_tensor.device);
    if (!status) status = fill_data(t, &e->managed.dl_tensor);
    if (!status) status = order(t, &options);
    if (status) {
        tni_free(t->ctx, e, bytes);
        return status;
    }
    tni_storage_retain(t->storage);
    *out = &e->managed;
    return TN_OK;
}

int32_t tn_to_dlpack(tn_tensor *t, DLManagedTensorVersioned **out)
{
    return tn_to_dlpack_with(t, NULL, out);
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

/* Over the capsule's memory, whose deleter the storage does not have yet. */
static int32_t import_shared(tni_device *device, DLManagedTensorVersioned *m, tn_dtype dtype, uint64_t bytes,
                             tn_tensor **out)
{
    const DLTensor *d = &m->dl_tensor;
    tni_storage *storage;
    char *data = bytes ? (char *)d->data + d->byte_offset : NULL;
    int32_t status = tni_storage_wrap(device, data, bytes, NULL, m, &storage);
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
    int32_t status = import_shared(device, m, dtype, bytes, &shared);
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

/* ---- Import of memory of other devices ----------------------------------------------------------------- */

/* What an imported storage holds. */
typedef struct imported {
    tni_device *device;
    DLManagedTensorVersioned *managed;
    tn_memory memory;
} imported;

static void end_import(imported *m)
{
    const tni_driver *driver = &m->device->type->driver;
    if (driver->interop.release_memory)
        driver->interop.release_memory(driver->self, m->device->handle, &m->memory);
    tni_free(m->device->ctx, m, sizeof *m);
}

/* The exporter may use the memory again when all streams here have passed. */
static void release_imported(void *user)
{
    imported *m = user;
    DLManagedTensorVersioned *managed = m->managed;
    tni_late_keep(m->device, tni_device_wait(m->device), "waiting to release memory of another library");
    end_import(m);
    delete_imported(managed);
}

static int32_t import_pointer(imported *m, uint64_t bytes)
{
    const DLTensor *d = &m->managed->dl_tensor;
    const tni_driver *driver = &m->device->type->driver;
    m->memory.size = sizeof m->memory;
    int32_t status = driver->interop.import_pointer(driver->self, m->device->handle, d->data,
                                                    d->byte_offset + bytes, &m->memory);
    if (status) return tni_driver_error(m->device->type, status, "memory of another library");
    if (!m->memory.allocation) return tni_no_handle(m->device->type, "interop.import_pointer");
    return TN_OK;
}

/* Kernels load elements of up to 8 bytes at once, which on many devices faults unless the address is a multiple of their size. */
static int32_t check_alignment(const imported *m, tn_dtype dtype)
{
    const uint64_t item = (uint64_t)tn_dtype_bytes(dtype), alignment = item < 8 ? item : 8;
    const uint64_t place =
        (m->memory.address ? m->memory.address : m->memory.offset) + m->managed->dl_tensor.byte_offset;
    if (place % alignment == 0) return TN_OK;
    return tni_error(
        TN_E_UNSUPPORTED,
        "tn_from_dlpack: the memory is not aligned to its elements of %s (got the address 0x%llx, expected "
        "a multiple of %llu); ask its owner for a copy",
        tn_dtype_name(dtype), (unsigned long long)place, (unsigned long long)alignment);
}

static int32_t import_on(tni_device *device, DLManagedTensorVersioned *managed, tn_dtype dtype,
                         uint64_t bytes, tn_tensor **out)
{
    const DLTensor *d = &managed->dl_tensor;
    tni_storage *storage = NULL;
    if (managed->flags & DLPACK_FLAG_READ_ONLY)
        return tni_error(TN_E_UNSUPPORTED,
                         "tn_from_dlpack: the memory is read-only; ask its owner for a copy");
    imported *m = tni_alloc_zeroed(device->ctx, sizeof *m);
    if (!m) return TN_E_OUT_OF_MEMORY;
    m->device = device;
    m->managed = managed;
    int32_t status = import_pointer(m, bytes);
    if (status) {
        tni_free(device->ctx, m, sizeof *m);
        return status;
    }
    status = check_alignment(m, dtype);
    if (status) {
        end_import(m);
        return status;
    }
    tn_memory at = m->memory;
    at.offset += d->byte_offset;
    if (at.address) at.address += d->byte_offset;
    if (at.host) at.host = (char *)at.host + d->byte_offset;
    status = tni_storage_wrap_memory(device, &at, bytes, release_imported, m, &storage);
    if (status) {
        end_import(m);
        return status;
    }
    status = tni_tensor_on(storage, dtype, (uint32_t)d->ndim, d->shape, d->strides, 0, out);
    if (!status) return TN_OK;
    storage->deleter = NULL; /* the caller deletes the capsule */
    end_import(m);
    tni_storage_release(storage);
    return status;
}

/* The next device that DLPack calls so, after *i devices; NULL if there is no more. */
static tni_device *next_device(tn_context *ctx, DLDevice wish, uint32_t *i)
{
    uint32_t types = atomic_load_explicit(&ctx->type_count, memory_order_acquire), n = 0;
    tni_device_types_enumerate(ctx);
    for (uint32_t k = 0; k < types; k++) {
        const tni_device_type *type = ctx->types[k];
        for (uint32_t m = 0; type->driver.interop.import_pointer && m < type->count; m++) {
            if (n++ < *i) continue;
            tni_device *d = tni_device_get(ctx, type->devices[m].id);
            DLDevice name;
            *i = n;
            if (d && has_dlpack(d) && !dlpack_device(d, &name) && name.device_type == wish.device_type &&
                name.device_id == wish.device_id)
                return d;
        }
    }
    return NULL;
}

/* On the first device of DLPack's name that knows the memory: extensions share one name. */
static int32_t import_on_any(tn_context *ctx, DLManagedTensorVersioned *m, tn_dtype dtype, uint64_t bytes,
                             tn_tensor **out)
{
    const DLTensor *t = &m->dl_tensor;
    int32_t status = TN_E_UNSUPPORTED;
    uint32_t i = 0;
    for (tni_device *d = next_device(ctx, t->device, &i); d; d = next_device(ctx, t->device, &i)) {
        if (bytes) {
            status = import_on(d, m, dtype, bytes, out);
        } else { /* there is no memory to look up */
            status = tni_tensor_create(ctx, d->id, dtype, (uint32_t)t->ndim, t->shape, NULL, out);
            if (!status) delete_imported(m);
        }
        if (status != TN_E_ARGUMENT) return status;
    }
    if (status != TN_E_UNSUPPORTED) return status;
    return tni_error(status,
                     "tn_from_dlpack: no device here has memory of DLPack's device type %d, number %d",
                     t->device.device_type, t->device.device_id);
}

static int32_t is_host(int32_t type)
{
    return type == DLPACK_CPU || type == DLPACK_CUDA_HOST || type == DLPACK_ROCM_HOST;
}

static int32_t import_any(tn_context *ctx, DLManagedTensorVersioned *m, tn_tensor **out)
{
    uint64_t bytes = 0;
    int32_t status = check_importable(m);
    if (status) return status;
    tn_dtype dtype = TN_DTYPE(m->dl_tensor.dtype.code, m->dl_tensor.dtype.bits);
    status = extent_bytes(&m->dl_tensor, dtype, &bytes);
    if (status) return status;
    if (!is_host(m->dl_tensor.device.device_type)) return import_on_any(ctx, m, dtype, bytes, out);
    tni_device *device = tni_device_get(ctx, TN_CPU);
    if (!device) return tn_last_error()->code;
    uint64_t item = (uint64_t)tn_dtype_bytes(dtype), alignment = tn_dtype_is_complex(dtype) ? item / 2 : item;
    uint64_t address = (uint64_t)(uintptr_t)m->dl_tensor.data + m->dl_tensor.byte_offset;
    if (m->flags & DLPACK_FLAG_READ_ONLY || address % alignment)
        return import_copy(device, m, dtype, bytes, out);
    status = import_shared(device, m, dtype, bytes, out);
    if (!status) (*out)->storage->deleter = delete_imported;
    return status;
}

/* The capsule's deleter is called on failure, too. */
static int32_t import(tn_context *ctx, DLManagedTensorVersioned *m, tn_tensor **out)
{
    int32_t status = import_any(ctx, m, out);
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
