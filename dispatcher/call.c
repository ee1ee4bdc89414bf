/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call path: arguments are checked against the schema once, defaults filled in, the layers that want the
 * call run one inside the other, at last the backend. A call whose arguments need no change copies nothing.
 */
#include <string.h>
#include "core/thread.h"
#include "dispatcher/call.h"

static const char *const tag_names[] = {"None",   "Tensor",       "Tensor[]",  "int",        "float",
                                        "bool",   "complex",      "str",       "int[]",      "float[]",
                                        "bool[]", "Scalar[]",     "str[]",     "ScalarType", "Layout",
                                        "Device", "MemoryFormat", "Generator", "pointer"};

static int32_t bad_argument(const tni_op *op, uint32_t i, const tn_value *v)
{
    const tni_argument *a = &op->schema->args[i];
    const char *got = v->tag < sizeof tag_names / sizeof *tag_names ? tag_names[v->tag] : "an unknown tag";
    if (v->tag == TN_TAG_NONE) {
        return tni_error(TN_E_ARGUMENT, "%s(): argument '%s' (position %u) must be %s, not None",
                         op->schema->name, a->name, i + 1, a->type_text);
    }
    return tni_error(TN_E_ARGUMENT, "%s(): argument '%s' (position %u) must be %s, not %s", op->schema->name,
                     a->name, i + 1, a->type_text, got);
}

static int32_t bad_length(const tni_op *op, uint32_t i, uint32_t count)
{
    const tni_argument *a = &op->schema->args[i];
    return tni_error(TN_E_ARGUMENT, "%s(): argument '%s' must have %d items, got %u", op->schema->name,
                     a->name, a->list_length, count);
}

/* A single number where a list is wanted: as many as the schema says. */
static int32_t widen_to_list(tni_frame *f, const tni_argument *a, tn_value *v)
{
    uint32_t n = a->list_length > 1 ? (uint32_t)a->list_length : 1;
    union {
        int64_t i;
        double f;
    } *items = tni_frame_memory(f, n * 8ull);
    if (!items) return TN_E_INTERNAL;
    for (uint32_t k = 0; k < n; k++) {
        if (a->type == TNI_TYPE_FLOAT)
            items[k].f = tn_value_as_float(*v);
        else
            items[k].i = v->as.i;
    }
    *v = a->type == TNI_TYPE_FLOAT ? tn_value_floats(&items->f, n) : tn_value_ints(&items->i, n);
    return TN_OK;
}

/* Numbers stand for tensors as 0-dim ones that promote like numbers. */
static int32_t wrap_number(tni_call_state *c, tn_value *v)
{
    tn_tensor *t;
    int32_t status;
    if (c->n_wrapped == TNI_MAX_ARGS) return tni_error(TN_E_ARGUMENT, "too many numbers in place of tensors");
    status = tni_wrap_scalar(c->frame.ctx, *v, &t);
    if (status) return status;
    c->wrapped[c->n_wrapped++] = t;
    *v = tn_value_tensor(t);
    return TN_OK;
}

static int32_t is_number(uint32_t tag)
{
    return tag == TN_TAG_INT || tag == TN_TAG_FLOAT || tag == TN_TAG_BOOL || tag == TN_TAG_COMPLEX;
}

/* Lists: 0 fits, 1 does not fit, 2 may fit after a change. */
static int32_t fits_list(const tni_argument *a, const tn_value *v)
{
    switch (a->type) {
    case TNI_TYPE_TENSOR:
        return v->tag != TN_TAG_TENSORS;
    case TNI_TYPE_INT:
        return v->tag == TN_TAG_INTS ? 0 : v->tag == TN_TAG_INT ? 2 : 1;
    case TNI_TYPE_FLOAT:
        return v->tag == TN_TAG_FLOATS                          ? 0
               : v->tag == TN_TAG_FLOAT || v->tag == TN_TAG_INT ? 2
               : v->tag == TN_TAG_INTS                          ? 2
                                                                : 1;
    case TNI_TYPE_BOOL:
        return v->tag != TN_TAG_BOOLS;
    case TNI_TYPE_SCALAR:
        return v->tag != TN_TAG_SCALARS;
    case TNI_TYPE_STRING:
    case TNI_TYPE_DIMNAME:
        return v->tag != TN_TAG_STRINGS;
    default:
        return 0;
    }
}

