/* SPDX-License-Identifier: Apache-2.0 */
/* Margin losses over classes for one dtype and level; targets have been checked before. */
#include "margin_loss.h"
#include "nn/types.h"

static acc class_weight(const cpu_margin *m, int64_t class)
{
    return m->weight ? load(((const T *)m->weight)[class]) : 1;
}

static void finish(const cpu_margin *m, double sum)
{
    if (m->reduction == 0) return;
    *(T *)m->out = store((acc)(m->reduction == 1 ? sum / (double)m->batch : sum));
}

static void forward(const cpu_margin *m)
{
    double total = 0;
    for (int64_t n = 0; n < m->batch; n++) {
        const T *x = (const T *)m->x + n * m->classes;
        int64_t target = m->target[n];
        double sum = 0;
        for (int64_t c = 0; c < m->classes; c++) {
            double z = m->margin - (double)load(x[target]) + (double)load(x[c]);
            if (c != target && z > 0) sum += (m->p == 1 ? z : z * z) * (double)class_weight(m, target);
        }
        sum /= (double)m->classes;
        if (m->reduction == 0) ((T *)m->out)[n] = store((acc)sum);
        total += sum;
    }
    finish(m, total);
}

/* The gradient that sample n receives, over the number of terms. */
static double sample_grad(const cpu_margin *m, int64_t n)
{
    double grad = (double)load(((const T *)m->grad)[m->reduction == 0 ? n : 0]) / (double)m->classes;
    return m->reduction == 1 ? grad / (double)m->batch : grad;
}

static void backward(const cpu_margin *m)
{
    for (int64_t n = 0; n < m->batch; n++) {
        const T *x = (const T *)m->x + n * m->classes;
        T *out = (T *)m->out + n * m->classes;
        int64_t target = m->target[n];
        double grad = sample_grad(m, n) * (double)class_weight(m, target), sum = 0;
        for (int64_t c = 0; c < m->classes; c++) {
            double z = m->margin - (double)load(x[target]) + (double)load(x[c]);
            double part = c != target && z > 0 ? (m->p == 1 ? grad : 2 * grad * z) : 0;
            out[c] = store((acc)part);
            sum += part;
        }
        out[target] = store((acc)-sum);
    }
}

/* Number of targets of a sample. */
static int64_t count_targets(const cpu_margin *m, int64_t n)
{
    const int64_t *target = m->target + n * m->classes;
    int64_t count = 0;
    while (count < m->classes && target[count] >= 0) count++;
    return count;
}

static void labels_forward(const cpu_margin *m)
{
    double total = 0;
    for (int64_t n = 0; n < m->batch; n++) {
        const T *x = (const T *)m->x + n * m->classes;
        const int64_t *target = m->target + n * m->classes;
        T *label = (T *)m->labels + n * m->classes;
        int64_t count = count_targets(m, n);
        double sum = 0;
        for (int64_t c = 0; c < m->classes; c++) label[c] = store(0);
        for (int64_t t = 0; t < count; t++) label[target[t]] = store(1);
        for (int64_t t = 0; t < count; t++)
            for (int64_t c = 0; c < m->classes; c++)
                if (load(label[c]) == 0) sum += fmax(0, 1 - (double)load(x[target[t]]) + (double)load(x[c]));
        sum /= (double)m->classes;
        if (m->reduction == 0) ((T *)m->out)[n] = store((acc)sum);
        total += sum;
    }
    finish(m, total);
}

static void labels_backward(const cpu_margin *m)
{
    for (int64_t n = 0; n < m->batch; n++) {
        const T *x = (const T *)m->x + n * m->classes, *label = (const T *)m->labels + n * m->classes;
        const int64_t *target = m->target + n * m->classes;
        T *out = (T *)m->out + n * m->classes;
        int64_t count = count_targets(m, n);
        double grad = sample_grad(m, n);
        for (int64_t c = 0; c < m->classes; c++) out[c] = store(0);
        for (int64_t t = 0; t < count; t++) {
            for (int64_t c = 0; c < m->classes; c++) {
                double z = 1 - (double)load(x[target[t]]) + (double)load(x[c]);
                if (load(label[c]) != 0 || !(z > 0)) continue;
                out[target[t]] = store((acc)((double)load(out[target[t]]) - grad));
                out[c] = store((acc)((double)load(out[c]) + grad));
            }
        }
    }
}

extern const cpu_margin_kernels K(cpu_margin_kernels);
const cpu_margin_kernels K(cpu_margin_kernels) = {
    .forward = forward,
    .backward = backward,
    .labels_forward = labels_forward,
    .labels_backward = labels_backward,
};
