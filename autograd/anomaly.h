/* SPDX-License-Identifier: Apache-2.0 */
/* TENON_DEBUG=anomaly: see anomaly.c. Without it a context has no struct tni_anomaly. */
#ifndef TNI_AUTOGRAD_ANOMALY_H
#define TNI_AUTOGRAD_ANOMALY_H

#include "autograd/graph.h"

int32_t tni_anomaly_init(tn_context *ctx);
void tni_anomaly_finish(tn_context *ctx);
/* A call of the program has made a node (NULL: none), and its place follows. */
void tni_anomaly_note(tn_node *node);
/* The call that has just run on this thread was made at `place`: its nodes get it. */
void tni_anomaly_placed(tn_context *ctx, const char *place);
/* After the run of a node: an error if one of the gradients that it gives, one for each edge, holds a NaN. */
int32_t tni_anomaly_check(tn_scope *s, const tn_node *node, tn_tensor *const *grads);
/* Adds to the scope's error which node failed, and the place of the call that made it. */
void tni_anomaly_explain(tn_scope *s, tn_node *node);

#endif
