/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: random numbers. Every distribution is a fill by prim::random with counters from a generator, so
 * the same seed gives the same numbers on every device. Distributions that prim::random does not have are
 * computed from those that it has.
 */
#include <math.h>
#include <stdbool.h>
#include <tenon/random.h>
#include "core/shape.h"
#include "ops/composite/composite.h"

/* ---- fills in place ---- */

static int32_t check_floating(tn_scope *s, const tn_tensor *self, const char *what)
{
    if (is_float(dtype_of(self))) return TN_OK;
    return tni_scope_failf(s, TN_E_DTYPE,
                           "%s distribution is a continuous probability distribution. dtype must be a "
                           "floating point but you specified %s",
                           what, tn_dtype_name(dtype_of(self)));
}

/* A complex tensor is filled as pairs of real numbers. */
static tn_tensor *as_real(tn_scope *s, tn_tensor *t)
{
    return t && is_complex(dtype_of(t)) ? tn_view_as_real(s, t) : t;
}

/* ATen's check by the kernel of that name. */
static int32_t check_not_integer(tn_scope *s, const tn_tensor *self, const char *kernel)
{
    if (!is_integer(dtype_of(self))) return TN_OK;
    return tni_scope_failf(s, TN_E_DTYPE, "\"%s\" not implemented for '%s'", kernel,
                           tn_dtype_name(dtype_of(self)));
}

static tn_tensor *fill_uniform(tn_scope *s, tn_tensor *self, double from, double to, tn_generator *g)
{
    if (!self || check_not_integer(s, self, "check_uniform_bounds")) return NULL;
    if (!(from <= to))
        return tni_scope_failf(s, TN_E_ARGUMENT,
                               "uniform_ expects to return a [from, to) range, but found from=%g > to=%g",
                               from, to),
               NULL;
    tni_fill_random(s, as_real(s, self), TN_RANDOM_UNIFORM, tn_value_float(from), tn_value_float(to), g);
    return self;
}

/* Complex numbers: each part has half of the variance. */
static tn_tensor *fill_normal(tn_scope *s, tn_tensor *self, double mean, double std, tn_generator *g)
{
    if (!self || check_not_integer(s, self, "normal_kernel_cpu")) return NULL;
    if (!(std >= 0))
        return tni_scope_failf(s, TN_E_ARGUMENT, "normal expects std >= 0.0, but found std %g", std), NULL;
    if (!is_complex(dtype_of(self)))
        return tni_fill_random(s, self, TN_RANDOM_NORMAL, tn_value_float(mean), tn_value_float(std), g), self;
    tni_fill_random(s, tn_view_as_real(s, self), TN_RANDOM_NORMAL, tn_value_float(0),
                    tn_value_float(std / sqrt(2.0)), g);
    if (mean != 0) tn_add_scalar_(s, self, mean);
    return self;
}

void composite_uniform(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(
        outs, 0,
        fill_uniform(s, arg_tensor(args, 0), arg_float(args, 1), arg_float(args, 2), arg_generator(args, 3)));
}

void composite_normal_fill(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         fill_normal(s, arg_tensor(args, 0), arg_float(args, 1), arg_float(args, 2), arg_generator(args, 3)));
}

/*
 * The largest value of an integer dtype; for a floating dtype the largest integer up to which all integers
 * are exact.
 */
static int64_t largest_integer(tn_dtype dtype)
{
    if (dtype == TN_BOOL) return 1;
    if (dtype == TN_FLOAT64) return INT64_C(1) << 53;
    if (dtype == TN_FLOAT32) return INT64_C(1) << 24;
    if (dtype == TN_FLOAT16) return INT64_C(1) << 11;
    if (dtype == TN_BFLOAT16) return INT64_C(1) << 8;
    uint32_t bits = TN_DTYPE_BITS(dtype) - (uint32_t)tni_dtype_is_signed(dtype);
    return bits >= 63 ? INT64_MAX : (INT64_C(1) << bits) - 1;
}

/* Integers from `from` on, `count` of them as uint64; 0: all of int64. */
static tn_tensor *fill_integers(tn_scope *s, tn_tensor *self, int64_t from, uint64_t count, tn_generator *g)
{
    return tni_fill_random(s, self, TN_RANDOM_BITS, tn_value_int(from), tn_value_int((int64_t)count), g)
               ? self
               : NULL;
}

