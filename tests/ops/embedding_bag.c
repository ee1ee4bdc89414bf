/* SPDX-License-Identifier: Apache-2.0 */
/*
 * embedding_bag with an offset for the end of the last bag: indices behind it are in no bag. By the CPU's kernels and,
 * on a device of primitives, by the composites.
 */
#include "primitives.h"

TestSuite(embedding_bag, .init = begin_on_primitives);

static tn_tensor *longs(int64_t count, const int64_t *values, tn_device on)
{
    return tn__to_copy(s, tn_from_data(s, TN_INT64, TN_INTS(count), values, TN_CPU), .device = on);
}
#define LONGS(on, ...) \
    longs((int64_t)(sizeof((const int64_t[]){__VA_ARGS__}) / 8), (const int64_t[]){__VA_ARGS__}, on)

/* 0 to 9 in a column, or from 1 to 5. */
static tn_tensor *leaf(tn_dtype dtype, int64_t first, int64_t end, tn_device on)
{
    tn_tensor *t = tn_arange_start(s, TN_SCALAR(first), TN_SCALAR(end), .dtype = dtype, .device = on);
    if (first == 0) t = tn_reshape(s, t, TN_INTS(end, 1));
    t = tn_detach(s, t);
    tn_set_requires_grad(t, 1);
    return t;
}

enum { SUM, MEAN, MAX };

/* Bags of the rows 1 and 2, and of row 3. The rows 4 and 5 are behind the last one. */
static void expect_bags(tn_dtype dtype, tn_device on)
{
    static const double bags[][2] = {{3, 3}, {1.5, 3}, {2, 3}};
    static const double slopes[][10] = {{0, 1, 1, 10}, {0, 0.5, 0.5, 10}, {0, 0, 1, 10}};
    tn_tensor *indices = LONGS(on, 1, 2, 3, 4, 5), *offsets = LONGS(on, 0, 2, 3);
    tn_tensor *scale = tn__to_copy(s, there(TN_INTS(2, 1), VALUES(1, 10)), .dtype = dtype, .device = on);
    for (int64_t mode = SUM; mode <= MAX; mode++) {
        tn_tensor *table = leaf(dtype, 0, 10, on);
        tn_tensor *out =
            tn_embedding_bag(s, table, indices, offsets, .mode = mode, .include_last_offset = 1).result0;
        expect_values(s, out, 2, bags[mode], 0);
        tn_backward(s, tn_sum(s, tn_mul(s, out, scale)));
        expect_sound(s);
        expect_values(s, tn_grad_of(s, table), 10, slopes[mode], 0);
    }
    tn_tensor *table = leaf(dtype, 0, 10, on), *weights = leaf(dtype, 1, 6, on);
    tn_tensor *out =
        tn_embedding_bag(s, table, indices, offsets, .per_sample_weights = weights, .include_last_offset = 1)
            .result0;
    EXPECT(s, out, 5, 9);
    cr_assert_eq(tn_backward(s, tn_sum(s, tn_mul(s, out, scale))), TN_OK);
    EXPECT(s, tn_grad_of(s, table), 0, 1, 2, 30, 0, 0, 0, 0, 0, 0);
    EXPECT(s, tn_grad_of(s, weights), 1, 2, 30, 0, 0);
}

Test(embedding_bag, ends_at_the_last_offset)
{
    tn_set_fallback_policy(ctx, TN_FALLBACK_SILENT); /* the bags of a gradient are searched for on the CPU */
    /* Sums of float32 keep no bag of each index for the gradient. */
    expect_bags(TN_FLOAT32, TN_CPU);
    expect_bags(TN_FLOAT64, TN_CPU);
    expect_bags(TN_FLOAT32, device);
    expect_bags(TN_FLOAT64, device);
    end();
}

Test(embedding_bag, without_a_bag)
{
    const tn_device devices[] = {TN_CPU, device};
    for (int32_t i = 0; i < 2; i++) {
        tn_tensor *table = leaf(TN_FLOAT64, 0, 3, devices[i]), *weights = leaf(TN_FLOAT64, 1, 3, devices[i]);
        tn_tensor *out = tn_embedding_bag(s, table, LONGS(devices[i], 0, 1), LONGS(devices[i], 0),
                                          .per_sample_weights = weights, .include_last_offset = 1)
                             .result0;
        expect_sound(s);
        cr_assert_eq(tn_tensor_numel(out), 0);
        cr_assert_eq(tn_backward(s, tn_sum(s, out)), TN_OK);
        EXPECT(s, tn_grad_of(s, table), 0, 0, 0);
        EXPECT(s, tn_grad_of(s, weights), 0, 0);
    }
    tn_tensor *table = leaf(TN_FLOAT64, 0, 3, TN_CPU);
    tn_embedding_bag(s, table, LONGS(TN_CPU, 0, 1), LONGS(TN_CPU, 0, 3), .include_last_offset = 1);
    expect_error(s, "offsets[-1] can not be greater than input's length(2) but got offsets[-1] of 3");
    end();
}

/* Frequencies count the indices that are in bags: row 1 is there twice, and once behind the last bag. */
Test(embedding_bag, frequencies_of_indices_in_bags)
{
    const tn_device devices[] = {TN_CPU, device};
    for (int32_t i = 0; i < 2; i++) {
        tn_tensor *table = leaf(TN_FLOAT64, 0, 3, devices[i]);
        tn_tensor *out = tn_embedding_bag(s, table, LONGS(devices[i], 1, 1, 2, 1), LONGS(devices[i], 0, 3),
                                          .scale_grad_by_freq = 1, .include_last_offset = 1)
                             .result0;
        EXPECT(s, out, 4);
        cr_assert_eq(tn_backward(s, tn_sum(s, out)), TN_OK);
        EXPECT(s, tn_grad_of(s, table), 0, 1, 1);
    }
    end();
}
