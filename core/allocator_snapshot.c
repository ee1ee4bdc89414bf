/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots of the allocators of all open devices: allocations with their blocks, the recorded history and the
 * settings, as PyTorch's torch.cuda.memory._snapshot() has them, so that its viewer (memory_viz) reads the pickle.
 * The writer knows dictionaries, lists, texts, numbers and flags, and writes them as JSON or as a pickle.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "core/allocator_history.h"

/* ---- The writer ---------------------------------------------------------------------------------------- */

typedef struct writer {
    FILE *file;
    int32_t pickle;
    int32_t count; /* items of the innermost list or dictionary so far; what is outside has at least one */
} writer;

static void put_u32(FILE *file, uint32_t n)
{
    for (int i = 0; i < 4; i++) fputc((int)(n >> 8 * i & 255), file);
}

static void put_text(writer *w, const char *text)
{
    if (w->pickle) {
        fputc('X', w->file);
        put_u32(w->file, (uint32_t)strlen(text));
        fputs(text, w->file);
        return;
    }
    fputc('"', w->file);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        fprintf(w->file, c == '"' || c == '\\' ? "\\%c" : c < 32 ? "\\u%04x" : "%c", c);
    }
    fputc('"', w->file);
}

static void put_number(writer *w, uint64_t n)
{
    if (!w->pickle) {
        fprintf(w->file, "%llu", (unsigned long long)n);
        return;
    }
    fputc(0x8a, w->file); /* LONG1: a length and the bytes of a two's complement number */
    fputc(9, w->file);
    for (int i = 0; i < 8; i++) fputc((int)(n >> 8 * i & 255), w->file);
    fputc(0, w->file);
}

/* Before each item of a list, and before each key. */
static void next(writer *w)
{
    if (!w->pickle && w->count++) fputs(",\n", w->file);
}

static void key(writer *w, const char *name)
{
    next(w);
    put_text(w, name);
    if (!w->pickle) fputc(':', w->file);
}

static void open(writer *w, char bracket)
{
    fputc(bracket == '{' && w->pickle ? '}' : bracket == '[' && w->pickle ? ']' : bracket, w->file);
    if (w->pickle) fputc('(', w->file);
    w->count = 0;
}

static void close_with(writer *w, char bracket)
{
    fputc(!w->pickle ? bracket : bracket == '}' ? 'u' : 'e', w->file);
    w->count = 1;
}

static void text_item(writer *w, const char *name, const char *text)
{
    key(w, name);
    put_text(w, text);
}

static void number_item(writer *w, const char *name, uint64_t n)
{
    key(w, name);
    put_number(w, n);
}

static void flag_item(writer *w, const char *name, int32_t on)
{
    key(w, name);
    if (w->pickle)
        fputc(on ? 0x88 : 0x89, w->file);
    else
        fputs(on ? "true" : "false", w->file);
}

/* ---- Frames -------------------------------------------------------------------------------------------- */

static void put_frames(writer *w, const tni_history_event *e)
{
    key(w, "frames");
    open(w, '[');
    for (uint32_t i = 0; e && i < e->frame_count; i++) {
        Dl_info info = {0};
        char name[64];
        int found = dladdr(e->frames[i], &info);
        snprintf(name, sizeof name, "%p", e->frames[i]);
        next(w);
        open(w, '{');
        text_item(w, "name", found && info.dli_sname ? info.dli_sname : name);
        text_item(w, "filename", found && info.dli_fname ? info.dli_fname : "??");
        number_item(w, "line", 0);
        close_with(w, '}');
    }
    close_with(w, ']');
}

static void put_operator(writer *w, const tni_history_event *e)
{
    if (e && e->operator_name) text_item(w, "operator", e->operator_name);
}

/* ---- Segments ------------------------------------------------------------------------------------------ */

static void put_block(writer *w, const struct tni_allocator *a, const tni_block *b)
{
    static const char *const states[] = {[TNI_BLOCK_USED] = "active_allocated",
                                         [TNI_BLOCK_FREE] = "inactive",
                                         [TNI_BLOCK_WAITING] = "active_pending_free"};
    int32_t is_free = b->state == TNI_BLOCK_FREE;
    next(w);
    open(w, '{');
    number_item(w, "address", tni_place_of(b));
    number_item(w, "size", b->bytes);
    number_item(w, "requested_size", is_free ? 0 : b->asked ? b->asked : b->bytes);
    text_item(w, "state", states[b->state]);
    const tni_history_event *made =
        is_free ? NULL : tni_history_origin(a, tni_place_of(b), TNI_HISTORY_ALLOC);
    put_operator(w, made);
    put_frames(w, made);
    close_with(w, '}');
}

