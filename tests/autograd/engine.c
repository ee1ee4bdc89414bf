/* SPDX-License-Identifier: Apache-2.0 */
/* Backward runs: accumulation, options, errors, depth, layout, threads. */
#include "suite.h"
#include "../core/log_lines.h"
#include <tenon/plugin.h>

#include <pthread.h>
#include <string.h>

TestSuite(engine, .init = begin);

static tn_tensor *product_sum(tn_tensor *a, tn_tensor *b)
{
    return tn_sum(s, tn_mul(s, a, b));
}

Test(engine, gradient_of_a_product)
{
    tn_tensor *a = VECTOR(s, 1, 1, 2, 3), *b = VECTOR(s, 1, 4, 5, 6);
    tn_tensor *loss = product_sum(a, b);
    cr_assert_str_eq(tn_node_name(tn_grad_fn(loss)), "SumBackward");
    cr_assert_eq(tn_is_leaf(a), 1);
    cr_assert_eq(tn_is_leaf(loss), 0);
    cr_assert_null(tn_grad_of(s, a));
    tn_backward(s, loss);
    EXPECT(s, tn_grad_of(s, a), 4, 5, 6);
    EXPECT(s, tn_grad_of(s, b), 1, 2, 3);
    tn_backward(s, product_sum(a, b)); /* accumulates */
    EXPECT(s, tn_grad_of(s, a), 8, 10, 12);
    cr_assert_eq(tn_set_grad(a, NULL), TN_OK);
    cr_assert_null(tn_grad_of(s, a));
    end();
}

Test(engine, broadcasting_is_summed)
{
    tn_tensor *a = make(s, TN_INTS(2, 3), VALUES(1, 2, 3, 4, 5, 6), 1), *b = VECTOR(s, 1, 1, 10, 100);
    tn_tensor *c = make(s, TN_INTS(2, 1), VALUES(2, 3), 1);
    tn_backward(s, tn_sum(s, tn_mul(s, tn_mul(s, a, b), c)));
    EXPECT(s, tn_grad_of(s, a), 2, 20, 200, 3, 30, 300);
    EXPECT(s, tn_grad_of(s, b), 1 * 2 + 4 * 3, 2 * 2 + 5 * 3, 3 * 2 + 6 * 3);
    EXPECT(s, tn_grad_of(s, c), 321, 654);
    end();
}

Test(engine, one_tensor_many_ways)
{
    tn_tensor *x = VECTOR(s, 1, 3);
    tn_tensor *y = tn_mul(s, x, x), *z = tn_add(s, tn_mul(s, y, x), y); /* x^3 + x^2 */
    tn_backward(s, z);
    EXPECT(s, tn_grad_of(s, x), 3 * 9 + 2 * 3);
    end();
}

Test(engine, second_time)
{
    tn_tensor *x = VECTOR(s, 1, 2), *y = tn_exp(s, x);
    tn_backward(s, y);
    tn_backward(s, y);
    expect_error(s, "Trying to backward through the graph a second time");
    tn_tensor *z = tn_exp(s, x);
    tn_backward_options keep = {.size = sizeof keep, .retain_graph = 1};
    cr_assert_eq(tn_set_grad(x, NULL), TN_OK);
    tn_backward_with(s, TN_TENSORS(z), &keep);
    tn_backward_with(s, TN_TENSORS(z), &keep);
    EXPECT(s, tn_grad_of(s, x), 2 * 7.38905609893065);
    end();
}

Test(engine, gradients_of_gradients)
{
    tn_tensor *x = VECTOR(s, 1, 2), *first, *second;
    tn_tensor *y = tn_pow_tensor_scalar(s, x, 4);
    tn_backward_options create = {.size = sizeof create, .create_graph = 1};
    tn_grad(s, TN_TENSORS(y), TN_TENSORS(x), &create, &first);
    EXPECT(s, first, 32);
    tn_grad(s, TN_TENSORS(first), TN_TENSORS(x), &create, &second);
    EXPECT(s, second, 48);
    tn_backward(s, second);
    EXPECT(s, tn_grad_of(s, x), 48);
    end();
}

