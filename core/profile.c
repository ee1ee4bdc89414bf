/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a profile, and what threads do meanwhile: see profile.h. */
#include "core/profile.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_DEPTH  128u
#define MAX_EVENTS 1000000u

/* Something in progress. */
typedef struct frame {
    tni_profile_entry *entry;
    int64_t start;
    int64_t children; /* ns in frames inside this one that have ended */
    uint64_t bytes;   /* allocated by this one itself */
    uint64_t children_bytes;
} frame;

#define RECENT 64u /* operators; a network uses a few dozen */

typedef struct tni_profile_thread {
    struct tni_profile_thread *next;
    atomic_int lock;     /* of all that follows; held for a few instructions, or while a profile ends */
    uint32_t generation; /* of the profile that `log` is part of */
    uint32_t depth;
    tni_profile_log log;
    tni_profile_entry *recent[RECENT]; /* of `log`, operators without shapes, by number */
    frame frames[MAX_DEPTH];
} tni_profile_thread;

/* What tni_tls.profile points to. */
typedef struct slot {
    uint64_t context; /* its number, which is never used again */
    tni_profile_thread *thread;
} slot;

int64_t tni_profile_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- Threads ------------------------------------------------------------------------------------------- */

static inline void lock_thread(tni_profile_thread *t)
{
    while (TNI_UNLIKELY(atomic_exchange_explicit(&t->lock, 1, memory_order_acquire))) sched_yield();
}

static inline void unlock_thread(tni_profile_thread *t)
{
    atomic_store_explicit(&t->lock, 0, memory_order_release);
}

/* A new struct, or that of a thread which has ended and had the same number. */
static tni_profile_thread *find_thread(tni_profiler *p)
{
    int32_t tid = gettid();
    pthread_mutex_lock(&p->lock);
    tni_profile_thread *t = p->threads;
    while (t && t->log.tid != tid) t = t->next;
    if (!t && (t = tni_alloc_zeroed(p->ctx, sizeof *t))) {
        t->log.tid = tid;
        t->log.number = ++p->thread_count;
        t->next = p->threads;
        p->threads = t;
    }
    pthread_mutex_unlock(&p->lock);
    return t;
}

static __attribute__((noinline)) tni_profile_thread *find_slowly(tni_profiler *p)
{
    slot *s = tni_tls.profile;
    if (!s) s = tni_thread_alloc(&tni_tls.profile, sizeof *s);
    tni_profile_thread *t = s ? find_thread(p) : NULL;
    if (t) *s = (slot){p->ctx->id, t};
    return t;
}

/* This thread's struct, locked, for the profile that runs; NULL if none runs. */
static tni_profile_thread *lock_own(tni_profiler *p)
{
    const slot *s = tni_tls.profile;
    if (!p || !atomic_load_explicit(&p->generation, memory_order_relaxed)) return NULL;
    tni_profile_thread *t = s && s->context == p->ctx->id ? s->thread : find_slowly(p);
    if (!t) {
        atomic_fetch_add(&p->lost, 1);
        return NULL;
    }
    lock_thread(t);
    uint32_t generation = atomic_load_explicit(&p->generation, memory_order_relaxed);
    if (!generation) {
        unlock_thread(t);
        return NULL;
    }
    if (TNI_UNLIKELY(t->generation != generation)) {
        t->generation = generation;
        t->depth = 0;
        memset(t->recent, 0, sizeof t->recent);
    }
    return t;
}

static tni_profiler *profiler_of(const tn_context *ctx)
{
    return atomic_load_explicit(&ctx->profiler, memory_order_acquire);
}

static inline tni_profile_entry *entry_of(tni_profile_thread *t, tn_context *ctx,
                                          const tni_profile_site *site)
{
    if (!site->number || site->shapes_bytes) return tni_profile_entry_find(ctx, &t->log.table, site);
    tni_profile_entry **recent = &t->recent[site->number % RECENT];
    if (TNI_UNLIKELY(!*recent || (*recent)->number != site->number || (*recent)->row.kind != site->kind))
        *recent = tni_profile_entry_find(ctx, &t->log.table, site);
    return *recent;
}

uint64_t tni_profile_enter(tn_context *ctx, const tni_profile_site *site)
{
    tni_profile_thread *t = lock_own(profiler_of(ctx));
    uint64_t token = 0;
    if (!t) return 0;
    tni_profile_entry *e = t->depth < MAX_DEPTH ? entry_of(t, ctx, site) : NULL;
    if (e) {
        e->open++;
        token = (uint64_t)t->generation << 32 | ++t->depth;
        t->frames[t->depth - 1] = (frame){.entry = e, .start = tni_profile_now()};
    } else {
        t->log.dropped++;
    }
    unlock_thread(t);
    return token;
}

