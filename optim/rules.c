/* SPDX-License-Identifier: Apache-2.0 */
/* One step of each kind, in PyTorch's order of operations. `decay` is the weight decay of the parameter. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "optimizer.h"

tn_tensor *optim_real(tn_scope *s, tn_tensor *t)
{
    return t && tn_dtype_is_complex(tn_tensor_dtype(t)) ? tn_view_as_real(s, t) : t;
}

tn_tensor *optim_state(tn_scope *s, optim_parameter *at, uint32_t i, tn_tensor *like)
{
    if (!at->state[i]) at->state[i] = tn_retain(tn_zeros_like(s, like));
    return at->state[i];
}

tn_tensor *optim_state_like(tn_scope *s, tn_tensor *state, tn_tensor *like)
{
    if (!state) return NULL;
    tn_dtype dtype = tn_tensor_dtype(like);
    tn_device device = tn_tensor_device(like);
    if (tn_tensor_dtype(state) == dtype && tn_tensor_device(state) == device) return state;
    return tn__to_copy(s, state, .dtype = dtype, .device = device);
}

/* Weight decay as a part of the gradient. */
static tn_tensor *decayed(tn_scope *s, tn_tensor *g, tn_tensor *p, double decay)
{
    return decay != 0 ? tn_add(s, g, p, .alpha = TN_SCALAR(decay)) : g;
}

/* mean = beta mean + (1 - beta) g */
static tn_tensor *mean_of(tn_scope *s, tn_tensor *mean, tn_tensor *g, double beta)
{
    return tn_lerp_scalar_(s, mean, g, 1 - beta);
}

static tn_tensor *square_of(tn_scope *s, tn_tensor *square, tn_tensor *g, double beta)
{
    return tn_addcmul_(s, tn_mul_scalar_(s, square, beta), g, g, .value = TN_SCALAR(1 - beta));
}

/* ---- SGD */

static void sgd(tn_scope *s, optim_parameter *at, tn_tensor *p, tn_tensor *g, const tn_optimizer_options *o,
                double decay)
{
    g = decayed(s, g, p, decay);
    if (o->momentum != 0) {
        if (!at->state[0])
            at->state[0] = tn_retain(tn_clone(s, g));
        else
            tn_add_(s, tn_mul_scalar_(s, at->state[0], o->momentum), g, .alpha = TN_SCALAR(1 - o->dampening));
        g = o->nesterov ? tn_add(s, g, at->state[0], .alpha = TN_SCALAR(o->momentum)) : at->state[0];
    }
    tn_add_(s, p, g, .alpha = TN_SCALAR(-o->lr));
}

static tn_tensors states(tn_scope *s, optim_parameter **at, uint32_t count, uint32_t i, tn_tensors like)
{
    tn_tensor **items = tn_scope_memory(s, (count + 1) * sizeof *items);
    for (uint32_t k = 0; items && k < count; k++) items[k] = optim_state(s, at[k], i, like.data[k]);
    return (tn_tensors){items, items ? count : 0};
}

static void sgd_fused(tn_scope *s, optim_parameter **at, uint32_t count, tn_tensors p, tn_tensors g,
                      const tn_optimizer_options *o, double decay)
{
    static tn_tensor *const none[1] = {NULL};
    const int32_t is_first = !at[0]->state[0]; /* not the first step where momentum came later */
    tn_tensors buffers = o->momentum != 0 ? states(s, at, count, 0, p) : (tn_tensors){none, 0};
    tn_value args[] = {tn_value_tensors(p.data, p.count),
                       tn_value_tensors(g.data, g.count),
                       tn_value_tensors(buffers.data, buffers.count),
                       tn_value_float(decay),
                       tn_value_float(o->momentum),
                       tn_value_float(o->lr),
                       tn_value_float(o->dampening),
                       tn_value_bool(o->nesterov),
                       tn_value_bool(0),
                       tn_value_bool(is_first)};
    tn_scope_call(s, TN_OP__FUSED_SGD_, args, 10, NULL, 0);
}

