/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every layer against PyTorch: outputs, gradients, names of the state, changed buffers and the printed line, from
 * layers.safetensors, which record_layers.py wrote.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tenon/nn.h>
#include "../autograd/fixture.h"

typedef struct test_case {
    char name[48];
    tn_module *(*create)(tn_module *net);
} test_case;

#define I(...) TN_INTS(__VA_ARGS__)
/* name, the call without parent and name */
#define CASES(X)                                                                                             \
    X(identity, tn_identity_create(net, "m"))                                                                \
    X(linear, tn_linear_create(net, "m", 3, 5))                                                              \
    X(linear_no_bias, tn_linear_create(net, "m", 3, 5, .bias = 0))                                           \
    X(bilinear, tn_bilinear_create(net, "m", 3, 4, 2))                                                       \
    X(conv1d, tn_conv1d_create(net, "m", 4, 6, I(3), .stride = I(2), .padding = I(1), .groups = 2))          \
    X(conv2d, tn_conv2d_create(net, "m", 3, 4, I(3, 2), .padding = I(1, 0), .dilation = I(1, 2)))            \
    X(conv2d_same, tn_conv2d_create(net, "m", 2, 3, I(4, 3), .same = 1))                                     \
    X(conv2d_circular,                                                                                       \
      tn_conv2d_create(net, "m", 2, 3, I(3), .padding = I(1), .padding_mode = "circular", .bias = 0))        \
    X(conv2d_reflect_same, tn_conv2d_create(net, "m", 2, 2, I(2, 3), .same = 1, .padding_mode = "reflect"))  \
    X(conv3d, tn_conv3d_create(net, "m", 2, 3, I(2)))                                                        \
    X(conv_transpose1d,                                                                                      \
      tn_conv_transpose1d_create(net, "m", 4, 2, I(3), .stride = I(2), .output_padding = I(1)))              \
    X(conv_transpose2d,                                                                                      \
      tn_conv_transpose2d_create(net, "m", 4, 6, I(3), .stride = I(2), .padding = I(1), .groups = 2))        \
    X(conv_transpose3d, tn_conv_transpose3d_create(net, "m", 2, 2, I(2), .bias = 0))                         \
    X(max_pool1d, tn_max_pool1d_create(net, "m", I(3), .stride = I(2), .padding = I(1)))                     \
    X(max_pool2d, tn_max_pool2d_create(net, "m", I(2, 3)))                                                   \
    X(max_pool2d_indices, tn_max_pool2d_create(net, "m", I(2), .return_indices = 1))                         \
    X(max_pool3d, tn_max_pool3d_create(net, "m", I(2), .ceil_mode = 1))                                      \
    X(avg_pool1d, tn_avg_pool1d_create(net, "m", I(3), .stride = I(2)))                                      \
    X(avg_pool2d, tn_avg_pool2d_create(net, "m", I(3), .padding = I(1), .count_include_pad = 0))             \
    X(avg_pool2d_divisor, tn_avg_pool2d_create(net, "m", I(2), .divisor_override = 3))                       \
    X(avg_pool3d, tn_avg_pool3d_create(net, "m", I(2)))                                                      \
    X(lp_pool1d, tn_lp_pool1d_create(net, "m", 2, I(3), .stride = I(3)))                                     \
    X(lp_pool2d, tn_lp_pool2d_create(net, "m", 3, I(2), .stride = I(1)))                                     \
    X(adaptive_max_pool1d, tn_adaptive_max_pool1d_create(net, "m", I(3)))                                    \
    X(adaptive_max_pool2d, tn_adaptive_max_pool2d_create(net, "m", I(3, 2)))                                 \
    X(adaptive_avg_pool1d, tn_adaptive_avg_pool1d_create(net, "m", I(3)))                                    \
    X(adaptive_avg_pool2d, tn_adaptive_avg_pool2d_create(net, "m", I(1, 1)))                                 \
    X(adaptive_avg_pool3d, tn_adaptive_avg_pool3d_create(net, "m", I(2)))                                    \
    X(zero_pad2d, tn_zero_pad2d_create(net, "m", I(1, 2, 0, 1)))                                             \
    X(constant_pad1d, tn_constant_pad1d_create(net, "m", I(2), 3.5))                                         \
    X(reflection_pad2d, tn_reflection_pad2d_create(net, "m", I(2)))                                          \
    X(replication_pad3d, tn_replication_pad3d_create(net, "m", I(1)))                                        \
    X(circular_pad1d, tn_circular_pad1d_create(net, "m", I(1, 2)))                                           \
    X(elu, tn_elu_create(net, "m", .alpha = 1.5))                                                            \
    X(celu, tn_celu_create(net, "m", .alpha = 0.5))                                                          \
    X(selu, tn_selu_create(net, "m"))                                                                        \
    X(gelu, tn_gelu_create(net, "m"))                                                                        \
    X(gelu_tanh, tn_gelu_create(net, "m", .approximate = "tanh"))                                            \
    X(glu, tn_glu_create(net, "m"))                                                                          \
    X(hardshrink, tn_hardshrink_create(net, "m", .lambd = 0.3))                                              \
    X(hardsigmoid, tn_hardsigmoid_create(net, "m"))                                                          \
    X(hardswish, tn_hardswish_create(net, "m"))                                                              \
    X(hardtanh, tn_hardtanh_create(net, "m", .min_val = -0.5, .max_val = 2))                                 \
    X(leaky_relu, tn_leaky_relu_create(net, "m", .negative_slope = 0.2))                                     \
    X(log_sigmoid, tn_log_sigmoid_create(net, "m"))                                                          \
    X(log_softmax, tn_log_softmax_create(net, "m", 1))                                                       \
    X(mish, tn_mish_create(net, "m"))                                                                        \
    X(prelu, tn_prelu_create(net, "m", .num_parameters = 3))                                                 \
    X(relu, tn_relu_create(net, "m"))                                                                        \
    X(relu6, tn_relu6_create(net, "m"))                                                                      \
    X(sigmoid, tn_sigmoid_create(net, "m"))                                                                  \
    X(silu, tn_silu_create(net, "m"))                                                                        \
    X(softmax, tn_softmax_create(net, "m", 0))                                                               \
    X(softmax2d, tn_softmax2d_create(net, "m"))                                                              \
    X(softmin, tn_softmin_create(net, "m", 1))                                                               \
    X(softplus, tn_softplus_create(net, "m", .beta = 2, .threshold = 3))                                     \
    X(softshrink, tn_softshrink_create(net, "m", .lambd = 0.25))                                             \
    X(softsign, tn_softsign_create(net, "m"))                                                                \
    X(tanh, tn_tanh_create(net, "m"))                                                                        \
    X(tanhshrink, tn_tanhshrink_create(net, "m"))                                                            \
    X(threshold, tn_threshold_create(net, "m", 0.1, 20))                                                     \
    X(batch_norm1d, tn_batch_norm1d_create(net, "m", 3))                                                     \
    X(batch_norm2d, tn_batch_norm2d_create(net, "m", 3, .momentum = 0.3))                                    \
    X(batch_norm2d_eval, tn_batch_norm2d_create(net, "m", 3))                                                \
    X(batch_norm_cumulative, tn_batch_norm1d_create(net, "m", 2, .momentum = TN_NONE))                       \
    X(batch_norm3d_plain, tn_batch_norm3d_create(net, "m", 2, .affine = 0, .track_running_stats = 0))        \
    X(instance_norm1d, tn_instance_norm1d_create(net, "m", 3))                                               \
    X(instance_norm2d, tn_instance_norm2d_create(net, "m", 3, .affine = 1, .track_running_stats = 1))        \
    X(group_norm, tn_group_norm_create(net, "m", 2, 4))                                                      \
    X(layer_norm, tn_layer_norm_create(net, "m", I(3, 4)))                                                   \
    X(layer_norm_no_bias, tn_layer_norm_create(net, "m", I(4), .bias = 0, .eps = 0.001))                     \
    X(rms_norm, tn_rms_norm_create(net, "m", I(4)))                                                          \
    X(local_response_norm, tn_local_response_norm_create(net, "m", 3, .alpha = 0.01))                        \
    X(dropout_eval, tn_dropout_create(net, "m", .p = 0.3))                                                   \
    X(alpha_dropout_eval, tn_alpha_dropout_create(net, "m"))                                                 \
    X(embedding, tn_embedding_create(net, "m", 6, 3, .padding_idx = 2))                                      \
    X(embedding_max_norm, tn_embedding_create(net, "m", 6, 3, .max_norm = 0.8))                              \
    X(embedding_bag, tn_embedding_bag_create(net, "m", 7, 3))                                                \
    X(embedding_bag_offsets, tn_embedding_bag_create(net, "m", 7, 3, .mode = "sum"))                         \
    X(embedding_bag_max, tn_embedding_bag_create(net, "m", 7, 3, .mode = "max", .padding_idx = 1))           \
    X(flatten, tn_flatten_create(net, "m"))                                                                  \
    X(unflatten, tn_unflatten_create(net, "m", 1, I(2, 3)))                                                  \
    X(fold, tn_fold_create(net, "m", I(4, 5), I(2)))                                                         \
    X(unfold, tn_unfold_create(net, "m", I(2), .stride = I(2)))                                              \
    X(pixel_shuffle, tn_pixel_shuffle_create(net, "m", 2))                                                   \
    X(pixel_unshuffle, tn_pixel_unshuffle_create(net, "m", 2))                                               \
    X(channel_shuffle, tn_channel_shuffle_create(net, "m", 2))                                               \
    X(upsample_nearest, tn_upsample_create(net, "m", .scale_factor = 2))                                     \
    X(upsample_bilinear, tn_upsample_create(net, "m", .size = I(4, 5), .mode = "bilinear"))                  \
    X(upsample_bicubic,                                                                                      \
      tn_upsample_create(net, "m", .scale_factor = 2, .mode = "bicubic", .align_corners = 1))                \
    X(upsample_trilinear, tn_upsample_create(net, "m", .size = I(3, 4, 2), .mode = "trilinear"))             \
    X(upsampling_nearest2d, tn_upsampling_nearest2d_create(net, "m", .scale_factor = 2))                     \
    X(upsampling_bilinear2d, tn_upsampling_bilinear2d_create(net, "m", .size = I(5, 4)))                     \
    X(cosine_similarity, tn_cosine_similarity_create(net, "m"))                                              \
    X(pairwise_distance, tn_pairwise_distance_create(net, "m", .p = 3))                                      \
    X(l1_loss, tn_l1_loss_create(net, "m"))                                                                  \
    X(mse_loss, tn_mse_loss_create(net, "m", .reduction = "sum"))                                            \
    X(cross_entropy_loss, tn_cross_entropy_loss_create(net, "m", .weight = ones(4), .label_smoothing = 0.1)) \
    X(nll_loss, tn_nll_loss_create(net, "m", .ignore_index = 1, .reduction = "none"))                        \
    X(poisson_nll_loss, tn_poisson_nll_loss_create(net, "m", .full = 1))                                     \
    X(gaussian_nll_loss, tn_gaussian_nll_loss_create(net, "m", .full = 1))                                   \
    X(kl_div_loss, tn_kl_div_loss_create(net, "m", .reduction = "batchmean", .log_target = 1))               \
    X(bce_loss, tn_bce_loss_create(net, "m", .weight = ones(3)))                                             \
    X(bce_with_logits_loss, tn_bce_with_logits_loss_create(net, "m", .pos_weight = ones(3)))                 \
    X(margin_ranking_loss, tn_margin_ranking_loss_create(net, "m", .margin = 0.2))                           \
    X(hinge_embedding_loss, tn_hinge_embedding_loss_create(net, "m", .margin = 0.5))                         \
    X(multilabel_margin_loss, tn_multilabel_margin_loss_create(net, "m"))                                    \
    X(huber_loss, tn_huber_loss_create(net, "m", .delta = 0.5))                                              \
    X(smooth_l1_loss, tn_smooth_l1_loss_create(net, "m", .beta = 0.3))                                       \
    X(soft_margin_loss, tn_soft_margin_loss_create(net, "m"))                                                \
    X(multilabel_soft_margin_loss, tn_multilabel_soft_margin_loss_create(net, "m", .weight = ones(3)))       \
    X(cosine_embedding_loss, tn_cosine_embedding_loss_create(net, "m", .margin = 0.1))                       \
    X(multi_margin_loss, tn_multi_margin_loss_create(net, "m", .p = 2))                                      \
    X(triplet_margin_loss, tn_triplet_margin_loss_create(net, "m", .swap = 1))                               \
    X(ctc_loss, tn_ctc_loss_create(net, "m"))                                                                \
    X(rnn, tn_rnn_create(net, "m", 3, 4, .nonlinearity = "relu"))                                            \
    X(lstm, tn_lstm_create(net, "m", 3, 4, .num_layers = 2, .bidirectional = 1))                             \
    X(lstm_state, tn_lstm_create(net, "m", 3, 4, .batch_first = 1, .proj_size = 2))                          \
    X(gru, tn_gru_create(net, "m", 3, 4, .bias = 0))                                                         \
    X(rnn_cell, tn_rnn_cell_create(net, "m", 3, 4))                                                          \
    X(lstm_cell, tn_lstm_cell_create(net, "m", 3, 4))                                                        \
    X(gru_cell, tn_gru_cell_create(net, "m", 3, 4))                                                          \
    X(multihead_attention, tn_multihead_attention_create(net, "m", 4, 2, .need_weights = 1))                 \
    X(multihead_attention_masks, tn_multihead_attention_create(net, "m", 4, 2, .need_weights = 1,            \
                                                               .batch_first = 1, .kdim = 3, .vdim = 5))      \
    X(transformer_encoder_layer,                                                                             \
      tn_transformer_encoder_layer_create(net, "m", 4, 2, .dim_feedforward = 6, .dropout = 0))               \
    X(transformer_encoder_layer_first,                                                                       \
      tn_transformer_encoder_layer_create(net, "m", 4, 2, .dim_feedforward = 6, .dropout = 0,                \
                                          .norm_first = 1, .activation = "gelu", .batch_first = 1))          \
    X(transformer_decoder_layer,                                                                             \
      tn_transformer_decoder_layer_create(net, "m", 4, 2, .dim_feedforward = 6, .dropout = 0))               \
    X(transformer_encoder,                                                                                   \
      tn_transformer_encoder_create(net, "m", 4, 2, 2, .dim_feedforward = 6, .dropout = 0, .norm = 1))       \
    X(transformer_decoder,                                                                                   \
      tn_transformer_decoder_create(net, "m", 4, 2, 2, .dim_feedforward = 6, .dropout = 0))                  \
    X(transformer, tn_transformer_create(net, "m", 4, 2, 1, 2, .dim_feedforward = 6, .dropout = 0))          \
    X(adaptive_log_softmax,                                                                                  \
      tn_adaptive_log_softmax_with_loss_create(net, "m", 6, 9, I(3, 5), .div_value = 2))                     \
    X(adaptive_log_softmax_head, tn_adaptive_log_softmax_with_loss_create(net, "m", 6, 9, I(3, 5, 7),        \
                                                                          .div_value = 1.5, .head_bias = 1)) \
    X(upsample_recomputed,                                                                                   \
      tn_upsample_create(net, "m", .scale_factor = 2.7, .mode = "linear", .recompute_scale_factor = 1))      \
    X(upsample_not_recomputed, tn_upsample_create(net, "m", .scale_factor = 2.7, .mode = "linear"))          \
    X(upsample_nearest_exact, tn_upsample_create(net, "m", .size = I(4, 5), .mode = "nearest-exact"))

