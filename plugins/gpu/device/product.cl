/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of matrices. For processors, in float32: the right matrix is packed into panels of GPU_COLUMNS columns, in which
 * a row is contiguous; then an item computes GPU_ROWS rows of a panel, which stay in registers. The nest is that of
 * `product` in numbers.cl; scalars[3]: panels of a matrix. The left matrix, of the dtype GPU_DTYPE, may be in values[0]
 * parts, values[1] bytes apart, each with scalars[0] columns. Half types are float32 in between.
 *
 * For convolutions the right matrix is in no memory: pack_windows makes
 * the panels from the image. For GPUs: product_tiles.
 */
#include "dialect.h"

#if GPU_PROCESSOR
#define GPU_COLUMNS 64
#define GPU_ROWS    6
#define GPU_DEPTH   16 /* rows that an item packs */
#define GPU_STEP    GPU_BYTES(GPU_DTYPE)
#define GPU_MOST_RUNS 8 /* of a panel, which repay a loop each */

/* Which rows of which panel an item packs. */
typedef struct gpu_piece {
    uint32_t batch, panel, begin, end; /* rows */
} gpu_piece;

/* 0 if there is none. */
GPU_FUNCTION int gpu_piece_of(gpu_piece *p, uint32_t rows, uint32_t n_panels, uint32_t batches)
{
    uint32_t blocks = (rows + GPU_DEPTH - 1) / GPU_DEPTH, item = gpu_item();
    p->batch = item / blocks / n_panels;
    p->panel = item / blocks % n_panels;
    p->begin = item % blocks * GPU_DEPTH;
    p->end = rows - p->begin < GPU_DEPTH ? rows : p->begin + GPU_DEPTH;
    return item < blocks * n_panels * batches;
}

/* Columns beyond the last one are 0. */
GPU_KERNEL void pack_panels(GPU_GLOBAL float *panels, GPU_GLOBAL const uint8_t *right, int64_t first, gpu_nest nest)
{
    uint32_t depth = (uint32_t)nest.scalars[0], n_panels = (uint32_t)nest.scalars[3], columns = nest.sizes[0];
    int64_t at[3] = {0, 0, nest.offsets[2]};
    gpu_piece p;
    if (!gpu_piece_of(&p, depth, n_panels, nest.numel / nest.sizes[0] / nest.sizes[1])) return;
    uint32_t rest = p.batch, column = p.panel * GPU_COLUMNS;
    GPU_WALK(nest, 2, nest.rank, rest, at, 3)
    panels += first + ((int64_t)p.batch * n_panels + p.panel) * depth * GPU_COLUMNS;
    for (uint32_t k = p.begin; k < p.end; k++) {
        GPU_GLOBAL const uint8_t *from = right + at[2] + (int64_t)k * (int64_t)nest.scalars[2];
        GPU_GLOBAL float *to = panels + (int64_t)k * GPU_COLUMNS;
        if (column + GPU_COLUMNS <= columns && nest.dtypes[2] == GPU_DTYPE && nest.strides[2][0] == GPU_STEP) {
            from += (int64_t)column * GPU_STEP;
            for (uint32_t j = 0; j < GPU_COLUMNS; j++) to[j] = gpu_load(from + j * GPU_STEP, GPU_DTYPE);
            continue;
        }
        if (column + GPU_COLUMNS <= columns && nest.dtypes[2] == GPU_DTYPE) {
            int64_t step = nest.strides[2][0];
            GPU_INDEPENDENT
            for (uint32_t j = 0; j < GPU_COLUMNS; j++) to[j] = gpu_load(from + (int64_t)(column + j) * step, GPU_DTYPE);
            continue;
        }
        for (uint32_t j = 0; j < GPU_COLUMNS; j++)
            to[j] = column + j < columns ? gpu_load(from + (int64_t)(column + j) * nest.strides[2][0], nest.dtypes[2])
                                         : 0.0f;
    }
}

/* A position of windows, or an element of the kernel: what each adds to a place in the image. */
typedef struct gpu_place {
    int32_t offset; /* in elements */
    int32_t axis[3];
} gpu_place;

