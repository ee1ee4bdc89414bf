/* SPDX-License-Identifier: Apache-2.0 */
/* Forms that the table of operators does not list: their schemas are ATen's, and they compute as the form that they follow from. */
#include <string.h>
#include <tenon/inspect.h>
#include "support.h"

TestSuite(derived_forms, .init = open_context, .fini = close_context);

static const char *schema_of(const char *name)
{
    tn_operator_info info = {.size = sizeof info};
    uint32_t number = tn_operator_find(ctx, name);
    cr_assert(number, "%s", name);
    cr_assert_eq(tn_inspect_operator_by_number(ctx, number, &info), TN_OK);
    return info.schema;
}

static uint32_t find(const char *name)
{
    uint32_t number = tn_operator_find(ctx, name);
    cr_assert(number, "%s", name);
    return number;
}

static tn_tensor *range(int64_t end)
{
    return tn_arange(s, end, .dtype = TN_FLOAT32);
}

static void expect_values(tn_tensor *t, int64_t count, const double *values)
{
    cr_assert_not_null(t, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    tn_tensor *flat = tn_reshape(s, t, TN_INTS(-1));
    cr_assert_eq(tn_tensor_numel(flat), count);
    for (int64_t i = 0; i < count; i++)
        cr_expect_eq(tn_item_double(s, tn_select(s, flat, 0, i)), values[i], "element %d", (int)i);
}
#define EXPECT_VALUES(t, ...) \
    expect_values(t, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

Test(derived_forms, have_the_schemas_of_aten)
{
    const char *schemas[] = {
        "aten::sum.out(Tensor self, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)",
        "aten::zeros_like.out(Tensor self, *, MemoryFormat? memory_format=None, Tensor(a!) out) -> "
        "Tensor(a!)",
        "aten::native_dropout.out(Tensor input, float p, bool? train, *, Tensor(a!) out0, Tensor(b!) out1) "
        "-> "
        "(Tensor(a!), Tensor(b!))",
        "aten::unsafe_split.Tensor_out(Tensor self, SymInt split_size, int dim=0, *, Tensor(a!)[] out) -> ()",
        "aten::linalg_lstsq.out(Tensor self, Tensor b, float? rcond=None, *, str? driver=None, Tensor(a!) "
        "solution, Tensor(b!) residuals, Tensor(c!) rank, Tensor(d!) singular_values) -> (Tensor(a!) "
        "solution, "
        "Tensor(b!) residuals, Tensor(c!) rank, Tensor(d!) singular_values)",
        "aten::uniform(Tensor self, float from=0., float to=1., *, Generator? generator=None) -> Tensor",
        "aten::random.from_out(Tensor self, int from, int? to, *, Generator? generator=None, Tensor(a!) out) "
        "-> "
        "Tensor(a!)"};
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        char name[64] = "";
        memcpy(name, schemas[i], strcspn(schemas[i], "("));
        cr_expect_str_eq(schema_of(name), schemas[i]);
    }
}

Test(derived_forms, write_into_the_given_tensors)
{
    tn_tensor *x = range(4), *out = tn_empty(s, TN_INTS(0)), *scalar = tn_zeros(s, TN_INTS());
    tn_value t = tn_value_tensor(x), to = tn_value_tensor(out), none = tn_value_none();
    cr_expect_eq(CALL(find("aten::flip.out"), t, tn_value_ints(&(int64_t){0}, 1), to), out);
    EXPECT_VALUES(out, 3, 2, 1, 0);
    CALL(find("aten::sum.out"), t, none, tn_value_tensor(scalar));
    EXPECT_VALUES(scalar, 6);
    CALL(find("aten::sub.Scalar_out"), t, tn_value_int(1), tn_value_int(2), to);
    EXPECT_VALUES(out, -2, -1, 0, 1);
    CALL(find("aten::select_copy.int_out"), t, tn_value_int(0), tn_value_int(3), tn_value_tensor(scalar));
    EXPECT_VALUES(scalar, 3);
    CALL(find("aten::index_fill.int_Scalar_out"), t, tn_value_int(0),
         tn_value_tensor(tn_to(s, tn_ones(s, TN_INTS(1)), TN_INT64)), tn_value_int(7), to);
    EXPECT_VALUES(out, 0, 7, 2, 3);
    CALL(find("aten::full_like.out"), t, tn_value_int(5), none, to);
    EXPECT_VALUES(out, 5, 5, 5, 5);
    EXPECT_VALUES(x, 0, 1, 2, 3);
}

Test(derived_forms, leave_self_alone)
{
    tn_tensor *x = range(3);
    EXPECT_VALUES(CALL(find("aten::zero"), tn_value_tensor(x)), 0, 0, 0);
    EXPECT_VALUES(CALL(find("aten::uniform"), tn_value_tensor(x), tn_value_float(2), tn_value_float(2),
                       tn_value_none()),
                  2, 2, 2);
    EXPECT_VALUES(x, 0, 1, 2);
}

Test(derived_forms, keep_the_gradient_and_refuse_it_for_out)
{
    tn_tensor *x = range(2), *out = tn_empty(s, TN_INTS(2));
    tn_set_requires_grad(x, 1);
    tn_tensor *y = CALL(find("aten::zero"), tn_value_tensor(tn_mul_scalar(s, x, 2)));
    cr_assert_eq(tn_backward(s, tn_sum(s, y)), TN_OK);
    EXPECT_VALUES(tn_grad_of(s, x), 0, 0);
    CALL(find("aten::flip.out"), tn_value_tensor(x), tn_value_ints(&(int64_t){0}, 1), tn_value_tensor(out));
    expect_failure(TN_E_AUTOGRAD, "automatic differentiation");
}

Test(derived_forms, do_not_exist_for_views_lists_of_states_or_a_second_out_form)
{
    const char *names[] = {"aten::view.out",
                           "aten::add.Tensor_out",
                           "aten::_fused_adam.out",
                           "aten::_amp_update_scale.out",
                           "aten::no_operator.out",
                           "aten::.out",
                           "out",
                           "aten::sum.ou_out"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        cr_expect_eq(tn_operator_find(ctx, names[i]), 0, "%s", names[i]);
    cr_expect_eq(find("aten::flip.out"), find("aten::flip.out"));
}
