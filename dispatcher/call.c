/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call path: checks the arguments against the schema, runs the layers that apply, each around the next,
 * and the backend inside them all.
 */
#include <assert.h>
#include <string.h>
#include <unistd.h>
#include "core/thread.h"
#include "core/graph.h"
#include "dispatcher/backend.h"

#define MAX_SCALARS 3 /* that one operator has in the place of tensors */

/* Beside the state bits: NULL in a value, a tensor or generator of another context, a number that is not
 * a dtype, layout or memory format. */
#define UNUSABLE (1u << 31)

static inline uint32_t state_of(const tn_tensor *t, const tn_context *ctx)
{
    if (TNI_UNLIKELY(!t)) return UNUSABLE;
    const uint32_t state = tni_autograd_state_of(t);
    return TNI_LIKELY(t->ctx == ctx) ? state : state | UNUSABLE;
}

/* Of values that state_behind looks at. Ordinary calls have lists of ints and strings, which it need not see. */
#define TAGS_OF_NUMBERS (1u << TN_TAG_DTYPE | 1u << TN_TAG_LAYOUT | 1u << TN_TAG_MEMORY_FORMAT)
#define TAGS_TO_CHECK   (1u << TN_TAG_TENSORS | 1u << TN_TAG_GENERATOR | TAGS_OF_NUMBERS)

/* Whether the number of a dtype is one, and that of a layout or memory format has 32 bits: operators refuse those of them that
 * do not exist. */
static int32_t is_number_of(const tn_value *v, const tn_context *ctx)
{
    const tn_dtype dtype = (tn_dtype)v->as.i;
    if (v->tag != TN_TAG_DTYPE) return v->as.i >= INT32_MIN && v->as.i <= UINT32_MAX;
    if (dtype != v->as.i) return 0;
    return tni_dtype_index(dtype) >= 0 ||
           (tni_dtype_is_vendor(dtype) && tn_dtype_interned((tn_context *)(uintptr_t)ctx, dtype));
}

/* The dtypes of most calls, for which is_number_of need not be asked. */
static inline int32_t is_ordinary_dtype(int64_t number)
{
    static const uint32_t with_bytes[8] = {[TN_CODE_INT] = 1u << 1 | 1u << 2 | 1u << 4 | 1u << 8,
                                           [TN_CODE_UINT] = 1u << 1 | 1u << 2 | 1u << 4 | 1u << 8,
                                           [TN_CODE_FLOAT] = 1u << 2 | 1u << 4 | 1u << 8,
                                           [TN_CODE_BFLOAT] = 1u << 2,
                                           [TN_CODE_COMPLEX] = 1u << 4 | 1u << 8 | 1u << 16,
                                           [TN_CODE_BOOL] = 1u << 1};
    return (number & ~INT64_C(0xf807)) == TN_DTYPE(0, 0) &&
           with_bytes[number & 7] >> (number >> 11 & 31) & 1u;
}

static __attribute__((noinline)) uint32_t state_behind(const tn_value *v, const tn_context *ctx)
{
    uint32_t state = 0;
    if (TAGS_OF_NUMBERS >> v->tag & 1u) return is_number_of(v, ctx) ? 0 : UNUSABLE;
    if (v->tag == TN_TAG_GENERATOR) return v->as.generator->ctx == ctx ? 0 : UNUSABLE;
    for (uint32_t k = 0; v->tag == TN_TAG_TENSORS && k < v->count; k++) {
        if (v->as.tensors[k]) state |= state_of(v->as.tensors[k], ctx);
    }
    return state;
}

/* The state bits of all tensors in a value. */
static inline uint32_t state_in(const tn_value *v, const tn_context *ctx)
{
    if (v->tag == TN_TAG_TENSOR) return state_of(v->as.tensor, ctx);
    if (TNI_LIKELY(!((TNI_POINTING_TAGS | TAGS_TO_CHECK) >> v->tag & 1u))) return 0;
    if (v->tag == TN_TAG_DTYPE && is_ordinary_dtype(v->as.i)) return 0;
    if (TNI_UNLIKELY(!v->as.pointer)) return tni_points_to_null(v) ? UNUSABLE : 0;
    return TNI_UNLIKELY(TAGS_TO_CHECK >> v->tag & 1u) ? state_behind(v, ctx) : 0;
}

