/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Automatic differentiation in reverse mode.
 *
 * Complex gradients follow the conjugate Wirtinger convention: the gradient of a real loss L is
 * dL/dRe + i dL/dIm. Any number of threads may run backward at once, also on graphs that share leaves.
 *
 * Functions that return int32_t return a status; with a scope, the scope records the error too.
 */
#ifndef TENON_AUTOGRAD_H
#define TENON_AUTOGRAD_H

#include <tenon/op.h>

TN_BEGIN_DECLS

#ifndef TN_PLUGIN
/* 1 if operators on t are recorded for backward. */
TN_API int32_t tn_requires_grad(const tn_tensor *t) TN_ANY_THREAD;
/* Switches recording for a leaf. Its dtype must be floating or complex, else TN_E_DTYPE; a tensor that is
 * not a leaf cannot be switched off, TN_E_AUTOGRAD. */
TN_API int32_t tn_set_requires_grad(tn_tensor *t, int32_t on) TN_ANY_THREAD;
/* 1 if no recorded operator made t. */
TN_API int32_t tn_is_leaf(const tn_tensor *t) TN_ANY_THREAD;
/* Makes backward keep the gradient of a tensor that is not a leaf. */
TN_API int32_t tn_retain_grad(tn_tensor *t) TN_ANY_THREAD;
/* The accumulated gradient; NULL, without an error, if there is none. */
TN_API TN_SCOPED TN_NULLABLE tn_tensor *tn_grad_of(tn_scope *s, const tn_tensor *t);
/* Replaces the gradient; NULL clears it. Shape, dtype and device must be those of t. */
TN_API int32_t tn_set_grad(tn_tensor *t, TN_NULLABLE tn_tensor *grad) TN_ANY_THREAD;
/* A tensor with the same storage and version, but without history: it requires no gradient. */
TN_API TN_SCOPED tn_tensor *tn_detach(tn_scope *s, tn_tensor *t);

typedef struct tn_backward_options {
    uint32_t size;
    int32_t retain_graph; /* keep saved tensors for another backward; create_graph implies it */
    int32_t
        create_graph; /* record the backward pass itself; in tn_backward_with it makes a cycle, see there */
    int32_t allow_unused;      /* tn_grad: NULL for an input that no root depends on, instead of an error */
    int32_t materialize_grads; /* tn_grad: zeros instead of NULL; implies allow_unused */
    int32_t reserved;
    tn_tensors grad_outputs; /* one for each root; NULL: 1, for a root with one element */
    tn_tensors inputs;       /* tn_backward_with: accumulate into these tensors only */
} tn_backward_options;

/* Accumulates d root / d leaf into the gradients of all leaves. `root` has one element. With create_graph a gradient has a
 * history, which may keep its leaf: then neither is freed before the gradient is cleared (tn_set_grad with NULL). A warning in
 * the log says so once for each context. tn_grad stores no gradient, so it makes no such cycle of references. */
TN_API int32_t tn_backward(tn_scope *s, tn_tensor *root);
TN_API int32_t tn_backward_with(tn_scope *s, tn_tensors roots,
                                TN_NULLABLE const tn_backward_options *options);
/* Writes the gradient of the roots with respect to each input to out[]; accumulates nothing. */
TN_API int32_t tn_grad(tn_scope *s, tn_tensors roots, tn_tensors inputs,
                       TN_NULLABLE const tn_backward_options *options, TN_OUT TN_SCOPED tn_tensor **out);

/* Grad mode of this thread: TN_GRAD_ON, TN_GRAD_OFF, TN_GRAD_INFERENCE. Scopes set it by option. */
TN_API uint32_t tn_grad_mode(void) TN_ANY_THREAD;
/* Sets the mode and returns the previous one. */
TN_API uint32_t tn_set_grad_mode(uint32_t mode) TN_ANY_THREAD;

/*
 * Hooks. A tensor hook receives the gradient of the tensor and returns a replacement (owned by the scope), or
 * NULL for no change. It runs on the thread that runs backward. tn_hook_remove removes it by its handle.
 */
typedef TN_NULLABLE tn_tensor *(*tn_tensor_hook)(void *user, tn_scope *s, tn_tensor *grad);
TN_API int32_t tn_register_hook(tn_tensor *t, tn_tensor_hook hook, void *user, TN_OUT uint64_t *out_handle);
/* Runs after the gradient has been accumulated into the leaf. */
typedef void (*tn_accumulate_hook)(void *user, tn_scope *s, tn_tensor *leaf);
TN_API int32_t tn_register_accumulate_hook(tn_tensor *leaf, tn_accumulate_hook hook, void *user,
                                           TN_OUT uint64_t *out_handle);
