/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments and results for kernels that need contiguous data: the tensor's own memory if it is contiguous,
 * else a copy.
 */
#ifndef TENON_CPU_NN_CONTIGUOUS_H
#define TENON_CPU_NN_CONTIGUOUS_H

#include "support/cpu.h"

/* The contiguous elements of t, for reading; NULL for NULL. A copy lives until the end of the call. */
int32_t cpu_contiguous_read(const tn_call *call, const tn_tensor_desc *t, void **out);
/* The same for writing. After success, cpu_contiguous_finish copies the elements to t if they are not its own. */
int32_t cpu_contiguous_write(const tn_call *call, const tn_tensor_desc *t, void **out);
void cpu_contiguous_finish(const tn_call *call, const tn_tensor_desc *t, void *data);
/* For several tensors: those before `first_out` are read, the others written. */
int32_t cpu_contiguous_all(const tn_call *call, const tn_tensor_desc *const *tensors, int count,
                           int first_out, void **out);

/* Whether the channels, dimension 1, are innermost and the other dimensions row-major. */
static inline bool cpu_is_channels_last(const tn_tensor_desc *t)
{
    int64_t expected = t->sizes[1];
    if (t->sizes[1] != 1 && t->strides[1] != 1) return false;
    for (uint32_t i = t->rank; i-- > 0;) {
        if (i == 1) continue;
        if (t->sizes[i] != 1 && t->strides[i] != expected) return false;
        expected *= t->sizes[i];
    }
    return true;
}

/* Copies between tensors of one shape and element size, and any strides. */
void cpu_copy(const tn_call *call, const tn_tensor_desc *from, const tn_tensor_desc *to);

#endif
