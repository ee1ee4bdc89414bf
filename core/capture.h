/* SPDX-License-Identifier: Apache-2.0 */
/* What graph.c and capture.c share: the graph itself, and the beginning and end of a capture. */
#ifndef TNI_CORE_CAPTURE_H
#define TNI_CORE_CAPTURE_H

#include "core/handle.h"
#include "core/graph.h"

/* What one generator gives to a graph. */
typedef struct tni_graph_random {
    struct tni_graph_random *next;
    tn_generator *generator; /* a reference */
    tn_tensor *state;        /* {seed, start} in memory of the graph */
    uint64_t count;          /* counters of one launch */
} tni_graph_random;

/* Empty (no capture, no handle), capturing, or captured (a handle). */
struct tn_graph {
    tn_context *ctx;
    tni_handle_mark life;
    tni_device *device;
    pthread_mutex_t lock;        /* streams, kept; making and launching the executable */
    pthread_mutex_t text_lock;   /* text, refused_on, op; may be taken under the device's lock */
    pthread_mutex_t random_lock; /* of randoms, while capturing */
    tn_graph *next;              /* in the device's list of captures under way */
    uint64_t capture;            /* number of the capture under way, 0: none */
    uint64_t pool;               /* number of the allocator's pool, 0: none */
    tn_memory_pool *shared;      /* whose number that is; NULL: the graph's own */
    tn_stream *origin;           /* the stream it began on, first of `streams` */
    tni_vector streams;          /* tn_stream * each, with a reference */
    void *handle;                /* the plugin's graph */
    void *executable;            /* made of it; NULL until the first replay */
    tni_kept *kept;              /* what captured work needs until the graph goes */
    tni_graph_random *randoms;
    tn_event *launched;   /* recorded behind the last launch, if there are random numbers; else NULL */
    pthread_t refused_on; /* thread of the first refusal */
    char text[256];       /* the first refusal; "": the capture is valid */
    char op[96];          /* in whose call it arose, or "" */
};

int32_t tni_capture_begin(tn_graph *graph, tn_stream *stream);
/* All streams run again. graph->handle is what was captured, or stays NULL on failure. */
int32_t tni_capture_end(tn_graph *graph);

#endif
