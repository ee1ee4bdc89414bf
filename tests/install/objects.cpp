// SPDX-License-Identifier: Apache-2.0
/* tenon.hpp and train.hpp: objects, operators, exceptions, modules as classes. Values are worked out by hand. */
#include <cstdio>
#include <sstream>
#include <tenon/progress.hpp>
#include <tenon/train.hpp>

using tenon::tensor;
namespace nn = tenon::nn;

static int wrong(const char *what)
{
    std::printf("wrong: %s\n", what);
    return 1;
}

static bool is(const tensor &t, const std::vector<double> &expected)
{
    return t.to(TN_FLOAT64).to_vector<double>() == expected;
}

/* The message of the error that f throws, or "". */
template <class F> static std::string thrown(F f, int32_t status = 0)
{
    try {
        f();
    } catch (const tenon::error &e) {
        return status && e.status() != status ? "another status" : e.what();
    } catch (const std::exception &e) {
        return e.what();
    }
    return "";
}

static int arithmetic(tn_context *ctx)
{
    tenon::scope s(ctx);
    tensor a = tenon::from<float>({2, 2}, {1, 2, 4, 8}), b = tenon::from<double>({2}, {2, 4});
    if (!is(a + b, {3, 6, 6, 12}) || !is(a - b, {-1, -2, 2, 4}) || !is(a * b, {2, 8, 8, 32}) || !is(a / b, {0.5, 0.5, 2, 2})) return wrong("operators");
    if (!is(a + 1, {2, 3, 5, 9}) || !is(1 - a, {0, -1, -3, -7}) || !is(8 / a, {8, 4, 2, 1}) || !is(-a * 2.0, {-2, -4, -8, -16})) return wrong("numbers");
    tensor c = a, d = tenon::clone(a);
    d += a;
    d *= d;
    if (!is(d, {4, 16, 64, 256}) || !is(c, {1, 2, 4, 8}) || !is(a[1], {4, 8})) return wrong("in place, copies, rows");
    if (a.dim() != 2 || a.size(-1) != 2 || a.numel() != 4 || a.dtype() != TN_FLOAT32 || a.sizes() != std::vector<int64_t>{2, 2}) return wrong("facts");
    if (tenon::sum(a).item<int>() != 15 || !tenon::equal(a, c)) return wrong("items");
    auto parts = tenon::split(a, 1);
    if (parts.size() != 2 || !is(parts[1], {4, 8})) return wrong("lists");
    std::ostringstream text;
    text << b;
    if (text.str() != "tensor([2., 4.], dtype=torch.float64)") return wrong("printing");
    tensor x = tenon::from<double>({2}, {3, 4}).set_requires_grad(), plain;
    tenon::sum(x * x).backward();
    if (!is(x.grad(), {6, 8}) || static_cast<tn_tensor *>(b.grad()) != nullptr || static_cast<tn_tensor *>(plain) != nullptr) return wrong("gradients");
    tenon::no_grad off;
    return (x * x).requires_grad() ? wrong("no_grad") : 0;
}

static int errors(tn_context *ctx)
{
    if (thrown([] { tenon::ones(TN_INTS(1)); }, TN_E_STATE) != "no tenon::scope is open on this thread") return wrong("no scope");
    tenon::scope s(ctx);
    std::string text = thrown([] {
        tenon::scope inner;
        tenon::matmul(tenon::ones(TN_INTS(2, 3)), tenon::ones(TN_INTS(4, 5)));
    });
    if (text.find("objects.cpp:") == std::string::npos || text.find("2x3") == std::string::npos) return wrong("an error names its place");
    if (tn_scope_failed(s)) return wrong("an error that was thrown does not fail the scope around");
    if (thrown([] { tenon::scope bad(tn_scope_options{}); }).find("tn_scope_options") != 0 || tn_scope_failed(s)) return wrong("options of a scope");
    if (thrown([] { tenon::ones(TN_INTS(2)).size(1); }).find("dimension 1 of 1") == std::string::npos) return wrong("a size out of range");
    if (thrown([] { tenon::from<float>({3}, {1}); }, TN_E_SHAPE).empty()) return wrong("too few values");
    {
        tenon::scope inner; /* a C call fails, and nobody looks: the scope around fails, nothing is lost */
        tn_add(inner, nullptr, nullptr);
    }
    if (!tn_scope_failed(s)) return wrong("an error of a C call moves on");
    return 0;
}

