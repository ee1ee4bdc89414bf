/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "optim.h"

static tn_scope *without_recording(tn_scope *s)
{
    tn_scope_options options = {.size = sizeof options, .grad_mode = TN_GRAD_OFF};
    return tn_scope_open_child(s, &options);
}

static void release_all(tn_tensor **tensors, uint32_t count)
{
    for (uint32_t i = 0; tensors && i < count; i++) tn_release(tensors[i]);
    free(tensors);
}

/* Zeros like a parameter, which outlive the scope. */
static tn_tensor *state_like(tn_scope *s, tn_tensor *p)
{
    return tn_retain(tn_zeros_like(s, p));
}

int32_t optim_sgd_init(optim_sgd *o, tn_tensor **parameters, uint32_t count, double lr, double momentum,
                       double weight_decay)
{
    *o = (optim_sgd){.lr = lr,
                     .momentum = momentum,
                     .weight_decay = weight_decay,
                     .count = count,
                     .parameters = parameters};
    o->velocity = calloc(count ? count : 1, sizeof *o->velocity);
    return o->velocity ? TN_OK : TN_E_OUT_OF_MEMORY;
}

static void sgd_update(optim_sgd *o, tn_scope *s, uint32_t i)
{
    tn_tensor *p = o->parameters[i], *g = tn_grad_of(s, p);
    if (!g) return;
    if (o->weight_decay != 0) g = tn_add(s, g, p, .alpha = TN_SCALAR(o->weight_decay));
    if (o->momentum != 0) {
        if (!o->velocity[i])
            o->velocity[i] = tn_retain(tn_clone(s, g));
        else
            tn_add_(s, tn_mul_scalar_(s, o->velocity[i], o->momentum), g);
        g = o->velocity[i];
    }
    tn_add_(s, p, g, .alpha = TN_SCALAR(-o->lr));
}

int32_t optim_sgd_step(optim_sgd *o, tn_scope *s)
{
    tn_scope *child = without_recording(s);
    for (uint32_t i = 0; i < o->count; i++) sgd_update(o, child, i);
    return tn_scope_close(child);
}

void optim_sgd_finish(optim_sgd *o)
{
    release_all(o->velocity, o->count);
    o->velocity = NULL;
}

int32_t optim_adamw_init(optim_adamw *o, tn_tensor **parameters, uint32_t count, double lr,
                         double weight_decay)
{
    *o = (optim_adamw){.lr = lr,
                       .beta1 = 0.9,
                       .beta2 = 0.999,
                       .eps = 1e-8,
                       .weight_decay = weight_decay,
                       .count = count,
                       .parameters = parameters};
    o->mean = calloc(count ? count : 1, sizeof *o->mean);
    o->square = calloc(count ? count : 1, sizeof *o->square);
    if (o->mean && o->square) return TN_OK;
    optim_adamw_finish(o);
    return TN_E_OUT_OF_MEMORY;
}

/* A complex tensor as pairs of real numbers. */
static tn_tensor *as_real(tn_scope *s, tn_tensor *t)
{
    return t && tn_dtype_is_complex(tn_tensor_dtype(t)) ? tn_view_as_real(s, t) : t;
}

/* Real and imaginary parts are parameters of their own, as in PyTorch: each has its own mean and square. */
static void adamw_update(optim_adamw *o, tn_scope *s, uint32_t i)
{
    tn_tensor *p = as_real(s, o->parameters[i]), *g = as_real(s, tn_grad_of(s, o->parameters[i])),
              *denominator;
    double correction1 = 1 - pow(o->beta1, (double)o->step), correction2 = 1 - pow(o->beta2, (double)o->step);
    if (!g) return;
    if (!o->mean[i]) o->mean[i] = state_like(s, p);
    if (!o->square[i]) o->square[i] = state_like(s, p);
    tn_mul_scalar_(s, p, 1 - o->lr * o->weight_decay);
    tn_lerp_scalar_(s, o->mean[i], g, 1 - o->beta1);
    tn_mul_scalar_(s, o->square[i], o->beta2);
    tn_addcmul_(s, o->square[i], g, g, .value = TN_SCALAR(1 - o->beta2));
    denominator = tn_div_scalar_(s, tn_sqrt(s, o->square[i]), sqrt(correction2));
    tn_add_scalar_(s, denominator, o->eps);
    tn_addcdiv_(s, p, o->mean[i], denominator, .value = TN_SCALAR(-o->lr / correction1));
}

int32_t optim_adamw_step(optim_adamw *o, tn_scope *s)
{
    tn_scope *child = without_recording(s);
    o->step++;
    for (uint32_t i = 0; i < o->count; i++) adamw_update(o, child, i);
    return tn_scope_close(child);
}

void optim_adamw_finish(optim_adamw *o)
{
    release_all(o->mean, o->count);
    release_all(o->square, o->count);
    o->mean = o->square = NULL;
}

double optim_warm_up_cosine(double peak, int64_t step, int64_t steps, double warm_up)
{
    const double pi = 3.14159265358979323846;
    double rise = warm_up * (double)steps, at = (double)step;
    if (at < rise) return peak * (at + 1) / rise;
    return peak * 0.5 * (1 + cos(pi * (at - rise) / ((double)steps - rise)));
}