static tn_scope *s; /* of the case that runs */

/* A weight of a loss, whose values the state then brings. */
static tn_tensor *ones(int64_t n)
{
    return tn_ones(s, TN_INTS(n), .dtype = TN_FLOAT64);
}

#define CREATE(name, call)                          \
    static tn_module *create_##name(tn_module *net) \
    {                                               \
        return call;                                \
    }
CASES(CREATE)
#define ROW(name, call) {#name, create_##name},
static test_case cases[] = {CASES(ROW)};

static tn_safetensors *file;

static int32_t has(const char *name)
{
    for (uint64_t i = 0; i < tn_safetensors_count(file); i++)
        if (!strcmp(tn_safetensors_name(file, i), name)) return 1;
    return 0;
}

static tn_tensor *recorded(const char *test, const char *part)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", test, part);
    return has(name) ? tn_safetensors_get(s, file, name, TN_CPU) : NULL;
}

static void expect_close(const char *test, const char *part, tn_tensor *got)
{
    tn_tensor *want = recorded(test, part);
    cr_assert_not_null(want, "%s.%s was not recorded", test, part);
    cr_assert_not_null(got, "%s: %s is NULL: %s", test, part,
                       tn_scope_error(s) ? tn_scope_error(s)->message : "");
    cr_assert_eq(tn_tensor_dtype(got), tn_tensor_dtype(want), "%s: dtype of %s", test, part);
    cr_assert_eq(tn_tensor_rank(got), tn_tensor_rank(want), "%s: rank of %s", test, part);
    for (int64_t d = 0; d < tn_tensor_rank(want); d++)
        cr_assert_eq(tn_tensor_size(got, d), tn_tensor_size(want, d), "%s: size %lld of %s", test,
                     (long long)d, part);
    /* PyTorch multiplies the gradient of hardsigmoid by 1/6 in float32. */
    double rtol = strcmp(test, "hardsigmoid") ? 1e-9 : 1e-7;
    cr_assert(tn_allclose(s, tn_detach(s, got), want, .rtol = rtol, .atol = 1e-11, .equal_nan = 1),
              "%s: %s is\n%s\nexpected\n%s", test, part, tn_format(s, tn_detach(s, got), NULL),
              tn_format(s, want, NULL));
}

