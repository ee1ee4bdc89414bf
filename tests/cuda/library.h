/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the test driver offers to the vendor's libraries for tests: work on its streams that finds device memory. The
 * environment: LIBRARY_FAIL=FUNCTION:N:STATUS, call N of the function (from 1 on) returns the status.
 */
#ifndef TESTS_CUDA_LIBRARY_H
#define TESTS_CUDA_LIBRARY_H

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEST_API __attribute__((visibility("default")))

typedef CUresult cuda_test_work(CUcontext context, void *data);
/* Queues a function with a copy of its data, on a thread of the driver. */
TEST_API CUresult cuda_test_queue(CUstream stream, cuda_test_work *function, const void *data, size_t bytes);
/* Where device memory lies, or NULL: the range is not in one allocation. */
TEST_API void *cuda_test_place(CUcontext context, CUdeviceptr address, size_t bytes);

/* The status that the environment asks for. */
static inline int library_fault(const char *function)
{
    char name[64];
    static int calls;
    int n, status;
    const char *text = getenv("LIBRARY_FAIL");
    if (!text || sscanf(text, "%63[^:]:%d:%d", name, &n, &status) != 3 || strcmp(name, function) != 0)
        return 0;
    return __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) == n ? status : 0;
}

#endif
