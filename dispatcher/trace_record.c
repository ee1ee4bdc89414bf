/* SPDX-License-Identifier: Apache-2.0 */
/* Recording of call traces: numbers of tensors, copies of arguments. */
#include <stdio.h>
#include <string.h>
#include "dispatcher/trace.h"

static tni_trace_value *value_at(const tn_call_trace *trace, uint32_t number)
{
    return (tni_trace_value *)trace->values.data + number;
}

/* Whether two tensors have the same elements of one storage: autograd makes such twins. */
static int32_t is_same(const tn_tensor *a, const tn_tensor *b)
{
    uint32_t rank = a->desc.rank;
    return a->offset == b->offset && a->desc.dtype == b->desc.dtype && rank == b->desc.rank &&
           a->desc.flags == b->desc.flags && memcmp(a->desc.sizes, b->desc.sizes, rank * 8ull) == 0 &&
           memcmp(a->desc.strides, b->desc.strides, rank * 8ull) == 0;
}

static void invalidate(tn_call_trace *trace, uint32_t number)
{
    if (trace->status) return;
    trace->status = TN_E_STATE;
    snprintf(trace->reason, sizeof trace->reason,
             "trace: a call uses a view of value %%%u that no recorded call made", number);
}

int64_t tni_trace_number(tn_call_trace *trace, tn_tensor *t, uint32_t is_constant)
{
    uint32_t *first = tni_pointer_map_put(trace->ctx, &trace->storages, t->storage);
    tni_trace_value *v;
    int64_t same = -1;
    if (!first) return -1;
    for (uint32_t i = *first; i; i = v->next) {
        v = value_at(trace, i - 1);
        if (v->tensor == t) return i - 1;
        if (v->tensor->storage == t->storage && is_same(v->tensor, t)) same = i - 1; /* the oldest */
    }
    /* An argument may be a twin of a value; a result is always a new value. */
    if (is_constant && same >= 0) return same;
    for (uint32_t i = is_constant ? *first : 0; i; i = v->next) {
        v = value_at(trace, i - 1);
        if (v->tensor->storage == t->storage && !v->is_constant) invalidate(trace, i - 1);
    }
    v = tni_vector_push(trace->ctx, &trace->values, sizeof *v);
    if (!v) return -1;
    *v = (tni_trace_value){.tensor = tn_retain(t), .is_constant = is_constant, .next = *first};
    *first = trace->values.count;
    return trace->values.count - 1;
}

/* ---- Copies of arguments: their size, then the copy ---- */

typedef struct block {
    char *at;
    uint64_t bytes;
} block;

/* Bytes that the value points to. */
static uint64_t bytes_of(const tn_value *v)
{
    switch (v->tag) {
    case TN_TAG_TENSOR:
        return v->as.tensor->desc.flags & TN_DESC_WRAPPED ? 2 * sizeof(double) : 0;
    case TN_TAG_TENSORS:
        return v->count * sizeof(int64_t);
    case TN_TAG_COMPLEX:
        return 2 * sizeof(double);
    case TN_TAG_STRING:
        return v->count + 1ull;
    case TN_TAG_INTS:
    case TN_TAG_FLOATS:
        return v->count * 8ull;
    case TN_TAG_BOOLS:
        return v->count;
    case TN_TAG_SCALARS:
        return v->count * (sizeof(tn_value) + 2 * sizeof(double));
    default:
        return 0;
    }
}

static void *put(block *b, const void *from, uint64_t bytes)
{
    void *to = b->at;
    if (bytes && from) memcpy(to, from, bytes);
    b->at += (bytes + 7) & ~7ull;
    return to;
}

static tn_value copy_scalars(block *b, const tn_value *v)
{
    tn_value *items = put(b, v->as.values, v->count * sizeof *items);
    for (uint32_t i = 0; i < v->count; i++) {
        if (items[i].tag == TN_TAG_COMPLEX) items[i] = tn_value_complex(put(b, items[i].as.floats, 16));
    }
    return tn_value_scalars(items, v->count);
}

static tn_value copy_number(block *b, const tn_tensor *t)
{
    double *pair = put(b, NULL, 2 * sizeof *pair);
    return tni_scalar_load(t->desc.host, t->desc.dtype, pair);
}

static int32_t number_tensors(tn_call_trace *trace, block *b, const tn_value *from, tn_value *to)
{
    int64_t *numbers = put(b, NULL, from->count * sizeof *numbers);
    for (uint32_t i = 0; i < from->count; i++) {
        numbers[i] = from->as.tensors[i] ? tni_trace_number(trace, from->as.tensors[i], 1) : -1;
        if (from->as.tensors[i] && numbers[i] < 0) return TN_E_OUT_OF_MEMORY;
    }
    to->as.ints = numbers;
    return TN_OK;
}

