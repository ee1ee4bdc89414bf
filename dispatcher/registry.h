/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry: operators by number and by name, their kernels per device type, the layers of a call. Readers
 * take no lock: entries are published with release stores and stay in place until the context ends; what is
 * removed is marked, not freed.
 */
#ifndef TNI_DISPATCHER_REGISTRY_H
#define TNI_DISPATCHER_REGISTRY_H

#include "core/dtype.h"
#include "core/scope.h"
#include "dispatcher/entry.h"
#include <tenon/inspect.h>
#include "dispatcher/schema.h"

#define TNI_MAX_ARGS     32 /* of an operator */
#define TNI_MAX_OUTPUTS  8
#define TNI_MAX_OPS      (1u << 15)
#define TNI_OPS_PER_PAGE 256u

/* A kernel row of one plugin, with what kernel selection needs. */
typedef struct tni_kernel {
    tn_kernel_row row; /* a copy; strings and functions are the plugin's */
    void *self;
    const char *plugin;
    const tn_kernel_row *table; /* the array that the row is from */
    uint32_t dtypes;            /* bits of TNI_INDEX_...; all ones: any */
    uint32_t unknown_args;      /* trailing arguments of our schema that the row's schema lacks */
    uint32_t device_slot;
    uint32_t asks; /* the row has conditions that tni_kernel_ask checks before each call */
    /* Calls follow the list and read `disabled` without a lock; both are written under the registry's. */
    _Atomic(uint32_t) disabled;
    struct tni_kernel *_Atomic next; /* next lower priority; read by tni_kernel_follower */
    atomic_uint_fast64_t
        fast_dtypes; /* of the last simple call: dtypes of its tensors and result, see fast_pointwise.c */
} tni_kernel;

/* The next kernel of a list, complete as it was inserted. */
static inline tni_kernel *tni_kernel_follower(const tni_kernel *k)
{
    return atomic_load_explicit(&k->next, memory_order_acquire);
}
static inline uint32_t tni_kernel_is_disabled(const tni_kernel *k)
{
    return atomic_load_explicit(&k->disabled, memory_order_relaxed);
}
/* Calls that come after this use the kernel no more. */
static inline void tni_kernel_disable(tni_kernel *k)
{
    atomic_store_explicit(&k->disabled, 1, memory_order_relaxed);
}

/* The dtype of IMMEDIATE operands (scalars) of a call that computes in `dtype`. */
static inline tn_dtype tni_scalar_dtype(const tni_kernel *k, tn_dtype dtype)
{
    int32_t half = dtype == TN_FLOAT16 || dtype == TN_BFLOAT16;
    return half && k->row.flags & TN_ROW_WIDE_IMMEDIATE ? TN_FLOAT32 : dtype;
}

typedef struct tni_op {
    uint32_t number;
    uint32_t kind;
    uint32_t form;
    uint32_t n_args;
    uint32_t n_returns;
    uint32_t promote;
    uint32_t tags;
    _Atomic(uint32_t) removed;  /* written under the registry's lock, read without */
    _Atomic(uint32_t) callable; /* n_returns + 1 once calls may use it, see tni_op_open; else 0 */
    const char *name;           /* begins with the full name, up to '(' or the end; see tni_op_name */
    const tni_op_entry *entry;
    const tni_schema *_Atomic schema; /* parsed at first use by tni_op_ready; set after the counts below */
    struct tni_op *base;              /* the form whose kernels are used; may be itself */
    const struct tni_op
        *redirects_to;          /* a composite that only calls this operator, see redirect.c; else NULL */
    const void *gradient;       /* autograd's entry for the base, or NULL */
    const tn_operator_def *def; /* of an operator that is not built in, else NULL */
    int32_t (*copy_operator)(tni_frame *f); /* a copy or fill, see copy_operators.c; else NULL */
    _Atomic(tni_kernel *) kernels[TNI_MAX_DEVICE_TYPES];
    uint8_t first_tensor; /* index of the first Tensor argument, 255: none */
    uint8_t returns_self; /* in-place and out forms: the argument that result 0 is, else 255 */
    uint8_t n_tensors;    /* tensor and tensor-list arguments */
    uint8_t is_view;
    uint8_t first_given; /* in-place and out forms: the first argument that a result goes to */
    uint8_t n_given;
    uint8_t takes;                 /* TNI_TAKES_... */
    uint8_t is_out_exact;          /* tensors of an out form must have the dtypes of the results */
    atomic_uint_fast64_t autocast; /* the known classes by device type, see autocast.c */
    struct {                       /* calls that ran on the CPU instead; under the registry's lock */
        uint64_t count;
        uint64_t bytes;     /* copied to the CPU and back */
        const char *reason; /* of the last of them */
        uint32_t device;    /* its device type */
    } fallback;
} tni_op;