/* ---- Adam and AdamW */

static void adam_step(tn_scope *s, optim_parameter *at, tn_tensor *p, tn_tensor *g,
                      const tn_optimizer_options *o)
{
    double t = (double)at->step, c1 = 1 - pow(o->beta1, t), c2 = 1 - pow(o->beta2, t);
    tn_tensor *mean = mean_of(s, optim_state(s, at, 0, p), g, o->beta1);
    tn_tensor *square = square_of(s, optim_state(s, at, 1, p), g, o->beta2);
    if (o->amsgrad)
        square = tn_copy_(s, optim_state(s, at, 2, p),
                          tn_maximum(s, at->state[2] ? at->state[2] : square, square));
    tn_tensor *d = tn_add_scalar_(s, tn_div_scalar_(s, tn_sqrt(s, square), sqrt(c2)), o->eps);
    tn_addcdiv_(s, p, mean, d, .value = TN_SCALAR(-o->lr / c1));
}

static void adamw(tn_scope *s, optim_parameter *at, tn_tensor *p, tn_tensor *g, const tn_optimizer_options *o,
                  double decay)
{
    tn_mul_scalar_(s, p, 1 - o->lr * decay);
    adam_step(s, at, p, g, o);
}

static void adam(tn_scope *s, optim_parameter *at, tn_tensor *p, tn_tensor *g, const tn_optimizer_options *o,
                 double decay)
{
    if (o->decoupled_weight_decay) return adamw(s, at, p, g, o, decay);
    adam_step(s, at, p, decayed(s, g, p, decay), o);
}

/* The numbers of steps as the fused operators want them: float32, on the parameters' device. */
static tn_tensors steps_of(tn_scope *s, optim_parameter **at, uint32_t count, tn_device device)
{
    tn_tensor **items = tn_scope_memory(s, (count + 1) * sizeof *items);
    tn_tensor *shared = NULL;
    for (uint32_t k = 0; items && k < count; k++) {
        if (!k || at[k]->step != at[k - 1]->step)
            shared =
                tn_full(s, TN_INTS(), TN_SCALAR((double)at[k]->step), .dtype = TN_FLOAT32, .device = device);
        items[k] = shared;
    }
    return (tn_tensors){items, items ? count : 0};
}

static void adam_fused(tn_scope *s, uint32_t op, optim_parameter **at, uint32_t count, tn_tensors p,
                       tn_tensors g, const tn_optimizer_options *o, double decay)
{
    static tn_tensor *const none[1] = {NULL};
    tn_tensors mean = states(s, at, count, 0, p), square = states(s, at, count, 1, p);
    tn_tensors most = o->amsgrad ? states(s, at, count, 2, p) : (tn_tensors){none, 0},
               step = steps_of(s, at, count, tn_tensor_device(p.data[0]));
    tn_value args[] = {tn_value_tensors(p.data, p.count),
                       tn_value_tensors(g.data, g.count),
                       tn_value_tensors(mean.data, mean.count),
                       tn_value_tensors(square.data, square.count),
                       tn_value_tensors(most.data, most.count),
                       tn_value_tensors(step.data, step.count),
                       tn_value_float(o->lr),
                       tn_value_float(o->beta1),
                       tn_value_float(o->beta2),
                       tn_value_float(decay),
                       tn_value_float(o->eps),
                       tn_value_bool(o->amsgrad),
                       tn_value_bool(0)};
    tn_scope_call(s, op, args, 13, NULL, 0);
}

static void adam_many(tn_scope *s, optim_parameter **at, uint32_t count, tn_tensors p, tn_tensors g,
                      const tn_optimizer_options *o, double decay)
{
    adam_fused(s, o->decoupled_weight_decay ? TN_OP__FUSED_ADAMW_ : TN_OP__FUSED_ADAM_, at, count, p, g, o,
               decay);
}

