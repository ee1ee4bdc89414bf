/* SPDX-License-Identifier: Apache-2.0 */
/* One golden case: the call, its results and changed arguments, its gradients, or its refusal. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "golden.h"

#define MAX_ARGS    64
#define MAX_OUTS    16
#define MAX_TENSORS 256

typedef struct call {
    const golden_file *file;
    const cJSON *line;
    tn_scope *s;
    golden_result *result;
    tn_value args[MAX_ARGS];        /* as passed */
    tn_tensor *leaves[MAX_TENSORS]; /* tensors with gradients, in the order of "grad" */
    uint32_t n_args;
    uint32_t n_leaves;
    tn_value outs[MAX_OUTS];
    uint32_t n_outs;
    tn_tensor *flat[MAX_TENSORS]; /* all output tensors, lists flattened */
    uint32_t n_flat;
} call;

static const cJSON *field(const cJSON *entry, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(entry, name);
}

static int32_t fail(call *c, const char *text)
{
    c->result->outcome = GOLDEN_FAILED;
    snprintf(c->result->reason, sizeof c->result->reason, "%s", text);
    return 0;
}

static void watch(const call *c, int on)
{
    if (c->file->watch) c->file->watch(c->file->user, on);
}

static const char *scope_text(const call *c)
{
    const tn_error *e = tn_scope_error(c->s);
    return e ? e->message : "failed without an error";
}

static int32_t argument_index(const call *c, const char *name)
{
    int32_t i = 0;
    const cJSON *entry;
    cJSON_ArrayForEach(entry, field(c->line, "args"))
    {
        if (strcmp(field(entry, "name")->valuestring, name) == 0) return i;
        i++;
    }
    return -1;
}

static int32_t is_mutated(const call *c, const char *name)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, field(c->line, "mutated"))
    {
        const cJSON *n = field(entry, "name");
        if (cJSON_IsString(n) && strcmp(n->valuestring, name) == 0) return 1;
    }
    return 0;
}

static int32_t make_arguments(call *c)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, field(c->line, "args"))
    {
        if (c->n_args == MAX_ARGS) return fail(c, "too many arguments");
        c->args[c->n_args++] = golden_argument(c->file, c->s, entry);
    }
    return tn_scope_failed(c->s) ? fail(c, scope_text(c)) : 1;
}

/* Where an argument's tensor is stored (in a list: tensor `index`); NULL for other arguments. */
static tn_tensor **tensor_place(tn_value *arg, const cJSON *index)
{
    if (!index) return arg->tag == TN_TAG_TENSOR ? &arg->as.tensor : NULL;
    int64_t i = golden_integer(index);
    if (arg->tag != TN_TAG_TENSORS || i < 0 || i >= (int64_t)arg->count) return NULL;
    return (tn_tensor **)(uintptr_t)&arg->as.tensors[i];
}

/* Sets requires_grad where the line has gradients. A tensor that the call changes is passed as a clone of
 * the leaf. */
static int32_t mark_leaves(call *c)
{
    const cJSON *g;
    cJSON_ArrayForEach(g, field(c->line, "grad"))
    {
        const char *name = field(g, "wrt")->valuestring;
        const cJSON *index = field(g, "index");
        int32_t i = argument_index(c, name);
        tn_tensor **place, *leaf;
        if (i < 0 || c->n_leaves == MAX_TENSORS) return fail(c, "grad names an unknown argument");
        place = tensor_place(&c->args[i], index);
        if (!place) return fail(c, "grad names an argument that is not a tensor");
        leaf = *place;
        if (!leaf || tn_set_requires_grad(leaf, 1))
            return fail(c, tn_last_error() ? tn_last_error()->message : "no leaf");
        if (is_mutated(c, name)) *place = tn_clone(c->s, leaf);
        c->leaves[c->n_leaves++] = leaf;
    }
    return tn_scope_failed(c->s) ? fail(c, scope_text(c)) : 1;
}

static void flatten(call *c)
{
    for (uint32_t i = 0; i < c->n_outs; i++) {
        tn_tensors list = tn_value_as_tensors(c->outs[i]);
        if (c->outs[i].tag == TN_TAG_TENSOR && c->n_flat < MAX_TENSORS)
            c->flat[c->n_flat++] = c->outs[i].as.tensor;
        for (int64_t k = 0; k < list.count && c->n_flat < MAX_TENSORS; k++)
            c->flat[c->n_flat++] = list.data[k];
    }
}

static int32_t listed(const cJSON *list, uint32_t value)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (golden_integer(item) == (int64_t)value) return 1;
    }
    return 0;
}

