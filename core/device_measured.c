/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measurements of devices: a file of the user's, $XDG_CACHE_HOME/tenon/devices.json or the same below
 * $HOME/.cache, which `tenon bench devices` writes:
 *
 *   {"tenon_devices": 1, "devices": [{"device": "cpu:0", "name": "...", "bandwidth": 2e10, "flops_f32": 1e11,
 *    "call": 5e-7}]}
 *
 * bandwidth in bytes and flops_f32 in operations per second, call in seconds from a small call to its result. A
 * device is compared by the time of a step that moves 1 GB, computes 100 Gflop and makes 1000 calls. An entry counts
 * only if the device has the same name as when it was measured.
 */
#include "core/device_measured.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cjson/cJSON.h>
#include "core/number_text.h"

#define STEP_BYTES 1e9
#define STEP_FLOP  1e11
#define STEP_CALLS 1e3
#define MOST_BYTES (1 << 20) /* of the file */

static int32_t find_path(char *path, size_t bytes)
{
    const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    int n = 0;
    if (cache && cache[0] == '/')
        n = snprintf(path, bytes, "%s/tenon/devices.json", cache);
    else if (home && home[0] == '/')
        n = snprintf(path, bytes, "%s/.cache/tenon/devices.json", home);
    return n > 0 && (size_t)n < bytes;
}

/* The file's text, to be freed with tni_free and MOST_BYTES; NULL and a reason. */
static char *read_file(tn_context *ctx, const char *path, char reason[TNI_MEASURED_TEXT])
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        snprintf(reason, TNI_MEASURED_TEXT,
                 errno == ENOENT ? "`tenon bench devices` has not been run"
                                 : "the measurement cannot be read: %s",
                 strerror(errno));
        return NULL;
    }
    char *text = NULL;
    if (fstat(fd, &info) || !S_ISREG(info.st_mode) || info.st_uid != geteuid() || info.st_mode & 022)
        snprintf(reason, TNI_MEASURED_TEXT, "the measurement may have been written by others: %.300s", path);
    else if (info.st_size >= MOST_BYTES)
        snprintf(reason, TNI_MEASURED_TEXT, "the measurement is too large: %.300s", path);
    else if (!(text = tni_alloc(ctx, MOST_BYTES)))
        snprintf(reason, TNI_MEASURED_TEXT, "there is no memory to read the measurement");
    ssize_t n = text ? read(fd, text, MOST_BYTES - 1) : 0;
    if (text) text[n > 0 ? n : 0] = 0;
    close(fd);
    return text;
}

/* 0 for what is not a positive number. */
static double number_of(const cJSON *item, const char *key)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(item, key);
    return cJSON_IsNumber(value) && isfinite(value->valuedouble) && value->valuedouble > 0
               ? value->valuedouble
               : 0;
}

static const char *text_of(const cJSON *item, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, key));
    return text ? text : "";
}

/* The device of an entry, without opening it; NULL if it is not there or is another one now. */
static tni_device *device_of(tn_context *ctx, const cJSON *item)
{
    char name[80];
    uint32_t types = atomic_load_explicit(&ctx->type_count, memory_order_acquire);
    for (uint32_t i = 0; i < types; i++) {
        for (uint32_t k = 0; k < ctx->types[i]->count; k++) {
            tni_device *d = &ctx->types[i]->devices[k];
            if (!strcmp(tn_device_format(ctx, d->id, name, sizeof name), text_of(item, "device")) &&
                !strcmp(d->facts.name, text_of(item, "name")))
                return d;
        }
    }
    return NULL;
}

/* Seconds of the step; 0 if the entry lacks a number. */
static double step_of(const cJSON *item)
{
    double bandwidth = number_of(item, "bandwidth"), flops = number_of(item, "flops_f32"),
           call = number_of(item, "call");
    if (bandwidth == 0 || flops == 0 || call == 0) return 0;
    return STEP_BYTES / bandwidth + STEP_FLOP / flops + STEP_CALLS * call;
}

static tni_device *fastest(tn_context *ctx, const cJSON *list, char text[TNI_MEASURED_TEXT])
{
    tni_device *best = NULL;
    double least = 0;
    char name[80];
    const cJSON *item;
    tni_device_types_enumerate(ctx);
    cJSON_ArrayForEach(item, list)
    {
        tni_device *d = device_of(ctx, item);
        double step = d ? step_of(item) : 0;
        if (step == 0 || (best && step >= least)) continue;
        best = d;
        least = step;
        tni_snprintf(text, TNI_MEASURED_TEXT,
                     "%s (%s) is the fastest as measured: %.3g GB/s, %.3g Gflop/s, %.3g us a call",
                     tn_device_format(ctx, d->id, name, sizeof name), d->facts.name,
                     number_of(item, "bandwidth") * 1e-9, number_of(item, "flops_f32") * 1e-9,
                     number_of(item, "call") * 1e6);
    }
    if (!best)
        snprintf(text, TNI_MEASURED_TEXT,
                 "no device of the measurement is here; run `tenon bench devices` again");
    return best;
}

tni_device *tni_measured_best(tn_context *ctx, char text[TNI_MEASURED_TEXT])
{
    char path[4096];
    if (!find_path(path, sizeof path)) {
        snprintf(text, TNI_MEASURED_TEXT, "neither XDG_CACHE_HOME nor HOME is set");
        return NULL;
    }
    char *json_text = read_file(ctx, path, text);
    if (!json_text) return NULL;
    locale_t before = tni_plain_locale_begin(); /* else cJSON expects the first byte of the decimal point */
    cJSON *json = cJSON_Parse(json_text);
    tni_plain_locale_end(before);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "devices");
    tni_device *best = NULL;
    if (number_of(json, "tenon_devices") == 1 && cJSON_IsArray(list))
        best = fastest(ctx, list, text);
    else
        snprintf(text, TNI_MEASURED_TEXT, "the measurement is damaged: %.300s", path);
    cJSON_Delete(json);
    tni_free(ctx, json_text, MOST_BYTES);
    return best;
}
