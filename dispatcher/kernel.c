/* SPDX-License-Identifier: Apache-2.0 */
/* Around a kernel: the conditions of its row before it runs; what it kept alive, and its failure, afterwards. */
#include <stdbool.h>
#include <string.h>
#include "core/finding.h"
#include "core/graph.h"
#include "core/profile.h"
#include "dispatcher/backend.h"
#include "dispatcher/custom.h"

static bool same_bytes(const tn_value *a, const tn_value *b, uint64_t item_bytes)
{
    return a->count == b->count &&
           (!a->count || memcmp(a->as.pointer, b->as.pointer, a->count * item_bytes) == 0);
}

static bool same_strings(const tn_value *a, const tn_value *b)
{
    if (a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count; i++) {
        if (strcmp(a->as.strings[i], b->as.strings[i]) != 0) return false;
    }
    return true;
}

/* Whether an argument has the value of a default, which is never a tensor. Floats are compared as bytes: 0.0
 * and -0.0 are different arguments. */
static bool is_default(const tn_value *v, const tn_value *d)
{
    if (v->tag != d->tag) return false;
    switch (v->tag) {
    case TN_TAG_NONE:
        return true;
    case TN_TAG_DEVICE:
        return v->as.device == d->as.device;
    case TN_TAG_STRING:
    case TN_TAG_BOOLS:
        return same_bytes(v, d, 1);
    case TN_TAG_INTS:
    case TN_TAG_FLOATS:
    case TN_TAG_COMPLEX:
        return same_bytes(v, d, 8);
    case TN_TAG_STRINGS:
        return same_strings(v, d);
    case TN_TAG_SCALARS:
        for (uint32_t i = 0; v->count == d->count && i < v->count; i++) {
            if (!is_default(&v->as.values[i], &d->as.values[i])) return false;
        }
        return v->count == d->count;
    case TN_TAG_TENSORS:
        return !v->count && !d->count;
    default:
        return v->as.i == d->as.i;
    }
}

/* A row for an older schema ignores the arguments that were appended since, so they must have their defaults. */
static bool has_only_known_arguments(const tni_frame *f, const tni_op *op, const tni_kernel *k)
{
    for (uint32_t i = op->n_args - k->unknown_args; i < op->n_args; i++) {
        if (!is_default(&f->args[i], &op->schema->args[i].default_value)) return false;
    }
    return true;
}

/*
 * Frees blocks at once: the allocator reuses them only for later work of the same stream. Other things are
 * released when the stream is done with the kernel.
 */
static void release_kept(tni_frame *f)
{
    while (f->kept) {
        tni_kept *kept = f->kept;
        f->kept = kept->next;
        if (kept->is_block) {
            kept->release(kept->pointer);
            tni_free(f->ctx, kept, sizeof *kept);
        } else if (!tni_capture_keep(f->stream, kept)) {
            tni_release_later(f->stream, kept);
        }
    }
}

/* After a kernel, whose status it was: of what the kernel left. */
static int32_t end_kernel(tni_frame *f, int32_t status)
{
    if (!f->kept) return status;
    release_kept(f);
    return tni_frame_end_refusing(f, status);
}

/* Completes the error of a failed kernel; maps invalid codes to TN_E_CONTRACT. */
static int32_t kernel_failed(tni_device_type *type, const tni_kernel *k, const tni_op *op, int32_t status)
{
    status = tni_plugin_status(op, "the kernel", status);
    tni_error_plugin(k->plugin);
    if (status == TN_E_DEVICE_LOST) tni_device_check_lost(type);
    return status;
}

/* The highest rank among the tensors of a call without a loop nest. */
static uint32_t rank_of_tensors(const tn_call *call)
{
    uint32_t rank = 0;
    for (uint32_t i = 0; i < call->n_args + call->n_outs; i++) {
        const tn_value *v = i < call->n_args ? &call->args[i] : &call->outs[i - call->n_args];
        uint32_t n = v->tag == TN_TAG_TENSORS ? v->count : v->tag == TN_TAG_TENSOR;
        for (uint32_t j = 0; j < n; j++) {
            const tn_tensor *t = v->tag == TN_TAG_TENSORS ? v->as.tensors[j] : v->as.tensor;
            if (t && t->desc.rank > rank) rank = t->desc.rank;
        }
    }
    return rank;
}

