/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Padding, upsampling, unequal windows, lists of indices, bags and grids on a device that has primitives
 * only, against values by hand. The CPU may not help.
 */
#include <math.h>
#include "primitives.h"

TestSuite(resampling, .init = begin_on_primitives);

#define THERE(sizes, ...) there(sizes, (const double[]){__VA_ARGS__})
static tn_tensor *longs(tn_ints sizes, const double *values)
{
    return tn__to_copy(s, there(sizes, values), .dtype = TN_INT64);
}
#define LONGS(...) \
    longs(TN_INTS((int64_t)(sizeof((const double[]){__VA_ARGS__}) / 8)), (const double[]){__VA_ARGS__})

Test(resampling, padding)
{
    tn_tensor *x = THERE(TN_INTS(1, 3), 1, 2, 3), *plane = THERE(TN_INTS(1, 2, 2), 1, 2, 3, 4);
    EXPECT(s, tn_reflection_pad1d(s, x, TN_INTS(2, 1)), 3, 2, 1, 2, 3, 2);
    EXPECT(s, tn_replication_pad1d(s, x, TN_INTS(1, 2)), 1, 1, 2, 3, 3, 3);
    EXPECT(s, tn_replication_pad1d(s, x, TN_INTS(-1, 1)), 2, 3, 3);
    EXPECT(s, tn_reflection_pad2d(s, plane, TN_INTS(1, 0, 0, 1)), 2, 1, 2, 4, 3, 4, 2, 1, 2);
    EXPECT(s, tn_reflection_pad1d_backward(s, THERE(TN_INTS(1, 6), 1, 2, 3, 4, 5, 6), x, TN_INTS(2, 1)), 3,
           12, 6);
    EXPECT(s, tn_replication_pad1d_backward(s, THERE(TN_INTS(1, 6), 1, 2, 3, 4, 5, 6), x, TN_INTS(1, 2)), 3,
           3, 15);
    end();
}

Test(resampling, nearest)
{
    tn_tensor *x = THERE(TN_INTS(1, 1, 3), 1, 2, 3);
    EXPECT(s, tn_upsample_nearest1d(s, x, TN_INTS(6)), 1, 1, 2, 2, 3, 3);
    EXPECT(s, tn_upsample_nearest1d(s, x, TN_INTS(2)), 1, 2);
    EXPECT(s, tn__upsample_nearest_exact1d(s, x, TN_INTS(2)), 1, 3);
    EXPECT(s,
           tn_upsample_nearest1d_backward(s, THERE(TN_INTS(1, 1, 6), 1, 2, 3, 4, 5, 6), TN_INTS(6),
                                          TN_INTS(1, 1, 3)),
           3, 7, 11);
    tn_tensor *bytes = tn__to_copy(s, x, .dtype = TN_UINT8);
    EXPECT(s, tn__to_copy(s, tn_upsample_nearest1d(s, bytes, TN_INTS(4)), .dtype = TN_FLOAT64), 1, 1, 2, 3);
    end();
}

Test(resampling, linear)
{
    tn_tensor *x = THERE(TN_INTS(1, 1, 2), 0, 4), *plane = THERE(TN_INTS(1, 1, 2, 2), 0, 4, 8, 12);
    EXPECT(s, tn_upsample_linear1d(s, x, TN_INTS(5), 1), 0, 1, 2, 3, 4);
    EXPECT(s, tn_upsample_linear1d(s, x, TN_INTS(4), 0), 0, 1, 3, 4);
    EXPECT(s, tn_upsample_bilinear2d(s, plane, TN_INTS(3, 3), 1), 0, 2, 4, 4, 6, 8, 8, 10, 12);
    EXPECT(s, tn_upsample_bilinear2d(s, plane, TN_INTS(3, 3), 1, .scales_h = 1e-12), 0, 2, 4, 4, 6, 8, 8, 10,
           12); /* the corners decide, not the scales */
    EXPECT(s,
           tn_upsample_linear1d_backward(s, THERE(TN_INTS(1, 1, 4), 1, 2, 3, 4), TN_INTS(4), TN_INTS(1, 1, 2),
                                         0),
           3.25, 6.75);
    /* Antialiased to half the size: a triangle over four inputs, cut at the ends. */
    tn_tensor *line = THERE(TN_INTS(1, 1, 1, 4), 0, 7, 14, 21);
    EXPECT(s, tn__upsample_bilinear2d_aa(s, line, TN_INTS(1, 2), 0), 5, 16);
    end();
}

