/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: what a function saves is computed again in backward, as it was. */
#include "suite.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

TestSuite(checkpoint, .init = begin);

/* How a function of a test ran. */
typedef struct runs {
    int count, destroyed;
    int fails_in;   /* number of the run that fails; 0: none */
    int other_from; /* number of the run from which on it does something else; 0: none */
    tn_tensor *weight;
    tn_dtype dtype; /* of what the last run gave */
    uint32_t mode;  /* of gradients in the last run */
} runs;

static void destroy(void *user)
{
    ((runs *)user)->destroyed++;
}

static tn_tensor *apply(tn_scope *scope, tn_tensors_fn f, runs *r, tn_tensors in)
{
    tn_tensor *out = NULL;
    tn_checkpoint_options o = {.size = sizeof o, .destroy = destroy};
    tn_checkpoint(scope, f, r, in, &o, &out);
    return out;
}

static tn_tensor *grad_of(tn_tensor *y, tn_tensor *x, int32_t create_graph)
{
    tn_tensor *out = NULL;
    tn_grad(s, TN_TENSORS(tn_sum(s, y)), TN_TENSORS(x),
            &(tn_backward_options){.size = sizeof(tn_backward_options), .create_graph = create_graph}, &out);
    return out;
}

/* exp(w sin x): three tensors are saved, one of them of the program alone. */
static int32_t wave(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    runs *r = user;
    r->count++;
    r->mode = tn_grad_mode();
    if (r->fails_in == r->count) return tn_scope_fail(scope, TN_E_STATE, "the wave broke");
    tn_tensor *y = tn_sin(scope, in.data[0]);
    if (r->weight) y = tn_mul(scope, y, r->weight);
    *out = tn_exp(scope, y);
    if (r->other_from && r->count >= r->other_from) *out = tn_exp(scope, *out);
    return TN_OK;
}

static double d_wave(double w, double x)
{
    return exp(w * sin(x)) * w * cos(x);
}

Test(checkpoint, gives_the_gradients_of_the_plain_call)
{
    runs r = {.weight = VECTOR(s, 1, 2, 0.5)};
    tn_tensor *x = VECTOR(s, 1, 0.5, 1), *y = apply(s, wave, &r, TN_TENSORS(x));
    EXPECT(s, y, exp(2 * sin(0.5)), exp(0.5 * sin(1)));
    cr_assert_eq(r.count, 1);
    tn_backward(s, tn_sum(s, tn_mul_scalar(s, y, 3)));
    EXPECT(s, tn_grad_of(s, x), 3 * d_wave(2, 0.5), 3 * d_wave(0.5, 1));
    EXPECT(s, tn_grad_of(s, r.weight), 3 * exp(2 * sin(0.5)) * sin(0.5), 3 * exp(0.5 * sin(1)) * sin(1));
    cr_assert_eq(r.count, 2);
    cr_assert_eq(r.mode, TN_GRAD_ON);
    tn_drop(s, y);
    cr_assert_eq(r.destroyed, 1);
    end();
}

/* The graph leads to what the input was made of. */
Test(checkpoint, is_a_part_of_a_larger_graph)
{
    runs r = {0};
    tn_tensor *x = VECTOR(s, 1, 0.25, 0.5);
    tn_tensor *y = apply(s, wave, &r, TN_TENSORS(tn_mul_scalar(s, x, 2)));
    tn_backward(s, tn_sum(s, tn_mul(s, y, y)));
    EXPECT(s, tn_grad_of(s, x), 4 * exp(2 * sin(0.5)) * cos(0.5), 4 * exp(2 * sin(1)) * cos(1));
    end();
}

Test(checkpoint, runs_again_only_where_backward_needs_it)
{
    runs r = {0}, quiet = {0}, constant = {0};
    tn_tensor *x = VECTOR(s, 1, 0.5), *fixed = VECTOR(s, 0, 0.5);
    tn_scope *inner = tn_scope_open_child(s, NULL);
    apply(inner, wave, &r, TN_TENSORS(x));
    cr_assert_eq(r.destroyed, 0);
    tn_scope_close(inner);
    cr_assert(r.count == 1 && r.destroyed == 1, "%d %d", r.count, r.destroyed);
    inner = tn_scope_open_child(
        s, &(tn_scope_options){.size = sizeof(tn_scope_options), .grad_mode = TN_GRAD_OFF});
    cr_assert_not(tn_requires_grad(apply(inner, wave, &quiet, TN_TENSORS(x))));
    cr_assert(quiet.count == 1 && quiet.destroyed == 1);
    tn_scope_close(inner);
    cr_assert_not(tn_requires_grad(apply(s, wave, &constant, TN_TENSORS(fixed))));
    cr_assert(constant.count == 1 && constant.destroyed == 1);
    end();
}

