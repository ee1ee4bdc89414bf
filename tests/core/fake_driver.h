/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver for tests, over host memory. As a host device it is synchronous and shows its addresses. As any other
 * class its handles are not addresses, and its streams finish work only when told to (fake_finish) or waited for.
 * It counts what is alive, so that tests can look for leaks, and fails on request. fake_driver gives a copy of its table:
 * a test may replace slots in it.
 */
#ifndef TESTS_CORE_FAKE_DRIVER_H
#define TESTS_CORE_FAKE_DRIVER_H

#include "core/tensor.h"

typedef struct fake {
    const char *type;
    uint32_t device_class;
    uint32_t count;
    const char *reason; /* when count is 0 */
    int32_t no_events;
    int32_t own_allocator;
    uint64_t memory;           /* bytes that may be in use; 0: no limit */
    _Atomic int32_t fail_slot; /* the n-th call from now that can fail does so; 0: none */
    _Atomic int32_t failed_with;
    _Atomic int32_t
        empty_slot; /* the n-th call from now that makes something gives TN_OK and NULL; 0: none */
    uint64_t flops;
    /* Optional slots and interfaces. */
    int32_t has_graphs, has_collectives, has_callbacks, has_maps, are_peers, has_interop;
    int32_t gives_pinned, pins_pages; /* memory of the host, allocated or pinned */
    int32_t grows; /* allocations can; 2: the slots are there, but the device has no such memory */
    int32_t graph_update_status;
    int32_t enumerate_status; /* what enumerate returns */
    /* What has happened. */
    _Atomic uint64_t used;
    _Atomic int32_t enumerated, allocations, streams, events, opened, closed;
    _Atomic int32_t live_allocations, live_streams, live_events;
    _Atomic int32_t live_graphs, live_executables, live_communicators, live_maps, live_pins;
    _Atomic int32_t synchronizes, trims, waits, launches, collectives, peer_copies, resizes;
    _Atomic int32_t pinned_copies; /* from or to pinned memory */
    _Atomic int32_t breaches;      /* calls that the contract forbids */
    /* A lock that must not be held when a slot is called, and the number of calls that came under it. */
    pthread_mutex_t *forbidden;
    _Atomic int32_t under_lock;
} fake;

#define FAKE_UNIT (2ull << 20) /* of sizes of memory that grows, by the contract */

tni_driver fake_driver(fake *f);
/* A context with one fake host device "cpu" as described, and one of another type where `second` is given. */
tn_context *fake_context(fake *cpu, fake *second);
/* Puts work on a stream, and lets all that is on it finish. */
void fake_work(tn_stream *stream);
void fake_finish(tn_stream *stream);
/* The host's address of memory of a disguised device. */
void *fake_address(const tn_tensor *t);

/* A host allocator that counts and can fail. */
typedef struct counting {
    _Atomic int64_t live;
    _Atomic int64_t live_bytes;
    _Atomic int64_t calls;
    int64_t fail_at; /* the call with this number gets NULL; 0: none */
} counting;
tn_host_allocator counting_allocator(counting *c);
/* A context whose allocations are counted, with the devices of one fake driver alone. */
tn_context *counted_context(counting *c, fake *f);
/* The same; the n-th allocation from here on fails. */
tn_context *failing_context(counting *c, fake *f, int64_t n);

#endif
