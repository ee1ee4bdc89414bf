/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversion of runs of elements. Each hub dtype converts from and to every dtype; two other dtypes are
 * converted through a hub, see walk/staging.c.
 */
#ifndef TENON_CPU_CONVERT_H
#define TENON_CPU_CONVERT_H

#include "dtypes.h"
#include <stdint.h>

/* Converts n elements; both runs are contiguous and do not overlap. */
typedef void (*cpu_convert_fn)(void *to, const void *from, int64_t n);

/* The conversions of one hub dtype, from and to each dtype; NULL where there is none. */
typedef struct cpu_hub {
    cpu_convert_fn from[CPU_SLOT_COUNT];
    cpu_convert_fn to[CPU_SLOT_COUNT];
} cpu_hub;

#endif
