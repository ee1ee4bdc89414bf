/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Utilities over modules: packed sequences, fused batch norms, chains of parametrisations, hooks of states, losses of
 * distances. What PyTorch computes is in utils.safetensors, which record_utils.py wrote.
 */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>
#include "recorded.h"

static void open_utils(void)
{
    open_recorded(UTILS_FILE);
    tn_module_to(net, 0, TN_FLOAT64);
}

TestSuite(packed, .init = open_utils, .fini = close_file);
TestSuite(fused, .init = open_utils, .fini = close_file);
TestSuite(chain, .init = open_utils, .fini = close_file);
TestSuite(states, .init = open_utils, .fini = close_file);
TestSuite(attention, .init = open_utils, .fini = close_file);
TestSuite(distance, .init = open_utils, .fini = close_file);
TestSuite(norms, .init = open_utils, .fini = close_file);
TestSuite(functions, .init = open_utils, .fini = close_file);

static tn_tensor *leaf(const char *name, const char *part)
{
    tn_tensor *t = recorded(name, part);
    cr_assert_eq(tn_set_requires_grad(t, 1), TN_OK);
    return t;
}

/* ---- Packed sequences ---------------------------------------------------------------------------------- */

/* Output, last states and all gradients of a recurrent layer. */
static void expect_packed(const char *name, tn_module *m, int32_t is_sorted, int32_t batch_first,
                          int32_t states)
{
    cr_assert_eq(tn_module_load_state(m, part_of(name, "state"), TN_STRICT), TN_OK, "%s", error_of(net));
    tn_tensor *x = leaf(name, "x"), *first[2] = {NULL, NULL};
    char part[64];
    for (int32_t i = 0; i < states; i++) {
        snprintf(part, sizeof part, "first.%d", i);
        first[i] = leaf(name, part);
    }
    const tn_packed_sequence p =
        tn_pack_padded_sequence(s, x, recorded(name, "lengths"), batch_first, is_sorted);
    expect_same(name, "data", p.data);
    expect_same(name, "batch_sizes", p.batch_sizes);
    const tn_packed_outputs y = tn_module_call_packed(s, m, p, first[0], first[1]);
    expect_sound(s);
    const tn_padded_sequence padded =
        tn_pad_packed_sequence(s, y.sequence, batch_first, -1.5, tn_tensor_size(x, batch_first) + 1);
    expect_same(name, "y", padded.data);
    expect_same(name, "counts", padded.lengths);
    expect_same(name, "last.0", y.h);
    if (y.c) expect_same(name, "last.1", y.c);
    tn_tensor *weights =
        tn_reshape(s, tn_arange(s, TN_SCALAR(tn_tensor_numel(padded.data)), .dtype = TN_FLOAT64),
                   (tn_ints){tn_tensor_sizes(padded.data), tn_tensor_rank(padded.data)});
    tn_tensor *loss = tn_sum(s, tn_mul(s, padded.data, tn_div_scalar(s, weights, 10)));
    loss = tn_add(s, loss, tn_sum(s, tn_mul(s, y.h, y.h)));
    if (y.c) loss = tn_add(s, loss, tn_sum(s, tn_mul(s, y.c, y.c)));
    cr_assert_eq(tn_backward(s, loss), TN_OK);
    expect_same(name, "grad.x", tn_grad_of(s, x));
    for (int32_t i = 0; i < states; i++) {
        snprintf(part, sizeof part, "grad.first.%d", i);
        expect_same(name, part, tn_grad_of(s, first[i]));
    }
    const tn_named_tensors all = tn_module_tensors(s, m, TN_PARAMETERS);
    for (int64_t i = 0; i < all.count; i++) {
        snprintf(part, sizeof part, "grad.%s", all.data[i].name);
        expect_same(name, part, tn_grad_of(s, all.data[i].tensor));
    }
}

Test(packed, recurrent_layers_are_those_of_pytorch)
{
    expect_packed("lstm", tn_lstm_create(net, "a", 3, 4, .num_layers = 2, .bidirectional = 1), 0, 0, 2);
    expect_packed("lstm_proj", tn_lstm_create(net, "b", 3, 5, .proj_size = 2), 1, 1, 0);
    expect_packed("gru", tn_gru_create(net, "c", 3, 4, .num_layers = 2), 0, 1, 1);
    expect_packed("rnn", tn_rnn_create(net, "d", 3, 4, .nonlinearity = "relu", .bias = 0, .bidirectional = 1),
                  1, 0, 0);
}

