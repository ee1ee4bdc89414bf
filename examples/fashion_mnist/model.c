/* SPDX-License-Identifier: Apache-2.0 */
#include "demo.h"

void model_init(model *m, tn_scope *s, tn_context *ctx, tn_device device, tn_dtype dtype)
{
    *m = (model){.store = {.ctx = ctx, .device = device}, .dtype = dtype};
    nn_conv2d_init(&m->conv1, &m->store, s, "conv1", 1, 16, 3, 1);
    nn_batch_norm_init(&m->norm1, &m->store, s, "norm1", 16);
    nn_conv2d_init(&m->conv2, &m->store, s, "conv2", 16, 32, 3, 1);
    nn_batch_norm_init(&m->norm2, &m->store, s, "norm2", 32);
    nn_linear_init(&m->linear1, &m->store, s, "linear1", 1568, 128);
    nn_linear_init(&m->linear2, &m->store, s, "linear2", 128, CLASSES);
}

static tn_tensor *block(const model *m, const nn_conv2d *conv, const nn_batch_norm *norm, tn_scope *s,
                        tn_tensor *x, int32_t training)
{
    tn_tensor *h = tn_max_pool2d(s, nn_conv2d_forward(conv, s, x, m->dtype), TN_INTS(2, 2));
    return tn_relu(s, nn_batch_norm_forward(norm, s, h, training));
}

tn_tensor *model_forward(const model *m, tn_scope *s, tn_tensor *x, int32_t training)
{
    x = block(m, &m->conv1, &m->norm1, s, x, training);
    x = block(m, &m->conv2, &m->norm2, s, x, training);
    x = tn_relu(s, nn_linear_forward(&m->linear1, s, tn_flatten(s, x, .start_dim = 1), m->dtype));
    x = nn_linear_forward(&m->linear2, s, x, m->dtype);
    return tn_to(s, x, TN_FLOAT32);
}
