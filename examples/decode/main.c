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

#define GET(w, name)       tn_named_get(s, w, name)
#define LINEAR(x, w, name) tn_linear(s, x, GET(w, name ".weight"), .bias = GET(w, name ".bias"))
#define NORM(x, w, name) \
    tn_layer_norm(s, x, TN_INTS(WIDTH), .weight = GET(w, name ".weight"), .bias = GET(w, name ".bias"))

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
    tn_tensor *wte = GET(m->weights, "wte.weight"), *wpe = GET(m->weights, "wpe.weight");
    tn_tensor *x = tn_add(s, tn_narrow(s, wte, 0, token, 1), tn_narrow(s, wpe, 0, at, 1));
    for (int i = 0; i < DEPTH; i++) {
        tn_named_tensors block = tn_named_below(s, m->weights, tn_text(s, "h.%d", i));
        tn_tensors part = tn_split(s, LINEAR(NORM(x, block, "ln_1"), block, "attn.c_attn"), WIDTH, .dim = 1);
        tn_tensor *q = tn_view(s, tn_list_at(part, 0), TN_INTS(1, HEADS, 1, -1));
        tn_tensor *k = append(s, m->keys, i, tn_list_at(part, 1), at);
        tn_tensor *v = append(s, m->values, i, tn_list_at(part, 2), at);
        tn_tensor *y = tn_reshape(s, tn_scaled_dot_product_attention(s, q, k, v), TN_INTS(1, WIDTH));
        x = tn_add(s, x, LINEAR(y, block, "attn.c_proj"));
        y = tn_gelu(s, LINEAR(NORM(x, block, "ln_2"), block, "mlp.c_fc"), .approximate = "tanh");
        x = tn_add(s, x, LINEAR(y, block, "mlp.c_proj"));
    }
    return tn_linear(s, NORM(x, m->weights, "ln_f"), wte);
}

/* Writes `count` bytes behind the prompt, which ends with its line. */
static void go_on(tn_context *ctx, const model *m, const char *prompt, int64_t count)
{
    int64_t given = (int64_t)strcspn(prompt, "\n"), last = given + count < LENGTH ? given + count : LENGTH;
    int64_t token = (unsigned char)prompt[0];
    fwrite(prompt, 1, (size_t)given, stdout);
    TN_STEPS (s, ctx, i, last - 1) {
        tn_tensor *chances = tn_softmax(s, tn_div_scalar(s, run(s, m, token, i), 0.8), 1);
        token = i + 1 < given ? (unsigned char)prompt[i + 1] : tn_item_int(s, tn_multinomial(s, chances, 1));
        if (i + 1 >= given && !tn_scope_failed(s)) putchar((int)token);
    }
    putchar('\n');
}

TN_MAIN_ON_DEVICE(ctx, device, s, argc, argv)
{
    if (argc < 2) return tn_usage("WEIGHTS [BYTES]");
    char line[LENGTH];
    tn_set_grad_mode(TN_GRAD_INFERENCE);
    model m = {.weights = tn_file_load(s, argv[1])};
    m.keys = tn_zeros(s, TN_INTS(DEPTH, 1, HEADS, LENGTH, WIDTH / HEADS));
    m.values = tn_zeros_like(s, m.keys);
    while (!tn_step_status() && fgets(line, sizeof line, stdin))
        go_on(ctx, &m, line, argc > 2 ? atoll(argv[2]) : 100);
    return tn_step_status();
}
