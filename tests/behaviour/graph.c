/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients: modes, hooks, saved tensors, layouts, functions of a program, threads, complex numbers. */
#include "fixture.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

static tn_tensor *leaf(tn_tensor *t)
{
    cr_assert_eq(tn_set_requires_grad(t, 1), TN_OK);
    return t;
}

static void backward(place *p, tn_tensor *root, int32_t retain, tn_tensor *grad, tn_tensor *input)
{
    tn_backward_options o = {.size = sizeof o,
                             .retain_graph = retain,
                             .grad_outputs = {grad ? &grad : NULL, grad ? 1 : 0},
                             .inputs = {input ? &input : NULL, input ? 1 : 0}};
    tn_backward_with(p->s, TN_TENSORS(root), &o);
}

static tn_tensor *grad_of(place *p, tn_tensor *root, tn_tensor *input, tn_tensor *grad)
{
    tn_tensor *out = NULL;
    tn_backward_options o = {
        .size = sizeof o, .create_graph = 1, .grad_outputs = {grad ? &grad : NULL, grad ? 1 : 0}};
    tn_grad(p->s, TN_TENSORS(root), TN_TENSORS(input), &o, &out);
    return out;
}

ON_EACH_DEVICE(graph, modes)
{
    tn_tensor *x = leaf(VECTOR(p, TN_FLOAT32, 1));
    const struct {
        uint32_t mode;
        int32_t wants;
    } table[] = {{TN_GRAD_OFF, 0}, {TN_GRAD_ON, 1}, {TN_GRAD_INFERENCE, 0}};
    for (int i = 0; i < 3; i++) {
        tn_scope_options o = {.size = sizeof o, .grad_mode = table[i].mode};
        tn_scope *child = tn_scope_open_child(p->s, &o);
        cr_assert_eq(tn_requires_grad(tn_mul_scalar(child, x, 2)), table[i].wants, "%d", i);
        tn_scope_close(child);
        cr_assert_eq(tn_requires_grad(tn_mul_scalar(p->s, x, 2)), 1);
    }
    uint32_t before = tn_set_grad_mode(TN_GRAD_OFF);
    cr_assert_not(tn_requires_grad(tn_mul_scalar(p->s, x, 2)));
    tn_set_grad_mode(before);
    /* A tensor of inference mode may not be saved for a gradient. */
    tn_scope_options o = {.size = sizeof o, .grad_mode = TN_GRAD_INFERENCE};
    tn_scope *child = tn_scope_open_child(p->s, &o);
    tn_tensor *quiet = tn_scope_return(child, tn_exp(child, x));
    tn_scope_close(child);
    tn_mul(p->s, x, quiet);
    expect_error(p, "Inference tensors cannot be saved for backward");
}

static void *mode_of_a_thread(void *out)
{
    *(uint32_t *)out = tn_grad_mode();
    return NULL;
}

Test(graph, modes_belong_to_threads)
{
    pthread_t thread;
    uint32_t seen = 99;
    tn_set_grad_mode(TN_GRAD_OFF);
    pthread_create(&thread, NULL, mode_of_a_thread, &seen);
    pthread_join(thread, NULL);
    cr_assert_eq(tn_grad_mode(), TN_GRAD_OFF);
    cr_assert(seen == TN_GRAD_ON || seen == TN_GRAD_INHERIT, "%u", seen);
}

ON_EACH_DEVICE(graph, which_dtypes)
{
    const tn_dtype yes[] = {TN_FLOAT16, TN_FLOAT32, TN_FLOAT64, TN_BFLOAT16, TN_COMPLEX64, TN_COMPLEX128};
    const tn_dtype no[] = {TN_INT64, TN_INT32, TN_UINT8, TN_BOOL};
    for (int i = 0; i < 6; i++)
        cr_expect_eq(tn_set_requires_grad(tn_ones(p->s, TN_INTS(1), .dtype = yes[i]), 1), TN_OK);
    for (int i = 0; i < 4; i++) {
        cr_expect_neq(tn_set_requires_grad(tn_ones(p->s, TN_INTS(1), .dtype = no[i]), 1), TN_OK);
        cr_expect_not_null(strstr(tn_last_error()->message, "floating point and complex dtype"));
    }
}