static __attribute__((noinline)) int32_t change_arguments(tni_call_state *c, const tni_op *op,
                                                          const tn_value *args, uint32_t n_args,
                                                          uint32_t *out_state)
{
    int32_t status = tni_change_arguments(c, op, args, n_args);
    *out_state = 0;
    for (uint32_t i = 0; i < op->n_args && !status; i++)
        *out_state |= state_in(&c->frame.args[i], c->frame.ctx);
    return status;
}

/* Checks the arguments: one pass over the tags is enough if all are given and fit. *out_state: the state bits of
 * all tensors among them. */
static inline __attribute__((always_inline)) int32_t take_arguments(tni_call_state *c, const tni_op *op,
                                                                    const tn_value *args, uint32_t n_args,
                                                                    uint32_t *out_state)
{
    const tni_schema *s = op->schema;
    uint32_t state = 0;
    if (TNI_LIKELY(n_args == s->n_args)) {
        const tn_value *v = args, *end = args + n_args;
        const uint32_t *accepted = s->accepted;
        for (; v < end && v->tag < 32 && *accepted >> v->tag & 1u; v++, accepted++)
            state |= state_in(v, c->frame.ctx);
        if (TNI_LIKELY(v == end)) {
            c->frame.args = args;
            *out_state = state;
            return TN_OK;
        }
    }
    return change_arguments(c, op, args, n_args, out_state);
}

/* The context and the handles of a call. */
static int32_t check_handles(const tni_frame *f)
{
    if (TNI_UNLIKELY(!tni_context_is_usable(f->ctx))) return tni_context_check(f->ctx);
    for (uint32_t i = 0; i < f->op->n_args; i++) {
        const tn_value *v = &f->args[i];
        int32_t status = TN_OK;
        if (v->tag == TN_TAG_TENSOR && v->as.tensor) status = tni_tensor_check(v->as.tensor);
        if (v->tag == TN_TAG_GENERATOR && v->as.generator) status = tni_generator_check(v->as.generator);
        for (uint32_t k = 0; v->tag == TN_TAG_TENSORS && v->as.tensors && k < v->count && !status; k++) {
            status = v->as.tensors[k] ? tni_tensor_check(v->as.tensors[k]) : TN_OK;
        }
        if (status == TN_E_DEAD_HANDLE) {
            return tni_error(status, "%s(): argument '%s' (position %u): %s", f->op->schema->name,
                             f->op->schema->args[i].name, i + 1, tn_last_error()->message);
        }
        if (status) return status;
    }
    return TN_OK;
}

/* The context of a handle in the value that is not the context `of`; NULL if there is none. */
static const tn_context *other_context(const tn_value *v, const tn_context *of)
{
    if (!v->as.pointer) return NULL;
    if (v->tag == TN_TAG_GENERATOR) return v->as.generator->ctx;
    if (v->tag == TN_TAG_TENSOR) return v->as.tensor->ctx;
    for (uint32_t k = 0; v->tag == TN_TAG_TENSORS && k < v->count; k++) {
        if (v->as.tensors[k] && v->as.tensors[k]->ctx != of) return v->as.tensors[k]->ctx;
    }
    return NULL;
}

/* The device handles, streams and locks of a tensor are those of its context. A dtype of a vendor is one of its context. */
static __attribute__((noinline)) int32_t refuse_unusable(const tni_frame *f)
{
    uint32_t i = 0;
    while (i + 1 < f->op->n_args && !(state_in(&f->args[i], f->ctx) & UNUSABLE)) i++;
    const tn_value *v = &f->args[i];
    if (TAGS_OF_NUMBERS >> v->tag & 1u)
        return tni_error(v->tag == TN_TAG_DTYPE ? TN_E_DTYPE : TN_E_ARGUMENT,
                         "%s(): argument '%s' (position %u): 0x%llx is not a %s", f->op->schema->name,
                         f->op->schema->args[i].name, i + 1, (unsigned long long)v->as.i,
                         v->tag == TN_TAG_DTYPE    ? "dtype"
                         : v->tag == TN_TAG_LAYOUT ? "layout"
                                                   : "memory format");
    const tn_context *other = other_context(v, f->ctx);
    if (other && tni_context_is_forked(other))
        return tni_error(TN_E_FORKED,
                         "%s(): argument '%s' (position %u): a %s of a context that process %ld made, and "
                         "that cannot be used after fork in process %ld",
                         f->op->schema->name, f->op->schema->args[i].name, i + 1,
                         v->tag == TN_TAG_GENERATOR ? "generator" : "tensor", (long)other->pid,
                         (long)getpid());
    const char *why = !v->as.pointer ? "a value that points to NULL; what is absent has the tag 0"
                      : v->tag == TN_TAG_GENERATOR ? "a generator of another context"
                                                   : "a tensor of another context";
    return tni_error(TN_E_ARGUMENT, "%s(): argument '%s' (position %u): %s", f->op->schema->name,
                     f->op->schema->args[i].name, i + 1, why);
}

