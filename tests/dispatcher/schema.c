/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema parser: every schema is written again from its parsed parts and compared with the text; defaults
 * against values read another way; malformed and mutated schemas give an error with a column or are
 * accepted, and never more than that. schemas.txt beside this file is the selection that is always there;
 * TENON_SCHEMAS names a longer list (first column of a .tsv with a heading).
 */
#include "dispatcher/schema.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/error.h"

#define TEXT_BYTES 8192

static tn_context *ctx;
static tni_schema *kept[64]; /* of argument_of, until the test ends */
static int n_kept;

static void set_up(void)
{
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
}

static void tear_down(void)
{
    while (n_kept) tni_schema_destroy(ctx, kept[--n_kept]);
    tn_context_destroy(ctx);
}

TestSuite(schema, .init = set_up, .fini = tear_down);

/* ---- Writing a schema from its parts ------------------------------------------------------------------- */

typedef struct writer {
    char text[TEXT_BYTES];
    size_t length;
} writer;

static void put(writer *w, const char *text)
{
    size_t n = strlen(text);
    cr_assert(w->length + n < TEXT_BYTES);
    memcpy(w->text + w->length, text, n + 1);
    w->length += n;
}

/* "Tensor(a!)?[]": the alias set stands after the item's name, the length inside the brackets. */
static void put_type(writer *w, const tni_argument *a)
{
    size_t item = strcspn(a->type_text, "?[");
    char text[128];
    snprintf(text, sizeof text, "%.*s", (int)item, a->type_text);
    put(w, text);
    if (a->alias_set) {
        snprintf(text, sizeof text, "(%s%s)", a->alias_set, a->written ? "!" : "");
        put(w, text);
    }
    if (a->optional_items) put(w, "?");
    if (a->is_list) put(w, "[");
    if (a->list_length) {
        snprintf(text, sizeof text, "%d", a->list_length);
        put(w, text);
    }
    if (a->is_list) put(w, "]");
    if (a->is_optional) put(w, "?");
}

static void put_arguments(writer *w, const tni_schema *s)
{
    int star = 0;
    for (uint32_t i = 0; i < s->n_args; i++) {
        const tni_argument *a = &s->args[i];
        if (i) put(w, ", ");
        if (a->keyword_only && !star) {
            put(w, "*, ");
            star = 1;
        }
        put_type(w, a);
        put(w, " ");
        put(w, a->name);
        if (!a->default_text) continue;
        put(w, "=");
        put(w, a->default_text);
    }
    if (s->variadic & 1) put(w, s->n_args ? ", ..." : "...");
}

static void put_returns(writer *w, const tni_schema *s)
{
    int bare = s->n_returns == 1 && !s->returns[0].name[0];
    if (s->variadic & 2) return put(w, "...");
    if (!bare) put(w, "(");
    for (uint32_t i = 0; i < s->n_returns; i++) {
        if (i) put(w, ", ");
        put_type(w, &s->returns[i]);
        if (!s->returns[i].name[0]) continue;
        put(w, " ");
        put(w, s->returns[i].name);
    }
    if (!bare) put(w, ")");
}

static const char *written(const tni_schema *s)
{
    static writer w;
    w.length = 0;
    put(&w, s->ns);
    put(&w, "::");
    put(&w, s->name);
    if (s->overload[0]) put(&w, ".");
    put(&w, s->overload);
    put(&w, "(");
    put_arguments(&w, s);
    put(&w, ") -> ");
    put_returns(&w, s);
    return w.text;
}

/* ---- Defaults ------------------------------------------------------------------------------------------ */

static void expect_number(const char *schema, const char *text, double have)
{
    char *end;
    double want = strtod(text, &end);
    if (end == text) return; /* a word */
    cr_expect(have == want || (isnan(have) && isnan(want)), "%s: %s was read as %g", schema, text, have);
}

/* A backslash takes the next character as it is. */
static void check_string(const char *schema, const char *text, const tn_value *v)
{
    char plain[256];
    size_t n = 0;
    for (const char *at = text + 1; at[1]; at++) plain[n++] = *at == '\\' ? *++at : *at;
    plain[n] = 0;
    cr_expect_eq(v->tag, TN_TAG_STRING);
    if (v->tag == TN_TAG_STRING) cr_expect_str_eq(v->as.string, plain, "%s: %s", schema, text);
}

