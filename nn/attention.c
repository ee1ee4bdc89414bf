/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-head attention and the layers of transformers. Tensors inside are [N, H, T, D]. */
#include "layers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

tn_tensor *nn_multihead_attention_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_transformer_layer_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
tn_tensor *nn_transformer_stack_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
void nn_multihead_attention_init(tn_scope *s, tn_module *m);
void nn_transformer_layer_init(tn_scope *s, tn_module *m);
void nn_transformer_stack_init(tn_scope *s, tn_module *m);
tn_tensor *nn_transformer_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
void nn_transformer_init(tn_scope *s, tn_module *m);

static tn_tensor *add_xavier(tn_scope *s, tn_module *m, const char *name, int64_t rows, int64_t columns)
{
    tn_tensor *t = tn_empty(s, TN_INTS(rows, columns));
    return tn_module_add_parameter(m, name, tn_init_xavier_uniform(s, t, 1, NULL));
}

void nn_multihead_attention_init(tn_scope *s, tn_module *m)
{
    const tn_multihead_attention_options *o = m->state;
    int64_t e = o->embed_dim, k = o->kdim ? o->kdim : e, v = o->vdim ? o->vdim : e;
    if (o->num_heads < 1 || e % o->num_heads) {
        nn_fail(m, TN_E_ARGUMENT,
                "MultiheadAttention '%s': num_heads: got %lld, which does not divide embed_dim %lld", m->name,
                (long long)o->num_heads, (long long)e);
        return;
    }
    if (k == e && v == e) {
        add_xavier(s, m, "in_proj_weight", 3 * e, e);
    } else {
        add_xavier(s, m, "q_proj_weight", e, e);
        add_xavier(s, m, "k_proj_weight", e, k);
        add_xavier(s, m, "v_proj_weight", e, v);
    }
    if (o->bias) tn_module_add_parameter(m, "in_proj_bias", tn_zeros(s, TN_INTS(3 * e)));
    for (int32_t i = 0; i < 2 && o->add_bias_kv; i++)
        tn_module_add_parameter(m, i ? "bias_v" : "bias_k",
                                tn_init_xavier_normal(s, tn_empty(s, TN_INTS(1, 1, e)), 1, NULL));
    tn_module *out = tn_linear_create(m, "out_proj", e, e, .bias = o->bias);
    if (out && o->bias) tn_init_constant(s, tn_module_tensor(out, "bias"), 0);
}

/* Part i of the projection of all three. */
static tn_tensor *project(tn_scope *s, const tn_module *m, tn_tensor *x, int64_t i)
{
    static const char *const names[] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    const tn_multihead_attention_options *o = m->state;
    int64_t e = o->embed_dim;
    tn_tensor *all = tn_module_tensor(m, "in_proj_weight"), *bias = tn_module_tensor(m, "in_proj_bias");
    tn_tensor *weight = all ? tn_narrow(s, all, 0, i * e, e) : tn_module_tensor(m, names[i]);
    return tn_linear(s, x, weight, .bias = bias ? tn_narrow(s, bias, 0, i * e, e) : NULL);
}

/* Keys (i = 1) and values (i = 2), [N, S, E], with those that options put behind them. */
static tn_tensor *extend(tn_scope *s, const tn_module *m, tn_tensor *x, int64_t i)
{
    const tn_multihead_attention_options *o = m->state;
    const int64_t n = tn_tensor_size(x, 0), e = o->embed_dim;
    if (o->add_bias_kv) {
        tn_tensor *bias = tn_module_tensor(m, i == 1 ? "bias_k" : "bias_v");
        x = tn_cat(s, TN_TENSORS(x, tn_expand(s, bias, TN_INTS(n, 1, e))), .dim = 1);
    }
    return o->add_zero_attn ? tn_cat(s, TN_TENSORS(x, tn_new_zeros(s, x, TN_INTS(n, 1, e))), .dim = 1) : x;
}

