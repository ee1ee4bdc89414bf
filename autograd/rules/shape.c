/* SPDX-License-Identifier: Apache-2.0 */
/* Joining, turning and copying. */
#include "autograd/rules/formula.h"

#include <string.h>

void grad_cat(tn_scope *s, tni_grad *g)
{
    tn_tensor *grad = tni_grad_out(g, 0);
    tni_meta out = tni_grad_result_meta(g, 0);
    int64_t dim = wrap_dim(int_arg(g, 1), out.rank), start = 0;
    uint32_t n = tni_grad_count(g, 0);
    for (uint32_t i = 0; i < n; i++) {
        tni_meta m = tni_grad_meta(g, 0, i);
        if (m.rank != out.rank || (m.rank == 1 && m.sizes[0] == 0)) { /* an empty vector, which cat skips */
            if (tni_grad_needs_item(g, 0, i)) tni_grad_set_item(g, 0, i, zeros_as(s, &m, m.dtype));
            continue;
        }
        int64_t length = m.sizes[dim];
        if (tni_grad_needs_item(g, 0, i)) tni_grad_set_item(g, 0, i, tn_narrow(s, grad, dim, start, length));
        start += length;
    }
}

void grad_stack(tn_scope *s, tni_grad *g)
{
    uint32_t n = tni_grad_count(g, 0);
    for (uint32_t i = 0; i < n; i++) {
        if (tni_grad_needs_item(g, 0, i))
            tni_grad_set_item(g, 0, i, tn_select(s, tni_grad_out(g, 0), int_arg(g, 1), i));
    }
}

void grad_flip(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, tn_flip(s, tni_grad_out(g, 0), ints_arg(g, 1)));
}

void grad_roll(tn_scope *s, tni_grad *g)
{
    tn_ints shifts = ints_arg(g, 1);
    int64_t *back = tn_scope_memory(s, ((uint64_t)shifts.count + 1) * sizeof *back);
    for (int64_t i = 0; back && i < shifts.count; i++) back[i] = -shifts.data[i];
    tni_grad_set(g, 0,
                 tn_roll(s, tni_grad_out(g, 0), ((tn_ints){back, shifts.count}), .dims = ints_arg(g, 2)));
}

void grad_rot90(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, tn_rot90(s, tni_grad_out(g, 0), .k = -int_arg(g, 1), .dims = ints_arg(g, 2)));
}

void grad_tril(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, tn_tril(s, tni_grad_out(g, 0), .diagonal = int_arg(g, 1)));
}

void grad_triu(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, tn_triu(s, tni_grad_out(g, 0), .diagonal = int_arg(g, 1)));
}

void grad_pixel_shuffle(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, tn_pixel_unshuffle(s, tni_grad_out(g, 0), int_arg(g, 1)));
}

void grad_pixel_unshuffle(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, tn_pixel_shuffle(s, tni_grad_out(g, 0), int_arg(g, 1)));
}

void grad_channel_shuffle(tn_scope *s, tni_grad *g)
{
    int64_t channels = tni_grad_meta(g, 0, 0).sizes[1];
    tni_grad_set(g, 0, tn_channel_shuffle(s, tni_grad_out(g, 0), channels / int_arg(g, 1)));
}

/* ---- copies ---- */

static tn_tensor *to_meta(tn_scope *s, tn_tensor *t, const tni_meta *m)
{
    if (!t || t->desc.device == m->device) return t;
    return tn__to_copy(s, t, .device = m->device);
}

void grad_copy(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 1, 0);
    set_zero(s, g, 0);
    tn_tensor *grad = to_meta(s, tni_grad_out(g, 0), &m);
    if (grad && !is_complex(grad) && grad->desc.dtype != m.dtype)
        grad = tn__to_copy(s, grad, .dtype = m.dtype);
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, grad);
}

void grad_clone(tn_scope *s, tni_grad *g)
{
    (void)s;
    tni_grad_set(g, 0, tni_grad_out(g, 0));
}

void grad_to_copy(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 0, 0);
    tni_grad_set(g, 0, to_meta(s, tni_grad_out(g, 0), &m));
}

void grad_fill(tn_scope *s, tni_grad *g)
{
    set_zero(s, g, 0);
}

void grad_fill_tensor(tn_scope *s, tni_grad *g)
{
    set_zero(s, g, 0);
    if (tni_grad_needs(g, 1)) tni_grad_set(g, 1, tn_sum(s, tni_grad_out(g, 0)));
}

/* Each dimension is split into (repeats, size) and summed over the repeats. */
void grad_repeat(tn_scope *s, tni_grad *g)
{
    tni_meta m = tni_grad_meta(g, 0, 0);
    tn_ints repeats = ints_arg(g, 1);
    int64_t sizes[2 * TN_MAX_RANK], dims[TN_MAX_RANK], lead = repeats.count - (int64_t)m.rank;
    for (int64_t i = 0; i < repeats.count; i++) {
        if (repeats.data[i] == 0) {
            set_zero(s, g, 0);
            return;
        }
        sizes[2 * i] = repeats.data[i];
        sizes[2 * i + 1] = i < lead ? 1 : m.sizes[i - lead];
        dims[i] = 2 * i;
    }
    if (repeats.count == 0) {
        tni_grad_set(g, 0, tni_grad_out(g, 0));
        return;
    }
    tn_tensor *grad = tn_reshape(s, tni_grad_out(g, 0), ((tn_ints){sizes, 2 * repeats.count}));
    grad = tn_sum_dim(s, grad, ((tn_ints){dims, repeats.count}));
    tni_grad_set(g, 0, tn_reshape(s, grad, sizes_of(&m)));
}