Test(engine, only_some_inputs)
{
    tn_tensor *a = VECTOR(s, 1, 1, 2), *b = VECTOR(s, 1, 3, 4), *unused = VECTOR(s, 1, 5);
    tn_tensor *middle = tn_mul(s, a, b), *loss = tn_sum(s, tn_mul(s, middle, middle));
    tn_backward_options options = {.size = sizeof options, .retain_graph = 1, .inputs = TN_TENSORS(a)};
    tn_backward_with(s, TN_TENSORS(loss), &options);
    EXPECT(s, tn_grad_of(s, a), 2 * 3 * 3, 2 * 8 * 4);
    cr_assert_null(tn_grad_of(s, b));
    options.inputs = (tn_tensors){NULL, 0};
    tn_tensor *grads[2];
    tn_grad(s, TN_TENSORS(loss), TN_TENSORS(middle, b), &options, grads);
    EXPECT(s, grads[0], 6, 16);
    EXPECT(s, grads[1], 6, 32);
    tn_grad(s, TN_TENSORS(loss), TN_TENSORS(a, unused), &options, grads);
    expect_error(s, "appears to not have been used in the graph");
    options.allow_unused = 1;
    tn_grad(s, TN_TENSORS(loss), TN_TENSORS(a, unused), &options, grads);
    expect_sound(s);
    cr_assert_null(grads[1]);
    options.materialize_grads = 1;
    tn_grad(s, TN_TENSORS(loss), TN_TENSORS(a, unused), &options, grads);
    EXPECT(s, grads[1], 0);
    cr_assert_null(tn_grad_of(s, b));
    end();
}

static void count_end(void *user)
{
    ++*(int *)user;
}

/* The gradient of x * x * x with create_graph; its graph keeps x. The program keeps x, too. */
static tn_tensor *cube_with_graph(tn_context *own, double *data, int *ends)
{
    const tn_backward_options options = {.size = sizeof options, .create_graph = 1};
    tn_scope *r = tn_scope_open(own);
    tn_tensor *x = tn_from_blob(r, &(tn_blob){.size = sizeof(tn_blob),
                                              .dtype = TN_FLOAT64,
                                              .data = data,
                                              .sizes = TN_INTS(1),
                                              .deleter = count_end,
                                              .user = ends});
    cr_assert_eq(tn_set_requires_grad(x, 1), TN_OK);
    tn_backward_with(r, TN_TENSORS(tn_mul(r, tn_mul(r, x, x), x)), &options);
    EXPECT(r, tn_grad_of(r, x), 12);
    tn_retain(x);
    cr_assert_eq(tn_scope_close(r), TN_OK);
    return x;
}

/* The tensor lives as long as its gradient is set, and a warning says so once for each context. */
Test(engine, a_gradient_with_a_graph_keeps_its_tensor)
{
    static lines log;
    const tn_context_options options = {
        .size = sizeof options, .plugin_path = getenv("TENON_TEST_CPU"), .log = keep_line, .log_user = &log};
    double two = 2;
    tn_tensor *x, *kept;
    int ends = 0;
    for (int contexts = 1; contexts <= 2; contexts++) {
        tn_context *own;
        cr_assert_eq(tn_context_create(&options, &own), TN_OK);
        tn_scope *r = tn_scope_open(own);
        tn_tensor *leaf = VECTOR(r, 1, 2), *grad;
        const tn_backward_options graph = {.size = sizeof graph, .create_graph = 1};
        tn_backward(r, tn_mul(r, leaf, leaf));
        tn_grad(r, TN_TENSORS(tn_mul(r, leaf, leaf)), TN_TENSORS(leaf), &graph, &grad);
        expect_sound(r);
        cr_expect_eq(log.warnings, contexts - 1, "%s", log.warning);
        tn_scope_close(r);
        x = cube_with_graph(own, &two, &ends);
        kept = tn_retain(cube_with_graph(own, &two, &ends));
        cr_expect_eq(log.warnings, contexts, "%s", log.warning);
        const char *const parts[] = {"create_graph", "tn_set_grad", "tn_grad,"};
        for (int i = 0; i < 3; i++) cr_expect_not_null(strstr(log.warning, parts[i]), "%s", log.warning);
        ends = 0;
        cr_expect_eq(tn_set_grad(x, NULL), TN_OK);
        tn_release(x);
        cr_expect_eq(ends, 1, "the cycle was broken");
        tn_release(kept);
        cr_expect_eq(ends, 1, "the gradient keeps its tensor");
        cr_expect_eq(tn_set_grad(kept, NULL), TN_OK);
        tn_release(kept);
        cr_expect_eq(ends, 2);
        tn_context_destroy(own);
    }
    end();
}

