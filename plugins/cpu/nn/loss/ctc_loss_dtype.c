/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connectionist temporal classification (A. Graves et al., 2006) for one dtype and level. Everything is a logarithm; a
 * state follows itself, the state before it, and the one before that if their labels differ and it is no blank.
 */
#include "ctc_loss.h"
#include "nn/words.h"

/* log(e^a + e^b + e^c) */
ALWAYS_INLINE T log_sum(T a, T b, T c)
{
    T most = a > b ? a : b;
    most = most > c ? most : c;
    most = most == -INFINITY ? 0 : most;
    return FN(log)(exponential(a - most) + exponential(b - most) + exponential(c - most)) + most;
}

static bool skips(const int64_t *labels, int64_t from, int64_t to)
{
    return labels[from] != labels[to];
}

static double forward(const cpu_ctc *c)
{
    const E *probs = c->log_probs;
    E *alpha = c->log_alpha;
    int64_t last = c->states - 1;
    for (int64_t i = 0; i < c->rows * c->alpha_row; i++) alpha[i] = -INFINITY;
    if (c->length == 0) return last == 0 ? 0 : INFINITY;
    alpha[0] = probs[c->labels[0] * c->column];
    if (last > 0) alpha[1] = probs[c->labels[1] * c->column];
    for (int64_t t = 1; t < c->length; t++) {
        const E *before = alpha + (t - 1) * c->alpha_row, *row = probs + t * c->row;
        E *now = alpha + t * c->alpha_row;
        for (int64_t s = 0; s <= last; s++) {
            T one = s > 0 ? before[s - 1] : -INFINITY;
            T two = s > 1 && skips(c->labels, s - 2, s) ? before[s - 2] : -INFINITY;
            now[s] = log_sum(before[s], one, two) + row[c->labels[s] * c->column];
        }
    }
    alpha += (c->length - 1) * c->alpha_row;
    return -(double)log_sum(alpha[last], last > 0 ? alpha[last - 1] : -INFINITY, -INFINITY);
}

/* The gradient of row t: e^(log p) less the share of all paths through each class. `sums` are logarithms. */
static void write_row(const cpu_ctc *c, int64_t t, const T *sums)
{
    const E *row = (const E *)c->log_probs + t * c->row;
    E *grad = (E *)c->grad + t * c->grad_row;
    for (int64_t k = 0; k < c->classes; k++) {
        T p = row[k * c->column];
        grad[k] = (exponential(p) - exponential(sums[k] + (T)c->loss - p)) * (T)c->loss_grad;
    }
}

static void backward(const cpu_ctc *c)
{
    int64_t last = c->states - 1;
    T *after = c->scratch, *now = after + c->states, *sums = now + c->states;
    for (int64_t t = 0; t < c->rows; t++)
        if (t >= c->length || c->loss == INFINITY)
            memset((E *)c->grad + t * c->grad_row, 0, (size_t)c->classes * sizeof(E));
    if (c->loss == INFINITY) {
        /* Without a path there is no direction; only zero_infinity asks for 0, and then loss_grad is 0. */
        for (int64_t i = 0; c->loss_grad != 0 && i < c->length * c->classes; i++)
            ((E *)c->grad)[i / c->classes * c->grad_row + i % c->classes] = NAN;
        return;
    }
    for (int64_t t = c->length; t-- > 0;) {
        const E *row = (const E *)c->log_probs + t * c->row,
                *alpha = (const E *)c->log_alpha + t * c->alpha_row;
        for (int64_t k = 0; k < c->classes; k++) sums[k] = -INFINITY;
        for (int64_t s = 0; s <= last; s++) {
            T p = row[c->labels[s] * c->column], paths;
            if (t == c->length - 1) {
                now[s] = s >= last - 1 ? p : -INFINITY;
            } else {
                T one = s < last ? after[s + 1] : -INFINITY;
                T two = s < last - 1 && skips(c->labels, s + 2, s) ? after[s + 2] : -INFINITY;
                now[s] = log_sum(after[s], one, two) + p;
            }
            paths = alpha[s] + now[s];
            if (paths != -INFINITY) sums[c->labels[s]] = log_sum(sums[c->labels[s]], paths, -INFINITY);
        }
        write_row(c, t, sums);
        T *other = after;
        after = now;
        now = other;
    }
}

extern const cpu_ctc_loss_kernels CPU_NAME(cpu_ctc_loss_kernels);
const cpu_ctc_loss_kernels CPU_NAME(cpu_ctc_loss_kernels) = {.forward = forward, .backward = backward};
