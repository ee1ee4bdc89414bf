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
    /* A C call's error, or one of that status if there is none. */
    error(int32_t status, const tn_error *e)
        : std::runtime_error(e && e->message ? e->message : tn_status_text(status)), status_(e && e->code ? e->code : status),
          line_(e ? e->line : 0), prefix_(e ? prefix({e->file, e->line}).size() : 0)
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
[[noreturn]] inline void fail(int32_t status, const tn_error *e)
{
    throw error(status, e);
}
/* Throws the scope's error, and takes it out of the scope. */
[[noreturn]] inline void fail(tn_scope *s)
{
    error e(TN_E_STATE, tn_scope_error(s));
    tn_scope_clear(s);
    throw e;
}
} // namespace detail

/* Throws what a call that has no scope returned, with the thread's last error. */
inline void check(int32_t status)
{
    if (status != TN_OK) detail::fail(status, tn_last_error());
}

/*
 * An object of the C library, which is destroyed with this one; it is taken where a pointer to it is wanted.
 *
 *     tenon::owned<tn_dataset, tn_dataset_destroy> set = tn_tensor_dataset_create(s, TN_TENSORS(x, y));
 *
 * What others use is declared before them. NULL throws the thread's last error.
 */
template <class T, auto destroy> class owned {
public:
    owned() noexcept = default;
    owned(T *object) : object_(object)
    {
        if (!object) detail::fail(TN_E_STATE, tn_last_error());
    }
    ~owned()
    {
        if (object_) destroy(object_);
    }
    owned(owned &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    owned &operator=(owned &&other) noexcept
    {
        std::swap(object_, other.object_);
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
    explicit context(const tn_context_options *options = nullptr) : owned(created(options)) {}

    /* The device of that name, or the best there is. Throws if it is not there. */
    tn_device choose(const char *wanted = nullptr) const
    {
        tn_device device = tn_device_choose(*this, wanted, nullptr);
        if (device & TN_DEVICE_MISSING) detail::fail(TN_E_NOT_FOUND, tn_last_error());
        return device;
    }
    std::string name(tn_device device) const
    {
        char text[64];
        return tn_device_format(*this, device, text, sizeof text);
    }
    void manual_seed(uint64_t seed) const { tn_manual_seed(*this, seed); }

private:
    static tn_context *created(const tn_context_options *options)
    {
        tn_context *ctx = nullptr;
        check(tn_context_create(options, &ctx));
        return ctx;
    }
};

class scope {
public:
    explicit scope(tn_context *ctx, const tn_scope_options *options = nullptr) : scope(tn_scope_open_with(ctx, options), 0) {}
    /* Inside the current scope. */
    scope() : scope(tn_scope_open_child(current(), nullptr), 0) {}
    explicit scope(const tn_scope_options &options) : scope(tn_scope_open_child(current(), &options), 0) {}
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
    static tn_scope *current()
    {
        if (!latest()) throw error(TN_E_STATE, "no tenon::scope is open on this thread");
        return latest();
    }
    static tn_scope *current_or_null() noexcept { return latest(); }

private:
    friend class borrowed_scope;
    scope(tn_scope *s, int) : s_(s), outer_(latest())
    {
        if (!s) detail::fail(TN_E_STATE, tn_last_error());
        if (tn_scope_failed(s)) {
            error e(TN_E_STATE, tn_scope_error(s));
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

/* No gradients are recorded until the end of the block. */
class no_grad {
public:
    no_grad() : before_(tn_set_grad_mode(TN_GRAD_OFF)) {}
    ~no_grad() { tn_set_grad_mode(before_); }
    no_grad(const no_grad &) = delete;
    no_grad &operator=(const no_grad &) = delete;

private:
    uint32_t before_;
};

namespace detail {
/* What a function of C returns that has no place of its own: the place is set before the result becomes an object. */
template <class F> auto placed(tn_place at, F call)
{
    tn_scope *s = scope::current();
    tn_placed here(s, at);
    return call(s);
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
} // namespace detail

/* ---- Tensors ------------------------------------------------------------------------------------------- */

namespace detail {
template <class T> using pointer = std::enable_if_t<std::is_same_v<T, tn_tensor *> || std::is_same_v<T, const tn_tensor *>, int>;
template <class T> using null = std::enable_if_t<std::is_same_v<T, std::nullptr_t>, int>;
} // namespace detail

/* An index, and the place of the program where it stands. */
struct subscript {
    int64_t index;
    tn_place place;
    subscript(int64_t i, tn_place at = tn_place::here()) : index(i), place(at) {}
};

/* One reference to a tensor; copies share it. */
class tensor {
public:
    tensor() noexcept = default; /* absent, as None */
    /* What a C call returned. NULL throws the error of the current scope, which gives up its own reference. */
    tensor(tn_tensor *t) : t_(tn_retain(t))
    {
        tn_scope *s = scope::current_or_null();
        if (!t && !s) detail::fail(TN_E_STATE, tn_last_error());
        if (!t) detail::fail(s);
        if (s) tn_drop(s, t);
    }
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
    tensor &operator=(tensor other) noexcept
    {
        std::swap(t_, other.t_);
        return *this;
    }
    tn_tensor *get() const noexcept { return t_; }
    /* A template, so that the operators of C++ for pointers do not apply to two tensors, or to a tensor and a number. */
    template <class T, detail::pointer<T *> = 0> operator T *() const noexcept { return t_; }
    /* No tensor is a condition, nor an operand of !, && and ||, which as operators of tensors would always compute both sides.
     * x.defined(), x.item<bool>() and equal(x, y) are bools; logical_not, logical_and and logical_or are elementwise. */
    explicit operator bool() const = delete;
    /* False if it is absent. */
    bool defined() const noexcept { return t_ != nullptr; }

    tn_dtype dtype() const { return tn_tensor_dtype(t_); }
    tn_device device() const { return tn_tensor_device(t_); }
    int64_t dim() const { return static_cast<int64_t>(tn_tensor_rank(t_)); }
    int64_t numel() const { return tn_tensor_numel(t_); }
    /* Of a dimension; -1 is the last. Throws std::out_of_range. */
    int64_t size(int64_t d) const
    {
        int64_t at = d < 0 ? d + dim() : d;
        if (at < 0 || at >= dim()) throw std::out_of_range("tenon::tensor::size: dimension " + std::to_string(d) + " of " + std::to_string(dim()));
        return tn_tensor_sizes(t_)[at];
    }
    std::vector<int64_t> sizes() const { return {tn_tensor_sizes(t_), tn_tensor_sizes(t_) + dim()}; }

    /* The only element, as a number. Waits for the device. */
    template <class T> T item(tn_place at = tn_place::here()) const
    {
        T x = detail::placed(at, [&](tn_scope *s) {
            if constexpr (std::is_same_v<T, bool>)
                return (tn_item_bool)(s, t_) != 0;
            else if constexpr (std::is_integral_v<T>)
                return static_cast<T>((tn_item_int)(s, t_));
            else
                return static_cast<T>((tn_item_double)(s, t_));
        });
        if (tn_scope_failed(scope::current())) detail::fail(scope::current());
        return x;
    }
    /* All elements, row-major. T is the type of the dtype. Of a dtype that C++ has no type for (bool, float16, complex64) it is
     * an unsigned integer or a class of the same size. Others throw: to(dtype) converts. */
    template <class T> std::vector<T> to_vector(tn_place at = tn_place::here()) const
    {
        constexpr tn_dtype own = detail::dtype_of<T>();
        if (t_ && (detail::is_of_cplusplus(dtype()) ? own != dtype() : own && !std::is_unsigned_v<T>)) {
            throw error(TN_E_DTYPE, std::string("tenon::tensor::to_vector: elements of ") + (own ? tn_dtype_name(own) : "a class") +
                                        " were wanted of a tensor of " + tn_dtype_name(dtype()), at);
        }
        std::vector<T> out(static_cast<size_t>(numel()));
        if (detail::placed(at, [&](tn_scope *s) { return (tn_to_host)(s, t_, out.data(), out.size() * sizeof(T)); }))
            detail::fail(scope::current());
        return out;
    }

    tensor to(tn_dtype dtype, tn_place at = tn_place::here()) const { return tn_to(scope::current(), t_, dtype, {}, at); }
    tensor to_device(tn_device device, tn_place at = tn_place::here()) const { return tn_to_device(scope::current(), t_, device, dtype(), {}, at); }
    tensor detach(tn_place at = tn_place::here()) const
    {
        return detail::placed(at, [&](tn_scope *s) { return tn_detach(s, t_); });
    }

    bool requires_grad() const { return tn_requires_grad(t_) != 0; }
    tensor &set_requires_grad(bool on = true)
    {
        check(tn_set_requires_grad(t_, on));
        return *this;
    }
    void backward(tn_place at = tn_place::here()) const
    {
        if (detail::placed(at, [&](tn_scope *s) { return (tn_backward)(s, t_); })) detail::fail(scope::current());
    }
    /* The gradient, or an absent tensor. */
    tensor grad() const
    {
        tn_tensor *g = tn_grad_of(scope::current(), t_);
        return g ? tensor(g) : tensor();
    }

    /* x[i] selects along the first dimension. */
    tensor operator[](const subscript &i) const { return tn_select(scope::current(), t_, 0, i.index, i.place); }

private:
    tn_tensor *t_ = nullptr;
};

using tensors = std::vector<tensor>;

/* A tensor of these sizes on the CPU with a copy of the values: from<float>({2, 2}, {1, 2, 3, 4}). */
template <class T> tensor from(const std::vector<int64_t> &sizes, const std::vector<T> &values, tn_place at = tn_place::here())
{
    constexpr tn_dtype dtype = detail::dtype_of<T>();
    static_assert(dtype != 0, "a tensor of float, double or integers; for others see tn_from_data");
    int64_t n = 1;
    for (int64_t size : sizes) n *= size;
    if (n != static_cast<int64_t>(values.size()))
        throw error(TN_E_SHAPE, "tenon::from: " + std::to_string(values.size()) + " values for sizes of " + std::to_string(n), at);
    return detail::placed(at, [&](tn_scope *s) {
        return (tn_from_data)(s, dtype, tn_ints{sizes.data(), static_cast<int64_t>(sizes.size())}, values.data(), TN_CPU);
    });
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

} // namespace detail

/* An operand: a tensor, and the place of the program where it became one. */
class operand {
public:
    operand(const tensor &t, tn_place at = tn_place::here()) : t_(t), at_(at) {}
    template <class T, detail::pointer<T> = 0> operand(T t, tn_place at = tn_place::here()) : t_(t), at_(at) {}
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

/* Elementwise. */
inline tensor operator+(const operand &a, const operand &b) { return tn_add(scope::current(), a, b, {}, b.place()); }
inline tensor operator+(const operand &a, const scalar_operand &b) { return tn_add_scalar(scope::current(), a, b, {}, b.place()); }
inline tensor operator+(const scalar_operand &a, const operand &b) { return tn_add_scalar(scope::current(), b, a, {}, a.place()); }
inline tensor operator-(const operand &a, const operand &b) { return tn_sub(scope::current(), a, b, {}, b.place()); }
inline tensor operator-(const operand &a, const scalar_operand &b) { return tn_sub_scalar(scope::current(), a, b, {}, b.place()); }
inline tensor operator-(const scalar_operand &a, const operand &b) { return tn_rsub_scalar(scope::current(), b, a, {}, a.place()); }
inline tensor operator*(const operand &a, const operand &b) { return tn_mul(scope::current(), a, b, b.place()); }
inline tensor operator*(const operand &a, const scalar_operand &b) { return tn_mul_scalar(scope::current(), a, b, b.place()); }
inline tensor operator*(const scalar_operand &a, const operand &b) { return tn_mul_scalar(scope::current(), b, a, a.place()); }
inline tensor operator/(const operand &a, const operand &b) { return tn_div(scope::current(), a, b, b.place()); }
inline tensor operator/(const operand &a, const scalar_operand &b) { return tn_div_scalar(scope::current(), a, b, b.place()); }
inline tensor operator/(const scalar_operand &a, const operand &b)
{
    return tn_mul_scalar(scope::current(), tn_reciprocal(scope::current(), b, a.place()), a, a.place());
}
inline tensor operator%(const operand &a, const operand &b) { return tn_remainder(scope::current(), a, b, b.place()); }
inline tensor operator%(const operand &a, const scalar_operand &b) { return tn_remainder_scalar(scope::current(), a, b, b.place()); }
inline tensor operator%(const scalar_operand &a, const operand &b) { return tn_remainder_scalar_tensor(scope::current(), a, b, a.place()); }
inline tensor operator-(const operand &a) { return tn_neg(scope::current(), a, a.place()); }
inline tensor operator==(const operand &a, const operand &b) { return tn_eq(scope::current(), a, b, b.place()); }
inline tensor operator==(const operand &a, const scalar_operand &b) { return tn_eq_scalar(scope::current(), a, b, b.place()); }
inline tensor operator==(const scalar_operand &a, const operand &b) { return tn_eq_scalar(scope::current(), b, a, a.place()); }
inline tensor operator!=(const operand &a, const operand &b) { return tn_ne(scope::current(), a, b, b.place()); }
inline tensor operator!=(const operand &a, const scalar_operand &b) { return tn_ne_scalar(scope::current(), a, b, b.place()); }
inline tensor operator!=(const scalar_operand &a, const operand &b) { return tn_ne_scalar(scope::current(), b, a, a.place()); }
inline tensor operator<(const operand &a, const operand &b) { return tn_lt(scope::current(), a, b, b.place()); }
inline tensor operator<(const operand &a, const scalar_operand &b) { return tn_lt_scalar(scope::current(), a, b, b.place()); }
inline tensor operator<(const scalar_operand &a, const operand &b) { return tn_gt_scalar(scope::current(), b, a, a.place()); }
inline tensor operator<=(const operand &a, const operand &b) { return tn_le(scope::current(), a, b, b.place()); }
inline tensor operator<=(const operand &a, const scalar_operand &b) { return tn_le_scalar(scope::current(), a, b, b.place()); }
inline tensor operator<=(const scalar_operand &a, const operand &b) { return tn_ge_scalar(scope::current(), b, a, a.place()); }
inline tensor operator>(const operand &a, const operand &b) { return tn_gt(scope::current(), a, b, b.place()); }
inline tensor operator>(const operand &a, const scalar_operand &b) { return tn_gt_scalar(scope::current(), a, b, b.place()); }
inline tensor operator>(const scalar_operand &a, const operand &b) { return tn_lt_scalar(scope::current(), b, a, a.place()); }
inline tensor operator>=(const operand &a, const operand &b) { return tn_ge(scope::current(), a, b, b.place()); }
inline tensor operator>=(const operand &a, const scalar_operand &b) { return tn_ge_scalar(scope::current(), a, b, b.place()); }
inline tensor operator>=(const scalar_operand &a, const operand &b) { return tn_le_scalar(scope::current(), b, a, a.place()); }
inline tensor operator&(const operand &a, const operand &b) { return tn_bitwise_and(scope::current(), a, b, b.place()); }
inline tensor operator&(const operand &a, const scalar_operand &b) { return tn_bitwise_and_scalar(scope::current(), a, b, b.place()); }
inline tensor operator&(const scalar_operand &a, const operand &b) { return tn_bitwise_and_scalar(scope::current(), b, a, a.place()); }
inline tensor operator|(const operand &a, const operand &b) { return tn_bitwise_or(scope::current(), a, b, b.place()); }
inline tensor operator|(const operand &a, const scalar_operand &b) { return tn_bitwise_or_scalar(scope::current(), a, b, b.place()); }
inline tensor operator|(const scalar_operand &a, const operand &b) { return tn_bitwise_or_scalar(scope::current(), b, a, a.place()); }
inline tensor operator^(const operand &a, const operand &b) { return tn_bitwise_xor(scope::current(), a, b, b.place()); }
inline tensor operator^(const operand &a, const scalar_operand &b) { return tn_bitwise_xor_scalar(scope::current(), a, b, b.place()); }
inline tensor operator^(const scalar_operand &a, const operand &b) { return tn_bitwise_xor_scalar(scope::current(), b, a, a.place()); }
inline tensor operator~(const operand &a) { return tn_bitwise_not(scope::current(), a, a.place()); }
/* In place, as add_ and its like: a leaf that requires a gradient is refused while gradients are recorded. */
inline tensor &operator+=(tensor &a, const operand &b) { return a = tn_add_(scope::current(), a, b, {}, b.place()); }
inline tensor &operator+=(tensor &a, const scalar_operand &b) { return a = tn_add_scalar_(scope::current(), a, b, {}, b.place()); }
inline tensor &operator-=(tensor &a, const operand &b) { return a = tn_sub_(scope::current(), a, b, {}, b.place()); }
inline tensor &operator-=(tensor &a, const scalar_operand &b) { return a = tn_sub_scalar_(scope::current(), a, b, {}, b.place()); }
inline tensor &operator*=(tensor &a, const operand &b) { return a = tn_mul_(scope::current(), a, b, b.place()); }
inline tensor &operator*=(tensor &a, const scalar_operand &b) { return a = tn_mul_scalar_(scope::current(), a, b, b.place()); }
inline tensor &operator/=(tensor &a, const operand &b) { return a = tn_div_(scope::current(), a, b, b.place()); }
inline tensor &operator/=(tensor &a, const scalar_operand &b) { return a = tn_div_scalar_(scope::current(), a, b, b.place()); }
inline tensor &operator%=(tensor &a, const operand &b) { return a = tn_remainder_(scope::current(), a, b, b.place()); }
inline tensor &operator%=(tensor &a, const scalar_operand &b) { return a = tn_remainder_scalar_(scope::current(), a, b, b.place()); }
inline tensor &operator&=(tensor &a, const operand &b) { return a = tn_bitwise_and_(scope::current(), a, b, b.place()); }
inline tensor &operator&=(tensor &a, const scalar_operand &b) { return a = tn_bitwise_and_scalar_(scope::current(), a, b, b.place()); }
inline tensor &operator|=(tensor &a, const operand &b) { return a = tn_bitwise_or_(scope::current(), a, b, b.place()); }
inline tensor &operator|=(tensor &a, const scalar_operand &b) { return a = tn_bitwise_or_scalar_(scope::current(), a, b, b.place()); }
inline tensor &operator^=(tensor &a, const operand &b) { return a = tn_bitwise_xor_(scope::current(), a, b, b.place()); }
inline tensor &operator^=(tensor &a, const scalar_operand &b) { return a = tn_bitwise_xor_scalar_(scope::current(), a, b, b.place()); }
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
    tn_device device = ctx.choose();
    std::vector<std::string> arguments;
};

/*
 * The body of main: int main(int argc, char **argv) { return tenon::run(argc, argv, body); }. `body` gets a program, in a scope
 * whose default device is the program's. An exception ends it with "PROGRAM: MESSAGE" on standard error and 1.
 */
template <class F> int run(int argc, char **argv, F body)
{
    const std::string path = argc > 0 ? argv[0] : "program";
    try {
        program p;
        for (int i = 1; i < argc; i++) p.arguments.emplace_back(argv[i]);
        tn_scope_options options{};
        options.size = sizeof options;
        options.device = p.device;
        scope s(p.ctx, &options);
        body(p);
        return 0;
    } catch (const std::exception &e) {
        std::fprintf(stderr, "%s: %s\n", path.substr(path.rfind('/') + 1).c_str(), e.what());
        return 1;
    }
}

} // namespace tenon

#include <tenon/tensor_ops.hpp>

#endif