Test(packed, lists_come_back_as_they_were)
{
    tn_tensor *one = VECTOR(s, 0, 1, 2), *two = VECTOR(s, 0, 3, 4, 5), *three = VECTOR(s, 0, 6);
    const tn_packed_sequence p = tn_pack_sequence(s, TN_TENSORS(one, two, three), 0);
    EXPECT(s, p.data, 3, 1, 6, 4, 2, 5);
    const tn_tensors back = tn_unpack_sequence(s, p);
    cr_assert_eq(back.count, 3);
    EXPECT(s, back.data[0], 1, 2);
    EXPECT(s, back.data[1], 3, 4, 5);
    EXPECT(s, back.data[2], 6);
    const tn_tensors rows =
        tn_unpad_sequence(s, tn_pad_sequence(s, TN_TENSORS(one, two)),
                          tn_from_data(s, TN_INT64, TN_INTS(2), (int64_t[]){2, 3}, TN_CPU), 0);
    cr_assert_eq(rows.count, 2);
    EXPECT(s, rows.data[1], 3, 4, 5);
}

Test(packed, refusals)
{
    tn_tensor *x = tn_ones(s, TN_INTS(3, 2, 3), .dtype = TN_FLOAT64);
    tn_tensor *rising = tn_from_data(s, TN_INT64, TN_INTS(2), (int64_t[]){1, 3}, TN_CPU);
    cr_assert_null(tn_pack_padded_sequence(s, x, rising, 0, 1).data);
    expect_error(s, "sorted");
    cr_assert_null(tn_pack_padded_sequence(s, x, NULL, 0, 1).data);
    expect_error(s, "argument 'input' or 'lengths' is NULL");
    tn_module *m = tn_lstm_create(net, "a", 3, 4);
    cr_assert_null(tn_module_call_packed(s, m, (tn_packed_sequence){.data = x}, NULL, NULL).h);
    expect_error(s, "argument 'packed' has no batch_sizes");
    const tn_packed_sequence p = tn_pack_padded_sequence(s, x, rising, 0, 0);
    tn_tensor *h = tn_zeros(s, TN_INTS(1, 2, 4), .dtype = TN_FLOAT64);
    cr_assert_null(tn_module_call_packed(s, m, p, h, NULL).h);
    expect_error(s, "got one of the states h and c, expected both or none");
    cr_assert_null(tn_module_call_packed(s, tn_relu_create(net, "b"), p, NULL, NULL).sequence.data);
    expect_error(s, "the module is not an RNN, LSTM or GRU");
    cr_assert_null(
        tn_module_call_packed(s, m, (tn_packed_sequence){.data = x, .batch_sizes = p.batch_sizes}, NULL, NULL)
            .h);
    expect_error(s, "LSTM: packed sequences must have 2 dimensions, got 3");
    const tn_packed_sequence empty = {.data = p.data,
                                      .batch_sizes = tn_from_data(s, TN_INT64, TN_INTS(0), NULL, TN_CPU)};
    cr_assert_null(tn_module_call_packed(s, m, empty, NULL, NULL).h);
    expect_error(s, "LSTM: batch_sizes must be a list that is not empty, got [0]");
}

/* A state for more or for fewer sequences than there are, with sequences that were sorted and that were not. */
/* A hook that runs another layer with packed sequences. */
static void run_other(void *user, tn_scope *scope, tn_module *m, tn_tensor **in, uint32_t count)
{
    tn_module *other = user;
    (void)m;
    (void)count;
    const tn_packed_sequence p = tn_pack_sequence(scope, (tn_tensors){in, 1}, 1);
    cr_assert_not_null(tn_module_call_packed(scope, other, p, NULL, NULL).h);
}

Test(packed, calls_inside_others)
{
    tn_module *outer = tn_gru_create(net, "outer", 3, 2), *inner = tn_gru_create(net, "inner", 3, 2);
    tn_tensor *x = tn_ones(s, TN_INTS(5, 3), .dtype = TN_FLOAT64);
    const tn_packed_sequence p = tn_pack_sequence(s, TN_TENSORS(x, tn_narrow(s, x, 0, 0, 2)), 1);
    tn_tensor *want = tn_module_call_packed(s, outer, p, NULL, NULL).sequence.data;
    cr_assert_neq(
        tn_module_add_hook(
            outer, &(tn_module_hook){.size = sizeof(tn_module_hook), .user = inner, .before = run_other}),
        0);
    tn_tensor *y = tn_module_call_packed(s, outer, p, NULL, NULL).sequence.data;
    expect_sound(s);
    cr_assert_eq(tn_item_double(s, tn_max(s, tn_abs(s, tn_sub(s, y, want)))), 0);
}

