/* SPDX-License-Identifier: Apache-2.0 */
/* The order of samples in an epoch. */
#ifndef DATA_SAMPLER_H
#define DATA_SAMPLER_H

#include <tenon/data.h>

/* Samples of an epoch that a loader of these options takes. */
int64_t sampler_count(const tn_loader_options *o);
/* Their indices in `epoch` into out[0..sampler_count - 1]. Returns the status of the scope. */
int32_t sampler_order(tn_scope *s, const tn_loader_options *o, int64_t epoch, int64_t *out);
/* The seed of place `i` of an epoch, for random changes of a sample. */
uint64_t sampler_seed(uint64_t seed, int64_t epoch, int64_t i);

#endif
