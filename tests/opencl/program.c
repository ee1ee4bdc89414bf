/* SPDX-License-Identifier: Apache-2.0 */
/* What a program sees when something goes wrong on an OpenCL device, and that it can go on afterwards. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>
#include "../gpu/device_suite.h"

#ifndef DEVICE
#define DEVICE "opencl" /* the type of the device; others run the tests of large calls only */
#endif

static void open_device(void)
{
    open_first(NULL, DEVICE, "no device of type " DEVICE);
    s = scope_on_device();
}
TestSuite(program, .init = open_device, .fini = close_device);

/* ---- Before the first use ------------------------------------------------------------------------------ */

static int has_driver(void)
{
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) found |= strstr(line, "libOpenCL") != NULL;
    if (maps) fclose(maps);
    return found;
}

/* 11 + 22 on the device, in a context of its own; 0 if all went well. */
static int compute_in_child(void)
{
    tn_context *own;
    float values[2] = {0};
    alarm(60);
    if (tn_context_create(NULL, &own)) return 1;
    tn_scope *scope = tn_scope_open(own);
    tn_tensor *x =
        tn_from_data(scope, TN_FLOAT32, TN_INTS(2), (float[]){1, 2}, tn_device_parse(own, "opencl:0"));
    if (tn_to_host(scope, tn_add(scope, x, x), values, sizeof values)) return 2;
    return values[0] == 2 && values[1] == 4 ? 0 : 3;
}

/* A driver that has started cannot be used in a child: so it starts when a program first asks for its devices. */
Test(start, a_child_that_is_forked_before_the_first_use_computes)
{
    tn_context *own;
    int status = 0;
    cr_assert_eq(tn_context_create(NULL, &own), TN_OK);
    tn_scope *scope = tn_scope_open(own);
    cr_assert_eq(tn_item_double(scope, tn_sum(scope, tn_ones(scope, TN_INTS(3)))), 3);
    cr_assert_not(has_driver());
    pid_t child = fork();
    if (!child) _exit(compute_in_child());
    waitpid(child, &status, 0);
    if (tn_device_count(own, "opencl") == 0) cr_skip_test("no OpenCL device (Debian: pocl-opencl-icd)");
    cr_assert(has_driver());
    cr_assert(WIFEXITED(status), "signal %d", WTERMSIG(status));
    cr_assert_eq(WEXITSTATUS(status), 0);
    tn_scope_close(scope);
    tn_context_destroy(own);
}

static tn_tensor *numbers(tn_dtype dtype, int64_t count, const double *values)
{
    return tn__to_copy(s, tn_from_data(s, TN_FLOAT64, TN_INTS(count), values, device), .dtype = dtype);
}

/* Fetching `t` gives this error, and the device works afterwards. */
static void expect_late(const tn_tensor *t, int32_t status, const char *text)
{
    char out[64];
    uint64_t bytes = t ? (uint64_t)(tn_tensor_numel(t) * tn_dtype_bytes(tn_tensor_dtype(t))) : 0;
    int32_t got = t ? tn_to_host(s, t, out, bytes) : tn_scope_failed(s);
    if (!got) got = tn_device_synchronize(ctx, device);
    cr_assert_eq(got, status, "status %d", got);
    const tn_error *error = tn_scope_failed(s) ? tn_scope_error(s) : tn_last_error();
    cr_assert_not_null(error);
    cr_assert_not_null(strstr(error->message, text), "%s", error->message);
    tn_scope_clear(s);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK, "the error comes once");
    tn_tensor *sum =
        tn_add(s, numbers(TN_FLOAT32, 2, (double[]){1, 2}), numbers(TN_FLOAT32, 2, (double[]){10, 20}));
    float values[2];
    cr_assert_eq(tn_to_host(s, sum, values, sizeof values), TN_OK);
    cr_assert(values[0] == 11 && values[1] == 22);
}

Test(program, an_index_out_of_bounds_is_reported_late)
{
    tn_tensor *x = numbers(TN_FLOAT32, 5, (double[]){0, 1, 2, 3, 4});
    expect_late(tn_gather(s, x, 0, numbers(TN_INT64, 2, (double[]){1, 7})), TN_E_INDEX,
                "gather: index 7 is out of bounds for dimension with size 5");
}

