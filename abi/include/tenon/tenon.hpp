/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenon in C++17: objects that release what they hold, operators, exceptions. Header only; the calls below are those of
 * the C headers, with which they mix: a tenon::tensor is taken where a tn_tensor * is wanted, a tenon::scope where a
 * tn_scope * is.
 *
 *     tenon::context ctx;
 *     tenon::scope s(ctx);
 *     tenon::tensor a = tenon::randn(TN_INTS(2, 3)), b = tenon::ones(TN_INTS(3));
 *     std::cout << tenon::softmax(a + b * 2, -1) << '\n';
 *
 * Scopes: calls run in the current scope, the last one of the thread that was opened and is still there. Scopes are local
 * variables, which end in the reverse order. A tensor keeps its memory for as long as one of its objects is there, also
 * beyond the scope.
 * Errors: a call that fails throws tenon::error, whose text begins with the place of the call in the program. The exception
 * takes the error out of the scope, which can be used again at once. A C call that fails throws nothing: the error stays in the
 * scope, and the next call of this header throws it.
 * Threads: as in C; each thread has its own current scope.
 */
#ifndef TENON_TENON_HPP
#define TENON_TENON_HPP

#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tenon/tenon.h>

namespace tenon {

/* A status and its text, which begins with the place of the call that failed. */
class error : public std::runtime_error {
public:
    error(int32_t status, const std::string &text, tn_place at = {nullptr, 0})
        : std::runtime_error(prefix(at) + text), status_(status), line_(at.line), prefix_(prefix(at).size())
    {
    }
    /* A C call's error, or one of that status if there is none. `at` is its place if it has none. */
    error(int32_t status, const tn_error *e, tn_place at = {nullptr, 0})
        : std::runtime_error((e && e->file ? std::string() : prefix(at)) + (e && e->message ? e->message : tn_status_text(status))),
          status_(e && e->code ? e->code : status), line_(e && e->file ? e->line : at.line),
          prefix_(prefix(e && e->file ? tn_place{e->file, e->line} : at).size())
    {
    }
    /* TN_E_... */
    int32_t status() const noexcept { return status_; }
    /* Fails a scope with this error, if it has not failed yet: for functions that C code calls, which no exception may leave. */
    void record(tn_scope *s) const
    {
        if (tn_scope_failed(s)) return;
        tn_scope_fail(s, status_, what() + prefix_);
        if (prefix_) tn_scope_place(s, std::string(what(), prefix_ - prefix({"", line_}).size()).c_str(), line_);
    }

private:
    static std::string prefix(tn_place at)
    {
        if (!at.file) return std::string();
        return std::string(at.file).append(":").append(std::to_string(at.line)).append(": ");
    }
    int32_t status_;
    uint32_t line_;
    size_t prefix_; /* its length */
};

namespace detail {
[[noreturn]] inline void fail(int32_t status, const tn_error *e, tn_place at = {nullptr, 0})
{
    throw error(status, e, at);
}
/* Throws the scope's error, and takes it out of the scope. */
[[noreturn]] inline void fail(tn_scope *s, tn_place at = {nullptr, 0})
{
    error e(TN_E_STATE, tn_scope_error(s), at);
    tn_scope_clear(s);
    throw e;
}
/* The same of the current scope if it has failed; else throws the thread's last error. */
[[noreturn]] inline void fail_any(int32_t status, tn_place at);
/* What a function without a scope made: its error has the place, and so has the object in the list of TENON_DEBUG=leaks. */
template <class F> auto made(tn_place at, F call)
{
    const uint64_t before = tn_error_count();
    auto result = call();
    tn_error_place(before, at.file, at.line);
    return result;
}
} // namespace detail

/* Throws what a C call returned: the error of the current scope if it has failed, or the thread's last one. */
inline void check(int32_t status, tn_place at = tn_place::here())
{
    if (status != TN_OK) detail::fail_any(status, at);
}

/*
 * An object of the C library, which is destroyed with this one; it is taken where a pointer to it is wanted.
 *
 *     tenon::owned<tn_dataset, tn_dataset_destroy> set = tn_tensor_dataset_create(s, TN_TENSORS(x, y));
 *
 * What others use is declared before them. NULL throws the error, as check does. TENON_DEBUG=leaks lists the object with this
 * place.
 */
template <class T, auto destroy> class owned {
public:
    owned() noexcept = default;
    owned(T *object, tn_place at = tn_place::here()) : object_(object)
    {
        if (!object) detail::fail_any(TN_E_STATE, at);
        tn_debug_object_place(object, at.file, at.line);
    }
    ~owned()
    {
        if (object_) destroy(object_);
    }
    owned(owned &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    owned &operator=(owned &&other) noexcept
    {
        owned taken(std::move(other)); /* and destroys what this one held */
        std::swap(object_, taken.object_);
        return *this;
    }
    owned(const owned &) = delete;
    owned &operator=(const owned &) = delete;
    operator T *() const noexcept { return object_; }

private:
    T *object_ = nullptr;
};

/* ---- Contexts and scopes ------------------------------------------------------------------------------- */

class context : public owned<tn_context, tn_context_destroy> {
public:
    explicit context(const tn_context_options *options = nullptr, tn_place at = tn_place::here()) : owned(created(options, at), at) {}

    /* The device of that name, or the best there is. Throws if it is not there. */
    tn_device choose(const char *wanted = nullptr, tn_place at = tn_place::here()) const
    {
        tn_device device = tn_device_choose(*this, wanted, nullptr);
        if (device & TN_DEVICE_MISSING) detail::fail(TN_E_NOT_FOUND, tn_last_error(), at);
        return device;
    }
    std::string name(tn_device device) const
    {
        char text[64];
        return tn_device_format(*this, device, text, sizeof text);
    }
    void manual_seed(uint64_t seed) const { tn_manual_seed(*this, seed); }

private:
    static tn_context *created(const tn_context_options *options, tn_place at)
    {
        tn_context *ctx = nullptr;
        check(tn_context_create(options, &ctx), at);
        return ctx;
    }
};

/*
 * A source of random numbers of its own, for the options of operators and for tn_init_normal and its like:
 * tenon::multinomial(p, 1, o) with o.generator = g.
 */
class generator : public owned<tn_generator, tn_generator_release> {
public:
    explicit generator(tn_context *ctx, uint64_t seed, tn_place at = tn_place::here()) : owned(created(ctx, seed, at), at) {}

    /* Begins again with a seed. */
    void seed(uint64_t seed) const { tn_generator_seed(*this, seed); }
    tn_generator_state state() const
    {
        tn_generator_state state{};
        state.size = sizeof state;
        tn_generator_get_state(*this, &state);
        return state;
    }
    void set_state(const tn_generator_state &state, tn_place at = tn_place::here()) const { check(tn_generator_set_state(*this, &state), at); }

private:
    static tn_generator *created(tn_context *ctx, uint64_t seed, tn_place at)
    {
        tn_generator *g = nullptr;
        check(detail::made(at, [&] { return tn_generator_create(ctx, seed, &g); }), at);
        return g;
    }
};

namespace detail {
/* A place as a parameter that no list in braces becomes. */
struct site {
    tn_place place;
    explicit site(tn_place at) : place(at) {}
};
} // namespace detail

class scope {
public:
    explicit scope(tn_context *ctx, const tn_scope_options *options = nullptr, tn_place at = tn_place::here())
        : scope(detail::made(at, [&] { return tn_scope_open_with(ctx, options); }), at)
    {
    }
    /* Inside the current scope. */
    explicit scope(detail::site at = detail::site(tn_place::here())) : scope(nullptr, current(at.place), at.place) {}
    explicit scope(const tn_scope_options &options, tn_place at = tn_place::here()) : scope(&options, current(at), at) {}
    ~scope()
    {
        /* An error that is on its way as an exception does not fail the scope around this one, too. */
        if (std::uncaught_exceptions() > exceptions_) tn_scope_clear(s_);
        tn_scope_close(s_);
        latest() = outer_;
    }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;
    operator tn_scope *() const noexcept { return s_; }

    /* The thread's current scope. Throws if there is none. */
    static tn_scope *current(tn_place at = tn_place::here())
    {
        if (!latest()) throw error(TN_E_STATE, "no tenon::scope is open on this thread", at);
        return latest();
    }
    static tn_scope *current_or_null() noexcept { return latest(); }

private:
    friend class borrowed_scope;
    scope(const tn_scope_options *options, tn_scope *parent, tn_place at)
        : scope(detail::made(at, [&] { return tn_scope_open_child(parent, options); }), at)
    {
    }
    scope(tn_scope *s, tn_place at) : s_(s), outer_(latest())
    {
        if (!s) detail::fail(TN_E_STATE, tn_last_error(), at);
        if (tn_scope_failed(s)) {
            error e(TN_E_STATE, tn_scope_error(s), at);
            tn_scope_clear(s);
            tn_scope_close(s);
            throw e;
        }
        latest() = s;
    }
    static tn_scope *&latest()
    {
        static thread_local tn_scope *s = nullptr;
        return s;
    }
    tn_scope *s_, *outer_;
    int exceptions_ = std::uncaught_exceptions();
};

/* Makes a scope that C code opened the current one, until the end of the block. */
class borrowed_scope {
public:
    explicit borrowed_scope(tn_scope *s) : outer_(std::exchange(scope::latest(), s)) {}
    ~borrowed_scope() { scope::latest() = outer_; }
    borrowed_scope(const borrowed_scope &) = delete;
    borrowed_scope &operator=(const borrowed_scope &) = delete;

private:
    tn_scope *outer_;
};

/*
 * For a function of the program that C code calls: runs `run` in the scope that it was given. No exception leaves: it fails the
 * scope, whose status this returns. `what` names the function.
 *
 *     static int32_t get(void *user, tn_scope *s, int64_t i, uint64_t seed, tn_tensor **out)
 *     {
 *         return tenon::guarded(s, "get", [&] { ... });
 *     }
 */
template <class F> int32_t guarded(tn_scope *s, const char *what, F run) noexcept
{
    borrowed_scope current(s);
    try {
        run();
    } catch (const error &e) {
        e.record(s);
    } catch (const std::exception &e) {
        tn_scope_fail(s, TN_E_STATE, e.what());
    } catch (...) {
        tn_scope_fail(s, TN_E_STATE, (std::string(what) + " threw an unknown exception").c_str());
    }
    return tn_scope_failed(s);
}

/* No gradients are recorded until the end of the block. */
class no_grad {
public:
    [[nodiscard]] no_grad() : before_(tn_set_grad_mode(TN_GRAD_OFF)) {}
    ~no_grad() { tn_set_grad_mode(before_); }
    no_grad(const no_grad &) = delete;
    no_grad &operator=(const no_grad &) = delete;

private:
    uint32_t before_;
};

namespace detail {
inline void fail_any(int32_t status, tn_place at)
{
    tn_scope *s = scope::current_or_null();
    if (s && tn_scope_failed(s)) fail(s, at);
    fail(status, tn_last_error(), at);
}
/* What a function of C returns that has no place of its own: the place is set before the result becomes an object. */
template <class F> auto placed(tn_place at, F call)
{
    tn_scope *s = scope::current(at);
    tn_placed here(s, at);
    return call(s);
}

/* The same of a function whose result does not say that it failed; throws if the scope has. */
template <class F> auto result_of(tn_place at, F call)
{
    auto result = placed(at, call);
    if (tn_scope_failed(scope::current(at))) fail(scope::current(at));
    return result;
}

/* The dtype of a type of C++, 0 if there is none. */
template <class T> constexpr tn_dtype dtype_of()
{
    if constexpr (std::is_same_v<T, float>)
        return TN_FLOAT32;
    else if constexpr (std::is_same_v<T, double>)
        return TN_FLOAT64;
    else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
        return std::is_signed_v<T> ? (sizeof(T) == 1 ? TN_INT8 : sizeof(T) == 2 ? TN_INT16 : sizeof(T) == 4 ? TN_INT32 : TN_INT64)
                                   : (sizeof(T) == 1 ? TN_UINT8 : sizeof(T) == 2 ? TN_UINT16 : sizeof(T) == 4 ? TN_UINT32 : TN_UINT64);
    else
        return 0;
}
constexpr bool is_of_cplusplus(tn_dtype d)
{
    return d == TN_FLOAT32 || d == TN_FLOAT64 || d == TN_INT8 || d == TN_INT16 || d == TN_INT32 || d == TN_INT64 || d == TN_UINT8 || d == TN_UINT16 ||
           d == TN_UINT32 || d == TN_UINT64;
}

/* std::complex, without its header. */
template <class T, class = void> constexpr bool is_complex = false;
template <class T> constexpr bool is_complex<T, std::void_t<typename T::value_type, decltype(std::declval<const T &>().imag())>> = true;

template <class T> [[noreturn]] void no_room(const std::string &x, tn_place at)
{
    const std::string type = tn_dtype_name(dtype_of<T>());
    throw error(TN_E_ARGUMENT, "tenon::tensor::item: value cannot be converted to type " + type + " without overflow (got " + x + ")", at);
}
/* An element as a T. Throws if T has no room for it; a negative integer wraps around where T is unsigned, as in PyTorch. */
template <class T> T narrowed(int64_t x, bool is_uint64, tn_place at)
{
    constexpr uint64_t most = static_cast<uint64_t>(std::numeric_limits<T>::max());
    const uint64_t bits = static_cast<uint64_t>(x);
    const bool has_room = x >= 0 || is_uint64 ? bits <= most : 0 - bits <= most + std::is_signed_v<T>;
    if (!has_room) no_room<T>(is_uint64 ? std::to_string(bits) : std::to_string(x), at);
    return static_cast<T>(x);
}
template <class T> T narrowed(double x, tn_place at)
{
    if constexpr (std::is_same_v<T, float>) {
        constexpr double most = std::numeric_limits<float>::max(), infinity = std::numeric_limits<double>::infinity();
        if ((x > most && x < infinity) || (x < -most && x > -infinity)) no_room<T>(std::to_string(x), at);
    }
    return static_cast<T>(x);
}
} // namespace detail

/* ---- Tensors ------------------------------------------------------------------------------------------- */

namespace detail {
template <class T> using pointer = std::enable_if_t<std::is_same_v<T, tn_tensor *> || std::is_same_v<T, const tn_tensor *>, int>;
template <class T> using null = std::enable_if_t<std::is_same_v<T, std::nullptr_t>, int>;
template <class T> using result = std::enable_if_t<std::is_same_v<T, tn_tensor>, int>;
} // namespace detail

/* An index, and the place of the program where it stands. */
struct subscript {
    int64_t index;
    tn_place place;
    template <class T, std::enable_if_t<std::is_convertible_v<T, int64_t> && !std::is_floating_point_v<T>, int> = 0>
    subscript(T i, tn_place at = tn_place::here()) : index(static_cast<int64_t>(i)), place(at)
    {
    }
};

/*
 * A hook: a function of the program that runs until this object ends or remove() is called. It holds the function and what it
 * hooks on to. Neither happens while a call that runs the hook is under way.
 */
class [[nodiscard]] hook {
public:
    hook() noexcept = default;
    hook(std::shared_ptr<void> function, std::function<void()> remove) : function_(std::move(function)), remove_(std::move(remove)) {}
    ~hook() { remove(); }
    hook(hook &&other) noexcept { swap(other); }
    /* What this one held ends at once. */
    hook &operator=(hook &&other) noexcept
    {
        hook taken(std::move(other));
        swap(taken);
        return *this;
    }
    hook(const hook &) = delete;
    hook &operator=(const hook &) = delete;
    void remove()
    {
        if (remove_) std::exchange(remove_, nullptr)();
        function_ = nullptr;
    }

private:
    void swap(hook &other) noexcept
    {
        function_.swap(other.function_);
        remove_.swap(other.remove_);
    }
    std::shared_ptr<void> function_;
    std::function<void()> remove_;
};

class operand;
class scalar_operand;
/* The base of classes whose objects stand for a tensor, such as tenon::nn::parameter: they have tn_tensor *current(tn_place) const. */
struct tensor_handle {};

/* What a function returns ends with its object: clang warns of tn_tensor *y = tenon::relu(x); */
#ifdef __clang__
#define TN_LIFETIME_BOUND [[clang::lifetimebound]]
#else
#define TN_LIFETIME_BOUND
#endif

/* One reference to a tensor; copies share it. */
class tensor {
public:
    tensor() noexcept = default; /* absent, as None */
    /* What a C call returned. NULL throws the error of the current scope, which gives up its own reference. A template, so that
     * the number 0 is no pointer: tensor t = 0; does not compile. */
    template <class T, detail::result<T> = 0> tensor(T *t, tn_place at = tn_place::here()) : t_(tn_retain(t))
    {
        tn_scope *s = scope::current_or_null();
        if (!t && !s) detail::fail(TN_E_STATE, tn_last_error(), at);
        if (!t) detail::fail(s, at);
        if (s) tn_drop(s, t);
    }
    /* Absent, too: an argument or a variable that is nullptr. */
    template <class T, detail::null<T> = 0> tensor(T) noexcept {}
    /* One that a C function was given, and that stays where it is. */
    static tensor borrow(tn_tensor *t)
    {
        tensor x;
        x.t_ = tn_retain(t);
        return x;
    }
    ~tensor() { tn_release(t_); }
    tensor(const tensor &other) : t_(tn_retain(other.t_)) {}
    tensor(tensor &&other) noexcept : t_(std::exchange(other.t_, nullptr)) {}
    tensor &operator=(tensor other) & noexcept
    {
        std::swap(t_, other.t_);
        return *this;
    }
    /* Of what a call returns: x[i] = y writes the elements of y into x, as copy_ does, and x[i] = 2 a number, as fill_ does. */
    tensor operator=(const operand &other) &&;
    tensor operator=(const scalar_operand &other) &&;
    /* The pointer is good while an object of the tensor is there: for the arguments of a C call, not for a variable. */
    tn_tensor *get() const noexcept TN_LIFETIME_BOUND { return t_; }
    /* A template, so that the operators of C++ for pointers do not apply to two tensors, or to a tensor and a number. */
    template <class T, detail::pointer<T *> = 0> operator T *() const noexcept TN_LIFETIME_BOUND { return t_; }
    /* A tensor cannot be a condition or an operand of !, && and ||: && of tensors would always compute both sides.
     * Bools are x.defined(), x.item<bool>() and equal(x, y); logical_not, logical_and, logical_or are elementwise. */
    explicit operator bool() const = delete;
    /* False if it is absent. */
    bool defined() const noexcept { return t_ != nullptr; }

    /* An absent tensor has none of these: they throw. */
    tn_dtype dtype(tn_place at = tn_place::here()) const { return tn_tensor_dtype(present("dtype", at)); }
    tn_device device(tn_place at = tn_place::here()) const { return tn_tensor_device(present("device", at)); }
    int64_t dim(tn_place at = tn_place::here()) const { return static_cast<int64_t>(tn_tensor_rank(present("dim", at))); }
    int64_t numel(tn_place at = tn_place::here()) const { return tn_tensor_numel(present("numel", at)); }
    /* Of a dimension; -1 is the last. */
    int64_t size(int64_t d, tn_place at = tn_place::here()) const
    {
        const int64_t rank = static_cast<int64_t>(tn_tensor_rank(present("size", at))), i = d < 0 ? d + rank : d;
        if (i < 0 || i >= rank)
            throw error(TN_E_INDEX, "tenon::tensor::size: dimension " + std::to_string(d) + " of " + std::to_string(rank), at);
        return tn_tensor_sizes(t_)[i];
    }
    std::vector<int64_t> sizes(tn_place at = tn_place::here()) const
    {
        const int64_t *first = tn_tensor_sizes(present("sizes", at));
        return {first, first + tn_tensor_rank(t_)};
    }

    /* The only element, as a number of that type, which may be a std::complex. Waits for the device. Throws if T has no room for
     * it; as in PyTorch a negative integer wraps around where T is unsigned. */
    template <class T> T item(tn_place at = tn_place::here()) const
    {
        (void)present("item", at);
        if constexpr (std::is_same_v<T, bool>) {
            return detail::result_of(at, [&](tn_scope *s) { return (tn_item_bool)(s, t_); }) != 0;
        } else if constexpr (std::is_integral_v<T>) {
            if (dtype() == TN_UINT64 && numel() == 1) /* tn_item_int refuses what int64_t has no room for */
                return detail::narrowed<T>(static_cast<int64_t>(elements<uint64_t>(at)[0]), true, at);
            return detail::narrowed<T>(detail::result_of(at, [&](tn_scope *s) { return (tn_item_int)(s, t_); }), false, at);
        } else if constexpr (detail::is_complex<T>) {
            using part = typename T::value_type;
            double parts[2] = {0, 0};
            detail::result_of(at, [&](tn_scope *s) { return (tn_item_complex)(s, t_, parts); });
            return T(detail::narrowed<part>(parts[0], at), detail::narrowed<part>(parts[1], at));
        } else {
            return detail::narrowed<T>(detail::result_of(at, [&](tn_scope *s) { return (tn_item_double)(s, t_); }), at);
        }
    }
    /* All elements, row-major. T is the type of the dtype. Of a dtype that C++ has no type for (float16, complex64), and of bool, it
     * may be an unsigned integer or a class of the same size. Others throw: to(dtype) converts. */
    template <class T> std::vector<T> to_vector(tn_place at = tn_place::here()) const
    {
        (void)present("to_vector", at);
        if constexpr (std::is_same_v<T, bool>) {
            if (dtype() != TN_BOOL) refuse_elements("bool", at);
            const std::vector<uint8_t> bytes = to_vector<uint8_t>(at);
            return std::vector<bool>(bytes.begin(), bytes.end());
        } else {
            return elements<T>(at);
        }
    }
    tensor to(tn_dtype dtype, tn_place at = tn_place::here()) const { return tn_to(scope::current(at), t_, dtype, {}, at); }
    tensor to_device(tn_device device, tn_place at = tn_place::here()) const
    {
        return tn_to_device(scope::current(at), t_, device, tn_tensor_dtype(t_), {}, at);
    }
    tensor detach(tn_place at = tn_place::here()) const
    {
        return detail::placed(at, [&](tn_scope *s) { return tn_detach(s, t_); });
    }

    bool requires_grad() const { return tn_requires_grad(t_) != 0; }
    tensor &set_requires_grad(bool on = true, tn_place at = tn_place::here())
    {
        check(tn_set_requires_grad(t_, on), at);
        return *this;
    }
    void backward(tn_place at = tn_place::here()) const
    {
        if (detail::placed(at, [&](tn_scope *s) { return (tn_backward)(s, t_); })) detail::fail(scope::current());
    }
    /* The gradient, or an absent tensor. */
    tensor grad(tn_place at = tn_place::here()) const
    {
        tn_tensor *g = detail::result_of(at, [&](tn_scope *s) { return tn_grad_of(s, t_); });
        return g ? tensor(g) : tensor();
    }
    /* In backward, `f` gets the gradient of this tensor; it returns another one, an absent tensor for no change, or nothing:
     * hook h = x.register_hook([](const tensor &grad) { return grad * 2; }). */
    template <class F> hook register_hook(F f, tn_place at = tn_place::here()) const;
    /* `f` gets the leaf after each change of its gradient. */
    template <class F> hook register_accumulate_hook(F f, tn_place at = tn_place::here()) const;

    /* x[i] selects along the first dimension. */
    tensor operator[](const subscript &i) const { return tn_select(scope::current(i.place), t_, 0, i.index, i.place); }

private:
    const tn_tensor *present(const char *call, tn_place at) const
    {
        if (!t_) throw error(TN_E_ARGUMENT, std::string("tenon::tensor::") + call + ": the tensor is absent", at);
        return t_;
    }
    [[noreturn]] void refuse_elements(const std::string &of, tn_place at) const
    {
        throw error(TN_E_DTYPE, "tenon::tensor::to_vector: elements of " + of + " were wanted of a tensor of " + tn_dtype_name(dtype()), at);
    }
    template <class T> std::vector<T> elements(tn_place at) const
    {
        constexpr tn_dtype own = detail::dtype_of<T>();
        if (detail::is_of_cplusplus(dtype()) ? own != dtype() : own && !std::is_unsigned_v<T>)
            refuse_elements(own ? tn_dtype_name(own) : "a class", at);
        std::vector<T> out(static_cast<size_t>(numel()));
        if (detail::placed(at, [&](tn_scope *s) { return (tn_to_host)(s, t_, out.data(), out.size() * sizeof(T)); }))
            detail::fail(scope::current());
        return out;
    }
    tn_tensor *t_ = nullptr;
};

using tensors = std::vector<tensor>;

/* A tensor of these sizes on the CPU with a copy of the values: from<float>({2, 2}, {1, 2, 3, 4}). */
template <class T> tensor from(const std::vector<int64_t> &sizes, const std::vector<T> &values, tn_place at = tn_place::here())
{
    constexpr tn_dtype dtype = std::is_same_v<T, bool> ? TN_BOOL : detail::dtype_of<T>();
    static_assert(dtype != 0, "a tensor of float, double, integers or bool; for others see tn_from_data");
    int64_t n = 1;
    for (int64_t size : sizes) n *= size;
    if (n != static_cast<int64_t>(values.size()))
        throw error(TN_E_SHAPE, "tenon::from: " + std::to_string(values.size()) + " values for sizes of " + std::to_string(n), at);
    auto made = [&](const void *data) {
        return detail::placed(at, [&](tn_scope *s) {
            return (tn_from_data)(s, dtype, tn_ints{sizes.data(), static_cast<int64_t>(sizes.size())}, data, TN_CPU);
        });
    };
    if constexpr (std::is_same_v<T, bool>)
        return made(std::vector<uint8_t>(values.begin(), values.end()).data());
    else
        return made(values.data());
}

namespace detail {
/* What a call returned, as an object; throws if the scope has failed. */
template <class T, class R> T take(tn_scope *s, R result)
{
    if (tn_scope_failed(s)) fail(s);
    if constexpr (std::is_same_v<T, tensors>)
        return tensors(result.data, result.data + result.count);
    else if constexpr (!std::is_void_v<T>)
        return T(result);
}
/* One of several results of a call that has not failed; it may be absent. */
inline tensor one_of(tn_tensor *t)
{
    return t ? tensor(t) : tensor();
}
inline tensors one_of(tn_tensors list)
{
    tensors all;
    for (int64_t i = 0; i < list.count; i++) all.push_back(one_of(list.data[i]));
    return all;
}
/* Tensors that a function of the program was given, and one that it gives to the scope. */
inline tensors borrowed(tn_tensor *const *items, int64_t count)
{
    tensors all;
    for (int64_t i = 0; i < count; i++) all.push_back(tensor::borrow(items[i]));
    return all;
}
inline tn_tensor *given(tn_scope *s, const tensor &t)
{
    return t.defined() ? tn_scope_adopt(s, tn_retain(t)) : nullptr;
}
/* What a hook returns: a tensor, an absent one, or nothing. */
template <class F, class... T> tensor result_of_hook(F &f, T &&...x)
{
    if constexpr (std::is_void_v<std::invoke_result_t<F &, T...>>) {
        f(std::forward<T>(x)...);
        return tensor();
    } else {
        return f(std::forward<T>(x)...);
    }
}
/* The name of a class of the program, without its namespaces. */
template <class T> std::string type_name()
{
    const std::string text = __PRETTY_FUNCTION__; /* "... [with T = name; ...]" or "... [T = name]" */
    const size_t from = text.find("T = ") + 4;
    const std::string name = text.substr(from, text.find_first_of(";]", from) - from);
    size_t i = name.size();
    for (int depth = 0; i && (depth || name[i - 1] != ':'); i--) {
        depth += name[i - 1] == '>' || name[i - 1] == ')';
        depth -= name[i - 1] == '<' || name[i - 1] == '(';
    }
    return name.substr(i);
}
} // namespace detail

template <class F> hook tensor::register_hook(F f, tn_place at) const
{
    auto kept = std::make_shared<F>(std::move(f));
    auto run = [](void *user, tn_scope *s, tn_tensor *grad) -> tn_tensor * {
        tn_tensor *other = nullptr;
        guarded(s, "a hook", [&] { other = detail::given(s, detail::result_of_hook(*static_cast<F *>(user), tensor::borrow(grad))); });
        return other;
    };
    uint64_t handle = 0;
    check((tn_register_hook)(t_, run, kept.get(), &handle), at);
    return hook(kept, [t = *this, handle] { tn_hook_remove(t, handle); });
}

template <class F> hook tensor::register_accumulate_hook(F f, tn_place at) const
{
    auto kept = std::make_shared<F>(std::move(f));
    auto run = [](void *user, tn_scope *s, tn_tensor *leaf) {
        guarded(s, "a hook", [&] { (*static_cast<F *>(user))(tensor::borrow(leaf)); });
    };
    uint64_t handle = 0;
    check(tn_register_accumulate_hook(t_, run, kept.get(), &handle), at);
    return hook(kept, [t = *this, handle] { tn_hook_remove(t, handle); });
}

/* An operand: a tensor, and the place of the program where it became one. */
class operand {
public:
    operand(const tensor &t, tn_place at = tn_place::here()) : t_(t), at_(at) {}
    template <class T, detail::pointer<T> = 0> operand(T t, tn_place at = tn_place::here()) : t_(t), at_(at) {}
    template <class T, std::enable_if_t<std::is_base_of_v<tensor_handle, T>, int> = 0>
    operand(const T &x, tn_place at = tn_place::here()) : t_(x.current(at)), at_(at) {}
    operator tn_tensor *() const noexcept { return t_; }
    tn_place place() const noexcept { return at_; }

private:
    tn_tensor *t_;
    tn_place at_;
};

/* A number as an operand, also one of std::complex. */
class scalar_operand : public tn_scalar {
public:
    template <class T, std::enable_if_t<std::is_convertible_v<const T &, tn_scalar>, int> = 0>
    scalar_operand(const T &x, tn_place at = tn_place::here()) : tn_scalar(x), at_(at)
    {
    }
    tn_place place() const noexcept { return at_; }

private:
    tn_place at_;
};

/* ---- Lists --------------------------------------------------------------------------------------------- */

namespace detail {
template <class C, class Item>
using container = std::enable_if_t<std::is_convertible_v<decltype(std::data(std::declval<const C &>())), const Item *> &&
                                       std::is_convertible_v<decltype(std::size(std::declval<const C &>())), size_t>,
                                   int>;
} // namespace detail

/*
 * A list of numbers, as the calls take it: {2, 3}, TN_INTS(2, 3), a std::vector or another container of int64_t, a tn_ints. It
 * borrows the numbers, so it is the parameter of a function, not a variable.
 */
template <class List, class Item> class list_of {
public:
    list_of() : list_{nullptr, 0} {}
    list_of(std::initializer_list<Item> items) : list_(borrow(items.begin(), items.size())) {}
    list_of(const List &list) : list_(list) {}
    list_of(const Item *items, int64_t count) : list_{items, count} {}
    template <size_t N> list_of(const tn_items<List, Item, N> &items) : list_(items) {}
    template <class C, detail::container<C, Item> = 0> list_of(const C &items) : list_(borrow(std::data(items), std::size(items))) {}
    operator List() const noexcept { return list_; }

private:
    static List borrow(const Item *items, size_t count) { return {items, static_cast<int64_t>(count)}; }
    List list_;
};
using int_list = list_of<tn_ints, int64_t>;
using float_list = list_of<tn_floats, double>;
using bool_list = list_of<tn_bools, uint8_t>;

/*
 * The same of tensors: {a, b}, TN_TENSORS(a, b), tensors, another container or an array of tensors, a tn_tensors. The tensors
 * must outlive it. Where C wants a tn_tensors, it is written out: tn_clip_grad_norm(s, tenon::tensor_list(net.parameters()), 1, 2).
 */
class tensor_list {
public:
    tensor_list() : list_{nullptr, 0} {}
    tensor_list(std::initializer_list<operand> items) : list_{nullptr, 0}, own_(items.begin(), items.end()) {}
    tensor_list(const tn_tensors &list) : list_(list) {}
    tensor_list(tn_tensor *const *items, int64_t count) : list_{items, count} {}
    template <size_t N> tensor_list(const tn_items<tn_tensors, tn_tensor *, N> &items) : list_(items) {}
    template <class C, detail::container<C, tensor> = 0> tensor_list(const C &items) : list_{nullptr, 0}
    {
        for (const tensor &t : items) own_.push_back(t.get());
    }
    template <class C, detail::container<C, tn_tensor *> = 0, class = void>
    tensor_list(const C &items) : list_{std::data(items), static_cast<int64_t>(std::size(items))}
    {
    }
    operator tn_tensors() const noexcept { return own_.empty() ? list_ : tn_tensors{own_.data(), static_cast<int64_t>(own_.size())}; }

private:
    tn_tensors list_;
    std::vector<tn_tensor *> own_;
};

/* ---- Operators ----------------------------------------------------------------------------------------- */

/* Elementwise. */
inline tensor operator+(const operand &a, const operand &b) { return tn_add(scope::current(b.place()), a, b, {}, b.place()); }
inline tensor operator+(const operand &a, const scalar_operand &b) { return tn_add_scalar(scope::current(b.place()), a, b, {}, b.place()); }
inline tensor operator+(const scalar_operand &a, const operand &b) { return tn_add_scalar(scope::current(a.place()), b, a, {}, a.place()); }
inline tensor operator-(const operand &a, const operand &b) { return tn_sub(scope::current(b.place()), a, b, {}, b.place()); }
inline tensor operator-(const operand &a, const scalar_operand &b) { return tn_sub_scalar(scope::current(b.place()), a, b, {}, b.place()); }
inline tensor operator-(const scalar_operand &a, const operand &b) { return tn_rsub_scalar(scope::current(a.place()), b, a, {}, a.place()); }
inline tensor operator*(const operand &a, const operand &b) { return tn_mul(scope::current(b.place()), a, b, b.place()); }
inline tensor operator*(const operand &a, const scalar_operand &b) { return tn_mul_scalar(scope::current(b.place()), a, b, b.place()); }
inline tensor operator*(const scalar_operand &a, const operand &b) { return tn_mul_scalar(scope::current(a.place()), b, a, a.place()); }
inline tensor operator/(const operand &a, const operand &b) { return tn_div(scope::current(b.place()), a, b, b.place()); }
inline tensor operator/(const operand &a, const scalar_operand &b) { return tn_div_scalar(scope::current(b.place()), a, b, b.place()); }
inline tensor operator/(const scalar_operand &a, const operand &b)
{
    return tn_mul_scalar(scope::current(), tn_reciprocal(scope::current(a.place()), b, a.place()), a, a.place());
}
inline tensor operator%(const operand &a, const operand &b) { return tn_remainder(scope::current(b.place()), a, b, b.place()); }
inline tensor operator%(const operand &a, const scalar_operand &b) { return tn_remainder_scalar(scope::current(b.place()), a, b, b.place()); }
inline tensor operator%(const scalar_operand &a, const operand &b) { return tn_remainder_scalar_tensor(scope::current(a.place()), a, b, a.place()); }
inline tensor operator-(const operand &a) { return tn_neg(scope::current(a.place()), a, a.place()); }
inline tensor operator==(const operand &a, const operand &b) { return tn_eq(scope::current(b.place()), a, b, b.place()); }
inline tensor operator==(const operand &a, const scalar_operand &b) { return tn_eq_scalar(scope::current(b.place()), a, b, b.place()); }
inline tensor operator==(const scalar_operand &a, const operand &b) { return tn_eq_scalar(scope::current(a.place()), b, a, a.place()); }
inline tensor operator!=(const operand &a, const operand &b) { return tn_ne(scope::current(b.place()), a, b, b.place()); }
inline tensor operator!=(const operand &a, const scalar_operand &b) { return tn_ne_scalar(scope::current(b.place()), a, b, b.place()); }
inline tensor operator!=(const scalar_operand &a, const operand &b) { return tn_ne_scalar(scope::current(a.place()), b, a, a.place()); }
inline tensor operator<(const operand &a, const operand &b) { return tn_lt(scope::current(b.place()), a, b, b.place()); }
inline tensor operator<(const operand &a, const scalar_operand &b) { return tn_lt_scalar(scope::current(b.place()), a, b, b.place()); }
inline tensor operator<(const scalar_operand &a, const operand &b) { return tn_gt_scalar(scope::current(a.place()), b, a, a.place()); }
inline tensor operator<=(const operand &a, const operand &b) { return tn_le(scope::current(b.place()), a, b, b.place()); }
inline tensor operator<=(const operand &a, const scalar_operand &b) { return tn_le_scalar(scope::current(b.place()), a, b, b.place()); }
inline tensor operator<=(const scalar_operand &a, const operand &b) { return tn_ge_scalar(scope::current(a.place()), b, a, a.place()); }
inline tensor operator>(const operand &a, const operand &b) { return tn_gt(scope::current(b.place()), a, b, b.place()); }
inline tensor operator>(const operand &a, const scalar_operand &b) { return tn_gt_scalar(scope::current(b.place()), a, b, b.place()); }
inline tensor operator>(const scalar_operand &a, const operand &b) { return tn_lt_scalar(scope::current(a.place()), b, a, a.place()); }
inline tensor operator>=(const operand &a, const operand &b) { return tn_ge(scope::current(b.place()), a, b, b.place()); }
inline tensor operator>=(const operand &a, const scalar_operand &b) { return tn_ge_scalar(scope::current(b.place()), a, b, b.place()); }
inline tensor operator>=(const scalar_operand &a, const operand &b) { return tn_le_scalar(scope::current(a.place()), b, a, a.place()); }
inline tensor operator&(const operand &a, const operand &b) { return tn_bitwise_and(scope::current(b.place()), a, b, b.place()); }
inline tensor operator&(const operand &a, const scalar_operand &b) { return tn_bitwise_and_scalar(scope::current(b.place()), a, b, b.place()); }
inline tensor operator&(const scalar_operand &a, const operand &b) { return tn_bitwise_and_scalar(scope::current(a.place()), b, a, a.place()); }
inline tensor operator|(const operand &a, const operand &b) { return tn_bitwise_or(scope::current(b.place()), a, b, b.place()); }
inline tensor operator|(const operand &a, const scalar_operand &b) { return tn_bitwise_or_scalar(scope::current(b.place()), a, b, b.place()); }
inline tensor operator|(const scalar_operand &a, const operand &b) { return tn_bitwise_or_scalar(scope::current(a.place()), b, a, a.place()); }
inline tensor operator^(const operand &a, const operand &b) { return tn_bitwise_xor(scope::current(b.place()), a, b, b.place()); }
inline tensor operator^(const operand &a, const scalar_operand &b) { return tn_bitwise_xor_scalar(scope::current(b.place()), a, b, b.place()); }
inline tensor operator^(const scalar_operand &a, const operand &b) { return tn_bitwise_xor_scalar(scope::current(a.place()), b, a, a.place()); }
inline tensor operator~(const operand &a) { return tn_bitwise_not(scope::current(a.place()), a, a.place()); }
/* In place, as add_ and its like: a leaf that requires a gradient is refused while gradients are recorded. x[i] += y changes x. */
namespace detail {
template <class X> using writable = std::enable_if_t<std::is_same_v<X, tensor &> || std::is_same_v<X, tensor>, int>;
} // namespace detail
inline tensor tensor::operator=(const operand &other) &&
{
    return tn_copy_(scope::current(other.place()), t_, other, {}, other.place());
}
inline tensor tensor::operator=(const scalar_operand &other) &&
{
    return tn_fill_scalar_(scope::current(other.place()), t_, other, other.place());
}
template <class X, detail::writable<X> = 0>
X operator+=(X &&a, const operand &b) { return a = tn_add_(scope::current(b.place()), a, b, {}, b.place()); }
template <class X, detail::writable<X> = 0>
X operator+=(X &&a, const scalar_operand &b) { return a = tn_add_scalar_(scope::current(b.place()), a, b, {}, b.place()); }
template <class X, detail::writable<X> = 0>
X operator-=(X &&a, const operand &b) { return a = tn_sub_(scope::current(b.place()), a, b, {}, b.place()); }
template <class X, detail::writable<X> = 0>
X operator-=(X &&a, const scalar_operand &b) { return a = tn_sub_scalar_(scope::current(b.place()), a, b, {}, b.place()); }
template <class X, detail::writable<X> = 0>
X operator*=(X &&a, const operand &b) { return a = tn_mul_(scope::current(b.place()), a, b, b.place()); }
template <class X, detail::writable<X> = 0>
X operator*=(X &&a, const scalar_operand &b) { return a = tn_mul_scalar_(scope::current(b.place()), a, b, b.place()); }
template <class X, detail::writable<X> = 0>
X operator/=(X &&a, const operand &b) { return a = tn_div_(scope::current(b.place()), a, b, b.place()); }
template <class X, detail::writable<X> = 0>
X operator/=(X &&a, const scalar_operand &b) { return a = tn_div_scalar_(scope::current(b.place()), a, b, b.place()); }
template <class X, detail::writable<X> = 0>
X operator%=(X &&a, const operand &b) { return a = tn_remainder_(scope::current(b.place()), a, b, b.place()); }
template <class X, detail::writable<X> = 0>
X operator%=(X &&a, const scalar_operand &b) { return a = tn_remainder_scalar_(scope::current(b.place()), a, b, b.place()); }
template <class X, detail::writable<X> = 0>
X operator&=(X &&a, const operand &b) { return a = tn_bitwise_and_(scope::current(b.place()), a, b, b.place()); }
template <class X, detail::writable<X> = 0>
X operator&=(X &&a, const scalar_operand &b) { return a = tn_bitwise_and_scalar_(scope::current(b.place()), a, b, b.place()); }
template <class X, detail::writable<X> = 0>
X operator|=(X &&a, const operand &b) { return a = tn_bitwise_or_(scope::current(b.place()), a, b, b.place()); }
template <class X, detail::writable<X> = 0>
X operator|=(X &&a, const scalar_operand &b) { return a = tn_bitwise_or_scalar_(scope::current(b.place()), a, b, b.place()); }
template <class X, detail::writable<X> = 0>
X operator^=(X &&a, const operand &b) { return a = tn_bitwise_xor_(scope::current(b.place()), a, b, b.place()); }
template <class X, detail::writable<X> = 0>
X operator^=(X &&a, const scalar_operand &b) { return a = tn_bitwise_xor_scalar_(scope::current(b.place()), a, b, b.place()); }
/* With a tn_tensor * C++ would compare the pointers: compare a.get() with it, or a with tensor::borrow(p). */
template <class T, detail::pointer<T> = 0> bool operator==(const tensor &, T) = delete;
template <class T, detail::pointer<T> = 0> bool operator==(T, const tensor &) = delete;
template <class T, detail::pointer<T> = 0> bool operator!=(const tensor &, T) = delete;
template <class T, detail::pointer<T> = 0> bool operator!=(T, const tensor &) = delete;
template <class T, detail::pointer<T> = 0> bool operator<(const tensor &, T) = delete;
template <class T, detail::pointer<T> = 0> bool operator<(T, const tensor &) = delete;
template <class T, detail::pointer<T> = 0> bool operator<=(const tensor &, T) = delete;
template <class T, detail::pointer<T> = 0> bool operator<=(T, const tensor &) = delete;
template <class T, detail::pointer<T> = 0> bool operator>(const tensor &, T) = delete;
template <class T, detail::pointer<T> = 0> bool operator>(T, const tensor &) = delete;
template <class T, detail::pointer<T> = 0> bool operator>=(const tensor &, T) = delete;
template <class T, detail::pointer<T> = 0> bool operator>=(T, const tensor &) = delete;
/* Whether it is absent; 0 is a number. */
template <class T, detail::null<T> = 0> bool operator==(const tensor &a, T) noexcept { return !a.defined(); }
template <class T, detail::null<T> = 0> bool operator==(T, const tensor &a) noexcept { return !a.defined(); }
template <class T, detail::null<T> = 0> bool operator!=(const tensor &a, T) noexcept { return a.defined(); }
template <class T, detail::null<T> = 0> bool operator!=(T, const tensor &a) noexcept { return a.defined(); }

inline std::ostream &operator<<(std::ostream &out, const operand &t)
{
    const char *text = detail::placed(t.place(), [&](tn_scope *s) { return (tn_format)(s, t, nullptr); });
    if (!*text) detail::fail(scope::current());
    return out << text;
}

/* ---- Programs ------------------------------------------------------------------------------------------ */

/* What a program begins with: the best device there is, or the one that TENON_DEVICE names, and the arguments behind its name. */
struct program {
    context ctx;
    tn_device device;
    std::vector<std::string> arguments;
    program(tn_place at = tn_place::here()) : ctx(nullptr, at), device(ctx.choose(nullptr, at)) {}
};

/*
 * The body of main: tenon::run(argc, argv, [](tenon::program &p) { ... }). It runs in a scope whose default device is the
 * program's. A number that it returns is the status of the program. An exception ends it with
 * "PROGRAM: MESSAGE" on standard error and 1, and so does the error of a C call that is in the scope at the end.
 */
template <class F> int run(int argc, char **argv, F body, tn_place at = tn_place::here())
{
    static_assert(std::is_invocable_v<F &, program &>, "the body of a program takes a tenon::program &: [](tenon::program &p) { ... }");
    const std::string path = argc > 0 ? argv[0] : "program";
    try {
        program p(at);
        for (int i = 1; i < argc; i++) p.arguments.emplace_back(argv[i]);
        tn_scope_options options{};
        options.size = sizeof options;
        options.device = p.device;
        scope s(p.ctx, &options, at);
        int status = 0;
        if constexpr (std::is_convertible_v<std::invoke_result_t<F &, program &>, int>)
            status = static_cast<int>(body(p));
        else
            body(p);
        if (tn_scope_failed(s)) detail::fail(s);
        return status;
    } catch (const std::exception &e) {
        std::fprintf(stderr, "%s: %s\n", path.substr(path.rfind('/') + 1).c_str(), e.what());
        return 1;
    }
}

} // namespace tenon

#include <tenon/autograd.hpp>
#include <tenon/tensor_ops.hpp>

#endif
