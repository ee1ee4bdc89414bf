/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema parser: recursive descent over one line of text. It makes one allocation, whose size follows from
 * the length of the text and the number of commas.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "core/error.h"
#include "core/number_text.h"
#include "dispatcher/schema.h"

#define LONGEST_LIST 100000000 /* int[N] with more digits is refused */
#define MOST_ITEMS   16        /* of a list that is a default */

typedef struct parser {
    tn_context *ctx;
    const char *text;
    const char *at;
    char *memory; /* bump pointer */
    char *end;
    int32_t status;
} parser;

static int32_t fail(parser *p, const char *what)
{
    if (!p->status) {
        p->status = tni_error(TN_E_SYNTAX, "schema: column %d: expected %s, got '%.16s' in \"%.400s\"",
                              (int)(p->at - p->text) + 1, what, *p->at ? p->at : "the end", p->text);
    }
    return p->status;
}

static void *take(parser *p, uint64_t bytes)
{
    char *memory = p->memory;
    p->memory += (bytes + 7u) & ~(uint64_t)7u;
    return p->memory <= p->end ? memory : NULL;
}

static const char *copy_text(parser *p, const char *from, uint64_t length)
{
    char *text = take(p, length + 1);
    if (!text) {
        fail(p, "a shorter schema");
        return "";
    }
    memcpy(text, from, length);
    text[length] = 0;
    return text;
}

static void skip_space(parser *p)
{
    while (*p->at == ' ' || *p->at == '\t') p->at++;
}

static int32_t accept(parser *p, const char *token)
{
    uint64_t length = strlen(token);
    skip_space(p);
    if (strncmp(p->at, token, length) != 0) return 0;
    p->at += length;
    return 1;
}

static int32_t is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static const char *name(parser *p, const char *what, const char *extra)
{
    const char *start;
    skip_space(p);
    start = p->at;
    while (is_name_char(*p->at) || (*p->at && strchr(extra, *p->at))) p->at++;
    if (p->at == start || isdigit((unsigned char)*start)) {
        p->at = start;
        fail(p, what);
        return "";
    }
    return copy_text(p, start, (uint64_t)(p->at - start));
}

static const struct {
    const char *name;
    uint8_t type;
} type_names[] = {
    {"Tensor", TNI_TYPE_TENSOR},
    {"int", TNI_TYPE_INT},
    {"SymInt", TNI_TYPE_INT},
    {"DeviceIndex", TNI_TYPE_INT},
    {"float", TNI_TYPE_FLOAT},
    {"SymFloat", TNI_TYPE_FLOAT},
    {"bool", TNI_TYPE_BOOL},
    {"SymBool", TNI_TYPE_BOOL},
    {"Scalar", TNI_TYPE_SCALAR},
    {"number", TNI_TYPE_SCALAR},
    {"complex", TNI_TYPE_COMPLEX},
    {"str", TNI_TYPE_STRING},
    {"ScalarType", TNI_TYPE_DTYPE},
    {"Layout", TNI_TYPE_LAYOUT},
    {"Device", TNI_TYPE_DEVICE},
    {"MemoryFormat", TNI_TYPE_MEMORY_FORMAT},
    {"Generator", TNI_TYPE_GENERATOR},
    {"Dimname", TNI_TYPE_DIMNAME},
    {"Storage", TNI_TYPE_STORAGE},
    {"Stream", TNI_TYPE_STREAM},
    {"Any", TNI_TYPE_ANY},
    {"t", TNI_TYPE_ANY},
    {"QScheme", TNI_TYPE_INT},
    {"ConstQuantizerPtr", TNI_TYPE_ANY},
};

/* One side of an alias annotation: "a", "a|b", "*". */
static int32_t alias_names(parser *p)
{
    for (;;) {
        const char *start = p->at;
        if (*p->at == '*')
            p->at++;
        else
            while (is_name_char(*p->at)) p->at++;
        if (p->at == start) return 0;
        if (*p->at != '|') return 1;
        p->at++;
    }
}

