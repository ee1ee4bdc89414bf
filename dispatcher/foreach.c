/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operators _foreach_*: each calls another operator for every item of its lists. An argument goes to the argument of
 * the other operator that has its name, else to the one at its place. The others get their defaults.
 */
#include <string.h>
#include <tenon/ops.h>
#include "core/scope.h"
#include "dispatcher/backend.h"

typedef struct foreach_call {
    const tni_op *callee;
    const tn_value *args;         /* of the operator for lists */
    const tni_schema *schema;     /* its schema */
    uint32_t n_args;              /* without the out argument */
    uint32_t count;               /* items */
    uint8_t to[TNI_MAX_ARGS];     /* the callee's argument for each of ours */
    uint8_t packed[TNI_MAX_ARGS]; /* a tensor whose elements are scalars for the callee */
} foreach_call;

static int32_t is_list(tn_value v)
{
    return v.tag == TN_TAG_TENSORS || v.tag == TN_TAG_SCALARS;
}

static uint8_t place_of(const tni_schema *callee, const tni_argument *a, uint32_t i)
{
    for (uint32_t k = 0; k < callee->n_args; k++) {
        if (!strcmp(callee->args[k].name, a->name)) return (uint8_t)k;
    }
    return (uint8_t)i;
}

/* The number of items, which all lists must have, the out argument among them. */
static int32_t count_items(foreach_call *c, uint32_t n_args)
{
    int32_t found = 0;
    for (uint32_t i = 0; i < n_args; i++) {
        tn_value v = c->args[i];
        if (!is_list(v)) continue;
        if (found && v.count != c->count)
            return v.tag == TN_TAG_SCALARS
                       ? tni_error(TN_E_ARGUMENT,
                                   "Tensor list must have same number of elements as scalar list.")
                       : tni_error(TN_E_ARGUMENT,
                                   "Tensor lists must have the same number of tensors, got %u and %u",
                                   c->count, v.count);
        c->count = v.count;
        found = 1;
    }
    if (!c->count) return tni_error(TN_E_ARGUMENT, "Tensor list must have at least one tensor.");
    return TN_OK;
}

static int32_t check_packed(const foreach_call *c, const tn_tensor *t)
{
    if (t->desc.rank != 1)
        return tni_error(TN_E_SHAPE, "Expected packed scalar Tensor to be of dimension 1. Got %u instead.",
                         t->desc.rank);
    if (t->numel == c->count) return TN_OK;
    return tni_error(TN_E_SHAPE,
                     "Expected length of scalars to match input of length %u but got %lld instead.", c->count,
                     (long long)t->numel);
}

/* One tensor beside lists stands for a scalar. */
static int32_t check_scalar(const tn_tensor *t)
{
    if (!t->desc.rank) return TN_OK;
    return tni_error(TN_E_SHAPE,
                     "scalar tensor expected to be 0 dim but it has %u dimensions and %lld elements.",
                     t->desc.rank, (long long)t->numel);
}

static int32_t prepare(tni_frame *f, foreach_call *c)
{
    const tni_op *op = f->op;
    *c = (foreach_call){.callee = tni_op_get(f->registry, op->entry->calls),
                        .args = f->args,
                        .schema = op->base->schema,
                        .n_args = op->base->n_args};
    int32_t status = tni_op_prepare(f->registry, (tni_op *)(uintptr_t)c->callee);
    if (!status) status = count_items(c, op->n_args);
    for (uint32_t i = 0; i < c->n_args && !status; i++) {
        c->to[i] = place_of(c->callee->schema, &c->schema->args[i], i);
        c->packed[i] =
            c->args[i].tag == TN_TAG_TENSOR && c->callee->schema->args[c->to[i]].type == TNI_TYPE_SCALAR;
        if (c->packed[i])
            status = check_packed(c, c->args[i].as.tensor);
        else if (c->args[i].tag == TN_TAG_TENSOR)
            status = check_scalar(c->args[i].as.tensor);
    }
    return status;
}

static tn_value item_of(tn_scope *s, const foreach_call *c, uint32_t arg, uint32_t i)
{
    tn_value v = c->args[arg];
    if (v.tag == TN_TAG_TENSORS) return tn_value_tensor(v.as.tensors[i]);
    if (v.tag == TN_TAG_SCALARS) return v.as.values[i];
    return c->packed[arg] ? tn_value_float(tn_item_double(s, tn_select(s, v.as.tensor, 0, i))) : v;
}

/* The out form: the result goes into a given tensor. */
static void copy_out(tn_scope *s, tn_tensor *to, tn_tensor *from)
{
    if (to->desc.dtype != from->desc.dtype)
        return (void)tni_scope_record(
            s, tni_error(TN_E_DTYPE, "Expected out tensor to have dtype %s, but got %s instead",
                         tni_dtype_cpp_name(from->desc.dtype), tni_dtype_cpp_name(to->desc.dtype)));
    if (!tni_same_shape(to, from)) tn_resize_(s, to, ((tn_ints){from->desc.sizes, from->desc.rank}));
    tn_copy_(s, to, from);
}

void tni_composite_foreach(tni_frame *f, tn_scope *s, tn_value *outs)
{
    foreach_call c;
    int32_t status = prepare(f, &c), is_out = f->op->form == TNI_FORM_OUT;
    if (status) return (void)tni_scope_record(s, status);
    const tni_schema *callee = c.callee->schema;
    tn_tensor **list = f->op->form == TNI_FORM_FUNCTIONAL ? tn_scope_memory(s, c.count * sizeof *list) : NULL;
    tn_value args[TNI_MAX_ARGS], result;
    for (uint32_t k = 0; k < callee->n_args; k++) args[k] = callee->args[k].default_value;
    for (uint32_t i = 0; i < c.count; i++) {
        for (uint32_t k = 0; k < c.n_args; k++) args[c.to[k]] = item_of(s, &c, k, i);
        if (tn_scope_call(s, c.callee->number, args, callee->n_args, &result, 1)) return;
        if (list) list[i] = result.as.tensor;
        if (is_out) copy_out(s, f->args[c.n_args].as.tensors[i], result.as.tensor);
    }
    if (list) outs[0] = tn_value_tensors(list, c.count);
}
