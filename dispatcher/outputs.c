/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs of a call: new ones, or those given by in-place and out forms, checked for cast, size and overlap. */
#include <string.h>
#include "core/thread.h"
#include "dispatcher/backend.h"

void tni_prepared_init(tni_prepared *p, const tni_frame *f)
{
    p->n_temporaries = 0;
    p->memory = NULL;
    p->n_args = f->n_args;
    p->n_outs = f->op->base->n_returns;
    memcpy(p->args, f->args, f->n_args * sizeof *p->args);
}

static __attribute__((noinline)) void free_memory(tni_prepared *p)
{
    for (tni_prepared_memory *m = p->memory, *next; m; m = next) {
        next = m->next;
        for (uint64_t i = 0; i < m->n_tensors; i++) tn_release(((tn_tensor **)(m + 1))[i]);
        tni_free(m->ctx, m, m->bytes);
    }
    p->memory = NULL;
}

void tni_prepared_finish(tni_prepared *p)
{
    for (uint32_t i = 0; i < p->n_temporaries; i++) tn_release(p->temporaries[i]);
    p->n_temporaries = 0;
    if (TNI_UNLIKELY(p->memory != NULL)) free_memory(p);
}

tn_tensor **tni_prepared_list(tni_prepared *p, tn_context *ctx, uint32_t count)
{
    uint64_t bytes = sizeof(tni_prepared_memory) + count * sizeof(tn_tensor *);
    tni_prepared_memory *m = tni_alloc(ctx, bytes);
    if (!m) return NULL;
    *m = (tni_prepared_memory){.next = p->memory, .ctx = ctx, .bytes = bytes};
    p->memory = m;
    return (tn_tensor **)(m + 1);
}

int32_t tni_prepared_own(tni_prepared *p, tn_tensor *t)
{
    if (p->n_temporaries == TNI_PREPARED_TEMPORARIES) {
        tn_tensor **moved = tni_prepared_list(p, t->ctx, TNI_PREPARED_TEMPORARIES);
        if (!moved) {
            tn_release(t);
            return TN_E_OUT_OF_MEMORY;
        }
        memcpy(moved, p->temporaries, sizeof p->temporaries);
        p->memory->n_tensors = TNI_PREPARED_TEMPORARIES;
        p->n_temporaries = 0;
    }
    p->temporaries[p->n_temporaries++] = t;
    return TN_OK;
}

int32_t tni_find_device(tni_frame *f)
{
    if (!f->device) f->device = tni_tls.default_device ? tni_tls.default_device : TN_CPU;
    if (TN_DEVICE_TYPE(f->device) == TN_INTERNED_META) return TN_OK;
    f->open_device = tni_device_get(f->ctx, f->device);
    if (!f->open_device) return tn_last_error()->code; /* lost, for example */
    f->stream = tni_current_stream(f->open_device);
    return f->stream ? TN_OK : TN_E_OUT_OF_MEMORY;
}

int32_t tni_check_castable(tni_frame *f, tn_dtype from, tn_dtype to)
{
    if (from == to || tn_can_cast(from, to)) return TN_OK;
    (void)f;
    return tni_error(TN_E_DTYPE, "result type %s can't be cast to the desired output type %s",
                     tni_dtype_error_name(from), tni_dtype_error_name(to));
}

/* Whether the call says the dtype of its results, which those that it gives must have then. */
static int32_t has_dtype(const tni_frame *f)
{
    for (uint32_t i = 0; i < f->n_args; i++) {
        if (f->args[i].tag == TN_TAG_DTYPE) return 1;
    }
    return 0;
}

static int32_t check_dtype(tni_frame *f, tn_dtype result, tn_dtype given)
{
    if (result == given || !(f->op->is_out_exact || has_dtype(f)))
        return tni_check_castable(f, result, given);
    return tni_fail(f, TN_E_DTYPE, "Expected out tensor to have dtype %s, but got %s instead",
                    tni_dtype_cpp_name(result), tni_dtype_cpp_name(given));
}

