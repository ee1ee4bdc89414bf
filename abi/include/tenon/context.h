/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The context from which all state hangs, scopes that own temporaries, and errors.
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

/* Receives log lines, without newline. Called from any thread; must not call the library. */
typedef void (*tn_log_sink)(void *user, int32_t level, const char *text);

#define TN_CONTEXT_NO_DISCOVERY 1u /* look for no plugins; the program loads its own */
/* Handles that were released, closed scopes and scopes on another thread than theirs are refused, at the cost
 * of kept headers. */
#define TN_CONTEXT_DEBUG_HANDLES 2u
/* A shim that was asked for and is not to be had is a failed candidate and no error: for tools that explain.
 */
#define TN_CONTEXT_TOLERATE_SHIMS 4u

typedef struct tn_context_options {
    uint32_t size;
    uint32_t flags;
    tn_host_allocator allocator; /* alloc NULL: malloc */
    tn_log_sink log;             /* NULL: nothing is logged */
    void *log_user;
    const char *plugin_path; /* replaces the search path, ':' separated; NULL: the configured one */
    /* Shims to load besides those that the environment asks for (TENON_VALIDATE, TENON_RECORD, TENON_INJECT),
     * each with its setting, ';' separated: "validate=1;inject=memory.alloc:3". NULL: none. */
    const char *shims;
} tn_context_options;

/*
 * A finding: something that the contract between host and plugins forbids, seen as it happened. Those of the
 * host come by themselves; shims (see plugin.h) find more. Texts are NULL where there is nothing to say.
 */
typedef struct tn_finding {
    uint32_t size;
    uint32_t reserved;
    const char *kind;   /* short and fixed: "race", "use-after-free", "leak", "refused-after-yes", ... */
    const char *finder; /* "host", or the shim */
    const char *plugin; /* whose contract it is */
    const char *text;   /* complete in itself: what came and what was expected */
    const char *slot;   /* in which it was found: "memory.free"; "kernel.run" for kernels */
    const char *op;     /* operator that was running */
    const char *place;  /* where it was found: slot or operator and the number of the call */
    const char *other;  /* the other place: where it was freed, last written, made */
    uint64_t stream;    /* id of the stream, 0 is the default one; UINT64_MAX: none */
    uint64_t count;     /* how often; equal findings are one */
} tn_finding;

#ifndef TN_PLUGIN
/* Makes a context. `options` may be NULL. On failure tn_last_error() of this thread has the reason. */
TN_API int32_t tn_context_create(TN_NULLABLE const tn_context_options *options,
                                 TN_OUT TN_GIVES tn_context **out) TN_ANY_THREAD;
/* Ends a context. All scopes must be closed; tensors that still live keep what they need of it. NULL is
 * ignored. */
TN_API void tn_context_destroy(TN_TAKES TN_NULLABLE tn_context *ctx);

/* Last error of this thread, or NULL. Borrowed until the thread's next failing call. */
TN_API const tn_error *tn_last_error(void) TN_ANY_THREAD;
TN_API void tn_clear_error(void) TN_ANY_THREAD;
/* Text of a status code. Never NULL. */
TN_API const char *tn_status_text(int32_t status) TN_ANY_THREAD;
TN_API const char *tn_version(void) TN_ANY_THREAD;

/* Number of an interned string (device type, layout), made when it is new; 0 when out of memory. */
TN_API uint32_t tn_intern(tn_context *ctx, const char *text) TN_ANY_THREAD;
/* Text of an interned number, or NULL. Lives as long as the context. */
TN_API const char *tn_interned(tn_context *ctx, uint32_t id) TN_ANY_THREAD;

/*
 * Scopes. A scope owns the tensors that calls on it return and carries the first error; after that every
 * call on it returns NULL (or 0) at once. Open and close cost a few nanoseconds.
 */
#define TN_GRAD_INHERIT   0u
#define TN_GRAD_ON        1u
#define TN_GRAD_OFF       2u
#define TN_GRAD_INFERENCE 3u