static tn_tensor *fill_range(tn_scope *s, tn_tensor *self, int64_t from, int64_t to, tn_generator *g)
{
    if (!self) return NULL;
    if (is_complex(dtype_of(self)))
        return tn_scope_fail(s, TN_E_DTYPE, "\"check_random_bounds\" not implemented for complex types"),
               NULL;
    if (from >= to)
        return tni_scope_failf(s, TN_E_ARGUMENT,
                               "random_ expects 'from' to be less than 'to', but got from=%lld >= to=%lld",
                               (long long)from, (long long)to),
               NULL;
    int64_t most = largest_integer(dtype_of(self)),
            least = is_integer(dtype_of(self)) && !tni_dtype_is_signed(dtype_of(self)) ? 0 : -most - 1;
    if (is_integer(dtype_of(self)) && (from < least || from > most))
        return tni_scope_failf(s, TN_E_ARGUMENT, "from is out of bounds for %s",
                               tn_dtype_name(dtype_of(self))),
               NULL;
    if (is_integer(dtype_of(self)) && to - 1 > most)
        return tni_scope_failf(s, TN_E_ARGUMENT, "to - 1 is out of bounds for %s",
                               tn_dtype_name(dtype_of(self))),
               NULL;
    return fill_integers(s, self, from, (uint64_t)to - (uint64_t)from, g);
}

void composite_random(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    give(outs, 0,
         fill_integers(s, self, 0, (uint64_t)largest_integer(dtype_of(self)) + 1, arg_generator(args, 1)));
}

void composite_random_from(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    int64_t from = arg_int(args, 1);
    if (arg_given(args, 2))
        return give(outs, 0, fill_range(s, self, from, arg_int(args, 2), arg_generator(args, 3)));
    int64_t most = largest_integer(dtype_of(self));
    if (from > most)
        return (void)tni_scope_failf(s, TN_E_ARGUMENT, "from is out of bounds for %s",
                                     tn_dtype_name(dtype_of(self)));
    give(outs, 0, fill_integers(s, self, from, (uint64_t)most - (uint64_t)from + 1, arg_generator(args, 3)));
}

void composite_random_to(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, fill_range(s, arg_tensor(args, 0), 0, arg_int(args, 1), arg_generator(args, 2)));
}

static tn_tensor *fill_bernoulli(tn_scope *s, tn_tensor *self, double p, tn_generator *g)
{
    if (!(p >= 0 && p <= 1))
        return tni_scope_failf(s, TN_E_ARGUMENT, "bernoulli_ expects p to be in [0, 1], but got p=%g", p),
               NULL;
    return tni_fill_random(s, self, TN_RANDOM_BERNOULLI, tn_value_float(p), tn_value_float(0), g) ? self
                                                                                                  : NULL;
}

void composite_bernoulli_float(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, fill_bernoulli(s, arg_tensor(args, 0), arg_float(args, 1), arg_generator(args, 2)));
}

/*
 * Probabilities on the CPU are read, as ATen does. On other devices they are not: that would wait for the device at each
 * call, and could not be captured. There 2 gives 1, and -1 and NaN give 0.
 */
static int32_t check_probabilities(tn_scope *s, tn_tensor *p)
{
    if (!p || TN_DEVICE_TYPE(tn_tensor_device(p)) != TN_INTERNED_CPU || !tn_tensor_numel(p))
        return tn_scope_failed(s);
    tn_aminmax_result range = tn_aminmax(s, p);
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    double least = tn_item_double(s, range.min), most = tn_item_double(s, range.max);
    if (tn_scope_failed(s) || (least >= 0 && most <= 1)) return tn_scope_failed(s);
    return tni_scope_failf(s, TN_E_ARGUMENT, "expects probabilities in [0, 1], but got %g",
                           least >= 0 ? most : least);
}