/* Whether every element of every operand is less than 2^31 elements and bytes away from the first one. */
static bool fits_index32(const tn_nest *nest)
{
    if (nest->numel > INT32_MAX) return false;
    for (uint32_t k = 0; k < nest->n_operands; k++) {
        int64_t extent = 0; /* lies in a storage, so it does not overflow */
        for (uint32_t d = 0; d < nest->rank; d++)
            extent += nest->operands[k].strides[d] * (nest->sizes[d] - 1);
        if (extent > INT32_MAX) return false;
    }
    return true;
}

static bool tensors_fit_index32(const tn_call *call)
{
    for (uint32_t i = 0; i < call->n_args + call->n_outs; i++) {
        const tn_value *v = i < call->n_args ? &call->args[i] : &call->outs[i - call->n_args];
        uint32_t n = v->tag == TN_TAG_TENSORS ? v->count : v->tag == TN_TAG_TENSOR;
        for (uint32_t j = 0; j < n; j++) {
            const tn_tensor *t = v->tag == TN_TAG_TENSORS ? v->as.tensors[j] : v->as.tensor;
            int64_t extent = 0;
            if (!t) continue;
            (void)tni_storage_extent(t->desc.rank, t->desc.sizes, t->desc.strides, &extent);
            if (extent > INT32_MAX / tn_dtype_bytes(t->desc.dtype)) return false;
        }
    }
    return true;
}

/* Why the row does not take a call of this size, or NULL. */
static const char *exceeds_limits(const tn_kernel_row *row, const tn_call *call)
{
    const tn_nest *nest = call->nest;
    if (row->max_rank && (nest ? nest->rank : rank_of_tensors(call)) > row->max_rank)
        return "the rank is above the row's max_rank";
    if (row->max_operands && nest && nest->n_operands > row->max_operands)
        return "there are more operands than the row's max_operands";
    if (row->flags & TN_ROW_INDEX32 && !(nest ? fits_index32(nest) : tensors_fit_index32(call)))
        return "the row indexes with 32 bits, and the tensors are larger";
    return NULL;
}

static int32_t run_plain(tni_frame *f, const tni_kernel *k)
{
    tni_frame_lend(f);
    int32_t status = k->row.run(k->self, &f->call);
    tni_frame_take_back(f);
    return status;
}

/* With a scope of the kernel's own, on which it calls operators. They run on the call's stream, and no layer sees
 * them: the layers have seen the operator itself. */
static int32_t run_with_scope(tni_frame *f, const tni_kernel *k)
{
    uint32_t excluded = tni_tls.excluded_layers;
    tn_scope *s = tn_scope_open(f->ctx);
    if (!s) return TN_E_OUT_OF_MEMORY;
    tni_tls.excluded_layers |= TNI_LAYER_BIT(TNI_LAYER_AUTOGRAD) | TNI_LAYER_BIT(TNI_LAYER_AUTOCAST) |
                               TNI_LAYER_BIT(TNI_LAYER_TRACE);
    f->scope = s;
    f->is_kernel_scope = 1;
    const uint32_t lent = tni_scope_lend(s);
    int32_t status = run_plain(f, k);
    tni_scope_take_back(s, lent);
    f->scope = NULL;
    f->is_kernel_scope = 0;
    tni_tls.excluded_layers = excluded;
    if (tn_scope_failed(s)) {
        status = tn_scope_failed(s);
        tni_error_restore(tn_scope_error(s));
    }
    tn_scope_close(s);
    return status;
}

static int32_t run_row(tni_frame *f, const tni_kernel *k)
{
    return k->row.flags & TN_ROW_SCOPE ? run_with_scope(f, k) : run_plain(f, k);
}

