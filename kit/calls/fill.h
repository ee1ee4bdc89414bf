/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of the CPU with plausible contents, in memory of the program's own. */
#ifndef TENON_KIT_FILL_H
#define TENON_KIT_FILL_H

#include <tenon/tenon.h>

typedef struct fill_wish {
    tn_dtype dtype;
    tn_ints sizes;
    tn_ints strides;  /* absent: row-major */
    int64_t offset;   /* elements of the storage before the first one */
    double low, high; /* numbers lie in [low, high); for integers these are valid positions */
    double step;      /* numbers are multiples of it; 0: any */
    uint64_t seed;    /* 0: always the same */
    int offsets;      /* rising from 0 instead of drawn */
} fill_wish;

/* Complex numbers have both parts in [low, high). NULL on failure, recorded in the scope. */
tn_tensor *fill_tensor(tn_scope *s, const fill_wish *wish);
/* Writes a number in a dtype that is not complex; a complex element takes two. */
void fill_store(void *at, tn_dtype dtype, double value);
/* The value of a float16 or a bfloat16. */
double fill_half(uint16_t bits);
double fill_bfloat(uint16_t bits);

#endif
