/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layer and group normalisation: both normalise runs, and differ in the weight of an element. With x^ = (x -
 * mean) * rstd and h = grad * weight, the gradient of x is rstd * (h - average(h) - x^ * average(h * x^)).
 */
#include "nn/lanes.h"
#include "norm.h"
#include "params.h"
#include "nn/runs.h"

static inline int64_t channel_of(const cpu_runs *runs, int64_t run, int64_t segment)
{
    return run % runs->groups * runs->segments + segment;
}

static void run_moments(const cpu_runs *runs, const E *x, int64_t length, int64_t run)
{
    T near = load(&x[0]), sum, square;
    double mean, var;
    if (runs->about_zero) {
        double squares = 0;
        for (int64_t i = 0; i < length; i += 4096) {
            lanes_moments(x + i, min_i64(4096, length - i), 0, &sum, &square);
            squares += (double)square;
        }
        mean = 0;
        var = squares / (double)length;
    } else if (length <= 4096) { /* the run is in the cache: take its moments about the mean itself */
        near = lanes_sum(x, length) / (T)length;
        lanes_moments(x, length, near, &sum, &square);
        mean = (double)near + (double)sum / (double)length;
        var = (double)square / (double)length - (double)sum / (double)length * ((double)sum / (double)length);
    } else {
        double sums = 0, squares = 0;
        near = lanes_sum(x, 4096) / 4096;
        for (int64_t i = 0; i < length; i += 4096) {
            lanes_moments(x + i, min_i64(4096, length - i), near, &sum, &square);
            sums += (double)sum;
            squares += (double)square;
        }
        mean = (double)near + sums / (double)length;
        var = squares / (double)length - sums / (double)length * (sums / (double)length);
    }
    if (var < 0) var = 0;
    ((T *)runs->mean)[run] = (T)mean;
    ((T *)runs->rstd)[run] = (T)(1 / sqrt(var + runs->eps));
}

/* Constants: mean, factor, addend. */
ALWAYS_INLINE T normalised(T x, T y, T v, T w, const T *c)
{
    return (x - c[0]) * c[1] + c[2];
}
ALWAYS_INLINE T by_weight_and_bias(T x, T y, T weight, T bias, const T *c)
{
    return (x - c[0]) * c[1] * weight + bias;
}
ALWAYS_INLINE T by_weight(T x, T y, T weight, T bias, const T *c)
{
    return (x - c[0]) * c[1] * weight;
}
ALWAYS_INLINE T by_bias(T x, T y, T weight, T bias, const T *c)
{
    return (x - c[0]) * c[1] + bias;
}
/* Constants: mean, rstd, average of h, factor of x - mean, weight. */
ALWAYS_INLINE T gradient(T g, T x, T v, T w, const T *c)
{
    return (g * c[4] - c[2] - (x - c[0]) * c[3]) * c[1];
}
ALWAYS_INLINE T gradient_by_element(T g, T x, T weight, T w, const T *c)
{
    return (g * weight - c[2] - (x - c[0]) * c[3]) * c[1];
}

static void forward(const cpu_runs *runs, int64_t begin, int64_t end)
{
    int64_t length = runs->segments * runs->width;
    const T *weight = runs->weight, *bias = runs->bias;
    for (int64_t run = begin; run < end; run++) {
        const E *restrict x = (const E *)runs->x + run * length;
        E *restrict out = (E *)runs->out + run * length;
        T mean, rstd;
        run_moments(runs, x, length, run);
        mean = ((const T *)runs->mean)[run];
        rstd = ((const T *)runs->rstd)[run];
        if (runs->by_element && (weight || bias)) {
            const T constants[] = {mean, rstd};
            if (weight && bias)
                run_map((run_operands){.x = x, .v = weight, .w = bias}, length, constants, by_weight_and_bias,
                        out);
            else if (weight)
                run_map((run_operands){.x = x, .v = weight}, length, constants, by_weight, out);
            else
                run_map((run_operands){.x = x, .w = bias}, length, constants, by_bias, out);
            continue;
        }
        for (int64_t s = 0; s < runs->segments; s++) {
            int64_t c = channel_of(runs, run, s), first = s * runs->width;
            T by = weight ? rstd * weight[c] : rstd, b = bias ? bias[c] : 0;
            run_map((run_operands){.x = x + first}, runs->width, (const T[]){mean, by, b}, normalised,
                    out + first);
        }
    }
}

