/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversion of runs of elements. Arithmetic is done in six types (the hubs); each converts from and to every
 * dtype. Two dtypes of which neither is a hub are converted through one, see staging.c.
 */
#ifndef TENON_CPU_CONVERT_H
#define TENON_CPU_CONVERT_H

#include <stdint.h>

#include "dtypes.h"

/* Converts n elements; both runs are dense and do not overlap. */
typedef void (*cpu_convert_fn)(void *to, const void *from, int64_t n);

/* The conversions of one hub: from each dtype to the hub, from the hub to each dtype; NULL where there is
 * none. */
typedef struct cpu_hub {
    cpu_convert_fn from[CPU_SLOT_COUNT];
    cpu_convert_fn to[CPU_SLOT_COUNT];
} cpu_hub;

#endif
