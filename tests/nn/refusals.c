/* SPDX-License-Identifier: Apache-2.0 */
/* What layers refuse when they are built and when they run, each by a text that names layer and argument; unpooling. */
#include <math.h>
#include <string.h>
#include "module_suite.h"

TestSuite(refusals, .init = open_module, .fini = close_module);

static tn_tensor *filled(tn_ints sizes, double value)
{
    return tn_full(s, sizes, value, .dtype = TN_FLOAT64);
}

#define OF(sizes, ...) make(s, sizes, (const double[]){__VA_ARGS__}, 0)

/* The scope has failed with this text; it is cleared. */
static void expect_failed_with(const tn_tensor *result, const char *part)
{
    cr_assert_null(result, "expected %s", part);
    cr_assert_not_null(tn_scope_error(s), "expected %s", part);
    cr_assert_not_null(strstr(tn_scope_error(s)->message, part), "%s", tn_scope_error(s)->message);
    tn_scope_clear(s);
}

/* ---- Options. Each in a tree of its own, whose first error it is. ---- */

typedef struct refused {
    tn_module *(*create)(tn_module *parent);
    const char *text; /* the end of the error, behind the place of the call */
} refused;

#define REFUSED(name, call)                   \
    static tn_module *name(tn_module *parent) \
    {                                         \
        return call;                          \
    }
REFUSED(no_function, tn_rnn_create(parent, "m", 2, 3, .nonlinearity = "sigmoid"))
REFUSED(no_layers, tn_lstm_create(parent, "m", 2, 3, .num_layers = 0))
REFUSED(wide_projection, tn_lstm_create(parent, "m", 2, 3, .proj_size = 3))
REFUSED(projected_gru, tn_gru_create(parent, "m", 2, 3, .proj_size = 1))
REFUSED(no_activation, tn_transformer_encoder_layer_create(parent, "m", 4, 2, .activation = "tanh"))
REFUSED(padding_behind, tn_embedding_create(parent, "m", 5, 2, .padding_idx = 5))
REFUSED(padding_before, tn_embedding_create(parent, "m", 5, 2, .padding_idx = -2))
REFUSED(no_groups, tn_conv1d_create(parent, "m", 4, 4, TN_INTS(3), .groups = 0))

Test(refusals, options_out_of_range_are_named_with_what_came)
{
    static const refused cases[] = {
        {no_function, "RNN 'm': nonlinearity: got 'sigmoid', expected 'tanh' or 'relu'"},
        {no_layers, "LSTM 'm': num_layers: got 0, expected at least 1"},
        {wide_projection, "LSTM 'm': proj_size: got 3, expected 0, or for LSTM less than hidden_size"},
        {projected_gru, "GRU 'm': proj_size: got 1, expected 0, or for LSTM less than hidden_size"},
        {no_activation, "TransformerEncoderLayer 'm': activation: got 'tanh', expected 'relu' or 'gelu'"},
        {padding_behind, "Embedding 'm': padding_idx: got 5, expected -1 (none) to 4"},
        {padding_before, "Embedding 'm': padding_idx: got -2, expected -1 (none) to 4"},
        {no_groups, "Conv1d 'm': groups: got 0, expected at least 1"},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tn_module *root = tn_module_create(ctx, "root", NULL);
        cr_assert_null(cases[i].create(root), "%s", cases[i].text);
        const char *error = tn_module_error(root), *end = error + strlen(error) - strlen(cases[i].text);
        cr_assert(end > error, "%s", error);
        cr_assert_str_eq(end, cases[i].text);
        tn_module_destroy(root);
    }
}

