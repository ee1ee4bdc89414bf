/* SPDX-License-Identifier: Apache-2.0 */
/* What libraries for tests of all vendors share: failures on demand, counts that tests read, numbers as a dtype has them. */
#ifndef TENON_TESTS_GPU_STAND_IN_H
#define TENON_TESTS_GPU_STAND_IN_H

#include "library_fault.h"

#include <tenon/kernel.h>

#define FAULT(function)                      \
    do {                                     \
        int fault = library_fault(function); \
        if (fault) return fault;             \
    } while (0)

/* Each library says what it counts; LIVE: objects that the plugin has not given back. */
extern int counts[8];
__attribute__((weak, visibility("hidden"))) int counts[8];

/* For tests; one of all files of a library, as the counts are. */
__attribute__((weak, visibility("default"))) int stand_in_count(int what);

int stand_in_count(int what)
{
    return __atomic_load_n(&counts[what], __ATOMIC_ACQUIRE);
}

static inline int count(int what, int by)
{
    return __atomic_add_fetch(&counts[what], by, __ATOMIC_ACQ_REL);
}

static inline double rounded(tn_dtype dtype, double value)
{
    uint64_t bits = 0;
    tn_number_store(dtype, &bits, tn_number_real(value));
    return tn_number_load(dtype, &bits).f;
}

#endif
