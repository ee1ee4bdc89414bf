/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators whose kernels take whole tensors: runs the shape rule, makes the outputs, copies arguments into the
 * dtype and strides that the row takes. Also operators whose base form writes in place (scatter_, index_put_,
 * random fills): their result is argument 0, and their functional form clones it and then runs in place.
 */
#include <string.h>
#include "core/graph.h"
#include "dispatcher/backend.h"

static int32_t blas_strides(const tn_tensor *t)
{
    uint32_t r = t->desc.rank;
    const int64_t *n = t->desc.sizes, *s = t->desc.strides;
    if (r < 2) return tni_is_contiguous(t);
    for (uint32_t d = 0; d < r; d++) {
        if (s[d] == 0 && n[d] > 1) return 0;
    }
    return (s[r - 1] == 1 && (s[r - 2] >= n[r - 1] || n[r - 2] == 1)) ||
           (s[r - 2] == 1 && (s[r - 1] >= n[r - 2] || n[r - 1] == 1));
}

/* The memory format of the arguments of a channels-last row. */
static int32_t format_of_call(const tni_frame *f)
{
    for (uint32_t i = 0; i < f->n_args; i++) {
        const tn_tensor *t = f->args[i].tag == TN_TAG_TENSOR ? f->args[i].as.tensor : NULL;
        if (!t || t->desc.rank < 4) continue;
        if (tni_is_contiguous(t)) return TN_CONTIGUOUS_FORMAT;
        return t->state & TNI_CHANNELS_LAST      ? TN_CHANNELS_LAST
               : t->state & TNI_CHANNELS_LAST_3D ? TN_CHANNELS_LAST_3D
                                                 : TN_CONTIGUOUS_FORMAT;
    }
    return TN_CONTIGUOUS_FORMAT;
}

/* What the row says of argument i alone, or NULL. */
static const tn_row_argument *row_argument(const tni_kernel *k, uint32_t i)
{
    return k->row.arguments && i < k->row.n_arguments ? &k->row.arguments[i] : NULL;
}

/* The memory format to copy t to, or -1 if the row takes it as it is. */
static int32_t wanted_format(uint32_t strides, const tn_tensor *t, int32_t format)
{
    uint32_t state = t->state;
    switch (strides) {
    case TN_STRIDES_ANY:
        return -1;
    case TN_STRIDES_BLAS:
        return blas_strides(t) ? -1 : TN_CONTIGUOUS_FORMAT;
    case TN_STRIDES_CHANNELS_LAST:
        if (format == TN_CHANNELS_LAST && t->desc.rank == 4)
            return state & TNI_CHANNELS_LAST ? -1 : TN_CHANNELS_LAST;
        if (format == TN_CHANNELS_LAST_3D && t->desc.rank == 5)
            return state & TNI_CHANNELS_LAST_3D ? -1 : TN_CHANNELS_LAST_3D;
        return tni_is_contiguous(t) ? -1 : TN_CONTIGUOUS_FORMAT;
    default:
        return tni_is_contiguous(t) ? -1 : TN_CONTIGUOUS_FORMAT;
    }
}

static int32_t takes_dtype(const tn_row_argument *a, tn_dtype dtype)
{
    const tn_dtype *d = a && a->dtypes ? a->dtypes : NULL;
    while (d && *d && *d != dtype) d++;
    return !d || *d;
}

/* A row-major copy in host memory for a row that takes the argument there; waits for it. */
static int32_t prepare_on_host(tni_prepared *p, tn_dtype dtype, tn_tensor **io)
{
    tn_tensor *t = *io, *copy;
    uint32_t lazy = t->desc.flags & (TN_DESC_CONJ | TN_DESC_NEG);
    if (t->storage->device && t->storage->device->synchronous && dtype == t->desc.dtype && !lazy &&
        tni_is_contiguous(t))
        return TN_OK;
    int32_t status = tni_tensor_create(t->ctx, TN_CPU, dtype, t->desc.rank, t->desc.sizes, NULL, &copy);
    if (!status && (status = tni_copy_tensor(copy, t)) != TN_OK) tn_release(copy);
    if (!status) status = tni_prepared_own(p, copy);
    if (!status) *io = copy;
    return status;
}

