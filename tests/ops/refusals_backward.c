/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients whose operands do not have the sizes and dtypes of the forward call. Kernels index one operand by the sizes
 * of another, so each of these calls must end before a kernel sees it.
 */
#include "refusals_operands.h"

#define ALL  ((tn_bools){(const uint8_t[]){1, 1, 1}, 3})
#define BOTH ((tn_bools){(const uint8_t[]){1, 1}, 2})

TestSuite(refusals_backward, .init = begin_with_operands);

static tn_tensor *floats(tn_ints sizes)
{
    return tn_ones(s, sizes, .dtype = TN_FLOAT32);
}

Test(refusals_backward, of_windows)
{
    tn_tensor *g = ones(TN_INTS(1, 3, 2, 2)), *wide = ones(TN_INTS(1, 3, 2, 3)),
              *volume = ones(TN_INTS(1, 3, 4, 4, 4));
    tn_tensor *at = longs(TN_INTS(1, 3, 2, 2)), *far = longs(TN_INTS(1, 3, 2, 3));
    REFUSED(tn_avg_pool2d_backward(s, wide, x, TN_INTS(2, 2), TN_NO_INTS, TN_INTS(0, 0), 0, 1, TN_NONE),
            "Expected a tensor of dimension 4 and tensor.size[3] == 2 but got: dimension 4 and "
            "tensor.size[3] = 3");
    REFUSED(tn_avg_pool2d_backward(s, ones(TN_INTS(3, 2, 2)), x, TN_INTS(2, 2), TN_NO_INTS, TN_INTS(0, 0), 0,
                                   1, TN_NONE),
            "argument 'grad_output': Expected a tensor of dimension 4 and tensor.size[0] == 1 but got: "
            "dimension 3");
    REFUSED(tn_avg_pool2d_backward(s, g, x, TN_INTS(2, 2, 2), TN_NO_INTS, TN_INTS(0, 0), 0, 1, TN_NONE),
            "kernel_size must either be a single int, or a tuple of two ints");
    REFUSED(tn_avg_pool2d_backward(s, floats(TN_INTS(1, 3, 2, 2)), x, TN_INTS(2, 2), TN_NO_INTS,
                                   TN_INTS(0, 0), 0, 1, TN_NONE),
            "expected dtype Double for `grad_output` but got dtype Float");
    REFUSED(tn_avg_pool3d_backward(s, volume, volume, TN_INTS(2, 2, 2), TN_NO_INTS, TN_INTS(0, 0, 0), 0, 1,
                                   TN_NONE),
            "Expected a tensor of dimension 5 and tensor.size[2] == 2 but got: dimension 5 and "
            "tensor.size[2] = 4");
    REFUSED(tn_max_pool2d_with_indices_backward(s, wide, x, TN_INTS(2, 2), TN_NO_INTS, TN_INTS(0, 0),
                                                TN_INTS(1, 1), 0, at),
            "argument 'grad_output': Expected a tensor of dimension 4 and tensor.size[3] == 2");
    REFUSED(tn_max_pool2d_with_indices_backward(s, g, x, TN_INTS(2, 2), TN_NO_INTS, TN_INTS(0, 0),
                                                TN_INTS(1, 1), 0, far),
            "argument 'indices': Expected a tensor of dimension 4 and tensor.size[3] == 2");
    REFUSED(tn__adaptive_avg_pool2d_backward(s, ones(TN_INTS(1, 3, 0, 2)), x),
            "adaptive_avg_pool2d_backward(): Expected grad_output to have non-zero size for non-batch "
            "dimensions, but "
            "grad_output has sizes [1, 3, 0, 2] with dimension 2 being empty");
    REFUSED(tn__adaptive_avg_pool2d_backward(s, ones(TN_INTS(1, 2, 2, 2)), x), "tensor.size[1] == 3");
    REFUSED(tn_adaptive_max_pool2d_backward(s, volume, x, at),
            "adaptive_max_pooling2d_backward(): Expected 3D or 4D grad_output, but got: [1, 3, 4, 4, 4]");
    REFUSED(tn_adaptive_max_pool2d_backward(s, g, x, far),
            "argument 'indices': Expected a tensor of dimension 4");
    REFUSED(tn_fractional_max_pool2d_backward(s, wide, x, TN_INTS(2, 2), TN_INTS(2, 2), at),
            "tensor.size[3] == 2");
    REFUSED(tn_fractional_max_pool2d(s, x, TN_INTS(2, 2), TN_INTS(2, 2), ones(TN_INTS(1, 2, 2))).result0,
            "Expect _random_samples.size(1) equals to input channel size.");
    REFUSED(tn_max_unpool2d(s, ones(TN_INTS(1, 3, 0, 2)), longs(TN_INTS(1, 3, 0, 2)), TN_INTS(4, 4)),
            "Expected input to have non-zero size for non-batch dimensions, but got [1, 3, 0, 2]");
    end();
}

