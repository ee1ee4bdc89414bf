/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions of operators and kernel rows by plugins, libraries and programs; see define.h. */
#include <stdio.h>
#include <string.h>
#include "core/context.h"
#include "core/error.h"
#include "dispatcher/custom.h"
#include "dispatcher/define.h"

/* A kernel row; kept while its operator is not defined yet. */
typedef struct pending_row {
    tn_kernel_row row;
    void *self;
    const char *plugin;
    const tn_kernel_row *table; /* the array that the row is from */
    uint32_t slot;
} pending_row;

#define KNOWN_ROW_FLAGS                                                                                 \
    (TN_ROW_CASTS | TN_ROW_LAZY_BITS | TN_ROW_DETERMINISTIC_ONLY_ONE_THREAD | TN_ROW_NONDETERMINISTIC | \
     TN_ROW_IMMEDIATE_ONLY_HOST | TN_ROW_WIDE_IMMEDIATE | TN_ROW_SCOPE | TN_ROW_INDEX32 |               \
     TN_ROW_RANDOM_STATE)

/* What belongs to an operator that is not built in: the definition as given, the entry and the operator. */
typedef struct definition {
    tn_operator_def def;
    tni_op_entry entry;
    tni_op op;
} definition;

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

/* Inserts a kernel into the operator's list for a device type: highest priority first, among equals the latest
 * first. Lock held. */
static int32_t insert_kernel(tni_registry *r, tni_op *op, const pending_row *p)
{
    uint32_t unknown_args;
    _Atomic(tni_kernel *) *head = &op->kernels[p->slot];
    tni_kernel *k, *at, *before = NULL;
    int32_t status = match_schema(r, op, &p->row, &unknown_args);
    if (!status) status = check_runs(op, &p->row);
    if (status) return status;
    k = tni_alloc_zeroed(r->ctx, sizeof *k);
    if (!k) return TN_E_OUT_OF_MEMORY;
    k->row = p->row;
    k->self = p->self;
    k->plugin = p->plugin;
    k->table = p->table;
    k->dtypes = dtype_bits(p->row.dtypes);
    k->unknown_args = unknown_args;
    k->device_slot = p->slot;
    k->asks = unknown_args || k->row.can_run || k->row.max_rank || k->row.max_operands ||
              k->row.flags & (TN_ROW_INDEX32 | TN_ROW_SCOPE | TN_ROW_RANDOM_STATE);
    for (at = atomic_load(head); at && at->row.priority > k->row.priority; at = tni_kernel_follower(at))
        before = at;
    atomic_init(&k->next, at);
    atomic_store_explicit(before ? &before->next : head, k, memory_order_release);
    return TN_OK;
}

static int32_t register_row(tni_registry *r, const pending_row *p)
{
    tni_op *op;
    pending_row *waiting;
    if (!p->row.schema || !p->row.run) {
        return tni_error(TN_E_CONTRACT, "plugin %s: kernel row: %s is NULL", p->plugin,
                         p->row.schema ? "run" : "schema");
    }
    op = tni_op_lookup(r, p->row.schema, strcspn(p->row.schema, "("));
    if (op && !op->removed) return insert_kernel(r, op, p);
    waiting = tni_vector_push(r->ctx, &r->pending, sizeof *waiting);
    if (!waiting) return TN_E_OUT_OF_MEMORY;
    *waiting = *p;
    return TN_OK;
}

static int32_t read_row(const char *from, uint32_t row_bytes, const char *plugin, tn_kernel_row *out)
{
    uint32_t size;
    memset(out, 0, sizeof *out);
    memcpy(&size, from, sizeof size);
    if (size == 0) size = row_bytes;
    if (size > row_bytes) {
        return tni_error(TN_E_CONTRACT, "plugin %s: a kernel row says size %u, rows are %u bytes apart",
                         plugin, size, row_bytes);
    }
    memcpy(out, from, size < sizeof *out ? size : sizeof *out);
    return TN_OK;
}

static int32_t no_rows(const char *plugin, uint32_t count)
{
    return tni_error(TN_E_ARGUMENT, "kernel rows of %s: rows is NULL, count is %u", plugin, count);
}

