/* SPDX-License-Identifier: Apache-2.0 */
/* The entry of the backend: chooses by the kind of the operator. Runs composites and views. */
#include <string.h>
#include "core/thread.h"
#include "dispatcher/backend.h"
#include "dispatcher/call.h"
#include "dispatcher/custom.h"

/* The out form of an operator whose result i is a list: its items go into the tensors of the given list. */
static int32_t give_list(tni_frame *f, uint32_t i, const tn_value *list)
{
    const tn_value *given = &f->args[f->op->base->n_args + i];
    int32_t status = TN_OK;
    if (given->count != list->count)
        return tni_fail(f, TN_E_ARGUMENT,
                        "argument '%s': the number of tensors is wrong (got %u, expected %u)",
                        f->op->schema->args[f->op->base->n_args + i].name, given->count, list->count);
    for (uint32_t k = 0; k < list->count && !status; k++)
        status = tni_give_item(f, given->as.tensors[k], list->as.tensors[k]);
    return status;
}

int32_t tni_give_results(tni_frame *f, tn_value *results, uint32_t n)
{
    int32_t status = TN_OK;
    for (uint32_t i = 0; i < n; i++) {
        if (results[i].tag == TN_TAG_TENSORS && f->op->form == TNI_FORM_OUT) {
            if (!status) status = give_list(f, i, &results[i]);
            tni_value_release(f->ctx, &results[i]);
            continue;
        }
        tn_tensor *t = tn_value_as_tensor(results[i]);
        if (status || !t || !f->given[i] || f->given[i] == t) {
            if (status)
                tni_value_release(f->ctx, &results[i]);
            else
                f->outs[i] = results[i];
            continue;
        }
        f->device = t->desc.device;
        status = tni_out(f, i, t->desc.dtype, t->desc.rank, t->desc.sizes);
        if (!status) status = tni_check_given(f, i);
        if (!status) status = tni_copy_tensor(f->given[i], t);
        if (!status) {
            tni_bump_version(f->given[i]);
            f->outs[i] = tn_value_tensor(tn_retain(f->given[i]));
        }
        tni_value_release(f->ctx, &results[i]);
    }
    return status;
}

/* Takes a reference to a result of a composite for the caller. */
static int32_t take_result(tni_frame *f, tn_scope *s, const tn_value *v, tn_value *out)
{
    *out = *v;
    if (v->tag == TN_TAG_TENSOR) {
        tn_retain(v->as.tensor);
    } else if (v->tag == TN_TAG_TENSORS) {
        tn_tensor **list = tni_alloc(f->ctx, (v->count ? v->count : 1) * sizeof *list);
        if (!list) {
            *out = tn_value_none();
            return tni_scope_record(s, TN_E_OUT_OF_MEMORY);
        }
        for (uint32_t i = 0; i < v->count; i++) list[i] = tn_retain(v->as.tensors[i]);
        out->as.tensors = list;
    } else if (v->tag == TN_TAG_COMPLEX) {
        double *pair = tni_alloc(f->ctx, 2 * sizeof *pair);
        if (!pair) {
            *out = tn_value_none();
            return tni_scope_record(s, TN_E_OUT_OF_MEMORY);
        }
        memcpy(pair, v->as.floats, 2 * sizeof *pair);
        *out = tn_value_complex(pair);
    }
    return TN_OK;
}

/* Whether the call asks with a list of bools (output_mask) for some results only. */
static int32_t has_output_mask(const tni_op *op)
{
    for (uint32_t i = 0; i < op->schema->n_args; i++) {
        if (op->schema->args[i].type == TNI_TYPE_BOOL && op->schema->args[i].is_list) return 1;
    }
    return 0;
}

/* A call that succeeds has its results. */
static int32_t check_absent(const tni_frame *f, uint32_t i, const tn_value *result)
{
    const tni_op *op = f->op->base;
    return f->given[i] || has_output_mask(op) ? TN_OK : tni_check_result(op, i, result);
}

