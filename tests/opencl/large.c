/* SPDX-License-Identifier: Apache-2.0 */
/* Large calls, which have kernels of their own: their results are those of the CPU, with the same bits each time. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include <tenon/tenon.h>
#include "../gpu/device_suite.h"

TestSuite(large, .init = open_tested_device, .fini = close_device);

enum { LARGE = 70003 }; /* above the size from which they are compiled, and no multiple of anything */

/* The same call on the CPU and on the device, from the same numbers. */
typedef tn_tensor *(*calculation)(tn_scope *at, tn_tensor *a, tn_tensor *b);

static void expect_as_cpu(const char *name, tn_dtype dtype, double tolerance, calculation compute)
{
    static double here[LARGE], there[LARGE];
    static float numbers_a[LARGE], numbers_b[LARGE];
    tn_scope_options options = {.size = sizeof options, .device = tn_device_parse(ctx, "cpu")};
    tn_scope *cpu = tn_scope_open_with(ctx, &options), *at[] = {cpu, s};
    double *out[] = {here, there};
    int64_t count = 0;
    for (int i = 0; i < LARGE; i++) {
        numbers_a[i] = (float)((int64_t)i * 7919 % 1009 - 500) / 64;
        numbers_b[i] = (float)((int64_t)i * 104729 % 997 - 300) / 64 + 0.0078125f;
    }
    for (int k = 0; k < 2; k++) {
        tn_device on = k ? device : options.device;
        tn_tensor *a = tn_from_data(at[k], TN_FLOAT32, TN_INTS(LARGE), numbers_a, on);
        tn_tensor *b = tn_from_data(at[k], TN_FLOAT32, TN_INTS(LARGE), numbers_b, on);
        a = tn__to_copy(at[k], a, .dtype = dtype);
        b = tn__to_copy(at[k], b, .dtype = dtype);
        tn_tensor *result =
            tn__to_copy(at[k], tn_contiguous(at[k], compute(at[k], a, b)), .dtype = TN_FLOAT64);
        cr_assert_eq(tn_scope_failed(at[k]), TN_OK, "%s: %s", name,
                     tn_scope_error(at[k]) ? tn_scope_error(at[k])->message : "");
        count = tn_tensor_numel(result);
        cr_assert_leq(count, LARGE);
        cr_assert_eq(tn_to_host(at[k], result, out[k], (uint64_t)count * 8), TN_OK);
    }
    for (int64_t i = 0; i < count; i++) {
        int same = here[i] == there[i] || (isnan(here[i]) && isnan(there[i])) ||
                   fabs(here[i] - there[i]) <= tolerance * (fabs(here[i]) + 1);
        cr_assert(same, "%s of %s: element %lld is %.9g, not %.9g", name, tn_dtype_name(dtype), (long long)i,
                  there[i], here[i]);
    }
    tn_scope_close(cpu);
}

#define CALCULATION(name, call)                                           \
    static tn_tensor *name##_of(tn_scope *at, tn_tensor *a, tn_tensor *b) \
    {                                                                     \
        return call;                                                      \
    }
#define ROWS(x) tn_view(at, tn_slice(at, x, .end = 70000), TN_INTS(100, 700))
CALCULATION(sum_of_both, tn_add(at, a, b))
CALCULATION(scaled, tn_mul_scalar(at, a, 2.5))
CALCULATION(comparison, tn_lt(at, a, b))
CALCULATION(power, tn_exp(at, a))
CALCULATION(rectified, tn_relu(at, a))
CALCULATION(smooth, tn_gelu(at, a))
CALCULATION(choice, tn_where(at, tn_gt(at, a, b), a, b))
CALCULATION(with_a_row, tn_add(at, ROWS(a), tn_select(at, ROWS(b), 0, 3)))
CALCULATION(with_a_column, tn_mul(at, ROWS(a), tn_slice(at, ROWS(b), .dim = 1, .start = 5, .end = 6)))
CALCULATION(part_of_rows, tn_sub(at, tn_slice(at, ROWS(a), .dim = 1, .end = 699),
                                 tn_slice(at, ROWS(b), .dim = 1, .start = 1)))
