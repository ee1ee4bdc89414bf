/* SPDX-License-Identifier: Apache-2.0 */
/* Refused calls of losses, normalisation, convolution and pooling. */
#include "refusals_operands.h"

TestSuite(refusals_layers, .init = begin_with_operands);

Test(refusals_layers, of_losses_over_classes)
{
    REFUSED(tn_smooth_l1_loss(s, v, v, .beta = -1),
            "smooth_l1_loss does not support negative values for beta.");
    REFUSED(tn_huber_loss(s, v, v, .delta = 0), "huber_loss does not support non-positive values for delta.");
    REFUSED(tn_nll_loss_nd(s, z, longs(TN_NO_INTS)), "Expected 1 or more dimensions (got 0)");
    REFUSED(tn_nll_loss_nd(s, v, i), "For 1D input, 1D target must have size 1, but got target size: 2");
    REFUSED(tn_nll_loss_nd(s, r, longs(TN_INTS(2, 1))),
            "0D or 1D target tensor expected, multi-target not supported");
    REFUSED(tn_nll_loss_nd(s, r, longs(TN_INTS(3))),
            "Expected input batch_size (2) to match target batch_size (3).");
    REFUSED(tn_nll_loss_nd(s, b, longs(TN_INTS(2, 5))), "Expected target size [2, 3], got [2, 5]");
    REFUSED(tn_nll_loss_nd(s, r, ones(TN_INTS(2))),
            "expected target dtype to be Long or Byte, but got Double");
    REFUSED(tn_nll_loss_nd(s, r, i, .weight = tn_to(s, v, TN_FLOAT32)),
            "expected scalar type Double but found Float");
    REFUSED(tn_nll_loss_nd(s, r, i, .weight = ones(TN_INTS(2))),
            "weight tensor should be defined either for all 3 classes or no classes but got");
    REFUSED(tn_nll_loss_nd(s, j, i), "\" not implemented for 'Long'");
    end();
}

#define NOT_A_REDUCTION(call, name) \
    REFUSED(call, name ": argument 'reduction': 7 is not a reduction (expected 0 none, 1 mean, 2 sum)")

