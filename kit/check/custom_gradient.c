/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Custom operators under autograd and called in several ways: the gradient is registered correctly and
 * agrees with finite differences; recorded, traced, strided and on another device the operator gives the
 * same results.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <tenon/inspect.h>
#include "custom.h"

/* ---- 3: the gradient is registered correctly ------------------------------------------------------------- */

/* The inputs of a recorded call. */
typedef struct watched {
    uint32_t n;
    custom_input which[CUSTOM_MAX_INPUTS];
    tn_tensor *tensors[CUSTOM_MAX_INPUTS];
} watched;

static int takes_gradient(const tn_tensor *t)
{
    return t && (tn_dtype_is_floating(tn_tensor_dtype(t)) || tn_dtype_is_complex(tn_tensor_dtype(t)));
}

static void watch(watched *in, uint32_t argument, int32_t item, tn_tensor *x)
{
    if (!takes_gradient(x) || in->n == CUSTOM_MAX_INPUTS) return;
    tn_set_requires_grad(x, 1);
    in->which[in->n] = (custom_input){argument, item};
    in->tensors[in->n++] = x;
}

static tn_operator_info operator_of(const check_target *t, const custom_call *call)
{
    tn_operator_info op = {.size = sizeof op};
    tn_inspect_operator_by_number(t->ctx, call->op, &op);
    return op;
}

/* Sets requires_grad on the tensors that can have a gradient, and gives the call those. Of arguments that are written
 * only the first one of an in-place operator has a gradient. */
static void watch_inputs(check_target *t, const custom_call *call, custom_run *r, watched *out)
{
    const int inplace = strcmp(operator_of(t, call).form, "inplace") == 0;
    out->n = 0;
    for (uint32_t i = 0; i < r->n_args; i++) {
        const tn_value *v = &r->args[i];
        int written = (custom_argument(t, call->op, 0, i).flags & TN_ARG_WRITTEN) != 0;
        if (written && (i || !inplace)) continue;
        if (v->tag == TN_TAG_TENSOR) watch(out, i, -1, v->as.tensor);
        for (uint32_t k = 0; v->tag == TN_TAG_TENSORS && k < v->count && !written; k++)
            watch(out, i, (int32_t)k, v->as.tensors[k]);
    }
    custom_place(r->s, t, call->op, out->which, out->n, out->tensors, r->args);
}

static int has_gradient(check_target *t, const custom_call *call, check_result *out)
{
    tn_operator_info op = operator_of(t, call);
    const int is_out = strcmp(op.form, "out") == 0;
    if (is_out)
        check_skip(out, "functions with out=... arguments don't support automatic differentiation");
    else if (!op.has_gradient)
        check_skip(out, "no gradient is registered: results of this operator end the graph");
    return !is_out && op.has_gradient;
}

/* Whether the call can be recorded: if so, it is open with its inputs watched. */
static int open_watched(check_target *t, const custom_call *call, custom_run *r, watched *in,
                        check_result *out)
{
    if (!has_gradient(t, call, out)) return 0;
    custom_open(r, t, call, t->device, TN_GRAD_ON);
    watch_inputs(t, call, r, in);
    return 1;
}

/* The results that may have a gradient, also in lists. */
static uint32_t differentiable(const tn_value *outs, uint32_t n_outs, tn_tensor **out)
{
    tn_tensor *all[CUSTOM_MAX_ITEMS];
    uint32_t n = 0, count = custom_tensors(outs, n_outs, all, CUSTOM_MAX_ITEMS);
    for (uint32_t i = 0; i < count; i++)
        if (takes_gradient(all[i])) out[n++] = all[i];
    return n;
}

/* Those through which a gradient can flow; *out_any: how many could have one. */
static uint32_t roots_of(custom_run *r, tn_tensor **roots, tn_tensor **ones, uint32_t *out_any)
{
    uint32_t n = 0;
    *out_any = differentiable(r->outs, r->n_outs, roots);
    for (uint32_t i = 0; i < *out_any; i++) {
        if (!tn_requires_grad(roots[i])) continue;
        ones[n] = tn_ones_like(r->s, roots[i]);
        roots[n++] = roots[i];
    }
    return n;
}