/* The names after "<case>.<part>." in the file. */
static tn_named_tensors with_prefix(const char *test, const char *part)
{
    char prefix[96];
    tn_named_tensor *items = tn_scope_memory(s, 256 * sizeof *items);
    int64_t n = 0;
    snprintf(prefix, sizeof prefix, "%s.%s.", test, part);
    for (uint64_t i = 0; i < tn_safetensors_count(file); i++) {
        const char *name = tn_safetensors_name(file, i);
        if (strncmp(name, prefix, strlen(prefix))) continue;
        items[n++] = (tn_named_tensor){name + strlen(prefix), tn_safetensors_get(s, file, name, TN_CPU)};
    }
    return (tn_named_tensors){items, n};
}

static void run_case(tn_context *ctx, const test_case *t)
{
    s = tn_scope_open(ctx);
    tn_module *net = tn_module_create(ctx, "net", NULL);
    tn_module_to(net, 0, TN_FLOAT64);
    tn_module *m = t->create(net);
    cr_assert_not_null(m, "%s: %s", t->name, tn_module_error(net));
    tn_named_tensors state = with_prefix(t->name, "state");
    cr_assert_eq(tn_module_load_state(m, state, TN_STRICT), TN_OK, "%s: %s", t->name,
                 tn_last_error() ? tn_last_error()->message : "");
    if (strstr(t->name, "_eval")) tn_module_train(m, 0);
    tn_tensor *in[8] = {NULL};
    int64_t count = 0;
    char part[64];
    for (; snprintf(part, sizeof part, "in.%lld", (long long)count), (in[count] = recorded(t->name, part));
         count++) {
    }
    int32_t has_grad_in = recorded(t->name, "grad_in") != NULL;
    if (has_grad_in) tn_set_requires_grad(in[0], 1);
    tn_outputs all = tn_module_call(s, m, (tn_tensors){in, count});
    tn_tensor *y = all.first;
    expect_close(t->name, "out.0", y);
    for (int64_t i = 1; snprintf(part, sizeof part, "out.%lld", (long long)i), recorded(t->name, part); i++)
        expect_close(t->name, part, all.more[i - 1]);
    tn_named_tensors grads = with_prefix(t->name, "grad");
    if (has_grad_in || grads.count) {
        int64_t n = tn_tensor_numel(y);
        tn_tensor *weights = tn_linspace(s, 0.5, 1.5, n, .dtype = TN_FLOAT64);
        weights = tn_reshape(s, weights, (tn_ints){tn_tensor_sizes(y), tn_tensor_rank(y)});
        cr_assert_eq(tn_backward(s, tn_sum(s, tn_mul(s, y, weights))), TN_OK, "%s: %s", t->name,
                     tn_scope_error(s) ? tn_scope_error(s)->message : "");
    }
    if (has_grad_in) expect_close(t->name, "grad_in", tn_grad_of(s, in[0]));
    for (int64_t i = 0; i < grads.count; i++) {
        snprintf(part, sizeof part, "grad.%s", grads.data[i].name);
        expect_close(t->name, part, tn_grad_of(s, tn_module_tensor(m, grads.data[i].name)));
    }
    tn_named_tensors after = with_prefix(t->name, "after");
    for (int64_t i = 0; i < after.count; i++) {
        snprintf(part, sizeof part, "after.%s", after.data[i].name);
        expect_close(t->name, part, tn_module_tensor(m, after.data[i].name));
    }
    const char *text = tn_safetensors_metadata(file, t->name), *got = tn_module_format(s, m);
    if (text) cr_assert_str_eq(got, text, "%s: printed '%s', expected '%s'", t->name, got, text);
    expect_sound(s);
    tn_module_destroy(net);
    tn_scope_close(s);
}

