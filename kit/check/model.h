/* SPDX-License-Identifier: Apache-2.0 */
/* A function of several operators on both devices: its result and the gradients of its leaves are compared. */
#ifndef TENON_KIT_CHECK_MODEL_H
#define TENON_KIT_CHECK_MODEL_H

#include "call.h"

#define MODEL_MAX_INPUTS 8

/* Returns the one result; inputs are of one device. */
typedef tn_tensor *(*model_fn)(tn_scope *s, tn_tensor *const *in, const void *data);

typedef struct model_plan {
    const char *name;
    model_fn function;
    const void *data;
    call_tensor inputs[MODEL_MAX_INPUTS];
    uint32_t n_inputs;
    uint32_t leaves; /* bits: the inputs that require gradients */
    uint64_t seed;
    check_tolerance tolerance; /* rtol -1: that of each result's dtype */
} model_plan;

/* Ends as absent when an operator ran on the CPU, forward or backward. */
void model_compare(check_target *t, const model_plan *p, check_result *out);

#endif
