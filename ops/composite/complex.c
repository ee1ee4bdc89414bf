/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: parts of complex tensors, lazy conjugation. */
#include "ops/composite/composite.h"

void composite_real(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    if (!is_complex(dtype_of(self))) return give(outs, 0, self);
    if (tn_desc(self)->flags & TN_DESC_CONJ) self = tn__conj(s, self);
    give(outs, 0, tn_select(s, tn_view_as_real(s, self), -1, 0));
}

/* For a lazily conjugated tensor: the stored part, negated. */
void composite_imag(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    int32_t conjugated = (tn_desc(self)->flags & TN_DESC_CONJ) != 0;
    if (!is_complex(dtype_of(self)))
        return (void)tn_scope_fail(s, TN_E_DTYPE,
                                   "imag is not implemented for tensors with non-complex dtypes.");
    if (conjugated) self = tn__conj(s, self);
    tn_tensor *part = tn_select(s, tn_view_as_real(s, self), -1, 1);
    give(outs, 0, conjugated ? tn__neg_view(s, part) : part);
}

void composite_conj(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    give(outs, 0, is_complex(dtype_of(self)) ? tn__conj(s, self) : self);
}

void composite_conj_physical(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    give(outs, 0,
         tn_desc(self)->flags & TN_DESC_CONJ ? tn_clone(s, tn__conj(s, self)) : tn_conj_physical(s, self));
}

void composite_resolve_conj(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    give(outs, 0, tn_desc(self)->flags & TN_DESC_CONJ ? tn_clone(s, self) : self);
}

void composite_resolve_neg(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    give(outs, 0, tn_desc(self)->flags & TN_DESC_NEG ? tn_clone(s, self) : self);
}
