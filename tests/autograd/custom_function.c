/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of a program with gradients of their own, and operators defined with one. */
#include "suite.h"
#include "../core/gate.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <tenon/plugin.h>
#include "../core/refused.h"

TestSuite(function, .init = begin);

/* (a, b) -> (a * b, a + b), with a gradient that is three times too large, to see that it is used. */
static int32_t pair_forward(tn_function_call *call, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    cr_assert_eq(tn_grad_mode(), TN_GRAD_OFF);
    tn_function_save(call, in);
    out[0] = tn_mul(scope, in.data[0], in.data[1]);
    out[1] = tn_add(scope, in.data[0], in.data[1]);
    return TN_OK;
}

static int32_t pair_backward(tn_function_call *call, tn_scope *scope, tn_tensors grads, tn_tensor **out)
{
    ++*(int *)tn_function_user(call);
    cr_assert_not_null(grads.data[1]); /* materialised */
    for (uint32_t i = 0; i < 2; i++) {
        if (!tn_function_needs_input_grad(call, i)) continue;
        tn_tensor *product = tn_mul(scope, grads.data[0], tn_function_saved(call, scope, 1 - i));
        out[i] = tn_mul_scalar(scope, tn_add(scope, product, grads.data[1]), 3);
    }
    return TN_OK;
}

static int dropped;
static void drop_user(void *user)
{
    (void)user;
    dropped++;
}

Test(function, forward_and_backward)
{
    int calls = 0;
    tn_function f = {.size = sizeof f,
                     .name = "Pair",
                     .forward = pair_forward,
                     .backward = pair_backward,
                     .destroy = drop_user};
    tn_tensor *a = VECTOR(s, 1, 2, 3), *b = VECTOR(s, 0, 5, 7), *out[2];
    cr_assert_eq(tn_function_apply(s, &f, &calls, TN_TENSORS(a, b), out, 2), TN_OK);
    EXPECT(s, out[0], 10, 21);
    cr_assert_str_eq(tn_node_name(tn_grad_fn(out[0])), "PairBackward");
    tn_backward_options keep = {.size = sizeof keep, .retain_graph = 1};
    tn_backward_with(s, TN_TENSORS(tn_sum(s, out[0])), &keep);
    EXPECT(s, tn_grad_of(s, a), 15, 21);
    tn_backward(s, tn_sum(s, out[0]));
    cr_assert_eq(calls, 2);
    tn_backward(s, tn_sum(s, out[1]));
    expect_error(s, "Trying to backward through the graph a second time");
    cr_assert_eq(dropped, 0);
    tn_drop(s, out[0]);
    tn_drop(s, out[1]);
    end();
}

static char long_name[6000]; /* so long that no block that was freed before is taken for it */
static tn_tensor *pair_inputs[2];

static void apply_pair(tn_scope *own)
{
    int calls = 0;
    tn_tensor *out[2];
    const tn_function f = {.size = sizeof f,
                           .name = long_name,
                           .forward = pair_forward,
                           .backward = pair_backward,
                           .destroy = drop_user};
    dropped = 0;
    tn_function_apply(own, &f, &calls, (tn_tensors){pair_inputs, 2}, out, 2);
}

static void expect_dropped(int64_t n)
{
    cr_expect_eq(dropped, 1, "allocation %lld: %d", (long long)n, dropped);
}

/* Whichever allocation fails, and in the end none: the user's data is destroyed once. */
Test(function, destroys_the_users_data_when_memory_is_lacking)
{
    memset(long_name, 'x', sizeof long_name - 1);
    pair_inputs[0] = VECTOR(s, 1, 2, 3);
    pair_inputs[1] = VECTOR(s, 0, 5, 7);
    cr_expect_gt(fail_each_allocation(s, apply_pair, expect_dropped), 3);
    end();
}

