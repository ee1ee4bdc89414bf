/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a context, and its settings. It ends when its last owner lets go: the user, and every storage
 * that is still alive. The rooms above the core are told through tni_rooms; this file knows none of them.
 */
#include "core/context.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/debug.h"
#include "core/device.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/finding.h"
#include "core/handle.h"
#include "core/log.h"
#include "core/profile.h"
#include "core/thread.h"

#define DEFAULT_SEED 67280421310721ull /* of default generators, PyTorch's */
#define KNOWN_FLAGS  (TN_CONTEXT_NO_DISCOVERY | TN_CONTEXT_DEBUG_HANDLES | TN_CONTEXT_TOLERATE_SHIMS)

static pthread_once_t process_once = PTHREAD_ONCE_INIT;
static atomic_uint_fast64_t last_context_id;

/* All contexts of the process, so that a fork can mark them in the child. */
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static tn_context *contexts;

/* Locks of the whole process are free in the child, which may make contexts of its own. */
static void before_fork(void)
{
    pthread_mutex_lock(&contexts_lock);
    tni_memory_lock_for_fork();
}

static void after_fork_in_parent(void)
{
    tni_memory_unlock_after_fork();
    pthread_mutex_unlock(&contexts_lock);
}

static void after_fork_in_child(void)
{
    for (tn_context *c = contexts; c; c = c->next_of_process)
        atomic_fetch_or_explicit(&c->flags, TNI_CONTEXT_FORKED, memory_order_relaxed);
    tni_memory_unlock_after_fork();
    pthread_mutex_unlock(&contexts_lock);
}

static void init_process(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static void enlist(tn_context *ctx)
{
    pthread_mutex_lock(&contexts_lock);
    ctx->next_of_process = contexts;
    if (contexts) contexts->previous_of_process = ctx;
    contexts = ctx;
    pthread_mutex_unlock(&contexts_lock);
}

static void delist(tn_context *ctx)
{
    pthread_mutex_lock(&contexts_lock);
    if (ctx->previous_of_process)
        ctx->previous_of_process->next_of_process = ctx->next_of_process;
    else
        contexts = ctx->next_of_process;
    if (ctx->next_of_process) ctx->next_of_process->previous_of_process = ctx->previous_of_process;
    pthread_mutex_unlock(&contexts_lock);
}

static void *default_alloc(void *user, uint64_t bytes)
{
    void *memory = NULL;
    return posix_memalign(&memory, 64, bytes) == 0 ? memory : NULL;
}

static void default_free(void *user, void *memory, uint64_t bytes)
{
    free(memory);
}

static int32_t check_size(uint32_t size, const char *name)
{
    if (size >= sizeof size) return TN_OK;
    return tni_error(TN_E_ARGUMENT, "%s: size is %u; set it to sizeof(%s)", name, size, name);
}

int32_t tni_struct_write(void *to, const void *from, uint32_t known, const char *name)
{
    uint32_t size;
    if (!to) return tni_error(TN_E_ARGUMENT, "%s is NULL", name);
    memcpy(&size, to, sizeof size);
    int32_t status = check_size(size, name);
    if (status) return status;
    memcpy((char *)to + sizeof size, (const char *)from + sizeof size,
           (size < known ? size : known) - sizeof size);
    return TN_OK;
}

int32_t tni_struct_read(void *to, uint32_t known, const void *from, const char *name)
{
    uint32_t size;
    if (!from) return tni_error(TN_E_ARGUMENT, "%s is NULL", name);
    memcpy(&size, from, sizeof(size));
    int32_t status = check_size(size, name);
    if (status) return status;
    for (uint32_t i = known; i < size; i++) {
        if (((const char *)from)[i]) {
            return tni_error(TN_E_UNKNOWN_FIELD,
                             "%s: byte %u is set, but this library knows only the first %u bytes", name, i,
                             known);
        }
    }
    uint32_t n = size < known ? size : known;
    memcpy(to, from, n);
    memset((char *)to + n, 0, known - n);
    memcpy(to, &known, sizeof(known));
    return TN_OK;
}

static int32_t read_options(tn_context_options *to, const tn_context_options *from)
{
    *to = (tn_context_options){.size = sizeof(*to)};
    int32_t status = from ? tni_struct_read(to, sizeof(*to), from, "tn_context_options") : TN_OK;
    if (status) return status;
    if (to->flags & ~KNOWN_FLAGS) {
        return tni_error(TN_E_UNKNOWN_FIELD, "tn_context_options: unknown flags 0x%x",
                         to->flags & ~KNOWN_FLAGS);
    }
    if (!to->allocator.alloc != !to->allocator.free) {
        return tni_error(TN_E_ARGUMENT, "tn_context_options: allocator needs both alloc and free");
    }
    if (!to->allocator.alloc)
        to->allocator = (tn_host_allocator){.alloc = default_alloc, .free = default_free};
    return TN_OK;
}

/* Cores that this process may use. */
static int32_t core_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than the set has room for */
    return online > 0 ? (int32_t)online : 1;
}

