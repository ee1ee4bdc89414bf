/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The context, which owns all state; scopes, which own temporary tensors and carry the first error; errors.
 *
 * A context may be used from any number of threads. A scope belongs to the thread that opened it.
 */
#ifndef TENON_CONTEXT_H
#define TENON_CONTEXT_H

#include <tenon/value.h>

TN_BEGIN_DECLS

/*
 * Host memory for the library's own objects. `alloc` returns memory aligned to 64 bytes or NULL; `free`
 * accepts NULL. Both are called from any thread.
 */
typedef struct tn_host_allocator {
    void *user;
    void *(*alloc)(void *user, uint64_t bytes);
    void (*free)(void *user, void *memory, uint64_t bytes);
} tn_host_allocator;

#define TN_LOG_ERROR 0
#define TN_LOG_WARN  1
#define TN_LOG_INFO  2
#define TN_LOG_DEBUG 3

/* Receives one line of the log, without newline. `level` is a TN_LOG_... number: 0 error, 1 warning, 2 info,
 * 3 debug. Called from any thread; must not call the library. */
typedef void (*tn_log_sink)(void *user, int32_t level, const char *text);

#define TN_CONTEXT_NO_DISCOVERY 1u /* do not search for plugins; the program loads its own */
/* Refuse released tensors, closed scopes, destroyed contexts (also while tensors keep them), and scopes used on another thread
 * than theirs. Their headers stay in memory until the context ends, and contexts in malloc's memory stay for good. */
#define TN_CONTEXT_DEBUG_HANDLES 2u
/* A missing shim is reported as a failed candidate instead of failing tn_context_create; for diagnostic
 * tools. */
#define TN_CONTEXT_TOLERATE_SHIMS 4u

typedef struct tn_context_options {
    uint32_t size;
    uint32_t flags;
    tn_host_allocator allocator; /* alloc NULL: malloc */
    /* NULL: the program receives no log lines. What TENON_LOG, or a layer that the environment asks for, logs
     * then goes to standard error. */
    tn_log_sink log;
    void *log_user;
    const char *plugin_path; /* replaces the search path, ':' separated; NULL: the configured one */
    /* Shims to load in addition to those of the environment (TENON_VALIDATE, TENON_RECORD, TENON_INJECT),
     * each with its setting, ';' separated: "validate=1;inject=memory.alloc:3". NULL: none. */
    const char *shims;
} tn_context_options;

/*
 * A finding: a breach of the contract between host and plugins, reported when it happens. The host always
 * reports some; shims (see plugin.h) find more. Texts that do not apply are NULL.
 */
typedef struct tn_finding {
    uint32_t size;
    uint32_t reserved;
    const char *kind;   /* short and fixed: "race", "use-after-free", "leak", "refused-after-yes", ... */
    const char *finder; /* "host", or the shim */
    const char *plugin; /* the plugin that breached the contract */
    const char *text;   /* what was given and what was expected */
    const char *slot;   /* where: "memory.free"; "kernel.run" for kernels */
    const char *op;     /* the operator that was running */
    const char *place;  /* slot or operator, and the number of the call */
    const char *other;  /* the other place involved: where it was freed, last written, made */
    uint64_t stream;    /* id of the stream, 0 is the default stream; UINT64_MAX: none */
    uint64_t count;     /* how many times; equal findings are counted as one */
} tn_finding;

#ifndef TN_PLUGIN
/* Makes a context. `options` NULL: the defaults. On failure tn_last_error() on this thread has the reason. */
TN_API int32_t tn_context_create(TN_NULLABLE const tn_context_options *options,
                                 TN_OUT TN_GIVES tn_context **out) TN_ANY_THREAD;
/* Ends a context. All its scopes must be closed; tensors that are still referenced keep the parts they need.
 * NULL is ignored. */
TN_API void tn_context_destroy(TN_TAKES TN_NULLABLE tn_context *ctx);

/* Last error of this thread, or NULL. Borrowed until the thread's next failing call. Its texts are valid UTF-8: a byte of a text
 * that the program gave, not part of a character, reads as a backslash, x and two digits. */
TN_API const tn_error *tn_last_error(void) TN_ANY_THREAD;
TN_API void tn_clear_error(void) TN_ANY_THREAD;
/* How many errors this thread has had. */
TN_API uint64_t tn_error_count(void) TN_ANY_THREAD;
/* Says where the program made the call that led to this thread's last error: its file and line are set, and its message
 * begins with them. Does nothing to an error that has a place, or if there were as many errors (`before`) before the call. A
 * copy that tn_call_operator has handed out gets no place. Tensors and other objects that the call made are listed with the place
 * by TENON_DEBUG=leaks, so call it after a success, too, where that is wanted. `before` is read right before the call. */
