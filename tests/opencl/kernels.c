/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every kernel of the device code in each of its dtypes, from calls that are hardly larger than what chooses the kernel. Results
 * and gradients are those of the CPU plugin. oclgrind.py runs this program where each access of a kernel is checked.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include "../gpu/device_suite.h"

TestSuite(kernels, .init = open_without_fallback, .fini = close_device);

enum { MOST_INPUTS = 3, MOST_RANK = 5, MOST_RESULTS = 5 };

/* Computes on the device of the scope. `x` are the inputs of the row, all of one dtype. */
typedef tn_tensor *(*calculation)(tn_scope *at, tn_tensor *const *x);

enum { FLOATS = 1, INTEGERS = 2, COMPLEX = 4, WIDE = 8 }; /* WIDE: float32, float64 */

typedef struct row {
    const char *name;
    calculation compute;
    int32_t dtypes;
    int32_t is_differentiated;              /* gradients of all inputs are results, too */
    int64_t shapes[MOST_INPUTS][MOST_RANK]; /* 0 ends a shape */
} row;

/* What a call has computed, as float64. */
typedef struct results {
    uint32_t count;
    int64_t sizes[MOST_RESULTS];
    double *values[MOST_RESULTS];
} results;

/* ---- Inputs and results ------------------------------------------------------------------------------------- */

static int32_t is_complex(tn_dtype dtype)
{
    return dtype == TN_COMPLEX64 || dtype == TN_COMPLEX128;
}

static tn_tensor *input(tn_scope *at, tn_device on, const int64_t *shape, uint32_t seed, tn_dtype dtype)
{
    uint32_t rank = 0;
    int64_t count = 1;
    while (rank < MOST_RANK && shape[rank]) count *= shape[rank++];
    const int64_t parts = is_complex(dtype) ? 2 * count : count;
    double *numbers = malloc((size_t)parts * sizeof *numbers);
    for (int64_t i = 0; i < parts; i++)
        numbers[i] = (double)((i * 7919 + seed * 104729) % 509 - 200) / 64 + (i % 7) * 0.125;
    tn_tensor *t =
        tn_from_data(at, is_complex(dtype) ? TN_COMPLEX128 : TN_FLOAT64, (tn_ints){shape, rank}, numbers, on);
    free(numbers);
    if (dtype == TN_UINT8) t = tn_abs(at, t); /* what a negative number becomes is not defined */
    return tn__to_copy(at, t, .dtype = dtype);
}

static void keep(tn_scope *at, results *r, tn_tensor *t)
{
    cr_assert_lt(r->count, MOST_RESULTS);
    if (t && is_complex(tn_tensor_dtype(t)))
        t = tn_view_as_real(at, tn_contiguous(at, tn_resolve_conj(at, t)));
    t = tn_contiguous(at, tn__to_copy(at, t, .dtype = TN_FLOAT64));
    cr_assert_eq(tn_scope_failed(at), TN_OK, "%s", tn_scope_failed(at) ? tn_scope_error(at)->message : "");
    uint64_t bytes = (uint64_t)(r->sizes[r->count] = tn_tensor_numel(t)) * sizeof(double);
    r->values[r->count] = malloc(bytes);
    cr_assert_eq(tn_to_host(at, t, r->values[r->count++], bytes), TN_OK);
}

static void run(const row *c, tn_dtype dtype, tn_device on, results *r)
{
    tn_scope *at =
        tn_scope_open_with(ctx, &(tn_scope_options){.size = sizeof(tn_scope_options), .device = on});
    tn_tensor *x[MOST_INPUTS] = {NULL};
    uint32_t n = 0;
    for (; n < MOST_INPUTS && c->shapes[n][0]; n++) {
        x[n] = input(at, on, c->shapes[n], n, dtype);
        if (c->is_differentiated) cr_assert_eq(tn_set_requires_grad(x[n], 1), TN_OK);
    }
    tn_tensor *y = c->compute(at, x);
    cr_assert_eq(tn_scope_failed(at), TN_OK, "%s of %s: %s", c->name, tn_dtype_name(dtype),
                 tn_scope_failed(at) ? tn_scope_error(at)->message : "");
    keep(at, r, tn_detach(at, y));
    if (c->is_differentiated) {
        int64_t count = tn_tensor_numel(y);
        tn_tensor *weights =
            tn_view_as(at, input(at, on, (int64_t[MOST_RANK]){count}, 9, tn_tensor_dtype(y)), y);
        cr_assert_eq(tn_backward(at, tn_sum(at, tn_mul(at, y, weights))), TN_OK, "%s",
                     tn_last_error()->message);
        for (uint32_t i = 0; i < n; i++) keep(at, r, tn_grad_of(at, x[i]));
    }
    tn_scope_close(at);
}

