/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls without a kernel: runs the composite if the operator has one; else runs on the CPU, with copies to it
 * and back, which are counted; else fails. On the CPU there is no fallback. Where the CPU has kernels beside a
 * composite, the composite takes only their dtypes, so that an operator takes the same dtypes on each device.
 */
#include <stdlib.h>
#include <string.h>
#include "core/graph.h"
#include "core/thread.h"
#include "dispatcher/backend.h"

/* The arguments of a call, copied to the CPU. */
typedef struct moved {
    tni_prepared call;
    uint32_t n_moved; /* tensors that were copied, and arguments that name a device and now name the CPU */
    uint32_t reserved;
    uint64_t bytes;
} moved;

static int32_t move(moved *m, tn_tensor *t, tn_tensor **out)
{
    int32_t status;
    *out = t;
    if (TN_DEVICE_TYPE(t->desc.device) == TN_INTERNED_CPU) return TN_OK;
    status = tni_to_cpu(t, out);
    if (!status) status = tni_prepared_own(&m->call, *out);
    if (status) return status;
    m->n_moved++;
    m->bytes += tni_tensor_bytes(t);
    return TN_OK;
}

static int32_t move_list(tni_frame *f, moved *m, const tn_value *v, tn_value *out)
{
    tn_tensor **list = tni_prepared_list(&m->call, f->ctx, v->count);
    if (!list) return TN_E_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < v->count; i++) {
        int32_t status = TN_OK;
        list[i] = v->as.tensors[i];
        if (list[i]) status = move(m, list[i], &list[i]);
        if (status) return status;
    }
    *out = tn_value_tensors(list, v->count);
    return TN_OK;
}

static int32_t move_arguments(tni_frame *f, moved *m)
{
    int32_t status = TN_OK;
    tni_prepared_init(&m->call, f);
    m->n_moved = 0;
    m->bytes = 0;
    for (uint32_t i = 0; i < f->n_args && !status; i++) {
        const tn_value *v = &f->args[i];
        if (v->tag == TN_TAG_TENSOR) {
            tn_tensor *t;
            status = move(m, v->as.tensor, &t);
            m->call.args[i] = tn_value_tensor(t);
        } else if (v->tag == TN_TAG_TENSORS) {
            status = move_list(f, m, v, &m->call.args[i]);
        } else if (v->tag == TN_TAG_DEVICE) {
            m->call.args[i] = tn_value_device(TN_CPU);
            m->n_moved += v->as.device != TN_CPU;
        }
    }
    /* The call on the CPU would be the same call again, without end. */
    if (!status && !m->n_moved)
        return tni_fail(f, TN_E_UNSUPPORTED,
                        "no argument is on the device of the result, which has no kernel");
    return status;
}

/* Copies one result to the device; that of an in-place form into the argument. */
static int32_t move_back(tni_frame *f, moved *m, tn_value *result)
{
    tn_tensor *cpu = tn_value_as_tensor(*result), *t;
    int32_t status;
    if (!cpu) return TN_OK; /* not a tensor; only composites and views, which need no kernel, give lists */
    if (f->op->base->form == TNI_FORM_INPLACE) {
        t = tn_retain(tni_arg_tensor(f, 0));
        status = tni_from_cpu(t, cpu);
        tni_bump_version(t);
        if (status) tn_release(t);
    } else {
        status = tni_tensor_create(f->ctx, f->device, cpu->desc.dtype, cpu->desc.rank, cpu->desc.sizes,
                                   cpu->desc.strides, &t);
        if (!status && (status = tni_from_cpu(t, cpu)) != TN_OK) tn_release(t);
    }
    if (status) return status;
    m->bytes += tni_tensor_bytes(cpu);
    tn_release(cpu);
    *result = tn_value_tensor(t);
    return TN_OK;
}

/* Copies arguments that the operator writes besides its result (running statistics) to the device. */
static int32_t return_written(tni_frame *f, moved *m)
{
    const tni_op *base = f->op->base;
    for (uint32_t i = 0; i < f->n_args; i++) {
        int32_t written = base->entry->mutates >> i & 1u ||
                          (base->schema->args[i].written && base->form != TNI_FORM_INPLACE);
        tn_tensor *t = f->args[i].tag == TN_TAG_TENSOR ? f->args[i].as.tensor : NULL;
        int32_t status;
        if (!written || !t || m->call.args[i].as.tensor == t) continue;
        status = tni_from_cpu(t, m->call.args[i].as.tensor);
        if (status) return status;
        tni_bump_version(t);
        m->bytes += tni_tensor_bytes(t);
    }
    return TN_OK;
}

