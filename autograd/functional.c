/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Derivatives of functions, by reverse mode alone. A Jacobian has a backward run for each element of the outputs. Its product
 * with a vector from the right is the derivative of the product from the left, which is linear in its vector.
 */
#include "autograd/graph.h"

#include "core/context.h"
#include "core/scope.h"

#include <string.h>

#include <tenon/ops.h>

/* A function at a point. */
typedef struct point {
    const char *name; /* of the public function */
    tn_scope *s;      /* of intermediate results */
    tn_tensors inputs, outs;
    tn_functional_options o;
} point;

static int32_t fail(tn_scope *s, int32_t status)
{
    return tni_scope_record(s, status);
}

static const char *kind_text(const tn_tensor *t, char *text, uint64_t bytes)
{
    return tni_kind_text(t->desc.dtype, t->desc.rank, t->desc.sizes, text, bytes);
}

static tn_tensor **list_of(tn_scope *s, int64_t count)
{
    tn_tensor **list = tn_scope_memory(s, ((uint64_t)count + 1) * sizeof *list);
    if (list) memset(list, 0, ((uint64_t)count + 1) * sizeof *list);
    return list;
}

/* What the function is given: with create_graph views of the inputs, else leaves of their own. */
static int32_t make_inputs(point *p, tn_tensors inputs)
{
    tn_tensor **list = list_of(p->s, inputs.count);
    for (int64_t i = 0; list && i < inputs.count; i++) {
        tn_tensor *t = inputs.data[i];
        if (!t) return fail(p->s, tni_error(TN_E_ARGUMENT, "%s: input %lld is NULL", p->name, (long long)i));
        int32_t follows = p->o.create_graph && tni_wants_grad(t);
        list[i] = follows ? tn_view_as(p->s, t, t) : tn_detach(p->s, t);
        int32_t status = follows || !list[i] ? TN_OK : tn_set_requires_grad(list[i], 1);
        if (status) return fail(p->s, status);
    }
    p->inputs = (tn_tensors){list, inputs.count};
    return tn_scope_failed(p->s);
}

static int32_t make_outputs(point *p, tn_tensors_fn f, void *user)
{
    tn_tensor **outs = list_of(p->s, p->o.n_outs);
    if (!outs) return tn_scope_failed(p->s);
    const uint32_t lent = tni_scope_lend(p->s);
    int32_t status = f(user, p->s, p->inputs, outs);
    tni_scope_take_back(p->s, lent);
    if (status && !tn_scope_failed(p->s)) fail(p->s, tni_error_ensure(status, p->name));
    for (uint32_t i = 0; i < p->o.n_outs && !tn_scope_failed(p->s); i++) {
        if (!outs[i])
            fail(p->s, tni_error(TN_E_ARGUMENT, "%s: the function did not set output %u", p->name, i));
    }
    p->outs = (tn_tensors){outs, p->o.n_outs};
    return tn_scope_failed(p->s);
}

/* Runs the function in a scope inside s, which point_close closes. */
static int32_t point_open(point *p, const char *name, tn_scope *s, tn_tensors_fn f, void *user,
                          tn_tensors inputs, const tn_functional_options *options, tn_tensor **out)
{
    *p = (point){.name = name};
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    int32_t status = options ? tni_struct_read(&p->o, sizeof p->o, options, "tn_functional_options") : TN_OK;
    if (status) return fail(s, status);
    if (!p->o.n_outs) p->o.n_outs = 1;
    if (!f || !out)
        return fail(s, tni_error(TN_E_ARGUMENT, "%s: argument '%s' is NULL", name, f ? "out" : "f"));
    if (inputs.count <= 0 || !inputs.data) return fail(s, tni_bad_list(name, "inputs", inputs));
    p->s = tn_scope_open_child(
        s, &(tn_scope_options){.size = sizeof(tn_scope_options), .grad_mode = TN_GRAD_ON});
    if (!p->s) return fail(s, TN_E_OUT_OF_MEMORY);
    status = make_inputs(p, inputs);
    return status ? status : make_outputs(p, f, user);
}

