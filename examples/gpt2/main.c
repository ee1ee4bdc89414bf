/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPT-2 (Radford et al. 2019) over the bytes of a text: trains on a file, and goes on with a prompt, keeping the keys and
 * values of the tokens so far.
 *
 *     gpt2 train TEXT [STEPS]      gpt2 write PROMPT [BYTES]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/nn.h>
#include <tenon/optim.h>
#include <tenon/progress.h>

enum { VOCABULARY = 256, LENGTH = 128, WIDTH = 192, DEPTH = 4, HEADS = 6, BATCH = 16 };
#define WEIGHTS "gpt2.safetensors"

/* ---- The model ----------------------------------------------------------------------------------------- */

typedef struct block {
    tn_module *ln_1, *c_attn, *c_proj, *ln_2, *c_fc, *out;
    const struct gpt2 *model;
} block;

typedef struct gpt2 {
    tn_module *wte, *wpe, *h, *ln_f, *head;
    int64_t past; /* tokens whose keys and values are kept; -1: none are, as in training */
} gpt2;

static tn_tensor *heads(tn_scope *s, tn_tensor *x, tn_tensor *like)
{
    const int64_t *n = tn_tensor_sizes(like);
    return tn_transpose(s, tn_view(s, x, TN_INTS(n[0], n[1], HEADS, n[2] / HEADS)), 1, 2);
}

/* Puts the newest into the cache. Returns all so far. */
static tn_tensor *append(tn_scope *s, tn_module *m, const char *name, tn_tensor *x, int64_t past)
{
    tn_tensor *cache = tn_module_tensor(m, name);
    tn_copy_(s, tn_narrow(s, cache, 2, past, 1), x);
    return tn_narrow(s, cache, 2, 0, past + 1);
}

static tn_tensor *block_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    (void)more;
    const block *b = tn_module_state(m);
    tn_tensor *x = in.data[0];
    tn_tensors part =
        tn_split(s, tn_module_forward(s, b->c_attn, tn_module_forward(s, b->ln_1, x)), WIDTH, .dim = 2);
    if (part.count != 3) return NULL;
    tn_tensor *q = heads(s, part.data[0], x), *k = heads(s, part.data[1], x), *v = heads(s, part.data[2], x);
    int64_t past = b->model->past;
    if (past >= 0) {
        k = append(s, m, "keys", k, past);
        v = append(s, m, "values", v, past);
    }
    tn_tensor *y = tn_scaled_dot_product_attention(s, q, k, v, .is_causal = past < 0);
    x = tn_add(s, x,
               tn_module_forward(s, b->c_proj, tn_view_as(s, tn_contiguous(s, tn_transpose(s, y, 1, 2)), x)));
    y = tn_gelu(s, tn_module_forward(s, b->c_fc, tn_module_forward(s, b->ln_2, x)), .approximate = "tanh");
    return tn_add(s, x, tn_module_forward(s, b->out, y));
}

static void block_create(tn_module *h, int i, const gpt2 *model)
{
    static const tn_module_class kind = {
        .size = sizeof kind, .name = "Block", .state_bytes = sizeof(block), .forward = block_forward};
    char name[16];
    snprintf(name, sizeof name, "%d", i);
    tn_module *m = tn_module_add(h, name, &kind);
    if (!m) return;
    *(block *)tn_module_state(m) = (block){tn_layer_norm_create(m, "ln_1", TN_INTS(WIDTH)),
                                           tn_linear_create(m, "attn.c_attn", WIDTH, 3 * WIDTH),
                                           tn_linear_create(m, "attn.c_proj", WIDTH, WIDTH),
                                           tn_layer_norm_create(m, "ln_2", TN_INTS(WIDTH)),
                                           tn_linear_create(m, "mlp.c_fc", WIDTH, 4 * WIDTH),
                                           tn_linear_create(m, "mlp.c_proj", 4 * WIDTH, WIDTH),
                                           model};
}

/* Tokens [B, T] and their places [T]; returns logits [B, T, VOCABULARY]. */
static tn_tensor *gpt2_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    (void)more;
    const gpt2 *g = tn_module_state(m);
    tn_tensor *x =
        tn_add(s, tn_module_forward(s, g->wte, in.data[0]), tn_module_forward(s, g->wpe, in.data[1]));
    for (uint32_t i = 0; i < DEPTH; i++) x = tn_module_forward(s, tn_module_child_at(g->h, i), x);
    return tn_module_forward(s, g->head, tn_module_forward(s, g->ln_f, x));
}