/* The layers that the call passes: those for every call, and trace and autocast where they are on. Autograd if the
 * call is recorded, makes a view of a tensor that requires a gradient, or may write to an inference tensor. */
static inline uint32_t wanted_layers(tni_frame *f, const tni_registry *r, const tni_op *op, uint32_t state)
{
    uint32_t layers = atomic_load_explicit(&r->always, memory_order_relaxed);
    if (TNI_UNLIKELY(tni_tls.autocast != NULL)) layers |= TNI_LAYER_BIT(TNI_LAYER_AUTOCAST);
    if (TNI_UNLIKELY(tni_tls.trace != NULL)) layers |= TNI_LAYER_BIT(TNI_LAYER_TRACE);
    if (state & (TNI_WANTS_GRAD | TNI_INFERENCE)) {
        f->wants_grad = state & TNI_WANTS_GRAD && tni_grad_enabled();
        if (f->wants_grad || op->is_view || (state & TNI_INFERENCE && op->form != TNI_FORM_FUNCTIONAL))
            layers |= TNI_LAYER_BIT(TNI_LAYER_AUTOGRAD);
    }
    return layers & ~tni_tls.excluded_layers;
}

int32_t tni_next(tni_frame *f)
{
    if (!f->layers) return tni_run(f);
    uint32_t layer = (uint32_t)__builtin_ctz(f->layers);
    f->layers &= f->layers - 1;
    return f->registry->layers[layer](f);
}

void tni_frame_init(tni_frame *f, tn_context *ctx, const tni_op *op, tn_value *outs, uint32_t n_outs)
{
    f->ctx = ctx;
    f->registry = ctx->registry;
    f->op = op;
    f->outs = outs;
    f->n_outs = n_outs;
    f->n_args = op->base->n_args;
    memset(&f->device, 0, offsetof(tni_frame, meta) - offsetof(tni_frame, device));
    for (uint32_t i = 0; i < n_outs; i++) {
        outs[i] = tn_value_none();
        f->meta[i].defined = 0;
        f->given[i] = NULL;
    }
}

/* Tries the fast path with scalars that need no allocation. 1: the call ran, with *out_status. */
static int32_t run_with_scalars(tni_frame *f, const tni_op *to, int32_t *out_status)
{
    tni_wrapped_scalar scalars[MAX_SCALARS];
    tn_value args[TNI_MAX_ARGS];
    const tn_value *given = f->args;
    tni_device *cpu = tni_device_get(f->ctx, TN_CPU);
    uint32_t n = 0;
    if (to->base->kind != TNI_KIND_POINTWISE || to->n_args != f->op->n_args || !cpu) return 0;
    for (uint32_t i = 0; i < to->n_args; i++) {
        args[i] = given[i];
        if (to->schema->args[i].type != TNI_TYPE_TENSOR || !tni_is_number(given[i].tag)) continue;
        assert(n < MAX_SCALARS);
        args[i] = tn_value_tensor(tni_wrapped_scalar_init(&scalars[n++], cpu, given[i]));
    }
    f->op = to;
    f->args = args;
    f->n_args = to->base->n_args;
    if (to->form != TNI_FORM_FUNCTIONAL) tni_find_given(f);
    *out_status = tni_run_fast_pointwise(f);
    f->args = given;
    return *out_status != TNI_NOT_FAST;
}

/*
 * Operators such as mul.Scalar have no kernels: they call an operator with the same arguments. Without layers
 * that must see both calls, that one is called directly.
 */