ON_EACH_DEVICE(graph, twice)
{
    tn_scope *s = p->s;
    tn_tensor *x = leaf(VECTOR(p, TN_FLOAT64, 0.5, 1, 2));
    tn_tensor *cube = tn_pow_tensor_scalar(s, x, 3), *ones = tn_ones_like(s, x);
    EXPECT(p, grad_of(p, grad_of(p, cube, x, ones), x, ones), 3, 6, 12);
    tn_tensor *first = grad_of(p, tn_sin(s, x), x, ones);
    EXPECT_NEAR(p, first, 1e-12, cos(0.5), cos(1), cos(2));
    EXPECT_NEAR(p, grad_of(p, first, x, ones), 1e-12, -sin(0.5), -sin(1), -sin(2));
    /* A Jacobian, row by row. */
    for (int i = 0; i < 3; i++) {
        double row[3] = {0, 0, 0}, want[3] = {0, 0, 0};
        row[i] = 1;
        want[i] = cos((double[]){0.5, 1, 2}[i]);
        expect_values(p, grad_of(p, tn_sin(s, x), x, make(p, TN_FLOAT64, TN_INTS(3), row)), 3, want, 1e-12);
    }
}

/* ---- Saved tensors ------------------------------------------------------------------------------------- */

typedef struct packed {
    int packs, unpacks, destroys;
    double seen;
} packed;

static void *pack(void *user, tn_scope *s, tn_tensor *t)
{
    packed *k = user;
    k->packs++;
    k->seen = tn_item_double(s, t);
    return tn_retain(tn_clone(s, tn_detach(s, t)));
}

static tn_tensor *unpack(void *user, tn_scope *s, void *what)
{
    ((packed *)user)->unpacks++;
    return tn_mul_scalar(s, what, 1);
}

static void destroy(void *user, void *what)
{
    ((packed *)user)->destroys++;
    tn_release(what);
}

/* exp saves its result, pow its argument; hooks see both and give them back at backward. */
ON_EACH_DEVICE(graph, saved_tensors)
{
    tn_scope *s = tn_scope_open_child(p->s, NULL);
    packed outer = {0}, inner = {0};
    tn_saved_hooks a = {sizeof a, 0, &outer, pack, unpack, destroy},
                   b = {sizeof b, 0, &inner, pack, unpack, destroy};
    tn_tensor *x = leaf(VECTOR(p, TN_FLOAT64, 2));
    tn_saved_hooks_push(p->ctx, &a);
    tn_tensor *y = tn_pow_tensor_scalar(s, x, 2);
    cr_assert(outer.packs == 1 && outer.seen == 2);
    tn_saved_hooks_push(p->ctx, &b); /* the innermost pair alone applies */
    tn_tensor *z = tn_exp(s, y);
    tn_saved_hooks_pop(p->ctx);
    tn_saved_hooks_pop(p->ctx);
    cr_assert(outer.packs == 1 && inner.packs == 1);
    cr_assert_float_eq(inner.seen, exp(4), 1e-12);
    tn_exp(s, x);
    cr_assert(outer.packs == 1 && inner.packs == 1);
    tn_backward(s, z);
    cr_assert(outer.unpacks == 1 && inner.unpacks == 1);
    EXPECT_NEAR(p, tn_grad_of(p->s, x), 1e-12, 4 * exp(4));
    tn_scope_close(s);
    cr_assert(outer.destroys == 1 && inner.destroys == 1);
}

static int64_t allocated(place *p)
{
    tn_memory_stats stats = {.size = sizeof stats};
    cr_assert_eq(tn_memory_get_stats(p->ctx, p->device, &stats), TN_OK);
    return (int64_t)stats.allocated_bytes;
}

