/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that plugins, operator libraries and programs define. */
#ifndef TNI_DISPATCHER_DEFINE_H
#define TNI_DISPATCHER_DEFINE_H

#include "dispatcher/registry.h"

int32_t tni_operator_define(tn_context *ctx, const tn_operator_def *def, uint32_t *out);
/* Adds an operator with the kernels of `base`. Takes the schema, also on failure. */
int32_t tni_operator_add(tn_context *ctx, const tni_op_entry *entry, tni_op *base, tni_schema *schema,
                         tni_op **out);
/* The operator that `name` would have by ATen's rule for forms, or NULL; see derived_form.c. */
tni_op *tni_derive_form(tni_registry *r, const char *name);
int32_t tni_namespace_remove(tn_context *ctx, const char *name);

/* "; did you mean aten::add.Tensor?" for a name that no operator has, or "" if none is similar. Accepts names of
 * the C calls too ("tn_to_dtype"). Returns `out`. */
const char *tni_suggest(const tni_registry *r, const char *name, char *out, uint64_t bytes);

/* Free the definitions when the registry ends. */
void tni_define_free(tn_context *ctx, tni_op *op);
void tni_define_finish(tni_registry *r);

#endif
