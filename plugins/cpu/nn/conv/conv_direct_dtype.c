/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution with stride 1 on row-major images, without a column matrix. In a padded image the input of
 * output position p under kernel element k is at p + offset(k) for every p, so a pass is a matrix product
 * whose right side is the image itself, read at shifted places. Positions at row ends that are not outputs
 * are computed too and dropped, which costs less than a column matrix. The blocks below hold ROWS x VECTORS
 * vector accumulators in registers. conv_direct.c calls these kernels with one image or one block of weights
 * at a time.
 */
#include "conv_direct.h"
#include "kernels/vocabulary.h"

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, ROWS = 8, VECTORS = 3 };
#elif defined(__AVX2__)
enum { VECTOR_BYTES = 32, ROWS = 4, VECTORS = 3 };
#else
enum { VECTOR_BYTES = 16, ROWS = 4, VECTORS = 2 };
#endif
enum { LANES = VECTOR_BYTES / sizeof(E) };

/* A vector at any address. */
typedef E vector __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(E)), may_alias));

/* Writes the rows of a channel into the zeros of its grid: a padded image, or outputs with the gaps of the
 * image's grid. */
static void place(void *to_v, const void *from_v, const cpu_grid *grid, int64_t channels)
{
    const E *from = from_v;
    E *to = to_v;
    memset(to, 0, (size_t)(channels * grid->channel_step) * sizeof(E));
    for (int64_t c = 0; c < channels; c++) {
        for (int64_t z = 0; z < grid->size[0]; z++) {
            for (int64_t y = 0; y < grid->size[1]; y++) {
                E *row = to + c * grid->channel_step + grid->origin + (z * grid->height + y) * grid->width;
                memcpy(row, from, (size_t)grid->size[2] * sizeof(E));
                from += grid->size[2];
            }
        }
    }
}

/* Blocks of ROWS output channels: for each column (input channel and kernel element) the ROWS weights. */
static void pack(void *to_v, const void *w_v, const cpu_direct *d)
{
    const E *w = w_v;
    E *to = to_v;
    int64_t columns = d->in_channels * d->kernel_count, blocks = ceil_div(d->out_channels, ROWS);
    for (int64_t block = 0; block < blocks; block++) {
        for (int64_t i = 0; i < d->in_channels; i++) {
            for (int64_t k = 0; k < d->kernel_count; k++) {
                int64_t source = d->flip ? d->kernel_count - 1 - k : k;
                for (int64_t r = 0; r < ROWS; r++) {
                    int64_t o = block * ROWS + r;
                    E value = 0;
                    if (o < d->out_channels) value = w[o * d->w_out + i * d->w_in + source];
                    to[(block * columns + i * d->kernel_count + k) * ROWS + r] = value;
                }
            }
        }
    }
}

/* Channels are summed in groups of AT_ONCE and the sums of the groups added: fewer roundings in a row than
 * one accumulator for thousands of terms. */
enum { AT_ONCE = 64 };
ALWAYS_INLINE void tile(const cpu_direct *d, const E *image, const E *weights, const E *bias, E *restrict out,
                        const int vectors)
{
    for (int64_t begin = 0; begin < d->in_channels || begin == 0; begin += AT_ONCE) {
        const int64_t end = min_i64(begin + AT_ONCE, d->in_channels);
        vector sum[ROWS][VECTORS];
        for (int r = 0; r < ROWS; r++)
            for (int v = 0; v < vectors; v++) sum[r][v] = (vector){0} + (begin ? 0 : bias[r]);
        for (int64_t i = begin; i < end; i++) {
            for (int64_t k = 0; k < d->kernel_count; k++, weights += ROWS) {
                const E *in = image + d->offsets[k];
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

/* Copies those of the positions [p, p + count) of a tile that are outputs. */
static void drop_gaps(const cpu_direct *d, const E *sums, int64_t rows, int64_t p, int64_t count, E *out)
{
    int64_t out_plane = d->out_size[0] * d->out_size[1] * d->out_size[2];
    for (int64_t done = 0; done < count;) {
        int64_t line = (p + done) / d->width, x = (p + done) % d->width;
        int64_t z = line / d->height, y = line % d->height, length = min_i64(count - done, d->width - x);
        int64_t valid = min_i64(length, d->out_size[2] - x);
        if (valid > 0 && y < d->out_size[1] && z < d->out_size[0]) {
            E *to = out + (z * d->out_size[1] + y) * d->out_size[2] + x;
            for (int64_t r = 0; r < rows; r++)
                memcpy(to + r * out_plane, sums + r * VECTORS * LANES + done, (size_t)valid * sizeof(E));
        }
        done += length;
    }
}

/* Positions [first, last) of one block of output channels. */
static void block_positions(const cpu_direct *d, const E *image, const E *weights, const E *bias,
                            int64_t block, int64_t first, int64_t last, E *out)
{
    int64_t rows = min_i64(ROWS, d->out_channels - block * ROWS);
    E start[ROWS] = {0}, sums[ROWS * VECTORS * LANES];
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

/* The output channels of blocks [begin, end) of one image and group, in stretches of positions whose
 * inputs fit the second-level cache. */
static void image_blocks(const cpu_direct *d, const void *image, const void *weights, const void *bias,
                         int64_t begin, int64_t end, void *out)
{
    enum { STRETCH_BYTES = 128 << 10, TILE = VECTORS * LANES };
    int64_t columns = d->in_channels * d->kernel_count;
    int64_t out_plane = d->out_size[0] * d->out_size[1] * d->out_size[2];
    int64_t stretch =
        round_up(max_i64(4 * TILE, STRETCH_BYTES / (max_i64(1, d->in_channels) * (int64_t)sizeof(E))), TILE);
    for (int64_t p = 0; p < d->positions; p += stretch)
        for (int64_t block = begin; block < end; block++)
            block_positions(d, image, (const E *)weights + block * columns * ROWS, bias, block, p,
                            min_i64(p + stretch, d->positions), (E *)out + block * ROWS * out_plane);
}

static inline E total(vector v)
{
    E lane[LANES], sum = 0;
    memcpy(lane, &v, sizeof(v));
    for (int width = LANES / 2; width; width /= 2)
        for (int i = 0; i < width; i++) lane[i] += lane[i + width];
    sum = lane[0];
    return sum;
}

/* Products of ROWS channels of y with `vectors` columns of x, over all positions of some images. */
ALWAYS_INLINE void weights_tile(const cpu_direct *d, const E *const y[ROWS], const E *const x[VECTORS],
                                int64_t images, E sums[ROWS][VECTORS], const int vectors)
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

/* Adds the weight gradients of `images` images for one block of output channels. */
static void weights_block(const cpu_direct *d, const void *x_v, const void *y_v, int64_t images,
                          int64_t block, void *out_v)
{
    const E *x = x_v, *y[ROWS];
    E *out = out_v;
    int64_t columns = d->in_channels * d->kernel_count, rows = min_i64(ROWS, d->out_channels - block * ROWS);
    for (int64_t r = 0; r < ROWS; r++)
        y[r] = (const E *)y_v + min_i64(block * ROWS + r, d->out_channels - 1) * d->y_step;
    for (int64_t q = 0; q < columns; q += VECTORS) {
        int64_t count = min_i64(VECTORS, columns - q);
        const E *at[VECTORS];
        E sums[ROWS][VECTORS];
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

CPU_KERNELS(cpu_conv_direct_kernels, .rows = ROWS, .slack = VECTORS * LANES, .lanes = LANES, .place = place,
            .pack = pack, .image_blocks = image_blocks, .weights_block = weights_block);
