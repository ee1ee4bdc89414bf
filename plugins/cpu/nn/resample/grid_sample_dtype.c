/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling of images at the positions of a grid. In each dimension a position gives up to four taps: an
 * input, its weight, and the derivative of the weight with respect to the grid value. Values and gradients
 * are sums over products of taps. Taps outside the image are skipped.
 */
#include "grid_sample.h"
#include "kernels/vocabulary.h"

typedef struct taps {
    int count;
    int64_t at[4]; /* -1: outside */
    T weight[4], slope[4];
} taps;

/* The position in the image of a grid value in [-1, 1]; *slope is the derivative. */
static inline T unnormalised(const cpu_grid_sample *s, T x, int64_t size, T *slope)
{
    *slope = s->align ? (T)(size - 1) / 2 : (T)size / 2;
    return s->align ? (x + 1) / 2 * (T)(size - 1) : ((x + 1) * (T)size - 1) / 2;
}

static T reflected(T x, int64_t twice_low, int64_t twice_high, T *slope)
{
    T low = (T)twice_low / 2, span = (T)(twice_high - twice_low) / 2, extra, flips;
    if (twice_low == twice_high) {
        *slope = 0;
        return 0;
    }
    x -= low;
    if (x < 0) {
        x = -x;
        *slope = -*slope;
    }
    extra = (T)fmod((double)x, (double)span);
    flips = (T)floor((double)(x / span));
    if (fmod((double)flips, 2) == 0) return extra + low;
    *slope = -*slope;
    return span - extra + low;
}

/* Moves a position into the image by border or reflection padding; zero padding leaves it. */
static inline T padded(const cpu_grid_sample *s, T x, int64_t size, T *slope)
{
    if (s->padding == CPU_GRID_REFLECTION)
        x = s->align ? reflected(x, 0, 2 * (size - 1), slope) : reflected(x, -1, 2 * size - 1, slope);
    if (s->padding != CPU_GRID_ZEROS) {
        if (!(x > 0)) {
            *slope = 0;
            return 0;
        }
        if (x >= (T)(size - 1)) {
            *slope = 0;
            return (T)(size - 1);
        }
    }
    return x > -1e9 && x < 1e9 ? x : -100; /* positions far away, and NaN, are outside */
}

static int64_t bounded(int64_t at, int64_t size)
{
    return at >= 0 && at < size ? at : -1;
}

/* Coefficients of cubic convolution with a = -0.75 and their derivatives. */
static void cubic_weights(T t, T slope, taps *out)
{
    const T a = (T)-0.75;
    T far[2] = {t + 1, 2 - t}, near[2] = {t, 1 - t};
    for (int side = 0; side < 2; side++) {
        T x = far[side], y = near[side], sign = side ? -slope : slope;
        int outer = side ? 3 : 0, inner = side ? 2 : 1;
        out->weight[outer] = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
        out->weight[inner] = ((a + 2) * y - (a + 3)) * y * y + 1;
        out->slope[outer] = ((3 * a * x - 10 * a) * x + 8 * a) * sign;
        out->slope[inner] = (3 * (a + 2) * y - 2 * (a + 3)) * y * sign;
    }
}

static void cubic_taps(const cpu_grid_sample *s, T x, int64_t size, T slope, taps *out)
{
    T low, ignored = 1;
    if (!(x > -1e9 && x < 1e9)) x = -100;
    low = (T)floor((double)x);
    out->count = 4;
    cubic_weights(x - low, slope, out);
    for (int i = 0; i < 4; i++)
        out->at[i] = bounded((int64_t)padded(s, low + (T)(i - 1), size, &ignored), size);
}

static void one_tap(int64_t at, taps *out)
{
    out->count = 1;
    out->at[0] = at;
    out->weight[0] = 1;
    out->slope[0] = 0;
}

static inline void make_taps(const cpu_grid_sample *s, T x, int64_t size, taps *out)
{
    T slope, low;
    x = unnormalised(s, x, size, &slope);
    if (s->interpolation == CPU_GRID_CUBIC) {
        cubic_taps(s, x, size, slope, out);
        return;
    }
    x = padded(s, x, size, &slope);
    if (s->interpolation == CPU_GRID_NEAREST) {
        one_tap(bounded((int64_t)rint((double)x), size), out);
        return;
    }
    low = (T)floor((double)x);
    out->count = 2;
    out->at[0] = bounded((int64_t)low, size);
    out->at[1] = bounded((int64_t)low + 1, size);
    out->weight[0] = low + 1 - x;
    out->weight[1] = x - low;
    out->slope[0] = -slope;
    out->slope[1] = slope;
}