/* Window i: image i / positions, of which `batch` is the first. */
GPU_FUNCTION gpu_place gpu_position(const gpu_window *w, uint32_t i)
{
    gpu_place p;
    uint32_t positions = w->out[0] * w->out[1] * w->out[2], rest = i % positions;
    p.axis[2] = (int32_t)(rest % w->out[2]) * w->stride[2] - w->padding[2];
    p.axis[1] = (int32_t)(rest / w->out[2] % w->out[1]) * w->stride[1] - w->padding[1];
    p.axis[0] = (int32_t)(rest / w->out[2] / w->out[1]) * w->stride[0] - w->padding[0];
    p.offset = (int32_t)(i / positions * w->groups * w->in_channels * w->in[0] * w->in[1] * w->in[2]) +
               (p.axis[0] * (int32_t)w->in[1] + p.axis[1]) * (int32_t)w->in[2] + p.axis[2];
    return p;
}

/* Element i of the kernel, its channel outermost. */
GPU_FUNCTION gpu_place gpu_element(const gpu_window *w, uint32_t i)
{
    gpu_place p;
    uint32_t rest = i / w->kernel_size[2];
    p.axis[2] = (int32_t)(i % w->kernel_size[2]) * w->dilation[2];
    p.axis[1] = (int32_t)(rest % w->kernel_size[1]) * w->dilation[1];
    rest /= w->kernel_size[1];
    p.axis[0] = (int32_t)(rest % w->kernel_size[0]) * w->dilation[0];
    p.offset = (int32_t)(rest / w->kernel_size[0] * w->in[0] * w->in[1] * w->in[2]) +
               (p.axis[0] * (int32_t)w->in[1] + p.axis[1]) * (int32_t)w->in[2] + p.axis[2];
    return p;
}

/*
 * As pack_panels, for the matrix whose rows are elements of the kernel and whose columns are positions, a batch for
 * each image and group; or, GPU_WINDOW_TRANSPOSED, whose rows are the positions of all images, a batch for each group.
 */
GPU_KERNEL void pack_windows(GPU_GLOBAL float *panels, GPU_GLOBAL const uint8_t *in, int64_t first, gpu_window w,
                             uint32_t rows, uint32_t columns)
{
    uint32_t n_panels = (columns + GPU_COLUMNS - 1) / GPU_COLUMNS, is_transposed = w.flags & GPU_WINDOW_TRANSPOSED;
    int32_t image = (int32_t)(w.in[0] * w.in[1] * w.in[2]), bytes = GPU_BYTES(w.dtype);
    int32_t offset[GPU_COLUMNS], z[GPU_COLUMNS], y[GPU_COLUMNS], x[GPU_COLUMNS];
    gpu_piece p;
    if (!gpu_piece_of(&p, rows, n_panels, is_transposed ? w.groups : w.images * w.groups)) return;
    uint32_t group = p.batch % w.groups, first_image = p.batch / w.groups;
    for (uint32_t j = 0; j < GPU_COLUMNS; j++) {
        uint32_t column = p.panel * GPU_COLUMNS + j;
        gpu_place at = is_transposed ? gpu_element(&w, column) : gpu_position(&w, column);
        offset[j] = at.offset;
        z[j] = column < columns ? at.axis[0] : -(1 << 30); /* outside of every image */
        y[j] = at.axis[1];
        x[j] = at.axis[2];
    }
    /* Runs of positions that are neighbours in a row of the image. */
    uint32_t run_begins[GPU_COLUMNS + 1], n_runs = 0;
    for (uint32_t j = 0; j < GPU_COLUMNS; j++)
        if (!j || x[j] != x[j - 1] + 1 || y[j] != y[j - 1] || z[j] != z[j - 1]) run_begins[n_runs++] = j;
    run_begins[n_runs] = GPU_COLUMNS;
    panels += first + ((int64_t)p.batch * n_panels + p.panel) * rows * GPU_COLUMNS;
    in += w.offsets[1] + ((int64_t)first_image * w.groups + group) * w.in_channels * image * bytes;
    for (uint32_t k = p.begin; k < p.end; k++) {
        gpu_place at = is_transposed ? gpu_position(&w, k) : gpu_element(&w, k);
        GPU_GLOBAL float *to = panels + (int64_t)k * GPU_COLUMNS;
        if (w.dtype == GPU_DTYPE && n_runs <= GPU_MOST_RUNS) {
            for (uint32_t run = 0; run < n_runs; run++) {
                uint32_t j = run_begins[run], end = run_begins[run + 1];
                int32_t at_x = x[j] + at.axis[2], right = (int32_t)w.in[2] - at_x; /* columns before the right edge */
                int is_inside = (uint32_t)(z[j] + at.axis[0]) < w.in[0] && (uint32_t)(y[j] + at.axis[1]) < w.in[1];
                uint32_t from = at_x < 0 ? j + (uint32_t)-at_x : j, to_edge = right > 0 ? j + (uint32_t)right : j;
                if (from > end || !is_inside) from = end;
                if (to_edge > end) to_edge = end;
                GPU_GLOBAL const uint8_t *row = in + (int64_t)(offset[j] + at.offset - (int32_t)j) * (int64_t)GPU_STEP;
                for (; j < from; j++) to[j] = 0;
                GPU_INDEPENDENT
                for (uint32_t i = j; i < to_edge; i++) to[i] = gpu_load(row + (int64_t)i * GPU_STEP, GPU_DTYPE);
                if (to_edge > j) j = to_edge;
                for (; j < end; j++) to[j] = 0;
            }
            continue;
        }
        if (w.dtype == GPU_DTYPE) {
            GPU_INDEPENDENT
            for (uint32_t j = 0; j < GPU_COLUMNS; j++) {
                int is_inside = (uint32_t)(z[j] + at.axis[0]) < w.in[0] && (uint32_t)(y[j] + at.axis[1]) < w.in[1] &&
                                (uint32_t)(x[j] + at.axis[2]) < w.in[2];
                to[j] = is_inside ? gpu_load(in + (int64_t)(offset[j] + at.offset) * (int64_t)GPU_STEP, GPU_DTYPE) : 0.0f;
            }
            continue;
        }
        for (uint32_t j = 0; j < GPU_COLUMNS; j++) {
            int is_inside = (uint32_t)(z[j] + at.axis[0]) < w.in[0] && (uint32_t)(y[j] + at.axis[1]) < w.in[1] &&
                            (uint32_t)(x[j] + at.axis[2]) < w.in[2];
            to[j] = is_inside ? gpu_load(in + (int64_t)(offset[j] + at.offset) * bytes, w.dtype) : 0.0f;
        }
    }
}

