/* SPDX-License-Identifier: Apache-2.0 */
/* Definitions of operators by plugins, libraries and programs; see define.h. */
#include <string.h>
#include "core/context.h"
#include "core/error.h"
#include "dispatcher/custom.h"
#include "dispatcher/define.h"
#include "dispatcher/rows.h"

/* What belongs to an operator that is not built in: the definition as given, the entry and the operator. */
typedef struct definition {
    tn_operator_def def;
    tni_op_entry entry;
    tni_op op;
} definition;

static uint32_t tags_of(const tn_operator_def *def)
{
    return (def->tags & TN_TAG_BIT_DATA_DEPENDENT ? (uint32_t)TNI_TAG_DYNAMIC_OUTPUT_SHAPE : 0u) |
           (def->tags & TN_TAG_BIT_DIFFERENTIABLE_ONCE ? (uint32_t)TNI_TAG_DIFFERENTIABLE_ONCE : 0u) |
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
    tni_rows_adopt(r, &d->op);
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

/* The namespaces of built-in operators: a later version may define any name in them. */
static int32_t check_namespace(tn_context *ctx, const tni_schema *s)
{
    if (strcmp(s->ns, "aten") != 0 && strcmp(s->ns, "prim") != 0) return TN_OK;
    if (tni_op_find(ctx->registry, s->full_name)) return TN_OK; /* the error says that it is defined */
    return tni_error(TN_E_ARGUMENT,
                     "operator %s: the namespace '%s' is Tenon's own; define the operator in a namespace of "
                     "your own, such as mylib::",
                     s->full_name, s->ns);
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
    if (!status) status = check_namespace(ctx, schema);
    if (!status) status = check_aliases(schema);
    if (!status) status = check_functions(&copy, schema);
    d = status ? NULL : tni_alloc_zeroed(ctx, sizeof *d);
    if (!d) {
        tni_schema_destroy(ctx, schema);
        return status ? status : TN_E_OUT_OF_MEMORY;
    }
    d->def = copy;
    d->entry = (tni_op_entry){.kind = TNI_KIND_STRUCTURED,
                              .spreads = 1,
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
    tni_rows_finish(r);
}
