/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator for tensors on the CPU, in the form that tn_memory_set_allocator and the option pluggable_allocator take:
 * it counts bytes, and refuses more than COUNTING_LIMIT of them. It needs no header of Tenon. Tensors begin at
 * multiples of 64 bytes. An allocator for another device calls the vendor's functions in their place, with the vendor's
 * own stream.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/types.h>

#define ALIGNMENT 64

static _Atomic(ssize_t) in_use, most, calls;

static ssize_t limit(void)
{
    const char *text = getenv("COUNTING_LIMIT");
    return text ? atol(text) : 1L << 40;
}

void *counting_alloc(ssize_t bytes, int device, void *stream)
{
    void *memory = NULL;
    (void)device, (void)stream;
    ssize_t now = atomic_fetch_add(&in_use, bytes) + bytes, before = atomic_load(&most);
    if (now > limit() || posix_memalign(&memory, ALIGNMENT, (size_t)bytes)) {
        atomic_fetch_sub(&in_use, bytes);
        return NULL; /* Tenon reports TN_E_OUT_OF_MEMORY */
    }
    while (now > before && !atomic_compare_exchange_weak(&most, &before, now)) continue;
    atomic_fetch_add(&calls, 1);
    return memory;
}

void counting_free(void *memory, ssize_t bytes, int device, void *stream)
{
    (void)device, (void)stream;
    atomic_fetch_sub(&in_use, bytes);
    free(memory);
}

/* For the program: bytes in use now, at most, and allocations so far. */
void counting_read(ssize_t out[3])
{
    out[0] = in_use;
    out[1] = most;
    out[2] = calls;
}
