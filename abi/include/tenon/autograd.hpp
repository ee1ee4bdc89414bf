/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Autograd in C++17, a part of tenon.hpp: functions with a gradient of their own, checkpoints, what is done with saved tensors,
 * and derivatives of functions.
 */
#ifndef TENON_AUTOGRAD_HPP
#define TENON_AUTOGRAD_HPP

#include <tenon/tenon.hpp>

namespace tenon {

/* ---- Functions with a gradient of their own ------------------------------------------------------------ */

/* What forward and backward of such a function are given beside their tensors. */
class function_call {
public:
    explicit function_call(tn_function_call *call) noexcept : call_(call) {}
    operator tn_function_call *() const noexcept { return call_; }

    /* In forward: inputs and outputs that backward reads. Other values are members of the function. */
    void save(const tensor_list &list, tn_place at = tn_place::here()) const { check(tn_function_save(call_, list), at); }
    /* In backward: number i of them. */
    tensor saved(uint32_t i, tn_place at = tn_place::here()) const
    {
        return detail::placed(at, [&](tn_scope *s) {
            tn_tensor *t = tn_function_saved(call_, s, i);
            return detail::take<tensor>(s, detail::one_of(t));
        });
    }
    bool needs_input_grad(uint32_t i) const { return tn_function_needs_input_grad(call_, i) != 0; }
    /* In forward: an input was written in place; an output has no gradient. */
    void mark_dirty(const tensor &t, tn_place at = tn_place::here()) const { check(tn_function_mark_dirty(call_, t), at); }
    void mark_non_differentiable(const tensor &t, tn_place at = tn_place::here()) const
    {
        check(tn_function_mark_non_differentiable(call_, t), at);
    }

private:
    tn_function_call *call_;
};

namespace detail {
/* What a function of the program returned: a tensor, or tensors, of which there must be `count`. */
inline void put(tn_scope *s, const tensors &all, const std::string &who, const char *what, size_t count, tn_tensor **out)
{
    if (all.size() != count)
        throw error(TN_E_ARGUMENT,
                    who + " an incorrect number of " + what + " (expected " + std::to_string(count) + ", got " + std::to_string(all.size()) + ")");
    for (size_t i = 0; i < count; i++) out[i] = given(s, all[i]);
}
inline void put(tn_scope *s, const tensor &t, const std::string &who, const char *what, size_t count, tn_tensor **out)
{
    put(s, tensors{t}, who, what, count, out);
}

template <class F, class = void> constexpr uint32_t outputs_of = 1;
template <class F> constexpr uint32_t outputs_of<F, std::void_t<decltype(F::outputs)>> = F::outputs;
template <class F, class = void> constexpr uint32_t flags_of = 0;
template <class F> constexpr uint32_t flags_of<F, std::void_t<decltype(F::flags)>> = F::flags;

/* A function of the program and its callbacks. The graph owns it. */
template <class F> struct function {
    F f;
    size_t inputs;

    static function &of(tn_function_call *call) { return *static_cast<function *>(tn_function_user(call)); }
    static int32_t forward(tn_function_call *call, tn_scope *s, tn_tensors in, tn_tensor **out) noexcept
    {
        return guarded(s, "forward", [&] {
            function_call c(call);
            put(s, of(call).f.forward(c, borrowed(in.data, in.count)), type_name<F>() + " returned", "outputs", outputs_of<F>, out);
        });
    }
    static int32_t backward(tn_function_call *call, tn_scope *s, tn_tensors grads, tn_tensor **out) noexcept
    {
        return guarded(s, "backward", [&] {
            function_call c(call);
            put(s, of(call).f.backward(c, borrowed(grads.data, grads.count)), type_name<F>() + " returned", "gradients", of(call).inputs, out);
        });
    }
    static void destroy(void *user) noexcept { delete static_cast<function *>(user); }
};
} // namespace detail

/*
 * Calls a function of the program that has a gradient of its own: an object with `forward` and `backward`. `forward`
 * computes the outputs of the inputs, without recording. `backward` computes the gradients of the inputs from those of
 * the outputs. An absent gradient is zero. The graph keeps a copy of the object, with its members.
 *
 *     struct clamp_gradient {
 *         double limit;
 *         tenon::tensor forward(tenon::function_call &, const tenon::tensors &in) { return tenon::clone(in[0]); }
 *         tenon::tensor backward(tenon::function_call &, const tenon::tensors &grads)
 *         {
 *             return tenon::minimum(grads[0], tenon::full_like(grads[0], limit));
 *         }
 *     };
 *     tenon::tensor y = tenon::function_apply(clamp_gradient{0.05}, {x});
 *
 * Both return a tensor, or tensors if there are several. Then `static constexpr uint32_t outputs` is the number of the
 * outputs, and function_apply returns tensors, too. `static constexpr uint32_t flags` are TN_FUNCTION_... An exception
 * becomes the error of the call. Several threads may run backward of one object at once.
 */
template <class F> auto function_apply(F f, const tensor_list &inputs, tn_place at = tn_place::here())
{
    using of = detail::function<F>;
    using result = decltype(f.forward(std::declval<function_call &>(), std::declval<const tensors &>()));
    static_assert(std::is_same_v<result, tensor> || std::is_same_v<result, tensors>, "forward returns a tensor or tensors");
    static const std::string name = detail::type_name<F>();
    static const tn_function table = {sizeof table, detail::flags_of<F>, name.c_str(), of::forward, of::backward, of::destroy};
    tn_scope *s = scope::current(at);
    if (tn_scope_failed(s)) detail::fail(s);
    const tn_tensors in = inputs;
    tn_tensor *out[detail::outputs_of<F>] = {};
    auto *user = new of{std::move(f), static_cast<size_t>(in.count)};
    if (detail::placed(at, [&](tn_scope *) { return (tn_function_apply)(s, &table, user, in, out, detail::outputs_of<F>); })) detail::fail(s);
    if constexpr (std::is_same_v<result, tensor>)
        return tensor(out[0]);
    else
        return tensors(out, out + detail::outputs_of<F>);
}

/* ---- Saved tensors ------------------------------------------------------------------------------------- */

namespace detail {
/* What is in force for tensors that this thread saves, until the end of the block. */
class saving {
public:
    saving(tn_context *ctx, int32_t status, tn_place at) : ctx_(ctx) { check(status, at); }
    ~saving() { tn_saved_hooks_pop(ctx_); }
    saving(const saving &) = delete;
    saving &operator=(const saving &) = delete;

private:
    tn_context *ctx_;
};
} // namespace detail

/* What forward saves lies in memory of the host, and comes back when backward reads it. */
class save_on_cpu : detail::saving {
public:
    [[nodiscard]] explicit save_on_cpu(tn_context *ctx, bool pin_memory = false, tn_place at = tn_place::here())
        : saving(ctx, (tn_save_on_cpu)(ctx, pin_memory), at)
    {
    }
};
/* What forward saves is copied at once: the original may be written before backward. */
class allow_mutation_on_saved_tensors : detail::saving {
public:
    [[nodiscard]] explicit allow_mutation_on_saved_tensors(tn_context *ctx, tn_place at = tn_place::here())
        : saving(ctx, (tn_allow_mutation_on_saved_tensors)(ctx), at)
    {
    }
};
/* Neither of these, nor a checkpoint: each fails with the message. */
class disable_saved_tensors_hooks : detail::saving {
public:
    [[nodiscard]] explicit disable_saved_tensors_hooks(tn_context *ctx, const std::string &message, tn_place at = tn_place::here())
        : saving(ctx, (tn_disable_saved_tensors_hooks)(ctx, message.c_str()), at)
    {
    }
};

/* ---- Checkpoints and derivatives of functions ---------------------------------------------------------- */

namespace detail {
/* The callback of a function of tensors that returns a tensor, or N tensors. */
template <uint32_t N, class F> int32_t call_of_tensors(void *user, tn_scope *s, tn_tensors in, tn_tensor **out) noexcept
{
    return guarded(s, "a function", [&] {
        put(s, (*static_cast<F *>(user))(borrowed(in.data, in.count)), "the function returned", "outputs", N, out);
    });
}

/* A call of autograd.h that writes `count` results. */
template <class Call> tensors results_of(size_t count, tn_place at, Call call)
{
    tn_scope *s = scope::current(at);
    if (tn_scope_failed(s)) fail(s);
    std::vector<tn_tensor *> out(count + 1); /* never NULL */
    if (placed(at, [&](tn_scope *) { return call(s, out.data()); })) fail(s);
    return tensors(out.data(), out.data() + count);
}
template <class Call> tensors derivative(size_t count, uint32_t n_outs, bool create_graph, tn_place at, Call call)
{
    tn_functional_options o{};
    o.size = sizeof o;
    o.n_outs = n_outs;
    o.create_graph = create_graph;
    return results_of(count, at, [&](tn_scope *s, tn_tensor **out) { return call(s, &o, out); });
}
} // namespace detail

/*
 * Calls f(inputs) without keeping what it saves: backward calls a copy of f once more. See tn_checkpoint.
 *
 *     tenon::tensor y = tenon::checkpoint([net](const tenon::tensors &in) { return net->forward(in[0]); }, {x});
 *
 * f returns a tensor. With checkpoint<2>(f, ...) it returns two tensors, and so does the call.
 */
template <uint32_t N = 1, class F> auto checkpoint(F f, const tensor_list &inputs, tn_place at = tn_place::here())
{
    tn_checkpoint_options o{};
    o.size = sizeof o;
    o.n_outs = N;
    o.destroy = [](void *user) { delete static_cast<F *>(user); };
    const tensors out = detail::results_of(N, at, [&](tn_scope *s, tn_tensor **results) {
        return (tn_checkpoint)(s, detail::call_of_tensors<N, F>, new F(std::move(f)), inputs, &o, results);
    });
    if constexpr (N == 1)
        return out[0];
    else
        return out;
}

/* Derivatives of a function of tensors that returns a tensor, or N tensors, in the order that autograd.h gives. */
template <uint32_t N = 1, class F> tensors jacobian(F f, const tensor_list &inputs, bool create_graph = false, tn_place at = tn_place::here())
{
    const tn_tensors in = inputs;
    return detail::derivative(N * static_cast<size_t>(in.count), N, create_graph, at,
                              [&](tn_scope *s, const tn_functional_options *o, tn_tensor **out) {
                                  return (tn_jacobian)(s, detail::call_of_tensors<N, F>, &f, in, o, out);
                              });
}
template <class F> tensors hessian(F f, const tensor_list &inputs, bool create_graph = false, tn_place at = tn_place::here())
{
    const tn_tensors in = inputs;
    return detail::derivative(
        static_cast<size_t>(in.count * in.count), 1, create_graph, at,
        [&](tn_scope *s, const tn_functional_options *o, tn_tensor **out) { return (tn_hessian)(s, detail::call_of_tensors<1, F>, &f, in, o, out); });
}
template <uint32_t N = 1, class F>
tensors vjp(F f, const tensor_list &inputs, const tensor_list &v, bool create_graph = false, tn_place at = tn_place::here())
{
    const tn_tensors in = inputs, vectors = v;
    return detail::derivative(static_cast<size_t>(in.count), N, create_graph, at, [&](tn_scope *s, const tn_functional_options *o, tn_tensor **out) {
        return (tn_vjp)(s, detail::call_of_tensors<N, F>, &f, in, vectors, o, out);
    });
}
template <uint32_t N = 1, class F>
tensors jvp(F f, const tensor_list &inputs, const tensor_list &v, bool create_graph = false, tn_place at = tn_place::here())
{
    const tn_tensors in = inputs, vectors = v;
    return detail::derivative(N, N, create_graph, at, [&](tn_scope *s, const tn_functional_options *o, tn_tensor **out) {
        return (tn_jvp)(s, detail::call_of_tensors<N, F>, &f, in, vectors, o, out);
    });
}

} // namespace tenon

#endif