/* OMP_NUM_THREADS, which other libraries of the process go by, too; else the cores. */
static int32_t default_threads(void)
{
    const char *wish = getenv("OMP_NUM_THREADS");
    long threads = wish ? strtol(wish, NULL, 10) : 0; /* of a list the outermost level */
    return threads > 0 && threads <= INT16_MAX ? (int32_t)threads : core_count();
}

static void free_interned(tn_context *ctx)
{
    char **texts = ctx->interned.data;
    for (uint32_t i = 0; i < ctx->interned.count; i++) tni_free(ctx, texts[i], strlen(texts[i]) + 1);
    tni_vector_finish(ctx, &ctx->interned, sizeof(char *));
    texts = ctx->vendor_dtypes.data;
    for (uint32_t i = 0; i < ctx->vendor_dtypes.count; i++) tni_free(ctx, texts[i], strlen(texts[i]) + 1);
    tni_vector_finish(ctx, &ctx->vendor_dtypes, sizeof(char *));
}

/*
 * With TN_CONTEXT_DEBUG_HANDLES, what the program destroys stays for good, so that a second use is found: its calls are refused
 * like those of a child after a fork. Only in malloc's memory, since the program may end an allocator or a log of its own now.
 */
static int32_t keep_dead(tn_context *ctx)
{
    static tn_context *dead; /* a checker of leaks finds all by it */
    if (!ctx->ended || ctx->allocator.alloc != default_alloc) return 0;
    if (ctx->log_user != ctx) ctx->log = NULL;
    pthread_mutex_lock(&contexts_lock);
    ctx->next_of_process = dead;
    dead = ctx;
    pthread_mutex_unlock(&contexts_lock);
    atomic_fetch_or(&ctx->flags, TNI_CONTEXT_FORKED);
    return 1;
}

/* Frees what is left after the rooms have gone. */
static void free_context(tn_context *ctx)
{
    delist(ctx);
    free_interned(ctx);
    tni_findings_finish(ctx);
    tni_debug_finish(ctx);
    tni_dead_handles_finish(ctx); /* devices and rooms have released their generators, events and files */
    tni_memory_options_finish(ctx);
    tni_memory_flush(ctx);
    pthread_mutex_destroy(&ctx->findings_lock);
    pthread_mutex_destroy(&ctx->lock);
    if (keep_dead(ctx)) return;
    tn_host_allocator allocator = ctx->allocator;
    allocator.free(allocator.user, ctx, sizeof(*ctx));
}

static void finish_rooms(tn_context *ctx, uint32_t count)
{
    while (count--) {
        if (tni_rooms[count].finish) tni_rooms[count].finish(ctx);
    }
}

static void finish_context(tn_context *ctx)
{
    tni_devices_finish(ctx);
    finish_rooms(ctx, tni_room_count);
    free_context(ctx);
}

static int32_t init_interned(tn_context *ctx)
{
    static const char *const fixed[] = {"cpu", "meta", "strided"}; /* TN_INTERNED_CPU and so on */
    for (uint32_t i = 0; i < 3; i++) {
        if (tn_intern(ctx, fixed[i]) != i + 1) return TN_E_OUT_OF_MEMORY;
    }
    return TN_OK;
}

static int32_t init_rooms(tn_context *ctx, const tn_context_options *options)
{
    for (uint32_t i = 0; i < tni_room_count; i++) {
        int32_t status = tni_rooms[i].init ? tni_rooms[i].init(ctx, options) : TN_OK;
        if (status == TN_OK) continue;
        tni_error_ensure(status, tni_rooms[i].name);
        tni_devices_finish(ctx);
        finish_rooms(ctx, i);
        return status;
    }
    return TN_OK;
}

static tn_context *make_context(const tn_context_options *o)
{
    tn_context *ctx = o->allocator.alloc(o->allocator.user, sizeof(*ctx));
    if (!ctx) {
        tni_error_no_memory("a context", sizeof(*ctx));
        return NULL;
    }
    memset(ctx, 0, sizeof(*ctx));
    ctx->id = atomic_fetch_add(&last_context_id, 1) + 1;
    ctx->allocator = o->allocator;
    ctx->log = o->log;
    ctx->log_user = o->log_user;
    ctx->flags = o->flags;
    ctx->default_dtype = TN_FLOAT32;
    ctx->threads = default_threads();
    ctx->pid = getpid();
    ctx->owners = 1;
    ctx->seed = DEFAULT_SEED;
    pthread_mutex_init(&ctx->lock, NULL);
    pthread_mutex_init(&ctx->findings_lock, NULL);
    tni_host_init(ctx);
    enlist(ctx);
    return ctx;
}

