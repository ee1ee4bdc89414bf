/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of data sets. */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include <pthread.h>
#include <tenon/data.h>
#include "handle.h"

struct tn_dataset {
    tn_context *ctx;
    const tn_dataset_class *class;
    void *user;
    int64_t count;
    handle_mark mark;
    pthread_mutex_t lock; /* of get and get_batch, with TN_DATASET_ONE_THREAD */
};

/* tn_dataset_create for a class whose count is known. */
tn_dataset *dataset_of_count(tn_context *ctx, const tn_dataset_class *class_, void *user, int64_t count);
/* Calls get_batch, which the class must have. */
int32_t dataset_get_batch(tn_scope *s, tn_dataset *d, tn_ints indices, const uint64_t *seeds,
                          tn_tensor **out);

#endif
