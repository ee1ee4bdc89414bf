/* SPDX-License-Identifier: Apache-2.0 */
/* What functions, hooks and operators of a program must keep to: gradients that fit, marks that hold, statuses, the scope that is lent. */
#include "suite.h"

#include <math.h>
#include <tenon/plugin.h>

TestSuite(rules, .init = begin);

/* ---- Gradients that do not fit ---- */

#define GIVES(name, result)                              \
    static int32_t name(void *self, const tn_call *call) \
    {                                                    \
        tn_scope *scope = call->host->call_scope(call);  \
        return call->host->set_output(call, 0, result);  \
    }
#define X call->args[0].as.tensor
GIVES(copy_of_x, tn_clone(scope, X))
GIVES(square_of_x, tn_square(scope, X))
GIVES(square_of_clone, tn_square(scope, tn_clone(scope, X)))
GIVES(exponential_of_x, tn_exp(scope, X))
GIVES(product_of_x, tn_mm(scope, X, X)) /* of a vector: it fails */

/* The gradient of an operator on a vector fails. */
static void expect_no_gradient(const char *schema, tn_kernel_fn backward, const char *text)
{
    const tn_operator_def def = {
        .size = sizeof def, .schema = schema, .composite = copy_of_x, .backward = backward};
    const tn_value arg = tn_value_tensor(VECTOR(s, 1, 1, 2));
    tn_value out = tn_value_none();
    tn_scope_call(s, define(ctx, &def), &arg, 1, &out, 1);
    tn_backward(s, tn_sum(s, out.as.tensor));
    expect_error(s, text);
}

static int32_t list_for_one(void *self, const tn_call *call)
{
    static tn_tensor *grads[2];
    grads[0] = grads[1] = tn_value_as_tensor(call->args[0]);
    call->outs[0] = tn_value_tensors(grads, 2);
    return TN_OK;
}

Test(rules, operators_that_give_a_list_for_one_tensor)
{
    expect_no_gradient(
        "mylib::one(Tensor x) -> Tensor", list_for_one,
        "mylib::one: backward gave a list of 2 gradients for argument 'x', which is one tensor");
    end();
}

static tn_dtype wrong_dtype;
static tn_device wrong_device;

static tn_tensor *changed(tn_scope *scope, tn_tensor *grad)
{
    return tn__to_copy(scope, grad, .dtype = wrong_dtype ? wrong_dtype : tn_tensor_dtype(grad),
                       .device = wrong_device ? wrong_device : tn_tensor_device(grad));
}

static int32_t wrong_backward(void *self, const tn_call *call)
{
    return call->host->set_output(call, 0,
                                  changed(call->host->call_scope(call), tn_value_as_tensor(call->args[0])));
}

static int32_t forward_copies(tn_function_call *call, tn_scope *scope, tn_tensors ins, tn_tensor **outs)
{
    outs[0] = tn_clone(scope, ins.data[0]);
    return TN_OK;
}

static int32_t backward_changes(tn_function_call *call, tn_scope *scope, tn_tensors grads, tn_tensor **outs)
{
    outs[0] = changed(scope, grads.data[0]);
    return TN_OK;
}

