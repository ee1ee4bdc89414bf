/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: upsampling by factors, through upsampling to sizes; grids of coordinates. */
#include "ops/composite/compute_dtype.h"

/* The spatial sizes of the result. */
static int32_t output_size(tn_scope *s, const tn_tensor *input, tn_ints given, tn_floats scales, int64_t dims,
                           int64_t *out)
{
    if (rank_of(input) != dims + 2)
        return tni_scope_failf(s, TN_E_SHAPE, "It is expected input_size equals to %lld, but got size %lld",
                               (long long)dims + 2, (long long)rank_of(input));
    if (!given.data == !scales.data)
        return tn_scope_fail(s, TN_E_ARGUMENT, "Must specify exactly one of output_size and scale_factors");
    if ((given.data ? given.count : scales.count) != dims)
        return tni_scope_failf(s, TN_E_ARGUMENT, "It is expected %s equals to %lld, but got size %lld",
                               given.data ? "output_size" : "scale_factors", (long long)dims,
                               (long long)(given.data ? given.count : scales.count));
    for (int64_t i = 0; i < dims; i++) {
        if (given.data)
            out[i] = given.data[i];
        else
            out[i] = (int64_t)((double)tni_sizes(input)[i + 2] * scales.data[i]);
    }
    return TN_OK;
}

/* (input, output_size, align_corners if `corners`, scale_factors): calls `op` with sizes and factors. */
static void resize(tn_scope *s, const tn_value *args, tn_value *outs, uint32_t op, int64_t dims,
                   int32_t corners)
{
    int64_t size[3];
    uint32_t n = 0;
    tn_floats scales = arg_floats(args, corners ? 3 : 2);
    tn_value v[6];
    if (output_size(s, arg_tensor(args, 0), arg_ints(args, 1), scales, dims, size)) return;
    v[n++] = args[0];
    v[n++] = tn_value_ints(size, dims);
    if (corners) v[n++] = args[2];
    for (int64_t i = 0; i < dims; i++)
        v[n++] = scales.data ? tn_value_float(scales.data[i]) : tn_value_none();
    tn_scope_call(s, op, v, n, outs, 1);
}

FORWARD(composite_upsample_nearest1d_vec, resize, TN_OP_UPSAMPLE_NEAREST1D, 1, 0)
FORWARD(composite_upsample_nearest2d_vec, resize, TN_OP_UPSAMPLE_NEAREST2D, 2, 0)
FORWARD(composite_upsample_nearest3d_vec, resize, TN_OP_UPSAMPLE_NEAREST3D, 3, 0)
FORWARD(composite_upsample_nearest_exact1d_vec, resize, TN_OP__UPSAMPLE_NEAREST_EXACT1D, 1, 0)
FORWARD(composite_upsample_nearest_exact2d_vec, resize, TN_OP__UPSAMPLE_NEAREST_EXACT2D, 2, 0)
FORWARD(composite_upsample_nearest_exact3d_vec, resize, TN_OP__UPSAMPLE_NEAREST_EXACT3D, 3, 0)
FORWARD(composite_upsample_linear1d_vec, resize, TN_OP_UPSAMPLE_LINEAR1D, 1, 1)
FORWARD(composite_upsample_bilinear2d_vec, resize, TN_OP_UPSAMPLE_BILINEAR2D, 2, 1)
FORWARD(composite_upsample_trilinear3d_vec, resize, TN_OP_UPSAMPLE_TRILINEAR3D, 3, 1)
FORWARD(composite_upsample_bicubic2d_vec, resize, TN_OP_UPSAMPLE_BICUBIC2D, 2, 1)
FORWARD(composite_upsample_bilinear2d_aa_vec, resize, TN_OP__UPSAMPLE_BILINEAR2D_AA, 2, 1)
FORWARD(composite_upsample_bicubic2d_aa_vec, resize, TN_OP__UPSAMPLE_BICUBIC2D_AA, 2, 1)

/* ---- grids ---- */

