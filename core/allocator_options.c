/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of the caching allocator, "key:value,...": TENON_ALLOC_CONF for all devices of a context, and
 * tn_memory_configure for one. Keys, meaning and limits are those of PyTorch's allocator.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/allocator.h"
#include "core/number_text.h"

#define MIB (1ull << 20)

/* What a reader is given: the value, up to `length`, and where errors come from. */
typedef struct setting {
    const char *source; /* "TENON_ALLOC_CONF" */
    const char *key;
    const char *value;
    int length;
} setting;

static int32_t refuse(const setting *s, const char *expected)
{
    return tni_error(TN_E_ARGUMENT, "%s: %s is '%.*s' (expected %s)", s->source, s->key,
                     s->length < 100 ? s->length : 100, s->value, expected);
}

/* A number that takes up the whole text. */
static int32_t read_number(const char *text, int length, double *out)
{
    char copy[32], *end;
    if (length <= 0 || length >= (int)sizeof copy) return 0;
    memcpy(copy, text, (size_t)length);
    copy[length] = 0;
    *out = tni_strtod(copy, &end);
    return end == copy + length && isfinite(*out);
}

static int32_t read_bool(const setting *s, int32_t *out)
{
    *out = s->length == 4 && !strncmp(s->value, "True", 4);
    if (*out || (s->length == 5 && !strncmp(s->value, "False", 5))) return TN_OK;
    return refuse(s, "True or False");
}

static int32_t read_max_split(const setting *s, tni_memory_options *out)
{
    double mib;
    if (!read_number(s->value, s->length, &mib) || mib != floor(mib) || mib <= 20 || mib > 1e9)
        return refuse(s, "a whole number of MiB above 20");
    out->max_split = (uint64_t)mib * MIB;
    return TN_OK;
}

static int32_t read_threshold(const setting *s, tni_memory_options *out)
{
    double x;
    if (!read_number(s->value, s->length, &x) || x <= 0 || x >= 1)
        return refuse(s, "a number between 0 and 1");
    out->collect_above = x;
    return TN_OK;
}

static int32_t read_fraction(const setting *s, tni_memory_options *out)
{
    double x;
    if (!read_number(s->value, s->length, &x) || x <= 0 || x > 1)
        return refuse(s, "a number above 0, at most 1");
    out->fraction = x;
    return TN_OK;
}

static int32_t read_no_cache(const setting *s, tni_memory_options *out)
{
    return read_bool(s, &out->no_cache);
}

static int32_t read_expandable(const setting *s, tni_memory_options *out)
{
    return read_bool(s, &out->expandable);
}

/* [TYPE=]LIBRARY:ALLOC:FREE */
static int32_t read_pluggable(const setting *s, tni_memory_options *out)
{
    static const char expected[] = "library:alloc_function:free_function, perhaps after type=";
    int colons = 0, last = -1;
    for (int i = 0; i < s->length; i++) {
        if (s->value[i] != ':') continue;
        colons++;
        if (i == last + 1) return refuse(s, expected); /* a part is empty */
        last = i;
    }
    if (colons < 2 || last == s->length - 1 || s->length > 4000) return refuse(s, expected);
    out->pluggable = s->value;
    out->pluggable_length = (uint32_t)s->length;
    return TN_OK;
}

static int32_t is_power_of_two(double x, double most)
{
    return x >= 1 && x <= most && x == floor(x) && !((uint64_t)x & ((uint64_t)x - 1));
}

#define DIVISIONS_EXPECTED \
    "a power of two, or a list such as [256:1,512:2,>:4] of sizes in MiB and powers of two"

