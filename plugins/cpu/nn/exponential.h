/* SPDX-License-Identifier: Apache-2.0 */
/* exp of accumulators, for files compiled per dtype: vector code for float, the C library's for double. */
#ifndef TENON_CPU_NN_EXPONENTIAL_H
#define TENON_CPU_NN_EXPONENTIAL_H

#include "types.h"
#include "support/exponential.h"

static inline acc exponential(acc x)
{
#if CPU_KEY == 2
    return exp(x);
#else
    return cpu_exp_f32(x);
#endif
}

#endif