Test(engine, gradients_given)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2, 3), *y = tn_mul_scalar(s, x, 2), *v = VECTOR(s, 0, 1, 10, 100);
    tn_backward(s, y);
    expect_error(s, "grad can be implicitly created only for scalar outputs");
    tn_tensor *short_one = VECTOR(s, 0, 1, 2);
    tn_backward_options options = {.size = sizeof options, .grad_outputs = TN_TENSORS(short_one)};
    tn_backward_with(s, TN_TENSORS(y), &options);
    expect_error(s, "Mismatch in shape: grad_output[0] has a shape of");
    options.grad_outputs = TN_TENSORS(v);
    tn_backward_with(s, TN_TENSORS(y), &options);
    EXPECT(s, tn_grad_of(s, x), 2, 20, 200);
    end();
}

Test(engine, what_cannot_be_differentiated)
{
    tn_tensor *x = VECTOR(s, 0, 1, 2);
    tn_backward(s, tn_sum(s, x));
    expect_error(s, "element 0 of tensors does not require grad and does not have a grad_fn");
    int64_t i = 1;
    tn_tensor *whole = tn_from_data(s, TN_INT64, TN_INTS(1), &i, 0);
    cr_assert_eq(tn_set_requires_grad(whole, 1), TN_E_DTYPE);
    expect_last_error("only Tensors of floating point and complex dtype can require gradients");
    tn_tensor *w = VECTOR(s, 1, 1, 2), *y = tn_mul(s, w, x);
    cr_assert_eq(tn_set_requires_grad(y, 0), TN_E_AUTOGRAD);
    expect_last_error("you can only change requires_grad flags of leaf variables");
    cr_assert_eq(tn_requires_grad(tn_gt_scalar(s, w, 0)), 0);
    cr_assert_eq(tn_requires_grad(tn_detach(s, y)), 0);
    cr_assert_eq(tn_requires_grad(tn_zeros_like(s, y)), 0);
    cr_assert_eq(tn_requires_grad(tn_histc(s, y, .bins = 3)), 0);
    end();
}

Test(engine, modes)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2);
    uint32_t before = tn_set_grad_mode(TN_GRAD_OFF);
    cr_assert_eq(before, TN_GRAD_ON);
    cr_assert_eq(tn_requires_grad(tn_mul(s, x, x)), 0);
    tn_set_grad_mode(TN_GRAD_ON);
    tn_scope *inner = tn_scope_open_child(
        s, &(tn_scope_options){.size = sizeof(tn_scope_options), .grad_mode = TN_GRAD_OFF});
    cr_assert_eq(tn_requires_grad(tn_mul(inner, x, x)), 0);
    tn_scope_close(inner);
    cr_assert_eq(tn_requires_grad(tn_mul(s, x, x)), 1);
    end();
}

Test(engine, out_forms_are_refused)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2), *out = VECTOR(s, 0, 0, 0);
    tn_mul_out(s, x, x, out);
    expect_error(s,
                 "functions with out=... arguments don't support automatic differentiation, but one of the "
                 "arguments requires grad.");
    end();
}

/* A chain that would overflow the stack if anything recursed over it. */
Test(engine, deep_chain)
{
    const int depth = 300000;
    tn_tensor *x = VECTOR(s, 1, 1), *y = tn_retain(x);
    for (int i = 0; i < depth; i++) {
        tn_scope *inner = tn_scope_open(ctx);
        tn_tensor *next = tn_retain(tn_neg(inner, y));
        tn_release(y);
        y = next;
        tn_scope_close(inner);
    }
    tn_backward_options keep = {.size = sizeof keep, .retain_graph = 1};
    tn_backward_with(s, TN_TENSORS(y), &keep);
    EXPECT(s, tn_grad_of(s, x), 1);
    tn_release(y); /* the whole graph is freed */
    end();
}

