/* SPDX-License-Identifier: Apache-2.0 */
/* What the vendor's libraries for tests share: objects, contexts and workspaces. */
#ifndef TESTS_CUDA_LIBRARIES_STAND_IN_H
#define TESTS_CUDA_LIBRARIES_STAND_IN_H

#include "../../gpu/stand_in.h"
#include "library.h"

/* Of a table of the library's functions. */
#define DECLARE(result, name, arguments) TEST_API result name arguments;

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

/* Whether there is device memory for the library's code and handle, which are not of the program's memory. */
static inline int has_memory(void)
{
#ifdef HIP
    return 1;
#else
    size_t available, total;
    return !cuMemGetInfo(&available, &total) && available >= (size_t)64 << 20;
#endif
}

/* Waits for the work of a stream. */
static inline CUresult library_finish(CUstream stream)
{
    CUcontext context;
    CUresult result = library_context(&context);
    if (!result) result = cuCtxPushCurrent(context);
    if (result) return result;
    result = cuStreamSynchronize(stream);
    cuCtxPopCurrent(&context);
    return result;
}

/* Writes over a workspace, as a library does. 0: it is not the device's memory. */
static inline int use_workspace(CUcontext context, CUdeviceptr address, size_t bytes)
{
    void *workspace = bytes ? cuda_test_place(context, address, bytes) : NULL;
    if (workspace) memset(workspace, 0xee, bytes);
    return workspace || !bytes;
}

/*
 * Work of a handle of AMD's uses memory of the handle. It has a number when it is queued, and has to run in that order, also if it is on
 * several streams; on hardware it may hang otherwise. A graph would run it again.
 */
typedef struct turns {
    int queued, ran;
} turns;

static inline int is_in_turn(turns *t, int number)
{
    return __atomic_fetch_add(&t->ran, 1, __ATOMIC_ACQ_REL) == number;
}

#endif
