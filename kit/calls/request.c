/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of a call from JSON; see request.h. */
#include "request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fill.h"

/* The scope fails with a text. */
#define REFUSE(s, status, ...)                      \
    do {                                            \
        char text_[512];                            \
        snprintf(text_, sizeof text_, __VA_ARGS__); \
        tn_scope_fail(s, status, text_);            \
    } while (0)

/* The same with the beginning of a value. */
static void refuse_value(tn_scope *s, const char *what, const cJSON *j)
{
    char *text = cJSON_PrintUnformatted(j);
    REFUSE(s, TN_E_ARGUMENT, "%s: %.200s", what, text ? text : "");
    free(text);
}

/* The integer of a JSON item; out-of-range values become the nearest integer, other items 0. */
static int64_t whole_of(const cJSON *j)
{
    double v = cJSON_IsNumber(j) ? j->valuedouble : 0;
    return v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

static double float_of(const cJSON *j)
{
    const cJSON *f = cJSON_GetObjectItem(j, "f");
    if (cJSON_IsString(f)) return strtod(f->valuestring, NULL);
    return cJSON_IsNumber(j) ? j->valuedouble : 0;
}

static tn_ints ints_of(tn_scope *s, const cJSON *list)
{
    int64_t count = cJSON_GetArraySize(list), *data, i = 0;
    const cJSON *item;
    if (!cJSON_IsArray(list)) return (tn_ints){NULL, 0};
    data = tn_scope_memory(s, (uint64_t)(count + 1) * 8);
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsNumber(item)) refuse_value(s, "a list of integers has another value", item);
        if (data) data[i++] = whole_of(item);
    }
    return (tn_ints){data, data ? count : 0}; /* a scope that has failed gives no memory */
}

static tn_value floats_of(tn_scope *s, const cJSON *list)
{
    int64_t count = cJSON_GetArraySize(list), i = 0;
    double *data = tn_scope_memory(s, (uint64_t)(count + 1) * 8);
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (data) data[i++] = float_of(item);
    }
    return tn_value_floats(data, count);
}

static tn_value bools_of(tn_scope *s, const cJSON *list)
{
    int64_t count = cJSON_GetArraySize(list), i = 0;
    uint8_t *data = tn_scope_memory(s, (uint64_t)(count + 1));
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (data) data[i++] = cJSON_IsTrue(item) != 0;
    }
    return tn_value_bools(data, count);
}

/* A copy that lives as long as the scope: a call reads it after the JSON is gone. */
static const char *text_of(tn_scope *s, const cJSON *j)
{
    const char *from = cJSON_IsString(j) ? j->valuestring : "";
    char *copy = tn_scope_memory(s, strlen(from) + 1);
    return copy ? strcpy(copy, from) : "";
}

static tn_value strings_of(tn_scope *s, const cJSON *list)
{
    int64_t count = cJSON_GetArraySize(list), i = 0;
    const char **data = tn_scope_memory(s, (uint64_t)(count + 1) * sizeof *data);
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (data) data[i++] = text_of(s, item);
    }
    return tn_value_strings(data, data ? count : 0);
}

static double number_or(const cJSON *object, const char *key, double otherwise)
{
    const cJSON *item = cJSON_GetObjectItem(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : otherwise;
}

static tn_dtype dtype_of(tn_scope *s, const cJSON *j)
{
    const char *name = cJSON_IsString(j) ? j->valuestring : NULL;
    tn_dtype dtype = name ? tn_dtype_parse(name) : 0;
    if (!name)
        REFUSE(s, TN_E_DTYPE, "a tensor has no dtype, as in {\"t\": [2, 3], \"d\": \"float32\"}");
    else if (!dtype)
        REFUSE(s, TN_E_DTYPE, "there is no dtype '%.100s'", name);
    return dtype;
}

/* A misspelt key must not pass for an absent one. */
static void check_keys(tn_scope *s, const cJSON *tensor)
{
    static const char *const known[] = {"t", "d", "s", "o", "low", "high", "seed", "offsets"};
    const cJSON *item;
    cJSON_ArrayForEach(item, tensor)
    {
        uint32_t i = 0, n = sizeof known / sizeof *known;
        while (i < n && strcmp(known[i], item->string)) i++;
        if (i == n)
            REFUSE(s, TN_E_ARGUMENT,
                   "a tensor has the unknown key '%.100s' (known are t, d, s, o, low, high, seed, offsets)",
                   item->string);
    }
    if (!cJSON_IsArray(cJSON_GetObjectItem(tensor, "t")))
        refuse_value(s, "the sizes of a tensor are a list of integers", tensor);
}

static tn_tensor *tensor_of(tn_scope *s, const cJSON *j)
{
    const cJSON *dtype = cJSON_GetObjectItem(j, "d");
    fill_wish w = {.sizes = ints_of(s, cJSON_GetObjectItem(j, "t")),
                   .strides = ints_of(s, cJSON_GetObjectItem(j, "s")),
                   .offset = whole_of(cJSON_GetObjectItem(j, "o")),
                   .low = number_or(j, "low", 0),
                   .high = number_or(j, "high", 1),
                   .seed = (uint64_t)whole_of(cJSON_GetObjectItem(j, "seed")),
                   .offsets = cJSON_IsTrue(cJSON_GetObjectItem(j, "offsets"))};
    check_keys(s, j);
    if (w.offset < 0) refuse_value(s, "the storage offset of a tensor is negative", j);
    w.dtype = dtype_of(s, dtype);
    return tn_scope_failed(s) ? NULL : fill_tensor(s, &w);
}

static tn_value tensors_of(tn_scope *s, const cJSON *list)
{
    int64_t count = cJSON_GetArraySize(list), i = 0;
    tn_tensor **data = tn_scope_memory(s, (uint64_t)(count + 1) * sizeof *data);
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (data) data[i++] = cJSON_IsNull(item) ? NULL : tensor_of(s, item);
    }
    return tn_value_tensors(data, count);
}

