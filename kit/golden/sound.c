/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a line of recorded calls has the fields that a case reads, each of its kind. */
#include "golden.h"

#include <string.h>

static const cJSON *field(const cJSON *entry, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(entry, name);
}

static int is_absent(const cJSON *item)
{
    return !item || cJSON_IsNull(item);
}

static int are_integers(const cJSON *list)
{
    const cJSON *item;
    if (!cJSON_IsArray(list)) return 0;
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsNumber(item) && !cJSON_IsString(item)) return 0;
    }
    return 1;
}

/* {"tensor": key or null, "dtype": text, "shape": integers, "strides": the same number of them} */
static int is_tensor(const cJSON *entry)
{
    const cJSON *key = field(entry, "tensor"), *shape = field(entry, "shape"),
                *strides = field(entry, "strides");
    return cJSON_IsString(field(entry, "dtype")) && are_integers(shape) &&
           cJSON_GetArraySize(shape) <= GOLDEN_MAX_RANK && (is_absent(key) || cJSON_IsString(key)) &&
           (is_absent(strides) ||
            (are_integers(strides) && cJSON_GetArraySize(strides) == cJSON_GetArraySize(shape)));
}

static int are_tensors(const cJSON *list, int stored)
{
    const cJSON *item;
    if (!cJSON_IsArray(list)) return 0;
    cJSON_ArrayForEach(item, list)
    {
        if (cJSON_IsNull(item)) continue;
        if (!is_tensor(item) || (stored && !cJSON_IsString(field(item, "tensor")))) return 0;
    }
    return 1;
}

static int is_argument(const cJSON *entry)
{
    static const char *const texts[] = {"name", "string", "scalar_type", "layout", "memory_format"};
    static const char *const lists[] = {"ints", "floats", "bools", "scalars", "strings"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (field(entry, texts[i]) && !cJSON_IsString(field(entry, texts[i]))) return 0;
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const cJSON *list = field(entry, lists[i]), *item;
        if (list && !cJSON_IsArray(list)) return 0;
        cJSON_ArrayForEach(item, list)
        {
            if (i == 4 && !cJSON_IsString(item)) return 0;
        }
    }
    if (field(entry, "tensors")) return are_tensors(field(entry, "tensors"), 1);
    return !field(entry, "tensor") || (is_tensor(entry) && cJSON_IsString(field(entry, "tensor")));
}

/* All items of a list that may be absent; `text` names a field that each has, or NULL. */
static int are_all(const cJSON *list, const char *text, int (*good)(const cJSON *entry))
{
    const cJSON *item;
    if (is_absent(list)) return 1;
    if (!cJSON_IsArray(list)) return 0;
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsObject(item) || (text && !cJSON_IsString(field(item, text))) || !good(item)) return 0;
    }
    return 1;
}

static int is_output(const cJSON *entry)
{
    if (field(entry, "tensors")) return are_tensors(field(entry, "tensors"), 0);
    return !(field(entry, "dtype") || field(entry, "tensor") || field(entry, "shape")) || is_tensor(entry);
}

static int is_mutated(const cJSON *entry)
{
    return field(entry, "tensors") ? are_tensors(field(entry, "tensors"), 0) : is_tensor(entry);
}

static int is_cotangent(const cJSON *entry)
{
    return cJSON_IsNumber(field(entry, "out")) && is_tensor(entry) && cJSON_IsString(field(entry, "tensor"));
}

static int is_gradient(const cJSON *entry)
{
    const cJSON *index = field(entry, "index");
    return (!index || cJSON_IsNumber(index)) && (is_absent(field(entry, "tensor")) || is_tensor(entry));
}

static int are_numbers(const cJSON *line)
{
    static const char *const names[] = {"rtol", "atol", "grad_rtol", "grad_atol"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (field(line, names[i]) && !cJSON_IsNumber(field(line, names[i]))) return 0;
    }
    return !field(line, "grad") || !cJSON_GetArraySize(field(line, "grad")) ||
           (field(line, "grad_rtol") && field(line, "grad_atol"));
}

const char *golden_damage(const cJSON *line)
{
    const cJSON *raises = field(line, "raises");
    if (!cJSON_IsString(field(line, "op"))) return "op";
    if (!are_all(field(line, "args"), "name", is_argument)) return "args";
    if (!are_all(field(line, "out"), NULL, is_output)) return "out";
    if (!are_all(field(line, "mutated"), "name", is_mutated)) return "mutated";
    if (!are_all(field(line, "grad"), "wrt", is_gradient)) return "grad";
    if (!are_all(field(line, "cotangents"), NULL, is_cotangent)) return "cotangents";
    if (!is_absent(raises) && !cJSON_IsString(field(raises, "text"))) return "raises";
    return are_numbers(line) ? NULL : "rtol, atol, grad_rtol or grad_atol";
}
