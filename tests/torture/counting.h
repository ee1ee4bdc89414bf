/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator for contexts that counts, and fails at a chosen allocation. */
#ifndef TESTS_TORTURE_COUNTING_H
#define TESTS_TORTURE_COUNTING_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct counting {
    atomic_llong count; /* allocations so far */
    atomic_llong live;  /* not freed yet */
    long long fail_at;  /* 0: none */
} counting;

static inline void *take(void *user, uint64_t bytes)
{
    counting *c = user;
    void *memory;
    if (atomic_fetch_add(&c->count, 1) + 1 == c->fail_at) return NULL;
    memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (memory) atomic_fetch_add(&c->live, 1);
    return memory;
}

static inline void give_back(void *user, void *memory, uint64_t bytes)
{
    counting *c = user;
    (void)bytes;
    if (!memory) return;
    atomic_fetch_sub(&c->live, 1);
    free(memory);
}

#endif
