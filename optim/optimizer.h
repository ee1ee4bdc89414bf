/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of optimisers: groups, parameters and their states. */
#ifndef OPTIM_OPTIMIZER_H
#define OPTIM_OPTIMIZER_H

#include <tenon/optim.h>
#include "fault.h"
#include "handle.h"
#include "module_life.h"

#define OPTIM_MAX_STATES 4

typedef struct optim_parameter {
    char *name;
    tn_tensor *tensor; /* one reference */
    uint32_t group;
    int32_t decays;
    int64_t step;
    tn_tensor *state[OPTIM_MAX_STATES]; /* one reference each; NULL before the first step */
    double numbers[2];                  /* state that is not a tensor: asgd eta and mu, nadam's product */
} optim_parameter;

typedef struct optim_kind {
    const char *name; /* "AdamW" */
    const char *states[OPTIM_MAX_STATES];
    const char *numbers[2];
    /* One step of one parameter; p and g are real, g has the sign of a descent. */
    void (*step)(tn_scope *s, optim_parameter *at, tn_tensor *p, tn_tensor *g, const tn_optimizer_options *o,
                 double decay);
    /* One call for many; NULL: there is none. */
    void (*fused)(tn_scope *s, optim_parameter **at, uint32_t count, tn_tensors p, tn_tensors g,
                  const tn_optimizer_options *o, double decay);
    uint32_t fused_op; /* what `fused` calls; one of its family where it calls several */
} optim_kind;

struct tn_optimizer {
    tn_context *ctx;
    const tn_module *module; /* whose tensors the first `of_module` parameters are; NULL: a list's */
    module_life *life;       /* of the module; NULL: a list's */
    uint64_t generation;     /* of the module when its tensors were taken */
    uint32_t of_module;
    uint32_t kind;
    uint32_t group_count, count;
    tn_optimizer_options *groups;
    optim_parameter *parameters;
    struct optim_lbfgs *lbfgs;
    handle_mark mark;
};

extern const optim_kind optim_kinds[];
/* Fails the scope with the kind's name in front of the text, and returns the status. */
int32_t optim_fail(tn_scope *s, int32_t status, const tn_optimizer *o, const char *text);
/* TN_OK; TN_E_DEAD_HANDLE, and the scope has failed, if the optimiser was destroyed. */
int32_t optim_refuse_dead(tn_scope *s, const tn_optimizer *o);
/* Fails the scope with "WHAT is NULL" and the thread's last error, which may say why it was not made. */
int32_t optim_fail_null(tn_scope *s, const char *what);
/* Reads options of the program, of any size, for a kind that it may have made up. What is wrong with them, or NULL: then *out has
 * all members, and nothing of the program's. The text may be in `text`. */
const char *optim_options_read(uint32_t kind, const tn_optimizer_options *given, tn_optimizer_options *out,
                               char text[FAULT_BYTES]);
/* What is wrong with the options, among others one that the kind does not have; NULL: nothing. The text may be in `text`. */
const char *optim_options_fault(uint32_t kind, const tn_optimizer_options *o, char text[FAULT_BYTES]);
/* State i, made as zeros like the parameter (float32 for half types) when it is first asked for. */
tn_tensor *optim_state(tn_scope *s, optim_parameter *at, uint32_t i, tn_tensor *like);
/* The tensor of that name (of malloc), or of the name that it has while it is pruned or parametrized, or no longer so: then *name is
 * exchanged. NULL if there is none. */
tn_tensor *optim_find(const tn_module *m, char **name);
/* Takes the tensors that the module now has under the names of its parameters, and moves the states to them. */
int32_t optim_follow_module(tn_scope *s, tn_optimizer *o);
/* The state on the device of `like` and in its dtype. NULL for NULL. */
tn_tensor *optim_state_like(tn_scope *s, tn_tensor *state, tn_tensor *like);
/* A complex tensor as pairs of real numbers. */
tn_tensor *optim_real(tn_scope *s, tn_tensor *t);
/* A child of the program's scope, for changes of parameters. */
static inline tn_scope *optim_without_recording(tn_scope *s)
{
    tn_scope_options options = {
        .size = sizeof options, .grad_mode = TN_GRAD_OFF, .autocast = TN_SCOPE_AUTOCAST_OFF};
    return tn_scope_open_child(s, &options);
}
tn_tensor *optim_lbfgs_step(tn_scope *s, tn_optimizer *o, tn_closure closure, void *user);
void optim_lbfgs_destroy(struct optim_lbfgs *l);

#endif