/* 1 where a uniform random number is below the probability. */
static tn_tensor *fill_bernoulli_of(tn_scope *s, tn_tensor *self, tn_tensor *p, tn_generator *g)
{
    tn_dtype dtype = dtype_of(p) == TN_FLOAT64 ? TN_FLOAT64 : TN_FLOAT32;
    if (is_complex(dtype_of(p)))
        return tn_scope_fail(s, TN_E_DTYPE, "bernoulli_: the probabilities must be real"), NULL;
    p = tni_cast(s, p, dtype);
    if (check_probabilities(s, p)) return NULL;
    tn_tensor *u = tni_empty_on(s, self, dtype, sizes_of(self));
    tni_fill_random(s, u, TN_RANDOM_UNIFORM, tn_value_float(0), tn_value_float(1), g);
    return tn_copy_(s, self, tn_lt(s, u, p));
}

void composite_bernoulli_tensor(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, fill_bernoulli_of(s, arg_tensor(args, 0), arg_tensor(args, 1), arg_generator(args, 2)));
}

void composite_bernoulli(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *out = tni_empty_on(s, self, 0, sizes_of(self));
    if (out) give(outs, 0, fill_bernoulli_of(s, out, self, arg_generator(args, 1)));
}

void composite_bernoulli_p(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         fill_bernoulli(s, tn_empty_like(s, arg_tensor(args, 0), .memory_format = TN_CONTIGUOUS_FORMAT),
                        arg_float(args, 1), arg_generator(args, 2)));
}

static int32_t check_positive(tn_scope *s, const char *op, const char *name, double value)
{
    if (value > 0) return TN_OK;
    return tni_scope_failf(s, TN_E_ARGUMENT, "%s expects %s > 0.0, but found %s=%g", op, name, name, value);
}

void composite_exponential(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0);
    double rate = arg_float(args, 1);
    if (check_floating(s, self, "Exponential") || check_positive(s, "exponential_", "lambda", rate)) return;
    tni_fill_random(s, self, TN_RANDOM_EXPONENTIAL, tn_value_float(rate), tn_value_float(0),
                    arg_generator(args, 2));
    give(outs, 0, self);
}

void composite_geometric(tn_scope *s, const tn_value *args, tn_value *outs)
{
    double p = arg_float(args, 1);
    if (!(p > 0 && p < 1))
        return (void)tni_scope_failf(s, TN_E_ARGUMENT, "geometric_ expects p to be in (0, 1), but got p=%g",
                                     p);
    tni_fill_random(s, arg_tensor(args, 0), TN_RANDOM_GEOMETRIC, tn_value_float(p), tn_value_float(0),
                    arg_generator(args, 2));
    give(outs, 0, arg_tensor(args, 0));
}

/* (self, place, scale, generator); the names are those of the scale, of the distribution and of the operator. */
static void give_scaled(tn_scope *s, const tn_value *args, tn_value *outs, int64_t kind, const char *scale,
                        const char *distribution, const char *op)
{
    tn_tensor *self = arg_tensor(args, 0);
    if (check_floating(s, self, distribution) || check_positive(s, op, scale, arg_float(args, 2))) return;
    tni_fill_random(s, self, kind, args[1], args[2], arg_generator(args, 3));
    give(outs, 0, self);
}

FORWARD(composite_cauchy, give_scaled, TN_RANDOM_CAUCHY, "sigma", "Cauchy", "cauchy_")
FORWARD(composite_log_normal, give_scaled, TN_RANDOM_LOG_NORMAL, "std", "Log-normal", "log_normal_")

/* ---- normal distributions with tensors of means and deviations ---- */

static int32_t check_deviations(tn_scope *s, const tn_tensor *std)
{
    if (is_complex(dtype_of(std)))
        return tn_scope_fail(s, TN_E_DTYPE, "normal expects standard deviation to be non-complex");
    if (tn_tensor_numel(std) == 0) return TN_OK;
    tn_tensor *least = tn_min(s, (tn_tensor *)(uintptr_t)std);
    if (least && !(tn_item_double(s, least) >= 0))
        return tn_scope_fail(s, TN_E_ARGUMENT, "normal expects all elements of std >= 0.0");
    return tn_scope_failed(s);
}

void composite_normal(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *mean = arg_tensor(args, 0), *std = arg_tensor(args, 1);
    tni_shape shape = {.rank = 0};
    if (check_deviations(s, std)) return;
    int32_t status = tni_broadcast(&shape, mean->desc.rank, mean->desc.sizes);
    if (!status) status = tni_broadcast(&shape, std->desc.rank, std->desc.sizes);
    if (status) return (void)tni_scope_record(s, status);
    tn_tensor *out = fill_normal(s, tni_empty_on(s, mean, 0, (tn_ints){shape.sizes, shape.rank}), 0, 1,
                                 arg_generator(args, 2));
    give(outs, 0, tn_add_(s, tn_mul_(s, out, std), mean));
}

