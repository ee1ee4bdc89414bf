/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The context: root of all state. Rooms above the core hang their own state from the `void *` slots and the
 * function tables below, so the core knows neither operators nor gradients.
 */
#ifndef TNI_CORE_CONTEXT_H
#define TNI_CORE_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <tenon/plugin.h>
#include "core/memory.h"

#define TNI_MAX_DEVICE_TYPES  16
#define TNI_MAX_VENDOR_DTYPES (256u - TN_CODE_VENDOR)

struct tni_device_type;
struct tni_magazine;
struct tni_registry;
struct tni_autograd_meta;

/* What autograd gives the core: how to drop what it hung on a tensor. */
typedef struct tni_autograd_hooks {
    void (*destroy)(tn_context *ctx, struct tni_autograd_meta *meta);
    /* What tn_format appends: "requires_grad=True", "grad_fn=<MulBackward0>", or "" for nothing. */
    void (*describe)(const tn_tensor *t, char *buffer, uint64_t bytes);
    /* With TENON_DEBUG=anomaly: where the program made the call that has just run on this thread, "model.c:49". */
    void (*placed)(tn_context *ctx, const char *place);
} tni_autograd_hooks;

/* A storage that several tensors show was moved by a resize: from then on calls bring the descriptors of
 * their arguments up to date. */
#define TNI_CONTEXT_MOVED 0x80000000u
/* The context was made before a fork, and this process is the child: calls answer TN_E_FORKED. Or it is dead, see
 * context.c, and they answer TN_E_DEAD_HANDLE. */
#define TNI_CONTEXT_FORKED 0x40000000u
/* With TN_CONTEXT_DEBUG_HANDLES: the program has destroyed the context, which tensors and other objects may still keep. */
#define TNI_CONTEXT_ENDED 0x08000000u
/* TENON_DEBUG=leaks: what begins and ends is told to core/debug.h. */
#define TNI_CONTEXT_LEAKS 0x20000000u
/* TENON_DEBUG: calls tell core/debug.h where the program made them. */
#define TNI_CONTEXT_PLACES 0x10000000u
/* Headers of tensors lie outside of blocks, because their end matters. */
#define TNI_CONTEXT_SEPARATE_HEADERS (TN_CONTEXT_DEBUG_HANDLES | TNI_CONTEXT_LEAKS)
/* A scope must be looked at before a call uses it, see tni_scope_check. */
#define TNI_CONTEXT_CHECKS_SCOPES (TN_CONTEXT_DEBUG_HANDLES | TNI_CONTEXT_FORKED | TNI_CONTEXT_LEAKS)

/* Who is told that a device is out of memory. */
#define TNI_MEMORY_OBSERVERS 8
typedef struct tni_memory_observer {
    void (*run)(void *user, const tn_memory_shortage *shortage);
    void *user;
    uint64_t handle; /* 0: free */
} tni_memory_observer;

/* A member of an object of the program, 0 while it is alive; see handle.h. */
typedef uint32_t tni_handle_mark;

struct tn_context {
    uint64_t id; /* never reused in a process */
    tn_host_allocator allocator;
    tn_log_sink log;
    void *log_user;
    int32_t log_level;       /* of the library's own sink, see log.c */
    _Atomic(uint32_t) flags; /* TN_CONTEXT_..., TNI_CONTEXT_... */
    _Atomic(tn_dtype) default_dtype;
    _Atomic(uint32_t) call_flags;    /* TN_CALL_... that every call of a kernel has, TNI_CALL_PROFILED */
    _Atomic(uint32_t) lacked_memory; /* an allocation has failed */
    _Atomic(int32_t) threads;
    tni_handle_mark ended;           /* with TN_CONTEXT_DEBUG_HANDLES: the program has destroyed it */
    pid_t pid;                       /* of the process that made it */
    tn_context *previous_of_process; /* in the list of all contexts, see context.c */
    tn_context *next_of_process;

    /* 1 for the user, 1 for each live storage: the last one frees it. Storages of the caches are counted
     * there while the user holds the context. */
    atomic_uint_fast64_t owners;

    pthread_mutex_t lock;           /* protects the interning table and device types */
    tni_vector interned;            /* char * each, index + 1 is the number */
    struct tni_magazine *magazines; /* of all threads; under the lock in memory.c */
    struct tni_device_type *types[TNI_MAX_DEVICE_TYPES];
    _Atomic(uint32_t) type_count;
    uint64_t seed;            /* of default generators */
    tni_vector vendor_dtypes; /* char * each: the name of code TN_CODE_VENDOR + index; under the lock */
    uint32_t vendor_bits[TNI_MAX_VENDOR_DTYPES];
    atomic_uint_fast64_t last_storage; /* identity given last, see tni_storage_identity */

    _Atomic(uint32_t) warned; /* bits of tni_warning */

