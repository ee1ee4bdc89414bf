/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast path of pointwise operators, for calls whose tensors have the same dtype, shape and device and are
 * contiguous: they need no promotion, no broadcasting and no casts, and their loop nest has one dimension.
 * Scalars (0-dim host tensors) may stand among them if they do not change the dtype. The result may be given,
 * by in-place and out forms, if it has the geometry of the inputs. All other calls return TNI_NOT_FAST before
 * they have any effect.
 */
#include <assert.h>
#include <string.h>
#include "core/thread.h"
#include "dispatcher/backend.h"

#define MAX_INPUTS 6

typedef struct inputs {
    tn_tensor *tensors[MAX_INPUTS];
    uint32_t count;
    uint32_t scalars; /* bits of the inputs that are scalars */
    tn_tensor *model; /* the input whose dtype and geometry the others must have */
} inputs;

/* The loop nest of such a call, with what it points to. */
typedef struct one_loop {
    tn_nest nest;
    int64_t size;
    int64_t strides[3]; /* of the result, of the inputs, of scalars */
    tn_operand operands[MAX_INPUTS + 1];
    _Alignas(16) char scalars[MAX_INPUTS][16];
} one_loop;

static inline int32_t same_sizes(const tn_tensor *a, const tn_tensor *b)
{
    if (a->desc.rank != b->desc.rank) return 0;
    for (uint32_t d = 0; d < a->desc.rank; d++) {
        if (a->desc.sizes[d] != b->desc.sizes[d]) return 0;
    }
    return 1;
}

/* Contiguous, on the model's device, of its sizes, and read as stored (not conjugated or negated). */
static inline int32_t same_geometry(const tn_tensor *model, const tn_tensor *t)
{
    return t->desc.device == model->desc.device && !t->desc.flags && tni_is_contiguous(t) &&
           same_sizes(model, t);
}

static inline int32_t is_like(const tn_tensor *model, const tn_tensor *t)
{
    return t->desc.dtype == model->desc.dtype && same_geometry(model, t);
}

/* A 0-dim host tensor that does not change the dtype of the call: by ATen's promotion tensors with dimensions
 * win over 0-dim ones of the same category, and both win over wrapped scalars. */
static int32_t is_scalar(const tn_tensor *model, const tn_tensor *t)
{
    int32_t wrapped = (t->desc.flags & TN_DESC_WRAPPED) != 0;
    return t->desc.rank == 0 && t->desc.device == TN_CPU && t->desc.host && (model->desc.rank || wrapped) &&
           !(t->desc.flags & ~TN_DESC_WRAPPED) &&
           tni_dtype_category(t->desc.dtype) <= tni_dtype_category(model->desc.dtype);
}

/* The first tensor with dimensions, else the first that is not a wrapped scalar; NULL if all are. */
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

/* Finds the model among inputs that are not all alike, and marks the scalars. At most one 0-dim tensor may
 * stand beside the model: two could promote each other. */
static __attribute__((noinline)) int32_t mark_scalars(inputs *in)
{
    uint32_t zeros = 0;
    in->model = find_model(in);
    if (!in->model || !can_be_model(in->model)) return 0;
    for (uint32_t i = 0; i < in->count; i++) {
        const tn_tensor *t = in->tensors[i];
        if (t == in->model || is_like(in->model, t)) continue;
        if (!is_scalar(in->model, t)) return 0;
        in->scalars |= 1u << i;
        zeros += !t->desc.flags;
    }
    return zeros <= 1;
}

static inline int32_t gather(const tni_frame *f, inputs *in)
{
    const tn_value *v = f->args, *end = v + f->n_args;
    uint32_t n = 0, n_alike = 1;
    for (; v < end; v++) {
        if (v->tag != TN_TAG_TENSOR) continue;
        assert(n < MAX_INPUTS);
        in->tensors[n++] = v->as.tensor;
    }
    if (!n) __builtin_unreachable(); /* a pointwise call has a tensor */
    in->count = n;
    in->scalars = 0;
    in->model = in->tensors[0];
    while (n_alike < n && is_like(in->model, in->tensors[n_alike])) n_alike++;
    if (TNI_LIKELY(n_alike == n && can_be_model(in->model))) return 1;
    inputs sorted = *in; /* a copy, so that `in` itself can stay in registers */
    int32_t fast = mark_scalars(&sorted);
    *in = sorted;
    return fast;
}