CALCULATION(transposed, tn_t(at, ROWS(a)))
CALCULATION(turned, tn_permute(at, tn_view(at, tn_slice(at, a, .end = 70000), TN_INTS(7, 10, 100, 10)),
                               TN_INTS(3, 1, 0, 2)))
CALCULATION(total, tn_sum(at, a))
CALCULATION(sums_of_rows, tn_sum_dim(at, ROWS(a), TN_INTS(1)))
CALCULATION(sums_of_columns, tn_sum_dim(at, ROWS(a), TN_INTS(0)))
CALCULATION(largest_of_columns, tn_amax(at, ROWS(a), .dim = TN_INTS(0)))
CALCULATION(largest_of_rows, tn_amax(at, ROWS(a), .dim = TN_INTS(1)))
CALCULATION(places_of_largest, tn_argmax(at, ROWS(a), .dim = 1))
CALCULATION(running_sum, tn_cumsum(at, a, 0))
CALCULATION(product_of_both, tn_mm(at, ROWS(a), tn_t(at, ROWS(b))))
CALCULATION(product_with_columns, tn_mm(at, tn_slice(at, tn_t(at, ROWS(a)), .end = 77), ROWS(b)))
CALCULATION(shares, tn_softmax(at, ROWS(a), 1))
CALCULATION(log_shares, tn_log_softmax(at, ROWS(a), 1))
CALCULATION(normalised, tn_layer_norm(at, ROWS(a), TN_INTS(700)))
CALCULATION(normalised_and_scaled,
            tn_layer_norm(at, ROWS(a), TN_INTS(700), .weight = tn_slice(at, b, .end = 700),
                          .bias = tn_slice(at, b, .start = 700, .end = 1400)))
/* Calls with windows, channels, rows of tables and products with more than two operands. */
#define IMAGES(x)  tn_view(at, tn_slice(at, x, .end = 70000), TN_INTS(5, 4, 50, 70))
#define WEIGHT(x)  tn_view(at, tn_slice(at, x, .end = 288), TN_INTS(8, 4, 3, 3))
#define CHANNEL(x) tn_slice(at, x, .start = 400, .end = 404)
CALCULATION(convolution, tn_conv2d(at, IMAGES(a), WEIGHT(b), .padding = TN_INTS(1), .stride = TN_INTS(2)))
CALCULATION(convolution_of_neighbours,
            tn_conv2d(at, tn_slice(at, IMAGES(a), .end = 2), WEIGHT(b), .padding = TN_INTS(1)))
CALCULATION(groups_normalised,
            tn_native_group_norm(at, IMAGES(a), CHANNEL(a), CHANNEL(b), 5, 4, 3500, 2, 1e-5).result0)
CALCULATION(groups_without_weight,
            tn_native_group_norm(at, IMAGES(b), NULL, NULL, 5, 4, 3500, 4, 1e-5).result0)
CALCULATION(enlarged, tn_upsample_nearest2d(at, tn_slice(at, IMAGES(a), .end = 1), TN_INTS(100, 133)))
CALCULATION(convolution_of_channels,
            tn_conv2d(at, IMAGES(a), tn_view(at, tn_slice(at, b, .end = 36), TN_INTS(4, 1, 3, 3)),
                      .groups = 4))
CALCULATION(transposed_convolution,
            tn_conv_transpose2d(at, tn_slice(at, IMAGES(a), .dim = 2, .end = 20),
                                tn_view(at, tn_slice(at, b, .end = 72), TN_INTS(4, 2, 3, 3)),
                                .padding = TN_INTS(1)))
CALCULATION(batch_normalised,
            tn_native_batch_norm(at, IMAGES(a), CHANNEL(a), CHANNEL(b), NULL, NULL, 1, 0.1, 1e-5).result0)
CALCULATION(largest_of_windows,
            tn_max_pool2d(at, IMAGES(a), TN_INTS(3), .stride = TN_INTS(2), .padding = TN_INTS(1)))
CALCULATION(means_of_windows, tn_avg_pool2d(at, IMAGES(a), TN_INTS(3), .padding = TN_INTS(1)))
CALCULATION(means_of_parts, tn_adaptive_avg_pool2d(at, IMAGES(a), TN_INTS(7, 9)))
CALCULATION(linear_layer,
            tn_linear(at, ROWS(a), tn_slice(at, ROWS(b), .end = 50), .bias = tn_slice(at, a, .end = 50)))
