/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of tests that stand before the C library's, for some libraries alone. */
#ifndef TENON_TESTS_GPU_CALLER_H
#define TENON_TESTS_GPU_CALLER_H

#include <dlfcn.h>
#include <string.h>

/* Whether the caller, a return address, is in a library whose name begins so. */
static inline int is_of(const void *caller, const char *library)
{
    Dl_info found;
    if (!dladdr(caller, &found) || !found.dli_fname) return 0;
    const char *name = strrchr(found.dli_fname, '/');
    return strncmp(name ? name + 1 : found.dli_fname, library, strlen(library)) == 0;
}

#endif
