/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of a custom operator: given by the user, or guessed from its schema (all tensors of one shape and
 * dtype; other arguments have their defaults or the simplest value of their type).
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

static const char *guess(check_target *t, check_list *list, uint32_t op, const shape *form, const char *dtype)
{
    char text[8000] = "{\"args\":[],\"kwargs\":{", one[600];
    const char *comma = "";
    uint32_t n = tn_inspect_argument_count(t->ctx, op, 0);
    for (uint32_t i = 0; i < n; i++) {
        tn_argument_info info = custom_argument(t, op, 0, i);
        size_t used = strlen(text);
        if (!print_argument(one, sizeof one, &info, form, dtype, i + 1)) continue;
        snprintf(text + used, sizeof text - used, "%s\"%s\":%s", comma, info.name, one);
        comma = ",";
    }
    strncat(text, "}}", sizeof text - strlen(text) - 1);
    /* check_text is for names and would cut it. */
    return strcpy(check_memory(list, strlen(text) + 1), text);
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

static custom_call *guessed_calls(check_target *t, check_list *list, uint32_t op, uint32_t *n)
{
    uint32_t n_shapes = sizeof shapes / sizeof *shapes, n_dtypes = sizeof dtypes / sizeof *dtypes, k = 0;
    custom_call *out = check_memory(list, n_shapes * n_dtypes * sizeof *out);
    for (uint32_t d = 0; d < n_dtypes; d++) {
        /* All shapes in the dtypes in which gradients are checked; the first two in the others. */
        for (uint32_t i = 0; i < (d < 2 ? n_shapes : 2); i++, k++) {
            out[k].text = guess(t, list, op, &shapes[i], dtypes[d]);
            out[k].name = check_text(list, "%s %s%s", dtypes[d], shapes[i].sizes,
                                     *shapes[i].strides ? " transposed" : "");
            out[k].dtype = tn_dtype_parse(dtypes[d]);
        }
    }
    *n = k;
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