int32_t tn_context_create(const tn_context_options *options, tn_context **out)
{
    tn_context_options o;
    if (!out) return tni_error(TN_E_ARGUMENT, "tn_context_create: out is NULL");
    int32_t status = read_options(&o, options);
    if (status) return status;
    pthread_once(&process_once, init_process);
    tn_context *ctx = make_context(&o);
    if (!ctx) return TN_E_OUT_OF_MEMORY;
    tni_log_init(ctx);
    status = tni_debug_init(ctx); /* before anything is allocated: its flags decide from where */
    if (status == TN_OK) status = tni_memory_options_init(ctx);
    if (status == TN_OK) status = init_interned(ctx);
    if (status == TN_OK) status = init_rooms(ctx, &o);
    if (status == TN_OK && atomic_load(&ctx->lacked_memory)) {
        /* A plugin may have been left out for that: the program would look for its kernels in vain. */
        tn_context_destroy(ctx);
        return tni_error_no_memory("a context and its plugins", sizeof *ctx);
    }
    if (status == TN_OK) {
        *out = ctx;
        return TN_OK;
    }
    free_context(ctx);
    return status;
}

/* More owners than there can be storages: keeps the context while its storages are being counted. */
#define WHILE_COUNTING (1ull << 48)

void tn_context_destroy(tn_context *ctx)
{
    if (!ctx || !tni_handle_may_end(ctx, &ctx->ended, "context", __builtin_return_address(0))) return;
    if (tni_context_is_forked(ctx)) return;
    if (ctx->flags & TN_CONTEXT_DEBUG_HANDLES) tni_handle_mark_dead(&ctx->ended);
    tni_profile_close(ctx);
    tni_debug_report(ctx);
    if (ctx->flags & TN_CONTEXT_DEBUG_HANDLES) atomic_fetch_or(&ctx->flags, TNI_CONTEXT_ENDED);
    atomic_fetch_add_explicit(&ctx->owners, WHILE_COUNTING, memory_order_relaxed);
    tni_devices_count_storages(ctx);
    atomic_fetch_sub_explicit(&ctx->owners, WHILE_COUNTING, memory_order_relaxed);
    tni_context_unown(ctx);
}

void tni_context_own(tn_context *ctx)
{
    atomic_fetch_add_explicit(&ctx->owners, 1, memory_order_relaxed);
}

static void *finish_on_own_thread(void *ctx)
{
    finish_context(ctx);
    return NULL;
}

/* The last owner was something that a device has released late, on a thread that ends with the device. */
static void finish_elsewhere(tn_context *ctx)
{
    pthread_t thread;
    int failed = tni_thread_start(&thread, finish_on_own_thread, ctx);
    if (failed)
        tni_log(ctx, TN_LOG_ERROR, "the context is not ended, for lack of a thread: %s", strerror(failed));
    else
        pthread_detach(thread);
}

/* In a forked child the context is left as it is: its locks and the plugins' threads did not come along. */
void tni_context_unown(tn_context *ctx)
{
    if (atomic_fetch_sub_explicit(&ctx->owners, 1, memory_order_acq_rel) != 1) return;
    if (tni_context_is_forked(ctx)) return;
    if (TNI_UNLIKELY(tni_tls.is_releasing))
        finish_elsewhere(ctx);
    else
        finish_context(ctx);
}

void tni_contexts_each(void (*f)(tn_context *ctx, const void *of), const void *of)
{
    pthread_mutex_lock(&contexts_lock);
    for (tn_context *c = contexts; c; c = c->next_of_process) {
        if (!tni_context_is_forked(c)) f(c, of);
    }
    pthread_mutex_unlock(&contexts_lock);
}

void tni_profiles_close(void)
{
    for (;;) {
        pthread_mutex_lock(&contexts_lock);
        tn_context *c = contexts;
        while (c && (tni_context_is_forked(c) || !c->profile_path || !tni_is_profiled(c)))
            c = c->next_of_process;
        if (c) tni_context_own(c);
        pthread_mutex_unlock(&contexts_lock);
        if (!c) return;
        tni_profile_close(c);
        tni_context_unown(c);
    }
}

static __attribute__((noinline)) int32_t refuse(tn_context *ctx)
{
    if (!ctx) return tni_error(TN_E_ARGUMENT, "the context is NULL: making it failed, or it was left out");
    int32_t status = tni_handle_check(ctx, &ctx->ended, "context");
    if (status) return status;
    return tni_error(TN_E_FORKED,
                     "the context was made by process %ld and cannot be used after fork in process %ld",
                     (long)ctx->pid, (long)getpid());
}