TN_API void tn_hook_remove(tn_tensor *t, uint64_t handle);
/*
 * Gives `user` of a hook to Tenon: destroy(user) is called once, when the hook has been removed or the graph that
 * has it is gone, and no backward call is in the hook any more. A hook of a result lives as long as the graph, which
 * may be longer than the tensor. `destroy` may be called on any thread; it may release tensors, but make no calls.
 * TN_E_NOT_FOUND if there is no such hook, TN_E_EXISTS if it has a function already: `destroy` is not called then.
 */
TN_API int32_t tn_hook_on_destroy(tn_tensor *t, uint64_t handle, void (*destroy)(void *user));

/*
 * A hook of several tensors, which must not change the gradients. ALL: runs once in each backward call,
 * when the gradients of all its tensors that take part are complete; `grads` has one for each tensor, NULL
 * for those that do not take part. ANY: runs with the first gradient alone, `count` is 1. The hook keeps
 * the graph of its tensors alive until it is removed.
 */
#define TN_MULTI_HOOK_ALL 0u
#define TN_MULTI_HOOK_ANY 1u
typedef struct tn_multi_hook tn_multi_hook;
typedef void (*tn_multi_hook_fn)(void *user, tn_scope *s, tn_tensor *const *grads, uint32_t count);
TN_API int32_t tn_register_multi_hook(tn_tensors tensors, uint32_t mode, tn_multi_hook_fn hook, void *user,
                                      TN_OUT TN_GIVES tn_multi_hook **out);
TN_API void tn_multi_hook_remove(TN_TAKES TN_NULLABLE tn_multi_hook *hook);

/* The graph. Nodes are borrowed: they live as long as a tensor that leads to them. */
typedef struct tn_node tn_node;
/* The node that made t; NULL for a leaf. */
TN_API TN_NULLABLE tn_node *tn_grad_fn(const tn_tensor *t) TN_ANY_THREAD;
/* Such as "MulBackward" or "AccumulateGrad". */
TN_API const char *tn_node_name(const tn_node *node) TN_ANY_THREAD;
/* Grows from node to node on one thread, and along each path to a result. Nodes of two threads may have the
 * same number. */
TN_API uint64_t tn_node_sequence(const tn_node *node) TN_ANY_THREAD;
/* Number of gradients that the node gives: one for each input of the forward call. */
TN_API uint32_t tn_node_input_count(const tn_node *node) TN_ANY_THREAD;
/* The node that receives gradient i, or NULL. */
TN_API TN_NULLABLE tn_node *tn_node_next(const tn_node *node, uint32_t i) TN_ANY_THREAD;
/* Hooks of nodes: with `pre` 1 it may replace the gradients that the node receives, with 0 those that it
 * gives. */
typedef int32_t (*tn_node_hook)(void *user, tn_scope *s, tn_tensor **grads, uint32_t count);
TN_API int32_t tn_node_register_hook(tn_node *node, int32_t pre, tn_node_hook hook, void *user,
                                     TN_OUT uint64_t *out_handle);
TN_API void tn_node_hook_remove(tn_node *node, uint64_t handle);
/* As tn_hook_on_destroy. */
TN_API int32_t tn_node_hook_on_destroy(tn_node *node, uint64_t handle, void (*destroy)(void *user));
/* `callback` runs once, when the backward call that is running on this thread has finished. */
TN_API int32_t tn_queue_callback(tn_scope *s, void (*callback)(void *user, tn_scope *s), void *user);

/*
 * Hooks of saved tensors: `pack` runs when forward saves a tensor, `unpack` when backward reads it, `destroy` when the graph
 * lets go of it. The innermost pair of the thread counts. What is saved while a pair is in force keeps it.
 */