Test(program, index_select_checks_its_index)
{
    tn_tensor *x = numbers(TN_FLOAT32, 16, (double[16]){0, 1, 2, 3}), *rows = tn_view(s, x, TN_INTS(2, 8));
    tn_tensor *index = numbers(TN_INT64, 2, (double[]){1, 2});
    expect_late(tn_index_select(s, rows, 0, index), TN_E_INDEX, "index out of range in self");
    expect_late(tn_index_select(s, tn_t(s, rows), 1, index), TN_E_INDEX, "index out of range in self");
}

/* The index has another rank than what it goes into, which is allowed because it is empty. */
Test(program, the_gradient_of_a_gather_of_nothing_is_zero)
{
    float values[5] = {9, 9, 9, 9, 9};
    tn_tensor *x = numbers(TN_FLOAT32, 5, (double[]){0, 1, 2, 3, 4});
    tn_set_requires_grad(x, 1);
    tn_tensor *none = tn_empty(s, TN_INTS(2, 0), .dtype = TN_INT64, .device = device);
    tn_backward(s, tn_sum(s, tn_gather(s, x, 0, none)));
    cr_assert_eq(tn_to_host(s, tn_grad_of(s, x), values, sizeof values), TN_OK);
    for (int i = 0; i < 5; i++) cr_assert_eq(values[i], 0);
}

Test(program, scatter_checks_its_index_and_writes_nothing_outside)
{
    tn_tensor *x = numbers(TN_FLOAT32, 3, (double[]){1, 2, 3});
    tn_tensor *index = numbers(TN_INT64, 3, (double[]){0, -4, 2}),
              *source = numbers(TN_FLOAT32, 3, (double[]){7, 8, 9});
    float values[3];
    tn_scatter_(s, x, 0, index, source);
    expect_late(NULL, TN_E_INDEX, "scatter: index -4 is out of bounds for dimension with size 3");
    cr_assert_eq(tn_to_host(s, x, values, sizeof values), TN_OK);
    cr_assert(values[0] == 7 && values[1] == 2 && values[2] == 9);
}

Test(program, an_integer_division_by_zero)
{
    expect_late(
        tn_floor_divide(s, numbers(TN_INT32, 2, (double[]){1, 2}), numbers(TN_INT32, 2, (double[]){1, 0})),
        TN_E_ARGUMENT, "ZeroDivisionError");
}

Test(program, more_memory_than_there_is)
{
    tn_tensor *x = tn_empty(s, TN_INTS(1ll << 40), .dtype = TN_FLOAT32);
    cr_assert_null(x);
    cr_assert_eq(tn_scope_failed(s), TN_E_OUT_OF_MEMORY);
    tn_scope_clear(s);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
}

Test(program, operands_of_another_device)
{
    tn_tensor *here = numbers(TN_FLOAT32, 2, (double[]){1, 2});
    tn_tensor *there = tn_from_data(s, TN_FLOAT32, TN_INTS(2), (float[]){1, 2}, tn_device_parse(ctx, "cpu"));
    cr_assert_null(tn_add(s, here, there));
    cr_assert_eq(tn_scope_failed(s), TN_E_DEVICE);
    cr_assert_not_null(strstr(tn_scope_error(s)->message, "opencl:0"), "%s", tn_scope_error(s)->message);
    cr_assert_not_null(strstr(tn_scope_error(s)->message, "cpu"), "%s", tn_scope_error(s)->message);
    tn_scope_clear(s);
}

/* 1 + 1/2 + ... + 1/n is the logarithm of n, Euler's constant and 1 / 2n to within 1 / 12n^2. */
Test(program, long_sums_keep_their_digits)
{
    const double n = 1000000;
    tn_tensor *terms = tn_reciprocal(s, tn_arange_start(s, 1.0, n + 1, .dtype = TN_FLOAT32));
    double want = log(n) + 0.57721566490153286 + 1 / (2 * n);
    cr_assert_float_eq(tn_item_double(s, tn_sum(s, terms)), want, 2e-6);
    cr_assert_float_eq(tn_item_double(s, tn_select(s, tn_cumsum(s, terms, 0), 0, -1)), want, 2e-6);
    cr_assert_eq(tn_scope_failed(s), TN_OK);
}

