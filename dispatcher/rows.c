/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel rows; see rows.h. A row comes from a program, from a plugin's table or from host->register_kernels, and all are
 * checked here. The list of waiting rows has what no call uses: rows whose operator or device type is not there, and
 * rows that this version does not understand.
 */
#include "dispatcher/rows.h"

#include <string.h>
#include "core/context.h"
#include "core/error.h"
#include "core/tensor.h"
#include "core/text.h"

/* A row that is inserted or waits. */
typedef struct pending_row {
    tn_kernel_row row; /* the schema is "" once the row waits no more */
    void *self;
    const char *plugin;
    const tn_kernel_row *table; /* the array that the row is from */
    uint32_t type;              /* interned device type */
    uint32_t unknown;           /* interned: what this version does not understand; 0: it understands all */
} pending_row;

#define KNOWN_ROW_FLAGS                                                                                 \
    (TN_ROW_CASTS | TN_ROW_LAZY_BITS | TN_ROW_DETERMINISTIC_ONLY_ONE_THREAD | TN_ROW_NONDETERMINISTIC | \
     TN_ROW_IMMEDIATE_ONLY_HOST | TN_ROW_WIDE_IMMEDIATE | TN_ROW_SCOPE | TN_ROW_INDEX32 |               \
     TN_ROW_RANDOM_STATE)
#define PERMITTING_FLAGS 0xffff0000u /* of calls: a row may ignore them */
#define UNKNOWN_BYTES    128

/* ---- Checks -------------------------------------------------------------------------------------------- */

static int32_t read_row(const tni_rows *t, uint32_t i, tn_kernel_row *out)
{
    const char *from = (const char *)t->rows + (uint64_t)i * t->row_bytes;
    uint32_t size;
    memset(out, 0, sizeof *out);
    memcpy(&size, from, sizeof size);
    if (!size)
        return tni_error(TN_E_ARGUMENT, "kernel row %u of %s: size is 0; set it to sizeof(tn_kernel_row)", i,
                         t->owner);
    if (size > t->row_bytes)
        return tni_error(TN_E_CONTRACT, "plugin %s: a kernel row says size %u, rows are %u bytes apart",
                         t->owner, size, t->row_bytes);
    memcpy(out, from, size < sizeof *out ? size : sizeof *out);
    return TN_OK;
}

/* What no version accepts. */
static int32_t check_row(const tn_kernel_row *row, const char *owner)
{
    if (!row->schema || !row->run)
        return tni_error(TN_E_CONTRACT, "plugin %s: kernel row: %s is NULL", owner,
                         row->schema ? "run" : "schema");
    if (row->n_arguments && !row->arguments)
        return tni_error(TN_E_ARGUMENT, "kernel row \"%s\" of %s: arguments is NULL, n_arguments is %u",
                         row->schema, owner, row->n_arguments);
    if (row->honours & PERMITTING_FLAGS)
        return tni_error(
            TN_E_ARGUMENT,
            "kernel row \"%s\" of %s: honours is 0x%x, but flags from bit 16 on permit, and every "
            "row may ignore them (expected bits 0 to 15)",
            row->schema, owner, row->honours);
    return TN_OK;
}

/* Unknown dtypes: to a program each one matters, to a plugin only if it leaves no known one. */
static void note_dtypes(tn_context *ctx, const tni_rows *t, const tn_dtype *dtypes, tni_text *text)
{
    tn_dtype unknown = 0;
    uint32_t known = 0;
    for (; dtypes && *dtypes; dtypes++) {
        if (tni_dtype_index(*dtypes) >= 0 ||
            (tni_dtype_is_vendor(*dtypes) && tn_dtype_interned(ctx, *dtypes)))
            known++;
        else if (!unknown)
            unknown = *dtypes;
    }
    if (unknown && (!known || t->is_complete)) tni_text_add(text, "unknown dtype 0x%x", unknown);
}

