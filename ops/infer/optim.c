/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that write lists of tensors: steps of optimisers, scaling of gradients. They have no results. */
#include <string.h>
#include "ops/infer/infer.h"

/* Lists of tensors have as many tensors as argument 0, or none; those but the numbers of steps have its sizes. */
int32_t infer_tensor_lists(tni_frame *f)
{
    tn_value self = f->args[0];
    for (uint32_t k = 0; k < f->n_args; k++) {
        tn_value v = f->args[k];
        const char *name = f->op->base->schema->args[k].name;
        if (v.tag != TN_TAG_TENSORS || v.count == 0) continue;
        if (v.count != self.count)
            return tni_fail(f, TN_E_ARGUMENT,
                            "argument '%s': must have as many tensors as self (got %u, expected %u)", name,
                            v.count, self.count);
        for (uint32_t i = 0; i < v.count; i++) {
            const tn_tensor *t = v.as.tensors[i], *like = self.as.tensors[i];
            tni_text a, b;
            if (!strcmp(name, "state_steps")) {
                if (t->numel != 1)
                    return tni_fail(f, TN_E_SHAPE, "argument '%s': a tensor must have one element (got %s)",
                                    name, tni_sizes_text(t, &a));
                continue;
            }
            if (dtype_of(t) != dtype_of(self.as.tensors[0]))
                return tni_fail(f, TN_E_DTYPE,
                                "argument '%s': all tensors must have one dtype (got %s, expected %s)", name,
                                tni_dtype_error_name(dtype_of(t)),
                                tni_dtype_error_name(dtype_of(self.as.tensors[0])));
            if (!same_sizes(t, like))
                return tni_fail(
                    f, TN_E_SHAPE,
                    "argument '%s': tensor %u must have the sizes of that of self (got %s, expected %s)",
                    name, i, tni_sizes_text(t, &a), tni_sizes_text(like, &b));
        }
    }
    return TN_OK;
}

/* _amp_update_scale_ (self, growth_tracker, found_inf, ...). */
int32_t infer_update_scale(tni_frame *f)
{
    static const tn_dtype dtypes[] = {TN_FLOAT32, TN_INT32, TN_FLOAT32};
    for (uint32_t i = 0; i < 3; i++) {
        const tn_tensor *t = tni_arg_tensor(f, i);
        if (t->numel == 1 && dtype_of(t) == dtypes[i]) continue;
        return tni_fail(f, TN_E_ARGUMENT, "argument '%s': must be one element of %s",
                        f->op->base->schema->args[i].name, tni_dtype_error_name(dtypes[i]));
    }
    return tni_out_like(f, 0, tni_arg_tensor(f, 0), 0);
}