Test(packed, states_of_another_batch)
{
    tn_tensor *x = tn_ones(s, TN_INTS(3, 2, 3), .dtype = TN_FLOAT64), *h[4];
    tn_tensor *falling = tn_from_data(s, TN_INT64, TN_INTS(2), (int64_t[]){3, 2}, TN_CPU),
              *rising = tn_from_data(s, TN_INT64, TN_INTS(2), (int64_t[]){2, 3}, TN_CPU);
    tn_module *gru = tn_gru_create(net, "g", 3, 4), *rnn = tn_rnn_create(net, "r", 3, 4),
              *lstm = tn_lstm_create(net, "l", 3, 4);
    const tn_packed_sequence packs[] = {tn_pack_padded_sequence(s, x, falling, 0, 1),
                                        tn_pack_padded_sequence(s, x, rising, 0, 0)};
    for (int64_t i = 1; i < 4; i++) h[i] = tn_ones(s, TN_INTS(1, i, 4), .dtype = TN_FLOAT64);
    for (int32_t i = 0; i < 2; i++) {
        cr_assert_null(tn_module_call_packed(s, gru, packs[i], h[3], NULL).h);
        expect_error(s, "GRU: Expected hidden size (1, 2, 4), got [1, 3, 4]");
        cr_assert_null(tn_module_call_packed(s, rnn, packs[i], h[1], NULL).h);
        expect_error(s, "RNN: Expected hidden size (1, 2, 4), got [1, 1, 4]");
        cr_assert_null(tn_module_call_packed(s, lstm, packs[i], h[2], h[3]).h);
        expect_error(s, "LSTM: Expected hidden[1] size (1, 2, 4), got [1, 3, 4]");
        cr_assert_not_null(tn_module_call_packed(s, lstm, packs[i], h[2], h[2]).c);
    }
    cr_assert_null(tn_module_call_packed(s, tn_gru_create(net, "w", 5, 4), packs[0], NULL, NULL).h);
    expect_error(s, "GRU: input.size(-1) must be equal to input_size. Expected 5, got 3");
}

/* ---- Fused batch norms --------------------------------------------------------------------------------- */

static void expect_fused(const char *name, tn_module *both, int32_t (*fuse)(tn_module *, tn_module *))
{
    tn_module *layer = tn_module_child_at(both, 0), *norm = tn_module_child_at(both, 1);
    cr_assert_eq(tn_module_load_state(both, part_of(name, "state"), TN_STRICT), TN_OK, "%s", error_of(net));
    cr_assert_eq(fuse(layer, norm), TN_E_ARGUMENT);
    expect_last_error("both must be in evaluation mode");
    tn_module_train(both, 0);
    expect_same(name, "y", tn_module_forward(s, both, recorded(name, "x")));
    cr_assert_eq(fuse(layer, norm), TN_OK, "%s", error_of(net));
    expect_same(name, "weight", tn_module_tensor(layer, "weight"));
    expect_same(name, "bias", tn_module_tensor(layer, "bias"));
    cr_assert_str_eq(tn_module_class_name(norm), "Identity");
    expect_same(name, "y", tn_module_forward(s, both, recorded(name, "x")));
    cr_assert_eq(fuse(layer, norm), TN_E_ARGUMENT);
    expect_last_error("the second module is not a batch norm");
}

Test(fused, are_those_of_pytorch)
{
    tn_module *a = tn_module_add(net, "a", NULL), *b = tn_module_add(net, "b", NULL),
              *c = tn_module_add(net, "c", NULL);
    tn_conv2d_create(a, "0", 4, 6, TN_INTS(3), .groups = 2, .bias = 0);
    tn_batch_norm2d_create(a, "1", 6);
    expect_fused("conv", a, tn_fuse_conv_bn_eval);
    tn_conv_transpose1d_create(b, "0", 3, 4, TN_INTS(2));
    tn_batch_norm1d_create(b, "1", 4, .eps = 0.1, .affine = 0);
    expect_fused("transposed", b, tn_fuse_conv_bn_eval);
    tn_linear_create(c, "0", 3, 5);
    tn_batch_norm1d_create(c, "1", 5);
    expect_fused("linear", c, tn_fuse_linear_bn_eval);
    cr_assert_eq(tn_fuse_linear_bn_eval(tn_module_child_at(a, 0), NULL), TN_E_ARGUMENT);
}

