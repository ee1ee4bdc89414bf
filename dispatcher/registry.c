/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry. Numbers are dense and never reused: built-in operators have those of the table, others get the
 * next free one. Names are looked up in an open-addressing hash table of numbers that only grows. Schemas of
 * built-in operators are parsed at first use, since a program uses a few dozen of two thousand.
 */
#include <string.h>
#include "core/error.h"
#include "dispatcher/backend.h"
#include "dispatcher/define.h"
#include "dispatcher/registry.h"

typedef struct name_table {
    uint32_t *slots; /* numbers, 0: free */
    uint32_t capacity;
    uint32_t used;
} name_table;

static uint64_t hash_name(const char *name, uint64_t length)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (uint64_t i = 0; i < length; i++) h = (h ^ (unsigned char)name[i]) * 1099511628211u;
    return h;
}

static uint64_t name_length(const char *text)
{
    return strcspn(text, "(");
}

static int32_t same_name(const tni_op *op, const char *name, uint64_t length)
{
    return strncmp(op->name, name, length) == 0 && (op->name[length] == 0 || op->name[length] == '(');
}

/* The slot of the name, or the free slot where it belongs. */
static uint32_t *name_slot(tni_registry *r, name_table *t, const char *name, uint64_t length)
{
    uint64_t i = hash_name(name, length);
    for (;; i++) {
        uint32_t *slot = &t->slots[i & (t->capacity - 1)];
        const tni_op *op = *slot ? tni_op_get(r, *slot) : NULL;
        if (!op || same_name(op, name, length)) return slot;
    }
}

static int32_t grow_names(tni_registry *r, name_table *t)
{
    name_table bigger = {.capacity = t->capacity ? t->capacity * 2 : 8192};
    bigger.slots = tni_alloc_zeroed(r->ctx, bigger.capacity * sizeof(uint32_t));
    if (!bigger.slots) return TN_E_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < t->capacity; i++) {
        const tni_op *op = t->slots[i] ? tni_op_get(r, t->slots[i]) : NULL;
        if (op) *name_slot(r, &bigger, op->name, name_length(op->name)) = op->number;
    }
    bigger.used = t->used;
    tni_free(r->ctx, t->slots, t->capacity * sizeof(uint32_t));
    *t = bigger;
    return TN_OK;
}

tni_op *tni_op_lookup(tni_registry *r, const char *name, uint64_t length)
{
    name_table *t = r->names;
    uint32_t number = *name_slot(r, t, name, length);
    return number ? tni_op_get(r, number) : NULL;
}

tni_op *tni_op_find(tni_registry *r, const char *name)
{
    tni_op *op;
    pthread_mutex_lock(&r->lock);
    op = tni_op_lookup(r, name, strlen(name));
    pthread_mutex_unlock(&r->lock);
    return op && !op->removed ? op : NULL;
}

int32_t tni_op_publish(tni_registry *r, tni_op *op)
{
    name_table *t = r->names;
    _Atomic(tni_op *) *_Atomic *page = &r->pages[op->number / TNI_OPS_PER_PAGE];
    uint64_t length = name_length(op->name);
    if (2 * (t->used + 1) > t->capacity) {
        int32_t status = grow_names(r, t);
        if (status) return status;
    }
    if (!*page) {
        _Atomic(tni_op *) *fresh = tni_alloc_zeroed(r->ctx, TNI_OPS_PER_PAGE * sizeof *fresh);
        if (!fresh) return TN_E_OUT_OF_MEMORY;
        atomic_store_explicit(page, fresh, memory_order_release);
    }
    uint32_t *slot = name_slot(r, t, op->name, length);
    t->used += *slot == 0;
    *slot = op->number;
    atomic_store_explicit(&(*page)[op->number % TNI_OPS_PER_PAGE], op, memory_order_release);
    if (op->number >= atomic_load(&r->count)) atomic_store(&r->count, op->number + 1);
    return TN_OK;
}

void tni_op_fill(tni_op *op, tni_schema *s)
{
    op->n_args = s->n_args;
    op->n_returns = s->n_returns;
    op->first_tensor = 255;
    op->returns_self = 255;
    for (uint32_t i = 0; i < s->n_args; i++) {
        tni_argument *a = &s->args[i];
        a->spreads = a->type == TNI_TYPE_INT && a->list_length > 1 && op->entry->spreads;
        if (a->type == TNI_TYPE_TENSOR) {
            op->n_tensors++;
            if (op->first_tensor == 255 && !a->is_list) op->first_tensor = (uint8_t)i;
            if (a->written && op->returns_self == 255) op->returns_self = (uint8_t)i;
        }
    }
}

