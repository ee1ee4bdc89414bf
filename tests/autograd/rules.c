/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of gradient rules share; see rules.h. */
#include "rules.h"

static tn_context *context;

tn_scope *rules_begin(void)
{
    context = open_context();
    tn_set_num_threads(context, 1);
    tn_scope *s = tn_scope_open(context);
    cr_assert_not_null(s);
    return s;
}

void rules_end(tn_scope *s)
{
    expect_sound(s);
    tn_scope_close(s);
    close_context(context);
}

/* Values that do not repeat: steps of the golden ratio around the interval. */
static tn_tensor *numbers(tn_scope *s, double low, double high, tn_ints sizes, uint32_t parts)
{
    static double at = 0.4142135623730951;
    int64_t n = parts;
    for (int64_t i = 0; i < sizes.count; i++) n *= sizes.data[i];
    double *data = tn_scope_memory(s, (uint64_t)n * sizeof *data + sizeof *data);
    cr_assert_not_null(data);
    for (int64_t i = 0; i < n; i++) {
        at += 0.6180339887498949;
        if (at >= 1) at -= 1;
        data[i] = low + (high - low) * at;
    }
    tn_tensor *t = tn_from_data(s, parts == 2 ? TN_COMPLEX128 : TN_FLOAT64, sizes, data, 0);
    cr_assert_not_null(t);
    return t;
}

static tn_tensor *as_leaf(tn_tensor *t)
{
    cr_assert_eq(tn_set_requires_grad(t, 1), 0);
    return t;
}

tn_tensor *leaf(tn_scope *s, double low, double high, tn_ints sizes)
{
    return as_leaf(numbers(s, low, high, sizes, 1));
}

tn_tensor *complex_leaf(tn_scope *s, double low, double high, tn_ints sizes)
{
    return as_leaf(numbers(s, low, high, sizes, 2));
}

tn_tensor *constant(tn_scope *s, double low, double high, tn_ints sizes)
{
    return numbers(s, low, high, sizes, 1);
}

tn_tensor *longs(tn_scope *s, tn_ints sizes, const int64_t *data)
{
    tn_tensor *t = tn_from_data(s, TN_INT64, sizes, data, 0);
    cr_assert_not_null(t);
    return t;
}

/* ---- checking ---- */

enum { MAX_ARGS = 24, MAX_INPUTS = 8 };

typedef struct prepared {
    const rule_call *call;
    const tn_value *args;
    uint32_t n_args;
    tn_tensor *inputs[MAX_INPUTS];
    int64_t n_inputs;
} prepared;

static tn_tensor *moved(const prepared *p, tn_tensors inputs, tn_tensor *t)
{
    for (int64_t i = 0; i < p->n_inputs; i++) {
        if (p->inputs[i] == t) return inputs.data[i];
    }
    return t;
}

static tn_value substitute(const prepared *p, tn_scope *s, tn_tensors inputs, tn_value v)
{
    if (v.tag == TN_TAG_TENSOR) return tn_value_tensor(moved(p, inputs, v.as.tensor));
    if (v.tag != TN_TAG_TENSORS) return v;
    tn_tensor **items = tn_scope_memory(s, (v.count + 1u) * sizeof *items);
    for (uint32_t i = 0; items && i < v.count; i++) items[i] = moved(p, inputs, v.as.tensors[i]);
    return tn_value_tensors(items, v.count);
}

static int32_t run(void *user, tn_scope *s, tn_tensors inputs, tn_tensor **out)
{
    const prepared *p = user;
    tn_value args[MAX_ARGS], outs[8];
    for (uint32_t i = 0; i < p->n_args; i++) args[i] = substitute(p, s, inputs, p->args[i]);
    int32_t status = tn_scope_call(s, p->call->op, args, p->n_args, outs, p->call->n_outs);
    for (uint32_t i = 0; !status && i < p->call->n_checked; i++) out[i] = tn_value_as_tensor(outs[i]);
    return status;
}

static void add_input(prepared *p, tn_tensor *t)
{
    if (!t || !tn_requires_grad(t)) return;
    cr_assert_lt(p->n_inputs, MAX_INPUTS);
    p->inputs[p->n_inputs++] = t;
}

static void expect_passed(tn_scope *s, const char *name, int32_t status)
{
    const tn_error *e = tn_scope_error(s);
    cr_expect_eq(status, 0, "%s: %s", name, e ? e->message : "");
    tn_scope_clear(s);
}

void check_call(tn_scope *s, const rule_call *call, const tn_value *args, uint32_t n_args)
{
    prepared p = {.call = call, .args = args, .n_args = n_args};
    cr_assert_leq(n_args, MAX_ARGS);
    for (uint32_t i = 0; i < n_args; i++) {
        if (args[i].tag == TN_TAG_TENSOR) add_input(&p, args[i].as.tensor);
        for (uint32_t k = 0; args[i].tag == TN_TAG_TENSORS && k < args[i].count; k++)
            add_input(&p, args[i].as.tensors[k]);
    }
    tn_gradcheck_options o = {.size = sizeof o, .n_outs = call->n_checked, .second = !call->first_only};
    expect_passed(s, call->name, tn_gradcheck(s, run, &p, (tn_tensors){p.inputs, p.n_inputs}, &o));
}

void check_function(tn_scope *s, const char *name, tn_check_fn f, tn_tensors inputs)
{
    tn_gradcheck_options o = {.size = sizeof o, .n_outs = 1, .second = 1};
    expect_passed(s, name, tn_gradcheck(s, f, NULL, inputs, &o));
}