/* A result for the caller, with its history or without. */
static tn_tensor *give(const point *p, tn_scope *s, tn_tensor *t)
{
    tn_tensor *result = t && !p->o.create_graph ? tn_detach(p->s, t) : t;
    return result ? tn_scope_adopt(s, tn_retain(result)) : NULL;
}

/* Gives the results to the outer scope and ends. */
static int32_t point_close(point *p, tn_scope *s, tn_tensor *const *results, int64_t count, tn_tensor **out)
{
    if (!p->s) return tn_scope_failed(s);
    for (int64_t i = 0; i < count && !tn_scope_failed(p->s); i++) out[i] = give(p, s, results[i]);
    for (int64_t i = 0; p->o.value && i < p->outs.count && !tn_scope_failed(p->s); i++)
        p->o.value[i] = give(p, s, p->outs.data[i]);
    return tn_scope_close(p->s);
}

/* d roots / d inputs, weighted by v; zeros where there is no way, which is an error for a strict caller. */
static int32_t gradient(const point *p, tn_tensors roots, tn_tensors inputs, tn_tensors v,
                        int32_t create_graph, tn_tensor **out)
{
    tn_tensor **taking_part = list_of(p->s, roots.count), **weights = list_of(p->s, roots.count);
    int64_t n = 0;
    if (!taking_part || !weights) return tn_scope_failed(p->s);
    for (int64_t i = 0; i < roots.count; i++) {
        if (tni_wants_grad(roots.data[i])) {
            taking_part[n] = roots.data[i];
            weights[n++] = v.data ? v.data[i] : NULL;
        } else if (p->o.strict) {
            return fail(p->s, tni_error(TN_E_AUTOGRAD,
                                        "%s: strict: result %lld of the function depends on no input",
                                        p->name, (long long)i));
        }
    }
    int32_t status = TN_OK;
    if (n)
        status = tn_grad(p->s, (tn_tensors){taking_part, n}, inputs,
                         &(tn_backward_options){.size = sizeof(tn_backward_options),
                                                .retain_graph = 1,
                                                .create_graph = create_graph,
                                                .allow_unused = 1,
                                                .grad_outputs = {v.data ? weights : NULL, v.data ? n : 0}},
                         out);
    for (int64_t j = 0; j < inputs.count && !status; j++) {
        if (n && out[j]) continue;
        if (p->o.strict)
            return fail(p->s, tni_error(TN_E_AUTOGRAD,
                                        "%s: strict: no result of the function depends on input %lld",
                                        p->name, (long long)j));
        out[j] = tn_zeros_like(p->s, inputs.data[j]);
        status = tn_scope_failed(p->s);
    }
    return status;
}

/* Vectors must have the sizes of what they stand beside; without a list there must be one element. */
static int32_t check_vectors(const point *p, tn_tensors v, tn_tensors like, const char *of)
{
    if (!v.data) {
        if (like.count == 1 && like.data[0]->numel == 1) return TN_OK;
        return fail(p->s,
                    tni_error(TN_E_ARGUMENT,
                              "%s: the vector v can only be left out where the %s is one tensor with one "
                              "element",
                              p->name, of));
    }
    if (v.count != like.count)
        return fail(p->s, tni_error(TN_E_ARGUMENT, "%s: v has %lld tensors, expected one for each %s (%lld)",
                                    p->name, (long long)v.count, of, (long long)like.count));
    for (int64_t i = 0; i < v.count; i++) {
        const tn_tensor *a = v.data[i], *b = like.data[i];
        if (!a)
            return fail(p->s,
                        tni_error(TN_E_ARGUMENT, "%s: tensor %lld of v is NULL", p->name, (long long)i));
        if (a->desc.rank == b->desc.rank && a->desc.device == b->desc.device &&
            tn_dtype_is_complex(a->desc.dtype) == tn_dtype_is_complex(b->desc.dtype) &&
            !memcmp(a->desc.sizes, b->desc.sizes, b->desc.rank * sizeof *b->desc.sizes))
            continue;
        char have[160], want[160];
        return fail(p->s,
                    tni_error(TN_E_ARGUMENT, "%s: tensor %lld of v is %s, expected one like %s %lld, %s",
                              p->name, (long long)i, kind_text(a, have, sizeof have), of, (long long)i,
                              kind_text(b, want, sizeof want)));
    }
    return TN_OK;
}