void composite_grid_sampler(tn_scope *s, const tn_value *args, tn_value *outs)
{
    const tn_tensor *input = arg_tensor(args, 0), *grid = arg_tensor(args, 1);
    if ((rank_of(input) != 4 && rank_of(input) != 5) || rank_of(input) != rank_of(grid)) {
        tni_scope_failf(
            s, TN_E_SHAPE,
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got "
            "input with sizes %s and grid with sizes %s",
            sizes_text(s, input), sizes_text(s, grid));
        return;
    }
    tn_scope_call(s, rank_of(input) == 4 ? TN_OP_GRID_SAMPLER_2D : TN_OP_GRID_SAMPLER_3D, args, 5, outs, 1);
}

/* n positions from -1 to 1: with align_corners the ends included, else the centres of n equal parts. */
static tn_tensor *positions(tn_scope *s, const tn_tensor *like, int64_t n, int32_t corners)
{
    tn_dtype dtype = wide_dtype(dtype_of(like));
    tn_tensor *line;
    if (n <= 1) return tni_zeros_on(s, like, dtype, TN_INTS(n));
    line = tn_linspace(s, tn_value_int(-1), tn_value_int(1), n, .dtype = dtype,
                       .device = tn_tensor_device(like));
    return corners ? line : tn_div_scalar(s, tn_mul_scalar(s, line, n - 1), n);
}

/* [N, points, dims + 1]: the coordinates of each point, last dimension first, and 1. */
static tn_tensor *base_grid(tn_scope *s, const tn_tensor *like, tn_ints size, int32_t corners)
{
    int64_t dims = size.count - 2, shape[6];
    tn_tensor *parts[4];
    tn_ints points = {size.data + 2, dims}, full = {shape, dims + 2};
    shape[0] = size.data[0];
    for (int64_t i = 0; i < dims; i++) shape[i + 1] = points.data[i];
    shape[dims + 1] = 1;
    for (int64_t i = 0; i < dims; i++) {
        int64_t d = dims - 1 - i;
        tn_tensor *line = positions(s, like, points.data[d], corners);
        line = tn_reshape(s, line, tni_ones_but(s, dims + 2, d + 1, points.data[d]));
        parts[i] = tn_expand(s, line, full);
    }
    parts[dims] = tni_full_on(s, like, wide_dtype(dtype_of(like)), full, tn_value_int(1));
    return tn_reshape(s, tn_cat(s, (tn_tensors){parts, dims + 1}, .dim = -1),
                      TN_INTS(size.data[0], numel_of(points), dims + 1));
}

static int32_t check_affine(tn_scope *s, tn_ints size)
{
    if (size.count == 4 || size.count == 5) return TN_OK;
    return tn_scope_fail(s, TN_E_ARGUMENT,
                         "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.");
}

/* theta [N, dims, dims + 1] maps points of an output of `size` to coordinates of the input. */
void composite_affine_grid_generator(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *theta = arg_tensor(args, 0), *grid;
    tn_ints size = arg_ints(args, 1), shape;
    int64_t dims = size.count - 2;
    if (check_affine(s, size)) return;
    grid = tn_bmm(s, base_grid(s, theta, size, arg_bool(args, 2)), tn_transpose(s, wide(s, theta), 1, 2));
    shape = tni_sizes_without(s, size, 1);
    grid = tn_reshape(s, grid, tni_sizes_insert(s, shape, shape.count, dims));
    give(outs, 0, grid ? tni_cast(s, grid, dtype_of(theta)) : NULL);
}

void composite_affine_grid_generator_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *grad = arg_tensor(args, 0), *base, *out;
    tn_ints size = arg_ints(args, 1);
    int64_t dims = size.count - 2;
    if (check_affine(s, size)) return;
    base = tn_transpose(s, base_grid(s, grad, size, arg_bool(args, 2)), 1, 2);
    out = tn_bmm(s, base, tn_reshape(s, wide(s, grad), TN_INTS(size.data[0], -1, dims)));
    out = tn_transpose(s, out, 1, 2);
    give(outs, 0, out ? tni_cast(s, out, dtype_of(grad)) : NULL);
}