#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)
typedef float16 gpu_lanes;
#define GPU_LOAD_LANES(p)        vload16(0, p)
#define GPU_STORE_LANES(v, to)   vstore16(v, 0, to)
#define GPU_ADD_PRODUCT(a, v, s) fma((float16)(a), v, s)
#define GPU_VECTORS              4
#define GPU_IS_HALF              (GPU_DTYPE == GPU_F16 || GPU_DTYPE == GPU_BF16)
#define GPU_AT_ONCE              16

/* An item is GPU_ROWS rows of a panel; blocks of rows of one panel follow each other, so that it stays in the cache. */
GPU_KERNEL void product_panels(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *left, GPU_GLOBAL const float *panels,
                               GPU_GLOBAL const uint8_t *added, int64_t first, gpu_nest nest)
{
    uint32_t depth = (uint32_t)nest.scalars[0], parts = (uint32_t)nest.values[0], n_panels = (uint32_t)nest.scalars[3], rows = nest.sizes[1];
    uint32_t blocks = (rows + GPU_ROWS - 1) / GPU_ROWS, item = gpu_item(), batch = item / blocks / n_panels;
    uint32_t row = item % blocks * GPU_ROWS, panel = item / blocks % n_panels, column = panel * GPU_COLUMNS;
    uint32_t width = nest.sizes[0] - column < GPU_COLUMNS ? nest.sizes[0] - column : GPU_COLUMNS, rest = batch;
    int64_t at[4] = {nest.offsets[0], nest.offsets[1], 0, nest.offsets[3]}, step = (int64_t)nest.scalars[1];
    gpu_lanes sums[GPU_ROWS][GPU_VECTORS];
    int64_t a[GPU_ROWS];
    if (item >= blocks * n_panels * (nest.numel / nest.sizes[0] / rows)) return;
    GPU_WALK(nest, 2, nest.rank, rest, at, 4)
    panels += first + ((int64_t)batch * n_panels + panel) * depth * parts * GPU_COLUMNS;
    /* Rows beyond the last one are computed as that one, and not stored. */
    for (uint32_t r = 0; r < GPU_ROWS; r++)
        a[r] = at[1] + (int64_t)(row + r < rows ? row + r : rows - 1) * nest.strides[1][1];
#if GPU_IS_HALF /* elements of the left matrix are converted GPU_AT_ONCE at a time */
    float converted[GPU_ROWS][GPU_AT_ONCE];
#define GPU_LEFT(r) converted[r][k % GPU_AT_ONCE]
#define GPU_CONVERT(r)                                                                                            \
    {                                                                                                             \
        GPU_GLOBAL const uint8_t *from = left + a[r] + (int64_t)k * step;                                         \
        if (count == GPU_AT_ONCE && step == GPU_STEP) {                                                           \
            for (int j = 0; j < GPU_AT_ONCE; j++) converted[r][j] = gpu_load(from + j * GPU_STEP, GPU_DTYPE);     \
        } else {                                                                                                  \
            for (uint32_t j = 0; j < count; j++) converted[r][j] = gpu_load(from + (int64_t)j * step, GPU_DTYPE); \
        }                                                                                                         \
    }
#else
#define GPU_LEFT(r) gpu_load(left + a[r] + (int64_t)k * step, GPU_DTYPE)
#endif
#define GPU_EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5)
#define GPU_CLEAR(r) \
    sums[r][0] = sums[r][1] = sums[r][2] = sums[r][3] = (gpu_lanes)0.0f;
    GPU_EACH_ROW(GPU_CLEAR)
    for (uint32_t i = 0, k = 0; i < depth * parts; i++, k++, panels += GPU_COLUMNS) {
        if (k == depth) {
            k = 0;
            left += (int64_t)nest.values[1];
        }
#if GPU_IS_HALF
        if (k % GPU_AT_ONCE == 0) {
            uint32_t count = depth - k < GPU_AT_ONCE ? depth - k : GPU_AT_ONCE;
            GPU_EACH_ROW(GPU_CONVERT)
        }
#endif
        gpu_lanes b0 = GPU_LOAD_LANES(panels), b1 = GPU_LOAD_LANES(panels + 16);
        gpu_lanes b2 = GPU_LOAD_LANES(panels + 32), b3 = GPU_LOAD_LANES(panels + 48);
#define GPU_ADD(r)                                                           \
    {                                                                        \
        float x = GPU_LEFT(r);                                               \
        sums[r][0] = GPU_ADD_PRODUCT(x, b0, sums[r][0]);                     \
        sums[r][1] = GPU_ADD_PRODUCT(x, b1, sums[r][1]);                     \
        sums[r][2] = GPU_ADD_PRODUCT(x, b2, sums[r][2]);                     \
        sums[r][3] = GPU_ADD_PRODUCT(x, b3, sums[r][3]);                     \
    }
        GPU_EACH_ROW(GPU_ADD)
    }
    float alpha = gpu_value(nest.values[2]), beta = gpu_value(nest.values[3]);
    int is_plain = width == GPU_COLUMNS && nest.dtypes[0] == GPU_F32 && nest.strides[0][0] == 4;
    int is_own = width == GPU_COLUMNS && nest.dtypes[0] == GPU_DTYPE && nest.strides[0][0] == GPU_STEP;
    int is_added_plain = width == GPU_COLUMNS && nest.dtypes[3] == GPU_DTYPE && nest.strides[3][0] == GPU_STEP;
#define GPU_KEEP(r)                                                                                             \
    if (row + r < rows) {                                                                                       \
        float line[GPU_COLUMNS];                                                                                \
        GPU_GLOBAL uint8_t *to = out + at[0] + (int64_t)(row + r) * nest.strides[0][1] +                        \
                                 (int64_t)column * nest.strides[0][0];                                          \
        GPU_STORE_LANES(sums[r][0], line);                                                                      \
        GPU_STORE_LANES(sums[r][1], line + 16);                                                                 \
        GPU_STORE_LANES(sums[r][2], line + 32);                                                                 \
        GPU_STORE_LANES(sums[r][3], line + 48);                                                                 \
        if (alpha != 1.0f)                                                                                      \
            for (uint32_t j = 0; j < GPU_COLUMNS; j++) line[j] *= alpha;                                        \
        GPU_GLOBAL const uint8_t *more = added + at[3] + (int64_t)(row + r) * nest.strides[3][1] +              \
                                         (int64_t)column * nest.strides[3][0];                                  \
        if (nest.immediate & 8u) {                                                                              \
        } else if (is_added_plain) {                                                                            \
            for (uint32_t j = 0; j < GPU_COLUMNS; j++)                                                          \
                line[j] += beta * gpu_load(more + j * GPU_STEP, GPU_DTYPE);                                     \
        } else if (nest.strides[3][0] == 0) {                                                                   \
            float one = beta * gpu_load(more, nest.dtypes[3]);                                                  \
            for (uint32_t j = 0; j < GPU_COLUMNS; j++) line[j] += one;                                          \
        } else {                                                                                                \
            for (uint32_t j = 0; j < width; j++)                                                                \
                line[j] += beta * gpu_load(more + (int64_t)j * nest.strides[3][0], nest.dtypes[3]);             \
        }                                                                                                       \
        if (is_plain) {                                                                                         \
            for (uint32_t j = 0; j < GPU_COLUMNS; j++) ((GPU_GLOBAL float *)to)[j] = line[j];                   \
        } else if (is_own) {                                                                                    \
            for (uint32_t j = 0; j < GPU_COLUMNS; j++) gpu_store(to + j * GPU_STEP, GPU_DTYPE, line[j]);        \
        } else {                                                                                                \
            for (uint32_t j = 0; j < width; j++)                                                                \
                gpu_store(to + (int64_t)j * nest.strides[0][0], nest.dtypes[0], line[j]);                       \
        }                                                                                                       \
    }
    GPU_EACH_ROW(GPU_KEEP)
}
#endif
#endif

