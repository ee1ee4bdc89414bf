/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel calls: the structs that the host fills, the memory that descriptors and nests span, and the rows
 * that a plugin gives; see validate.h.
 */
#include "validate.h"

#include <inttypes.h>

#define KNOWN_ROW_FLAGS                                                                                 \
    (TN_ROW_CASTS | TN_ROW_LAZY_BITS | TN_ROW_DETERMINISTIC_ONLY_ONE_THREAD | TN_ROW_NONDETERMINISTIC | \
     TN_ROW_IMMEDIATE_ONLY_HOST | TN_ROW_WIDE_IMMEDIATE | TN_ROW_SCOPE | TN_ROW_INDEX32 |               \
     TN_ROW_RANDOM_STATE)
#define KNOWN_CALL_FLAGS \
    (TN_CALL_DETERMINISTIC | TN_CALL_ALLOW_TF32 | TN_CALL_ALLOW_HALF_ACCUMULATION | TN_CALL_BENCHMARK)

/* ---- Extents ----------------------------------------------------------------------------------------- */

/* The bytes that strided elements span, from the first one on: `low` before it, `high` behind its start. */
typedef struct extent {
    int64_t low;
    int64_t high;
    uint64_t gap; /* as in validate_access */
} extent;

/* `unit`: bytes that a stride of 1 means. 0: there are no elements. */
static int32_t find_extent(uint32_t rank, const int64_t *sizes, const int64_t *strides, int64_t unit,
                           int64_t item, extent *out)
{
    int64_t elements = 1, widest = 0;
    *out = (extent){.high = item};
    for (uint32_t i = 0; i < rank; i++) {
        int64_t step = strides[i] * unit, reach;
        if (sizes[i] <= 0) return 0;
        if (sizes[i] == 1 || step == 0) continue;
        elements *= sizes[i];
        reach = (sizes[i] - 1) * step;
        if (reach < 0)
            out->low += reach;
        else
            out->high += reach;
        step = step < 0 ? -step : step;
        widest = widest > step ? widest : step;
    }
    out->gap = out->high - out->low == elements * item ? 0 : (uint64_t)widest;
    return 1;
}

/* ---- Descriptors ------------------------------------------------------------------------------------- */

static validate_object *device_of_call(validate_state *v, const shim_call *c)
{
    validate_object *o = validate_find(v, c->plugin, SHIM_DEVICE, c->call->device, NULL);
    return o && o->alive ? o : NULL;
}

static validate_object *stream_of_call(validate_state *v, const shim_call *c)
{
    const validate_object *device = device_of_call(v, c);
    validate_object *o = device ? validate_find(v, c->plugin, SHIM_STREAM, c->call->stream, device) : NULL;
    return o && o->alive ? o : NULL;
}

/* The live allocation; a wrong one is reported. Operands on host devices may be in memory of the program,
 * which no slot knows. */
static validate_object *find_memory(validate_state *v, const shim_call *c, const char *what,
                                    const void *allocation, const validate_object *device)
{
    validate_object *o = validate_find(v, c->plugin, SHIM_ALLOCATION, allocation, device);
    if (o && o->alive) return o;
    if (device->in_order) return NULL;
    if (o)
        validate_say(c, "use-after-free", &o->ended, "the host passes %s of %s in memory that was freed",
                     what, c->op ? c->op : c->slot->name);
    else
        validate_say(c, "unknown-handle", NULL,
                     "the host passes %s of %s in memory that is not an allocation of this device", what,
                     c->op ? c->op : c->slot->name);
    return NULL;
}

static void check_memory(validate_state *v, const shim_call *c, const char *what, const tn_tensor_desc *d,
                         const validate_object *device, const extent *e)
{
    const validate_object *o = find_memory(v, c, what, d->allocation, device);
    if (!o) return;
    if (e->low < 0 && d->byte_offset < (uint64_t)-e->low) {
        validate_say(c, "out-of-range", &o->made, "%s of %s begins %" PRIu64 " bytes before its allocation",
                     what, c->op ? c->op : c->slot->name, (uint64_t)-e->low - d->byte_offset);
        return;
    }
    if (!validate_range(c, o, what, d->byte_offset + (uint64_t)e->low, (uint64_t)(e->high - e->low))) return;
    if (o->host && d->host && o->host + d->byte_offset != (char *)d->host)
        validate_say(c, "wrong-address", &o->made,
                     "the host address of %s of %s is not that of its first element", what,
                     c->op ? c->op : c->slot->name);
}

static void check_descriptor(validate_state *v, const shim_call *c, const char *what, const tn_tensor_desc *d,
                             const validate_object *device)
{
    extent e;
    if (!d) return;
    if (d->size == 0 || d->dtype == 0 || d->rank > TN_MAX_RANK) {
        validate_say(c, "bad-struct", NULL, "the descriptor of %s of %s has size %u, dtype 0x%x and rank %u",
                     what, c->op, d->size, d->dtype, d->rank);
        return;
    }
    if (d->device != device->id) {
        if (d->rank != 0)
            validate_say(c, "wrong-device", NULL, "%s of %s is a tensor of another device", what, c->op);
        return;
    }
    /* A data-dependent output has no memory before the call. */
    if (d->layout != TN_INTERNED_STRIDED || !d->allocation) return;
    if (find_extent(d->rank, d->sizes, d->strides, tn_dtype_bytes(d->dtype), tn_dtype_bytes(d->dtype), &e))
        check_memory(v, c, what, d, device, &e);
}

