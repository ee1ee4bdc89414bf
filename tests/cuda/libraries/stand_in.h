/* SPDX-License-Identifier: Apache-2.0 */
/* What the vendor's libraries for tests share: failures on demand, counts that tests read, numbers as a dtype has them. */
#ifndef TESTS_CUDA_LIBRARIES_STAND_IN_H
#define TESTS_CUDA_LIBRARIES_STAND_IN_H

#include "library.h"

#include <tenon/kernel.h>

#define FAULT(function)                      \
    do {                                     \
        int fault = library_fault(function); \
        if (fault) return fault;             \
    } while (0)

/* Each library says what it counts; LIVE: objects that the plugin has not given back. */
static int counts[8];

static inline int count(int what, int by)
{
    return __atomic_add_fetch(&counts[what], by, __ATOMIC_ACQ_REL);
}

/* A copy of an object of any kind; 0: there is no memory. */
static inline int make_object(void **out, const void *object, size_t bytes, int live)
{
    void *made = malloc(bytes);
    if (!made) return 0;
    memcpy(made, object, bytes);
    *out = made;
    count(live, 1);
    return 1;
}

/* Whoever uses it from now on fails. */
static inline int destroy_object(void *object, size_t bytes, int live)
{
    memset(object, 0xee, bytes);
    free(object);
    count(live, -1);
    return 0;
}

static inline int has_context(void)
{
    CUcontext context = NULL;
    return library_context(&context) == CUDA_SUCCESS && context;
}

static inline double rounded(tn_dtype dtype, double value)
{
    uint64_t bits = 0;
    tn_number_store(dtype, &bits, tn_number_real(value));
    return tn_number_load(dtype, &bits).f;
}

/* Writes over a workspace, as a library does. 0: it is not the device's memory. */
static inline int use_workspace(CUcontext context, CUdeviceptr address, size_t bytes)
{
    void *workspace = bytes ? cuda_test_place(context, address, bytes) : NULL;
    if (workspace) memset(workspace, 0xee, bytes);
    return workspace || !bytes;
}

#endif
