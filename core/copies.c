/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of bytes between host memory and devices, and between devices. Each comes after the work of the current
 * stream. The host waits for a copy, unless the program allows it not to (`non_blocking`) and the memory of the host
 * stays where it is, as pinned memory does. What is written to a device from other memory is first copied into pinned
 * memory (staged).
 */
#include <string.h>
#include "core/allocator.h"
#include "core/copies.h"
#include "core/graph.h"
#include "core/profile.h"

/* ---- Host and device ----------------------------------------------------------------------------------- */

static int32_t finish_copy(tni_device *d, int32_t status, const char *what)
{
    const tni_driver *driver = &d->type->driver;
    if (status) return tni_driver_error(d->type, status, what);
    if (d->synchronous) return tni_late_take(d);
    tn_stream *stream = tni_current_stream(d);
    status = driver->stream.synchronize(driver->self, d->handle, stream->handle);
    return tni_late_of_stream(stream, status, what);
}

/* What a copy waits for: nothing, if `is_async`. */
static int32_t end_copy(tni_device *d, int32_t status, int32_t is_async, const char *what)
{
    if (!is_async) return finish_copy(d, status, what);
    return status ? tni_driver_error(d->type, status, what) : TN_OK;
}

/* The pinned memory of a storage; that of another device is ordinary memory for this one. */
static tni_block *pinned_block(const tni_device *d, const tni_storage *storage)
{
    tni_block *block = storage ? tni_storage_pinned(storage) : NULL;
    return block && block->allocator->device == d ? block : NULL;
}

/* As copy slots take it. */
static const tn_memory *pinned_memory(const tni_device *d, const tni_block *block)
{
    return block && block->allocator->device == d ? &block->part_of->memory : NULL;
}

typedef struct host_copy {
    tni_device *device;
    void *allocation;
    uint64_t offset;
    char *host;
    tni_block *block; /* pinned, which `host` is in, or NULL */
    uint64_t bytes;
} host_copy;

static int32_t queue_to_device(const host_copy *c, tn_stream *stream)
{
    const tni_driver *driver = &c->device->type->driver;
    tni_profile_work work;
    int32_t measured = tni_profile_measures(c->device, stream, &work);
    int32_t status =
        driver->copy.host_to_device(driver->self, c->device->handle, c->allocation, c->offset, c->host,
                                    pinned_memory(c->device, c->block), c->bytes, stream->handle);
    if (measured) tni_profile_work_end(c->device, stream, "copy to the device", &work);
    return status;
}

static int32_t queue_to_host(const host_copy *c, tn_stream *stream)
{
    const tni_driver *driver = &c->device->type->driver;
    tni_profile_work work;
    int32_t measured = tni_profile_measures(c->device, stream, &work);
    int32_t status = driver->copy.device_to_host(driver->self, c->device->handle, c->host,
                                                 pinned_memory(c->device, c->block), c->allocation, c->offset,
                                                 c->bytes, stream->handle);
    if (measured) tni_profile_work_end(c->device, stream, "copy to the host", &work);
    return status;
}

/* Copies the bytes into pinned memory, from where the device reads them. TN_E_UNSUPPORTED: there is none. */
static int32_t stage(const host_copy *c, tn_stream *stream)
{
    tni_block *block;
    if (c->bytes > TNI_STAGED_BYTES || !tni_pins_memory(c->device) ||
        tni_pinned_alloc(c->device, c->bytes, &block))
        return TN_E_UNSUPPORTED;
    host_copy staged = *c;
    staged.host = block->host;
    staged.block = block;
    memcpy(staged.host, c->host, c->bytes);
    int32_t status = tni_block_record(block, stream);
    if (!status) {
        status = queue_to_device(&staged, stream);
        if (status) status = tni_driver_error(c->device->type, status, "copy to a device");
    }
    tni_block_free(block);
    return status;
}

/* `storage`: that of the host's memory, or NULL. */
static int32_t to_device(host_copy *c, const tni_storage *storage, int32_t non_blocking)
{
    tn_stream *stream = tni_current_stream(c->device);
    int32_t is_async = non_blocking && !c->device->synchronous;
    int32_t status = tni_capture_refuse(stream, "a copy from the host to the device");
    c->block = pinned_block(c->device, storage);
    if (!status && is_async && !c->block) {
        status = stage(c, stream);
        if (status != TN_E_UNSUPPORTED) return status;
        is_async = 0;
        status = TN_OK;
    }
    if (!status && is_async) status = tni_block_record(c->block, stream);
    return status ? status : end_copy(c->device, queue_to_device(c, stream), is_async, "copy to a device");
}

