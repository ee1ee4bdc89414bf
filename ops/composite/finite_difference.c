/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: differences along a dimension, numerical integrals and derivatives. */
#include "core/shape.h"
#include "ops/composite/composite.h"

static tn_tensor *part(tn_scope *s, tn_tensor *t, int64_t dim, int64_t start, int64_t end)
{
    return tn_slice(s, t, .dim = dim, .start = start, .end = end);
}

/* ---- diff ---- */

static tn_tensor *with_ends(tn_scope *s, tn_tensor *self, tn_tensor *prepend, tn_tensor *append, int64_t dim)
{
    tn_tensor *list[3];
    int64_t n = 0;
    if (!prepend && !append) return self;
    for (int64_t i = 0; i < 2; i++) {
        tn_tensor *t = i ? append : prepend;
        if (t && rank_of(t) != rank_of(self))
            return tn_scope_fail(s, TN_E_SHAPE,
                                 "diff expects prepend or append to be the same dimension as input"),
                   NULL;
    }
    if (prepend) list[n++] = prepend;
    list[n++] = self;
    if (append) list[n++] = append;
    return tn_cat(s, (tn_tensors){list, n}, .dim = dim);
}

void composite_diff(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *t;
    int64_t n = arg_int(args, 1), dim;
    if (rank_of(self) == 0)
        return (void)tn_scope_fail(s, TN_E_SHAPE, "diff expects input to be at least one-dimensional");
    if (n < 0)
        return (void)tni_scope_failf(s, TN_E_ARGUMENT, "order must be non-negative but got %lld",
                                     (long long)n);
    dim = tni_dim(s, arg_int(args, 2), rank_of(self));
    if (n == 0) {
        t = tni_zeros_on(s, self, 0, sizes_of(self));
        tn_copy_(s, t, self);
        return give(outs, 0, t);
    }
    t = with_ends(s, self, arg_tensor(args, 3), arg_tensor(args, 4), dim);
    for (int64_t i = 0; i < n && t; i++) {
        int64_t size = tn_tensor_size(t, dim);
        if (size == 0) break;
        tn_tensor *a = part(s, t, dim, 0, size - 1), *b = part(s, t, dim, 1, size);
        t = dtype_of(t) == TN_BOOL ? tn_logical_xor(s, b, a) : tn_sub(s, b, a);
    }
    give(outs, 0, t);
}

/* ---- trapezoids ---- */

static int32_t refuse_bool(tn_scope *s, const tn_tensor *t, const char *name)
{
    if (!t || dtype_of(t) != TN_BOOL) return TN_OK;
    return tni_scope_failf(s, TN_E_DTYPE,
                           "%s: received a bool input for `x` or `y`, but bool is not supported", name);
}

/* x shaped to go with y: along dim, broadcast over the other dimensions. */
static tn_tensor *view_of_points(tn_scope *s, tn_tensor *x, const tn_tensor *y, int64_t dim, const char *name)
{
    int64_t shape[TN_MAX_RANK], rank = rank_of(y);
    if (rank_of(x) == 1) {
        if (tn_tensor_size(x, 0) != tn_tensor_size(y, dim))
            return tni_scope_failf(s, TN_E_SHAPE, "%s: There must be one `x` value for each sample point",
                                   name),
                   NULL;
        for (int64_t d = 0; d < rank; d++) shape[d] = d == dim ? tn_tensor_size(x, 0) : 1;
        return tni_reshape(s, x, (tn_ints){shape, rank});
    }
    if (rank_of(x) >= rank) return x;
    int64_t lead = rank - rank_of(x);
    for (int64_t d = 0; d < rank; d++) shape[d] = d < lead ? 1 : tn_tensor_size(x, d - lead);
    return tni_reshape(s, x, (tn_ints){shape, rank});
}

/* Sums of neighbours along dim, times the gaps if x is given. */
static tn_tensor *areas(tn_scope *s, tn_tensor *y, tn_tensor *x, int64_t dim, const char *name)
{
    int64_t size = tn_tensor_size(y, dim);
    tn_tensor *sum = tn_add(s, part(s, y, dim, 0, size - 1), part(s, y, dim, 1, size));
    if (!x) return sum;
    x = view_of_points(s, x, y, dim, name);
    if (!x) return NULL;
    int64_t points = tn_tensor_size(x, dim);
    return tn_mul(s, sum, tn_sub(s, part(s, x, dim, 1, points), part(s, x, dim, 0, points - 1)));
}