/* By every loss and gradient alike; ATen asserts in some, and takes the number for none or for the sum in others. */
Test(refusals_layers, of_numbers_that_are_not_reductions)
{
    tn_tensor *rows = longs(TN_INTS(1, 4, 4)), *labels = tn_zeros(s, TN_INTS(2, 3), .dtype = TN_INT64);
    const tn_ints one = TN_INTS(2);
    NOT_A_REDUCTION(tn_mse_loss(s, r, r, .reduction = 7), "mse_loss");
    NOT_A_REDUCTION(tn_mse_loss_out(s, r, r, tn_zeros_like(s, r), .reduction = 7), "mse_loss");
    NOT_A_REDUCTION(tn_mse_loss_backward(s, z, r, r, 7), "mse_loss_backward");
    NOT_A_REDUCTION(tn_l1_loss(s, r, r, .reduction = 7), "l1_loss");
    NOT_A_REDUCTION(tn_smooth_l1_loss(s, r, r, .reduction = 7), "smooth_l1_loss");
    NOT_A_REDUCTION(tn_smooth_l1_loss_backward(s, z, r, r, 7, 1), "smooth_l1_loss_backward");
    NOT_A_REDUCTION(tn_huber_loss(s, r, r, .reduction = 7), "huber_loss");
    NOT_A_REDUCTION(tn_huber_loss_backward(s, z, r, r, 7, 1), "huber_loss_backward");
    NOT_A_REDUCTION(tn_soft_margin_loss(s, r, r, .reduction = 7), "soft_margin_loss");
    NOT_A_REDUCTION(tn_soft_margin_loss_backward(s, z, r, r, 7), "soft_margin_loss_backward");
    NOT_A_REDUCTION(tn_binary_cross_entropy(s, r, r, .reduction = 7), "binary_cross_entropy");
    NOT_A_REDUCTION(tn_binary_cross_entropy_backward(s, z, r, r, .reduction = 7),
                    "binary_cross_entropy_backward");
    NOT_A_REDUCTION(tn_binary_cross_entropy_with_logits(s, r, r, .reduction = 7),
                    "binary_cross_entropy_with_logits");
    NOT_A_REDUCTION(tn_nll_loss_forward(s, r, i, NULL, 7, -100).output, "nll_loss_forward");
    NOT_A_REDUCTION(tn_nll_loss_backward(s, z, r, i, NULL, 7, -100, z), "nll_loss_backward");
    NOT_A_REDUCTION(tn_nll_loss2d_forward(s, x, rows, NULL, 7, -100).output, "nll_loss2d_forward");
    NOT_A_REDUCTION(tn_nll_loss2d_backward(s, z, x, rows, NULL, 7, -100, z), "nll_loss2d_backward");
    NOT_A_REDUCTION(tn_nll_loss(s, r, i, .reduction = 7), "nll_loss");
    NOT_A_REDUCTION(tn_nll_loss2d(s, x, rows, .reduction = 7), "nll_loss2d");
    NOT_A_REDUCTION(tn_nll_loss_nd(s, r, i, .reduction = 7), "nll_loss_nd");
    NOT_A_REDUCTION(tn_cross_entropy_loss(s, r, i, .reduction = 7), "cross_entropy_loss");
    NOT_A_REDUCTION(tn_kl_div(s, r, r, .reduction = 7), "kl_div");
    NOT_A_REDUCTION(tn_poisson_nll_loss(s, r, r, 1, 0, 1e-8, 7), "poisson_nll_loss");
    NOT_A_REDUCTION(tn_margin_ranking_loss(s, r, r, r, .reduction = 7), "margin_ranking_loss");
    NOT_A_REDUCTION(tn_hinge_embedding_loss(s, r, r, .reduction = 7), "hinge_embedding_loss");
    NOT_A_REDUCTION(tn_cosine_embedding_loss(s, r, r, i, .reduction = 7), "cosine_embedding_loss");
    NOT_A_REDUCTION(tn_triplet_margin_loss(s, r, r, r, .reduction = 7), "triplet_margin_loss");
    NOT_A_REDUCTION(tn_multi_margin_loss(s, r, i, .reduction = 7), "multi_margin_loss");
    NOT_A_REDUCTION(tn_multi_margin_loss_backward(s, z, r, i, TN_SCALAR(1), TN_SCALAR(1), .reduction = 7),
                    "multi_margin_loss_backward");
    NOT_A_REDUCTION(tn_multilabel_margin_loss(s, r, labels, .reduction = 7), "multilabel_margin_loss");
    NOT_A_REDUCTION(tn_multilabel_margin_loss_forward(s, r, labels, 7).output,
                    "multilabel_margin_loss_forward");
    NOT_A_REDUCTION(tn_multilabel_margin_loss_backward(s, z, r, labels, 7, r),
                    "multilabel_margin_loss_backward");
    NOT_A_REDUCTION(tn_ctc_loss_intlist(s, b, labels, one, one, .reduction = 7), "ctc_loss");
    NOT_A_REDUCTION(tn_ctc_loss(s, b, labels, i, i, .reduction = 7), "ctc_loss");
    REFUSED(tn_mse_loss(s, r, r, .reduction = -1), "argument 'reduction': -1 is not a reduction");
    REFUSED(tn_mse_loss(s, r, r, .reduction = 3), "argument 'reduction': 3 is not a reduction");
    cr_expect_eq(tn_tensor_rank(tn_mse_loss(s, r, r, .reduction = TN_REDUCTION_NONE)), 2);
    cr_expect_eq(tn_item_double(s, tn_mse_loss(s, r, z, .reduction = TN_REDUCTION_MEAN)), 0);
    cr_expect_eq(tn_item_double(s, tn_l1_loss(s, r, tn_neg(s, r), .reduction = TN_REDUCTION_SUM)), 12);
    end();
}