const char *tni_op_schema_text(const tni_op *op, char *buffer)
{
    if (op->schema) return op->schema->text;
    const uint16_t *part = &tni_builtin_signatures[tni_builtin_ops[op->number - 1].signature];
    const char *between = "(";
    for (char *at = stpcpy(buffer, op->name);; part++, between = ", ") {
        int32_t is_last = (*part & TNI_LAST_PART) != 0;
        at = stpcpy(at, !is_last ? between : *between == '(' ? "() -> " : ") -> ");
        at = stpcpy(at, &tni_builtin_part_texts[tni_builtin_parts[*part & ~TNI_LAST_PART]]);
        if (is_last) return buffer;
    }
}

int32_t tni_op_prepare(tni_registry *r, tni_op *op)
{
    tni_schema *schema = NULL;
    char text[TNI_SCHEMA_BYTES];
    int32_t status = TN_OK;
    pthread_mutex_lock(&r->lock);
    if (!op->schema) {
        status = tni_schema_parse(r->ctx, tni_op_schema_text(op, text), &schema);
        if (!status) {
            tni_op_fill(op, schema);
            op->schema = schema;
        }
    }
    pthread_mutex_unlock(&r->lock);
    return status;
}

/* Finds the arguments that results go to. Out arguments are appended to those of the base form, except in out
 * forms of factories, which run.c treats. */
static void find_given(tni_op *op)
{
    op->first_given = op->n_given = 0;
    if (op->form == TNI_FORM_INPLACE && op->returns_self < op->n_args) {
        op->first_given = op->returns_self;
        op->n_given = 1;
    } else if (op->form == TNI_FORM_OUT && op->n_args > op->base->n_args) {
        uint32_t n = op->n_args - op->base->n_args;
        op->first_given = (uint8_t)op->base->n_args;
        op->n_given = (uint8_t)(n < op->n_returns ? n : op->n_returns);
    }
}

int32_t tni_op_open(tni_registry *r, tni_op *op, uint32_t n_outs)
{
    if (!op) return tni_error(TN_E_NOT_FOUND, "there is no operator with this number");
    if (op->removed)
        return tni_error(TN_E_NOT_FOUND,
                         "%s is no longer there: its library was closed, or its namespace removed",
                         tni_op_name(op));
    int32_t status = tni_op_ready(r, op);
    if (!status) status = tni_op_ready(r, op->base);
    if (status) return status;
    if (n_outs < op->n_returns)
        return tni_error(TN_E_ARGUMENT, "%s: the operator has %u results, but there is room for %u",
                         tni_op_name(op), op->n_returns, n_outs);
    pthread_mutex_lock(&r->lock);
    if (!op->removed && !op->callable) {
        find_given(op);
        atomic_store_explicit(&op->callable, op->n_returns + 1, memory_order_release);
    }
    pthread_mutex_unlock(&r->lock);
    return TN_OK;
}

void tni_op_remove(tni_op *op)
{
    op->removed = 1;
    atomic_store_explicit(&op->callable, 0, memory_order_relaxed);
}

static tni_op_entry entry_of(uint32_t number)
{
    const tni_op_row *row = &tni_builtin_ops[number - 1];
    return (tni_op_entry){.promote_rule = tni_builtin_promote_rules[row->promote_rule],
                          .infer = tni_builtin_infers[row->infer],
                          .composite = tni_builtin_composites[row->composite],
                          .doc = &tni_builtin_docs[row->doc],
                          .mutates = row->mutates,
                          .tags = row->tags,
                          .number = (uint16_t)number,
                          .base = row->base,
                          .calls = row->calls,
                          .is_alias = row->is_alias,
                          .kind = row->kind,
                          .form = row->form,
                          .autocast = row->autocast,
                          .promote = row->promote,
                          .unrecorded = row->unrecorded,
                          .takes = row->takes,
                          .is_out_exact = row->is_out_exact,
                          .spreads = row->spreads};
}

