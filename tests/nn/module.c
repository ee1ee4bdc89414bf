/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: building, errors, states, moves, sharing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <tenon/plugin.h> /* TN_HAS_FEATURE */
#include "module_suite.h"

TestSuite(module, .init = open_module, .fini = close_module);

static void expect_failed(int32_t code, const char *part)
{
    cr_assert_eq(tn_module_failed(net), code, "%d: %s", tn_module_failed(net), tn_module_error(net));
    cr_assert_not_null(strstr(tn_module_error(net), part), "%s", tn_module_error(net));
}

static tn_tensor *filled(tn_ints sizes, double value)
{
    return tn_full(s, sizes, value, .dtype = TN_FLOAT64);
}

/* ---- Building */

Test(module, dots_make_the_modules_on_the_way)
{
    tn_module *fc = tn_linear_create(net, "h.0.fc", 3, 4);
    cr_assert_not_null(fc);
    cr_assert_eq(tn_module_child(net, "h.0.fc"), fc);
    cr_assert_eq(tn_module_parent(tn_module_parent(fc)), tn_module_child(net, "h"));
    cr_assert_str_eq(tn_module_path(s, fc), "h.0.fc");
    cr_assert_eq(tn_module_tensor(net, "h.0.fc.weight"), tn_module_tensor(fc, "weight"));
    cr_assert_null(tn_module_child(net, "h.1"));
    cr_assert_null(tn_module_tensor(net, "h.0.fc.other"));
    cr_assert_eq(tn_module_parameter_count(net), 16);
}

Test(module, a_taken_name_fails_the_tree_and_later_calls_do_nothing)
{
    tn_linear_create(net, "a", 3, 4);
    cr_assert_null(tn_linear_create(net, "a", 3, 4));
    expect_failed(TN_E_EXISTS, "'a'");
    cr_assert_null(tn_relu_create(net, "b"));
    cr_assert_eq(tn_module_child_count(net), 1);
    cr_assert_null(tn_module_forward(s, net, filled(TN_INTS(2, 3), 1)));
    expect_error(s, "'a'");
}

/* A call that failed leaves nothing behind, so the tree goes on once its error is forgotten. */
Test(module, a_tree_goes_on_after_its_error_was_cleared)
{
    tn_module *head = tn_linear_create(net, "head", 3, 3);
    for (int i = 0; i < 2; i++) {
        cr_assert_null(tn_linear_create(net, "h.0.fc", 3, -4));
        expect_failed(TN_E_ARGUMENT, "out_features: got -4");
        cr_assert_null(tn_module_forward(s, head, filled(TN_INTS(1, 3), 1)));
        tn_scope_clear(s);
        tn_module_clear_error(head);
        cr_assert_eq(tn_module_failed(net), TN_OK);
        cr_assert_null(tn_module_error(net));
        cr_assert_null(tn_module_child(net, "h"), "nor the modules on the way");
        cr_assert_eq(tn_module_child_count(net), 1);
    }
    cr_assert_null(tn_multihead_attention_create(net, "attn", 4, 3));
    cr_assert_null(tn_module_add(net, "a.b.", NULL));
    tn_module_clear_error(net);
    cr_assert_null(tn_module_add(net, "a.b.", NULL));
    tn_module_clear_error(net);
    cr_assert_eq(tn_module_child_count(net), 1);
    cr_assert_not_null(tn_linear_create(net, "h.0.fc", 3, 4));
    cr_assert_eq(tn_tensor_size(tn_module_forward(s, net, filled(TN_INTS(1, 3), 1)), 1), 4);
    /* A lazy layer takes its size from the next input. */
    tn_module *conv = tn_conv2d_create(net, "conv", TN_LAZY, 4, TN_INTS(1), .groups = 2);
    cr_assert_null(tn_module_forward(s, conv, filled(TN_INTS(1, 3, 2, 2), 1)));
    expect_error(s, "in_channels: got 3, which 2 groups do not divide");
    tn_module_clear_error(net);
    cr_assert_not_null(tn_module_forward(s, conv, filled(TN_INTS(1, 6, 2, 2), 1)));
    cr_assert_eq(tn_tensor_size(tn_module_tensor(conv, "weight"), 1), 3);
    /* What a create function of the program adds before it fails. */
    tn_module *block = tn_module_add(net, "block", NULL);
    tn_linear_create(block, "fc", 1, 1);
    tn_module_undo_add(block);
    cr_assert_null(tn_module_child(net, "block"));
    tn_module_undo_add(net);
    tn_module_undo_add(NULL);
    tn_module_clear_error(NULL);
}

Test(module, bad_arguments_of_layers_are_named)
{
    cr_assert_null(tn_conv2d_create(net, "conv", 4, 6, TN_INTS(3, 3, 3)));
    expect_failed(TN_E_ARGUMENT, "Conv2d 'conv': kernel_size: got a list of 3, expected 1 or 2");
}

Test(module, groups_must_divide_the_channels)
{
    cr_assert_null(tn_conv2d_create(net, "conv", 4, 6, TN_INTS(3), .groups = 3));
    expect_failed(TN_E_ARGUMENT, "in_channels: got 4, which 3 groups do not divide");
}

Test(module, heads_must_divide_the_width)
{
    cr_assert_null(tn_multihead_attention_create(net, "a", 10, 3));
    expect_failed(TN_E_ARGUMENT, "num_heads: got 3");
}

Test(module, a_negative_size_is_refused)
{
    cr_assert_null(tn_linear_create(net, "fc", -1, 3));
    expect_failed(TN_E_ARGUMENT, "Linear 'fc': in_features: got -1, expected 0 or more");
}

Test(module, cutoffs_that_do_not_rise_are_refused)
{
    cr_assert_null(tn_adaptive_log_softmax_with_loss_create(net, "soft", 6, 9, TN_INTS(5, 5)));
    expect_failed(TN_E_ARGUMENT, "AdaptiveLogSoftmaxWithLoss 'soft': cutoffs must rise");
}

