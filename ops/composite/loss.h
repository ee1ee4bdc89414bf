/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of losses. */
#ifndef TNI_OPS_COMPOSITE_LOSS_H
#define TNI_OPS_COMPOSITE_LOSS_H

#include "ops/composite/compute_dtype.h"

/* The loss reduced (0 none, 1 mean, 2 sum), in the dtype of the result. */
tn_tensor *tni_give_loss(tn_scope *s, tn_tensor *loss, int64_t reduction, tn_dtype dtype);

#endif
