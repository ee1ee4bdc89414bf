/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A language model of characters (Karpathy, "The Unreasonable Effectiveness of Recurrent Neural Networks", 2015): an LSTM
 * reads a text from its start to its end in LANES places at once, and keeps its states from one step to the next.
 *
 *     char_lstm TEXT [STEPS]
 */
#include <stdlib.h>
#include <tenon/data.h>
#include <tenon/optim.h>
#include <tenon/progress.h>

enum { VOCABULARY = 256, WIDTH = 256, LAYERS = 2, LANES = 16, LENGTH = 64 };

/* Tokens [LANES, T] and the states h and c [LAYERS, LANES, WIDTH], which become the new ones; returns logits. */
static tn_tensor *run(tn_scope *s, tn_module *net, tn_tensor *tokens, tn_tensor *h, tn_tensor *c)
{
    tn_tensor *x = tn_child_forward(s, net, "embedding", tokens);
    tn_outputs y = tn_child_call(s, net, "lstm", TN_TENSORS(x, tn_clone(s, h), tn_clone(s, c)));
    tn_copy_(s, h, tn_detach(s, y.more[0])); /* without its history */
    tn_copy_(s, c, tn_detach(s, y.more[1]));
    return tn_child_forward(s, net, "out", y.first);
}

/* Writes `count` characters that the model draws one after another. */
static int32_t write_text(tn_context *ctx, tn_module *net, int64_t count)
{
    int64_t token = '\n';
    tn_module_train(net, 0);
    TN_STEP_WITH (outer, ctx, .grad_mode = TN_GRAD_OFF) {
        tn_tensor *h = tn_zeros(outer, TN_INTS(LAYERS, 1, WIDTH)), *c = tn_zeros_like(outer, h);
        TN_STEPS (s, ctx, i, count) {
            tn_tensor *x = tn_full(s, TN_INTS(1, 1), token, .dtype = TN_INT64);
            tn_tensor *y = tn_div_scalar(s, tn_flatten(s, run(s, net, x, h, c)), 0.7);
            token = tn_item_int(s, tn_multinomial(s, tn_softmax(s, y, 0), 1));
            if (!tn_scope_failed(s)) putchar((int)token);
        }
    }
    putchar('\n');
    return tn_step_status();
}

TN_MAIN_ON_DEVICE(ctx, device, outer, argc, argv)
{
    if (argc < 2) return tn_usage("TEXT [STEPS]");
    int64_t steps = argc > 2 ? atoll(argv[2]) : 500;
    tn_manual_seed(ctx, 0);
    TN_AUTO(tn_module) net = tn_module_create(ctx, "char_lstm", NULL);
    tn_embedding_create(net, "embedding", VOCABULARY, WIDTH);
    tn_lstm_create(net, "lstm", WIDTH, WIDTH, .num_layers = LAYERS, .batch_first = 1);
    tn_linear_create(net, "out", WIDTH, VOCABULARY);
    TN_AUTO(tn_optimizer) o = tn_adam_create(net, .lr = 2e-3);
    tn_tensor *text = tn_raw_map(outer, argv[1], TN_UINT8, TN_INTS(-1), 0);
    int64_t columns = tn_tensor_numel(text) / LANES, at = 0;
    text = tn_view(outer, tn_narrow(outer, text, 0, 0, columns * LANES), TN_INTS(LANES, columns));
    text = tn_to_device(outer, text, device, TN_INT64); /* each row is a piece of the text */
    tn_tensor *h = tn_zeros(outer, TN_INTS(LAYERS, LANES, WIDTH)), *c = tn_zeros_like(outer, h);
    TN_AUTO(tn_progress) p =
        tn_progress_create("training", steps, .unit = "characters", .units_a_step = LANES * LENGTH);
    TN_STEPS (s, ctx, i, steps) {
        if (at + LENGTH >= columns) { /* from the start again, with empty states */
            at = 0;
            tn_zero_(s, h);
            tn_zero_(s, c);
        }
        tn_tensor *y = run(s, net, tn_narrow(s, text, 1, at, LENGTH), h, c);
        tn_tensor *next = tn_flatten(s, tn_narrow(s, text, 1, at + 1, LENGTH));
        tn_tensor *loss = tn_cross_entropy_loss(s, tn_flatten(s, y, .end_dim = 1), next);
        tn_backward(s, loss);
        tn_optimizer_step(s, o, .clip_norm = 1);
        tn_optimizer_zero_grad(o);
        at += LENGTH;
        if (tn_progress_step(p)) tn_progress_show(p, "loss %.4f", tn_item_double(s, loss));
    }
    TN_TRY(tn_step_status());
    return write_text(ctx, net, 300);
}
