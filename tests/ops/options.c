/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of operators: each changes the result, is refused by name, or is listed here as one without effect.
 * Options whose values other tests fix by numbers (most of them: dimensions, strides, reductions) are not
 * repeated.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/inspect.h>
#include "suite.h"

TestSuite(options, .init = begin);

/* What a call gave: values, sizes and dtype as text, or that it failed. */
static const char *text_of(tn_tensor *t)
{
    const char *text = t ? tn_format(s, t, NULL) : "none";
    if (!tn_scope_failed(s)) return text;
    tn_scope_clear(s);
    return "failed";
}

static void expect_change(const char *without, const char *with, int32_t line)
{
    cr_assert(strcmp(without, with) != 0, "line %d: the option changes nothing: %s", (int)line, with);
}
static void expect_no_change(const char *without, const char *with, int32_t line)
{
    cr_assert_str_eq(without, with, "line %d", (int)line);
}
/* The second call differs from the first in one option. */
#define COMPARE(expect, without, with)          \
    do {                                        \
        const char *first = text_of(without);   \
        expect(first, text_of(with), __LINE__); \
    } while (0)
#define CHANGES(without, with) COMPARE(expect_change, without, with)
#define KEEPS(without, with)   COMPARE(expect_no_change, without, with)

static tn_tensor *ramp(tn_ints sizes)
{
    int64_t n = 1;
    for (int64_t i = 0; i < sizes.count; i++) n *= sizes.data[i];
    return tn_reshape(s, tn_to(s, tn_arange(s, TN_SCALAR(n)), TN_FLOAT64), sizes);
}
static tn_tensor *longs(int64_t n, const int64_t *values)
{
    return tn_from_data(s, TN_INT64, TN_INTS(n), values, TN_CPU);
}
#define LONGS(n, ...) longs(n, (int64_t[]){__VA_ARGS__})
static tn_tensor *matrix(double a, double b, double c, double d)
{
    return make(s, TN_INTS(2, 2), VALUES(a, b, c, d), 0);
}
static tn_tensor *truth(int32_t value)
{
    return tn_scalar_tensor(s, TN_SCALAR((double)value));
}

/* ---- every operator that makes a tensor ---- */

/* A plain value for an argument: absent where it may be, else by its type. */
static tn_value plain_value(const tn_argument_info *a, tn_tensor *tensor)
{
    static const int64_t sizes[] = {2, 3}, strides[] = {3, 1}, order[] = {0, 1};
    if (a->flags & TN_ARG_OPTIONAL || strcmp(a->type, "ScalarType?") == 0) return tn_value_none();
    if (a->default_text && strcmp(a->type, "ScalarType") == 0) return tn_value_dtype(TN_INT64);
    if (strcmp(a->type, "Tensor") == 0) return tn_value_tensor(tensor);
    if (strcmp(a->name, "stride") == 0) return tn_value_ints(strides, 2);
    if (strcmp(a->name, "physical_layout") == 0) return tn_value_ints(order, 2);
    if (a->flags & TN_ARG_LIST) return tn_value_ints(sizes, 2);
    if (strcmp(a->type, "bool") == 0) return tn_value_bool(0);
    if (strcmp(a->type, "float") == 0) return tn_value_float(0.5);
    return tn_value_int(strcmp(a->name, "low") == 0 || strcmp(a->name, "start") == 0 ? 1 : 3);
}

/* Gives the index of pin_memory, or UINT32_MAX. */
static uint32_t plain_call(uint32_t op, tn_tensor *tensor, tn_value *args, uint32_t *out_count)
{
    uint32_t n = tn_inspect_argument_count(ctx, op, 0), pin = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
        tn_argument_info a = {.size = sizeof a};
        cr_assert_eq(tn_inspect_argument(ctx, op, 0, i, &a), TN_OK);
        if (strcmp(a.name, "pin_memory") == 0) pin = i;
        args[i] = plain_value(&a, tensor);
    }
    *out_count = n;
    return pin;
}

static void call_plainly(const tn_operator_info *info, const tn_value *args, uint32_t n, const char *refused)
{
    tn_value out[1];
    tn_scope_call(s, info->number, args, n, out, 1);
    if (refused)
        expect_error(s, refused);
    else
        cr_assert_eq(tn_scope_failed(s), TN_OK, "%s: %s", info->schema, tn_scope_error(s)->message);
}