/* The dtype of the result if it follows from the model's, else 0. Sets f->call_dtype. */
static tn_dtype find_dtype(tni_frame *f, const inputs *in, int32_t *out_status)
{
    const tni_op *base = f->op->base;
    tn_dtype dtype = in->model->desc.dtype;
    f->call_dtype = dtype;
    switch (base->promote) {
    case TNI_PROMOTE_COMMON:
        return dtype;
    case TNI_PROMOTE_SAME:
        return in->scalars & 1u ? 0 : dtype;
    case TNI_PROMOTE_FLOAT:
        return tni_dtype_category(dtype) >= TNI_CATEGORY_FLOAT ? dtype : 0;
    case TNI_PROMOTE_COMPARE:
        return TN_BOOL;
    case TNI_PROMOTE_CUSTOM:
        if (in->scalars) return 0;
        *out_status = base->entry->promote_rule(f);
        return f->call_dtype == dtype && !f->keep_dtype ? f->meta[0].dtype : 0;
    default:
        return 0;
    }
}

/* Whether the kernel can write to a given result directly: it has the dtype of the result and the geometry of
 * the inputs, and does not partially overlap an input. */
static inline int32_t fits_given(const inputs *in, const tn_tensor *out, tn_dtype dtype)
{
    if (out->desc.dtype != dtype || !same_geometry(in->model, out)) return 0;
    for (uint32_t i = 0; i < in->count; i++) {
        const tn_tensor *t = in->tensors[i];
        if (t == out || t->storage != out->storage) continue;
        if (in->scalars >> i & 1u || t->desc.byte_offset != out->desc.byte_offset || t->desc.dtype != dtype)
            return 0;
    }
    return 1;
}

static inline void describe(tn_operand *o, const tn_tensor *t, uint32_t flags, const int64_t *stride)
{
    o->size = sizeof *o;
    o->flags = flags;
    o->dtype = t->desc.dtype;
    o->reserved = 0;
    o->byte_offset = t->desc.byte_offset;
    o->allocation = t->desc.allocation;
    o->host = t->desc.host;
    o->address = t->desc.address;
    o->strides = stride;
}

/* A scalar by value, in the dtype that the kernel takes. */
static __attribute__((noinline)) void describe_scalar(one_loop *l, uint32_t i, const tn_tensor *t,
                                                      tn_dtype dtype)
{
    tn_operand *o = &l->operands[i + 1];
    tni_element e;
    tni_element_load(t->desc.host, t->desc.dtype, &e);
    tni_element_store(l->scalars[i], dtype, &e);
    l->strides[2] = 0;
    *o = (tn_operand){.size = sizeof *o,
                      .flags = TN_OPERAND_IMMEDIATE,
                      .dtype = dtype,
                      .host = l->scalars[i],
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
    describe(&l->operands[0], out, TN_OPERAND_OUTPUT, &l->strides[0]);
    for (uint32_t i = 0; i < n; i++) {
        if (TNI_UNLIKELY(in->scalars >> i & 1u))
            describe_scalar(l, i, in->tensors[i], tni_scalar_dtype(k, dtype));
        else
            describe(&l->operands[i + 1], in->tensors[i], 0, &l->strides[1]);
    }
}

/* Whether the kernel and the dtype of the result are the same as they would be without the scalars. */
static inline int32_t scalars_change_nothing(const inputs *in, const tni_op *base, const tni_kernel *k)
{
    return !in->scalars || (base->promote == TNI_PROMOTE_COMMON && !(k->row.flags & TN_ROW_CASTS));
}

/* The kernel for the call if it has no can_run and takes scalars in the dtype of the call; else NULL, with an
 * error in *out_status if there was one. What follows from the dtype alone is noted in the first kernel. */
static __attribute__((noinline)) const tni_kernel *search(tni_frame *f, inputs in, tni_kernel *first,
                                                          tn_dtype *out_dtype, int32_t *out_status)
{
    tn_dtype dtype = *out_dtype = find_dtype(f, &in, out_status);
    if (!dtype || *out_status) return NULL;
    const tni_kernel *k = tni_kernel_for(first, f->call_dtype);
    if (!k || k->row.can_run || (in.scalars && k->row.flags & TN_ROW_CASTS)) return NULL;
    if (k == first && f->op->base->promote != TNI_PROMOTE_CUSTOM &&
        scalars_change_nothing(&in, f->op->base, k))
        atomic_store_explicit(&first->fast_dtypes, (uint64_t)f->call_dtype << 32 | dtype,
                              memory_order_relaxed);
    return k;
}

/* The first kernel of the operator for the model's device, which becomes the device of the call. */
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
                     !scalars_change_nothing(&in, base, first))) {
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
