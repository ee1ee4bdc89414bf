/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots about memory. A slot that this plugin lacks is replaced as a host does: a part of tenon.allocator becomes an
 * allocation, a copy to a peer goes through the host, a mapping is a copy in host memory.
 */
#include "replay.h"

#include <stdlib.h>
#include <string.h>

/* ---- Ranges ------------------------------------------------------------------------------------------ */

/* The range in argument i and the offset after it, in memory of this run. */
typedef struct range {
    void *device;
    void *allocation;
    char *host; /* of its first byte, or NULL */
    uint64_t offset;
} range;

/* 0 if there is no such memory or fewer than `bytes` of it. */
static int find_range(replay_player *p, const replay_call *s, uint32_t i, uint64_t bytes, range *out)
{
    uint64_t at = s->values[i + 1];
    const replay_handle *h = replay_handle_at(p, s->values[i], at);
    if (!h || bytes > h->bytes || at - h->from > h->bytes - bytes) return 0;
    *out = (range){.device = h->device, .allocation = h->here, .offset = replay_offset(h, at)};
    out->host = h->host ? (char *)h->host + out->offset : NULL;
    return 1;
}

/* Any stream of a device here. */
static void *stream_of(const replay_player *p, const void *device)
{
    for (size_t i = 0; i < p->n_handles; i++)
        if (p->handles[i].kind == 's' && p->handles[i].device == device) return p->handles[i].here;
    return NULL;
}

static int32_t read_range(replay_player *p, const range *r, uint64_t bytes, void *out)
{
    void *stream = stream_of(p, r->device);
    if (!stream) return TN_E_STATE;
    int32_t status =
        p->copy->device_to_host(p->self, r->device, out, NULL, r->allocation, r->offset, bytes, stream);
    return status ? status : p->stream->synchronize(p->self, r->device, stream);
}

static int32_t write_range(replay_player *p, const range *r, uint64_t bytes, const void *from)
{
    void *stream = stream_of(p, r->device);
    if (!stream) return TN_E_STATE;
    int32_t status =
        p->copy->host_to_device(p->self, r->device, r->allocation, r->offset, from, NULL, bytes, stream);
    return status ? status : p->stream->synchronize(p->self, r->device, stream);
}

/* On another plugin bytes may differ within tolerance; only kernels know the dtype, and compared them
 * there. */
static void compare_bytes(replay_player *p, const replay_call *s, const void *found, const replay_blob *want)
{
    if (p->same && !p->kernels_absent && memcmp(found, want->data, want->bytes))
        replay_differs(p, s->number, s->name, "other bytes came back than were recorded");
}

/* ---- Allocations ------------------------------------------------------------------------------------- */

/* An allocation of `slot` for argument i; the file counts its bytes from `from` on. */
static int32_t allocate(replay_player *p,
                        int32_t (*slot)(void *self, void *device, const tn_memory_request *request,
                                        tn_memory *out),
                        const replay_call *s, uint64_t bytes, uint32_t i, uint64_t from)
{
    const tn_memory_request request = replay_request(p, bytes);
    tn_memory made = {.size = sizeof(made)};
    int32_t status = slot(p->self, replay_here(p, s, 'd', 0), &request, &made);
    status = replay_made(p, s, status, 'a', i, made.allocation);
    if (status) return status;
    replay_keep_memory(&p->handles[p->n_handles - 1], &made);
    p->handles[p->n_handles - 1].bytes = bytes;
    p->handles[p->n_handles - 1].from = from;
    return TN_OK;
}

int32_t replay_memory_alloc(replay_player *p, const replay_call *s)
{
    return allocate(p, p->memory->alloc, s, s->values[4], 7, s->values[8]);
}

int32_t replay_memory_reserve(replay_player *p, const replay_call *s)
{
    return allocate(p, p->memory->reserve, s, s->values[4], 7, s->values[8]);
}

int32_t replay_memory_resize(replay_player *p, const replay_call *s)
{
    return p->memory->resize(p->self, replay_here(p, s, 'd', 0), replay_here(p, s, 'a', 1), s->values[2]);
}