Test(engine, layout_of_gradients)
{
    tn_tensor *x = tn_retain(tn_empty_strided(s, TN_INTS(2, 3), TN_INTS(1, 2), .dtype = TN_FLOAT64));
    tn_fill_scalar_(s, x, 1);
    cr_assert_eq(tn_set_requires_grad(x, 1), TN_OK);
    tn_tensor *w = make(s, TN_INTS(2, 3), VALUES(1, 2, 3, 4, 5, 6), 0);
    tn_backward(s, tn_sum(s, tn_mul(s, x, w)));
    tn_tensor *grad = tn_grad_of(s, x);
    EXPECT(s, grad, 1, 2, 3, 4, 5, 6);
    cr_assert_eq(tn_tensor_strides(grad)[0], 1);
    cr_assert_eq(tn_tensor_strides(grad)[1], 2);
    tn_backward(s, tn_sum(s, tn_mul(s, x, w))); /* in place: the same tensor */
    cr_assert_eq(tn_grad_of(s, x), grad);
    EXPECT(s, grad, 2, 4, 6, 8, 10, 12);
    tn_backward_options create = {.size = sizeof create, .create_graph = 1};
    tn_backward_with(s, TN_TENSORS(tn_sum(s, tn_mul(s, x, w))), &create);
    cr_assert_neq(tn_grad_of(s, x), grad); /* replaced, the old one is as it was */
    EXPECT(s, grad, 2, 4, 6, 8, 10, 12);
    EXPECT(s, tn_grad_of(s, x), 3, 6, 9, 12, 15, 18);
    tn_set_grad(x, NULL);
    tn_release(x);
    end();
}

Test(engine, gradients_are_not_shared)
{
    tn_tensor *a = VECTOR(s, 1, 1, 2), *b = VECTOR(s, 1, 3, 4), *v = VECTOR(s, 0, 1, 1);
    tn_backward_options options = {.size = sizeof options, .grad_outputs = TN_TENSORS(v)};
    tn_backward_with(s, TN_TENSORS(tn_add(s, a, b)), &options);
    cr_assert_eq(tn_tensor_is_alias(tn_grad_of(s, a), tn_grad_of(s, b)), 0);
    cr_assert_eq(tn_tensor_is_alias(tn_grad_of(s, a), v), 0);
    tn_backward(s, tn_sum(s, a));
    EXPECT(s, tn_grad_of(s, a), 2, 2);
    EXPECT(s, tn_grad_of(s, b), 1, 1);
    EXPECT(s, v, 1, 1);
    end();
}

static tn_tensor *shared_x, *shared_loss;
#define THREADS 4
#define RUNS    50

static void *run_backward(void *user)
{
    (void)user;
    for (int i = 0; i < RUNS; i++) {
        tn_scope *mine = tn_scope_open(ctx);
        tn_backward_options keep = {.size = sizeof keep, .retain_graph = 1};
        tn_backward_with(mine, TN_TENSORS(shared_loss), &keep);
        tn_tensor *y = tn_mul(mine, tn_tanh(mine, shared_x), shared_x);
        tn_tensor *grad;
        tn_grad(mine, TN_TENSORS(tn_sum(mine, y)), TN_TENSORS(shared_x), NULL, &grad);
        expect_sound(mine);
        tn_scope_close(mine);
    }
    return NULL;
}

