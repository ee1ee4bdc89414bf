/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training steps of whole models, and a language model that writes token after token. The members of a request:
 *
 *   "open"     the model
 *   "dtype"    "float32"; "bfloat16" (autocast in training, the weights themselves in decoding); "float64"
 *   "layout"   "channels_last": images and weights of convolutions
 *   "small"    true: small sizes, for comparing losses
 *   "weights"  a safetensors file that receives the initial weights, for the peer
 *
 * The case's value is the loss of the last step, or the largest logit of the last token. peer_models.py has the same
 * models with the same names and inputs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/nn.h>
#include <tenon/optim.h>
#include "bench.h"
#include "training.h"

/* Inputs: `length` tokens, pixels of a side, or elements of a row. */
typedef struct sizes {
    int64_t batch, length, width, depth, heads, classes;
} sizes;

typedef struct model {
    sizes full, small;
    void (*create)(tn_module *net, const sizes *z);
    tn_tensor *(*forward)(tn_scope *s, tn_module *net, tn_tensors in, tn_tensor **more); /* NULL: in order */
    uint32_t inputs;                                                                     /* enum inputs */
    int32_t is_decoding;
    uint32_t optimizer;
} model;

enum inputs { TOKENS, IMAGES, ROWS };

/* ---- Transformers ---------------------------------------------------------------------------------------- */

typedef struct block {
    tn_module *ln_1, *qkv, *proj, *ln_2, *fc, *out;
    int64_t heads;
    int32_t is_causal;
    const char *approximate;  /* of gelu */
    tn_tensor *keys, *values; /* of the tokens so far, in decoding; [1, heads, length, width / heads] */
    const int64_t *position;  /* of the token, in decoding */
} block;

static tn_tensor *split_heads(tn_scope *s, tn_tensor *x, int64_t heads)
{
    const int64_t *size = tn_tensor_sizes(x);
    return tn_transpose(s, tn_view(s, x, TN_INTS(size[0], size[1], heads, size[2] / heads)), 1, 2);
}

/* Keeps x as the newest in `cache`. Returns all so far. */
static tn_tensor *append(tn_scope *s, tn_tensor *cache, tn_tensor *x, int64_t position)
{
    tn_copy_(s, tn_narrow(s, cache, 2, position, 1), x);
    return tn_narrow(s, cache, 2, 0, position + 1);
}

static tn_tensor *attention(tn_scope *s, const block *b, tn_tensor *x)
{
    int64_t width = tn_tensor_sizes(x)[2];
    tn_tensors part = tn_split(s, tn_module_forward(s, b->qkv, x), width, .dim = 2);
    if (part.count != 3) return NULL;
    tn_tensor *q = split_heads(s, part.data[0], b->heads), *k = split_heads(s, part.data[1], b->heads),
              *v = split_heads(s, part.data[2], b->heads);
    if (b->keys) {
        k = append(s, b->keys, k, *b->position);
        v = append(s, b->values, v, *b->position);
    }
    tn_tensor *y = tn_scaled_dot_product_attention(s, q, k, v, .is_causal = b->is_causal && !b->keys);
    y = tn_reshape(s, tn_transpose(s, y, 1, 2), TN_INTS(tn_tensor_sizes(x)[0], tn_tensor_sizes(x)[1], width));
    return tn_module_forward(s, b->proj, y);
}

static tn_tensor *block_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const block *b = tn_module_state(m);
    tn_tensor *x = in.data[0], *y;
    (void)more;
    x = tn_add(s, x, attention(s, b, tn_module_forward(s, b->ln_1, x)));
    y = tn_gelu(s, tn_module_forward(s, b->fc, tn_module_forward(s, b->ln_2, x)),
                .approximate = b->approximate);
    return tn_add(s, x, tn_module_forward(s, b->out, y));
}