/* With steps of dx: the sum less half of both ends. Sums of neighbours would wrap around in small integers. */
static tn_tensor *by_sum(tn_scope *s, tn_tensor *y, tn_value dx, int64_t dim)
{
    tn_tensor *ends = tn_add(s, tn_select(s, y, dim, 0), tn_select(s, y, dim, -1));
    tn_tensor *sum = tn_sub(s, tn_sum_dim(s, y, TN_INTS(dim)), tn_mul_scalar(s, ends, 0.5));
    return tn_mul_scalar(s, sum, tn_value_as_float(dx));
}

/* The integral (or running integral) of y over x, or with steps of dx. */
static tn_tensor *integrate(tn_scope *s, tn_tensor *y, tn_tensor *x, tn_value dx, int64_t dim,
                            int32_t running)
{
    const char *name = running ? "cumulative_trapezoid" : "trapezoid";
    if (refuse_bool(s, y, name) || refuse_bool(s, x, name)) return NULL;
    if (dx.tag == TN_TAG_COMPLEX || dx.tag == TN_TAG_BOOL)
        return tni_scope_failf(s, TN_E_ARGUMENT, "%s: Currently, we only support dx as a real number.", name),
               NULL;
    if (rank_of(y) == 0) return tni_scope_failf(s, TN_E_SHAPE, "%s: y must have a dimension", name), NULL;
    dim = tni_dim(s, dim, rank_of(y));
    if (tn_scope_failed(s)) return NULL;
    if (tn_tensor_size(y, dim) == 0)
        return running ? tni_zeros_on(s, y, float_of(s, y->desc.dtype), sizes_of(y))
                       : tni_zeros_on(s, y, 0, tni_sizes_without(s, sizes_of(y), dim));
    if (!x && !running) return by_sum(s, y, dx, dim);
    tn_tensor *a = areas(s, y, x, dim, name);
    if (!x) return tn_cumsum(s, tn_mul_scalar(s, a, tn_value_as_float(dx) / 2), dim);
    a = running ? tn_cumsum(s, a, dim) : tn_sum_dim(s, a, TN_INTS(dim));
    return tn_div_scalar(s, a, 2.0);
}

void composite_trapezoid(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         integrate(s, arg_tensor(args, 0), arg_tensor(args, 1), tn_value_none(), arg_int(args, 2), 0));
}

void composite_trapezoid_dx(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, integrate(s, arg_tensor(args, 0), NULL, args[1], arg_int(args, 2), 0));
}

void composite_cumulative_trapezoid(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         integrate(s, arg_tensor(args, 0), arg_tensor(args, 1), tn_value_none(), arg_int(args, 2), 1));
}

void composite_cumulative_trapezoid_dx(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, integrate(s, arg_tensor(args, 0), NULL, args[1], arg_int(args, 2), 1));
}

/* ---- gradient: central differences inside, one-sided ones at the ends ---- */

/* The sample positions: one step for all dimensions, one for each, or the points themselves. */
typedef struct spacing {
    tn_value one;
    tn_scalars steps;
    tn_tensors points;
    int64_t count; /* of steps or points; -1: one */
} spacing;