int32_t tni_kernels_register(tn_context *ctx, const char *device_type, const char *plugin, void *self,
                             const tn_kernel_row *rows, uint32_t count, uint32_t row_bytes)
{
    tni_registry *r = ctx->registry;
    uint32_t id = device_type ? tn_intern(ctx, device_type) : 0;
    tni_device_type *type = id ? tni_device_type_find(ctx, id) : NULL;
    int32_t status = TN_OK;
    if (count && !rows) return no_rows(plugin, count);
    if (!type)
        return tni_error(TN_E_DEVICE, "kernels of %s: no device type \"%s\"", plugin,
                         device_type ? device_type : "NULL");
    pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < count && !status; i++) {
        pending_row p = {.self = self, .plugin = plugin, .table = rows, .slot = type->slot};
        status = read_row((const char *)rows + (uint64_t)i * row_bytes, row_bytes, plugin, &p.row);
        /* A row with a condition that this host does not know may not run. */
        if (!status && !(p.row.flags & ~KNOWN_ROW_FLAGS)) status = register_row(r, &p);
    }
    pthread_mutex_unlock(&r->lock);
    return status;
}

static int32_t check_row(const tn_kernel_row *row, const char *plugin)
{
    const char *schema = row->schema ? row->schema : "NULL";
    if (row->flags & ~KNOWN_ROW_FLAGS)
        return tni_error(TN_E_UNKNOWN_FIELD, "kernel row \"%s\" of %s: unknown flags 0x%x", schema, plugin,
                         row->flags & ~KNOWN_ROW_FLAGS);
    if (row->strides > TN_STRIDES_BLAS)
        return tni_error(TN_E_UNKNOWN_FIELD,
                         "kernel row \"%s\" of %s: strides is %u (expected a TN_STRIDES_..., 0 to %u)",
                         schema, plugin, row->strides, TN_STRIDES_BLAS);
    if (row->n_arguments && !row->arguments)
        return tni_error(TN_E_ARGUMENT, "kernel row \"%s\" of %s: arguments is NULL, n_arguments is %u",
                         schema, plugin, row->n_arguments);
    for (uint32_t i = 0; i < row->n_arguments; i++) {
        const tn_row_argument *a = &row->arguments[i];
        if (a->strides > TN_STRIDES_BLAS || a->place > TN_PLACE_HOST)
            return tni_error(TN_E_UNKNOWN_FIELD,
                             "kernel row \"%s\" of %s: argument %u: %s is %u (expected 0 to %u)", schema,
                             plugin, i, a->strides > TN_STRIDES_BLAS ? "strides" : "place",
                             a->strides > TN_STRIDES_BLAS ? a->strides : a->place,
                             a->strides > TN_STRIDES_BLAS ? TN_STRIDES_BLAS : TN_PLACE_HOST);
    }
    return TN_OK;
}

int32_t tni_kernels_check(const char *plugin, const tn_kernel_row *rows, uint32_t count, uint32_t row_bytes)
{
    int32_t status = TN_OK;
    if (count && !rows) return no_rows(plugin, count);
    if (count && row_bytes < offsetof(tn_kernel_row, can_run))
        return tni_error(TN_E_CONTRACT, "kernel rows of %s: rows of %u bytes, expected at least %zu", plugin,
                         row_bytes, offsetof(tn_kernel_row, can_run));
    for (uint32_t i = 0; i < count && !status; i++) {
        const char *at = (const char *)rows + (uint64_t)i * row_bytes;
        tn_kernel_row row;
        uint32_t size;
        memcpy(&size, at, sizeof size);
        if (!size)
            return tni_error(TN_E_ARGUMENT, "kernel row %u of %s: size is 0; set it to sizeof(tn_kernel_row)",
                             i, plugin);
        status = read_row(at, row_bytes, plugin, &row);
        if (!status && size > sizeof row) { /* of a newer header: what it has more must be zero */
            char name[128];
            snprintf(name, sizeof name, "kernel row %u of %s", i, plugin);
            status = tni_struct_read(&row, sizeof row, at, name);
        }
        if (!status) status = check_row(&row, plugin);
    }
    return status;
}

/* Which rows are removed: those of a `self`, or those of one array on one device type. */
typedef struct removal {
    const void *self;
    const tn_kernel_row *table;
    uint32_t slot;
} removal;