/* What the first run has read goes, also when it keeps the graph. */
Test(checkpoint, runs_again_for_each_backward_run_that_keeps_the_graph)
{
    runs r = {0};
    tn_tensor *x = VECTOR(s, 1, 0.5), *y = apply(s, wave, &r, TN_TENSORS(x));
    tn_backward_options keep = {.size = sizeof keep, .retain_graph = 1};
    tn_backward_with(s, TN_TENSORS(y), &keep);
    cr_assert_eq(r.count, 2);
    tn_backward_with(s, TN_TENSORS(y), NULL);
    EXPECT(s, tn_grad_of(s, x), 2 * d_wave(1, 0.5));
    cr_assert_eq(r.count, 3);
    tn_backward(s, y);
    expect_error(s, "Trying to backward through the graph a second time");
    end();
}

Test(checkpoint, has_second_derivatives)
{
    runs r = {0};
    tn_tensor *x = VECTOR(s, 1, 0.5, 1), *y = apply(s, wave, &r, TN_TENSORS(x));
    tn_tensor *second = grad_of(grad_of(y, x, 1), x, 0);
    EXPECT(s, second, exp(sin(0.5)) * (cos(0.5) * cos(0.5) - sin(0.5)),
           exp(sin(1)) * (cos(1) * cos(1) - sin(1)));
    end();
}

/* ---- The same again ---------------------------------------------------------------------------------------- */

static int32_t drop_half(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    ((runs *)user)->count++;
    *out = tn_dropout(scope, in.data[0], 0.5, 1);
    *out = tn_mul(scope, *out, *out);
    return TN_OK;
}

/* What is dropped stays dropped, and the numbers of the program go on as without a second run. */
Test(checkpoint, draws_the_same_random_numbers)
{
    runs r = {0};
    tn_tensor *x = tn_ones(s, TN_INTS(64), .dtype = TN_FLOAT64), *after[2];
    double y[64], grad[64];
    tn_set_requires_grad(x, 1);
    for (int with = 0; with < 2; with++) {
        tn_manual_seed(ctx, 7);
        tn_tensor *out = apply(s, drop_half, &r, TN_TENSORS(x));
        tn_rand(s, TN_INTS(3));
        if (with) tn_backward(s, tn_sum(s, out));
        after[with] = tn_rand(s, TN_INTS(4), .dtype = TN_FLOAT64);
        cr_assert_eq(tn_to_host(s, out, y, sizeof y), TN_OK);
    }
    cr_assert_eq(tn_to_host(s, tn_grad_of(s, x), grad, sizeof grad), TN_OK);
    int dropped = 0;
    for (int i = 0; i < 64; i++) {
        cr_expect_eq(grad[i], 2 * y[i], "%d: %g, %g", i, grad[i], y[i]); /* y = (2x)^2, or nothing */
        dropped += y[i] == 0;
    }
    cr_assert(dropped > 8 && dropped < 56, "%d", dropped);
    cr_assert(tn_item_bool(s, tn_all(s, tn_eq(s, after[0], after[1]))));
    end();
}

Test(checkpoint, can_let_the_random_numbers_be)
{
    runs r = {0};
    tn_generator_state before = {.size = sizeof before}, behind = {.size = sizeof behind};
    tn_tensor *x = VECTOR(s, 1, 1, 2, 3, 4), *out = NULL;
    tn_checkpoint_options o = {.size = sizeof o, .any_random_state = 1};
    cr_assert_eq(tn_checkpoint(s, drop_half, &r, TN_TENSORS(x), &o, &out), TN_OK);
    tn_generator_get_state(tn_default_generator(ctx, TN_CPU), &before);
    tn_backward(s, tn_sum(s, out));
    tn_generator_get_state(tn_default_generator(ctx, TN_CPU), &behind);
    cr_assert_eq(r.count, 2);
    cr_assert_gt(behind.offset, before.offset); /* new ones were drawn */
    end();
}

