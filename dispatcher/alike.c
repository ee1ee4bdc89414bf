/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The short way of pointwise operators: calls whose tensors have one dtype, one shape, one device and are
 * row-major need no promotion, no broadcasting and no casts, and their nest is one dimension. Numbers may
 * stand among them (0-dim tensors of the host) as long as they leave the dtype as it is, and the result may
 * be given by in-place and out forms if it is like the inputs. What is not so simple is declined before
 * anything has happened.
 */
#include <string.h>
#include "core/thread.h"
#include "dispatcher/backend.h"

#define MAX_ALIKE 6

typedef struct inputs {
    tn_tensor *tensors[MAX_ALIKE];
    uint32_t count;
    uint32_t numbers; /* bits of those that are */
    tn_tensor *model; /* what the others are like */
} inputs;

typedef struct one_loop {
    tn_nest nest;
    int64_t size;
    int64_t strides[MAX_ALIKE + 1];
    tn_operand operands[MAX_ALIKE + 1];
    char numbers[MAX_ALIKE][16];
} one_loop;

static int32_t same_sizes(const tn_tensor *a, const tn_tensor *b)
{
    if (a->desc.rank != b->desc.rank) return 0;
    for (uint32_t d = 0; d < a->desc.rank; d++) {
        if (a->desc.sizes[d] != b->desc.sizes[d]) return 0;
    }
    return 1;
}

/* Row-major, on the model's device, of its sizes, and its elements are what the memory says. */
static int32_t same_geometry(const tn_tensor *model, const tn_tensor *t)
{
    return t->desc.device == model->desc.device && !t->desc.flags && tni_is_contiguous(t) &&
           same_sizes(model, t);
}

static int32_t same_kind(const tn_tensor *model, const tn_tensor *t)
{
    return t->desc.dtype == model->desc.dtype && same_geometry(model, t);
}

/* A tensor of the host without dimensions that takes part by its value and leaves the model's dtype alone:
 * tensors with dimensions come before those without, both before wrapped numbers, within a category. */
static int32_t is_number(const tn_tensor *model, const tn_tensor *t)
{
    int32_t wrapped = (t->desc.flags & TN_DESC_WRAPPED) != 0;
    return t->desc.rank == 0 && t->desc.device == TN_CPU && t->desc.host && (model->desc.rank || wrapped) &&
           !(t->desc.flags & ~TN_DESC_WRAPPED) &&
           tni_dtype_category(t->desc.dtype) <= tni_dtype_category(model->desc.dtype);
}

/* The first tensor with dimensions, else the first that is no wrapped number; NULL when all are numbers. */
static tn_tensor *find_model(const inputs *in)
{
    tn_tensor *model = NULL;
    for (uint32_t i = 0; i < in->count; i++) {
        tn_tensor *t = in->tensors[i];
        if (t->desc.rank) return t;
        if (!model && !t->desc.flags) model = t;
    }
    return model;
}

static int32_t can_be_model(const tn_tensor *t)
{
    return !t->desc.flags && tni_is_contiguous(t) && t->storage->device && t->numel > 0;
}

/* With numbers among them. Two 0-dim tensors might clash with each other, so only one may stand beside the
 * model. */
static __attribute__((noinline)) int32_t sort_out(inputs *in)
{
    uint32_t zeros = 0;
    in->model = find_model(in);
    if (!in->model || !can_be_model(in->model)) return 0;
    for (uint32_t i = 0; i < in->count; i++) {
        const tn_tensor *t = in->tensors[i];
        if (t == in->model || same_kind(in->model, t)) continue;
        if (!is_number(in->model, t)) return 0;
        in->numbers |= 1u << i;
        zeros += !t->desc.flags;
    }
    return zeros <= 1;
}

static int32_t gather(const tni_frame *f, inputs *in)
{
    uint32_t alike = 1;
    in->count = in->numbers = 0;
    for (uint32_t i = 0; i < f->n_args; i++) {
        if (f->args[i].tag != TN_TAG_TENSOR) continue;
        if (in->count == MAX_ALIKE) return 0;
        in->tensors[in->count++] = f->args[i].as.tensor;
    }
    if (!in->count) return 0;
    in->model = in->tensors[0];
    while (alike < in->count && same_kind(in->model, in->tensors[alike])) alike++;
    return alike == in->count && can_be_model(in->model) ? 1 : sort_out(in);
}