/* A tensor lives as long as its objects: beyond the scope, and no longer than they do. */
static int lifetimes(tn_context *ctx)
{
    tensor kept;
    {
        tenon::scope s(ctx);
        kept = tenon::full(TN_INTS(3), 2.0);
        tensor moved = std::move(kept);
        kept = moved;
    }
    tenon::scope s(ctx);
    if (!is(kept, {2, 2, 2})) return wrong("a tensor beyond its scope");
    tn_memory_stats before{}, after{};
    before.size = after.size = sizeof before;
    tn_memory_get_stats(ctx, TN_CPU, &before);
    for (int i = 0; i < 100; i++) tensor large = tenon::ones(TN_INTS(1 << 20));
    tn_memory_get_stats(ctx, TN_CPU, &after);
    return after.allocated_peak > before.allocated_peak + 3 * (4 << 20) ? wrong("tensors are freed with their objects") : 0;
}

struct pair : nn::module {
    nn::layer in = nn::linear(*this, "in", 2, 3), norm = nn::layer_norm(*this, "norm", TN_INTS(3));
    bool fails = false;
    pair(const nn::layer &parent, const std::string &name) : module(parent, name, "Pair") {}
    tensor forward(const tensor &x) override
    {
        if (fails) throw std::runtime_error("out of luck");
        return norm(in(x));
    }
};

struct net : nn::module {
    pair first = pair(*this, "first");
    nn::layer lstm = nn::lstm(*this, "lstm", 3, 4), out = nn::linear(*this, "out", 4, 1, {/* bias */ 0});
    explicit net(tn_context *ctx) : module(ctx, "net", "Net") {}
    tenon::tensors forward(const tenon::tensors &in) override
    {
        auto y = lstm.call(first(in[0]));
        return {out(y[0]), y[1], y[2]};
    }
};

static int modules(tn_context *ctx)
{
    net model(ctx);
    tenon::scope s(ctx);
    std::ostringstream text;
    text << model;
    if (text.str().find("Net(\n  (first): Pair(\n    (in): Linear(in_features=2, out_features=3, bias=True)") != 0) return wrong("printing a module");
    if (model.parameter_count() != 6 + 3 + 3 + 3 + 4 * 4 * (3 + 4 + 2) + 4) return wrong("parameters");
    tensor x = tenon::randn(TN_INTS(5, 2, 2));
    auto all = model.call(x);
    if (all.size() != 3 || all[0].sizes() != std::vector<int64_t>{5, 2, 1} || all[2].sizes() != std::vector<int64_t>{1, 2, 4}) return wrong("outputs");

    double first = 0, last = 0;
    nn::optimizer o(model, nn::adamw(0.02));
    for (int i = 0; i < 60; i++) {
        tenon::scope step;
        tensor loss = tenon::mse_loss(model(x), tenon::ones(TN_INTS(5, 2, 1)));
        loss.backward();
        o.step();
        (i ? last : first) = loss.item<double>();
    }
    if (!(last < first / 4)) return wrong("it learns");

    model.first.fails = true;
    std::string why = thrown([&] {
        tenon::scope inner;
        model(x);
    });
    if (why.find("out of luck") == std::string::npos || why.find("in module 'first' (Pair)") == std::string::npos) return wrong("an exception in forward");
    model.first.fails = false;
    if (thrown([&] { model.get("nothing"); }, TN_E_NOT_FOUND).empty()) return wrong("a name that is not there");
    {
        tenon::scope inner;
        pair gone(model, "gone");
    }
    if (thrown([&] { tenon::scope inner; nn::layer(tn_module_child(model, "gone"))(x); }).find("the object of this module is gone") == std::string::npos)
        return wrong("a module whose object is gone");
    if (thrown([&] { nn::linear(model, "bad", 0, -1); }).empty()) return wrong("bad options of a layer");
    return 0;
}

int main()
{
    tenon::context ctx;
    ctx.manual_seed(1);
    if (ctx.name(ctx.choose("cpu")) != "cpu" || thrown([&] { ctx.choose("nosuch"); }).find("nosuch") == std::string::npos) return wrong("devices");
    if (arithmetic(ctx) || errors(ctx) || lifetimes(ctx) || modules(ctx)) return 1;
    tenon::progress p("", 1);
    std::puts("well");
    return 0;
}
