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
 * and are members of its object or live as long as it does. Errors: tenon::error. The exception takes the error out of the tree,
 * which is as it was before the call. The error of a C call stays in the tree, and the next call of this header throws it.
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
inline tensor raw_map(const std::string &path, tn_dtype dtype, const int_list &sizes, int64_t offset = 0, tn_place at = tn_place::here())
{
    return detail::placed(at, [&](tn_scope *s) { return (tn_raw_map)(s, path.c_str(), dtype, sizes, offset); });
}

} // namespace tenon

namespace tenon::nn {

namespace detail {
using namespace ::tenon::detail;
/* Makes a call that changes a tree of modules. Its error begins with the place. */
template <class F> auto changed(tn_place at, F call)
{
    tn_module_place(at.file, static_cast<int32_t>(at.line));
    auto result = made(at, call);
    tn_module_place(nullptr, 0);
    return result;
}
/* An exception with this text is on its way: the tree forgets its error if that is the one. Several threads may run one tree. */
inline void forget(tn_module *m, const char *text)
{
    static std::mutex lock;
    std::lock_guard<std::mutex> guard(lock);
    const char *own = m && tn_module_failed(m) ? tn_module_error(m) : nullptr;
    if (own && std::string(text).find(std::string(own, 0, 500)) != std::string::npos) tn_module_clear_error(m);
}
/* Throws the error of a call that changes a tree, and takes it out of the tree. */
template <class F> void change(tn_module *m, tn_place at, F call)
{
    const int32_t status = changed(at, call);
    if (!status) return;
    error e = m && tn_module_failed(m) ? error(status, tn_module_error(m)) : error(status, tn_last_error(), at);
    forget(m, e.what());
    throw e;
}
} // namespace detail

/* ---- Layers -------------------------------------------------------------------------------------------- */

/* Sequences of different lengths, the longest first, without padding; the members are those of tn_packed_sequence. */
struct packed_sequence {
    tensor data, batch_sizes, sorted_indices, unsorted_indices;
};
/* The padded tensor and the lengths. */
struct padded_sequence {
    tensor data, lengths;
};
/* What a recurrent layer gives for packed sequences; `c` is absent but for LSTM. */
struct packed_outputs {
    packed_sequence sequence;
    tensor h, c;
};

/* A module of a tree: what tn_..._create returned. A plain handle. */
class layer {
public:
    layer() noexcept = default;
    explicit layer(tn_module *m) noexcept : m_(m) {}
    /* Of a parent; `m` NULL throws the error of its tree. */
    layer(tn_module *parent, tn_module *m, tn_place at = tn_place::here()) : m_(m)
    {
        if (m) return;
        const int32_t status = tn_module_failed(parent);
        const tn_error *last = tn_last_error();
        const bool is_last = !status || (last && tn_module_error(parent) == std::string(last->message));
        error e = is_last ? error(status ? status : TN_E_STATE, last, at)
                          : error(status, tn_module_error(parent), parent ? tn_place{nullptr, 0} : at);
        detail::forget(parent, e.what());
        throw e;
    }
    /* The same of what `make` returns, which is called with that place. */
    template <class F> layer(tn_module *parent, tn_place at, F make) : layer(parent, detail::changed(at, make), at) {}
    operator tn_module *() const noexcept { return m_; }

    /* The first output. */
    template <class... T> tensor operator()(const operand &x, const T &...others) const { return tensor(run(x, others...).first); }
    /* All outputs, to the last that is there: of an LSTM the sequence, h and c. */
    template <class... T> tensors call(const operand &x, const T &...others) const
    {
        tn_outputs y = run(x, others...);
        size_t count = std::size(y.more);
        while (count && !y.more[count - 1]) count--;
        tensors all{tensor(y.first)};
        for (size_t i = 0; i < count; i++) all.push_back(detail::one_of(y.more[i]));
        return all;
    }

