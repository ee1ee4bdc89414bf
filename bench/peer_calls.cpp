// SPDX-License-Identifier: Apache-2.0
// The cases of calls.c in PyTorch's C++ interface. peer.py compiles this file if there is a compiler, so that the
// comparison is without the cost of an interpreter.
#include <torch/torch.h>

#include <cstring>

namespace {

constexpr int chain = 100;

struct Case {
    const char *name;
    void (*run)(int64_t n);
};

// Of all cases: the first run of the process names it.
torch::TensorOptions where;

torch::Tensor &a()
{
    static torch::Tensor t = torch::ones({1}, where);
    return t;
}
torch::Tensor &b()
{
    static torch::Tensor t = torch::ones({1}, where);
    return t;
}
torch::Tensor &rows()
{
    static torch::Tensor t = torch::zeros({4, 4}, where);
    return t;
}
torch::Tensor &leaf(int i)
{
    static torch::Tensor t[2] = {torch::ones({1}, where).requires_grad_(), torch::ones({1}, where).requires_grad_()};
    return t[i];
}

volatile double sink;

const Case cases[] = {
    {"add", [](int64_t n) { for (int64_t i = 0; i < n; i++) auto y = torch::add(a(), b()); }},
    {"add_kept",
     [](int64_t n) {
         while (n > 0) {
             torch::Tensor kept[chain];
             for (int64_t i = 0; i < chain && n > 0; i++, n--) kept[i] = torch::add(a(), b());
         }
     }},
    {"add_out",
     [](int64_t n) {
         static torch::Tensor out = torch::ones({1}, where);
         for (int64_t i = 0; i < n; i++) torch::add_out(out, a(), b());
     }},
    {"add_",
     [](int64_t n) {
         static torch::Tensor out = torch::ones({1}, where);
         for (int64_t i = 0; i < n; i++) out.add_(b());
     }},
    {"mul_scalar", [](int64_t n) { for (int64_t i = 0; i < n; i++) auto y = torch::mul(a(), 2.0); }},
    {"unsqueeze", [](int64_t n) { for (int64_t i = 0; i < n; i++) auto y = rows().unsqueeze(0); }},
    {"select", [](int64_t n) { for (int64_t i = 0; i < n; i++) auto y = rows().select(0, 1); }},
    {"transpose", [](int64_t n) { for (int64_t i = 0; i < n; i++) auto y = rows().transpose(0, 1); }},
    {"empty", [](int64_t n) { for (int64_t i = 0; i < n; i++) auto y = torch::empty({1}, where); }},
    {"item", [](int64_t n) { for (int64_t i = 0; i < n; i++) sink = a().item<double>(); }},
    {"chain",
     [](int64_t n) {
         for (int64_t i = 0; i < n; i++) {
             torch::Tensor kept[chain + 1] = {a()};
             for (int k = 0; k < chain; k++) kept[k + 1] = torch::mul(kept[k], b());
         }
     }},
    {"chain_recorded",
     [](int64_t n) {
         for (int64_t i = 0; i < n; i++) {
             torch::Tensor kept[chain + 1] = {leaf(0)};
             for (int k = 0; k < chain; k++) kept[k + 1] = torch::mul(kept[k], leaf(1));
         }
     }},
    {"chain_backward",
     [](int64_t n) {
         for (int64_t i = 0; i < n; i++) {
             torch::Tensor kept[chain + 1] = {leaf(0)};
             for (int k = 0; k < chain; k++) kept[k + 1] = torch::mul(kept[k], leaf(1));
             kept[chain].backward();
             leaf(0).mutable_grad() = torch::Tensor();
             leaf(1).mutable_grad() = torch::Tensor();
         }
     }},
};

} // namespace

// Runs a case n times on a device ("cuda:0"), which is the same in all calls. 0, or 1 where there is no such case.
extern "C" int peer_run(const char *name, int64_t n, const char *device)
{
    if (!where.has_device()) where = where.device(torch::Device(device));
    for (const Case &c : cases) {
        if (std::strcmp(c.name, name) != 0) continue;
        c.run(n);
        return 0;
    }
    return 1;
}
