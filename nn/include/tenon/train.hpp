/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules, optimisers, data and checkpoints in C++17, over tenon.hpp, nn.h, optim.h, data.h and checkpoint.h.
 *
 *     struct net : tenon::nn::module {
 *         tenon::nn::layer in = tenon::nn::linear(*this, "in", 2, 64), out = tenon::nn::linear(*this, "out", 64, 1);
 *         explicit net(tn_context *ctx) : module(ctx, "net") {}
 *         tenon::tensor forward(const tenon::tensor &x) override { return out(tenon::relu(in(x))); }
 *     };
 *
 *     tenon::nn::optimizer o(model, tenon::nn::adamw());
 *     for (...) {
 *         tenon::scope s(ctx);
 *         tenon::mse_loss(model(x), y).backward();
 *         o.step();
 *     }
 *
 * Ownership: a module that has a context is a root and owns its tree; other modules and all layers belong to their parent,
 * and are members of its object or live as long as it does. Errors: tenon::error.
 */
#ifndef TENON_TRAIN_HPP
#define TENON_TRAIN_HPP

#include <deque>
#include <map>
#include <mutex>

#include <tenon/checkpoint.h>
#include <tenon/data.h>
#include <tenon/nn.h>
#include <tenon/optim.h>
#include <tenon/tenon.hpp>

namespace tenon {

/*
 * What trains beside a module. A data set is declared before its loader.
 *
 *     tenon::dataset set = tn_tensor_dataset_create(s, TN_TENSORS(x, y));
 *     tenon::loader batches = tn_loader_create(set, {.batch = 32}); // in C++17: tn_loader_options o; o.batch = 32;
 */
using dataset = owned<tn_dataset, tn_dataset_destroy>;
using loader = owned<tn_loader, tn_loader_destroy>;
using average = owned<tn_average, tn_average_destroy>;
using grad_scaler = owned<tn_grad_scaler, tn_grad_scaler_destroy>;

/* The tensors of the next batch. */
inline tensors next(const loader &l, tn_place at = tn_place::here())
{
    tn_tensors batch = detail::placed(at, [&](tn_scope *s) { return (tn_loader_next)(s, l); });
    if (!batch.count) detail::fail(scope::current());
    return tensors(batch.data, batch.data + batch.count);
}

/* A file as a tensor over its pages (tn_raw_map). */
inline tensor raw_map(const std::string &path, tn_dtype dtype, tn_ints sizes, int64_t offset = 0, tn_place at = tn_place::here())
{
    return detail::placed(at, [&](tn_scope *s) { return (tn_raw_map)(s, path.c_str(), dtype, sizes, offset); });
}

} // namespace tenon

namespace tenon::nn {

/* ---- Layers -------------------------------------------------------------------------------------------- */

/* A module of a tree: what tn_..._create returned. A plain handle. */
class layer {
public:
    layer() noexcept = default;
    explicit layer(tn_module *m) noexcept : m_(m) {}
    /* Of a parent; `m` NULL throws the error of its tree. */
    layer(tn_module *parent, tn_module *m) : m_(m)
    {
        if (!m) throw error(tn_module_failed(parent) ? tn_module_failed(parent) : TN_E_STATE,
                            tn_module_failed(parent) ? tn_module_error(parent) : tn_last_error()->message);
    }
    operator tn_module *() const noexcept { return m_; }

    /* The first output. */
    template <class... T> tensor operator()(const operand &x, const T &...others) const { return tensor(run(x, others...).first); }
    /* All outputs: of an LSTM the sequence, h and c. */
    template <class... T> tensors call(const operand &x, const T &...others) const
    {
        tn_outputs y = run(x, others...);
        tensors all{tensor(y.first)};
        for (tn_tensor *t : y.more)
            if (t) all.emplace_back(t);
        return all;
    }