typedef struct tn_saved_hooks {
    uint32_t size;
    uint32_t reserved;
    void *user;
    void *(*pack)(void *user, tn_scope *s, tn_tensor *t);
    TN_SCOPED tn_tensor *(*unpack)(void *user, tn_scope *s, void *packed);
    void (*destroy)(void *user, void *packed);
} tn_saved_hooks;
TN_API int32_t tn_saved_hooks_push(tn_context *ctx, const tn_saved_hooks *hooks);
TN_API void tn_saved_hooks_pop(tn_context *ctx);
/*
 * Pairs of the library, each until its tn_saved_hooks_pop. With tn_save_on_cpu, what forward saves lies in memory of
 * the host and comes back when backward reads it; tensors of the CPU are not copied. With `pin_memory` 1 the memory is
 * pinned, and the copy back is asynchronous. The scope of the forward calls holds their results, too: memory of the
 * device is free when it closes. With tn_allow_mutation_on_saved_tensors, what forward saves is copied at once. So the
 * program may write the original before backward.
 */
TN_API int32_t tn_save_on_cpu(tn_context *ctx, int32_t pin_memory);
TN_API int32_t tn_allow_mutation_on_saved_tensors(tn_context *ctx);
/* Until its tn_saved_hooks_pop, calls that put hooks in force on this thread fail with TN_E_AUTOGRAD and `message` (copied).
 * Fails so itself if hooks are in force. */
TN_API int32_t tn_disable_saved_tensors_hooks(tn_context *ctx, const char *message);

/* A function of tensors: writes n_outs results to out[], which the scope or an input's owner holds. TN_OK, or a status. */
typedef int32_t (*tn_tensors_fn)(void *user, tn_scope *s, tn_tensors inputs, TN_OUT tn_tensor **out);

/*
 * Runs f without keeping what it saves for backward: the first backward that needs it runs f once more, with the same inputs,
 * grad mode, casts and random numbers (unless any_random_state is 1). Memory goes down to the inputs and outputs of f, for the
 * time of a second forward run; each backward that keeps the graph runs f again. Gradients are those of the plain call, also
 * second ones. Inputs may be NULL. f has a scope of its own, and must do the same both times: what it reads besides `inputs`
 * must live until backward, and must be the same then. TN_E_AUTOGRAD: a write to what backward needs; in the second run another
 * number of saved tensors, or another dtype or size of one; other draws from the default generators. Another tensor of the same
 * dtype and sizes is not noticed, and the gradient is wrong. A function that is nested d deep runs about d times. TN_E_AUTOGRAD
 * while hooks are disabled. `destroy` is called once with `user`: when the
 * graph is gone, or before a call returns that fails or records nothing; not if the options have a wrong size. Source: Chen et
 * al., "Training deep nets with sublinear memory cost", 2016.
 */
typedef struct tn_checkpoint_options {
    uint32_t size;
    uint32_t n_outs; /* 0: 1 */
    int32_t any_random_state;
    int32_t reserved;
    void (*destroy)(void *user);
} tn_checkpoint_options;
TN_API int32_t tn_checkpoint(tn_scope *s, tn_tensors_fn f, void *user, tn_tensors inputs,
                             TN_NULLABLE const tn_checkpoint_options *options,
                             TN_OUT TN_SCOPED tn_tensor **out);

/*
 * Derivatives of a function f of n inputs. They are taken at the values of the inputs, whether those require a gradient or
 * not; with create_graph the results have a history that leads to the inputs. An input that an output does not depend on gives
 * zeros, or with `strict` TN_E_AUTOGRAD. Outputs of tn_jacobian and inputs of tn_hessian are real. v has tensors like the
 * outputs (tn_vjp) or inputs; NULL where that is one tensor of one element.
 *   tn_jacobian  out[i * n + j]: d output i / d input j, sizes (sizes of output i, sizes of input j)
 *   tn_vjp       out[j]: v, of the sizes of the outputs, times the Jacobian
 *   tn_jvp       out[i]: the Jacobian times v, of the sizes of the inputs
 *   tn_hessian   f has one output of one element; out[i * n + j]: (sizes of input i, sizes of input j)
 *   tn_vhp       out[j]: v, of the sizes of the inputs, times the Hessian
 *   tn_hvp       out[i]: the Hessian times v
 * `value`: NULL, or receives the n_outs outputs of f.
 */
typedef struct tn_functional_options {
    uint32_t size;
    uint32_t n_outs; /* 0: 1 */
    int32_t create_graph;
    int32_t strict;
    TN_NULLABLE tn_tensor **value;
} tn_functional_options;
TN_API int32_t tn_jacobian(tn_scope *s, tn_tensors_fn f, void *user, tn_tensors inputs,
                           TN_NULLABLE const tn_functional_options *options,
                           TN_OUT TN_SCOPED tn_tensor **out);