/* ---- The end */

Test(module, destroyed_twice_is_an_error_with_debug_handles)
{
    setenv("TENON_DEBUG", "nan,handles", 1);
    tn_module *m = tn_module_create(ctx, "twice", NULL), *fc = tn_linear_create(m, "fc", 3, 4);
    tn_module_destroy(m);
    tn_clear_error();
    tn_module_destroy(m);
    cr_assert_not_null(tn_last_error());
    cr_assert_eq(tn_last_error()->code, TN_E_DEAD_HANDLE);
    static const char text[] = "module 'twice' was destroyed and is destroyed again at ";
    cr_assert_eq(strncmp(tn_last_error()->message, text, sizeof text - 1), 0, "%s", tn_last_error()->message);
    cr_assert_not_null(strstr(tn_last_error()->message, "+0x"), "%s", tn_last_error()->message);
    cr_assert_eq(tn_module_failed(fc), TN_E_DEAD_HANDLE);
    cr_assert_null(tn_linear_create(m, "other", 3, 4));
    cr_assert_null(tn_module_forward(s, m, filled(TN_INTS(2, 3), 1)));
    expect_error(s, "module 'twice' was destroyed and is used again");
    cr_assert_null(tn_module_tensor(fc, "weight"));
    cr_assert_null(tn_module_state_dict(s, m).data);
    expect_error(s, "module 'twice' was destroyed and is used again");
    cr_assert_eq(tn_module_load_state(m, (tn_named_tensors){NULL, 0}, TN_STRICT), TN_E_DEAD_HANDLE);
    cr_assert_eq(tn_module_load(m, "/dev/null", TN_STRICT), TN_E_DEAD_HANDLE);
    cr_assert_eq(tn_module_failed(net), TN_OK); /* another tree */
    unsetenv("TENON_DEBUG");
}

/* ---- A module of the program */

typedef struct block {
    tn_module *conv1, *norm1, *conv2, *norm2;
} block;

static tn_tensor *block_forward(tn_scope *scope, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const block *b = tn_module_state(m);
    tn_tensor *x = in.data[0];
    (void)more;
    x = tn_relu(scope, tn_module_forward(scope, b->norm1, tn_module_forward(scope, b->conv1, x)));
    x = tn_module_forward(scope, b->norm2, tn_module_forward(scope, b->conv2, x));
    return tn_relu(scope, tn_add(scope, x, in.data[0]));
}

static tn_module *block_create(tn_module *parent, const char *name, int64_t channels)
{
    static const tn_module_class class = {
        .size = sizeof class, .name = "Block", .state_bytes = sizeof(block), .forward = block_forward};
    tn_module *m = tn_module_add(parent, name, &class);
    if (!m) return NULL;
    *(block *)tn_module_state(m) =
        (block){tn_conv2d_create(m, "conv1", channels, channels, TN_INTS(3), .padding = TN_INTS(1)),
                tn_batch_norm2d_create(m, "norm1", channels),
                tn_conv2d_create(m, "conv2", channels, channels, TN_INTS(3), .padding = TN_INTS(1)),
                tn_batch_norm2d_create(m, "norm2", channels)};
    return tn_module_failed(m) ? NULL : m;
}

/* ---- Classes and children by name */

TN_MODULE_CLASS(Double, scope, m, x)
{
    return tn_add(scope, tn_child_forward(scope, m, "fc.one", x), x);
}

TN_MODULE_CLASS_STATE(Scaled, double, scope, m, x)
{
    return tn_mul_scalar(scope, x, *(const double *)tn_module_state(m));
}

Test(module, a_class_by_macro)
{
    tn_module *m = tn_module_add(net, NULL, &Double), *two = tn_module_add(net, NULL, &Scaled);
    tn_linear_create(m, "fc.one", 2, 2);
    *(double *)tn_module_state(two) = 3;
    tn_fill_scalar_(s, tn_detach(s, tn_module_tensor(m, "fc.one.weight")), 1);
    tn_fill_scalar_(s, tn_detach(s, tn_module_tensor(m, "fc.one.bias")), 0.5);
    tn_tensor *y = tn_module_forward(s, net, filled(TN_INTS(1, 2), 2)); /* (2 + 2 + 0.5 + 2) * 3 */
    cr_assert_float_eq(tn_item_double(s, tn_mean(s, y)), 19.5, 1e-12);
    cr_assert_str_eq(tn_module_class_name(tn_module_child(net, "0")), "Double");
    cr_assert_eq(tn_module_child(net, "1"), two);
    cr_assert_null(tn_module_forward(s, m, filled(TN_INTS(1, 2), 1), filled(TN_INTS(1, 2), 1)));
    expect_error(s, "forward takes 1 input, got 2: in module '0' (Double)");
}

Test(module, a_child_that_is_not_there_is_named)
{
    tn_module *m = tn_module_add(net, "block", &Double);
    cr_assert_null(tn_module_forward(s, m, filled(TN_INTS(1, 2), 1)));
    cr_assert_eq(tn_scope_failed(s), TN_E_NOT_FOUND);
    expect_error(s, "module 'block' (Double) has no child 'fc.one'");
}

Test(module, an_error_of_a_layer_says_where_it_was_created)
{
    char place[512];
    snprintf(place, sizeof place, "%s:%d: ", __FILE__, __LINE__ + 1);
    tn_linear_create(net, "fc", -1, 3);
    cr_assert_eq(strncmp(tn_module_error(net), place, strlen(place)), 0, "%s", tn_module_error(net));
    tn_linear_create(net, "other", -1, 3);
    cr_assert_eq(strncmp(tn_module_error(net), place, strlen(place)), 0, "%s", tn_module_error(net));
}