/* What lies between the input and the result of sin(sin(x)) is saved on the host, and comes back. */
ON_EACH_DEVICE(graph, saved_on_the_cpu)
{
    const int64_t elements = 1 << 16, on_device = p->device != TN_CPU;
    for (int pinned = 0; pinned < 2; pinned++) {
        tn_tensor *x = leaf(tn_ones(p->s, TN_INTS(elements), .dtype = TN_FLOAT64, .device = p->device));
        const int64_t before = allocated(p);
        tn_scope *inner = tn_scope_open_child(p->s, NULL);
        cr_assert_eq(tn_save_on_cpu(p->ctx, pinned), TN_OK);
        tn_tensor *y = tn_scope_return(inner, tn_sin(inner, tn_sin(inner, x)));
        tn_saved_hooks_pop(p->ctx);
        tn_scope_close(inner);
        cr_assert_eq((allocated(p) - before) / (elements * 8), on_device ? 1 : 2);
        tn_backward(p->s, tn_sum(p->s, y));
        tn_tensor *grad = tn_grad_of(p->s, x);
        EXPECT_NEAR(p, tn_max(p->s, grad), 1e-12, cos(sin(1)) * cos(1));
        EXPECT_NEAR(p, tn_min(p->s, grad), 1e-12, cos(sin(1)) * cos(1));
    }
    /* Where no copy was made, a write is noticed. */
    if (on_device) return;
    tn_tensor *x = leaf(VECTOR(p, TN_FLOAT64, 2)), *twice = tn_mul_scalar(p->s, x, 2);
    cr_assert_eq(tn_save_on_cpu(p->ctx, 0), TN_OK);
    tn_tensor *y = tn_sin(p->s, twice);
    tn_saved_hooks_pop(p->ctx);
    tn_add_scalar_(p->s, twice, 1);
    tn_backward(p->s, y);
    expect_error(p,
                 "save_on_cpu: a saved tensor, which lay on the CPU and was not copied, has been modified");
}

ON_EACH_DEVICE(graph, saved_tensors_may_be_written)
{
    tn_tensor *a = leaf(MAKE(p, TN_FLOAT32, TN_INTS(2, 3), 1, 1, 1, 1, 1, 1));
    cr_assert_eq(tn_allow_mutation_on_saved_tensors(p->ctx), TN_OK);
    tn_tensor *b = tn_clone(p->s, a), *out = tn_sum(p->s, tn_pow_tensor_scalar(p->s, b, 2));
    tn_sin_(p->s, b);
    tn_backward(p->s, out);
    tn_saved_hooks_pop(p->ctx);
    EXPECT(p, tn_grad_of(p->s, a), 2, 2, 2, 2, 2, 2);
    EXPECT_NEAR(p, b, 5e-5, 0.8415, 0.8415, 0.8415, 0.8415, 0.8415, 0.8415);
    /* The state ends with the pop. */
    b = tn_clone(p->s, a);
    out = tn_sum(p->s, tn_pow_tensor_scalar(p->s, b, 2));
    tn_sin_(p->s, b);
    tn_backward(p->s, out);
    expect_error(p, "has been modified by an inplace operation");
}

ON_EACH_DEVICE(graph, hooks_of_saved_tensors_are_switched_off)
{
    const char *message = "saved tensors default hooks are disabled";
    static packed k; /* the graph outlives this function */
    tn_saved_hooks hooks = {sizeof hooks, 0, &k, pack, unpack, destroy};
    tn_tensor *x = leaf(VECTOR(p, TN_FLOAT64, 2));
    k = (packed){0};
    cr_assert_eq(tn_disable_saved_tensors_hooks(p->ctx, message), TN_OK);
    cr_expect_eq(tn_allow_mutation_on_saved_tensors(p->ctx), TN_E_AUTOGRAD);
    cr_expect_eq(tn_save_on_cpu(p->ctx, 0), TN_E_AUTOGRAD);
    cr_expect_eq(tn_saved_hooks_push(p->ctx, &hooks), TN_E_AUTOGRAD);
    cr_expect_not_null(strstr(tn_last_error()->message, message));
    cr_expect_eq(tn_disable_saved_tensors_hooks(p->ctx, "still"), TN_OK);
    cr_expect_eq(tn_saved_hooks_push(p->ctx, &hooks), TN_E_AUTOGRAD);
    cr_expect_not_null(strstr(tn_last_error()->message, "still"));
    tn_saved_hooks_pop(p->ctx);
    tn_backward(p->s, tn_exp(p->s, x)); /* tensors are saved as ever */
    EXPECT_NEAR(p, tn_grad_of(p->s, x), 1e-12, exp(2));
    tn_saved_hooks_pop(p->ctx);
    cr_expect_eq(tn_saved_hooks_push(p->ctx, &hooks), TN_OK);
    cr_expect_eq(tn_disable_saved_tensors_hooks(p->ctx, message), TN_E_AUTOGRAD); /* some are in force */
    cr_expect_not_null(strstr(tn_last_error()->message, message));
    tn_exp(p->s, x);
    cr_expect_eq(k.packs, 1);
    tn_saved_hooks_pop(p->ctx);
    cr_expect_eq(tn_disable_saved_tensors_hooks(p->ctx, NULL), TN_E_ARGUMENT);
}

