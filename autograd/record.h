/* SPDX-License-Identifier: Apache-2.0 */
/* The recording layer and its helpers. */
#ifndef TNI_AUTOGRAD_RECORD_H
#define TNI_AUTOGRAD_RECORD_H

#include "autograd/op_node.h"

/* The layer that the dispatcher runs for calls in which a tensor takes part in autograd. */
int32_t tni_autograd_layer(tni_frame *f);
/* Runs the rest of a call without recording what it calls. */
int32_t tni_run_unrecorded(tni_frame *f);
/* Refuses an in-place call on a tensor that must not be written while recording. */
int32_t tni_check_inplace(const tn_tensor *self);
/*
 * Gives `self`, which an in-place call has written, its new history. Edge `slot` of the node leads to its old
 * one.
 */
int32_t tni_record_inplace(tn_tensor *self, tn_node *node, uint32_t slot);

/* ---- custom_operator.c ---- */
/* The entry of a program's or plugin's operator with a gradient, made at first use. *out is NULL on failure. */
int32_t tni_custom_gradient(tn_context *ctx, const tni_op *op, const tni_gradient_entry **out);
void tni_custom_finish(tn_context *ctx);
/* A gradient that has none itself: differentiating it fails. It is `grad`, borrowed from the scope, if no source of it wants a
 * gradient. */
tn_tensor *tni_mark_once(tn_scope *s, tn_tensor *grad, tn_tensors sources);
/* TN_E_AUTOGRAD for a complex gradient of a real argument: what the imaginary part was for is lost. `argument` is its name, or
 * NULL. */
int32_t tni_check_gradient_kind(const char *name, const char *argument, uint32_t i, const tn_tensor *grad,
                                tn_dtype dtype);

#endif
