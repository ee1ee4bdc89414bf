/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 3: parts of networks, forward and backward: convolutions of several geometries, attention,
 * normalisation, pooling, losses, and a step in mixed precision. Contents are multiples of 1/4, so
 * convolutions and products agree exactly or are wrong.
 */
#include "model.h"
#include "sources.h"

#include <string.h>

/* ---- Convolution --------------------------------------------------------------------------------------- */

typedef struct geometry {
    const char *name;
    uint32_t rank; /* of the picture: 1, 2 or 3 */
    int64_t input[5], weight[5];
    int64_t stride[3], padding[3], dilation[3], output_padding[3];
    int64_t groups;
    int transposed, bias, channels_last;
} geometry;

static const geometry geometries[] = {
    {"3x3", 2, {2, 3, 8, 9}, {4, 3, 3, 3}, {1, 1}, {0, 0}, {1, 1}, {0}, 1, 0, 1, 0},
    {"padded", 2, {2, 3, 8, 9}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 1, 0, 0, 0},
    {"strided", 2, {2, 3, 9, 8}, {4, 3, 3, 2}, {2, 3}, {1, 0}, {1, 1}, {0}, 1, 0, 1, 0},
    {"dilated", 2, {1, 3, 11, 9}, {5, 3, 3, 3}, {1, 1}, {2, 1}, {2, 3}, {0}, 1, 0, 1, 0},
    {"1x1", 2, {2, 6, 5, 7}, {8, 6, 1, 1}, {1, 1}, {0, 0}, {1, 1}, {0}, 1, 0, 1, 0},
    {"grouped", 2, {2, 6, 7, 7}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 2, 0, 1, 0},
    {"depthwise", 2, {2, 4, 7, 6}, {8, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 4, 0, 1, 0},
    {"channels-last", 2, {2, 3, 8, 9}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0}, 1, 0, 1, 1},
    {"transposed", 2, {2, 4, 5, 6}, {4, 3, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 0}, 1, 1, 1, 0},
    {"transposed-grouped", 2, {1, 4, 5, 5}, {4, 3, 2, 3}, {1, 2}, {0, 1}, {2, 1}, {0, 0}, 2, 1, 0, 0},
    {"1d", 1, {2, 3, 17}, {4, 3, 5}, {2}, {2}, {1}, {0}, 1, 0, 1, 0},
    {"3d", 3, {1, 2, 5, 6, 4}, {3, 2, 3, 2, 2}, {1, 2, 1}, {1, 0, 1}, {1, 1, 1}, {0}, 1, 0, 1, 0},
};

static tn_tensor *convolve(tn_scope *s, tn_tensor *const *in, const void *data)
{
    const geometry *g = data;
    return tn_convolution(s, in[0], in[1], g->bias ? in[2] : NULL, ((tn_ints){g->stride, g->rank}),
                          ((tn_ints){g->padding, g->rank}), ((tn_ints){g->dilation, g->rank}), g->transposed,
                          ((tn_ints){g->output_padding, g->rank}), g->groups);
}

static void set_picture(call_tensor *x, const geometry *g)
{
    int64_t c = g->input[1], h = g->input[2], w = g->input[3];
    call_shape(x, g->rank + 2, g->input);
    if (g->channels_last) memcpy(x->strides, (const int64_t[]){c * h * w, 1, w * c, c}, 32);
}

/* ---- Other models -------------------------------------------------------------------------------------- */

static tn_tensor *attention_of_products(tn_scope *s, tn_tensor *const *in, const void *data)
{
    tn_tensor *scores = tn_mul_scalar(s, tn_bmm(s, in[0], tn_transpose(s, in[1], 1, 2)), 0.25);
    return tn_bmm(s, tn_softmax(s, scores, -1), in[2]);
}

static tn_tensor *attention(tn_scope *s, tn_tensor *const *in, const void *data)
{
    return tn_scaled_dot_product_attention(s, in[0], in[1], in[2]);
}

static tn_tensor *attention_causal(tn_scope *s, tn_tensor *const *in, const void *data)
{
    return tn_scaled_dot_product_attention(s, in[0], in[1], in[2], .is_causal = 1);
}

static tn_tensor *layer_norm(tn_scope *s, tn_tensor *const *in, const void *data)
{
    return tn_layer_norm(s, in[0], TN_INTS(16), .weight = in[1], .bias = in[2]);
}

static tn_tensor *rms_norm(tn_scope *s, tn_tensor *const *in, const void *data)
{
    return tn_rms_norm(s, in[0], TN_INTS(16), .weight = in[1]);
}

static tn_tensor *batch_norm(tn_scope *s, tn_tensor *const *in, const void *data)
{
    return tn_batch_norm(s, in[0], in[1], in[2], NULL, NULL, 1, 0.1, 1e-5, 1);
}