/* As in PyTorch; a real dtype is cast. */
Test(rules, gradients_of_another_device_or_kind)
{
    const tn_function function = {
        .size = sizeof function, .name = "Copy", .forward = forward_copies, .backward = backward_changes};
    const tn_operator_def def = {.size = sizeof def,
                                 .schema = "mylib::copy(Tensor self) -> Tensor",
                                 .composite = copy_of_x,
                                 .backward = wrong_backward};
    const uint32_t op = define(ctx, &def);
    static const struct {
        int32_t is_complex, is_function;
        const char *text;
    } cases[] = {
        {0, 0, "returned an invalid gradient at index 0 - expected device cpu but got meta"},
        {1, 0, "mylib::copy: the gradient of argument 'self' is complex128, but the argument is float64"},
        {0, 1, "CopyBackward returned an invalid gradient at index 0 - expected device cpu but got meta"},
        {1, 1, "CopyBackward: the gradient of argument 0 is complex128, but the argument is float64"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tn_tensor *x = VECTOR(s, 1, 1, 2), *y = NULL;
        tn_value arg = tn_value_tensor(x), out = tn_value_none();
        if (cases[i].is_function)
            tn_function_apply(s, &function, NULL, TN_TENSORS(x), &y, 1);
        else
            y = tn_scope_call(s, op, &arg, 1, &out, 1) ? NULL : out.as.tensor;
        wrong_dtype = cases[i].is_complex ? TN_COMPLEX128 : 0;
        wrong_device = cases[i].is_complex ? 0 : tn_device_parse(ctx, "meta");
        tn_backward(s, tn_sum(s, y));
        expect_error(s, cases[i].text);
        cr_assert_null(tn_grad_of(s, x));
    }
    wrong_device = 0;
    wrong_dtype = TN_FLOAT32;
    tn_tensor *x = VECTOR(s, 1, 1, 2);
    tn_value arg = tn_value_tensor(x), out = tn_value_none();
    tn_scope_call(s, op, &arg, 1, &out, 1);
    tn_backward(s, tn_sum(s, out.as.tensor));
    EXPECT(s, tn_grad_of(s, x), 1, 1);
    cr_assert_eq(tn_tensor_dtype(tn_grad_of(s, x)), TN_FLOAT64);
    end();
}

Test(rules, an_error_says_whose_gradient_failed)
{
    expect_no_gradient("mylib::failing(Tensor x) -> Tensor", product_of_x,
                       "(in the gradient of mylib::failing)");
    end();
}

static int32_t slope_of_square(void *self, const tn_call *call)
{
    tn_scope *scope = call->host->call_scope(call);
    tn_tensor *twice = tn_mul_scalar(scope, tn_value_as_tensor(call->args[1]), 2);
    return call->host->set_output(call, 0, tn_mul(scope, tn_value_as_tensor(call->args[0]), twice));
}

/* With the tag the gradient is right, and has none itself. */
Test(rules, operators_that_are_differentiable_once)
{
    for (uint32_t once = 0; once < 2; once++) {
        const tn_operator_def def = {.size = sizeof def,
                                     .schema = "mylib::square(Tensor self) -> Tensor",
                                     .saves = "self",
                                     .tags = once ? TN_TAG_BIT_DIFFERENTIABLE_ONCE : 0,
                                     .composite = square_of_x,
                                     .backward = slope_of_square};
        tn_tensor *x = VECTOR(s, 1, 1, 2), *first = NULL, *second = NULL;
        const tn_value arg = tn_value_tensor(x);
        const tn_backward_options keep = {.size = sizeof keep, .create_graph = 1};
        tn_value out = tn_value_none();
        tn_scope_call(s, define(ctx, &def), &arg, 1, &out, 1);
        tn_grad(s, TN_TENSORS(tn_sum(s, out.as.tensor)), TN_TENSORS(x), &keep, &first);
        EXPECT(s, first, 2, 4);
        tn_grad(s, TN_TENSORS(tn_sum(s, first)), TN_TENSORS(x), NULL, &second);
        if (once)
            expect_error(s, "trying to differentiate twice a function that was marked with");
        else
            EXPECT(s, second, 2, 2);
        cr_assert_eq(tn_namespace_remove(ctx, "mylib"), TN_OK);
    }
    end();
}

/* What a composite gives in place of the argument that it should write is copied there, with its gradient. */
Test(rules, composites_in_place_that_give_another_tensor)
{
    const tn_operator_def def = {.size = sizeof def,
                                 .schema = "mylib::exp_(Tensor(a!) self) -> Tensor(a!)",
                                 .composite = exponential_of_x};
    const uint32_t op = define(ctx, &def);
    tn_tensor *x = VECTOR(s, 1, 0, 1), *y = tn_mul_scalar(s, x, 1);
    tn_value arg = tn_value_tensor(y), out = tn_value_none();
    tn_scope_call(s, op, &arg, 1, &out, 1);
    cr_assert_eq(out.as.tensor, y);
    EXPECT(s, y, 1, exp(1));
    tn_backward(s, tn_sum(s, y));
    EXPECT(s, tn_grad_of(s, x), 1, exp(1));
    arg = tn_value_tensor(x);
    tn_scope_call(s, op, &arg, 1, &out, 1);
    expect_error(s, "a leaf Variable that requires grad is being used in an in-place operation.");
    EXPECT(s, x, 0, 1);
    end();
}

static int32_t five_times(void *self, const tn_call *call)
{
    tn_scope *scope = call->host->call_scope(call);
    for (uint32_t i = 0; i < call->n_outs; i++) {
        tn_tensor *y = tn_mul_scalar(scope, call->args[i].as.tensor, 5);
        call->host->set_output(call, i, tn_to(scope, y, *(const tn_dtype *)self));
    }
    return TN_OK;
}

/* copy_ casts, and its gradient is cast back: an integer has none. */
Test(rules, composites_in_place_that_give_another_dtype)
{
    const struct {
        tn_dtype dtype;
        double gradient;
    } cases[] = {{TN_FLOAT64, 5}, {TN_FLOAT32, 5}, {TN_FLOAT16, 5}, {TN_BFLOAT16, 5}, {TN_INT32, 0}};
    tn_dtype dtype;
    const tn_operator_def def = {.size = sizeof def,
                                 .schema = "mylib::five_(Tensor(a!) self) -> Tensor(a!)",
                                 .composite = five_times,
                                 .self = &dtype};
    const uint32_t op = define(ctx, &def);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tn_dtype own[] = {TN_FLOAT64, TN_FLOAT32};
        for (int k = 0; k < 4; k++) { /* two dtypes, the tensor and a view of it */
            tn_tensor *x = VECTOR(s, 1, 2, 3), *y = tn_mul_scalar(s, tn_to(s, x, own[k / 2]), 1), *doubles;
            tn_value arg = tn_value_tensor(k % 2 ? tn_narrow(s, y, 0, 1, 1) : y), out = tn_value_none();
            dtype = cases[i].dtype;
            tn_scope_call(s, op, &arg, 1, &out, 1);
            cr_assert_eq(out.as.tensor, arg.as.tensor);
            cr_assert_eq(tn_tensor_dtype(y), own[k / 2]);
            doubles = tn_to(s, y, TN_FLOAT64);
            EXPECT(s, doubles, k % 2 ? 2 : 10, 15);
            tn_backward(s, tn_sum(s, y));
            EXPECT(s, tn_grad_of(s, x), k % 2 ? 1 : cases[i].gradient, cases[i].gradient);
        }
    }
    dtype = TN_COMPLEX64;
    tn_tensor *x = VECTOR(s, 1, 2, 3), *y = tn_mul_scalar(s, x, 1);
    tn_value arg = tn_value_tensor(y), out = tn_value_none();
    tn_scope_call(s, op, &arg, 1, &out, 1);
    expect_error(s, "five_: result type ComplexFloat can't be cast to the desired output type Double");
    EXPECT(s, y, 2, 3);
    dtype = TN_FLOAT32;
    arg = tn_value_tensor(x);
    tn_scope_call(s, op, &arg, 1, &out, 1);
    expect_error(s, "a leaf Variable that requires grad is being used in an in-place operation.");
    EXPECT(s, x, 2, 3);
    end();
}