/* The dtype of the result, where it follows from that of the model; 0: not here. Sets f->call_dtype. */
static tn_dtype find_dtypes(tni_frame *f, const inputs *in, int32_t *out_status)
{
    const tni_op *base = f->op->base;
    tn_dtype dtype = in->model->desc.dtype;
    f->call_dtype = dtype;
    switch (base->promote) {
    case TNI_PROMOTE_COMMON:
        return dtype;
    case TNI_PROMOTE_SAME:
        return in->numbers & 1u ? 0 : dtype;
    case TNI_PROMOTE_FLOAT:
        return tni_dtype_category(dtype) >= TNI_CATEGORY_FLOAT ? dtype : 0;
    case TNI_PROMOTE_COMPARE:
        return TN_BOOL;
    case TNI_PROMOTE_CUSTOM:
        if (in->numbers) return 0;
        *out_status = base->entry->promote_rule(f);
        return f->call_dtype == dtype && !f->keep_dtype ? f->meta[0].dtype : 0;
    default:
        return 0;
    }
}

/* Whether a given result can be written to directly: like the inputs, and in no one's way. */
static int32_t fits_given(const inputs *in, const tn_tensor *out, tn_dtype dtype)
{
    if (out->desc.dtype != dtype || !same_geometry(in->model, out)) return 0;
    for (uint32_t i = 0; i < in->count; i++) {
        const tn_tensor *t = in->tensors[i];
        if (t == out || t->storage != out->storage) continue;
        if (in->numbers >> i & 1u || t->desc.byte_offset != out->desc.byte_offset || t->desc.dtype != dtype)
            return 0;
    }
    return 1;
}

static tn_operand *add_operand(one_loop *l, const tn_tensor *t, uint32_t flags)
{
    uint32_t i = l->nest.n_operands++;
    l->strides[i] = tn_dtype_bytes(t->desc.dtype);
    l->operands[i] = (tn_operand){.size = sizeof(tn_operand),
                                  .flags = flags,
                                  .dtype = t->desc.dtype,
                                  .byte_offset = t->desc.byte_offset,
                                  .allocation = t->desc.allocation,
                                  .host = t->desc.host,
                                  .strides = &l->strides[i]};
    return &l->operands[i];
}

/* A number in the dtype of the call, for the kernel to take by value. */
static __attribute__((noinline)) void add_number(one_loop *l, const tn_tensor *t, uint32_t i, tn_dtype dtype)
{
    tn_operand *o = add_operand(l, t, TN_OPERAND_IMMEDIATE);
    tni_element e;
    tni_element_load(t->desc.host, t->desc.dtype, &e);
    tni_element_store(l->numbers[i], dtype, &e);
    o->dtype = dtype;
    o->byte_offset = 0;
    o->allocation = NULL;
    o->host = l->numbers[i];
    l->strides[l->nest.n_operands - 1] = 0;
}

static void build_loop(one_loop *l, const inputs *in, const tn_tensor *out)
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
    add_operand(l, out, TN_OPERAND_OUTPUT);
    for (uint32_t i = 0; i < in->count; i++) {
        if (in->numbers >> i & 1u)
            add_number(l, in->tensors[i], i, in->model->desc.dtype);
        else
            add_operand(l, in->tensors[i], 0);
    }
}

/* The kernel that will run without being asked and takes numbers in the dtype of the call. */
static const tni_kernel *find_kernel(tni_frame *f, const inputs *in)
{
    f->device = in->model->desc.device;
    f->open_device = in->model->storage->device;
    f->stream = tni_current_stream(f->open_device);
    const tni_kernel *k = tni_kernel_first(f, f->op->base, f->call_dtype);
    return !k || k->row.can_run || (in->numbers && k->row.flags & TN_ROW_CASTS) ? NULL : k;
}

/* 1: done with *out_status; 0: the kernel would not. */
static inline int32_t run(tni_frame *f, const tni_kernel *k, const inputs *in, tn_tensor *out,
                          int32_t *out_status)
{
    one_loop loop;
    const char *reason;
    tn_value target = tn_value_tensor(out);
    build_loop(&loop, in, out);
    *out_status = tni_kernel_run(f, k, f->op->base, f->args, &target, &loop.nest, &reason);
    if (TNI_LIKELY(!*out_status)) {
        f->outs[0] = target;
        return 1;
    }
    tn_release(out);
    return *out_status != TN_E_UNSUPPORTED;
}

int32_t tni_run_alike(tni_frame *f, int32_t *out_status)
{
    const tni_op *base = f->op->base;
    tn_tensor *out = f->given[0];
    const tni_kernel *k;
    inputs in;
    tn_dtype dtype;
    *out_status = TN_OK;
    if (base->n_returns != 1 || !gather(f, &in)) return 0;
    dtype = find_dtypes(f, &in, out_status);
    if (*out_status) return 1;
    if (!dtype || (out && !fits_given(&in, out, dtype)) || !(k = find_kernel(f, &in))) return 0;
    if (base->entry->infer && (*out_status = base->entry->infer(f)) != TN_OK) return 1;
    if (!out) {
        *out_status = tni_tensor_like(in.model, dtype, &out);
        return *out_status ? 1 : run(f, k, &in, out, out_status);
    }
    if (!run(f, k, &in, tn_retain(out), out_status)) return 0;
    if (!*out_status) tni_bump_version(out);
    return 1;
}