/* Replaces *io by a copy if the row needs another dtype, device or memory format. TN_E_UNSUPPORTED: the row does not
 * take its dtype. */
static int32_t prepare_tensor(tni_frame *f, tni_prepared *p, const tni_kernel *k, uint32_t arg,
                              int32_t format, tn_tensor **io)
{
    tn_tensor *t = *io, *copy;
    int32_t keep = f->keep_dtype >> arg & 1u;
    tn_dtype dtype = keep || !f->call_dtype || k->row.flags & TN_ROW_CASTS ? t->desc.dtype : f->call_dtype;
    uint32_t lazy = t->desc.flags & (TN_DESC_CONJ | TN_DESC_NEG);
    const tn_row_argument *a = row_argument(k, arg);
    int32_t foreign = t->desc.device != f->device,
            wanted = wanted_format(a ? a->strides : k->row.strides, t, format), status;
    if (!takes_dtype(a, dtype)) return TN_E_UNSUPPORTED;
    if (a && a->place == TN_PLACE_HOST) return prepare_on_host(p, dtype, io);
    if (dtype == t->desc.dtype && !foreign && wanted < 0 && (!lazy || k->row.flags & TN_ROW_LAZY_BITS))
        return TN_OK;
    if (foreign) {
        status = tni_tensor_create(f->ctx, f->device, dtype, t->desc.rank, t->desc.sizes, NULL, &copy);
        if (!status && (status = tni_copy_tensor(copy, t)) != TN_OK) tn_release(copy);
    } else {
        status = tni_contiguous_copy(t, dtype, wanted < 0 ? TN_PRESERVE_FORMAT : wanted, &copy);
    }
    if (!status) status = tni_prepared_own(p, copy);
    if (!status) *io = copy;
    return status;
}

static int32_t prepare_list(tni_frame *f, tni_prepared *p, const tni_kernel *k, uint32_t arg, int32_t format)
{
    const tn_value *v = &f->args[arg];
    tn_tensor **list = NULL;
    for (uint32_t i = 0; i < v->count; i++) {
        tn_tensor *t = v->as.tensors[i];
        int32_t status = t ? prepare_tensor(f, p, k, arg, format, &t) : TN_OK;
        if (status) return status;
        if (t == v->as.tensors[i]) continue;
        if (!list) {
            list = tni_prepared_list(p, f->ctx, v->count);
            if (!list) return TN_E_OUT_OF_MEMORY;
            memcpy(list, v->as.tensors, v->count * sizeof *list);
            p->args[arg] = tn_value_tensors(list, v->count);
        }
        list[i] = t;
    }
    return TN_OK;
}

static int32_t prepare_arguments(tni_frame *f, tni_prepared *p, const tni_kernel *k, int32_t skip)
{
    int32_t format = k->row.strides == TN_STRIDES_CHANNELS_LAST ? format_of_call(f) : TN_CONTIGUOUS_FORMAT;
    for (uint32_t i = 0; i < f->n_args; i++) {
        int32_t status = TN_OK;
        if ((int32_t)i == skip) continue;
        if (f->args[i].tag == TN_TAG_TENSOR) {
            tn_tensor *t = f->args[i].as.tensor;
            status = prepare_tensor(f, p, k, i, format, &t);
            p->args[i] = tn_value_tensor(t);
        } else if (f->args[i].tag == TN_TAG_TENSORS) {
            status = prepare_list(f, p, k, i, format);
        }
        if (status) return status;
    }
    return TN_OK;
}

static tn_dtype dtype_of_call(const tni_frame *f)
{
    if (f->call_dtype) return f->call_dtype;
    for (uint32_t i = 0; i < f->n_args; i++) {
        if (f->args[i].tag == TN_TAG_TENSOR) return f->args[i].as.tensor->desc.dtype;
        if (f->args[i].tag == TN_TAG_TENSORS) {
            for (uint32_t k = 0; k < f->args[i].count; k++) {
                if (f->args[i].as.tensors[k]) return f->args[i].as.tensors[k]->desc.dtype;
            }
        }
    }
    return f->meta[0].dtype;
}

static int32_t is_written(const tni_frame *f, uint32_t i)
{
    const tni_op *base = f->op->base;
    return f->args[i].tag == TN_TAG_TENSOR &&
           (base->entry->mutates >> i & 1u || base->schema->args[i].written);
}

