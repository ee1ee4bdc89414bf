/* SPDX-License-Identifier: Apache-2.0 */
/* The same function, forward and backward, on two devices; see model.h. */
#include "model.h"

#include <stdio.h>
#include <string.h>

typedef struct side {
    tn_scope *s;
    tn_tensor *inputs[MODEL_MAX_INPUTS];
    tn_tensor *leaves[MODEL_MAX_INPUTS];
    tn_tensor *grads[MODEL_MAX_INPUTS];
    uint32_t n_leaves;
    tn_tensor *result;
    int32_t way;
    check_watch watch;
} side;

/* The gradient of the result: multiples of 1/4. */
static tn_tensor *cotangent(side *a, uint64_t seed)
{
    call_tensor c = {.dtype = tn_tensor_dtype(a->result), .low = -1, .high = 1, .step = 0.25};
    if (tn_tensor_rank(a->result) > CALL_MAX_RANK) return NULL;
    call_shape(&c, (uint32_t)tn_tensor_rank(a->result), tn_tensor_sizes(a->result));
    return call_make(a->s, &c, seed ^ 0x5bd1e995u, tn_tensor_device(a->result));
}

static int32_t run_back(side *a, uint64_t seed)
{
    tn_tensor *flow = cotangent(a, seed);
    const tn_backward_options o = {
        .size = sizeof o, .allow_unused = 1, .materialize_grads = 1, .grad_outputs = {&flow, 1}};
    if (!flow) return TN_E_STATE;
    return tn_grad(a->s, (tn_tensors){&a->result, 1}, (tn_tensors){a->leaves, a->n_leaves}, &o, a->grads);
}

static void make_inputs(side *a, const model_plan *p, tn_device device)
{
    for (uint32_t i = 0; i < p->n_inputs; i++) {
        a->inputs[i] = call_make(a->s, &p->inputs[i], p->seed + i * 104729u, device);
        if (!(p->leaves >> i & 1u) || !a->inputs[i]) continue;
        a->inputs[i] = tn_detach(a->s, a->inputs[i]);
        tn_set_requires_grad(a->inputs[i], 1);
        a->leaves[a->n_leaves++] = a->inputs[i];
    }
}

static void run_on(check_target *t, const model_plan *p, tn_device device, side *a)
{
    memset(a, 0, sizeof *a);
    a->s = tn_scope_open(t->ctx);
    make_inputs(a, p, device);
    check_watch_begin(t, &a->watch);
    if (!tn_scope_failed(a->s)) a->result = p->function(a->s, a->inputs, p->data);
    if (a->result && a->n_leaves && !tn_scope_failed(a->s)) run_back(a, p->seed);
    a->way = check_watch_end(t, &a->watch);
    int32_t status = tn_device_synchronize(t->ctx, device);
    if (status && !tn_scope_failed(a->s))
        tn_scope_fail(a->s, status, tn_last_error() ? tn_last_error()->message : "a late error");
}

static int compare_results(const model_plan *p, side *a, side *b, check_result *out)
{
    check_tolerance tolerance = p->tolerance;
    char what[96];
    if (tolerance.rtol < 0) tolerance = check_tolerance_of(tn_tensor_dtype(b->result));
    if (!check_same(out, a->s, "the result", a->result, b->result, tolerance)) return 0;
    for (uint32_t i = 0; i < b->n_leaves; i++) {
        snprintf(what, sizeof what, "the gradient of input %u", i);
        tolerance = p->tolerance.rtol < 0 ? check_tolerance_of(tn_tensor_dtype(b->grads[i])) : p->tolerance;
        if (!check_same(out, a->s, what, a->grads[i], b->grads[i], tolerance)) return 0;
    }
    return 1;
}

void model_compare(check_target *t, const model_plan *p, check_result *out)
{
    side a, b;
    if (!t->other) {
        check_skip(out, "there is no other device to compare with");
        return;
    }
    run_on(t, p, t->device, &a);
    run_on(t, p, t->other, &b);
    out->way = a.way;
    if (tn_scope_failed(b.s))
        check_skip(out, "%s refuses: %s", t->other_name,
                   tn_scope_error(b.s) ? tn_scope_error(b.s)->message : "");
    else if (b.way == CHECK_WAY_CPU) /* the CPU would be compared with itself */
        check_skip(out, "%s has no kernel to compare with", t->other_name);
    else if (tn_scope_failed(a.s))
        check_fail_with_error(out, a.s, t->name);
    else if (compare_results(p, &a, &b, out) && a.way == CHECK_WAY_CPU)
        check_absent(out, "the CPU answers for %s", a.watch.fallbacks);
    tn_scope_close(a.s);
    tn_scope_close(b.s);
}