static void free_block(replay_player *p, replay_handle *h, void *stream)
{
    if (h->part)
        p->allocator->free(p->self, h->device, &h->memory, stream);
    else
        p->memory->free(p->self, h->device, &h->memory);
    replay_handle_remove(p, h);
}

int32_t replay_memory_free(replay_player *p, const replay_call *s)
{
    replay_handle *h = replay_handle_find(p, 'a', s->values[2]);
    if (h) free_block(p, h, NULL);
    return TN_OK;
}

int32_t replay_allocator_alloc(replay_player *p, const replay_call *s)
{
    tn_memory_request request = replay_request(p, s->values[4]);
    tn_memory made = {.size = sizeof(made)};
    if (!REPLAY_HAS(p->allocator, alloc) || !REPLAY_HAS(p->allocator, free)) return replay_memory_alloc(p, s);
    request.stream = replay_here(p, s, 's', 5);
    int32_t status = p->allocator->alloc(p->self, replay_here(p, s, 'd', 0), &request, &made);
    status = replay_made(p, s, status, 'a', 7, made.allocation);
    if (status) return status;
    replay_handle *h = &p->handles[p->n_handles - 1];
    replay_keep_memory(h, &made);
    h->from = s->values[8];
    h->bytes = request.bytes;
    h->part = 1;
    return TN_OK;
}

int32_t replay_allocator_free(replay_player *p, const replay_call *s)
{
    replay_handle *h = replay_handle_at(p, s->values[2], s->values[3]);
    void *stream = replay_here(p, s, 's', 8);
    if (!h) return TN_OK;
    int32_t status = h->part ? TN_OK : p->stream->synchronize(p->self, h->device, stream);
    free_block(p, h, stream);
    return status;
}

/* ---- Fills and copies -------------------------------------------------------------------------------- */

int32_t replay_memory_fill(replay_player *p, const replay_call *s)
{
    range r;
    if (!find_range(p, s, 1, s->values[3], &r)) return TN_E_CORRUPT;
    return p->memory->fill(p->self, r.device, r.allocation, r.offset, s->values[3], (uint32_t)s->values[4],
                           replay_here(p, s, 's', 5));
}

int32_t replay_to_device(replay_player *p, const replay_call *s)
{
    const replay_blob *blob = replay_find(p->file, s->values[3]);
    range r;
    if (!blob || blob->bytes != s->values[5] || !find_range(p, s, 1, blob->bytes, &r)) return TN_E_CORRUPT;
    return p->copy->host_to_device(p->self, r.device, r.allocation, r.offset, blob->data, NULL, blob->bytes,
                                   replay_here(p, s, 's', 6));
}

int32_t replay_to_host(replay_player *p, const replay_call *s)
{
    const replay_blob *blob = replay_find(p->file, s->values[1]);
    range r;
    if (!blob || blob->bytes != s->values[5] || !find_range(p, s, 3, blob->bytes, &r)) return TN_E_CORRUPT;
    char *copy = malloc(blob->bytes + 1);
    void *stream = replay_here(p, s, 's', 6);
    if (!copy) return TN_E_OUT_OF_MEMORY;
    int32_t status =
        p->copy->device_to_host(p->self, r.device, copy, NULL, r.allocation, r.offset, blob->bytes, stream);
    if (!status) status = p->stream->synchronize(p->self, r.device, stream);
    if (!status) compare_bytes(p, s, copy, blob);
    free(copy);
    return status;
}

int32_t replay_on_device(replay_player *p, const replay_call *s)
{
    range to, from;
    if (!find_range(p, s, 1, s->values[5], &to) || !find_range(p, s, 3, s->values[5], &from))
        return TN_E_CORRUPT;
    return p->copy->device_to_device(p->self, to.device, to.allocation, to.offset, from.allocation,
                                     from.offset, s->values[5], replay_here(p, s, 's', 6));
}

static int32_t through_host(replay_player *p, const range *to, const range *from, uint64_t bytes)
{
    void *copy = malloc(bytes ? bytes : 1);
    int32_t status = copy ? read_range(p, from, bytes, copy) : TN_E_OUT_OF_MEMORY;
    if (!status) status = write_range(p, to, bytes, copy);
    free(copy);
    return status;
}