static int32_t fits_item(const tni_argument *a, const tn_value *v)
{
    switch (a->type) {
    case TNI_TYPE_TENSOR:
        return v->tag == TN_TAG_TENSOR ? 0 : is_number(v->tag) ? 2 : 1;
    case TNI_TYPE_INT:
        return v->tag == TN_TAG_INT ? 0 : v->tag == TN_TAG_BOOL ? 2 : 1;
    case TNI_TYPE_FLOAT:
        return v->tag == TN_TAG_FLOAT ? 0 : v->tag == TN_TAG_INT || v->tag == TN_TAG_BOOL ? 2 : 1;
    case TNI_TYPE_BOOL:
        return v->tag == TN_TAG_BOOL ? 0 : v->tag == TN_TAG_INT ? 2 : 1;
    case TNI_TYPE_SCALAR:
    case TNI_TYPE_COMPLEX:
        return is_number(v->tag) ? 0 : 1;
    case TNI_TYPE_STRING:
    case TNI_TYPE_DIMNAME:
        return v->tag != TN_TAG_STRING;
    case TNI_TYPE_DTYPE:
        return v->tag != TN_TAG_DTYPE;
    case TNI_TYPE_LAYOUT:
        return v->tag != TN_TAG_LAYOUT;
    case TNI_TYPE_DEVICE:
        return v->tag != TN_TAG_DEVICE;
    case TNI_TYPE_MEMORY_FORMAT:
        return v->tag != TN_TAG_MEMORY_FORMAT;
    case TNI_TYPE_GENERATOR:
        return v->tag != TN_TAG_GENERATOR;
    default:
        return 0;
    }
}

/* Brings a value that almost fits into the schema's form. */
static int32_t convert(tni_call_state *c, const tni_argument *a, tn_value *v)
{
    if (a->is_list) {
        if (a->type == TNI_TYPE_FLOAT && v->tag == TN_TAG_INTS) {
            double *items = tni_frame_memory(&c->frame, (v->count + 1ull) * 8);
            if (!items) return TN_E_INTERNAL;
            for (uint32_t k = 0; k < v->count; k++) items[k] = (double)v->as.ints[k];
            *v = tn_value_floats(items, v->count);
            return TN_OK;
        }
        return widen_to_list(&c->frame, a, v);
    }
    if (a->type == TNI_TYPE_TENSOR) return wrap_number(c, v);
    if (a->type == TNI_TYPE_FLOAT)
        *v = tn_value_float(tn_value_as_float(*v));
    else if (a->type == TNI_TYPE_BOOL)
        *v = tn_value_bool(v->as.i != 0);
    else
        *v = tn_value_int(v->as.i);
    return TN_OK;
}

static int32_t check_items(const tni_op *op, uint32_t i, const tn_value *v)
{
    const tni_argument *a = &op->schema->args[i];
    if (a->list_length && v->count != (uint32_t)a->list_length && v->tag != TN_TAG_TENSORS &&
        !(v->count == 1 && v->tag == TN_TAG_INTS)) {
        /* ATen takes a list of another length in some places and lets the operator say so: only bools are
         * strict. */
        if (v->tag == TN_TAG_BOOLS) return bad_length(op, i, v->count);
    }
    if (v->tag == TN_TAG_TENSORS && !a->optional_items) {
        for (uint32_t k = 0; k < v->count; k++) {
            if (!v->as.tensors[k]) {
                return tni_error(TN_E_ARGUMENT, "%s(): argument '%s': item %u is None", op->schema->name,
                                 a->name, k);
            }
        }
    }
    return TN_OK;
}

/* One item where the schema says int[2] is widened, as ATen does for literal lists of one. */
static int32_t widen_short_list(tni_frame *f, const tni_argument *a, tn_value *v)
{
    tn_value one = tn_value_int(v->as.ints[0]);
    int32_t status = widen_to_list(f, a, &one);
    if (!status) *v = one;
    return status;
}

