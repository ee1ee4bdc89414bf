/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between any two tensors. On one device the prim::copy kernel copies. Between devices bytes are copied
 * as stored; the CPU casts and changes strides. The CPU also copies for a device without a kernel.
 */
#include <string.h>
#include <tenon/ops.h>
#include "core/copies.h"
#include "dispatcher/backend.h"

uint64_t tni_tensor_bytes(const tn_tensor *t)
{
    return (uint64_t)t->numel * (uint64_t)tn_dtype_bytes(t->desc.dtype);
}

static int32_t is_cpu(const tn_tensor *t)
{
    return TN_DEVICE_TYPE(t->desc.device) == TN_INTERNED_CPU;
}

/* Bytes from the first to the last element of a view, inclusive. No tensor has so many that they overflow. */
static uint64_t extent_bytes(const tn_tensor *t)
{
    int64_t extent = 0;
    (void)tni_storage_extent(t->desc.rank, t->desc.sizes, t->desc.strides, &extent);
    return (uint64_t)extent * (uint64_t)tn_dtype_bytes(t->desc.dtype);
}

static int32_t refuse_meta(const tn_tensor *t)
{
    if (TN_DEVICE_TYPE(t->desc.device) != TN_INTERNED_META) return TN_OK;
    return tni_error(TN_E_UNSUPPORTED, "Cannot copy out of meta tensor; no data!");
}

int32_t tni_to_cpu(tn_tensor *t, tn_tensor **out)
{
    uint64_t bytes = extent_bytes(t);
    tn_tensor *cpu;
    int32_t status = refuse_meta(t);
    if (!status)
        status = tni_tensor_create(t->ctx, TN_CPU, t->desc.dtype, t->desc.rank, t->desc.sizes,
                                   t->desc.strides, &cpu);
    if (status) return status;
    status = tni_download(cpu, t, bytes, 0);
    if (status) {
        tn_release(cpu);
        return status;
    }
    cpu->desc.flags = t->desc.flags;
    *out = cpu;
    return TN_OK;
}

/* 1 if the elements of both lie alike in memory, without gaps, and their bytes mean the same. */
static int32_t is_alike(const tn_tensor *a, const tn_tensor *b)
{
    uint64_t bytes = a->desc.rank * sizeof *a->desc.sizes;
    return a->desc.dtype == b->desc.dtype && a->state & b->state & TNI_DENSE &&
           a->desc.flags == b->desc.flags && tni_same_shape(a, b) &&
           !memcmp(a->desc.strides, b->desc.strides, bytes);
}

static int32_t from_cpu(tn_tensor *dst, tn_tensor *cpu, int32_t non_blocking)
{
    tn_tensor *image = NULL;
    int32_t status;
    if (is_alike(dst, cpu)) return tni_upload(dst, cpu, tni_tensor_bytes(dst), non_blocking);
    if (dst->state & TNI_DENSE) { /* no gaps: an image with the same strides has all bytes */
        status = tni_tensor_create(dst->ctx, TN_CPU, dst->desc.dtype, dst->desc.rank, dst->desc.sizes,
                                   dst->desc.strides, &image);
        if (!status) image->desc.flags = dst->desc.flags;
    } else {
        status = tni_to_cpu(dst, &image);
    }
    if (!status) status = tni_copy_tensor(image, cpu);
    if (!status) status = tni_upload(dst, image, extent_bytes(dst), non_blocking);
    tn_release(image);
    return status;
}

int32_t tni_from_cpu(tn_tensor *dst, tn_tensor *cpu)
{
    return from_cpu(dst, cpu, 0);
}

/* Bytes as stored, between tensors that are alike or both contiguous. */
static int32_t copy_stored(tn_tensor *dst, const tn_tensor *src)
{
    const tni_place to = {dst->storage->device, dst->desc.allocation, dst->desc.byte_offset};
    const tni_place from = {src->storage->device, src->desc.allocation, src->desc.byte_offset};
    return (tni_are_peers(to.device, from.device) ? tni_copy_peer
                                                  : tni_copy_through_host)(&to, &from, tni_tensor_bytes(src));
}

