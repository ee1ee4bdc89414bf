/* SPDX-License-Identifier: Apache-2.0 */
/* The plugins that `tenon new-plugin` writes: one kernel of each family against numbers worked out by hand. */
#include "suite.h"

#include <criterion/criterion.h>
#include <math.h>

TestSuite(acme, .init = setup, .fini = teardown);

/* One call of a kernel with one result, which is read back. */
static void run(const char *name, const tn_value *args, uint32_t n_args, fixture_tensor *out,
                const tn_nest *nest, void *back)
{
    tn_value outs[] = {fixture_value(out)};
    cr_assert_eq(fixture_run(&f, name, args, n_args, outs, 1, nest), TN_OK, "%s: %s", name, f.error_message);
    cr_assert_eq(fixture_read(&f, out, back), TN_OK);
}

Test(acme, add_broadcasts_and_scales)
{
    const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {10, 20, 30};
    const float expected[] = {21, 42, 63, 24, 45, 66};
    float back[6];
    fixture_nest n;
    fixture_tensor x = matrix(TN_FLOAT32, 2, 3, a);
    fixture_tensor y = vector(TN_FLOAT32, 3, b);
    fixture_tensor z = matrix(TN_FLOAT32, 2, 3, NULL);
    tn_value args[] = {fixture_value(&x), fixture_value(&y), tn_value_int(2)};
    fixture_pointwise(&n, (fixture_tensor *[]){&z, &x, &y}, 3, 1);
    run("aten::add.Tensor", args, 3, &z, &n.nest, back);
    cr_assert_arr_eq(back, expected, sizeof(expected));
    fixture_pointwise(&n, (fixture_tensor *[]){&z, &x, &y}, 3, 1);
    run("aten::mul.Tensor", args, 2, &z, &n.nest, back);
    cr_assert_eq(back[5], 180);
}

Test(acme, sum_over_either_dimension)
{
    const float a[] = {1, 2, 3, 4, 5, 6};
    float back[3];
    fixture_nest n;
    fixture_tensor x = matrix(TN_FLOAT32, 2, 3, a);
    fixture_tensor rows = vector(TN_FLOAT32, 2, NULL);
    fixture_tensor columns = vector(TN_FLOAT32, 3, NULL);
    tn_value args[] = {fixture_value(&x), tn_value_none(), tn_value_bool(0), tn_value_none()};
    fixture_reduction(&n, &rows, &x, 2);
    run("aten::sum.dim_IntList", args, 4, &rows, &n.nest, back);
    cr_assert_arr_eq(back, ((float[]){6, 15}), 8);
    fixture_reduction(&n, &columns, &x, 1);
    run("aten::sum.dim_IntList", args, 4, &columns, &n.nest, back);
    cr_assert_arr_eq(back, ((float[]){5, 7, 9}), 12);
}

Test(acme, copy_broadcasts_and_fill_fills)
{
    const float b[] = {10, 20, 30};
    float back[6];
    fixture_tensor y = vector(TN_FLOAT32, 3, b);
    fixture_tensor z = matrix(TN_FLOAT32, 2, 3, NULL);
    tn_value out = fixture_value(&z), copy_args[] = {out, fixture_value(&y)};
    run("prim::copy", copy_args, 2, &z, NULL, back);
    cr_assert_arr_eq(back, ((float[]){10, 20, 30, 10, 20, 30}), 24);
    tn_value fill_args[] = {out, tn_value_float(1.5)};
    run("prim::fill", fill_args, 2, &z, NULL, back);
    for (int i = 0; i < 6; i++) cr_assert_eq(back[i], 1.5f);
}