static void adamw_many(tn_scope *s, optim_parameter **at, uint32_t count, tn_tensors p, tn_tensors g,
                       const tn_optimizer_options *o, double decay)
{
    adam_fused(s, TN_OP__FUSED_ADAMW_, at, count, p, g, o, decay);
}

/* ---- The others */

static tn_tensor *adagrad_sum(tn_scope *s, optim_parameter *at, tn_tensor *p, const tn_optimizer_options *o)
{
    if (!at->state[0]) tn_fill_scalar_(s, optim_state(s, at, 0, p), o->initial_accumulator_value);
    return at->state[0];
}

static void adagrad(tn_scope *s, optim_parameter *at, tn_tensor *p, tn_tensor *g,
                    const tn_optimizer_options *o, double decay)
{
    double rate = o->lr / (1 + (double)(at->step - 1) * o->lr_decay);
    tn_tensor *sum = adagrad_sum(s, at, p, o);
    g = decayed(s, g, p, decay);
    tn_addcmul_(s, sum, g, g);
    tn_addcdiv_(s, p, g, tn_add_scalar_(s, tn_sqrt(s, sum), o->eps), .value = TN_SCALAR(-rate));
}

static void adagrad_many(tn_scope *s, optim_parameter **at, uint32_t count, tn_tensors p, tn_tensors g,
                         const tn_optimizer_options *o, double decay)
{
    for (uint32_t k = 0; k < count; k++) adagrad_sum(s, at[k], p.data[k], o);
    tn_tensors sums = states(s, at, count, 0, p), step = steps_of(s, at, count, tn_tensor_device(p.data[0]));
    tn_value args[] = {tn_value_tensors(p.data, p.count),
                       tn_value_tensors(g.data, g.count),
                       tn_value_tensors(sums.data, sums.count),
                       tn_value_tensors(step.data, step.count),
                       tn_value_float(o->lr),
                       tn_value_float(o->lr_decay),
                       tn_value_float(decay),
                       tn_value_float(o->eps),
                       tn_value_bool(0)};
    tn_scope_call(s, TN_OP__FUSED_ADAGRAD_, args, 9, NULL, 0);
}

static void adadelta(tn_scope *s, optim_parameter *at, tn_tensor *p, tn_tensor *g,
                     const tn_optimizer_options *o, double decay)
{
    tn_tensor *square = optim_state(s, at, 0, p), *total = optim_state(s, at, 1, p);
    g = decayed(s, g, p, decay);
    square_of(s, square, g, o->rho);
    tn_tensor *std = tn_sqrt_(s, tn_add_scalar(s, square, o->eps));
    tn_tensor *delta = tn_mul_(s, tn_div_(s, tn_sqrt_(s, tn_add_scalar(s, total, o->eps)), std), g);
    square_of(s, total, delta, o->rho);
    tn_add_(s, p, delta, .alpha = TN_SCALAR(-o->lr));
}

static void adamax(tn_scope *s, optim_parameter *at, tn_tensor *p, tn_tensor *g,
                   const tn_optimizer_options *o, double decay)
{
    double rate = o->lr / (1 - pow(o->beta1, (double)at->step));
    g = decayed(s, g, p, decay);
    tn_tensor *mean = mean_of(s, optim_state(s, at, 0, p), g, o->beta1), *most = optim_state(s, at, 1, p);
    tn_copy_(s, most,
             tn_maximum(s, tn_mul_scalar(s, most, o->beta2), tn_add_scalar(s, tn_abs(s, g), o->eps)));
    tn_addcdiv_(s, p, mean, most, .value = TN_SCALAR(-rate));
}