TN_API void tn_error_place(uint64_t before, const char *file, uint32_t line) TN_ANY_THREAD;
/*
 * For a library over Tenon: an object of its own begins or ends. With TENON_DEBUG=leaks those that have begun and not ended
 * when the context is destroyed are logged as `what`, which is copied: "module 'net'". Without it nothing happens. An
 * object that never began may end, and the context may be gone by then.
 */
TN_API void tn_debug_object_begin(tn_context *ctx, const void *object, const char *what) TN_ANY_THREAD;
TN_API void tn_debug_object_end(TN_NULLABLE const void *object) TN_ANY_THREAD;
/* Where the program made an object that has begun, unless that is known: for a wrapper that takes over what a call made. */
TN_API void tn_debug_object_place(const void *object, const char *file, uint32_t line) TN_ANY_THREAD;
/* Text of a status. Never NULL. */
TN_API const char *tn_status_text(int32_t status) TN_ANY_THREAD;
TN_API const char *tn_version(void) TN_ANY_THREAD;

/* Number of a name (device type, layout); a new name gets the next free number. 0 when out of memory. */
TN_API uint32_t tn_intern(tn_context *ctx, const char *text) TN_ANY_THREAD;
/* Text of an interned number, or NULL. Lives as long as the context. */
TN_API const char *tn_interned(tn_context *ctx, uint32_t id) TN_ANY_THREAD;

/*
 * Scopes. A scope owns the tensors that its calls return, and records the first error. After an error every
 * call on the scope does nothing and returns NULL, 0 or the status, whatever its arguments are. Opening and
 * closing a scope takes a few nanoseconds.
 */
#define TN_GRAD_INHERIT   0u
#define TN_GRAD_ON        1u
#define TN_GRAD_OFF       2u
#define TN_GRAD_INFERENCE 3u

/*
 * Mixed precision. While it is on, inputs of convolutions and matrix products are cast to the low dtype, and
 * inputs of losses, norms and long sums to float32. Inputs of some other operators are cast to the widest
 * dtype among them. Only floating-point tensors up to float32 are cast, and only in calls that return new
 * tensors: in-place and out forms, and calls with a dtype argument, are left alone. Each device type has its
 * own classes of operators, see docs/mixed-precision.md. Casts of parameters (float32 leaves that require a
 * gradient) are kept until the outermost region of the thread ends. Backward runs in the dtypes of forward.
 */
#define TN_SCOPE_AUTOCAST_INHERIT 0u
#define TN_SCOPE_AUTOCAST_ON      1u
#define TN_SCOPE_AUTOCAST_OFF     2u

#define TN_SCOPE_AUTOCAST_NO_CACHE 1u /* flags: do not keep casts of parameters */

/*
 * Options hold for the thread, so for calls on any of its scopes, until the scope closes. Then those from before it hold
 * again: scopes with options close in the reverse order.
 */
typedef struct tn_scope_options {
    uint32_t size;
    uint32_t grad_mode;        /* TN_GRAD_... */
    tn_dtype default_dtype;    /* 0: inherit */
    uint32_t flags;            /* TN_SCOPE_AUTOCAST_NO_CACHE */
    tn_device device;          /* default device of calls that create tensors; 0: inherit */
    uint32_t autocast;         /* TN_SCOPE_AUTOCAST_... */
    tn_dtype autocast_dtype;   /* low dtype, float16 or bfloat16; 0: what the device prefers */
    tn_device autocast_device; /* only calls on devices of this type; 0: on every type */
} tn_scope_options;

/* Opens a scope on this thread. NULL and an error on this thread (tn_last_error) if ctx is NULL, was made before a fork, or was
 * destroyed, and when out of memory. Calls on a NULL scope fail with TN_E_STATE, but tn_scope_close of it gives TN_OK: look at
 * what this returns. */
TN_API tn_scope *tn_scope_open(tn_context *ctx);
/* The same with options (NULL: none). Bad options give a scope that has failed. */
TN_API tn_scope *tn_scope_open_with(tn_context *ctx, const tn_scope_options *options);
/* A scope inside another, for the same thread. Its error moves to the parent when it closes; if the parent has failed, so has it. */
TN_API tn_scope *tn_scope_open_child(tn_scope *parent,
                                     TN_NULLABLE const tn_scope_options *options) TN_SCOPE_THREAD;
/* Releases what the scope owns and returns the status of its first error (0: none), which is then tn_last_error() with the
 * file and line of its call, unless it moves to a parent. NULL is ignored: TN_OK. */
