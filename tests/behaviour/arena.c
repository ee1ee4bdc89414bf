/* SPDX-License-Identifier: Apache-2.0 */
/* Allocators of a user for memory.c: parts of memory that somebody else has allocated, one after the other, and
 * memory of the host at odd addresses. */
#include <stdlib.h>
#include <sys/types.h>

#define GRANULE 4096

static char *base;
static ssize_t room, used;
void *arena_stream;
ssize_t arena_counts[2]; /* given, taken back */

void arena_set(void *memory, ssize_t bytes)
{
    base = memory;
    room = bytes;
}

void *arena_alloc(ssize_t bytes, int device, void *stream)
{
    ssize_t whole = (bytes + GRANULE - 1) / GRANULE * GRANULE;
    (void)device;
    if (whole > room - used) return NULL;
    char *memory = base + used;
    used += whole;
    arena_stream = stream;
    arena_counts[0]++;
    return memory;
}

void arena_free(void *memory, ssize_t bytes, int device, void *stream)
{
    (void)memory, (void)bytes, (void)device, (void)stream;
    arena_counts[1]++;
}

int odd_live;

void *odd_alloc(ssize_t bytes, int device, void *stream)
{
    char *memory = malloc((size_t)bytes + 128);
    (void)device, (void)stream;
    if (!memory) return NULL;
    odd_live++;
    size_t more = 64 - (size_t)memory % 64 + 8; /* 8 past a multiple of 64 */
    memory[more - 1] = (char)more;
    return memory + more;
}

void odd_free(void *memory, ssize_t bytes, int device, void *stream)
{
    char *at = memory;
    (void)bytes, (void)device, (void)stream;
    odd_live--;
    free(at - at[-1]);
}
