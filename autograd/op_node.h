/* SPDX-License-Identifier: Apache-2.0 */
/* The node of a call of an operator: its arguments, what was saved, and the rule that differentiates it. */
#ifndef TNI_AUTOGRAD_OP_NODE_H
#define TNI_AUTOGRAD_OP_NODE_H

#include "autograd/rule.h"
#include "autograd/saved_tensor.h"
#include "dispatcher/frame.h"

typedef struct tni_op_node {
    tn_node node;
    const tni_op *op; /* the base form */
    const char *name;
    const tni_gradient_entry *rule;
    tni_saved *saved;
    uint32_t n_saved;
    uint32_t n_args;
    /*
     * The arguments. Non-tensors are copies; a tensor is {TENSOR, slot}, a list {TENSORS, count, first slot}.
     * Slots number the edges.
     */
    tn_value *args;
    tni_meta *slots;
} tni_op_node;

extern const tni_node_class tni_op_node_class;

/*
 * Makes the node of a call from f->args. `outs` are the results. The node of an in-place call is made before
 * the call: `self` stands for its result, and tni_op_node_save_results saves results afterwards.
 */
int32_t tni_op_node_create(tni_frame *f, const tni_gradient_entry *rule, tn_tensor *const *outs,
                           uint32_t n_outs, int32_t inplace, tni_op_node **out);
/* The operator whose gradient a rule computes. */
const tni_op *tni_grad_op(const tni_grad *g);
int32_t tni_op_node_save_results(tni_op_node *n, tn_tensor *const *outs, uint32_t n_outs);

#endif