ON_EACH_DEVICE(graph, a_saved_tensor_was_changed)
{
    tn_scope *s = p->s;
    tn_tensor *x = leaf(VECTOR(p, TN_FLOAT32, 1, 2)), *y = tn_exp(s, x);
    tn_add_scalar_(s, y, 1);
    tn_backward(s, tn_sum(s, y));
    expect_error(
        p, "one of the variables needed for gradient computation has been modified by an inplace operation");
    tn_add_scalar_(s, x, 1);
    expect_error(p, "a leaf Variable that requires grad is being used in an in-place operation");
    /* A tensor that the rule does not need may change; sin saves its argument. */
    tn_tensor *w = tn_sin(s, x);
    tn_add_scalar_(s, w, 1);
    tn_backward(s, tn_sum(s, w));
    EXPECT_NEAR(p, tn_grad_of(s, x), 1e-6, cos(1), cos(2));
}

/* ---- Hooks --------------------------------------------------------------------------------------------- */

static tn_tensor *twice(void *user, tn_scope *s, tn_tensor *grad)
{
    (void)user;
    return tn_mul_scalar(s, grad, 2);
}

ON_EACH_DEVICE(graph, a_hook_doubles)
{
    uint64_t handle;
    tn_tensor *v = leaf(VECTOR(p, TN_FLOAT32, 0, 0, 0)), *g = VECTOR(p, TN_FLOAT32, 1, 2, 3);
    cr_assert_eq(tn_register_hook(v, twice, NULL, &handle), TN_OK);
    backward(p, tn_alias(p->s, v), 0, g, NULL);
    EXPECT(p, tn_grad_of(p->s, v), 2, 4, 6);
    tn_hook_remove(v, handle);
    tn_set_grad(v, NULL);
    backward(p, tn_alias(p->s, v), 0, g, NULL);
    EXPECT(p, tn_grad_of(p->s, v), 1, 2, 3);
}

static int32_t twice_first(void *user, tn_scope *s, tn_tensor **grads, uint32_t count)
{
    (void)user;
    if (count && grads[0]) grads[0] = tn_mul_scalar(s, grads[0], 2);
    return tn_scope_failed(s);
}

ON_EACH_DEVICE(graph, hooks_of_a_node)
{
    tn_scope *s = p->s;
    for (int32_t pre = 0; pre < 2; pre++) {
        uint64_t handle;
        tn_tensor *a = leaf(VECTOR(p, TN_FLOAT32, 0, 0, 0)), *b = tn_clone(s, a);
        tn_node *node = tn_grad_fn(b);
        cr_assert_not_null(node);
        cr_assert_str_eq(tn_node_name(node), "CloneBackward");
        cr_assert_eq(tn_node_input_count(node), 1);
        cr_assert_str_eq(tn_node_name(tn_node_next(node, 0)), "AccumulateGrad");
        cr_assert_eq(tn_node_register_hook(node, pre, twice_first, NULL, &handle), TN_OK);
        backward(p, tn_sum(s, b), 1, NULL, NULL);
        EXPECT(p, tn_grad_of(s, a), 2, 2, 2);
        tn_node_hook_remove(node, handle);
        tn_set_grad(a, NULL);
        backward(p, tn_sum(s, b), 1, NULL, NULL);
        EXPECT(p, tn_grad_of(s, a), 1, 1, 1);
    }
}

typedef struct several {
    int calls;
    uint32_t count;
    int there[4];
} several;

