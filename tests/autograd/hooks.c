/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks of tensors, nodes, accumulation, whole runs and saved tensors; runs inside of hooks. */
#include "suite.h"

#include <stdlib.h>
#include <string.h>

TestSuite(hooks, .init = begin);

static tn_tensor *twice(void *user, tn_scope *scope, tn_tensor *grad)
{
    ++*(int *)user;
    return tn_mul_scalar(scope, grad, 2);
}

static tn_tensor *look(void *user, tn_scope *scope, tn_tensor *grad)
{
    (void)scope;
    *(double *)user = tn_item_double(scope, grad);
    return NULL;
}

Test(hooks, of_tensors)
{
    int calls = 0;
    double seen = 0;
    uint64_t first, second;
    tn_tensor *x = VECTOR(s, 1, 3), *y = tn_mul(s, x, x);
    cr_assert_eq(tn_register_hook(y, look, &seen, &first), TN_OK);
    cr_assert_eq(tn_register_hook(x, twice, &calls, &second), TN_OK);
    tn_backward_options keep = {.size = sizeof keep, .retain_graph = 1};
    tn_tensor *z = tn_mul_scalar(s, y, 5);
    tn_backward_with(s, TN_TENSORS(z), &keep);
    cr_assert_eq(seen, 5);
    cr_assert_eq(calls, 1);
    EXPECT(s, tn_grad_of(s, x), 60);
    tn_hook_remove(x, second);
    tn_hook_remove(y, first);
    seen = 0;
    tn_backward_with(s, TN_TENSORS(z), &keep);
    cr_assert_eq(seen, 0);
    EXPECT(s, tn_grad_of(s, x), 90);
    cr_assert_eq(tn_register_hook(VECTOR(s, 0, 1), look, &seen, &first), TN_E_AUTOGRAD);
    expect_last_error("cannot register a hook on a tensor that doesn't require gradient");
    end();
}

static tn_tensor *change(void *user, tn_scope *scope, tn_tensor *grad)
{
    return *(int *)user ? tn_sum(scope, grad) : tn_to(scope, grad, TN_FLOAT32);
}

static void expect_refused(tn_tensor *x, tn_tensor *of, int how, const char *text)
{
    uint64_t handle;
    cr_assert_eq(tn_register_hook(of, change, &how, &handle), TN_OK);
    cr_assert_eq(tn_backward(s, tn_sum(s, tn_mul_scalar(s, of, 5))), TN_E_AUTOGRAD);
    cr_assert(strstr(tn_scope_error(s)->message, text), "%s", tn_scope_error(s)->message);
    tn_scope_clear(s);
    cr_assert_null(tn_grad_of(s, x));
    tn_hook_remove(of, handle);
}

Test(hooks, return_gradients_of_the_same_kind)
{
    tn_tensor *x = VECTOR(s, 1, 3), *y = tn_mul(s, x, x);
    expect_refused(x, x, 0, "hook has changed the type of value (was float64 got float32)");
    expect_refused(x, x, 1, "hook has changed the size of value (was [1] got [])");
    y = tn_mul(s, x, x);
    expect_refused(x, y, 1, "hook has changed the size of value (was [1] got [])");
    end();
}

Test(hooks, kept_gradients)
{
    tn_tensor *x = VECTOR(s, 1, 3), *y = tn_mul(s, x, x), *z = tn_mul_scalar(s, y, 5);
    cr_assert_eq(tn_retain_grad(y), TN_OK);
    tn_backward(s, z);
    EXPECT(s, tn_grad_of(s, y), 5);
    tn_tensor *short_lived = tn_retain(tn_mul(s, x, x));
    cr_assert_eq(tn_retain_grad(short_lived), TN_OK);
    tn_tensor *loss = tn_mul_scalar(s, short_lived, 2);
    tn_drop(s, short_lived);
    tn_release(short_lived); /* gone before the run */
    tn_backward(s, loss);
    EXPECT(s, tn_grad_of(s, x), 30 + 12);
    end();
}

