/* SPDX-License-Identifier: Apache-2.0 */
/* See fake_driver.h. */
#include "fake_driver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct fake_block {
    char *data;
    uint64_t bytes;
    int32_t grows; /* `data` has addresses for `bytes`, and memory for `given` */
    uint64_t given;
} fake_block;
typedef struct fake_stream {
    _Atomic uint64_t submitted, completed;
    struct {
        void (*callback)(void *user);
        void *user;
    } callbacks[8]; /* called when the work has finished */
    _Atomic int32_t n_callbacks;
    int32_t captures;
} fake_stream;
typedef struct fake_event {
    fake_stream *stream;
    uint64_t point;
} fake_event;

static int32_t is_host(const fake *f)
{
    return f->device_class == TN_DEVICE_HOST;
}

/* Each slot begins with it. */
static fake *called(void *self)
{
    fake *f = self;
    if (f->forbidden && pthread_mutex_trylock(f->forbidden))
        f->under_lock++;
    else if (f->forbidden)
        pthread_mutex_unlock(f->forbidden);
    return f;
}

/* Counts down to 0 and no further, on several threads; 1 for the call that comes to 0. */
static int32_t is_last(_Atomic int32_t *count)
{
    int32_t n = atomic_load(count);
    while (n > 0 && !atomic_compare_exchange_weak(count, &n, n - 1)) continue;
    return n == 1;
}

static int32_t fails(fake *f)
{
    if (!is_last(&f->fail_slot)) return 0;
    f->failed_with = TN_E_INTERNAL;
    return 1;
}

/* Most slots begin with it: a slot that has to fail ends here. */
#define ENTER(f)            \
    fake *f = called(self); \
    if (fails(f)) return f->failed_with

/* 1: a slot that makes something gives nothing. */
static int32_t is_empty(fake *f)
{
    return is_last(&f->empty_slot);
}

/* The host reads and writes memory of this kind. */
static int32_t is_shown(const fake *f, uint32_t kind)
{
    return is_host(f) || kind == TN_MEMORY_HOST;
}

/* All that is on the stream has finished. */
static void complete(fake_stream *s)
{
    s->completed = (uint64_t)s->submitted;
    const int32_t n = atomic_exchange(&s->n_callbacks, 0); /* several threads may wait for the stream */
    for (int32_t i = 0; i < n; i++) s->callbacks[i].callback(s->callbacks[i].user);
}

static int32_t enumerate(void *self, uint32_t *out_count, const char **out_reason)
{
    fake *f = called(self);
    f->enumerated++;
    if (f->enumerate_status) return f->enumerate_status;
    *out_count = f->count;
    *out_reason = f->reason;
    return TN_OK;
}

static int32_t facts(void *self, uint32_t index, tn_device_facts *out)
{
    fake *f = self;
    out->device_class = f->device_class;
    out->memory_kinds = is_host(f) ? TN_MEMORY_HOST : TN_MEMORY_DEVICE;
    if (f->gives_pinned) out->memory_kinds |= TN_MEMORY_HOST;
    out->total_memory = f->memory;
    out->flops_f32 = f->flops;
    out->priority_low = 0;
    out->priority_high = -2;
    out->peers = f->are_peers ? ~0ull : 0;
    strcpy(out->name, "fake");
    return TN_OK;
}

static int32_t device_open(void *self, uint32_t index, const tn_device_options *options, void **out_device)
{
    ENTER(f);
    if (is_empty(f)) return TN_OK;
    f->opened++;
    *out_device = self;
    return TN_OK;
}

static void device_close(void *self, void *device)
{
    fake *f = called(self);
    f->closed++;
    if (f->closed == f->opened && (f->live_allocations || f->live_streams || f->live_events ||
                                   f->live_graphs || f->live_executables || f->live_maps || f->live_pins))
        f->breaches++;
}