CALCULATION(scaled_product, tn_addmm(at, tn_slice(at, b, .end = 100), ROWS(a), tn_t(at, ROWS(b)),
                                     .beta = TN_SCALAR(0.5), .alpha = TN_SCALAR(0.25)))
CALCULATION(sorted_rows, tn_sort(at, ROWS(a)).values)
CALCULATION(sorted_columns, tn_sort_stable(at, ROWS(b), 1, .dim = 0, .descending = 1).indices)
CALCULATION(best_of_rows, tn_topk(at, ROWS(a), 7).values)
CALCULATION(least_of_all, tn_topk(at, a, 5, .largest = 0).values)
CALCULATION(rows_of_a_table, tn_embedding(at, ROWS(a),
                                          tn__to_copy(at,
                                                      tn_clamp(at, tn_slice(at, b, .end = 60),
                                                               .min = TN_SCALAR(0), .max = TN_SCALAR(6)),
                                                      .dtype = TN_INT64)))
#define POSITIONS(x, count, most)                                                                         \
    tn__to_copy(at,                                                                                       \
                tn_clamp(at, tn_mul_scalar(at, tn_slice(at, x, .end = count), 16.0), .min = TN_SCALAR(0), \
                         .max = TN_SCALAR(most)),                                                         \
                .dtype = TN_INT64)
CALCULATION(chosen_rows, tn_index_select(at, ROWS(a), 0, POSITIONS(b, 60, 99)))
CALCULATION(chosen_columns, tn_index_select(at, ROWS(a), 1, POSITIONS(b, 60, 99)))
CALCULATION(chosen_planes, tn_index_select(at, IMAGES(a), 2, POSITIONS(b, 33, 49)))
CALCULATION(gathered, tn_gather(at, ROWS(a), 1, tn_view(at, POSITIONS(b, 50000, 699), TN_INTS(100, 500))))
CALCULATION(turned_around, tn_flip(at, IMAGES(a), TN_INTS(0, 3)))
CALCULATION(running_log_sum, tn_logcumsumexp(at, ROWS(a), 1))
CALCULATION(largest_of_all, tn_max(at, a))
/* Lines in so many parts that a group finds what is in front of each. All sums of the third are nearly that of its first terms. */
CALCULATION(largest_so_far, tn_cummax(at, tn_sub(at, a, b), 0).values)
CALCULATION(places_of_least_so_far, tn_cummin(at, tn_add(at, a, b), 0).indices)
CALCULATION(log_sums_of_small_terms,
            tn_logcumsumexp(at, tn_mul_scalar(at, tn_cumsum(at, tn_ones_like(at, a), 0), -0.37), 0))
CALCULATION(places_that_are_not_0, tn_nonzero(at, tn_relu(at, tn_sub_scalar(at, a, 4.0))))
CALCULATION(coordinates_that_are_not_0, tn_nonzero(at, tn_relu(at, tn_sub_scalar(at, IMAGES(a), 6.0))))
CALCULATION(running_sums_of_rows, tn_cumsum(at, ROWS(a), 1))
CALCULATION(running_sums_of_columns, tn_cumsum(at, ROWS(a), 0))
CALCULATION(products_of_rows, tn_prod_dim(at, tn_mul_scalar(at, ROWS(a), 0.25), 1))
CALCULATION(any_of_rows, tn_any_dim(at, tn_gt_scalar(at, ROWS(a), TN_SCALAR(7.85)), 1))
CALCULATION(sums_of_integers,
            tn_sum_dim(at, tn__to_copy(at, tn_mul_scalar(at, ROWS(a), 64.0), .dtype = TN_INT64), TN_INTS(1)))
/* Reductions of each form: few lines beside each other, short lines, several dimensions, equal elements, NaN. */
#define PLANES(x) tn_view(at, tn_slice(at, x, .end = 69984), TN_INTS(6, 54, 6, 36))
CALCULATION(sums_of_few_columns,
            tn_sum_dim(at, tn_view(at, tn_slice(at, a, .end = 70000), TN_INTS(14000, 5)), TN_INTS(0)))
CALCULATION(sums_of_short_rows,
            tn_sum_dim(at, tn_view(at, tn_slice(at, a, .end = 70000), TN_INTS(7000, 10)), TN_INTS(1)))