Test(function, is_differentiable_twice)
{
    int calls = 0;
    tn_function f = {.size = sizeof f, .name = "Pair", .forward = pair_forward, .backward = pair_backward};
    tn_tensor *a = VECTOR(s, 1, 2), *b = VECTOR(s, 1, 5), *out[2], *grad, *second;
    tn_function_apply(s, &f, &calls, TN_TENSORS(a, b), out, 2);
    tn_backward_options create = {.size = sizeof create, .create_graph = 1};
    tn_grad(s, TN_TENSORS(out[0]), TN_TENSORS(a), &create, &grad); /* 3 b */
    EXPECT(s, grad, 15);
    tn_grad(s, TN_TENSORS(grad), TN_TENSORS(b), &create, &second);
    EXPECT(s, second, 3);
    f.flags = TN_FUNCTION_ONCE_DIFFERENTIABLE;
    tn_function_apply(s, &f, &calls, TN_TENSORS(a, b), out, 2);
    tn_tensor *y = tn_mul(s, out[0], out[0]);
    tn_grad(s, TN_TENSORS(y), TN_TENSORS(a), &create, &grad);
    expect_sound(s);
    tn_grad(s, TN_TENSORS(grad), TN_TENSORS(b), &create, &second);
    expect_error(s, "marked with @once_differentiable");
    end();
}

static int32_t square_forward(tn_function_call *call, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    tn_tensor *before = tn_clone(scope, in.data[0]);
    tn_function_save(call, TN_TENSORS(before));
    tn_mul_(scope, in.data[0], before);
    tn_function_mark_dirty(call, in.data[0]);
    out[0] = in.data[0];
    out[1] = tn_sign(scope, before);
    tn_function_mark_non_differentiable(call, out[1]);
    return TN_OK;
}

static int32_t square_backward(tn_function_call *call, tn_scope *scope, tn_tensors grads, tn_tensor **out)
{
    out[0] = tn_mul(scope, grads.data[0], tn_mul_scalar(scope, tn_function_saved(call, scope, 0), 2));
    return TN_OK;
}

Test(function, changes_its_input)
{
    tn_function f = {
        .size = sizeof f, .name = "Square", .forward = square_forward, .backward = square_backward};
    tn_tensor *x = VECTOR(s, 1, -3, 4), *y = tn_mul_scalar(s, x, 1), *out[2];
    cr_assert_eq(tn_function_apply(s, &f, NULL, TN_TENSORS(y), out, 2), TN_OK);
    cr_assert_eq(out[0], y);
    cr_assert_eq(tn_requires_grad(out[1]), 0);
    tn_backward(s, tn_sum(s, y));
    EXPECT(s, tn_grad_of(s, x), -6, 8);
    tn_function_apply(s, &f, NULL, TN_TENSORS(x), out, 2);
    expect_error(s, "a leaf Variable that requires grad is being used in an in-place operation.");
    end();
}

/* mylib::cube(x, k) = k * x^3 */
static int32_t cube_body(void *self, const tn_call *call)
{
    (void)self;
    tn_scope *scope = call->host->call_scope(call);
    tn_tensor *x = tn_value_as_tensor(call->args[0]);
    tn_tensor *cube = tn_mul(scope, tn_mul(scope, x, x), x);
    return call->host->set_output(call, 0, tn_mul_scalar(scope, cube, call->args[1]));
}

/* args: the gradient, x (saved), k, the result (saved) */
static int32_t cube_backward(void *self, const tn_call *call)
{
    (void)self;
    tn_scope *scope = call->host->call_scope(call);
    cr_assert_eq(call->n_args, 4);
    tn_tensor *x = tn_value_as_tensor(call->args[1]);
    tn_tensor *slope = tn_mul_scalar(scope, tn_mul(scope, x, x), 3 * tn_value_as_float(call->args[2]));
    return call->host->set_output(call, 0, tn_mul(scope, tn_value_as_tensor(call->args[0]), slope));
}

