/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of contiguous elements through accumulators: read, written, or mapped by an inline function. Half
 * types are converted in blocks that stay in registers. For files compiled per dtype.
 */
#ifndef TENON_CPU_NN_RUNS_H
#define TENON_CPU_NN_RUNS_H

#include "types.h"
#include "support/blocks.h"

/* One block of a length that the compiler knows. */
static inline __attribute__((always_inline)) void widen(const T *from, acc *to, int n)
{
#if CPU_KEY == 3 && defined(__F16C__)
    cpu_widen(to, from, n);
#else
    for (int j = 0; j < n; j++) to[j] = load(from[j]);
#endif
}
static inline __attribute__((always_inline)) void narrow(const acc *from, T *to, int n)
{
#if CPU_KEY == 3 && defined(__F16C__)
    cpu_narrow(to, from, n);
#else
    for (int j = 0; j < n; j++) to[j] = store(from[j]);
#endif
}

/* The elements as accumulators: themselves where they are, else in `room`. */
static inline const acc *run_read(const T *x, int64_t count, acc *restrict room)
{
#if IS_FLOATING && !IS_HALF
    return (const acc *)x;
#else
    int64_t i = 0;
    for (; i + CPU_BLOCK <= count; i += CPU_BLOCK) widen(x + i, room + i, CPU_BLOCK);
    for (; i + CPU_SMALL_BLOCK <= count; i += CPU_SMALL_BLOCK) widen(x + i, room + i, CPU_SMALL_BLOCK);
    for (; i < count; i++) room[i] = load(x[i]);
    return room;
#endif
}

static inline void run_write(const acc *restrict from, int64_t count, T *restrict out)
{
    int64_t i = 0;
    for (; i + CPU_BLOCK <= count; i += CPU_BLOCK) narrow(from + i, out + i, CPU_BLOCK);
    for (; i + CPU_SMALL_BLOCK <= count; i += CPU_SMALL_BLOCK) narrow(from + i, out + i, CPU_SMALL_BLOCK);
    for (; i < count; i++) out[i] = store(from[i]);
}

static inline __attribute__((always_inline)) void scale_block(const acc *from, acc scale, T *out, int n)
{
    acc x[CPU_BLOCK];
    for (int j = 0; j < n; j++) x[j] = from[j] * scale;
    narrow(x, out, n);
}

/* out = from * scale */
static inline void run_scale(const acc *restrict from, acc scale, int64_t count, T *restrict out)
{
    int64_t i = 0;
    for (; i + CPU_BLOCK <= count; i += CPU_BLOCK) scale_block(from + i, scale, out + i, CPU_BLOCK);
    for (; i + CPU_SMALL_BLOCK <= count; i += CPU_SMALL_BLOCK)
        scale_block(from + i, scale, out + i, CPU_SMALL_BLOCK);
    for (; i < count; i++) out[i] = store(from[i] * scale);
}

/* What a mapped element is computed from besides itself; what is absent is 0. */
typedef struct run_operands {
    const T *x, *y;
    const acc *v, *w;
} run_operands;
typedef acc (*run_function)(acc x, acc y, acc v, acc w, const acc *constants);

static inline __attribute__((always_inline)) void map_block(run_operands r, int64_t i, int n,
                                                            const acc *constants, run_function f, T *out)
{
    acc x[CPU_BLOCK], y[CPU_BLOCK];
    widen(r.x + i, x, n);
    if (r.y) widen(r.y + i, y, n);
    for (int j = 0; j < n; j++)
        x[j] = f(x[j], r.y ? y[j] : 0, r.v ? r.v[i + j] : 0, r.w ? r.w[i + j] : 0, constants);
    narrow(x, out + i, n);
}

/* out[i] = f(x[i], y[i], v[i], w[i]); out may be x or y. */
static inline __attribute__((always_inline)) void run_map(run_operands r, int64_t count, const acc *constants,
                                                          run_function f, T *out)
{
    int64_t i = 0;
    for (; i + CPU_BLOCK <= count; i += CPU_BLOCK) map_block(r, i, CPU_BLOCK, constants, f, out);
    for (; i + CPU_SMALL_BLOCK <= count; i += CPU_SMALL_BLOCK)
        map_block(r, i, CPU_SMALL_BLOCK, constants, f, out);
    for (; i < count; i++)
        out[i] =
            store(f(load(r.x[i]), r.y ? load(r.y[i]) : 0, r.v ? r.v[i] : 0, r.w ? r.w[i] : 0, constants));
}

#endif