static int32_t call_other(tni_frame *f, const tni_op *to)
{
    int32_t status = TN_OK;
    if (TNI_UNLIKELY(!tni_op_is_open(to, f->n_outs)))
        status = tni_op_open(f->registry, (tni_op *)(uintptr_t)to, f->n_outs);
    if (status) return status;
    if (!f->layers && run_with_scalars(f, to, &status)) return status;
    return tni_call(f->ctx, to, f->args, to->n_args, f->outs, f->n_outs);
}

static inline __attribute__((always_inline)) int32_t run_layers(tni_frame *f, const tni_registry *r,
                                                                const tni_op *op, uint32_t state)
{
    const tni_op *to = op->redirects_to;
    uint32_t layers = f->layers = wanted_layers(f, r, op, state);
    if (TNI_UNLIKELY(to != NULL) && !(layers & ~TNI_LAYER_BIT(TNI_LAYER_AUTOGRAD)) && !op->base->gradient)
        return call_other(f, to);
    return TNI_LIKELY(!layers) ? tni_run(f) : tni_next(f);
}

/* Inlined into all entry points. */
static inline __attribute__((always_inline)) int32_t call(tn_context *ctx, const tni_op *op,
                                                          const tn_value *args, uint32_t n_args,
                                                          tn_value *outs, uint32_t n_outs)
{
    tni_call_state c;
    tni_frame *f = &c.frame;
    uint32_t state;
    int32_t status;
    if (TNI_UNLIKELY(!tni_op_is_open(op, n_outs))) {
        status = tni_op_open(ctx->registry, (tni_op *)(uintptr_t)op, n_outs);
        if (status) return tni_no_results(status, outs, n_outs);
    }
    tni_frame_init(f, ctx, op, outs, op->n_returns);
    for (uint32_t i = op->n_returns; i < n_outs; i++) outs[i] = tn_value_none();
    c.n_wrapped = 0;
    status = take_arguments(&c, op, args, n_args, &state);
    if (TNI_LIKELY(!status)) {
        if (TNI_UNLIKELY(atomic_load_explicit(&ctx->flags, memory_order_relaxed) &
                         (TN_CONTEXT_DEBUG_HANDLES | TNI_CONTEXT_MOVED | TNI_CONTEXT_FORKED)))
            status = check_handles(f);
        if (TNI_UNLIKELY(state & UNUSABLE) && !status) status = refuse_unusable(f);
        if (!status) {
            tni_tls.call_depth++;
            status = run_layers(f, ctx->registry, op, state);
            tni_tls.call_depth--;
        }
    }
    for (uint32_t i = 0; i < c.n_wrapped; i++) tn_release(c.wrapped[i]);
    if (TNI_UNLIKELY(status)) {
        for (uint32_t i = 0; i < op->n_returns; i++) tni_value_release(ctx, &outs[i]);
        tni_error_ensure(status, tni_op_name(op));
        op->base->def ? tni_error_library_operator(tni_op_name(op)) : tni_error_operator(tni_op_name(op));
        if (status == TN_E_STATE) tni_capture_blame(ctx, tni_op_name(op));
    }
    return status;
}

int32_t tni_call(tn_context *ctx, const tni_op *op, const tn_value *args, uint32_t n_args, tn_value *outs,
                 uint32_t n_outs)
{
    return call(ctx, op, args, n_args, outs, n_outs);
}

/* The scope takes over the results: tensors, and the memory of lists and complex numbers. */
static __attribute__((noinline)) int32_t own_results(tn_scope *s, tn_value *outs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (outs[i].tag == TN_TAG_TENSOR) {
            if (!tni_scope_own(s, outs[i].as.tensor)) outs[i] = tn_value_none();
        } else if (outs[i].tag == TN_TAG_TENSORS) {
            tn_tensor **list = tn_scope_memory(s, (outs[i].count + 1ull) * sizeof *list);
            for (uint32_t k = 0; list && k < outs[i].count; k++)
                list[k] = tni_scope_own(s, tn_retain(outs[i].as.tensors[k]));
            uint32_t count = outs[i].count;
            tni_value_release(s->ctx, &outs[i]);
            if (list && !s->status) outs[i] = tn_value_tensors(list, count);
        } else if (outs[i].tag == TN_TAG_COMPLEX) {
            double *pair = tn_scope_memory(s, 2 * sizeof *pair);
            if (pair) memcpy(pair, outs[i].as.floats, 2 * sizeof *pair);
            tni_value_release(s->ctx, &outs[i]);
            if (pair) outs[i] = tn_value_complex(pair);
        }
    }
    return s->status;
}