static tn_module *gpt2_create(tn_context *ctx, tn_device device)
{
    static const tn_module_class kind = {
        .size = sizeof kind, .name = "GPT2", .state_bytes = sizeof(gpt2), .forward = gpt2_forward};
    tn_module *m = tn_module_create(ctx, "gpt2", &kind);
    gpt2 *g = m ? tn_module_state(m) : NULL;
    if (!m) return NULL;
    tn_module_to(m, device, 0);
    *g = (gpt2){tn_embedding_create(m, "wte", VOCABULARY, WIDTH),
                tn_embedding_create(m, "wpe", LENGTH, WIDTH),
                tn_module_list_create(m, "h"),
                NULL,
                NULL,
                -1};
    for (int i = 0; i < DEPTH; i++) block_create(g->h, i, g);
    g->ln_f = tn_layer_norm_create(m, "ln_f", TN_INTS(WIDTH));
    g->head = tn_linear_create(m, "head", WIDTH, VOCABULARY, .bias = 0);
    tn_module_set_tensor(g->head, "weight", tn_module_tensor(g->wte, "weight")); /* one matrix for both */
    TN_STEP(s, ctx)
    {
        tn_named_tensors all = tn_module_tensors(s, m, TN_PARAMETERS);
        for (int64_t i = 0; i < all.count; i++)
            if (tn_tensor_rank(all.data[i].tensor) > 1) tn_init_normal(s, all.data[i].tensor, 0, 0.02, NULL);
    }
    return m;
}

/* ---- Training ------------------------------------------------------------------------------------------ */

static int failed(const char *what)
{
    fprintf(stderr, "gpt2: %s: %s\n", what, tn_last_error() ? tn_last_error()->message : "unknown error");
    return 1;
}

/* The bytes of a file, uint8 on the device. NULL on failure. */
static tn_tensor *text_read(tn_scope *s, const char *path, tn_device device)
{
    FILE *f = fopen(path, "rb");
    tn_tensor *text = NULL;
    if (f && fseek(f, 0, SEEK_END) == 0 && ftell(f) > LENGTH + 1) {
        int64_t n = ftell(f);
        text = tn_empty(s, TN_INTS(n), .dtype = TN_UINT8);
        rewind(f);
        if (text && fread(tn_tensor_data(text), 1, (size_t)n, f) != (size_t)n) text = NULL;
    }
    if (f) fclose(f);
    return text ? tn_to_device(s, text, device, TN_UINT8) : NULL;
}

/* BATCH pieces of LENGTH + 1 tokens from anywhere in the text. */
static tn_tensor *batch(tn_scope *s, tn_tensor *text, tn_device device)
{
    tn_tensor *from =
        tn_randint(s, tn_tensor_numel(text) - LENGTH, TN_INTS(BATCH, 1), .dtype = TN_INT64, .device = device);
    tn_tensor *at = tn_add(s, from, tn_arange(s, LENGTH + 1, .dtype = TN_INT64, .device = device));
    return tn_to(s, tn_take(s, text, at), TN_INT64);
}

static int train(tn_context *ctx, tn_device device, tn_module *net, const char *path, int64_t steps)
{
    tn_scope *outer = tn_scope_open(ctx);
    tn_tensor *text = text_read(outer, path, device);
    double *losses = calloc((size_t)steps + 1, sizeof *losses);
    if (!text || !losses) return fprintf(stderr, "gpt2: '%s' cannot be read or is too short\n", path), 1;
    tn_tensor *places = tn_arange(outer, LENGTH, .dtype = TN_INT64, .device = device);
    tn_optimizer *o =
        tn_adamw_create(net, .lr = 1e-3, .weight_decay = 0.1, .beta2 = 0.95, .decay_if = tn_rank_over_1);
    tn_progress *p = tn_progress_create("training", steps, .unit = "tokens", .units_a_step = BATCH * LENGTH);
    for (int64_t i = 0; i < steps && o && !tn_step_status(); i++) TN_STEP(s, ctx)
        {
            tn_tensor *tokens = batch(s, text, device);
            tn_tensor *y = tn_module_forward(s, net, tn_narrow(s, tokens, 1, 0, LENGTH), places);
            tn_tensor *next = tn_reshape(s, tn_narrow(s, tokens, 1, 1, LENGTH), TN_INTS(-1));
            tn_tensor *loss = tn_cross_entropy_loss(s, tn_view(s, y, TN_INTS(-1, VOCABULARY)), next);
            tn_backward(s, loss);
            tn_optimizer_step(s, o, .clip_norm = 1, .lr = tn_lr_warm_up_cosine(i, 1e-3, steps / 10, steps));
            tn_optimizer_zero_grad(o);
            losses[i] = tn_item_double(s, loss);
            if (tn_progress_step(p)) tn_progress_show(p, "loss %.4f", losses[i]);
        }
    int status = !o || tn_step_status() ? failed("training") : 0;
    tn_progress_destroy(p);
    tn_optimizer_destroy(o);
    if (!status && tn_module_save(net, WEIGHTS)) status = failed(WEIGHTS);
    if (!status && tn_plot_svg("loss.svg", TN_SERIES({.y = losses, .count = steps, .smooth = 0.9}),
                               .title = "loss", .x_label = "step"))
        status = failed("loss.svg");
    if (!status) puts("wrote " WEIGHTS " and loss.svg");
    free(losses);
    tn_scope_close(outer);
    return status;
}