Test(refusals_layers, of_other_losses)
{
    REFUSED(tn_nll_loss_forward(s, b, i, NULL, 1, -100).output, "input tensor should be 1D or 2D");
    REFUSED(tn_nll_loss2d_forward(s, x, longs(TN_INTS(1, 4)), NULL, 1, -100).output,
            "only batches of spatial targets supported (3D tensors) but got targets of dimension:");
    REFUSED(tn_nll_loss2d_forward(s, r, longs(TN_INTS(1, 4, 4)), NULL, 1, -100).output,
            "only batches of spatial inputs supported (4D tensors), but got input of dimension: 2");
    REFUSED(tn_nll_loss2d_forward(s, x, longs(TN_INTS(1, 4, 5)), NULL, 1, -100).output,
            "size mismatch (got input: [1, 3, 4, 4]");
    REFUSED(tn_cross_entropy_loss(s, r, r, .weight = m),
            "cross_entropy: weight tensor should be defined either for all 3 classes or no");
    REFUSED(tn_cross_entropy_loss(s, j, j), "\"log_softmax_lastdim_kernel_impl\" not implemented for 'Long'");
    REFUSED(tn_cross_entropy_loss(s, r, r, .ignore_index = 1),
            "ignore_index is not supported for floating point target");
    REFUSED(tn_cross_entropy_loss(s, r, i, .label_smoothing = 2),
            "label_smoothing must be between 0.0 and 1.0. Got: 2");
    REFUSED(tn_cosine_embedding_loss(s, r, r, b),
            "0D or 1D target tensor expected, multi-target not supported");
    REFUSED(tn_cosine_embedding_loss(s, r, m, v),
            "The size of tensor a (2) must match the size of tensor b (3) at non-singleton");
    REFUSED(tn_multi_margin_loss(s, r, i, .p = TN_SCALAR(3)), "only p == 1 and p == 2 supported");
    REFUSED(tn_multi_margin_loss(s, r, longs(TN_INTS(3))),
            "inconsistent target size, expected 2 but got [3]");
    REFUSED(tn_multi_margin_loss(s, r, i, .weight = ones(TN_INTS(2))),
            "inconsistent weight size, expected 3 but got [2]");
    REFUSED(tn_multi_margin_loss(s, b, i),
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: [2, 2,");
    REFUSED(tn_multilabel_margin_loss(s, r, longs(TN_INTS(2, 2))),
            "inconsistent target size: [2, 2] for input of size: [2, 3]");
    REFUSED(tn_triplet_margin_loss(s, r, v, b),
            "The anchor, positive, and negative tensors are expected to have the same number of");
    end();
}

Test(refusals_layers, of_normalisation)
{
    REFUSED(tn_layer_norm(s, r, TN_NO_INTS),
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least");
    REFUSED(tn_layer_norm(s, r, TN_INTS(3), .weight = m),
            "Expected weight to be of same shape as normalized_shape, but got weight of shape [3,");
    REFUSED(tn_layer_norm(s, r, TN_INTS(3), .bias = m),
            "Expected bias to be of same shape as normalized_shape, but got bias of shape [3, 3]");
    REFUSED(tn_layer_norm(s, r, TN_INTS(2)),
            "Given normalized_shape=[2], expected input with shape [*, 2], but got input of");
    REFUSED(tn_instance_norm(s, v, NULL, NULL, NULL, NULL, 1, 0.1, 1e-5, 0),
            "expected an input of at least 2 dimensions");
    REFUSED(tn_native_group_norm(s, x, NULL, NULL, 1, 3, 16, 0, 1e-5).result0,
            "Expected num groups to be greater than 0, got 0");
    REFUSED(tn_native_group_norm(s, x, NULL, NULL, 1, 3, 16, 2, 1e-5).result0,
            "Expected number of channels in input to be divisible by num_groups, but got input of");
    REFUSED(tn_native_group_norm(s, x, NULL, NULL, 1, 3, 99, 3, 1e-5).result0,
            "the input of shape [1, 3, 4, 4] does not have N * C * HxW elements");
    REFUSED(tn_native_batch_norm(s, v, NULL, NULL, NULL, NULL, 1, 0.1, 1e-5).result0,
            "expected at least 2D input (got 1D input)");
    REFUSED(tn_fake_quantize_per_tensor_affine(s, tn_to(s, v, TN_FLOAT32), 1, 0, 5, 1),
            "`quant_min` should be less than or");
    REFUSED(tn_fake_quantize_per_tensor_affine(s, tn_to(s, v, TN_FLOAT32), 1, 9, 0, 5),
            "`zero_point` must be between `quant_min` and `quant_max`.");
    REFUSED(tn_fake_quantize_per_channel_affine(s, tn_to(s, m, TN_FLOAT32), tn_to(s, v, TN_FLOAT32),
                                                tn_to(s, i, TN_INT32), 0, 0, 5),
            "scale and zero-point need to have the same dimensions");
    REFUSED(tn_fake_quantize_per_channel_affine(s, tn_to(s, m, TN_FLOAT32), tn_to(s, v, TN_FLOAT32),
                                                tn_to(s, longs(TN_INTS(3)), TN_INT32), 5, 0, 5),
            "`axis` must be between 0 and number of dimensions of input");
    REFUSED(tn_fake_quantize_per_channel_affine(s, tn_to(s, r, TN_FLOAT32), tn_to(s, v, TN_FLOAT32),
                                                tn_to(s, longs(TN_INTS(3)), TN_INT32), 0, 0, 5),
            "dimensions of scale and zero-point are not consistent with input tensor");
    end();
}

Test(refusals_layers, of_convolutions)
{
    REFUSED(tn_convolution(s, x, r, NULL, TN_INTS(1), TN_INTS(0), TN_INTS(1), 0, TN_INTS(0), 1),
            "Expected 2-dimensional input for 2-dimensional weight[2, 3], but got 4-dimensional");
    REFUSED(tn_conv2d(s, x, w, .stride = TN_INTS(1, 1, 1)),
            "stride must either be a single int, or a tuple of two ints");
    REFUSED(tn_conv2d(s, x, w, .dilation = TN_INTS(1, 1, 1)),
            "dilation must either be a single int, or a tuple of two ints");
    REFUSED(tn_conv2d_padding(s, x, w, .padding = "same", .stride = TN_INTS(1, 1, 1)),
            "stride cannot broadcast to 2 dimensions");
    REFUSED(tn_conv2d_padding(s, x, w, .padding = "same", .dilation = TN_INTS(1, 1, 1)),
            "dilation cannot broadcast to 2 dimensions");
    REFUSED(tn_conv_tbc(s, b, m, v),
            "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.");
    REFUSED(tn_conv_tbc(s, b, b, m), "Bias must be 1-D");
    REFUSED(tn_conv_tbc(s, b, b, v), "Input dim 2 (input channels) is not == dim 1 in the weight tensor");
    REFUSED(tn_conv_tbc(s, b, ones(TN_INTS(1, 3, 2)), v),
            "Bias size must equal dim 2 in the weight tensor (output channels).");
    REFUSED(tn_conv_transpose2d(s, x, w, .padding = TN_INTS(9, 9)), "Given input size per channel");
    REFUSED(
        tn_im2col(s, ones(TN_INTS(1, 0, 3, 3)), TN_INTS(1, 1), TN_INTS(1, 1), TN_INTS(0, 0), TN_INTS(1, 1)),
        "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero");
    REFUSED(tn_col2im(s, ones(TN_INTS(1, 4, 9)), TN_INTS(3, 3), TN_INTS(2, 2), TN_INTS(1, 1), TN_INTS(0, 0),
                      TN_INTS(1, 1)),
            "), expected size of input's dimension 2 to match the calculated number of sliding");
    REFUSED(tn_col2im(s, ones(TN_INTS(1, 4, 9)), TN_INTS(1, 1), TN_INTS(2, 2), TN_INTS(1, 1), TN_INTS(0, 0),
                      TN_INTS(1, 1)),
            "(1, 1), kernel_size=(2, 2), dilation=(1, 1), padding=(0, 0),");
    REFUSED(tn_grid_sampler(s, ones(TN_INTS(1, 1, 0, 3)), ones(TN_INTS(1, 1, 1, 2)), 0, 0, 0),
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has");
    REFUSED(tn_grid_sampler_3d(s, x, x, 0, 0, 0),
            "grid_sampler(): expected grid to have size 2 in last dimension, but got grid with");
    end();
}

Test(refusals_layers, of_pools)
{
    REFUSED(tn_max_pool2d(s, x, TN_INTS(2, 2), .stride = TN_INTS(0, 1)),
            "stride should be greater than zero, but got 0");
    REFUSED(tn_max_pool2d(s, x, TN_INTS(1, 2, 3)),
            ": kernel_size must either be a single int, or a tuple of");
    REFUSED(tn_max_pool3d(s, ones(TN_INTS(1, 1, 0, 1, 1)), TN_INTS(1)),
            ": Expected input's non-batch dimensions to have positive length, but input has a");
    REFUSED(tn_avg_pool3d(s, ones(TN_INTS(1, 1, 2, 2, 2)), TN_INTS(3)),
            "Given input size: (1x2x2x2). Calculated output size: (1x0x0x0). Output size is too");
    REFUSED(tn__adaptive_avg_pool2d(s, ones(TN_INTS(1, 1, 0, 1)), TN_INTS(1, 1)),
            "adaptive_avg_pool2d(): Expected input to have non-zero size for non-batch");
    REFUSED(tn__adaptive_avg_pool2d(s, x, TN_INTS(-1, 1)),
            "adaptive_avg_pool2d: elements of output_size must be greater than or equal to 0 but");
    REFUSED(tn_adaptive_max_pool2d(s, x, TN_INTS(-1, 1)).result0,
            "Trying to create tensor with negative dimension -1: [1, 3, -1, 1]");
    REFUSED(tn_adaptive_max_pool1d(s, v, TN_INTS(1)).result0,
            "Expected 2 to 3 dimensions, but got 1-dimensional tensor for argument #1 'self'");
    REFUSED(tn_adaptive_max_pool1d(s, r, TN_INTS(1, 1)).result0, "output_size must be 1");
    REFUSED(tn_adaptive_avg_pool1d(s, r, TN_INTS(1, 1)), "output_size must be 1");
    REFUSED(tn_fractional_max_pool2d(s, x, TN_INTS(2, 2), TN_INTS(2, 2), v).result0,
            "Expect _random_samples to have 3 dimensions,");
    REFUSED(tn_fractional_max_pool2d(s, x, TN_INTS(2, 2), TN_INTS(4, 4), ones(TN_INTS(1, 3, 2))).result0,
            "pool size 2 and output size 4 do not fit into the input size 4");
    REFUSED(tn_max_unpool2d(s, x, x, TN_INTS(4, 4)),
            "elements in indices should be type int64 but got: Double");
    REFUSED(tn_max_unpool2d(s, r, j, TN_INTS(4, 4)),
            "Input to max_unpooling2d should be a 3d or 4d Tensor, but got a tensor with 2");
    REFUSED(tn_max_unpool2d(s, x, longs(TN_INTS(1, 3, 2, 2)), TN_INTS(4, 4)),
            "Expected shape of indices to be same as that of the input tensor ([1, 3, 4, 4]) but");
    REFUSED(tn_upsample_nearest2d(s, r, TN_INTS(4, 4)),
            "It is expected input_size equals to 4, but got size 2");
    REFUSED(tn_upsample_nearest2d(s, ones(TN_INTS(1, 0, 2, 2)), TN_INTS(4, 4)),
            "Non-empty 4D data tensor expected but got a tensor with sizes [1, 0, 2, 2]");
    REFUSED(tn_upsample_nearest2d_backward(s, x, TN_INTS(4, 4), TN_INTS(1, 3, 2)),
            "It is expected input_size equals to 4, but got size 3");
    REFUSED(tn_upsample_nearest2d_backward(s, r, TN_INTS(4, 4), TN_INTS(1, 3, 2, 2)),
            "Expected grad_output to be a tensor of dimension 4 but got: dimension 2");
    REFUSED(tn_upsample_nearest2d_backward(s, x, TN_INTS(5, 5), TN_INTS(1, 3, 2, 2)),
            "Expected grad_output to have the same shape as output; output.size(2) = 5 but got");
    end();
}

/* One int stands for all only where ATen repeats a list of one: in convolutions and pools. */
Test(refusals_layers, of_lists_of_one)
{
    tn_tensor *image = ones(TN_INTS(1, 3, 6, 6)),
              *halves = tn_full(s, TN_INTS(1, 3, 2), 0.5, .dtype = TN_FLOAT64);
    tn_ints one = TN_INTS(1), two = TN_INTS(1, 1), none = TN_INTS(0, 0);
    REFUSED(tn_reflection_pad1d(s, r, one), "padding size is expected to be 2, but got: 1");
    REFUSED(tn_reflection_pad2d(s, x, one), "padding size is expected to be 4, but got: 1");
    REFUSED(tn_replication_pad1d(s, r, one), "padding size is expected to be 2, but got: 1");
    REFUSED(tn_replication_pad2d(s, x, one), "padding size is expected to be 4, but got: 1");
    REFUSED(tn_replication_pad3d(s, x, one), "padding size is expected to be 6, but got: 1");
    REFUSED(tn_reflection_pad2d_backward(s, image, x, one), "padding size is expected to be 4, but got: 1");
    REFUSED(tn_adaptive_avg_pool2d(s, x, one), "adaptive_avg_pool2d: output_size must have 2 items (got 1)");
    REFUSED(tn__adaptive_avg_pool3d(s, x, one), "adaptive_avg_pool3d: output_size must have 3 items (got 1)");
    REFUSED(tn_adaptive_max_pool3d(s, x, two), "adaptive_max_pool3d: output_size must have 3 items (got 2)");
    REFUSED(tn_fractional_max_pool2d(s, x, one, two, halves),
            "It is expected kernel_size equals to 2, but got size 1");
    REFUSED(tn_fractional_max_pool2d(s, x, two, one, halves),
            "It is expected output_size equals to 2, but got size 1");
    REFUSED(tn_im2col(s, x, two, one, none, two), "It is expected dilation equals to 2, but got size 1");
    REFUSED(tn_slow_conv_dilated2d(s, x, w, TN_INTS(2, 2), .stride = one),
            "It is expected stride equals to 2, but got size 1");
    REFUSED(tn_slow_conv_transpose2d(s, x, w, TN_INTS(2, 2), .output_padding = TN_INTS(0)),
            "It is expected output_padding equals to 2, but got size 1");
    REFUSED(tn_upsample_nearest2d(s, x, one), "It is expected output_size equals to 2, but got size 1");
    REFUSED(tn_max_unpool2d(s, x, longs(TN_INTS(1, 3, 4, 4)), one),
            "elements in output_size, but got 1 elements");
    REFUSED(tn_nuclear_norm_dim(s, m, one), "linalg.matrix_norm: dim must be a 2-tuple. Got [1]");
    tn_tensor *all[] = {tn_conv2d(s, x, w, .stride = TN_INTS(2)), tn_max_pool2d(s, x, TN_INTS(2)),
                        tn_avg_pool2d(s, x, TN_INTS(2), .stride = one, .padding = one)};
    const int64_t sides[] = {2, 2, 5};
    for (int32_t n = 0; n < 3; n++) {
        cr_expect_eq(tn_tensor_size(all[n], 2), sides[n]);
        cr_expect_eq(tn_tensor_size(all[n], 3), sides[n]);
    }
    const tn_value args[] = {tn_value_tensor(x), tn_value_int(1)}; /* an int is not a list */
    tn_value out = tn_value_none();
    cr_expect_eq(tn_scope_call(s, TN_OP_REFLECTION_PAD2D, args, 2, &out, 1), TN_OK);
    cr_expect_eq(tn_tensor_size(tn_value_as_tensor(out), 3), 6);
    end();
}

/* The arguments count also where there are no elements. */
Test(refusals_layers, of_options_of_activations)
{
    const char *const text = "approximate argument must be either none or tanh, got U";
    for (int64_t n = 0; n < 2; n++) {
        tn_tensor *a = ones(TN_INTS(n)), *out = ones(TN_INTS(n));
        REFUSED(tn_gelu(s, a, .approximate = "U"), text);
        REFUSED(tn_gelu_(s, a, .approximate = "U"), text);
        REFUSED(tn_gelu_out(s, a, out, .approximate = "U"), text);
        REFUSED(tn_gelu_backward(s, a, a, .approximate = "U"), text);
        REFUSED(tn_leaky_relu_backward(s, a, a, -1, 1),
                "In-place leakyReLu backward calculation is triggered with a negative slope which is not");
        REFUSED(tn_elu_backward(s, a, -1, 1, 1, 1, a),
                "In-place elu backward calculation is triggered with a negative slope which is not");
    }
    end();
}

/* What ATen refuses although it could be computed, or what would have another size than ATen's result. */
Test(refusals_layers, of_lists_and_sizes)
{
    tn_tensor *zero = tn_full(s, TN_INTS(3), 7, .dtype = TN_INT32),
              *scale = tn_ones(s, TN_INTS(3), .dtype = TN_FLOAT32);
    REFUSED(tn_avg_pool1d(s, m, TN_INTS(3, 2)),
            "avg_pool1d() argument 'kernel_size' should contain one int (got 2)");
    REFUSED(tn_max_pool1d(s, m, TN_NO_INTS),
            "max_pool1d() argument 'kernel_size' should contain one int (got 0)");
    REFUSED(tn_max_pool1d(s, m, TN_INTS(2), .padding = TN_INTS(1, 1)),
            "argument 'padding' should contain one int (got 2)");
    REFUSED(tn_binary_cross_entropy(s, r, r, .weight = ones(TN_INTS(1, 2, 3)), .reduction = 0),
            "output with shape [2, 3] doesn't match the broadcast shape [1, 2, 3]");
    REFUSED(tn_soft_margin_loss(s, z, ones(TN_INTS(1))),
            "output with shape [] doesn't match the broadcast shape [1]");
    REFUSED(tn_fake_quantize_per_channel_affine(s, m, scale, zero, 0, 0, 6),
            "`zero_point` must be between `quant_min` and `quant_max`.");
    REFUSED(tn_fake_quantize_per_channel_affine(s, m, v, zero, 0, 0, 7),
            "Scale must be Float or BFloat16, found Double");
    REFUSED(tn_embedding_renorm_(s, v, i, 1, 2),
            "Expected 2-dimensional tensor, but got 1-dimensional tensor for argument #1");
    REFUSED(tn_embedding_renorm_(s, ones(TN_INTS(0, 3)), i, 1, 2),
            "index is out of bounds for dimension 0 with size 0");
    REFUSED(tn_unique_dim(s, ones(TN_INTS(0, 0)), 0).result0,
            "Number of zero sized dimensions is more than one");
    end();
}

Test(refusals_layers, operands_without_their_like)
{
    REFUSED(tn_nll_loss(s, v, i), "For 1D input, 1D target must have size 1, but got target size: 2");
    REFUSED(tn_nll_loss_backward(s, z, v, i, NULL, 1, -100, z),
            "For 1D input, 1D target must have size 1, but got target size: 2");
    REFUSED(tn_native_batch_norm(s, b, NULL, NULL, ones(TN_INTS(2)), NULL, 1, 0.1, 1e-5).result0,
            "running_mean and running_var must either both be None or neither be None");
    REFUSED(tn_batch_norm(s, b, NULL, NULL, NULL, ones(TN_INTS(2)), 1, 0.1, 1e-5, 0),
            "running_mean and running_var must either both be None or neither be None");
    REFUSED(tn_instance_norm(s, b, NULL, NULL, ones(TN_INTS(2)), NULL, 1, 0.1, 1e-5, 0),
            "running_mean and running_var must either both be None or neither be None");
    end();
}