/* Scalar types are recorded with ATen's numbers. */
static int64_t number_of_dtype(tn_dtype dtype)
{
    static const char *const names[] = {
        "uint8",     "int8",      "int16",      "int32", "int64", "float16", "float32", "float64",
        "complex32", "complex64", "complex128", "bool",  "qint8", "quint8",  "qint32",  "bfloat16"};
    for (int64_t i = 0; i < (int64_t)(sizeof names / sizeof *names); i++) {
        if (tn_dtype_parse(names[i]) == dtype) return i;
    }
    return -1;
}

static int32_t compare_number(call *c, const cJSON *want, tn_value got, double rtol, double atol)
{
    golden_file none = *c->file;
    tn_value w = golden_argument(&none, c->s, want);
    double a = tn_value_as_float(got), b = tn_value_as_float(w);
    char text[128];
    if (got.tag == TN_TAG_DTYPE && w.tag == TN_TAG_INT && number_of_dtype((tn_dtype)got.as.i) == w.as.i)
        return 1;
    if (w.tag == got.tag && ((isnan(a) && isnan(b)) || a == b || fabs(a - b) <= atol + rtol * fabs(b)))
        return 1;
    snprintf(text, sizeof text, "number %.17g (tag %u), want %.17g (tag %u)", a, got.tag, b, w.tag);
    return fail(c, text);
}

static int32_t compare_outputs(call *c, double rtol, double atol, int32_t values)
{
    const cJSON *out, *item, *ambiguous = field(c->line, "ambiguous");
    uint32_t at = 0, i = 0;
    char what[32];
    cJSON_ArrayForEach(out, field(c->line, "out"))
    {
        const cJSON *list = field(out, "tensors");
        if (i >= c->n_outs) return fail(c, "more results are wanted than the schema has");
        if (list && tn_value_as_tensors(c->outs[i]).count != cJSON_GetArraySize(list))
            return fail(c, "a list of another length");
        item = list ? list->child : out;
        for (; item; item = list ? item->next : NULL) {
            if (!field(item, "dtype")) {
                if (!list && field(out, "none")) continue;
                if (!compare_number(c, item, c->outs[i], rtol, atol)) return 0;
                continue;
            }
            if (at >= c->n_flat || !c->flat[at]) return fail(c, "an output is missing");
            snprintf(what, sizeof what, "output %u", at);
            if (!golden_compare(c->file, c->s, c->flat[at], item, rtol, atol,
                                values && !listed(ambiguous, at), what, c->result))
                return 0;
            at++;
        }
        i++;
    }
    return 1;
}

static int32_t compare_mutated(call *c, double rtol, double atol, int32_t values)
{
    const cJSON *m;
    cJSON_ArrayForEach(m, field(c->line, "mutated"))
    {
        const char *name = field(m, "name")->valuestring;
        int32_t i = argument_index(c, name);
        const cJSON *list = field(m, "tensors"), *item = list ? list->child : m;
        uint32_t k = 0;
        if (i < 0) return fail(c, "mutated names an unknown argument");
        for (; item; item = list ? item->next : NULL, k++) {
            tn_tensors many = tn_value_as_tensors(c->args[i]);
            tn_tensor *t = !list ? tn_value_as_tensor(c->args[i]) : k < many.count ? many.data[k] : NULL;
            if (cJSON_IsNull(item)) continue;
            if (!t || !golden_compare(c->file, c->s, t, item, rtol, atol, values, name, c->result))
                return t ? 0 : fail(c, "no tensor");
        }
    }
    return 1;
}

/* The tensors of cotangents: the outputs or, for calls without any, the changed arguments. */
static tn_tensor *cotangent_target(call *c, uint32_t i)
{
    const cJSON *m;
    uint32_t k = 0;
    if (c->n_flat) return i < c->n_flat ? c->flat[i] : NULL;
    cJSON_ArrayForEach(m, field(c->line, "mutated"))
    {
        int32_t a = argument_index(c, field(m, "name")->valuestring);
        tn_tensors list = a < 0 ? (tn_tensors){NULL, 0} : tn_value_as_tensors(c->args[a]);
        if (list.data && i - k < list.count) return list.data[i - k];
        if (!list.data && i == k) return tn_value_as_tensor(c->args[a]);
        k += list.data ? (uint32_t)list.count : 1;
    }
    return NULL;
}