static int32_t is_meant(const removal *which, const void *self, const tn_kernel_row *table, uint32_t slot)
{
    return which->table ? which->table == table && which->slot == slot : which->self == self;
}

/* Returns how many rows there were. */
static uint32_t remove_kernels(tni_registry *r, const removal *which)
{
    uint32_t count = atomic_load(&r->count), found = 0;
    pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < count; i++) {
        tni_op *op = tni_op_get(r, i);
        for (uint32_t slot = 0; op && slot < TNI_MAX_DEVICE_TYPES; slot++) {
            for (tni_kernel *k = atomic_load(&op->kernels[slot]); k; k = tni_kernel_follower(k)) {
                if (tni_kernel_is_disabled(k) || !is_meant(which, k->self, k->table, slot)) continue;
                tni_kernel_disable(k);
                found++;
            }
        }
    }
    for (uint32_t i = 0; i < r->pending.count; i++) {
        pending_row *p = (pending_row *)r->pending.data + i;
        if (!p->row.schema[0] || !is_meant(which, p->self, p->table, p->slot)) continue;
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
    uint32_t id = device_type ? tn_intern(ctx, device_type) : 0;
    const tni_device_type *type = id ? tni_device_type_find(ctx, id) : NULL;
    const removal which = {.table = rows, .slot = type ? type->slot : UINT32_MAX};
    if (rows && type && remove_kernels(ctx->registry, &which)) return TN_OK;
    return tni_error(TN_E_NOT_FOUND, "unregister_kernels: no such rows are registered for device type \"%s\"",
                     device_type ? device_type : "NULL");
}

/* The i-th row that waits for its operator, or NULL; *out_count becomes the number of rows before it. Lock held. */
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
    if (p)
        info = (tn_unused_row_info){.device_type = tn_interned(ctx, ctx->types[p->slot]->type),
                                    .plugin = p->plugin,
                                    .schema = p->row.schema};
    pthread_mutex_unlock(&r->lock);
    if (!info.schema) return tni_error(TN_E_NOT_FOUND, "inspect: no unused row %u (there are %u)", i, count);
    return tni_struct_write(out, &info, sizeof info, "tn_unused_row_info");
}

/* Inserts the rows that waited for this operator. Lock held. */
static void adopt_pending(tni_registry *r, tni_op *op)
{
    for (uint32_t i = 0; i < r->pending.count; i++) {
        pending_row *p = (pending_row *)r->pending.data + i;
        uint64_t length = strcspn(p->row.schema, "(");
        if (length && tni_op_lookup(r, p->row.schema, length) == op && insert_kernel(r, op, p) == TN_OK) {
            p->row.schema = "";
        }
    }
}

static uint32_t tags_of(const tn_operator_def *def)
{
    return (def->tags & TN_TAG_BIT_DATA_DEPENDENT ? (uint32_t)TNI_TAG_DYNAMIC_OUTPUT_SHAPE : 0u) |
           (def->tags & TN_TAG_BIT_NONDETERMINISTIC ? (uint32_t)TNI_TAG_NONDETERMINISTIC_SEEDED : 0u);
}

static int32_t read_definition(const tn_operator_def *def, tn_operator_def *out)
{
    const uint32_t known =
        TN_TAG_BIT_DATA_DEPENDENT | TN_TAG_BIT_NONDETERMINISTIC | TN_TAG_BIT_DIFFERENTIABLE_ONCE;
    const int32_t status = tni_struct_read(out, sizeof *out, def, "tn_operator_def");
    if (status) return status;
    if (out->tags & ~known)
        return tni_error(TN_E_UNKNOWN_FIELD, "operator definition: unknown tag bits 0x%x",
                         out->tags & ~known);
    if (def->size < offsetof(tn_operator_def, saves))
        return tni_error(TN_E_ARGUMENT, "operator definition: size is %u; set it to sizeof(tn_operator_def)",
                         def->size);
    if (!out->schema) return tni_error(TN_E_ARGUMENT, "operator definition: schema is NULL");
    if (out->reserved)
        return tni_error(TN_E_UNKNOWN_FIELD, "operator definition \"%s\": reserved is %u (expected 0)",
                         out->schema, out->reserved);
    if (out->autocast > TN_AUTOCAST_WIDEST)
        return tni_error(TN_E_UNKNOWN_FIELD,
                         "operator definition \"%s\": autocast is %u (expected a TN_AUTOCAST_..., 0 to %u)",
                         out->schema, out->autocast, TN_AUTOCAST_WIDEST);
    return TN_OK;
}

