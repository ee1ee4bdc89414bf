/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives: sums, copies and waits over several devices of one type in one process, a rank for each
 * device. They are queued on the devices' current streams and the host does not wait, so what comes before
 * and after on those streams is in order without more ado.
 */
#ifndef TENON_COLLECTIVES_H
#define TENON_COLLECTIVES_H

#include <tenon/tensor.h>

TN_BEGIN_DECLS

/* Reductions. Integers wrap; booleans count as "any" in SUM and MAX, as "all" in PRODUCT and MIN. MIN and MAX
 * are not for complex dtypes, AVERAGE (the sum divided by the number of ranks) is for floating and complex
 * ones. With a NaN among the numbers SUM, PRODUCT and AVERAGE are NaN, MIN and MAX it or another of them. */
#define TN_REDUCE_SUM     0u
#define TN_REDUCE_PRODUCT 1u
#define TN_REDUCE_MIN     2u
#define TN_REDUCE_MAX     3u
#define TN_REDUCE_AVERAGE 4u

#ifndef TN_PLUGIN
typedef struct tn_communicator tn_communicator;

/*
 * A communicator of 1 to 64 different devices of one type; device i is rank i. TN_E_UNSUPPORTED where their
 * plugin has no collectives. The context lives as long as it.
 */
TN_API int32_t tn_communicator_create(tn_context *ctx, const tn_device *devices, uint32_t count,
                                      TN_OUT TN_GIVES tn_communicator **out) TN_ANY_THREAD;
/* Waits for its calls. NULL is ignored. */
TN_API void tn_communicator_release(TN_TAKES TN_NULLABLE tn_communicator *communicator) TN_ANY_THREAD;
/* Number of ranks, and the device of one; 0 where there is none. */
TN_API uint32_t tn_communicator_size(const tn_communicator *communicator) TN_ANY_THREAD;
TN_API tn_device tn_communicator_device(const tn_communicator *communicator, uint32_t rank) TN_ANY_THREAD;
/* 1 if this dtype can be reduced. */
TN_API int32_t tn_communicator_reduces(const tn_communicator *communicator, tn_dtype dtype) TN_ANY_THREAD;

/*
 * The calls. `tensors`, `outs` and `inputs` have one contiguous tensor for each rank, on its device, `count`
 * of them; all of one dtype, and of one shape within a list. Results are written in place and are no part of
 * autograd: a tensor that requires a gradient is refused while recording is on; saved tensors notice the
 * write. The work is ordered by the streams that are current on this
 * thread, one for each device; the memory of the tensors is kept for them.
 */
/* Each tensor becomes the reduction (TN_REDUCE_...) of all. */
TN_API int32_t tn_communicator_all_reduce(tn_communicator *communicator, tn_tensor *const *tensors,
                                          uint32_t count, uint32_t reduction) TN_ANY_THREAD;
/* Each tensor becomes that of rank `root`. */
TN_API int32_t tn_communicator_broadcast(tn_communicator *communicator, tn_tensor *const *tensors,
                                         uint32_t count, uint32_t root) TN_ANY_THREAD;
/* Each of `outs`, which has `count` times the elements of an input, becomes all inputs one behind the other.
 */
TN_API int32_t tn_communicator_all_gather(tn_communicator *communicator, tn_tensor *const *outs,
                                          tn_tensor *const *inputs, uint32_t count) TN_ANY_THREAD;
/* Each input has `count` times the elements of an out; outs[i] becomes the reduction of all i-th parts. */
TN_API int32_t tn_communicator_reduce_scatter(tn_communicator *communicator, tn_tensor *const *outs,
                                              tn_tensor *const *inputs, uint32_t count,
                                              uint32_t reduction) TN_ANY_THREAD;
/* No current stream of the devices goes on before all have come to this point. The host does not wait. */
TN_API int32_t tn_communicator_barrier(tn_communicator *communicator) TN_ANY_THREAD;
#endif

TN_END_DECLS
#endif