static void accumulated(void *user, tn_scope *scope, tn_tensor *leaf)
{
    *(double *)user = tn_item_double(scope, tn_grad_of(scope, leaf));
    tn_set_grad(leaf, NULL);
}

Test(hooks, after_accumulation)
{
    double seen = 0;
    uint64_t handle;
    tn_tensor *x = VECTOR(s, 1, 3);
    cr_assert_eq(tn_register_accumulate_hook(x, accumulated, &seen, &handle), TN_OK);
    tn_backward(s, tn_mul(s, x, x));
    cr_assert_eq(seen, 6);
    cr_assert_null(tn_grad_of(s, x));
    cr_assert_eq(tn_register_accumulate_hook(tn_mul(s, x, x), accumulated, &seen, &handle), TN_E_AUTOGRAD);
    end();
}

static void fail_accumulated(void *user, tn_scope *scope, tn_tensor *leaf)
{
    tn_scope_fail(scope, TN_E_STATE, "out of luck");
}

/* No hook runs behind one that has failed. */
Test(hooks, after_accumulation_that_fail)
{
    double seen = 0;
    uint64_t handle;
    tn_tensor *x = VECTOR(s, 1, 3);
    cr_assert_eq(tn_register_accumulate_hook(x, fail_accumulated, NULL, &handle), TN_OK);
    cr_assert_eq(tn_register_accumulate_hook(x, accumulated, &seen, &handle), TN_OK);
    cr_assert_eq(tn_backward(s, tn_mul(s, x, x)), TN_E_STATE);
    expect_error(s, "out of luck");
    cr_assert_eq(seen, 0);
    EXPECT(s, tn_grad_of(s, x), 6);
    end();
}

static int32_t zero_out(void *user, tn_scope *scope, tn_tensor **grads, uint32_t count)
{
    *(uint32_t *)user = count;
    for (uint32_t i = 0; i < count; i++) {
        if (grads[i]) grads[i] = tn_mul_scalar(scope, grads[i], i + 10);
    }
    return TN_OK;
}

Test(hooks, of_nodes)
{
    uint32_t in = 0, out = 0;
    uint64_t pre, post;
    tn_tensor *a = VECTOR(s, 1, 3), *b = VECTOR(s, 1, 4), *y = tn_mul(s, a, b);
    tn_node *node = tn_grad_fn(y);
    cr_assert_str_eq(tn_node_name(node), "MulBackward");
    cr_assert_eq(tn_node_input_count(node), 2);
    cr_assert_str_eq(tn_node_name(tn_node_next(node, 1)), "AccumulateGrad");
    cr_assert_eq(tn_node_register_hook(node, 1, zero_out, &in, &pre), TN_OK);
    cr_assert_eq(tn_node_register_hook(node, 0, zero_out, &out, &post), TN_OK);
    tn_backward(s, y);
    cr_assert_eq(in, 1);
    cr_assert_eq(out, 2);
    EXPECT(s, tn_grad_of(s, a), 4 * 10 * 10);
    EXPECT(s, tn_grad_of(s, b), 3 * 10 * 11);
    tn_node_hook_remove(node, pre);
    tn_node_hook_remove(node, post);
    end();
}

static int finished;
static void finish(void *user, tn_scope *scope)
{
    (void)scope;
    finished += *(int *)user;
}

/* A backward run inside a hook, and a callback for the end of the outer run. */
static tn_tensor *nested(void *user, tn_scope *scope, tn_tensor *grad)
{
    static int one = 1;
    tn_tensor *x = user;
    uint32_t mode = tn_set_grad_mode(TN_GRAD_ON);
    tn_tensor *inner = tn_mul(scope, x, x), *found = NULL;
    tn_grad(scope, TN_TENSORS(inner), TN_TENSORS(x), NULL, &found);
    tn_set_grad_mode(mode);
    tn_queue_callback(scope, finish, &one);
    cr_assert_eq(finished, 0);
    return tn_mul(scope, grad, found);
}

