/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include "demo.h"

static tn_tensor *read_part(tn_scope *s, const options *o, const char *part, const char *kind)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-%s-ubyte.gz", o->data, part, kind);
    return tn_idx_read(s, path);
}

tn_dataset *dataset_open(tn_scope *s, const options *o, const char *part, int64_t limit)
{
    tn_tensor *images = read_part(s, o, part, "images-idx3"), *labels = read_part(s, o, part, "labels-idx1");
    if (limit && limit < tn_tensor_size(images, 0)) {
        images = tn_narrow(s, images, 0, 0, limit);
        labels = tn_narrow(s, labels, 0, 0, limit);
    }
    return tn_tensor_dataset_create(s, TN_TENSORS(tn_unsqueeze(s, images, 1), tn_to(s, labels, TN_INT64)));
}

tn_tensor *dataset_normalized(tn_scope *s, tn_tensor *images)
{
    tn_tensor *x = tn_to(s, images, TN_FLOAT32);
    return tn_sub_scalar_(s, tn_mul_scalar_(s, x, 1.0 / (255.0 * 0.3530)), 0.2860 / 0.3530);
}