/* [N, T, E] -> [N, H, T, D] */
static tn_tensor *split_heads(tn_scope *s, tn_tensor *x, int64_t heads)
{
    int64_t d = tn_tensor_size(x, 2) / (heads ? heads : 1);
    return tn_transpose(s, tn_reshape(s, x, TN_INTS(tn_tensor_size(x, 0), tn_tensor_size(x, 1), heads, d)), 1,
                        2);
}

/* What is added to the scores: -inf where a bool mask is true, and 0 for `more` keys that it does not know. */
static tn_tensor *additive(tn_scope *s, tn_tensor *mask, tn_dtype dtype, int64_t more)
{
    if (tn_tensor_dtype(mask) != TN_BOOL && !tn_dtype_is_floating(tn_tensor_dtype(mask)))
        nn_scope_fail(s, TN_E_DTYPE,
                      "MultiheadAttention: masks are of bool or floating-point numbers, got %s",
                      tn_dtype_name(tn_tensor_dtype(mask)));
    if (tn_tensor_dtype(mask) == TN_BOOL)
        mask = tn_masked_fill_scalar(s, tn_zeros_like(s, mask, .dtype = dtype), mask, -INFINITY);
    return more ? tn_constant_pad_nd(s, mask, TN_INTS(0, more)) : mask;
}

/* Refuses a mask whose sizes are not these. */
static int32_t refuse_mask(tn_scope *s, const char *name, const tn_tensor *mask, tn_ints sizes)
{
    char got[96], want[96];
    uint64_t n = 0;
    if (tn_tensor_rank(mask) == sizes.count &&
        !memcmp(tn_tensor_sizes(mask), sizes.data, (size_t)sizes.count * sizeof *sizes.data))
        return TN_OK;
    for (int64_t d = 0; d < sizes.count; d++) /* at most 3 of them */
        n += (uint64_t)snprintf(want + n, sizeof want - n, "%s%lld", d ? ", " : "", (long long)sizes.data[d]);
    return nn_scope_fail(s, TN_E_SHAPE, "MultiheadAttention: %s: expected the sizes [%s], got %s", name, want,
                         nn_sizes(mask, got, sizeof got));
}

/* The same for both masks. Queries and keys are as the program gave them, of 2 or 3 dimensions. */
static int32_t refuse_masks(tn_scope *s, const tn_module *m, tn_tensors in)
{
    const tn_multihead_attention_options *o = m->state;
    const int32_t is_single = tn_tensor_rank(in.data[0]) == 2, at = !is_single && o->batch_first ? 1 : 0;
    const int64_t n = is_single ? 1 : tn_tensor_size(in.data[0], 1 - at), t = tn_tensor_size(in.data[0], at),
                  k = tn_tensor_size(in.data[1], at);
    const tn_tensor *padding = nn_input(in, 3), *mask = nn_input(in, 4);
    const tn_ints of_padding = is_single ? TN_INTS(k) : TN_INTS(n, k),
                  of_mask = tn_tensor_rank(mask) == 3 ? TN_INTS(n * o->num_heads, t, k) : TN_INTS(t, k);
    if (padding && refuse_mask(s, "key_padding_mask", padding, of_padding)) return tn_scope_failed(s);
    return mask ? refuse_mask(s, "attn_mask", mask, of_mask) : TN_OK;
}

/* Both masks together, to be broadcast over [N, H, T, S]; NULL: none. */
static tn_tensor *masks(tn_scope *s, const tn_module *m, tn_tensors in, tn_dtype dtype)
{
    const tn_multihead_attention_options *o = m->state;
    tn_tensor *padding = nn_input(in, 3), *mask = nn_input(in, 4);
    const int64_t heads = o->num_heads, more = (o->add_bias_kv != 0) + (o->add_zero_attn != 0);
    if (mask) {
        mask = additive(s, mask, dtype, more);
        if (tn_tensor_rank(mask) == 3) /* [N * H, T, S] */
            mask = tn_reshape(s, mask, TN_INTS(-1, heads, tn_tensor_size(mask, 1), tn_tensor_size(mask, 2)));
    }
    if (!padding) return mask;
    padding = additive(s, padding, dtype, more);
    padding = tn_reshape(s, padding, TN_INTS(-1, 1, 1, tn_tensor_size(padding, -1)));
    return mask ? tn_add(s, padding, mask) : padding;
}

