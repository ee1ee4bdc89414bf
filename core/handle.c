/* SPDX-License-Identifier: Apache-2.0 */
/* The end of objects, and what is kept of dead ones; see handle.h. */
#include "core/handle.h"

#include <dlfcn.h>
#include "core/debug.h"

#define DEAD 0x64656164u

/* Memory of a dead object. */
struct tni_dead_handle {
    struct tni_dead_handle *next;
    void *memory;
    uint64_t bytes;
};

void tni_handle_made(tn_context *ctx, const void *handle, const char *what)
{
    if (ctx->flags & TNI_CONTEXT_LEAKS) tni_debug_object_begin(ctx, handle, what);
}

/* What is known of the dead object that the mark is part of. */
static const char *origin_of(tn_context *ctx, const tni_handle_mark *mark, char *out, uint64_t bytes)
{
    const struct tni_dead_handle *kept = atomic_load(&ctx->dead_handles);
    while (kept && (uintptr_t)mark - (uintptr_t)kept->memory >= kept->bytes) kept = kept->next;
    out[0] = 0;
    return kept ? tni_debug_origin(ctx, kept->memory, out, bytes) : out;
}

int32_t tni_handle_may_end(tn_context *ctx, const tni_handle_mark *mark, const char *what, void *caller)
{
    Dl_info info = {0};
    if (TNI_LIKELY(*mark != DEAD)) return 1;
    const int found = dladdr(caller, &info);
    char origin[TNI_ORIGIN_BYTES];
    tni_error_logged(ctx, TN_E_DEAD_HANDLE, "%s was released and is released again at %s+0x%llx%s", what,
                     found && info.dli_fname ? info.dli_fname : "address 0",
                     (unsigned long long)((uintptr_t)caller - (uintptr_t)info.dli_fbase),
                     origin_of(ctx, mark, origin, sizeof origin));
    return 0;
}

int32_t tni_handle_check(tn_context *ctx, const tni_handle_mark *mark, const char *what)
{
    if (TNI_LIKELY(*mark != DEAD)) return TN_OK;
    char origin[TNI_ORIGIN_BYTES];
    return tni_error_logged(ctx, TN_E_DEAD_HANDLE, "%s was released and is used again%s", what,
                            origin_of(ctx, mark, origin, sizeof origin));
}

void tni_handle_free(tn_context *ctx, void *memory, uint64_t bytes, tni_handle_mark *mark)
{
    if (ctx->flags & TNI_CONTEXT_LEAKS) tni_debug_object_end(ctx, memory);
    struct tni_dead_handle *kept =
        ctx->flags & TN_CONTEXT_DEBUG_HANDLES ? tni_alloc(ctx, sizeof *kept) : NULL;
    if (!kept) {
        tni_free(ctx, memory, bytes);
        return;
    }
    *mark = DEAD;
    *kept = (struct tni_dead_handle){atomic_load(&ctx->dead_handles), memory, bytes};
    while (!atomic_compare_exchange_weak(&ctx->dead_handles, &kept->next, kept)) continue;
}

void tni_handle_mark_dead(tni_handle_mark *mark)
{
    *mark = DEAD;
}

void tn_debug_object_begin(tn_context *ctx, const void *object, const char *what)
{
    if (ctx && object && what && !tni_context_is_forked(ctx)) tni_handle_made(ctx, object, what);
}

typedef struct placed_object {
    const void *object;
    const char *file;
    uint32_t line;
} placed_object;

static void place_object(tn_context *ctx, const void *of)
{
    const placed_object *p = of;
    if (ctx->flags & TNI_CONTEXT_LEAKS) tni_debug_object_place(ctx, p->object, p->file, p->line);
}

void tn_debug_object_place(const void *object, const char *file, uint32_t line)
{
    const placed_object p = {object, file, line};
    if (object && file && *file) tni_contexts_each(place_object, &p);
}

static void end_object(tn_context *ctx, const void *object)
{
    if (ctx->flags & TNI_CONTEXT_LEAKS) tni_debug_object_end(ctx, object);
}

void tn_debug_object_end(const void *object)
{
    if (object) tni_contexts_each(end_object, object);
}

void tni_dead_handles_finish(tn_context *ctx)
{
    for (struct tni_dead_handle *kept = atomic_exchange(&ctx->dead_handles, NULL), *next; kept; kept = next) {
        next = kept->next;
        tni_free(ctx, kept->memory, kept->bytes);
        tni_free(ctx, kept, sizeof *kept);
    }
}
