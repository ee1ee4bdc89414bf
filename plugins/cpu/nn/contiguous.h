/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors made row-major for kernels that read nothing else: a borrowed pointer where the tensor already is,
 * a copy in scratch memory where it is not; and the same for results.
 */
#ifndef TENON_CPU_NN_CONTIGUOUS_H
#define TENON_CPU_NN_CONTIGUOUS_H

#include "support/cpu.h"

typedef struct cpu_contiguous {
    const tn_call *call;
    const tn_tensor_desc *tensor; /* what it stands for; NULL when absent, and `data` is then NULL */
    void *data;                   /* row-major */
    void *memory;                 /* the copy, or NULL */
    int64_t bytes;
} cpu_contiguous;

/* For reading. */
int32_t cpu_contiguous_read(const tn_call *call, const tn_tensor_desc *t, cpu_contiguous *out);
/* For writing: cpu_dense_finish copies the result to the tensor when `written`. */
int32_t cpu_contiguous_write(const tn_call *call, const tn_tensor_desc *t, cpu_contiguous *out);
void cpu_contiguous_finish(cpu_contiguous *d, bool written);

/* Row-major except that channels, the second dimension, are innermost. */
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

/* Copies elements of equal size between tensors of equal sizes and any strides. */
void cpu_copy(const tn_call *call, const tn_tensor_desc *from, const tn_tensor_desc *to);

#endif