/* In the middle between two points the kernel weighs its neighbours -3/32, 19/32, 19/32, -3/32. */
Test(resampling, cubic)
{
    tn_tensor *x = THERE(TN_INTS(1, 1, 1, 5), 0, 0, 32, 0, 0);
    tn_tensor *y = tn_upsample_bicubic2d(s, x, TN_INTS(1, 9), 1);
    EXPECT(s, y, 0, -3, 0, 19, 32, 19, 0, -3, 0);
    end();
}

Test(resampling, unequal_windows)
{
    tn_tensor *x = THERE(TN_INTS(1, 1, 5), 1, 2, 3, 4, INFINITY),
              *y = THERE(TN_INTS(1, 1, 1, 5), 1, 9, 3, 4, 5);
    EXPECT(s, tn_adaptive_avg_pool1d(s, tn_narrow(s, x, 2, 0, 4), TN_INTS(3)), 1.5, 2.5, 3.5);
    EXPECT(s, tn_adaptive_avg_pool1d(s, x, TN_INTS(3)), 1.5, 3, INFINITY);
    tn_adaptive_max_pool2d_result r = tn_adaptive_max_pool2d(s, y, TN_INTS(1, 3));
    EXPECT(s, r.result0, 9, 9, 5);
    EXPECT(s, tn__to_copy(s, r.result1, .dtype = TN_FLOAT64), 1, 1, 4);
    EXPECT(s, tn__adaptive_avg_pool2d_backward(s, THERE(TN_INTS(1, 1, 1, 2), 3, 6), tn_narrow(s, y, 3, 0, 3)),
           1.5, 4.5, 3);
    /* Windows of two, the first at the front, the last at the end. */
    tn_fractional_max_pool2d_result f =
        tn_fractional_max_pool2d(s, y, TN_INTS(1, 2), TN_INTS(1, 2), THERE(TN_INTS(1, 1, 2), 0.3, 0.6));
    EXPECT(s, f.result0, 9, 5);
    end();
}

/* A table that does not fit in memory is an error before it is filled. A small scale takes as much memory as the inputs. */
Test(resampling, tables_of_huge_outputs)
{
    tn_tensor *y = THERE(TN_INTS(1, 1, 1, 4), 1, 2, 4, 5);
    tn_adaptive_avg_pool2d(s, y, TN_INTS((int64_t)1 << 44, 3));
    expect_error(s, "out of memory");
    tn_adaptive_max_pool2d(s, y, TN_INTS((int64_t)1 << 44, 3));
    expect_error(s, "out of memory");
    tn_adaptive_avg_pool2d(s, tn_narrow(s, y, 0, 0, 0), TN_INTS((int64_t)1 << 62, 3));
    expect_error(s, "out of memory");
    tn_tensor *three =
        tn_narrow(s, tn_narrow(s, y, 0, 0, 0), 3, 0, 3); /* windows of two inputs: 2^63 positions */
    tn_adaptive_avg_pool2d(s, three, TN_INTS(1, (int64_t)1 << 62));
    expect_error(s, "out of memory: a table of 4611686018427387904 outputs, each of 2 inputs");
    EXPECT(s, tn_round(s, tn__upsample_bilinear2d_aa(s, y, TN_INTS(1, 1), 0, .scales_w = 1e-9)), 3);
    end();
}

Test(resampling, columns)
{
    tn_tensor *x = THERE(TN_INTS(1, 1, 2, 3), 1, 2, 3, 4, 5, 6), *columns;
    columns = tn_im2col(s, x, TN_INTS(2, 2), TN_INTS(1, 1), TN_INTS(0, 0), TN_INTS(1, 1));
    EXPECT(s, columns, 1, 2, 2, 3, 4, 5, 5, 6);
    EXPECT(s,
           tn_col2im(s, columns, TN_INTS(2, 3), TN_INTS(2, 2), TN_INTS(1, 1), TN_INTS(0, 0), TN_INTS(1, 1)),
           1, 4, 3, 4, 10, 6);
    end();
}