static void descriptor_access(validate_state *v, const shim_call *c, const tn_tensor_desc *d,
                              validate_object *stream, uint32_t writes)
{
    extent e;
    if (!d || d->layout != TN_INTERNED_STRIDED || !d->allocation || d->device != stream->device->id) return;
    validate_object *o = validate_find(v, c->plugin, SHIM_ALLOCATION, d->allocation, stream->device);
    if (!o || !o->alive || d->rank > TN_MAX_RANK) return;
    if (!find_extent(d->rank, d->sizes, d->strides, tn_dtype_bytes(d->dtype), tn_dtype_bytes(d->dtype), &e))
        return;
    validate_access_range(v, c, o, stream, d->byte_offset + (uint64_t)e.low,
                          d->byte_offset + (uint64_t)e.high, e.gap, writes);
}

/* ---- Nests ------------------------------------------------------------------------------------------- */

static void check_operand(validate_state *v, const shim_call *c, const tn_nest *n, uint32_t i,
                          const tn_operand *p, const validate_object *device)
{
    extent e;
    char what[32];
    snprintf(what, sizeof(what), "operand %u", i);
    if (p->size == 0 || p->dtype == 0 || !p->strides) {
        validate_say(c, "bad-struct", NULL, "%s of the nest of %s has size %u, dtype 0x%x%s", what, c->op,
                     p->size, p->dtype, p->strides ? "" : " and no strides");
        return;
    }
    if (((p->flags & TN_OPERAND_OUTPUT) != 0) != (i < n->n_outputs))
        validate_say(c, "bad-struct", NULL, "%s of the nest of %s: outputs come first, and %u are announced",
                     what, c->op, n->n_outputs);
    if (p->flags & TN_OPERAND_IMMEDIATE) {
        if (!p->host)
            validate_say(c, "bad-struct", NULL, "%s of the nest of %s is immediate and has no address", what,
                         c->op);
        return;
    }
    const validate_object *o = find_memory(v, c, what, p->allocation, device);
    if (!o || !find_extent(n->rank, n->sizes, p->strides, 1, tn_dtype_bytes(p->dtype), &e)) return;
    if (e.low < 0 && p->byte_offset < (uint64_t)-e.low)
        validate_say(c, "out-of-range", &o->made, "%s of %s begins before its allocation", what, c->op);
    else
        validate_range(c, o, what, p->byte_offset + (uint64_t)e.low, (uint64_t)(e.high - e.low));
}

static void check_nest(validate_state *v, const shim_call *c, const validate_object *device)
{
    const tn_nest *n = c->call->nest;
    int64_t numel = 1;
    if (n->size == 0 || n->operand_bytes < sizeof(uint32_t) * 4 || n->kept > n->rank ||
        n->n_outputs > n->n_operands) {
        validate_say(
            c, "bad-struct", NULL,
            "the nest of %s has size %u, operands %u bytes apart, %u of %u dimensions kept, %u outputs of %u",
            c->op, n->size, n->operand_bytes, n->kept, n->rank, n->n_outputs, n->n_operands);
        return;
    }
    for (uint32_t i = 0; i < n->rank; i++) numel *= n->sizes[i];
    if (numel != n->numel)
        validate_say(c, "bad-struct", NULL, "the nest of %s has numel %" PRId64 ", its sizes %" PRId64, c->op,
                     n->numel, numel);
    for (uint32_t i = 0; i < n->n_operands; i++)
        check_operand(v, c, n, i,
                      (const tn_operand *)((const char *)n->operands + (size_t)i * n->operand_bytes), device);
}

/* ---- Calls ------------------------------------------------------------------------------------------- */

typedef void each_tensor(validate_state *v, const shim_call *c, const char *what, const tn_tensor_desc *d,
                         void *with);

/* All tensors among values, also those in lists. */
static void for_each(validate_state *v, const shim_call *c, const char *name, const tn_value *values,
                     uint32_t count, each_tensor *each, void *with)
{
    char what[48];
    for (uint32_t i = 0; i < count; i++) {
        if (values[i].tag == TN_TAG_TENSOR) {
            snprintf(what, sizeof(what), "%s %u", name, i);
            each(v, c, what, values[i].as.tensor ? tn_desc(values[i].as.tensor) : NULL, with);
        }
        for (uint32_t k = 0; values[i].tag == TN_TAG_TENSORS && k < values[i].count; k++) {
            snprintf(what, sizeof(what), "item %u of %s %u", k, name, i);
            each(v, c, what, values[i].as.tensors[k] ? tn_desc(values[i].as.tensors[k]) : NULL, with);
        }
    }
}

