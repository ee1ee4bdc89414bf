/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Second derivatives of fused backward operators: the operator is computed again by simple operators, which
 * are recorded, and the engine differentiates them.
 */
#include "autograd/rules/formula.h"

#include <string.h>

tn_tensor *tni_rule_input(tn_scope *s, tn_tensor *t)
{
    if (!t) return NULL;
    if (tni_grad_enabled() && tni_wants_grad(t)) return tn_alias(s, t);
    t = tn_detach(s, t);
    int32_t status = t ? tn_set_requires_grad(t, 1) : TN_OK;
    if (status && !tn_scope_failed(s)) tni_scope_record(s, status);
    return t;
}

static int32_t differentiate(tn_scope *s, tn_tensor *const *results, tn_tensor *const *grads, uint32_t n_outs,
                             tn_tensor *const *in, const int32_t *wanted, uint32_t n_in, int32_t again,
                             tn_tensor **out)
{
    tn_tensor *roots[8], *root_grads[8], *inputs[16], *found[16];
    int64_t n_roots = 0, n_inputs = 0;
    for (uint32_t i = 0; i < n_outs; i++) {
        if (!grads[i] || !results[i] || !tni_wants_grad(results[i])) continue;
        roots[n_roots] = results[i];
        root_grads[n_roots++] = grads[i];
    }
    for (uint32_t i = 0; i < n_in; i++) {
        if (in[i] && wanted[i]) inputs[n_inputs++] = in[i];
    }
    if (!n_roots || !n_inputs) return TN_OK;
    tn_backward_options options = {.size = sizeof options,
                                   .allow_unused = 1,
                                   .create_graph = again,
                                   .retain_graph = again,
                                   .grad_outputs = {root_grads, n_roots}};
    int32_t status =
        tn_grad(s, (tn_tensors){roots, n_roots}, (tn_tensors){inputs, n_inputs}, &options, found);
    for (uint32_t i = 0, k = 0; i < n_in && !status; i++) {
        if (in[i] && wanted[i]) out[i] = found[k++];
    }
    return status;
}

int32_t tni_rule_vjp(tn_scope *s, tni_formula *f, const void *data, tn_tensor *const *in,
                     const int32_t *wanted, uint32_t n_in, tn_tensor *const *grads, uint32_t n_outs,
                     tn_tensor **out)
{
    tn_tensor *inputs[16], *results[8] = {NULL};
    int32_t again = tni_grad_enabled();
    memset(out, 0, n_in * sizeof *out);
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    for (uint32_t i = 0; i < n_in; i++) inputs[i] = wanted[i] ? tni_rule_input(s, in[i]) : in[i];
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    uint32_t mode = tn_set_grad_mode(TN_GRAD_ON);
    f(s, data, inputs, results);
    if (!tn_scope_failed(s)) differentiate(s, results, grads, n_outs, inputs, wanted, n_in, again, out);
    tn_set_grad_mode(mode);
    return tn_scope_failed(s);
}
