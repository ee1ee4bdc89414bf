/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: sampling images at the positions of a grid, and the gradients. In each dimension a position has
 * up to four taps: index of an input, weight, and slope of the weight along the grid. Value and gradients are
 * sums of products over taps. A tap outside the image has weight and slope 0.
 */
#include <math.h>
#include "ops/composite/pointwise_lowering.h"

enum { BILINEAR, NEAREST, BICUBIC };
enum { ZEROS, BORDER, REFLECTION };

typedef struct tap {
    tn_tensor *at, *weight, *slope; /* [batch, points]; slope NULL: 0 */
} tap;

typedef struct sampling {
    int64_t space, batch, channels, points, mode, padding;
    int32_t align;
    int64_t in[3]; /* x, y, z: the last dimension of the image first */
    tap taps[3][4];
    int64_t count; /* taps in each dimension */
} sampling;

/* ---- positions; each function updates the slope, too ---- */

/* From [-1, 1] to inputs. */
static tn_tensor *unnormalised(tn_scope *s, const sampling *g, tn_tensor *x, int64_t size, double *slope)
{
    *slope = (double)(g->align ? size - 1 : size) / 2;
    if (g->align) return tn_mul_scalar(s, tn_div_scalar(s, plus(s, x, 1), 2), (double)(size - 1));
    return tn_div_scalar(s, plus(s, tn_mul_scalar(s, plus(s, x, 1), (double)size), -1), 2);
}

/* Reflected at both ends until they lie inside. */
static tn_tensor *reflected(tn_scope *s, const sampling *g, tn_tensor *x, int64_t size, tn_tensor **slope)
{
    double low = g->align ? 0 : -0.5, span = (double)(g->align ? size - 1 : size);
    if (span == 0) {
        if (*slope) *slope = tn_zeros_like(s, x);
        return tn_zeros_like(s, x);
    }
    tn_tensor *apart = plus(s, x, -low), *away = tn_abs(s, apart);
    tn_tensor *turns = tn_floor(s, tn_div_scalar(s, away, span)), *rest = tn_fmod_scalar(s, away, span);
    tn_tensor *odd = tn_ne_scalar(s, tn_fmod_scalar(s, turns, 2), 0);
    if (*slope) {
        tn_tensor *back = tn_ne(s, odd, tn_lt_scalar(s, apart, 0));
        *slope = tn_where(s, back, tn_neg(s, *slope), *slope);
    }
    return plus(s, tn_where(s, odd, tn_rsub_scalar(s, rest, span), rest), low);
}

/* Applies the padding mode. Zero padding leaves positions as they are; far away or NaN is outside. */
static tn_tensor *padded(tn_scope *s, const sampling *g, tn_tensor *x, int64_t size, tn_tensor **slope)
{
    if (g->padding == REFLECTION) x = reflected(s, g, x, size, slope);
    if (g->padding != ZEROS) {
        tn_tensor *inside = tn_logical_and(s, tn_gt_scalar(s, x, 0), tn_lt_scalar(s, x, size - 1));
        if (*slope) *slope = tn_where_scalarother(s, inside, *slope, 0);
        x = tn_where_scalarother(s, tn_gt_scalar(s, x, 0), x, 0);
        x = tn_clamp_max(s, x, (double)(size - 1));
    }
    tn_tensor *near = tn_logical_and(s, tn_gt_scalar(s, x, -1e9), tn_lt_scalar(s, x, 1e9));
    return tn_where_scalarother(s, near, x, -100.0);
}

/* Weight and slope 0 for taps outside the image; their index is clamped, so that it can be read. */
static tap kept_inside(tn_scope *s, tap t, int64_t size)
{
    tn_tensor *inside = tn_logical_and(s, tn_ge_scalar(s, t.at, 0), tn_le_scalar(s, t.at, size - 1));
    t.weight = tn_where_scalarother(s, inside, t.weight, 0);
    if (t.slope) t.slope = tn_where_scalarother(s, inside, t.slope, 0);
    t.at = tn_clamp(s, t.at, .min = TN_SCALAR(0), .max = TN_SCALAR(size - 1));
    t.at = t.at ? tni_cast(s, t.at, TN_INT64) : NULL;
    return t;
}

/* ---- taps ---- */

/* c[0] d^3 + c[1] d^2 + c[2] d + c[3] */
static tn_tensor *polynomial(tn_scope *s, tn_tensor *d, const double c[4])
{
    tn_tensor *sum = plus(s, tn_mul_scalar(s, d, c[0]), c[1]);
    for (int i = 2; i < 4; i++) sum = plus(s, tn_mul(s, sum, d), c[i]);
    return sum;
}

