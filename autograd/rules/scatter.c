/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing by index along a dimension: scatter has an index as large as the source, the index_... operators
 * one index for each slice. Both families reduce in the same ways, so the formulas are written once with two
 * functions, read and write.
 */
#include "autograd/rules/formula.h"

#include <string.h>

static tn_tensor *gather(tn_scope *s, tn_tensor *t, const tni_grad *g)
{
    return tn_gather(s, t, int_arg(g, 1), tni_grad_saved(g, 2));
}

static void set_overwritten(tn_scope *s, tni_grad *g)
{
    if (tni_grad_needs(g, 0))
        tni_grad_set(g, 0, tn_scatter_value(s, tni_grad_out(g, 0), int_arg(g, 1), tni_grad_saved(g, 2), 0));
}

void grad_scatter(tn_scope *s, tni_grad *g)
{
    set_overwritten(s, g);
    if (tni_grad_needs(g, 3)) tni_grad_set(g, 3, gather(s, tni_grad_out(g, 0), g));
}

void grad_scatter_value(tn_scope *s, tni_grad *g)
{
    set_overwritten(s, g);
}

void grad_scatter_add(tn_scope *s, tni_grad *g)
{
    tni_grad_set(g, 0, tni_grad_out(g, 0));
    if (tni_grad_needs(g, 3)) tni_grad_set(g, 3, gather(s, tni_grad_out(g, 0), g));
}

/* ---- reductions ---- */

/* One call of scatter_reduce or index_reduce. */
typedef struct reducer {
    int32_t by_slices; /* index_reduce */
    int64_t dim;
    tn_tensor *index;
    const char *reduce;
    int32_t include_self;
    tn_tensor *grad, *self, *source, *result;
} reducer;

static tn_tensor *read_at(tn_scope *s, const reducer *r, tn_tensor *t)
{
    return r->by_slices ? tn_index_select(s, t, r->dim, r->index) : tn_gather(s, t, r->dim, r->index);
}

static tn_tensor *add_at(tn_scope *s, const reducer *r, tn_tensor *t, tn_tensor *values)
{
    return r->by_slices ? tn_index_add(s, t, r->dim, r->index, values)
                        : tn_scatter_add(s, t, r->dim, r->index, values);
}

static tn_tensor *clear_at(tn_scope *s, const reducer *r, tn_tensor *t)
{
    return r->by_slices ? tn_index_fill(s, t, r->dim, r->index, 0)
                        : tn_scatter_value(s, t, r->dim, r->index, 0);
}

static tn_tensor *reduce_again(tn_scope *s, const reducer *r, tn_tensor *self, tn_tensor *source)
{
    return r->by_slices ? tn_index_reduce(s, self, r->dim, r->index, source, r->reduce,
                                          .include_self = r->include_self)
                        : tn_scatter_reduce(s, self, r->dim, r->index, source, r->reduce,
                                            .include_self = r->include_self);
}

static tn_tensor *as_numbers(tn_scope *s, tn_tensor *mask, const tn_tensor *like)
{
    return like ? tn__to_copy(s, mask, .dtype = like->desc.dtype) : NULL;
}

static tn_tensor *one_where(tn_scope *s, tn_tensor *mask, tn_tensor *t)
{
    return tn_masked_fill_scalar(s, t, mask, 1);
}

static void product(tn_scope *s, tni_grad *g, const reducer *r)
{
    if (tni_grad_needs(g, 0)) {
        tn_tensor *self = one_where(s, tn_eq_scalar(s, r->self, 0), r->self);
        tn_tensor *others = divide(s, reduce_again(s, r, self, r->source), self);
        tn_tensor *of_self = mul(s, r->grad, others);
        tni_grad_set(g, 0, r->include_self ? of_self : clear_at(s, r, of_self));
    }
    if (!tni_grad_needs(g, 3)) return;
    tn_tensor *zero = tn_eq_scalar(s, r->source, 0);
    tn_tensor *zeros = read_at(s, r, add_at(s, r, tn_zeros_like(s, r->self), as_numbers(s, zero, r->self)));
    tn_tensor *single = tn_logical_and(s, zero, tn_eq_scalar(s, zeros, 1));
    tn_tensor *without = reduce_again(s, r, r->self, one_where(s, single, r->source));
    tn_tensor *at_zero = read_at(s, r, mul(s, r->grad, without));
    tn_tensor *elsewhere =
        divide(s, read_at(s, r, mul(s, r->grad, r->result)), one_where(s, zero, r->source));
    tni_grad_set(g, 3, tn_where(s, single, at_zero, elsewhere));
}

static void mean(tn_scope *s, tni_grad *g, const reducer *r)
{
    tn_tensor *count = r->include_self ? tn_ones_like(s, r->grad) : tn_zeros_like(s, r->grad);
    count = add_at(s, r, count, as_numbers(s, tn_ones_like(s, r->source), r->grad));
    tn_tensor *share = divide(s, r->grad, one_where(s, tn_eq_scalar(s, count, 0), count));
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, r->include_self ? share : clear_at(s, r, share));
    if (tni_grad_needs(g, 3)) tni_grad_set(g, 3, read_at(s, r, share));
}

static void extremum(tn_scope *s, tni_grad *g, const reducer *r)
{
    tn_tensor *self_wins = as_numbers(s, tn_eq(s, r->self, r->result), r->grad);
    tn_tensor *source_wins = as_numbers(s, tn_eq(s, r->source, read_at(s, r, r->result)), r->grad);
    tn_tensor *count = add_at(s, r, self_wins, source_wins);
    tn_tensor *share = divide(s, r->grad, one_where(s, tn_eq_scalar(s, count, 0), count));
    if (tni_grad_needs(g, 0)) {
        tn_tensor *of_self = mul(s, self_wins, share);
        tni_grad_set(g, 0, r->include_self ? of_self : clear_at(s, r, of_self));
    }
    if (tni_grad_needs(g, 3)) tni_grad_set(g, 3, mul(s, source_wins, read_at(s, r, share)));
}

static void sum(tn_scope *s, tni_grad *g, const reducer *r)
{
    if (tni_grad_needs(g, 0)) tni_grad_set(g, 0, r->include_self ? r->grad : clear_at(s, r, r->grad));
    if (tni_grad_needs(g, 3)) tni_grad_set(g, 3, read_at(s, r, r->grad));
}

static void reduced(tn_scope *s, tni_grad *g, int32_t by_slices)
{
    reducer r = {.by_slices = by_slices,
                 .dim = int_arg(g, 1),
                 .index = tni_grad_saved(g, 2),
                 .reduce = string_arg(g, 4),
                 .include_self = bool_arg(g, 5),
                 .grad = tni_grad_out(g, 0),
                 .self = tni_grad_saved(g, 0),
                 .source = tni_grad_saved(g, 3),
                 .result = tni_grad_result(g, 0)};
    if (tn_scope_failed(s) || !r.reduce) return;
    if (strcmp(r.reduce, "sum") == 0)
        sum(s, g, &r);
    else if (strcmp(r.reduce, "prod") == 0)
        product(s, g, &r);
    else if (strcmp(r.reduce, "mean") == 0)
        mean(s, g, &r);
    else
        extremum(s, g, &r);
}

void grad_scatter_reduce(tn_scope *s, tni_grad *g)
{
    reduced(s, g, 0);
}
void grad_index_reduce(tn_scope *s, tni_grad *g)
{
    reduced(s, g, 1);
}
