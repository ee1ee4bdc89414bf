/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors with plausible contents for benchmarks, in memory of the program's own. */
#ifndef TENON_BENCH_FILL_H
#define TENON_BENCH_FILL_H

#include <tenon/tenon.h>

typedef struct fill_wish {
    tn_dtype dtype;
    tn_ints sizes;
    tn_ints strides;  /* absent: row-major */
    double low, high; /* numbers lie in [low, high); for integers these are valid positions */
    int offsets;      /* rising from 0 instead of drawn */
} fill_wish;

/* Complex numbers have both parts in [low, high). NULL on failure, recorded in the scope. */
tn_tensor *fill_tensor(tn_scope *s, const fill_wish *wish);

#endif