Test(hooks, run_in_a_run)
{
    uint64_t handle;
    tn_tensor *x = VECTOR(s, 1, 3), *y = tn_mul_scalar(s, x, 2);
    cr_assert_eq(tn_register_hook(y, nested, x, &handle), TN_OK);
    tn_backward(s, tn_mul_scalar(s, y, 7));
    EXPECT(s, tn_grad_of(s, x), 7 * 6 * 2);
    cr_assert_eq(finished, 1);
    tn_queue_callback(s, finish, &finished);
    expect_error(s, "Final callbacks can only be installed during backward pass.");
    end();
}

/* Saved tensors that the test stores as doubles. */
static int packed, unpacked, destroyed;
typedef struct box {
    double values[8];
    int64_t count;
} box;

static void *pack(void *user, tn_scope *scope, tn_tensor *t)
{
    (void)user;
    box *b = malloc(sizeof *b);
    b->count = tn_tensor_numel(t);
    tn_to_host(scope, t, b->values, (uint64_t)b->count * 8);
    packed++;
    return b;
}

static tn_tensor *unpack(void *user, tn_scope *scope, void *value)
{
    (void)user;
    box *b = value;
    unpacked++;
    return tn_from_data(scope, TN_FLOAT64, TN_INTS(b->count), b->values, 0);
}

static void destroy(void *user, void *value)
{
    (void)user;
    destroyed++;
    free(value);
}

Test(hooks, of_saved_tensors)
{
    tn_saved_hooks hooks = {.size = sizeof hooks, .pack = pack, .unpack = unpack, .destroy = destroy};
    tn_tensor *x = VECTOR(s, 1, 1, 2), *w = VECTOR(s, 1, 3, 4);
    cr_assert_eq(tn_saved_hooks_push(ctx, &hooks), TN_OK);
    tn_tensor *y = tn_exp(s, tn_mul(s, x, w));
    tn_saved_hooks_pop(ctx);
    cr_assert_eq(packed, 3);
    tn_tensor *grad, *second;
    tn_backward_options create = {.size = sizeof create, .create_graph = 1};
    tn_grad(s, TN_TENSORS(tn_sum(s, y)), TN_TENSORS(x), &create, &grad); /* w e^(wx) */
    cr_assert_eq(unpacked, 2);
    EXPECT(s, grad, 60.256610769563004, 4 * 2980.9579870417283);
    tn_grad(s, TN_TENSORS(tn_sum(s, grad)), TN_TENSORS(x), &create, &second); /* w^2 e^(wx) */
    EXPECT(s, second, 180.76983230868901, 16 * 2980.9579870417283);
    tn_drop(s, y);
    end();
}

static int32_t exchange(void *user, tn_scope *scope, tn_tensor **grads, uint32_t count)
{
    (void)user;
    (void)scope;
    tn_tensor *first = grads[0];
    grads[0] = grads[count - 1];
    grads[count - 1] = first;
    return TN_OK;
}

/* Allocates memory that may have been freed too early. */
static int32_t fill_memory(void *user, tn_scope *scope, tn_tensor **grads, uint32_t count)
{
    (void)user;
    (void)grads;
    (void)count;
    tn_full(scope, TN_INTS(3), 99.0, .dtype = TN_FLOAT64);
    return TN_OK;
}

Test(hooks, of_a_node_that_exchange_gradients)
{
    tn_tensor *x = VECTOR(s, 1, 2, 2, 2), *w = VECTOR(s, 1, 5, 5, 5), *y = tn_mul(s, x, w);
    tn_node *node = tn_grad_fn(y);
    uint64_t handle;
    cr_assert_eq(tn_node_register_hook(node, 0, exchange, NULL, &handle), TN_OK);
    cr_assert_eq(tn_node_register_hook(node, 0, fill_memory, NULL, &handle), TN_OK);
    tn_backward(s, tn_sum(s, y));
    EXPECT(s, tn_grad_of(s, x), 2, 2, 2);
    EXPECT(s, tn_grad_of(s, w), 5, 5, 5);
    end();
}

