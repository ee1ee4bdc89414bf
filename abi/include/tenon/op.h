/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators: what a kernel receives, how to define an operator, how to call one.
 *
 * An operator is a schema string in ATen's grammar. Built-in operators have numbers (TN_OP_... in ops.h);
 * the number of any other is looked up once by name. Calls, kernels, shape rules and gradients share one
 * boxed form, tn_call, over values on the stack.
 *
 * Elements of bool tensors are the bytes 0 and 1, nothing else. A kernel may rely on that for its inputs
 * and must write nothing else. The host writes only 0 and 1; a program that hands memory of its own to the
 * library (tn_from_data, tn_from_blob, DLPack), or views other elements as bool, must ensure the same.
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
 * is broadcast or reduced. The first element lies `byte_offset` bytes into `allocation`, a multiple of the
 * element size (tensor.h says more on alignment). `host` is the address of the first element, or NULL on
 * devices without host addresses; `address` is its address for the device, or 0 on devices without addresses.
 * An IMMEDIATE operand has no allocation; its `host` is never NULL and is valid until the function returns, so a
 * kernel that only queues work copies the value.
 */
typedef struct tn_operand {
    uint32_t size;
    uint32_t flags;
    tn_dtype dtype;
    uint32_t reserved;
    uint64_t byte_offset;
    void *allocation;
    char *host;
    uint64_t address;
    const int64_t *strides;
} tn_operand;

/*
 * The loop nest of a pointwise, reduction or scan operator: broadcast, permuted so that dimension 0 is the
 * innermost, with adjacent dimensions merged. The outputs are the first operands, then come the tensor
 * arguments in the order of the schema. Outputs need not be contiguous: walk their strides.
 *
 *   pointwise  kept == rank.
 *   reduction  The first `kept` dimensions index the result. The others are reduced; outputs have stride 0
 *              there. If the result is a position (argmax, argmin), the reduced dimensions are in row-major
 *              order of the tensor, a later one being an outer one, and the position counts over them.
 *   scan       The last dimension is scanned: kept == rank - 1, and rank is at least 1.
 *
 * A nest of rank 0 has one element. No size of a nest is 0: the host handles empty tensors itself.
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

/*
 * Flags of a call. Bits 0 to 15 bind: a row lists those that it honours, and is passed over for a call with
 * another one. Bits 16 to 31 permit, and may be ignored. Every row honours DETERMINISTIC unless its own flags say
 * otherwise.
 */
#define TN_CALL_DETERMINISTIC           1u /* results may not depend on the number of threads or on timing */
#define TN_CALL_ALLOW_TF32              0x10000u /* products of float32 may round their inputs to 10 bits */
#define TN_CALL_ALLOW_HALF_ACCUMULATION 0x20000u /* sums of half types may be kept in half types */
#define TN_CALL_BENCHMARK               0x40000u /* the kernel may take time to find its fastest variant */

/*
 * One call of a kernel, a composite, a gradient or a shape rule. The callee borrows all that it reaches until
 * it returns.
 *
 * `args` are the arguments of the row's schema in its order, with defaults filled in. Tensors are on one
 * device, except that pointwise rows may get 0-dim host tensors, whose operands are IMMEDIATE.
 *
 * `outs` of a kernel are prepared tensors. Without a nest a kernel reads their strides: they are row-major
 * unless the shape rule of the operator gives others. Convolution, pooling and normalisation follow
 * channels-last inputs, and some matrix factors are column-major. An argument that the schema marks
 * as written, `Tensor(a!) self`, is in outs too; a kernel writes to outs only. It queues its work on
 * `stream` and may return before the work is done.
 */
struct tn_call {
    uint32_t size;
    uint32_t flags; /* TN_CALL_... */
    uint32_t n_args;
    uint32_t n_outs;
    const tn_value *args;
    tn_value *outs;
    const tn_nest *nest; /* NULL unless the operator is pointwise, a reduction or a scan */
    const void *data;    /* `data` of the row, in can_run too */
    void *device;        /* the plugin's handle of the open device */
    void *stream;        /* the plugin's handle of the stream to queue work on */
    const tn_host *host; /* the host's functions, see plugin.h */
    void *state;         /* private to the host */
    uint64_t stream_id;  /* 0 is the default stream */
    int32_t threads;     /* CPU kernels: how many threads to use */
    uint32_t op;         /* number of the operator */
    const char *name;    /* its full name: "aten::add.Tensor" */
};

