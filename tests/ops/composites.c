/* SPDX-License-Identifier: Apache-2.0 */
/* Composites against values computed by hand: products, losses, normalisation, attention, resizing. */
#include <math.h>
#include "suite.h"

TestSuite(composites, .init = begin);

static tn_tensor *matrix(int64_t rows, int64_t columns, const double *values)
{
    return make(s, TN_INTS(rows, columns), values, 0);
}

static tn_tensor *classes(int64_t first, int64_t second)
{
    const double values[] = {(double)first, (double)second};
    return tn_to(s, make(s, TN_INTS(2), values, 0), TN_INT64);
}

/* ---- products ---- */

Test(composites, matmul_of_all_ranks)
{
    tn_tensor *v = VECTOR(s, 0, 1, 2), *m = matrix(2, 2, VALUES(1, 2, 3, 4));
    tn_tensor *batch = make(s, TN_INTS(2, 1, 2), VALUES(1, 0, 0, 1), 0);
    EXPECT(s, tn_matmul(s, v, v), 5);
    EXPECT(s, tn_matmul(s, m, v), 5, 11);
    EXPECT(s, tn_matmul(s, v, m), 7, 10);
    EXPECT(s, tn_matmul(s, m, m), 7, 10, 15, 22);
    EXPECT(s, tn_matmul(s, batch, m), 1, 2, 3, 4);
    EXPECT(s, tn_matmul(s, batch, v), 1, 2);
    EXPECT(s, tn_matmul(s, v, tn_transpose(s, batch, 1, 2)), 1, 2);
    EXPECT(s, tn_matmul(s, m, tn_transpose(s, batch, 1, 2)), 1, 3, 2, 4);
    EXPECT(s, tn_matmul(s, batch, tn_unsqueeze(s, m, 0)), 1, 2, 3, 4);
    end();
}

Test(composites, matmul_refuses_what_does_not_fit)
{
    tn_tensor *number = tn_sum(s, VECTOR(s, 0, 1)), *m = matrix(2, 2, VALUES(1, 2, 3, 4));
    tn_matmul(s, number, m);
    expect_error(s, "both arguments to matmul need to be at least 1D, but they are 0D and 2D");
    tn_matmul(s, make(s, TN_INTS(2, 1, 1), VALUES(1, 2), 0), make(s, TN_INTS(3, 1, 1), VALUES(1, 2, 3), 0));
    expect_error(s, "The size of tensor a (2) must match the size of tensor b (3)");
    end();
}

Test(composites, einsum)
{
    tn_tensor *m = matrix(2, 2, VALUES(1, 2, 3, 4)), *v = VECTOR(s, 0, 10, 1);
    EXPECT(s, tn_einsum(s, "ij,j->i", TN_TENSORS(m, v)), 12, 34);
    EXPECT(s, tn_einsum(s, "ii", TN_TENSORS(m)), 5);
    EXPECT(s, tn_einsum(s, "ij->ji", TN_TENSORS(m)), 1, 3, 2, 4);
    EXPECT(s, tn_einsum(s, "...j,kj,k->...", TN_TENSORS(m, m, v)), 13 * 1 + 24 * 2, 13 * 3 + 24 * 4);
    EXPECT(s, tn_einsum(s, "i,j", TN_TENSORS(v, v)), 100, 10, 10, 1);
    /* Sums of small integers are int64. */
    tn_tensor *whole = tn__to_copy(s, m, .dtype = TN_INT16), *w = tn__to_copy(s, v, .dtype = TN_INT16);
    tn_tensor *sums = tn_einsum(s, "...ik,...j->ij", TN_TENSORS(tn_unsqueeze(s, whole, 0), w));
    EXPECT(s, sums, 30, 3, 70, 7);
    cr_expect_eq(tn_tensor_dtype(sums), TN_INT64);
    cr_expect_eq(tn_tensor_dtype(tn_einsum(s, "ij,kj->ik", TN_TENSORS(whole, whole))), TN_INT16);
    tn_einsum(s, "ij,jk->im", TN_TENSORS(m, m));
    expect_error(s, "output subscript m does not appear");
    end();
}