/* What both compute one after the other. */
Test(fused, transposed_convolutions_of_several_groups)
{
    static const struct {
        int64_t in, out, groups;
    } kinds[] = {{4, 6, 2}, {3, 3, 3}, {2, 4, 2}};
    for (int i = 0; i < 3; i++) {
        tn_module *both = tn_module_add(net, NULL, NULL),
                  *layer = tn_conv_transpose2d_create(both, "0", kinds[i].in, kinds[i].out, TN_INTS(2, 3),
                                                      .groups = kinds[i].groups),
                  *norm = tn_batch_norm2d_create(both, "1", kinds[i].out);
        for (uint32_t k = 0; k < 4; k++)
            tn_init_uniform(s, tn_detach(s, tn_module_own(norm, k)), 0.5, 2, NULL);
        tn_module_train(both, 0);
        tn_module_set_requires_grad(layer, 0);
        tn_tensor *x = tn_randn(s, TN_INTS(2, kinds[i].in, 3, 3), .dtype = TN_FLOAT64),
                  *want = tn_module_forward(s, both, x);
        cr_assert_eq(tn_fuse_conv_bn_eval(layer, norm), TN_OK, "%s", error_of(net));
        tn_tensor *apart = tn_abs(s, tn_sub(s, tn_module_forward(s, both, x), want));
        cr_assert_lt(tn_item_double(s, tn_max(s, apart)), 1e-12);
        cr_assert(!tn_requires_grad(tn_module_own(layer, 0)) && !tn_requires_grad(tn_module_own(layer, 1)));
    }
    expect_sound(s);
}

Test(fused, refuses_norms_that_do_not_fit)
{
    tn_module *layer = tn_conv1d_create(net, "conv", 2, 4, TN_INTS(1)),
              *pruned = tn_batch_norm1d_create(net, "pruned", 4),
              *one = tn_batch_norm1d_create(net, "one", 1);
    tn_prune_identity(pruned, "weight");
    tn_module_train(net, 0);
    cr_assert_eq(tn_fuse_conv_bn_eval(layer, pruned), TN_E_ARGUMENT);
    expect_last_error("tn_fuse_conv_bn_eval: the norm is parametrized or pruned");
    cr_assert_eq(tn_fuse_conv_bn_eval(layer, one), TN_E_ARGUMENT);
    expect_last_error(
        "tn_fuse_conv_bn_eval: the norm has another number of features than the layer has outputs");
    cr_assert_str_eq(tn_module_class_name(pruned), "BatchNorm1d");
    cr_assert_eq(tn_module_failed(net), TN_OK);
    tn_tensor *y = tn_module_forward(s, pruned, tn_ones(s, TN_INTS(1, 4, 3), .dtype = TN_FLOAT64));
    cr_assert_float_eq(tn_item_double(s, tn_sum(s, y)), 12 / sqrt(1 + 1e-5), 1e-12);
}

/* ---- Chains of parametrisations ------------------------------------------------------------------------ */

static tn_tensor *double_forward(tn_scope *scope, tn_module *zero, tn_tensors originals)
{
    (void)zero;
    tn_tensor *x = originals.data[0];
    return tn_add(scope, tn_mul_scalar(scope, x, 2), tn_mul(scope, x, x));
}

static const tn_module_class double_class = {.size = sizeof double_class, .name = "Double"};
static const tn_parametrization doubled = {
    .size = sizeof doubled, .class_ = &double_class, .forward = double_forward};