/* "argument 'x'", or "item 1 of argument 'xs'". */
static const char *name_input(const check_target *t, const custom_call *call, const custom_input *in,
                              char *text, size_t bytes)
{
    tn_argument_info info = custom_argument(t, call->op, 0, in->argument);
    if (in->item < 0)
        snprintf(text, bytes, "'%s'", info.name);
    else
        snprintf(text, bytes, "item %d of '%s'", in->item, info.name);
    return text;
}

/* What backward gives is seen before autograd casts it to the dtype of the argument. */
typedef struct given_gradients {
    check_target *target;
    const custom_call *call;
    const watched *in;
    uint32_t slots[CUSTOM_MAX_INPUTS]; /* by input: the number among the gradients of the node */
    uint32_t n_slots;                  /* that the node has */
    check_result *out;
} given_gradients;

static void check_given(const given_gradients *g, uint32_t i, const tn_tensor *grad)
{
    const tn_tensor *x = g->in->tensors[i];
    char name[120], got[64], expected[64];
    name_input(g->target, g->call, &g->in->which[i], name, sizeof name);
    check_that(g->out, tn_tensor_dtype(grad) == tn_tensor_dtype(x),
               "backward gives the gradient of %s as %s, and the argument is %s", name,
               tn_dtype_name(tn_tensor_dtype(grad)), tn_dtype_name(tn_tensor_dtype(x)));
    check_that(g->out, tn_tensor_device(grad) == tn_tensor_device(x),
               "backward gives the gradient of %s on %s, and the argument is on %s", name,
               tn_device_format(g->target->ctx, tn_tensor_device(grad), got, sizeof got),
               tn_device_format(g->target->ctx, tn_tensor_device(x), expected, sizeof expected));
}

static int32_t see_given(void *user, tn_scope *s, tn_tensor **grads, uint32_t count)
{
    const given_gradients *g = user;
    (void)s;
    for (uint32_t i = 0; count == g->n_slots && i < g->in->n; i++)
        if (grads[g->slots[i]]) check_given(g, i, grads[g->slots[i]]);
    return TN_OK;
}

/* The node of a call has a slot for each tensor among its arguments, also in lists. */
static void find_slots(const custom_run *r, given_gradients *g)
{
    g->n_slots = 0;
    for (uint32_t i = 0; i < r->n_args; i++) {
        const tn_value *v = &r->args[i];
        for (uint32_t k = 0; k < g->in->n; k++)
            if (g->in->which[k].argument == i)
                g->slots[k] = g->n_slots + (uint32_t)(g->in->which[k].item < 0 ? 0 : g->in->which[k].item);
        g->n_slots += v->tag == TN_TAG_TENSORS ? v->count : v->tag == TN_TAG_TENSOR;
    }
}

/* "SmoothMaxBackward" is the node of "mylib::smooth_max"; without a `backward` of its own a composite leaves those of
 * the operators that it calls. */
static int is_node_of(const tn_node *node, const char *operator_name)
{
    const char *at = strstr(operator_name, "::"), *name = tn_node_name(node);
    at = at ? at + 2 : operator_name;
    for (; *at && *at != '.'; at++) {
        if (*at != '_' && tolower((unsigned char)*name++) != tolower((unsigned char)*at)) return 0;
    }
    return strcmp(name, "Backward") == 0;
}

static void watch_node(check_target *t, const custom_call *call, const tn_tensor *root, given_gradients *g)
{
    tn_node *node = tn_grad_fn(root);
    uint64_t handle;
    if (node && is_node_of(node, operator_of(t, call).name) && tn_node_input_count(node) == g->n_slots)
        tn_node_register_hook(node, 0, see_given, g, &handle);
}