static int32_t same_sizes(const tn_tensor *t, const tni_out_meta *m)
{
    return t->desc.rank == m->rank && (m->rank == 0 || memcmp(t->desc.sizes, m->sizes, m->rank * 8ull) == 0);
}

static int32_t resize_given(tn_tensor *t, const tni_out_meta *m)
{
    int64_t strides[TN_MAX_RANK];
    uint64_t numel = 1, bytes; /* unsigned: sizes beside a 0 may have any product */
    int32_t status = TN_OK;
    for (uint32_t i = 0; i < m->rank; i++) numel *= (uint64_t)m->sizes[i];
    if (m->has_strides)
        memcpy(strides, m->strides, m->rank * 8ull);
    else
        tni_contiguous_strides(m->rank, m->sizes, strides);
    bytes = (numel + (uint64_t)tni_tensor_offset(t)) * (uint64_t)tn_dtype_bytes(t->desc.dtype);
    if (bytes > t->storage->bytes) status = tni_storage_resize(t->storage, bytes);
    return status ? status : tni_tensor_set_view(t, m->rank, m->sizes, strides, tni_tensor_offset(t));
}

static int32_t shared_memory(tni_frame *f)
{
    return tni_fail(f, TN_E_ARGUMENT,
                    "unsupported operation: the tensors that are given for two results share memory. Please "
                    "give each result a tensor of its own.");
}

int32_t tni_check_results_apart(tni_frame *f)
{
    const tni_schema *s = f->op->schema;
    for (uint32_t i = 0; i < s->n_args; i++) {
        if (!s->args[i].written || f->args[i].tag != TN_TAG_TENSOR) continue;
        for (uint32_t k = 0; k < i; k++) {
            if (s->args[k].written && f->args[k].tag == TN_TAG_TENSOR &&
                tni_overlap(f->args[k].as.tensor, f->args[i].as.tensor) != TNI_OVERLAP_NONE)
                return shared_memory(f);
        }
    }
    return TN_OK;
}

/* Tensors without elements lie apart until they are resized. */
static int32_t check_apart_after_resize(tni_frame *f, uint32_t i)
{
    const tn_tensor *t = f->given[i];
    for (uint32_t k = 0; k < f->op->base->n_returns; k++) {
        const tn_tensor *other = f->given[k];
        if (other && other != t && tni_overlap(other, t) != TNI_OVERLAP_NONE) return shared_memory(f);
    }
    return TN_OK;
}

/* The bytes of its storage that given tensor i has after the call. */
static void bytes_after_call(const tni_frame *f, uint32_t i, uint64_t *begin, uint64_t *end)
{
    const tn_tensor *t = f->given[i];
    const tni_out_meta *m = &f->meta[i];
    uint64_t n = t->numel == 0 ? 0 : 1;
    if (m->defined && !same_sizes(t, m)) {
        n = 1;
        for (uint32_t d = 0; d < m->rank; d++) n *= (uint64_t)m->sizes[d];
    } else {
        for (uint32_t d = 0; d < t->desc.rank && n; d++)
            n += (uint64_t)((t->desc.sizes[d] - 1) * t->desc.strides[d]);
    }
    *begin = t->desc.byte_offset;
    *end = *begin + n * (uint64_t)tn_dtype_bytes(t->desc.dtype);
}

/* For given tensor i, which is resized after the kernel has run: fails if it would then overlap another result. */
static int32_t check_apart_at_finish(tni_frame *f, uint32_t i)
{
    uint64_t begin, end, other_begin, other_end;
    bytes_after_call(f, i, &begin, &end);
    for (uint32_t k = 0; k < f->op->base->n_returns; k++) {
        if (k == i || !f->given[k] || f->given[k]->storage != f->given[i]->storage) continue;
        bytes_after_call(f, k, &other_begin, &other_end);
        if (begin < other_end && other_begin < end) return shared_memory(f);
    }
    return TN_OK;
}