/* With a device that pins, each gives pinned memory. */
static void pin_all(tn_tensor *x, const char *refused)
{
    for (uint32_t i = 0; i < tn_inspect_operator_count(ctx); i++) {
        tn_operator_info info = {.size = sizeof info};
        tn_value args[32], out = tn_value_none();
        uint32_t n;
        cr_assert_eq(tn_inspect_operator(ctx, i, &info), TN_OK);
        if (!strstr(info.schema, "pin_memory") || strcmp(info.form, "functional") != 0) continue;
        if (strstr(info.schema, "aten::to.")) continue; /* may give its argument */
        args[plain_call(info.number, x, args, &n)] = tn_value_bool(1);
        tn_scope_call(s, info.number, args, n, &out, 1);
        if (refused) {
            cr_assert_neq(tn_scope_failed(s), TN_OK, "%s is not refused", info.schema);
            expect_error(s, refused);
            continue;
        }
        cr_assert_eq(tn_scope_failed(s), TN_OK, "%s: %s", info.schema, tn_scope_error(s)->message);
        cr_expect(tn_is_pinned(out.as.tensor), "%s", info.schema);
    }
}

Test(options, factories_pin_memory)
{
    tn_tensor *x = tn_full(s, TN_NO_INTS, TN_SCALAR(1.0));
    pin_all(x, "argument 'pin_memory': there is no device that pins memory of the host");
    tn_device device = tn_device_parse(ctx, "reference:0");
    tn_zeros(s, TN_INTS(1), .device = device); /* a virtual device is used once it is open */
    pin_all(x, NULL);
    tn_tensor *full = tn_full(s, TN_INTS(2, 2), TN_SCALAR(3.0), .pin_memory = 1);
    EXPECT(s, full, 3, 3, 3, 3);
    EXPECT(s, tn_linspace(s, tn_value_int(0), tn_value_int(2), 3, .pin_memory = 1), 0, 1, 2);
    /* A larger size keeps the elements and the kind of memory. */
    tn_resize_(s, full, TN_INTS(1000));
    cr_assert(tn_is_pinned(full));
    EXPECT(s, tn_narrow(s, full, 0, 0, 4), 3, 3, 3, 3);
    cr_assert_eq(tn_pin_memory(s, full, 0), full);
    cr_assert_not(tn_is_pinned(x));
    cr_assert_not(tn_is_pinned(NULL));
    tn_empty(s, TN_INTS(2), .device = device, .pin_memory = 1);
    expect_error(s, "Only dense CPU tensors can be pinned");
    tn_pin_memory(s, tn_zeros(s, TN_INTS(2), .device = device), 0);
    expect_error(s, "cannot pin a tensor of reference:0: only dense CPU tensors can be pinned");
    tn_pin_memory(s, x, TN_CPU);
    expect_error(s, "cpu pins no memory of the host");
    end();
}

Test(options, other_layouts_are_refused_by_name)
{
    tn_tensor *x = tn_full(s, TN_NO_INTS, TN_SCALAR(1.0));
    uint32_t sparse = tn_intern(ctx, "sparse_coo"), seen = 0;
    for (uint32_t i = 0; i < tn_inspect_operator_count(ctx); i++) {
        tn_operator_info info = {.size = sizeof info};
        tn_value args[32];
        uint32_t n;
        cr_assert_eq(tn_inspect_operator(ctx, i, &info), TN_OK);
        if (!strstr(info.schema, "pin_memory") || strcmp(info.form, "functional") != 0) continue;
        uint32_t pin = plain_call(info.number, x, args, &n);
        call_plainly(&info, args, n, NULL);
        args[pin - 2] = tn_value_layout(sparse);
        call_plainly(&info, args, n, "layout");
        seen++;
    }
    cr_assert_eq(seen, 72, "%u operators", seen);
    end();
}

Test(options, sparse_gradients_are_refused_by_name)
{
    tn_tensor *table = make(s, TN_INTS(3, 2), VALUES(1, 2, 3, 4, 5, 6), 1), *index = LONGS(2, 2, 0);
    tn_tensor *plain = tn_detach(s, table), *offsets = LONGS(1, 0);
    EXPECT(s, tn_embedding(s, plain, index, .sparse = 1), 5, 6, 1, 2); /* no gradient: no effect */
    tn_embedding(s, table, index, .sparse = 1);
    expect_error(
        s, "embedding: argument 'sparse': sparse gradients are not supported (got True, expected False)");
    tn_embedding_bag(s, table, index, offsets, .sparse = 1);
    expect_error(s, "argument 'sparse': sparse gradients are not supported");
    tn_gather(s, table, 0, tn_reshape(s, index, TN_INTS(1, 2)), .sparse_grad = 1);
    expect_error(s, "gather: argument 'sparse_grad': sparse gradients are not supported");
    tn_embedding_backward(s, plain, LONGS(3, 0, 1, 2), 3, -1, 0, 1);
    expect_error(s, "embedding_backward: argument 'sparse'");
    tn_gather_backward(s, plain, plain, 0, tn_zeros_like(s, plain, .dtype = TN_INT64), 1);
    expect_error(s, "gather_backward: argument 'sparse_grad'");
    end();
}

