/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent networks, packed sequences and ctc_loss against values of PyTorch 2.13. */
#include <math.h>
#include <tenon/inspect.h>
#include "suite.h"

TestSuite(rnn, .init = begin);

/* sin(1.3 i + phase) */
static tn_tensor *wave(double phase, tn_ints size)
{
    double values[128];
    int64_t count = 1;
    for (int64_t i = 0; i < size.count; i++) count *= size.data[i];
    for (int64_t i = 0; i < count; i++) values[i] = sin(1.3 * (double)i + phase);
    return make(s, size, values, 0);
}

/* Weights of cells with 2 inputs and a state of 2, of 1 if it is projected. */
static tn_tensors weights(int64_t gates, int64_t directions, int64_t layers, int32_t projected,
                          tn_tensor **list)
{
    int64_t state = projected ? 1 : 2, n = 0;
    for (int64_t i = 0; i < layers * directions; i++) {
        int64_t inputs = i < directions ? 2 : state * directions;
        list[n] = wave(0.5 * (double)n, TN_INTS(gates * 2, inputs)), n++;
        list[n] = wave(0.5 * (double)n, TN_INTS(gates * 2, state)), n++;
        list[n] = wave(0.5 * (double)n, TN_INTS(gates * 2)), n++;
        list[n] = wave(0.5 * (double)n, TN_INTS(gates * 2)), n++;
        if (projected) list[n] = wave(0.5 * (double)n, TN_INTS(1, 2)), n++;
    }
    return (tn_tensors){list, n};
}

Test(rnn, lstm_of_two_layers_in_both_directions)
{
    tn_tensor *list[16], *h = wave(0.7, TN_INTS(4, 2, 2)), *c = wave(0.9, TN_INTS(4, 2, 2));
    tn_lstm_result r = tn_lstm(s, wave(0.2, TN_INTS(3, 2, 2)), TN_TENSORS(h, c), weights(4, 2, 2, 0, list), 1,
                               2, 0, 0, 1, 0);
    EXPECT(s, tn_select(s, r.result0, 2, 1), -0.06483455177227483, -0.3037686356319977, -0.3800055278861268,
           -0.5470812618712217, -0.5651859380126815, -0.610005660399534);
    EXPECT(s, tn_slice(s, r.result1, .start = 1, .end = 3), 0.0601283871190071, 0.01241568326238344,
           0.0463056914100916, -0.06413361999399389, -0.40885940023335, -0.5651859380126815,
           0.2647708206772032, -0.610005660399534);
    EXPECT(s, tn_select(s, r.result2, 0, 3), -0.3132342934967662, 0.8520656583183437, 0.08009701778485123,
           0.7556569893931877);
    end();
}

Test(rnn, lstm_with_a_projection)
{
    tn_tensor *list[5], *h = wave(0.7, TN_INTS(1, 2, 1)), *c = wave(0.9, TN_INTS(1, 2, 2));
    tn_lstm_result r = tn_lstm(s, wave(0.2, TN_INTS(3, 2, 2)), TN_TENSORS(h, c), weights(4, 1, 1, 1, list), 1,
                               1, 0, 0, 0, 0);
    EXPECT(s, r.result0, -0.2883520339149956, 0.05788928018227025, 0.1444497628627574, -0.2888208560228145,
           0.4792518191432594, -0.2414590982187784);
    EXPECT(s, r.result2, 0.8531789718306462, 0.6169841647679483, -0.6559877052056575, 0.9922098393816869);
    end();
}

