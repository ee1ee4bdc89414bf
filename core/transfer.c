/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements between tensors and host memory: tn_from_data, tn_from_blob, tn_to_host, tn_item_*. Where the host sees the memory
 * it reads the elements there, when the work of the current stream has finished. Else row-major tensors are one copy by the
 * device, and others are gathered from a copy of the part of the storage that the tensor spans.
 */
#include <string.h>
#include "core/debug.h"
#include "core/dtype.h"
#include "core/graph.h"
#include "core/profile.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/thread.h"
#include "core/transfer.h"

/* ---- Reading ------------------------------------------------------------------------------------------- */

/* The tensor's elements, gathered from host memory that begins with its first one. */
static void gather(const tn_tensor *t, const char *from, char *to)
{
    int64_t at[TN_MAX_RANK] = {0}, item = tn_dtype_bytes(t->desc.dtype);
    uint32_t rank = t->desc.rank;
    int64_t inner = rank ? t->desc.sizes[rank - 1] : 1, step = rank ? t->desc.strides[rank - 1] * item : 0;
    for (int64_t done = 0; done < t->numel; done += inner) {
        for (int64_t i = 0; i < inner; i++, to += item) memcpy(to, from + i * step, (size_t)item);
        for (uint32_t d = rank > 1 ? rank - 1 : 0; d-- > 0;) {
            from += t->desc.strides[d] * item;
            if (++at[d] < t->desc.sizes[d]) break;
            from -= t->desc.strides[d] * item * at[d];
            at[d] = 0;
        }
    }
}

static void resolve_lazy(uint32_t flags, tn_dtype dtype, char *data, int64_t numel)
{
    int64_t item = tn_dtype_bytes(dtype);
    for (int64_t i = 0; i < numel; i++, data += item) {
        tni_element e;
        tni_element_load(data, dtype, &e);
        if (flags & TN_DESC_CONJ) e.im = -e.im;
        if (flags & TN_DESC_NEG) {
            e.re = -e.re;
            e.im = -e.im;
            e.i = (int64_t)(0 - (uint64_t)e.i);
        }
        tni_element_store(data, dtype, &e);
    }
}

/* From a view of the device's memory, which saves a copy of what lies between the elements. */
static int32_t read_mapped(const tn_tensor *t, uint64_t bytes, char *out)
{
    tni_device *d = t->storage->device;
    const tni_driver *driver = &d->type->driver;
    void *view = NULL;
    int32_t status = tn_stream_synchronize(tni_current_stream(d));
    if (status) return status;
    status = driver->memory.map(driver->self, d->handle, t->desc.allocation, t->desc.byte_offset, bytes,
                                TN_MAP_READ, &view);
    if (status) return tni_driver_error(d->type, status, "mapping of device memory");
    if (!view) return tni_no_handle(d->type, "memory.map");
    gather(t, view, out);
    status = driver->memory.unmap(driver->self, d->handle, t->desc.allocation, view);
    /* Mapped memory cannot be used by the device, so a failure is not the last word. */
    if (status) status = driver->memory.unmap(driver->self, d->handle, t->desc.allocation, view);
    return status ? tni_driver_error(d->type, status, "end of a mapping of device memory") : TN_OK;
}

/* Where they are: from memory that the host sees. */
static int32_t read_visible(const tn_tensor *t, char *out, uint64_t bytes)
{
    tni_device *d = t->storage->device;
    int32_t status = d->synchronous ? TN_OK : tn_stream_synchronize(tni_current_stream(d));
    if (status) return status;
    if (tni_is_contiguous(t))
        memcpy(out, t->desc.host, bytes);
    else
        gather(t, t->desc.host, out);
    return TN_OK;
}

static int32_t read_strided(const tn_tensor *t, char *out)
{
    tni_device *d = t->storage->device;
    int64_t extent, item = tn_dtype_bytes(t->desc.dtype);
    int32_t status = tni_storage_extent(t->desc.rank, t->desc.sizes, t->desc.strides, &extent);
    if (status) return status;
    if (d->type->driver.memory.map && d->type->driver.memory.unmap)
        return read_mapped(t, (uint64_t)(extent * item), out);
    char *copy = tni_alloc(t->ctx, (uint64_t)(extent * item));
    if (!copy) return TN_E_OUT_OF_MEMORY;
    status = tni_copy_to_host(d, copy, t->desc.allocation, t->desc.byte_offset, (uint64_t)(extent * item));
    if (!status) gather(t, copy, out);
    tni_free(t->ctx, copy, (uint64_t)(extent * item));
    return status;
}