/* As in ATen, `out` arguments are keyword-only; another argument that is written is state, such as a counter. */
static uint32_t form_of(const tni_schema *s)
{
    if (s->n_args && s->args[0].written) return TNI_FORM_INPLACE;
    for (uint32_t i = 0; i < s->n_args; i++) {
        if (s->args[i].written && s->args[i].keyword_only) return TNI_FORM_OUT;
    }
    return TNI_FORM_FUNCTIONAL;
}

static int32_t define_locked(tni_registry *r, definition *d, tni_schema *schema)
{
    tni_op *old = tni_op_lookup(r, schema->full_name, strlen(schema->full_name));
    uint32_t number = atomic_load(&r->count);
    definition **slot;
    int32_t status;
    if (old && !old->removed) {
        char text[TNI_SCHEMA_BYTES];
        return tni_error(TN_E_EXISTS, "operator %s is defined already, as \"%s\"", schema->full_name,
                         tni_op_schema_text(old, text));
    }
    if (number >= TNI_MAX_OPS)
        return tni_error(TN_E_STATE, "operator %s: the registry is full", schema->full_name);
    slot = tni_vector_push(r->ctx, &r->libraries, sizeof *slot);
    if (!slot) return TN_E_OUT_OF_MEMORY;
    *slot = d;
    d->entry.number = d->op.number = number;
    d->entry.base = (uint16_t)d->op.base->number;
    if (d->op.def) tni_custom_prepare(&d->op);
    status = tni_op_publish(r, &d->op);
    if (status) {
        r->libraries.count--;
        return status;
    }
    adopt_pending(r, &d->op);
    return TN_OK;
}

static int32_t check_limits(const tni_schema *s)
{
    if (s->n_args > TNI_MAX_ARGS)
        return tni_error(TN_E_ARGUMENT, "operator %s: %u arguments (at most %d)", s->full_name, s->n_args,
                         TNI_MAX_ARGS);
    if (s->n_returns > TNI_MAX_OUTPUTS)
        return tni_error(TN_E_ARGUMENT, "operator %s: %u results (at most %d)", s->full_name, s->n_returns,
                         TNI_MAX_OUTPUTS);
    return TN_OK;
}

/* Whether two alias sets, such as "a" and "a|b", have a name in common. "*" is every set. */
static int32_t alias_sets_meet(const char *a, const char *b)
{
    for (uint64_t n; *a; a += n + (a[n] != 0)) {
        n = strcspn(a, "|");
        if (n == 1 && *a == '*') return 1;
        const char *at = b;
        for (uint64_t m; *at; at += m + (at[m] != 0)) {
            m = strcspn(at, "|");
            if ((m == 1 && *at == '*') || (m == n && memcmp(a, at, n) == 0)) return 1;
        }
    }
    return 0;
}

/* What the functions of a definition cannot do with its schema. */
static int32_t check_functions(const tn_operator_def *def, const tni_schema *s)
{
    const char *at = def->saves;
    tni_saved_name name;
    int32_t more = at != NULL, status = TN_OK;
    for (uint32_t i = 0; i < s->n_returns; i++) {
        if ((def->composite && !def->infer) ||
            (s->returns[i].type == TNI_TYPE_TENSOR && !s->returns[i].is_list))
            continue;
        return tni_error(TN_E_ARGUMENT,
                         "operator %s: result %u is %s, which only a composite without a shape rule can give",
                         s->full_name, i, s->returns[i].type_text);
    }
    if (def->backward && form_of(s) == TNI_FORM_OUT)
        return tni_error(TN_E_ARGUMENT, "operator %s: an out form has no gradient, but backward is set",
                         s->full_name);
    while (more && !status) status = tni_saved_name_next(s, &at, &name, &more);
    return status;
}