/*
 * The signature of kernels, composites, gradients and shape rules. `self` is what the plugin's init gave; for
 * those that a program adds, what it gave with them. Returns a status; host->error records the details. A
 * kernel may still return TN_E_UNSUPPORTED after can_run agreed, but only before it writes any output.
 * After TN_E_OUT_OF_MEMORY the host frees its caches and calls the kernel once more, unless workspace has failed in
 * the call (then the caches are empty already) or the kernel has said host->work_queued. A kernel that may find no
 * memory after it has queued work says so before it asks for that memory: work in place must not be done twice.
 */
typedef int32_t (*tn_kernel_fn)(void *self, const tn_call *call);
/* NULL: the row takes the call. Else a static text that says why it does not. The call is as for `run`, its
 * `data` included, except that `nest` may be NULL and outs may not be allocated yet. can_run reads values
 * and tensor descriptors, never device memory. */
typedef const char *(*tn_can_run_fn)(void *self, const tn_call *call);

/* Which strides a row takes in tensor arguments; the host copies arguments that have others. */
#define TN_STRIDES_CONTIGUOUS    0u /* all arguments are row-major */
#define TN_STRIDES_ANY           1u /* any strides, 0 included */
#define TN_STRIDES_CHANNELS_LAST 2u /* all row-major, or all of rank 4 or 5 channels-last */
#define TN_STRIDES_BLAS          3u /* of the last two strides one is 1, the other at least the size */

#define TN_ROW_CASTS                         1u   /* the kernel converts other dtypes than the call's */
#define TN_ROW_LAZY_BITS                     2u   /* the kernel conjugates and negates as descriptors say */
#define TN_ROW_DETERMINISTIC_ONLY_ONE_THREAD 4u   /* in deterministic mode call->threads is 1 */
#define TN_ROW_NONDETERMINISTIC              8u   /* refused in deterministic mode */
#define TN_ROW_IMMEDIATE_ONLY_HOST           16u  /* other host tensors are copied to the device */
#define TN_ROW_WIDE_IMMEDIATE                32u  /* IMMEDIATE operands of half-type calls are float32 */
#define TN_ROW_SCOPE                         64u  /* the kernel calls operators on host->call_scope */
#define TN_ROW_INDEX32                       128u /* offsets of elements must fit into 32 bits */
#define TN_ROW_RANDOM_STATE                  256u /* the kernel reads tn_random_numbers.state */

/* Where a row takes a tensor argument. */
#define TN_PLACE_DEVICE 0u /* on the device of the call */
#define TN_PLACE_HOST   1u /* in host memory: the host copies the argument and waits for it */

/* What a row takes in one argument of its schema. */
typedef struct tn_row_argument {
    uint32_t strides;       /* TN_STRIDES_... */
    uint32_t place;         /* TN_PLACE_... */
    const tn_dtype *dtypes; /* of tensors in this argument; zero-terminated, NULL: any */
} tn_row_argument;

/*
 * A row of a plugin's kernel table.
 *
 * schema  The text that the row was compiled for. If later versions append arguments, the row still runs
 *         calls in which those have their defaults.
 * dtypes  Zero-terminated; NULL: all. The dtypes of the calls that it takes: the computation dtype of
 *         pointwise operators, else the dtype of the first tensor.
 *
 * arguments  What single arguments of the schema take, in its order; NULL: all take `strides`, on the device.
 *         Rows of pointwise operators, reductions and scans have none.
 *
 * Without TN_ROW_CASTS the inputs of a pointwise call have the call's dtype, IMMEDIATE ones included,
 * except for conditions (bool) and TN_ROW_WIDE_IMMEDIATE. Outputs may have another dtype (comparisons give
 * bool): read operands[i].dtype. Rows and all that they point to must not change until shutdown.
 */
