/* SPDX-License-Identifier: Apache-2.0 */
/* The table of pointwise kernels, for other files that run them. */
#ifndef TENON_CPU_POINTWISE_H
#define TENON_CPU_POINTWISE_H

#include "walk/staging.h"
#include "kernels/pointwise_ops.h"

typedef struct cpu_pointwise_op {
    uint32_t number;
    const char *types; /* see pointwise_ops.h */
    const tn_dtype *dtypes;
    int64_t grain;
    const char *schema;
} cpu_pointwise_op;

/* The kernel of an operator in a hub dtype at this process's level, or NULL. */
cpu_pointwise_fn cpu_pointwise_kernel(uint32_t op, int32_t hub);

#endif
