/* SPDX-License-Identifier: Apache-2.0 */
/* The file: records, and blobs, each of which is written once. */
#include "record.h"

#include <stdlib.h>
#include <string.h>

void record_bytes(record_buffer *b, const void *data, size_t bytes)
{
    if (b->used + bytes > b->room && !b->failed) {
        size_t room = 2 * b->room + bytes + 256;
        char *grown = realloc(b->data, room);
        b->failed = grown == NULL;
        if (grown) {
            b->data = grown;
            b->room = room;
        }
    }
    if (b->failed || !bytes) return;
    memcpy(b->data + b->used, data, bytes);
    b->used += bytes;
}

void record_u32(record_buffer *b, uint32_t value)
{
    record_bytes(b, &value, sizeof(value));
}

void record_u64(record_buffer *b, uint64_t value)
{
    record_bytes(b, &value, sizeof(value));
}

void record_text(record_buffer *b, const char *text)
{
    uint32_t bytes = text ? (uint32_t)strlen(text) : 0;
    record_u32(b, bytes);
    record_bytes(b, text, bytes);
}

/* With the lock held. What was written before a failure stays readable; the missing END record shows it. */
static void write_parts(record_file *f, uint32_t tag, const void *first, size_t first_bytes,
                        const void *second, size_t second_bytes)
{
    uint64_t bytes = first_bytes + second_bytes;
    uint32_t sum = record_checksum(record_checksum(0, &tag, sizeof(tag)), &bytes, sizeof(bytes));
    if (f->failed) return;
    const uint32_t head[2] = {
        tag, record_checksum(record_checksum(sum, first, first_bytes), second, second_bytes)};
    f->failed = fwrite(head, sizeof(head), 1, f->file) != 1 ||
                fwrite(&bytes, sizeof(bytes), 1, f->file) != 1 ||
                (first_bytes && fwrite(first, first_bytes, 1, f->file) != 1) ||
                (second_bytes && fwrite(second, second_bytes, 1, f->file) != 1) || fflush(f->file) != 0;
    f->records++;
}

void record_write(record_file *f, uint32_t tag, record_buffer *b)
{
    pthread_mutex_lock(&f->lock);
    if (b->failed) f->failed = 1;
    write_parts(f, tag, b->data, b->used, NULL, 0);
    pthread_mutex_unlock(&f->lock);
    free(b->data);
    *b = (record_buffer){0};
}

/* FNV-1a over words of eight bytes; never 0. */
static uint64_t hash(const unsigned char *data, size_t bytes)
{
    uint64_t h = 0xcbf29ce484222325ull ^ bytes, word;
    for (; bytes >= 8; bytes -= 8, data += 8) {
        memcpy(&word, data, 8);
        h = (h ^ word) * 0x100000001b3ull;
        h ^= h >> 29;
    }
    for (; bytes; bytes--, data++) h = (h ^ *data) * 0x100000001b3ull;
    return h ? h : 1;
}

static void place(uint64_t *table, uint64_t room, uint64_t id)
{
    uint64_t i = id & (room - 1);
    while (table[i]) i = (i + 1) & (room - 1);
    table[i] = id;
}

static int32_t is_known(const record_file *f, uint64_t id)
{
    if (!f->blob_room) return 0;
    uint64_t i = id & (f->blob_room - 1);
    while (f->blobs[i] && f->blobs[i] != id) i = (i + 1) & (f->blob_room - 1);
    return f->blobs[i] == id;
}

static void remember(record_file *f, uint64_t id)
{
    if (2 * f->n_blobs >= f->blob_room) {
        uint64_t room = f->blob_room ? 2 * f->blob_room : 1024;
        uint64_t *table = calloc(room, sizeof(*table));
        if (!table) return; /* the blob may be written again */
        for (uint64_t i = 0; i < f->blob_room; i++)
            if (f->blobs[i]) place(table, room, f->blobs[i]);
        free(f->blobs);
        f->blobs = table;
        f->blob_room = room;
    }
    place(f->blobs, f->blob_room, id);
    f->n_blobs++;
}

uint64_t record_blob(record_file *f, const void *data, size_t bytes)
{
    uint64_t id = hash(data, bytes);
    pthread_mutex_lock(&f->lock);
    if (!is_known(f, id)) {
        write_parts(f, RECORD_BLOB, &id, sizeof(id), data, bytes);
        remember(f, id);
    }
    pthread_mutex_unlock(&f->lock);
    return id;
}