#if GPU_IS_FLOAT

/*
 * For few rows or columns, where elements that are multiplied are neighbours in both matrices: a result is computed by an
 * item of a processor, or by a group of a GPU.
 */
GPU_KERNEL void product_dots(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *left, GPU_GLOBAL const uint8_t *right,
                             GPU_GLOBAL const uint8_t *added, gpu_nest nest)
{
#if !GPU_PROCESSOR
    GPU_LOCAL T parts[GPU_GROUP_ITEMS];
    uint32_t me = gpu_group_item(), i = gpu_item() / GPU_GROUP_ITEMS;
#else
    uint32_t i = gpu_item();
#endif
    uint32_t depth = (uint32_t)nest.scalars[0], rest = i;
    int64_t at[4] = {nest.offsets[0], nest.offsets[1], nest.offsets[2], nest.offsets[3]};
    T sum = 0;
    if (i >= nest.numel) return;
    GPU_WALK(nest, 0, nest.rank, rest, at, 4)
    GPU_GLOBAL const uint8_t *p = left + at[1], *q = right + at[2];
#define GPU_PAIR                                                      \
    T x = gpu_load(p + (int64_t)at_k * GPU_BYTES(GPU_DTYPE), GPU_DTYPE); \
    T y = gpu_load(q + (int64_t)at_k * GPU_BYTES(GPU_DTYPE), GPU_DTYPE);
#if GPU_PROCESSOR
    GPU_ADD_UP(sum, 32, depth, uint32_t at_k = at; GPU_PAIR, x * y)
#else
    for (uint32_t at_k = me; at_k < depth; at_k += GPU_GROUP_ITEMS) {
        GPU_PAIR
        sum = FN(fma)(x, y, sum);
    }
    parts[me] = sum;
    GPU_BARRIER();
    for (uint32_t half_way = GPU_GROUP_ITEMS / 2; half_way > 0; half_way /= 2) {
        if (me < half_way) parts[me] += parts[me + half_way];
        GPU_BARRIER();
    }
    if (me) return;
    sum = parts[0];
#endif
    sum *= gpu_value(nest.values[2]);
    if (!(nest.immediate & 8u)) sum += gpu_value(nest.values[3]) * gpu_load(added + at[3], nest.dtypes[3]);
    gpu_store(out + at[0], nest.dtypes[0], sum);
}
#endif

