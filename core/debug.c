/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TENON_DEBUG: what is asked for, and the list of tensors, scopes and other objects that are alive. A tensor is listed when
 * the call that made it returns, and taken off when its last reference goes.
 */
#include "core/debug.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/scope.h"
#include "core/shape.h"

#define MAKER_BYTES 128
#define PLACE_BYTES 192
#define TEXT_BYTES  640
#define MAX_WAITING 2u  /* the first NaN and the first infinity */
#define MAX_LINES   50u /* of one report */
#define BUCKETS     4096u

/* A tensor, a scope or another object that is alive. */
typedef struct tni_alive {
    struct tni_alive *previous, *next;
    struct tni_alive *chain; /* in its bucket */
    const void *handle;
    uint64_t number;       /* in the order of making */
    const void *thread;    /* that made it, by its tni_tls */
    int32_t is_new;        /* the running call of this thread made it */
    int32_t has_own_place; /* that of the call which opened the scope, not of its first use */
    int32_t has_ended;     /* it is in the list `ended` */
    enum { TENSOR, SCOPE, OBJECT } kind;
    char maker[MAKER_BYTES]; /* of another object: what it is */
    char place[PLACE_BYTES]; /* "model.c:49", or "" */
} tni_alive;

/* A finding that waits for the place of the call that found it. */
typedef struct waiting {
    const void *thread; /* NULL: free */
    char text[TEXT_BYTES];
} waiting;

struct tni_debug {
    uint32_t wishes; /* TNI_DEBUG_... */
    pthread_mutex_t lock;
    uint64_t last_number;
    tni_alive *tensors, *scopes, *objects; /* the last one made first */
    tni_alive *ended;            /* with `handles`: what has ended, whose memory the context keeps */
    tni_alive *buckets[BUCKETS]; /* of all four, by handle */
    waiting found[MAX_WAITING];
};

static const struct {
    const char *word;
    uint32_t wish;
} words[] = {{"handles", TNI_DEBUG_HANDLES},
             {"leaks", TNI_DEBUG_LEAKS},
             {"nan", TNI_DEBUG_NAN},
             {"anomaly", TNI_DEBUG_ANOMALY}};

static int32_t read_wishes(const char *list, uint32_t *out)
{
    *out = 0;
    while (*list) {
        size_t length = strcspn(list, ","), i = 0;
        const size_t count = sizeof words / sizeof *words;
        while (i < count && (strlen(words[i].word) != length || strncmp(list, words[i].word, length) != 0))
            i++;
        if (i < count)
            *out |= words[i].wish;
        else if (length)
            return tni_error(TN_E_ARGUMENT,
                             "TENON_DEBUG: unknown word '%.*s' (expected handles, leaks, nan or anomaly)",
                             (int)(length < 200 ? length : 200), list);
        list += length + (list[length] == ',');
    }
    return TN_OK;
}

int32_t tni_debug_init(tn_context *ctx)
{
    uint32_t wishes = 0;
    const char *list = secure_getenv("TENON_DEBUG");
    int32_t status = list ? read_wishes(list, &wishes) : TN_OK;
    if (status || !wishes) return status;
    if (wishes & TNI_DEBUG_HANDLES) atomic_fetch_or(&ctx->flags, TN_CONTEXT_DEBUG_HANDLES);
    struct tni_debug *d = tni_alloc_zeroed(ctx, sizeof *d);
    if (!d) return TN_E_OUT_OF_MEMORY;
    d->wishes = wishes;
    pthread_mutex_init(&d->lock, NULL);
    ctx->debug = d;
    if (wishes & TNI_DEBUG_LEAKS) atomic_fetch_or(&ctx->flags, TNI_CONTEXT_LEAKS);
    atomic_fetch_or(&ctx->flags, TNI_CONTEXT_PLACES);
    return TN_OK;
}

uint32_t tni_debug_wishes(const tn_context *ctx)
{
    return ctx->debug ? ctx->debug->wishes : 0;
}

/* ---- What is alive ------------------------------------------------------------------------------------- */

