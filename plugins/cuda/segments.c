/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that grows: a range of addresses of which the beginning is mapped, in pieces of one size. A piece is the memory of its
 * mapping alone (its handle is released at once), so it goes when it is unmapped.
 */
#include "cuda_driver.h"

#include <stdlib.h>

#define PIECE ((size_t)2 << 20) /* what sizes of such memory are multiples of */

struct cuda_segment {
    cuda_segment *next;
    CUdeviceptr address;
    size_t range, mapped;
};

/* As cuda_check; what the GPU or its driver does not support is no failure of theirs. */
static int32_t check(cuda_device *d, CUresult result, const char *what)
{
    if (result != CUDA_ERROR_NOT_SUPPORTED) return cuda_check(d, result, what);
    return gpu_error(d->plugin, TN_E_UNSUPPORTED, "memory that grows: %s failed: %s", what,
                     cuda_result_name(d->cu, result));
}
#define MAPPING(d, function, ...) check(d, CALL(d, function, __VA_ARGS__), #function)

static CUmemAllocationProp properties_of(const cuda_device *d)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->id}};
}

int32_t cuda_segment_reserve(void *device, uint64_t bytes, void **out_memory)
{
    cuda_device *d = device;
    const CUmemAllocationProp properties = properties_of(d);
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
    pthread_mutex_lock(&d->lock);
    s->next = d->segments;
    __atomic_store_n(&d->segments, s, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&d->lock);
    *out_memory = (void *)(uintptr_t)s->address;
    return TN_OK;
}

/* The segment that begins there, or NULL; callers of resize and free do not use one at once. */
static cuda_segment *find(cuda_device *d, const void *memory, int32_t takes)
{
    pthread_mutex_lock(&d->lock);
    cuda_segment **at = &d->segments, *found;
    while (*at && (*at)->address != (uintptr_t)memory) at = &(*at)->next;
    found = *at;
    if (found && takes) __atomic_store_n(at, found->next, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&d->lock);
    return found;
}

/* The last pieces lose their memory, until so many bytes have some. */
static int32_t shrink(cuda_device *d, cuda_segment *s, size_t bytes)
{
    int32_t status = TN_OK;
    while (s->mapped > bytes && !status) {
        status = MAPPING(d, cuMemUnmap, s->address + s->mapped - PIECE, PIECE);
        if (!status) s->mapped -= PIECE;
    }
    return status;
}

static int32_t add_piece(cuda_device *d, cuda_segment *s)
{
    const CUmemAllocationProp properties = properties_of(d);
    CUmemGenericAllocationHandle handle = 0;
    int32_t status = MAPPING(d, cuMemCreate, &handle, PIECE, &properties, 0);
    if (status) return status;
    status = MAPPING(d, cuMemMap, s->address + s->mapped, PIECE, 0, handle, 0);
    CALL(d, cuMemRelease, handle);
    if (!status) s->mapped += PIECE;
    return status;
}

static int32_t grow(cuda_device *d, cuda_segment *s, size_t bytes)
{
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->id},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const size_t before = s->mapped;
    int32_t status = TN_OK;
    while (s->mapped < bytes && !status) status = add_piece(d, s);
    if (!status) status = MAPPING(d, cuMemSetAccess, s->address + before, bytes - before, &access, 1);
    while (status && s->mapped > before) { /* the error of what has failed stays */
        s->mapped -= PIECE;
        CALL(d, cuMemUnmap, s->address + s->mapped, PIECE);
    }
    return status;
}

int32_t cuda_segment_resize(void *device, void *memory, uint64_t bytes)
{
    cuda_device *d = device;
    cuda_segment *s = find(d, memory, 0);
    if (s && bytes > s->range)
        return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "memory of %llu bytes cannot grow to %llu",
                         (unsigned long long)s->range, (unsigned long long)bytes);
    if (!s || bytes % PIECE)
        return gpu_error(d->plugin, TN_E_CONTRACT, "%p cannot have %llu bytes", memory,
                         (unsigned long long)bytes);
    if (bytes == s->mapped) return TN_OK;
    return bytes > s->mapped ? grow(d, s, bytes) : shrink(d, s, bytes);
}

int32_t cuda_segment_free(cuda_device *d, const void *memory)
{
    cuda_segment *s = __atomic_load_n(&d->segments, __ATOMIC_ACQUIRE) ? find(d, memory, 1) : NULL;
    if (!s) return 0;
    for (; s->mapped; s->mapped -= PIECE) CALL(d, cuMemUnmap, s->address + s->mapped - PIECE, PIECE);
    CALL(d, cuMemAddressFree, s->address, s->range);
    free(s);
    return 1;
}
