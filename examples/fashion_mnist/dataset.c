/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <tenon/data.h>
#include "demo.h"

static tn_tensor *read_part(tn_scope *s, const options *o, const char *part, const char *kind)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-%s-ubyte.gz", o->data, part, kind);
    return tn_idx_read(s, path);
}

int dataset_open(dataset *d, tn_scope *s, const options *o, const char *part, tn_device device, int64_t limit)
{
    tn_tensor *images = read_part(s, o, part, "images-idx3"), *labels = read_part(s, o, part, "labels-idx1");
    if (!images || !labels) return tn_scope_failed(s);
    d->count = tn_tensor_size(images, 0);
    if (d->count != tn_tensor_size(labels, 0))
        return tn_scope_fail(s, TN_E_CORRUPT, "the numbers of images and labels differ");
    if (limit && limit < d->count) d->count = limit;
    images = tn_unsqueeze(s, tn_narrow(s, images, 0, 0, d->count), 1);
    labels = tn_to(s, tn_narrow(s, labels, 0, 0, d->count), TN_INT64);
    d->images = tn_retain(tn__to_copy(s, images, .device = device));
    d->labels = tn_retain(tn__to_copy(s, labels, .device = device));
    return tn_scope_failed(s);
}

void dataset_close(dataset *d)
{
    tn_release(d->images);
    tn_release(d->labels);
}

tn_tensor *dataset_images(const dataset *d, tn_scope *s, tn_tensor *index)
{
    tn_tensor *x = tn_to(s, tn_index_select(s, d->images, 0, index), TN_FLOAT32);
    return tn_sub_scalar_(s, tn_mul_scalar_(s, x, 1.0 / (255.0 * 0.3530)), 0.2860 / 0.3530);
}