static int32_t own_numbers(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    *out = tn_mul(scope, in.data[0], tn_randn_generator(scope, TN_INTS(4), user, .dtype = TN_FLOAT64));
    return TN_OK;
}

Test(checkpoint, draws_the_same_numbers_from_a_generator_of_the_program)
{
    tn_generator *g;
    tn_generator_state before = {.size = sizeof before}, behind = {.size = sizeof behind};
    tn_tensor *x = tn_ones(s, TN_INTS(4), .dtype = TN_FLOAT64), *y = NULL;
    tn_set_requires_grad(x, 1);
    cr_assert_eq(tn_generator_create(ctx, 5, &g), TN_OK);
    cr_assert_eq(tn_checkpoint(s, own_numbers, g, TN_TENSORS(x), NULL, &y), TN_OK);
    tn_generator_get_state(g, &before);
    tn_backward(s, tn_sum(s, y));
    tn_generator_get_state(g, &behind);
    cr_assert_eq(behind.offset, before.offset);
    cr_assert(tn_item_bool(s, tn_all(s, tn_eq(s, tn_grad_of(s, x), y)))); /* y = x r at x = 1 */
    tn_generator_release(g);
    end();
}

/* x r r' r'' at x = 1: the gradient is the result. Meanwhile the other thread draws from the same generator. */
static int32_t three_numbers(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)user;
    *out = in.data[0];
    for (int i = 0; i < 3; i++) *out = tn_mul(scope, *out, tn_rand_like(scope, *out));
    return TN_OK;
}

static void *draw_and_differentiate(void *wrong)
{
    for (int i = 0; i < 200; i++) {
        tn_scope *own = tn_scope_open(ctx);
        tn_tensor *x = tn_ones(own, TN_INTS(16), .dtype = TN_FLOAT64), *y = NULL;
        tn_set_requires_grad(x, 1);
        tn_checkpoint(own, three_numbers, NULL, TN_TENSORS(x), NULL, &y);
        tn_backward(own, tn_sum(own, y));
        *(int *)wrong += !tn_item_bool(
            own, tn_isclose(own, tn_sum(own, tn_grad_of(own, x)), tn_sum(own, y), .rtol = 1e-12));
        *(int *)wrong += tn_scope_close(own) != TN_OK;
    }
    return NULL;
}

Test(checkpoint, draws_the_same_numbers_beside_other_threads)
{
    pthread_t threads[2];
    int wrong[2] = {0, 0};
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, draw_and_differentiate, &wrong[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    cr_assert(wrong[0] == 0 && wrong[1] == 0, "%d, %d", wrong[0], wrong[1]);
    end();
}

static int32_t more_numbers(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    *out = tn_mul(scope, in.data[0], tn_rand(scope, TN_INTS(2), .dtype = TN_FLOAT64));
    if (((runs *)user)->count++) tn_rand(scope, TN_INTS(3));
    return TN_OK;
}

static int32_t product(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    runs *r = user;
    r->count++;
    tn_tensor *y = tn_matmul(scope, in.data[0], in.data[1]);
    r->dtype = tn_tensor_dtype(y);
    *out = tn_mul(scope, y, tn_ones(scope, TN_INTS(1)));
    return TN_OK;
}

Test(checkpoint, casts_and_makes_tensors_as_in_forward)
{
    runs r = {0};
    tn_tensor *a = tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32), *y;
    tn_set_requires_grad(a, 1);
    tn_scope_options outer = {.size = sizeof outer,
                              .autocast = TN_SCOPE_AUTOCAST_ON,
                              .autocast_dtype = TN_BFLOAT16,
                              .default_dtype = TN_FLOAT16},
                     off = {.size = sizeof off, .autocast = TN_SCOPE_AUTOCAST_OFF};
    const struct {
        const tn_scope_options *outer, *inner;
        tn_dtype product;
    } table[] = {{&outer, NULL, TN_BFLOAT16}, {&outer, &off, TN_FLOAT32}, {NULL, NULL, TN_FLOAT32}};
    for (int i = 0; i < 3; i++) {
        tn_scope *region = tn_scope_open_child(s, table[i].outer),
                 *inner = tn_scope_open_child(region, table[i].inner);
        y = apply(inner, product, &r, TN_TENSORS(a, a));
        cr_assert_eq(r.dtype, table[i].product);
        y = tn_scope_return(region, tn_scope_return(inner, y));
        tn_scope_close(inner);
        tn_scope_close(region);
        r.dtype = 0;
        tn_scope *other = tn_scope_open_child(s, &(tn_scope_options){.size = sizeof(tn_scope_options),
                                                                     .autocast = TN_SCOPE_AUTOCAST_ON,
                                                                     .autocast_dtype = TN_FLOAT16,
                                                                     .default_dtype = TN_FLOAT64});
        tn_backward(other, tn_sum(other, y));
        expect_sound(other);
        tn_scope_close(other);
        cr_assert_eq(r.dtype, table[i].product, "%d: %u", i, r.dtype);
    }
    cr_assert_eq(r.count, 6);
    EXPECT(s, tn_to(s, tn_grad_of(s, a), TN_FLOAT64), 12, 12, 12, 12);
    end();
}