TN_API int32_t tn_scope_close(TN_TAKES TN_NULLABLE tn_scope *s) TN_SCOPE_THREAD;
TN_API tn_context *tn_scope_context(const tn_scope *s);
/* Status of the scope's first error, 0 before it. TN_E_STATE for a NULL scope. */
TN_API int32_t tn_scope_failed(const tn_scope *s);
/* First error of the scope, or NULL. Borrowed until the scope closes. */
TN_API const tn_error *tn_scope_error(const tn_scope *s);
/*
 * Says where the program made the call that failed: `file` (copied) and `line` go into the scope's error and to
 * the start of its message, and replace an earlier place. What tn_scope_error gave before is no longer valid.
 * Does nothing on a scope that has not failed. Typed calls (ops.h) and the calls of place.h say their own place.
 * A library over Tenon calls it for its functions, if the scope had not failed before.
 */
TN_API void tn_scope_place(tn_scope *s, const char *file, uint32_t line) TN_SCOPE_THREAD;
/* tn_scope_place for the last tn_scope_call, if that call was the first to fail on the scope. With TENON_DEBUG it also
 * says where the tensors of the last call were made, and its first NaN. Else does nothing. */
TN_API void tn_scope_call_place(tn_scope *s, const char *file, uint32_t line) TN_SCOPE_THREAD;
/*
 * tn_scope_call for callers that know their place: after any status but TN_OK they call tn_scope_call_place.
 * TN_PLACE_WANTED means success; it is returned only with TENON_DEBUG, so a place costs nothing without it.
 */
#define TN_PLACE_WANTED (-1)
TN_API int32_t tn_scope_call_placed(tn_scope *s, uint32_t op, const tn_value *args, uint32_t n_args,
                                    tn_value *outs, uint32_t n_outs) TN_SCOPE_THREAD;
/* Begins a call of another function whose place is known: the status of a scope that has failed, TN_PLACE_WANTED
 * if tn_scope_call_place has to follow the call even if it does not fail, else 0. */
TN_API int32_t tn_scope_place_begin(tn_scope *s) TN_SCOPE_THREAD;
/*
 * Adds `text` (copied) to the end of the message of the scope's error, for a library over Tenon that knows more
 * than the call that failed: ": in module 'fc'". The other fields of the error stay. What tn_scope_error gave
 * before is no longer valid. Does nothing on a scope that has not failed.
 */
TN_API void tn_scope_add_to_error(tn_scope *s, const char *text) TN_SCOPE_THREAD;
/* Forgets the error, which is then not tn_last_error either, so that the scope can be used again. */
TN_API void tn_scope_clear(tn_scope *s);
/* Records an error in the scope, unless it has one already, and returns `status`. `message` NULL: the text of
 * the status. `status` TN_OK does nothing. */
TN_API int32_t tn_scope_fail(tn_scope *s, int32_t status, const char *message);
/* Gives the caller's reference to the scope. Returns t, or NULL when out of memory. */
TN_API tn_tensor *tn_scope_adopt(tn_scope *s, TN_TAKES tn_tensor *t);
/* Moves t from the scope to its parent; without a parent the caller receives a reference. Returns t. */
TN_API tn_tensor *tn_scope_return(tn_scope *s, tn_tensor *t);
/* Releases one tensor of the scope before the scope closes. NULL is ignored. */
TN_API void tn_drop(tn_scope *s, TN_NULLABLE tn_tensor *t);
/* Host memory that lives as long as the scope, aligned to 16 bytes, not initialised. NULL and a failed scope
 * when out of memory; NULL on a scope that has failed. */
TN_API void *tn_scope_memory(tn_scope *s, uint64_t bytes);

/* 1: deterministic algorithms only; operators that have none fail with TN_E_STATE, and memory that would be undefined
 * (tn_empty) holds NaN, true or the largest integer. 0: any algorithm. */
TN_API void tn_set_deterministic(tn_context *ctx, int32_t on);
TN_API int32_t tn_get_deterministic(const tn_context *ctx);
/* Default dtype of new floating-point tensors: float16, bfloat16, float32 or float64, else TN_E_DTYPE. */
TN_API int32_t tn_set_default_dtype(tn_context *ctx, tn_dtype dtype);
TN_API tn_dtype tn_get_default_dtype(const tn_context *ctx);
/* Threads that CPU kernels use. 0: the number of cores. Initially OMP_NUM_THREADS, else the number of
 * cores. */
TN_API void tn_set_num_threads(tn_context *ctx, int32_t threads);
TN_API int32_t tn_get_num_threads(const tn_context *ctx);
#endif

TN_END_DECLS
#endif