/* ---- options that change the result ---- */

Test(options, of_elements_change_the_result)
{
    tn_tensor *x = VECTOR(s, 0, -2, -1, 0.25, 3), *half = VECTOR(s, 0, 0.5, 0.5, 0.5, 0.5);
    tn_tensor *odd = VECTOR(s, 0, NAN, INFINITY, -INFINITY, 1);
    CHANGES(tn_add_scalar(s, x, 1), tn_add_scalar(s, x, 1, .alpha = TN_SCALAR(2)));
    CHANGES(tn_sub_scalar(s, x, 1), tn_sub_scalar(s, x, 1, .alpha = TN_SCALAR(2)));
    CHANGES(tn_rsub_scalar(s, x, 1), tn_rsub_scalar(s, x, 1, .alpha = TN_SCALAR(2)));
    CHANGES(tn_elu(s, x), tn_elu(s, x, .alpha = TN_SCALAR(2)));
    CHANGES(tn_elu(s, x), tn_elu(s, x, .scale = TN_SCALAR(2)));
    CHANGES(tn_elu(s, x), tn_elu(s, x, .input_scale = TN_SCALAR(2)));
    CHANGES(tn_celu(s, x), tn_celu(s, x, .alpha = TN_SCALAR(2)));
    CHANGES(tn_softplus(s, x), tn_softplus(s, x, .beta = TN_SCALAR(3)));
    CHANGES(tn_softplus(s, x), tn_softplus(s, x, .threshold = TN_SCALAR(0.2)));
    CHANGES(tn_leaky_relu(s, x), tn_leaky_relu(s, x, .negative_slope = TN_SCALAR(0.5)));
    CHANGES(tn_nan_to_num(s, odd), tn_nan_to_num(s, odd, .nan = 7));
    CHANGES(tn_nan_to_num(s, odd), tn_nan_to_num(s, odd, .posinf = 7));
    CHANGES(tn_nan_to_num(s, odd), tn_nan_to_num(s, odd, .neginf = 7));
    CHANGES(tn_huber_loss(s, x, half), tn_huber_loss(s, x, half, .delta = 0.5));
    CHANGES(tn_binary_cross_entropy_backward(s, half, half, VECTOR(s, 0, 1, 0, 1, 0)),
            tn_binary_cross_entropy_backward(s, half, half, VECTOR(s, 0, 1, 0, 1, 0), .reduction = 2));
    CHANGES(truth(tn_allclose(s, odd, odd)), truth(tn_allclose(s, odd, odd, .equal_nan = 1)));
    CHANGES(tn_isin(s, x, half), tn_isin(s, x, half, .invert = 1));
    CHANGES(tn_isin_tensor_scalar(s, x, 3), tn_isin_tensor_scalar(s, x, 3, .invert = 1));
    CHANGES(tn_isin_scalar_tensor(s, 3, x), tn_isin_scalar_tensor(s, 3, x, .invert = 1));
    CHANGES(tn_bucketize_scalar(s, 3, tn_sort(s, x).values),
            tn_bucketize_scalar(s, 3, tn_sort(s, x).values, .right = 1));
    CHANGES(tn_bucketize_scalar(s, 3, x), tn_bucketize_scalar(s, 3, x, .out_int32 = 1));
    CHANGES(tn_searchsorted_scalar(s, x, 3), tn_searchsorted_scalar(s, x, 3, .out_int32 = 1));
    CHANGES(tn_quantile_scalar(s, x, 0.3), tn_quantile_scalar(s, x, 0.3, .interpolation = "nearest"));
    CHANGES(tn_kaiser_window_beta(s, 5, 1, 2), tn_kaiser_window_beta(s, 5, 1, 6));
    CHANGES(tn_kaiser_window_periodic(s, 5, 1), tn_kaiser_window_periodic(s, 5, 0));
    end();
}