TN_API int32_t tn_hessian(tn_scope *s, tn_tensors_fn f, void *user, tn_tensors inputs,
                          TN_NULLABLE const tn_functional_options *options, TN_OUT TN_SCOPED tn_tensor **out);
TN_API int32_t tn_vjp(tn_scope *s, tn_tensors_fn f, void *user, tn_tensors inputs, tn_tensors v,
                      TN_NULLABLE const tn_functional_options *options, TN_OUT TN_SCOPED tn_tensor **out);
TN_API int32_t tn_jvp(tn_scope *s, tn_tensors_fn f, void *user, tn_tensors inputs, tn_tensors v,
                      TN_NULLABLE const tn_functional_options *options, TN_OUT TN_SCOPED tn_tensor **out);
TN_API int32_t tn_vhp(tn_scope *s, tn_tensors_fn f, void *user, tn_tensors inputs, tn_tensors v,
                      TN_NULLABLE const tn_functional_options *options, TN_OUT TN_SCOPED tn_tensor **out);
TN_API int32_t tn_hvp(tn_scope *s, tn_tensors_fn f, void *user, tn_tensors inputs, tn_tensors v,
                      TN_NULLABLE const tn_functional_options *options, TN_OUT TN_SCOPED tn_tensor **out);

/*
 * A function of the program with its own gradient. `forward` runs without recording. `backward` receives
 * the gradients of the outputs (zeros for an undefined one; NULL with TN_FUNCTION_NO_MATERIALIZE) and
 * writes those of the inputs. `destroy` is called once: with the graph, or before a call returns that fails for
 * another reason than its own arguments.
 */
typedef struct tn_function_call tn_function_call;
typedef struct tn_function {
    uint32_t size;
    uint32_t flags;
    const char *name;
    int32_t (*forward)(tn_function_call *call, tn_scope *s, tn_tensors inputs, TN_OUT tn_tensor **out);
    int32_t (*backward)(tn_function_call *call, tn_scope *s, tn_tensors grads, TN_OUT tn_tensor **out);
    void (*destroy)(void *user);
} tn_function;
#define TN_FUNCTION_ONCE_DIFFERENTIABLE 1u /* backward itself has no gradient */
#define TN_FUNCTION_NO_MATERIALIZE      2u /* undefined gradients are NULL, not zeros */
TN_API int32_t tn_function_apply(tn_scope *s, const tn_function *function, void *user, tn_tensors inputs,
                                 TN_OUT TN_SCOPED tn_tensor **out, uint32_t n_outs);
/* For use inside `forward` and `backward`: the user pointer, and the tensors that forward saved. */
TN_API void *tn_function_user(const tn_function_call *call);
TN_API int32_t tn_function_save(tn_function_call *call, tn_tensors tensors);
TN_API TN_SCOPED tn_tensor *tn_function_saved(tn_function_call *call, tn_scope *s, uint32_t i);
/* 1 if input i requires a gradient. */
TN_API int32_t tn_function_needs_input_grad(const tn_function_call *call, uint32_t i);
/* Inside `forward`: t, an input, was written in place; t, an output, has no gradient. */
TN_API int32_t tn_function_mark_dirty(tn_function_call *call, tn_tensor *t);
TN_API int32_t tn_function_mark_non_differentiable(tn_function_call *call, tn_tensor *t);

/*
 * Compares the gradient of a function of float64 or complex128 inputs with central finite differences of step
 * eps. TN_OK, or TN_E_AUTOGRAD, whose message names the first element that differs.
 */
typedef int32_t (*tn_check_fn)(void *user, tn_scope *s, tn_tensors inputs, TN_OUT tn_tensor **out);
typedef struct tn_gradcheck_options {
    uint32_t size;
    uint32_t n_outs; /* 0: 1 */
    double eps;      /* 0: 1e-6 */
    double atol;     /* 0: 1e-5 */
    double rtol;     /* 0: 1e-3 */
    int32_t second;  /* 1: check second derivatives too */
    int32_t reserved;
} tn_gradcheck_options;
TN_API int32_t tn_gradcheck(tn_scope *s, tn_check_fn f, void *user, tn_tensors inputs,
                            TN_NULLABLE const tn_gradcheck_options *options);
#endif

TN_END_DECLS
#endif
