/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row of elements that is combined into scattered ones. Element i of the row is at other + i *
 * other_stride; its target is at base + offsets[i] * scale + i * stride (NULL offsets are all 0). Several
 * elements may have one target; they are combined in order.
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
