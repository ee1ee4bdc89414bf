/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layer of mixed precision. In a region that a scope opened (core/autocast.h) it casts the arguments of a
 * call and switches itself off for the rest of the call, so that the calls of a composite are not cast again. Only the
 * calls of a composite without a class, and without kernels, are cast one by one: what it gives depends on nothing else.
 * The class of an operator comes from the plugin of the device (tenon.autocast), else from the operator.
 */
#include "core/autocast.h"
#include <tenon/ops.h>
#include "core/device.h"
#include "core/thread.h"
#include "dispatcher/backend.h"
#include "dispatcher/rooms.h"

/* A call with its arguments cast. Lists are copies. */
typedef struct casting {
    tni_frame *frame;
    tn_dtype to;
    tn_dtype low;
    int32_t keeps;
    tn_value args[TNI_MAX_ARGS];
    tn_tensor *made[TNI_MAX_ARGS];
} casting;

/* The device type whose region and classes apply: that of the first argument that is not on the CPU, else the
 * CPU. */
static const tni_device_type *type_of_call(const tni_frame *f)
{
    tn_device found = 0;
    for (uint32_t i = 0; i < f->n_args; i++) {
        const tn_value *v = &f->args[i];
        const tn_tensor *t = v->tag == TN_TAG_TENSOR ? v->as.tensor : NULL;
        for (uint32_t k = 0; v->tag == TN_TAG_TENSORS && k < v->count && !t; k++) t = v->as.tensors[k];
        if (t && (!found || TN_DEVICE_TYPE(found) == TN_INTERNED_CPU)) found = t->desc.device;
    }
    return found ? tni_device_type_find(f->ctx, TN_DEVICE_TYPE(found)) : NULL;
}

static uint32_t ask_class(const tni_op *op, const tni_device_type *type)
{
    const tn_autocast_interface *a = &type->driver.autocast;
    int32_t class = a->size && a->classify ? a->classify(type->driver.self, op->schema->full_name) : -1;
    if (class >= (int32_t)TN_AUTOCAST_NONE && class <= (int32_t)TN_AUTOCAST_WIDEST) return (uint32_t) class;
    return op->def ? op->def->autocast : op->entry->autocast;
}

/* Four bits for each device type: the class, and whether it is known. */
static uint32_t class_of(const tni_op *called, const tni_device_type *type)
{
    tni_op *op = (tni_op *)(uintptr_t)called;
    uint32_t shift = 4u * type->slot;
    uint64_t known = atomic_load_explicit(&op->autocast, memory_order_relaxed) >> shift & 15u;
    if (!known) {
        known = 8u | ask_class(op, type);
        atomic_fetch_or_explicit(&op->autocast, known << shift, memory_order_relaxed);
    }
    return known & 7u;
}

static int32_t has_own_dtype(const tni_frame *f)
{
    for (uint32_t i = 0; i < f->n_args; i++) {
        if (f->op->schema->args[i].type == TNI_TYPE_DTYPE && tni_arg_given(f, i)) return 1;
    }
    return 0;
}

static int32_t is_eligible(const tn_tensor *t, const tni_device_type *type)
{
    tn_dtype d = t->desc.dtype;
    return TN_DEVICE_TYPE(t->desc.device) == type->type && !(t->desc.flags & TN_DESC_WRAPPED) &&
           (d == TN_FLOAT16 || d == TN_BFLOAT16 || d == TN_FLOAT32);
}

/* The low dtype if all arguments have it, else float32. */
static tn_dtype widest(const tni_frame *f, const tni_device_type *type, tn_dtype low)
{
    for (uint32_t i = 0; i < f->n_args; i++) {
        const tn_value *v = &f->args[i];
        uint32_t n = v->tag == TN_TAG_TENSOR ? 1 : v->tag == TN_TAG_TENSORS ? v->count : 0;
        for (uint32_t k = 0; k < n; k++) {
            const tn_tensor *t = v->tag == TN_TAG_TENSOR ? v->as.tensor : v->as.tensors[k];
            if (t && is_eligible(t, type) && t->desc.dtype != low) return TN_FLOAT32;
        }
    }
    return low;
}

static int32_t call_cast(tn_tensor *t, tn_dtype to, tn_tensor **out)
{
    const tni_registry *r = t->ctx->registry;
    tn_value out_value, args[] = {tn_value_tensor(t), tn_value_dtype(to)};
    int32_t status = tni_call(t->ctx, tni_op_get(r, TN_OP__TO_COPY), args, 2, &out_value, 1);
    *out = status ? NULL : out_value.as.tensor;
    return status;
}