static int32_t check_gradient(tn_scope *s, const tn_tensor *self, const spacing *x, tn_ints dims,
                              int64_t order)
{
    uint64_t mask;
    if (dtype_of(self) == TN_UINT8)
        return tn_scope_fail(s, TN_E_DTYPE, "torch.gradient does not support uint8 input.");
    if (x->count >= 0 && dims.data && x->count != dims.count)
        return tni_scope_failf(s, TN_E_ARGUMENT,
                               "torch.gradient expected spacing to be unspecified, a scalar or it's spacing "
                               "and dim arguments to have the same length, but got a spacing argument of "
                               "length %lld and a dim argument of length %lld.",
                               (long long)x->count, (long long)dims.count);
    if (x->count >= 0 && !dims.data && x->count != rank_of(self))
        return tni_scope_failf(s, TN_E_ARGUMENT,
                               "torch.gradient expected spacing to be unspecified, a scalar, or a list of "
                               "length equal to 'self.dim() = %lld', since dim argument was not given. But "
                               "got a spacing argument of length %lld.",
                               (long long)rank_of(self), (long long)x->count);
    if (order != 1 && order != 2)
        return tn_scope_fail(s, TN_E_ARGUMENT, "torch.gradient only supports edge_order=1 and edge_order=2.");
    mask = tni_dims(s, dims, rank_of(self));
    for (int64_t d = 0; d < rank_of(self) && !tn_scope_failed(s); d++) {
        if ((mask >> d & 1) && tn_tensor_size(self, d) < order + 1)
            return tn_scope_fail(s, TN_E_SHAPE,
                                 "torch.gradient expected each dimension size to be at least edge_order+1");
    }
    for (int64_t i = 0; i < x->points.count; i++) {
        if (rank_of(x->points.data[i]) != 1)
            return tni_scope_failf(s, TN_E_SHAPE,
                                   "torch.gradient expected each element of spacing to have one dimension, "
                                   "but got an element with %lld dimensions!",
                                   (long long)rank_of(x->points.data[i]));
    }
    return tn_scope_failed(s);
}

/* a * t0 + b * t1 + c * t2 with scalars. */
static tn_tensor *combine(tn_scope *s, tn_tensor *t, int64_t dim, int64_t at, const double w[3])
{
    tn_tensor *sum = tn_mul_scalar(s, part(s, t, dim, at, at + 1), w[0]);
    sum = tn_add(s, sum, tn_mul_scalar(s, part(s, t, dim, at + 1, at + 2), w[1]));
    return tn_add(s, sum, tn_mul_scalar(s, part(s, t, dim, at + 2, at + 3), w[2]));
}

static tn_tensor *even_gradient(tn_scope *s, tn_tensor *t, int64_t dim, tn_value step, int64_t order)
{
    static const double head_weights[] = {-1.5, 2, -0.5}, tail_weights[] = {0.5, -2, 1.5};
    int64_t n = tn_tensor_size(t, dim);
    tn_tensor *head, *tail, *inside = tn_sub(s, part(s, t, dim, 2, n), part(s, t, dim, 0, n - 2));
    if (order == 1) {
        head = tn_sub(s, part(s, t, dim, 1, 2), part(s, t, dim, 0, 1));
        tail = tn_sub(s, part(s, t, dim, n - 1, n), part(s, t, dim, n - 2, n - 1));
    } else {
        head = combine(s, t, dim, 0, head_weights);
        tail = combine(s, t, dim, n - 3, tail_weights);
    }
    inside = tn_div_scalar(s, tn_div_scalar(s, inside, 2), step);
    return tn_cat(s, TN_TENSORS(tn_div_scalar(s, head, step), inside, tn_div_scalar(s, tail, step)),
                  .dim = dim);
}

/* Weights of three neighbours with gaps a, b (vectors): the derivative at the first, the middle or the last. */
static tn_tensor *uneven(tn_scope *s, tn_tensor *t, int64_t dim, int64_t at, int64_t count, tn_tensor *a,
                         tn_tensor *b, int32_t where)
{
    int64_t shape[TN_MAX_RANK];
    tn_tensor *w[3], *sum = NULL, *both = tn_add(s, a, b), *product = tn_mul(s, a, b);
    tn_tensor *first = tn_mul(s, a, both), *last = tn_mul(s, b, both);
    if (where == 0) {
        w[0] = tn_neg(s, tn_div(s, tn_add(s, tn_mul_scalar(s, a, 2), b), first));
        w[1] = tn_div(s, both, product);
        w[2] = tn_neg(s, tn_div(s, a, last));
    } else if (where == 1) {
        w[0] = tn_neg(s, tn_div(s, b, first));
        w[1] = tn_div(s, tn_sub(s, b, a), product);
        w[2] = tn_div(s, a, last);
    } else {
        w[0] = tn_div(s, b, first);
        w[1] = tn_neg(s, tn_div(s, both, product));
        w[2] = tn_div(s, tn_add(s, tn_mul_scalar(s, b, 2), a), last);
    }
    for (int64_t d = 0; d < rank_of(t); d++) shape[d] = d == dim ? count : 1;
    for (int64_t i = 0; i < 3; i++) {
        tn_tensor *term = tn_mul(s, tni_reshape(s, w[i], (tn_ints){shape, rank_of(t)}),
                                 part(s, t, dim, at + i, at + i + count));
        sum = sum ? tn_add(s, sum, term) : term;
    }
    return sum;
}