/* ---- layers ---- */
enum {
    TNI_LAYER_OBSERVE,
    TNI_LAYER_TRACE,
    TNI_LAYER_TRANSFORM,
    TNI_LAYER_AUTOCAST,
    TNI_LAYER_AUTOGRAD,
    TNI_LAYER_COUNT
};
#define TNI_LAYER_BIT(layer) (1u << (layer))
/* Runs the frame, usually by calling tni_next(f) at some point. */
typedef int32_t tni_layer_fn(tni_frame *f);

typedef struct tni_observer_slot {
    tn_observer observer;
    uint64_t handle; /* 0: free */
} tni_observer_slot;

typedef struct tni_registry {
    tn_context *ctx;
    pthread_mutex_t lock; /* writers only */
    _Atomic(tni_op *) *_Atomic pages[TNI_MAX_OPS / TNI_OPS_PER_PAGE];
    _Atomic(uint32_t) count; /* next free number; 0 is never used */
    void *names;             /* hash table name -> op, under lock */
    tni_vector pending;      /* kernel rows that no call uses, see rows.h */
    tni_vector libraries;    /* definitions of operators that are not built in, see define.h */
    tni_op *builtin;         /* the built-in operators, one array */
    tni_op_entry *entries;   /* their entries */
    tni_layer_fn *layers[TNI_LAYER_COUNT];
    _Atomic(uint32_t) always; /* bits of the layers that get every call */
    tni_vector observers;
    _Atomic(uint32_t) fallback_policy;
    atomic_uint_fast64_t sequence;
    void *trace_file; /* of TENON_TRACE, or NULL */
    uint64_t trace_observer;
    uint64_t profile_observer; /* of the last profile */
    uint64_t history_observer; /* 0: there is none */
    /* The plugin whose init runs, and the thread that runs it: its tni_tls. */
    _Atomic(const char *) starting;
    _Atomic(const void *) starting_on;
    uint32_t histories; /* devices that record the history of their allocator */
} tni_registry;

/* The operator with a number, or NULL. No lock. */
static inline tni_op *tni_op_get(const tni_registry *r, uint32_t number)
{
    if (number >= TNI_MAX_OPS) return NULL;
    _Atomic(tni_op *) *page =
        atomic_load_explicit(&r->pages[number / TNI_OPS_PER_PAGE], memory_order_acquire);
    return page ? atomic_load_explicit(&page[number % TNI_OPS_PER_PAGE], memory_order_acquire) : NULL;
}
/* The text of the schema; `buffer` receives that of a built-in operator whose schema is not parsed yet. */
#define TNI_SCHEMA_BYTES 1024
const char *tni_op_schema_text(const tni_op *op, char *buffer);
/* By full name. Takes the lock. */
tni_op *tni_op_find(tni_registry *r, const char *name);
/* The same with the lock held and a name of `length` characters. Also finds removed operators. */
tni_op *tni_op_lookup(tni_registry *r, const char *name, uint64_t length);
/* Makes a complete operator visible. Lock held, except while the context is made. */
int32_t tni_op_publish(tni_registry *r, tni_op *op);
int32_t tni_op_prepare(tni_registry *r, tni_op *op);
/* Prepares the operator for calls: parses the schemas, finds the arguments that results go to. Refuses removed
 * operators and calls with room for fewer results than the operator has. */
int32_t tni_op_open(tni_registry *r, tni_op *op, uint32_t n_outs);
static inline int32_t tni_op_is_open(const tni_op *op, uint32_t n_outs)
{
    uint32_t callable = op ? atomic_load_explicit(&op->callable, memory_order_acquire) : 0;
    return callable && callable - 1u <= n_outs;
}
/* Later calls do not find the operator. Lock held. */
void tni_op_remove(tni_op *op);
/* Sets the counts and positions that follow from the schema. */
void tni_op_fill(tni_op *op, tni_schema *s);
/* Ensures that the schema is parsed. */
static inline int32_t tni_op_ready(tni_registry *r, const tni_op *op)
{
    if (op->schema) return TN_OK;
    return tni_op_prepare(r, (tni_op *)(uintptr_t)op);
}
/* "aten::add.Tensor"; the schema must be parsed. */
static inline const char *tni_op_name(const tni_op *op)
{
    return op->schema ? op->schema->full_name : op->name;
}

int32_t tni_registry_init(tn_context *ctx, const tn_context_options *options);
void tni_registry_finish(tn_context *ctx);
/* Rooms register their layers while the context is made: calls read them without a lock. */
void tni_layer_set(tn_context *ctx, uint32_t layer, tni_layer_fn *run, int32_t always);
/* Whether the layer gets every call. */
void tni_layer_set_always(tni_registry *r, uint32_t layer, int32_t always);

#endif