Test(refusals_backward, of_padding_and_sampling)
{
    REFUSED(tn_reflection_pad1d_backward(s, ones(TN_INTS(3, 7)), m, TN_INTS(1, 2)),
            "grad_output width unexpected. Expected: 6, Got: 7");
    REFUSED(tn_reflection_pad1d_backward(s, ones(TN_INTS(3, 6)), m, TN_INTS(1, 2, 3)),
            "padding size is expected to be 2, but got: 3");
    REFUSED(tn_replication_pad2d_backward(s, ones(TN_INTS(1, 3, 6, 5)), x, TN_INTS(1, 0, 1, 0)),
            "grad_output height unexpected. Expected: 5, Got: 6");
    REFUSED(tn_replication_pad2d_backward(s, ones(TN_INTS(1, 2, 5, 5)), x, TN_INTS(1, 0, 1, 0)),
            "tensor.size[1] == 3");
    REFUSED(tn_grid_sampler_2d_backward(s, x, x, ones(TN_INTS(1, 2, 2, 2)), 0, 0, 0, BOTH).result0,
            "argument 'grad_output': Expected a tensor of dimension 4 and tensor.size[2] == 2");
    REFUSED(tn_unfold_backward(s, ones(TN_INTS(2, 2)), TN_INTS(4), 0, 3, 1),
            "argument 'grad_in': Expected a tensor of dimension 2 and tensor.size[1] == 3");
    REFUSED(tn_convolution_backward(s, x, x, w, TN_INTS(3), TN_INTS(1, 1), TN_INTS(0, 0), TN_INTS(1, 1), 0,
                                    TN_INTS(0, 0), 1, ALL)
                .result0,
            "Expected a tensor of dimension 4 and tensor.size[2] == 3 but got: dimension 4 and "
            "tensor.size[2] = 4");
    REFUSED(tn_convolution_backward(s, x, x, ones(TN_INTS(3, 2, 1, 1)), TN_INTS(3), TN_INTS(1, 1),
                                    TN_INTS(0, 0), TN_INTS(1, 1), 0, TN_INTS(0, 0), 1, ALL)
                .result0,
            "expected input[1, 3, 4, 4] to have 2 channels, but got 3 channels instead");
    REFUSED(tn_conv2d(s, x, ones(TN_INTS(3, 3, 0, 2))), "kernel size should be greater than zero");
    end();
}

