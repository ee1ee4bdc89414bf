/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of losses. */
#ifndef TNI_OPS_COMPOSITE_LOSS_H
#define TNI_OPS_COMPOSITE_LOSS_H

#include "ops/composite/compute_dtype.h"

/* The loss reduced by TN_REDUCTION_..., in the dtype of the result. */
tn_tensor *tni_give_loss(tn_scope *s, tn_tensor *loss, int64_t reduction, tn_dtype dtype);

#endif