/* 7 is a generator modulo 2^31 - 1: its powers are spread, and no two of the first 2^31 - 2 are the same. */
Test(program, a_long_line_is_sorted)
{
    enum { N = 20000 };
    static int64_t values[N], sorted[N], positions[N];
    int64_t power = 1;
    for (int i = 0; i < N; i++) values[i] = power = power * 7 % 2147483647;
    tn_tensor *t = tn_from_data(s, TN_INT64, TN_INTS(N), values, device);
    tn_sort_result out = tn_sort(s, t);
    cr_assert_eq(tn_to_host(s, out.values, sorted, sizeof sorted), TN_OK);
    cr_assert_eq(tn_to_host(s, out.indices, positions, sizeof positions), TN_OK);
    for (int i = 0; i < N; i++) {
        cr_assert(i == 0 || sorted[i - 1] < sorted[i]);
        cr_assert_eq(values[positions[i]], sorted[i]);
    }
}

/* native_library.c queues a kernel of its own on the plugin's stream, in order with the plugin's work. */
Test(program, a_library_of_kernels_gets_the_native_handles)
{
    float values[2];
    uint64_t context = 0;
    cr_assert_eq(tn_library_open(ctx, getenv("TENON_TEST_LIBRARY"), NULL), TN_OK, "%s",
                 tn_last_error()->message);
    tn_tensor *x = numbers(TN_FLOAT32, 4, (double[]){1, 2, 3, 4});
    tn_tensor *part = tn_narrow(s, tn_add_(s, x, x), 0, 1, 2);
    tn_value args[] = {tn_value_tensor(part), tn_value_float(0.25)}, out = tn_value_none();
    tn_scope_call(s, tn_operator_find(ctx, "clnative::scale"), args, 2, &out, 1);
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_error(s)->message);
    tn_tensor *after = tn_mul_scalar(s, out.as.tensor, 2.0);
    cr_assert_eq(tn_to_host(s, after, values, sizeof values), TN_OK);
    cr_assert(values[0] == 2 && values[1] == 3, "%f %f", (double)values[0], (double)values[1]);
    cr_assert_eq(tn_device_native(ctx, device, TN_NATIVE_CONTEXT, &context), TN_OK);
    cr_assert_neq(context, 0);
}

/* ---- Large calls, which have kernels of their own ---------------------------------------------------------- */

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