static inline __attribute__((always_inline)) int32_t check_readable(const tn_tensor *t)
{
    int32_t status = tni_tensor_check(t);
    if (status) return status;
    if (!t->storage->device) return tni_error(TN_E_DEVICE, "Cannot copy out of meta tensor; no data!");
    if (t->desc.layout != TN_INTERNED_STRIDED)
        return tni_error(TN_E_UNSUPPORTED,
                         "a tensor in a plugin's own layout must be converted before it is read");
    return TN_OK;
}

int32_t tni_tensor_read(const tn_tensor *t, void *out, uint64_t bytes)
{
    int32_t status = check_readable(t);
    if (status) return status;
    uint64_t needed = (uint64_t)(t->numel * tn_dtype_bytes(t->desc.dtype));
    if (bytes != needed)
        return tni_error(TN_E_ARGUMENT, "the tensor has %llu bytes, the host memory %llu",
                         (unsigned long long)needed, (unsigned long long)bytes);
    if (!bytes) return TN_OK;
    if (!out)
        return tni_error(TN_E_ARGUMENT, "the host memory to read %llu bytes into is NULL",
                         (unsigned long long)bytes);
    tni_device *d = t->storage->device;
    if (!d->synchronous)
        status = tni_capture_refuse(tni_current_stream(d),
                                    "reading the elements of a tensor (item, to_host, print)");
    if (status) return status;
    if (d->host_access && t->desc.host) /* memory of other libraries may have no address */
        status = read_visible(t, out, bytes);
    else if (!tni_is_contiguous(t))
        status = read_strided(t, out);
    else
        status = tni_copy_to_host(d, out, t->desc.allocation, t->desc.byte_offset, bytes);
    if (!status && t->desc.flags & (TN_DESC_CONJ | TN_DESC_NEG))
        resolve_lazy(t->desc.flags, t->desc.dtype, out, t->numel);
    return status;
}

int32_t tni_tensor_write(tn_tensor *t, const void *from, uint64_t bytes)
{
    tni_device *d = t->storage->device;
    if (!d || !bytes) return TN_OK;
    if (!d->synchronous) return tni_copy_to_device(d, t->desc.allocation, t->desc.byte_offset, from, bytes);
    memcpy(t->desc.host, from, bytes);
    return TN_OK;
}

int32_t tn_to_host(tn_scope *s, const tn_tensor *t, void *out, uint64_t bytes)
{
    int32_t status = tn_scope_failed(s);
    if (status) return status;
    status = t ? tni_tensor_read(t, out, bytes) : tni_error(TN_E_ARGUMENT, "to_host: a tensor is missing");
    return status ? tni_scope_record(s, status) : TN_OK;
}

/* ---- One element --------------------------------------------------------------------------------------- */

/* 0 when the scope has failed or fails here. */
static inline __attribute__((always_inline)) int32_t read_item(tn_scope *s, const tn_tensor *t,
                                                               tni_element *out)
{
    unsigned char bytes[16];
    if (tn_scope_failed(s)) return 0;
    int32_t status = t ? check_readable(t) : tni_error(TN_E_ARGUMENT, "item: a tensor is missing");
    if (!status && t->numel != 1)
        status = tni_error(TN_E_ARGUMENT, "item: a Tensor with %lld elements cannot be converted to Scalar",
                           (long long)t->numel);
    if (!status) status = tni_tensor_read(t, bytes, (uint64_t)tn_dtype_bytes(t->desc.dtype));
    if (!status && tni_dtype_category(t->desc.dtype) == TNI_CATEGORY_OTHER)
        status = tni_dtype_is_vendor(t->desc.dtype)
                     ? tni_error(TN_E_DTYPE, "an element of %s has no plain value",
                                 tni_dtype_text(t->ctx, t->desc.dtype))
                     : tni_error(TN_E_DTYPE, "a quantised tensor has no plain value");
    if (status) {
        tni_scope_record(s, status);
        return 0;
    }
    tni_element_load(bytes, t->desc.dtype, out);
    return 1;
}