/* Of the largest value: a rounding in the dtype, and of sums those of their terms. */
static double tolerance_of(tn_dtype dtype)
{
    switch (dtype) {
    case TN_FLOAT16:
        return 4e-3;
    case TN_BFLOAT16:
        return 3e-2;
    case TN_FLOAT32:
    case TN_COMPLEX64:
        return 2e-5;
    case TN_FLOAT64:
    case TN_COMPLEX128:
        return 1e-12;
    default:
        return 0;
    }
}

static void compare(const row *c, tn_dtype dtype)
{
    results want = {0}, got = {0};
    run(c, dtype, tn_device_parse(ctx, "cpu"), &want);
    run(c, dtype, device, &got);
    for (uint32_t k = 0; k < want.count; k++) {
        double largest = 0;
        cr_assert_eq(got.sizes[k], want.sizes[k]);
        for (int64_t i = 0; i < want.sizes[k]; i++)
            if (isfinite(want.values[k][i])) largest = fmax(largest, fabs(want.values[k][i]));
        cr_assert(largest > 0, "%s of %s: result %u has only zeros", c->name, tn_dtype_name(dtype), k);
        for (int64_t i = 0; i < want.sizes[k]; i++) {
            double a = got.values[k][i], b = want.values[k][i];
            cr_assert(a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= tolerance_of(dtype) * largest,
                      "%s of %s: element %lld of result %u is %.9g, not %.9g", c->name, tn_dtype_name(dtype),
                      (long long)i, k, a, b);
        }
        free(want.values[k]);
        free(got.values[k]);
    }
}

static void compare_all(const row *rows, size_t count)
{
    static const struct {
        tn_dtype dtype;
        int32_t of;
    } dtypes[] = {{TN_FLOAT16, FLOATS},        {TN_BFLOAT16, FLOATS},   {TN_FLOAT32, FLOATS | WIDE},
                  {TN_FLOAT64, FLOATS | WIDE}, {TN_UINT8, INTEGERS},    {TN_INT8, INTEGERS},
                  {TN_INT16, INTEGERS},        {TN_INT32, INTEGERS},    {TN_INT64, INTEGERS},
                  {TN_COMPLEX64, COMPLEX},     {TN_COMPLEX128, COMPLEX}};
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++)
            if (rows[i].dtypes & dtypes[k].of) compare(&rows[i], dtypes[k].dtype);
}
#define COMPARE_ALL(rows) compare_all(rows, sizeof rows / sizeof *(rows))
#define CALCULATION(name, ...)                                \
    static tn_tensor *name(tn_scope *at, tn_tensor *const *x) \
    {                                                         \
        return __VA_ARGS__;                                   \
    }
#define POSITIONS(count, most) \
    tn_remainder_scalar(at, tn_mul_scalar(at, tn_arange(at, count, .dtype = TN_INT64), 7), most)

/* ---- Moving elements ------------------------------------------------------------------------------------------ */

CALCULATION(parts_of_rows, tn_contiguous(at, tn_slice(at, x[0], .dim = 1, .end = 59)))
CALCULATION(transposed, tn_contiguous(at, tn_t(at, x[0])))
CALCULATION(gathered, tn_gather(at, x[0], 1, tn_view(at, POSITIONS(24, 7), TN_INTS(4, 6))))
CALCULATION(scattered, tn_scatter(at, x[0], 1, tn_view(at, POSITIONS(20, 7), TN_INTS(4, 5)), x[1]))
CALCULATION(scattered_and_added,
            tn_scatter_add(at, x[0], 1, tn_view(at, POSITIONS(20, 7), TN_INTS(4, 5)), x[1]))
