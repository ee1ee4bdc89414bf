/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inference in a loop: goes on with each line of standard input, from the weights of the example `gpt2`. There are no modules:
 * the weights are the pages of the file, and a cache keeps the keys and values of the tokens so far, so that a new token costs
 * one row.
 *
 *     echo "The core" | decode gpt2.safetensors [BYTES]
 */
#include <stdlib.h>
#include <tenon/files.h>

enum { LENGTH = 128, WIDTH = 192, DEPTH = 4, HEADS = 6 };

typedef struct model {
    tn_named_tensors weights;
    tn_tensor *keys, *values; /* [DEPTH, 1, HEADS, LENGTH, WIDTH / HEADS] */
} model;

/* A weight of block i, or with i = -1 of the whole. */
static tn_tensor *weight(tn_scope *s, const model *m, int i, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "h.%d.%s", i, name);
    return tn_named_get(s, m->weights, i < 0 ? name : full);
}

#define LINEAR(x, i, name) \
    tn_linear(s, x, weight(s, m, i, name ".weight"), .bias = weight(s, m, i, name ".bias"))
#define NORM(x, i, name)                                                           \
    tn_layer_norm(s, x, TN_INTS(WIDTH), .weight = weight(s, m, i, name ".weight"), \
                  .bias = weight(s, m, i, name ".bias"))

/* Puts the row of the newest token into the cache of block i. Returns all so far. */
static tn_tensor *append(tn_scope *s, tn_tensor *cache, int i, tn_tensor *row, int64_t at)
{
    cache = tn_select(s, cache, 0, i);
    tn_copy_(s, tn_narrow(s, cache, 2, at, 1), tn_view(s, row, TN_INTS(1, HEADS, 1, -1)));
    return tn_narrow(s, cache, 2, 0, at + 1);
}

/* The logits [1, vocabulary] behind token number `at`. */
static tn_tensor *run(tn_scope *s, const model *m, int64_t token, int64_t at)
{
    tn_tensor *wte = weight(s, m, -1, "wte.weight"), *wpe = weight(s, m, -1, "wpe.weight");
    tn_tensor *x = tn_add(s, tn_narrow(s, wte, 0, token, 1), tn_narrow(s, wpe, 0, at, 1));
    for (int i = 0; i < DEPTH; i++) {
        tn_tensors part = tn_split(s, LINEAR(NORM(x, i, "ln_1"), i, "attn.c_attn"), WIDTH, .dim = 1);
        tn_tensor *q = tn_view(s, tn_list_at(part, 0), TN_INTS(1, HEADS, 1, -1));
        tn_tensor *k = append(s, m->keys, i, tn_list_at(part, 1), at);
        tn_tensor *v = append(s, m->values, i, tn_list_at(part, 2), at);
        tn_tensor *y = tn_reshape(s, tn_scaled_dot_product_attention(s, q, k, v), TN_INTS(1, WIDTH));
        x = tn_add(s, x, LINEAR(y, i, "attn.c_proj"));
        y = tn_gelu(s, LINEAR(NORM(x, i, "ln_2"), i, "mlp.c_fc"), .approximate = "tanh");
        x = tn_add(s, x, LINEAR(y, i, "mlp.c_proj"));
    }
    return tn_linear(s, NORM(x, -1, "ln_f"), wte);
}

/* Writes `count` bytes behind the prompt. */
static int32_t go_on(tn_context *ctx, const model *m, const char *prompt, int64_t count)
{
    int64_t given = (int64_t)strcspn(prompt, "\n"), last = given + count < LENGTH ? given + count : LENGTH;
    int64_t token = given ? (unsigned char)prompt[0] : '\n';
    fwrite(prompt, 1, (size_t)given, stdout);
    TN_STEPS (s, ctx, i, last - 1) {
        tn_tensor *chances = tn_softmax(s, tn_div_scalar(s, run(s, m, token, i), 0.8), 1);
        token = i + 1 < given ? (unsigned char)prompt[i + 1] : tn_item_int(s, tn_multinomial(s, chances, 1));
        if (i + 1 >= given && !tn_scope_failed(s)) putchar((int)token);
    }
    putchar('\n');
    return tn_step_status();
}

TN_MAIN(ctx, argc, argv)
{
    if (argc < 2) return tn_usage("WEIGHTS [BYTES]");
    int64_t count = argc > 2 ? atoll(argv[2]) : 100;
    char line[LENGTH];
    TN_AUTO(tn_file) file = NULL;
    TN_TRY(tn_file_open(ctx, argv[1], &file));
    tn_scope_options inference = {.size = sizeof inference, .grad_mode = TN_GRAD_INFERENCE};
    TN_AUTO(tn_scope) outer = tn_scope_open_with(ctx, &inference);
    tn_device device = tn_device_choose(ctx, NULL, NULL);
    model m = {.weights = tn_file_tensors_on(outer, file, device)};
    m.keys = tn_zeros(outer, TN_INTS(DEPTH, 1, HEADS, LENGTH, WIDTH / HEADS), .device = device);
    m.values = tn_zeros_like(outer, m.keys);
    TN_TRY(tn_scope_failed(outer));
    if (!fgets(line, sizeof line, stdin))
        return tn_scope_fail(NULL, TN_E_ARGUMENT, "standard input has no line");
    do TN_TRY(go_on(ctx, &m, line, count));
    while (fgets(line, sizeof line, stdin));
    return TN_OK;
}