Test(chain, is_that_of_pytorch)
{
    tn_module *m = tn_linear_create(net, "a", 3, 4);
    cr_assert_eq(tn_weight_norm(m, "weight", 0), TN_OK);
    cr_assert_eq(tn_spectral_norm(m, "weight", 0, 0), TN_OK, "%s", error_of(net));
    cr_assert_eq(tn_module_parametrize(m, "weight", &doubled, NULL), TN_OK, "%s", error_of(net));
    cr_assert(tn_module_is_parametrized(m, "weight") && tn_module_is_parametrized(m, NULL));
    cr_assert_not(tn_module_is_parametrized(m, "bias"));
    expect_pytorch("chain", m, TN_OK);
    cr_assert_eq(tn_module_remove_parametrization(m, "weight"), TN_OK);
    cr_assert_not(tn_module_is_parametrized(m, NULL));
    expect_same("chain", "left", tn_module_tensor(m, "weight"));
    cr_assert_eq(tn_module_tensors(s, m, TN_STATE).count, 2);
    m = tn_linear_create(net, "b", 4, 4);
    cr_assert_eq(tn_weight_norm(m, "weight", 0), TN_OK);
    expect_pytorch("chain_orthogonal", m, tn_orthogonal(m, "weight", NULL));
    expect_same("chain_orthogonal", "left", tn_module_compute(s, m, "weight"));
}

static tn_tensor *narrow_forward(tn_scope *scope, tn_module *zero, tn_tensors originals)
{
    (void)zero;
    return tn_narrow(scope, originals.data[0], 0, 0, 1);
}

Test(chain, a_further_one_must_keep_the_sizes)
{
    static const tn_module_class kind = {.size = sizeof kind, .name = "Narrow"};
    static const tn_parametrization narrow = {
        .size = sizeof narrow, .class_ = &kind, .forward = narrow_forward};
    tn_module *m = tn_linear_create(net, "a", 3, 4);
    cr_assert_eq(tn_module_parametrize(m, "weight", &doubled, NULL), TN_OK);
    cr_assert_eq(tn_module_parametrize(m, "weight", &narrow, NULL), TN_E_SHAPE);
    cr_assert_not_null(strstr(tn_module_error(net), "it changes the sizes or the dtype"), "%s",
                       error_of(net));
}

/* ---- Hooks of states ----------------------------------------------------------------------------------- */

static char trace[512];

static void note(const char *what, const char *prefix)
{
    snprintf(trace + strlen(trace), sizeof trace - strlen(trace), "%s(%s) ", what, prefix);
}

static void save_begin(void *user, tn_scope *scope, tn_module *m, const char *prefix)
{
    (void)scope, (void)m;
    note((const char *)user, prefix);
}

/* Puts a tensor with the number of the others behind them. */
static tn_named_tensors save(void *user, tn_scope *scope, tn_module *m, const char *prefix,
                             tn_named_tensors state)
{
    (void)user, (void)m;
    tn_named_tensor *items = tn_scope_memory(scope, (uint64_t)(state.count + 1) * sizeof *items);
    char *name = tn_scope_memory(scope, 64);
    memcpy(items, state.data, (size_t)state.count * sizeof *items);
    snprintf(name, 64, "%sextra", prefix);
    items[state.count] = (tn_named_tensor){name, tn_full(scope, TN_INTS(1), (double)state.count)};
    note("save", prefix);
    return (tn_named_tensors){items, state.count + 1};
}

/* Leaves that tensor out, and takes "w" for "weight". */
static tn_named_tensors load(void *user, tn_scope *scope, tn_module *m, const char *prefix,
                             tn_named_tensors state)
{
    (void)user, (void)m;
    tn_named_tensor *items = tn_scope_memory(scope, (uint64_t)(state.count + 1) * sizeof *items);
    char extra[64], old[64], *name = tn_scope_memory(scope, 64);
    int64_t n = 0;
    snprintf(extra, sizeof extra, "%sextra", prefix);
    snprintf(old, sizeof old, "%sw", prefix);
    snprintf(name, 64, "%sweight", prefix);
    for (int64_t i = 0; i < state.count; i++) {
        if (!strcmp(state.data[i].name, extra)) continue;
        items[n] = state.data[i];
        if (!strcmp(items[n].name, old)) items[n].name = name;
        n++;
    }
    note("load", prefix);
    return (tn_named_tensors){items, n};
}

static void loaded(void *user, tn_scope *scope, tn_module *m, const char *prefix)
{
    (void)user, (void)scope, (void)m;
    note("loaded", prefix);
}