CALCULATION(scattered_along_a_line, tn_scatter(at, x[0], 0, POSITIONS(300, 7), x[1]))
CALCULATION(added_along_a_line, tn_scatter_add(at, x[0], 0, POSITIONS(300, 7), x[1]))
CALCULATION(means_of_rows, tn_index_reduce(at, x[0], 0, POSITIONS(5, 4), x[1], "mean"))
CALCULATION(rows_of_a_table, tn_index_select(at, x[0], 0, POSITIONS(9, 4)))
CALCULATION(rows_added, tn_index_add(at, x[0], 0, POSITIONS(5, 4), x[1]))
CALCULATION(embedded, tn_embedding(at, x[0], POSITIONS(9, 4)))
CALCULATION(gradient_of_a_table, tn_embedding_dense_backward(at, x[0], POSITIONS(9, 4), 4, -1, 0))
CALCULATION(places, tn_nonzero(at, tn_gt_scalar(at, x[0], TN_SCALAR(1))))
CALCULATION(sequence, tn_arange_start(at, 3, 70, .dtype = tn_tensor_dtype(x[0])))
CALCULATION(sequence_of_halves, tn_arange_start_step(at, 3, TN_SCALAR(20), .step = TN_SCALAR(0.5),
                                                     .dtype = tn_tensor_dtype(x[0])))
CALCULATION(exponents, tn_add(at, tn_frexp(at, x[0]).mantissa, tn_frexp(at, x[0]).exponent))
CALCULATION(places_in_lines, tn_searchsorted(at, tn_sort(at, x[0]).values, x[1]))
static tn_tensor *partly_filled(tn_scope *at, tn_tensor *const *x)
{
    tn_tensor *y = tn_clone(at, x[0]);
    tn_fill_scalar_(at, tn_slice(at, y, .dim = 1, .step = 2), 3);
    return y;
}

Test(kernels, elements_are_moved)
{
    static const row rows[] = {
        {"copy of parts of rows", parts_of_rows, FLOATS | INTEGERS | COMPLEX, 0, {{72, 60}}},
        {"copy of a transposed matrix", transposed, FLOATS | INTEGERS, 0, {{20, 18}}},
        {"fill", partly_filled, FLOATS | INTEGERS, 0, {{5, 9}}},
        {"gather", gathered, FLOATS | INTEGERS, 0, {{4, 7}}},
        {"scatter", scattered, FLOATS | INTEGERS, 0, {{4, 7}, {4, 5}}},
        {"scatter_add", scattered_and_added, FLOATS | INTEGERS, 0, {{4, 7}, {4, 5}}},
        {"scatter of a long line", scattered_along_a_line, FLOATS | INTEGERS, 0, {{7}, {300}}},
        {"scatter_add of a long line", added_along_a_line, FLOATS | INTEGERS, 0, {{7}, {300}}},
        {"index_reduce", means_of_rows, FLOATS | INTEGERS, 0, {{4, 3}, {5, 3}}},
        {"index_add", rows_added, FLOATS | INTEGERS, 0, {{4, 70}, {5, 70}}},
        {"index_select", rows_of_a_table, FLOATS | INTEGERS, 0, {{4, 6}}},
        {"embedding", embedded, FLOATS, 0, {{4, 6}}},
        {"embedding_dense_backward", gradient_of_a_table, FLOATS, 0, {{9, 6}}},
        {"nonzero", places, FLOATS | INTEGERS, 0, {{6, 11}}},
        {"arange", sequence, FLOATS | INTEGERS, 0, {{1}}},
        {"arange in halves", sequence_of_halves, FLOATS, 0, {{1}}},
        {"frexp", exponents, FLOATS, 0, {{37}}},
        {"searchsorted", places_in_lines, FLOATS | INTEGERS, 0, {{3, 17}, {3, 5}}},
    };
    COMPARE_ALL(rows);
}

/* ---- Reductions, scans and sorts ------------------------------------------------------------------------------ */

CALCULATION(sum, tn_sum(at, x[0]))
CALCULATION(sums_of_columns, tn_sum_dim(at, x[0], TN_INTS(0)))
CALCULATION(largest_of_rows, tn_amax(at, x[0], .dim = TN_INTS(1)))
CALCULATION(place_of_largest, tn_argmax(at, x[0]))
CALCULATION(running_sum, tn_cumsum(at, x[0], 0))
CALCULATION(running_maxima, tn_cummax(at, x[0], 0).values)
CALCULATION(running_log_sum, tn_logcumsumexp(at, x[0], 0))
CALCULATION(sorted, tn_sort(at, x[0]).values)
CALCULATION(best, tn_topk(at, x[0], 3).values)