static void blocks_create(tn_module *net, const sizes *z, int32_t is_causal, const char *approximate)
{
    static const tn_module_class kind = {
        .size = sizeof kind, .name = "Block", .state_bytes = sizeof(block), .forward = block_forward};
    tn_module *list = tn_module_list_create(net, "h");
    char name[32];
    int64_t n = z->width;
    for (int64_t i = 0; i < z->depth; i++) {
        snprintf(name, sizeof name, "%d", (int)i);
        tn_module *m = tn_module_add(list, name, &kind);
        if (!m) return;
        *(block *)tn_module_state(m) = (block){.ln_1 = tn_layer_norm_create(m, "ln_1", TN_INTS(n)),
                                               .qkv = tn_linear_create(m, "qkv", n, 3 * n),
                                               .proj = tn_linear_create(m, "proj", n, n),
                                               .ln_2 = tn_layer_norm_create(m, "ln_2", TN_INTS(n)),
                                               .fc = tn_linear_create(m, "fc", n, 4 * n),
                                               .out = tn_linear_create(m, "out", 4 * n, n),
                                               .heads = z->heads,
                                               .is_causal = is_causal,
                                               .approximate = approximate};
    }
}

static tn_tensor *blocks_forward(tn_scope *s, tn_module *net, tn_tensor *x)
{
    const tn_module *list = tn_module_child(net, "h");
    for (uint32_t i = 0; i < tn_module_child_count(list); i++)
        x = tn_module_forward(s, tn_module_child_at(list, i), x);
    return tn_module_forward(s, tn_module_child(net, "ln_f"), x);
}

/* A parameter drawn from N(0, 0.02^2), of the dtype and on the device of `like`. */
static void parameter_create(tn_module *m, const char *name, tn_ints size, const tn_tensor *like)
{
    tn_scope *s = tn_scope_open(tn_module_context(m));
    tn_tensor *x = tn_empty(s, size, .dtype = tn_tensor_dtype(like), .device = tn_tensor_device(like));
    tn_module_add_parameter(m, name, tn_init_normal(s, x, 0, 0.02, NULL));
    if (tn_scope_failed(s)) tn_module_fail(m, tn_scope_failed(s), tn_scope_error(s)->message);
    tn_scope_close(s);
}

/* GPT-2 (Radford et al. 2019): the head shares the weights of the tokens' embedding. */
static void gpt2_create(tn_module *net, const sizes *z)
{
    tn_module *wte = tn_embedding_create(net, "wte", z->classes, z->width);
    tn_scope *s = tn_scope_open(tn_module_context(net));
    tn_init_normal(s, tn_module_tensor(net, "wte.weight"), 0, 0.02, NULL);
    tn_embedding_create(net, "wpe", 1024, z->width);
    tn_init_normal(s, tn_module_tensor(net, "wpe.weight"), 0, 0.02, NULL);
    blocks_create(net, z, 1, "tanh");
    tn_layer_norm_create(net, "ln_f", TN_INTS(z->width));
    tn_module *head = tn_linear_create(net, "head", z->width, z->classes, .bias = 0);
    tn_module_set_tensor(head, "weight", tn_module_tensor(wte, "weight"));
    tn_scope_close(s);
}

/* Tokens [B, T] and their positions [T]. */
static tn_tensor *gpt2_forward(tn_scope *s, tn_module *net, tn_tensors in, tn_tensor **more)
{
    tn_tensor *x = tn_add(s, tn_module_forward(s, tn_module_child(net, "wte"), in.data[0]),
                          tn_module_forward(s, tn_module_child(net, "wpe"), in.data[1]));
    (void)more;
    return tn_module_forward(s, tn_module_child(net, "head"), blocks_forward(s, net, x));
}

/* ViT (Dosovitskiy et al. 2021), patches of 16 x 16. */
static void vit_create(tn_module *net, const sizes *z)
{
    int64_t side = z->length / 16;
    tn_conv2d_create(net, "patch", 3, z->width, TN_INTS(16), .stride = TN_INTS(16));
    const tn_tensor *patch = tn_module_tensor(net, "patch.weight");
    parameter_create(net, "token", TN_INTS(1, 1, z->width), patch);
    parameter_create(net, "places", TN_INTS(1, 1 + side * side, z->width), patch);
    blocks_create(net, z, 0, "none");
    tn_layer_norm_create(net, "ln_f", TN_INTS(z->width));
    tn_linear_create(net, "head", z->width, z->classes);
}

