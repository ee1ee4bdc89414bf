/* SPDX-License-Identifier: Apache-2.0 */
/* Checks handles, ranges and numbers in the arguments of slots, by their notes in the header; see
 * validate.h. */
#include "validate.h"

#include <inttypes.h>

static const shim_argument *argument_at(const shim_call *c, uint32_t i)
{
    return i < c->slot->n_arguments ? &c->slot->arguments[i] : NULL;
}

static int32_t is_handle(shim_kind kind)
{
    return kind == SHIM_DEVICE || kind == SHIM_STREAM || kind == SHIM_EVENT || kind == SHIM_ALLOCATION ||
           kind == SHIM_GRAPH || kind == SHIM_EXECUTABLE || kind == SHIM_COMMUNICATOR;
}

/* A handle that belongs to no device. */
static int32_t is_free(shim_kind kind)
{
    return kind == SHIM_DEVICE || kind == SHIM_COMMUNICATOR;
}

/* The device that argument i belongs to: the last one before it; the stream of `peer` is one of the first. */
static validate_object *device_of(validate_state *v, const shim_call *c, uint32_t i)
{
    if (c->id == SHIM_COPY_PEER && c->slot->arguments[i].kind == SHIM_STREAM) i = 1;
    while (i-- > 0) {
        if (c->slot->arguments[i].kind != SHIM_DEVICE || c->slot->arguments[i].notes & SHIM_OUT) continue;
        validate_object *o = validate_find(v, c->plugin, SHIM_DEVICE, c->values[i].pointer, NULL);
        return o && o->alive ? o : NULL;
    }
    return NULL;
}

validate_object *validate_argument(validate_state *v, const shim_call *c, uint32_t i)
{
    shim_kind kind = c->slot->arguments[i].kind;
    const validate_object *device = is_free(kind) ? NULL : device_of(v, c, i);
    if (!is_free(kind) && !device) return NULL;
    /* An event may be one of another device of the plugin, for streams that wait. */
    if (kind == SHIM_EVENT && c->id == SHIM_STREAM_WAIT_EVENT) device = NULL;
    validate_object *o = validate_find(v, c->plugin, kind, c->values[i].pointer, device);
    return o && o->alive ? o : NULL;
}

/* ---- Handles ----------------------------------------------------------------------------------------- */

static void say_dead(const shim_call *c, const shim_argument *a, const validate_object *o)
{
    int32_t memory = a->kind == SHIM_ALLOCATION, again = (a->notes & SHIM_TAKES) != 0;
    const char *kind = again ? (memory ? "double-free" : "double-destroy")
                             : (memory ? "use-after-free" : "use-after-destroy");
    validate_say(c, kind, &o->ended, "%s: argument '%s' is %s that was %s before", c->slot->name, a->name,
                 validate_a(a->kind),
                 memory                   ? "freed"
                 : a->kind == SHIM_DEVICE ? "closed"
                                          : "destroyed");
}

/* Reports why a used handle is not valid. */
static void say_not_alive(validate_state *v, const shim_call *c, uint32_t i)
{
    const shim_argument *a = argument_at(c, i);
    const void *handle = c->values[i].pointer;
    const validate_object *device = is_free(a->kind) ? NULL : device_of(v, c, i);
    const validate_object *o = validate_find(v, c->plugin, a->kind, handle, NULL);
    if (o && o->alive && o->device != device) {
        validate_say(c, "wrong-device", &o->made, "%s: argument '%s' is the %s of another device",
                     c->slot->name, a->name, validate_kind_name(a->kind));
        return;
    }
    if (o) {
        say_dead(c, a, o);
        return;
    }
    o = validate_find_anywhere(v, a->kind, handle);
    if (o)
        validate_say(c, "wrong-plugin", &o->made, "%s: argument '%s' is %s of plugin %s", c->slot->name,
                     a->name, validate_a(a->kind), o->plugin->info->name);
    else
        validate_say(c, "unknown-handle", NULL, "%s: argument '%s' is not a known %s of this plugin",
                     c->slot->name, a->name, validate_kind_name(a->kind));
}

