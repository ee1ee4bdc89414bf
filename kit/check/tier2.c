/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 2: a perceptron learns. A device with only the twelve kernels must train it without the CPU: the
 * network and its gradients use only their primitives. The second network is written in layers, and shows
 * what else it needs.
 */
#include "model.h"
#include "sources.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define POINTS  64
#define HIDDEN  16
#define CLASSES 2
#define STEPS   80
/* In the first steps no input of relu is nearer to 0 than 0.002, so the rounding of a product decides no gradient. */
#define SEED 2495

typedef struct network {
    tn_tensor *x, *target, *answers; /* points, one-hot classes, classes */
    tn_tensor *w1, *b1, *w2, *b2;
} network;

typedef tn_tensor *(*loss_fn)(tn_scope *s, const network *n);

/* ---- Two interleaved half circles ---------------------------------------------------------------------- */

static void make_points(double *x, int64_t *classes)
{
    for (int i = 0; i < POINTS; i++) {
        double angle = 3.14159265358979 * (i / 2) / (POINTS / 2 - 1);
        classes[i] = i % 2;
        x[2 * i] = i % 2 ? 1 - cos(angle) : cos(angle);
        x[2 * i + 1] = i % 2 ? 0.5 - sin(angle) : sin(angle);
    }
}

static tn_tensor *on(tn_scope *s, tn_device device, tn_dtype dtype, tn_tensor *t)
{
    return tn__to_copy(s, t, .dtype = dtype, .device = device);
}

static tn_tensor *weights(tn_scope *s, tn_device device, tn_dtype dtype, int64_t rows, int64_t columns,
                          uint64_t seed)
{
    call_tensor c = {.dtype = TN_FLOAT64, .low = -1, .high = 1};
    call_shape(&c, 2, (const int64_t[]){rows, columns});
    tn_tensor *t = on(s, device, dtype, call_make(s, &c, seed, TN_CPU));
    if (t) tn_set_requires_grad(t = tn_detach(s, t), 1);
    return t;
}

static void make_network(network *n, tn_scope *s, tn_device device, tn_dtype dtype, uint64_t seed)
{
    double x[2 * POINTS], one_hot[POINTS * CLASSES] = {0};
    int64_t classes[POINTS];
    make_points(x, classes);
    for (int i = 0; i < POINTS; i++) one_hot[i * CLASSES + classes[i]] = 1;
    n->x = on(s, device, dtype, tn_from_data(s, TN_FLOAT64, TN_INTS(POINTS, 2), x, TN_CPU));
    n->target = on(s, device, dtype, tn_from_data(s, TN_FLOAT64, TN_INTS(POINTS, CLASSES), one_hot, TN_CPU));
    n->answers = on(s, device, TN_INT64, tn_from_data(s, TN_INT64, TN_INTS(POINTS), classes, TN_CPU));
    n->w1 = weights(s, device, dtype, 2, HIDDEN, seed + 1);
    n->b1 = weights(s, device, dtype, 1, HIDDEN, seed + 2);
    n->w2 = weights(s, device, dtype, HIDDEN, CLASSES, seed + 3);
    n->b2 = weights(s, device, dtype, 1, CLASSES, seed + 4);
}

/* ---- Losses -------------------------------------------------------------------------------------------- */

/* Sigmoid as 1 / (1 + exp(-x)), cross entropy as log(sum(exp(z))) - z of the class. */
static tn_tensor *primitive_loss(tn_scope *s, const network *n)
{
    tn_tensor *h = tn_add(s, tn_mm(s, n->x, n->w1), n->b1);
    h = tn_reciprocal(s, tn_add_scalar(s, tn_exp(s, tn_neg(s, h)), tn_value_float(1)));
    tn_tensor *z = tn_add(s, tn_mm(s, h, n->w2), n->b2);
    tn_tensor *all = tn_log(s, tn_sum_dim(s, tn_exp(s, z), TN_INTS(1)));
    tn_tensor *own = tn_sum_dim(s, tn_mul(s, z, n->target), TN_INTS(1));
    return tn_mul_scalar(s, tn_sum(s, tn_sub(s, all, own)), 1.0 / POINTS);
}

static tn_tensor *layer_loss(tn_scope *s, const network *n)
{
    tn_tensor *h = tn_linear(s, n->x, tn_transpose(s, n->w1, 0, 1), .bias = tn_squeeze_dim(s, n->b1, 0));
    h = tn_relu(s, h);
    tn_tensor *z = tn_linear(s, h, tn_transpose(s, n->w2, 0, 1), .bias = tn_squeeze_dim(s, n->b2, 0));
    return tn_cross_entropy_loss(s, z, n->answers);
}

