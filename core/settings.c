/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of devices: the plugin describes and keeps them, here names are looked up and values checked, so that a
 * plugin sees right ones only. TENON_SETTINGS is read when a device is opened.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/device.h"
#include "core/number_text.h"
#include "core/similar/similar_name.h"
#include "core/text.h"

#define MOST_SETTINGS 256u /* a plugin that describes more is wrong */
#define NAME_BYTES    64

static const tn_settings_interface *slots(const tni_device *d)
{
    return d->type->driver.settings.size ? &d->type->driver.settings : NULL;
}

/* ---- Descriptions -------------------------------------------------------------------------------------- */

static int32_t is_type(uint32_t tag)
{
    return tag == TN_TAG_BOOL || tag == TN_TAG_INT || tag == TN_TAG_FLOAT || tag == TN_TAG_STRING;
}

/* Setting i. TN_E_INDEX without an error: there are no more. */
static int32_t describe(const tni_device *d, uint32_t i, tn_setting *out)
{
    *out = (tn_setting){.size = sizeof *out};
    if (!slots(d) || i == MOST_SETTINGS) return TN_E_INDEX;
    int32_t status = slots(d)->describe(d->type->driver.self, d->handle, i, out);
    if (status == TN_E_INDEX) return status;
    if (status) return tni_driver_error(d->type, status, "describing a setting");
    if (out->name && out->name[0] && strlen(out->name) < NAME_BYTES && !strpbrk(out->name, ".=;:") &&
        out->meaning && is_type(out->default_value.tag))
        return TN_OK;
    return tni_error(TN_E_CONTRACT, "plugin %s: settings.describe: setting %u has no name, meaning or type",
                     d->type->driver.plugin, i);
}

static int32_t unknown(const tni_device *d, const char *name)
{
    char device[64], best[NAME_BYTES], text[SIMILAR_NAME_BYTES + 32];
    similar_name similar = similar_name_begin(name);
    tn_setting s;
    for (uint32_t i = 0; !describe(d, i, &s); i++) {
        if (!similar_name_try(&similar, s.name)) continue;
        snprintf(best, sizeof best, "%s", s.name);
        similar.best = best;
    }
    tn_clear_error();
    return tni_error(TN_E_NOT_FOUND, "device %s: there is no setting '%s'%s",
                     tn_device_format(d->ctx, d->id, device, sizeof device), name,
                     similar_name_text(&similar, text));
}

static int32_t find(const tni_device *d, const char *name, uint32_t *out_i, tn_setting *out)
{
    int32_t status = TN_OK;
    for (uint32_t i = 0; !status; i++) {
        status = describe(d, i, out);
        if (status || strcmp(out->name, name) != 0) continue;
        *out_i = i;
        return TN_OK;
    }
    return status == TN_E_INDEX ? unknown(d, name) : status;
}

/* ---- Values -------------------------------------------------------------------------------------------- */

/* How a value is written in TENON_SETTINGS and in errors. */
static const char *value_text(tn_value v, char *buffer, uint64_t bytes)
{
    if (v.tag == TN_TAG_STRING)
        snprintf(buffer, bytes, "'%s'", v.as.string);
    else if (v.tag == TN_TAG_FLOAT)
        tni_snprintf(buffer, bytes, "%g", v.as.f);
    else if (v.tag == TN_TAG_BOOL || v.tag == TN_TAG_INT)
        snprintf(buffer, bytes, "%lld", (long long)v.as.i);
    else
        snprintf(buffer, bytes, "a value of tag %u", v.tag);
    return buffer;
}

static int32_t is_choice(const char *choices, const char *text)
{
    uint64_t length = strlen(text);
    for (const char *c = choices; length && c; c = strchr(c, ',') ? strchr(c, ',') + 1 : NULL)
        if (strncmp(c, text, length) == 0 && (c[length] == ',' || !c[length])) return 1;
    return 0;
}

