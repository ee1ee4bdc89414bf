/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which device to use, and why. Devices are ranked by class, then by their stated speed and memory, then in
 * the order in which their plugins were loaded. The rank does not depend on the vendor. Hardware that several plugins
 * offer has one place in the ranking, for the device with the most features; its other devices come last.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "core/device.h"
#include "core/device_measured.h"
#include "core/number_text.h"

#define MOST_DEVICES 256 /* more are not ranked */

static uint32_t class_rank(uint32_t device_class)
{
    switch (device_class) {
    case TN_DEVICE_DISCRETE:
    case TN_DEVICE_ACCELERATOR:
        return 0;
    case TN_DEVICE_INTEGRATED:
        return 1;
    case TN_DEVICE_HOST:
        return 2;
    case TN_DEVICE_VIRTUAL:
        return 4;
    default:
        return 3;
    }
}

static const char *class_name(uint32_t device_class)
{
    static const char *const names[] = {"host", "integrated", "discrete", "accelerator", "virtual"};
    return device_class < 5 ? names[device_class] : "unknown";
}

/* Less than 0 if a comes before b. */
static int64_t compare(const tni_device *a, const tni_device *b)
{
    const tn_device_facts *f = &a->facts, *g = &b->facts;
    uint32_t x = class_rank(f->device_class), y = class_rank(g->device_class);
    if (x != y) return (int64_t)x - y;
    if (f->flops_f32 != g->flops_f32) return f->flops_f32 > g->flops_f32 ? -1 : 1;
    if (f->bandwidth != g->bandwidth) return f->bandwidth > g->bandwidth ? -1 : 1;
    if (f->total_memory != g->total_memory) return f->total_memory > g->total_memory ? -1 : 1;
    return 0;
}

static int32_t has_uuid(const tn_device_facts *f)
{
    static const uint8_t none[sizeof f->uuid];
    return memcmp(f->uuid, none, sizeof none) != 0;
}

static int32_t is_same_hardware(const tn_device_facts *f, const tn_device_facts *g)
{
    if (has_uuid(f) && has_uuid(g)) return memcmp(f->uuid, g->uuid, sizeof f->uuid) == 0;
    return f->pci_address[0] && strncasecmp(f->pci_address, g->pci_address, sizeof f->pci_address) == 0;
}

int32_t tn_device_is_same(tn_context *ctx, tn_device a, tn_device b)
{
    tn_device_facts f = {.size = sizeof f}, g = {.size = sizeof g};
    if (tn_device_get_facts(ctx, a, &f) || tn_device_get_facts(ctx, b, &g)) return 0;
    return a == b || is_same_hardware(&f, &g);
}

/* Best first; from `distinct` on, devices whose hardware was there before. */
typedef struct ranking {
    tni_device *devices[MOST_DEVICES];
    uint32_t count, distinct;
} ranking;

static void add_in_order(ranking *r, tni_device *d)
{
    uint32_t at = r->count++;
    for (; at > 0 && compare(d, r->devices[at - 1]) < 0; at--) r->devices[at] = r->devices[at - 1];
    r->devices[at] = d;
}

/* Of two devices of one hardware; a virtual one is used only if it is named. */
static int32_t serves_better(const tni_device *a, const tni_device *b)
{
    if (a->facts.device_class == TN_DEVICE_VIRTUAL && b->facts.device_class != TN_DEVICE_VIRTUAL) return 0;
    return __builtin_popcount(a->facts.features) > __builtin_popcount(b->facts.features);
}

/* Moves the devices of hardware that has its place already behind the others. */
static void separate_twins(ranking *r)
{
    tni_device *twins[MOST_DEVICES];
    uint32_t n_twins = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        tni_device *d = r->devices[i];
        uint32_t k = 0;
        while (k < r->distinct && !is_same_hardware(&r->devices[k]->facts, &d->facts)) k++;
        if (k == r->distinct) {
            r->devices[r->distinct++] = d;
        } else if (serves_better(d, r->devices[k])) {
            twins[n_twins++] = r->devices[k];
            r->devices[k] = d;
        } else {
            twins[n_twins++] = d;
        }
    }
    memcpy(&r->devices[r->distinct], twins, n_twins * sizeof *twins);
}

static void rank_devices(tn_context *ctx, ranking *out)
{
    uint32_t types = atomic_load_explicit(&ctx->type_count, memory_order_acquire);
    out->count = out->distinct = 0;
    tni_device_types_enumerate(ctx);
    for (uint32_t i = 0; i < types; i++) {
        for (uint32_t k = 0; k < ctx->types[i]->count && out->count < MOST_DEVICES; k++)
            add_in_order(out, &ctx->types[i]->devices[k]);
    }
    separate_twins(out);
}