CALCULATION(sums_of_channels, tn_sum_dim(at, PLANES(a), TN_INTS(0, 2, 3)))
CALCULATION(sums_of_planes, tn_sum_dim(at, PLANES(a), TN_INTS(1, 3)))
CALCULATION(means_of_every_other,
            tn_mean_dim(at, tn_slice(at, PLANES(a), .dim = 3, .step = 2), TN_INTS(0, 2)))
CALCULATION(largest_of_channels, tn_amax(at, PLANES(b), .dim = TN_INTS(0, 2, 3)))
CALCULATION(first_of_largest, tn_argmax(at, a))
CALCULATION(first_of_least, tn_argmin(at, ROWS(a), .dim = 0))
CALCULATION(places_of_nan, tn_argmax(at, tn_log(at, ROWS(a)), .dim = 1))
CALCULATION(least_with_nan, tn_amin(at, tn_log(at, ROWS(a)), .dim = TN_INTS(0)))
CALCULATION(all_of_columns, tn_all_dim(at, tn_gt_scalar(at, ROWS(a), TN_SCALAR(-7.7)), 0))
CALCULATION(sum_of_infinities, tn_sum_dim(at, tn_reciprocal(at, tn_relu(at, ROWS(a))), TN_INTS(0)))
CALCULATION(matrix_and_vector, tn_mv(at, ROWS(a), tn_slice(at, b, .end = 700)))
CALCULATION(one_row, tn_linear(at, tn_slice(at, a, .end = 700), ROWS(b)))
CALCULATION(gradient_of_shares,
            tn__softmax_backward_data(at, ROWS(b), tn_softmax(at, ROWS(a), 1), 1, tn_tensor_dtype(a)))

/* The gradients of a convolution and of layer normalisation by their own operators, one after the other in a line. */
static tn_tensor *in_a_line(tn_scope *at, tn_tensor *first, tn_tensor *second, tn_tensor *third)
{
    tn_tensor *parts[] = {tn_flatten(at, first), tn_flatten(at, second), tn_flatten(at, third)};
    return tn_cat(at, (tn_tensors){parts, 3});
}
static tn_tensor *gradients_of_convolution_of(tn_scope *at, tn_tensor *a, tn_tensor *b)
{
    tn_tensor *images = tn_slice(at, IMAGES(a), .dim = 2, .end = 20);
    tn_tensor *grad = tn_view(at, tn_slice(at, b, .end = 5 * 8 * 20 * 70), TN_INTS(5, 8, 20, 70));
    tn_convolution_backward_result g =
        tn_convolution_backward(at, grad, images, WEIGHT(b), TN_INTS(8), TN_INTS(1), TN_INTS(1), TN_INTS(1),
                                0, TN_INTS(0), 1, TN_BOOLS(1, 1, 1));
    return in_a_line(at, g.result0, tn_mul_scalar(at, g.result1, 0.01), tn_mul_scalar(at, g.result2, 0.01));
}
/* Few elements of the weight, and windows of all images for each. */
static tn_tensor *gradients_of_channels_of(tn_scope *at, tn_tensor *a, tn_tensor *b)
{
    tn_tensor *images = tn_slice(at, IMAGES(a), .dim = 2, .end = 20), *none = tn_slice(at, a, .end = 0);
    tn_tensor *weight = tn_view(at, tn_slice(at, b, .end = 36), TN_INTS(4, 1, 3, 3));
    tn_tensor *grad = tn_view(at, tn_slice(at, b, .end = 5 * 4 * 10 * 70), TN_INTS(5, 4, 10, 70));
    tn_convolution_backward_result g =
        tn_convolution_backward(at, grad, images, weight, TN_INTS(0), TN_INTS(2, 1), TN_INTS(1), TN_INTS(1),
                                0, TN_INTS(0), 4, TN_BOOLS(0, 1, 0));
    return in_a_line(at, tn_mul_scalar(at, g.result1, 0.01), none, none);
}
static tn_tensor *gradients_of_normalisation_of(tn_scope *at, tn_tensor *a, tn_tensor *b)
{
    tn_tensor *x = tn_slice(at, ROWS(a), .end = 90);
    tn_native_layer_norm_result n =
        tn_native_layer_norm(at, x, TN_INTS(700), tn_slice(at, b, .end = 700), NULL, 1e-5);
    tn_native_layer_norm_backward_result g = tn_native_layer_norm_backward(
        at, tn_slice(at, ROWS(b), .end = 90), x, TN_INTS(700), n.result1, n.result2,
        tn_slice(at, b, .end = 700), tn_slice(at, a, .end = 700), TN_BOOLS(1, 1, 1));
    return in_a_line(at, tn_mul_scalar(at, g.result0, 0.1), tn_mul_scalar(at, g.result1, 0.1),
                     tn_mul_scalar(at, g.result2, 0.1));
}