    /* A parameter or buffer by its name, "fc.weight". Throws if there is none. */
    tensor get(const std::string &name) const
    {
        tn_tensor *t = tn_module_tensor(m_, name.c_str());
        if (!t) throw error(TN_E_NOT_FOUND, std::string("module '") + tn_module_name(m_) + "' has no tensor '" + name + "'");
        return tensor::borrow(t);
    }
    /* Exchanges it for one of the same sizes; two modules with the same tensor share it. */
    void set(const std::string &name, const tensor &t) const { check(tn_module_set_tensor(m_, name.c_str(), t)); }
    tensors parameters() const
    {
        tensors all;
        tn_tensors list = tn_module_parameters(scope::current(), m_);
        for (int64_t i = 0; i < list.count; i++) all.push_back(tensor::borrow(list.data[i]));
        return all;
    }
    int64_t parameter_count() const { return tn_module_parameter_count(m_); }
    void train(bool on = true) const { tn_module_train(m_, on); }
    void zero_grad() const { tn_module_zero_grad(m_); }
    /* 0: stay, keep. */
    void to(tn_device device, tn_dtype dtype = 0) const { check(tn_module_to(m_, device, dtype)); }
    void save(const std::string &path) const { check(tn_module_save(m_, path.c_str())); }
    void load(const std::string &path, uint32_t mode = TN_STRICT) const { check(tn_module_load(m_, path.c_str(), mode)); }

protected:
    tn_module *m_ = nullptr;

private:
    template <class... T> tn_outputs run(const operand &x, const T &...in) const
    {
        tn_outputs y = ::tenon::detail::placed(x.place(), [&](tn_scope *s) { return (tn_module_call)(s, m_, TN_TENSORS(x, in...)); });
        if (!y.first) ::tenon::detail::fail(scope::current());
        return y;
    }
};

/* A list of modules, which the program runs itself. */
inline layer module_list(const layer &parent, const std::string &name) { return layer(parent, tn_module_list_create(parent, name.c_str())); }

inline std::ostream &operator<<(std::ostream &out, const layer &l)
{
    return out << tn_module_format(scope::current(), l);
}

/* ---- Modules of the program ---------------------------------------------------------------------------- */

/* Overrides one of the two functions. Neither copied nor moved: the tree knows its address. */
class module : public layer {
public:
    /* A root. `kind` is what it is called when it is printed. */
    explicit module(tn_context *ctx, const char *name = "net", const char *kind = "Module")
        : layer(made(tn_module_create(ctx, name, kind_of(kind)))), is_root_(true)
    {
        *static_cast<module **>(tn_module_state(m_)) = this;
    }
    module(const layer &parent, const std::string &name, const char *kind = "Module")
        : layer(parent, tn_module_add(parent, name.c_str(), kind_of(kind)))
    {
        *static_cast<module **>(tn_module_state(m_)) = this;
    }
    virtual ~module()
    {
        *static_cast<module **>(tn_module_state(m_)) = nullptr;
        if (is_root_) tn_module_destroy(m_);
    }
    module(const module &) = delete;
    module &operator=(const module &) = delete;

    /* One input, one output. */
    virtual tensor forward(const tensor &)
    {
        throw error(TN_E_STATE, std::string("module '") + tn_module_name(m_) + "' (" + tn_module_class_name(m_) + ") has no forward function");
    }
    /* Several inputs or outputs. */
    virtual tensors forward(const tensors &in) { return {forward(in[0])}; }

private:
    static tn_module *made(tn_module *m)
    {
        if (!m) check(tn_last_error() ? tn_last_error()->code : TN_E_OUT_OF_MEMORY);
        return m;
    }
    /* Classes live as long as the process: a tree may outlive the objects of its modules. */
    static const tn_module_class *kind_of(const char *name)
    {
        static std::mutex lock;
        static auto &kinds = *new std::map<std::string, tn_module_class>;
        std::lock_guard<std::mutex> guard(lock);
        auto [at, is_new] = kinds.try_emplace(name);
        if (is_new) {
            at->second.size = sizeof(tn_module_class);
            at->second.name = at->first.c_str();
            at->second.state_bytes = sizeof(module *);
            at->second.forward = run_forward;
        }
        return &at->second;
    }
    /* Called by the library: no exception may leave. */
    static tn_tensor *run_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more) noexcept
    {
        module *self = *static_cast<module **>(tn_module_state(m));
        borrowed_scope current(s);
        try {
            if (!self) throw error(TN_E_STATE, "the object of this module is gone");
            tensors inputs;
            for (int64_t i = 0; i < in.count; i++) inputs.push_back(tensor::borrow(in.data[i]));
            tensors out = self->forward(inputs);
            if (out.empty() || out.size() > TN_MODULE_MAX_OUTPUTS) throw error(TN_E_STATE, "forward returned " + std::to_string(out.size()) + " outputs");
            for (size_t i = 1; i < out.size(); i++) more[i - 1] = tn_scope_adopt(s, tn_retain(out[i]));
            return tn_scope_adopt(s, tn_retain(out[0]));
        } catch (const error &e) {
            e.record(s);
        } catch (const std::exception &e) {
            tn_scope_fail(s, TN_E_STATE, e.what());
        } catch (...) {
            tn_scope_fail(s, TN_E_STATE, "a module's forward function threw an unknown exception");
        }
        return nullptr;
    }
    bool is_root_ = false;
};

