/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finite differences against the analytic gradient. For a real loss L = Re(conj(v) . y) the gradient by the
 * conjugate Wirtinger convention is dL/dRe(x) + i dL/dIm(x). v runs over the units of each output, and over i
 * times them where it is complex, so every entry of the Jacobian is compared. Second derivatives: the same of
 * the gradient as a function.
 */
#include "autograd/graph.h"

#include "core/context.h"
#include "core/scope.h"

#include <math.h>
#include <string.h>

#include <tenon/ops.h>

/* A function under test and what it is tested with. */
typedef struct check {
    tn_check_fn f;
    void *user;
    tn_tensors inputs;
    uint32_t n_outs;
    double eps, atol, rtol;
} check;

/* The elements of one tensor as (real, imaginary) pairs. */
typedef struct numbers {
    double *pairs;
    int64_t count;
    int32_t is_complex;
} numbers;

static int32_t fail(tn_scope *s, int32_t status)
{
    return tni_scope_record(s, status);
}

static int32_t read_numbers(tn_scope *s, const tn_tensor *t, numbers *out)
{
    int32_t is_complex = t->desc.dtype == TN_COMPLEX128;
    if (!is_complex && t->desc.dtype != TN_FLOAT64)
        return fail(s, tni_error(TN_E_DTYPE, "gradcheck: expected float64 or complex128, got %s",
                                 tn_dtype_name(t->desc.dtype)));
    uint64_t bytes = (uint64_t)t->numel * (is_complex ? 16 : 8);
    double *raw = tn_scope_memory(s, bytes + 16);
    double *pairs = is_complex ? raw : tn_scope_memory(s, (uint64_t)t->numel * 16 + 16);
    if (!raw || !pairs) return tn_scope_failed(s);
    if (bytes && tn_to_host(s, t, raw, bytes)) return tn_scope_failed(s);
    for (int64_t i = 0; !is_complex && i < t->numel; i++) {
        pairs[2 * i] = raw[i];
        pairs[2 * i + 1] = 0;
    }
    *out = (numbers){pairs, t->numel, is_complex};
    return TN_OK;
}

static tn_tensor *write_numbers(tn_scope *s, const tn_tensor *like, const numbers *n)
{
    double *raw = n->pairs;
    if (!n->is_complex) {
        raw = tn_scope_memory(s, (uint64_t)n->count * 8 + 8);
        for (int64_t i = 0; raw && i < n->count; i++) raw[i] = n->pairs[2 * i];
    }
    if (!raw) return NULL;
    int64_t none = 0;
    tn_ints sizes = {like->desc.rank ? like->desc.sizes : &none, like->desc.rank};
    return tn_from_data(s, like->desc.dtype, sizes, raw, like->desc.device);
}

static int32_t is_checked(const tn_tensor *t)
{
    return t && tni_wants_grad(t);
}

static int32_t call(const check *c, tn_scope *s, tn_tensors inputs, tn_tensor **outs)
{
    memset(outs, 0, c->n_outs * sizeof *outs);
    const uint32_t lent = tni_scope_lend(s);
    int32_t status = c->f(c->user, s, inputs, outs);
    tni_scope_take_back(s, lent);
    if (status && !tn_scope_failed(s)) fail(s, tni_error_ensure(status, "gradcheck"));
    for (uint32_t i = 0; i < c->n_outs && !tn_scope_failed(s); i++) {
        if (!outs[i]) fail(s, tni_error(TN_E_ARGUMENT, "gradcheck: the function gave no output %u", i));
    }
    return tn_scope_failed(s);
}

/* Where the tensor of input i stands first: a function of one tensor may be given it several times. */
static int64_t first_place(tn_tensors inputs, int64_t i)
{
    int64_t first = 0;
    while (inputs.data[first] != inputs.data[i]) first++;
    return first;
}

