/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An error that arises inside a kernel or a composite names the operator that the program called, in the form that it
 * called, then says what ATen says.
 */
#include <string.h>
#include "suite.h"

TestSuite(errors, .init = begin);

static void expect_message(const char *message)
{
    cr_assert_neq(tn_scope_failed(s), TN_OK, "no error; expected: %s", message);
    /* Behind the place of the call. */
    cr_assert_str_eq(strstr(tn_scope_error(s)->message, ": ") + 2, message);
    tn_scope_clear(s);
}

Test(errors, indices_out_of_range_name_the_operator)
{
    tn_tensor *x = VECTOR(s, 0, 1, 2, 3), *table = make(s, TN_INTS(3, 2), VALUES(1, 2, 3, 4, 5, 6), 0);
    tn_tensor *far = tn_from_data(s, TN_INT64, TN_INTS(1), (int64_t[]){5}, TN_CPU);
    tn_index_select(s, x, 0, far);
    expect_message("index_select: index out of range in self: got 5, dimension 0 has size 3");
    tn_gather(s, x, 0, far);
    expect_message("gather: index 5 is out of bounds for dimension 0 with size 3");
    tn_scatter(s, x, 0, far, x);
    expect_message("scatter: index 5 is out of bounds for dimension 0 with size 3");
    tn_index_tensor(s, x, TN_TENSORS(far));
    expect_message("index: index 5 is out of bounds for dimension 0 with size 3");
    tn_embedding(s, table, far);
    expect_message("embedding: index out of range in self: got 5, expected 0 to 2");
    tn_nll_loss(s, tn_log_softmax(s, tn_reshape(s, x, TN_INTS(1, 3)), 1), far);
    expect_message("nll_loss: Target 5 is out of bounds: there are 3 classes");
    tn_select(s, x, 0, 7);
    expect_message("select(): index 7 out of range for tensor of size [3] at dimension 0");
    tn_sum_dim(s, x, TN_INTS(4));
    expect_message("sum: Dimension out of range (expected to be in range of [-1, 0], but got 4)");
    end();
}

/* x[5] is not select(x, 0, 5): PyTorch names the dimension of the tensor that is indexed. */
Test(errors, positions_of_an_index_out_of_range)
{
    tn_tensor *x = VECTOR(s, 0, 1, 2, 3), *cube = tn_ones(s, TN_INTS(2, 3, 4));
    tn_index(s, x, TN_AT(5));
    expect_message("index 5 is out of bounds for dimension 0 with size 3");
    tn_index(s, cube, TN_ALL, TN_AT(-4));
    expect_message("index -4 is out of bounds for dimension 1 with size 3");
    tn_index(s, cube, TN_AT(1), TN_ALL, TN_AT(4));
    expect_message("index 4 is out of bounds for dimension 2 with size 4");
    tn_index_assign(s, cube, x, TN_AT(0), TN_AT(3));
    expect_message("index 3 is out of bounds for dimension 1 with size 3");
    end();
}

/* Forms that the dispatcher makes of each other, and composites of private operators. */
Test(errors, each_form_has_its_own_name)
{
    tn_tensor *x = VECTOR(s, 0, 1, 2, 3), *cube = tn_ones(s, TN_INTS(2, 3, 4)),
              *scalar = tn_full(s, TN_INTS(), TN_SCALAR(1)),
              *far = tn_from_data(s, TN_INT64, TN_INTS(1), (int64_t[]){5}, TN_CPU);
    tn_tensor *one = tn_ones(s, TN_INTS(1), .dtype = TN_FLOAT64);
    tn_scatter_(s, tn_clone(s, x), 0, far, x);
    expect_message("scatter_: index 5 is out of bounds for dimension 0 with size 3");
    tn_scatter_add(s, x, 0, far, x);
    expect_message("scatter_add: index 5 is out of bounds for dimension 0 with size 3");
    tn_scatter_reduce(s, x, 0, far, x, "sum");
    expect_message("scatter_reduce: index 5 is out of bounds for dimension 0 with size 3");
    tn_index_add(s, x, 0, far, one);
    expect_message("index_add: index out of range in self: got 5, dimension 0 has size 3");
    tn_index_copy(s, x, 0, far, one);
    expect_message("index_copy: index out of range in self: got 5, dimension 0 has size 3");
    tn_index_fill_(s, tn_clone(s, x), 0, far, TN_SCALAR(1));
    expect_message("index_fill_: index 5 is out of bounds for dimension 0 with size 3");
    tn_index_fill_tensor(s, x, 0, far, scalar);
    expect_message("index_fill: index 5 is out of bounds for dimension 0 with size 3");
    tn_take(s, x, far);
    expect_message("take: index 5 is out of bounds for dimension 0 with size 3");
    tn_select_copy(s, cube, 1, 9);
    expect_message("select_copy: index 9 out of range for tensor of size [2, 3, 4] at dimension 1");
    end();
}

Test(errors, a_device_that_was_not_found)
{
    tn_zeros(s, TN_INTS(2), .device = tn_device_at(ctx, 99));
    expect_message(
        "zeros: there is no such device: tn_device_at or tn_device_parse did not find it (the value is "
        "TN_DEVICE_MISSING)");
    tn_zeros(s, TN_INTS(2), .device = TN_DEVICE_MISSING);
    expect_message(
        "zeros: there is no such device: tn_device_at or tn_device_parse did not find it (the value is "
        "TN_DEVICE_MISSING)");
    end();
}

/* However many composites call each other. */
Test(errors, only_the_call_of_the_program_is_named)
{
    tn_tensor *x = VECTOR(s, 0, 1, 2, 3), *a = tn_ones(s, TN_INTS(1, 2, 9)),
              *b = tn_ones(s, TN_INTS(1, 4, 8)),
              *far = tn_from_data(s, TN_INT64, TN_INTS(1), (int64_t[]){5}, TN_CPU);
    tn_take_along_dim(s, x, far, .dim = 0);
    expect_message("take_along_dim: index 5 is out of bounds for dimension 0 with size 3");
    tn_scaled_dot_product_attention(s, a, b, b);
    cr_assert_str_eq(tn_scope_error(s)->op, "aten::scaled_dot_product_attention");
    expect_message("scaled_dot_product_attention: Expected size for first two dimensions of batch2 "
                   "tensor to be: [1, 9] "
                   "but got: [1, 8].");
    tn_linear(s, tn_ones(s, TN_INTS(2, 9)), tn_ones(s, TN_INTS(8, 8)));
    expect_message("linear: mat1 and mat2 shapes cannot be multiplied (2x9 and 8x8)");
    tn_mm(s, tn_ones(s, TN_INTS(2, 9)), tn_ones(s, TN_INTS(8, 8)));
    expect_message("mm: mat1 and mat2 shapes cannot be multiplied (2x9 and 8x8)");
    tn_mul_scalar_(s, tn_ones(s, TN_INTS(2), .dtype = TN_INT64), 0.5);
    cr_assert_null(strstr(strstr(tn_scope_error(s)->message, "mul") + 3, "mul"), "%s",
                   tn_scope_error(s)->message);
    tn_scope_clear(s);
    tn_arange_start_step(s, TN_SCALAR(0), TN_SCALAR(1), TN_SCALAR(0));
    expect_message("arange: step must be nonzero");
    end();
}

Test(errors, integers_divided_by_zero)
{
    tn_tensor *one = tn_from_data(s, TN_INT64, TN_INTS(1), (int64_t[]){1}, TN_CPU),
              *zero = tn_sub(s, one, one);
    tn_remainder(s, one, zero);
    expect_message("remainder: ZeroDivisionError");
    end();
}
