/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of normalisations (weights, biases, means) may have another float dtype than the data. They are
 * read into arrays of T and written from them.
 */
#ifndef TENON_CPU_NN_PARAMS_H
#define TENON_CPU_NN_PARAMS_H

#include "kernels/vocabulary.h"

/* A NULL tensor gives `otherwise`. Vectors may have any stride, others are row-major. */
static inline void params_read(const tn_tensor_desc *t, int64_t count, double otherwise, void *to)
{
    T *out = to;
    int64_t step = t && t->rank == 1 ? t->strides[0] : 1;
    for (int64_t i = 0; i < count; i++) {
        if (!t)
            out[i] = (T)otherwise;
        else if (t->dtype == TN_FLOAT64)
            out[i] = (T)((const double *)t->host)[i * step];
        else if (t->dtype == TN_FLOAT32)
            out[i] = (T)((const float *)t->host)[i * step];
        else if (t->dtype == TN_BFLOAT16)
            out[i] = (T)float_of_bfloat(((const bfloat_t *)t->host)[i * step]);
        else
            out[i] = (T)float_of_half(((const half_t *)t->host)[i * step]);
    }
}

static inline void params_write(const void *from, int64_t count, const tn_tensor_desc *t)
{
    const T *in = from;
    for (int64_t i = 0; i < count; i++) {
        if (t->dtype == TN_FLOAT64)
            ((double *)t->host)[i] = (double)in[i];
        else if (t->dtype == TN_FLOAT32)
            ((float *)t->host)[i] = (float)in[i];
        else if (t->dtype == TN_BFLOAT16)
            ((bfloat_t *)t->host)[i] = bfloat_of_float((float)in[i]);
        else
            ((half_t *)t->host)[i] = half_of_float((float)in[i]);
    }
}

#endif