Test(kernels, lines_are_reduced)
{
    static const row rows[] = {
        {"sum", sum, FLOATS | INTEGERS | COMPLEX, 0, {{3000}}},
        {"sum of columns", sums_of_columns, FLOATS | INTEGERS, 0, {{130, 70}}},
        {"amax", largest_of_rows, FLOATS | INTEGERS, 0, {{5, 40}}},
        {"argmax", place_of_largest, FLOATS | INTEGERS, 0, {{3000}}},
        {"cumsum", running_sum, FLOATS | INTEGERS, 0, {{3000}}},
        {"cumsum of columns", running_sum, FLOATS | INTEGERS, 0, {{6, 600}}},
        {"cummax", running_maxima, FLOATS | INTEGERS, 0, {{3000}}},
        {"logcumsumexp", running_log_sum, FLOATS, 0, {{40}}},
    };
    COMPARE_ALL(rows);
}

Test(kernels, lines_are_sorted)
{
    static const row rows[] = {
        {"sort of short lines", sorted, FLOATS | INTEGERS, 0, {{3, 40}}},
        {"sort", sorted, FLOATS | INTEGERS, 0, {{2, 2100}}},
        {"topk of few lines", best, FLOATS | INTEGERS, 0, {{2, 70}}},
        {"topk", best, WIDE | INTEGERS, 0, {{2200, 5}}},
    };
    COMPARE_ALL(rows);
}

/* ---- Products and convolutions -------------------------------------------------------------------------------- */

CALCULATION(product, tn_mm(at, x[0], x[1]))
CALCULATION(layer, tn_linear(at, x[0], x[1], .bias = x[2]))
CALCULATION(convolution, tn_conv2d(at, x[0], x[1], .bias = x[2], .padding = TN_INTS(1)))
CALCULATION(transposed_convolution, tn_conv_transpose2d(at, x[0], x[1], .bias = x[2], .stride = TN_INTS(2)))

Test(kernels, matrices_are_multiplied)
{
    static const row rows[] = {
        {"product of small matrices", product, FLOATS | INTEGERS | COMPLEX, 0, {{5, 7}, {7, 3}}},
        {"product", product, FLOATS, 0, {{67, 61}, {61, 66}}},
        {"linear of two rows", layer, FLOATS, 1, {{2, 300}, {5, 300}, {5}}},
    };
    COMPARE_ALL(rows);
}

Test(kernels, images_are_convolved)
{
    static const row rows[] = {
        {"convolution of few channels", convolution, FLOATS, 1, {{2, 2, 6, 5}, {2, 2, 3, 3}, {2}}},
        {"convolution", convolution, FLOATS, 1, {{2, 2, 6, 5}, {4, 2, 3, 3}, {4}}},
        {"transposed convolution", transposed_convolution, FLOATS, 1, {{2, 4, 4, 5}, {4, 2, 2, 2}, {2}}},
    };
    COMPARE_ALL(rows);
}

CALCULATION(largest_of_windows,
            tn_max_pool2d(at, x[0], TN_INTS(3), .stride = TN_INTS(2), .padding = TN_INTS(1)))
CALCULATION(means_of_windows, tn_avg_pool2d(at, x[0], TN_INTS(3), .padding = TN_INTS(1)))
CALCULATION(largest_of_parts, tn_adaptive_max_pool2d(at, x[0], TN_INTS(3, 2)).result0)
CALCULATION(means_of_parts, tn_adaptive_avg_pool2d(at, x[0], TN_INTS(3, 2)))

Test(kernels, windows_are_pooled)
{
    static const row rows[] = {
        {"max_pool2d", largest_of_windows, FLOATS, 1, {{2, 3, 7, 6}}},
        {"max_pool2d", largest_of_windows, INTEGERS, 0, {{2, 3, 7, 6}}},
        {"avg_pool2d", means_of_windows, FLOATS, 1, {{2, 3, 7, 6}}},
        {"adaptive_max_pool2d", largest_of_parts, FLOATS, 1, {{2, 3, 7, 5}}},
        {"adaptive_avg_pool2d", means_of_parts, FLOATS, 1, {{2, 3, 7, 5}}},
    };
    COMPARE_ALL(rows);
}

/* ---- Normalisation and attention ------------------------------------------------------------------------------ */

