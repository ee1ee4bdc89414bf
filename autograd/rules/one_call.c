/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients that are one call of another operator: of pooling, padding and interpolation the backward
 * operator, of these backward operators the forward one, of many activations theirs. The table names the
 * operator; the generator matches its arguments by name, so one rule serves all of them.
 */
#include "autograd/rules/formula.h"

#define MAX_SOURCES 16

static tn_value source_value(const tni_grad *g, uint8_t source, const tni_meta *first)
{
    tn_value v;
    switch (source) {
    case TNI_SOURCE_GRAD:
        return tn_value_tensor(tni_grad_out(g, 0));
    case TNI_SOURCE_SIZES:
        return tn_value_ints(first->sizes, first->rank);
    case TNI_SOURCE_DTYPE:
        return tn_value_dtype(first->dtype);
    case TNI_SOURCE_FALSE:
        return tn_value_bool(0);
    default:
        if (source >= TNI_SOURCE_RESULT)
            return tn_value_tensor(tni_grad_result(g, source - TNI_SOURCE_RESULT));
        v = tni_grad_arg(g, source);
        return v.tag == TN_TAG_TENSOR ? tn_value_tensor(tni_grad_saved(g, source)) : v;
    }
}

/*
 * Argument 0 gets the result of the call. The `self` of a backward operator has no gradient: only its sizes
 * matter, or its slope is piecewise constant.
 */
void grad_one_call(tn_scope *s, tni_grad *g)
{
    const tni_gradient_entry *entry = tni_grad_entry(g);
    tni_meta first = tni_grad_meta(g, 0, 0);
    tn_value v[MAX_SOURCES], out;
    if (tni_grad_needs(g, 0)) {
        for (uint32_t i = 0; i < entry->source_count; i++) v[i] = source_value(g, entry->sources[i], &first);
        tn_scope_call(s, entry->call, v, entry->source_count, &out, 1);
        tni_grad_set(g, 0, tn_value_as_tensor(out));
    }
    for (uint32_t i = 1; i < tni_grad_op(g)->n_args; i++) {
        if (tni_grad_arg(g, i).tag != TN_TAG_TENSOR) continue;
        if (i == entry->zeroed)
            set_zero(s, g, i);
        else
            set_unknown(s, g, i);
    }
}