/* The innermost frame ends. */
static void leave(const tni_profiler *p, tni_profile_thread *t, int64_t now)
{
    const frame *f = &t->frames[--t->depth];
    tn_profile_row *row = &f->entry->row;
    int64_t took = now - f->start;
    row->calls++;
    row->host_self += (uint64_t)(took - f->children);
    row->bytes_self += f->bytes;
    if (--f->entry->open == 0) {
        row->host_total += (uint64_t)took;
        row->bytes_total += f->bytes + f->children_bytes;
    }
    if (t->depth) {
        t->frames[t->depth - 1].children += took;
        t->frames[t->depth - 1].children_bytes += f->bytes + f->children_bytes;
    }
    tni_profile_call *call =
        t->log.calls.count < p->max_events ? tni_vector_push(p->ctx, &t->log.calls, sizeof *call) : NULL;
    if (call)
        *call = (tni_profile_call){f->start, now, f->entry};
    else
        t->log.dropped++;
}

void tni_profile_leave(tn_context *ctx, uint64_t token)
{
    int64_t now = tni_profile_now();
    tni_profiler *p = profiler_of(ctx);
    tni_profile_thread *t = token ? lock_own(p) : NULL;
    if (!t) return;
    while (t->generation == token >> 32 && t->depth && t->depth >= (uint32_t)token) leave(p, t, now);
    unlock_thread(t);
}

uint32_t tni_profile_open_entries(tni_profiler *p, const char *work, tni_profile_entry **out, uint32_t most,
                                  uint32_t *out_thread)
{
    tni_profile_thread *t = lock_own(p);
    uint32_t n = 0;
    if (!t) return 0;
    *out_thread = t->log.number;
    for (uint32_t i = t->depth; i-- > 0 && n < most;) {
        uint32_t k = 0;
        while (k < n && out[k] != t->frames[i].entry) k++;
        if (k == n) out[n++] = t->frames[i].entry;
    }
    if (!t->depth) {
        const tni_profile_site site = {.kind = TN_PROFILE_WORK, .name = work};
        out[0] = tni_profile_entry_find(p->ctx, &t->log.table, &site);
        if (out[0]) out[n++]->row.calls++;
    }
    unlock_thread(t);
    return n;
}

void tni_profile_memory(tni_device *device, int64_t change, uint64_t allocated, uint64_t reserved)
{
    tni_profiler *p = profiler_of(device->ctx);
    tni_profile_thread *t = tni_profile_flags(device->ctx) & TN_PROFILE_MEMORY ? lock_own(p) : NULL;
    if (!t) return;
    if (change > 0 && t->depth) t->frames[t->depth - 1].bytes += (uint64_t)change;
    tni_profile_change *c =
        t->log.changes.count < p->max_events ? tni_vector_push(p->ctx, &t->log.changes, sizeof *c) : NULL;
    if (c)
        *c = (tni_profile_change){tni_profile_now(), device->id, allocated, reserved};
    else
        t->log.dropped++;
    unlock_thread(t);
}

/* ---- Begin and end ------------------------------------------------------------------------------------- */

/* The context's profiler, made if it has none. */
static tni_profiler *make_profiler(tn_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    tni_profiler *p = atomic_load(&ctx->profiler);
    if (!p && (p = tni_alloc_zeroed(ctx, sizeof *p))) {
        p->ctx = ctx;
        pthread_mutex_init(&p->lock, NULL);
        pthread_mutex_init(&p->work_lock, NULL);
        atomic_store(&ctx->profiler, p);
    }
    pthread_mutex_unlock(&ctx->lock);
    return p;
}

uint32_t tni_profile_flags(const tn_context *ctx)
{
    const tni_profiler *p = profiler_of(ctx);
    return p && atomic_load_explicit(&p->generation, memory_order_acquire) ? p->flags : 0;
}

static int32_t read_options(tn_profile_options *to, const tn_profile_options *from)
{
    *to = (tn_profile_options){.size = sizeof *to};
    int32_t status = from ? tni_struct_read(to, sizeof *to, from, "tn_profile_options") : TN_OK;
    if (status) return status;
    if (to->flags & ~(TN_PROFILE_SHAPES | TN_PROFILE_MEMORY))
        return tni_error(TN_E_UNKNOWN_FIELD, "tn_profile_options: unknown flags 0x%x",
                         to->flags & ~(TN_PROFILE_SHAPES | TN_PROFILE_MEMORY));
    if (!to->max_events) to->max_events = MAX_EVENTS;
    if (to->max_events > UINT32_MAX / 2) to->max_events = UINT32_MAX / 2;
    return TN_OK;
}

