/* SPDX-License-Identifier: Apache-2.0 */
/* The order of the fields of values, tensors and nests in a recording; see wire.h. */
#include "wire.h"

#include <string.h>

uint32_t wire_u32(record_wire *w, uint32_t value)
{
    w->move(w, &value, sizeof(value));
    return value;
}

uint64_t wire_u64(record_wire *w, uint64_t value)
{
    w->move(w, &value, sizeof(value));
    return value;
}

/* Writes `from`, or reads into fresh memory that ends with `extra` zero bytes. Returns where the bytes
 * are. */
static void *move_array(record_wire *w, const void *from, uint64_t bytes, uint64_t extra)
{
    void *at = w->memory ? w->memory(w, bytes + extra) : (void *)(uintptr_t)from;
    if (at && bytes) w->move(w, at, bytes);
    return at;
}

static const char *move_text(record_wire *w, const char *text, uint32_t *length)
{
    *length = wire_u32(w, w->memory || !text ? 0 : (uint32_t)strlen(text));
    return move_array(w, text, *length, 1);
}

/* A tensor, or NULL. */
static void move_tensor(record_wire *w, tn_tensor **t)
{
    uint32_t present = wire_u32(w, *t != NULL);
    if (present && !w->bad) w->tensor(w, t);
}

static void move_items(record_wire *w, tn_value *v)
{
    uint32_t n = v->count, length;
    const void **items = (const void **)(uintptr_t)v->as.pointer;
    if (w->memory) items = w->memory(w, n * sizeof(*items));
    for (uint32_t i = 0; items && i < n && !w->bad; i++) {
        if (v->tag == TN_TAG_TENSORS)
            move_tensor(w, (tn_tensor **)(void *)&items[i]);
        else if (w->memory)
            items[i] = move_text(w, NULL, &length);
        else
            (void)move_text(w, items[i], &length);
    }
    v->as.pointer = (void *)items;
}

static void move_scalars(record_wire *w, tn_value *v)
{
    tn_value *items = (tn_value *)(uintptr_t)v->as.values;
    if (w->memory) items = w->memory(w, v->count * sizeof(*items));
    for (uint32_t i = 0; items && i < v->count && !w->bad; i++) {
        wire_value(w, &items[i]);
        if (items[i].tag >= TN_TAG_STRING) w->bad = 1; /* a scalar is INT, FLOAT, BOOL or COMPLEX */
    }
    v->as.values = items;
}

static void move_list(record_wire *w, tn_value *v)
{
    uint32_t present = wire_u32(w, v->as.pointer != NULL);
    if (!present || w->bad) {
        v->as.pointer = NULL;
        v->count = 0;
        return;
    }
    switch (v->tag) {
    case TN_TAG_TENSORS:
    case TN_TAG_STRINGS:
        move_items(w, v);
        break;
    case TN_TAG_SCALARS:
        move_scalars(w, v);
        break;
    case TN_TAG_STRING:
        v->as.string = move_text(w, v->as.string, &v->count);
        break;
    case TN_TAG_COMPLEX:
        v->as.pointer = move_array(w, v->as.pointer, 2 * sizeof(double), 0);
        break;
    default:
        v->as.pointer = move_array(w, v->as.pointer, v->count * (v->tag == TN_TAG_BOOLS ? 1ull : 8ull), 0);
    }
}

void wire_value(record_wire *w, tn_value *v)
{
    v->tag = wire_u32(w, v->tag);
    v->count = wire_u32(w, v->count);
    switch (v->tag) {
    case TN_TAG_TENSOR:
        move_tensor(w, &v->as.tensor);
        if (!v->as.tensor) w->bad = 1; /* an absent tensor is NONE */
        break;
    case TN_TAG_TENSORS:
    case TN_TAG_COMPLEX:
    case TN_TAG_STRING:
    case TN_TAG_INTS:
    case TN_TAG_FLOATS:
    case TN_TAG_BOOLS:
    case TN_TAG_SCALARS:
    case TN_TAG_STRINGS:
        move_list(w, v);
        break;
    case TN_TAG_GENERATOR:
    case TN_TAG_POINTER: /* addresses of the recorded program */
        wire_u64(w, 0);
        if (w->memory) v->as.pointer = NULL;
        break;
    default:
        v->as.i = (int64_t)wire_u64(w, (uint64_t)v->as.i);
    }
}

void wire_tensor(record_wire *w, record_tensor *t)
{
    tn_tensor_desc *d = &t->desc;
    d->flags = wire_u32(w, d->flags);
    d->dtype = wire_u32(w, d->dtype);
    t->place = wire_u32(w, t->place);
    d->rank = wire_u32(w, d->rank);
    d->byte_offset = wire_u64(w, d->byte_offset);
    t->allocation = wire_u64(w, t->allocation);
    if (d->rank > TN_MAX_RANK) w->bad = 1;
    if (w->bad) return;
    d->sizes = move_array(w, d->sizes, d->rank * sizeof(int64_t), 8);
    d->strides = move_array(w, d->strides, d->rank * sizeof(int64_t), 8);
    t->blob = wire_u64(w, t->blob);
}

void wire_nest(record_wire *w, tn_nest *n)
{
    n->rank = wire_u32(w, n->rank);
    n->kept = wire_u32(w, n->kept);
    n->n_outputs = wire_u32(w, n->n_outputs);
    n->n_operands = wire_u32(w, n->n_operands);
    if (n->rank > TN_MAX_RANK || n->kept > n->rank || n->n_operands > 256 || n->n_outputs > n->n_operands)
        w->bad = 1;
    if (!w->bad) n->sizes = move_array(w, n->sizes, n->rank * sizeof(int64_t), 8);
}

void wire_operand(record_wire *w, const tn_nest *n, tn_operand *o, uint64_t *allocation, uint64_t *blob)
{
    o->flags = wire_u32(w, o->flags);
    o->dtype = wire_u32(w, o->dtype);
    o->byte_offset = wire_u64(w, o->byte_offset);
    *allocation = wire_u64(w, *allocation);
    *blob = wire_u64(w, *blob);
    o->strides = move_array(w, o->strides, n->rank * sizeof(int64_t), 8);
}

uint64_t record_extent(const tn_tensor_desc *d)
{
    const uint64_t most = UINT64_C(1) << 62;
    uint64_t last = 0, step;
    int64_t element = tn_dtype_bytes(d->dtype);
    for (uint32_t i = 0; i < d->rank; i++) {
        if (d->sizes[i] < 0 || d->strides[i] < 0) return UINT64_MAX;
        if (!d->sizes[i]) return 0;
    }
    for (uint32_t i = 0; i < d->rank; i++) {
        if (__builtin_mul_overflow((uint64_t)(d->sizes[i] - 1), (uint64_t)d->strides[i], &step) ||
            __builtin_add_overflow(last, step, &last) || last > most)
            return UINT64_MAX;
    }
    if (element <= 0 || __builtin_mul_overflow(last + 1, (uint64_t)element, &last) || last > most)
        return UINT64_MAX;
    return last;
}