/* Cubic convolution with a = -0.75 of the neighbours at distances 1 + t, t, 1 - t, 2 - t. */
static void cubic_taps(tn_scope *s, const sampling *g, tn_tensor *x, int64_t size, double slope, tap *out)
{
    static const double a = -0.75;
    const double outer[4] = {a, -5 * a, 8 * a, -4 * a}, inner[4] = {a + 2, -(a + 3), 0, 1};
    const double outer_slope[4] = {0, 3 * a, -10 * a, 8 * a},
                 inner_slope[4] = {0, 3 * (a + 2), -2 * (a + 3), 0};
    tn_tensor *near = tn_logical_and(s, tn_gt_scalar(s, x, -1e9), tn_lt_scalar(s, x, 1e9)), *low, *t,
              *none = NULL;
    x = tn_where_scalarother(s, near, x, -100.0);
    low = tn_floor(s, x);
    t = tn_sub(s, x, low);
    for (int i = 0; i < 4; i++) {
        tn_tensor *d = i < 2 ? plus(s, t, 1 - i) : tn_rsub_scalar(s, t, i - 1);
        int32_t far = i == 0 || i == 3;
        out[i].at = padded(s, g, plus(s, low, i - 1), size, &none);
        out[i].weight = polynomial(s, d, far ? outer : inner);
        out[i].slope =
            tn_mul_scalar(s, polynomial(s, d, far ? outer_slope : inner_slope), i < 2 ? slope : -slope);
    }
}

static void make_taps(tn_scope *s, sampling *g, int64_t k, tn_tensor *x)
{
    tap *out = g->taps[k];
    int64_t size = g->in[k];
    double slope;
    x = unnormalised(s, g, x, size, &slope);
    if (g->mode == BICUBIC) {
        cubic_taps(s, g, x, size, slope, out);
    } else {
        tn_tensor *slopes = x ? tni_full_on(s, x, 0, sizes_of(x), tn_value_float(slope)) : NULL;
        x = padded(s, g, x, size, &slopes);
        if (g->mode == NEAREST) {
            out[0] = (tap){.at = tn_round(s, x), .weight = tn_ones_like(s, x)};
        } else {
            tn_tensor *low = tn_floor(s, x), *t = tn_sub(s, x, low);
            out[0] = (tap){low, one_minus(s, t), tn_neg(s, slopes)};
            out[1] = (tap){plus(s, low, 1), t, slopes};
        }
    }
    for (int64_t i = 0; i < g->count; i++) out[i] = kept_inside(s, out[i], size);
}

/* Sizes, modes (three arguments at `options`) and taps. */
static int32_t open(tn_scope *s, const tn_value *args, uint32_t input, uint32_t options, sampling *g)
{
    tn_tensor *image = arg_tensor(args, input), *grid = wide(s, arg_tensor(args, input + 1));
    *g = (sampling){.space = rank_of(image) - 2,
                    .batch = tn_tensor_size(image, 0),
                    .channels = tn_tensor_size(image, 1),
                    .mode = arg_int(args, options),
                    .padding = arg_int(args, options + 1),
                    .align = arg_bool(args, options + 2)};
    if (tn_scope_failed(s)) return -1;
    g->points = 1;
    for (int64_t d = 0; d < g->space; d++) g->points *= tn_tensor_size(grid, 1 + d);
    g->count = g->mode == BICUBIC ? 4 : g->mode == NEAREST ? 1 : 2;
    for (int64_t k = 0; k < g->space; k++) {
        g->in[k] = tn_tensor_size(image, rank_of(image) - 1 - k);
        make_taps(s, g, k, tni_reshape(s, tn_select(s, grid, -1, k), TN_INTS(g->batch, g->points)));
    }
    return tn_scope_failed(s) ? -1 : 0;
}

/* ---- sums over products of taps ---- */

static int64_t combinations(const sampling *g)
{
    int64_t n = 1;
    for (int64_t k = 0; k < g->space; k++) n *= g->count;
    return n;
}

/* The product of the weights of combination i, with the slope in place of the weight of dimension `along`. */
static tn_tensor *weight_of(tn_scope *s, const sampling *g, int64_t i, int64_t along)
{
    tn_tensor *product = NULL;
    for (int64_t k = 0, rest = i; k < g->space; k++, rest /= g->count) {
        const tap *t = &g->taps[k][rest % g->count];
        tn_tensor *factor = k == along ? t->slope : t->weight;
        if (!factor) return NULL;
        product = product ? tn_mul(s, product, factor) : factor;
    }
    return product;
}

