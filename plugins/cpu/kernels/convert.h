/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversion of runs of elements. Arithmetic is done in six types (the hubs); each converts from and to every
 * dtype. Two dtypes of which neither is a hub are converted through one, see staging.c.
 */
#ifndef TENON_CPU_CONVERT_H
#define TENON_CPU_CONVERT_H

#include <stdint.h>

/* All dtypes that have elements of their own, numbered densely; the hubs come first. */
enum {
    CPU_F32,
    CPU_F64,
    CPU_I32,
    CPU_I64,
    CPU_C64,
    CPU_C128,
    CPU_HUB_COUNT,
    CPU_BOOL = CPU_HUB_COUNT,
    CPU_U8,
    CPU_I8,
    CPU_I16,
    CPU_U16,
    CPU_U32,
    CPU_U64,
    CPU_F16,
    CPU_BF16,
    CPU_C32,
    CPU_E4M3FN,
    CPU_E4M3FNUZ,
    CPU_E5M2,
    CPU_E5M2FNUZ,
    CPU_E8M0,
    CPU_SLOT_COUNT
};

/* Converts n elements; both runs are dense and do not overlap. */
typedef void (*cpu_convert_fn)(void *to, const void *from, int64_t n);

/* The conversions of one hub: from each dtype to the hub, from the hub to each dtype; NULL where there is
 * none. */
typedef struct cpu_hub {
    cpu_convert_fn from[CPU_SLOT_COUNT];
    cpu_convert_fn to[CPU_SLOT_COUNT];
} cpu_hub;

#endif
