// SPDX-License-Identifier: Apache-2.0
/* Functions of the program that the library calls, and other wrappers: hooks, functions with a gradient of their own,
 * generators, packed sequences. Values are worked out by hand. */
#include <ratio>
#include <tenon/train.hpp>

#include "objects.hpp"

static const int line_of_misuse = __LINE__ + 1;
static tensor misuse() { return tenon::matmul(tenon::ones({2, 3}), tenon::ones({4, 5})); }

/* What an error of this line begins with. */
static std::string at_line(int line) { return std::string(__FILE__) + ":" + std::to_string(line) + ": "; }

/* An error inside a callback has the place of the call inside. */
static bool is_of_misuse(const std::string &text)
{
    return text.find(at_line(line_of_misuse)) == 0 && text.find("2x3") != std::string::npos;
}

static int generators(tn_context *ctx)
{
    tenon::scope s(ctx);
    tenon::generator g(ctx, 42), same(ctx, 42), moved = std::move(same);
    const tensor p = tenon::ones({1000});
    auto draw = [&](const tenon::generator &from) {
        tn_multinomial_args o;
        o.replacement = 1;
        o.generator = from;
        return tenon::multinomial(p, 20, o);
    };
    const tensor first = draw(g);
    if (!tenon::equal(first, draw(moved)) || tenon::equal(first, draw(g))) return wrong("two generators of a seed");
    const tn_generator_state state = g.state();
    const tensor third = draw(g);
    g.set_state(state);
    if (!tenon::equal(third, draw(g)) || state.seed != 42) return wrong("the state of a generator");
    g.seed(42);
    return tenon::equal(first, draw(g)) ? 0 : wrong("a generator begins again");
}

static int checkpoints(tn_context *ctx)
{
    tenon::scope s(ctx);
    auto calls = std::make_shared<int>(0);
    tensor x = tenon::from<float>({2}, {1, 2}).set_requires_grad(), w = tenon::from<float>({2}, {3, 5}).set_requires_grad();
    {
        tensor y = tenon::checkpoint([calls, w](const tenon::tensors &in) { return ++*calls, tenon::exp(tenon::log(in[0]) * w); }, {x});
        if (*calls != 1 || calls.use_count() != 2) return wrong("a checkpoint");
        tenon::sum(y).backward(); /* x^w */
    }
    if (*calls != 2 || calls.use_count() != 1 || !is(x.grad(), {3, 80})) return wrong("backward of a checkpoint");
    const tenon::tensors two = tenon::checkpoint<2>([](const tenon::tensors &in) { return tenon::tensors{in[0] * in[1], in[0] + in[1]}; }, {x, w});
    if (two.size() != 2 || !is(two[0], {3, 10}) || !is(two[1], {4, 7})) return wrong("a checkpoint of two outputs");
    const std::string number = thrown([&] { tenon::checkpoint<3>([](const tenon::tensors &in) { return in; }, {x, w}); });
    if (number.find("incorrect number of outputs (expected 3, got 2)") == std::string::npos) return wrong("a wrong number of outputs");
    const std::string inside = thrown([&] { tenon::checkpoint([](const tenon::tensors &) { return misuse(); }, {x}); });
    return is_of_misuse(inside) ? 0 : wrong("an error in a checkpoint");
}

static int saved_tensors(tn_context *ctx)
{
    tenon::scope s(ctx);
    tensor x = tenon::from<float>({1}, {2}).set_requires_grad(), y = x * 1;
    {
        tenon::allow_mutation_on_saved_tensors allowed(ctx);
        tensor z = y * y;
        y += 1;
        z.backward();
    }
    if (!is(x.grad(), {4})) return wrong("a saved tensor that was written");
    {
        tenon::save_on_cpu on_cpu(ctx);
        tenon::exp(x * 0).backward();
    }
    tenon::disable_saved_tensors_hooks disabled(ctx, "none of these");
    const int line = __LINE__ + 1;
    const std::string why = thrown([&] { tenon::save_on_cpu refused(ctx); });
    return why == at_line(line) + "none of these" ? 0 : wrong("hooks that are disabled");
}