static tn_tensor *vit_forward(tn_scope *s, tn_module *net, tn_tensors in, tn_tensor **more)
{
    tn_tensor *x = tn_module_forward(s, tn_module_child(net, "patch"), in.data[0]);
    (void)more;
    if (!x) return NULL;
    tn_tensor *token = tn_expand(s, tn_module_tensor(net, "token"), TN_INTS(tn_tensor_sizes(x)[0], -1, -1));
    x = tn_cat(s, TN_TENSORS(token, tn_transpose(s, tn_flatten(s, x, 2), 1, 2)), .dim = 1);
    x = blocks_forward(s, net, tn_add(s, x, tn_module_tensor(net, "places")));
    return tn_module_forward(s, tn_module_child(net, "head"), tn_select(s, x, 1, 0));
}

/* ---- Residual networks (He et al. 2016) --------------------------------------------------------------------- */

typedef struct residual {
    tn_module *conv[3], *norm[3], *down, *down_norm; /* down NULL: the identity */
} residual;

static tn_tensor *residual_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const residual *r = tn_module_state(m);
    tn_tensor *x = in.data[0], *y = x;
    (void)more;
    for (int i = 0; i < 3 && r->conv[i]; i++) {
        if (i) y = tn_relu(s, y);
        y = tn_module_forward(s, r->norm[i], tn_module_forward(s, r->conv[i], y));
    }
    if (r->down) x = tn_module_forward(s, r->down_norm, tn_module_forward(s, r->down, x));
    return tn_relu(s, tn_add(s, y, x));
}

/* A block of two 3x3 convolutions, or a bottleneck of 1x1, 3x3 and 1x1. Returns its number of output channels. */
static int64_t residual_create(tn_module *net, const char *name, int64_t in, int64_t width, int64_t stride,
                               int32_t is_bottleneck)
{
    static const tn_module_class kind = {.size = sizeof kind,
                                         .name = "Residual",
                                         .state_bytes = sizeof(residual),
                                         .forward = residual_forward};
    static const char *const convs[] = {"conv1", "conv2", "conv3"}, *const norms[] = {"bn1", "bn2", "bn3"};
    int64_t kernel[] = {is_bottleneck ? 1 : 3, 3, 1}, out[] = {width, width, 4 * width}, from = in;
    int count = is_bottleneck ? 3 : 2;
    tn_module *m = tn_module_add(net, name, &kind);
    residual *r = tn_module_state(m);
    for (int i = 0; i < count && r; i++) {
        r->conv[i] = tn_conv2d_create(m, convs[i], from, out[i], TN_INTS(kernel[i]), .bias = 0,
                                      .stride = TN_INTS(i == is_bottleneck ? stride : 1),
                                      .padding = TN_INTS(kernel[i] / 2));
        r->norm[i] = tn_batch_norm2d_create(m, norms[i], out[i]);
        from = out[i];
    }
    if (r && (stride != 1 || in != from)) {
        r->down = tn_conv2d_create(m, "down", in, from, TN_INTS(1), .bias = 0, .stride = TN_INTS(stride));
        r->down_norm = tn_batch_norm2d_create(m, "down_bn", from);
    }
    return from;
}

static void resnet_create(tn_module *net, const sizes *z)
{
    static const int64_t depths[3][4] = {{2, 2, 2, 2}, {3, 4, 6, 3}, {1, 1, 1, 1}};
    const int64_t *blocks = depths[z->depth == 18 ? 0 : z->depth == 50 ? 1 : 2];
    int32_t is_bottleneck = z->depth != 18;
    int64_t channels = z->width;
    char name[32];
    tn_conv2d_create(net, "conv1", 3, channels, TN_INTS(7), .bias = 0, .stride = TN_INTS(2),
                     .padding = TN_INTS(3));
    tn_batch_norm2d_create(net, "bn1", channels);
    tn_relu_create(net, "relu");
    tn_max_pool2d_create(net, "pool", TN_INTS(3), .stride = TN_INTS(2), .padding = TN_INTS(1));
    for (int stage = 0; stage < 4; stage++) {
        for (int i = 0; i < blocks[stage]; i++) {
            snprintf(name, sizeof name, "block%d_%d", stage, i);
            channels =
                residual_create(net, name, channels, z->width << stage, stage && !i ? 2 : 1, is_bottleneck);
        }
    }
    tn_adaptive_avg_pool2d_create(net, "mean", TN_INTS(1));
    tn_flatten_create(net, "flatten");
    tn_linear_create(net, "fc", channels, z->classes);
}