/* ---- Writing ------------------------------------------------------------------------------------------- */

/* Runs one token, whose keys and values the blocks keep, and draws the next one. */
static int64_t next_token(tn_scope *s, tn_module *net, int64_t token, tn_device device)
{
    gpt2 *g = tn_module_state(net);
    tn_tensor *x = tn_full(s, TN_INTS(1, 1), token, .dtype = TN_INT64, .device = device);
    tn_tensor *place = tn_full(s, TN_INTS(1), g->past, .dtype = TN_INT64, .device = device);
    tn_tensor *y = tn_view(s, tn_module_forward(s, net, x, place), TN_INTS(VOCABULARY));
    g->past++;
    return tn_item_int(s, tn_multinomial(s, tn_softmax(s, tn_div_scalar(s, y, 0.8), 0), 1));
}

static int write_on(tn_context *ctx, tn_device device, tn_module *net, const char *prompt, int64_t count)
{
    static const tn_scope_options no_grad = {.size = sizeof no_grad, .grad_mode = TN_GRAD_OFF};
    gpt2 *g = tn_module_state(net);
    int64_t given = (int64_t)strlen(prompt), token = '\n';
    tn_scope *outer = tn_scope_open_with(ctx, &no_grad);
    for (uint32_t i = 0; i < DEPTH; i++) {
        tn_module *b = tn_module_child_at(g->h, i);
        for (int k = 0; k < 2; k++)
            tn_module_add_buffer(b, k ? "values" : "keys",
                                 tn_zeros(outer, TN_INTS(1, HEADS, LENGTH, WIDTH / HEADS), .device = device),
                                 TN_BUFFER_NOT_PERSISTENT);
    }
    tn_module_train(net, 0);
    fputs(prompt, stdout);
    g->past = 0;
    for (int64_t i = 0; i < given + count && g->past < LENGTH && !tn_scope_failed(outer); i++) {
        tn_scope *s = tn_scope_open_child(outer, &no_grad);
        int64_t next = next_token(s, net, i < given ? (unsigned char)prompt[i] : token, device);
        if (!tn_scope_close(s) && i + 1 >= given) putchar((int)(token = next));
    }
    putchar('\n');
    return tn_scope_close(outer) ? failed("writing") : 0;
}

int main(int argc, char **argv)
{
    int is_training = argc >= 3 && strcmp(argv[1], "train") == 0,
        is_writing = argc >= 3 && strcmp(argv[1], "write") == 0;
    int64_t count = argc > 3 ? atoll(argv[3]) : is_training ? 300 : 100;
    tn_context *ctx;
    if ((!is_training && !is_writing) || count <= 0)
        return fputs("usage: gpt2 train TEXT [STEPS]\n       gpt2 write PROMPT [BYTES]\n", stderr), 2;
    if (tn_context_create(NULL, &ctx)) return failed("context");
    tn_device device = tn_device_choose(ctx, NULL, NULL);
    tn_manual_seed(ctx, 0);
    tn_module *net = gpt2_create(ctx, device);
    int status = !net || tn_module_failed(net) || tn_step_status();
    if (status)
        fprintf(stderr, "gpt2: model: %s\n",
                net && tn_module_failed(net) ? tn_module_error(net) : tn_last_error()->message);
    if (!status && is_training) status = train(ctx, device, net, argv[2], count);
    if (!status && is_writing)
        status = tn_module_load(net, WEIGHTS, TN_STRICT) ? failed(WEIGHTS)
                                                         : write_on(ctx, device, net, argv[2], count);
    tn_module_destroy(net);
    tn_context_destroy(ctx);
    return status;
}
