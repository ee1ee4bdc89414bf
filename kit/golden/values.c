/* SPDX-License-Identifier: Apache-2.0 */
/* From JSON and safetensors to tensors and values, and the comparison of results. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "golden.h"

static const cJSON *field(const cJSON *entry, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(entry, name);
}

int64_t golden_integer(const cJSON *item)
{
    if (cJSON_IsString(item)) return (int64_t)strtoll(item->valuestring, NULL, 10);
    if (cJSON_IsBool(item)) return cJSON_IsTrue(item);
    if (!cJSON_IsNumber(item)) return 0;
    return item->valuedouble >= 0x1p63   ? INT64_MAX
           : item->valuedouble < -0x1p63 ? INT64_MIN
                                         : (int64_t)item->valuedouble;
}

static double number(const cJSON *item)
{
    if (cJSON_IsString(item)) return strtod(item->valuestring, NULL);
    return item ? item->valuedouble : 0.0;
}

static int64_t integers(const cJSON *list, int64_t *out)
{
    int64_t n = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (n < GOLDEN_MAX_RANK) out[n++] = golden_integer(item);
    }
    return n;
}

/* The stored elements of a key, in the entry's dtype, as a row-major CPU tensor. */
static tn_tensor *stored(const golden_file *file, tn_scope *s, const cJSON *entry, tn_dtype dtype)
{
    tn_tensor *t = tn_safetensors_get(s, file->tensors, field(entry, "tensor")->valuestring, TN_CPU);
    int64_t bytes, rank, parts = tn_dtype_is_complex(dtype) ? 2 : 1;
    void *data;
    if (!t || tn_tensor_dtype(t) == dtype) return t;
    rank = tn_tensor_rank(t);
    bytes = tn_tensor_numel(t) * tn_dtype_bytes(tn_tensor_dtype(t));
    if (tn_dtype_bytes(dtype) != parts * tn_dtype_bytes(tn_tensor_dtype(t)) ||
        (parts == 2 && (!rank || tn_tensor_size(t, rank - 1) != 2))) {
        tn_scope_fail(s, TN_E_CORRUPT, "the stored tensor has another element size than its dtype");
        return NULL;
    }
    data = tn_scope_memory(s, (uint64_t)bytes + 1);
    if (!data || tn_to_host(s, t, data, (uint64_t)bytes)) return NULL;
    if (tn_dtype_is_complex(dtype)) rank--;
    return tn_from_data(s, dtype, (tn_ints){tn_tensor_sizes(t), rank}, data, TN_CPU);
}

static tn_tensor *to_device(const golden_file *file, tn_scope *s, tn_tensor *t)
{
    if (!t || file->device == TN_CPU) return t;
    return tn__to_copy(s, t, .device = file->device);
}

tn_tensor *golden_tensor(const golden_file *file, tn_scope *s, const cJSON *entry)
{
    tn_dtype dtype = tn_dtype_parse(field(entry, "dtype")->valuestring);
    int64_t sizes[GOLDEN_MAX_RANK], strides[GOLDEN_MAX_RANK];
    int64_t rank = integers(field(entry, "shape"), sizes);
    tn_tensor *t = to_device(file, s, stored(file, s, entry, dtype));
    if (!t) return NULL;
    if (field(entry, "strides")) {
        integers(field(entry, "strides"), strides);
        t = tn_as_strided(s, t, ((tn_ints){sizes, rank}), ((tn_ints){strides, rank}),
                          .storage_offset = golden_integer(field(entry, "offset")));
    } else if (rank != tn_tensor_rank(t) || (rank && memcmp(sizes, tn_tensor_sizes(t), (size_t)rank * 8))) {
        t = tn_reshape(s, t, ((tn_ints){sizes, rank}));
    }
    if (cJSON_IsTrue(field(entry, "conj"))) t = tn__conj(s, t);
    if (cJSON_IsTrue(field(entry, "neg"))) t = tn__neg_view(s, t);
    return t ? tn_detach(s, t) : NULL;
}

static tn_value tensor_list(const golden_file *file, tn_scope *s, const cJSON *list)
{
    int64_t n = cJSON_GetArraySize(list), i = 0;
    tn_tensor **tensors = tn_scope_memory(s, (uint64_t)(n + 1) * sizeof *tensors);
    const cJSON *item;
    if (!tensors) return tn_value_none();
    cJSON_ArrayForEach(item, list) tensors[i++] = cJSON_IsNull(item) ? NULL : golden_tensor(file, s, item);
    return tn_value_tensors(tensors, n);
}

static tn_value complex_value(tn_scope *s, const cJSON *pair)
{
    double *parts = tn_scope_memory(s, 16);
    if (!parts) return tn_value_none();
    parts[0] = number(cJSON_GetArrayItem(pair, 0));
    parts[1] = number(cJSON_GetArrayItem(pair, 1));
    return tn_value_complex(parts);
}

