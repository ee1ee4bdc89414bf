/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors made row-major for kernels that read nothing else: a borrowed pointer where the tensor already is,
 * a copy in scratch memory where it is not; and the same for results.
 */
#ifndef TENON_CPU_NN_CONTIGUOUS_H
#define TENON_CPU_NN_CONTIGUOUS_H

#include "nn.h"

typedef struct tni_dense {
    const tn_call *call;
    const tensor *tensor; /* what it stands for; NULL when absent, and `data` is then NULL */
    void *data;           /* row-major */
    void *memory;         /* the copy, or NULL */
    int64_t bytes;
} tni_dense;

/* For reading. */
int32_t tni_dense_read(const tn_call *call, const tensor *t, tni_dense *out);
/* For writing: tni_dense_finish copies the result to the tensor when `written`. */
int32_t tni_dense_write(const tn_call *call, const tensor *t, tni_dense *out);
void tni_dense_finish(tni_dense *d, bool written);

/* Row-major except that channels, the second dimension, are innermost. */
static inline bool tensor_is_channels_last(const tensor *t)
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
void tni_copy(const tn_call *call, const tensor *from, const tensor *to);

#endif