static void check_handle(validate_state *v, const shim_call *c, uint32_t i)
{
    const shim_argument *a = argument_at(c, i);
    if (!c->values[i].pointer) {
        if (!(a->notes & SHIM_NULLABLE))
            validate_say(c, "null-handle", NULL, "%s: argument '%s' is NULL", c->slot->name, a->name);
        return;
    }
    if (!is_free(a->kind) && !device_of(v, c, i)) return; /* reported for the device */
    if (!validate_argument(v, c, i)) say_not_alive(v, c, i);
}

/* ---- Ranges and numbers ------------------------------------------------------------------------------ */

int32_t validate_range(const shim_call *c, const validate_object *o, const char *what, uint64_t offset,
                       uint64_t bytes)
{
    if (offset <= o->bytes && bytes <= o->bytes - offset) return 1;
    validate_say(c, "out-of-range", &o->made,
                 "%s of %s spans bytes %" PRIu64 " to %" PRIu64 " of an allocation of %" PRIu64, what,
                 c->op ? c->op : c->slot->name, offset, offset + bytes, o->bytes);
    return 0;
}

static uint64_t bytes_of(const shim_call *c)
{
    for (uint32_t i = 0; i < c->slot->n_arguments; i++) {
        if (c->slot->arguments[i].kind == SHIM_BYTES) return c->values[i].number;
    }
    return 0;
}

static void check_allocation(validate_state *v, const shim_call *c, uint32_t i)
{
    const validate_object *o = validate_argument(v, c, i);
    const shim_argument *next = argument_at(c, i + 1);
    if (!o) return;
    if (c->id == SHIM_MEMORY_FREE && !o->by_plugin && c->values[i + 1].number + bytes_of(c) != o->bytes)
        validate_say(c, "wrong-size", &o->made,
                     "the host frees an allocation of %" PRIu64 " bytes as one of %" PRIu64, o->bytes,
                     c->values[i + 1].number + bytes_of(c));
    if (next && next->kind == SHIM_OFFSET)
        validate_range(c, o, c->slot->arguments[i].name, c->values[i + 1].number, bytes_of(c));
}

/* Copies within one allocation must not overlap. */
static void check_overlap(const shim_call *c)
{
    const shim_value *a = c->values; /* device, to, to_offset, from, from_offset, bytes */
    uint64_t to = a[2].number, from = a[4].number, bytes = a[5].number;
    if (a[1].pointer == a[3].pointer && to < from + bytes && from < to + bytes)
        validate_say(c, "overlap", NULL, "the host copies %" PRIu64 " bytes onto a part of themselves",
                     bytes);
}

static void check_numbers(validate_state *v, const shim_call *c)
{
    const shim_value *a = c->values;
    for (uint32_t i = 0; i < c->slot->n_arguments; i++) {
        if (c->slot->arguments[i].kind == SHIM_BYTES && !a[i].number)
            validate_say(c, "zero-bytes", NULL, "the host asks %s for 0 bytes", c->slot->name);
    }
    if (c->id == SHIM_MEMORY_FILL && a[4].number > 255)
        validate_say(c, "bad-value", NULL, "the host fills bytes with %" PRIu64, a[4].number);
    if (c->id == SHIM_EVENT_CREATE && a[1].number & ~(uint64_t)(TN_EVENT_TIMING | TN_EVENT_INTERPROCESS))
        validate_say(c, "unknown-flags", NULL, "the host makes an event with flags 0x%" PRIx64, a[1].number);
    if (c->id == SHIM_COPY_DEVICE_TO_DEVICE) check_overlap(c);
    if (c->id == SHIM_MEMORY_ALLOC || c->id == SHIM_MEMORY_RESERVE) {
        const validate_object *device = validate_argument(v, c, 0);
        uint64_t kind = a[1].number;
        if (device && (!(kind & device->kinds) || (kind & (kind - 1))))
            validate_say(c, "unknown-kind", NULL,
                         "the host asks for memory of kind 0x%" PRIx64 "; the facts list 0x%x", kind,
                         device->kinds);
    }
}

