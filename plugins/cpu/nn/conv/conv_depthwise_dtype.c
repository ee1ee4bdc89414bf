/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution of one plane with one kernel: for each kernel element, line by line. With stride 1 this
 * vectorises; with other strides it still needs no column matrix.
 */
#include "conv_depthwise.h"
#include "kernels/vocabulary.h"

/* The lines that one kernel element connects. */
typedef struct element {
    int64_t k[3];
    int64_t first, last; /* outputs of a line whose input is inside the image */
    int64_t shift;       /* input of output 0 */
} element;

static element element_at(const cpu_conv *c, int64_t index)
{
    element e = {.k = {index / c->kernel[2] / c->kernel[1], index / c->kernel[2] % c->kernel[1],
                       index % c->kernel[2]}};
    int64_t count = c->y_size[2], size = c->x_size[2], stride = c->stride[2];
    e.shift = e.k[2] * c->dilation[2] - c->padding[2];
    e.first = e.shift >= 0 ? 0 : min_i64(count, ceil_div(-e.shift, stride));
    e.last = size <= e.shift ? 0 : min_i64(count, ceil_div(size - e.shift, stride));
    return e;
}

/* The offset of the input line of output line (oz, oy), or -1 if it is outside the image. */
static inline int64_t line_of(const cpu_conv *c, const element *e, int64_t oz, int64_t oy)
{
    int64_t z = oz * c->stride[0] + e->k[0] * c->dilation[0] - c->padding[0];
    int64_t y = oy * c->stride[1] + e->k[1] * c->dilation[1] - c->padding[1];
    bool inside = z >= 0 && z < c->x_size[0] && y >= 0 && y < c->x_size[1];
    return inside ? (z * c->x_size[1] + y) * c->x_size[2] : -1;
}

static void add_to_outputs(const E *restrict x, E w, int64_t count, int64_t stride, E *restrict y)
{
    if (stride == 1)
        for (int64_t i = 0; i < count; i++) y[i] += w * x[i];
    else if (stride == 2)
        for (int64_t i = 0; i < count; i++) y[i] += w * x[2 * i];
    else
        for (int64_t i = 0; i < count; i++) y[i] += w * x[stride * i];
}

static void add_to_inputs(E *restrict x, E w, int64_t count, int64_t stride, const E *restrict y)
{
    if (stride == 1)
        for (int64_t i = 0; i < count; i++) x[i] += w * y[i];
    else
        for (int64_t i = 0; i < count; i++) x[stride * i] += w * y[i];
}

/* The partial sums of a kernel element's products, kept over all its lines because lines are short. */
enum { SUMS = 16, HALF = SUMS / 2 };

ALWAYS_INLINE void add_lanes(E *restrict sum, const E *restrict x, const E *restrict y, int64_t count,
                             int64_t stride)
{
    int64_t i = 0;
    for (; i + SUMS <= count; i += SUMS)
        for (int j = 0; j < SUMS; j++) sum[j] += x[(i + j) * stride] * y[i + j];
    for (; i + HALF <= count; i += HALF)
        for (int j = 0; j < HALF; j++) sum[j] += x[(i + j) * stride] * y[i + j];
    for (int64_t j = 0; j < count - i; j++) sum[j] += x[(i + j) * stride] * y[i + j];
}
static void add_products(E *restrict sum, const E *restrict x, const E *restrict y, int64_t count,
                         int64_t stride)
{
    if (stride == 1)
        add_lanes(sum, x, y, count, 1);
    else if (stride == 2)
        add_lanes(sum, x, y, count, 2);
    else
        add_lanes(sum, x, y, count, stride);
}
static E total_of(E *sum)
{
    for (int width = HALF; width; width /= 2)
        for (int j = 0; j < width; j++) sum[j] += sum[j + width];
    return sum[0];
}

/* What a pass does with a line. */
enum { FORWARD, DATA, WEIGHTS };

ALWAYS_INLINE void each_line(const cpu_conv *c, E *x, E *w, E *y, const int what)
{
    int64_t kernel = cpu_volume(c->kernel), stride = c->stride[2];
    for (int64_t index = 0; index < kernel; index++) {
        element e = element_at(c, index);
        int64_t count = e.last - e.first;
        E sum[SUMS] = {0};
        if (count <= 0) continue;
        for (int64_t oz = 0; oz < c->y_size[0]; oz++) {
            for (int64_t oy = 0; oy < c->y_size[1]; oy++) {
                int64_t line = line_of(c, &e, oz, oy);
                E *in = x + line + e.first * stride + e.shift;
                E *out = y + (oz * c->y_size[1] + oy) * c->y_size[2] + e.first;
                if (line < 0) continue;
                if (what == FORWARD) add_to_outputs(in, w[index], count, stride, out);
                if (what == DATA) add_to_inputs(in, w[index], count, stride, out);
                if (what == WEIGHTS) add_products(sum, in, out, count, stride);
            }
        }
        if (what == WEIGHTS) w[index] += total_of(sum);
    }
}

static void forward(const cpu_conv *c, const void *x, const void *w, void *y)
{
    each_line(c, (E *)x, (E *)w, y, FORWARD);
}
static void data(const cpu_conv *c, void *x, const void *w, const void *y)
{
    each_line(c, x, (E *)w, (E *)y, DATA);
}
static void weights(const cpu_conv *c, const void *x, void *w, const void *y)
{
    each_line(c, (E *)x, w, (E *)y, WEIGHTS);
}

CPU_KERNELS(cpu_conv_depthwise_kernels, .forward = forward, .data = data, .weights = weights);
