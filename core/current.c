/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Current devices and streams of a thread: a small table per thread, keyed by context and device. Entries
 * hold no references: a context's number is never reused, and a stream's struct stays readable while its
 * device is open. An entry whose stream was released is recognised by the stream's number, and means the
 * default stream.
 */
#include "core/current.h"
#include "core/thread.h"

#define SLOTS 32

typedef struct tni_slot {
    uint64_t context; /* 0: free */
    tn_device key;    /* a device, or a type with index -1 */
    tn_stream *stream;
    uint64_t value; /* number of the stream, or index of the current device */
} tni_slot;

struct tni_current {
    uint64_t thread; /* its number */
    const char *operator_name;
    uint32_t used; /* slots from 0 that may be taken */
    tni_slot slots[SLOTS];
};

static atomic_uint_fast64_t last_thread;

/* This thread's table, made if it has none; NULL without memory. */
static struct tni_current *make_table(void)
{
    struct tni_current *table = tni_tls.current;
    if (table || !(table = tni_thread_alloc(&tni_tls.current, sizeof *table))) return table;
    table->thread = atomic_fetch_add_explicit(&last_thread, 1, memory_order_relaxed) + 1;
    return table;
}

static tni_slot *find(const tn_context *ctx, tn_device key)
{
    struct tni_current *c = tni_tls.current;
    for (uint32_t i = 0; c && i < c->used; i++) {
        if (c->slots[i].key == key && c->slots[i].context == ctx->id) return &c->slots[i];
    }
    return NULL;
}

static tni_slot *find_or_make(const tn_context *ctx, tn_device key)
{
    tni_slot *slot = find(ctx, key);
    struct tni_current *table = slot ? NULL : make_table();
    if (slot) return slot;
    if (!table) {
        tni_error_no_memory("current devices and streams", sizeof(*table));
        return NULL;
    }
    for (uint32_t i = 0; i < SLOTS; i++) {
        if (table->slots[i].context) continue;
        if (i >= table->used) table->used = i + 1;
        slot = &table->slots[i];
        *slot = (tni_slot){ctx->id, key, NULL, 0};
        return slot;
    }
    /* All are taken, most likely by contexts that have ended: one of another context is overwritten. */
    for (uint32_t i = 0; i < SLOTS; i++) {
        if (table->slots[i].context == ctx->id) continue;
        table->slots[i] = (tni_slot){ctx->id, key, NULL, 0};
        return &table->slots[i];
    }
    tni_error(TN_E_UNSUPPORTED, "more than %d current devices and streams on one thread", SLOTS);
    return NULL;
}

static void clear(tni_slot *slot)
{
    struct tni_current *table = tni_tls.current;
    if (slot) slot->context = 0;
    while (table && table->used && !table->slots[table->used - 1].context) table->used--;
}

int32_t tni_current_index(const tn_context *ctx, uint32_t type)
{
    tni_slot *slot = find(ctx, TN_DEVICE(type, -1));
    return slot ? (int32_t)slot->value : 0;
}

int32_t tni_current_set_index(const tn_context *ctx, uint32_t type, int32_t index)
{
    if (!index) {
        clear(find(ctx, TN_DEVICE(type, -1)));
        return TN_OK;
    }
    tni_slot *slot = find_or_make(ctx, TN_DEVICE(type, -1));
    if (!slot) return tn_last_error()->code;
    slot->value = (uint64_t)index;
    return TN_OK;
}

tn_stream *tni_chosen_stream(tni_device *device)
{
    tni_slot *slot = find(device->ctx, device->id);
    if (!slot) return device->default_stream;
    uint64_t id = atomic_load_explicit(&slot->stream->id, memory_order_relaxed);
    return id == slot->value ? slot->stream : device->default_stream;
}

int32_t tni_current_set_stream(tni_device *device, tn_stream *stream)
{
    if (!stream || stream == device->default_stream) {
        clear(find(device->ctx, device->id));
        return TN_OK;
    }
    tni_slot *slot = find_or_make(device->ctx, device->id);
    if (!slot) return tn_last_error()->code;
    atomic_store_explicit(&stream->user, &tni_tls, memory_order_relaxed);
    slot->stream = stream;
    slot->value = atomic_load_explicit(&stream->id, memory_order_relaxed);
    return TN_OK;
}

const char *tni_current_operator(void)
{
    const struct tni_current *c = tni_tls.current;
    return c ? c->operator_name : NULL;
}

const char *tni_current_set_operator(const char *name)
{
    struct tni_current *c = make_table();
    if (!c) return NULL;
    const char *before = c->operator_name;
    c->operator_name = name;
    return before;
}

int32_t tni_thread_number_make(void)
{
    return make_table() ? TN_OK
                        : tni_error_no_memory("current devices and streams", sizeof(struct tni_current));
}

uint64_t tni_thread_number(void)
{
    const struct tni_current *c = tni_tls.current;
    return c ? c->thread : 0;
}