/* A new block is what the plugin gives. */
static void show(fake *f, fake_block *b, const tn_memory_request *request, tn_memory *out)
{
    f->allocations++;
    f->live_allocations++;
    out->kind = request->kind;
    out->allocation = b;
    out->host = is_shown(f, request->kind) ? b->data : NULL;
    out->bytes = b->bytes;
    out->state = b;
}

static int32_t memory_alloc(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    ENTER(f);
    uint64_t bytes = request->bytes;
    if (f->memory && bytes > f->memory - f->used) return TN_E_OUT_OF_MEMORY;
    if (is_empty(f)) return TN_OK;
    fake_block *b = malloc(sizeof *b);
    if (posix_memalign((void **)&b->data, 64, bytes)) abort();
    *b = (fake_block){.data = b->data, .bytes = bytes, .given = bytes};
    f->used += bytes;
    show(f, b, request, out);
    return TN_OK;
}

static int32_t memory_reserve(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    fake *f = called(self);
    if (f->grows == 2) return TN_E_UNSUPPORTED;
    if (fails(f)) return f->failed_with;
    if (is_empty(f)) return TN_OK;
    if (request->bytes % FAKE_UNIT) f->breaches++;
    fake_block *b = malloc(sizeof *b);
    *b = (fake_block){.bytes = request->bytes, .grows = 1};
    b->data = mmap(NULL, b->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (b->data == MAP_FAILED) abort();
    show(f, b, request, out);
    return TN_OK;
}

static int32_t memory_resize(void *self, void *device, void *allocation, uint64_t bytes)
{
    fake *f = called(self);
    fake_block *b = allocation;
    f->resizes++;
    if (!b->grows || bytes % FAKE_UNIT || bytes > b->bytes || bytes == b->given) f->breaches++;
    if (fails(f)) return f->failed_with;
    if (bytes > b->given && f->memory && bytes - b->given > f->memory - f->used) return TN_E_OUT_OF_MEMORY;
    f->used += bytes - b->given;
    b->given = bytes;
    mprotect(b->data, b->bytes, PROT_NONE);
    mprotect(b->data, bytes, PROT_READ | PROT_WRITE);
    return TN_OK;
}

static void memory_free(void *self, void *device, const tn_memory *memory)
{
    fake *f = called(self);
    fake_block *b = memory->allocation;
    if (b->bytes != memory->bytes || memory->state != b ||
        memory->host != (is_shown(f, memory->kind) ? b->data : NULL))
        f->breaches++;
    f->used -= b->given;
    f->live_allocations--;
    if (b->grows)
        munmap(b->data, b->bytes);
    else
        free(b->data);
    free(b);
}

static int32_t memory_info(void *self, void *device, uint64_t *out_free, uint64_t *out_total)
{
    fake *f = called(self);
    *out_free = f->memory - f->used;
    *out_total = f->memory;
    return TN_OK;
}

static int32_t memory_trim(void *self, void *device)
{
    called(self)->trims++;
    return TN_OK;
}

static int32_t memory_pin(void *self, void *device, void *host, uint64_t bytes, tn_memory *out)
{
    ENTER(f);
    if ((uintptr_t)host % 4096 || bytes % 4096) f->breaches++;
    f->live_pins++;
    out->kind = TN_MEMORY_HOST;
    out->state = host;
    return TN_OK;
}

static void memory_unpin(void *self, void *device, const tn_memory *memory)
{
    fake *f = called(self);
    if (memory->state != memory->host) f->breaches++;
    f->live_pins--;
}

/* The host's side of a copy. */
static void note_pinned(fake *f, const void *host, const tn_memory *pinned, uint64_t bytes)
{
    if (!pinned) return;
    const char *first = pinned->host, *at = host;
    f->pinned_copies++;
    if (at < first || at + bytes > first + pinned->bytes) f->breaches++;
}

static int32_t host_to_device(void *self, void *device, void *allocation, uint64_t offset, const void *host,
                              const tn_memory *pinned, uint64_t bytes, void *stream)
{
    ENTER(f);
    note_pinned(f, host, pinned, bytes);
    memcpy(((fake_block *)allocation)->data + offset, host, bytes);
    return TN_OK;
}

static int32_t device_to_host(void *self, void *device, void *host, const tn_memory *pinned, void *allocation,
                              uint64_t offset, uint64_t bytes, void *stream)
{
    ENTER(f);
    note_pinned(f, host, pinned, bytes);
    memcpy(host, ((fake_block *)allocation)->data + offset, bytes);
    return TN_OK;
}

static int32_t device_to_device(void *self, void *device, void *to, uint64_t to_offset, void *from,
                                uint64_t from_offset, uint64_t bytes, void *stream)
{
    ENTER(f);
    memmove(((fake_block *)to)->data + to_offset, ((fake_block *)from)->data + from_offset, bytes);
    return TN_OK;
}

static int32_t stream_create(void *self, void *device, const tn_stream_options *options, void **out_stream)
{
    ENTER(f);
    if (is_empty(f)) return TN_OK;
    f->streams++;
    f->live_streams++;
    *out_stream = calloc(1, sizeof(fake_stream));
    return TN_OK;
}

static void stream_destroy(void *self, void *device, void *stream)
{
    fake *f = called(self);
    fake_stream *s = stream;
    if (s->completed != s->submitted && !f->failed_with) f->breaches++;
    f->live_streams--;
    free(s);
}

static int32_t stream_query(void *self, void *device, void *stream, int32_t *out_done)
{
    ENTER(f);
    fake_stream *s = stream;
    *out_done = s->completed == s->submitted;
    return TN_OK;
}

static int32_t stream_synchronize(void *self, void *device, void *stream)
{
    ENTER(f);
    fake_stream *s = stream;
    f->synchronizes++;
    if (s->captures) f->breaches++;
    complete(s);
    return TN_OK;
}

static int32_t stream_wait_event(void *self, void *device, void *stream, void *event)
{
    ENTER(f);
    f->waits++;
    return TN_OK;
}

static int32_t device_native(void *self, void *device, uint32_t kind, void *handle, uint64_t *out)
{
    (void)called(self);
    if (kind == TN_NATIVE_CONTEXT) return TN_E_UNSUPPORTED;
    *out = kind == TN_NATIVE_DEVICE ? 0 : (uint64_t)(uintptr_t)handle;
    return TN_OK;
}

static int32_t event_create(void *self, void *device, uint32_t flags, void **out_event)
{
    ENTER(f);
    if (is_empty(f)) return TN_OK;
    f->events++;
    f->live_events++;
    *out_event = calloc(1, sizeof(fake_event));
    return TN_OK;
}

static void event_destroy(void *self, void *device, void *event)
{
    called(self)->live_events--;
    free(event);
}

static int32_t event_record(void *self, void *device, void *event, void *stream)
{
    ENTER(f);
    fake_event *e = event;
    e->stream = stream;
    e->point = e->stream->submitted;
    return TN_OK;
}

static int32_t event_query(void *self, void *device, void *event, int32_t *out_done)
{
    ENTER(f);
    fake_event *e = event;
    *out_done = e->stream->completed >= e->point;
    return TN_OK;
}

static int32_t event_synchronize(void *self, void *device, void *event)
{
    ENTER(f);
    fake_event *e = event;
    if (e->stream->completed < e->point) e->stream->completed = e->point;
    return TN_OK;
}

static int32_t event_elapsed(void *self, void *device, void *start, void *end, double *out_ms)
{
    ENTER(f);
    *out_ms = (double)(((fake_event *)end)->point - ((fake_event *)start)->point);
    return TN_OK;
}

static int32_t own_alloc(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    return memory_alloc(self, device, request, out);
}

static void own_free(void *self, void *device, const tn_memory *memory, void *stream)
{
    memory_free(self, device, memory);
}

static int32_t host_callback(void *self, void *device, void *stream, void (*callback)(void *user), void *user)
{
    ENTER(f);
    fake_stream *s = stream;
    if (s->n_callbacks == 8) abort();
    s->callbacks[s->n_callbacks].callback = callback;
    s->callbacks[s->n_callbacks++].user = user;
    if (s->completed == s->submitted) complete(s);
    return TN_OK;
}

static int32_t memory_map(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                          uint32_t flags, void **out_host)
{
    ENTER(f);
    if (is_empty(f)) return TN_OK;
    f->live_maps++;
    *out_host = ((fake_block *)allocation)->data + offset;
    return TN_OK;
}

static int32_t memory_unmap(void *self, void *device, void *allocation, void *host)
{
    ENTER(f);
    f->live_maps--;
    return TN_OK;
}

static int32_t memory_fill(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                           uint32_t value, void *stream)
{
    ENTER(f);
    memset(((fake_block *)allocation)->data + offset, (int)value, bytes);
    return TN_OK;
}

static int32_t copy_peer(void *self, void *to_device, void *to, uint64_t to_offset, void *from_device,
                         void *from, uint64_t from_offset, uint64_t bytes, void *stream)
{
    fake *f = called(self);
    f->peer_copies++;
    return device_to_device(self, to_device, to, to_offset, from, from_offset, bytes, stream);
}

/* ---- Other processes: the handle is an address, so that the exporter must keep its object ----------------- */

static int32_t export_memory(void *self, void *device, void *allocation, tn_process_handle *out)
{
    ENTER(f);
    memcpy(out->id, &allocation, sizeof allocation);
    out->bytes = ((fake_block *)allocation)->bytes;
    return TN_OK;
}

static int32_t import_memory(void *self, void *device, const tn_process_handle *handle, tn_memory *out)
{
    ENTER(f);
    fake_block *b;
    if (is_empty(f)) return TN_OK;
    memcpy(&b, handle->id, sizeof b);
    out->kind = TN_MEMORY_DEVICE;
    out->allocation = malloc(sizeof *b);
    *(fake_block *)out->allocation = *b;
    out->bytes = b->bytes;
    f->live_maps++;
    return TN_OK;
}

static void release_memory(void *self, void *device, const tn_memory *memory)
{
    called(self)->live_maps--;
    free(memory->allocation);
}

static int32_t export_event(void *self, void *device, void *event, tn_process_handle *out)
{
    ENTER(f);
    memcpy(out->id, &event, sizeof event);
    return TN_OK;
}

static int32_t import_event(void *self, void *device, const tn_process_handle *handle, void **out_event)
{
    ENTER(f);
    fake_event *e;
    if (is_empty(f)) return TN_OK;
    memcpy(&e, handle->id, sizeof e);
    f->live_events++;
    *out_event = malloc(sizeof *e);
    *(fake_event *)*out_event = *e;
    return TN_OK;
}

/* There is no queue 0. */
static int32_t stream_wrap(void *self, void *device, uint64_t native, void **out_stream)
{
    return native ? stream_create(self, device, NULL, out_stream) : TN_E_ARGUMENT;
}

/* The vendor's stream is one of ours. */
static int32_t wait_native(void *self, void *device, uint64_t native, void *event)
{
    return stream_wait_event(self, device, (void *)(uintptr_t)native, event);
}

/* ---- Graphs: what is captured is not run ---------------------------------------------------------------- */

static int32_t graph_begin(void *self, void *device, void *stream)
{
    ENTER(f);
    ((fake_stream *)stream)->captures = 1;
    return TN_OK;
}

static int32_t graph_end(void *self, void *device, void *stream, void **out_graph)
{
    fake *f = called(self);
    ((fake_stream *)stream)->captures = 0;
    if (fails(f)) return f->failed_with;
    if (is_empty(f)) return TN_OK;
    f->live_graphs++;
    *out_graph = calloc(1, 1);
    return TN_OK;
}

static void graph_destroy(void *self, void *device, void *graph)
{
    called(self)->live_graphs--;
    free(graph);
}

static int32_t graph_instantiate(void *self, void *device, void *graph, const tn_graph_options *options,
                                 void **out_executable)
{
    ENTER(f);
    if (is_empty(f)) return TN_OK;
    f->live_executables++;
    *out_executable = calloc(1, 1);
    return TN_OK;
}

static int32_t graph_launch(void *self, void *device, void *executable, void *stream)
{
    ENTER(f);
    f->launches++;
    ((fake_stream *)stream)->submitted++;
    return TN_OK;
}

static int32_t graph_update(void *self, void *device, void *executable, void *graph)
{
    fake *f = called(self);
    return fails(f) ? f->failed_with : f->graph_update_status;
}

static void graph_destroy_executable(void *self, void *device, void *executable)
{
    called(self)->live_executables--;
    free(executable);
}

/* ---- Collectives: calls are counted, nothing is computed -------------------------------------------------- */

static int32_t supports(void *self, tn_dtype dtype, uint32_t reduction)
{
    (void)called(self);
    return dtype != TN_FLOAT8_E4M3FN;
}

static int32_t unique_id(void *self, void *id, uint64_t room, uint64_t *out_bytes)
{
    ENTER(f);
    if (room < 4) return TN_E_ARGUMENT;
    memcpy(id, "fake", 4);
    *out_bytes = 4;
    return TN_OK;
}

static int32_t communicator_create(void *self, const tn_communicator_options *options, void **out)
{
    ENTER(f);
    if (is_empty(f)) return TN_OK;
    f->live_communicators++;
    *out = calloc(1, 1);
    return TN_OK;
}

static void communicator_destroy(void *self, void *communicator)
{
    called(self)->live_communicators--;
    free(communicator);
}

static int32_t communicator_status(void *self, void *communicator)
{
    fake *f = called(self);
    return fails(f) ? f->failed_with : TN_OK;
}

static int32_t collective(void *self)
{
    ENTER(f);
    f->collectives++;
    return TN_OK;
}

static int32_t reduce(void *self, void *communicator, const tn_collective_rank *ranks, uint32_t rank_bytes,
                      uint64_t count, tn_dtype dtype, uint32_t reduction)
{
    return collective(self);
}

static int32_t broadcast(void *self, void *communicator, const tn_collective_rank *ranks, uint32_t rank_bytes,
                         uint64_t bytes, uint32_t root)
{
    return collective(self);
}

static int32_t exchange(void *self, void *communicator, const tn_collective_rank *ranks, uint32_t rank_bytes,
                        uint64_t bytes)
{
    return collective(self);
}

static int32_t barrier(void *self, void *communicator, const tn_collective_rank *ranks, uint32_t rank_bytes)
{
    return collective(self);
}

static void add_optional(tni_driver *d, const fake *f)
{
    if (f->has_callbacks) d->stream.host_callback = host_callback;
    if (f->are_peers) d->copy.peer = copy_peer;
    if (f->has_maps) {
        d->memory.map = memory_map;
        d->memory.unmap = memory_unmap;
    }
    if (f->grows) {
        d->memory.reserve = memory_reserve;
        d->memory.resize = memory_resize;
    }
    if (f->pins_pages) {
        d->memory.pin = memory_pin;
        d->memory.unpin = memory_unpin;
    }
    if (f->has_interop) d->stream.wrap = stream_wrap;
    if (f->has_interop)
        d->interop = (tn_interop_interface){.size = sizeof d->interop,
                                            .wait_native = wait_native,
                                            .release_memory = release_memory,
                                            .export_memory = export_memory,
                                            .import_memory = import_memory,
                                            .export_event = export_event,
                                            .import_event = import_event};
    if (f->has_graphs)
        d->graph = (tn_graph_interface){sizeof d->graph,
                                        0,
                                        graph_begin,
                                        graph_end,
                                        graph_destroy,
                                        graph_instantiate,
                                        graph_launch,
                                        graph_update,
                                        graph_destroy_executable};
    if (f->has_collectives)
        d->collectives = (tn_collectives_interface){.size = sizeof d->collectives,
                                                    .supports = supports,
                                                    .unique_id = unique_id,
                                                    .create = communicator_create,
                                                    .destroy = communicator_destroy,
                                                    .status = communicator_status,
                                                    .abort = communicator_status,
                                                    .all_reduce = reduce,
                                                    .broadcast = broadcast,
                                                    .all_gather = exchange,
                                                    .reduce_scatter = reduce,
                                                    .all_to_all = exchange,
                                                    .barrier = barrier};
}

tni_driver fake_driver(fake *f)
{
    tni_driver d = {
        .plugin = "fake",
        .self = f,
        .device = {sizeof d.device, 0, f->type, enumerate, facts, device_open, device_close, NULL, NULL,
                   device_native},
        .memory = TN_INTERFACE(tn_memory_interface, .alloc = memory_alloc, .free = memory_free,
                               .fill = memory_fill, .info = memory_info, .trim = memory_trim),
        .copy = {sizeof d.copy, 0, host_to_device, device_to_host, device_to_device, NULL},
        .stream = {sizeof d.stream, 0, stream_create, stream_destroy, stream_query, stream_synchronize,
                   stream_wait_event, NULL, NULL},
    };
    if (!f->no_events)
        d.event = (tn_event_interface){sizeof d.event, 0,           event_create,      event_destroy,
                                       event_record,   event_query, event_synchronize, event_elapsed};
    if (f->own_allocator) d.allocator = (tn_allocator_interface){sizeof d.allocator, 0, own_alloc, own_free};
    add_optional(&d, f);
    return d;
}

tn_context *fake_context(fake *cpu, fake *second)
{
    tn_context *ctx = NULL;
    tn_context_options options = {.size = sizeof options, .flags = TN_CONTEXT_NO_DISCOVERY};
    if (tn_context_create(&options, &ctx)) return NULL;
    tni_driver d;
    if (cpu) {
        if (!cpu->type) *cpu = (fake){.type = "cpu", .count = 1};
        d = fake_driver(cpu);
        if (tni_device_type_add(ctx, &d)) return NULL;
    }
    if (second) {
        d = fake_driver(second);
        if (tni_device_type_add(ctx, &d)) return NULL;
    }
    return ctx;
}

void fake_work(tn_stream *stream)
{
    ((fake_stream *)stream->handle)->submitted++;
}

void fake_finish(tn_stream *stream)
{
    complete(stream->handle);
}

void *fake_address(const tn_tensor *t)
{
    return ((fake_block *)t->desc.allocation)->data + t->desc.byte_offset;
}

static void *counting_alloc(void *user, uint64_t bytes)
{
    counting *c = user;
    void *memory = NULL;
    if (++c->calls == c->fail_at || posix_memalign(&memory, 64, bytes)) return NULL;
    c->live++;
    c->live_bytes += (int64_t)bytes;
    return memory;
}

static void counting_free(void *user, void *memory, uint64_t bytes)
{
    counting *c = user;
    if (!memory) return;
    c->live--;
    c->live_bytes -= (int64_t)bytes;
    free(memory);
}

tn_host_allocator counting_allocator(counting *c)
{
    return (tn_host_allocator){c, counting_alloc, counting_free};
}

tn_context *counted_context(counting *c, fake *f)
{
    const tn_context_options options = {
        .size = sizeof options, .flags = TN_CONTEXT_NO_DISCOVERY, .allocator = counting_allocator(c)};
    const tni_driver driver = fake_driver(f);
    tn_context *ctx = NULL;
    return tn_context_create(&options, &ctx) || tni_device_type_add(ctx, &driver) ? NULL : ctx;
}

tn_context *failing_context(counting *c, fake *f, int64_t n)
{
    tn_context *ctx = counted_context(c, f);
    c->fail_at = c->calls + n;
    return ctx;
}