static int derivatives(tn_context *ctx)
{
    tenon::scope s(ctx);
    const tensor x = tenon::from<float>({2}, {2, 3}), v = tenon::from<float>({2}, {5, 7});
    auto square = [](const tenon::tensors &in) { return in[0] * in[0]; };
    if (!is(tenon::jacobian(square, {x})[0], {4, 0, 0, 6})) return wrong("a Jacobian");
    if (!is(tenon::vjp(square, {x}, {v})[0], {20, 42}) || !is(tenon::jvp(square, {x}, {v})[0], {20, 42})) return wrong("a product");
    if (thrown([&] { tenon::jacobian(square, {}); }).find("argument 'inputs' has 0 tensors") == std::string::npos) return wrong("a Jacobian of nothing");
    auto cubes = [](const tenon::tensors &in) { return tenon::sum(in[0] * in[0] * in[0]); };
    return is(tenon::hessian(cubes, {x})[0], {12, 0, 0, 18}) ? 0 : wrong("a Hessian");
}

static int tensor_hooks(tn_context *ctx)
{
    tenon::scope s(ctx);
    tensor x = tenon::from<float>({2}, {1, 2}).set_requires_grad();
    auto gradient = [&] {
        tn_set_grad(x, nullptr);
        tenon::sum(x * x).backward();
        return x.grad();
    };
    int calls = 0;
    {
        tenon::hook twice = x.register_hook([](const tensor &g) { return g * 2; });
        tenon::hook looks = x.register_hook([&](const tensor &g) { calls += is(g, {4, 8}); });
        tenon::hook none = x.register_hook([&](const tensor &) { return tensor(); }), moved = std::move(none);
        if (!is(gradient(), {4, 8}) || calls != 1) return wrong("hooks of a tensor");
        twice.remove();
        twice.remove();
        if (!is(gradient(), {2, 4}) || calls != 1) return wrong("a hook that was removed");
    }
    if (!is(gradient(), {2, 4}) || calls != 1) return wrong("hooks end with their objects");
    tenon::hook leaf = x.register_accumulate_hook([&](const tensor &t) { calls += t.get() == x.get() && is(t.grad(), {2, 4}); });
    if (!is(gradient(), {2, 4}) || calls != 2) return wrong("a hook of a leaf");
    leaf = {};
    gradient();
    if (calls != 2) return wrong("a hook of a leaf that ended");
    tenon::hook fails = x.register_hook([](const tensor &) -> tensor { throw std::runtime_error("out of luck"); });
    const int line = __LINE__ + 1;
    if (thrown([&] { tenon::sum(x * x).backward(); }) != at_line(line) + "out of luck") return wrong("an exception in a hook");
    fails = x.register_hook([](const tensor &) { return misuse(); });
    if (!is_of_misuse(thrown([&] { tenon::sum(x * x).backward(); }, TN_E_SHAPE))) return wrong("an error in a hook");
    fails = x.register_hook([](const tensor &) { throw 7; });
    if (thrown([&] { tenon::sum(x * x).backward(); }).find("unknown exception") == std::string::npos) return wrong("any exception in a hook");
    fails = {};
    calls = 0;
    tenon::hook first = x.register_hook([&](const tensor &) { calls += 1; }), second = x.register_hook([&](const tensor &) { calls += 10; });
    first = std::move(second);
    gradient();
    if (calls != 10) return wrong("a hook that another one replaces ends");
    tenon::hook &same = first;
    first = std::move(same);
    gradient();
    if (calls != 20) return wrong("a hook that is moved to itself");
    first = {};
    tensor y = x * 3; /* not a leaf; the hook keeps it */
    tenon::hook inner = y.register_hook([](const tensor &g) { return g + 1; });
    tn_set_grad(x, nullptr);
    tenon::sum(y).backward();
    return is(x.grad(), {6, 6}) && !tn_scope_failed(s) ? 0 : wrong("a hook of another tensor");
}

struct net : nn::module {
    nn::layer fc = nn::linear(*this, "fc", 2, 2, {/* bias */ 0});
    int calls = 0;
    tenon::hook counts = fc.register_forward_hook([this](const tenon::tensors &in, const tensor &out) { calls += in[0].dim() == out.dim(); });
    explicit net(tn_context *ctx) : module(ctx, "net", "Net") { fc.set("weight", tenon::from<float>({2, 2}, {1, 0, 0, 1})); }
    tensor forward(const tensor &x) override { return fc(x); }
};