Test(composites, contractions)
{
    tn_tensor *m = matrix(2, 2, VALUES(1, 2, 3, 4)), *v = VECTOR(s, 0, 1, 2);
    EXPECT(s, tn_tensordot(s, m, m, TN_INTS(0), TN_INTS(0)), 10, 14, 14, 20);
    EXPECT(s, tn_kron(s, v, m), 1, 2, 2, 4, 3, 4, 6, 8);
    EXPECT(s, tn_matrix_power(s, m, 3), 37, 54, 81, 118);
    EXPECT(s, tn_linalg_multi_dot(s, TN_TENSORS(v, m, m, v)), 7 * 5 + 10 * 11);
    EXPECT(s, tn_cross(s, VECTOR(s, 0, 1, 0, 0), VECTOR(s, 0, 0, 1, 0)), 0, 0, 1);
    EXPECT(s, tn_block_diag(s, TN_TENSORS(v, m)), 1, 2, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4);
    end();
}

Test(composites, distances)
{
    tn_tensor *a = matrix(1, 2, VALUES(0, 0)), *b = matrix(2, 2, VALUES(3, 4, 1, 1));
    EXPECT(s, tn_cdist(s, a, b), 5, sqrt(2));
    EXPECT(s, tn_cdist(s, a, b, .p = 1), 7, 2);
    EXPECT(s, tn_cdist(s, a, b, .p = INFINITY), 4, 1);
    EXPECT(s, tn_pdist(s, b), sqrt(13));
    EXPECT(s, tn_cosine_similarity(s, b, matrix(2, 2, VALUES(4, 3, -1, -1))), 0.96, -1);
    end();
}

/* ---- losses over classes: rows of logits whose log softmax is known ---- */

Test(composites, cross_entropy)
{
    tn_tensor *x = make(s, TN_INTS(2, 2), VALUES(0, log(3), log(4), 0), 1);
    double first = log(4.0 / 3), second = log(5);
    EXPECT(s, tn_cross_entropy_loss(s, x, classes(1, 1)), (first + second) / 2);
    EXPECT(s, tn_cross_entropy_loss(s, x, classes(1, -100)), first);
    EXPECT(s, tn_cross_entropy_loss(s, x, classes(1, 1), .reduction = 0), first, second);
    EXPECT(s, tn_cross_entropy_loss(s, x, classes(1, 1), .label_smoothing = 0.5),
           ((0.75 * log(4.0 / 3) + 0.25 * log(4)) + (0.75 * log(5) + 0.25 * log(1.25))) / 2);
    EXPECT(s, tn_cross_entropy_loss(s, x, matrix(2, 2, VALUES(0.5, 0.5, 0, 1))),
           (0.5 * log(4) + 0.5 * log(4.0 / 3) + log(5)) / 2);
    EXPECT(s, tn_cross_entropy_loss(s, x, classes(0, 1), .weight = VECTOR(s, 0, 1, 3)),
           (log(4) + 3 * second) / 4);
    tn_backward(s, tn_cross_entropy_loss(s, x, classes(1, 1), .reduction = 2));
    EXPECT(s, tn_grad_of(s, x), 0.25, -0.25, 0.8, -0.8);
    end();
}

Test(composites, losses_with_a_margin)
{
    tn_tensor *x = matrix(1, 3, VALUES(0.1, 0.2, 0.9)), *y = tn_to(s, VECTOR(s, 0, 2), TN_INT64);
    EXPECT(s, tn_multi_margin_loss(s, x, y), (0.2 + 0.3) / 3);
    y = tn_to(s, matrix(1, 3, VALUES(2, -1, 0)), TN_INT64);
    EXPECT(s, tn_multilabel_margin_loss(s, x, y), (0.2 + 0.3) / 3);
    EXPECT(s, tn_hinge_embedding_loss(s, VECTOR(s, 0, 0.25, 0.25), VECTOR(s, 0, 1, -1)), (0.25 + 0.75) / 2);
    end();
}

