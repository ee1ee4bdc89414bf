/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: trees of layers with named parameters, as torch.nn has them. Layers, their options and their names are
 * those of PyTorch, and so are the names of parameters: a state file of one is a state file of the other. The layers
 * are in nn_layers.h, which this header includes.
 *
 *     tn_module *net = tn_module_create(ctx, "net", NULL);
 *     tn_linear_create(net, "0", 784, 128);
 *     tn_relu_create(net, "1");
 *     tn_linear_create(net, "2", 128, 10);
 *     if (tn_module_failed(net)) ...
 *     TN_STEP(s, ctx) y = tn_module_forward(s, net, x);
 *
 * Ownership: a module belongs to its parent, the root to the program, which destroys it. A module holds one
 * reference to each of its tensors. Errors: functions that build a tree return NULL once its root has failed, and
 * the root keeps the first error; so a program looks for errors once, after it has built the whole tree. After
 * tn_module_clear_error it may go on with the tree. Functions that take a scope fail the scope.
 *
 * Threads: a tree may run forward on several threads at once as long as no thread changes it (training mode, tensors,
 * hooks). Everything else is for one thread at a time.
 */
#ifndef TENON_NN_H
#define TENON_NN_H

#include <tenon/program.h>

#ifndef TN_PLUGIN
TN_BEGIN_DECLS

typedef struct tn_module tn_module;

/* More inputs or outputs are refused. */
#define TN_MODULE_MAX_INPUTS  16
#define TN_MODULE_MAX_OUTPUTS 8

/*
 * A kind of module, of the program's own. All fields may be NULL or 0.
 *
 *   forward   returns the first output. Further outputs go to more[0], more[1], ... (TN_MODULE_MAX_OUTPUTS - 1
 *             pointers, NULL at the start; the call fails if one behind them was written). `in` has at least one
 *             item. NULL: children run one after another, each on the output of the one before, as in nn.Sequential.
 *   describe  writes what stands between the parentheses when the module is printed: "in_features=3, bias=True".
 *   finish    before the module's memory is freed.
 *
 * The struct must live as long as the modules made from it.
 */