static int32_t wrong_sizes(tni_frame *f, const tn_tensor *t, const tni_out_meta *m)
{
    char a[256], b[256];
    return tni_fail(f, TN_E_SHAPE, "output with shape %s doesn't match the broadcast shape %s",
                    tni_shape_text(t->desc.rank, t->desc.sizes, a, sizeof a),
                    tni_shape_text(m->rank, m->sizes, b, sizeof b));
}

/* The dtype and the device of a given tensor. */
static int32_t check_place(tni_frame *f, const tn_tensor *t, const tni_out_meta *m)
{
    char a[256], b[256];
    int32_t status = check_dtype(f, m->dtype, t->desc.dtype);
    if (status || t->desc.device == f->device) return status;
    tn_device_format(f->ctx, f->device, a, sizeof a);
    tn_device_format(f->ctx, t->desc.device, b, sizeof b);
    return tni_fail(f, TN_E_DEVICE, "Expected out tensor to have device %s, but got %s instead", a, b);
}

int32_t tni_check_given(tni_frame *f, uint32_t i)
{
    tn_tensor *t = f->given[i];
    const tni_out_meta *m = &f->meta[i];
    int32_t status = check_place(f, t, m);
    if (status) return status;
    if (!same_sizes(t, m)) {
        if (f->op->form != TNI_FORM_OUT) return wrong_sizes(f, t, m);
        status = resize_given(t, m);
        return status ? status : check_apart_after_resize(f, i);
    }
    if (tni_overlaps_itself(t)) {
        return tni_fail(f, TN_E_ARGUMENT,
                        "unsupported operation: more than one element of the written-to tensor refers to a "
                        "single memory location. Please clone() the tensor before performing the operation.");
    }
    return TN_OK;
}

/* Copies `from` into a given tensor, which is resized if its sizes differ from those of `m`. Without `m`, those of
 * `from` count. */
static int32_t give_copy(tn_tensor *given, tn_tensor *from, const tni_out_meta *m)
{
    const tni_out_meta own = {.rank = from->desc.rank, .sizes = (int64_t *)(uintptr_t)from->desc.sizes};
    if (!m) m = &own;
    int32_t status = same_sizes(given, m) ? TN_OK : resize_given(given, m);
    return status ? status : tni_copy_tensor(given, from);
}

int32_t tni_give_item(tni_frame *f, tn_tensor *given, tn_tensor *item)
{
    int32_t status = check_dtype(f, item->desc.dtype, given->desc.dtype);
    if (!status) status = give_copy(given, item, NULL);
    if (!status) tni_bump_version(given);
    return status;
}

/* The worst TNI_OVERLAP_... of an output with the inputs. */
static int32_t overlap_with_inputs(const tni_frame *f, const tn_tensor *t)
{
    int32_t worst = TNI_OVERLAP_NONE;
    for (uint32_t i = 0; i < f->n_args; i++) {
        const tn_value *v = &f->args[i];
        uint32_t n = v->tag == TN_TAG_TENSOR ? 1 : v->tag == TN_TAG_TENSORS ? v->count : 0;
        for (uint32_t k = 0; k < n; k++) {
            const tn_tensor *in = v->tag == TN_TAG_TENSOR ? v->as.tensor : v->as.tensors[k];
            int32_t o = !in || in == t ? (in ? TNI_OVERLAP_FULL : TNI_OVERLAP_NONE) : tni_overlap(t, in);
            if (o > worst) worst = o;
        }
    }
    return worst;
}

static int32_t same_strides(const tn_tensor *t, const tni_out_meta *m)
{
    if (!m->has_strides) return tni_is_contiguous(t);
    for (uint32_t d = 0; d < m->rank; d++) {
        if (m->sizes[d] != 1 && t->desc.strides[d] != m->strides[d]) return 0;
    }
    return 1;
}