/* Each result goes to the argument of its alias set. */
Test(rules, composites_that_write_several_arguments)
{
    tn_dtype dtype = TN_FLOAT32;
    const tn_operator_def def = {.size = sizeof def,
                                 .schema = "mylib::crossed_(Tensor(a!) x, Tensor(b!) y) -> (Tensor(b!), "
                                           "Tensor(a!))",
                                 .composite = five_times,
                                 .self = &dtype};
    const uint32_t op = define(ctx, &def);
    tn_tensor *x = VECTOR(s, 1, 2, 3), *y = VECTOR(s, 1, 4, 6);
    tn_tensor *p = tn_mul_scalar(s, x, 1), *q = tn_mul_scalar(s, y, 1);
    const tn_value args[] = {tn_value_tensor(p), tn_value_tensor(q)};
    tn_value outs[2];
    tn_scope_call(s, op, args, 2, outs, 2);
    cr_assert_eq(outs[0].as.tensor, q);
    cr_assert_eq(outs[1].as.tensor, p);
    EXPECT(s, p, 20, 30);
    EXPECT(s, q, 10, 15);
    tn_backward(s, tn_sum(s, tn_mul_scalar(s, p, 2)));
    EXPECT(s, tn_grad_of(s, y), 10, 10);
    EXPECT(s, tn_grad_of(s, x), 0, 0);
    end();
}