static int module_hooks(tn_context *ctx)
{
    tenon::scope s(ctx);
    net model(ctx);
    tensor x = tenon::ones({1, 2}).set_requires_grad();
    if (!is(model(x), {1, 1}) || model.calls != 1) return wrong("a hook that is a member");
    {
        tenon::hook before = model.fc.register_forward_pre_hook([](tenon::tensors &in) { in[0] = in[0] * 3; });
        tenon::hook after = model.fc.register_forward_hook([](const tenon::tensors &in, const tensor &out) { return in[0] + out; });
        tensor seen;
        tenon::hook back = model.fc.register_full_backward_hook([&](const tensor &grad_out, tenon::tensors &grad_in) {
            seen = grad_out;
            grad_in[0] = grad_in[0] * 10;
        });
        tensor y = model(x);
        if (!is(y, {6, 6})) return wrong("hooks of forward");
        tenon::sum(y).backward();
        if (!is(seen, {1, 1}) || !is(x.grad(), {33, 33})) return wrong("a hook of backward"); /* 3 * (1 + 1 * 10) */
    }
    if (!is(model(x), {1, 1})) return wrong("hooks of a module end");
    for (int i = 0; i < 3; i++) {
        auto fail = [] { misuse(); };
        tenon::hook h = i == 0   ? model.fc.register_forward_pre_hook([&](tenon::tensors &) { fail(); })
                        : i == 1 ? model.fc.register_forward_hook([&](const tenon::tensors &, const tensor &) { fail(); })
                                 : model.fc.register_full_backward_hook([&](const tensor &, tenon::tensors &) { fail(); });
        std::string why = thrown([&] { tenon::sum(model(x)).backward(); }, TN_E_SHAPE);
        if (!is_of_misuse(why) || (i < 2 && why.find("in module 'fc' (Linear)") == std::string::npos)) return wrong("an error in a hook of a module");
    }
    for (int i = 0; i < 3; i++) { /* as the exception of a hook does in PyTorch, it ends all */
        int calls = 0;
        auto fail = [] { misuse(); };
        auto count = [&] { calls++; };
        tensor w = tenon::ones({1}).set_requires_grad();
        tenon::hook h = i == 0   ? model.fc.register_forward_hook([&](const tenon::tensors &, const tensor &) { fail(); })
                        : i == 1 ? model.fc.register_full_backward_hook([&](const tensor &, tenon::tensors &) { fail(); })
                                 : w.register_accumulate_hook([&](const tensor &) { fail(); });
        tenon::hook behind = i == 0   ? model.fc.register_forward_hook([&](const tenon::tensors &, const tensor &) { count(); })
                             : i == 1 ? model.fc.register_full_backward_hook([&](const tensor &, tenon::tensors &) { count(); })
                                      : w.register_accumulate_hook([&](const tensor &) { count(); });
        if (!is_of_misuse(thrown([&] { tenon::sum(model(x) * w).backward(); }, TN_E_SHAPE)) || calls) return wrong("a hook behind one that fails");
    }
    tenon::hook more = model.fc.register_forward_pre_hook([](tenon::tensors &in) { in.push_back(in[0]); });
    if (thrown([&] { model(x); }).find("a list of 2 of 1") == std::string::npos) return wrong("a hook that adds an input");
    tensor late;
    int calls = 0;
    {
        net gone(ctx);
        tenon::hook h = gone.fc.register_full_backward_hook([&](const tensor &, tenon::tensors &) { calls++; });
        late = tenon::sum(gone(x));
    }
    late.backward();
    return calls ? wrong("a hook of a module that is gone") : 0;
}

struct clamp_gradient {
    double limit;
    std::shared_ptr<int> alive;
    tensor forward(tenon::function_call &, const tenon::tensors &in) { return tenon::clone(in[0]); }
    tensor backward(tenon::function_call &, const tenon::tensors &grads)
    {
        tn_clamp_args o;
        o.min = -limit;
        o.max = limit;
        return tenon::clamp(grads[0], o);
    }
};

/* The product and the quotient. */
struct both {
    static constexpr uint32_t outputs = 2, flags = TN_FUNCTION_NO_MATERIALIZE;
    int wants[2] = {0, 0};
    tenon::tensors forward(tenon::function_call &call, const tenon::tensors &in)
    {
        call.save(in);
        for (uint32_t i = 0; i < 2; i++) wants[i] = call.needs_input_grad(i);
        return {in[0] * in[1], in[0] / in[1]};
    }
    tenon::tensors backward(tenon::function_call &call, const tenon::tensors &grads)
    {
        tensor a = call.saved(0), b = call.saved(1), g = grads[0];
        if (grads[1].defined()) throw std::runtime_error("a gradient of the quotient");
        return {g * b, wants[1] ? g * a : tensor()};
    }
};

struct doubled {
    tensor forward(tenon::function_call &call, const tenon::tensors &in)
    {
        tensor x = in[0];
        x *= 2;
        call.mark_dirty(x);
        return x;
    }
    tensor backward(tenon::function_call &, const tenon::tensors &grads) { return grads[0] * 2; }
};