/* "(a)", "(a!)", "(a|b)", "(a -> *)", "(*!)" after a type. */
static void alias_annotation(parser *p, tni_argument *a)
{
    const char *start = ++p->at;
    uint64_t length;
    if (!alias_names(p)) return (void)fail(p, "an alias set");
    length = (uint64_t)(p->at - start);
    if (*p->at == '!') {
        a->written = 1;
        p->at++;
    }
    if (strncmp(p->at, " -> ", 4) == 0) {
        p->at += 4;
        if (!alias_names(p)) return (void)fail(p, "an alias set");
        if (!a->written) length = (uint64_t)(p->at - start);
    }
    if (*p->at != ')') return (void)fail(p, "')' after the alias set");
    p->at++;
    a->alias_set = copy_text(p, start, length);
}

static void list_suffix(parser *p, tni_argument *a)
{
    a->is_list = 1;
    a->optional_items = a->is_optional;
    a->is_optional = 0;
    p->at++;
    while (isdigit((unsigned char)*p->at) && a->list_length < LONGEST_LIST)
        a->list_length = a->list_length * 10 + (*p->at++ - '0');
    if (*p->at != ']')
        fail(p, "']'");
    else
        p->at++;
}

static void type(parser *p, tni_argument *a);

/* "Dict(Tensor, Tensor)": parsed, and treated as a value of any type. */
static void dictionary(parser *p, tni_argument *a, const char *start)
{
    tni_argument key = {0}, value = {0};
    p->at++;
    type(p, &key);
    if (!p->status && *p->at++ != ',') p->at--, fail(p, "',' between key and value");
    if (!p->status) type(p, &value);
    if (p->status) return;
    if (*p->at != ')') return (void)fail(p, "')'");
    p->at++;
    a->type = TNI_TYPE_ANY;
    a->type_text = copy_text(p, start, (uint64_t)(p->at - start));
}

/* "?", "[2]" and the alias set, in any order that ATen uses. */
static void suffixes(parser *p, tni_argument *a)
{
    while (!p->status) {
        if (*p->at == '(' && !a->alias_set)
            alias_annotation(p, a);
        else if (*p->at == '?' && !a->is_optional)
            a->is_optional = 1, p->at++;
        else if (*p->at == '[' && !a->is_list)
            list_suffix(p, a);
        else
            return;
    }
}

static void type(parser *p, tni_argument *a)
{
    const char *start, *base;
    uint64_t length, i;
    char *text;
    skip_space(p);
    start = p->at;
    base = name(p, "a type", ".");
    if (p->status) return;
    if (strcmp(base, "Dict") == 0 && *p->at == '(') return dictionary(p, a, start);
    a->type = strchr(base, '.') ? TNI_TYPE_ANY : TNI_TYPE_COUNT;
    for (i = 0; i < sizeof type_names / sizeof *type_names && a->type == TNI_TYPE_COUNT; i++) {
        if (strcmp(base, type_names[i].name) == 0) a->type = type_names[i].type;
    }
    if (a->type == TNI_TYPE_COUNT) {
        p->at = start;
        fail(p, "a known type");
        return;
    }
    suffixes(p, a);
    if (p->status) return;
    length = strlen(base);
    text = take(p, length + 24);
    if (!text) return (void)fail(p, "a shorter schema");
    memcpy(text, base, length);
    text[length] = 0;
    if (a->optional_items) strcat(text, "?");
    if (a->is_list) strcat(text, "[]");
    if (a->is_optional) strcat(text, "?");
    a->type_text = text;
}

static int32_t word(parser *p, const char *text)
{
    uint64_t length = strlen(text);
    if (strncmp(p->at, text, length) != 0 || is_name_char(p->at[length])) return 0;
    p->at += length;
    return 1;
}

static tn_value string_default(parser *p)
{
    char quote = *p->at++;
    const char *start = p->at;
    char *text, *to;
    while (*p->at && *p->at != quote) p->at += *p->at == '\\' && p->at[1] ? 2 : 1;
    if (!*p->at) {
        fail(p, "a closing quote");
        return tn_value_none();
    }
    text = to = take(p, (uint64_t)(p->at - start) + 1);
    if (!text) {
        fail(p, "a shorter schema");
        return tn_value_none();
    }
    for (; start < p->at; start++) {
        if (*start == '\\') start++;
        *to++ = *start;
    }
    *to = 0;
    p->at++;
    return tn_value_string(text);
}

