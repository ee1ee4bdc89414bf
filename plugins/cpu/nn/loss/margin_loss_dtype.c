/* SPDX-License-Identifier: Apache-2.0 */
/* Margin losses over classes; the caller has checked the targets. */
#include "margin_loss.h"
#include "kernels/vocabulary.h"

static T class_weight(const cpu_margin *m, int64_t class)
{
    return m->weight ? load(&((const E *)m->weight)[class]) : 1;
}

static void finish(const cpu_margin *m, double sum)
{
    if (m->reduction == 0) return;
    store((E *)m->out, (T)(m->reduction == 1 ? sum / (double)m->batch : sum));
}

static void forward(const cpu_margin *m)
{
    double total = 0;
    for (int64_t n = 0; n < m->batch; n++) {
        const E *x = (const E *)m->x + n * m->classes;
        int64_t target = m->target[n];
        double sum = 0;
        for (int64_t c = 0; c < m->classes; c++) {
            double z = m->margin - (double)load(&x[target]) + (double)load(&x[c]);
            if (c != target && z > 0) sum += (m->p == 1 ? z : z * z) * (double)class_weight(m, target);
        }
        sum /= (double)m->classes;
        if (m->reduction == 0) store(&((E *)m->out)[n], (T)sum);
        total += sum;
    }
    finish(m, total);
}

/* The gradient of sample n divided by the number of terms. */
static double sample_grad(const cpu_margin *m, int64_t n)
{
    double grad = (double)load(&((const E *)m->grad)[m->reduction == 0 ? n : 0]) / (double)m->classes;
    return m->reduction == 1 ? grad / (double)m->batch : grad;
}

static void backward(const cpu_margin *m)
{
    for (int64_t n = 0; n < m->batch; n++) {
        const E *x = (const E *)m->x + n * m->classes;
        E *out = (E *)m->out + n * m->classes;
        int64_t target = m->target[n];
        double grad = sample_grad(m, n) * (double)class_weight(m, target), sum = 0;
        for (int64_t c = 0; c < m->classes; c++) {
            double z = m->margin - (double)load(&x[target]) + (double)load(&x[c]);
            double part = c != target && z > 0 ? (m->p == 1 ? grad : 2 * grad * z) : 0;
            store(&out[c], (T)part);
            sum += part;
        }
        store(&out[target], (T)-sum);
    }
}

/* The number of targets of a sample. */
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
        const E *x = (const E *)m->x + n * m->classes;
        const int64_t *target = m->target + n * m->classes;
        E *label = (E *)m->labels + n * m->classes;
        int64_t count = count_targets(m, n);
        double sum = 0;
        for (int64_t c = 0; c < m->classes; c++) store(&label[c], 0);
        for (int64_t t = 0; t < count; t++) store(&label[target[t]], 1);
        for (int64_t t = 0; t < count; t++)
            for (int64_t c = 0; c < m->classes; c++)
                if (load(&label[c]) == 0)
                    sum += fmax(0, 1 - (double)load(&x[target[t]]) + (double)load(&x[c]));
        sum /= (double)m->classes;
        if (m->reduction == 0) store(&((E *)m->out)[n], (T)sum);
        total += sum;
    }
    finish(m, total);
}

static void labels_backward(const cpu_margin *m)
{
    for (int64_t n = 0; n < m->batch; n++) {
        const E *x = (const E *)m->x + n * m->classes, *label = (const E *)m->labels + n * m->classes;
        const int64_t *target = m->target + n * m->classes;
        E *out = (E *)m->out + n * m->classes;
        int64_t count = count_targets(m, n);
        double grad = sample_grad(m, n);
        for (int64_t c = 0; c < m->classes; c++) store(&out[c], 0);
        for (int64_t t = 0; t < count; t++) {
            for (int64_t c = 0; c < m->classes; c++) {
                double z = 1 - (double)load(&x[target[t]]) + (double)load(&x[c]);
                if (load(&label[c]) != 0 || !(z > 0)) continue;
                store(&out[target[t]], (T)((double)load(&out[target[t]]) - grad));
                store(&out[c], (T)((double)load(&out[c]) + grad));
            }
        }
    }
}

CPU_KERNELS(cpu_margin_loss_kernels, .forward = forward, .backward = backward,
            .labels_forward = labels_forward, .labels_backward = labels_backward);