/* As in PyTorch: what is copied into `self` changes what the composite's operators have saved of it. */
Test(rules, composites_in_place_whose_gradient_reads_the_argument)
{
    const tn_operator_def defs[] = {{.size = sizeof *defs,
                                     .schema = "mylib::square_(Tensor(a!) self) -> Tensor(a!)",
                                     .composite = square_of_x},
                                    {.size = sizeof *defs,
                                     .schema = "mylib::cloned_(Tensor(a!) self) -> Tensor(a!)",
                                     .composite = square_of_clone}};
    tn_tensor *x = VECTOR(s, 1, 2, 3);
    for (int i = 0; i < 2; i++) {
        tn_tensor *y = tn_mul_scalar(s, x, 1);
        tn_value arg = tn_value_tensor(y), out = tn_value_none();
        tn_scope_call(s, define(ctx, &defs[i]), &arg, 1, &out, 1);
        EXPECT(s, y, 4, 9);
        tn_backward(s, tn_sum(s, y));
        if (i == 0)
            expect_error(s, "has been modified by an inplace operation");
        else
            EXPECT(s, tn_grad_of(s, x), 4, 6);
    }
    end();
}

/* ---- Functions that break the rules of callbacks ---- */

static int32_t minus_one(tn_function_call *call, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)call, (void)scope, (void)in, (void)out;
    return -1;
}

static int32_t fail_by_number(tn_function_call *call, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)call, (void)in, (void)out;
    return tn_scope_fail(scope, 4711, "my exception");
}

static int32_t close_scope(tn_function_call *call, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)call;
    out[0] = tn_neg(scope, in.data[0]);
    return tn_scope_close(scope);
}

static int32_t negate(tn_function_call *call, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)call;
    out[0] = tn_neg(scope, in.data[0]);
    return tn_scope_failed(scope);
}

/* An invalid status is an error of the contract, and a failed scope stays one. */
Test(rules, functions_that_return_an_invalid_status)
{
    typedef int32_t (*function)(tn_function_call *, tn_scope *, tn_tensors, tn_tensor **);
    static const struct {
        function forward, backward;
        const char *text;
    } cases[] = {
        {minus_one, negate, "function_apply failed: unknown status (-1 is not a valid status code)"},
        {negate, minus_one, "FunctionBackward failed: unknown status (-1 is not a valid status code)"},
        {fail_by_number, negate, "my exception (4711 is not a valid status code)"},
        {close_scope, negate, "tn_scope_close: the scope is that of a call, which closes it"},
        {negate, close_scope, "tn_scope_close: the scope is that of a call, which closes it"},
    };
    tn_tensor *x = VECTOR(s, 1, 2, 3), *y = NULL;
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tn_function f = {.size = sizeof f, .forward = cases[i].forward, .backward = cases[i].backward};
        int32_t status = tn_function_apply(s, &f, NULL, TN_TENSORS(x), &y, 1);
        if (!status) status = tn_backward(s, tn_sum(s, y));
        cr_assert_eq(status, TN_E_CONTRACT, "%u: %d", i, status);
        cr_assert_eq(tn_scope_failed(s), TN_E_CONTRACT, "%u", i);
        cr_expect_not_null(strstr(tn_scope_error(s)->message, cases[i].text), "%s",
                           tn_scope_error(s)->message);
        cr_expect_null(tn_neg(s, x), "%u", i);
        tn_scope_clear(s);
    }
    EXPECT(s, tn_neg(s, x), -2, -3);
    end();
}

static tn_tensor *fail_tensor_hook(void *user, tn_scope *scope, tn_tensor *grad)
{
    (void)user, (void)grad;
    tn_scope_fail(scope, 4711, "my exception");
    return NULL;
}

static int32_t minus_one_of_node_hook(void *user, tn_scope *scope, tn_tensor **grads, uint32_t count)
{
    (void)user, (void)scope, (void)grads, (void)count;
    return -1;
}

