/* SPDX-License-Identifier: Apache-2.0 */
/* Batches from samples. */
#ifndef DATA_COLLATE_H
#define DATA_COLLATE_H

#include <tenon/data.h>

/* A batch to be made, and its tensors. */
typedef struct batch_job {
    int64_t epoch, batch; /* which one it is; epoch -1: unknown, and errors do not say it */
    int64_t count;        /* samples */
    int64_t *indices;     /* room for those of a whole batch */
    uint64_t *seeds;
    tn_tensor *out[TN_SAMPLE_MAX]; /* in the scope of the call */
} batch_job;

/* Reads the samples of the job and stacks them, in memory that `pins` (0: none) has pinned. Returns the
 * status of the scope, whose error names the sample. */
int32_t collate_batch(tn_scope *s, const tn_loader_options *o, tn_device pins, batch_job *job);

#endif
