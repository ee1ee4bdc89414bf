/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limited-memory BFGS (Liu and Nocedal 1989), with PyTorch's stopping rules, and its line search for the strong Wolfe
 * conditions (Nocedal and Wright, "Numerical optimization", algorithms 3.5 and 3.6) with cubic interpolation. All
 * parameters together are one vector.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "optimizer.h"

/* How the gradient changed over a step: y, s and 1 / (y s) of the paper; holds a reference to both. */
typedef struct pair {
    tn_tensor *change, *step;
    double ro;
} pair;

struct optim_lbfgs {
    tn_tensor *direction, *previous; /* one reference each */
    pair *pairs;                     /* oldest first */
    uint32_t count, room;
    double h, t, previous_loss;
    int64_t iterations;
};

/* What a call works with. */
typedef struct run {
    tn_scope *s;
    tn_optimizer *o;
    const tn_optimizer_options *options;
    tn_closure closure;
    void *user;
    int64_t evaluations;
    tn_tensor *loss; /* of the first evaluation */
} run;

static void replace(tn_tensor **held, tn_tensor *t)
{
    tn_retain(t);
    tn_release(*held);
    *held = t;
}

static void forget(pair *p)
{
    tn_release(p->change);
    tn_release(p->step);
}

void optim_lbfgs_destroy(struct optim_lbfgs *l)
{
    if (!l) return;
    while (l->count) forget(&l->pairs[--l->count]);
    tn_release(l->direction);
    tn_release(l->previous);
    free(l->pairs);
    free(l);
}

static double dot(tn_scope *s, tn_tensor *a, tn_tensor *b)
{
    return tn_item_double(s, tn_dot(s, a, b));
}

static double largest(tn_scope *s, tn_tensor *a)
{
    return tn_item_double(s, tn_max(s, tn_abs(s, a)));
}

static tn_tensor *flat_gradient(run *r)
{
    tn_optimizer *o = r->o;
    tn_tensor **parts = tn_scope_memory(r->s, (o->count + 1) * sizeof *parts);
    for (uint32_t i = 0; parts && i < o->count; i++) {
        tn_tensor *p = optim_real(r->s, tn_detach(r->s, o->parameters[i].tensor));
        tn_tensor *g = optim_real(r->s, tn_grad_of(r->s, o->parameters[i].tensor));
        g = g ? tn_reshape(r->s, g, TN_INTS(-1)) : tn_zeros_like(r->s, tn_reshape(r->s, p, TN_INTS(-1)));
        parts[i] = r->options->maximize ? tn_neg(r->s, g) : g;
    }
    return parts ? tn_cat(r->s, (tn_tensors){parts, o->count}) : NULL;
}

/* p += t * d */
static void move(run *r, tn_tensor *d, double t)
{
    int64_t at = 0;
    for (uint32_t i = 0; i < r->o->count; i++) {
        tn_tensor *p = optim_real(r->s, tn_detach(r->s, r->o->parameters[i].tensor));
        int64_t n = tn_tensor_numel(p);
        tn_tensor *part =
            tn_view(r->s, tn_narrow(r->s, d, 0, at, n), (tn_ints){tn_tensor_sizes(p), tn_tensor_rank(p)});
        tn_add_(r->s, p, part, .alpha = TN_SCALAR(t));
        at += n;
    }
}

static double evaluate(run *r, tn_tensor **gradient)
{
    tn_scope_options on = {.size = sizeof on, .grad_mode = TN_GRAD_ON};
    tn_scope *child = tn_scope_open_child(r->s, &on);
    tn_tensor *loss = r->closure(r->user, child);
    double value = loss ? tn_item_double(child, loss) : NAN;
    if (!loss && !tn_scope_failed(child))
        tn_scope_fail(child, TN_E_ARGUMENT, "LBFGS: the closure returned NULL");
    if (loss && !r->evaluations && !tn_scope_failed(child)) r->loss = tn_scope_return(child, loss);
    tn_scope_close(child);
    r->evaluations++;
    *gradient = flat_gradient(r);
    return r->options->maximize ? -value : value;
}

/* The loss and gradient at x + t d; the parameters are back at x behind it. */
static double evaluate_at(run *r, tn_tensor *d, double t, tn_tensor **gradient)
{
    tn_tensor **kept = tn_scope_memory(r->s, (r->o->count + 1) * sizeof *kept);
    for (uint32_t i = 0; kept && i < r->o->count; i++)
        kept[i] = tn_clone(r->s, tn_detach(r->s, r->o->parameters[i].tensor));
    move(r, d, t);
    double loss = evaluate(r, gradient);
    for (uint32_t i = 0; kept && i < r->o->count && !tn_scope_failed(r->s); i++)
        tn_copy_(r->s, tn_detach(r->s, r->o->parameters[i].tensor), kept[i]);
    return loss;
}