/* The index of combination i in the flattened image, for all channels. */
static tn_tensor *place_of(tn_scope *s, const sampling *g, int64_t i)
{
    tn_tensor *place = NULL;
    int64_t stride = 1;
    for (int64_t k = 0, rest = i; k < g->space; k++, rest /= g->count) {
        tn_tensor *step = tn_mul_scalar(s, g->taps[k][rest % g->count].at, stride);
        place = place ? tn_add(s, place, step) : step;
        stride *= g->in[k];
    }
    return tn_expand(s, tn_unsqueeze(s, place, 1), TN_INTS(g->batch, g->channels, g->points));
}

static int64_t inputs_of(const sampling *g)
{
    int64_t n = 1;
    for (int64_t k = 0; k < g->space; k++) n *= g->in[k];
    return n;
}

/* The sizes [batch, channels, points...] of a result. */
static tn_ints result_sizes(tn_scope *s, const sampling *g, const tn_tensor *grid)
{
    int64_t *size = tni_scope_ints(s, 2 + g->space);
    if (!size) return TN_NO_INTS;
    size[0] = g->batch;
    size[1] = g->channels;
    for (int64_t d = 0; d < g->space; d++) size[2 + d] = tn_tensor_size(grid, 1 + d);
    return (tn_ints){size, 2 + g->space};
}

/* (input, grid, interpolation_mode, padding_mode, align_corners) */
void composite_grid_sampler_lowering(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *image = arg_tensor(args, 0), *flat, *sum = NULL;
    sampling g;
    if (open(s, args, 0, 2, &g)) return;
    flat = tni_reshape(s, wide(s, image), TN_INTS(g.batch, g.channels, inputs_of(&g)));
    for (int64_t i = 0; i < combinations(&g) && !tn_scope_failed(s); i++) {
        tn_tensor *value = tn_gather(s, flat, 2, place_of(s, &g, i));
        tn_tensor *weight = tn_unsqueeze(s, weight_of(s, &g, i, -1), 1);
        value = zero_where(s, tn_eq_scalar(s, weight, 0), tn_mul(s, value, weight));
        sum = sum ? tn_add(s, sum, value) : value;
    }
    formula_give(s, outs, tni_reshape(s, sum, result_sizes(s, &g, arg_tensor(args, 1))), dtype_of(image));
}

/* (grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask) */
void composite_grid_sampler_backward_lowering(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = wide(s, arg_tensor(args, 0)), *image = arg_tensor(args, 1), *grid = arg_tensor(args, 2),
              *flat, *of_image = NULL, *of_grid[3] = {NULL};
    tn_bools mask = arg_bools(args, 6);
    sampling g;
    if (open(s, args, 1, 3, &g)) return;
    int64_t inputs = inputs_of(&g);
    flat = tni_reshape(s, wide(s, image), TN_INTS(g.batch, g.channels, inputs));
    grad = tni_reshape(s, grad, TN_INTS(g.batch, g.channels, g.points));
    if (mask.data[0]) of_image = tni_zeros_on(s, grad, 0, TN_INTS(g.batch, g.channels, inputs));
    for (int64_t i = 0; i < combinations(&g) && !tn_scope_failed(s); i++) {
        tn_tensor *place = place_of(s, &g, i);
        if (mask.data[0]) {
            tn_tensor *share = tn_mul(s, grad, tn_unsqueeze(s, weight_of(s, &g, i, -1), 1));
            of_image = tn_scatter_add_(s, of_image, 2, place, share);
        }
        if (!mask.data[1] || g.mode == NEAREST) continue;
        tn_tensor *value = tn_sum_dim(s, tn_mul(s, tn_gather(s, flat, 2, place), grad), TN_INTS(1));
        for (int64_t k = 0; k < g.space; k++) {
            tn_tensor *part = tn_mul(s, value, weight_of(s, &g, i, k));
            of_grid[k] = of_grid[k] ? tn_add(s, of_grid[k], part) : part;
        }
    }
    if (mask.data[0]) formula_give(s, outs, tni_reshape(s, of_image, sizes_of(image)), dtype_of(image));
    if (!mask.data[1]) return;
    if (!of_grid[0]) return give(outs, 1, tni_zeros_on(s, grid, 0, sizes_of(grid)));
    tn_tensor *all = tn_stack(s, (tn_tensors){of_grid, g.space}, .dim = -1);
    formula_give(s, outs + 1, tni_reshape(s, all, sizes_of(grid)), dtype_of(grid));
}
