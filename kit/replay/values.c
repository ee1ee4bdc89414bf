/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of a kernel call as the file has them. Lists point into memory of the call. */
#include "replay.h"

#include <string.h>

uint64_t replay_extent(const tn_tensor_desc *d)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < d->rank; i++) {
        if (!d->sizes[i]) return 0;
        last += (uint64_t)((d->sizes[i] - 1) * d->strides[i]);
    }
    return (last + 1) * (uint64_t)tn_dtype_bytes(d->dtype);
}

/* A copy of `bytes` of the file that is aligned. */
static void *copy(replay_player *p, replay_cursor *c, uint64_t bytes)
{
    const void *at = replay_bytes(c, bytes);
    void *memory = at ? replay_memory(p, bytes + 8) : NULL;
    if (!memory) {
        c->bad = 1;
        return NULL;
    }
    memcpy(memory, at, bytes);
    return memory;
}

static tn_tensor *read_tensor(replay_player *p, replay_cursor *c, replay_tensor **list)
{
    if (!replay_u32(c)) return NULL;
    replay_tensor *t = replay_memory(p, sizeof(*t));
    if (!t) {
        c->bad = 1;
        return NULL;
    }
    t->desc.size = sizeof(t->desc);
    t->desc.flags = replay_u32(c);
    t->desc.dtype = replay_u32(c);
    t->desc.layout = TN_INTERNED_STRIDED;
    t->place = replay_u32(c);
    t->desc.rank = replay_u32(c);
    t->desc.device = TN_CPU;
    t->desc.byte_offset = t->recorded_offset = replay_u64(c);
    t->recorded = replay_u64(c);
    if (t->desc.rank > TN_MAX_RANK) c->bad = 1;
    if (c->bad) return NULL;
    t->desc.sizes = copy(p, c, t->desc.rank * sizeof(int64_t));
    t->desc.strides = copy(p, c, t->desc.rank * sizeof(int64_t));
    t->blob = replay_u64(c);
    if (c->bad) return NULL;
    t->extent = replay_extent(&t->desc);
    t->next = *list;
    *list = t;
    return (tn_tensor *)(void *)t;
}

static void read_list(replay_player *p, replay_cursor *c, tn_value *v, replay_tensor **list)
{
    uint32_t n = v->count;
    if (!replay_u32(c)) return;
    if (v->tag == TN_TAG_TENSORS || v->tag == TN_TAG_STRINGS) {
        void **items = n < (1u << 20) ? replay_memory(p, (n + 1u) * sizeof(*items)) : NULL;
        if (!items) c->bad = 1;
        for (uint32_t i = 0; i < n && !c->bad; i++) {
            if (v->tag == TN_TAG_TENSORS) {
                items[i] = read_tensor(p, c, list);
                continue;
            }
            uint32_t bytes = replay_u32(c);
            items[i] = copy(p, c, bytes); /* zeroed memory ends it */
        }
        v->as.pointer = items;
    } else if (v->tag == TN_TAG_SCALARS) {
        v->as.values = replay_values(p, c, n, list);
    } else if (v->tag == TN_TAG_STRING) {
        uint32_t bytes = replay_u32(c);
        v->as.string = copy(p, c, bytes);
    } else {
        uint64_t unit = v->tag == TN_TAG_BOOLS ? 1 : 8;
        v->as.pointer = copy(p, c, v->tag == TN_TAG_COMPLEX ? 16 : n * unit);
    }
}

tn_value replay_value(replay_player *p, replay_cursor *c, replay_tensor **list)
{
    tn_value v = {.tag = replay_u32(c)};
    v.count = replay_u32(c);
    switch (v.tag) {
    case TN_TAG_TENSOR:
        v.as.tensor = read_tensor(p, c, list);
        break;
    case TN_TAG_TENSORS:
    case TN_TAG_COMPLEX:
    case TN_TAG_STRING:
    case TN_TAG_INTS:
    case TN_TAG_FLOATS:
    case TN_TAG_BOOLS:
    case TN_TAG_SCALARS:
    case TN_TAG_STRINGS:
        read_list(p, c, &v, list);
        break;
    default:
        v.as.i = (int64_t)replay_u64(c);
    }
    return v;
}

tn_value *replay_values(replay_player *p, replay_cursor *c, uint32_t count, replay_tensor **list)
{
    tn_value *values = count < (1u << 16) ? replay_memory(p, (count + 1u) * sizeof(*values)) : NULL;
    if (!values) c->bad = 1;
    for (uint32_t i = 0; i < count && !c->bad; i++) values[i] = replay_value(p, c, list);
    return values;
}
