/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of float32 matrices for processors: the right matrix is packed into panels of GPU_COLUMNS columns, in which
 * a row is contiguous; then an item computes GPU_ROWS rows of a panel, which stay in registers. Dimensions of the nest
 * are column, row, batch; operands out, left, right. scalars: the inner size, the strides of left and right along it,
 * and panels of a matrix. Half types are float32 in between.
 */
#include "dialect.h"

#define GPU_COLUMNS 64
#define GPU_ROWS    6
#define GPU_DEPTH   16 /* rows that an item packs */

/* An item is GPU_DEPTH rows of a panel. Columns beyond the last one are 0. */
GPU_KERNEL void pack_panels(GPU_GLOBAL float *panels, GPU_GLOBAL const uint8_t *right, int64_t first, gpu_nest nest)
{
    uint32_t depth = (uint32_t)nest.scalars[0], n_panels = (uint32_t)nest.scalars[3];
    uint32_t blocks = (depth + GPU_DEPTH - 1) / GPU_DEPTH, item = gpu_item(), batch = item / blocks / n_panels;
    uint32_t begin = item % blocks * GPU_DEPTH, end = depth - begin < GPU_DEPTH ? depth : begin + GPU_DEPTH;
    uint32_t panel = item / blocks % n_panels, column = panel * GPU_COLUMNS, columns = nest.sizes[0];
    int64_t at[3] = {0, 0, nest.offsets[2]};
    uint32_t rest = batch;
    if (item >= blocks * n_panels * (nest.numel / nest.sizes[0] / nest.sizes[1])) return;
    GPU_WALK(nest, 2, nest.rank, rest, at, 3)
    panels += first + ((int64_t)batch * n_panels + panel) * depth * GPU_COLUMNS;
    for (uint32_t k = begin; k < end; k++) {
        GPU_GLOBAL const uint8_t *from = right + at[2] + (int64_t)k * (int64_t)nest.scalars[2];
        GPU_GLOBAL float *to = panels + (int64_t)k * GPU_COLUMNS;
        if (column + GPU_COLUMNS <= columns && nest.dtypes[2] == GPU_F32 && nest.strides[2][0] == 4) {
            for (uint32_t j = 0; j < GPU_COLUMNS; j++) to[j] = ((GPU_GLOBAL const float *)from)[column + j];
            continue;
        }
        for (uint32_t j = 0; j < GPU_COLUMNS; j++)
            to[j] = column + j < columns ? gpu_load(from + (int64_t)(column + j) * nest.strides[2][0], nest.dtypes[2])
                                         : 0.0f;
    }
}

#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)
typedef float16 gpu_lanes;
#define GPU_LOAD_LANES(p)        vload16(0, p)
#define GPU_STORE_LANES(v, to)   vstore16(v, 0, to)
#define GPU_ADD_PRODUCT(a, v, s) fma((float16)(a), v, s)
#define GPU_VECTORS              4

/* An item is GPU_ROWS rows of a panel; blocks of rows of one panel follow each other, so that it stays in the cache. */
GPU_KERNEL void product_panels(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *left, GPU_GLOBAL const float *panels,
                               int64_t first, gpu_nest nest)
{
    uint32_t depth = (uint32_t)nest.scalars[0], n_panels = (uint32_t)nest.scalars[3], rows = nest.sizes[1];
    uint32_t blocks = (rows + GPU_ROWS - 1) / GPU_ROWS, item = gpu_item(), batch = item / blocks / n_panels;
    uint32_t row = item % blocks * GPU_ROWS, panel = item / blocks % n_panels, column = panel * GPU_COLUMNS;
    uint32_t width = nest.sizes[0] - column < GPU_COLUMNS ? nest.sizes[0] - column : GPU_COLUMNS, rest = batch;
    int64_t at[3] = {nest.offsets[0], nest.offsets[1], 0}, step = (int64_t)nest.scalars[1];
    gpu_lanes sums[GPU_ROWS][GPU_VECTORS];
    GPU_GLOBAL const uint8_t *a[GPU_ROWS];
    if (item >= blocks * n_panels * (nest.numel / nest.sizes[0] / rows)) return;
    GPU_WALK(nest, 2, nest.rank, rest, at, 3)
    panels += first + ((int64_t)batch * n_panels + panel) * depth * GPU_COLUMNS;
    /* Rows beyond the last one are computed as that one, and not stored. */
    for (uint32_t r = 0; r < GPU_ROWS; r++)
        a[r] = left + at[1] + (int64_t)(row + r < rows ? row + r : rows - 1) * nest.strides[1][1];
#define GPU_EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5)
#define GPU_CLEAR(r) \
    sums[r][0] = sums[r][1] = sums[r][2] = sums[r][3] = (gpu_lanes)0.0f;
    GPU_EACH_ROW(GPU_CLEAR)
    for (uint32_t k = 0; k < depth; k++, panels += GPU_COLUMNS) {
        gpu_lanes b0 = GPU_LOAD_LANES(panels), b1 = GPU_LOAD_LANES(panels + 16);
        gpu_lanes b2 = GPU_LOAD_LANES(panels + 32), b3 = GPU_LOAD_LANES(panels + 48);
#define GPU_ADD(r)                                                           \
    {                                                                        \
        float x = gpu_load(a[r] + (int64_t)k * step, nest.dtypes[1]);              \
        sums[r][0] = GPU_ADD_PRODUCT(x, b0, sums[r][0]);                     \
        sums[r][1] = GPU_ADD_PRODUCT(x, b1, sums[r][1]);                     \
        sums[r][2] = GPU_ADD_PRODUCT(x, b2, sums[r][2]);                     \
        sums[r][3] = GPU_ADD_PRODUCT(x, b3, sums[r][3]);                     \
    }
        GPU_EACH_ROW(GPU_ADD)
    }
#define GPU_KEEP(r)                                                                                             \
    if (row + r < rows) {                                                                                       \
        float line[GPU_COLUMNS];                                                                                \
        GPU_GLOBAL uint8_t *to = out + at[0] + (int64_t)(row + r) * nest.strides[0][1] +                        \
                                 (int64_t)column * nest.strides[0][0];                                          \
        GPU_STORE_LANES(sums[r][0], line);                                                                      \
        GPU_STORE_LANES(sums[r][1], line + 16);                                                                 \
        GPU_STORE_LANES(sums[r][2], line + 32);                                                                 \
        GPU_STORE_LANES(sums[r][3], line + 48);                                                                 \
        for (uint32_t j = 0; j < width; j++) gpu_store(to + (int64_t)j * nest.strides[0][0], nest.dtypes[0], line[j]); \
    }
    GPU_EACH_ROW(GPU_KEEP)
}
#endif
