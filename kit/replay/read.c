/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the whole file and checks each record's checksum; nothing in it is trusted. */
#include "replay.h"

#include "record_format.h"

#include <stdlib.h>
#include <string.h>

const void *replay_bytes(replay_cursor *c, uint64_t bytes)
{
    if (c->bad || (uint64_t)(c->end - c->at) < bytes) {
        c->bad = 1;
        return NULL;
    }
    const void *at = c->at;
    c->at += bytes;
    return at;
}

uint32_t replay_u32(replay_cursor *c)
{
    uint32_t value = 0;
    const void *at = replay_bytes(c, sizeof(value));
    if (at) memcpy(&value, at, sizeof(value));
    return value;
}

uint64_t replay_u64(replay_cursor *c)
{
    uint64_t value = 0;
    const void *at = replay_bytes(c, sizeof(value));
    if (at) memcpy(&value, at, sizeof(value));
    return value;
}

void replay_text(replay_cursor *c, char *out, size_t room)
{
    uint32_t bytes = replay_u32(c);
    const char *text = replay_bytes(c, bytes);
    snprintf(out, room, "%.*s", text ? (int)bytes : 0, text ? text : "");
}

static int read_all(replay_file *f, const char *path)
{
    FILE *file = fopen(path, "rb");
    long size = -1;
    if (file && fseek(file, 0, SEEK_END) == 0) size = ftell(file);
    if (size >= 0 && fseek(file, 0, SEEK_SET) == 0) f->data = malloc((size_t)size + 1);
    int good = f->data && fread(f->data, 1, (size_t)size, file) == (size_t)size;
    if (file) fclose(file);
    f->bytes = good ? (uint64_t)size : 0;
    return good;
}

static int add_record(replay_file *f, uint32_t tag, replay_cursor payload)
{
    if (f->n_records % 1024 == 0) {
        replay_record *grown = realloc(f->records, (f->n_records + 1024) * sizeof(*grown));
        if (!grown) return 0;
        f->records = grown;
    }
    f->records[f->n_records++] = (replay_record){tag, payload};
    return 1;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = ((const replay_blob *)a)->id, y = ((const replay_blob *)b)->id;
    return x < y ? -1 : x > y;
}

static int index_blobs(replay_file *f)
{
    f->blobs = calloc(f->n_records + 1, sizeof(*f->blobs));
    if (!f->blobs) return 0;
    for (uint64_t i = 0; i < f->n_records; i++) {
        replay_cursor c = f->records[i].payload;
        if (f->records[i].tag != RECORD_BLOB) continue;
        uint64_t id = replay_u64(&c);
        f->blobs[f->n_blobs++] = (replay_blob){id, c.at, (uint64_t)(c.end - c.at)};
    }
    qsort(f->blobs, f->n_blobs, sizeof(*f->blobs), by_id);
    return 1;
}

const replay_blob *replay_find(const replay_file *f, uint64_t id)
{
    const replay_blob key = {.id = id};
    return id ? bsearch(&key, f->blobs, f->n_blobs, sizeof(key), by_id) : NULL;
}

/* Splits the file into records; stops at one that is cut off or damaged. 0: out of memory. */
static int split(replay_file *f)
{
    replay_cursor c = {f->data + RECORD_HEAD_BYTES, f->data + f->bytes, 0};
    while (c.at < c.end && !f->whole) {
        uint32_t tag = replay_u32(&c), sum = replay_u32(&c);
        uint64_t bytes = replay_u64(&c);
        const char *at = replay_bytes(&c, bytes);
        if (c.bad) break;
        replay_cursor payload = {at, at + bytes, 0};
        uint32_t found = record_checksum(record_checksum(0, &tag, sizeof(tag)), &bytes, sizeof(bytes));
        if (record_checksum(found, at, bytes) != sum) {
            snprintf(f->problem, sizeof(f->problem), "is damaged: record %llu does not match its checksum",
                     (unsigned long long)f->n_records);
            return 1;
        }
        if (tag == RECORD_END)
            f->whole = replay_u64(&payload) == f->n_records;
        else if (!add_record(f, tag, payload))
            return 0;
        if (tag == RECORD_END) break;
    }
    if (f->whole)
        f->problem[0] = 0;
    else
        snprintf(f->problem, sizeof(f->problem), "is cut off after %llu record%s",
                 (unsigned long long)f->n_records, f->n_records == 1 ? "" : "s");
    return 1;
}

static int has_head(const replay_file *f)
{
    return f->bytes >= RECORD_HEAD_BYTES && !memcmp(f->data, RECORD_MAGIC, 8) &&
           !memcmp(f->data + 12, "\0\0\0", 4);
}

int replay_open(replay_file *f, const char *path)
{
    uint32_t version = 0;
    *f = (replay_file){0};
    if (!read_all(f, path)) {
        snprintf(f->problem, sizeof(f->problem), "cannot be read");
        return -1;
    }
    if (!has_head(f)) {
        snprintf(f->problem, sizeof(f->problem), "is not a recording");
        return -1;
    }
    memcpy(&version, f->data + 8, sizeof(version));
    if (version != RECORD_VERSION) {
        snprintf(f->problem, sizeof(f->problem), "is of version %u of the format; this tenon reads %u",
                 version, RECORD_VERSION);
        return -1;
    }
    if (split(f) && index_blobs(f)) return 0;
    snprintf(f->problem, sizeof(f->problem), "does not fit into memory");
    return -1;
}

void replay_close(replay_file *f)
{
    free(f->records);
    free(f->blobs);
    free(f->data);
    *f = (replay_file){0};
}
