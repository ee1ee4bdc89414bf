/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a plugin without the library; see hand.h. */
#include "hand.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Operators and kernels that init registers are not called here. */
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

int hand_ok(hand *h, check_result *out, int32_t status, const char *what)
{
    return check_that(out, status == TN_OK, "%s: status %d: %s", what, status, h->error);
}

void hand_close(hand *h)
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
    if (!check_that(out, info != NULL, "%s: not a plugin", h->target->library)) return 0;
    if (!check_that(out, info->entry(&offer, &h->table) == TN_OK, "entry: %s", reason)) return 0;
    return hand_ok(h, out, h->table.init(&h->host, &h->self), "init");
}

int hand_open(hand *h, check_target *t, uint32_t devices, check_result *out)
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
    h->event = h->table.get_interface(h->self, "tenon.event", 1);
    if (!hand_ok(h, out, h->device->enumerate(h->self, &count, &reason), "enumerate")) return 0;
    while (h->count < devices && h->count < count) {
        uint32_t i = h->count;
        if (!hand_ok(h, out, h->device->open(h->self, i, &h->devices[i]), "open")) return 0;
        if (!hand_ok(h, out, h->stream->create(h->self, h->devices[i], 0, &h->streams[i]), "stream.create")) {
            h->device->close(h->self, h->devices[i]);
            return 0;
        }
        h->count++;
    }
    return 1;
}