/* Bumps the versions of arguments that are written besides the result. */
static void bump_written(const tni_frame *f)
{
    for (uint32_t i = 0; i < f->n_args; i++) {
        tn_value v = f->args[i];
        if (is_written(f, i)) tni_bump_version(v.as.tensor);
        for (uint32_t k = 0; v.tag == TN_TAG_TENSORS && f->op->base->schema->args[i].written && k < v.count;
             k++)
            tni_bump_version(v.as.tensors[k]);
    }
}

/* Copies what the kernel wrote to copies of such arguments into the arguments. */
static int32_t write_back(const tni_frame *f, const tni_prepared *p)
{
    int32_t status = TN_OK;
    for (uint32_t i = 0; i < f->n_args && !status; i++) {
        if (is_written(f, i) && p->args[i].as.tensor != f->args[i].as.tensor)
            status = tni_copy_tensor(f->args[i].as.tensor, p->args[i].as.tensor);
    }
    return status;
}

static const char other_dtype[] = "the row does not take the dtype of an argument";

/* Functional operators: new or given outputs. */
static int32_t run_functional(tni_frame *f, const tni_kernel *k, const char **reason)
{
    tn_tensor *targets[TNI_MAX_OUTPUTS];
    tni_prepared outputs = {.n_temporaries = 0};
    tn_dtype dtype = dtype_of_call(f);
    int32_t status = tni_make_outputs(f, &outputs, targets, 1);
    if (!status && k) {
        status = TN_E_UNSUPPORTED;
        for (; k && status == TN_E_UNSUPPORTED; k = tni_kernel_next(k, dtype)) {
            tni_prepared p;
            tni_prepared_init(&p, f);
            memcpy(p.outs, outputs.outs, p.n_outs * sizeof *p.outs);
            status = prepare_arguments(f, &p, k, -1);
            if (status == TN_E_UNSUPPORTED) *reason = other_dtype;
            if (!status) status = tni_kernel_run(f, k, p.args, p.outs, NULL, reason);
            if (!status) status = write_back(f, &p);
            tni_prepared_finish(&p);
        }
    }
    if (!status) status = tni_finish_outputs(f, targets);
    if (!status) bump_written(f);
    tni_prepared_finish(&outputs);
    return status;
}

/* Operators that write argument 0: the kernel writes it, or a copy that is then copied into it. */
static int32_t run_writing(tni_frame *f, const tni_kernel *k, const char **reason)
{
    tn_dtype dtype = dtype_of_call(f);
    tn_tensor *self = tni_arg_tensor(f, 0);
    int32_t status = TN_E_UNSUPPORTED;
    if (tni_overlaps_itself(self)) {
        return tni_fail(f, TN_E_ARGUMENT,
                        "unsupported operation: more than one element of the written-to tensor refers to a "
                        "single memory location. Please clone() the tensor before performing the operation.");
    }
    f->outs[0] = tn_value_tensor(tn_retain(self));
    if (!f->open_device && f->op->base->def) status = TN_OK; /* on `meta` there is nothing to write */
    for (; k && status == TN_E_UNSUPPORTED; k = tni_kernel_next(k, dtype)) {
        tni_prepared p;
        tn_tensor *t = self;
        tni_prepared_init(&p, f);
        status = prepare_tensor(f, &p, k, 0, TN_CONTIGUOUS_FORMAT, &t);
        p.args[0] = p.outs[0] = tn_value_tensor(t);
        for (uint32_t i = 1; i < p.n_outs; i++) p.outs[i] = tn_value_none();
        if (!status) status = prepare_arguments(f, &p, k, 0);
        if (status == TN_E_UNSUPPORTED) *reason = other_dtype;
        if (!status && self->numel) status = tni_kernel_run(f, k, p.args, p.outs, NULL, reason);
        if (!status) status = write_back(f, &p);
        tni_prepared_finish(&p);
    }
    if (!status) bump_written(f);
    return status;
}

/*
 * A copy of self for foo_ to write, of the broadcast size of self and mask if there is a mask. As in ATen the copy
 * is row-major where a kernel writes it (scatter, index_add) or a mask selects; else it has the strides of self.
 */
