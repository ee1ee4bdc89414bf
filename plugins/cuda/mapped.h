/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What share.c and segments.c have in common: memory that is mapped (cuMemMap). Peer access of contexts does not cover it: each
 * device that uses it must be allowed to. What the driver fails to unmap stays in the device's lists, and is tried again when the
 * device is closed.
 */
#ifndef TENON_CUDA_MAPPED_H
#define TENON_CUDA_MAPPED_H

#include "cuda_driver.h"

CUmemAllocationProp cuda_mapped_properties(const cuda_device *d, CUmemAllocationHandleType handles);
/* As cuda_check, but what the GPU or its driver lacks is TN_E_UNSUPPORTED: `feature` is what needs it. */
int32_t cuda_mapped_check(cuda_device *d, CUresult result, const char *feature, const char *what);
/* Lets the device itself and those that may read from it use a range. With the lock of mappings held. */
CUresult cuda_mapped_allow(cuda_device *d, CUdeviceptr address, size_t bytes);

/* Lets one more device use what there is. With the lock of mappings held. */
CUresult cuda_shares_admit(cuda_device *d, const CUmemAccessDesc *reader);
CUresult cuda_segments_admit(cuda_device *d, const CUmemAccessDesc *reader);
/* Before the device is closed. */
void cuda_shares_close(cuda_device *d);
void cuda_segments_close(cuda_device *d);

#endif