static int32_t check_argument(tni_call_state *c, const tni_op *op, uint32_t i, tn_value *v)
{
    const tni_argument *a = &op->schema->args[i];
    int32_t fit, status;
    if (v->tag == TN_TAG_NONE) {
        return a->is_optional || a->default_text || a->type == TNI_TYPE_GENERATOR ? TN_OK
                                                                                  : bad_argument(op, i, v);
    }
    fit = a->is_list ? fits_list(a, v) : fits_item(a, v);
    if (fit == 1) return bad_argument(op, i, v);
    if (fit == 2) return convert(c, a, v);
    if (!a->is_list) return TN_OK;
    status = check_items(op, i, v);
    if (!status && a->list_length > 1 && v->count == 1 && v->tag == TN_TAG_INTS)
        status = widen_short_list(&c->frame, a, v);
    return status;
}

static int32_t wrong_count(const tni_op *op, uint32_t n_args)
{
    const tni_schema *s = op->schema;
    if (n_args > s->n_args) {
        return tni_error(TN_E_ARGUMENT, "%s() takes %u arguments but %u were given; schema: %s", s->name,
                         s->n_args, n_args, s->text);
    }
    return tni_error(TN_E_ARGUMENT, "%s() missing argument '%s' (position %u); schema: %s", s->name,
                     s->args[n_args].name, n_args + 1, s->text);
}

/* Arguments that fit as they are stay where the caller has them. */
static int32_t needs_change(const tni_argument *a, const tn_value *v)
{
    if (v->tag == TN_TAG_NONE) return !a->is_optional;
    if (a->is_list) return 1;
    return fits_item(a, v) != 0;
}

static int32_t check_arguments(tni_call_state *c, const tni_op *op, const tn_value *args, uint32_t n_args)
{
    const tni_schema *s = op->schema;
    uint32_t i = 0;
    if (n_args == s->n_args) {
        while (i < n_args && !needs_change(&s->args[i], &args[i])) i++;
        if (i == n_args) {
            c->frame.args = args;
            return TN_OK;
        }
    }
    if (n_args > s->n_args || s->n_args > TNI_MAX_ARGS) return wrong_count(op, n_args);
    if (n_args) memcpy(c->args, args, n_args * sizeof *args);
    c->frame.args = c->args;
    for (i = 0; i < s->n_args; i++) {
        int32_t status;
        if (i >= n_args ||
            (c->args[i].tag == TN_TAG_NONE && !s->args[i].is_optional && s->args[i].default_text)) {
            if (i >= n_args && !s->args[i].default_text && !s->args[i].is_optional) return wrong_count(op, i);
            c->args[i] = s->args[i].default_value;
            continue;
        }
        status = check_argument(c, op, i, &c->args[i]);
        if (status) return status;
    }
    return TN_OK;
}

static uint32_t tensor_state(const tni_frame *f)
{
    uint32_t state = 0;
    for (uint32_t i = 0; i < f->op->n_args; i++) {
        const tn_value *v = &f->args[i];
        if (v->tag == TN_TAG_TENSOR) {
            state |= tni_autograd_state_of(v->as.tensor);
        } else if (v->tag == TN_TAG_TENSORS) {
            for (uint32_t k = 0; k < v->count; k++) {
                if (v->as.tensors[k]) state |= tni_autograd_state_of(v->as.tensors[k]);
            }
        }
    }
    return state;
}

static int32_t check_handles(const tni_frame *f)
{
    for (uint32_t i = 0; i < f->op->n_args; i++) {
        const tn_value *v = &f->args[i];
        int32_t status = v->tag == TN_TAG_TENSOR ? tni_tensor_check(v->as.tensor) : TN_OK;
        for (uint32_t k = 0; v->tag == TN_TAG_TENSORS && k < v->count && !status; k++) {
            status = v->as.tensors[k] ? tni_tensor_check(v->as.tensors[k]) : TN_OK;
        }
        if (status) return status;
    }
    return TN_OK;
}

/* Which layers want the call: those that want every one, autograd if something takes part in it or is
 * written. */