static tn_value scalar(tn_scope *s, const cJSON *entry)
{
    const cJSON *v;
    if ((v = field(entry, "int"))) return tn_value_int(golden_integer(v));
    if ((v = field(entry, "float"))) return tn_value_float(number(v));
    if ((v = field(entry, "bool"))) return tn_value_bool(cJSON_IsTrue(v));
    if ((v = field(entry, "complex"))) return complex_value(s, v);
    return tn_value_none();
}

static tn_value list_value(tn_scope *s, const cJSON *entry)
{
    static const char *const names[] = {"ints", "floats", "bools", "scalars", "strings"};
    const cJSON *list = NULL, *item;
    uint32_t kind = 0;
    int64_t n, i = 0;
    void *data;
    while (kind < 5 && !(list = field(entry, names[kind]))) kind++;
    if (!list) return tn_value_none();
    n = cJSON_GetArraySize(list);
    data = tn_scope_memory(s, (uint64_t)(n + 1) * 16);
    if (!data) return tn_value_none();
    cJSON_ArrayForEach(item, list)
    {
        if (kind == 0) ((int64_t *)data)[i] = golden_integer(item);
        if (kind == 1) ((double *)data)[i] = number(item);
        if (kind == 2) ((uint8_t *)data)[i] = (uint8_t)cJSON_IsTrue(item);
        if (kind == 3) ((tn_value *)data)[i] = scalar(s, item);
        if (kind == 4) ((const char **)data)[i] = item->valuestring ? item->valuestring : "";
        i++;
    }
    return kind == 0   ? tn_value_ints(data, n)
           : kind == 1 ? tn_value_floats(data, n)
           : kind == 2 ? tn_value_bools(data, n)
           : kind == 3 ? tn_value_scalars(data, n)
                       : tn_value_strings(data, n);
}

static tn_value memory_format(const char *name)
{
    static const char *const names[] = {"contiguous_format", "preserve_format", "channels_last",
                                        "channels_last_3d"};
    for (int32_t i = 0; i < 4; i++) {
        if (strcmp(name, names[i]) == 0) return tn_value_memory_format(i);
    }
    return tn_value_none();
}

tn_value golden_argument(const golden_file *file, tn_scope *s, const cJSON *entry)
{
    const cJSON *v;
    tn_value value = scalar(s, entry);
    if (value.tag != TN_TAG_NONE) return value;
    if (field(entry, "tensor")) return tn_value_tensor(golden_tensor(file, s, entry));
    if ((v = field(entry, "tensors"))) return tensor_list(file, s, v);
    if ((v = field(entry, "string"))) return tn_value_string(v->valuestring);
    if ((v = field(entry, "scalar_type"))) return tn_value_dtype(tn_dtype_parse(v->valuestring));
    if ((v = field(entry, "layout"))) return tn_value_layout(tn_intern(file->ctx, v->valuestring));
    if ((v = field(entry, "memory_format"))) return memory_format(v->valuestring);
    if (field(entry, "device")) return tn_value_device(file->device);
    return list_value(s, entry);
}

/* ---- comparison ---- */

static int32_t differs(golden_result *out, const char *what, const char *text)
{
    out->outcome = GOLDEN_FAILED;
    snprintf(out->reason, sizeof out->reason, "%s: %s", what, text);
    return 0;
}

static void shape_text(const int64_t *sizes, int64_t rank, char *buffer, size_t bytes)
{
    size_t used = (size_t)snprintf(buffer, bytes, "[");
    for (int64_t i = 0; i < rank && used < bytes; i++) {
        used += (size_t)snprintf(buffer + used, bytes - used, "%s%lld", i ? ", " : "", (long long)sizes[i]);
    }
    if (used < bytes) snprintf(buffer + used, bytes - used, "]");
}

static int32_t same_shape(const tn_tensor *got, const int64_t *sizes, int64_t rank, const char *what,
                          golden_result *out)
{
    char a[128], b[128], text[300];
    if (tn_tensor_rank(got) == rank && (!rank || !memcmp(tn_tensor_sizes(got), sizes, (size_t)rank * 8)))
        return 1;
    shape_text(tn_tensor_sizes(got), tn_tensor_rank(got), a, sizeof a);
    shape_text(sizes, rank, b, sizeof b);
    snprintf(text, sizeof text, "shape %s, want %s", a, b);
    return differs(out, what, text);
}

/* A difference in units of the tolerance; at most 1 is close. */
static double in_tolerances(double difference, double want, double rtol, double atol)
{
    double ratio = difference / (atol + rtol * fabs(want));
    return ratio < GOLDEN_FAR ? ratio : GOLDEN_FAR;
}

static double distance(double got, double want, double rtol, double atol)
{
    if (isnan(want) ? isnan(got) : got == want) return 0;
    return in_tolerances(fabs(got - want), want, rtol, atol);
}

static double complex_distance(const double *got, const double *want, double rtol, double atol)
{
    if (!isfinite(want[0]) || !isfinite(want[1]) || !isfinite(got[0]) || !isfinite(got[1]))
        return fmax(distance(got[0], want[0], rtol, atol), distance(got[1], want[1], rtol, atol));
    if (got[0] == want[0] && got[1] == want[1]) return 0;
    return in_tolerances(hypot(got[0] - want[0], got[1] - want[1]), hypot(want[0], want[1]), rtol, atol);
}