Test(resampling, lists_of_indices)
{
    tn_tensor *x = THERE(TN_INTS(2, 3), 1, 2, 3, 4, 5, 6), *rows = LONGS(1, -2), *columns = LONGS(2, 0);
    EXPECT(s, tn_index_tensor(s, x, TN_TENSORS(rows, columns)), 6, 1);
    EXPECT(s, tn_index_tensor(s, x, TN_TENSORS(NULL, columns)), 3, 1, 6, 4);
    EXPECT(s, tn_index_tensor(s, x, TN_TENSORS(rows)), 4, 5, 6, 1, 2, 3);
    tn_tensor *cube = tn_reshape(s, x, TN_INTS(2, 1, 3));
    tn_tensor *apart = tn_index_tensor(s, cube, TN_TENSORS(rows, NULL, columns));
    cr_assert_eq(tn_tensor_rank(apart), 2);
    EXPECT(s, apart, 6, 1);
    EXPECT(s, tn_index_put_default(s, x, TN_TENSORS(NULL, columns), THERE(TN_INTS(2), 7, 8)), 8, 2, 7, 8, 5,
           7);
    EXPECT(s,
           tn_index_put_default(s, x, TN_TENSORS(LONGS(0, 0), LONGS(1, 1)), THERE(TN_INTS(1), 10),
                                .accumulate = 1),
           1, 22, 3, 4, 5, 6);
    tn_tensor *turned = tn_t(s, tn_clone(s, x));
    tn_index_put_(s, turned, TN_TENSORS(LONGS(0)), THERE(TN_INTS(1), 9));
    EXPECT(s, turned, 9, 9, 2, 5, 3, 6);
    end();
}

Test(resampling, bags)
{
    tn_tensor *table = THERE(TN_INTS(3, 2), 1, 2, 3, 4, 5, 0), *at = LONGS(0, 2, 1, 1),
              *offsets = LONGS(0, 2, 2);
    EXPECT(s, tn_embedding_bag(s, table, at, offsets).result0, 6, 2, 0, 0, 6, 8);
    EXPECT(s, tn_embedding_bag(s, table, at, offsets, .mode = 1).result0, 3, 1, 0, 0, 3, 4);
    tn_embedding_bag_result r = tn_embedding_bag(s, table, at, offsets, .mode = 2);
    EXPECT(s, r.result0, 5, 2, 0, 0, 3, 4);
    EXPECT(s, tn__to_copy(s, r.result3, .dtype = TN_FLOAT64), 2, 0, 0, 0, 1, 1);
    EXPECT(
        s,
        tn_embedding_bag(s, table, at, offsets, .per_sample_weights = THERE(TN_INTS(4), 1, 2, 3, 4)).result0,
        11, 2, 0, 0, 21, 28);
    end();
}

Test(resampling, grids)
{
    tn_tensor *x = THERE(TN_INTS(1, 1, 2, 2), 1, 2, 3, 4);
    tn_tensor *grid = THERE(TN_INTS(1, 1, 3, 2), 0, 0, -1, -1, 1, 0);
    EXPECT(s, tn_grid_sampler(s, x, grid, 0, 0, 1), 2.5, 1, 3);
    EXPECT(s, tn_grid_sampler(s, x, grid, 0, 0, 0), 2.5, 0.25, 1.5);
    EXPECT(s, tn_grid_sampler(s, x, grid, 0, 1, 0), 2.5, 1, 3);
    EXPECT(s, tn_grid_sampler(s, x, THERE(TN_INTS(1, 1, 1, 2), 3, -1), 0, 2, 1), 1);
    tn_grid_sampler_2d_backward_result r =
        tn_grid_sampler_2d_backward(s, THERE(TN_INTS(1, 1, 1, 3), 4, 1, 0), x, grid, 0, 0, 1, TN_BOOLS(1, 1));
    EXPECT(s, r.result0, 2, 1, 1, 1);
    EXPECT(s, tn_slice(s, r.result1, .dim = 2, .end = 1), 2, 4);
    end();
}