/* ---- A recurrent language model, a perceptron ------------------------------------------------------------------ */

static void lstm_create(tn_module *net, const sizes *z)
{
    tn_embedding_create(net, "embedding", z->classes, z->width);
    tn_lstm_create(net, "lstm", z->width, z->width, .num_layers = z->depth, .batch_first = 1);
    tn_linear_create(net, "head", z->width, z->classes);
}

static tn_tensor *lstm_forward(tn_scope *s, tn_module *net, tn_tensors in, tn_tensor **more)
{
    tn_tensor *x = tn_module_forward(s, tn_module_child(net, "embedding"), in.data[0]);
    (void)more;
    return tn_module_forward(s, tn_module_child(net, "head"),
                             tn_module_forward(s, tn_module_child(net, "lstm"), x));
}

static void mlp_create(tn_module *net, const sizes *z)
{
    tn_linear_create(net, "fc1", z->length, z->width);
    tn_relu_create(net, "relu1");
    tn_linear_create(net, "fc2", z->width, z->width);
    tn_relu_create(net, "relu2");
    tn_linear_create(net, "fc3", z->width, z->classes);
}

/* ---- Steps -------------------------------------------------------------------------------------------------- */

typedef struct training {
    const model *model;
    sizes z;
    tn_scope *s; /* owns the tensors below */
    tn_tensor *input, *positions, *labels;
    tn_dtype autocast; /* 0: none */
    tn_module *net;
    tn_optimizer *optimizer;
    int64_t token, position; /* in decoding */
} training;

static const char *request_text(const bench *b, const char *key)
{
    const cJSON *item = b->request ? cJSON_GetObjectItem(b->request, key) : NULL;
    return cJSON_IsString(item) ? item->valuestring : "";
}

/* Tokens and labels: 7919 i modulo their number; pixels: from -1 to 1 by the same rule. */
static int inputs_create(training *t, tn_dtype dtype, tn_device device)
{
    const sizes *z = &t->z;
    tn_scope *s = t->s;
    int64_t count = z->batch * z->length * (t->model->inputs == IMAGES ? 3 * z->length : 1),
            labels = t->model->inputs == TOKENS ? count : z->batch;
    int64_t *numbers = malloc((size_t)(count + 1) * sizeof *numbers);
    double *pixels = malloc((size_t)count * sizeof *pixels);
    for (int64_t i = 0; numbers && i <= count; i++) numbers[i] = 7919 * i % z->classes;
    for (int64_t i = 0; pixels && i < count; i++) pixels[i] = (double)(7919 * i % 1000) / 500 - 1;
    if (numbers && pixels) {
        if (t->model->inputs == TOKENS)
            t->input = tn_from_data(s, TN_INT64, TN_INTS(z->batch, z->length), numbers, device);
        else if (t->model->inputs == IMAGES)
            t->input =
                tn_from_data(s, TN_FLOAT64, TN_INTS(z->batch, 3, z->length, z->length), pixels, TN_CPU);
        else
            t->input = tn_from_data(s, TN_FLOAT64, TN_INTS(z->batch, z->length), pixels, TN_CPU);
        if (t->model->inputs != TOKENS) t->input = tn_to_device(s, t->input, device, dtype);
        t->labels = tn_from_data(s, TN_INT64, TN_INTS(labels), numbers + 1, device);
        t->positions = tn_arange(s, TN_SCALAR(z->length), .dtype = TN_INT64, .device = device);
    }
    free(pixels);
    free(numbers);
    return t->labels ? tn_scope_failed(s) : 1;
}

