/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of float16, converted by instructions that the compiler does not find by itself. A block of a length
 * that it knows stays in registers between the two conversions when a loop of that length stands between
 * them. For files that are compiled per level.
 */
#ifndef TENON_CPU_BLOCKS_H
#define TENON_CPU_BLOCKS_H

#include <stdint.h>

/* A block, and the small one for what is left after whole blocks. */
enum { CPU_BLOCK = 32, CPU_SMALL_BLOCK = 8 };

#if defined(__F16C__)
#include <immintrin.h>

/* `n` is a multiple of 8 that the compiler knows. */
static inline __attribute__((always_inline, unused)) void cpu_widen(float *to, const void *from, int n)
{
    const char *a = from;
    int j = 0;
#if defined(__AVX512F__)
    for (; j + 16 <= n; j += 16) {
        __m256i half = _mm256_loadu_si256((const __m256i *)(const void *)(a + 2 * j));
        /* Else a condition on the element becomes a load under a mask, which takes twice the time on Zen 5. */
        __asm__("" : "+v"(half));
        _mm512_storeu_ps(to + j, _mm512_cvtph_ps(half));
    }
#endif
    for (; j < n; j += 8)
        _mm256_storeu_ps(to + j,
                         _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(a + 2 * j))));
}

static inline __attribute__((always_inline, unused)) void cpu_narrow(void *to, const float *from, int n)
{
    char *o = to;
    int j = 0;
#if defined(__AVX512F__)
    for (; j + 16 <= n; j += 16)
        _mm256_storeu_si256((__m256i *)(void *)(o + 2 * j),
                            _mm512_cvtps_ph(_mm512_loadu_ps(from + j), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; j < n; j += 8)
        _mm_storeu_si128((__m128i *)(void *)(o + 2 * j),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + j), _MM_FROUND_TO_NEAREST_INT));
}
#endif

#endif
