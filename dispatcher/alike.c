/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The short way of pointwise operators: functional calls whose tensors have one dtype, one shape, one device
 * and are row-major need no promotion, no broadcasting and no casts, and their nest is one dimension.
 */
#include "core/thread.h"
#include "dispatcher/backend.h"

/* Dtypes in and out, where they follow from the one dtype of all inputs; 0: not here. */
static tn_dtype output_dtype(const tni_op *base, const tn_tensor *first)
{
    tn_dtype dtype = first->desc.dtype;
    switch (base->promote) {
    case TNI_PROMOTE_COMMON:
    case TNI_PROMOTE_SAME:
        return dtype;
    case TNI_PROMOTE_FLOAT:
        return tni_dtype_category(dtype) >= TNI_CATEGORY_FLOAT ? dtype : 0;
    case TNI_PROMOTE_COMPARE:
        return TN_BOOL;
    default:
        return 0;
    }
}

static int32_t same_geometry(const tn_tensor *a, const tn_tensor *b)
{
    if (b->desc.dtype != a->desc.dtype || b->desc.rank != a->desc.rank || b->desc.device != a->desc.device ||
        b->desc.flags || !tni_is_contiguous(b))
        return 0;
    for (uint32_t d = 0; d < a->desc.rank; d++) {
        if (a->desc.sizes[d] != b->desc.sizes[d]) return 0;
    }
    return 1;
}

#define MAX_ALIKE 6

typedef struct one_loop {
    tn_nest nest;
    int64_t size;
    int64_t strides[MAX_ALIKE + 1];
    tn_operand operands[MAX_ALIKE + 1];
} one_loop;

static void add_operand(one_loop *l, const tn_tensor *t, uint32_t flags, int64_t stride)
{
    uint32_t i = l->nest.n_operands++;
    l->strides[i] = stride;
    l->operands[i] = (tn_operand){.size = sizeof(tn_operand),
                                  .flags = flags,
                                  .dtype = t->desc.dtype,
                                  .byte_offset = t->desc.byte_offset,
                                  .allocation = t->desc.allocation,
                                  .host = t->desc.host,
                                  .strides = &l->strides[i]};
}

static void build_loop(one_loop *l, tn_tensor *out, tn_tensor *const *in, uint32_t count)
{
    l->size = out->numel;
    l->nest = (tn_nest){.size = sizeof l->nest,
                        .rank = out->numel != 1,
                        .kept = out->numel != 1,
                        .n_outputs = 1,
                        .operand_bytes = sizeof(tn_operand),
                        .numel = out->numel,
                        .sizes = &l->size,
                        .operands = l->operands};
    add_operand(l, out, TN_OPERAND_OUTPUT, tn_dtype_bytes(out->desc.dtype));
    for (uint32_t i = 0; i < count; i++) add_operand(l, in[i], 0, tn_dtype_bytes(in[i]->desc.dtype));
}

int32_t tni_run_alike(tni_frame *f, int32_t *out_status)
{
    const tni_op *base = f->op->base;
    tn_tensor *in[MAX_ALIKE], *out;
    uint32_t count = 0;
    const tni_kernel *k;
    const char *reason;
    tn_dtype dtype;
    one_loop loop;
    tn_value target;
    if (f->op->form != TNI_FORM_FUNCTIONAL || base->n_returns != 1) return 0;
    for (uint32_t i = 0; i < f->n_args; i++) {
        if (f->args[i].tag != TN_TAG_TENSOR) continue;
        if (count == MAX_ALIKE) return 0;
        in[count++] = f->args[i].as.tensor;
    }
    if (!count || in[0]->desc.flags || !tni_is_contiguous(in[0]) || !in[0]->storage->device ||
        in[0]->numel == 0)
        return 0;
    dtype = output_dtype(base, in[0]);
    if (!dtype) return 0;
    for (uint32_t i = 1; i < count; i++) {
        if (!same_geometry(in[0], in[i])) return 0;
    }
    f->device = in[0]->desc.device;
    f->open_device = in[0]->storage->device;
    f->stream = tni_current_stream(f->open_device);
    f->call_dtype = in[0]->desc.dtype;
    k = tni_kernel_next(f, base, f->call_dtype, NULL);
    if (!k || k->row.can_run) return 0;
    if (base->entry->infer && (*out_status = base->entry->infer(f)) != TN_OK) return 1;
    *out_status = tni_tensor_like(in[0], dtype, &out);
    if (*out_status) return 1;
    build_loop(&loop, out, in, count);
    target = tn_value_tensor(out);
    *out_status = tni_kernel_run(f, k, base, f->args, &target, &loop.nest, &reason);
    if (TNI_LIKELY(!*out_status)) {
        f->outs[0] = target;
        return 1;
    }
    tn_release(out);
    return *out_status != TN_E_UNSUPPORTED;
}