/* ---- normalisation and attention ---- */

Test(composites, running_statistics)
{
    tn_tensor *x = matrix(2, 1, VALUES(1, 3)), *mean = VECTOR(s, 0, 0), *var = VECTOR(s, 0, 1);
    EXPECT(s, tn_batch_norm(s, x, NULL, NULL, mean, var, 1, 0.5, 3, 0), -0.5, 0.5);
    EXPECT(s, mean, 1);
    EXPECT(s, var, 1.5);
    EXPECT(s, tn_batch_norm(s, x, NULL, NULL, mean, var, 0, 0.5, 2.5, 0), 0, 1);
    EXPECT(s,
           tn_instance_norm(s, make(s, TN_INTS(1, 2, 2), VALUES(1, 3, 0, 4), 0), NULL, NULL, NULL, NULL, 1,
                            0.1, 0, 0),
           -1, 1, -1, 1);
    end();
}

Test(composites, norms_of_features)
{
    tn_tensor *x = matrix(1, 2, VALUES(3, 4));
    EXPECT(s, tn_rms_norm(s, x, TN_INTS(2), .eps = 0), 3 / sqrt(12.5), 4 / sqrt(12.5));
    EXPECT(s, tn_layer_norm(s, x, TN_INTS(2), .eps = 0), -1, 1);
    EXPECT(s, tn__weight_norm(s, x, matrix(1, 1, VALUES(10))), 6, 8);
    end();
}

Test(composites, attention)
{
    tn_tensor *q = make(s, TN_INTS(1, 1, 2, 1), VALUES(0, 0), 0),
              *v = make(s, TN_INTS(1, 1, 2, 1), VALUES(2, 4), 0);
    tn_tensor *mask = tn_gt_scalar(s, matrix(2, 2, VALUES(0, 1, 0, 0)), 0);
    EXPECT(s, tn_scaled_dot_product_attention(s, q, q, v), 3, 3);
    EXPECT(s, tn_scaled_dot_product_attention(s, q, q, v, .is_causal = 1), 2, 3);
    EXPECT(s, tn_scaled_dot_product_attention(s, q, q, v, .attn_mask = mask), 4, 0); /* all masked: zero */
    end();
}

/* Two query heads share the one head of keys: as with keys repeated, in values and gradients. */
Test(composites, attention_of_grouped_queries)
{
    tn_tensor *q = make(s, TN_INTS(1, 2, 2, 1), VALUES(0, 0, 1, 1), 1);
    tn_tensor *k = make(s, TN_INTS(1, 1, 2, 1), VALUES(log(3), 0), 1),
              *v = make(s, TN_INTS(1, 1, 2, 1), VALUES(2, 4), 1);
    tn_tensor *out = tn_scaled_dot_product_attention(s, q, k, v, .enable_gqa = 1);
    EXPECT(s, out, 3, 3, 2.5, 2.5); /* weights 1/2 and 1/2 for the first head, 3/4 and 1/4 for the second */
    tn_backward(s, tn_sum(s, out));
    EXPECT(s, tn_grad_of(s, v), 2.5, 1.5);
    /* p (1 - p) (2 - 4) for each query: times the query for the key, times log 3 for the query */
    EXPECT(s, tn_grad_of(s, k), -0.75, 0.75);
    EXPECT(s, tn_grad_of(s, q), -log(3) / 2, -log(3) / 2, -log(3) * 3 / 8, -log(3) * 3 / 8);
    end();
}

/* ---- convolution, pooling, resizing ---- */

