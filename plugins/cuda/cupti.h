/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions, numbers and records of CUPTI (12 and 13) that the plugin uses, after NVIDIA's documentation of the library: its
 * headers are not needed. Records grow with each version at their ends; the parts here are the same in both.
 */
#ifndef TENON_CUDA_CUPTI_H
#define TENON_CUDA_CUPTI_H

#include <stddef.h>
#include <stdint.h>

enum {
    CUPTI_SUCCESS = 0,
    CUPTI_INVALID_PARAMETER = 1,
    CUPTI_NO_MORE_RECORDS = 12, /* of a buffer */
    CUPTI_NOT_INITIALIZED = 15,
    CUPTI_QUEUE_EMPTY = 18
};
enum { /* kinds of records */
       CUPTI_MEMCPY = 1,
       CUPTI_MEMSET = 2,
       CUPTI_DRIVER = 4,
       CUPTI_RUNTIME = 5,
       CUPTI_KERNEL = 10,
       CUPTI_MEMCPY_PEER = 22,
       CUPTI_EXTERNAL = 39
};
enum {
    CUPTI_EXTERNAL_OWN = 3
}; /* the first of the kinds of external numbers that programs use as they like */
enum { CUPTI_FLUSH_FORCED = 1 }; /* records that are not complete, too */
enum { CUPTI_BUFFER_ALIGNMENT = 8 };
enum { /* functions of the driver, of which no record is wanted: they are called with each other one */
       CUPTI_CTX_PUSH = 323,
       CUPTI_CTX_POP = 324,
       CUPTI_CTX_GET = 304,
       CUPTI_CAPTURE_MODE = 541
};

/* Records are packed and begin at multiples of 8 bytes. */
typedef struct cupti_record {
    uint32_t kind;
} cupti_record;

typedef struct cupti_kernel {
    uint32_t kind;
    uint8_t cache[12]; /* how caches and registers are used */
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    int32_t grid[3], block[3];
    int32_t shared_static, shared_dynamic;
    uint32_t local_per_thread, local_total;
    uint32_t correlation;
    int64_t number;
    const char *name;
} cupti_kernel;

typedef struct cupti_memcpy {
    uint32_t kind;
    uint8_t direction, from_kind, to_kind, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream;
    uint32_t correlation;
} cupti_memcpy;

typedef struct cupti_memcpy_peer {
    uint32_t kind;
    uint8_t direction, from_kind, to_kind, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream;
    uint32_t from_device, from_context, to_device, to_context;
    uint32_t correlation;
} cupti_memcpy_peer;

typedef struct cupti_memset {
    uint32_t kind, value;
    uint64_t bytes, start, end;
    uint32_t device, context, stream;
    uint32_t correlation;
} cupti_memset;

typedef struct cupti_external {
    uint32_t kind, external_kind;
    uint64_t external;
    uint32_t correlation, reserved;
} cupti_external;

_Static_assert(offsetof(cupti_kernel, start) == 16 && offsetof(cupti_kernel, device) == 40 &&
                   offsetof(cupti_kernel, correlation) == 92 && offsetof(cupti_kernel, name) == 104,
               "as CUPTI has it");
_Static_assert(offsetof(cupti_memcpy, start) == 16 && offsetof(cupti_memcpy, correlation) == 44 &&
                   offsetof(cupti_memcpy_peer, correlation) == 60 && offsetof(cupti_memset, start) == 16 &&
                   offsetof(cupti_memset, correlation) == 44 && offsetof(cupti_external, correlation) == 16,
               "as CUPTI has it");

/* Directions of copies. */
#define CUPTI_DIRECTIONS(X)  \
    X(1, "host to device")   \
    X(2, "device to host")   \
    X(8, "device to device") \
    X(10, "between devices")

typedef void cupti_buffer_wanted(uint8_t **out_buffer, size_t *out_bytes, size_t *out_most);
typedef void cupti_buffer_full(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid);

/* X(result, name, arguments). */
#define CUPTI_FUNCTIONS(X)                                                                           \
    X(int, cuptiGetResultString, (int result, const char **out_text))                                \
    X(int, cuptiGetTimestamp, (uint64_t * out_nanoseconds))                                          \
    X(int, cuptiActivityRegisterCallbacks, (cupti_buffer_wanted * wanted, cupti_buffer_full * full)) \
    X(int, cuptiActivityEnable, (uint32_t kind))                                                     \
    X(int, cuptiActivityDisable, (uint32_t kind))                                                    \
    X(int, cuptiActivityFlushAll, (uint32_t flags))                                                  \
    X(int, cuptiActivityGetNextRecord, (uint8_t * buffer, size_t valid, cupti_record * *io_record))  \
    X(int, cuptiActivityGetNumDroppedRecords, (void *context, uint32_t stream, size_t *out_dropped)) \
    X(int, cuptiActivityPushExternalCorrelationId, (uint32_t external_kind, uint64_t external))      \
    X(int, cuptiActivityPopExternalCorrelationId, (uint32_t external_kind, uint64_t * out_last))
/* Which older ones do not have. */
#define CUPTI_OPTIONAL_FUNCTIONS(X) X(int, cuptiActivityEnableDriverApi, (uint32_t function, uint8_t is_on))

#endif
