/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements as unsigned keys: a < b exactly if key(a) < key(b). NaN is above all others, and zeros of both
 * signs are equal. So one sort serves all dtypes and both directions.
 */
#ifndef TENON_CPU_SORT_KEYS_H
#define TENON_CPU_SORT_KEYS_H

#include "walk/staging.h"

typedef struct cpu_keyed {
    uint64_t key;
    int64_t position;
} cpu_keyed;

/* Makes the keys of n strided elements with their positions; `descending` reverses the order. */
void cpu_keys(cpu_keyed *out, const void *from, int32_t slot, int64_t stride, int64_t n, int32_t descending);

/* Elements `stride` bytes apart, and the direction of their order. */
typedef struct cpu_line {
    const void *from;
    int32_t slot, descending;
    int64_t stride, n;
} cpu_line;

/* The k smallest elements of a line (0 < k <= n), in order. `items` and `other` each have room for
 * cpu_least_room(n, k) items, which is less than n for small k. */
int64_t cpu_least_room(int64_t n, int64_t k);
void cpu_least(cpu_keyed *items, cpu_keyed *other, const cpu_line *line, int64_t k);

/* The item that a sort would put at place k, counted from 0; `room` is scratch for n keys. */
cpu_keyed cpu_kth(const cpu_keyed *items, uint64_t *room, int64_t n, int64_t k);

/* Sorts by key, stable. `other` has room for n as well. */
void cpu_sort_keyed(cpu_keyed *items, cpu_keyed *other, int64_t n);

#endif