static int32_t is_allowed(const tn_setting *s, tn_value v)
{
    switch (v.tag) {
    case TN_TAG_STRING:
        return s->choices ? is_choice(s->choices, v.as.string) : !strchr(v.as.string, ';');
    case TN_TAG_INT:
        return (s->minimum.tag == TN_TAG_NONE || v.as.i >= tn_value_as_int(s->minimum)) &&
               (s->maximum.tag == TN_TAG_NONE || v.as.i <= tn_value_as_int(s->maximum));
    case TN_TAG_FLOAT:
        return (s->minimum.tag == TN_TAG_NONE || v.as.f >= tn_value_as_float(s->minimum)) &&
               (s->maximum.tag == TN_TAG_NONE || v.as.f <= tn_value_as_float(s->maximum));
    default:
        return v.as.i == 0 || v.as.i == 1;
    }
}

static const char *expected(const tn_setting *s, char *buffer, uint64_t bytes)
{
    static const char *const types[] = {"an int", "a float", "0 or 1"}; /* from TN_TAG_INT on */
    char low[40], high[40];
    uint32_t tag = s->default_value.tag;
    if (tag == TN_TAG_STRING)
        snprintf(buffer, bytes, "%s%s", s->choices ? "one of " : "a text without ';'",
                 s->choices ? s->choices : "");
    else
        snprintf(buffer, bytes, "%s%s%s%s%s", types[tag - TN_TAG_INT], s->minimum.tag ? " from " : "",
                 s->minimum.tag ? value_text(s->minimum, low, sizeof low) : "", s->maximum.tag ? " to " : "",
                 s->maximum.tag ? value_text(s->maximum, high, sizeof high) : "");
    return buffer;
}

static int32_t refuse(const tni_device *d, const tn_setting *s, const char *got)
{
    char device[64], text[512];
    return tni_error(TN_E_ARGUMENT, "device %s: setting '%s': wrong value (got %s, expected %s)",
                     tn_device_format(d->ctx, d->id, device, sizeof device), s->name, got,
                     expected(s, text, sizeof text));
}

static int32_t set_checked(const tni_device *d, uint32_t i, const tn_setting *s, tn_value v)
{
    char got[160], device[64];
    if (s->default_value.tag == TN_TAG_FLOAT && v.tag == TN_TAG_INT) v = tn_value_float((double)v.as.i);
    if (v.tag == TN_TAG_STRING && !v.as.string) v.as.string = "";
    if (s->flags & TN_SETTING_READ_ONLY)
        return tni_error(TN_E_ARGUMENT, "device %s: setting '%s' is read-only",
                         tn_device_format(d->ctx, d->id, device, sizeof device), s->name);
    if (v.tag != s->default_value.tag || !is_allowed(s, v))
        return refuse(d, s, value_text(v, got, sizeof got));
    int32_t status = slots(d)->set(d->type->driver.self, d->handle, i, &v);
    return status ? tni_driver_error(d->type, status, "changing a setting") : TN_OK;
}

/* ---- TENON_SETTINGS ------------------------------------------------------------------------------------ */

static tn_value value_of_text(uint32_t tag, const char *text)
{
    char *end = NULL;
    tn_value v = tag == TN_TAG_STRING  ? tn_value_string(text)
                 : tag == TN_TAG_FLOAT ? tn_value_float(tni_strtod(text, &end))
                                       : tn_value_int(strtoll(text, &end, 10));
    if (tag == TN_TAG_BOOL) v.tag = TN_TAG_BOOL;
    return end && (*end || end == text) ? tn_value_none() : v;
}

/* `item` is "reference:1.poison=0"; 1 if it is for the device. */
static int32_t split_item(const tni_device *d, char *item, char **out_name, char **out_value)
{
    char device[64];
    char *value = strchr(item, '='), *name = NULL;
    if (value) {
        *value++ = 0;
        name = strchr(item, '.');
    }
    if (!name) return 0;
    *name++ = 0;
    *out_name = name;
    *out_value = value;
    snprintf(device, sizeof device, "%s:%d", d->type->driver.device.type, TN_DEVICE_INDEX(d->id));
    return !strcmp(item, d->type->driver.device.type) || !strcmp(item, device);
}

