/* SPDX-License-Identifier: Apache-2.0 */
/* Complex numbers in device code: pairs of T. Products follow the plain formula. */
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
GPU_FUNCTION gpu_pair plus(gpu_pair a, gpu_pair b)
{
    return pair_of(a.re + b.re, a.im + b.im);
}
GPU_FUNCTION gpu_pair minus(gpu_pair a, gpu_pair b)
{
    return pair_of(a.re - b.re, a.im - b.im);
}
GPU_FUNCTION gpu_pair times(gpu_pair a, gpu_pair b)
{
    return pair_of(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}

#endif