Test(options, of_order_and_indices_change_the_result)
{
    tn_tensor *x = VECTOR(s, 0, 3, 1, 2, 2), *m = ramp(TN_INTS(2, 3)), *at = LONGS(2, 0, 0);
    tn_tensor *two = VECTOR(s, 0, 10, 20);
    CHANGES(tn_topk(s, x, 2).values, tn_topk(s, x, 2, .largest = 0).values);
    CHANGES(tn_put(s, x, at, two), tn_put(s, x, at, two, .accumulate = 1));
    CHANGES(tn__unsafe_index_put(s, x, TN_TENSORS(at), two),
            tn__unsafe_index_put(s, x, TN_TENSORS(at), two, .accumulate = 1));
    CHANGES(tn_index_reduce(s, x, 0, at, two, "prod"),
            tn_index_reduce(s, x, 0, at, two, "prod", .include_self = 0));
    CHANGES(tn_nonzero_static(s, tn_sub_scalar(s, x, 1), 5),
            tn_nonzero_static(s, tn_sub_scalar(s, x, 1), 5, .fill_value = -7));
    CHANGES(tn__unique(s, x).result1, tn__unique(s, x, .return_inverse = 1).result1);
    CHANGES(tn_flatten(s, ramp(TN_INTS(2, 1, 2))), tn_flatten(s, ramp(TN_INTS(2, 1, 2)), .end_dim = 1));
    CHANGES(tn_slice(s, x), tn_slice(s, x, .step = 2));
    CHANGES(tn_slice_copy(s, x), tn_slice_copy(s, x, .step = 2));
    CHANGES(tn_slice_copy(s, x), tn_slice_copy(s, x, .start = 1));
    CHANGES(tn_slice_copy(s, x), tn_slice_copy(s, x, .end = 1));
    CHANGES(tn_vander(s, x), tn_vander(s, x, .increasing = 1));
    CHANGES(tn_vander(s, x), tn_vander(s, x, .N = 2));
    CHANGES(tn_pad_sequence(s, TN_TENSORS(x, two)), tn_pad_sequence(s, TN_TENSORS(x, two), .batch_first = 1));
    CHANGES(tn_pad_sequence(s, TN_TENSORS(x, two)),
            tn_pad_sequence(s, TN_TENSORS(x, two), .padding_value = 9));
    CHANGES(tn_pad_sequence(s, TN_TENSORS(x, two)),
            tn_pad_sequence(s, TN_TENSORS(x, two), .padding_side = "left"));
    CHANGES(tn_range(s, TN_SCALAR(0), TN_SCALAR(4)),
            tn_range_step(s, TN_SCALAR(0), TN_SCALAR(4), TN_SCALAR(2)));
    CHANGES(tn_histogram(s, x, 2).hist, tn_histogram(s, x, 2, .range = TN_FLOATS(0, 2.5)).hist);
    CHANGES(tn_histogramdd_int_bins(s, m, 2).hist, tn_histogramdd_int_bins(s, m, 2, .density = 1).hist);
    CHANGES(tn_histogramdd_int_bins(s, m, 2).hist,
            tn_histogramdd_int_bins(s, m, 2, .range = TN_FLOATS(0, 1, 0, 2, 0, 3)).hist);
    CHANGES(tn_gradient(s, tn_square(s, ramp(TN_INTS(4)))).data[0],
            tn_gradient(s, tn_square(s, ramp(TN_INTS(4))), .edge_order = 2).data[0]);
    CHANGES(tn_gradient_array(s, tn_square(s, ramp(TN_INTS(4))), TN_INTS(0)).data[0],
            tn_gradient_array(s, tn_square(s, ramp(TN_INTS(4))), TN_INTS(0), .edge_order = 2).data[0]);
    CHANGES(
        tn_gradient_tensorarrayint(s, tn_square(s, ramp(TN_INTS(4))), TN_TENSORS(ramp(TN_INTS(4)))).data[0],
        tn_gradient_tensorarrayint(s, tn_square(s, ramp(TN_INTS(4))), TN_TENSORS(ramp(TN_INTS(4))),
                                   .edge_order = 2)
            .data[0]);
    end();
}