Test(composites, convolution_keeps_sizes)
{
    tn_tensor *x = make(s, TN_INTS(1, 4), VALUES(1, 2, 3, 4), 0),
              *w = make(s, TN_INTS(1, 1, 2), VALUES(1, 10), 0);
    EXPECT(s, tn_conv1d(s, x, w), 21, 32, 43);
    EXPECT(s, tn_conv1d_padding(s, x, w, .padding = "same"), 21, 32, 43, 4);
    EXPECT(s, tn_conv_transpose1d(s, x, w), 1, 12, 23, 34, 40);
    tn_conv1d_padding(s, x, w, .padding = "same", .stride = TN_INTS(2));
    expect_error(s, "padding='same' is not supported for strided convolutions");
    end();
}

Test(composites, pooling_of_one_dimension)
{
    tn_tensor *x = make(s, TN_INTS(1, 4), VALUES(1, 4, 2, 3), 0);
    EXPECT(s, tn_max_pool1d(s, x, TN_INTS(2)), 4, 3);
    EXPECT(s, tn_avg_pool1d(s, x, TN_INTS(2)), 2.5, 2.5);
    EXPECT(s, tn_adaptive_avg_pool1d(s, x, TN_INTS(1)), 2.5);
    tn_max_pool1d(s, x, TN_INTS(5), .stride = TN_INTS(1));
    expect_error(s, "max_pool1d() Invalid computed output size: 0");
    end();
}

Test(composites, resizing_by_factors)
{
    tn_tensor *x = make(s, TN_INTS(1, 1, 2), VALUES(1, 2), 0);
    EXPECT(s, tn_upsample_nearest1d_vec(s, x, (tn_ints){NULL, 0}, TN_FLOATS(2)), 1, 1, 2, 2);
    EXPECT(s, tn_upsample_linear1d_vec(s, x, TN_INTS(3), 1, (tn_floats){NULL, 0}), 1, 1.5, 2);
    tn_upsample_nearest1d_vec(s, x, TN_INTS(3), TN_FLOATS(2));
    expect_error(s, "Must specify exactly one of output_size and scale_factors");
    end();
}

/* Norms below eps are replaced by it in the value, while the gradient is that of the norms. */
Test(composites, cosine_similarity_of_tiny_vectors)
{
    tn_tensor *x = matrix(1, 2, VALUES(3e-9, 4e-9)), *y = matrix(1, 2, VALUES(1, 2));
    tn_set_requires_grad(x, 1);
    tn_tensor *z = tn_cosine_similarity(s, x, y);
    EXPECT(s, z, 0.4919349550499537);
    tn_backward(s, tn_sum(s, z));
    EXPECT(s, tn_mul_scalar(s, tn_grad_of(s, x), 1e-7), 1.5205262246998575, 5.008792269599529);
    end();
}

/* ---- parts ---- */

Test(composites, chunks_of_an_empty_dimension_are_as_many_as_asked_for)
{
    tn_tensors parts = tn_chunk(s, tn_zeros(s, TN_INTS(2, 0)), 3, .dim = 1);
    cr_assert_eq(parts.count, 3);
    for (int64_t i = 0; i < 3; i++)
        cr_assert(tn_tensor_size(parts.data[i], 0) == 2 && tn_tensor_size(parts.data[i], 1) == 0);
    end();
}

/* As y[None, :, 1] = [5, 6] and y[None, [1], [0, 2]] = 7. */
Test(composites, a_new_dimension_among_the_places_that_are_written)
{
    tn_tensor *y = tn_zeros(s, TN_INTS(2, 3), .dtype = TN_FLOAT64);
    tn_index_assign(s, y, VECTOR(s, 0, 5, 6), TN_NEW_DIM, TN_ALL, TN_AT(1));
    EXPECT(s, y, 0, 5, 0, 0, 6, 0);
    tn_index_assign(s, y, tn_full(s, TN_INTS(1), 7, .dtype = TN_FLOAT64), TN_NEW_DIM,
                    TN_BY(tn_to(s, VECTOR(s, 0, 1), TN_INT64)),
                    TN_BY(tn_to(s, VECTOR(s, 0, 0, 2), TN_INT64)));
    EXPECT(s, y, 0, 5, 0, 7, 6, 7);
    end();
}