Test(rnn, other_cells)
{
    tn_tensor *list[4], *x = wave(0.2, TN_INTS(3, 2, 2)), *h = wave(0.7, TN_INTS(1, 2, 2));
    tn_gru_result r = tn_gru(s, tn_transpose(s, x, 0, 1), h, weights(3, 1, 1, 0, list), 1, 1, 0, 0, 0, 1);
    EXPECT(s, r.result0, -0.4894844915604601, 0.968241875674851, -0.03836947327602547, 0.9104819531384466,
           0.3967537137761374, 0.6989332929908171, 0.5483076774168055, 0.1191568132255043,
           -0.7011196229024373, 0.6101081641305954, -0.5049705492885425, 0.9254860276397638);
    EXPECT(s, tn_rnn_tanh(s, x, h, weights(1, 1, 1, 0, list), 1, 1, 0, 0, 0, 0).result1, 0.9815430684651989,
           0.4316551028482736, 0.9988077703217672, 0.2911556460861983);
    EXPECT(s, tn_rnn_relu(s, x, h, weights(1, 1, 1, 0, list), 1, 1, 0, 0, 0, 0).result1, 3.785228357233108,
           0.6600530422702169, 4.966950522074891, 0.9360807667515147);
    end();
}

Test(rnn, packed_sequences)
{
    tn_tensor *list[8], *x = wave(0.2, TN_INTS(3, 2, 2)), *lengths = tn_to(s, VECTOR(s, 0, 3, 2), TN_INT64);
    tn__pack_padded_sequence_result p = tn__pack_padded_sequence(s, x, lengths, 0);
    EXPECT(s, tn_select(s, p.result0, 1, 0), 0.1986693307950612, 0.3349881501559047, -0.7727644875559871,
           0.9893582466233818, -0.9227754216128066);
    EXPECT(s, p.result1, 2, 2, 1);
    tn_gru_data_result r = tn_gru_data(s, p.result0, p.result1, wave(0.7, TN_INTS(2, 2, 2)),
                                       weights(3, 2, 1, 0, list), 1, 1, 0, 0, 1);
    EXPECT(s, tn_select(s, r.result0, 1, 0), -0.4894844915604601, 0.5483076774168055, -0.03836947327602547,
           -0.7011196229024373, 0.3967537137761374);
    EXPECT(s, tn_select(s, r.result0, 1, 3), -0.2299565741156799, 0.01353039424066871, 0.09015400583491195,
           -0.08839854192601571, 0.6243556232684446);
    EXPECT(s, r.result1, 0.3967537137761374, 0.6989332929908171, -0.7011196229024373, 0.6101081641305954,
           0.8296458035877619, -0.2299565741156799, 0.698418744400858, 0.01353039424066871);
    tn__pad_packed_sequence_result back = tn__pad_packed_sequence(s, p.result0, p.result1, 1, -1, 4);
    EXPECT(s, tn_select(s, back.result0, 2, 0), 0.1986693307950612, -0.7727644875559871, -0.9227754216128066,
           -1, 0.3349881501559047, 0.9893582466233818, -1, -1);
    EXPECT(s, back.result1, 3, 2);
    end();
}

/* The gradient of each element goes back to its place; that of padding is 0. */
Test(rnn, gradients_of_a_packed_sequence)
{
    tn_tensor *x = make(s, TN_INTS(3, 2, 2), VALUES(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), 1);
    tn_tensor *lengths = tn_to(s, VECTOR(s, 0, 3, 1), TN_INT64);
    tn__pack_padded_sequence_result p = tn__pack_padded_sequence(s, x, lengths, 0);
    EXPECT(s, p.result0, 0, 1, 2, 3, 4, 5, 8, 9);
    tn_backward(s,
                tn_sum(s, tn_mul(s, p.result0, make(s, TN_INTS(4, 2), VALUES(1, 2, 3, 4, 5, 6, 7, 8), 0))));
    EXPECT(s, tn_grad_of(s, x), 1, 2, 3, 4, 5, 6, 0, 0, 7, 8, 0, 0);
    end();
}

/* max(0, W x + U h + b), by hand. */
Test(rnn, a_cell_with_relu)
{
    tn_tensor *x = make(s, TN_INTS(1, 2), VALUES(1, -2), 0), *h = make(s, TN_INTS(1, 2), VALUES(0.5, 1), 0),
              *w = make(s, TN_INTS(2, 2), VALUES(1, 2, 3, -1), 0),
              *u = make(s, TN_INTS(2, 2), VALUES(0, 1, -1, 0), 0);
    EXPECT(s, tn_rnn_relu_cell(s, x, h, w, u), 0, 4.5);
    EXPECT(s, tn_rnn_relu_cell(s, x, h, w, u, .b_ih = VECTOR(s, 0, 1, 1), .b_hh = VECTOR(s, 0, 2, 0)), 1,
           5.5);
    end();
}

