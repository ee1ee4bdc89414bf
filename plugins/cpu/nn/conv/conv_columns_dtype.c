/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The moves between images and their column matrices, and sums over channels: compiled once for each dtype
 * and level. Row (channel, kernel element) of a column matrix holds, for each output position, the input that
 * this kernel element meets there, or zero in the margin.
 */
#include "conv_columns.h"
#include "nn/types.h"

/* The outputs [first, last) of a line of `count` whose input `o * stride + shift` lies in [0, size). */
static inline void inside(int64_t count, int64_t size, int64_t stride, int64_t shift, int64_t *first,
                          int64_t *last)
{
    *first = shift >= 0 ? 0 : min_i64(count, ceil_div(-shift, stride));
    *last = size - shift <= 0 ? 0 : min_i64(count, ceil_div(size - shift, stride));
    if (*last < *first) *last = *first;
}

static void line_to_column(const cpu_conv *c, const T *line, int64_t kx, T *to)
{
    int64_t shift = kx * c->dilation[2] - c->padding[2], first, last, count = c->y_size[2];
    inside(count, c->x_size[2], c->stride[2], shift, &first, &last);
    for (int64_t o = 0; o < first; o++) to[o] = 0;
    if (c->stride[2] == 1)
        memcpy(to + first, line + first + shift, (size_t)(last - first) * sizeof(T));
    else
        for (int64_t o = first; o < last; o++) to[o] = line[o * c->stride[2] + shift];
    for (int64_t o = last; o < count; o++) to[o] = 0;
}

static void line_from_column(const cpu_conv *c, T *line, int64_t kx, const T *from)
{
    int64_t shift = kx * c->dilation[2] - c->padding[2], first, last;
    inside(c->y_size[2], c->x_size[2], c->stride[2], shift, &first, &last);
    for (int64_t o = first; o < last; o++) {
        T *at = line + o * c->stride[2] + shift;
        *at = store(load(*at) + load(from[o]));
    }
}

/* One row of the column matrix; `back` adds it to the image instead. */
static void column_row(const cpu_conv *c, T *plane, const int64_t k[3], T *row, int32_t back)
{
    for (int64_t oz = 0; oz < c->y_size[0]; oz++) {
        int64_t z = oz * c->stride[0] + k[0] * c->dilation[0] - c->padding[0];
        for (int64_t oy = 0; oy < c->y_size[1]; oy++, row += c->y_size[2]) {
            int64_t y = oy * c->stride[1] + k[1] * c->dilation[1] - c->padding[1];
            bool in_image = z >= 0 && z < c->x_size[0] && y >= 0 && y < c->x_size[1];
            T *line = plane + (z * c->x_size[1] + y) * c->x_size[2];
            if (in_image && back)
                line_from_column(c, line, k[2], row);
            else if (in_image)
                line_to_column(c, line, k[2], row);
            else if (!back)
                memset(row, 0, (size_t)c->y_size[2] * sizeof(T));
        }
    }
}

static void each_row(const cpu_conv *c, T *x, int64_t channels, T *columns, int32_t back)
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
    each_row(c, (T *)x, channels, columns, 0);
}

static void from_columns(const cpu_conv *c, const void *columns, int64_t channels, void *x)
{
    each_row(c, x, channels, (T *)columns, 1);
}

static void fill_channels(void *out, int64_t channels, int64_t volume, const void *bias)
{
    T *to = out;
    for (int64_t c = 0; c < channels; c++) {
        T value = bias ? ((const T *)bias)[c] : (T)0;
        for (int64_t i = 0; i < volume; i++) to[c * volume + i] = value;
    }
}

static acc sum_line(const T *x, int64_t count)
{
    acc lane[16] = {0};
    int64_t i = 0;
    for (; i + 16 <= count; i += 16)
        for (int j = 0; j < 16; j++) lane[j] += load(x[i + j]);
    for (int j = 0; j < (int)(count % 16); j++, i++) lane[j] += load(x[i]);
    for (int width = 8; width; width /= 2)
        for (int j = 0; j < width; j++) lane[j] += lane[j + width];
    return lane[0];
}

static void sum_channel(const void *y, int64_t batch, int64_t channels, int64_t channel, int64_t volume,
                        void *out)
{
    acc sum = 0;
    for (int64_t n = 0; n < batch; n++)
        sum += sum_line((const T *)y + (n * channels + channel) * volume, volume);
    ((T *)out)[channel] = store(sum);
}

extern const cpu_column_kernels K(cpu_column_kernels);
const cpu_column_kernels K(cpu_column_kernels) = {
    .to_columns = to_columns,
    .from_columns = from_columns,
    .fill_channels = fill_channels,
    .sum_channel = sum_channel,
};
