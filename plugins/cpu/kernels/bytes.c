/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise operators of bytes (DTYPE=u8): of uint8 and of bool those that images and masks are made of,
 * which would otherwise be widened to int32 and back.
 */
#include "bits.h"
#include "compare.h"
#include "loops.h"

static void add(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0], alpha = (T)s->i[0];
    const T *a = p[1], *b = p[2];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = (T)(a[i] + alpha * b[i]);
}
static void sub(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0], alpha = (T)s->i[0];
    const T *a = p[1], *b = p[2];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = (T)(a[i] - alpha * b[i]);
}
static void where(void *const *p, int64_t n, const cpu_scalars *s)
{
    T *o = p[0];
    const uint8_t *condition = p[1];
    const T *a = p[2], *b = p[3];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) o[i] = condition[i] ? a[i] : b[i];
}
ALWAYS_INLINE T mul_one(T a, T b)
{
    return (T)(a * b);
}
static void mul(void *const *p, int64_t n, const cpu_scalars *s)
{
    binary(p, n, mul_one);
}
ALWAYS_INLINE T bitwise_not_one(T a)
{
    return (T)~a;
}
static void bitwise_not(void *const *p, int64_t n, const cpu_scalars *s)
{
    unary(p, n, bitwise_not_one);
}
extern const cpu_pointwise_entry CPU_NAME(cpu_bytes)[];
const cpu_pointwise_entry CPU_NAME(cpu_bytes)[] = {
    {CPU_OP_maximum, maximum},
    {CPU_OP_minimum, minimum},
    {CPU_OP_bitwise_and, bitwise_and},
    {CPU_OP_bitwise_or, bitwise_or},
    {CPU_OP_bitwise_xor, bitwise_xor},
    {CPU_OP_eq, eq},
    {CPU_OP_ne, ne},
    {CPU_OP_lt, lt},
    {CPU_OP_le, le},
    {CPU_OP_gt, gt},
    {CPU_OP_ge, ge},
    {CPU_OP_logical_and, logical_and},
    {CPU_OP_logical_or, logical_or},
    {CPU_OP_logical_xor, logical_xor},
    {CPU_OP_logical_not, logical_not},
    {CPU_OP_where, where},
    {CPU_OP_add, add},
    {CPU_OP_sub, sub},
    {CPU_OP_mul, mul},
    {CPU_OP_bitwise_not, bitwise_not},
    {0, NULL},
};
/* Those that keep 0 and 1 among themselves. */
extern const cpu_pointwise_entry CPU_NAME(cpu_truth)[];
const cpu_pointwise_entry CPU_NAME(cpu_truth)[] = {
    {CPU_OP_maximum, maximum},
    {CPU_OP_minimum, minimum},
    {CPU_OP_bitwise_and, bitwise_and},
    {CPU_OP_bitwise_or, bitwise_or},
    {CPU_OP_bitwise_xor, bitwise_xor},
    {CPU_OP_eq, eq},
    {CPU_OP_ne, ne},
    {CPU_OP_lt, lt},
    {CPU_OP_le, le},
    {CPU_OP_gt, gt},
    {CPU_OP_ge, ge},
    {CPU_OP_logical_and, logical_and},
    {CPU_OP_logical_or, logical_or},
    {CPU_OP_logical_xor, logical_xor},
    {CPU_OP_logical_not, logical_not},
    {CPU_OP_where, where},
    {0, NULL},
};
