/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of optimisers on a device whose plugin has fused ones: by default these are called, and a step gives what the CPU's
 * operators give one at a time. Nothing runs on the CPU. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include <tenon/optim.h>
#include "device_suite.h"

TestSuite(optimizers, .init = open_without_fallback, .fini = close_device);

#define PARAMETERS 3
#define STEPS      3
#define MOST       24

static int32_t fused_calls;

static void count(void *user, const tn_call_info *info, uint64_t token)
{
    (void)user, (void)token;
    fused_calls += strstr(info->name, "_fused_") && info->device == device && info->status == TN_OK;
}

/* A vector, a matrix, and filters with their channels last. */
static tn_tensor *numbers(tn_device on, int32_t i, float phase)
{
    static const int64_t sizes[PARAMETERS][4] = {{5}, {4, 3}, {2, 3, 2, 2}};
    static const int64_t ranks[PARAMETERS] = {1, 2, 4}, counts[PARAMETERS] = {5, 12, 24};
    float values[MOST];
    for (int64_t k = 0; k < counts[i]; k++) values[k] = sinf((float)(k + i) + phase);
    tn_tensor *t = tn_from_data(s, TN_FLOAT32, (tn_ints){sizes[i], ranks[i]}, values, on);
    return i == 2 ? tn_contiguous(s, t, .memory_format = TN_CHANNELS_LAST) : t;
}

/* The parameters after some steps down the sum of parameters times factors. */
static void train(uint32_t kind, const tn_optimizer_options *options, tn_device on,
                  float out[PARAMETERS][MOST])
{
    tn_tensor *p[PARAMETERS];
    for (int32_t i = 0; i < PARAMETERS; i++) {
        p[i] = numbers(on, i, 0);
        cr_assert_eq(tn_set_requires_grad(p[i], 1), TN_OK);
    }
    tn_optimizer *o = tn_optimizer_create_of(ctx, (tn_tensors){p, PARAMETERS}, kind, options);
    cr_assert_not_null(o, "%s", tn_last_error()->message);
    for (int32_t step = 0; step < STEPS; step++) {
        tn_tensor *loss = NULL;
        for (int32_t i = 0; i < PARAMETERS; i++) {
            tn_tensor *part = tn_sum(s, tn_mul(s, tn_mul(s, p[i], p[i]), numbers(on, i, 1)));
            loss = loss ? tn_add(s, loss, part) : part;
        }
        tn_backward(s, loss);
        tn_optimizer_step(s, o);
        tn_optimizer_zero_grad(o);
    }
    for (int32_t i = 0; i < PARAMETERS; i++) {
        tn_tensor *all = tn_contiguous(s, tn_detach(s, p[i]));
        cr_assert_eq(tn_to_host(s, all, out[i], (uint64_t)tn_tensor_numel(all) * sizeof(float)), TN_OK, "%s",
                     tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    }
    tn_optimizer_destroy(o);
}

static void compare(uint32_t kind, tn_optimizer_options options)
{
    float got[PARAMETERS][MOST] = {{0}}, want[PARAMETERS][MOST] = {{0}};
    fused_calls = 0;
    train(kind, &options, device, got);
    cr_expect_eq(fused_calls, STEPS, "kind %u: %d fused calls", kind, fused_calls);
    options.fused = 0;
    train(kind, &options, TN_CPU, want);
    cr_expect_eq(fused_calls, STEPS);
    for (int32_t i = 0; i < PARAMETERS; i++)
        for (int32_t k = 0; k < MOST; k++)
            cr_expect(fabsf(got[i][k] - want[i][k]) <= 2e-6f,
                      "kind %u, parameter %d, element %d: %.9g, not %.9g", kind, i, k, (double)got[i][k],
                      (double)want[i][k]);
}

Test(optimizers, a_step_is_one_call_where_the_device_has_it)
{
    const tn_observer observer = {.size = sizeof observer, .leave = count};
    uint64_t handle;
    cr_assert_eq(tn_observer_add(ctx, &observer, &handle), TN_OK);
    tn_optimizer_options sgd = tn_optimizer_defaults(TN_SGD), adam = tn_optimizer_defaults(TN_ADAM),
                         adamw = tn_optimizer_defaults(TN_ADAMW);
    sgd.lr = 0.1, sgd.momentum = 0.9, sgd.nesterov = 1;
    adam.lr = adamw.lr = 0.05;
    adam.amsgrad = 1, adam.weight_decay = 0.1;
    compare(TN_SGD, sgd);
    compare(TN_ADAM, adam);
    compare(TN_ADAMW, adamw);
    tn_observer_remove(ctx, handle);
}

/* The device has no kernel of adagrad's fused call: operators one at a time, and nothing on the CPU. */
Test(optimizers, a_kind_without_a_kernel_steps_by_operators)
{
    const tn_observer observer = {.size = sizeof observer, .leave = count};
    float got[PARAMETERS][MOST];
    tn_optimizer_options options = tn_optimizer_defaults(TN_ADAGRAD);
    uint64_t handle;
    cr_assert_eq(tn_observer_add(ctx, &observer, &handle), TN_OK);
    train(TN_ADAGRAD, &options, device, got);
    cr_expect_eq(fused_calls, 0);
    tn_observer_remove(ctx, handle);
}
