/* SPDX-License-Identifier: Apache-2.0 */
/* Operators and kernels that plugins, operator libraries and programs define. */
#ifndef TNI_DISPATCHER_DEFINE_H
#define TNI_DISPATCHER_DEFINE_H

#include "dispatcher/registry.h"

/* Adds kernel rows for a device type. `row_bytes` is the size of a row in the plugin's header. Rows of operators
 * that are not defined yet are kept until they are. */
int32_t tni_kernels_register(tn_context *ctx, const char *device_type, const char *plugin, void *self,
                             const tn_kernel_row *rows, uint32_t count, uint32_t row_bytes);
/* Refuses rows that this version does not understand, by their schema. For rows that a program adds; those of plugins
 * are passed over, since a plugin has rows for several versions. */
int32_t tni_kernels_check(const char *plugin, const tn_kernel_row *rows, uint32_t count, uint32_t row_bytes);
/* Disables the rows that were registered with this self pointer. */
void tni_kernels_remove(tn_context *ctx, const void *self);
/* Disables the rows that were registered from this array on. */
int32_t tni_kernels_unregister(tn_context *ctx, const char *device_type, const tn_kernel_row *rows);
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
