/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resampling of each spatial dimension by a table of taps: output o is the sum of inputs at[o * count + k]
 * with weights weight[o * count + k]. Padding by reflection or replication and nearest neighbours have one
 * tap of weight 1. The host makes the tables: they are small, and the neighbour depends on the last bit of a
 * position. Elements never leave the device.
 */
#ifndef TNI_OPS_COMPOSITE_TAP_TABLE_H
#define TNI_OPS_COMPOSITE_TAP_TABLE_H

#include "ops/composite/pointwise_lowering.h"

typedef struct tni_taps {
    int64_t in, out, count; /* sizes of the dimension, taps for each output */
    int64_t *at;
    double *weight; /* NULL: all 1 */
    int32_t skips;  /* taps of weight 0 are not read, so NaN there does not spread */
} tni_taps;

/* Allocates a table in the scope's memory; -1 (and a failed scope) without memory. */
int32_t tni_taps_make(tn_scope *s, int64_t in, int64_t out, int64_t count, int32_t weighted, tni_taps *t);
/* The inputs of each output: dimension `dim` becomes two, outputs and taps. */
tn_tensor *tni_taps_inputs(tn_scope *s, tn_tensor *t, int64_t dim, const tni_taps *p);
/*
 * Resamples dimension `dim` of t, which has the size of the inputs. Weights are rounded to dtype `rounded`
 * (0: t's) first.
 */
tn_tensor *tni_taps_gather(tn_scope *s, tn_tensor *t, int64_t dim, const tni_taps *p, tn_dtype rounded);
/* The adjoint: adds the gradient of each output to its inputs. */
tn_tensor *tni_taps_spread(tn_scope *s, tn_tensor *t, int64_t dim, const tni_taps *p, tn_dtype rounded);
/* uint8: 16-bit weights and rounding to bytes along each dimension, as image libraries do. */
tn_tensor *tni_taps_gather_bytes(tn_scope *s, tn_tensor *t, int64_t dim, const tni_taps *p);

/* Sets output i, in a dtype and in the memory format of `like`. */
void tni_give_resampled(tn_scope *s, tn_value *outs, uint32_t i, tn_tensor *t, const tn_tensor *like,
                        tn_dtype dtype);

#endif