Test(module, an_error_of_the_program_has_no_place)
{
    tn_linear_create(net, "fc", 1, 3);
    tn_module_fail(net, TN_E_ARGUMENT, "of the program");
    cr_assert_str_eq(tn_module_error(net), "of the program");
}

Test(module, a_tensor_of_a_list_by_its_name)
{
    tn_linear_create(net, "fc", 2, 3);
    tn_named_tensors all = tn_module_tensors(s, net, TN_STATE);
    cr_assert_eq(tn_named_get(s, all, "fc.bias"), tn_module_tensor(net, "fc.bias"));
    cr_assert_null(tn_named_get(s, all, "fc.bais"));
    expect_error(s, "no tensor 'fc.bais' among 2; did you mean 'fc.bias'?");
    cr_assert_null(tn_named_get(s, all, "elsewhere"));
    cr_assert_null(strstr(tn_scope_error(s)->message, "did you mean"), "%s", tn_scope_error(s)->message);
    tn_scope_clear(s);
    cr_assert_eq(tn_module_set_tensor(net, "fc.wieght", filled(TN_INTS(3, 2), 1)), TN_E_NOT_FOUND);
    expect_failed(TN_E_NOT_FOUND, "no tensor 'fc.wieght'; did you mean 'fc.weight'?");
}

static tn_tensor *endless_forward(tn_scope *scope, tn_module *m, tn_tensors in, tn_tensor **more)
{
    (void)more;
    return tn_module_call(scope, m, in).first;
}

Test(module, a_forward_that_calls_itself_ends_in_an_error)
{
    static const tn_module_class endless = {
        .size = sizeof endless, .name = "Endless", .forward = endless_forward};
    tn_module *m = tn_module_add(net, "endless", &endless);
    for (int i = 0; i < 2; i++) { /* and the depth is counted back */
        cr_assert_null(tn_module_forward(s, m, filled(TN_INTS(1), 1)));
        cr_assert_not_null(strstr(tn_scope_error(s)->message, "does one call itself?"), "%s",
                           tn_scope_error(s)->message);
        tn_scope_clear(s);
    }
}

static void expect_text(int32_t status, const char *text)
{
    cr_assert_eq(status, TN_E_STATE);
    expect_last_error(text);
}

Test(module, calls_without_a_module_say_so)
{
    expect_text(tn_module_to(NULL, 0, TN_FLOAT32), "tn_module_to: the module is NULL");
    expect_text(tn_module_save(NULL, "x"), "tn_module_save: the module is NULL");
    expect_text(tn_module_load(NULL, "x", TN_STRICT), "tn_module_load: the module is NULL");
    expect_text(tn_module_load_state(NULL, (tn_named_tensors){NULL, 0}, TN_STRICT),
                "tn_module_load_state: the module is NULL");
    expect_text(tn_module_set_tensor(NULL, "w", NULL), "tn_module_set_tensor: the module is NULL");
    cr_assert_null(tn_module_create(NULL, "net", NULL));
    expect_last_error("tn_module_create: argument 'ctx' is NULL");
    tn_module_apply(net, NULL, NULL);
}

static tn_tensor *fence_forward(tn_scope *scope, tn_module *m, tn_tensors in, tn_tensor **more)
{
    (void)m;
    (void)scope;
    more[TN_MODULE_MAX_OUTPUTS - 1] = in.data[0]; /* one too far */
    return in.data[0];
}

static void expect_cleared(const char *part)
{
    cr_assert_not_null(tn_scope_error(s), "expected %s", part);
    cr_assert_not_null(strstr(tn_scope_error(s)->message, part), "%s", tn_scope_error(s)->message);
    tn_scope_clear(s);
}

Test(module, outputs_are_as_many_as_there_is_room_for)
{
    static const tn_module_class wide = {.size = sizeof wide, .name = "Wide", .forward = fence_forward};
    tn_module *m = tn_module_add(net, "wide", &wide);
    cr_assert_null(tn_module_forward(s, m, filled(TN_INTS(1), 1)));
    expect_cleared("forward wrote more[7]");
    tn_outputs y =
        tn_module_call(s, tn_lstm_create(net, "lstm", 2, 3), TN_TENSORS(filled(TN_INTS(4, 1, 2), 1)));
    cr_assert(tn_tensor_size(y.first, 0) == 4 && tn_tensor_size(y.more[0], 0) == 1 && y.more[1] &&
              !y.more[2]);
}

Test(module, states_and_inputs_that_a_layer_does_not_take_are_refused)
{
    tn_module *lstm = tn_lstm_create(net, "lstm", 2, 3), *gru = tn_gru_create(net, "gru", 2, 3),
              *fc = tn_linear_create(net, "fc", 2, 3);
    tn_tensor *x = filled(TN_INTS(4, 1, 2), 1), *h = filled(TN_INTS(1, 1, 3), 0);
    cr_assert_null(tn_module_forward(s, lstm, x, h));
    expect_cleared("LSTM: got one of the states h and c, expected both or none");
    cr_assert_null(tn_module_forward(s, lstm, x, h, h, h));
    expect_cleared("LSTM: got 4 inputs, expected at most 3");
    cr_assert_null(tn_module_forward(s, gru, x, h, h));
    expect_cleared("GRU: got 3 inputs, expected at most 2");
    cr_assert_null(tn_module_forward(s, fc, x, x));
    expect_cleared("Linear: got 2 inputs, expected at most 1");
    cr_assert_not_null(tn_module_forward(s, lstm, x, h, h));
}

/* Each in a tree of its own, whose first error it is. */
static void expect_refused(tn_module *(*create)(tn_module *parent), const char *text)
{
    tn_module *root = tn_module_create(ctx, "root", NULL);
    cr_assert_null(create(root), "%s", text);
    const char *error = tn_module_error(root), *end = error + strlen(error) - strlen(text);
    cr_assert(end > error, "%s", error);
    cr_assert_str_eq(end, text); /* behind the place of the call */
    tn_module_destroy(root);
}
#define REFUSED(name, call)                   \
    static tn_module *name(tn_module *parent) \
    {                                         \
        return call;                          \
    }
