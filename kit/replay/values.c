/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the arguments of a kernel call; the order of the fields is in plugins/shims/record/wire.c. All memory
 * lives for one call. Nothing in the file is trusted. */
#include "replay.h"

#include "record_format.h"
#include "wire.h"

#include <string.h>

/* A place in the file, from which the parts of a call are read. */
typedef struct reader {
    record_wire wire; /* first */
    replay_player *player;
    replay_cursor *cursor;
    replay_tensor **list; /* the tensors that were read */
} reader;

static void take(record_wire *w, void *data, uint64_t bytes)
{
    const void *at = replay_bytes(((reader *)w)->cursor, bytes);
    if (at)
        memcpy(data, at, bytes);
    else
        memset(data, 0, bytes);
    w->bad |= at == NULL;
}

static void *make_room(record_wire *w, uint64_t bytes)
{
    reader *r = (reader *)w;
    uint64_t left = (uint64_t)(r->cursor->end - r->cursor->at);
    void *memory = bytes <= 2 * left + 64 ? replay_memory(r->player, bytes) : NULL;
    w->bad |= memory == NULL;
    return memory;
}

static void take_tensor(record_wire *w, tn_tensor **out)
{
    const reader *r = (const reader *)w;
    replay_tensor *t = replay_memory(r->player, sizeof(*t));
    record_tensor from = {.desc.size = sizeof(from.desc)};
    wire_tensor(w, &from);
    uint64_t extent = w->bad ? UINT64_MAX : record_extent(&from.desc);
    if (!t || extent == UINT64_MAX || tn_dtype_bytes(from.desc.dtype) <= 0 ||
        from.place > RECORD_OTHER_MEMORY || from.desc.byte_offset > UINT64_MAX / 2 ||
        (from.place == RECORD_HOST_NUMBER && extent > 16)) {
        w->bad = 1;
        return;
    }
    t->desc = from.desc;
    t->desc.layout = TN_INTERNED_STRIDED;
    t->desc.device = TN_CPU;
    t->place = from.place;
    t->recorded = from.allocation;
    t->recorded_offset = from.desc.byte_offset;
    t->blob = from.blob;
    t->extent = extent;
    t->next = *r->list;
    *r->list = t;
    *out = (tn_tensor *)(void *)t;
}

static reader reader_of(replay_player *p, replay_cursor *c, replay_tensor **list)
{
    return (reader){.wire = {.move = take, .tensor = take_tensor, .memory = make_room, .bad = c->bad},
                    .player = p,
                    .cursor = c,
                    .list = list};
}

tn_value *replay_values(replay_player *p, replay_cursor *c, uint32_t count, replay_tensor **list)
{
    reader r = reader_of(p, c, list);
    tn_value *values = make_room(&r.wire, count * sizeof(*values));
    for (uint32_t i = 0; i < count && !r.wire.bad; i++) wire_value(&r.wire, &values[i]);
    c->bad = r.wire.bad;
    return values;
}

/* The number of elements; the sizes are not negative and the product fits. */
static int count_elements(tn_nest *n)
{
    n->numel = 1;
    for (uint32_t d = 0; d < n->rank; d++)
        if (n->sizes[d] < 0 || __builtin_mul_overflow(n->numel, n->sizes[d], &n->numel)) return 0;
    return n->numel <= INT64_MAX / 32;
}

void replay_nest(replay_player *p, replay_cursor *c, replay_nest_in_file *out)
{
    reader r = reader_of(p, c, NULL);
    tn_nest *n = &out->nest;
    *n = (tn_nest){.size = sizeof(*n), .operand_bytes = sizeof(tn_operand)};
    wire_nest(&r.wire, n);
    if (!r.wire.bad && !count_elements(n)) r.wire.bad = 1;
    if (!r.wire.bad) out->operands = make_room(&r.wire, n->n_operands * sizeof(*out->operands));
    if (!r.wire.bad) out->handles = make_room(&r.wire, n->n_operands * sizeof(*out->handles));
    n->operands = out->operands;
    for (uint32_t i = 0; i < n->n_operands && !r.wire.bad; i++) {
        tn_operand *o = &out->operands[i];
        uint64_t id = 0;
        o->size = sizeof(*o);
        wire_operand(&r.wire, n, o, &out->handles[i], &id);
        if (tn_dtype_bytes(o->dtype) <= 0 || o->byte_offset > UINT64_MAX / 2) r.wire.bad = 1;
        if (r.wire.bad || !(o->flags & TN_OPERAND_IMMEDIATE)) continue;
        const replay_blob *blob = replay_find(p->file, id);
        o->host = replay_memory(p, 16);
        if (!o->host || !blob || blob->bytes > 16) r.wire.bad = 1;
        if (!r.wire.bad) memcpy(o->host, blob->data, blob->bytes);
    }
    c->bad = r.wire.bad;
}
