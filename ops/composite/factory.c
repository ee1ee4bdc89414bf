/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: new tensors filled with a scalar, with steps, with a pattern. */
#include <math.h>
#include "core/scope.h"
#include "ops/composite/composite.h"

/* Options of `new_...` operators: dtype and device default to those of argument 0. */
static tni_options options_like_self(tn_scope *s, const tn_value *args, uint32_t at)
{
    tni_options o = tni_options_at(s, args, at);
    if (!o.dtype) o.dtype = dtype_of(arg_tensor(args, 0));
    if (!o.device) o.device = tn_tensor_device(arg_tensor(args, 0));
    return o;
}

static tn_tensor *filled(tn_scope *s, tn_tensor *t, tn_value number)
{
    return t ? tn_prim_fill(s, t, number) : NULL;
}

/* ---- one scalar ---- */

/* The dtype of full without a dtype; 0 and a failed scope for unknown kinds of scalars. */
static tn_dtype dtype_of_number(tn_scope *s, tn_value v)
{
    tn_dtype dtype = 0;
    tni_scope_record(s, tni_infer_dtype(s->ctx, v, &dtype));
    return dtype;
}

void composite_full(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tni_options o = tni_options_at(s, args, 2);
    if (!o.dtype) o.dtype = dtype_of_number(s, args[1]);
    give(outs, 0, filled(s, tni_empty_with(s, arg_ints(args, 0), o), args[1]));
}

static void give_filled(tn_scope *s, const tn_value *args, tn_value *outs, int64_t value)
{
    give(outs, 0,
         filled(s, tni_empty_with(s, arg_ints(args, 0), tni_options_at(s, args, 1)), tn_value_int(value)));
}

FORWARD(composite_zeros, give_filled, 0)
FORWARD(composite_ones, give_filled, 1)

void composite_scalar_tensor(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, filled(s, tni_empty_with(s, TN_NO_INTS, tni_options_at(s, args, 1)), args[0]));
}

void composite_full_like(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, filled(s, tni_empty_like_with(s, args, 2), args[1]));
}

void composite_zeros_like(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, filled(s, tni_empty_like_with(s, args, 1), tn_value_int(0)));
}

void composite_ones_like(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, filled(s, tni_empty_like_with(s, args, 1), tn_value_int(1)));
}

void composite_new_empty(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tni_empty_with(s, arg_ints(args, 1), options_like_self(s, args, 2)));
}

void composite_new_empty_strided(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tni_options o = options_like_self(s, args, 3);
    give(outs, 0,
         tn_empty_strided(s, arg_ints(args, 1), arg_ints(args, 2), .dtype = o.dtype, .device = o.device,
                          .pin_memory = o.pin));
}

void composite_new_full(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, filled(s, tni_empty_with(s, arg_ints(args, 1), options_like_self(s, args, 3)), args[2]));
}

static void give_new_filled(tn_scope *s, const tn_value *args, tn_value *outs, int64_t value)
{
    give(outs, 0,
         filled(s, tni_empty_with(s, arg_ints(args, 1), options_like_self(s, args, 2)), tn_value_int(value)));
}

FORWARD(composite_new_ones, give_new_filled, 1)
FORWARD(composite_new_zeros, give_new_filled, 0)

/* ---- steps ---- */

static int32_t check_fits(tn_scope *s, tn_value number, tn_dtype dtype)
{
    const char *name = tni_overflowing(number, dtype);
    return name ? tni_scope_failf(s, TN_E_DTYPE, TNI_OVERFLOW, name) : TN_OK;
}

static int32_t check_range(tn_scope *s, tn_value from, tn_value to, tn_value by)
{
    const double start = tn_value_as_float(from), end = tn_value_as_float(to), step = tn_value_as_float(by);
    const tn_value all[] = {from, to, by};
    for (uint32_t i = 0; i < 3; i++) {
        int32_t status = check_fits(s, all[i], TN_FLOAT64);
        if (status) return status;
    }
    if (step == 0) return tn_scope_fail(s, TN_E_ARGUMENT, "step must be nonzero");
    if (!isfinite(start) || !isfinite(end))
        return tni_scope_failf(s, TN_E_ARGUMENT, "unsupported range: %g -> %g", start, end);
    if ((step > 0) != (end >= start) && end != start)
        return tn_scope_fail(s, TN_E_ARGUMENT, "upper bound and lower bound inconsistent with step sign");
    return TN_OK;
}

