/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "nn.h"

tn_tensor *nn_store_add(nn_store *store, tn_scope *s, const char *layer, const char *name, tn_tensor *t,
                        int32_t trained)
{
    uint32_t i = store->count;
    if (!t) return NULL;
    if (i == NN_MAX_TENSORS) {
        tn_scope_fail(s, TN_E_STATE, "nn: the store is full");
        return NULL;
    }
    t = tn_detach(s, t);
    if (!t || (trained && tn_set_requires_grad(t, 1))) return NULL;
    snprintf(store->names[i], sizeof store->names[i], "%s.%s", layer, name);
    store->trained[i] = trained;
    store->tensors[i] = tn_retain(t);
    store->count++;
    return t;
}

void nn_store_finish(nn_store *store)
{
    for (uint32_t i = 0; i < store->count; i++) tn_release(store->tensors[i]);
    store->count = 0;
}

void nn_zero_grad(nn_store *store)
{
    for (uint32_t i = 0; i < store->count; i++) {
        if (store->trained[i]) tn_set_grad(store->tensors[i], NULL);
    }
}

int32_t nn_store_save(const nn_store *store, tn_scope *s, const char *path)
{
    tn_named_tensor list[NN_MAX_TENSORS];
    for (uint32_t i = 0; i < store->count; i++)
        list[i] = (tn_named_tensor){store->names[i], store->tensors[i]};
    return tn_safetensors_save(s, path, list, store->count, NULL, 0);
}

static int32_t load_one(nn_store *store, tn_scope *s, tn_safetensors *file, uint32_t i)
{
    tn_tensor *t = store->tensors[i], *from = tn_safetensors_get(s, file, store->names[i], store->device);
    int64_t rank = tn_tensor_rank(t);
    if (!from) return tn_scope_failed(s);
    if (tn_tensor_rank(from) != rank || memcmp(tn_tensor_sizes(from), tn_tensor_sizes(t), (size_t)rank * 8)) {
        return tn_scope_fail(s, TN_E_SHAPE,
                             "nn: a tensor in the file does not have the shape of the model's");
    }
    tn_copy_(s, t, from);
    return tn_scope_failed(s);
}

int32_t nn_store_load(nn_store *store, tn_scope *s, const char *path)
{
    tn_scope_options options = {.size = sizeof options, .grad_mode = TN_GRAD_OFF};
    tn_safetensors *file;
    tn_scope *child;
    int32_t status = tn_safetensors_open(store->ctx, path, &file);
    if (status) return tn_scope_fail(s, status, tn_last_error()->message);
    child = tn_scope_open_child(s, &options);
    for (uint32_t i = 0; i < store->count && !status; i++) status = load_one(store, child, file, i);
    tn_safetensors_close(file);
    return tn_scope_close(child);
}

/* Uniform in [-bound, bound). */
static tn_tensor *uniform(nn_store *store, tn_scope *s, tn_ints sizes, double bound)
{
    tn_tensor *t = tn_empty(s, sizes, .dtype = TN_FLOAT32, .device = store->device);
    return tn_uniform_(s, t, .from = -bound, .to = bound, .generator = store->generator);
}

void nn_conv2d_init(nn_conv2d *l, nn_store *store, tn_scope *s, const char *name, int64_t in, int64_t out,
                    int64_t kernel, int64_t padding)
{
    double bound = 1.0 / sqrt((double)(in * kernel * kernel));
    l->weight =
        nn_store_add(store, s, name, "weight", uniform(store, s, TN_INTS(out, in, kernel, kernel), bound), 1);
    l->bias = nn_store_add(store, s, name, "bias", uniform(store, s, TN_INTS(out), bound), 1);
    l->padding = padding;
}

static tn_tensor *as(tn_scope *s, tn_tensor *t, tn_dtype dtype)
{
    return t && tn_tensor_dtype(t) != dtype ? tn_to(s, t, dtype) : t;
}

tn_tensor *nn_conv2d_forward(const nn_conv2d *l, tn_scope *s, tn_tensor *x, tn_dtype dtype)
{
    return tn_conv2d(s, as(s, x, dtype), as(s, l->weight, dtype), .bias = as(s, l->bias, dtype),
                     .padding = TN_INTS(l->padding, l->padding));
}

void nn_linear_init(nn_linear *l, nn_store *store, tn_scope *s, const char *name, int64_t in, int64_t out)
{
    double bound = 1.0 / sqrt((double)in);
    l->weight = nn_store_add(store, s, name, "weight", uniform(store, s, TN_INTS(out, in), bound), 1);
    l->bias = nn_store_add(store, s, name, "bias", uniform(store, s, TN_INTS(out), bound), 1);
}

tn_tensor *nn_linear_forward(const nn_linear *l, tn_scope *s, tn_tensor *x, tn_dtype dtype)
{
    return tn_linear(s, as(s, x, dtype), as(s, l->weight, dtype), .bias = as(s, l->bias, dtype));
}

static tn_tensor *constant(nn_store *store, tn_scope *s, int64_t n, double value)
{
    return tn_full(s, TN_INTS(n), value, .dtype = TN_FLOAT32, .device = store->device);
}

void nn_batch_norm_init(nn_batch_norm *l, nn_store *store, tn_scope *s, const char *name, int64_t channels)
{
    l->weight = nn_store_add(store, s, name, "weight", constant(store, s, channels, 1), 1);
    l->bias = nn_store_add(store, s, name, "bias", constant(store, s, channels, 0), 1);
    l->running_mean = nn_store_add(store, s, name, "running_mean", constant(store, s, channels, 0), 0);
    l->running_var = nn_store_add(store, s, name, "running_var", constant(store, s, channels, 1), 0);
}

tn_tensor *nn_batch_norm_forward(const nn_batch_norm *l, tn_scope *s, tn_tensor *x, int32_t training)
{
    return tn_batch_norm(s, x, l->weight, l->bias, l->running_mean, l->running_var, training, 0.1, 1e-5, 0);
}