static int32_t fail_node_hook(void *user, tn_scope *scope, tn_tensor **grads, uint32_t count)
{
    (void)user, (void)grads, (void)count;
    tn_scope_fail(scope, TN_E_IO, "the disk is full");
    return -1;
}

static void expect_status_of_backward(tn_tensor *of, int32_t expected, const char *text)
{
    int32_t status = tn_backward(s, tn_sum(s, of));
    cr_expect_eq(status, expected, "%s: %d", text, status);
    cr_expect_eq(tn_scope_failed(s), expected, "%s: %d", text, tn_scope_failed(s));
    expect_error(s, text);
}

/* The call returns the status that its scope has. */
Test(rules, hooks_that_return_an_invalid_status)
{
    tn_tensor *x = VECTOR(s, 1, 2, 3), *y = tn_mul(s, x, x);
    cr_assert_eq(tn_register_hook(y, fail_tensor_hook, NULL, NULL), TN_OK);
    expect_status_of_backward(y, TN_E_CONTRACT, "my exception (4711 is not a valid status code)");
    for (int32_t pre = 0; pre < 2; pre++) {
        y = tn_mul(s, x, x);
        cr_assert_eq(tn_node_register_hook(tn_grad_fn(y), pre, minus_one_of_node_hook, NULL, NULL), TN_OK);
        expect_status_of_backward(y, TN_E_CONTRACT,
                                  "hook of a node failed: unknown status (-1 is not a valid");
        y = tn_mul(s, x, x);
        cr_assert_eq(tn_node_register_hook(tn_grad_fn(y), pre, fail_node_hook, NULL, NULL), TN_OK);
        expect_status_of_backward(y, TN_E_IO, "the disk is full");
    }
    cr_assert_null(tn_grad_of(s, x));
    tn_backward(s, tn_sum(s, tn_mul(s, x, x)));
    EXPECT(s, tn_grad_of(s, x), 4, 6);
    end();
}

/* ---- Hooks that close the scope they are lent ---- */

static int32_t closed; /* what tn_scope_close gave the last hook */

static void close_in_callback(void *user, tn_scope *scope)
{
    (void)user;
    closed = tn_scope_close(scope);
}

static tn_tensor *queue_close(void *user, tn_scope *scope, tn_tensor *grad)
{
    (void)grad;
    cr_assert_eq(tn_queue_callback(scope, close_in_callback, user), TN_OK);
    return NULL;
}

static tn_tensor *close_in_tensor_hook(void *user, tn_scope *scope, tn_tensor *grad)
{
    (void)grad;
    close_in_callback(user, scope);
    return NULL;
}

static void close_in_accumulate_hook(void *user, tn_scope *scope, tn_tensor *leaf)
{
    (void)leaf;
    close_in_callback(user, scope);
}

static void close_in_multi_hook(void *user, tn_scope *scope, tn_tensor *const *grads, uint32_t count)
{
    (void)grads, (void)count;
    close_in_callback(user, scope);
}

static int32_t close_in_node_hook(void *user, tn_scope *scope, tn_tensor **grads, uint32_t count)
{
    (void)grads, (void)count;
    close_in_callback(user, scope);
    return TN_OK;
}

static void *close_in_pack(void *user, tn_scope *scope, tn_tensor *t)
{
    (void)t;
    close_in_callback(user, scope);
    return NULL;
}

static void *keep_in_pack(void *user, tn_scope *scope, tn_tensor *t)
{
    (void)user, (void)scope;
    return tn_retain(t);
}

static tn_tensor *close_in_unpack(void *user, tn_scope *scope, void *packed)
{
    close_in_callback(user, scope);
    return packed;
}

static void release_packed(void *user, void *packed)
{
    (void)user;
    tn_release(packed);
}

static void expect_not_closed(const char *what)
{
    cr_expect_eq(closed, TN_E_CONTRACT, "%s: %d", what, closed);
    cr_expect_eq(tn_scope_failed(s), TN_E_CONTRACT, "%s: %d", what, tn_scope_failed(s));
    expect_error(s, "tn_scope_close: the scope is that of a call, which closes it");
    closed = TN_OK;
    tn_scope *one = tn_scope_open(ctx), *other = tn_scope_open(ctx);
    cr_expect_neq(one, other, "%s: the scope was freed twice", what);
    tn_scope_close(other);
    tn_scope_close(one);
}