/* A scalar for the dtype: integer dtypes drop the fraction. */
static tn_value number_in(tn_value v, tn_dtype dtype)
{
    return is_integer(dtype) && v.tag == TN_TAG_FLOAT ? tn_value_int((int64_t)v.as.f) : v;
}

static int64_t count_steps(tn_value start, tn_value end, tn_value step, tn_dtype dtype)
{
    if (is_integer(dtype) && start.tag != TN_TAG_FLOAT && end.tag != TN_TAG_FLOAT &&
        step.tag != TN_TAG_FLOAT) {
        int64_t by = step.as.i;
        uint64_t distance =
            by > 0 ? (uint64_t)end.as.i - (uint64_t)start.as.i : (uint64_t)start.as.i - (uint64_t)end.as.i;
        uint64_t width = by > 0 ? (uint64_t)by : (uint64_t)0 - (uint64_t)by;
        return (int64_t)(distance / width + (distance % width != 0));
    }
    return (int64_t)ceil((tn_value_as_float(end) - tn_value_as_float(start)) / tn_value_as_float(step));
}

/* int64 truncates the scalars before counting; other integer dtypes count with the scalars as given. */
static void arange(tn_scope *s, tn_value start, tn_value end, tn_value step, tni_options o, tn_value *outs)
{
    int32_t fractions = start.tag == TN_TAG_FLOAT || end.tag == TN_TAG_FLOAT || step.tag == TN_TAG_FLOAT;
    if (!o.dtype) o.dtype = fractions ? tni_default_dtype(s->ctx) : TN_INT64;
    if (check_range(s, start, end, step)) return;
    int64_t count = count_steps(start, end, step, o.dtype);
    start = number_in(start, o.dtype);
    step = number_in(step, o.dtype);
    if (o.dtype == TN_INT64 && step.as.i == 0)
        return (void)tn_scope_fail(s, TN_E_ARGUMENT, "step must be nonzero");
    if (o.dtype == TN_INT64) count = count_steps(start, number_in(end, o.dtype), step, o.dtype);
    tn_tensor *t = tni_empty_with(s, TN_INTS(count), o);
    give(outs, 0, t ? tn_prim_iota(s, t, start, step) : NULL);
}

/* (end), (start, end) or (start, end, step) */
void composite_arange(tn_scope *s, const tn_value *args, tn_value *outs)
{
    uint32_t n = arg_numbers(args, 0);
    arange(s, n > 1 ? args[0] : tn_value_int(0), args[n > 1], n > 2 ? args[2] : tn_value_int(1),
           tni_options_at(s, args, n), outs);
}

/* range includes the end. */
static void range(tn_scope *s, tn_value start, tn_value end, tn_value step, tni_options o, tn_value *outs)
{
    if (!o.dtype) o.dtype = tni_default_dtype(s->ctx);
    if (check_range(s, start, end, step)) return;
    start = number_in(start, o.dtype);
    end = number_in(end, o.dtype);
    step = number_in(step, o.dtype);
    double count = floor((tn_value_as_float(end) - tn_value_as_float(start)) / tn_value_as_float(step)) + 1;
    tn_tensor *t = tni_empty_with(s, TN_INTS((int64_t)count), o);
    give(outs, 0, t ? tn_prim_iota(s, t, start, step) : NULL);
}

void composite_range(tn_scope *s, const tn_value *args, tn_value *outs)
{
    uint32_t n = arg_numbers(args, 0);
    range(s, args[0], args[1], n > 2 ? args[2] : tn_value_int(1), tni_options_at(s, args, n), outs);
}

/* ---- evenly spaced numbers ---- */

