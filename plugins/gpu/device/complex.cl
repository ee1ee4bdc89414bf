/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise operators of complex numbers, an element an item; T is the type of their parts.
 */
#include "complex_list.h"
#include "pair.h"

/* An element of a complex or real dtype. */
GPU_FUNCTION gpu_pair load_pair(GPU_GLOBAL const uint8_t *p, uint32_t dtype)
{
    if (dtype == GPU_C64) return pair_of(gpu_load(p, GPU_F32), gpu_load(p + 4, GPU_F32));
#if GPU_HAS_DOUBLE
    if (dtype == GPU_C128) return pair_of(gpu_load(p, GPU_F64), gpu_load(p + 8, GPU_F64));
#endif
    return pair_of(gpu_load(p, dtype), 0);
}
/* Real dtypes get the real part. */
GPU_FUNCTION void store_pair(GPU_GLOBAL uint8_t *p, uint32_t dtype, gpu_pair z)
{
    if (dtype == GPU_C64) {
        gpu_store(p, GPU_F32, z.re);
        gpu_store(p + 4, GPU_F32, z.im);
#if GPU_HAS_DOUBLE
    } else if (dtype == GPU_C128) {
        gpu_store(p, GPU_F64, z.re);
        gpu_store(p + 8, GPU_F64, z.im);
#endif
    } else if (dtype == GPU_BOOL) {
        *p = z.re != 0 || z.im != 0;
    } else {
        gpu_store(p, dtype, z.re);
    }
}

/* ---- Formulas -------------------------------------------------------------------------------------------- */

/* The root with a real part of at least 0; values at infinities are C99's. */
GPU_FUNCTION gpu_pair root_of(gpu_pair a)
{
    T half_sum = FN(sqrt)((T)0.5 * FN(fabs)(a.re) + (T)0.5 * magnitude(a)), other = a.im / (2 * half_sum);
    if (FN(fabs)(a.im) == INFINITY) return pair_of(INFINITY, a.im);
    if (FN(fabs)(a.re) == INFINITY) {
        T small = is_nan(a.im) ? a.im : (T)0;
        return a.re > 0 ? pair_of(a.re, is_nan(a.im) ? a.im : FN(copysign)((T)0, a.im))
                        : pair_of(small, FN(copysign)((T)INFINITY, a.im));
    }
    if (a.re == 0 && a.im == 0) return pair_of(0, a.im);
    return a.re >= 0 || is_nan(a.re) ? pair_of(half_sum, other)
                                     : pair_of(FN(fabs)(other), FN(copysign)(half_sum, a.im));
}
GPU_FUNCTION gpu_pair exponential_of(gpu_pair a)
{
    T length = FN(exp)(a.re);
    if (a.im == 0) return pair_of(length, a.im);
    if (a.im - a.im != 0 && FN(fabs)(a.re) == INFINITY)
        return a.re < 0 ? pair_of(0, 0) : pair_of(a.re, a.im - a.im);
    return pair_of(length * FN(cos)(a.im), length * FN(sin)(a.im));
}
GPU_FUNCTION gpu_pair logarithm_of(gpu_pair a)
{
    return pair_of(FN(log)(magnitude(a)), FN(atan2)(a.im, a.re));
}
GPU_FUNCTION int is_nonzero(gpu_pair a)
{
    return a.re != 0 || a.im != 0;
}
GPU_FUNCTION int is_infinite(gpu_pair a)
{
    return FN(fabs)(a.re) == INFINITY || FN(fabs)(a.im) == INFINITY;
}

/* a, b, c: operands; x: a scalar. */
#define FORMULA(name, value)                                                                 \
    GPU_FUNCTION gpu_pair name##_formula(gpu_pair a, gpu_pair b, gpu_pair c, gpu_pair x)      \
    {                                                                                        \
        return value;                                                                        \
    }
#define REAL(value)  pair_of((T)(value), 0)
FORMULA(plus_scaled, plus(a, times(x, b)))
FORMULA(minus_scaled, minus(a, times(x, b)))
FORMULA(from_scaled, minus(b, times(x, a)))
FORMULA(product, times(a, b))
FORMULA(quotient, over(a, b))
FORMULA(negative, pair_of(-a.re, -a.im))
FORMULA(direction, sign_of(a))
FORMULA(size, REAL(magnitude(a)))
FORMULA(angle, REAL(FN(atan2)(a.im, a.re)))
FORMULA(conjugate, pair_of(a.re, -a.im))
FORMULA(inverse, over(pair_of(1, 0), a))
FORMULA(root, root_of(a))
FORMULA(inverse_root, over(pair_of(1, 0), root_of(a)))
FORMULA(exponential, exponential_of(a))
FORMULA(logarithm, logarithm_of(a))
FORMULA(choice, is_nonzero(a) ? b : c)
FORMULA(between, between(a, b, c))
FORMULA(between_by_scalar, between(a, b, x))
FORMULA(plus_product, plus(a, times(times_unless_1(x, b), c)))
FORMULA(plus_quotient, plus(a, over(times_unless_1(x, b), c)))
/* b is the result of the forward pass; the derivative is conjugated. */
FORMULA(sigmoid_gradient, times(a, pair_of((1 - b.re) * b.re + b.im * b.im, -(1 - b.re) * b.im + b.im * b.re)))
FORMULA(tanh_gradient, times(a, pair_of(1 - (b.re * b.re - b.im * b.im), 2 * b.re * b.im)))
FORMULA(is_equal, REAL(a.re == b.re && a.im == b.im))
FORMULA(is_unequal, REAL(a.re != b.re || a.im != b.im))
FORMULA(is_nan_pair, REAL(is_nan(a.re) || is_nan(a.im)))
FORMULA(is_infinite_pair, REAL(is_infinite(a)))
FORMULA(is_finite_pair, REAL(a.re - a.re == 0 && a.im - a.im == 0))
FORMULA(both, REAL(is_nonzero(a) && is_nonzero(b)))
FORMULA(either, REAL(is_nonzero(a) || is_nonzero(b)))
FORMULA(one_of_both, REAL(is_nonzero(a) != is_nonzero(b)))
FORMULA(neither, REAL(!is_nonzero(a)))
FORMULA(of_parts, pair_of(a.re, b.re))