/* All outputs, computed with component `part` of element `element` of input `which` moved by `step`, in all places. */
static int32_t evaluate_moved(const check *c, tn_scope *s, uint32_t which, int64_t element, int32_t part,
                              double step, numbers *results)
{
    tn_tensor **inputs = tn_scope_memory(s, ((uint64_t)c->inputs.count + 1) * sizeof *inputs);
    tn_tensor **outs = tn_scope_memory(s, (c->n_outs + 1u) * sizeof *outs);
    if (!inputs || !outs) return tn_scope_failed(s);
    for (int64_t i = 0; i < c->inputs.count; i++) {
        inputs[i] = c->inputs.data[i];
        if (!is_checked(inputs[i])) continue;
        int64_t first = first_place(c->inputs, i);
        if (first < i) {
            inputs[i] = inputs[first];
            continue;
        }
        numbers n;
        if (read_numbers(s, inputs[i], &n)) return tn_scope_failed(s);
        if (i == first_place(c->inputs, which)) n.pairs[2 * element + part] += step;
        inputs[i] = write_numbers(s, inputs[i], &n);
        if (!inputs[i]) return tn_scope_failed(s);
        int32_t status = tn_set_requires_grad(inputs[i], 1);
        if (status) return fail(s, status);
    }
    if (call(c, s, (tn_tensors){inputs, c->inputs.count}, outs)) return tn_scope_failed(s);
    for (uint32_t k = 0; k < c->n_outs; k++) {
        results[k] = (numbers){NULL, 0, 0};
        if (tni_is_differentiable(outs[k]->desc.dtype) && read_numbers(s, outs[k], results + k))
            return tn_scope_failed(s);
    }
    return TN_OK;
}

/*
 * The analytic gradient for one unit of output k: a pair for each element of each checked input, one after
 * another.
 */
static int32_t analytic_row(const check *c, tn_scope *s, tn_tensor *out, int64_t element, int32_t part,
                            double *row)
{
    numbers unit = {tn_scope_memory(s, (uint64_t)out->numel * 16 + 16), out->numel,
                    tn_dtype_is_complex(out->desc.dtype)};
    if (!unit.pairs) return tn_scope_failed(s);
    memset(unit.pairs, 0, (uint64_t)out->numel * 16);
    unit.pairs[2 * element + part] = 1;
    tn_tensor *v = write_numbers(s, out, &unit), **wanted, **grads;
    wanted = tn_scope_memory(s, (uint64_t)c->inputs.count * sizeof *wanted);
    grads = tn_scope_memory(s, (uint64_t)c->inputs.count * sizeof *grads);
    if (!v || !wanted || !grads) return tn_scope_failed(s);
    int64_t n = 0;
    for (int64_t i = 0; i < c->inputs.count; i++) {
        if (is_checked(c->inputs.data[i])) wanted[n++] = c->inputs.data[i];
    }
    tn_backward_options options = {
        .size = sizeof options, .retain_graph = 1, .materialize_grads = 1, .grad_outputs = {&v, 1}};
    if (tn_grad(s, (tn_tensors){&out, 1}, (tn_tensors){wanted, n}, &options, grads))
        return tn_scope_failed(s);
    for (int64_t i = 0; i < n; i++) {
        numbers g;
        if (read_numbers(s, grads[i], &g)) return tn_scope_failed(s);
        memcpy(row, g.pairs, (uint64_t)g.count * 16);
        row += 2 * g.count;
    }
    return TN_OK;
}

static int32_t is_close(const check *c, double a, double n)
{
    if (isnan(a) || isnan(n)) return isnan(a) && isnan(n);
    return fabs(a - n) <= c->atol + c->rtol * fabs(n);
}

static int32_t mismatch(uint32_t out, int64_t row, uint32_t in, int64_t column, double numeric,
                        double analytic)
{
    return tni_error(
        TN_E_AUTOGRAD,
        "Jacobian mismatch for output %u with respect to input %u, element %lld of the output, element %lld "
        "of the input: numerical %.9g, analytical %.9g",
        out, in, (long long)row, (long long)column, numeric, analytic);
}

/* The analytic Jacobian: for each output, element and part a row of `width` doubles. */
typedef struct jacobian {
    double *rows;
    int64_t width;
    tn_tensor **outs;
} jacobian;

