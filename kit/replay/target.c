/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin, and a host that suffices to run recorded calls. Recorded handles are mapped to those of this
 * run.
 */
#include "replay.h"

#include "record_format.h"
#include "wire.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* ---- The host ---------------------------------------------------------------------------------------- */

static int32_t host_workspace(const tn_call *call, const tn_memory_request *request, tn_memory *out)
{
    replay_player *p = call->state;
    const replay_handle *h = replay_temporary(p, 0, request->bytes);
    if (!h) return TN_E_OUT_OF_MEMORY;
    *out = h->memory;
    return TN_OK;
}

static int32_t host_resize_output(const tn_call *call, uint32_t i, uint32_t rank, const int64_t *sizes)
{
    replay_player *p = call->state;
    replay_tensor *t = i < call->n_outs ? (replay_tensor *)(void *)tn_value_as_tensor(call->outs[i]) : NULL;
    int64_t *dims = t ? replay_memory(p, 2ull * rank * sizeof(int64_t) + 8) : NULL, numel = 1;
    if (!dims) return TN_E_CONTRACT;
    for (uint32_t d = rank; d-- > 0;) {
        dims[d] = sizes[d];
        dims[rank + d] = numel;
        numel *= sizes[d];
    }
    t->desc.rank = rank;
    t->desc.sizes = dims;
    t->desc.strides = dims + rank;
    uint64_t bytes = record_extent(&t->desc);
    const replay_handle *h = bytes ? replay_temporary(p, 0, bytes) : NULL;
    if (bytes && !h) return TN_E_OUT_OF_MEMORY;
    t->desc.allocation = h ? h->here : NULL;
    t->desc.byte_offset = h ? h->memory.offset : 0;
    t->desc.host = h ? h->memory.host : NULL;
    t->desc.address = h ? h->memory.address : 0;
    return TN_OK;
}

/* The recorded seed and offset, so that the same numbers are drawn. */
static int32_t host_random_reserve(const tn_call *call, tn_generator *generator, uint64_t count,
                                   tn_random_numbers *out)
{
    replay_player *p = call->state;
    replay_cursor c = *p->host_calls;
    for (uint32_t i = 0, seen = 0; i < p->n_host_calls; i++) {
        uint32_t type = replay_u32(&c);
        uint64_t n = replay_u64(&c);
        replay_cursor v = c;
        replay_bytes(&c, n * 8);
        if (type != RECORD_RANDOM_RESERVE || seen++ != p->next_random) continue;
        replay_u64(&v);
        out->seed = replay_u64(&v);
        out->offset = replay_u64(&v);
        p->next_random++;
        return TN_OK;
    }
    return p->mini.host.error(&p->mini, TN_E_STATE,
                              "the recorded kernel reserved random numbers fewer times");
}

static int32_t host_keep_alive(const tn_call *call, void *pointer, void (*release)(void *pointer))
{
    replay_player *p = call->state;
    if (p->n_kept == sizeof(p->kept) / sizeof(p->kept[0])) return TN_E_OUT_OF_MEMORY;
    p->kept[p->n_kept].pointer = pointer;
    p->kept[p->n_kept++].release = release;
    return TN_OK;
}

/* Only composites and gradients use these. */
static int32_t host_set_output(const tn_call *call, uint32_t i, tn_tensor *t)
{
    return TN_E_UNSUPPORTED;
}
static tn_scope *host_call_scope(const tn_call *call)
{
    return NULL;
}
static void make_host(replay_player *p)
{
    mini_host_init(&p->mini);
    p->mini.host.workspace = host_workspace;
    p->mini.host.resize_output = host_resize_output;
    p->mini.host.set_output = host_set_output;
    p->mini.host.call_scope = host_call_scope;
    p->mini.host.random_reserve = host_random_reserve;
    p->mini.host.keep_alive = host_keep_alive;
}

/* ---- Handles ----------------------------------------------------------------------------------------- */

replay_handle *replay_handle_find(replay_player *p, int32_t kind, uint64_t recorded)
{
    for (size_t i = p->n_handles; i-- > 0;)
        if (p->handles[i].kind == kind && p->handles[i].recorded == recorded) return &p->handles[i];
    return NULL;
}