static void check_default(const tni_schema *s, const tni_argument *a)
{
    const char *text = a->default_text;
    const tn_value *v = &a->default_value;
    if (strcmp(text, "None") == 0) {
        cr_expect_eq(v->tag, TN_TAG_NONE, "%s: None", s->text);
    } else if (strcmp(text, "True") == 0 || strcmp(text, "False") == 0) {
        cr_expect_eq(tn_value_as_bool(*v), text[0] == 'T', "%s: %s", s->text, text);
    } else if (text[0] == '"' || text[0] == '\'') {
        check_string(s->text, text, v);
    } else if (v->tag == TN_TAG_INTS) {
        const char *item = text[0] == '[' ? text + 1 : text;
        for (uint32_t i = 0; i < v->count; i++) {
            expect_number(s->text, item, (double)v->as.ints[i]);
            if (text[0] == '[' && strchr(item, ',')) item = strchr(item, ',') + 1;
        }
        if (text[0] != '[') cr_expect_eq(v->count, (uint32_t)(a->list_length ? a->list_length : 1));
    } else if (v->tag == TN_TAG_INT) {
        expect_number(s->text, text, (double)v->as.i);
    } else if (v->tag == TN_TAG_FLOAT) {
        expect_number(s->text, text, v->as.f);
    }
}

/* "-> Tensor grid" is how some name their only return: it is written "-> (Tensor grid)". */
static const char *with_brackets(const char *text)
{
    static char changed[TEXT_BYTES];
    const char *result = strstr(text, " -> ") ? strstr(text, ") -> ") + 5 : "(";
    if (result[0] == '(' || strchr(result, '(') || !strchr(result, ' ')) return text;
    snprintf(changed, sizeof changed, "%.*s(%s)", (int)(result - text), text, result);
    return changed;
}

static void check_schema(const char *text)
{
    tni_schema *s = NULL;
    int32_t status = tni_schema_parse(ctx, text, &s);
    cr_expect_eq(status, TN_OK, "%s: %s", text, tn_last_error() ? tn_last_error()->message : "");
    if (status) return;
    cr_expect_str_eq(written(s), with_brackets(text));
    for (uint32_t i = 0; i < s->n_args; i++)
        if (s->args[i].default_text) check_default(s, &s->args[i]);
    tni_schema_destroy(ctx, s);
}

static int check_list(const char *path, int heading)
{
    static char line[TEXT_BYTES];
    FILE *file = fopen(path, "r");
    int count = 0;
    if (!file) return -1;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\t\n")] = 0;
        if (heading) {
            heading = 0;
        } else if (line[0] && line[0] != '#') {
            check_schema(line);
            count++;
        }
    }
    fclose(file);
    return count;
}

Test(schema, selection_is_read_and_written)
{
    cr_assert_gt(check_list(getenv("TENON_TEST_SCHEMAS"), 0), 60);
}

Test(schema, every_schema_is_read_and_written)
{
    const char *named = getenv("TENON_SCHEMAS"), *path = named ? named : getenv("TENON_TEST_ALL_SCHEMAS");
    int count = check_list(path, 1);
    if (count < 0) {
        cr_assert_null(named, "%s was named and is not there", named);
        cr_skip("skipped: no list of schemas beside the checkout");
    }
    cr_assert_gt(count, 3000);
}

/* ---- Parts --------------------------------------------------------------------------------------------- */

