/* SPDX-License-Identifier: Apache-2.0 */
/* Packed weights become float32. */
#include "nn/lanes.h"
#include "packed.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

static inline lanes lanes_of_bytes(const int8_t *from)
{
#if defined(__AVX512F__)
    return (lanes)_mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)from)));
#elif defined(__AVX2__)
    return (lanes)_mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from)));
#else
    lanes v;
    for (int j = 0; j < LANE_COUNT; j++) v[j] = from[j];
    return v;
#endif
}

/* Some rows at once, which share the reading of x. */
ALWAYS_INLINE void dots(const int8_t *weight, int64_t count, const float *scales, const float *x, float *out,
                        const int rows)
{
    enum { SETS = 2, MOST_ROWS = 4 };
    lanes sum[MOST_ROWS][SETS] = {{{0}}};
    int64_t i = 0;
    for (; i + SETS * LANE_COUNT <= count; i += SETS * LANE_COUNT)
        for (int set = 0; set < SETS; set++) {
            lanes y = lanes_of_acc(x + i + set * LANE_COUNT);
            for (int r = 0; r < rows; r++)
                sum[r][set] += y * lanes_of_bytes(weight + r * count + i + set * LANE_COUNT);
        }
    for (int r = 0; r < rows; r++) {
        float total = lanes_total(sum[r][0] + sum[r][1]);
        for (int64_t k = i; k < count; k++) total += x[k] * (float)weight[r * count + k];
        out[r] = total * scales[r];
    }
}

static void dots_int8(const int8_t *weight, int64_t rows, int64_t count, const float *scales, const float *x,
                      float *out)
{
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) dots(weight + r * count, count, scales + r, x, out + r, 4);
    for (; r < rows; r++) dots(weight + r * count, count, scales + r, x, out + r, 1);
}

static void unpack_int8(const int8_t *restrict row, int64_t count, float scale, float *restrict to)
{
    for (int64_t i = 0; i < count; i++) to[i] = (float)row[i] * scale;
}

static void unpack_int4(const uint8_t *restrict row, int64_t count, float scale, float zero,
                        float *restrict to)
{
    enum { HALF = CPU_PACKED_BLOCK / 2 };
    for (int64_t i = 0; i < count; i += CPU_PACKED_BLOCK) {
        for (int64_t j = 0; j < HALF; j++) {
            to[i + j] = (float)((row[i / 2 + j] & 15) - 8) * scale + zero;
            to[i + j + HALF] = (float)((row[i / 2 + j] >> 4) - 8) * scale + zero;
        }
    }
}

CPU_KERNELS(cpu_packed_kernels, .dots_int8 = dots_int8, .unpack_int8 = unpack_int8,
            .unpack_int4 = unpack_int4);