static int32_t run_on_cpu(tni_frame *f, moved *m)
{
    const tni_op *base = f->op->base;
    tn_value results[TNI_MAX_OUTPUTS];
    uint32_t n = base->n_returns, excluded = tni_tls.excluded_layers;
    tni_device *outer = tni_tls.replaced_device;
    int32_t status = move_arguments(f, m);
    for (uint32_t i = 0; i < n; i++) results[i] = tn_value_none();
    if (!status) {
        tni_tls.excluded_layers |= TNI_LAYER_BIT(TNI_LAYER_AUTOGRAD) | TNI_LAYER_BIT(TNI_LAYER_AUTOCAST);
        if (!outer) tni_tls.replaced_device = f->open_device;
        status = tni_call(f->ctx, base, m->call.args, f->n_args, results, n);
        tni_tls.replaced_device = outer;
        tni_tls.excluded_layers = excluded;
    }
    for (uint32_t i = 0; i < n && !status; i++) status = move_back(f, m, &results[i]);
    if (!status) status = return_written(f, m);
    tni_prepared_finish(&m->call);
    if (!status) return tni_give_results(f, results, n);
    for (uint32_t i = 0; i < n; i++) tni_value_release(f->ctx, &results[i]);
    return status;
}

static int32_t not_implemented(tni_frame *f)
{
    char device[64];
    const tni_device *replaced = tni_tls.replaced_device;
    tn_dtype dtype = f->call_dtype;
    for (uint32_t i = 0; !dtype && i < f->n_args; i++) {
        if (f->args[i].tag == TN_TAG_TENSOR) dtype = f->args[i].as.tensor->desc.dtype;
    }
    tn_device_format(f->ctx, replaced ? replaced->id : f->device, device, sizeof device);
    return tni_error(TN_E_UNSUPPORTED, "\"%s\" not implemented for '%s' on device %s%s",
                     f->op->base->schema->name,
                     tni_dtype_is_vendor(dtype) ? tni_dtype_text(f->ctx, dtype) : tni_dtype_error_name(dtype),
                     device, replaced ? ", nor on the CPU" : "");
}

int32_t tni_fallback_allowed(tn_context *ctx, const tni_op *op, const char *reason)
{
    if (atomic_load(&((tni_registry *)ctx->registry)->fallback_policy) != TN_FALLBACK_ERROR) return TN_OK;
    return tni_error(TN_E_UNSUPPORTED,
                     "%s: would run on the CPU (%s), which TENON_FALLBACK or tn_set_fallback_policy forbids",
                     tni_op_name(op), reason);
}

void tni_fallback_count(tn_context *ctx, const tni_op *base, tn_device device, uint64_t bytes,
                        const char *reason)
{
    tni_registry *r = ctx->registry;
    tni_op *op = (tni_op *)(uintptr_t)base;
    pthread_mutex_lock(&r->lock);
    int32_t first = op->fallback.count++ == 0;
    op->fallback.bytes += bytes;
    op->fallback.reason = reason;
    op->fallback.device = TN_DEVICE_TYPE(device);
    pthread_mutex_unlock(&r->lock);
    if (first && atomic_load(&r->fallback_policy) == TN_FALLBACK_WARN)
        tni_log(ctx, TN_LOG_WARN, "%s runs on the CPU: %s", tni_op_name(op), reason);
}

/* Whether the CPU has kernels of the operator, but none for the dtype of the call. */
static int32_t unknown_dtype(const tni_frame *f)
{
    const tni_op *op = f->op->base;
    const tni_device *cpu = tni_device_get(f->ctx, TN_CPU);
    const tni_kernel *k;
    if (op->kind != TNI_KIND_POINTWISE && op->kind != TNI_KIND_REDUCTION && op->kind != TNI_KIND_SCAN)
        return 0;
    k = cpu ? atomic_load_explicit(&op->kernels[cpu->type->slot], memory_order_acquire) : NULL;
    return k && !tni_kernel_for(k, f->call_dtype);
}

int32_t tni_fall_back(tni_frame *f, const char *reason)
{
    moved m;
    int32_t status;
    f->arena_used = 0;
    if (f->op->base->entry->composite || (f->op->base->def && f->op->base->def->composite))
        return unknown_dtype(f) ? not_implemented(f) : tni_run_composite(f);
    if (!f->open_device || TN_DEVICE_TYPE(f->device) == TN_INTERNED_CPU) return not_implemented(f);
    status = tni_fallback_allowed(f->ctx, f->op->base, reason);
    if (!status)
        status = tni_capture_refuse(tni_current_stream(f->open_device),
                                    "%s, which would run on the CPU (%s),", tni_op_name(f->op->base), reason);
    if (!status) status = run_on_cpu(f, &m);
    if (!status) tni_fallback_count(f->ctx, f->op->base, f->device, m.bytes, reason);
    return status;
}
