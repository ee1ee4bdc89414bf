/* SPDX-License-Identifier: Apache-2.0 */
/* What the rooms of libtenon-train ask of tensors that come from a program or a file. */
#ifndef TENON_FILES_TENSORS_H
#define TENON_FILES_TENSORS_H

#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

static inline int32_t same_sizes(const tn_tensor *a, const tn_tensor *b)
{
    const int64_t rank = tn_tensor_rank(a);
    return rank == tn_tensor_rank(b) &&
           (!rank || !memcmp(tn_tensor_sizes(a), tn_tensor_sizes(b), (size_t)rank * sizeof(int64_t)));
}

/* Fails the scope if a name or a tensor of a state is NULL, as that of a call that failed; returns the status. */
static inline int32_t refuse_null_items(tn_scope *s, const char *who, tn_named_tensors state)
{
    char text[320];
    for (int64_t i = 0; i < state.count; i++) {
        const tn_named_tensor *item = &state.data[i];
        if (item->name && item->tensor) continue;
        snprintf(text, sizeof text, "%s: item %lld of the state ('%.180s'): its %s is NULL", who,
                 (long long)i, item->name ? item->name : "", item->name ? "tensor" : "name");
        return tn_scope_fail(s, TN_E_ARGUMENT, text);
    }
    return TN_OK;
}

#endif
