/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layer and group normalisation for one dtype and level: both normalise runs, and differ in which weight an
 * element has. With x^ = (x - mean) * rstd and h = grad * weight the gradient of x is
 * rstd * (h - average(h) - x^ * average(h * x^)).
 */
#include "nn/lanes.h"
#include "norm.h"
#include "params.h"
#include "nn/runs.h"

static inline int64_t channel_of(const cpu_runs *runs, int64_t run, int64_t segment)
{
    return run % runs->groups * runs->segments + segment;
}

static void run_moments(const cpu_runs *runs, const T *x, int64_t length, int64_t run)
{
    acc near = load(x[0]), sum, square;
    double mean, var;
    if (length <= 4096) { /* twice from the cache: the mean itself is nearest */
        near = lanes_sum(x, length) / (acc)length;
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
    ((acc *)runs->mean)[run] = (acc)mean;
    ((acc *)runs->rstd)[run] = (acc)(1 / sqrt(var + runs->eps));
}

/* Constants: mean, factor, addend. */
static acc normalised(acc x, acc y, acc v, acc w, const acc *c)
{
    return (x - c[0]) * c[1] + c[2];
}
static acc by_weight_and_bias(acc x, acc y, acc weight, acc bias, const acc *c)
{
    return (x - c[0]) * c[1] * weight + bias;
}
static acc by_weight(acc x, acc y, acc weight, acc bias, const acc *c)
{
    return (x - c[0]) * c[1] * weight;
}
static acc by_bias(acc x, acc y, acc weight, acc bias, const acc *c)
{
    return (x - c[0]) * c[1] + bias;
}
/* Constants: mean, rstd, average of h, factor of x - mean, weight. */
static acc gradient(acc g, acc x, acc v, acc w, const acc *c)
{
    return (g * c[4] - c[2] - (x - c[0]) * c[3]) * c[1];
}
static acc gradient_by_element(acc g, acc x, acc weight, acc w, const acc *c)
{
    return (g * weight - c[2] - (x - c[0]) * c[3]) * c[1];
}

static void forward(const cpu_runs *runs, int64_t begin, int64_t end)
{
    int64_t length = runs->segments * runs->width;
    const acc *weight = runs->weight, *bias = runs->bias;
    for (int64_t run = begin; run < end; run++) {
        const T *restrict x = (const T *)runs->x + run * length;
        T *restrict out = (T *)runs->out + run * length;
        acc mean, rstd;
        run_moments(runs, x, length, run);
        mean = ((const acc *)runs->mean)[run];
        rstd = ((const acc *)runs->rstd)[run];
        if (runs->by_element && (weight || bias)) {
            const acc constants[] = {mean, rstd};
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
            acc by = weight ? rstd * weight[c] : rstd, b = bias ? bias[c] : 0;
            run_map((run_operands){.x = x + first}, runs->width, (const acc[]){mean, by, b}, normalised,
                    out + first);
        }
    }
}

/* Sums of h and of h * (x - mean) of one run. */
static void weighted_sums(const cpu_runs *runs, int64_t run, const T *restrict g, const T *restrict x,
                          acc mean, double *out_sum, double *out_dot)
{
    const acc *restrict weight = runs->weight;
    acc sum, dot;
    *out_sum = *out_dot = 0;
    if (runs->by_element) {
        lanes_products(g, x, weight, runs->width, mean, &sum, &dot);
        *out_sum = (double)sum;
        *out_dot = (double)dot;
        return;
    }
    for (int64_t s = 0; s < runs->segments; s++) {
        acc w = weight ? weight[channel_of(runs, run, s)] : 1;
        lanes_products(g + s * runs->width, x + s * runs->width, NULL, runs->width, mean, &sum, &dot);
        *out_sum += (double)(sum * w);
        *out_dot += (double)(dot * w);
    }
}

static void backward(const cpu_runs *runs, int64_t begin, int64_t end)
{
    int64_t length = runs->segments * runs->width;
    const acc *weight = runs->weight;
    for (int64_t run = begin; run < end; run++) {
        const T *restrict x = (const T *)runs->x + run * length, *restrict g =
                                                                     (const T *)runs->grad + run * length;
        T *restrict out = (T *)runs->out + run * length;
        acc mean = ((const acc *)runs->mean)[run], rstd = ((const acc *)runs->rstd)[run], average, factor;
        double sum, dot;
        weighted_sums(runs, run, g, x, mean, &sum, &dot);
        average = (acc)(sum / (double)length);
        factor = (acc)(dot / (double)length) * rstd * rstd;
        for (int64_t s = 0; s < runs->segments; s++) {
            acc w = weight && !runs->by_element ? weight[channel_of(runs, run, s)] : 1;
            int64_t first = s * runs->width;
            const acc constants[] = {mean, rstd, average, factor, w};
            run_operands r = {.x = g + first, .y = x + first};
            if (weight && runs->by_element) {
                r.v = weight;
                run_map(r, runs->width, constants, gradient_by_element, out + first);
            } else
                run_map(r, runs->width, constants, gradient, out + first);
        }
    }
}

/* Elements that are read at a time. */
enum { STRETCH = 256 };

static void row_parameters(const cpu_runs *runs, int64_t begin, int64_t end, void *weight_v, void *bias_v)
{
    acc *restrict weight = weight_v, *restrict bias = bias_v;
    for (int64_t run = begin; run < end; run++) {
        const T *x = (const T *)runs->x + run * runs->width, *g = (const T *)runs->grad + run * runs->width;
        acc mean = ((const acc *)runs->mean)[run], rstd = ((const acc *)runs->rstd)[run];
        for (int64_t first = 0; first < runs->width; first += STRETCH) {
            acc rooms[2][STRETCH];
            int64_t length = min_i64(STRETCH, runs->width - first);
            const acc *restrict values = run_read(g + first, length, rooms[0]);
            const acc *restrict from = run_read(x + first, length, rooms[1]);
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
        acc sum, dot;
        lanes_products((const T *)runs->grad + at, (const T *)runs->x + at, NULL, runs->width,
                       ((const acc *)runs->mean)[run], &sum, &dot);
        weights += (double)(dot * ((const acc *)runs->rstd)[run]);
        biases += (double)sum;
    }
    ((acc *)weight)[channel] = (acc)weights;
    ((acc *)bias)[channel] = (acc)biases;
}

static void add(const void *from, int64_t count, void *to)
{
    for (int64_t i = 0; i < count; i++) ((acc *)to)[i] += ((const acc *)from)[i];
}

extern const cpu_layer_norm_kernels K(cpu_layer_norm_kernels);
const cpu_layer_norm_kernels K(cpu_layer_norm_kernels) = {
    .acc_bytes = sizeof(acc),
    .read = params_read,
    .write = params_write,
    .forward = forward,
    .backward = backward,
    .row_parameters = row_parameters,
    .channel_parameters = channel_parameters,
    .add = add,
};
