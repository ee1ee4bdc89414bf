/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes, strides and offset of a view. */
#ifndef TNI_OPS_INFER_VIEW_H
#define TNI_OPS_INFER_VIEW_H

#include "ops/infer/infer.h"

typedef struct tni_view_shape {
    uint32_t rank;
    int64_t offset; /* in elements from the start of the storage */
    int64_t sizes[TN_MAX_RANK + 1];
    int64_t strides[TN_MAX_RANK + 1];
} tni_view_shape;

/* The geometry of the tensor itself. */
void tni_view_of(const tn_tensor *t, tni_view_shape *v);
/* Creates the view, whose elements must all be elements of self, and sets it as the output. */
int32_t tni_give_view(tni_frame *f, tn_tensor *self, const tni_view_shape *v);

#endif
