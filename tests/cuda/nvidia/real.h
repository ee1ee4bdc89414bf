/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the libraries in front of NVIDIA's own ones share. Such a library has the name and the functions of the one behind it, hands
 * each call on, and counts: so the plugin is tested with what NVIDIA's library says of its descriptions, on a machine without a GPU.
 * Work does not run: results are what was in memory before.
 */
#ifndef TESTS_CUDA_NVIDIA_REAL_H
#define TESTS_CUDA_NVIDIA_REAL_H

#include "../libraries/stand_in.h"

#include <dlfcn.h>

/* Calls that the library behind refused; choices of an algorithm; work that it was asked for. */
enum { REFUSED, CHOICES, EXECUTED };

/* A function of the library that the environment names. */
static inline void *real(const char *variable, const char *function)
{
    static void *library;
    if (!library) library = dlopen(getenv(variable), RTLD_NOW | RTLD_LOCAL);
    return library ? dlsym(library, function) : NULL;
}

/* Calls it; the status is noted if it is not 0. */
#define REAL(variable, function, ...)                                                    \
    ({                                                                                   \
        __typeof__(&function) called = (__typeof__(&function))real(variable, #function); \
        noted(#function, called ? called(__VA_ARGS__) : 1);                              \
    })

static inline int noted(const char *function, int status)
{
    if (status) {
        count(REFUSED, 1);
        fprintf(stderr, "%s: status %d\n", function, status);
    }
    return status;
}

#endif
