/* SPDX-License-Identifier: Apache-2.0 */
/* What bodies over batches of matrices share. */
#ifndef TNI_OPS_COMPOSITE_MATRIX_BATCH_H
#define TNI_OPS_COMPOSITE_MATRIX_BATCH_H

#include <math.h>
#include "ops/composite/compute_dtype.h"

/* The conjugate transpose of the last two dimensions. */
tn_tensor *tni_adjoint(tn_scope *s, tn_tensor *m);
/* Unit matrices of t's sizes, which are square; a view without memory of its own. */
tn_tensor *tni_units_like(tn_scope *s, const tn_tensor *t);
/* Refuses what is no matrix, no square one where that is asked for, or of integers. */
int32_t tni_check_matrices(tn_scope *s, const tn_tensor *t, const char *operator, int32_t square);

#endif