int32_t replay_peer(replay_player *p, const replay_call *s)
{
    range to, from;
    uint64_t bytes = s->values[6];
    void *stream = replay_here(p, s, 's', 7);
    if (!find_range(p, s, 1, bytes, &to) || !find_range(p, s, 4, bytes, &from)) return TN_E_CORRUPT;
    if (to.device == from.device)
        return p->copy->device_to_device(p->self, to.device, to.allocation, to.offset, from.allocation,
                                         from.offset, bytes, stream);
    if (!REPLAY_HAS(p->copy, peer)) return through_host(p, &to, &from, bytes);
    return p->copy->peer(p->self, to.device, to.allocation, to.offset, from.device, from.allocation,
                         from.offset, bytes, stream);
}

/* ---- Host memory ------------------------------------------------------------------------------------- */

int32_t replay_map(replay_player *p, const replay_call *s)
{
    const replay_blob *blob = s->count > 6 ? replay_find(p->file, s->values[6]) : NULL;
    uint64_t bytes = s->values[3];
    int32_t maps = REPLAY_HAS(p->memory, map) && REPLAY_HAS(p->memory, unmap);
    void *view = NULL;
    range r;
    if (!find_range(p, s, 1, bytes, &r) || (blob && blob->bytes != bytes)) return TN_E_CORRUPT;
    if (!maps && !(view = malloc(bytes ? bytes : 1))) return TN_E_OUT_OF_MEMORY;
    int32_t status =
        maps ? p->memory->map(p->self, r.device, r.allocation, r.offset, bytes, (uint32_t)s->values[4], &view)
             : read_range(p, &r, bytes, view);
    status = replay_made(p, s, status, 'm', 5, view);
    if (status) {
        if (!maps) free(view);
        return status;
    }
    p->handles[p->n_handles - 1].from = s->values[2];
    p->handles[p->n_handles - 1].bytes = bytes;
    if (blob) compare_bytes(p, s, view, blob);
    return TN_OK;
}

/* The recorded bytes that the program wrote are written when the view ends. */
int32_t replay_unmap(replay_player *p, const replay_call *s)
{
    const replay_blob *blob = s->count > 3 ? replay_find(p->file, s->values[3]) : NULL;
    replay_handle *h = replay_handle_find(p, 'm', s->values[2]);
    const replay_handle *memory = h ? replay_handle_at(p, s->values[1], h->from) : NULL;
    if (!memory || (blob && blob->bytes > h->bytes)) return TN_E_CORRUPT;
    range r = {
        .device = memory->device, .allocation = memory->here, .offset = replay_offset(memory, h->from)};
    void *view = h->here;
    uint64_t bytes = h->bytes;
    replay_handle_remove(p, h);
    if (blob) memcpy(view, blob->data, blob->bytes);
    if (REPLAY_HAS(p->memory, map) && REPLAY_HAS(p->memory, unmap))
        return p->memory->unmap(p->self, r.device, r.allocation, view);
    int32_t status = write_range(p, &r, bytes, view);
    free(view);
    return status;
}

int32_t replay_pin(replay_player *p, const replay_call *s)
{
    const uint64_t page = 4096;
    uint64_t bytes = (s->values[2] + page - 1) / page * page;
    if (!REPLAY_HAS(p->memory, pin) || !REPLAY_HAS(p->memory, unpin)) return TN_OK;
    void *pages = aligned_alloc(page, bytes ? bytes : page);
    tn_memory made = {.size = sizeof(made)};
    int32_t status =
        pages ? p->memory->pin(p->self, replay_here(p, s, 'd', 0), pages, bytes, &made) : TN_E_OUT_OF_MEMORY;
    status = replay_made(p, s, status, 'p', 1, pages);
    if (status)
        free(pages);
    else
        p->handles[p->n_handles - 1].memory = made;
    return status;
}

int32_t replay_unpin(replay_player *p, const replay_call *s)
{
    replay_handle *h = replay_handle_find(p, 'p', s->values[4]); /* device, kind, allocation, offset, host */
    if (!h) return TN_OK;
    p->memory->unpin(p->self, h->device, &h->memory);
    free(h->here);
    replay_handle_remove(p, h);
    return TN_OK;
}