static int32_t count_of_type(tn_context *ctx, const char *name)
{
    uint32_t types = atomic_load_explicit(&ctx->type_count, memory_order_acquire);
    for (uint32_t i = 0; i < types; i++) {
        if (strcmp(ctx->types[i]->driver.device.type, name) != 0) continue;
        (void)tni_device_type_enumerate(ctx->types[i]);
        return (int32_t)ctx->types[i]->count;
    }
    return 0;
}

int32_t tn_device_count(tn_context *ctx, const char *type)
{
    ranking r;
    if (tni_context_check(ctx)) return 0;
    if (type) return count_of_type(ctx, type);
    rank_devices(ctx, &r);
    return (int32_t)r.distinct;
}

tn_device tn_device_at(tn_context *ctx, int32_t i)
{
    ranking r;
    if (tni_context_check(ctx)) return TN_DEVICE_MISSING;
    rank_devices(ctx, &r);
    if (i >= 0 && (uint32_t)i < r.count) return r.devices[i]->id;
    if (r.count)
        tni_error(TN_E_INDEX, "device_at: argument 'i': there is no such device (got %d, expected 0 to %u)",
                  i, r.count - 1);
    else
        tni_error(TN_E_INDEX, "device_at: argument 'i': there are no devices (got %d)", i);
    return TN_DEVICE_MISSING;
}

typedef struct reason_text {
    char text[1024];
    uint64_t length;
} reason_text;

static void add(reason_text *r, const char *format, ...) TNI_PRINTF(2, 3);
static void add(reason_text *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = tni_vsnprintf(r->text + r->length, sizeof r->text - r->length, format, args);
    va_end(args);
    if (n > 0) r->length += (uint64_t)n;
    if (r->length >= sizeof r->text) r->length = sizeof r->text - 1;
}

static void give(tn_context *ctx, const reason_text *r, const char **out)
{
    if (!out) return;
    const char *text = tn_interned(ctx, tn_intern(ctx, r->text));
    *out = text ? text : "";
}

/* Types that have no device, and why. */
static void add_absent(tn_context *ctx, reason_text *r)
{
    uint32_t types = atomic_load_explicit(&ctx->type_count, memory_order_acquire);
    for (uint32_t i = 0; i < types; i++) {
        if (!ctx->types[i]->count && ctx->types[i]->reason)
            add(r, "; %s: %s", ctx->types[i]->driver.device.type, ctx->types[i]->reason);
    }
}

/* Why there is no type at all. */
static void add_missing(tn_context *ctx, reason_text *r)
{
    char why[1100] = "";
    if (ctx->type_count || !ctx->explain_missing) return;
    ctx->explain_missing(ctx, NULL, why, sizeof why);
    add(r, "%s", why);
}

/* The other devices of the hardware of the ranking's device i. */
static void add_twins(reason_text *r, const ranking *ranked, uint32_t i)
{
    char name[80];
    for (uint32_t k = ranked->distinct; k < ranked->count; k++) {
        const tni_device *d = ranked->devices[k];
        if (is_same_hardware(&ranked->devices[i]->facts, &d->facts))
            add(r, "; it is %s, too", tn_device_format(d->ctx, d->id, name, sizeof name));
    }
}

static tn_device choose_best(tn_context *ctx, reason_text *r)
{
    ranking all;
    char name[80];
    rank_devices(ctx, &all);
    const tni_device *best = all.count ? all.devices[0] : NULL;
    if (!best || best->facts.device_class == TN_DEVICE_VIRTUAL) {
        add(r, "%s", best ? "only virtual devices are there, which must be asked for by name" : "no device");
        add_absent(ctx, r);
        if (!best) add_missing(ctx, r);
        tni_error(TN_E_DEVICE, "no device to choose: %s", r->text);
        return TN_DEVICE_MISSING | TN_DEVICE(tn_intern(ctx, "best"), -1);
    }
    add(r, "%s (%s, %s) is the best of %u by class, speed and memory",
        tn_device_format(ctx, best->id, name, sizeof name), best->facts.name,
        class_name(best->facts.device_class), all.distinct);
    add_twins(r, &all, 0);
    for (uint32_t i = 1; i < all.distinct && i < 8; i++)
        add(r, "; then %s (%s)", tn_device_format(ctx, all.devices[i]->id, name, sizeof name),
            class_name(all.devices[i]->facts.device_class));
    add_absent(ctx, r);
    return best->id;
}

/* By measurement; without one that holds, by the facts. */
static tn_device choose_measured(tn_context *ctx, reason_text *r)
{
    char text[TNI_MEASURED_TEXT];
    tni_device *d = tni_measured_best(ctx, text);
    add(r, "%s", text);
    if (d) return d->id;
    add(r, "; ");
    return choose_best(ctx, r);
}