/* Weights of four dimensions in the channels-last layout. */
static void weights_channels_last(tn_module *m, void *user)
{
    tn_tensor *weight = tn_module_tensor(m, "weight");
    tn_scope *s =
        tn_scope_open_with(tn_module_context(m),
                           &(tn_scope_options){.size = sizeof(tn_scope_options), .grad_mode = TN_GRAD_OFF});
    (void)user;
    if (weight && tn_tensor_rank(weight) == 4)
        tn_module_set_tensor(m, "weight", tn_contiguous(s, weight, .memory_format = TN_CHANNELS_LAST));
    tn_scope_close(s);
}

/* Gives each block room for the keys and values of `length` tokens. */
static void caches_create(training *t, tn_dtype dtype, tn_device device)
{
    const tn_module *list = tn_module_child(t->net, "h");
    tn_ints size = TN_INTS(1, t->z.heads, t->z.length, t->z.width / t->z.heads);
    for (uint32_t i = 0; i < tn_module_child_count(list); i++) {
        block *b = tn_module_state(tn_module_child_at(list, i));
        b->keys = tn_zeros(t->s, size, .dtype = dtype, .device = device);
        b->values = tn_zeros(t->s, size, .dtype = dtype, .device = device);
        b->position = &t->position;
    }
}

static int net_create(bench *b, training *t, tn_dtype dtype)
{
    static tn_module_class kind = {.size = sizeof kind, .name = "Model"};
    int32_t is_low = dtype == TN_BFLOAT16;
    kind.forward = t->model->forward;
    tn_manual_seed(b->ctx, 1);
    t->net = tn_module_create(b->ctx, "model", kind.forward ? &kind : NULL);
    tn_module_to(t->net, b->device, is_low ? TN_FLOAT32 : dtype);
    t->model->create(t->net, &t->z);
    if (*request_text(b, "weights")) tn_module_save(t->net, request_text(b, "weights"));
    if (t->model->is_decoding) {
        tn_module_to(t->net, b->device, dtype);
        caches_create(t, dtype, b->device);
    } else if (is_low) {
        t->autocast = dtype;
    }
    if (!strcmp(request_text(b, "layout"), "channels_last")) {
        tn_module_apply(t->net, weights_channels_last, NULL);
        t->input = tn_contiguous(t->s, t->input, .memory_format = TN_CHANNELS_LAST);
    }
    if (!tn_module_failed(t->net)) return 0;
    return bench_absent(b, "%s", tn_module_error(t->net));
}

static int model_open(bench *b)
{
    const char *name = request_text(b, "dtype");
    tn_dtype dtype = !strcmp(name, "bfloat16")  ? TN_BFLOAT16
                     : !strcmp(name, "float64") ? TN_FLOAT64
                                                : TN_FLOAT32;
    training *t = bench_state(b, sizeof *t);
    if (!t) return 1;
    t->model = b->current->data;
    t->z = b->request && cJSON_IsTrue(cJSON_GetObjectItem(b->request, "small")) ? t->model->small
                                                                                : t->model->full;
    t->s = tn_scope_open(b->ctx);
    if (inputs_create(t, dtype == TN_BFLOAT16 ? TN_FLOAT32 : dtype, b->device)) return bench_failed(b, t->s);
    if (net_create(b, t, dtype)) return 1;
    if (tn_scope_failed(t->s)) return bench_failed(b, t->s);
    if (t->model->optimizer == TN_SGD)
        t->optimizer = tn_sgd_create(t->net, .lr = 1e-3, .momentum = 0.9);
    else
        t->optimizer = tn_adamw_create(t->net, .lr = 3e-4, .weight_decay = 0.1);
    return t->optimizer ? 0 : bench_failed(b, NULL);
}

static void model_close(bench *b)
{
    training *t = b->state;
    training_close(t->optimizer, t->net, t->s);
}

static tn_tensor *forward(training *t, tn_scope *s)
{
    tn_scope_options low = {
        .size = sizeof low, .autocast = TN_SCOPE_AUTOCAST_ON, .autocast_dtype = t->autocast};
    tn_tensors in = TN_TENSORS(t->input, t->positions);
    if (t->model->inputs != TOKENS) in.count = 1;
    if (!t->autocast) return tn_module_call(s, t->net, in).first;
    tn_scope *child = tn_scope_open_child(s, &low);
    tn_tensor *y = tn_module_call(child, t->net, in).first;
    if (y) y = tn_scope_return(child, y);
    return tn_scope_close(child) ? NULL : y;
}