static int32_t clone_to_write(tni_frame *f, tn_tensor **out)
{
    const tni_op *base = f->op->base;
    tn_tensor *self = tni_arg_tensor(f, 0), *second = f->n_args > 1 ? tni_arg_tensor(f, 1) : NULL;
    tn_tensor *mask = second && !strcmp(f->op->schema->args[1].name, "mask") ? second : NULL;
    tni_shape shape = {.rank = 0};
    int32_t status = tni_broadcast(&shape, self->desc.rank, self->desc.sizes);
    if (!status && mask) status = tni_broadcast(&shape, mask->desc.rank, mask->desc.sizes);
    if (status) return status;
    if (shape.rank == self->desc.rank &&
        (!shape.rank || !memcmp(shape.sizes, self->desc.sizes, shape.rank * sizeof(int64_t)))) {
        int32_t row_major = mask || (base->kind == TNI_KIND_STRUCTURED && !base->copy_operator);
        return tni_contiguous_copy(self, self->desc.dtype,
                                   row_major ? TN_CONTIGUOUS_FORMAT : TN_PRESERVE_FORMAT, out);
    }
    status =
        tni_tensor_create(f->ctx, self->desc.device, self->desc.dtype, shape.rank, shape.sizes, NULL, out);
    if (status) return status;
    status = tni_copy_tensor(*out, self);
    if (status) tn_release(*out);
    return status;
}

/* foo of foo_: clones self and runs foo_ on the clone. */
static int32_t run_on_clone(tni_frame *f)
{
    tn_value args[TNI_MAX_ARGS], out = tn_value_none();
    tn_tensor *copy;
    int32_t status = clone_to_write(f, &copy);
    if (status) return status;
    memcpy(args, f->args, f->n_args * sizeof *args);
    args[0] = tn_value_tensor(copy);
    status = tni_call(f->ctx, f->op->base, args, f->n_args, &out, 1);
    tni_value_release(f->ctx, &out);
    if (status) {
        tn_release(copy);
        return status;
    }
    if (f->given[0]) {
        tni_out_strided(f, 0, copy->desc.dtype, copy->desc.rank, copy->desc.sizes, NULL);
        f->device = copy->desc.device;
        return tni_give_results(f, &(tn_value){.tag = TN_TAG_TENSOR, .as.tensor = copy}, 1);
    }
    f->outs[0] = tn_value_tensor(copy);
    return TN_OK;
}

int32_t tni_run_structured(tni_frame *f)
{
    const tni_op *base = f->op->base;
    const char *reason = "no kernel";
    const tni_kernel *k = NULL;
    int32_t writing = base->form == TNI_FORM_INPLACE && base->n_returns,
            status; /* else argument 0 is a list */
    if (writing && f->op != base) return run_on_clone(f);
    if (base->copy_operator && writing) {
        f->device = tni_arg_tensor(f, 0)->desc.device; /* the other arguments may be on any device */
        status = TN_OK;
    } else {
        status = base->n_tensors ? tni_check_devices(f) : TN_OK;
    }
    if (!status && base->entry->infer) status = base->entry->infer(f);
    if (!status && base->def) status = tni_custom_infer(f);
    if (status || f->done) return status;
    status = tni_find_device(f);
    if (status) return status;
    if (base->copy_operator) return base->copy_operator(f);
    if (!f->open_device && base->kind == TNI_KIND_DATA_DEPENDENT)
        return tni_fail(f, TN_E_UNSUPPORTED,
                        "the sizes of the result depend on the data, and meta tensors have none");
    if (f->open_device) {
        if (base->kind == TNI_KIND_DATA_DEPENDENT) {
            status = tni_capture_refuse(f->stream, "%s, whose result has a size that depends on the data,",
                                        tni_op_name(base));
            if (status) return status;
        }
        k = tni_kernel_first(f, base, dtype_of_call(f));
        if (!k) return tni_fall_back(f, reason);
    }
    status = writing ? run_writing(f, k, &reason) : run_functional(f, k, &reason);
    if (status != TN_E_UNSUPPORTED) return status;
    for (uint32_t i = 0; i < f->n_outs; i++) tni_value_release(f->ctx, &f->outs[i]);
    return tni_fall_back(f, reason);
}
