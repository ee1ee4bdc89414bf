/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPT-2 (Radford et al. 2019) over the bytes of a text, in C++. The example `decode` goes on with a prompt from the weights that
 * this one writes.
 *
 *     gpt2_cpp TEXT [STEPS]
 */
#include <tenon/progress.hpp>
#include <tenon/train.hpp>

using tenon::tensor;
namespace nn = tenon::nn;

constexpr int64_t vocabulary = 256, length = 128, width = 192, depth = 4, heads = 6, batch = 16;

/* [B, T, width] as [B, heads, T, width / heads] */
static tensor split_heads(const tensor &x)
{
    return tenon::transpose(tenon::unflatten(x, 2, TN_INTS(heads, width / heads)), 1, 2);
}

struct block : nn::module {
    nn::layer ln_1 = nn::layer_norm(*this, "ln_1", TN_INTS(width)), ln_2 = nn::layer_norm(*this, "ln_2", TN_INTS(width));
    nn::layer c_attn = nn::linear(*this, "attn.c_attn", width, 3 * width), proj = nn::linear(*this, "attn.c_proj", width, width);
    nn::layer c_fc = nn::linear(*this, "mlp.c_fc", width, 4 * width), out = nn::linear(*this, "mlp.c_proj", 4 * width, width);

    using module::module;

    tensor forward(const tensor &x) override
    {
        auto part = tenon::split(c_attn(ln_1(x)), width, {.dim = 2});
        for (auto &t : part) t = split_heads(t);
        tensor y = tenon::scaled_dot_product_attention(part[0], part[1], part[2], {.is_causal = 1});
        tensor z = x + proj(tenon::flatten(tenon::transpose(y, 1, 2), {.start_dim = 2}));
        return z + out(tenon::gelu(c_fc(ln_2(z)), {.approximate = "tanh"}));
    }
};

struct gpt2 : nn::module {
    nn::layer wte = nn::embedding(*this, "wte", vocabulary, width), wpe = nn::embedding(*this, "wpe", length, width);
    nn::repeated<block> h{*this, "h", depth};
    nn::layer ln_f = nn::layer_norm(*this, "ln_f", TN_INTS(width));
    nn::layer head = nn::linear(*this, "head", width, vocabulary, {.bias = 0});

    explicit gpt2(tn_context *ctx) : module(ctx, "gpt2", "GPT2")
    {
        head.set("weight", wte.get("weight")); /* one matrix for both */
        for (auto &p : parameters())
            if (p.dim() > 1) tn_init_normal(tenon::scope::current(), p, 0, 0.02, nullptr);
    }

    tensor forward(const tensor &tokens) override
    {
        return head(ln_f(h(wte(tokens) + wpe(tenon::arange(tokens.size(1), {.device = tokens.device()})))));
    }
};

static void train(const tenon::program &p)
{
    if (p.arguments.empty()) throw tenon::error(TN_E_ARGUMENT, "usage: TEXT [STEPS]");
    int64_t steps = p.arguments.size() > 1 ? std::stoll(p.arguments[1]) : 300;
    p.ctx.manual_seed(0);
    gpt2 net(p.ctx);
    nn::optimizer o(tn_adamw_create(net, {.lr = 1e-3, .weight_decay = 0.1, .beta2 = 0.95, .decay_if = tn_rank_over_1}));
    tensor text = tenon::raw_map(p.arguments[0], TN_UINT8, TN_INTS(-1)).to_device(p.device);
    tensor window = tenon::arange(length + 1);
    tenon::progress shown("training", steps, "tokens", batch * length);
    for (int64_t i = 0; i < steps; i++) {
        tenon::scope s;
        tensor from = tenon::randint(text.numel() - length, TN_INTS(batch, 1));
        tensor tokens = tenon::take(text, from + window).to(TN_INT64);
        tensor y = net(tenon::narrow(tokens, 1, 0, length));
        tensor next = tenon::flatten(tenon::narrow(tokens, 1, 1, length));
        tensor loss = tenon::cross_entropy_loss(tenon::flatten(y, {.end_dim = 1}), next);
        loss.backward();
        o.step(tn_lr_warm_up_cosine(i, 1e-3, steps / 10, steps), 1);
        if (shown.step()) shown.show("loss %.4f", loss.item<double>());
    }
    net.save("gpt2.safetensors");
}

int main(int argc, char **argv)
{
    return tenon::run(argc, argv, train);
}