int32_t tni_run_composite(tni_frame *f)
{
    const tni_op_entry *e = f->op->base->entry;
    tn_value results[TNI_MAX_OUTPUTS], taken[TNI_MAX_OUTPUTS];
    int32_t foreach = f->op->kind == TNI_KIND_FOREACH;
    uint32_t n = foreach ? f->op->n_returns : f->op->base->n_returns;
    tn_scope *s = tn_scope_open(f->ctx);
    int32_t status;
    if (!s) return TN_E_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < n; i++) results[i] = taken[i] = tn_value_none();
    if (f->op->base->def)
        tni_custom_composite(f, s, results);
    else if (foreach)
        tni_composite_foreach(f, s, results);
    else if (e->calls)
        tni_composite_redirect(s, f->op->base, f->args, results);
    else
        e->composite(s, f->args, results);
    for (uint32_t i = 0; i < n && !tn_scope_failed(s); i++) {
        take_result(f, s, &results[i], &taken[i]);
        if (results[i].tag == TN_TAG_NONE) tni_scope_record(s, check_absent(f, i, &results[i]));
    }
    status = tn_scope_failed(s);
    if (status) {
        for (uint32_t i = 0; i < n; i++) tni_value_release(f->ctx, &taken[i]);
        tni_error_restore(tn_scope_error(s));
    }
    tn_scope_close(s);
    return status ? status : tni_give_results(f, taken, n);
}

/* In-place views such as transpose_: self gets the geometry of the view. */
static int32_t view_in_place(tni_frame *f)
{
    tn_tensor *self = f->given[0], *view = tn_value_as_tensor(f->outs[0]);
    int32_t status = tni_tensor_set_view(self, view->desc.rank, view->desc.sizes, view->desc.strides,
                                         tni_tensor_offset(view));
    tn_release(view);
    f->outs[0] = status ? tn_value_none() : tn_value_tensor(tn_retain(self));
    return status;
}

/* As in ATen, a view in place raises the version, also if it changes nothing; detach_ does not. */
int32_t tni_run_view(tni_frame *f)
{
    int32_t status = f->op->base->entry->infer(f);
    if (status || f->op->form != TNI_FORM_INPLACE) return status;
    if (f->outs[0].as.tensor != f->given[0]) status = view_in_place(f);
    if (!status && f->op->base->entry->unrecorded != TNI_UNRECORDED_DETACH) tni_bump_version(f->given[0]);
    return status;
}

/* ---- dtypes that an operator does not take ---- */

static int32_t takes_dtype(uint32_t takes, tn_dtype dtype)
{
    int32_t category = tni_dtype_category(dtype);
    int32_t is_float = category == TNI_CATEGORY_FLOAT, is_complex = category == TNI_CATEGORY_COMPLEX;
    switch (takes) {
    case TNI_TAKES_FLOATS:
        return is_float;
    case TNI_TAKES_FLOATS_AND_BYTE:
        return is_float || dtype == TN_UINT8;
    case TNI_TAKES_FLOATS_AND_LONG:
        return is_float || dtype == TN_INT64;
    case TNI_TAKES_FLOATS_AND_COMPLEX:
        return is_float || is_complex;
    case TNI_TAKES_ALL_BUT_BOOL:
        return dtype != TN_BOOL;
    case TNI_TAKES_INTEGERS_AND_FLOATS:
        return dtype != TN_BOOL && !is_complex;
    case TNI_TAKES_ALL_BUT_INTEGERS:
        return dtype == TN_BOOL || is_float || is_complex;
    default:
        return 1;
    }
}

/* The dtype that decides: that of the first tensor; for pointwise operators and composites, which promote, of the highest
 * category. */
