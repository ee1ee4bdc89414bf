/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values, tensors with their bytes, and nests of a kernel call. Memory that the host cannot read is copied by
 * the plugin's own copy interface, after its stream has been waited for.
 */
#include "record.h"
#include "wire.h"

#include <stdlib.h>
#include <string.h>

/* ---- Memory ------------------------------------------------------------------------------------------ */

void record_allocated(record_plugin *p, void *allocation)
{
    pthread_mutex_lock(&p->lock);
    if (p->n_allocations == p->room) {
        size_t room = p->room ? 2 * p->room : 64;
        void **grown = realloc(p->allocations, room * sizeof(*grown));
        if (grown) {
            p->allocations = grown;
            p->room = room;
        }
    }
    if (p->n_allocations < p->room) p->allocations[p->n_allocations++] = allocation;
    pthread_mutex_unlock(&p->lock);
}

void record_freed(record_plugin *p, const void *allocation)
{
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->n_allocations; i++) {
        if (p->allocations[i] != allocation) continue;
        p->allocations[i] = p->allocations[--p->n_allocations];
        break;
    }
    pthread_mutex_unlock(&p->lock);
}

void record_mapped(record_plugin *p, void *host, uint64_t bytes)
{
    pthread_mutex_lock(&p->lock);
    if (p->n_views < RECORD_VIEWS) p->views[p->n_views++] = (record_view){host, bytes};
    pthread_mutex_unlock(&p->lock);
}

uint64_t record_unmapped(record_plugin *p, const void *host)
{
    uint64_t bytes = 0;
    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < p->n_views && !bytes; i++) {
        if (p->views[i].host != host) continue;
        bytes = p->views[i].bytes;
        p->views[i] = p->views[--p->n_views];
    }
    pthread_mutex_unlock(&p->lock);
    return bytes;
}

static int32_t is_own(record_plugin *p, const void *allocation)
{
    int32_t found = 0;
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->n_allocations && !found; i++) found = p->allocations[i] == allocation;
    pthread_mutex_unlock(&p->lock);
    return found;
}

const shim_plugin *record_owner(const shim_call *c)
{
    return ((const record_kernel *)c->note)->owner;
}

int32_t record_wait(const shim_call *c)
{
    const shim_plugin *w = record_owner(c);
    return w->inner.stream.synchronize(w->self, c->call->device, c->call->stream);
}

/* Id of the bytes; 0 when there are none, or they cannot be read. */
static uint64_t save(const shim_call *c, const void *host, void *allocation, uint64_t offset, uint64_t bytes)
{
    const shim_plugin *w = record_owner(c);
    record_file *f = w->shim->state;
    if (!bytes || bytes == UINT64_MAX) return 0;
    if (host) return record_blob(f, host, bytes);
    void *copy = malloc(bytes);
    uint64_t id = 0;
    if (copy &&
        !w->inner.copy.device_to_host(w->self, c->call->device, copy, NULL, allocation, offset, bytes,
                                      c->call->stream) &&
        !record_wait(c))
        id = record_blob(f, copy, bytes);
    free(copy);
    return id;
}

/* ---- Tensors and values ------------------------------------------------------------------------------ */

/* A buffer to which the parts of a call are appended. */
typedef struct writer {
    record_wire wire; /* first */
    const shim_call *call;
    record_buffer *buffer;
} writer;

static void append(record_wire *w, void *data, uint64_t bytes)
{
    record_bytes(((writer *)w)->buffer, data, bytes);
}

/* Where a tensor's memory lies: RECORD_DEVICE_MEMORY, ... */
static uint32_t place_of(const shim_call *c, const tn_tensor_desc *d, uint64_t bytes)
{
    if (!d->host || is_own(record_owner(c)->tool, d->allocation)) return RECORD_DEVICE_MEMORY;
    return d->rank == 0 && bytes <= 16 ? RECORD_HOST_NUMBER : RECORD_OTHER_MEMORY;
}

static void append_tensor(record_wire *w, tn_tensor **t)
{
    const shim_call *c = ((writer *)w)->call;
    record_tensor r = {.desc = *tn_desc(*t)};
    uint64_t bytes = record_extent(&r.desc);
    r.place = place_of(c, &r.desc, bytes);
    r.allocation = (uint64_t)(uintptr_t)r.desc.allocation;
    r.blob = save(c, r.desc.host, r.desc.allocation, r.desc.byte_offset, bytes);
    wire_tensor(w, &r);
}

static writer writer_of(const shim_call *c, record_buffer *b)
{
    return (writer){.wire = {.move = append, .tensor = append_tensor}, .call = c, .buffer = b};
}

void record_value(const shim_call *c, record_buffer *b, const tn_value *v)
{
    writer w = writer_of(c, b);
    tn_value copy = *v;
    wire_value(&w.wire, &copy);
}

void record_nest(const shim_call *c, record_buffer *b, const tn_nest *n)
{
    writer w = writer_of(c, b);
    record_u32(b, n != NULL);
    if (!n) return;
    tn_nest copy = *n;
    wire_nest(&w.wire, &copy);
    for (uint32_t i = 0; i < n->n_operands; i++) {
        const char *at = (const char *)n->operands + (size_t)i * n->operand_bytes;
        tn_operand o = *(const tn_operand *)(const void *)at;
        uint64_t allocation = (uint64_t)(uintptr_t)o.allocation, blob = 0;
        if (o.flags & TN_OPERAND_IMMEDIATE)
            blob = save(c, o.host, NULL, 0, (uint64_t)tn_dtype_bytes(o.dtype));
        wire_operand(&w.wire, n, &o, &allocation, &blob);
    }
}