Test(acme, products_of_matrices)
{
    const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 0, 1, 10, 100}, expected[] = {31, 302, 64, 605};
    float back[4];
    fixture_tensor x = matrix(TN_FLOAT32, 2, 3, a);
    fixture_tensor y = matrix(TN_FLOAT32, 3, 2, b);
    fixture_tensor z = matrix(TN_FLOAT32, 2, 2, NULL);
    tn_value args[] = {fixture_value(&x), fixture_value(&y)};
    run("aten::mm", args, 2, &z, NULL, back);
    cr_assert_arr_eq(back, expected, sizeof(expected));
}

Test(acme, gather_and_scatter_go_by_positions)
{
    const int64_t picks[] = {2, 2}, positions[] = {2, 0, 1, 1}, outside[] = {0, 0, 0, 3};
    const float a[] = {1, 2, 3, 4, 5, 6};
    float back[6];
    fixture_tensor x = matrix(TN_FLOAT32, 2, 3, a);
    fixture_tensor index = fixture_tensor_make(&f, TN_INT64, 2, picks, positions);
    fixture_tensor z = matrix(TN_FLOAT32, 2, 2, NULL);
    tn_value args[] = {fixture_value(&x), tn_value_int(-1), fixture_value(&index), tn_value_bool(0)};
    run("aten::gather", args, 4, &z, NULL, back);
    cr_assert_arr_eq(back, ((float[]){3, 1, 5, 5}), 16);
    args[3] = fixture_value(&z);
    run("aten::scatter_add_", args, 4, &x, NULL, back);
    cr_assert_arr_eq(back, ((float[]){2, 2, 6, 4, 15, 6}), 24);
    fixture_tensor far = fixture_tensor_make(&f, TN_INT64, 2, picks, outside);
    args[2] = fixture_value(&far);
    tn_value outs[] = {fixture_value(&x)};
    int32_t status = fixture_run(&f, "aten::scatter_add_", args, 4, outs, 1, NULL);
    if (!status) status = f.streams->synchronize(f.self, f.device, f.stream); /* a late error */
    cr_assert_eq(status, TN_E_INDEX);
    cr_assert_str_eq(f.error_message, "scatter: argument 'index' is out of bounds");
}

Test(acme, sort_is_stable_and_nan_is_the_largest)
{
    const float a[] = {2, NAN, 1, 2, -1};
    float values[5];
    int64_t order[5];
    fixture_tensor x = vector(TN_FLOAT32, 5, a);
    fixture_tensor v = vector(TN_FLOAT32, 5, NULL);
    fixture_tensor p = vector(TN_INT64, 5, NULL);
    tn_value args[] = {fixture_value(&x), tn_value_bool(1), tn_value_int(0), tn_value_bool(1)};
    tn_value outs[] = {fixture_value(&v), fixture_value(&p)};
    cr_assert_eq(fixture_run(&f, "aten::sort.stable", args, 4, outs, 2, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &v, values), TN_OK);
    cr_assert_eq(fixture_read(&f, &p, order), TN_OK);
    cr_assert(isnan(values[0]));
    cr_assert_arr_eq(values + 1, ((float[]){2, 2, 1, -1}), 16);
    cr_assert_arr_eq(order, ((int64_t[]){1, 0, 3, 2, 4}), 40);
}

/* The known answer of Philox-4x32-10 for key and counter 0: 6627e8d5 e169c58d bc57ac4c 9b00dbd8. A float32
 * has the upper 24 bits of a word. */
Test(acme, random_numbers_are_those_of_philox)
{
    const int32_t expected[] = {0x6627e8, 0xe169c5, 0xbc57ac, 0x9b00db};
    float back[4];
    fixture_tensor z = vector(TN_FLOAT32, 4, NULL);
    tn_value args[] = {fixture_value(&z), tn_value_int(TN_RANDOM_UNIFORM),
                       tn_value_float(2), tn_value_float(4),
                       tn_value_int(0),   tn_value_int(0)};
    run("prim::random", args, 6, &z, NULL, back);
    for (int i = 0; i < 4; i++) cr_assert_eq(back[i], 2 + 2 * ((float)expected[i] * 0x1p-24f));
}
