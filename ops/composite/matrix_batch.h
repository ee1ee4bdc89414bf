/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of composites over batches of matrices. */
#ifndef TNI_OPS_COMPOSITE_MATRIX_BATCH_H
#define TNI_OPS_COMPOSITE_MATRIX_BATCH_H

#include <math.h>
#include "ops/composite/compute_dtype.h"

/* The conjugate transpose of the last two dimensions. */
tn_tensor *tni_adjoint(tn_scope *s, tn_tensor *m);
/* Identity matrices with the sizes of t, which is square; a view without memory of its own. */
tn_tensor *tni_units_like(tn_scope *s, const tn_tensor *t);
/* Refuses tensors of rank below 2, non-square matrices if `square`, and integer dtypes. */
int32_t tni_check_matrices(tn_scope *s, const tn_tensor *t, const char *operator, int32_t square);

#endif
