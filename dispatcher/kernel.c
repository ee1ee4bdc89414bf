/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing and running a kernel row. */
#include "core/finding.h"
#include "dispatcher/backend.h"
#include "dispatcher/custom.h"

static void fill_call(tni_frame *f, const tni_kernel *k, const tni_op *op, const tn_value *args,
                      const tn_value *outs, const tn_nest *nest)
{
    int32_t deterministic = atomic_load_explicit(&f->ctx->deterministic, memory_order_relaxed);
    tn_call *c = &f->call;
    c->size = sizeof *c;
    c->flags = deterministic ? TN_CALL_DETERMINISTIC : 0;
    c->n_args = f->n_args - k->dropped;
    c->n_outs = op->n_returns;
    c->args = args;
    c->outs = (tn_value *)(uintptr_t)outs;
    c->nest = nest;
    c->data = k->row.data;
    c->device = f->open_device->handle;
    c->stream = f->stream->handle;
    c->host = &f->ctx->host;
    c->state = f;
    c->stream_id = f->stream->id;
    c->threads = deterministic && k->row.flags & TN_ROW_DETERMINISTIC_ONLY_ONE_THREAD
                     ? 1
                     : atomic_load_explicit(&f->ctx->threads, memory_order_relaxed);
    c->reserved = 0;
}

/* Arguments that the row does not know may be dropped only while they have their defaults. */
static int32_t defaults_only(const tni_frame *f, const tni_op *op, const tni_kernel *k)
{
    for (uint32_t i = op->n_args - k->dropped; i < op->n_args; i++) {
        const tn_value *v = &f->args[i], *d = &op->schema->args[i].default_value;
        if (v->tag != d->tag || v->count != d->count || (v->count == 0 && v->as.i != d->as.i)) return 0;
        for (uint32_t j = 0; v->tag == TN_TAG_INTS && j < v->count; j++) {
            if (v->as.ints[j] != d->as.ints[j]) return 0;
        }
    }
    return 1;
}

/*
 * Blocks go back at once: the allocator gives them to later work of the same stream only. Other things wait
 * for the stream, by a host callback where the device has them.
 */
static void release_kept(tni_frame *f)
{
    const tni_driver *d = &f->open_device->type->driver;
    while (f->kept) {
        tni_kept *kept = f->kept;
        f->kept = kept->next;
        if (kept->is_block) {
            kept->release(kept->pointer);
        } else if (!d->stream.host_callback ||
                   d->stream.host_callback(d->self, f->open_device->handle, f->stream->handle, kept->release,
                                           kept->pointer)) {
            tni_late_keep(f->open_device, tn_stream_synchronize(f->stream), "waiting for a stream");
            kept->release(kept->pointer);
        }
        tni_free(f->ctx, kept, sizeof *kept);
    }
}

/* Makes the failure of a row a full error; what is no status becomes one. */
static int32_t kernel_failed(const tni_kernel *k, const tni_op *op, int32_t status)
{
    status = tni_plugin_status(op, "the kernel", status);
    tni_error_plugin(k->plugin);
    return status;
}

int32_t tni_kernel_run(tni_frame *f, const tni_kernel *k, const tn_value *args, const tn_value *outs,
                       const tn_nest *nest, const char **reason)
{
    const tni_op *op = f->op->base;
    int32_t status;
    if (TNI_UNLIKELY(k->dropped) && !defaults_only(f, op, k)) {
        *reason = "an argument that the row does not know is not its default";
        return TN_E_UNSUPPORTED;
    }
    fill_call(f, k, op, args, outs, nest);
    if (TNI_UNLIKELY(f->call.flags & TN_CALL_DETERMINISTIC) && k->row.flags & TN_ROW_NONDETERMINISTIC) {
        return tni_error(
            TN_E_STATE,
            "%s does not have a deterministic implementation, but deterministic algorithms are on",
            tni_op_name(op));
    }
    if (k->row.can_run && (*reason = k->row.can_run(k->self, &f->call)) != NULL) return TN_E_UNSUPPORTED;
    tni_frame_lend(f);
    status = k->row.run(k->self, &f->call);
    tni_frame_take_back(f);
    if (TNI_UNLIKELY(f->kept != NULL)) release_kept(f);
    if (TNI_LIKELY(status == TN_OK)) return TN_OK;
    if (status == TN_E_UNSUPPORTED) {
        tni_breach(f->ctx, k->plugin, "refused-after-yes", op->schema->full_name,
                   "the kernel of %s refused after it had agreed", op->schema->full_name);
        *reason = "the kernel refused after it had agreed";
        return status;
    }
    return kernel_failed(k, op, status);
}
