/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of contiguous elements: widened to acc, narrowed, or mapped by an inline function. Half types are
 * converted in blocks that stay in registers.
 */
#ifndef TENON_CPU_NN_RUNS_H
#define TENON_CPU_NN_RUNS_H

#include "nn/words.h"
#include "support/blocks.h"

/* One block of a constant length. */
ALWAYS_INLINE void widen(acc *to, const E *from, int n)
{
#if defined(DTYPE_F16) && defined(__F16C__)
    cpu_widen(to, from, n);
#else
    for (int j = 0; j < n; j++) to[j] = load_acc(&from[j]);
#endif
}
ALWAYS_INLINE void narrow(E *to, const acc *from, int n)
{
#if defined(DTYPE_F16) && defined(__F16C__)
    cpu_narrow(to, from, n);
#else
    for (int j = 0; j < n; j++) store_acc(&to[j], from[j]);
#endif
}

/* The elements as acc: in place if E is acc, else in `room`. */
static inline const acc *run_read(const E *x, int64_t count, acc *restrict room)
{
#if CPU_IS_FLOAT && !CPU_IS_HALF
    return (const acc *)x;
#else
    int64_t i = 0;
    for (; i + CPU_BLOCK <= count; i += CPU_BLOCK) widen(room + i, x + i, CPU_BLOCK);
    for (; i + CPU_SMALL_BLOCK <= count; i += CPU_SMALL_BLOCK) widen(room + i, x + i, CPU_SMALL_BLOCK);
    for (; i < count; i++) room[i] = load_acc(&x[i]);
    return room;
#endif
}

static inline void run_write(const acc *restrict from, int64_t count, E *restrict out)
{
    int64_t i = 0;
    for (; i + CPU_BLOCK <= count; i += CPU_BLOCK) narrow(out + i, from + i, CPU_BLOCK);
    for (; i + CPU_SMALL_BLOCK <= count; i += CPU_SMALL_BLOCK) narrow(out + i, from + i, CPU_SMALL_BLOCK);
    for (; i < count; i++) store_acc(&out[i], from[i]);
}

ALWAYS_INLINE void scale_block(const acc *from, acc scale, E *out, int n)
{
    acc x[CPU_BLOCK];
    for (int j = 0; j < n; j++) x[j] = from[j] * scale;
    narrow(out, x, n);
}

/* out = from * scale */
static inline void run_scale(const acc *restrict from, acc scale, int64_t count, E *restrict out)
{
    int64_t i = 0;
    for (; i + CPU_BLOCK <= count; i += CPU_BLOCK) scale_block(from + i, scale, out + i, CPU_BLOCK);
    for (; i + CPU_SMALL_BLOCK <= count; i += CPU_SMALL_BLOCK)
        scale_block(from + i, scale, out + i, CPU_SMALL_BLOCK);
    for (; i < count; i++) store_acc(&out[i], from[i] * scale);
}

/* The operands of run_map; all but x may be NULL, which reads as 0. */
typedef struct run_operands {
    const E *x, *y;
    const acc *v, *w;
} run_operands;
typedef acc (*run_function)(acc x, acc y, acc v, acc w, const acc *constants);

ALWAYS_INLINE void map_block(run_operands r, int64_t i, int n, const acc *constants, run_function f, E *out)
{
    acc x[CPU_BLOCK], y[CPU_BLOCK];
    widen(x, r.x + i, n);
    if (r.y) widen(y, r.y + i, n);
    for (int j = 0; j < n; j++)
        x[j] = f(x[j], r.y ? y[j] : 0, r.v ? r.v[i + j] : 0, r.w ? r.w[i + j] : 0, constants);
    narrow(out + i, x, n);
}

/* out[i] = f(x[i], y[i], v[i], w[i]); out may be x or y. Where E is acc, blocks would only be copied to the stack and back. */
ALWAYS_INLINE void run_map(run_operands r, int64_t count, const acc *constants, run_function f, E *out)
{
    int64_t i = 0;
    for (; CPU_IS_HALF && i + CPU_BLOCK <= count; i += CPU_BLOCK)
        map_block(r, i, CPU_BLOCK, constants, f, out);
    for (; CPU_IS_HALF && i + CPU_SMALL_BLOCK <= count; i += CPU_SMALL_BLOCK)
        map_block(r, i, CPU_SMALL_BLOCK, constants, f, out);
    CPU_INDEPENDENT
    for (; i < count; i++)
        store_acc(&out[i], f(load_acc(&r.x[i]), r.y ? load_acc(&r.y[i]) : 0, r.v ? r.v[i] : 0,
                             r.w ? r.w[i] : 0, constants));
}

#endif
