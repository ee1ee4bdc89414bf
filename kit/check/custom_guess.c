/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of a custom operator: given by the user, or guessed from its schema. Guessed tensors are of one dtype, and of
 * one shape or, if the operator refuses that, vectors as long as its last dimension beside a first tensor of that
 * shape (weights, biases). Other arguments have their defaults or the simplest value of their type.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/inspect.h>
#include "custom.h"

/* ---- Guesses ------------------------------------------------------------------------------------------- */

typedef struct shape {
    const char *sizes;
    const char *strides; /* "" for row-major */
} shape;

static const shape shapes[] = {{"[3,4]", ""},   {"[3,4]", "[1,3]"}, {"[5]", ""},       {"[]", ""},
                               {"[2,3,4]", ""}, {"[4,4]", ""},      {"[2,3,4,5]", ""}, {"[0,3]", ""}};
static const char *const dtypes[] = {"float64", "float32", "float16",  "bfloat16",
                                     "int64",   "bool",    "complex64"};

/* Which tensors are vectors, a bit each. */
static const uint32_t vectors[] = {0, 2, 4, 8, 6, 10, 12, 14};
#define N_SHAPES  (sizeof shapes / sizeof *shapes)
#define N_DTYPES  (sizeof dtypes / sizeof *dtypes)
#define N_VECTORS (sizeof vectors / sizeof *vectors)

/* The last dimension of a shape as a shape; NULL if it has less than two. */
static const char *last_dimension(const shape *form, char *text, size_t bytes)
{
    const char *comma = strrchr(form->sizes, ',');
    if (comma) snprintf(text, bytes, "[%s", comma + 1);
    return comma ? text : NULL;
}

/* One tensor; the seed makes the tensors of a call differ. */
static void print_tensor(char *at, size_t bytes, const shape *form, const char *dtype, uint32_t seed)
{
    int32_t floating = dtype[0] == 'f' || dtype[0] == 'c' || (dtype[0] == 'b' && dtype[1] == 'f');
    snprintf(at, bytes, "{\"t\":%s,\"d\":\"%s\"%s%s,\"low\":%s,\"high\":%s,\"seed\":%u}", form->sizes, dtype,
             *form->strides ? ",\"s\":" : "", form->strides, floating ? "0.25" : "0", floating ? "1.75" : "2",
             seed);
}

/* Writes an argument as JSON; 0 when its default or None serves. */
static int print_argument(char *at, size_t bytes, const tn_argument_info *info, const shape *form,
                          const char *dtype, uint32_t seed)
{
    char one[256];
    if (info->default_text || info->flags & TN_ARG_OPTIONAL) return 0;
    print_tensor(one, sizeof one, form, dtype, seed);
    if (strcmp(info->type, "Tensor") == 0)
        snprintf(at, bytes, "%s", one);
    else if (strncmp(info->type, "Tensor[", 7) == 0)
        snprintf(at, bytes, "[%s,%s]", one, one);
    else if (strncmp(info->type, "int[", 4) == 0)
        snprintf(at, bytes, "[1]");
    else if (strncmp(info->type, "float[", 6) == 0)
        snprintf(at, bytes, "[0.5]");
    else if (strcmp(info->type, "float") == 0)
        snprintf(at, bytes, "{\"f\":\"0.5\"}");
    else if (strcmp(info->type, "bool") == 0)
        snprintf(at, bytes, "false");
    else if (strcmp(info->type, "str") == 0)
        snprintf(at, bytes, "\"\"");
    else if (strcmp(info->type, "ScalarType") == 0)
        snprintf(at, bytes, "{\"dtype\":\"float32\"}");
    else
        snprintf(at, bytes, "1");
    return 1;
}

/* Whether a guessed call has a tensor, or a list of them, for the argument. */
static int is_guessed_tensor(const tn_argument_info *info)
{
    return !info->default_text && !(info->flags & TN_ARG_OPTIONAL) && strncmp(info->type, "Tensor", 6) == 0;
}

