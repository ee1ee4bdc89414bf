/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a row of elements is brought together with scattered ones. Element i of the row stands at
 * other + i * other_stride, its counterpart at base + offsets[i] * scale + i * stride (offsets may be NULL:
 * all 0). Counterparts may be the same for several i; they are then met in order.
 */
#ifndef TENON_CPU_COMBINE_H
#define TENON_CPU_COMBINE_H

#include <stdint.h>

enum {
    CPU_COMBINE_ADD, /* base += alpha * other */
    CPU_COMBINE_MULTIPLY,
    CPU_COMBINE_MAX,
    CPU_COMBINE_MIN,
    CPU_COMBINE_COUNT
};

typedef struct cpu_row {
    char *base;
    const int64_t *offsets;
    int64_t scale;
    int64_t stride;
    char *other;
    int64_t other_stride;
    int64_t n;
} cpu_row;

typedef void (*cpu_combine_fn)(const cpu_row *row, double alpha, double alpha_imaginary, int64_t alpha_int);

#endif