int32_t tni_no_results(int32_t status, tn_value *outs, uint32_t n_outs)
{
    for (uint32_t i = 0; i < n_outs; i++) outs[i] = tn_value_none();
    return status;
}

/* TENON_DEBUG: what the call finds and makes waits for its place. */
static __attribute__((noinline)) int32_t call_and_want_place(tn_scope *s, uint32_t op, const tn_value *args,
                                                             uint32_t n_args, tn_value *outs, uint32_t n_outs)
{
    int32_t before = tn_scope_place_begin(s), status = tn_scope_call(s, op, args, n_args, outs, n_outs);
    return status ? status : before;
}

/* Where one of the two is NULL: 1 and an error of the scope, if values should be there. */
static __attribute__((noinline)) int32_t lacks_values(tn_scope *s, uint32_t op, const tn_value *args,
                                                      uint32_t n_args, tn_value *outs, uint32_t n_outs)
{
    const tni_op *o = tni_op_get(s->ctx->registry, op);
    if ((args || !n_args) && (outs || !n_outs)) return 0;
    if (outs) tni_no_results(TN_OK, outs, n_outs);
    tni_scope_record(s, tni_error(TN_E_ARGUMENT, "tn_scope_call of %s: %s is NULL",
                                  o ? tni_op_name(o) : "an operator", outs || !n_outs ? "args" : "outs"));
    return 1;
}

/* Inlined into both entry points. With `placed` the caller tells the place of the call if it is wanted. */
static inline __attribute__((always_inline)) int32_t scope_call(tn_scope *s, uint32_t op,
                                                                const tn_value *args, uint32_t n_args,
                                                                tn_value *outs, uint32_t n_outs,
                                                                const int32_t placed)
{
    const uint32_t rare = TNI_CONTEXT_CHECKS_SCOPES | (placed ? TNI_CONTEXT_PLACES : 0);
    int32_t status;
    if (TNI_UNLIKELY(!s || s->status || s->ctx->flags & rare)) {
        if (placed && s && !s->status && s->ctx->flags & TNI_CONTEXT_PLACES)
            return call_and_want_place(s, op, args, n_args, outs, n_outs);
        status = tn_scope_failed(s);
        if (status && s && s->status) s->wants_place = 0;
        if (status) return tni_no_results(status, outs, outs ? n_outs : 0);
    }
    if (TNI_UNLIKELY(!args || !outs) && lacks_values(s, op, args, n_args, outs, n_outs)) return s->status;
    status = call(s->ctx, tni_op_get(s->ctx->registry, op), args, n_args, outs, n_outs);
    if (TNI_UNLIKELY(status)) return tni_scope_record(s, status);
    if (TNI_LIKELY(n_outs == 1 && outs[0].tag == TN_TAG_TENSOR)) {
        if (tni_scope_own(s, outs[0].as.tensor)) return TN_OK;
        outs[0] = tn_value_none();
        return s->status;
    }
    return own_results(s, outs, n_outs);
}

int32_t tn_scope_call(tn_scope *s, uint32_t op, const tn_value *args, uint32_t n_args, tn_value *outs,
                      uint32_t n_outs)
{
    return scope_call(s, op, args, n_args, outs, n_outs, 0);
}

int32_t tn_scope_call_placed(tn_scope *s, uint32_t op, const tn_value *args, uint32_t n_args, tn_value *outs,
                             uint32_t n_outs)
{
    return scope_call(s, op, args, n_args, outs, n_outs, 1);
}

void tni_value_release(tn_context *ctx, tn_value *v)
{
    if (v->tag == TN_TAG_TENSOR) {
        tn_release(v->as.tensor);
    } else if (v->tag == TN_TAG_TENSORS) {
        const uint32_t n = v->count ? v->count : 1;
        tn_tensor *last = v->count ? v->as.tensors[n - 1] : NULL; /* it may be what keeps the context */
        for (uint32_t i = 0; i + 1 < n; i++) tn_release(v->as.tensors[i]);
        tni_free(ctx, (void *)(uintptr_t)v->as.tensors, n * sizeof(tn_tensor *));
        tn_release(last);
    } else if (v->tag == TN_TAG_COMPLEX) {
        tni_free(ctx, (void *)(uintptr_t)v->as.floats, 2 * sizeof(double));
    }
    *v = tn_value_none();
}
