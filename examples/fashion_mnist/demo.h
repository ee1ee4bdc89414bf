/* SPDX-License-Identifier: Apache-2.0 */
/* The demo's parts: options, data, model. */
#ifndef TENON_DEMO_H
#define TENON_DEMO_H

#include <tenon/data.h>
#include <tenon/nn.h>
#include <tenon/optim.h>
#include <tenon/progress.h>

#define CLASSES 10

typedef struct options {
    const char *device; /* NULL: the best */
    const char *data;   /* folder of the four files */
    const char *output; /* folder for the curve and the weights */
    const char *dtype_name;
    int64_t epochs, batch, train_images, threads; /* 0 images: all; 0 threads: all cores */
    int64_t seed;
    double lr, weight_decay;
    tn_dtype dtype;
} options;
/* 0, or the exit code after a message. */
int options_read(options *o, int argc, char **argv);

/* One part of the data, of at most `limit` samples (0: all): an image [1, 28, 28] uint8 and a label, int64. */
tn_dataset *dataset_open(tn_scope *s, const options *o, const char *part, int64_t limit);
/* Images as float32, (x / 255 - 0.2860) / 0.3530. */
tn_tensor *dataset_normalized(tn_scope *s, tn_tensor *images);

/* 3x3 convolution 1-16, max pool, batch norm, relu; the same 16-32; linear 1568-128, relu, linear 128-10. In training
 * mode; errors are in the module. */
tn_module *model_create(tn_context *ctx, tn_device device);
/* Logits [b, 10] in float32; products are computed in `dtype`. */
tn_tensor *model_forward(tn_module *net, tn_scope *s, tn_tensor *x, tn_dtype dtype);

#endif