static void never_runs(void *user, tn_scope *scope, tn_tensor *const *grads, uint32_t count)
{
    cr_assert_fail("a hook that was refused ran");
}

Test(hooks, that_are_refused)
{
    uint64_t handle = 7;
    tn_multi_hook *hook = NULL;
    tn_tensor *x = VECTOR(s, 1, 1, 2), *plain = VECTOR(s, 0, 1, 2);
    cr_assert_eq(tn_register_accumulate_hook(x, NULL, NULL, &handle), TN_E_ARGUMENT);
    expect_last_error("register_accumulate_hook: the hook is NULL");
    cr_assert_eq(tn_register_accumulate_hook(plain, accumulated, NULL, &handle), TN_E_AUTOGRAD);
    expect_last_error("cannot register a hook on a tensor that doesn't require gradient");
    cr_assert_eq(handle, 7);
    cr_assert_eq(tn_register_multi_hook(TN_TENSORS(x), 0, NULL, NULL, &hook), TN_E_ARGUMENT);
    expect_last_error("register_multi_hook: the hook is NULL, or the list of tensors is empty");
    cr_assert_eq(tn_register_multi_hook((tn_tensors){NULL, 0}, 0, never_runs, NULL, &hook), TN_E_ARGUMENT);
    expect_last_error("the list of tensors is empty");
    cr_assert_eq(tn_register_multi_hook(TN_TENSORS(x, NULL), 0, never_runs, NULL, &hook), TN_E_ARGUMENT);
    expect_last_error("register_multi_hook: tensor 1 is NULL");
    cr_assert_null(hook);
    tn_gradcheck(s, NULL, NULL, TN_TENSORS(x), NULL);
    expect_error(s, "gradcheck: a function and inputs are required");
    tn_gradcheck(s, NULL, NULL, TN_TENSORS(x), &(tn_gradcheck_options){.second = 1});
    expect_error(s, "tn_gradcheck_options: size is 0; set it to sizeof(tn_gradcheck_options)");
    tn_backward(s, tn_sum(s, tn_mul(s, x, x)));
    EXPECT(s, tn_grad_of(s, x), 2, 4);
    end();
}

static tn_tensor *unpack_nothing(void *user, tn_scope *scope, void *value)
{
    return NULL;
}

static void *pack_with_an_error(void *user, tn_scope *scope, tn_tensor *t)
{
    tn_reshape(scope, t, TN_INTS(7));
    return NULL;
}

/* A hook that fails ends the call, or the run, with its error. */
Test(hooks, of_saved_tensors_that_fail)
{
    tn_saved_hooks hooks = {.size = sizeof hooks, .pack = pack, .unpack = unpack_nothing, .destroy = destroy};
    tn_tensor *x = VECTOR(s, 1, 1, 2);
    cr_assert_eq(tn_saved_hooks_push(ctx, &hooks), TN_OK);
    tn_tensor *y = tn_exp(s, x);
    tn_saved_hooks_pop(ctx);
    tn_backward(s, tn_sum(s, y));
    expect_error(s, "saved_tensors_hooks: the unpack hook returned NULL (expected a tensor)");
    hooks.pack = pack_with_an_error;
    cr_assert_eq(tn_saved_hooks_push(ctx, &hooks), TN_OK);
    cr_assert_null(tn_exp(s, x));
    tn_saved_hooks_pop(ctx);
    expect_error(s, "shape '[7]' is invalid for input of size 2");
    tn_backward(s, tn_sum(s, tn_exp(s, tn_mul_scalar(s, x, 0))));
    EXPECT(s, tn_grad_of(s, x), 0, 0);
    end();
}

static void *pack_and_write(void *user, tn_scope *scope, tn_tensor *t)
{
    (void)user;
    tn_mul_scalar_(scope, t, 2);
    return tn_retain(t);
}

static void release_packed(void *user, void *value)
{
    (void)user;
    tn_release(value);
}