Test(states, hooks_change_what_is_saved_and_loaded)
{
    const tn_module_hook hook = {.size = sizeof hook,
                                 .user = "begin",
                                 .save_begin = save_begin,
                                 .save = save,
                                 .load = load,
                                 .loaded = loaded};
    tn_module *fc = tn_linear_create(net, "h.fc", 2, 2);
    cr_assert(tn_module_add_hook(fc, &hook) && tn_module_add_hook(net, &hook));
    trace[0] = 0;
    const tn_named_tensors state = tn_module_state_dict(s, net);
    cr_assert_str_eq(trace, "begin() begin(h.fc.) save(h.fc.) save() ");
    cr_assert_eq(state.count, 4);
    cr_assert_str_eq(state.data[2].name, "h.fc.extra");
    EXPECT(s, tn_to(s, state.data[3].tensor, TN_FLOAT64), 3);
    char path[] = "/tmp/state-XXXXXX";
    cr_assert_geq(mkstemp(path), 0);
    cr_assert_eq(tn_module_save(net, path), TN_OK);
    tn_tensor *before = tn_clone(s, tn_detach(s, tn_module_tensor(fc, "weight")));
    tn_init_constant(s, tn_module_tensor(fc, "weight"), 0);
    trace[0] = 0;
    cr_assert_eq(tn_module_load(net, path, TN_STRICT), TN_OK, "%s", error_of(net));
    cr_assert_str_eq(trace, "load() load(h.fc.) loaded(h.fc.) loaded() ");
    cr_assert(tn_equal(s, tn_module_tensor(fc, "weight"), before));
    unlink(path);
    const tn_named_tensor old[] = {{"h.fc.w", tn_zeros(s, TN_INTS(2, 2))},
                                   {"h.fc.bias", tn_ones(s, TN_INTS(2))}};
    cr_assert_eq(tn_module_load_state(net, (tn_named_tensors){old, 2}, TN_STRICT), TN_OK, "%s",
                 error_of(net));
    EXPECT(s, tn_detach(s, tn_module_tensor(fc, "weight")), 0, 0, 0, 0);
}

static tn_named_tensors refuse(void *user, tn_scope *scope, tn_module *m, const char *prefix,
                               tn_named_tensors state)
{
    (void)user, (void)m, (void)prefix;
    tn_scope_fail(scope, TN_E_VERSION, "a state of version 1");
    return state;
}

Test(states, a_hook_that_fails_ends_the_call_and_changes_nothing)
{
    const tn_module_hook hook = {.size = sizeof hook, .load = refuse, .loaded = loaded};
    tn_module *fc = tn_linear_create(net, "fc", 2, 2);
    tn_tensor *before = tn_clone(s, tn_detach(s, tn_module_tensor(fc, "weight")));
    tn_module_add_hook(fc, &hook);
    trace[0] = 0;
    const tn_named_tensor state[] = {{"weight", tn_zeros(s, TN_INTS(2, 2))},
                                     {"bias", tn_ones(s, TN_INTS(2))}};
    cr_assert_eq(tn_module_load_state(fc, (tn_named_tensors){state, 2}, TN_STRICT), TN_E_VERSION);
    expect_last_error("a state of version 1");
    cr_assert_str_eq(trace, "");
    cr_assert(tn_equal(s, tn_module_tensor(fc, "weight"), before));
    cr_assert_eq(tn_module_failed(net), TN_OK);
}

/* ---- Losses and norms ---------------------------------------------------------------------------------- */

static tn_tensor *cosine_distance(void *user, tn_scope *scope, tn_tensor *a, tn_tensor *b)
{
    ++*(int *)user;
    return tn_rsub_scalar(scope, tn_cosine_similarity(scope, a, b), TN_SCALAR(1));
}

static void expect_triplet(const char *name, tn_module *m)
{
    cr_assert_not_null(m, "%s", error_of(net));
    tn_tensor *in[3] = {leaf(name, "in.0"), leaf(name, "in.1"), leaf(name, "in.2")};
    tn_tensor *loss = tn_module_forward(s, m, in[0], in[1], in[2]);
    expect_same(name, "loss", loss);
    cr_assert_eq(tn_backward(s, tn_sum(s, loss)), TN_OK);
    for (int i = 0; i < 3; i++) {
        char part[16];
        snprintf(part, sizeof part, "grad.%d", i);
        expect_same(name, part, tn_grad_of(s, in[i]));
    }
}

