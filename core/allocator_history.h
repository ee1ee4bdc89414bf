/* SPDX-License-Identifier: Apache-2.0 */
/* What an allocator did: the last events, with the program's stack, for snapshots. Everything is under the
 * allocator's lock. */
#ifndef TNI_CORE_ALLOCATOR_HISTORY_H
#define TNI_CORE_ALLOCATOR_HISTORY_H

#include "core/allocator.h"

#define TNI_FRAMES 32u

/* PyTorch's words for what happened. */
enum {
    TNI_HISTORY_ALLOC,
    TNI_HISTORY_FREE_REQUESTED,
    TNI_HISTORY_FREE_COMPLETED,
    TNI_HISTORY_SEGMENT_ALLOC,
    TNI_HISTORY_SEGMENT_FREE,
    TNI_HISTORY_SEGMENT_MAP,
    TNI_HISTORY_SEGMENT_UNMAP,
    TNI_HISTORY_OOM
};

typedef struct tni_history_event {
    uint32_t action;
    uint32_t frame_count;
    uint64_t place;
    uint64_t bytes;
    uint64_t stream;           /* its number */
    int64_t time_us;           /* since 1970 */
    const char *operator_name; /* that ran, valid as long as the context; or NULL */
    void *frames[TNI_FRAMES];
} tni_history_event;

struct tni_history {
    uint32_t capacity;
    uint32_t depth; /* frames of an event */
    uint64_t count; /* events so far; the last `capacity` of them are kept */
    tni_history_event events[];
};

/* Where a block is, for a reader: its address on the host, or a number that no other allocation of the device has. */
uint64_t tni_place_of(const tni_block *block);
void tni_history_note(struct tni_allocator *a, uint32_t action, uint64_t place, uint64_t bytes,
                      const tn_stream *stream);
static inline void tni_history_block(struct tni_allocator *a, uint32_t action, const tni_block *b)
{
    if (a->history)
        tni_history_note(a, action, tni_place_of(b), b->bytes,
                         b->part_of ? b->part_of->pool->stream : b->stream);
}
static inline void tni_history_segment(struct tni_allocator *a, uint32_t action, const tni_allocation *s)
{
    if (a->history) tni_history_note(a, action, s->place, s->bytes, s->pool->stream);
}
/* The last event of this kind at a place that is still recorded, or NULL. */
const tni_history_event *tni_history_origin(const struct tni_allocator *a, uint64_t place, uint32_t action);
void tni_history_destroy(struct tni_allocator *a);

#endif
