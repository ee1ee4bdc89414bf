/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grid sampling. First derivatives call the backward operators. For second derivatives the sampling is
 * computed again with simple operators, in two and three dimensions and all modes; the backward operator is
 * its gradient, which the engine differentiates.
 */
#include "autograd/rules/formula.h"

#define BILINEAR   0
#define NEAREST    1
#define BICUBIC    2
#define ZEROS      0
#define BORDER     1
#define REFLECTION 2

typedef struct sampling {
    uint32_t dims;
    int64_t mode, padding;
    int32_t align;
} sampling;

/* One term of the sum over neighbours, built up dimension by dimension. */
typedef struct tap {
    tn_tensor *index;  /* position in the flat image so far */
    tn_tensor *weight; /* NULL: 1 */
} tap;

#define MAX_TAPS 16

/* From [-1, 1] to positions of elements. */
static tn_tensor *to_position(tn_scope *s, tn_tensor *x, int64_t size, int32_t align)
{
    if (align) return scale(s, plus(s, x, 1), 0.5 * (double)(size - 1));
    return scale(s, plus(s, scale(s, plus(s, x, 1), (double)size), -1), 0.5);
}

/* Reflects positions at both ends until they lie inside. */
static tn_tensor *reflect(tn_scope *s, tn_tensor *x, int64_t size, int32_t align)
{
    double low = align ? 0 : -0.5, span = align ? (double)(size - 1) : (double)size;
    if (span == 0) return tn_zeros_like(s, x);
    tn_tensor *away = tn_abs(s, plus(s, x, -low));
    tn_tensor *turns = tn_floor(s, scale(s, away, 1 / span)), *rest = sub(s, away, scale(s, turns, span));
    tn_tensor *odd = tn_eq_scalar(s, tn_remainder_scalar(s, turns, 2), 1);
    return plus(s, tn_where(s, odd, minus_from(s, span, rest), rest), low);
}

static tn_tensor *pad_position(tn_scope *s, tn_tensor *x, int64_t size, const sampling *g)
{
    if (g->padding == ZEROS) return x;
    if (g->padding == REFLECTION) x = reflect(s, x, size, g->align);
    return tn_clamp(s, x, .min = TN_SCALAR(0), .max = TN_SCALAR(size - 1));
}

/* Cubic convolution with a = -0.75: the weight of the neighbour at distance d. */
static tn_tensor *cubic(tn_scope *s, tn_tensor *d, int32_t outer)
{
    const double a = -0.75;
    if (!outer) {
        tn_tensor *inner = plus(s, scale(s, d, a + 2), -(a + 3));
        return plus(s, mul(s, mul(s, inner, d), d), 1);
    }
    tn_tensor *poly = plus(s, mul(s, plus(s, scale(s, d, a), -5 * a), d), 8 * a);
    return plus(s, mul(s, poly, d), -4 * a);
}

/* Neighbours of x in one dimension: whole positions and weights. */
static uint32_t neighbours(tn_scope *s, tn_tensor *x, int64_t size, const sampling *g, tap out[4])
{
    if (g->mode == BICUBIC) {
        tn_tensor *first = tn_floor(s, x), *t = sub(s, x, first);
        for (int32_t i = 0; i < 4; i++) {
            tn_tensor *distance = i < 2 ? plus(s, t, 1 - i) : minus_from(s, i - 1, t);
            out[i].index = pad_position(s, plus(s, first, i - 1), size, g);
            out[i].weight = cubic(s, distance, i == 0 || i == 3);
        }
        return 4;
    }
    x = pad_position(s, x, size, g);
    if (g->mode == NEAREST) {
        out[0] = (tap){tn_round(s, x), NULL};
        return 1;
    }
    tn_tensor *first = tn_floor(s, x), *t = sub(s, x, first);
    out[0] = (tap){first, minus_from(s, 1, t)};
    out[1] = (tap){plus(s, first, 1), t};
    return 2;
}

/* Weight 0 for positions outside the image; those are clamped, so that they can be read. */
static void keep_inside(tn_scope *s, tap *t, int64_t size)
{
    tn_tensor *inside = tn_logical_and(s, tn_ge_scalar(s, t->index, 0), tn_le_scalar(s, t->index, size - 1));
    tn_tensor *weight = t->weight ? t->weight : tn_ones_like(s, t->index);
    t->weight = keep_where(s, inside, weight);
    t->index = tn_clamp(s, t->index, .min = TN_SCALAR(0), .max = TN_SCALAR(size - 1));
}

/* All combinations of the taps so far with those of one more dimension, which varies slowest. */
static uint32_t combine(tn_scope *s, tap *taps, uint32_t n, const tap *more, uint32_t n_more, int64_t stride)
{
    tap all[64];
    uint32_t count = 0;
    for (uint32_t i = 0; i < n_more; i++) {
        tn_tensor *start = scale(s, more[i].index, (double)stride);
        for (uint32_t k = 0; k < n; k++)
            all[count++] = (tap){add(s, taps[k].index, start), mul(s, taps[k].weight, more[i].weight)};
    }
    for (uint32_t i = 0; i < count && i < MAX_TAPS; i++) taps[i] = all[i];
    return count;
}