/* Scores and their softmax in the open, for those who want to see them. */
static tn_tensor *attend(tn_scope *s, const tn_module *m, tn_tensor *q, tn_tensor *k, tn_tensor *v,
                         tn_tensor *mask, tn_tensor **weights)
{
    const tn_multihead_attention_options *o = m->state;
    double scale = 1 / sqrt((double)tn_tensor_size(q, 3));
    tn_tensor *scores = tn_matmul(s, tn_mul_scalar(s, q, scale), tn_transpose(s, k, 2, 3));
    if (mask) scores = tn_add(s, scores, mask);
    tn_tensor *p = tn_softmax(s, scores, -1);
    if (m->is_training && o->dropout > 0) p = tn_dropout(s, p, o->dropout, 1);
    *weights = tn_mean_dim(s, p, TN_INTS(1));
    return tn_matmul(s, p, v);
}

tn_tensor *nn_multihead_attention_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const tn_multihead_attention_options *o = m->state;
    tn_tensor *x[3] = {in.data[0], nn_input(in, 1), nn_input(in, 2)};
    int32_t is_single = tn_tensor_rank(x[0]) == 2, first = o->batch_first;
    tn_tensor *part[3];
    if (!x[1] || !x[2] || tn_tensor_rank(x[0]) < 2 || tn_tensor_rank(x[0]) > 3) {
        tn_scope_fail(s, TN_E_ARGUMENT,
                      "MultiheadAttention: query, key and value of 2 (no batch) or 3 dimensions");
        return NULL;
    }
    if (refuse_masks(s, m, in)) return NULL;
    for (int64_t i = 0; i < 3; i++) {
        part[i] = is_single ? tn_unsqueeze(s, x[i], 0) : first ? x[i] : tn_transpose(s, x[i], 0, 1);
        part[i] = project(s, m, part[i], i);
        if (i) part[i] = extend(s, m, part[i], i);
        part[i] = split_heads(s, part[i], o->num_heads);
    }
    tn_tensor *mask = masks(s, m, in, tn_tensor_dtype(part[0])), *y;
    if (o->need_weights)
        y = attend(s, m, part[0], part[1], part[2], mask, &more[0]);
    else
        y = tn_scaled_dot_product_attention(s, part[0], part[1], part[2], .attn_mask = mask,
                                            .dropout_p = m->is_training ? o->dropout : 0);
    y = tn_reshape(s, tn_transpose(s, y, 1, 2),
                   TN_INTS(tn_tensor_size(part[0], 0), tn_tensor_size(part[0], 2), o->embed_dim));
    y = tn_module_forward(s, tn_module_child(m, "out_proj"), y);
    if (is_single && o->need_weights) more[0] = tn_squeeze_dim(s, more[0], 0);
    return is_single ? tn_squeeze_dim(s, y, 0) : first ? y : tn_transpose(s, y, 0, 1);
}

/* ---- Transformer layers -------------------------------------------------------------------------------- */

static int32_t is_decoder(const tn_module *m)
{
    return !strncmp(m->class->name, "TransformerDecoder", 18);
}