/*
 * Mixed precision: while it is on, the inputs of operators that gain by it are cast to the low dtype
 * (convolutions, products of matrices), those of operators that need it to float32 (losses, norms, sums of
 * many terms), and those of some others to the widest among them. Only floating-point tensors up to float32
 * are cast, on calls that return new tensors: in-place and out forms and calls with a dtype of their own are
 * left alone. Each device type has its classes, see docs/mixed-precision.md. Casts of parameters (float32
 * leaves that want a gradient) are kept until the outermost region of the thread ends. Backward is not cast:
 * it runs in the dtypes that forward ran in.
 */
#define TN_SCOPE_AUTOCAST_INHERIT 0u
#define TN_SCOPE_AUTOCAST_ON      1u
#define TN_SCOPE_AUTOCAST_OFF     2u

#define TN_SCOPE_AUTOCAST_NO_CACHE 1u /* flags: casts of parameters are not kept */

typedef struct tn_scope_options {
    uint32_t size;
    uint32_t grad_mode;        /* TN_GRAD_... */
    tn_dtype default_dtype;    /* 0: inherit */
    uint32_t flags;            /* TN_SCOPE_AUTOCAST_NO_CACHE */
    tn_device device;          /* default device of factory calls; 0: inherit */
    uint32_t autocast;         /* TN_SCOPE_AUTOCAST_... */
    tn_dtype autocast_dtype;   /* the low one, float16 or bfloat16; 0: what the device prefers */
    tn_device autocast_device; /* only calls on devices of its type; 0: of every type */
} tn_scope_options;

TN_API tn_scope *tn_scope_open(tn_context *ctx);
TN_API tn_scope *tn_scope_open_with(tn_context *ctx, const tn_scope_options *options);
/* A scope inside another, for the same thread. Its error moves to the parent when it closes. */
TN_API tn_scope *tn_scope_open_child(tn_scope *parent,
                                     TN_NULLABLE const tn_scope_options *options) TN_SCOPE_THREAD;
/* Releases what the scope owns and gives the status of its first error (0: none). NULL is ignored. */
TN_API int32_t tn_scope_close(TN_TAKES TN_NULLABLE tn_scope *s) TN_SCOPE_THREAD;
TN_API tn_context *tn_scope_context(const tn_scope *s);
TN_API int32_t tn_scope_failed(const tn_scope *s);
/* First error of the scope, or NULL. Borrowed until the scope closes. */
TN_API const tn_error *tn_scope_error(const tn_scope *s);
/* Forgets the error, so that the scope can be used again. */
TN_API void tn_scope_clear(tn_scope *s);
/* Records an error in the scope and returns the code, as the library itself does. */
TN_API int32_t tn_scope_fail(tn_scope *s, int32_t code, const char *message);
/* Gives the caller's reference to the scope. Returns t. */
TN_API tn_tensor *tn_scope_adopt(tn_scope *s, TN_TAKES tn_tensor *t);
/* Moves t from the scope to its parent (or, for a scope without one, gives it to the caller). Returns t. */
TN_API tn_tensor *tn_scope_return(tn_scope *s, tn_tensor *t);
/* Lets go of one tensor of the scope before it closes. NULL is ignored. */
TN_API void tn_drop(tn_scope *s, TN_NULLABLE tn_tensor *t);
/* Bytes that live as long as the scope, aligned to 16; NULL and a failed scope when out of memory. */
TN_API void *tn_scope_memory(tn_scope *s, uint64_t bytes);

/* Deterministic algorithms only (1) or any (0): operators without one are refused by name. */
TN_API void tn_set_deterministic(tn_context *ctx, int32_t on);
TN_API int32_t tn_get_deterministic(const tn_context *ctx);
/* Default dtype of the context; only float16, bfloat16, float32, float64. */
TN_API int32_t tn_set_default_dtype(tn_context *ctx, tn_dtype dtype);
TN_API tn_dtype tn_get_default_dtype(const tn_context *ctx);
/* Threads that CPU kernels use: at first OMP_NUM_THREADS, else the number of cores, which 0 asks for. */
TN_API void tn_set_num_threads(tn_context *ctx, int32_t threads);
TN_API int32_t tn_get_num_threads(const tn_context *ctx);
#endif

TN_END_DECLS
#endif
