/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A language model of characters (Karpathy, "The Unreasonable Effectiveness of Recurrent Neural Networks", 2015): an LSTM
 * reads a text from its start to its end in LANES places at once, and keeps its states from one step to the next.
 *
 *     char_lstm TEXT [STEPS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/nn.h>
#include <tenon/optim.h>
#include <tenon/progress.h>

enum { VOCABULARY = 256, WIDTH = 256, LAYERS = 2, LANES = 16, LENGTH = 64 };

/* ---- The model: embedding, LSTM, linear ---------------------------------------------------------------- */

typedef struct model {
    tn_module *embedding, *lstm, *out;
} model;

/* Tokens [LANES, T] and the states h and c [LAYERS, LANES, WIDTH]; returns logits and the new states. */
static tn_tensor *model_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const model *l = tn_module_state(m);
    tn_outputs y = tn_module_call(
        s, l->lstm, TN_TENSORS(tn_module_forward(s, l->embedding, in.data[0]), in.data[1], in.data[2]));
    more[0] = y.more[0];
    more[1] = y.more[1];
    return tn_module_forward(s, l->out, y.first);
}

static tn_module *model_create(tn_context *ctx, tn_device device)
{
    static const tn_module_class kind = {
        .size = sizeof kind, .name = "CharLSTM", .state_bytes = sizeof(model), .forward = model_forward};
    tn_module *m = tn_module_create(ctx, "char_lstm", &kind);
    if (!m) return NULL;
    tn_module_to(m, device, 0);
    *(model *)tn_module_state(m) =
        (model){tn_embedding_create(m, "embedding", VOCABULARY, WIDTH),
                tn_lstm_create(m, "lstm", WIDTH, WIDTH, .num_layers = LAYERS, .batch_first = 1),
                tn_linear_create(m, "out", WIDTH, VOCABULARY)};
    return m;
}

/* ---- The text ------------------------------------------------------------------------------------------ */

static int failed(const char *what)
{
    fprintf(stderr, "char_lstm: %s: %s\n", what,
            tn_last_error() ? tn_last_error()->message : "unknown error");
    return 1;
}

/* The file as [LANES, n]: each row is a piece of the text. NULL on failure. */
static tn_tensor *text_read(tn_scope *s, const char *path, tn_device device)
{
    FILE *f = fopen(path, "rb");
    tn_tensor *text = NULL;
    int64_t n = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) / LANES : 0;
    if (n > LENGTH) {
        text = tn_empty(s, TN_INTS(LANES, n), .dtype = TN_UINT8);
        rewind(f);
        if (text && fread(tn_tensor_data(text), LANES, (size_t)n, f) != (size_t)n) text = NULL;
    }
    if (f) fclose(f);
    return text ? tn_to_device(s, text, device, TN_INT64) : NULL;
}

/* ---- Training ------------------------------------------------------------------------------------------ */

/* The tensor without its history, kept beyond the step. */
static void keep(tn_scope *s, tn_tensor **place, tn_tensor *t)
{
    if (*place) tn_release(*place);
    *place = t ? tn_retain(tn_detach(s, t)) : NULL;
}

