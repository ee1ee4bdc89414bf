/* SPDX-License-Identifier: Apache-2.0 */
/* Negative log likelihood; the caller has checked the targets. */
#include "nll_loss.h"
#include "kernels/vocabulary.h"

static T weight_of(const cpu_nll *s, int64_t class)
{
    return s->weight ? load(&((const E *)s->weight)[class * s->weight_step]) : 1;
}

static void forward(const cpu_nll *s, int64_t begin, int64_t end, double sums[2])
{
    for (int64_t i = begin; i < end; i++) {
        int64_t class = s->target[i], n = i / s->inner, at = i % s->inner;
        T loss = 0;
        if (class != s->ignore) {
            T w = weight_of(s, class);
            loss = -w * load(&((const E *)s->x)[n * s->x_batch + class * s->x_class + at * s->x_inner]);
            sums[0] += (double)loss;
            sums[1] += (double)w;
        }
        if (s->reduction == CPU_REDUCTION_NONE) store(&((E *)s->out)[i], loss);
    }
}

static void finish(const cpu_nll *s, const double sums[2], void *out, void *total_weight)
{
    double loss = s->reduction == CPU_REDUCTION_MEAN ? sums[0] / sums[1] : sums[0];
    if (s->reduction != CPU_REDUCTION_NONE) store((E *)out, (T)loss);
    if (total_weight) store((E *)total_weight, (T)(s->reduction == CPU_REDUCTION_NONE ? 0 : sums[1]));
}

/* The gradient is 0 except at the targets. */
static void backward(const cpu_nll *s, int64_t begin, int64_t end)
{
    T total = load((const E *)s->total_weight);
    for (int64_t n = begin; n < end; n++) {
        E *out = (E *)s->out + n * s->classes * s->inner;
        memset(out, 0, (size_t)(s->classes * s->inner) * sizeof(E));
        for (int64_t at = 0; at < s->inner; at++) {
            int64_t i = n * s->inner + at, class = s->target[i];
            T grad;
            if (class == s->ignore) continue;
            grad = load(&((const E *)s->grad)[s->reduction == CPU_REDUCTION_NONE ? i : 0]);
            if (s->reduction == CPU_REDUCTION_MEAN) grad /= total;
            store(&out[class * s->inner + at], -weight_of(s, class) * grad);
        }
    }
}

CPU_KERNELS(cpu_nll_loss_kernels, .forward = forward, .finish = finish, .backward = backward);