replay_handle *replay_handle_add(replay_player *p, int32_t kind, uint64_t recorded, void *here)
{
    if (p->n_handles == p->handle_room) {
        size_t room = 2 * p->handle_room + 64;
        replay_handle *grown = realloc(p->handles, room * sizeof(*grown));
        if (!grown) return NULL;
        p->handles = grown;
        p->handle_room = room;
    }
    p->handles[p->n_handles] = (replay_handle){.recorded = recorded, .here = here, .kind = kind};
    return &p->handles[p->n_handles++];
}

replay_handle *replay_handle_at(replay_player *p, uint64_t recorded, uint64_t offset)
{
    for (size_t i = p->n_handles; i-- > 0;) {
        replay_handle *h = &p->handles[i];
        if (h->kind == 'a' && h->recorded == recorded && offset >= h->from && offset - h->from < h->bytes)
            return h;
    }
    return NULL;
}

uint64_t replay_offset(const replay_handle *h, uint64_t offset)
{
    return h->offset + (offset - h->from);
}

void replay_handle_remove(replay_player *p, replay_handle *h)
{
    *h = p->handles[--p->n_handles];
}

/* ---- Memory of one call ------------------------------------------------------------------------------ */

void *replay_memory(replay_player *p, uint64_t bytes)
{
    replay_block *b = calloc(1, sizeof(*b) + (size_t)bytes);
    if (!b) return NULL;
    b->next = p->blocks;
    p->blocks = b;
    return b->memory;
}

replay_handle *replay_temporary(replay_player *p, uint64_t recorded, uint64_t bytes)
{
    const tn_memory_request request = replay_request(p, bytes ? bytes : 1);
    tn_memory made = {.size = sizeof(made)};
    if (p->memory->alloc(p->self, p->call_device, &request, &made)) return NULL;
    replay_handle *h = replay_handle_add(p, 'a', recorded, made.allocation);
    if (!h) {
        p->memory->free(p->self, p->call_device, &made);
        return NULL;
    }
    replay_keep_memory(h, &made);
    h->device = p->call_device;
    h->bytes = bytes ? bytes : 1;
    h->temporary = 1;
    return h;
}

void replay_end_call(replay_player *p)
{
    while (p->n_kept) {
        p->n_kept--;
        p->kept[p->n_kept].release(p->kept[p->n_kept].pointer);
    }
    for (size_t i = p->n_handles; i-- > 0;) {
        replay_handle *h = &p->handles[i];
        if (!h->temporary || h->kind != 'a') continue;
        p->memory->free(p->self, p->call_device, &h->memory);
        replay_handle_remove(p, h);
    }
    while (p->blocks) {
        replay_block *next = p->blocks->next;
        free(p->blocks);
        p->blocks = next;
    }
}

/* ---- Loading ----------------------------------------------------------------------------------------- */

static int negotiate(replay_player *p)
{
    char why[160];
    if (mini_host_negotiate(p->info, &p->table, why, sizeof(why))) {
        snprintf(mini_host_error, sizeof(mini_host_error), "it declines: %s", why);
        return -1;
    }
    if (p->table.init(&p->mini.host, &p->self)) {
        memmove(mini_host_error + 13, mini_host_error, sizeof(mini_host_error) - 14);
        memcpy(mini_host_error, "init failed: ", 13);
        return -1;
    }
    return 0;
}

/* Host memory if the plugin is a host device, otherwise device memory. */
static void choose_memory(replay_player *p)
{
    tn_device_facts facts = {.size = sizeof(facts)};
    (void)p->device->facts(p->self, 0, &facts);
    p->memory_kind = facts.device_class == TN_DEVICE_HOST && facts.memory_kinds & TN_MEMORY_HOST
                         ? TN_MEMORY_HOST
                     : facts.memory_kinds & TN_MEMORY_DEVICE  ? TN_MEMORY_DEVICE
                     : facts.memory_kinds & TN_MEMORY_UNIFIED ? TN_MEMORY_UNIFIED
                                                              : TN_MEMORY_HOST;
}

