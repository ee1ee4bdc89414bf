/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that only copy or fill. The host runs them by the kernels of prim::copy and prim::fill. */
#include <tenon/ops.h>
#include "dispatcher/backend.h"

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
    if (tni_overlap(self, src) != TNI_OVERLAP_PARTIAL) return tni_copy_tensor(self, src);
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
    case TN_OP__TO_COPY:
        return copy_to_output;
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