Test(engine, threads_on_one_graph)
{
    pthread_t threads[THREADS];
    shared_x = VECTOR(s, 1, 1, 2, 3);
    tn_tensor *y = shared_x;
    for (int i = 0; i < 10; i++) y = tn_add(s, y, shared_x);
    shared_loss = tn_sum(s, tn_mul(s, y, shared_x)); /* 11 x^2 */
    for (int i = 0; i < THREADS; i++) pthread_create(threads + i, NULL, run_backward, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    double n = 22.0 * THREADS * RUNS;
    EXPECT(s, tn_grad_of(s, shared_x), n, 2 * n, 3 * n);
    end();
}

static void *square_here(void *user)
{
    tn_scope *mine = tn_scope_open(ctx);
    *(tn_tensor **)user = tn_retain(tn_mul(mine, shared_x, shared_x));
    expect_sound(mine);
    tn_scope_close(mine);
    return NULL;
}

/*
 * A node has a greater sequence number than the nodes it leads to, whichever threads recorded them. A new
 * thread starts at 0.
 */
Test(engine, nodes_of_several_threads_are_in_order)
{
    tn_tensor *first = VECTOR(s, 1, 1, 2, 3), *ones = VECTOR(s, 0, 1, 1, 1), *second;
    pthread_t thread;
    shared_x = first;
    for (int i = 0; i < 20; i++) shared_x = tn_mul(s, shared_x, ones);
    cr_assert_eq(pthread_create(&thread, NULL, square_here, &second), 0);
    pthread_join(thread, NULL);
    cr_assert_gt(tn_node_sequence(tn_grad_fn(second)), tn_node_sequence(tn_grad_fn(shared_x)));
    tn_tensor *third = tn_mul(s, second, second);
    cr_assert_gt(tn_node_sequence(tn_grad_fn(third)), tn_node_sequence(tn_grad_fn(second)));
    tn_release(second);
    end();
}

/* ---- runs within runs ---- */

#define CHAIN 100 /* more nodes than the first table of the inner run has room for */
static tn_tensor *chain_root, *chain_leaf;
static double inner_gradient;
static int hook_depth;

/* Runs over nodes that hold entries of the outer run. */
static tn_tensor *run_inside(void *user, tn_scope *hook_scope, tn_tensor *grad)
{
    (void)user, (void)hook_scope, (void)grad;
    if (hook_depth++) return NULL; /* the inner run visits this node, too */
    tn_scope *mine = tn_scope_open(ctx);
    tn_backward_options keep = {.size = sizeof keep, .retain_graph = 1};
    tn_tensor *found = NULL;
    tn_grad(mine, TN_TENSORS(chain_root), TN_TENSORS(chain_leaf), &keep, &found);
    expect_sound(mine);
    inner_gradient += tn_item_double(mine, found);
    tn_scope_close(mine);
    return NULL;
}

Test(engine, a_run_over_the_graph_of_the_run_that_called_it)
{
    chain_leaf = VECTOR(s, 1, 3);
    tn_tensor *y = chain_leaf;
    for (int i = 0; i < CHAIN; i++) y = tn_add(s, y, chain_leaf);
    chain_root = y; /* 101 x */
    tn_register_hook(chain_root, run_inside, NULL, NULL);
    tn_backward_options keep = {.size = sizeof keep, .retain_graph = 1};
    for (int i = 1; i <= 2; i++) { /* once more: the inner run has left nothing behind */
        hook_depth = 0;
        tn_backward_with(s, TN_TENSORS(chain_root), &keep);
        EXPECT(s, tn_grad_of(s, chain_leaf), 101.0 * i);
        cr_assert_eq(inner_gradient, 101.0 * i);
    }
    end();
}

static tn_tensor *fail_in_hook(void *user, tn_scope *hook_scope, tn_tensor *grad)
{
    (void)user, (void)grad;
    tn_scope_fail(hook_scope, TN_E_STATE, "the hook's own text");
    return NULL;
}

/* Gradients that were found before the run failed, or beside an input without one, are let go. */
Test(engine, grad_that_fails_keeps_nothing)
{
    tn_tensor *x = VECTOR(s, 1, 2), *unused = VECTOR(s, 1, 3), *y = tn_mul(s, x, x), *out[2];
    const tn_backward_options keep = {.size = sizeof keep, .retain_graph = 1};
    tn_scope *inner = tn_scope_open_child(s, NULL);
    cr_assert_eq(tn_grad(inner, TN_TENSORS(y), TN_TENSORS(unused, x), &keep, out), TN_E_AUTOGRAD);
    expect_error(inner, "appears to not have been used in the graph");
    cr_assert_eq(tn_register_hook(x, fail_in_hook, NULL, NULL), TN_OK);
    cr_assert_eq(tn_grad(inner, TN_TENSORS(y), TN_TENSORS(y, x), NULL, out), TN_E_STATE);
    expect_error(inner, "the hook's own text");
    tn_scope_close(inner);
    end(); /* no memory is left */
}

/* A failed run leaves no entries in nodes. */
Test(engine, after_a_run_that_failed)
{
    tn_tensor *x = VECTOR(s, 1, 2), *squared = tn_mul(s, x, x), *sine = tn_sin(s, squared);
    tn_tensor *y = tn_sum(s, sine);
    tn_fill_scalar_(s, tn_detach(s, squared), 1); /* sin has saved it */
    tn_backward(s, y);
    cr_assert_eq(tn_scope_failed(s), TN_E_AUTOGRAD);
    tn_scope_clear(s);
    tn_backward_options keep = {.size = sizeof keep, .retain_graph = 1};
    for (int i = 1; i <= 3; i++) {
        tn_backward_with(s, TN_TENSORS(squared), &keep);
        EXPECT(s, tn_grad_of(s, x), 4.0 * i);
    }
    end();
}

Test(engine, complex_gradients)
{
    const double z[] = {3, 4};
    tn_tensor *x = tn_from_data(s, TN_COMPLEX128, TN_INTS(1), z, 0);
    cr_assert_eq(tn_set_requires_grad(x, 1), TN_OK);
    tn_backward(s, tn_abs(s, x)); /* d|z| is z/|z| by the convention */
    tn_tensor *parts = tn_view_as_real(s, tn_grad_of(s, x));
    EXPECT(s, parts, 0.6, 0.8);
    tn_tensor *r = VECTOR(s, 1, 2), *y = tn_mul(s, r, x); /* a real argument gets the real part */
    tn_backward_options options = {.size = sizeof options, .grad_outputs = TN_TENSORS(tn_ones_like(s, y))};
    tn_backward_with(s, TN_TENSORS(y), &options);
    EXPECT(s, tn_grad_of(s, r), 3);
    cr_assert_eq(tn_tensor_dtype(tn_grad_of(s, r)), TN_FLOAT64);
    end();
}

Test(engine, not_implemented)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2), *y = tn_sum(s, tn_floor_divide(s, x, x));
    cr_assert_eq(tn_requires_grad(y), 1);
    tn_backward(s, y);
    expect_error(s, "derivative for aten::floor_divide is not implemented");
    end();
}