static void put_segment(writer *w, const struct tni_allocator *a, const tni_allocation *s, uint32_t number)
{
    uint64_t allocated = 0, active = 0, asked = 0;
    for (const tni_block *b = s->first; b; b = b->after) {
        if (b->state == TNI_BLOCK_FREE) continue;
        active += b->bytes;
        if (b->state == TNI_BLOCK_WAITING) continue;
        allocated += b->bytes;
        asked += b->asked ? b->asked : b->bytes;
    }
    next(w);
    open(w, '{');
    number_item(w, "device", number);
    number_item(w, "address", tni_place_of(s->first));
    number_item(w, "total_size", s->bytes);
    number_item(w, "allocated_size", allocated);
    number_item(w, "active_size", active);
    number_item(w, "requested_size", asked);
    number_item(w, "stream", s->pool->stream ? tn_stream_id(s->pool->stream) : 0);
    text_item(w, "segment_type", s->pool->small ? "small" : "large");
    key(w, "segment_pool_id");
    open(w, '[');
    next(w);
    put_number(w, 0);
    next(w);
    put_number(w, s->pool->capture + s->pool->number); /* at most one of them is not 0 */
    close_with(w, ']');
    flag_item(w, "is_expandable", s->range != 0);
    put_frames(w, tni_history_origin(a, s->place, TNI_HISTORY_SEGMENT_ALLOC));
    key(w, "blocks");
    open(w, '[');
    for (const tni_block *b = s->first; b; b = b->after) put_block(w, a, b);
    close_with(w, ']');
    close_with(w, '}');
}

static void put_event(writer *w, const tni_history_event *e)
{
    static const char *const actions[] = {
        [TNI_HISTORY_ALLOC] = "alloc",
        [TNI_HISTORY_FREE_REQUESTED] = "free_requested",
        [TNI_HISTORY_FREE_COMPLETED] = "free_completed",
        [TNI_HISTORY_SEGMENT_ALLOC] = "segment_alloc",
        [TNI_HISTORY_SEGMENT_FREE] = "segment_free",
        [TNI_HISTORY_SEGMENT_MAP] = "segment_map",
        [TNI_HISTORY_SEGMENT_UNMAP] = "segment_unmap",
        [TNI_HISTORY_OOM] = "oom",
    };
    next(w);
    open(w, '{');
    text_item(w, "action", actions[e->action]);
    number_item(w, e->action == TNI_HISTORY_OOM ? "device_free" : "addr", e->place);
    number_item(w, "size", e->bytes);
    number_item(w, "stream", e->stream);
    number_item(w, "time_us", (uint64_t)e->time_us);
    put_operator(w, e);
    put_frames(w, e);
    close_with(w, '}');
}

/* ---- The whole ----------------------------------------------------------------------------------------- */

/* Open device number i, in the order of registration, locked; NULL past the last. */
static struct tni_allocator *enter(tn_context *ctx, uint32_t i)
{
    uint32_t n = atomic_load_explicit(&ctx->type_count, memory_order_acquire);
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t m = 0; m < ctx->types[k]->count; m++) {
            const tni_device *d = &ctx->types[k]->devices[m];
            if (!atomic_load_explicit(&d->open, memory_order_acquire) || i--) continue;
            tni_allocator_enter(d->allocator);
            return d->allocator;
        }
    }
    return NULL;
}

static void put_settings(writer *w, const struct tni_allocator *a)
{
    char name[80];
    next(w);
    open(w, '{');
    text_item(w, "device", tn_device_format(a->device->ctx, a->device->id, name, sizeof name));
    number_item(w, "limit", a->limit);
    number_item(w, "max_split_size", a->options.max_split);
    flag_item(w, "no_cache", a->options.no_cache);
    const char *library = tni_user_allocator_library(a);
    text_item(w, "allocator", library ? library : "native");
    close_with(w, '}');
}

static void put_snapshot(writer *w, tn_context *ctx)
{
    struct tni_allocator *a;
    if (w->pickle) fputs("\x80\x02", w->file); /* protocol 2 */
    open(w, '{');
    key(w, "segments");
    open(w, '[');
    for (uint32_t i = 0; (a = enter(ctx, i)); i++) {
        for (const tni_allocation *s = a->allocations; s; s = s->next) put_segment(w, a, s, i);
        tni_allocator_leave(a);
    }
    close_with(w, ']');
    key(w, "device_traces");
    open(w, '[');
    for (uint32_t i = 0; (a = enter(ctx, i)); i++) {
        const struct tni_history *h = a->history;
        uint64_t kept = !h ? 0 : h->count < h->capacity ? h->count : h->capacity;
        next(w);
        open(w, '[');
        for (uint64_t k = kept; k > 0; k--) put_event(w, &h->events[(h->count - k) % h->capacity]);
        close_with(w, ']');
        tni_allocator_leave(a);
    }
    close_with(w, ']');
    key(w, "devices");
    open(w, '[');
    for (uint32_t i = 0; (a = enter(ctx, i)); i++) {
        put_settings(w, a);
        tni_allocator_leave(a);
    }
    close_with(w, ']');
    close_with(w, '}');
    fputs(w->pickle ? "." : "\n", w->file);
}

int32_t tn_memory_write_snapshot(tn_context *ctx, const char *path)
{
    int32_t status = tni_context_check(ctx);
    if (!status && !path) status = tni_error(TN_E_ARGUMENT, "memory_write_snapshot: path is NULL");
    if (status) return status;
    size_t length = strlen(path);
    writer w = {.file = fopen(path, "we"), .pickle = length > 7 && !strcmp(path + length - 7, ".pickle")};
    if (!w.file)
        return tni_error(TN_E_IO, "memory_write_snapshot: %s cannot be written: %s", path, strerror(errno));
    put_snapshot(&w, ctx);
    int32_t failed = ferror(w.file);
    failed |= fclose(w.file);
    if (!failed) return TN_OK;
    return tni_error(TN_E_IO, "memory_write_snapshot: %s cannot be written: %s", path, strerror(errno));
}