/* Taps of position `at` of image n: dimension 2 is x. */
static void position_taps(const cpu_grid_sample *s, int64_t index, taps out[3])
{
    const E *grid = (const E *)s->grid + index * s->spatial;
    if (s->spatial < 3) one_tap(0, &out[0]);
    for (int64_t d = 0; d < s->spatial; d++) make_taps(s, load(&grid[d]), s->in[2 - d], &out[2 - d]);
}

/* The products of taps of all dimensions that are inside the image. */
typedef struct point {
    int count;
    int64_t at[64];
    T weight[64];
} point;

static inline void join_taps(const cpu_grid_sample *s, const taps t[3], point *out)
{
    out->count = 0;
    for (int i = 0; i < t[0].count; i++) {
        for (int j = 0; j < t[1].count; j++) {
            int64_t row = (t[0].at[i] * s->in[1] + t[1].at[j]) * s->in[2];
            T weight = t[0].weight[i] * t[1].weight[j];
            if (t[0].at[i] < 0 || t[1].at[j] < 0) continue;
            for (int k = 0; k < t[2].count; k++) {
                if (t[2].at[k] < 0) continue;
                out->at[out->count] = row + t[2].at[k];
                out->weight[out->count++] = weight * t[2].weight[k];
            }
        }
    }
}

static void forward(const cpu_grid_sample *s, int64_t begin, int64_t end)
{
    int64_t in = cpu_volume(s->in), out = cpu_volume(s->out), n = begin / out, at = begin % out;
    for (int64_t index = begin; index < end; index++) {
        const E *x = (const E *)s->x + n * s->channels * in;
        E *y = (E *)s->y + n * s->channels * out + at;
        taps t[3];
        point p;
        position_taps(s, index, t);
        join_taps(s, t, &p);
        for (int64_t c = 0; c < s->channels; c++, x += in) {
            T sum = 0;
            if (p.count == 4)
                sum = load(&x[p.at[0]]) * p.weight[0] + load(&x[p.at[1]]) * p.weight[1] +
                      (load(&x[p.at[2]]) * p.weight[2] + load(&x[p.at[3]]) * p.weight[3]);
            else
                for (int k = 0; k < p.count; k++) sum += load(&x[p.at[k]]) * p.weight[k];
            store(&y[c * out], sum);
        }
        if (++at == out) {
            at = 0;
            n++;
        }
    }
}

/* Adds the gradient of one output of one channel to the image and to the three slopes. */
static void spread(const cpu_grid_sample *s, const taps t[3], const E *x, T grad, T *sums, T slopes[3])
{
    for (int i = 0; i < t[0].count; i++) {
        for (int j = 0; j < t[1].count; j++) {
            for (int k = 0; k < t[2].count; k++) {
                int64_t at = (t[0].at[i] * s->in[1] + t[1].at[j]) * s->in[2] + t[2].at[k];
                T value;
                if (t[0].at[i] < 0 || t[1].at[j] < 0 || t[2].at[k] < 0) continue;
                if (sums) sums[at] += t[0].weight[i] * t[1].weight[j] * t[2].weight[k] * grad;
                value = load(&x[at]) * grad;
                slopes[0] += t[0].slope[i] * t[1].weight[j] * t[2].weight[k] * value;
                slopes[1] += t[0].weight[i] * t[1].slope[j] * t[2].weight[k] * value;
                slopes[2] += t[0].weight[i] * t[1].weight[j] * t[2].slope[k] * value;
            }
        }
    }
}

static void backward(const cpu_grid_sample *s, int64_t begin, int64_t end, void *sums_v)
{
    int64_t in = cpu_volume(s->in), out = cpu_volume(s->out), image = s->channels * in;
    T *sums = s->y ? sums_v : NULL;
    for (int64_t n = begin; n < end; n++) {
        if (sums) memset(sums, 0, (size_t)image * sizeof(T));
        for (int64_t at = 0; at < out; at++) {
            T slopes[3] = {0, 0, 0};
            taps t[3];
            position_taps(s, n * out + at, t);
            for (int64_t c = 0; c < s->channels; c++)
                spread(s, t, (const E *)s->x + n * image + c * in,
                       load(&((const E *)s->grad)[(n * s->channels + c) * out + at]),
                       sums ? sums + c * in : NULL, slopes);
            for (int64_t d = 0; s->grid_grad && d < s->spatial; d++)
                store(&((E *)s->grid_grad)[(n * out + at) * s->spatial + d], slopes[2 - d]);
        }
        for (int64_t i = 0; sums && i < image; i++) store(&((E *)s->y)[n * image + i], sums[i]);
    }
}

CPU_KERNELS(cpu_grid_sample_kernels, .acc_bytes = sizeof(T), .forward = forward, .backward = backward);
