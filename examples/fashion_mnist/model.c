/* SPDX-License-Identifier: Apache-2.0 */
#include "demo.h"

static void block_create(tn_module *net, const char *const names[4], int64_t in, int64_t out)
{
    tn_conv2d_create(net, names[0], in, out, TN_INTS(3), .padding = TN_INTS(1));
    tn_max_pool2d_create(net, names[1], TN_INTS(2));
    tn_batch_norm2d_create(net, names[2], out);
    tn_relu_create(net, names[3]);
}

tn_module *model_create(tn_context *ctx, tn_device device)
{
    tn_module *net = tn_module_create(ctx, "fashion", NULL);
    tn_module_to(net, device, 0);
    block_create(net, (const char *const[]){"conv1", "pool1", "norm1", "relu1"}, 1, 16);
    block_create(net, (const char *const[]){"conv2", "pool2", "norm2", "relu2"}, 16, 32);
    tn_flatten_create(net, "flatten");
    tn_linear_create(net, "linear1", 1568, 128);
    tn_relu_create(net, "relu3");
    tn_linear_create(net, "linear2", 128, CLASSES);
    return net;
}

tn_tensor *model_forward(tn_module *net, tn_scope *s, tn_tensor *x, tn_dtype dtype)
{
    tn_scope_options low = {.size = sizeof low, .autocast = TN_SCOPE_AUTOCAST_ON, .autocast_dtype = dtype};
    if (dtype == TN_FLOAT32) return tn_module_forward(s, net, x);
    tn_scope *child = tn_scope_open_child(s, &low);
    tn_tensor *y = tn_to(child, tn_module_forward(child, net, x), TN_FLOAT32);
    if (y) y = tn_scope_return(child, y);
    return tn_scope_close(child) ? NULL : y;
}