int32_t tni_profile_start(tn_context *ctx, const tn_profile_options *options)
{
    tn_profile_options o;
    int32_t status = tni_context_check(ctx);
    if (!status) status = read_options(&o, options);
    tni_profiler *p = status ? NULL : make_profiler(ctx);
    if (!p) return status ? status : TN_E_OUT_OF_MEMORY;
    pthread_mutex_lock(&p->lock);
    if (atomic_load(&p->generation)) {
        status = tni_error(TN_E_STATE, "profile_begin: a profile has begun already%s%s",
                           ctx->profile_path ? ", by TENON_PROFILE=" : "",
                           ctx->profile_path ? ctx->profile_path : "");
    } else {
        p->flags = o.flags;
        p->max_events = o.max_events;
        p->begin = tni_profile_now();
        if (!++p->last_generation) p->last_generation = 1;
        atomic_store(&p->generation, p->last_generation);
        atomic_fetch_or(&ctx->call_flags, TNI_CALL_PROFILED);
    }
    pthread_mutex_unlock(&p->lock);
    if (!status) tni_profile_work_open(p);
    if (!status && o.flags & TN_PROFILE_MEMORY) tni_allocators_watch(ctx, 1);
    return status;
}

/* Moves what the thread did to the profile. */
static void take_log(tni_profiler *p, tni_profile_thread *t, tn_profile *to)
{
    lock_thread(t);
    if (t->generation == p->last_generation) {
        while (t->depth) leave(p, t, to->end);
        tni_profile_log *log = tni_alloc(p->ctx, sizeof *log),
                        **place = log ? tni_vector_push(p->ctx, &to->logs, sizeof *place) : NULL;
        if (place) {
            *place = log;
            *log = t->log;
        } else {
            tni_free(p->ctx, log, sizeof *log);
            to->dropped += t->log.calls.count + t->log.changes.count;
            tni_profile_log_finish(p->ctx, &t->log);
        }
    }
    memset(t->recent, 0, sizeof t->recent);
    t->generation = 0;
    t->log = (tni_profile_log){.number = t->log.number, .tid = t->log.tid};
    unlock_thread(t);
}

/* Stops the profile that runs. With the profiler's lock held. */
static void stop(tni_profiler *p, tn_profile *to)
{
    *to = (tn_profile){.ctx = p->ctx, .flags = p->flags, .begin = p->begin};
    atomic_fetch_and(&p->ctx->call_flags, ~TNI_CALL_PROFILED);
    atomic_store(&p->generation, 0);
    tni_profile_work_collect(p, to);
    to->dropped += atomic_exchange(&p->lost, 0);
    to->end = tni_profile_now();
    for (tni_profile_thread *t = p->threads; t; t = t->next) take_log(p, t, to);
}

int32_t tni_profile_stop(tn_context *ctx, tn_profile **out)
{
    int32_t status = tni_context_check(ctx);
    if (!status && !out) status = tni_error(TN_E_ARGUMENT, "profile_end: out is NULL");
    if (status) return status;
    tni_profiler *p = profiler_of(ctx);
    if (!tni_is_profiled(ctx)) return tni_error(TN_E_STATE, "profile_end: no profile has begun");
    tn_profile *profile = tni_alloc_zeroed(ctx, sizeof *profile);
    if (!profile) return TN_E_OUT_OF_MEMORY;
    pthread_mutex_lock(&p->lock);
    uint32_t flags = p->flags;
    int32_t runs = atomic_load(&p->generation) != 0; /* another thread may have ended it */
    if (runs) stop(p, profile);
    pthread_mutex_unlock(&p->lock);
    if (!runs) {
        tni_free(ctx, profile, sizeof *profile);
        return tni_error(TN_E_STATE, "profile_end: no profile has begun");
    }
    if (flags & TN_PROFILE_MEMORY) tni_allocators_watch(ctx, 0);
    status = tni_profile_tabulate(profile);
    if (status) {
        tn_profile_release(profile);
        return status;
    }
    tni_handle_made(ctx, profile, "profile");
    *out = profile;
    return TN_OK;
}

void tni_profile_log_finish(tn_context *ctx, tni_profile_log *log)
{
    tni_profile_table_finish(ctx, &log->table);
    tni_vector_finish(ctx, &log->calls, sizeof(tni_profile_call));
    tni_vector_finish(ctx, &log->changes, sizeof(tni_profile_change));
}