static int32_t add_builtin(tni_registry *r)
{
    tni_op *ops = r->builtin = tni_alloc_zeroed(r->ctx, tni_builtin_op_count * sizeof *ops);
    tni_op_entry *entries = r->entries = tni_alloc_zeroed(r->ctx, tni_builtin_op_count * sizeof *entries);
    if (!ops || !entries) return TN_E_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < tni_builtin_op_count; i++) {
        tni_op_entry *e = &entries[i];
        int32_t status;
        *e = entry_of(i + 1);
        ops[i].number = e->number;
        ops[i].kind = e->kind;
        ops[i].form = e->form;
        ops[i].promote = e->promote;
        ops[i].takes = e->takes;
        ops[i].is_out_exact = e->is_out_exact;
        ops[i].tags = e->tags;
        ops[i].entry = e;
        ops[i].name = &tni_builtin_names[tni_builtin_ops[i].name];
        ops[i].is_view = e->kind == TNI_KIND_VIEW;
        ops[i].copy_operator = tni_copy_operator_of(e->number);
        status = tni_op_publish(r, &ops[i]);
        if (status) return status;
    }
    for (uint32_t i = 0; i < tni_builtin_op_count; i++) {
        const tni_op_entry *e = &entries[i];
        ops[i].base = tni_op_get(r, e->base);
        if (e->calls && !(e->tags & TNI_TAG_VIEW_COPY) && e->kind != TNI_KIND_FOREACH)
            ops[i].redirects_to = tni_op_get(r, e->calls);
    }
    return TN_OK;
}

int32_t tni_registry_init(tn_context *ctx, const tn_context_options *options)
{
    tni_registry *r = tni_alloc_zeroed(ctx, sizeof *r);
    (void)options;
    if (!r) return TN_E_OUT_OF_MEMORY;
    r->ctx = ctx;
    atomic_init(&r->count, 1);
    atomic_init(&r->fallback_policy, TN_FALLBACK_WARN);
    pthread_mutex_init(&r->lock, NULL);
    ctx->registry = r;
    r->names = tni_alloc_zeroed(ctx, sizeof(name_table));
    int32_t status = !r->names || grow_names(r, r->names) ? TN_E_OUT_OF_MEMORY : add_builtin(r);
    if (status) tni_registry_finish(ctx);
    return status;
}

static void free_op(tni_registry *r, tni_op *op)
{
    for (uint32_t slot = 0; slot < TNI_MAX_DEVICE_TYPES; slot++) {
        tni_kernel *k = atomic_load(&op->kernels[slot]);
        while (k) {
            tni_kernel *next = tni_kernel_follower(k);
            tni_free(r->ctx, k, sizeof *k);
            k = next;
        }
    }
    tni_schema_destroy(r->ctx, (tni_schema *)(uintptr_t)op->schema);
    tni_define_free(r->ctx, op);
}

void tni_registry_finish(tn_context *ctx)
{
    tni_registry *r = ctx->registry;
    uint32_t count;
    if (!r) return;
    count = atomic_load(&r->count);
    for (uint32_t i = 0; i < count; i++) {
        tni_op *op = tni_op_get(r, i);
        if (op) free_op(r, op);
    }
    for (uint32_t i = 0; i < TNI_MAX_OPS / TNI_OPS_PER_PAGE; i++) {
        if (r->pages[i]) tni_free(ctx, r->pages[i], TNI_OPS_PER_PAGE * sizeof(_Atomic(tni_op *)));
    }
    if (r->names) {
        name_table *t = r->names;
        tni_free(ctx, t->slots, t->capacity * sizeof(uint32_t));
        tni_free(ctx, t, sizeof *t);
    }
    if (r->builtin) tni_free(ctx, r->builtin, tni_builtin_op_count * sizeof(tni_op));
    if (r->entries) tni_free(ctx, r->entries, tni_builtin_op_count * sizeof(tni_op_entry));
    tni_define_finish(r);
    tni_vector_finish(ctx, &r->observers, sizeof(tni_observer_slot));
    pthread_mutex_destroy(&r->lock);
    tni_free(ctx, r, sizeof *r);
    ctx->registry = NULL;
}

void tni_layer_set(tn_context *ctx, uint32_t layer, tni_layer_fn *run, int32_t always)
{
    tni_registry *r = ctx->registry;
    r->layers[layer] = run;
    tni_layer_set_always(r, layer, always);
}

void tni_layer_set_always(tni_registry *r, uint32_t layer, int32_t always)
{
    if (always)
        atomic_fetch_or(&r->always, TNI_LAYER_BIT(layer));
    else
        atomic_fetch_and(&r->always, ~TNI_LAYER_BIT(layer));
}