static int32_t copy_value(tn_call_trace *trace, block *b, const tn_value *from, tn_value *to)
{
    *to = *from;
    switch (from->tag) {
    case TN_TAG_TENSOR:
        if (from->as.tensor->desc.flags & TN_DESC_WRAPPED) {
            *to = copy_number(b, from->as.tensor);
            return TN_OK;
        }
        to->as.i = tni_trace_number(trace, from->as.tensor, 1);
        return to->as.i < 0 ? TN_E_OUT_OF_MEMORY : TN_OK;
    case TN_TAG_TENSORS:
        return number_tensors(trace, b, from, to);
    case TN_TAG_SCALARS:
        *to = copy_scalars(b, from);
        return TN_OK;
    case TN_TAG_STRINGS:
    case TN_TAG_POINTER:
        return tni_error(TN_E_UNSUPPORTED,
                         "trace: arguments that are lists of strings or pointers cannot be recorded");
    default:
        if (bytes_of(from)) to->as.pointer = put(b, from->as.pointer, bytes_of(from));
        return TN_OK;
    }
}

/* ---- Steps ---- */

static uint32_t count_tensors(const tn_value *values, uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        count += values[i].tag == TN_TAG_TENSOR ? 1 : values[i].tag == TN_TAG_TENSORS ? values[i].count : 0;
    return count;
}

static void list_used(tn_call_trace *trace, tni_trace_op *step)
{
    uint32_t items = 0;
    for (uint32_t i = 0; i < step->op->n_args; i++) {
        const tn_value *v = &step->args[i];
        if (v->tag == TN_TAG_TENSOR) step->used[step->n_used++] = (uint32_t)v->as.i;
        if (v->tag == TN_TAG_TENSORS) items += v->count;
        for (uint32_t k = 0; v->tag == TN_TAG_TENSORS && k < v->count; k++) {
            if (v->as.ints[k] >= 0) step->used[step->n_used++] = (uint32_t)v->as.ints[k];
        }
    }
    if (items > trace->longest) trace->longest = items;
    for (uint32_t i = 0; i < step->n_used; i++) value_at(trace, step->used[i])->last_use = trace->steps.count;
}

static int32_t list_made(tn_call_trace *trace, tni_trace_op *step, const tn_value *outs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t count = outs[i].tag == TN_TAG_TENSOR ? 1 : outs[i].tag == TN_TAG_TENSORS ? outs[i].count : 0;
        for (uint32_t k = 0; k < count; k++) {
            tn_tensor *t = outs[i].tag == TN_TAG_TENSOR ? outs[i].as.tensor : outs[i].as.tensors[k];
            int64_t number = t ? tni_trace_number(trace, t, 0) : UINT32_MAX;
            if (number < 0) return TN_E_OUT_OF_MEMORY;
            if (t && value_at(trace, (uint32_t)number)->last_use < trace->steps.count)
                value_at(trace, (uint32_t)number)->last_use = trace->steps.count;
            step->made[step->n_made++] = (uint32_t)number;
        }
    }
    return TN_OK;
}

static int32_t fill(tn_call_trace *trace, tni_trace_op *step, const tni_frame *f, uint32_t n_args)
{
    block b = {.at = step->block};
    int32_t status = TN_OK;
    step->args = put(&b, NULL, n_args * sizeof(tn_value));
    step->used = put(&b, NULL, count_tensors(f->args, n_args) * sizeof(uint32_t));
    step->made = put(&b, NULL, count_tensors(f->outs, f->n_outs) * sizeof(uint32_t));
    for (uint32_t i = 0; i < n_args && !status; i++)
        status = copy_value(trace, &b, &f->args[i], &step->args[i]);
    if (status) return status;
    list_used(trace, step);
    return list_made(trace, step, f->outs, f->n_outs);
}

int32_t tni_trace_append(tn_call_trace *trace, const tni_frame *f)
{
    uint32_t n = f->op->n_args;
    tni_trace_op step = {.op = f->op};
    step.block_bytes =
        n * sizeof(tn_value) + 8ull * (count_tensors(f->args, n) + count_tensors(f->outs, f->n_outs)) + 32;
    for (uint32_t i = 0; i < n; i++) step.block_bytes += (bytes_of(&f->args[i]) + 7) & ~7ull;
    step.block = tni_alloc(trace->ctx, step.block_bytes);
    if (!step.block) return TN_E_OUT_OF_MEMORY;
    tni_trace_op *place = tni_vector_push(trace->ctx, &trace->steps, sizeof *place);
    if (!place) {
        tni_free(trace->ctx, step.block, step.block_bytes);
        return TN_E_OUT_OF_MEMORY;
    }
    *place = step;
    return fill(trace, place, f, n);
}