static void check_gradients(check_target *t, const custom_call *call, custom_run *r, const watched *in,
                            check_result *out)
{
    tn_tensor *roots[CUSTOM_MAX_ITEMS], *ones[CUSTOM_MAX_ITEMS], *grads[CUSTOM_MAX_INPUTS] = {NULL};
    uint32_t any, n_roots = roots_of(r, roots, ones, &any), defined = 0;
    if (!any) {
        check_skip(out, "no result is a tensor that takes a gradient");
        return;
    }
    if (!check_that(out, n_roots > 0, "no result requires a gradient, although an input does")) return;
    given_gradients given = {.target = t, .call = call, .in = in, .out = out};
    find_slots(r, &given);
    for (uint32_t i = 0; i < n_roots; i++)
        if (i == 0 || tn_grad_fn(roots[i]) != tn_grad_fn(roots[i - 1])) watch_node(t, call, roots[i], &given);
    tn_backward_options options = {
        .size = sizeof options, .allow_unused = 1, .grad_outputs = {ones, n_roots}};
    check_doing(t, "backward ran");
    if (tn_grad(r->s, (tn_tensors){roots, n_roots}, (tn_tensors){in->tensors, in->n}, &options, grads) !=
        TN_OK) {
        check_fail_with_error(out, r->s, "backward (it may read only what `saves` names)");
        return;
    }
    for (uint32_t i = 0; i < in->n; i++) {
        tn_tensor *x = in->tensors[i];
        char name[120];
        if (!grads[i]) continue;
        name_input(t, call, &in->which[i], name, sizeof name);
        defined++;
        check_that(out, tn_tensor_dtype(grads[i]) == tn_tensor_dtype(x),
                   "the gradient of %s is %s, and the argument %s", name,
                   tn_dtype_name(tn_tensor_dtype(grads[i])), tn_dtype_name(tn_tensor_dtype(x)));
        int same = tn_tensor_rank(grads[i]) == tn_tensor_rank(x);
        for (int64_t d = 0; same && d < tn_tensor_rank(x); d++)
            same = tn_tensor_size(grads[i], d) == tn_tensor_size(x, d);
        check_that(out, same, "the gradient of %s has another shape than the argument", name);
    }
    check_doing(t, "backward had run");
    check_that(out, defined > 0, "backward gave no gradient");
}

void custom_gradient(check_target *t, const check_case *c, check_result *out)
{
    const custom_call *call = c->data;
    watched in;
    custom_run r;
    if (!open_watched(t, call, &r, &in, out)) return;
    if (in.n == 0)
        check_skip(out, "no argument of this call takes a gradient");
    else if (custom_do(&r, call))
        check_fail_with_error(out, r.s, "the call, recorded,");
    else
        check_gradients(t, call, &r, &in, out);
    custom_close(&r);
}

void custom_backward(check_target *t, const custom_call *call, check_result *out)
{
    tn_tensor *roots[CUSTOM_MAX_ITEMS], *ones[CUSTOM_MAX_ITEMS], *grads[CUSTOM_MAX_INPUTS] = {NULL};
    watched in;
    custom_run r;
    uint32_t any;
    if (!open_watched(t, call, &r, &in, out)) return;
    if (custom_do(&r, call)) {
        check_fail_with_error(out, r.s, "the call, recorded,");
    } else {
        const uint32_t n = roots_of(&r, roots, ones, &any);
        const tn_backward_options options = {
            .size = sizeof options, .allow_unused = 1, .grad_outputs = {ones, n}};
        check_doing(t, "backward ran");
        if (!n || !in.n)
            check_skip(out, "no gradient flows through this call");
        else if (tn_grad(r.s, (tn_tensors){roots, n}, (tn_tensors){in.tensors, in.n}, &options, grads))
            check_fail_with_error(out, r.s, "backward");
    }
    custom_close(&r);
}

/* ---- and agrees with finite differences ---------------------------------------------------------------- */

typedef struct differences {
    const check_target *target;
    const custom_call *call;
    const custom_run *r;
    const watched *in;
    uint32_t n_results;
} differences;

static int32_t call_again(void *user, tn_scope *s, tn_tensors given, tn_tensor **out)
{
    differences *d = user;
    tn_value args[REQUEST_MAX_ARGUMENTS], outs[CUSTOM_MAX_OUTS];
    tn_tensor *results[CUSTOM_MAX_ITEMS];
    memcpy(args, d->r->args, sizeof args);
    custom_place(s, d->target, d->call->op, d->in->which, d->in->n, given.data, args);
    tn_manual_seed(d->target->ctx, CUSTOM_SEED);
    int32_t status = tn_scope_call(s, d->call->op, args, d->r->n_args, outs, d->r->n_outs);
    if (status) return status;
    const uint32_t n = differentiable(outs, d->r->n_outs, results);
    for (uint32_t i = 0; i < d->n_results && i < n; i++) out[i] = results[i];
    return n < d->n_results ? TN_E_CONTRACT : TN_OK;
}

