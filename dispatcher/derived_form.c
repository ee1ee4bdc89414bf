/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms that follow from another form by ATen's rule and that the table does not list: `foo.X_out` of `foo.X` or
 * of `foo_.X`, and `foo.X` of `foo_.X`. They are made when a name is looked up that no operator has, so they cost
 * nothing until then. They have no C call.
 */
#include <stdio.h>
#include <string.h>
#include "core/error.h"
#include "dispatcher/define.h"

/* A text that is put together; `overflow` if it did not fit. */
typedef struct text_builder {
    char text[TNI_SCHEMA_BYTES];
    uint64_t length;
    int32_t overflow;
} text_builder;

static void append(text_builder *b, const char *from, uint64_t length)
{
    if (b->length + length >= sizeof b->text) {
        b->overflow = 1;
        return;
    }
    memcpy(b->text + b->length, from, length);
    b->length += length;
    b->text[b->length] = 0;
}

static void append_text(text_builder *b, const char *text)
{
    append(b, text, strlen(text));
}

/* The end of an argument in a schema: the next comma or parenthesis outside of brackets and quotes. */
static const char *argument_end(const char *at)
{
    int32_t depth = 0, quoted = 0;
    for (; *at; at++) {
        if (*at == '"') quoted = !quoted;
        if (quoted) continue;
        if (depth == 0 && (*at == ',' || *at == ')')) break;
        depth += (*at == '(' || *at == '[') - (*at == ')' || *at == ']');
    }
    return at;
}

static int32_t is_option(const tni_argument *a)
{
    return a->type == TNI_TYPE_DTYPE || a->type == TNI_TYPE_LAYOUT || a->type == TNI_TYPE_DEVICE ||
           strcmp(a->name, "pin_memory") == 0;
}

/* Out forms lack the options of a factory, which has all four. */
static int32_t has_options(const tni_schema *s)
{
    uint32_t layouts = 0;
    for (uint32_t i = 0; i < s->n_args; i++) layouts += s->args[i].type == TNI_TYPE_LAYOUT;
    return layouts != 0;
}

/* The arguments of `s`; those of an in-place schema without the mark that says that the first is written. */
static void append_arguments(text_builder *b, const tni_schema *s, int32_t inplace, int32_t is_out)
{
    const char *at = strchr(s->text, '(') + 1, *separator = "";
    int32_t skips = is_out && has_options(s), starred = 0;
    for (uint32_t i = 0; i < s->n_args;) {
        const char *end = argument_end(at);
        int32_t star = *at == '*';
        if (!star && skips && is_option(&s->args[i])) {
            i++;
        } else {
            append_text(b, separator);
            const char *mark = inplace && !star && i == 0 ? strchr(at, '(') : NULL;
            if (mark) {
                append(b, at, (uint64_t)(mark - at));
                at = strchr(mark, ')') + 1;
            }
            append(b, at, (uint64_t)(end - at));
            separator = ", ";
            starred |= star;
            i += !star;
        }
        at = end + (*end == ',' ? 2 : 0);
    }
    if (is_out && !starred) {
        append_text(b, separator);
        append_text(b, "*");
    }
}

/* The first letter that no alias set of the arguments has. */
static char free_letter(const tni_schema *s, int32_t inplace)
{
    char last = 'a' - 1;
    for (uint32_t i = inplace ? 1 : 0; i < s->n_args; i++) {
        if (s->args[i].alias_set && s->args[i].alias_set[0] > last) last = s->args[i].alias_set[0];
    }
    return (char)(last + 1);
}

static void append_outs(text_builder *b, const tni_schema *s, int32_t inplace)
{
    char letter = free_letter(s, inplace), text[64];
    int32_t only_list = s->n_returns == 1 && s->returns[0].is_list;
    for (uint32_t i = 0; i < s->n_returns; i++) {
        const tni_argument *r = &s->returns[i];
        snprintf(text, sizeof text, ", Tensor(%c!)%s ", letter + (char)i, r->is_list ? "[]" : "");
        append_text(b, text);
        snprintf(text, sizeof text, s->n_returns > 1 ? "out%u" : "out", i);
        append_text(b, r->name[0] ? r->name : text);
    }
    append_text(b, ") -> ");
    if (only_list || s->n_returns > 1) append_text(b, "(");
    for (uint32_t i = 0; i < s->n_returns && !only_list; i++) {
        const tni_argument *r = &s->returns[i];
        snprintf(text, sizeof text, "%sTensor(%c!)%s%s", i ? ", " : "", letter + (char)i,
                 r->is_list ? "[]" : "", r->name[0] ? " " : "");
        append_text(b, text);
        append_text(b, r->name);
    }
    if (only_list || s->n_returns > 1) append_text(b, ")");
}

