/* SPDX-License-Identifier: Apache-2.0 */
/* What functions and operators of a program must keep to: gradients that fit, marks that hold, statuses, the scope that is lent. */
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

/* A status that is none of Tenon's is an error of the contract, and a failed scope stays one. */
Test(rules, that_return_what_is_no_status)
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
        if (!tn_function_apply(s, &f, NULL, TN_TENSORS(x), &y, 1)) tn_backward(s, tn_sum(s, y));
        cr_assert_eq(tn_scope_failed(s), TN_E_CONTRACT, "%u", i);
        cr_expect_not_null(strstr(tn_scope_error(s)->message, cases[i].text), "%s",
                           tn_scope_error(s)->message);
        cr_expect_null(tn_neg(s, x), "%u", i);
        tn_scope_clear(s);
    }
    EXPECT(s, tn_neg(s, x), -2, -3);
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