/* ---- Jacobians ----------------------------------------------------------------------------------------- */

/* The rows that `root` gives: rows[j] stacks, element by element, its gradients with respect to input j. */
static int32_t rows_of(const point *p, tn_tensor *root, tn_tensor **rows)
{
    int64_t n = p->inputs.count, elements = root->numel;
    if (tn_dtype_is_complex(root->desc.dtype))
        return fail(
            p->s, tni_error(TN_E_DTYPE,
                            "%s: a result of the function is %s, expected a real dtype: its elements have no "
                            "gradient each",
                            p->name, tn_dtype_name(root->desc.dtype)));
    tn_tensor **all = list_of(p->s, n * elements), **grads = list_of(p->s, n);
    tn_tensor *flat = tn_reshape(p->s, root, TN_INTS(-1));
    if (!all || !grads || !flat) return tn_scope_failed(p->s);
    for (int64_t e = 0; e < elements; e++) {
        tn_tensor *one = tn_select(p->s, flat, 0, e);
        if (!one ||
            gradient(p, (tn_tensors){&one, 1}, p->inputs, (tn_tensors){NULL, 0}, p->o.create_graph, grads))
            return tn_scope_failed(p->s);
        for (int64_t j = 0; j < n; j++) all[j * elements + e] = grads[j];
    }
    for (int64_t j = 0; j < n; j++) {
        const tn_tensor *x = p->inputs.data[j];
        int64_t sizes[TN_MAX_RANK];
        if (root->desc.rank + x->desc.rank > TN_MAX_RANK)
            return fail(p->s, tni_error(TN_E_ARGUMENT, "%s: more than %d dimensions", p->name, TN_MAX_RANK));
        if (root->desc.rank) memcpy(sizes, root->desc.sizes, root->desc.rank * sizeof *sizes);
        if (x->desc.rank) memcpy(sizes + root->desc.rank, x->desc.sizes, x->desc.rank * sizeof *sizes);
        tn_ints shape = {sizes, root->desc.rank + x->desc.rank};
        if (elements)
            rows[j] =
                tn_reshape(p->s, tn_stack(p->s, (tn_tensors){all + j * elements, elements}, .dim = 0), shape);
        else
            rows[j] = tn_zeros(p->s, shape, .dtype = x->desc.dtype, .device = x->desc.device);
    }
    return tn_scope_failed(p->s);
}

int32_t tn_jacobian(tn_scope *s, tn_tensors_fn f, void *user, tn_tensors inputs,
                    const tn_functional_options *options, tn_tensor **out)
{
    point p;
    tn_tensor **rows = NULL;
    int64_t count = 0;
    if (!point_open(&p, "jacobian", s, f, user, inputs, options, out)) {
        count = p.outs.count * p.inputs.count;
        rows = list_of(p.s, count);
        for (int64_t i = 0; rows && i < p.outs.count; i++) {
            if (rows_of(&p, p.outs.data[i], rows + i * p.inputs.count)) break;
        }
    }
    return point_close(&p, s, rows, count, out);
}

/* ---- Products with a vector ---------------------------------------------------------------------------- */

int32_t tn_vjp(tn_scope *s, tn_tensors_fn f, void *user, tn_tensors inputs, tn_tensors v,
               const tn_functional_options *options, tn_tensor **out)
{
    point p;
    tn_tensor **grads = NULL;
    if (!point_open(&p, "vjp", s, f, user, inputs, options, out) && !check_vectors(&p, v, p.outs, "output")) {
        grads = list_of(p.s, p.inputs.count);
        if (grads) (void)gradient(&p, p.outs, p.inputs, v, p.o.create_graph, grads);
    }
    return point_close(&p, s, grads, p.inputs.count, out);
}

/*
 * roots times a vector w from the left is linear in w. Its derivative by w, weighted by v, is the product with v from the
 * right: one tensor for each root.
 */