Test(hooks, of_saved_tensors_that_write_what_they_pack)
{
    const tn_saved_hooks hooks = {
        .size = sizeof hooks, .pack = pack_and_write, .unpack = unpack_nothing, .destroy = release_packed};
    tn_tensor *x = VECTOR(s, 1, 1, 2), *y = tn_mul_scalar(s, x, 1);
    cr_assert_eq(tn_saved_hooks_push(ctx, &hooks), TN_OK);
    cr_assert_null(tn_mul(s, y, y));
    tn_saved_hooks_pop(ctx);
    expect_error(s, "A saved tensor pack hook is modifying its input in place.");
    end(); /* no memory is left: what was packed is destroyed */
}

static int32_t fails_silently(void *user, tn_scope *scope, tn_tensor **grads, uint32_t count)
{
    return TN_E_STATE;
}

/* A status without an error gets one that names the hook. */
Test(hooks, of_a_node_that_fail)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2), *y = tn_mul_scalar(s, x, 2);
    uint64_t handle;
    cr_assert_eq(tn_node_register_hook(tn_grad_fn(y), 0, fails_silently, NULL, &handle), TN_OK);
    tn_backward(s, tn_sum(s, y));
    cr_assert_eq(tn_scope_failed(s), TN_E_STATE);
    expect_error(s, "hook of a node");
    cr_assert_null(tn_grad_of(s, x));
    end();
}

/* A pair that the program forgot goes with its context, and is not in force for the next one; that of another context stays. */
Test(hooks, of_saved_tensors_that_are_forgotten)
{
    tn_context *other = open_context();
    cr_assert_eq(tn_allow_mutation_on_saved_tensors(ctx), TN_OK);
    cr_assert_eq(tn_allow_mutation_on_saved_tensors(other), TN_OK);
    tn_context_destroy(other);
    cr_assert_eq(tn_disable_saved_tensors_hooks(ctx, "one is in force"), TN_E_AUTOGRAD);
    tn_saved_hooks_pop(ctx);
    cr_assert_eq(tn_disable_saved_tensors_hooks(ctx, "none is in force"), TN_OK);
    end(); /* with the refusal in force */
    begin();
    cr_assert_eq(tn_allow_mutation_on_saved_tensors(ctx), TN_OK);
    tn_saved_hooks_pop(ctx);
    end();
}

/* ---- What the program gave to a hook ---- */

typedef struct given {
    tn_tensor *leaf; /* the hook removes itself */
    uint64_t handle;
    int runs, destroyed, destroyed_in_run;
    int gives_itself; /* the hook gives `user` to Tenon before it removes itself */
} given;

static void destroy_given(void *user)
{
    ((given *)user)->destroyed++;
}

static tn_tensor *run_given(void *user, tn_scope *scope, tn_tensor *grad)
{
    given *g = user;
    (void)scope, (void)grad;
    g->runs++;
    if (g->gives_itself) cr_assert_eq(tn_hook_on_destroy(g->leaf, g->handle, destroy_given), TN_OK);
    if (g->leaf) tn_hook_remove(g->leaf, g->handle);
    g->destroyed_in_run = g->destroyed;
    return NULL;
}

static int32_t run_given_of_node(void *user, tn_scope *scope, tn_tensor **grads, uint32_t count)
{
    (void)scope, (void)grads, (void)count;
    ((given *)user)->runs++;
    return TN_OK;
}

static void run_given_of_leaf(void *user, tn_scope *scope, tn_tensor *leaf)
{
    (void)scope, (void)leaf;
    ((given *)user)->runs++;
}