/* The source's device casts and makes contiguous, the target's broadcasts and changes strides. */
static int32_t peer_copy(tn_tensor *dst, tn_tensor *src)
{
    tn_tensor *from = src, *to = dst;
    int32_t direct = src->numel == dst->numel && tni_is_contiguous(dst) &&
                     !(dst->desc.flags & (TN_DESC_CONJ | TN_DESC_NEG)),
            stored = tni_is_contiguous(src) && src->desc.dtype == dst->desc.dtype &&
                     !(src->desc.flags & (TN_DESC_CONJ | TN_DESC_NEG)),
            status = TN_OK;
    if (!stored) status = tni_contiguous_copy(src, dst->desc.dtype, TN_CONTIGUOUS_FORMAT, &from);
    if (!status && !direct)
        status = tni_tensor_create(dst->ctx, dst->desc.device, dst->desc.dtype, src->desc.rank,
                                   src->desc.sizes, NULL, &to);
    if (!status) status = copy_stored(to, from);
    if (!status && to != dst) status = tni_copy_tensor(dst, to);
    if (from != src) tn_release(from);
    if (to != dst) tn_release(to);
    return status;
}

/* One of them is not on the CPU. */
static int32_t host_copy(tn_tensor *dst, tn_tensor *src, int32_t non_blocking)
{
    tn_tensor *s = src, *image = NULL;
    if (is_alike(dst, src) && dst->desc.device != src->desc.device) {
        if (is_cpu(src)) return tni_upload(dst, src, tni_tensor_bytes(src), non_blocking);
        if (is_cpu(dst)) return tni_download(dst, src, tni_tensor_bytes(src), non_blocking);
        return copy_stored(dst, src);
    }
    int32_t status = is_cpu(src) ? TN_OK : tni_to_cpu(src, &s);
    if (status) return status;
    if (is_cpu(dst)) {
        status = tni_copy_tensor(dst, s);
    } else if (s->desc.dtype == dst->desc.dtype && !s->desc.flags && s->numel == dst->numel) {
        status = from_cpu(dst, s, non_blocking);
    } else {
        status = tni_tensor_create(dst->ctx, TN_CPU, dst->desc.dtype, dst->desc.rank, dst->desc.sizes, NULL,
                                   &image);
        if (!status) status = tni_copy_tensor(image, s);
        if (!status) status = from_cpu(dst, image, non_blocking);
        tn_release(image);
    }
    if (s != src) tn_release(s);
    return status;
}

/* A primitive, or NULL without memory for its schema. */
static const tni_op *op_of(tn_context *ctx, uint32_t number)
{
    tni_op *op = tni_op_get(ctx->registry, number);
    return !op || tni_op_ready(ctx->registry, op) ? NULL : op;
}

/* Runs a kernel of a primitive on prepared tensors. TN_E_UNSUPPORTED: the device has none. */
static int32_t run_prim(uint32_t number, tn_tensor *dst, tn_tensor *src, tn_value value, const tn_nest *nest)
{
    tni_frame f;
    tni_prepared p;
    const char *reason;
    tn_value args[2] = {tn_value_tensor(dst), src ? tn_value_tensor(src) : value}, out;
    const tni_op *op = op_of(dst->ctx, number);
    const tni_kernel *k;
    int32_t status = TN_E_UNSUPPORTED;
    if (!op) return TN_E_OUT_OF_MEMORY;
    tni_frame_init(&f, dst->ctx, op, &out, 1);
    f.args = args;
    f.device = dst->desc.device;
    status = tni_find_device(&f);
    if (status) return status;
    tni_prepared_init(&p, &f);
    p.outs[0] = args[0];
    status = TN_E_UNSUPPORTED;
    /* Rows for a vendor's dtype list it; what others say of the target's dtype does not count. */
    tn_dtype dtype = src && tni_dtype_is_vendor(src->desc.dtype) ? src->desc.dtype : dst->desc.dtype;
    for (k = tni_kernel_first(&f, op, dtype); k && status == TN_E_UNSUPPORTED;
         k = tni_kernel_next(k, dtype)) {
        uint32_t lazy = (dst->desc.flags | (src ? src->desc.flags : 0)) & (TN_DESC_CONJ | TN_DESC_NEG);
        if (lazy && !(k->row.flags & TN_ROW_LAZY_BITS)) continue;
        status = tni_kernel_run(&f, k, p.args, p.outs, nest, &reason);
    }
    return status;
}

/* ---- Vendors' dtypes ----------------------------------------------------------------------------------- */

static int32_t lists(const tni_kernel *k, tn_dtype dtype)
{
    const tn_dtype *d = k->row.dtypes;
    while (d && *d && *d != dtype) d++;
    return d && *d == dtype;
}

