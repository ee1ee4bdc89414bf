/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators: how they are called, what a kernel receives, how a new one is defined.
 *
 * An operator is a schema string in ATen's grammar. Built-in ones have numbers (TN_OP_... in ops.h); others
 * are looked up once by name. Every call, kernel and gradient has one boxed form over values on the stack.
 */
#ifndef TENON_OP_H
#define TENON_OP_H

#include <tenon/tensor.h>

TN_BEGIN_DECLS

typedef struct tn_host tn_host;
typedef struct tn_call tn_call;

/* ---- What a kernel receives -------------------------------------------------------------------------- */

#define TN_OPERAND_OUTPUT    1u
#define TN_OPERAND_IMMEDIATE 2u /* one value in host memory at `host`, strides 0: pass it by value */

/*
 * One operand of a loop nest. `strides` are in bytes, one for each dimension of the nest, 0 where the operand
 * is broadcast or reduced. The first element lies `byte_offset` bytes into `allocation`; `host` is its
 * address, or NULL on devices without host addresses. An IMMEDIATE operand has no allocation and always a
 * `host`, valid until the function returns: a device that works later copies the value.
 */
typedef struct tn_operand {
    uint32_t size;
    uint32_t flags;
    tn_dtype dtype;
    uint32_t reserved;
    uint64_t byte_offset;
    void *allocation;
    char *host;
    const int64_t *strides;
} tn_operand;

/*
 * A ready loop nest for pointwise, reduction and scan operators: broadcast, permuted so that dimension 0 is
 * the innermost, coalesced. Outputs come first among the operands, then the tensor arguments in the order of
 * the schema. For a reduction the first `kept` dimensions index the result and the others are reduced over,
 * the outputs having stride 0 there; for a scan the last dimension is the scanned one and kept == rank - 1
 * (rank is at least 1); for anything else kept == rank. Reductions whose result is a position (argmax,
 * argmin) are given in row-major order of the tensor: among the reduced dimensions a later one is an outer
 * one, and the position is counted over them. Rank 0 has one element; a size of 0 never reaches a kernel.
 */
typedef struct tn_nest {
    uint32_t size;
    uint32_t rank;
    uint32_t kept;
    uint32_t n_outputs;
    uint32_t n_operands;
    uint32_t operand_bytes; /* distance between operands: step by it, not by sizeof */
    int64_t numel;          /* product of sizes */
    const int64_t *sizes;
    const tn_operand *operands;
} tn_nest;

#define TN_CALL_DETERMINISTIC 1u /* results may not depend on the number of threads or on timing */

/*
 * One call of a kernel, a gradient or a shape rule. Everything reachable is borrowed until the function
 * returns. `args` are all the arguments of the row's schema in its order, defaults filled in, tensors of one
 * device (0-dim host tensors may stand among them for pointwise rows: their operands are IMMEDIATE); `outs`
 * hold prepared tensors. An argument that the schema marks as written, `Tensor(a!) self`, stands in outs,
 * too: a kernel writes to outs and nowhere else. The work goes to `stream` and may be unfinished on return.
 */
struct tn_call {
    uint32_t size;
    uint32_t flags; /* TN_CALL_... */
    uint32_t n_args;
    uint32_t n_outs;
    const tn_value *args;
    tn_value *outs;
    const tn_nest *nest; /* NULL unless the operator is pointwise, a reduction or a scan */
    const void *data;    /* the row's */
    void *device;        /* the plugin's handle of the open device */
    void *stream;        /* the plugin's handle of the stream to work on */
    const tn_host *host; /* the host's functions, see plugin.h */
    void *state;         /* the host's, for its functions that take the call */
    uint64_t stream_id;
    int32_t threads; /* CPU kernels: how many threads to use */
    uint32_t reserved;
};

/*
 * The one signature. `self` is what the plugin's init gave (NULL for operators defined by a program).
 * Returns a status; details go through host->error. TN_E_UNSUPPORTED after can_run said yes is legal only
 * before the first byte of output is written.
 */
typedef int32_t (*tn_kernel_fn)(void *self, const tn_call *call);
/* NULL: yes. Else a static text that says why not. Reads args, and of args and outs the descriptors; never
 * device memory. Allocations of outs and the nest may not be there yet. */
typedef const char *(*tn_can_run_fn)(void *self, const tn_call *call);

/* Which strides of tensor arguments a row takes; the core inserts copies so that it holds. */
#define TN_STRIDES_CONTIGUOUS    0u /* row-major, all of them */
#define TN_STRIDES_ANY           1u /* anything (zero strides, too) */
#define TN_STRIDES_CHANNELS_LAST 2u /* all row-major, or all 4-/5-dim ones channels-last */
#define TN_STRIDES_BLAS          3u /* in the last two dimensions one stride is 1, the other at least the size */

