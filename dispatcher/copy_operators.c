/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that only copy or fill. The host runs them by the kernels of prim::copy and prim::fill. */
#include <tenon/ops.h>
#include "dispatcher/backend.h"

/* The device that pins the result of _to_copy, or NULL. A copy from a device that is not waited for needs pinned
 * memory. */
static tni_device *result_pinned_by(tni_frame *f, int32_t non_blocking)
{
    tni_device *from = tni_arg_tensor(f, 0)->storage->device;
    if (f->given[0] || TN_DEVICE_TYPE(f->device) != TN_INTERNED_CPU) return NULL;
    if (tni_arg_bool(f, 4)) return tni_pinning_device(f->ctx);
    return non_blocking && from && tni_pins_memory(from) ? from : NULL;
}

static int32_t run_to_copy(tni_frame *f)
{
    int32_t non_blocking = tni_arg_bool(f, 5);
    tni_device *pins = result_pinned_by(f, non_blocking);
    tni_prepared p = {.n_temporaries = 0};
    tn_tensor *targets[TNI_MAX_OUTPUTS];
    const tni_out_meta *m = &f->meta[0];
    int32_t status;
    if (!pins && !f->given[0] && tni_arg_bool(f, 4)) return tn_last_error()->code;
    if (pins) {
        status = tni_tensor_create_pinned(pins, m->dtype, m->rank, m->sizes,
                                          m->has_strides ? m->strides : NULL, &targets[0]);
        if (!status) f->outs[0] = tn_value_tensor(targets[0]);
    } else {
        status = tni_make_outputs(f, &p, targets, 0);
    }
    if (!status) status = tni_copy_tensor_as(targets[0], tni_arg_tensor(f, 0), non_blocking);
    if (!status) status = tni_finish_outputs(f, targets);
    tni_prepared_finish(&p);
    return status;
}

static int32_t copy_to_output(tni_frame *f)
{
    tni_prepared p = {.n_temporaries = 0};
    tn_tensor *targets[TNI_MAX_OUTPUTS];
    int32_t status = tni_make_outputs(f, &p, targets, 0);
    if (!status) status = tni_copy_tensor(targets[0], tni_arg_tensor(f, 0));
    if (!status) status = tni_finish_outputs(f, targets);
    tni_prepared_finish(&p);
    return status;
}

static int32_t write_self(tni_frame *f, int32_t (*write)(tni_frame *f, tn_tensor *self))
{
    tn_tensor *self = tni_arg_tensor(f, 0);
    int32_t status = write(f, self);
    if (status) return status;
    tni_bump_version(self);
    f->outs[0] = tn_value_tensor(tn_retain(self));
    return TN_OK;
}

static int32_t is_read_alike(const tn_tensor *a, const tn_tensor *b)
{
    uint32_t bits = TN_DESC_CONJ | TN_DESC_NEG;
    return a->desc.dtype == b->desc.dtype && (a->desc.flags & bits) == (b->desc.flags & bits);
}

/* An overlapping source is copied first. */
static int32_t copy_write(tni_frame *f, tn_tensor *self)
{
    tn_tensor *src = tni_arg_tensor(f, 1), *copy;
    int32_t status;
    if (tni_overlaps_itself(self)) {
        return tni_fail(f, TN_E_ARGUMENT,
                        "unsupported operation: more than one element of the written-to tensor refers to a "
                        "single memory location. Please clone() the tensor before performing the operation.");
    }
    int32_t overlap = tni_overlap(self, src);
    if (overlap == TNI_OVERLAP_FULL && is_read_alike(self, src)) return TN_OK; /* a copy to itself */
    if (overlap != TNI_OVERLAP_PARTIAL)
        return tni_copy_tensor_as(self, src, f->op->base->number == TN_OP_COPY_ && tni_arg_bool(f, 2));
    status = tni_contiguous_copy(src, src->desc.dtype, TN_PRESERVE_FORMAT, &copy);
    if (status) return status;
    status = tni_copy_tensor(self, copy);
    tn_release(copy);
    return status;
}

/* Overlap within self does no harm: all elements get the same value. */
static int32_t fill_write(tni_frame *f, tn_tensor *self)
{
    return tni_fill_tensor(self, f->args[1]);
}

static int32_t run_copy(tni_frame *f)
{
    return write_self(f, copy_write);
}
static int32_t run_fill(tni_frame *f)
{
    return write_self(f, fill_write);
}

tni_layer_fn *tni_copy_operator_of(uint32_t number)
{
    switch (number) {
    case TN_OP_CLONE:
        return copy_to_output;
    case TN_OP__TO_COPY:
        return run_to_copy;
    case TN_OP_COPY_:
    case TN_OP_PRIM_COPY:
        return run_copy;
    case TN_OP_FILL_SCALAR_:
    case TN_OP_PRIM_FILL:
        return run_fill;
    default:
        return NULL;
    }
}