    /* Packed sequences, for an RNN, LSTM or GRU. `h` and `c` are its first states; absent ones are zeros. */
    packed_outputs call_packed(const packed_sequence &packed, const tensor &h = {}, const tensor &c = {}, tn_place at = tn_place::here()) const;

    /* A parameter or buffer by its name, "fc.weight". Throws if there is none. */
    tensor get(const std::string &name, tn_place at = tn_place::here()) const
    {
        tn_tensor *t = tn_module_tensor(m_, name.c_str());
        if (!t) throw error(TN_E_NOT_FOUND, std::string("module '") + tn_module_name(m_) + "' has no tensor '" + name + "'" + similar_to(name), at);
        return tensor::borrow(t);
    }
    /* Exchanges it for one of the same sizes; two modules with the same tensor share it. */
    void set(const std::string &name, const tensor &t, tn_place at = tn_place::here()) const
    {
        detail::change(m_, at, [&] { return tn_module_set_tensor(m_, name.c_str(), t); });
    }
    tensors parameters(tn_place at = tn_place::here()) const
    {
        tn_tensors list = detail::result_of(at, [&](tn_scope *s) { return (tn_module_parameters)(s, m_); });
        return detail::borrowed(list.data, list.count);
    }
    int64_t parameter_count() const { return tn_module_parameter_count(m_); }
    void train(bool on = true) const { tn_module_train(m_, on); }
    void zero_grad() const { tn_module_zero_grad(m_); }
    /* 0: stay, keep. */
    void to(tn_device device, tn_dtype dtype = 0, tn_place at = tn_place::here()) const
    {
        detail::change(m_, at, [&] { return tn_module_to(m_, device, dtype); });
    }
    void save(const std::string &path, tn_place at = tn_place::here()) const
    {
        detail::change(m_, at, [&] { return tn_module_save(m_, path.c_str()); });
    }
    void load(const std::string &path, uint32_t mode = TN_STRICT, tn_place at = tn_place::here()) const
    {
        detail::change(m_, at, [&] { return tn_module_load(m_, path.c_str(), mode); });
    }

