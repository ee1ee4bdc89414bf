/* SPDX-License-Identifier: Apache-2.0 */
/* Before and after a kernel: what its row asks for, what it leaves, what its failure becomes. */
#include "core/finding.h"
#include "core/graph.h"
#include "dispatcher/backend.h"
#include "dispatcher/custom.h"

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
        } else if (tni_capture_keep(f->stream, kept)) {
            continue; /* it is the graph's now */
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

int32_t tni_kernel_ask(tni_frame *f, const tni_kernel *k, const char **reason)
{
    const tni_op *op = f->op->base;
    if (k->dropped && !defaults_only(f, op, k)) {
        *reason = "an argument that the row does not know is not its default";
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
    return TN_OK;
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