Test(options, of_matrices_change_the_result)
{
    tn_tensor *m = matrix(4, 1, 2, 3), *odd = matrix(0, 1, 1, 1), *flat = matrix(1, 1, 1, 1);
    tn_tensor *small = matrix(1, 0, 0, 1e-3), *b = matrix(1, 2, 3, 4);
    CHANGES(tn_linalg_eigvalsh(s, m), tn_linalg_eigvalsh(s, m, .UPLO = "U"));
    CHANGES(tn_linalg_eigh(s, m).eigenvalues, tn_linalg_eigh(s, m, .UPLO = "U").eigenvalues);
    CHANGES(tn_linalg_pinv_atol_rtol_float(s, small), tn_linalg_pinv_atol_rtol_float(s, small, .atol = 0.1));
    CHANGES(tn_linalg_pinv_atol_rtol_float(s, m), tn_linalg_pinv_atol_rtol_float(s, m, .hermitian = 1));
    CHANGES(tn_pinverse(s, small), tn_pinverse(s, small, .rcond = 0.1));
    CHANGES(tn_linalg_lstsq(s, small, b, .driver = "gelsd").rank,
            tn_linalg_lstsq(s, small, b, .rcond = 0.1, .driver = "gelsd").rank);
    CHANGES(tn_linalg_matrix_rank(s, matrix(0, 1, 0, 0), 1e-3),
            tn_linalg_matrix_rank(s, matrix(0, 1, 0, 0), 1e-3, .hermitian = 1));
    CHANGES(tn_linalg_qr(s, ramp(TN_INTS(3, 2))).Q,
            tn_linalg_qr(s, ramp(TN_INTS(3, 2)), .mode = "complete").Q);
    CHANGES(tn_qr(s, ramp(TN_INTS(3, 2))).Q, tn_qr(s, ramp(TN_INTS(3, 2)), .some = 0).Q);
    CHANGES(tn_svd(s, ramp(TN_INTS(3, 2))).U, tn_svd(s, ramp(TN_INTS(3, 2)), .some = 0).U);
    CHANGES(tn_svd(s, m).U, tn_svd(s, m, .compute_uv = 0).U);
    CHANGES(tn__linalg_svd(s, m).U, tn__linalg_svd(s, m, .compute_uv = 0).U);
    CHANGES(tn__linalg_eigh(s, m).eigenvectors, tn__linalg_eigh(s, m, .compute_v = 0).eigenvectors);
    CHANGES(tn_linalg_lu_factor(s, odd).LU, tn_linalg_lu_factor(s, odd, .pivot = 0).LU);
    CHANGES(tn_linalg_lu_factor_ex(s, odd).LU, tn_linalg_lu_factor_ex(s, odd, .pivot = 0).LU);
    CHANGES(tn_linalg_lu(s, odd).L, tn_linalg_lu(s, odd, .pivot = 0).L);
    CHANGES(tn_linalg_inv_ex(s, flat).info, tn_linalg_inv_ex(s, flat, .check_errors = 1).info);
    CHANGES(tn_linalg_cholesky_ex(s, matrix(-1, 0, 0, 1)).info,
            tn_linalg_cholesky_ex(s, matrix(-1, 0, 0, 1), .check_errors = 1).info);
    CHANGES(tn_linalg_lu_factor_ex(s, flat).info, tn_linalg_lu_factor_ex(s, flat, .check_errors = 1).info);
    CHANGES(tn_linalg_solve_ex(s, flat, b).info, tn_linalg_solve_ex(s, flat, b, .check_errors = 1).info);
    CHANGES(tn_linalg_solve(s, m, b), tn_linalg_solve(s, m, b, .left = 0));
    CHANGES(tn_linalg_solve_ex(s, m, b).result, tn_linalg_solve_ex(s, m, b, .left = 0).result);
    CHANGES(tn_triangular_solve(s, b, m).solution, tn_triangular_solve(s, b, m, .upper = 0).solution);
    CHANGES(tn_triangular_solve(s, b, m).solution, tn_triangular_solve(s, b, m, .transpose = 1).solution);
    CHANGES(tn_triangular_solve(s, b, m).solution, tn_triangular_solve(s, b, m, .unitriangular = 1).solution);
    tn_linalg_lu_factor_result lu = tn_linalg_lu_factor(s, m);
    CHANGES(tn_lu_unpack(s, lu.LU, lu.pivots).L, tn_lu_unpack(s, lu.LU, lu.pivots, .unpack_data = 0).L);
    CHANGES(tn_lu_unpack(s, lu.LU, lu.pivots).P, tn_lu_unpack(s, lu.LU, lu.pivots, .unpack_pivots = 0).P);
    CHANGES(tn_nuclear_norm(s, m), tn_nuclear_norm(s, m, .keepdim = 1));
    CHANGES(tn_frobenius_norm(s, m, TN_INTS(0)), tn_frobenius_norm(s, m, TN_INTS(0), .keepdim = 1));
    CHANGES(tn_linalg_cond(s, m), tn_linalg_cond(s, m, .p = TN_SCALAR(1)));
    CHANGES(tn_norm_except_dim(s, m), tn_norm_except_dim(s, m, .dim = 1));
    CHANGES(tn_norm_except_dim(s, m), tn_norm_except_dim(s, m, .pow = 1));
    CHANGES(tn__weight_norm(s, m, VECTOR(s, 0, 1, 2)), tn__weight_norm(s, m, VECTOR(s, 0, 1, 2), .dim = 1));
    end();
}

