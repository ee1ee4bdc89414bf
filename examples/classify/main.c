/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program to begin with: trains a small network to tell two spirals apart, on the best device there is, draws the
 * curve of its loss, and keeps its weights.
 */
#include <math.h>
#include <stdio.h>
#include <tenon/nn.h>
#include <tenon/optim.h>
#include <tenon/progress.h>

enum { STEPS = 1500, BATCH = 256 };

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tn_last_error() ? tn_last_error()->message : "unknown error");
    return 1;
}

/* Points on two spirals around 0, with noise. Returns x [BATCH, 2]; `*label` is 0. or 1. for each. */
static tn_tensor *spirals(tn_scope *s, tn_device device, tn_tensor **label)
{
    tn_tensor *which = tn_randint(s, 2, TN_INTS(BATCH), .dtype = TN_FLOAT32, .device = device);
    tn_tensor *radius = tn_sqrt(s, tn_rand(s, TN_INTS(BATCH), .device = device));
    tn_tensor *angle = tn_add(s, tn_mul_scalar(s, radius, 9), tn_mul_scalar(s, which, 3.14159265));
    tn_tensor *x = tn_stack(
        s, TN_TENSORS(tn_mul(s, radius, tn_cos(s, angle)), tn_mul(s, radius, tn_sin(s, angle))), .dim = 1);
    *label = which;
    return tn_add(s, x, tn_mul_scalar(s, tn_randn_like(s, x), 0.02));
}

static int train(tn_context *ctx, tn_device device, tn_module *net)
{
    static double losses[STEPS];
    tn_optimizer *o = tn_adamw_create(net, .lr = 0.01);
    tn_progress *p = tn_progress_create("training", STEPS, .unit = "points", .units_a_step = BATCH);
    for (int64_t i = 0; i < STEPS && o && !tn_step_status(); i++)
        TN_STEP (s, ctx) {
            tn_tensor *label, *x = spirals(s, device, &label);
            tn_tensor *y = tn_squeeze_dim(s, tn_module_forward(s, net, x), 1);
            tn_tensor *loss = tn_binary_cross_entropy_with_logits(s, y, label);
            tn_backward(s, loss);
            tn_optimizer_step(s, o, .lr = tn_lr_cosine(i, 0.01, STEPS, 0));
            tn_optimizer_zero_grad(o);
            losses[i] = tn_item_double(s, loss);
            if (tn_progress_step(p)) tn_progress_show(p, "loss %.4f", losses[i]);
        }
    int status = !o || tn_step_status() ? failed("training") : 0;
    tn_progress_destroy(p);
    tn_optimizer_destroy(o);
    if (!status && tn_plot_svg("loss.svg", TN_SERIES({.y = losses, .count = STEPS, .smooth = 0.9}),
                               .title = "loss", .x_label = "step"))
        status = failed("loss.svg");
    return status;
}

/* The share of new points that the network sees right. */
static double test(tn_context *ctx, tn_device device, tn_module *net)
{
    double right = NAN;
    tn_module_train(net, 0);
    TN_STEP (s, ctx) {
        tn_tensor *label, *x = spirals(s, device, &label);
        tn_tensor *seen = tn_gt_scalar(s, tn_squeeze_dim(s, tn_module_forward(s, net, x), 1), 0);
        right =
            tn_item_double(s, tn_mean(s, tn_to(s, tn_eq(s, tn_to(s, seen, TN_FLOAT32), label), TN_FLOAT32)));
    }
    return right;
}

int main(void)
{
    tn_context *ctx;
    char name[64];
    const char *why;
    if (tn_context_create(NULL, &ctx)) return failed("context");
    tn_device device = tn_device_choose(ctx, NULL, &why);
    if (device & TN_DEVICE_MISSING) return failed("device");
    printf("%s: %s\n", tn_device_format(ctx, device, name, sizeof name), why);
    tn_manual_seed(ctx, 0);

    tn_module *net = tn_module_create(ctx, "net", NULL); /* children run one after another */
    tn_module_to(net, device, 0);
    tn_linear_create(net, "in", 2, 64);
    tn_gelu_create(net, "act1");
    tn_linear_create(net, "middle", 64, 64);
    tn_gelu_create(net, "act2");
    tn_linear_create(net, "out", 64, 1);
    int status = tn_module_failed(net);
    if (status) fprintf(stderr, "model: %s\n", tn_module_error(net));

    if (!status) status = train(ctx, device, net);
    if (!status) printf("accuracy: %.1f %%\n", 100 * test(ctx, device, net));
    if (!status && tn_module_save(net, "weights.safetensors")) status = failed("weights.safetensors");
    if (!status) puts("wrote loss.svg and weights.safetensors");
    tn_module_destroy(net);
    tn_context_destroy(ctx);
    return status;
}