/* ---- Checkpoints in checkpoints, lists --------------------------------------------------------------------- */

static runs inner_runs;

static int32_t two_waves(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    ((runs *)user)->count++;
    tn_tensor *y = apply(scope, wave, &inner_runs, in);
    *out = y ? apply(scope, wave, &inner_runs, TN_TENSORS(tn_log(scope, y))) : NULL; /* exp sin sin x */
    return tn_scope_failed(scope);
}

Test(checkpoint, may_lie_in_another)
{
    runs r = {0};
    tn_tensor *x = VECTOR(s, 1, 0.5, 1), *y = apply(s, two_waves, &r, TN_TENSORS(x));
    EXPECT(s, y, exp(sin(sin(0.5))), exp(sin(sin(1))));
    tn_backward(s, tn_sum(s, y));
    EXPECT(s, tn_grad_of(s, x), exp(sin(sin(0.5))) * cos(sin(0.5)) * cos(0.5),
           exp(sin(sin(1))) * cos(sin(1)) * cos(1));
    cr_assert_eq(r.count, 2);
    tn_drop(s, y);
    cr_assert(r.destroyed == 1 && inner_runs.destroyed == inner_runs.count - 2, "%d of %d",
              inner_runs.destroyed, inner_runs.count); /* each is destroyed; two of them ran twice */
    end();
}

/* (a, absent, b) -> (a b, a, exp b) */
static int32_t several(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)user;
    cr_assert(in.count == 3 && !in.data[1]);
    out[0] = tn_mul(scope, in.data[0], in.data[2]);
    out[1] = in.data[0];
    out[2] = tn_exp(scope, in.data[2]);
    return TN_OK;
}

Test(checkpoint, of_several_inputs_and_outputs)
{
    tn_tensor *a = VECTOR(s, 1, 2, 3), *b = VECTOR(s, 1, 0.5, 1), *none = NULL, *out[3];
    tn_checkpoint_options o = {.size = sizeof o, .n_outs = 3};
    cr_assert_eq(tn_checkpoint(s, several, NULL, TN_TENSORS(a, none, b), &o, out), TN_OK);
    cr_assert_eq(out[1], a);
    tn_backward(s, tn_sum(s, tn_mul(s, tn_add(s, out[0], out[1]), out[2]))); /* (a b + a) exp b */
    EXPECT(s, tn_grad_of(s, a), 1.5 * exp(0.5), 2 * exp(1));
    EXPECT(s, tn_grad_of(s, b), (2 + 3) * exp(0.5), (3 + 6) * exp(1));
    end();
}

/* ---- Memory and threads ------------------------------------------------------------------------------------ */

enum { ELEMENTS = 1 << 18, STEPS = 16 };

static int32_t many_steps(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    ((runs *)user)->count++;
    *out = in.data[0];
    for (int i = 0; i < STEPS; i++) *out = tn_sin(scope, *out); /* saves its input */
    return TN_OK;
}

static int64_t allocated(void)
{
    tn_memory_stats stats = {.size = sizeof stats};
    tn_memory_get_stats(ctx, TN_CPU, &stats);
    return (int64_t)stats.allocated_bytes;
}

