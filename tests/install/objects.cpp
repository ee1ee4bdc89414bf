// SPDX-License-Identifier: Apache-2.0
/* tenon.hpp and train.hpp: objects, operators, exceptions, modules as classes, options. Values are worked out by hand. */
#pragma GCC diagnostic error "-Wformat-security" /* also for the headers */
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <sstream>
#include <tenon/lowrank.h>
#include <tenon/progress.hpp>
#include <tenon/train.hpp>
#if __cplusplus >= 202002L
#include <span>
#endif

#include "objects.hpp"

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
    if (!is(x.grad(), {6, 8}) || b.grad().defined() || plain.defined()) return wrong("gradients");
    tenon::no_grad off;
    return (x * x).requires_grad() ? wrong("no_grad") : 0;
}

static int comparisons(tn_context *ctx)
{
    tenon::scope s(ctx);
    tensor m = tenon::from<int64_t>({4}, {1, 2, 4, 8}), n = tenon::from<int64_t>({4}, {8, 2, 3, 8});
    if (!is(m == n, {0, 1, 0, 1}) || !is(m != n, {1, 0, 1, 0}) || !is(m < n, {1, 0, 0, 0}) || !is(m <= n, {1, 1, 0, 1}) ||
        !is(m > n, {0, 0, 1, 0}) || !is(m >= n, {0, 1, 1, 1}))
        return wrong("comparisons");
    if (!is(m == 2, {0, 1, 0, 0}) || !is(m != 0, {1, 1, 1, 1}) || !is(m < 3.5, {1, 1, 0, 0}) || !is(m <= 2L, {1, 1, 0, 0}) ||
        !is(m > 2u, {0, 0, 1, 1}) || !is(m >= 2, {0, 1, 1, 1}))
        return wrong("comparisons with a number");
    if (!is(2 == m, {0, 1, 0, 0}) || !is(0 != m, {1, 1, 1, 1}) || !is(3 < m, {0, 0, 1, 1}) || !is(2 <= m, {0, 1, 1, 1}) ||
        !is(4 > m, {1, 1, 0, 0}) || !is(4 >= m, {1, 1, 1, 0}))
        return wrong("comparisons of a number");
    if ((m == n).dtype() != TN_BOOL || !is((m < 3) | (m == 8), {1, 1, 0, 1}) || !is((m < n) ^ (m <= n), {0, 1, 0, 1}) || !is(~(m < 3), {0, 0, 1, 1}))
        return wrong("masks");
    return is(tenon::where(m > n, m, n), {8, 2, 4, 8}) && tenon::any(m == n).item<bool>() && tenon::from<float>({1}, {0.5}).item<bool>() &&
                   !tenon::all(m == n).item<bool>()
               ? 0
               : wrong("uses of masks");
}

static int integer_operators(tn_context *ctx)
{
    tenon::scope s(ctx);
    tensor m = tenon::from<int64_t>({4}, {1, 2, 4, 8}), n = tenon::from<int64_t>({4}, {8, 2, 3, 8});
    if (!is(m % n, {1, 0, 1, 0}) || !is(-m % 3, {2, 1, 2, 1}) || !is(9 % m, {0, 1, 1, 1})) return wrong("remainders");
    if (!is(m & n, {0, 2, 0, 8}) || !is(m | n, {9, 2, 7, 8}) || !is(m ^ n, {9, 0, 7, 0}) || !is(~m, {-2, -3, -5, -9})) return wrong("bits");
    if (!is(m & 6, {0, 2, 4, 0}) || !is(6 & m, {0, 2, 4, 0}) || !is(m | 1, {1, 3, 5, 9}) || !is(1 | m, {1, 3, 5, 9}) || !is(m ^ 3, {2, 1, 7, 11}) ||
        !is(3 ^ m, {2, 1, 7, 11}))
        return wrong("bits of a number");
    if (!is(m + 0, {1, 2, 4, 8}) || !is(m * 0, {0, 0, 0, 0}) || !is(0 - m, {-1, -2, -4, -8})) return wrong("zero is a number");
    tensor p = tenon::clone(m), same = p;
    if (!is(p += 1, {2, 3, 5, 9}) || !is(p -= 2, {0, 1, 3, 7}) || !is(p *= 2, {0, 2, 6, 14}) || !is(p %= 5, {0, 2, 1, 4})) return wrong("in place");
    if (!is(p |= 8, {8, 10, 9, 12}) || !is(p &= 10, {8, 10, 8, 8}) || !is(p ^= n, {0, 8, 11, 0}) || !is(same, {0, 8, 11, 0})) return wrong("bits in place");
    if (!is(p %= n, {0, 0, 2, 0}) || !is(p |= m, {1, 2, 6, 8}) || !is(p &= n, {0, 2, 2, 8}) || !is(p ^= 1, {1, 3, 3, 9})) return wrong("tensors in place");
    tensor half = tenon::from<float>({2}, {1, 2}), z = half + std::complex<float>(0, 3);
    return is(half /= 2, {0.5, 1}) && is(tenon::real(z), {1, 2}) && is(tenon::imag(z), {3, 3}) ? 0 : wrong("numbers that are not real");
}