Test(engine, inference_mode)
{
    tn_tensor *w = VECTOR(s, 1, 3, 4);
    tn_scope_options options = {.size = sizeof options, .grad_mode = TN_GRAD_INFERENCE};
    tn_scope *inner = tn_scope_open_child(s, &options);
    tn_tensor *x = tn_retain(tn_mul_scalar(inner, w, 2));
    cr_assert_eq(tn_requires_grad(x), 0);
    tn_scope_close(inner);
    tn_mul(s, w, x);
    expect_error(s, "Inference tensors cannot be saved for backward.");
    cr_assert_eq(tn_set_requires_grad(x, 1), TN_E_AUTOGRAD);
    expect_last_error("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
    tn_backward(s, tn_sum(s, tn_mul(s, w, tn_clone(s, x))));
    EXPECT(s, tn_grad_of(s, w), 6, 8);
    tn_tensor *plain = tn_zeros_like(s, w);
    tn_add_scalar_(s, x, 1);
    expect_error(s, "Inplace update to inference tensor outside InferenceMode is not allowed.");
    tn_add_(s, tn_select(s, x, 0, 0), tn_select(s, plain, 0, 0));
    expect_error(s, "Inplace update to inference tensor outside InferenceMode is not allowed.");
    tn_neg_out(s, plain, x);
    expect_error(s, "Inplace update to inference tensor outside InferenceMode is not allowed.");
    tn_add_(s, plain, x); /* read, not written */
    EXPECT(s, plain, 6, 8);
    inner = tn_scope_open_child(s, &options);
    tn_add_scalar_(inner, x, 1);
    tn_scope_close(inner);
    EXPECT(s, x, 7, 9);
    tn_release(x);
    end();
}

/* Every function names a released handle that it is given. */
Test(engine, dead_handles)
{
    static const char gone[] = "was released and is used again";
    const tn_context_options options = {.size = sizeof options, .flags = TN_CONTEXT_DEBUG_HANDLES};
    tn_context *debug = NULL;
    cr_assert_eq(tn_context_create(&options, &debug), TN_OK);
    tn_scope *d = tn_scope_open(debug);
    tn_tensor *w = tn_ones(d, TN_INTS(1)), *dead = tn_ones(d, TN_INTS(1)), *grads[1];
    tn_set_requires_grad(w, 1);
    tn_set_requires_grad(dead, 1);
    tn_drop(d, dead);
    cr_assert_eq(tn_set_requires_grad(dead, 1), TN_E_DEAD_HANDLE);
    cr_assert_eq(tn_retain_grad(dead), TN_E_DEAD_HANDLE);
    cr_assert_eq(tn_set_grad(dead, NULL), TN_E_DEAD_HANDLE);
    cr_assert_eq(tn_set_grad(w, dead), TN_E_DEAD_HANDLE);
    cr_assert_eq(tn_register_hook(dead, NULL, NULL, NULL), TN_E_DEAD_HANDLE);
    cr_assert_eq(tn_register_accumulate_hook(dead, NULL, NULL, NULL), TN_E_DEAD_HANDLE);
    cr_assert_null(tn_grad_of(d, dead));
    expect_error(d, gone);
    cr_assert_null(tn_detach(d, dead));
    expect_error(d, gone);
    cr_assert_eq(tn_backward(d, dead), TN_E_DEAD_HANDLE);
    expect_error(d, "backward: root 0: tensor");
    cr_assert_eq(tn_grad(d, TN_TENSORS(tn_mul(d, w, w)), TN_TENSORS(dead), NULL, grads), TN_E_DEAD_HANDLE);
    expect_error(d, "backward: input 0: tensor");
    const tn_backward_options with = {.size = sizeof with, .grad_outputs = TN_TENSORS(dead)};
    cr_assert_eq(tn_backward_with(d, TN_TENSORS(tn_mul(d, w, w)), &with), TN_E_DEAD_HANDLE);
    expect_error(d, "backward: gradient 0: tensor");
    cr_assert_eq(tn_scope_close(d), TN_OK);
    tn_context_destroy(debug);
    end();
}

Test(engine, what_backward_and_grad_refuse)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2), *y = tn_sum(s, tn_mul(s, x, x)), *plain = VECTOR(s, 0, 1), *out;
    tn_tensor *z = tn_view_as_complex(s, x);
    tn_backward_options two = {.size = sizeof two, .grad_outputs = {(tn_tensor *[]){plain, plain}, 2}};
    tn_backward_options no_inputs = {.size = sizeof no_inputs, .inputs = {&x, 0}};
    tn_backward_options constant = {.size = sizeof constant, .inputs = {&plain, 1}};
    struct {
        tn_backward_options known;
        uint64_t later;
    } newer = {{.size = sizeof newer}, 1};
    tn_backward_with(s, TN_TENSORS(y), &newer.known);
    expect_error(s, "tn_backward_options: byte 56 is set, but this library knows only the first 56 bytes");
    tn_backward_with(s, TN_TENSORS(y), &(tn_backward_options){.create_graph = 1});
    expect_error(s, "tn_backward_options: size is 0; set it to sizeof(tn_backward_options)");
    tn_backward(s, z);
    expect_error(s, "grad can be implicitly created only for real scalar outputs but got complex128");
    tn_backward_with(s, (tn_tensors){NULL, 0}, NULL);
    expect_error(s, "backward: there are no tensors to start from");
    tn_backward_with(s, TN_TENSORS(y), &two);
    expect_error(s, "got 1 tensors and 2 gradients");
    tn_backward_with(s, TN_TENSORS(y), &no_inputs);
    expect_error(s, "`inputs` argument to `backward` cannot be empty.");
    tn_backward_with(s, TN_TENSORS(y), &(tn_backward_options){.size = sizeof two, .inputs = {NULL, 1}});
    expect_error(s, "backward: argument 'inputs' has 1 tensor and no list");
    tn_backward_with(s, TN_TENSORS(y), &(tn_backward_options){.size = sizeof two, .grad_outputs = {NULL, 1}});
    expect_error(s, "backward: argument 'grad_outputs' has 1 tensor and no list");
    tn_backward_with(s, TN_TENSORS(y), &constant);
    expect_error(s, "One of the differentiated Tensors does not require grad");
    tn_tensor *unused = VECTOR(s, 1, 2);
    cr_assert_eq(tn_set_requires_grad(unused, 1), TN_OK);
    tn_tensor *both[2];
    tn_grad(s, TN_TENSORS(y), TN_TENSORS(x, unused), NULL, both);
    expect_error(s, "(Here input 1; in C: .allow_unused = 1.)");
    tn_grad(s, TN_TENSORS(y), (tn_tensors){NULL, 0}, NULL, &out);
    expect_error(s, "grad requires non-empty inputs.");
    tn_tensor *complex_grad = tn_view_as_complex(s, VECTOR(s, 0, 1, 0));
    tn_backward_options kind = {.size = sizeof kind, .grad_outputs = {&complex_grad, 1}};
    tn_backward_with(s, TN_TENSORS(tn_sum(s, x)), &kind);
    expect_error(s, "For complex Tensors, both grad_output and output are required to have the same dtype.");
    end();
}

