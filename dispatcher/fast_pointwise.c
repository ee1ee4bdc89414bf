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
    int64_t strides[3]; /* of the result, of the inputs, of numbers */
    tn_operand operands[MAX_ALIKE + 1];
    char numbers[MAX_ALIKE][16];
} one_loop;

static inline int32_t same_sizes(const tn_tensor *a, const tn_tensor *b)
{
    if (a->desc.rank != b->desc.rank) return 0;
    for (uint32_t d = 0; d < a->desc.rank; d++) {
        if (a->desc.sizes[d] != b->desc.sizes[d]) return 0;
    }
    return 1;
}

/* Row-major, on the model's device, of its sizes, and its elements are what the memory says. */
static inline int32_t same_geometry(const tn_tensor *model, const tn_tensor *t)
{
    return t->desc.device == model->desc.device && !t->desc.flags && tni_is_contiguous(t) &&
           same_sizes(model, t);
}

static inline int32_t same_kind(const tn_tensor *model, const tn_tensor *t)
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

static inline int32_t can_be_model(const tn_tensor *t)
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

static inline int32_t gather(const tni_frame *f, inputs *in)
{
    const tn_value *v = f->args, *end = v + f->n_args;
    uint32_t n = 0, alike = 1;
    for (; v < end; v++) {
        if (v->tag != TN_TAG_TENSOR) continue;
        if (n == MAX_ALIKE) return 0;
        in->tensors[n++] = v->as.tensor;
    }
    if (!n) return 0;
    in->count = n;
    in->numbers = 0;
    in->model = in->tensors[0];
    while (alike < n && same_kind(in->model, in->tensors[alike])) alike++;
    if (TNI_LIKELY(alike == n && can_be_model(in->model))) return 1;
    inputs sorted = *in; /* so that nobody else has the address of what the short way keeps in registers */
    int32_t simple = sort_out(&sorted);
    *in = sorted;
    return simple;
}

/* The dtype of the result, where it follows from that of the model; 0: not here. Sets f->call_dtype. */
static tn_dtype find_dtype(tni_frame *f, const inputs *in, int32_t *out_status)
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
static inline int32_t fits_given(const inputs *in, const tn_tensor *out, tn_dtype dtype)
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

static inline void show(tn_operand *o, const tn_tensor *t, uint32_t flags, const int64_t *stride)
{
    o->size = sizeof *o;
    o->flags = flags;
    o->dtype = t->desc.dtype;
    o->reserved = 0;
    o->byte_offset = t->desc.byte_offset;
    o->allocation = t->desc.allocation;
    o->host = t->desc.host;
    o->strides = stride;
}

/* A number in the dtype that the kernel takes, by value. */
static __attribute__((noinline)) void show_number(one_loop *l, uint32_t i, const tn_tensor *t, tn_dtype dtype)
{
    tn_operand *o = &l->operands[i + 1];
    tni_element e;
    tni_element_load(t->desc.host, t->desc.dtype, &e);
    tni_element_store(l->numbers[i], dtype, &e);
    l->strides[2] = 0;
    *o = (tn_operand){.size = sizeof *o,
                      .flags = TN_OPERAND_IMMEDIATE,
                      .dtype = dtype,
                      .host = l->numbers[i],
                      .strides = &l->strides[2]};
}

static inline void build_loop(one_loop *l, const tni_kernel *k, const inputs *in, const tn_tensor *out)
{
    uint32_t n = in->count, rank = out->numel != 1;
    tn_dtype dtype = in->model->desc.dtype;
    l->size = out->numel;
    l->strides[0] = tn_dtype_bytes(out->desc.dtype);
    l->strides[1] = tn_dtype_bytes(dtype);
    l->nest = (tn_nest){.size = sizeof l->nest,
                        .rank = rank,
                        .kept = rank,
                        .n_outputs = 1,
                        .n_operands = n + 1,
                        .operand_bytes = sizeof(tn_operand),
                        .numel = out->numel,
                        .sizes = &l->size,
                        .operands = l->operands};
    show(&l->operands[0], out, TN_OPERAND_OUTPUT, &l->strides[0]);
    for (uint32_t i = 0; i < n; i++) {
        if (TNI_UNLIKELY(in->numbers >> i & 1u))
            show_number(l, i, in->tensors[i], tni_scalar_dtype(k, dtype));
        else
            show(&l->operands[i + 1], in->tensors[i], 0, &l->strides[1]);
    }
}