typedef struct tn_kernel_row {
    uint32_t size;
    uint32_t flags;   /* TN_ROW_... */
    uint32_t strides; /* TN_STRIDES_... */
    int32_t priority; /* of all rows that fit, the one with the highest priority runs; of equals the last */
    const char *schema;
    const tn_dtype *dtypes;
    tn_kernel_fn run;
    tn_can_run_fn can_run; /* NULL: the row takes every call */
    const void *data;      /* handed to the functions as call->data */
    uint32_t max_rank;     /* of the loop nest, or of tensors where there is none; 0: any */
    uint32_t max_operands; /* of the loop nest; 0: any number */
    uint32_t honours;      /* binding flags of calls, TN_CALL_...; bits 0 to 15 */
    uint32_t n_arguments;
    const tn_row_argument *arguments;
} tn_kernel_row;

/*
 * Twelve kernels are enough for a device to run all primitives (tier 1); each may have any number of rows.
 * Eight are ATen's, some of them whole families: pointwise (aten::add.Tensor, ...), reduction
 * (aten::sum, aten::amax, ...), scan (aten::cumsum, ...), gather, scatter, bmm, sort.stable, nonzero. ATen
 * has no name for the other four:
 */
#define TN_SCHEMA_FILL "prim::fill(Tensor(a!) self, Scalar value) -> Tensor(a!)"
/* Any strides, any two dtypes; `src` is broadcast to `self` and may have a smaller rank. A row with
 * TN_ROW_LAZY_BITS conjugates and negates as the flags of both descriptors say. */
#define TN_SCHEMA_COPY "prim::copy(Tensor(a!) self, Tensor src) -> Tensor(a!)"
/* Element i, row-major, is start + i * step, computed in int64, float64 or complex128, then rounded. */
#define TN_SCHEMA_IOTA "prim::iota(Tensor(a!) self, Scalar start, Scalar step) -> Tensor(a!)"
/* `distribution` is a TN_RANDOM_... of random.h. `seed` and `offset` are uint64; counters start at
 * `offset`. With `state`, which is that of tn_random_numbers (plugin.h), the kernel takes the seed from there,
 * and counters start at state[1] + offset. A row compiled without `state` is refused in captures. */
#define TN_SCHEMA_RANDOM                                                                         \
    "prim::random(Tensor(a!) self, int distribution, Scalar a, Scalar b, int seed, int offset, " \
    "Tensor? state=None) -> Tensor(a!)"

/* ---- Defining operators ------------------------------------------------------------------------------ */

#define TN_TAG_BIT_DATA_DEPENDENT      1u /* the size of a result depends on elements */
#define TN_TAG_BIT_NONDETERMINISTIC    2u /* refused in deterministic mode */
#define TN_TAG_BIT_DIFFERENTIABLE_ONCE 4u /* the gradient has no gradient */

/* What mixed precision does to the floating-point inputs of an operator. */

#define TN_AUTOCAST_NONE   0u
#define TN_AUTOCAST_LOW    1u /* casts them to the low dtype */
#define TN_AUTOCAST_FULL   2u /* casts them to float32 */
#define TN_AUTOCAST_WIDEST 3u /* casts them to the widest dtype among them */

/*
 * The definition of a new operator. Its strings and functions must not change while it is defined.
 *
 * infer          Shape rule: calls host->define_output for each output. NULL: every output is like the first
 *                tensor argument, or what the composite gives. The result of an operator that works in place is
 *                the argument: a rule may check the arguments, and what it defines must be like that one.
 * composite      Computes the outputs with other operators on host->call_scope(call), and gives them by
 *                host->set_output. Devices without a kernel run it. NULL: they fall back to the CPU. Without
 *                `infer` it always runs: rows are refused, and the gradient is that of its operators if
 *                `backward` is NULL.
 * backward       Gradient. Its args are the gradients of all outputs (NONE for an undefined one), then the
 *                forward arguments (tensors only if `saves` names them), then the saved outputs. It has one
 *                output for each forward argument: set those of tensors with host->set_output, store
 *                tn_value_tensors for those of lists, leave the others NONE. NULL: the operator has no gradient.
 * saves          Names of the tensors that backward reads: arguments, and `result0`, `result1`, ... for
 *                outputs; comma separated. NULL: none.
 * self           Handed to all of these functions.
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
    void *self;
    uint32_t autocast; /* TN_AUTOCAST_... */
    uint32_t reserved;
} tn_operator_def;