    /*
     * Hooks; what they return ends before the module does: hook h = fc.register_forward_hook([](const tensors &in, const tensor &out) { ... }).
     * Before forward: [](tensors &in), which may exchange inputs.
     */
    template <class F> hook register_forward_pre_hook(F f, tn_place at = tn_place::here()) const
    {
        static_assert(std::is_void_v<std::invoke_result_t<F &, tensors &>>, "the hook exchanges inputs in its list, and returns nothing");
        tn_module_hook h{};
        h.before = [](void *user, tn_scope *s, tn_module *, tn_tensor **in, uint32_t count) {
            exchange(s, in, count, [&](tensors &all) { (*static_cast<F *>(user))(all); });
        };
        return added(h, std::move(f), at);
    }
    /* After it: [](const tensors &in, const tensor &out), which returns another first output, an absent tensor for no change, or nothing. */
    template <class F> hook register_forward_hook(F f, tn_place at = tn_place::here()) const
    {
        tn_module_hook h{};
        h.after = [](void *user, tn_scope *s, tn_module *, tn_tensors in, tn_tensor *out) -> tn_tensor * {
            tn_tensor *other = nullptr;
            guarded(s, "a hook", [&] {
                const tensors all = detail::borrowed(in.data, in.count);
                const tensor y = tensor::borrow(out);
                other = detail::given(s, detail::result_of_hook(*static_cast<F *>(user), all, y));
            });
            return other;
        };
        return added(h, std::move(f), at);
    }
    /* In backward: [](const tensor &grad_out, tensors &grad_in), the gradients of the first output and of the inputs, which it may
     * exchange. Absent: an input without one. */
    template <class F> hook register_full_backward_hook(F f, tn_place at = tn_place::here()) const
    {
        static_assert(std::is_void_v<std::invoke_result_t<F &, const tensor &, tensors &>>,
                      "the hook exchanges gradients in its list, and returns nothing");
        tn_module_hook h{};
        h.backward = [](void *user, tn_scope *s, tn_module *, tn_tensor *grad_out, tn_tensor **grad_in, uint32_t count) {
            exchange(s, grad_in, count, [&](tensors &all) {
                const tensor out = tensor::borrow(grad_out);
                (*static_cast<F *>(user))(out, all);
            });
        };
        return added(h, std::move(f), at);
    }

protected:
    tn_module *m_ = nullptr;

private:
    template <class... T> tn_outputs run(const operand &x, const T &...in) const
    {
        tn_outputs y = detail::placed(x.place(), [&](tn_scope *s) { return (tn_module_call)(s, m_, TN_TENSORS(x, in...)); });
        if (y.first) return y;
        const tn_error *e = tn_scope_error(scope::current());
        if (e && tn_module_failed(m_)) detail::forget(m_, e->message); /* a lazy layer, or the error of a C call */
        detail::fail(scope::current());
    }
    /* "; did you mean 'fc.weight'?", or "". */
    std::string similar_to(const std::string &name) const
    {
        tn_scope *s = m_ ? tn_scope_open(tn_module_context(m_)) : nullptr;
        if (s) tn_named_get(s, tn_module_tensors(s, m_, TN_PARAMETERS | TN_BUFFERS), name.c_str());
        const std::string text = s && tn_scope_error(s) ? tn_scope_error(s)->message : "";
        tn_scope_close(s);
        const size_t at = text.rfind("; did you mean '");
        return at == std::string::npos ? "" : text.substr(at);
    }
    /* Runs a hook over tensors that it may exchange. */
    template <class F> static void exchange(tn_scope *s, tn_tensor **items, uint32_t count, F run) noexcept
    {
        guarded(s, "a hook", [&] {
            tensors all = detail::borrowed(items, count);
            run(all);
            if (all.size() != count)
                throw error(TN_E_ARGUMENT, "a hook made a list of " + std::to_string(all.size()) + " of " + std::to_string(count) + " tensors");
            for (uint32_t i = 0; i < count; i++)
                if (all[i].get() != items[i]) items[i] = detail::given(s, all[i]);
        });
    }
    template <class F> hook added(tn_module_hook &h, F f, tn_place at) const
    {
        auto kept = std::make_shared<F>(std::move(f));
        h.size = sizeof h;
        h.user = kept.get();
        const uint64_t handle = tn_module_add_hook(m_, &h);
        if (!handle) throw error(m_ ? TN_E_OUT_OF_MEMORY : TN_E_STATE, "tenon::nn::layer: the hook was not added", at);
        return hook(kept, [m = m_, handle] { tn_module_remove_hook(m, handle); });
    }
};

/* A list of modules, which the program runs itself. */
inline layer module_list(const layer &parent, const std::string &name, tn_place at = tn_place::here())
{
    return layer(parent, at, [&] { return tn_module_list_create(parent, name.c_str()); });
}

inline std::ostream &operator<<(std::ostream &out, const layer &l)
{
    tn_scope *s = scope::current();
    const char *text = tn_module_format(s, l);
    if (!text && !tn_scope_failed(s)) tn_scope_fail(s, TN_E_STATE, "module: it is NULL");
    if (!text) detail::fail(s);
    return out << text;
}

/* ---- Packed sequences ---------------------------------------------------------------------------------- */

namespace detail {
inline packed_sequence taken(const tn_packed_sequence &p)
{
    return {one_of(p.data), one_of(p.batch_sizes), one_of(p.sorted_indices), one_of(p.unsorted_indices)};
}
inline tn_packed_sequence lent(const packed_sequence &p)
{
    return {p.data, p.batch_sizes, p.sorted_indices, p.unsorted_indices};
}
} // namespace detail

/* From a padded tensor, [steps, batch, ...] or with batch_first [batch, steps, ...], and the lengths, int64 [batch]. With
 * enforce_sorted these must not rise. */
inline packed_sequence pack_padded_sequence(const tensor &input, const tensor &lengths, bool batch_first = false, bool enforce_sorted = true,
                                            tn_place at = tn_place::here())
{
    return detail::taken(
        detail::result_of(at, [&](tn_scope *s) { return (tn_pack_padded_sequence)(s, input, lengths, batch_first, enforce_sorted); }));
}
/* From a list of sequences, [steps, ...] each. */
inline packed_sequence pack_sequence(const tensor_list &sequences, bool enforce_sorted = true, tn_place at = tn_place::here())
{
    return detail::taken(detail::result_of(at, [&](tn_scope *s) { return (tn_pack_sequence)(s, sequences, enforce_sorted); }));
}
/* Back, in the order in which they were given; at least total_length steps long. */
inline padded_sequence pad_packed_sequence(const packed_sequence &packed, bool batch_first = false, double padding_value = 0,
                                           int64_t total_length = 0, tn_place at = tn_place::here())
{
    const tn_padded_sequence y = detail::result_of(
        at, [&](tn_scope *s) { return (tn_pad_packed_sequence)(s, detail::lent(packed), batch_first, padding_value, total_length); });
    return {detail::one_of(y.data), detail::one_of(y.lengths)};
}
/* The sequences alone, without padding. */
inline tensors unpack_sequence(const packed_sequence &packed, tn_place at = tn_place::here())
{
    return detail::one_of(detail::result_of(at, [&](tn_scope *s) { return (tn_unpack_sequence)(s, detail::lent(packed)); }));
}
inline tensors unpad_sequence(const tensor &padded, const tensor &lengths, bool batch_first = false, tn_place at = tn_place::here())
{
    return detail::one_of(detail::result_of(at, [&](tn_scope *s) { return (tn_unpad_sequence)(s, padded, lengths, batch_first); }));
}
inline packed_outputs layer::call_packed(const packed_sequence &packed, const tensor &h, const tensor &c, tn_place at) const
{
    const tn_packed_outputs y = detail::result_of(at, [&](tn_scope *s) { return (tn_module_call_packed)(s, m_, detail::lent(packed), h, c); });
    return {detail::taken(y.sequence), detail::one_of(y.h), detail::one_of(y.c)};
}

/* ---- Modules of the program ---------------------------------------------------------------------------- */

/* Overrides one of the two functions; without one its children run in order, as nn.Sequential has them. Neither copied nor moved: the
 * tree knows its address. */
class module : public layer {
public:
    /* A root. `kind` is what it is called when it is printed. */
    explicit module(tn_context *ctx, const char *name = "net", const char *kind = "Module", tn_place at = tn_place::here())
        : layer(there(detail::made(at, [&] { return tn_module_create(ctx, name, kind_of(kind)); }), at)), is_root_(true)
    {
        *static_cast<module **>(tn_module_state(m_)) = this;
    }
    module(const layer &parent, const std::string &name, const char *kind = "Module", tn_place at = tn_place::here())
        : layer(parent, at, [&] { return tn_module_add(parent, name.c_str(), kind_of(kind)); })
    {
        *static_cast<module **>(tn_module_state(m_)) = this;
    }
    virtual ~module()
    {
        *static_cast<module **>(tn_module_state(m_)) = nullptr;
        if (is_root_)
            tn_module_destroy(m_);
        else if (std::uncaught_exceptions() > exceptions_) /* its own constructor, perhaps: the name is free again */
            tn_module_undo_add(m_);
    }
    module(const module &) = delete;
    module &operator=(const module &) = delete;