static void note_argument(tn_context *ctx, const tni_rows *t, const tn_row_argument *a, uint32_t i,
                          tni_text *text)
{
    char dtypes[UNKNOWN_BYTES];
    tni_text of_dtypes = tni_text_begin(dtypes, sizeof dtypes);
    note_dtypes(ctx, t, a->dtypes, &of_dtypes);
    if (a->strides > TN_STRIDES_BLAS)
        tni_text_add(text, "argument %u: strides is %u (expected 0 to %u)", i, a->strides, TN_STRIDES_BLAS);
    else if (a->place > TN_PLACE_HOST)
        tni_text_add(text, "argument %u: place is %u (expected 0 to %u)", i, a->place, TN_PLACE_HOST);
    else if (of_dtypes.length)
        tni_text_add(text, "argument %u: %s", i, dtypes);
}

/* 1, and what it is, if the row has something that a later version may know. */
static int32_t note_unknown(tn_context *ctx, const tni_rows *t, uint32_t i, const tn_kernel_row *row,
                            char out[UNKNOWN_BYTES])
{
    const char *bytes = (const char *)t->rows + (uint64_t)i * t->row_bytes;
    tni_text text = tni_text_begin(out, UNKNOWN_BYTES);
    uint32_t set = sizeof *row;
    while (set < row->size && !bytes[set]) set++;
    if (set < row->size)
        tni_text_add(&text, "byte %u is set, but this library knows only the first %zu bytes", set,
                     sizeof *row);
    else if (row->flags & ~KNOWN_ROW_FLAGS)
        tni_text_add(&text, "unknown flags 0x%x", row->flags & ~KNOWN_ROW_FLAGS);
    else if (row->strides > TN_STRIDES_BLAS)
        tni_text_add(&text, "strides is %u (expected a TN_STRIDES_..., 0 to %u)", row->strides,
                     TN_STRIDES_BLAS);
    else
        note_dtypes(ctx, t, row->dtypes, &text);
    for (uint32_t k = 0; k < row->n_arguments && !text.length; k++)
        note_argument(ctx, t, &row->arguments[k], k, &text);
    return text.length != 0;
}

/* A name that a device type of this or another version may have. */
static int32_t check_device_type(const tni_rows *t)
{
    const char *type = t->device_type;
    if (!type || !type[0] || strchr(type, ':'))
        return tni_error(TN_E_ARGUMENT,
                         "kernels of %s: the device type is %s%s%s (expected a name without ':', such as "
                         "\"cpu\")",
                         t->owner, type ? "\"" : "", type ? type : "NULL", type ? "\"" : "");
    if (strcmp(type, "meta") == 0)
        return tni_error(TN_E_ARGUMENT, "kernels of %s: no kernel runs on the device type \"meta\"",
                         t->owner);
    return TN_OK;
}

static int32_t check_rows(tn_context *ctx, const tni_rows *t)
{
    int32_t status = check_device_type(t);
    if (status) return status;
    if (t->count && !t->rows)
        return tni_error(TN_E_ARGUMENT, "kernel rows of %s: rows is NULL, count is %u", t->owner, t->count);
    if (t->count && t->row_bytes < offsetof(tn_kernel_row, can_run))
        return tni_error(TN_E_CONTRACT, "kernel rows of %s: rows of %u bytes, expected at least %zu",
                         t->owner, t->row_bytes, offsetof(tn_kernel_row, can_run));
    for (uint32_t i = 0; i < t->count && !status; i++) {
        tn_kernel_row row;
        char text[UNKNOWN_BYTES];
        status = read_row(t, i, &row);
        if (!status) status = check_row(&row, t->owner);
        if (status || !note_unknown(ctx, t, i, &row, text)) continue;
        if (t->is_complete)
            status = tni_error(TN_E_UNKNOWN_FIELD, "kernel row \"%s\" of %s: %s", row.schema, t->owner, text);
        else
            tni_log(ctx, TN_LOG_INFO, "kernel row \"%s\" of %s is passed over: %s", row.schema, t->owner,
                    text);
    }
    return status;
}

/* ---- Rows and operators -------------------------------------------------------------------------------- */

static uint32_t dtype_bits(const tn_dtype *dtypes)
{
    uint32_t bits = 0;
    if (!dtypes) return UINT32_MAX;
    for (; *dtypes; dtypes++) {
        int32_t index = tni_dtype_index(*dtypes);
        if (index >= 0) bits |= 1u << index;
    }
    return bits;
}