Test(checkpoint, keeps_the_inputs_and_outputs_alone)
{
    runs r = {0};
    const int64_t one = ELEMENTS * 4;
    tn_tensor *x = tn_ones(s, TN_INTS(ELEMENTS), .dtype = TN_FLOAT32), *y;
    tn_set_requires_grad(x, 1);
    int64_t before = allocated();
    tn_scope *inner = tn_scope_open_child(s, NULL);
    cr_assert_eq(many_steps(&r, inner, TN_TENSORS(x), &y), TN_OK);
    tn_scope_return(inner, y);
    tn_scope_close(inner);
    cr_assert_geq(allocated() - before, STEPS * one); /* of the plain call */
    tn_drop(s, y);
    cr_assert_lt(allocated() - before, one);
    y = apply(s, many_steps, &r, TN_TENSORS(x));
    cr_assert_lt(allocated() - before, 2 * one);
    tn_backward(s, tn_sum(s, y));
    double value = 1, slope = 1;
    for (int i = 0; i < STEPS; i++, value = sin(value)) slope *= cos(value);
    cr_assert_float_eq(tn_item_double(s, tn_max(s, tn_grad_of(s, x))), slope, 1e-6);
    cr_assert_float_eq(tn_item_double(s, tn_min(s, tn_grad_of(s, x))), slope, 1e-6);
    cr_assert_lt(allocated() - before, 3 * one); /* the output, the gradient */
    end();
}

static tn_tensor *shared_loss;

static void *run_backward(void *status)
{
    tn_scope *own = tn_scope_open(ctx);
    tn_backward_options keep = {.size = sizeof keep, .retain_graph = 1};
    tn_backward_with(own, TN_TENSORS(shared_loss), &keep);
    *(int32_t *)status = tn_scope_close(own);
    return NULL;
}

Test(checkpoint, serves_backward_runs_of_two_threads)
{
    runs r = {0};
    pthread_t threads[2];
    int32_t statuses[2];
    tn_tensor *x = VECTOR(s, 1, 0.5, 1);
    shared_loss = tn_sum(s, apply(s, wave, &r, TN_TENSORS(x)));
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, run_backward, &statuses[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        cr_assert_eq(statuses[i], TN_OK);
    }
    cr_assert_geq(r.count, 2);
    EXPECT(s, tn_grad_of(s, x), 2 * d_wave(1, 0.5), 2 * d_wave(1, 1));
    end();
}

/* ---- Failures ---------------------------------------------------------------------------------------------- */

Test(checkpoint, tells_the_errors_of_its_function)
{
    runs first = {.fails_in = 1}, second = {.fails_in = 2};
    tn_tensor *x = VECTOR(s, 1, 0.5), *y;
    cr_assert_null(apply(s, wave, &first, TN_TENSORS(x)));
    expect_error(s, "the wave broke");
    cr_assert_eq(first.destroyed, 1);
    y = apply(s, wave, &second, TN_TENSORS(x));
    tn_backward(s, y);
    expect_error(s, "the wave broke (in a checkpoint, whose function ran again for backward)");
    cr_assert_null(tn_grad_of(s, x));
    tn_drop(s, y);
    cr_assert_eq(second.destroyed, 1);
    end();
}

static int32_t nothing(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)user, (void)scope, (void)in, (void)out;
    return TN_OK;
}

static int32_t only_a_status(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)user, (void)scope, (void)in, (void)out;
    return TN_E_DTYPE;
}

Test(checkpoint, refuses_wrong_arguments)
{
    runs r = {0};
    tn_tensor *x = VECTOR(s, 1, 0.5), *out;
    tn_checkpoint_options wrong = {.size = 1}, o = {.size = sizeof o, .destroy = destroy};
    tn_checkpoint(s, NULL, &r, TN_TENSORS(x), &o, &out);
    expect_error(s, "checkpoint: argument 'f' is NULL");
    cr_assert_eq(r.destroyed, 1);
    tn_checkpoint(s, wave, &r, TN_TENSORS(x), NULL, NULL);
    expect_error(s, "checkpoint: argument 'out' is NULL");
    tn_checkpoint(s, wave, &r, (tn_tensors){NULL, 2}, NULL, &out);
    expect_error(s, "checkpoint: argument 'inputs' has 2 tensors and no list");
    tn_checkpoint(s, wave, &r, (tn_tensors){&x, -1}, NULL, &out);
    expect_error(s, "checkpoint: argument 'inputs' has -1 tensors");
    tn_checkpoint(s, wave, &r, TN_TENSORS(x), &wrong, &out);
    expect_error(s, "tn_checkpoint_options");
    tn_checkpoint(s, nothing, &r, TN_TENSORS(x), NULL, &out);
    expect_error(s, "checkpoint: the function did not set output 0");
    cr_assert_eq(tn_checkpoint(s, only_a_status, &r, TN_TENSORS(x), NULL, &out), TN_E_DTYPE);
    expect_error(s, "checkpoint: the function returned the status 3 (bad dtype), and no error");
    cr_assert_eq(tn_disable_saved_tensors_hooks(ctx, "no hooks here"), TN_OK);
    cr_assert_null(apply(s, wave, &r, TN_TENSORS(x)));
    expect_error(s, "no hooks here");
    tn_saved_hooks_pop(ctx);
    cr_assert_eq(r.destroyed, 2);
    tn_scope_fail(s, TN_E_STATE, "before");
    cr_assert_null(apply(s, wave, &r, TN_TENSORS(x)));
    expect_error(s, "before");
    cr_assert_eq(r.destroyed, 3);
    cr_assert_eq(r.count, 0);
    end();
}