/* What an index gives is a view, which assignments write. */
static int writes(tn_context *ctx)
{
    tenon::scope s(ctx);
    tensor a = tenon::zeros({2, 2}), row = a[0], kept = a;
    a[0] = tenon::from<float>({2}, {1, 2});
    a[1][0] = 3;
    a[1u][size_t{1}] = tenon::full({}, 4.0);
    if (!is(kept, {1, 2, 3, 4}) || !is(row, {1, 2})) return wrong("assignments to elements");
    a[0] += 10;
    a[-1] *= a[0];
    if (!is(kept, {11, 12, 33, 48}) || !is(a[0] -= 1, {10, 11})) return wrong("operators on elements");
    row = a[1]; /* a variable becomes another tensor */
    row = nullptr;
    if (row.defined() || !is(kept, {10, 11, 33, 48})) return wrong("assignments to variables");
    const tensor none = nullptr;
    static_assert(!std::is_assignable_v<tensor &, int> && !std::is_convertible_v<int, tensor> && std::is_nothrow_assignable_v<tensor &, tensor>);
    auto from_zero = [](auto x) -> decltype(tensor(x ? 0 : 0)) { return nullptr; };
    auto of_zero = [](auto t) -> decltype(t = 0) { return t; };
    static_assert(!std::is_invocable_v<decltype(from_zero), int> && !std::is_invocable_v<decltype(of_zero), tensor>); /* a literal 0, too */
    return none == nullptr && a.get() == kept.get() ? 0 : wrong("nullptr is an absent tensor");
}

/* item<T>() of what T has no room for is an error, as in PyTorch; a negative integer wraps around where T is unsigned. */
static int items(tn_context *ctx)
{
    tenon::scope s(ctx);
    auto of = [](auto x) { return tenon::full({}, x); };
    const tensor large = tenon::from<uint64_t>({1}, {UINT64_MAX}), infinite = of(-HUGE_VAL), wide = tenon::from<double>({1}, {1e300});
    for (const std::string &why : {thrown([&] { of(300).item<int8_t>(); }, TN_E_ARGUMENT), thrown([&] { of(-129).item<int8_t>(); }, TN_E_ARGUMENT),
                                   thrown([&] { of(256).item<uint8_t>(); }, TN_E_ARGUMENT), thrown([&] { of(-256).item<uint8_t>(); }, TN_E_ARGUMENT),
                                   thrown([&] { of(1LL << 31).item<int>(); }, TN_E_ARGUMENT), thrown([&] { large.item<int64_t>(); }, TN_E_ARGUMENT),
                                   thrown([&] { wide.item<float>(); }, TN_E_ARGUMENT), thrown([&] { of(3e9).item<int>(); }, TN_E_ARGUMENT)})
        if (why.find("objects.cpp:") == std::string::npos || why.find("without overflow (got ") == std::string::npos) return wrong(why.c_str());
    if (of(-128).item<int8_t>() != -128 || of(-1).item<uint8_t>() != 255 || of(-255).item<uint8_t>() != 1 || of(2.75).item<int>() != 2)
        return wrong("integers that have room");
    if (large.item<uint64_t>() != UINT64_MAX || of(INT64_MIN).item<int64_t>() != INT64_MIN || infinite.item<float>() != -HUGE_VALF)
        return wrong("the largest numbers");
    const tensor z = of(std::complex<double>(1, -2));
    if (z.item<std::complex<float>>() != std::complex<float>(1, -2) || of(3).item<std::complex<double>>() != 3.0) return wrong("a complex item");
    return thrown([&] { z.item<double>(); }, TN_E_DTYPE).empty() ? wrong("the real part of a complex item") : 0;
}

/* What would compare pointers does not compile; nullptr asks whether a tensor is there. */
static int no_pointers(tn_context *ctx)
{
    tenon::scope s(ctx);
    auto negated = [](auto x) -> decltype(!x) { return !x; };
    auto both = [](auto x, auto y) -> decltype(x && y) { return x && y; };
    auto either = [](auto x, auto y) -> decltype(x || y) { return x || y; };
    auto equal = [](auto x, auto y) -> decltype(x == y) { return x == y; };
    auto less = [](auto x, auto y) -> decltype(x < y) { return x < y; };
    static_assert(!std::is_constructible_v<bool, tensor> && !std::is_convertible_v<tensor, bool>);
    static_assert(!std::is_invocable_v<decltype(negated), tensor> && !std::is_invocable_v<decltype(both), tensor, tensor> &&
                  !std::is_invocable_v<decltype(both), bool, tensor> && !std::is_invocable_v<decltype(either), tensor, bool>);
    static_assert(!std::is_invocable_v<decltype(equal), tensor, tn_tensor *> && !std::is_invocable_v<decltype(equal), const tn_tensor *, tensor> &&
                  !std::is_invocable_v<decltype(less), tensor, tn_tensor *>);
    static_assert(std::is_same_v<decltype(equal(tensor(), tensor())), tensor> && std::is_same_v<decltype(less(0, tensor())), tensor>);
    static_assert(std::is_convertible_v<tensor, tn_tensor *> && std::is_convertible_v<tensor, const tn_tensor *>);
    const tensor none, one = tenon::ones(TN_INTS(1));
    if (none.defined() || !one.defined() || none != nullptr || !(none == nullptr) || one == nullptr || !(nullptr != one) || nullptr == one)
        return wrong("an absent tensor");
    return negated(true) || both(true, false) || !either(true, false);
}