static void check_one(validate_state *v, const shim_call *c, const char *what, const tn_tensor_desc *d,
                      void *with)
{
    check_descriptor(v, c, what, d, with);
}

static void read_one(validate_state *v, const shim_call *c, const char *what, const tn_tensor_desc *d,
                     void *with)
{
    /* A written tensor is among the arguments, too: it counts once, as written. */
    for (uint32_t i = 0; i < c->call->n_outs; i++) {
        const tn_value *out = &c->call->outs[i];
        if (out->tag == TN_TAG_TENSOR && out->as.tensor && tn_desc(out->as.tensor) == d) return;
    }
    descriptor_access(v, c, d, with, 0);
}

static void write_one(validate_state *v, const shim_call *c, const char *what, const tn_tensor_desc *d,
                      void *with)
{
    descriptor_access(v, c, d, with, 1);
}

static void say_handle(validate_state *v, const shim_call *c, shim_kind kind, const void *handle)
{
    const validate_object *o = validate_find(v, c->plugin, kind, handle, NULL);
    const char *name = validate_kind_name(kind);
    if (o && !o->alive)
        validate_say(c, "use-after-destroy", &o->ended, "the host runs %s on a %s that was %s", c->op, name,
                     kind == SHIM_DEVICE ? "closed" : "destroyed");
    else if (o)
        validate_say(c, "wrong-device", &o->made, "the host runs %s on a %s of another device", c->op, name);
    else
        validate_say(c, "unknown-handle", NULL, "the host runs %s on an unknown %s", c->op, name);
}

void validate_kernel_before(validate_state *v, const shim_call *c)
{
    const tn_call *call = c->call;
    validate_object *device = device_of_call(v, c);
    if (call->size == 0 || call->flags & ~KNOWN_CALL_FLAGS)
        validate_say(c, "bad-struct", NULL, "the call of %s has size %u and flags 0x%x", c->op, call->size,
                     call->flags);
    if (!device) {
        /* A row for a device of another plugin, whose handles are not known here. */
        if (!validate_find_anywhere(v, SHIM_DEVICE, call->device))
            say_handle(v, c, SHIM_DEVICE, call->device);
        return;
    }
    if (!stream_of_call(v, c)) say_handle(v, c, SHIM_STREAM, call->stream);
    for_each(v, c, "argument", call->args, call->n_args, check_one, device);
    for_each(v, c, "output", call->outs, call->n_outs, check_one, device);
    if (call->nest) check_nest(v, c, device);
}

void validate_kernel_after(validate_state *v, const shim_call *c)
{
    validate_object *stream = stream_of_call(v, c);
    if (!stream || !stream->known) return;
    validate_task(v, stream);
    for_each(v, c, "argument", c->call->args, c->call->n_args, read_one, stream);
    for_each(v, c, "output", c->call->outs, c->call->n_outs, write_one, stream);
}

void validate_resized(validate_state *v, const shim_call *c)
{
    const validate_object *device = device_of_call(v, c);
    uint32_t i = (uint32_t)c->values[1].number;
    if (device && i < c->call->n_outs && c->call->outs[i].tag == TN_TAG_TENSOR && c->call->outs[i].as.tensor)
        check_descriptor(v, c, "the resized output", tn_desc(c->call->outs[i].as.tensor), device);
}

/* ---- Rows -------------------------------------------------------------------------------------------- */

/* The host passes over rows of operators that it does not know. Those of other namespaces may be defined later. */
static int32_t is_unknown(const shim_call *c, const char *schema, int length)
{
    const tn_host *host = c->plugin->outer;
    char name[128];
    if (!host->find_operator || (strncmp(schema, "aten::", 6) && strncmp(schema, "prim::", 6))) return 0;
    snprintf(name, sizeof(name), "%.*s", length, schema);
    return !host->find_operator(host->context, name);
}

void validate_rows(const shim_call *c, const tn_kernel_row *rows, uint32_t count, uint32_t row_bytes)
{
    if (row_bytes < offsetof(tn_kernel_row, can_run)) return; /* the host says so */
    for (uint32_t i = 0; rows && i < count; i++) {
        const tn_kernel_row *row = (const tn_kernel_row *)((const char *)rows + (size_t)i * row_bytes);
        const char *schema = row->schema ? row->schema : "?";
        int name = (int)strcspn(schema, "(");
        if (row->size == 0) validate_say(c, "no-size", NULL, "the row of %.*s has size 0", name, schema);
        if (is_unknown(c, schema, name))
            validate_say(c, "unknown-operator", NULL,
                         "there is no operator %.*s, so its row never runs (`tenon ops` lists operators)",
                         name, schema);
        if (row->flags & ~KNOWN_ROW_FLAGS)
            validate_say(c, "unknown-flags", NULL, "the row of %.*s has flags 0x%x", name, schema,
                         row->flags);
        if (row->strides > TN_STRIDES_BLAS)
            validate_say(c, "unknown-flags", NULL, "the row of %.*s takes strides of class %u", name, schema,
                         row->strides);
    }
}