static tn_tensor *batch_norm_fixed(tn_scope *s, tn_tensor *const *in, const void *data)
{
    tn_tensor *variance = tn_add_scalar(s, tn_mul(s, in[4], in[4]), tn_value_float(0.5));
    return tn_batch_norm(s, in[0], in[1], in[2], in[3], variance, 0, 0.1, 1e-5, 1);
}

static tn_tensor *group_norm(tn_scope *s, tn_tensor *const *in, const void *data)
{
    return tn_group_norm(s, in[0], 2, .weight = in[1], .bias = in[2]);
}

static tn_tensor *max_pool(tn_scope *s, tn_tensor *const *in, const void *data)
{
    return tn_max_pool2d(s, in[0], TN_INTS(2, 2));
}

static tn_tensor *average_pool(tn_scope *s, tn_tensor *const *in, const void *data)
{
    return tn_avg_pool2d(s, in[0], TN_INTS(2, 3), .stride = TN_INTS(2, 1), .padding = TN_INTS(1, 1));
}

static tn_tensor *activations(tn_scope *s, tn_tensor *const *in, const void *data)
{
    tn_tensor *y = tn_add(s, tn_gelu(s, in[0]), tn_silu(s, in[0]));
    return tn_mul(s, tn_add(s, y, tn_sigmoid(s, in[0])), tn_tanh(s, in[0]));
}

static tn_tensor *loss(tn_scope *s, tn_tensor *const *in, const void *data)
{
    return tn_cross_entropy_loss(s, in[0], tn_argmax(s, in[1], .dim = 1));
}

static tn_tensor *embedding(tn_scope *s, tn_tensor *const *in, const void *data)
{
    return tn_embedding(s, in[0], tn_argmax(s, in[1], .dim = 1));
}

/* Weights in float32, products in the low dtype, the loss in float32 again: a region of mixed precision. */
static tn_tensor *mixed(tn_scope *s, tn_tensor *const *in, const void *data)
{
    tn_scope_options options = {
        .size = sizeof options, .autocast = TN_SCOPE_AUTOCAST_ON, .autocast_dtype = *(const tn_dtype *)data};
    tn_scope *r = tn_scope_open_child(s, &options);
    tn_tensor *h = tn_mm(r, in[0], in[1]);
    tn_tensor *z = tn_mm(r, tn_maximum(r, h, tn_mul_scalar(r, h, 0.25)), in[2]);
    tn_tensor *loss = tn_mse_loss(r, z, tn_zeros_like(r, z));
    if (loss && (tn_tensor_dtype(z) != options.autocast_dtype || tn_tensor_dtype(loss) != TN_FLOAT32))
        tn_scope_fail(r, TN_E_DTYPE,
                      "mixed precision: the product or its loss is not of the dtype of its class");
    if (loss) tn_scope_return(r, loss);
    return tn_scope_close(r) ? NULL : loss;
}

typedef struct model {
    const char *name;
    model_fn function;
    uint32_t n_inputs, leaves;
    uint32_t ranks[5];
    int64_t sizes[5][4];
} model;

static const model models[] = {
    {"attention/products", attention_of_products, 3, 7, {3, 3, 3}, {{2, 5, 8}, {2, 7, 8}, {2, 7, 6}}},
    {"attention/fused", attention, 3, 7, {4, 4, 4}, {{2, 2, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 8}}},
    {"attention/causal", attention_causal, 3, 7, {4, 4, 4}, {{1, 2, 6, 8}, {1, 2, 6, 8}, {1, 2, 6, 8}}},
    {"norm/layer", layer_norm, 3, 7, {3, 1, 1}, {{3, 5, 16}, {16}, {16}}},
    {"norm/rms", rms_norm, 2, 3, {3, 1}, {{3, 5, 16}, {16}}},
    {"norm/batch", batch_norm, 3, 7, {4, 1, 1}, {{4, 3, 5, 5}, {3}, {3}}},
    {"norm/batch-fixed", batch_norm_fixed, 5, 7, {4, 1, 1, 1, 1}, {{4, 3, 5, 5}, {3}, {3}, {3}, {3}}},
    {"norm/group", group_norm, 3, 7, {4, 1, 1}, {{2, 6, 4, 5}, {6}, {6}}},
    {"pool/max", max_pool, 1, 1, {4}, {{2, 3, 6, 8}}},
    {"pool/average", average_pool, 1, 1, {4}, {{2, 3, 6, 8}}},
    {"activation", activations, 1, 1, {2}, {{9, 13}}},
    {"loss/cross-entropy", loss, 2, 1, {2, 2}, {{7, 5}, {7, 5}}},
    {"embedding", embedding, 2, 1, {2, 2}, {{5, 6}, {9, 5}}},
};