/* Says which interface is missing. An operator library has none, since its kernels run on the devices of others. */
static int lacks_interface(const replay_player *p)
{
    const char *missing = !p->device   ? "tenon.device"
                          : !p->memory ? "tenon.memory"
                          : !p->copy   ? "tenon.copy"
                          : !p->stream ? "tenon.stream"
                                       : NULL;
    if (!missing) return 0;
    snprintf(mini_host_error, sizeof(mini_host_error), "it lacks the interface '%s'%s", missing,
             p->device
                 ? ""
                 : ", so it has no device to play on; --plugin takes the plugin of a device (the kernels of "
                   "an operator library are recorded as calls of the device that they ran on)");
    return 1;
}

int replay_load(replay_player *p, const char *path)
{
    make_host(p);
    p->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    p->info = p->library ? dlsym(p->library, TN_PLUGIN_SYMBOL) : NULL;
    if (!p->info || memcmp(p->info->magic, "TENON", 5) || !p->info->entry) {
        snprintf(mini_host_error, sizeof(mini_host_error), "%s",
                 p->library ? "it is not a plugin" : dlerror());
        return -1;
    }
    if (negotiate(p)) return -1;
    p->device = p->table.get_interface(p->self, "tenon.device", 1);
    p->memory = p->table.get_interface(p->self, "tenon.memory", 1);
    p->copy = p->table.get_interface(p->self, "tenon.copy", 1);
    p->stream = p->table.get_interface(p->self, "tenon.stream", 1);
    p->event = p->table.get_interface(p->self, "tenon.event", 1);
    p->kernels = p->table.get_interface(p->self, "tenon.kernels", 1);
    p->allocator = p->table.get_interface(p->self, "tenon.allocator", 1);
    uint32_t count = 0;
    const char *reason = NULL;
    if (lacks_interface(p)) return -1;
    if (p->device->enumerate(p->self, &count, &reason) || !count)
        snprintf(mini_host_error, sizeof(mini_host_error), "it has no device: %s", reason ? reason : "");
    else
        choose_memory(p);
    p->n_devices = count;
    return count ? 0 : -1;
}

static void *any_stream(const replay_player *p, const void *device)
{
    for (size_t i = 0; i < p->n_handles; i++)
        if (p->handles[i].kind == 's' && p->handles[i].device == device) return p->handles[i].here;
    return NULL;
}

static void close_one(replay_player *p, const replay_handle *h)
{
    switch (h->kind) {
    case 'm':
        if (REPLAY_HAS(p->memory, unmap)) (void)p->memory->unmap(p->self, h->device, NULL, h->here);
        break;
    case 'p':
        p->memory->unpin(p->self, h->device, &h->memory);
        break;
    case 'a':
        if (h->part)
            p->allocator->free(p->self, h->device, &h->memory, any_stream(p, h->device));
        else
            p->memory->free(p->self, h->device, &h->memory);
        break;
    case 'e':
        p->event->destroy(p->self, h->device, h->here);
        break;
    case 's':
        p->stream->destroy(p->self, h->device, h->here);
        break;
    case 'd':
        if (!h->again) p->device->close(p->self, h->here);
        break;
    default:
        break;
    }
}

/* Ends objects that the recording left open, in the order of the contract. */
static void close_all(replay_player *p, int32_t kind)
{
    for (size_t i = 0; i < p->n_handles; i++)
        if (p->handles[i].kind == kind) close_one(p, &p->handles[i]);
}

void replay_unload(replay_player *p)
{
    if (p->self) {
        for (size_t i = 0; i < p->n_handles; i++)
            if (p->handles[i].kind == 'd') (void)p->device->synchronize(p->self, p->handles[i].here);
        close_all(p, 'a');
        close_all(p, 'e');
        close_all(p, 's');
        if (p->table.quiesce) (void)p->table.quiesce(p->self);
        close_all(p, 'd');
        p->table.shutdown(p->self);
        for (size_t i = 0; i < p->n_handles; i++)
            if (p->handles[i].kind == 'c') free(p->handles[i].here);
    }
    free(p->handles);
    p->handles = NULL;
}