static int32_t refuse_complex(tn_scope *s, const tn_tensor *t, const tni_element *e)
{
    if (!tn_dtype_is_complex(t->desc.dtype) || e->im == 0) return 0;
    tni_scope_record(
        s, tni_error(TN_E_DTYPE, "item: a complex number with an imaginary part cannot be made real"));
    return 1;
}

double tn_item_double(tn_scope *s, const tn_tensor *t)
{
    tni_element e;
    if (!read_item(s, t, &e) || refuse_complex(s, t, &e)) return __builtin_nan("");
    if (!e.is_int) return e.re;
    return e.is_unsigned ? (double)(uint64_t)e.i : (double)e.i;
}

int64_t tn_item_int(tn_scope *s, const tn_tensor *t)
{
    tni_element e;
    if (!read_item(s, t, &e) || refuse_complex(s, t, &e)) return 0;
    if (e.is_int && (!e.is_unsigned || e.i >= 0)) return e.i;
    if (e.is_int) {
        tni_scope_record(s, tni_error(TN_E_ARGUMENT, "item: %llu is not a signed 64-bit integer",
                                      (unsigned long long)(uint64_t)e.i));
        return 0;
    }
    if (e.re >= -9223372036854775808.0 && e.re < 9223372036854775808.0) return (int64_t)e.re;
    tni_scope_record(s, tni_error(TN_E_ARGUMENT, "item: %g is not a signed 64-bit integer", e.re));
    return 0;
}

int32_t tn_item_bool(tn_scope *s, const tn_tensor *t)
{
    tni_element e;
    if (!read_item(s, t, &e)) return 0;
    return e.is_int ? e.i != 0 : e.re != 0 || e.im != 0;
}

int32_t tn_item_complex(tn_scope *s, const tn_tensor *t, double out[2])
{
    tni_element e;
    if (!read_item(s, t, &e)) return tn_scope_failed(s);
    out[0] = e.is_int ? e.is_unsigned ? (double)(uint64_t)e.i : (double)e.i : e.re;
    out[1] = tn_dtype_is_complex(t->desc.dtype) ? e.im : 0;
    return TN_OK;
}

/* ---- Making -------------------------------------------------------------------------------------------- */

static tn_device device_or_default(tn_device device)
{
    if (device) return device;
    return tni_tls.default_device ? tni_tls.default_device : TN_CPU;
}

static tn_tensor *give(tn_scope *s, int32_t status, tn_tensor *t, const char *maker)
{
    if (!status && TNI_UNLIKELY(s->ctx->flags & TNI_CONTEXT_LEAKS)) tni_debug_made(t, maker);
    if (!status) return tni_scope_own(s, t);
    tni_scope_record(s, status);
    return NULL;
}

static int32_t check_sizes(tn_ints sizes)
{
    if (sizes.count >= 0 && sizes.count <= TN_MAX_RANK && (sizes.data || !sizes.count)) return TN_OK;
    return tni_error(TN_E_SHAPE, "tensors have 0 to %d dimensions, not %lld", TN_MAX_RANK,
                     (long long)sizes.count);
}

static int32_t from_data(tn_context *ctx, tn_dtype dtype, tn_ints sizes, const void *data, tn_device device,
                         tn_tensor **out)
{
    tn_tensor *t;
    int32_t status = check_sizes(sizes);
    if (!status) status = tni_dtype_check(ctx, dtype, "tn_from_data: ");
    if (!status) status = tni_tensor_create(ctx, device, dtype, (uint32_t)sizes.count, sizes.data, NULL, &t);
    if (status) return status;
    if (!data && t->numel)
        status = tni_error(TN_E_ARGUMENT, "tn_from_data: data is NULL");
    else
        status = tni_tensor_write(t, data, (uint64_t)(t->numel * tn_dtype_bytes(dtype)));
    if (status)
        tn_release(t);
    else
        *out = t;
    return status;
}

