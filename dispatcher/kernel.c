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
 * released when the stream is done with the kernel, by a host callback if the device has them.
 */
static void release_kept(tni_frame *f)
{
    const tni_driver *d = &f->open_device->type->driver;
    while (f->kept) {
        tni_kept *kept = f->kept;
        f->kept = kept->next;
        if (kept->is_block) {
            kept->release(kept->pointer);
        } else if (tni_capture_keep(f->stream, kept)) {
            continue; /* the graph owns it now */
        } else if (!d->stream.host_callback ||
                   d->stream.host_callback(d->self, f->open_device->handle, f->stream->handle, kept->release,
                                           kept->pointer)) {
            tni_late_keep(f->open_device, tn_stream_synchronize(f->stream), "waiting for a stream");
            kept->release(kept->pointer);
        }
        tni_free(f->ctx, kept, sizeof *kept);
    }
}

/* Completes the error of a failed kernel; maps invalid codes to TN_E_CONTRACT. */
static int32_t kernel_failed(const tni_kernel *k, const tni_op *op, int32_t status)
{
    status = tni_plugin_status(op, "the kernel", status);
    tni_error_plugin(k->plugin);
    return status;
}

/* Runs the kernel between two events of its stream, if the device has any to measure work with. */
static int32_t run_profiled(tni_frame *f, const tni_kernel *k, const char **reason)
{
    tni_profile_work work;
    if (!tni_profile_work_begin(f->open_device, f->stream, &work)) return TNI_KERNEL_MAY_RUN;
    tni_frame_lend(f);
    int32_t status = k->row.run(k->self, &f->call);
    tni_frame_take_back(f);
    tni_profile_work_end(f->open_device, f->stream, tni_op_name(f->op->base), &work);
    return tni_kernel_after(f, k, status, reason);
}

int32_t tni_kernel_ask(tni_frame *f, const tni_kernel *k, const char **reason)
{
    const tni_op *op = f->op->base;
    if (k->unknown_args && !has_only_known_arguments(f, op, k)) {
        *reason = "the row's schema lacks an argument that does not have its default value";
        return TN_E_UNSUPPORTED;
    }
    if (f->call.flags & TN_CALL_DETERMINISTIC) {
        if (k->row.flags & TN_ROW_NONDETERMINISTIC)
            return tni_error(
                TN_E_STATE,
                "%s does not have a deterministic implementation, but deterministic algorithms are on",
                tni_op_name(op));
        if (k->row.flags & TN_ROW_DETERMINISTIC_ONLY_ONE_THREAD) f->call.threads = 1;
    }
    if (k->row.can_run && (*reason = k->row.can_run(k->self, &f->call)) != NULL) return TN_E_UNSUPPORTED;
    return TNI_UNLIKELY(tni_is_profiled(f->ctx)) ? run_profiled(f, k, reason) : TNI_KERNEL_MAY_RUN;
}

int32_t tni_kernel_after(tni_frame *f, const tni_kernel *k, int32_t status, const char **reason)
{
    const tni_op *op = f->op->base;
    if (f->kept) release_kept(f);
    if (status == TN_OK) return TN_OK;
    if (status == TN_E_UNSUPPORTED) {
        tni_breach(f->ctx, k->plugin, "refused-after-yes", op->schema->full_name,
                   "the kernel of %s refused after it had agreed", op->schema->full_name);
        *reason = "the kernel refused after it had agreed";
        return status;
    }
    return kernel_failed(k, op, status);
}