/* A non-leaf among the inputs retains its gradient: y = x^2, loss = 3 y. */
Test(engine, inputs_that_are_not_leaves_retain_their_gradient)
{
    tn_tensor *x = VECTOR(s, 1, 2), *y = tn_mul(s, x, x);
    tn_backward_options to_y = {.size = sizeof to_y, .inputs = {&y, 1}};
    tn_backward_with(s, TN_TENSORS(tn_sum(s, tn_mul_scalar(s, y, 3))), &to_y);
    EXPECT(s, tn_grad_of(s, y), 3);
    cr_assert_null(tn_grad_of(s, x));
    end();
}

/* A hundred results of one call, and a call with a hundred arguments. */
Test(engine, calls_with_many_tensors)
{
    enum { MANY = 100 };
    double values[MANY], want[MANY];
    for (int i = 0; i < MANY; i++) {
        values[i] = i;
        want[i] = 2.0 * i * (i + 1);
    }
    tn_tensor *x = make(s, TN_INTS(MANY), values, 1), *squares[MANY];
    tn_tensors parts = tn_split(s, x, 1);
    cr_assert_eq(parts.count, MANY);
    for (int i = 0; i < MANY; i++)
        squares[i] = tn_mul_scalar(s, tn_mul(s, parts.data[i], parts.data[i]), i + 1);
    tn_tensor *all = tn_cat(s, ((tn_tensors){squares, MANY}));
    cr_assert_eq(tn_requires_grad(all), 1);
    tn_backward(s, tn_sum(s, all));
    expect_values(s, tn_grad_of(s, x), MANY, want, 1e-12);
    end();
}

