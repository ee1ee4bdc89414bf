/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of gradient rules. A rule reads the gradients of the outputs and what was saved, calls
 * operators on its scope, and sets the gradients of the arguments. The rule may be recorded itself, so
 * gradients of gradients need no code of their own. The table of operators names the rules: gradient "mul" is
 * grad_mul in autograd/rules/.
 */
#ifndef TNI_AUTOGRAD_RULE_H
#define TNI_AUTOGRAD_RULE_H

#include "autograd/graph.h"
#include <tenon/ops.h>

typedef struct tni_grad tni_grad;
typedef void tni_grad_fn(tn_scope *s, tni_grad *g);

enum {
    TNI_SAVE_ARG,
    TNI_SAVE_RESULT,
    TNI_SAVE_GEOMETRY /* of an argument: an alias without history, whose sizes and strides the rule reads */
};
typedef struct tni_save {
    uint8_t kind;
    uint8_t index;   /* of the argument or the output */
    int8_t if_needs; /* save only if that argument needs a gradient; -1: always */
} tni_save;

/*
 * Where the rule of a gradient that is one call takes the arguments of that call from: an argument or a
 * result of the recorded call, the incoming gradient, or what is known of argument 0.
 */
enum {
    TNI_SOURCE_ARG = 0,       /* + index */
    TNI_SOURCE_RESULT = 0x40, /* + index */
    TNI_SOURCE_GRAD = 0x80,
    TNI_SOURCE_SIZES, /* of argument 0 */
    TNI_SOURCE_DTYPE, /* of argument 0 */
    TNI_SOURCE_FALSE
};

typedef struct tni_gradient_entry {
    uint32_t op; /* number of the base form */
    tni_grad_fn *rule;
    const tni_save *saves;
    uint32_t save_count;
    uint32_t non_differentiable; /* bits of outputs without gradient */
    uint16_t call;               /* of grad_one_call: the operator, and where its arguments come from */
    uint8_t source_count;
    uint8_t zeroed; /* of grad_one_call: a tensor argument whose gradient is 0; 0: none */
    const uint8_t *sources;
} tni_gradient_entry;
extern const tni_gradient_entry tni_builtin_gradients[];
extern const uint32_t tni_builtin_gradient_count;

/* A tni_meta holds sizes, dtype and device of a tensor argument, saved or not. `item`: of a list, else 0. */

/* Gradient of output i; NULL where undefined. Rules are called only if at least one is defined. */
tn_tensor *tni_grad_out(const tni_grad *g, uint32_t i);
/* A tensor argument that the table says is saved; NULL if it was absent or not needed. */
tn_tensor *tni_grad_saved(const tni_grad *g, uint32_t arg);
tn_tensor *tni_grad_geometry(const tni_grad *g, uint32_t arg);
tn_tensor *tni_grad_saved_item(const tni_grad *g, uint32_t arg, uint32_t item);
tn_tensor *tni_grad_result(const tni_grad *g, uint32_t i);
/* A non-tensor argument: int, scalar, list, string. */
tn_value tni_grad_arg(const tni_grad *g, uint32_t arg);
tni_meta tni_grad_meta(const tni_grad *g, uint32_t arg, uint32_t item);
tni_meta tni_grad_result_meta(const tni_grad *g, uint32_t i);
const tni_gradient_entry *tni_grad_entry(const tni_grad *g);
/* Number of tensors in a list argument. */
uint32_t tni_grad_count(const tni_grad *g, uint32_t arg);
/* Whether the gradient of the argument (of a list: of any item, or of one item) is needed. */
int32_t tni_grad_needs(const tni_grad *g, uint32_t arg);
int32_t tni_grad_needs_item(const tni_grad *g, uint32_t arg, uint32_t item);
/*
 * Sets the gradient of an argument; NULL leaves it undefined. The engine sums it to the argument's sizes
 * (broadcast dimensions), takes the real part for real arguments and casts to the argument's dtype, so rules
 * need not.
 */
void tni_grad_set(tni_grad *g, uint32_t arg, tn_tensor *grad);
void tni_grad_set_item(tni_grad *g, uint32_t arg, uint32_t item, tn_tensor *grad);

#endif
