/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the null plugin share: its state, streams and events, and work that may be captured. */
#ifndef NULL_H
#define NULL_H

#define TN_PLUGIN
#include <pthread.h>
#include <stdatomic.h>
#include <tenon/plugin.h>

#define MAX_DEVICES  8
#define MAX_BRANCHES 8 /* streams of one capture */

typedef struct null_plugin {
    const tn_host *host;
    uint32_t n_devices;
    uint32_t devices[MAX_DEVICES]; /* the address of an item is the handle of a device */
    pthread_mutex_t lock;          /* of all graphs, and of what streams and events hold of them */
    atomic_int fresh;              /* the setting */
} null_plugin;

/* How much of each branch of a capture lies before a place. */
typedef struct null_place {
    uint32_t at[MAX_BRANCHES];
} null_place;

typedef struct null_graph null_graph;

/* Work on it is done at once, unless it captures. */
typedef struct null_stream {
    null_graph *graph; /* that it captures or has captured into, or NULL */
    uint32_t branch;
} null_stream;

/* Always done. What it marks is a place in a capture, if it was recorded in one. */
typedef struct null_event {
    null_graph *graph;
    null_place place;
    double ms; /* when it was recorded, by the host's clock */
} null_event;

/* Copies `bytes` bytes, or with `from` NULL sets each to `value`. */
typedef struct null_operation {
    void *to;
    const void *from;
    uint64_t bytes;
    uint32_t value;
} null_operation;

/* Does it, or adds it to what the stream captures. */
int32_t null_run(null_plugin *p, null_stream *stream, null_operation operation);
/* The event marks where the stream is; the stream waits for what the event marks, which may join it to a
 * capture. */
void null_mark(null_plugin *p, null_event *event, null_stream *stream);
int32_t null_wait(null_plugin *p, null_stream *stream, null_event *event);
/* Lets go of a graph, which may be NULL. */
void null_forget(null_plugin *p, null_graph *graph);

extern const tn_graph_interface null_graph_interface;
extern const tn_collectives_interface null_collectives_interface;
extern const tn_settings_interface null_settings_interface;
extern const tn_interop_interface null_interop_interface;

/* Records the error and returns the status. */
static inline int32_t fail(const null_plugin *p, int32_t status, const char *message)
{
    return p->host->error(p->host->context, status, message);
}

#endif
