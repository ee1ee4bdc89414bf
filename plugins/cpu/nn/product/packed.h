/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of packed_dtype.c. */
#ifndef TENON_CPU_NN_PACKED_H
#define TENON_CPU_NN_PACKED_H

#include "support/kernel_table.h"

/*
 * 4-bit weights lie in blocks of 32, the last of a row may be shorter. Byte j of a block has element j in its low and
 * element j + half a block in its high bits.
 */
enum { CPU_PACKED_BLOCK = 32 };

typedef struct cpu_packed_kernels {
    /* out[r] = scales[r] * the sum of x[i] * row r[i], for `rows` rows that lie one behind the other. */
    void (*dots_int8)(const int8_t *weight, int64_t rows, int64_t count, const float *scales, const float *x,
                      float *out);
    /* to[i] = row[i] * scale. */
    void (*unpack_int8)(const int8_t *row, int64_t count, float scale, float *to);
    /* to[i] = (element i - 8) * scale + zero; count is a multiple of the block. */
    void (*unpack_int4)(const uint8_t *row, int64_t count, float scale, float zero, float *to);
} cpu_packed_kernels;

#endif
