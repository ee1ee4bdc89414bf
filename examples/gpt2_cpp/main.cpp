/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPT-2 (Radford et al. 2019) over the bytes of a text, in C++: trains on a file, and goes on with a prompt, keeping the keys and
 * values of the tokens so far.
 *
 *     gpt2_cpp train TEXT [STEPS]      gpt2_cpp write PROMPT [BYTES]
 */
#include <deque>
#include <fstream>
#include <iostream>
#include <iterator>
#include <tenon/progress.hpp>
#include <tenon/train.hpp>

using tenon::tensor;
namespace nn = tenon::nn;

constexpr int64_t vocabulary = 256, length = 128, width = 192, depth = 4, heads = 6, batch = 16;

struct block : nn::module {
    nn::layer ln_1 = nn::layer_norm(*this, "ln_1", TN_INTS(width)), c_attn = nn::linear(*this, "attn.c_attn", width, 3 * width),
              c_proj = nn::linear(*this, "attn.c_proj", width, width), ln_2 = nn::layer_norm(*this, "ln_2", TN_INTS(width)),
              c_fc = nn::linear(*this, "mlp.c_fc", width, 4 * width), out = nn::linear(*this, "mlp.c_proj", 4 * width, width);

    tensor keys, values; /* of the tokens so far, while it writes */

    block(const nn::layer &parent, const std::string &name) : module(parent, name, "Block") {}

    tensor forward(const tensor &x) override
    {
        auto part = tenon::split(c_attn(ln_1(x)), width, {.dim = 2});
        for (auto &t : part) t = tenon::transpose(tenon::view(t, TN_INTS(x.size(0), x.size(1), heads, width / heads)), 1, 2);
        if (keys) {
            part[1] = keys = tenon::cat(TN_TENSORS(keys, part[1]), {.dim = 2});
            part[2] = values = tenon::cat(TN_TENSORS(values, part[2]), {.dim = 2});
        }
        tensor y = tenon::scaled_dot_product_attention(part[0], part[1], part[2], {.is_causal = !keys});
        tensor z = x + c_proj(tenon::reshape(tenon::transpose(y, 1, 2), TN_INTS(x.size(0), x.size(1), width)));
        return z + out(tenon::gelu(c_fc(ln_2(z)), {.approximate = "tanh"}));
    }
};

struct gpt2 : nn::module {
    nn::layer wte = nn::embedding(*this, "wte", vocabulary, width), wpe = nn::embedding(*this, "wpe", length, width),
              h = nn::module_list(*this, "h");
    std::deque<block> blocks;
    nn::layer ln_f, head;

    gpt2(tn_context *ctx, tn_device device) : module(ctx, "gpt2", "GPT2")
    {
        for (int i = 0; i < depth; i++) blocks.emplace_back(h, std::to_string(i));
        ln_f = nn::layer_norm(*this, "ln_f", TN_INTS(width));
        head = nn::linear(*this, "head", width, vocabulary, {.bias = 0});
        head.set("weight", wte.get("weight"));
        tenon::scope s(ctx);
        for (auto &p : parameters())
            if (p.dim() > 1) tn_init_normal(s, p, 0, 0.02, nullptr);
        to(device);
    }

    tenon::tensors forward(const tenon::tensors &in) override
    {
        tensor x = wte(in[0]) + wpe(in[1]);
        for (auto &b : blocks) x = b(x);
        return {head(ln_f(x))};
    }
};

static std::vector<uint8_t> read(const char *path)
{
    std::ifstream file(path, std::ios::binary);
    std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    if (bytes.size() <= length) throw std::runtime_error(std::string(path) + " cannot be read or is too short");
    return bytes;
}

static void train(tn_context *ctx, tn_device device, gpt2 &model, const char *path, int64_t steps)
{
    tenon::scope outer(ctx);
    auto bytes = read(path);
    tensor text = tenon::from<uint8_t>({(int64_t)bytes.size()}, bytes).to_device(device);
    tensor window = tenon::arange(length + 1, {.dtype = TN_INT64, .device = device});
    auto kind = nn::adamw(1e-3);
    kind.options.decay_if = tn_rank_over_1;
    nn::optimizer o(model, kind);
    tenon::progress shown("training", steps, "tokens", batch * length);
    for (int64_t i = 0; i < steps; i++) {
        tenon::scope s;
        tensor from = tenon::randint((int64_t)bytes.size() - length, TN_INTS(batch, 1), {.dtype = TN_INT64, .device = device});
        tensor tokens = tenon::take(text, from + window).to(TN_INT64);
        tensor y = tenon::view(model(tenon::narrow(tokens, 1, 0, length), tenon::narrow(window, 0, 0, length)), TN_INTS(-1, vocabulary));
        tensor loss = tenon::cross_entropy_loss(y, tenon::reshape(tenon::narrow(tokens, 1, 1, length), TN_INTS(-1)));
        loss.backward();
        o.step(tn_lr_warm_up_cosine(i, 1e-3, steps / 10, steps), 1);
        if (shown.step()) shown.show("loss %.4f", loss.item<double>());
    }
    model.save("gpt2.safetensors");
}

static void write(tn_context *ctx, tn_device device, gpt2 &model, const std::string &prompt, int64_t count)
{
    tenon::scope outer(ctx);
    tenon::no_grad off;
    for (auto &b : model.blocks) b.keys = b.values = tenon::zeros(TN_INTS(1, heads, 0, width / heads), {.device = device});
    std::string text = prompt;
    for (int64_t i = 0; i < length && i + 1 < (int64_t)prompt.size() + count; i++) {
        tenon::scope s;
        tensor token = tenon::full(TN_INTS(1, 1), (unsigned char)text[i], {.dtype = TN_INT64, .device = device});
        tensor y = tenon::flatten(model(token, tenon::full(TN_INTS(1), i, {.dtype = TN_INT64, .device = device})));
        if (i + 1 == (int64_t)text.size()) text += (char)tenon::multinomial(tenon::softmax(y / 0.8, 0), 1).item<int>();
    }
    std::cout << text;
    std::cout << '\n';
}

int main(int argc, char **argv)
try {
    std::string verb = argc > 2 ? argv[1] : "";
    if ((verb != "train" && verb != "write") || !*argv[2]) return std::cerr << "usage: gpt2_cpp train TEXT [STEPS]\n       gpt2_cpp write PROMPT [BYTES]\n", 2;
    tenon::context ctx;
    ctx.manual_seed(0);
    gpt2 model(ctx, ctx.choose());
    int64_t count = argc > 3 ? std::stoll(argv[3]) : verb == "train" ? 300 : 100;
    if (verb == "train") return train(ctx, ctx.choose(), model, argv[2], count), 0;
    model.load("gpt2.safetensors");
    write(ctx, ctx.choose(), model, argv[2], count);
} catch (const std::exception &e) {
    std::cerr << "gpt2_cpp: " << e.what() << '\n';
    return 1;
}
