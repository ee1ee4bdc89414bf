/* SPDX-License-Identifier: Apache-2.0 */
/* What the bodies of products share. */
#ifndef TNI_OPS_COMPOSITE_CONTRACTION_H
#define TNI_OPS_COMPOSITE_CONTRACTION_H

#include "ops/composite/compute_dtype.h"

/*
 * The sum over `dims` (bits) of a * b, broadcast, as one batched matrix product; both have the same rank. The
 * summed dimensions are kept with size 1 if `keep`, else gone. Takes what sizes say from the arguments, so
 * they must be there; NULL when the scope has failed.
 */
tn_tensor *tni_product_summed(tn_scope *s, tn_tensor *a, tn_tensor *b, uint64_t dims, int32_t keep);

#endif
