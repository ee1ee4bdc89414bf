/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPT-2 (Radford et al. 2019) over the bytes of a text. The example `decode` goes on with a prompt from the weights that this
 * one writes.
 *
 *     gpt2 TEXT [STEPS]
 */
#include <stdlib.h>
#include <tenon/data.h>
#include <tenon/optim.h>
#include <tenon/progress.h>

enum { VOCABULARY = 256, LENGTH = 128, WIDTH = 192, DEPTH = 4, HEADS = 6, BATCH = 16 };

/* ---- The model ----------------------------------------------------------------------------------------- */

/* [B, T, WIDTH] as [B, HEADS, T, WIDTH / HEADS] */
static tn_tensor *heads(tn_scope *s, tn_tensor *x)
{
    return tn_transpose(s, tn_unflatten(s, x, 2, TN_INTS(HEADS, WIDTH / HEADS)), 1, 2);
}

TN_MODULE_CLASS(Block, s, m, x)
{
    tn_tensor *y = tn_child_forward(s, m, "attn.c_attn", tn_child_forward(s, m, "ln_1", x));
    tn_tensors part = tn_split(s, y, WIDTH, .dim = 2);
    tn_tensor *q = heads(s, tn_list_at(part, 0)), *k = heads(s, tn_list_at(part, 1)),
              *v = heads(s, tn_list_at(part, 2));
    y = tn_scaled_dot_product_attention(s, q, k, v, .is_causal = 1);
    x = tn_add(s, x, tn_child_forward(s, m, "attn.c_proj", tn_flatten(s, tn_transpose(s, y, 1, 2), 2)));
    y = tn_child_forward(s, m, "mlp.c_fc", tn_child_forward(s, m, "ln_2", x));
    return tn_add(s, x, tn_child_forward(s, m, "mlp.c_proj", tn_gelu(s, y, .approximate = "tanh")));
}

static void block_create(tn_module *parent)
{
    tn_module *m = tn_module_add(parent, NULL, &Block);
    tn_layer_norm_create(m, "ln_1", TN_INTS(WIDTH));
    tn_linear_create(m, "attn.c_attn", WIDTH, 3 * WIDTH);
    tn_linear_create(m, "attn.c_proj", WIDTH, WIDTH);
    tn_layer_norm_create(m, "ln_2", TN_INTS(WIDTH));
    tn_linear_create(m, "mlp.c_fc", WIDTH, 4 * WIDTH);
    tn_linear_create(m, "mlp.c_proj", 4 * WIDTH, WIDTH);
}

/* Tokens [B, T]; returns logits [B, T, VOCABULARY]. */
TN_MODULE_CLASS(GPT2, s, m, tokens)
{
    tn_tensor *places = tn_arange(s, tn_tensor_size(tokens, 1), .device = tn_tensor_device(tokens));
    tn_tensor *x = tn_add(s, tn_child_forward(s, m, "wte", tokens), tn_child_forward(s, m, "wpe", places));
    return tn_child_forward(s, m, "head", tn_child_forward(s, m, "ln_f", tn_child_forward(s, m, "h", x)));
}

static tn_module *gpt2_create(tn_context *ctx)
{
    tn_module *m = tn_module_create(ctx, "gpt2", &GPT2);
    tn_embedding_create(m, "wte", VOCABULARY, WIDTH);
    tn_embedding_create(m, "wpe", LENGTH, WIDTH);
    tn_module *h = tn_module_add(m, "h", NULL);
    for (int i = 0; i < DEPTH; i++) block_create(h);
    tn_layer_norm_create(m, "ln_f", TN_INTS(WIDTH));
    tn_linear_create(m, "head", WIDTH, VOCABULARY, .bias = 0);
    tn_module_set_tensor(m, "head.weight", tn_module_tensor(m, "wte.weight")); /* one matrix for both */
    TN_STEP (s, ctx)
        TN_EACH (p, tn_module_parameters(s, m))
            if (tn_tensor_rank(p) > 1) tn_init_normal(s, p, 0, 0.02, NULL);
    return m;
}

/* ---- Training ------------------------------------------------------------------------------------------ */

TN_MAIN_ON_DEVICE(ctx, device, outer, argc, argv)
{
    if (argc < 2) return tn_usage("TEXT [STEPS]");
    int64_t steps = argc > 2 ? atoll(argv[2]) : 300;
    tn_manual_seed(ctx, 0);
    TN_AUTO(tn_module) net = gpt2_create(ctx);
    TN_AUTO(tn_optimizer) o =
        tn_adamw_create(net, .lr = 1e-3, .weight_decay = 0.1, .beta2 = 0.95, .decay_if = tn_rank_over_1);
    tn_tensor *text = tn_raw_map(outer, argv[1], TN_UINT8, TN_INTS(-1), 0);
    text = tn_to_device(outer, text, device, TN_UINT8);
    tn_tensor *window = tn_arange(outer, LENGTH + 1);
    double *losses = tn_scope_memory(outer, (uint64_t)steps * sizeof *losses);
    TN_AUTO(tn_progress) p =
        tn_progress_create("training", steps, .unit = "tokens", .units_a_step = BATCH * LENGTH);
    TN_STEPS (s, ctx, i, steps) {
        tn_tensor *from = tn_randint(s, tn_tensor_numel(text) - LENGTH, TN_INTS(BATCH, 1));
        tn_tensor *tokens = tn_to(s, tn_take(s, text, tn_add(s, from, window)), TN_INT64);
        tn_tensor *y = tn_module_forward(s, net, tn_narrow(s, tokens, 1, 0, LENGTH));
        tn_tensor *next = tn_flatten(s, tn_narrow(s, tokens, 1, 1, LENGTH));
        tn_tensor *loss = tn_cross_entropy_loss(s, tn_flatten(s, y, .end_dim = 1), next);
        tn_backward(s, loss);
        tn_optimizer_step(s, o, .clip_norm = 1, .lr = tn_lr_warm_up_cosine(i, 1e-3, steps / 10, steps));
        tn_optimizer_zero_grad(o);
        losses[i] = tn_item_double(s, loss);
        if (tn_progress_step(p)) tn_progress_show(p, "loss %.4f", losses[i]);
    }
    TN_TRY(tn_step_status());
    TN_TRY(tn_module_save(net, "gpt2.safetensors"));
    return tn_plot_svg("loss.svg", TN_SERIES({.y = losses, .count = steps, .smooth = 0.9}),
                       .x_label = "step");
}
