/* SPDX-License-Identifier: Apache-2.0 */
/* Distances of order p between rows, and their gradients, for one dtype and level. */
#include "distance.h"
#include "kernels/vocabulary.h"

static T power(T x, double p)
{
    return (T)pow((double)x, p);
}

/* `pairs`: of pdist, whose largest difference is NaN if one of them is; cdist passes over NaN, as ATen's does. */
static T distance_of(const E *a, const E *b, int64_t width, double p, bool pairs)
{
    T sum = 0;
    for (int64_t i = 0; i < width; i++) {
        T x = (T)fabs((double)(load(&a[i]) - load(&b[i])));
        if (p == 2)
            sum += x * x;
        else if (p == 1)
            sum += x;
        else if (p == 0)
            sum += x != x ? x : (T)(x != 0);
        else if (isinf(p))
            sum = x > sum || (pairs && x != x) ? x : sum;
        else
            sum += power(x, p);
    }
    if (p == 2) return (T)sqrt((double)sum);
    return p == 1 || p == 0 || isinf(p) ? sum : power(sum, 1 / p);
}

/* The place of the distance of rows i and j. */
static int64_t place(const cpu_distance *d, int64_t i, int64_t j)
{
    return d->pairs ? i * d->a_rows - i * (i + 1) / 2 + j - i - 1 : i * d->b_rows + j;
}

static void forward(const cpu_distance *d, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        for (int64_t j = d->pairs ? i + 1 : 0; j < d->b_rows; j++)
            store(&((E *)d->out)[place(d, i, j)],
                  distance_of((const E *)d->a + i * d->width, (const E *)d->b + j * d->width, d->width, d->p,
                              d->pairs));
}

/* Derivative of the distance with respect to one difference. */
static T slope_of(T x, T distance, double p)
{
    T sign = (T)((x > 0) - (x < 0)), size = x * sign;
    if (p == 0 || (distance == 0 && p != 1)) return 0;
    if (p == 1) return sign;
    if (p == 2) return x / distance;
    if (isinf(p)) return size == distance ? sign : 0;
    if (p < 1 && size == 0) return 0;
    return sign * power(size, p - 1) / power(distance, p - 1);
}

static void backward(const cpu_distance *d, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const E *a = (const E *)d->a + i * d->width;
        for (int64_t k = 0; k < d->width; k++) {
            T sum = 0;
            for (int64_t j = 0; j < d->b_rows; j++) {
                int64_t at = d->pairs && j < i ? place(d, j, i) : place(d, i, j);
                if (d->pairs && j == i) continue;
                sum += load(&((const E *)d->grad)[at]) *
                       slope_of(load(&a[k]) - load(&((const E *)d->b)[j * d->width + k]),
                                load(&((const E *)d->distance)[at]), d->p);
            }
            store(&((E *)d->out)[i * d->width + k], sum);
        }
    }
}

CPU_KERNELS(cpu_distance_kernels, .forward = forward, .backward = backward);