static void note(void *user, tn_scope *s, tn_tensor *const *grads, uint32_t count)
{
    several *n = user;
    (void)s;
    n->calls++;
    n->count = count;
    for (uint32_t i = 0; i < count && i < 4; i++) n->there[i] = grads[i] != NULL;
}

static void expect_there(const several *n, int calls, const char *there)
{
    cr_assert_eq(n->calls, calls, "%d calls", n->calls);
    for (int i = 0; there[i]; i++) cr_assert_eq(n->there[i], there[i] == '1', "%d of %s", i, there);
}

ON_EACH_DEVICE(graph, hooks_of_several_tensors)
{
    tn_scope *s = p->s;
    several all = {0}, any = {0};
    tn_multi_hook *first = NULL, *second = NULL;
    tn_tensor *a = leaf(tn_rand(s, TN_INTS(2, 3))), *b = leaf(tn_rand(s, TN_INTS(2, 3)));
    tn_tensor *c = tn_mul(s, a, b), *d = tn_mul(s, a, b), *sum = tn_sum(s, c);
    cr_assert_eq(tn_register_multi_hook(TN_TENSORS(a, b, c, d), TN_MULTI_HOOK_ALL, note, &all, &first),
                 TN_OK);
    cr_assert_eq(tn_register_multi_hook(TN_TENSORS(a, b, c, d), TN_MULTI_HOOK_ANY, note, &any, &second),
                 TN_OK);
    backward(p, sum, 1, NULL, NULL);
    expect_there(&all, 1, "1110");
    expect_there(&any, 1, "1");
    cr_assert_eq(any.count, 1);
    backward(p, sum, 1, NULL, a);
    expect_there(&all, 2, "1010");
    tn_multi_hook_remove(first);
    backward(p, sum, 1, NULL, NULL);
    expect_there(&all, 2, "1010");
    cr_assert_eq(any.calls, 3);
    tn_multi_hook_remove(second);
    tn_multi_hook_remove(NULL);
    cr_assert_eq(tn_register_multi_hook(TN_TENSORS(a, tn_ones(s, TN_INTS(1))), 0, note, &all, &first),
                 TN_E_AUTOGRAD);
    cr_assert_eq(tn_register_multi_hook(TN_TENSORS(a), 7, note, &all, &first), TN_E_ARGUMENT);
    tn_clear_error();
}

static void count_leaf(void *user, tn_scope *s, tn_tensor *t)
{
    *(double *)user += tn_item_double(s, tn_sum(s, tn_grad_of(s, t)));
}

ON_EACH_DEVICE(graph, after_accumulation)
{
    double sum = 0;
    uint64_t handle;
    tn_tensor *x = leaf(VECTOR(p, TN_FLOAT32, 1, 2));
    tn_register_accumulate_hook(x, count_leaf, &sum, &handle);
    tn_backward(p->s, tn_sum(p->s, x));
    tn_backward(p->s, tn_sum(p->s, x));
    cr_assert_eq(sum, 2 + 4);
    tn_hook_remove(x, handle);
}

/* ---- Gradients of leaves -------------------------------------------------------------------------------- */

ON_EACH_DEVICE(graph, layouts)
{
    tn_scope *s = p->s;
    /* Dense: the leaf's strides. */
    tn_tensor *dense =
        leaf(tn_contiguous(s, tn_ones(s, TN_INTS(2, 3, 4, 5)), .memory_format = TN_CHANNELS_LAST));
    tn_backward(s, tn_sum(s, tn_mul(s, dense, tn_rand(s, TN_INTS(2, 3, 4, 5)))));
    cr_assert(tn_tensor_is_contiguous(tn_grad_of(s, dense), TN_CHANNELS_LAST));
    /* Else row-major. */
    tn_tensor *holes = leaf(tn_detach(s, tn_slice(s, tn_ones(s, TN_INTS(3, 8)), 1, 0, 8, 2)));
    tn_backward(s, tn_sum(s, tn_mul(s, holes, holes)));
    cr_assert(tn_tensor_is_contiguous(tn_grad_of(s, holes), TN_CONTIGUOUS_FORMAT));
    /* An existing gradient: accumulated in place, with its strides. */
    tn_tensor *x = leaf(tn_ones(s, TN_INTS(2, 3))), *mine = tn_t(s, tn_zeros(s, TN_INTS(3, 2)));
    cr_assert_eq(tn_set_grad(x, mine), TN_OK);
    tn_backward(s, tn_sum(s, x));
    EXPECT(p, mine, 1, 1, 1, 1, 1, 1);
    cr_assert_eq(tn_tensor_strides(tn_grad_of(s, x))[0], 1);
    /* With create_graph it is replaced. */
    tn_backward_options o = {.size = sizeof o, .create_graph = 1};
    tn_backward_with(s, TN_TENSORS(tn_sum(s, tn_mul(s, x, x))), &o);
    EXPECT(p, mine, 1, 1, 1, 1, 1, 1);
    EXPECT(p, tn_grad_of(s, x), 3, 3, 3, 3, 3, 3);
    cr_assert(tn_requires_grad(tn_grad_of(s, x)));
    tn_set_grad(x, NULL); /* leaf and gradient would hold each other */
}