void composite_normal_tensor_float(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *mean = arg_tensor(args, 0);
    tn_tensor *out = fill_normal(s, tni_empty_on(s, mean, 0, sizes_of(mean)), 0, arg_float(args, 1),
                                 arg_generator(args, 2));
    give(outs, 0, tn_add_(s, out, mean));
}

void composite_normal_float_tensor(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *std = arg_tensor(args, 1);
    if (check_deviations(s, std)) return;
    tn_tensor *out = fill_normal(s, tni_empty_on(s, std, 0, sizes_of(std)), 0, 1, arg_generator(args, 2));
    give(outs, 0, tn_add_scalar_(s, tn_mul_(s, out, std), arg_float(args, 0)));
}

/* ---- new tensors ---- */

/* With the options from argument `at` on; `absent` is the dtype where none is given. */
static tn_tensor *empty(tn_scope *s, const tn_value *args, tn_ints size, uint32_t at, tn_dtype absent)
{
    tni_options o = tni_options_at(s, args, at);
    if (!o.dtype) o.dtype = absent;
    return tni_empty_with(s, size, o);
}

void composite_normal_float_float(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0,
         fill_normal(s, empty(s, args, arg_ints(args, 2), 4, 0), arg_float(args, 0), arg_float(args, 1),
                     arg_generator(args, 3)));
}

typedef tn_tensor *fill_fn(tn_scope *s, tn_tensor *t, double a, double b, tn_generator *generator);

/* (size, [generator,] dtype, layout, device, pin_memory), or (self, ..., memory_format): of the same size as self */
static void give_random(tn_scope *s, const tn_value *args, tn_value *outs, fill_fn *fill, bool is_like,
                        bool has_generator)
{
    uint32_t options = 1 + has_generator;
    tn_tensor *t =
        is_like ? tni_empty_like_with(s, args, options) : empty(s, args, arg_ints(args, 0), options, 0);
    give(outs, 0, fill(s, t, 0, 1, has_generator ? arg_generator(args, 1) : NULL));
}

FORWARD(composite_rand, give_random, fill_uniform, false, false)
FORWARD(composite_rand_generator, give_random, fill_uniform, false, true)
FORWARD(composite_rand_like, give_random, fill_uniform, true, false)
FORWARD(composite_rand_like_generator, give_random, fill_uniform, true, true)
FORWARD(composite_randn, give_random, fill_normal, false, false)
FORWARD(composite_randn_generator, give_random, fill_normal, false, true)
FORWARD(composite_randn_like, give_random, fill_normal, true, false)
FORWARD(composite_randn_like_generator, give_random, fill_normal, true, true)

/* ([low,] high, size, [generator,] dtype, layout, device, pin_memory), or (self, [low,] high, [generator,] dtype, layout,
 * device, pin_memory, memory_format): of the same size as self */
static void give_range(tn_scope *s, const tn_value *args, tn_value *outs, bool is_like, bool has_low,
                       bool has_generator)
{
    uint32_t options = 2 + has_low + has_generator;
    tn_generator *generator = has_generator ? arg_generator(args, 2 + has_low) : NULL;
    tn_tensor *t = is_like ? tni_empty_like_with(s, args, options)
                           : empty(s, args, arg_ints(args, 1 + has_low), options, TN_INT64);
    give(outs, 0,
         fill_range(s, t, has_low ? arg_int(args, is_like) : 0, arg_int(args, is_like + has_low), generator));
}

FORWARD(composite_randint, give_range, false, false, false)
FORWARD(composite_randint_generator, give_range, false, false, true)
FORWARD(composite_randint_low, give_range, false, true, false)
FORWARD(composite_randint_low_generator, give_range, false, true, true)
FORWARD(composite_randint_like, give_range, true, false, false)
FORWARD(composite_randint_like_generator, give_range, true, false, true)
FORWARD(composite_randint_like_low_dtype, give_range, true, true, false)
FORWARD(composite_randint_like_low_generator_dtype, give_range, true, true, true)

