/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise operators: promotes dtypes, broadcasts, makes the outputs, casts operands, builds the loop nest.
 */
#include <assert.h>
#include <string.h>
#include "core/thread.h"
#include "dispatcher/backend.h"

typedef struct inputs {
    tn_tensor *tensors[TNI_MAX_OPERANDS];
    uint8_t position[TNI_MAX_OPERANDS]; /* of the argument */
    /* Values of the 0-dim tensors that are passed by value. */
    _Alignas(16) char scalars[TNI_MAX_OPERANDS][16];
    uint8_t is_scalar[TNI_MAX_OPERANDS];
    uint32_t count;
} inputs;

/* Pointwise operators are built in: each has a tensor among its arguments, and fewer than a loop nest takes. */
static void gather_inputs(const tni_frame *f, inputs *in)
{
    in->count = 0;
    for (uint32_t i = 0; i < f->n_args; i++) {
        if (f->args[i].tag != TN_TAG_TENSOR) continue;
        assert(in->count < TNI_MAX_OPERANDS - TNI_MAX_OUTPUTS / 2);
        in->tensors[in->count] = f->args[i].as.tensor;
        in->position[in->count] = (uint8_t)i;
        in->is_scalar[in->count++] = 0;
    }
    assert(in->count);
}

/* Whether all are contiguous tensors of the same dtype and shape, as in most calls. */
static int32_t all_alike(const inputs *in)
{
    const tn_tensor *a = in->tensors[0];
    if (a->desc.flags || !tni_is_contiguous(a)) return 0;
    for (uint32_t i = 1; i < in->count; i++) {
        const tn_tensor *b = in->tensors[i];
        if (b->desc.dtype != a->desc.dtype || b->desc.rank != a->desc.rank ||
            b->desc.device != a->desc.device || b->desc.flags || !tni_is_contiguous(b) ||
            b->numel != a->numel)
            return 0;
        for (uint32_t d = 0; d < a->desc.rank; d++) {
            if (a->desc.sizes[d] != b->desc.sizes[d]) return 0;
        }
    }
    return 1;
}

static tn_dtype common_dtype(tni_frame *f, const inputs *in)
{
    tni_promotion p = {0, 0, 0};
    for (uint32_t i = 0; i < in->count; i++) {
        const tn_tensor *t = in->tensors[i];
        tni_promotion_add(&p, t->desc.dtype, t->desc.rank == 0, (t->desc.flags & TN_DESC_WRAPPED) != 0);
    }
    return tni_promotion_result(&p, tni_default_dtype(f->ctx));
}

static int32_t find_dtypes(tni_frame *f, const inputs *in)
{
    tn_dtype common, out;
    uint32_t promote = f->op->base->promote;
    if (promote == TNI_PROMOTE_CUSTOM) return f->op->base->entry->promote_rule(f);
    common = promote == TNI_PROMOTE_SAME ? in->tensors[0]->desc.dtype : common_dtype(f, in);
    if (!common) return tni_fail(f, TN_E_DTYPE, "the arguments have no common dtype");
    out = common;
    if (promote == TNI_PROMOTE_FLOAT && tni_dtype_category(common) <= TNI_CATEGORY_INT) {
        common = out = tni_default_dtype(f->ctx);
    } else if (promote == TNI_PROMOTE_COMPARE) {
        out = TN_BOOL;
    } else if (promote == TNI_PROMOTE_LOGICAL) {
        out = TN_BOOL;
    } else if (promote == TNI_PROMOTE_REAL) {
        out = tni_dtype_to_real(common);
    }
    f->call_dtype = common;
    for (uint32_t i = 0; i < f->op->base->n_returns; i++) f->meta[i].dtype = out;
    return TN_OK;
}

static int32_t find_shape(tni_frame *f, const inputs *in, int32_t alike, tni_shape *shape)
{
    int64_t strides[TN_MAX_RANK];
    int32_t status = TN_OK;
    shape->rank = 0;
    if (alike) {
        shape->rank = in->tensors[0]->desc.rank;
        if (shape->rank) memcpy(shape->sizes, in->tensors[0]->desc.sizes, shape->rank * 8ull);
    } else {
        for (uint32_t i = 0; i < in->count && !status; i++) {
            status = tni_broadcast(shape, in->tensors[i]->desc.rank, in->tensors[i]->desc.sizes);
        }
        if (status) return status;
        tni_pointwise_strides((tn_tensor *const *)in->tensors, in->count, shape->rank, shape->sizes, strides);
    }
    for (uint32_t i = 0; i < f->op->base->n_returns && !status; i++) {
        status = tni_out_strided(f, i, f->meta[i].dtype, shape->rank, shape->sizes, alike ? NULL : strides);
    }
    return status;
}

