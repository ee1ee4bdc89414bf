/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin opened without the library: cases call its slots themselves, on a separate state of the plugin,
 * with the slots of the host that a plugin needs outside of kernels.
 */
#ifndef TENON_KIT_CHECK_HAND_H
#define TENON_KIT_CHECK_HAND_H

#include "../mini_host.h"
#include "check.h"

/* The plugin, its first device and, if there is one, its second, each with a stream. */
typedef struct hand {
    mini_host mini; /* first */
    check_target *target;
    tn_plugin_table table;
    void *library, *self;
    const tn_device_interface *device;
    const tn_memory_interface *memory;
    const tn_copy_interface *copy;
    const tn_stream_interface *stream;
    const tn_event_interface *event; /* NULL: the plugin has none */
    uint32_t count;                  /* of open devices */
    void *devices[2], *streams[2];   /* a case that destroys a stream sets it to NULL */
    uint32_t n_given;
    tn_memory given[32]; /* of hand_alloc, until hand_free */
} hand;

/* Opens up to `devices` devices. 0: the case has failed; hand_close is called in either case. */
int hand_open(hand *h, check_target *t, uint32_t devices, check_result *out);
void hand_close(hand *h);
/* 1, or 0 and the case fails with what the plugin said. */
int hand_ok(hand *h, check_result *out, int32_t status, const char *what);
/* A stream of default priority. */
int32_t hand_stream(const hand *h, void *device, void **out);
/* The kind of memory that tensors of the device have, as the library decides. */
uint32_t hand_memory_kind(const hand *h);
/* Memory on device i, of that kind; NULL and the case fails. The host's address of the memory goes to *out_host (NULL: not
 * asked for). */
void *hand_alloc(hand *h, uint32_t i, uint64_t bytes, void **out_host, check_result *out);
void hand_free(hand *h, uint32_t i, void *allocation, uint64_t bytes);
/* Whether a table of any age has a slot. */
#define HAND_HAS(table, slot)                                                                    \
    ((table) && (table)->size >= offsetof(__typeof__(*(table)), slot) + sizeof((table)->slot) && \
     (table)->slot)

#endif