Test(function, operator_with_a_gradient)
{
    tn_operator_def def = {.size = sizeof def,
                           .schema = "mylib::cube(Tensor x, float k=1.0) -> Tensor",
                           .saves = "x, result0",
                           .composite = cube_body,
                           .backward = cube_backward};
    const uint32_t op = define(ctx, &def);
    tn_tensor *x = VECTOR(s, 1, 1, 2);
    const tn_value args[] = {tn_value_tensor(x), tn_value_float(2)};
    tn_value out;
    cr_assert_eq(tn_scope_call(s, op, args, 2, &out, 1), TN_OK);
    EXPECT(s, tn_value_as_tensor(out), 2, 16);
    cr_assert_str_eq(tn_node_name(tn_grad_fn(tn_value_as_tensor(out))), "CubeBackward");
    tn_tensor *grad, *second;
    tn_backward_options create = {.size = sizeof create, .create_graph = 1};
    tn_grad(s, TN_TENSORS(tn_sum(s, tn_value_as_tensor(out))), TN_TENSORS(x), &create, &grad);
    EXPECT(s, grad, 6, 24);
    tn_grad(s, TN_TENSORS(tn_sum(s, grad)), TN_TENSORS(x), NULL, &second);
    EXPECT(s, second, 12, 24);
    end();
}

/*
 * A gate in the first call of backward: a second run of the node meets it between its start and its first
 * saved tensor.
 */
typedef struct gated_node {
    gate gate;
    atomic_int calls;
    tn_tensor *loss;
    tn_backward_options options; /* of both runs */
    int32_t status;              /* of the first */
} gated_node;

static int32_t gated_forward(tn_function_call *call, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    tn_function_save(call, in);
    out[0] = tn_mul(scope, in.data[0], in.data[0]);
    return TN_OK;
}

static int32_t gated_backward(tn_function_call *call, tn_scope *scope, tn_tensors grads, tn_tensor **out)
{
    gated_node *n = tn_function_user(call);
    if (atomic_fetch_add(&n->calls, 1) == 0) gate_wait(&n->gate);
    tn_tensor *x = tn_function_saved(call, scope, 0);
    out[0] = tn_mul(scope, grads.data[0], tn_mul_scalar(scope, x, 2));
    return TN_OK;
}

static void *run_backward(void *user)
{
    gated_node *n = user;
    tn_scope *own = tn_scope_open(ctx);
    tn_backward_with(own, TN_TENSORS(n->loss), &n->options);
    n->status = tn_scope_close(own);
    return NULL;
}

/* Gives the gradient after a run that waits at the gate, and another one in between. */
static tn_tensor *run_twice(int32_t keep, const char *error)
{
    gated_node n = {.options = {.size = sizeof n.options, .retain_graph = keep}};
    tn_function f = {
        .size = sizeof f, .name = "Square", .forward = gated_forward, .backward = gated_backward};
    tn_tensor *x = VECTOR(s, 1, 3, 5), *out;
    pthread_t thread;
    gate_init(&n.gate);
    cr_assert_eq(tn_function_apply(s, &f, &n, TN_TENSORS(x), &out, 1), TN_OK);
    n.loss = tn_sum(s, out);
    cr_assert_eq(pthread_create(&thread, NULL, run_backward, &n), 0);
    sem_wait(&n.gate.reached);
    tn_backward_with(s, TN_TENSORS(n.loss), &n.options);
    if (error) expect_error(s, error);
    gate_open(&n.gate);
    pthread_join(thread, NULL);
    cr_assert_eq(n.status, TN_OK);
    tn_tensor *grad = tn_grad_of(s, x);
    tn_drop(s, out);
    return grad;
}

Test(function, one_run_takes_what_is_saved)
{
    EXPECT(s, run_twice(0, "Trying to backward through the graph a second time"), 6, 10);
    end();
}

Test(function, runs_that_keep_the_graph_share_what_is_saved)
{
    EXPECT(s, run_twice(1, NULL), 12, 20);
    end();
}

/* ---- What forward may return and save ---------------------------------------------------------------------- */

static int32_t triple_gradient(tn_function_call *call, tn_scope *scope, tn_tensors grads, tn_tensor **out)
{
    out[0] = tn_mul_scalar(scope, grads.data[0], 3);
    return TN_OK;
}