/* The first fields of the options of a stack are those of a layer, with num_layers between. */
void nn_transformer_layer_init(tn_scope *s, tn_module *m)
{
    const tn_transformer_encoder_layer_options *o = m->state;
    int32_t decoder = is_decoder(m);
    (void)s;
    if (strcmp(o->activation, "relu") && strcmp(o->activation, "gelu"))
        nn_fail(m, TN_E_ARGUMENT, "%s '%s': activation: got '%.40s', expected 'relu' or 'gelu'",
                m->class->name, m->name, o->activation);
    tn_multihead_attention_create(m, "self_attn", o->d_model, o->nhead, .dropout = o->dropout,
                                  .bias = o->bias, .batch_first = o->batch_first);
    if (decoder)
        tn_multihead_attention_create(m, "multihead_attn", o->d_model, o->nhead, .dropout = o->dropout,
                                      .bias = o->bias, .batch_first = o->batch_first);
    tn_linear_create(m, "linear1", o->d_model, o->dim_feedforward, .bias = o->bias);
    tn_dropout_create(m, "dropout", .p = o->dropout);
    tn_linear_create(m, "linear2", o->dim_feedforward, o->d_model, .bias = o->bias);
    static const char *const norms[] = {"norm1", "norm2", "norm3"}, *const drops[] = {"dropout1", "dropout2",
                                                                                      "dropout3"};
    for (int32_t i = 0; i < 2 + decoder; i++)
        tn_layer_norm_create(m, norms[i], TN_INTS(o->d_model), .eps = o->layer_norm_eps, .bias = o->bias);
    for (int32_t i = 0; i < 2 + decoder; i++) tn_dropout_create(m, drops[i], .p = o->dropout);
}

static tn_tensor *run(tn_scope *s, const tn_module *m, const char *child, tn_tensor *x)
{
    return tn_module_forward(s, tn_module_child(m, child), x);
}

/* One block: attention of x to itself or to the memory, or the two linear layers. */
static tn_tensor *block(tn_scope *s, const tn_module *m, const char *name, tn_tensor *x, tn_tensor *memory,
                        tn_tensor *mask, tn_tensor *padding, const char *drop)
{
    const tn_transformer_encoder_layer_options *o = m->state;
    if (!name) {
        x = run(s, m, "linear1", x);
        x = !strcmp(o->activation, "gelu") ? tn_gelu(s, x) : tn_relu(s, x);
        x = run(s, m, "linear2", run(s, m, "dropout", x));
    } else {
        tn_tensor *other = memory ? memory : x;
        tn_tensor *inputs[] = {x, other, other, padding, mask};
        x = tn_module_call(s, tn_module_child(m, name), (tn_tensors){inputs, 5}).first;
    }
    return run(s, m, drop, x);
}

tn_tensor *nn_transformer_layer_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const tn_transformer_encoder_layer_options *o = m->state;
    int32_t decoder = is_decoder(m);
    tn_tensor *x = in.data[0], *memory = decoder ? nn_input(in, 1) : NULL;
    static const char *const norms[] = {"norm1", "norm2", "norm3"}, *const drops[] = {"dropout1", "dropout2",
                                                                                      "dropout3"};
    /* Encoder: x, mask, padding. Decoder: x, memory, mask, mask of the memory, padding, padding of the memory. */
    tn_tensor *mask = nn_input(in, decoder ? 2 : 1), *padding = nn_input(in, decoder ? 4 : 2);
    (void)more;
    if (decoder && !memory) {
        tn_scope_fail(s, TN_E_ARGUMENT, "TransformerDecoder: the second input, the memory, is missing");
        return NULL;
    }
    for (int32_t i = 0; i < 2 + decoder; i++) {
        int32_t cross = decoder && i == 1, feed = i == 1 + decoder;
        const char *name = feed ? NULL : cross ? "multihead_attn" : "self_attn";
        tn_tensor *y = o->norm_first ? run(s, m, norms[i], x) : x;
        y = block(s, m, name, y, cross ? memory : NULL, cross ? nn_input(in, 3) : mask,
                  cross ? nn_input(in, 5) : padding, drops[i]);
        x = tn_add(s, x, y);
        if (!o->norm_first) x = run(s, m, norms[i], x);
    }
    return x;
}