ParameterizedTestParameters(layers, as_pytorch)
{
    return cr_make_param_array(test_case, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(test_case *t, layers, as_pytorch)
{
    tn_context *ctx = open_context();
    cr_assert_eq(tn_safetensors_open(ctx, LAYERS_FILE, &file), TN_OK);
    /* Functions have other addresses in a worker: the row is found again by its name. */
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(cases[i].name, t->name)) run_case(ctx, &cases[i]);
    tn_safetensors_close(file);
    close_context(ctx);
}

/* Every case of the file has a row above. */
Test(layers, all_recorded_cases_are_run)
{
    tn_context *ctx = open_context();
    cr_assert_eq(tn_safetensors_open(ctx, LAYERS_FILE, &file), TN_OK);
    for (uint64_t i = 0; i < tn_safetensors_count(file); i++) {
        const char *name = tn_safetensors_name(file, i), *dot = strchr(name, '.');
        int32_t found = 0;
        for (uint32_t k = 0; k < sizeof cases / sizeof *cases && !found; k++)
            found = strlen(cases[k].name) == (size_t)(dot - name) &&
                    !strncmp(cases[k].name, name, (size_t)(dot - name));
        cr_assert(found, "no row for %s", name);
    }
    tn_safetensors_close(file);
    close_context(ctx);
}

/* Windows of 2 at random places: of 7 x 9 elements a share of 0.6 are 4 x 5 windows, as if those had been asked for. */
Test(layers, fractional_pooling_takes_sizes_or_a_share)
{
    tn_context *ctx = NULL;
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    s = tn_scope_open(ctx);
    tn_module *net = tn_module_create(ctx, "net", NULL);
    tn_module *by_size = tn_fractional_max_pool2d_create(net, "size", TN_INTS(2), .output_size = I(4, 5));
    tn_module *by_share = tn_fractional_max_pool2d_create(net, "share", TN_INTS(2), .output_ratio = 0.6);
    tn_tensor *x = tn_randn(s, TN_INTS(2, 3, 7, 9)), *y[2];
    for (int i = 0; i < 2; i++) {
        tn_manual_seed(ctx, 5);
        y[i] = tn_module_forward(s, i ? by_share : by_size, x);
        cr_assert_not_null(y[i], "%s", tn_scope_error(s) ? tn_scope_error(s)->message : "");
    }
    cr_assert(tn_tensor_size(y[1], 2) == 4 && tn_tensor_size(y[1], 3) == 5);
    cr_assert(tn_equal(s, y[0], y[1]));
    cr_assert_not_null(strstr(tn_module_format(s, by_share), "kernel_size=2, output_ratio=0.6"), "%s",
                       tn_module_format(s, by_share));
    tn_module_destroy(net);
    tn_scope_close(s);
    tn_context_destroy(ctx);
}