/* A result is in the alias set of an argument, or in none. */
static int32_t check_aliases(const tni_schema *s)
{
    for (uint32_t i = 0; i < s->n_returns; i++) {
        const char *set = s->returns[i].alias_set;
        uint32_t k = 0;
        while (set && k < s->n_args && !(s->args[k].alias_set && alias_sets_meet(set, s->args[k].alias_set)))
            k++;
        if (set && k == s->n_args)
            return tni_error(TN_E_SYNTAX,
                             "operator %s: result %u is in the alias set '%s', which no argument has (schema "
                             "\"%s\")",
                             s->full_name, i, set, s->text);
    }
    return TN_OK;
}

/* Completes the operator of `d`, which has an entry and a base, and publishes it. Takes both, also on failure. */
static int32_t add_definition(tn_context *ctx, definition *d, tni_schema *schema)
{
    tni_registry *r = ctx->registry;
    const tni_op_entry *e = &d->entry;
    d->op.kind = e->kind;
    d->op.form = e->form;
    d->op.promote = e->promote;
    d->op.takes = e->takes;
    d->op.is_out_exact = e->is_out_exact;
    d->op.tags = e->tags;
    d->op.name = schema->full_name;
    d->op.entry = e;
    d->op.schema = schema;
    tni_op_fill(&d->op, schema);
    pthread_mutex_lock(&r->lock);
    int32_t status = define_locked(r, d, schema);
    pthread_mutex_unlock(&r->lock);
    if (!status) return TN_OK;
    tni_schema_destroy(ctx, schema);
    tni_free(ctx, d, sizeof *d);
    return status;
}

int32_t tni_operator_define(tn_context *ctx, const tn_operator_def *def, uint32_t *out)
{
    tn_operator_def copy;
    tni_schema *schema;
    definition *d;
    int32_t status = read_definition(def, &copy);
    if (status) return status;
    status = tni_schema_parse(ctx, copy.schema, &schema);
    if (status) return status;
    status = check_limits(schema);
    if (!status) status = check_aliases(schema);
    if (!status) status = check_functions(&copy, schema);
    d = status ? NULL : tni_alloc_zeroed(ctx, sizeof *d);
    if (!d) {
        tni_schema_destroy(ctx, schema);
        return status ? status : TN_E_OUT_OF_MEMORY;
    }
    d->def = copy;
    d->entry = (tni_op_entry){.kind = TNI_KIND_STRUCTURED,
                              .form = form_of(schema),
                              .tags = tags_of(&copy),
                              .doc = copy.doc ? copy.doc : ""};
    d->op.def = &d->def;
    d->op.base = &d->op;
    status = add_definition(ctx, d, schema);
    if (!status && out) *out = d->op.number;
    return status;
}

int32_t tni_operator_add(tn_context *ctx, const tni_op_entry *entry, tni_op *base, tni_schema *schema,
                         tni_op **out)
{
    definition *d = tni_alloc_zeroed(ctx, sizeof *d);
    if (!d) {
        tni_schema_destroy(ctx, schema);
        return TN_E_OUT_OF_MEMORY;
    }
    d->entry = *entry;
    d->op.base = base;
    int32_t status = add_definition(ctx, d, schema);
    if (!status) *out = &d->op;
    return status;
}

int32_t tni_namespace_remove(tn_context *ctx, const char *name)
{
    tni_registry *r = ctx->registry;
    uint32_t found = 0;
    pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < r->libraries.count; i++) {
        definition *d = ((definition **)r->libraries.data)[i];
        if (strcmp(d->op.schema->ns, name) != 0 || d->op.removed) continue;
        tni_op_remove(&d->op);
        found++;
    }
    pthread_mutex_unlock(&r->lock);
    return found ? TN_OK
                 : tni_error(TN_E_NOT_FOUND, "namespace_remove: no operator was defined in namespace \"%s\"",
                             name);
}

void tni_define_free(tn_context *ctx, tni_op *op)
{
    (void)ctx;
    (void)op; /* definitions are freed from their list */
}

void tni_define_finish(tni_registry *r)
{
    for (uint32_t i = 0; i < r->libraries.count; i++) {
        tni_free(r->ctx, ((definition **)r->libraries.data)[i], sizeof(definition));
    }
    tni_vector_finish(r->ctx, &r->libraries, sizeof(definition *));
    tni_vector_finish(r->ctx, &r->pending, sizeof(pending_row));
}