static int train_run(bench *b, int64_t n)
{
    training *t = b->state;
    for (int64_t i = 0; i < n; i++) {
        TN_STEP (s, b->ctx) {
            tn_tensor *y = tn_reshape(s, forward(t, s), TN_INTS(-1, t->z.classes));
            if (t->autocast) y = tn_to(s, y, TN_FLOAT32);
            tn_tensor *loss = tn_cross_entropy_loss(s, y, t->labels);
            tn_backward(s, loss);
            tn_optimizer_step(s, t->optimizer);
            tn_optimizer_zero_grad(t->optimizer);
            b->value = tn_item_double(s, loss);
        }
        if (tn_step_status()) return bench_failed(b, NULL);
    }
    return 0;
}

/* The most probable token after the one before; begins again when the caches are full. */
static int decode_run(bench *b, int64_t n)
{
    static const tn_scope_options inference = {.size = sizeof inference, .grad_mode = TN_GRAD_INFERENCE};
    training *t = b->state;
    for (int64_t i = 0; i < n; i++) {
        tn_scope *s = tn_scope_open_with(b->ctx, &inference);
        tn_tensor *token = tn_from_data(s, TN_INT64, TN_INTS(1, 1), &t->token, b->device),
                  *place = tn_from_data(s, TN_INT64, TN_INTS(1), &t->position, b->device);
        tn_tensor *y = tn_module_forward(s, t->net, token, place);
        t->token = tn_item_int(s, tn_argmax(s, y));
        b->value = tn_item_double(s, tn_amax(s, y));
        t->position = (t->position + 1) % t->z.length;
        int status = tn_scope_failed(s) ? bench_failed(b, s) : 0;
        tn_scope_close(s);
        if (status) return status;
    }
    return 0;
}

int main(int argc, char **argv)
{
    /* batch, length, width, depth, heads, classes */
    static const model gpt2 = {
        {4, 64, 768, 12, 12, 50257}, {2, 8, 32, 2, 2, 101}, gpt2_create, gpt2_forward, TOKENS, 0, TN_ADAMW};
    static const model decode = {
        {1, 64, 768, 12, 12, 50257}, {1, 16, 32, 2, 2, 101}, gpt2_create, gpt2_forward, TOKENS, 1, TN_ADAMW};
    static const model resnet18 = {
        {16, 112, 64, 18, 0, 1000}, {2, 64, 8, 18, 0, 10}, resnet_create, NULL, IMAGES, 0, TN_SGD};
    /* The small form has one block in each stage: with 16 blocks a change of 1e-15 in the weights grows to 0.6 in ten steps. */
    static const model resnet50 = {
        {16, 112, 64, 50, 0, 1000}, {2, 64, 8, 14, 0, 10}, resnet_create, NULL, IMAGES, 0, TN_SGD};
    static const model lstm = {
        {20, 35, 512, 2, 0, 10000}, {2, 7, 16, 2, 0, 31}, lstm_create, lstm_forward, TOKENS, 0, TN_SGD};
    static const model vit = {
        {8, 224, 192, 12, 3, 1000}, {2, 32, 16, 2, 2, 10}, vit_create, vit_forward, IMAGES, 0, TN_ADAMW};
    static const model mlp = {
        {1, 784, 512, 2, 0, 10}, {1, 20, 16, 2, 0, 10}, mlp_create, NULL, ROWS, 0, TN_SGD};
    static const bench_case cases[] = {
        {"gpt2", model_open, train_run, model_close, &gpt2},
        {"gpt2_decode", model_open, decode_run, model_close, &decode},
        {"resnet18", model_open, train_run, model_close, &resnet18},
        {"resnet50", model_open, train_run, model_close, &resnet50},
        {"lstm", model_open, train_run, model_close, &lstm},
        {"vit", model_open, train_run, model_close, &vit},
        {"mlp", model_open, train_run, model_close, &mlp},
    };
    return bench_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