/* ---- Training ------------------------------------------------------------------------------------------ */

static void step(tn_scope *s, const network *n, loss_fn loss, double *out)
{
    tn_tensor *leaves[] = {n->w1, n->b1, n->w2, n->b2}, *grads[4] = {NULL}, *l = loss(s, n);
    if (!l || tn_grad(s, (tn_tensors){&l, 1}, (tn_tensors){leaves, 4}, NULL, grads)) return;
    *out = tn_item_double(s, l);
    tn_scope *quiet = tn_scope_open_child(
        s, &(tn_scope_options){.size = sizeof(tn_scope_options), .grad_mode = TN_GRAD_OFF});
    for (int i = 0; i < 4; i++) tn_sub_(quiet, leaves[i], tn_mul_scalar(quiet, grads[i], 1.0));
    tn_scope_close(quiet);
}

/* 0, or 1 with the error in `error`. */
static int train(check_target *t, tn_device device, tn_dtype dtype, loss_fn loss, double *losses, char *error,
                 size_t bytes)
{
    network n;
    tn_scope *s = tn_scope_open(t->ctx);
    make_network(&n, s, device, dtype, SEED);
    for (int i = 0; i < STEPS && !tn_scope_failed(s); i++) {
        tn_scope *inner = tn_scope_open_child(s, NULL);
        step(inner, &n, loss, &losses[i]);
        tn_scope_close(inner);
    }
    int failed = tn_scope_failed(s) != 0;
    if (failed) snprintf(error, bytes, "%s", tn_scope_error(s) ? tn_scope_error(s)->message : "failed");
    tn_scope_close(s);
    return failed;
}

/* The first steps must agree closely; later ones may drift apart, but the loss must fall as far. */
static void compare_losses(check_result *out, const double *got, const double *want, double first,
                           double drift)
{
    for (int i = 0; i < STEPS; i++) {
        double allowed = (i < 5 ? first : drift) * fabs(want[i]);
        if (!check_that(out, fabs(got[i] - want[i]) <= allowed, "step %d: loss %.9g, expected %.9g", i,
                        got[i], want[i]))
            return;
    }
    check_that(out, got[STEPS - 1] < 0.6 * got[0], "the loss went from %.4g to %.4g only", got[0],
               got[STEPS - 1]);
}

typedef struct training {
    tn_dtype dtype;
    loss_fn loss;
    double first, drift;
} training;

static void run_training(check_target *t, const check_case *c, check_result *out)
{
    const training *what = c->data;
    double got[STEPS] = {0}, want[STEPS] = {0};
    char error[400];
    check_watch watch;
    check_watch_begin(t, &watch);
    int failed = train(t, t->device, what->dtype, what->loss, got, error, sizeof error);
    out->way = check_watch_end(t, &watch);
    if (failed) {
        check_fail(out, "%s: %s", t->name, error);
        return;
    }
    if (t->other && train(t, t->other, what->dtype, what->loss, want, error, sizeof error)) {
        check_skip(out, "%s refuses: %s", t->other_name, error);
        return;
    }
    compare_losses(out, got, t->other ? want : got, what->first, what->drift);
    if (out->way == CHECK_WAY_CPU) check_absent(out, "the CPU answers for %s", watch.fallbacks);
}

void check_tier2(check_target *t, check_list *list)
{
    static const training primitives[] = {{TN_FLOAT32, primitive_loss, 1e-5, 1e-3},
                                          {TN_FLOAT64, primitive_loss, 1e-9, 1e-7}};
    static const training layers[] = {{TN_FLOAT32, layer_loss, 1e-5, 1e-2},
                                      {TN_FLOAT64, layer_loss, 1e-9, 1e-6}};
    int unknown = !t->facts.dtypes || !*t->facts.dtypes;
    for (size_t i = 0; i < 2; i++) {
        if (!(unknown ? i == 0 : check_has_dtype(t, primitives[i].dtype))) continue;
        check_add(list, &(check_case){.tier = 2, .run = run_training, .data = &primitives[i]},
                  "2/perceptron/primitives/%s", tn_dtype_name(primitives[i].dtype));
        check_add(
            list,
            &(check_case){.tier = 2, .tags = CHECK_TAG_OPTIONAL, .run = run_training, .data = &layers[i]},
            "2/perceptron/layers/%s", tn_dtype_name(layers[i].dtype));
    }
}