static int32_t leaves_hooks(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    if (!((runs *)user)->count++) tn_allow_mutation_on_saved_tensors(ctx);
    *out = tn_exp(scope, in.data[0]);
    return TN_OK;
}

static int32_t takes_hooks(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)user;
    tn_saved_hooks_pop(ctx);
    *out = tn_exp(scope, in.data[0]);
    return TN_OK;
}

/* What is in force behind the call is what was before. */
Test(checkpoint, notices_hooks_that_do_not_pair)
{
    runs r = {0};
    tn_tensor *x = VECTOR(s, 1, 0.5);
    cr_assert_null(apply(s, leaves_hooks, &r, TN_TENSORS(x)));
    expect_error(s, "checkpoint: the function pushed hooks of saved tensors and did not pop them");
    cr_assert_eq(tn_disable_saved_tensors_hooks(ctx, "none is in force"), TN_OK);
    tn_saved_hooks_pop(ctx);
    cr_assert_null(apply(s, takes_hooks, &r, TN_TENSORS(x)));
    expect_error(s, "checkpoint: the function popped hooks of saved tensors that it did not push");
    cr_assert_eq(r.destroyed, 2);
    end();
}

static int32_t another_shape(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    tn_tensor *x = in.data[0];
    if (++((runs *)user)->count > 1) x = tn_cat(scope, TN_TENSORS(x, x), .dim = 0);
    *out = tn_sum(scope, tn_sin(scope, x));
    return TN_OK;
}

Test(checkpoint, notices_a_function_that_does_something_else)
{
    runs more = {.other_from = 2}, shape = {0}, numbers = {0};
    tn_tensor *x = VECTOR(s, 1, 0.5);
    tn_backward(s, apply(s, wave, &more, TN_TENSORS(x)));
    expect_error(s, "checkpoint: the function saved 2 tensors in forward, and 3 when it ran again");
    tn_backward(s, apply(s, another_shape, &shape, TN_TENSORS(x)));
    expect_error(
        s,
        "checkpoint: the function saved another tensor when it ran again: tensor 0 is float64 [2], and was "
        "float64 [1] in forward");
    tn_tensor *two = VECTOR(s, 1, 1, 2);
    tn_backward(s, tn_sum(s, apply(s, more_numbers, &numbers, TN_TENSORS(two))));
    expect_error(s, "checkpoint: the function drew other random numbers when it ran again");
    end();
}

static int32_t writes_its_result(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)user;
    *out = tn_exp(scope, in.data[0]); /* is saved */
    tn_add_scalar_(scope, *out, 1);
    return TN_OK;
}

Test(checkpoint, notices_what_was_written)
{
    runs r = {0};
    tn_tensor *x = VECTOR(s, 1, 0.5), *doubled = tn_mul_scalar(s, x, 2);
    tn_tensor *y = apply(s, wave, &r, TN_TENSORS(doubled));
    tn_add_scalar_(s, doubled, 1);
    tn_backward(s, y);
    expect_error(
        s, "checkpoint: input 0 has been modified by an inplace operation: it is at version 1; expected "
           "version 0 instead");
    tn_backward(s, apply(s, writes_its_result, &r, TN_TENSORS(x)));
    expect_error(s,
                 "checkpoint: a tensor that the function saved, float64 [1], has been modified by an inplace "
                 "operation: it is at version 1; expected version 0 instead");
    r.weight = VECTOR(s, 0, 3); /* that the function reads besides its inputs */
    y = apply(s, wave, &r, TN_TENSORS(x));
    tn_mul_scalar_(s, r.weight, 10);
    tn_backward(s, y);
    expect_error(
        s, "float64 [1], has been modified by an inplace operation: it is at version 1; expected version 0 "
           "instead");
    end();
}

