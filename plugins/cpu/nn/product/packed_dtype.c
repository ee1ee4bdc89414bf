/* SPDX-License-Identifier: Apache-2.0 */
/* Packed weights become float32. */
#include "kernels/vocabulary.h"
#include "packed.h"

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

CPU_KERNELS(cpu_packed_kernels) = {.unpack_int8 = unpack_int8, .unpack_int4 = unpack_int4};