static void take_handle(validate_state *v, const shim_call *c, uint32_t i)
{
    validate_object *o = validate_argument(v, c, i);
    if (!o) return;
    if (o->kind == SHIM_ALLOCATION && !o->by_plugin) validate_unused(v, c, o);
    if (o->kind == SHIM_STREAM) validate_stream_ended(v, c, o);
    if (o->kind == SHIM_DEVICE) validate_leaks(v, c, o);
    if (o->kind == SHIM_EXECUTABLE && o->known && v->host_known.at[o->clock] < o->last_task)
        validate_say(c, "destroyed-in-use", &o->made,
                     "the host destroys an executable whose last launch it has "
                     "not seen finish");
    validate_ended(v, c, o);
}

void validate_arguments(validate_state *v, shim_call *c)
{
    const uint32_t n = c->slot->n_arguments;
    for (uint32_t i = 0; i < n; i++) {
        const shim_argument *a = &c->slot->arguments[i];
        if (a->notes & SHIM_OUT) continue;
        if (is_handle(a->kind)) check_handle(v, c, i);
        if (a->kind == SHIM_ALLOCATION) check_allocation(v, c, i);
    }
    check_numbers(v, c);
    validate_check_capture(v, c);
    validate_ranks(v, c, 0);
    if (c->id == SHIM_STREAM_HOST_CALLBACK) {
        validate_object *stream = validate_argument(v, c, 1);
        if (stream && stream->known) {
            c->mark = validate_task(v, stream);
            c->note = (void *)(uintptr_t)(stream->clock + 1u);
        }
    }
    if (c->id == SHIM_STREAM_QUERY || c->id == SHIM_STREAM_SYNCHRONIZE) {
        const validate_object *stream = validate_argument(v, c, 1);
        if (stream) c->mark = validate_last_task(stream);
    }
    /* Before the slot runs: afterwards another thread may get the same handle. */
    for (uint32_t i = 0; i < n; i++) {
        if (is_handle(c->slot->arguments[i].kind) && c->slot->arguments[i].notes & SHIM_TAKES)
            take_handle(v, c, i);
    }
}

/* ---- Results ----------------------------------------------------------------------------------------- */

static void *out_pointer(const shim_call *c, uint32_t i)
{
    void *value;
    memcpy(&value, c->values[i].pointer, sizeof(value));
    return value;
}

static void note_allocation(const shim_call *c, validate_object *o, uint32_t i)
{
    uint64_t offset, given, end;
    memcpy(&offset, c->values[i + 1].pointer, sizeof(offset)); /* allocation, offset, host, address, bytes */
    memcpy(&given, c->values[i + 4].pointer, sizeof(given));
    end = offset + (given > bytes_of(c) ? given : bytes_of(c));
    if (c->id == SHIM_ALLOCATOR_ALLOC ||
        c->id == SHIM_INTEROP_IMPORT_POINTER) { /* may be part of a larger allocation */
        o->by_plugin = 1;
        o->bytes = o->bytes > end ? o->bytes : end;
        return;
    }
    if (o->alive > 1)
        validate_say(c, "duplicate-handle", &o->made, "%s gives a handle that is already in use",
                     c->slot->name);
    o->bytes = end;
    o->host = out_pointer(c, i + 1);
}

static void made(validate_state *v, const shim_call *c, uint32_t i)
{
    const shim_kind kind = c->slot->arguments[i].kind;
    void *handle = out_pointer(c, i);
    validate_object *device = is_free(kind) ? NULL : device_of(v, c, i);
    if (!handle) {
        validate_say(c, "null-handle", NULL, "%s succeeds and gives no %s", c->slot->name,
                     validate_kind_name(kind));
        return;
    }
    if (!is_free(kind) && !device) return;
    validate_object *o = validate_made(v, c, kind, handle, device);
    if (!o) return;
    if (kind == SHIM_ALLOCATION) note_allocation(c, o, i);
    if (c->id == SHIM_EVENT_CREATE) o->flags = (uint32_t)c->values[1].number;
    if (kind == SHIM_STREAM) {
        uint64_t id = device->n_streams++;
        if (o->alive == 1) o->id = id;
        validate_stream_made(v, o);
    }
}