static int32_t same_forward(tn_function_call *call, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    out[0] = in.data[0];
    return TN_OK;
}

/* The output is a view, so that the input keeps its own history. */
Test(function, returns_its_input)
{
    tn_function f = {.size = sizeof f, .name = "Same", .forward = same_forward, .backward = triple_gradient};
    tn_tensor *x = VECTOR(s, 1, 2, 5), *out;
    cr_assert_eq(tn_function_apply(s, &f, NULL, TN_TENSORS(x), &out, 1), TN_OK);
    cr_assert_neq(out, x);
    cr_assert_null(tn_grad_fn(x));
    cr_assert_eq(tn_tensor_data(out), tn_tensor_data(x));
    tn_backward(s, tn_sum(s, tn_mul(s, out, x)));
    EXPECT(s, tn_grad_of(s, x), 2 + 3 * 2, 5 + 3 * 5);
    end();
}

/* (2 x, where x is positive): the second output has no gradient, and both are saved. */
static int32_t signs_forward(tn_function_call *call, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    tn_tensor *made = tn_mul_scalar(scope, in.data[0], 2);
    out[0] = made;
    out[1] = tn_gt_scalar(scope, in.data[0], 0);
    tn_function_mark_dirty(call, made); /* which is not an input: an output like any other */
    return tn_function_save(call, TN_TENSORS(out[1], out[0]));
}

static int32_t signs_backward(tn_function_call *call, tn_scope *scope, tn_tensors grads, tn_tensor **out)
{
    tn_tensor *positive = tn_function_saved(call, scope, 0);
    cr_assert_not(tn_requires_grad(positive));
    out[0] = tn_mul(scope, tn_mul(scope, grads.data[0], positive), tn_function_saved(call, scope, 1));
    return TN_OK;
}

Test(function, saves_its_outputs)
{
    tn_function f = {.size = sizeof f, .name = "Signs", .forward = signs_forward, .backward = signs_backward};
    tn_tensor *x = VECTOR(s, 1, -3, 4), *out[2];
    cr_assert_eq(tn_function_apply(s, &f, NULL, TN_TENSORS(x), out, 2), TN_OK);
    cr_assert(tn_requires_grad(out[0]));
    cr_assert_not(tn_requires_grad(out[1]));
    tn_backward(s, tn_sum(s, out[0]));
    EXPECT(s, tn_grad_of(s, x), 0, 8);
    end();
}

static int32_t asks_for_too_much(tn_function_call *call, tn_scope *scope, tn_tensors grads, tn_tensor **out)
{
    out[0] = tn_function_saved(call, scope, 2);
    return TN_OK;
}

Test(function, refusals)
{
    tn_function f = {.size = sizeof f, .name = "Asks", .forward = gated_forward};
    tn_tensor *x = VECTOR(s, 1, 1, 2), *out = NULL;
    cr_assert_eq(tn_function_apply(s, &f, NULL, TN_TENSORS(x), &out, 1), TN_E_ARGUMENT);
    expect_error(s, "function_apply: forward, backward and at least one output are required");
    f.backward = asks_for_too_much;
    f.size = 0;
    cr_assert_eq(tn_function_apply(s, &f, NULL, TN_TENSORS(x), &out, 1), TN_E_ARGUMENT);
    expect_error(s, "tn_function: size is 0; set it to sizeof(tn_function)");
    f.size = sizeof f;
    cr_assert_eq(tn_function_apply(s, &f, NULL, TN_TENSORS(x), &out, 0), TN_E_ARGUMENT);
    expect_error(s, "at least one output");
    cr_assert_null(out);
    cr_assert_eq(tn_function_apply(s, &f, NULL, TN_TENSORS(x), &out, 1), TN_OK);
    tn_backward(s, tn_sum(s, out));
    expect_error(s, "AsksBackward: there is no saved tensor 2");
    end();
}

