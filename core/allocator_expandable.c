/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations that grow (the option expandable_segments): a range of addresses as large as the device, of which the
 * plugin gives the beginning memory (memory.reserve and memory.resize). A stream's pool grows one of them instead of
 * asking for many allocations, so that free memory is in one piece wherever its neighbours are free.
 *
 * Memory of captures has allocations of fixed size: a graph keeps them for itself.
 */
#include "core/allocator_history.h"
#include "core/graph.h"

#define UNIT TNI_ALLOCATION_ROUND /* what the contract has as the unit of sizes */

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + UNIT - 1) / UNIT * UNIT;
}

/* As many addresses as the device has memory; 0: its allocations do not grow. */
static uint64_t range_of(const struct tni_allocator *a)
{
    const tni_driver *driver = &a->device->type->driver;
    if (a->is_pinned || !driver->memory.reserve || !driver->memory.resize) return 0;
    return a->device->facts.total_memory / UNIT * UNIT;
}

int32_t tni_expandable_check(const struct tni_allocator *a)
{
    if (range_of(a)) return tni_allocator_check_caching(a, "segments");
    return tni_error(
        TN_E_UNSUPPORTED,
        "memory_configure: expandable_segments is 'True', but plugin %s gives no memory that grows",
        a->device->type->driver.plugin);
}

int32_t tni_is_expandable(struct tni_allocator *a, const tn_stream *stream)
{
    tni_allocator_enter(a);
    int32_t is_wanted = a->options.expandable;
    tni_allocator_leave(a);
    return is_wanted && range_of(a) && !(stream && tni_stream_captures(stream));
}

void tni_expandable_end(struct tni_allocator *a)
{
    const tn_error *why = tn_last_error();
    tni_log(a->device->ctx, TN_LOG_INFO, "expandable_segments has no effect: %s", why ? why->message : "");
    tni_allocator_enter(a);
    a->options.expandable = 0;
    tni_allocator_leave(a);
}

/* The first `bytes` bytes have memory from now on, and no others. */
static int32_t resize(const struct tni_allocator *a, const tn_memory *memory, uint64_t bytes)
{
    const tni_driver *driver = &a->device->type->driver;
    int32_t status = driver->memory.resize(driver->self, a->device->handle, memory->allocation, bytes);
    return status ? tni_driver_error(a->device->type, status, "resizing of device memory") : TN_OK;
}

static int32_t reserve(const struct tni_allocator *a, uint64_t range, uint64_t bytes, tn_memory *out)
{
    const tni_device *d = a->device;
    const tni_driver *driver = &d->type->driver;
    const tn_memory_request request = {.size = sizeof request, .kind = d->memory_kind, .bytes = range};
    int32_t status = driver->memory.reserve(driver->self, d->handle, &request, out);
    if (status) return tni_driver_error(d->type, status, "reservation of addresses");
    status = tni_memory_check(d, "memory.reserve", out, range);
    if (!status) status = resize(a, out, bytes);
    if (status && out->allocation) tni_device_free(a, out);
    return status;
}

int32_t tni_expandable_alloc(struct tni_allocator *a, uint64_t range, uint64_t bytes, tn_memory *out)
{
    tn_memory memory = {.size = sizeof memory};
    int32_t status = tni_reserve_bytes(a, bytes);
    if (status) return status;
    status = reserve(a, range, bytes, &memory);
    if (status) {
        tni_unreserve_bytes(a, bytes);
        return status;
    }
    if (!memory.bytes) memory.bytes = range;
    *out = memory;
    return TN_OK;
}

/* ---- Growing ------------------------------------------------------------------------------------------- */

/* Bytes that are free at the end. */
static uint64_t free_end(const tni_allocation *s)
{
    const tni_block *last = s->first;
    while (last->after) last = last->after;
    return last->state == TNI_BLOCK_FREE ? last->bytes : 0;
}

/* What an allocation must grow by for a block of r->bytes. Blocks that share one are asked for together. */
static uint64_t missing(const tni_allocation *s, const tni_request *r, uint64_t bytes)
{
    return round_up(r->bytes < TNI_LARGE_BLOCK ? bytes : r->bytes - free_end(s));
}

/* An allocation of the request's pool that has addresses left for it, or NULL. */
static tni_allocation *find(struct tni_allocator *a, const tni_request *r, uint64_t bytes)
{
    const tni_pool *pool = tni_pool_find(a, r->stream, r->bytes <= TNI_SMALL_BLOCK);
    tni_allocation *s = a->allocations;
    while (s && (s->pool != pool || s->bytes + missing(s, r, bytes) > s->range)) s = s->next;
    return s;
}

/* Under the lock, which is left meanwhile. */
static int32_t extend(struct tni_allocator *a, tni_allocation *s, uint64_t more)
{
    uint64_t bytes = s->bytes + more;
    tni_block *spare = tni_block_create(a, s);
    if (!spare) return TN_E_OUT_OF_MEMORY;
    s->is_resizing = 1;
    a->busy++;
    tni_allocator_leave(a);
    int32_t status = tni_reserve_bytes(a, more);
    if (!status) {
        status = resize(a, &s->memory, bytes);
        if (status) tni_unreserve_bytes(a, more);
    }
    tni_allocator_enter(a);
    s->is_resizing = 0;
    if (status)
        tni_free(a->device->ctx, spare, sizeof *spare);
    else
        tni_allocation_grown(a, s, more, spare);
    tni_allocator_end_busy(a);
    return status;
}

int32_t tni_expandable_grow(struct tni_allocator *a, const tni_request *r, uint64_t bytes, tni_block **out)
{
    tni_allocator_enter(a);
    int32_t status = tni_central_take(a, r, out);
    tni_allocation *s = NULL;
    while (!status && !*out && (s = find(a, r, bytes))) {
        if (s->is_resizing)
            pthread_cond_wait(&a->quiet, &a->lock);
        else
            status = extend(a, s, missing(s, r, bytes));
        if (!status) status = tni_central_take(a, r, out); /* another thread may have been faster */
    }
    tni_allocator_leave(a);
    if (status || *out) return status;
    return tni_central_grow(a, r, round_up(bytes), range_of(a), out);
}

/* ---- Shrinking ----------------------------------------------------------------------------------------- */

void tni_expandable_cut(struct tni_allocator *a)
{
    for (tni_allocation *s = a->allocations; s; s = s->next) {
        if (!s->range || s->is_resizing || !tni_allocation_cut(a, s, UNIT)) continue;
        s->is_resizing = 1;
        s->next_cut = a->cut;
        a->cut = s;
    }
}

void tni_expandable_finish_cut(struct tni_allocator *a, tni_allocation *list)
{
    for (tni_allocation *s = list; s; s = s->next_cut)
        tni_late_keep(a->device, resize(a, &s->memory, s->bytes), "giving memory back to a device");
}