    struct tni_registry *registry;                       /* dispatcher */
    void *plugins;                                       /* dispatcher */
    void *call_watch;                                    /* dispatcher; NULL without TENON_DEBUG */
    struct tni_debug *debug;                             /* core/debug.c's; NULL without TENON_DEBUG */
    _Atomic(struct tni_profiler *) profiler;             /* core/profile.c's; NULL before the first profile */
    char *profile_path;                                  /* of TENON_PROFILE, or NULL */
    struct tni_memory_options *memory_options;           /* of TENON_ALLOC_CONF, or NULL */
    char *alloc_conf;                                    /* its text */
    void (*tell_operators)(tn_context *ctx, int32_t on); /* dispatcher: see tni_current_operator; or NULL */
    tni_memory_observer memory_observers[TNI_MEMORY_OBSERVERS]; /* under `lock` */
    uint64_t last_memory_observer;
    void *autograd_state; /* autograd */
    const tni_autograd_hooks *autograd;
    _Atomic(tn_tensor *) dead; /* released headers, kept with TN_CONTEXT_DEBUG_HANDLES; linked by `base` */
    _Atomic(tn_scope *) dead_scopes;                /* closed ones, kept likewise; linked by `parent` */
    _Atomic(struct tni_dead_handle *) dead_handles; /* other objects, kept likewise */
    tn_host host;                                   /* the table that plugins and scopes see */

    pthread_mutex_t findings_lock; /* of the two below; see finding.h */
    tni_vector findings;           /* tn_finding * each */
    uint64_t findings_dropped;

    /* dispatcher: writes "; " and why no plugin offers a device type (NULL: any), or ""; or NULL */
    void (*explain_missing)(tn_context *ctx, const char *type, char *out, uint64_t bytes);
};

/* Calls `f` for each context of the process that was made in it, one after another. `f` makes and ends none. */
void tni_contexts_each(void (*f)(tn_context *ctx, const void *of), const void *of);
/* Keeps the context's memory until tni_context_unown; every storage holds one. */
void tni_context_own(tn_context *ctx);
void tni_context_unown(tn_context *ctx);
/* 1 in a process forked from the one that made the context, whose locks are as they happened to be; and for a dead one. */
static inline int32_t tni_context_is_forked(const tn_context *ctx)
{
    return (atomic_load_explicit(&ctx->flags, memory_order_relaxed) & TNI_CONTEXT_FORKED) != 0;
}
/* The text of an interned number for messages, "unknown" for another number. */
const char *tni_interned_name(tn_context *ctx, uint32_t id);
/* 0 for a context that the program cannot give to a call: made before a fork, or destroyed. */
static inline int32_t tni_context_is_usable(const tn_context *ctx)
{
    return !(atomic_load_explicit(&ctx->flags, memory_order_relaxed) &
             (TNI_CONTEXT_FORKED | TNI_CONTEXT_ENDED));
}
/* TN_OK, or the error of a context that is NULL, destroyed, or was made before a fork: for calls that get a context. */
int32_t tni_context_check(tn_context *ctx);
/* The same for the context of an object that the program has, and for the end of contexts: a destroyed one is TN_OK as long as
 * something keeps it. */
int32_t tni_context_check_kept(tn_context *ctx);
/* Logs if there is a sink; see log.c. */
void tni_log(tn_context *ctx, int32_t level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* What a context warns of once. */
typedef enum tni_warning {
    TNI_WARNING_GRADIENT_CYCLE,
    TNI_WARNING_MSE_LOSS,
    TNI_WARNING_L1_LOSS,
    TNI_WARNING_SMOOTH_L1_LOSS,
    TNI_WARNING_HUBER_LOSS,
} tni_warning;
/* Logs a warning the first time. */
void tni_warn_once(tn_context *ctx, tni_warning warning, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Records an error, and logs it: a mistake of the program that many of its calls have no status for. With TENON_DEBUG the
 * line has the place of the call. */
int32_t tni_error_logged(tn_context *ctx, int32_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Copies as much as the caller's struct holds, whose size it keeps. `name` is for the error: size 0. */
int32_t tni_struct_write(void *to, const void *from, uint32_t known, const char *name);
/*
 * Reads a parameter struct of another age: at most `known` bytes of *from go to *to, the rest of *to is zero.
 * A longer one is accepted if its tail is zero, else TN_E_UNKNOWN_FIELD. `name` is for the error.
 */
int32_t tni_struct_read(void *to, uint32_t known, const void *from, const char *name);
/* Fills the slots of the host table that the core serves: error, log, intern, memory, scopes. */
void tni_host_init(tn_context *ctx);
/* A slot of the host was given no scope: the error. */
int32_t tni_no_scope(const char *slot);
/* The default dtype in force here: scope, then context. */
tn_dtype tni_default_dtype(const tn_context *ctx);
/* The dtype of a tensor made of a number; an error for a complex one when the default dtype is bfloat16. */
int32_t tni_infer_dtype(const tn_context *ctx, tn_value number, tn_dtype *out);

/*
 * Rooms above the core take part in a context's life through this list, defined once where the library is put
 * together (dispatcher/rooms.c): called in order at creation and in reverse at the end.
 */
typedef struct tni_room {
    const char *name;
    int32_t (*init)(tn_context *ctx, const tn_context_options *options);
    void (*finish)(tn_context *ctx);
} tni_room;
extern const tni_room tni_rooms[];
extern const uint32_t tni_room_count;

#endif
