/* SPDX-License-Identifier: Apache-2.0 */
/* Views: the gradient goes back to where the elements came from. */
#include "autograd/rules/formula.h"

static tn_ints self_sizes(const tni_meta *m)
{
    return sizes_of(m);
}

void grad_reshape(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 0, 0);
    tni_grad_set(g, 0, tn_reshape(s, tni_grad_out(g, 0), self_sizes(&m)));
}

void grad_squeeze(tn_scope *s, tni_grad *g)
{
    grad_reshape(s, g);
}
void grad_unsqueeze(tn_scope *s, tni_grad *g)
{
    grad_reshape(s, g);
}

/* The engine sums over what was broadcast. */
void grad_expand(tn_scope *s, tni_grad *g)
{
    (void)s;
    tni_grad_set(g, 0, tni_grad_out(g, 0));
}

void grad_permute(tn_scope *s, tni_grad *g)
{
    tn_ints dims = ints_arg(g, 1);
    int64_t back[TN_MAX_RANK] = {0};
    for (int64_t i = 0; i < dims.count; i++) back[wrap_dim(dims.data[i], dims.count)] = i;
    tni_grad_set(g, 0, tn_permute(s, tni_grad_out(g, 0), (tn_ints){back, dims.count}));
}

void grad_transpose(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, tn_transpose(s, tni_grad_out(g, 0), int_arg(g, 1), int_arg(g, 2)));
}

void grad_t(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, tn_t(s, tni_grad_out(g, 0)));
}

void grad_select(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 0, 0);
    tni_grad_set(g, 0,
                 tn_select_backward(s, tni_grad_out(g, 0), self_sizes(&m), int_arg(g, 1), int_arg(g, 2)));
}

void grad_slice(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 0, 0);
    int64_t start = opt_int_arg(g, 2), end = opt_int_arg(g, 3);
    tni_grad_set(g, 0,
                 tn_slice_backward(s, tni_grad_out(g, 0), self_sizes(&m), int_arg(g, 1),
                                   start == TN_NONE ? 0 : start, end == TN_NONE ? INT64_MAX : end,
                                   int_arg(g, 4)));
}

void grad_diagonal(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 0, 0);
    tni_grad_set(g, 0,
                 tn_diagonal_backward(s, tni_grad_out(g, 0), self_sizes(&m), int_arg(g, 1), int_arg(g, 2),
                                      int_arg(g, 3)));
}

void grad_unfold(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 0, 0);
    tni_grad_set(g, 0,
                 tn_unfold_backward(s, tni_grad_out(g, 0), self_sizes(&m), int_arg(g, 1), int_arg(g, 2),
                                    int_arg(g, 3)));
}

void grad_as_strided(tn_scope *s, tni_grad *g)
{
    tn_tensor *self = tni_grad_geometry(g, 0);
    tni_geometry *base = tn_scope_memory(s, 2 * sizeof *base), *view = base + 1;
    if (!base || !self) return;
    tni_geometry_of(self, base);
    *view = *base;
    tn_ints sizes = ints_arg(g, 1), strides = ints_arg(g, 2);
    int64_t offset = opt_int_arg(g, 3);
    view->rank = (uint32_t)sizes.count;
    if (offset != TN_NONE) view->offset = offset;
    for (uint32_t i = 0; i < view->rank; i++) {
        view->sizes[i] = sizes.data[i];
        view->strides[i] = strides.data[i];
    }
    tni_grad_set(g, 0, tni_gradient_of_base(s, tni_grad_out(g, 0), base, view));
}

/* ---- views of parts ---- */

/* The gradients of all parts, zeros where there is none. */
static tn_tensors all_parts(tn_scope *s, const tni_grad *g)
{
    uint32_t n = 0;
    while (tni_grad_result_meta(g, n).device) n++;
    tn_tensor **parts = tn_scope_memory(s, (n + 1u) * sizeof *parts);
    for (uint32_t i = 0; parts && i < n; i++) {
        tni_meta m = tni_grad_result_meta(g, i);
        parts[i] = tni_grad_out(g, i);
        if (!parts[i]) parts[i] = zeros_as(s, &m, m.dtype);
    }
    return (tn_tensors){parts, parts ? n : 0};
}

void grad_split(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, tn_cat(s, all_parts(s, g), .dim = int_arg(g, 2)));
}
void grad_split_with_sizes(tn_scope *s, tni_grad *g)
{
    grad_split(s, g);
}

void grad_unbind(tn_scope *s, tni_grad *g)
{
    tn_tensors parts = all_parts(s, g);
    if (parts.count)
        tni_grad_set(g, 0, tn_stack(s, parts, .dim = int_arg(g, 1)));
    else
        set_zero(s, g, 0);
}