/* The name of a class of the program, without its namespaces. */
template <class T> std::string type_name()
{
    const std::string text = __PRETTY_FUNCTION__; /* "... [with T = name; ...]" or "... [T = name]" */
    const size_t from = text.find("T = ") + 4;
    const std::string name = text.substr(from, text.find_first_of(";]", from) - from);
    return name.substr(name.rfind(':') + 1);
}

/*
 * Modules of one class, named "0", "1", ..., which run one after another: repeated<block> h{*this, "h", 12}; y = h(x). T is made
 * with a parent and a name, and printed with the name of the class if its constructors are those of module.
 */
template <class T> class repeated : public layer {
public:
    repeated(const layer &parent, const std::string &name, int64_t count) : layer(parent, tn_module_add(parent, name.c_str(), nullptr))
    {
        for (int64_t i = 0; i < count; i++)
            if constexpr (std::is_constructible_v<T, const layer &, std::string, const char *>)
                items_.emplace_back(*this, std::to_string(i), type_name<T>().c_str());
            else
                items_.emplace_back(*this, std::to_string(i));
    }
    auto begin() { return items_.begin(); }
    auto end() { return items_.end(); }
    T &operator[](size_t i) { return items_.at(i); }
    size_t size() const { return items_.size(); }

private:
    std::deque<T> items_; /* which never moves what it holds */
};

/* ---- Optimisers ---------------------------------------------------------------------------------------- */

/* A kind and its options: auto k = adamw(); k.options.lr = 3e-4; or adamw(3e-4). */
struct kind {
    uint32_t number;
    tn_optimizer_options options;
    kind(uint32_t n, double lr) : number(n), options(tn_optimizer_defaults(n))
    {
        if (lr != TN_NOT_GIVEN) options.lr = lr;
    }
};
inline kind sgd(double lr = TN_NOT_GIVEN) { return {TN_SGD, lr}; }
inline kind adam(double lr = TN_NOT_GIVEN) { return {TN_ADAM, lr}; }
inline kind adamw(double lr = TN_NOT_GIVEN) { return {TN_ADAMW, lr}; }
inline kind adagrad(double lr = TN_NOT_GIVEN) { return {TN_ADAGRAD, lr}; }
inline kind adadelta(double lr = TN_NOT_GIVEN) { return {TN_ADADELTA, lr}; }
inline kind adamax(double lr = TN_NOT_GIVEN) { return {TN_ADAMAX, lr}; }
inline kind asgd(double lr = TN_NOT_GIVEN) { return {TN_ASGD, lr}; }
inline kind nadam(double lr = TN_NOT_GIVEN) { return {TN_NADAM, lr}; }
inline kind radam(double lr = TN_NOT_GIVEN) { return {TN_RADAM, lr}; }
inline kind rmsprop(double lr = TN_NOT_GIVEN) { return {TN_RMSPROP, lr}; }
inline kind rprop(double lr = TN_NOT_GIVEN) { return {TN_RPROP, lr}; }
inline kind adafactor(double lr = TN_NOT_GIVEN) { return {TN_ADAFACTOR, lr}; }
/* Its step is tn_optimizer_step_closure. */
inline kind lbfgs(double lr = TN_NOT_GIVEN) { return {TN_LBFGS, lr}; }
/* For matrices alone. */
inline kind muon(double lr = TN_NOT_GIVEN) { return {TN_MUON, lr}; }

class optimizer : public owned<tn_optimizer, tn_optimizer_destroy> {
public:
    /* For all parameters of a module, which must outlive it. */
    optimizer(const layer &of, kind k) : owned(created(of, k)) {}
    /* What tn_adamw_create(net, {.lr = 3e-4, .beta2 = 0.95}) and its like returned; NULL throws why it was not made. */
    explicit optimizer(tn_optimizer *o) : owned(o) {}

    /* Changes the parameters from their gradients, and sets these to zero. */
    void step(double lr = TN_NOT_GIVEN, double clip_norm = 0, tn_place at = tn_place::here()) const
    {
        tn_step_options options;
        options.lr = lr;
        options.clip_norm = clip_norm;
        if (tn_optimizer_step(scope::current(), *this, options, at)) ::tenon::detail::fail(scope::current());
        tn_optimizer_zero_grad(*this);
    }
    void save(const std::string &path) const { check(tn_optimizer_save(*this, path.c_str())); }
    void load(const std::string &path) const { check(tn_optimizer_load(*this, path.c_str())); }

private:
    static tn_optimizer *created(const layer &of, kind k)
    {
        k.options.module = of;
        return tn_optimizer_create(k.number, &k.options);
    }
};

} // namespace tenon::nn

#include <tenon/nn_layers.hpp>

#endif
