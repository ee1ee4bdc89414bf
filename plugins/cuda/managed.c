/* SPDX-License-Identifier: Apache-2.0 */
/* Managed memory of CUDA, which host and device use at one address: unified memory of the family. */
#include "cuda_driver.h"

#include <stdio.h>

/* Without concurrent access the host must not touch any managed memory while a kernel runs, of whatever stream. */
uint32_t cuda_has_managed(const cuda_symbols *cu, CUdevice id)
{
    return cuda_number_of(cu, id, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) &&
           cuda_number_of(cu, id, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
}

int32_t cuda_managed_alloc(void *device, uint64_t bytes, void **out_memory, void **out_host)
{
    cuda_device *d = device;
    CUdeviceptr address = (CUdeviceptr)0;
    char what[80];
    CUresult result = CALL(d, cuMemAllocManaged, &address, bytes, CU_MEM_ATTACH_GLOBAL);
    if (result != CUDA_SUCCESS) {
        snprintf(what, sizeof what, "an allocation of %llu bytes of managed memory",
                 (unsigned long long)bytes);
        return cuda_check(d, result, what);
    }
    *out_memory = *out_host = (void *)(uintptr_t)address;
    return TN_OK;
}