/* TENON_BLOCKING: a late error is reported by the call that caused it. */
static int32_t wait_for_kernel(tni_frame *f)
{
    if (f->open_device->synchronous || tni_stream_captures(f->stream)) return TN_OK;
    return tn_stream_synchronize(f->stream);
}

/* Runs a kernel that has a scope, or is measured or waited for. */
static int32_t run_here(tni_frame *f, const tni_kernel *k, uint32_t flags, const char **reason)
{
    tni_profile_work work;
    int32_t measured = flags & TNI_CALL_PROFILED && tni_profile_work_begin(f->open_device, f->stream, &work);
    int32_t status = run_row(f, k);
    if (measured) tni_profile_work_end(f->open_device, f->stream, tni_op_name(f->op->base), &work);
    status = tni_kernel_after(f, k, status, reason);
    return !status && flags & TNI_CALL_BLOCKING ? wait_for_kernel(f) : status;
}

int32_t tni_refuse_nondeterministic(const tni_op *op)
{
    return tni_error(TN_E_STATE,
                     "%s does not have a deterministic implementation, but deterministic algorithms are on",
                     tni_op_name(op));
}

int32_t tni_kernel_ask(tni_frame *f, const tni_kernel *k, const char **reason)
{
    /* A profile measures the work of asynchronous devices only. */
    uint32_t binding = atomic_load_explicit(&f->ctx->call_flags, memory_order_relaxed) & TNI_BINDING_FLAGS;
    if (!k->asks && f->open_device->synchronous && binding == TNI_CALL_PROFILED) return TNI_KERNEL_MAY_RUN;
    const tni_op *op = f->op->base;
    f->reads_random_state = (k->row.flags & TN_ROW_RANDOM_STATE) != 0;
    if (k->unknown_args && !has_only_known_arguments(f, op, k)) {
        *reason = "the row's schema lacks an argument that does not have its default value";
        return TN_E_UNSUPPORTED;
    }
    if (f->call.flags & TN_CALL_DETERMINISTIC) {
        if (k->row.flags & TN_ROW_NONDETERMINISTIC) return tni_refuse_nondeterministic(op);
        if (k->row.flags & TN_ROW_DETERMINISTIC_ONLY_ONE_THREAD) f->call.threads = 1;
    }
    if (f->call.flags & TNI_BINDING_FLAGS & ~(TN_CALL_DETERMINISTIC | k->row.honours)) {
        *reason = "the row does not honour a flag of the call";
        return TN_E_UNSUPPORTED;
    }
    if ((*reason = exceeds_limits(&k->row, &f->call)) != NULL) return TN_E_UNSUPPORTED;
    if (k->row.can_run && (*reason = k->row.can_run(k->self, &f->call)) != NULL) return TN_E_UNSUPPORTED;
    uint32_t flags = atomic_load_explicit(&f->ctx->call_flags, memory_order_relaxed) & TNI_CALL_INTERNAL;
    return flags || k->row.flags & TN_ROW_SCOPE ? run_here(f, k, flags, reason) : TNI_KERNEL_MAY_RUN;
}

/* Nothing was queued: the kernel runs once more after the caches were emptied. */
static int32_t run_again(tni_frame *f, const tni_kernel *k)
{
    uint64_t freed;
    if (tni_stream_captures(f->stream) || tni_memory_reclaim(f->open_device, &freed))
        return TN_E_OUT_OF_MEMORY;
    return end_kernel(f, run_row(f, k));
}

int32_t tni_kernel_after(tni_frame *f, const tni_kernel *k, int32_t status, const char **reason)
{
    const tni_op *op = f->op->base;
    status = end_kernel(f, status);
    if (status == TN_E_OUT_OF_MEMORY && !f->runs_once) status = run_again(f, k);
    if (status == TN_OK) return TN_OK;
    if (status == TN_E_UNSUPPORTED) {
        tni_breach(f->ctx, k->plugin, "refused-after-yes", op->schema->full_name,
                   "the kernel of %s refused after it had agreed", op->schema->full_name);
        *reason = "the kernel refused after it had agreed";
        return status;
    }
    return kernel_failed(f->open_device->type, k, op, status);
}