REFUSED(no_hidden, tn_lstm_create(parent, "m", 2, 0))
REFUSED(no_groups, tn_group_norm_create(parent, "m", 3, 8))
REFUSED(over_one, tn_dropout_create(parent, "m", .p = 1.5))
REFUSED(misspelt, tn_gelu_create(parent, "m", .approximate = "tnah"))
REFUSED(too_large, tn_linear_create(parent, "m", -9007199254740993, 4))
REFUSED(mirrored, tn_conv_transpose2d_create(parent, "m", 1, 1, TN_INTS(3), .padding_mode = "reflect"))
REFUSED(mispadded, tn_conv1d_create(parent, "m", 1, 1, TN_INTS(3), .padding_mode = "mirror"))
REFUSED(sparse, tn_embedding_create(parent, "m", 3, 2, .sparse = 1))
REFUSED(no_mode, tn_upsample_create(parent, "m", .scale_factor = 2, .mode = "near"))
REFUSED(no_reduction, tn_l1_loss_create(parent, "m", .reduction = "batchmean"))
REFUSED(no_output, tn_fractional_max_pool2d_create(parent, "m", TN_INTS(2)))
REFUSED(more_than_all, tn_fractional_max_pool3d_create(parent, "m", TN_INTS(2), .output_ratio = 1.5))
static tn_module *sizeless(tn_module *parent)
{
    static const tn_module_class class = {.name = "Sizeless"};
    return tn_module_add(parent, "m", &class);
}

Test(module, options_that_pytorch_refuses_are_refused)
{
    expect_refused(no_hidden, "LSTM 'm': hidden_size: got 0, expected at least 1");
    expect_refused(no_groups, "GroupNorm 'm': num_channels: got 8, which 3 groups do not divide");
    expect_refused(over_one, "Dropout 'm': p: got 1.5, expected a probability from 0 to 1");
    expect_refused(misspelt, "GELU 'm': approximate: got 'tnah', expected 'none' or 'tanh'");
    expect_refused(too_large, "Linear 'm': in_features: got -9007199254740993, expected 0 or more");
    expect_refused(mirrored, "ConvTranspose2d 'm': padding_mode: got 'reflect', expected 'zeros', the only "
                             "one of transposed convolutions");
    expect_refused(
        mispadded,
        "Conv1d 'm': padding_mode: got 'mirror', expected 'zeros', 'reflect', 'replicate' or 'circular'");
    expect_refused(no_mode, "Upsample 'm': mode: got 'near', expected 'nearest', 'nearest-exact', 'linear', "
                            "'bilinear', 'bicubic' or 'trilinear'");
    expect_refused(no_reduction, "L1Loss 'm': reduction: got 'batchmean', expected 'mean', 'sum' or 'none'");
    expect_refused(sparse, "Embedding 'm': sparse: got 1, expected 0: gradients are not sparse");
    expect_refused(
        no_output,
        "FractionalMaxPool2d 'm': output_ratio: got 0, expected either output_size or output_ratio");
    expect_refused(more_than_all,
                   "FractionalMaxPool3d 'm': output_ratio: got 1.5, expected a share between 0 and 1");
    expect_refused(sizeless, "module: the field 'size' of its class is not sizeof(tn_module_class)");
}

Test(module, a_failed_call_does_not_remove_a_tensor)
{
    tn_module *fc = tn_linear_create(net, "fc", 2, 2);
    cr_assert_eq(tn_module_set_tensor(net, "fc.weight", NULL), TN_E_ARGUMENT);
    expect_failed(TN_E_ARGUMENT,
                  "module 'net': tensor 'fc.weight': got NULL; tn_module_set_absent removes a tensor");
    cr_assert_not_null(tn_module_tensor(fc, "weight"));
    cr_assert_eq(tn_module_save(net, "/tmp/never"), TN_E_ARGUMENT, "a failed tree is not saved");
    expect_last_error("got NULL");
}

Test(module, sizes_change_only_on_purpose)
{
    tn_module *fc = tn_linear_create(net, "fc", 2, 2);
    cr_assert_eq(tn_module_set_absent(fc, "weight"), TN_OK);
    cr_assert_null(tn_module_tensor(fc, "weight"));
    cr_assert_eq(tn_module_set_tensor(fc, "weight", filled(TN_INTS(2, 3), 1)), TN_OK);
    cr_assert_eq(tn_module_set_tensor(fc, "weight", filled(TN_INTS(2, 4), 1)), TN_E_SHAPE);
    expect_failed(TN_E_SHAPE, "module 'fc': tensor 'weight'");
}

/* Sanitizers report an allocation of this size. */
#if !defined(__SANITIZE_ADDRESS__) && !TN_HAS_FEATURE(address_sanitizer) && !TN_HAS_FEATURE(thread_sanitizer)
Test(module, a_root_for_which_there_is_no_memory)
{
    static const tn_module_class huge = {.size = sizeof huge, .name = "Huge", .state_bytes = 1ull << 62};
    tn_clear_error();
    cr_assert_null(tn_module_create(ctx, "huge", &huge));
    cr_assert_not_null(tn_last_error());
    cr_assert_eq(tn_last_error()->code, TN_E_OUT_OF_MEMORY);
    tn_clear_error();
    cr_assert_null(tn_module_create(NULL, "none", NULL));
    expect_last_error("tn_module_create: argument 'ctx' is NULL");
}
#endif

Test(module, a_child_is_not_destroyed_alone)
{
    tn_module_destroy(tn_linear_create(net, "fc", 2, 2));
    expect_failed(TN_E_STATE, "module 'fc' is a child; its root destroys it");
}