/* 1 if numbers among the tensors, if there are some, change nothing of what is found. */
static inline int32_t is_untouched(const inputs *in, const tni_op *base, const tni_kernel *k)
{
    return !in->numbers || (base->promote == TNI_PROMOTE_COMMON && !(k->row.flags & TN_ROW_CASTS));
}

/* The kernel that will run without being asked and takes numbers in the dtype of the call; NULL: none, or an
 * error in *out_status. What depends on the dtype alone is noted in the first kernel of the operator. */
static __attribute__((noinline)) const tni_kernel *search(tni_frame *f, inputs in, tni_kernel *first,
                                                          tn_dtype *out_dtype, int32_t *out_status)
{
    tn_dtype dtype = *out_dtype = find_dtype(f, &in, out_status);
    if (!dtype || *out_status) return NULL;
    const tni_kernel *k = tni_kernel_for(first, f->call_dtype);
    if (!k || k->row.can_run || (in.numbers && k->row.flags & TN_ROW_CASTS)) return NULL;
    if (k == first && f->op->base->promote != TNI_PROMOTE_CUSTOM && is_untouched(&in, f->op->base, k))
        atomic_store_explicit(&first->fast_dtypes, (uint64_t)f->call_dtype << 32 | dtype,
                              memory_order_relaxed);
    return k;
}

/* The first kernel of the operator for the tensors' device; says in the frame where the call runs. */
static inline tni_kernel *first_kernel(tni_frame *f, const tn_tensor *model)
{
    tni_device *device = model->storage->device;
    f->device = model->desc.device;
    f->open_device = device;
    f->stream = tni_current_stream(device);
    return atomic_load_explicit(&f->op->base->kernels[device->type->slot], memory_order_acquire);
}

static inline __attribute__((always_inline)) int32_t run(tni_frame *f, const tni_kernel *k, const inputs *in,
                                                         tn_tensor *out)
{
    one_loop loop;
    const char *reason;
    tn_value target = tn_value_make(TN_TAG_TENSOR, 0);
    target.as.tensor = out;
    build_loop(&loop, k, in, out);
    int32_t status = tni_kernel_run(f, k, f->args, &target, &loop.nest, &reason);
    if (TNI_LIKELY(!status)) {
        f->outs[0].tag = TN_TAG_TENSOR; /* the rest is 0 */
        f->outs[0].as.tensor = out;
        return TN_OK;
    }
    tn_release(out);
    return status == TN_E_UNSUPPORTED ? TNI_NOT_FAST : status;
}

int32_t tni_run_fast_pointwise(tni_frame *f)
{
    const tni_op *base = f->op->base;
    tn_tensor *given = f->given[0], *out;
    inputs in;
    int32_t status;
    if (base->n_returns != 1 || !gather(f, &in)) return TNI_NOT_FAST;
    tni_kernel *first = first_kernel(f, in.model);
    if (TNI_UNLIKELY(!first)) return TNI_NOT_FAST;
    const tni_kernel *k = first;
    uint64_t known = atomic_load_explicit(&first->fast_dtypes, memory_order_relaxed);
    tn_dtype dtype = (tn_dtype)known;
    f->call_dtype = in.model->desc.dtype;
    if (TNI_UNLIKELY(known >> 32 != f->call_dtype || tni_kernel_is_disabled(first) ||
                     !is_untouched(&in, base, first))) {
        tn_dtype found = 0;
        int32_t failed = TN_OK;
        k = search(f, in, first, &found, &failed);
        if (!k) return failed ? failed : TNI_NOT_FAST;
        dtype = found;
    }
    if (given && !fits_given(&in, given, dtype)) return TNI_NOT_FAST;
    if (base->entry->infer && (status = base->entry->infer(f)) != TN_OK) return status;
    if (given) {
        status = run(f, k, &in, tn_retain(given));
        if (!status) tni_bump_version(given);
        return status;
    }
    status = tni_tensor_like(in.model, dtype, &out);
    return TNI_UNLIKELY(status) ? status : run(f, k, &in, out);
}