/* ---- Hardware ------------------------------------------------------------------------------------------ */

/* 32 hexadecimal digits, among which '-' is ignored. */
static int32_t parse_uuid(const char *text, uint8_t out[16])
{
    uint32_t digits = 0;
    for (; *text; text++) {
        if (*text == '-') continue;
        if (!isxdigit((unsigned char)*text) || digits == 32) return 0;
        int digit = *text <= '9' ? *text - '0' : (*text | 32) - 'a' + 10;
        out[digits / 2] = (uint8_t)(digits % 2 ? out[digits / 2] << 4 | digit : digit);
        digits++;
    }
    return digits == 32;
}

static int32_t is_hardware(const tn_device_facts *f, const char *pci, const uint8_t uuid[16])
{
    return pci ? strncasecmp(f->pci_address, pci, sizeof f->pci_address) == 0
               : has_uuid(f) && memcmp(f->uuid, uuid, sizeof f->uuid) == 0;
}

/* Where the hardware of the ranking's device i has its place. */
static uint32_t place_of(const ranking *r, uint32_t i)
{
    uint32_t k = 0;
    while (k < i && !is_same_hardware(&r->devices[k]->facts, &r->devices[i]->facts)) k++;
    return k;
}

/* The best device with the uuid or PCI address that the wish names; the reason lists the others. */
static tn_device choose_hardware(tn_context *ctx, const char *wish, const char *who, reason_text *r)
{
    const tni_device *best = NULL;
    const char *pci = strncmp(wish, "pci:", 4) ? NULL : wish + 4;
    uint8_t uuid[16] = {0};
    char name[80];
    ranking all;
    if (pci ? !*pci : !parse_uuid(wish + 5, uuid)) {
        tni_error(TN_E_DEVICE, "device '%s', asked for by %s: expected %s", wish, who,
                  pci ? "an address such as pci:0000:65:00.0" : "uuid: and 32 hexadecimal digits");
        return TN_DEVICE_MISSING | TN_DEVICE(tn_intern(ctx, wish), -1);
    }
    rank_devices(ctx, &all);
    uint32_t at = 0;
    while (at < all.count && !is_hardware(&all.devices[at]->facts, pci, uuid)) at++;
    if (at < all.count) {
        uint32_t i = place_of(&all, at);
        best = all.devices[i];
        add(r, "%s asks for %s, which is %s (%s)", who, wish,
            tn_device_format(ctx, best->id, name, sizeof name), best->facts.name);
        add_twins(r, &all, i);
    }
    if (best && tni_device_get(ctx, best->id)) return best->id;
    if (best)
        tni_error_wrap(TN_E_DEVICE, "device '%s', asked for by %s, cannot be used: %s", wish, who,
                       tn_last_error()->message);
    else
        tni_error(TN_E_DEVICE,
                  "device '%s', asked for by %s: none of the %u devices is it (tenon devices lists them)",
                  wish, who, all.count);
    return TN_DEVICE_MISSING | TN_DEVICE(tn_intern(ctx, wish), -1);
}

static tn_device choose_named(tn_context *ctx, const char *wish, const char *who, reason_text *r)
{
    if (!strncmp(wish, "uuid:", 5) || !strncmp(wish, "pci:", 4)) return choose_hardware(ctx, wish, who, r);
    tn_device id = tn_device_parse(ctx, wish);
    if (id & TN_DEVICE_MISSING) return id;
    tni_device *d = tni_device_get(ctx, id);
    if (!d) {
        tni_error_wrap(TN_E_DEVICE, "device '%s', asked for by %s, cannot be used: %s", wish, who,
                       tn_last_error()->message);
        return id | TN_DEVICE_MISSING;
    }
    add(r, "%s asks for %s", who, wish);
    return d->id;
}

tn_device tn_device_choose(tn_context *ctx, const char *wish, const char **reason)
{
    if (tni_context_check(ctx)) return TN_DEVICE_MISSING;
    reason_text r = {.length = 0};
    const char *who = "the program";
    if (!wish || !wish[0] || !strcmp(wish, "best")) {
        wish = secure_getenv("TENON_DEVICE");
        who = "TENON_DEVICE";
    }
    tn_device device;
    if (!wish || !wish[0] || !strcmp(wish, "best"))
        device = choose_best(ctx, &r);
    else if (!strcmp(wish, "measured"))
        device = choose_measured(ctx, &r);
    else
        device = choose_named(ctx, wish, who, &r);
    if (!(device & TN_DEVICE_MISSING)) give(ctx, &r, reason);
    return device;
}
