/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of the kernels of prim::random. */
#ifndef TENON_CPU_DRAW_H
#define TENON_CPU_DRAW_H

#include <stdint.h>

typedef struct cpu_draw {
    uint64_t seed;
    uint64_t offset;      /* counter of element 0 */
    int64_t distribution; /* TN_RANDOM_... */
    int32_t slot;         /* dtype in memory; the half types have uniforms of their own */
    double a, b;
} cpu_draw;

/* Elements [position, position + n), n at most CPU_CHUNK, of the row-major order. */
typedef void (*cpu_draw_fn)(void *out, int64_t n, int64_t position, const cpu_draw *d);

/*
 * The four words of a counter by Philox-4x32-10 (Salmon et al. 2011): ten rounds of two multiplications, the
 * key incremented between rounds.
 */
static inline __attribute__((always_inline)) void cpu_philox_step(uint64_t seed, uint64_t counter,
                                                                  uint32_t step, uint32_t *out)
{
    uint32_t x0 = (uint32_t)counter, x1 = (uint32_t)(counter >> 32), x2 = step, x3 = 0;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t first = (uint64_t)0xD2511F53u * x0, second = (uint64_t)0xCD9E8D57u * x2;
        x0 = (uint32_t)(second >> 32) ^ x1 ^ k0;
        x2 = (uint32_t)(first >> 32) ^ x3 ^ k1;
        x1 = (uint32_t)second;
        x3 = (uint32_t)first;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = x0;
    out[1] = x1;
    out[2] = x2;
    out[3] = x3;
}
static inline __attribute__((always_inline)) void cpu_philox(uint64_t seed, uint64_t counter, uint32_t *out)
{
    cpu_philox_step(seed, counter, 0, out);
}

#endif