static int32_t to_host(host_copy *c, const tni_storage *storage, int32_t non_blocking)
{
    tn_stream *stream = tni_current_stream(c->device);
    int32_t status = tni_capture_refuse(stream, "a copy from the device to the host");
    c->block = pinned_block(c->device, storage);
    int32_t is_async = non_blocking && c->block;
    if (!status && is_async) status = tni_block_record(c->block, stream);
    return status ? status : end_copy(c->device, queue_to_host(c, stream), is_async, "copy from a device");
}

int32_t tni_copy_to_device(tni_device *d, void *allocation, uint64_t offset, const void *host, uint64_t bytes)
{
    host_copy c = {d, allocation, offset, (char *)(uintptr_t)host, NULL, bytes};
    return bytes ? to_device(&c, NULL, 0) : TN_OK;
}

int32_t tni_copy_to_host(tni_device *d, void *host, void *allocation, uint64_t offset, uint64_t bytes)
{
    host_copy c = {d, allocation, offset, host, NULL, bytes};
    return bytes ? to_host(&c, NULL, 0) : TN_OK;
}

int32_t tni_upload(tn_tensor *dst, const tn_tensor *cpu, uint64_t bytes, int32_t non_blocking)
{
    host_copy c = {
        dst->storage->device, dst->desc.allocation, dst->desc.byte_offset, cpu->desc.host, NULL, bytes};
    return bytes ? to_device(&c, cpu->storage, non_blocking) : TN_OK;
}

int32_t tni_download(tn_tensor *cpu, const tn_tensor *src, uint64_t bytes, int32_t non_blocking)
{
    host_copy c = {
        src->storage->device, src->desc.allocation, src->desc.byte_offset, cpu->desc.host, NULL, bytes};
    return bytes ? to_host(&c, cpu->storage, non_blocking) : TN_OK;
}

/* ---- Between devices ----------------------------------------------------------------------------------- */

int32_t tni_are_peers(const tni_device *to, const tni_device *from)
{
    uint32_t index = (uint32_t)TN_DEVICE_INDEX(from->id);
    return to->type == from->type && to != from && to->type->driver.copy.peer && index < 64 &&
           to->facts.peers >> index & 1;
}

int32_t tni_copy_peer(const tni_place *to, const tni_place *from, uint64_t bytes)
{
    const tni_driver *driver = &to->device->type->driver;
    tn_stream *stream = tni_current_stream(to->device), *source = tni_current_stream(from->device);
    int32_t status = tni_capture_refuse(stream, "a copy between devices");
    if (!status) status = tni_capture_refuse(source, "a copy between devices");
    if (!status) status = tn_stream_wait_stream(stream, source);
    if (status) return status;
    tni_profile_work work;
    int32_t measured = tni_profile_measures(to->device, stream, &work);
    status = driver->copy.peer(driver->self, to->device->handle, to->allocation, to->offset,
                               from->device->handle, from->allocation, from->offset, bytes, stream->handle);
    if (measured) tni_profile_work_end(to->device, stream, "copy between devices", &work);
    if (status) return tni_driver_error(to->device->type, status, "copy between devices");
    status = tni_stream_order(source, stream); /* what is written or freed there next comes after the copy */
    if (status) tn_stream_synchronize(stream); /* else the copy would still read it */
    return status;
}

int32_t tni_fill_zeros(tni_device *d, void *allocation, uint64_t offset, uint64_t bytes)
{
    const tni_driver *driver = &d->type->driver;
    tn_stream *stream = tni_current_stream(d);
    tni_profile_work work;
    int32_t measured = tni_profile_measures(d, stream, &work);
    int32_t status =
        driver->memory.fill(driver->self, d->handle, allocation, offset, bytes, 0, stream->handle);
    if (measured) tni_profile_work_end(d, stream, "fill with zeros", &work);
    return status ? tni_driver_error(d->type, status, "fill of device memory") : TN_OK;
}

/* One of the two buffers through which a copy between devices goes. */
typedef struct buffer {
    tn_context *ctx;
    tni_block *block; /* pinned; NULL: ordinary memory */
    char *host;
    uint64_t room;
    tn_event *read;    /* the source has written the buffer */
    tn_event *written; /* the target has read it */
} buffer;

typedef struct crossing {
    const tni_place *to, *from;
    tn_stream *target, *source;
    uint64_t bytes;
    buffer buffers[2];
} crossing;

static void free_buffer(buffer *b)
{
    tn_event_release(b->read);
    tn_event_release(b->written);
    tni_block_free(b->block);
    if (!b->block && b->host) tni_free(b->ctx, b->host, b->room);
    *b = (buffer){.block = NULL};
}