tn_tensor *tn_from_data(tn_scope *s, tn_dtype dtype, tn_ints sizes, const void *data, tn_device device)
{
    tn_tensor *t = NULL;
    if (tn_scope_failed(s)) return NULL;
    int32_t status = from_data(s->ctx, dtype, sizes, data, device_or_default(device), &t);
    return give(s, status, t, "tn_from_data");
}

static int32_t from_blob(tn_context *ctx, const tn_blob *b, tn_tensor **out)
{
    int64_t numel = 0, extent = 0, bytes = 0;
    tni_storage *storage;
    uint32_t rank = (uint32_t)b->sizes.count;
    int32_t status = check_sizes(b->sizes);
    if (!status) status = tni_dtype_check(ctx, b->dtype, "tn_from_blob: ");
    if (!status && b->strides.data && b->strides.count != b->sizes.count)
        status = tni_error(TN_E_SHAPE, "tn_from_blob: %lld sizes, but %lld strides",
                           (long long)b->sizes.count, (long long)b->strides.count);
    if (!status) status = tni_numel(rank, b->sizes.data, &numel);
    extent = numel;
    if (!status && b->strides.data)
        status = tni_storage_extent(rank, b->sizes.data, b->strides.data, &extent);
    if (!status && (b->storage_offset < 0 || (extent && !b->data)))
        status = tni_error(TN_E_ARGUMENT, "tn_from_blob: %s",
                           b->data ? "storage_offset is negative" : "data is NULL");
    if (!status && (__builtin_add_overflow(extent, b->storage_offset, &extent) ||
                    __builtin_mul_overflow(extent, tn_dtype_bytes(b->dtype), &bytes)))
        status = tni_error(TN_E_SHAPE, "tn_from_blob: the sizes are too large");
    tni_device *device = status ? NULL : tni_device_get(ctx, TN_CPU);
    if (!status && !device) status = tn_last_error()->code;
    if (status) {
        if (b->deleter) b->deleter(b->user);
        return status;
    }
    status = tni_storage_wrap(device, b->data, (uint64_t)bytes, b->deleter, b->user, &storage);
    if (status) return status;
    status = tni_tensor_on(storage, b->dtype, rank, b->sizes.data, b->strides.data, b->storage_offset, out);
    if (status) tni_storage_release(storage);
    return status;
}

tn_tensor *tn_from_blob(tn_scope *s, const tn_blob *blob)
{
    tn_blob known;
    tn_tensor *t = NULL;
    int32_t status = tni_struct_read(&known, sizeof known, blob, "tn_blob");
    if (tn_scope_failed(s) || status) {
        if (blob && blob->size >= sizeof *blob && blob->deleter) blob->deleter(blob->user);
        if (status && !tn_scope_failed(s)) tni_scope_record(s, status);
        return NULL;
    }
    status = from_blob(s->ctx, &known, &t);
    return give(s, status, t, "tn_from_blob");
}

tn_tensor *tn_scalar_tensor_of(tn_scope *s, tn_value scalar, tn_dtype dtype, tn_device device)
{
    _Alignas(16) char element[16];
    tn_tensor *t = NULL;
    if (tn_scope_failed(s)) return NULL;
    int32_t status = TN_OK;
    if (scalar.tag != TN_TAG_INT && scalar.tag != TN_TAG_FLOAT && scalar.tag != TN_TAG_BOOL &&
        scalar.tag != TN_TAG_COMPLEX)
        status =
            tni_error(TN_E_ARGUMENT, "tn_scalar_tensor_of: the value is not a number (tag %u)", scalar.tag);
    if (!status) {
        if (!dtype) status = tni_infer_dtype(s->ctx, scalar, &dtype);
    }
    if (!status && tni_dtype_index(dtype) < 0)
        status = tni_error(TN_E_DTYPE, "tn_scalar_tensor_of: 0x%x is not a dtype", dtype);
    if (!status) {
        tni_scalar_store(element, dtype, scalar);
        status = from_data(s->ctx, dtype, (tn_ints){NULL, 0}, element, device_or_default(device), &t);
    }
    return give(s, status, t, "tn_scalar_tensor_of");
}