/* Lines that are not the last dimension, short ones, few long ones, and infinities. */
CALCULATION(shares_of_columns, tn_softmax(at, ROWS(a), 0))
CALCULATION(shares_of_channels, tn_log_softmax(at, IMAGES(b), 1))
CALCULATION(shares_of_short_rows,
            tn_softmax(at, tn_view(at, tn_slice(at, a, .end = 70000), TN_INTS(10000, 7)), 1))
CALCULATION(shares_of_all, tn_log_softmax(at, a, 0))
CALCULATION(shares_of_long_columns,
            tn_softmax(at, tn_view(at, tn_slice(at, a, .end = 70000), TN_INTS(1750, 40)), 0))
CALCULATION(shares_with_infinities,
            tn_softmax(at, tn_log(at, tn_relu(at, tn_slice(at, ROWS(a), .end = 50))), 1))
CALCULATION(shares_of_nothing, tn_softmax(at, tn_log(at, tn_mul_scalar(at, ROWS(a), 0.0)), 1))
CALCULATION(gradient_of_log_shares,
            tn__log_softmax_backward_data(at, IMAGES(b), tn_log_softmax(at, IMAGES(a), 1), 1,
                                          tn_tensor_dtype(a)))
CALCULATION(normalised_short_rows,
            tn_layer_norm(at, tn_view(at, tn_slice(at, a, .end = 70000), TN_INTS(7000, 10)), TN_INTS(10)))
CALCULATION(by_the_mean_square, tn_rms_norm(at, ROWS(a), TN_INTS(700), .weight = tn_slice(at, b, .end = 700)))
CALCULATION(batch_of_vectors_normalised,
            tn_native_batch_norm(at, ROWS(a), tn_slice(at, b, .end = 700), tn_slice(at, a, .end = 700), NULL,
                                 NULL, 1, 0.1, 1e-5)
                .result0)
static tn_tensor *gradients_of_batch_normalisation_of(tn_scope *at, tn_tensor *a, tn_tensor *b)
{
    tn_tensor *x = tn_slice(at, IMAGES(a), .end = 4), *g_out = tn_slice(at, IMAGES(b), .end = 4);
    tn_native_batch_norm_result n =
        tn_native_batch_norm(at, x, CHANNEL(a), CHANNEL(b), NULL, NULL, 1, 0.1, 1e-5);
    tn_native_batch_norm_backward_result g = tn_native_batch_norm_backward(
        at, g_out, x, CHANNEL(a), NULL, NULL, n.result1, n.result2, 1, 1e-5, TN_BOOLS(1, 1, 1));
    return in_a_line(at, tn_mul_scalar(at, g.result0, 0.1), tn_mul_scalar(at, g.result1, 0.001),
                     tn_mul_scalar(at, g.result2, 0.001));
}
static tn_tensor *gradients_by_the_mean_square_of(tn_scope *at, tn_tensor *a, tn_tensor *b)
{
    tn_tensor *weight = tn_slice(at, b, .end = 700), *x = tn_slice(at, ROWS(a), .end = 90);
    tn__fused_rms_norm_result n = tn__fused_rms_norm(at, x, TN_INTS(700), weight, 1e-5);
    tn__fused_rms_norm_backward_result g = tn__fused_rms_norm_backward(
        at, tn_slice(at, ROWS(b), .end = 90), x, TN_INTS(700), n.result1, weight, TN_BOOLS(1, 1));
    return in_a_line(at, tn_mul_scalar(at, g.result0, 0.1), tn_mul_scalar(at, g.result1, 0.1), weight);
}