/* An error that was thrown is out of the scope; one of a C call stays until a call of C++ throws it. */
static int later_calls(tn_context *ctx)
{
    tenon::scope s(ctx);
    tensor a = tenon::from<float>({2}, {-1, 2}), b = tenon::ones(TN_INTS(3));
    for (int i = 0; i < 2; i++) {
        if (thrown([&] { tenon::matmul(a, b); }, TN_E_SHAPE).empty() || thrown([&] { a + b; }, TN_E_SHAPE).empty()) return wrong("two errors");
        if (tn_scope_failed(s) || tn_last_error() || !is(tenon::relu(a), {0, 2})) return wrong("a scope is usable after an error");
    }
    if (thrown([&] { a.item<float>(); }).empty() || thrown([&] { a.backward(); }).empty() || thrown([&] { a.to(999); }).empty())
        return wrong("errors of methods");
    const int line = __LINE__ + 1;
    std::string first = thrown([&] { tn_add(s, a, b); tenon::relu(a); }), second = thrown([&] { a * b; });
    if (first.find("objects.cpp:" + std::to_string(line) + ": ") == std::string::npos || second.empty()) return wrong("an error of a C call is thrown once");
    for (int i = 0; i < 2; i++) {
        if (thrown([&] { tenon::dataset set = tn_tensor_dataset_create(s, TN_TENSORS(a, b)); }, TN_E_SHAPE).empty()) return wrong("rows that differ");
        if (thrown([&] { tenon::check(tn_npy_save(s, "nothing/file.npy", a)); }, TN_E_IO).empty()) return wrong("a folder that is not there");
        if (thrown([&] { tensor().grad(); }).find("objects.cpp:") == std::string::npos) return wrong("the gradient of no tensor");
        if (tn_scope_failed(s)) return wrong("a scope is usable after each error");
    }
    return is(a + 1, {0, 3}) ? 0 : wrong("a scope is usable after the error of a C call");
}