ON_EACH_DEVICE(graph, retained)
{
    tn_scope *s = p->s;
    tn_tensor *x = leaf(VECTOR(p, TN_FLOAT32, 1, 2)), *y = tn_mul_scalar(s, x, 3), *z = tn_mul(s, y, y);
    cr_assert_eq(tn_retain_grad(y), TN_OK);
    backward(p, tn_sum(s, z), 1, NULL, NULL);
    EXPECT(p, tn_grad_of(s, y), 6, 12);
    cr_assert_null(tn_grad_of(s, z));
    cr_assert(tn_is_leaf(x) && !tn_is_leaf(y));
    backward(p, tn_sum(s, z), 0, NULL, NULL);
    EXPECT(p, tn_grad_of(s, x), 36, 72);
    backward(p, tn_sum(s, z), 0, NULL, NULL);
    expect_error(p, "Trying to backward through the graph a second time");
}

/* ---- Functions of a program ----------------------------------------------------------------------------- */

static int32_t func_forward(tn_function_call *call, tn_scope *s, tn_tensors in, tn_tensor **out)
{
    tn_tensor *x = in.data[0], *y = in.data[1];
    tn_value z = TN_SCALAR(*(int *)tn_function_user(call));
    tn_tensor *w = tn_mul_scalar(s, x, z);
    out[0] = tn_add(s, tn_add(s, tn_mul(s, x, y), tn_mul_scalar(s, y, z)), tn_mul(s, w, y));
    return tn_function_save(call, TN_TENSORS(x, y, w, out[0]));
}

static int32_t func_backward(tn_function_call *call, tn_scope *s, tn_tensors grads, tn_tensor **out)
{
    tn_value z = TN_SCALAR(*(int *)tn_function_user(call));
    tn_tensor *x = tn_function_saved(call, s, 0), *y = tn_function_saved(call, s, 1);
    tn_tensor *w = tn_function_saved(call, s, 2), *g = grads.data[0];
    out[0] = tn_mul(s, g, tn_add(s, y, tn_mul_scalar(s, y, z)));
    out[1] = tn_mul(s, g, tn_add(s, tn_add_scalar(s, x, z), w));
    return tn_scope_failed(s);
}

ON_EACH_DEVICE(graph, a_function)
{
    int c = 4;
    tn_function f = {.size = sizeof f,
                     .flags = TN_FUNCTION_ONCE_DIFFERENTIABLE,
                     .name = "Func",
                     .forward = func_forward,
                     .backward = func_backward};
    tn_tensor *a = leaf(MAKE(p, TN_FLOAT64, TN_NO_INTS, 1)), *b = leaf(MAKE(p, TN_FLOAT64, TN_NO_INTS, 2)),
              *d;
    cr_assert_eq(tn_function_apply(p->s, &f, &c, TN_TENSORS(a, b), &d, 1), TN_OK);
    EXPECT(p, d, 18);
    cr_assert_str_eq(tn_node_name(tn_grad_fn(d)), "FuncBackward");
    backward(p, d, 1, NULL, NULL);
    EXPECT(p, tn_grad_of(p->s, a), 10);
    EXPECT(p, tn_grad_of(p->s, b), 9);
}