Test(rules, hooks_that_close_the_scope)
{
    static const char *const kinds[] = {"tensor",          "node, before", "node, behind",
                                        "several tensors", "accumulation", "queued"};
    tn_multi_hook *multi = NULL;
    uint64_t of_leaf = 0;
    for (uint32_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        tn_tensor *x = VECTOR(s, 1, 2, 3), *y = tn_mul(s, x, x);
        int32_t status = TN_OK;
        if (kind == 0) status = tn_register_hook(y, close_in_tensor_hook, NULL, NULL);
        if (kind == 1) status = tn_node_register_hook(tn_grad_fn(y), 1, close_in_node_hook, NULL, NULL);
        if (kind == 2) status = tn_node_register_hook(tn_grad_fn(y), 0, close_in_node_hook, NULL, NULL);
        if (kind == 3)
            status =
                tn_register_multi_hook(TN_TENSORS(y), TN_MULTI_HOOK_ALL, close_in_multi_hook, NULL, &multi);
        if (kind == 4) status = tn_register_accumulate_hook(x, close_in_accumulate_hook, NULL, &of_leaf);
        if (kind == 5) status = tn_register_hook(y, queue_close, NULL, NULL);
        cr_assert_eq(status, TN_OK, "%s", kinds[kind]);
        cr_expect_eq(tn_backward(s, tn_sum(s, y)), TN_E_CONTRACT, "%s", kinds[kind]);
        expect_not_closed(kinds[kind]);
    }
    tn_multi_hook_remove(multi);
    end();
}

Test(rules, saved_tensor_hooks_that_close_the_scope)
{
    tn_saved_hooks hooks = {.size = sizeof hooks, .pack = close_in_pack, .unpack = close_in_unpack};
    tn_tensor *x = VECTOR(s, 1, 2, 3);
    cr_assert_eq(tn_saved_hooks_push(ctx, &hooks), TN_OK);
    cr_expect_null(tn_mul(s, x, x));
    tn_saved_hooks_pop(ctx);
    expect_not_closed("pack");
    hooks.pack = keep_in_pack;
    hooks.destroy = release_packed;
    cr_assert_eq(tn_saved_hooks_push(ctx, &hooks), TN_OK);
    tn_tensor *y = tn_mul(s, x, x);
    tn_saved_hooks_pop(ctx);
    cr_expect_eq(tn_backward(s, tn_sum(s, y)), TN_E_CONTRACT);
    expect_not_closed("unpack");
    end();
}

static int32_t with_a_mask(tn_function_call *call, tn_scope *scope, tn_tensors in, tn_tensor **out)
{
    (void)call;
    out[0] = tn_mul_scalar(scope, in.data[0], 2);
    out[1] = tn_gt_scalar(scope, in.data[0], 2);
    return tn_scope_failed(scope);
}

static tn_dtype dtype_of_mask;
static int32_t with_a_mask_backward(tn_function_call *call, tn_scope *scope, tn_tensors grads,
                                    tn_tensor **out)
{
    (void)call;
    dtype_of_mask = grads.data[1] ? tn_tensor_dtype(grads.data[1]) : 0;
    out[0] = tn_mul_scalar(scope, grads.data[0], 2);
    return tn_scope_failed(scope);
}

/* As for the others, zeros stand for the gradient of an output of bools. */
Test(rules, gradients_of_outputs_without_one_are_zeros)
{
    const tn_function f = {.size = sizeof f, .forward = with_a_mask, .backward = with_a_mask_backward};
    tn_tensor *x = VECTOR(s, 1, 2, 3), *out[2];
    cr_assert_eq(tn_function_apply(s, &f, NULL, TN_TENSORS(x), out, 2), TN_OK);
    tn_backward(s, tn_sum(s, out[0]));
    cr_assert_eq(dtype_of_mask, TN_BOOL);
    EXPECT(s, tn_grad_of(s, x), 2, 2);
    end();
}