Test(options, of_layers_change_the_result)
{
    tn_tensor *image = ramp(TN_INTS(1, 2, 5, 5)), *line = ramp(TN_INTS(1, 2, 6)),
              *cube = ramp(TN_INTS(1, 1, 3, 3, 3));
    tn_tensor *theta = ramp(TN_INTS(1, 2, 3));
    CHANGES(tn_max_pool2d(s, image, TN_INTS(2, 2)), tn_max_pool2d(s, image, TN_INTS(2, 2), .ceil_mode = 1));
    CHANGES(tn_max_pool1d(s, line, TN_INTS(2)), tn_max_pool1d(s, line, TN_INTS(2), .dilation = TN_INTS(2)));
    CHANGES(tn_conv2d_padding(s, image, ramp(TN_INTS(2, 2, 2, 2)), .padding = "valid"),
            tn_conv2d_padding(s, image, ramp(TN_INTS(2, 1, 2, 2)), .padding = "valid", .groups = 2));
    CHANGES(tn_conv3d(s, cube, ramp(TN_INTS(1, 1, 2, 2, 2))),
            tn_conv3d(s, cube, ramp(TN_INTS(1, 1, 2, 2, 2)), .padding = TN_INTS(1, 1, 1)));
    CHANGES(tn_conv_tbc(s, ramp(TN_INTS(4, 1, 2)), ramp(TN_INTS(2, 2, 1)), VECTOR(s, 0, 1)),
            tn_conv_tbc(s, ramp(TN_INTS(4, 1, 2)), ramp(TN_INTS(2, 2, 1)), VECTOR(s, 0, 1), .pad = 1));
    CHANGES(tn_affine_grid_generator(s, theta, TN_INTS(1, 1, 2, 2), 0),
            tn_affine_grid_generator(s, theta, TN_INTS(1, 1, 2, 2), 1));
    CHANGES(tn_upsample_nearest1d(s, line, TN_INTS(9)),
            tn_upsample_nearest1d(s, line, TN_INTS(9), .scales = 3));
    CHANGES(tn_upsample_linear1d(s, line, TN_INTS(9), 0),
            tn_upsample_linear1d(s, line, TN_INTS(9), 0, .scales = 3));
    CHANGES(tn_upsample_bilinear2d(s, image, TN_INTS(7, 7), 0),
            tn_upsample_bilinear2d(s, image, TN_INTS(7, 7), 0, .scales_h = 3));
    CHANGES(tn_upsample_bilinear2d(s, image, TN_INTS(7, 7), 0),
            tn_upsample_bilinear2d(s, image, TN_INTS(7, 7), 0, .scales_w = 3));
    CHANGES(tn_upsample_bicubic2d(s, image, TN_INTS(7, 7), 0),
            tn_upsample_bicubic2d(s, image, TN_INTS(7, 7), 0, .scales_w = 3));
    CHANGES(tn_upsample_nearest3d(s, cube, TN_INTS(5, 5, 5)),
            tn_upsample_nearest3d(s, cube, TN_INTS(5, 5, 5), .scales_d = 3));
    CHANGES(tn_upsample_trilinear3d(s, cube, TN_INTS(5, 5, 5), 0),
            tn_upsample_trilinear3d(s, cube, TN_INTS(5, 5, 5), 0, .scales_d = 3));
    CHANGES(tn__upsample_bilinear2d_aa(s, image, TN_INTS(3, 3), 0),
            tn__upsample_bilinear2d_aa(s, image, TN_INTS(3, 3), 0, .scales_h = 0.4));
    CHANGES(tn__upsample_bicubic2d_aa(s, image, TN_INTS(3, 3), 0),
            tn__upsample_bicubic2d_aa(s, image, TN_INTS(3, 3), 1));
    end();
}