static int32_t compare_gradients(call *c)
{
    tn_tensor *roots[MAX_TENSORS], *cotangents[MAX_TENSORS], *grads[MAX_TENSORS] = {NULL};
    double rtol = field(c->line, "grad_rtol")->valuedouble, atol = field(c->line, "grad_atol")->valuedouble;
    const cJSON *entry;
    uint32_t n = 0, i = 0;
    if (cJSON_GetArraySize(field(c->line, "cotangents")) > MAX_TENSORS) return fail(c, "too many cotangents");
    tn_backward_options options = {.size = sizeof options, .allow_unused = 1};
    cJSON_ArrayForEach(entry, field(c->line, "cotangents"))
    {
        roots[n] = cotangent_target(c, (uint32_t)golden_integer(field(entry, "out")));
        cotangents[n] = golden_tensor(c->file, c->s, entry);
        if (!roots[n] || !cotangents[n]) return fail(c, "no tensor for a cotangent");
        if (tn_requires_grad(roots[n])) n++;
    }
    options.grad_outputs = (tn_tensors){cotangents, n};
    watch(c, 1);
    int32_t status =
        n ? tn_grad(c->s, (tn_tensors){roots, n}, (tn_tensors){c->leaves, c->n_leaves}, &options, grads)
          : TN_OK;
    watch(c, 0);
    if (status) return fail(c, scope_text(c));
    cJSON_ArrayForEach(entry, field(c->line, "grad"))
    {
        char what[96];
        tn_tensor *g = grads[i++];
        snprintf(what, sizeof what, "gradient of %s", field(entry, "wrt")->valuestring);
        if (!cJSON_IsString(field(entry, "tensor"))) continue; /* none or zeros are both right */
        if (!g) {
            g = tn_zeros_like(c->s, c->leaves[i - 1]);
            if (!g) return fail(c, scope_text(c));
        }
        if (!golden_compare(c->file, c->s, g, entry, rtol, atol, 1, what, c->result)) return 0;
    }
    return 1;
}

static void check_refusal(call *c, int32_t status)
{
    const char *want = field(field(c->line, "raises"), "text")->valuestring;
    const char *got = status && tn_scope_error(c->s) ? tn_scope_error(c->s)->message : "";
    if (!status) {
        c->result->outcome = GOLDEN_ACCEPTED;
        snprintf(c->result->reason, sizeof c->result->reason, "accepted, must be refused: %s", want);
        return;
    }
    c->result->outcome = GOLDEN_PASSED;
    c->result->same_text = strstr(got, want) != NULL;
}

static int32_t run(call *c)
{
    const cJSON *random = field(c->line, "random"), *has_values = field(c->line, "values");
    int32_t values = !cJSON_IsTrue(random) && !cJSON_IsFalse(has_values), status;
    double rtol, atol;
    uint32_t op = tn_operator_find(c->file->ctx, field(c->line, "op")->valuestring);
    if (!op) {
        c->result->outcome = GOLDEN_ABSENT;
        return 1;
    }
    c->n_outs = tn_inspect_argument_count(c->file->ctx, op, 1);
    if (c->n_outs > MAX_OUTS) return fail(c, "too many outputs");
    if (!make_arguments(c) || !mark_leaves(c)) {
        if (field(c->line, "raises")) check_refusal(c, TN_E_ARGUMENT);
        return 0;
    }
    watch(c, 1);
    status = tn_scope_call(c->s, op, c->args, c->n_args, c->outs, c->n_outs);
    watch(c, 0);
    if (!status) status = tn_device_synchronize(c->file->ctx, c->file->device);
    if (field(c->line, "raises")) {
        check_refusal(c, status);
        return 1;
    }
    if (status)
        return fail(c, tn_scope_failed(c->s) ? scope_text(c)
                       : tn_last_error()     ? tn_last_error()->message
                                             : "late error");
    flatten(c);
    rtol = field(c->line, "rtol") ? field(c->line, "rtol")->valuedouble : 0;
    atol = field(c->line, "atol") ? field(c->line, "atol")->valuedouble : 0;
    if (!compare_outputs(c, rtol, atol, values) || !compare_mutated(c, rtol, atol, values)) return 0;
    return c->n_leaves ? compare_gradients(c) : 1;
}

void golden_case(const golden_file *file, const cJSON *line, golden_result *out)
{
    call *c = calloc(1, sizeof *c);
    memset(out, 0, sizeof *out);
    out->outcome = GOLDEN_FAILED;
    if (!c) return;
    c->file = file;
    c->line = line;
    c->result = out;
    c->s = tn_scope_open(file->ctx);
    out->outcome = GOLDEN_PASSED;
    const char *damage = golden_damage(line);
    char text[96];
    if (damage) {
        snprintf(text, sizeof text, "the line is damaged: field '%s'", damage);
        fail(c, text);
    } else if (!c->s) {
        fail(c, "no scope");
    } else {
        run(c);
    }
    tn_scope_close(c->s);
    free(c);
}