Test(distance, triplets_are_those_of_pytorch)
{
    int calls = 0;
    expect_triplet("triplet", tn_triplet_margin_with_distance_loss_create(net, "a"));
    expect_triplet("triplet_swap", tn_triplet_margin_with_distance_loss_create(
                                       net, "b", .distance_function = cosine_distance, .user = &calls,
                                       .swap = 1, .margin = 0.7, .reduction = "none"));
    cr_assert_eq(calls, 3);
    cr_assert_null(tn_triplet_margin_with_distance_loss_create(net, "c", .margin = 0));
    cr_assert_not_null(strstr(tn_module_error(net), "margin is not above 0"));
}

/* ---- Attention with keys and values of its own --------------------------------------------------------- */

Test(attention, more_keys_are_those_of_pytorch)
{
    tn_module *m = tn_multihead_attention_create(net, "a", 6, 2, .kdim = 5, .vdim = 4, .add_bias_kv = 1,
                                                 .add_zero_attn = 1, .batch_first = 1, .need_weights = 1);
    cr_assert_eq(tn_module_load_state(m, part_of("attention", "state"), TN_STRICT), TN_OK, "%s",
                 error_of(net));
    const tn_outputs y =
        tn_module_call(s, m,
                       TN_TENSORS(recorded("attention", "in.0"), recorded("attention", "in.1"),
                                  recorded("attention", "in.2"), recorded("attention", "padding"),
                                  recorded("attention", "mask")));
    expect_same("attention", "y", y.first);
    expect_same("attention", "weights", y.more[0]);
    cr_assert_eq(tn_backward(s, tn_sum(s, tn_mul(s, y.first, y.first))), TN_OK);
    const tn_named_tensors all = tn_module_tensors(s, m, TN_PARAMETERS);
    for (int64_t i = 0; i < all.count; i++) {
        char part[64];
        snprintf(part, sizeof part, "grad.%s", all.data[i].name);
        expect_same("attention", part, tn_grad_of(s, all.data[i].tensor));
    }
}

/* 3, 4 and 12 have the norm 13; clipped by a norm that is known beforehand. */
Test(norms, of_several_tensors)
{
    tn_tensor *a = VECTOR(s, 1, 1, 1), *b = VECTOR(s, 1, 1);
    tn_set_grad(a, VECTOR(s, 0, 3, 4));
    tn_set_grad(b, VECTOR(s, 0, 12));
    const tn_tensors gradients = TN_TENSORS(tn_grad_of(s, a), NULL, tn_grad_of(s, b));
    EXPECT(s, tn_get_total_norm(s, gradients, 2), 13);
    EXPECT(s, tn_get_total_norm(s, gradients, INFINITY), 12);
    cr_assert_eq(tn_clip_grads_with_norm(s, TN_TENSORS(a, b), 6.5 * (13 + 1e-6) / 13, VECTOR(s, 0, 13)),
                 TN_OK);
    EXPECT(s, tn_grad_of(s, a), 1.5, 2);
    EXPECT(s, tn_grad_of(s, b), 6);
    cr_assert_eq(tn_clip_grads_with_norm(s, TN_TENSORS(a), 1, NULL), TN_E_ARGUMENT);
    expect_error(s, "argument 'total_norm' is NULL");
}

/* ---- Functions (values of PyTorch) --------------------------------------------------------------------- */