/* Attention: four heads of 50 positions with 70 features, and two heads of keys and values. */
#define HEADS(x) tn_mul_scalar(at, tn_slice(at, IMAGES(x), .end = 1), 0.125)
CALCULATION(attended, tn_scaled_dot_product_attention(at, HEADS(a), HEADS(b), HEADS(a), .is_causal = 1))
CALCULATION(attended_with_a_mask,
            tn_scaled_dot_product_attention(at, HEADS(a), tn_slice(at, HEADS(b), .dim = 1, .end = 2),
                                            tn_slice(at, HEADS(a), .dim = 1, .start = 2), .enable_gqa = 1,
                                            .attn_mask = tn_view(at, tn_slice(at, b, .end = 2500),
                                                                 TN_INTS(50, 50))))
static tn_tensor *gradients_of_attention(tn_scope *at, tn_tensor *a, tn_tensor *b, int is_causal,
                                         int64_t heads)
{
    tn_tensor *q = HEADS(a), *k = tn_slice(at, HEADS(b), .dim = 1, .end = heads),
              *v = tn_slice(at, HEADS(a), .dim = 1, .end = heads);
    tn__scaled_dot_product_flash_attention_for_cpu_result f =
        tn__scaled_dot_product_flash_attention_for_cpu(at, q, k, v, .is_causal = is_causal);
    tn__scaled_dot_product_flash_attention_for_cpu_backward_result g =
        tn__scaled_dot_product_flash_attention_for_cpu_backward(at, HEADS(b), q, k, v, f.output, f.logsumexp,
                                                                0, is_causal);
    return in_a_line(at, g.grad_query, g.grad_key, g.grad_value);
}
CALCULATION(gradients_of_causal_attention, gradients_of_attention(at, a, b, 1, 4))
CALCULATION(gradients_of_shared_attention, gradients_of_attention(at, a, b, 0, 2))

static const struct {
    const char *name;
    calculation compute;
    int32_t is_sum; /* rounds as often as it has terms */
} calls[] = {
#define ROW(name, is_sum)        \
    {                            \
#name, name##_of, is_sum \
    }
    ROW(sum_of_both, 0),
    ROW(scaled, 0),
    ROW(comparison, 0),
    ROW(power, 0),
    ROW(rectified, 0),
    ROW(smooth, 0),
    ROW(choice, 0),
    ROW(with_a_row, 0),
    ROW(with_a_column, 0),
    ROW(part_of_rows, 0),
    ROW(transposed, 0),
    ROW(turned, 0),
    ROW(total, 1),
    ROW(sums_of_rows, 1),
    ROW(sums_of_columns, 1),
    ROW(largest_of_columns, 0),
    ROW(largest_of_rows, 0),
    ROW(places_of_largest, 0),
    ROW(running_sum, 1),
    ROW(product_of_both, 1),
    ROW(product_with_columns, 1),
    ROW(shares, 1),
    ROW(log_shares, 1),
    ROW(normalised, 1),
    ROW(normalised_and_scaled, 1),
    ROW(convolution, 1),
    ROW(convolution_of_neighbours, 1),
    ROW(groups_normalised, 1),
    ROW(groups_without_weight, 1),
    ROW(enlarged, 0),
    ROW(convolution_of_channels, 1),
    ROW(transposed_convolution, 1),
    ROW(batch_normalised, 1),
    ROW(largest_of_windows, 0),
    ROW(means_of_windows, 1),
    ROW(means_of_parts, 1),
    ROW(linear_layer, 1),
    ROW(scaled_product, 1),
    ROW(sorted_rows, 0),
    ROW(sorted_columns, 0),
    ROW(best_of_rows, 0),
    ROW(least_of_all, 0),
    ROW(rows_of_a_table, 0),
    ROW(attended, 1),
    ROW(attended_with_a_mask, 1),
    ROW(gradients_of_causal_attention, 1),
    ROW(gradients_of_shared_attention, 1),
    ROW(chosen_rows, 0),
    ROW(chosen_columns, 0),
    ROW(chosen_planes, 0),
    ROW(gathered, 0),
    ROW(turned_around, 0),
    ROW(running_log_sum, 1),
    ROW(largest_of_all, 0),
    ROW(largest_so_far, 0),
    ROW(places_of_least_so_far, 0),
    ROW(log_sums_of_small_terms, 1),
    ROW(places_that_are_not_0, 0),
    ROW(coordinates_that_are_not_0, 0),
    ROW(running_sums_of_rows, 1),
    ROW(running_sums_of_columns, 1),
    ROW(products_of_rows, 1),
    ROW(any_of_rows, 0),
    ROW(sums_of_integers, 0),
    ROW(sums_of_few_columns, 1),
    ROW(sums_of_short_rows, 1),
    ROW(sums_of_channels, 1),
    ROW(sums_of_planes, 1),
    ROW(means_of_every_other, 1),
    ROW(largest_of_channels, 0),
    ROW(first_of_largest, 0),
    ROW(first_of_least, 0),
    ROW(places_of_nan, 0),
    ROW(least_with_nan, 0),
    ROW(all_of_columns, 0),
    ROW(sum_of_infinities, 0),
    ROW(matrix_and_vector, 1),
    ROW(one_row, 1),
    ROW(gradient_of_shares, 1),
    ROW(gradients_of_convolution, 1),
    ROW(gradients_of_channels, 1),
    ROW(gradients_of_normalisation, 1),
    ROW(shares_of_columns, 1),
    ROW(shares_of_channels, 1),
    ROW(shares_of_short_rows, 1),
    ROW(shares_of_all, 1),
    ROW(shares_of_long_columns, 1),
    ROW(shares_with_infinities, 1),
    ROW(shares_of_nothing, 1),
    ROW(gradient_of_log_shares, 1),
    ROW(normalised_short_rows, 1),
    ROW(by_the_mean_square, 1),
    ROW(batch_of_vectors_normalised, 1),
    ROW(gradients_of_batch_normalisation, 1),
    ROW(gradients_by_the_mean_square, 1)};