template <class Factor> struct scaled {
    tensor forward(tenon::function_call &, const tenon::tensors &in) { return in[0] * Factor::num / Factor::den; }
    tensor backward(tenon::function_call &, const tenon::tensors &grads) { return grads[0] * Factor::num / Factor::den; }
};

struct faulty {
    int how;
    tensor forward(tenon::function_call &call, const tenon::tensors &in)
    {
        if (how == 0) throw std::runtime_error("out of luck");
        if (how == 1) misuse();
        if (how == 2) return {};
        tensor y = in[0] * 2;
        if (how == 3) call.mark_non_differentiable(y);
        return y;
    }
    tenon::tensors backward(tenon::function_call &call, const tenon::tensors &grads)
    {
        if (how == 4) call.saved(0);
        if (how == 5) misuse();
        return how == 6 ? tenon::tensors{} : grads;
    }
};

static int functions(tn_context *ctx)
{
    tenon::scope s(ctx);
    auto alive = std::make_shared<int>();
    tensor x = tenon::from<float>({2}, {1, 2}).set_requires_grad(), w = tenon::from<float>({2}, {3, 5});
    {
        tenon::scope inner;
        tensor y = tenon::function_apply(clamp_gradient{0.5, alive}, {x * 1});
        if (alive.use_count() != 2 || std::string(tn_node_name(tn_grad_fn(y))) != "clamp_gradientBackward") return wrong("the graph keeps the function");
        tenon::sum(y * w).backward();
    }
    if (!is(x.grad(), {0.5, 0.5}) || alive.use_count() != 1) return wrong("a gradient of the program");

    tn_set_grad(x, nullptr);
    tenon::tensors y = tenon::function_apply(both{}, {x, w});
    if (!is(y[0], {3, 10}) || y.size() != 2 || !is(y[1], {1 / 3.0F, 2 / 5.0F})) return wrong("several outputs");
    tenon::sum(y[0]).backward();
    if (!is(x.grad(), {3, 5})) return wrong("gradients of saved tensors");

    tn_set_grad(x, nullptr);
    tensor z = x * 1, same = tenon::function_apply(doubled{}, {z});
    if (same.get() != z.get() || !is(z, {2, 4})) return wrong("in place");
    tenon::sum(z).backward();
    if (!is(x.grad(), {2, 2})) return wrong("the gradient of a function in place");

    const tensor t = tenon::function_apply(scaled<std::ratio<1, 2>>{}, {x});
    if (std::string(tn_node_name(tn_grad_fn(t))).find("scaled<std::ratio<1") != 0) return wrong("the name of a template");

    const int line = __LINE__ + 1;
    auto call = [&](int how) { tenon::sum(tenon::function_apply(faulty{how}, {x})).backward(); };
    const std::string at = at_line(line);
    if (thrown([&] { call(0); }, TN_E_STATE) != at + "out of luck") return wrong("an exception in forward");
    if (!is_of_misuse(thrown([&] { call(1); }, TN_E_SHAPE))) return wrong("an error in forward");
    if (thrown([&] { call(2); }) != at + "faultyBackward: forward did not set output 0") return wrong("an absent output");
    if (tenon::function_apply(faulty{3}, {x}).requires_grad()) return wrong("an output that has no gradient");
    if (thrown([&] { call(4); }, TN_E_INDEX).find("callbacks.cpp:") == std::string::npos) return wrong("a tensor that was not saved");
    if (!is_of_misuse(thrown([&] { call(5); }, TN_E_SHAPE))) return wrong("an error in backward");
    if (thrown([&] { call(6); }) != at + "faulty returned an incorrect number of gradients (expected 1, got 0)") return wrong("too few gradients");
    return tn_scope_failed(s) ? wrong("a scope is usable after an error of a function") : 0;
}

/* A step whose closure runs the model: on a quadratic function lbfgs ends at the minimum. */
static int closures(tn_context *ctx)
{
    tenon::scope s(ctx);
    nn::module root(ctx, "root");
    tensor w = tn_module_add_parameter(root, "w", tenon::from<double>({2}, {4, -3})), aim = tenon::from<double>({2}, {1, 2});
    nn::optimizer o(root, nn::lbfgs(1));
    int calls = 0;
    auto closure = [&] {
        calls++;
        root.zero_grad();
        tensor d = w - aim, loss = tenon::sum(d * d);
        loss.backward();
        return loss;
    };
    if (!is(o.step(closure), {34}) || calls < 2) return wrong("a step with a closure");
    for (int i = 0; i < 5; i++) o.step(closure);
    if (!tenon::allclose(w, aim)) return wrong("the minimum of a quadratic function");
    const int line = __LINE__ + 1;
    if (thrown([&] { o.step([]() -> tensor { throw std::runtime_error("out of luck"); }); }) != at_line(line) + "out of luck") return wrong("an exception in a closure");
    if (!is_of_misuse(thrown([&] { o.step(misuse); }, TN_E_SHAPE)) || tn_scope_failed(s)) return wrong("an error in a closure");
    if (thrown([&] { o.step([] { return tensor(); }); }).empty()) return wrong("a closure without a loss");
    return 0;
}