/* The gradient of a function that has none for its gradient is marked by a node that raises an error. */
Test(function, is_differentiable_once)
{
    tn_function f = {.size = sizeof f,
                     .name = "Once",
                     .flags = TN_FUNCTION_ONCE_DIFFERENTIABLE,
                     .forward = same_forward,
                     .backward = triple_gradient};
    tn_tensor *x = VECTOR(s, 1, 1, 2), *out, *grad, *second;
    const tn_backward_options create = {.size = sizeof create, .create_graph = 1};
    cr_assert_eq(tn_function_apply(s, &f, NULL, TN_TENSORS(tn_mul(s, x, x)), &out, 1), TN_OK);
    tn_grad(s, TN_TENSORS(tn_sum(s, tn_mul(s, out, out))), TN_TENSORS(out), &create, &grad);
    EXPECT(s, grad, 2, 8);
    tn_grad(s, TN_TENSORS(tn_sum(s, tn_mul(s, out, out))), TN_TENSORS(x), &create, &grad);
    EXPECT(s, grad, 2 * 3 * 2, 8 * 3 * 4);
    tn_grad(s, TN_TENSORS(tn_sum(s, grad)), TN_TENSORS(x), NULL, &second);
    expect_error(s, "once_differentiable");
    tn_drop(s, out);
    end();
}

static int32_t same_gradient(tn_function_call *call, tn_scope *scope, tn_tensors grads, tn_tensor **out)
{
    (void)call, (void)scope;
    out[0] = grads.data[0];
    return TN_OK;
}

/* The incoming gradient, which backward may return as it is, keeps its own history: d sum(2 x^2) / dx. */
Test(function, once_differentiable_leaves_the_incoming_gradient_alone)
{
    tn_function f = {.size = sizeof f,
                     .flags = TN_FUNCTION_ONCE_DIFFERENTIABLE,
                     .forward = same_forward,
                     .backward = same_gradient};
    tn_tensor *x = VECTOR(s, 1, 1, 2), *out, *first[2], *second;
    const tn_backward_options create = {.size = sizeof create, .create_graph = 1};
    cr_assert_eq(tn_function_apply(s, &f, NULL, TN_TENSORS(tn_mul(s, x, x)), &out, 1), TN_OK);
    tn_grad(s, TN_TENSORS(tn_sum(s, tn_mul(s, out, out))), TN_TENSORS(out, x), &create, first);
    tn_grad(s, TN_TENSORS(tn_sum(s, first[0])), TN_TENSORS(x), NULL, &second);
    EXPECT(s, second, 4, 8);
    end();
}

/* ---- Operators with lists ------------------------------------------------------------------------------------ */

/* mylib::weighted(xs, w, k, absent): the sum of w[i] k[i] xs[i]^2 */
static int32_t weighted_body(void *self, const tn_call *call)
{
    tn_scope *scope = call->host->call_scope(call);
    const tn_value *a = call->args;
    tn_tensor *sum = NULL;
    for (uint32_t i = 0; i < a[0].count; i++) {
        tn_tensor *x = a[0].as.tensors[i],
                  *part = tn_mul_scalar(scope, tn_mul(scope, x, x), a[1].as.floats[i]);
        part = tn_mul_scalar(scope, part, a[2].as.values[i]);
        sum = sum ? tn_add(scope, sum, part) : part;
    }
    return call->host->set_output(call, 0, sum);
}

static int32_t sets_a_wrong_gradient;

static int32_t weighted_backward(void *self, const tn_call *call)
{
    static tn_tensor *grads[2];
    tn_scope *scope = call->host->call_scope(call);
    const tn_value *a = call->args + 1; /* after the gradient of the result */
    cr_assert_eq(call->n_args, 5);
    cr_assert_eq(a[3].tag, TN_TAG_NONE);
    for (uint32_t i = 0; i < a[0].count; i++) {
        tn_tensor *slope = tn_mul_scalar(scope, a[0].as.tensors[i], 2 * a[1].as.floats[i]);
        slope = tn_mul_scalar(scope, slope, a[2].as.values[i]);
        grads[i] = tn_mul(scope, tn_value_as_tensor(call->args[0]), slope);
    }
    call->outs[0] = tn_value_tensors(grads, a[0].count);
    return sets_a_wrong_gradient ? call->host->set_output(call, 1, grads[0]) : TN_OK;
}