static tn_value list_of(tn_scope *s, const cJSON *j, const char *type)
{
    if (strncmp(type, "Tensor", 6) == 0) return tensors_of(s, j);
    if (strncmp(type, "float", 5) == 0) return floats_of(s, j);
    if (strncmp(type, "bool", 4) == 0) return bools_of(s, j);
    if (strncmp(type, "str", 3) == 0) return strings_of(s, j);
    tn_ints ints = ints_of(s, j);
    return tn_value_ints(ints.data, ints.count);
}

static tn_value object_of(tn_scope *s, const cJSON *j)
{
    const cJSON *item;
    if (cJSON_GetObjectItem(j, "t")) return tn_value_tensor(tensor_of(s, j));
    if (cJSON_IsString(cJSON_GetObjectItem(j, "f"))) return tn_value_float(float_of(j));
    item = cJSON_GetObjectItem(j, "dtype");
    if (item) return tn_value_dtype(dtype_of(s, item));
    if (!cJSON_GetObjectItem(j, "layout")) refuse_value(s, "an unknown value", j);
    return tn_value_layout(TN_INTERNED_STRIDED);
}

static tn_value device_of(tn_scope *s, const char *name)
{
    tn_device device = tn_device_parse(tn_scope_context(s), name);
    if (device & TN_DEVICE_MISSING) REFUSE(s, TN_E_DEVICE, "there is no device '%.100s'", name);
    return tn_value_device(device);
}

tn_value request_value(tn_scope *s, const cJSON *j, const char *type)
{
    if (cJSON_IsArray(j)) return list_of(s, j, type);
    if (cJSON_IsObject(j)) return object_of(s, j);
    if (cJSON_IsBool(j)) return tn_value_bool(cJSON_IsTrue(j));
    if (cJSON_IsNumber(j) && strncmp(type, "float", 5) == 0) return tn_value_float(j->valuedouble);
    if (cJSON_IsNumber(j)) return tn_value_int(whole_of(j));
    if (cJSON_IsString(j) && strncmp(type, "Device", 6) == 0) return device_of(s, j->valuestring);
    return cJSON_IsString(j) ? tn_value_string(text_of(s, j)) : tn_value_none();
}

/* The number of the argument with that name; `count`: there is none. */
static uint32_t find_argument(tn_context *ctx, uint32_t op, uint32_t count, const char *name)
{
    uint32_t i = 0;
    for (; i < count; i++) {
        tn_argument_info info = {.size = sizeof info};
        if (tn_inspect_argument(ctx, op, 0, i, &info) == TN_OK && strcmp(info.name, name) == 0) break;
    }
    return i;
}

/* Refuses arguments that the operator does not have. */
static void check_names(tn_scope *s, uint32_t op, uint32_t count, const cJSON *list, const cJSON *named)
{
    tn_context *ctx = tn_scope_context(s);
    tn_operator_info of = {.size = sizeof of};
    const uint32_t given = (uint32_t)cJSON_GetArraySize(list);
    const cJSON *item;
    char names[300] = "";
    tn_inspect_operator_by_number(ctx, op, &of);
    for (uint32_t i = 0; i < count; i++) {
        tn_argument_info info = {.size = sizeof info};
        size_t used = strlen(names);
        tn_inspect_argument(ctx, op, 0, i, &info);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", info.name);
    }
    if (given > count)
        REFUSE(s, TN_E_ARGUMENT, "%u arguments, and %s has %u (%s)", given, of.name, count, names);
    cJSON_ArrayForEach(item, named)
    {
        uint32_t i = find_argument(ctx, op, count, item->string);
        if (i == count)
            REFUSE(s, TN_E_ARGUMENT, "%s has no argument '%.60s' (it has %s)", of.name, item->string, names);
        else if (i < given)
            REFUSE(s, TN_E_ARGUMENT, "argument '%s' of %s is given twice: by its place and by its name",
                   item->string, of.name);
    }
}

uint32_t request_arguments(tn_scope *s, uint32_t op, const cJSON *request, tn_value *args)
{
    const cJSON *list = cJSON_GetObjectItem(request, "args"), *named = cJSON_GetObjectItem(request, "kwargs");
    tn_context *ctx = tn_scope_context(s);
    uint32_t count = tn_inspect_argument_count(ctx, op, 0), used = 0;
    if (count > REQUEST_MAX_ARGUMENTS) {
        tn_scope_fail(s, TN_E_ARGUMENT, "too many arguments");
        return 0;
    }
    check_names(s, op, count, list, named);
    for (uint32_t i = 0; i < count; i++) {
        tn_argument_info info = {.size = sizeof info};
        const cJSON *j = cJSON_GetArrayItem(list, (int)i);
        tn_inspect_argument(ctx, op, 0, i, &info);
        if (!j) j = cJSON_GetObjectItem(named, info.name);
        args[i] = j ? request_value(s, j, info.type) : tn_value_none();
        if (j) used = i + 1;
    }
    return used;
}