/* Samples 0, 1, 2, ..., but for one. */
struct numbers {
    int64_t except;
    static int64_t count(void *) { return 4; }
    static int32_t get(void *user, tn_scope *s, int64_t i, uint64_t, tn_tensor **out)
    {
        return tenon::guarded(s, "get", [&] {
            if (i == static_cast<numbers *>(user)->except) throw std::out_of_range("out of luck");
            if (i < 0) misuse();
            out[0] = tn_full(s, TN_INTS(1), static_cast<double>(i));
        });
    }
};

static int data_sets(tn_context *ctx)
{
    tenon::scope s(ctx);
    static const tn_dataset_class kind = {sizeof kind, 0, "numbers", numbers::count, numbers::get, nullptr, nullptr};
    numbers n{2};
    tenon::dataset set = tn_dataset_create(ctx, &kind, &n);
    for (int32_t workers : {0, 2}) {
        tn_loader_options o;
        o.workers = workers;
        tenon::loader l = tn_loader_create(set, o);
        for (int i = 0; i < 4; i++) {
            const std::string why = thrown([&] { is(tenon::next(l)[0], {double(i)}) ? void() : throw std::logic_error("another sample"); });
            if (i == 2 ? why.find("callbacks.cpp:") == std::string::npos || why.find("out of luck") == std::string::npos : !why.empty()) return wrong(why.c_str());
        }
    }
    return tn_scope_failed(s) ? wrong("a scope is usable after the error of a worker") : 0;
}

static int packed(tn_context *ctx)
{
    tenon::scope s(ctx);
    nn::module root(ctx, "root");
    nn::lstm_options o;
    o.batch_first = 1;
    nn::layer lstm = nn::lstm(root, "lstm", 2, 3, o);
    tensor x = tenon::reshape(tenon::arange(12.0), {2, 3, 2}), lengths = tenon::from<int64_t>({2}, {1, 3});
    nn::packed_outputs y;
    {
        tenon::scope inner;
        y = lstm.call_packed(nn::pack_padded_sequence(x, lengths, true, false));
    }
    auto [out, counts] = nn::pad_packed_sequence(y.sequence, true, -1);
    tenon::tensors alone = lstm.call(x[1]);
    if (out.sizes() != std::vector<int64_t>{2, 3, 3} || !is(counts, {1, 3}) || y.h.sizes() != std::vector<int64_t>{1, 2, 3} || !y.c.defined())
        return wrong("sizes of packed outputs");
    if (!tenon::allclose(out[1], alone[0]) || !is(out[0][1], {-1, -1, -1}) || !tenon::allclose(y.h[0][1], alone[1][0])) return wrong("packed outputs");
    if (nn::unpad_sequence(x, lengths, true)[0].size(0) != 1) return wrong("sequences without padding");
    auto again = lstm.call_packed(nn::pack_padded_sequence(x, lengths, true, false), y.h, y.c);
    if (tenon::equal(again.h, y.h)) return wrong("first states");
    nn::packed_sequence p = nn::pack_sequence({x[0], x[1]});
    if (p.sorted_indices.defined() || !is(nn::unpack_sequence(p)[1], {6, 7, 8, 9, 10, 11})) return wrong("a list of sequences");
    const int line = __LINE__ + 1;
    std::string why = thrown([&] { nn::pack_padded_sequence(x, lengths, true); });
    return why.find(at_line(line)) == 0 ? 0 : wrong("place of a packed sequence");
}

int main()
{
    tenon::context ctx;
    ctx.manual_seed(1);
    if (generators(ctx) || checkpoints(ctx) || saved_tensors(ctx) || derivatives(ctx)) return 1;
    if (tensor_hooks(ctx) || module_hooks(ctx) || functions(ctx) || closures(ctx) || data_sets(ctx) || packed(ctx)) return 1;
    std::puts("well");
    return 0;
}
