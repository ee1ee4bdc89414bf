/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers that the examples need: parameters in a store, forward functions over a scope. An ordinary
 * client of the public headers. All forward functions return NULL on a failed scope.
 */
#ifndef TENON_NN_H
#define TENON_NN_H

#include <tenon/tenon.h>

#define NN_MAX_TENSORS 64

/* The named tensors of a model. Parameters (`trained`) require grad, buffers (running statistics) do not. */
typedef struct nn_store {
    tn_context *ctx;
    tn_device device;
    tn_generator *generator; /* of initial values; NULL: the device's default */
    uint32_t count;
    tn_tensor *tensors[NN_MAX_TENSORS]; /* one reference each */
    char names[NN_MAX_TENSORS][48];
    int32_t trained[NN_MAX_TENSORS];
} nn_store;

/* Adds a tensor under "layer.name", takes a reference, returns it (NULL: failed scope or store full). */
tn_tensor *nn_store_add(nn_store *store, tn_scope *s, const char *layer, const char *name, tn_tensor *t,
                        int32_t trained);
void nn_store_finish(nn_store *store);
int32_t nn_store_save(const nn_store *store, tn_scope *s, const char *path);
/* Reads the values of every tensor of the store; shapes and dtypes must be the same. */
int32_t nn_store_load(nn_store *store, tn_scope *s, const char *path);
void nn_zero_grad(nn_store *store);

/* weight [out, in / groups, k, k], bias [out]; He et al. 2015 with a = sqrt(5), as PyTorch initialises. */
typedef struct nn_conv2d {
    tn_tensor *weight, *bias;
    int64_t padding;
} nn_conv2d;
void nn_conv2d_init(nn_conv2d *l, nn_store *store, tn_scope *s, const char *name, int64_t in, int64_t out,
                    int64_t kernel, int64_t padding);
/* `dtype`: the dtype of the computation; parameters are cast. */
tn_tensor *nn_conv2d_forward(const nn_conv2d *l, tn_scope *s, tn_tensor *x, tn_dtype dtype);

/* weight [out, in], bias [out] */
typedef struct nn_linear {
    tn_tensor *weight, *bias;
} nn_linear;
void nn_linear_init(nn_linear *l, nn_store *store, tn_scope *s, const char *name, int64_t in, int64_t out);
tn_tensor *nn_linear_forward(const nn_linear *l, tn_scope *s, tn_tensor *x, tn_dtype dtype);

/* Over [N, C, ...]: weight, bias, running_mean, running_var [C], in float32. */
typedef struct nn_batch_norm {
    tn_tensor *weight, *bias, *running_mean, *running_var;
} nn_batch_norm;
void nn_batch_norm_init(nn_batch_norm *l, nn_store *store, tn_scope *s, const char *name, int64_t channels);
tn_tensor *nn_batch_norm_forward(const nn_batch_norm *l, tn_scope *s, tn_tensor *x, int32_t training);

/* The error of a failed call says where the program made it. */
#ifndef TN_NO_PLACES
static inline int32_t nn_placed_status(const char *file, int32_t line, tn_scope *scope, int32_t before,
                                       int32_t status)
{
    if (status || before) tn_place_after(scope, before, file, line);
    return status;
}
static inline tn_tensor *nn_placed(const char *file, int32_t line, tn_scope *scope, int32_t before,
                                   tn_tensor *t)
{
    if (!t || before) tn_place_after(scope, before, file, line);
    return t;
}
static inline int32_t nn_store_save_at(const char *file, int32_t line, const nn_store *store, tn_scope *scope,
                                       const char *path)
{
    int32_t before = tn_scope_place_begin(scope);
    return nn_placed_status(file, line, scope, before, nn_store_save(store, scope, path));
}
static inline int32_t nn_store_load_at(const char *file, int32_t line, nn_store *store, tn_scope *scope,
                                       const char *path)
{
    int32_t before = tn_scope_place_begin(scope);
    return nn_placed_status(file, line, scope, before, nn_store_load(store, scope, path));
}
static inline tn_tensor *nn_conv2d_forward_at(const char *file, int32_t line, const nn_conv2d *l,
                                              tn_scope *scope, tn_tensor *x, tn_dtype dtype)
{
    int32_t before = tn_scope_place_begin(scope);
    return nn_placed(file, line, scope, before, nn_conv2d_forward(l, scope, x, dtype));
}
static inline tn_tensor *nn_linear_forward_at(const char *file, int32_t line, const nn_linear *l,
                                              tn_scope *scope, tn_tensor *x, tn_dtype dtype)
{
    int32_t before = tn_scope_place_begin(scope);
    return nn_placed(file, line, scope, before, nn_linear_forward(l, scope, x, dtype));
}
static inline tn_tensor *nn_batch_norm_forward_at(const char *file, int32_t line, const nn_batch_norm *l,
                                                  tn_scope *scope, tn_tensor *x, int32_t training)
{
    int32_t before = tn_scope_place_begin(scope);
    return nn_placed(file, line, scope, before, nn_batch_norm_forward(l, scope, x, training));
}
#define nn_store_save(...)         nn_store_save_at(__FILE__, __LINE__, __VA_ARGS__)
#define nn_store_load(...)         nn_store_load_at(__FILE__, __LINE__, __VA_ARGS__)
#define nn_conv2d_forward(...)     nn_conv2d_forward_at(__FILE__, __LINE__, __VA_ARGS__)
#define nn_linear_forward(...)     nn_linear_forward_at(__FILE__, __LINE__, __VA_ARGS__)
#define nn_batch_norm_forward(...) nn_batch_norm_forward_at(__FILE__, __LINE__, __VA_ARGS__)
#endif

#endif