CALCULATION(shares, tn_softmax(at, x[0], 1))
CALCULATION(log_shares, tn_log_softmax(at, x[0], 1))
CALCULATION(lines_normalised, tn_layer_norm(at, x[0], TN_INTS(41), .weight = x[1], .bias = x[2]))
CALCULATION(groups_normalised, tn_group_norm(at, x[0], 2, .weight = x[1], .bias = x[2]))
CALCULATION(by_the_mean_square, tn_rms_norm(at, x[0], TN_INTS(41), .weight = x[1]))
CALCULATION(batch_normalised, tn_batch_norm(at, x[0], x[1], x[2], NULL, NULL, 1, 0.1, 1e-5, 0))
CALCULATION(batch_normalised_before,
            tn_batch_norm(at, x[0], NULL, NULL, x[1], tn_abs(at, x[2]), 0, 0.1, 1e-5, 0))
CALCULATION(attended,
            tn_scaled_dot_product_attention(at, tn_mul_scalar(at, x[0], 0.0625), x[1], x[2], .is_causal = 1))

Test(kernels, lines_are_normalised)
{
    static const row rows[] = {
        {"softmax", shares, FLOATS, 1, {{5, 41}}},
        {"log_softmax", log_shares, FLOATS, 1, {{5, 41}}},
        {"layer_norm", lines_normalised, FLOATS, 1, {{7, 41}, {41}, {41}}},
        {"group_norm", groups_normalised, FLOATS, 1, {{2, 4, 9}, {4}, {4}}},
        {"rms_norm", by_the_mean_square, FLOATS, 1, {{7, 41}, {41}}},
        {"batch_norm", batch_normalised, FLOATS, 1, {{3, 4, 5}, {4}, {4}}},
        {"batch_norm of images", batch_normalised, FLOATS, 1, {{3, 2, 9, 8}, {2}, {2}}},
        {"batch_norm with statistics", batch_normalised_before, FLOATS, 0, {{3, 4, 5}, {4}, {4}}},
    };
    COMPARE_ALL(rows);
}

Test(kernels, positions_are_attended)
{
    static const row rows[] = {
        {"attention", attended, FLOATS, 1, {{1, 2, 9, 8}, {1, 2, 9, 8}, {1, 2, 9, 8}}},
        {"attention with 100 features",
         attended,
         FLOATS,
         1,
         {{1, 1, 9, 100}, {1, 1, 9, 100}, {1, 1, 9, 100}}},
        {"attention with 200 features",
         attended,
         FLOATS,
         1,
         {{1, 1, 9, 200}, {1, 1, 9, 200}, {1, 1, 9, 200}}},
    };
    COMPARE_ALL(rows);
}

/* ---- Steps of optimisers, transforms, random numbers ---------------------------------------------------------- */

#define LIST(t)               \
    (tn_tensors)              \
    {                         \
        (tn_tensor *[]){t}, 1 \
    }
static tn_tensor *sgd(tn_scope *at, tn_tensor *const *x)
{
    tn_tensor *param = tn_clone(at, x[0]), *momentum = tn_clone(at, x[2]);
    tn__fused_sgd_(at, LIST(param), LIST(x[1]), LIST(momentum), 0.01, 0.9, 0.1, 0, 1, 0, 0);
    return tn_add(at, param, momentum);
}
static tn_tensor *adam_with(tn_scope *at, tn_tensor *const *x, int32_t decouples)
{
    tn_tensor *param = tn_clone(at, x[0]), *first = tn_clone(at, x[2]), *second = tn_square(at, x[2]),
              *most = tn_square(at, x[1]), *steps = tn_full(at, TN_INTS(), 3, .dtype = TN_FLOAT32);
    if (decouples)
        tn__fused_adamw_(at, LIST(param), LIST(x[1]), LIST(first), LIST(second), LIST(most), LIST(steps), 0.1,
                         0.9, 0.99, 0.01, 1e-3, 1, 0);
    else
        tn__fused_adam_(at, LIST(param), LIST(x[1]), LIST(first), LIST(second), LIST(most), LIST(steps), 0.1,
                        0.9, 0.99, 0.01, 1e-3, 1, 0);
    return tn_add(at, tn_add(at, param, first), second);
}
CALCULATION(adam, adam_with(at, x, 0))
CALCULATION(adamw, adam_with(at, x, 1))
CALCULATION(transform, tn_fft_fft(at, x[0]))
CALCULATION(real_transform, tn_fft_irfft(at, tn_fft_rfft(at, x[0]), .n = 15))
CALCULATION(sum_of_both, tn_add(at, x[0], x[1]))
CALCULATION(conjugated, tn_mul(at, tn_exp(at, x[0]), tn_conj(at, x[1])))