/* `x_out`: what an operator that writes several arguments wrote; ATen's out forms of those have other results. */
static int32_t is_copy_of_argument(const tni_argument *r)
{
    size_t n = strlen(r->name);
    return n > 4 && strcmp(r->name + n - 4, "_out") == 0;
}

/* Whether every result is a new tensor, or self of an in-place form that writes nothing else. */
static int32_t returns_tensors(const tni_schema *s, int32_t inplace)
{
    for (uint32_t i = 1; inplace && i < s->n_args; i++) {
        if (s->args[i].written) return 0;
    }
    for (uint32_t i = 0; i < s->n_returns; i++) {
        const tni_argument *r = &s->returns[i];
        if (r->type != TNI_TYPE_TENSOR || (r->alias_set && !inplace)) return 0;
        if (r->is_list && (inplace || s->n_returns > 1)) return 0;
        if (is_copy_of_argument(r)) return 0;
    }
    return s->n_returns && (!inplace || (s->n_returns == 1 && !s->args[0].is_list));
}

/* The operator "space::name.overload", with `mark` after the name. */
static tni_op *find_form(tni_registry *r, const char *name, const char *overload, uint64_t overload_length,
                         const char *mark)
{
    char full[256];
    int n = snprintf(full, sizeof full, "%.*s%s%s%.*s", (int)strcspn(name, "."), name, mark,
                     overload_length ? "." : "", (int)overload_length, overload);
    if (n < 0 || n >= (int)sizeof full) return NULL;
    pthread_mutex_lock(&r->lock);
    tni_op *op = tni_op_lookup(r, full, (uint64_t)n);
    pthread_mutex_unlock(&r->lock);
    return op && !op->removed ? op : NULL;
}

static int32_t has_out_form(const tni_registry *r, const tni_op *base)
{
    for (uint32_t number = 1; number < atomic_load(&r->count); number++) {
        const tni_op *op = tni_op_get(r, number);
        if (op && op->base == base && op->form == TNI_FORM_OUT && !op->removed) return 1;
    }
    return 0;
}

/* The form that `name` follows from, or NULL. An operator has one out form. */
static tni_op *source_of(tni_registry *r, const char *name, int32_t *out_is_out)
{
    const char *dot = strchr(name, '.'), *overload = dot ? dot + 1 : "";
    uint64_t length = strlen(overload);
    int32_t is_out = length == 3 || (length > 4 && overload[length - 4] == '_');
    is_out = is_out && strcmp(overload + length - 3, "out") == 0;
    if (is_out) length -= length == 3 ? 3 : 4;
    tni_op *op = is_out ? find_form(r, name, overload, length, "") : NULL;
    if (!op) op = find_form(r, name, overload, length, "_");
    *out_is_out = is_out;
    if (!op || op->entry->is_alias || op->base->def || op->is_view || op->kind == TNI_KIND_FOREACH)
        return NULL;
    return is_out && has_out_form(r, op->base) ? NULL : op;
}

tni_op *tni_derive_form(tni_registry *r, const char *name)
{
    int32_t is_out;
    tni_op *source = source_of(r, name, &is_out), *op = NULL;
    tni_schema *schema;
    if (!source || tni_op_ready(r, source)) return NULL;
    const tni_schema *s = source->schema;
    int32_t inplace = source->form == TNI_FORM_INPLACE;
    if (!returns_tensors(s, inplace)) return NULL;
    text_builder b = {.length = 0};
    append_text(&b, name);
    append_text(&b, "(");
    append_arguments(&b, s, inplace, is_out);
    if (is_out)
        append_outs(&b, s, inplace);
    else
        append_text(&b, ") -> Tensor");
    if (b.overflow || tni_schema_parse(r->ctx, b.text, &schema)) return NULL;
    tni_op_entry entry = *source->base->entry;
    entry.form = is_out ? TNI_FORM_OUT : TNI_FORM_FUNCTIONAL;
    entry.tags =
        (entry.tags & ~(uint32_t)(TNI_TAG_INPLACE | TNI_TAG_INPLACE_VIEW | TNI_TAG_CORE)) | TNI_TAG_GENERATED;
    if (is_out) entry.tags |= TNI_TAG_OUT;
    entry.calls = entry.autocast = 0;
    entry.is_out_exact = is_out != 0;
    int32_t status = tni_operator_add(r->ctx, &entry, source->base, schema, &op);
    return status ? tni_op_find(r, name) : op; /* another thread may have made it */
}
