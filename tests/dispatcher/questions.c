/* SPDX-License-Identifier: Apache-2.0 */
/* What a program learns of the operators and kernels of a context, and questions that have no answer. */
#include <tenon/plugin.h>
#include "support.h"

TestSuite(questions, .init = open_context, .fini = close_context);

Test(questions, questions_that_have_no_answer)
{
    tn_operator_info op = {.size = sizeof op};
    tn_argument_info argument = {.size = sizeof argument};
    tn_kernel_info kernel = {.size = sizeof kernel};
    tn_fallback_info fallback = {.size = sizeof fallback};
    uint32_t count = tn_inspect_operator_count(ctx), none = 30000;
    cr_expect_eq(tn_inspect_operator(ctx, count, &op), TN_E_NOT_FOUND);
    cr_expect_eq(tn_inspect_operator(ctx, 0, NULL), TN_E_NOT_FOUND);
    cr_expect_eq(tn_inspect_operator_by_number(ctx, none, &op), TN_E_NOT_FOUND);
    cr_expect_eq(tn_inspect_operator_by_number(ctx, 0, &op), TN_E_NOT_FOUND);
    cr_expect_eq(tn_inspect_operator_by_number(ctx, TN_OP_RELU, NULL), TN_E_NOT_FOUND);
    cr_expect_eq(tn_inspect_argument_count(ctx, none, 0), 0);
    cr_expect_eq(tn_inspect_argument_count(ctx, TN_OP_RELU, 0), 1);
    cr_expect_eq(tn_inspect_argument_count(ctx, TN_OP_TOPK, 1), 2);
    cr_expect_eq(tn_inspect_argument(ctx, none, 0, 0, &argument), TN_E_NOT_FOUND);
    cr_expect_eq(tn_inspect_argument(ctx, TN_OP_RELU, 0, 1, &argument), TN_E_NOT_FOUND);
    expect_last_error(TN_E_NOT_FOUND, "aten::relu has no argument 1");
    cr_expect_eq(tn_inspect_argument(ctx, TN_OP_RELU, 0, 0, NULL), TN_E_NOT_FOUND);
    cr_expect_eq(tn_inspect_argument(ctx, TN_OP_TOPK, 1, 1, &argument), TN_OK);
    cr_expect_str_eq(argument.name, "indices");
    cr_expect_eq(tn_inspect_kernel_count(ctx, none), 0);
    cr_expect_eq(tn_inspect_kernel(ctx, none, 0, &kernel), TN_E_NOT_FOUND);
    cr_expect_eq(tn_inspect_kernel(ctx, TN_OP_RELU, 1000, &kernel), TN_E_NOT_FOUND);
    cr_expect_eq(tn_inspect_kernel(ctx, TN_OP_RELU, 0, NULL), TN_E_NOT_FOUND);
    cr_expect_eq(tn_inspect_fallback(ctx, 0, &fallback), TN_E_NOT_FOUND);
    tn_namespace_remove(ctx, "test");
    define("test::gone(Tensor x) -> Tensor");
    cr_expect_eq(tn_inspect_operator_count(ctx), count + 1);
    cr_expect_eq(tn_inspect_operator(ctx, count, &op), TN_OK);
    cr_expect_str_eq(op.name, "test::gone");
    cr_expect_str_eq(op.kind, "custom");
    uint32_t number = op.number;
    tn_namespace_remove(ctx, "test");
    cr_expect_eq(tn_inspect_operator_count(ctx), count);
    cr_expect_eq(tn_inspect_operator_by_number(ctx, number, &op), TN_E_NOT_FOUND);
    cr_expect_eq(tn_inspect_operator(ctx, count, &op), TN_E_NOT_FOUND, "it is passed over");
}

Test(questions, what_a_program_learns_of_an_operator)
{
    tn_operator_info op = {.size = sizeof op};
    tn_argument_info argument = {.size = sizeof argument};
    tn_kernel_info kernel = {.size = sizeof kernel};
    uint32_t number = define("test::told(Tensor(a!) self, Tensor?[] list, *, int n=3) -> Tensor(a!)");
    cr_assert_eq(tn_inspect_operator_by_number(ctx, number, &op), TN_OK);
    cr_expect_str_eq(op.form, "inplace");
    cr_expect_eq(op.has_gradient, 0);
    cr_expect_str_eq(op.doc, "");
    cr_assert_eq(tn_inspect_argument(ctx, number, 0, 0, &argument), TN_OK);
    cr_expect_eq(argument.flags, TN_ARG_WRITTEN);
    cr_expect_str_eq(argument.alias_set, "a");
    cr_assert_eq(tn_inspect_argument(ctx, number, 0, 1, &argument), TN_OK);
    cr_expect_eq(argument.flags, TN_ARG_LIST | TN_ARG_OPTIONAL_ITEMS);
    cr_assert_eq(tn_inspect_argument(ctx, number, 0, 2, &argument), TN_OK);
    cr_expect_eq(argument.flags, TN_ARG_KEYWORD_ONLY);
    cr_expect_str_eq(argument.default_text, "3");
    cr_assert_eq(tn_inspect_kernel_count(ctx, number), 0);
    static const tn_dtype int16[] = {TN_INT16, 0};
    const tn_kernel_row row = {.size = sizeof row,
                               .strides = TN_STRIDES_BLAS,
                               .priority = 7,
                               .schema = "test::told(Tensor(a!) self, Tensor?[] list) -> Tensor(a!)",
                               .dtypes = int16,
                               .run = do_nothing,
                               .flags = TN_ROW_CASTS};
    cr_assert_eq(tn_kernels_add(ctx, "cpu", NULL, &row, 1), TN_OK);
    cr_assert_eq(tn_inspect_kernel(ctx, number, 0, &kernel), TN_OK);
    cr_expect_str_eq(kernel.device_type, "cpu");
    cr_expect_eq(kernel.strides, TN_STRIDES_BLAS);
    cr_expect_eq(kernel.priority, 7);
    cr_expect_eq(kernel.flags, TN_ROW_CASTS);
    cr_expect_eq(kernel.dtypes[0], TN_INT16);
    kernel.size = 0;
    cr_expect_eq(tn_inspect_kernel(ctx, number, 0, &kernel), TN_E_ARGUMENT);
    cr_expect_eq(tn_inspect_operator(NULL, 0, &op), TN_E_NOT_FOUND);
    cr_expect_eq(tn_inspect_operator_count(NULL), 0);
}