static tn_dtype deciding_dtype(const tni_frame *f)
{
    uint32_t kind = f->op->base->kind;
    tn_dtype dtype = 0;
    for (uint32_t i = 0; i < f->n_args; i++) {
        tn_dtype next = f->args[i].tag == TN_TAG_TENSOR ? f->args[i].as.tensor->desc.dtype : 0;
        if (!next || (dtype && tni_dtype_category(next) <= tni_dtype_category(dtype))) continue;
        dtype = next;
        if (kind != TNI_KIND_POINTWISE && kind != TNI_KIND_COMPOSITE) break;
    }
    return dtype;
}

static __attribute__((noinline)) int32_t check_dtype(const tni_frame *f)
{
    tn_dtype dtype = deciding_dtype(f);
    if (!dtype || tni_dtype_is_vendor(dtype) || takes_dtype(f->op->base->takes, dtype)) return TN_OK;
    return tni_fail(f, TN_E_UNSUPPORTED, "\"%s\" not implemented for '%s'", f->op->base->schema->name,
                    tni_dtype_error_name(dtype));
}

static int32_t run_kind(tni_frame *f)
{
    int32_t status = f->op->base->takes ? check_dtype(f) : TN_OK;
    if (status) return status;
    switch (f->op->base->kind) {
    case TNI_KIND_POINTWISE:
        return tni_run_elementwise(f);
    case TNI_KIND_REDUCTION:
        return tni_run_reduction(f);
    case TNI_KIND_SCAN:
        return tni_run_scan(f);
    case TNI_KIND_VIEW:
        return tni_run_view(f);
    case TNI_KIND_COMPOSITE:
        /* foo of foo_: the composite writes argument 0, so it gets a clone. */
        if (f->op->base->form == TNI_FORM_INPLACE && f->op != f->op->base) return tni_run_structured(f);
        if (f->op->base->entry
                ->infer) { /* checks arguments that the composite does not see, or has the result */
            status = f->op->base->entry->infer(f);
            if (status || f->done) return status;
        }
        return tni_run_composite(f);
    case TNI_KIND_FOREACH:
        return tni_run_composite(f);
    default:
        return tni_run_structured(f);
    }
}

/* The argument with a name; for an option that the out form lacks, that of the given output. */
static tn_value argument_named(const tni_frame *f, const char *name, const tn_tensor *out)
{
    const tni_schema *s = f->op->schema;
    for (uint32_t i = 0; i < s->n_args; i++) {
        if (!strcmp(s->args[i].name, name)) return f->args[i];
    }
    if (!strcmp(name, "dtype")) return tn_value_dtype(out->desc.dtype);
    if (!strcmp(name, "device")) return tn_value_device(out->desc.device);
    return tn_value_none();
}

/* Operators that are not built in. */
static int32_t run_custom_out(tni_frame *f)
{
    for (uint32_t i = 0; i < f->op->n_returns; i++) f->given[i] = tni_written_argument(f, i);
    return run_kind(f);
}

/* Out forms of factories lack the arguments dtype, layout and device: the output determines them. */
static __attribute__((noinline)) int32_t run_without_options(tni_frame *f)
{
    const tni_op *op = f->op;
    const tn_value *given = f->args;
    tn_value args[TNI_MAX_ARGS];
    if (op->def) return run_custom_out(f);
    for (uint32_t i = 0; i < op->n_returns; i++)
        f->given[i] = tni_arg_tensor(f, op->n_args - op->n_returns + i);
    for (uint32_t i = 0; i < f->n_args; i++)
        args[i] = argument_named(f, op->base->schema->args[i].name, f->given[0]);
    f->args = args;
    int32_t status = run_kind(f);
    f->args = given; /* the layers around this one read them */
    return status;
}

int32_t tni_run(tni_frame *f)
{
    const tni_op *op = f->op;
    if (op->form == TNI_FORM_OUT) {
        int32_t status = op->n_returns > 1 ? tni_check_results_apart(f) : TN_OK;
        if (TNI_UNLIKELY(status)) return status;
        if (TNI_UNLIKELY(op->n_given < op->n_returns)) return run_without_options(f);
    }
    tni_find_given(f);
    return run_kind(f);
}
