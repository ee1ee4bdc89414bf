/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that write lists of tensors: steps of optimisers, scaling of gradients. They have no results. */
#include <string.h>
#include "ops/infer/infer.h"

/* The argument with a name; NULL if the operator has none. */
static const tn_value *argument_named(const tni_frame *f, const char *name)
{
    const tni_schema *s = f->op->base->schema;
    for (uint32_t i = 0; i < s->n_args; i++) {
        if (!strcmp(s->args[i].name, name)) return &f->args[i];
    }
    return NULL;
}

/* Whether the step reads a list: momentum and the largest squares are kept only if they are asked for. */
static int32_t is_needed(const tni_frame *f, const char *name)
{
    if (!strcmp(name, "momentum_buffer_list")) return tn_value_as_float(*argument_named(f, "momentum")) != 0;
    if (!strcmp(name, "max_exp_avg_sqs")) return tn_value_as_bool(*argument_named(f, "amsgrad"));
    return 1;
}

static int32_t check_one_element(tni_frame *f, const char *name, const tn_tensor *t)
{
    tni_text text;
    if (t->numel == 1) return TN_OK;
    return tni_fail(f, TN_E_SHAPE, "argument '%s': a tensor must have one element (got %s)", name,
                    tni_sizes_text(t, &text));
}

static int32_t check_list(tni_frame *f, const char *name, tn_value v)
{
    tn_value self = f->args[0];
    tni_text a, b;
    if (v.count != self.count)
        return tni_fail(f, TN_E_ARGUMENT,
                        "argument '%s': must have as many tensors as self (got %u, expected %u)", name,
                        v.count, self.count);
    for (uint32_t i = 0; i < v.count; i++) {
        const tn_tensor *t = v.as.tensors[i], *like = self.as.tensors[i];
        if (!strcmp(name, "state_steps")) {
            TNI_TRY(check_one_element(f, name, t));
            continue;
        }
        if (dtype_of(t) != dtype_of(self.as.tensors[0]))
            return tni_fail(
                f, TN_E_DTYPE, "argument '%s': all tensors must have one dtype (got %s, expected %s)", name,
                tni_dtype_error_name(dtype_of(t)), tni_dtype_error_name(dtype_of(self.as.tensors[0])));
        if (!same_sizes(t, like))
            return tni_fail(
                f, TN_E_SHAPE,
                "argument '%s': tensor %u must have the sizes of that of self (got %s, expected %s)", name, i,
                tni_sizes_text(t, &a), tni_sizes_text(like, &b));
    }
    return TN_OK;
}

/* Lists of tensors have as many tensors as argument 0; those but the numbers of steps have its sizes. Lists that the
 * step does not read may be empty. The tensors beside the lists are numbers: lr, scales, found_inf. */
int32_t infer_tensor_lists(tni_frame *f)
{
    for (uint32_t i = 0; i < f->n_args; i++) {
        tn_value v = f->args[i];
        const char *name = f->op->base->schema->args[i].name;
        if (v.tag == TN_TAG_TENSORS && (v.count || is_needed(f, name))) TNI_TRY(check_list(f, name, v));
        if (v.tag == TN_TAG_TENSOR) TNI_TRY(check_one_element(f, name, v.as.tensor));
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
