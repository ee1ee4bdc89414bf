/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of optimisers in one pass over their tensors, for one dtype and level. */
#include "fused.h"
#include "kernels/vocabulary.h"

/* The gradient of element i: unscaled and stored, then the one to descend along. */
ALWAYS_INLINE T gradient(const cpu_fused *f, E *grad, int64_t i)
{
    T g = load(&grad[i]);
    if (f->is_scaled) {
        g /= (T)f->grad_scale;
        store(&grad[i], g);
        g = load(&grad[i]);
    }
    return f->maximize ? -g : g;
}

static void sgd(const cpu_fused *f, const cpu_fused_item *item, int64_t begin, int64_t end)
{
    E *restrict param = item->data[CPU_FUSED_PARAM], *restrict grad = item->data[CPU_FUSED_GRAD];
    E *restrict buffer = item->data[CPU_FUSED_FIRST];
    const T decay = (T)f->weight_decay, lr = (T)f->lr, momentum = (T)f->momentum,
            rest = (T)(1 - f->dampening);
    for (int64_t i = begin; i < end; i++) {
        T p = load(&param[i]), g = gradient(f, grad, i);
        if (decay != 0) g += p * decay;
        if (buffer) {
            T b = f->is_first_step ? g : momentum * load(&buffer[i]) + rest * g;
            store(&buffer[i], b);
            g = f->nesterov ? g + momentum * b : b;
        }
        store(&param[i], p - lr * g);
    }
}

/* D. Kingma, J. Ba, "Adam", 2015; decoupled decay: I. Loshchilov, F. Hutter, 2019. */
ALWAYS_INLINE void adam_loop(const cpu_fused *f, const cpu_fused_item *item, int64_t begin, int64_t end,
                             const bool keeps_largest)
{
    E *restrict param = item->data[CPU_FUSED_PARAM], *restrict grad = item->data[CPU_FUSED_GRAD];
    E *restrict first = item->data[CPU_FUSED_FIRST], *restrict second = item->data[CPU_FUSED_SECOND];
    E *restrict largest = item->data[CPU_FUSED_LARGEST];
    const T root = (T)sqrt(1 - pow(f->beta2, item->step)), eps = (T)f->eps;
    const T step = (T)(f->lr / (1 - pow(f->beta1, item->step))), rest1 = (T)(1 - f->beta1),
            rest2 = (T)(1 - f->beta2);
    const T beta2 = (T)f->beta2, added = f->is_decoupled ? 0 : (T)f->weight_decay;
    const T kept = f->is_decoupled ? (T)(1 - f->lr * f->weight_decay) : 1;
    for (int64_t i = begin; i < end; i++) {
        T p = load(&param[i]), g = gradient(f, grad, i), m = load(&first[i]), v = load(&second[i]);
        if (added != 0) g += p * added;
        p *= kept;
        m += rest1 * (g - m);
        v = beta2 * v + rest2 * g * g;
        store(&first[i], m);
        store(&second[i], v);
        if (keeps_largest) {
            T old = load(&largest[i]);
            v = old > v ? old : v;
            store(&largest[i], v);
        }
        store(&param[i], p - step * m / (FN(sqrt)(v) / root + eps));
    }
}

static void adam(const cpu_fused *f, const cpu_fused_item *item, int64_t begin, int64_t end)
{
    if (f->keeps_largest)
        adam_loop(f, item, begin, end, true);
    else
        adam_loop(f, item, begin, end, false);
}

/* J. Duchi, E. Hazan, Y. Singer, "Adaptive subgradient methods", 2011. */
static void adagrad(const cpu_fused *f, const cpu_fused_item *item, int64_t begin, int64_t end)
{
    E *restrict param = item->data[CPU_FUSED_PARAM], *restrict grad = item->data[CPU_FUSED_GRAD];
    E *restrict sum = item->data[CPU_FUSED_FIRST];
    const T lr = (T)(f->lr / (1 + (item->step - 1) * f->lr_decay)), decay = (T)f->weight_decay,
            eps = (T)f->eps;
    for (int64_t i = begin; i < end; i++) {
        T p = load(&param[i]), g = gradient(f, grad, i), s;
        if (decay != 0) g += p * decay;
        s = load(&sum[i]) + g * g;
        store(&sum[i], s);
        store(&param[i], p - lr * g / (FN(sqrt)(s) + eps));
    }
}

static bool unscale(void *data, double factor, int64_t begin, int64_t end)
{
    E *x = data;
    const T by = (T)factor;
    T sum = 0; /* of x - x: 0, or NaN if one is not finite */
    for (int64_t i = begin; i < end; i++) {
        T a = load(&x[i]);
        sum += a - a;
        store(&x[i], a * by);
    }
    return sum != sum;
}

CPU_KERNELS(cpu_fused_kernels, .sgd = sgd, .adam = adam, .adagrad = adagrad, .unscale = unscale);