Test(refusals, names_of_children_and_tensors)
{
    tn_module *a = tn_module_create(ctx, "a", NULL), *b = tn_module_create(ctx, "b", NULL),
              *c = tn_module_create(ctx, "c", NULL), *d = tn_module_create(ctx, "d", NULL);
    cr_assert_null(tn_linear_create(a, "", 2, 3));
    cr_assert_not_null(strstr(tn_module_error(a), "a child needs a name"), "%s", tn_module_error(a));
    cr_assert_null(tn_module_add_parameter(b, "w.x", filled(TN_INTS(2), 1)));
    cr_assert_not_null(strstr(tn_module_error(b), "tensor 'w.x': a name must not be empty or have dots"),
                       "%s", tn_module_error(b));
    cr_assert_not_null(tn_module_add_parameter(c, "w", filled(TN_INTS(2), 1)));
    cr_assert_null(tn_module_add_parameter(c, "w", filled(TN_INTS(2), 1)));
    cr_assert_not_null(strstr(tn_module_error(c), "tensor 'w': the name is taken"), "%s", tn_module_error(c));
    cr_assert_eq(tn_module_set_absent(d, "w"), TN_E_NOT_FOUND);
    cr_assert_not_null(strstr(tn_module_error(d), "no tensor 'w'"), "%s", tn_module_error(d));
    cr_assert_str_eq(tn_module_name(d), "d");
    cr_assert_str_eq(tn_module_name(NULL), "");
    tn_module_destroy(a);
    tn_module_destroy(b);
    tn_module_destroy(c);
    tn_module_destroy(d);
}

/* ---- Inputs ---- */

Test(refusals, inputs_that_are_missing)
{
    tn_tensor *x = filled(TN_INTS(3, 1, 4), 1);
    expect_failed_with(tn_module_forward(s, tn_transformer_decoder_layer_create(net, "d", 4, 2), x),
                       "TransformerDecoder: the second input, the memory, is missing");
    expect_failed_with(tn_module_forward(s, tn_transformer_decoder_create(net, "ds", 4, 2, 1), x),
                       "TransformerDecoder: the second input, the memory, is missing");
    expect_failed_with(tn_module_forward(s, tn_transformer_create(net, "t", 4, 2, 1, 1), x),
                       "Transformer: the second input, the target, is missing");
    expect_failed_with(tn_module_forward(s, tn_multihead_attention_create(net, "a", 4, 2), x, x),
                       "MultiheadAttention: query, key and value of 2 (no batch) or 3 dimensions");
    tn_module *conv = tn_conv1d_create(net, "c", 1, 2, TN_INTS(3)),
              *norm = tn_batch_norm1d_create(net, "n", 1);
    expect_failed_with(tn_module_forward(s, conv, x, x), "Conv1d: got 2 inputs, expected at most 1");
    expect_failed_with(tn_module_forward(s, norm, x, x), "BatchNorm1d: got 2 inputs, expected at most 1");
    expect_failed_with(tn_child_forward(s, net, "a", x, x, x, tn_ones(s, TN_INTS(1, 3), .dtype = TN_INT64)),
                       "MultiheadAttention: masks are of bool or floating-point numbers, got int64");
    tn_module *soft = tn_adaptive_log_softmax_with_loss_create(net, "s", 4, 6, TN_INTS(2));
    expect_failed_with(tn_module_forward(s, soft, filled(TN_INTS(1, 4), 1)),
                       "AdaptiveLogSoftmaxWithLoss: the second input is missing");
    tn_module *chain = tn_module_add(net, "chain", NULL);
    tn_linear_create(chain, "0", 4, 2);
    expect_failed_with(tn_module_forward(s, chain, x, x), "a chain of modules takes one input, got 2");
    expect_failed_with(tn_module_forward(s, chain, (tn_tensor *)NULL), "module: the first input is NULL");
    expect_failed_with(tn_module_call(s, chain, (tn_tensors){&x, 17}).first,
                       "module: forward takes 1 to 16 inputs, got 17");
    expect_failed_with(tn_module_call(s, chain, (tn_tensors){NULL, 1}).first,
                       "module: the list of inputs is NULL");
    tn_module *bag = tn_embedding_bag_create(net, "bag", 5, 2);
    expect_failed_with(tn_module_forward(s, bag, tn_zeros(s, TN_INTS(3), .dtype = TN_INT64)),
                       "EmbeddingBag: indices of 1 dimension need offsets, the second input");
}

