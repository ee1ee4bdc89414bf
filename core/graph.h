/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs inside the library: what streams, events, the allocator and the dispatcher ask while a stream
 * captures. A stream that captures points to its graph; nothing else has to be looked at on the fast path.
 */
#ifndef TNI_CORE_GRAPH_H
#define TNI_CORE_GRAPH_H

#include <tenon/graph.h>
#include "core/device.h"

/* What a kernel asked to be kept until its work is done. */
typedef struct tni_kept {
    struct tni_kept *next;
    void *pointer;
    void (*release)(void *pointer);
    int32_t is_block; /* memory of the allocator: ordered by the stream, may go at once */
} tni_kept;

static inline int32_t tni_stream_captures(const tn_stream *stream)
{
    return atomic_load_explicit(&stream->capture, memory_order_acquire) != NULL;
}
/* Number of the capture that the stream takes part in; 0: none. Numbers are never used again in a device. */
uint64_t tni_stream_capture(const tn_stream *stream);
/* Number of the memory that the capture uses, which graphs may share; 0: the stream does not capture. */
uint64_t tni_stream_pool(const tn_stream *stream);
/* TN_OK when the stream does not capture. Else TN_E_STATE with printf's words and "... cannot be captured in
 * a graph", and the capture is invalid. */
int32_t tni_capture_refuse(tn_stream *stream, const char *format, ...) TNI_PRINTF(2, 3);
/* The operator in whose call the refusal arose that is this thread's last error. */
void tni_capture_blame(tn_context *ctx, const char *op);

/* An event is waited for and one of the two sides captures: TN_OK and *out_join (NULL: nothing to join), or
 * the refusal. The stream that joins is waited for here, and joins with tni_capture_join before the plugin knows, so that
 * no thread waits for it any more; tni_capture_leave undoes that. */
int32_t tni_capture_check_wait(tn_stream *stream, const tn_event *event, tn_graph **out_join);
int32_t tni_capture_join(tn_graph *graph, tn_stream *stream);
void tni_capture_leave(tn_graph *graph, tn_stream *stream);
/* TN_OK for an event that was not recorded in a capture; else a refusal that makes that capture invalid. */
int32_t tni_capture_check_event(const tn_event *event, const char *what);

/*
 * Random numbers of captured work: counters of `generator`, of which each replay takes others. *out_state is a tensor
 * {seed, start} that the graph writes before each launch; the work counts from start + *out_offset. NULL: the stream
 * does not capture, and nothing was taken.
 */
int32_t tni_capture_random(tn_stream *stream, tn_generator *generator, uint64_t count, uint64_t *out_offset,
                           tn_tensor **out_state);

/* Hands over what captured work needs: it is released when the graph is given back. 0: the stream does not
 * capture, and nothing has happened. */
int32_t tni_capture_keep(tn_stream *stream, tni_kept *kept);

#endif