/* Notes what the host has waited for, and what streams wait for. */
static void note_order(validate_state *v, const shim_call *c)
{
    int32_t done = 1;
    validate_object *o =
        c->slot->n_arguments > 1 && is_handle(c->slot->arguments[1].kind) ? validate_argument(v, c, 1) : NULL;
    validate_object *other = c->slot->n_arguments > 2 && is_handle(c->slot->arguments[2].kind) &&
                                     !(c->slot->arguments[2].notes & SHIM_OUT)
                                 ? validate_argument(v, c, 2)
                                 : NULL;
    if (c->id == SHIM_STREAM_QUERY || c->id == SHIM_EVENT_QUERY)
        memcpy(&done, c->values[2].pointer, sizeof(done));
    if (c->id == SHIM_DEVICE_SYNCHRONIZE && (o = validate_argument(v, c, 0)))
        validate_seen_device(v, o);
    else if (!o)
        return;
    else if (c->id == SHIM_STREAM_SYNCHRONIZE || (c->id == SHIM_STREAM_QUERY && done))
        validate_seen_stream(v, o, c->mark);
    else if (c->id == SHIM_EVENT_SYNCHRONIZE || (c->id == SHIM_EVENT_QUERY && done))
        validate_seen_event(v, o);
    else if (c->id == SHIM_EVENT_RECORD && other)
        validate_recorded(v, o, other);
    else if (c->id == SHIM_STREAM_WAIT_EVENT && other)
        validate_waits(o, other);
}

void validate_results(validate_state *v, shim_call *c)
{
    for (uint32_t i = 0; i < c->slot->n_arguments; i++) {
        const shim_argument *a = &c->slot->arguments[i];
        if (a->notes & SHIM_OUT && is_handle(a->kind)) made(v, c, i);
    }
    note_order(v, c);
    validate_graphs(v, c, 0);
    validate_ranks(v, c, 1);
    validate_accesses(v, c);
}

/* ---- Accesses of copies and fills -------------------------------------------------------------------- */

/* Which arguments are read or written; -1: none. */
typedef struct transfer {
    int32_t writes;
    int32_t reads;
} transfer;

static transfer transfer_of(uint32_t id)
{
    switch (id) {
    case SHIM_MEMORY_FILL:
        return (transfer){1, -1};
    case SHIM_COPY_HOST_TO_DEVICE:
        return (transfer){1, -1};
    case SHIM_COPY_DEVICE_TO_HOST:
        return (transfer){-1, 3};
    case SHIM_COPY_DEVICE_TO_DEVICE:
        return (transfer){1, 3};
    case SHIM_COPY_PEER:
        return (transfer){1, 4};
    default:
        return (transfer){-1, -1};
    }
}

static void access_argument(validate_state *v, const shim_call *c, int32_t i, validate_object *stream,
                            uint32_t writes)
{
    validate_object *o = i < 0 ? NULL : validate_argument(v, c, (uint32_t)i);
    if (!o) return;
    uint64_t from = c->values[i + 1].number;
    validate_access_range(v, c, o, stream, from, from + bytes_of(c), 0, writes);
}

/* The stream that a slot's work goes to: its last argument. */
static validate_object *stream_of(validate_state *v, const shim_call *c)
{
    uint32_t last = c->slot->n_arguments - 1;
    return c->slot->arguments[last].kind == SHIM_STREAM ? validate_argument(v, c, last) : NULL;
}

void validate_accesses(validate_state *v, const shim_call *c)
{
    const transfer t = transfer_of(c->id);
    if (t.writes < 0 && t.reads < 0) return;
    validate_object *stream = stream_of(v, c);
    if (!stream || !stream->known) return;
    validate_task(v, stream);
    access_argument(v, c, t.reads, stream, 0);
    access_argument(v, c, t.writes, stream, 1);
}