static int train(tn_context *ctx, tn_device device, tn_module *net, tn_tensor *text, int64_t steps)
{
    tn_tensor *h = NULL, *c = NULL;
    int64_t columns = tn_tensor_sizes(text)[1] - 1, at = 0;
    double average = 0;
    tn_optimizer *o = tn_adam_create(net, .lr = 2e-3);
    tn_progress *p =
        tn_progress_create("training", steps, .unit = "characters", .units_a_step = LANES * LENGTH);
    for (int64_t i = 0; i < steps && o && !tn_step_status(); i++) TN_STEP(s, ctx)
        {
            if (at + LENGTH > columns ||
                !h) { /* at the text's end: from its start again, with empty states */
                at = 0;
                keep(s, &h, tn_zeros(s, TN_INTS(LAYERS, LANES, WIDTH), .device = device));
                keep(s, &c, tn_zeros(s, TN_INTS(LAYERS, LANES, WIDTH), .device = device));
            }
            tn_outputs y = tn_module_call(s, net, TN_TENSORS(tn_narrow(s, text, 1, at, LENGTH), h, c));
            tn_tensor *next = tn_reshape(s, tn_narrow(s, text, 1, at + 1, LENGTH), TN_INTS(-1));
            tn_tensor *loss = tn_cross_entropy_loss(s, tn_reshape(s, y.first, TN_INTS(-1, VOCABULARY)), next);
            tn_backward(s, loss);
            tn_optimizer_step(s, o, .clip_norm = 1);
            tn_optimizer_zero_grad(o);
            keep(s, &h, y.more[0]);
            keep(s, &c, y.more[1]);
            at += LENGTH;
            double now = tn_item_double(s, loss);
            average = i ? 0.95 * average + 0.05 * now : now;
            if (tn_progress_step(p)) tn_progress_show(p, "loss %.4f", average);
        }
    int status = !o || tn_step_status() ? failed("training") : 0;
    tn_progress_destroy(p);
    tn_optimizer_destroy(o);
    if (h) tn_release(h);
    if (c) tn_release(c);
    return status;
}

/* Writes `count` characters that the model draws one after another. */
static int write_text(tn_context *ctx, tn_device device, tn_module *net, int64_t count)
{
    static const tn_scope_options no_grad = {.size = sizeof no_grad, .grad_mode = TN_GRAD_OFF};
    tn_scope *outer = tn_scope_open_with(ctx, &no_grad);
    tn_tensor *h = NULL, *c = NULL;
    int64_t token = '\n';
    keep(outer, &h, tn_zeros(outer, TN_INTS(LAYERS, 1, WIDTH), .device = device));
    keep(outer, &c, tn_zeros(outer, TN_INTS(LAYERS, 1, WIDTH), .device = device));
    tn_module_train(net, 0);
    for (int64_t i = 0; i < count && !tn_scope_failed(outer); i++) {
        tn_scope *s = tn_scope_open_child(outer, &no_grad);
        tn_outputs y = tn_module_call(
            s, net, TN_TENSORS(tn_full(s, TN_INTS(1, 1), token, .dtype = TN_INT64, .device = device), h, c));
        tn_tensor *share =
            tn_softmax(s, tn_div_scalar(s, tn_reshape(s, y.first, TN_INTS(VOCABULARY)), 0.7), 0);
        token = tn_item_int(s, tn_multinomial(s, share, 1));
        keep(s, &h, y.more[0]);
        keep(s, &c, y.more[1]);
        if (!tn_scope_close(s)) putchar((int)token);
    }
    putchar('\n');
    if (h) tn_release(h);
    if (c) tn_release(c);
    return tn_scope_close(outer) ? failed("writing") : 0;
}

int main(int argc, char **argv)
{
    int64_t steps = argc > 2 ? atoll(argv[2]) : 500;
    tn_context *ctx;
    if (argc < 2 || steps <= 0) return fputs("usage: char_lstm TEXT [STEPS]\n", stderr), 2;
    if (tn_context_create(NULL, &ctx)) return failed("context");
    tn_device device = tn_device_choose(ctx, NULL, NULL);
    tn_manual_seed(ctx, 0);
    tn_scope *s = tn_scope_open(ctx);
    tn_module *net = model_create(ctx, device);
    tn_tensor *text = text_read(s, argv[1], device);
    int status = !net || tn_module_failed(net) || !text;
    if (!text)
        fprintf(stderr, "char_lstm: '%s' cannot be read, or has less than %d characters\n", argv[1],
                LANES * (LENGTH + 1));
    else if (status)
        fprintf(stderr, "char_lstm: model: %s\n", net ? tn_module_error(net) : "no memory");
    if (!status) status = train(ctx, device, net, text, steps);
    if (!status) status = write_text(ctx, device, net, 300);
    tn_scope_close(s);
    tn_module_destroy(net);
    tn_context_destroy(ctx);
    return status;
}