Test(options, of_tables_and_losses_change_the_result)
{
    tn_tensor *table = ramp(TN_INTS(4, 2)), *index = LONGS(4, 0, 1, 1, 2), *offsets = LONGS(2, 0, 2);
    tn_tensor *logits = ramp(TN_INTS(2, 3)), *classes = LONGS(2, 0, 1);
    CHANGES(tn_embedding_bag(s, table, index, offsets).result0,
            tn_embedding_bag(s, table, index, offsets, .mode = 1).result0);
    CHANGES(tn_embedding_bag(s, table, index, LONGS(3, 0, 2, 4)).result0,
            tn_embedding_bag(s, table, index, LONGS(3, 0, 2, 4), .include_last_offset = 1).result0);
    CHANGES(tn__embedding_bag(s, table, index, offsets).result0,
            tn__embedding_bag(s, table, index, offsets, .padding_idx = 1).result0);
    CHANGES(tn_embedding_dense_backward(s, table, index, 4, -1, 0),
            tn_embedding_dense_backward(s, table, index, 4, -1, 1));
    CHANGES(tn_embedding_dense_backward(s, table, index, 4, -1, 0),
            tn_embedding_dense_backward(s, table, index, 4, 1, 0));
    CHANGES(tn_cross_entropy_loss(s, logits, classes),
            tn_cross_entropy_loss(s, logits, classes, .ignore_index = 1));
    CHANGES(tn_cross_entropy_loss(s, logits, classes),
            tn_cross_entropy_loss(s, logits, classes, .label_smoothing = 0.5));
    CHANGES(tn_triplet_margin_loss(s, logits, logits, logits),
            tn_triplet_margin_loss(s, logits, logits, logits, .margin = 4));
    CHANGES(tn_triplet_margin_loss(s, logits, tn_neg(s, logits), logits),
            tn_triplet_margin_loss(s, logits, tn_neg(s, logits), logits, .p = 1));
    CHANGES(tn_triplet_margin_loss(s, logits, tn_neg(s, logits), logits),
            tn_triplet_margin_loss(s, logits, tn_neg(s, logits), logits, .eps = 1));
    CHANGES(tn_cosine_embedding_loss(s, logits, logits, VECTOR(s, 0, -1, -1)),
            tn_cosine_embedding_loss(s, logits, logits, VECTOR(s, 0, -1, -1), .margin = 0.5));
    end();
}

Test(options, of_attention_change_the_result)
{
    tn_tensor *q = ramp(TN_INTS(1, 4, 3, 2)), *k = tn_div_scalar(s, ramp(TN_INTS(1, 2, 3, 2)), 8);
    CHANGES(tn_scaled_dot_product_attention(s, q, k, k),
            tn_scaled_dot_product_attention(s, q, k, k, .enable_gqa = 1));
    CHANGES(tn_scaled_dot_product_attention(s, k, k, k),
            tn_scaled_dot_product_attention(s, k, k, k, .scale = 2));
    CHANGES(tn_scaled_dot_product_attention(s, k, k, k),
            tn_scaled_dot_product_attention(s, k, k, k, .is_causal = 1));
    CHANGES(tn_scaled_dot_product_attention(s, k, k, k),
            tn_scaled_dot_product_attention(s, k, k, k, .dropout_p = 0.9));
    CHANGES(tn__scaled_dot_product_attention_math(s, k, k, k).result0,
            tn__scaled_dot_product_attention_math(s, k, k, k, .is_causal = 1).result0);
    CHANGES(tn__scaled_dot_product_attention_math(s, k, k, k).result0,
            tn__scaled_dot_product_attention_math(s, k, k, k, .dropout_p = 0.9).result0);
    CHANGES(tn__scaled_dot_product_attention_math(s, k, k, k).result0,
            tn__scaled_dot_product_attention_math(s, k, k, k, .scale = 2).result0);
    end();
}

/*
 * A generator of the caller's gives its numbers again from the same seed, whatever the default generator has
 * drawn.
 */