Test(refusals_backward, of_norms)
{
    tn_tensor *rows = ones(TN_INTS(2, 1)), *groups = ones(TN_INTS(1, 3));
    REFUSED(tn_native_layer_norm_backward(s, r, r, TN_INTS(2), rows, rows, NULL, NULL, ALL).result0,
            "Given normalized_shape=[2], expected input with shape [*, 2], but got input of size[2, 3]");
    REFUSED(
        tn_native_layer_norm_backward(s, r, r, TN_INTS(3), rows, rows, ones(TN_INTS(2)), NULL, ALL).result0,
        "Expected weight to be of same shape as normalized_shape, but got weight of shape [2]");
    REFUSED(tn_native_layer_norm_backward(s, r, r, TN_INTS(3), rows, ones(TN_INTS(3, 1)), v, v, ALL).result0,
            "rstd should contain 2 elements not 3");
    REFUSED(tn_native_layer_norm_backward(s, m, r, TN_INTS(3), rows, rows, v, v, ALL).result0,
            "argument 'grad_out': Expected a tensor of dimension 2 and tensor.size[0] == 2");
    REFUSED(tn_native_layer_norm_backward(s, r, r, TN_INTS(3), rows, rows, longs(TN_INTS(3)), v, ALL).result0,
            "expected scalar type Double but found Long");
    REFUSED(tn__fused_rms_norm_backward(s, r, r, TN_INTS(3), ones(TN_INTS(3, 1)), v, BOTH).result0,
            "rstd should contain 2 elements not 3");
    REFUSED(tn_native_group_norm_backward(s, x, x, groups, groups, v, 2, 3, 16, 3, ALL).result0,
            "does not have N * C * HxW elements");
    REFUSED(tn_native_group_norm_backward(s, x, x, groups, groups, v, -1, -3, 16, 3, ALL).result0,
            "Expected weight to be a vector of size equal to the number of channels");
    REFUSED(tn_native_group_norm_backward(s, x, x, groups, v, NULL, 1, 3, 16, 1, ALL).result0,
            "mean should contain 1 elements not 3");
    REFUSED(
        tn_native_group_norm_backward(s, floats(TN_INTS(1, 3, 4, 4)), x, groups, groups, v, 1, 3, 16, 3, ALL)
            .result0,
        "expected dtype Double for `grad_out` but got dtype Float");
    REFUSED(
        tn_native_batch_norm_backward(s, x, x, NULL, NULL, NULL, v, ones(TN_INTS(2)), 1, 1e-5, ALL).result0,
        "save_invstd should contain 3 elements not 2");
    REFUSED(tn_native_batch_norm_backward(s, x, x, groups, v, v, v, v, 1, 1e-5, ALL).result0,
            "argument 'weight': Expected a tensor of dimension 1");
    REFUSED(tn__weight_norm_interface_backward(s, r, r, v, v, 0).result0,
            "saved_g should contain 2 elements not 3");
    end();
}

Test(refusals_backward, of_losses)
{
    REFUSED(tn_nll_loss_backward(s, v, r, i, NULL, 0, -100, z),
            "argument 'grad_output': Expected a tensor of dimension 1");
    REFUSED(tn_nll_loss_backward(s, v, r, i, NULL, 1, -100, z),
            "Expected a single element grad_output tensor, but got: [3]");
    REFUSED(tn_nll_loss_backward(s, z, r, i, NULL, 1, -100, v),
            "expected total_weight to be a single element tensor, got: [3] (3");
    REFUSED(tn_nll_loss_backward(s, z, r, longs(TN_INTS(3)), NULL, 1, -100, z),
            "size mismatch (got input: [2, 3], target: [3])");
    REFUSED(tn_multi_margin_loss_backward(s, z, r, i, 3, 1), "only p == 1 and p == 2 supported");
    REFUSED(tn_multi_margin_loss_backward(s, z, r, i, 1, 1, .weight = ones(TN_INTS(1, 3))),
            "inconsistent weight size, expected 3 but got [1, 3]");
    REFUSED(tn_multi_margin_loss_backward(s, z, r, ones(TN_INTS(2)), 1, 1),
            "expected scalar type Long but found Double");
    REFUSED(tn_multilabel_margin_loss_backward(s, z, r, longs(TN_INTS(2, 3)), 1, m),
            "argument 'is_target': Expected a tensor");
    REFUSED(tn_glu_backward(s, r, ones(TN_INTS(2, 4)), -1),
            "argument 'grad_output': Expected a tensor of dimension 2 and tensor.size[1] == 2");
    REFUSED(tn_glu_backward(s, ones(TN_INTS(1)), i, -2), "Dimension out of range");
    REFUSED(tn__softmax_backward_data(s, r, v, 0, TN_FLOAT64),
            "Expected tensor for argument #1 'grad' to have same size as tensor for argument #2 'output'; "
            "but [2, 3] does not "
            "equal [3]");
    end();
}