/* Adds the text and the name of a call in which the tensors of `mask` are vectors. */
static void guess(check_target *t, check_list *list, custom_call *c, const shape *form, const char *dtype,
                  uint32_t mask)
{
    char text[8000] = "{\"args\":[],\"kwargs\":{", one[600], name[300], last[32];
    const char *comma = "";
    uint32_t n = tn_inspect_argument_count(t->ctx, c->op, 0), tensors = 0;
    const shape vector = {last_dimension(form, last, sizeof last), ""};
    snprintf(name, sizeof name, "%s %s%s", dtype, form->sizes, *form->strides ? " transposed" : "");
    for (uint32_t i = 0; i < n; i++) {
        tn_argument_info info = custom_argument(t, c->op, 0, i);
        size_t used = strlen(text), named = strlen(name);
        const int narrow = is_guessed_tensor(&info) && tensors < 32 && mask >> tensors++ & 1;
        if (!print_argument(one, sizeof one, &info, narrow ? &vector : form, dtype, i + 1)) continue;
        snprintf(text + used, sizeof text - used, "%s\"%s\":%s", comma, info.name, one);
        if (narrow) snprintf(name + named, sizeof name - named, ", %s %s", info.name, vector.sizes);
        comma = ",";
    }
    strncat(text, "}}", sizeof text - strlen(text) - 1);
    /* check_text is for names and would cut it. */
    c->text = strcpy(check_memory(list, strlen(text) + 1), text);
    c->name = check_text(list, "%s", name);
}

/* ---- Given calls --------------------------------------------------------------------------------------- */

/* --args is JSON or a file with JSON. NULL and a message when it is neither. */
static cJSON *read_given(const char *wish)
{
    cJSON *j = cJSON_Parse(wish);
    return j ? j : check_read_json(wish);
}

/* One call, {"args": ...}, or a list of arguments. */
static void take_given(check_list *list, custom_call *c, const cJSON *j, uint32_t number)
{
    cJSON *call = cJSON_Duplicate(j, 1);
    if (cJSON_IsArray(j)) {
        cJSON *outer = cJSON_CreateObject();
        cJSON_AddItemToObject(outer, "args", call);
        call = outer;
    }
    char *text = cJSON_PrintUnformatted(call);
    c->text = strcpy(check_memory(list, strlen(text) + 1), text);
    c->name = check_text(list, "given %u", number);
    c->given = 1;
    free(text);
    cJSON_Delete(call);
}

static custom_call *given_calls(check_list *list, const char *wish, uint32_t *n)
{
    cJSON *j = read_given(wish), *calls = cJSON_GetObjectItem(j, "calls");
    uint32_t count = calls ? (uint32_t)cJSON_GetArraySize(calls) : j != NULL;
    custom_call *out = check_memory(list, (count + 1) * sizeof *out);
    for (uint32_t i = 0; i < count; i++)
        take_given(list, &out[i], calls ? cJSON_GetArrayItem(calls, (int)i) : j, i + 1);
    cJSON_Delete(j);
    *n = count;
    return out;
}

static uint32_t count_tensors(check_target *t, uint32_t op)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < tn_inspect_argument_count(t->ctx, op, 0); i++) {
        tn_argument_info info = custom_argument(t, op, 0, i);
        count += (uint32_t)is_guessed_tensor(&info);
    }
    return count;
}

/* By dtype, then by shape, then by the tensors that are vectors. */
static custom_call *guessed_calls(check_target *t, check_list *list, uint32_t op, uint32_t *n)
{
    custom_call *out = check_memory(list, N_SHAPES * N_DTYPES * N_VECTORS * sizeof *out);
    const uint32_t n_tensors = count_tensors(t, op);
    char last[32];
    *n = 0;
    for (uint32_t d = 0; d < N_DTYPES; d++) {
        for (uint32_t i = 0; i < N_SHAPES; i++) {
            for (uint32_t k = 0; k < N_VECTORS; k++) {
                const uint32_t mask = vectors[k];
                if (mask && (!last_dimension(&shapes[i], last, sizeof last) || mask >> n_tensors)) continue;
                custom_call *c = &out[(*n)++];
                *c = (custom_call){.op = op, .dtype = tn_dtype_parse(dtypes[d]), .shape = i, .vectors = mask};
                guess(t, list, c, &shapes[i], dtypes[d], mask);
            }
        }
    }
    return out;
}

custom_call *custom_calls(check_target *t, check_list *list, uint32_t op, uint32_t *n)
{
    const char *wish = t->options->args;
    custom_call *calls = wish ? given_calls(list, wish, n) : guessed_calls(t, list, op, n);
    for (uint32_t i = 0; i < *n; i++) {
        calls[i].op = op;
        calls[i].number = i;
    }
    return calls;
}