static tn_value call_weighted(const char *saves, tn_tensor *const *list)
{
    static const double weights[] = {10, 0.5};
    const tn_value factors[] = {tn_value_int(2), tn_value_float(4)};
    const tn_operator_def def = {
        .size = sizeof def,
        .schema = "mylib::weighted(Tensor[] xs, float[] w, Scalar[] k, Tensor? absent=None) -> Tensor",
        .saves = saves,
        .composite = weighted_body,
        .backward = weighted_backward};
    tn_value out = tn_value_none();
    const uint32_t op = define(ctx, &def);
    const tn_value args[] = {tn_value_tensors(list, 2), tn_value_floats(weights, 2),
                             tn_value_scalars(factors, 2), tn_value_none()};
    tn_scope_call(s, op, args, 4, &out, 1);
    return out;
}

Test(function, operator_with_lists)
{
    tn_tensor *const list[] = {VECTOR(s, 1, 1, 2), VECTOR(s, 1, 3, -4)};
    tn_value out = call_weighted("xs", list);
    EXPECT(s, tn_value_as_tensor(out), 20 * 1 + 2 * 9, 20 * 4 + 2 * 16);
    tn_backward(s, tn_sum(s, tn_value_as_tensor(out)));
    EXPECT(s, tn_grad_of(s, list[0]), 40, 80);
    EXPECT(s, tn_grad_of(s, list[1]), 12, -16);
    end();
}

Test(function, operator_that_sets_a_gradient_for_a_number)
{
    tn_tensor *const list[] = {VECTOR(s, 1, 1, 2), VECTOR(s, 1, 3, -4)};
    tn_value out = call_weighted("xs", list);
    sets_a_wrong_gradient = 1;
    tn_backward(s, tn_sum(s, tn_value_as_tensor(out)));
    expect_error(s, "mylib::weighted: backward set a gradient for argument 'w', which is not a tensor");
    end();
}

Test(function, operators_that_save_what_there_is_not)
{
    static const refused_text cases[] = {
        {"w", "mylib::weighted: `saves` lists the non-tensor argument 'w'; non-tensors are always passed"},
        {"xs, other", "mylib::weighted: `saves` lists 'other', which is neither an argument nor a result"},
        {"result1", "`saves` lists 'result1', which is neither"},
        {"resultx", "`saves` lists 'resultx', which is neither"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tn_operator_def def = {.size = sizeof def,
                                     .schema = "mylib::weighted(Tensor[] xs, float[] w) -> Tensor",
                                     .saves = cases[i].given,
                                     .composite = weighted_body};
        cr_assert_eq(tn_operator_define(ctx, &def, NULL), TN_E_ARGUMENT);
        cr_assert_not_null(strstr(tn_last_error()->message, cases[i].text), "%s", tn_last_error()->message);
    }
    end();
}

/* A list takes a list of gradients: one gradient for all of it was that of the first item alone. */
static int32_t one_for_the_list(void *self, const tn_call *call)
{
    return call->host->set_output(call, 0, tn_value_as_tensor(call->args[0]));
}

static int32_t too_few_for_the_list(void *self, const tn_call *call)
{
    static tn_tensor *grads[1];
    grads[0] = tn_value_as_tensor(call->args[0]);
    call->outs[0] = tn_value_tensors(grads, 1);
    return TN_OK;
}

static int32_t sum_of_list(void *self, const tn_call *call)
{
    const tn_value *xs = &call->args[0];
    return call->host->set_output(call, 0,
                                  tn_add(call->host->call_scope(call), xs->as.tensors[0], xs->as.tensors[1]));
}

Test(function, operators_that_give_a_list_the_wrong_gradients)
{
    static const struct {
        tn_kernel_fn backward;
        const char *text;
    } cases[] = {{one_for_the_list,
                  "mylib::sum: backward set one gradient for argument 'xs', which is a list of 2; "
                  "store a list, call->outs[0] = tn_value_tensors(gradients, 2)"},
                 {too_few_for_the_list,
                  "mylib::sum: backward gave 1 gradients for argument 'xs', which is a list of 2"}};
    tn_tensor *const list[] = {VECTOR(s, 1, 1, 2), VECTOR(s, 1, 3, -4)};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tn_operator_def def = {.size = sizeof def,
                                     .schema = "mylib::sum(Tensor[] xs) -> Tensor",
                                     .composite = sum_of_list,
                                     .backward = cases[i].backward};
        const tn_value arg = tn_value_tensors(list, 2);
        tn_value out = tn_value_none();
        tn_scope_call(s, define(ctx, &def), &arg, 1, &out, 1);
        tn_backward(s, tn_sum(s, tn_value_as_tensor(out)));
        expect_error(s, cases[i].text);
        cr_assert_eq(tn_namespace_remove(ctx, "mylib"), TN_OK);
    }
    end();
}

