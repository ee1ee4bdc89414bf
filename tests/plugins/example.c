/* SPDX-License-Identifier: Apache-2.0 */
/* The example of a device plugin: its five kernels against numbers worked out by hand. */
#include "fixture.h"

#include <criterion/criterion.h>

Test(example, add_broadcasts_and_scales)
{
    const int64_t matrix[] = {2, 3}, row[] = {3};
    const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {10, 20, 30};
    const float expected[] = {21, 42, 63, 24, 45, 66};
    float back[6];
    fixture f;
    fixture_nest n;
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT32, 2, matrix, a);
    fixture_tensor y = fixture_tensor_make(&f, TN_FLOAT32, 1, row, b);
    fixture_tensor z = fixture_tensor_make(&f, TN_FLOAT32, 2, matrix, NULL);
    tn_value args[] = {fixture_value(&x), fixture_value(&y), tn_value_int(2)}, outs[] = {fixture_value(&z)};
    fixture_pointwise(&n, (fixture_tensor *[]){&z, &x, &y}, 3, 1);
    cr_assert_eq(fixture_run(&f, "aten::add.Tensor", args, 3, outs, 1, &n.nest), TN_OK);
    cr_assert_eq(fixture_read(&f, &z, back), TN_OK);
    cr_assert_arr_eq(back, expected, sizeof(expected));
    fixture_pointwise(&n, (fixture_tensor *[]){&z, &x, &y}, 3, 1);
    cr_assert_eq(fixture_run(&f, "aten::mul.Tensor", args, 2, outs, 1, &n.nest), TN_OK);
    cr_assert_eq(fixture_read(&f, &z, back), TN_OK);
    cr_assert_eq(back[5], 180);
    fixture_tensor_free(&f, &x);
    fixture_tensor_free(&f, &y);
    fixture_tensor_free(&f, &z);
    fixture_close(&f);
}

Test(example, sum_over_either_dimension)
{
    const int64_t matrix[] = {2, 3}, two[] = {2}, three[] = {3};
    const float a[] = {1, 2, 3, 4, 5, 6};
    float back[3];
    fixture f;
    fixture_nest n;
    fixture_open(&f);
    fixture_tensor x = fixture_tensor_make(&f, TN_FLOAT32, 2, matrix, a);
    fixture_tensor rows = fixture_tensor_make(&f, TN_FLOAT32, 1, two, NULL);
    fixture_tensor columns = fixture_tensor_make(&f, TN_FLOAT32, 1, three, NULL);
    tn_value args[] = {fixture_value(&x), tn_value_none(), tn_value_bool(0), tn_value_none()};
    tn_value out = fixture_value(&rows);
    fixture_reduction(&n, &rows, &x, 2);
    cr_assert_eq(fixture_run(&f, "aten::sum.dim_IntList", args, 4, &out, 1, &n.nest), TN_OK);
    cr_assert_eq(fixture_read(&f, &rows, back), TN_OK);
    cr_assert_arr_eq(back, ((float[]){6, 15}), 8);
    out = fixture_value(&columns);
    fixture_reduction(&n, &columns, &x, 1);
    cr_assert_eq(fixture_run(&f, "aten::sum.dim_IntList", args, 4, &out, 1, &n.nest), TN_OK);
    cr_assert_eq(fixture_read(&f, &columns, back), TN_OK);
    cr_assert_arr_eq(back, ((float[]){5, 7, 9}), 12);
    fixture_tensor_free(&f, &x);
    fixture_tensor_free(&f, &rows);
    fixture_tensor_free(&f, &columns);
    fixture_close(&f);
}

Test(example, copy_broadcasts_and_fill_fills)
{
    const int64_t matrix[] = {2, 3}, row[] = {3};
    const float b[] = {10, 20, 30};
    float back[6];
    fixture f;
    fixture_open(&f);
    fixture_tensor y = fixture_tensor_make(&f, TN_FLOAT32, 1, row, b);
    fixture_tensor z = fixture_tensor_make(&f, TN_FLOAT32, 2, matrix, NULL);
    tn_value out = fixture_value(&z), copy_args[] = {out, fixture_value(&y)};
    cr_assert_eq(fixture_run(&f, "prim::copy", copy_args, 2, &out, 1, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &z, back), TN_OK);
    cr_assert_arr_eq(back, ((float[]){10, 20, 30, 10, 20, 30}), 24);
    tn_value fill_args[] = {out, tn_value_float(1.5)};
    cr_assert_eq(fixture_run(&f, "prim::fill", fill_args, 2, &out, 1, NULL), TN_OK);
    cr_assert_eq(fixture_read(&f, &z, back), TN_OK);
    for (int i = 0; i < 6; i++) cr_assert_eq(back[i], 1.5f);
    fixture_tensor_free(&f, &y);
    fixture_tensor_free(&f, &z);
    fixture_close(&f);
}