#define TN_ROW_CASTS                         1u /* operands may have other dtypes than the call's: the kernel converts */
#define TN_ROW_LAZY_BITS                     2u /* takes conjugated and negated tensors */
#define TN_ROW_DETERMINISTIC_ONLY_ONE_THREAD 4u /* in deterministic mode the core gives it one thread */
#define TN_ROW_NONDETERMINISTIC              8u /* refused in deterministic mode */
#define TN_ROW_IMMEDIATE_ONLY_HOST           16u /* host tensors only as IMMEDIATE operands, else they are copied */
#define TN_ROW_WIDE_IMMEDIATE                32u /* IMMEDIATE operands of float16 and bfloat16 calls are float32 */

/*
 * A row of a plugin's kernel table. `schema` is the full text it was compiled against; arguments that later
 * versions append with defaults are dropped when they equal the default. `dtypes` (zero-terminated) are the
 * dtypes of the call it takes: the computation dtype of pointwise operators, the dtype of the first tensor of
 * others; NULL is all. Without TN_ROW_CASTS the inputs of a pointwise call have that dtype (conditions are
 * bool), IMMEDIATE ones included but for TN_ROW_WIDE_IMMEDIATE; outputs have their own (bool for
 * comparisons), so look at operands[i].dtype. Rows and all they point to live until shutdown.
 */
typedef struct tn_kernel_row {
    uint32_t size;
    uint32_t flags;   /* TN_ROW_... */
    uint32_t strides; /* TN_STRIDES_... */
    int32_t priority; /* of several rows that fit the highest runs; among equals the later */
    const char *schema;
    const tn_dtype *dtypes;
    tn_kernel_fn run;
    tn_can_run_fn can_run; /* NULL: always */
    const void *data;
} tn_kernel_row;

/*
 * What makes a device: twelve kernels serve all primitives (tier 1), by any number of rows. Eight have the
 * names of ATen, by families of one shape: pointwise (aten::add.Tensor, aten::exp, ...), reduce (aten::sum,
 * aten::amax, ...), scan (aten::cumsum, ...), gather, scatter, bmm, sort.stable, nonzero. Four have none
 * there:
 */
#define TN_SCHEMA_FILL "prim::fill(Tensor(a!) self, Scalar value) -> Tensor(a!)"
/* Any strides, any two dtypes; `src` is broadcast to `self` (its rank may be smaller). A row with
 * TN_ROW_LAZY_BITS resolves conjugated and negated tensors by the flags of both descriptors. */
#define TN_SCHEMA_COPY "prim::copy(Tensor(a!) self, Tensor src) -> Tensor(a!)"
/* start + i * step for row-major i, in int64, float64 or complex128 before it is rounded. */
#define TN_SCHEMA_IOTA "prim::iota(Tensor(a!) self, Scalar start, Scalar step) -> Tensor(a!)"
/* `distribution` is a TN_RANDOM_... of random.h; counters from `offset` on, both as uint64. */
#define TN_SCHEMA_RANDOM                                                                            \
    "prim::random(Tensor(a!) self, int distribution, Scalar a, Scalar b, int seed, int offset) -> " \
    "Tensor(a!)"

/* ---- Defining operators ------------------------------------------------------------------------------ */

#define TN_TAG_BIT_DATA_DEPENDENT      1u
#define TN_TAG_BIT_NONDETERMINISTIC    2u
#define TN_TAG_BIT_DIFFERENTIABLE_ONCE 4u

#define TN_AUTOCAST_NONE   0u
#define TN_AUTOCAST_LOW    1u /* inputs are cast to the low dtype */
#define TN_AUTOCAST_FULL   2u /* inputs are cast to float32 */
#define TN_AUTOCAST_WIDEST 3u

/*
 * An operator outside the built-in ones. Strings and functions must live as long as the definition.
 *
 * infer     shape rule: for each output host->define_output(call, i, dtype, rank, sizes, device). NULL: like
 * the first tensor argument. composite a body over other operators for devices without a kernel, through
 * host->call_scope(call). backward  gradient. Its args are the gradients of all outputs (NONE where
 * undefined), then the forward arguments (tensors only where saved), then the saved outputs; its outs are one
 * for each forward argument (set those of tensors with host->set_output, leave others NONE). saves argument
 * names and `result0`..., comma separated: the tensors that backward reads.
 */