/* mylib::same(x) gives x itself: its result is a view, so that x keeps its own history. */
static int32_t give_it_back(void *self, const tn_call *call)
{
    return call->host->set_output(call, 0, call->args[0].as.tensor);
}

static int32_t five_times(void *self, const tn_call *call)
{
    tn_scope *scope = call->host->call_scope(call);
    return call->host->set_output(call, 0, tn_mul_scalar(scope, tn_value_as_tensor(call->args[0]), 5));
}

Test(engine, an_operator_that_returns_its_argument)
{
    const tn_operator_def def = {.size = sizeof def,
                                 .schema = "mylib::same(Tensor x) -> Tensor",
                                 .composite = give_it_back,
                                 .backward = five_times};
    const uint32_t op = define(ctx, &def);
    tn_tensor *x = VECTOR(s, 1, 2, 3);
    tn_value arg = tn_value_tensor(x), out;
    cr_assert_eq(tn_scope_call(s, op, &arg, 1, &out, 1), TN_OK);
    cr_assert_neq(out.as.tensor, x);
    cr_assert_eq(tn_tensor_data(out.as.tensor), tn_tensor_data(x));
    cr_assert_null(tn_grad_fn(x));
    tn_backward(s, tn_sum(s, tn_mul(s, out.as.tensor, x)));
    EXPECT(s, tn_grad_of(s, x), 2 + 5 * 2, 3 + 5 * 3);
    end();
}

static void count_call(void *user, const tn_call_info *info, uint64_t *token)
{
    ++*(int *)user;
}

/* Operators with scalars call another one; with an observer both calls are seen and recorded. */
Test(engine, calls_of_calls_that_are_observed)
{
    int calls = 0;
    const tn_observer observer = {.size = sizeof observer, .user = &calls, .enter = count_call};
    uint64_t handle;
    tn_tensor *x = VECTOR(s, 1, 1, 2), *y = tn_mul_scalar(s, x, 1);
    cr_assert_eq(tn_observer_add(ctx, &observer, &handle), TN_OK);
    tn_mul_scalar_(s, y, 3);
    tn_add_scalar_(s, y, 1);
    tn_observer_remove(ctx, handle);
    cr_assert_geq(calls, 2);
    EXPECT(s, y, 4, 7);
    tn_backward(s, tn_sum(s, tn_mul(s, y, y)));
    EXPECT(s, tn_grad_of(s, x), 2 * 4 * 3, 2 * 7 * 3);
    tn_float_power_tensor_scalar_out(s, x, 2, VECTOR(s, 0, 0, 0));
    expect_error(s, "functions with out=... arguments don't support automatic differentiation");
    end();
}

/* Optimisers write lists of tensors: leaves that require a gradient are refused while calls are recorded. */
Test(engine, steps_that_write_lists)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2), *g = VECTOR(s, 0, 10, 20);
    tn__fused_sgd_(s, TN_TENSORS(x), TN_TENSORS(g), ((tn_tensors){NULL, 0}), 0, 0, 0.1, 0, 0, 0, 1);
    expect_error(s, "a leaf Variable that requires grad is being used in an in-place operation.");
    EXPECT(s, tn_detach(s, x), 1, 2);
    end();
}