Test(large, calls_agree_with_the_cpu)
{
    static const struct {
        tn_dtype dtype;
        double tolerance;
    } dtypes[] = {{TN_FLOAT32, 1e-6}, {TN_BFLOAT16, 8e-3}, {TN_FLOAT16, 1e-3}};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++)
            expect_as_cpu(calls[i].name, dtypes[k].dtype, dtypes[k].tolerance * (calls[i].is_sum ? 8 : 1),
                          calls[i].compute);
    expect_as_cpu("sum", TN_INT32, 0, sum_of_both_of);
    expect_as_cpu("sum", TN_INT64, 0, sum_of_both_of);
    expect_as_cpu("comparison", TN_UINT8, 0, comparison_of);
}

Test(large, shares_have_the_same_bits_each_time)
{
    static float numbers[70000], first[70000], again[70000];
    for (int i = 0; i < 70000; i++) numbers[i] = (float)(i % 1013) / 64;
    tn_tensor *rows = tn_from_data(s, TN_FLOAT32, TN_INTS(100, 700), numbers, device);
    for (int k = 0; k < 3; k++) {
        tn_tensor *shares = tn_layer_norm(s, tn_softmax(s, rows, 1), TN_INTS(700));
        cr_assert_eq(tn_to_host(s, shares, k ? again : first, sizeof first), TN_OK);
        cr_assert_eq(memcmp(first, again, k ? sizeof first : 0), 0);
    }
}

Test(large, sums_have_the_same_bits_each_time)
{
    static float numbers[LARGE], first[700], again[700];
    for (int i = 0; i < LARGE; i++) numbers[i] = 1.0f / (float)(1 + i % 1013);
    tn_tensor *a = tn_from_data(s, TN_FLOAT32, TN_INTS(LARGE), numbers, device);
    tn_tensor *rows = tn_view(s, tn_slice(s, a, .end = 70000), TN_INTS(100, 700));
    for (int k = 0; k < 4; k++) {
        cr_assert_eq(tn_to_host(s, tn_sum(s, a), k ? again : first, sizeof *first), TN_OK);
        cr_assert_eq(memcmp(first, again, k ? sizeof *first : 0), 0);
    }
    for (int k = 0; k < 4; k++) {
        tn_tensor *sums = tn_sum_dim(s, rows, TN_INTS(0));
        cr_assert_eq(tn_to_host(s, sums, k ? again : first, sizeof first), TN_OK);
        cr_assert_eq(memcmp(first, again, k ? sizeof first : 0), 0);
    }
}
