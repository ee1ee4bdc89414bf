/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order of elements as unsigned keys: a < b exactly if key(a) < key(b), NaN above all others, zeros of either
 * sign equal. So one sort serves all dtypes and both directions.
 */
#ifndef TENON_CPU_ORDER_H
#define TENON_CPU_ORDER_H

#include "staging.h"

typedef struct cpu_keyed {
    uint64_t key;
    int64_t position;
} cpu_keyed;

/* Keys of n strided elements with their positions; `descending` turns the order round. `raw` is scratch. */
void cpu_keys(cpu_keyed *out, const void *from, int32_t slot, int64_t stride, int64_t n, int32_t descending);

/* Sorts by key, stable. `other` has room for n as well. */
void cpu_sort_keyed(cpu_keyed *items, cpu_keyed *other, int64_t n);

#endif
