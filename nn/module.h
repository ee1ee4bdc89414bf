/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of modules: the tree, its tensors and hooks. Sizes of all lists are counted in items. */
#ifndef NN_MODULE_H
#define NN_MODULE_H

#include <stdatomic.h>
#include <tenon/nn.h>
#include "handle.h"
#include "module_life.h"

#define NN_PATH_BYTES    512 /* of a path of names */
#define NN_SIMILAR_BYTES 160 /* of nn_similar_tensor */

typedef struct nn_slot {
    char *name;
    tn_tensor *tensor; /* one reference; NULL: absent */
    int32_t is_parameter;
    int32_t is_persistent;
} nn_slot;

typedef struct nn_hook {
    uint64_t handle;
    tn_module_hook hook;
} nn_hook;

/* A slot that is empty between calls: a call computes its tensor from others. */
typedef struct nn_computed {
    char *name; /* of the slot */
    tn_module
        *holder; /* of the originals: "parametrizations.NAME"; NULL: NAME_orig times NAME_mask, of pruning */
    const tn_parametrization **how; /* one for each child of the holder, in order */
    uint32_t count;
    uint32_t calls; /* that run now with the computed tensor: one, or more where forward calls itself */
} nn_computed;

/* What the whole tree shares; it belongs to the root. */
typedef struct nn_tree {
    tn_context *ctx;
    tn_device device; /* of new tensors; 0: the context's default */
    tn_dtype dtype;   /* of new parameters; 0: the context's default */
    int32_t status;
    char *error;         /* NULL: the status' own text */
    char *report;        /* of the last load; NULL: "" */
    uint64_t generation; /* tensors were exchanged so often */
    uint64_t handles;
    handle_mark mark;
    module_life *life;
    tn_module *
        first_added; /* by the last tn_module_add, for tn_module_undo_add: the module, or the outermost one on the way to it */
} nn_tree;

/* The life of a new tree, NULL when out of memory, and its end. */
module_life *nn_life_begin(const char *name);
void nn_life_end(module_life *life);

struct tn_module {
    const tn_module_class *class;
    nn_tree *tree;
    tn_module *parent;
    char *name;
    void *state;
    tn_module **children;
    nn_slot *slots;
    nn_hook *hooks;
    nn_computed *computed;
    uint32_t child_count, slot_count, hook_count, computed_count;
    int32_t is_training;
    int32_t is_lazy;      /* a layer whose tensors the first call makes */
    int32_t is_averaging; /* a batch norm whose statistics are means over batches, whatever its momentum is */
    tn_communicator *communicator; /* of a batch norm that looks at all ranks; borrowed */
};

/* The array with room for one more item, or NULL when out of memory (the old one stays). Grows by doubling. */
void *nn_grown(void *items, uint32_t count, uint64_t item_bytes);
nn_slot *nn_slot_find(const tn_module *m, const char *name);
/* The module that would have the tensor of a path, and the tensor's own name into *name. NULL: there is no such module. */
tn_module *nn_owner_of(const tn_module *m, const char **name);
/* A child of the program's scope, for changes of parameters. */
static inline tn_scope *nn_without_recording(tn_scope *s)
{
    tn_scope_options options = {
        .size = sizeof options, .grad_mode = TN_GRAD_OFF, .autocast = TN_SCOPE_AUTOCAST_OFF};
    return tn_scope_open_child(s, &options);
}
/* Fills the slots of m that are computed, but for those that have the tensor of a functional call. nn_computed_end empties them again. */
int32_t nn_computed_begin(tn_scope *s, tn_module *m);
void nn_computed_end(tn_module *m);
/* Makes the tensors of a lazy layer for this input. Returns the status of the scope. */
int32_t nn_materialize(tn_scope *s, tn_module *m, tn_tensors in);
void nn_remove_slot(tn_module *m, const char *name);
/* Destroys a child and all below it. */
void nn_remove_child(tn_module *m, tn_module *child);
/* Sets the error of a call that was given no module, and returns its status. */
int32_t nn_is_null(const char *call);
/* A call on a tree that has failed: says so, with the first error. */
int32_t nn_failed_before(tn_scope *s, const tn_module *m);
/* Runs the children one after another. */
tn_tensor *nn_sequential_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
/* A scope of the tree's context with gradients off, and the tree's device and dtype as defaults. */
tn_scope *nn_scope(const tn_module *m);
/* It could not be opened: the thread's error becomes the tree's. Returns the status. */
int32_t nn_no_scope(tn_module *m);
/* Closes it; an error of the scope becomes the tree's. */
int32_t nn_scope_close(tn_module *m, tn_scope *s);
/* The same, with what the function was doing in front of the text: "linear 'h.0.fc'". */
int32_t nn_fail(tn_module *m, int32_t status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Text that grows in a scope's memory. */
typedef struct nn_text {
    tn_scope *scope;
    char *text; /* never NULL after nn_print */
    uint64_t bytes, room;
} nn_text;
void nn_print(nn_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "h.0.fc" into `path`, cut to `bytes`; returns path. */
const char *nn_path(const tn_module *m, char *path, uint64_t bytes);
/* The same, but the root's own name for the root: what errors say. */
const char *nn_label(const tn_module *m, char *path, uint64_t bytes);
/* "; did you mean 'fc.weight'?" of the tensors below m, or "", into `text`; returns text. */
const char *nn_similar_tensor(const tn_module *m, const char *name, char text[NN_SIMILAR_BYTES]);
/* "[2, 3]" into `text`, cut to `bytes`; returns text. */
const char *nn_sizes(const tn_tensor *t, char *text, uint64_t bytes);
/* Fails the scope; returns its status. */
int32_t nn_scope_fail(tn_scope *s, int32_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