/* The derivative of exp(x), by a backward run inside the function; and a graph that has nothing to do with it. */
static int32_t its_own_gradient(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    ((runs *)user)->count++;
    tn_tensor *y = tn_sum(scope, tn_exp(scope, in.data[0])), *other = VECTOR(scope, 1, 2), *unused = NULL;
    tn_grad(scope, TN_TENSORS(tn_exp(scope, other)), TN_TENSORS(other), NULL, &unused);
    return tn_grad(scope, TN_TENSORS(y), in,
                   &(tn_backward_options){.size = sizeof(tn_backward_options), .create_graph = 1}, out);
}

Test(checkpoint, may_run_backward_inside)
{
    runs r = {0};
    tn_tensor *x = VECTOR(s, 1, 0.5, 2), *y = apply(s, its_own_gradient, &r, TN_TENSORS(x));
    EXPECT(s, y, exp(0.5), exp(2));
    cr_assert_eq(r.count, 1);
    tn_backward(s, tn_sum(s, y));
    EXPECT(s, tn_grad_of(s, x), exp(0.5), exp(2));
    cr_assert_eq(r.count, 2);
    end();
}

static int32_t switches_off(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    *out = tn_exp(scope, in.data[0]);
    ((runs *)user)->count++;
    tn_set_grad_mode(TN_GRAD_OFF);
    return TN_OK;
}

Test(checkpoint, leaves_the_grad_mode_as_it_was)
{
    runs r = {0};
    tn_tensor *x = VECTOR(s, 1, 0.5);
    tn_backward(s, apply(s, switches_off, &r, TN_TENSORS(x)));
    cr_assert_eq(tn_grad_mode(), TN_GRAD_ON);
    EXPECT(s, tn_grad_of(s, x), exp(0.5));
    end();
}

static tn_tensor *statistics[2];

/* Batch normalisation writes its running statistics in each run. */
static int32_t norm(void *user, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)user;
    *out = tn_batch_norm(scope, in.data[0], NULL, NULL, statistics[0], statistics[1], 1, 0.1, 1e-5, 0);
    *out = tn_mul(scope, *out, *out);
    return tn_scope_failed(scope);
}

Test(checkpoint, of_batch_normalisation)
{
    tn_tensor *x = make(s, TN_INTS(3, 1), VALUES(1, 2, 4), 1), *y = NULL, *plain = NULL;
    statistics[0] = VECTOR(s, 0, 0);
    statistics[1] = VECTOR(s, 0, 1);
    cr_assert_eq(norm(NULL, s, TN_TENSORS(x), &y), TN_OK);
    tn_tensor *weights = make(s, TN_INTS(3, 1), VALUES(1, 2, 3), 0);
    tn_grad(s, TN_TENSORS(tn_sum(s, tn_mul(s, y, weights))), TN_TENSORS(x), NULL, &plain);
    cr_assert_eq(tn_checkpoint(s, norm, NULL, TN_TENSORS(x), NULL, &y), TN_OK);
    tn_backward(s, tn_sum(s, tn_mul(s, y, weights)));
    expect_sound(s);
    cr_assert(tn_item_bool(s, tn_all(s, tn_eq(s, tn_grad_of(s, x), plain))));
    end();
}

/* Whichever allocation fails, in forward or backward: the error is that one, and the user's data goes once. */
static runs short_runs;
static tn_tensor *short_input;

static void run_both_ways(tn_scope *own)
{
    short_runs = (runs){0};
    tn_tensor *y = apply(own, wave, &short_runs, TN_TENSORS(short_input));
    if (y) tn_backward(own, y);
}

static void expect_destroyed(int64_t n)
{
    cr_expect_eq(short_runs.destroyed, 1, "allocation %lld: %d", (long long)n, short_runs.destroyed);
}

Test(checkpoint, survives_a_lack_of_memory)
{
    short_input = VECTOR(s, 1, 0.5);
    cr_assert_geq(fail_each_allocation(s, run_both_ways, expect_destroyed), 3);
    cr_assert_eq(tn_set_grad(short_input, NULL), TN_OK);
    end();
}
