/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of recurrent networks, of packing, and of ctc_loss. */
#include "rules.h"

static int32_t run_lstm(void *user, tn_scope *s, tn_tensors in, tn_tensor **out)
{
    (void)user;
    tn_tensors params = {in.data + 3, in.count - 3};
    tn_lstm_result r = tn_lstm(s, in.data[0], TN_TENSORS(in.data[1], in.data[2]), params, 1, 1, 0, 0, 1, 0);
    out[0] = tn_add(s, tn_sum(s, tn_mul(s, r.result0, r.result0)), tn_sum(s, r.result2));
    return tn_scope_failed(s);
}

static int32_t run_packed(void *user, tn_scope *s, tn_tensors in, tn_tensor **out)
{
    static const int64_t lengths[] = {3, 1};
    tn__pack_padded_sequence_result p =
        tn__pack_padded_sequence(s, in.data[0], longs(s, TN_INTS(2), lengths), 0);
    tn_tensors params = {in.data + 2, in.count - 2};
    (void)user;
    tn_gru_data_result r = tn_gru_data(s, p.result0, p.result1, in.data[1], params, 0, 1, 0, 0, 1);
    tn__pad_packed_sequence_result back = tn__pad_packed_sequence(s, r.result0, p.result1, 0, 2, 0);
    out[0] = tn_add(s, tn_sum(s, tn_mul(s, back.result0, back.result0)), tn_sum(s, r.result1));
    return tn_scope_failed(s);
}

static tn_tensor *number(tn_scope *s, int64_t a, int64_t b, int64_t c)
{
    return c   ? leaf(s, -1, 1, TN_INTS(a, b, c))
           : b ? leaf(s, -1, 1, TN_INTS(a, b))
               : leaf(s, -1, 1, TN_INTS(a));
}

Test(rules_rnn, of_networks)
{
    tn_scope *s = rules_begin();
    tn_tensor *lstm[] = {number(s, 2, 1, 2), number(s, 2, 1, 1), number(s, 2, 1, 1), number(s, 4, 2, 0),
                         number(s, 4, 1, 0), number(s, 4, 0, 0), number(s, 4, 0, 0), number(s, 4, 2, 0),
                         number(s, 4, 1, 0), number(s, 4, 0, 0), number(s, 4, 0, 0)};
    check_function(s, "lstm", run_lstm, ((tn_tensors){lstm, COUNT_OF(lstm)}));
    tn_tensor *gru[] = {number(s, 3, 2, 2), number(s, 2, 2, 1), number(s, 3, 2, 0),
                        number(s, 3, 1, 0), number(s, 3, 2, 0), number(s, 3, 1, 0)};
    check_function(s, "gru", run_packed, ((tn_tensors){gru, COUNT_OF(gru)}));
    rules_end(s);
}

Test(rules_rnn, of_fused_cells)
{
    tn_scope *s = rules_begin();
    for (int64_t biases = 0; biases < 2; biases++) {
        tn_value a = biases ? of(number(s, 8, 0, 0)) : none(), b = biases ? of(number(s, 6, 0, 0)) : none();
        tn_value c = biases ? of(number(s, 8, 0, 0)) : none(), d = biases ? of(number(s, 6, 0, 0)) : none();
        CHECK_CALL(s, TN_OP__THNN_FUSED_LSTM_CELL, 3, 2, 0, of(number(s, 3, 8, 0)), of(number(s, 3, 8, 0)),
                   of(number(s, 3, 2, 0)), a, c);
        CHECK_CALL(s, TN_OP__THNN_FUSED_GRU_CELL, 2, 1, 0, of(number(s, 3, 6, 0)), of(number(s, 3, 6, 0)),
                   of(number(s, 3, 2, 0)), b, d);
    }
    rules_end(s);
}

/* Steps of cells: what one gets comes from what another one got, and one tensor is two arguments. */
static int32_t run_steps(void *user, tn_scope *s, tn_tensors in, tn_tensor **out)
{
    tn_tensor *x = in.data[0], *h = tn_mean_dim(s, x, TN_INTS(1), .keepdim = 1);
    tn_tensor *c = h;
    (void)user;
    for (int i = 0; i < 2; i++) {
        h = tn_gru_cell(s, h, h, in.data[1], in.data[2]);
        tn_lstm_cell_result r = tn_lstm_cell(s, h, TN_TENSORS(h, c), in.data[3], in.data[4]);
        h = r.result0;
        c = r.result1;
    }
    out[0] = tn_add(s, tn_sum(s, tn_mul(s, h, h)), tn_sum(s, c));
    return tn_scope_failed(s);
}

Test(rules_rnn, of_arguments_that_depend_on_each_other)
{
    tn_scope *s = rules_begin();
    tn_tensor *in[] = {number(s, 2, 3, 0), number(s, 3, 1, 0), number(s, 3, 1, 0), number(s, 4, 1, 0),
                       number(s, 4, 1, 0)};
    check_function(s, "steps of cells", run_steps, ((tn_tensors){in, COUNT_OF(in)}));
    rules_end(s);
}

/* The gradient of ctc_loss is that of normalised probabilities, so they are normalised here. */
static int32_t run_ctc_loss(void *user, tn_scope *s, tn_tensors in, tn_tensor **out)
{
    static const int64_t labels[] = {1, 1, 2};
    (void)user;
    out[0] = tn_ctc_loss_intlist(s, tn_log_softmax(s, in.data[0], -1), longs(s, TN_INTS(3), labels),
                                 TN_INTS(4, 3), TN_INTS(2, 1), .reduction = 0);
    return tn_scope_failed(s);
}

Test(rules_rnn, of_ctc_loss)
{
    tn_scope *s = rules_begin();
    const tn_gradcheck_options once = {.size = sizeof once, .n_outs = 1};
    int32_t status = tn_gradcheck(s, run_ctc_loss, NULL, TN_TENSORS(leaf(s, -2, 2, TN_INTS(4, 2, 3))), &once);
    cr_assert_eq(status, TN_OK, "%s", tn_scope_error(s) ? tn_scope_error(s)->message : "");
    rules_end(s);
}