/* The image at the points of the grid. */
static tn_tensor *sample(tn_scope *s, tn_tensor *image, tn_tensor *grid, const sampling *g)
{
    if (tn_scope_failed(s)) return NULL;
    int64_t n = image->desc.sizes[0], channels = image->desc.sizes[1], points = 1, stride = 1;
    int64_t out_sizes[5] = {n, channels};
    for (uint32_t i = 0; i < g->dims; i++) points *= out_sizes[2 + i] = grid->desc.sizes[1 + i];
    tap taps[MAX_TAPS], axis[4];
    uint32_t count = 0;
    for (uint32_t k = 0; k < g->dims; k++) { /* x, y, z: the last dimension of the image first */
        int64_t size = image->desc.sizes[1 + g->dims - k];
        tn_tensor *x =
            to_position(s, tn_reshape(s, tn_select(s, grid, -1, k), TN_INTS(n, points)), size, g->align);
        uint32_t found = neighbours(s, x, size, g, axis);
        for (uint32_t i = 0; i < found; i++) keep_inside(s, axis + i, size);
        if (k == 0) {
            for (uint32_t i = 0; i < found; i++) taps[i] = axis[i];
            count = found;
        } else {
            count = combine(s, taps, count, axis, found, stride);
        }
        stride *= size;
    }
    tn_tensor *flat = tn_reshape(s, image, TN_INTS(n, channels, stride)), *sum = NULL;
    for (uint32_t i = 0; i < count; i++) {
        tn_tensor *index = tn_unsqueeze(s, tn__to_copy(s, tn_detach(s, taps[i].index), .dtype = TN_INT64), 1);
        tn_tensor *values = tn_gather(s, flat, 2, tn_expand(s, index, TN_INTS(n, channels, points)));
        values = mul(s, values, tn_unsqueeze(s, taps[i].weight, 1));
        sum = sum ? add(s, sum, values) : values;
    }
    return tn_reshape(s, sum, ((tn_ints){out_sizes, 2 + g->dims}));
}

/* in: gradient, image, grid; out: gradients of image and grid */
static void backward_formula(tn_scope *s, const void *data, tn_tensor *const *in, tn_tensor **out)
{
    tn_tensor *inputs[] = {tni_rule_input(s, in[1]), tni_rule_input(s, in[2])};
    tn_tensor *y = sample(s, inputs[0], inputs[1], data);
    tn_tensor *grads[] = {in[0]};
    tn_backward_options options = {
        .size = sizeof options, .create_graph = 1, .allow_unused = 1, .grad_outputs = {grads, 1}};
    if (y) tn_grad(s, (tn_tensors){&y, 1}, (tn_tensors){inputs, 2}, &options, out);
}

static void differentiate(tn_scope *s, tni_grad *g, uint32_t dims)
{
    sampling how = {dims, int_arg(g, 3), int_arg(g, 4), bool_arg(g, 5)};
    tn_tensor *in[3], *out[3], *grads[2] = {tni_grad_out(g, 0), tni_grad_out(g, 1)};
    int32_t wanted[3];
    for (uint32_t i = 0; i < 3; i++) {
        in[i] = tni_grad_saved(g, i);
        wanted[i] = tni_grad_needs(g, i);
    }
    if (tni_rule_vjp(s, backward_formula, &how, in, wanted, 3, grads, 2, out)) return;
    for (uint32_t i = 0; i < 3; i++) {
        if (out[i])
            tni_grad_set(g, i, out[i]);
        else
            set_zero(s, g, i);
    }
}

void grad_grid_sampler_2d_backward(tn_scope *s, tni_grad *g)
{
    differentiate(s, g, 2);
}
void grad_grid_sampler_3d_backward(tn_scope *s, tni_grad *g)
{
    differentiate(s, g, 3);
}

static void first_derivatives(tn_scope *s, tni_grad *g, uint32_t backward)
{
    const uint8_t wanted[] = {(uint8_t)tni_grad_needs(g, 0), (uint8_t)tni_grad_needs(g, 1)};
    const tn_value v[] = {tn_value_tensor(tni_grad_out(g, 0)),
                          tn_value_tensor(tni_grad_saved(g, 0)),
                          tn_value_tensor(tni_grad_saved(g, 1)),
                          tni_grad_arg(g, 2),
                          tni_grad_arg(g, 3),
                          tni_grad_arg(g, 4),
                          tn_value_bools(wanted, 2)};
    tn_value out[2];
    tn_scope_call(s, backward, v, 7, out, 2);
    for (uint32_t i = 0; i < 2; i++) tni_grad_set(g, i, tn_value_as_tensor(out[i]));
}

void grad_grid_sampler_2d(tn_scope *s, tni_grad *g)
{
    first_derivatives(s, g, TN_OP_GRID_SAMPLER_2D_BACKWARD);
}
void grad_grid_sampler_3d(tn_scope *s, tni_grad *g)
{
    first_derivatives(s, g, TN_OP_GRID_SAMPLER_3D_BACKWARD);
}