/* Whether the call reads the tensor itself, not only its memory. */
static int32_t is_read(const tni_frame *f, const tn_tensor *t)
{
    const tni_schema *s = f->op->base->schema;
    for (uint32_t i = 0; i < f->n_args; i++) {
        const tn_value *v = &f->args[i];
        uint32_t n = v->tag == TN_TAG_TENSOR ? 1 : v->tag == TN_TAG_TENSORS ? v->count : 0;
        for (uint32_t k = 0; k < n && !s->args[i].written; k++) {
            if ((v->tag == TN_TAG_TENSOR ? v->as.tensor : v->as.tensors[k]) == t) return 1;
        }
    }
    return 0;
}

static int32_t make_temporary(tni_frame *f, tni_prepared *p, const tni_out_meta *m, tn_tensor **target)
{
    int32_t status = tni_tensor_create(f->ctx, f->device, m->dtype, m->rank, m->sizes,
                                       m->has_strides ? m->strides : NULL, target);
    return status ? status : tni_prepared_own(p, *target);
}

static int32_t make_given(tni_frame *f, tni_prepared *p, uint32_t i, int32_t strict, tn_tensor **target)
{
    tn_tensor *t = f->given[i];
    const tni_out_meta *m = &f->meta[i];
    int32_t overlap, status;
    if (TNI_UNLIKELY(!same_sizes(t, m)) && f->op->form != TNI_FORM_INPLACE && is_read(f, t)) {
        /* The kernel needs the argument as it is: it gets the other size when the result is known. */
        if (f->op->base->kind == TNI_KIND_POINTWISE) return wrong_sizes(f, t, m);
        status = check_place(f, t, m);
        if (!status) status = check_apart_at_finish(f, i);
        if (!status) f->outs[i] = tn_value_tensor(tn_retain(t));
        return status ? status : make_temporary(f, p, m, target);
    }
    status = tni_check_given(f, i);
    if (status) return status;
    overlap = overlap_with_inputs(f, t);
    if (overlap == TNI_OVERLAP_PARTIAL && !strict) {
        return tni_fail(
            f, TN_E_ARGUMENT,
            "unsupported operation: some elements of the input tensor and the written-to tensor "
            "refer to a single memory location. Please clone() the tensor before performing the operation.");
    }
    f->outs[i] = tn_value_tensor(tn_retain(t));
    if (t->desc.dtype == m->dtype && !(t->desc.flags & (TN_DESC_CONJ | TN_DESC_NEG)) &&
        (!strict || (same_strides(t, m) && overlap == TNI_OVERLAP_NONE))) {
        *target = t;
        return TN_OK;
    }
    return make_temporary(f, p, m, target);
}

int32_t tni_make_outputs(tni_frame *f, tni_prepared *p, tn_tensor **targets, int32_t strict)
{
    uint32_t n = f->op->base->n_returns;
    for (uint32_t i = 0; i < n; i++) {
        const tni_out_meta *m = &f->meta[i];
        int32_t status;
        targets[i] = NULL;
        p->outs[i] = tn_value_none();
        if (!m->defined) continue;
        if (f->given[i]) {
            status = make_given(f, p, i, strict, &targets[i]);
        } else {
            status = tni_tensor_create(f->ctx, f->device, m->dtype, m->rank, m->sizes,
                                       m->has_strides ? m->strides : NULL, &targets[i]);
            if (!status) f->outs[i] = tn_value_tensor(targets[i]);
        }
        if (status) return status;
        p->outs[i] = tn_value_tensor(targets[i]);
    }
    return TN_OK;
}

int32_t tni_finish_outputs(tni_frame *f, tn_tensor **targets)
{
    for (uint32_t i = 0; i < f->op->base->n_returns; i++) {
        tn_tensor *t = f->given[i];
        if (!t) continue;
        if (targets[i] && targets[i] != t) {
            /* A kernel that determines the size of its result has resized the temporary. */
            const tni_out_meta *m = same_sizes(targets[i], &f->meta[i]) ? &f->meta[i] : NULL;
            int32_t status = give_copy(t, targets[i], m);
            if (status) return status;
        }
        tni_bump_version(t);
    }
    return TN_OK;
}
