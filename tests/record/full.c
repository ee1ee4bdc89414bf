/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The honest device of tests/hostile with everything that a device may have besides: two of them with copies
 * between, an allocator of its own that gives parts of one slab, mappings that are copies, pinned pages, host
 * callbacks. One BROKEN_... makes one of them wrong.
 */
#include "../hostile/honest.h"

#include <stdlib.h>
#include <string.h>

#define SLAB_BYTES ((uint64_t)1 << 16)

static const void *(*rest)(void *self, const char *name, uint32_t version);
static char devices[2];

/* ---- Two devices ------------------------------------------------------------------------------------- */

static int32_t enumerate(void *self, uint32_t *out_count, const char **out_reason)
{
    *out_count = 2;
    *out_reason = NULL;
    return TN_OK;
}

static int32_t open_device(void *self, uint32_t index, const tn_device_options *options, void **out_device)
{
    *out_device = &devices[index];
    return TN_OK;
}

static int32_t peer(void *self, void *to_device, void *to, uint64_t to_offset, void *from_device, void *from,
                    uint64_t from_offset, uint64_t bytes, void *stream)
{
    if (to_device == from_device) return TN_E_CONTRACT;
#ifdef BROKEN_PEER
    bytes /= 2;
#endif
    memcpy((char *)to + to_offset, (char *)from + from_offset, bytes);
    return TN_OK;
}

/* ---- An allocator ------------------------------------------------------------------------------------ */

static char *slab;
static uint64_t used;

static int32_t part_alloc(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    uint64_t bytes = request->bytes;
    if (!slab && !(slab = aligned_alloc(64, SLAB_BYTES))) return TN_E_OUT_OF_MEMORY;
    used += 192; /* a gap, so that no offset is 0 */
    if (used + bytes > SLAB_BYTES) return TN_E_OUT_OF_MEMORY;
    out->allocation = slab;
    out->offset = used;
    out->bytes = bytes;
#ifndef BROKEN_ALLOCATOR
    used += (bytes + 63) / 64 * 64;
#else
    used -= 192;
#endif
    return TN_OK;
}

static void part_free(void *self, void *device, const tn_memory *memory, void *stream) {}

static const tn_allocator_interface allocator = {
    .size = sizeof(tn_allocator_interface), .alloc = part_alloc, .free = part_free};

static const void *get_interface(void *self, const char *name, uint32_t version)
{
    return strcmp(name, "tenon.allocator") == 0 ? &allocator : rest(self, name, version);
}

/* ---- Host memory ------------------------------------------------------------------------------------- */

/* A view is a copy that is written back, as on a device whose memory the host cannot reach. */
static struct view {
    char *host;
    char *device;
    uint64_t bytes;
} view;

static int32_t map(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                   uint32_t flags, void **out_host)
{
    char *copy = view.host ? NULL : malloc(bytes);
    if (!copy) return TN_E_OUT_OF_MEMORY;
    view = (struct view){copy, (char *)allocation + offset, bytes};
    memcpy(copy, view.device, bytes);
    *out_host = copy;
    return TN_OK;
}

static int32_t unmap(void *self, void *device, void *allocation, void *host)
{
    if (host != view.host) return TN_E_CONTRACT;
#ifndef BROKEN_UNMAP
    memcpy(view.device, view.host, view.bytes);
#endif
    free(view.host);
    view.host = NULL;
    return TN_OK;
}

static void *pinned;

static int32_t pin(void *self, void *device, void *host, uint64_t bytes, tn_memory *out)
{
    if (pinned) return TN_E_CONTRACT;
    pinned = host;
    out->kind = TN_MEMORY_HOST;
    out->host = host;
    out->bytes = bytes;
    out->state = &pinned;
    return TN_OK;
}

/* What pin gave comes back, or the next pin fails. */
static void unpin(void *self, void *device, const tn_memory *memory)
{
    if (memory->host == pinned && memory->state == &pinned) pinned = NULL;
}

static int32_t trim(void *self, void *device)
{
    return TN_OK;
}

static int32_t host_callback(void *self, void *device, void *stream, void (*callback)(void *user), void *user)
{
#ifndef BROKEN_CALLBACK
    callback(user);
#endif
    return TN_OK;
}

void lie(void)
{
    rest = the.table.get_interface;
    the.table.get_interface = get_interface;
    the.device.enumerate = enumerate;
    the.device.open = open_device;
    the.copy.peer = peer;
    the.memory.map = map;
    the.memory.unmap = unmap;
    the.memory.pin = pin;
    the.memory.unpin = unpin;
    the.memory.trim = trim;
    the.stream.host_callback = host_callback;
}
