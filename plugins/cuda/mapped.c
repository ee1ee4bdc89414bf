/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices may use mapped memory, and what share.c and segments.c have in common besides. */
#include "mapped.h"

enum { MOST = 64 }; /* devices */

static CUmemAccessDesc access_of(CUdevice id)
{
    return (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = id},
                             .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

CUmemAllocationProp cuda_mapped_properties(const cuda_device *d, CUmemAllocationHandleType handles)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = handles,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->id}};
}

int32_t cuda_mapped_check(cuda_device *d, CUresult result, const char *feature, const char *what)
{
    if (result != CUDA_ERROR_NOT_SUPPORTED) return cuda_check(d, result, what);
    return gpu_error(d->plugin, TN_E_UNSUPPORTED, "%s: %s failed: %s", feature, what,
                     cuda_result_name(d->cu, result));
}

CUresult cuda_mapped_allow(cuda_device *d, CUdeviceptr address, size_t bytes)
{
    CUmemAccessDesc access[MOST];
    size_t count = 0;
    access[count++] = access_of(d->id);
    for (uint32_t i = 0; i < MOST && count < MOST; i++)
        if (d->readers >> i & 1) access[count++] = access_of(cuda_device_id(d->plugin, i));
    return CALL(d, cuMemSetAccess, address, bytes, access, count);
}

int32_t cuda_mapped_admit(cuda_device *d, const cuda_device *reader)
{
    const CUmemAccessDesc access = access_of(reader->id);
    pthread_mutex_lock(&d->mapping);
    CUresult result = cuda_segments_admit(d, &access);
    if (!result) result = cuda_shares_admit(d, &access);
    if (!result) d->readers |= (uint64_t)1 << reader->index;
    pthread_mutex_unlock(&d->mapping);
    return cuda_check(d, result, "cuMemSetAccess");
}
