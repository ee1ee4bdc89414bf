/* SPDX-License-Identifier: Apache-2.0 */
/* What the files share: plugin.c (device, memory, tables), queue.c (streams, events), kernels.c (kernels). */
#ifndef PLUGIN_H
#define PLUGIN_H

#define TN_PLUGIN
#include <tenon/plain_kernels.h>
#include <tenon/worker.h>

typedef struct acme_event {
    tn_worker *stream; /* NULL: never recorded */
    uint64_t number;   /* of the last work before it */
} acme_event;

/* The plugin's state in one context. There are no globals: several contexts may live at once. */
typedef struct state {
    const tn_host *host;
    pthread_mutex_t lock; /* of the events: one thread may record what another asks */
    tn_worker_team team;  /* the streams of the device; several devices have one each */
} state;

extern const tn_dtype acme_dtypes[]; /* 0 ends them */
extern const tn_kernels_interface acme_kernels;
extern const tn_stream_interface acme_streams;
extern const tn_event_interface acme_events;

/* The device's own address of a byte; the host has the handle only. */
void *acme_address(void *allocation, uint64_t offset);
/* Queues a copy of the call: what every row runs. */
int32_t acme_enqueue(void *self, const tn_call *call);
int32_t acme_synchronize(void *self, void *device);

/* A row of kernels.c: schema, dtypes, flags, opcode, and a function that the stream's thread calls. */
#define ROW(...) TN_PLAIN_ROW_LATER(acme_enqueue, acme_can_run, __VA_ARGS__)

#endif