static uint32_t wanted_layers(tni_frame *f)
{
    uint32_t layers = atomic_load_explicit(&f->registry->always, memory_order_relaxed);
    if (tensor_state(f) & TNI_WANTS_GRAD) {
        f->wants_grad = (uint32_t)tni_grad_enabled();
        layers |= TNI_LAYER_BIT(TNI_LAYER_AUTOGRAD);
    }
    return layers & ~tni_tls.excluded_layers;
}

int32_t tni_next(tni_frame *f)
{
    while (f->layers) {
        uint32_t layer = (uint32_t)__builtin_ctz(f->layers);
        f->layers &= f->layers - 1;
        if (f->registry->layers[layer]) return f->registry->layers[layer](f);
    }
    return tni_run(f);
}

void tni_frame_init(tni_frame *f, tn_context *ctx, const tni_op *op, tn_value *outs, uint32_t n_outs)
{
    f->ctx = ctx;
    f->registry = ctx->registry;
    f->op = op;
    f->outs = outs;
    f->n_outs = n_outs;
    f->n_args = op->base->n_args;
    f->wants_grad = 0;
    f->device = 0;
    f->call_dtype = 0;
    f->keep_dtype = 0;
    f->reduced = 0;
    f->keepdim = 0;
    f->positions = 0;
    f->identity = 0;
    f->done = 0;
    f->open_device = NULL;
    f->stream = NULL;
    f->arena_used = 0;
    f->scope = NULL;
    f->kept = NULL;
    for (uint32_t i = 0; i < n_outs; i++) {
        outs[i] = tn_value_none();
        f->meta[i].defined = 0;
        f->meta[i].has_strides = 0;
        f->given[i] = NULL;
    }
}

static int32_t refuse(tn_context *ctx, const tni_op *op, uint32_t n_outs)
{
    if (!op || op->removed) return tni_error(TN_E_NOT_FOUND, "no operator with this number");
    (void)ctx;
    return tni_error(TN_E_ARGUMENT, "%s: %u results, space for %u was given", tni_op_name(op), op->n_returns,
                     n_outs);
}

int32_t tni_call(tn_context *ctx, const tni_op *op, const tn_value *args, uint32_t n_args, tn_value *outs,
                 uint32_t n_outs)
{
    tni_call_state c;
    tni_frame *f = &c.frame;
    int32_t status;
    if (TNI_UNLIKELY(!op || op->removed)) return refuse(ctx, op, n_outs);
    if (TNI_UNLIKELY(!op->schema || !op->base->schema)) {
        status = tni_op_ready(ctx->registry, op);
        if (!status) status = tni_op_ready(ctx->registry, op->base);
        if (status) return status;
    }
    if (TNI_UNLIKELY(n_outs < op->n_returns || op->n_returns > TNI_MAX_OUTPUTS))
        return refuse(ctx, op, n_outs);
    tni_frame_init(f, ctx, op, outs, op->n_returns);
    for (uint32_t i = op->n_returns; i < n_outs; i++) outs[i] = tn_value_none();
    c.n_wrapped = 0;
    status = check_arguments(&c, op, args, n_args);
    if (TNI_LIKELY(!status)) {
        if (TNI_UNLIKELY(ctx->flags & TN_CONTEXT_DEBUG_HANDLES)) status = check_handles(f);
        if (!status) {
            tni_tls.call_depth++;
            f->layers = wanted_layers(f);
            status = tni_next(f);
            tni_tls.call_depth--;
        }
    }
    for (uint32_t i = 0; i < c.n_wrapped; i++) tn_release(c.wrapped[i]);
    if (TNI_UNLIKELY(status)) {
        for (uint32_t i = 0; i < op->n_returns; i++) tni_value_release(ctx, &outs[i]);
        tni_error_ensure(status, tni_op_name(op));
        tni_error_operator(tni_op_name(op));
    }
    return status;
}

void tni_value_release(tn_context *ctx, tn_value *v)
{
    if (v->tag == TN_TAG_TENSOR) {
        tn_release(v->as.tensor);
    } else if (v->tag == TN_TAG_TENSORS) {
        for (uint32_t i = 0; i < v->count; i++) tn_release(v->as.tensors[i]);
        tni_free(ctx, (void *)(uintptr_t)v->as.tensors, (v->count ? v->count : 1) * sizeof(tn_tensor *));
    }
    *v = tn_value_none();
}