/* The gradients of a fused step in one dtype, on one device: of the gates, of the state, of the biases. */
static void fused_gradients(tn_dtype dtype, tn_device device, tn_tensor **out)
{
#define ON(t) tn__to_copy(s, t, .dtype = dtype, .device = device)
    tn_tensor *x = ON(wave(0.1, TN_INTS(3, 20))), *h = ON(wave(0.4, TN_INTS(3, 20))),
              *state = ON(wave(1, TN_INTS(3, 5)));
    tn__thnn_fused_lstm_cell_result r = tn__thnn_fused_lstm_cell(s, x, h, state);
    tn__thnn_fused_lstm_cell_backward_impl_result g =
        tn__thnn_fused_lstm_cell_backward_impl(s, r.result0, r.result1, state, r.result1, r.result2, 1);
    tn_tensor *x3 = tn_slice(s, x, .dim = 1, .end = 15), *h3 = tn_slice(s, h, .dim = 1, .start = 5);
    tn__thnn_fused_gru_cell_result q = tn__thnn_fused_gru_cell(s, x3, h3, state);
    tn__thnn_fused_gru_cell_backward_result k = tn__thnn_fused_gru_cell_backward(s, q.result0, q.result1, 1);
    tn_tensor *all[] = {r.result0, r.result1, g.result0, g.result1, g.result2, q.result0,
                        k.result0, k.result1, k.result2, k.result3, k.result4};
    for (int i = 0; i < 11; i++) out[i] = tn__to_copy(s, all[i], .dtype = TN_FLOAT64, .device = TN_CPU);
#undef ON
}

/* float64 on the reference device runs the composites, whose formulas are written on their own. */
Test(rnn, fused_steps_agree)
{
    static const struct {
        tn_dtype dtype;
        double tolerance;
    } kinds[] = {{TN_FLOAT64, 1e-13}, {TN_FLOAT32, 2e-6}, {TN_BFLOAT16, 0.03}, {TN_FLOAT16, 0.004}};
    tn_tensor *expected[11], *got[11];
    tn_set_fallback_policy(ctx, TN_FALLBACK_ERROR);
    fused_gradients(TN_FLOAT64, tn_device_parse(ctx, "reference:0"), expected);
    for (int i = 0; i < 4; i++) {
        fused_gradients(kinds[i].dtype, TN_CPU, got);
        for (int k = 0; k < 11; k++)
            EXPECT(s,
                   tn_allclose(s, got[k], expected[k], .rtol = kinds[i].tolerance, .atol = kinds[i].tolerance)
                       ? tn_ones(s, TN_INTS(1))
                       : NULL,
                   1);
    }
    end();
}

Test(rnn, refused)
{
    tn_tensor *list[4], *x = wave(0.2, TN_INTS(3, 2, 2)), *h = wave(0.7, TN_INTS(1, 2, 2));
    tn_gru(s, x, h, weights(3, 1, 1, 0, list), 1, 2, 0, 0, 0, 0);
    expect_error(s, "got an incorrect number of RNN parameters");
    weights(3, 1, 1, 0, list);
    tn_gru_cell(s, wave(0, TN_INTS(2, 3)), wave(0, TN_INTS(2, 2)), list[0], list[1]);
    expect_error(s, "input has inconsistent input_size: got 3 expected 2");
    tn_gru_cell(s, wave(0, TN_INTS(3, 2)), wave(0, TN_INTS(2, 2)), list[0], list[1]);
    expect_error(s, "Input batch size 3 doesn't match hidden hx batch size 2");
    tn__pack_padded_sequence(s, x, tn_to(s, VECTOR(s, 0, 2, 3), TN_INT64), 0);
    expect_error(s, "must be sorted in decreasing order");
    end();
}

