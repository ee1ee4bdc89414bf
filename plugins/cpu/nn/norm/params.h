/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of normalisations (weights, biases, means) may have another floating dtype than the data: they
 * are read into arrays of accumulators and written from them. For files compiled per dtype.
 */
#ifndef TENON_CPU_NN_PARAMS_H
#define TENON_CPU_NN_PARAMS_H

#include "nn/types.h"

/* A NULL tensor gives `otherwise`. Vectors may have any stride, others are row-major. */
static inline void params_read(const tn_tensor_desc *t, int64_t count, double otherwise, void *to)
{
    acc *out = to;
    int64_t step = t && t->rank == 1 ? t->strides[0] : 1;
    for (int64_t i = 0; i < count; i++) {
        if (!t)
            out[i] = (acc)otherwise;
        else if (t->dtype == TN_FLOAT64)
            out[i] = (acc)((const double *)t->host)[i * step];
        else if (t->dtype == TN_FLOAT32)
            out[i] = (acc)((const float *)t->host)[i * step];
        else if (t->dtype == TN_BFLOAT16)
            out[i] = (acc)f32_from_bf16(((const uint16_t *)t->host)[i * step]);
        else
            out[i] = (acc)f32_from_f16(((const uint16_t *)t->host)[i * step]);
    }
}

static inline void params_write(const void *from, int64_t count, const tn_tensor_desc *t)
{
    const acc *in = from;
    for (int64_t i = 0; i < count; i++) {
        if (t->dtype == TN_FLOAT64)
            ((double *)t->host)[i] = (double)in[i];
        else if (t->dtype == TN_FLOAT32)
            ((float *)t->host)[i] = (float)in[i];
        else if (t->dtype == TN_BFLOAT16)
            ((uint16_t *)t->host)[i] = bf16_from_f32((float)in[i]);
        else
            ((uint16_t *)t->host)[i] = f16_from_f32((float)in[i]);
    }
}

#endif