typedef struct tn_operator_def {
    uint32_t size;
    uint32_t tags;      /* TN_TAG_BIT_... */
    const char *schema; /* with namespace: "mylib::myop(Tensor x, float alpha=1.0) -> Tensor" */
    const char *saves;
    const char *doc;
    tn_kernel_fn infer;
    tn_kernel_fn composite;
    tn_kernel_fn backward;
    tn_kernel_fn batching_rule;
    void *self;        /* handed to the functions above */
    uint32_t autocast; /* TN_AUTOCAST_... */
    uint32_t reserved;
} tn_operator_def;

#ifndef TN_PLUGIN
/*
 * Defines an operator. TN_E_EXISTS for a duplicate, TN_E_SYNTAX (with the column) for a bad schema. `out`
 * (may be NULL) receives its number.
 */
TN_API int32_t tn_operator_define(tn_context *ctx, const tn_operator_def *def,
                                  TN_OUT TN_NULLABLE uint32_t *out) TN_ANY_THREAD;
/* Adds kernels for a device type; the operators may be defined before or after. */
TN_API int32_t tn_kernels_add(tn_context *ctx, const char *device_type, void *self, const tn_kernel_row *rows,
                              uint32_t count) TN_ANY_THREAD;
/* Removes what was defined in a namespace with tn_operator_define, and kernels added for it. */
TN_API int32_t tn_namespace_remove(tn_context *ctx, const char *name) TN_ANY_THREAD;
/* Loads a plugin or operator library by path. `out` (may be NULL) is for tn_library_close. */
typedef struct tn_library tn_library;
TN_API int32_t tn_library_open(tn_context *ctx, const char *path,
                               TN_OUT TN_NULLABLE tn_library **out) TN_ANY_THREAD;
/* Takes its operators and kernels out of the registry. TN_E_STATE from inside an operator, and for a plugin
 * with a device. Calls that other threads are in run to their end: the code stays until the context goes. */
TN_API int32_t tn_library_close(TN_TAKES TN_NULLABLE tn_library *library) TN_ANY_THREAD;

/* ---- Calling ----------------------------------------------------------------------------------------- */

/* Number of an operator by full name ("aten::add.Tensor", "mylib::myop"); 0 and an error when there is none.
 */
TN_API uint32_t tn_operator_find(tn_context *ctx, const char *name) TN_ANY_THREAD;

/*
 * Boxed call with owned results: each tensor in `outs` is a reference of the caller's. `error` (may be NULL)
 * receives the error, to be released with tn_error_release. Nothing is owned and outs are NONE on failure.
 * A list result is one value of tag TENSORS; release it with tn_value_release.
 */
TN_API int32_t tn_call_operator(tn_context *ctx, uint32_t op, const tn_value *args, uint32_t n_args,
                                tn_value *outs, uint32_t n_outs,
                                TN_OUT TN_NULLABLE TN_GIVES tn_error **error) TN_ANY_THREAD;
TN_API void tn_error_release(TN_TAKES TN_NULLABLE tn_error *error);
/* Releases what tn_call_operator gave in one value. */
TN_API void tn_value_release(tn_context *ctx, tn_value *v);

/*
 * Boxed call on a scope, which owns the results. Trailing arguments with defaults may be left out (n_args
 * smaller than the schema's). After a failure, and on a scope that has failed, outs are NONE.
 */
TN_API int32_t tn_scope_call(tn_scope *s, uint32_t op, const tn_value *args, uint32_t n_args, tn_value *outs,
                             uint32_t n_outs) TN_SCOPE_THREAD;
#endif

/*
 * Watching calls. `enter` runs before an operator called by the program or from inside another, `leave` after
 * it, with the same `token`. With sample > 1 only every sample-th call on a thread is reported. Neither may
 * call operators.
 */
typedef struct tn_call_info {
    uint32_t size;
    uint32_t op;
    const char *name;
    const tn_value *args;
    const tn_value *outs; /* NULL in enter */
    uint32_t n_args;
    uint32_t n_outs;
    int32_t status;
    uint32_t depth; /* 0: called by the program */
    uint64_t sequence;
    tn_device device;
} tn_call_info;
typedef struct tn_observer {
    uint32_t size;
    uint32_t sample;
    void *user;
    void (*enter)(void *user, const tn_call_info *info, uint64_t *token);
    void (*leave)(void *user, const tn_call_info *info, uint64_t token);
} tn_observer;
#ifndef TN_PLUGIN
TN_API int32_t tn_observer_add(tn_context *ctx, const tn_observer *observer,
                               TN_OUT uint64_t *out_handle) TN_ANY_THREAD;
TN_API void tn_observer_remove(tn_context *ctx, uint64_t handle) TN_ANY_THREAD;
#endif

TN_END_DECLS
#endif