#if !GPU_PROCESSOR
#define GPU_TILE_ROWS    32
#define GPU_TILE_COLUMNS 64
#define GPU_TILE_DEPTH   16
#define GPU_TILE_RUN     256 /* a multiple of the depth */
#define GPU_TILE_ITEMS   128 /* of a group, which is a tile; an item has 4 neighbouring rows and every 16th column of it */

/*
 * For GPUs: pieces of both matrices are read once for each tile, into the memory of the group. The left matrix may be in
 * parts, as above. Sums of GPU_TILE_RUN products are added up apart, which rounds less.
 */
GPU_KERNEL void product_tiles(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *left, GPU_GLOBAL const uint8_t *right,
                              GPU_GLOBAL const uint8_t *added, gpu_nest nest)
{
    GPU_LOCAL T a[GPU_TILE_DEPTH][GPU_TILE_ROWS + 1]; /* + 1: columns begin in different banks */
    GPU_LOCAL T b[GPU_TILE_DEPTH][GPU_TILE_COLUMNS];
    uint32_t columns = nest.sizes[0], rows = nest.sizes[1], of_part = (uint32_t)nest.scalars[0];
    uint32_t depth = of_part * (uint32_t)nest.values[0], me = gpu_group_item();
    uint32_t across = (columns + GPU_TILE_COLUMNS - 1) / GPU_TILE_COLUMNS;
    uint32_t down = (rows + GPU_TILE_ROWS - 1) / GPU_TILE_ROWS, tile = gpu_item() / GPU_TILE_ITEMS;
    uint32_t column = tile % across * GPU_TILE_COLUMNS, row = tile / across % down * GPU_TILE_ROWS;
    uint32_t rest = tile / across / down;
    int64_t at[4] = {nest.offsets[0], nest.offsets[1], nest.offsets[2], nest.offsets[3]};
    T sums[4][4], total[4][4];
    GPU_WALK(nest, 2, nest.rank, rest, at, 4)
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) sums[i][j] = total[i][j] = 0;
    for (uint32_t begin = 0; begin < depth; begin += GPU_TILE_DEPTH) {
        for (uint32_t e = me; e < GPU_TILE_ROWS * GPU_TILE_DEPTH; e += GPU_TILE_ITEMS) {
            uint32_t k = e % GPU_TILE_DEPTH, r = e / GPU_TILE_DEPTH;
            int is_inside = row + r < rows && begin + k < depth;
            uint32_t part = (begin + k) / of_part, in_part = (begin + k) % of_part;
            a[k][r] = is_inside ? gpu_load(left + at[1] + (int64_t)(row + r) * nest.strides[1][1] +
                                               (int64_t)part * (int64_t)nest.values[1] +
                                               (int64_t)in_part * (int64_t)nest.scalars[1],
                                           GPU_DTYPE)
                                : (T)0;
        }
        for (uint32_t e = me; e < GPU_TILE_COLUMNS * GPU_TILE_DEPTH; e += GPU_TILE_ITEMS) {
            uint32_t k = e / GPU_TILE_COLUMNS, c = e % GPU_TILE_COLUMNS;
            int is_inside = column + c < columns && begin + k < depth;
            b[k][c] = is_inside ? gpu_load(right + at[2] + (int64_t)(column + c) * nest.strides[2][0] +
                                               (int64_t)(begin + k) * (int64_t)nest.scalars[2],
                                           nest.dtypes[2])
                                : (T)0;
        }
        GPU_BARRIER();
        for (uint32_t k = 0; k < GPU_TILE_DEPTH; k++)
            for (uint32_t i = 0; i < 4; i++)
                for (uint32_t j = 0; j < 4; j++)
                    sums[i][j] = FN(fma)(a[k][me / 16 * 4 + i], b[k][me % 16 + 16 * j], sums[i][j]);
        GPU_BARRIER();
        if ((begin + GPU_TILE_DEPTH) % GPU_TILE_RUN != 0 && begin + GPU_TILE_DEPTH < depth) continue;
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                total[i][j] += sums[i][j];
                sums[i][j] = 0;
            }
    }
    T alpha = gpu_value(nest.values[2]), beta = gpu_value(nest.values[3]);
    GPU_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        GPU_UNROLL
        for (uint32_t j = 0; j < 4; j++) {
            uint32_t r = row + me / 16 * 4 + i, c = column + me % 16 + 16 * j;
            if (r >= rows || c >= columns) continue;
            T sum = alpha * total[i][j];
            if (!(nest.immediate & 8u))
                sum += beta * gpu_load(added + at[3] + (int64_t)r * nest.strides[3][1] + (int64_t)c * nest.strides[3][0],
                                       nest.dtypes[3]);
            gpu_store(out + at[0] + (int64_t)r * nest.strides[0][1] + (int64_t)c * nest.strides[0][0], nest.dtypes[0],
                      sum);
        }
    }
}
#endif