/* Whether a list as `saves` has a name. */
static int lists(const char *saves, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = saves; *at; at += strcspn(at, ", \t")) {
        at += strspn(at, ", \t");
        if (strcspn(at, ", \t") == length && strncmp(at, name, length) == 0) return 1;
    }
    return 0;
}

/* A backward sees None for an optional argument that is not saved, as for an absent one: no error can say so. */
static void tell_unsaved(check_target *t, const custom_call *call, const custom_run *r, check_result *out)
{
    const char *saves = operator_of(t, call).saves;
    for (uint32_t i = 0; saves && i < r->n_args; i++) {
        const tn_argument_info info = custom_argument(t, call->op, 0, i);
        const size_t used = strlen(out->reason);
        if (r->args[i].tag != TN_TAG_TENSOR || !(info.flags & TN_ARG_OPTIONAL) || lists(saves, info.name))
            continue;
        snprintf(
            out->reason + used, sizeof out->reason - used,
            "; `saves` does not list the optional argument '%s', so backward sees None for it as if it were "
            "absent",
            info.name);
    }
}

void custom_differences(check_target *t, const check_case *c, check_result *out)
{
    const custom_call *call = c->data;
    watched in;
    custom_run r;
    if (!open_watched(t, call, &r, &in, out)) return;
    differences d = {.target = t, .call = call, .r = &r, .in = &in};
    int exact = in.n > 0;
    for (uint32_t i = 0; i < in.n; i++) {
        tn_dtype dtype = tn_tensor_dtype(in.tensors[i]);
        exact = exact && (dtype == TN_FLOAT64 || dtype == TN_COMPLEX128);
    }
    if (!exact) {
        check_skip(out, "finite differences need float64 or complex128");
    } else if (custom_do(&r, call)) {
        check_fail_with_error(out, r.s, "the call, recorded,");
    } else {
        tn_tensor *results[CUSTOM_MAX_ITEMS];
        d.n_results = differentiable(r.outs, r.n_outs, results);
        tn_gradcheck_options options = {.size = sizeof options,
                                        .n_outs = d.n_results,
                                        .second = !custom_has_tag(t, call, "differentiable_once")};
        check_doing(t, "the operator or its backward ran for finite differences");
        if (!d.n_results)
            check_skip(out, "no result is a tensor that takes a gradient");
        else if (tn_gradcheck(r.s, call_again, &d, (tn_tensors){in.tensors, in.n}, &options) != TN_OK)
            check_fail_with_error(out, r.s, "finite differences");
        if (out->outcome == CHECK_FAILED) tell_unsaved(t, call, &r, out);
    }
    custom_close(&r);
}

/* ---- 4: traced equals eager ---------------------------------------------------------------------------- */

static void compare_results(check_target *t, custom_run *a, custom_run *b, const char *way, check_result *out)
{
    (void)t;
    for (uint32_t i = 0; i < a->n_outs; i++) {
        tn_tensor *want[CUSTOM_MAX_ITEMS], *got[CUSTOM_MAX_ITEMS];
        const uint32_t n = custom_tensors(&a->outs[i], 1, want, CUSTOM_MAX_ITEMS);
        const uint32_t found = custom_tensors(&b->outs[i], 1, got, CUSTOM_MAX_ITEMS);
        char what[120];
        snprintf(what, sizeof what, "result %u %s", i, way);
        if (!check_that(out, n == found, "%s has %u tensors, not %u", what, found, n)) continue;
        for (uint32_t k = 0; k < n; k++)
            check_same(out, a->s, what, got[k], want[k], check_tolerance_of(tn_tensor_dtype(want[k])));
    }
}