static int32_t same_argument(const tni_argument *a, const tni_argument *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->type_text, b->type_text) == 0;
}

/* A row's schema must be ours, or ours without the last arguments, which must have defaults. *out_unknown: how
 * many the row's schema lacks. */
static int32_t match_schema(tni_registry *r, tni_op *op, const tn_kernel_row *row, uint32_t *out_unknown)
{
    tni_schema *theirs;
    int32_t status;
    const tni_schema *ours = op->schema;
    char buffer[TNI_SCHEMA_BYTES];
    const char *text = tni_op_schema_text(op, buffer);
    *out_unknown = 0;
    if (strcmp(row->schema, text) == 0) return TN_OK;
    status = tni_schema_parse(r->ctx, row->schema, &theirs);
    if (status) return status;
    if (!ours) {
        tni_schema *parsed;
        status = tni_schema_parse(r->ctx, text, &parsed);
        ours = parsed;
    }
    if (!status) {
        uint32_t n = theirs->n_args < ours->n_args ? theirs->n_args : ours->n_args;
        for (uint32_t i = 0; i < n && !status; i++) {
            if (!same_argument(&theirs->args[i], &ours->args[i])) status = TN_E_VERSION;
        }
        for (uint32_t i = n; i < ours->n_args && !status; i++) {
            if (!ours->args[i].default_text) status = TN_E_VERSION;
        }
        if (theirs->n_args > ours->n_args || theirs->n_returns != ours->n_returns) status = TN_E_VERSION;
        *out_unknown = ours->n_args - n;
        if (status == TN_E_VERSION) {
            tni_error(TN_E_VERSION, "kernel row \"%s\" does not fit the operator's schema \"%s\"",
                      row->schema, text);
        }
        if (!op->schema) tni_schema_destroy(r->ctx, (tni_schema *)(uintptr_t)ours);
    }
    tni_schema_destroy(r->ctx, theirs);
    return status;
}

/* Without a shape rule nothing says what outputs a kernel gets, so a composite always runs, and a row never. */
static int32_t check_runs(const tni_op *op, const tn_kernel_row *row)
{
    if (!op->def || !op->def->composite || op->def->infer) return TN_OK;
    return tni_error(
        TN_E_CONTRACT,
        "kernel row \"%s\": the operator has a composite and no shape rule, so the row would never "
        "run; a row needs `infer` in the operator's definition",
        row->schema);
}

/* Whether the row can ever serve this operator. */
static int32_t check_fit(tni_registry *r, tni_op *op, const tn_kernel_row *row, uint32_t *out_unknown)
{
    int32_t status = match_schema(r, op, row, out_unknown);
    return status ? status : check_runs(op, row);
}

/* Inserts a kernel into the operator's list for a device type: highest priority first, among equals the latest
 * first. Lock held. */
static int32_t insert_kernel(tni_registry *r, tni_op *op, const pending_row *p, uint32_t slot)
{
    uint32_t unknown_args;
    _Atomic(tni_kernel *) *head = &op->kernels[slot];
    tni_kernel *k, *at, *before = NULL;
    int32_t status = check_fit(r, op, &p->row, &unknown_args);
    if (status) return status;
    k = tni_alloc_zeroed(r->ctx, sizeof *k);
    if (!k) return TN_E_OUT_OF_MEMORY;
    k->row = p->row;
    k->self = p->self;
    k->plugin = p->plugin;
    k->table = p->table;
    k->dtypes = dtype_bits(p->row.dtypes);
    k->unknown_args = unknown_args;
    k->device_slot = slot;
    k->asks = unknown_args || k->row.can_run || k->row.max_rank || k->row.max_operands ||
              k->row.flags & (TN_ROW_INDEX32 | TN_ROW_SCOPE | TN_ROW_RANDOM_STATE);
    for (at = atomic_load(head); at && at->row.priority > k->row.priority; at = tni_kernel_follower(at))
        before = at;
    atomic_init(&k->next, at);
    atomic_store_explicit(before ? &before->next : head, k, memory_order_release);
    return TN_OK;
}

