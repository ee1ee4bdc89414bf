/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resampling for one dtype and level. A line of outputs is made in two steps: the input lines that it needs
 * are added up with their weights, which is vector code; then each output gathers from that sum. Backward
 * goes the same way in reverse.
 */
#include "resample.h"
#include "types.h"

/* What is computed in: integers in float. */
#if IS_INTEGER
typedef float real;
#define TO_REAL(x) (float)(x)
static inline T from_real(real x)
{
    double nearest = rint((double)x), low = TNI_KEY == 11 || TNI_KEY == 12 ? 0 : (double)LOWEST;
    double high = TNI_KEY == 11 ? 255 : TNI_KEY == 10 ? 127 : TNI_KEY == 9 ? 32767 : 2147483647;
    return (T)(nearest < low ? low : nearest > high ? high : nearest);
}
#else
typedef acc real;
#define TO_REAL(x) load(x)
static inline T from_real(real x)
{
    return store(x);
}
#endif

/* Stretches of a plane: the lines that output line (oz, oy) needs are at z[i], y[j] with weights. */
static void add_line(const T *restrict from, real weight, int64_t count, real *restrict to)
{
    for (int64_t i = 0; i < count; i++) to[i] += TO_REAL(from[i]) * weight;
}

static void sum_lines(const tni_resample *r, const T *plane, int64_t oz, int64_t oy, real *line)
{
    const tni_taps *z = &r->taps[0], *y = &r->taps[1];
    for (int64_t i = 0; i < r->in[2]; i++) line[i] = 0;
    for (int64_t i = 0; i < z->taps; i++) {
        for (int64_t j = 0; j < y->taps; j++) {
            double weight = z->weight[oz * z->taps + i] * y->weight[oy * y->taps + j];
            int64_t at = z->at[oz * z->taps + i] * r->in[1] + y->at[oy * y->taps + j];
            if (weight != 0) add_line(plane + at * r->in[2], (real)weight, r->in[2], line);
        }
    }
}

static void forward(const tni_resample *r, int64_t begin, int64_t end, void *line_v)
{
    const tni_taps *x = &r->taps[2];
    real *line = line_v;
    int64_t in = r->in[0] * r->in[1] * r->in[2];
    T *out = (T *)r->y + begin * r->out[0] * r->out[1] * r->out[2];
    for (int64_t plane = begin; plane < end; plane++) {
        for (int64_t row = 0; row < r->out[0] * r->out[1]; row++, out += r->out[2]) {
            sum_lines(r, (const T *)r->x + plane * in, row / r->out[1], row % r->out[1], line);
            for (int64_t o = 0; o < r->out[2]; o++) {
                real sum = 0;
                for (int64_t t = o * x->taps; t < (o + 1) * x->taps; t++)
                    sum += line[x->at[t]] * (real)x->weight[t];
                out[o] = from_real(sum);
            }
        }
    }
}

static void spread_line(const tni_resample *r, const real *restrict line, int64_t oz, int64_t oy, real *sums)
{
    const tni_taps *z = &r->taps[0], *y = &r->taps[1];
    for (int64_t i = 0; i < z->taps; i++) {
        for (int64_t j = 0; j < y->taps; j++) {
            real weight = (real)(z->weight[oz * z->taps + i] * y->weight[oy * y->taps + j]);
            int64_t at = z->at[oz * z->taps + i] * r->in[1] + y->at[oy * y->taps + j];
            real *restrict to = sums + at * r->in[2];
            for (int64_t k = 0; k < r->in[2]; k++) to[k] += line[k] * weight;
        }
    }
}

static void backward(const tni_resample *r, int64_t begin, int64_t end, void *line_v, void *sums_v)
{
    const tni_taps *x = &r->taps[2];
    real *line = line_v, *sums = sums_v;
    int64_t in = r->in[0] * r->in[1] * r->in[2];
    const T *grad = (const T *)r->x + begin * r->out[0] * r->out[1] * r->out[2];
    for (int64_t plane = begin; plane < end; plane++) {
        T *out = (T *)r->y + plane * in;
        for (int64_t i = 0; i < in; i++) sums[i] = 0;
        for (int64_t row = 0; row < r->out[0] * r->out[1]; row++, grad += r->out[2]) {
            for (int64_t i = 0; i < r->in[2]; i++) line[i] = 0;
            for (int64_t o = 0; o < r->out[2]; o++)
                for (int64_t t = o * x->taps; t < (o + 1) * x->taps; t++)
                    line[x->at[t]] += TO_REAL(grad[o]) * (real)x->weight[t];
            spread_line(r, line, row / r->out[1], row % r->out[1], sums);
        }
        for (int64_t i = 0; i < in; i++) out[i] = from_real(sums[i]);
    }
}

static void move(const tni_resample *r, int64_t begin, int64_t end)
{
    int64_t in = r->in[0] * r->in[1] * r->in[2];
    T *out = (T *)r->y + begin * r->out[0] * r->out[1] * r->out[2];
    for (int64_t plane = begin; plane < end; plane++) {
        for (int64_t row = 0; row < r->out[0] * r->out[1]; row++, out += r->out[2]) {
            int64_t at = r->taps[0].at[row / r->out[1]] * r->in[1] + r->taps[1].at[row % r->out[1]];
            const T *from = (const T *)r->x + plane * in + at * r->in[2];
            for (int64_t o = 0; o < r->out[2]; o++) out[o] = from[r->taps[2].at[o]];
        }
    }
}

static void fill(void *to, int64_t count, const double number[2])
{
    T value = store(from_number(number)), *out = to;
    for (int64_t i = 0; i < count; i++) out[i] = value;
}

extern const tni_resample_kernels K(tni_resample_kernels);
const tni_resample_kernels K(tni_resample_kernels) = {
    .line_bytes = sizeof(real),
    .acc_bytes = sizeof(real),
    .forward = forward,
    .backward = backward,
    .move = move,
    .fill = fill,
};