/* All elements as float64 or pairs of it. */
static double *as_doubles(tn_scope *s, tn_tensor *t)
{
    int64_t n = tn_tensor_numel(t);
    tn_dtype wide = tn_dtype_is_complex(tn_tensor_dtype(t)) ? TN_COMPLEX128 : TN_FLOAT64;
    double *data = tn_scope_memory(s, (uint64_t)(n + 1) * 16);
    t = tn__to_copy(s, t, .dtype = wide);
    if (!data || !t || tn_to_host(s, t, data, (uint64_t)(n * tn_dtype_bytes(wide)))) return NULL;
    return data;
}

static int32_t compare_floats(tn_scope *s, tn_tensor *got, tn_tensor *want, double rtol, double atol,
                              const char *what, golden_result *out)
{
    int64_t n = tn_tensor_numel(want), parts = tn_dtype_is_complex(tn_tensor_dtype(want)) ? 2 : 1, bad = -1,
            count = 0;
    double *g = as_doubles(s, got), *w = as_doubles(s, want), largest = 0;
    char text[300];
    if (!g || !w) return differs(out, what, tn_scope_error(s) ? tn_scope_error(s)->message : "no memory");
    for (int64_t i = 0; i < n; i++) {
        double off = parts == 2 ? complex_distance(g + 2 * i, w + 2 * i, rtol, atol)
                                : distance(g[i], w[i], rtol, atol);
        double d = parts == 2 ? hypot(g[2 * i] - w[2 * i], g[2 * i + 1] - w[2 * i + 1]) : fabs(g[i] - w[i]);
        if (off <= 1) continue;
        if (off > out->tolerances) out->tolerances = off;
        count++;
        if (bad < 0) bad = i;
        if (isfinite(d) && d > largest) largest = d;
    }
    if (bad < 0) return 1;
    out->difference = largest > out->difference ? largest : out->difference;
    if (parts == 2) {
        snprintf(text, sizeof text, "%lld of %lld differ, first at %lld: %.9g%+.9gj, want %.9g%+.9gj",
                 (long long)count, (long long)n, (long long)bad, g[2 * bad], g[2 * bad + 1], w[2 * bad],
                 w[2 * bad + 1]);
    } else {
        snprintf(text, sizeof text, "%lld of %lld differ, first at %lld: %.9g, want %.9g", (long long)count,
                 (long long)n, (long long)bad, g[bad], w[bad]);
    }
    return differs(out, what, text);
}

static int32_t compare_exact(tn_scope *s, tn_tensor *got, tn_tensor *want, const char *what,
                             golden_result *out)
{
    int64_t n = tn_tensor_numel(want), size = tn_dtype_bytes(tn_tensor_dtype(want));
    char *g = tn_scope_memory(s, (uint64_t)(n * size) + 1), *w = tn_scope_memory(s, (uint64_t)(n * size) + 1),
         text[200];
    if (!g || !w || tn_to_host(s, got, g, (uint64_t)(n * size)) ||
        tn_to_host(s, want, w, (uint64_t)(n * size))) {
        return differs(out, what, tn_scope_error(s) ? tn_scope_error(s)->message : "no memory");
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t a = 0, b = 0;
        if (!memcmp(g + i * size, w + i * size, (size_t)size)) continue;
        memcpy(&a, g + i * size, (size_t)size);
        memcpy(&b, w + i * size, (size_t)size);
        snprintf(text, sizeof text, "element %lld of %lld is 0x%llx, want 0x%llx", (long long)i, (long long)n,
                 (unsigned long long)a, (unsigned long long)b);
        return differs(out, what, text);
    }
    return 1;
}

int32_t golden_compare(const golden_file *file, tn_scope *s, tn_tensor *got, const cJSON *want, double rtol,
                       double atol, int32_t values, const char *what, golden_result *out)
{
    int64_t sizes[GOLDEN_MAX_RANK], rank = integers(field(want, "shape"), sizes);
    tn_dtype dtype = tn_dtype_parse(field(want, "dtype")->valuestring);
    golden_file on_cpu = *file;
    tn_tensor *expected;
    char text[200];
    if (tn_tensor_dtype(got) != dtype) {
        snprintf(text, sizeof text, "dtype %s, want %s", tn_dtype_name(tn_tensor_dtype(got)),
                 tn_dtype_name(dtype));
        return differs(out, what, text);
    }
    if (!same_shape(got, sizes, rank, what, out)) return 0;
    if (!values || !cJSON_IsString(field(want, "tensor"))) return 1;
    on_cpu.device = TN_CPU;
    expected = stored(&on_cpu, s, want, dtype);
    if (!expected)
        return differs(out, what, tn_scope_error(s) ? tn_scope_error(s)->message : "no expected tensor");
    if (tn_dtype_is_floating(dtype) || tn_dtype_is_complex(dtype))
        return compare_floats(s, got, expected, rtol, atol, what, out);
    return compare_exact(s, got, expected, what, out);
}