Test(module, a_scope_of_another_context_is_refused)
{
    tn_context *other = open_context();
    tn_scope *there = tn_scope_open(other);
    tn_module *fc = tn_linear_create(net, "fc", 2, 2);
    cr_assert_null(tn_module_forward(there, fc, tn_ones(there, TN_INTS(1, 2))));
    cr_assert_not_null(strstr(tn_scope_error(there)->message, "the scope is of another context"));
    tn_scope_close(there);
    tn_context_destroy(other);
}

Test(module, a_load_reports_what_it_left_out)
{
    tn_linear_create(net, "fc", 2, 2);
    const tn_named_tensor part[] = {{"fc.bias", filled(TN_INTS(2), 1)}, {"extra", filled(TN_INTS(2), 1)}};
    cr_assert_str_eq(tn_module_load_report(net), "");
    cr_assert_eq(tn_module_load_state(net, (tn_named_tensors){part, 2}, TN_LENIENT), TN_OK);
    cr_assert_str_eq(tn_module_load_report(net), "missing: 'fc.weight'; unexpected: 'extra'");
    cr_assert_eq(tn_module_load_state(net, (tn_named_tensors){part + 1, 1}, TN_LENIENT), TN_E_SHAPE);
    expect_last_error("no name fits: missing: 'fc.weight', 'fc.bias'; unexpected: 'extra'");
    cr_assert_eq(tn_module_load_state(net, tn_module_tensors(s, net, TN_STATE), TN_STRICT), TN_OK);
    cr_assert_str_eq(tn_module_load_report(net), "");
}

Test(module, a_step_around_others_fails_with_them)
{
    TN_STEP (outer, ctx) {
        TN_STEP (inner, ctx) tn_scope_fail(inner, TN_E_SHAPE, "on purpose");
        TN_STEP (inner, ctx) tn_ones(inner, TN_INTS(2));
        tn_ones(outer, TN_INTS(2));
    }
    cr_assert_eq(tn_step_status(), TN_E_SHAPE);
    TN_STEP (next, ctx) tn_ones(next, TN_INTS(2));
    cr_assert_eq(tn_step_status(), TN_OK);
}

static void make_and_lose_objects(void)
{
    tn_context *own;
    if (tn_context_create(NULL, &own)) return;
    tn_module *m = tn_module_create(own, "lost", NULL), *other = tn_module_create(own, "destroyed", NULL);
    tn_linear_create(m, "fc", 2, 2);
    tn_linear_create(other, "fc", 2, 2);
    tn_module_destroy(other);
    tn_context_destroy(own);
}