/* The minimum of the cubic through two points with their slopes, within [low, high]. */
static double cubic(double x1, double f1, double g1, double x2, double f2, double g2, double low, double high)
{
    double d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2), square = d1 * d1 - g1 * g2;
    if (!(square >= 0)) return (low + high) / 2;
    double d2 = sqrt(square);
    double at = x1 <= x2 ? x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
                         : x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2));
    return fmin(fmax(at, low), high);
}

static double cubic_between(const double x[2], const double f[2], const double slope[2])
{
    return cubic(x[0], f[0], slope[0], x[1], f[1], slope[1], fmin(x[0], x[1]), fmax(x[0], x[1]));
}

typedef struct point {
    double t, f, slope;
    tn_tensor *g;
} point;

static point point_at(run *r, tn_tensor *d, double t)
{
    point p = {.t = t};
    p.f = evaluate_at(r, d, t, &p.g);
    p.slope = dot(r->s, p.g, d);
    return p;
}

/* A step that satisfies the strong Wolfe conditions, c1 = 1e-4, c2 = 0.9, or the best one after about max_search evaluations. */
static point strong_wolfe(run *r, tn_tensor *d, double t, double f, tn_tensor *g, double slope,
                          int64_t max_search)
{
    const double c1 = 1e-4, c2 = 0.9,
                 change = 1e-9; /* the least width of the bracket, whatever the options say */
    point start = {0, f, slope, g}, previous = start, now = point_at(r, d, t), ends[2];
    double size = largest(r->s, d);
    int64_t search = 0;
    int is_done = 0, have_ends = 0;
    for (; search < max_search && !tn_scope_failed(r->s); search++) {
        if (now.f > f + c1 * now.t * slope || (search > 1 && now.f >= previous.f)) {
            ends[0] = previous, ends[1] = now, have_ends = 1;
            break;
        }
        if (fabs(now.slope) <= -c2 * slope) {
            ends[0] = ends[1] = now, is_done = 1, have_ends = 1;
            break;
        }
        if (now.slope >= 0) {
            ends[0] = previous, ends[1] = now, have_ends = 1;
            break;
        }
        double low = now.t + 0.01 * (now.t - previous.t), high = now.t * 10;
        double next = cubic(previous.t, previous.f, previous.slope, now.t, now.f, now.slope, low, high);
        previous = now;
        now = point_at(r, d, next);
    }
    if (!have_ends) ends[0] = start, ends[1] = now;
    int low = ends[0].f <= ends[1].f ? 0 : 1, stuck = 0;
    while (!is_done && search < max_search && !tn_scope_failed(r->s)) {
        double width = fabs(ends[1].t - ends[0].t), left = fmin(ends[0].t, ends[1].t),
               right = fmax(ends[0].t, ends[1].t);
        if (width * size < change) break;
        t = cubic_between((double[]){ends[0].t, ends[1].t}, (double[]){ends[0].f, ends[1].f},
                          (double[]){ends[0].slope, ends[1].slope});
        double margin = 0.1 * (right - left);
        if (fmin(right - t, t - left) < margin) {
            if (stuck || t >= right || t <= left) {
                t = fabs(t - right) < fabs(t - left) ? right - margin : left + margin;
                stuck = 0;
            } else {
                stuck = 1;
            }
        } else {
            stuck = 0;
        }
        now = point_at(r, d, t);
        search++;
        if (now.f > f + c1 * t * slope || now.f >= ends[low].f) {
            ends[1 - low] = now;
            low = ends[0].f <= ends[1].f ? 0 : 1;
        } else {
            if (fabs(now.slope) <= -c2 * slope)
                is_done = 1;
            else if (now.slope * (ends[1 - low].t - ends[low].t) >= 0)
                ends[1 - low] = ends[low];
            ends[low] = now;
        }
    }
    return ends[low];
}