int32_t tni_context_check(tn_context *ctx)
{
    return TNI_LIKELY(ctx && tni_context_is_usable(ctx)) ? TN_OK : refuse(ctx);
}

int32_t tni_context_check_kept(tn_context *ctx)
{
    return TNI_LIKELY(ctx && !tni_context_is_forked(ctx)) ? TN_OK : refuse(ctx);
}

uint32_t tn_intern(tn_context *ctx, const char *text)
{
    uint32_t id = 0;
    if (tni_context_check_kept(ctx)) return 0;
    if (!text) {
        tni_error(TN_E_ARGUMENT, "tn_intern: text is NULL");
        return 0;
    }
    pthread_mutex_lock(&ctx->lock);
    char **texts = ctx->interned.data;
    for (uint32_t i = 0; i < ctx->interned.count && !id; i++) {
        if (strcmp(texts[i], text) == 0) id = i + 1;
    }
    char *copy = id ? NULL : tni_strdup(ctx, text);
    if (copy) {
        char **item = tni_vector_push(ctx, &ctx->interned, sizeof(char *));
        if (item) {
            *item = copy;
            id = ctx->interned.count;
        } else {
            tni_free(ctx, copy, strlen(copy) + 1);
        }
    }
    pthread_mutex_unlock(&ctx->lock);
    return id;
}

const char *tn_interned(tn_context *ctx, uint32_t id)
{
    if (tni_context_check_kept(ctx)) return NULL;
    pthread_mutex_lock(&ctx->lock);
    const char *text = id && id <= ctx->interned.count ? ((char **)ctx->interned.data)[id - 1] : NULL;
    pthread_mutex_unlock(&ctx->lock);
    return text;
}

const char *tni_interned_name(tn_context *ctx, uint32_t id)
{
    const char *text = tn_interned(ctx, id);
    return text ? text : "unknown";
}

tn_dtype tni_default_dtype(const tn_context *ctx)
{
    tn_dtype dtype = tni_tls.default_dtype;
    return dtype ? dtype : atomic_load_explicit(&ctx->default_dtype, memory_order_relaxed);
}

int32_t tni_infer_dtype(const tn_context *ctx, tn_value number, tn_dtype *out)
{
    tn_dtype dtype = tni_default_dtype(ctx);
    if (number.tag == TN_TAG_COMPLEX && dtype == TN_BFLOAT16)
        return tni_error(
            TN_E_DTYPE,
            "a complex number has no default dtype while the default dtype is bfloat16: name its dtype");
    *out = tni_dtype_of_scalar(number, dtype);
    return TN_OK;
}

int32_t tn_set_default_dtype(tn_context *ctx, tn_dtype dtype)
{
    int32_t status = tni_context_check(ctx);
    if (status) return status;
    if (dtype != TN_FLOAT16 && dtype != TN_BFLOAT16 && dtype != TN_FLOAT32 && dtype != TN_FLOAT64) {
        return tni_error(TN_E_DTYPE,
                         "only float16, bfloat16, float32 and float64 can be the default dtype, not %s",
                         tn_dtype_name(dtype) ? tn_dtype_name(dtype) : "an unknown dtype");
    }
    atomic_store_explicit(&ctx->default_dtype, dtype, memory_order_relaxed);
    return TN_OK;
}

tn_dtype tn_get_default_dtype(const tn_context *ctx)
{
    return ctx ? atomic_load_explicit(&ctx->default_dtype, memory_order_relaxed) : 0;
}

void tn_set_deterministic(tn_context *ctx, int32_t on)
{
    tn_set_call_flags(ctx, on ? TN_CALL_DETERMINISTIC : 0, TN_CALL_DETERMINISTIC);
}

int32_t tn_get_deterministic(const tn_context *ctx)
{
    return (int32_t)(tn_get_call_flags(ctx) & TN_CALL_DETERMINISTIC);
}

void tn_set_call_flags(tn_context *ctx, uint32_t flags, uint32_t mask)
{
    if (tni_context_check(ctx)) return;
    mask &= ~TNI_CALL_INTERNAL;
    uint32_t before = atomic_load_explicit(&ctx->call_flags, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&ctx->call_flags, &before, (before & ~mask) | (flags & mask)))
        continue;
}

uint32_t tn_get_call_flags(const tn_context *ctx)
{
    return ctx ? atomic_load_explicit(&ctx->call_flags, memory_order_relaxed) & ~TNI_CALL_INTERNAL : 0;
}

void tn_set_num_threads(tn_context *ctx, int32_t threads)
{
    if (tni_context_check(ctx)) return;
    atomic_store_explicit(&ctx->threads, threads > 0 ? threads : core_count(), memory_order_relaxed);
}

int32_t tn_get_num_threads(const tn_context *ctx)
{
    return ctx ? atomic_load_explicit(&ctx->threads, memory_order_relaxed) : 0;
}
