/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small device that tells the truth, and what a liar may change of it: each file of liars/ defines `lie`,
 * which is called once, before any table is handed out. The device is host memory in disguise with a page
 * without access behind each allocation; it adds float32 tensors, fills and copies nothing, so all else runs
 * on the CPU.
 */
#ifndef TESTS_HOSTILE_HONEST_H
#define TESTS_HOSTILE_HONEST_H

#define TN_PLUGIN
#include <tenon/plugin.h>

#define HONEST_ROWS 4

typedef struct honest {
    const tn_host *host;
    tn_plugin_table table; /* the slots that entry gives */
    tn_device_interface device;
    tn_memory_interface memory;
    tn_copy_interface copy;
    tn_stream_interface stream;
    tn_event_interface event;
    tn_kernels_interface kernels;
    tn_kernel_row rows[HONEST_ROWS];
} honest;

extern honest the;
/* The lie of the file. Slots that it replaces may call those that were there. */
void lie(void);

/* What the honest device does, for liars that do it first. */
int32_t honest_init(const tn_host *host, void **out_self);
int32_t honest_facts(void *self, uint32_t index, tn_device_facts *out);
int32_t honest_alloc(void *self, void *device, const tn_memory_request *request, tn_memory *out);
int32_t honest_add(void *self, const tn_call *call);

#endif