static int32_t apply_item(const tni_device *d, char *item)
{
    char *name, *text;
    tn_setting s;
    uint32_t i;
    if (!split_item(d, item, &name, &text)) return TN_OK;
    int32_t status = find(d, name, &i, &s);
    if (status) return status;
    tn_value v = value_of_text(s.default_value.tag, text);
    return v.tag == TN_TAG_NONE && s.default_value.tag != TN_TAG_STRING ? refuse(d, &s, text)
                                                                        : set_checked(d, i, &s, v);
}

int32_t tni_settings_apply(const tni_device *d)
{
    const char *all = secure_getenv("TENON_SETTINGS");
    int32_t status = TN_OK;
    if (!all || !all[0]) return TN_OK;
    char *copy = tni_strdup(d->ctx, all), *rest = copy;
    if (!copy) return TN_E_OUT_OF_MEMORY;
    pthread_mutex_lock(&d->type->collectives);
    for (char *item = strsep(&rest, ";"); item && !status; item = strsep(&rest, ";"))
        status = apply_item(d, item);
    pthread_mutex_unlock(&d->type->collectives);
    tni_free(d->ctx, copy, strlen(all) + 1);
    if (!status) return TN_OK;
    return tni_error_wrap(status, "TENON_SETTINGS: %s", tn_last_error()->message);
}

/* ---- Public -------------------------------------------------------------------------------------------- */

/* A text of the plugin's, kept by the context. */
static int32_t keep(tn_context *ctx, const char **text)
{
    uint32_t id = *text ? tn_intern(ctx, *text) : 0;
    if (!*text) return TN_OK;
    *text = id ? tn_interned(ctx, id) : NULL;
    return id ? TN_OK : TN_E_OUT_OF_MEMORY;
}

static int32_t keep_value(tn_context *ctx, tn_value *v)
{
    return v->tag == TN_TAG_STRING ? keep(ctx, &v->as.string) : TN_OK;
}

int32_t tn_device_setting(tn_context *ctx, tn_device device, uint32_t i, tn_setting *out)
{
    const tni_device *d = tni_device_get(ctx, device);
    tn_setting s;
    if (!d) return tn_last_error()->code;
    pthread_mutex_lock(&d->type->collectives);
    int32_t status = describe(d, i, &s);
    if (!status) status = keep(ctx, &s.name);
    if (!status) status = keep(ctx, &s.meaning);
    if (!status) status = keep(ctx, &s.choices);
    if (!status) status = keep_value(ctx, &s.default_value);
    pthread_mutex_unlock(&d->type->collectives);
    if (status == TN_E_INDEX) return tni_error(status, "tn_device_setting: the device has no setting %u", i);
    return status ? status : tni_struct_write(out, &s, sizeof s, "tn_setting");
}

int32_t tn_device_get_setting(tn_context *ctx, tn_device device, const char *name, tn_value *out)
{
    const tni_device *d = tni_device_get(ctx, device);
    tn_value v = tn_value_none();
    tn_setting s;
    uint32_t i;
    if (!d) return tn_last_error()->code;
    pthread_mutex_lock(&d->type->collectives);
    int32_t status = find(d, name ? name : "", &i, &s);
    if (!status && (status = slots(d)->get(d->type->driver.self, d->handle, i, &v)))
        status = tni_driver_error(d->type, status, "reading a setting");
    if (!status && v.tag != s.default_value.tag)
        status = tni_error(TN_E_CONTRACT,
                           "plugin %s: settings.get: '%s' has a value of another type than its default",
                           d->type->driver.plugin, s.name);
    if (!status) status = keep_value(ctx, &v);
    pthread_mutex_unlock(&d->type->collectives);
    if (!status) *out = v;
    return status;
}

int32_t tn_device_set_setting(tn_context *ctx, tn_device device, const char *name, tn_value value)
{
    const tni_device *d = tni_device_get(ctx, device);
    tn_setting s;
    uint32_t i;
    if (!d) return tn_last_error()->code;
    pthread_mutex_lock(&d->type->collectives);
    int32_t status = find(d, name ? name : "", &i, &s);
    if (!status) status = set_checked(d, i, &s, value);
    pthread_mutex_unlock(&d->type->collectives);
    return status;
}