static double imaginary(tn_value v)
{
    return v.tag == TN_TAG_COMPLEX ? v.as.floats[1] : 0;
}

/* x rounded to 16-bit dtypes: ATen steps in the dtype of the result, which matters for these. */
static double rounded(double x, tn_dtype dtype)
{
    if (dtype == TN_FLOAT16) return tni_half_to_float(tni_double_to_half(x));
    return dtype == TN_BFLOAT16 ? tni_bfloat_to_float(tni_float_to_bfloat((float)x)) : x;
}

/*
 * The numbers in float64 or complex128, counted from the nearer end, so that both ends are exact and the
 * sequence is symmetric.
 */
static tn_tensor *spaced(tn_scope *s, tn_value start, tn_value end, int64_t steps, tn_dtype dtype,
                         tn_device device)
{
    int32_t complex = is_complex(dtype);
    tn_dtype wide = complex ? TN_COMPLEX128 : TN_FLOAT64;
    int64_t half = steps / 2, gaps = steps > 1 ? steps - 1 : 1;
    double a[2] = {rounded(tn_value_as_float(start), dtype), imaginary(start)},
           b[2] = {rounded(tn_value_as_float(end), dtype), imaginary(end)};
    double d[2] = {rounded((b[0] - a[0]) / (double)gaps, dtype), (b[1] - a[1]) / (double)gaps};
    tn_value step = complex ? tn_value_complex(d) : tn_value_float(d[0]),
             last = complex ? tn_value_complex(b) : tn_value_float(b[0]);
    tn_value first = complex ? tn_value_complex(a) : tn_value_float(a[0]);
    if (steps == 1) return tn_full(s, TN_INTS(1), first, .dtype = wide, .device = device);
    tn_tensor *head = tn_empty(s, TN_INTS(half), .dtype = wide, .device = device);
    tn_tensor *tail = tn_empty(s, TN_INTS(steps - half), .dtype = wide, .device = device);
    if (!head || !tail) return NULL;
    tn_prim_iota(s, head, first, step);
    tn_prim_iota(s, tail, steps - 1 - half, -1);
    tail = tn_rsub_scalar(s, tn_mul_scalar(s, tail, step), last);
    return tn_cat(s, TN_TENSORS(head, tail));
}

typedef struct spacing {
    tn_value start, end;
    int64_t steps;
    tni_options o;
} spacing;

static int32_t prepare_spacing(tn_scope *s, spacing *p, const char *name)
{
    if (p->steps < 0) return tn_scope_fail(s, TN_E_ARGUMENT, "number of steps must be non-negative");
    int32_t complex = p->start.tag == TN_TAG_COMPLEX || p->end.tag == TN_TAG_COMPLEX;
    if (complex && p->o.dtype && !is_complex(p->o.dtype))
        return tni_scope_failf(
            s, TN_E_DTYPE,
            "torch.%s(): inferred dtype c10::complex<%s> can't be safely cast to passed dtype %s", name,
            tni_default_dtype(s->ctx) == TN_FLOAT64 ? "double" : "float", tni_dtype_error_name(p->o.dtype));
    if (!p->o.dtype)
        p->o.dtype = complex ? tni_dtype_to_complex(tni_default_dtype(s->ctx)) : tni_default_dtype(s->ctx);
    if (p->steps > 1 && (check_fits(s, p->start, p->o.dtype) || check_fits(s, p->end, p->o.dtype)))
        return tn_scope_failed(s);
    p->start = number_in(p->start, p->o.dtype);
    p->end = number_in(p->end, p->o.dtype);
    return TN_OK;
}

static void linspace(tn_scope *s, spacing p, tn_value *outs)
{
    if (tn_scope_failed(s) || prepare_spacing(s, &p, "linspace")) return;
    /* One step fills with the start, which half types take as infinite where it is too large. */
    if (p.steps == 1 && is_integer(p.o.dtype) && check_fits(s, p.start, p.o.dtype)) return;
    if (p.steps == 0) return give(outs, 0, tni_empty_with(s, TN_INTS(0), p.o));
    tn_tensor *t = tni_cast(s, spaced(s, p.start, p.end, p.steps, p.o.dtype, p.o.device), p.o.dtype);
    give(outs, 0, tni_pinned_with(s, t, p.o));
}

