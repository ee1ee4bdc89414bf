/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connectionist temporal classification (A. Graves et al., 2006) for one dtype and level. Everything is a logarithm; a
 * state follows itself, the state before it, and, unless it is the blank, the one before that if their labels differ.
 */
#include "ctc_loss.h"
#include "nn/words.h"

/* log(x) for x from 1 to 3: 2 artanh((x - r) / (x + r)) + log(r) with r the root of 3. */
ALWAYS_INLINE T short_log(T x)
{
    const T r = (T)1.73205080756887729353, z = (x - r) / (x + r), square = z * z;
    const int terms = sizeof(T) == 8 ? 14 : 7;
    T sum = 1 / (T)(2 * terms + 1);
    for (int k = terms - 1; k >= 0; k--) sum = sum * square + 1 / (T)(2 * k + 1);
    return 2 * z * sum + (T)0.54930614433405484570;
}

/* log(e^a + e^b + e^c). The largest of the three powers is 1 after the largest exponent is taken off. */
ALWAYS_INLINE T log_sum(T a, T b, T c)
{
    T most = a > b ? a : b, sum;
    most = most > c ? most : c;
    sum = most == -INFINITY ? 0 : most;
    sum = short_log(exponential(a - sum) + exponential(b - sum) + exponential(c - sum)) + sum;
    return most == -INFINITY ? -INFINITY : sum;
}

/* What is added to the path that comes to a state from two states before: 0, or -Inf where there is none. */
static void find_skips(const cpu_ctc *c, T *skips)
{
    for (int64_t s = 0; s < c->states + 2; s++)
        skips[s] = s > 1 && s < c->states && c->labels[s - 2] != c->labels[s] ? 0 : -INFINITY;
}

/* The log probabilities of the labels of all states in row t. */
static void read_row(const cpu_ctc *c, int64_t t, T *to)
{
    const E *row = (const E *)c->log_probs + t * c->row;
    for (int64_t s = 0; s < c->states; s++) to[s] = row[c->labels[s] * c->column];
}

static double forward(const cpu_ctc *c)
{
    E *alpha = c->log_alpha;
    int64_t n = c->states;
    T *skips = c->scratch, *p = skips + n + 2;
    for (int64_t i = 0; i < c->rows * c->alpha_row; i++) alpha[i] = -INFINITY;
    if (c->length == 0) return n == 1 ? 0 : INFINITY;
    find_skips(c, skips);
    read_row(c, 0, p);
    for (int64_t s = 0; s < 2 && s < n; s++) alpha[s] = p[s];
    for (int64_t t = 1; t < c->length; t++) {
        const E *restrict before = alpha + (t - 1) * c->alpha_row;
        E *restrict now = alpha + t * c->alpha_row;
        read_row(c, t, p);
        now[0] = before[0] + p[0];
        if (n > 1) now[1] = log_sum(before[1], before[0], -INFINITY) + p[1];
        CPU_INDEPENDENT
        for (int64_t s = 2; s < n; s++)
            now[s] = log_sum(before[s], before[s - 1], before[s - 2] + skips[s]) + p[s];
    }
    alpha += (c->length - 1) * c->alpha_row;
    return n == 1 ? -(double)alpha[0] : -(double)log_sum(alpha[n - 1], alpha[n - 2], -INFINITY);
}

/* The gradient of row t: the probability of each class less the share of the paths that go through it. */
static void write_row(const cpu_ctc *c, int64_t t, const T *shares)
{
    const E *row = (const E *)c->log_probs + t * c->row;
    E *grad = (E *)c->grad + t * c->grad_row;
    for (int64_t k = 0; k < c->classes; k++)
        grad[k] = (exponential(row[k * c->column]) - shares[k]) * (T)c->loss_grad;
}

/* Without a path there is no direction, only NaN; where zero_infinity asks for 0, loss_grad is 0. */
static void write_rows_without_path(const cpu_ctc *c, int64_t begin, int64_t end, T value)
{
    for (int64_t t = begin; t < end; t++)
        for (int64_t k = 0; k < c->classes; k++) ((E *)c->grad)[t * c->grad_row + k] = value;
}

static void backward(const cpu_ctc *c)
{
    int64_t n = c->states;
    T *skips = c->scratch, *p = skips + n + 2, *after = p + n, *now = after + n + 2, *shares = now + n + 2;
    T *through = shares + c->classes;
    const T loss = (T)c->loss;
    write_rows_without_path(c, c->length, c->rows, 0);
    if (c->loss == INFINITY) {
        write_rows_without_path(c, 0, c->length, c->loss_grad != 0 ? NAN : 0);
        return;
    }
    find_skips(c, skips);
    for (int64_t s = 0; s < n + 2; s++) after[s] = now[s] = -INFINITY;
    for (int64_t t = c->length; t-- > 0;) {
        const E *alpha = (const E *)c->log_alpha + t * c->alpha_row;
        T *restrict to = now, *other = after;
        const T *restrict from = after;
        read_row(c, t, p);
        if (t == c->length - 1) {
            for (int64_t s = n > 1 ? n - 2 : 0; s < n; s++) to[s] = p[s];
        } else {
            CPU_INDEPENDENT
            for (int64_t s = 0; s < n; s++)
                to[s] = log_sum(from[s], from[s + 1], from[s + 2] + skips[s + 2]) + p[s];
        }
        CPU_INDEPENDENT
        for (int64_t s = 0; s < n; s++) through[s] = exponential(alpha[s] + to[s] + loss - p[s]);
        memset(shares, 0, (size_t)c->classes * sizeof *shares);
        for (int64_t s = 0; s < n; s++) shares[c->labels[s]] += through[s];
        write_row(c, t, shares);
        after = now;
        now = other;
    }
}

CPU_KERNELS(cpu_ctc_loss_kernels, .forward = forward, .backward = backward);