/* A reference to the tensor in the dtype of the call: itself, a cached cast, or a new cast. */
static int32_t cast(const casting *c, tn_tensor *t, const tni_device_type *type, tn_tensor **out)
{
    int32_t status;
    if (!t || t->desc.dtype == c->to || !is_eligible(t, type)) {
        *out = t ? tn_retain(t) : NULL;
        return TN_OK;
    }
    int32_t keep =
        c->keeps && c->to == c->low && t->desc.dtype == TN_FLOAT32 && !t->base && (t->state & TNI_LEAF);
    tn_tensor *kept = keep ? tni_autocast_find(t, c->to) : NULL;
    if (kept) {
        *out = tn_retain(kept);
        return TN_OK;
    }
    status = call_cast(t, c->to, out);
    if (!status && keep) tni_autocast_keep(t, *out);
    return status;
}

static int32_t cast_list(casting *c, uint32_t i, const tni_device_type *type)
{
    const tn_value *from = &c->frame->args[i];
    tn_tensor **list = tni_alloc_zeroed(c->frame->ctx, (from->count + 1ull) * sizeof *list);
    int32_t status = list ? TN_OK : TN_E_OUT_OF_MEMORY;
    if (!list) return status;
    c->args[i].as.tensors = list;
    for (uint32_t k = 0; k < from->count && !status; k++)
        status = cast(c, from->as.tensors[k], type, &list[k]);
    return status;
}

static int32_t cast_arguments(casting *c, const tni_device_type *type)
{
    tni_frame *f = c->frame;
    int32_t status = TN_OK;
    for (uint32_t i = 0; i < f->n_args; i++) {
        c->args[i] = f->args[i];
        c->made[i] = NULL;
        if (status) continue;
        if (f->args[i].tag == TN_TAG_TENSORS) status = cast_list(c, i, type);
        if (f->args[i].tag != TN_TAG_TENSOR) continue;
        status = cast(c, f->args[i].as.tensor, type, &c->made[i]);
        if (!status) c->args[i] = tn_value_tensor(c->made[i]);
    }
    return status;
}

static void release_arguments(casting *c, const tn_value *given)
{
    for (uint32_t i = 0; i < c->frame->n_args; i++) {
        tn_value *v = &c->args[i];
        tn_release(c->made[i]);
        if (v->tag != TN_TAG_TENSORS || v->as.tensors == given[i].as.tensors) continue;
        for (uint32_t k = 0; k < v->count; k++) tn_release(v->as.tensors[k]);
        tni_free(c->frame->ctx, (void *)(uintptr_t)v->as.tensors, (v->count + 1ull) * sizeof(tn_tensor *));
    }
}

static int32_t run_cast(tni_frame *f, const tni_device_type *type, tn_dtype to, tn_dtype low, int32_t keeps)
{
    casting c = {.frame = f, .to = to, .low = low, .keeps = keeps};
    const tn_value *given = f->args;
    uint32_t excluded = tni_tls.excluded_layers;
    tni_tls.excluded_layers = excluded | TNI_LAYER_BIT(TNI_LAYER_AUTOCAST);
    int32_t status = cast_arguments(&c, type);
    if (!status) {
        f->args = c.args;
        status = tni_next(f);
        f->args = given;
    }
    tni_tls.excluded_layers = excluded;
    release_arguments(&c, given);
    return status;
}

/* Without casts, also in the calls of a composite. */
static int32_t run_plain(tni_frame *f)
{
    uint32_t excluded = tni_tls.excluded_layers;
    tni_tls.excluded_layers = excluded | TNI_LAYER_BIT(TNI_LAYER_AUTOCAST);
    int32_t status = tni_next(f);
    tni_tls.excluded_layers = excluded;
    return status;
}

static int32_t autocast(tni_frame *f)
{
    if (f->op->form != TNI_FORM_FUNCTIONAL) return run_plain(f);
    const tni_device_type *type = type_of_call(f);
    const tni_autocast *region = type ? tni_autocast_for(f->ctx, type->type) : NULL;
    uint32_t class = region ? class_of(f->op, type) : TN_AUTOCAST_NONE;
    if (!region || (class == TN_AUTOCAST_NONE && f->op->base->kind == TNI_KIND_COMPOSITE)) return tni_next(f);
    if (class == TN_AUTOCAST_NONE || has_own_dtype(f)) return run_plain(f);
    tn_dtype low = region->low ? region->low : type->driver.autocast.low_dtype;
    if (!low) low = TN_BFLOAT16;
    tn_dtype to = class == TN_AUTOCAST_LOW ? low : TN_FLOAT32;
    if (class == TN_AUTOCAST_WIDEST) to = widest(f, type, low);
    return run_cast(f, type, to, low, (int32_t)region->keeps);
}

int32_t tni_autocast_init(tn_context *ctx, const tn_context_options *options)
{
    (void)options;
    tni_layer_set(ctx, TNI_LAYER_AUTOCAST, autocast, 0);
    return TN_OK;
}