static int32_t times_from_the_right(const point *p, tn_tensors roots, tn_tensors v, tn_tensor **out)
{
    tn_tensor **w = list_of(p->s, roots.count), **from_the_left = list_of(p->s, p->inputs.count);
    if (!w || !from_the_left) return tn_scope_failed(p->s);
    for (int64_t i = 0; i < roots.count; i++) {
        w[i] = tn_zeros_like(p->s, roots.data[i]);
        int32_t status = w[i] ? tn_set_requires_grad(w[i], 1) : TN_OK;
        if (status) return fail(p->s, status);
    }
    tn_tensors weights = {w, roots.count};
    if (tn_scope_failed(p->s) || gradient(p, roots, p->inputs, weights, 1, from_the_left))
        return tn_scope_failed(p->s);
    return gradient(p, (tn_tensors){from_the_left, p->inputs.count}, weights, v, p->o.create_graph, out);
}

int32_t tn_jvp(tn_scope *s, tn_tensors_fn f, void *user, tn_tensors inputs, tn_tensors v,
               const tn_functional_options *options, tn_tensor **out)
{
    point p;
    tn_tensor **products = NULL;
    if (!point_open(&p, "jvp", s, f, user, inputs, options, out) &&
        !check_vectors(&p, v, p.inputs, "input")) {
        products = list_of(p.s, p.outs.count);
        if (products) (void)times_from_the_right(&p, p.outs, v, products);
    }
    return point_close(&p, s, products, p.outs.count, out);
}

/* ---- Second derivatives -------------------------------------------------------------------------------- */

/* The gradient of the function's one output, with its history. NULL: it failed. */
static tn_tensor **first_derivative(const point *p)
{
    if (p->outs.count != 1 || p->outs.data[0]->numel != 1) {
        char text[160];
        fail(p->s,
             tni_error(TN_E_ARGUMENT,
                       "%s: expected a function of one output with one element, got %lld of which "
                       "the first is %s",
                       p->name, (long long)p->outs.count, kind_text(p->outs.data[0], text, sizeof text)));
        return NULL;
    }
    tn_tensor **grads = list_of(p->s, p->inputs.count);
    if (!grads || gradient(p, p->outs, p->inputs, (tn_tensors){NULL, 0}, 1, grads)) return NULL;
    return grads;
}

int32_t tn_hessian(tn_scope *s, tn_tensors_fn f, void *user, tn_tensors inputs,
                   const tn_functional_options *options, tn_tensor **out)
{
    point p;
    tn_tensor **rows = NULL, **grads = NULL;
    int64_t n = inputs.count > 0 ? inputs.count : 0;
    if (!point_open(&p, "hessian", s, f, user, inputs, options, out)) grads = first_derivative(&p);
    if (grads) rows = list_of(p.s, n * n);
    for (int64_t i = 0; rows && i < n; i++) {
        if (rows_of(&p, grads[i], rows + i * n)) break;
    }
    return point_close(&p, s, rows, n * n, out);
}

/* The Hessian and a vector, which stands on its right or left. */
static int32_t hessian_product(const char *name, int32_t on_the_right, tn_scope *s, tn_tensors_fn f,
                               void *user, tn_tensors inputs, tn_tensors v,
                               const tn_functional_options *options, tn_tensor **out)
{
    point p;
    tn_tensor **products = NULL, **grads = NULL;
    if (!point_open(&p, name, s, f, user, inputs, options, out) && !check_vectors(&p, v, p.inputs, "input"))
        grads = first_derivative(&p);
    if (grads) products = list_of(p.s, p.inputs.count);
    if (products) {
        const tn_tensors first = {grads, p.inputs.count};
        (void)(on_the_right ? times_from_the_right(&p, first, v, products)
                            : gradient(&p, first, p.inputs, v, p.o.create_graph, products));
    }
    return point_close(&p, s, products, p.inputs.count, out);
}

int32_t tn_vhp(tn_scope *s, tn_tensors_fn f, void *user, tn_tensors inputs, tn_tensors v,
               const tn_functional_options *options, tn_tensor **out)
{
    return hessian_product("vhp", 0, s, f, user, inputs, v, options, out);
}

int32_t tn_hvp(tn_scope *s, tn_tensors_fn f, void *user, tn_tensors inputs, tn_tensors v,
               const tn_functional_options *options, tn_tensor **out)
{
    return hessian_product("hvp", 1, s, f, user, inputs, v, options, out);
}