Test(schema, parts)
{
    tni_schema *s;
    cr_assert_eq(
        tni_schema_parse(ctx,
                         "my::op.over(Tensor(a!) self, Tensor?[] indices, int[2] k=3, *, float? p=0.5, "
                         "ScalarType dtype=long) -> (Tensor(a!) values, Tensor(b)[] rest)",
                         &s),
        TN_OK);
    cr_expect_str_eq(s->ns, "my");
    cr_expect_str_eq(s->name, "op");
    cr_expect_str_eq(s->overload, "over");
    cr_expect_str_eq(s->full_name, "my::op.over");
    cr_expect(s->n_args == 5 && s->n_returns == 2 && s->required == 2);
    cr_expect(s->args[0].written && !s->args[1].written && s->returns[0].written && !s->returns[1].written);
    cr_expect_str_eq(s->args[0].alias_set, "a");
    cr_expect(s->args[1].is_list && s->args[1].optional_items && !s->args[1].is_optional);
    cr_expect(s->args[2].list_length == 2 && s->args[2].default_value.count == 2);
    cr_expect(s->args[2].default_value.as.ints[0] == 3 && s->args[2].default_value.as.ints[1] == 3);
    cr_expect(s->args[3].keyword_only && s->args[3].is_optional && s->args[3].default_value.as.f == 0.5);
    cr_expect(s->args[4].keyword_only && !s->args[2].keyword_only);
    cr_expect_eq((tn_dtype)s->args[4].default_value.as.i, TN_INT64);
    cr_expect_str_eq(s->returns[1].name, "rest");
    cr_expect_str_eq(s->returns[1].type_text, "Tensor[]");
    tni_schema_destroy(ctx, s);
}

/* The only argument of a schema. */
static const tni_argument *argument_of(const char *declaration)
{
    char text[256];
    tni_schema *schema = NULL;
    snprintf(text, sizeof text, "a::b(%s) -> ()", declaration);
    cr_assert_eq(tni_schema_parse(ctx, text, &schema), TN_OK, "%s: %s", text,
                 tn_last_error() ? tn_last_error()->message : "");
    cr_assert_eq(schema->n_args, 1);
    kept[n_kept++] = schema;
    return &schema->args[0];
}

typedef struct default_number {
    const char *declaration;
    uint32_t tag;
    double value;
} default_number;

Test(schema, numbers_as_defaults)
{
    static const default_number table[] = {
        {"Scalar x=3", TN_TAG_INT, 3},
        {"Scalar x=2.5", TN_TAG_FLOAT, 2.5},
        {"Scalar x=True", TN_TAG_BOOL, 1},
        {"complex x=1.5", TN_TAG_FLOAT, 1.5},
        {"float x=99999999999999999999", TN_TAG_FLOAT, 1e20},
        {"float x=7", TN_TAG_FLOAT, 7},
        {"bool x=1", TN_TAG_BOOL, 1},
        {"int reduction=Mean", TN_TAG_INT, 1},
        {"int reduction=Sum", TN_TAG_INT, 2},
        {"MemoryFormat x=channels_last", TN_TAG_MEMORY_FORMAT, TN_CHANNELS_LAST},
        {"MemoryFormat x=1", TN_TAG_MEMORY_FORMAT, TN_PRESERVE_FORMAT},
        {"ScalarType x=long", TN_TAG_DTYPE, TN_INT64},
        {"ScalarType x=0", TN_TAG_DTYPE, TN_UINT8},
        {"ScalarType x=15", TN_TAG_DTYPE, TN_BFLOAT16},
        {"Layout x=strided", TN_TAG_LAYOUT, TN_INTERNED_STRIDED},
        {"Device x=cpu", TN_TAG_DEVICE, TN_CPU},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const tn_value *v = &argument_of(table[i].declaration)->default_value;
        double value = v->tag == TN_TAG_FLOAT    ? v->as.f
                       : v->tag == TN_TAG_DEVICE ? (double)v->as.device
                                                 : (double)v->as.i;
        cr_expect_eq(v->tag, table[i].tag, "%s: tag %u", table[i].declaration, v->tag);
        cr_expect_eq(value, table[i].value, "%s: %g", table[i].declaration, value);
    }
}

Test(schema, lists_as_defaults)
{
    tn_value v = argument_of("Scalar[] x=[1, 2.5]")->default_value;
    cr_assert(v.tag == TN_TAG_SCALARS && v.count == 2);
    cr_expect(v.as.values[0].as.i == 1 && v.as.values[1].as.f == 2.5);
    v = argument_of("str[] x=['a', \"b\"]")->default_value;
    cr_assert(v.tag == TN_TAG_STRINGS && v.count == 2);
    cr_expect_str_eq(v.as.strings[0], "a");
    cr_expect_str_eq(v.as.strings[1], "b");
    v = argument_of("bool[3] x=[True, False, 1]")->default_value;
    cr_assert(v.tag == TN_TAG_BOOLS && v.count == 3);
    cr_expect(v.as.bools[0] == 1 && v.as.bools[1] == 0 && v.as.bools[2] == 1);
    v = argument_of("float[] x=[1, 2.5]")->default_value;
    cr_assert(v.tag == TN_TAG_FLOATS && v.count == 2);
    cr_expect(v.as.floats[0] == 1 && v.as.floats[1] == 2.5);
    v = argument_of("Tensor[] x=[]")->default_value;
    cr_expect(v.tag == TN_TAG_TENSORS && v.count == 0);
    v = argument_of("int[16] x=7")->default_value;
    cr_assert(v.tag == TN_TAG_INTS && v.count == 16);
    cr_expect(v.as.ints[0] == 7 && v.as.ints[15] == 7);
    cr_expect_eq(argument_of("int[]? x=None")->default_value.tag, TN_TAG_NONE);
}