/* ---- Kernels --------------------------------------------------------------------------------------------- */

#define GPU_COMPLEX_CASE(op, formula) \
    case GPU_OP_##op:                 \
        return formula##_formula(a, b, c, x);
GPU_FUNCTION gpu_pair compute_pair(uint32_t opcode, gpu_pair a, gpu_pair b, gpu_pair c, gpu_pair x)
{
    switch (opcode) {
        GPU_COMPLEX_OPS(GPU_COMPLEX_CASE)
    default:
        return a;
    }
}

/* `values` has two words each, the parts, of the first two operands that are values; scalars[0] and [1] are those of x. */
GPU_KERNEL void complex_pointwise(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in0, GPU_GLOBAL const uint8_t *in1,
                                  GPU_GLOBAL const uint8_t *in2, gpu_nest nest)
{
    uint32_t i = gpu_item(), rest = i;
    int64_t at[GPU_OPERANDS] = {nest.offsets[0], nest.offsets[1], nest.offsets[2], nest.offsets[3]};
    if (i >= nest.numel) return;
    GPU_WALK(nest, 0, nest.rank, rest, at, GPU_OPERANDS)
    gpu_pair first = pair_of(gpu_value(nest.values[0]), gpu_value(nest.values[1]));
    gpu_pair second = pair_of(gpu_value(nest.values[2]), gpu_value(nest.values[3])), a = first, b = first, c = first;
    if (!(nest.immediate & 2u))
        a = load_pair(in0 + at[1], nest.dtypes[1]);
    if (!(nest.immediate & 4u))
        b = load_pair(in1 + at[2], nest.dtypes[2]);
    else if (nest.immediate & 2u)
        b = second;
    if (!(nest.immediate & 8u))
        c = load_pair(in2 + at[3], nest.dtypes[3]);
    else if (nest.immediate & 6u)
        c = second;
    store_pair(out + at[0], nest.dtypes[0],
               compute_pair(nest.opcode, a, b, c, pair_of(gpu_value(nest.scalars[0]), gpu_value(nest.scalars[1]))));
}

/*
 * Copies that convert from or to a complex dtype, and that conjugate (bit 0 of nest.opcode) or negate (bit 1). Operands: out, in.
 */
GPU_KERNEL void complex_convert(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in, gpu_nest nest)
{
    uint32_t i = gpu_item(), rest = i;
    int64_t at[2] = {nest.offsets[0], nest.offsets[1]};
    if (i >= nest.numel) return;
    GPU_WALK(nest, 0, nest.rank, rest, at, 2)
    gpu_pair z = load_pair(in + at[1], nest.dtypes[1]);
    if (nest.opcode & 2u) z = pair_of(-z.re, -z.im);
    if (nest.opcode & 1u) z = pair_of(z.re, -z.im);
    store_pair(out + at[0], nest.dtypes[0], z);
}

/*
 * Products of complex matrices, as `product` of numbers.cl. scalars: the inner size, and the strides of left and right along it.
 * `values` has two words each, the parts, of alpha and beta.
 */
GPU_KERNEL void complex_product(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *left, GPU_GLOBAL const uint8_t *right,
                                GPU_GLOBAL const uint8_t *added, gpu_nest nest)
{
    uint32_t i = gpu_item(), rest = i;
    int64_t at[4] = {nest.offsets[0], nest.offsets[1], nest.offsets[2], nest.offsets[3]};
    if (i >= nest.numel) return;
    GPU_WALK(nest, 0, nest.rank, rest, at, 4)
    gpu_pair sum = pair_of(0, 0), alpha = pair_of(gpu_value(nest.values[0]), gpu_value(nest.values[1]));
    for (uint64_t k = 0; k < nest.scalars[0]; k++) {
        gpu_pair x = load_pair(left + at[1], nest.dtypes[1]), y = load_pair(right + at[2], nest.dtypes[2]);
        sum = plus(sum, times(x, y));
        at[1] += (int64_t)nest.scalars[1];
        at[2] += (int64_t)nest.scalars[2];
    }
    sum = times_unless_1(alpha, sum);
    if (!(nest.immediate & 8u))
        sum = plus(sum, times_unless_1(pair_of(gpu_value(nest.values[2]), gpu_value(nest.values[3])),
                                       load_pair(added + at[3], nest.dtypes[3])));
    store_pair(out + at[0], nest.dtypes[0], sum);
}
