/* SPDX-License-Identifier: Apache-2.0 */
/* Complex numbers in device code: pairs of T. */
#ifndef TENON_GPU_PAIR_H
#define TENON_GPU_PAIR_H

#include "dialect.h"

typedef struct gpu_pair {
    T re;
    T im;
} gpu_pair;

GPU_FUNCTION gpu_pair pair_of(T re, T im)
{
    gpu_pair z;
    z.re = re;
    z.im = im;
    return z;
}
#define PAIR       gpu_pair
#define PART       T
#define from_parts pair_of
#include "complex_arithmetic.h"

#endif