void tn_profile_release(tn_profile *profile)
{
    if (!profile || tni_context_check_kept(profile->ctx)) return;
    tn_context *ctx = profile->ctx;
    if (!tni_handle_may_end(ctx, &profile->life, "profile", __builtin_return_address(0))) return;
    for (uint32_t i = 0; i < profile->logs.count; i++) {
        tni_profile_log *log = ((tni_profile_log **)profile->logs.data)[i];
        tni_profile_log_finish(ctx, log);
        tni_free(ctx, log, sizeof *log);
    }
    tni_vector_finish(ctx, &profile->logs, sizeof(tni_profile_log *));
    tni_vector_finish(ctx, &profile->spans, sizeof(tni_profile_span));
    tni_vector_finish(ctx, &profile->activities, sizeof(tni_profile_activity));
    tni_profile_table_finish(ctx, &profile->table);
    tni_free(ctx, profile->rows, profile->row_count * sizeof *profile->rows);
    tni_handle_free(ctx, profile, sizeof *profile, &profile->life);
}

/* ---- Ranges -------------------------------------------------------------------------------------------- */

int32_t tn_profile_range_begin(tn_context *ctx, const char *name)
{
    int32_t status = tni_context_check(ctx);
    if (!status && !name) status = tni_error(TN_E_ARGUMENT, "profile_range_begin: name is NULL");
    if (!status && tni_is_profiled(ctx))
        tni_profile_enter(ctx, &(tni_profile_site){.kind = TN_PROFILE_RANGE, .name = name});
    return status;
}

int32_t tn_profile_range_end(tn_context *ctx)
{
    int64_t now = tni_profile_now();
    int32_t status = tni_context_check(ctx);
    tni_profiler *p = status ? NULL : profiler_of(ctx);
    tni_profile_thread *t = lock_own(p);
    if (!t) return status;
    if (!t->depth || t->frames[t->depth - 1].entry->row.kind != TN_PROFILE_RANGE)
        status = tni_error(TN_E_STATE, "profile_range_end: no range has begun on this thread%s",
                           t->depth ? " inside the operator that is running" : "");
    else
        leave(p, t, now);
    unlock_thread(t);
    return status;
}

/* ---- TENON_PROFILE and the end of a context ------------------------------------------------------------ */

/* Flags of TENON_PROFILE_WITH. */
static int32_t read_flags(const char *list, uint32_t *out)
{
    while (list && *list) {
        size_t length = strcspn(list, ",");
        if (length == 6 && !strncmp(list, "shapes", length))
            *out |= TN_PROFILE_SHAPES;
        else if (length == 6 && !strncmp(list, "memory", length))
            *out |= TN_PROFILE_MEMORY;
        else if (length)
            return tni_error(TN_E_ARGUMENT, "TENON_PROFILE_WITH: '%.*s' is neither shapes nor memory",
                             (int)(length < 200 ? length : 200), list);
        list += length + (list[length] == ',');
    }
    return TN_OK;
}

int32_t tni_profile_wish(tn_context *ctx, tn_profile_options *out)
{
    const char *path = secure_getenv("TENON_PROFILE");
    *out = (tn_profile_options){.size = sizeof *out};
    if (!path || !path[0]) return TN_OK;
    int32_t status = read_flags(secure_getenv("TENON_PROFILE_WITH"), &out->flags);
    if (status) return status;
    FILE *file = fopen(path, "ae"); /* a folder that is missing is found now, not after the work */
    if (!file) return tni_error(TN_E_IO, "TENON_PROFILE: %s cannot be written: %s", path, strerror(errno));
    fclose(file);
    ctx->profile_path = tni_strdup(ctx, path);
    if (!ctx->profile_path) return TN_E_OUT_OF_MEMORY;
    tni_profile_close_at_exit();
    return TN_OK;
}

/* Handlers run in the reverse order, and closing a profile again does nothing. */
void tni_profile_close_at_exit(void)
{
    (void)atexit(tni_profiles_close);
}

void tni_profile_close(tn_context *ctx)
{
    tn_profile *profile = NULL;
    if (!tni_is_profiled(ctx) || tni_profile_stop(ctx, &profile)) return;
    if (ctx->profile_path && tn_profile_write(profile, ctx->profile_path))
        tni_log(ctx, TN_LOG_ERROR, "TENON_PROFILE: %s", tn_last_error()->message);
    tn_profile_release(profile);
}

void tni_profile_finish(tn_context *ctx)
{
    tni_profiler *p = profiler_of(ctx);
    if (ctx->profile_path) tni_free(ctx, ctx->profile_path, strlen(ctx->profile_path) + 1);
    ctx->profile_path = NULL;
    if (!p) return;
    for (tni_profile_thread *t = p->threads, *next; t; t = next) {
        next = t->next;
        tni_profile_log_finish(ctx, &t->log);
        tni_free(ctx, t, sizeof *t);
    }
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->work_lock);
    atomic_store(&ctx->profiler, NULL);
    tni_free(ctx, p, sizeof *p);
}
