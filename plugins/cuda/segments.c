/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that grows: a range of addresses of which the beginning is mapped, in pieces of one size. A piece is the memory of its
 * mapping alone (its handle is released at once), so it goes when it is unmapped.
 */
#include "mapped.h"

#include <stdlib.h>

#define PIECE ((size_t)2 << 20) /* what sizes of such memory are multiples of: a larger one is not cut */

struct cuda_segment {
    cuda_segment *next;
    CUdeviceptr address;
    size_t range;
    size_t mapped; /* bytes that have memory; after a failure more than `usable` */
    size_t usable; /* bytes that devices may use: what the caller knows */
    int32_t is_free;
};

#define CHECK(d, result, what)    cuda_mapped_check(d, result, "memory that grows", what)
#define MAPPING(d, function, ...) CHECK(d, CALL(d, function, __VA_ARGS__), #function)

int32_t cuda_segment_reserve(void *device, uint64_t bytes, void **out_memory)
{
    cuda_device *d = device;
    const CUmemAllocationProp properties = cuda_mapped_properties(d, CU_MEM_HANDLE_TYPE_NONE);
    size_t granularity = 0;
    int32_t status = MAPPING(d, cuMemGetAllocationGranularity, &granularity, &properties,
                             CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (status) return status;
    if (!granularity || PIECE % granularity)
        return gpu_error(d->plugin, TN_E_UNSUPPORTED, "memory that grows: the GPU has pages of %zu bytes",
                         granularity);
    cuda_segment *s = calloc(1, sizeof *s);
    if (!s) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    s->range = bytes;
    status = MAPPING(d, cuMemAddressReserve, &s->address, s->range, PIECE, 0, 0);
    if (status) {
        free(s);
        return status;
    }
    pthread_mutex_lock(&d->mapping);
    s->next = d->segments;
    __atomic_store_n(&d->segments, s, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&d->mapping);
    *out_memory = (void *)(uintptr_t)s->address;
    return TN_OK;
}

/* The segment that begins there, or NULL. With the lock of mappings held. */
static cuda_segment *find(const cuda_device *d, const void *memory)
{
    cuda_segment *s = d->segments;
    while (s && (s->address != (uintptr_t)memory || s->is_free)) s = s->next;
    return s;
}

/* The last pieces lose their memory, until so many bytes have some. */
static CUresult unmap(cuda_device *d, cuda_segment *s, size_t bytes)
{
    CUresult result = CUDA_SUCCESS;
    while (s->mapped > bytes && !result) {
        result = CALL(d, cuMemUnmap, s->address + s->mapped - PIECE, PIECE);
        if (!result) s->mapped -= PIECE;
    }
    return result;
}

static int32_t shrink(cuda_device *d, cuda_segment *s, size_t bytes)
{
    CUresult result = unmap(d, s, bytes);
    if (s->usable > s->mapped) s->usable = s->mapped;
    return CHECK(d, result, "cuMemUnmap");
}

static int32_t add_piece(cuda_device *d, cuda_segment *s)
{
    const CUmemAllocationProp properties = cuda_mapped_properties(d, CU_MEM_HANDLE_TYPE_NONE);
    CUmemGenericAllocationHandle handle = 0;
    int32_t status = MAPPING(d, cuMemCreate, &handle, PIECE, &properties, 0);
    if (status) return status;
    status = MAPPING(d, cuMemMap, s->address + s->mapped, PIECE, 0, handle, 0);
    CALL(d, cuMemRelease, handle);
    if (!status) s->mapped += PIECE;
    return status;
}

/* After a failure the pieces go; one that does not is used by the next growth. */
static int32_t grow(cuda_device *d, cuda_segment *s, size_t bytes)
{
    int32_t status = TN_OK;
    while (s->mapped < bytes && !status) status = add_piece(d, s);
    if (!status)
        status = CHECK(d, cuda_mapped_allow(d, s->address + s->usable, bytes - s->usable), "cuMemSetAccess");
    if (!status)
        s->usable = bytes;
    else
        (void)unmap(d, s, s->usable); /* the error of what has failed stays */
    return status;
}

int32_t cuda_segment_resize(void *device, void *memory, uint64_t bytes)
{
    cuda_device *d = device;
    int32_t status = TN_OK;
    pthread_mutex_lock(&d->mapping);
    cuda_segment *s = find(d, memory);
    if (s && bytes > s->range)
        status = gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "memory of %llu bytes cannot grow to %llu",
                           (unsigned long long)s->range, (unsigned long long)bytes);
    else if (!s || bytes % PIECE)
        status = gpu_error(d->plugin, TN_E_CONTRACT, "%p cannot have %llu bytes", memory,
                           (unsigned long long)bytes);
    else if (bytes > s->usable)
        status = grow(d, s, bytes);
    else if (bytes < s->usable)
        status = shrink(d, s, bytes);
    pthread_mutex_unlock(&d->mapping);
    return status;
}

/* Gives all of it back, or as much as the driver lets go. With the lock of mappings held. */
static int32_t give_back(cuda_device *d, cuda_segment *s)
{
    return !unmap(d, s, 0) && !CALL(d, cuMemAddressFree, s->address, s->range);
}

static void remove_segment(cuda_device *d, cuda_segment *s)
{
    cuda_segment **at = &d->segments;
    while (*at != s) at = &(*at)->next;
    __atomic_store_n(at, s->next, __ATOMIC_RELEASE);
    free(s);
}

int32_t cuda_segment_free(cuda_device *d, const void *memory)
{
    if (!__atomic_load_n(&d->segments, __ATOMIC_ACQUIRE)) return 0;
    pthread_mutex_lock(&d->mapping);
    cuda_segment *s = find(d, memory);
    if (s) s->is_free = 1;
    if (s && give_back(d, s)) remove_segment(d, s);
    pthread_mutex_unlock(&d->mapping);
    return s != NULL;
}

CUresult cuda_segments_admit(cuda_device *d, const CUmemAccessDesc *reader)
{
    CUresult result = CUDA_SUCCESS;
    for (const cuda_segment *s = d->segments; s && !result; s = s->next)
        if (s->usable) result = CALL(d, cuMemSetAccess, s->address, s->usable, reader, 1);
    return result;
}

void cuda_segments_close(cuda_device *d)
{
    for (cuda_segment *s = d->segments, *next; s; s = next) {
        next = s->next;
        (void)give_back(d, s);
        free(s);
    }
    d->segments = NULL;
}