static int errors(tn_context *ctx)
{
    const int at = __LINE__ + 1;
    std::string none = thrown([] { tenon::ones(TN_INTS(1)); }, TN_E_STATE), inside = thrown([] { tenon::scope bad; }, TN_E_STATE);
    if (none != inside || none != __FILE__ ":" + std::to_string(at) + ": no tenon::scope is open on this thread") return wrong("no scope");
    tenon::scope s(ctx);
    std::string text = thrown([] {
        tenon::scope inner;
        tenon::matmul(tenon::ones(TN_INTS(2, 3)), tenon::ones(TN_INTS(4, 5)));
    });
    if (text.find("objects.cpp:") == std::string::npos || text.find("2x3") == std::string::npos) return wrong("an error names its place");
    if (tn_scope_failed(s)) return wrong("an error that was thrown does not fail the scope around");
    if (thrown([] { tenon::scope bad(tn_scope_options{}); }).find("tn_scope_options") == std::string::npos || tn_scope_failed(s)) return wrong("options of a scope");
    if (thrown([] { tenon::ones(TN_INTS(2)).size(1); }, TN_E_INDEX).find("dimension 1 of 1") == std::string::npos) return wrong("a size out of range");
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

/* A list is anything that holds its items side by side. */
static int lists(tn_context *ctx)
{
    tenon::scope s(ctx);
    const tensor a = tenon::from<float>({2}, {1, 2}), b = tenon::from<float>({2}, {3, 4});
    const tenon::tensors parts{a, b}, halves = tenon::split(tenon::cat({a, b}), 2);
    const std::array<tensor, 2> pair{a, b};
    const tensor raw[] = {a, b};
    const std::vector<tn_tensor *> pointers{a, b};
    tn_stack_args o;
    o.dim = 1;
    for (const tensor &t : {tenon::stack(parts, o), tenon::stack({a, b}, o), tenon::stack(pair, o), tenon::stack(raw, o), tenon::stack(pointers, o),
                            tenon::stack(halves, o), tenon::stack(TN_TENSORS(a, b), o), tenon::stack({parts[0], b * 1}, o)})
        if (!is(t, {1, 3, 2, 4})) return wrong("a list of tensors");
    if (!is(tenon::cat({a}), {1, 2}) || !is(tenon::index_tensor(tenon::stack(parts), {tensor(), tenon::from<int64_t>({1}, {1})}), {2, 4}))
        return wrong("lists of one tensor, and with an absent one");
    if (thrown([] { tenon::cat({}); }).find("objects.cpp:") == std::string::npos) return wrong("an empty list");
    if (!is(tensor(tn_cat(s, tenon::tensor_list(parts))), {1, 2, 3, 4}) || !is(a, {1, 2})) return wrong("a list of a C call");

    const std::vector<int64_t> sizes{2, 1};
    const int64_t array[] = {2, 1};
    for (const tensor &t : {tenon::reshape(a, {2, 1}), tenon::reshape(a, sizes), tenon::reshape(a, array), tenon::reshape(a, tn_ints{array, 2}),
                            tenon::reshape(a, tenon::zeros({2, 1}).sizes()), tenon::reshape(a, TN_INTS(-1, 1))})
        if (t.sizes() != sizes) return wrong("a list of numbers");
    struct holder { /* as a temporary object it would end with the call of a function that takes it by value */
        tensor held;
        explicit holder(const tensor &t) : held(t) {}
        holder(const holder &) = delete;
        operator tn_tensor *() const { return held; }
    };
    if (!is(tensor(tn_stack(s, TN_TENSORS(holder(a * 1), holder(b * 1)), o)), {1, 3, 2, 4})) return wrong("a list of temporary objects");
    tn_zeros_args absent;
    absent.size = tn_ints{nullptr, 0};
    if (tensor(tn_zeros_with(s, &absent)).dim() != 0) return wrong("a list without an array");
    const int64_t *nothing = nullptr;
    for (const tn_zeros_args &args : {tn_zeros_args{tn_ints{nullptr, 3}}, tn_zeros_args{{nothing, 3}}}) {
        if (tn_zeros_with(s, &args) || !std::strstr(tn_scope_error(s)->message, "points to NULL has no items (got 3)"))
            return wrong("items of a list without an array");
        tn_scope_clear(s);
    }
    tn_roll_args both, one;
    auto pair_of_numbers = [](auto args) -> decltype(args.dims = {0, 1}) { return args.dims; };
    static_assert(!std::is_invocable_v<decltype(pair_of_numbers), tn_roll_args>); /* {0, 1} was a null pointer and a count */
    both.dims = TN_INTS(0, 1);
    one.dims = {array + 1, 1};
    const tensor m = tenon::from<float>({2, 2}, {1, 2, 3, 4});
    if (!is(tenon::roll(m, {1, 1}, both), {4, 3, 2, 1}) || !is(tenon::roll(m, {1}, one), {2, 1, 4, 3})) return wrong("lists as options");
    static_assert(!std::is_convertible_v<int, tenon::int_list> && !std::is_convertible_v<tensor, tenon::tensor_list>);
#if __cplusplus >= 202002L
    if (!is(tenon::stack(std::span(parts).subspan(1), {.dim = 1}), {3, 4}) || !is(tenon::cat(parts, {.dim = 0}), {1, 2, 3, 4})) return wrong("a span");
#endif
    return 0;
}

/* Several results are a struct of tensors, which live as long as it does. */
static int results(tn_context *ctx)
{
    tenon::topk_result kept;
    std::vector<tensor> edges;
    {
        tenon::scope s(ctx);
        kept = tenon::topk(tenon::from<float>({3}, {1, 3, 2}), 2);
        edges = tenon::histogramdd(tenon::from<float>({2, 1}, {0, 1}), {1}).bin_edges;
        for (int i = 0; i < 20; i++) tenon::full({2}, -1.0);
    }
    tenon::scope s(ctx);
    for (int i = 0; i < 20; i++) tenon::full({2}, -1.0);
    if (!is(kept.values, {3, 2}) || !is(kept.indices, {1, 2})) return wrong("results beyond their scope");
    if (edges.size() != 1 || !is(edges[0], {0, 1})) return wrong("a list as a result");
    auto [values, indices] = tenon::topk(tenon::from<float>({3}, {5, 3, 7}), 1);
    if (!is(values, {7}) || !is(indices, {2})) return wrong("results by name");
    static_assert(!std::is_convertible_v<tenon::topk_result, tn_topk_result>);
    tensor x = tenon::ones({2, 2}), mean = tenon::ones({2, 1}), none;
    tenon::native_layer_norm_backward_result g = tenon::native_layer_norm_backward(x, x, {2}, mean, mean, none, none, {1, 0, 0});
    if (!g.result0.defined() || g.result1.defined()) return wrong("an absent result");
    return thrown([&] { tenon::topk(x, 9); }).find("objects.cpp:") == std::string::npos ? wrong("place of a call with several results") : 0;
}

static const int line_of_misuse = __LINE__ + 1;
static tensor misuse() { return tenon::matmul(tenon::ones(TN_INTS(2, 3)), tenon::ones(TN_INTS(4, 5))); }

struct pair : nn::module {
    nn::layer in = nn::linear(*this, "in", 2, 3), norm = nn::layer_norm(*this, "norm", TN_INTS(3));
    bool fails = false, misuses = false, recovers = false;
    pair(const nn::layer &parent, const std::string &name) : module(parent, name, "Pair") {}
    tensor forward(const tensor &x) override
    {
        if (fails) throw std::runtime_error("out of luck");
        if (misuses) return misuse(); /* here a tenon::error leaves it */
        if (recovers && thrown(misuse).empty()) throw std::runtime_error("no error");
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
    model.first.misuses = true;
    why = thrown([&] { model(x); }, TN_E_SHAPE);
    if (why.find("objects.cpp:" + std::to_string(line_of_misuse) + ": ") != why.rfind("objects.cpp:") ||
        why.find("in module 'first' (Pair)") == std::string::npos)
        return wrong("an error in forward");
    model.first.misuses = false;
    model.first.recovers = true;
    if (!thrown([&] { model(x); }).empty()) return wrong("a forward function that goes on after an error");
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

/* An exception takes the error out of the tree, which is as it was before the call. */
static int trees(tn_context *ctx)
{
    tenon::scope s(ctx);
    net model(ctx);
    nn::layer fc = nn::linear(model, "fc", 2, 2), lazy = nn::conv2d(model, "conv", TN_LAZY, 4, {1}, [] { nn::conv2d_options o; o.groups = 2; return o; }());
    const tensor x = tenon::ones({1, 2});
    for (int i = 0; i < 2; i++) {
        if (thrown([&] { nn::linear(model, "fc", 2, 2); }, TN_E_EXISTS).find("objects.cpp:") == std::string::npos) return wrong("a name that is taken");
        if (thrown([&] { nn::linear(model, "h.bad", 2, -1); }, TN_E_ARGUMENT).empty()) return wrong("a size below 0");
        if (thrown([&] { fc.set("weight", tenon::ones({3, 3})); }, TN_E_SHAPE).empty()) return wrong("a tensor of other sizes");
        if (thrown([&] { fc.to(0, TN_INT64); }, TN_E_DTYPE).empty()) return wrong("a dtype that is not floating");
        if (thrown([&] { fc.load("nothing"); }, TN_E_NOT_FOUND).empty()) return wrong("a file that is not there");
        if (thrown([&] { lazy(tenon::ones({1, 3, 2, 2})); }, TN_E_ARGUMENT).empty()) return wrong("a lazy layer");
        if (tn_module_failed(model) || fc(x).size(1) != 2 || tn_module_child(model, "h")) return wrong("a tree is usable after each error");
    }
    if (lazy(tenon::ones({1, 4, 2, 2})).size(1) != 4) return wrong("a lazy layer after its error");
    tn_layer_create(model, "no", "Nothing", nullptr, 0);
    if (thrown([&] { fc(x); }).find("there is no layer 'Nothing'") == std::string::npos || fc(x).size(1) != 2) return wrong("the error of a C call is thrown once");
    /* The name of a module whose constructor throws is free again. */
    struct picky : nn::module {
        nn::layer good = nn::linear(*this, "good", 2, 2), bad;
        picky(const nn::layer &parent, const std::string &name, int64_t n) : module(parent, name), bad(nn::linear(*this, "bad", 2, n)) {}
        picky(const nn::layer &parent, const std::string &name) : picky(parent, name, name == "1" ? -1 : 1) {}
    };
    const int64_t count = model.parameter_count();
    for (int64_t n : {-1, -1, 3})
        if (thrown([&] { picky(model, "picky", n); }).empty() != (n == 3)) return wrong("a constructor that throws");
    if (thrown([&] { nn::repeated<picky>(model, "list", 2); }, TN_E_ARGUMENT).empty() || tn_module_child(model, "list")) return wrong("a list whose item throws");
    return model.parameter_count() == count + 6 + 9 ? 0 : wrong("what a constructor that threw leaves");
}

/* A parameter of a module's own follows the tensor that the module has; without a forward function children run in order. */
static int own_tensors(tn_context *ctx)
{
    tenon::scope s(ctx);
    struct scaled : nn::module {
        nn::parameter factor{*this, "factor", tenon::from<float>({2}, {2, 3})};
        nn::buffer shift{*this, "shift", tenon::from<float>({2}, {1, -1})}, hidden{*this, "hidden", tenon::zeros({1}), false};
        using module::module;
        tensor forward(const tensor &x) override { return x * factor + shift; }
    };
    nn::module chain(ctx, "chain");
    scaled m(chain, "a");
    nn::relu(chain, "b");
    const tensor x = tenon::from<float>({2}, {1, -1});
    if (!is(chain(x), {3, 0}) || chain.parameter_count() != 2) return wrong("children in order");
    nn::optimizer o(chain, nn::sgd(0.5));
    chain.to(0, TN_FLOAT64);
    if (m.factor.get().dtype() != TN_FLOAT64 || m.shift.get().dtype() != TN_FLOAT64 || m.shift.get().requires_grad()) return wrong("handles follow a move");
    tenon::sum(m(x.to(TN_FLOAT64))).backward();
    if (!is(m.factor.grad(), {1, -1}) || !is(chain.get("a.factor").grad(), {1, -1})) return wrong("the gradient of a module's own parameter");
    o.step();
    if (!is(m.factor, {1.5, 3.5}) || !is(tenon::stack({m.factor, m.shift}), {1.5, 3.5, 1, -1}) || m.factor.grad().defined()) return wrong("a step changes it");
    m.set("factor", tenon::from<double>({2}, {5, 7}));
    const tensor copy = m.factor;
    std::ostringstream text;
    text << m.factor;
    if (!is(copy, {5, 7}) || !is(1 - m.factor, {-4, -6}) || text.str().find("5., 7.") == std::string::npos) return wrong("where a tensor is wanted");
    if (tn_module_tensors(s, chain, TN_STATE).count != 2 || tn_module_tensors(s, chain, TN_BUFFERS).count != 2) return wrong("a buffer that is not saved");
    if (thrown([&] { nn::parameter twice(m, "factor", x); }, TN_E_EXISTS).find("objects.cpp:") == std::string::npos) return wrong("a name that is taken");
    tn_module_set_absent(m, "shift");
    if (thrown([&] { m(x); }, TN_E_STATE).find("has no tensor 'shift' now") == std::string::npos) return wrong("a buffer that is absent");
    if (thrown([&] { chain.call(x, x); }, TN_E_ARGUMENT).find("forward takes 1 input, got 2") == std::string::npos) return wrong("too many inputs");
    return thrown([&] { chain.get("a.facter"); }).find("no tensor 'a.facter'; did you mean 'a.factor'?") == std::string::npos ? wrong("a similar name") : 0;
}

static void keep_lines(void *user, int32_t, const char *text) { *static_cast<std::string *>(user) += std::string(text) + "\n"; }

/* TENON_DEBUG=leaks: what was not destroyed has the line of the program that made it. */
static int leaks()
{
    std::string lines;
    tn_context_options options{};
    options.size = sizeof options;
    options.log = keep_lines;
    options.log_user = &lines;
    setenv("TENON_DEBUG", "leaks", 1);
    auto *ctx = new tenon::context(&options);
    unsetenv("TENON_DEBUG");
    const int from = __LINE__ + 1;
    auto *s = new tenon::scope(*ctx);
    auto *child = new tenon::scope();
    auto *root = new nn::module(*ctx, "leaky");
    auto *fc = new nn::layer(nn::linear(*root, "fc", 2, 2));
    auto *o = new nn::optimizer(*root, nn::sgd(0.5));
    auto *a = new tenon::average(tn_average_create(*root, 0.5));
    auto *scaler = new tenon::grad_scaler(tn_grad_scaler_create(*ctx, nullptr));
    auto *g = new tenon::generator(*ctx, 1);
    auto *set = new tenon::dataset(tn_tensor_dataset_create(*s, TN_TENSORS(tenon::ones({2}))));
    auto *l = new tenon::loader(tn_loader_create(*set, {}));
    const tensor kept = tenon::ones({1}); /* keeps the context until the rest has gone */
    delete ctx;
    delete l, delete set, delete g, delete scaler, delete a, delete o, delete fc, delete root, delete child, delete s;
    const char *const what[] = {"scope of tn_scope_open is open", "scope of tn_scope_open_child is open", "module 'leaky'", "",
                                "optimizer of module", "average of module", "grad scaler", "generator", "tensor_dataset", "loader"};
    for (size_t i = 0; i < std::size(what); i++)
        if (*what[i] && lines.find("objects.cpp:" + std::to_string(from + static_cast<int>(i)) + ": leak: " + what[i]) == std::string::npos) {
            std::printf("%s\n%s", what[i], lines.c_str());
            return wrong("the place of what was not destroyed");
        }
    return 0;
}

/* An output that is absent has its place in the list; a module that cannot be printed leaves the stream as it was. */
static int absent(tn_context *ctx)
{
    tenon::scope s(ctx);
    struct gaps : nn::module {
        using module::module;
        tenon::tensors forward(const tenon::tensors &in) override { return {in[0], tensor(), in[0] * 2, tensor()}; }
    };
    gaps model(ctx);
    std::ostringstream text;
    const tensor x = tenon::ones({2});
    const tenon::tensors some = model.call(x);
    if (some.size() != 3 || some[1].defined() || !tenon::equal(some[2], x * 2)) return wrong("an output that is absent");
    const tensor none;
    for (const std::string &why : {thrown([&] { none.size(0); }), thrown([&] { none.dim(); }), thrown([&] { none.numel(); }), thrown([&] { none.sizes(); }),
                                   thrown([&] { none.dtype(); }), thrown([&] { none.device(); }), thrown([&] { none.item<float>(); }),
                                   thrown([&] { none.to_vector<bool>(); })})
        if (why.find("objects.cpp:") == std::string::npos || why.find("tenon::tensor::") == std::string::npos || why.find(": the tensor is absent") == std::string::npos)
            return wrong(why.c_str());
    if (thrown([&] { text << none; }).find("tn_format: a tensor is missing") == std::string::npos) return wrong("printing no tensor");
    tn_add(s, nullptr, nullptr);
    if (thrown([&] { text << model; }).empty() || !text.good()) return wrong("printing a module after an error");
    return thrown([&] { text << nn::layer(); }).empty() || !text.good() ? wrong("printing no module") : 0;
}

/* The errors of methods and operators begin with this file and the line of the call. */
static int places(tn_context *ctx)
{
    net model(ctx);
    tenon::scope s(ctx);
    tensor a = tenon::ones(TN_INTS(2, 3)), b = tenon::ones(TN_INTS(4)), leaf = tenon::clone(a).set_requires_grad();
    nn::optimizer o(model, nn::sgd());
    model.get("out.weight").set_requires_grad();
    int64_t wide = 1;
    int line = 0, failed = 0;
#define AT(call)                                                                                        \
    do {                                                                                                \
        std::string why = thrown([&] { tenon::scope inner; line = __LINE__; call; });                   \
        if (why.find("objects.cpp:" + std::to_string(line) + ": ") == std::string::npos) {             \
            std::printf("%s: %s\n", #call, why.c_str());                                                \
            failed = 1;                                                                                 \
        }                                                                                               \
    } while (0)
    const tensor none;
    std::ostringstream text;
    AT(a + b);
    AT(a - b);
    AT(a * b);
    AT(a / b);
    AT(-none);
    AT(none + 1);
    AT(none - wide);
    AT(wide + none);
    AT((void)(a == b));
    AT((void)(none < 1));
    AT((void)(0 != none));
    AT(a % b);
    AT(a & a);
    AT(1 | a);
    AT(~a);
    AT(none ^ 1);
    AT(a[7]);
    AT(text << none);
    AT(1.5f - none);
    AT(none * 2);
    AT(2 / none);
    AT(a += b);
    AT(leaf *= 3 * a);
    AT(a.item<int>());
    AT(a.item<double>());
    AT(none.to_vector<float>());
    AT(a.to_vector<int>());
    AT(a.to(999));
    AT(a.backward());
    AT(model.lstm(b));
    AT(model.out.call(a, b));
    AT(o.step(-1));
    AT(a.size(5));
    AT(a.to(TN_INT64).set_requires_grad());
    AT(tensor().set_requires_grad());
    AT(model.get("nothing"));
    AT(model.set("out.weight", a));
    AT(model.load("nothing"));
    AT(model.save("nothing/nothing"));
    AT(o.load("nothing"));
    AT(o.save("nothing/nothing"));
    AT(nn::optimizer(model, nn::adamw(-1)));
    AT(nn::optimizer(tn_sgd_create(model, nn::sgd(-1).options)));
    AT(tenon::context ctx2; ctx2.choose("cude"));
    AT(nn::linear(nn::layer(), "fc", 1, 1));
    AT(a[0] = b);
    AT(a[0] += b);
    AT(tenon::check(tn_module_load(model, "nothing", TN_STRICT)));
    AT(tenon::generator(nullptr, 1));
    AT(tenon::loader l = tn_loader_create(nullptr));
    AT(tensor t = tn_module_tensor(model, "nothing"));
    AT(tenon::scope bad(tn_scope_options{}));
    AT(tenon::topk(a, 9));
    AT(tenon::cat({a, b}));
    AT(tenon::cat({a, none}));
    AT(tenon::hook h = none.register_hook([](const tensor &) {}));
    AT(net other(ctx); nn::linear(other, "out", 3, 3));
    AT(net other(ctx); nn::module(other, "out"));
    AT(net other(ctx); nn::module_list(other, "out"));
    AT(net other(ctx); nn::repeated<pair>(other, "out", 2));
    net broken(ctx);
    tn_layer_create(broken, "out", "Nothing", nullptr, 0);
    if (thrown([&] { nn::linear(broken, "new", 3, 3); }).find("there is no layer 'Nothing'") == std::string::npos) return wrong("the error of a C call");
#undef AT
    if (failed) return wrong("a place");
    tenon::error e(TN_E_STATE, "text", {"objects.cpp", 7});
    {
        tenon::scope inner;
        e.record(inner);
        if (std::string(tn_scope_error(inner)->message) != "objects.cpp:7: text" || tn_scope_error(inner)->line != 7) return wrong("a place that is recorded");
        tn_scope_clear(inner);
    }
    return is(a + wide, {2, 2, 2, 2, 2, 2}) && is(wide - a, {0, 0, 0, 0, 0, 0}) && is(wide + a - wide, {1, 1, 1, 1, 1, 1}) ? 0 : wrong("numbers of 64 bits");
}

static int vectors(tn_context *ctx)
{
    tenon::scope s(ctx);
    tensor f = tenon::from<float>({2}, {1, 2});
    std::string text = thrown([&] { f.to_vector<int>(); }, TN_E_DTYPE);
    if (text.find("int32") == std::string::npos || text.find("float32") == std::string::npos) return wrong("elements of another type");
    if (thrown([&] { f.to(TN_FLOAT16).to_vector<int16_t>(); }, TN_E_DTYPE).empty() || thrown([&] { f.to(TN_INT64).to_vector<double>(); }, TN_E_DTYPE).empty())
        return wrong("elements of another type of the same size");
    if ((f > 1).to_vector<bool>() != std::vector<bool>{false, true} || thrown([&] { f.to_vector<bool>(); }, TN_E_DTYPE).empty()) return wrong("bools");
    const tensor mask = tenon::from<bool>({3}, {true, false, true});
    if (mask.dtype() != TN_BOOL || !is(mask, {1, 0, 1})) return wrong("a tensor of bools");
    if (f.to(TN_FLOAT16).to_vector<uint16_t>() != std::vector<uint16_t>{0x3c00, 0x4000} || f.to(TN_BOOL).to_vector<uint8_t>() != std::vector<uint8_t>{1, 1})
        return wrong("bits of dtypes that C++ has no type for");
    return f.to(TN_INT64).to_vector<long long>() == std::vector<long long>{1, 2} && tenon::from<int16_t>({1}, {-3}).to_vector<int16_t>()[0] == -3
               ? 0
               : wrong("integers");
}

/* Options are structs whose members have the defaults; C++20 names them in the call. */
static int options(tn_context *ctx)
{
    tenon::scope s(ctx);
    tensor x = tenon::reshape(tenon::arange(12.0), TN_INTS(6, 2));
    tenon::dataset set = tn_tensor_dataset_create(s, TN_TENSORS(x));
    tn_loader_options lo;
    if (lo.batch != 1 || lo.prefetch != 2 || lo.ranks != 1) return wrong("defaults of a loader");
    lo.batch = 4;
    tenon::loader l = tn_loader_create(set, lo), one = tn_loader_create(set);
    if (tn_loader_batches(l) != 2 || tn_loader_batches(one) != 6 || !is(tenon::next(l)[0], {0, 1, 2, 3, 4, 5, 6, 7})) return wrong("a loader");
    lo.batch = 0;
    if (thrown([&] { tenon::loader bad = tn_loader_create(set, lo); }, TN_E_ARGUMENT).find("batch") == std::string::npos) return wrong("bad options");

    net model(ctx);
    uint32_t kinds = 0;
    for (tn_optimizer *(*create)(tn_module *, tn_optimizer_options) :
         {tn_sgd_create, tn_adam_create, tn_adamw_create, tn_adagrad_create, tn_adadelta_create, tn_adamax_create, tn_asgd_create, tn_nadam_create,
          tn_radam_create, tn_rmsprop_create, tn_rprop_create, tn_adafactor_create, tn_lbfgs_create}) {
        tn_optimizer_options given = tn_optimizer_defaults(++kinds), want = given;
        tn_optimizer *o = create(model, {});
        if (!o) return wrong(tn_last_error()->message);
        given = *tn_optimizer_group(o, 0);
        want.module = given.module;
        tn_optimizer_destroy(o);
        if (std::memcmp(&given, &want, sizeof want)) return wrong("defaults of an optimiser");
    }
    tn_optimizer_options oo;
    oo.lr = 0.25;
    oo.momentum = 0;
    tn_optimizer *o = tn_sgd_create(model, oo);
    tensor w = tenon::ones(TN_INTS(2)).set_requires_grad();
    tn_optimizer_options group;
    group.weight_decay = 0.5;
    if (tn_optimizer_add_group(o, TN_TENSORS(w), group) || tn_optimizer_group(o, 1)->lr != 0.25) return wrong("a group");
    tenon::sum(w).backward();
    tn_step_options so;
    so.lr = 0.5;
    if (tn_optimizer_step(s, o, so) || !is(w, {0.25, 0.25})) return wrong("a step"); /* 1 - 0.5 * (1 + 0.5) */

    int64_t step = 7, read = 0;
    tn_checkpoint_parts parts;
    parts.module = model;
    parts.loader = l;
    parts.step = &step;
    tenon::check(tn_checkpoint_save("objects.ck", parts));
    parts.step = &read;
    tenon::check(tn_checkpoint_load("objects.ck", parts));
    if (read != 7) return wrong("a checkpoint");

    std::FILE *f = std::fopen("objects.csv", "w");
    std::fputs("1,2\n3,4\n", f);
    std::fclose(f);
    if (!is(tn_csv_read(s, "objects.csv"), {1, 2, 3, 4})) return wrong("lines of numbers");
    if (thrown([] { tenon::scope inner; tensor t = tn_csv_read(inner, "nothing.csv"); }).find("objects.cpp:") == std::string::npos) return wrong("place of a reader");
    const double y[] = {3, 2, 1};
    tn_series curve;
    curve.y = y;
    curve.count = 3;
    if (tn_plot_svg("objects.svg", {&curve, 1})) return wrong("a plot");
    tn_low_rank_options ro;
    ro.q = 2;
    tn_low_rank usv = tn_svd_lowrank(s, x, ro);
    if (tensor(usv.s).size(0) != 2) return wrong("a low rank");
    tn_progress_destroy(tn_progress_create("", 1));
#if __cplusplus >= 202002L
    tenon::loader by_name = tn_loader_create(set, {.batch = 2, .drop_last = 1});
    if (tn_loader_batches(by_name) != 3) return wrong("named options of a loader");
    if (!is(tn_csv_read(s, "objects.csv", {.skip_lines = 1}), {3, 4})) return wrong("named options of a reader");
    if (tn_checkpoint_load("objects.ck", {.module = model, .loader = l, .step = &read})) return wrong("named parts of a run");
    if (tn_plot_svg("objects.svg", TN_SERIES({.name = "loss", .y = y, .count = 3}), {.title = "loss"})) return wrong("a named plot");
    if (tn_optimizer_step(s, o, {.clip_norm = 1, .lr = 0.1})) return wrong("named options of a step");
    tn_optimizer *named = tn_adamw_create(model, {.lr = 0.125});
    if (tn_optimizer_group(named, 0)->lr != 0.125 || tn_optimizer_group(named, 0)->beta2 != 0.999) return wrong("named options of an optimiser");
    tn_optimizer_destroy(named);
    tn_progress_destroy(tn_progress_create("", 1, {.unit = "images"}));
#endif
    tn_optimizer_destroy(o);
    return 0;
}

/* A program of its own, and modules that run one after another. */
static void program(const tenon::program &p)
{
    if (p.arguments.size() != 1) throw std::runtime_error("usage: TEXT");
    if (tenon::ones(TN_INTS(1)).device() != p.device) throw std::runtime_error("a tensor of a program is elsewhere");
    net root(p.ctx);
    struct twice : nn::module {
        using module::module;
        tensor forward(const tensor &x) override { return x * 2; }
    };
    nn::repeated<twice> three{root, "three", 3};
    const nn::repeated<twice> &same = three;
    if (same.size() != 3 || &*same.begin() != &same[0] || &*three.begin() != &three[0] || !is(three(tenon::ones(TN_INTS(2))), {8, 8})) throw std::runtime_error("repeated");
    std::ostringstream printed;
    printed << three;
    if (printed.str().find("(2): twice()") == std::string::npos) throw std::runtime_error(printed.str());
    if (std::string(tn_module_name(three[2])) != "2") throw std::runtime_error("names of repeated modules");
    nn::optimizer made(tn_sgd_create(root, nn::sgd(0.5).options));
    if (tn_optimizer_group(made, 0)->lr != 0.5) throw std::runtime_error("an optimiser that was made");
    tn_optimizer_options bad = nn::sgd(-1).options;
    if (thrown([&] { nn::optimizer none(tn_sgd_create(root, bad)); }).find("lr") == std::string::npos) throw std::runtime_error("an optimiser that was not made");
    if (!is(tenon::raw_map(p.arguments[0], TN_UINT8, TN_INTS(-1)), {'4', '\n'})) throw std::runtime_error("raw_map");
    if (thrown([] { tenon::raw_map("nothing", TN_UINT8, TN_INTS(-1)); }).find("objects.cpp:") == std::string::npos) throw std::runtime_error("place of raw_map");
}

static int programs()
{
    FILE *file = std::fopen("objects.bytes", "wb");
    if (!file || std::fputs("4\n", file) < 0 || std::fclose(file)) return wrong("a file");
    char name[] = "folder/prog", text[] = "objects.bytes", *arguments[] = {name, text, nullptr};
    if (tenon::run(2, arguments, program) != 0) return wrong("a program");
    if (tenon::run(1, arguments, [](const tenon::program &p) { return p.arguments.empty() ? 3 : 0; }) != 3) return wrong("the status of a program");
    auto unseen = [](const tenon::program &) { tn_add(tenon::scope::current(), nullptr, nullptr); };
    if (tenon::run(1, arguments, unseen) != 1) return wrong("a program whose last C call fails");
    setenv("TENON_DEVICE", "cda", 1);
    const int at = __LINE__ + 1;
    const std::string why = thrown([] { tenon::program p; });
    unsetenv("TENON_DEVICE");
    if (why.find(__FILE__ ":" + std::to_string(at) + ": ") != 0 || why.find("cda") == std::string::npos) return wrong(why.c_str());
    return tenon::run(1, arguments, program) == 1 ? 0 : wrong("a program that fails");
}

int main()
{
    tenon::context ctx;
    ctx.manual_seed(1);
    if (ctx.name(ctx.choose("cpu")) != "cpu" || thrown([&] { ctx.choose("nosuch"); }).find("nosuch") == std::string::npos) return wrong("devices");
    if (arithmetic(ctx) || comparisons(ctx) || integer_operators(ctx) || writes(ctx) || items(ctx) || no_pointers(ctx)) return 1;
    if (later_calls(ctx) || errors(ctx) || lifetimes(ctx) || modules(ctx) || trees(ctx) || own_tensors(ctx) || leaks() || absent(ctx) || places(ctx) || vectors(ctx) || lists(ctx) || results(ctx) || options(ctx) || programs()) return 1;
    tenon::progress p("", 1);
    p.start_at(1);
    p.show("100 %%");
    p.show("%d", 7);
    std::puts("well");
    return 0;
}