void nn_transformer_stack_init(tn_scope *s, tn_module *m)
{
    const tn_transformer_encoder_options *o = m->state;
    tn_module *layers = tn_module_list_create(m, "layers");
    (void)s;
    for (int64_t i = 0; i < o->num_layers; i++) {
        char name[24];
        snprintf(name, sizeof name, "%lld", (long long)i);
        const tn_transformer_encoder_layer_options e = {
            sizeof e,           0,          name,          o->d_model,        o->nhead,
            o->dim_feedforward, o->dropout, o->activation, o->layer_norm_eps, o->batch_first,
            o->norm_first,      o->bias};
        const tn_transformer_decoder_layer_options d = {
            sizeof d,           0,          name,          o->d_model,        o->nhead,
            o->dim_feedforward, o->dropout, o->activation, o->layer_norm_eps, o->batch_first,
            o->norm_first,      o->bias};
        if (is_decoder(m))
            tn_transformer_decoder_layer_create_with(layers, &d);
        else
            tn_transformer_encoder_layer_create_with(layers, &e);
    }
    if (o->norm)
        tn_layer_norm_create(m, "norm", TN_INTS(o->d_model), .eps = o->layer_norm_eps, .bias = o->bias);
}

tn_tensor *nn_transformer_stack_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const tn_module *layers = tn_module_child(m, "layers");
    tn_tensor *inputs[TN_MODULE_MAX_INPUTS];
    (void)more;
    memcpy(inputs, in.data, (size_t)in.count * sizeof *inputs);
    for (uint32_t i = 0; i < tn_module_child_count(layers) && inputs[0]; i++)
        inputs[0] = tn_module_call(s, tn_module_child_at(layers, i), (tn_tensors){inputs, in.count}).first;
    tn_module *norm = tn_module_child(m, "norm");
    return norm && inputs[0] ? tn_module_forward(s, norm, inputs[0]) : inputs[0];
}

/* ---- Both stacks ----------------------------------------------------------------------------------------- */

void nn_transformer_init(tn_scope *s, tn_module *m)
{
    const tn_transformer_options *o = m->state;
    (void)s;
    tn_transformer_encoder_create(
        m, "encoder", o->d_model, o->nhead, o->num_encoder_layers, .dim_feedforward = o->dim_feedforward,
        .dropout = o->dropout, .activation = o->activation, .layer_norm_eps = o->layer_norm_eps,
        .batch_first = o->batch_first, .norm_first = o->norm_first, .bias = o->bias, .norm = 1);
    tn_transformer_decoder_create(
        m, "decoder", o->d_model, o->nhead, o->num_decoder_layers, .dim_feedforward = o->dim_feedforward,
        .dropout = o->dropout, .activation = o->activation, .layer_norm_eps = o->layer_norm_eps,
        .batch_first = o->batch_first, .norm_first = o->norm_first, .bias = o->bias, .norm = 1);
    tn_named_tensors all = tn_module_tensors(s, m, TN_PARAMETERS);
    for (int64_t i = 0; i < all.count; i++)
        if (tn_tensor_rank(all.data[i].tensor) > 1) tn_init_xavier_uniform(s, all.data[i].tensor, 1, NULL);
}

tn_tensor *nn_transformer_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    (void)more;
    if (!nn_input(in, 1)) {
        tn_scope_fail(s, TN_E_ARGUMENT, "Transformer: the second input, the target, is missing");
        return NULL;
    }
    tn_tensor *const encoder[] = {in.data[0], nn_input(in, 2), nn_input(in, 5)};
    tn_tensor *memory = tn_module_call(s, tn_module_child(m, "encoder"), (tn_tensors){encoder, 3}).first;
    tn_tensor *const decoder[] = {in.data[1],      memory,          nn_input(in, 3),
                                  nn_input(in, 4), nn_input(in, 6), nn_input(in, 7)};
    return memory ? tn_module_call(s, tn_module_child(m, "decoder"), (tn_tensors){decoder, 6}).first : NULL;
}
