/* SPDX-License-Identifier: Apache-2.0 */
/* Functions over the gradients of parameters. */
#include "module.h"

#include <math.h>
#include <string.h>

/* The gradients that are there. */
static tn_tensors gradients(tn_scope *s, tn_tensors parameters)
{
    tn_tensor **items = tn_scope_memory(s, (uint64_t)(parameters.count + 1) * sizeof *items);
    int64_t n = 0;
    for (int64_t i = 0; items && i < parameters.count; i++) {
        tn_tensor *g = parameters.data[i] ? tn_grad_of(s, parameters.data[i]) : NULL;
        if (g) items[n++] = g;
    }
    return (tn_tensors){items, n};
}

/* The tensors may lie on several devices; the result is on that of the first. */
static tn_tensor *norm_of(tn_scope *s, tn_tensors list, double norm_type)
{
    if (!list.count) return tn_sum(s, tn_zeros(s, TN_INTS(0)));
    const tn_device first = tn_tensor_device(list.data[0]);
    tn_tensors norms = tn__foreach_norm(s, list, .ord = TN_SCALAR(norm_type));
    tn_tensor **here = tn_scope_memory(s, (uint64_t)list.count * sizeof *here);
    if (!here) return NULL;
    for (int64_t i = 0; i < norms.count; i++)
        here[i] = tn_tensor_device(norms.data[i]) == first
                      ? norms.data[i]
                      : tn_to_device(s, norms.data[i], first, tn_tensor_dtype(norms.data[i]));
    return tn_linalg_vector_norm(s, tn_stack(s, (tn_tensors){here, norms.count}),
                                 .ord = TN_SCALAR(norm_type));
}

/* Multiplies all that lie on a device by one call. */
static void multiply(tn_scope *s, tn_tensors g, tn_tensor *factor)
{
    for (int64_t i = 0; i < g.count && !tn_scope_failed(s); i++) {
        const tn_device device = tn_tensor_device(g.data[i]);
        int64_t n = 0, k = 0;
        while (tn_tensor_device(g.data[k]) != device) k++;
        if (k < i) continue; /* with an earlier one */
        tn_tensor **list = tn_scope_memory(s, (uint64_t)(g.count - i) * sizeof *list);
        for (k = i; list && k < g.count; k++)
            if (tn_tensor_device(g.data[k]) == device) list[n++] = g.data[k];
        tn__foreach_mul_(s, (tn_tensors){list, n}, tn_to_device(s, factor, device, tn_tensor_dtype(factor)));
    }
}

static void scale(tn_scope *s, tn_tensors g, double max_norm, tn_tensor *norm)
{
    if (tn_tensor_rank(norm)) norm = tn_reshape(s, norm, TN_NO_INTS);
    tn_tensor *factor = tn_mul_scalar(s, tn_reciprocal(s, tn_add_scalar(s, norm, 1e-6)), max_norm);
    multiply(s, g, tn_clamp(s, factor, .max = TN_SCALAR(1.0)));
}

tn_tensor *tn_clip_grad_norm(tn_scope *scope, tn_tensors parameters, double max_norm, double norm_type)
{
    tn_scope *s = nn_without_recording(scope);
    tn_tensors g = gradients(s, parameters);
    tn_tensor *norm = norm_of(s, g, norm_type);
    if (norm) scale(s, g, max_norm, norm);
    if (norm) norm = tn_scope_return(s, norm);
    return tn_scope_close(s) ? NULL : norm;
}

tn_tensor *tn_get_total_norm(tn_scope *s, tn_tensors tensors, double norm_type)
{
    tn_tensor **items = tn_scope_memory(s, (uint64_t)(tensors.count + 1) * sizeof *items);
    int64_t n = 0;
    for (int64_t i = 0; items && i < tensors.count; i++)
        if (tensors.data[i]) items[n++] = tensors.data[i];
    return items ? norm_of(s, (tn_tensors){items, n}, norm_type) : NULL;
}

int32_t tn_clip_grads_with_norm(tn_scope *scope, tn_tensors parameters, double max_norm,
                                tn_tensor *total_norm)
{
    tn_scope *s = nn_without_recording(scope);
    if (!s) return tn_scope_failed(scope);
    if (!total_norm)
        tn_scope_fail(s, TN_E_ARGUMENT, "tn_clip_grads_with_norm: argument 'total_norm' is NULL");
    if (!tn_scope_failed(s)) scale(s, gradients(s, parameters), max_norm, total_norm);
    return tn_scope_close(s);
}

int32_t tn_clip_grad_value(tn_scope *scope, tn_tensors parameters, double limit)
{
    tn_scope *s = nn_without_recording(scope);
    if (!s) return tn_scope_failed(scope);
    tn_tensors g = gradients(s, parameters);
    for (int64_t i = 0; i < g.count; i++)
        tn_clamp_(s, g.data[i], .min = TN_SCALAR(-limit), .max = TN_SCALAR(limit));
    return tn_scope_close(s);
}

tn_tensor *tn_parameters_to_vector(tn_scope *s, tn_tensors parameters)
{
    tn_tensor **flat = tn_scope_memory(s, (uint64_t)(parameters.count + 1) * sizeof *flat);
    for (int64_t i = 0; flat && i < parameters.count; i++)
        flat[i] = tn_reshape(s, parameters.data[i], TN_INTS(-1));
    return flat ? tn_cat(s, (tn_tensors){flat, parameters.count}) : NULL;
}

int32_t tn_vector_to_parameters(tn_scope *scope, tn_tensor *vector, tn_tensors parameters)
{
    tn_scope *s = nn_without_recording(scope);
    if (!s) return tn_scope_failed(scope);
    int64_t at = 0, n = 0;
    for (int64_t i = 0; i < parameters.count; i++) n += tn_tensor_numel(parameters.data[i]);
    if (tn_tensor_rank(vector) != 1 || tn_tensor_numel(vector) != n)
        tn_scope_fail(s, TN_E_SHAPE,
                      "vector_to_parameters: the vector does not have the elements of all parameters");
    for (int64_t i = 0; i < parameters.count; i++) {
        tn_tensor *p = parameters.data[i];
        int64_t count = tn_tensor_numel(p);
        tn_tensor *part = tn_narrow(s, vector, 0, at, count);
        tn_copy_(s, p, tn_view(s, part, (tn_ints){tn_tensor_sizes(p), tn_tensor_rank(p)}));
        at += count;
    }
    return tn_scope_close(s);
}