static int32_t analytic(const check *c, tn_scope *s, jacobian *j)
{
    j->outs = tn_scope_memory(s, (c->n_outs + 1u) * sizeof *j->outs);
    if (!j->outs || call(c, s, c->inputs, j->outs)) return tn_scope_failed(s);
    int64_t rows = 0;
    j->width = 0;
    for (uint32_t k = 0; k < c->n_outs; k++) rows += 2 * j->outs[k]->numel;
    for (int64_t i = 0; i < c->inputs.count; i++) {
        if (is_checked(c->inputs.data[i])) j->width += 2 * c->inputs.data[i]->numel;
    }
    uint64_t bytes = (uint64_t)(rows * j->width + 1) * sizeof(double);
    j->rows = tn_scope_memory(s, bytes);
    if (!j->rows) return tn_scope_failed(s);
    memset(j->rows, 0, bytes);
    double *row = j->rows;
    for (uint32_t k = 0; k < c->n_outs; k++) {
        tn_tensor *out = j->outs[k];
        int32_t parts = tn_dtype_is_complex(out->desc.dtype) ? 2 : 1;
        for (int64_t e = 0; e < 2 * out->numel; e++, row += j->width) {
            if (e % 2 >= parts || !tni_wants_grad(out)) continue;
            tn_scope *inner = tn_scope_open_child(s, NULL);
            int32_t status =
                inner ? analytic_row(c, inner, out, e / 2, (int32_t)(e % 2), row) : TN_E_OUT_OF_MEMORY;
            tn_scope_close(inner);
            if (status) return fail(s, status);
        }
    }
    return TN_OK;
}

/* Compares one column: how all outputs move when one component of one element moves. */
static int32_t compare_column(const check *c, const jacobian *j, const numbers *up, const numbers *down,
                              uint32_t input, int64_t element, int64_t column)
{
    const double *row = j->rows;
    for (uint32_t k = 0; k < c->n_outs; k++) {
        for (int64_t e = 0; e < 2 * j->outs[k]->numel; e++, row += j->width) {
            if (!up[k].pairs || (e % 2 && !up[k].is_complex)) continue;
            double numeric = (up[k].pairs[e] - down[k].pairs[e]) / (2 * c->eps);
            if (!is_close(c, row[column], numeric))
                return mismatch(k, e / 2, input, element, numeric, row[column]);
        }
    }
    return TN_OK;
}

static int32_t check_component(const check *c, tn_scope *s, const jacobian *j, uint32_t input,
                               int64_t element, int32_t part, int64_t column)
{
    tn_scope *inner = tn_scope_open_child(s, NULL);
    if (!inner) return fail(s, TN_E_OUT_OF_MEMORY);
    numbers *up = tn_scope_memory(inner, (c->n_outs + 1u) * sizeof *up);
    numbers *down = tn_scope_memory(inner, (c->n_outs + 1u) * sizeof *down);
    int32_t status = !up || !down;
    if (!status) status = evaluate_moved(c, inner, input, element, part, c->eps, up);
    if (!status) status = evaluate_moved(c, inner, input, element, part, -c->eps, down);
    if (!status) {
        status = compare_column(c, j, up, down, input, element, column);
        if (status) fail(inner, status);
    }
    status = tn_scope_close(inner);
    return status;
}

static int32_t run_check(const check *c, tn_scope *s)
{
    jacobian j = {0};
    if (analytic(c, s, &j)) return tn_scope_failed(s);
    int64_t column = 0;
    for (int64_t i = 0; i < c->inputs.count; i++) {
        const tn_tensor *t = c->inputs.data[i];
        if (!is_checked(t)) continue;
        int32_t parts = tn_dtype_is_complex(t->desc.dtype) ? 2 : 1;
        for (int64_t e = 0; e < 2 * t->numel; e++) {
            if (e % 2 >= parts) continue;
            int32_t status = check_component(c, s, &j, (uint32_t)i, e / 2, (int32_t)(e % 2), column + e);
            if (status) return status;
        }
        column += 2 * t->numel;
    }
    return TN_OK;
}

/* ---- second derivatives ---- */

typedef struct second {
    const check *first;
    int64_t n_inputs; /* of the first check; gradients of its outputs follow */
    uint32_t *outs;   /* which outputs are differentiable */
    uint32_t n_outs;
} second;

/* (inputs, gradients of outputs) -> gradients of the checked inputs */
static int32_t gradient_function(void *user, tn_scope *s, tn_tensors inputs, tn_tensor **out)
{
    const second *b = user;
    tn_tensor **outs = tn_scope_memory(s, (b->first->n_outs + 1u) * sizeof *outs);
    tn_tensor **roots = tn_scope_memory(s, (b->n_outs + 1u) * sizeof *roots);
    tn_tensor **wanted = tn_scope_memory(s, ((uint64_t)b->n_inputs + 1) * sizeof *wanted);
    if (!outs || !roots || !wanted) return tn_scope_failed(s);
    if (call(b->first, s, (tn_tensors){inputs.data, b->n_inputs}, outs)) return tn_scope_failed(s);
    int64_t n = 0;
    for (int64_t i = 0; i < b->n_inputs; i++) {
        if (is_checked(inputs.data[i])) wanted[n++] = inputs.data[i];
    }
    for (uint32_t k = 0; k < b->n_outs; k++) roots[k] = outs[b->outs[k]];
    tn_backward_options options = {.size = sizeof options,
                                   .create_graph = 1,
                                   .materialize_grads = 1,
                                   .grad_outputs = {inputs.data + b->n_inputs, b->n_outs}};
    return tn_grad(s, (tn_tensors){roots, b->n_outs}, (tn_tensors){wanted, n}, &options, out);
}