static int64_t high_of(tn_scope *s, const tn_tensor *high)
{
    if (tn_tensor_numel(high) != 1) return tn_scope_fail(s, TN_E_SHAPE, "high must be a scalar tensor"), 0;
    return tn_item_int(s, high);
}

void composite_randint_like_tensor(tn_scope *s, const tn_value *args, tn_value *outs)
{
    int64_t high = high_of(s, arg_tensor(args, 1));
    if (!tn_scope_failed(s)) give(outs, 0, fill_range(s, tni_empty_like_with(s, args, 2), 0, high, NULL));
}

void composite_randint_like_tensor_generator(tn_scope *s, const tn_value *args, tn_value *outs)
{
    int64_t high = high_of(s, arg_tensor(args, 1));
    if (!tn_scope_failed(s))
        give(outs, 0, fill_range(s, tni_empty_like_with(s, args, 3), 0, high, arg_generator(args, 2)));
}

/* ---- samples ---- */

/* The sort order of random keys. The sort is stable, so the permutation is the same on all devices. */
static tn_tensor *permutation(tn_scope *s, const tn_value *args, uint32_t at, tn_generator *g)
{
    int64_t n = arg_int(args, 0);
    tni_options o = tni_options_at(s, args, at);
    if (n < 0)
        return tni_scope_failf(s, TN_E_ARGUMENT, "n must be non-negative, got %lld", (long long)n), NULL;
    tn_tensor *keys = tn_empty(s, TN_INTS(n), .dtype = TN_INT64, .device = o.device);
    fill_integers(s, keys, 0, 0, g);
    tn_tensor *order = tni_cast(s, tn_sort_stable(s, keys, 1).indices, o.dtype ? o.dtype : TN_INT64);
    return tni_pinned_with(s, order, o);
}

void composite_randperm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, permutation(s, args, 1, NULL));
}

void composite_randperm_generator(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, permutation(s, args, 2, arg_generator(args, 1)));
}

static int32_t check_weights(tn_scope *s, tn_tensor *weights)
{
    tn_tensor *legal = tn_all(s, tn_logical_and(s, tn_isfinite(s, weights), tn_ge_scalar(s, weights, 0)));
    if (legal && !tn_item_bool(s, legal))
        return tn_scope_fail(s, TN_E_ARGUMENT,
                             "probability tensor contains either `inf`, `nan` or element < 0");
    tn_tensor *positive = tn_all(s, tn_gt_scalar(s, tn_sum_dim(s, weights, TN_INTS(-1)), 0));
    if (positive && !tn_item_bool(s, positive))
        return tn_scope_fail(s, TN_E_ARGUMENT,
                             "invalid multinomial distribution (sum of probabilities <= 0)");
    return tn_scope_failed(s);
}

/*
 * With replacement: uniform random numbers are searched in the running sum of weights. Without: each weight
 * is divided by an exponential random number, and the largest quotients win (P. Efraimidis, P. Spirakis,
 * "Weighted random sampling with a reservoir", 2006).
 */
void composite_multinomial(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0),
              *weights = TN_DTYPE_BITS(dtype_of(self)) < 32 ? tn_to(s, self, TN_FLOAT32) : self;
    int64_t count = arg_int(args, 1), classes = tn_tensor_size(self, -1);
    tn_generator *g = arg_generator(args, 3);
    if (!weights || check_weights(s, weights)) return;
    if (arg_bool(args, 2)) {
        tn_tensor *sum = tn_cumsum(s, weights, -1),
                  *total = tn_slice(s, sum, .dim = -1, .start = classes - 1);
        tn_tensor *u =
            tni_empty_on(s, weights, 0, tni_sizes_with(s, sizes_of(self), rank_of(self) - 1, count));
        u = tn_mul(s, fill_uniform(s, u, 0, 1, g), total);
        return give(outs, 0,
                    tn_clamp(s, tn_searchsorted(s, sum, u, .right = 1), .max = TN_SCALAR(classes - 1)));
    }
    tn_tensor *race = tni_empty_on(s, weights, 0, sizes_of(weights));
    tni_fill_random(s, race, TN_RANDOM_EXPONENTIAL, tn_value_float(1), tn_value_float(0), g);
    give(outs, 0, tn_topk(s, tn_div(s, weights, race), count).indices);
}
