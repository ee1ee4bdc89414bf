/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution with stride 1 on row-major images, without a column matrix. In an image with its padding
 * written out, the input of output position p under kernel element k is at p + offset(k), whatever p: so a
 * pass is a matrix product whose right side is the image itself, read at shifted places. Positions at row
 * ends that are no outputs are computed too and dropped; they are fewer than what a column matrix would cost.
 *
 * The blocks below hold ROWS x VECTORS vector accumulators in registers. Compiled for float32 and float64,
 * for each level. It knows nothing of threads: conv_direct.c gives it one image or one block of weights at a
 * time.
 */
#include "conv_direct.h"
#include "nn/types.h"

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, ROWS = 8, VECTORS = 3 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32, ROWS = 4, VECTORS = 3 };
#else
enum { VECTOR_BYTES = 16, ROWS = 4, VECTORS = 2 };
#endif
enum { LANES = VECTOR_BYTES / sizeof(T) };

/* A vector at any address. */
typedef T vector __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(T)), may_alias));

/* Writes rows of `to_row` elements between zeros: the image with its margins, or outputs with the gaps of the
 * image's grid. */
static void place(const void *from_v, const cpu_grid *grid, int64_t channels, void *to_v)
{
    const T *from = from_v;
    T *to = to_v;
    memset(to, 0, (size_t)(channels * grid->channel_step) * sizeof(T));
    for (int64_t c = 0; c < channels; c++) {
        for (int64_t z = 0; z < grid->size[0]; z++) {
            for (int64_t y = 0; y < grid->size[1]; y++) {
                T *row = to + c * grid->channel_step + grid->origin + (z * grid->height + y) * grid->width;
                memcpy(row, from, (size_t)grid->size[2] * sizeof(T));
                from += grid->size[2];
            }
        }
    }
}

/* Blocks of ROWS output channels: for each column (input channel and kernel element) the ROWS weights. */
static void pack(const void *w_v, const cpu_direct *d, void *to_v)
{
    const T *w = w_v;
    T *to = to_v;
    int64_t columns = d->in_channels * d->kernel_count, blocks = ceil_div(d->out_channels, ROWS);
    for (int64_t block = 0; block < blocks; block++) {
        for (int64_t i = 0; i < d->in_channels; i++) {
            for (int64_t k = 0; k < d->kernel_count; k++) {
                int64_t source = d->flip ? d->kernel_count - 1 - k : k;
                for (int64_t r = 0; r < ROWS; r++) {
                    int64_t o = block * ROWS + r;
                    T value = 0;
                    if (o < d->out_channels) value = w[o * d->w_out + i * d->w_in + source];
                    to[(block * columns + i * d->kernel_count + k) * ROWS + r] = value;
                }
            }
        }
    }
}

/*
 * Channels are summed by AT_ONCE, and those sums then: a sum of thousands of terms in one accumulator would
 * be as many roundings long.
 */
enum { AT_ONCE = 64 };
static inline __attribute__((always_inline)) void tile(const cpu_direct *d, const T *image, const T *weights,
                                                       const T *bias, T *restrict out, const int vectors)
{
    for (int64_t begin = 0; begin < d->in_channels || begin == 0; begin += AT_ONCE) {
        const int64_t end = min_i64(begin + AT_ONCE, d->in_channels);
        vector sum[ROWS][VECTORS];
        for (int r = 0; r < ROWS; r++)
            for (int v = 0; v < vectors; v++) sum[r][v] = (vector){0} + (begin ? 0 : bias[r]);
        for (int64_t i = begin; i < end; i++) {
            for (int64_t k = 0; k < d->kernel_count; k++, weights += ROWS) {
                const T *in = image + d->offsets[k];
                vector x[VECTORS];
                for (int v = 0; v < vectors; v++) x[v] = *(const vector *)(in + v * LANES);
                for (int r = 0; r < ROWS; r++)
                    for (int v = 0; v < vectors; v++) sum[r][v] += x[v] * weights[r];
            }
            image += d->image_step;
        }
        for (int r = 0; r < ROWS; r++) {
            for (int v = 0; v < vectors; v++) {
                vector *to = (vector *)(out + (r * VECTORS + v) * LANES);
                if (begin) sum[r][v] += *to;
                *to = sum[r][v];
            }
        }
    }
}

/* Copies the positions [p, p + count) of a tile that are outputs to their places. */
static void drop_gaps(const cpu_direct *d, const T *sums, int64_t rows, int64_t p, int64_t count, T *out)
{
    int64_t out_plane = d->out_size[0] * d->out_size[1] * d->out_size[2];
    for (int64_t done = 0; done < count;) {
        int64_t line = (p + done) / d->width, x = (p + done) % d->width;
        int64_t z = line / d->height, y = line % d->height, length = min_i64(count - done, d->width - x);
        int64_t valid = min_i64(length, d->out_size[2] - x);
        if (valid > 0 && y < d->out_size[1] && z < d->out_size[0]) {
            T *to = out + (z * d->out_size[1] + y) * d->out_size[2] + x;
            for (int64_t r = 0; r < rows; r++)
                memcpy(to + r * out_plane, sums + r * VECTORS * LANES + done, (size_t)valid * sizeof(T));
        }
        done += length;
    }
}

