/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenon.collectives: without it the host refuses them. All work is done when a call returns, so every rank's
 * memory is ready, and the host is the only one that moves bytes. There is no arithmetic, so the host never asks
 * for a reduction. There is one process: without unique_id the host asks for no other communicators. Without send and
 * receive it refuses them.
 */
#include "null.h"

#include <string.h>

static const tn_collective_rank *rank_at(const tn_collective_rank *ranks, uint32_t rank_bytes, uint32_t i)
{
    return (const tn_collective_rank *)(const void *)((const char *)ranks + (size_t)i * rank_bytes);
}

static void *target(const tn_collective_rank *rank)
{
    return (char *)rank->to + rank->to_offset;
}

static const void *source(const tn_collective_rank *rank)
{
    return (const char *)rank->from + rank->from_offset;
}

static int32_t supports(void *self, tn_dtype dtype, uint32_t reduction)
{
    return 0;
}

/* A communicator is its number of ranks. */
static int32_t create(void *self, const tn_communicator_options *options, void **out_communicator)
{
    const tn_host *host = ((null_plugin *)self)->host;
    uint32_t *communicator = host->alloc(host->context, sizeof(*communicator));
    if (!communicator) return fail(self, TN_E_OUT_OF_MEMORY, "null: out of memory for a communicator");
    *communicator = options->count;
    *out_communicator = communicator;
    return TN_OK;
}

static void destroy(void *self, void *communicator)
{
    const tn_host *host = ((null_plugin *)self)->host;
    host->free(host->context, communicator, sizeof(uint32_t));
}

/* Nothing can fail after a call has returned. */
static int32_t status_of(void *self, void *communicator)
{
    return TN_OK;
}

/* Without it: the host waits for the streams. */
static int32_t abort_calls(void *self, void *communicator)
{
    return TN_OK;
}

static int32_t all_reduce(void *self, void *communicator, const tn_collective_rank *ranks,
                          uint32_t rank_bytes, uint64_t count, tn_dtype dtype, uint32_t reduction)
{
    return fail(self, TN_E_UNSUPPORTED, "null: all_reduce: the device has no arithmetic");
}

static int32_t broadcast(void *self, void *communicator, const tn_collective_rank *ranks, uint32_t rank_bytes,
                         uint64_t bytes, uint32_t root)
{
    for (uint32_t i = 0; i < *(const uint32_t *)communicator; i++)
        memmove(target(rank_at(ranks, rank_bytes, i)), source(rank_at(ranks, rank_bytes, root)),
                (size_t)bytes);
    return TN_OK;
}

/* Rank i gets a part of each rank's source, which begins i * step bytes behind its start. */
static int32_t gather(void *communicator, const tn_collective_rank *ranks, uint32_t rank_bytes,
                      uint64_t bytes, uint64_t step)
{
    uint32_t count = *(const uint32_t *)communicator;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t part = 0; part < count; part++)
            memmove((char *)target(rank_at(ranks, rank_bytes, i)) + part * bytes,
                    (const char *)source(rank_at(ranks, rank_bytes, part)) + i * step, (size_t)bytes);
    return TN_OK;
}

static int32_t all_gather(void *self, void *communicator, const tn_collective_rank *ranks,
                          uint32_t rank_bytes, uint64_t bytes)
{
    return gather(communicator, ranks, rank_bytes, bytes, 0);
}

static int32_t all_to_all(void *self, void *communicator, const tn_collective_rank *ranks,
                          uint32_t rank_bytes, uint64_t bytes)
{
    return gather(communicator, ranks, rank_bytes, bytes, bytes);
}

static int32_t reduce_scatter(void *self, void *communicator, const tn_collective_rank *ranks,
                              uint32_t rank_bytes, uint64_t count, tn_dtype dtype, uint32_t reduction)
{
    return fail(self, TN_E_UNSUPPORTED, "null: reduce_scatter: the device has no arithmetic");
}

/* All work is done: nobody has to wait. */
static int32_t barrier(void *self, void *communicator, const tn_collective_rank *ranks, uint32_t rank_bytes)
{
    return TN_OK;
}

const tn_collectives_interface null_collectives_interface = TN_INTERFACE(
    tn_collectives_interface, .supports = supports, .create = create, .destroy = destroy, .status = status_of,
    .abort = abort_calls, .all_reduce = all_reduce, .broadcast = broadcast, .all_gather = all_gather,
    .reduce_scatter = reduce_scatter, .all_to_all = all_to_all, .barrier = barrier);