Test(refusals, inputs_of_other_shapes)
{
    tn_tensor *plane = filled(TN_INTS(2, 4), 1), *x = filled(TN_INTS(1, 2, 4), 1);
    expect_failed_with(tn_module_forward(s, tn_local_response_norm_create(net, "l", 2), plane),
                       "LocalResponseNorm: expected an input of 3 or more dimensions");
    expect_failed_with(tn_module_forward(s, tn_batch_norm2d_create(net, "b2", 2), x),
                       "BatchNorm2d: got an input of 3 dimensions, expected 4");
    expect_failed_with(tn_module_forward(s, tn_batch_norm1d_create(net, "b1", 2), filled(TN_INTS(2), 1)),
                       "BatchNorm1d: got an input of 1 dimension, expected 2 or 3");
    expect_failed_with(tn_module_forward(s, tn_lstm_create(net, "r", 4, 3), filled(TN_INTS(1, 1, 1, 4), 1)),
                       "LSTM: the input must have 2 dimensions (no batch) or 3, got 4");
    expect_failed_with(
        tn_module_forward(s, tn_conv1d_create(net, "c", 2, 1, TN_INTS(3), .same = 1, .stride = TN_INTS(2)),
                          x),
        "conv: same needs a stride of 1");
    tn_module *both = tn_upsample_create(net, "u", .size = TN_INTS(8), .scale_factor = 2);
    expect_failed_with(tn_module_forward(s, both, x), "Upsample: give either size or scale_factor");
    expect_failed_with(
        tn_module_forward(s, tn_upsample_create(net, "v", .scale_factor = 2, .mode = "bilinear"), x),
        "Upsample: mode 'bilinear' and a size of 0 do not go with an input of 1 dimension behind its "
        "channels");
    tn_module *again = tn_upsample_create(net, "w", .size = TN_INTS(8), .recompute_scale_factor = 1);
    expect_failed_with(tn_module_forward(s, again, x),
                       "Upsample: recompute_scale_factor needs scale_factor, not size");
}

/* ---- Sizes of recurrent layers: what came and what was expected, before an operator runs ---- */

Test(refusals, recurrent_layers_name_the_input_and_the_states)
{
    tn_module *lstm = tn_lstm_create(net, "lstm", 3, 4),
              *gru = tn_gru_create(net, "gru", 3, 4, .num_layers = 2),
              *rnn = tn_rnn_create(net, "rnn", 3, 4, .batch_first = 1, .bidirectional = 1),
              *narrow = tn_lstm_create(net, "narrow", 3, 4, .proj_size = 2);
    tn_tensor *x = filled(TN_INTS(5, 2, 3), 1), *one = filled(TN_INTS(5, 3), 1);
    tn_tensor *h = filled(TN_INTS(1, 2, 4), 0), *other = filled(TN_INTS(1, 1, 4), 0);
    expect_failed_with(tn_module_forward(s, lstm, filled(TN_INTS(5, 2, 7), 1)),
                       "LSTM: input.size(-1) must be equal to input_size. Expected 3, got 7");
    expect_failed_with(tn_module_forward(s, gru, filled(TN_INTS(5, 7), 1)),
                       "GRU: input.size(-1) must be equal to input_size. Expected 3, got 7");
    expect_failed_with(tn_module_forward(s, lstm, x, other, h),
                       "LSTM: Expected hidden[0] size (1, 2, 4), got [1, 1, 4]: in module 'lstm' (LSTM)");
    expect_failed_with(tn_module_forward(s, lstm, x, h, other),
                       "LSTM: Expected hidden[1] size (1, 2, 4), got [1, 1, 4]");
    expect_failed_with(tn_module_forward(s, narrow, x, h, h),
                       "LSTM: Expected hidden[0] size (1, 2, 2), got [1, 2, 4]");
    expect_failed_with(tn_module_forward(s, gru, x, h), "GRU: Expected hidden size (2, 2, 4), got [1, 2, 4]");
    expect_failed_with(tn_module_forward(s, gru, one, h), "GRU: Expected hidden size (2, 4), got [1, 2, 4]");
    expect_failed_with(tn_module_forward(s, rnn, x, h), "RNN: Expected hidden size (2, 5, 4), got [1, 2, 4]");
    cr_assert_not_null(tn_module_forward(s, rnn, x, filled(TN_INTS(2, 5, 4), 0)));
    cr_assert_not_null(tn_module_forward(s, gru, one, filled(TN_INTS(2, 4), 0)));
    cr_assert_not_null(tn_module_forward(s, narrow, x, filled(TN_INTS(1, 2, 2), 0), h));
}