Test(program, large_calls_agree_with_the_cpu)
{
    static const struct {
        const char *name;
        calculation compute;
        int32_t is_sum; /* rounds as often as it has terms */
    } rows[] = {
#define ROW(name, is_sum) {#name, name##_of, is_sum}
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
        ROW(gradients_of_normalisation, 1),
        ROW(shares_of_columns, 1),
        ROW(shares_of_channels, 1),
        ROW(shares_of_short_rows, 1),
        ROW(shares_of_all, 1),
        ROW(shares_with_infinities, 1),
        ROW(shares_of_nothing, 1),
        ROW(gradient_of_log_shares, 1),
        ROW(normalised_short_rows, 1),
        ROW(by_the_mean_square, 1),
        ROW(batch_of_vectors_normalised, 1),
        ROW(gradients_of_batch_normalisation, 1),
        ROW(gradients_by_the_mean_square, 1)};
    static const struct {
        tn_dtype dtype;
        double tolerance;
    } dtypes[] = {{TN_FLOAT32, 1e-6}, {TN_BFLOAT16, 8e-3}, {TN_FLOAT16, 1e-3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++)
            expect_as_cpu(rows[i].name, dtypes[k].dtype, dtypes[k].tolerance * (rows[i].is_sum ? 8 : 1),
                          rows[i].compute);
    expect_as_cpu("sum", TN_INT32, 0, sum_of_both_of);
    expect_as_cpu("sum", TN_INT64, 0, sum_of_both_of);
    expect_as_cpu("comparison", TN_UINT8, 0, comparison_of);
}

/* Values from Abramowitz and Stegun's tables and closed forms: gamma's relatives and those of the normal distribution. */
Test(program, special_functions_run_on_the_device)
{
    const float of_1[1] = {1};
    tn_tensor *one = tn_from_data(s, TN_FLOAT32, TN_INTS(1), of_1, device);
    tn_tensor *two = tn_add(s, one, one), *ten = tn_mul_scalar(s, one, 10.0);
    tn_inspect_fallback_reset(ctx);
    const struct {
        tn_tensor *got;
        double want;
    } rows[] = {
        {tn_digamma(s, one), -0.57721566},
        {tn_polygamma(s, 1, one), 1.64493407},  /* pi^2 / 6 */
        {tn_polygamma(s, 2, one), -2.40411381}, /* -2 zeta(3) */
        {tn_special_zeta(s, two, one), 1.64493407},
        {tn_special_zeta(s, tn_add(s, two, two), two), 0.08232323}, /* pi^4 / 90 - 1 */
        {tn_igamma(s, two, one), 0.26424112},                       /* 1 - 2 / e */
        {tn_igammac(s, two, one), 0.73575888},
        {tn_igammac(s, tn_mul_scalar(s, one, 0.5), two), 0.04550026}, /* erfc(sqrt 2) */
        {tn_igamma(s, tn_mul_scalar(s, one, 100.0), tn_mul_scalar(s, one, 100.0)), 0.51329880},
        {tn_special_ndtri(s, tn_mul_scalar(s, one, 0.975)), 1.95996398},
        {tn_special_ndtr(s, tn_neg(s, one)), 0.15865525},
        {tn_special_log_ndtr(s, tn_neg(s, ten)), -53.23128515},
        {tn_special_erfcx(s, ten), 0.05614099},
        {tn_special_erfcx(s, tn_neg(s, one)), 5.00898008},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double got = tn_item_double(s, rows[i].got);
        cr_assert_float_eq(got, rows[i].want, 2e-6 * (fabs(rows[i].want) + 1), "row %zu: %.9g, not %.9g", i,
                           got, rows[i].want);
    }
    cr_assert_eq(tn_inspect_fallback_count(ctx), 0);
}

static void expect_complex(tn_tensor *t, int64_t count, const double *want)
{
    double got[8];
    cr_assert_eq(tn_to_host(s, tn__to_copy(s, t, .dtype = TN_COMPLEX128), got, (uint64_t)count * 16), TN_OK);
    for (int64_t i = 0; i < 2 * count; i++)
        cr_assert_float_eq(got[i], want[i], 1e-6, "part %lld is %.9g, not %.9g", (long long)i, got[i],
                           want[i]);
}

/* Two numbers, 1 + 2i and 3 - 4i, in both dtypes; nothing runs on the CPU. */
Test(program, complex_numbers_are_computed_on_the_device)
{
    const double parts[4] = {1, 2, 3, -4};
    tn_tensor *wide = tn_from_data(s, TN_COMPLEX128, TN_INTS(2), parts, device);
    tn_tensor *both[] = {wide, tn__to_copy(s, wide, .dtype = TN_COMPLEX64)};
    tn_inspect_fallback_reset(ctx);
    for (int k = 0; k < 2; k++) {
        tn_tensor *z = both[k], *first = tn_slice(s, z, .end = 1), *second = tn_slice(s, z, .start = 1);
        expect_complex(tn_mul(s, first, second), 1, (double[]){11, 2});
        expect_complex(tn_div(s, first, second), 1, (double[]){-0.2, 0.4});
        expect_complex(tn_sub(s, first, second), 1, (double[]){-2, 6});
        expect_complex(tn_sqrt(s, second), 1, (double[]){2, -1});
        expect_complex(tn_exp(s, first), 1, (double[]){-1.1312043838, 2.4717266720});
        expect_complex(tn_log(s, second), 1, (double[]){1.6094379124, -0.9272952180});
        expect_complex(tn_reciprocal(s, second), 1, (double[]){0.12, 0.16});
        expect_complex(tn_abs(s, z), 2, (double[]){2.2360679775, 0, 5, 0});
        expect_complex(tn_angle(s, z), 2, (double[]){1.1071487178, 0, -0.9272952180, 0});
        expect_complex(tn_conj_physical(s, z), 2, (double[]){1, -2, 3, 4});
        expect_complex(tn_sum(s, z), 1, (double[]){4, -2});
        expect_complex(tn_mean(s, z), 1, (double[]){2, -1});
        expect_complex(tn_cumsum(s, z, 0), 2, (double[]){1, 2, 4, -2});
        expect_complex(tn_eq(s, z, first), 2, (double[]){1, 0, 0, 0});
        expect_complex(tn_mul_scalar(s, z, 2.0), 2, (double[]){2, 4, 6, -8});
    }
    cr_assert_eq(tn_inspect_fallback_count(ctx), 0);
}

Test(program, large_shares_have_the_same_bits_each_time)
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

Test(program, large_sums_have_the_same_bits_each_time)
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

/* ---- Pinned memory, queues of the program --------------------------------------------------------------- */

Test(program, copies_with_pinned_memory_need_not_be_waited_for)
{
    enum { COUNT = 3 << 20 };
    tn_tensor *there = tn_empty(s, TN_INTS(COUNT), .dtype = TN_FLOAT32, .device = device);
    tn_tensor *here =
        tn_arange(s, tn_value_int(COUNT), .dtype = TN_FLOAT32, .device = TN_CPU, .pin_memory = 1);
    cr_assert(tn_is_pinned(here), "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    tn_copy_(s, there, here, .non_blocking = 1);
    tn_tensor *twice = tn_add(s, there, there);
    tn_tensor *back = tn_to_dtype_layout(s, twice, .device = TN_CPU, .non_blocking = 1);
    cr_assert(tn_is_pinned(back));
    cr_assert_eq(tn_stream_synchronize(tn_stream_default(ctx, device)), TN_OK);
    const float *values = tn_tensor_data(back);
    for (int i = 0; i < COUNT; i++) cr_assert_eq(values[i], 2.0f * (float)i, "element %d", i);
    cr_assert_not(tn_scope_failed(s));
}

typedef struct cl_queue *make_queue_fn(void *context, void *id, uint64_t properties, int32_t *out_status);
typedef int32_t of_queue_fn(struct cl_queue *queue);

Test(program, a_queue_of_the_program_is_a_stream)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
    make_queue_fn *create;
    of_queue_fn *release, *finish;
    uint64_t context = 0, id = 0, native = 0;
    int32_t status = 0;
    tn_stream *stream = NULL;
    *(void **)&create = dlsym(library, "clCreateCommandQueue");
    *(void **)&release = dlsym(library, "clReleaseCommandQueue");
    *(void **)&finish = dlsym(library, "clFinish");
    cr_assert_eq(tn_device_native(ctx, device, TN_NATIVE_CONTEXT, &context), TN_OK);
    cr_assert_eq(tn_device_native(ctx, device, TN_NATIVE_DEVICE, &id), TN_OK);
    struct cl_queue *queue = create((void *)(uintptr_t)context, (void *)(uintptr_t)id, 0, &status);
    cr_assert_eq(status, 0);
    cr_assert_eq(tn_stream_wrap(ctx, device, (uint64_t)(uintptr_t)queue, &stream), TN_OK, "%s",
                 tn_last_error()->message);
    cr_assert_eq(tn_stream_native(stream, &native), TN_OK);
    cr_assert_eq(native, (uint64_t)(uintptr_t)queue);
    tn_stream_set_current(ctx, stream);
    tn_tensor *x = numbers(TN_FLOAT32, 2, (double[]){1, 2}), *y = tn_add(s, x, x);
    float values[2];
    cr_assert_eq(finish(queue), 0); /* the program's own wait is enough */
    while (!tn_stream_query(stream)) continue;
    cr_assert_eq(tn_to_host(s, y, values, sizeof values), TN_OK);
    cr_assert(values[0] == 2 && values[1] == 4);
    tn_stream_set_current(ctx, tn_stream_default(ctx, device));
    tn_drop(s, y);
    tn_drop(s, x);
    tn_stream_release(stream);
    cr_assert_eq(finish(queue), 0, "the queue is still the program's");
    release(queue);
    queue = create((void *)(uintptr_t)context, (void *)(uintptr_t)id, 1, &status); /* out of order */
    if (!status) {
        cr_assert_eq(tn_stream_wrap(ctx, device, (uint64_t)(uintptr_t)queue, &stream), TN_E_ARGUMENT);
        cr_assert_not_null(strstr(tn_last_error()->message, "out of order"), "%s", tn_last_error()->message);
        release(queue);
    }
}