static void logspace(tn_scope *s, spacing p, double base, tn_value *outs)
{
    const tn_value start = p.start; /* not yet in the dtype */
    tn_tensor *t;
    if (tn_scope_failed(s) || prepare_spacing(s, &p, "logspace")) return;
    if (p.steps == 0) return give(outs, 0, tni_empty_with(s, TN_INTS(0), p.o));
    if (p.steps == 1 &&
        is_integer(p.o.dtype)) /* as ATen, which rounds the start to an integer for more steps only */
        t = tn_full(s, TN_INTS(1), TN_SCALAR(pow(base, tn_value_as_float(start))), .dtype = p.o.dtype,
                    .device = p.o.device);
    else
        t = tn_pow_scalar(s, base, spaced(s, p.start, p.end, p.steps, p.o.dtype, p.o.device));
    give(outs, 0, tni_pinned_with(s, tni_cast(s, t, p.o.dtype), p.o));
}

/* The value of a 0-dim tensor; a complex one is stored in `pair`. */
static tn_value number_of(tn_scope *s, const tn_tensor *t, double pair[2])
{
    if (is_complex(dtype_of(t))) {
        tn_item_complex(s, t, pair);
        return tn_value_complex(pair);
    }
    return is_integer(dtype_of(t)) ? tn_value_int(tn_item_int(s, t)) : tn_value_float(tn_item_double(s, t));
}

/* Start and end as scalars; either may be a tensor. */
static spacing read_spacing(tn_scope *s, const tn_value *args, uint32_t at, const char *name,
                            double pairs[2][2])
{
    const tn_tensor *start = arg_tensor(args, 0), *end = arg_tensor(args, 1);
    spacing p = {args[0], args[1], arg_int(args, 2), tni_options_at(s, args, at)};
    if (start && end && (rank_of(start) || rank_of(end)))
        tni_scope_failf(s, TN_E_SHAPE,
                        "%s only supports 0-dimensional start and end tensors, but got start with %lld "
                        "dimension(s) and end with %lld dimension(s).",
                        name, (long long)rank_of(start), (long long)rank_of(end));
    else if ((start && rank_of(start)) || (end && rank_of(end)))
        tni_scope_failf(
            s, TN_E_SHAPE,
            "%s only supports 0-dimensional start and end tensors, but got %s with %lld dimension(s).", name,
            start ? "start" : "end", (long long)rank_of(start ? start : end));
    if (tn_scope_failed(s)) return p;
    if (start) p.start = number_of(s, start, pairs[0]);
    if (end) p.end = number_of(s, end, pairs[1]);
    if (!p.o.device && (start || end)) p.o.device = tn_tensor_device(start ? start : end);
    return p;
}

static void linspace_of(tn_scope *s, const tn_value *args, tn_value *outs)
{
    double pairs[2][2];
    linspace(s, read_spacing(s, args, 3, "linspace", pairs), outs);
}

static void logspace_of(tn_scope *s, const tn_value *args, tn_value *outs)
{
    double pairs[2][2];
    logspace(s, read_spacing(s, args, 4, "logspace", pairs), arg_float(args, 3), outs);
}

void composite_linspace(tn_scope *s, const tn_value *args, tn_value *outs)
{
    linspace_of(s, args, outs);
}

void composite_logspace(tn_scope *s, const tn_value *args, tn_value *outs)
{
    logspace_of(s, args, outs);
}

/* ---- patterns ---- */

static void eye(tn_scope *s, int64_t n, int64_t m, tni_options o, tn_value *outs)
{
    if (n < 0)
        return (void)tni_scope_failf(s, TN_E_ARGUMENT, "n must be greater or equal to 0, got %lld",
                                     (long long)n);
    if (m < 0)
        return (void)tni_scope_failf(s, TN_E_ARGUMENT, "m must be greater or equal to 0, got %lld",
                                     (long long)m);
    tn_tensor *t = filled(s, tni_empty_with(s, TN_INTS(n, m), o), tn_value_int(0));
    if (t) tn_prim_fill(s, tn_diagonal(s, t), 1);
    give(outs, 0, t);
}