static void asgd(tn_scope *s, optim_parameter *at, tn_tensor *p, tn_tensor *g, const tn_optimizer_options *o,
                 double decay)
{
    double *eta = &at->numbers[0], *mu = &at->numbers[1], t = (double)at->step;
    if (at->step == 1) *eta = o->lr, *mu = 1;
    tn_tensor *mean = optim_state(s, at, 0, p);
    g = decayed(s, g, p, decay);
    tn_mul_scalar_(s, p, 1 - o->lambd * *eta);
    tn_add_(s, p, g, .alpha = TN_SCALAR(-*eta));
    if (*mu == 1)
        tn_copy_(s, mean, p);
    else
        tn_add_(s, mean, tn_sub(s, p, mean), .alpha = TN_SCALAR(*mu));
    *eta = o->lr / pow(1 + o->lambd * o->lr * t, o->alpha);
    *mu = 1 / fmax(1, t - o->t0);
}

/* Weight decay outside the gradient, or in it. */
static tn_tensor *decayed_as(tn_scope *s, tn_tensor *g, tn_tensor *p, const tn_optimizer_options *o,
                             double decay)
{
    if (!o->decoupled_weight_decay) return decayed(s, g, p, decay);
    if (decay != 0) tn_mul_scalar_(s, p, 1 - o->lr * decay);
    return g;
}

static void nadam(tn_scope *s, optim_parameter *at, tn_tensor *p, tn_tensor *g, const tn_optimizer_options *o,
                  double decay)
{
    double t = (double)at->step, c2 = 1 - pow(o->beta2, t), *product = &at->numbers[0];
    double mu = o->beta1 * (1 - 0.5 * pow(0.96, t * o->momentum_decay));
    double next = o->beta1 * (1 - 0.5 * pow(0.96, (t + 1) * o->momentum_decay));
    if (at->step == 1) *product = 1;
    *product *= mu;
    g = decayed_as(s, g, p, o, decay);
    tn_tensor *mean = mean_of(s, optim_state(s, at, 0, p), g, o->beta1);
    tn_tensor *square = square_of(s, optim_state(s, at, 1, p), g, o->beta2);
    tn_tensor *d = tn_add_scalar_(s, tn_sqrt_(s, tn_div_scalar(s, square, c2)), o->eps);
    tn_addcdiv_(s, p, g, d, .value = TN_SCALAR(-o->lr * (1 - mu) / (1 - *product)));
    tn_addcdiv_(s, p, mean, d, .value = TN_SCALAR(-o->lr * next / (1 - *product * next)));
}

static void radam(tn_scope *s, optim_parameter *at, tn_tensor *p, tn_tensor *g, const tn_optimizer_options *o,
                  double decay)
{
    double t = (double)at->step, c1 = 1 - pow(o->beta1, t), c2 = 1 - pow(o->beta2, t);
    double end = 2 / (1 - o->beta2) - 1, rho = end - 2 * t * pow(o->beta2, t) / c2;
    g = decayed_as(s, g, p, o, decay);
    tn_tensor *mean = mean_of(s, optim_state(s, at, 0, p), g, o->beta1);
    tn_tensor *square = square_of(s, optim_state(s, at, 1, p), g, o->beta2);
    tn_tensor *update = tn_div_scalar(s, mean, c1);
    if (rho > 5) {
        double rect = sqrt((rho - 4) * (rho - 2) * end / ((end - 4) * (end - 2) * rho));
        tn_tensor *d = tn_add_scalar_(s, tn_sqrt(s, square), o->eps);
        update = tn_mul_scalar_(s, tn_div_(s, tn_mul_scalar_(s, update, sqrt(c2)), d), rect);
    }
    tn_add_(s, p, update, .alpha = TN_SCALAR(-o->lr));
}

static void rmsprop(tn_scope *s, optim_parameter *at, tn_tensor *p, tn_tensor *g,
                    const tn_optimizer_options *o, double decay)
{
    g = decayed(s, g, p, decay);
    tn_tensor *square = square_of(s, optim_state(s, at, 0, p), g, o->alpha), *d = square;
    if (o->centered) {
        tn_tensor *mean = mean_of(s, optim_state(s, at, 2, p), g, o->alpha);
        d = tn_addcmul(s, square, mean, mean, .value = TN_SCALAR(-1.0));
    }
    d = tn_add_scalar_(s, tn_sqrt(s, d), o->eps);
    if (o->momentum != 0) {
        tn_tensor *buffer = tn_mul_scalar_(s, optim_state(s, at, 1, p), o->momentum);
        tn_add_(s, p, tn_addcdiv_(s, buffer, g, d), .alpha = TN_SCALAR(-o->lr));
    } else {
        tn_addcdiv_(s, p, g, d, .value = TN_SCALAR(-o->lr));
    }
}

