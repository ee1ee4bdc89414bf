/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of a device whose memory is the host's and whose work is done when a call returns, for the plugins of
 * tests: each of them writes only the slots that it is about.
 */
#ifndef TENON_TESTS_PLUGINS_HOST_SLOTS_H
#define TENON_TESTS_PLUGINS_HOST_SLOTS_H

#ifndef TN_PLUGIN
#define TN_PLUGIN
#endif
#include <tenon/plugin.h>

#include <string.h>

static inline int32_t host_enumerate_one(void *self, uint32_t *out_count, const char **out_reason)
{
    (void)self;
    *out_count = 1;
    *out_reason = NULL;
    return TN_OK;
}

/* Facts that the devices of tests share, for an initialiser of tn_device_facts; others may follow. */
#define HOST_FACTS(out, kinds, types, text)                                                         \
    .size = (out)->size, .device_class = TN_DEVICE_VIRTUAL, .memory_kinds = kinds, .alignment = 64, \
    .dtypes = types, .name = text

/* As many bytes of `facts` as the host knows. */
static inline int32_t host_facts(const tn_device_facts *facts, tn_device_facts *out)
{
    uint32_t size = out->size;
    memcpy(out, facts, size < sizeof *facts ? size : sizeof *facts);
    out->size = size;
    return TN_OK;
}

static inline int32_t host_fill(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                                uint32_t value, void *stream)
{
    (void)self, (void)device, (void)stream;
    memset((char *)allocation + offset, (int)value, (size_t)bytes);
    return TN_OK;
}

static inline int32_t host_info_unknown(void *self, void *device, uint64_t *out_free, uint64_t *out_total)
{
    (void)self, (void)device;
    *out_free = *out_total = 0;
    return TN_OK;
}

static inline int32_t host_to_device(void *self, void *device, void *allocation, uint64_t offset,
                                     const void *host, const tn_memory *pinned, uint64_t bytes, void *stream)
{
    (void)self, (void)device, (void)pinned, (void)stream;
    memcpy((char *)allocation + offset, host, (size_t)bytes);
    return TN_OK;
}

static inline int32_t host_from_device(void *self, void *device, void *host, const tn_memory *pinned,
                                       void *allocation, uint64_t offset, uint64_t bytes, void *stream)
{
    (void)self, (void)device, (void)pinned, (void)stream;
    memcpy(host, (const char *)allocation + offset, (size_t)bytes);
    return TN_OK;
}

static inline int32_t host_within_device(void *self, void *device, void *to, uint64_t to_offset, void *from,
                                         uint64_t from_offset, uint64_t bytes, void *stream)
{
    (void)self, (void)device, (void)stream;
    memcpy((char *)to + to_offset, (const char *)from + from_offset, (size_t)bytes);
    return TN_OK;
}

#define HOST_COPY_SLOTS                                                   \
    .host_to_device = host_to_device, .device_to_host = host_from_device, \
    .device_to_device = host_within_device

/* close of a device; destroy of a stream or an event; synchronize of each: there is nothing to do. */
static inline void host_close(void *self, void *device)
{
    (void)self, (void)device;
}

static inline void host_destroy(void *self, void *device, void *object)
{
    (void)self, (void)device, (void)object;
}

static inline int32_t host_device_done(void *self, void *device)
{
    (void)self, (void)device;
    return TN_OK;
}

static inline int32_t host_done(void *self, void *device, void *object)
{
    (void)self, (void)device, (void)object;
    return TN_OK;
}

static inline int32_t host_query_done(void *self, void *device, void *object, int32_t *out_done)
{
    (void)self, (void)device, (void)object;
    *out_done = 1;
    return TN_OK;
}

/* record of an event, wait_event of a stream: all work before is done. */
static inline int32_t host_order(void *self, void *device, void *a, void *b)
{
    (void)self, (void)device, (void)a, (void)b;
    return TN_OK;
}

/* The tables of such a device without their sizes: a plugin names what makes or fills objects, and what is its own. */
#define HOST_DEVICE_SLOTS(name, enumerate_slot, facts_slot, open_slot, synchronize_slot)                    \
    .type = name, .enumerate = enumerate_slot, .facts = facts_slot, .open = open_slot, .close = host_close, \
    .synchronize = synchronize_slot
#define HOST_MEMORY_SLOTS(alloc_slot, free_slot, fill_slot, info_slot) \
    .alloc = alloc_slot, .free = free_slot, .fill = fill_slot, .info = info_slot
#define HOST_STREAM_SLOTS .destroy = host_destroy, .query = host_query_done, .synchronize = host_done
#define HOST_EVENT_SLOTS  HOST_STREAM_SLOTS, .record = host_order

static inline void host_no_shutdown(void *self)
{
    (void)self;
}

/* The entry of a plugin that keeps nothing to shut down. */
static inline int32_t host_entry(const tn_host_offer *offer, tn_plugin_table *out,
                                 int32_t (*init)(const tn_host *host, void **out_self),
                                 const void *(*get_interface)(void *self, const char *name, uint32_t version))
{
    const tn_plugin_table slots = {
        .init = init, .get_interface = get_interface, .shutdown = host_no_shutdown};
    return tn_negotiate_slots(offer, out, &slots);
}

#endif