/* What PyTorch takes and what it refuses. */
Test(refusals, variances_of_other_sizes)
{
    tn_module *loss = tn_gaussian_nll_loss_create(net, "loss");
    tn_tensor *x = filled(TN_INTS(2, 3), 1), *y = filled(TN_INTS(2, 3), 0);
    const double want = 0.5 * (log(4) + 0.25);
    const tn_ints good[] = {TN_INTS(2, 3), TN_INTS(2), TN_INTS(2, 1), TN_INTS(1, 3)},
                  bad[] = {TN_INTS(1, 1), TN_INTS(1), TN_INTS(3), TN_INTS(1, 2, 3), TN_INTS(2, 2)};
    for (int i = 0; i < 4; i++) EXPECT(s, tn_module_forward(s, loss, x, y, filled(good[i], 4)), want);
    for (int i = 0; i < 5; i++)
        expect_failed_with(tn_module_forward(s, loss, x, y, filled(bad[i], 4)),
                           "GaussianNLLLoss: var is of incorrect size: got [");
}

Test(refusals, norms_of_single_elements)
{
    tn_module *instance = tn_instance_norm2d_create(net, "instance", 3),
              *batch = tn_batch_norm1d_create(net, "batch", 3, .track_running_stats = 0);
    const char *text = "Expected more than 1 spatial element when training, got input size [2, 3, 1, 1]";
    expect_failed_with(tn_module_forward(s, instance, filled(TN_INTS(2, 3, 1, 1), 1)), text);
    tn_module_train(net, 0); /* the statistics are those of the input still */
    expect_failed_with(tn_module_forward(s, instance, filled(TN_INTS(2, 3, 1, 1), 1)), text);
    expect_failed_with(tn_module_forward(s, batch, filled(TN_INTS(1, 3), 1)),
                       "Expected more than 1 value per channel when training, got input size [1, 3]");
}

Test(refusals, recurrent_layers_name_a_sequence_of_no_steps)
{
    tn_tensor *x = tn_ones(s, TN_INTS(0, 2, 3), .dtype = TN_FLOAT64),
              *one = tn_ones(s, TN_INTS(2, 0, 3), .dtype = TN_FLOAT64);
    expect_failed_with(tn_module_forward(s, tn_lstm_create(net, "lstm", 3, 4), x),
                       "LSTM: Expected sequence length to be larger than 0 in RNN");
    expect_failed_with(tn_module_forward(s, tn_gru_create(net, "gru", 3, 4, .batch_first = 1), one),
                       "GRU: Expected sequence length to be larger than 0 in RNN");
}

Test(refusals, recurrent_cells_name_the_input_and_the_states)
{
    tn_module *lstm = tn_lstm_cell_create(net, "lstm", 3, 4), *gru = tn_gru_cell_create(net, "gru", 3, 4),
              *rnn = tn_rnn_cell_create(net, "rnn", 3, 4);
    tn_tensor *x = filled(TN_INTS(2, 3), 1), *h = filled(TN_INTS(2, 4), 0), *one = filled(TN_INTS(3), 1);
    expect_failed_with(tn_module_forward(s, gru, filled(TN_INTS(2, 7), 1)),
                       "GRUCell: input has inconsistent input_size: got 7, expected 3");
    expect_failed_with(tn_module_forward(s, gru, filled(TN_INTS(1, 2, 3), 1)),
                       "GRUCell: Expected input to be 1D or 2D, got 3D instead");
    expect_failed_with(tn_module_forward(s, rnn, x, filled(TN_INTS(1, 4), 0)),
                       "RNNCell: Expected hidden size (2, 4), got [1, 4]");
    expect_failed_with(tn_module_forward(s, rnn, one, h), "RNNCell: Expected hidden size (4), got [2, 4]");
    expect_failed_with(tn_module_forward(s, lstm, x, h, filled(TN_INTS(2, 5), 0)),
                       "LSTMCell: Expected hidden[1] size (2, 4), got [2, 5]");
    cr_assert_not_null(tn_module_forward(s, gru, one, filled(TN_INTS(4), 0)));
    cr_assert_not_null(tn_module_forward(s, lstm, x, h, h));
}

