/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 0, slots that no call of the library leads to in this version, but that a plugin may have: they are
 * called by hand, on a state of the plugin's own, with as much of a host as a plugin needs outside of
 * kernels.
 */
#include "sources.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/plugin.h>

/* A plugin that was opened by hand, its first device and, if there is one, its second. */
typedef struct hand {
    check_target *target;
    tn_host host;
    tn_plugin_table table;
    void *library, *self;
    const tn_device_interface *device;
    const tn_memory_interface *memory;
    const tn_copy_interface *copy;
    const tn_stream_interface *stream;
    uint32_t count; /* of open devices */
    void *devices[2], *streams[2];
    char error[256];
} hand;

/* ---- The host ---------------------------------------------------------------------------------------- */

static int32_t host_error(void *context, int32_t code, const char *message)
{
    hand *h = context;
    snprintf(h->error, sizeof h->error, "%s", message ? message : "");
    return code;
}

static int32_t host_error_native(void *context, int32_t code, const char *message, int32_t native_code,
                                 const char *native_text)
{
    hand *h = context;
    snprintf(h->error, sizeof h->error, "%s (%d: %s)", message ? message : "", native_code,
             native_text ? native_text : "");
    return code;
}

static void host_log(void *context, int32_t level, const char *text) {}

static uint32_t host_intern(void *context, const char *text)
{
    return tn_intern(((hand *)context)->target->ctx, text);
}

static const char *host_interned(void *context, uint32_t id)
{
    return tn_interned(((hand *)context)->target->ctx, id);
}