/* "[256:1,512:2,1024:4,>:8]": 1 division below 256 MiB, 2 below 512 MiB, ..., 8 from 1 GiB on. */
static int32_t read_division_list(const setting *s, tni_memory_options *out)
{
    const char *at = s->value + 1, *end = s->value + s->length - 1;
    double before = 0;
    uint32_t n = 0;
    while (at < end) {
        const char *colon = memchr(at, ':', (size_t)(end - at));
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end;
        double size = 0, divisions;
        int32_t is_last = colon && colon == at + 1 && *at == '>';
        if (!colon || colon > stop || n == TNI_DIVISIONS || is_last != (stop == end) ||
            (!is_last &&
             (!read_number(at, (int)(colon - at), &size) || !is_power_of_two(size, 1e9) || size <= before)) ||
            !read_number(colon + 1, (int)(stop - colon - 1), &divisions) ||
            !is_power_of_two(divisions, 1 << 20))
            return refuse(s, DIVISIONS_EXPECTED);
        out->divisions[n++] =
            (tni_division){is_last ? UINT64_MAX : (uint64_t)size * MIB, (uint32_t)divisions};
        before = size;
        at = stop + 1;
    }
    out->n_divisions = n;
    return n ? TN_OK : refuse(s, DIVISIONS_EXPECTED);
}

static int32_t read_divisions(const setting *s, tni_memory_options *out)
{
    double divisions;
    out->n_divisions = 0;
    if (s->length > 2 && s->value[0] == '[' && s->value[s->length - 1] == ']')
        return read_division_list(s, out);
    if (!read_number(s->value, s->length, &divisions) || !is_power_of_two(divisions, 1 << 20))
        return refuse(s, DIVISIONS_EXPECTED);
    out->divisions[out->n_divisions++] = (tni_division){UINT64_MAX, (uint32_t)divisions};
    return TN_OK;
}

static const struct {
    const char *key;
    int32_t (*read)(const setting *s, tni_memory_options *out);
} keys[] = {{"max_split_size_mb", read_max_split},
            {"roundup_power2_divisions", read_divisions},
            {"garbage_collection_threshold", read_threshold},
            {"per_process_memory_fraction", read_fraction},
            {"expandable_segments", read_expandable},
            {"no_cache", read_no_cache},
            {"pluggable_allocator", read_pluggable}};

static int32_t read_one(const char *source, const char *key, int key_length, const char *value, int length,
                        tni_memory_options *out)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if ((int)strlen(keys[i].key) != key_length || strncmp(keys[i].key, key, (size_t)key_length)) continue;
        return keys[i].read(&(setting){source, keys[i].key, value, length}, out);
    }
    return tni_error(
        TN_E_ARGUMENT,
        "%s: unknown option '%.*s' (expected max_split_size_mb, roundup_power2_divisions, "
        "garbage_collection_threshold, per_process_memory_fraction, expandable_segments, no_cache or "
        "pluggable_allocator)",
        source, key_length < 100 ? key_length : 100, key);
}

int32_t tni_memory_options_read(const char *source, const char *text, tni_memory_options *out)
{
    while (*text) {
        size_t key_length = strcspn(text, ":,");
        if (text[key_length] != ':')
            return tni_error(TN_E_ARGUMENT, "%s: '%.*s' has no value (expected key:value,...)", source,
                             key_length < 100 ? (int)key_length : 100, text);
        const char *value = text + key_length + 1;
        size_t length = *value == '[' ? strcspn(value, "]") : 0; /* a list contains commas */
        length += strcspn(value + length, ",");
        int32_t status = read_one(source, text, (int)key_length, value, (int)length, out);
        if (status) return status;
        text = value + length + (value[length] == ',');
    }
    return TN_OK;
}

int32_t tni_memory_options_init(tn_context *ctx)
{
    const char *text = secure_getenv("TENON_ALLOC_CONF");
    if (!text || !text[0]) return TN_OK;
    ctx->memory_options = tni_alloc_zeroed(ctx, sizeof *ctx->memory_options);
    if (!ctx->memory_options || !(ctx->alloc_conf = tni_strdup(ctx, text))) return TN_E_OUT_OF_MEMORY;
    return tni_memory_options_read("TENON_ALLOC_CONF", ctx->alloc_conf, ctx->memory_options);
}