#ifndef TN_PLUGIN
/*
 * Defines an operator. TN_E_EXISTS if it is defined already, TN_E_SYNTAX for a bad schema, with the column, and
 * for a result in an alias set that no argument has. TN_E_ARGUMENT in the namespaces `aten` and `prim`, which are
 * Tenon's own.
 * `out` (may be NULL) receives its number.
 */
TN_API int32_t tn_operator_define(tn_context *ctx, const tn_operator_def *def,
                                  TN_OUT TN_NULLABLE uint32_t *out) TN_ANY_THREAD;
/* Adds kernels for a device type; the operators may be defined before or after, and the plugin of the device may be
 * loaded before or after. Rows stand as far apart as the size of the first one says. TN_E_UNKNOWN_FIELD for flags,
 * strides, dtypes and set bytes that this version does not know, TN_E_CONTRACT for an operator with a composite and no
 * `infer`. */
TN_API int32_t tn_kernels_add(tn_context *ctx, const char *device_type, void *self, const tn_kernel_row *rows,
                              uint32_t count) TN_ANY_THREAD;
/* Removes the operators of a namespace that programs and libraries defined, and the kernels that were added for
 * them. */
TN_API int32_t tn_namespace_remove(tn_context *ctx, const char *name) TN_ANY_THREAD;
typedef struct tn_library tn_library;
/* Loads a plugin or operator library from a path. `out` (may be NULL) receives the handle for
 * tn_library_close. */
TN_API int32_t tn_library_open(tn_context *ctx, const char *path,
                               TN_OUT TN_NULLABLE tn_library **out) TN_ANY_THREAD;
/* Removes the library's operators and kernels. TN_E_STATE inside an operator, and for a plugin with a device.
 * Calls that other threads have begun run to their end: the code stays loaded until the context ends. */
TN_API int32_t tn_library_close(TN_TAKES TN_NULLABLE tn_library *library) TN_ANY_THREAD;

/* ---- Calling ----------------------------------------------------------------------------------------- */

/* Flags (TN_CALL_...) of all calls of the context from now on: those in `mask` become as in `flags`.
 * tn_set_deterministic sets and clears TN_CALL_DETERMINISTIC. */
TN_API void tn_set_call_flags(tn_context *ctx, uint32_t flags, uint32_t mask) TN_ANY_THREAD;
TN_API uint32_t tn_get_call_flags(const tn_context *ctx) TN_ANY_THREAD;

/* Number of an operator by its full name ("aten::add.Tensor", "mylib::myop"). 0 and TN_E_NOT_FOUND on this
 * thread if there is none; the message names similar operators. */
TN_API uint32_t tn_operator_find(tn_context *ctx, const char *name) TN_ANY_THREAD;

/*
 * Calls an operator and gives the results to the caller, who releases each value of `outs` with
 * tn_value_release. A list result is one value of tag TENSORS, a complex number one of tag COMPLEX: both point to memory that goes
 * with the value. On failure outs are NONE, and `error` (may be NULL) receives a copy of the error, to be released with
 * tn_error_release. The copy has no place; tn_last_error gets one by tn_error_place.
 */
TN_API int32_t tn_call_operator(tn_context *ctx, uint32_t op, const tn_value *args, uint32_t n_args,
                                tn_value *outs, uint32_t n_outs,
                                TN_OUT TN_NULLABLE TN_GIVES tn_error **error) TN_ANY_THREAD;
TN_API void tn_error_release(TN_TAKES TN_NULLABLE tn_error *error);
/* Releases a value that tn_call_operator gave: a tensor, a list with its tensors, the two parts of a complex number. The value
 * is NONE then. Numbers need no release. */
TN_API void tn_value_release(tn_context *ctx, tn_value *v);

/*
 * Calls an operator on a scope, which owns the results. Trailing arguments that have defaults may be left
 * out: n_args is then smaller than in the schema. If the call fails, or the scope had failed, outs are NONE
 * and the status of the scope is returned.
 */
TN_API int32_t tn_scope_call(tn_scope *s, uint32_t op, const tn_value *args, uint32_t n_args, tn_value *outs,
                             uint32_t n_outs) TN_SCOPE_THREAD;
#endif

/*
 * Observers of calls. `enter` runs before each call of an operator, also of one that another operator
 * calls; `leave` runs after it, with the same `token`. With sample > 1 they run for every sample-th call of
 * a thread. Neither may call operators.
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