const tni_kernel *tni_kernel_for_vendor(const tni_kernel *k, tn_dtype dtype)
{
    while (k && (tni_kernel_is_disabled(k) || !lists(k, dtype))) k = tni_kernel_follower(k);
    return k;
}

/* The same elements, as integers of their size or as bytes in one more dimension. */
static int32_t alias_bits(tn_tensor *t, tn_tensor **out)
{
    static const tn_dtype integers[] = {0, TN_UINT8, TN_INT16, 0, TN_INT32, 0, 0, 0, TN_INT64};
    int64_t sizes[TN_MAX_RANK], strides[TN_MAX_RANK], item = tn_dtype_bytes(t->desc.dtype);
    uint32_t rank = t->desc.rank;
    if (item <= 8 && integers[item])
        return tni_tensor_alias(t, integers[item], rank, t->desc.sizes, t->desc.strides, t->offset, out);
    if (rank == TN_MAX_RANK)
        return tni_error(TN_E_SHAPE, "copy: a tensor of %s has at most %d dimensions",
                         tni_dtype_text(t->ctx, t->desc.dtype), TN_MAX_RANK - 1);
    for (uint32_t i = 0; i < rank; i++) {
        sizes[i] = t->desc.sizes[i];
        strides[i] = t->desc.strides[i] * item;
    }
    sizes[rank] = item;
    strides[rank] = 1;
    return tni_tensor_alias(t, TN_UINT8, rank + 1, sizes, strides, t->offset * item, out);
}

/* `src` broadcasts to `dst`. */
static int32_t copy_bits(tn_tensor *dst, tn_tensor *src)
{
    tn_tensor *to = NULL, *from = NULL, *wide = NULL;
    int64_t strides[TN_MAX_RANK] = {0};
    uint32_t lead = dst->desc.rank - src->desc.rank;
    for (uint32_t i = 0; i < src->desc.rank; i++)
        strides[lead + i] = src->desc.sizes[i] == dst->desc.sizes[lead + i] ? src->desc.strides[i] : 0;
    int32_t status =
        tni_tensor_alias(src, src->desc.dtype, dst->desc.rank, dst->desc.sizes, strides, src->offset, &wide);
    if (!status) status = alias_bits(wide, &from);
    if (!status) status = alias_bits(dst, &to);
    if (!status) status = tni_copy_tensor(to, from);
    tn_release(to);
    tn_release(from);
    tn_release(wide);
    return status;
}

static const char no_row[] = "no kernel";

/* A copy within a device that has no row for it. */
static int32_t copy_by_the_cpu(tn_tensor *dst, tn_tensor *src)
{
    const tni_op *op = op_of(dst->ctx, TN_OP_PRIM_COPY);
    int32_t status = tni_fallback_allowed(dst->ctx, op, no_row);
    if (!status) status = host_copy(dst, src, 0);
    if (!status)
        tni_fallback_count(dst->ctx, op, dst->desc.device, tni_tensor_bytes(src) + tni_tensor_bytes(dst),
                           no_row);
    return status;
}

int32_t tni_copy_tensor(tn_tensor *dst, tn_tensor *src)
{
    return tni_copy_tensor_as(dst, src, 0);
}

int32_t tni_copy_tensor_as(tn_tensor *dst, tn_tensor *src, int32_t non_blocking)
{
    tni_nest nest;
    int32_t status;
    if (dst == src || dst->numel == 0) return TN_OK;
    if (TN_DEVICE_TYPE(dst->desc.device) == TN_INTERNED_META) return TN_OK;
    status = refuse_meta(src);
    if (status) return status;
    if (TNI_UNLIKELY(tni_dtype_is_vendor(dst->desc.dtype)) && src->desc.dtype == dst->desc.dtype)
        return copy_bits(dst, src);
    if (dst->desc.device != src->desc.device)
        return tni_are_peers(dst->storage->device, src->storage->device) ? peer_copy(dst, src)
                                                                         : host_copy(dst, src, non_blocking);
    tni_nest_init(&nest, dst->desc.rank, dst->desc.sizes);
    tni_nest_add(&nest, dst, TN_OPERAND_OUTPUT);
    tni_nest_add(&nest, src, 0);
    tni_nest_finish(&nest, 0);
    status = run_prim(TN_OP_PRIM_COPY, dst, src, tn_value_none(), &nest.nest);
    if (status != TN_E_UNSUPPORTED) return status;
    if (!is_cpu(dst)) return copy_by_the_cpu(dst, src);
    return tni_error(TN_E_UNSUPPORTED, "copy: no kernel from %s to %s on the CPU",
                     tni_dtype_text(src->ctx, src->desc.dtype), tni_dtype_text(dst->ctx, dst->desc.dtype));
}