/* What is printed on standard error while `function` runs. */
static const char *printed_on_error(void (*function)(void))
{
    static char text[8192];
    FILE *file = tmpfile();
    fflush(stderr);
    int before = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    function();
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

Test(module, that_are_not_destroyed_are_listed_as_leaks)
{
    setenv("TENON_DEBUG", "leaks", 1);
    const char *text = printed_on_error(make_and_lose_objects);
    unsetenv("TENON_DEBUG");
    cr_assert_not_null(strstr(text, "module.c:"), "%s", text);
    cr_assert_not_null(strstr(text, ": leak: module 'lost' (Sequential) was not destroyed"), "%s", text);
    cr_assert_null(strstr(text, "'destroyed'"), "%s", text);
    cr_assert_not_null(strstr(text, "0 scopes and 1 other object are alive when"), "%s", text);
}

/* Later calls say that the tree failed, and with what; the first place is part of that. */
Test(module, a_tree_that_failed_keeps_its_first_error)
{
    tn_linear_create(net, "fc", 2, 3);
    cr_assert_eq(tn_module_set_tensor(net, "fc.weight", tn_ones(s, TN_INTS(5))), TN_E_SHAPE);
    expect_last_error("tensor 'fc.weight': got sizes [5], the present one has [3, 2]");
    cr_assert_eq(tn_module_to(net, 0, TN_FLOAT32), TN_E_SHAPE);
    expect_last_error("module 'net' failed before: ");
    cr_assert_eq(tn_module_set_tensor(net, "fc.none", NULL), TN_E_SHAPE);
    expect_last_error("module 'net' failed before: ");
    cr_assert_null(tn_module_forward(s, net, filled(TN_INTS(1, 2), 1)));
    cr_assert_not_null(strstr(tn_scope_error(s)->message, "module 'net' failed before: "), "%s",
                       tn_scope_error(s)->message);
    cr_assert_not_null(strstr(tn_scope_error(s)->message, "got sizes [5]"), "%s", tn_scope_error(s)->message);
    tn_scope_clear(s);
}

Test(module, a_summary_changes_nothing)
{
    tn_module *norm = tn_batch_norm2d_create(net, "norm", 2), *drop = tn_dropout_create(net, "drop");
    tn_module_train(drop, 0);
    cr_assert_not_null(tn_module_summary(s, net, TN_TENSORS(filled(TN_INTS(2, 2, 3, 3), 5))));
    cr_assert_eq(tn_item_int(s, tn_module_tensor(norm, "num_batches_tracked")), 0);
    cr_assert_eq(tn_item_double(s, tn_sum(s, tn_module_tensor(norm, "running_mean"))), 0);
    cr_assert_eq(tn_module_is_training(net), 1);
    cr_assert_eq(tn_module_is_training(norm), 1);
    cr_assert_eq(tn_module_is_training(drop), 0);
}

Test(module, moves_to_whole_numbers_are_refused)
{
    tn_module *fc = tn_linear_create(net, "fc", 2, 2);
    cr_assert_eq(tn_module_to(net, 0, TN_INT64), TN_E_DTYPE);
    expect_last_error("tn_module_to: argument 'dtype': modules are floating or complex (got int64)");
    cr_assert_eq(tn_tensor_dtype(tn_module_tensor(fc, "weight")), TN_FLOAT64);
    cr_assert_eq(tn_module_failed(net), TN_OK);
    cr_assert_not_null(tn_module_forward(s, fc, filled(TN_INTS(1, 2), 1)));
}

Test(module, batch_norm_learns_from_more_than_one_value)
{
    tn_module *norm = tn_batch_norm1d_create(net, "norm", 4);
    cr_assert_null(tn_module_forward(s, norm, filled(TN_INTS(1, 4), 1)));
    cr_assert_not_null(strstr(tn_scope_error(s)->message,
                              "Expected more than 1 value per channel when training, got input size [1, 4]"));
    tn_scope_clear(s);
    tn_module_train(norm, 0);
    cr_assert_not_null(tn_module_forward(s, norm, filled(TN_INTS(1, 4), 1)));
}

Test(module, a_residual_block)
{
    tn_module *m = block_create(net, "block", 2);
    cr_assert_not_null(m);
    tn_tensor *x = tn_randn(s, TN_INTS(2, 2, 4, 4), .dtype = TN_FLOAT64);
    tn_tensor *y = tn_module_forward(s, net, x);
    cr_assert_eq(tn_backward(s, tn_sum(s, y)), TN_OK);
    tn_tensors all = tn_module_parameters(s, net);
    cr_assert_eq(all.count, 8);
    for (int64_t i = 0; i < all.count; i++) cr_assert_not_null(tn_grad_of(s, all.data[i]));
    tn_module_zero_grad(net);
    for (int64_t i = 0; i < all.count; i++) cr_assert_null(tn_grad_of(s, all.data[i]));
    expect_sound(s);
    cr_assert_str_eq(tn_module_format(s, net),
                     "Sequential(\n"
                     "  (block): Block(\n"
                     "    (conv1): Conv2d(2, 2, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))\n"
                     "    (norm1): BatchNorm2d(2, eps=1e-05, momentum=0.1, affine=True, bias=True, "
                     "track_running_stats=True)\n"
                     "    (conv2): Conv2d(2, 2, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))\n"
                     "    (norm2): BatchNorm2d(2, eps=1e-05, momentum=0.1, affine=True, bias=True, "
                     "track_running_stats=True)\n"
                     "  )\n"
                     ")");
}

Test(module, an_error_names_the_module)
{
    tn_linear_create(net, "h.0.fc", 3, 4);
    cr_assert_null(tn_module_forward(s, net, filled(TN_INTS(2, 5), 1)));
    cr_assert_not_null(strstr(tn_scope_error(s)->message, "in module 'h.0.fc' (Linear)"), "%s",
                       tn_scope_error(s)->message);
    cr_assert_not_null(strstr(tn_scope_error(s)->message, "module.c:"), "%s", tn_scope_error(s)->message);
    cr_assert_str_eq(tn_scope_error(s)->op, "aten::linear", "the operator of the error stays");
    tn_scope_clear(s);
}

Test(module, a_list_has_no_forward)
{
    tn_module *list = tn_module_list_create(net, "layers");
    tn_relu_create(list, "0");
    cr_assert_null(tn_module_forward(s, list, filled(TN_INTS(1), 1)));
    expect_error(s, "call its children");
}

/* ---- Tensors */

Test(module, tensors_are_listed_in_order_and_shared_ones_once)
{
    tn_module *a = tn_linear_create(net, "a", 2, 2), *b = tn_linear_create(net, "b", 2, 2, .bias = 0);
    tn_batch_norm1d_create(net, "n", 2);
    cr_assert_eq(tn_module_set_tensor(b, "weight", tn_module_tensor(a, "weight")), TN_OK);
    tn_named_tensors p = tn_module_tensors(s, net, TN_PARAMETERS), all = tn_module_tensors(s, net, TN_STATE);
    static const char *const trained[] = {"a.weight", "a.bias", "n.weight", "n.bias"};
    static const char *const state[] = {
        "a.weight", "a.bias",         "b.weight",      "n.weight",
        "n.bias",   "n.running_mean", "n.running_var", "n.num_batches_tracked"};
    cr_assert_eq(p.count, 4);
    for (int i = 0; i < 4; i++) cr_assert_str_eq(p.data[i].name, trained[i]);
    cr_assert_eq(all.count, 8);
    for (int i = 0; i < 8; i++) cr_assert_str_eq(all.data[i].name, state[i]);
    /* One leaf: the gradients of both uses add up. y = W (W x + bias) of ones. */
    tn_init_constant(s, tn_module_tensor(a, "weight"), 1);
    tn_init_constant(s, tn_module_tensor(a, "bias"), 0);
    tn_tensor *x = VECTOR(s, 0, 1, 2);
    cr_assert_eq(tn_backward(s, tn_sum(s, tn_module_forward(s, b, tn_module_forward(s, a, x)))), TN_OK);
    EXPECT(s, tn_grad_of(s, tn_module_tensor(a, "weight")), 5, 7, 5, 7);
    /* Shared after a move, too. */
    cr_assert_eq(tn_module_to(net, 0, TN_FLOAT32), TN_OK);
    cr_assert_eq(tn_module_tensor(net, "a.weight"), tn_module_tensor(net, "b.weight"));
    cr_assert_eq(tn_tensor_dtype(tn_module_tensor(net, "a.weight")), TN_FLOAT32);
    cr_assert_eq(tn_tensor_dtype(tn_module_tensor(net, "n.num_batches_tracked")), TN_INT64);
    /* Also after a move of one of the modules. */
    cr_assert_eq(tn_module_to(b, 0, TN_BFLOAT16), TN_OK);
    cr_assert_eq(tn_module_tensor(net, "a.weight"), tn_module_tensor(net, "b.weight"));
    cr_assert_eq(tn_tensor_dtype(tn_module_tensor(net, "a.weight")), TN_BFLOAT16);
}

Test(module, a_buffer_that_is_not_persistent_is_not_in_the_state)
{
    tn_module_add_buffer(net, "seen", filled(TN_INTS(1), 2), TN_BUFFER_NOT_PERSISTENT);
    tn_module_add_buffer(net, "kept", filled(TN_INTS(1), 2), 0);
    cr_assert_eq(tn_module_tensors(s, net, TN_STATE).count, 1);
    cr_assert_eq(tn_module_tensors(s, net, TN_BUFFERS).count, 2);
    cr_assert_not(tn_requires_grad(tn_module_tensor(net, "seen")));
}

Test(module, requires_grad_and_training_mode)
{
    tn_module *fc = tn_linear_create(net, "fc", 2, 2), *drop = tn_dropout_create(net, "d");
    cr_assert(tn_module_is_training(drop));
    tn_module_train(net, 0);
    cr_assert_not(tn_module_is_training(drop));
    cr_assert_not(tn_module_is_training(tn_relu_create(net, "late")));
    EXPECT(s, tn_module_forward(s, drop, VECTOR(s, 0, 1, 2, 3)), 1, 2, 3);
    cr_assert_eq(tn_module_set_requires_grad(fc, 0), TN_OK);
    cr_assert_not(tn_requires_grad(tn_module_forward(s, net, filled(TN_INTS(1, 2), 1))));
}

/* PyTorch passes the operator 0 for momentum=None: the running averages stay. */
Test(module, an_instance_norm_without_momentum)
{
    tn_module *norm =
        tn_instance_norm1d_create(net, "norm", 2, .momentum = TN_NONE, .track_running_stats = 1);
    const double x[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, low = -sqrt(1.5 / (1 + 1.5e-5));
    tn_tensor *y = tn_module_forward(s, norm, make(s, TN_INTS(2, 2, 3), x, 0));
    EXPECT(s, tn_select(s, tn_select(s, y, 0, 1), 0, 0), low, 0, -low);
    EXPECT(s, tn_module_tensor(norm, "running_mean"), 0, 0);
    EXPECT(s, tn_module_tensor(norm, "running_var"), 1, 1);
    tn_module_train(net, 0);
    EXPECT(s, tn_module_forward(s, norm, make(s, TN_INTS(2, 1), x, 0)), 0, 1 / sqrt(1 + 1e-5));
}

/* They are not weights. */
Test(module, a_recurrent_layer_has_buffers_of_the_program)
{
    tn_module *lstm = tn_lstm_create(net, "lstm", 3, 4, .num_layers = 2, .bidirectional = 1, .proj_size = 2);
    tn_tensor *x = filled(TN_INTS(5, 1, 3), 1), *y = tn_detach(s, tn_module_forward(s, lstm, x));
    tn_module_add_buffer(lstm, "seen", filled(TN_INTS(1), 7), 0);
    cr_assert_eq(tn_prune_identity(lstm, "weight_hr_l1"), TN_OK);
    cr_assert(tn_equal(s, tn_detach(s, tn_module_forward(s, lstm, x)), y));
    expect_sound(s);
}

/* None in PyTorch. */
Test(module, adaptive_pools_to_the_size_of_the_input)
{
    tn_module *avg = tn_adaptive_avg_pool2d_create(net, "avg", TN_INTS(TN_NONE, 2)),
              *max = tn_adaptive_max_pool1d_create(net, "max", TN_INTS(TN_NONE));
    tn_tensor *x = make(s, TN_INTS(1, 2, 4), VALUES(1, 2, 3, 4, 5, 6, 7, 8), 0);
    EXPECT(s, tn_module_forward(s, avg, x), 1.5, 3.5, 5.5, 7.5);
    tn_outputs y = tn_module_call(s, max, TN_TENSORS(x));
    EXPECT(s, y.first, 1, 2, 3, 4, 5, 6, 7, 8);
    EXPECT(s, y.more[0], 0, 1, 2, 3, 0, 1, 2, 3);
    const char *text = tn_module_format(s, net);
    cr_assert(strstr(text, "AdaptiveAvgPool2d(output_size=(None, 2))"), "%s", text);
}

/* Each row is a bag, as in PyTorch, whatever the option says of offsets. */
Test(module, bags_of_equal_length_have_no_last_offset)
{
    tn_module *bag = tn_embedding_bag_create(net, "bag", 4, 1, .mode = "sum", .include_last_offset = 1);
    tn_copy_(s, tn_detach(s, tn_module_tensor(bag, "weight")), make(s, TN_INTS(4, 1), VALUES(1, 2, 4, 8), 0));
    const int64_t rows[] = {0, 1, 2, 3}, offsets[] = {0, 3, 4};
    tn_tensor *at = tn_from_data(s, TN_INT64, TN_INTS(4), rows, TN_CPU);
    EXPECT(s, tn_detach(s, tn_module_forward(s, bag, tn_reshape(s, at, TN_INTS(2, 2)))), 3, 12);
    EXPECT(
        s,
        tn_detach(s, tn_module_forward(s, bag, at, tn_from_data(s, TN_INT64, TN_INTS(3), offsets, TN_CPU))),
        7, 8);
}

/* ---- Initial values */

/* PyTorch's fan is 0 for the bias, too. */
Test(module, a_layer_without_inputs_begins_with_a_bias_of_zeros)
{
    tn_module *fc = tn_linear_create(net, "fc", 0, 3);
    EXPECT(s, tn_module_forward(s, fc, tn_zeros(s, TN_INTS(1, 0), .dtype = TN_FLOAT64)), 0, 0, 0);
}

/* Bounds and moments follow from the formulas; 4,000 draws make the moments sure to a few percent. */
Test(module, initial_values)
{
    tn_tensor *t = tn_empty(s, TN_INTS(40, 100), .dtype = TN_FLOAT64);
    tn_manual_seed(ctx, 3);
    tn_init_kaiming_uniform(s, t, sqrt(5), TN_FAN_IN, "leaky_relu", NULL);
    double high = tn_item_double(s, tn_max(s, t));
    cr_assert(high <= 0.1 && high > 0.099, "%g", high); /* sqrt(6 / ((1 + 5) * 100)) */
    tn_init_xavier_normal(s, t, 2, NULL);
    cr_assert_float_eq(tn_item_double(s, tn_std(s, t)), 2 * sqrt(2.0 / 140), 0.01);
    tn_init_kaiming_normal(s, t, 0, TN_FAN_OUT, "relu", NULL);
    cr_assert_float_eq(tn_item_double(s, tn_std(s, t)), sqrt(2.0 / 40), 0.01);
    tn_init_trunc_normal(s, t, 1, 2, 0, 1.5, NULL);
    cr_assert(tn_item_double(s, tn_min(s, t)) >= 0 && tn_item_double(s, tn_max(s, t)) <= 1.5);
    tn_init_orthogonal(s, t, 3, NULL);
    tn_tensor *product = tn_matmul(s, t, tn_t(s, t));
    cr_assert(
        tn_allclose(s, product, tn_mul_scalar(s, tn_eye(s, 40, .dtype = TN_FLOAT64), 9.0), .atol = 1e-9));
    tn_init_sparse(s, t, 0.25, 1, NULL);
    tn_tensor *zeros = tn_sum_dim(s, tn_eq_scalar(s, t, 0.0), TN_INTS(0));
    cr_assert_eq(tn_item_int(s, tn_min(s, zeros)), 10);
    cr_assert_eq(tn_item_int(s, tn_max(s, zeros)), 10);
    tn_tensor *d = tn_empty(s, TN_INTS(4, 2, 3), .dtype = TN_FLOAT64);
    EXPECT(s, tn_init_dirac(s, d, 2), 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0);
    EXPECT(s, tn_init_eye(s, tn_empty(s, TN_INTS(2, 3), .dtype = TN_FLOAT64)), 1, 0, 0, 0, 1, 0);
    expect_sound(s);
    cr_assert_null(tn_init_kaiming_normal(s, t, 0, TN_FAN_IN, "other", NULL));
    expect_error(s, "nonlinearity");
    cr_assert_null(tn_init_xavier_uniform(s, VECTOR(s, 0, 1), 1, NULL));
    expect_error(s, "init: got a tensor of 1 dimension, expected 2 or more");
}

/* ---- Summary, steps */

/* A layer of no outputs has no multiply-adds. */
Test(module, a_summary_of_empty_weights)
{
    tn_linear_create(net, "fc", 2, 0);
    const char *text = tn_module_summary(s, net, TN_TENSORS(filled(TN_INTS(1, 2), 1)));
    cr_assert(text && strstr(text, "[1, 0]") && strstr(text, "0 parameters"), "%s", text);
}

Test(module, summary)
{
    tn_conv2d_create(net, "conv", 3, 8, TN_INTS(3), .padding = TN_INTS(1));
    tn_flatten_create(net, "flat");
    tn_linear_create(net, "fc", 128, 10);
    const char *text = tn_module_summary(s, net, TN_TENSORS(filled(TN_INTS(1, 3, 4, 4), 1)));
    cr_assert_not_null(text, "%s", tn_scope_error(s) ? tn_scope_error(s)->message : "");
    /* conv: 8*3*9 + 8 parameters, 16 * 8 outputs of 27 products; fc: 128*10 + 10. */
    cr_assert_not_null(
        strstr(text,
               "conv: Conv2d                         [1, 8, 4, 4]                    224             3456"),
        "%s", text);
    cr_assert_not_null(
        strstr(text, "1514 parameters, 0.01 MB; 4736 multiply-adds; outputs of layers 266 elements"), "%s",
        text);
    cr_assert_not_null(tn_module_forward(s, net, filled(TN_INTS(1, 3, 4, 4), 1)), "hooks are gone");
}

/* Keys that are padding are as good as not there. */
Test(module, decoders_leave_padding_out)
{
    tn_manual_seed(ctx, 3);
    tn_module *decoder = tn_transformer_decoder_create(net, "d", 4, 2, 2, .dim_feedforward = 6, .dropout = 0);
    tn_module *both = tn_transformer_create(net, "t", 4, 2, 1, 1, .dim_feedforward = 6, .dropout = 0);
    tn_tensor *x = tn_randn(s, TN_INTS(3, 1, 4), .dtype = TN_FLOAT64),
              *memory = tn_randn(s, TN_INTS(5, 1, 4), .dtype = TN_FLOAT64), *none = NULL;
    tn_tensor *last = tn_unsqueeze(s, tn_eq_scalar(s, tn_arange(s, 3), 2), 0);
    tn_tensor *first = tn_unsqueeze(s, tn_lt_scalar(s, tn_arange(s, 5), 2), 0);
    tn_tensor *short_x = tn_slice(s, x, .end = 2), *short_memory = tn_slice(s, memory, .start = 2);
    tn_tensor *want = tn_module_forward(s, decoder, short_x, short_memory);
    tn_tensor *got = tn_module_forward(s, decoder, x, memory, none, none, last, first);
    cr_assert(tn_allclose(s, tn_slice(s, got, .end = 2), want, .atol = 1e-5));
    cr_assert_not(tn_allclose(s, tn_module_forward(s, decoder, x, memory), got));
    want = tn_module_forward(s, both, short_memory, short_x);
    got = tn_module_forward(s, both, memory, x, none, none, none, first, last, first);
    cr_assert(tn_allclose(s, tn_slice(s, got, .end = 2), want, .atol = 1e-5));
}

Test(module, a_failed_change_is_the_last_error)
{
    tn_linear_create(net, "fc", 2, 2);
    tn_clear_error();
    cr_assert_neq(tn_weight_norm(tn_module_child(net, "fc"), "wieght", 0), TN_OK);
    cr_assert_not_null(strstr(tn_last_error()->message, "'wieght': there is no such parameter"));
}