/* The operator that the row is for, or NULL. Lock held. */
static tni_op *find_operator(tni_registry *r, const tn_kernel_row *row)
{
    tni_op *op = tni_op_lookup(r, row->schema, strcspn(row->schema, "("));
    return op && !op->removed ? op : NULL;
}

/* Inserts the row, or keeps it until its operator and its device type are there. Lock held. */
static int32_t register_row(tni_registry *r, const pending_row *p)
{
    tni_op *op = p->unknown ? NULL : find_operator(r, &p->row);
    const tni_device_type *type = tni_device_type_find(r->ctx, p->type);
    uint32_t ignored;
    if (op && type) return insert_kernel(r, op, p, type->slot);
    int32_t status = op ? check_fit(r, op, &p->row, &ignored) : TN_OK;
    if (status) return status;
    pending_row *waiting = tni_vector_push(r->ctx, &r->pending, sizeof *waiting);
    if (!waiting) return TN_E_OUT_OF_MEMORY;
    *waiting = *p;
    return TN_OK;
}

int32_t tni_kernels_register(tn_context *ctx, const tni_rows *t)
{
    tni_registry *r = ctx->registry;
    int32_t status = check_rows(ctx, t), waits = 0;
    if (status) return status;
    uint32_t type = tn_intern(ctx, t->device_type);
    if (!type) return tni_error_ensure(TN_E_OUT_OF_MEMORY, "interning a device type");
    pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < t->count && !status; i++) {
        pending_row p = {.self = t->self, .plugin = t->owner, .table = t->rows, .type = type};
        char text[UNKNOWN_BYTES];
        status = read_row(t, i, &p.row);
        if (!status && note_unknown(ctx, t, i, &p.row, text) && !(p.unknown = tn_intern(ctx, text)))
            status = tni_error_ensure(TN_E_OUT_OF_MEMORY, "interning a text");
        if (!status) status = register_row(r, &p);
    }
    waits = t->count && !tni_device_type_find(ctx, type);
    pthread_mutex_unlock(&r->lock);
    if (!status && waits)
        tni_log(ctx, TN_LOG_INFO, "kernel rows of %s wait for a plugin with the device type '%s'", t->owner,
                t->device_type);
    return status;
}

/* ---- Rows that are removed ----------------------------------------------------------------------------- */

/* Which rows are removed: those of a `self`, or those of one array on one device type. */
typedef struct removal {
    const void *self;
    const tn_kernel_row *table;
    uint32_t type;
} removal;

static int32_t is_meant(const removal *which, const void *self, const tn_kernel_row *table, uint32_t type)
{
    return which->table ? which->table == table && which->type == type : which->self == self;
}

/* Returns how many rows there were. */
static uint32_t remove_kernels(tni_registry *r, const removal *which)
{
    uint32_t count = atomic_load(&r->count), found = 0;
    uint32_t types = atomic_load_explicit(&r->ctx->type_count, memory_order_acquire);
    pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < count; i++) {
        tni_op *op = tni_op_get(r, i);
        for (uint32_t slot = 0; op && slot < types; slot++) {
            for (tni_kernel *k = atomic_load(&op->kernels[slot]); k; k = tni_kernel_follower(k)) {
                if (tni_kernel_is_disabled(k) ||
                    !is_meant(which, k->self, k->table, r->ctx->types[slot]->type))
                    continue;
                tni_kernel_disable(k);
                found++;
            }
        }
    }
    for (uint32_t i = 0; i < r->pending.count; i++) {
        pending_row *p = (pending_row *)r->pending.data + i;
        if (!p->row.schema[0] || !is_meant(which, p->self, p->table, p->type)) continue;
        p->row.schema = "";
        found++;
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

void tni_kernels_remove(tn_context *ctx, const void *self)
{
    const removal which = {.self = self};
    (void)remove_kernels(ctx->registry, &which);
}

int32_t tni_kernels_unregister(tn_context *ctx, const char *device_type, const tn_kernel_row *rows)
{
    const removal which = {.table = rows, .type = device_type ? tn_intern(ctx, device_type) : 0};
    if (rows && which.type && remove_kernels(ctx->registry, &which)) return TN_OK;
    return tni_error(TN_E_NOT_FOUND, "unregister_kernels: no such rows are registered for device type \"%s\"",
                     device_type ? device_type : "NULL");
}

/* ---- Rows that wait ------------------------------------------------------------------------------------ */

void tni_rows_adopt(tni_registry *r, tni_op *op)
{
    for (uint32_t i = 0; i < r->pending.count; i++) {
        pending_row *p = (pending_row *)r->pending.data + i;
        if (!p->row.schema[0] || p->unknown || find_operator(r, &p->row) != op) continue;
        const tni_device_type *type = tni_device_type_find(r->ctx, p->type);
        if (type && insert_kernel(r, op, p, type->slot) == TN_OK) p->row.schema = "";
    }
}

void tni_rows_adopt_device(tn_context *ctx, const tni_device_type *type)
{
    tni_registry *r = ctx->registry;
    pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < r->pending.count; i++) {
        pending_row *p = (pending_row *)r->pending.data + i;
        if (!p->row.schema[0] || p->unknown || p->type != type->type) continue;
        tni_op *op = find_operator(r, &p->row);
        if (op && insert_kernel(r, op, p, type->slot) == TN_OK) p->row.schema = "";
    }
    pthread_mutex_unlock(&r->lock);
}