static int32_t linear(void *user, tn_scope *s, tn_tensors in, tn_tensor **out)
{
    (void)user;
    out[0] = tn_linear(s, in.data[0], in.data[1]);
    return tn_scope_failed(s);
}

ON_EACH_DEVICE(graph, check_of_linear)
{
    tn_tensor *x = leaf(tn_randn(p->s, TN_INTS(20, 20), .dtype = TN_FLOAT64));
    tn_tensor *w = leaf(tn_randn(p->s, TN_INTS(30, 20), .dtype = TN_FLOAT64));
    tn_gradcheck_options o = {.size = sizeof o, .eps = 1e-6, .atol = 1e-4};
    if (p->device == TN_CPU) cr_assert_eq(tn_gradcheck(p->s, linear, NULL, TN_TENSORS(x, w), &o), TN_OK);
}

/* grad of sort(x).sum() is ones: each element goes to one place. */
ON_EACH_DEVICE(graph, of_sort)
{
    tn_tensor *x = leaf(VECTOR(p, TN_FLOAT32, 3, 1, 2));
    tn_sort_result r = tn_sort(p->s, x);
    EXPECT(p, r.values, 1, 2, 3);
    tn_backward(p->s, tn_sum(p->s, r.values));
    EXPECT(p, tn_grad_of(p->s, x), 1, 1, 1);
}

/* ---- Threads ------------------------------------------------------------------------------------------- */

static void *train(void *user)
{
    place *p = user;
    tn_scope_options o = {.size = sizeof o, .device = p->device};
    tn_scope *s = tn_scope_open_with(p->ctx, &o);
    tn_tensor *x = tn_ones(s, TN_INTS(5, 5));
    tn_set_requires_grad(x, 1);
    tn_tensor *y = tn_mul(s, tn_add_scalar(s, x, 3), tn_add_scalar(s, x, 4));
    tn_backward(s, tn_sum(s, tn_mul_scalar(s, y, 0.5)));
    double low = tn_item_double(s, tn_min(s, tn_grad_of(s, x))),
           high = tn_item_double(s, tn_max(s, tn_grad_of(s, x)));
    int good = !tn_scope_failed(s) && low == 4.5 && high == 4.5;
    tn_scope_close(s);
    return good ? user : NULL;
}

ON_EACH_DEVICE(graph, ten_threads)
{
    pthread_t threads[10];
    for (int i = 0; i < 10; i++) cr_assert_eq(pthread_create(&threads[i], NULL, train, p), 0);
    for (int i = 0; i < 10; i++) {
        void *good = NULL;
        pthread_join(threads[i], &good);
        cr_assert_eq(good, p, "thread %d", i);
    }
}

/* ---- Complex numbers ------------------------------------------------------------------------------------ */

ON_EACH_DEVICE(graph, complex)
{
    tn_scope *s = p->s;
    tn_tensor *re = VECTOR(p, TN_FLOAT32, 0, 4), *im = VECTOR(p, TN_FLOAT32, 3, 4),
              *z = tn_complex(s, re, im);
    EXPECT_NEAR(p, tn_abs(s, z), 1e-6, 3, 4 * sqrt(2));
    EXPECT_NEAR(p, tn_angle(s, z), 1e-6, acos(0), atan(1));
    tn_tensor *sum = tn_mul_scalar(s, tn_add(s, z, tn_conj(s, z)), 0.5);
    EXPECT(p, tn_view_as_real(s, sum), 0, 0, 4, 0);
    tn_tensor *difference =
        tn_div(s, tn_sub(s, z, tn_conj(s, z)), tn_full(s, TN_NO_INTS, tn_value_complex((double[]){0, 2})));
    EXPECT(p, tn_view_as_real(s, difference), 3, 0, 4, 0);
    /* The gradient of a real loss L is dL/dRe + i dL/dIm: |z|^2 gives 2 z. */
    leaf(z);
    tn_backward(s, tn_sum(s, tn_real(s, tn_mul(s, z, tn_conj(s, z)))));
    EXPECT(p, tn_view_as_real(s, tn_grad_of(s, z)), 0, 6, 8, 8);
}
