/* SPDX-License-Identifier: Apache-2.0 */
/* Learning rates as functions of the step. */
#include <math.h>
#include <string.h>
#include <tenon/optim.h>

#define PI 3.14159265358979323846

double tn_lr_step(int64_t i, double base, int64_t size, double gamma)
{
    return base * pow(gamma, size > 0 ? (double)(i / size) : 0);
}

double tn_lr_multi_step(int64_t i, double base, tn_ints milestones, double gamma)
{
    int64_t reached = 0;
    for (int64_t k = 0; k < milestones.count; k++) reached += i >= milestones.data[k];
    return base * pow(gamma, (double)reached);
}

double tn_lr_constant(int64_t i, double base, double factor, int64_t total)
{
    return i < total ? base * factor : base;
}

double tn_lr_linear(int64_t i, double base, double from, double to, int64_t total)
{
    double share = i < total ? (double)i / (double)total : 1;
    return base * (from + (to - from) * share);
}

double tn_lr_exponential(int64_t i, double base, double gamma)
{
    return base * pow(gamma, (double)i);
}

double tn_lr_polynomial(int64_t i, double base, int64_t total, double power)
{
    return i < total ? base * pow(1 - (double)i / (double)total, power) : 0;
}

double tn_lr_cosine(int64_t i, double base, int64_t total, double low)
{
    return low + (base - low) * (1 + cos(PI * (double)i / (double)(total > 0 ? total : 1))) / 2;
}

double tn_lr_cosine_restarts(int64_t i, double base, int64_t first, int64_t factor, double low)
{
    int64_t length = first > 0 ? first : 1;
    if (factor <= 1 && i >= length) i %= length;
    while (i >= length) {
        i -= length;
        length *= factor;
    }
    return tn_lr_cosine(i, base, length, low);
}

double tn_lr_warm_up_cosine(int64_t i, double base, int64_t warm_up, int64_t total)
{
    if (i < warm_up) return base * (double)(i + 1) / (double)warm_up;
    return i < total ? tn_lr_cosine(i - warm_up, base, total - warm_up, 0) : 0;
}

double tn_lr_cyclic(int64_t i, double low, double high, int64_t up, int64_t down, const char *mode,
                    double gamma)
{
    double total = (double)(up + down > 0 ? up + down : 1), cycle = floor((double)i / total);
    double at = (double)i / total - cycle, rise = (double)up / total;
    double share = at <= rise ? at / rise : (at - 1) / (rise - 1), height = high - low;
    if (mode && strcmp(mode, "triangular") && strcmp(mode, "triangular2") && strcmp(mode, "exp_range"))
        return NAN;
    if (mode && !strcmp(mode, "triangular2")) height /= pow(2, cycle);
    if (mode && !strcmp(mode, "exp_range")) height *= pow(gamma, (double)i);
    return low + height * share;
}

double tn_lr_one_cycle(int64_t i, double high, int64_t total, double rise, double start, double end)
{
    double first = high / start, last = first / end, top = rise * (double)total - 1,
           bottom = (double)total - 1, at = (double)i;
    if (at <= top && top > 0) return high + (first - high) * (1 + cos(PI * at / top)) / 2;
    return last + (high - last) * (1 + cos(PI * fmin((at - top) / (bottom - top), 1))) / 2;
}

double tn_plateau_step(tn_plateau *p, double measure)
{
    if (!p) return NAN;
    double threshold = p->threshold != 0 ? p->threshold : 1e-4;
    const double sign = p->higher_is_better ? 1 : -1;
    /* At the start the best one is the worst possible: a first measure that is not finite is none. */
    const double best = p->count++ ? p->best : -sign * INFINITY;
    const double limit = p->is_absolute ? best + sign * threshold : best * (1 + sign * threshold);
    int64_t patience = p->patience > 0 ? p->patience : p->patience < 0 ? 0 : 10;
    int32_t is_better = p->higher_is_better ? measure > limit : measure < limit;
    p->best = is_better ? measure : best;
    p->bad = is_better ? 0 : p->bad + 1;
    if (p->cooling > 0) {
        p->cooling--;
        p->bad = 0;
    }
    if (p->bad > patience) {
        double next = fmax(p->lr * (p->factor != 0 ? p->factor : 0.1), p->low);
        if (p->lr - next > 1e-8) p->lr = next;
        p->cooling = p->cooldown;
        p->bad = 0;
    }
    return p->lr;
}