/* The two-loop recursion: -H g. */
static tn_tensor *direction_of(run *r, const struct optim_lbfgs *l, tn_tensor *g)
{
    tn_scope *s = r->s;
    double *al = tn_scope_memory(s, (l->count + 1) * sizeof *al);
    tn_tensor *q = tn_neg(s, g);
    for (uint32_t i = l->count; al && i-- > 0;) {
        const pair *p = &l->pairs[i];
        al[i] = dot(s, p->step, q) * p->ro;
        tn_add_(s, q, p->change, .alpha = TN_SCALAR(-al[i]));
    }
    q = tn_mul_scalar(s, q, l->h);
    for (uint32_t i = 0; al && i < l->count; i++) {
        const pair *p = &l->pairs[i];
        double be = dot(s, p->change, q) * p->ro;
        tn_add_(s, q, p->step, .alpha = TN_SCALAR(al[i] - be));
    }
    return q;
}

/* Takes the last change into the history. */
static int32_t remember(run *r, struct optim_lbfgs *l, tn_tensor *g)
{
    tn_tensor *y = tn_sub(r->s, g, l->previous), *step = tn_mul_scalar(r->s, l->direction, l->t);
    double ys = dot(r->s, y, step);
    if (!(ys > 1e-10) || !l->room) return tn_scope_failed(r->s);
    if (l->count == l->room) {
        forget(&l->pairs[0]);
        memmove(l->pairs, l->pairs + 1, --l->count * sizeof *l->pairs);
    }
    l->pairs[l->count++] = (pair){tn_retain(y), tn_retain(step), 1 / ys};
    l->h = ys / dot(r->s, y, y);
    return tn_scope_failed(r->s);
}

static struct optim_lbfgs *create(const tn_optimizer_options *o)
{
    struct optim_lbfgs *l = calloc(1, sizeof *l);
    uint32_t room = o->history_size > 0 ? (uint32_t)o->history_size : 0;
    if (!l) return NULL;
    l->pairs = calloc(room + 1u, sizeof *l->pairs);
    l->room = room;
    l->h = 1;
    if (l->pairs) return l;
    optim_lbfgs_destroy(l);
    return NULL;
}

static void iterate(run *r, struct optim_lbfgs *l, double loss, tn_tensor *g)
{
    const tn_optimizer_options *o = r->options;
    int64_t most = o->max_eval > 0 ? o->max_eval : o->max_iter * 5 / 4;
    for (int64_t n = 0; n < o->max_iter && !tn_scope_failed(r->s);) {
        n++;
        l->iterations++;
        if (l->iterations == 1) {
            replace(&l->direction, tn_neg(r->s, g));
        } else if (!remember(r, l, g)) {
            replace(&l->direction, direction_of(r, l, g));
        }
        replace(&l->previous, tn_clone(r->s, g));
        l->previous_loss = loss;
        double sum = tn_item_double(r->s, tn_sum(r->s, tn_abs(r->s, g)));
        l->t = l->iterations == 1 ? fmin(1, 1 / sum) * o->lr : o->lr;
        double slope = dot(r->s, g, l->direction);
        if (slope > -o->tolerance_change || tn_scope_failed(r->s)) return;
        if (o->line_search) {
            point p = strong_wolfe(r, l->direction, l->t, loss, g, slope, most - r->evaluations);
            l->t = p.t, loss = p.f, g = p.g;
            move(r, l->direction, l->t);
        } else {
            move(r, l->direction, l->t);
            if (n != o->max_iter) loss = evaluate(r, &g);
        }
        if (tn_scope_failed(r->s) || n == o->max_iter || r->evaluations >= most) return;
        if (largest(r->s, g) <= o->tolerance_grad) return;
        if (largest(r->s, l->direction) * fabs(l->t) <= o->tolerance_change) return;
        if (fabs(loss - l->previous_loss) < o->tolerance_change) return;
    }
}

tn_tensor *optim_lbfgs_step(tn_scope *scope, tn_optimizer *o, tn_closure closure, void *user)
{
    /* Autocast stays as the program has it, for the closure: it changes none of the operators of this file. */
    tn_scope_options quiet = {.size = sizeof quiet, .grad_mode = TN_GRAD_OFF};
    tn_scope *s = tn_scope_open_child(scope, &quiet);
    run r = {.s = s, .o = o, .options = &o->groups[0], .closure = closure, .user = user};
    if (!o->lbfgs) o->lbfgs = create(r.options);
    if (!o->lbfgs) tn_scope_fail(s, TN_E_OUT_OF_MEMORY, NULL);
    tn_tensor *g = NULL;
    double loss = tn_scope_failed(s) ? 0 : evaluate(&r, &g);
    if (!tn_scope_failed(s) && largest(s, g) > r.options->tolerance_grad) iterate(&r, o->lbfgs, loss, g);
    tn_tensor *first = r.loss && !tn_scope_failed(s) ? tn_scope_return(s, r.loss) : NULL;
    return tn_scope_close(s) ? NULL : first;
}