Test(refusals, attention_names_the_mask)
{
    tn_module *m = tn_multihead_attention_create(net, "a", 4, 2),
              *first = tn_multihead_attention_create(net, "f", 4, 2, .batch_first = 1, .need_weights = 0);
    tn_tensor *q = filled(TN_INTS(5, 3, 4), 1), *k = filled(TN_INTS(7, 3, 4), 1), *none = NULL;
    tn_tensor *single = filled(TN_INTS(5, 4), 1), *wide = filled(TN_INTS(3, 6), 0);
    expect_failed_with(tn_module_forward(s, m, q, k, k, wide),
                       "MultiheadAttention: key_padding_mask: expected the sizes [3, 7], got [3, 6]");
    expect_failed_with(tn_module_forward(s, first, tn_transpose(s, q, 0, 1), tn_transpose(s, k, 0, 1),
                                         tn_transpose(s, k, 0, 1), wide),
                       "MultiheadAttention: key_padding_mask: expected the sizes [3, 7], got [3, 6]");
    expect_failed_with(tn_module_forward(s, m, single, single, single, wide),
                       "MultiheadAttention: key_padding_mask: expected the sizes [5], got [3, 6]");
    expect_failed_with(tn_module_forward(s, m, q, k, k, none, filled(TN_INTS(7), 0)),
                       "MultiheadAttention: attn_mask: expected the sizes [5, 7], got [7]");
    expect_failed_with(tn_module_forward(s, m, q, k, k, none, filled(TN_INTS(3, 5, 7), 0)),
                       "MultiheadAttention: attn_mask: expected the sizes [6, 5, 7], got [3, 5, 7]");
    cr_assert_not_null(
        tn_module_forward(s, m, q, k, k, filled(TN_INTS(3, 7), 0), filled(TN_INTS(6, 5, 7), 0)));
    cr_assert_not_null(
        tn_module_forward(s, m, single, single, single, filled(TN_INTS(5), 0), filled(TN_INTS(2, 5, 5), 0)));
}

/* ---- Hooks ---- */

/* A hook that would never run is an error of the tree, and the place is that of the call. */
Test(refusals, hooks_that_are_no_structs)
{
    tn_module *m = tn_linear_create(net, "fc", 2, 3), *other = tn_module_create(ctx, "other", NULL);
    char text[80];
    cr_assert_eq(tn_module_add_hook(NULL, &(tn_module_hook){.size = sizeof(tn_module_hook)}), 0);
    expect_last_error("tn_module_add_hook: the module is NULL");
    cr_assert_eq(tn_module_failed(net), TN_OK);
    cr_assert_eq(tn_module_add_hook(m, &(tn_module_hook){.user = NULL}), 0);
    snprintf(text, sizeof text, "refusals.c:%d: tn_module_hook: size is 0; set it to sizeof(tn_module_hook)",
             __LINE__ - 2);
    expect_last_error(text);
    cr_assert_eq(tn_module_failed(net), TN_E_ARGUMENT);
    cr_assert_not_null(strstr(tn_module_error(net), text), "%s", tn_module_error(net));
    expect_failed_with(tn_module_forward(s, m, filled(TN_INTS(1, 2), 1)), text);
    cr_assert_eq(tn_module_add_hook(other, NULL), 0);
    expect_last_error("tn_module_add_hook: argument 'hook' is NULL");
    tn_module_destroy(other);
}

Test(refusals, tensors_that_initialisers_do_not_take)
{
    tn_tensor *line = filled(TN_INTS(4), 1), *plane = filled(TN_INTS(4, 2), 1);
    expect_failed_with(tn_init_orthogonal(s, line, 1, NULL),
                       "init_orthogonal: got a tensor of 1 dimension, expected 2 or more");
    expect_failed_with(tn_init_sparse(s, line, 0.5, 1, NULL),
                       "init_sparse: got a tensor of 1 dimension, expected 2");
    expect_failed_with(tn_init_sparse(s, plane, 1.5, 1, NULL),
                       "init_sparse: argument 'sparsity': got 1.5, expected 0 to 1");
    expect_failed_with(tn_init_dirac(s, filled(TN_INTS(3, 2, 1), 0), 2),
                       "init_dirac: argument 'groups': got 2, which does not divide the 3 outputs");
    expect_failed_with(
        tn_init_kaiming_normal(s, plane, 0, TN_FAN_IN, "other", NULL),
        "init_kaiming: argument 'nonlinearity': got 'other', expected one of tn_init_gain's names");
    expect_failed_with(tn_init_dirac(s, plane, 1),
                       "init_dirac: got a tensor of 2 dimensions, expected 3 to 5");
    cr_assert_eq(tn_prune_global_l1_unstructured(NULL, 0, 0.5), TN_E_ARGUMENT);
    expect_last_error("argument 'targets': it is empty");
}