/* The link to what is known of a handle, or to NULL at the end of its bucket. Under the lock. */
static tni_alive **find(struct tni_debug *d, const void *handle)
{
    uint64_t hash = (uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15ull;
    tni_alive **link = &d->buckets[hash >> 52];
    while (*link && (*link)->handle != handle) link = &(*link)->chain;
    return link;
}

static void take_out(tni_alive **list, tni_alive *a)
{
    if (a->previous)
        a->previous->next = a->next;
    else
        *list = a->next;
    if (a->next) a->next->previous = a->previous;
}

static void put_first(tni_alive **list, tni_alive *a)
{
    a->previous = NULL;
    a->next = *list;
    if (a->next) a->next->previous = a;
    *list = a;
}

/* Without memory the list is incomplete, and nothing else happens. */
static void add(tn_context *ctx, tni_alive **list, const void *handle, const char *maker)
{
    struct tni_debug *d = ctx->debug;
    pthread_mutex_lock(&d->lock);
    tni_alive **link = find(d, handle), *a = *link;
    if (a && a->has_ended) /* its memory could not be kept, and is another's now */
        take_out(&d->ended, a);
    else
        a = a ? NULL : tni_alloc(ctx, sizeof *a);
    if (a) {
        *a = (tni_alive){.chain = *link ? a->chain : NULL,
                         .handle = handle,
                         .number = ++d->last_number,
                         .thread = &tni_tls,
                         .kind = list == &d->tensors  ? TENSOR
                                 : list == &d->scopes ? SCOPE
                                                      : OBJECT};
        snprintf(a->maker, sizeof a->maker, "%s", maker);
        put_first(list, a);
        *link = a;
    }
    pthread_mutex_unlock(&d->lock);
}

/* With `handles` it stays known, for tni_debug_origin. */
static void drop(tn_context *ctx, tni_alive **list, const void *handle)
{
    struct tni_debug *d = ctx->debug;
    pthread_mutex_lock(&d->lock);
    tni_alive **link = find(d, handle), *a = *link;
    if (a && !a->has_ended) {
        take_out(list, a);
        if (d->wishes & TNI_DEBUG_HANDLES) {
            a->has_ended = 1;
            put_first(&d->ended, a);
        } else {
            *link = a->chain;
            tni_free(ctx, a, sizeof *a);
        }
    }
    pthread_mutex_unlock(&d->lock);
}

void tni_debug_ended(const tn_tensor *t)
{
    if (tni_context_is_forked(t->ctx)) return; /* another thread may have held the lock at the fork */
    drop(t->ctx, &t->ctx->debug->tensors, t);
}

static void set_place(tni_alive *a, const char *place)
{
    if (!a->place[0]) snprintf(a->place, sizeof a->place, "%s", place);
}

/* The running call of this thread may have a place, which follows when it returns. Without memory `handle` is not listed. */
static void expect_place(struct tni_debug *d, const void *handle)
{
    pthread_mutex_lock(&d->lock);
    if (*find(d, handle)) (*find(d, handle))->is_new = tni_tls.has_new_objects = 1;
    pthread_mutex_unlock(&d->lock);
}

void tni_debug_made(const tn_tensor *t, const char *maker)
{
    add(t->ctx, &t->ctx->debug->tensors, t, maker);
    expect_place(t->ctx->debug, t);
}

void tni_debug_scope_opened(tn_scope *s)
{
    add(s->ctx, &s->ctx->debug->scopes, s, s->parent ? "tn_scope_open_child" : "tn_scope_open");
    expect_place(s->ctx->debug, s);
}

void tni_debug_scope_closed(tn_scope *s)
{
    drop(s->ctx, &s->ctx->debug->scopes, s);
}

void tni_debug_object_begin(tn_context *ctx, const void *object, const char *what)
{
    struct tni_debug *d = ctx->debug;
    if (!d) return;
    add(ctx, &d->objects, object, what);
    expect_place(d, object);
}

void tni_debug_object_place(tn_context *ctx, const void *object, const char *file, uint32_t line)
{
    struct tni_debug *d = ctx->debug;
    char place[PLACE_BYTES];
    if (!d) return;
    snprintf(place, sizeof place, "%s:%u", file, line);
    pthread_mutex_lock(&d->lock);
    tni_alive *a = *find(d, object);
    if (a) set_place(a, place);
    pthread_mutex_unlock(&d->lock);
}

void tni_debug_object_end(tn_context *ctx, const void *object)
{
    if (ctx->debug) drop(ctx, &ctx->debug->objects, object); /* NULL while the context ends */
}

/* ---- Where the program made a call --------------------------------------------------------------------- */

void tni_debug_place_begin(tn_scope *s)
{
    struct tni_debug *d = s->ctx->debug;
    pthread_mutex_lock(&d->lock);
    s->placed_from = d->last_number;
    pthread_mutex_unlock(&d->lock);
    tni_tls.place_follows = 1;
}

static void end_new_of(tni_alive *list, const char *place)
{
    for (tni_alive *a = list; a; a = a->next) {
        if (!a->is_new || a->thread != &tni_tls) continue;
        a->has_own_place = place && !a->place[0];
        if (place) set_place(a, place);
        a->is_new = 0;
    }
}

/* A place in the form that reports have, or NULL: the call that made what is new has none. */
static void end_new(tn_context *ctx, const void *place)
{
    struct tni_debug *d = ctx->debug;
    if (!d || tni_context_is_forked(ctx)) return;
    pthread_mutex_lock(&d->lock);
    end_new_of(d->objects, place);
    end_new_of(d->scopes, place);
    end_new_of(d->tensors, place);
    pthread_mutex_unlock(&d->lock);
}

void tni_debug_place_objects(const char *file, uint32_t line)
{
    char place[PLACE_BYTES];
    if (file) snprintf(place, sizeof place, "%s:%u", file, line);
    tni_tls.has_new_objects = 0;
    tni_contexts_each(end_new, file ? place : NULL);
}

/* Under the lock. */
static void log_found(tn_context *ctx, waiting *w, const char *place)
{
    tni_log(ctx, TN_LOG_ERROR, "TENON_DEBUG: %s: %s", place, w->text);
    w->thread = NULL;
}

void tni_debug_place_end(tn_scope *s, uint64_t from, const char *file, uint32_t line)
{
    struct tni_debug *d = s->ctx->debug;
    char place[PLACE_BYTES];
    tni_tls.place_follows = 0;
    if (!d) return;
    snprintf(place, sizeof place, "%s:%u", file, line);
    pthread_mutex_lock(&d->lock);
    for (tni_alive *a = d->tensors; a && a->number > from; a = a->next) {
        if (a->thread == &tni_tls) set_place(a, place);
    }
    if (*find(d, s)) set_place(*find(d, s), place);
    for (tni_alive *a = d->objects; a && a->number > from; a = a->next) {
        if (a->thread == &tni_tls) set_place(a, place);
    }
    for (uint32_t i = 0; i < MAX_WAITING; i++) {
        if (d->found[i].thread == &tni_tls) log_found(s->ctx, &d->found[i], place);
    }
    pthread_mutex_unlock(&d->lock);
    if (d->wishes & TNI_DEBUG_ANOMALY && s->ctx->autograd) s->ctx->autograd->placed(s->ctx, place);
}

void tni_debug_found(tn_context *ctx, const char *text)
{
    struct tni_debug *d = ctx->debug;
    uint32_t i = 0;
    pthread_mutex_lock(&d->lock);
    while (i < MAX_WAITING && d->found[i].thread) i++;
    if (tni_tls.place_follows && i < MAX_WAITING) {
        d->found[i].thread = &tni_tls;
        snprintf(d->found[i].text, sizeof d->found[i].text, "%s", text);
    } else {
        tni_log(ctx, TN_LOG_ERROR, "TENON_DEBUG: %s", text);
    }
    pthread_mutex_unlock(&d->lock);
}

const char *tni_debug_origin(tn_context *ctx, const void *handle, char *out, uint64_t bytes)
{
    struct tni_debug *d = ctx->debug;
    out[0] = 0;
    if (!d || tni_context_is_forked(ctx)) return out;
    pthread_mutex_lock(&d->lock);
    const tni_alive *a = *find(d, handle);
    if (a)
        snprintf(out, bytes, " (made%s%s%s%s%s, number %llu)", a->kind == OBJECT ? "" : " by ",
                 a->kind == OBJECT ? "" : a->maker,
                 a->kind == SCOPE && a->place[0] && !a->has_own_place ? ", first used" : "",
                 a->place[0] ? " at " : "", a->place, (unsigned long long)a->number);
    pthread_mutex_unlock(&d->lock);
    return out;
}

/* ---- The report ---------------------------------------------------------------------------------------- */

static void report_tensor(tn_context *ctx, const tni_alive *a)
{
    const tn_tensor *t = a->handle;
    char sizes[256];
    const char *dtype = tn_dtype_name(t->desc.dtype);
    uint32_t refs = atomic_load(&t->refs);
    tni_log(ctx, TN_LOG_ERROR,
            "TENON_DEBUG: %s%sleak: tensor %s %s with %u reference%s, made by %s (number %llu)", a->place,
            a->place[0] ? ": " : "", tni_shape_text(t->desc.rank, t->desc.sizes, sizes, sizeof sizes),
            dtype ? dtype : "?", refs, refs == 1 ? "" : "s", a->maker, (unsigned long long)a->number);
}

static uint32_t count(const tni_alive *a)
{
    uint32_t n = 0;
    for (; a; a = a->next) n++;
    return n;
}

void tni_debug_report(tn_context *ctx)
{
    struct tni_debug *d = ctx->debug;
    if (!d || !(d->wishes & TNI_DEBUG_LEAKS)) return;
    pthread_mutex_lock(&d->lock);
    uint32_t tensors = count(d->tensors), scopes = count(d->scopes), objects = count(d->objects), lines = 0;
    for (const tni_alive *a = d->scopes; a && lines < MAX_LINES; a = a->next, lines++)
        tni_log(ctx, TN_LOG_ERROR,
                "TENON_DEBUG: %s%sleak: scope of %s%s is open and owns %u tensor%s (number %llu)", a->place,
                a->place[0] ? ": " : "", a->maker,
                a->place[0] && !a->has_own_place ? ", first used here," : "",
                ((const tn_scope *)a->handle)->count, ((const tn_scope *)a->handle)->count == 1 ? "" : "s",
                (unsigned long long)a->number);
    for (const tni_alive *a = d->objects; a && lines < MAX_LINES; a = a->next, lines++)
        tni_log(ctx, TN_LOG_ERROR, "TENON_DEBUG: %s%sleak: %s was not destroyed (number %llu)", a->place,
                a->place[0] ? ": " : "", a->maker, (unsigned long long)a->number);
    for (const tni_alive *a = d->tensors; a && lines < MAX_LINES; a = a->next, lines++) report_tensor(ctx, a);
    if (tensors + scopes + objects)
        tni_log(ctx, TN_LOG_ERROR,
                "TENON_DEBUG: %u tensor%s, %u scope%s and %u other object%s are alive when the context is "
                "destroyed",
                tensors, tensors == 1 ? "" : "s", scopes, scopes == 1 ? "" : "s", objects,
                objects == 1 ? "" : "s");
    pthread_mutex_unlock(&d->lock);
}

/* What is alive keeps the context, so nothing is listed any more. */
static void free_list(tn_context *ctx, tni_alive *a)
{
    for (tni_alive *next; a; a = next) {
        next = a->next;
        tni_free(ctx, a, sizeof *a);
    }
}

void tni_debug_finish(tn_context *ctx)
{
    struct tni_debug *d = ctx->debug;
    if (!d) return;
    pthread_mutex_destroy(&d->lock);
    free_list(ctx, d->tensors);
    free_list(ctx, d->ended);
    free_list(ctx, d->scopes);
    free_list(ctx, d->objects); /* a program's own objects do not keep the context */
    ctx->debug = NULL;
    tni_free(ctx, d, sizeof *d);
}