/* ATen's numbers of dtypes, which some defaults use ("dtype=4"); 0: none has this number. */
static tn_dtype dtype_of_number(int64_t number)
{
    static const tn_dtype dtypes[] = {
        TN_UINT8,     TN_INT8,      TN_INT16,      TN_INT32, TN_INT64, TN_FLOAT16, TN_FLOAT32, TN_FLOAT64,
        TN_COMPLEX32, TN_COMPLEX64, TN_COMPLEX128, TN_BOOL,  TN_QINT8, TN_QUINT8,  TN_QINT32,  TN_BFLOAT16};
    return number >= 0 && number < (int64_t)(sizeof dtypes / sizeof *dtypes) ? dtypes[number] : 0;
}

static tn_value number_default(parser *p, uint8_t type)
{
    char *end_int, *end_float;
    double f = tni_strtod(p->at, &end_float);
    int64_t i;
    errno = 0;
    i = strtoll(p->at, &end_int, 10);
    if (end_float == p->at || (end_int == end_float && errno && type != TNI_TYPE_FLOAT)) {
        fail(p, "a default value");
        return tn_value_none();
    }
    p->at = end_float;
    if (end_int != end_float || type == TNI_TYPE_FLOAT) return tn_value_float(f);
    if (type == TNI_TYPE_DTYPE && dtype_of_number(i)) return tn_value_dtype(dtype_of_number(i));
    return type == TNI_TYPE_BOOL            ? tn_value_bool(i != 0)
           : type == TNI_TYPE_MEMORY_FORMAT ? tn_value_memory_format((int32_t)i)
                                            : tn_value_int(i);
}

/* Whether an argument of that type may have this default; None is always allowed. */
static int32_t default_fits(uint8_t type, const tn_value *v)
{
    static const uint8_t tags[TNI_TYPE_COUNT] = {
        [TNI_TYPE_INT] = TN_TAG_INT,       [TNI_TYPE_FLOAT] = TN_TAG_FLOAT,
        [TNI_TYPE_BOOL] = TN_TAG_BOOL,     [TNI_TYPE_STRING] = TN_TAG_STRING,
        [TNI_TYPE_DTYPE] = TN_TAG_DTYPE,   [TNI_TYPE_LAYOUT] = TN_TAG_LAYOUT,
        [TNI_TYPE_DEVICE] = TN_TAG_DEVICE, [TNI_TYPE_MEMORY_FORMAT] = TN_TAG_MEMORY_FORMAT};
    if (v->tag == TN_TAG_NONE || type == TNI_TYPE_ANY || v->tag == tags[type]) return 1;
    return (type == TNI_TYPE_SCALAR || type == TNI_TYPE_COMPLEX) &&
           (v->tag == TN_TAG_INT || v->tag == TN_TAG_FLOAT || v->tag == TN_TAG_BOOL);
}

static tn_value word_or_number(parser *p, uint8_t type)
{
    static const struct {
        const char *name;
        int64_t value;
    } words[] = {
        {"contiguous_format", 0}, {"preserve_format", 1}, {"channels_last", 2}, {"Mean", 1}, {"Sum", 2}};
    if (word(p, "None")) return tn_value_none();
    if (word(p, "True")) return tn_value_bool(1);
    if (word(p, "False")) return tn_value_bool(0);
    for (uint64_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!word(p, words[i].name)) continue;
        return type == TNI_TYPE_MEMORY_FORMAT ? tn_value_memory_format((int32_t)words[i].value)
                                              : tn_value_int(words[i].value);
    }
    if (*p->at == '"' || *p->at == '\'') return string_default(p);
    if (type == TNI_TYPE_DTYPE && word(p, "long")) return tn_value_dtype(TN_INT64);
    if (type == TNI_TYPE_LAYOUT && word(p, "strided")) return tn_value_layout(TN_INTERNED_STRIDED);
    if (type == TNI_TYPE_DEVICE && isalpha((unsigned char)*p->at)) {
        return tn_value_device(tn_device_parse(p->ctx, name(p, "a device", ":")));
    }
    return number_default(p, type);
}