/* The call made in another way, compared with the plain one. */
static void one_way(check_target *t, const custom_call *call, custom_run *plain, tn_device device,
                    uint32_t mode, const char *way, check_result *out)
{
    watched in;
    custom_run r;
    custom_open(&r, t, call, device, mode);
    if (mode == TN_GRAD_ON) watch_inputs(t, call, &r, &in);
    if (custom_do(&r, call))
        check_fail_with_error(out, r.s, way);
    else
        compare_results(t, plain, &r, way, out);
    custom_close(&r);
}

static void boxed_way(check_target *t, const custom_call *call, custom_run *plain, check_result *out)
{
    custom_run r;
    tn_error *error = NULL;
    custom_open(&r, t, call, t->device, TN_GRAD_OFF);
    tn_manual_seed(t->ctx, CUSTOM_SEED);
    if (tn_call_operator(t->ctx, call->op, r.args, r.n_args, r.outs, r.n_outs, &error) != TN_OK) {
        check_fail(out, "boxed: %s", error ? error->message : "failed");
        tn_error_release(error);
    } else {
        compare_results(t, plain, &r, "boxed", out);
        for (uint32_t i = 0; i < r.n_outs; i++) tn_value_release(t->ctx, &r.outs[i]);
    }
    custom_close(&r);
}

/* The call traced, then the trace run on the same arguments made anew: one call, the same results. */
static void traced_way(check_target *t, const custom_call *call, custom_run *plain, check_result *out)
{
    tn_tensor *inputs[CUSTOM_MAX_ITEMS], *others[CUSTOM_MAX_ITEMS], *outs[CUSTOM_MAX_ITEMS],
        *again[CUSTOM_MAX_ITEMS], *want[CUSTOM_MAX_ITEMS];
    custom_run r, other;
    custom_open(&r, t, call, t->device, TN_GRAD_OFF);
    custom_open(&other, t, call, t->device, TN_GRAD_OFF);
    uint32_t n = custom_tensors(r.args, r.n_args, inputs, CUSTOM_MAX_ITEMS), n_outs = 0;
    tn_call_trace *trace = tn_call_trace_begin(t->ctx, (tn_tensors){inputs, n});
    int failed = trace && custom_do(&r, call);
    if (trace && !failed) n_outs = custom_tensors(r.outs, r.n_outs, outs, CUSTOM_MAX_ITEMS);
    int32_t status = trace ? tn_call_trace_end(trace, (tn_tensors){outs, n_outs}) : TN_E_STATE;
    custom_tensors(other.args, other.n_args, others, CUSTOM_MAX_ITEMS);
    tn_manual_seed(t->ctx, CUSTOM_SEED);
    if (failed) {
        check_fail_with_error(out, r.s, "the call, traced,");
    } else if (status || tn_call_trace_count(trace) != 1) {
        check_fail(out, "the trace has %u calls, not 1: %s", trace ? tn_call_trace_count(trace) : 0,
                   status ? tn_last_error()->message : "no error");
    } else if (tn_call_trace_run(other.s, trace, (tn_tensors){others, n}, again)) {
        check_fail_with_error(out, other.s, "the run of the trace");
    } else {
        custom_tensors(plain->outs, plain->n_outs, want, CUSTOM_MAX_ITEMS);
        for (uint32_t i = 0; i < n_outs; i++)
            check_same(out, plain->s, "a result traced", again[i], want[i],
                       check_tolerance_of(tn_tensor_dtype(want[i])));
    }
    tn_call_trace_release(trace);
    custom_close(&other);
    custom_close(&r);
}

void custom_traced(check_target *t, const check_case *c, check_result *out)
{
    const custom_call *call = c->data;
    custom_run plain;
    if (custom_has_tag(t, call, "nondeterministic")) {
        check_skip(out, "two equal calls give different results");
        return;
    }
    custom_open(&plain, t, call, t->device, TN_GRAD_OFF);
    if (custom_do(&plain, call)) {
        check_fail_with_error(out, plain.s, "the call");
    } else {
        boxed_way(t, call, &plain, out);
        traced_way(t, call, &plain, out);
        if (strcmp(operator_of(t, call).form, "out") != 0)
            one_way(t, call, &plain, t->device, TN_GRAD_ON, "recorded", out);
        if (t->other)
            one_way(t, call, &plain, t->other, TN_GRAD_OFF, "on the other device, by the composite,", out);
    }
    custom_close(&plain);
}