/* ---- Those that are checked ---------------------------------------------------------------------------- */

/* All shapes in the dtypes in which gradients are checked; two in the others. */
#define SHAPES_OF_OTHERS 2

void custom_choose(custom_call *calls, uint32_t n)
{
    uint32_t of_dtype = 0;
    int found = 0;
    for (uint32_t i = 0; i < n; i++) {
        custom_call *c = &calls[i];
        const int32_t state = custom_tried(c).state;
        const int is_wide = c->dtype == TN_FLOAT64 || c->dtype == TN_FLOAT32;
        if (i == 0 || c->dtype != calls[i - 1].dtype) of_dtype = 0;
        if (c->given || c->vectors == 0) found = 0;
        /* A call with vectors that crashes may be none of the operator's: another one is looked for. */
        c->chosen = !found && (state == CUSTOM_ACCEPTED || (state == CUSTOM_CRASHED && !c->vectors)) &&
                    (c->given || is_wide || of_dtype < SHAPES_OF_OTHERS);
        found |= c->chosen;
        of_dtype += (uint32_t)c->chosen;
    }
}

int custom_is_next(const custom_call *calls, uint32_t i)
{
    uint32_t uniform = i;
    while (calls[uniform].vectors) uniform--;
    return custom_tried(&calls[i]).state == CUSTOM_UNTRIED &&
           (uniform == i || custom_tried(&calls[uniform]).state == CUSTOM_REFUSED);
}

/* What came of the call of that dtype, shape and vectors, or of the first one of that dtype and shape. */
static custom_try tried_like(const custom_call *calls, uint32_t n, tn_dtype dtype, const custom_call *like)
{
    custom_try same = {0}, uniform = {0};
    for (uint32_t i = 0; i < n; i++) {
        if (calls[i].dtype != dtype || calls[i].shape != like->shape) continue;
        if (!calls[i].vectors) uniform = custom_tried(&calls[i]);
        if (calls[i].vectors == like->vectors) same = custom_tried(&calls[i]);
    }
    return same.state == CUSTOM_UNTRIED ? uniform : same;
}

/* A call that is checked, of the dtype unless that is 0, and of the shape unless that is N_SHAPES. */
static int has_chosen(const custom_call *calls, uint32_t n, tn_dtype dtype, uint32_t which)
{
    for (uint32_t i = 0; i < n; i++)
        if (calls[i].chosen && (!dtype || calls[i].dtype == dtype) &&
            (which == N_SHAPES || calls[i].shape == which))
            return 1;
    return 0;
}

static void tell_refused(check_target *t, const check_case *c, check_result *out)
{
    check_skip(out, "%s", (const char *)c->data);
}

void custom_list_refused(check_target *t, check_list *list, const custom_call *calls, uint32_t n)
{
    const char *names = NULL;
    const custom_call *first = calls;
    custom_try why = {0};
    while (first < calls + n && !first->chosen) first++;
    if (first == calls + n || first->given) return;
    for (uint32_t d = 0; d < N_DTYPES; d++) {
        const tn_dtype dtype = tn_dtype_parse(dtypes[d]);
        if (has_chosen(calls, n, dtype, N_SHAPES)) continue;
        check_case c = {.tier = 1, .run = tell_refused};
        c.data = check_text(list, "no guessed call of %s is accepted: %s", dtypes[d],
                            tried_like(calls, n, dtype, first).reason);
        check_add(list, &c, "1/custom/%s/refused/%s", t->options->op, dtypes[d]);
    }
    for (uint32_t i = 0; i < N_SHAPES; i++) {
        if (has_chosen(calls, n, 0, i)) continue;
        if (!names) why = tried_like(calls, n, first->dtype, &(custom_call){.shape = i});
        names = check_text(list, "%s%s%s%s", names ? names : "", names ? ", " : "", shapes[i].sizes,
                           *shapes[i].strides ? " transposed" : "");
    }
    if (!names) return;
    check_case c = {.tier = 1, .run = tell_refused};
    c.data = check_text(list, "no guessed call with tensors of %s is accepted: %s", names, why.reason);
    check_add(list, &c, "1/custom/%s/refused/shapes", t->options->op);
}