/* Numbers between 0.5 and 1.5 without a short period, as gradients of an output. */
static tn_tensor *some_gradient(tn_scope *s, const tn_tensor *out, uint32_t seed)
{
    numbers n = {tn_scope_memory(s, (uint64_t)out->numel * 16 + 16), out->numel,
                 tn_dtype_is_complex(out->desc.dtype)};
    if (!n.pairs) return NULL;
    for (int64_t i = 0; i < 2 * out->numel; i++) {
        seed = seed * 1664525u + 1013904223u;
        n.pairs[i] = 0.5 + (double)(seed >> 8) / 16777216.0;
    }
    tn_tensor *t = write_numbers(s, out, &n);
    return t && !tn_set_requires_grad(t, 1) ? t : NULL;
}

static int32_t run_second(const check *c, tn_scope *s)
{
    tn_tensor **outs = tn_scope_memory(s, (c->n_outs + 1u) * sizeof *outs);
    tn_tensor **inputs = tn_scope_memory(s, ((uint64_t)c->inputs.count + c->n_outs + 1) * sizeof *inputs);
    second b = {.first = c,
                .n_inputs = c->inputs.count,
                .outs = tn_scope_memory(s, (c->n_outs + 1u) * sizeof *b.outs)};
    if (!outs || !inputs || !b.outs || call(c, s, c->inputs, outs)) return tn_scope_failed(s);
    memcpy(inputs, c->inputs.data, (uint64_t)c->inputs.count * sizeof *inputs);
    int64_t n = c->inputs.count;
    for (uint32_t k = 0; k < c->n_outs; k++) {
        if (!tni_wants_grad(outs[k])) continue;
        b.outs[b.n_outs++] = k;
        inputs[n] = some_gradient(s, outs[k], 17 + k);
        if (!inputs[n++]) return tn_scope_failed(s) ? tn_scope_failed(s) : fail(s, TN_E_OUT_OF_MEMORY);
    }
    check next = *c;
    next.f = gradient_function;
    next.user = &b;
    next.inputs = (tn_tensors){inputs, n};
    next.n_outs = 0;
    for (int64_t i = 0; i < c->inputs.count; i++) next.n_outs += (uint32_t)is_checked(c->inputs.data[i]);
    return b.n_outs ? run_check(&next, s) : TN_OK;
}

int32_t tn_gradcheck(tn_scope *s, tn_check_fn f, void *user, tn_tensors inputs,
                     const tn_gradcheck_options *options)
{
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    tn_gradcheck_options o = {0};
    int32_t status = options ? tni_struct_read(&o, sizeof o, options, "tn_gradcheck_options") : TN_OK;
    if (status) return fail(s, status);
    check c = {f,
               user,
               inputs,
               o.n_outs ? o.n_outs : 1,
               o.eps > 0 ? o.eps : 1e-6,
               o.atol > 0 ? o.atol : 1e-5,
               o.rtol > 0 ? o.rtol : 1e-3};
    if (!f || inputs.count <= 0)
        return fail(s, tni_error(TN_E_ARGUMENT, "gradcheck: a function and inputs are required"));
    int32_t any = 0;
    for (int64_t i = 0; i < inputs.count; i++) any |= is_checked(inputs.data[i]);
    if (!any)
        return fail(s, tni_error(TN_E_AUTOGRAD,
                                 "gradcheck expects at least one input tensor to require gradient, but "
                                 "none of the them have requires_grad=True."));
    tn_scope *inner = tn_scope_open_child(
        s, &(tn_scope_options){.size = sizeof(tn_scope_options), .grad_mode = TN_GRAD_ON});
    if (!inner) return fail(s, TN_E_OUT_OF_MEMORY);
    status = run_check(&c, inner);
    if (!status && o.second) status = run_second(&c, inner);
    if (status && !tn_scope_failed(inner)) fail(inner, status);
    return tn_scope_close(inner);
}
