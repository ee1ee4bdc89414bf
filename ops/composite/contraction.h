/* SPDX-License-Identifier: Apache-2.0 */
/* A contraction, shared by products of tensors. */
#ifndef TNI_OPS_COMPOSITE_CONTRACTION_H
#define TNI_OPS_COMPOSITE_CONTRACTION_H

#include "ops/composite/compute_dtype.h"

/*
 * The sum over `dims` (bits) of a * b, broadcast, as one batched matrix product; both have the same rank.
 * Summed dimensions are kept with size 1 if `keep`, else removed. The arguments must not be NULL; NULL on a
 * failed scope.
 */
tn_tensor *tni_product_summed(tn_scope *s, tn_tensor *a, tn_tensor *b, uint64_t dims, int32_t keep);

#endif