typedef struct tn_module_class {
    uint32_t size;
    uint32_t reserved;
    const char *name;     /* "Block"; NULL: "Sequential" */
    uint64_t state_bytes; /* of tn_module_state, zeroed when the module is made */
    TN_NULLABLE tn_tensor *(*forward)(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
    void (*describe)(const tn_module *m, char *text, uint64_t bytes);
    void (*finish)(tn_module *m);
} tn_module_class;

/*
 * A class and its forward function in one, for one input and one output. The children are called by their names.
 *
 *     TN_MODULE_CLASS(Residual, s, m, x)
 *     {
 *         return tn_add(s, x, tn_child_forward(s, m, "fc2", tn_relu(s, tn_child_forward(s, m, "fc1", x))));
 *     }
 *
 *     tn_module *m = tn_module_add(net, "block", &Residual);
 *     tn_linear_create(m, "fc1", 64, 64);
 *     tn_linear_create(m, "fc2", 64, 64);
 *
 * Stands outside functions. TN_MODULE_CLASS_STATE gives each module a zeroed struct, tn_module_state(m).
 */
#define TN_MODULE_CLASS(class_, s, m, x)             TN_MODULE_CLASS_OF(class_, 0, s, m, x)
#define TN_MODULE_CLASS_STATE(class_, type, s, m, x) TN_MODULE_CLASS_OF(class_, sizeof(type), s, m, x)
#define TN_MODULE_CLASS_OF(class_, bytes, s, m, x)                                                     \
    static tn_tensor *class_##_run(tn_scope *s, tn_module *m, tn_tensor *x);                           \
    static tn_tensor *class_##_forward(tn_scope *s_, tn_module *m_, tn_tensors in_, tn_tensor **more_) \
    {                                                                                                  \
        (void)more_;                                                                                   \
        return tn_module_takes(s_, in_, 1) ? NULL : class_##_run(s_, m_, in_.data[0]);                 \
    }                                                                                                  \
    static const tn_module_class class_ = {.size = sizeof(tn_module_class),                            \
                                           .name = #class_,                                            \
                                           .state_bytes = (bytes),                                     \
                                           .forward = class_##_forward};                               \
    static tn_tensor *class_##_run(tn_scope *s, __attribute__((unused)) tn_module *m, tn_tensor *x)

/* ---- Building ------------------------------------------------------------------------------------------ */

/* A root. NULL and tn_last_error() when out of memory. `class` NULL: children run one after another. */
TN_API tn_module *tn_module_create(tn_context *ctx, const char *name,
                                   TN_NULLABLE const tn_module_class *class_);
/* A child. A name with dots makes the modules on the way that are not there yet: "h.0.fc". A name that is taken fails
 * with TN_E_EXISTS. `name` NULL: the number of the parent's children before it, as in a list: "0", "1", ... */
TN_API tn_module *tn_module_add(tn_module *parent, TN_NULLABLE const char *name,
                                TN_NULLABLE const tn_module_class *class_);
/* A list (nn.ModuleList, nn.ModuleDict): a module whose children run only when the program calls them. */
TN_API tn_module *tn_module_list_create(tn_module *parent, TN_NULLABLE const char *name);
/*
 * Layers by the names of their classes, "Linear" and "Conv2d": for other languages, which have no macros, and for files
 * that describe networks. Options are those of nn_layers.h, with their defaults. A missing required option, an unknown
 * one, or one of the wrong type fails the tree with TN_E_ARGUMENT. A number stands for a list of one item. The type is
 * frozen.
 */
typedef struct tn_layer_option {
    const char *name;
    tn_value value;
} tn_layer_option;
TN_API tn_module *tn_layer_create(tn_module *parent, TN_NULLABLE const char *name, const char *layer,
                                  const tn_layer_option *options, uint32_t count);
/* How many layers there are, the name of layer i ("Linear"), NULL beyond the last. */
TN_API uint32_t tn_layer_count(void);
TN_API const char *tn_layer_name(uint32_t i);
/* Option i of a layer. */
typedef struct tn_layer_option_info {
    uint32_t size;
    uint32_t tag; /* TN_TAG_INT, FLOAT, BOOL, STRING, INTS or TENSOR */
    const char *name;
    int32_t is_required; /* 1: it has no default */
    uint32_t items;      /* of INTS: how many it has, if its number is fixed; one stands for all */
    tn_value standard;   /* its default; TN_TAG_NONE: none, or it follows from other options */
} tn_layer_option_info;
/* TN_E_NOT_FOUND for a layer that is not there, TN_E_INDEX beyond its last option. */
TN_API int32_t tn_layer_option_at(const char *layer, uint32_t i, TN_OUT tn_layer_option_info *out);
/* Destroys a root and all below it. NULL is ignored; a child fails the tree with TN_E_STATE. What was destroyed must not be
 * used or destroyed again: that is undefined, for all destroy functions. With TENON_DEBUG=handles it is TN_E_DEAD_HANDLE. */
TN_API void tn_module_destroy(TN_TAKES TN_NULLABLE tn_module *root);

#ifdef TN_AUTO_TYPE
TN_AUTO_TYPE(tn_module, tn_module_destroy)
#endif

/* Status of the tree's first error, 0 before it; TN_E_STATE for NULL. Its text, or NULL. */
TN_API int32_t tn_module_failed(const tn_module *m);
TN_API const char *tn_module_error(const tn_module *m);
/* Records an error in the tree, unless it has one. Returns `status`. For the create functions of programs. */
TN_API int32_t tn_module_fail(tn_module *m, int32_t status, const char *text);
/* Forgets the error, so that the tree can be used again: a call that failed left it as it was. What was destroyed stays so.
 * NULL is ignored. */
TN_API void tn_module_clear_error(tn_module *m);
/* Takes a child and all below it out of its tree, and destroys them: for the create function of a program that fails after
 * tn_module_add. Nothing else may know the module yet. NULL and a root are ignored. */
TN_API void tn_module_undo_add(TN_NULLABLE tn_module *m);
/* Where the program makes its next call that builds a tree: the error of a tree that fails until tn_module_placed begins
 * with it. The macros say it. `file` is borrowed. */
TN_API void tn_module_place(const char *file, int32_t line);
TN_API tn_module *tn_module_placed(tn_module *m);

/*
 * Adds a tensor under a name and takes a reference of its own. A leaf that requires a gradient is shared as it is:
 * two modules that are given the same one train one parameter. Of other tensors the module holds a detached view,
 * which requires a gradient if it is a parameter. `t` NULL adds an absent one (`bias=None`), which has no place in
 * the state. Returns the tensor that the module holds.
 */
TN_API tn_tensor *tn_module_add_parameter(tn_module *m, const char *name, TN_NULLABLE tn_tensor *t);
#define TN_BUFFER_NOT_PERSISTENT 1u /* not part of the state */
TN_API tn_tensor *tn_module_add_buffer(tn_module *m, const char *name, TN_NULLABLE tn_tensor *t,
                                       uint32_t flags);
/* Exchanges the tensor behind a name for one of the same sizes. A parameter stays one. NULL is refused, so that the
 * result of a failed call does not remove a tensor: that is done by tn_module_set_absent, behind which a tensor of any
 * sizes may be set. */
TN_API int32_t tn_module_set_tensor(tn_module *m, const char *name, tn_tensor *t);
TN_API int32_t tn_module_set_absent(tn_module *m, const char *name);
/* Grows whenever a tensor of the tree is exchanged (set, moved). Optimisers and averages take the new one by its name. */
TN_API uint64_t tn_module_generation(const tn_module *m);

/*
 * Stands for the first argument of a Linear, a convolution, a batch norm or an instance norm: the first call takes it from
 * its input and makes the tensors. Until then the tree has no list of tensors, so that nothing can miss one: optimisers,
 * files and lists fail with TN_E_STATE. The first call is for one thread.
 */
#define TN_LAZY INT64_MIN

/* ---- Asking -------------------------------------------------------------------------------------------- */

/* By name, from this module on, with dots: "h.0.fc", "h.0.fc.weight". NULL if there is none. Borrowed. */
TN_API tn_module *tn_module_child(const tn_module *m, const char *name);
TN_API tn_tensor *tn_module_tensor(const tn_module *m, const char *name);
/* Parameter or buffer number i of this module, without its children, in the order in which they were added; NULL if absent. */
TN_API tn_tensor *tn_module_own(const tn_module *m, uint32_t i);
TN_API uint32_t tn_module_child_count(const tn_module *m);
TN_API tn_module *tn_module_child_at(const tn_module *m, uint32_t i);
TN_API tn_module *tn_module_parent(const tn_module *m);
TN_API tn_context *tn_module_context(const tn_module *m);
TN_API const char *tn_module_name(const tn_module *m);
TN_API const char *tn_module_class_name(const tn_module *m);
/* The memory of `state_bytes` of its class. */
TN_API void *tn_module_state(const tn_module *m);
/* The full name from the root on, without the root's own: "h.0.fc". Lives as long as the scope. */
TN_API const char *tn_module_path(tn_scope *s, const tn_module *m);

/* Tensors of a tree with their full names, in PyTorch's order; a tensor that several modules share is listed once,
 * under its first name. The list lives as long as the scope, the tensors as long as the tree holds them. */
#define TN_PARAMETERS 1u
#define TN_BUFFERS    2u /* all of them */
#define TN_STATE      4u /* parameters and persistent buffers, with shared ones under each of their names */
typedef struct tn_named_tensors {
    const tn_named_tensor *data;
    int64_t count;
} tn_named_tensors;
TN_API tn_named_tensors tn_module_tensors(tn_scope *s, const tn_module *m, uint32_t what);
/* The tensor of that name in a list; TN_E_NOT_FOUND if there is none. Borrowed. */
TN_API tn_tensor *tn_named_get(tn_scope *s, tn_named_tensors list, const char *name);
/* Those whose names begin with `folder` and a dot, without these; TN_E_NOT_FOUND if there is none. The list belongs to the scope.
 * The weights of a checkpoint: tn_module_load_state(m, tn_named_below(s, tn_file_tensors(s, file), "module"), TN_STRICT). */
TN_API tn_named_tensors tn_named_below(tn_scope *s, tn_named_tensors list, const char *folder);
/* The parameters alone, as the functions below and optimisers take them. */
TN_API tn_tensors tn_module_parameters(tn_scope *s, const tn_module *m);
/* Elements of all parameters. */
TN_API int64_t tn_module_parameter_count(const tn_module *m);

/* The tree as PyTorch prints it, and a table of its modules with the sizes of their outputs, parameters, and
 * multiply-adds, from one forward run on `inputs`. The texts live as long as the scope. */
TN_API const char *tn_module_format(tn_scope *s, const tn_module *m);
TN_API const char *tn_module_summary(tn_scope *s, tn_module *m, tn_tensors inputs);

/* ---- Running ------------------------------------------------------------------------------------------- */

/* What a call returns: first is NULL if it failed, and items of more[] are NULL where the module has no such output. */
typedef struct tn_outputs {
    TN_SCOPED tn_tensor *first;
    TN_SCOPED tn_tensor *more[TN_MODULE_MAX_OUTPUTS - 1];
} tn_outputs;
/* All outputs: of an LSTM `tn_outputs y = tn_module_call(s, lstm, TN_TENSORS(x))` has the sequence in y.first, h in
 * y.more[0] and c in y.more[1]. An error names the modules around the call that failed. */
TN_API tn_outputs tn_module_call(tn_scope *s, tn_module *m, tn_tensors in);
/* The first output: tn_module_forward(s, m, x) and, for modules with several inputs, tn_module_forward(s, m, x, y, ...). */
#define tn_module_forward(s, m, ...) \
    TN_NUMBERS_GO_TO_SCALAR_CALLS(tn_outputs_first(tn_module_call(s, m, TN_TENSORS(__VA_ARGS__))))
static inline tn_tensor *tn_outputs_first(tn_outputs y)
{
    return y.first;
}
/* The same for a child by its name (with dots, too): tn_child_forward(s, m, "attn.fc", x). TN_E_NOT_FOUND if there is none. */
#define tn_child_forward(s, m, name, ...) \
    TN_NUMBERS_GO_TO_SCALAR_CALLS(tn_outputs_first(tn_child_call(s, m, name, TN_TENSORS(__VA_ARGS__))))
TN_API tn_outputs tn_child_call(tn_scope *s, tn_module *m, const char *name, tn_tensors in);
/* Fails the scope unless there are `count` inputs; returns its status. For forward functions. */
TN_API int32_t tn_module_takes(tn_scope *s, tn_tensors in, int64_t count);
/* Runs m with other tensors in the places of some of its parameters and buffers. Those that share a tensor with one that is
 * named get the same, unless they are named, too. Not while other threads run m. */
TN_API tn_outputs tn_module_functional_call(tn_scope *s, tn_module *m, tn_named_tensors with, tn_tensors in);

/* Training mode, of the whole tree; on at the start. */
TN_API void tn_module_train(tn_module *m, int32_t on);
TN_API int32_t tn_module_is_training(const tn_module *m);
TN_API int32_t tn_module_set_requires_grad(tn_module *m, int32_t on);
TN_API void tn_module_zero_grad(tn_module *m);
/* Moves all tensors to a device (0: stay), and those that are floating-point or complex to such a dtype (0: keep). What modules
 * share stays shared, also with modules of the tree that are not below m. Layers that are added to a root later start there,
 * too. The moved tensors are new ones without gradients; optimisers and averages of the module take them, and move their
 * states, at their next step. A dtype that is neither is TN_E_DTYPE of this call alone; other errors fail the tree. */
TN_API int32_t tn_module_to(tn_module *m, tn_device device, tn_dtype dtype);
/* Calls `function` for each module below m, children before parents, m last. */
TN_API void tn_module_apply(tn_module *m, void (*function)(tn_module *m, void *user), void *user);

/*
 * Hooks, in the order in which they were added. `before` may exchange inputs in in[0..count - 1], `after` returns a
 * new first output or NULL for no change. A hook that fails the scope ends the call; those behind it do not run. Nor does
 * `backward` once the module has been destroyed.
 */
typedef struct tn_module_hook {
    uint32_t size;
    uint32_t reserved;
    void *user;
    void (*before)(void *user, tn_scope *s, tn_module *m, tn_tensor **in, uint32_t count);
    TN_NULLABLE tn_tensor *(*after)(void *user, tn_scope *s, tn_module *m, tn_tensors in, tn_tensor *out);
    /* The gradients of the first output (given) and of the inputs (to be returned or exchanged; all NULL if no input requires
     * one). */
    void (*backward)(void *user, tn_scope *s, tn_module *m, tn_tensor *grad_out, tn_tensor **grad_in,
                     uint32_t count);
    /*
     * Of states (tn_module_state_dict, tn_module_load). `prefix` is what stands before this module's names in the state, "" or
     * "h.0.". `save` and `load` return the list to go on with: `state`, or another one in memory of the scope. A hook that
     * fails the scope ends the call; nothing is changed then but by `loaded`.
     */
    void (*save_begin)(void *user, tn_scope *s, tn_module *m,
                       const char *prefix); /* before those of children */
    tn_named_tensors (*save)(void *user, tn_scope *s, tn_module *m, const char *prefix,
                             tn_named_tensors state); /* the whole one so far; behind those of children */
    tn_named_tensors (*load)(void *user, tn_scope *s, tn_module *m, const char *prefix,
                             tn_named_tensors state); /* all that is loaded; before those of children */
    void (*loaded)(void *user, tn_scope *s, tn_module *m, const char *prefix); /* behind those of children */
} tn_module_hook;
/* Returns a handle, or 0: tn_last_error() says why. A struct without its `size` fails the tree. */
TN_API uint64_t tn_module_add_hook(tn_module *m, const tn_module_hook *hook);
TN_API void tn_module_remove_hook(tn_module *m, uint64_t handle);

/* ---- Tensors computed from others ---------------------------------------------------------------------- */

/*
 * A parameter that each call computes from others: the originals, which are trained in its place. The module
 * "parametrizations.NAME" below the parameter's module holds them, as "original", or "original0", "original1", ...; the
 * module "0" in it has buffers and options of the parametrisation. Names and formulas are those of torch.nn.utils.
 * Parametrise with several originals before the optimiser is made. A tree with such a parameter runs on one thread at a
 * time; between calls tn_module_tensor gives NULL for it.
 *
 * Parametrise it again, and the new one ("1", "2", ...) computes from the value of those before it, with the same sizes and
 * dtype; the originals stay. Removing takes all of them away.
 */
typedef struct tn_parametrization {
    uint32_t size;
    uint32_t reserved;
    const tn_module_class *class_; /* of the module "0"; its state_bytes are those of the options */
    TN_NULLABLE tn_tensor *(*forward)(tn_scope *s, tn_module *zero, tn_tensors originals);
    /* The originals of a value, into out[0], out[1], ... (TN_MODULE_MAX_OUTPUTS places, NULL at the start); buffers are
     * added to `zero`. Returns the status of the scope. NULL: the value is the one original. */
    int32_t (*right_inverse)(tn_scope *s, tn_module *zero, tn_tensor *value, tn_tensor **out);
} tn_parametrization;
/* `options` (state_bytes of the class; may be NULL) is copied. Returns a status, which is that of the tree on failure;
 * TN_E_EXISTS for a parameter that is pruned. `how` must live as long as the module. */
TN_API int32_t tn_module_parametrize(tn_module *m, const char *parameter, const tn_parametrization *how,
                                     TN_NULLABLE const void *options);
/* 1 if the parameter (NULL: any of the module itself) is parametrised. */
TN_API int32_t tn_module_is_parametrized(const tn_module *m, TN_NULLABLE const char *parameter);
/* The present value becomes the parameter again, which an optimiser goes on with if there was one original. */
TN_API int32_t tn_module_remove_parametrization(tn_module *m, const char *parameter);
/* The original becomes the parameter again, as it was trained (leave_parametrized=False); TN_E_ARGUMENT if there are several. */
TN_API int32_t tn_module_restore_parametrized(tn_module *m, const char *parameter);
/* The present value of any tensor of the module. */
TN_API TN_SCOPED tn_tensor *tn_module_compute(tn_scope *s, tn_module *m, const char *name);

/* Salimans and Kingma 2016: a length and a direction. `dim` keeps its own lengths; -1: one length for all. */
TN_API int32_t tn_weight_norm(tn_module *m, const char *parameter, int64_t dim);
/* Miyato et al. 2018: divided by the largest singular value, by `iterations` (0: 1) steps of the power method in each call
 * in training mode. `dim` is that of the outputs (0, and 1 for transposed convolutions). */
TN_API int32_t tn_spectral_norm(tn_module *m, const char *parameter, int64_t iterations, int64_t dim);
/* Orthogonal columns or rows (Lezcano-Casado 2019). map "matrix_exp", "cayley" or "householder"; NULL: "matrix_exp" for
 * square and complex matrices, else "householder". It begins with the orthogonal matrix near the present one. */
TN_API int32_t tn_orthogonal(tn_module *m, const char *parameter, TN_NULLABLE const char *map);

/*
 * Pruning: the parameter NAME becomes NAME_orig times the buffer NAME_mask. `amount` is a share below 1 or a number of
 * elements (of slices, for the structured ones), of those that are not pruned yet. Return a status; an argument that is
 * refused leaves the module as it was, and the tree goes on.
 */
TN_API int32_t tn_prune_l1_unstructured(tn_module *m, const char *parameter, double amount);
/* Draws from the device's default generator. */
TN_API int32_t tn_prune_random_unstructured(tn_module *m, const char *parameter, double amount);
/* Whole slices along a dimension: those whose norm of order n is smallest. */
TN_API int32_t tn_prune_ln_structured(tn_module *m, const char *parameter, double amount, double n,
                                      int64_t dim);
TN_API int32_t tn_prune_random_structured(tn_module *m, const char *parameter, double amount, int64_t dim);
/* Masks nothing: NAME_orig and NAME_mask are there. */
TN_API int32_t tn_prune_identity(tn_module *m, const char *parameter);
/* The smallest elements of several parameters (of one device) together. */
typedef struct tn_prune_target {
    tn_module *module;
    const char *parameter;
} tn_prune_target;
TN_API int32_t tn_prune_global_l1_unstructured(const tn_prune_target *targets, int64_t count, double amount);
/* A mask of the program's: 0 prunes. */
TN_API int32_t tn_prune_custom(tn_module *m, const char *parameter, tn_tensor *mask);
/* 1 if a parameter of the module, or of one below it, is pruned. */
TN_API int32_t tn_is_pruned(const tn_module *m);
/* The pruned value becomes the parameter. */
TN_API int32_t tn_prune_remove(tn_module *m, const char *parameter);

/* ---- State --------------------------------------------------------------------------------------------- */

/* What is saved: TN_STATE, as hooks change it. */
TN_API tn_named_tensors tn_module_state_dict(tn_scope *s, tn_module *m);
#define TN_STRICT  0u /* the names of file and module must be the same */
#define TN_LENIENT 1u /* names that only one of them has are left out; one at least must be in both */
/* Writes tn_module_state_dict to a safetensors file, which is replaced as a whole. */
TN_API int32_t tn_module_save(tn_module *m, const char *path);
/* Reads values into the tensors, cast to their dtype, from a file of tensors (tn_file_open): safetensors, a state_dict
 * that torch.save wrote, or a sharded checkpoint. With TN_STRICT a name that only one side has is an error, and nothing is
 * changed: it says how many are missing and how many unexpected, and names the first of them. tn_module_load_report names all.
 * Shapes must be equal in both modes. */
TN_API int32_t tn_module_load(tn_module *m, const char *path, uint32_t mode);
/* The names that only one side of the last load of this tree had: "missing: 'a.weight'; unexpected: 'b.weight', 'b.bias'", or
 * "". Also of a load that failed for them. */
TN_API const char *tn_module_load_report(const tn_module *m);
/* The same from tensors in memory. */
TN_API int32_t tn_module_load_state(tn_module *m, tn_named_tensors state, uint32_t mode);

/* ---- Gradients of parameters --------------------------------------------------------------------------- */

/* Scales the gradients so that their norm together is at most max_norm. Returns the norm before, a 0-dim tensor.
 * norm_type may be INFINITY. Tensors without a gradient are left out; those of several devices have a norm on that of the first. */
TN_API TN_SCOPED tn_tensor *tn_clip_grad_norm(tn_scope *s, tn_tensors parameters, double max_norm,
                                              double norm_type);
/* Clamps each element of the gradients to [-limit, limit]. */
TN_API int32_t tn_clip_grad_value(tn_scope *s, tn_tensors parameters, double limit);
/* All parameters in one vector, and back. */
TN_API TN_SCOPED tn_tensor *tn_parameters_to_vector(tn_scope *s, tn_tensors parameters);
TN_API int32_t tn_vector_to_parameters(tn_scope *s, tn_tensor *vector, tn_tensors parameters);

/* ---- Initial values ---------------------------------------------------------------------------------------
 * Write into t, without recording, and return it. `generator` NULL: the device's default one. The fans are those of
 * PyTorch: fan_in is the elements of one output's weights, fan_out the same for an input. */
#define TN_FAN_IN  0u
#define TN_FAN_OUT 1u
TN_API tn_tensor *tn_init_uniform(tn_scope *s, tn_tensor *t, double from, double to, tn_generator *generator);
TN_API tn_tensor *tn_init_normal(tn_scope *s, tn_tensor *t, double mean, double std, tn_generator *generator);
/* Normal, drawn again outside [low, high] (by the inverse of the distribution function, as in PyTorch). */
TN_API tn_tensor *tn_init_trunc_normal(tn_scope *s, tn_tensor *t, double mean, double std, double low,
                                       double high, tn_generator *generator);
TN_API tn_tensor *tn_init_constant(tn_scope *s, tn_tensor *t, double value);
TN_API tn_tensor *tn_init_eye(tn_scope *s, tn_tensor *t);
TN_API tn_tensor *tn_init_dirac(tn_scope *s, tn_tensor *t, int64_t groups);
/* Glorot and Bengio 2010. */
TN_API tn_tensor *tn_init_xavier_uniform(tn_scope *s, tn_tensor *t, double gain, tn_generator *generator);
TN_API tn_tensor *tn_init_xavier_normal(tn_scope *s, tn_tensor *t, double gain, tn_generator *generator);
/* He et al. 2015; `a` is the slope of leaky_relu, `nonlinearity` as in tn_init_gain. */
TN_API tn_tensor *tn_init_kaiming_uniform(tn_scope *s, tn_tensor *t, double a, uint32_t fan,
                                          const char *nonlinearity, tn_generator *generator);
TN_API tn_tensor *tn_init_kaiming_normal(tn_scope *s, tn_tensor *t, double a, uint32_t fan,
                                         const char *nonlinearity, tn_generator *generator);
/* Saxe et al. 2014. */
TN_API tn_tensor *tn_init_orthogonal(tn_scope *s, tn_tensor *t, double gain, tn_generator *generator);
/* Martens 2010: a share of each column is 0. */
TN_API tn_tensor *tn_init_sparse(tn_scope *s, tn_tensor *t, double sparsity, double std,
                                 tn_generator *generator);
/* "linear", "conv1d" to "conv3d", "conv_transpose1d" to "conv_transpose3d", "sigmoid", "tanh", "relu", "leaky_relu" (with its
 * slope), "selu". 0 for an unknown name. */
TN_API double tn_init_gain(const char *nonlinearity, double slope);

/* ---- Places -------------------------------------------------------------------------------------------- */

/* The error of a failed call says where the program made it. */
#ifndef TN_NO_PLACES
static inline tn_outputs tn_module_call_at(const char *file, int32_t line, tn_scope *s, tn_module *m,
                                           tn_tensors in)
{
    int32_t before = tn_scope_place_begin(s);
    tn_outputs y = tn_module_call(s, m, in);
    if (!y.first || before) tn_place_inner(s, before, file, line);
    return y;
}
static inline tn_outputs tn_child_call_at(const char *file, int32_t line, tn_scope *s, tn_module *m,
                                          const char *name, tn_tensors in)
{
    int32_t before = tn_scope_place_begin(s);
    tn_outputs y = tn_child_call(s, m, name, in);
    if (!y.first || before) tn_place_inner(s, before, file, line);
    return y;
}
#define tn_module_call(...) tn_module_call_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_child_call(...)  tn_child_call_at(__FILE__, __LINE__, __VA_ARGS__)
#endif

#if !defined(TN_NO_PLACES) && !defined(__cplusplus)
#define TN_BUILDS(call) (tn_module_place(__FILE__, __LINE__), tn_module_placed(call))
/* A call that changes a tree: the error of the tree has the place, and so has tn_last_error(). */
#define TN_CHANGES(call) TN_PLACED_AS(__COUNTER__, call, tn_module_change_begins, tn_module_change_ends)
static inline tn_placed_call tn_module_change_begins(const char *file, int32_t line)
{
    tn_module_place(file, line);
    return tn_placed_here(file, line);
}
static inline void tn_module_change_ends(tn_placed_call *c)
{
    tn_module_place(NULL, 0);
    tn_placed_left(c);
}
/* Functions whose arguments must live longer than the call are not macros over a block. */
static inline tn_module *tn_module_create_at(const char *file, int32_t line, tn_context *ctx,
                                             const char *name, const tn_module_class *class_)
{
    uint64_t before = tn_error_count();
    tn_module *result = tn_module_create(ctx, name, class_);
    tn_error_place(before, file, (uint32_t)line);
    return result;
}
static inline int32_t tn_module_parametrize_at(const char *file, int32_t line, tn_module *m,
                                               const char *parameter, const tn_parametrization *how,
                                               const void *options)
{
    uint64_t before = tn_error_count();
    int32_t result = tn_module_parametrize(m, parameter, how, options);
    tn_error_place(before, file, (uint32_t)line);
    return result;
}
static inline uint64_t tn_module_add_hook_at(const char *file, int32_t line, tn_module *m,
                                             const tn_module_hook *hook)
{
    uint64_t before = tn_error_count();
    tn_module_place(file, line);
    uint64_t result = tn_module_add_hook(m, hook);
    tn_module_place(NULL, 0);
    tn_error_place(before, file, (uint32_t)line);
    return result;
}
#define tn_module_add(...)                    TN_BUILDS(tn_module_add(__VA_ARGS__))
#define tn_module_list_create(...)            TN_BUILDS(tn_module_list_create(__VA_ARGS__))
#define tn_layer_create(...)                  TN_BUILDS(tn_layer_create(__VA_ARGS__))
#define tn_module_create(...)                 tn_module_create_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_module_parametrize(...)            tn_module_parametrize_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_module_add_hook(...)               tn_module_add_hook_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_module_add_parameter(...)          TN_CHANGES(tn_module_add_parameter(__VA_ARGS__))
#define tn_module_add_buffer(...)             TN_CHANGES(tn_module_add_buffer(__VA_ARGS__))
#define tn_module_set_tensor(...)             TN_CHANGES(tn_module_set_tensor(__VA_ARGS__))
#define tn_module_set_absent(...)             TN_CHANGES(tn_module_set_absent(__VA_ARGS__))
#define tn_module_tensors(...)                TN_PLACED_IN(tn_module_tensors, __VA_ARGS__)
#define tn_named_get(...)                     TN_PLACED_IN(tn_named_get, __VA_ARGS__)
#define tn_named_below(...)                   TN_PLACED_IN(tn_named_below, __VA_ARGS__)
#define tn_module_parameters(...)             TN_PLACED_IN(tn_module_parameters, __VA_ARGS__)
#define tn_module_format(...)                 TN_PLACED_IN(tn_module_format, __VA_ARGS__)
#define tn_module_summary(...)                TN_PLACED_IN(tn_module_summary, __VA_ARGS__)
#define tn_module_functional_call(...)        TN_PLACED_IN(tn_module_functional_call, __VA_ARGS__)
#define tn_module_set_requires_grad(...)      TN_CHANGES(tn_module_set_requires_grad(__VA_ARGS__))
#define tn_module_to(...)                     TN_CHANGES(tn_module_to(__VA_ARGS__))
#define tn_module_remove_parametrization(...) TN_CHANGES(tn_module_remove_parametrization(__VA_ARGS__))
#define tn_module_restore_parametrized(...)   TN_CHANGES(tn_module_restore_parametrized(__VA_ARGS__))
#define tn_module_compute(...)                TN_PLACED_IN(tn_module_compute, __VA_ARGS__)
#define tn_weight_norm(...)                   TN_CHANGES(tn_weight_norm(__VA_ARGS__))
#define tn_spectral_norm(...)                 TN_CHANGES(tn_spectral_norm(__VA_ARGS__))
#define tn_orthogonal(...)                    TN_CHANGES(tn_orthogonal(__VA_ARGS__))
#define tn_prune_l1_unstructured(...)         TN_CHANGES(tn_prune_l1_unstructured(__VA_ARGS__))
#define tn_prune_random_unstructured(...)     TN_CHANGES(tn_prune_random_unstructured(__VA_ARGS__))
#define tn_prune_ln_structured(...)           TN_CHANGES(tn_prune_ln_structured(__VA_ARGS__))
#define tn_prune_random_structured(...)       TN_CHANGES(tn_prune_random_structured(__VA_ARGS__))
#define tn_prune_identity(...)                TN_CHANGES(tn_prune_identity(__VA_ARGS__))
#define tn_prune_global_l1_unstructured(...)  TN_CHANGES(tn_prune_global_l1_unstructured(__VA_ARGS__))
#define tn_prune_custom(...)                  TN_CHANGES(tn_prune_custom(__VA_ARGS__))
#define tn_prune_remove(...)                  TN_CHANGES(tn_prune_remove(__VA_ARGS__))
#define tn_module_state_dict(...)             TN_PLACED_IN(tn_module_state_dict, __VA_ARGS__)
#define tn_module_save(...)                   TN_CHANGES(tn_module_save(__VA_ARGS__))
#define tn_module_load(...)                   TN_CHANGES(tn_module_load(__VA_ARGS__))
#define tn_module_load_state(...)             TN_CHANGES(tn_module_load_state(__VA_ARGS__))
#define tn_clip_grad_norm(...)                TN_PLACED_IN(tn_clip_grad_norm, __VA_ARGS__)
#define tn_clip_grad_value(...)               TN_PLACED_IN(tn_clip_grad_value, __VA_ARGS__)
#define tn_parameters_to_vector(...)          TN_PLACED_IN(tn_parameters_to_vector, __VA_ARGS__)
#define tn_vector_to_parameters(...)          TN_PLACED_IN(tn_vector_to_parameters, __VA_ARGS__)
#define tn_init_uniform(...)                  TN_PLACED_IN(tn_init_uniform, __VA_ARGS__)
#define tn_init_normal(...)                   TN_PLACED_IN(tn_init_normal, __VA_ARGS__)
#define tn_init_trunc_normal(...)             TN_PLACED_IN(tn_init_trunc_normal, __VA_ARGS__)
#define tn_init_constant(...)                 TN_PLACED_IN(tn_init_constant, __VA_ARGS__)
#define tn_init_eye(...)                      TN_PLACED_IN(tn_init_eye, __VA_ARGS__)
#define tn_init_dirac(...)                    TN_PLACED_IN(tn_init_dirac, __VA_ARGS__)
#define tn_init_xavier_uniform(...)           TN_PLACED_IN(tn_init_xavier_uniform, __VA_ARGS__)
#define tn_init_xavier_normal(...)            TN_PLACED_IN(tn_init_xavier_normal, __VA_ARGS__)
#define tn_init_kaiming_uniform(...)          TN_PLACED_IN(tn_init_kaiming_uniform, __VA_ARGS__)
#define tn_init_kaiming_normal(...)           TN_PLACED_IN(tn_init_kaiming_normal, __VA_ARGS__)
#define tn_init_orthogonal(...)               TN_PLACED_IN(tn_init_orthogonal, __VA_ARGS__)
#define tn_init_sparse(...)                   TN_PLACED_IN(tn_init_sparse, __VA_ARGS__)
#else
#define TN_BUILDS(call) call
#endif

TN_END_DECLS
#endif

#include <tenon/nn_layers.h>
#include <tenon/nn_utils.h>

#endif