/* A hook of a result outlives the tensor, as the graph does; one that removes itself is not destroyed while it runs. */
Test(hooks, destroy_what_they_were_given)
{
    given of_result = {0}, of_node = {0}, of_leaf = {0}, itself = {0};
    uint64_t handle;
    tn_tensor *x = VECTOR(s, 1, 3);
    tn_scope *inner = tn_scope_open_child(s, NULL);
    tn_tensor *y = tn_mul(inner, x, x), *z = tn_scope_return(inner, tn_sum(inner, y));
    cr_assert_eq(tn_register_hook(y, run_given, &of_result, &handle), TN_OK);
    cr_assert_eq(tn_hook_on_destroy(y, handle, destroy_given), TN_OK);
    cr_assert_eq(tn_hook_on_destroy(y, handle, destroy_given), TN_E_EXISTS);
    cr_assert_eq(tn_hook_on_destroy(y, handle + 100, destroy_given), TN_E_NOT_FOUND);
    cr_assert_eq(tn_hook_on_destroy(y, handle, NULL), TN_E_ARGUMENT);
    cr_assert_eq(tn_node_register_hook(tn_grad_fn(y), 0, run_given_of_node, &of_node, &handle), TN_OK);
    cr_assert_eq(tn_node_hook_on_destroy(tn_grad_fn(y), handle, destroy_given), TN_OK);
    cr_assert_eq(tn_register_accumulate_hook(x, run_given_of_leaf, &of_leaf, &handle), TN_OK);
    cr_assert_eq(tn_hook_on_destroy(x, handle, destroy_given), TN_OK);
    cr_assert_eq(tn_register_hook(x, run_given, &itself, &itself.handle), TN_OK);
    cr_assert_eq(tn_hook_on_destroy(x, itself.handle, destroy_given), TN_OK);
    itself.leaf = x;
    cr_assert_eq(tn_scope_close(inner), TN_OK);
    cr_assert_eq(of_result.destroyed + of_node.destroyed, 0);
    tn_backward_with(s, TN_TENSORS(z),
                     &(tn_backward_options){.size = sizeof(tn_backward_options), .retain_graph = 1});
    cr_assert(of_result.runs == 1 && of_node.runs == 1 && of_leaf.runs == 1 && itself.runs == 1);
    cr_assert(itself.destroyed == 1 && !itself.destroyed_in_run);
    tn_backward(s, z);
    cr_assert(of_result.runs == 2 && of_leaf.runs == 2 && itself.runs == 1);
    cr_assert_eq(of_leaf.destroyed, 0);
    tn_hook_remove(x, handle);
    tn_scope_close(s);
    cr_assert_eq(of_result.destroyed, 1);
    cr_assert_eq(of_node.destroyed, 1);
    cr_assert_eq(of_leaf.destroyed, 1);
    s = tn_scope_open(ctx);
    end();
}

/* The call in whose hook this happens had copied the hook before. */
Test(hooks, destroy_what_a_running_hook_gives)
{
    tn_tensor *x = VECTOR(s, 1, 3);
    given g = {.leaf = x, .gives_itself = 1};
    cr_assert_eq(tn_register_hook(x, run_given, &g, &g.handle), TN_OK);
    tn_backward(s, tn_mul(s, x, x));
    cr_assert_eq(g.runs, 1);
    cr_assert_eq(g.destroyed_in_run, 0);
    cr_assert_eq(g.destroyed, 1);
    EXPECT(s, tn_grad_of(s, x), 6);
    end();
}

static given registered;
static int n_given; /* hooks that got their destroy */
static tn_tensor *leaf;

static void register_and_give(tn_scope *own)
{
    tn_tensor *y = tn_mul(own, leaf, leaf);
    uint64_t handle = 0;
    int32_t status = TN_OK;
    registered = (given){0};
    n_given = 0;
    for (int i = 0; y && !status && i < 40; i++) { /* so many that the list of hooks grows */
        status = tn_register_hook(y, run_given, &registered, &handle);
        if (!status) status = tn_hook_on_destroy(y, handle, destroy_given);
        n_given += !status;
    }
    tn_scope_fail(own, status, NULL);
    if (y && !status) tn_backward(own, tn_sum(own, y));
}

/* What could not be registered is not destroyed either. */
static void expect_as_many_destroyed(int64_t n)
{
    cr_expect_eq(registered.destroyed, n_given, "allocation %lld: %d", (long long)n, registered.destroyed);
}

Test(hooks, of_which_an_allocation_fails)
{
    leaf = VECTOR(s, 1, 3);
    cr_expect_geq(fail_each_allocation(s, register_and_give, expect_as_many_destroyed), 3);
    end();
}
