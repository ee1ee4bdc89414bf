/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a plugin without the library; see hand.h. */
#include "hand.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Opening ------------------------------------------------------------------------------------------- */

int hand_ok(hand *h, check_result *out, int32_t status, const char *what)
{
    return check_that(out, status == TN_OK, "%s: status %d (%s): %s", what, status, tn_status_text(status),
                      mini_host_error);
}

int32_t hand_stream(const hand *h, void *device, void **out)
{
    const tn_stream_options options = {.size = sizeof options};
    return h->stream->create(h->self, device, &options, out);
}

void hand_close(hand *h)
{
    for (uint32_t i = 0; i < h->count; i++) {
        if (h->streams[i]) h->stream->destroy(h->self, h->devices[i], h->streams[i]);
        h->device->close(h->self, h->devices[i]);
    }
    if (h->self && h->table.quiesce) h->table.quiesce(h->self);
    if (h->self) h->table.shutdown(h->self);
    if (h->library) dlclose(h->library);
}

uint32_t hand_memory_kind(const hand *h)
{
    uint32_t kinds = h->target->facts.memory_kinds;
    if (h->target->facts.device_class == TN_DEVICE_INTEGRATED && kinds & TN_MEMORY_UNIFIED)
        return TN_MEMORY_UNIFIED;
    return kinds & (~kinds + 1u);
}

void *hand_alloc(hand *h, uint32_t i, uint64_t bytes, void **out_host, check_result *out)
{
    const tn_memory_request request = {.size = sizeof request, .kind = hand_memory_kind(h), .bytes = bytes};
    tn_memory memory = {.size = sizeof memory};
    if (!check_that(out, h->n_given < sizeof h->given / sizeof *h->given,
                    "the case asks for too much memory") ||
        !hand_ok(h, out, h->memory->alloc(h->self, h->devices[i], &request, &memory), "memory.alloc"))
        return NULL;
    h->given[h->n_given++] = memory;
    if (memory.offset) check_skip(out, "memory begins inside an allocation, which this case does not expect");
    if (out_host) *out_host = memory.host;
    return memory.allocation;
}

void hand_free(hand *h, uint32_t i, void *allocation, uint64_t bytes)
{
    uint32_t k = 0;
    while (k < h->n_given && h->given[k].allocation != allocation) k++;
    if (!allocation || k == h->n_given) return;
    h->memory->free(h->self, h->devices[i], &h->given[k]);
    h->given[k] = h->given[--h->n_given];
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
    return hand_ok(h, out, h->table.init(&h->mini.host, &h->self), "init");
}

int hand_open(hand *h, check_target *t, uint32_t devices, check_result *out)
{
    const char *reason = NULL;
    uint32_t count = 0;
    *h = (hand){.target = t};
    mini_host_init(&h->mini);
    if (!open_plugin(h, out)) return 0;
    h->device = h->table.get_interface(h->self, "tenon.device", 1);
    h->memory = h->table.get_interface(h->self, "tenon.memory", 1);
    h->copy = h->table.get_interface(h->self, "tenon.copy", 1);
    h->stream = h->table.get_interface(h->self, "tenon.stream", 1);
    h->event = h->table.get_interface(h->self, "tenon.event", 1);
    if (!hand_ok(h, out, h->device->enumerate(h->self, &count, &reason), "enumerate")) return 0;
    while (h->count < devices && h->count < count) {
        uint32_t i = h->count;
        const tn_device_options options = {.size = sizeof options};
        if (!hand_ok(h, out, h->device->open(h->self, i, &options, &h->devices[i]), "open")) return 0;
        if (!hand_ok(h, out, hand_stream(h, h->devices[i], &h->streams[i]), "stream.create")) {
            h->device->close(h->self, h->devices[i]);
            return 0;
        }
        h->count++;
    }
    return 1;
}
