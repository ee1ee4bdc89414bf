/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing the elements of any tensor from the host: the slow, always right way. */
#ifndef TNI_CORE_TRANSFER_H
#define TNI_CORE_TRANSFER_H

#include "core/tensor.h"

/*
 * A host copy of a tensor's elements, row-major, in its dtype, lazy bits resolved; waits for the tensor's
 * stream. `bytes` is numel * element size.
 */
int32_t tni_tensor_read(const tn_tensor *t, void *out, uint64_t bytes);
/* Fills a row-major tensor from host memory. Done when it returns. */
int32_t tni_tensor_write(tn_tensor *t, const void *from, uint64_t bytes);

#endif