static void *host_alloc(void *context, uint64_t bytes)
{
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void host_free(void *context, void *memory, uint64_t bytes)
{
    free(memory);
}

/* What init may hand over is of no use here. */
static int32_t host_register_operator(void *context, const tn_operator_def *def)
{
    return TN_OK;
}

static int32_t host_register_kernels(void *context, const char *device_type, void *self,
                                     const tn_kernel_row *rows, uint32_t count, uint32_t row_bytes)
{
    return TN_OK;
}

static uint32_t host_find_operator(void *context, const char *name)
{
    return 0;
}

static int32_t host_report(void *context, const tn_finding *finding)
{
    return TN_OK;
}

static tn_host make_host(hand *h)
{
    return (tn_host){.size = sizeof(tn_host),
                     .abi_major = TN_ABI_MAJOR,
                     .abi_minor = TN_ABI_MINOR,
                     .context = h,
                     .error = host_error,
                     .error_native = host_error_native,
                     .log = host_log,
                     .intern = host_intern,
                     .interned = host_interned,
                     .alloc = host_alloc,
                     .free = host_free,
                     .register_operator = host_register_operator,
                     .register_kernels = host_register_kernels,
                     .find_operator = host_find_operator,
                     .report = host_report};
}

/* ---- Opening ------------------------------------------------------------------------------------------- */

/* 1, or 0 and the case fails with what the plugin said. */
static int ok(hand *h, check_result *out, int32_t status, const char *what)
{
    return check_that(out, status == TN_OK, "%s: status %d: %s", what, status, h->error);
}

static void close_hand(hand *h)
{
    for (uint32_t i = 0; i < h->count; i++) {
        h->stream->destroy(h->self, h->devices[i], h->streams[i]);
        h->device->close(h->self, h->devices[i]);
    }
    if (h->self && h->table.quiesce) h->table.quiesce(h->self);
    if (h->self) h->table.shutdown(h->self);
    if (h->library) dlclose(h->library);
}

static int open_plugin(hand *h, check_result *out)
{
    char reason[160] = "";
    const tn_host_offer offer = {.size = sizeof offer,
                                 .abi_min = TN_ABI_GENERATION,
                                 .abi_max = TN_ABI_GENERATION,
                                 .reason = reason,
                                 .reason_bytes = sizeof reason};
    h->library = dlopen(h->target->library, RTLD_NOW | RTLD_LOCAL);
    const tn_plugin_info *info = h->library ? dlsym(h->library, TN_PLUGIN_SYMBOL) : NULL;
    h->table.size = sizeof h->table;
    if (!check_that(out, info != NULL, "%s: no plugin", h->target->library)) return 0;
    if (!check_that(out, info->entry(&offer, &h->table) == TN_OK, "entry: %s", reason)) return 0;
    return ok(h, out, h->table.init(&h->host, &h->self), "init");
}

/* The plugin with up to `devices` of its devices, each with a stream. */
static int open_hand(hand *h, check_target *t, uint32_t devices, check_result *out)
{
    const char *reason = NULL;
    uint32_t count = 0;
    *h = (hand){.target = t};
    h->host = make_host(h);
    if (!open_plugin(h, out)) return 0;
    h->device = h->table.get_interface(h->self, "tenon.device", 1);
    h->memory = h->table.get_interface(h->self, "tenon.memory", 1);
    h->copy = h->table.get_interface(h->self, "tenon.copy", 1);
    h->stream = h->table.get_interface(h->self, "tenon.stream", 1);
    if (!ok(h, out, h->device->enumerate(h->self, &count, &reason), "enumerate")) return 0;
    while (h->count < devices && h->count < count) {
        uint32_t i = h->count;
        if (!ok(h, out, h->device->open(h->self, i, &h->devices[i]), "open")) return 0;
        if (!ok(h, out, h->stream->create(h->self, h->devices[i], 0, &h->streams[i]), "stream.create")) {
            h->device->close(h->self, h->devices[i]);
            return 0;
        }
        h->count++;
    }
    return 1;
}

/* ---- Bytes --------------------------------------------------------------------------------------------- */

#define BYTES 8192

/* An allocation on a device that holds `data`, or NULL. */
static void *upload(hand *h, uint32_t device, const uint8_t *data, check_result *out)
{
    uint32_t kinds = h->target->facts.memory_kinds, kind = kinds & (~kinds + 1u);
    void *allocation = NULL, *host = NULL;
    if (!ok(h, out, h->memory->alloc(h->self, h->devices[device], BYTES, kind, &allocation, &host), "alloc"))
        return NULL;
    ok(h, out,
       h->copy->host_to_device(h->self, h->devices[device], allocation, 0, data, BYTES, h->streams[device]),
       "host_to_device");
    return allocation;
}

/* Fails unless the allocation holds `want` when the stream is done. */
static void holds(hand *h, uint32_t device, void *allocation, const uint8_t *want, const char *what,
                  check_result *out)
{
    static uint8_t got[BYTES];
    void *d = h->devices[device], *stream = h->streams[device];
    memset(got, 0x11, sizeof got);
    if (!ok(h, out, h->copy->device_to_host(h->self, d, got, allocation, 0, BYTES, stream),
            "device_to_host") ||
        !ok(h, out, h->stream->synchronize(h->self, d, stream), "stream.synchronize"))
        return;
    for (int i = 0; i < BYTES; i++)
        if (!check_that(out, got[i] == want[i], "%s: byte %d is 0x%02x, expected 0x%02x", what, i, got[i],
                        want[i]))
            return;
}

static void pattern(uint8_t *data, uint32_t seed)
{
    for (uint32_t i = 0; i < BYTES; i++) data[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
}

/* ---- The cases ------------------------------------------------------------------------------------------
 */

static const struct {
    uint64_t offset, bytes;
} ranges[] = {{0, BYTES}, {0, 1}, {1, 3}, {63, 66}, {64, 4096}, {4095, 2}, {BYTES - 1, 1}};
#define RANGES (sizeof ranges / sizeof *ranges)

/* What lies before and behind stays; of a value that is no pattern of one byte, repeated, nothing is asked.
 */
static void run_fill(check_target *t, const check_case *c, check_result *out)
{
    static const uint32_t values[] = {0, 0xa5, 0xff};
    static uint8_t data[BYTES];
    hand h;
    void *x = NULL;
    pattern(data, (uint32_t)check_seed(t, c));
    if (open_hand(&h, t, 1, out)) x = upload(&h, 0, data, out);
    for (size_t i = 0; x && i < RANGES && out->outcome == CHECK_PASSED; i++) {
        char what[96];
        uint64_t offset = ranges[i].offset, bytes = ranges[i].bytes;
        snprintf(what, sizeof what, "memory.fill of %u bytes from %u on with 0x%02x", (unsigned)bytes,
                 (unsigned)offset, values[i % 3]);
        memset(data + offset, (int)values[i % 3], bytes);
        if (ok(&h, out, h.memory->fill(h.self, h.devices[0], x, offset, bytes, values[i % 3], h.streams[0]),
               what))
            holds(&h, 0, x, data, what, out);
    }
    if (x) h.memory->free(h.self, h.devices[0], x, BYTES);
    close_hand(&h);
}

/* From each of two devices to the other, on a stream of the one that is written. */
static void peer_both_ways(hand *h, void **x, uint8_t data[2][BYTES], check_result *out)
{
    for (size_t i = 0; i < 2 * RANGES && out->outcome == CHECK_PASSED; i++) {
        uint32_t to = i % 2, from = 1 - to;
        uint64_t bytes = ranges[RANGES - 1 - i / 2].bytes, at = ranges[RANGES - 1 - i / 2].offset,
                 source = BYTES - at - bytes;
        char what[96];
        snprintf(what, sizeof what, "copy.peer of %u bytes to device %u", (unsigned)bytes, to);
        memcpy(data[to] + at, data[from] + source, bytes);
        /* The source was waited for: no event orders streams of two devices here. */
        if (!ok(h, out,
                h->copy->peer(h->self, h->devices[to], x[to], at, h->devices[from], x[from], source, bytes,
                              h->streams[to]),
                what))
            return;
        holds(h, to, x[to], data[to], what, out);
        holds(h, from, x[from], data[from], "the source of copy.peer", out);
    }
}

static void run_peer(check_target *t, const check_case *c, check_result *out)
{
    static uint8_t data[2][BYTES];
    void *x[2] = {NULL, NULL};
    hand h;
    for (uint32_t i = 0; i < 2; i++) pattern(data[i], (uint32_t)check_seed(t, c) + i);
    if (!open_hand(&h, t, 2, out)) {
        close_hand(&h);
        return;
    }
    if (h.copy->size < offsetof(tn_copy_interface, peer) + sizeof h.copy->peer || !h.copy->peer)
        check_skip(out, "the plugin has no copy.peer: copies go through the host");
    else if (h.count < 2)
        check_skip(out, "one device only");
    for (uint32_t i = 0; i < h.count && out->outcome == CHECK_PASSED; i++) {
        x[i] = upload(&h, i, data[i], out);
        if (x[i]) holds(&h, i, x[i], data[i], "what was uploaded", out);
    }
    if (out->outcome == CHECK_PASSED) peer_both_ways(&h, x, data, out);
    for (uint32_t i = 0; i < h.count; i++)
        if (x[i]) h.memory->free(h.self, h.devices[i], x[i], BYTES);
    close_hand(&h);
}

static void run_self_test(check_target *t, const check_case *c, check_result *out)
{
    hand h;
    if (open_hand(&h, t, 0, out)) {
        if (h.table.self_test)
            ok(&h, out, h.table.self_test(h.self), "self_test");
        else
            check_skip(out, "the plugin has no self_test");
    }
    close_hand(&h);
}

void check_tier0_slots(check_target *t, check_list *list)
{
    check_add(list, &(check_case){.run = run_fill}, "0/slot/memory.fill");
    check_add(list, &(check_case){.run = run_peer}, "0/slot/copy.peer");
    check_add(list, &(check_case){.run = run_self_test}, "0/slot/self_test");
}