Test(schema, alias_sets_and_dictionaries)
{
    const tni_argument *a = argument_of("Tensor(a -> *) x");
    cr_expect_str_eq(a->alias_set, "a -> *");
    cr_expect_not(a->written);
    a = argument_of("Tensor(a! -> b) x");
    cr_expect_str_eq(a->alias_set, "a");
    cr_expect(a->written);
    a = argument_of("Tensor(a|b)[] x");
    cr_expect_str_eq(a->alias_set, "a|b");
    cr_expect(a->is_list);
    a = argument_of("Dict(Tensor, int) x");
    cr_expect_eq(a->type, TNI_TYPE_ANY);
    cr_expect_str_eq(a->type_text, "Dict(Tensor, int)");
}

Test(schema, any_number_of_arguments_or_results)
{
    static const struct {
        const char *text;
        uint32_t args, returns, variadic;
    } table[] = {
        {"a::b(...) -> ...", 0, 0, 3},
        {"a::b(Tensor x, ...) -> Tensor", 1, 1, 1},
        {"a::b(Tensor x) -> (Tensor, ...)", 1, 1, 2},
        {"a::b() -> ()", 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        tni_schema *p = NULL;
        cr_assert_eq(tni_schema_parse(ctx, table[i].text, &p), TN_OK, "%s: %s", table[i].text,
                     tn_last_error() ? tn_last_error()->message : "");
        cr_expect_eq(p->n_args, table[i].args, "%s", table[i].text);
        cr_expect_eq(p->n_returns, table[i].returns, "%s", table[i].text);
        cr_expect_eq(p->variadic, table[i].variadic, "%s", table[i].text);
        tni_schema_destroy(ctx, p);
    }
}

/* ---- Refusals ------------------------------------------------------------------------------------------ */

Test(schema, refusals_name_the_column)
{
    /* The column is counted from 1 and stands where reading stopped. */
    const struct {
        const char *text, *want;
        int column;
    } table[] = {
        {"", "a namespace", 1},
        {"aten", "'::' after the namespace", 5},
        {"aten::", "an operator name", 7},
        {"aten::f", "'('", 8},
        {"aten::f.(Tensor x) -> Tensor", "an overload name", 9},
        {"aten::f(Tensor) -> Tensor", "an argument name", 15},
        {"aten::f(Tensr x) -> Tensor", "a known type", 9},
        {"aten::f(Tensor x", "',' or ')'", 17},
        {"aten::f(Tensor x) - Tensor", "'->'", 19},
        {"aten::f(Tensor x) -> ", "a type", 22},
        {"aten::f(Tensor x) -> Tensor y z", "the end", 31},
        {"aten::f(Tensor x) -> (Tensor", "',' or ')'", 29},
        {"aten::f(Tensor x, int x) -> Tensor", "a name that no other argument has", 24},
        {"aten::f(int x=) -> Tensor", "a default value", 15},
        {"aten::f(int x=a) -> Tensor", "a default value", 15},
        {"aten::f(int[] x=[1, 2) -> Tensor", "',' or ']'", 22},
        {"aten::f(int[2 x) -> Tensor", "']'", 14},
        {"aten::f(Tensor(a x) -> Tensor", "')' after the alias set", 17},
        {"aten::f(Tensor() x) -> Tensor", "an alias set", 16},
        {"aten::f(str x=\"a) -> Tensor", "a closing quote", 28},
        {"aten::f(*, *, int x) -> Tensor", "no second '*'", 13},
        {"aten::f(int x=1.5) -> Tensor", "a default value of the argument's type", 15},
        {"aten::f(bool x, Tensor y=3) -> Tensor", "a default value of the argument's type", 26},
        {"aten::f(Tensor(a)(b) x) -> Tensor", "an argument name", 18},
        {"aten::f(Tensor(a|) x) -> Tensor", "an alias set", 18},
        {"aten::f(int x=1, int y) -> Tensor", "a default value, as the argument before it has one", 23},
        {"aten::f(3 x) -> Tensor", "a type", 9},
        {"aten::f(Dict x) -> Tensor", "a known type", 9},
        {"aten::f(Dict(Tensor Tensor) x) -> Tensor", "',' between key and value", 20},
        {"aten::f(Dict(Tensor, Tensor x) -> Tensor", "')'", 28},
        {"aten::f(Dict(Tensr, Tensor) x) -> Tensor", "a known type", 14},
        {"aten::f(Dict(Tensor, Tensr) x) -> Tensor", "a known type", 22},
        {"aten::f(int[][] x) -> Tensor", "an argument name", 14},
        {"aten::f(Tensor(a! -> ) x) -> Tensor", "an alias set", 22},
        {"aten::f(int[] x=[None]) -> Tensor", "no None in a list", 22},
        {"aten::f(int[] x=[a]) -> Tensor", "a default value", 18},
        {"aten::f(int[17] x=1) -> Tensor", "at most 16 items in a default", 20},
        {"aten::f(Scalar x='1') -> Tensor", "a default value of the argument's type", 18},
        {"aten::f(Layout x=sparse) -> Tensor", "a default value", 18},
        {"aten::f(Device x=5) -> Tensor", "a default value of the argument's type", 18},
        {"aten::f(Generator x=5) -> Tensor", "a default value of the argument's type", 21},
        {"aten::f(ScalarType x=-1) -> Tensor", "a default value of the argument's type", 22},
        {"aten::f(ScalarType x=99) -> Tensor", "a default value of the argument's type", 22},
        {"aten::f(Tensor x) -> (Tensor, ...", "',' or ')'", 34}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        tni_schema *s = NULL;
        char column[64];
        cr_expect_eq(tni_schema_parse(ctx, table[i].text, &s), TN_E_SYNTAX, "%s", table[i].text);
        if (s) continue;
        const char *message = tn_last_error()->message;
        snprintf(column, sizeof column, "schema: column %d: ", table[i].column);
        cr_expect_eq(strncmp(message, column, strlen(column)), 0, "%s: %s", table[i].text, message);
        cr_expect_not_null(strstr(message, table[i].want), "%s: %s", table[i].text, message);
        tn_clear_error();
    }
}

Test(schema, extremes)
{
    static char text[40000];
    tni_schema *s = NULL;
    cr_expect_eq(tni_schema_parse(ctx, NULL, &s), TN_E_ARGUMENT);
    memset(text, 'a', sizeof text - 1);
    cr_expect_eq(tni_schema_parse(ctx, text, &s), TN_E_SYNTAX);
    cr_expect_not_null(strstr(tn_last_error()->message, "longer than"));
    /* Numbers beyond int64, and a default of more items than are taken. */
    cr_expect_eq(tni_schema_parse(ctx, "a::b(int x=99999999999999999999) -> Tensor", &s), TN_E_SYNTAX);
    cr_expect_not_null(strstr(tn_last_error()->message, "column 12"), "%s", tn_last_error()->message);
    cr_expect_eq(tni_schema_parse(ctx, "a::b(int[9999999999] x) -> Tensor", &s), TN_E_SYNTAX);
    cr_expect_eq(tni_schema_parse(ctx, "a::b(int[] x=[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]) -> Tensor", &s),
                 TN_E_SYNTAX);
}

/*
 * The parser's memory follows from the length of the text. Many lists whose default is one short number need more: such a
 * schema is refused, wherever the memory ends.
 */
Test(schema, more_defaults_than_the_parser_has_memory_for)
{
    static char text[16000], filler[200];
    memset(filler, 'x', sizeof filler - 1);
    int refused = 0, accepted = 0;
    for (int lists = 1; lists < 60; lists++) {
        for (int letters = 0; letters < 200; letters += 3) {
            size_t n = (size_t)snprintf(text, sizeof text, "a::b(");
            for (int i = 0; i < lists; i++)
                n += (size_t)snprintf(text + n, sizeof text - n, "int[16] a%d=1, ", i);
            snprintf(text + n, sizeof text - n, "str s='%.*s') -> Tensor", letters, filler);
            tni_schema *p = NULL;
            int32_t status = tni_schema_parse(ctx, text, &p);
            if (status) {
                cr_assert_eq(status, TN_E_SYNTAX);
                cr_assert_not_null(strstr(tn_last_error()->message, "expected a shorter schema"), "%s",
                                   tn_last_error()->message);
            } else {
                cr_assert_eq(p->args[lists].default_value.count, (uint32_t)letters);
                tni_schema_destroy(ctx, p);
            }
            refused += status != TN_OK;
            accepted += status == TN_OK;
        }
    }
    cr_expect_gt(refused, 0);
    cr_expect_gt(accepted, 0);
}

/* ---- Mutations ----------------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* One change: a byte replaced, removed, doubled, or a piece moved to another place. */
static void mutate(char *text, size_t capacity, uint64_t *state)
{
    static const char bytes[] = "()[]{}?!*|,.:=->\"'\\ 0123456789aTensorint\t\x01\xff";
    size_t n = strlen(text), at = n ? next_random(state) % n : 0;
    switch (next_random(state) % 5) {
    case 0:
        if (n) text[at] = bytes[next_random(state) % (sizeof bytes - 1)];
        break;
    case 1:
        if (n) memmove(text + at, text + at + 1, n - at);
        break;
    case 2:
        if (n && n + 1 < capacity) memmove(text + at + 1, text + at, n - at + 1);
        break;
    case 3:
        text[at] = 0;
        break;
    default: {
        size_t from = n ? next_random(state) % n : 0, length = next_random(state) % 24;
        if (from + length > n) length = n - from;
        if (n + length + 1 > capacity) break;
        memmove(text + at + length, text + at, n - at + 1);
        memmove(text + at, text + (from >= at ? from + length : from), from >= at ? length : 0);
    }
    }
}

static void check_mutation(const char *text)
{
    tni_schema *s = NULL;
    int32_t status = tni_schema_parse(ctx, text, &s);
    if (status) {
        int column = 0;
        const char *message = tn_last_error()->message;
        cr_assert_eq(status, TN_E_SYNTAX, "%s: %s", text, message);
        cr_assert_eq(sscanf(message, "schema: column %d:", &column), 1, "%s: %s", text, message);
        cr_assert(column >= 1 && column <= (int)strlen(text) + 1, "%s: %s", text, message);
        tn_clear_error();
        return;
    }
    /* What was accepted means the same when it is written and read again. */
    char again[TEXT_BYTES], twice[TEXT_BYTES];
    tni_schema *t = NULL;
    snprintf(again, sizeof again, "%s", written(s));
    cr_assert_eq(tni_schema_parse(ctx, again, &t), TN_OK, "%s: %s", again,
                 tn_last_error() ? tn_last_error()->message : "");
    snprintf(twice, sizeof twice, "%s", written(t));
    cr_assert_str_eq(again, twice);
    tni_schema_destroy(ctx, t);
    tni_schema_destroy(ctx, s);
}

Test(schema, mutations)
{
    static char seeds[128][512], text[1024];
    int n_seeds = 0, rounds = getenv("TENON_TEST_LONG") ? 400000 : 20000;
    uint64_t state = 0x9e3779b97f4a7c15u;
    FILE *file = fopen(getenv("TENON_TEST_SCHEMAS"), "r");
    cr_assert_not_null(file);
    while (n_seeds < 128 && fgets(seeds[n_seeds], 512, file)) {
        seeds[n_seeds][strcspn(seeds[n_seeds], "\n")] = 0;
        n_seeds += seeds[n_seeds][0] && seeds[n_seeds][0] != '#';
    }
    fclose(file);
    for (int i = 0; i < rounds; i++) {
        snprintf(text, sizeof text, "%s", seeds[next_random(&state) % (uint64_t)n_seeds]);
        for (uint64_t n = 1 + next_random(&state) % 4; n; n--) mutate(text, sizeof text, &state);
        check_mutation(text);
    }
}