void tni_memory_options_finish(tn_context *ctx)
{
    tni_free(ctx, ctx->memory_options, sizeof *ctx->memory_options);
    if (ctx->alloc_conf) tni_free(ctx, ctx->alloc_conf, strlen(ctx->alloc_conf) + 1);
    ctx->memory_options = NULL;
    ctx->alloc_conf = NULL;
}

/* ---- What options do ----------------------------------------------------------------------------------- */

uint64_t tni_round_up(const struct tni_allocator *a, uint64_t bytes)
{
    const tni_memory_options *o = &a->options;
    uint32_t i = 0, divisions = 1;
    while (i + 1 < o->n_divisions && bytes >= o->divisions[i].below) i++;
    if (o->n_divisions) divisions = o->divisions[i].divisions;
    if (divisions > 1 && bytes > 512ull * divisions && bytes & (bytes - 1)) {
        uint64_t step = 1ull << (63 - __builtin_clzll(bytes)); /* the power of two below */
        step /= divisions;
        bytes = (bytes + step - 1) / step * step;
    }
    return (bytes + a->granule - 1) / a->granule * a->granule;
}

/* Bytes of the device that count as all, or an error. */
static int32_t whole_memory(const tni_device *d, uint64_t *out)
{
    const tni_driver *driver = &d->type->driver;
    uint64_t unused, total = 0;
    int32_t status =
        driver->memory.info ? driver->memory.info(driver->self, d->handle, &unused, &total) : TN_OK;
    if (status) return tni_driver_error(d->type, status, "memory information");
    *out = total ? total : d->facts.total_memory;
    if (*out) return TN_OK;
    return tni_error(TN_E_UNSUPPORTED,
                     "a fraction of the memory: plugin %s does not say how much its device has",
                     driver->plugin);
}

static int32_t set_fraction(struct tni_allocator *a, double fraction)
{
    uint64_t total;
    int32_t status = whole_memory(a->device, &total);
    if (status) return status;
    tni_allocator_enter(a);
    a->limit = (uint64_t)((double)total * fraction);
    tni_allocator_leave(a);
    return TN_OK;
}

int32_t tn_memory_set_fraction(tn_context *ctx, tn_device device, double fraction)
{
    tni_device *d = tni_device_get(ctx, device);
    if (!d) return tn_last_error()->code;
    if (!(fraction > 0 && fraction <= 1))
        return tni_error(TN_E_ARGUMENT,
                         "memory_set_fraction: argument 'fraction': it is outside (0, 1] (got %g)", fraction);
    return set_fraction(d->allocator, fraction);
}

int32_t tni_allocator_configure(struct tni_allocator *a, const tni_memory_options *options)
{
    int32_t status = options->no_cache ? tni_allocator_check_caching(a, "cache to switch off") : TN_OK;
    if (!status && options->fraction > 0) status = set_fraction(a, options->fraction);
    if (!status) status = tni_user_allocator_configure(a, options);
    if (status) return status;
    tni_allocator_enter(a);
    a->options = *options;
    a->options.pluggable = NULL;
    atomic_store(&a->direct, options->no_cache || a->is_watched);
    tni_cache_choose(a);
    tni_allocator_leave(a);
    return TN_OK;
}

int32_t tn_memory_configure(tn_context *ctx, tn_device device, const char *options)
{
    tni_device *d = tni_device_get(ctx, device);
    if (!d) return tn_last_error()->code;
    if (!options) return tni_error(TN_E_ARGUMENT, "memory_configure: options is NULL");
    tni_allocator_enter(d->allocator);
    tni_memory_options o = d->allocator->options;
    tni_allocator_leave(d->allocator);
    o.fraction = 0;
    int32_t status = tni_memory_options_read("memory_configure", options, &o);
    if (!status && o.expandable) status = tni_expandable_check(d->allocator);
    if (!status) status = tni_allocator_configure(d->allocator, &o);
    if (!status && o.no_cache) status = tn_memory_empty_cache(ctx, device);
    return status;
}
