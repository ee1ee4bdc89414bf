/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions and numbers of NCCL 2 that the plugin uses, after NVIDIA's documentation of the library: its header is not
 * needed. RCCL has the same ones. Communicators are opaque; a stream is the driver's.
 */
#ifndef TENON_CUDA_NCCL_H
#define TENON_CUDA_NCCL_H

#include <stddef.h>

enum { /* results */
       NCCL_SUCCESS = 0,
       NCCL_UNHANDLED_CUDA_ERROR,
       NCCL_SYSTEM_ERROR,
       NCCL_INTERNAL_ERROR,
       NCCL_INVALID_ARGUMENT,
       NCCL_INVALID_USAGE,
       NCCL_REMOTE_ERROR,
       NCCL_IN_PROGRESS,
       NCCL_TIMEOUT,
       NCCL_RESULTS
};
enum { /* types of elements */
       NCCL_INT8 = 0,
       NCCL_UINT8,
       NCCL_INT32,
       NCCL_UINT32,
       NCCL_INT64,
       NCCL_UINT64,
       NCCL_FLOAT16,
       NCCL_FLOAT32,
       NCCL_FLOAT64,
       NCCL_BFLOAT16
};
enum { NCCL_SUM = 0, NCCL_PRODUCT, NCCL_MAX, NCCL_MIN, NCCL_AVERAGE }; /* reductions */
#define NCCL_LEAST 21000                                               /* version 2.10: averages */

/* By which processes find each other. */
typedef struct nccl_id {
    char bytes[128];
} nccl_id;

/* X(result, name, arguments) */
#define NCCL_FUNCTIONS(X)                                                                                    \
    X(int, ncclGetVersion, (int *out))                                                                       \
    X(const char *, ncclGetErrorString, (int result))                                                        \
    X(int, ncclGetUniqueId, (nccl_id * out))                                                                 \
    X(int, ncclCommInitRank, (void **out, int world, nccl_id id, int rank))                                  \
    X(int, ncclCommDestroy, (void *communicator))                                                            \
    X(int, ncclCommAbort, (void *communicator))                                                              \
    X(int, ncclCommGetAsyncError, (void *communicator, int *out))                                            \
    X(int, ncclGroupStart, (void))                                                                           \
    X(int, ncclGroupEnd, (void))                                                                             \
    X(int, ncclAllReduce,                                                                                    \
      (const void *from, void *to, size_t count, int type, int reduction, void *communicator, void *stream)) \
    X(int, ncclBroadcast,                                                                                    \
      (const void *from, void *to, size_t count, int type, int root, void *communicator, void *stream))      \
    X(int, ncclAllGather,                                                                                    \
      (const void *from, void *to, size_t count, int type, void *communicator, void *stream))                \
    X(int, ncclReduceScatter,                                                                                \
      (const void *from, void *to, size_t count, int type, int reduction, void *communicator, void *stream)) \
    X(int, ncclSend, (const void *from, size_t count, int type, int to, void *communicator, void *stream))   \
    X(int, ncclRecv, (void *to, size_t count, int type, int from, void *communicator, void *stream))

#endif