static tn_tensor *uneven_gradient(tn_scope *s, tn_tensor *t, int64_t dim, tn_tensor *points, int64_t order)
{
    int64_t n = tn_tensor_size(t, dim);
    if (tn_tensor_size(points, 0) != n)
        return tn_scope_fail(s, TN_E_SHAPE, "torch.gradient expected one coordinate for each sample"), NULL;
    tn_tensor *gaps = tn_sub(s, part(s, points, 0, 1, n), part(s, points, 0, 0, n - 1)), *head, *tail;
    tn_tensor *inside =
        uneven(s, t, dim, 0, n - 2, part(s, gaps, 0, 0, n - 2), part(s, gaps, 0, 1, n - 1), 1);
    if (order == 1) {
        head = tn_div(s, tn_sub(s, part(s, t, dim, 1, 2), part(s, t, dim, 0, 1)), tn_select(s, gaps, 0, 0));
        tail = tn_div(s, tn_sub(s, part(s, t, dim, n - 1, n), part(s, t, dim, n - 2, n - 1)),
                      tn_select(s, gaps, 0, n - 2));
    } else {
        head = uneven(s, t, dim, 0, 1, part(s, gaps, 0, 0, 1), part(s, gaps, 0, 1, 2), 0);
        tail = uneven(s, t, dim, n - 3, 1, part(s, gaps, 0, n - 3, n - 2), part(s, gaps, 0, n - 2, n - 1), 2);
    }
    return tn_cat(s, TN_TENSORS(head, inside, tail), .dim = dim);
}

static void give_gradient(tn_scope *s, tn_tensor *self, spacing x, tn_ints dims, int64_t order,
                          tn_value *outs)
{
    int64_t all[TN_MAX_RANK], n = dims.data ? dims.count : rank_of(self);
    if (check_gradient(s, self, &x, dims, order)) return;
    tn_tensor **out = tni_scope_tensors(s, n);
    for (int64_t d = 0; d < n; d++) all[d] = dims.data ? dims.data[d] : d;
    for (int64_t i = 0; out && i < n; i++) {
        int64_t dim = tni_dim(s, all[i], rank_of(self));
        if (x.points.count)
            out[i] = uneven_gradient(s, self, dim, x.points.data[i], order);
        else
            out[i] = even_gradient(s, self, dim,
                                   x.steps.count ? x.steps.data[i]
                                   : x.one.tag   ? x.one
                                                 : tn_value_int(1),
                                   order);
    }
    give_list(outs, 0, (tn_tensors){out, n});
}

static spacing one_step(tn_value v)
{
    return (spacing){.one = v, .count = -1};
}

static spacing many_steps(const tn_value *args, uint32_t i)
{
    tn_scalars list = arg_scalars(args, i);
    return (spacing){.steps = list, .count = list.count};
}

static spacing at_points(const tn_value *args, uint32_t i)
{
    tn_tensors list = arg_tensors(args, i);
    return (spacing){.points = list, .count = list.count};
}

void composite_gradient(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_gradient(s, arg_tensor(args, 0), one_step(args[1]), arg_ints(args, 2), arg_int(args, 3), outs);
}

void composite_gradient_array(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_gradient(s, arg_tensor(args, 0), one_step(tn_value_none()), arg_ints(args, 1), arg_int(args, 2),
                  outs);
}

void composite_gradient_scalarrayint(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_gradient(s, arg_tensor(args, 0), many_steps(args, 1), arg_ints(args, 2), arg_int(args, 3), outs);
}

void composite_gradient_tensorarrayint(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_gradient(s, arg_tensor(args, 0), at_points(args, 1), arg_ints(args, 2), arg_int(args, 3), outs);
}
