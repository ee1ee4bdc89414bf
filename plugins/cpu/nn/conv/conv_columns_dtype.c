/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between images and their column matrices, and sums over channels. Row (channel, kernel element) of
 * a column matrix holds for each output position the input under that kernel element, or 0 in the padding.
 */
#include "conv_columns.h"
#include "nn/words.h"

/* The outputs o in [first, last) of a line of `count` whose inputs o * stride + shift lie in [0, size). */
static inline void inside(int64_t count, int64_t size, int64_t stride, int64_t shift, int64_t *first,
                          int64_t *last)
{
    *first = shift >= 0 ? 0 : min_i64(count, ceil_div(-shift, stride));
    *last = size - shift <= 0 ? 0 : min_i64(count, ceil_div(size - shift, stride));
    if (*last < *first) *last = *first;
}

static void line_to_column(const cpu_conv *c, const E *line, int64_t kx, E *to)
{
    int64_t shift = kx * c->dilation[2] - c->padding[2], first, last, count = c->y_size[2];
    inside(count, c->x_size[2], c->stride[2], shift, &first, &last);
    for (int64_t o = 0; o < first; o++) to[o] = (E){0};
    if (c->stride[2] == 1)
        memcpy(to + first, line + first + shift, (size_t)(last - first) * sizeof(E));
    else
        for (int64_t o = first; o < last; o++) to[o] = line[o * c->stride[2] + shift];
    for (int64_t o = last; o < count; o++) to[o] = (E){0};
}

static void line_from_column(const cpu_conv *c, E *line, int64_t kx, const E *from)
{
    int64_t shift = kx * c->dilation[2] - c->padding[2], first, last;
    inside(c->y_size[2], c->x_size[2], c->stride[2], shift, &first, &last);
    for (int64_t o = first; o < last; o++) {
        E *at = line + o * c->stride[2] + shift;
        store_acc(at, load_acc(at) + load_acc(&from[o]));
    }
}

/* Copies one row of the column matrix, or adds it to the image if `back`. */
static void column_row(const cpu_conv *c, E *plane, const int64_t k[3], E *row, int32_t back)
{
    for (int64_t oz = 0; oz < c->y_size[0]; oz++) {
        int64_t z = oz * c->stride[0] + k[0] * c->dilation[0] - c->padding[0];
        for (int64_t oy = 0; oy < c->y_size[1]; oy++, row += c->y_size[2]) {
            int64_t y = oy * c->stride[1] + k[1] * c->dilation[1] - c->padding[1];
            bool in_image = z >= 0 && z < c->x_size[0] && y >= 0 && y < c->x_size[1];
            E *line = plane + (z * c->x_size[1] + y) * c->x_size[2];
            if (in_image && back)
                line_from_column(c, line, k[2], row);
            else if (in_image)
                line_to_column(c, line, k[2], row);
            else if (!back)
                memset(row, 0, (size_t)c->y_size[2] * sizeof(E));
        }
    }
}

static void each_row(const cpu_conv *c, E *x, int64_t channels, E *columns, int32_t back)
{
    int64_t positions = cpu_volume(c->y_size), plane = cpu_volume(c->x_size), k[3];
    for (int64_t i = 0; i < channels; i++)
        for (k[0] = 0; k[0] < c->kernel[0]; k[0]++)
            for (k[1] = 0; k[1] < c->kernel[1]; k[1]++)
                for (k[2] = 0; k[2] < c->kernel[2]; k[2]++, columns += positions)
                    column_row(c, x + i * plane, k, columns, back);
}

static void to_columns(const cpu_conv *c, const void *x, int64_t channels, void *columns)
{
    each_row(c, (E *)x, channels, columns, 0);
}

static void from_columns(const cpu_conv *c, const void *columns, int64_t channels, void *x)
{
    each_row(c, x, channels, (E *)columns, 1);
}

static void fill_channels(void *out, int64_t channels, int64_t volume, const void *bias)
{
    E *to = out;
    for (int64_t c = 0; c < channels; c++) {
        E value = bias ? ((const E *)bias)[c] : (E){0};
        for (int64_t i = 0; i < volume; i++) to[c * volume + i] = value;
    }
}

static acc sum_line(const E *x, int64_t count)
{
    acc lane[16] = {0};
    int64_t i = 0;
    for (; i + 16 <= count; i += 16)
        for (int j = 0; j < 16; j++) lane[j] += load_acc(&x[i + j]);
    for (int j = 0; j < (int)(count % 16); j++, i++) lane[j] += load_acc(&x[i]);
    for (int width = 8; width; width /= 2)
        for (int j = 0; j < width; j++) lane[j] += lane[j + width];
    return lane[0];
}

static void sum_channel(const void *y, int64_t batch, int64_t channels, int64_t channel, int64_t volume,
                        void *out)
{
    acc sum = 0;
    for (int64_t n = 0; n < batch; n++)
        sum += sum_line((const E *)y + (n * channels + channel) * volume, volume);
    store_acc(&((E *)out)[channel], sum);
}

CPU_KERNELS(cpu_conv_columns_kernels, .to_columns = to_columns, .from_columns = from_columns,
            .fill_channels = fill_channels, .sum_channel = sum_channel);
