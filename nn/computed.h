/* SPDX-License-Identifier: Apache-2.0 */
/* What parametrisations and pruning share. */
#ifndef NN_COMPUTED_H
#define NN_COMPUTED_H

#include "module.h"

#include <stdio.h>

#define NN_NAME_BYTES 512

nn_computed *nn_computed_find(const tn_module *m, const char *name);
/* Why a call cannot compute this parameter: it is computed already, or not there; NULL if it can. */
const char *nn_why_not_computed(const tn_module *m, const char *name, int32_t *out_status);
/* The parameter, which is neither parametrised nor pruned yet; NULL, and the tree has failed. */
tn_tensor *nn_parameter_to_compute(tn_module *m, const char *call, const char *name);
/* Empties the slot; from now on each call fills it. `how` NULL: of pruning. */
int32_t nn_computed_add(tn_module *m, const char *name, tn_module *holder, const tn_parametrization *how);
/* Whether a parametrisation computes from the value of one before it, and not from an original. */
static inline int32_t nn_is_chained(const tn_module *number)
{
    return number != number->parent->children[0];
}
/* The present value becomes the parameter, or the one original as it is. */
int32_t nn_computed_remove(tn_module *m, nn_computed *c, int32_t keeps_value);
/* "weight_orig", "weight_mask". */
static inline const char *nn_pruned_name(const char *name, const char *end, char text[NN_NAME_BYTES])
{
    snprintf(text, NN_NAME_BYTES, "%s%s", name, end);
    return text;
}

#endif
