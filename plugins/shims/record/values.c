/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values, tensors with their bytes, and nests of a kernel call. Memory that the host cannot read is copied by
 * the plugin's own copy interface, after its stream has been waited for.
 */
#include "record.h"

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

int32_t record_wait(const shim_call *c)
{
    const shim_plugin *w = c->plugin;
    return w->inner.stream.synchronize(w->self, c->call->device, c->call->stream);
}

/* Id of the bytes, 0 when they cannot be had. */
static uint64_t save(const shim_call *c, const void *host, void *allocation, uint64_t offset, uint64_t bytes)
{
    const shim_plugin *w = c->plugin;
    record_file *f = w->shim->state;
    if (!bytes) return 0;
    if (host) return record_blob(f, host, bytes);
    void *copy = malloc(bytes);
    uint64_t id = 0;
    if (copy &&
        !w->inner.copy.device_to_host(w->self, c->call->device, copy, allocation, offset, bytes,
                                      c->call->stream) &&
        !record_wait(c))
        id = record_blob(f, copy, bytes);
    free(copy);
    return id;
}

/* ---- Tensors and values ------------------------------------------------------------------------------ */

static uint64_t extent(const tn_tensor_desc *d)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < d->rank; i++) {
        if (!d->sizes[i]) return 0;
        last += (uint64_t)((d->sizes[i] - 1) * d->strides[i]);
    }
    return (last + 1) * (uint64_t)tn_dtype_bytes(d->dtype);
}

static void put_tensor(const shim_call *c, record_buffer *b, const tn_tensor *t)
{
    static const tn_tensor_desc none = {.size = 0};
    const tn_tensor_desc *d = t ? tn_desc(t) : &none;
    uint64_t bytes = t ? extent(d) : 0;
    uint32_t place = !d->host || is_own(c->plugin->tool, d->allocation) ? RECORD_DEVICE_MEMORY
                     : d->rank == 0 && bytes <= 16                      ? RECORD_HOST_NUMBER
                                                                        : RECORD_OTHER_MEMORY;
    record_u32(b, t != NULL);
    if (!t) return;
    record_u32(b, d->flags);
    record_u32(b, d->dtype);
    record_u32(b, place);
    record_u32(b, d->rank);
    record_u64(b, d->byte_offset);
    record_u64(b, (uint64_t)(uintptr_t)d->allocation);
    record_bytes(b, d->sizes, d->rank * sizeof(int64_t));
    record_bytes(b, d->strides, d->rank * sizeof(int64_t));
    record_u64(b, save(c, d->host, d->allocation, d->byte_offset, bytes));
}

static void put_list(const shim_call *c, record_buffer *b, const tn_value *v)
{
    uint32_t n = v->count;
    record_u32(b, v->as.pointer != NULL);
    if (!v->as.pointer) return;
    for (uint32_t i = 0; i < n && v->tag == TN_TAG_TENSORS; i++) put_tensor(c, b, v->as.tensors[i]);
    for (uint32_t i = 0; i < n && v->tag == TN_TAG_SCALARS; i++) record_value(c, b, &v->as.values[i]);
    for (uint32_t i = 0; i < n && v->tag == TN_TAG_STRINGS; i++) record_text(b, v->as.strings[i]);
    if (v->tag == TN_TAG_INTS || v->tag == TN_TAG_FLOATS) record_bytes(b, v->as.ints, n * sizeof(int64_t));
    if (v->tag == TN_TAG_COMPLEX) record_bytes(b, v->as.floats, 2 * sizeof(double));
    if (v->tag == TN_TAG_BOOLS) record_bytes(b, v->as.bools, n);
    if (v->tag == TN_TAG_STRING) record_text(b, v->as.string);
}

void record_value(const shim_call *c, record_buffer *b, const tn_value *v)
{
    record_u32(b, v->tag);
    record_u32(b, v->count);
    switch (v->tag) {
    case TN_TAG_TENSOR:
        put_tensor(c, b, v->as.tensor);
        break;
    case TN_TAG_TENSORS:
    case TN_TAG_COMPLEX:
    case TN_TAG_STRING:
    case TN_TAG_INTS:
    case TN_TAG_FLOATS:
    case TN_TAG_BOOLS:
    case TN_TAG_SCALARS:
    case TN_TAG_STRINGS:
        put_list(c, b, v);
        break;
    case TN_TAG_GENERATOR:
    case TN_TAG_POINTER:
        record_u64(b, 0);
        break;
    default:
        record_u64(b, (uint64_t)v->as.i);
    }
}

void record_nest(const shim_call *c, record_buffer *b, const tn_nest *n)
{
    record_u32(b, n != NULL);
    if (!n) return;
    record_u32(b, n->rank);
    record_u32(b, n->kept);
    record_u32(b, n->n_outputs);
    record_u32(b, n->n_operands);
    record_bytes(b, n->sizes, n->rank * sizeof(int64_t));
    for (uint32_t i = 0; i < n->n_operands; i++) {
        const char *at = (const char *)n->operands + (size_t)i * n->operand_bytes;
        const tn_operand *o = (const tn_operand *)(const void *)at;
        int32_t immediate = (o->flags & TN_OPERAND_IMMEDIATE) != 0;
        record_u32(b, o->flags);
        record_u32(b, o->dtype);
        record_u64(b, o->byte_offset);
        record_u64(b, (uint64_t)(uintptr_t)o->allocation);
        record_u64(b, immediate ? save(c, o->host, NULL, 0, (uint64_t)tn_dtype_bytes(o->dtype)) : 0);
        record_bytes(b, o->strides, n->rank * sizeof(int64_t));
    }
}