Test(refusals, a_functional_call_names_the_tensor_that_is_not_there)
{
    tn_module *fc = tn_linear_create(net, "fc", 2, 3);
    const tn_named_tensor with[] = {{"wieght", filled(TN_INTS(3, 2), 1)}};
    tn_tensor *x = filled(TN_INTS(1, 2), 1);
    expect_failed_with(tn_module_functional_call(s, fc, (tn_named_tensors){with, 1}, TN_TENSORS(x)).first,
                       "functional_call: the module has no tensor 'wieght'; did you mean 'weight'?");
    const tn_named_tensor null = {"bias", NULL};
    expect_failed_with(tn_module_functional_call(s, fc, (tn_named_tensors){&null, 1}, TN_TENSORS(x)).first,
                       "functional_call: the tensor 'bias' is NULL");
}

/* ---- Unpooling: each value goes back to the place of its maximum, all others are 0 ---- */

Test(refusals, values_return_to_their_places)
{
    tn_module *pool = tn_max_pool1d_create(net, "p1", TN_INTS(2), .return_indices = 1),
              *back = tn_max_unpool1d_create(net, "u1", TN_INTS(2));
    tn_outputs y = tn_module_call(s, pool, TN_TENSORS(OF(TN_INTS(1, 1, 4), 1, 5, 2, 4)));
    EXPECT(s, tn_module_forward(s, back, y.first, y.more[0]), 0, 5, 0, 4);
    expect_failed_with(tn_module_forward(s, back, y.first),
                       "MaxUnpool: the second input has the places that MaxPool returned");

    pool = tn_max_pool2d_create(net, "p2", TN_INTS(2), .return_indices = 1);
    back = tn_max_unpool2d_create(net, "u2", TN_INTS(2));
    y = tn_module_call(s, pool, TN_TENSORS(OF(TN_INTS(1, 1, 2, 4), 1, 2, 8, 3, 4, 3, 5, 6)));
    EXPECT(s, tn_module_forward(s, back, y.first, y.more[0]), 0, 0, 8, 0, 4, 0, 0, 0);

    pool = tn_max_pool3d_create(net, "p3", TN_INTS(2), .return_indices = 1);
    back = tn_max_unpool3d_create(net, "u3", TN_INTS(2));
    y = tn_module_call(s, pool, TN_TENSORS(OF(TN_INTS(1, 1, 2, 2, 2), 1, 2, 9, 4, 5, 6, 7, 8)));
    EXPECT(s, tn_module_forward(s, back, y.first, y.more[0]), 0, 0, 9, 0, 0, 0, 0, 0);
}

/* Sums of three neighbours; what lies outside is 0. */
Test(refusals, same_keeps_the_size_with_an_odd_kernel)
{
    tn_module *conv = tn_conv1d_create(net, "c", 1, 1, TN_INTS(3), .same = 1, .bias = 0);
    tn_module_set_tensor(conv, "weight", filled(TN_INTS(1, 1, 3), 1));
    EXPECT(s, tn_module_forward(s, conv, OF(TN_INTS(1, 1, 4), 1, 2, 3, 4)), 3, 6, 9, 7);
}

/* A layer without a parent says so, and why there is none. */
Test(refusals, a_parent_that_is_null_is_named)
{
    tn_module *root = tn_module_create(ctx, "root", NULL);
    cr_assert_null(tn_linear_create(NULL, "fc", 2, 3));
    char text[64];
    snprintf(text, sizeof text, "refusals.c:%d: module 'fc': the parent is NULL", __LINE__ - 2);
    cr_assert_str_eq(tn_last_error()->message + strlen(tn_last_error()->message) - strlen(text), text, "%s",
                     tn_last_error()->message);
    tn_module *broken = tn_module_add(root, "", NULL);
    cr_assert_null(broken);
    cr_assert_null(tn_linear_create(broken, "out", 2, 3));
    cr_assert_not_null(strstr(tn_last_error()->message, "module 'out': the parent is NULL (the last error: "),
                       "%s", tn_last_error()->message);
    cr_assert_not_null(strstr(tn_last_error()->message, "a child needs a name)"), "%s",
                       tn_last_error()->message);
    tn_module_destroy(root);
}
