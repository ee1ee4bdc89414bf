/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients on the device. If it computes in float64, the rule of each operator is compared with finite
 * differences of the operator, both on the device; otherwise with the gradients of the other device. A
 * gradient that the CPU refuses does not exist and is skipped.
 */
#include "model.h"
#include "modes.h"
#include "table.h"

#include <string.h>

/* A call as a function of its leaves. */
typedef struct function {
    const call_plan *plan;
    tn_value args[CALL_MAX_ARGS]; /* on the device; the leaves replace some of them */
    uint32_t places[MODEL_MAX_INPUTS];
    uint32_t n_leaves, n_outs;
} function;

static int32_t call(void *user, tn_scope *s, tn_tensors inputs, tn_tensor **out)
{
    const function *f = user;
    tn_value args[CALL_MAX_ARGS], outs[CALL_MAX_OUTS];
    memcpy(args, f->args, sizeof args);
    for (uint32_t i = 0; i < f->n_leaves; i++) args[f->places[i]] = tn_value_tensor(inputs.data[i]);
    int32_t status = tn_scope_call(s, f->plan->op, args, f->plan->n_args, outs, f->n_outs);
    if (!status) out[0] = tn_value_as_tensor(outs[0]);
    return status;
}

/* Central differences on one device. 0, or the status, with the error in the scope. */
static int32_t differences(check_target *t, const call_plan *p, tn_device device, tn_scope *s)
{
    function f = {.plan = p, .n_outs = tn_inspect_argument_count(t->ctx, p->op, 1)};
    tn_tensor *leaves[MODEL_MAX_INPUTS];
    const tn_gradcheck_options options = {.size = sizeof options, .eps = 1e-6, .atol = 1e-4, .rtol = 1e-3};
    if (f.n_outs > CALL_MAX_OUTS || call_arguments(s, p, device, f.args)) return TN_E_STATE;
    for (uint32_t i = 0; i < p->n_args && f.n_leaves < MODEL_MAX_INPUTS; i++) {
        tn_tensor *x = tn_value_as_tensor(f.args[i]);
        if (!x || tn_tensor_dtype(x) != TN_FLOAT64) continue;
        x = leaves[f.n_leaves] = tn_detach(s, x);
        if (!x || tn_set_requires_grad(x, 1)) return TN_E_AUTOGRAD;
        f.places[f.n_leaves++] = i;
    }
    return tn_gradcheck(s, call, &f, (tn_tensors){leaves, f.n_leaves}, &options);
}

/* Small, since every element costs two calls, and without ties. */
static void prepare(check_target *t, const check_case *c, call_plan *p, call_tensor *tensors)
{
    p->seed = check_seed(t, c);
    table_plan(t, c->data, TABLE_CONTIGUOUS, p, tensors);
    for (uint32_t i = 0; i < p->n_args; i++) {
        if (p->args[i].tag != TN_TAG_POINTER) continue;
        call_shape(&tensors[i], 2, (const int64_t[]){3, 4});
        tensors[i].step = 0;
        tensors[i].values = NULL;
    }
}

static void run_differences(check_target *t, const check_case *c, check_result *out)
{
    call_tensor tensors[CALL_MAX_ARGS] = {{0}};
    call_plan p = {0};
    check_watch watch;
    prepare(t, c, &p, tensors);
    tn_scope *s = tn_scope_open(t->ctx), *cpu = tn_scope_open(t->ctx);
    check_watch_begin(t, &watch);
    int32_t status = differences(t, &p, t->device, s);
    out->way = check_watch_end(t, &watch);
    const char *text = tn_scope_error(s) && tn_scope_error(s)->message ? tn_scope_error(s)->message : "";
    if (status && strstr(text, "is not implemented"))
        check_skip(out, "no derivative is implemented");
    else if (status && t->device != TN_CPU && differences(t, &p, TN_CPU, cpu))
        check_skip(out, "the CPU has no such gradient either: %s",
                   tn_scope_error(cpu) ? tn_scope_error(cpu)->message : "");
    else if (status)
        check_fail_with_error(out, s, p.name);
    else if (out->way == CHECK_WAY_CPU)
        check_absent(out, "the CPU answers for %s", watch.fallbacks);
    tn_scope_close(cpu);
    tn_scope_close(s);
}

/* ---- Without float64 ----------------------------------------------------------------------------------- */

static tn_tensor *call_plan_of(tn_scope *s, tn_tensor *const *in, const void *data)
{
    const call_plan *p = data;
    tn_value args[CALL_MAX_ARGS], outs[CALL_MAX_OUTS];
    uint32_t next = 0;
    for (uint32_t i = 0; i < p->n_args; i++)
        args[i] = p->args[i].tag == TN_TAG_POINTER ? tn_value_tensor(in[next++]) : p->args[i];
    uint32_t n_outs = tn_inspect_argument_count(tn_scope_context(s), p->op, 1);
    return tn_scope_call(s, p->op, args, p->n_args, outs, n_outs) ? NULL : tn_value_as_tensor(outs[0]);
}

static void run_comparison(check_target *t, const check_case *c, check_result *out)
{
    call_tensor tensors[CALL_MAX_ARGS] = {{0}};
    call_plan p = {0};
    prepare(t, c, &p, tensors);
    model_plan m = {
        .name = p.name, .function = call_plan_of, .data = &p, .seed = p.seed, .tolerance = {1e-4, 1e-5, 0}};
    for (uint32_t i = 0; i < p.n_args && m.n_inputs < MODEL_MAX_INPUTS; i++) {
        if (p.args[i].tag != TN_TAG_POINTER) continue;
        if (tn_dtype_is_floating(tensors[i].dtype)) m.leaves |= 1u << m.n_inputs;
        m.inputs[m.n_inputs++] = tensors[i];
    }
    model_compare(t, &m, out);
}

/* ---- The list ------------------------------------------------------------------------------------------ */

/* Operators with an argument that has no derivative, or with a result that is not differentiable. */
static int is_excluded(const char *name)
{
    static const char excluded[] =
        " aten::igamma aten::igammac aten::special_zeta aten::polygamma aten::nextafter "
        "aten::heaviside aten::_standard_gamma_grad aten::_dirichlet_grad ";
    const char *at = strstr(excluded, name);
    return at && at[-1] == ' ' && at[strlen(name)] == ' ';
}

static void add_operators(check_target *t, check_list *list)
{
    int wide = check_has_dtype(t, TN_FLOAT64);
    tn_dtype dtype = wide ? TN_FLOAT64 : TN_FLOAT32;
    for (uint32_t i = 0; i < tn_inspect_operator_count(t->ctx); i++) {
        tn_operator_info op = {.size = sizeof op};
        if (tn_inspect_operator(t->ctx, i, &op) || op.base != op.number || !op.has_gradient ||
            is_excluded(op.name))
            continue;
        if (strcmp(op.kind, "pointwise") && strcmp(op.kind, "reduction") && strcmp(op.kind, "scan")) continue;
        if (!check_has_kernel(t, op.number, "cpu", dtype)) continue;
        table_case *data = check_memory(list, sizeof *data);
        *data = (table_case){op.number, op.name, op.kind, dtype};
        check_add(list,
                  &(check_case){.tags = CHECK_TAG_GRADIENT | CHECK_TAG_OPTIONAL,
                                .run = wide ? run_differences : run_comparison,
                                .data = data},
                  "gradient/%s/%s", op.name, tn_dtype_name(dtype));
    }
}

int32_t check_gradient(check_run *run)
{
    static const check_source sources[] = {add_operators, check_tier3};
    check_execute(run, sources, 2);
    return check_verdict(run);
}