/* ---- Cases --------------------------------------------------------------------------------------------- */

/* For long chains of roundings in the low dtypes, and for float32 and float64 results of exp and sqrt. */
static check_tolerance loose(tn_dtype dtype)
{
    switch (dtype) {
    case TN_FLOAT64:
        return (check_tolerance){1e-9, 1e-9, 0};
    case TN_FLOAT32:
        return (check_tolerance){5e-5, 2e-5, 0};
    case TN_FLOAT16:
        return (check_tolerance){1e-2, 2e-2, 0};
    default:
        return (check_tolerance){5e-2, 1e-1, 0};
    }
}

typedef struct work {
    const geometry *geometry;
    const model *model;
    tn_dtype dtype;
} work;

static void contents(call_tensor *x, tn_dtype dtype, int coarse)
{
    *x = (call_tensor){.dtype = dtype, .low = -2, .high = 2, .step = coarse ? 0.25 : 0};
}

static void run_convolution(check_target *t, const check_case *c, check_result *out)
{
    const work *w = c->data;
    const geometry *g = w->geometry;
    model_plan p = {.name = g->name,
                    .function = convolve,
                    .data = g,
                    .n_inputs = g->bias ? 3 : 2,
                    .leaves = g->bias ? 7 : 3,
                    .seed = check_seed(t, c),
                    .tolerance = {.rtol = -1}};
    int64_t channels = g->transposed ? g->weight[1] * g->groups : g->weight[0];
    for (uint32_t i = 0; i < p.n_inputs; i++) contents(&p.inputs[i], w->dtype, 1);
    set_picture(&p.inputs[0], g);
    call_shape(&p.inputs[1], g->rank + 2, g->weight);
    call_shape(&p.inputs[2], 1, &channels);
    if (TN_DTYPE_BITS(w->dtype) == 16) p.tolerance = loose(w->dtype); /* a library may round in between */
    model_compare(t, &p, out);
}

static void run_model(check_target *t, const check_case *c, check_result *out)
{
    const work *w = c->data;
    const model *m = w->model;
    model_plan p = {.name = m->name,
                    .function = m->function,
                    .n_inputs = m->n_inputs,
                    .leaves = m->leaves,
                    .seed = check_seed(t, c),
                    .tolerance = loose(w->dtype)};
    for (uint32_t i = 0; i < m->n_inputs; i++) {
        contents(&p.inputs[i], w->dtype, 0);
        call_shape(&p.inputs[i], m->ranks[i], m->sizes[i]);
    }
    model_compare(t, &p, out);
}

static void run_mixed(check_target *t, const check_case *c, check_result *out)
{
    const work *w = c->data;
    model_plan p = {.name = "mixed",
                    .function = mixed,
                    .data = &w->dtype,
                    .n_inputs = 3,
                    .leaves = 6,
                    .seed = check_seed(t, c),
                    .tolerance = loose(w->dtype)};
    static const int64_t sizes[3][2] = {{12, 6}, {6, 10}, {10, 4}};
    for (uint32_t i = 0; i < 3; i++) {
        contents(&p.inputs[i], TN_FLOAT32, 1);
        p.inputs[i].low = -1;
        p.inputs[i].high = 1;
        call_shape(&p.inputs[i], 2, sizes[i]);
    }
    model_compare(t, &p, out);
}

static void add(check_list *list, check_fn run, const work *w, const char *family, const char *name)
{
    work *copy = check_memory(list, sizeof *copy);
    *copy = *w;
    check_add(list, &(check_case){.tier = 3, .tags = CHECK_TAG_GRADIENT, .run = run, .data = copy},
              "3/%s%s/%s", family, name, tn_dtype_name(w->dtype));
}

void check_tier3(check_target *t, check_list *list)
{
    static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT64, TN_FLOAT16, TN_BFLOAT16};
    int unknown = !t->facts.dtypes || !*t->facts.dtypes;
    for (size_t d = 0; d < 4; d++) {
        tn_dtype dtype = dtypes[d];
        if (unknown ? dtype != TN_FLOAT32 : !check_has_dtype(t, dtype)) continue;
        for (size_t i = 0; i < sizeof geometries / sizeof *geometries; i++)
            add(list, run_convolution, &(work){.geometry = &geometries[i], .dtype = dtype}, "convolution/",
                geometries[i].name);
        for (size_t i = 0; i < sizeof models / sizeof *models; i++)
            add(list, run_model, &(work){.model = &models[i], .dtype = dtype}, "", models[i].name);
        if (TN_DTYPE_BITS(dtype) == 16 && check_has_dtype(t, TN_FLOAT32))
            add(list, run_mixed, &(work){.dtype = dtype}, "", "mixed-precision/perceptron");
    }
}