void tni_rows_forget(tni_registry *r, int32_t (*is_of)(const tn_kernel_row *row, const char *library),
                     const char *library)
{
    for (uint32_t i = 0; i < r->pending.count; i++) {
        pending_row *p = (pending_row *)r->pending.data + i;
        if (p->row.schema[0] && is_of(&p->row, library)) p->row.schema = "";
    }
}

void tni_rows_finish(tni_registry *r)
{
    tni_vector_finish(r->ctx, &r->pending, sizeof(pending_row));
}

/* The i-th row that waits, or NULL; *out_count becomes the number of rows before it. Lock held. */
static const pending_row *nth_pending(const tni_registry *r, uint32_t i, uint32_t *out_count)
{
    *out_count = 0;
    for (uint32_t k = 0; k < r->pending.count; k++) {
        const pending_row *p = (const pending_row *)r->pending.data + k;
        if (p->row.schema[0] && (*out_count)++ == i) return p;
    }
    return NULL;
}

uint32_t tn_inspect_unused_row_count(tn_context *ctx)
{
    uint32_t count = 0;
    if (tni_context_check(ctx)) return 0;
    tni_registry *r = ctx->registry;
    pthread_mutex_lock(&r->lock);
    nth_pending(r, UINT32_MAX, &count);
    pthread_mutex_unlock(&r->lock);
    return count;
}

/* Whether only the device type is missing. Lock held. */
static int32_t waits_for_device(tni_registry *r, const pending_row *p)
{
    return !tni_device_type_find(r->ctx, p->type) && find_operator(r, &p->row);
}

static tn_unused_row_info unused_info(tni_registry *r, const pending_row *p)
{
    return (tn_unused_row_info){.device_type = tn_interned(r->ctx, p->type),
                                .plugin = p->plugin,
                                .schema = p->row.schema,
                                .why = p->unknown               ? TN_UNUSED_UNKNOWN
                                       : waits_for_device(r, p) ? TN_UNUSED_DEVICE
                                                                : TN_UNUSED_OPERATOR,
                                .unknown = p->unknown ? tn_interned(r->ctx, p->unknown) : ""};
}

int32_t tn_inspect_unused_row(tn_context *ctx, uint32_t i, tn_unused_row_info *out)
{
    int32_t status = tni_context_check(ctx);
    tn_unused_row_info info = {0};
    uint32_t count;
    if (status) return status;
    tni_registry *r = ctx->registry;
    if (!out) return tni_error(TN_E_ARGUMENT, "inspect: an argument is NULL");
    pthread_mutex_lock(&r->lock);
    const pending_row *p = nth_pending(r, i, &count);
    if (p) info = unused_info(r, p);
    pthread_mutex_unlock(&r->lock);
    if (!info.schema) return tni_error(TN_E_NOT_FOUND, "inspect: no unused row %u (there are %u)", i, count);
    return tni_struct_write(out, &info, sizeof info, "tn_unused_row_info");
}
