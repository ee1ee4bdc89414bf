/* SPDX-License-Identifier: Apache-2.0 */
/* Negative log likelihood for one dtype and level. Targets have been checked before. */
#include "nll_loss.h"
#include "nn/types.h"

static acc weight_of(const cpu_nll *s, int64_t class)
{
    return s->weight ? load(((const T *)s->weight)[class * s->weight_step]) : 1;
}

static void forward(const cpu_nll *s, int64_t begin, int64_t end, double sums[2])
{
    for (int64_t i = begin; i < end; i++) {
        int64_t class = s->target[i], n = i / s->inner, at = i % s->inner;
        acc loss = 0;
        if (class != s->ignore) {
            acc w = weight_of(s, class);
            loss = -w * load(((const T *)s->x)[n * s->x_batch + class * s->x_class + at * s->x_inner]);
            sums[0] += (double)loss;
            sums[1] += (double)w;
        }
        if (s->reduction == CPU_REDUCTION_NONE) ((T *)s->out)[i] = store(loss);
    }
}

static void finish(const cpu_nll *s, const double sums[2], void *out, void *total_weight)
{
    double loss = s->reduction == CPU_REDUCTION_MEAN ? sums[0] / sums[1] : sums[0];
    if (s->reduction != CPU_REDUCTION_NONE) *(T *)out = store((acc)loss);
    if (total_weight) *(T *)total_weight = store((acc)(s->reduction == CPU_REDUCTION_NONE ? 0 : sums[1]));
}

/* The gradient is zero but at the targets. */
static void backward(const cpu_nll *s, int64_t begin, int64_t end)
{
    acc total = load(*(const T *)s->total_weight);
    for (int64_t n = begin; n < end; n++) {
        T *out = (T *)s->out + n * s->classes * s->inner;
        memset(out, 0, (size_t)(s->classes * s->inner) * sizeof(T));
        for (int64_t at = 0; at < s->inner; at++) {
            int64_t i = n * s->inner + at, class = s->target[i];
            acc grad;
            if (class == s->ignore) continue;
            grad = load(((const T *)s->grad)[s->reduction == CPU_REDUCTION_NONE ? i : 0]);
            if (s->reduction == CPU_REDUCTION_MEAN) grad /= total;
            out[class * s->inner + at] = store(-weight_of(s, class) * grad);
        }
    }
}

extern const cpu_nll_kernels K(cpu_nll_kernels);
const cpu_nll_kernels K(cpu_nll_kernels) = {.forward = forward, .finish = finish, .backward = backward};