/* Positions [first, last) of one block of output channels. */
static void block_positions(const cpu_direct *d, const T *image, const T *weights, const T *bias,
                            int64_t block, int64_t first, int64_t last, T *out)
{
    int64_t rows = min_i64(ROWS, d->out_channels - block * ROWS);
    T start[ROWS] = {0}, sums[ROWS * VECTORS * LANES];
    for (int64_t r = 0; bias && r < rows; r++) start[r] = bias[block * ROWS + r];
    for (int64_t p = first; p < last; p += VECTORS * LANES) {
        int64_t count = min_i64(VECTORS * LANES, last - p);
        if (count > 2 * LANES)
            tile(d, image + p, weights, start, sums, VECTORS);
        else if (count > LANES)
            tile(d, image + p, weights, start, sums, 2);
        else
            tile(d, image + p, weights, start, sums, 1);
        drop_gaps(d, sums, rows, p, count, out);
    }
}

/*
 * Output channels of the blocks [begin, end) of one image and group, by stretches of positions whose inputs
 * stay in the second-level cache while the blocks pass over them.
 */
static void image_blocks(const cpu_direct *d, const void *image, const void *weights, const void *bias,
                         int64_t begin, int64_t end, void *out)
{
    enum { STRETCH_BYTES = 128 << 10, TILE = VECTORS * LANES };
    int64_t columns = d->in_channels * d->kernel_count;
    int64_t out_plane = d->out_size[0] * d->out_size[1] * d->out_size[2];
    int64_t stretch =
        round_up(max_i64(4 * TILE, STRETCH_BYTES / (d->in_channels * (int64_t)sizeof(T))), TILE);
    for (int64_t p = 0; p < d->positions; p += stretch)
        for (int64_t block = begin; block < end; block++)
            block_positions(d, image, (const T *)weights + block * columns * ROWS, bias, block, p,
                            min_i64(p + stretch, d->positions), (T *)out + block * ROWS * out_plane);
}

static inline T total(vector v)
{
    T lane[LANES], sum = 0;
    memcpy(lane, &v, sizeof(v));
    for (int width = LANES / 2; width; width /= 2)
        for (int i = 0; i < width; i++) lane[i] += lane[i + width];
    sum = lane[0];
    return sum;
}

/* ROWS channels of y against `vectors` columns of x, over all positions of some images. */
static inline __attribute__((always_inline)) void weights_tile(const cpu_direct *d, const T *const y[ROWS],
                                                               const T *const x[VECTORS], int64_t images,
                                                               T sums[ROWS][VECTORS], const int vectors)
{
    vector sum[ROWS][VECTORS];
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < vectors; v++) sum[r][v] = (vector){0};
    for (int64_t n = 0; n < images; n++) {
        int64_t x_base = n * d->x_image_step, y_base = n * d->y_image_step;
        for (int64_t p = 0; p < d->positions; p += LANES) {
            vector a[VECTORS];
            for (int v = 0; v < vectors; v++) a[v] = *(const vector *)(x[v] + x_base + p);
            for (int r = 0; r < ROWS; r++) {
                vector b = *(const vector *)(y[r] + y_base + p);
                for (int v = 0; v < vectors; v++) sum[r][v] += a[v] * b;
            }
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < vectors; v++) sums[r][v] = total(sum[r][v]);
}

/* Adds what `images` images give to the weights of one block of output channels. */
static void weights_block(const cpu_direct *d, const void *x_v, const void *y_v, int64_t images,
                          int64_t block, void *out_v)
{
    const T *x = x_v, *y[ROWS];
    T *out = out_v;
    int64_t columns = d->in_channels * d->kernel_count, rows = min_i64(ROWS, d->out_channels - block * ROWS);
    for (int64_t r = 0; r < ROWS; r++)
        y[r] = (const T *)y_v + min_i64(block * ROWS + r, d->out_channels - 1) * d->y_step;
    for (int64_t q = 0; q < columns; q += VECTORS) {
        int64_t count = min_i64(VECTORS, columns - q);
        const T *at[VECTORS];
        T sums[ROWS][VECTORS];
        for (int64_t v = 0; v < VECTORS; v++) {
            int64_t column = min_i64(q + v, columns - 1);
            at[v] = x + column / d->kernel_count * d->image_step + d->offsets[column % d->kernel_count];
        }
        if (count == VECTORS)
            weights_tile(d, y, at, images, sums, VECTORS);
        else if (count == 2)
            weights_tile(d, y, at, images, sums, 2);
        else
            weights_tile(d, y, at, images, sums, 1);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t v = 0; v < count; v++) out[(block * ROWS + r) * columns + q + v] += sums[r][v];
    }
}

extern const cpu_direct_kernels K(cpu_direct_kernels);
const cpu_direct_kernels K(cpu_direct_kernels) = {
    .rows = ROWS,
    .slack = VECTORS * LANES,
    .lanes = LANES,
    .place = place,
    .pack = pack,
    .image_blocks = image_blocks,
    .weights_block = weights_block,
};
