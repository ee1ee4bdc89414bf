/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that grow while a file is put together. Other rooms of libtenon-train may use it, too. */
#ifndef TENON_FILES_BYTES_H
#define TENON_FILES_BYTES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Zero: empty. `bytes` are of malloc, and whoever fills them frees them. */
typedef struct byte_buffer {
    uint8_t *bytes;
    size_t count, room;
    int32_t failed; /* there was no memory; stays set, and nothing more is put */
} byte_buffer;

static inline void put_raw(byte_buffer *b, const void *bytes, size_t count)
{
    if (b->failed || !count) return;
    if (b->count + count > b->room) {
        size_t room = 2 * (b->count + count);
        uint8_t *larger = realloc(b->bytes, room);
        b->failed = !larger;
        if (!larger) return;
        b->bytes = larger;
        b->room = room;
    }
    memcpy(b->bytes + b->count, bytes, count);
    b->count += count;
}

#endif