Test(refusals_backward, of_rows_and_distances)
{
    tn_tensor *q = ones(TN_INTS(1, 1, 2, 3)), *sums = ones(TN_INTS(1, 1, 2)), *lengths = longs(TN_INTS(3));
    REFUSED(tn_embedding_dense_backward(s, m, i, 4, -1, 0),
            "shape '[2, 3]' is invalid for grad_output of size [3, 3]");
    REFUSED(tn__embedding_bag_dense_backward(s, r, i, lengths, i, i, 4, 0, 0, NULL),
            "offset2bag should contain 2 elements not 3");
    REFUSED(tn__embedding_bag_dense_backward(s, r, i, i, i, i, 4, 0, 2, NULL),
            "argument 'maximum_indices': Expected a tensor");
    REFUSED(tn__embedding_bag_dense_backward(s, r, i, i, longs(TN_INTS(1)), i, 4, 0, 1, NULL),
            "bag_size should contain 2");
    tn_tensor *twos = tn_add(s, i, i); /* beyond bag 1, in which indices behind one bag are */
    REFUSED(tn__embedding_bag_dense_backward(s, ones(TN_INTS(1, 3)), i, twos, i, i, 4, 0, 0, NULL),
            "index out of range in self");
    REFUSED(tn__embedding_bag_per_sample_weights_backward(s, r, ones(TN_INTS(4, 2)), i, i, i, 0),
            "argument 'weight': Expected");
    REFUSED(tn__embedding_bag_per_sample_weights_backward(s, ones(TN_INTS(1, 3)), r, longs(TN_INTS(1)),
                                                          tn_arange(s, 2),
                                                          tn_add(s, longs(TN_INTS(1)), longs(TN_INTS(1))), 0),
            "index out of range in self");
    REFUSED(tn__cdist_backward(s, r, m, m, 2, m),
            "argument 'grad': Expected a tensor of dimension 2 and tensor.size[0] == 3");
    REFUSED(tn__cdist_backward(s, m, m, m, 2, r), "argument 'cdist': Expected");
    REFUSED(tn__pdist_backward(s, ones(TN_INTS(2)), m, 2, v),
            "argument 'grad': Expected a tensor of dimension 1");
    REFUSED(tn__segment_reduce_backward(s, v, m, v, "sum", .lengths = longs(TN_INTS(3))),
            "argument 'output'");
    REFUSED(tn__scaled_dot_product_flash_attention_for_cpu_backward(s, q, q, q, q, q, z, 0, 0).grad_query,
            "argument 'logsumexp': Expected a tensor of dimension 3 but got: dimension 0");
    REFUSED(tn__scaled_dot_product_flash_attention_for_cpu_backward(s, x, q, q, q, q, sums, 0, 0).grad_query,
            "argument 'grad_out': Expected a tensor of dimension 4 and tensor.size[1] == 1");
    end();
}

Test(refusals_backward, of_writes)
{
    tn_tensor *none = ones(TN_INTS(0, 3)), *at = longs(TN_INTS(2, 3));
    REFUSED(tn_scatter_(s, none, 0, at, r), "index is out of bounds for dimension 0 with size 0");
    REFUSED(tn_scatter_add(s, none, 0, at, r), "index is out of bounds for dimension 0 with size 0");
    REFUSED(tn_index_add_(s, none, 0, i, r), "index is out of bounds for dimension 0 with size 0");
    REFUSED(tn_cumsum_(s, v, 0, .dtype = TN_INT32),
            "Bad in-place call: input tensor dtype Double and output tensor dtype Int should match");
    REFUSED(tn_cumprod_(s, v, 0, .dtype = TN_FLOAT32), "output tensor dtype Float should match");
    end();
}

/* What drops nothing is the tensor itself, which may then be a leaf in place; what drops something may not. */
Test(refusals_backward, of_dropout_in_place)
{
    tn_tensor *leaf = ones(TN_INTS(2, 3)), *none = ones(TN_INTS(0, 3));
    tn_set_requires_grad(leaf, 1);
    tn_set_requires_grad(none, 1);
    cr_expect_eq(tn_dropout_(s, leaf, 0, 1), leaf);
    cr_expect_eq(tn_alpha_dropout_(s, leaf, 0.5, 0), leaf);
    cr_expect_eq(tn_feature_dropout_(s, leaf, 0.5, 0), leaf);
    cr_expect_eq(tn_feature_alpha_dropout_(s, none, 0.5, 1), none);
    cr_expect_eq(tn_item_double(s, tn_sum(s, tn_detach(s, leaf))), 6);
    REFUSED(tn_dropout_(s, leaf, 0.5, 1),
            "a leaf Variable that requires grad is being used in an in-place operation.");
    REFUSED(tn_dropout_(s, leaf, 2, 0), "dropout probability has to be between 0 and 1, but got 2");
    end();
}