static tn_value item_default(parser *p, uint8_t type)
{
    const char *start;
    tn_value v;
    skip_space(p);
    start = p->at;
    v = word_or_number(p, type);
    if (!p->status && !default_fits(type, &v)) {
        p->at = start;
        fail(p, "a default value of the argument's type");
    }
    return v;
}

/* The items as a list of the argument's type. Lists of tensors are empty: None is their only item. */
static tn_value list_of(parser *p, const tni_argument *a, const tn_value *items, int64_t count)
{
    union {
        double f;
        uint8_t b;
        int64_t i;
        tn_value v;
        const char *s;
        tn_tensor *t;
    } *list = take(p, (uint64_t)(count + 1) * sizeof(tn_value));
    if (!list) {
        fail(p, "a shorter schema");
        return tn_value_none();
    }
    for (int64_t i = 0; i < count; i++) {
        switch (a->type) {
        case TNI_TYPE_FLOAT:
            (&list->f)[i] = tn_value_as_float(items[i]);
            break;
        case TNI_TYPE_BOOL:
            (&list->b)[i] = (uint8_t)tn_value_as_bool(items[i]);
            break;
        case TNI_TYPE_SCALAR:
            (&list->v)[i] = items[i];
            break;
        case TNI_TYPE_STRING:
            (&list->s)[i] = items[i].as.string;
            break;
        default:
            (&list->i)[i] = tn_value_as_int(items[i]);
        }
    }
    switch (a->type) {
    case TNI_TYPE_TENSOR:
        return tn_value_tensors(&list->t, 0);
    case TNI_TYPE_FLOAT:
        return tn_value_floats(&list->f, count);
    case TNI_TYPE_BOOL:
        return tn_value_bools(&list->b, count);
    case TNI_TYPE_SCALAR:
        return tn_value_scalars(&list->v, count);
    case TNI_TYPE_STRING:
        return tn_value_strings(&list->s, count);
    default:
        return tn_value_ints(&list->i, count);
    }
}

static void default_value(parser *p, tni_argument *a)
{
    const char *start;
    tn_value items[MOST_ITEMS];
    int64_t count = 0;
    skip_space(p);
    start = p->at;
    if (a->is_list && *p->at == '[') {
        p->at++;
        while (!p->status && !accept(p, "]")) {
            if (count == MOST_ITEMS) return (void)fail(p, "at most 16 items in a default");
            items[count] = item_default(p, a->type);
            if (!p->status && items[count++].tag == TN_TAG_NONE) return (void)fail(p, "no None in a list");
            if (!accept(p, ",") && *p->at != ']') return (void)fail(p, "',' or ']'");
        }
        a->default_value = p->status ? tn_value_none() : list_of(p, a, items, count);
    } else {
        a->default_value = item_default(p, a->type);
        if (a->is_list && a->default_value.tag != TN_TAG_NONE) {
            int64_t n = a->list_length ? a->list_length : 1;
            if (n > MOST_ITEMS) return (void)fail(p, "at most 16 items in a default");
            for (count = 0; count < n; count++) items[count] = a->default_value;
            a->default_value = list_of(p, a, items, count);
        }
    }
    a->default_text = copy_text(p, start, (uint64_t)(p->at - start));
}

static int32_t argument_follows(parser *p)
{
    skip_space(p);
    return is_name_char(*p->at);
}

static void arguments(parser *p, tni_schema *s)
{
    uint8_t keyword_only = 0;
    if (!accept(p, "(")) return (void)fail(p, "'('");
    if (accept(p, ")")) return;
    for (;;) {
        if (accept(p, "...")) {
            s->variadic = 1;
        } else if (accept(p, "*")) {
            if (keyword_only) return (void)fail(p, "no second '*'");
            keyword_only = 1;
        } else {
            tni_argument *a = &s->args[s->n_args];
            type(p, a);
            a->name = p->status ? "" : name(p, "an argument name", "");
            a->keyword_only = keyword_only;
            if (!p->status && accept(p, "=")) default_value(p, a);
            if (p->status) return;
            for (uint32_t i = 0; i < s->n_args; i++) {
                if (strcmp(s->args[i].name, a->name) == 0)
                    return (void)fail(p, "a name that no other argument has");
            }
            /* As in Python: no positional argument without a default after one that has one. */
            if (!keyword_only && !a->default_text && s->n_args && a[-1].default_text)
                return (void)fail(p, "a default value, as the argument before it has one");
            s->n_args++;
        }
        if (accept(p, ")")) return;
        if (!accept(p, ",")) return (void)fail(p, "',' or ')'");
    }
}