/* Sums of h and of h * (x - mean) of one run. */
static void weighted_sums(const cpu_runs *runs, int64_t run, const E *restrict g, const E *restrict x, T mean,
                          double *out_sum, double *out_dot)
{
    const T *restrict weight = runs->weight;
    T sum, dot;
    *out_sum = *out_dot = 0;
    if (runs->by_element) {
        lanes_products(g, x, weight, runs->width, mean, &sum, &dot);
        *out_sum = (double)sum;
        *out_dot = (double)dot;
        return;
    }
    for (int64_t s = 0; s < runs->segments; s++) {
        T w = weight ? weight[channel_of(runs, run, s)] : 1;
        lanes_products(g + s * runs->width, x + s * runs->width, NULL, runs->width, mean, &sum, &dot);
        *out_sum += (double)(sum * w);
        *out_dot += (double)(dot * w);
    }
}

static void backward(const cpu_runs *runs, int64_t begin, int64_t end)
{
    int64_t length = runs->segments * runs->width;
    const T *weight = runs->weight;
    for (int64_t run = begin; run < end; run++) {
        const E *restrict x = (const E *)runs->x + run * length, *restrict g =
                                                                     (const E *)runs->grad + run * length;
        E *restrict out = (E *)runs->out + run * length;
        T mean = ((const T *)runs->mean)[run], rstd = ((const T *)runs->rstd)[run], average, factor;
        double sum, dot;
        weighted_sums(runs, run, g, x, mean, &sum, &dot);
        average = runs->about_zero ? 0 : (T)(sum / (double)length);
        factor = (T)(dot / (double)length) * rstd * rstd;
        for (int64_t s = 0; s < runs->segments; s++) {
            T w = weight && !runs->by_element ? weight[channel_of(runs, run, s)] : 1;
            int64_t first = s * runs->width;
            const T constants[] = {mean, rstd, average, factor, w};
            run_operands r = {.x = g + first, .y = x + first};
            if (weight && runs->by_element) {
                r.v = weight;
                run_map(r, runs->width, constants, gradient_by_element, out + first);
            } else
                run_map(r, runs->width, constants, gradient, out + first);
        }
    }
}

/* Elements that are processed together. */
enum { STRETCH = 256 };

static void row_parameters(const cpu_runs *runs, int64_t begin, int64_t end, void *weight_v, void *bias_v)
{
    T *restrict weight = weight_v, *restrict bias = bias_v;
    for (int64_t run = begin; run < end; run++) {
        const E *x = (const E *)runs->x + run * runs->width, *g = (const E *)runs->grad + run * runs->width;
        T mean = ((const T *)runs->mean)[run], rstd = ((const T *)runs->rstd)[run];
        for (int64_t first = 0; first < runs->width; first += STRETCH) {
            T rooms[2][STRETCH];
            int64_t length = min_i64(STRETCH, runs->width - first);
            const T *restrict values = run_read(g + first, length, rooms[0]);
            const T *restrict from = run_read(x + first, length, rooms[1]);
            for (int64_t i = 0; i < length; i++) {
                weight[first + i] += values[i] * (from[i] - mean) * rstd;
                bias[first + i] += values[i];
            }
        }
    }
}

static void channel_parameters(const cpu_runs *runs, int64_t channel, void *weight, void *bias)
{
    int64_t group = channel / runs->segments, segment = channel % runs->segments;
    double weights = 0, biases = 0;
    for (int64_t run = group; run < runs->count; run += runs->groups) {
        int64_t at = (run * runs->segments + segment) * runs->width;
        T sum, dot;
        lanes_products((const E *)runs->grad + at, (const E *)runs->x + at, NULL, runs->width,
                       ((const T *)runs->mean)[run], &sum, &dot);
        weights += (double)(dot * ((const T *)runs->rstd)[run]);
        biases += (double)sum;
    }
    ((T *)weight)[channel] = (T)weights;
    ((T *)bias)[channel] = (T)biases;
}

static void add(void *to, const void *from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) ((T *)to)[i] += ((const T *)from)[i];
}

CPU_KERNELS(cpu_layer_norm_kernels, .acc_bytes = sizeof(T), .read = params_read, .write = params_write,
            .forward = forward, .backward = backward, .row_parameters = row_parameters,
            .channel_parameters = channel_parameters, .add = add);