static void expect_numbers(tn_tensor *t, int64_t count, const double *want)
{
    double got[16];
    expect_sound(s);
    cr_assert_eq(tn_tensor_numel(t), count);
    cr_assert_eq(tn_to_host(s, t, got, (uint64_t)count * 8), TN_OK);
    for (int64_t i = 0; i < count; i++)
        cr_assert(fabs(got[i] - want[i]) < 1e-15, "element %lld is %.17g, not %.17g", (long long)i, got[i],
                  want[i]);
}
#define EXPECT_NUMBERS(t, ...) \
    expect_numbers(t, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

Test(functions, vectors_of_length_one)
{
    tn_tensor *x = tn_from_data(s, TN_FLOAT64, TN_INTS(3, 2), (double[]){3, 4, 0, 0, 1, -1}, TN_CPU);
    EXPECT_NUMBERS(tn_normalize(s, x, 2, 1, 1e-12), 0.6, 0.8, 0, 0, 0.7071067811865475, -0.7071067811865475);
    EXPECT_NUMBERS(tn_normalize(s, x, 1, 0, 1e-12), 0.75, 0.8, 0, 0, 0.25, -0.2);
    EXPECT_NUMBERS(tn_normalize(s, x, INFINITY, -1, 1e-12), 0.75, 1, 0, 0, 1, -1);
}

/* One choice of three with odds of 1, 2 and 5: 4 standard deviations of 4,000 choices. */
Test(functions, choices_with_a_gradient)
{
    tn_tensor *odds = tn_from_data(s, TN_FLOAT64, TN_INTS(3), (double[]){1, 2, 5}, TN_CPU);
    tn_tensor *logits = tn_clone(s, tn_expand(s, tn_log(s, odds), TN_INTS(4000, 3)));
    tn_set_requires_grad(logits, 1);
    tn_tensor *hard = tn_gumbel_softmax(s, logits, 0.5, 1, -1), *count = tn_sum_dim(s, hard, TN_INTS(0));
    double counts[3], sum = 0;
    expect_sound(s);
    cr_assert_eq(tn_to_host(s, count, counts, sizeof counts), TN_OK);
    for (int i = 0; i < 3; i++) {
        const double p = (i == 2 ? 5 : i + 1) / 8.0;
        cr_assert_lt(fabs(counts[i] - 4000 * p), 4 * sqrt(4000 * p * (1 - p)), "%d: %f", i, counts[i]);
    }
    tn_backward(s, tn_sum(s, tn_mul(s, hard, odds)));
    tn_tensor *gradient = tn_grad_of(s, logits);
    sum = tn_item_double(s, tn_sum(s, tn_abs(s, tn_sum_dim(s, gradient, TN_INTS(1)))));
    cr_assert_lt(sum, 1e-9); /* of a softmax */
    cr_assert_gt(tn_item_double(s, tn_sum(s, tn_abs(s, gradient))), 100);
    tn_tensor *soft = tn_gumbel_softmax(s, tn_detach(s, logits), 2, 0, 0);
    cr_assert_lt(fabs(tn_item_double(s, tn_sum(s, soft)) - 3), 1e-9);
    cr_assert_null(tn_gumbel_softmax(s, logits, 0, 0, 0));
    expect_error(s, "gumbel_softmax: argument 'tau': got 0, expected more than 0");
}

typedef struct two_batches {
    int given;
} two_batches;

static tn_tensor *next_batch(void *user, tn_scope *scope)
{
    two_batches *b = user;
    static const double first[] = {1, 2, 3, 6}, second[] = {5, 0, 7, 4, 9, 8};
    if (b->given == 2) return NULL;
    return b->given++ ? tn_from_data(scope, TN_FLOAT64, TN_INTS(3, 2), second, TN_CPU)
                      : tn_from_data(scope, TN_FLOAT64, TN_INTS(2, 2), first, TN_CPU);
}

static tn_tensor *failing_batch(void *user, tn_scope *scope)
{
    tn_scope_fail(scope, TN_E_IO, "no more data");
    return NULL;
}

Test(functions, statistics_of_batch_norms_anew)
{
    two_batches data = {0};
    tn_module *norm = tn_batch_norm1d_create(net, "norm", 2);
    tn_module_to(net, 0, TN_FLOAT64);
    tn_fill_scalar_(s, tn_module_tensor(norm, "running_mean"), 7.0);
    tn_module_train(norm, 0);
    cr_assert_eq(tn_update_bn(s, norm, next_batch, &data), TN_OK, "%s", error_of(net));
    EXPECT_NUMBERS(tn_module_tensor(norm, "running_mean"), 4.5, 4);
    EXPECT_NUMBERS(tn_module_tensor(norm, "running_var"), 3, 12);
    cr_assert_not(tn_module_is_training(norm));
    tn_module_train(norm, 1); /* the momentum is 0.1 again */
    data.given = 0;
    tn_module_forward(s, norm, next_batch(&data, s));
    EXPECT_NUMBERS(tn_module_tensor(norm, "running_mean"), 4.5 * 0.9 + 0.2, 4 * 0.9 + 0.4);
    cr_assert_eq(tn_update_bn(s, norm, NULL, NULL), TN_E_ARGUMENT);
    expect_error(s, "tn_update_bn: 'next' is NULL");
    cr_assert_eq(tn_update_bn(s, NULL, failing_batch, NULL), TN_E_ARGUMENT);
    expect_error(s, "tn_update_bn: the module is NULL");
    cr_assert_eq(tn_update_bn(s, norm, failing_batch, NULL), TN_E_IO);
    expect_error(s, "no more data");
}
