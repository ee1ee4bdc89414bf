/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites of steps of optimisers and of scaling gradients, for devices without kernels of them. Numbers of steps,
 * learning rates, scales and flags that are tensors are read by the host.
 */
#include <math.h>
#include "ops/composite/composite.h"

/* What all of them share, read from `at` on: maximize, grad_scale, found_inf. */
typedef struct step {
    tn_tensors params, grads;
    double weight_decay, scale;
    int32_t maximize, is_scaled, is_left_out;
} step;

static double number_of(tn_scope *s, tn_value v, double otherwise)
{
    if (v.tag == TN_TAG_TENSOR) return tn_item_double(s, v.as.tensor);
    return v.tag == TN_TAG_NONE ? otherwise : tn_value_as_float(v);
}

static step step_of(tn_scope *s, const tn_value *args, double weight_decay, uint32_t maximize, uint32_t scale)
{
    return (step){.params = arg_tensors(args, 0),
                  .grads = arg_tensors(args, 1),
                  .weight_decay = weight_decay,
                  .maximize = arg_bool(args, maximize),
                  .is_scaled = arg_given(args, scale),
                  .scale = number_of(s, args[scale], 1),
                  .is_left_out = number_of(s, args[scale + 1], 0) == 1};
}

/* The gradient of parameter i to descend along, with its share of the parameter. */
static tn_tensor *gradient(tn_scope *s, const step *p, int64_t i)
{
    tn_tensor *g = p->grads.data[i];
    if (p->is_scaled) tn_div_scalar_(s, g, p->scale);
    if (p->maximize) g = tn_neg(s, g);
    return p->weight_decay != 0 ? tn_add(s, g, p->params.data[i], .alpha = TN_SCALAR(p->weight_decay)) : g;
}

/* (self, grads, momentum_buffers, weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step,
 * grad_scale, found_inf) */
void composite_fused_sgd(tn_scope *s, const tn_value *args, tn_value *outs)
{
    step p = step_of(s, args, arg_float(args, 3), 8, 10);
    double momentum = arg_float(args, 4), lr = number_of(s, args[5], 0);
    (void)outs;
    for (int64_t i = 0; i < p.params.count && !p.is_left_out && !tn_scope_failed(s); i++) {
        tn_tensor *g = gradient(s, &p, i), *buffer = momentum != 0 ? arg_tensors(args, 2).data[i] : NULL;
        if (buffer) {
            if (arg_bool(args, 9))
                tn_copy_(s, buffer, g);
            else
                tn_add_(s, tn_mul_scalar_(s, buffer, momentum), g,
                        .alpha = TN_SCALAR(1 - arg_float(args, 6)));
            g = arg_bool(args, 7) ? tn_add(s, g, buffer, .alpha = TN_SCALAR(momentum)) : buffer;
        }
        tn_sub_(s, p.params.data[i], g, .alpha = TN_SCALAR(lr));
    }
}

/* (self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr, beta1, beta2, weight_decay, eps, amsgrad,
 * maximize, grad_scale, found_inf) */
static void run_adam(tn_scope *s, const tn_value *args, int32_t is_decoupled)
{
    double lr = number_of(s, args[6], 0), beta1 = arg_float(args, 7), beta2 = arg_float(args, 8);
    double decay = arg_float(args, 9);
    step p = step_of(s, args, is_decoupled ? 0 : decay, 12, 13);
    for (int64_t i = 0; i < p.params.count && !p.is_left_out && !tn_scope_failed(s); i++) {
        tn_tensor *g = gradient(s, &p, i), *m = arg_tensors(args, 2).data[i],
                  *v = arg_tensors(args, 3).data[i];
        double steps = tn_item_double(s, arg_tensors(args, 5).data[i]);
        if (is_decoupled) tn_mul_scalar_(s, p.params.data[i], 1 - lr * decay);
        tn_lerp_scalar_(s, m, g, 1 - beta1);
        tn_addcmul_(s, tn_mul_scalar_(s, v, beta2), g, g, .value = TN_SCALAR(1 - beta2));
        if (arg_bool(args, 11)) {
            tn_tensor *largest = arg_tensors(args, 4).data[i];
            v = tn_copy_(s, largest, tn_maximum(s, largest, v));
        }
        v = tn_div_scalar(s, tn_sqrt(s, v), sqrt(1 - pow(beta2, steps)));
        v = tn_add_scalar(s, v, arg_float(args, 10));
        tn_addcdiv_(s, p.params.data[i], m, v, .value = TN_SCALAR(-lr / (1 - pow(beta1, steps))));
    }
}

void composite_fused_adam(tn_scope *s, const tn_value *args, tn_value *outs)
{
    (void)outs;
    run_adam(s, args, 0);
}

void composite_fused_adamw(tn_scope *s, const tn_value *args, tn_value *outs)
{
    (void)outs;
    run_adam(s, args, 1);
}

/* (self, grads, state_sums, state_steps, lr, lr_decay, weight_decay, eps, maximize, grad_scale, found_inf) */
void composite_fused_adagrad(tn_scope *s, const tn_value *args, tn_value *outs)
{
    step p = step_of(s, args, arg_float(args, 6), 8, 9);
    double lr = number_of(s, args[4], 0);
    (void)outs;
    for (int64_t i = 0; i < p.params.count && !p.is_left_out && !tn_scope_failed(s); i++) {
        tn_tensor *g = gradient(s, &p, i), *sum = arg_tensors(args, 2).data[i];
        double steps = tn_item_double(s, arg_tensors(args, 3).data[i]);
        tn_addcmul_(s, sum, g, g);
        tn_addcdiv_(s, p.params.data[i], g, tn_add_scalar(s, tn_sqrt(s, sum), arg_float(args, 7)),
                    .value = TN_SCALAR(-lr / (1 + (steps - 1) * arg_float(args, 5))));
    }
}

/* (self, found_inf, inv_scale) */
void composite_amp_unscale(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensors list = arg_tensors(args, 0);
    tn_tensor *found = arg_tensor(args, 1);
    (void)outs;
    for (int64_t i = 0; i < list.count; i++) {
        tn_masked_fill_scalar_(s, found, tn_logical_not(s, tn_all(s, tn_isfinite(s, list.data[i]))), 1);
        tn_mul_(s, list.data[i], arg_tensor(args, 2));
    }
}

/* (self, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval): self is the scale. */
void composite_amp_update_scale(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *scale = arg_tensor(args, 0), *tracker = arg_tensor(args, 1), *found = arg_tensor(args, 2);
    tn_tensor *failed = tn_ne_scalar(s, found, 0), *grown = tn_mul_scalar(s, scale, arg_float(args, 3));
    tn_tensor *successes = tn_add_scalar(s, tracker, 1), *due = tn_eq_scalar(s, successes, arg_int(args, 5));
    grown = tn_where(s, tn_logical_and(s, due, tn_isfinite(s, grown)), grown, scale);
    tn_copy_(s, scale, tn_where(s, failed, tn_mul_scalar(s, scale, arg_float(args, 4)), grown));
    tn_copy_(s, tracker, tn_masked_fill_scalar(s, successes, tn_logical_or(s, failed, due), 0));
    give(outs, 0, scale);
}