static int32_t reads_what_is_not_saved(void *self, const tn_call *call)
{
    tn_scope *scope = call->host->call_scope(call);
    tn_tensor *g = tn_value_as_tensor(call->args[0]), *y = tn_value_as_tensor(call->args[2]);
    return call->host->set_output(call, 0, tn_mul(scope, g, y));
}

static int32_t product_of_both(void *self, const tn_call *call)
{
    return call->host->set_output(
        call, 0, tn_mul(call->host->call_scope(call), call->args[0].as.tensor, call->args[1].as.tensor));
}

Test(function, an_operator_whose_gradient_reads_what_is_not_saved)
{
    const tn_operator_def def = {.size = sizeof def,
                                 .schema = "mylib::product(Tensor x, Tensor y) -> Tensor",
                                 .saves = "x",
                                 .composite = product_of_both,
                                 .backward = reads_what_is_not_saved};
    const tn_value args[] = {tn_value_tensor(VECTOR(s, 1, 1, 2)), tn_value_tensor(VECTOR(s, 1, 3, -4))};
    tn_value out = tn_value_none();
    tn_scope_call(s, define(ctx, &def), args, 2, &out, 1);
    tn_backward(s, tn_sum(s, tn_value_as_tensor(out)));
    expect_error(
        s, "must be Tensor, not None (in the gradient of mylib::product, which gets only the tensors that "
           "`saves` lists; not listed: 'y', 'result0')");
    end();
}

static int32_t twice_of_self(void *self, const tn_call *call)
{
    const double *from = tn_desc(call->args[0].as.tensor)->host;
    double *to = tn_desc(call->outs[0].as.tensor)->host;
    for (int64_t i = 0; i < tn_tensor_numel(call->outs[0].as.tensor); i++) to[i] = 2 * from[i];
    return TN_OK;
}

/* As of built-in operators: the result is the given tensor, and nothing is recorded. */
Test(function, out_forms_of_operators_without_a_gradient)
{
    const char *schema = "mylib::twice.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)";
    const tn_operator_def def = {.size = sizeof def, .schema = schema};
    const tn_kernel_row row = {.size = sizeof row, .schema = schema, .run = twice_of_self};
    const uint32_t op = define(ctx, &def);
    cr_assert_eq(tn_kernels_add(ctx, "cpu", NULL, &row, 1), TN_OK);
    tn_tensor *leaf = VECTOR(s, 1, 1, 2), *plain = VECTOR(s, 0, 3, 4), *out = VECTOR(s, 0, 0, 0);
    tn_value args[] = {tn_value_tensor(leaf), tn_value_tensor(out)}, result = tn_value_none();
    tn_scope_call(s, op, args, 2, &result, 1);
    expect_error(
        s, "twice(): functions with out=... arguments don't support automatic differentiation, but one of "
           "the arguments requires grad.");
    args[0] = tn_value_tensor(plain);
    tn_scope_call(s, op, args, 2, &result, 1);
    cr_assert_eq(result.as.tensor, out);
    EXPECT(s, out, 6, 8);
    cr_assert_eq(tn_requires_grad(out), 0);
    end();
}