static void parse_return(parser *p, tni_schema *s)
{
    tni_argument *a = &s->returns[s->n_returns];
    type(p, a);
    a->name = !p->status && argument_follows(p) ? name(p, "a name", "") : "";
    s->n_returns += !p->status;
}

static void returns(parser *p, tni_schema *s)
{
    if (!accept(p, "->")) return (void)fail(p, "'->'");
    if (accept(p, "(")) {
        if (accept(p, ")")) return;
        do {
            if (accept(p, "..."))
                s->variadic |= 2;
            else
                parse_return(p, s);
        } while (!p->status && accept(p, ","));
        if (!p->status && !accept(p, ")")) fail(p, "',' or ')'");
    } else if (accept(p, "...")) {
        s->variadic |= 2;
    } else {
        parse_return(p, s);
    }
}

static void heading(parser *p, tni_schema *s)
{
    const char *start;
    skip_space(p);
    start = p->at;
    s->ns = name(p, "a namespace", "");
    if (p->status) return;
    if (strncmp(p->at, "::", 2) != 0) return (void)fail(p, "'::' after the namespace");
    p->at += 2;
    s->name = name(p, "an operator name", "");
    s->overload = "";
    if (!p->status && *p->at == '.') {
        p->at++;
        s->overload = name(p, "an overload name", "");
    }
    if (!p->status) s->full_name = copy_text(p, start, (uint64_t)(p->at - start));
}

static uint64_t block_bytes(const char *text, uint64_t *items)
{
    uint64_t commas = 0, i;
    for (i = 0; text[i]; i++) commas += text[i] == ',' || text[i] == '[';
    *items = commas + 2;
    return sizeof(tni_schema) + 2 * *items * (sizeof(tni_argument) + sizeof(uint32_t) + 64) + 4 * i + 256;
}

static uint32_t required_of(const tni_schema *s)
{
    uint32_t n = 0;
    while (n < s->n_args && !s->args[n].default_text && !s->args[n].keyword_only) n++;
    return n;
}

int32_t tni_schema_parse(tn_context *ctx, const char *text, tni_schema **out)
{
    uint64_t items, bytes;
    parser p = {.ctx = ctx, .text = text, .at = text};
    tni_schema *s;
    if (!text) return tni_error(TN_E_ARGUMENT, "schema: text is NULL");
    if (strlen(text) > 16384) return tni_error(TN_E_SYNTAX, "schema: longer than 16384 characters");
    bytes = block_bytes(text, &items);
    s = tni_alloc_zeroed(ctx, bytes);
    if (!s) return TN_E_OUT_OF_MEMORY;
    s->memory = s;
    s->memory_bytes = bytes;
    p.memory = (char *)(s + 1);
    p.end = (char *)s + bytes;
    s->args = take(&p, items * sizeof(tni_argument));
    s->returns = take(&p, items * sizeof(tni_argument));
    s->accepted = take(&p, items * sizeof *s->accepted);
    s->text = copy_text(&p, text, strlen(text));
    p.text = p.at = s->text;
    heading(&p, s);
    if (!p.status) arguments(&p, s);
    if (!p.status) returns(&p, s);
    skip_space(&p);
    if (!p.status && *p.at) fail(&p, "the end");
    if (p.status) {
        tni_schema_destroy(ctx, s);
        return p.status;
    }
    s->required = required_of(s);
    for (uint32_t i = 0; i < s->n_args; i++) s->accepted[i] = tni_accepted_tags(&s->args[i]);
    *out = s;
    return TN_OK;
}

void tni_schema_destroy(tn_context *ctx, tni_schema *schema)
{
    if (schema) tni_free(ctx, schema->memory, schema->memory_bytes);
}