/* Tensors that are read conjugated or negated: stores what reads as the value. */
static int32_t fill_lazily(tn_tensor *t, tn_value value)
{
    double sign = t->desc.flags & TN_DESC_NEG ? -1 : 1, pair[2] = {sign * tn_value_as_float(value), 0};
    tn_tensor *stored;
    int32_t status = tni_tensor_twin(t, &stored);
    if (status) return status;
    stored->desc.flags &= ~(uint32_t)(TN_DESC_CONJ | TN_DESC_NEG);
    if (value.tag == TN_TAG_COMPLEX)
        pair[1] = sign * (t->desc.flags & TN_DESC_CONJ ? -value.as.floats[1] : value.as.floats[1]);
    status = tni_fill_tensor(stored, tn_dtype_is_complex(t->desc.dtype) ? tn_value_complex(pair)
                                                                        : tn_value_float(pair[0]));
    tn_release(stored);
    return status;
}

/* Zero in every dtype is zero bytes; not -0.0. */
static int32_t is_zero(tn_value v)
{
    if (v.tag == TN_TAG_FLOAT) return v.as.i == 0;
    return (v.tag == TN_TAG_INT && !v.as.i) || (v.tag == TN_TAG_BOOL && !tn_value_as_bool(v));
}

int32_t tni_fill_tensor(tn_tensor *t, tn_value value)
{
    tni_nest nest;
    tn_tensor *cpu;
    int32_t status;
    if (t->numel == 0 || TN_DEVICE_TYPE(t->desc.device) == TN_INTERNED_META) return TN_OK;
    if (t->desc.flags & (TN_DESC_CONJ | TN_DESC_NEG)) return fill_lazily(t, value);
    if (!t->storage->device->synchronous && t->state & TNI_DENSE && is_zero(value) &&
        tni_dtype_category(t->desc.dtype) != TNI_CATEGORY_OTHER)
        return tni_fill_zeros(t->storage->device, t->desc.allocation, t->desc.byte_offset,
                              tni_tensor_bytes(t));
    tni_nest_init(&nest, t->desc.rank, t->desc.sizes);
    tni_nest_add(&nest, t, TN_OPERAND_OUTPUT);
    tni_nest_finish(&nest, 0);
    status = run_prim(TN_OP_PRIM_FILL, t, NULL, value, &nest.nest);
    if (status != TN_E_UNSUPPORTED) return status;
    if (is_cpu(t))
        return tni_error(TN_E_UNSUPPORTED, "fill: no kernel for %s on the CPU",
                         tni_dtype_text(t->ctx, t->desc.dtype));
    const tni_op *op = op_of(t->ctx, TN_OP_PRIM_FILL);
    status = tni_fallback_allowed(t->ctx, op, no_row);
    if (!status)
        status = tni_tensor_create(t->ctx, TN_CPU, t->desc.dtype, t->desc.rank, t->desc.sizes, NULL, &cpu);
    if (status) return status;
    status = tni_fill_tensor(cpu, value);
    if (!status) status = tni_from_cpu(t, cpu);
    if (!status) tni_fallback_count(t->ctx, op, t->desc.device, tni_tensor_bytes(t), no_row);
    tn_release(cpu);
    return status;
}

int32_t tni_contiguous_copy(tn_tensor *t, tn_dtype dtype, int32_t memory_format, tn_tensor **out)
{
    int64_t strides[TN_MAX_RANK];
    int32_t status = TN_OK;
    if (memory_format == TN_PRESERVE_FORMAT) {
        if (t->state & TNI_DENSE)
            memcpy(strides, t->desc.strides, t->desc.rank * 8ull);
        else
            tni_preserve_strides(t, t->desc.rank, t->desc.sizes, strides);
    } else {
        status = tni_format_strides(t->desc.rank, t->desc.sizes, memory_format, strides);
    }
    if (!status)
        status = tni_tensor_create(t->ctx, t->desc.device, dtype, t->desc.rank, t->desc.sizes, strides, out);
    if (status) return status;
    status = tni_copy_tensor(*out, t);
    if (status) {
        tn_release(*out);
        *out = NULL;
    }
    return status;
}
