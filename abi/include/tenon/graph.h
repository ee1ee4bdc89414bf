/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: work of a device that is captured once and replayed many times, without the calls that queued it.
 * A replay reads its inputs from the memory they had during the capture, and writes its results where the
 * capture did: to feed it, write into the same tensors (tn_copy_), then replay.
 */
#ifndef TENON_GRAPH_H
#define TENON_GRAPH_H

#include <tenon/device.h>

TN_BEGIN_DECLS

#ifndef TN_PLUGIN
typedef struct tn_graph tn_graph;

/* Makes an empty graph of a device. TN_E_UNSUPPORTED if its plugin has no graphs. */
TN_API int32_t tn_graph_create(tn_context *ctx, tn_device device,
                               TN_OUT TN_GIVES tn_graph **out) TN_ANY_THREAD;
/*
 * Waits for the device and releases what the graph holds. A capture in progress ends. Tensors that were made
 * during the capture stay valid. NULL is ignored.
 */
TN_API void tn_graph_release(TN_TAKES TN_NULLABLE tn_graph *graph) TN_ANY_THREAD;

/*
 * Waits for `stream`, and until no other thread waits for the whole device. Then captures all work that any thread
 * queues on `stream` until tn_graph_capture_end, instead of running it. Make the stream current before you call
 * operators. Another stream of the device joins the capture when it waits for a capturing stream
 * (tn_stream_wait_stream, events); `stream` must wait for all that joined before the end. Several captures may run at
 * once, on different streams. TN_E_STATE if the graph is being captured or is captured (see tn_graph_reset).
 *
 * Memory that is allocated on capturing streams comes from a pool of the graph. The caching allocator does
 * not reuse it while the graph exists, even after its tensors are released. The program must keep older
 * tensors that the captured work reads or writes.
 *
 * Work that needs the host is refused with TN_E_STATE and the operator's name. That is reading elements (tn_item_*,
 * tn_to_host), copies between host and device or between devices, and results whose size depends on the data (nonzero).
 * So are operators that would run on the CPU, as random numbers do on devices whose kernels cannot draw others in each
 * replay. So are collectives, and waiting for a capturing stream, its events, or streams outside the capture. The first
 * such refusal makes the capture invalid. tn_device_synchronize is refused on all threads during a capture; this does
 * not make the capture invalid.
 */
TN_API int32_t tn_graph_capture_begin(tn_graph *graph, tn_stream *stream) TN_ANY_THREAD;
/*
 * The next captures of the graph take their memory from a pool of its device, which other graphs may share: a graph
 * uses again what tensors of an earlier capture have released. Such graphs must be replayed in the order in which they
 * were captured, one after the other, and what one of them gives is used before the next replay of another. Several
 * parts of a step can be graphs of one pool, with work that is not captured between them. NULL: a pool of its own.
 * TN_E_STATE during a capture, and for a graph that has been captured.
 */
TN_API int32_t tn_graph_set_pool(tn_graph *graph, TN_NULLABLE tn_memory_pool *pool) TN_ANY_THREAD;
/*
 * Ends the capture: all its streams run work again, and the graph can be replayed. After an invalid capture:
 * TN_E_STATE with the text of the first refusal, and the graph is empty again.
 */
TN_API int32_t tn_graph_capture_end(tn_graph *graph) TN_ANY_THREAD;
/* Queues the captured work on the device's current stream. Replays of a graph run one after the other. */
TN_API int32_t tn_graph_replay(tn_graph *graph) TN_ANY_THREAD;
/*
 * Moves the captured work of `from`, another graph of the device, to `graph`; `from` is empty afterwards.
 * Cheap if both have the same operations on other tensors and scalars and the plugin can change an
 * executable; otherwise the executable is made again.
 */
TN_API int32_t tn_graph_update(tn_graph *graph, tn_graph *from) TN_ANY_THREAD;
/* Waits for the device and empties the graph, so that it can be captured again. */
TN_API int32_t tn_graph_reset(tn_graph *graph) TN_ANY_THREAD;
/* 1 if the stream is capturing. */
TN_API int32_t tn_stream_is_capturing(const tn_stream *stream) TN_ANY_THREAD;
#endif

TN_END_DECLS
#endif
