/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: work of a device that is captured once and replayed many times, without the calls that made it. A
 * training step captured reads its inputs where they lay and leaves its results where they were written: to
 * feed it, write into the same tensors (tn_copy_), then replay.
 *
 * Where the device's plugin has no graphs, tn_graph_create says so.
 */
#ifndef TENON_GRAPH_H
#define TENON_GRAPH_H

#include <tenon/device.h>

TN_BEGIN_DECLS

#ifndef TN_PLUGIN
typedef struct tn_graph tn_graph;

/* An empty graph of a device. TN_E_UNSUPPORTED where its plugin has none. */
TN_API int32_t tn_graph_create(tn_context *ctx, tn_device device,
                               TN_OUT TN_GIVES tn_graph **out) TN_ANY_THREAD;
/*
 * Waits for the device and gives back what the graph holds; a capture under way ends. Tensors that were made
 * in the capture stay. NULL is ignored.
 */
TN_API void tn_graph_release(TN_TAKES TN_NULLABLE tn_graph *graph) TN_ANY_THREAD;

/*
 * Captures what is queued on `stream` until tn_graph_capture_end, whichever thread calls: make it current
 * first. What is captured does not run. The stream is waited for, now. Other streams of the device join the
 * capture when they wait for it (tn_stream_wait_stream, events), and `stream` must wait for them before the
 * end. Any number of graphs may be captured at once, on different streams. TN_E_STATE for a graph that is
 * captured already or has been (tn_graph_reset).
 *
 * Memory that is allocated on capturing streams comes from a pool of the graph: the caching allocator gives
 * it to nothing else as long as the graph is there, even when the tensors have been released. Tensors of
 * before that the captured work reads or writes are the program's to keep.
 *
 * What needs the host is refused with TN_E_STATE and the operator's name: reading elements (tn_item_*,
 * tn_to_host), copies from and to the host and other devices, results whose size depends on the data
 * (nonzero), operators that would run on the CPU, random numbers (each replay would give the same ones),
 * waiting for a capturing stream or its events, collectives. So is the order with streams outside. The first
 * such refusal makes the capture invalid. tn_device_synchronize is refused to all threads meanwhile, which
 * does the capture no harm.
 */
TN_API int32_t tn_graph_capture_begin(tn_graph *graph, tn_stream *stream) TN_ANY_THREAD;
/*
 * Ends the capture: all streams run again, and the graph can be replayed. Of an invalid capture nothing is
 * left: TN_E_STATE, the text has the first refusal, and the graph is empty again.
 */
TN_API int32_t tn_graph_capture_end(tn_graph *graph) TN_ANY_THREAD;
/* Queues the captured work on the device's current stream. Replays of a graph run one after the other. */
TN_API int32_t tn_graph_replay(tn_graph *graph) TN_ANY_THREAD;
/*
 * `graph` takes over what `from`, another graph of the device, was captured to do; `from` is empty
 * afterwards. Cheap where both do the same operations on other tensors and numbers and the plugin can change
 * an executable, else it is made anew.
 */
TN_API int32_t tn_graph_update(tn_graph *graph, tn_graph *from) TN_ANY_THREAD;
/* Empties a graph, so that it can be captured again: waits as tn_graph_release does. */
TN_API int32_t tn_graph_reset(tn_graph *graph) TN_ANY_THREAD;
/* 1 if the stream captures. */
TN_API int32_t tn_stream_is_capturing(const tn_stream *stream) TN_ANY_THREAD;
#endif

TN_END_DECLS
#endif