static void rprop(tn_scope *s, optim_parameter *at, tn_tensor *p, tn_tensor *g, const tn_optimizer_options *o,
                  double decay)
{
    tn_tensor *previous = optim_state(s, at, 0, p);
    (void)decay;
    if (!at->state[1]) tn_fill_scalar_(s, optim_state(s, at, 1, p), o->lr);
    tn_tensor *product = tn_mul(s, g, previous), *turned = tn_lt_scalar(s, product, 0.0);
    tn_tensor *factor =
        tn_masked_fill_scalar_(s, tn_ones_like(s, p), tn_gt_scalar(s, product, 0.0), o->eta_plus);
    tn_masked_fill_scalar_(s, factor, turned, o->eta_minus);
    tn_clamp_(s, tn_mul_(s, at->state[1], factor), .min = TN_SCALAR(o->step_min),
              .max = TN_SCALAR(o->step_max));
    g = tn_masked_fill_scalar(s, g, turned, 0.0);
    tn_addcmul_(s, p, tn_sign(s, g), at->state[1], .value = TN_SCALAR(-1.0));
    tn_copy_(s, previous, g);
}

static double norm_of(tn_scope *s, tn_tensor *t)
{
    return tn_item_double(s, tn_linalg_vector_norm(s, t));
}

/* Mean of the squares along a dimension, which stays with size 1. */
static tn_tensor *mean_square(tn_scope *s, tn_tensor *g, int64_t dim)
{
    return tn_mean_dim(s, tn_mul(s, g, g), TN_INTS(dim), .keepdim = 1);
}

static void adafactor(tn_scope *s, optim_parameter *at, tn_tensor *p, tn_tensor *g,
                      const tn_optimizer_options *o, double decay)
{
    double t = (double)at->step, weight = pow(t, o->beta2_decay), rate = fmin(o->lr, 1 / sqrt(t));
    double elements = (double)tn_tensor_numel(p);
    double alpha = fmax(o->eps2, norm_of(s, p) / sqrt(elements)) * rate;
    double eps = o->eps != 0                         ? o->eps
                 : tn_tensor_dtype(p) == TN_FLOAT64  ? DBL_EPSILON
                 : tn_tensor_dtype(p) == TN_BFLOAT16 ? 0x1p-7
                 : tn_tensor_dtype(p) == TN_FLOAT16  ? 0x1p-10
                                                     : FLT_EPSILON;
    tn_tensor *variance;
    if (decay != 0) tn_mul_scalar_(s, p, 1 - o->lr * decay);
    if (tn_tensor_rank(g) > 1) {
        tn_tensor *by_row = mean_square(s, g, -1), *by_column = mean_square(s, g, -2);
        tn_tensor *row = tn_lerp_scalar_(s, optim_state(s, at, 0, by_row), by_row, weight);
        tn_tensor *column = tn_lerp_scalar_(s, optim_state(s, at, 1, by_column), by_column, weight);
        tn_tensor *mean = tn_clamp(s, tn_mean_dim(s, row, TN_INTS(-2), .keepdim = 1), .min = TN_SCALAR(eps));
        variance = tn_div_(s, tn_matmul(s, row, column), mean);
    } else {
        variance = tn_clone(s, tn_lerp_scalar_(s, optim_state(s, at, 2, g), tn_mul(s, g, g), weight));
    }
    tn_tensor *update = tn_mul_(s, tn_rsqrt_(s, tn_clamp_(s, variance, .min = TN_SCALAR(eps * eps))), g);
    double denominator = fmax(1, norm_of(s, update) / (sqrt(elements) * o->d));
    tn_add_(s, p, update, .alpha = TN_SCALAR(-alpha / denominator));
}

