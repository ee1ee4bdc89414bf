/* SPDX-License-Identifier: Apache-2.0 */
/* Failures of libraries for tests. The environment: LIBRARY_FAIL=FUNCTION:N:STATUS, call N of the function (from 1 on) returns the
 * status; N 0: each call. */
#ifndef TENON_TESTS_GPU_LIBRARY_FAULT_H
#define TENON_TESTS_GPU_LIBRARY_FAULT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The status that the environment asks for. */
static inline int library_fault(const char *function)
{
    char name[64];
    static int calls;
    int n, status;
    const char *text = getenv("LIBRARY_FAIL");
    if (!text || sscanf(text, "%63[^:]:%d:%d", name, &n, &status) != 3 || strcmp(name, function) != 0)
        return 0;
    return !n || __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) == n ? status : 0;
}

#endif