Test(rnn, ctc_loss)
{
    tn_tensor *p = tn_log_softmax(s, wave(0.3, TN_INTS(5, 2, 4)), -1);
    tn_tensor *labels = tn_to(s, make(s, TN_INTS(2, 3), VALUES(1, 1, 2, 3, 2, 1), 0), TN_INT64);
    tn_ints rows = TN_INTS(5, 4), short_rows = TN_INTS(3, 4), lengths = TN_INTS(3, 2);
    EXPECT(s, tn_ctc_loss_intlist(s, p, labels, rows, lengths, .reduction = 0), 4.574271792058449,
           2.850833977705699);
    EXPECT(s, tn_ctc_loss_intlist(s, p, labels, rows, lengths), 1.475087126436166);
    EXPECT(s, tn_ctc_loss_intlist(s, p, labels, short_rows, lengths, .reduction = 0), INFINITY,
           2.850833977705699);
    EXPECT(s, tn_ctc_loss_intlist(s, p, labels, short_rows, lengths, .reduction = 0, .zero_infinity = 1), 0,
           2.850833977705699);
    EXPECT(s, tn_ctc_loss_intlist(s, p, labels, short_rows, TN_INTS(0, 2), .reduction = 0), 4.72313438033526,
           2.850833977705699);
    EXPECT(s,
           tn_ctc_loss(s, p, tn_to(s, VECTOR(s, 0, 1, 1, 2, 3, 2), TN_INT32),
                       tn_to(s, VECTOR(s, 0, 5, 4), TN_INT64), tn_to(s, VECTOR(s, 0, 3, 2), TN_INT64),
                       .reduction = 2),
           7.425105769764149);
    tn_set_requires_grad(p, 1);
    cr_assert_eq(tn_backward(s, tn_ctc_loss_intlist(s, p, labels, rows, lengths, .reduction = 2)), TN_OK);
    EXPECT(s, tn_select(s, tn_select(s, tn_grad_of(s, p), 0, 0), 0, 0), 0.04241488955411862,
           -0.3361059458942382, 0.2209387607086879, 0.07275229563143175);
    EXPECT(s, tn_select(s, tn_slice(s, tn_grad_of(s, p), .start = 3), 1, 1), 0.02834600101247155,
           0.2333996878780446, -0.4819973211233561, 0.2202516322328401, 0, 0, 0, 0);
    tn_ctc_loss_intlist(s, p, tn_add_scalar(s, labels, 3), rows, lengths);
    expect_error(s, "a label is out of range (expected 0 to 3)");
    tn_ctc_loss_intlist(s, p, labels, TN_INTS(6, 4), lengths);
    expect_error(s, "Expected input_lengths to have value at most 5, but got value 6");
    end();
}

Test(rnn, products_in_another_dtype)
{
    tn_tensor *a = tn_to(s, make(s, TN_INTS(1, 3), VALUES(127, -128, 100), 0), TN_INT8);
    EXPECT(s, tn__int_mm(s, a, tn_t(s, a)), 127 * 127 + 128 * 128 + 100 * 100);
    tn_tensor *half = tn_to(s, make(s, TN_INTS(1, 2), VALUES(300, 0.5), 0), TN_FLOAT16),
              *one = tn_ones(s, TN_INTS(1, 1));
    EXPECT(s, tn_mm_dtype(s, half, tn_t(s, half), TN_FLOAT32), 90000.25);
    EXPECT(s, tn_addmm_dtype(s, one, half, tn_t(s, half), TN_FLOAT32, .beta = TN_SCALAR(2)), 90002.25);
    tn_tensor *batch = tn_unsqueeze(s, half, 0);
    EXPECT(s, tn_bmm_dtype(s, batch, tn_transpose(s, batch, 1, 2), TN_FLOAT32), 90000.25);
    EXPECT(s,
           tn_baddbmm_dtype(s, one, batch, tn_transpose(s, batch, 1, 2), TN_FLOAT32, .alpha = TN_SCALAR(2)),
           180001.5);
    tn_mm_dtype(s, one, one, TN_FLOAT64);
    expect_error(s, "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs");
    EXPECT(s, tn_bernoulli_tensor(s, VECTOR(s, 0, 7, 7), VECTOR(s, 0, 0, 1)), 0, 1);
    end();
}