void composite_eye(tn_scope *s, const tn_value *args, tn_value *outs)
{
    uint32_t n = arg_numbers(args, 0);
    eye(s, arg_int(args, 0), arg_int(args, n - 1), tni_options_at(s, args, n), outs);
}

/* A triangle of a matrix: row r has its elements below column r + offset + 1, or from column r + offset on. */
typedef struct triangle {
    int64_t rows, columns, offset;
    int32_t is_lower;
} triangle;

static int64_t limited(__int128 x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : (int64_t)x;
}

/* How many elements of row r lie below the diagonal `offset`. */
static int64_t row_below(const triangle *t, int64_t r)
{
    return limited((__int128)r + t->offset + t->is_lower, 0, t->columns);
}

/* The sum of row_below over all rows: rows from `first` on have elements, rows from `full` on have all columns. */
static __int128 count_below(const triangle *t)
{
    __int128 shift = (__int128)t->offset + t->is_lower;
    int64_t first = limited(1 - shift, 0, t->rows), full = limited(t->columns - shift, first, t->rows);
    __int128 slope = (full - first) * (first + 2 * shift + full - 1) / 2;
    return slope + (__int128)(t->rows - full) * t->columns;
}

/* Writes the rows and columns of the `count` elements, row by row; passes over rows without elements at once. */
static void write_triangle(const triangle *t, int64_t count, int64_t *out)
{
    int64_t r = t->is_lower ? limited(-(__int128)t->offset, 0, t->rows) : 0;
    for (int64_t n = 0; n < count; r++) {
        int64_t below = row_below(t, r), end = t->is_lower ? below : t->columns;
        for (int64_t c = t->is_lower ? 0 : below; c < end; c++, n++) {
            out[n] = r;
            out[count + n] = c;
        }
    }
}

/* Rows and columns of the elements of a triangle, row by row. */
static void triangle_indices(tn_scope *s, const tn_value *args, int32_t lower, tn_value *outs)
{
    triangle shape = {arg_int(args, 0), arg_int(args, 1), arg_int(args, 2), lower};
    tni_options o = tni_options_at(s, args, 3);
    if (shape.rows < 0)
        return (void)tni_scope_failf(s, TN_E_ARGUMENT, "row must be non-negative, got %lld",
                                     (long long)shape.rows);
    if (shape.columns < 0)
        return (void)tni_scope_failf(s, TN_E_ARGUMENT, "col must be non-negative, got %lld",
                                     (long long)shape.columns);
    __int128 count = count_below(&shape);
    if (!lower) count = (__int128)shape.rows * shape.columns - count;
    if (count > INT64_MAX / 16)
        return (void)tni_scope_failf(s, TN_E_SHAPE, "a triangle of %lld x %lld has too many elements",
                                     (long long)shape.rows, (long long)shape.columns);
    int64_t *out = tni_scope_ints(s, 2 * (int64_t)count);
    if (!out) return;
    write_triangle(&shape, (int64_t)count, out);
    tn_tensor *t = tn_from_data(s, TN_INT64, TN_INTS(2, (int64_t)count), out, o.device);
    give(outs, 0, tni_pinned_with(s, tni_cast(s, t, o.dtype ? o.dtype : TN_INT64), o));
}

void composite_tril_indices(tn_scope *s, const tn_value *args, tn_value *outs)
{
    triangle_indices(s, args, 1, outs);
}

void composite_triu_indices(tn_scope *s, const tn_value *args, tn_value *outs)
{
    triangle_indices(s, args, 0, outs);
}

void composite_dim_arange(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *like = arg_tensor(args, 0);
    int64_t dim = tni_dim(s, arg_int(args, 1), rank_of(like));
    give(outs, 0, tni_range_on(s, like, 0, tn_tensor_size(like, dim)));
}
