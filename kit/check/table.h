/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments for pointwise operators, reductions and scans, by schema; table.c has the cases of tier 1. */
#ifndef TENON_KIT_CHECK_TABLE_H
#define TENON_KIT_CHECK_TABLE_H

#include "call.h"
#include "sources.h"

/* Classes of strides and contents. */
enum {
    TABLE_CONTIGUOUS,
    TABLE_TRANSPOSED,
    TABLE_SLICED,
    TABLE_BROADCAST,
    TABLE_CHANNELS_LAST,
    TABLE_NO_DIMENSIONS,
    TABLE_EMPTY,
    TABLE_LARGE,
    TABLE_HOST_NUMBER, /* 0-dim tensors of the CPU beside one of the device */
    TABLE_CONJUGATED,
    TABLE_DIMENSIONS, /* five that do not coalesce, with broadcasting among them */
    TABLE_IN_PLACE,   /* the in-place form on a strided tensor, beside contiguous ones */
    TABLE_OFFSET, /* contiguous, and begins an element or two behind its storage; in place if there is such a form */
    TABLE_WIDE,     /* integers of all sizes, up to the ends of the range */
    TABLE_SPECIAL,  /* NaN, infinities, zeros of both signs, numbers near the ends of the range */
    TABLE_DENORMAL, /* denormal numbers and their neighbours */
    TABLE_FLUSHED,  /* the same with zeros in their place; no case of its own */
    TABLE_CLASSES
};

typedef struct table_case {
    uint32_t op;
    const char *name, *kind;
    tn_dtype dtype;
} table_case;

/* Fills the plan except its seed; `tensors` has room for CALL_MAX_ARGS. Returns the number of tensors. */
uint32_t table_plan(check_target *t, const table_case *c, int64_t class, call_plan *p, call_tensor *tensors);

#endif