Test(kernels, parameters_are_moved)
{
    static const row rows[] = {
        {"_fused_sgd_", sgd, FLOATS, 0, {{67}, {67}, {67}}},
        {"_fused_adam_", adam, FLOATS, 0, {{67}, {67}, {67}}},
        {"_fused_adamw_", adamw, FLOATS, 0, {{67}, {67}, {67}}},
    };
    COMPARE_ALL(rows);
}

Test(kernels, lines_are_transformed)
{
    static const row rows[] = {
        {"fft", transform, COMPLEX, 0, {{2, 15}}},
        {"fft of a prime length", transform, COMPLEX, 0, {{2, 17}}},
        {"fft in passes", transform, COMPLEX, 0, {{2100}}},
        {"irfft of rfft", real_transform, WIDE, 0, {{3, 15}}},
        {"add", sum_of_both, COMPLEX, 0, {{33}, {33}}},
        {"exp times conj", conjugated, COMPLEX, 0, {{33}, {33}}},
    };
    COMPARE_ALL(rows);
}

/* Of 400 numbers the mean is within six standard deviations, and none is outside. */
Test(kernels, numbers_are_drawn)
{
    static const tn_dtype dtypes[] = {TN_FLOAT16, TN_BFLOAT16, TN_FLOAT32, TN_FLOAT64, TN_INT32, TN_INT64};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        const int32_t is_float = i < 4;
        tn_tensor *t = is_float ? tn_rand(s, TN_INTS(400), .dtype = dtypes[i])
                                : tn_randint_low(s, 10, 20, TN_INTS(400), .dtype = dtypes[i]);
        t = tn__to_copy(s, t, .dtype = TN_FLOAT64);
        double got[400], sum_of_all = 0;
        cr_assert_eq(tn_to_host(s, t, got, sizeof got), TN_OK, "%s", tn_last_error()->message);
        for (int k = 0; k < 400; k++) {
            if (!is_float) got[k] = (got[k] - 10) / 10;
            cr_assert(got[k] >= 0 && got[k] <= (is_float ? 1 : 0.9), "%g", got[k]);
            sum_of_all += got[k];
        }
        cr_assert_float_eq(sum_of_all / 400, is_float ? 0.5 : 0.45, 6 * 0.29 / 20);
    }
}

/* ---- Pointwise operators -------------------------------------------------------------------------------------- */

enum { LARGE = 65536 + 3 }; /* from here on operators have kernels of their own */

CALCULATION(rest, tn_remainder_scalar(at, x[0], 3))
CALCULATION(gelu, tn_gelu(at, x[0]))
CALCULATION(exponential, tn_exp(at, x[0]))
CALCULATION(hyperbolic, tn_asinh(at, x[0]))
CALCULATION(bessel, tn_i0(at, x[0]))
CALCULATION(gamma_function, tn_digamma(at, x[0]))

/* One operator of each program: arithmetic, activations, functions, rare ones, special ones, relatives of the gamma function. */
Test(kernels, elements_are_computed)
{
    static const row rows[] = {
        {"add", sum_of_both, FLOATS | INTEGERS, 0, {{77}, {77}}},
        {"gelu", gelu, FLOATS, 0, {{77}}},
        {"exp", exponential, FLOATS, 0, {{77}}},
        {"asinh", hyperbolic, FLOATS, 0, {{77}}},
        {"i0", bessel, FLOATS, 0, {{77}}},
        {"digamma", gamma_function, FLOATS, 0, {{77}}},
    };
    COMPARE_ALL(rows);
}

Test(kernels, many_elements_are_computed)
{
    static const row rows[] = {
        {"add of many", sum_of_both, FLOATS | INTEGERS, 0, {{LARGE}, {LARGE}}},
        {"remainder of many", rest, INTEGERS, 0, {{LARGE}}}, /* its kernel looks for no zero */
        {"gelu of many", gelu, FLOATS, 0, {{LARGE}}},
        {"exp of many", exponential, FLOATS, 0, {{LARGE}}},
        {"asinh of many", hyperbolic, FLOATS, 0, {{LARGE}}},
        {"i0 of many", bessel, FLOATS, 0, {{LARGE}}},
        {"digamma of many", gamma_function, FLOATS, 0, {{LARGE}}},
    };
    compare_all(rows, getenv("TENON_TEST_LONG") ? sizeof rows / sizeof *rows
                                                : 2); /* each is a program to compile */
}
