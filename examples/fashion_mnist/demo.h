/* SPDX-License-Identifier: Apache-2.0 */
/* The demo's parts: options, data, model. */
#ifndef TENON_DEMO_H
#define TENON_DEMO_H

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

/* One part of the data on the device: images [n, 1, 28, 28] uint8, labels [n] int64. */
typedef struct dataset {
    tn_tensor *images, *labels;
    int64_t count;
} dataset;
int dataset_open(dataset *d, tn_scope *s, const options *o, const char *part, tn_device device,
                 int64_t limit);
void dataset_close(dataset *d);
/* Images of a batch as float32, (x / 255 - 0.2860) / 0.3530. `index` int64 [b]. */
tn_tensor *dataset_images(const dataset *d, tn_scope *s, tn_tensor *index);

/* 3x3 convolution 1-16, max pool, batch norm, relu; the same 16-32; linear 1568-128, relu, linear 128-10. In training
 * mode; errors are in the module. */
tn_module *model_create(tn_context *ctx, tn_device device);
/* Logits [b, 10] in float32; products are computed in `dtype`. */
tn_tensor *model_forward(tn_module *net, tn_scope *s, tn_tensor *x, tn_dtype dtype);

#endif