Test(options, a_generator_is_drawn_from)
{
    tn_generator *g = NULL;
    cr_assert_eq(tn_generator_create(ctx, 7, &g), TN_OK);
    tn_tensor *like = ramp(TN_INTS(64)), *p = tn_full(s, TN_INTS(64), TN_SCALAR(0.5));
    tn_tensor *drawn[2][12];
    for (int32_t i = 0; i < 2; i++) {
        uint32_t n = 0;
        tn_generator_seed(g, 7);
        drawn[i][n++] = tn_rand_generator(s, TN_INTS(64), g);
        drawn[i][n++] = tn_randn_generator(s, TN_INTS(64), g);
        drawn[i][n++] = tn_randint_generator(s, 1000, TN_INTS(64), g);
        drawn[i][n++] = tn_randint_low_generator(s, -5, 1000, TN_INTS(64), g);
        drawn[i][n++] = tn_randperm_generator(s, 64, g);
        drawn[i][n++] = tn_bernoulli(s, p, .generator = g);
        drawn[i][n++] = tn_multinomial(s, p, 20, .replacement = 1, .generator = g);
        drawn[i][n++] = tn_normal_float_float(s, 0, 1, TN_INTS(64), .generator = g);
        drawn[i][n++] = tn_rrelu(s, tn_neg(s, like), .training = 1, .generator = g);
        drawn[i][n++] = tn_uniform_(s, tn_clone(s, like), .generator = g);
        drawn[i][n++] = tn_exponential_(s, tn_clone(s, like), .generator = g);
        drawn[i][n++] = tn_poisson(s, like, .generator = g);
        cr_assert_eq(n, 12);
    }
    for (uint32_t i = 0; i < 12; i++) KEEPS(drawn[0][i], drawn[1][i]);
    CHANGES(tn_rand(s, TN_INTS(64)), tn_rand(s, TN_INTS(64)));
    tn_generator_release(g);
    end();
}

/* ---- options without effect here ---- */

/*
 * What each promises holds without it: a choice between backends that do not exist here, of a faster way to
 * the same result, or of an order that is kept anyway. Generated documentation lists them.
 */
Test(options, without_effect)
{
    tn_tensor *x = VECTOR(s, 0, 3, 1, 2, 2), *m = ramp(TN_INTS(2, 3)), *image = ramp(TN_INTS(1, 2, 3, 3));
    tn_tensor *one = VECTOR(s, 0, 1, 1);
    KEEPS(tn_copy_(s, tn_clone(s, x), tn_neg(s, x)),
          tn_copy_(s, tn_clone(s, x), tn_neg(s, x), .non_blocking = 1));
    KEEPS(tn_to(s, x, TN_FLOAT32), tn_to(s, x, TN_FLOAT32, .non_blocking = 1));
    KEEPS(tn_isin(s, x, one), tn_isin(s, x, one, .assume_unique = 1));
    KEEPS(tn_expand(s, x, TN_INTS(2, 4)), tn_expand(s, x, TN_INTS(2, 4), .implicit = 1));
    KEEPS(tn_topk(s, x, 2).values, tn_topk(s, x, 2, .sorted = 0).values);
    KEEPS(tn_sort_stable(s, x, 0).indices, tn_sort_stable(s, x, 1).indices);
    KEEPS(tn__unique(s, x).result0, tn__unique(s, x, .sorted = 0).result0);
    KEEPS(tn_cdist(s, m, m), tn_cdist(s, m, m, .compute_mode = 2));
    KEEPS(tn_einsum(s, "ij,kj->ik", TN_TENSORS(m, m)),
          tn_einsum(s, "ij,kj->ik", TN_TENSORS(m, m), .path = TN_INTS(0, 1)));
    KEEPS(tn__trilinear(s, m, m, m, TN_NO_INTS, TN_NO_INTS, TN_NO_INTS, TN_INTS(1)),
          tn__trilinear(s, m, m, m, TN_NO_INTS, TN_NO_INTS, TN_NO_INTS, TN_INTS(1), .unroll_dim = 0));
    tn_linalg_svdvals(s, m, .driver = "gesvd");
    expect_error(s, "keyword argument `driver=` is only supported on CUDA inputs");
    KEEPS(tn_layer_norm(s, m, TN_INTS(3)), tn_layer_norm(s, m, TN_INTS(3), .cudnn_enable = 0));
    KEEPS(tn_group_norm(s, image, 2), tn_group_norm(s, image, 2, .cudnn_enabled = 0));
    KEEPS(tn_batch_norm(s, image, NULL, NULL, NULL, NULL, 1, 0.1, 1e-5, 1),
          tn_batch_norm(s, image, NULL, NULL, NULL, NULL, 1, 0.1, 1e-5, 0));
    KEEPS(tn_instance_norm(s, image, NULL, NULL, NULL, NULL, 1, 0.1, 1e-5, 1),
          tn_instance_norm(s, image, NULL, NULL, NULL, NULL, 1, 0.1, 1e-5, 0));
    end();
}