    /* One input, one output. */
    virtual tensor forward(const tensor &x)
    {
        tensor y = x;
        for (uint32_t i = 0; i < tn_module_child_count(m_); i++) y = layer(tn_module_child_at(m_, i))(y);
        return y;
    }
    /* Several inputs or outputs. */
    virtual tensors forward(const tensors &in)
    {
        if (in.size() != 1) throw error(TN_E_ARGUMENT, "module: forward takes 1 input, got " + std::to_string(in.size()));
        return {forward(in[0])};
    }

private:
    static tn_module *there(tn_module *m, tn_place at)
    {
        if (!m) check(tn_last_error() ? tn_last_error()->code : TN_E_OUT_OF_MEMORY, at);
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
        tn_tensor *first = nullptr;
        guarded(s, "a module's forward function", [&] {
            if (!self) throw error(TN_E_STATE, "the object of this module is gone");
            tensors out = self->forward(detail::borrowed(in.data, in.count));
            if (out.empty() || out.size() > TN_MODULE_MAX_OUTPUTS) throw error(TN_E_STATE, "forward returned " + std::to_string(out.size()) + " outputs");
            for (size_t i = 1; i < out.size(); i++) more[i - 1] = detail::given(s, out[i]);
            first = detail::given(s, out[0]);
        });
        return first;
    }
    bool is_root_ = false;
    int exceptions_ = std::uncaught_exceptions();
};

/*
 * A parameter of the program's module: it is trained and saved, and moves with the module. The object is a handle, a member of the
 * module's, and is taken where a tensor is wanted. It gives the tensor that the module has at that time: behind to() and set()
 * the new one. A tensor that is kept in a variable is then the old one, which is not trained.
 *
 *     struct scaled : tenon::nn::module {
 *         tenon::nn::parameter factor{*this, "factor", tenon::ones({3})};
 *         tenon::nn::buffer mean{*this, "mean", tenon::zeros({3})};
 *         using module::module;
 *         tenon::tensor forward(const tenon::tensor &x) override { return (x - mean) * factor; }
 *     };
 */
class parameter : public tensor_handle {
public:
    parameter() noexcept = default;
    parameter(const layer &of, const std::string &name, const tensor &value, tn_place at = tn_place::here())
        : parameter(of, name, at, [&] { return tn_module_add_parameter(of, name.c_str(), value); })
    {
    }
    /* The present tensor. Throws if there is none. */
    tensor get(tn_place at = tn_place::here()) const { return tensor::borrow(current(at)); }
    tn_tensor *current(tn_place at = tn_place::here()) const
    {
        tn_tensor *t = tn_module_tensor(m_, name_.c_str());
        if (!t) throw error(TN_E_STATE, std::string("module '") + tn_module_name(m_) + "' has no tensor '" + name_ + "' now", at);
        return t;
    }
    tensor grad(tn_place at = tn_place::here()) const { return get(at).grad(at); }
    operator tensor() const { return get(made_); }
    template <class T, detail::pointer<T *> = 0> operator T *() const { return current(made_); }
    explicit operator bool() const = delete;

protected:
    template <class F> parameter(const layer &of, const std::string &name, tn_place at, F add) : m_(of), name_(name), made_(at)
    {
        detail::change(m_, at, [&] { return add() ? TN_OK : m_ ? tn_module_failed(m_) : TN_E_STATE; });
    }

private:
    tn_module *m_ = nullptr;
    std::string name_;
    tn_place made_{nullptr, 0};
};

/* The same of a tensor that is not trained. Without `is_saved` it is not part of the state. */
class buffer : public parameter {
public:
    buffer() noexcept = default;
    buffer(const layer &of, const std::string &name, const tensor &value, bool is_saved = true, tn_place at = tn_place::here())
        : parameter(of, name, at, [&] { return tn_module_add_buffer(of, name.c_str(), value, is_saved ? 0 : TN_BUFFER_NOT_PERSISTENT); })
    {
    }
};

/*
 * Modules of one class, named "0", "1", ..., which run one after another: repeated<block> h{*this, "h", 12}; y = h(x). T is made
 * with a parent and a name, and printed with the name of the class if its constructors are those of module.
 */
template <class T> class repeated : public layer {
public:
    repeated(const layer &parent, const std::string &name, int64_t count, tn_place at = tn_place::here())
        : layer(parent, at, [&] { return tn_module_add(parent, name.c_str(), nullptr); })
    {
        try {
            for (int64_t i = 0; i < count; i++) add(i, at);
        } catch (...) {
            items_.clear();
            tn_module_undo_add(m_);
            throw;
        }
    }
    auto begin() { return items_.begin(); }
    auto end() { return items_.end(); }
    auto begin() const { return items_.begin(); }
    auto end() const { return items_.end(); }
    T &operator[](size_t i) { return items_.at(i); }
    const T &operator[](size_t i) const { return items_.at(i); }
    size_t size() const { return items_.size(); }

private:
    void add(int64_t i, tn_place at)
    {
        if constexpr (std::is_constructible_v<T, const layer &, std::string, const char *, tn_place>)
            items_.emplace_back(*this, std::to_string(i), detail::type_name<T>().c_str(), at);
        else if constexpr (std::is_constructible_v<T, const layer &, std::string, const char *>)
            items_.emplace_back(*this, std::to_string(i), detail::type_name<T>().c_str());
        else
            items_.emplace_back(*this, std::to_string(i));
    }
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
/* Its step takes a closure. */
inline kind lbfgs(double lr = TN_NOT_GIVEN) { return {TN_LBFGS, lr}; }
/* For matrices alone. */
inline kind muon(double lr = TN_NOT_GIVEN) { return {TN_MUON, lr}; }

class optimizer : public owned<tn_optimizer, tn_optimizer_destroy> {
public:
    /* For all parameters of a module, which must outlive it. */
    optimizer(const layer &of, kind k, tn_place at = tn_place::here()) : owned(created(of, k, at), at) {}
    /* What tn_adamw_create(net, {.lr = 3e-4, .beta2 = 0.95}) and its like returned; NULL throws why it was not made. */
    explicit optimizer(tn_optimizer *o, tn_place at = tn_place::here()) : owned(o, at) {}

    /*
     * Changes the parameters from their gradients, and then clears these: behind it grad() is absent, and the next backward begins
     * anew. The C call tn_optimizer_step(s, o, options) leaves them, for a program that looks at them or clears them itself.
     */
    void step(double lr = TN_NOT_GIVEN, double clip_norm = 0, tn_place at = tn_place::here()) const
    {
        tn_step_options options;
        options.lr = lr;
        options.clip_norm = clip_norm;
        if (tn_optimizer_step(scope::current(at), *this, options, at)) detail::fail(scope::current(at));
        tn_optimizer_zero_grad(*this);
    }
    /*
     * A step whose `closure` runs the model: it clears the gradients, runs backward and returns the loss. lbfgs calls it several
     * times, the others once. Returns the first loss: o.step([&] { net.zero_grad(); ... return loss; }). The gradients of the last
     * run stay, as in C and in PyTorch: the closure must clear them, or they add up.
     */
    template <class F, std::enable_if_t<std::is_invocable_r_v<tensor, F &>, int> = 0> tensor step(F closure, tn_place at = tn_place::here()) const
    {
        auto run = [](void *user, tn_scope *s) -> tn_tensor * {
            tn_tensor *loss = nullptr;
            guarded(s, "a closure", [&] { loss = detail::given(s, (*static_cast<F *>(user))()); });
            return loss;
        };
        return detail::placed(at, [&](tn_scope *s) { return (tn_optimizer_step_closure)(s, *this, run, &closure); });
    }
    void save(const std::string &path, tn_place at = tn_place::here()) const { check(tn_optimizer_save(*this, path.c_str()), at); }
    void load(const std::string &path, tn_place at = tn_place::here()) const { check(tn_optimizer_load(*this, path.c_str()), at); }

private:
    static tn_optimizer *created(const layer &of, kind k, tn_place at)
    {
        k.options.module = of;
        return detail::made(at, [&] { return tn_optimizer_create(k.number, &k.options); });
    }
};

} // namespace tenon::nn

#include <tenon/nn_layers.hpp>

#endif