/* The nearest orthogonal matrix, nearly: a polynomial of the matrix that takes its singular values towards 1. */
static tn_tensor *orthogonalized(tn_scope *s, tn_tensor *g, const tn_optimizer_options *o)
{
    const int32_t is_tall = tn_tensor_size(g, 0) > tn_tensor_size(g, 1);
    tn_tensor *x = tn_to(s, g, TN_BFLOAT16);
    if (is_tall) x = tn_t(s, x);
    x = tn_div(s, x, tn_clamp(s, tn_linalg_vector_norm(s, x), .min = TN_SCALAR(o->eps)));
    for (int64_t i = 0; i < o->ns_steps; i++) {
        tn_tensor *gram = tn_mm(s, x, tn_t(s, x));
        tn_tensor *update =
            tn_addmm(s, gram, gram, gram, .beta = TN_SCALAR(o->ns_b), .alpha = TN_SCALAR(o->ns_c));
        x = tn_addmm(s, x, update, x, .beta = TN_SCALAR(o->ns_a));
    }
    return is_tall ? tn_t(s, x) : x;
}

static void muon(tn_scope *s, optim_parameter *at, tn_tensor *p, tn_tensor *g, const tn_optimizer_options *o,
                 double decay)
{
    const double rows = (double)tn_tensor_size(p, 0), columns = (double)tn_tensor_size(p, 1);
    const double ratio = o->adjust_lr && !strcmp(o->adjust_lr, "match_rms_adamw")
                             ? 0.2 * sqrt(fmax(rows, columns))
                             : sqrt(fmax(1, rows / columns));
    tn_tensor *mean = mean_of(s, optim_state(s, at, 0, p), g, o->momentum);
    tn_tensor *update = orthogonalized(s, o->nesterov ? tn_lerp_scalar(s, g, mean, o->momentum) : mean, o);
    if (decay != 0) tn_mul_scalar_(s, p, 1 - o->lr * decay);
    tn_add_(s, p, update, .alpha = TN_SCALAR(-o->lr * ratio));
}

const optim_kind optim_kinds[] = {
    {0},
    {.name = "SGD",
     .states = {"momentum_buffer"},
     .step = sgd,
     .fused = sgd_fused,
     .fused_op = TN_OP__FUSED_SGD_},
    {.name = "Adam",
     .states = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
     .step = adam,
     .fused = adam_many,
     .fused_op = TN_OP__FUSED_ADAM_},
    {.name = "AdamW",
     .states = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
     .step = adamw,
     .fused = adamw_many,
     .fused_op = TN_OP__FUSED_ADAMW_},
    {.name = "Adagrad",
     .states = {"sum"},
     .step = adagrad,
     .fused = adagrad_many,
     .fused_op = TN_OP__FUSED_ADAGRAD_},
    {.name = "Adadelta", .states = {"square_avg", "acc_delta"}, .step = adadelta},
    {.name = "Adamax", .states = {"exp_avg", "exp_inf"}, .step = adamax},
    {.name = "ASGD", .states = {"ax"}, .numbers = {"eta", "mu"}, .step = asgd},
    {.name = "NAdam", .states = {"exp_avg", "exp_avg_sq"}, .numbers = {"mu_product"}, .step = nadam},
    {.name = "RAdam", .states = {"exp_avg", "exp_avg_sq"}, .step = radam},
    {.name = "RMSprop", .states = {"square_avg", "momentum_buffer", "grad_avg"}, .step = rmsprop},
    {.name = "Rprop", .states = {"prev", "step_size"}, .step = rprop},
    {.name = "Adafactor", .states = {"row_var", "col_var", "variance"}, .step = adafactor},
    {.name = "LBFGS"},
    {.name = "Muon", .states = {"momentum_buffer"}, .step = muon},
    {.name = "SparseAdam"},
};