static int32_t make_buffer(crossing *c, buffer *b)
{
    tni_device *to = c->to->device, *from = c->from->device;
    /* Of the target, if it has some: the copy waits until the source is read, but not for the target. */
    tni_device *pins = tni_pins_memory(to) ? to : tni_pins_memory(from) ? from : NULL;
    b->ctx = to->ctx;
    b->room = c->bytes < TNI_PIECE_BYTES ? c->bytes : TNI_PIECE_BYTES;
    if (pins && !tni_pinned_alloc(pins, b->room, &b->block))
        b->host = b->block->host;
    else if (!(b->host = tni_alloc(from->ctx, b->room)))
        return TN_E_OUT_OF_MEMORY;
    int32_t status = tni_event_create(from, 0, &b->read);
    return status ? status : tni_event_create(to, 0, &b->written);
}

/* Queues the copy of piece i from the source into its buffer, once the target has read the piece before from it. */
static int32_t fetch_piece(const crossing *c, uint64_t i)
{
    const buffer *b = &c->buffers[i % 2];
    uint64_t at = i * TNI_PIECE_BYTES, left = c->bytes - at;
    const host_copy copy = {c->from->device,
                            c->from->allocation,
                            c->from->offset + at,
                            b->host,
                            b->block,
                            left < TNI_PIECE_BYTES ? left : TNI_PIECE_BYTES};
    int32_t status = tn_event_synchronize(b->written);
    if (!status) status = end_copy(copy.device, queue_to_host(&copy, c->source), 1, "copy from a device");
    return status ? status : tn_event_record(b->read, c->source);
}

static int32_t send_piece(const crossing *c, uint64_t i)
{
    const buffer *b = &c->buffers[i % 2];
    uint64_t at = i * TNI_PIECE_BYTES, left = c->bytes - at;
    const host_copy copy = {c->to->device,      c->to->allocation,
                            c->to->offset + at, b->host,
                            b->block,           left < TNI_PIECE_BYTES ? left : TNI_PIECE_BYTES};
    int32_t status = tn_event_synchronize(b->read);
    if (!status) status = end_copy(copy.device, queue_to_device(&copy, c->target), 1, "copy to a device");
    return status ? status : tn_event_record(b->written, c->target);
}

/* While the target takes a piece, the source gives the next one. */
static int32_t cross(const crossing *c)
{
    uint64_t pieces = (c->bytes + TNI_PIECE_BYTES - 1) / TNI_PIECE_BYTES;
    int32_t status = fetch_piece(c, 0);
    for (uint64_t i = 0; i < pieces && !status; i++) {
        if (i + 1 < pieces) status = fetch_piece(c, i + 1);
        if (!status) status = send_piece(c, i);
    }
    return status;
}

static void release_buffer(void *pointer)
{
    buffer *b = pointer;
    tn_context *ctx = b->ctx;
    free_buffer(b);
    tni_free(ctx, b, sizeof *b);
}

/* The target may still read the buffer. */
static void leave_buffer(crossing *c, buffer *b)
{
    tn_context *ctx = c->to->device->ctx;
    buffer *k = b->host ? tni_alloc(ctx, sizeof *k) : NULL;
    tni_kept *kept = k ? tni_alloc(ctx, sizeof *kept) : NULL;
    if (kept) {
        *k = *b;
        *kept = (tni_kept){.pointer = k, .release = release_buffer};
        tni_release_later(c->target, kept);
        return;
    }
    tni_free(ctx, k, sizeof *k);
    if (b->host) tni_late_keep(c->to->device, tn_stream_synchronize(c->target), "waiting for a stream");
    free_buffer(b);
}

int32_t tni_copy_through_host(const tni_place *to, const tni_place *from, uint64_t bytes)
{
    crossing c = {.to = to,
                  .from = from,
                  .target = tni_current_stream(to->device),
                  .source = tni_current_stream(from->device),
                  .bytes = bytes};
    int32_t status = tni_capture_refuse(c.target, "a copy between devices");
    if (!status) status = tni_capture_refuse(c.source, "a copy between devices");
    if (status || !bytes) return status;
    for (uint32_t i = 0; i < 2 && !status && i * TNI_PIECE_BYTES < bytes; i++)
        status = make_buffer(&c, &c.buffers[i]);
    if (!status) status = cross(&c);
    /* The source may still write the buffers. */
    if (status) tni_late_keep(from->device, tni_device_wait(from->device), "waiting for a device");
    for (uint32_t i = 0; i < 2; i++) leave_buffer(&c, &c.buffers[i]);
    return status;
}
