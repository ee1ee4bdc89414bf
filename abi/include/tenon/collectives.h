/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives: reductions, copies and barriers over several devices of one type, one rank for each device, in one
 * process or in several. They are queued on the devices' current streams, in order with the work before and after them
 * there; the host does not wait.
 */
#ifndef TENON_COLLECTIVES_H
#define TENON_COLLECTIVES_H

#include <tenon/tensor.h>

TN_BEGIN_DECLS

/* Reductions. Integers wrap. Of bools SUM and MAX are "any", PRODUCT and MIN are "all". MIN and MAX refuse
 * complex dtypes; AVERAGE, the sum divided by the number of ranks, takes floating and complex dtypes only.
 * If a NaN is among the elements, SUM, PRODUCT and AVERAGE are NaN; MIN and MAX may be any of the
 * elements. */
#define TN_REDUCE_SUM     0u
#define TN_REDUCE_PRODUCT 1u
#define TN_REDUCE_MIN     2u
#define TN_REDUCE_MAX     3u
#define TN_REDUCE_AVERAGE 4u

#ifndef TN_PLUGIN
typedef struct tn_communicator tn_communicator;

/*
 * Makes a communicator of 1 to 64 different devices of one type; device i is rank i. TN_E_UNSUPPORTED if
 * their plugin has no collectives. The communicator keeps the context alive.
 */
TN_API int32_t tn_communicator_create(tn_context *ctx, const tn_device *devices, uint32_t count,
                                      TN_OUT TN_GIVES tn_communicator **out) TN_ANY_THREAD;
/*
 * The same over several processes. One process asks for an id with tn_communicator_unique_id and hands it to the
 * others; each then calls this with its own devices. `world` ranks take part; this process has `count` of them,
 * from `first_rank` on. May wait until all have come. TN_E_UNSUPPORTED if the plugin works in one process only.
 */
typedef struct tn_communicator_group {
    uint32_t size;
    uint32_t count;
    uint32_t first_rank;
    uint32_t world;
    const tn_device *devices;
    const void *id;
    uint64_t id_bytes;
} tn_communicator_group;
TN_API int32_t tn_communicator_join(tn_context *ctx, const tn_communicator_group *group,
                                    TN_OUT TN_GIVES tn_communicator **out) TN_ANY_THREAD;
/* Writes an id of at most `room` bytes, and how many it has, for devices of the type of `device`. */
TN_API int32_t tn_communicator_unique_id(tn_context *ctx, tn_device device, TN_OUT void *id, uint64_t room,
                                         TN_OUT uint64_t *out_bytes) TN_ANY_THREAD;
/* TN_OK, or the error of a call that has failed since it was queued. A communicator with an error can only be
 * aborted and released. */
TN_API int32_t tn_communicator_status(tn_communicator *communicator) TN_ANY_THREAD;
/* Ends the calls under way, so that the streams go on. Their results are undefined, and later calls are refused. */
TN_API int32_t tn_communicator_abort(tn_communicator *communicator) TN_ANY_THREAD;
/* Waits for the calls of the communicator, then releases it. NULL is ignored. */
TN_API void tn_communicator_release(TN_TAKES TN_NULLABLE tn_communicator *communicator) TN_ANY_THREAD;
/* Number of ranks of this process, of ranks in all processes, and the rank of this process's first device. */
TN_API uint32_t tn_communicator_size(const tn_communicator *communicator) TN_ANY_THREAD;
TN_API uint32_t tn_communicator_world(const tn_communicator *communicator) TN_ANY_THREAD;
TN_API uint32_t tn_communicator_first_rank(const tn_communicator *communicator) TN_ANY_THREAD;
/* The device of this process's rank i (0 if there is none). */
TN_API tn_device tn_communicator_device(const tn_communicator *communicator, uint32_t rank) TN_ANY_THREAD;
/* 1 if it can reduce this dtype in this way (TN_REDUCE_...). */
TN_API int32_t tn_communicator_reduces(const tn_communicator *communicator, tn_dtype dtype,
                                       uint32_t reduction) TN_ANY_THREAD;

/*
 * The calls. `tensors`, `outs` and `inputs` have `count` contiguous tensors, one for each rank of this process,
 * on its device. All have one dtype, and the tensors of one list have one shape. Results are written in place and
 * autograd does not record them: a tensor that requires a gradient is refused while recording is on, and
 * backward refuses saved tensors that were written. The work is queued on the streams that are current on
 * this thread, one for each device; the memory of the tensors is kept until it is done. All return a
 * status.
 */
/* Each tensor becomes the reduction (TN_REDUCE_...) of those of all ranks. */
TN_API int32_t tn_communicator_all_reduce(tn_communicator *communicator, tn_tensor *const *tensors,
                                          uint32_t count, uint32_t reduction) TN_ANY_THREAD;
/* Each tensor becomes that of rank `root`. */
TN_API int32_t tn_communicator_broadcast(tn_communicator *communicator, tn_tensor *const *tensors,
                                         uint32_t count, uint32_t root) TN_ANY_THREAD;
/* Each tensor of `outs` becomes the inputs of all ranks, concatenated. */
TN_API int32_t tn_communicator_all_gather(tn_communicator *communicator, tn_tensor *const *outs,
                                          tn_tensor *const *inputs, uint32_t count) TN_ANY_THREAD;
/* Each input has a part for each rank, as large as an out; the out of rank i becomes the reduction of all i-th parts. */
TN_API int32_t tn_communicator_reduce_scatter(tn_communicator *communicator, tn_tensor *const *outs,
                                              tn_tensor *const *inputs, uint32_t count,
                                              uint32_t reduction) TN_ANY_THREAD;
/* Each input and out has one part for each rank: part j of the out of rank i becomes part i of the input of rank j. */
TN_API int32_t tn_communicator_all_to_all(tn_communicator *communicator, tn_tensor *const *outs,
                                          tn_tensor *const *inputs, uint32_t count) TN_ANY_THREAD;
/*
 * Sends a tensor to another rank, which receives it into one of the same size; the rank that calls is that of the
 * tensor's device. The n-th tensor that a rank sends to another is the n-th that the other receives from it. Queued as
 * the others are, but only on one stream. TN_E_UNSUPPORTED if the plugin cannot.
 */
TN_API int32_t tn_communicator_send(tn_communicator *communicator, tn_tensor *t, uint32_t to) TN_ANY_THREAD;
TN_API int32_t tn_communicator_receive(tn_communicator *communicator, tn_tensor *t,
                                       uint32_t from) TN_ANY_THREAD;
/* The current streams of the devices wait for each other at this point. The host does not wait. */
TN_API int32_t tn_communicator_barrier(tn_communicator *communicator) TN_ANY_THREAD;
#endif

TN_END_DECLS
#endif