static int32_t cast_operand(tni_frame *f, tni_prepared *p, const tni_kernel *k, inputs *in, uint32_t i)
{
    tn_tensor *t = in->tensors[i], *copy;
    int32_t kept = f->keep_dtype >> in->position[i] & 1u || k->row.flags & TN_ROW_CASTS;
    tn_dtype dtype = kept ? t->desc.dtype : f->call_dtype;
    uint32_t lazy = t->desc.flags & (TN_DESC_CONJ | TN_DESC_NEG);
    int32_t foreign = t->desc.device != f->device;
    int32_t status;
    if (t->desc.dtype == dtype && !foreign && (!lazy || k->row.flags & TN_ROW_LAZY_BITS)) return TN_OK;
    /* By value, unless unfinished work may still write it. */
    if (t->desc.rank == 0 && t->desc.host && t->storage->device->synchronous && !lazy) {
        tni_element e;
        tni_element_load(t->desc.host, t->desc.dtype, &e);
        tni_element_store(in->scalars[i], kept ? dtype : tni_scalar_dtype(k, dtype), &e);
        in->is_scalar[i] = 1;
        return TN_OK;
    }
    if (foreign) {
        status = tni_tensor_create(f->ctx, f->device, dtype, t->desc.rank, t->desc.sizes, NULL, &copy);
        if (!status && (status = tni_copy_tensor(copy, t)) != TN_OK) tn_release(copy);
    } else {
        status = tni_contiguous_copy(t, dtype, TN_PRESERVE_FORMAT, &copy);
    }
    if (!status) status = tni_prepared_own(p, copy);
    if (status) return status;
    in->tensors[i] = copy;
    p->args[in->position[i]] = tn_value_tensor(copy);
    return TN_OK;
}

static int32_t run_kernel(tni_frame *f, const tni_kernel *k, const inputs *in_as_given,
                          const tni_shape *shape, tn_tensor **targets, const tni_prepared *outputs,
                          const char **reason)
{
    inputs in = *in_as_given;
    tni_prepared p;
    tni_nest nest;
    int32_t status = TN_OK;
    tni_prepared_init(&p, f);
    memcpy(p.outs, outputs->outs, sizeof *p.outs * p.n_outs);
    for (uint32_t i = 0; i < in.count && !status; i++) status = cast_operand(f, &p, k, &in, i);
    if (!status) {
        tni_nest_init(&nest, shape->rank, shape->sizes);
        for (uint32_t i = 0; i < p.n_outs; i++) tni_nest_add(&nest, targets[i], TN_OPERAND_OUTPUT);
        for (uint32_t i = 0; i < in.count; i++) {
            int32_t kept = f->keep_dtype >> in.position[i] & 1u || k->row.flags & TN_ROW_CASTS;
            tn_dtype dtype = kept ? in.tensors[i]->desc.dtype : tni_scalar_dtype(k, f->call_dtype);
            if (in.is_scalar[i])
                tni_nest_add_immediate(&nest, in.scalars[i], dtype);
            else
                tni_nest_add(&nest, in.tensors[i], 0);
        }
        tni_nest_finish(&nest, 0);
        status = tni_kernel_run(f, k, p.args, p.outs, &nest.nest, reason);
    }
    tni_prepared_finish(&p);
    return status;
}

int32_t tni_run_pointwise(tni_frame *f)
{
    inputs in;
    tni_shape shape;
    tni_prepared outputs;
    tn_tensor *targets[TNI_MAX_OUTPUTS];
    const tni_kernel *k = NULL;
    const char *reason = "no kernel";
    int32_t alike, status = TN_OK;
    gather_inputs(f, &in);
    alike = all_alike(&in);
    if (alike)
        f->device = in.tensors[0]->desc.device;
    else
        status = tni_check_devices(f);
    if (!status) status = find_dtypes(f, &in);
    if (!status) status = find_shape(f, &in, alike, &shape);
    if (!status && f->op->base->entry->infer) status = f->op->base->entry->infer(f);
    if (!status) status = tni_find_device(f);
    if (status) return status;
    if (f->open_device) {
        k = tni_kernel_first(f, f->op->base, f->call_dtype);
        if (!k && f->op->base->promote == TNI_PROMOTE_LOGICAL) {
            f->call_dtype = TN_BOOL; /* only whether an element is zero matters */
            k = tni_kernel_first(f, f->op->base, TN_BOOL);
        }
        if (!k) return tni_fall_back(f, reason);
    }
    outputs.n_temporaries = 0;
    outputs.memory = NULL;
    status = tni_make_outputs(f, &outputs, targets, 0);
    if (!status && k && f->outs[0].as.tensor->numel > 0) {
        status = TN_E_UNSUPPORTED;
        while (k && status == TN_E_UNSUPPORTED) {
            status = run_kernel(f, k, &in, &shape, targets, &outputs, &reason);
            k = tni_kernel_next(k, f->call_dtype);
        }
    }
    if (!status) status = tni_finish_outputs(f, targets);
    tni_prepared_finish(&outputs);
    if (status == TN_E_UNSUPPORTED) {
        for (uint32_t i = 0; i < f->n_outs; i++) tni_value_release(f->ctx, &f->outs[i]);
        return tni_fall_back(f, reason);
    }
    return status;
}
